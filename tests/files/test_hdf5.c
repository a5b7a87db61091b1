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
        const kith_status status = kith_points_open(folder->ctx, path, &points);
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
        if (kith_points_open(folder->ctx, path, &points) != KITH_OK) {
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
        assert_int_equal(kith_file_inspect(folder->ctx, path, &info), KITH_OK);
        assert_string_equal(info.format, "hdf5");
        assert_int_equal(info.rows, ROWS);
        assert_int_equal(info.dtype, sets[s].dtype);
        kith_points_free(points);
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
            kith_points_open(folder->ctx, test_path(folder, lies[i].name), &points);
        test_failed(folder, status, lies[i].status, NULL, lies[i].text);
        assert_null(points);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_folder_setup, test_folder_teardown)
    const struct CMUnitTest tests[] = {TEST(ann_benchmarks_layout), TEST(refusals),
                                       TEST(other_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
