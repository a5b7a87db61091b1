/* SPDX-License-Identifier: Apache-2.0
 * Two exact graphs made one.
 *
 *   across   what each row has nearest in the other set: kith_knn_both, or where a tree is the
 *            faster way or the sets are smaller than k, a search in each direction
 *   merge    the graphs' own lists with canonical keys, and those from across (exact_merge.h)
 *
 * Searches give distances, lists are merged by keys. A distance is its key, or the key's negative,
 * but under euclidean, where it is the key's root and two keys may have one: across is searched by
 * sqeuclidean, in the same order. */
#include "api/api_call.h"
#include "api/api_merge.h"
#include "api/api_method.h"
#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "exact/exact_merge.h"
#include "host/host_threads.h"

enum { SIDES = 2, ENTRIES_A_TASK = 1 << 16 };

typedef struct merging {
    kith_ctx *ctx;
    kin_merge_sets sets;
    kin_distance distance;
    kith_search_params params;    /* of the searches across */
    uint32_t flags;               /* of the answer */
    kith_matrix part[SIDES];      /* rows of a set */
    kith_neighbors across[SIDES]; /* of rows of a set in the other one */
} merging;

static bool is_one_sided(const merging *m)
{
    return m->part[0].rows == 0 || m->part[1].rows == 0;
}

/* ---- Arguments ------------------------------------------------------------------------------ */

static kith_status check(merging *m, const kith_matrix *points, int64_t first_rows,
                         const kith_neighbors *graph1, const kith_neighbors *graph2,
                         const kith_search_params *given, const kith_neighbors *out)
{
    kith_ctx *ctx = m->ctx;
    kith_search_params *params = &m->params;
    KIN_TRY(kin_check_search_params(ctx, given, params));
    KIN_TRY(kin_merge_check(ctx, points, first_rows, graph1, graph2, params->k, params->flags, 0,
                            &m->sets));
    KIN_TRY(kin_check_metric(ctx, params->metric, params->custom, params->custom_arg,
                             m->sets.points.cols, &m->distance));
    const bool self = (params->flags & KITH_INCLUDE_SELF) != 0;
    KIN_TRY(
        kin_check_output(ctx, params->k, m->sets.points.rows - (self ? 0 : 1),
                         self ? "the points have no more rows" : "a point's own id does not count",
                         out, m->sets.points.rows));
    if (params->radius != 0.0 || params->exclude != NULL) {
        return kin_fail(ctx, KITH_E_ARGUMENT, "%s, and a merge has none (leave it out)",
                        params->exclude != NULL ? "exclude is set" : "radius is not 0");
    }
    m->flags = params->flags;
    params->flags &= ~(uint32_t)KITH_INCLUDE_SELF;
    params->metric = m->distance.metric == KITH_EUCLIDEAN ? KITH_SQEUCLIDEAN : m->distance.metric;
    const int64_t rows[SIDES] = {first_rows, m->sets.points.rows - first_rows};
    for (int i = 0; i < SIDES; i++) {
        m->part[i] = m->sets.points;
        m->part[i].rows = rows[i];
    }
    m->part[1].data = (const char *)m->sets.points.data + first_rows * m->sets.points.stride_bytes;
    return KITH_OK;
}

/* ---- Across --------------------------------------------------------------------------------- */

static kith_status make_across(merging *m)
{
    for (int i = 0; i < SIDES; i++) {
        kith_neighbors *across = &m->across[i];
        across->rows = m->part[i].rows;
        across->k = kin_min_i64(m->params.k, m->part[1 - i].rows);
        const uint64_t entries = kin_size_mul((uint64_t)across->rows, (uint64_t)across->k);
        KIN_TRY(kin_alloc(m->ctx, &across->ids, entries, sizeof(uint32_t),
                          "neighbours across the sets"));
        KIN_TRY(kin_alloc(m->ctx, &across->distances64, entries, sizeof(double),
                          "neighbours across the sets"));
    }
    return KITH_OK;
}

static bool goes_twice(const merging *m)
{
    const kin_request request = {.distance = m->distance,
                                 .k = m->params.k,
                                 .pipeline = m->params.pipeline,
                                 .method = m->params.method,
                                 .tree_height = m->params.tree_height};
    return m->across[0].k != m->across[1].k ||
           kin_method_goes_twice(&request, &m->part[0], &m->part[1]);
}

static kith_status search_twice(merging *m)
{
    double seconds[3] = {0.0};
    for (int i = 0; i < SIDES; i++) {
        kith_search_params params = m->params;
        params.k = m->across[i].k;
        KIN_TRY(kith_knn_exact(m->ctx, &m->part[1 - i], &m->part[i], &params, &m->across[i]));
        seconds[0] += m->ctx->report.seconds_check;
        seconds[1] += m->ctx->report.seconds_prepare;
        seconds[2] += m->ctx->report.seconds_screen;
    }
    m->ctx->report.seconds_check = seconds[0];
    m->ctx->report.seconds_prepare = seconds[1];
    m->ctx->report.seconds_screen = seconds[2];
    return KITH_OK;
}

static kith_status negate(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const kith_neighbors *across = arg;
    const int64_t last = kin_min_i64((task + 1) * ENTRIES_A_TASK, across->rows * across->k);
    for (int64_t i = task * ENTRIES_A_TASK; i < last; i++) {
        across->distances64[i] = -across->distances64[i];
    }
    return KITH_OK;
}

static kith_status search_across(merging *m)
{
    KIN_TRY(make_across(m));
    if (is_one_sided(m)) {
        return KITH_OK;
    }
    KIN_TRY(goes_twice(m) ? search_twice(m)
                          : kith_knn_both(m->ctx, &m->part[0], &m->part[1], &m->params,
                                          &m->across[0], &m->across[1]));
    for (int i = 0; m->distance.metric == KITH_INNER_PRODUCT && i < SIDES; i++) {
        const int64_t entries = m->across[i].rows * m->across[i].k;
        KIN_TRY(kin_parallel(m->ctx, NULL, kin_ceil_div(entries, ENTRIES_A_TASK), negate,
                             &m->across[i]));
    }
    return KITH_OK;
}

/* ---- Merge ---------------------------------------------------------------------------------- */

static kith_status write_sides(merging *m, const kith_neighbors *out)
{
    static const char *const names[SIDES] = {"graph1", "graph2"};
    kin_prepared points;
    kith_status status = KITH_OK;
    KIN_TRY(kin_prepare_rows(m->ctx, &m->sets.points, &m->distance, "points", true,
                             !is_one_sided(m), &points));
    const int64_t first[SIDES] = {0, m->sets.first_rows};
    for (int i = 0; i < SIDES; i++) {
        const kin_merge_side side = {.name = names[i],
                                     .first = first[i],
                                     .graph = &m->sets.graph[i],
                                     .other_first = first[1 - i],
                                     .across = &m->across[i]};
        KIN_TRY_GOTO(status, kin_merge_write(m->ctx, &points, &side, m->flags, out), done);
    }
done:
    kin_prepared_free(m->ctx, &points);
    return status;
}

static kith_status merge(merging *m, const kith_neighbors *out)
{
    kith_status status = search_across(m);
    if (status == KITH_OK) {
        status = write_sides(m, out);
    }
    m->ctx->report.exact = status == KITH_OK;
    for (int i = 0; i < SIDES; i++) {
        kin_free(m->ctx, m->across[i].distances64);
        kin_free(m->ctx, m->across[i].ids);
    }
    return status;
}

kith_status kith_graph_merge_exact(kith_ctx *ctx, const kith_matrix *points, int64_t first_rows,
                                   const kith_neighbors *graph1, const kith_neighbors *graph2,
                                   const kith_search_params *params, const kith_neighbors *out)
{
    kin_call call;
    merging m = {.ctx = ctx};
    KIN_TRY(kin_call_begin(ctx, &call));
    kith_status status = check(&m, points, first_rows, graph1, graph2, params, out);
    if (status == KITH_OK) {
        status = merge(&m, out);
    }
    return kin_call_end(&call, status);
}
