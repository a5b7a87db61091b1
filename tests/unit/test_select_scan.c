/* SPDX-License-Identifier: Apache-2.0
 * Scan on the processor, through its driver: every instruction set, type, direction, cut and number
 * of threads gives the bytes that a plain sort gives, whatever the order of the row does to a
 * threshold that comes from a sample. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "select/select.h"
#include "support/support_keys.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum shape {
    UNIFORM = 0,
    ASCENDING,
    DESCENDING,
    CONSTANT,
    FEW,
    ZEROS,
    ENDS,
    SOME_NAN,
    MOST_NAN,
    ALL_NAN,
    LOW_BEATS,  /* what stands at even strides is small: a sample's threshold is too low */
    HIGH_BEATS, /* and large */
    SHAPES
} shape;

static const kin_select_type dtypes[] = {KIN_SELECT_F32, KIN_SELECT_F64, KIN_SELECT_F16,
                                         KIN_SELECT_BF16};
enum { DTYPES = 4, PAD = 24 };

/* ---- Values --------------------------------------------------------------------------------- */

/* Nearly the double, in the type; exact for small multiples of 1/8. */
static void put(kin_select_type dtype, double value, char *to)
{
    const float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    uint16_t half = (uint16_t)(bits >> 16);
    if (dtype == KIN_SELECT_F64) {
        memcpy(to, &value, sizeof value);
    } else if (dtype == KIN_SELECT_F32) {
        memcpy(to, &bits, sizeof bits);
    } else {
        if (dtype == KIN_SELECT_F16) {
            int exponent = 0;
            const double fraction = frexp(isfinite(value) ? fabs(value) : 0.0, &exponent);
            half = (uint16_t)((uint32_t)(exponent + 14) << 10 |
                              ((uint32_t)(int32_t)(fraction * 2048.0) & 1023u));
            half = exponent < -13 || value == 0.0 ? (uint16_t)(fabs(value) * 0x1p24) : half;
            half = fabs(value) > 65000.0 ? 0x7c00 : half;
            half = isnan(value) ? 0x7e01 : half;
            half |= signbit(value) ? 0x8000 : 0;
        } else if (isnan(value)) {
            half = 0xffc1;
        }
        memcpy(to, &half, sizeof half);
    }
}

static double get(kin_select_type dtype, const char *from)
{
    double value = 0.0;
    float single = 0.0F;
    uint16_t half = 0;
    if (dtype == KIN_SELECT_F64) {
        memcpy(&value, from, sizeof value);
        return value;
    }
    if (dtype == KIN_SELECT_F32) {
        memcpy(&single, from, sizeof single);
        return (double)single;
    }
    memcpy(&half, from, sizeof half);
    const int bits = dtype == KIN_SELECT_F16 ? 10 : 7;
    const int exponents = dtype == KIN_SELECT_F16 ? 31 : 255;
    const int exponent = half >> bits & exponents;
    const int fraction = half & ((1 << bits) - 1);
    if (exponent == exponents) {
        value = fraction != 0 ? (double)NAN : INFINITY;
    } else {
        value = ldexp(exponent == 0 ? fraction : fraction + (1 << bits),
                      (exponent == 0 ? 1 : exponent) - exponents / 2 - bits);
    }
    return (half >> 15) != 0 ? -value : value;
}

static double shaped(shape s, int64_t place, int64_t count, uint64_t *seed)
{
    const double random = (double)(kin_random_next(seed) >> 40) * 0x1p-20 - 8.0;
    switch (s) {
    case ASCENDING:
        return (double)place / 64.0 - 100.0;
    case DESCENDING:
        return (double)(count - place) / 64.0 - 100.0;
    case CONSTANT:
        return 1.5;
    case FEW:
        return floor(random / 4.0);
    case ZEROS:
        return random < 0.0 ? -0.0 : 0.0;
    case ENDS:
        return random < -4.0 ? -INFINITY : random > 4.0 ? INFINITY : random * 0x1p-120;
    case SOME_NAN:
        return random < 0.0 ? (double)NAN : random;
    case MOST_NAN:
        return random < 7.9 ? (double)NAN : random;
    case ALL_NAN:
        return (double)NAN;
    case LOW_BEATS:
        return place % 4 == 0 && place % 64 < 16 ? random - 100.0 : random;
    case HIGH_BEATS:
        return place % 64 < 48 ? random + 100.0 : random;
    default:
        return random;
    }
}

/* ---- The plain way -------------------------------------------------------------------------- */

typedef struct item {
    double value;
    uint32_t id;
    bool largest;
} item;

static int in_order(const void *a, const void *b)
{
    const item *x = a;
    const item *y = b;
    if (isnan(x->value) != isnan(y->value)) {
        return isnan(x->value) ? 1 : -1;
    }
    if (!isnan(x->value) && x->value != y->value) {
        return (x->value < y->value) != x->largest ? -1 : 1;
    }
    return (x->id > y->id) - (x->id < y->id);
}

typedef struct rows {
    kin_select_job job;
    char *values;
    uint32_t *ids;
    char *true_values; /* rows x cols, all of each row in order */
    uint32_t *true_ids;
} rows;

static rows rows_make(kin_select_type dtype, shape s, int64_t count, int64_t cols, bool ids,
                      bool largest)
{
    const size_t size = (size_t)kin_select_type_bytes(dtype);
    const size_t places = (size_t)(count * (cols + PAD));
    rows r = {.values = malloc(places * size),
              .ids = malloc(places * sizeof(uint32_t)),
              .true_values = malloc(places * size),
              .true_ids = malloc(places * sizeof(uint32_t))};
    item *items = malloc((size_t)cols * sizeof *items);
    uint64_t seed = (uint64_t)(cols * 131 + (int64_t)s);
    r.job = (kin_select_job){.values = r.values,
                             .ids = ids ? (const char *)r.ids : NULL,
                             .stride_bytes = (cols + PAD) * (int64_t)size,
                             .ids_stride_bytes = (cols + PAD) * (int64_t)sizeof(uint32_t),
                             .rows = count,
                             .cols = cols,
                             .dtype = dtype,
                             .method = kin_select_method_of(KITH_SELECT_SCAN),
                             .largest = largest};
    for (int64_t row = 0; row < count; row++) {
        char *values = r.values + row * r.job.stride_bytes;
        uint32_t *own = r.ids + row * (cols + PAD);
        for (int64_t i = 0; i < cols; i++) {
            put(dtype, shaped(s, i, cols, &seed), values + (size_t)i * size);
            own[i] = (uint32_t)kin_random_below(&seed, (uint64_t)cols);
            items[i] =
                (item){get(dtype, values + (size_t)i * size), ids ? own[i] : (uint32_t)i, largest};
        }
        qsort(items, (size_t)cols, sizeof *items, in_order);
        for (int64_t i = 0; i < cols; i++) {
            char *to = r.true_values + (size_t)(row * cols + i) * size;
            put(dtype, items[i].value == 0.0 ? 0.0 : items[i].value, to);
            if (isnan(items[i].value)) {
                const uint64_t f64 = 0x7ff8000000000000u;
                const uint32_t f32 = 0x7fc00000u;
                const uint16_t half = dtype == KIN_SELECT_F16 ? 0x7e00 : 0x7fc0;
                memcpy(to,
                       size == 8   ? (const void *)&f64
                       : size == 4 ? (const void *)&f32
                                   : &half,
                       size);
            }
            r.true_ids[row * cols + i] = items[i].id;
        }
    }
    free(items);
    return r;
}

static void rows_free(rows *r)
{
    free(r->values);
    free(r->ids);
    free(r->true_values);
    free(r->true_ids);
}

/* ---- Comparing ------------------------------------------------------------------------------ */

static int64_t compared;

static void check_sorted(kith_ctx *ctx, const rows *r, int64_t k)
{
    const size_t size = (size_t)kin_select_type_bytes(r->job.dtype);
    kin_select_job job = r->job;
    char *values = malloc((size_t)(job.rows * k) * size);
    uint32_t *ids = malloc((size_t)(job.rows * k) * sizeof *ids);
    job.k = k;
    job.sorted = true;
    job.out_values = values;
    job.out_ids = ids;
    assert_int_equal(kin_select_host(ctx, &job), KITH_OK);
    for (int64_t row = 0; row < job.rows; row++) {
        assert_memory_equal(values + (size_t)(row * k) * size,
                            r->true_values + (size_t)(row * job.cols) * size, (size_t)k * size);
        assert_memory_equal(ids + row * k, r->true_ids + row * job.cols, (size_t)k * sizeof *ids);
    }
    job.out_values = NULL;
    job.out_ids = NULL;
    job.out_kth = values;
    assert_int_equal(kin_select_host(ctx, &job), KITH_OK);
    for (int64_t row = 0; row < job.rows; row++) {
        assert_memory_equal(values + (size_t)row * size,
                            r->true_values + (size_t)(row * job.cols + k - 1) * size, size);
    }
    free(values);
    free(ids);
    compared += 2 * job.rows;
}

static int by_id(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The same ids, in any order. */
static void check_unsorted(kith_ctx *ctx, const rows *r, int64_t k)
{
    kin_select_job job = r->job;
    uint32_t *ids = malloc((size_t)(job.rows * k) * sizeof *ids);
    uint32_t *wanted = malloc((size_t)k * sizeof *ids);
    job.k = k;
    job.out_ids = ids;
    assert_int_equal(kin_select_host(ctx, &job), KITH_OK);
    for (int64_t row = 0; row < job.rows; row++) {
        memcpy(wanted, r->true_ids + row * job.cols, (size_t)k * sizeof *ids);
        qsort(wanted, (size_t)k, sizeof *ids, by_id);
        qsort(ids + row * k, (size_t)k, sizeof *ids, by_id);
        assert_memory_equal(ids + row * k, wanted, (size_t)k * sizeof *ids);
    }
    free(ids);
    free(wanted);
    compared += job.rows;
}

static void check_shapes(int64_t count, int64_t cols, const int64_t *ks, int32_t threads)
{
    kin_isa isas[KIN_ISA_COUNT];
    const int machines = test_bodies(isas);
    for (int d = 0; d < DTYPES; d++) {
        for (int s = 0; s < SHAPES; s++) {
            const bool one = test_is_slow_build(); /* of the ways, another for the next shape */
            for (int way = one ? (d + s) % 4 : 0; way < 4; way += one ? 4 : 1) {
                rows r = rows_make(dtypes[d], (shape)s, count, cols, way % 2 == 1, way / 2 == 1);
                for (int machine = 0; machine < machines; machine++) {
                    kith_ctx *ctx = test_ctx(isas[machine], threads);
                    for (int i = 0; ks[i] != 0; i++) {
                        check_sorted(ctx, &r, ks[i]);
                    }
                    check_unsorted(ctx, &r, ks[0]);
                    kith_ctx_free(ctx);
                }
                rows_free(&r);
            }
        }
    }
    printf("  %lld x %lld: %lld rows as the plain sort has them\n", (long long)count,
           (long long)cols, (long long)compared);
    compared = 0;
}

static void test_short_rows(void **state)
{
    (void)state;
    check_shapes(3, 1, (const int64_t[]){1, 0}, 1);
    check_shapes(7, 33, (const int64_t[]){1, 5, 32, 33, 0}, 2);
    check_shapes(5, 128, (const int64_t[]){3, 8, 64, 127, 128, 0}, 2);
    check_shapes(5, 1000, (const int64_t[]){1, 10, 62, 150, 300, 999, 1000, 0}, 5);
}

/* Thresholds of all values, of a sample, and without. */
static void test_long_rows(void **state)
{
    (void)state;
    check_shapes(2, 9001, (const int64_t[]){40, 1, 155, 700, 4000, 9000, 0}, 1);
}

/* One row, cut for the threads. */
static void test_cut_rows(void **state)
{
    (void)state;
    check_shapes(1, 140003, (const int64_t[]){17, 9000, 0}, 2);
}

static int stop_at_once(void *arg, const char *phase, double done, double total)
{
    (void)done;
    (void)total;
    *(bool *)arg = strcmp(phase, "select") == 0;
    return 1;
}

static void test_cancel(void **state)
{
    (void)state;
    bool asked = false;
    rows r = rows_make(KIN_SELECT_F32, UNIFORM, 40, 9000, false, false);
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    float kth[40];
    params.threads = 1; /* the caller's thread is the one that asks */
    params.progress = stop_at_once;
    params.progress_arg = &asked;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    r.job.k = 9;
    r.job.out_kth = kth;
    assert_int_equal(kin_select_host(ctx, &r.job), KITH_E_CANCELLED);
    assert_true(asked);
    kith_ctx_free(ctx);
    rows_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_rows),
        cmocka_unit_test(test_long_rows),
        cmocka_unit_test(test_cut_rows),
        cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
