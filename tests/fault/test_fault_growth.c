/* SPDX-License-Identifier: Apache-2.0
 * Memory that runs out while graphs grow, shrink, become symmetric, are made from shards and
 * predicted from: the n-th allocation fails for n = 1, 2, 3 ... until the call succeeds. Each
 * failure is KITH_E_MEMORY with a sentence, leaks nothing, and leaves no file that is not whole. */
#define _GNU_SOURCE
#include "support/support_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_faulty.h"
#include "support/support_files.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 90, FIRST = 40, COLS = 3, K = 4 };

typedef struct input {
    test_rows points;
    kith_neighbors whole; /* the graph of all points */
    kith_neighbors parts[2];
    kith_neighbors out;
    double *labels;
    uint8_t *removed;
    int64_t left;
    test_folder *folder;
} input;

typedef kith_status (*job_fn)(kith_ctx *ctx, const input *in, int option);

static kith_neighbors view(const kith_neighbors *room, int64_t rows)
{
    kith_neighbors out = *room;
    out.rows = rows;
    return out;
}

/* option: the metric. */
static kith_status do_merge_exact(kith_ctx *ctx, const input *in, int option)
{
    kith_search_params params = kith_search_params_default();
    params.metric = (kith_metric)option;
    params.k = K;
    return test_merge_exactly(
        ctx, &(kith_merge_sets){&in->points.matrix, FIRST, &in->parts[0], &in->parts[1]}, &params,
        &in->out);
}

static kith_status do_merge(kith_ctx *ctx, const input *in, int option)
{
    kith_descent_params params = kith_descent_params_default();
    params.metric = (kith_metric)option;
    params.k = K;
    params.sample = 5;
    return test_merge_descending(
        ctx, &(kith_merge_sets){&in->points.matrix, FIRST, &in->parts[0], &in->parts[1]}, &params,
        &in->out, NULL);
}

/* option: 1 where the graph is approximate. */
static kith_status do_remove(kith_ctx *ctx, const input *in, int option)
{
    kith_remove_params params = kith_remove_params_default();
    const kith_neighbors out = view(&in->out, in->left);
    params.k = K;
    params.approximate = option;
    params.removed = in->removed;
    return kith_graph_remove(ctx, &in->points.matrix, &in->whole, &params, &out, NULL);
}

static kith_status do_symmetric(kith_ctx *ctx, const input *in, int option)
{
    kith_ranges *ranges = NULL;
    const kith_status status =
        kith_graph_symmetric(ctx, &in->whole, KITH_EUCLIDEAN, (kith_symmetry)option, &ranges);
    assert_int_equal(status == KITH_OK, ranges != NULL);
    kith_ranges_free(ranges);
    return status;
}

static kith_status do_predict(kith_ctx *ctx, const input *in, int option)
{
    kith_predict_params params = kith_predict_params_default();
    params.mode = (kith_predict_mode)option;
    return kith_predict(ctx, &in->whole, in->labels, ROWS, &params, in->out.distances64);
}

/* option: 1 an approximate graph. The folder stays between failures, as after a crash. */
static kith_status do_shards(kith_ctx *ctx, const input *in, int option)
{
    kith_search_params exact = kith_search_params_default();
    kith_descent_params descent = kith_descent_params_default();
    kith_shard_params params = kith_shard_params_default();
    exact.k = K;
    descent.k = K;
    descent.sample = 5;
    params.shards = 2;
    params.exact = option == 0 ? &exact : NULL;
    params.descent = option == 0 ? NULL : &descent;
    params.restart = 1;
    const char *path = test_path(in->folder, "shards.kith");
    (void)unlink(path);
    const kith_status status = kith_graph_shards(ctx, &in->points.matrix, &params,
                                                 test_path(in->folder, "work"), path, NULL);
    assert_true(status == KITH_OK || access(path, F_OK) != 0);
    return status;
}

static kith_status do_stream(kith_ctx *ctx, const input *in, int option)
{
    kith_result_meta meta = kith_result_meta_default();
    kith_result_stream_params params = kith_result_stream_params_default();
    kith_result_stream *stream = NULL;
    meta.kind = KITH_KIND_GRAPH;
    meta.corpus_rows = ROWS;
    params.rows = ROWS;
    params.k = K;
    params.format = (kith_format)option;
    const char *path = test_path(in->folder, "stream");
    (void)unlink(path);
    kith_status status = kith_result_stream_open(ctx, path, &params, &meta, &stream);
    if (status == KITH_OK && kith_result_stream_get_state(stream)->rows < ROWS) {
        const int64_t first = kith_result_stream_get_state(stream)->rows;
        kith_neighbors rest = in->whole;
        rest.ids += first * K;
        rest.distances += first * K;
        rest.rows -= first;
        status = kith_result_stream_put(ctx, stream, &rest);
    }
    if (status == KITH_OK) {
        status = kith_result_stream_finish(ctx, stream);
    }
    kith_result_stream_free(stream);
    assert_true(status == KITH_OK || access(path, F_OK) != 0);
    return status;
}

static kith_status do_plans(kith_ctx *ctx, const input *in, int option)
{
    (void)option;
    kith_search_params exact = kith_search_params_default();
    kith_search_params descent = kith_search_params_default();
    kith_shard_params shards = kith_shard_params_default();
    kith_plan plan = {.struct_size = sizeof plan};
    kith_shard_plan shard_plan = {.struct_size = sizeof shard_plan};
    exact.k = K;
    descent.k = K;
    descent.method = KITH_METHOD_DESCENT;
    shards.exact = &exact;
    kith_status status = kith_plan_search(ctx, &in->points.matrix, NULL, &exact, &plan);
    if (status == KITH_OK) {
        status = kith_plan_search(ctx, &in->points.matrix, NULL, &descent, &plan);
    }
    return status == KITH_OK ? kith_plan_shards(ctx, &in->points.matrix, &shards, &shard_plan)
                             : status;
}

static const struct job {
    const char *name;
    job_fn fn;
    int option;
} jobs[] = {
    {"exact merge, euclidean", do_merge_exact, KITH_EUCLIDEAN},
    {"exact merge, manhattan", do_merge_exact, KITH_MANHATTAN},
    {"merge, euclidean", do_merge, KITH_EUCLIDEAN},
    {"merge, chebyshev", do_merge, KITH_CHEBYSHEV},
    {"remove", do_remove, 0},
    {"remove, approximate", do_remove, 1},
    {"symmetric, union", do_symmetric, KITH_SYMMETRY_UNION},
    {"symmetric, mutual", do_symmetric, KITH_SYMMETRY_MUTUAL},
    {"predict, mean", do_predict, KITH_PREDICT_MEAN},
    {"predict, median", do_predict, KITH_PREDICT_MEDIAN},
    {"predict, weighted vote", do_predict, KITH_PREDICT_WEIGHTED_VOTE},
    {"shards", do_shards, 0},
    {"shards, approximate", do_shards, 1},
    {"stream, .npz", do_stream, KITH_FORMAT_NPZ},
    {"stream, .kith", do_stream, KITH_FORMAT_KITH},
    {"plans", do_plans, 0},
};
enum { JOBS = sizeof jobs / sizeof jobs[0], MOST_ALLOCATIONS = 20000 };

/* ---- The sweep ------------------------------------------------------------------------------ */

/* What a job asks for is more each time where it goes on with what the last one left; the limit of
 * the sweep is there so that it ends. */
static kith_status run_job(const input *in, int at, long fails_at)
{
    test_faulty f = {0};
    kith_ctx *ctx = test_faulty_ctx("cpu", &f, 0);
    const long own = atomic_load(&f.blocks);
    atomic_store(&f.asked, 0);
    f.fails_at = fails_at;
    const kith_status status = jobs[at].fn(ctx, in, jobs[at].option);
    f.fails_at = 0;
    if ((status != KITH_OK) != (kith_ctx_detail(ctx)[0] != '\0')) {
        fail_msg("%s: status %s explained with \"%s\"", jobs[at].name, kith_status_name(status),
                 kith_ctx_detail(ctx));
    }
    if (atomic_load(&f.blocks) != own) {
        fail_msg("%s, allocation %ld: %ld blocks leak", jobs[at].name, fails_at,
                 atomic_load(&f.blocks) - own);
    }
    kith_ctx_free(ctx);
    assert_int_equal(atomic_load(&f.bytes), 0);
    return status;
}

static void nth_allocation_fails(void **state)
{
    const input *in = *state;
    const long step = test_is_slow_build() ? 7 : test_is_sanitized_build() ? 3 : 1;
    long failures = 0;
    for (int i = 0; i < JOBS; i++) {
        kith_status status = KITH_E_MEMORY;
        for (long n = 1; status != KITH_OK; n += step) {
            status = run_job(in, i, n);
            if (status != KITH_OK && status != KITH_E_MEMORY) {
                fail_msg("%s, allocation %ld: %s", jobs[i].name, n, kith_status_name(status));
            }
            failures += status != KITH_OK;
            assert_true(n < MOST_ALLOCATIONS);
        }
    }
    printf("%ld allocations of %d calls failed one by one: KITH_E_MEMORY, no leak, nothing half "
           "written\n",
           failures, (int)JOBS);
}

/* ---- Input ---------------------------------------------------------------------------------- */

static void solve(const input *in, int64_t first, int64_t rows, const kith_neighbors *out)
{
    kith_matrix part = in->points.matrix;
    kith_search_params params = kith_search_params_default();
    part.data = (const char *)part.data + first * part.stride_bytes;
    part.rows = rows;
    params.k = K;
    assert_int_equal(kith_graph(in->folder->ctx, &part, &params, out, NULL), KITH_OK);
}

static int setup(void **state)
{
    uint64_t seed = 5;
    void *folder = NULL;
    input *in = calloc(1, sizeof *in);
    assert_non_null(in);
    test_folder_setup(&folder);
    in->folder = folder;
    test_disk_works();
    test_disk.lazy = 1;
    in->points = test_rows_make(KITH_F32, ROWS, COLS, 0);
    test_shape_fill(&in->points, SHAPE_GAUSS, false, &seed);
    in->whole = test_answer_make(ROWS, K);
    in->parts[0] = test_answer_make(FIRST, K);
    in->parts[1] = test_answer_make(ROWS - FIRST, K);
    in->out = test_answer_make(ROWS, K);
    solve(in, 0, ROWS, &in->whole);
    solve(in, 0, FIRST, &in->parts[0]);
    solve(in, FIRST, ROWS - FIRST, &in->parts[1]);
    in->labels = calloc(ROWS, sizeof *in->labels);
    in->removed = calloc(ROWS, 1);
    assert_true(in->labels != NULL && in->removed != NULL);
    for (int i = 0; i < ROWS; i++) {
        in->labels[i] = (double)(i % 3);
        in->removed[i] = i % 9 == 2;
        in->left += in->removed[i] == 0;
    }
    *state = in;
    return 0;
}

static int teardown(void **state)
{
    input *in = *state;
    void *folder = in->folder;
    test_folder_teardown(&folder);
    test_rows_free(&in->points);
    test_answer_free(&in->whole);
    test_answer_free(&in->parts[0]);
    test_answer_free(&in->parts[1]);
    test_answer_free(&in->out);
    free(in->labels);
    free(in->removed);
    free(in);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nth_allocation_fails)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
