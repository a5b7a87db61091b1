/* SPDX-License-Identifier: Apache-2.0
 * .hdf5 files made by the HDF5 library itself, read by way of the module. */
#include "support/support_files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <hdf5.h>
#include <stdio.h>

enum { ROWS = 7, COLS = 3 };

static void make(const char *path)
{
    const hsize_t shape[2] = {ROWS, COLS};
    float floats[ROWS * COLS];
    int32_t integers[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++) {
        floats[i] = (float)i * 0.25F;
        integers[i] = i - 5;
    }
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(2, shape, NULL);
    const hid_t flat = H5Screate_simple(1, shape, NULL);
    const struct {
        const char *name;
        hid_t stored;
        hid_t given;
        hid_t space;
        const void *data;
    } sets[] = {{"train", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, space, floats},
                {"big", H5T_IEEE_F32BE, H5T_NATIVE_FLOAT, space, floats},
                {"neighbors", H5T_STD_I32LE, H5T_NATIVE_INT32, space, integers},
                {"flat", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, flat, floats}};
    for (int i = 0; i < 4; i++) {
        const hid_t set = H5Dcreate2(file, sets[i].name, sets[i].stored, sets[i].space, H5P_DEFAULT,
                                     H5P_DEFAULT, H5P_DEFAULT);
        assert_true(H5Dwrite(set, sets[i].given, H5S_ALL, H5S_ALL, H5P_DEFAULT, sets[i].data) >= 0);
        assert_true(H5Dclose(set) >= 0);
    }
    assert_true(H5Sclose(flat) >= 0 && H5Sclose(space) >= 0 && H5Fclose(file) >= 0);
}

/* Datasets that are, or are linked to, other files of the machine. */
static void make_hostile(test_folder *folder)
{
    const hsize_t shape[2] = {ROWS, COLS};
    const float secret[ROWS * COLS] = {0};
    (void)test_write(folder, "secret.bin", secret, sizeof secret);
    make(test_path(folder, "other.hdf5"));
    const hid_t file =
        H5Fcreate(test_path(folder, "evil.hdf5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(2, shape, NULL);
    const hid_t outside = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t virtual = H5Pcreate(H5P_DATASET_CREATE);
    assert_true(H5Pset_external(outside, test_path(folder, "secret.bin"), 0, sizeof secret) >= 0);
    assert_true(H5Pset_virtual(virtual, space, test_path(folder, "other.hdf5"), "train", space) >=
                0);
    const hid_t sets[] = {
        H5Dcreate2(file, "outside", H5T_IEEE_F32LE, space, H5P_DEFAULT, outside, H5P_DEFAULT),
        H5Dcreate2(file, "virtual", H5T_IEEE_F32LE, space, H5P_DEFAULT, virtual, H5P_DEFAULT)};
    assert_true(H5Lcreate_external(test_path(folder, "other.hdf5"), "train", file, "link",
                                   H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Dclose(sets[0]) >= 0 && H5Dclose(sets[1]) >= 0);
    assert_true(H5Pclose(outside) >= 0 && H5Pclose(virtual) >= 0 && H5Sclose(space) >= 0 &&
                H5Fclose(file) >= 0);
}

static void other_files(void **state)
{
    test_folder *folder = *state;
    static const char *const sets[] = {"evil.hdf5:outside", "evil.hdf5:virtual", "evil.hdf5:link"};
    make_hostile(folder);
    print_message("a file cannot make kith read another one: external storage, virtual datasets "
                  "and external links are refused\n");
    for (int i = 0; i < 3; i++) {
        kith_points *points = NULL;
        const char *path = test_path(folder, sets[i]);
        const kith_status status = kith_points_open(folder->ctx, path, NULL, &points);
        test_failed(folder, status, KITH_E_FORMAT, test_path(folder, "evil.hdf5"), "other files");
        assert_null(points);
    }
}

static void ann_benchmarks_layout(void **state)
{
    test_folder *folder = *state;
    static const struct {
        const char *name;
        kith_dtype dtype;
    } sets[] = {
        {"a.hdf5:train", KITH_F32}, {"a.hdf5:big", KITH_F32}, {"a.hdf5:neighbors", KITH_F64}};
    make(test_path(folder, "a.hdf5"));
    print_message("float32 of either byte order and int32 are read from FILE:DATASET\n");
    for (int s = 0; s < 3; s++) {
        kith_points *points = NULL;
        const char *path = test_path(folder, sets[s].name);
        if (kith_points_open(folder->ctx, path, NULL, &points) != KITH_OK) {
            fail_msg("%s", kith_ctx_detail(folder->ctx));
        }
        const kith_matrix *m = kith_points_matrix(points);
        assert_int_equal(m->rows, ROWS);
        assert_int_equal(m->cols, COLS);
        assert_int_equal(m->dtype, sets[s].dtype);
        for (int i = 0; i < ROWS * COLS; i++) {
            if (m->dtype == KITH_F32) {
                assert_true(((const float *)m->data)[i] == (float)i * 0.25F);
            } else {
                assert_true(((const double *)m->data)[i] == (double)(i - 5));
            }
        }
        kith_file_info info = {.struct_size = (uint32_t)sizeof info};
        assert_int_equal(kith_file_inspect(folder->ctx, path, NULL, &info), KITH_OK);
        assert_string_equal(info.format, "hdf5");
        assert_int_equal(info.rows, ROWS);
        assert_int_equal(info.dtype, sets[s].dtype);
        kith_points_free(points);
    }
}

/* As AnnData has its files: a dataset in a group, another ending. */
static void groups(void **state)
{
    test_folder *folder = *state;
    const hsize_t shape[2] = {ROWS, COLS};
    float values[ROWS * COLS];
    kith_points *points = NULL;
    for (int i = 0; i < ROWS * COLS; i++) {
        values[i] = (float)i;
    }
    const hid_t file =
        H5Fcreate(test_path(folder, "cells.h5ad"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t group = H5Gcreate2(file, "obsm", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(2, shape, NULL);
    const hid_t set =
        H5Dcreate2(group, "X_pca", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    assert_true(H5Lcreate_external("/etc/passwd", "/", file, "outside", H5P_DEFAULT, H5P_DEFAULT) >=
                0);
    assert_true(H5Dclose(set) >= 0 && H5Sclose(space) >= 0 && H5Gclose(group) >= 0 &&
                H5Fclose(file) >= 0);
    print_message("FILE.h5ad:GROUP/DATASET; of a group what is in it is named\n");
    const char *path = test_path(folder, "cells.h5ad:obsm/X_pca");
    if (kith_points_open(folder->ctx, path, NULL, &points) != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(folder->ctx));
    }
    assert_memory_equal(kith_points_matrix(points)->data, values, sizeof values);
    kith_points_free(points);
    static const struct {
        const char *name;
        const char *text;
    } lies[] = {{"cells.h5ad:obsm/X_umap", "has no dataset 'obsm/X_umap' (there are: obsm/X_pca)"},
                {"cells.h5ad:obsm", "has no dataset 'obsm' (there are: obsm/X_pca)"},
                {"cells.h5ad:X", "has no dataset 'X' (there are: obsm outside)"},
                {"cells.h5ad:outside/x", "which are not read for this one"}};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        const kith_status status =
            kith_points_open(folder->ctx, test_path(folder, lies[i].name), NULL, &points);
        test_failed(folder, status, KITH_E_FORMAT, test_path(folder, "cells.h5ad"), lies[i].text);
    }
}

static void refusals(void **state)
{
    test_folder *folder = *state;
    static const struct {
        const char *name;
        kith_status status;
        const char *text;
    } lies[] = {
        {"a.h5:flat", KITH_E_FORMAT, "a.h5: dataset 'flat' has 1 axes"},
        {"a.h5:none", KITH_E_FORMAT, "has no dataset 'none' (there are: big flat neighbors"},
        {"a.h5", KITH_E_ARGUMENT, "which dataset? (give FILE.hdf5:NAME; there are: big"},
        {"text.h5:train", KITH_E_FORMAT, "text.h5: is not an HDF5 file"}};
    make(test_path(folder, "a.h5"));
    (void)test_write(folder, "text.h5", "plain text", 10);
    print_message("what is no such dataset is told, with those that there are:\n");
    for (int i = 0; i < 4; i++) {
        kith_points *points = NULL;
        const kith_status status =
            kith_points_open(folder->ctx, test_path(folder, lies[i].name), NULL, &points);
        test_failed(folder, status, lies[i].status, NULL, lies[i].text);
        assert_null(points);
    }
}

/* A dataset of nothing but its type and shape; axes -1: none at all, 0: a scalar. */
static void make_odd(hid_t file, const char *name, hid_t type, int axes, const hsize_t *shape)
{
    const hid_t space = axes > 0 ? H5Screate_simple(axes, shape, NULL)
                                 : H5Screate(axes < 0 ? H5S_NULL : H5S_SCALAR);
    const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(set >= 0 && H5Dclose(set) >= 0 && H5Sclose(space) >= 0);
}

static void make_odd_types(hid_t file, const hsize_t *shape)
{
    const hid_t text = H5Tcopy(H5T_C_S1);
    const hid_t words = H5Tcopy(H5T_C_S1);
    const hid_t record = H5Tcreate(H5T_COMPOUND, 8);
    const hid_t array = H5Tarray_create2(H5T_IEEE_F32LE, 1, shape);
    const hid_t bfloat = H5Tcopy(H5T_IEEE_F32LE);
    assert_true(H5Tset_size(text, 8) >= 0 && H5Tset_size(words, H5T_VARIABLE) >= 0 &&
                H5Tinsert(record, "x", 0, H5T_IEEE_F32LE) >= 0 &&
                H5Tset_fields(bfloat, 15, 7, 8, 0, 7) >= 0 && H5Tset_size(bfloat, 2) >= 0);
    const struct {
        const char *name;
        hid_t type;
    } odd[] = {{"text", text},          {"words", words},
               {"record", record},      {"array", array},
               {"bfloat", bfloat},      {"vax", H5T_VAX_F32},
               {"bits", H5T_STD_B32LE}, {"reference", H5T_STD_REF_OBJ}};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        make_odd(file, odd[i].name, odd[i].type, 2, shape);
    }
    assert_true(H5Tclose(text) >= 0 && H5Tclose(words) >= 0 && H5Tclose(record) >= 0 &&
                H5Tclose(array) >= 0 && H5Tclose(bfloat) >= 0);
}

static void odd_datasets(void **state)
{
    test_folder *folder = *state;
    const hsize_t shape[3] = {ROWS, COLS, 2};
    const hsize_t empty[2] = {0, COLS};
    const hsize_t huge[2] = {(hsize_t)1 << 62, COLS};
    static const struct {
        const char *name;
        const char *text;
    } lies[] = {{"text", "no integers or IEEE floats"},
                {"words", "no integers or IEEE floats"},
                {"record", "no integers or IEEE floats"},
                {"array", "no integers or IEEE floats"},
                {"bfloat", "no integers or IEEE floats"},
                {"vax", "no integers or IEEE floats"},
                {"bits", "no integers or IEEE floats"},
                {"reference", "no integers or IEEE floats"},
                {"scalar", "has 0 axes"},
                {"null", "axes; points have 2"},
                {"cube", "has 3 axes"},
                {"empty", "holds 0 rows"},
                {"huge", "rows"},
                {"folder", "has no dataset 'folder'"},
                {"folder/none", "has no dataset 'folder/none'"}};
    const hid_t file =
        H5Fcreate(test_path(folder, "odd.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    make_odd_types(file, shape);
    make_odd(file, "scalar", H5T_IEEE_F32LE, 0, NULL);
    make_odd(file, "null", H5T_IEEE_F32LE, -1, NULL);
    make_odd(file, "cube", H5T_IEEE_F32LE, 3, shape);
    make_odd(file, "empty", H5T_IEEE_F32LE, 2, empty);
    const hid_t chunked = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t space = H5Screate_simple(2, huge, NULL);
    assert_true(H5Pset_chunk(chunked, 2, shape) >= 0);
    const hid_t set =
        H5Dcreate2(file, "huge", H5T_IEEE_F32LE, space, H5P_DEFAULT, chunked, H5P_DEFAULT);
    const hid_t group = H5Gcreate2(file, "folder", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Dclose(set) >= 0 && H5Gclose(group) >= 0 && H5Sclose(space) >= 0 &&
                H5Pclose(chunked) >= 0 && H5Fclose(file) >= 0);
    print_message(
        "no numbers, no two axes, no rows, no dataset, more rows than can be: each is told\n");
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        char name[64];
        kith_points *points = NULL;
        (void)snprintf(name, sizeof name, "odd.h5:%s", lies[i].name);
        const kith_status status =
            kith_points_open(folder->ctx, test_path(folder, name), NULL, &points);
        assert_true(status != KITH_OK);
        test_failed(folder, status, status, NULL, lies[i].text);
        assert_null(points);
    }
}

/* 12 bits in the middle of two bytes, by the filter that stores no others. */
static void narrow_integers(void **state)
{
    test_folder *folder = *state;
    const hsize_t shape[2] = {ROWS, COLS};
    int16_t values[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++) {
        values[i] = (int16_t)(i * 97 - 999);
    }
    const hid_t file =
        H5Fcreate(test_path(folder, "n.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t type = H5Tcopy(H5T_STD_I16BE);
    const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t space = H5Screate_simple(2, shape, NULL);
    assert_true(H5Tset_precision(type, 12) >= 0 && H5Tset_offset(type, 3) >= 0 &&
                H5Pset_chunk(how, 2, shape) >= 0 && H5Pset_nbit(how) >= 0);
    const hid_t set = H5Dcreate2(file, "d", type, space, H5P_DEFAULT, how, H5P_DEFAULT);
    assert_true(H5Dwrite(set, H5T_NATIVE_INT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    assert_true(H5Dclose(set) >= 0 && H5Tclose(type) >= 0 && H5Pclose(how) >= 0 &&
                H5Sclose(space) >= 0 && H5Fclose(file) >= 0);
    print_message("integers of 12 bits at an offset are read as their numbers\n");
    kith_points *points = NULL;
    assert_int_equal(kith_points_open(folder->ctx, test_path(folder, "n.h5:d"), NULL, &points),
                     KITH_OK);
    const kith_matrix *m = kith_points_matrix(points);
    assert_int_equal(m->dtype, KITH_F64);
    for (int i = 0; i < ROWS * COLS; i++) {
        assert_true(((const double *)m->data)[i] == (double)values[i]);
    }
    kith_points_free(points);
}

/* ---- A truth as ann-benchmarks has it -------------------------------------------------------- */

static void check_text(hid_t file, const char *name, const char *wanted)
{
    char *text = NULL;
    const hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
    const hid_t type = H5Aget_type(attribute);
    assert_true(H5Tis_variable_str(type) > 0 && H5Aread(attribute, type, &text) >= 0);
    assert_string_equal(text, wanted);
    assert_true(H5free_memory(text) >= 0 && H5Tclose(type) >= 0 && H5Aclose(attribute) >= 0);
}

static void check_set(hid_t file, const char *name, hid_t type, const void *wanted, size_t bytes)
{
    unsigned char got[4096];
    const hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
    const hid_t own = H5Dget_type(set);
    assert_true(bytes <= sizeof got && H5Tequal(own, type) > 0);
    assert_int_equal(H5Dget_storage_size(set), bytes);
    assert_true(H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, got) >= 0);
    assert_memory_equal(got, wanted, bytes);
    assert_true(H5Tclose(own) >= 0 && H5Dclose(set) >= 0);
}

static void check_truth(const char *path, const kith_matrix *points, bool whole)
{
    int64_t dimension = 0;
    H5G_info_t info;
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(file >= 0 && H5Gget_info(file, &info) >= 0);
    assert_int_equal(info.nlinks, whole ? 4 : 2);
    check_text(file, "type", "dense");
    check_text(file, "distance", "euclidean");
    check_text(file, "point_type", "float");
    const hid_t attribute = H5Aopen(file, "dimension", H5P_DEFAULT);
    assert_true(H5Aread(attribute, H5T_NATIVE_INT64, &dimension) >= 0 && H5Aclose(attribute) >= 0);
    assert_int_equal(dimension, points->cols);
    if (whole) {
        const size_t bytes = (size_t)(points->rows * points->stride_bytes);
        check_set(file, "train", H5T_IEEE_F32LE, points->data, bytes);
        check_set(file, "test", H5T_IEEE_F32LE, points->data, bytes);
    }
    assert_true(H5Fclose(file) >= 0);
}

static void truths(void **state)
{
    test_folder *folder = *state;
    enum { K = 3 };
    char in[320];
    char train[340];
    char out[320];
    uint64_t ids[ROWS * K];
    double distances[ROWS * K];
    (void)snprintf(in, sizeof in, "%s", test_path(folder, "in.hdf5"));
    (void)snprintf(train, sizeof train, "%s:train", in);
    (void)snprintf(out, sizeof out, "%s", test_path(folder, "out.hdf5"));
    make(in);
    kith_points *points = NULL;
    assert_int_equal(kith_points_open(folder->ctx, train, NULL, &points), KITH_OK);
    const kith_matrix *m = kith_points_matrix(points);
    for (int whole = 0; whole < 2; whole++) {
        char test[340];
        (void)snprintf(test, sizeof test, "%s:%s", in, whole != 0 ? "test" : "train");
        const char *const names[] = {train, test};
        kith_truth_params params = kith_truth_params_default();
        params.k = K;
        params.path = out;
        params.names = names;
        params.ids = ids;
        params.distances = distances;
        assert_int_equal(kith_truth(folder->ctx, m, 1, m, &params, NULL), KITH_OK);
        check_truth(out, m, whole != 0);
        const hid_t file = H5Fopen(out, H5F_ACC_RDONLY, H5P_DEFAULT);
        check_set(file, "neighbors", H5T_STD_I64LE, ids, sizeof ids);
        check_set(file, "distances", H5T_IEEE_F64LE, distances, sizeof distances);
        assert_true(H5Fclose(file) >= 0);
        params.task = KITH_TRUTH_VERIFY;
        params.sample = ROWS;
        assert_int_equal(kith_truth(folder->ctx, m, 1, m, &params, NULL), KITH_OK);
    }
    /* The library goes on writing into what kith has written. */
    const hid_t file = H5Fopen(out, H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t group = H5Gcreate2(file, "more", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(group >= 0 && H5Gclose(group) >= 0);
    check_set(file, "neighbors", H5T_STD_I64LE, ids, sizeof ids);
    assert_true(H5Fclose(file) >= 0);
    kith_points_free(points);
    print_message("a truth written as .hdf5 is what the HDF5 library reads, alone and with train "
                  "and test, and may be written to by it\n");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_folder_setup, test_folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(ann_benchmarks_layout), TEST(groups),          TEST(refusals), TEST(other_files),
        TEST(odd_datasets),          TEST(narrow_integers), TEST(truths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
