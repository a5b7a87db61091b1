/* SPDX-License-Identifier: Apache-2.0
 * Where proofs are easily wrong: the two ends of a pair, and tiles that are exactly as far apart as
 * they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "host/host_cpu.h"
#include "oracle/plain_knn.h"
#include "screen/screen_corpus.h"
#include "screen/screen_prepare.h"
#include "support/support_keys.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double uniform(uint64_t *state)
{
    return (double)(int64_t)kin_random_next(state) * 0x1p-63;
}

static void test_error_has_no_side(void **unused)
{
    (void)unused;
    const kin_bound_row large = {.norm = 1000.0, .lost = 0.0};
    const kin_bound_row small = {.norm = 0.01, .lost = 0.0};
    const double kappa = 0x1p-12;
    assert_true(kin_bound_error(kappa, large, small) == kin_bound_error(kappa, small, large));
    assert_true(kin_bound_error(kappa, small, large) >= kappa * large.norm * large.norm);
    printf("a unit's error holds the half norm of whichever end starts the accumulator\n");
}

/* The least distance of the points of two tiles, in units of the frame. */
static double least_distance(const kin_prepared *p, int64_t coarse, int64_t fine)
{
    const kin_set *set = &p->set;
    double least = INFINITY;
    for (int64_t i = coarse * KIN_COARSE_STEP;
         i < (coarse + 1) * KIN_COARSE_STEP && i < set->points; i++) {
        for (int64_t j = fine * KIN_FINE_STEP; j < (fine + 1) * KIN_FINE_STEP && j < set->points;
             j++) {
            const double key = oracle_key(KITH_SQEUCLIDEAN, &p->rows.matrix, set->ids[i],
                                          &p->rows.matrix, set->ids[j]);
            least = fmin(least, sqrt(key) / set->frame->scale);
        }
    }
    return least;
}

/* A tile is skipped only when its nearest points are farther than the reach. */
static void test_tiles_apart(void **unused)
{
    (void)unused;
    enum { ROWS = 1500, COLS = 5 };
    static float points[ROWS * COLS];
    uint64_t state = 9;
    for (int i = 0; i < ROWS; i++) {
        const double centre = (double)kin_random_below(&state, 12);
        for (int j = 0; j < COLS; j++) {
            points[i * COLS + j] = (float)(centre + 0.1 * uniform(&state));
        }
    }
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 1);
    const kith_matrix m = {.data = points,
                           .rows = ROWS,
                           .stride_bytes = COLS * (int64_t)sizeof(float),
                           .cols = COLS,
                           .dtype = KITH_F32};
    const kin_distance distance = {.metric = KITH_SQEUCLIDEAN, .cols = COLS, .isa = kin_cpu_best()};
    kin_prepared p;
    assert_int_equal(kin_prepare_rows(ctx, &m, &distance, "points", 0, &p), KITH_OK);
    assert_int_equal(kin_prepare_corpus(ctx, false, 10, &p), KITH_OK);
    const kin_round_ops *ops = kin_round_get(kin_cpu_best());
    int skipped = 0;
    for (int64_t i = 0; i < (ROWS + KIN_COARSE_STEP - 1) / KIN_COARSE_STEP; i++) {
        for (int64_t j = 0; j < (ROWS + KIN_FINE_STEP - 1) / KIN_FINE_STEP; j++) {
            const double least = least_distance(&p, i, j);
            const kin_cover_tile coarse = {&p.cover, i};
            const kin_cover_tile fine = {&p.cover, j};
            assert_false(kin_cover_apart(&p.set, ops, coarse, fine, least));
            skipped += kin_cover_apart(&p.set, ops, coarse, fine, 0.5 * least);
        }
    }
    assert_true(skipped > 100);
    kin_prepared_free(ctx, &p);
    kith_ctx_free(ctx);
    printf("no tile is skipped at its least distance, %d are at half of it\n", skipped);
}

/* A graph's tiles have balls where they may be apart, and centres in any case. */
static void test_balls_in_vain(void **unused)
{
    (void)unused;
    enum { ROWS = 6000, COLS = 20 };
    float *points = malloc((size_t)ROWS * COLS * sizeof *points);
    assert_non_null(points);
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    for (int clusters = 0; clusters < 2; clusters++) {
        uint64_t state = 5;
        for (int i = 0; i < ROWS; i++) {
            for (int j = 0; j < COLS; j++) {
                const double centre = clusters != 0 ? 9.0 * (double)((i % 20 * 7 + j * 3) % 11) : 0;
                points[i * COLS + j] = (float)(centre + uniform(&state));
            }
        }
        const kith_matrix m = {.data = points,
                               .rows = ROWS,
                               .stride_bytes = COLS * (int64_t)sizeof *points,
                               .cols = COLS,
                               .dtype = KITH_F32};
        const kin_distance d = {.metric = KITH_SQEUCLIDEAN, .cols = COLS, .isa = kin_cpu_best()};
        kin_prepared p;
        assert_int_equal(kin_prepare_rows(ctx, &m, &d, "points", 0, &p), KITH_OK);
        p.graph = true;
        assert_int_equal(kin_prepare_corpus(ctx, false, 10, &p), KITH_OK);
        const kin_cover *c = &p.cover;
        assert_int_equal(c->radii[KIN_COVER_FINE] != NULL, clusters);
        for (int64_t tile = 0; tile < ROWS / KIN_COARSE_STEP; tile++) {
            const float *centre = c->centres[KIN_COVER_COARSE] + tile * c->wide;
            assert_true(centre[0] != 0.0F && fabsf(centre[0]) * (float)p.frame.scale < 99.0F);
        }
        kin_prepared_free(ctx, &p);
    }
    kith_ctx_free(ctx);
    free(points);
    printf("rows of one box have centres, those of twenty clusters balls, too\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_has_no_side),
        cmocka_unit_test(test_tiles_apart),
        cmocka_unit_test(test_balls_in_vain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
