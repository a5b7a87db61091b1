/* SPDX-License-Identifier: Apache-2.0
 * Where the tree is faster than all pairs on the processor.
 *
 * How many pairs a tree leaves depends on the data, of which the number of columns says little: of
 * 100,000 points in 15 columns it looks at half where they fill the cube, and at a hundredth where
 * they lie near a four-dimensional surface. So the tree itself is asked, at most three times:
 *
 *   shapes   in few columns, or where few queries are asked, it can hardly lose: all pairs, too,
 *            need an order and a rounded copy of the corpus first, which take longer than a tree
 *   sample   else a tree of an eighth of the points at most is built and asked, for as many ids as
 *            lie within the reach of a list of all points (kin_tree_sample_ids): so its upper nodes
 *            rule out what those of the whole tree do. A query looks at some power a of the number
 *            of points, between nothing (few dimensions) and one (many):
 *                pairs = unit * (points / unit)^a,     unit = points of a leaf and of a list
 *            In a larger tree boxes are smaller, so a falls, and no sample is asked for less than
 *            one id: a sample is too pessimistic, the more so the smaller it is (uniform, 10
 *            columns, foreseen by looked at: 1.5 times from 4,096 points to 30,000, 4.3 to
 *            1,000,000, from 65,536 to 1,000,000 0.8).
 *            Where it says that the tree wins by far, that is the last word, so that a plan, which
 *            asks the same, knows what the job will do. Where building costs little beside all
 *            pairs, the least sample is asked for that word alone
 *   pilot    the tree stands; a few packets are sent through it, and what they needed decides
 *
 * A radius search asks a small tree before and the tree that stands; a GPU asks small ones alone
 * (tree_search_gpu.c), one, and a larger one where all pairs are long. The counts are the same on
 * every run; no clock is read. The nanoseconds decide which way, never what. They were measured on
 * one machine each, and rounded:
 *
 *   processor   of one thread, from `kith search --method exact` and `tree` with KITH_ISA amx,
 *               avx512, avx2, portable: nine real catalogues and 100,000 and 1,000,000 uniform and
 *               coloured points in 3 to 30 columns, 100 to 10,000 queries, k = 10 (bench_tree.py
 *               runs such jobs); building, and what precedes the first pair: 30,000 to 1,000,000
 *               points in 3 to 24 columns, one query
 *   places      of one thread, 64 to 100,000 places, 10 to 5,000 queries, k = 1 to 1,000, avx2 and
 *               portable: 28 and 90 ns a key, of which a query needs some seven for each of its k
 *   shared      of one thread, graphs within groups of 50 to 1,600 rows in 8 to 768 columns, k = 10
 *               and avx2 (bench_filters.py runs such jobs)
 *   radius      of one thread, from `kith search --radius` by both methods: 40,000 points in 4, 10
 *               and 30 columns, 8,000 queries, each instruction set. Hits are left out: they cost
 *               the same either way, and so does the reading of the matrices
 *   GPU         of an H200 with all its processors at work; on another device both sides change
 *               alike. All pairs: 100,000 x 1,000,000 rows in 128 columns in 55 ms, in up to 64
 *               columns 60 % of it, in up to 16 half (measured: 2.6e-4 to 2.8e-4 ns a pair in 8 to
 *               16, 3.3e-4 in 24), a graph half; metrics without a product: 1e12 components a
 *               second. A point costs the more where queries are many, since it gets a place in an
 *               order then. The tree: kith.knn of tensors, 30,000 to 4,000,000 points in 3 to 15
 *               columns, 1,000 to 300,000 queries, k = 10, uniform and near a surface of three
 *               dimensions (docs/notes/tree.md).
 *   long lists  on it, 4,000 queries of a million points (docs/notes/tree.md): all pairs take 1.2
 *               to 2 ns for each of the k from 2,100 to 65,536, in 3 to 128 columns; the tree
 *               about 5 in 3 columns and 10 in 10; less of either where queries are many
 */
#include "tree/tree_cost.h"

#include "host/host_cpu.h"
#include "tree/tree_gpu.h"
#include "tree/tree_walk.h"

#include <math.h>

enum {
    LEAST_POINTS = 20000,
    LEAST_PLACES = 128,
    MOST_COLS = 32,
    MOST_COLS_GPU = 24,
    SAFE_COLS = 6,
    FEW_COLS = 4,
    FEW_QUERIES = 4096,
    SOME_LEAVES = 8
};
enum { LEAST_SAMPLE = 4096, LEAST_SAMPLE_GPU = 16384 };
/* A tree that is given up costs this share of all pairs at most; one that is nearly certain to win
 * may cost half; a sample less than either, but the least one: all pairs of 32,742 rows whose
 * columns have long tails took 3,000 queries five times as long as the tree of which nobody had
 * asked. */
static const double SMALL_SHARE = 1.0 / 12.0;
static const double SAFE_SHARE = 1.0 / 2.0;
static const double SAMPLE_SHARE = 1.0 / 20.0;
static const double LEAST_SAMPLE_SHARE = 1.0 / 5.0;
/* Of a sample's points, that its queries may look at. */
static const double SAMPLE_LOOKS = 1.0 / 4.0;
/* The tree must win by this much before it is taken. */
static const double MARGIN = 0.9;
/* A small tree's word is the last one where even so many times the pairs that it says would win. */
static const double FAR = 2.0;
/* What a pair takes where the corpus has no order, by what it takes where it has one. */
static const double UNORDERED = 1.15;

/* ---- Both ways ------------------------------------------------------------------------------- */

static double build_ns(const kin_tree_cost *c)
{
    return c->tree_start + c->tree_point * (double)c->points;
}

/* Of a tree that stands; looked: pairs of a query. */
static double ask_ns(const kin_tree_cost *c, double looked)
{
    const double queries = (double)c->queries;
    return queries * c->tree_query + fmax(queries, c->tree_least) * looked * c->tree_pair;
}

/* A sample of so many points. Its queries look at some of them. */
static double sample_ns(const kin_tree_cost *c, int64_t sample)
{
    const double points = (double)sample;
    const double asks = c->sample_asks > 0.0 ? fmin((double)c->queries, c->sample_asks) : points;
    return c->sample_start + points * c->sample_point + asks * c->tree_query +
           fmax(asks, c->tree_least) * SAMPLE_LOOKS * points * c->tree_pair;
}

static double ordered_ns(const kin_tree_cost *c)
{
    return c->pairs_start +
           (double)c->points * (c->pairs_point + c->pairs_pair * (double)c->queries) +
           c->pairs_query * (double)c->queries;
}

/* Without an order nothing is skipped, and limits fall later. */
static double unordered_ns(const kin_tree_cost *c)
{
    const double pair = UNORDERED * c->pairs_pair;
    return (double)c->points * (c->pairs_point - c->pairs_order + pair * (double)c->queries);
}

static double screen_ns(const kin_tree_cost *c)
{
    return c->pairs_order > 0.0 ? fmin(ordered_ns(c), unordered_ns(c)) : ordered_ns(c);
}

static double compare_ns(const kin_tree_cost *c)
{
    return (double)c->points * c->pairs_key * (double)c->queries;
}

static double all_ns(const kin_tree_cost *c)
{
    return c->pairs_key > 0.0 ? fmin(screen_ns(c), compare_ns(c)) : screen_ns(c);
}

/* ---- On the processor ------------------------------------------------------------------------ */

static bool is_portable(const kin_distance *distance)
{
    return distance->isa == KIN_ISA_PORTABLE;
}

static double screened_pair_ns(const kin_distance *distance)
{
    return kin_isa_includes(distance->isa, KIN_ISA_AMX)      ? 0.3
           : kin_isa_includes(distance->isa, KIN_ISA_AVX512) ? 0.35
           : is_portable(distance)                           ? 4.8
                                                             : 0.45;
}

double kin_tree_key_ns(const kin_distance *distance)
{
    return kin_place_has(distance->metric) ? (is_portable(distance) ? 90.0 : 28.0)
                                           : 3.0 + 0.25 * (double)distance->cols;
}

double kin_tree_shared_ns(const kin_distance *distance, double rows)
{
    const double cols = (double)distance->cols;
    return is_portable(distance) || !kin_metric_expands(distance) || kin_place_has(distance->metric)
               ? rows * kin_tree_key_ns(distance)
               : 450.0 + 2.5 * cols + rows * (2.6 + 0.09 * cols);
}

static double built_point_ns(const kin_distance *distance)
{
    return kin_place_has(distance->metric) ? 440.0 : 100.0 + 14.0 * (double)distance->cols;
}

double kin_tree_build_ns(int64_t points, const kin_distance *distance)
{
    return (double)points * built_point_ns(distance);
}

/* Metrics and shapes that have a tree which may win. */
static bool is_allowed(const kin_distance *distance, int64_t points)
{
    const bool places = kin_place_has(distance->metric);
    return kin_tree_allows(distance->metric) && distance->cols <= MOST_COLS &&
           points >= (places ? LEAST_PLACES : LEAST_POINTS);
}

double kin_tree_screen_ns(const kin_request *request, int64_t points, int64_t queries)
{
    const kin_tree_cost cost = kin_tree_cost_of(request, points, queries, false);
    return ordered_ns(&cost);
}

bool kin_tree_stays(const kin_request *request, int64_t points, int64_t queries)
{
    const kin_tree_cost cost = kin_tree_cost_of(request, points, queries, false);
    return unordered_ns(&cost) < ordered_ns(&cost);
}

bool kin_tree_compares(const kin_request *request, int64_t points, int64_t queries)
{
    const kin_tree_cost cost = kin_tree_cost_of(request, points, queries, false);
    return compare_ns(&cost) < screen_ns(&cost);
}

/* A list's keys, as it fills and at the end, are what a query takes. */
static double places_query_ns(const kin_request *request)
{
    return 2500.0 + 7.0 * kin_tree_key_ns(&request->distance) * (double)request->k;
}

/* A row's list, spread over its pairs. */
static double list_ns(const kin_request *request, int64_t points)
{
    return 300.0 * (double)request->k / (double)points;
}

/* Of all pairs a graph computes each once for both ends. */
static double pair_ns(const kin_request *request, int64_t points, bool graph)
{
    const double pair = screened_pair_ns(&request->distance);
    return (graph ? 0.5 * pair : pair) + list_ns(request, points);
}

kin_tree_cost kin_tree_cost_of(const kin_request *request, int64_t points, int64_t queries,
                               bool graph)
{
    const kin_distance *distance = &request->distance;
    const double cols = (double)distance->cols;
    const double arithmetic = is_portable(distance) ? 10.0 : 0.7 + 0.03 * cols;
    const bool screens = kin_is_screened(distance);
    return (kin_tree_cost){
        .points = points,
        .queries = queries,
        .cols = distance->cols,
        .allowed = is_allowed(distance, points),
        .leaf = (double)kin_tree_leaf_points(distance->cols),
        .wanted = kin_request_ids(request, graph, points),
        .graph = graph,
        .tree_point = built_point_ns(distance),
        .tree_query = kin_place_has(distance->metric) ? places_query_ns(request) : 2500.0,
        .tree_pair = arithmetic + 0.009 * (double)request->k,
        .pairs_point = screens ? 1150.0 + 10.0 * cols : 0.0, /* order, tiles, rounded copy */
        .pairs_order = screens && !graph ? 900.0 + 4.0 * cols : 0.0,
        .pairs_pair = screens ? pair_ns(request, points, graph) : kin_tree_key_ns(distance),
        .pairs_key = graph ? 0.0 : kin_tree_key_ns(distance) + list_ns(request, points),
        .least_sample = LEAST_SAMPLE,
        .sample_point = built_point_ns(distance),
        .sample_asks = KIN_TREE_PILOT * KIN_PACKET};
}

kin_tree_cost kin_tree_cost_radius(const kin_distance *distance, int64_t points, int64_t queries)
{
    const bool screens = kin_is_screened(distance);
    const double wide = is_portable(distance) ? 8.0 : 1.0;
    const double screened = kin_isa_includes(distance->isa, KIN_ISA_AVX512) ? 0.2
                            : is_portable(distance)                         ? 4.5
                                                                            : 0.3;
    return (kin_tree_cost){.points = points,
                           .queries = queries,
                           .cols = distance->cols,
                           .allowed = is_allowed(distance, points),
                           .tree_point = kin_place_has(distance->metric)
                                             ? built_point_ns(distance)
                                             : 200.0 + 20.0 * (double)distance->cols,
                           .tree_pair = wide * (0.3 + 0.04 * (double)distance->cols),
                           .pairs_point = screens ? 1000.0 : 0.0,
                           .pairs_pair = screens ? screened : kin_tree_key_ns(distance),
                           .least_sample = LEAST_SAMPLE};
}

/* ---- On a GPU -------------------------------------------------------------------------------- */

/* Of places: two sines of halves, some 60 operations in double, and a list. */
static double gpu_pair_ns(const kin_request *request, bool screens, bool graph)
{
    if (kin_place_has(request->distance.metric)) {
        return 8e-3;
    }
    const double cols = (double)request->distance.cols;
    const double narrow = cols <= 16.0 ? 0.5 : cols <= 64.0 ? 0.6 : cols / 128.0;
    return screens ? 5.5e-4 * narrow * (graph ? 0.5 : 1.0) : cols * 1e-3;
}

kin_tree_cost kin_tree_cost_gpu(const kin_request *request, int64_t points, int64_t queries,
                                int64_t wanted, bool graph)
{
    const int32_t cols = kin_place_cols(request->distance.metric, request->distance.cols);
    const bool screens = kin_exact_gpu_screens(request, points, queries);
    const double listed = wanted > KIN_SCREEN_GPU_PASS_K ? (double)wanted : 0.0;
    return (kin_tree_cost){
        .points = points,
        .queries = queries,
        .cols = cols,
        .allowed = cols <= MOST_COLS_GPU,
        .leaf = (double)kin_tree_gpu_usual_leaf(cols),
        .wanted = wanted,
        .graph = graph,
        .tree_start = 1e6, /* launches of building and searching, and waiting for them */
        .tree_point = 0.25 + 0.09 * (double)cols,
        .tree_query =
            0.1 + 0.2 * (double)cols + 0.08 * (double)wanted + (3.0 + 0.7 * (double)cols) * listed,
        .tree_pair = 1e-4 * (12.0 + (double)cols), /* nodes, groups of leaves, canonical keys */
        .tree_least = 6e4,
        .pairs_start = 1.2e6,
        .pairs_point = queries > FEW_QUERIES ? 9.6 : 1.6,
        .pairs_pair = gpu_pair_ns(request, screens, graph),
        .pairs_query = 5.0 + 2.0 * (double)cols + 1.3 * listed,
        .least_sample = LEAST_SAMPLE_GPU,
        .sample_start = 4e5,
        .sample_point = 6.0, /* the host draws it */
        .sample_asks = graph ? 0.0 : LEAST_SAMPLE_GPU};
}

/* Counting what is within 100,000 points of 3 columns takes an H200 19 ms by all pairs, of which
 * products are 1.4, and a million 143, of which they are 137. A tree of 30,000 is made and asked in
 * 1.6 ms with all lists, and a sample walks through it in a quarter of one. */
kin_tree_cost kin_tree_cost_radius_gpu(const kin_request *like, int64_t points, int64_t queries,
                                       bool graph)
{
    kin_tree_cost cost = kin_tree_cost_gpu(like, points, queries, 0, graph);
    cost.pairs_point = fmin(190.0, 1.9e7 / (double)kin_max_i64(points, 1));
    cost.pairs_start = cost.pairs_query = 0.0;   /* no lists */
    cost.sample_start = cost.sample_point = 0.0; /* through the tree itself */
    return cost;
}

/* ---- The choice ------------------------------------------------------------------------------ */

bool kin_tree_is_cheap(const kin_tree_cost *cost)
{
    return build_ns(cost) <= all_ns(cost) * (cost->cols <= SAFE_COLS ? SAFE_SHARE : SMALL_SHARE);
}

/* Were its queries to look at nothing. */
bool kin_tree_may_win(const kin_tree_cost *cost)
{
    const double all = all_ns(cost);
    return cost->allowed && sample_ns(cost, cost->least_sample) <= LEAST_SAMPLE_SHARE * all &&
           build_ns(cost) + ask_ns(cost, 0.0) < MARGIN * all;
}

/* Were they to look at some leaves, as they do where rows fill so few columns. */
bool kin_tree_goes_unasked(const kin_tree_cost *cost)
{
    const double all = all_ns(cost);
    return cost->allowed && cost->cols <= FEW_COLS &&
           sample_ns(cost, cost->least_sample) > LEAST_SAMPLE_SHARE * all &&
           build_ns(cost) + ask_ns(cost, SOME_LEAVES * (cost->leaf + (double)cost->wanted)) <
               MARGIN * all;
}

bool kin_tree_cannot_lose(const kin_tree_cost *cost)
{
    return build_ns(cost) + ask_ns(cost, (double)cost->points) <= MARGIN * all_ns(cost);
}

kin_tree_chance kin_tree_chance_of(const kin_tree_cost *cost)
{
    if (!cost->allowed) {
        return KIN_TREE_NO_CHANCE;
    }
    if (kin_tree_is_cheap(cost) || kin_tree_cannot_lose(cost)) {
        return KIN_TREE_LIKELY;
    }
    return kin_tree_may_win(cost) ? KIN_TREE_UNCERTAIN : KIN_TREE_NO_CHANCE;
}

int64_t kin_tree_sample_of(const kin_tree_cost *cost)
{
    const double most = SAMPLE_SHARE * all_ns(cost);
    int64_t sample = cost->least_sample;
    while (2 * sample <= cost->points / 8 && sample_ns(cost, 2 * sample) <= most) {
        sample *= 2;
    }
    return sample;
}

int64_t kin_tree_sample_ids(const kin_tree_cost *cost, int64_t points)
{
    const int64_t own = cost->graph ? 1 : 0;
    const double share = fmin((double)points / (double)cost->points, 1.0);
    const int64_t others = (int64_t)ceil((double)(cost->wanted - own) * share);
    return kin_min_i64(own + kin_max_i64(others, 1), points);
}

/* Of a tree of so many points, which a query hardly looks at fewer than. */
static double least_looked(const kin_tree_cost *c, double points)
{
    return c->leaf + (double)kin_tree_sample_ids(c, (int64_t)points);
}

/* What a query looks at of all points. */
static double looked_at(const kin_tree_cost *c, const kin_tree_seen *seen)
{
    const double least = least_looked(c, seen->points);
    const double pairs = fmax(seen->pairs, least);
    const double points = (double)c->points;
    const double whole = least_looked(c, points);
    if (seen->points <= least || points <= seen->points) {
        return fmax(pairs, whole);
    }
    const double power = log(pairs / least) / log(seen->points / least);
    return fmax(pairs * pow(points / seen->points, fmin(power, 1.0)), whole);
}

kin_tree_verdict kin_tree_judge(const kin_tree_cost *cost, const kin_tree_seen *seen)
{
    const double looked = looked_at(cost, seen);
    const double most = fmin(FAR * looked, (double)cost->points);
    const double all = MARGIN * all_ns(cost);
    const double build = build_ns(cost);
    return build + ask_ns(cost, most) < all     ? KIN_TREE_TAKE
           : build + ask_ns(cost, looked) < all ? KIN_TREE_TRY
                                                : KIN_TREE_DECLINE;
}

bool kin_tree_wins(const kin_tree_cost *cost, double share, bool stands)
{
    return (stands ? 0.0 : build_ns(cost)) + ask_ns(cost, share * (double)cost->points) <
           MARGIN * all_ns(cost);
}
