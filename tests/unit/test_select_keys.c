/* SPDX-License-Identifier: Apache-2.0
 * The keys of select_word.h: they order as the values do, and say what the value was. And the bound
 * that keeps most keys out of a short list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "select/select.h"
#include "select/select_word.h"

#include <math.h>
#include <stdio.h>

/* Whether x comes before y, by the rules of kith_select.h. */
static bool comes_before(double x, double y, bool largest)
{
    if (isnan(x) || isnan(y)) {
        return !isnan(x);
    }
    return largest ? x > y : x < y;
}

/* Key a against key b as value x against value y; NaN equal to NaN. */
static bool ordered_alike(uint64_t a, uint64_t b, double x, double y, bool largest)
{
    const bool both_nan = isnan(x) && isnan(y);
    return (a < b) == (!both_nan && comes_before(x, y, largest)) &&
           (b < a) == (!both_nan && comes_before(y, x, largest));
}

static double half_value(uint16_t half, kin_select_type dtype)
{
    if (dtype == KIN_SELECT_BF16) {
        const uint32_t bits = (uint32_t)half << 16;
        float f32;
        memcpy(&f32, &bits, sizeof f32);
        return (double)f32;
    }
    const double sign = half >> 15 ? -1 : 1;
    const int exponent = half >> 10 & 31;
    const int fraction = half & 1023;
    if (exponent == 31) {
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    }
    return exponent == 0 ? sign * ldexp(fraction, -24)
                         : sign * ldexp(1024 + fraction, exponent - 25);
}

/* Every pattern: loaded by kin_select_load64, sorted by its key, written back. */
static void keys_of_halves(void **state)
{
    (void)state;
    enum { PATTERNS = 65536 };
    static uint16_t patterns[PATTERNS];
    static kin_word64 words[PATTERNS];
    for (int i = 0; i < PATTERNS; i++) {
        patterns[i] = (uint16_t)i;
    }
    for (int turn = 0; turn < 4; turn++) {
        const kin_select_type dtype = turn % 2 != 0 ? KIN_SELECT_BF16 : KIN_SELECT_F16;
        const bool largest = turn / 2 != 0;
        const kin_run run = {.values = (const char *)patterns,
                             .count = PATTERNS,
                             .dtype = dtype,
                             .largest = largest};
        kin_select_load64(&run, 0, PATTERNS, words);
        for (int i = 0; i < PATTERNS; i++) {
            uint16_t back = 0;
            kin_word64_value(words[i], dtype, largest, &back, 0);
            const double value = half_value(patterns[i], dtype);
            const uint16_t quiet = dtype == KIN_SELECT_F16 ? 0x7e00 : 0x7fc0;
            const uint16_t wanted = isnan(value) ? quiet : value == 0 ? 0 : patterns[i];
            assert_int_equal(back, wanted);
            assert_int_equal((uint32_t)words[i], i);
        }
        kin_select_sort_words(words, PATTERNS);
        for (int i = 1; i < PATTERNS; i++) {
            const double x = half_value((uint16_t)words[i - 1], dtype);
            const double y = half_value((uint16_t)words[i], dtype);
            assert_true(ordered_alike(words[i - 1] >> 32, words[i] >> 32, x, y, largest));
        }
    }
    (void)printf("keys of all float16 and bfloat16: in the order of the values, and back\n");
}

static float f32_of(uint32_t bits)
{
    float f32;
    memcpy(&f32, &bits, sizeof f32);
    return f32;
}

static double f64_of(uint64_t bits)
{
    double f64;
    memcpy(&f64, &bits, sizeof f64);
    return f64;
}

static void keys_of_floats(void **state)
{
    (void)state;
    enum { PAIRS = 1000000 };
    const uint32_t special[] = {0,          0x80000000u, 1,           0x80000001u, 0x7fffffu,
                                0x800000u,  0x3f800000u, 0xbf800000u, 0x7f7fffffu, 0xff7fffffu,
                                0x7f800000, 0xff800000u, 0x7f800001u, 0x7fc00000u, 0xffffffffu};
    const int specials = (int)(sizeof special / sizeof special[0]);
    uint64_t seed = 5;
    for (int i = 0; i < PAIRS; i++) {
        const bool largest = i % 2 != 0;
        uint32_t a = (uint32_t)kin_random_next(&seed);
        uint32_t b = i % 3 != 0 ? (uint32_t)kin_random_next(&seed) : a + (uint32_t)(i % 5) - 2;
        if (i < 2 * specials * specials) {
            a = special[i / 2 % specials];
            b = special[i / 2 / specials];
        }
        assert_true(ordered_alike(kin_key32(a, largest), kin_key32(b, largest), (double)f32_of(a),
                                  (double)f32_of(b), largest));
        const uint32_t back = kin_key32_bits(kin_key32(a, largest), largest);
        assert_int_equal(back, isnan(f32_of(a)) ? 0x7fc00000u : a == 0x80000000u ? 0 : a);

        /* The same bits higher up, with others behind them. */
        const uint64_t tail = kin_random_next(&seed) >> (i % 2 != 0 ? 32 : 63);
        const uint64_t wide_a =
            i < 2 * specials * specials ? (uint64_t)a << 32 : tail ^ kin_random_next(&seed);
        const uint64_t wide_b = i % 3 == 0 ? wide_a + tail : (uint64_t)b << 32 | tail;
        assert_true(ordered_alike(kin_key64(wide_a, largest), kin_key64(wide_b, largest),
                                  f64_of(wide_a), f64_of(wide_b), largest));
        const uint64_t wanted = isnan(f64_of(wide_a)) ? 0x7ff8000000000000u
                                : f64_of(wide_a) == 0 ? 0
                                                      : wide_a;
        uint64_t back64 = 0;
        kin_word128_value(kin_word128_make(kin_key64(wide_a, largest), 7), largest, &back64, 0);
        assert_true(back64 == wanted);
    }
    (void)printf("keys of %d pairs of float32 and float64: in the order of the values, and back\n",
                 PAIRS);
}

/* One of the values, which at least k do not exceed; of equal ones and infinities, too. */
static void bounds(void **state)
{
    (void)state;
    enum { ROUNDS = 20000, MOST = 300 };
    double values[MOST];
    uint64_t seed = 5;
    double kept = 0.0;
    for (int round = 0; round < ROUNDS; round++) {
        const int64_t count = KIN_SELECT_BOUND_MOST +
                              (int64_t)kin_random_below(&seed, MOST - KIN_SELECT_BOUND_MOST + 1);
        const int64_t k = 1 + (int64_t)kin_random_below(&seed, KIN_SELECT_BOUND_MOST);
        const uint64_t different = round % 3 == 0 ? 5 : (uint64_t)1 << 40;
        int64_t within = 0;
        bool there = false;
        for (int64_t i = 0; i < count; i++) {
            const double number = (double)kin_random_below(&seed, different) - 2.0;
            values[i] = number > 0x1p39 && round % 5 == 0 ? (double)INFINITY : number;
        }
        const double bound = kin_select_bound(values, count, k);
        for (int64_t i = 0; i < count; i++) {
            within += values[i] <= bound;
            there = there || values[i] == bound;
        }
        assert_true(there && within >= k);
        kept += (double)within / (double)count;
    }
    (void)printf("%d bounds: right, and %.0f %% of the values are within\n", ROUNDS,
                 100.0 * kept / ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_halves),
        cmocka_unit_test(keys_of_floats),
        cmocka_unit_test(bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
