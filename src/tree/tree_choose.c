/* SPDX-License-Identifier: Apache-2.0
 * Where the tree is faster than all pairs on the processor.
 *
 * How many pairs a tree leaves depends on the data, of which the number of columns says little: of
 * 100,000 points in 15 columns it looks at half where they fill the cube, and at a hundredth where
 * they lie near a four-dimensional surface. So a tree is built where that costs little beside all
 * pairs, a few packets are sent through it, and what they needed decides. The counts are the same
 * on every run; no clock is read. The nanoseconds are of one thread, from `kith graph --method
 * exact` and `tree` on 20,000 and 100,000 uniform points in 4 to 20 columns, k = 1, 10, 100, on one
 * machine, and rounded: they decide which way, never what.
 */
#include "tree/tree_choose.h"

#include "host/host_cpu.h"

enum { LEAST_POINTS = 20000, MOST_COLS = 32, SAFE_COLS = 6 };
static const double BUILD_POINT_NS = 1200.0;
/* A tree that is given up costs this share of all pairs at most; one that is nearly certain to win
 * may cost half. */
static const double SMALL_SHARE = 1.0 / 12.0;
static const double SAFE_SHARE = 1.0 / 2.0;
/* The tree must win by this much before it is taken. */
static const double MARGIN = 0.9;

static bool is_portable(const kin_request *request)
{
    return !kin_isa_includes(request->distance.isa, KIN_ISA_AVX2);
}

/* A pair of the exact engine, of which a graph computes each once for both ends, and a row's list,
 * spread over its pairs. */
static double exact_pair_ns(const kin_request *request, int64_t points, bool graph)
{
    const double lists = 300.0 * (double)request->k / (double)points;
    if (!kin_exact_screens(&request->distance)) {
        return 3.0 + 0.25 * (double)request->distance.cols;
    }
    const double pair = is_portable(request)                                   ? 4.8
                        : kin_isa_includes(request->distance.isa, KIN_ISA_AMX) ? 0.4
                                                                               : 0.6;
    return (graph ? 0.5 * pair : pair) + lists;
}

static double tree_pair_ns(const kin_request *request)
{
    return (is_portable(request) ? 10.0 : 1.7) + 0.009 * (double)request->k;
}

bool kin_tree_worth_trying(const kith_matrix *corpus, int64_t queries, bool graph,
                           const kin_request *request)
{
    if (!kin_tree_allows(request->distance.metric) || corpus->cols > MOST_COLS ||
        corpus->rows < LEAST_POINTS) {
        return false;
    }
    const double a_point = exact_pair_ns(request, corpus->rows, graph) * (double)queries;
    return BUILD_POINT_NS <= a_point * (corpus->cols <= SAFE_COLS ? SAFE_SHARE : SMALL_SHARE);
}

bool kin_tree_wins(double share, int64_t points, bool graph, const kin_request *request)
{
    return share * tree_pair_ns(request) < MARGIN * exact_pair_ns(request, points, graph);
}
