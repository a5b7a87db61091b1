/* SPDX-License-Identifier: Apache-2.0
 * Files that are not what they claim, and things that are no files: one clear error each. */
#include "support/support_calls.h"
#include "support/support_files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORDS(...) ((const uint32_t[]){__VA_ARGS__}), sizeof((const uint32_t[]){__VA_ARGS__})

static void lie(test_folder *folder, char use, const char *name, const void *data, size_t bytes,
                const char *text)
{
    test_refused(folder, use, test_write(folder, name, data, bytes), KITH_E_FORMAT, text);
}

static void vecs(void **state)
{
    test_folder *folder = *state;
    print_message("fvecs, bvecs, ivecs:\n");
    lie(folder, 'p', "a.fvecs", "", 0, "is empty");
    lie(folder, 'p', "a.fvecs", "ab", 2, "has 2 bytes, less than the 4 of its header");
    lie(folder, 'p', "a.fvecs", WORDS(0, 0), "row 0 says it has 0 columns");
    lie(folder, 'p', "a.fvecs", WORDS(0xffffffffu, 0), "row 0 says it has -1 columns");
    lie(folder, 'p', "a.fvecs", WORDS(1u << 21, 0), "has 2097152 columns; 1 to 1048576");
    lie(folder, 'p', "a.fvecs", WORDS(2, 1, 2, 2, 1),
        "has 20 bytes, not a multiple of the 12 that a row of 2 float32 columns takes");
    lie(folder, 'p', "a.fvecs", WORDS(2, 1, 2, 1, 1, 2),
        "row 1 says it has 1 columns, row 0 has 2");
    lie(folder, 'p', "a.bvecs", WORDS(3, 1), "not a multiple of the 7");
    lie(folder, 'r', "a.ivecs", WORDS(1, 5, 1), "not a multiple of the 8");
    lie(folder, 'r', "a.ivecs", WORDS(2, 5, 0xfffffffeu),
        "row 0, column 1 holds -2, which is no id");
    lie(folder, 'r', "a.ivecs", WORDS(0), "row 0 says it has 0 columns");
}

static void bins(void **state)
{
    test_folder *folder = *state;
    print_message("fbin, u8bin, i8bin, ibin, knn:\n");
    lie(folder, 'p', "a.fbin", "", 0, "is empty");
    lie(folder, 'p', "a.fbin", WORDS(1), "has 4 bytes, less than the 8 of its header");
    lie(folder, 'p', "a.fbin", WORDS(0, 4), "holds 0 rows");
    lie(folder, 'p', "a.fbin", WORDS(4, 0), "rows have 0 columns");
    lie(folder, 'p', "a.fbin", WORDS(2, 2, 1, 2, 3),
        "has 20 bytes, but its header (8 bytes) announces 2 rows of 8 bytes, 24 in all (it is cut "
        "short");
    lie(folder, 'p', "a.fbin", WORDS(1, 2, 1, 2, 3), "it is too long");
    lie(folder, 'p', "a.fbin", WORDS(0xffffffffu, 4), "says it holds 4294967295 rows");
    lie(folder, 'p', "a.fbin", WORDS(4, 0xffffffffu), "says its rows have 4294967295 columns");
    lie(folder, 'p', "a.fbin", WORDS(0xfffffffeu, 1u << 20), "18014398501093384 in all");
    lie(folder, 'p', "a.u8bin", WORDS(3, 3, 1, 1), "16 bytes");
    lie(folder, 'r', "a.ibin", WORDS(1, 2, 1, 0x80000000u), "holds -2147483648, which is no id");
    lie(folder, 'r', "a.knn", WORDS(1, 2, 1, 2), "1 rows of 16 bytes, 24 in all");
    lie(folder, 'r', "a.knn", WORDS(1), "less than the 8 of its header");
    lie(folder, 'r', "a.knn", WORDS(0xfffffffeu, 0xfffffffeu), "18446744073709551615 in all");
}

static void archives_and_containers(void **state)
{
    test_folder *folder = *state;
    print_message("npz, npy, kith of wrong magic or none:\n");
    lie(folder, 'p', "a.npy", "", 0, "is empty");
    lie(folder, 'p', "a.npy", "PK\3\4 and so on", 14, "does not begin with the magic of .npy");
    lie(folder, 'p', "a.npy", "\x93NUMPY\1", 7, "magic of .npy");
    lie(folder, 'p', "a.npy", "\x93NUMPY\1\0\xff\xff{'d", 13, "ends within its header");
    lie(folder, 'r', "a.npz", "", 0, "is empty");
    lie(folder, 'r', "a.npz", "\x93NUMPY", 6, "does not begin with the magic of .npz");
    lie(folder, 'r', "a.npz", "PK\3\4", 4, "has no list of its members at its end");
    lie(folder, 'r', "a.kith", "", 0, "is empty");
    lie(folder, 'p', "a.kith", "kith", 4, "has 4 bytes, less than the 128 of its header");
    char zeros[256] = {0};
    lie(folder, 'p', "a.kith", zeros, sizeof zeros, "does not begin with the magic of .kith");
}

typedef kith_status (*open_fn)(kith_ctx *ctx, const char *path);

static kith_status open_points(kith_ctx *ctx, const char *path)
{
    kith_points *points = NULL;
    const kith_status status = kith_points_open(ctx, path, NULL, &points);
    kith_points_free(points);
    return status;
}

static kith_status open_result(kith_ctx *ctx, const char *path)
{
    kith_result *result = NULL;
    const kith_status status = kith_result_open(ctx, path, &result);
    kith_result_free(result);
    return status;
}

static kith_status open_corpus(kith_ctx *ctx, const char *path)
{
    kith_index *corpus = NULL;
    const kith_status status = kith_index_open(ctx, path, &corpus);
    kith_index_free(corpus);
    return status;
}

/* Cut at each byte, or each seventh; whole it opens. */
static void cut(test_folder *folder, const char *name, open_fn open)
{
    size_t bytes = 0;
    const char *path = test_path(folder, name);
    unsigned char *whole = test_read(path, &bytes);
    assert_int_equal(open(folder->ctx, path), KITH_OK);
    for (size_t keep = 0; keep < bytes; keep += bytes < 500 ? 1 : 7) {
        path = test_write(folder, name, whole, keep);
        test_failed(folder, open(folder->ctx, path), KITH_E_FORMAT, path, "(");
    }
    print_message("  %s: %zu bytes\n", name, bytes);
    free(whole);
}

static void cut_files(void **state)
{
    enum { ROWS = 9, COLS = 3, K = 2 };
    static const char *const points[] = {"c.fbin", "c.u8bin", "c.npy", "c.kith"};
    static const char *const results[] = {"c.npz", "c.ibin", "c.knn", "r.kith"};
    static unsigned char values[ROWS * COLS];
    uint32_t ids[ROWS * K];
    float distances[ROWS * K];
    test_folder *folder = *state;
    const kith_matrix m = {values, ROWS, 0, COLS, KITH_U8};
    const kith_neighbors out = {.ids = ids, .distances = distances, .rows = ROWS, .k = K};
    kith_search_params params = kith_search_params_default();
    kith_result_meta meta = kith_result_meta_default();
    kith_index_params tree = kith_index_params_default();
    kith_index *corpora[2] = {NULL, NULL};
    kith_ctx *ctx = folder->ctx;
    print_message("a file that is cut anywhere is refused when it is opened:\n");
    for (int i = 0; i < ROWS * COLS; i++) {
        values[i] = (unsigned char)(i * 37 % 101);
    }
    params.k = K;
    meta.kind = KITH_KIND_GRAPH;
    meta.metric = KITH_EUCLIDEAN;
    meta.corpus_rows = ROWS;
    tree.method = KITH_METHOD_TREE;
    assert_int_equal(kith_graph(ctx, &m, &params, &out, NULL), KITH_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(kith_points_save(ctx, test_path(folder, points[i]), &m), KITH_OK);
        cut(folder, points[i], open_points);
        const char *path = test_path(folder, results[i]);
        assert_int_equal(kith_result_save(ctx, path, KITH_FORMAT_AUTO, &out, &meta), KITH_OK);
        cut(folder, results[i], open_result);
    }
    assert_int_equal(test_index_create(ctx, &m, KITH_EUCLIDEAN, &corpora[0]), KITH_OK);
    assert_int_equal(kith_index_create(ctx, &m, &tree, &corpora[1]), KITH_OK);
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "corpus.kith" : "tree.kith";
        assert_int_equal(kith_index_save(ctx, corpora[i], test_path(folder, name)), KITH_OK);
        cut(folder, name, open_corpus);
        kith_index_free(corpora[i]);
    }
}

static void extensions(void **state)
{
    test_folder *folder = *state;
    print_message("unknown extensions are told the known ones:\n");
    const char *path = test_write(folder, "a.doc", "1", 1);
    test_refused(folder, 'p', path, KITH_E_ARGUMENT, ".fvecs .bvecs .ivecs .fbin .u8bin .i8bin");
    test_refused(folder, 'r', path, KITH_E_ARGUMENT, "(there are: .npz .ivecs .ibin .knn .kith)");
    test_refused(folder, 'p', test_path(folder, "noext"), KITH_E_IO, "cannot be opened: No such");
    path = test_write(folder, "noext", "1", 1);
    test_refused(folder, 'p', path, KITH_E_ARGUMENT, "the extension is not");
    test_refused(folder, 'p', test_path(folder, ".fbin"), KITH_E_IO, "cannot be opened");
    test_refused(folder, 'r', test_path(folder, "a.csv"), KITH_E_ARGUMENT, "not one of neighbours");
    const float one = 1;
    const kith_matrix m = {&one, 1, 0, 1, KITH_F32};
    path = test_path(folder, "a.hdf5");
    test_failed(folder, kith_points_save(folder->ctx, path, &m), KITH_E_ARGUMENT, path,
                "points that kith writes");
    kith_file_info info = {.struct_size = (uint32_t)sizeof info};
    path = test_write(folder, "a.jpeg", "1", 1);
    test_failed(folder, kith_file_inspect(folder->ctx, path, NULL, &info), KITH_E_ARGUMENT, path,
                "not one of a file that kith knows");
}

static void no_files(void **state)
{
    test_folder *folder = *state;
    print_message(
        "missing, a folder, a pipe, a device, no right to read, no folder to write to:\n");
    test_refused(folder, 'p', test_path(folder, "missing.fbin"), KITH_E_IO,
                 "cannot be opened: No such file");
    const char *path = test_path(folder, "folder.fbin");
    assert_int_equal(mkdir(path, 0700), 0);
    test_refused(folder, 'p', path, KITH_E_IO, "is a folder, not a file");
    const float one = 1;
    const kith_matrix m = {&one, 1, 0, 1, KITH_F32};
    test_failed(folder, kith_points_save(folder->ctx, path, &m), KITH_E_IO, path, "is a folder");
    path = test_path(folder, "pipe.fbin");
    assert_int_equal(mkfifo(path, 0600), 0);
    test_refused(folder, 'p', path, KITH_E_IO, "is a pipe, not a file");
    test_failed(folder, kith_points_save(folder->ctx, path, &m), KITH_E_IO, path,
                "is a device or pipe");
    path = test_path(folder, "device.fbin");
    assert_int_equal(symlink("/dev/null", path), 0);
    test_refused(folder, 'p', path, KITH_E_IO, "is a device, not a file");
    test_failed(folder, kith_points_save(folder->ctx, path, &m), KITH_E_IO, path, "is a device");
    path = test_path(folder, "nowhere/x.fbin");
    test_failed(folder, kith_points_save(folder->ctx, path, &m), KITH_E_IO, path,
                "make its folder first");
    path = test_write(folder, "secret.fbin", "1234567890", 10);
    assert_int_equal(chmod(path, 0), 0);
    const uid_t before = geteuid();
    if (before == 0) {
        assert_int_equal(chmod(folder->path, 0755), 0);
        assert_int_equal(seteuid(65534), 0);
    }
    test_refused(folder, 'p', path, KITH_E_IO, "cannot be opened: Permission denied");
    if (before == 0) {
        path = test_path(folder, "new.fbin");
        test_failed(folder, kith_points_save(folder->ctx, path, &m), KITH_E_IO, path,
                    "you need the right to write");
        assert_int_equal(seteuid(before), 0);
    }
}

/* HDF5 is looked at as a file first, with and without the module. */
static void hdf5_paths(void **state)
{
    test_folder *folder = *state;
    kith_points *points = NULL;
    print_message("hdf5: what is missing or no file is told as for all formats:\n");
    char path[400];
    (void)snprintf(path, sizeof path, "%s/missing.hdf5:train", folder->path);
    test_failed(folder, kith_points_open(folder->ctx, path, NULL, &points), KITH_E_IO, NULL,
                "missing.hdf5: cannot be opened");
    (void)snprintf(path, sizeof path, "%s:train", test_write(folder, "e.h5", "", 0));
    test_failed(folder, kith_points_open(folder->ctx, path, NULL, &points), KITH_E_FORMAT, NULL,
                "e.h5: is empty");
    (void)snprintf(path, sizeof path, "%s:train", test_write(folder, "n.h5", "no", 2));
    const kith_status status = kith_points_open(folder->ctx, path, NULL, &points);
    assert_true(status == KITH_E_FORMAT || status == KITH_E_UNSUPPORTED);
    test_failed(folder, status, status, NULL,
                status == KITH_E_FORMAT ? "is not an HDF5 file" : "needs");
}

static void arguments(void **state)
{
    test_folder *folder = *state;
    kith_ctx *ctx = folder->ctx;
    kith_points *points = (kith_points *)folder;
    const float data[4] = {0};
    print_message("arguments out of range:\n");
    test_failed(folder, kith_points_open(ctx, NULL, NULL, &points), KITH_E_ARGUMENT, NULL,
                "path is NULL");
    assert_null(points);
    test_failed(folder, kith_points_open(ctx, "", NULL, &points), KITH_E_ARGUMENT, NULL,
                "path is empty");
    test_failed(folder, kith_points_open(ctx, "a.fbin", NULL, NULL), KITH_E_ARGUMENT, NULL,
                "out is NULL");
    test_failed(folder, kith_points_save(ctx, "a.fbin", NULL), KITH_E_ARGUMENT, NULL, "points is");
    static const struct {
        int64_t rows;
        int64_t stride;
        int32_t cols;
        kith_dtype dtype;
        const char *text;
    } bad[] = {{0, 0, 1, KITH_F32, "points.rows is 0"},
               {1, 0, 0, KITH_F32, "points.cols is 0"},
               {1, 0, 1 << 21, KITH_F32, "points.cols is 2097152"},
               {1, 3, 1, KITH_F32, "points.stride_bytes is 3"},
               {1, 0, 1, KITH_DTYPE_NONE, "points.dtype is 0"}};
    for (int i = 0; i < 5; i++) {
        const kith_matrix m = {data, bad[i].rows, bad[i].stride, bad[i].cols, bad[i].dtype};
        test_failed(folder, kith_points_save(ctx, "a.fbin", &m), KITH_E_ARGUMENT, NULL,
                    bad[i].text);
    }
    uint32_t id = 0;
    kith_neighbors none = {NULL, NULL, NULL, 1, 1, NULL};
    test_failed(folder, kith_result_save(ctx, "a.npz", 0, &none, NULL), KITH_E_ARGUMENT, NULL,
                "neighbors.ids is NULL");
    none.ids = &id;
    none.k = 0;
    test_failed(folder, kith_result_save(ctx, "a.npz", 0, &none, NULL), KITH_E_ARGUMENT, NULL,
                "1 rows of 0");
    test_failed(folder, kith_ranges_save(ctx, "a.npz", NULL, NULL), KITH_E_ARGUMENT, NULL,
                "ranges is NULL");
    assert_int_equal(kith_points_open(NULL, "a.fbin", NULL, &points), KITH_E_ARGUMENT);
    kith_points_free(NULL);
    kith_result_free(NULL);
    kith_file_info info = {.struct_size = 0};
    test_failed(folder, kith_file_inspect(ctx, "a.fbin", NULL, &info), KITH_E_ARGUMENT, NULL,
                "struct_size");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_folder_setup, test_folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(vecs),       TEST(bins),       TEST(archives_and_containers),
        TEST(cut_files),  TEST(extensions), TEST(no_files),
        TEST(hdf5_paths), TEST(arguments)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
