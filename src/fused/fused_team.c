/* SPDX-License-Identifier: Apache-2.0
 *
 * How the answers of several GPUs come together that did a graph in lockstep (fused_graph.c;
 * cascade/cascade_end.c).
 *
 * Members rescore the rows that they own, a batch at a time; the first one fetches the pairs and
 * writes them, as it writes its own, so that equal rows, degenerate ones and outputs on the host or
 * on its device are cared for in one place. Of 10^7 rows with k = 10 it fetches 1.3 GB in all.
 */
#include "fused/fused_answer.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"

/* ---- Search ---------------------------------------------------------------------------------- */

bool kin_fused_team_yields(kith_ctx *ctx, kith_status status)
{
    enum { WARNING = 1 };
    if (status == KITH_OK || status == KITH_E_CANCELLED || status == KITH_E_DEVICE) {
        return false;
    }
    if (status == KITH_E_DEVICE_MEMORY) {
        kin_log(ctx, WARNING, "one GPU alone goes on, in batches: %s", ctx->failure.detail);
    }
    kin_forgive(ctx);
    return true;
}

/* ---- Lists on their way ---------------------------------------------------------------------- */

/* What a member shows of a batch. */
typedef struct batch {
    const kin_fused_pair *pairs;
    const int32_t *counts;
} batch;

/* Rows of batch number b of a part: *row0 and how many. */
static int64_t rows_of(const kin_fused_relay *relay, int32_t part, int64_t b, int64_t most,
                       int64_t *row0)
{
    *row0 = relay->firsts[part] + b * most;
    return kin_max_i64(0, kin_min_i64(most, relay->firsts[part + 1] - *row0));
}

static int64_t batches_of(const kin_fused_relay *relay, int32_t parts, int64_t most)
{
    int64_t count = 0;
    for (int32_t p = 0; p < parts; p++) {
        count = kin_max_i64(count, kin_ceil_div(relay->firsts[p + 1] - relay->firsts[p], most));
    }
    return count;
}

/* By the first member: its own batch, then those of the others, by way of its own memory. */
static kith_status deliver_batch(const kin_fused_relay *relay, kin_fused_delivery *d, int64_t b)
{
    const kin_fused_device *on = &relay->answers->on;
    for (int32_t p = 0; p < kin_gpu_parts(on->gpu); p++) {
        int64_t row0 = 0;
        const int64_t rows = rows_of(relay, p, b, d->most, &row0);
        const uint64_t n = (uint64_t)rows;
        if (rows == 0) {
            continue;
        }
        if (p > 0) {
            const batch *theirs = kin_gpu_shown(on->gpu, p);
            KIN_TRY(kin_gpu_copy_from(on->ctx, on->gpu, p, d->pairs, theirs->pairs,
                                      n * (uint64_t)d->k * sizeof *d->pairs));
            KIN_TRY(kin_gpu_copy_from(on->ctx, on->gpu, p, d->counts, theirs->counts,
                                      n * sizeof *d->counts));
        }
        KIN_TRY(relay->deliver(relay->arg, d, row0, rows));
    }
    return kin_gpu_wait(on->ctx, on->gpu);
}

static kith_status compute_batch(const kin_fused_relay *relay, kin_fused_delivery *d, int64_t b)
{
    const kin_fused_device *on = &relay->answers->on;
    int64_t row0 = 0;
    const int64_t rows = rows_of(relay, kin_gpu_part(on->gpu), b, d->most, &row0);
    if (rows > 0) {
        KIN_TRY(relay->compute(relay->arg, d, row0, rows));
    }
    return kin_gpu_wait(on->ctx, on->gpu);
}

kith_status kin_fused_team_relay(const kin_fused_relay *relay)
{
    kin_gpu *gpu = relay->answers->on.gpu;
    const bool delivers = kin_gpu_part(gpu) == 0;
    kin_fused_delivery d = {0};
    const kith_status made = kin_fused_delivery_make(relay->answers, relay->rows, relay->k, &d);
    kith_status status = made;
    if (status == KITH_OK && delivers && relay->begin != NULL) {
        status = relay->begin(relay->arg, &d);
    }
    status = kin_gpu_meet(gpu, status);
    const int64_t batches = status == KITH_OK ? batches_of(relay, kin_gpu_parts(gpu), d.most) : 0;
    for (int64_t b = 0; b < batches && status == KITH_OK; b++) {
        const kith_status own = compute_batch(relay, &d, b);
        const batch mine = {d.pairs, d.counts};
        kin_gpu_show(gpu, &mine);
        status = kin_gpu_meet(gpu, own);
        if (status == KITH_OK) {
            status = kin_gpu_meet(gpu, delivers ? deliver_batch(relay, &d, b) : KITH_OK);
        }
    }
    if (made == KITH_OK) {
        kin_fused_delivery_free(relay->answers, &d);
    }
    return status;
}

/* ---- The answers of a graph ------------------------------------------------------------------ */

typedef struct answering {
    kin_fused_answers *a;
    const kin_fused_work *work;
    const kin_fused_rows *rows;
    const kin_fused_rows *cols;
    const uint8_t *lost;
} answering;

static kith_status rescore_some(void *arg, kin_fused_delivery *d, int64_t row0, int64_t rows)
{
    const answering *g = arg;
    return kin_fused_delivery_rescore(d, g->work, g->rows, g->cols, row0, rows);
}

static kith_status deliver_some(void *arg, kin_fused_delivery *d, int64_t row0, int64_t rows)
{
    const answering *g = arg;
    return kin_fused_delivery_run(g->a, d, g->work->rows.ids + row0, rows,
                                  g->lost == NULL ? NULL : g->lost + row0);
}

/* Sums of all members, to the first one. */
static kith_status add_tallies(kin_fused_answers *a, const kin_fused_work *work)
{
    kin_gpu *gpu = a->on.gpu;
    kin_fused_tally own = {0};
    const kith_status status = kin_fused_work_tally(work, &own);
    kin_gpu_show(gpu, &own);
    KIN_TRY(kin_gpu_meet(gpu, status));
    for (int32_t p = 0; p < work->share.parts; p++) {
        const kin_fused_tally *one = kin_gpu_shown(gpu, p);
        a->tally.pairs += one->pairs;
        a->tally.skipped += one->skipped;
        a->tally.keys += one->keys;
    }
    return kin_gpu_meet(gpu, KITH_OK);
}

kith_status kin_fused_answers_take_shared(kin_fused_answers *a, kin_fused_work *work,
                                          const kin_fused_rows *rows, const kin_fused_rows *cols)
{
    const bool first = work->share.part == 0;
    uint8_t *lost = NULL;
    int64_t count = 0;
    kith_status status = KITH_OK;
    KIN_TRY(kin_fused_share_lost(&a->on, &work->share, &work->lists));
    if (first) {
        status = kin_fused_work_lost(work, &lost, &count);
    }
    KIN_TRY_GOTO(status, kin_gpu_meet(a->on.gpu, status), done);
    answering g = {a, work, rows, cols, count > 0 ? lost : NULL};
    const kin_fused_relay relay = {.answers = a,
                                   .firsts = work->share.firsts,
                                   .rows = work->rows.points,
                                   .k = work->lists.k,
                                   .compute = rescore_some,
                                   .deliver = deliver_some,
                                   .arg = &g};
    KIN_TRY_GOTO(status, kin_fused_team_relay(&relay), done);
    KIN_TRY_GOTO(status, add_tallies(a, work), done);
    if (first && count > 0) {
        a->tally.reruns += (double)count;
        status = kin_fused_answers_rerun(a, work, rows, cols, lost, count);
    }
done:
    kin_free(a->on.ctx, lost);
    return status;
}
