/* SPDX-License-Identifier: Apache-2.0
 * What is made of a graph: whether it is exact, by making it again; and its symmetric form. */
#include "api/api_check.h"
#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "engine/engine_call.h"
#include "file/file_checksum.h"
#include "graph/graph.h"

/* ---- Exactness ------------------------------------------------------------------------------ */

static void compare(const kith_neighbors *graph, const kith_neighbors *truth, int64_t *wrong,
                    int64_t *first_wrong)
{
    const size_t bytes = (size_t)truth->k * sizeof *truth->ids;
    *wrong = 0;
    *first_wrong = -1;
    for (int64_t row = 0; row < truth->rows; row++) {
        if (memcmp(graph->ids + row * graph->k, truth->ids + row * truth->k, bytes) != 0) {
            *first_wrong = *wrong == 0 ? row : *first_wrong;
            *wrong += 1;
        }
    }
}

static kith_status verify(kith_ctx *ctx, const kith_matrix *points, const kith_neighbors *graph,
                          const kith_search_params *given, int64_t *wrong, int64_t *first_wrong)
{
    kith_matrix matrix;
    kith_search_params params;
    KIN_TRY(kin_check_search_params(ctx, given, &params));
    KIN_TRY(kin_check_matrix(ctx, points, "points", &matrix));
    KIN_TRY(kin_check_graph(ctx, graph, matrix.rows));
    params.metric = params.metric != KITH_METRIC_DEFAULT ? params.metric : KITH_EUCLIDEAN;
    KIN_TRY(kin_fingerprint_check(ctx, graph, "graph", &matrix, params.metric));
    if (wrong == NULL || first_wrong == NULL) {
        return kin_fail(ctx, KITH_E_ARGUMENT, "wrong or first_wrong is NULL (give room for them)");
    }
    if (params.k > graph->k) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("k"),
                           "is %lld and the graph has lists of %lld (take a k of at most that)",
                           (long long)params.k, (long long)graph->k);
    }
    kith_neighbors truth = {.rows = matrix.rows, .k = params.k};
    KIN_TRY(kin_alloc(ctx, &truth.ids,
                      kin_size_mul((uint64_t)truth.rows, (uint64_t)kin_max_i64(truth.k, 0)),
                      sizeof *truth.ids, "true neighbours"));
    const kith_status status = kith_graph(ctx, &matrix, &params, &truth, NULL);
    if (status == KITH_OK) {
        compare(graph, &truth, wrong, first_wrong);
        ctx->report.exact = *wrong == 0 ? KITH_CERTIFIED : KITH_APPROXIMATE;
    }
    kin_free(ctx, truth.ids);
    return status;
}

kith_status kith_graph_verify(kith_ctx *ctx, const kith_matrix *points, const kith_neighbors *graph,
                              const kith_search_params *params, int64_t *wrong,
                              int64_t *first_wrong)
{
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, verify(ctx, points, graph, params, wrong, first_wrong));
}

/* ---- Symmetric graphs ----------------------------------------------------------------------- */

static kith_status check(kith_ctx *ctx, const kith_neighbors *graph, kith_metric *metric,
                         kith_symmetry symmetry)
{
    KIN_TRY(kin_check_neighbors(ctx, graph, "graph"));
    KIN_TRY(kin_check_graph(ctx, graph, graph->rows));
    if (graph->distances == NULL && graph->distances64 == NULL) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("graph"),
                           "has neither distances nor distances64 (give one of them)");
    }
    *metric = *metric == KITH_METRIC_DEFAULT ? KITH_EUCLIDEAN : *metric;
    if (!kin_metric_is(*metric)) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("metric"),
                           "is %d, which is no metric (use one of kith_metric)", (int)*metric);
    }
    KIN_TRY(kin_fingerprint_check(ctx, graph, "graph", NULL, *metric));
    return symmetry == KITH_SYMMETRY_UNION || symmetry == KITH_SYMMETRY_MUTUAL
               ? KITH_OK
               : kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("symmetry"),
                             "is %d, must be KITH_SYMMETRY_UNION or KITH_SYMMETRY_MUTUAL",
                             (int)symmetry);
}

static kith_status create(kith_ctx *ctx, const kith_neighbors *graph, kith_metric metric,
                          kith_symmetry symmetry, kith_ranges **out)
{
    kith_ranges *ranges = NULL;
    KIN_TRY(kin_check_out(ctx, out));
    KIN_TRY(check(ctx, graph, &metric, symmetry));
    KIN_TRY(kin_ranges_make(ctx, &ranges));
    return kin_ranges_end(
        ranges, kin_graph_symmetric(ctx, graph, metric, symmetry == KITH_SYMMETRY_MUTUAL, ranges),
        out);
}

kith_status kith_graph_symmetric(kith_ctx *ctx, const kith_neighbors *graph, kith_metric metric,
                                 kith_symmetry symmetry, kith_ranges **out)
{
    kin_call call;
    if (out != NULL) {
        *out = NULL;
    }
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, create(ctx, graph, metric, symmetry, out));
}
