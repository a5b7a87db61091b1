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
#include "fused/fused_batch.h"
#include "fused/fused_side.h"
#include "fused/fused_team.h"

/* ---- Corpora --------------------------------------------------------------------------------- */

kith_status kin_fused_corpus_make(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *points,
                                  const kin_distance *distance, kith_dtype asked, int64_t k,
                                  const char *name, uint32_t place, kin_fused_corpus **out)
{
    kin_fused_corpus *corpus = NULL;
    *out = NULL;
    KIN_TRY(kin_alloc_zero(ctx, &corpus, 1, sizeof *corpus, "a corpus"));
    *corpus =
        (kin_fused_corpus){.gpu = gpu, .points = *points, .distance = *distance, .place = place};
    const kin_fused_device on = kin_fused_device_of(ctx, gpu);
    kith_status status = kin_fused_prepare_corpus(ctx, gpu, points, distance, asked, k, name, place,
                                                  &corpus->prepared);
    if (status == KITH_OK && corpus->prepared.set.points > 0) {
        status = kin_fused_worst_make(&on, &corpus->prepared.set, &corpus->worst);
    }
    if (status == KITH_OK && corpus->prepared.set.points > 0) {
        status = kin_fused_batch_prepare(ctx, corpus);
    }
    if (status != KITH_OK) {
        kin_fused_corpus_free(ctx, corpus);
        return status;
    }
    ctx->report.seconds_prepare +=
        corpus->prepared.seconds_prepare + corpus->prepared.seconds_upload;
    *out = corpus;
    return KITH_OK;
}

void kin_fused_corpus_free(kith_ctx *ctx, kin_fused_corpus *corpus)
{
    if (corpus == NULL) {
        return;
    }
    kin_fused_batch_free(corpus);
    kin_gpu_free(corpus->gpu, corpus->worst);
    kin_fused_prepared_free(ctx, corpus->gpu, &corpus->prepared);
    kin_free(ctx, corpus);
}

uint64_t kin_fused_corpus_bytes(const kin_fused_corpus *corpus)
{
    return kin_fused_prepared_bytes(&corpus->points, corpus->points.rows, &corpus->distance,
                                    corpus->points.dtype, corpus->place, true)
        .resident;
}

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
    return kin_fused_corpus_make(ctx, corpus->gpu, &points, &corpus->distance, queries->dtype, k,
                                 "corpus", KIN_FUSED_DATA_ON_DEVICE, again);
}

/* Once, with the scope that there is. */
static kith_status ask(kith_ctx *ctx, const kin_fused_corpus *corpus,
                       const kin_fused_asking *asking)
{
    const kin_request *request = asking->request;
    const kith_matrix *queries = asking->queries;
    const bool screens = kin_fused_screens(request, corpus->points.rows, queries->rows);
    kin_fused_corpus *again = NULL;
    kin_fused_tally tally = {0};
    bool done = false;
    kith_status status = KITH_OK;
    if (screens) {
        KIN_TRY(corpus_for(ctx, corpus, queries, request->k, &again));
    }
    const kin_fused_corpus *use = again != NULL ? again : corpus;
    if (screens && request->pipeline == KITH_PIPELINE_FUSED) {
        KIN_TRY_GOTO(status, kin_fused_batch_search(ctx, use, asking, &done), done);
    }
    if (done) {
        goto done;
    }
    KIN_TRY_GOTO(status, kin_fused_search_stripes(ctx, use, asking, &tally), done);
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
    const kin_fused_asking asking = {queries, "queries", request, place, out};
    kith_status status = KITH_OK;
    do {
        status = ask(ctx, corpus, &asking);
    } while (kin_fused_again(ctx, corpus->gpu, status));
    return status;
}

/* ---- Search ---------------------------------------------------------------------------------- */

static kith_status try_search(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                              const kith_matrix *queries, const kin_request *request,
                              uint32_t place, const kith_neighbors *out)
{
    kin_fused_corpus *resident = NULL;
    kith_status status = kin_fused_corpus_make(ctx, gpu, corpus, &request->distance, queries->dtype,
                                               request->k, "corpus", place, &resident);
    if (status == KITH_OK) {
        const kin_fused_asking asking = {queries, "queries", request, place, out};
        status = ask(ctx, resident, &asking);
    }
    kin_fused_corpus_free(ctx, resident);
    if (status != KITH_E_DEVICE_MEMORY) {
        return status;
    }
    kin_forgive(ctx);
    kin_gpu_trim(gpu);
    return kin_fused_search_chunks(ctx, gpu, corpus, queries, request, place, out);
}

kith_status kin_fused_search(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                             const kith_matrix *queries, const kin_request *request, uint32_t place,
                             const kith_neighbors *out)
{
    kith_status status = KITH_OK;
    if (kin_fused_team_searches(gpu, queries->rows, place)) {
        status = kin_fused_team_search(ctx, gpu, corpus, queries, request, out);
        if (!kin_fused_team_yields(ctx, status)) {
            return status;
        }
    }
    do {
        status = try_search(ctx, gpu, corpus, queries, request, place, out);
    } while (kin_fused_again(ctx, gpu, status));
    return status;
}

/* ---- Both directions ------------------------------------------------------------------------- */

/* Both resident, each asked with the other. */
static kith_status both_resident(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_asking *ab,
                                 const kin_fused_asking *ba)
{
    const kin_distance *distance = &ab->request->distance;
    kin_fused_corpus *a = NULL;
    kin_fused_corpus *b = NULL;
    kith_status status = kin_fused_corpus_make(ctx, gpu, ab->queries, distance, ba->queries->dtype,
                                               ba->request->k, ab->name, ab->place, &a);
    if (status == KITH_OK) {
        status = kin_fused_corpus_make(ctx, gpu, ba->queries, distance, ab->queries->dtype,
                                       ab->request->k, ba->name, ba->place, &b);
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

static kith_status try_both(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_asking *ab,
                            const kin_fused_asking *ba)
{
    const kith_status status = both_resident(ctx, gpu, ab, ba);
    if (status != KITH_E_DEVICE_MEMORY) {
        return status;
    }
    kin_forgive(ctx);
    kin_gpu_trim(gpu);
    KIN_TRY(kin_fused_search_chunks(ctx, gpu, ba->queries, ab->queries, ab->request, ab->place,
                                    ab->out));
    return kin_fused_search_chunks(ctx, gpu, ab->queries, ba->queries, ba->request, ba->place,
                                   ba->out);
}

kith_status kin_fused_both(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *a, const kith_matrix *b,
                           const kin_request *request, uint32_t place, const kith_neighbors *ab,
                           const kith_neighbors *ba)
{
    kin_request back = *request;
    back.k = ba->k;
    if (kin_fused_team_searches(gpu, kin_min_i64(a->rows, b->rows), place)) {
        kith_status status = kin_fused_team_search(ctx, gpu, b, a, request, ab);
        if (status == KITH_OK) {
            status = kin_fused_team_search(ctx, gpu, a, b, &back, ba);
        }
        if (!kin_fused_team_yields(ctx, status)) {
            return status;
        }
    }
    const kin_fused_asking forth = {a, "a", request, place, ab};
    const kin_fused_asking and_back = {b, "b", &back, place, ba};
    kith_status status = KITH_OK;
    do {
        status = try_both(ctx, gpu, &forth, &and_back);
    } while (kin_fused_again(ctx, gpu, status));
    return status;
}
