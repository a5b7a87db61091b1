/* SPDX-License-Identifier: Apache-2.0 */
#include "papers/papers_hybrid.h"

#include "base/base_mem.h"
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

kith_status kin_papers_heaps_make(kith_ctx *ctx, int64_t k, int64_t room, kin_papers_heaps *heaps)
{
    const uint64_t places = (uint64_t)room;
    kith_status status = KITH_OK;
    *heaps = (kin_papers_heaps){
        .ctx = ctx,
        .body = kin_papers_threshold_heap(ctx->isa),
        .job = {.k = k, .dtype = KIN_SELECT_F64, .sample = USUAL_SAMPLE, .sorted = true}};
    KIN_TRY(kin_alloc_zero(ctx, &heaps->threads, (uint64_t)ctx->threads, sizeof *heaps->threads,
                           "threads"));
    for (int32_t t = 0; t < ctx->threads; t++) {
        heap *own = &heaps->threads[t];
        KIN_TRY_GOTO(status, kin_alloc(ctx, &own->keys, places, sizeof *own->keys, "keys of a row"),
                     done);
        KIN_TRY_GOTO(status, kin_alloc(ctx, &own->ids, places, sizeof *own->ids, "keys of a row"),
                     done);
        KIN_TRY_GOTO(status,
                     kin_alloc(ctx, &own->scratch, heaps->body->scratch_bytes(&heaps->job, room), 1,
                               "room to select in"),
                     done);
        KIN_TRY_GOTO(status,
                     kin_alloc(ctx, &own->words, (uint64_t)k, sizeof *own->words, "selected keys"),
                     done);
    }
done:
    if (status != KITH_OK) {
        kin_papers_heaps_free(heaps);
    }
    return status;
}

void kin_papers_heaps_free(kin_papers_heaps *heaps)
{
    for (int32_t t = 0; heaps->threads != NULL && t < heaps->ctx->threads; t++) {
        kin_free(heaps->ctx, heaps->threads[t].words);
        kin_free(heaps->ctx, heaps->threads[t].scratch);
        kin_free(heaps->ctx, heaps->threads[t].ids);
        kin_free(heaps->ctx, heaps->threads[t].keys);
    }
    if (heaps->ctx != NULL) {
        kin_free(heaps->ctx, heaps->threads);
    }
    heaps->threads = NULL;
}

typedef struct running {
    const kin_papers_heaps *heaps;
    const kin_fused_hit *hits;
    const int64_t *places;
    int64_t rows;
    kin_pair *pairs;
    int32_t *counts;
} running;

static void select_row(const running *r, const heap *own, int64_t row)
{
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
        return;
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
}

static kith_status select_some(void *arg, int64_t task, int32_t thread)
{
    const running *r = arg;
    const int64_t end = kin_min_i64(r->rows, (task + 1) * ROWS_A_TASK);
    for (int64_t row = task * ROWS_A_TASK; row < end; row++) {
        select_row(r, &r->heaps->threads[thread], row);
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
        kin_parallel(heaps->ctx, "select", kin_ceil_div(rows, ROWS_A_TASK), select_some, &r);
    heaps->ctx->report.seconds_select += kin_clock_since(start);
    return status;
}
