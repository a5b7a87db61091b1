/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "file/file_hdf5.h"

#include "base/base_mem.h"
#include "base/base_try.h"
#include "file/file_points.h"
#include "host/host_beside.h"
#include "host/host_threads.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

enum { CHUNK_BYTES = 4 << 20 };

/* Beside the library that this code is in, then wherever the loader looks. The module stays: HDF5
 * registers what it does at exit. */
static void *open_module(void)
{
    const int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
    char path[PATH_MAX];
    void *module = NULL;
    if (kin_host_beside(KIN_HDF5_LIBRARY, path, sizeof path)) {
        module = dlopen(path, flags);
    }
    return module != NULL ? module : dlopen(KIN_HDF5_LIBRARY, flags);
}

static kith_status load_module(kith_ctx *ctx, const char *path, const kin_hdf5_module **out)
{
    void *module = open_module();
    if (module == NULL) {
        return kin_fail_at(ctx, KITH_E_UNSUPPORTED, kin_at_file(path),
                           "reading HDF5 needs " KIN_HDF5_LIBRARY
                           ", which cannot be opened: %s (build kith where the HDF5 library is "
                           "installed, or save the dataset with numpy.save)",
                           dlerror());
    }
    *out = dlsym(module, KIN_HDF5_SYMBOL);
    if (*out == NULL || (*out)->version != KIN_HDF5_VERSION) {
        return kin_fail_at(ctx, KITH_E_UNSUPPORTED, kin_at_file(path),
                           "" KIN_HDF5_LIBRARY
                           " is of another version of kith (install both from one build)");
    }
    return KITH_OK;
}

/* The file is looked at first, so that what is missing or no file is told as for all formats. */
static kith_status open_dataset(kith_ctx *ctx, const char *path, const kin_hdf5_module **module,
                                kin_hdf5_table *table, uint64_t *file_bytes)
{
    const char *colon = kin_format_dataset(path);
    const size_t bytes = colon != NULL ? (size_t)(colon - path) : strlen(path);
    char file[PATH_MAX];
    if (bytes >= sizeof file) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at_file(path),
                           "the path is longer than %d bytes (give a shorter one)", PATH_MAX);
    }
    memcpy(file, path, bytes);
    file[bytes] = '\0';
    kin_map map;
    KIN_TRY(kin_map_open(ctx, file, &map));
    *file_bytes = map.bytes;
    const kith_status empty = kin_shape_check_empty(ctx, file, &map);
    kin_map_close(&map);
    KIN_TRY(empty);
    KIN_TRY(load_module(ctx, file, module));
    const kith_status status = (*module)->open(file, colon != NULL ? colon + 1 : "", table);
    if (status != KITH_OK) {
        (*module)->close(table);
        return kin_fail_at(ctx, status, kin_at_file(file), "%s", table->message);
    }
    return KITH_OK;
}

static kith_status take_shape(kith_ctx *ctx, const char *path, const kin_hdf5_table *table,
                              uint64_t cols_max, kin_shape *shape)
{
    memset(shape, 0, sizeof *shape);
    KIN_TRY(kin_shape_check(ctx, path, table->rows, table->cols, cols_max));
    shape->rows = (int64_t)table->rows;
    shape->cols = (int64_t)table->cols;
    shape->item = kin_item_make(table->kind, table->bytes);
    shape->stride = shape->cols * shape->item.bytes;
    return KITH_OK;
}

kith_status kin_hdf5_shape(kith_ctx *ctx, const char *path, uint64_t *file_bytes, kin_shape *shape)
{
    const kin_hdf5_module *module = NULL;
    kin_hdf5_table table;
    KIN_TRY(open_dataset(ctx, path, &module, &table, file_bytes));
    const kith_status status = take_shape(ctx, path, &table, KIN_VALUES_COLS_MAX, shape);
    module->close(&table);
    return status;
}

static kith_status convert(kith_ctx *ctx, const char *path, const kin_shape *shape, int64_t first,
                           int64_t rows, const unsigned char *from, double *to)
{
    for (int64_t i = 0; i < rows * shape->cols; i++) {
        if (!kin_item_load(shape->item, from + i * shape->item.bytes, &to[i])) {
            return kin_fail_at(ctx, KITH_E_DATA, kin_at_file(path),
                               "the value in row %" PRId64 ", column %" PRId64
                               " (%s, beyond 2^53) is not exactly a double (store smaller numbers)",
                               first + i / shape->cols, i % shape->cols,
                               kin_item_name(shape->item));
        }
    }
    return KITH_OK;
}

/* scratch: room for `step` rows as they are in the file, or NULL where they need no conversion. */
static kith_status read_rows(kith_points *points, const char *path, const kin_hdf5_module *module,
                             kin_hdf5_table *table, const kin_shape *shape, int64_t step,
                             unsigned char *scratch)
{
    kith_ctx *ctx = points->ctx;
    for (int64_t row = 0; row < shape->rows; row += step) {
        const int64_t rows = row + step < shape->rows ? step : shape->rows - row;
        unsigned char *target = (unsigned char *)points->block + row * points->matrix.stride_bytes;
        const kith_status status =
            module->read(table, (uint64_t)row, (uint64_t)rows, scratch != NULL ? scratch : target);
        if (status != KITH_OK) {
            return kin_fail_at(ctx, status, kin_at_file(path), "%s", table->message);
        }
        if (scratch != NULL) {
            KIN_TRY(convert(ctx, path, shape, row, rows, scratch, (double *)(void *)target));
        }
        KIN_TRY(kin_progress(ctx, "read", (double)row, (double)shape->rows));
    }
    return KITH_OK;
}

kith_status kin_hdf5_read(kith_points *points, const char *path)
{
    kith_ctx *ctx = points->ctx;
    const kin_hdf5_module *module = NULL;
    kin_hdf5_table table;
    kin_shape shape;
    unsigned char *scratch = NULL;
    kith_status status = KITH_OK;
    uint64_t file_bytes = 0;
    KIN_TRY(open_dataset(ctx, path, &module, &table, &file_bytes));
    KIN_TRY_GOTO(status, take_shape(ctx, path, &table, points->cols_max, &shape), done);
    points->item = shape.item;
    const kith_dtype own = kin_item_dtype(shape.item);
    const int64_t step = shape.stride < CHUNK_BYTES ? CHUNK_BYTES / shape.stride : 1;
    if (own == KITH_DTYPE_NONE) {
        KIN_TRY_GOTO(
            status, kin_alloc(ctx, &scratch, (uint64_t)step, (uint64_t)shape.stride, "rows"), done);
    }
    KIN_TRY_GOTO(
        status,
        kin_points_reserve(points, shape.rows, shape.cols, own != KITH_DTYPE_NONE ? own : KITH_F64),
        done);
    KIN_TRY_GOTO(status, read_rows(points, path, module, &table, &shape, step, scratch), done);
done:
    kin_free(ctx, scratch);
    module->close(&table);
    return status;
}
