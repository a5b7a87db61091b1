/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/tree_gpu.h"

#include "base/base_size.h"
#include "fused/fused_search.h"
#include "tree/tree_search.h"

/* A warp looks at 64 points at a time, in many columns at 32 (tree_walk.cuh). */
enum { MOST_COLS_OF_PAIRS = 32 };
/* A short list is sorted and needs room for ties alone, of which whole numbers have many; shared
 * memory has better uses. A long one is squeezed when it is full, seldom where it has twice the
 * room. */
enum { SPARE = 4, SHARE = 8, SPARE_OF_BYTES = 16, LONG_SPARE = 64 };
/* What sorting queries by their leaves takes of each, at most: two words and a histogram. */
static const uint64_t ORDER_BYTES = 24;

/* ---- Leaves and lists
 * ----------------------------------------------------------------------------- */

int64_t kin_tree_gpu_usual_leaf(int32_t cols)
{
    return cols <= MOST_COLS_OF_PAIRS ? 64 : 96;
}

int64_t kin_tree_gpu_leaf_points(const kin_request *request, int64_t points)
{
    const int32_t cols = request->distance.cols;
    return request->tree_height != 0 ? kin_tree_leaf_points_of(cols, points, request->tree_height)
                                     : kin_tree_gpu_usual_leaf(cols);
}

int32_t kin_tree_gpu_list_room(kith_dtype dtype, int64_t wanted, int32_t most_short)
{
    const int64_t least = kin_round_up(wanted + kin_max_i64(wanted / SHARE, SPARE), SPARE);
    const int64_t tied = kin_min_i64(2 * wanted + SPARE_OF_BYTES, most_short);
    if (least <= most_short) {
        return (int32_t)(kith_dtype_bytes(dtype) == 1 ? kin_max_i64(least, tied) : least);
    }
    return (int32_t)kin_round_up(2 * wanted + LONG_SPARE, KIN_TREE_LANES);
}

uint64_t kin_tree_gpu_lists_bytes(int64_t places, int32_t capacity)
{
    const uint64_t a_place =
        (uint64_t)capacity * sizeof(uint64_t) + sizeof(int32_t) + sizeof(uint8_t);
    return kin_size_mul((uint64_t)kin_round_up(places, KIN_TREE_GPU_PACKET), a_place);
}

/* ---- Stripes --------------------------------------------------------------------------------- */

/* Queries, their copies in the tree's units, their order, lists and answers. */
static uint64_t stripe_bytes(const kith_matrix *queries, const kin_request *request,
                             int32_t capacity, uint32_t place, int64_t count)
{
    const bool here = (place & KIN_FUSED_DATA_ON_DEVICE) != 0;
    const uint64_t wide = (uint64_t)kin_round_up(queries->cols, KIN_TREE_GPU_WIDE);
    const uint64_t a_query = (wide + 1) * sizeof(float) + sizeof(uint32_t) + ORDER_BYTES;
    const uint64_t rows = here ? 0 : kin_fused_ahead_bytes(queries, count);
    const uint64_t own = kin_size_add(rows, kin_size_mul((uint64_t)count, a_query));
    return kin_size_add(kin_size_add(own, kin_tree_gpu_lists_bytes(count, capacity)),
                        kin_fused_answers_bytes(count, request->k));
}

static int64_t stripe_rows(const kith_matrix *queries, const kin_request *request, int32_t capacity,
                           uint32_t place, uint64_t room, bool ahead)
{
    int64_t stripe = queries->rows;
    while (
        stripe > KIN_FUSED_LEAST_ROWS &&
        kin_size_add(kin_fused_with_slack(stripe_bytes(queries, request, capacity, place, stripe)),
                     ahead ? kin_fused_ahead_bytes(queries, stripe) : 0) > room) {
        stripe = kin_fused_halved(stripe);
    }
    return stripe;
}

kin_tree_gpu_cut kin_tree_gpu_cut_queries(const kith_matrix *queries, const kin_request *request,
                                          int32_t capacity, uint32_t place, uint64_t room,
                                          bool ahead)
{
    const int64_t whole = stripe_rows(queries, request, capacity, place, room, false);
    if (whole == queries->rows || !ahead) {
        return (kin_tree_gpu_cut){.stripe = whole};
    }
    return (kin_tree_gpu_cut){.stripe = stripe_rows(queries, request, capacity, place, room, true),
                              .ahead = true};
}

/* ---- Plan ------------------------------------------------------------------------------------ */

kin_tree_gpu_need kin_tree_gpu_plan_need(const kith_matrix *corpus, const kith_matrix *queries,
                                         const kin_request *request, uint64_t budget)
{
    const kith_matrix *asking = queries != NULL ? queries : corpus;
    const int64_t leaf_points = kin_tree_gpu_leaf_points(request, corpus->rows);
    const int32_t capacity = kin_tree_gpu_list_room(
        corpus->dtype, kin_min_i64(request->k + 1, corpus->rows), KIN_TREE_GPU_SHORT);
    const uint32_t place = queries != NULL ? 0 : KIN_FUSED_DATA_ON_DEVICE; /* the tree's own rows */
    const kin_fused_prepared_need rows = kin_fused_groups_bytes(corpus, 0);
    const uint64_t tree =
        kin_size_add(rows.resident, kin_tree_gpu_bytes(corpus->rows, corpus->cols, leaf_points));
    uint64_t building = kin_size_add(
        rows.resident, kin_tree_gpu_peak_bytes(corpus->rows, corpus->cols, leaf_points));
    building = rows.most > building ? rows.most : building;
    const uint64_t whole =
        kin_size_add(tree, stripe_bytes(asking, request, capacity, place, asking->rows));
    const uint64_t least =
        kin_size_add(tree, stripe_bytes(asking, request, capacity, place,
                                        kin_min_i64(KIN_FUSED_LEAST_ROWS, asking->rows)));
    kin_tree_gpu_need need = {
        .whole_bytes = kin_fused_with_slack(whole > building ? whole : building),
        .least_bytes = kin_fused_with_slack(least > building ? least : building)};
    const uint64_t left = budget > tree ? budget - tree : 0;
    const kin_tree_gpu_cut cut =
        kin_tree_gpu_cut_queries(asking, request, capacity, place, left, queries != NULL);
    need.stripes = kin_ceil_div(asking->rows, cut.stripe);
    return need;
}
