/* SPDX-License-Identifier: Apache-2.0 */
#include "papers/papers_hybrid.h"

#include "base/base_layout.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_clock.h"
#include "host/host_threads.h"
#include "papers/papers.h"

#include <math.h>

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

int64_t kin_papers_sample_columns(int64_t columns, int64_t k, int32_t times)
{
    const int64_t suits = kin_max_i64(SAMPLE_A_NEIGHBOUR * k, columns / SAMPLE_SHARE);
    const int64_t wished = times > 0 ? times * k : suits;
    const int64_t sample = kin_round_up(wished, KIN_FUSED_TILE);
    return sample < columns ? sample : 0;
}

/* The k-th of a sample has about k columns / sample before it, and these vary as the waiting time
 * for k events does. The k-th of groups of costs (fused_matrix.cu) stands for up to 0.16 k more. */
int32_t kin_papers_sample_leaves(int64_t columns, int64_t sample, int64_t k)
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

void kin_papers_heaps_free(kin_papers_heaps *heaps)
{
    kin_free(heaps->ctx, heaps->block);
    heaps->block = NULL;
}

typedef struct running {
    const kin_papers_heaps *heaps;
    const kin_fused_hit *hits;
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
    const kin_fused_hit *hits = r->hits + r->places[row];
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

kith_status kin_papers_heaps_run(const kin_papers_heaps *heaps, const kin_fused_hit *hits,
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
