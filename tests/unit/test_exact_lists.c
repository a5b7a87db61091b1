/* SPDX-License-Identifier: Apache-2.0
 * Candidate lists: at capacity - 1, exactly full, one more, and far beyond; offered the nearest
 * first, the nearest last, or in the order of ids; with ties, copies and without. Whatever a list
 * drops on the way, it ends with the oracle's first k. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exact/exact_answer.h"
#include "host/host_cpu.h"
#include "screen/screen_corpus.h"
#include "screen/screen_list.h"
#include "screen/screen_prepare.h"
#include "support/support_answers.h"
#include "support/support_keys.h"
#include "support/support_sets.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Rows that are all at the same distance from the origin: a shape of this test alone. */
enum { SHAPE_SPHERE = SHAPE_COUNT };

typedef enum offering { NEAREST_FIRST = 0, NEAREST_LAST, BY_POSITION, OFFERINGS } offering;

typedef struct setting {
    kith_dtype dtype;
    kith_metric metric;
    int shape;
    int32_t cols;
    int64_t k;
} setting;

typedef struct bench {
    kith_ctx *ctx;
    const setting *set;
    test_rows points;
    test_rows query;
    kin_prepared corpus;
    kin_prepared asked;
    kin_lists lists;
    kin_list_scratch scratch;
    void *arrays; /* of the scratch */
    kin_answer answer;
} bench;

static void name_scratch(kin_layout *layout, void *job)
{
    bench *b = job;
    kin_list_scratch_name(layout, b->lists.capacity, b->set->cols, &b->scratch);
}

static void fill_sphere(const test_rows *rows)
{
    const int64_t cols = rows->matrix.cols;
    for (int64_t row = 0; row < rows->matrix.rows; row++) { /* two components of +-7: distinct */
        const int64_t pair = row / 4 % (cols * (cols - 1) / 2);
        int64_t a = 0;
        int64_t left = pair;
        for (; left >= cols - 1 - a; a++) {
            left -= cols - 1 - a;
        }
        test_rows_set(rows, row, a, row % 2 == 0 ? 7.0 : -7.0);
        test_rows_set(rows, row, a + 1 + left, row % 4 < 2 ? 7.0 : -7.0);
    }
}

static void bench_make(bench *b, kith_ctx *ctx, const setting *s, int64_t rows)
{
    uint64_t seed = (uint64_t)(rows * 31 + s->k);
    *b = (bench){.ctx = ctx, .set = s};
    b->points = test_rows_make(s->dtype, rows, s->cols, 0);
    b->query = test_rows_make(s->dtype, 1, s->cols, 0);
    if (s->shape == SHAPE_SPHERE) {
        fill_sphere(&b->points);
        test_rows_set(&b->query, 0, 0, s->metric == KITH_EUCLIDEAN ? 0.0 : 1.0);
    } else {
        test_shape_fill(&b->points, (test_shape)s->shape, false, &seed);
        test_shape_fill(&b->query, (test_shape)s->shape, false, &seed);
        if (s->metric == KITH_COSINE) {
            test_rows_set(&b->query, 0, 0, 1.0); /* a row of zeros has no list */
        }
    }
    const kin_distance distance = {.metric = s->metric, .cols = s->cols, .isa = ctx->isa};
    const kith_matrix *m = &b->points.matrix;
    const bool integer = kin_frame_is_integer(&distance, m, &b->query.matrix);
    assert_int_equal(kin_prepare_rows(ctx, m, &distance, "points", 0, &b->corpus), KITH_OK);
    assert_int_equal(
        kin_prepare_rows(ctx, &b->query.matrix, &distance, "query", KIN_ROWS_DISTINCT, &b->asked),
        KITH_OK);
    assert_int_equal(kin_prepare_corpus(ctx, integer, s->k, &b->corpus), KITH_OK);
    assert_int_equal(kin_prepare_queries(ctx, &b->corpus, 0, 1, &b->asked), KITH_OK);
    assert_int_equal(kin_lists_make(ctx, &b->asked.set, &b->corpus.set, b->corpus.groups.weights,
                                    s->k, &b->lists),
                     KITH_OK);
    assert_int_equal(kin_layout_make(ctx, name_scratch, b, "a scratch", &b->arrays), KITH_OK);
    assert_int_equal(kin_answer_make(ctx, &b->corpus.groups, s->metric, s->k, &b->answer), KITH_OK);
}

static void bench_free(bench *b)
{
    kin_answer_free(b->ctx, &b->answer);
    kin_free(b->ctx, b->arrays);
    kin_lists_free(b->ctx, &b->lists);
    kin_prepared_free(b->ctx, &b->asked);
    kin_prepared_free(b->ctx, &b->corpus);
    test_rows_free(&b->query);
    test_rows_free(&b->points);
}

/* A candidate with its cost, as the kernels log it. */
typedef struct offer {
    int32_t order;
    uint32_t position;
} offer;

static int by_order(const void *a, const void *b)
{
    const offer *x = a;
    const offer *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

static offer offer_of(const bench *b, int64_t position)
{
    const double cost = test_plain_cost(&b->asked.set, 0, &b->corpus.set, position);
    const bool is_float = kin_tile_is_float(b->corpus.frame.kernel->type);
    return (offer){is_float ? kin_order_float((float)cost) : (int32_t)cost, (uint32_t)position};
}

/* All points to the list, or, as the screen does, only those within the limit of the moment. */
static void offer_all(bench *b, offering how, bool screened)
{
    const kin_set *points = &b->corpus.set;
    const bool is_float = kin_tile_is_float(b->corpus.frame.kernel->type);
    const bool by_id = b->corpus.frame.bound == KIN_BOUND_INTEGER;
    const kin_bound_row own = kin_set_row(&b->asked.set, 0);
    offer *offers = malloc((size_t)points->points * sizeof *offers);
    assert_non_null(offers);
    for (int64_t p = 0; p < points->points; p++) {
        offers[p] = offer_of(b, p);
    }
    if (how != BY_POSITION) {
        qsort(offers, (size_t)points->points, sizeof *offers, by_order);
    }
    for (int64_t i = 0; i < points->points; i++) {
        const offer o = offers[how == NEAREST_LAST ? points->points - 1 - i : i];
        const double cost = is_float ? (double)kin_float_from_order(o.order) : (double)o.order;
        const double limit =
            kin_bound_limit(b->corpus.frame.bound, b->lists.reach[0], b->corpus.frame.kappa, own,
                            kin_set_row(points, o.position));
        if (!screened || !(cost > limit)) {
            const uint32_t name = by_id ? points->ids[o.position] : o.position;
            (void)kin_lists_add(&b->lists, 0, o.order, name, &b->scratch);
            assert_true(b->lists.counts[0] < b->lists.capacity);
        }
    }
    free(offers);
}

static void check_end(bench *b)
{
    const int64_t k = b->set->k;
    test_truth truth = test_truth_make(b->set->metric, &b->query.matrix, &b->points.matrix, k);
    const int64_t count = kin_lists_finish(&b->lists, 0, &b->scratch);
    kin_answer_expand(&b->answer, b->scratch.pairs, count);
    assert_int_equal(b->answer.count, k);
    for (int64_t i = 0; i < k; i++) {
        const kin_pair *pair = &b->answer.list[i];
        if (pair->id != truth.ids[i] || memcmp(&pair->key, &truth.keys[i], sizeof(double)) != 0) {
            fail_msg("%s, %s, shape %d, %d columns, k %lld of %lld rows: place %lld is %u at "
                     "%.17g, should be "
                     "%u at %.17g",
                     kith_metric_name(b->set->metric), kith_dtype_name(b->set->dtype),
                     b->set->shape, (int)b->set->cols, (long long)k,
                     (long long)b->points.matrix.rows, (long long)i, (unsigned)pair->id, pair->key,
                     (unsigned)truth.ids[i], truth.keys[i]);
        }
    }
    test_truth_free(&truth);
}

static const setting settings[] = {
    {KITH_F32, KITH_EUCLIDEAN, SHAPE_GAUSS, 24, 1},
    {KITH_F32, KITH_EUCLIDEAN, SHAPE_GAUSS, 24, 17},
    {KITH_F32, KITH_EUCLIDEAN, SHAPE_SPHERE, 24, 1},
    {KITH_F32, KITH_EUCLIDEAN, SHAPE_SPHERE, 24, 9},
    {KITH_F32, KITH_EUCLIDEAN, SHAPE_SPHERE, 24, 60},
    {KITH_F32, KITH_INNER_PRODUCT, SHAPE_SPHERE, 24, 9},
    {KITH_F32, KITH_COSINE, SHAPE_SPHERE, 24, 20},
    {KITH_F32, KITH_EUCLIDEAN, SHAPE_COPIES, 24, 12},
    {KITH_F32, KITH_COSINE, SHAPE_COPIES, 24, 30},
    {KITH_F32, KITH_COSINE, SHAPE_LINE, 24, 8},
    {KITH_F32, KITH_EUCLIDEAN, SHAPE_TINY, 24, 10},
    {KITH_F64, KITH_CORRELATION, SHAPE_TIGHT, 24, 10},
    {KITH_F64, KITH_INNER_PRODUCT, SHAPE_NORMS, 24, 10},
    {KITH_F32, KITH_EUCLIDEAN, SHAPE_EQUAL, 24, 25},
    {KITH_U8, KITH_EUCLIDEAN, SHAPE_GAUSS, 24, 10},
    {KITH_U8, KITH_EUCLIDEAN, SHAPE_GRID, 24, 10},
    {KITH_U8, KITH_INNER_PRODUCT, SHAPE_GRID, 24, 40},
    {KITH_U8, KITH_INNER_PRODUCT, SHAPE_COPIES, 24, 15},
    {KITH_I8, KITH_EUCLIDEAN, SHAPE_SPHERE, 24, 21},
    {KITH_I8, KITH_INNER_PRODUCT, SHAPE_SPHERE, 24, 21},
    {KITH_U8, KITH_COSINE, SHAPE_GRID, 24, 33},
    {KITH_U8, KITH_COSINE, SHAPE_GAUSS, 1, 14},
    {KITH_F32, KITH_COSINE, SHAPE_COPIES, 1, 20},
    {KITH_U8, KITH_EUCLIDEAN, SHAPE_GRID, 3, 10},
    {KITH_U8, KITH_EUCLIDEAN, SHAPE_GRID, 6, 50},
    {KITH_U8, KITH_INNER_PRODUCT, SHAPE_GRID, 6, 25},
    {KITH_F32, KITH_EUCLIDEAN, SHAPE_GRID, 6, 10},
    {KITH_F32, KITH_EUCLIDEAN, SHAPE_GRID, 8, 40},
    {KITH_F32, KITH_INNER_PRODUCT, SHAPE_GRID, 7, 30},
    {KITH_F16, KITH_COSINE, SHAPE_GRID, 7, 12},
    {KITH_F32, KITH_EUCLIDEAN, SHAPE_NORMS, 5, 10},
    {KITH_F32, KITH_INNER_PRODUCT, SHAPE_HEAVY, 5, 10},
};

static void around_capacity(void **state)
{
    (void)state;
    int lists = 0;
    for (int isa = 0; isa < KIN_ISA_COUNT; isa++) {
        for (size_t i = 0; i < sizeof settings / sizeof *settings && kin_cpu_has((kin_isa)isa);
             i++) {
            const int64_t capacity = kin_lists_capacity(settings[i].k, 1);
            const int64_t rows[] = {settings[i].k, capacity - 1, capacity,
                                    capacity + 1,  2 * capacity, 1000};
            for (int n = 0; n < 6 * OFFERINGS * 2; n++) {
                kith_ctx *ctx = test_ctx((kin_isa)isa, 1);
                bench b;
                bench_make(&b, ctx, &settings[i], rows[n % 6]);
                offer_all(&b, (offering)(n / 6 % OFFERINGS), n / 6 / OFFERINGS == 1);
                check_end(&b);
                bench_free(&b);
                kith_ctx_free(ctx);
                lists += 1;
            }
        }
    }
    printf("test 19: %d lists below, at and above their capacity end with the oracle's first k\n",
           lists);
}

static void too_few_ids(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const setting *s = &settings[i];
        kith_ctx *ctx = test_ctx(kin_cpu_best(), 1);
        bench b;
        bench_make(&b, ctx, s, 100);
        const bool copies = b.corpus.groups.weights != NULL; /* one entry may be k ids */
        for (int64_t p = 0; p < s->k && !copies; p++) {
            kin_lists_compact(&b.lists, 0, &b.scratch);
            assert_true(b.lists.reach[0] > 1e300);
            assert_int_equal(b.lists.counts[0], p);
            const offer o = offer_of(&b, p);
            const bool by_id = b.corpus.frame.bound == KIN_BOUND_INTEGER;
            (void)kin_lists_add(&b.lists, 0, o.order, by_id ? b.corpus.set.ids[p] : o.position,
                                &b.scratch);
        }
        kin_lists_compact(&b.lists, 0, &b.scratch);
        assert_true(copies || b.lists.reach[0] < 1e300);
        bench_free(&b);
        kith_ctx_free(ctx);
    }
    printf("test 18: k - 1 ids prove no reach, k distinct ones do\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(around_capacity),
                                       cmocka_unit_test(too_few_ids)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
