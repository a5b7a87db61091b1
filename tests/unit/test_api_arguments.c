/* SPDX-License-Identifier: Apache-2.0
 * Arguments of exact search: each mistake is KITH_E_ARGUMENT with a sentence that names it; values
 * that a metric does not allow are named by row and column; callers' functions are obeyed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_ctx.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROWS = 30, COLS = 4, ASKED = 7, K = 3 };

/* A call that is right, and what a mistake may change. */
typedef struct call {
    char kind; /* 'g' graph, 's' search, 'b' both */
    kith_matrix points;
    kith_matrix queries;
    kith_search_params params;
    kith_neighbors out;
    kith_neighbors back;
    const kith_matrix *given_points;
    const kith_matrix *given_queries;
    const kith_search_params *given_params;
    const kith_neighbors *given_out;
    const kith_neighbors *given_back;
} call;

static float point_data[ROWS * COLS];
static float query_data[ASKED * COLS];
static uint32_t nobody[ROWS];
static kith_ctx *ctx;

static double custom_sum(void *arg, const void *query, const void *point, int32_t cols)
{
    (void)arg;
    const float *q = query;
    const float *p = point;
    double lanes[8] = {0.0};
    for (int32_t i = 0; i < cols; i++) {
        lanes[i % 8] += fabs((double)q[i] - (double)p[i]);
    }
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
           ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

static int setup(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < ROWS * COLS; i++) {
        point_data[i] = (float)fabs(test_gauss(&seed));
    }
    for (int i = 0; i < ASKED * COLS; i++) {
        query_data[i] = (float)fabs(test_gauss(&seed));
    }
    for (int i = 0; i < ROWS; i++) {
        nobody[i] = KITH_ID_NONE;
    }
    return kith_ctx_create(NULL, &ctx);
}

static int teardown(void **state)
{
    (void)state;
    kith_ctx_free(ctx);
    return 0;
}

static void call_make(call *c, char kind)
{
    *c = (call){.kind = kind};
    c->points = (kith_matrix){.data = point_data, .rows = ROWS, .cols = COLS, .dtype = KITH_F32};
    c->queries = (kith_matrix){.data = query_data, .rows = ASKED, .cols = COLS, .dtype = KITH_F32};
    c->params = kith_search_params_default();
    c->params.k = K;
    c->out = test_answer_make(kind == 's' ? ASKED : ROWS, K);
    c->back = test_answer_make(ASKED, K);
    c->given_points = &c->points;
    c->given_queries = &c->queries;
    c->given_params = &c->params;
    c->given_out = &c->out;
    c->given_back = &c->back;
}

static void call_free(call *c)
{
    test_answer_free(&c->out);
    test_answer_free(&c->back);
}

static kith_status call_run(const call *c, kith_ctx *on)
{
    if (c->kind == 'g') {
        return kith_graph(on, c->given_points, c->given_params, c->given_out, NULL);
    }
    if (c->kind == 's') {
        return kith_search(on, c->given_points, c->given_queries, c->given_params, c->given_out,
                           NULL);
    }
    return kith_knn_both(on, c->given_points, c->given_queries, c->given_params, c->given_out,
                         c->given_back);
}

/* ---- Mistakes ------------------------------------------------------------------------------- */

/* X(calls it applies to, what is done to call *c, what the message says) */
#define MISTAKES(X)                                                                      \
    X("gsb", c->given_params = NULL, "params is NULL")                                   \
    X("gsb", c->params.struct_size = 0, "kith_search_params_default()")                  \
    X("gsb", c->params.struct_size = 8, "kith_search_params_default()")                  \
    X("g", c->given_points = NULL, "points is NULL")                                     \
    X("s", c->given_points = NULL, "corpus is NULL")                                     \
    X("b", c->given_points = NULL, "a is NULL")                                          \
    X("s", c->given_queries = NULL, "queries is NULL")                                   \
    X("b", c->given_queries = NULL, "b is NULL")                                         \
    X("g", c->points.dtype = KITH_DTYPE_NONE, "points.dtype is 0, which is no dtype")    \
    X("s", c->points.dtype = (kith_dtype)77, "corpus.dtype is 77")                       \
    X("s", c->queries.dtype = (kith_dtype)7, "queries.dtype is 7")                       \
    X("g", c->points.rows = 0, "points.rows is 0, must be 1 to 4294967294")              \
    X("g", c->points.rows = -5, "points.rows is -5")                                     \
    X("g", c->points.rows = (int64_t)UINT32_MAX, "points.rows is 4294967295")            \
    X("s", c->queries.rows = 0, "queries.rows is 0")                                     \
    X("b", c->queries.rows = INT64_MIN, "b.rows is -9223372036854775808")                \
    X("g", c->points.cols = 0, "points.cols is 0, must be 1 to 1048576")                 \
    X("g", c->points.cols = -1, "points.cols is -1")                                     \
    X("g", c->points.cols = (1 << 20) + 1, "points.cols is 1048577")                     \
    X("g", c->points.data = NULL, "points.data is NULL")                                 \
    X("s", c->queries.data = NULL, "queries.data is NULL")                               \
    X("g", c->points.stride_bytes = 15, "points.stride_bytes is 15, must be 0 or at")    \
    X("s", c->queries.stride_bytes = -16, "queries.stride_bytes is -16")                 \
    X("s", c->queries.cols = 3, "the corpus has 4 columns and queries has 3")            \
    X("b", c->queries.cols = 3, "a has 4 columns and b has 3")                           \
    X("gsb", c->params.metric = (kith_metric)99, "metric is 99, which is no metric")     \
    X("gsb", c->params.metric = (kith_metric)-1, "which is no metric")                   \
    X("gsb", c->params.metric = KITH_CUSTOM, "the function for it is NULL (set custom)") \
    X("gsb", c->params.metric = kith_minkowski(0.5), "is minkowski without a power")     \
    X("gsb", c->params.custom = custom_sum, "the metric is not KITH_CUSTOM")             \
    X("gsb", c->params.k = 0, "k is 0, must be at least 1")                              \
    X("gsb", c->params.k = -1, "k is -1, must be at least 1")                            \
    X("gsb", c->params.k = INT64_MIN, "must be at least 1")                              \
    X("g", c->params.k = ROWS, "k is 30, must be at most 29 (a point's own id")          \
    X("s", c->params.k = ROWS + 1, "k is 31, must be at most 30 (the corpus has no")     \
    X("b", c->params.k = ASKED + 1, "k is 8, must be at most 7")                         \
    X("gsb", c->params.k = INT64_MAX, "k is 9223372036854775807, must be at most")       \
    X("gsb", c->given_out = NULL, "out is NULL (give room for the neighbours)")          \
    X("b", c->given_back = NULL, "out is NULL")                                          \
    X("g", c->out.rows = ROWS - 1, "out is 29 x 3, must be 30 x 3")                      \
    X("s", c->out.k = K + 1, "out is 7 x 4, must be 7 x 3")                              \
    X("b", c->back.rows = ROWS, "out is 30 x 3, must be 7 x 3")                          \
    X("b", c->params.exclude = nobody, "exclude has no meaning in both directions")

/* Does what row `number` of the table says. */
static void make_mistake(call *c, int number)
{
    int row = 0;
    MISTAKES(TEST_MISTAKE_DO)
}

static void mistakes(void **state)
{
    (void)state;
    static const test_mistake rows[] = {MISTAKES(TEST_MISTAKE_ROW)};
    const int count = (int)(sizeof rows / sizeof *rows);
    int made = 0;
    for (int i = 0; i < count; i++) {
        for (const char *kind = rows[i].kinds; *kind != '\0'; kind++) {
            call c;
            call_make(&c, *kind);
            const kith_neighbors keep[] = {c.out, c.back};
            make_mistake(&c, i);
            const kith_status status = call_run(&c, ctx);
            if (status != KITH_E_ARGUMENT || strstr(kith_ctx_detail(ctx), rows[i].says) == NULL) {
                fail_msg("mistake %d in '%c': %s \"%s\", should say \"%s\"", i, *kind,
                         kith_status_name(status), kith_ctx_detail(ctx), rows[i].says);
            }
            c.out = keep[0];
            c.back = keep[1];
            call_free(&c);
            made += 1;
        }
    }
    printf("%d mistakes in arguments are KITH_E_ARGUMENT and say what is wrong\n", made);
}

static void one_excluded(void **state)
{
    (void)state;
    call c;
    call_make(&c, 's');
    test_answer_free(&c.out);
    c.out = test_answer_make(ASKED, ROWS);
    c.params.k = ROWS;
    assert_int_equal(call_run(&c, ctx), KITH_OK);
    assert_string_equal(kith_ctx_detail(ctx), "");
    c.params.exclude = nobody;
    assert_int_equal(call_run(&c, ctx), KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(ctx), "must be at most 29"));
    assert_non_null(strstr(kith_ctx_detail(ctx), "excluded"));
    call_free(&c);
    printf(
        "where an id is excluded, k is one less at most; a call that succeeds explains nothing\n");
}

static void no_context(void **state)
{
    (void)state;
    for (const char *kind = "gsb"; *kind != '\0'; kind++) {
        call c;
        call_make(&c, *kind);
        assert_int_equal(call_run(&c, NULL), KITH_E_ARGUMENT);
        call_free(&c);
    }
    static const struct {
        const char *isa;
        int32_t threads;
        const char *says;
    } refused[] = {{"avx1024", 0, "isa is 'avx1024', which is no instruction set"},
                   {NULL, -1, "threads is -1, must be 1 or more"}};
    for (int i = 0; i < 2; i++) {
        kith_ctx_params params = kith_ctx_params_default();
        params.isa = refused[i].isa;
        params.threads = refused[i].threads;
        kith_ctx *other = NULL;
        assert_int_equal(kith_ctx_create(&params, &other), KITH_OK);
        call c;
        call_make(&c, 'g');
        assert_int_not_equal(call_run(&c, other), KITH_OK);
        assert_non_null(strstr(kith_ctx_detail(other), refused[i].says));
        call_free(&c);
        kith_ctx_free(other);
    }
    printf("no context, or one that cannot compute: the first call says why\n");
}

/* ---- Values --------------------------------------------------------------------------------- */

static void values(void **state)
{
    (void)state;
    static const struct {
        char kind;
        bool in_queries;
        kith_metric metric;
        float value;
        const char *says;
    } rows[] = {{'g', false, KITH_EUCLIDEAN, NAN, "points[5, 2] is"},
                {'s', false, KITH_COSINE, INFINITY, "corpus[5, 2] is"},
                {'s', true, KITH_INNER_PRODUCT, -INFINITY, "queries[5, 2] is"},
                {'b', false, KITH_MANHATTAN, NAN, "a[5, 2] is"},
                {'b', true, KITH_CORRELATION, NAN, "b[5, 2] is"},
                {'g', false, KITH_CHI2, -1.0F, "points[5, 2] is"},
                {'s', true, KITH_KL, -1.0F, "queries[5, 2] is"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        call c;
        call_make(&c, rows[i].kind);
        c.params.metric = rows[i].metric;
        float *data = rows[i].in_queries ? query_data : point_data;
        const float before = data[5 * COLS + 2];
        const float last = data[6 * COLS];
        data[5 * COLS + 2] = rows[i].value;
        data[6 * COLS] = rows[i].value;
        const kith_status status = call_run(&c, ctx);
        if (status != KITH_E_DATA || strstr(kith_ctx_detail(ctx), rows[i].says) == NULL) {
            fail_msg("case %d: %s \"%s\"", (int)i, kith_status_name(status), kith_ctx_detail(ctx));
        }
        data[5 * COLS + 2] = before;
        data[6 * COLS] = last;
        assert_int_equal(call_run(&c, ctx), KITH_OK);
        call_free(&c);
    }
    printf("a value that the metric does not allow is named: matrix, lowest row, column\n");
}

/* ---- What may be left out ------------------------------------------------------------------- */

static void parts_of_output(void **state)
{
    (void)state;
    for (const char *kind = "gs"; *kind != '\0'; kind++) {
        call c;
        call_make(&c, *kind);
        assert_int_equal(call_run(&c, ctx), KITH_OK);
        for (int part = 0; part < 8; part++) {
            kith_neighbors some = test_answer_make(c.out.rows, K);
            kith_neighbors given = some;
            given.ids = (part & 1) != 0 ? some.ids : NULL;
            given.distances = (part & 2) != 0 ? some.distances : NULL;
            given.distances64 = (part & 4) != 0 ? some.distances64 : NULL;
            c.given_out = &given;
            assert_int_equal(call_run(&c, ctx), KITH_OK);
            const size_t count = (size_t)(c.out.rows * K);
            assert_true((part & 1) == 0 || memcmp(some.ids, c.out.ids, count * 4) == 0);
            assert_true((part & 2) == 0 || memcmp(some.distances, c.out.distances, count * 4) == 0);
            assert_true((part & 4) == 0 ||
                        memcmp(some.distances64, c.out.distances64, count * 8) == 0);
            test_answer_free(&some);
        }
        call_free(&c);
    }
    printf("ids, distances and distances64 may each be left out\n");
}

static void older_callers(void **state)
{
    (void)state;
    call c;
    call_make(&c, 's');
    assert_int_equal(call_run(&c, ctx), KITH_OK);
    kith_neighbors again = test_answer_make(ASKED, K);
    c.given_out = &again;
    /* What lies beyond struct_size is not read. */
    c.params.struct_size = offsetof(kith_search_params, exclude);
    c.params.exclude = (const uint32_t *)&c;
    c.params.custom = custom_sum;
    assert_int_equal(call_run(&c, ctx), KITH_OK);
    assert_true(test_answers_equal(&c.out, &again));
    /* A newer caller's struct is longer than what this library knows. */
    struct {
        kith_search_params known;
        char more[64];
    } newer = {.known = kith_search_params_default()};
    newer.known.struct_size = sizeof newer;
    newer.known.k = K;
    c.given_params = &newer.known;
    assert_int_equal(call_run(&c, ctx), KITH_OK);
    assert_true(test_answers_equal(&c.out, &again));
    test_answer_free(&again);
    call_free(&c);
    printf("parameter structs of older and of newer callers are understood\n");
}

/* ---- Callers' functions --------------------------------------------------------------------- */

static double custom_nan(void *arg, const void *query, const void *point, int32_t cols)
{
    const double key = custom_sum(arg, query, point, cols);
    return point == (const void *)(point_data + 11 * COLS) ? (double)NAN : key;
}

static void custom_metric(void **state)
{
    (void)state;
    for (const char *kind = "gsb"; *kind != '\0'; kind++) {
        call known;
        call own;
        call_make(&known, *kind);
        call_make(&own, *kind);
        known.params.metric = KITH_MANHATTAN;
        own.params.metric = KITH_CUSTOM;
        own.params.custom = custom_sum;
        assert_int_equal(call_run(&known, ctx), KITH_OK);
        assert_int_equal(call_run(&own, ctx), KITH_OK);
        assert_true(test_answers_equal(&known.out, &own.out));
        assert_true(*kind != 'b' || test_answers_equal(&known.back, &own.back));
        own.params.custom = custom_nan;
        assert_int_equal(call_run(&own, ctx), KITH_E_DATA);
        assert_non_null(strstr(kith_ctx_detail(ctx), "NaN"));
        call_free(&known);
        call_free(&own);
    }
    printf("a caller's own distance is a metric; its NaN is an error\n");
}

typedef struct watcher {
    int calls;
    int stops_at; /* 0: never */
    int bad;
} watcher;

static int watch(void *arg, const char *phase, double done, double total)
{
    watcher *w = arg;
    w->calls += 1;
    w->bad += phase == NULL || phase[0] == '\0' || done < 0.0 || done > total;
    return w->calls == w->stops_at;
}

static double custom_slow(void *arg, const void *query, const void *point, int32_t cols)
{
    const struct timespec pause = {.tv_nsec = 200000};
    (void)nanosleep(&pause, NULL);
    return custom_sum(arg, query, point, cols);
}

static void progress(void **state)
{
    (void)state;
    for (const char *kind = "gsb"; *kind != '\0'; kind++) {
        for (int stops_at = 0; stops_at < 3; stops_at++) {
            watcher w = {.stops_at = stops_at};
            kith_ctx_params params = kith_ctx_params_default();
            params.threads = 2;
            params.progress = watch;
            params.progress_arg = &w;
            kith_ctx *watched = NULL;
            assert_int_equal(kith_ctx_create(&params, &watched), KITH_OK);
            call c;
            call_make(&c, *kind);
            c.params.metric = KITH_CUSTOM;
            c.params.custom = custom_slow;
            const kith_status status = call_run(&c, watched);
            if (stops_at == 0) {
                assert_int_equal(status, KITH_OK);
                assert_true(w.calls > 0);
            } else if (w.calls >= stops_at) {
                assert_int_equal(status, KITH_E_CANCELLED);
                assert_int_equal(w.calls, stops_at);
                assert_true(kith_ctx_detail(watched)[0] != '\0');
                w = (watcher){0};
                assert_int_equal(call_run(&c, watched), KITH_OK);
            }
            assert_int_equal(w.bad, 0);
            call_free(&c);
            kith_ctx_free(watched);
        }
    }
    printf("progress is reported, and cancels; the context can be used again\n");
}

/* A job that screens is cancelled too. */
static void cancelled_screen(void **state)
{
    (void)state;
    uint64_t seed = 2;
    test_rows rows = test_rows_make(KITH_F32, 3000, 50, 0);
    test_shape_fill(&rows, SHAPE_GAUSS, false, &seed);
    watcher w = {.stops_at = 1};
    kith_ctx_params params = kith_ctx_params_default();
    params.progress = watch;
    params.progress_arg = &w;
    kith_ctx *watched = NULL;
    assert_int_equal(kith_ctx_create(&params, &watched), KITH_OK);
    kith_search_params search = kith_search_params_default();
    search.k = 10;
    kith_neighbors out = test_answer_make(3000, 10);
    assert_int_equal(kith_graph(watched, &rows.matrix, &search, &out, NULL), KITH_E_CANCELLED);
    assert_int_equal(atomic_load(&watched->held_bytes), 0);
    test_answer_free(&out);
    test_rows_free(&rows);
    kith_ctx_free(watched);
    printf("a graph that is cancelled holds no memory\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes),         cmocka_unit_test(one_excluded),
        cmocka_unit_test(no_context),       cmocka_unit_test(values),
        cmocka_unit_test(parts_of_output),  cmocka_unit_test(older_callers),
        cmocka_unit_test(custom_metric),    cmocka_unit_test(progress),
        cmocka_unit_test(cancelled_screen),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
