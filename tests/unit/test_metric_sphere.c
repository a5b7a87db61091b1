/* SPDX-License-Identifier: Apache-2.0
 * kith's haversine against the C library's long double functions, and what keys and distances
 * promise of each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "metric/metric_canonical.h"
#include "support/support_rows.h"

#include <stdio.h>

static const long double PI = 3.14159265358979323846264338327950288L;

static double ulps(double found, long double right)
{
    const double size = fabs(found);
    const double ulp = nextafter(size, (double)INFINITY) - size;
    return (double)(fabsl((long double)found - right) / (long double)ulp);
}

static double largest(double a, double b)
{
    return b > a ? b : a;
}

static double key_of(double lat_q, double lon_q, double lat_c, double lon_c)
{
    return kin_haversine_sum(kin_half_sine_squared(kin_sub(lat_c, lat_q)),
                             kin_half_sine_squared(kin_sub(lon_c, lon_q)), kin_cosine(lat_q),
                             kin_cosine(lat_c));
}

static long double true_key(double lat_q, double lon_q, double lat_c, double lon_c)
{
    const long double lat = sinl(((long double)lat_c - lat_q) / 2);
    const long double lon = sinl(((long double)lon_c - lon_q) / 2);
    return lat * lat + cosl(lat_q) * cosl(lat_c) * lon * lon;
}

static void sines_are_close(void **state)
{
    (void)state;
    double sine = 0;
    double cosine = 0;
    double far = 0;
    uint64_t seed = 41;
    for (int i = 0; i < 300000; i++) {
        double n;
        const double x = (test_uniform(&seed) - 0.5) * 3.1415926535897931;
        const double small = x * ldexp(1, -(i % 60));
        sine = largest(sine, ulps(kin_sine_of(x, 0, &n), sinl(x)));
        sine = largest(sine, ulps(kin_sine_of(small, 0, &n), sinl(small)));
        cosine = largest(cosine, ulps(kin_cosine(x), cosl(x)));
        cosine = largest(cosine, ulps(kin_cosine(1.5707963267948966 - small),
                                      cosl((long double)(1.5707963267948966 - small))));
        const double much = (test_uniform(&seed) - 0.5) * KIN_MOST_RADIANS * 2;
        far = largest(far, fabs(kin_cosine(much) - (double)cosl(much)) * 0x1p53);
    }
    assert_true(kin_cosine(0.0) == 1.0 && kin_half_sine_squared(0.0) == 0.0);
    printf("sines of |x| <= pi/2: %.3f ulp at most; cosines: %.3f; of |x| <= 2^20: %.3f * 2^-53\n",
           sine, cosine, far);
    assert_true(sine < 2.0 && cosine < 2.0 && far < 3.0);
}

/* Pairs of all distances: anywhere, close together, near the poles, near the other side. */
static void keys_are_close(void **state)
{
    (void)state;
    double relative = 0;
    double absolute = 0;
    uint64_t seed = 42;
    for (int i = 0; i < 400000; i++) {
        const double near = ldexp(1, -(i % 48));
        const double lat_q = (test_uniform(&seed) - 0.5) * 3.1415926535897931;
        const double lon_q = (test_uniform(&seed) - 0.5) * 3.1415926535897931;
        double lat_c = lat_q + (test_uniform(&seed) - 0.5) * near;
        double lon_c = lon_q + (test_uniform(&seed) - 0.5) * near * 2;
        lat_c = fmin(fmax(lat_c, -1.5707963267948966), 1.5707963267948966);
        const double key = key_of(lat_q, lon_q, lat_c, lon_c);
        const long double right = true_key(lat_q, lon_q, lat_c, lon_c);
        assert_true(key == key_of(lat_c, lon_c, lat_q, lon_q));
        assert_true(key >= 0 && key <= 1);
        relative = largest(relative, ulps(key, right));
        const double lon_far = lon_q < 0 ? lon_q + 3.1415926535897931 : lon_q - 3.1415926535897931;
        const double other = key_of(lat_q, lon_q * 2, -lat_q, lon_far * 2);
        const long double there = true_key(lat_q, lon_q * 2, -lat_q, lon_far * 2);
        absolute = largest(absolute, (double)fabsl(other - there) * 0x1p53);
    }
    assert_true(key_of(0.3, 0.7, 0.3, 0.7) == 0.0);
    printf("keys of 400,000 pairs, |lon' - lon| <= pi: %.3f ulp at most; around the date line: "
           "%.3f * 2^-53\n",
           relative, absolute);
    assert_true(relative < 8.0 && absolute < 8.0);
}

static void angles_are_close(void **state)
{
    (void)state;
    double worst = 0;
    uint64_t seed = 43;
    for (int i = 0; i < 400000; i++) {
        const double u = test_uniform(&seed);
        const double h = i % 2 == 0 ? u : u * ldexp(1, -(i % 900));
        worst = largest(worst, ulps(kin_haversine_angle(h), 2 * asinl(sqrtl(h))));
        const double end = 1 - ldexp(u, -(i % 53));
        const long double beside = sqrtl(1 - (long double)end);
        worst = largest(worst, ulps(kin_haversine_angle(end), PI - 2 * asinl(beside)));
    }
    assert_true(kin_haversine_angle(0.0) == 0.0 && !signbit(kin_haversine_angle(0.0)));
    assert_true(kin_haversine_angle(1.0) == (double)PI);
    assert_true(kin_haversine_angle(0.25) == KIN_ANGLE_OF_QUARTER);
    printf("angles of 800,000 keys: %.3f ulp at most\n", worst);
    assert_true(worst < 3.0);
}

static void angles_never_fall(void **state)
{
    (void)state;
    const double starts[] = {0x1p-1000, 1e-12, 0.001, 0.0625, 0.2499, 0.25, 0.3, 0.5, 0.75, 0.99};
    int64_t steps = 0;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        double h = starts[i];
        for (int back = 0; back < 10000; back++) {
            h = nextafter(h, 0);
        }
        double before = kin_haversine_angle(h);
        for (int step = 0; step < 40000; step++) {
            h = nextafter(h, 1);
            const double here = kin_haversine_angle(h);
            assert_true(here >= before);
            before = here;
            steps += 1;
        }
    }
    double before = 0;
    for (int i = 0; i <= 1000000; i++) {
        const double here = kin_haversine_angle(i / 1e6);
        assert_true(here >= before);
        before = here;
    }
    printf("along %lld neighbouring keys, those around 1/4 among them, and a million others the "
           "angle never falls\n",
           (long long)steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sines_are_close),
        cmocka_unit_test(keys_are_close),
        cmocka_unit_test(angles_are_close),
        cmocka_unit_test(angles_never_fall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
