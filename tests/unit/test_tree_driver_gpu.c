/* SPDX-License-Identifier: Apache-2.0
 * The driver of the tree on a GPU, on the reference device: the processor's bytes for
 * graphs and searches, equal rows, excluded ids, lists that lose something, in every budget; a copy
 * that fails, a call that is cancelled, a bad value leave nothing behind. What a sample decides. A
 * tree takes the memory of its plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exact/exact_search_gpu.h"
#include "gpu/gpu.h"
#include "host/host_cpu.h"
#include "support/support_answers.h"
#include "support/support_progress.h"
#include "support/support_reference.h"
#include "support/support_trees.h"
#include "tree/tree_gpu.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const uint64_t PLENTY = (uint64_t)1 << 40;

static kin_request request_of(const test_job *job, kith_method method)
{
    return (kin_request){
        .distance = {.metric = job->metric, .cols = job->points->cols, .isa = kin_cpu_best()},
        .k = job->k,
        .flags = job->flags,
        .exclude = job->exclude,
        .method = method};
}

static kith_status run(kith_ctx *ctx, kin_gpu *gpu, const test_job *job, kith_method method,
                       const kith_neighbors *out, bool *declined)
{
    const kin_request request = request_of(job, method);
    const kin_exact_gpu_query query = {job->queries, "queries", &request, 0, out};
    return kin_tree_gpu_search(ctx, gpu, job->points, &query, declined);
}

/* Every third list loses something where it has room for so many candidates or fewer. */
static int32_t losing_room;

/* Such a list keeps the tree's first points. */
static void lose(const kin_tree_gpu *tree, const kin_tree_gpu_lists *lists, int64_t place)
{
    uint64_t *words = lists->words +
                      place / KIN_TREE_GPU_PACKET * KIN_TREE_GPU_PACKET * lists->capacity +
                      place % KIN_TREE_GPU_PACKET;
    int64_t kept = 0;
    for (int64_t position = 0; kept < lists->wanted; position++) {
        if (tree->ids[position] != KITH_ID_NONE) {
            words[kept++ * KIN_TREE_GPU_PACKET] = (uint64_t)position;
        }
    }
    lists->counts[place] = lists->wanted;
    lists->lost[place] = 1;
}

static int walk(kin_gpu_stream *stream, const kin_tree_gpu_walk *job)
{
    const kin_gpu_module *given = kin_gpu_get_module();
    const kin_tree_gpu_lists *lists = &job->lists;
    int error = given->tree->walk(stream, job);
    if (error == 0 && lists->capacity <= losing_room) {
        error = given->ops->wait(stream);
        for (int64_t p = job->place0; p < job->place0 + job->count; p++) {
            if (p % 3 == 0 && lists->counts[p] > 0 && lists->lost[p] == 0) {
                lose(&job->tree, lists, p);
                job->met[2] += 1;
            }
        }
    }
    return error;
}

static kin_gpu *gpu_of(kith_ctx *ctx, uint64_t budget)
{
    kin_gpu *gpu = test_reference_gpu(ctx, budget);
    test_tables.tree.walk = walk;
    return gpu;
}

static kith_neighbors answer_of(const test_job *job)
{
    return test_answer_make(job->queries != NULL ? job->queries->rows : job->points->rows, job->k);
}

static kith_neighbors truth_of(const test_job *job)
{
    kith_ctx *ctx = test_progress_ctx();
    kith_neighbors wanted;
    assert_int_equal(test_trees_solve(ctx, job, KITH_METHOD_EXACT, &wanted), KITH_OK);
    kith_ctx_free(ctx);
    return wanted;
}

/* ---- The same bytes -------------------------------------------------------------------------- */

typedef struct tally {
    int cases;
    int lacking;
    int wrong;
} tally;

static void with_budget(tally *t, const test_job *job, const kith_neighbors *wanted,
                        uint64_t budget)
{
    kith_ctx *ctx = test_progress_ctx();
    kin_gpu *gpu = gpu_of(ctx, budget);
    kith_neighbors got = answer_of(job);
    bool declined = true;
    const kith_status status = run(ctx, gpu, job, KITH_METHOD_TREE, &got, &declined);
    t->cases += 1;
    if (status == KITH_E_DEVICE_MEMORY && budget < PLENTY) {
        t->lacking += 1;
        assert_non_null(strstr(kith_ctx_detail(ctx), "compare all pairs"));
    } else if (status != KITH_OK) {
        fail_msg("%s: %s", job->name, kith_ctx_detail(ctx));
    } else {
        assert_false(declined);
        t->wrong += test_answers_differ(job->name, wanted, &got);
        assert_true(gpu->peak <= budget);
    }
    test_answer_free(&got);
    kin_gpu_close(ctx, gpu);
    test_reference_is_empty();
    kith_ctx_free(ctx);
}

static void all_budgets(tally *t, const test_job *job)
{
    kith_neighbors wanted = truth_of(job);
    for (int losing = 0; losing < 3; losing++) {
        losing_room = losing == 0 ? 0 : losing == 1 ? 70 : INT32_MAX;
        for (uint64_t budget = PLENTY; budget > 1 << 15;
             budget = budget > 1 << 24 ? 1 << 24 : budget / 2) {
            with_budget(t, job, &wanted, budget);
        }
    }
    losing_room = 0;
    test_answer_free(&wanted);
}

static void same_bytes(void **state)
{
    (void)state;
    static const test_shape data[] = {SHAPE_GAUSS, SHAPE_COPIES, SHAPE_GRID, SHAPE_EQUAL};
    tally t = {0};
    for (int i = 0; i < 4; i++) {
        test_rows points =
            test_trees_rows(i % 2 == 0 ? KITH_F32 : KITH_F64, 400, 3 + i, data[i], 7);
        test_rows queries = test_trees_rows(KITH_F32, 700, 3 + i, data[i], 8);
        uint32_t *exclude = test_trees_excluded(700, 400);
        test_job job = {.name = test_shape_name(data[i]),
                        .points = &points.matrix,
                        .metric = test_tree_metrics[i],
                        .k = i == 1 ? 60 : 6};
        all_budgets(&t, &job);
        job.flags = KITH_INCLUDE_SELF;
        all_budgets(&t, &job);
        job.flags = 0;
        job.queries = &queries.matrix;
        all_budgets(&t, &job);
        job.exclude = exclude;
        all_budgets(&t, &job);
        free(exclude);
        test_rows_free(&queries);
        test_rows_free(&points);
    }
    printf("%d jobs, among them lists that lose something: %d lack memory, the others are the "
           "processor's bytes\n",
           t.cases, t.lacking);
    assert_int_equal(t.wrong, 0);
    assert_true(t.lacking > 0 && t.lacking < t.cases / 2);
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void fails_cleanly(const test_job *job, kith_status status, int64_t copy, int stop)
{
    kith_ctx *ctx = test_progress_ctx();
    kin_gpu *gpu = gpu_of(ctx, PLENTY);
    kith_neighbors got = answer_of(job);
    bool declined = false;
    test_faults.failing_copy = copy;
    test_progress.stop_at = stop;
    assert_int_equal(run(ctx, gpu, job, KITH_METHOD_TREE, &got, &declined), status);
    test_answer_free(&got);
    kin_gpu_close(ctx, gpu);
    test_reference_is_empty();
    kith_ctx_free(ctx);
}

static void failures(void **state)
{
    (void)state;
    test_rows points = test_trees_rows(KITH_F64, 900, 3, SHAPE_COPIES, 9);
    test_rows queries = test_trees_rows(KITH_F64, 200, 3, SHAPE_GAUSS, 10);
    test_job job = {.name = "copies", .points = &points.matrix, .metric = KITH_EUCLIDEAN, .k = 4};
    losing_room = INT32_MAX;
    for (int search = 0; search < 2; search++) {
        job.queries = search == 1 ? &queries.matrix : NULL;
        for (int64_t copy = 1; copy <= 12; copy++) {
            fails_cleanly(&job, KITH_E_DEVICE, copy, 0);
        }
        fails_cleanly(&job, KITH_E_CANCELLED, 0, 1);
        test_rows_set(search == 1 ? &queries : &points, 150, 1, (double)NAN);
        fails_cleanly(&job, KITH_E_DATA, 0, 0);
        test_rows_set(search == 1 ? &queries : &points, 150, 1, 1.0);
    }
    losing_room = 0;
    test_rows_free(&queries);
    test_rows_free(&points);
    printf("copies that fail, a call that is cancelled, NaN: nothing is left behind\n");
}

/* ---- What auto does -------------------------------------------------------------------------- */

static bool is_worth_trying(int64_t rows, int32_t cols, int64_t k)
{
    const kith_matrix points = {.rows = rows, .cols = cols, .dtype = KITH_F32};
    const test_job job = {.points = &points, .metric = KITH_EUCLIDEAN, .k = k};
    const kin_request request = request_of(&job, KITH_METHOD_AUTO);
    return kin_tree_gpu_worth_trying(&points, NULL, &request);
}

static void choices(void **state)
{
    (void)state;
    assert_false(is_worth_trying(400, 3, 10));
    assert_true(is_worth_trying(20000, 3, 10)); /* unasked */
    assert_false(is_worth_trying(20000, 16, 10));
    assert_true(is_worth_trying(2000000, 3, 10));
    assert_true(is_worth_trying(2000000, 16, 10));
    assert_false(is_worth_trying(2000000, 48, 10));
    /* A walk that looks at every point is what no tree is taken for. */
    kith_ctx *ctx = test_progress_ctx();
    kin_gpu *gpu = gpu_of(ctx, PLENTY);
    test_rows points = test_trees_rows(KITH_F32, 900, 30, SHAPE_GAUSS, 11);
    const test_job job = {
        .name = "few", .points = &points.matrix, .metric = KITH_EUCLIDEAN, .k = 4};
    kith_neighbors got = answer_of(&job);
    bool declined = false;
    assert_int_equal(run(ctx, gpu, &job, KITH_METHOD_AUTO, &got, &declined), KITH_OK);
    assert_true(declined);
    /* Neither is a GPU without room. */
    gpu->budget = 1 << 15;
    kin_gpu_trim(gpu);
    assert_int_equal(run(ctx, gpu, &job, KITH_METHOD_AUTO, &got, &declined), KITH_OK);
    assert_true(declined);
    test_answer_free(&got);
    test_rows_free(&points);
    kin_gpu_close(ctx, gpu);
    test_reference_is_empty();
    kith_ctx_free(ctx);
    printf("few points, many columns, samples that look at everything, no room: all pairs\n");
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* A tree in the memory that its plan says, and while it is made in no more. */
static void tree_as_planned(int64_t points, int32_t cols, int64_t leaf_points)
{
    kith_ctx *ctx = test_progress_ctx();
    kin_gpu *gpu = gpu_of(ctx, PLENTY);
    test_rows rows = test_trees_rows(KITH_F32, points, cols, SHAPE_GAUSS, 12);
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(ctx, gpu);
    const kin_screen_gpu_rows given = {.data = rows.matrix.data,
                                       .rows = points,
                                       .stride_bytes = cols * (int64_t)sizeof(float),
                                       .cols = cols,
                                       .dtype = KITH_F32,
                                       .metric = KITH_EUCLIDEAN};
    kin_tree_gpu tree;
    assert_int_equal(kin_tree_gpu_make(&on, &given, NULL, points, leaf_points, &tree), KITH_OK);
    printf("%" PRId64 " x %d: %" PRIu64 " bytes, %" PRIu64 " at the peak; planned %" PRIu64 "\n",
           points, cols, gpu->held, gpu->peak, kin_tree_gpu_peak_bytes(points, cols, leaf_points));
    assert_int_equal(gpu->held, kin_tree_gpu_bytes(points, cols, leaf_points));
    assert_true(gpu->peak <= kin_tree_gpu_peak_bytes(points, cols, leaf_points));
    kin_tree_gpu_free(&on, &tree);
    assert_int_equal(gpu->held, 0);
    test_rows_free(&rows);
    kin_gpu_close(ctx, gpu);
    test_reference_is_empty();
    kith_ctx_free(ctx);
}

static void trees_as_planned(void **state)
{
    (void)state;
    for (int32_t cols = 1; cols <= 32; cols += cols < 4 ? 1 : 7) {
        tree_as_planned(1, cols, 1);
        tree_as_planned(900, cols, 8);
        tree_as_planned(30000, cols, 64);
    }
    tree_as_planned(70000, 6, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bytes),
        cmocka_unit_test(failures),
        cmocka_unit_test(choices),
        cmocka_unit_test(trees_as_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
