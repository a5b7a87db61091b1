/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A round is four launches and one small download:
 *
 *      sample    lists -> ids forward, slots backward    collect   slots -> ids
 *      join      ids meet -> offers                      merge     offers -> lists
 *
 * Slots of samples are read when offers begin: both use one block of memory.
 *
 * Memory. 2 x candidates x 4 bytes of ids a kind and position; the larger of the slots of both
 * kinds and of the offers, 8 bytes each.
 */
#include "cascade/cascade_run.h"

#include "base/base_try.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

typedef struct rounds {
    kin_cascade_run *run;
    kin_cascade_samples samples;
    uint64_t *words; /* slots of samples, then offers */
    uint64_t bytes;  /* of them */
    kin_cascade_counters *counters;
} rounds;

/* ---- Memory ---------------------------------------------------------------------------------- */

static void free_rounds(rounds *r)
{
    kin_gpu *gpu = r->run->on.gpu;
    kin_gpu_free(gpu, r->counters);
    kin_gpu_free(gpu, r->samples.old_counts);
    kin_gpu_free(gpu, r->samples.new_counts);
    kin_gpu_free(gpu, r->samples.old_ids);
    kin_gpu_free(gpu, r->samples.new_ids);
    kin_gpu_free(gpu, r->words);
}

static kith_status make_rounds(rounds *r)
{
    kith_ctx *ctx = r->run->on.ctx;
    kin_gpu *gpu = r->run->on.gpu;
    kin_cascade_samples *s = &r->samples;
    const uint64_t n = (uint64_t)r->run->count;
    kin_cascade_sample_sizes(r->run->candidates, &s->forward, &s->reverse);
    const uint64_t ids = kin_size_mul(n, (uint64_t)(s->forward + s->reverse));
    const uint64_t words = kin_size_mul(n, (uint64_t)kin_cascade_slot_words(s->reverse));
    r->bytes = kin_size_mul(words, sizeof *r->words);
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &r->words, words, sizeof *r->words, "offers to lists"));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &s->new_ids, ids, sizeof *s->new_ids, "samples of lists"));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &s->old_ids, ids, sizeof *s->old_ids, "samples of lists"));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &s->new_counts, n, sizeof *s->new_counts, "sample counts"));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &s->old_counts, n, sizeof *s->old_counts, "sample counts"));
    s->new_slots = r->words;
    s->old_slots = r->words + n * (uint64_t)s->reverse;
    return kin_gpu_alloc(ctx, gpu, &r->counters, 1, sizeof *r->counters, "counters");
}

/* ---- A round --------------------------------------------------------------------------------- */

static kith_status launch_round(const rounds *r, int32_t number)
{
    kin_cascade_run *run = r->run;
    const kin_cascade_kernels *kernels = run->kernels;
    kin_gpu_stream *stream = run->on.stream;
    const uint64_t salt = kin_descent_mix(run->request->seed + (uint64_t)number);
    const kin_cascade_sample sample = {.graph = run->graph, .samples = r->samples, .salt = salt};
    const kin_cascade_join join = {.points = run->points,
                                   .graph = run->graph,
                                   .samples = r->samples,
                                   .offers = r->words,
                                   .all = run->request->all_updates > 0,
                                   .salt = salt,
                                   .evaluations = &r->counters->evaluations,
                                   .lasts = run->share.lasts};
    const kin_cascade_merge merge = {.graph = run->graph,
                                     .offers = r->words,
                                     .counted = (int32_t)run->wanted,
                                     .updates = &r->counters->updates};
    const uint64_t offers = (uint64_t)run->count * KIN_CASCADE_SLOTS * sizeof *r->words;
    KIN_TRY(kin_gpu_fill(run->on.ctx, run->on.gpu, r->counters, 0, sizeof *r->counters));
    KIN_TRY(kin_gpu_fill(run->on.ctx, run->on.gpu, r->words, 0xff, r->bytes));
    KIN_TRY(kin_cascade_check(run, kernels->sample(stream, &sample), "sampling lists"));
    KIN_TRY(kin_cascade_share_least(run, r->samples.new_slots, r->samples.reverse));
    KIN_TRY(kin_cascade_share_least(run, r->samples.old_slots, r->samples.reverse));
    KIN_TRY(kin_cascade_check(run, kernels->collect(stream, &sample), "collecting samples"));
    KIN_TRY(kin_cascade_share_lasts(run));
    KIN_TRY(kin_gpu_fill(run->on.ctx, run->on.gpu, r->words, 0xff, offers));
    KIN_TRY(kin_cascade_check(run, kernels->join(stream, &join), "comparing samples"));
    KIN_TRY(kin_cascade_share_least(run, r->words, KIN_CASCADE_SLOTS));
    return kin_cascade_check(run, kernels->merge(stream, &merge), "updating lists");
}

/* Launched, waited for, counted. */
static kith_status run_round(const rounds *r, kin_descent_round *round)
{
    kin_cascade_run *run = r->run;
    kin_cascade_counters seen;
    double evaluations = 0.0;
    double updates = 0.0;
    KIN_TRY(launch_round(r, round->number));
    KIN_TRY(kin_gpu_download(run->on.ctx, run->on.gpu, &seen, r->counters, sizeof seen));
    KIN_TRY(kin_gpu_add_up(run->on.gpu, (double)seen.evaluations, &evaluations));
    KIN_TRY(kin_gpu_add_up(run->on.gpu, (double)seen.updates, &updates));
    run->evaluations += evaluations;
    round->updates = (int64_t)updates;
    round->evaluations = run->evaluations;
    round->seconds = kin_clock_since(run->start_ns);
    return KITH_OK;
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* Rounds until the judge speaks, lists change little, or there were enough of them. Lists that will
 * not become longer do what they can, stuck or not. */
static kith_status run_rounds(const rounds *r, bool lengthens, kin_descent_outcome *outcome,
                              kin_descent_verdict *verdict)
{
    kin_cascade_run *run = r->run;
    const kin_descent_request *request = run->request;
    const double few = request->delta * (double)run->count * (double)run->wanted;
    const int32_t last = outcome->rounds + request->rounds;
    while (outcome->rounds < last && *verdict == KIN_DESCENT_GO_ON) {
        kin_descent_round round = {.number = outcome->rounds + 1};
        KIN_TRY(kin_progress(run->on.ctx, "descend", (double)outcome->rounds, (double)last));
        KIN_TRY(run_round(r, &round));
        outcome->rounds = round.number;
        outcome->updates = round.updates;
        KIN_TRY(kin_cascade_judge(run, &round, verdict));
        const bool changes_little = (double)round.updates < few || round.updates == 0;
        if (*verdict != KIN_DESCENT_ENOUGH) {
            const bool stuck = changes_little || (lengthens && *verdict == KIN_DESCENT_STUCK);
            *verdict = stuck ? KIN_DESCENT_STUCK : KIN_DESCENT_GO_ON;
        }
    }
    return KITH_OK;
}

/* With lists of one length. */
static kith_status run_stage(kin_cascade_run *run, bool lengthens, kin_descent_outcome *outcome,
                             kin_descent_verdict *verdict)
{
    rounds r = {.run = run};
    kith_status status = make_rounds(&r);
    if (status == KITH_OK) {
        status = run_rounds(&r, lengthens, outcome, verdict);
    }
    free_rounds(&r);
    return status;
}

/* In place of many rounds; judged once more. */
static kith_status begin_wider(kin_cascade_run *run, kin_descent_outcome *outcome,
                               kin_descent_verdict *verdict)
{
    bool wider = false;
    *verdict = KIN_DESCENT_GO_ON;
    KIN_TRY(kin_cascade_widen(run, outcome->start, &wider));
    if (!wider) {
        return KITH_OK;
    }
    kin_descent_round start = {.evaluations = run->evaluations,
                               .seconds = kin_clock_since(run->start_ns)};
    outcome->seconds_start = start.seconds;
    KIN_TRY(kin_cascade_judge(run, &start, verdict));
    *verdict = *verdict == KIN_DESCENT_ENOUGH ? KIN_DESCENT_ENOUGH : KIN_DESCENT_GO_ON;
    return KITH_OK;
}

kith_status kin_cascade_descend(kin_cascade_run *run, kin_descent_outcome *outcome)
{
    kin_descent_round start = {.evaluations = run->evaluations,
                               .seconds = kin_clock_since(run->start_ns)};
    kin_descent_verdict verdict = KIN_DESCENT_GO_ON;
    bool goes_on = run->request->rounds > 0;
    KIN_TRY(kin_cascade_judge(run, &start, &verdict));
    if (verdict == KIN_DESCENT_FAR) {
        KIN_TRY(begin_wider(run, outcome, &verdict));
    }
    goes_on = goes_on && verdict != KIN_DESCENT_ENOUGH;
    for (int32_t times = 1; goes_on; times++) {
        const bool lengthens = times <= run->request->lengthenings;
        verdict = KIN_DESCENT_GO_ON;
        KIN_TRY(run_stage(run, lengthens, outcome, &verdict));
        goes_on = lengthens && verdict != KIN_DESCENT_ENOUGH;
        if (goes_on) {
            KIN_TRY(kin_cascade_lengthen(run, times, &goes_on));
        }
    }
    return KITH_OK;
}
