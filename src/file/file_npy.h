/* SPDX-License-Identifier: Apache-2.0
 * NumPy's .npy: a magic number, a version, and a header that is a Python dictionary. */
#ifndef KIN_FILE_NPY_H
#define KIN_FILE_NPY_H

#include "file/file_reader.h"

enum { KIN_NPY_AXES = 8, KIN_NPY_HEADER_MAX = 256 };

typedef struct kin_npy {
    char kind; /* NumPy's: f i u b S U ... */
    bool big_endian;
    bool fortran_order;
    int32_t axes;
    uint64_t item_bytes;
    uint64_t shape[KIN_NPY_AXES];
    const unsigned char *data;
    uint64_t data_bytes;
} kin_npy;

/* Reads the header and holds it against the bytes that are there; label begins the messages. */
kith_status kin_npy_parse(kith_ctx *ctx, const char *label, const unsigned char *file,
                          uint64_t bytes, kin_npy *npy);
/* The number type, or one of 0 bytes for what is no number that kith reads. */
kin_item kin_npy_item(const kin_npy *npy);

/* Writes magic and header of an array: descr such as "<f4", or a list in
 * brackets, axes 0 to 2. Returns their length, a
 * multiple of 64. */
uint64_t kin_npy_header(char *header, const char *descr, int axes, int64_t rows, int64_t cols);
/* "<f4" and so on. */
void kin_npy_descr(kin_item item, char descr[8]);

#endif
