/* SPDX-License-Identifier: Apache-2.0
 * Where the tree is faster than all pairs on the processor.
 *
 * How many pairs a tree leaves depends on the data, of which the number of columns says little: of
 * 100,000 points in 15 columns it looks at half where they fill the cube, and at a hundredth where
 * they lie near a four-dimensional surface. So the tree itself is asked, at most three times:
 *
 *   shapes   in few columns, or where few queries are asked, it can hardly lose: all pairs, too,
 *            need an order and a rounded copy of the corpus first, which take longer than a tree
 *   sample   else a tree of an eighth of the points at most is built and asked. A query looks at
 *            some power a of the number of points, between nothing (few dimensions) and one (many):
 *                pairs = unit * (points / unit)^a,     unit = points of a leaf and of a list
 *            In a larger tree boxes are smaller, so a falls: a sample is too pessimistic, the more
 *            so the smaller it is (uniform, 10 columns, from 4,096 points to 1,000,000: 26 times).
 *            Where it says that the tree wins by far, that is the last word, so that a plan, which
 *            asks the same, knows what the job will do. Where building costs little beside all
 *            pairs, the least sample is asked for that word alone
 *   pilot    the tree stands; a few packets are sent through it, and what they needed decides
 *
 * The counts are the same on every run; no clock is read. The nanoseconds are of one thread, from
 * `kith search --method exact` and `tree` with KITH_ISA amx, avx512, avx2, portable: nine real
 * catalogues and 100,000 and 1,000,000 uniform and coloured points in 3 to 30 columns, 100 to
 * 10,000 queries, k = 10, on one machine, and rounded (bench_tree.py runs such jobs). They decide
 * which way, never what.
 */
#include "tree/tree_choose.h"

#include "base/base_size.h"
#include "host/host_cpu.h"
#include "tree/tree_leaf.h"

#include <math.h>

enum { LEAST_POINTS = 20000, MOST_COLS = 32, SAFE_COLS = 6, LEAST_SAMPLE = 4096 };
/* Before all pairs: order, tiles, rounded copy, of every point. */
static const double EXACT_POINT_NS = 1000.0;
static const double EXACT_COLUMN_NS = 10.0; /* and point */
static const double BUILD_POINT_NS = 100.0;
static const double BUILD_COLUMN_NS = 35.0; /* and point */
/* Rounded, sorted, its list finished. */
static const double QUERY_NS = 2500.0;
/* A tree that is given up costs this share of all pairs at most; one that is nearly certain to win
 * may cost half; a sample less than either. */
static const double SMALL_SHARE = 1.0 / 12.0;
static const double SAFE_SHARE = 1.0 / 2.0;
static const double SAMPLE_SHARE = 1.0 / 20.0;
/* The tree must win by this much before it is taken. */
static const double MARGIN = 0.9;
/* A small tree's word is the last one where even so many times the pairs that it says would win. */
static const double FAR = 2.0;

static bool is_portable(const kin_request *request)
{
    return !kin_isa_includes(request->distance.isa, KIN_ISA_AVX2);
}

static double screened_pair_ns(const kin_request *request)
{
    const kin_isa isa = request->distance.isa;
    return kin_isa_includes(isa, KIN_ISA_AMX)      ? 0.3
           : kin_isa_includes(isa, KIN_ISA_AVX512) ? 0.35
           : is_portable(request)                  ? 4.8
                                                   : 0.45;
}

double kin_tree_key_ns(int32_t cols)
{
    return 3.0 + 0.25 * (double)cols;
}

/* A pair of the exact engine, of which a graph computes each once for both ends, and a row's list,
 * spread over its pairs. */
static double exact_pair_ns(const kin_request *request, int64_t points, bool graph)
{
    const double lists = 300.0 * (double)request->k / (double)points;
    if (!kin_exact_screens(&request->distance)) {
        return kin_tree_key_ns(request->distance.cols);
    }
    const double pair = screened_pair_ns(request);
    return (graph ? 0.5 * pair : pair) + lists;
}

/* All pairs of one query, and its part of what is done before. */
static double exact_query_ns(const kin_request *request, int64_t points, int64_t queries,
                             bool graph)
{
    const double a_point = EXACT_POINT_NS + EXACT_COLUMN_NS * (double)request->distance.cols;
    const double before = kin_exact_screens(&request->distance) ? a_point : 0.0;
    return (double)points *
           (exact_pair_ns(request, points, graph) + before / (double)kin_max_i64(queries, 1));
}

static double tree_pair_ns(const kin_request *request)
{
    const double arithmetic =
        is_portable(request) ? 10.0 : 0.7 + 0.03 * (double)request->distance.cols;
    return arithmetic + 0.009 * (double)request->k;
}

static double tree_query_ns(const kin_request *request, double pairs)
{
    return QUERY_NS + pairs * tree_pair_ns(request);
}

double kin_tree_screen_ns(const kin_request *request, int64_t points, int64_t queries)
{
    return (double)queries * exact_query_ns(request, points, queries, false);
}

double kin_tree_build_ns(int64_t points, int32_t cols)
{
    return (double)points * (BUILD_POINT_NS + BUILD_COLUMN_NS * (double)cols);
}

static double sample_ns(int64_t points, int32_t cols, int64_t queries, const kin_request *request)
{
    const double few = (double)kin_min_i64(queries, (int64_t)KIN_TREE_PILOT * KIN_PACKET);
    return kin_tree_build_ns(points, cols) + few * tree_query_ns(request, (double)points);
}

/* Where the tree is likely anyway, the least: it says whether to keep to it. */
int64_t kin_tree_sample_of(const kith_matrix *corpus, int64_t queries, bool graph,
                           const kin_request *request)
{
    const double most =
        SAMPLE_SHARE * (double)queries * exact_query_ns(request, corpus->rows, queries, graph);
    int64_t sample = LEAST_SAMPLE;
    while (kin_tree_chance_of(corpus, queries, graph, request) == KIN_TREE_UNCERTAIN &&
           2 * sample <= corpus->rows / 8 &&
           sample_ns(2 * sample, corpus->cols, queries, request) <= most) {
        sample *= 2;
    }
    return sample;
}

bool kin_tree_cannot_lose(const kith_matrix *corpus, int64_t queries, bool graph,
                          const kin_request *request)
{
    const int64_t points = corpus->rows;
    const double all = (double)queries * exact_query_ns(request, points, queries, graph);
    const double worst = kin_tree_build_ns(points, corpus->cols) +
                         (double)queries * tree_query_ns(request, (double)points);
    return worst <= MARGIN * all;
}

kin_tree_chance kin_tree_chance_of(const kith_matrix *corpus, int64_t queries, bool graph,
                                   const kin_request *request)
{
    const int64_t points = corpus->rows;
    if (!kin_tree_allows(request->distance.metric) || corpus->cols > MOST_COLS ||
        points < LEAST_POINTS) {
        return KIN_TREE_NO_CHANCE;
    }
    const double asked = (double)queries;
    const double all = asked * exact_query_ns(request, points, queries, graph);
    const double build = kin_tree_build_ns(points, corpus->cols);
    if (build <= all * (corpus->cols <= SAFE_COLS ? SAFE_SHARE : SMALL_SHARE) ||
        kin_tree_cannot_lose(corpus, queries, graph, request)) {
        return KIN_TREE_LIKELY;
    }
    const double sample = sample_ns(LEAST_SAMPLE, corpus->cols, queries, request);
    return sample <= SAMPLE_SHARE * all ? KIN_TREE_UNCERTAIN : KIN_TREE_NO_CHANCE;
}

bool kin_tree_worth_trying(const kith_matrix *corpus, int64_t queries, bool graph,
                           const kin_request *request)
{
    return kin_tree_chance_of(corpus, queries, graph, request) != KIN_TREE_NO_CHANCE;
}

/* What a query looks at of so many points, when it looked at `pairs` of a sample. */
static double looked_at(double pairs, double sample, double points, double unit)
{
    const double least = fmax(pairs, unit);
    if (sample <= unit || points <= sample) {
        return least;
    }
    return unit * pow(points / unit, fmin(log(least / unit) / log(sample / unit), 1.0));
}

kin_tree_verdict kin_tree_judge(double pairs, double sample, const kith_matrix *corpus,
                                int64_t queries, bool graph, const kin_request *request)
{
    const double unit = (double)(kin_tree_leaf_points(corpus->cols) + request->k);
    const double looked = looked_at(pairs, sample, (double)corpus->rows, unit);
    const double build = kin_tree_build_ns(corpus->rows, corpus->cols);
    const double asked = (double)queries;
    const double least = asked * tree_query_ns(request, looked);
    const double most = asked * tree_query_ns(request, fmin(FAR * looked, (double)corpus->rows));
    const double all = MARGIN * asked * exact_query_ns(request, corpus->rows, queries, graph);
    return build + most < all    ? KIN_TREE_TAKE
           : build + least < all ? KIN_TREE_TRY
                                 : KIN_TREE_DECLINE;
}

bool kin_tree_wins(double share, int64_t points, int64_t queries, bool graph,
                   const kin_request *request)
{
    return tree_query_ns(request, share * (double)points) <
           MARGIN * exact_query_ns(request, points, queries, graph);
}
