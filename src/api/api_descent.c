/* SPDX-License-Identifier: Apache-2.0
 * Approximate graphs, and the recall that ends them.
 *
 * Two samples are drawn, each with a seed of its own, and the engine solves the rows of both
 * exactly before the first round is judged:
 *
 *   deciding   is looked at after each round, and ends them when its recall is the wanted one
 *   telling    is looked at once, at the end: its recall is the report's
 *
 * One sample for both would flatter: rounds end at the moment at which chance has put it above the
 * mark. The telling sample knows nothing of when that was, so that its recall is what that of any
 * rows is on average, and its interval means what it says. */
#include "api/api_descent.h"

#include "api/api_call.h"
#include "api/api_device.h"
#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"

enum { DECIDES = 1 << 0, TELLS = 1 << 1 };

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

/* Makes the seed of the deciding sample another one than the telling one's. */
static const uint64_t DECIDING_SEED = 0x6b697468206b6e6eu;

typedef struct watch {
    const kin_descent_job *job;
    kin_descent_control control;
    uint32_t *ids;       /* of control */
    unsigned char *part; /* DECIDES, TELLS, or both */
    int64_t deciding;    /* rows */
    kith_descent_report *report;
    double evaluations; /* of stages before */
    double seconds;
    double before;     /* recall after the round before, in this stage */
    bool may_lengthen; /* another stage may follow this one */
    bool reached;
} watch;

/* ---- Samples -------------------------------------------------------------------------------- */

/* Both samples in one ascending list. */
static void join(watch *w, const uint32_t *tells, const uint32_t *decides, int64_t count,
                 int64_t deciding)
{
    int64_t i = 0;
    int64_t j = 0;
    int64_t rows = 0;
    while (i < count || j < deciding) {
        const bool left = i < count && (j == deciding || tells[i] <= decides[j]);
        const bool right = j < deciding && (i == count || decides[j] <= tells[i]);
        w->ids[rows] = left ? tells[i] : decides[j];
        w->part[rows] = (unsigned char)((left ? TELLS : 0) | (right ? DECIDES : 0));
        i += left;
        j += right;
        rows += 1;
    }
    w->control.count = rows;
}

static kith_status draw(kith_ctx *ctx, watch *w)
{
    const kin_descent_job *job = w->job;
    const int64_t rows = job->points.rows;
    uint32_t *drawn = NULL;
    w->deciding = job->recall > 0.0 ? job->sample : 0;
    const uint64_t most = (uint64_t)(job->sample + w->deciding);
    KIN_TRY(kin_alloc(ctx, &w->ids, most, sizeof *w->ids, "sample rows"));
    KIN_TRY(kin_alloc(ctx, &w->part, most, sizeof *w->part, "sample rows"));
    KIN_TRY(kin_alloc(ctx, &drawn, most, sizeof *drawn, "sample rows"));
    kin_sample_draw(rows, job->sample, job->request.seed, drawn);
    if (w->deciding > 0) {
        kin_sample_draw(rows, w->deciding, job->request.seed ^ DECIDING_SEED, drawn + job->sample);
    }
    join(w, drawn, drawn + job->sample, job->sample, w->deciding);
    kin_free(ctx, drawn);
    return KITH_OK;
}

static kith_status watch_make(kith_ctx *ctx, const kin_descent_job *job,
                              kith_descent_report *report, watch *w)
{
    *w = (watch){.job = job, .report = report};
    if (job->sample == 0) {
        return KITH_OK;
    }
    KIN_TRY(draw(ctx, w));
    const uint64_t count = (uint64_t)w->control.count;
    w->control.ids = w->ids;
    w->control.at = job->at;
    KIN_TRY(kin_alloc(ctx, &w->control.kth, count, sizeof(double), "distances of the sample"));
    return kin_alloc(ctx, &w->control.found, kin_size_mul(count, (uint64_t)job->at), sizeof(double),
                     "distances of the sample");
}

static void watch_free(kith_ctx *ctx, watch *w)
{
    kin_free(ctx, w->control.found);
    kin_free(ctx, w->control.kth);
    kin_free(ctx, w->part);
    kin_free(ctx, w->ids);
}

/* Recalls of the rows of a sample: a found neighbour counts when it is at most as far as the true
 * K-th, so that ties are no misses. */
static kin_sample_sums recalls(const watch *w, unsigned part)
{
    kin_sample_sums sums = {0};
    const int64_t at = w->control.at;
    for (int64_t i = 0; i < w->control.count; i++) {
        const double *found = w->control.found + i * at;
        int64_t hits = 0;
        if ((w->part[i] & part) == 0) {
            continue;
        }
        while (hits < at && found[hits] <= w->control.kth[i]) {
            hits += 1;
        }
        kin_sample_add(&sums, (double)hits / (double)at);
    }
    return sums;
}

/* ---- Rounds --------------------------------------------------------------------------------- */

static bool is_hopeless(const watch *w, const kin_descent_round *round, double recall)
{
    const double entries = (double)w->job->points.rows * (double)w->job->request.k;
    return w->may_lengthen && round->number > 0 && (double)round->updates < SETTLED * entries &&
           recall + AS_MUCH_AGAIN * (recall - w->before) < w->job->recall;
}

/* Points without clusters: rounds would take longer than a start that looks at more of them. */
static bool is_far(const watch *w, const kin_descent_round *round, double recall)
{
    return w->job->recall > 0.0 && w->job->request.share == 0.0 && round->number == 0 &&
           recall < NEAR_ENOUGH * w->job->recall;
}

/* kin_descent_request.judge */
static kith_status judge(void *arg, const kin_descent_round *round, kin_descent_verdict *verdict)
{
    watch *w = arg;
    kith_descent_report *report = w->report;
    double recall = -1.0;
    if (w->control.count > 0) {
        const kin_sample_sums sums = recalls(w, w->deciding > 0 ? DECIDES : TELLS);
        recall = sums.sum / (double)sums.rows;
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
    w->reached = w->job->recall > 0.0 && recall >= w->job->recall;
    *verdict = w->reached                      ? KIN_DESCENT_ENOUGH
               : is_far(w, round, recall)      ? KIN_DESCENT_FAR
               : is_hopeless(w, round, recall) ? KIN_DESCENT_STUCK
                                               : KIN_DESCENT_GO_ON;
    w->before = recall;
    return KITH_OK;
}

static kith_status descend(kith_ctx *ctx, kin_gpu *gpu, const kin_descent_job *job,
                           const kin_descent_request *request, uint32_t place,
                           const kith_neighbors *out, kin_descent_outcome *outcome)
{
    return gpu != NULL
               ? kin_cascade_graph_make(ctx, gpu, &job->points, request, place, out, outcome)
               : kin_descent_graph(ctx, &job->points, request, out, outcome);
}

static void add_outcome(watch *w, const kin_descent_request *request,
                        const kin_descent_outcome *outcome)
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
static kith_status lengthen(kith_ctx *ctx, watch *w, kin_descent_request *request,
                            const kith_neighbors *out)
{
    const kin_descent_job *job = w->job;
    for (int i = 0; i < LENGTHENINGS && !w->reached && !w->report->exact; i++) {
        kin_descent_outcome outcome = {0};
        const kith_report before = ctx->report;
        request->start = KIN_DESCENT_START_GRAPH;
        request->init = out;
        request->split = 0;
        request->share = 0.0;
        request->seed += 1;
        request->list *= 2;
        request->candidates += request->candidates / 2;
        kin_descent_complete(NULL, job->points.rows, request);
        w->may_lengthen = i + 1 < LENGTHENINGS;
        const kith_status status = kin_descent_graph(ctx, &job->points, request, out, &outcome);
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
    const int64_t rows = w->job->points.rows;
    report->reached = w->reached;
    if (report->exact != 0) {
        report->reached = 1;
        report->recall =
            (kith_recall){.recall = 1.0, .low = 1.0, .high = 1.0, .rows = rows, .at = w->job->at};
    }
    if (report->exact != 0 || w->control.count == 0) {
        return;
    }
    const kin_sample_sums sums = recalls(w, TELLS);
    kin_sample_interval(&sums, sums.rows == rows, &report->recall);
    report->recall.at = w->control.at;
}

static kith_status run(kith_ctx *ctx, kin_gpu *gpu, watch *w, uint32_t place,
                       const kith_neighbors *out)
{
    const kin_descent_job *job = w->job;
    kin_descent_request request = job->request;
    kin_descent_outcome outcome = {0};
    kin_descent_complete(gpu, job->points.rows, &request);
    request.control = job->sample > 0 ? &w->control : NULL;
    request.judge = judge;
    request.judge_arg = w;
    w->may_lengthen = job->may_lengthen && (gpu != NULL || out->ids != NULL);
    const bool lengthens = w->may_lengthen && gpu == NULL;
    request.lengthenings = w->may_lengthen && gpu != NULL ? GPU_LENGTHENINGS : 0;
    KIN_TRY(descend(ctx, gpu, job, &request, place, out, &outcome));
    w->report->start = (kith_start)outcome.start;
    add_outcome(w, &request, &outcome);
    return lengthens ? lengthen(ctx, w, &request, out) : KITH_OK;
}

kith_status kin_descent_run(kith_ctx *ctx, kin_gpu *gpu, const kin_descent_job *job, uint32_t place,
                            const kith_neighbors *out, kith_descent_report *report)
{
    kith_descent_report own;
    watch w;
    memset(&own, 0, sizeof own);
    own.struct_size = report != NULL ? report->struct_size : (uint32_t)sizeof own;
    kith_status status = watch_make(ctx, job, &own, &w);
    if (status == KITH_OK) {
        status = run(ctx, gpu, &w, place, out);
    }
    if (status == KITH_OK) {
        tell(&w, &own);
        ctx->report.exact = own.exact == 1 ? KITH_CERTIFIED : KITH_APPROXIMATE;
    }
    if (status == KITH_OK && report != NULL) {
        memcpy(report, &own, own.struct_size < sizeof own ? own.struct_size : sizeof own);
    }
    watch_free(ctx, &w);
    return status;
}

/* ---- The call ------------------------------------------------------------------------------- */

kith_status kin_descent_enter(kith_ctx *ctx, const kin_descent_job *job, kin_gpu **gpu)
{
    const double rows = (double)job->points.rows;
    const double pairs = rows * (rows / 2.0 < PAIRS_A_ROW ? rows / 2.0 : PAIRS_A_ROW);
    return kin_device_enter(ctx, &job->request.distance, pairs, gpu);
}

static kith_status graph(kith_ctx *ctx, const kith_matrix *points,
                         const kith_descent_params *params, const kith_neighbors *out,
                         kith_descent_report *report)
{
    kin_descent_job job;
    kin_gpu *gpu = NULL;
    KIN_TRY(kin_descent_check(ctx, points, params, 0, out, &job));
    KIN_TRY(kin_descent_check_report(ctx, report));
    KIN_TRY(kin_descent_enter(ctx, &job, &gpu));
    if (gpu != NULL) {
        const kith_status status = kin_descent_run(ctx, gpu, &job, 0, out, report);
        kin_device_leave(ctx, gpu);
        if (!kin_device_yields(ctx, status)) {
            return status;
        }
    }
    return kin_descent_run(ctx, NULL, &job, 0, out, report);
}

kith_status kith_graph_descent(kith_ctx *ctx, const kith_matrix *points,
                               const kith_descent_params *params, const kith_neighbors *out,
                               kith_descent_report *report)
{
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, graph(ctx, points, params, out, report));
}
