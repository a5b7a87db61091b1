/* SPDX-License-Identifier: Apache-2.0
 *
 * Threshold heap on both machines (TH-heap paper: IV, V).
 *
 * Idea. The GPU writes the costs of a batch of rows to all columns. The k-th cost of a sample of
 * the columns, at even strides, proves how far the k-th neighbour can be at most; what may be
 * within that, rounding included, is pushed to lists, canonical keys are computed for it, and these
 * pruned, compressed rows are all that the processor gets. Its threads select the k first of each
 * with min-max heaps while the GPU is at the next batch. The rows of a batch are divided: the GPU
 * selects from the last ones itself, so that both end together, by the rates that were measured in
 * the batches before (papers_hybrid.h). That costs are not the distances the screen's bound covers:
 *
 *      GPU         costs 1 | keys 1 | select 1 | costs 2                 | keys 2 | select 2
 *      copy                c        k          p                         c        k
 *      processor                    | select 1 ....... | write 1 |                | select 2 ...
 *
 *      c: counts of all rows   k: keys of the processor's rows   p: neighbours of the GPU's
 *
 * Both sides select by canonical key, then by id, a total order: how a batch was divided cannot
 * show in the answer. A sample of n / 16 columns (and at least 32 k) leaves some 16 k columns of a
 * row. Rows of which more is left than there is room for are computed by canonical keys of all.
 * What has no costs (metrics without a product, k beyond lists) is not pruned: exact_direct_gpu.c.
 *
 * Limits. Keys are copied behind costs of the same batch.
 *
 * Memory. The matrix of a batch, 1 GiB, or of what is asked for (the paper's size_qbatch), at most
 * a quarter of the room, its sample; for each place of a list 24 bytes of device memory and 16
 * pinned, for each neighbour 16 of both. */
#include "papers/papers.h"

#include "host/host_clock.h"
#include "host/host_threads.h"
#include "papers/papers_hybrid.h"

/* A batch begins, its counts or keys are here; the processor's part begins, is here; the GPU's. */
typedef enum mark { STARTED, COUNTED, HANDED, FETCHED, SELECTED, MARKS } mark;

typedef struct hybrid {
    kin_exact_gpu_answers *a;
    const kin_screen_gpu_prepared *queries;
    const kin_screen_gpu_prepared *corpus;
    int64_t k;
    int64_t sample; /* columns; 0: all */
    int64_t rows;   /* of all queries, */
    int64_t batch;  /* and of those that are computed together */
    kin_hold device;
    kin_hold host;
    void *marks[MARKS];
    kin_papers_division division;
    kin_papers_timed timed; /* the batch that was divided last */
    kin_papers_heaps heaps;
    kin_papers_costs costs;
    kin_screen_gpu_lists lists; /* of a batch */
    uint32_t *samples;          /* batch x sample */
    int64_t *places;
    kin_screen_gpu_hit *hits;
    kin_screen_gpu_pair *picked; /* batch x k: of the rows that the GPU selects from */
    int32_t *picked_counts;
    /* Pinned: what is copied while nobody waits. */
    kin_pair *pairs; /* batch x k */
    int32_t *host_counts;
    int64_t *host_places;
    kin_screen_gpu_hit *host_hits;
    int32_t *pair_counts;
    uint32_t *ids;
    uint8_t *lost;      /* by row of the batch */
    uint32_t *lost_ids; /* lost_count of them */
    int64_t lost_count;
} hybrid;

static kith_status checked(const hybrid *h, int error, const char *what)
{
    return kin_gpu_check(h->a->on.ctx, h->a->on.gpu, error, what);
}

static kith_status set_mark(const hybrid *h, mark m)
{
    const kin_screen_gpu_device *on = &h->a->on;
    return checked(h, on->gpu->module->ops->event_record(on->stream, h->marks[m]), "a batch");
}

static kith_status wait_for(const hybrid *h, mark m, const char *what)
{
    return checked(h, h->a->on.gpu->module->ops->event_wait(h->marks[m]), what);
}

/* Both were waited for. */
static kith_status seconds_between(const hybrid *h, mark first, mark last, double *seconds)
{
    float milliseconds = 0.0F;
    KIN_TRY(checked(
        h, h->a->on.gpu->module->ops->event_between(h->marks[first], h->marks[last], &milliseconds),
        "timing a batch"));
    *seconds = (double)milliseconds / 1e3;
    return KITH_OK;
}

/* longest: hits of a row. */
static kith_status make_host(hybrid *h, int64_t longest)
{
    const kin_gpu_ops *ops = h->a->on.gpu->module->ops;
    for (int m = 0; m < MARKS; m++) {
        KIN_TRY(checked(h, ops->event_make(&h->marks[m]), "making an event"));
    }
    KIN_TRY(kin_papers_heaps_make(h->a->on.ctx, h->k, longest, &h->heaps));
    KIN_NEW(&h->host, h->pair_counts, (uint64_t)h->batch, "counts of a batch");
    return KITH_OK;
}

static kin_screen_gpu_set rows_of(const hybrid *h, int64_t row0)
{
    return kin_screen_gpu_set_part(&h->queries->set, row0, h->batch);
}

static kith_status pin(const hybrid *h, void *out, uint64_t count, uint64_t item)
{
    void **target = out;
    *target = NULL;
    return checked(h, h->a->on.gpu->module->ops->allocate_pinned(kin_size_mul(count, item), target),
                   "allocating pinned memory");
}

static kith_status make_room(hybrid *h, int32_t capacity)
{
    const kin_screen_gpu_device *on = &h->a->on;
    kin_hold *device = &h->device;
    kin_hold *host = &h->host;
    const uint64_t rows = (uint64_t)h->batch;
    const uint64_t all = (uint64_t)h->rows;
    const uint64_t pairs = rows * (uint64_t)h->k;
    const uint64_t hits = rows * (uint64_t)capacity;
    const kin_screen_gpu_set first = rows_of(h, 0);
    KIN_TRY(kin_screen_gpu_lists_make(on, &first, h->k, capacity, &h->lists));
    KIN_GPU_NEW(device, on->gpu, h->samples, rows * (uint64_t)h->sample, "a sample of costs");
    KIN_GPU_NEW(device, on->gpu, h->places, rows + 1, "places");
    KIN_GPU_NEW(device, on->gpu, h->hits, hits, "keys of a batch");
    KIN_GPU_NEW(device, on->gpu, h->picked, pairs, "neighbours of a batch");
    KIN_GPU_NEW(device, on->gpu, h->picked_counts, rows, "counts of a batch");
    KIN_TRY(pin(h, &h->host_counts, rows, sizeof *h->host_counts));
    KIN_TRY(pin(h, &h->host_places, rows + 1, sizeof *h->host_places));
    KIN_TRY(pin(h, &h->host_hits, hits, sizeof *h->host_hits));
    KIN_TRY(pin(h, &h->pairs, pairs, sizeof *h->pairs));
    KIN_NEW(host, h->lost, rows, "row flags");
    KIN_NEW(host, h->lost_ids, all, "rows to solve");
    KIN_NEW(host, h->ids, all, "ids of rows");
    return kin_gpu_download(on->ctx, on->gpu, h->ids, h->queries->set.ids, all * sizeof *h->ids);
}

static void free_device(hybrid *h)
{
    kin_hold_end(&h->device);
    kin_screen_gpu_lists_free(&h->a->on, &h->lists);
    kin_papers_costs_free(&h->costs);
}

static void free_hybrid(hybrid *h)
{
    const kin_screen_gpu_device *on = &h->a->on;
    const kin_gpu_ops *ops = on->gpu->module->ops;
    void *const pinned[] = {h->pairs, h->host_hits, h->host_places, h->host_counts};
    (void)ops->wait(on->stream); /* copies may be under way where something failed */
    for (size_t i = 0; i < sizeof pinned / sizeof pinned[0]; i++) {
        if (pinned[i] != NULL) {
            ops->release_pinned(pinned[i]);
        }
    }
    for (int m = 0; m < MARKS; m++) {
        if (h->marks[m] != NULL) {
            ops->event_free(h->marks[m]);
        }
    }
    kin_free(h->heaps.ctx, h->heaps.block);
    kin_hold_end(&h->host);
    free_device(h);
}

/* The reach of a batch from a sample of its first chunk. */
static kith_status find_reach(const hybrid *h, const kin_screen_gpu_set *rows, int64_t tiles)
{
    const kin_screen_gpu_device *on = &h->a->on;
    const int64_t columns = tiles * KIN_SCREEN_GPU_TILE;
    const bool samples = h->sample > 0 && h->sample < columns;
    const kin_papers_sample sample = {.matrix = h->costs.matrix,
                                      .rows = rows->points,
                                      .pitch = h->costs.pitch,
                                      .count = columns,
                                      .sample = h->samples,
                                      .columns = h->sample};
    const kin_screen_gpu_kth kth = {.set = *rows,
                                    .lists = h->lists,
                                    .rows = rows->points,
                                    .matrix = samples ? h->samples : h->costs.matrix,
                                    .pitch = samples ? h->sample : h->costs.pitch,
                                    .count = samples ? h->sample : columns,
                                    .col_worst = h->corpus->set.worst};
    if (samples) {
        KIN_TRY(checked(h, on->gpu->module->papers->sample(on->stream, &sample), "sampling costs"));
    }
    return checked(h, on->kernels->kth(on->stream, &kth), "finding thresholds");
}

/* Costs, threshold, candidates and how many: all of it under way when this returns. */
static kith_status start_batch(hybrid *h, int64_t row0)
{
    const kin_screen_gpu_device *on = &h->a->on;
    const kin_gpu_ops *ops = on->gpu->module->ops;
    const kin_screen_gpu_set rows = rows_of(h, row0);
    const int64_t all = kin_screen_gpu_tiles_of(h->corpus->set.points);
    const uint64_t padded = (uint64_t)rows.padded;
    KIN_TRY(set_mark(h, STARTED));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, h->lists.counts, 0, padded * sizeof *h->lists.counts));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, h->lists.reach, KIN_SCREEN_GPU_NO_REACH_BYTE,
                         padded * sizeof *h->lists.reach));
    for (int64_t first = 0; first < all; first += h->costs.chunk) {
        const int64_t tiles = kin_min_i64(h->costs.chunk, all - first);
        KIN_TRY(kin_papers_costs_run(&h->costs, &rows, first, tiles));
        if (first == 0) {
            KIN_TRY(find_reach(h, &rows, tiles));
        }
        KIN_TRY(kin_papers_costs_gather(&h->costs, &rows, &h->lists, first, tiles));
    }
    KIN_TRY(checked(h,
                    ops->copy_out(on->stream, h->host_counts, h->lists.counts,
                                  (uint64_t)rows.points * sizeof *h->host_counts),
                    "fetching counts"));
    return set_mark(h, COUNTED);
}

/* Where the keys of each of the processor's rows will stand; rows whose list overflowed get none,
 * whoever selects. */
static int64_t set_places(hybrid *h, int64_t row0)
{
    int64_t total = 0;
    for (int64_t row = 0; row < h->timed.rows; row++) {
        const int32_t count = h->host_counts[row];
        const bool ours = row < h->timed.cpu_rows;
        if (ours) {
            h->host_places[row] = total;
        } else { /* now: the next batch's counts come while this one is selected */
            h->pair_counts[row] = (int32_t)kin_min_i64(count, h->k);
        }
        h->lost[row] = count > h->lists.capacity;
        if (h->lost[row] != 0) {
            h->lost_ids[h->lost_count++] = h->ids[row0 + row];
        } else {
            total += ours ? count : 0;
            h->a->tally.keys += (double)count;
        }
    }
    h->host_places[h->timed.cpu_rows] = total;
    return total;
}

/* Keys of the processor's rows, and their copy. */
static kith_status hand_over(const hybrid *h, const kin_screen_gpu_set *rows, int64_t total)
{
    const kin_screen_gpu_device *on = &h->a->on;
    const kin_gpu_ops *ops = on->gpu->module->ops;
    const kin_screen_gpu_hits job = {.set = *rows,
                                     .cols_set = h->corpus->set,
                                     .set_rows = h->queries->rows,
                                     .cols_rows = h->corpus->rows,
                                     .lists = h->lists,
                                     .rows = h->timed.cpu_rows,
                                     .places = h->places,
                                     .total = total,
                                     .hits = h->hits};
    if (total == 0) {
        return KITH_OK;
    }
    KIN_TRY(checked(h,
                    ops->copy_in(on->stream, h->places, h->host_places,
                                 (uint64_t)(job.rows + 1) * sizeof *h->places),
                    "handing over places"));
    KIN_TRY(checked(h, on->kernels->hits(on->stream, &job), "computing canonical distances"));
    return checked(
        h, ops->copy_out(on->stream, h->host_hits, h->hits, (uint64_t)total * sizeof *h->hits),
        "fetching keys");
}

/* The neighbours of the other rows, and their copy to where the processor's will stand. */
static kith_status select_there(const hybrid *h, const kin_screen_gpu_set *rows)
{
    const kin_screen_gpu_device *on = &h->a->on;
    const int64_t first = h->timed.cpu_rows;
    const kin_screen_gpu_rescore job = {.set = *rows,
                                        .cols_set = h->corpus->set,
                                        .set_rows = h->queries->rows,
                                        .cols_rows = h->corpus->rows,
                                        .lists = h->lists,
                                        .row0 = first,
                                        .rows = rows->points - first,
                                        .pairs = h->picked,
                                        .count = h->picked_counts};
    if (job.rows == 0) {
        return KITH_OK;
    }
    KIN_TRY(checked(h, on->kernels->rescore(on->stream, &job), "computing canonical distances"));
    return checked(h,
                   on->gpu->module->ops->copy_out(on->stream, h->pairs + first * h->k, h->picked,
                                                  (uint64_t)(job.rows * h->k) * sizeof *h->picked),
                   "fetching neighbours");
}

/* Divides a batch whose counts have come; both parts are under way when this returns. */
static kith_status divide_batch(hybrid *h, int64_t row0)
{
    const kin_screen_gpu_set rows = rows_of(h, row0);
    KIN_TRY(wait_for(h, COUNTED, "screening"));
    h->timed = (kin_papers_timed){.rows = rows.points,
                                  .cpu_rows = kin_papers_division_rows(&h->division, rows.points)};
    KIN_TRY(seconds_between(h, STARTED, COUNTED, &h->timed.gpu_rest));
    const int64_t total = set_places(h, row0);
    KIN_TRY(set_mark(h, HANDED));
    KIN_TRY(hand_over(h, &rows, total));
    KIN_TRY(set_mark(h, FETCHED));
    KIN_TRY(select_there(h, &rows));
    return set_mark(h, SELECTED);
}

/* The processor's rows; then those of the GPU, whose neighbours have come. */
static kith_status take_batch(hybrid *h, int64_t row0)
{
    kith_report *report = &h->a->on.ctx->report;
    const double before = report->seconds_select;
    const kin_exact_gpu_finished lists = {.pairs = h->pairs,
                                          .counts = h->pair_counts,
                                          .ids = h->ids + row0,
                                          .lost = h->lost,
                                          .rows = h->timed.rows,
                                          .k = (int32_t)h->k};
    KIN_TRY(wait_for(h, FETCHED, "fetching keys"));
    KIN_TRY(kin_papers_heaps_run(&h->heaps, h->host_hits, h->host_places, h->timed.cpu_rows,
                                 h->pairs, h->pair_counts));
    h->timed.cpu_select = report->seconds_select - before;
    int64_t start = kin_clock_ns();
    KIN_TRY(wait_for(h, SELECTED, "computing canonical distances"));
    report->seconds_select += kin_clock_since(start);
    KIN_TRY(seconds_between(h, HANDED, FETCHED, &h->timed.handing));
    KIN_TRY(seconds_between(h, FETCHED, SELECTED, &h->timed.gpu_select));
    start = kin_clock_ns();
    KIN_TRY(kin_exact_gpu_host_write(h->a, &lists));
    h->timed.cpu_rest = kin_clock_since(start);
    return KITH_OK;
}

static kith_status run_batches(hybrid *h)
{
    kith_report *report = &h->a->on.ctx->report;
    KIN_TRY(start_batch(h, 0));
    for (int64_t row0 = 0; row0 < h->rows; row0 += h->batch) {
        const int64_t next = row0 + kin_min_i64(h->batch, h->rows - row0);
        KIN_TRY(divide_batch(h, row0));
        if (next < h->rows) {
            KIN_TRY(start_batch(h, next));
        }
        report->select_cpu_rows += h->timed.cpu_rows;
        report->select_gpu_rows += h->timed.rows - h->timed.cpu_rows;
        KIN_TRY(take_batch(h, row0));
        report->seconds_rescore += h->timed.cpu_rest;
        kin_papers_division_learn(&h->division, &h->timed);
        KIN_TRY(kin_progress(h->a->on.ctx, "screen", (double)next, (double)h->rows));
    }
    return KITH_OK;
}

/* Of so many queries those that a batch may have. */
static int64_t batch_of(const kin_request *request, int64_t queries)
{
    return request->batch == 0 ? queries : kin_min_i64(request->batch, queries);
}

static kith_status make_hybrid(hybrid *h, const kin_request *request)
{
    const int64_t blocks = kin_screen_gpu_blocks_of(batch_of(request, h->rows));
    const kin_papers_hybrid_size size =
        kin_papers_hybrid_size_of(h->corpus->set.points, h->k, request->sample);
    h->sample = size.sample;
    KIN_TRY(kin_papers_costs_make(&h->costs, blocks, request->batch > 0, size.a_block));
    h->batch = h->costs.blocks * KIN_SCREEN_GPU_BLOCK;
    KIN_TRY(make_room(h, size.leaves));
    return make_host(h, h->lists.capacity);
}

static kith_status answer(kin_exact_gpu_answers *a, const kin_screen_gpu_prepared *queries,
                          const kin_screen_gpu_prepared *corpus, const kin_screen_gpu_worst *worst,
                          const kin_request *request)
{
    kith_report *report = &a->on.ctx->report;
    const int64_t blocks = queries->set.padded / KIN_SCREEN_GPU_BLOCK;
    hybrid h = {.a = a,
                .queries = queries,
                .corpus = corpus,
                .k = kin_min_i64(a->wanted, corpus->groups.count),
                .rows = queries->set.points,
                .device = {.ctx = a->on.ctx},
                .host = {.ctx = a->on.ctx},
                .division = {.fixed = request->share},
                .costs = {.on = a->on, .cols = corpus->set, .col_worst = worst}};
    kin_exact_note_pipeline(a->on.ctx, request->pipeline);
    int64_t start = kin_clock_ns();
    kith_status status = make_hybrid(&h, request);
    report->seconds_prepare += kin_clock_since(start);
    start = kin_clock_ns();
    const double others = report->seconds_select + report->seconds_rescore;
    KIN_THEN(status, run_batches(&h));
    if (status == KITH_OK && h.lost_count > 0) {
        a->tally.reruns += (double)h.lost_count;
        free_device(&h); /* solving them wants room, too */
        status =
            kin_exact_gpu_answers_solve(a, &queries->rows, &corpus->rows, h.lost_ids, h.lost_count);
    }
    a->tally.pairs += (double)(blocks * kin_screen_gpu_tiles_of(corpus->set.points));
    report->seconds_screen += /* what was waited for the GPU */
        kin_clock_since(start) + others - report->seconds_select - report->seconds_rescore;
    free_hybrid(&h);
    return status;
}

/* ---- What it takes --------------------------------------------------------------------------- */

static int64_t wanted_of(const kin_request *request, int64_t columns)
{
    return kin_min_i64(request->k + 1, columns);
}

/* Of a batch that is screened. */
static kin_papers_costs_size costs_of(const kin_request *request, uint64_t a_block, int64_t rows,
                                      int64_t columns, uint64_t scope)
{
    const int64_t blocks = kin_screen_gpu_blocks_of(batch_of(request, rows));
    return kin_papers_costs_size_of(columns, blocks, request->batch > 0, a_block, scope);
}

static uint64_t bytes_of(const kin_gpu *gpu, const kin_request *request, int64_t rows,
                         int64_t columns, uint64_t scope)
{
    (void)gpu;
    const kin_papers_hybrid_size s =
        kin_papers_hybrid_size_of(columns, wanted_of(request, columns), request->sample);
    return costs_of(request, s.a_block, rows, columns, scope).bytes;
}

/* Of a batch: keys and neighbours. Of all rows: ids, twice. Of a thread: the longest row to select
 * from. */
static uint64_t host_bytes(const kin_request *request, int64_t rows, int64_t columns,
                           uint64_t scope, int32_t threads)
{
    const int64_t k = wanted_of(request, columns);
    const kin_papers_hybrid_size s = kin_papers_hybrid_size_of(columns, k, request->sample);
    const int64_t batch =
        costs_of(request, s.a_block, rows, columns, scope).blocks * KIN_SCREEN_GPU_BLOCK;
    const uint64_t a_row = (uint64_t)s.leaves * sizeof(kin_screen_gpu_hit) +
                           (uint64_t)k * sizeof(kin_screen_gpu_pair) + KIN_PAPERS_ROW_BYTES;
    return kin_size_add(
        kin_size_add(kin_size_mul((uint64_t)batch, a_row),
                     kin_size_mul((uint64_t)threads, kin_papers_heaps_bytes(k, s.leaves))),
        (uint64_t)rows * 2 * sizeof(uint32_t));
}

const kin_exact_gpu_pipeline kin_papers_hybrid = {
    .by_host = true, .answer = answer, .bytes = bytes_of, .host_bytes = host_bytes};
