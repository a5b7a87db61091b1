/* SPDX-License-Identifier: Apache-2.0
 * The theorem of screen_bound.h on the rounded rows that the screen sees, with a unit that is as
 * wrong as its kappa allows, always to the worse side: for all points i, j of a query with
 * key(j) <= key(i), neither the reach that key(i) proves nor the one that cost(i) proves may
 * discard j. A bound that forgets a part must be seen to fail: the same checks run on such mutants.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/host_cpu.h"
#include "metric/metric.h"
#include "screen/screen.h"
#include "screen/screen_set.h"
#include "support/support_keys.h"
#include "support/support_sets.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 64, QUERIES = 24, SHAPE_EXACT = SHAPE_COUNT };

/* What a mutant does not know. */
typedef enum mutant {
    MUTANT_NONE = 0,
    MUTANT_NO_KAPPA,
    MUTANT_NO_LOST,       /* of either side */
    MUTANT_NO_POINT_LOST, /* of the points alone */
    MUTANT_NO_QUERY_LOST,
    MUTANT_FAR_PROVES, /* rows that were drawn in count as where they are stored */
    MUTANT_COUNT
} mutant;

static const char *const mutant_names[MUTANT_COUNT] = {
    "the theorem",       "no kappa",           "no lost",
    "no lost of points", "no lost of queries", "far rows prove"};

/* A corpus, queries in its frame, and the canonical keys. */
typedef struct stage {
    kith_ctx *ctx;
    kith_metric metric;
    kin_tile_kernel kernel;
    kin_distance distance;
    test_rows points;
    test_rows queries;
    kin_row_transform *point_transforms;
    kin_row_transform *query_transforms;
    kin_rows point_rows;
    kin_rows query_rows;
    kin_frame_stats stats;
    kin_frame frame;
    kin_set point_set;
    kin_set query_set;
    uint32_t ids[POINTS];
    double keys[QUERIES][POINTS];
    double cost[QUERIES][POINTS]; /* of the unit, were it right */
} stage;

/* Rows that every type holds exactly, in pairs of opposite ones: nothing is shifted or lost. */
static void fill_exact(const test_rows *rows, uint64_t *seed)
{
    for (int64_t row = 0; row < rows->matrix.rows; row++) {
        for (int64_t col = 0; col < rows->matrix.cols; col++) {
            const double x = test_uniform(seed) < 0.5 ? 1.0 : -1.0;
            test_rows_set(rows, row, col, row % 2 == 0 ? x : 0.0);
        }
    }
}

static void negate_odd_rows(const test_rows *rows)
{
    const float *data = rows->matrix.data;
    for (int64_t row = 1; row < rows->matrix.rows; row += 2) {
        for (int64_t col = 0; col < rows->matrix.cols; col++) {
            const double x = (double)data[(row - 1) * rows->matrix.cols + col];
            test_rows_set(rows, row, col, -x);
        }
    }
}

static void fill(stage *s, int shape, uint64_t *seed)
{
    if (shape == SHAPE_EXACT) {
        fill_exact(&s->points, seed);
        negate_odd_rows(&s->points);
        fill_exact(&s->queries, seed);
        negate_odd_rows(&s->queries);
        return;
    }
    test_shape_fill(&s->points, (test_shape)shape, false, seed);
    test_shape_fill(&s->queries, (test_shape)shape, false, seed);
    const float *data = s->points.matrix.data;
    for (int64_t row = 0; row < 8; row++) { /* copies of points, and points far outside */
        for (int64_t col = 0; col < s->points.matrix.cols; col++) {
            const double x = (double)data[row * s->points.matrix.cols + col];
            const double factor = row < 4 ? 1.0 : row < 6 ? 1e6 : 0.5;
            test_rows_set(&s->queries, row, col, x * factor);
        }
    }
}

static kin_row_transform *transforms_of(const stage *s, const kith_matrix *m)
{
    if (!kin_metric_get_traits(s->metric)->transforms) {
        return NULL;
    }
    kin_row_transform *transforms = malloc((size_t)m->rows * sizeof *transforms);
    assert_non_null(transforms);
    assert_int_equal(kin_metric_transforms(s->ctx, m, s->metric, transforms), KITH_OK);
    return transforms;
}

static stage *stage_make(kith_ctx *ctx, kith_metric metric, kin_tile_type type, int shape,
                         int32_t cols, uint64_t *seed)
{
    stage *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->ctx = ctx;
    s->metric = metric;
    s->kernel = (kin_tile_kernel){.name = "bound", .type = type, .tile_rows = 1, .group_step = 1};
    s->distance = (kin_distance){.metric = metric, .cols = cols, .isa = ctx->isa};
    s->points = test_rows_make(KITH_F32, POINTS, cols, 0);
    s->queries = test_rows_make(KITH_F32, QUERIES, cols, 0);
    fill(s, shape, seed);
    s->point_transforms = transforms_of(s, &s->points.matrix);
    s->query_transforms = transforms_of(s, &s->queries.matrix);
    s->point_rows = (kin_rows){s->points.matrix, s->point_transforms};
    s->query_rows = (kin_rows){s->queries.matrix, s->query_transforms};
    for (uint32_t i = 0; i < POINTS; i++) {
        s->ids[i] = i;
    }
    assert_int_equal(kin_frame_measure(ctx, &s->distance, &s->point_rows, &s->stats), KITH_OK);
    assert_int_equal(kin_frame_measure_norms(ctx, &s->distance, &s->point_rows, &s->stats),
                     KITH_OK);
    s->frame = kin_frame_make(&s->distance, &s->kernel, false, &s->stats);
    assert_int_equal(
        kin_set_make(ctx, kin_set_shape(&s->frame, POINTS), &s->point_rows, s->ids, &s->point_set),
        KITH_OK);
    assert_int_equal(
        kin_set_make(ctx, kin_set_shape(&s->frame, QUERIES), &s->query_rows, s->ids, &s->query_set),
        KITH_OK);
    for (int64_t q = 0; q < QUERIES; q++) {
        test_keys(ctx, metric, &s->queries.matrix, q, &s->points.matrix, NULL, POINTS, s->keys[q]);
        for (int64_t c = 0; c < POINTS; c++) {
            s->cost[q][c] = test_plain_cost(&s->query_set, q, &s->point_set, c);
        }
    }
    return s;
}

static void stage_free(stage *s)
{
    kin_set_free(s->ctx, &s->query_set);
    kin_set_free(s->ctx, &s->point_set);
    kin_frame_stats_free(s->ctx, &s->stats);
    free(s->point_transforms);
    free(s->query_transforms);
    test_rows_free(&s->points);
    test_rows_free(&s->queries);
    free(s);
}

/* What the unit may be wrong by: kappa |q||c| in the product, and in the half norm it starts from.
 */
static double unit_wrong(const stage *s, kin_bound_row q, kin_bound_row c)
{
    const double start = s->frame.bound == KIN_BOUND_PRODUCT ? 0.0 : 0.5 * c.norm * c.norm;
    return 0.999 * 2.0 * s->frame.kappa * (q.norm * c.norm + start);
}

/* Costs of float units are fp32; those of integer units are exact. */
static double as_logged(const stage *s, double cost)
{
    return kin_tile_is_float(s->frame.kernel->type) ? (double)(float)cost : cost;
}

static bool degenerate(const stage *s, int64_t q, int64_t c)
{
    return s->point_transforms != NULL &&
           (s->query_transforms[q].degenerate != 0.0 || s->point_transforms[c].degenerate != 0.0);
}

static kin_bound_row forget(mutant m, kin_bound_row row, bool is_query)
{
    if (m == MUTANT_NO_LOST || m == (is_query ? MUTANT_NO_QUERY_LOST : MUTANT_NO_POINT_LOST)) {
        row.lost = 0.0;
    }
    return row;
}

/* One query: how many discards are wrong. */
static int64_t wrong_discards(const stage *s, int64_t query, mutant m)
{
    const kin_bound_kind kind = s->frame.bound;
    const kin_bound_row q = kin_set_row(&s->query_set, query);
    const kin_bound_row known_q = forget(m, q, true);
    const kin_bound_row worst = forget(m, s->point_set.worst, false);
    const double kappa = m == MUTANT_NO_KAPPA ? 0.0 : s->frame.kappa;
    const double *cost = s->cost[query];
    kin_bound_row known[POINTS];
    double wrong[POINTS];
    int64_t count = 0;
    for (int64_t c = 0; c < POINTS; c++) {
        const kin_bound_row row = kin_set_row(&s->point_set, c);
        known[c] = forget(m, row, false);
        wrong[c] = unit_wrong(s, q, row);
    }
    for (int64_t i = 0; i < POINTS; i++) {
        if (degenerate(s, query, i)) {
            continue;
        }
        const double low = as_logged(s, cost[i] - wrong[i]);
        const bool proves = m == MUTANT_FAR_PROVES || (kin_set_proves(&s->query_set, query) &&
                                                       kin_set_proves(&s->point_set, i));
        const double by_cost =
            proves ? kin_bound_reach_of_cost(kind, low, kappa, s->frame.scale, known_q, known[i])
                   : (double)INFINITY;
        const double by_key = kin_bound_reach_of_key(kind, s->keys[query][i], s->frame.key_scale,
                                                     s->frame.scale, known_q, worst);
        for (int64_t j = 0; j < POINTS; j++) {
            if (s->keys[query][j] > s->keys[query][i] || degenerate(s, query, j)) {
                continue;
            }
            const double high = as_logged(s, cost[j] + wrong[j]);
            count += high > kin_bound_limit(kind, by_cost, kappa, known_q, known[j]);
            count += high > kin_bound_limit(kind, by_key, kappa, known_q, known[j]);
        }
    }
    return count;
}

typedef struct tally {
    int64_t wrong[KIN_TILE_TYPES][MUTANT_COUNT];
    int64_t pairs;
} tally;

static void try_stage(tally *t, kith_ctx *ctx, kith_metric metric, kin_tile_type type, int shape,
                      int32_t cols, uint64_t *seed)
{
    stage *s = stage_make(ctx, metric, type, shape, cols, seed);
    for (int64_t q = 0; q < QUERIES; q++) {
        for (int m = 0; m < MUTANT_COUNT; m++) {
            const int64_t wrong = wrong_discards(s, q, (mutant)m);
            t->wrong[type][m] += wrong;
            if (m == MUTANT_NONE && wrong != 0) {
                fail_msg("%s, %s, %s, %d columns: query %lld loses %lld pairs",
                         kith_metric_name(metric), kin_tile_type_name(type),
                         shape == SHAPE_EXACT ? "exact rows" : test_shape_name((test_shape)shape),
                         (int)cols, (long long)q, (long long)wrong);
            }
        }
    }
    t->pairs += (int64_t)QUERIES * POINTS * POINTS;
    stage_free(s);
}

static void theorem(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_COSINE,
                                          KITH_CORRELATION};
    static const int32_t cols[] = {1, 2, 9, 64, 300};
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 1);
    tally t = {0};
    uint64_t seed = 3;
    for (int type = 0; type < KIN_TILE_TYPES; type++) {
        for (int shape = 0; shape <= SHAPE_EXACT; shape++) {
            for (size_t m = 0; m < sizeof metrics / sizeof *metrics; m++) {
                for (size_t c = 0; c < sizeof cols / sizeof *cols; c++) {
                    try_stage(&t, ctx, metrics[m], (kin_tile_type)type, shape, cols[c], &seed);
                }
            }
        }
    }
    kith_ctx_free(ctx);
    printf("%.1f million triples of a query and two points: the bound discards no neighbour\n",
           1e-6 * (double)t.pairs);
    for (int type = 0; type < KIN_TILE_TYPES; type++) {
        for (int m = MUTANT_NONE + 1; m < MUTANT_COUNT; m++) {
            printf("%s, mutant \"%s\": %lld neighbours lost\n",
                   kin_tile_type_name((kin_tile_type)type), mutant_names[m],
                   (long long)t.wrong[type][m]);
            const bool has_kappa = kin_tile_is_float((kin_tile_type)type);
            /* Of floats a row is drawn in only far outside, and then its pairs are far, too. */
            assert_true(t.wrong[type][m] > 0 || (m == MUTANT_NO_KAPPA && !has_kappa) ||
                        (m == MUTANT_FAR_PROVES && has_kappa));
        }
    }
}

/* On rows that the type holds exactly nothing is lost, and kappa alone stands between the unit's
 * error and a wrong answer: ordinary data would hide that it is missing. */
static void kappa_stands_alone(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT};
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 1);
    uint64_t seed = 5;
    for (int type = KIN_TILE_BF16; type <= KIN_TILE_F32; type++) {
        for (int m = 0; m < 2; m++) {
            tally t = {0};
            for (int32_t cols = 16; cols <= 1024; cols *= 4) {
                try_stage(&t, ctx, metrics[m], (kin_tile_type)type, SHAPE_EXACT, cols, &seed);
            }
            assert_true(t.wrong[type][MUTANT_NONE] == 0 && t.wrong[type][MUTANT_NO_KAPPA] > 0);
            printf("%s, %s, exact rows: without kappa %lld neighbours are lost, with it none\n",
                   kith_metric_name(metrics[m]), kin_tile_type_name((kin_tile_type)type),
                   (long long)t.wrong[type][MUTANT_NO_KAPPA]);
        }
    }
    kith_ctx_free(ctx);
}

/* Whatever is unknown keeps everything. */
static void unknown_keeps(void **state)
{
    (void)state;
    const kin_bound_row row = {10.0, 0.5};
    const kin_bound_row lost = {10.0, (double)INFINITY};
    for (int kind = KIN_BOUND_DISTANCE; kind <= KIN_BOUND_PRODUCT; kind++) {
        const kin_bound_kind k = (kin_bound_kind)kind;
        const double open = (double)INFINITY;
        assert_false(1e300 > kin_bound_limit(k, open, 1e-6, row, row));
        assert_false(1e300 > kin_bound_limit(k, 5.0, 1e-6, row, lost));
        assert_false(1e300 > kin_bound_limit(k, (double)NAN, 1e-6, row, row));
        const double limit = kin_bound_limit(k, 5.0, 1e-6, row, row);
        assert_true(limit < kin_bound_limit(k, 6.0, 1e-6, row, row));
        assert_true(limit < kin_bound_limit(k, 5.0, 1e-3, row, row));
        assert_true(limit < kin_bound_limit(k, 5.0, 1e-6, row, (kin_bound_row){10.0, 0.6}));
        assert_true(limit < kin_bound_limit(k, 5.0, 1e-6, row, (kin_bound_row){11.0, 0.5}));
    }
    printf("a reach or a loss that is unknown discards nothing; every part of the bound counts\n");
}

static double up_to(uint64_t *seed, double exponents)
{
    return exp2(exponents * (2.0 * test_uniform(seed) - 1.0));
}

/* The limit of a pair is never above what is left for the row and what stands in both terms;
 * without the slack of either end it is. Slacks stay below the squares of norms. */
static void limits_come_apart(void **state)
{
    (void)state;
    enum { TRIES = 1000000 };
    uint64_t seed = 9;
    int64_t wrong[2] = {0, 0};
    for (int i = 0; i < TRIES; i++) {
        const double kappa = (i % 4 + 1) * 33.0 * 0x1p-24 * (i % 7 == 0 ? 512.0 : 1.0);
        const double reach = i % 50 == 0 ? 0.0 : up_to(&seed, 15.0);
        kin_bound_row q = {up_to(&seed, 18.0), up_to(&seed, 40.0)};
        kin_bound_row c = {up_to(&seed, 18.0), up_to(&seed, 40.0)};
        q.norm = fmax(q.norm, KIN_MEET_NORM * q.lost);
        c.norm = fmax(c.norm, KIN_MEET_NORM * c.lost);
        const double limit = kin_bound_limit(KIN_BOUND_DISTANCE, reach, kappa, q, c);
        const double left = kin_meet_even_limit(reach, q);
        const double own = kin_meet_slack(kappa, q);
        const double other = kin_meet_slack(kappa, c);
        assert_true(limit <= left + own + other);
        assert_true(own < q.norm * q.norm && other < c.norm * c.norm);
        wrong[0] += limit > left + own;
        wrong[1] += limit > left + other;
    }
    printf("%d limits come apart; without the point's slack %lld are too low, without the row's "
           "%lld\n",
           TRIES, (long long)wrong[0], (long long)wrong[1]);
    assert_true(wrong[0] > 0 && wrong[1] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(theorem), cmocka_unit_test(kappa_stands_alone),
        cmocka_unit_test(limits_come_apart), cmocka_unit_test(unknown_keeps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
