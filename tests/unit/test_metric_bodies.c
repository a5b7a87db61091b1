/* SPDX-License-Identifier: Apache-2.0
 * Every body of metric/ that this processor runs gives the bits of the oracle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/host_cpu.h"
#include "host/host_threads.h"
#include "oracle/plain_knn.h"
#include "support/support_keys.h"
#include "support/support_mode.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 11, QUERIES = 2 };

static const kith_metric metrics[] = {
    KITH_EUCLIDEAN,     KITH_SQEUCLIDEAN, KITH_INNER_PRODUCT, KITH_COSINE,
    KITH_CORRELATION,   KITH_KL,          KITH_MANHATTAN,     KITH_CHEBYSHEV,
    KITH_CHI2,          KITH_HAMMING,     KITH_JACCARD,       TEST_MINKOWSKI_3,
    TEST_MINKOWSKI_2_5, KITH_BIT_HAMMING, KITH_BIT_JACCARD,   KITH_HAVERSINE,
};
enum { METRICS = sizeof metrics / sizeof metrics[0] };

static const int32_t dims[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,  13,  14,  15,  16,
                               17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28,  29,  30,  31,  32,
                               33, 34, 35, 36, 37, 38, 39, 40, 63, 64, 65, 100, 127, 128, 129, 784};
enum { DIMS = sizeof dims / sizeof dims[0] };

typedef struct scales {
    double scale[4];
} scales;

/* What a dtype can hold: subnormals of its own at one end, values near its end at the other. */
static scales scales_of(kith_dtype dtype)
{
    switch (dtype) {
    case KITH_F16:
        return (scales){{2e-7, 1e-4, 1, 6e4}};
    case KITH_U8:
        return (scales){{1, 2, 20, 255}};
    case KITH_I8:
        return (scales){{1, 2, 20, 127}};
    default:
        return (scales){{1e-40, 1e-22, 1, 1e15}};
    }
}

static test_rows random_rows(kith_dtype dtype, int64_t rows, int32_t cols, kith_metric metric,
                             double scale, uint64_t *seed)
{
    test_rows made = test_rows_make(dtype, rows, cols, cols % 3);
    test_rows_fill(&made, scale, dtype == KITH_U8 || kin_metric_get_traits(metric)->nonnegative,
                   seed);
    return made;
}

/* Beside random rows: a copy of each query where types allow it, a near copy, a row of zeros and
 * a constant row. */
static void plant(const test_rows *corpus, const test_rows *queries, double scale)
{
    if (corpus->matrix.dtype == queries->matrix.dtype) {
        test_rows_copy(corpus, 1, queries, 0);
        test_rows_copy(corpus, 6, queries, 1);
        test_rows_copy(corpus, 2, queries, 0);
        test_rows_set(corpus, 2, corpus->matrix.cols - 1, scale);
    }
    for (int32_t col = 0; col < corpus->matrix.cols; col++) {
        test_rows_set(corpus, 4, col, 0);
        test_rows_set(corpus, 9, col, scale);
    }
}

static int64_t differing(const double *keys, const double *right, int64_t count)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; i++) {
        wrong += memcmp(&keys[i], &right[i], sizeof keys[i]) != 0;
    }
    return wrong;
}

static void compare(kith_ctx **ctx, int bodies, kith_metric metric, const test_rows *queries,
                    const test_rows *corpus)
{
    double right[ROWS];
    double keys[ROWS];
    uint32_t ids[ROWS];
    const int64_t rows = corpus->matrix.rows;
    for (int64_t q = 0; q < queries->matrix.rows; q++) {
        oracle_keys(metric, &queries->matrix, q, &corpus->matrix, right);
        for (int64_t i = 0; i < rows; i++) {
            ids[i] = (uint32_t)((i * 7 + 3) % rows);
            assert_true(right[i] == right[i]); /* not NaN */
        }
        for (int b = 0; b < bodies; b++) {
            test_keys(ctx[b], metric, &queries->matrix, q, &corpus->matrix, NULL, 0, keys);
            const int64_t wrong = differing(keys, right, rows);
            if (wrong != 0) {
                print_error("%s, %s x %s, d = %" PRId32 ", %s: %" PRId64 " keys differ\n",
                            kith_metric_name(metric), kith_dtype_name(queries->matrix.dtype),
                            kith_dtype_name(corpus->matrix.dtype), corpus->matrix.cols,
                            kith_ctx_get_params(ctx[b])->isa, wrong);
            }
            assert_int_equal(wrong, 0);
            test_keys(ctx[b], metric, &queries->matrix, q, &corpus->matrix, ids, rows, keys);
            for (int64_t i = 0; i < rows; i++) {
                assert_memory_equal(&keys[i], &right[ids[i]], sizeof keys[i]);
            }
        }
    }
}

/* Whether a metric takes rows like these. */
static bool takes(kith_metric metric, kith_dtype dtype, int32_t cols)
{
    const kin_metric_traits *traits = kin_metric_get_traits(metric);
    return (traits->dtype == KITH_DTYPE_NONE || traits->dtype == dtype) &&
           (traits->cols == 0 || traits->cols == cols);
}

static int open_bodies(kith_ctx *ctx[KIN_ISA_COUNT])
{
    kin_isa isas[KIN_ISA_COUNT];
    const int bodies = test_bodies(isas);
    for (int b = 0; b < bodies; b++) {
        ctx[b] = test_ctx(isas[b], 1);
    }
    return bodies;
}

static void close_bodies(kith_ctx **ctx, int bodies)
{
    for (int b = 0; b < bodies; b++) {
        kith_ctx_free(ctx[b]);
    }
}

static void compare_case(kith_ctx **ctx, int bodies, kith_metric metric, kith_dtype query_type,
                         kith_dtype corpus_type, int32_t cols, uint64_t *seed)
{
    if (!takes(metric, query_type, cols) || !takes(metric, corpus_type, cols)) {
        return;
    }
    const scales query_scales = scales_of(query_type);
    const scales corpus_scales = scales_of(corpus_type);
    for (int s = 0; s < 4; s++) {
        test_rows queries =
            random_rows(query_type, QUERIES, cols, metric, query_scales.scale[s], seed);
        test_rows corpus =
            random_rows(corpus_type, ROWS, cols, metric, corpus_scales.scale[s], seed);
        plant(&corpus, &queries, corpus_scales.scale[s]);
        compare(ctx, bodies, metric, &queries, &corpus);
        test_rows_free(&queries);
        test_rows_free(&corpus);
    }
}

static void bodies_equal_oracle(void **state)
{
    (void)state;
    if (test_is_thread_build()) {
        skip(); /* one thread alone */
    }
    kith_ctx *ctx[KIN_ISA_COUNT];
    const int bodies = open_bodies(ctx);
    uint64_t seed = 1;
    for (int m = 0; m < METRICS; m++) {
        for (int dtype = KITH_F32; dtype <= KITH_I8; dtype++) {
            for (int i = 0; i < DIMS; i++) {
                compare_case(ctx, bodies, metrics[m], (kith_dtype)dtype, (kith_dtype)dtype, dims[i],
                             &seed);
            }
            const kith_dtype other = (kith_dtype)(dtype % KITH_I8 + 1);
            compare_case(ctx, bodies, metrics[m], other, (kith_dtype)dtype,
                         metrics[m] == KITH_HAVERSINE ? 2 : 13, &seed);
        }
    }
    printf("%d bodies, 16 metrics, 6 dtypes, d = 1 .. 784, 4 scales: keys equal the oracle's, byte "
           "for byte; no byte outside a row is read\n",
           bodies);
    close_bodies(ctx, bodies);
}

static void widest_rows_equal_oracle(void **state)
{
    (void)state;
    if (test_is_thread_build()) {
        skip(); /* one thread alone */
    }
    kith_ctx *ctx[KIN_ISA_COUNT];
    const int bodies = open_bodies(ctx);
    uint64_t seed = 2;
    for (int m = 0; m < METRICS; m++) {
        const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_U8};
        const bool bits = kin_metric_get_traits(metrics[m])->dtype == KITH_U8;
        const kith_dtype dtype = bits ? KITH_U8 : dtypes[m % 3];
        if (metrics[m] == KITH_HAVERSINE) {
            continue; /* two columns */
        }
        const double scale = dtype == KITH_U8 ? 255 : 1e15;
        test_rows queries = random_rows(dtype, 1, 1 << 20, metrics[m], scale, &seed);
        test_rows corpus = random_rows(dtype, 2, 1 << 20, metrics[m], scale, &seed);
        compare(ctx, bodies, metrics[m], &queries, &corpus);
        test_rows_free(&queries);
        test_rows_free(&corpus);
    }
    printf("d = 2^20: keys of all bodies equal the oracle's\n");
    close_bodies(ctx, bodies);
}

/* ---- The floating-point mode of the caller -------------------------------------------------- */

typedef struct mode_job {
    kith_ctx *ctx;
    kith_metric metric;
    const test_rows *rows;
    double *keys; /* rows x rows */
} mode_job;

static kith_status keys_of_one_query(void *arg, int64_t query, int32_t thread)
{
    (void)thread;
    const mode_job *job = arg;
    const int64_t n = job->rows->matrix.rows;
    kith_ctx *alone = test_ctx(job->ctx->isa, 1);
    test_keys(alone, job->metric, &job->rows->matrix, query, &job->rows->matrix, NULL, 0,
              job->keys + query * n);
    kith_ctx_free(alone);
    return KITH_OK;
}

static void caller_mode_does_not_matter(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int m = 0; m < METRICS; m++) {
        if (!takes(metrics[m], KITH_F32, 21)) {
            continue;
        }
        test_rows rows = random_rows(KITH_F32, ROWS, 21, metrics[m], 1e-40, &seed);
        double right[ROWS * ROWS];
        double keys[ROWS * ROWS];
        for (int64_t i = 0; i < ROWS; i++) {
            oracle_keys(metrics[m], &rows.matrix, i, &rows.matrix, right + i * ROWS);
        }
        for (int mode = 0; mode < TEST_MODES; mode++) {
            kith_ctx *ctx = test_ctx(kin_cpu_best(), 4);
            mode_job job = {ctx, metrics[m], &rows, keys};
            const kin_fpenv before = kin_fpenv_enter();
            kin_fpenv_leave(test_modes[mode]);
            const kith_status status = kin_parallel(ctx, NULL, ROWS, keys_of_one_query, &job);
            const kin_fpenv after = kin_fpenv_enter();
            kin_fpenv_leave(before);
            assert_int_equal(status, KITH_OK);
            assert_int_equal(after & ~(kin_fpenv)TEST_MODE_FLAGS, test_modes[mode]);
            assert_int_equal(differing(keys, right, ROWS * ROWS), 0);
            kith_ctx_free(ctx);
        }
        test_rows_free(&rows);
    }
    printf("a mode that flushes to zero, then one that rounds up: same bits, and it is put back\n");
}

static void selftest_passes(void **state)
{
    (void)state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 1);
    assert_int_equal(kin_metric_selftest(ctx), KITH_OK);
    assert_int_equal(kin_metric_selftest(ctx), KITH_OK);
    kith_ctx_free(ctx);
    printf("the self-test passes on this build\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(selftest_passes),
        cmocka_unit_test(bodies_equal_oracle),
        cmocka_unit_test(widest_rows_equal_oracle),
        cmocka_unit_test(caller_mode_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
