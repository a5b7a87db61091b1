/* SPDX-License-Identifier: Apache-2.0
 * The driver of walks on a graph on a GPU, on the reference device: what walks find, the
 * exact engine beside them, queries whose walks met too few rows, the same bytes in stripes of any
 * size, little memory, mistakes, copies that fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph_gpu.h"
#include "host/host_cpu.h"
#include "support/support_answers.h"
#include "support/support_mixture.h"
#include "support/support_reference.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <string.h>

static const uint64_t PLENTY = (uint64_t)1 << 40;
enum { POINTS = 1500, QUERIES = 700, COLS = 8, LINKS = 8, K = 6 };

typedef struct set {
    kith_ctx *ctx;
    kith_matrix all;
    kith_matrix points;
    kith_matrix queries;
    kith_metric metric;
    kith_neighbors graph;
    kith_neighbors truth;
    kith_neighbors out;
} set;

static set set_make(kith_dtype dtype, kith_metric metric)
{
    const test_mixture mixture = {.dtype = dtype,
                                  .rows = POINTS + QUERIES,
                                  .cols = COLS,
                                  .inner = 4,
                                  .clusters = 10,
                                  .spread = 0.4,
                                  .seed = 9};
    kith_ctx_params ctx_params = kith_ctx_params_default();
    kith_search_params params = kith_search_params_default();
    set s = {.all = test_mixture_make(&mixture), .metric = metric};
    ctx_params.device = "cpu";
    ctx_params.threads = 2;
    assert_int_equal(kith_ctx_create(&ctx_params, &s.ctx), KITH_OK);
    for (int64_t row = 0; row < POINTS; row += 30) {
        test_mixture_copy(&s.all, row, row / 2);
    }
    s.points = s.all;
    s.points.rows = POINTS;
    s.queries = s.all;
    s.queries.rows = QUERIES;
    s.queries.data = (const char *)s.all.data + POINTS * s.all.stride_bytes;
    s.graph = test_answer_make(POINTS, LINKS);
    s.truth = test_answer_make(QUERIES, K);
    s.out = test_answer_make(QUERIES, K);
    params.metric = metric;
    params.k = LINKS;
    assert_int_equal(kith_graph(s.ctx, &s.points, &params, &s.graph, NULL), KITH_OK);
    params.k = K;
    assert_int_equal(kith_search(s.ctx, &s.points, &s.queries, &params, &s.truth, NULL), KITH_OK);
    return s;
}

static void set_free(set *s)
{
    test_answer_free(&s->out);
    test_answer_free(&s->truth);
    test_answer_free(&s->graph);
    test_mixture_free(&s->all);
    kith_ctx_free(s->ctx);
}

typedef struct asked {
    uint64_t budget;
    int64_t width;
    int32_t short_walks;
    int64_t failing_copy;
    bool exactly;
} asked;

static int64_t stripes;     /* launches of walks since the device was opened, */
static int64_t walked;      /* and the queries of those before */
static int32_t short_walks; /* of so many queries one meets a single row; 0: none */

static int walk(kin_gpu_stream *stream, const kin_graph_gpu_walk *job)
{
    const kin_gpu_module *given = kin_gpu_get_module();
    int error = given->graph->walk(stream, job);
    if (error == 0 && short_walks != 0) {
        error = given->ops->wait(stream);
        for (int64_t i = 0; i < job->count; i++) {
            job->found[i] = (walked + i) % short_walks == 0 ? 1 : job->found[i];
        }
    }
    stripes += 1;
    walked += job->count;
    return error;
}

static kith_status work(set *s, kin_gpu *gpu, const asked *a, double *evaluations)
{
    const kin_graph_gpu_ground ground = {
        .points = &s->points,
        .graph = &s->graph,
        .distance = {.metric = s->metric, .cols = COLS, .isa = kin_cpu_best()},
        .k = K};
    const kin_graph_gpu_walks walkers = {.queries = &s->queries, .width = a->width, .seed = 4};
    kin_graph_gpu_paths *paths = NULL;
    kin_graph_effort effort = {0};
    kith_status status = kin_graph_gpu_paths_make(s->ctx, gpu, &ground, &paths);
    if (status == KITH_OK) {
        assert_true(kin_graph_gpu_paths_parts(paths) >= 1);
        short_walks = a->short_walks;
        status = a->exactly ? kin_graph_gpu_walk_solve(s->ctx, paths, &s->queries, 0, &s->out)
                            : kin_graph_gpu_walk_run(s->ctx, paths, &walkers, &s->out, &effort);
        *evaluations = effort.met + effort.walked;
    }
    kin_graph_gpu_paths_free(paths);
    assert_int_equal(gpu->held, 0);
    return status;
}

static kith_status solve(set *s, const asked *a, double *evaluations)
{
    kin_gpu *gpu = test_reference_gpu(s->ctx, a->budget);
    test_tables.graph.walk = walk;
    stripes = 0;
    walked = 0;
    test_faults.failing_copy = a->failing_copy;
    const kith_status status = work(s, gpu, a, evaluations);
    test_faults.failing_copy = 0;
    assert_true(gpu->peak <= a->budget);
    kin_gpu_close(s->ctx, gpu);
    test_reference_is_empty();
    return status;
}

static double recall_of(const set *s)
{
    return test_graph_recall(s->metric, &s->out, &s->truth, K);
}

static kith_neighbors copy_of(const kith_neighbors *out)
{
    kith_neighbors kept = test_answer_make(out->rows, out->k);
    const size_t count = (size_t)(out->rows * out->k);
    memcpy(kept.ids, out->ids, count * sizeof *kept.ids);
    memcpy(kept.distances, out->distances, count * sizeof *kept.distances);
    memcpy(kept.distances64, out->distances64, count * sizeof *kept.distances64);
    return kept;
}

/* ---- What is found --------------------------------------------------------------------------- */

static void walks_find(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_MANHATTAN};
    for (int m = 0; m < 6; m++) {
        set s = set_make(m % 2 == 0 ? KITH_F32 : KITH_U8, metrics[m / 2]);
        asked a = {.budget = PLENTY, .width = 40};
        double evaluations = 0.0;
        assert_int_equal(solve(&s, &a, &evaluations), KITH_OK);
        const double recall = recall_of(&s);
        printf("    %-13s recall %.4f with %.0f keys a query\n", kith_metric_name(s.metric), recall,
               evaluations / QUERIES);
        assert_true(recall > (s.metric == KITH_INNER_PRODUCT ? 0.5 : 0.95));
        assert_true(evaluations < 0.6 * (double)POINTS * QUERIES);
        a.exactly = true;
        assert_int_equal(solve(&s, &a, &evaluations), KITH_OK);
        assert_true(test_answers_equal(&s.out, &s.truth));
        set_free(&s);
        if (test_is_slow_build() && m == 1) {
            break;
        }
    }
}

/* One of three walks meets one row: these queries are solved. */
static void short_walks_are_solved(void **state)
{
    (void)state;
    set s = set_make(KITH_F32, KITH_EUCLIDEAN);
    asked a = {.budget = PLENTY, .width = 30};
    double evaluations = 0.0;
    double more = 0.0;
    assert_int_equal(solve(&s, &a, &evaluations), KITH_OK);
    const double before = recall_of(&s);
    a.short_walks = 3;
    assert_int_equal(solve(&s, &a, &more), KITH_OK);
    printf("    recall %.4f, with every third query solved %.4f\n", before, recall_of(&s));
    assert_true(recall_of(&s) >= before);
    assert_true(more - evaluations > 0.25 * (double)POINTS * QUERIES);
    a.short_walks = 1;
    assert_int_equal(solve(&s, &a, &more), KITH_OK);
    assert_true(test_answers_equal(&s.out, &s.truth));
    set_free(&s);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* From what suffices for all queries at once down to nothing. */
static void budgets(void **state)
{
    (void)state;
    set s = set_make(KITH_F32, KITH_EUCLIDEAN);
    asked a = {.budget = PLENTY, .width = 20};
    double evaluations = 0.0;
    int refused = 0;
    int64_t most_stripes = 0;
    const uint64_t part = test_is_slow_build() ? 3 : 8;
    assert_int_equal(solve(&s, &a, &evaluations), KITH_OK);
    assert_int_equal(stripes, 1);
    kith_neighbors kept = copy_of(&s.out);
    for (a.budget = (uint64_t)1 << 21; a.budget > 4096; a.budget -= a.budget / part) {
        double again = 0.0;
        const kith_status status = solve(&s, &a, &again);
        if (status == KITH_OK) {
            assert_true(test_answers_equal(&s.out, &kept));
            most_stripes = stripes > most_stripes ? stripes : most_stripes;
        } else {
            assert_int_equal(status, KITH_E_DEVICE_MEMORY);
            refused += 1;
        }
    }
    printf("    up to %d stripes, the same bytes; %d budgets were too small\n", (int)most_stripes,
           refused);
    assert_true(most_stripes > 1 && refused > 0);
    test_answer_free(&kept);
    set_free(&s);
}

/* Every copy fails once; nothing is left behind. */
static void copies_that_fail(void **state)
{
    (void)state;
    set s = set_make(KITH_F32, KITH_EUCLIDEAN);
    asked a = {.budget = PLENTY, .width = 20, .failing_copy = 1};
    double evaluations = 0.0;
    int failures = 0;
    while (solve(&s, &a, &evaluations) != KITH_OK) {
        failures += 1;
        a.failing_copy += 1;
        assert_true(failures < 1000);
    }
    printf("    %d copies that fail are told\n", failures);
    assert_true(failures > 5);
    set_free(&s);
}

/* ---- Mistakes -------------------------------------------------------------------------------- */

static void mistakes_are_named(void **state)
{
    (void)state;
    set s = set_make(KITH_F32, KITH_EUCLIDEAN);
    asked a = {.budget = PLENTY, .width = 20};
    double evaluations = 0.0;
    s.metric = KITH_CUSTOM;
    assert_int_equal(solve(&s, &a, &evaluations), KITH_E_UNSUPPORTED);
    s.metric = KITH_EUCLIDEAN;
    a.budget = 4096;
    assert_int_equal(solve(&s, &a, &evaluations), KITH_E_DEVICE_MEMORY);
    assert_non_null(strstr(kith_ctx_detail(s.ctx), "16 links each do not fit"));
    set_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_find),
        cmocka_unit_test(short_walks_are_solved),
        cmocka_unit_test(budgets),
        cmocka_unit_test(copies_that_fail),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
