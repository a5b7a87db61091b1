/* SPDX-License-Identifier: Apache-2.0
 * NumPy's files: .npy, and .npz, a zip archive of them. */
#ifndef KIN_FILE_NUMPY_H
#define KIN_FILE_NUMPY_H

#include "file/file_atomic.h"
#include "file/file_reader.h"

/* ---- .npy (file_numpy.c) --------------------------------------------------------------------- */

/* A magic number, a version, and a header that is a Python dictionary. */

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

/* Writes magic and header of an array: descr such as "<f4", or a list in
 * brackets, axes 0 to 2. Returns their length, a
 * multiple of 64. */
uint64_t kin_npy_header(char *header, const char *descr, int axes, int64_t rows, int64_t cols);
/* "<f4" and so on. */
void kin_npy_descr(kin_item item, char descr[8]);

/* ---- Zip archives (written: file_npz_write.c, read: file_input.c) ---------------------------- */

/* As .npz uses them: stored when written, stored or deflated when read. Fields of 64 bits (zip64)
 * appear where something does not fit in 32. */

enum { KIN_ZIP_MEMBERS = 8, KIN_ZIP_NAME = 32 };
/* Bytes of records without what is behind them, and what an extra field with 64 bits is called. */
enum { KIN_ZIP_LOCAL_BYTES = 30, KIN_ZIP_END64_BYTES = 56, KIN_ZIP_EXTRA64 = 1 };
static const uint64_t KIN_ZIP_LIMIT = 0xffffffffu;

typedef struct kin_zip_entry {
    char name[KIN_ZIP_NAME];
    uint64_t offset; /* of its local header */
    uint64_t bytes;
    uint32_t crc;
} kin_zip_entry;

typedef struct kin_zip {
    kin_writer *writer;
    uint64_t limit; /* sizes and offsets from here on are zip64: KIN_ZIP_LIMIT but in tests */
    kin_zip_entry entries[KIN_ZIP_MEMBERS];
    int count;
} kin_zip;

void kin_zip_begin(kin_zip *zip, kin_writer *writer);
/* A member of exactly that many bytes, which follow by kin_zip_put. They start at a multiple of 64,
 * so that an array behind its .npy header can be mapped. */
kith_status kin_zip_member(kin_zip *zip, const char *name, uint64_t bytes);
kith_status kin_zip_put(kin_zip *zip, const void *data, uint64_t bytes);
/* Ends the member: its checksum goes into its header. */
kith_status kin_zip_member_end(kin_zip *zip);
kith_status kin_zip_end(kin_zip *zip);

/* A member of a mapped archive. */
typedef struct kin_unzip_member {
    const unsigned char *data; /* as it is in the file */
    uint64_t stored_bytes;
    uint64_t bytes;
    uint32_t crc;
    uint32_t method; /* 0 stored, 8 deflated */
    bool found;
} kin_unzip_member;

/* Looks a member up. Not found is no error; an archive that contradicts itself is. */
kith_status kin_unzip_find(kith_ctx *ctx, const char *path, const kin_map *map, const char *name,
                           kin_unzip_member *member);
/* Its bytes, checked: in the map when stored, else in *block, which the caller frees. */
kith_status kin_unzip_load(kith_ctx *ctx, const char *label, const kin_unzip_member *member,
                           const unsigned char **data, void **block);

#endif
