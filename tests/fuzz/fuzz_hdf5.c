/* SPDX-License-Identifier: Apache-2.0
 * .hdf5 files of any bytes: rows that can be read whole, or an error. HDF5's own library parses
 * them; what it lets through is checked by kith. Sanitizers see HDF5 1.10.8 itself read behind
 * chunks of such files, so mutants are tried without them. */
#include "replay_file.h"

#include <hdf5.h>
#include <stdio.h>

const char *const fuzz_extensions[] = {"hdf5", "h5", NULL};
enum { COUNT = sizeof fuzz_extensions / sizeof fuzz_extensions[0] - 1 };
enum { ROWS = 7, COLS = 3, SEEDS = 3 };

/* Contiguous floats; compressed chunks of integers; the same of 12 bits, with checksums. */
static void make(const char *path, int which)
{
    const hsize_t shape[2] = {ROWS, COLS};
    const hsize_t chunk[2] = {4, COLS};
    int32_t values[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++) {
        values[i] = i * 3 - 7;
    }
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(2, shape, NULL);
    const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t type = H5Tcopy(which == 0 ? H5T_IEEE_F32LE : H5T_STD_I16BE);
    if (which > 0) {
        (void)H5Pset_chunk(how, 2, chunk);
        (void)H5Pset_deflate(how, 6);
    }
    if (which == 2) {
        (void)H5Pset_fletcher32(how);
        (void)H5Tset_precision(type, 12);
    }
    const hid_t set = H5Dcreate2(file, "d", type, space, H5P_DEFAULT, how, H5P_DEFAULT);
    fuzz_require(H5Dwrite(set, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0 &&
                     H5Dclose(set) >= 0 && H5Tclose(type) >= 0 && H5Pclose(how) >= 0 &&
                     H5Sclose(space) >= 0 && H5Fclose(file) >= 0,
                 "a file can be made");
}

int fuzz_seed(int extension, int i, const char *path)
{
    if (extension > 0 || i >= SEEDS) {
        return 0;
    }
    make(path, i);
    return 1;
}

static unsigned touch(const kith_matrix *m)
{
    unsigned sum = 0;
    const int64_t bytes = m->rows * m->cols * kith_dtype_bytes(m->dtype);
    fuzz_require(m->rows >= 1 && m->cols >= 1 && m->stride_bytes * m->rows == bytes,
                 "a sane shape");
    for (int64_t i = 0; i < bytes; i++) {
        sum += ((const unsigned char *)m->data)[i];
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) {
        return 0;
    }
    char path[400];
    kith_ctx *ctx = fuzz_ctx();
    const char *file = fuzz_file(fuzz_extensions[data[0] % COUNT], data + 1, bytes - 1);
    (void)snprintf(path, sizeof path, "%s:d", file);
    kith_points *points = NULL;
    const kith_status status = kith_points_open(ctx, path, NULL, &points);
    fuzz_require((status == KITH_OK) == (points != NULL), "points exactly when it succeeds");
    if (status == KITH_OK) {
        fuzz_kept = touch(kith_points_matrix(points));
    } else {
        fuzz_require(status != KITH_E_UNSUPPORTED && status != KITH_E_INTERNAL,
                     "the module is there, and nothing impossible happens");
        fuzz_blames(status, file);
    }
    kith_points_free(points);
    return 0;
}
