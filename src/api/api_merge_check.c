/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_merge.h"

#include "base/base_size.h"
#include "base/base_try.h"
#include "file/file_checksum.h"
#include "fused/fused_search.h"

static const char *const NAMES[] = {"graph1", "graph2"};

static kith_status check_ids(kith_ctx *ctx, const kith_neighbors *graph, const char *name)
{
    for (int64_t i = 0; i < graph->rows * graph->k; i++) {
        if ((int64_t)graph->ids[i] >= graph->rows && graph->ids[i] != KITH_ID_NONE) {
            return kin_fail_at(ctx, KITH_E_DATA, kin_at_cell(name, (i / graph->k), (i % graph->k)),
                               "is id %lu, must be below %lld, the points of its set (give the "
                               "points that the graph was built of)",
                               (unsigned long)graph->ids[i], (long long)graph->rows);
        }
    }
    return KITH_OK;
}

static kith_status check_side(kith_ctx *ctx, const kith_neighbors *graph, int side, int64_t rows,
                              int64_t k, bool self, uint32_t place, kith_neighbors *checked)
{
    const char *name = NAMES[side];
    const int64_t others = rows - (self ? 0 : 1);
    if (rows == 0 && graph == NULL) {
        *checked = (kith_neighbors){.k = k};
        return KITH_OK;
    }
    if (rows > 0) {
        KIN_TRY(kin_check_neighbors(ctx, graph, name));
    }
    if (graph->rows != rows) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at(name),
                           "has %lld rows and its set %lld points (first_rows of points.rows are "
                           "set 1, the others set 2)",
                           (long long)graph->rows, (long long)rows);
    }
    if (graph->k < kin_min_i64(k, others)) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("k"),
                           "is %lld and %s has lists of %lld (take a k of at most that, or a graph "
                           "with longer lists)",
                           (long long)k, name, (long long)graph->k);
    }
    *checked = *graph;
    return (place & KIN_FUSED_OUT_ON_DEVICE) == 0 ? check_ids(ctx, graph, name) : KITH_OK;
}

kith_status kin_merge_check_first(kith_ctx *ctx, const kith_matrix *points, int64_t first_rows)
{
    if (first_rows < 0 || first_rows > points->rows) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("first_rows"),
                           "is %lld, must be 0 to %lld (the rows of points)", (long long)first_rows,
                           (long long)points->rows);
    }
    return KITH_OK;
}

kith_status kin_merge_check(kith_ctx *ctx, const kith_matrix *points, int64_t first_rows,
                            const kith_neighbors *graph1, const kith_neighbors *graph2, int64_t k,
                            uint32_t flags, uint32_t place, kin_merge_sets *sets)
{
    const bool self = (flags & KITH_INCLUDE_SELF) != 0;
    KIN_TRY(kin_check_matrix(ctx, points, "points", &sets->points));
    KIN_TRY(kin_merge_check_first(ctx, points, first_rows));
    sets->first_rows = first_rows;
    KIN_TRY(check_side(ctx, graph1, 0, first_rows, k, self, place, &sets->graph[0]));
    return check_side(ctx, graph2, 1, points->rows - first_rows, k, self, place, &sets->graph[1]);
}

kith_status kin_merge_check_known(kith_ctx *ctx, const kin_merge_sets *sets, kith_metric metric,
                                  uint32_t place)
{
    kith_matrix part[2] = {sets->points, sets->points};
    part[0].rows = sets->first_rows;
    part[1].rows = sets->points.rows - sets->first_rows;
    part[1].data = (const char *)sets->points.data + sets->first_rows * sets->points.stride_bytes;
    for (int i = 0; i < 2; i++) {
        const kith_matrix *points = (place & KIN_FUSED_DATA_ON_DEVICE) == 0 ? &part[i] : NULL;
        if (part[i].rows > 0) {
            KIN_TRY(kin_fingerprint_check(ctx, &sets->graph[i], NAMES[i], points, metric));
        }
    }
    return KITH_OK;
}
