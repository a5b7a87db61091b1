/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Whatever is asked becomes work for the screen (fused_stage.c) or for canonical keys of all
 * pairs (fused_direct.c), and is cut until it fits:
 *
 *      everything fits              one stripe of queries against the corpus
 *      queries or lists do not      stripes of queries, the corpus resident
 *      the corpus does not          chunks of the corpus, stripes of queries, lists merged
 *
 * A few queries against a corpus that is resident take a way of their own (fused_batch.c). Both
 * directions are two searches of two corpora; one product for both would save a screen.
 */
#include "fused/fused_search.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "fused/fused_side.h"

/* ---- Corpora --------------------------------------------------------------------------------- */

/* A corpus of bytes that waits for bytes, and is asked with something else, is prepared again from
 * the rows on the device. */
static kith_status corpus_for(kith_ctx *ctx, const kin_fused_corpus *corpus,
                              const kith_matrix *queries, int64_t k, kin_fused_corpus **again)
{
    *again = NULL;
    const kin_fused_set *set = &corpus->prepared.set;
    if (set->points == 0 || set->frame.bound != KIN_BOUND_INTEGER ||
        kin_frame_is_integer(&corpus->distance, &corpus->points, queries)) {
        return KITH_OK;
    }
    kith_matrix points = corpus->points;
    points.data = corpus->prepared.rows.data;
    points.stride_bytes = corpus->prepared.rows.stride_bytes;
    const kin_fused_source source = {&points, &corpus->distance, "corpus",
                                     KIN_FUSED_DATA_ON_DEVICE};
    return kin_fused_corpus_make(ctx, corpus->gpu, &source, queries->dtype, k, again);
}

/* Once, with the scope that there is. */
static kith_status ask(kith_ctx *ctx, const kin_fused_corpus *corpus, const kin_fused_query *query)
{
    const kin_request *request = query->request;
    const kith_matrix *queries = query->queries;
    const bool screens = kin_fused_screens(request, corpus->points.rows, queries->rows);
    kin_fused_corpus *again = NULL;
    kin_fused_tally tally = {0};
    bool done = false;
    kith_status status = KITH_OK;
    if (screens) {
        KIN_TRY(corpus_for(ctx, corpus, queries, request->k, &again));
    }
    const kin_fused_corpus *use = again != NULL ? again : corpus;
    if (screens && request->pipeline == NULL) {
        KIN_TRY_GOTO(status, kin_fused_batch_search(ctx, use, query, &done), done);
    }
    if (done) {
        goto done;
    }
    KIN_TRY_GOTO(status, kin_fused_search_stripes(ctx, use, query, &tally), done);
    if (screens) {
        kin_fused_report(ctx, &use->prepared, &tally, queries->rows);
    }
done:
    kin_fused_corpus_free(ctx, again);
    return status;
}

kith_status kin_fused_corpus_search(kith_ctx *ctx, const kin_fused_corpus *corpus,
                                    const kith_matrix *queries, const kin_request *request,
                                    uint32_t place, const kith_neighbors *out)
{
    const kin_fused_query query = {queries, "queries", request, place, out};
    kith_status status = KITH_OK;
    do {
        status = ask(ctx, corpus, &query);
    } while (kin_fused_again(ctx, corpus->gpu, status));
    return status;
}

/* ---- Search ---------------------------------------------------------------------------------- */

static kith_status try_search(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                              const kin_fused_query *query)
{
    const kin_request *request = query->request;
    const kin_fused_source source = {corpus, &request->distance, "corpus", query->place};
    kin_fused_corpus *resident = NULL;
    kith_status status =
        kin_fused_corpus_make(ctx, gpu, &source, query->queries->dtype, request->k, &resident);
    if (status == KITH_OK) {
        status = ask(ctx, resident, query);
    }
    kin_fused_corpus_free(ctx, resident);
    if (status != KITH_E_DEVICE_MEMORY) {
        return status;
    }
    kin_forgive(ctx);
    kin_gpu_trim(gpu);
    return kin_fused_search_chunks(ctx, gpu, corpus, query);
}

/* ---- By several GPUs ------------------------------------------------------------------------- */

/*      each member: the whole corpus, its share of the queries, its rows of the outputs */
typedef struct team_search {
    const kith_matrix *corpus;
    const kin_fused_query *query;
} team_search;

/* What one member is asked. */
typedef struct team_share {
    kith_matrix queries;
    kin_request request;
    kith_neighbors out;
} team_share;

static team_share share_of(const team_search *job, int32_t part, int32_t parts)
{
    const int64_t rows = job->query->queries->rows;
    const int64_t first = rows * part / parts;
    const int64_t count = rows * (part + 1) / parts - first;
    team_share share = {kin_fused_part_of(job->query->queries, first, count), *job->query->request,
                        kin_fused_rows_of(job->query->out, first, count)};
    if (share.request.exclude != NULL) {
        share.request.exclude += first;
    }
    return share;
}

/* The corpus is prepared in lockstep, which brings it to the GPUs once; then each works alone. */
static kith_status search_resident(void *arg, kith_ctx *ctx, kin_gpu *gpu, int32_t part,
                                   int32_t parts)
{
    const team_search *job = arg;
    const team_share share = share_of(job, part, parts);
    const kin_fused_source source = {job->corpus, &share.request.distance, "corpus", 0};
    kin_fused_corpus *corpus = NULL;
    kith_status status = kin_fused_corpus_make(ctx, gpu, &source, job->query->queries->dtype,
                                               share.request.k, &corpus);
    status = kin_gpu_meet(gpu, status);
    kin_gpu_break_step(gpu);
    if (status == KITH_OK && share.queries.rows > 0) {
        status =
            kin_fused_corpus_search(ctx, corpus, &share.queries, &share.request, 0, &share.out);
    }
    kin_fused_corpus_free(ctx, corpus);
    return status;
}

/* A corpus that does not fit comes to each in chunks. */
static kith_status search_alone(void *arg, kith_ctx *ctx, kin_gpu *gpu, int32_t part, int32_t parts)
{
    const team_search *job = arg;
    const team_share share = share_of(job, part, parts);
    const kin_fused_query query = {&share.queries, "queries", &share.request, 0, &share.out};
    return share.queries.rows == 0 ? KITH_OK : kin_fused_search(ctx, gpu, job->corpus, &query);
}

static kith_status search_by_team(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                                  const kin_fused_query *query)
{
    team_search job = {corpus, query};
    const kith_status status = kin_gpu_team_run(ctx, gpu->team, true, search_resident, &job);
    if (status != KITH_E_DEVICE_MEMORY) {
        return status;
    }
    kin_forgive(ctx);
    return kin_gpu_team_run(ctx, gpu->team, false, search_alone, &job);
}

kith_status kin_fused_search(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                             const kin_fused_query *query)
{
    kith_status status = KITH_OK;
    if (kin_fused_team_searches(gpu, query->queries->rows, query->place)) {
        status = search_by_team(ctx, gpu, corpus, query);
        if (!kin_fused_team_yields(ctx, status)) {
            return status;
        }
    }
    do {
        status = try_search(ctx, gpu, corpus, query);
    } while (kin_fused_again(ctx, gpu, status));
    return status;
}

/* ---- Both directions ------------------------------------------------------------------------- */

/* What is asked by one direction as the corpus of the other. */
static kith_status make_side(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_query *own,
                             const kin_fused_query *other, kin_fused_corpus **corpus)
{
    const kin_fused_source source = {own->queries, &own->request->distance, own->name, own->place};
    return kin_fused_corpus_make(ctx, gpu, &source, other->queries->dtype, other->request->k,
                                 corpus);
}

/* Both resident, each asked with the other. */
static kith_status both_resident(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_query *ab,
                                 const kin_fused_query *ba)
{
    kin_fused_corpus *a = NULL;
    kin_fused_corpus *b = NULL;
    kith_status status = make_side(ctx, gpu, ab, ba, &a);
    if (status == KITH_OK) {
        status = make_side(ctx, gpu, ba, ab, &b);
    }
    if (status == KITH_OK) {
        status = ask(ctx, b, ab);
    }
    if (status == KITH_OK) {
        status = ask(ctx, a, ba);
    }
    kin_fused_corpus_free(ctx, b);
    kin_fused_corpus_free(ctx, a);
    return status;
}

static kith_status try_both(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_query *ab,
                            const kin_fused_query *ba)
{
    const kith_status status = both_resident(ctx, gpu, ab, ba);
    if (status != KITH_E_DEVICE_MEMORY) {
        return status;
    }
    kin_forgive(ctx);
    kin_gpu_trim(gpu);
    KIN_TRY(kin_fused_search_chunks(ctx, gpu, ba->queries, ab));
    return kin_fused_search_chunks(ctx, gpu, ab->queries, ba);
}

kith_status kin_fused_both(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_query *ab,
                           const kin_fused_query *ba)
{
    const int64_t fewer = kin_min_i64(ab->queries->rows, ba->queries->rows);
    kith_status status = KITH_OK;
    if (kin_fused_team_searches(gpu, fewer, ab->place)) {
        status = search_by_team(ctx, gpu, ba->queries, ab);
        if (status == KITH_OK) {
            status = search_by_team(ctx, gpu, ab->queries, ba);
        }
        if (!kin_fused_team_yields(ctx, status)) {
            return status;
        }
    }
    do {
        status = try_both(ctx, gpu, ab, ba);
    } while (kin_fused_again(ctx, gpu, status));
    return status;
}
