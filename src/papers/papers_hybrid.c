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
 * Without a screen (metrics without a product, k beyond lists) it writes the canonical keys of a
 * stripe of queries, and hands over those that are at most the k-th of a sample, ties among them:
 *
 *      GPU         keys 1 | select 1 | threshold 1, prune 1 | keys 2                | select 2 ...
 *      processor                                      copy  | order 1, select 1     |
 *
 * Both sides select by canonical key, then by id, a total order: how a batch was divided cannot
 * show in the answer. A sample of n / 16 columns (and at least 32 k) leaves some 16 k columns of a
 * row. Rows of which more is left than there is room for are computed by canonical keys of all.
 *
 * Limits. Keys are copied behind costs of the same batch; by keys, both wait while the GPU selects.
 *
 * Memory. The matrix of a batch, 1 GiB, or of what is asked for (the paper's size_qbatch), at most
 * a quarter of the room, its sample; for each place of a list 24 bytes of device memory and 16
 * pinned, for each neighbour 16 of both. By keys: 512 MiB of them; 16 bytes a place, twice that on
 * the host; 28 a neighbour, and what selection takes: without that room the processor selects from
 * all rows.
 *
 * Long because both are one program: a batch begins, is divided, and is taken. */
#include "papers/papers.h"

#include "host/host_clock.h"
#include "host/host_threads.h"
#include "papers/papers_hybrid.h"

enum { USUAL_SAMPLE = 8 /* of threshold_heap, times k */ };

/* A batch begins, its counts or keys are here; the processor's part begins, is here; the GPU's. */
typedef enum mark { STARTED, COUNTED, HANDED, FETCHED, SELECTED, MARKS } mark;

typedef struct hybrid {
    kin_fused_answers *a;
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
    kin_pair *pairs; /* batch x k */
    int32_t *pair_counts;
    uint32_t *ids;
} hybrid;

/* What is done with the batch from row0 on. Nothing is waited for in `start`. */
typedef struct way {
    kith_status (*start)(hybrid *h, int64_t row0);
    kith_status (*divide)(hybrid *h, int64_t row0); /* sets `timed` */
    kith_status (*take)(hybrid *h, int64_t row0);
} way;

static kith_status checked(const hybrid *h, int error, const char *what)
{
    return kin_gpu_check(h->a->on.ctx, h->a->on.gpu, error, what);
}

static kith_status set_mark(const hybrid *h, mark m)
{
    const kin_fused_device *on = &h->a->on;
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

static void free_hybrid(hybrid *h)
{
    for (int m = 0; m < MARKS; m++) {
        if (h->marks[m] != NULL) {
            h->a->on.gpu->module->ops->event_free(h->marks[m]);
        }
    }
    kin_free(h->heaps.ctx, h->heaps.block);
    kin_hold_end(&h->host);
    kin_hold_end(&h->device);
}

static int64_t rows_from(const hybrid *h, int64_t row0)
{
    return kin_min_i64(h->batch, h->rows - row0);
}

static void divide_rows(hybrid *h, int64_t rows)
{
    h->timed =
        (kin_papers_timed){.rows = rows, .cpu_rows = kin_papers_division_rows(&h->division, rows)};
}

static kith_status run_batches(hybrid *h, const way *by)
{
    kith_report *report = &h->a->on.ctx->report;
    KIN_TRY(by->start(h, 0));
    for (int64_t row0 = 0; row0 < h->rows; row0 += h->batch) {
        const int64_t next = row0 + rows_from(h, row0);
        KIN_TRY(by->divide(h, row0));
        if (next < h->rows) {
            KIN_TRY(by->start(h, next));
        }
        report->select_cpu_rows += h->timed.cpu_rows;
        report->select_gpu_rows += h->timed.rows - h->timed.cpu_rows;
        KIN_TRY(by->take(h, row0));
        report->seconds_rescore += h->timed.cpu_rest;
        kin_papers_division_learn(&h->division, &h->timed);
        KIN_TRY(kin_progress(h->a->on.ctx, "screen", (double)next, (double)h->rows));
    }
    return KITH_OK;
}

/* ---- Screened -------------------------------------------------------------------------------- */

typedef struct screened {
    hybrid all;
    const kin_fused_prepared *queries;
    const kin_fused_prepared *corpus;
    kin_papers_costs costs;
    kin_fused_lists lists; /* of a batch */
    uint32_t *samples;     /* batch x sample */
    int64_t *places;
    kin_fused_hit *hits;
    kin_fused_pair *picked; /* batch x k: of the rows that the GPU selects from */
    int32_t *picked_counts;
    /* Pinned, as pairs are: what is copied while nobody waits. */
    int32_t *host_counts;
    int64_t *host_places;
    kin_fused_hit *host_hits;
    uint8_t *lost;      /* by row of the batch */
    uint32_t *lost_ids; /* lost_count of them */
    int64_t lost_count;
} screened;

static kin_fused_set rows_of(const screened *s, int64_t row0)
{
    return kin_fused_set_part(&s->queries->set, row0, s->all.batch);
}

static kith_status pin(const screened *s, void *out, uint64_t count, uint64_t item)
{
    void **target = out;
    *target = NULL;
    return checked(
        &s->all, s->all.a->on.gpu->module->ops->allocate_pinned(kin_size_mul(count, item), target),
        "allocating pinned memory");
}

static kith_status make_room(screened *s, int32_t capacity)
{
    const kin_fused_device *on = &s->all.a->on;
    kin_hold *device = &s->all.device;
    kin_hold *host = &s->all.host;
    const uint64_t rows = (uint64_t)s->all.batch;
    const uint64_t all = (uint64_t)s->all.rows;
    const uint64_t pairs = rows * (uint64_t)s->all.k;
    const uint64_t hits = rows * (uint64_t)capacity;
    const kin_fused_set first = rows_of(s, 0);
    KIN_TRY(kin_fused_lists_make(on, &first, s->all.k, capacity, &s->lists));
    KIN_GPU_NEW(device, on->gpu, s->samples, rows * (uint64_t)s->all.sample, "a sample of costs");
    KIN_GPU_NEW(device, on->gpu, s->places, rows + 1, "places");
    KIN_GPU_NEW(device, on->gpu, s->hits, hits, "keys of a batch");
    KIN_GPU_NEW(device, on->gpu, s->picked, pairs, "neighbours of a batch");
    KIN_GPU_NEW(device, on->gpu, s->picked_counts, rows, "counts of a batch");
    KIN_TRY(pin(s, &s->host_counts, rows, sizeof *s->host_counts));
    KIN_TRY(pin(s, &s->host_places, rows + 1, sizeof *s->host_places));
    KIN_TRY(pin(s, &s->host_hits, hits, sizeof *s->host_hits));
    KIN_TRY(pin(s, &s->all.pairs, pairs, sizeof *s->all.pairs));
    KIN_NEW(host, s->lost, rows, "row flags");
    KIN_NEW(host, s->lost_ids, all, "rows to solve");
    KIN_NEW(host, s->all.ids, all, "ids of rows");
    return kin_gpu_download(on->ctx, on->gpu, s->all.ids, s->queries->set.ids,
                            all * sizeof *s->all.ids);
}

static void free_device(screened *s)
{
    kin_hold_end(&s->all.device);
    kin_fused_lists_free(&s->all.a->on, &s->lists);
    kin_papers_costs_free(&s->costs);
}

static void free_screened(screened *s)
{
    const kin_fused_device *on = &s->all.a->on;
    const kin_gpu_ops *ops = on->gpu->module->ops;
    void *const pinned[] = {s->all.pairs, s->host_hits, s->host_places, s->host_counts};
    (void)ops->wait(on->stream); /* copies may be under way where something failed */
    for (size_t i = 0; i < sizeof pinned / sizeof pinned[0]; i++) {
        if (pinned[i] != NULL) {
            ops->release_pinned(pinned[i]);
        }
    }
    free_hybrid(&s->all);
    free_device(s);
}

/* The reach of a batch from a sample of its first chunk. */
static kith_status find_reach(const screened *s, const kin_fused_set *rows, int64_t tiles)
{
    const kin_fused_device *on = &s->all.a->on;
    const int64_t columns = tiles * KIN_FUSED_TILE;
    const bool samples = s->all.sample > 0 && s->all.sample < columns;
    const kin_papers_sample sample = {.matrix = s->costs.matrix,
                                      .words = 1,
                                      .rows = rows->points,
                                      .pitch = s->costs.pitch,
                                      .count = columns,
                                      .sample = s->samples,
                                      .columns = s->all.sample};
    const kin_fused_kth kth = {.set = *rows,
                               .lists = s->lists,
                               .rows = rows->points,
                               .matrix = samples ? s->samples : s->costs.matrix,
                               .pitch = samples ? s->all.sample : s->costs.pitch,
                               .count = samples ? s->all.sample : columns,
                               .col_worst = s->corpus->set.worst};
    if (samples) {
        KIN_TRY(checked(&s->all, on->gpu->module->papers->sample(on->stream, &sample),
                        "sampling costs"));
    }
    return checked(&s->all, on->kernels->kth(on->stream, &kth), "finding thresholds");
}

/* Costs, threshold, candidates and how many: all of it under way when this returns. */
static kith_status start_screened(hybrid *h, int64_t row0)
{
    screened *s = (screened *)h;
    const kin_fused_device *on = &s->all.a->on;
    const kin_gpu_ops *ops = on->gpu->module->ops;
    const kin_fused_set rows = rows_of(s, row0);
    const int64_t all = kin_fused_tiles_of(s->corpus->set.points);
    const uint64_t padded = (uint64_t)rows.padded;
    KIN_TRY(set_mark(&s->all, STARTED));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, s->lists.counts, 0, padded * sizeof *s->lists.counts));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, s->lists.reach, KIN_FUSED_NO_REACH_BYTE,
                         padded * sizeof *s->lists.reach));
    for (int64_t first = 0; first < all; first += s->costs.chunk) {
        const int64_t tiles = kin_min_i64(s->costs.chunk, all - first);
        KIN_TRY(kin_papers_costs_run(&s->costs, &rows, first, tiles));
        if (first == 0) {
            KIN_TRY(find_reach(s, &rows, tiles));
        }
        KIN_TRY(kin_papers_costs_gather(&s->costs, &rows, &s->lists, first, tiles));
    }
    KIN_TRY(checked(&s->all,
                    ops->copy_out(on->stream, s->host_counts, s->lists.counts,
                                  (uint64_t)rows.points * sizeof *s->host_counts),
                    "fetching counts"));
    return set_mark(&s->all, COUNTED);
}

/* Where the keys of each of the processor's rows will stand; rows whose list overflowed get none,
 * whoever selects. */
static int64_t set_places(screened *s, int64_t row0)
{
    int64_t total = 0;
    for (int64_t row = 0; row < s->all.timed.rows; row++) {
        const int32_t count = s->host_counts[row];
        const bool ours = row < s->all.timed.cpu_rows;
        if (ours) {
            s->host_places[row] = total;
        } else { /* now: the next batch's counts come while this one is selected */
            s->all.pair_counts[row] = (int32_t)kin_min_i64(count, s->all.k);
        }
        s->lost[row] = count > s->lists.capacity;
        if (s->lost[row] != 0) {
            s->lost_ids[s->lost_count++] = s->all.ids[row0 + row];
        } else {
            total += ours ? count : 0;
            s->all.a->tally.keys += (double)count;
        }
    }
    s->host_places[s->all.timed.cpu_rows] = total;
    return total;
}

/* Keys of the processor's rows, and their copy. */
static kith_status hand_over(const screened *s, const kin_fused_set *rows, int64_t total)
{
    const kin_fused_device *on = &s->all.a->on;
    const kin_gpu_ops *ops = on->gpu->module->ops;
    const kin_fused_hits job = {.set = *rows,
                                .cols_set = s->corpus->set,
                                .set_rows = s->queries->rows,
                                .cols_rows = s->corpus->rows,
                                .lists = s->lists,
                                .rows = s->all.timed.cpu_rows,
                                .places = s->places,
                                .total = total,
                                .hits = s->hits};
    if (total == 0) {
        return KITH_OK;
    }
    KIN_TRY(checked(&s->all,
                    ops->copy_in(on->stream, s->places, s->host_places,
                                 (uint64_t)(job.rows + 1) * sizeof *s->places),
                    "handing over places"));
    KIN_TRY(checked(&s->all, on->kernels->hits(on->stream, &job), "computing canonical distances"));
    return checked(
        &s->all,
        ops->copy_out(on->stream, s->host_hits, s->hits, (uint64_t)total * sizeof *s->hits),
        "fetching keys");
}

/* The neighbours of the other rows, and their copy to where the processor's will stand. */
static kith_status select_there(const screened *s, const kin_fused_set *rows)
{
    const kin_fused_device *on = &s->all.a->on;
    const int64_t first = s->all.timed.cpu_rows;
    const kin_fused_rescore job = {.set = *rows,
                                   .cols_set = s->corpus->set,
                                   .set_rows = s->queries->rows,
                                   .cols_rows = s->corpus->rows,
                                   .lists = s->lists,
                                   .row0 = first,
                                   .rows = rows->points - first,
                                   .pairs = s->picked,
                                   .count = s->picked_counts};
    if (job.rows == 0) {
        return KITH_OK;
    }
    KIN_TRY(
        checked(&s->all, on->kernels->rescore(on->stream, &job), "computing canonical distances"));
    return checked(
        &s->all,
        on->gpu->module->ops->copy_out(on->stream, s->all.pairs + first * s->all.k, s->picked,
                                       (uint64_t)(job.rows * s->all.k) * sizeof *s->picked),
        "fetching neighbours");
}

/* Divides a batch whose counts have come; both parts are under way when this returns. */
static kith_status divide_screened(hybrid *h, int64_t row0)
{
    screened *s = (screened *)h;
    const kin_fused_set rows = rows_of(s, row0);
    KIN_TRY(wait_for(&s->all, COUNTED, "screening"));
    divide_rows(h, rows.points);
    KIN_TRY(seconds_between(&s->all, STARTED, COUNTED, &s->all.timed.gpu_rest));
    const int64_t total = set_places(s, row0);
    KIN_TRY(set_mark(&s->all, HANDED));
    KIN_TRY(hand_over(s, &rows, total));
    KIN_TRY(set_mark(&s->all, FETCHED));
    KIN_TRY(select_there(s, &rows));
    return set_mark(&s->all, SELECTED);
}

/* The processor's rows; then those of the GPU, whose neighbours have come. */
static kith_status take_screened(hybrid *h, int64_t row0)
{
    const screened *s = (const screened *)h;
    kith_report *report = &h->a->on.ctx->report;
    const double before = report->seconds_select;
    const kin_fused_finished lists = {.pairs = h->pairs,
                                      .counts = h->pair_counts,
                                      .ids = h->ids + row0,
                                      .lost = s->lost,
                                      .rows = h->timed.rows,
                                      .k = (int32_t)h->k};
    KIN_TRY(wait_for(h, FETCHED, "fetching keys"));
    KIN_TRY(kin_papers_heaps_run(&h->heaps, s->host_hits, s->host_places, h->timed.cpu_rows,
                                 h->pairs, h->pair_counts));
    h->timed.cpu_select = report->seconds_select - before;
    int64_t start = kin_clock_ns();
    KIN_TRY(wait_for(h, SELECTED, "computing canonical distances"));
    report->seconds_select += kin_clock_since(start);
    KIN_TRY(seconds_between(h, HANDED, FETCHED, &h->timed.handing));
    KIN_TRY(seconds_between(h, FETCHED, SELECTED, &h->timed.gpu_select));
    start = kin_clock_ns();
    KIN_TRY(kin_fused_host_write(h->a, &lists));
    h->timed.cpu_rest = kin_clock_since(start);
    return KITH_OK;
}

static kith_status make_screened(screened *s, const kin_request *request)
{
    hybrid *h = &s->all;
    const int64_t blocks = kin_fused_blocks_of(kin_papers_hybrid_batch(request, h->rows));
    const kin_papers_hybrid_size size =
        kin_papers_hybrid_size_of(s->corpus->set.points, h->k, request->sample);
    h->sample = size.sample;
    KIN_TRY(kin_papers_costs_make(&s->costs, blocks, request->batch > 0, size.a_block));
    h->batch = s->costs.blocks * KIN_FUSED_BLOCK;
    KIN_TRY(make_room(s, size.leaves));
    return make_host(h, s->lists.capacity);
}

static kith_status answer(kin_fused_answers *a, const kin_fused_prepared *queries,
                          const kin_fused_prepared *corpus, const kin_fused_worst *worst,
                          const kin_request *request)
{
    static const way by = {start_screened, divide_screened, take_screened};
    kith_report *report = &a->on.ctx->report;
    const int64_t blocks = queries->set.padded / KIN_FUSED_BLOCK;
    screened s = {.all = {.a = a,
                          .k = kin_min_i64(a->wanted, corpus->groups.count),
                          .rows = queries->set.points,
                          .device = {.ctx = a->on.ctx},
                          .host = {.ctx = a->on.ctx},
                          .division = {.fixed = request->share}},
                  .queries = queries,
                  .corpus = corpus,
                  .costs = {.on = a->on, .cols = corpus->set, .col_worst = worst}};
    kin_exact_note_pipeline(a->on.ctx, request->pipeline);
    int64_t start = kin_clock_ns();
    kith_status status = make_screened(&s, request);
    report->seconds_prepare += kin_clock_since(start);
    start = kin_clock_ns();
    const double others = report->seconds_select + report->seconds_rescore;
    KIN_THEN(status, run_batches(&s.all, &by));
    if (status == KITH_OK && s.lost_count > 0) {
        a->tally.reruns += (double)s.lost_count;
        free_device(&s); /* solving them wants room, too */
        status =
            kin_fused_answers_solve(a, &queries->rows, &corpus->rows, s.lost_ids, s.lost_count);
    }
    a->tally.pairs += (double)(blocks * kin_fused_tiles_of(corpus->set.points));
    report->seconds_screen += /* what was waited for the GPU */
        kin_clock_since(start) + others - report->seconds_select - report->seconds_rescore;
    free_screened(&s);
    return status;
}

/* ---- By keys --------------------------------------------------------------------------------- */

typedef struct keyed {
    hybrid all;
    const kin_fused_rows *corpus;
    const kin_fused_rows *queries;
    int64_t leaves;
    int64_t room; /* hits of a batch */
    double *keys;
    double *samples;
    double *most; /* by query of the batch */
    kin_fused_hit *hits;
    uint64_t *count;
    uint64_t found_count; /* of the present batch */
    double *picked;       /* batch x k: what the GPU selects */
    uint32_t *picked_ids;
    kin_fused_pair *picked_pairs;
    kin_fused_hit *found; /* as they came */
    kin_fused_hit *in_order;
    int64_t *places;
} keyed;

static kith_status make_keys(keyed *s)
{
    kin_hold *hold = &s->all.device;
    kin_gpu *gpu = s->all.a->on.gpu;
    const uint64_t rows = (uint64_t)s->all.batch;
    const uint64_t places = kin_size_mul(rows, (uint64_t)s->all.k);
    KIN_GPU_NEW(hold, gpu, s->keys, kin_size_mul(rows, (uint64_t)s->corpus->rows), "all keys");
    KIN_GPU_NEW(hold, gpu, s->samples, rows * (uint64_t)s->all.sample, "a sample of keys");
    KIN_GPU_NEW(hold, gpu, s->most, rows, "thresholds");
    KIN_GPU_NEW(hold, gpu, s->hits, (uint64_t)s->room, "keys within thresholds");
    KIN_GPU_NEW(hold, gpu, s->picked, places, "selected keys");
    KIN_GPU_NEW(hold, gpu, s->picked_ids, places, "selected ids");
    KIN_GPU_NEW(hold, gpu, s->picked_pairs, places, "neighbours of a stripe");
    KIN_GPU_NEW(hold, gpu, s->count, 1, "a count");
    return KITH_OK;
}

/* As large a stripe as has room, of so many queries at most. */
static kith_status make_batch(keyed *s, int64_t most)
{
    const kin_fused_device *on = &s->all.a->on;
    s->all.batch = kin_papers_hybrid_stripe(most, s->corpus->rows, kin_gpu_scope(on->gpu));
    for (;;) {
        s->room = s->all.batch * s->leaves;
        const kith_status status = make_keys(s);
        if (status == KITH_OK) {
            return KITH_OK;
        }
        kin_hold_end(&s->all.device);
        if (status != KITH_E_DEVICE_MEMORY || s->all.batch == 1) {
            return status;
        }
        kin_forgive(on->ctx);
        kin_gpu_trim(on->gpu);
        s->all.batch = kin_ceil_div(s->all.batch, 2);
    }
}

static kith_status make_keyed(keyed *s, const kin_request *request)
{
    const int64_t rows = s->all.rows;
    const kin_papers_hybrid_size size =
        kin_papers_hybrid_size_of(s->corpus->rows, s->all.k, request->sample);
    s->all.sample = size.sample;
    s->leaves = size.leaves;
    KIN_TRY(make_batch(s, kin_papers_hybrid_batch(request, rows)));
    const uint64_t batch = (uint64_t)s->all.batch;
    KIN_NEW(&s->all.host, s->found, (uint64_t)s->room, "keys of a stripe");
    KIN_NEW(&s->all.host, s->in_order, (uint64_t)s->room, "keys of a stripe");
    KIN_NEW(&s->all.host, s->places, batch + 2, "places");
    KIN_NEW(&s->all.host, s->all.pairs, kin_size_mul(batch, (uint64_t)s->all.k),
            "neighbours of a stripe");
    KIN_NEW(&s->all.host, s->all.ids, batch, "rows of a stripe");
    /* All of a stripe's hits may be one query's. */
    return make_host(&s->all, kin_min_i64(s->room, s->corpus->rows));
}

/* Keys of a stripe, and their sample: under way when this returns. */
static kith_status start_keyed(hybrid *h, int64_t first)
{
    const keyed *s = (const keyed *)h;
    const int64_t count = rows_from(h, first);
    const kin_fused_device *on = &s->all.a->on;
    const kin_fused_keys keys = {.queries = *s->queries,
                                 .corpus = *s->corpus,
                                 .query0 = first,
                                 .query_count = count,
                                 .corpus_count = s->corpus->rows,
                                 .keys = s->keys,
                                 .pitch = s->corpus->rows};
    const kin_papers_sample sample = {.matrix = s->keys,
                                      .words = 2,
                                      .rows = count,
                                      .pitch = s->corpus->rows,
                                      .count = s->corpus->rows,
                                      .sample = s->samples,
                                      .columns = s->all.sample};
    KIN_TRY(set_mark(h, STARTED));
    KIN_TRY(checked(h, on->kernels->keys(on->stream, &keys), "computing keys"));
    if (s->all.sample > 0) {
        KIN_TRY(checked(h, on->gpu->module->papers->sample(on->stream, &sample), "sampling keys"));
    }
    return set_mark(h, COUNTED);
}

/* The neighbours of the last rows of a stripe, to their places among `pairs`. Waits. */
static kith_status pick(const keyed *s)
{
    const kin_fused_device *on = &s->all.a->on;
    const int64_t first = s->all.timed.cpu_rows;
    const kin_fused_picking picking = {.keys = s->keys + first * s->corpus->rows,
                                       .pitch = s->corpus->rows,
                                       .rows = s->all.timed.rows - first,
                                       .columns = s->corpus->rows,
                                       .k = s->all.k,
                                       .values = s->picked,
                                       .ids = s->picked_ids,
                                       .pairs = s->picked_pairs};
    KIN_TRY(kin_papers_pick(on->ctx, on->gpu, &picking));
    return kin_gpu_download(on->ctx, on->gpu, s->all.pairs + first * s->all.k, s->picked_pairs,
                            (uint64_t)(picking.rows * s->all.k) * sizeof *s->picked_pairs);
}

/* What is within the thresholds of the processor's rows; beyond the room it is counted. Waits. */
static kith_status prune(keyed *s, int64_t first)
{
    const kin_fused_device *on = &s->all.a->on;
    const int64_t start = kin_clock_ns();
    const int64_t rows = s->all.timed.cpu_rows;
    const int64_t columns = s->all.sample > 0 ? s->all.sample : s->corpus->rows;
    const kin_select_job job = {.values = (const char *)(s->all.sample > 0 ? s->samples : s->keys),
                                .stride_bytes = columns * (int64_t)sizeof *s->keys,
                                .rows = rows,
                                .cols = columns,
                                .k = s->all.k,
                                .dtype = KIN_SELECT_F64,
                                .sample = USUAL_SAMPLE,
                                .out_kth = s->most};
    const kin_fused_within within = {.keys = s->keys,
                                     .pitch = s->corpus->rows,
                                     .rows = rows,
                                     .columns = s->corpus->rows,
                                     .query0 = (uint32_t)first,
                                     .most = s->most,
                                     .room = s->room,
                                     .hits = s->hits,
                                     .count = s->count};
    KIN_TRY(kin_select_device(on->ctx, on->gpu, &job, true));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, s->count, 0, sizeof *s->count));
    KIN_TRY(checked(&s->all, on->kernels->within(on->stream, &within), "pruning keys"));
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, &s->found_count, s->count, sizeof *s->count));
    if (s->found_count <= (uint64_t)s->room) {
        KIN_TRY(kin_gpu_download(on->ctx, on->gpu, s->found, s->hits,
                                 s->found_count * sizeof *s->hits));
    }
    s->all.timed.handing = kin_clock_since(start);
    return KITH_OK;
}

/* Divides a stripe whose keys are under way, and has the GPU select from its rows. */
static kith_status divide_keyed(hybrid *h, int64_t first)
{
    static const double all = 1.0;
    keyed *s = (keyed *)h;
    divide_rows(h, rows_from(h, first));
    KIN_TRY(wait_for(h, COUNTED, "computing keys"));
    KIN_TRY(seconds_between(h, STARTED, COUNTED, &h->timed.gpu_rest));
    if (h->timed.cpu_rows < h->timed.rows) {
        const int64_t start = kin_clock_ns();
        const kith_status status = pick(s);
        h->timed.picking = kin_clock_since(start);
        if (status == KITH_E_DEVICE_MEMORY) {
            kin_forgive(h->a->on.ctx);
            h->division.fixed = &all;
            h->timed.cpu_rows = h->timed.rows;
        } else {
            KIN_TRY(status);
        }
    }
    return prune(s, first);
}

/* Counting sort by query: places[i] .. places[i + 1] - 1 become those of query first + i. */
static void put_in_order(const keyed *s, int64_t first, int64_t rows)
{
    const int64_t count = (int64_t)s->found_count;
    int64_t *next = s->places + 1; /* where the next hit of a query goes; in the end, places */
    memset(s->places, 0, (size_t)(rows + 2) * sizeof *s->places);
    for (int64_t i = 0; i < count; i++) {
        s->places[s->found[i].query - (uint32_t)first + 2] += 1;
    }
    for (int64_t row = 0; row < rows; row++) {
        s->places[row + 2] += s->places[row + 1];
    }
    for (int64_t i = 0; i < count; i++) {
        s->in_order[next[s->found[i].query - (uint32_t)first]++] = s->found[i];
    }
}

static kith_status take_keyed(hybrid *h, int64_t first)
{
    keyed *s = (keyed *)h;
    const int64_t rows = h->timed.rows;
    const bool lost = s->found_count > (uint64_t)s->room;
    const int64_t whole = lost ? h->timed.cpu_rows : 0; /* those before are solved */
    int64_t start = kin_clock_ns();
    for (int64_t row = 0; row < rows; row++) {
        h->ids[row] = (uint32_t)(first + row);
    }
    if (lost) {
        h->a->tally.reruns += (double)whole;
        KIN_TRY(kin_fused_answers_solve(h->a, s->queries, s->corpus, h->ids, whole));
        h->timed.rows = 0; /* nothing to learn */
    } else {
        put_in_order(s, first, h->timed.cpu_rows);
        h->a->on.ctx->report.seconds_select += kin_clock_since(start);
        KIN_TRY(kin_papers_heaps_run(&h->heaps, s->in_order, s->places, h->timed.cpu_rows, h->pairs,
                                     h->pair_counts));
        h->timed.cpu_select = kin_clock_since(start);
    }
    start = kin_clock_ns();
    KIN_TRY(kin_fused_answers_take_whole(h->a, h->pairs + whole * h->k, h->ids + whole,
                                         rows - whole, (int32_t)h->k));
    h->timed.cpu_rest = kin_clock_since(start);
    return KITH_OK;
}

static kith_status answer_keyed(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_rows *corpus,
                                const kin_fused_rows *queries, const kin_fused_query *query)
{
    static const way by = {start_keyed, divide_keyed, take_keyed};
    const kin_fused_device on = kin_fused_device_of(ctx, gpu);
    const kin_groups every_query = {.rows = queries->rows, .count = queries->rows};
    const kin_groups every_row = {.rows = corpus->rows, .count = corpus->rows};
    kin_fused_answers a = kin_fused_answers_of(&on, query, &every_row, &every_query);
    KIN_TRY(kin_fused_answers_make(&a, (query->place & KIN_FUSED_OUT_ON_DEVICE) != 0, false));
    kith_report *report = &ctx->report;
    const double others = report->seconds_screen + report->seconds_select + report->seconds_rescore;
    const int64_t start = kin_clock_ns();
    keyed s = {.all = {.a = &a,
                       .k = a.wanted,
                       .rows = queries->rows,
                       .device = {.ctx = ctx},
                       .host = {.ctx = ctx},
                       .division = {.fixed = query->request->share}},
               .corpus = corpus,
               .queries = queries};
    kith_status status = make_keyed(&s, query->request);
    KIN_THEN(status, run_batches(&s.all, &by));
    free_hybrid(&s.all);
    report->seconds_screen =
        kin_clock_since(start) + others - report->seconds_select - report->seconds_rescore;
    KIN_THEN(status, kin_fused_answers_finish(&a, query->out, corpus->rows));
    report->exact = KITH_CERTIFIED;
    report->candidates = (double)corpus->rows;
    report->rerun_share = a.tally.reruns / (double)queries->rows;
    kin_exact_note_pipeline(ctx, query->request->pipeline);
    kin_fused_answers_free(&a);
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
    const int64_t blocks = kin_fused_blocks_of(kin_papers_hybrid_batch(request, rows));
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

static uint64_t keys_bytes(const kin_gpu *gpu, const kin_request *request, int64_t rows,
                           int64_t columns, uint64_t scope)
{
    const int64_t k = wanted_of(request, columns);
    const kin_papers_hybrid_size s = kin_papers_hybrid_size_of(columns, k, request->sample);
    const int64_t stripe =
        kin_papers_hybrid_stripe(kin_papers_hybrid_batch(request, rows), columns, scope);
    const uint64_t picked = sizeof(double) + sizeof(uint32_t) + sizeof(kin_fused_pair);
    const uint64_t a_query = (uint64_t)(columns + s.sample + 1) * sizeof(double) +
                             (uint64_t)s.leaves * sizeof(kin_fused_hit) + (uint64_t)k * picked;
    const kin_select_job job = {.stride_bytes = columns * (int64_t)sizeof(double),
                                .rows = stripe,
                                .cols = columns,
                                .k = k,
                                .dtype = KIN_SELECT_F64,
                                .sample = 1,
                                .sorted = true};
    return kin_size_add(kin_size_mul((uint64_t)stripe, a_query),
                        kin_papers_scratch_bytes(gpu, &job, scope));
}

/* Of a batch: keys and neighbours; by keys, they are there once more, in order. Of all rows: ids,
 * twice. Of a thread: the longest row to select from. */
static uint64_t host_bytes(const kin_request *request, bool screens, int64_t rows, int64_t columns,
                           uint64_t scope, int32_t threads)
{
    const int64_t k = wanted_of(request, columns);
    const kin_papers_hybrid_size s = kin_papers_hybrid_size_of(columns, k, request->sample);
    const int64_t batch =
        screens ? costs_of(request, s.a_block, rows, columns, scope).blocks * KIN_FUSED_BLOCK
                : kin_papers_hybrid_stripe(kin_papers_hybrid_batch(request, rows), columns, scope);
    const int64_t room = kin_min_i64(batch * s.leaves, columns);
    const uint64_t hits =
        kin_size_mul((uint64_t)(batch * s.leaves), (screens ? 1 : 2) * sizeof(kin_fused_hit));
    const uint64_t others =
        kin_size_mul((uint64_t)batch, (uint64_t)k * sizeof(kin_fused_pair) + KIN_PAPERS_ROW_BYTES);
    const uint64_t heaps = kin_size_mul(
        (uint64_t)threads, kin_papers_heaps_bytes(k, screens ? (int64_t)s.leaves : room));
    return kin_size_add(kin_size_add(hits, others),
                        kin_size_add(heaps, (uint64_t)rows * 2 * sizeof(uint32_t)));
}

const kin_fused_pipeline kin_papers_hybrid = {.by_host = true,
                                              .answer = answer,
                                              .bytes = bytes_of,
                                              .keys = answer_keyed,
                                              .keys_bytes = keys_bytes,
                                              .host_bytes = host_bytes};
