/* SPDX-License-Identifier: Apache-2.0
 * Tiles that the GPU skips, on the processor: sums as kernels make them, in fp32, of rows that make
 * the roundings of all components go the same way; then the largest reach for which two tiles are
 * called apart, against the nearest pair that their rows may hold, in long double. A ball that
 * forgets a part must be seen to fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "screen/screen_cover.h"
#include "support/support_rows.h"

#include <math.h>
#include <stdio.h>

enum { MOST_COLS = 1 << 16, TRIALS = 20000, VALUES = 8 /* of a chunk of halves */ };

typedef enum mutant {
    MUTANT_NONE = 0,
    MUTANT_NO_WIDENING,
    MUTANT_NO_SHRINKING,
    MUTANT_NO_LOST,
    MUTANT_COUNT
} mutant;

static const char *const mutant_names[MUTANT_COUNT] = {"balls", "no widening", "no shrinking",
                                                       "no lost"};

static uint64_t seed = 5;

/* Two tiles of one row each. All components of a vector are equal: a row is `row` times (1, 1, ..),
 * from which the row before rounding differs by `lost` towards the other tile. */
typedef struct scene {
    int32_t cols;
    float centre[2];
    float row[2];
    float lost[2];
} scene;

/* |x^ - centre|^2 by lanes that take a chunk each in turn (screen_cover.cu). */
static float square_by_lanes(float row, float centre, int32_t cols)
{
    float lanes[KIN_BALL_LANES];
    for (int lane = 0; lane < KIN_BALL_LANES; lane++) {
        lanes[lane] = 0.0F;
        for (int32_t col = lane * VALUES; col < cols; col += KIN_BALL_LANES * VALUES) {
            for (int i = 0; i < VALUES && col + i < cols; i++) {
                const float t = row - centre;
                lanes[lane] += t * t;
            }
        }
    }
    for (int away = KIN_BALL_LANES / 2; away > 0; away /= 2) {
        for (int lane = 0; lane < away; lane++) {
            lanes[lane] += lanes[lane + away];
        }
    }
    return lanes[0];
}

/* Between centres, one fma a column (screen_plan.cu). */
static float square_in_order(float a, float b, int32_t cols)
{
    float sum = 0.0F;
    const float t = a - b;
    for (int32_t col = 0; col < cols; col++) {
        sum = fmaf(t, t, sum);
    }
    return sum;
}

/* The largest reach with which the tiles are apart, or less than 0. */
static float largest_apart(float square, float shrink, const float radius[2])
{
    float low = -1.0F;
    float high = 0x1p30F;
    for (int i = 0; i < 80; i++) {
        const float middle = i == 0 ? 0.0F : 0.5F * (low + high);
        if (kin_ball_apart(square, shrink, middle, radius[0], radius[1]) != 0) {
            low = middle;
        } else {
            high = middle;
        }
        if (low < 0.0F) {
            return low;
        }
    }
    return low;
}

static float component(int low, int high)
{
    const int exponent = low + (int)(test_uniform(&seed) * (double)(high - low + 1));
    return (float)ldexp(1.0 + test_uniform(&seed), exponent);
}

static scene random_scene(void)
{
    scene s;
    s.cols = 1 + (int32_t)(exp2(test_uniform(&seed) * 16.0) - 1.0);
    s.centre[0] = component(-10, 8);
    s.centre[1] = s.centre[0] + component(0, 12);
    const float between = s.centre[1] - s.centre[0];
    for (int i = 0; i < 2; i++) {
        const float towards = i == 0 ? between : -between;
        s.row[i] = s.centre[i] + towards * (float)(test_uniform(&seed) * 0.499);
        s.lost[i] = test_uniform(&seed) < 0.5 ? 0x1p-149F : between * component(-24, -8);
    }
    return s;
}

/* Whether a row is outside of its ball, or a pair within the reach was called apart. */
static bool skips_wrongly(const scene *s, mutant m)
{
    const long double root = sqrtl((long double)s->cols);
    float radius[2];
    bool outside = false;
    for (int i = 0; i < 2; i++) {
        const long double away = fabsl((long double)s->row[i] - s->centre[i]) * root;
        const float square = square_by_lanes(s->row[i], s->centre[i], s->cols);
        const float lost = m == MUTANT_NO_LOST ? 0.0F : s->lost[i];
        radius[i] = kin_ball_radius(square, m == MUTANT_NO_WIDENING ? -64 : s->cols, lost);
        outside = outside || away + s->lost[i] > (long double)radius[i];
    }
    const float shrink = m == MUTANT_NO_SHRINKING ? 1.0F : kin_ball_shrink(s->cols);
    const float square = square_in_order(s->centre[0], s->centre[1], s->cols);
    const float reach = largest_apart(square, shrink, radius);
    const long double nearest =
        fabsl((long double)s->row[1] - s->row[0]) * root - (long double)s->lost[0] - s->lost[1];
    return outside || (reach >= 0.0F && nearest <= (long double)reach);
}

static void test_tiles_that_are_apart(void **state)
{
    (void)state;
    for (int i = 0; i < TRIALS; i++) {
        const scene s = random_scene();
        if (skips_wrongly(&s, MUTANT_NONE)) {
            fail_msg("%d columns, centres %a %a, rows %a %a, lost %a %a: skipped within reach",
                     (int)s.cols, (double)s.centre[0], (double)s.centre[1], (double)s.row[0],
                     (double)s.row[1], (double)s.lost[0], (double)s.lost[1]);
        }
    }
    printf("%d pairs of tiles of 1 to %d columns: rows in their balls, none within the largest "
           "reach that skips\n",
           TRIALS, MOST_COLS);
}

static void test_mutants_are_seen(void **state)
{
    (void)state;
    for (int m = 1; m < MUTANT_COUNT; m++) {
        int failures = 0;
        for (int i = 0; i < TRIALS; i++) {
            const scene s = random_scene();
            failures += skips_wrongly(&s, (mutant)m) ? 1 : 0;
        }
        printf("%s: wrong for %d of %d pairs of tiles\n", mutant_names[m], failures, TRIALS);
        assert_true(failures > 0);
    }
}

static void test_what_skips_nothing(void **state)
{
    (void)state;
    const float none = NAN;
    const float far = INFINITY;
    assert_true(kin_ball_apart(0x1p100F, 1.0F, 1.0F, 1.0F, 1.0F) != 0);
    assert_true(kin_ball_apart(far, 1.0F, 1.0F, 1.0F, 1.0F) == 0);
    assert_true(kin_ball_apart(none, 1.0F, 1.0F, 1.0F, 1.0F) == 0);
    assert_true(kin_ball_apart(0x1p100F, 1.0F, far, 1.0F, 1.0F) == 0);
    assert_true(kin_ball_apart(0x1p100F, 1.0F, 1.0F, far, 1.0F) == 0);
    assert_true(kin_ball_apart(0x1p100F, 1.0F, 1.0F, none, 1.0F) == 0);
    assert_true(isinf(kin_ball_radius(1.0F, 8, far)));
    assert_true(kin_ball_radius(0.0F, 8, 0.0F) >= 0x1p-59F);
    puts("infinite distances, radii, reaches and what is no number skip nothing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiles_that_are_apart),
        cmocka_unit_test(test_mutants_are_seen),
        cmocka_unit_test(test_what_skips_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
