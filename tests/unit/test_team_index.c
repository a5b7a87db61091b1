/* SPDX-License-Identifier: Apache-2.0
 * Indices on several reference devices, one of two and one of three: what they are asked has the
 * bytes of one device, for every method, of none, one and many queries, after rows were added and
 * removed, saved and opened, by threads at once. Many queries are divided among all, few are the
 * first one's. So are all within a radius, and walks on a graph, without an index. A device without
 * room, one that fails and a bad value are one error, or none, and nothing is left. In slow builds
 * graphs of floats are asked less, with the thread sanitizer not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/gpu.h"
#include "index/index.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_gpu.h"
#include "support/support_mixture.h"
#include "support/support_reference.h"
#include "support/support_shapes.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEVICES = 3, LEAST = 1024, LEAST_TREE = 65536, K = 5 };

static const char *const NAMES[] = {"cuda:0", "cuda:0,1", "cuda:all"};

static kith_ctx *ctx_on(int32_t devices)
{
    return test_ctx_on(NAMES[devices - 1], 2, 0);
}

static kith_matrix rows_of(kith_dtype dtype, int64_t rows, int32_t cols, uint64_t seed)
{
    const test_mixture mixture = {.dtype = dtype,
                                  .rows = rows,
                                  .cols = cols,
                                  .inner = cols,
                                  .clusters = 20,
                                  .spread = 0.5,
                                  .seed = seed};
    kith_matrix made = test_mixture_make(&mixture);
    for (int64_t i = 0; i < rows / 50; i++) {
        test_mixture_copy(&made, rows - 1 - 3 * i, 2 * i);
    }
    return made;
}

/* ---- Who works ------------------------------------------------------------------------------- */

static void forget_work(const kith_index *index)
{
    const kin_gpu_team *team = index->gpu->team;
    for (int32_t i = 0; team != NULL && i < kin_gpu_team_size(team); i++) {
        kin_gpu_team_member(team, i)->peak = 0;
    }
}

/* GPUs that have computed since then. */
static int32_t count_workers(const kith_index *index)
{
    const kin_gpu_team *team = index->gpu->team;
    int32_t count = team == NULL;
    for (int32_t i = 0; team != NULL && i < kin_gpu_team_size(team); i++) {
        count += kin_gpu_team_member(team, i)->peak > 0;
    }
    return count;
}

/* ---- Neighbours ------------------------------------------------------------------------------ */

typedef struct setting {
    kith_method method;
    kith_dtype dtype;
    kith_dtype asked;
    int64_t rows;
    int32_t cols;
    int64_t least; /* queries a device that is asked */
    bool excludes; /* and within a radius */
} setting;

static const setting settings[] = {
    {KITH_METHOD_EXACT, KITH_F32, KITH_F32, 1500, 12, LEAST, false},
    {KITH_METHOD_EXACT, KITH_U8, KITH_F32, 1200, 8, LEAST, true},
    {KITH_METHOD_TREE, KITH_F32, KITH_F32, 2000, 3, LEAST_TREE, true},
    {KITH_METHOD_GRAPH, KITH_F32, KITH_F32, 2100, 6, LEAST, false},
    {KITH_METHOD_GRAPH, KITH_U8, KITH_U8, 800, 12, LEAST, false},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static kith_index *index_of(kith_ctx *ctx, const setting *s, const kith_matrix *points)
{
    kith_index_params params = kith_index_params_default();
    kith_index *index = NULL;
    params.method = s->method;
    params.k = s->method == KITH_METHOD_GRAPH ? 8 : 0;
    test_works(ctx, kith_index_create(ctx, points, &params, &index));
    return index;
}

static uint32_t *excluded(int64_t rows, int64_t corpus)
{
    uint32_t *ids = malloc((size_t)rows * sizeof *ids);
    assert_non_null(ids);
    for (int64_t i = 0; i < rows; i++) {
        ids[i] = (uint32_t)(i * 7 % corpus);
    }
    return ids;
}

/* Of the first `rows` queries; ends the test where not so many devices worked. */
static void ask(kith_ctx *ctx, const kith_index *index, const setting *s, kith_matrix queries,
                int32_t workers, const kith_neighbors *out)
{
    kith_search_params params = kith_search_params_default();
    uint32_t *ids = NULL;
    queries.rows = out->rows;
    params.k = K;
    if (s->excludes) {
        ids = excluded(queries.rows, s->rows);
        params.exclude = ids;
        params.radius = 0.9;
        params.flags = KITH_WITHIN_RADIUS;
    }
    if (s->method == KITH_METHOD_GRAPH) {
        params.recall = 0.9;
    }
    forget_work(index);
    test_works(ctx, kith_index_search(ctx, index, &queries, &params, out, NULL));
    assert_int_equal(count_workers(index), workers);
    free(ids);
}

static void compare(const setting *s, const kith_matrix *queries, int64_t rows,
                    kith_index *const *indices, kith_ctx *const *contexts)
{
    kith_neighbors one = test_answer_make(rows, K);
    ask(contexts[0], indices[0], s, *queries, 1, &one);
    for (int32_t d = 1; d < DEVICES; d++) {
        const bool many = rows >= s->least * (d + 1);
        kith_neighbors all = test_answer_make(rows, K);
        ask(contexts[d], indices[d], s, *queries, many ? d + 1 : 1, &all);
        assert_true(test_answers_equal(&one, &all));
        test_answer_free(&all);
    }
    test_answer_free(&one);
}

static void change(kith_ctx *ctx, kith_index *index, const kith_matrix *more)
{
    const uint32_t gone[] = {3, 700, 4};
    test_works(ctx, kith_index_add(ctx, index, more));
    test_works(ctx, kith_index_remove(ctx, index, gone, 3));
}

static void save_and_open(kith_ctx *ctx, kith_index **index)
{
    char path[] = "/tmp/kith_team_index_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    (void)close(file);
    test_works(ctx, kith_index_save(ctx, *index, path));
    kith_index_free(*index);
    test_works(ctx, kith_index_open(ctx, path, index));
    (void)unlink(path);
}

static void search(const setting *s)
{
    const int64_t counts[] = {1, 2 * s->least + 3, 3 * s->least + 5};
    /* By the tree two of them are many already. A graph of floats is asked less in a slow build:
     * one query, which nobody divides, once it has changed; that of bytes is asked all. */
    const bool less =
        test_is_slow_build() && s->method == KITH_METHOD_GRAPH && s->dtype == KITH_F32;
    const size_t some = s->method == KITH_METHOD_TREE || less ? 2 : 3;
    kith_matrix points = rows_of(s->dtype, s->rows, s->cols, 3);
    kith_matrix queries = rows_of(s->asked, counts[some - 1], s->cols, 4);
    kith_matrix more = rows_of(s->dtype, 100, s->cols, 5);
    kith_ctx *contexts[DEVICES];
    kith_index *indices[DEVICES];
    for (int32_t d = 0; d < DEVICES; d++) {
        contexts[d] = ctx_on(d + 1);
        indices[d] = index_of(contexts[d], s, &points);
    }
    assert_true(test_index_info(indices[2]).bytes > 2 * test_index_info(indices[0]).bytes);
    for (size_t i = 0; i < some; i++) {
        compare(s, &queries, counts[i], indices, contexts);
    }
    for (int32_t d = 0; d < DEVICES; d++) {
        change(contexts[d], indices[d], &more);
    }
    compare(s, &queries, counts[some == 2 ? 0 : 2], indices, contexts);
    for (int32_t d = 0; d < DEVICES; d++) {
        save_and_open(contexts[d], &indices[d]);
    }
    compare(s, &queries, counts[some == 2 ? 0 : 1], indices, contexts);
    for (int32_t d = 0; d < DEVICES; d++) {
        kith_index_free(indices[d]);
        kith_ctx_free(contexts[d]);
    }
    test_mixture_free(&more);
    test_mixture_free(&queries);
    test_mixture_free(&points);
}

static void searches(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETTINGS; i += test_is_slow_build() && i == 0 ? 2 : 1) {
        if (test_is_thread_build() && settings[i].method == KITH_METHOD_GRAPH &&
            settings[i].dtype == KITH_F32) {
            continue; /* the graph of bytes has the same threads */
        }
        printf("  %s, %lld x %d\n", kin_index_method_name(settings[i].method),
               (long long)settings[i].rows, (int)settings[i].cols);
        search(&settings[i]);
    }
}

/* No queries: whatever one device says. */
static void none(void **state)
{
    (void)state;
    const setting *s = &settings[0];
    kith_matrix points = rows_of(s->dtype, s->rows, s->cols, 3);
    const kith_search_params params = {.struct_size = sizeof params, .k = K};
    kith_neighbors out = test_answer_make(1, K);
    kith_matrix queries = points;
    queries.rows = out.rows = 0;
    kith_status status[2];
    for (int32_t d = 0; d < 2; d++) {
        kith_ctx *ctx = ctx_on(1 + 2 * d);
        kith_index *index = index_of(ctx, s, &points);
        status[d] = kith_index_search(ctx, index, &queries, &params, &out, NULL);
        kith_index_free(index);
        kith_ctx_free(ctx);
    }
    assert_int_equal(status[0], status[1]);
    test_answer_free(&out);
    test_mixture_free(&points);
}

/* ---- All within a radius --------------------------------------------------------------------- */

static void assert_same_lists(const kith_ranges *a, const kith_ranges *b)
{
    const kith_lists *one = kith_ranges_lists(a);
    const kith_lists *all = kith_ranges_lists(b);
    const size_t rows = (size_t)one->rows;
    assert_int_equal(one->rows, all->rows);
    assert_memory_equal(one->offsets, all->offsets, (rows + 1) * sizeof *one->offsets);
    assert_true((one->ids == NULL) == (all->ids == NULL));
    const size_t total = (size_t)one->offsets[rows];
    if (one->ids != NULL && total > 0) {
        assert_memory_equal(one->ids, all->ids, total * sizeof *one->ids);
        assert_memory_equal(one->distances, all->distances, total * sizeof *one->distances);
        assert_memory_equal(one->distances64, all->distances64, total * sizeof *one->distances64);
    }
}

typedef struct within {
    const char *name;
    kith_method method;
    kith_metric metric;
    int64_t rows;
    int32_t cols;
    int64_t queries; /* 0: the points themselves */
    bool each;       /* query has a radius of its own */
    bool counts;
    bool own; /* ids are found, too */
} within;

static const within radii[] = {
    {"all pairs", KITH_METHOD_EXACT, KITH_EUCLIDEAN, 1500, 8, 3 * LEAST + 5, false, false, false},
    {"all pairs, cosine", KITH_METHOD_EXACT, KITH_COSINE, 900, 8, 2 * LEAST, true, false, false},
    {"all pairs, counted", KITH_METHOD_AUTO, KITH_EUCLIDEAN, 900, 30, 2 * LEAST + 1, true, true,
     false},
    {"points by all pairs", KITH_METHOD_EXACT, KITH_EUCLIDEAN, 2 * LEAST, 8, 0, false, false,
     false},
    {"tree", KITH_METHOD_TREE, KITH_EUCLIDEAN, 900, 10, 2 * LEAST_TREE + 5, true, false, false},
    {"tree, few columns", KITH_METHOD_TREE, KITH_EUCLIDEAN, 150, 2, 2 * LEAST_TREE, false, true,
     true},
    {"points by the tree", KITH_METHOD_TREE, KITH_EUCLIDEAN, 2 * LEAST_TREE + 3, 10, 0, true, false,
     false},
};

static kith_ranges *find(const within *w, const kith_matrix *points, const kith_matrix *queries,
                         int32_t devices, bool by_index)
{
    kith_ctx *ctx = ctx_on(devices);
    kith_radius_params params = kith_radius_params_default();
    kith_ranges *ranges = NULL;
    const int64_t rows = w->queries > 0 ? w->queries : w->rows;
    double *each = malloc((size_t)rows * sizeof *each);
    assert_non_null(each);
    params.radius = w->rows > LEAST_TREE ? 0.12 : 0.1 * w->cols;
    for (int64_t i = 0; i < rows; i++) {
        each[i] = params.radius * (double)(i % 5) / 4.0;
    }
    params.metric = w->metric;
    params.radii = w->each ? each : NULL;
    params.count_only = w->counts;
    params.flags = w->own ? KITH_INCLUDE_SELF : 0;
    const kith_matrix *asked = w->queries > 0 ? queries : NULL;
    if (by_index) {
        kith_index_params made = kith_index_params_default();
        kith_index *index = NULL;
        made.metric = w->metric;
        made.method = w->method;
        test_works(ctx, kith_index_create(ctx, points, &made, &index));
        forget_work(index);
        test_works(ctx, kith_index_radius(ctx, index, asked, &params, &ranges));
        const bool divided = w->method == KITH_METHOD_TREE
                                 ? w->cols >= 10 && rows >= (int64_t)LEAST_TREE * devices
                                 : w->queries > 0 && rows >= (int64_t)LEAST * devices;
        assert_int_equal(count_workers(index), divided ? devices : 1);
        kith_index_free(index);
    } else {
        params.method = w->method;
        test_works(ctx, kith_radius(ctx, points, asked, &params, &ranges));
    }
    free(each);
    /* The table keeps its context. */
    return ranges;
}

static void drop(kith_ranges *ranges)
{
    kith_ctx *ctx = ranges->ctx;
    kith_ranges_free(ranges);
    kith_ctx_free(ctx);
}

static void within_radii(void **state)
{
    (void)state;
    const size_t count = sizeof radii / sizeof *radii;
    const bool few = test_is_slow_build(); /* each way once, and the tree by its fewest answers */
    for (size_t i = few ? 1 : 0; i < (few ? 5 : count); i++) {
        const within *w = &radii[i];
        kith_matrix points = rows_of(KITH_F32, w->rows, w->cols, 3);
        kith_matrix queries = rows_of(KITH_F32, w->queries > 0 ? w->queries : 1, w->cols, 4);
        kith_ranges *one = find(w, &points, &queries, 1, false);
        printf("  %s: %lld neighbours\n", w->name, (long long)one->lists.offsets[one->lists.rows]);
        const int32_t most = w->method == KITH_METHOD_TREE ? 2 : DEVICES; /* which they divide */
        for (int32_t d = 2; d <= most; d++) {
            for (int by_index = 0; by_index < 2; by_index++) {
                kith_ranges *all = find(w, &points, &queries, d, by_index == 1);
                assert_same_lists(one, all);
                drop(all);
            }
        }
        drop(one);
        test_mixture_free(&queries);
        test_mixture_free(&points);
    }
}

/* ---- Walks without an index ------------------------------------------------------------------ */

static void walk_once(int32_t devices, const kith_matrix *points, const kith_neighbors *graph,
                      const kith_matrix *queries, const kith_neighbors *out)
{
    kith_ctx *ctx = ctx_on(devices);
    kith_search_params params = kith_search_params_default();
    kith_walk_params walk = kith_walk_params_default();
    walk.graph = graph;
    params.k = K;
    params.method = KITH_METHOD_GRAPH;
    params.recall = 0.9;
    params.walk = &walk;
    test_works(ctx, kith_search(ctx, points, queries, &params, out, NULL));
    kith_ctx_free(ctx);
}

static void walks(void **state)
{
    (void)state;
    kith_matrix points = rows_of(KITH_F32, 2500, 10, 3);
    kith_matrix queries = rows_of(KITH_F32, 3 * LEAST + 2, 10, 4);
    kith_ctx *ctx = ctx_on(1);
    kith_neighbors graph = test_answer_exact(ctx, &points, KITH_EUCLIDEAN, 8, 0);
    kith_neighbors one = test_answer_make(queries.rows, K);
    walk_once(1, &points, &graph, &queries, &one);
    for (int32_t d = 2; d <= DEVICES; d++) {
        kith_neighbors all = test_answer_make(queries.rows, K);
        walk_once(d, &points, &graph, &queries, &all);
        assert_true(test_answers_equal(&one, &all));
        test_answer_free(&all);
    }
    test_answer_free(&one);
    test_answer_free(&graph);
    kith_ctx_free(ctx);
    test_mixture_free(&queries);
    test_mixture_free(&points);
}

/* ---- Threads --------------------------------------------------------------------------------- */

enum { THREADS = 4 };

typedef struct searcher {
    const kith_index *index;
    const kith_matrix *queries;
    const kith_neighbors *expected;
    bool equal;
    pthread_t thread;
} searcher;

static void *search_again(void *arg)
{
    searcher *s = arg;
    kith_ctx *ctx = ctx_on(DEVICES);
    kith_neighbors out = test_answer_make(s->expected->rows, K);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    s->equal = true;
    for (int i = 0; i < 3; i++) {
        s->equal = kith_index_search(ctx, s->index, s->queries, &params, &out, NULL) == KITH_OK &&
                   test_answers_equal(&out, s->expected) && s->equal;
    }
    test_answer_free(&out);
    kith_ctx_free(ctx);
    return NULL;
}

static void threads(void **state)
{
    (void)state;
    const setting *s = &settings[0];
    kith_matrix points = rows_of(s->dtype, s->rows, s->cols, 3);
    kith_matrix queries = rows_of(s->asked, 3 * LEAST + 1, s->cols, 4);
    kith_ctx *ctx = ctx_on(DEVICES);
    kith_index *index = index_of(ctx, s, &points);
    kith_neighbors expected = test_answer_make(queries.rows, K);
    searcher all[THREADS];
    ask(ctx, index, s, queries, DEVICES, &expected);
    kith_ctx_free(ctx); /* an index outlives it */
    for (int i = 0; i < THREADS; i++) {
        all[i] = (searcher){.index = index, .queries = &queries, .expected = &expected};
        assert_int_equal(pthread_create(&all[i].thread, NULL, search_again, &all[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(all[i].thread, NULL), 0);
        assert_true(all[i].equal);
    }
    test_answer_free(&expected);
    kith_index_free(index);
    test_mixture_free(&queries);
    test_mixture_free(&points);
}

/* ---- Failures -------------------------------------------------------------------------------- */

static uint64_t room_of(int32_t device)
{
    kith_ctx *ctx = test_reference_ctx();
    kin_gpu *gpu = NULL;
    assert_int_equal(kin_gpu_open(ctx, device, 0, &gpu), KITH_OK);
    const uint64_t room = kin_gpu_room(gpu);
    kin_gpu_close(ctx, gpu);
    kith_ctx_free(ctx);
    return room;
}

/* All of it but so much; freed with what is returned. */
static kin_gpu *take_memory(kith_ctx *ctx, int32_t device, uint64_t but, void **block)
{
    kin_gpu *gpu = NULL;
    uint64_t room = 0;
    assert_int_equal(kin_gpu_open(ctx, device, 0, &gpu), KITH_OK);
    const kin_gpu_ops *ops = gpu->module->ops;
    assert_int_equal(ops->free_bytes(gpu->stream, &room), 0);
    assert_int_equal(ops->allocate(gpu->stream, room - but, block), 0);
    return gpu;
}

static void give_memory(kith_ctx *ctx, kin_gpu *gpu, void *block)
{
    gpu->module->ops->release(gpu->stream, block);
    kin_gpu_close(ctx, gpu);
}

/* The second one's memory is somebody else's. */
static void no_room(void **state)
{
    (void)state;
    kith_ctx *other = test_reference_ctx();
    const uint64_t room = room_of(1);
    void *block = NULL;
    kin_gpu *gpu = take_memory(other, 1, 16 << 10, &block);
    for (size_t i = 0; i < SETTINGS; i += 2) {
        const setting *s = &settings[i];
        kith_matrix points = rows_of(s->dtype, s->rows, s->cols, 3);
        kith_index_params params = kith_index_params_default();
        kith_index *index = NULL;
        kith_ctx *ctx = ctx_on(DEVICES);
        params.method = s->method;
        params.k = s->method == KITH_METHOD_GRAPH ? 8 : 0;
        test_fails(ctx, kith_index_create(ctx, &points, &params, &index), KITH_E_DEVICE_MEMORY,
                   s->method == KITH_METHOD_TREE ? "does not fit" : "cuda:1 has no room");
        assert_null(index);
        kith_ctx_free(ctx);
        test_mixture_free(&points);
    }
    give_memory(other, gpu, block);
    kith_ctx_free(other);
    for (int32_t d = 0; d < DEVICES; d++) {
        assert_int_equal(room_of(d), room);
    }
}

static int32_t failing_device = -1;

static int walk(kin_gpu_stream *stream, const kin_tree_gpu_walk *job)
{
    enum { ANY_ERROR = 1 };
    int32_t own = -1;
    assert_int_equal(kin_gpu_get_module()->ops->current(&own), 0);
    return own == failing_device ? ANY_ERROR : kin_gpu_get_module()->tree->walk(stream, job);
}

/* It is left out for good, the first one, too. */
static void fails(void **state)
{
    (void)state;
    const setting *s = &settings[2]; /* by the tree */
    kith_matrix points = rows_of(s->dtype, s->rows, s->cols, 3);
    kith_matrix queries = rows_of(s->asked, 2 * LEAST_TREE, s->cols, 4);
    kith_ctx *ctx = ctx_on(2);
    kith_index *index = index_of(ctx, s, &points);
    kith_neighbors expected = test_answer_make(queries.rows, K);
    kith_neighbors out = test_answer_make(queries.rows, K);
    ask(ctx, index, s, queries, 2, &expected);
    for (int32_t i = 0; i < 2; i++) {
        test_reference_watch(kin_gpu_team_member(index->gpu->team, i));
    }
    test_tables.tree.walk = walk;
    failing_device = 0;
    for (int i = 0; i < 2; i++) {
        ask(ctx, index, s, queries, 2, &out); /* the first one is entered */
        assert_true(test_answers_equal(&out, &expected));
    }
    const kith_status status = kith_index_add(ctx, index, &queries);
    test_fails(ctx, status, KITH_E_DEVICE, "cuda:0, the first");
    failing_device = -1;
    test_answer_free(&out);
    test_answer_free(&expected);
    kith_index_free(index);
    kith_ctx_free(ctx);
    test_mixture_free(&queries);
    test_mixture_free(&points);
}

/* Of a share of the queries the message names the row of all. */
static void bad_value(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETTINGS; i += 3) {
        const setting *s = &settings[i];
        kith_matrix points = rows_of(s->dtype, s->rows, s->cols, 3);
        kith_matrix queries = rows_of(s->asked, 3 * s->least, s->cols, 4);
        kith_search_params params = kith_search_params_default();
        kith_ctx *ctx = ctx_on(DEVICES);
        kith_index *index = index_of(ctx, s, &points);
        kith_neighbors out = test_answer_make(queries.rows, K);
        char says[32];
        params.k = K;
        (void)snprintf(says, sizeof says, "%lld", (long long)(queries.rows - 7));
        float *values = NULL;
        memcpy(&values, &queries.data, sizeof values);
        values[(queries.rows - 7) * s->cols] = NAN;
        test_fails(ctx, kith_index_search(ctx, index, &queries, &params, &out, NULL), KITH_E_DATA,
                   says);
        test_answer_free(&out);
        kith_index_free(index);
        kith_ctx_free(ctx);
        test_mixture_free(&queries);
        test_mixture_free(&points);
    }
}

int main(void)
{
    (void)setenv("KITH_REFERENCE_BYTES", "268435456", 1);
    test_reference_use(DEVICES);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(searches), cmocka_unit_test(none),      cmocka_unit_test(within_radii),
        cmocka_unit_test(walks),    cmocka_unit_test(threads),   cmocka_unit_test(no_room),
        cmocka_unit_test(fails),    cmocka_unit_test(bad_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
