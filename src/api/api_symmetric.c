/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_call.h"
#include "api/api_check.h"
#include "base/base_mem.h"
#include "base/base_try.h"
#include "file/file_checksum.h"
#include "graph/graph.h"

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
    if ((int)*metric < KITH_EUCLIDEAN || *metric > KITH_CUSTOM) {
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
    if (out == NULL) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("out"),
                           "is NULL (give room for a pointer)");
    }
    KIN_TRY(check(ctx, graph, &metric, symmetry));
    KIN_TRY(kin_alloc_zero(ctx, &ranges, 1, sizeof *ranges, "ranges"));
    ranges->ctx = ctx;
    const kith_status status =
        kin_graph_symmetric(ctx, graph, metric, symmetry == KITH_SYMMETRY_MUTUAL, ranges);
    if (status != KITH_OK) {
        kith_ranges_free(ranges);
        return status;
    }
    *out = ranges;
    return KITH_OK;
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
