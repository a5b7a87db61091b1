/* SPDX-License-Identifier: Apache-2.0
 * The border between libkith and libkith_hdf5, the module that is linked with the HDF5 library and
 * opened only when a .hdf5 file is. libkith itself never needs HDF5. */
#ifndef KIN_FILE_HDF5_H
#define KIN_FILE_HDF5_H

#include "base/base_mem.h"
#include "file/file_reader.h"

enum { KIN_HDF5_VERSION = 1, KIN_HDF5_MESSAGE = 512 };
#define KIN_HDF5_LIBRARY "libkith_hdf5.so"
#define KIN_HDF5_SYMBOL "kith_hdf5_module"

/* An open two-dimensional dataset. kind and bytes as in kin_item. */
typedef struct kin_hdf5_table {
    int64_t file;
    int64_t dataset;
    int64_t type; /* what rows are read as: the file's own type, little-endian */
    uint64_t rows;
    uint64_t cols;
    int32_t bytes;
    char kind;
    char message[KIN_HDF5_MESSAGE]; /* after a failure: what is wrong (what to do) */
} kin_hdf5_table;

typedef struct kin_hdf5_module {
    uint32_t version;
    kith_status (*open)(const char *path, const char *dataset, kin_hdf5_table *table);
    kith_status (*read)(kin_hdf5_table *table, uint64_t first, uint64_t rows, void *target);
    void (*close)(kin_hdf5_table *table); /* also after a failed open */
} kin_hdf5_module;

/* ---- Written (file_hdf5_write.c), without that library --------------------------------------- */

enum { KIN_HDF5_SETS = 4 };

/* A table; name: at most 15 characters. */
typedef struct kin_hdf5_set {
    const char *name;
    const void *data;
    int64_t rows;
    int64_t cols;
    int64_t stride; /* of rows, in bytes */
    kin_item item;  /* 'f' of 2, 4 or 8 bytes, 'i' or 'u' */
} kin_hdf5_set;

/* Attributes as of ann-benchmarks; texts are words. */
typedef struct kin_hdf5_about {
    const char *distance;
    const char *point_type;
    int64_t dimension;
} kin_hdf5_about;

/* Tables by rising names, at most KIN_HDF5_SETS and at least one. */
kith_status kin_hdf5_save(kith_ctx *ctx, const char *path, const kin_hdf5_about *about,
                          const kin_hdf5_set *sets, int32_t count);

#endif
