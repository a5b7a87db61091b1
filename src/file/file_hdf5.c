/* SPDX-License-Identifier: Apache-2.0
 * The module libkith_hdf5: the only code that calls the HDF5 library. */
#include "file/file_hdf5.h"

#include <hdf5.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

extern const kin_hdf5_module kith_hdf5_module;

static kith_status fail(kin_hdf5_table *table, kith_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static kith_status fail(kin_hdf5_table *table, kith_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(table->message, sizeof table->message, format, args);
    va_end(args);
    return status;
}

/* A file that somebody sent is not to say which other files of this machine are read: links to
 * other files are not followed, */
static herr_t refuse_link(const char *file, const char *group, const char *other,
                          const char *object, unsigned *flags, hid_t access, void *refused)
{
    (void)file;
    (void)group;
    (void)other;
    (void)object;
    (void)flags;
    (void)access;
    *(bool *)refused = true;
    return -1;
}

/* The group that a path leads to as far as it can: of "obsm/X_umap", which is not there, obsm.
 * name: so far. */
static hid_t open_nearest_group(hid_t file, const char *dataset, char *name, size_t room)
{
    bool refused = false;
    hid_t group = H5I_INVALID_HID;
    const hid_t access = H5Pcreate(H5P_GROUP_ACCESS);
    size_t bytes = strlen(dataset);
    if (access < 0 || H5Pset_elink_cb(access, refuse_link, &refused) < 0) {
        bytes = 0;
    }
    while (group < 0 && bytes > 0 && bytes < room) {
        memcpy(name, dataset, bytes);
        name[bytes] = '\0';
        group = H5Gopen2(file, name, access);
        while (group < 0 && bytes > 0 && dataset[--bytes] != '/') {
        }
    }
    (void)H5Pclose(access);
    if (group < 0) {
        name[0] = '\0';
        group = H5Gopen2(file, "/", H5P_DEFAULT);
    }
    return group;
}

/* "train test neighbors": what stands in the group that the dataset should be in, by the names that
 * lead there from the root. */
static void list_names(hid_t file, const char *dataset, char *text, size_t room)
{
    H5G_info_t info;
    char path[128];
    size_t used = 0;
    text[0] = '\0';
    const hid_t group = open_nearest_group(file, dataset, path, sizeof path);
    if (group < 0) {
        return;
    }
    const bool known = H5Gget_info(group, &info) >= 0;
    for (hsize_t i = 0; known && i < info.nlinks && i < 32; i++) {
        char name[64];
        if (H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name,
                               H5P_DEFAULT) < 0 ||
            used + sizeof name + sizeof path + 2 > room) {
            break;
        }
        used += (size_t)snprintf(text + used, room - used, "%s%s%s%s", used > 0 ? " " : "", path,
                                 path[0] != '\0' ? "/" : "", name);
    }
    (void)H5Gclose(group);
}

static bool is_half(hid_t type)
{
    size_t sign = 0;
    size_t exponent = 0;
    size_t exponent_bits = 0;
    size_t fraction = 0;
    size_t fraction_bits = 0;
    return H5Tget_fields(type, &sign, &exponent, &exponent_bits, &fraction, &fraction_bits) >= 0 &&
           sign == 15 && exponent == 10 && exponent_bits == 5 && fraction == 0 &&
           fraction_bits == 10 && H5Tget_ebias(type) == 15 && H5Tget_norm(type) == H5T_NORM_IMPLIED;
}

/* IEEE's, in either order of bytes; HDF5 would round others as they are read. */
static bool is_float(hid_t type, size_t bytes)
{
    return H5Tset_order(type, H5T_ORDER_LE) >= 0 &&
           ((bytes == 2 && is_half(type)) || (bytes == 4 && H5Tequal(type, H5T_IEEE_F32LE) > 0) ||
            (bytes == 8 && H5Tequal(type, H5T_IEEE_F64LE) > 0));
}

/* Some have fewer bits than their bytes, and these anywhere: they are read as whole bytes. */
static bool is_integer(hid_t type, size_t bytes)
{
    return (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) &&
           H5Tset_order(type, H5T_ORDER_LE) >= 0 && H5Tset_offset(type, 0) >= 0 &&
           H5Tset_precision(type, 8 * bytes) >= 0;
}

static kith_status take_type(kin_hdf5_table *table, const char *dataset)
{
    const hid_t stored = H5Dget_type(table->dataset);
    const hid_t type = H5Tcopy(stored); /* the dataset's own cannot be changed */
    (void)H5Tclose(stored);
    table->type = type;
    const size_t bytes = type >= 0 ? H5Tget_size(type) : 0;
    const H5T_class_t class = type >= 0 ? H5Tget_class(type) : H5T_NO_CLASS;
    bool known = false;
    if (class == H5T_FLOAT) {
        table->kind = 'f';
        known = is_float(type, bytes);
    } else if (class == H5T_INTEGER) {
        table->kind = H5Tget_sign(type) == H5T_SGN_NONE ? 'u' : 'i';
        known = is_integer(type, bytes);
    }
    table->bytes = (int32_t)bytes;
    if (!known) {
        return fail(table, KITH_E_FORMAT,
                    "dataset '%s' holds no integers or IEEE floats of 8 to 64 bits (store "
                    "numbers)",
                    dataset);
    }
    return KITH_OK;
}

static kith_status take_shape(kin_hdf5_table *table, const char *dataset)
{
    const hid_t space = H5Dget_space(table->dataset);
    const int axes = space >= 0 ? H5Sget_simple_extent_ndims(space) : -1;
    hsize_t shape[2] = {0, 0};
    if (axes == 2) {
        (void)H5Sget_simple_extent_dims(space, shape, NULL);
    }
    (void)H5Sclose(space);
    if (axes != 2) {
        return fail(table, KITH_E_FORMAT,
                    "dataset '%s' has %d axes; points have 2, rows and columns (give another)",
                    dataset, axes);
    }
    table->rows = shape[0];
    table->cols = shape[1];
    return KITH_OK;
}

static hid_t open_own(hid_t file, const char *dataset, bool *refused)
{
    const hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
    hid_t opened = H5I_INVALID_HID;
    if (access >= 0 && H5Pset_elink_cb(access, refuse_link, refused) >= 0) {
        opened = H5Dopen2(file, dataset, access);
    }
    (void)H5Pclose(access);
    return opened;
}

/* Datasets whose values stand elsewhere are refused, too. */
static bool stands_elsewhere(hid_t dataset)
{
    const hid_t made = H5Dget_create_plist(dataset);
    const bool elsewhere =
        made < 0 || H5Pget_external_count(made) != 0 || H5Pget_layout(made) == H5D_VIRTUAL;
    (void)H5Pclose(made);
    return elsewhere;
}

/* Values that stand in the dataset's own header: HDF5 1.10 copies as many as the rows say, however
 * few a forged header has. Those of other layouts it looks for in the file. */
static bool holds_rows(const kin_hdf5_table *table)
{
    const hid_t stored = H5Dget_type(table->dataset);
    const hid_t made = H5Dget_create_plist(table->dataset);
    const H5D_layout_t layout = made >= 0 ? H5Pget_layout(made) : H5D_LAYOUT_ERROR;
    const uint64_t there = H5Dget_storage_size(table->dataset);
    uint64_t all = stored >= 0 ? H5Tget_size(stored) : 0;
    (void)H5Tclose(stored);
    (void)H5Pclose(made);
    return layout == H5D_CONTIGUOUS || layout == H5D_CHUNKED ||
           (layout == H5D_COMPACT && !__builtin_mul_overflow(table->rows, all, &all) &&
            !__builtin_mul_overflow(table->cols, all, &all) && there == all);
}

static kith_status open_quietly(const char *path, const char *dataset, kin_hdf5_table *table)
{
    table->file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (table->file < 0) {
        return fail(table, KITH_E_FORMAT, "is not an HDF5 file, or damaged (make it again)");
    }
    bool refused = false;
    table->dataset =
        dataset[0] != '\0' ? open_own(table->file, dataset, &refused) : H5I_INVALID_HID;
    if (refused || (table->dataset >= 0 && stands_elsewhere(table->dataset))) {
        return fail(table, KITH_E_FORMAT,
                    "dataset '%s' stands in other files, which are not read for this one (give the "
                    "file that holds it, or copy it with h5repack)",
                    dataset);
    }
    if (table->dataset < 0) {
        char names[512];
        list_names(table->file, dataset, names, sizeof names);
        if (dataset[0] == '\0') {
            return fail(table, KITH_E_ARGUMENT,
                        "which dataset? (give FILE.hdf5:NAME; there are: %s)", names);
        }
        return fail(table, KITH_E_FORMAT, "has no dataset '%s' (there are: %s)", dataset, names);
    }
    kith_status status = take_type(table, dataset);
    if (status == KITH_OK) {
        status = take_shape(table, dataset);
    }
    if (status == KITH_OK && !holds_rows(table)) {
        return fail(table, KITH_E_FORMAT,
                    "dataset '%s' is shorter than its rows (the file is damaged)", dataset);
    }
    return status;
}

static kith_status open_table(const char *path, const char *dataset, kin_hdf5_table *table)
{
    kith_status status = KITH_OK;
    memset(table, 0, sizeof *table);
    table->file = H5I_INVALID_HID;
    table->dataset = H5I_INVALID_HID;
    table->type = H5I_INVALID_HID;
    H5E_BEGIN_TRY
    {
        status = open_quietly(path, dataset, table);
    }
    H5E_END_TRY
    return status;
}

static kith_status read_quietly(kin_hdf5_table *table, uint64_t first, uint64_t rows, void *target)
{
    const hsize_t start[2] = {first, 0};
    const hsize_t count[2] = {rows, table->cols};
    const hid_t from = H5Dget_space(table->dataset);
    const hid_t to = H5Screate_simple(2, count, NULL);
    const bool done = from >= 0 && to >= 0 &&
                      H5Sselect_hyperslab(from, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
                      H5Dread(table->dataset, table->type, to, from, H5P_DEFAULT, target) >= 0;
    (void)H5Sclose(from);
    (void)H5Sclose(to);
    if (!done) {
        return fail(table, KITH_E_FORMAT,
                    "rows %llu to %llu cannot be read (the file is damaged, or compressed by a "
                    "filter that this HDF5 library lacks)",
                    (unsigned long long)first, (unsigned long long)(first + rows - 1));
    }
    return KITH_OK;
}

static kith_status read_table(kin_hdf5_table *table, uint64_t first, uint64_t rows, void *target)
{
    kith_status status = KITH_OK;
    H5E_BEGIN_TRY
    {
        status = read_quietly(table, first, rows, target);
    }
    H5E_END_TRY
    return status;
}

static void close_table(kin_hdf5_table *table)
{
    H5E_BEGIN_TRY
    {
        (void)H5Tclose(table->type);
        (void)H5Dclose(table->dataset);
        (void)H5Fclose(table->file);
    }
    H5E_END_TRY
}

__attribute__((visibility("default"))) const kin_hdf5_module kith_hdf5_module = {
    .version = KIN_HDF5_VERSION, .open = open_table, .read = read_table, .close = close_table};
