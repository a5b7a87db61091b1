/* SPDX-License-Identifier: Apache-2.0
 * The border between libkith and libkith_hdf5, the module that is linked with the HDF5 library and
 * opened only when a .hdf5 file is. libkith itself never needs HDF5. */
#ifndef KIN_FILE_HDF5_H
#define KIN_FILE_HDF5_H

#include "kith/kith.h"

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

#endif
