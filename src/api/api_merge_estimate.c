/* SPDX-License-Identifier: Apache-2.0
 * How long two graphs take to become one: exactly, or by a descent.
 *
 *   exactly      a canonical key for each id that the graphs have, by the processor; and what is
 *                nearest across (api_across.c), on a GPU all pairs, one direction after the other
 *   a descent    goes on from both graphs, and a sample is solved exactly, which tells its recall
 *
 * On two threads with AMX, k = 10, the last tenth added or halves made one, no sample: 100,000 and
 * 400,000 SIFT descriptors, lidar, covertype, phat0, Fashion-MNIST, imdb (docs/nn-descent.md). */
#include "api/api_across.h"
#include "api/api_call.h"
#include "api/api_device.h"
#include "api/api_merge.h"
#include "base/base_try.h"
#include "tree/tree_cost.h"

/* A row that is read here and there, beside its key's arithmetic. */
static const double OWN_KEY_NS = 40.0;
/* Of the time of a descent that begins with nothing. On the processor one third (SIFT, phat0) to
 * four fifths (covertype), in three columns, where no descent is wanted, twice; on a GPU a third to
 * a half (bench/results/graph_merge_ways.csv). */
static const double MERGE_SHARE = 0.5;

typedef struct estimating {
    kith_ctx *ctx;
    kin_descent_job job;
    int64_t first_rows;
} estimating;

static double seconds_of_own(const estimating *e)
{
    const double keys = (double)e->job.points.rows * (double)e->job.request.k;
    return keys * (OWN_KEY_NS + kin_tree_key_ns(e->job.points.cols)) * 1e-9 /
           (double)e->ctx->threads;
}

static kith_status estimate_exact(const estimating *e, double *seconds)
{
    const kith_matrix *points = &e->job.points;
    const kin_distance *distance = &e->job.request.distance;
    const kin_request request = {.distance = *distance};
    const double first = (double)e->first_rows;
    const double pairs = first * ((double)points->rows - first);
    kin_across across = {.rows = {*points, *points}, .params = kith_search_params_default()};
    across.rows[0].rows = e->first_rows;
    across.rows[1].rows = points->rows - e->first_rows;
    across.params.metric = distance->metric;
    across.params.k = e->job.request.k;
    KIN_TRY(kin_across_is_processors(e->ctx, &request, pairs, &across.checked));
    kin_across_aim(e->ctx, points, &across);
    *seconds = seconds_of_own(e) +
               (across.checked ? kin_across_seconds(e->ctx, &across)
                               : kin_device_seconds_of_pairs(e->ctx, distance, 2.0 * pairs).gpu);
    return KITH_OK;
}

/* A search for its rows in all of them. */
static double seconds_of_sample(const estimating *e, bool gpu)
{
    const kith_matrix *points = &e->job.points;
    const kin_request request = {.distance = e->job.request.distance, .k = e->job.at};
    const double pairs = (double)e->job.sample * (double)points->rows;
    if (e->job.sample == 0) {
        return 0.0;
    }
    return gpu ? kin_device_seconds_of_pairs(e->ctx, &request.distance, pairs).gpu
               : kin_tree_screen_ns(&request, points->rows, e->job.sample) * 1e-9 /
                     (double)e->ctx->threads;
}

static kith_status estimate(estimating *e, kith_descent_estimate *out)
{
    kith_descent_estimate own = {0};
    kin_gpu *gpu = NULL;
    KIN_TRY(kin_merge_check_first(e->ctx, &e->job.points, e->first_rows));
    KIN_TRY(estimate_exact(e, &own.seconds_exact));
    KIN_TRY(kin_descent_finds_gpu(e->ctx, &e->job, &gpu));
    own.seconds_descent = seconds_of_sample(e, gpu != NULL);
    return kin_descent_estimate(e->ctx, &e->job, gpu, MERGE_SHARE, &own, out);
}

kith_status kith_graph_merge_estimate(kith_ctx *ctx, const kith_matrix *points, int64_t first_rows,
                                      const kith_descent_params *params, kith_descent_estimate *out)
{
    kin_call call;
    estimating e = {.ctx = ctx, .first_rows = first_rows};
    KIN_TRY(kin_call_begin(ctx, &call));
    kith_status status = kin_descent_check_shape(ctx, points, params, &e.job);
    if (status == KITH_OK) {
        status = estimate(&e, out);
    }
    return kin_call_end(&call, status);
}
