/* SPDX-License-Identifier: Apache-2.0
 * The driver of the buffer k-d tree on a GPU, on the reference device: the processor's bytes for
 * graphs and searches in every budget, lists that lose something, buffers small and large; copies
 * that fail, calls that are cancelled and bad values leave nothing behind. What a job takes it has
 * planned. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/gpu.h"
#include "host/host_cpu.h"
#include "kith/kith_papers.h"
#include "papers/papers.h"
#include "support/support_answers.h"
#include "support/support_progress.h"
#include "support/support_reference.h"
#include "support/support_trees.h"
#include "tree/tree_gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t PLENTY = (uint64_t)1 << 40;

static kin_request request_of(const test_job *job)
{
    const kin_pipeline *pipeline = NULL;
    assert_true(kin_papers_pipeline(KITH_PIPELINE_BUFFER_TREE, &pipeline));
    return (kin_request){
        .distance = {.metric = job->metric, .cols = job->points->cols, .isa = kin_cpu_best()},
        .k = job->k,
        .flags = job->flags,
        .exclude = job->exclude,
        .pipeline = pipeline,
        .tree_height = job->tree_height,
        .leaf_buffer = job->leaf_buffer};
}

static kith_status run(kith_ctx *ctx, kin_gpu *gpu, const test_job *job, const kith_neighbors *out,
                       bool *declined)
{
    const kin_request request = request_of(job);
    const kin_exact_gpu_query query = {job->queries, "queries", &request, 0, out};
    return kin_tree_gpu_search(ctx, gpu, job->points, &query, declined);
}

/* ---- Lists that lose something --------------------------------------------------------------- */

/* Every third list does, where it has room for so many candidates or fewer. */
static int32_t losing_room;
static kin_papers_kernels papers;
static kin_papers_buffer_kernels buffers;

/* Such a list keeps the tree's first points. */
static void lose(const kin_papers_buffers *job, int64_t place)
{
    const kin_tree_gpu_lists *lists = &job->walk.lists;
    uint64_t *words = lists->words +
                      place / KIN_TREE_GPU_PACKET * KIN_TREE_GPU_PACKET * lists->capacity +
                      place % KIN_TREE_GPU_PACKET;
    int64_t kept = 0;
    for (int64_t position = 0; kept < lists->wanted; position++) {
        if (job->walk.tree.ids[position] != KITH_ID_NONE) {
            words[kept++ * KIN_TREE_GPU_PACKET] = (uint64_t)position;
        }
    }
    lists->counts[place] = lists->wanted;
    lists->lost[place] = 1;
    job->walk.met[2] += 1;
}

static int end(kin_gpu_stream *stream, const kin_papers_buffers *job)
{
    const kin_gpu_module *given = kin_gpu_get_module();
    const kin_tree_gpu_lists *lists = &job->walk.lists;
    const int64_t first = job->walk.place0;
    int error = given->papers->buffers->end(stream, job);
    if (error == 0 && lists->capacity <= losing_room) {
        error = given->ops->wait(stream);
        for (int64_t p = first; p < first + job->walk.count; p++) {
            if (p % 3 == 0 && lists->counts[p] > 0 && lists->lost[p] == 0) {
                lose(job, p);
            }
        }
    }
    return error;
}

static kin_gpu *gpu_of(kith_ctx *ctx, uint64_t budget)
{
    kin_gpu *gpu = test_reference_gpu(ctx, budget);
    papers = *kin_gpu_get_module()->papers;
    buffers = *papers.buffers;
    buffers.end = end;
    papers.buffers = &buffers;
    test_tables.module.papers = &papers;
    return gpu;
}

/* ---- The same bytes -------------------------------------------------------------------------- */

typedef struct tally {
    int cases;
    int lacking;
    int wrong;
} tally;

static kith_neighbors answer_of(const test_job *job)
{
    return test_answer_make(job->queries != NULL ? job->queries->rows : job->points->rows, job->k);
}

static kith_neighbors truth_of(const test_job *job)
{
    kith_ctx *ctx = test_progress_ctx();
    kith_neighbors wanted;
    test_job plain = *job;
    plain.tree_height = plain.leaf_buffer = 0;
    assert_int_equal(test_trees_solve(ctx, &plain, KITH_METHOD_EXACT, &wanted), KITH_OK);
    kith_ctx_free(ctx);
    return wanted;
}

static void with_budget(tally *t, const test_job *job, const kith_neighbors *wanted,
                        uint64_t budget)
{
    kith_ctx *ctx = test_progress_ctx();
    kin_gpu *gpu = gpu_of(ctx, budget);
    kith_neighbors got = answer_of(job);
    bool declined = true;
    const kith_status status = run(ctx, gpu, job, &got, &declined);
    t->cases += 1;
    if (status == KITH_E_DEVICE_MEMORY && budget < PLENTY) {
        t->lacking += 1;
        assert_non_null(strstr(kith_ctx_detail(ctx), "pipeline asks for a tree"));
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

static void all_budgets(tally *t, test_job job)
{
    static const int32_t few_waiting[] = {0, 2, 40};
    kith_neighbors wanted = truth_of(&job);
    for (int losing = 0; losing < 3; losing++) {
        losing_room = losing == 0 ? 0 : losing == 1 ? 70 : INT32_MAX;
        job.leaf_buffer = few_waiting[losing];
        job.tree_height = losing == 2 ? 3 : 0;
        for (uint64_t budget = PLENTY; budget > 1 << 15;
             budget = budget > 1 << 24 ? 1 << 24 : budget / 2) {
            with_budget(t, &job, &wanted, budget);
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
        all_budgets(&t, job);
        job.flags = KITH_INCLUDE_SELF;
        all_budgets(&t, job);
        job.flags = 0;
        job.queries = &queries.matrix;
        all_budgets(&t, job);
        job.exclude = exclude;
        all_budgets(&t, job);
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

/* False: it did not come to that. */
static bool fails_cleanly(const test_job *job, kith_status status, int64_t copy, int stop)
{
    kith_ctx *ctx = test_progress_ctx();
    kin_gpu *gpu = gpu_of(ctx, PLENTY);
    kith_neighbors got = answer_of(job);
    bool declined = false;
    test_faults.failing_copy = copy;
    test_progress.stop_at = stop;
    const kith_status got_status = run(ctx, gpu, job, &got, &declined);
    assert_true(got_status == status || got_status == KITH_OK);
    test_answer_free(&got);
    kin_gpu_close(ctx, gpu);
    test_reference_is_empty();
    kith_ctx_free(ctx);
    return got_status == status;
}

static void failures(void **state)
{
    (void)state;
    test_rows points = test_trees_rows(KITH_F64, 900, 3, SHAPE_COPIES, 9);
    test_rows queries = test_trees_rows(KITH_F64, 200, 3, SHAPE_GAUSS, 10);
    test_job job = {.name = "copies",
                    .points = &points.matrix,
                    .metric = KITH_EUCLIDEAN,
                    .k = 4,
                    .leaf_buffer = 9};
    int64_t copies = 0;
    int stops = 0;
    losing_room = INT32_MAX;
    for (int search = 0; search < 2; search++) {
        job.queries = search == 1 ? &queries.matrix : NULL;
        for (copies = 1; fails_cleanly(&job, KITH_E_DEVICE, copies, 0); copies++) {
        }
        for (stops = 1; fails_cleanly(&job, KITH_E_CANCELLED, 0, stops); stops++) {
        }
        assert_true(copies > 40 && stops > 1);
        test_rows_set(search == 1 ? &queries : &points, 150, 1, (double)NAN);
        assert_true(fails_cleanly(&job, KITH_E_DATA, 0, 0));
        test_rows_set(search == 1 ? &queries : &points, 150, 1, 1.0);
    }
    losing_room = 0;
    test_rows_free(&queries);
    test_rows_free(&points);
    printf("copies that fail, calls that are cancelled, NaN: nothing is left behind\n");
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* A job holds no more than was planned for all of it at once. */
static void as_planned(void **state)
{
    (void)state;
    static const int64_t ks[] = {1, 10, 100, 1024};
    test_rows points = test_trees_rows(KITH_F32, 5000, 7, SHAPE_GAUSS, 12);
    test_rows queries = test_trees_rows(KITH_F32, 3000, 7, SHAPE_GAUSS, 13);
    for (int i = 0; i < 8; i++) {
        test_job job = {.name = "gauss",
                        .points = &points.matrix,
                        .queries = i % 2 == 0 ? &queries.matrix : NULL,
                        .metric = KITH_EUCLIDEAN,
                        .k = ks[i / 2]};
        const kin_request request = request_of(&job);
        const kin_exact_gpu_need need =
            kin_tree_gpu_plan_need(job.points, job.queries, &request, PLENTY);
        kith_ctx *ctx = test_progress_ctx();
        kin_gpu *gpu = gpu_of(ctx, PLENTY);
        kith_neighbors got = answer_of(&job);
        bool declined = true;
        assert_int_equal(run(ctx, gpu, &job, &got, &declined), KITH_OK);
        printf("%s, k %d: %.2f MB, planned %.2f MB\n", job.queries != NULL ? "search" : "graph",
               (int)job.k, (double)gpu->peak / 1e6, (double)need.whole_bytes / 1e6);
        assert_true(gpu->peak <= need.whole_bytes);
        test_answer_free(&got);
        kin_gpu_close(ctx, gpu);
        test_reference_is_empty();
        kith_ctx_free(ctx);
    }
    test_rows_free(&queries);
    test_rows_free(&points);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bytes),
        cmocka_unit_test(failures),
        cmocka_unit_test(as_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
