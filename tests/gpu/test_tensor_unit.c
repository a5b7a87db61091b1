/* SPDX-License-Identifier: Apache-2.0
 * What the tensor cores keep of a sum, which no manual says and kappa rests on (screen_table.cu,
 * docs/notes/numerics.md): a probe of the bodies of the screen that ship, on the device at hand.
 * Case i is row i against column i, with terms of 0, so that the cost is -2 v exactly and v = the
 * unit's product less half_i, which starts or ends the sum.
 *
 * Claims, for each number of columns K: |v - exact| <= kappa (sum |p| + |half|), with products that
 * stand just below the bits that are kept, of both signs, behind a large product or a large half,
 * and with random magnitudes; and the last bit of a step that kappa counts on is there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "metric/metric_arith.h"
#include "support/support_gpu.h"
#include "support/support_rows.h"
#include "support/support_screen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CASES = KIN_SCREEN_GPU_BLOCK,
    TILES = CASES / KIN_SCREEN_GPU_TILE,
    KEPT_FROM = 22,
    KEPT_TO = 27
};

/* Cases of one number of columns. */
typedef struct probe {
    test_bench *b;
    int32_t cols;
    int32_t wide; /* of a rounded row */
    uint16_t *a;  /* CASES x wide */
    uint16_t *c;
    kin_screen_gpu_word half[CASES];
    double exact[CASES];
    double sizes[CASES]; /* sum |p| + |half| */
    double v[CASES];     /* what the unit made of it */
} probe;

/* Exact: x has at most 11 bits and is 0 or of magnitude 2^-14 .. 2^15. */
static uint16_t half_of(double x)
{
    if (x == 0) {
        return 0;
    }
    int exponent = 0;
    const double fraction = frexp(fabs(x), &exponent);
    const unsigned bits = (unsigned)(fraction * 2048.0) & 1023U;
    const uint16_t half =
        (uint16_t)((x < 0 ? 0x8000U : 0U) | (unsigned)(exponent + 14) << 10 | bits);
    assert_true(kin_value_of_f16(half) == x);
    return half;
}

static probe probe_make(test_bench *b, int32_t cols)
{
    probe p = {.b = b, .cols = cols, .wide = (cols + 63) / 64 * 64};
    p.a = test_host_block((uint64_t)CASES * (uint64_t)p.wide, sizeof *p.a);
    p.c = test_host_block((uint64_t)CASES * (uint64_t)p.wide, sizeof *p.c);
    return p;
}

static void probe_free(probe *p)
{
    free(p->a);
    free(p->c);
}

static void set_product(probe *p, int at, int32_t col, double a, double c)
{
    p->a[at * p->wide + col] = half_of(a);
    p->c[at * p->wide + col] = half_of(c);
}

static kin_screen_gpu_set set_of(probe *p, const uint16_t *rounded, const kin_screen_gpu_word *half)
{
    static const kin_screen_gpu_facts facts[CASES];
    kin_screen_gpu_set set;
    memset(&set, 0, sizeof set);
    set.frame.type = KIN_SCREEN_GPU_F16;
    set.frame.bound = KIN_BOUND_PRODUCT;
    set.frame.cols = p->cols;
    set.frame.row_bytes = 2 * p->wide;
    set.frame.scale = 1;
    set.frame.key_scale = 1;
    set.frame.kappa = p->b->gpu->module->screen->kappa(p->b->gpu->stream, p->cols);
    set.points = CASES;
    set.padded = CASES;
    set.rounded =
        test_bench_copy(p->b, rounded, (uint64_t)CASES * (uint64_t)p->wide * sizeof *rounded);
    set.facts = test_bench_copy(p->b, facts, sizeof facts);
    set.half = test_bench_copy(p->b, half, CASES * sizeof *half);
    return set;
}

/* Products of halves are exact in double, and so are their sums: all are multiples of 2^-28 and the
 * sums stay below 2^24 (test_tensor_unit's own cases) or lose a part of 2^-53. */
static void find_exact(probe *p)
{
    for (int i = 0; i < CASES; i++) {
        p->exact[i] = -(double)p->half[i].f;
        p->sizes[i] = fabs(p->exact[i]);
        for (int32_t col = 0; col < p->wide; col++) {
            const double product = kin_value_of_f16(p->a[i * p->wide + col]) *
                                   kin_value_of_f16(p->c[i * p->wide + col]);
            p->exact[i] += product;
            p->sizes[i] += fabs(product);
        }
    }
}

static void run_probe(probe *p)
{
    test_bench *b = p->b;
    static const uint32_t tiles[TILES] = {0, 1};
    static const kin_screen_gpu_unit unit = {0, 0, TILES, 0};
    static const kin_screen_gpu_word none[CASES];
    const uint32_t one = 1;
    const uint64_t bytes = (uint64_t)CASES * CASES * sizeof(uint32_t);
    kin_screen_gpu_screen job;
    memset(&job, 0, sizeof job);
    job.mode = KIN_SCREEN_GPU_MATRIX;
    job.rows = set_of(p, p->a, none);
    job.cols = set_of(p, p->c, p->half);
    job.tiles = test_bench_copy(b, tiles, sizeof tiles);
    job.units = test_bench_copy(b, &unit, sizeof unit);
    job.unit_count = test_bench_copy(b, &one, sizeof one);
    job.next = test_bench_block(b, sizeof *job.next, 0);
    job.tiles_a_block = TILES;
    job.pitch = CASES;
    job.matrix = test_bench_block(b, bytes, 0);
    test_screen_run(b, &job);
    uint32_t *matrix = test_host_copy(b, job.matrix, bytes);
    for (int i = 0; i < CASES; i++) {
        p->v[i] = -0.5 * test_cost_of_order(KIN_SCREEN_GPU_F16, matrix[i * CASES + i]);
    }
    free(matrix);
    test_give_back(b, 0);
    find_exact(p);
}

/* The largest share of kappa (sum |p| + |half|) that a case was off by. */
static double worst_share(const probe *p)
{
    const double kappa = p->b->gpu->module->screen->kappa(p->b->gpu->stream, p->cols);
    double worst = 0;
    for (int i = 0; i < CASES; i++) {
        if (p->sizes[i] == 0) {
            assert_true(p->v[i] == 0);
            continue;
        }
        const double share = fabs(p->v[i] - p->exact[i]) / (kappa * p->sizes[i]);
        worst = fmax(worst, share);
        if (!(share <= 1)) {
            printf(
                "  WRONG %s, %d columns, case %d: v %.17g, exact %.17g, magnitudes %.6g, %.3g of "
                "kappa\n",
                p->b->unit, p->cols, i, p->v[i], p->exact[i], p->sizes[i], share);
        }
    }
    return worst;
}

/* One product or half of 2^16, all others just under 2^(16 - e): a step that keeps e - 1 bits below
 * the largest loses each of them entirely. */
static void fill_adversarial(probe *p)
{
    int at = 0;
    for (int e = 22; e <= 28; e++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            const int32_t places[3] = {0, p->cols / 2, p->cols - 1};
            for (int place = 0; place <= 3; place++, at++) {
                for (int32_t col = 0; col < p->cols; col++) {
                    set_product(p, at, col, sign * 0.99609375, ldexp(1, 16 - e));
                }
                if (place < 3) {
                    set_product(p, at, places[place], 256, 256);
                } else {
                    p->half[at].f = 0x1p16F;
                }
            }
        }
    }
    assert_true(at <= CASES);
}

static double random_magnitude(test_bench *b, int spread)
{
    const double fraction = floor(test_uniform(&b->seed) * 1024.0) / 1024.0;
    const int exponent = (int)(test_uniform(&b->seed) * (double)(2 * spread + 1)) - spread;
    return ldexp(1 + fraction, exponent);
}

static void fill_random(probe *p)
{
    for (int at = 0; at < CASES; at++) {
        const int spread = at % 4 * 4;
        for (int32_t col = 0; col < p->cols; col++) {
            const double sign = at / 4 % 2 == 1 && test_uniform(&p->b->seed) < 0.5 ? -1 : 1;
            set_product(p, at, col, sign * random_magnitude(p->b, spread),
                        random_magnitude(p->b, spread));
        }
        p->half[at].f = at / 8 % 2 == 1 ? (float)random_magnitude(p->b, spread) : 0.0F;
    }
}

static void errors_stay_within_kappa(void **state)
{
    (void)state;
    static const int32_t widths[] = {1, 16, 64, 128, 1024, 4096};
    test_bench b = test_bench_open();
    double worst = 0;
    b.seed = 5;
    for (int u = 0; u < 2 && b.units[u] != NULL; u++) {
        b.unit = b.units[u];
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            double shares[2] = {0, 0};
            for (int random = 0; random < 2; random++) {
                probe p = probe_make(&b, widths[i]);
                (random == 1 ? fill_random : fill_adversarial)(&p);
                run_probe(&p);
                shares[random] = worst_share(&p);
                worst = fmax(worst, shares[random]);
                probe_free(&p);
            }
            printf("%s, %d.%d, %d columns: adversarial sums are off by %.3f of kappa, random by "
                   "%.3f\n",
                   b.unit, b.gpu->info.major, b.gpu->info.minor, widths[i], shares[0], shares[1]);
        }
    }
    test_bench_close(&b);
    assert_true(worst <= 1);
}

/* 2^24 and, in the same step, products of 2^(24 - e) that make one unit in its last place together:
 * they survive only if the step keeps e bits below the largest. */
static void steps_keep_their_bits(void **state)
{
    (void)state;
    test_bench b = test_bench_open();
    const int promised = b.gpu->info.major == 8 ? 24 : b.gpu->info.major == 9 ? 25 : 23;
    int fewest = KEPT_TO;
    for (int u = 0; u < 2 && b.units[u] != NULL; u++) {
        b.unit = b.units[u];
        probe p = probe_make(&b, 16);
        for (int e = KEPT_FROM; e < KEPT_TO; e++) {
            const int at = e - KEPT_FROM;
            const int many = e < 23 ? 1 : 1 << (e - 23);
            set_product(&p, at, 0, 4096, 4096);
            for (int32_t col = 1; col <= many; col++) {
                set_product(&p, at, col, ldexp(1, 12 - e / 2), ldexp(1, 12 - (e - e / 2)));
            }
        }
        run_probe(&p);
        int kept = KEPT_FROM - 1;
        while (kept + 1 < KEPT_TO && p.v[kept + 1 - KEPT_FROM] == p.exact[kept + 1 - KEPT_FROM]) {
            kept++;
        }
        printf("%s, %d.%d: a step keeps %d bits below its largest product; kappa counts on %d\n",
               b.unit, b.gpu->info.major, b.gpu->info.minor, kept, promised);
        fewest = kept < fewest ? kept : fewest;
        probe_free(&p);
    }
    test_bench_close(&b);
    assert_true(fewest >= promised);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_stay_within_kappa),
                                       cmocka_unit_test(steps_keep_their_bits)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
