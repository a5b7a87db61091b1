/* SPDX-License-Identifier: Apache-2.0
 * Names, aliases and properties of metrics, dtypes and levels of instructions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/host_cpu.h"
#include "metric/metric.h"
#include "metric/metric_canonical.h"
#include "support/support_rows.h"

#include <stdio.h>

static void names_round_trip(void **state)
{
    (void)state;
    for (int metric = KITH_EUCLIDEAN; metric <= KITH_METRIC_LAST; metric++) {
        const char *name = kith_metric_name((kith_metric)metric);
        if (metric == KITH_MINKOWSKI) {
            continue; /* its powers are metrics (below) */
        }
        assert_int_equal(kith_metric_parse(name), metric);
        assert_true(kin_metric_is(metric));
    }
    assert_false(kin_metric_is(KITH_METRIC_DEFAULT));
    assert_false(kin_metric_is(KITH_METRIC_LAST + 1));
    assert_string_equal(kith_metric_name(KITH_METRIC_DEFAULT), "euclidean");
    assert_string_equal(kith_metric_name((kith_metric)(KITH_METRIC_LAST + 1)), "unknown");
    assert_string_equal(kith_metric_name((kith_metric)-1), "unknown");
    printf("each metric's name is parsed as that metric\n");
}

static void aliases_are_known(void **state)
{
    (void)state;
    assert_int_equal(kith_metric_parse("l2"), KITH_EUCLIDEAN);
    assert_int_equal(kith_metric_parse("ip"), KITH_INNER_PRODUCT);
    assert_int_equal(kith_metric_parse("dot"), KITH_INNER_PRODUCT);
    assert_int_equal(kith_metric_parse("pearson"), KITH_CORRELATION);
    assert_int_equal(kith_metric_parse("l1"), KITH_MANHATTAN);
    assert_int_equal(kith_metric_parse("cityblock"), KITH_MANHATTAN);
    assert_int_equal(kith_metric_parse("linf"), KITH_CHEBYSHEV);
    assert_int_equal(kith_metric_parse("minkowski:1"), KITH_MANHATTAN);
    assert_int_equal(kith_metric_parse("minkowski:2"), KITH_EUCLIDEAN);
    assert_int_equal(kith_metric_parse("minkowski:inf"), KITH_CHEBYSHEV);
    assert_int_equal(kith_metric_parse("cos"), KITH_COSINE);
    assert_int_equal(kith_metric_parse("bitwise_hamming"), KITH_BIT_HAMMING);
    assert_int_equal(kith_metric_parse("Bit_Jaccard"), KITH_BIT_JACCARD);
    assert_int_equal(kith_metric_parse("great_circle"), KITH_HAVERSINE);
    assert_int_equal(kith_metric_parse("L2"), KITH_EUCLIDEAN);
    assert_int_equal(kith_metric_parse("Cosine"), KITH_COSINE);
    assert_int_equal(kith_metric_parse("INNER_PRODUCT"), KITH_INNER_PRODUCT);
    assert_int_equal(kith_metric_parse("IP"), KITH_INNER_PRODUCT);
    const char *strangers[] = {"",           "L3",          "euclid",       "euclidean ",
                               "euclidean2", "cosin",       "L2\xc3\xa9",   "minkowski:3p",
                               "default",    " ",           "minkowski:1 ", "l2 minkowski:2",
                               "minkowski",  "l1 cityblock"};
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
        assert_int_equal(kith_metric_parse(strangers[i]), KITH_METRIC_DEFAULT);
    }
    assert_int_equal(kith_metric_parse(NULL), KITH_METRIC_DEFAULT);
    printf("aliases are parsed in small letters and capitals, strangers are not\n");
}

static void powers_are_metrics(void **state)
{
    (void)state;
    const struct {
        const char *name;
        double p;
    } powers[] = {{"minkowski:3", 3},           {"minkowski:2.5", 2.5},
                  {"minkowski:1.0001", 1.0001}, {"minkowski:1.1", 1.1},
                  {"minkowski:10", 10},         {"minkowski:100.05", 100.05},
                  {"minkowski:2.9999", 2.9999}, {"minkowski:3355.4431", 3355.4431}};
    for (size_t i = 0; i < sizeof powers / sizeof *powers; i++) {
        const kith_metric metric = kith_minkowski(powers[i].p);
        assert_true(kin_metric_is(metric));
        assert_string_equal(kith_metric_name(metric), powers[i].name);
        assert_int_equal(kith_metric_parse(powers[i].name), metric);
        assert_true(kin_power_of(metric).p == powers[i].p);
        assert_int_equal(kin_metric_base(metric), KITH_MINKOWSKI);
    }
    assert_int_equal(kin_power_of(kith_minkowski(16)).times, 16);
    assert_int_equal(kin_power_of(kith_minkowski(17)).times, 0);
    assert_int_equal(kin_power_of(kith_minkowski(2.5)).times, 0);
    assert_int_equal(kith_metric_parse("MINKOWSKI:2.50"), kith_minkowski(2.5));
    assert_int_equal(kith_metric_parse("minkowski:2.0"), KITH_EUCLIDEAN);
    assert_int_equal(kith_minkowski(1), KITH_MANHATTAN);
    assert_int_equal(kith_minkowski(2), KITH_EUCLIDEAN);
    assert_int_equal(kith_minkowski((double)INFINITY), KITH_CHEBYSHEV);
    const double none[] = {0.5,     0,           -1,        -3,  (double)NAN, -(double)INFINITY,
                           1.00001, 1.0 / 3 + 1, 3355.4432, 1e6, 1e300};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_int_equal(kith_minkowski(none[i]), KITH_MINKOWSKI);
    }
    const char *strangers[] = {
        "minkowski:",          "minkowski:0.5", "minkowski:nan",
        "minkowski:-3",        "minkowski:3.",  "minkowski:.5",
        "minkowski:1e1",       "minkowski:3 ",  "minkowski:1.00001",
        "minkowski:3355.4432", "minkowski3",    "minkowski:99999999999999999999",
        "minkowskj:3",         "minkowski:3,5"};
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        assert_int_equal(kith_metric_parse(strangers[i]), KITH_METRIC_DEFAULT);
    }
    assert_false(kin_metric_is(KITH_MINKOWSKI));
    assert_false(kin_metric_is(KITH_KL + KITH_POWER_FIRST * 3 * KITH_POWER_STEPS));
    assert_false(kin_metric_is(KITH_MINKOWSKI + KITH_POWER_FIRST));
    assert_string_equal(kith_metric_name(KITH_MINKOWSKI), "minkowski");
    const char *both[] = {kith_metric_name(TEST_MINKOWSKI_3), kith_metric_name(TEST_MINKOWSKI_2_5)};
    assert_string_equal(both[0], "minkowski:3");
    assert_string_equal(both[1], "minkowski:2.5");
    printf("each power is a metric with a name; what is no power is none\n");
}

static void traits_hold(void **state)
{
    (void)state;
    for (int metric = KITH_EUCLIDEAN; metric <= KITH_METRIC_LAST; metric++) {
        const kin_metric_traits *t = kin_metric_get_traits((kith_metric)metric);
        const bool angle = metric == KITH_COSINE || metric == KITH_CORRELATION;
        const bool distance = metric == KITH_EUCLIDEAN || metric == KITH_SQEUCLIDEAN || angle;
        assert_int_equal(t->transforms, angle);
        assert_true(t->key_scale == (angle ? 0.5 : 1.0));
        assert_int_equal(t->symmetric, metric != KITH_KL && metric != KITH_CUSTOM);
        assert_int_equal(t->nonnegative, metric == KITH_CHI2 || metric == KITH_KL);
        assert_int_equal(t->below_zero, metric == KITH_INNER_PRODUCT || metric == KITH_KL ||
                                            metric == KITH_CUSTOM);
        const bool bits = metric == KITH_BIT_HAMMING || metric == KITH_BIT_JACCARD;
        assert_int_equal(t->dtype, bits ? KITH_U8 : KITH_DTYPE_NONE);
        assert_int_equal(t->cols, metric == KITH_HAVERSINE ? 2 : 0);
        assert_int_equal(t->screen, distance                       ? KIN_SCREEN_DISTANCE
                                    : metric == KITH_INNER_PRODUCT ? KIN_SCREEN_PRODUCT
                                                                   : KIN_SCREEN_DIRECT);
    }
    printf("what engines may do with each metric is as numerics.md says\n");
}

static void dtypes(void **state)
{
    (void)state;
    const char *names[] = {"unknown",  "float32", "float64", "float16",
                           "bfloat16", "uint8",   "int8",    "unknown"};
    const int32_t bytes[] = {0, 4, 8, 2, 2, 1, 1, 0};
    for (int dtype = 0; dtype < 8; dtype++) {
        assert_string_equal(kith_dtype_name((kith_dtype)dtype), names[dtype]);
        assert_int_equal(kith_dtype_bytes((kith_dtype)dtype), bytes[dtype]);
    }
    printf("dtypes have their names and sizes\n");
}

static void bodies_are_picked(void **state)
{
    static const int portable, avx2, vnni, avx512, amx, neon, i8mm;
    const void *const some[KIN_ISA_COUNT] = {[KIN_ISA_PORTABLE] = &portable,
                                             [KIN_ISA_AVX2] = &avx2,
                                             [KIN_ISA_AVX512] = &avx512,
                                             [KIN_ISA_NEON] = &neon};
    const void *const more[KIN_ISA_COUNT] = {[KIN_ISA_PORTABLE] = &portable,
                                             [KIN_ISA_AVX2VNNI] = &vnni,
                                             [KIN_ISA_AMX] = &amx,
                                             [KIN_ISA_I8MM] = &i8mm};
    const void *const one[KIN_ISA_COUNT] = {[KIN_ISA_PORTABLE] = &portable};
    const void *const picked[KIN_ISA_COUNT][2] = {[KIN_ISA_PORTABLE] = {&portable, &portable},
                                                  [KIN_ISA_AVX2] = {&avx2, &portable},
                                                  [KIN_ISA_AVX2VNNI] = {&avx2, &vnni},
                                                  [KIN_ISA_AVX512] = {&avx512, &portable},
                                                  [KIN_ISA_AVX512VNNI] = {&avx512, &portable},
                                                  [KIN_ISA_AMX] = {&avx512, &amx},
                                                  [KIN_ISA_NEON] = {&neon, &portable},
                                                  [KIN_ISA_DOTPROD] = {&neon, &portable},
                                                  [KIN_ISA_I8MM] = {&neon, &i8mm}};
    (void)state;
    for (int isa = 0; isa < KIN_ISA_COUNT; isa++) {
        kin_isa parsed = KIN_ISA_COUNT;
        assert_true(kin_isa_parse(kin_isa_name((kin_isa)isa), &parsed));
        assert_int_equal(parsed, isa);
        if (picked[isa][0] != NULL) { /* what a level is made of was decided here, not by its row */
            assert_ptr_equal(kin_isa_pick((kin_isa)isa, some), picked[isa][0]);
            assert_ptr_equal(kin_isa_pick((kin_isa)isa, more), picked[isa][1]);
        }
        assert_true(kin_isa_includes((kin_isa)isa, KIN_ISA_PORTABLE));
        assert_true(kin_isa_includes((kin_isa)isa, (kin_isa)isa));
        assert_ptr_equal(kin_isa_pick((kin_isa)isa, one), &portable);
    }
    printf("each level takes the widest body that is part of it\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_round_trip), cmocka_unit_test(aliases_are_known),
        cmocka_unit_test(traits_hold),      cmocka_unit_test(powers_are_metrics),
        cmocka_unit_test(dtypes),           cmocka_unit_test(bodies_are_picked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
