/* SPDX-License-Identifier: Apache-2.0
 *
 * The nanoseconds are of one thread, from `kith search --radius` by both methods: 40,000 points in
 * 4, 10 and 30 columns, 8,000 queries, each instruction set, on one machine, and rounded. They
 * decide which way, never what. Hits are left out: they cost the same either way, and so does the
 * reading of the matrices.
 */
#include "tree/tree_radius_choose.h"

#include "exact/exact_search.h"
#include "host/host_cpu.h"
#include "tree/tree.h"
#include "tree/tree_choose.h"

enum { LEAST_POINTS = 20000, MOST_COLS = 32, FEW_COLS = 6 };
/* A tree that is given up costs this share of all pairs at most; in few columns, where it is nearly
 * certain to win, a half. */
static const double SMALL_SHARE = 1.0 / 12.0;
static const double LARGE_SHARE = 1.0 / 2.0;
static const double MARGIN = 0.9;

static double exact_pair_ns(const kin_distance *distance)
{
    if (!kin_exact_screens(distance)) {
        return kin_tree_key_ns(distance->cols);
    }
    return kin_isa_includes(distance->isa, KIN_ISA_AVX512) ? 0.2
           : kin_isa_includes(distance->isa, KIN_ISA_AVX2) ? 0.3
                                                           : 4.5;
}

/* Of all pairs, by point of the corpus: its order and rounded copy, and its pairs. */
static double exact_point_ns(const kin_distance *distance, int64_t queries)
{
    const double prepared = kin_exact_screens(distance) ? 1000.0 : 0.0;
    return prepared + exact_pair_ns(distance) * (double)queries;
}

static double built_point_ns(int32_t cols)
{
    return 200.0 + 20.0 * (double)cols;
}

bool kin_tree_radius_may_win(const kith_matrix *corpus, const kin_distance *distance)
{
    return kin_tree_allows(distance->metric) && corpus->cols <= MOST_COLS &&
           corpus->rows >= LEAST_POINTS;
}

bool kin_tree_radius_is_cheap(const kith_matrix *corpus, int64_t queries,
                              const kin_distance *distance)
{
    return built_point_ns(corpus->cols) <= (corpus->cols <= FEW_COLS ? LARGE_SHARE : SMALL_SHARE) *
                                               exact_point_ns(distance, queries);
}

bool kin_tree_radius_wins(double share, bool stands, int64_t queries, const kin_distance *distance)
{
    const double narrow = kin_isa_includes(distance->isa, KIN_ISA_AVX2) ? 1.0 : 8.0;
    const double pair = narrow * (0.3 + 0.04 * (double)distance->cols);
    const double built = stands ? 0.0 : built_point_ns(distance->cols);
    return built + share * pair * (double)queries < MARGIN * exact_point_ns(distance, queries);
}
