/* SPDX-License-Identifier: Apache-2.0
 * Approximate graphs, and the recall that ends them.
 *
 * The rows of two samples (recall.h) are solved exactly by the engine before the first round is
 * judged; after each round, and within the start, the deciding one is looked at, at the end the
 * telling one. */
#include "engine/engine_graph.h"

#include "tree/tree_cost.h"
#include "tree/tree_gpu.h"

#include <math.h>

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
    kin_free(ctx, w.samples.block);
    return status;
}

/* ---- The device ----------------------------------------------------------------------------- */

static kith_status enter_descent(kith_ctx *ctx, const kin_descent_job *job, kin_gpu **gpu)
{
    const double rows = (double)job->points.rows;
    const double pairs = rows * (rows / 2.0 < PAIRS_A_ROW ? rows / 2.0 : PAIRS_A_ROW);
    return kin_device_enter(ctx, &job->request.distance, pairs, gpu);
}

kith_status kin_engine_descent(kith_ctx *ctx, const kin_descent_job *job, const kith_neighbors *out,
                               kith_descent_report *report)
{
    kin_gpu *gpu = NULL;
    KIN_TRY(enter_descent(ctx, job, &gpu));
    KIN_TRY_GPU(ctx, gpu, false, kin_descent_run(ctx, gpu, job, 0, out, report));
    return kin_descent_run(ctx, NULL, job, 0, out, report);
}

/* ---- Exactly, or by a descent ---------------------------------------------------------------- */

/* The rates are of one machine each, where comments say so of that one; elsewhere they are right
 * within a factor of some two. */

/* ---- A descent from nothing ------------------------------------------------------------------ */

/* Seconds of a descent to a recall of about 0.99: a row, and each of its values. The lists cost
 * most in few columns, distances in many. The processor's are of a thread. Exact engines read rows
 * in order and in narrow types, a descent reads them here and there, so that a pair costs it more,
 * and the number of its pairs grows with the rows instead of their square: the lines cross near
 * 150,000 rows of 128 columns on two threads with AMX, and near a million on a GPU. Data of many
 * dimensions in earnest take some times longer, others less: nobody knows before. */
static const double CPU_ROW = 2e-5;
static const double CPU_VALUE = 5e-9;
static const double CPU_DIRECT_VALUE = 2e-7; /* metrics without matrix products */
static const double GPU_ROW = 2e-7;
static const double GPU_VALUE = 1.5e-9;
static const double GPU_DIRECT_VALUE = 5e-9;

/* Of exact answers we are certain, of these rates within some tens of percent. */
static const double IN_DOUBT = 0.7;

static double seconds_of_descent(const kith_ctx *ctx, const kin_descent_job *job, bool gpu)
{
    const bool screens = kin_is_screened(&job->request.distance);
    const double rows = (double)job->points.rows;
    const double cols = (double)job->points.cols;
    if (gpu) {
        return rows * (GPU_ROW + cols * (screens ? GPU_VALUE : GPU_DIRECT_VALUE));
    }
    return rows * (CPU_ROW + cols * (screens ? CPU_VALUE : CPU_DIRECT_VALUE)) /
           (double)ctx->threads;
}

static double seconds_of_exact(const kith_ctx *ctx, const kin_descent_job *job, bool gpu)
{
    const kin_request request = {.distance = job->request.distance, .k = job->request.k};
    const int64_t rows = job->points.rows;
    const kin_tree_cost cost = kin_tree_cost_of(&request, rows, rows, true);
    const bool tree = kin_tree_chance_of(&cost) == KIN_TREE_LIKELY &&
                      !(gpu && kin_tree_gpu_missing(&request) != NULL);
    const kin_device_seconds seconds =
        tree ? kin_device_seconds_of_tree(ctx, (double)rows, (double)rows)
             : kin_device_seconds_of_pairs(ctx, &job->request.distance,
                                           (double)rows * (double)rows / 2.0);
    return gpu ? seconds.gpu : seconds.cpu;
}

kith_status kin_cost_finds_gpu(kith_ctx *ctx, const kin_descent_job *job, kin_gpu **gpu)
{
    KIN_TRY(enter_descent(ctx, job, gpu));
    if (*gpu != NULL) {
        kin_gpu_leave(*gpu);
    }
    return KITH_OK;
}

/* A descent on a GPU has no batches: where it does not fit, "auto" goes on with the processor. */
static bool fits(const kin_descent_job *job, const kin_gpu *gpu)
{
    kin_graph_request request = job->request;
    kin_graph_gpu_defaults(&request, job->points.rows);
    return kin_graph_gpu_bytes(&job->points, &request) <= kin_gpu_room(gpu);
}

/* Whether lists are of hubs, and a GPU's start knows none: of many rows it has no relatives
 * (graph_relative_gpu.c). Rounds then may end without the recall that is wanted, so that exact
 * graphs are the sooner ones. */
static bool is_lost(const kin_descent_job *job, const kin_gpu *gpu)
{
    const kith_metric metric = job->request.distance.metric;
    kin_graph_request request = job->request;
    kin_graph_gpu_defaults(&request, job->points.rows);
    return gpu != NULL && request.related < 0 &&
           (metric == KITH_INNER_PRODUCT || metric == KITH_KL);
}

/* Adds seconds of a descent from nothing, scaled, and decides. */
static void decide(kith_ctx *ctx, const kin_descent_job *job, const kin_gpu *gpu, double scale,
                   kin_choice *choice)
{
    choice->descent_seconds += scale * seconds_of_descent(ctx, job, gpu != NULL && fits(job, gpu));
    if (is_lost(job, gpu)) {
        choice->descent_seconds = fmax(choice->descent_seconds, choice->exact_seconds);
    }
    choice->descends = job->points.rows <= KIN_GRAPH_MOST_POINTS &&
                       choice->descent_seconds < IN_DOUBT * choice->exact_seconds;
    ctx->report.estimated_exact = choice->exact_seconds;
    ctx->report.estimated_descent = choice->descent_seconds;
}

void kin_choose_on(kith_ctx *ctx, const kin_gpu *gpu, const kin_descent_job *job,
                   kin_choice *choice)
{
    if (choice->open) {
        choice->exact_seconds = seconds_of_exact(ctx, job, gpu != NULL);
        decide(ctx, job, gpu, 1.0, choice);
    }
}

kith_status kin_choose(kith_ctx *ctx, const kin_descent_job *job, kin_choice *choice)
{
    kin_gpu *gpu = NULL;
    KIN_TRY(choice->open ? kin_cost_finds_gpu(ctx, job, &gpu) : KITH_OK);
    kin_choose_on(ctx, gpu, job, choice);
    return KITH_OK;
}

/* ---- Two graphs made one --------------------------------------------------------------------- */

/* How long two graphs take to become one: exactly, or by a descent.
 *
 *   exactly      a canonical key for each id that the graphs have, by the processor; and what is
 *                nearest across (kin_across), on a GPU all pairs in either direction
 *   a descent    goes on from both graphs, and a sample is solved exactly, which tells its recall
 *
 * On two threads with AMX, k = 10, the last tenth added or halves made one, no sample: 100,000 and
 * 400,000 SIFT descriptors, lidar, covertype, phat0, Fashion-MNIST, imdb (notes/descent.md). */

/* A row that is read here and there, beside its key's arithmetic. */
static const double OWN_KEY_NS = 40.0;
/* Of the time of a descent that begins with nothing. On the processor one third (SIFT, phat0) to
 * four fifths (covertype), in three columns, where no descent is wanted, twice; on a GPU a third to
 * a half (bench/results/graph_merge_ways.csv). */
static const double MERGE_SHARE = 0.5;

typedef struct merging {
    kith_ctx *ctx;
    const kin_descent_job *job;
    int64_t first_rows;
} merging;

static double seconds_of_own(const merging *m)
{
    const double keys = (double)m->job->points.rows * (double)m->job->request.k;
    return keys * (OWN_KEY_NS + kin_tree_key_ns(&m->job->request.distance)) * 1e-9 /
           (double)m->ctx->threads;
}

static kith_status seconds_across(const merging *m, double *seconds)
{
    const kith_matrix *points = &m->job->points;
    const kin_distance *distance = &m->job->request.distance;
    const kin_request request = {.distance = *distance};
    const double first = (double)m->first_rows;
    const double pairs = first * ((double)points->rows - first);
    kin_across across = {.rows = {*points, *points}, .params = kith_search_params_default()};
    across.rows[0].rows = m->first_rows;
    across.rows[1].rows = points->rows - m->first_rows;
    across.params.metric = distance->metric;
    across.params.k = m->job->request.k;
    KIN_TRY(kin_across_is_processors(m->ctx, &request, pairs, &across.checked));
    kin_across_aim(m->ctx, points, &across);
    *seconds = seconds_of_own(m) +
               (across.checked ? kin_across_seconds(m->ctx, &across)
                               : kin_device_seconds_of_pairs(m->ctx, distance, 2.0 * pairs).gpu);
    return KITH_OK;
}

/* A search for its rows in all of them. */
static double seconds_of_sample(const merging *m, bool gpu)
{
    const kith_matrix *points = &m->job->points;
    const kin_request request = {.distance = m->job->request.distance, .k = m->job->at};
    const double pairs = (double)m->job->sample * (double)points->rows;
    if (m->job->sample == 0) {
        return 0.0;
    }
    return gpu ? kin_device_seconds_of_pairs(m->ctx, &request.distance, pairs).gpu
               : kin_tree_screen_ns(&request, points->rows, m->job->sample) * 1e-9 /
                     (double)m->ctx->threads;
}

kith_status kin_choose_merge(kith_ctx *ctx, const kin_descent_job *job, int64_t first_rows,
                             kin_choice *choice)
{
    const merging m = {ctx, job, first_rows};
    kin_gpu *gpu = NULL;
    if (!choice->open) {
        return KITH_OK;
    }
    KIN_TRY(seconds_across(&m, &choice->exact_seconds));
    KIN_TRY(kin_cost_finds_gpu(ctx, job, &gpu));
    choice->descent_seconds = seconds_of_sample(&m, gpu != NULL);
    decide(ctx, job, gpu, MERGE_SHARE, choice);
    return KITH_OK;
}
