/* SPDX-License-Identifier: Apache-2.0
 * Host memory that runs out while a GPU computes: for n = 1, 2, 3 ... the n-th allocation fails
 * until the call succeeds. Each failure is KITH_E_MEMORY with a sentence and holds nothing
 * afterwards, on the host or on the device. A progress function that cancels: the same. A process
 * that is forked later has no GPU, and is told so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/gpu.h"
#include "support/support_answers.h"
#include "support/support_compare.h"
#include "support/support_faulty.h"
#include "support/support_gpu.h"
#include "support/support_shapes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS = 8, K = 7, MOST_ALLOCATIONS = 5000 };

typedef struct input {
    test_rows points;
    test_rows zeros; /* some rows are zero */
    test_rows queries;
    test_job jobs[JOBS];
    kith_neighbors wanted[JOBS];
    uint64_t device_free;
} input;

static uint64_t device_free(void)
{
    kin_gpu_stream *stream = NULL;
    uint64_t bytes = 0;
    const kin_gpu_ops *ops = kin_gpu_get_module()->ops;
    assert_int_equal(ops->make_current(0), 0);
    assert_int_equal(ops->open(0, NULL, &stream), 0);
    assert_int_equal(ops->free_bytes(stream, &bytes), 0);
    ops->close(stream);
    return bytes;
}

/* True when the job succeeded. */
static bool run_job(input *in, int number, long fails_at)
{
    const test_job *job = &in->jobs[number];
    test_faulty f = {.fails_at =
                         fails_at == 1 ? 0 : fails_at}; /* the context itself is the first */
    kith_ctx *ctx = test_faulty_ctx("cuda", &f, 0);
    kith_neighbors got;
    const kith_status status = test_job_solve(ctx, job, &got);
    const bool failed_on_purpose = fails_at > 1 && atomic_load(&f.asked) >= fails_at;
    if (failed_on_purpose ? status != KITH_E_MEMORY || kith_ctx_detail(ctx)[0] == '\0'
                          : status != KITH_OK) {
        fail_msg("%s: allocation %ld fails: %s '%s'", job->name, fails_at, kith_status_name(status),
                 kith_ctx_detail(ctx));
    }
    if (status == KITH_OK) {
        assert_false(test_answers_differ(job->name, &in->wanted[number], &got));
    }
    test_answer_free(&got);
    kith_ctx_free(ctx);
    assert_int_equal(atomic_load(&f.blocks), 0);
    assert_int_equal(atomic_load(&f.bytes), 0);
    return status == KITH_OK;
}

static void allocations_that_fail(void **state)
{
    input *in = *state;
    for (int number = 0; number < JOBS; number++) {
        assert_true(run_job(in, number, 1));
        long n = 2;
        while (!run_job(in, number, n)) {
            n += 1;
            assert_true(n < MOST_ALLOCATIONS);
        }
        printf("%s: %ld host allocations, each failed once\n", in->jobs[number].name, n - 2);
        (void)fflush(stdout);
    }
}

/* ---- Cancelling ----------------------------------------------------------------------------- */

typedef struct patience {
    int asked;
    int gives_up_at;
} patience;

static int ask(void *arg, const char *phase, double done, double total)
{
    patience *p = arg;
    (void)phase;
    assert_true(done <= total);
    p->asked += 1;
    return p->asked >= p->gives_up_at;
}

static void cancelled(void **state)
{
    input *in = *state;
    uint64_t seed = 71;
    test_rows many = test_rows_make(KITH_F64, 60000, 12, 0); /* all pairs canonically: some time */
    test_shape_fill(&many, SHAPE_GAUSS, false, &seed);
    const test_job job = {.name = "many",
                          .points = &many.matrix,
                          .metric = KITH_MANHATTAN,
                          .method = KITH_METHOD_EXACT,
                          .k = K};
    int stopped = 0;
    for (int at = 1; at <= 4; at++) {
        patience p = {.gives_up_at = at};
        kith_ctx_params params = kith_ctx_params_default();
        params.device = "cuda";
        params.progress = ask;
        params.progress_arg = &p;
        kith_ctx *ctx = NULL;
        assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
        kith_neighbors got;
        const kith_status status = test_job_solve(ctx, &job, &got);
        if (p.asked >= at) {
            assert_int_equal(status, KITH_E_CANCELLED);
            stopped += 1;
        } else {
            assert_int_equal(status, KITH_OK);
        }
        test_answer_free(&got);
        p.gives_up_at = INT32_MAX; /* the context is well */
        assert_int_equal(test_job_solve(ctx, &in->jobs[0], &got), KITH_OK);
        assert_false(test_answers_differ("after cancelling", &in->wanted[0], &got));
        test_answer_free(&got);
        kith_ctx_free(ctx);
    }
    test_rows_free(&many);
    printf("cancelled %d times of 4 by the progress function; the context computes on\n", stopped);
}

/* In the child: what a graph of some points by that device says. */
static kith_status graph_on(const char *device, const kith_matrix *points, bool *told)
{
    kith_ctx_params params = kith_ctx_params_default();
    kith_search_params search = kith_search_params_default();
    kith_ctx *ctx = NULL;
    params.device = device;
    params.threads = 1;
    search.k = K;
    kith_neighbors out = test_answer_make(points->rows, K);
    kith_status status = kith_ctx_create(&params, &ctx);
    if (status == KITH_OK) {
        status = kith_graph(ctx, points, &search, &out, NULL);
        *told = strstr(kith_ctx_detail(ctx), "forked") != NULL;
    }
    kith_ctx_free(ctx);
    test_answer_free(&out);
    return status;
}

static void forked(void **state)
{
    const input *in = *state;
    int ended = 0;
    assert_null(kin_gpu_reason());
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool told = false;
        bool other = false;
        const kith_status named = graph_on("cuda", &in->points.matrix, &told);
        const kith_status chosen = graph_on("auto", &in->points.matrix, &other);
        _exit(named == KITH_E_UNSUPPORTED && told && chosen == KITH_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    printf("a process that is forked has no GPU, and auto computes without one\n");
}

static void nothing_is_held(void **state)
{
    enum { SLACK = 64 << 20 }; /* what the runtime keeps for kernels that it has loaded */
    const input *in = *state;
    const uint64_t after = device_free();
    printf("free device memory: %" PRIu64 " bytes before, %" PRIu64 " after\n", in->device_free,
           after);
    assert_true(after + SLACK >= in->device_free);
}

static int setup(void **state)
{
    static input in;
    uint64_t seed = 70;
    in.points = test_rows_make(KITH_F32, 2500, 11, 0);
    in.zeros = test_rows_make(KITH_F64, 1500, 9, 0);
    in.queries = test_rows_make(KITH_F32, 90, 11, 0);
    test_shape_fill(&in.points, SHAPE_COPIES, false, &seed);
    test_shape_fill(&in.zeros, SHAPE_SPARSE, false, &seed);
    test_shape_fill(&in.queries, SHAPE_GAUSS, false, &seed);
    const kith_matrix *p = &in.points.matrix;
    const kith_matrix *q = &in.queries.matrix;
    const test_job jobs[JOBS] = {
        {.name = "graph", .call = TEST_GRAPH, .points = p, .metric = KITH_EUCLIDEAN},
        {.name = "graph with zeros",
         .call = TEST_GRAPH,
         .points = &in.zeros.matrix,
         .metric = KITH_COSINE},
        {.name = "direct graph", .call = TEST_GRAPH, .points = q, .metric = KITH_CHEBYSHEV},
        {.name = "search",
         .call = TEST_SEARCH,
         .points = p,
         .queries = q,
         .metric = KITH_INNER_PRODUCT},
        {.name = "both", .call = TEST_BOTH, .points = p, .queries = q, .metric = KITH_EUCLIDEAN},
        {.name = "prepared",
         .call = TEST_PREPARED,
         .points = p,
         .queries = q,
         .metric = KITH_CORRELATION},
        {.name = "graph by a tree",
         .call = TEST_GRAPH,
         .points = p,
         .metric = KITH_EUCLIDEAN,
         .method = KITH_METHOD_TREE},
        {.name = "search by a tree",
         .call = TEST_SEARCH,
         .points = p,
         .queries = q,
         .metric = KITH_MANHATTAN,
         .method = KITH_METHOD_TREE},
    };
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    for (int i = 0; i < JOBS; i++) {
        kith_neighbors warm;
        in.jobs[i] = jobs[i];
        in.jobs[i].k = K;
        assert_int_equal(test_job_solve(cpu, &in.jobs[i], &in.wanted[i]), KITH_OK);
        (void)test_job_solve(gpu, &in.jobs[i], &warm);
        test_answer_free(&warm);
    }
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
    in.device_free = device_free();
    *state = &in;
    return 0;
}

static int teardown(void **state)
{
    input *in = *state;
    for (int i = 0; i < JOBS; i++) {
        test_answer_free(&in->wanted[i]);
    }
    test_rows_free(&in->points);
    test_rows_free(&in->zeros);
    test_rows_free(&in->queries);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(allocations_that_fail),
                                       cmocka_unit_test(cancelled), cmocka_unit_test(forked),
                                       cmocka_unit_test(nothing_is_held)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, setup, teardown);
}
