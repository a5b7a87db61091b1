/* SPDX-License-Identifier: Apache-2.0
 * Which format a path means, by its extension alone. */
#ifndef KIN_FILE_FORMAT_H
#define KIN_FILE_FORMAT_H

#include "file/file_item.h"

typedef enum kin_format {
    KIN_FORMAT_NONE = 0,
    KIN_FORMAT_FVECS,
    KIN_FORMAT_BVECS,
    KIN_FORMAT_IVECS,
    KIN_FORMAT_FBIN,
    KIN_FORMAT_U8BIN,
    KIN_FORMAT_I8BIN,
    KIN_FORMAT_IBIN,
    KIN_FORMAT_NPY,
    KIN_FORMAT_HDF5,
    KIN_FORMAT_CSV,
    KIN_FORMAT_TSV,
    KIN_FORMAT_KITH,
    KIN_FORMAT_NPZ,
    KIN_FORMAT_KNN,
    KIN_FORMAT_COUNT
} kin_format;

enum {
    KIN_POINTS_IN = 1,
    KIN_POINTS_OUT = 2,
    KIN_RESULT = 4, /* neighbours, in */
    KIN_RESULT_OUT = 8,
    KIN_PIPE_IN = 16 /* read from its first byte to its last: a pipe will do */
};

typedef struct kin_format_traits {
    const char *name;    /* also the ending that is written */
    const char *endings; /* others that are read, with blanks between */
    unsigned uses;
    kith_format result; /* of neighbours in a file of this ending */
    kin_item item;      /* what the values are, where the format says so */
} kin_format_traits;

const kin_format_traits *kin_format_get_traits(kin_format format);
/* The format of a path with one of these uses, upper or lower case; FILE.hdf5:DATASET included. */
kin_format kin_format_of(const char *path, unsigned uses);
/* The same, with an error that lists what there is. */
kith_status kin_format_find(kith_ctx *ctx, const char *path, unsigned uses, kin_format *format);
/* KITH_FORMAT_AUTO for what is no name of a format of neighbours. */
kith_format kin_format_result(const char *name);
/* What came out of a pipe, by its first bytes: .npy, or text; others are to be files. */
kith_status kin_format_sniff(kith_ctx *ctx, const char *path, const unsigned char *data,
                             uint64_t bytes, kin_format *format);
/* The ':' between file and dataset of an HDF5 path, or NULL. */
const char *kin_format_dataset(const char *path);

#endif
