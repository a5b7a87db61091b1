/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine_across.h"

#include "base/base_size.h"
#include "base/base_try.h"
#include "engine/engine_call.h"
#include "engine/engine_exact.h"
#include "exact/exact_direct.h"
#include "host/host_threads.h"
#include "tree/tree_cost.h"

#include <math.h>

enum { ROWS_A_TASK = 4096 };
/* A row that goes through a tree and knows how far is too far. */
static const double TREE_ROW_NS = 500.0;

static kin_request request_of(const kith_ctx *ctx, const kith_matrix *rows,
                              const kith_search_params *params)
{
    const kin_distance distance = {.metric = params->metric,
                                   .cols = rows->cols,
                                   .isa = ctx->isa,
                                   .custom = params->custom,
                                   .custom_arg = params->custom_arg};
    return kin_engine_request(params, &distance);
}

bool kin_across_suits_tree(const kith_ctx *ctx, const kith_matrix *rows,
                           const kith_search_params *params)
{
    const kin_request request = request_of(ctx, rows, params);
    const kin_tree_cost cost = kin_tree_cost_of(&request, rows->rows, rows->rows, false);
    return params->method == KITH_METHOD_AUTO && params->pipeline == KITH_PIPELINE_FUSED &&
           params->tree_height == 0 && ctx->device != KIN_DEVICE_CUDA &&
           kin_tree_chance_of(&cost) == KIN_TREE_LIKELY;
}

void kin_across_aim(const kith_ctx *ctx, const kith_matrix *all, kin_across *across)
{
    kith_matrix half = *all;
    half.rows /= KIN_ACROSS_SIDES;
    across->suits_tree = across->checked && kin_across_suits_tree(ctx, &half, &across->params);
}

/* Whether so many keys take less time than a tree, or what a screen must know of the rows before.
 */
static bool keys_win(const kin_request *request, double keys, const kith_matrix *large,
                     int64_t small, bool tree)
{
    const double other = tree ? kin_tree_build_ns(large->rows, large->cols)
                              : kin_tree_screen_ns(request, large->rows, small);
    return request->pipeline == NULL && request->method != KITH_METHOD_TREE &&
           kin_exact_screens(&request->distance) && keys * kin_tree_key_ns(large->cols) < other;
}

static bool suits_keys(const kith_ctx *ctx, const kin_across *across)
{
    const kith_matrix *rows = across->rows;
    const kin_request request = request_of(ctx, &rows[0], &across->params);
    const double pairs = (double)rows[0].rows * (double)rows[1].rows;
    const int large = rows[1].rows > rows[0].rows;
    return across->checked &&
           keys_win(&request, 2.0 * pairs, &rows[large], rows[1 - large].rows, across->suits_tree);
}

/* What is not found is not there. */
static kith_status empty(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const kin_across *across = arg;
    const double far = across->params.metric == KITH_INNER_PRODUCT ? -INFINITY : INFINITY;
    for (int side = 0; side < KIN_ACROSS_SIDES; side++) {
        const kith_neighbors *found = &across->found[side];
        const int64_t last = kin_min_i64((task + 1) * ROWS_A_TASK, found->rows) * found->k;
        for (int64_t i = task * ROWS_A_TASK * found->k; i < last; i++) {
            found->ids[i] = KITH_ID_NONE;
            found->distances64[i] = far;
        }
    }
    return KITH_OK;
}

kith_status kin_across_is_processors(kith_ctx *ctx, const kin_request *request, double pairs,
                                     bool *yes)
{
    kin_gpu *gpu = NULL;
    KIN_TRY(kin_pipeline_enter(ctx, request, pairs, &gpu));
    *yes = gpu == NULL;
    if (gpu != NULL) {
        kin_device_leave(ctx, gpu);
    }
    return KITH_OK;
}

/* ---- Ways ----------------------------------------------------------------------------------- */

static void free_sides(kith_ctx *ctx, kin_prepared sides[KIN_ACROSS_SIDES])
{
    for (int i = 0; i < KIN_ACROSS_SIDES; i++) {
        kin_prepared_free(ctx, &sides[i]);
    }
}

static kith_status prepare_sides(kith_ctx *ctx, const kith_matrix *const rows[KIN_ACROSS_SIDES],
                                 const kin_distance *distance, kin_prepared sides[KIN_ACROSS_SIDES])
{
    kith_status status = KITH_OK;
    memset(sides, 0, KIN_ACROSS_SIDES * sizeof *sides);
    for (int i = 0; i < KIN_ACROSS_SIDES && status == KITH_OK; i++) {
        status = kin_prepare_rows(ctx, rows[i], distance, "points",
                                  KIN_ROWS_DISTINCT | KIN_ROWS_CHECKED, &sides[i]);
    }
    if (status != KITH_OK) {
        free_sides(ctx, sides);
    }
    return status;
}

/* Canonical keys of all pairs, one direction after the other: nothing but the keys is computed. */
static kith_status search_directly(kith_ctx *ctx, const kin_across *across)
{
    const kith_matrix *const rows[] = {&across->rows[0], &across->rows[1]};
    kin_request request = request_of(ctx, rows[0], &across->params);
    kin_prepared sides[KIN_ACROSS_SIDES];
    kith_status status = KITH_OK;
    KIN_TRY(prepare_sides(ctx, rows, &request.distance, sides));
    for (int i = 0; i < KIN_ACROSS_SIDES && status == KITH_OK; i++) {
        request.k = across->found[i].k;
        request.within[0] = across->known[i];
        status = kin_direct_run(ctx, &sides[1 - i], &sides[i], &request, &across->found[i]);
    }
    free_sides(ctx, sides);
    return status;
}

kith_status kin_across_few(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                           const kith_search_params *params, const kith_neighbors *out, bool *done)
{
    const kith_matrix *const rows[] = {corpus, queries};
    const double pairs = (double)corpus->rows * (double)queries->rows;
    const bool tree = kin_across_suits_tree(ctx, corpus, params);
    kin_request request = request_of(ctx, corpus, params);
    kin_prepared sides[KIN_ACROSS_SIDES];
    *done = false;
    if (!keys_win(&request, pairs, corpus, queries->rows, tree)) {
        return KITH_OK;
    }
    KIN_TRY(kin_across_is_processors(ctx, &request, pairs, done));
    if (!*done) {
        return KITH_OK;
    }
    KIN_TRY(prepare_sides(ctx, rows, &request.distance, sides));
    const kith_status status = kin_direct_run(ctx, &sides[0], &sides[1], &request, out);
    free_sides(ctx, sides);
    return status;
}

/* Rows of one side in the other one. */
static kith_status search_side(kith_ctx *ctx, const kin_across *across, kith_method method,
                               int side)
{
    kin_call call;
    kin_knn_job job = {.corpus = across->rows[1 - side], .queries = across->rows[side]};
    job.request = request_of(ctx, &job.corpus, &across->params);
    job.request.k = across->found[side].k;
    job.request.method = method;
    job.request.within[0] = across->known[side];
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, kin_engine_knn(ctx, &job, &across->found[side]));
}

static kith_status search_twice(kith_ctx *ctx, const kin_across *across, kith_method method)
{
    KIN_TRY(search_side(ctx, across, method, 0));
    return search_side(ctx, across, method, 1);
}

static kith_status search_both(kith_ctx *ctx, const kin_across *across)
{
    kin_call call;
    kin_both_job job = {.a = across->rows[0], .b = across->rows[1]};
    job.request = request_of(ctx, &job.a, &across->params);
    job.request.k = across->found[0].k;
    memcpy(job.request.within, across->known, sizeof job.request.within);
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, kin_engine_both(ctx, &job, &across->found[0], &across->found[1]));
}

static bool goes_twice(const kith_ctx *ctx, const kin_across *across)
{
    const kin_request request = request_of(ctx, &across->rows[0], &across->params);
    return kin_method_goes_twice(&request, &across->rows[0], &across->rows[1]);
}

bool kin_across_meets_all(const kith_ctx *ctx, const kin_across *across)
{
    return !across->suits_tree && !suits_keys(ctx, across) && !goes_twice(ctx, across);
}

double kin_across_seconds(const kith_ctx *ctx, const kin_across *across)
{
    const kith_matrix *rows = across->rows;
    const int large = rows[1].rows > rows[0].rows;
    const int64_t many = rows[large].rows;
    const int64_t few = rows[1 - large].rows;
    const int32_t cols = rows[0].cols;
    const kin_request request = request_of(ctx, &rows[0], &across->params);
    double ns = 0.0;
    if (few == 0) {
        return 0.0;
    }
    if (suits_keys(ctx, across)) {
        ns = 2.0 * (double)many * (double)few * kin_tree_key_ns(cols);
    } else if (across->suits_tree) {
        ns = kin_tree_build_ns(many, cols) + kin_tree_build_ns(few, cols) +
             (double)(many + few) * TREE_ROW_NS;
    } else if (kin_exact_screens(&request.distance)) {
        ns = kin_tree_screen_ns(&request, many, few) + kin_tree_screen_ns(&request, few, 1);
    } else {
        ns = 2.0 * kin_tree_screen_ns(&request, many, few);
    }
    return ns * 1e-9 / (double)ctx->threads;
}

kith_status kin_across_search(kith_ctx *ctx, kin_across *across)
{
    const kith_neighbors *found = across->found;
    const int64_t most = kin_max_i64(found[0].rows, found[1].rows);
    if (across->known[0].keys != NULL) {
        KIN_TRY(kin_parallel(ctx, NULL, kin_ceil_div(most, ROWS_A_TASK), empty, across));
    }
    if (suits_keys(ctx, across)) {
        return search_directly(ctx, across);
    }
    if (across->suits_tree) {
        return search_twice(ctx, across, KITH_METHOD_TREE);
    }
    if (found[0].k != found[1].k || goes_twice(ctx, across)) {
        return search_twice(ctx, across, across->params.method);
    }
    return search_both(ctx, across);
}
