/* SPDX-License-Identifier: Apache-2.0
 * A disk that is full, breaks or loses its name at the n-th call, for n = 1, 2, 3 ... until the job
 * succeeds: results, points, corpora, trees, selections, ranges and whole jobs from shards. Each
 * failure is KITH_E_IO, names a file and says what to do; an old file of that name is as it was,
 * and nothing else is left in the folder. Then the same for reading. */
#define _GNU_SOURCE
#include "support/support_calls.h"
#include "support/support_disk.h"
#include "support/support_disk_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"
#include "support/support_files.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 60, COLS = 4, K = 3 };

typedef struct input {
    test_rows points;
    kith_neighbors graph;
    kith_index *corpora[2]; /* for the exact engine, and a tree */
    kith_ranges *ranges;
    test_folder *folder;
} input;

typedef struct job {
    const char *name; /* of the file */
    kith_status (*save)(const input *in, const char *path, int option);
    kith_status (*open)(const input *in, const char *path, int option);
    int option;
} job;

/* ---- What is written and read --------------------------------------------------------------- */

static kith_result_meta make_meta(kith_kind kind)
{
    kith_result_meta meta = kith_result_meta_default();
    meta.kind = kind;
    meta.metric = KITH_EUCLIDEAN;
    meta.exact = KITH_CERTIFIED;
    meta.corpus_rows = ROWS;
    meta.points = (kith_fingerprint){.rows = ROWS, .cols = 2, .dtype = KITH_F32, .checksum = 77};
    return meta;
}

static kith_status save_points(const input *in, const char *path, int option)
{
    (void)option;
    return kith_points_save(in->folder->ctx, path, &in->points.matrix);
}

static kith_status open_points(const input *in, const char *path, int option)
{
    kith_points *points = NULL;
    (void)option;
    const kith_status status = kith_points_open(in->folder->ctx, path, NULL, &points);
    assert_int_equal(status == KITH_OK, points != NULL);
    kith_points_free(points);
    return status;
}

static kith_status save_result(const input *in, const char *path, int option)
{
    const kith_result_meta meta = make_meta(KITH_KIND_GRAPH);
    return kith_result_save(in->folder->ctx, path, (kith_format)option, &in->graph, &meta);
}

static kith_status open_result(const input *in, const char *path, int option)
{
    kith_result *result = NULL;
    (void)option;
    const kith_status status = kith_result_open(in->folder->ctx, path, &result);
    assert_int_equal(status == KITH_OK, result != NULL);
    kith_result_free(result);
    return status;
}

static kith_status save_ranges(const input *in, const char *path, int option)
{
    const kith_result_meta meta = make_meta(KITH_KIND_RANGES);
    (void)option;
    return kith_ranges_save(in->folder->ctx, path, in->ranges, &meta);
}

static kith_status save_corpus(const input *in, const char *path, int option)
{
    return kith_index_save(in->folder->ctx, in->corpora[option], path);
}

static kith_status open_corpus(const input *in, const char *path, int option)
{
    kith_index *corpus = NULL;
    (void)option;
    const kith_status status = kith_index_open(in->folder->ctx, path, &corpus);
    assert_int_equal(status == KITH_OK, corpus != NULL);
    kith_index_free(corpus);
    return status;
}

static kith_status save_selection(const input *in, const char *path, int option)
{
    kith_select_params params = kith_select_params_default();
    const kith_selection made = {in->graph.distances, in->graph.ids, NULL};
    params.k = K;
    return option != 0 ? kith_selection_save(in->folder->ctx, path,
                                             &(kith_selection){.kth = in->graph.distances}, ROWS,
                                             KITH_F32, NULL)
                       : kith_selection_save(in->folder->ctx, path, &made, ROWS, KITH_F32, &params);
}

static const job jobs[] = {
    {"p.fvecs", save_points, open_points, 0},
    {"p.fbin", save_points, open_points, 0},
    {"p.npy", save_points, open_points, 0},
    {"p.csv", save_points, open_points, 0},
    {"p.kith", save_points, open_points, 0},
    {"r.npz", save_result, open_result, KITH_FORMAT_NPZ},
    {"csr.npz", save_result, open_result, KITH_FORMAT_CSR},
    {"r.ivecs", save_result, open_result, KITH_FORMAT_IVECS},
    {"r.ibin", save_result, open_result, KITH_FORMAT_IBIN},
    {"r.knn", save_result, open_result, KITH_FORMAT_KNN},
    {"r.kith", save_result, open_result, KITH_FORMAT_KITH},
    {"ranges.npz", save_ranges, NULL, 0},
    {"ranges.kith", save_ranges, NULL, 0},
    {"corpus.kith", save_corpus, open_corpus, 0},
    {"tree.kith", save_corpus, open_corpus, 1},
    {"selection.npz", save_selection, NULL, 0},
    {"kth.npy", save_selection, NULL, 1},
};
enum { JOBS = sizeof jobs / sizeof jobs[0] };

/* ---- Sweeps --------------------------------------------------------------------------------- */

static const int errors[] = {ENOSPC, EIO, EDQUOT};
enum { ERRORS = sizeof errors / sizeof errors[0] };

/* The sentence names the file and ends with what to do, in brackets. */
static void check_sentence(const input *in, kith_status status, const char *path)
{
    const char *detail = kith_ctx_detail(in->folder->ctx);
    if (status != KITH_E_IO || strstr(detail, path) == NULL || strchr(detail, ':') == NULL) {
        fail_msg("%s: %s: \"%s\"", path, kith_status_name(status), detail);
    }
}

/* All is done but for the last step, which is to bring the new name to disk: the error says so. */
static bool is_written(const input *in)
{
    return strstr(kith_ctx_detail(in->folder->ctx), "is written, but") != NULL;
}

static void old_file_stays(const input *in, const job *j, const char *path)
{
    static const char old[] = "what was there before";
    size_t bytes = 0;
    (void)test_write(in->folder, j->name, old, sizeof old);
    const int entries = test_folder_count(in->folder);
    for (int n = 1, error = 0; error < ERRORS; n++) {
        test_disk_works();
        test_disk.lazy = 1;
        test_disk.fail_at = n;
        test_disk.error = errors[error];
        const kith_status status = j->save(in, path, j->option);
        test_disk_works();
        if (status == KITH_OK) {
            n = 0;
            error += 1;
            (void)test_write(in->folder, j->name, old, sizeof old);
            continue;
        }
        check_sentence(in, status, path);
        if (is_written(in)) {
            (void)test_write(in->folder, j->name, old, sizeof old);
        }
        unsigned char *there = test_read(path, &bytes);
        assert_int_equal(bytes, sizeof old);
        assert_memory_equal(there, old, sizeof old);
        free(there);
        assert_int_equal(test_folder_count(in->folder), entries);
    }
}

static void writing_fails(void **state)
{
    const input *in = *state;
    for (int i = 0; i < JOBS; i++) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s", test_path(in->folder, jobs[i].name));
        old_file_stays(in, &jobs[i], path);
    }
    printf("%d kinds of files, the disk full or broken from the n-th write on, or a name refused: "
           "the error names the file, the old one is as it was\n",
           (int)JOBS);
}

/* The name of the new file, and everything that makes it stand there. */
static void naming_fails(void **state)
{
    const input *in = *state;
    for (int i = 0; i < JOBS; i++) {
        const char *path = test_path(in->folder, jobs[i].name);
        (void)unlink(path);
        const int entries = test_folder_count(in->folder);
        kith_status status = KITH_E_IO;
        for (int n = 1; status != KITH_OK; n++) {
            test_disk.lazy = 1;
            test_disk_names = (test_names){.fail_at = n};
            status = jobs[i].save(in, path, jobs[i].option);
            test_disk_names = (test_names){0};
            if (status != KITH_OK) {
                check_sentence(in, status, path);
                assert_int_equal(test_folder_count(in->folder), entries);
            }
        }
    }
    printf("the n-th open, link or rename fails: the same, and no name is left\n");
}

static void reading_fails(void **state)
{
    const input *in = *state;
    int refused = 0;
    for (int i = 0; i < JOBS; i++) {
        const char *path = test_path(in->folder, jobs[i].name);
        test_disk_works();
        test_disk.lazy = 1;
        assert_int_equal(jobs[i].save(in, path, jobs[i].option), KITH_OK);
        kith_status status = jobs[i].open != NULL ? KITH_E_IO : KITH_OK;
        for (int n = 1; status != KITH_OK; n++) {
            test_disk_names = (test_names){.fail_at = n, .reading = 1};
            status = jobs[i].open(in, path, jobs[i].option);
            test_disk_names = (test_names){0};
            if (status != KITH_OK) {
                check_sentence(in, status, path);
                refused += 1;
            }
        }
    }
    assert_true(refused > 0);
    printf("the n-th open or map of a file that is read fails: the error names it\n");
}

static kith_status run_shards(const input *in)
{
    kith_search_params exact = kith_search_params_default();
    kith_shard_params params = kith_shard_params_default();
    exact.k = K;
    params.exact = &exact;
    params.shards = 2;
    return kith_graph_shards(in->folder->ctx, &in->points.matrix, &params,
                             test_path(in->folder, "work"), test_path(in->folder, "shards.kith"),
                             NULL);
}

/* Whatever fails, the same call afterwards ends with the same bytes. */
static void shards_go_on(void **state)
{
    const input *in = *state;
    size_t bytes[2];
    int failures = 0;
    char path[512];
    (void)snprintf(path, sizeof path, "%s", test_path(in->folder, "shards.kith"));
    test_disk_works();
    test_disk.lazy = 1;
    assert_int_equal(run_shards(in), KITH_OK);
    unsigned char *whole = test_read(path, &bytes[0]);
    kith_status status = KITH_E_IO;
    for (int n = 1; status != KITH_OK; n += test_is_slow_build() ? 5 : 1) {
        (void)unlink(path);
        test_disk_works();
        test_disk.lazy = 1;
        test_disk.fail_at = n;
        test_disk.error = n % 2 == 0 ? EIO : ENOSPC;
        status = run_shards(in);
        test_disk_works();
        test_disk.lazy = 1;
        if (status == KITH_OK) {
            break;
        }
        assert_int_equal(status, KITH_E_IO);
        check_sentence(in, status, in->folder->path);
        assert_true(is_written(in) || access(path, F_OK) != 0);
        assert_int_equal(run_shards(in), KITH_OK);
        unsigned char *again = test_read(path, &bytes[1]);
        assert_int_equal(bytes[0], bytes[1]);
        assert_memory_equal(whole, again, bytes[0]);
        free(again);
        failures += 1;
    }
    free(whole);
    assert_true(failures > 0);
    printf("a job from shards whose disk fails at the n-th call goes on, %d times, to the same "
           "bytes\n",
           failures);
}

/* ---- Input ---------------------------------------------------------------------------------- */

static int setup(void **state)
{
    uint64_t seed = 7;
    void *folder = NULL;
    input *in = calloc(1, sizeof *in);
    kith_search_params params = kith_search_params_default();
    kith_index_params tree = kith_index_params_default();
    assert_non_null(in);
    test_folder_setup(&folder);
    in->folder = folder;
    in->points = test_rows_make(KITH_F32, ROWS, COLS, 0);
    test_shape_fill(&in->points, SHAPE_GAUSS, false, &seed);
    in->graph = test_answer_make(ROWS, K);
    params.k = K;
    tree.method = KITH_METHOD_TREE;
    kith_ctx *ctx = in->folder->ctx;
    assert_int_equal(kith_graph(ctx, &in->points.matrix, &params, &in->graph, NULL), KITH_OK);
    assert_int_equal(
        kith_graph_symmetric(ctx, &in->graph, KITH_EUCLIDEAN, KITH_SYMMETRY_UNION, &in->ranges),
        KITH_OK);
    assert_int_equal(test_index_create(ctx, &in->points.matrix, KITH_EUCLIDEAN, &in->corpora[0]),
                     KITH_OK);
    assert_int_equal(kith_index_create(ctx, &in->points.matrix, &tree, &in->corpora[1]), KITH_OK);
    *state = in;
    return 0;
}

static int teardown(void **state)
{
    input *in = *state;
    void *folder = in->folder;
    kith_ranges_free(in->ranges);
    kith_index_free(in->corpora[0]);
    kith_index_free(in->corpora[1]);
    test_rows_free(&in->points);
    test_answer_free(&in->graph);
    test_folder_teardown(&folder);
    free(in);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writing_fails), cmocka_unit_test(naming_fails),
        cmocka_unit_test(reading_fails), cmocka_unit_test(shards_go_on)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
