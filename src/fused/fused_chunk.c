/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A corpus that does not fit is taken in chunks, each prepared on its own: its own order,
 * frame and groups of equal rows, as if it were a corpus. Every query gets the first ids of each
 * chunk with their canonical keys, which do not depend on the chunk; their merge by (key, id) is
 * the answer.
 *
 *      for each chunk     upload, prepare
 *        for each stripe  upload, round in the chunk's frame, screen -> lists of the chunk
 *                         merge with the lists so far (host memory)
 *
 * What comes next is uploaded while this is computed: two threads, each with a stream of its own
 * (gpu/gpu_ahead.h). Chunks A, B, stripes 1, 2, 3, time from left to right:
 *
 *      rows of chunks    A |  |       B         |   |       C         |
 *      rows of stripes     |1 |  2  |  3  |  1 ...   |  2  |  3  |  1 ...
 *      prepare             |A |           |         |B |
 *      compute                |A 1  |A 2  |A 3      |   |B 1  |B 2  |B 3
 *      merge, host                 m     m     m             m     m
 *
 * Only the first chunk is waited for, and what takes longer to come than what is computed
 * meanwhile. The pairs that are downloaded for merging are not overlapped: they are 16 k bytes a
 * query and chunk, for k = 10 a third of 128 float columns.
 *
 * Memory. Host: rows x wanted pairs of 16 bytes. Device: a chunk and a stripe with its lists, and
 * the next ones' rows as they are given; chunks take at most half of the budget, so that stripes
 * stay large. Where there is no room for what comes next, or no longer, it is waited for.
 */
#include "fused/fused_side.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "gpu/gpu_ahead.h"
#include "host/host_threads.h"

typedef struct chunking {
    kith_ctx *ctx;
    kin_gpu *gpu;
    const kith_matrix *corpus;
    const kith_matrix *queries;
    const char *corpus_name;
    const char *query_name;
    const kin_request *request;
    uint32_t place;
    kin_fused_answers *answers;
    int64_t chunk; /* rows of a chunk */
    int64_t stripe;
    bool ahead; /* the next rows come while these are worked on */
} chunking;

/* ---- Sizes ----------------------------------------------------------------------------------- */

/* With no chunk on the device. rows 0: chunks of the size that suits best. Stripes do not grow. */
static void cut(chunking *c, int64_t rows)
{
    kin_fused_chunked sizes = {
        .corpus = c->corpus,
        .meeting = {.queries = c->queries,
                    .request = c->request,
                    .place = c->place,
                    .gpu = c->gpu,
                    .corpus_dtype = c->corpus->dtype,
                    .screens = kin_fused_screens(c->request, c->corpus->rows, c->queries->rows)},
        .room = kin_gpu_room(c->gpu),
        .scope = kin_gpu_scope(c->gpu),
        .ahead = c->ahead && kin_gpu_ahead_wanted(c->gpu)};
    if (rows > 0) {
        kin_fused_cut_stripes(&sizes, rows);
    } else {
        kin_fused_cut_chunks(&sizes);
    }
    c->chunk = sizes.chunk;
    c->stripe = kin_min_i64(c->stripe, sizes.stripe);
    c->ahead = sizes.ahead;
}

/* ---- A chunk and a stripe -------------------------------------------------------------------- */

static kith_status every_id(kith_ctx *ctx, int64_t count, uint32_t **ids)
{
    KIN_TRY(kin_alloc(ctx, ids, (uint64_t)count, sizeof **ids, "rows to write"));
    for (int64_t i = 0; i < count; i++) {
        (*ids)[i] = (uint32_t)i;
    }
    return KITH_OK;
}

/* Metrics without a screen, and k beyond its lists: canonical keys of all pairs. */
static kith_status solve_stripe(const chunking *c, const kin_fused_corpus *chunk,
                                const kin_fused_prepared *queries)
{
    uint32_t *ids = NULL;
    KIN_TRY(every_id(c->ctx, queries->rows.rows, &ids));
    const kith_status status = kin_fused_answers_solve(
        c->answers, &queries->rows, &chunk->prepared.rows, ids, queries->rows.rows);
    kin_free(c->ctx, ids);
    return status;
}

/* The chunk has nothing but degenerate rows. */
static kith_status answer_degenerates(const chunking *c, const kin_fused_prepared *queries)
{
    const kin_groups *groups = &queries->groups;
    uint32_t *ids = NULL;
    if (groups->firsts != NULL) {
        return kin_fused_answers_take_none(c->answers, groups->firsts, groups->count);
    }
    KIN_TRY(every_id(c->ctx, groups->count, &ids));
    const kith_status status = kin_fused_answers_take_none(c->answers, ids, groups->count);
    kin_free(c->ctx, ids);
    return status;
}

/* The rows of the stripe behind this one: of the same chunk, or the first of the next. */
static void bring_next_stripe(const chunking *c, int64_t behind, bool last_chunk)
{
    const int64_t first = behind < c->queries->rows ? behind : 0;
    if (c->ahead && (first > 0 || !last_chunk)) {
        kin_fused_prepare_ahead(c->ctx, c->gpu, c->queries, first,
                                kin_min_i64(c->stripe, c->queries->rows - first));
    }
}

static kith_status take_stripe(chunking *c, const kin_fused_corpus *chunk, int64_t first,
                               int64_t count, bool last_chunk)
{
    const bool screens = kin_fused_screens(c->request, c->corpus->rows, c->queries->rows);
    kin_fused_prepared queries;
    const kin_fused_device on = kin_fused_device_of(c->ctx, c->gpu);
    const kin_fused_source source = {c->queries, &c->request->distance, c->query_name, c->place};
    KIN_TRY(kin_fused_prepare_queries(&on, &source, screens ? &chunk->prepared.set.frame : NULL,
                                      first, count, &queries));
    bring_next_stripe(c, first + count, last_chunk);
    c->answers->row0 = (uint32_t)first;
    kith_status status = KITH_OK;
    if (!screens) {
        status = solve_stripe(c, chunk, &queries);
    } else if (chunk->prepared.groups.count == 0) {
        status = answer_degenerates(c, &queries);
    } else if (queries.groups.count > 0) {
        status = kin_fused_screen_side(c->answers, chunk, &queries, c->request);
    }
    kin_fused_prepared_free(c->ctx, c->gpu, &queries);
    return status;
}

/* Lists are merged behind everything that can run out of device memory, a batch at a time: a stripe
 * that fails may have merged a part. Its rows' lists are put back before it is tried again. */
typedef struct saved {
    kin_pair *lists;
    int32_t *counts;
} saved;

static kith_status save_lists(const chunking *c, int64_t first, int64_t count, saved *s)
{
    const kin_fused_answers *a = c->answers;
    const uint64_t cells = kin_size_mul((uint64_t)count, (uint64_t)a->wanted);
    KIN_TRY(kin_alloc(c->ctx, &s->lists, cells, sizeof *s->lists, "lists of a stripe"));
    KIN_TRY(kin_alloc(c->ctx, &s->counts, (uint64_t)count, sizeof *s->counts, "lists of a stripe"));
    memcpy(s->lists, a->merged + first * a->wanted, (size_t)cells * sizeof *s->lists);
    memcpy(s->counts, a->merged_count + first, (size_t)count * sizeof *s->counts);
    return KITH_OK;
}

static void restore_lists(const chunking *c, int64_t first, int64_t count, const saved *s)
{
    const kin_fused_answers *a = c->answers;
    memcpy(a->merged + first * a->wanted, s->lists, (size_t)(count * a->wanted) * sizeof *s->lists);
    memcpy(a->merged_count + first, s->counts, (size_t)count * sizeof *s->counts);
}

static void free_saved(kith_ctx *ctx, saved *s)
{
    kin_free(ctx, s->counts);
    kin_free(ctx, s->lists);
    *s = (saved){0};
}

static kith_status take_stripes(chunking *c, const kin_fused_corpus *chunk, bool last_chunk)
{
    for (int64_t first = 0; first < c->queries->rows;) {
        const int64_t count = kin_min_i64(c->stripe, c->queries->rows - first);
        saved s = {0};
        kith_status status = save_lists(c, first, count, &s);
        if (status == KITH_OK) {
            status = take_stripe(c, chunk, first, count, last_chunk);
        }
        const bool failed = status == KITH_E_DEVICE_MEMORY;
        const bool crowded = failed && kin_gpu_ahead_end(c->gpu);
        const bool again = crowded || (failed && count > KIN_FUSED_LEAST_ROWS);
        if (failed && s.counts != NULL) {
            restore_lists(c, first, count, &s);
        }
        free_saved(c->ctx, &s);
        if (again) {
            kin_forgive(c->ctx);
            kin_gpu_trim(c->gpu);
            if (crowded) {
                c->ahead = false;
            } else {
                c->stripe = kin_fused_halved(count);
            }
            continue;
        }
        KIN_TRY(status);
        first += count;
    }
    return KITH_OK;
}

/* ---- All chunks ------------------------------------------------------------------------------ */

static kith_status take_chunks(chunking *c)
{
    for (int64_t first = 0; first < c->corpus->rows;) {
        const int64_t count = kin_min_i64(c->chunk, c->corpus->rows - first);
        const kith_matrix part = kin_fused_part_of(c->corpus, first, count);
        const kin_fused_source source = {&part, &c->request->distance, c->corpus_name, c->place};
        kin_fused_corpus *chunk = NULL;
        const kith_status status = kin_fused_corpus_make(c->ctx, c->gpu, &source, c->queries->dtype,
                                                         c->request->k + 1, &chunk);
        const bool crowded = status == KITH_E_DEVICE_MEMORY && kin_gpu_ahead_end(c->gpu);
        if (crowded || (status == KITH_E_DEVICE_MEMORY && count > KIN_FUSED_LEAST_ROWS)) {
            kin_forgive(c->ctx);
            kin_gpu_trim(c->gpu);
            c->ahead = c->ahead && !crowded;
            cut(c, crowded ? c->chunk : kin_fused_halved(count));
            continue;
        }
        if (status == KITH_E_DATA && (c->place & KIN_FUSED_DATA_ON_DEVICE) == 0) {
            kin_forgive(c->ctx); /* the row's number is to be that of the whole corpus */
            return kin_metric_check(c->ctx, c->corpus, c->request->distance.metric, c->corpus_name);
        }
        KIN_TRY(status);
        kin_fused_answers_chunk(c->answers, &chunk->prepared.groups, (uint32_t)first);
        const int64_t behind = first + count;
        if (c->ahead && behind < c->corpus->rows) {
            kin_fused_prepare_ahead(c->ctx, c->gpu, c->corpus, behind,
                                    kin_min_i64(c->chunk, c->corpus->rows - behind));
        }
        const kith_status taken = take_stripes(c, chunk, behind == c->corpus->rows);
        kin_fused_corpus_free(c->ctx, chunk);
        KIN_TRY(taken);
        first = behind;
        KIN_TRY(kin_progress(c->ctx, "screen", (double)first, (double)c->corpus->rows));
    }
    return KITH_OK;
}

/* Where the smallest stripe has no room beside a chunk, everything is taken again in smaller
 * chunks: lists that hold a part of a chunk cannot give it back. */
static kith_status take_smaller_chunks(chunking *c)
{
    const int64_t rows = c->queries->rows;
    cut(c, 0);
    kith_status status = take_chunks(c);
    while (status == KITH_E_DEVICE_MEMORY && c->chunk > KIN_FUSED_LEAST_ROWS) {
        kin_forgive(c->ctx);
        kin_gpu_trim(c->gpu);
        c->stripe = rows;
        cut(c, kin_fused_halved(c->chunk));
        memset(c->answers->merged_count, 0, (size_t)rows * sizeof *c->answers->merged_count);
        status = take_chunks(c);
    }
    return status;
}

kith_status kin_fused_search_chunks(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                                    const kin_fused_query *query)
{
    const kith_matrix *queries = query->queries;
    const kin_request *request = query->request;
    const kith_neighbors *out = query->out;
    const uint32_t place = query->place;
    const bool graph = queries == NULL;
    const bool leaves_self = graph && (request->flags & KITH_INCLUDE_SELF) == 0;
    const bool leaves_out = leaves_self || (!graph && request->exclude != NULL);
    const kin_groups every_row = {.rows = out->rows, .count = out->rows};
    const kin_groups whole = {.rows = corpus->rows, .count = corpus->rows};
    kin_fused_answers a = {.on = kin_fused_device_of(ctx, gpu),
                           .metric = request->distance.metric,
                           .groups = &whole,
                           .target = {.groups = &every_row,
                                      .exclude = graph ? NULL : request->exclude,
                                      .leaves_self_out = leaves_self,
                                      .out = out},
                           .exclude_on_device = (place & KIN_FUSED_DATA_ON_DEVICE) != 0,
                           .wanted = kin_min_i64(request->k + (leaves_out ? 1 : 0), corpus->rows)};
    chunking c = {.ctx = ctx,
                  .gpu = gpu,
                  .corpus = corpus,
                  .queries = graph ? corpus : queries,
                  .corpus_name = graph ? "points" : "corpus",
                  .query_name = graph ? "points" : "queries",
                  .request = request,
                  .place = place,
                  .answers = &a,
                  .stripe = out->rows,
                  .ahead = (place & KIN_FUSED_DATA_ON_DEVICE) == 0};
    const kin_fused_prepared none = {.groups = whole};
    KIN_TRY(kin_fused_answers_make(&a, (place & KIN_FUSED_OUT_ON_DEVICE) != 0, true));
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, take_smaller_chunks(&c), done);
    KIN_TRY_GOTO(status, kin_fused_answers_finish(&a, out, corpus->rows), done);
    kin_fused_report(ctx, &none, &a.tally, out->rows);
done:
    (void)kin_gpu_ahead_end(gpu);
    kin_fused_answers_free(&a);
    return status;
}
