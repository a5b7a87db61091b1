/* SPDX-License-Identifier: Apache-2.0
 * Starts from what is near under a relative, on a device: rows that are made for it, and picked,
 * against plain C, of all types; recall of the start alone and after rounds against the exact
 * engine; the same bytes in two runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"
#include "support/support_device.h"
#include "support/support_gpu.h"
#include "support/support_graph_gpu.h"
#include "support/support_mixture.h"
#include "support/support_shapes.h"
#include "support/support_words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Rows ------------------------------------------------------------------------------------ */

static void told(const char *what, const kith_matrix *m, int64_t row, double got, double want)
{
    test_wrong += 1;
    if (test_wrong <= TEST_MOST_TOLD) {
        printf("  WRONG %s: %lld x %ld %s, row %lld: %.9g, should be %.9g\n", what,
               (long long)m->rows, (long)m->cols, kith_dtype_name(m->dtype), (long long)row, got,
               want);
    }
}

/* What a value becomes in a row of a relative, before the row gets its length, and whether it gets
 * one. */
static double related_value(kin_graph_gpu_relation relation, double value)
{
    switch (relation) {
    case KIN_GRAPH_GPU_ROOTS:
    case KIN_GRAPH_GPU_SHARES:
        return sqrt(value);
    case KIN_GRAPH_GPU_PATTERNS:
        return value != 0.0;
    case KIN_GRAPH_GPU_LOGS:
        return value > 0.0 ? fmax(log(value), -100.0) : -100.0;
    default:
        return value;
    }
}

static bool relation_has_length(kin_graph_gpu_relation relation)
{
    return relation == KIN_GRAPH_GPU_SHARES || relation == KIN_GRAPH_GPU_PATTERNS ||
           relation == KIN_GRAPH_GPU_DIRECTIONS;
}

/* Sums are in another order here: their last bit may differ. */
static void compare_row(const test_device_rows *both, kin_graph_gpu_relation relation, int64_t row,
                        double *values, const float *got, uint64_t length)
{
    const kith_matrix *m = &both->rows.matrix;
    const kin_distance distance = {
        .metric = KITH_MANHATTAN, .cols = m->cols, .isa = KIN_ISA_PORTABLE};
    double sum = 0.0;
    (void)kin_metric_load(&distance, &both->on_host, row, values);
    for (int32_t c = 0; c < m->cols; c++) {
        values[c] = related_value(relation, values[c]);
        sum += values[c] * values[c];
    }
    const double scale = relation_has_length(relation) && sum > 0.0 ? 1.0 / sqrt(sum) : 1.0;
    for (int32_t c = 0; c < m->cols; c++) {
        const double want = scale * values[c];
        if (!(fabs((double)got[c] - want) <= 1e-6 * fabs(want) + 1e-30)) {
            told("related value", m, row, (double)got[c], want);
        }
    }
    const uint32_t want = ~kin_graph_order_of_float((float)sum);
    if ((uint32_t)length - want + 1 > 2) {
        told("length", m, row, (double)(uint32_t)length, (double)want);
    }
}

static void relate_case(kith_dtype dtype, int64_t rows, int32_t cols, int64_t gap)
{
    test_device_rows both = {.rows = test_rows_make(dtype, rows, cols, gap)};
    const uint64_t cells = (uint64_t)(rows * cols);
    float *got = test_host_room(cells * sizeof *got);
    uint64_t *lengths = test_host_room((size_t)rows * sizeof *lengths);
    double *values = aligned_alloc(64, (size_t)(cols + 64) / 8 * 64);
    uint64_t seed = 3 + cells;
    assert_non_null(values);
    test_rows_fill(&both.rows, 100.0, 1, &seed);
    for (int32_t c = 0; c < cols; c++) {
        test_rows_set(&both.rows, rows / 2, c, 0.0);
    }
    test_device_rows_finish(&both, KITH_MANHATTAN);
    for (int relation = KIN_GRAPH_GPU_AS_GIVEN; relation <= KIN_GRAPH_GPU_LOGS; relation++) {
        const kin_graph_gpu_relate job = {.rows = both.on_device,
                                          .relation = (kin_graph_gpu_relation)relation,
                                          .related = test_device_room(cells * sizeof *got),
                                          .lengths =
                                              test_device_room((uint64_t)rows * sizeof *lengths)};
        test_launch(test_graph_gpu_kernels()->relate(test_device->stream, &job), "relate");
        test_download(got, job.related, cells * sizeof *got);
        test_download(lengths, job.lengths, (uint64_t)rows * sizeof *lengths);
        for (int64_t row = 0; row < rows; row++) {
            compare_row(&both, job.relation, row, values, got + row * cols, lengths[row]);
        }
        kin_gpu_free(test_device, job.lengths);
        kin_gpu_free(test_device, job.related);
    }
    free(values);
    free(lengths);
    free(got);
    test_device_rows_free(&both);
}

static void pick_case(int64_t rows, int64_t bytes, int64_t stride, int64_t count)
{
    unsigned char *from = test_host_room((size_t)(rows * stride));
    unsigned char *got = test_host_room((size_t)(count * bytes));
    uint32_t *which = test_host_room((size_t)count * sizeof *which);
    for (int64_t i = 0; i < rows * stride; i++) {
        from[i] = (unsigned char)test_below(256);
    }
    for (int64_t i = 0; i < count; i++) {
        which[i] = (uint32_t)test_below((uint64_t)rows);
    }
    const kin_graph_gpu_pick job = {.from = test_device_copy(from, (uint64_t)(rows * stride)),
                                    .stride_bytes = stride,
                                    .bytes = bytes,
                                    .rows =
                                        test_device_copy(which, (uint64_t)count * sizeof *which),
                                    .count = count,
                                    .to = test_device_room((uint64_t)(count * bytes))};
    test_launch(test_graph_gpu_kernels()->pick(test_device->stream, &job), "pick");
    test_download(got, job.to, (uint64_t)(count * bytes));
    for (int64_t i = 0; i < count; i++) {
        test_wrong += memcmp(got + i * bytes, from + which[i] * stride, (size_t)bytes) != 0;
    }
    kin_gpu_free(test_device, job.to);
    kin_gpu_free(test_device, (void *)(uintptr_t)job.rows);
    kin_gpu_free(test_device, (void *)(uintptr_t)job.from);
    free(which);
    free(got);
    free(from);
}

static void rows(void **state)
{
    (void)state;
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_F16, KITH_BF16, KITH_U8, KITH_I8};
    assert_int_equal(test_device_open(NULL), 0);
    test_wrong = 0;
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        relate_case(dtypes[d], 1, 1, 0);
        relate_case(dtypes[d], 77, 33, 8);
        relate_case(dtypes[d], 3000, 70, 3);
        relate_case(dtypes[d], 50, 700, 0);
    }
    pick_case(1, 1, 1, 1);
    pick_case(5000, 4, 4, 300);
    pick_case(900, 129, 160, 2000);
    printf("rows of relatives, of six types, and rows by number: %d differences\n", test_wrong);
    assert_int_equal(test_wrong, 0);
    assert_int_equal(test_device_close(NULL), 0);
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

typedef struct setting {
    kith_metric metric;
    kith_dtype dtype;
    double alone; /* least recall@10 of the start, and after rounds */
    double least;
} setting;

/* Products: of rows of different length. kl: of shares. jaccard: half of the values are 0. */
static kith_matrix points_of(const setting *set)
{
    const bool product = set->metric == KITH_INNER_PRODUCT;
    const test_mixture mixture = {.dtype = set->dtype,
                                  .rows = test_fewer(20000),
                                  .cols = 40,
                                  .inner = 8,
                                  .clusters = 100,
                                  .spread = 0.5,
                                  .nonnegative = !product,
                                  .seed = 11};
    kith_matrix points = test_mixture_make(&mixture);
    float *data = (float *)(uintptr_t)points.data;
    for (int64_t row = 0; set->dtype == KITH_F32 && row < points.rows; row++) {
        float *values = data + row * points.cols;
        float sum = 0.0F;
        for (int32_t c = 0; c < points.cols; c++) {
            const bool zero = set->metric == KITH_JACCARD && values[c] < 0.7F;
            values[c] = zero ? 0.0F : values[c];
            sum += values[c];
        }
        const float length = 0.5F + (float)(row * 37 % 101) / 101.0F;
        for (int32_t c = 0; c < points.cols; c++) {
            values[c] *= product ? length : set->metric == KITH_KL ? 1.0F / sum : 1.0F;
        }
    }
    return points;
}

static void graphs(void **state)
{
    (void)state;
    static const setting settings[] = {
        {KITH_INNER_PRODUCT, KITH_F32, 0.8, 0.9}, {KITH_INNER_PRODUCT, KITH_U8, 0.8, 0.9},
        {KITH_MANHATTAN, KITH_F32, 0.9, 0.97},    {KITH_MANHATTAN, KITH_U8, 0.9, 0.97},
        {KITH_CHEBYSHEV, KITH_F32, 0.8, 0.95},    {KITH_CHI2, KITH_U8, 0.9, 0.95},
        {KITH_KL, KITH_F32, 0.8, 0.95},           {KITH_KL, KITH_U8, 0.8, 0.95},
        {KITH_JACCARD, KITH_F32, 0.8, 0.95}};
    test_graph_gpu b = test_graph_gpu_make(0);
    int poor = 0;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const setting *set = &settings[i];
        kith_matrix points = points_of(set);
        kin_graph_request request = test_graph_gpu_request(&points, set->metric, 10);
        request.related = 1;
        request.rounds = -1;
        poor += test_graph_gpu_recall(&b, "start of a relative", &points, &request) < set->alone;
        request.rounds = 0;
        poor += test_graph_gpu_recall(&b, "  and rounds", &points, &request) < set->least;
        kin_graph_outcome outcome;
        kith_neighbors first = test_graph_gpu_solve(&b, "first", &points, &request, &outcome);
        kith_neighbors second = test_graph_gpu_solve(&b, "second", &points, &request, &outcome);
        assert_true(test_answers_equal(&first, &second));
        test_answer_free(&second);
        test_answer_free(&first);
        test_mixture_free(&points);
    }
    assert_int_equal(poor, 0);
    printf("relatives' graphs begin descents; the same bytes in two runs\n");
    test_graph_gpu_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows), cmocka_unit_test(graphs)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
