/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. With the share s of the rows at the processor, a row of a batch takes
 *
 *      T(s) = s handing + max(cpu_rest + s cpu_select, gpu_rest + (1 - s) gpu_select)
 *
 * seconds: keys that go to the processor are waited for by both; then the processor selects and
 * writes while the GPU selects and is at the next batch's costs. T is the larger of two straight
 * lines, so it is least where they meet, both sides ending together, or at an end of [0, 1].
 */
#include "papers/papers_hybrid.h"

#include "host/host_clock.h"
#include "host/host_threads.h"
#include "papers/papers.h"

#include <math.h>
#include <stddef.h>

/* ---- The processor's heaps ------------------------------------------------------------------- */

enum {
    SAMPLE_A_NEIGHBOUR = 32, /* columns of the sample for each of the k, at least, */
    SAMPLE_SHARE = 16,       /* and one of so many */
    ROOM = 256,              /* places of a list beyond what is expected, */
    DEVIATIONS = 6,          /* and so many standard deviations of what a sample leaves */
    USUAL_SAMPLE = 8,        /* of the processor's own threshold, times k */
    ROWS_A_TASK = 16
};

static const double GROUPS_LEAVE = 7.0 / 6.0;

/* ---- Sizes ----------------------------------------------------------------------------------- */

/* Columns of the sample of a row from whose k-th its threshold comes: times k of them (0: as many
 * as suit), a multiple of 128; 0 where all columns are no more. */
static int64_t sample_columns(int64_t columns, int64_t k, int32_t times)
{
    const int64_t suits = kin_max_i64(SAMPLE_A_NEIGHBOUR * k, columns / SAMPLE_SHARE);
    const int64_t wished = times > 0 ? times * k : suits;
    const int64_t sample = kin_round_up(wished, KIN_SCREEN_GPU_TILE);
    return sample < columns ? sample : 0;
}

/* The k-th of a sample has about k columns / sample before it, and these vary as the waiting time
 * for k events does. The k-th of groups of costs (screen_matrix.cu) stands for up to 0.16 k more.
 */
static int32_t sample_leaves(int64_t columns, int64_t sample, int64_t k)
{
    const double ratio = sample > 0 ? (double)columns / (double)sample : 1.0;
    const double most = ratio * (GROUPS_LEAVE * (double)k + DEVIATIONS * sqrt((double)k)) + ROOM;
    const int64_t fit = kin_min_i64((int64_t)most, columns);
    return (int32_t)kin_round_up(kin_max_i64(fit, k + 1), 8);
}

/* ---- Heaps ----------------------------------------------------------------------------------- */

/* What a thread selects in. */
typedef struct kin_papers_heap {
    double *keys;
    uint32_t *ids;
    char *scratch;
    kin_word128 *words;
} heap;

uint64_t kin_papers_heaps_bytes(int64_t k, int64_t room)
{
    const kin_select_job job = {
        .k = k, .dtype = KIN_SELECT_F64, .sample = USUAL_SAMPLE, .sorted = true};
    const kin_select_body *body = kin_papers_threshold_heap(KIN_ISA_PORTABLE);
    return kin_size_add(
        (uint64_t)room * (sizeof(double) + sizeof(uint32_t)),
        kin_size_add(body->scratch_bytes(&job, room), (uint64_t)k * sizeof(kin_word128)));
}

static void name_heaps(kin_layout *layout, void *job)
{
    kin_papers_heaps *heaps = job;
    const uint64_t places = (uint64_t)heaps->room;
    const uint64_t bytes = heaps->body->scratch_bytes(&heaps->job, heaps->room);
    heap spare;
    heaps->threads =
        kin_layout_array(layout, (uint64_t)heaps->ctx->threads, sizeof *heaps->threads);
    for (int32_t t = 0; t < heaps->ctx->threads; t++) {
        heap *own = kin_layout_item(heaps->threads, t, &spare);
        own->keys = kin_layout_array(layout, places, sizeof *own->keys);
        own->ids = kin_layout_array(layout, places, sizeof *own->ids);
        own->scratch = kin_layout_array(layout, bytes, 1);
        own->words = kin_layout_array(layout, (uint64_t)heaps->job.k, sizeof *own->words);
    }
}

kith_status kin_papers_heaps_make(kith_ctx *ctx, int64_t k, int64_t room, kin_papers_heaps *heaps)
{
    *heaps = (kin_papers_heaps){
        .ctx = ctx,
        .room = room,
        .body = kin_papers_threshold_heap(ctx->isa),
        .job = {.k = k, .dtype = KIN_SELECT_F64, .sample = USUAL_SAMPLE, .sorted = true}};
    return kin_layout_make(ctx, name_heaps, heaps, "keys of rows", &heaps->block);
}

typedef struct running {
    const kin_papers_heaps *heaps;
    const kin_screen_gpu_hit *hits;
    const int64_t *places;
    int64_t rows;
    kin_pair *pairs;
    int32_t *counts;
} running;

static kith_status select_row(void *arg, int64_t row, int32_t thread)
{
    const running *r = arg;
    const heap *own = &r->heaps->threads[thread];
    const kin_select_job *job = &r->heaps->job;
    const kin_screen_gpu_hit *hits = r->hits + r->places[row];
    const int64_t count = r->places[row + 1] - r->places[row];
    const int64_t kept = kin_min_i64(count, job->k);
    const kin_run run = {.values = (const char *)own->keys,
                         .ids = own->ids,
                         .count = count,
                         .dtype = KIN_SELECT_F64};
    kin_pair *pairs = r->pairs + row * job->k;
    r->counts[row] = (int32_t)kept;
    if (count == 0) {
        return KITH_OK;
    }
    for (int64_t i = 0; i < count; i++) {
        own->keys[i] = hits[i].key;
        own->ids[i] = hits[i].first;
    }
    r->heaps->body->select(job, &run, own->scratch, own->words);
    for (int64_t i = 0; i < kept; i++) {
        kin_word128_value(own->words[i], false, &pairs[i].key, 0);
        pairs[i].id = (uint32_t)own->words[i];
        pairs[i].weight = 1;
    }
    return KITH_OK;
}

kith_status kin_papers_heaps_run(const kin_papers_heaps *heaps, const kin_screen_gpu_hit *hits,
                                 const int64_t *places, int64_t rows, kin_pair *pairs,
                                 int32_t *counts)
{
    const int64_t start = kin_clock_ns();
    running r = {heaps, hits, places, rows, pairs, counts};
    const kith_status status =
        kin_parallel_rows(heaps->ctx, "select", rows, ROWS_A_TASK, select_row, &r);
    heaps->ctx->report.seconds_select += kin_clock_since(start);
    return status;
}

/* Bounds, not rates: how far a division moves at a time, and how often both sides are looked at. */
enum {
    STEP = 4,          /* a share moves by at most one of so many, */
    PROBE = 16,        /* one of so many rows is enough to time a side, */
    PROBE_BATCHES = 16 /* and that is done once in so many batches */
};

static double bounded(double value, double least, double most)
{
    return fmin(fmax(value, least), most);
}

static double time_of(const kin_papers_rates *r, double share)
{
    return share * r->handing +
           fmax(r->cpu_rest + share * r->cpu_select, r->gpu_rest + (1.0 - share) * r->gpu_select);
}

double kin_papers_division_best(const kin_papers_rates *r)
{
    const double both = r->cpu_select + r->gpu_select;
    const double meet =
        both > 0.0 ? bounded((r->gpu_rest + r->gpu_select - r->cpu_rest) / both, 0.0, 1.0) : 1.0;
    const double end = time_of(r, 0.0) < time_of(r, 1.0) ? 0.0 : 1.0;
    return time_of(r, meet) < time_of(r, end) ? meet : end;
}

/* The share of the next batch, before it is made whole rows. */
static double next_share(const kin_papers_division *d)
{
    const double step = 1.0 / STEP;
    const double probe = 1.0 / PROBE;
    double share = d->batches == 0 ? 1.0 : d->share;
    if (d->knows_cpu && d->knows_gpu) {
        share = bounded(kin_papers_division_best(&d->rates), share - step, share + step);
    }
    return d->batches % PROBE_BATCHES == 0 ? bounded(share, probe, 1.0 - probe) : share;
}

int64_t kin_papers_division_rows(kin_papers_division *d, int64_t rows)
{
    d->share = bounded(d->fixed != NULL ? *d->fixed : next_share(d), 0.0, 1.0);
    d->batches += 1;
    return (int64_t)(d->share * (double)rows + 0.5);
}

static void learn(double *rate, bool known, double seconds, int64_t rows)
{
    const double seen = seconds / (double)rows;
    *rate = known ? (*rate + seen) / 2 : seen;
}

void kin_papers_division_learn(kin_papers_division *d, const kin_papers_timed *t)
{
    const int64_t gpu_rows = t->rows - t->cpu_rows;
    const bool known = d->knows_cpu || d->knows_gpu;
    if (t->rows < 1) {
        return;
    }
    learn(&d->rates.cpu_rest, known, t->cpu_rest, t->rows);
    learn(&d->rates.gpu_rest, known, t->gpu_rest, t->rows);
    if (t->cpu_rows > 0) {
        learn(&d->rates.handing, d->knows_cpu, t->handing, t->cpu_rows);
        learn(&d->rates.cpu_select, d->knows_cpu, t->cpu_select, t->cpu_rows);
        d->knows_cpu = true;
    }
    if (gpu_rows > 0) {
        learn(&d->rates.gpu_select, d->knows_gpu, t->gpu_select, gpu_rows);
        d->knows_gpu = true;
    }
}

/* ---- Batches --------------------------------------------------------------------------------- */

kin_papers_hybrid_size kin_papers_hybrid_size_of(int64_t columns, int64_t k, int32_t times)
{
    kin_papers_hybrid_size s = {.sample = sample_columns(columns, k, times)};
    s.leaves = sample_leaves(columns, s.sample, k);
    const uint64_t a_row = (uint64_t)s.leaves * (sizeof(uint64_t) + sizeof(kin_screen_gpu_hit)) +
                           (uint64_t)s.sample * sizeof(uint32_t) +
                           (uint64_t)k * sizeof(kin_screen_gpu_pair) + KIN_PAPERS_ROW_BYTES;
    s.a_block = KIN_SCREEN_GPU_BLOCK * a_row;
    return s;
}
