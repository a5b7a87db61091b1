/* SPDX-License-Identifier: Apache-2.0
 * Several reference devices (tests/reference) that work in threads of their own: exact graphs and
 * searches are the processor's, descents those of one GPU, byte for byte, with uneven sizes and
 * with equal rows; meetings tell all the same; numbers are agreed on, arrays gathered; a GPU that
 * fails is left out and the others do its work; a failure of all is told once, and nothing is left
 * behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_try.h"
#include "exact/exact_search_gpu.h"
#include "gpu/gpu.h"
#include "graph/graph_gpu.h"
#include "host/host_cpu.h"
#include "screen/screen_kernels.h"
#include "support/support_answers.h"
#include "support/support_mixture.h"
#include "support/support_reference.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 5, ANY_ERROR = 719 };

/* What a failing device does: its copies from others fail from the failing_copy-th on. */
static int32_t failing_device;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* what members write is under it */
static int32_t failing_copy;

/* The thread's own device is the one that copies. */
static int copy_peer(kin_gpu_stream *stream, void *to, const void *from, int32_t from_index,
                     uint64_t bytes)
{
    const kin_gpu_ops *ops = kin_gpu_get_module()->ops;
    int32_t own = -1;
    bool fails = false;
    assert_int_equal(ops->current(&own), 0);
    assert_int_not_equal(own, from_index);
    if (own == failing_device) {
        pthread_mutex_lock(&lock);
        failing_copy -= 1;
        fails = failing_copy < 0;
        pthread_mutex_unlock(&lock);
    }
    return fails ? ANY_ERROR : ops->copy_peer(stream, to, from, from_index, bytes);
}

static kin_gpu *open_team(kith_ctx *ctx, int32_t count)
{
    const int32_t indices[MOST] = {3, 0, 4, 1, 2};
    kin_gpu *gpu = test_reference_team(ctx, indices, count, 0);
    gpu->peak = 0;
    failing_device = -1;
    test_tables.ops.copy_peer = copy_peer;
    return gpu;
}

static kith_matrix points_of(int64_t rows)
{
    return test_mixture_points(rows, 6, 4, 7, 0.5, 5);
}

static kith_search_params params_of(int64_t k)
{
    kith_search_params params = kith_search_params_default();
    params.metric = KITH_EUCLIDEAN;
    params.k = k;
    return params;
}

static kin_request request_of(const kith_matrix *points, int64_t k)
{
    return (kin_request){
        .distance = {.metric = KITH_EUCLIDEAN, .cols = points->cols, .isa = kin_cpu_best()},
        .k = k,
        .method = KITH_METHOD_EXACT};
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

static kith_status solve_graph(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *points, int64_t k,
                               kith_neighbors *out)
{
    const kin_request request = request_of(points, k);
    const kin_exact_gpu_query query = {.name = "points", .request = &request, .out = out};
    kin_gpu_enter(gpu);
    const kith_status status = kin_exact_gpu_search(ctx, gpu, points, &query);
    kin_gpu_leave(gpu);
    return status;
}

static void graphs_are_the_same(int64_t rows, int64_t equal)
{
    enum { K = 7 };
    kith_ctx *ctx = test_reference_ctx();
    kith_matrix points = points_of(rows);
    for (int64_t i = 0; i < equal; i++) {
        test_mixture_copy(&points, rows - 1 - 11 * i, 5 * i);
    }
    kith_neighbors truth = test_answer_make(rows, K);
    const kith_search_params params = params_of(K);
    assert_int_equal(kith_graph(ctx, &points, &params, &truth, NULL), KITH_OK);
    for (int32_t count = 2; count <= MOST; count += equal > 0 ? 3 : 2) {
        kith_neighbors graph = test_answer_make(rows, K);
        kin_gpu *gpu = open_team(ctx, count);
        if (solve_graph(ctx, gpu, &points, K, &graph) != KITH_OK) {
            fail_msg("%d GPUs: %s", (int)count, kith_ctx_detail(ctx));
        }
        assert_true(test_answers_equal(&graph, &truth));
        for (int32_t i = 0; i < count; i++) {
            assert_int_equal(kin_gpu_team_member(gpu->team, i)->held, 0);
            assert_true(i == 0 || rows < (int64_t)count * 1024 ||
                        kin_gpu_team_member(gpu->team, i)->peak > 0);
        }
        kin_gpu_close(ctx, gpu);
        test_answer_free(&graph);
    }
    printf("graphs of %d rows, %d of them equal to others, are the same on up to %d GPUs\n",
           (int)rows, (int)equal, MOST);
    test_answer_free(&truth);
    test_mixture_free(&points);
    kith_ctx_free(ctx);
}

static void graphs_are_those_of_the_processor(void **state)
{
    (void)state;
    if (!test_is_sanitized_build()) {
        graphs_are_the_same(4 * 1024, 0);
    }
    graphs_are_the_same(test_is_sanitized_build() ? 2 * 1024 + 261 : 5 * 1024 + 261, 40);
}

static void searches_are_divided(void **state)
{
    enum { K = 5, ROWS = 700, QUERIES = 3 * 1024 + 17 };
    (void)state;
    kith_ctx *ctx = test_reference_ctx();
    kith_matrix points = points_of(ROWS);
    kith_matrix queries = points_of(QUERIES);
    kith_neighbors truth = test_answer_make(QUERIES, K);
    kith_neighbors found = test_answer_make(QUERIES, K);
    uint32_t *left_out = malloc(QUERIES * sizeof *left_out);
    for (uint32_t i = 0; i < QUERIES; i++) {
        left_out[i] = i % 700;
    }
    kith_search_params params = params_of(K);
    params.exclude = left_out;
    kin_request request = request_of(&points, K);
    request.exclude = left_out;
    assert_int_equal(kith_search(ctx, &points, &queries, &params, &truth, NULL), KITH_OK);
    kin_gpu *gpu = open_team(ctx, 3);
    kin_gpu_enter(gpu);
    const kin_exact_gpu_query query = {&queries, "queries", &request, 0, &found};
    assert_int_equal(kin_exact_gpu_search(ctx, gpu, &points, &query), KITH_OK);
    kin_gpu_leave(gpu);
    assert_true(test_answers_equal(&found, &truth));
    assert_true(kin_gpu_team_member(gpu->team, 2)->peak > 0);
    printf("%d queries on 3 GPUs have the processor's answers\n", QUERIES);
    kin_gpu_close(ctx, gpu);
    free(left_out);
    test_answer_free(&found);
    test_answer_free(&truth);
    test_mixture_free(&queries);
    test_mixture_free(&points);
    kith_ctx_free(ctx);
}

/* ---- Descent --------------------------------------------------------------------------------- */

typedef struct judging {
    int32_t rounds;
    int32_t stop_at; /* asks no more after that many; 0: goes on */
} judging;

static kith_status judge(void *arg, const kin_graph_round *round, kin_graph_verdict *verdict)
{
    judging *j = arg;
    j->rounds = round->number;
    *verdict = j->stop_at != 0 && round->number >= j->stop_at ? KIN_GRAPH_ENOUGH : KIN_GRAPH_GO_ON;
    return KITH_OK;
}

/* Lists of control rows are looked at after every round: their keys are part of what is compared.
 */
typedef struct descended {
    kith_neighbors graph;
    kin_graph_outcome outcome;
    double found[8 * 3];
    double kth[8];
} descended;

static void descend(kith_ctx *ctx, const kith_matrix *points, int32_t count, descended *d)
{
    enum { K = 5 };
    static const uint32_t controls[8] = {3, 700, 1500, 2222, 3100, 3999, 4200, 4400};
    judging j = {.stop_at = 3};
    kin_recall_control control = {
        .ids = controls, .count = 8, .at = 3, .found = d->found, .kth = d->kth};
    const kin_graph_request request = {
        .distance = {.metric = KITH_EUCLIDEAN, .cols = points->cols, .isa = kin_cpu_best()},
        .k = K,
        .candidates = 6,
        .rounds = 5,
        .share = 0.1,
        .control = &control,
        .judge = judge,
        .judge_arg = &j};
    kin_gpu *gpu = open_team(ctx, count);
    d->graph = test_answer_make(points->rows, K);
    kin_gpu_enter(gpu);
    if (kin_graph_gpu_descend(ctx, gpu, points, &request, &d->graph, &d->outcome) != KITH_OK) {
        fail_msg("%d GPUs: %s", (int)count, kith_ctx_detail(ctx));
    }
    kin_gpu_leave(gpu);
    assert_int_equal(j.rounds, d->outcome.rounds);
    for (int32_t i = 0; i < count; i++) {
        const kin_gpu *member = count > 1 ? kin_gpu_team_member(gpu->team, i) : gpu;
        assert_int_equal(member->held, 0);
        assert_true(member->peak > 0);
    }
    kin_gpu_close(ctx, gpu);
}

static void descents_have_the_bytes_of_one(int64_t equal)
{
    enum { ROWS = 4 * 1024 + 405 };
    kith_ctx *ctx = test_reference_ctx();
    kith_matrix points = points_of(ROWS);
    for (int64_t i = 0; i < equal; i++) {
        test_mixture_copy(&points, ROWS - 1 - 11 * i, 5 * i);
    }
    descended one;
    descend(ctx, &points, 1, &one);
    descended all;
    descend(ctx, &points, 3, &all);
    assert_true(test_answers_equal(&one.graph, &all.graph));
    assert_int_equal(one.outcome.rounds, all.outcome.rounds);
    assert_int_equal(one.outcome.updates, all.outcome.updates);
    assert_memory_equal(one.found, all.found, sizeof one.found);
    assert_memory_equal(one.kth, all.kth, sizeof one.kth);
    assert_true(one.outcome.evaluations == all.outcome.evaluations);
    test_answer_free(&all.graph);
    printf("descents of %d rows, %d of them equal to others: the bytes of one GPU on 3, "
           "after %d rounds\n",
           ROWS, (int)equal, (int)one.outcome.rounds);
    test_answer_free(&one.graph);
    test_mixture_free(&points);
    kith_ctx_free(ctx);
}

static void descents_are_those_of_one(void **state)
{
    (void)state;
    descents_have_the_bytes_of_one(40);
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void a_gpu_that_fails_is_left_out(void **state)
{
    enum { K = 4, ROWS = 3 * 1024 + 100 };
    (void)state;
    const int32_t copies[] = {0, 9};
    kith_ctx *ctx = test_reference_ctx();
    kith_matrix points = points_of(ROWS);
    kith_neighbors truth = test_answer_make(ROWS, K);
    const kith_search_params params = params_of(K);
    assert_int_equal(kith_graph(ctx, &points, &params, &truth, NULL), KITH_OK);
    for (size_t i = test_is_sanitized_build() ? 1 : 0; i < sizeof copies / sizeof copies[0]; i++) {
        kith_neighbors graph = test_answer_make(ROWS, K);
        kin_gpu *gpu = open_team(ctx, 3);
        failing_device = i % 2 == 0 ? 4 : 3; /* the third member, the leader */
        failing_copy = copies[i];
        if (solve_graph(ctx, gpu, &points, K, &graph) != KITH_OK) {
            fail_msg("%s", kith_ctx_detail(ctx));
        }
        assert_true(test_answers_equal(&graph, &truth));
        assert_int_equal(kin_gpu_team_count(gpu->team), 2);
        assert_non_null(
            strstr(test_logged, failing_device == 4 ? "cuda:4 is left out" : "cuda:3 is left out"));
        assert_string_equal(kith_ctx_detail(ctx), "");
        for (int32_t m = 0; m < 3; m++) {
            assert_int_equal(kin_gpu_team_member(gpu->team, m)->held, 0);
        }
        char name[32];
        kin_gpu_team_name(gpu->team, name, sizeof name);
        assert_string_equal(name, failing_device == 4 ? "cuda:3,0" : "cuda:0,4");
        kin_gpu_close(ctx, gpu);
        test_answer_free(&graph);
    }
    printf("a GPU of three that fails is left out, the graph is the same: '%s'\n", test_logged);
    test_answer_free(&truth);
    test_mixture_free(&points);
    kith_ctx_free(ctx);
}

static kith_status stop_some(void *arg, kith_ctx *ctx, kin_gpu *gpu, int32_t part, int32_t parts)
{
    const int32_t who = *(const int32_t *)arg;
    (void)parts;
    for (int i = 0; i < 100; i++) {
        if (part == who && i == 50) {
            return kin_fail(ctx, KITH_E_LIMIT, "part %d has enough", (int)part);
        }
        const kith_status status = kin_gpu_meet(gpu, KITH_OK);
        if (status != KITH_OK) {
            assert_true(i == 50);
            return status;
        }
    }
    return KITH_OK;
}

static void a_failure_ends_all(void **state)
{
    (void)state;
    for (int32_t who = 0; who < 4; who++) {
        kith_ctx *ctx = test_reference_ctx();
        kin_gpu *gpu = open_team(ctx, 4);
        kin_gpu_enter(gpu);
        assert_int_equal(kin_gpu_team_run(ctx, gpu->team, true, stop_some, &who), KITH_E_LIMIT);
        kin_gpu_leave(gpu);
        char expected[32];
        (void)snprintf(expected, sizeof expected, "part %d has enough", (int)who);
        assert_string_equal(kith_ctx_detail(ctx), expected);
        assert_int_equal(kin_gpu_team_count(gpu->team), 4);
        kin_gpu_close(ctx, gpu);
        kith_ctx_free(ctx);
    }
    printf("a member that ends wakes those who wait for it; its sentence is told\n");
}

/* ---- Exchange -------------------------------------------------------------------------------- */

static kith_status exchange(void *arg, kith_ctx *ctx, kin_gpu *gpu, int32_t part, int32_t parts)
{
    enum { ITEMS = 1001 };
    int64_t firsts[KIN_GPU_TEAM_MOST + 1];
    uint64_t least = 0;
    int32_t *items = NULL;
    (void)arg;
    kin_gpu_divide(ITEMS, 16, parts, firsts);
    for (int round = 0; round < 20; round++) {
        if (kin_gpu_agree(gpu, (uint64_t)(7 + (part + round) % parts), &least) != KITH_OK ||
            least != 7) {
            return kin_fail(ctx, KITH_E_INTERNAL, "%d is not the least", (int)least);
        }
        if (kin_gpu_alloc(ctx, gpu, &items, ITEMS, sizeof *items, "items") != KITH_OK) {
            return KITH_E_MEMORY;
        }
        KIN_TRY(kin_gpu_wait(ctx, gpu)); /* the block may be one that was used */
        memset(items, 0xff, ITEMS * sizeof *items);
        for (int64_t i = firsts[part]; i < firsts[part + 1]; i++) {
            items[i] = (int32_t)i * round;
        }
        kith_status status = kin_gpu_gather(ctx, gpu, items, sizeof *items, firsts);
        status = status == KITH_OK ? kin_gpu_wait(ctx, gpu) : status;
        for (int32_t i = 0; i < ITEMS && status == KITH_OK; i++) {
            if (items[i] != i * round) {
                return kin_fail(ctx, KITH_E_INTERNAL, "item %d is %d", (int)i, (int)items[i]);
            }
        }
        kin_gpu_free(gpu, items);
    }
    return KITH_OK;
}

static void members_exchange(void **state)
{
    (void)state;
    for (int32_t count = 2; count <= MOST; count++) {
        kith_ctx *ctx = test_reference_ctx();
        kin_gpu *gpu = open_team(ctx, count);
        kin_gpu_enter(gpu);
        if (kin_gpu_team_run(ctx, gpu->team, true, exchange, NULL) != KITH_OK) {
            fail_msg("%s", kith_ctx_detail(ctx));
        }
        kin_gpu_leave(gpu);
        kin_gpu_close(ctx, gpu);
        kith_ctx_free(ctx);
    }
    printf("2 to %d members agree on numbers and gather arrays\n", MOST);
}

static void devices_are_named(void **state)
{
    static const char *const good[] = {"cuda:0,2", "cuda:all", "cuda:3"};
    static const char *const bad[] = {"cuda:", "cuda:0,", "cuda:1,1", "cuda:a", "cuda:0;1"};
    (void)state;
    for (size_t i = 0; i < 8; i++) {
        kith_ctx_params params = kith_ctx_params_default();
        kith_ctx *ctx = NULL;
        kith_matrix points = points_of(20);
        kith_neighbors out = test_answer_make(20, 2);
        const kith_search_params search = params_of(2);
        const bool is_good = i < 3;
        kith_report report = {.struct_size = sizeof report};
        params.device = is_good ? good[i] : bad[i - 3];
        assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
        const kith_status status = kith_graph(ctx, &points, &search, &out, NULL);
        (void)kith_ctx_report(ctx, &report);
        printf("%s: %s %s %s\n", is_good ? good[i] : bad[i - 3], kith_status_text(status),
               report.backend, report.gpu);
        assert_int_equal(status == KITH_E_UNSUPPORTED, !is_good);
        if (is_good) {
            static const char *const backends[] = {"cuda:0,2", "cuda:0,1,2,3,4", "cuda:3"};
            static const char *const gpus[] = {"2 x reference device", "5 x reference device",
                                               "reference device"};
            assert_string_equal(report.backend, backends[i]);
            assert_string_equal(report.gpu, gpus[i]);
        }
        kith_ctx_free(ctx);
        test_answer_free(&out);
        test_mixture_free(&points);
    }
}

int main(void)
{
    test_reference_use(5);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_exchange),
        cmocka_unit_test(a_failure_ends_all),
        cmocka_unit_test(searches_are_divided),
        cmocka_unit_test(graphs_are_those_of_the_processor),
        cmocka_unit_test(descents_are_those_of_one),
        cmocka_unit_test(a_gpu_that_fails_is_left_out),
        cmocka_unit_test(devices_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
