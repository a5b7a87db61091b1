/* SPDX-License-Identifier: Apache-2.0
 * Approximate graphs, and the recall that ends them.
 *
 * The rows of two samples (recall.h) are solved exactly by the engine before the first round is
 * judged; after each round, and within the start, the deciding one is looked at, at the end the
 * telling one. */
#include "engine/engine_graph.h"

#include "engine/engine_device.h"

/* Longer lists, twice as long each time, before we say that there is no further gain. A GPU makes
 * them longer where they are, and the first time without more candidates. */
enum { LENGTHENINGS = 2, GPU_LENGTHENINGS = 3 };

/* Rounds that would have to find as much as the last one so many times more to reach the mark are
 * left out, and lists become longer at once: each finds less than the one before. Said once less
 * than SETTLED of all entries change, since the first rounds from random lists find more each time.
 * Rounds with longer lists cost more, so that those with short ones must not end too early. */
static const double AS_MUCH_AGAIN = 8.0;
static const double SETTLED = 0.1;
static const double NEAR_ENOUGH = 0.75; /* of the wanted recall, for a start */

/* Pairs that a descent costs as much as, a row: by which "auto" chooses the device. */
static const double PAIRS_A_ROW = 5e4;

typedef struct watch {
    const kin_descent_job *job;
    kin_recall_samples samples;
    kith_descent_report *report;
    double evaluations; /* of stages before */
    double seconds;
    double before;     /* recall after the round before, in this stage */
    bool may_lengthen; /* another stage may follow this one */
    bool reached;
} watch;

/* ---- Rounds --------------------------------------------------------------------------------- */

static bool is_hopeless(const watch *w, const kin_graph_round *round, double recall)
{
    const double entries = (double)w->job->points.rows * (double)w->job->request.k;
    return w->may_lengthen && round->number > 0 && (double)round->updates < SETTLED * entries &&
           recall + AS_MUCH_AGAIN * (recall - w->before) < w->job->recall;
}

/* Points without clusters: rounds would take longer than a start that looks at more of them. */
static bool is_far(const watch *w, const kin_graph_round *round, double recall)
{
    return w->job->recall > 0.0 && w->job->request.share == 0.0 && round->number == 0 &&
           recall < NEAR_ENOUGH * w->job->recall;
}

/* kin_graph_request.judge */
static kith_status judge(void *arg, const kin_graph_round *round, kin_graph_verdict *verdict)
{
    watch *w = arg;
    kith_descent_report *report = w->report;
    const double recall = kin_recall_decide(&w->samples);
    w->reached = w->job->recall > 0.0 && recall >= w->job->recall;
    if (round->number == KIN_GRAPH_STARTING) {
        *verdict = w->reached ? KIN_GRAPH_ENOUGH : KIN_GRAPH_GO_ON;
        return KITH_OK;
    }
    if (report->round_count < KITH_DESCENT_ROUNDS) {
        report->round[report->round_count++] =
            (kith_descent_round){.number = report->rounds + round->number,
                                 .updates = round->updates,
                                 .evaluations = w->evaluations + round->evaluations,
                                 .phi = round->phi,
                                 .recall = recall,
                                 .seconds = w->seconds + round->seconds};
    }
    *verdict = w->reached                      ? KIN_GRAPH_ENOUGH
               : is_far(w, round, recall)      ? KIN_GRAPH_FAR
               : is_hopeless(w, round, recall) ? KIN_GRAPH_STUCK
                                               : KIN_GRAPH_GO_ON;
    w->before = recall;
    return KITH_OK;
}

static void add_outcome(watch *w, const kin_graph_request *request,
                        const kin_graph_outcome *outcome)
{
    kith_descent_report *report = w->report;
    report->rounds += outcome->rounds;
    report->exact = outcome->exact;
    report->list = outcome->list != 0 ? outcome->list : request->list;
    report->candidates = outcome->list != 0 ? outcome->candidates : request->candidates;
    report->evaluations += outcome->evaluations;
    report->seconds_start += outcome->seconds_start;
    report->seconds_rounds += outcome->seconds_rounds;
    w->evaluations = report->evaluations;
    w->seconds = report->seconds_start + report->seconds_rounds;
}

/* What ran out of memory or range with longer lists leaves the graph that there is. */
static bool stands(kith_ctx *ctx, kith_status status)
{
    const bool yes = status == KITH_E_MEMORY || status == KITH_E_LIMIT ||
                     status == KITH_E_DEVICE_MEMORY || status == KITH_E_UNSUPPORTED;
    if (yes) {
        kin_forgive(ctx);
    }
    return yes;
}

/* On the processor: the graph that was found starts another descent, with longer lists. */
static kith_status lengthen(kith_ctx *ctx, watch *w, kin_graph_request *request,
                            const kith_neighbors *out)
{
    const kin_descent_job *job = w->job;
    for (int i = 0; i < LENGTHENINGS && !w->reached && !w->report->exact; i++) {
        kin_graph_outcome outcome = {0};
        const kith_report before = ctx->report;
        request->start = KIN_GRAPH_START_GRAPH;
        request->init = out;
        request->split = 0;
        request->share = 0.0;
        request->seed += 1;
        request->list *= 2;
        request->candidates += request->candidates / 2;
        kin_descent_complete(NULL, job->points.rows, request);
        w->may_lengthen = i + 1 < LENGTHENINGS;
        const kith_status status = kin_graph_descend(ctx, &job->points, request, out, &outcome);
        if (stands(ctx, status)) {
            ctx->report = before;
            return KITH_OK;
        }
        KIN_TRY(status);
        add_outcome(w, request, &outcome);
    }
    return KITH_OK;
}

static void tell(const watch *w, kith_descent_report *report)
{
    report->reached = w->reached;
    if (report->exact != 0) {
        report->reached = 1;
        report->recall = kin_recall_exact(w->job->points.rows, w->job->at);
    } else {
        kin_recall_tell(&w->samples, &report->recall);
    }
}

static kith_status run(kith_ctx *ctx, kin_gpu *gpu, watch *w, uint32_t place,
                       const kith_neighbors *out)
{
    const kin_descent_job *job = w->job;
    kin_graph_request request = job->request;
    kin_graph_outcome outcome = {0};
    kin_descent_complete(gpu, job->points.rows, &request);
    request.place = place;
    request.control = job->sample > 0 ? &w->samples.control : NULL;
    request.judge = judge;
    request.judge_arg = w;
    request.ends_start = request.control != NULL && job->recall > 0.0;
    w->may_lengthen = job->may_lengthen && (gpu != NULL || out->ids != NULL);
    const bool lengthens = w->may_lengthen && gpu == NULL;
    request.lengthenings = w->may_lengthen && gpu != NULL ? GPU_LENGTHENINGS : 0;
    KIN_TRY(gpu != NULL ? kin_graph_gpu_descend(ctx, gpu, &job->points, &request, out, &outcome)
                        : kin_graph_descend(ctx, &job->points, &request, out, &outcome));
    w->report->start = (kith_start)outcome.start;
    add_outcome(w, &request, &outcome);
    return lengthens ? lengthen(ctx, w, &request, out) : KITH_OK;
}

kith_status kin_descent_run(kith_ctx *ctx, kin_gpu *gpu, const kin_descent_job *job, uint32_t place,
                            const kith_neighbors *out, kith_descent_report *report)
{
    watch w = {.job = job,
               .samples = {.rows = job->points.rows,
                           .each = job->sample,
                           .decides = job->recall > 0.0,
                           .control.at = job->at},
               .report = report};
    memset(report, 0, sizeof *report);
    kith_status status = kin_recall_samples_make(ctx, job->request.seed, &w.samples);
    KIN_THEN(status, run(ctx, gpu, &w, place, out));
    if (status == KITH_OK) {
        tell(&w, report);
        ctx->report.exact = report->exact == 1 ? KITH_CERTIFIED : KITH_APPROXIMATE;
        ctx->report.recall = report->recall;
        ctx->report.reached = report->reached;
    }
    kin_recall_samples_free(ctx, &w.samples);
    return status;
}

/* ---- The device ----------------------------------------------------------------------------- */

kith_status kin_descent_enter(kith_ctx *ctx, const kin_descent_job *job, kin_gpu **gpu)
{
    const double rows = (double)job->points.rows;
    const double pairs = rows * (rows / 2.0 < PAIRS_A_ROW ? rows / 2.0 : PAIRS_A_ROW);
    return kin_device_enter(ctx, &job->request.distance, pairs, gpu);
}

kith_status kin_engine_descent(kith_ctx *ctx, const kin_descent_job *job, const kith_neighbors *out,
                               kith_descent_report *report)
{
    kin_gpu *gpu = NULL;
    KIN_TRY(kin_descent_enter(ctx, job, &gpu));
    if (gpu != NULL) {
        const kith_status status = kin_descent_run(ctx, gpu, job, 0, out, report);
        kin_device_leave(ctx, gpu);
        if (!kin_device_yields(ctx, status)) {
            return status;
        }
    }
    return kin_descent_run(ctx, NULL, job, 0, out, report);
}
