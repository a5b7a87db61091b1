/* SPDX-License-Identifier: Apache-2.0
 * The rates are of one machine each, where comments say so of that one; elsewhere they are right
 * within a factor of some two. */
#include "engine/engine_graph.h"

#include "engine/engine_device.h"
#include "graph/graph_word.h"
#include "tree/tree_cost.h"
#include "tree/tree_gpu.h"

#include <math.h>

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
    const bool screens = kin_exact_screens(&job->request.distance);
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
    KIN_TRY(kin_descent_enter(ctx, job, gpu));
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
