/* SPDX-License-Identifier: Apache-2.0
 * Which format a path means, by its extension alone: the rows of KITH_FILE_MAP. */
#ifndef KIN_FILE_FORMAT_H
#define KIN_FILE_FORMAT_H

#include "file/file_number.h"

typedef enum kin_format {
    KIN_FORMAT_NONE = 0,
#define KIN_FORMAT_NUMBER(NAME, name, endings, holds, kind, bytes, layout) KIN_FORMAT_##NAME,
    KITH_FILE_MAP(KIN_FORMAT_NUMBER)
#undef KIN_FORMAT_NUMBER
        KIN_FORMAT_COUNT
} kin_format;

typedef struct kin_format_traits {
    const char *name;    /* also the ending that is written */
    const char *endings; /* others that are read, with blanks between */
    unsigned holds;      /* KITH_FILE_... */
    kin_item item;       /* what the values are, where the format says so */
} kin_format_traits;

const kin_format_traits *kin_format_get_traits(kin_format format);
/* The format of a path that holds one of these, upper or lower case; FILE.hdf5:DATASET included. */
kin_format kin_format_of(const char *path, unsigned holds);
/* The same, with an error that lists what there is. */
kith_status kin_format_find(kith_ctx *ctx, const char *path, unsigned holds, kin_format *format);
/* KITH_FORMAT_AUTO for what is no name of a format of neighbours. */
kith_format kin_format_result(const char *name);
/* The ':' between file and dataset of an HDF5 path, or NULL. */
const char *kin_format_dataset(const char *path);

#endif
