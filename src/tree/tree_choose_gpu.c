/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. How many pairs a tree leaves depends on the data, of which the number of columns says
 * little. So SAMPLE points, spread over the corpus, become a small tree, and as many queries go
 * through it: what that takes does not grow with the job. A query looks at some power of the number
 * of points, which is between nothing (few dimensions) and one (many):
 *
 *     pairs = unit * (points / unit)^a,     unit = points of a leaf and of a list
 *
 * The sample tells a. In a larger tree boxes are smaller beside the distances between them and the
 * corpus' edges are farther away, so a falls with the number of points, and the tree's time is
 * rather overestimated than underestimated. The counts are the same on every run; no clock is read.
 *
 * The nanoseconds are of an H200 with all its processors at work; on another device both sides
 * change alike. All pairs: 100,000 x 1,000,000 rows in 128 columns in 55 ms, in up to 64 columns
 * 60 % of it, in up to 16 half (measured: 2.6e-4 to 2.8e-4 ns a pair in 8 to 16, 3.3e-4 in 24), a
 * graph half; metrics without a
 * product: 1e12 components a second. The tree: bench_tree_gpu.py, 4 to 15 columns, k = 10, within a
 * quarter of each (uniform points in 8 to 15 columns, colour in 4 to 15). They decide which way,
 * never what.
 */
#include "tree/tree_gpu.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "fused/fused_side.h"
#include "tree/tree_search.h"

#include <math.h>

enum { SAMPLE = 16384, MOST_COLS = 24 };
static const double PAIR_NS = 1e-4 * 12.0;
static const double PAIR_COLUMN_NS = 1e-4;
static const double QUERY_NS = 0.1;
static const double QUERY_COLUMN_NS = 0.2;
static const double NEIGHBOUR_NS = 0.08;
static const double BUILD_POINT_NS = 5.0;
static const double START_NS = 3e6; /* launches of building and searching, and waiting for them */
static const double SAMPLE_NS = 4e6;
static const double SCREEN_PAIR_NS = 5.5e-4;
static const double SCREEN_NARROW = 0.6; /* up to 64 columns */
static const double SCREEN_SHORT = 0.5;  /* up to 16 */
static const double DIRECT_COMPONENT_NS = 1e-3;
/* A sample may cost this share of all pairs, and the tree must win by that much. */
static const double SMALL_SHARE = 1.0 / 12.0;
static const double MARGIN = 0.9;

static double all_pairs_ns(const kin_tree_gpu_choice *c, int32_t cols)
{
    const double pairs = (double)c->points * (double)c->queries;
    if (!kin_fused_screens(c->request, c->points, c->queries)) {
        return pairs * (double)cols * DIRECT_COMPONENT_NS;
    }
    const double narrow = cols <= 16 ? SCREEN_SHORT : SCREEN_NARROW;
    const double pair = SCREEN_PAIR_NS * (cols <= 64 ? narrow : (double)cols / 128.0);
    return pairs * pair * (c->graph ? 0.5 : 1.0);
}

/* Of the tree: nodes, groups of leaves, canonical keys. */
static double query_ns(int32_t cols)
{
    return QUERY_NS + QUERY_COLUMN_NS * (double)cols;
}

bool kin_tree_gpu_may_win(const kin_tree_gpu_choice *choice, int32_t cols)
{
    const double all = all_pairs_ns(choice, cols);
    const double least = START_NS + BUILD_POINT_NS * (double)choice->points +
                         query_ns(cols) * (double)choice->queries;
    return cols <= MOST_COLS && SAMPLE_NS <= SMALL_SHARE * all && least < MARGIN * all;
}

/* pairs: a query of the sample has looked at, of `sample` points. */
static bool tree_wins(const kin_tree_gpu_choice *c, int32_t cols, double pairs, double sample)
{
    const double unit = (double)kin_tree_gpu_usual_leaf(cols) + (double)c->wanted;
    const double points = (double)c->points;
    double looked = pairs;
    if (points > sample && sample > unit) {
        const double power = log(fmax(pairs, unit) / unit) / log(sample / unit);
        looked = unit * pow(points / unit, fmin(power, 1.0));
    }
    const double a_query = query_ns(cols) + NEIGHBOUR_NS * (double)c->wanted +
                           looked * (PAIR_NS + PAIR_COLUMN_NS * (double)cols);
    const double tree = START_NS + BUILD_POINT_NS * points + a_query * (double)c->queries;
    return tree < MARGIN * all_pairs_ns(c, cols);
}

/* ---- The sample ------------------------------------------------------------------------------ */

/* `count` rows, spread over `rows` of them or over the rows that are listed, on the device. */
static kith_status spread(const kin_fused_device *on, const uint32_t *listed, int64_t rows,
                          int64_t count, uint32_t **out)
{
    const uint64_t bytes = (uint64_t)count * sizeof **out;
    uint32_t *host = NULL;
    KIN_TRY(kin_alloc(on->ctx, &host, bytes, 1, "rows of a sample"));
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = (int64_t)((unsigned __int128)i * (uint64_t)rows / (uint64_t)count);
        host[i] = listed != NULL ? listed[at] : (uint32_t)at;
    }
    kith_status status = kin_gpu_alloc(on->ctx, on->gpu, out, bytes, 1, "rows of a sample");
    if (status == KITH_OK) {
        status = kin_gpu_upload(on->ctx, on->gpu, *out, host, bytes);
    }
    kin_free(on->ctx, host);
    return status;
}

/* The queries' part of a sample, in the order of its tree. */
typedef struct asking {
    uint32_t *ids;
    uint32_t *order;
    float *rounded;
    float *lost;
} asking;

static kith_status make_asking(const kin_tree_gpu_solver *s, const kin_fused_rows *rows,
                               int64_t count, asking *a)
{
    KIN_TRY(spread(&s->on, NULL, rows->rows, count, &a->ids));
    KIN_TRY(kin_tree_gpu_round_rows(s, rows, a->ids, count, &a->rounded, &a->lost));
    return kin_tree_gpu_order_rows(s, a->rounded, count, &a->order);
}

static void free_asking(const kin_fused_device *on, asking *a)
{
    kin_gpu_free(on->gpu, a->order);
    kin_gpu_free(on->gpu, a->lost);
    kin_gpu_free(on->gpu, a->rounded);
    kin_gpu_free(on->gpu, a->ids);
}

/* pairs: that a query looked at. */
static kith_status walk_sample(kin_tree_gpu_solver *s, const kin_fused_rows *rows, double *pairs)
{
    asking a = {0};
    kin_tree_gpu_lists lists = {0};
    int64_t lost = 0;
    kith_status status = KITH_OK;
    kin_tree_gpu_places places = {
        .rows = s->corpus->rows, .ids = s->tree->ids, .count = s->tree->blocks * KIN_TREE_LANES};
    double asked = (double)s->tree->points;
    if (rows != NULL) {
        const int64_t count = kin_min_i64(SAMPLE, rows->rows);
        KIN_TRY_GOTO(status, make_asking(s, rows, count, &a), done);
        places = (kin_tree_gpu_places){.rows = *rows,
                                       .rounded = a.rounded,
                                       .lost = a.lost,
                                       .order = a.order,
                                       .ids = a.order,
                                       .count = count};
        asked = (double)count;
    }
    KIN_TRY_GOTO(status,
                 kin_tree_gpu_walk_places(s, &places, kin_tree_gpu_capacity(s), &lists, &lost),
                 done);
    *pairs = s->tally.pairs / asked;
done:
    kin_tree_gpu_lists_free(s, &lists);
    free_asking(&s->on, &a);
    return status;
}

kith_status kin_tree_gpu_try(const kin_fused_device *on, const kin_fused_prepared *corpus,
                             const kin_fused_rows *rows, const kin_tree_gpu_choice *choice,
                             bool *wins)
{
    const kin_groups *groups = &corpus->groups;
    const int64_t count = kin_min_i64(SAMPLE, groups->count);
    const int32_t cols = corpus->rows.cols;
    uint32_t *ids = NULL;
    double pairs = 0.0;
    kin_tree_gpu tree = {0};
    kin_tree_gpu_solver s = {.on = *on,
                             .tree = &tree,
                             .corpus = corpus,
                             .wanted = (int32_t)kin_min_i64(choice->wanted, count)};
    kith_status status = KITH_OK;
    *wins = false;
    KIN_TRY_GOTO(status, spread(on, groups->firsts, groups->count, count, &ids), done);
    KIN_TRY_GOTO(status,
                 kin_tree_gpu_make(on, &corpus->rows, ids, count, choice->request->distance.metric,
                                   kin_tree_gpu_usual_leaf(cols), &tree),
                 done);
    KIN_TRY_GOTO(status, kin_tree_gpu_solver_make(&s), done);
    KIN_TRY_GOTO(status, walk_sample(&s, rows, &pairs), done);
    *wins = tree_wins(choice, cols, pairs, (double)count);
done:
    kin_tree_gpu_solver_free(&s);
    kin_tree_gpu_free(on, &tree);
    kin_gpu_free(on->gpu, ids);
    return status;
}
