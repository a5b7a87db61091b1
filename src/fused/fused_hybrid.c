/* SPDX-License-Identifier: Apache-2.0
 *
 * Threshold heap on both machines (TH-heap paper: IV, V).
 *
 * Idea. The GPU writes the costs of a batch of rows to all columns. The k-th cost of a sample of
 * the columns, at even strides, proves how far the k-th neighbour can be at most; what may be
 * within that, rounding included, is pushed to lists, canonical keys are computed for it, and these
 * pruned, compressed rows are all that the processor gets. Its threads select the k first of each
 * with min-max heaps while the GPU is at the next batch:
 *
 *      GPU         costs 1 | keys 1 | costs 2       | keys 2 | costs 3
 *      copy                         c k 1                    c k 2        c: counts, k: keys
 *      processor                         | select 1 |             | select 2 | ...
 *
 * The threshold is that of the costs, which are not the distances; that it holds is proved by the
 * bound of the screen, so the answer is the other pipelines', byte for byte.
 *
 * A sample of n / 16 columns (and at least 32 k) leaves some 16 k columns of a row. Rows of which
 * more is left than a list holds (ties, clusters) are computed by canonical keys of all pairs.
 *
 * Limits. Keys are copied behind the costs of the same batch, not beside those of the next one.
 * Selection is the processor's alone.
 *
 * Memory. The matrix of a batch (fused_costs.c), its sample, and 24 bytes of device memory and 16
 * of pinned memory for each place of a list.
 */
#include "fused/fused_hybrid.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "fused/fused_costs.h"
#include "fused/fused_heaps.h"
#include "fused/fused_host.h"
#include "fused/fused_pipeline.h"
#include "fused/fused_size.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

typedef struct hybrid {
    kin_fused_answers *a;
    const kin_fused_prepared *queries;
    const kin_fused_prepared *corpus;
    int64_t k;
    int64_t sample; /* columns */
    kin_fused_costs costs;
    kin_fused_lists lists; /* of a batch */
    uint32_t *samples;     /* batch x sample */
    int64_t *places;
    kin_fused_hit *hits;
    /* Pinned: what is copied while nobody waits. */
    int32_t *host_counts;
    int64_t *host_places;
    kin_fused_hit *host_hits;
    void *counted; /* the counts of a batch are here */
    void *fetched; /* and its keys */
    /* Host. */
    kin_fused_heaps heaps;
    kin_pair *pairs; /* batch x k */
    int32_t *pair_counts;
    uint8_t *lost;      /* by row of the batch */
    uint32_t *ids;      /* of all positions */
    uint32_t *lost_ids; /* lost_count of them */
    int64_t lost_count;
    double seconds_write;
} hybrid;

static int64_t batch_rows(const hybrid *h)
{
    return h->costs.blocks * KIN_FUSED_BLOCK;
}

static kin_fused_set rows_of(const hybrid *h, int64_t row0)
{
    return kin_fused_set_part(&h->queries->set, row0, batch_rows(h));
}

static kith_status checked(const hybrid *h, int error, const char *what)
{
    return kin_gpu_check(h->a->on.ctx, h->a->on.gpu, error, what);
}

/* ---- Room ------------------------------------------------------------------------------------ */

static kith_status make_pinned(hybrid *h)
{
    const kin_gpu_ops *ops = h->a->on.gpu->module->ops;
    const uint64_t rows = (uint64_t)batch_rows(h);
    const uint64_t places = rows * (uint64_t)h->lists.capacity;
    void *counts = NULL;
    void *begins = NULL;
    void *hits = NULL;
    KIN_TRY(checked(h, ops->allocate_pinned(rows * sizeof *h->host_counts, &counts),
                    "allocating pinned memory"));
    h->host_counts = counts;
    KIN_TRY(checked(h, ops->allocate_pinned((rows + 1) * sizeof *h->host_places, &begins),
                    "allocating pinned memory"));
    h->host_places = begins;
    KIN_TRY(checked(h, ops->allocate_pinned(places * sizeof *h->host_hits, &hits),
                    "allocating pinned memory"));
    h->host_hits = hits;
    KIN_TRY(checked(h, ops->event_make(&h->counted), "making an event"));
    return checked(h, ops->event_make(&h->fetched), "making an event");
}

static kith_status make_device(hybrid *h, int32_t capacity)
{
    const kin_fused_device *on = &h->a->on;
    const uint64_t rows = (uint64_t)batch_rows(h);
    const kin_fused_set first = rows_of(h, 0);
    KIN_TRY(kin_fused_lists_make(on, &first, h->k, capacity, &h->lists));
    KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &h->samples, rows * (uint64_t)h->sample,
                          sizeof *h->samples, "a sample of costs"));
    KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &h->places, rows + 1, sizeof *h->places, "places"));
    return kin_gpu_alloc(on->ctx, on->gpu, &h->hits, rows * (uint64_t)capacity, sizeof *h->hits,
                         "keys of a batch");
}

static kith_status make_host(hybrid *h)
{
    const kin_fused_device *on = &h->a->on;
    const uint64_t rows = (uint64_t)batch_rows(h);
    const uint64_t all = (uint64_t)h->queries->set.points;
    KIN_TRY(kin_fused_heaps_make(on->ctx, h->k, h->lists.capacity, &h->heaps));
    KIN_TRY(kin_alloc(on->ctx, &h->pairs, kin_size_mul(rows, (uint64_t)h->k), sizeof *h->pairs,
                      "neighbours of a batch"));
    KIN_TRY(kin_alloc(on->ctx, &h->pair_counts, rows, sizeof *h->pair_counts, "counts of a batch"));
    KIN_TRY(kin_alloc(on->ctx, &h->lost, rows, sizeof *h->lost, "row flags"));
    KIN_TRY(kin_alloc(on->ctx, &h->lost_ids, all, sizeof *h->lost_ids, "rows to solve"));
    KIN_TRY(kin_alloc(on->ctx, &h->ids, all, sizeof *h->ids, "ids of rows"));
    return kin_gpu_download(on->ctx, on->gpu, h->ids, h->queries->set.ids, all * sizeof *h->ids);
}

static void free_all(hybrid *h)
{
    const kin_fused_device *on = &h->a->on;
    const kin_gpu_ops *ops = on->gpu->module->ops;
    void *const pinned[] = {h->host_hits, h->host_places, h->host_counts};
    void *const events[] = {h->fetched, h->counted};
    (void)ops->wait(on->stream); /* copies may be under way where something failed */
    for (int i = 0; i < 3; i++) {
        if (pinned[i] != NULL) {
            ops->release_pinned(pinned[i]);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (events[i] != NULL) {
            ops->event_free(events[i]);
        }
    }
    kin_fused_heaps_free(&h->heaps);
    kin_free(on->ctx, h->ids);
    kin_free(on->ctx, h->lost_ids);
    kin_free(on->ctx, h->lost);
    kin_free(on->ctx, h->pair_counts);
    kin_free(on->ctx, h->pairs);
    kin_gpu_free(on->gpu, h->hits);
    kin_gpu_free(on->gpu, h->places);
    kin_gpu_free(on->gpu, h->samples);
    kin_fused_lists_free(on, &h->lists);
    kin_fused_costs_free(&h->costs);
}

/* ---- The GPU's part -------------------------------------------------------------------------- */

/* The reach of a batch from a sample of its first chunk. */
static kith_status find_reach(const hybrid *h, const kin_fused_set *rows, int64_t tiles)
{
    const kin_fused_device *on = &h->a->on;
    const int64_t columns = tiles * KIN_FUSED_TILE;
    const bool samples = h->sample > 0 && h->sample < columns;
    const kin_fused_sample sample = {.matrix = h->costs.matrix,
                                     .words = 1,
                                     .rows = rows->points,
                                     .pitch = h->costs.pitch,
                                     .count = columns,
                                     .sample = h->samples,
                                     .columns = h->sample};
    const kin_fused_kth kth = {.set = *rows,
                               .lists = h->lists,
                               .rows = rows->points,
                               .matrix = samples ? h->samples : h->costs.matrix,
                               .pitch = samples ? h->sample : h->costs.pitch,
                               .count = samples ? h->sample : columns,
                               .col_worst = h->corpus->set.worst};
    if (samples) {
        KIN_TRY(checked(h, on->kernels->sample(on->stream, &sample), "sampling costs"));
    }
    return checked(h, on->kernels->kth(on->stream, &kth), "finding thresholds");
}

/* Costs, threshold, candidates and how many: all of it under way when this returns. */
static kith_status start_batch(hybrid *h, int64_t row0)
{
    const kin_fused_device *on = &h->a->on;
    const kin_gpu_ops *ops = on->gpu->module->ops;
    const kin_fused_set rows = rows_of(h, row0);
    const int64_t all = kin_fused_tiles_of(h->corpus->set.points);
    const uint64_t padded = (uint64_t)rows.padded;
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, h->lists.counts, 0, padded * sizeof *h->lists.counts));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, h->lists.reach, KIN_FUSED_NO_REACH_BYTE,
                         padded * sizeof *h->lists.reach));
    for (int64_t first = 0; first < all; first += h->costs.chunk) {
        const int64_t tiles = kin_min_i64(h->costs.chunk, all - first);
        KIN_TRY(kin_fused_costs_run(&h->costs, &rows, first, tiles));
        if (first == 0) {
            KIN_TRY(find_reach(h, &rows, tiles));
        }
        KIN_TRY(kin_fused_costs_gather(&h->costs, &rows, &h->lists, first, tiles));
    }
    KIN_TRY(checked(h,
                    ops->copy_out(on->stream, h->host_counts, h->lists.counts,
                                  (uint64_t)rows.points * sizeof *h->host_counts),
                    "fetching counts"));
    return checked(h, ops->event_record(on->stream, h->counted), "screening");
}

/* Where the keys of each row will stand; rows whose list overflowed get none. */
static int64_t set_places(hybrid *h, int64_t row0, int64_t rows)
{
    int64_t total = 0;
    for (int64_t row = 0; row < rows; row++) {
        const int32_t count = h->host_counts[row];
        h->host_places[row] = total;
        h->lost[row] = count > h->lists.capacity;
        if (h->lost[row] != 0) {
            h->lost_ids[h->lost_count++] = h->ids[row0 + row];
        } else {
            total += count;
        }
    }
    h->host_places[rows] = total;
    return total;
}

/* The keys of a batch whose counts have come, and their copy: under way when this returns. */
static kith_status start_keys(hybrid *h, int64_t row0)
{
    const kin_fused_device *on = &h->a->on;
    const kin_gpu_ops *ops = on->gpu->module->ops;
    const kin_fused_set rows = rows_of(h, row0);
    KIN_TRY(checked(h, ops->event_wait(h->counted), "screening"));
    const int64_t total = set_places(h, row0, rows.points);
    const kin_fused_hits job = {.set = rows,
                                .cols_set = h->corpus->set,
                                .set_rows = h->queries->rows,
                                .cols_rows = h->corpus->rows,
                                .lists = h->lists,
                                .rows = rows.points,
                                .places = h->places,
                                .total = total,
                                .hits = h->hits};
    h->a->tally.keys += (double)total;
    KIN_TRY(checked(h,
                    ops->copy_in(on->stream, h->places, h->host_places,
                                 (uint64_t)(rows.points + 1) * sizeof *h->places),
                    "handing over places"));
    KIN_TRY(checked(h, on->kernels->hits(on->stream, &job), "computing canonical distances"));
    if (total > 0) {
        KIN_TRY(checked(
            h, ops->copy_out(on->stream, h->host_hits, h->hits, (uint64_t)total * sizeof *h->hits),
            "fetching keys"));
    }
    return checked(h, ops->event_record(on->stream, h->fetched), "fetching keys");
}

/* ---- The processor's part -------------------------------------------------------------------- */

static kith_status select_batch(hybrid *h, int64_t row0)
{
    const kin_fused_device *on = &h->a->on;
    const kin_fused_set rows = rows_of(h, row0);
    const kin_fused_finished lists = {.pairs = h->pairs,
                                      .counts = h->pair_counts,
                                      .ids = h->ids + row0,
                                      .lost = h->lost,
                                      .rows = rows.points,
                                      .k = (int32_t)h->k};
    KIN_TRY(checked(h, on->gpu->module->ops->event_wait(h->fetched), "fetching keys"));
    KIN_TRY(kin_fused_heaps_run(&h->heaps, h->host_hits, h->host_places, rows.points, h->pairs,
                                h->pair_counts));
    const int64_t start = kin_clock_ns();
    const kith_status status = kin_fused_host_write(h->a, &lists);
    h->seconds_write += kin_clock_since(start);
    return status;
}

/* ---- Both ------------------------------------------------------------------------------------ */

static kith_status run_batches(hybrid *h)
{
    const int64_t rows = h->queries->set.points;
    const int64_t batch = batch_rows(h);
    KIN_TRY(start_batch(h, 0));
    for (int64_t row0 = 0; row0 < rows; row0 += batch) {
        KIN_TRY(start_keys(h, row0));
        if (row0 + batch < rows) {
            KIN_TRY(start_batch(h, row0 + batch));
        }
        KIN_TRY(select_batch(h, row0));
        KIN_TRY(kin_progress(h->a->on.ctx, "screen", (double)row0, (double)rows));
    }
    return KITH_OK;
}

static kith_status make_all(hybrid *h)
{
    const int64_t columns = h->corpus->set.points;
    const int64_t blocks = h->queries->set.padded / KIN_FUSED_BLOCK;
    h->sample = kin_fused_sample_columns(columns, h->k);
    const int32_t capacity = kin_fused_sample_leaves(columns, h->sample, h->k);
    const uint64_t a_row = (uint64_t)capacity * (sizeof(uint64_t) + sizeof(kin_fused_hit)) +
                           (uint64_t)h->sample * sizeof(uint32_t) + 4 * sizeof(uint64_t);
    KIN_TRY(kin_fused_costs_make(&h->costs, blocks, KIN_FUSED_BLOCK * a_row));
    KIN_TRY(make_device(h, capacity));
    KIN_TRY(make_pinned(h));
    return make_host(h);
}

kith_status kin_fused_hybrid_run(kin_fused_answers *a, const kin_fused_prepared *queries,
                                 const kin_fused_prepared *corpus, const kin_fused_worst *worst)
{
    kith_report *report = &a->on.ctx->report;
    const double selected = report->seconds_select;
    const int64_t start = kin_clock_ns();
    const int64_t blocks = queries->set.padded / KIN_FUSED_BLOCK;
    const int64_t k = kin_min_i64(a->wanted, corpus->groups.count);
    hybrid h = {
        .a = a,
        .queries = queries,
        .corpus = corpus,
        .k = k,
        .costs = {.on = a->on, .cols = corpus->set, .col_worst = worst},
    };
    kin_fused_pipeline_note(a->on.ctx, KITH_PIPELINE_HYBRID);
    kith_status status = make_all(&h);
    if (status == KITH_OK) {
        status = run_batches(&h);
    }
    const int64_t lost = h.lost_count;
    if (status == KITH_OK && lost > 0) {
        a->tally.reruns += (double)lost;
        status = kin_fused_answers_solve(a, &queries->rows, &corpus->rows, h.lost_ids, lost);
    }
    a->tally.pairs += (double)(blocks * kin_fused_tiles_of(corpus->set.points));
    free_all(&h);
    report->seconds_rescore += h.seconds_write;
    report->seconds_screen += /* what was waited for the GPU */
        kin_clock_since(start) - h.seconds_write - (report->seconds_select - selected);
    return status;
}
