/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. papers_hybrid.c without a screen: the GPU writes the canonical keys of a stripe of queries
 * to all rows of the corpus, finds the k-th of a sample of each row, and hands over the keys that
 * are at most that, ties among them. No bound is needed: k rows of the corpus are at most there.
 * While the keys of the next stripe are computed, the processor puts the present one's in order of
 * its queries and selects. From the last queries of a stripe the GPU selects itself, from all their
 * keys; how many they are the rates of the stripes before say (papers_hybrid.h):
 *
 *      GPU         keys 1 | select 1 | threshold 1, prune 1 | keys 2                | select 2 ...
 *      processor                                      copy  | order 1, select 1     |
 *
 * Both sides select by canonical key, then by id: a division cannot show in an answer.
 *
 * A stripe of which more is left than was expected is solved by the GPU alone (fused_direct.c).
 *
 * Limits. The processor waits while the GPU selects.
 *
 * Memory. The keys of a stripe: 512 MiB, or a quarter of the room, or as many queries as are asked
 * for (the paper's size_qbatch), if that is less; a row's must fit. 16 bytes for
 * each place of a list on the device, twice that on the host; 28 for each neighbour, and what the
 * method of selection takes: where that has no room, the processor selects from all rows.
 */
#include "host/host_clock.h"
#include "host/host_threads.h"
#include "papers/papers.h"
#include "papers/papers_hybrid.h"

enum { USUAL_SAMPLE = 8 /* of threshold_heap, times k */ };

typedef struct hybrid {
    kin_fused_answers *a;
    const kin_fused_rows *corpus;
    const kin_fused_rows *queries;
    int64_t k;
    int64_t sample; /* columns; 0: all */
    int64_t leaves;
    int64_t stripe; /* queries */
    int64_t room;   /* hits of a stripe */
    kin_hold device;
    double *keys;
    double *samples;
    double *most; /* by query of the stripe */
    kin_fused_hit *hits;
    uint64_t *count;
    double *picked; /* stripe x k: what the GPU selects */
    uint32_t *picked_ids;
    kin_fused_pair *picked_pairs;
    kin_hold host;
    void *started; /* a stripe's keys begin in the stream, */
    void *keyed;   /* and are there */
    kin_papers_division division;
    kin_papers_timed timed; /* the present stripe */
    kin_papers_heaps heaps;
    kin_fused_hit *found; /* as they came */
    kin_fused_hit *in_order;
    int64_t *places;
    kin_pair *pairs;
    int32_t *pair_counts;
    uint32_t *ids;
} hybrid;

/* ---- Room ------------------------------------------------------------------------------------ */

static kith_status make_device(hybrid *h)
{
    kin_hold *hold = &h->device;
    kin_gpu *gpu = h->a->on.gpu;
    const uint64_t rows = (uint64_t)h->stripe;
    const uint64_t places = kin_size_mul(rows, (uint64_t)h->k);
    KIN_GPU_NEW(hold, gpu, h->keys, kin_size_mul(rows, (uint64_t)h->corpus->rows), "all keys");
    KIN_GPU_NEW(hold, gpu, h->samples, rows * (uint64_t)h->sample, "a sample of keys");
    KIN_GPU_NEW(hold, gpu, h->most, rows, "thresholds");
    KIN_GPU_NEW(hold, gpu, h->hits, (uint64_t)h->room, "keys within thresholds");
    KIN_GPU_NEW(hold, gpu, h->picked, places, "selected keys");
    KIN_GPU_NEW(hold, gpu, h->picked_ids, places, "selected ids");
    KIN_GPU_NEW(hold, gpu, h->picked_pairs, places, "neighbours of a stripe");
    KIN_GPU_NEW(hold, gpu, h->count, 1, "a count");
    return KITH_OK;
}

/* As large a stripe as has room, of so many queries at most. */
static kith_status make_stripe(hybrid *h, int64_t most)
{
    const kin_fused_device *on = &h->a->on;
    h->stripe = kin_papers_hybrid_stripe(most, h->corpus->rows, kin_gpu_scope(on->gpu));
    for (;;) {
        h->room = h->stripe * h->leaves;
        const kith_status status = make_device(h);
        if (status == KITH_OK) {
            return KITH_OK;
        }
        kin_hold_end(&h->device);
        if (status != KITH_E_DEVICE_MEMORY || h->stripe == 1) {
            return status;
        }
        kin_forgive(on->ctx);
        kin_gpu_trim(on->gpu);
        h->stripe = kin_ceil_div(h->stripe, 2);
    }
}

static kith_status make_host(hybrid *h)
{
    kith_ctx *ctx = h->a->on.ctx;
    const kin_gpu_ops *ops = h->a->on.gpu->module->ops;
    const uint64_t rows = (uint64_t)h->stripe;
    const uint64_t room = (uint64_t)h->room;
    /* All of a stripe's hits may be one query's. */
    const int64_t longest = kin_min_i64(h->room, h->corpus->rows);
    KIN_TRY(kin_fused_launched(&h->a->on, ops->event_make(&h->started), "making an event"));
    KIN_TRY(kin_fused_launched(&h->a->on, ops->event_make(&h->keyed), "making an event"));
    KIN_TRY(kin_papers_heaps_make(ctx, h->k, longest, &h->heaps));
    KIN_NEW(&h->host, h->found, room, "keys of a stripe");
    KIN_NEW(&h->host, h->in_order, room, "keys of a stripe");
    KIN_NEW(&h->host, h->places, rows + 2, "places");
    KIN_NEW(&h->host, h->pairs, kin_size_mul(rows, (uint64_t)h->k), "neighbours of a stripe");
    KIN_NEW(&h->host, h->pair_counts, rows, "counts of a stripe");
    KIN_NEW(&h->host, h->ids, rows, "rows of a stripe");
    return KITH_OK;
}

static void free_host(hybrid *h)
{
    kin_hold_end(&h->host);
    kin_papers_heaps_free(&h->heaps);
    void *const events[] = {h->keyed, h->started};
    for (int i = 0; i < 2; i++) {
        if (events[i] != NULL) {
            h->a->on.gpu->module->ops->event_free(events[i]);
        }
    }
}

/* ---- The GPU's part -------------------------------------------------------------------------- */

/* Keys of a stripe, and their sample: under way when this returns. */
static kith_status start_keys(const hybrid *h, int64_t first, int64_t count)
{
    const kin_fused_device *on = &h->a->on;
    const kin_fused_keys keys = {.queries = *h->queries,
                                 .corpus = *h->corpus,
                                 .query0 = first,
                                 .query_count = count,
                                 .corpus_count = h->corpus->rows,
                                 .keys = h->keys,
                                 .pitch = h->corpus->rows};
    const kin_papers_sample sample = {.matrix = h->keys,
                                      .words = 2,
                                      .rows = count,
                                      .pitch = h->corpus->rows,
                                      .count = h->corpus->rows,
                                      .sample = h->samples,
                                      .columns = h->sample};
    const kin_gpu_ops *ops = on->gpu->module->ops;
    KIN_TRY(kin_fused_launched(on, ops->event_record(on->stream, h->started), "computing keys"));
    KIN_TRY(kin_fused_launched(on, on->kernels->keys(on->stream, &keys), "computing keys"));
    if (h->sample > 0) {
        KIN_TRY(kin_fused_launched(on, on->gpu->module->papers->sample(on->stream, &sample),
                                   "sampling keys"));
    }
    return kin_fused_launched(on, ops->event_record(on->stream, h->keyed), "computing keys");
}

/* The neighbours of the last rows of a stripe, to their places among `pairs`. Waits. */
static kith_status pick(const hybrid *h)
{
    const kin_fused_device *on = &h->a->on;
    const int64_t first = h->timed.cpu_rows;
    const kin_fused_picking picking = {.keys = h->keys + first * h->corpus->rows,
                                       .pitch = h->corpus->rows,
                                       .rows = h->timed.rows - first,
                                       .columns = h->corpus->rows,
                                       .k = h->k,
                                       .values = h->picked,
                                       .ids = h->picked_ids,
                                       .pairs = h->picked_pairs};
    KIN_TRY(kin_papers_pick(on->ctx, on->gpu, &picking));
    return kin_gpu_download(on->ctx, on->gpu, h->pairs + first * h->k, h->picked_pairs,
                            (uint64_t)(picking.rows * h->k) * sizeof *h->picked_pairs);
}

/* Divides a stripe whose keys are under way, and has the GPU select from its rows. */
static kith_status divide(hybrid *h, int64_t rows)
{
    static const double all = 1.0;
    const kin_gpu_ops *ops = h->a->on.gpu->module->ops;
    float milliseconds = 0.0F;
    h->timed =
        (kin_papers_timed){.rows = rows, .cpu_rows = kin_papers_division_rows(&h->division, rows)};
    KIN_TRY(kin_fused_launched(&h->a->on, ops->event_wait(h->keyed), "computing keys"));
    KIN_TRY(kin_fused_launched(&h->a->on, ops->event_between(h->started, h->keyed, &milliseconds),
                               "timing keys"));
    h->timed.gpu_rest = (double)milliseconds / 1e3;
    if (h->timed.cpu_rows == rows) {
        return KITH_OK;
    }
    const int64_t start = kin_clock_ns();
    const kith_status status = pick(h);
    h->timed.picking = kin_clock_since(start);
    if (status == KITH_E_DEVICE_MEMORY) {
        kin_forgive(h->a->on.ctx);
        h->division.fixed = &all;
        h->timed.cpu_rows = rows;
        return KITH_OK;
    }
    return status;
}

/* What is within the thresholds of the processor's rows, to found. count: how many; more than there
 * is room for were counted, not written. Waits. */
static kith_status prune(hybrid *h, int64_t first, uint64_t *count)
{
    const kin_fused_device *on = &h->a->on;
    const int64_t start = kin_clock_ns();
    const int64_t rows = h->timed.cpu_rows;
    const int64_t columns = h->sample > 0 ? h->sample : h->corpus->rows;
    const kin_select_job job = {.values = (const char *)(h->sample > 0 ? h->samples : h->keys),
                                .stride_bytes = columns * (int64_t)sizeof *h->keys,
                                .rows = rows,
                                .cols = columns,
                                .k = h->k,
                                .dtype = KIN_SELECT_F64,
                                .sample = USUAL_SAMPLE,
                                .out_kth = h->most};
    const kin_fused_within within = {.keys = h->keys,
                                     .pitch = h->corpus->rows,
                                     .rows = rows,
                                     .columns = h->corpus->rows,
                                     .query0 = (uint32_t)first,
                                     .most = h->most,
                                     .room = h->room,
                                     .hits = h->hits,
                                     .count = h->count};
    KIN_TRY(kin_select_device(on->ctx, on->gpu, &job, true));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, h->count, 0, sizeof *h->count));
    KIN_TRY(kin_fused_launched(on, on->kernels->within(on->stream, &within), "pruning keys"));
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, count, h->count, sizeof *count));
    if (*count <= (uint64_t)h->room) {
        KIN_TRY(kin_gpu_download(on->ctx, on->gpu, h->found, h->hits, *count * sizeof *h->hits));
    }
    h->timed.handing = kin_clock_since(start);
    return KITH_OK;
}

/* ---- The processor's part -------------------------------------------------------------------- */

/* Counting sort by query: places[i] .. places[i + 1] - 1 become those of query first + i. */
static void put_in_order(const hybrid *h, int64_t first, int64_t rows, int64_t count)
{
    int64_t *next = h->places + 1; /* where the next hit of a query goes; in the end, places */
    memset(h->places, 0, (size_t)(rows + 2) * sizeof *h->places);
    for (int64_t i = 0; i < count; i++) {
        h->places[h->found[i].query - (uint32_t)first + 2] += 1;
    }
    for (int64_t row = 0; row < rows; row++) {
        h->places[row + 2] += h->places[row + 1];
    }
    for (int64_t i = 0; i < count; i++) {
        h->in_order[next[h->found[i].query - (uint32_t)first]++] = h->found[i];
    }
}

static kith_status select_here(hybrid *h, int64_t first, uint64_t count)
{
    kith_report *report = &h->a->on.ctx->report;
    const int64_t rows = h->timed.cpu_rows;
    const int64_t start = kin_clock_ns();
    put_in_order(h, first, rows, (int64_t)count);
    report->seconds_select += kin_clock_since(start);
    KIN_TRY(
        kin_papers_heaps_run(&h->heaps, h->in_order, h->places, rows, h->pairs, h->pair_counts));
    h->timed.cpu_select = kin_clock_since(start);
    return KITH_OK;
}

static kith_status take_stripe(hybrid *h, int64_t first, uint64_t count)
{
    kith_report *report = &h->a->on.ctx->report;
    const int64_t rows = h->timed.rows;
    const bool lost = count > (uint64_t)h->room;
    const int64_t whole = lost ? h->timed.cpu_rows : 0; /* those before are solved */
    for (int64_t row = 0; row < rows; row++) {
        h->ids[row] = (uint32_t)(first + row);
    }
    if (lost) {
        h->a->tally.reruns += (double)h->timed.cpu_rows;
        KIN_TRY(kin_fused_answers_solve(h->a, h->queries, h->corpus, h->ids, h->timed.cpu_rows));
    } else {
        KIN_TRY(select_here(h, first, count));
    }
    const int64_t start = kin_clock_ns();
    KIN_TRY(kin_fused_answers_take_whole(h->a, h->pairs + whole * h->k, h->ids + whole,
                                         rows - whole, (int32_t)h->k));
    h->timed.cpu_rest = kin_clock_since(start);
    report->seconds_rescore += h->timed.cpu_rest;
    report->select_cpu_rows += h->timed.cpu_rows;
    report->select_gpu_rows += rows - h->timed.cpu_rows;
    if (!lost) {
        kin_papers_division_learn(&h->division, &h->timed);
    }
    return KITH_OK;
}

/* ---- Both ------------------------------------------------------------------------------------ */

static kith_status run_stripes(hybrid *h)
{
    const int64_t all = h->queries->rows;
    KIN_TRY(start_keys(h, 0, kin_min_i64(h->stripe, all)));
    for (int64_t first = 0; first < all; first += h->stripe) {
        const int64_t rows = kin_min_i64(h->stripe, all - first);
        const int64_t next = first + rows;
        uint64_t count = 0;
        KIN_TRY(divide(h, rows));
        KIN_TRY(prune(h, first, &count));
        if (next < all) {
            KIN_TRY(start_keys(h, next, kin_min_i64(h->stripe, all - next)));
        }
        KIN_TRY(take_stripe(h, first, count));
        KIN_TRY(kin_progress(h->a->on.ctx, "screen", (double)next, (double)all));
    }
    return KITH_OK;
}

static kith_status solve(kin_fused_answers *a, const kin_fused_rows *corpus,
                         const kin_fused_rows *queries, const kin_request *request)
{
    kith_report *report = &a->on.ctx->report;
    const double others = report->seconds_screen + report->seconds_select + report->seconds_rescore;
    const int64_t start = kin_clock_ns();
    hybrid h = {.a = a,
                .corpus = corpus,
                .queries = queries,
                .k = a->wanted,
                .device = {.ctx = a->on.ctx},
                .host = {.ctx = a->on.ctx},
                .division = {.fixed = request->share}};
    const kin_papers_hybrid_size size =
        kin_papers_hybrid_size_of(corpus->rows, a->wanted, request->sample);
    h.sample = size.sample;
    h.leaves = size.leaves;
    kith_status status = make_stripe(&h, kin_papers_hybrid_batch(request, queries->rows));
    KIN_THEN(status, make_host(&h));
    KIN_THEN(status, run_stripes(&h));
    free_host(&h);
    kin_hold_end(&h.device);
    report->seconds_screen =
        kin_clock_since(start) + others - report->seconds_select - report->seconds_rescore;
    return status;
}

kith_status kin_papers_hybrid_keys(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_rows *corpus,
                                   const kin_fused_rows *queries, const kin_fused_query *query)
{
    const kin_fused_device on = kin_fused_device_of(ctx, gpu);
    const kin_groups every_query = {.rows = queries->rows, .count = queries->rows};
    const kin_groups every_row = {.rows = corpus->rows, .count = corpus->rows};
    kin_fused_answers a = kin_fused_answers_of(&on, query, &every_row, &every_query);
    KIN_TRY(kin_fused_answers_make(&a, (query->place & KIN_FUSED_OUT_ON_DEVICE) != 0, false));
    kith_status status = solve(&a, corpus, queries, query->request);
    KIN_THEN(status, kin_fused_answers_finish(&a, query->out, corpus->rows));
    ctx->report.exact = KITH_CERTIFIED;
    ctx->report.candidates = (double)corpus->rows;
    ctx->report.rerun_share = a.tally.reruns / (double)queries->rows;
    kin_exact_note_pipeline(ctx, query->request->pipeline);
    kin_fused_answers_free(&a);
    return status;
}
