/* SPDX-License-Identifier: Apache-2.0
 * Memory that runs out while a tree is made, opened, searched, grown and shrunk: the n-th
 * allocation of each step fails for n = 1, 2, 3 ... until the step succeeds. Each failure says so,
 * leaks nothing, and leaves the corpus what it was. */
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

enum { ROWS = 500, MORE = 300, COLS = 3, K = 4 };

typedef struct job {
    test_faulty faulty;
    kith_ctx *ctx;
    kith_index *corpus;
    const kith_matrix *points;
    const kith_matrix *more;
    const char *path;
    kith_neighbors out;
    long failures;
} job;

typedef kith_status (*step_fn)(job *j);

static kith_status make(job *j)
{
    kith_index_params params = kith_index_params_default();
    params.method = KITH_METHOD_TREE;
    return kith_index_create(j->ctx, j->points, &params, &j->corpus);
}

static kith_status open(job *j)
{
    return kith_index_open(j->ctx, j->path, &j->corpus);
}

static kith_status search(job *j)
{
    kith_search_params params = kith_search_params_default();
    params.k = K;
    return kith_index_search(j->ctx, j->corpus, j->points, &params, &j->out, NULL);
}

static kith_status add(job *j)
{
    return kith_index_add(j->ctx, j->corpus, j->more);
}

static kith_status remove_some(job *j)
{
    static const uint32_t ids[] = {0, 5, 499, 5, 77};
    return kith_index_remove(j->ctx, j->corpus, ids, sizeof ids / sizeof ids[0]);
}

/* The step until it succeeds; what is held and how many rows there are changes only then. */
static void sweep(job *j, step_fn step)
{
    const int64_t rows = j->corpus != NULL ? test_index_info(j->corpus).points.rows : 0;
    const uint64_t bytes = j->corpus != NULL ? test_index_info(j->corpus).bytes : 0;
    const long held = atomic_load(&j->faulty.bytes);
    kith_status status = KITH_E_MEMORY;
    for (long n = 1; status != KITH_OK; n++) {
        atomic_store(&j->faulty.asked, 0);
        j->faulty.fails_at = n;
        status = step(j);
        j->faulty.fails_at = 0;
        if (status == KITH_OK) {
            continue;
        }
        assert_int_equal(status, KITH_E_MEMORY);
        assert_string_not_equal(kith_ctx_detail(j->ctx), "");
        assert_int_equal(atomic_load(&j->faulty.bytes), held);
        assert_true((j->corpus != NULL) == (rows > 0));
        if (rows > 0) {
            assert_int_equal(test_index_info(j->corpus).points.rows, rows);
            assert_int_equal(test_index_info(j->corpus).bytes, bytes);
        }
        j->failures += 1;
        assert_true(n < 1000);
    }
}

/* Its answers are those of the exact engine for its points. */
static void check(job *j)
{
    kith_neighbors wanted = test_answer_make(j->points->rows, K);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    params.method = KITH_METHOD_EXACT;
    const kith_index_info info = test_index_info(j->corpus);
    assert_int_equal(kith_search(j->ctx, &info.points, j->points, &params, &wanted, NULL), KITH_OK);
    assert_int_equal(search(j), KITH_OK);
    assert_true(test_answers_equal(&wanted, &j->out));
    test_answer_free(&wanted);
}

static void memory_runs_out(void **state)
{
    test_folder *folder = *state;
    uint64_t seed = 3;
    test_rows points = test_rows_make(KITH_F32, ROWS, COLS, 0);
    test_rows more = test_rows_make(KITH_F32, MORE, COLS, 0);
    test_shape_fill(&points, SHAPE_COPIES, false, &seed);
    test_shape_fill(&more, SHAPE_CLUSTERS, false, &seed);
    job j = {.points = &points.matrix,
             .more = &more.matrix,
             .path = test_path(folder, "tree.kith"),
             .out = test_answer_make(ROWS, K)};
    j.ctx = test_faulty_ctx("cpu", &j.faulty, 0);
    const long own = atomic_load(&j.faulty.blocks);
    for (int mapped = 0; mapped < 2; mapped++) {
        sweep(&j, mapped ? open : make);
        if (!mapped) {
            assert_int_equal(kith_index_save(j.ctx, j.corpus, j.path), KITH_OK);
        }
        sweep(&j, search);
        check(&j);
        sweep(&j, mapped ? remove_some : add); /* of a mapped tree: a copy first */
        check(&j);
        sweep(&j, mapped ? add : remove_some);
        check(&j);
        kith_index_free(j.corpus);
        j.corpus = NULL;
        assert_int_equal(atomic_load(&j.faulty.blocks), own);
    }
    kith_ctx_free(j.ctx);
    test_answer_free(&j.out);
    test_rows_free(&more);
    test_rows_free(&points);
    printf("%ld allocations of kept trees failed: said so, no leak, and the tree as it was\n",
           j.failures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memory_runs_out, test_folder_setup, test_folder_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
