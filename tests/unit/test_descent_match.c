/* SPDX-License-Identifier: Apache-2.0
 * What NN-Descent on the processor computes costs with: orders of every kernel of this machine
 * against plain double loops; the nearest of a meeting; direct metrics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_size.h"
#include "graph/graph_join.h"
#include "host/host_cpu.h"
#include "select/select_word.h"
#include "support/support_keys.h"
#include "support/support_matcher.h"
#include "support/support_sets.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 110, MOST_NEW = 37, MOST_OLD = 66 };

typedef struct setting {
    kith_dtype dtype;
    kith_metric metric;
    kin_tile_type type;
} setting;

static const setting settings[] = {
    {KITH_U8, KITH_EUCLIDEAN, KIN_TILE_S8},   {KITH_U8, KITH_INNER_PRODUCT, KIN_TILE_S8},
    {KITH_U8, KITH_EUCLIDEAN, KIN_TILE_S16},  {KITH_I8, KITH_INNER_PRODUCT, KIN_TILE_S16},
    {KITH_F32, KITH_EUCLIDEAN, KIN_TILE_S8},  {KITH_F32, KITH_COSINE, KIN_TILE_S16},
    {KITH_F32, KITH_EUCLIDEAN, KIN_TILE_F32}, {KITH_F32, KITH_INNER_PRODUCT, KIN_TILE_F32},
    {KITH_F32, KITH_COSINE, KIN_TILE_BF16},   {KITH_F32, KITH_INNER_PRODUCT, KIN_TILE_BF16},
};
static const int32_t widths[] = {1, 7, 64, 200, 784, 4097};
/* NEW and OLD samples of a meeting. */
static const int32_t meetings[][2] = {{1, 1},   {2, 0},   {1, 66},  {5, 9},   {16, 16},
                                      {17, 40}, {32, 64}, {33, 66}, {37, 63}, {37, 0}};

/* Points in a frame of a type of one's choice, and what a unit without any error would give. */
typedef struct bench {
    kith_ctx *ctx;
    test_rows rows;
    kin_prepared prepared;
    kin_graph_points points;
    kin_graph_join matcher;
    void *matching; /* its arrays */
    double *plain;  /* POINTS x POINTS */
} bench;

static void prepare_type(bench *b, kin_tile_type type)
{
    kin_prepared *p = &b->prepared;
    const kith_matrix *m = &b->rows.matrix;
    const bool integer = kin_frame_is_integer(&p->distance, m, m);
    if (!integer) {
        assert_int_equal(kin_frame_measure(b->ctx, &p->distance, &p->rows, &p->stats), KITH_OK);
        assert_int_equal(kin_frame_measure_norms(b->ctx, &p->distance, &p->rows, &p->stats),
                         KITH_OK);
    }
    p->frame = kin_frame_make(&p->distance, kin_tile_get(b->ctx->isa, type), integer, &p->stats);
    assert_int_equal(kin_set_make(b->ctx, kin_set_shape(&p->frame, p->groups.count), &p->rows,
                                  p->order, &p->set),
                     KITH_OK);
}

/* As test_plain_cost, for all pairs: stored bytes of u8 are moved by 128, which a product sees. */
static void measure_plain(bench *b)
{
    const kin_set *set = &b->prepared.set;
    const kin_frame *frame = set->frame;
    const int64_t cols = frame->cols;
    const bool product =
        kin_metric_get_traits(frame->distance.metric)->screen == KIN_SCREEN_PRODUCT;
    const double shift = product && b->rows.matrix.dtype == KITH_U8 ? 128.0 : 0.0;
    double *stored = malloc(sizeof(double) * (size_t)(POINTS * cols));
    b->plain = malloc(sizeof(double) * POINTS * POINTS);
    assert_non_null(stored);
    assert_non_null(b->plain);
    for (int64_t i = 0; i < POINTS * cols; i++) {
        stored[i] = test_stored(set, i / cols, (int32_t)(i % cols)) + shift;
    }
    for (int64_t pair = 0; pair < (int64_t)POINTS * POINTS; pair++) {
        const double *x = stored + pair / POINTS * cols;
        const double *y = stored + pair % POINTS * cols;
        double cost = 0.0;
        for (int64_t i = 0; i < cols; i++) {
            cost += product ? -2.0 * x[i] * y[i] : (x[i] - y[i]) * (x[i] - y[i]);
        }
        b->plain[pair] = cost;
    }
    assert_true(fabs(b->plain[1] - test_plain_cost(set, 0, set, 1)) <= 1e-9 * fabs(b->plain[1]));
    free(stored);
}

static bench bench_make(const setting *s, kin_isa isa, int32_t cols)
{
    bench b = {.ctx = test_ctx(isa, 1), .rows = test_rows_make(s->dtype, POINTS, cols, 0)};
    uint64_t seed = (uint64_t)cols * 31 + s->type;
    test_rows_fill(&b.rows, 100.0, 0, &seed);
    for (int64_t row = 0; row < POINTS; row++) { /* no row of zeros, which cosine sets aside */
        test_rows_set(&b.rows, row, 0, (double)(1 + row % 50));
    }
    const kin_distance distance = {.metric = s->metric, .cols = cols, .isa = isa};
    assert_int_equal(kin_prepare_rows(b.ctx, &b.rows.matrix, &distance, "points", KIN_ROWS_DISTINCT,
                                      &b.prepared),
                     KITH_OK);
    return b;
}

static void bench_free(bench *b)
{
    free(b->plain);
    kin_free(b->ctx, b->matching);
    kin_graph_points_free(b->ctx, &b->points);
    kin_prepared_free(b->ctx, &b->prepared);
    test_rows_free(&b->rows);
    kith_ctx_free(b->ctx);
}

static void shuffled(uint32_t *positions, uint32_t count, uint64_t *seed)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t other = (uint32_t)(test_uniform(seed) * (i + 1));
        positions[i] = positions[other];
        positions[other] = i;
    }
}

static float float_of_order(uint32_t order)
{
    const kin_word w = {.u = (order >> 31) != 0 ? order & 0x7fffffffu : ~order};
    return w.f;
}

static void check_order(const bench *b, uint32_t order, uint32_t i, uint32_t j)
{
    const kin_frame *frame = &b->prepared.frame;
    const double plain = b->plain[(int64_t)i * POINTS + j];
    if (!kin_tile_is_float(frame->kernel->type)) {
        assert_int_equal(order, kin_graph_order_of_int((int32_t)plain));
        return;
    }
    const double most = kin_bound_error(frame->kappa, kin_set_row(&b->prepared.set, i),
                                        kin_set_row(&b->prepared.set, j));
    assert_true(fabs((double)float_of_order(order) - plain) <= most);
}

/* The OLD samples of a meeting and its NEW ones as rows and columns of a block of their own. */
static void check_between(bench *b, const uint32_t *samples, int32_t new_count, int32_t old_count,
                          const uint32_t *kept)
{
    const uint32_t *olds = samples + new_count;
    kin_graph_join_between(&b->matcher, olds, old_count, samples, new_count);
    for (int32_t i = 0; i < old_count; i++) {
        for (int32_t j = 0; j < new_count; j++) {
            assert_int_equal(b->matcher.orders[i * b->matcher.stride + j],
                             kept[(new_count + i) * MOST_NEW + j]);
        }
    }
    if (old_count > MOST_NEW) {
        return;
    }
    kin_graph_join_between(&b->matcher, samples, new_count, olds, old_count);
    for (int32_t i = 0; i < new_count; i++) {
        for (int32_t j = 0; j < old_count; j++) {
            assert_int_equal(b->matcher.orders[i * b->matcher.stride + j],
                             kept[(new_count + j) * MOST_NEW + i]);
        }
    }
}

/* A meeting, the same with its samples turned round, each pair by itself, and blocks of it. */
static void check_meeting(bench *b, int32_t new_count, int32_t old_count, uint64_t *seed)
{
    static uint32_t kept[(MOST_NEW + MOST_OLD) * MOST_NEW];
    uint32_t samples[POINTS];
    uint32_t turned[POINTS];
    uint32_t one[POINTS];
    const int32_t count = new_count + old_count;
    shuffled(samples, (uint32_t)POINTS, seed);
    kin_graph_join_run(&b->matcher, samples, new_count, old_count);
    for (int32_t i = 0; i < count; i++) {
        for (int32_t j = 0; j < i && j < new_count; j++) {
            kept[i * MOST_NEW + j] = b->matcher.orders[i * b->matcher.stride + j];
            check_order(b, kept[i * MOST_NEW + j], samples[i], samples[j]);
        }
    }
    for (int32_t i = 0; i < new_count; i++) {
        turned[i] = samples[new_count - 1 - i];
    }
    kin_graph_join_run(&b->matcher, turned, new_count, 0);
    for (int32_t i = 0; i < new_count; i++) {
        for (int32_t j = 0; j < i; j++) {
            assert_int_equal(b->matcher.orders[i * b->matcher.stride + j],
                             kept[(new_count - 1 - j) * MOST_NEW + new_count - 1 - i]);
        }
    }
    kin_graph_join_one(&b->matcher, samples[0], samples + 1, count - 1, one);
    for (int32_t i = 1; i < count; i++) {
        assert_int_equal(one[i - 1], kept[i * MOST_NEW]);
    }
    check_between(b, samples, new_count, old_count, kept);
}

/* Rows among others, and each alone, which is what one query is: the same bits. */
static void check_alone(const bench *b)
{
    enum { COLS = 80, SOME = 3, ROOM = KIN_GRAPH_ROWS_STEP };
    static uint32_t orders[ROOM * COLS];
    static uint32_t alone[COLS];
    const kin_graph_kernel *kernel = b->points.kernel;
    const int64_t wide = kin_round_up(b->prepared.frame.groups, KIN_GRAPH_WIDE_STEP);
    const size_t row_bytes = (size_t)wide * sizeof(uint32_t);
    uint32_t *rows = aligned_alloc(64, ROOM * row_bytes);
    uint32_t *panels = aligned_alloc(64, COLS * row_bytes);
    uint32_t samples[ROOM];
    kin_word row_terms[ROOM];
    kin_word col_terms[ROOM];
    assert_true(rows != NULL && panels != NULL);
    memset(rows, 0, ROOM * row_bytes);
    for (uint32_t i = 0; i < ROOM; i++) {
        samples[i] = i + 1;
        row_terms[i] = b->points.terms[i + 1].row;
        col_terms[i] = b->points.terms[i + 1].col;
    }
    kernel->gather(&b->points, samples, ROOM, wide, rows);
    kernel->transpose(rows, wide, COLS, panels);
    kin_graph_product product = {.rows = rows,
                                 .panels = panels,
                                 .wide = wide,
                                 .pitch = wide,
                                 .groups = b->prepared.frame.groups,
                                 .before = COLS,
                                 .row_count = SOME,
                                 .col_count = COLS,
                                 .row_terms = row_terms,
                                 .col_terms = col_terms,
                                 .orders = orders,
                                 .stride = COLS};
    kernel->multiply(&product);
    for (int i = 0; i < SOME; i++) {
        product.rows = rows + i * wide;
        product.row_terms = row_terms + i;
        product.row_count = 1;
        product.orders = alone;
        kernel->multiply(&product);
        assert_memory_equal(alone, orders + (size_t)i * COLS, sizeof alone);
    }
    free(panels);
    free(rows);
}

static int check_setting(const setting *s, kin_isa isa, int32_t cols)
{
    if (kin_tile_get(isa, s->type) == NULL || (s->type == KIN_TILE_S8 && cols > 4096)) {
        return 0;
    }
    bench b = bench_make(s, isa, cols);
    prepare_type(&b, s->type);
    assert_int_equal(kin_graph_points_make(b.ctx, &b.prepared, &b.points), KITH_OK);
    assert_int_equal(b.points.kernel->type, s->type);
    assert_int_equal((uintptr_t)b.points.rows % 64, 0);
    b.matching = test_matcher_make(b.ctx, &b.points, MOST_NEW, MOST_OLD, &b.matcher);
    assert_non_null(b.matching);
    measure_plain(&b);
    uint64_t seed = 7;
    double evaluations = 0.0;
    for (size_t i = 0; i < sizeof meetings / sizeof *meetings; i++) {
        const double n = meetings[i][0];
        check_meeting(&b, meetings[i][0], meetings[i][1], &seed);
        const double m = meetings[i][1];
        evaluations += n * (n - 1) + n * m + n + m - 1 + n * m * (m > MOST_NEW ? 1 : 2);
    }
    assert_true(b.matcher.evaluations == evaluations);
    check_alone(&b);
    bench_free(&b);
    return 1;
}

static void every_kernel(void **state)
{
    (void)state;
    int cases = 0;
    const size_t count = sizeof settings / sizeof *settings;
    for (int isa = 0; isa < KIN_ISA_COUNT; isa++) {
        for (size_t i = 0; i < count * 6 && kin_cpu_has((kin_isa)isa); i++) {
            if (!test_is_sanitized_build() || i % 3 == 0) {
                cases += check_setting(&settings[i / 6], (kin_isa)isa, widths[i % 6]);
            }
        }
    }
    printf("%d kernels, types and widths give the costs of plain loops: integers exactly, floats "
           "within their bound, the same bits in every meeting, in both directions and alone\n",
           cases);
}

/* ---- The nearest ---------------------------------------------------------------------------- */

static void plain_least(const kin_graph_join *m, const uint32_t *samples, int32_t new_count,
                        int32_t count, int32_t at, bool among_new, uint64_t *word)
{
    const int32_t first = among_new ? 0 : new_count;
    const int32_t last = among_new ? new_count : count;
    uint32_t best = UINT32_MAX;
    *word = KIN_GRAPH_EMPTY;
    for (int32_t other = first; other < last; other++) {
        if (other == at) {
            continue;
        }
        const uint32_t order =
            other < at ? m->orders[at * m->stride + other] : m->back[other * m->stride + at];
        if (order < best) {
            best = order;
            *word = kin_graph_word(order, samples[other], 1);
        }
    }
}

static void nearest_of_meetings(void **state)
{
    (void)state;
    const setting s = {KITH_U8, KITH_EUCLIDEAN, KIN_TILE_S16};
    int checked = 0;
    for (int isa = 0; isa < KIN_ISA_COUNT; isa++) {
        for (size_t i = 0; i < sizeof meetings / sizeof *meetings && kin_cpu_has((kin_isa)isa);
             i++) {
            bench b = bench_make(&s, (kin_isa)isa, 3);
            prepare_type(&b, s.type);
            assert_int_equal(kin_graph_points_make(b.ctx, &b.prepared, &b.points), KITH_OK);
            b.matching = test_matcher_make(b.ctx, &b.points, MOST_NEW, MOST_OLD, &b.matcher);
            assert_non_null(b.matching);
            uint64_t seed = i + 1;
            uint32_t samples[POINTS];
            uint64_t nearest_new[MOST_NEW + MOST_OLD];
            uint64_t nearest_old[MOST_NEW];
            const int32_t new_count = meetings[i][0];
            const int32_t count = new_count + meetings[i][1];
            shuffled(samples, POINTS, &seed);
            /* Few different orders, so that many tie. */
            for (int64_t c = 0; c < count * b.matcher.stride; c++) {
                b.matcher.orders[c] = 0x7ffffff0u + (uint32_t)(test_uniform(&seed) * 32.0);
            }
            kin_graph_join_least(&b.matcher, samples, new_count, count - new_count, nearest_new,
                                 nearest_old);
            for (int32_t at = 0; at < count; at++) {
                uint64_t word;
                plain_least(&b.matcher, samples, new_count, count, at, true, &word);
                assert_true(nearest_new[at] == word);
                if (at < new_count) {
                    plain_least(&b.matcher, samples, new_count, count, at, false, &word);
                    assert_true(nearest_old[at] == word);
                }
                checked += 1;
            }
            bench_free(&b);
        }
    }
    printf("%d samples find their nearest NEW and OLD one, the first of equals\n", checked);
}

static void hits_of_bodies(void **state)
{
    (void)state;
    enum { ROWS = 37, COLS = 32, STRIDE = 48 };
    uint32_t orders[ROWS * STRIDE];
    uint32_t limits[COLS];
    uint32_t row_limits[ROWS];
    uint32_t plain[ROWS * COLS];
    uint32_t hits[ROWS * COLS];
    uint64_t seed = 11;
    int64_t found = 0;
    for (int isa = 0; isa < KIN_ISA_COUNT; isa++) {
        for (int trial = 0; trial < 30 && kin_cpu_has((kin_isa)isa); trial++) {
            for (int i = 0; i < ROWS * STRIDE; i++) {
                orders[i] = 0x7ffffff0u + (uint32_t)(test_uniform(&seed) * 32.0);
            }
            for (int j = 0; j < COLS; j++) {
                limits[j] = j % 7 == 0 ? UINT32_MAX * (uint32_t)(trial % 2)
                                       : 0x7ffffff0u + (uint32_t)(test_uniform(&seed) * 16.0);
            }
            for (int i = 0; i < ROWS; i++) {
                row_limits[i] =
                    i % 3 == 0 ? 0x7ffffff0u + (uint32_t)(test_uniform(&seed) * 8.0) : 0;
            }
            const kin_graph_orders of = {orders, STRIDE, ROWS, COLS, row_limits, limits};
            const int64_t count = kin_graph_words_get((kin_isa)isa)->hits(&of, hits);
            assert_int_equal(kin_graph_words_portable.hits(&of, plain), count);
            assert_memory_equal(hits, plain, (size_t)count * sizeof *hits);
            found += count;
        }
    }
    assert_true(found > 0);
    printf("%lld pairs within their limits are the same on every body\n", (long long)found);
}

/* Lists hold the least words that came, each once, in whatever order they came. */
static void puts_of_bodies(void **state)
{
    (void)state;
    enum { MOST = 37, WORDS = 120 };
    uint64_t words[WORDS];
    uint64_t plain[MOST];
    uint64_t list[MOST];
    uint64_t seed = 3;
    for (int64_t length = 1; length <= MOST; length++) {
        memset(plain, 0xff, sizeof plain);
        for (int i = 0; i < WORDS; i++) {
            words[i] = (uint64_t)(test_uniform(&seed) * 90.0) << 40 | 1;
            kin_graph_put_portable(plain, length, words[i]);
        }
        for (int isa = 0; isa < KIN_ISA_COUNT; isa++) {
            memset(list, 0xff, sizeof list);
            for (int i = WORDS; i > 0 && kin_cpu_has((kin_isa)isa); i--) {
                kin_graph_words_get((kin_isa)isa)->put(list, length, words[i - 1]);
            }
            assert_true(!kin_cpu_has((kin_isa)isa) || memcmp(list, plain, sizeof list) == 0);
        }
        kin_select_sort_words(words, WORDS);
        for (int64_t i = 0, at = 0; i < WORDS && at < length; i++) {
            if (i == 0 || words[i] != words[i - 1]) {
                assert_true(plain[at] == words[i]);
                at += 1;
            }
        }
    }
    printf("lists of 1 to %d words hold the least of %d, on every body\n", (int)MOST, (int)WORDS);
}

/* ---- Direct metrics ------------------------------------------------------------------------- */

static double lopsided(void *arg, const void *a, const void *b, int32_t cols)
{
    const float *x = a;
    const float *y = b;
    double sum = *(const double *)arg;
    for (int32_t i = 0; i < cols; i++) {
        sum += x[i] > y[i] ? 2.0 * (double)(x[i] - y[i]) : (double)(y[i] - x[i]);
    }
    return sum;
}

static double key_of(const bench *b, uint32_t query, uint32_t other, double *values)
{
    const kin_prepared *p = &b->prepared;
    double key;
    const kin_query q = kin_metric_load(&p->distance, &p->rows, p->order[query], values);
    kin_metric_keys(&p->distance, &q, &p->rows, &p->order[other], 1, &key);
    return key;
}

static void check_direct(kith_metric metric)
{
    double offset = 0.5;
    double values[32] __attribute__((aligned(64)));
    uint32_t samples[POINTS];
    uint32_t one[POINTS];
    uint64_t seed = 3;
    bench b = {.ctx = test_ctx(kin_cpu_best(), 1), .rows = test_rows_make(KITH_F32, POINTS, 21, 0)};
    test_rows_fill(&b.rows, 10.0, 1, &seed);
    const kin_distance distance = {.metric = metric,
                                   .cols = 21,
                                   .isa = b.ctx->isa,
                                   .custom = metric == KITH_CUSTOM ? lopsided : NULL,
                                   .custom_arg = &offset};
    assert_int_equal(kin_prepare_rows(b.ctx, &b.rows.matrix, &distance, "points", KIN_ROWS_DISTINCT,
                                      &b.prepared),
                     KITH_OK);
    assert_int_equal(kin_graph_points_make(b.ctx, &b.prepared, &b.points), KITH_OK);
    assert_null(b.points.kernel);
    b.matching = test_matcher_make(b.ctx, &b.points, 9, 20, &b.matcher);
    assert_non_null(b.matching);
    shuffled(samples, POINTS, &seed);
    kin_graph_join_run(&b.matcher, samples, 9, 20);
    for (int32_t i = 0; i < 29; i++) {
        for (int32_t j = 0; j < i && j < 9; j++) {
            const double key = key_of(&b, samples[i], samples[j], values);
            const double back = key_of(&b, samples[j], samples[i], values);
            assert_int_equal(b.matcher.orders[i * b.matcher.stride + j],
                             kin_graph_order_of_float((float)key));
            assert_int_equal(b.matcher.back[i * b.matcher.stride + j],
                             kin_graph_order_of_float((float)back));
        }
    }
    kin_graph_join_one(&b.matcher, samples[0], samples + 1, POINTS - 1, one);
    for (int32_t i = 1; i < POINTS; i++) {
        const double key = key_of(&b, samples[0], samples[i], values);
        assert_int_equal(one[i - 1], kin_graph_order_of_float((float)key));
    }
    bench_free(&b);
}

static void direct_metrics(void **state)
{
    (void)state;
    const kith_metric metrics[] = {KITH_MANHATTAN, KITH_CHEBYSHEV, KITH_CHI2,  KITH_HAMMING,
                                   KITH_JACCARD,   KITH_KL,        KITH_CUSTOM};
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
        check_direct(metrics[i]);
    }
    printf("direct metrics: keys as floats, in both directions where these differ\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel),   cmocka_unit_test(nearest_of_meetings),
        cmocka_unit_test(hits_of_bodies), cmocka_unit_test(puts_of_bodies),
        cmocka_unit_test(direct_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
