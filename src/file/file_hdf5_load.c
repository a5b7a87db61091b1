/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "file/file_hdf5.h"

#include "file/file_open.h"
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
    KIN_FAIL_IF(module == NULL, ctx, KITH_E_UNSUPPORTED, kin_at_file(path),
                "reading HDF5 needs " KIN_HDF5_LIBRARY
                ", which cannot be opened: %s (build kith where the HDF5 library is installed, or "
                "save the dataset with numpy.save)",
                dlerror());
    *out = dlsym(module, KIN_HDF5_SYMBOL);
    KIN_FAIL_IF(*out == NULL || (*out)->version != KIN_HDF5_VERSION, ctx, KITH_E_UNSUPPORTED,
                kin_at_file(path),
                "" KIN_HDF5_LIBRARY " is of another version of kith (install both from one build)");
    return KITH_OK;
}

/* The file is looked at first, so that what is missing or no file is told as for all formats. */
static kith_status open_dataset(kith_ctx *ctx, const char *path, const kin_hdf5_module **module,
                                kin_hdf5_table *table, uint64_t *file_bytes)
{
    const char *colon = kin_format_dataset(path);
    const size_t bytes = colon != NULL ? (size_t)(colon - path) : strlen(path);
    char file[PATH_MAX];
    KIN_FAIL_IF(bytes >= sizeof file, ctx, KITH_E_ARGUMENT, kin_at_file(path),
                "the path is longer than %d bytes (give a shorter one)", PATH_MAX);
    memcpy(file, path, bytes);
    file[bytes] = '\0';
    kin_map map;
    KIN_TRY(kin_map_open(ctx, file, true, &map));
    *file_bytes = map.bytes;
    const kith_status empty = kin_input_check_empty(ctx, file, map.bytes);
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

static kith_status table_shape(const kin_source *source, const kin_hdf5_table *table,
                               kin_shape *shape)
{
    return kin_shape_make(source, NULL, table->rows, table->cols,
                          kin_item_make(table->kind, table->bytes), shape);
}

static kith_status inspect(const kin_source *source, kith_file_info *info)
{
    const kin_hdf5_module *module = NULL;
    kin_hdf5_table table;
    kin_shape shape;
    KIN_TRY(open_dataset(source->ctx, source->path, &module, &table, &info->file_bytes));
    const kith_status status = table_shape(source, &table, &shape);
    module->close(&table);
    KIN_TRY(status);
    kin_info_take_shape(info, KITH_KIND_POINTS, &shape);
    return KITH_OK;
}

/* Rows that are read, band by band. */
typedef struct reading {
    const kin_source *source;
    const kin_hdf5_module *module;
    kin_hdf5_table table;
    kin_shape shape;
    int64_t step;           /* rows of a band */
    unsigned char *scratch; /* a band as it is in the file; NULL: it needs no conversion */
} reading;

static kith_status convert(const reading *r, int64_t first, int64_t rows, double *to)
{
    const kin_shape *shape = &r->shape;
    for (int64_t i = 0; i < rows * shape->cols; i++) {
        if (!kin_item_load(shape->item, r->scratch + i * shape->item.bytes, &to[i])) {
            return kin_points_fail_value(r->source->ctx, r->source->path, shape->item,
                                         first + i / shape->cols, i % shape->cols);
        }
    }
    return KITH_OK;
}

static kith_status read_rows(kith_points *points, reading *r)
{
    kith_ctx *ctx = r->source->ctx;
    const int64_t all = r->shape.rows;
    for (int64_t row = 0; row < all; row += r->step) {
        const int64_t rows = row + r->step < all ? r->step : all - row;
        unsigned char *target = (unsigned char *)points->block + row * points->matrix.stride_bytes;
        const kith_status status = r->module->read(&r->table, (uint64_t)row, (uint64_t)rows,
                                                   r->scratch != NULL ? r->scratch : target);
        KIN_FAIL_IF(status != KITH_OK, ctx, status, kin_at_file(r->source->path), "%s",
                    r->table.message);
        if (r->scratch != NULL) {
            KIN_TRY(convert(r, row, rows, (double *)(void *)target));
        }
        KIN_TRY(kin_progress(ctx, "read", (double)row, (double)all));
    }
    return KITH_OK;
}

static kith_status read_table(const kin_source *source, kith_points *points)
{
    kith_ctx *ctx = source->ctx;
    reading r = {.source = source};
    kith_status status = KITH_OK;
    uint64_t file_bytes = 0;
    KIN_TRY(open_dataset(ctx, source->path, &r.module, &r.table, &file_bytes));
    KIN_TRY_GOTO(status, table_shape(source, &r.table, &r.shape), done);
    points->item = r.shape.item;
    const kith_dtype dtype = kin_points_dtype(points, r.shape.item);
    r.step = r.shape.stride < CHUNK_BYTES ? CHUNK_BYTES / r.shape.stride : 1;
    if (dtype != kin_item_dtype(r.shape.item)) {
        KIN_TRY_GOTO(status,
                     kin_alloc(ctx, &r.scratch, (uint64_t)r.step, (uint64_t)r.shape.stride, "rows"),
                     done);
    }
    KIN_TRY_GOTO(status, kin_points_reserve(points, r.shape.rows, r.shape.cols, dtype), done);
    KIN_TRY_GOTO(status, read_rows(points, &r), done);
done:
    kin_free(ctx, r.scratch);
    r.module->close(&r.table);
    return status;
}

const kin_reader kin_reader_hdf5 = {.points = read_table, .inspect = inspect, .opens = true};
