/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_descents.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE = 250 };

kith_ctx *test_descent_ctx(int32_t threads)
{
    kith_ctx_params params = kith_ctx_params_default();
    params.device = "cpu";
    params.threads = threads;
    kith_ctx *ctx = NULL;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}

test_rows test_descent_rows(kith_dtype dtype, int64_t rows, int32_t cols, test_shape shape,
                            bool nonnegative)
{
    uint64_t seed = 5;
    test_rows r = test_rows_make(dtype, rows, cols, 0);
    test_shape_fill(&r, shape, nonnegative, &seed);
    return r;
}

kin_graph_request test_descent_request(const kith_ctx *ctx, const test_rows *rows,
                                       kith_metric metric, int64_t k)
{
    return (kin_graph_request){
        .distance = {.metric = metric,
                     .cols = rows->matrix.cols,
                     .isa = ctx->isa,
                     .custom = metric == KITH_CUSTOM ? test_descent_manhattan : NULL},
        .k = k,
        .seed = 1};
}

double test_descent_manhattan(void *arg, const void *query, const void *point, int32_t cols)
{
    (void)arg;
    const float *a = query;
    const float *b = point;
    double sum = 0.0;
    for (int32_t i = 0; i < cols; i++) {
        sum += fabs((double)a[i] - (double)b[i]);
    }
    return sum;
}

/* ---- Public calls --------------------------------------------------------------------------- */

int test_descent_drop(void **state)
{
    test_descent_fixture *f = *state;
    test_answer_free(&f->out);
    test_answer_free(&f->truth);
    test_rows_free(&f->points);
    kith_ctx_free(f->ctx);
    return 0;
}

kith_descent_params test_descent_params(int64_t k)
{
    kith_descent_params params = kith_descent_params_default();
    params.k = k;
    return params;
}

/* ---- The truth ------------------------------------------------------------------------------ */

test_descent_truth test_descent_truth_make(kith_ctx *ctx, const test_rows *rows,
                                           const kin_graph_request *request)
{
    const int64_t n = rows->matrix.rows;
    test_descent_truth truth = {.count = n < SAMPLE ? n : SAMPLE};
    truth.ids = malloc((size_t)truth.count * sizeof *truth.ids);
    truth.neighbors = test_answer_make(truth.count, request->k);
    test_rows queries = test_rows_make(rows->matrix.dtype, truth.count, rows->matrix.cols, 0);
    assert_non_null(truth.ids);
    for (int64_t i = 0; i < truth.count; i++) {
        truth.ids[i] = (uint32_t)(i * n / truth.count);
        test_rows_copy(&queries, i, rows, truth.ids[i]);
    }
    kith_search_params params = kith_search_params_default();
    params.metric = request->distance.metric;
    params.custom = request->distance.custom;
    params.custom_arg = request->distance.custom_arg;
    params.k = request->k;
    params.exclude = (request->flags & KITH_INCLUDE_SELF) == 0 ? truth.ids : NULL;
    assert_int_equal(
        kith_search(ctx, &rows->matrix, &queries.matrix, &params, &truth.neighbors, NULL), KITH_OK);
    test_rows_free(&queries);
    return truth;
}

void test_descent_truth_free(test_descent_truth *truth)
{
    test_answer_free(&truth->neighbors);
    free(truth->ids);
}

double test_descent_recall(const kith_neighbors *answer, const test_descent_truth *truth,
                           kith_metric metric)
{
    const double sign = metric == KITH_INNER_PRODUCT ? -1.0 : 1.0;
    int64_t hits = 0;
    for (int64_t i = 0; i < truth->count; i++) {
        const double kth = truth->neighbors.distances64[(i + 1) * truth->neighbors.k - 1];
        const double *found = answer->distances64 + truth->ids[i] * answer->k;
        for (int64_t j = 0; j < answer->k; j++) {
            hits += sign * found[j] <= sign * kth;
        }
    }
    return (double)hits / (double)(truth->count * answer->k);
}

/* ---- A graph -------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    const uint32_t *x = a;
    const uint32_t *y = b;
    return (*x > *y) - (*x < *y);
}

static void check_row(const kith_neighbors *answer, int64_t row, bool leaves_out, double sign)
{
    const uint32_t *ids = answer->ids + row * answer->k;
    const double *far = answer->distances64 + row * answer->k;
    uint32_t *sorted = malloc((size_t)answer->k * sizeof *sorted);
    assert_non_null(sorted);
    memcpy(sorted, ids, (size_t)answer->k * sizeof *sorted);
    qsort(sorted, (size_t)answer->k, sizeof *sorted, by_id);
    for (int64_t i = 0; i < answer->k; i++) {
        assert_true(ids[i] < answer->rows);
        assert_true(!leaves_out || ids[i] != row);
        assert_true(i == 0 || sorted[i - 1] != sorted[i]);
        assert_true(i == 0 || sign * far[i - 1] < sign * far[i] ||
                    (far[i - 1] == far[i] && ids[i - 1] < ids[i]));
    }
    free(sorted);
}

kith_neighbors test_descent_solve(kith_ctx *ctx, const test_rows *rows,
                                  const kin_graph_request *request, kin_graph_outcome *outcome)
{
    const double sign = request->distance.metric == KITH_INNER_PRODUCT ? -1.0 : 1.0;
    kith_neighbors answer = test_answer_make(rows->matrix.rows, request->k);
    if (kin_graph_descend(ctx, &rows->matrix, request, &answer, outcome) != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(ctx));
    }
    for (int64_t row = 0; row < answer.rows; row++) {
        check_row(&answer, row, (request->flags & KITH_INCLUDE_SELF) == 0, sign);
    }
    return answer;
}

void test_descent_check(kith_ctx *ctx, const char *name, const test_rows *rows,
                        const kin_graph_request *request, double floor)
{
    kin_graph_outcome outcome;
    test_descent_truth truth = test_descent_truth_make(ctx, rows, request);
    kith_neighbors answer = test_descent_solve(ctx, rows, request, &outcome);
    const double recall = test_descent_recall(&answer, &truth, request->distance.metric);
    printf("  %-24s k %4d: recall %.4f, %d rounds, %.0f costs a point\n", name, (int)request->k,
           recall, (int)outcome.rounds, outcome.evaluations / (double)rows->matrix.rows);
    if (recall < floor) {
        fail_msg("%s: recall %f is below %f", name, recall, floor);
    }
    test_answer_free(&answer);
    test_descent_truth_free(&truth);
}

bool test_list_is_sound(const kin_graph_lists *lists, int64_t position)
{
    const uint64_t *list = kin_graph_list(lists, position);
    const int32_t count = kin_graph_list_count(lists, position);
    bool sound = lists->worst[position] == (uint32_t)(list[lists->length - 1] >> 32);
    for (int32_t i = 0; i < lists->length; i++) {
        const uint32_t there = kin_graph_position(list[i]);
        sound &= i == 0 || list[i - 1] < list[i] || i > count;
        sound &=
            i < count ? there < lists->points && there != position : list[i] == KIN_GRAPH_EMPTY;
        for (int32_t j = 0; j < i && i < count; j++) {
            sound &= kin_graph_position(list[j]) != there;
        }
    }
    return sound;
}
