/* SPDX-License-Identifier: Apache-2.0
 * Every reader of points: a file of any bytes gives points that can be read whole, or an error that
 * names it. */
#include "replay_file.h"

#include <stdbool.h>
#include <stdio.h>

const char *const fuzz_extensions[] = {"fvecs", "bvecs", "ivecs", "fbin", "u8bin", "i8bin",  "ibin",
                                       "npy",   "csv",   "tsv",   "kith", "txt",   "csv.gz", NULL};
enum { COUNT = sizeof fuzz_extensions / sizeof fuzz_extensions[0] - 1 };

static unsigned touch(const kith_matrix *m)
{
    unsigned sum = 0;
    const int64_t row_bytes = (int64_t)m->cols * kith_dtype_bytes(m->dtype);
    fuzz_require(m->rows >= 1 && m->cols >= 1 && m->stride_bytes >= row_bytes, "a sane shape");
    for (int64_t row = 0; row < m->rows; row++) {
        const unsigned char *at = (const unsigned char *)m->data + row * m->stride_bytes;
        for (int64_t i = 0; i < row_bytes; i++) {
            sum += at[i];
        }
    }
    return sum;
}

/* Texts of every kind, arrays of both orders. */
int fuzz_seed(int extension, int i, const char *path)
{
    static const char *const texts[] = {"x,y,z\n1,2,3\n4,5,6\n",
                                        "# comment\n\"a b\" ; c\n1;2\n3;4\n",
                                        "\xef\xbb\xbf,x,y\r\n0,1.5,2\r\n1,3,4\r\n",
                                        "0,1,2\n5,6,7\n",
                                        "1 2\n 3  4 \n",
                                        "id,1,x\n1,NA,3\n"};
    static const char *const headers[] = {
        "{'descr': '>f4', 'fortran_order': True, 'shape': (2, 2), }\n",
        "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 4), }\n",
        "{'descr': '>f8', 'fortran_order': False, 'shape': (2,), }\n"};
    static const unsigned char packed[] = {31, 139, 8,  0,   0, 0, 0,  0, 2,   3,  51, 84, 48, 226,
                                           50, 86,  48, 225, 2, 0, 87, 0, 214, 97, 8,  0,  0,  0};
    const char *name = fuzz_extensions[extension];
    char array[160] = {(char)0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    const void *data = packed;
    size_t bytes = sizeof packed;
    if (strcmp(name, "csv") == 0 || strcmp(name, "tsv") == 0 || strcmp(name, "txt") == 0) {
        data = i < 6 ? texts[i] : NULL;
        bytes = i < 6 ? strlen(texts[i]) : 0;
    } else if (strcmp(name, "npy") == 0 && i < 3) {
        const size_t length = strlen(headers[i]);
        array[8] = (char)length;
        memcpy(array + 10, headers[i], length);
        data = array;
        bytes = 10 + length + 16;
    } else if (strcmp(name, "csv.gz") != 0 || i > 0) {
        return 0;
    }
    FILE *file = data != NULL ? fopen(path, "wb") : NULL;
    if (file == NULL) {
        return 0;
    }
    const size_t put = fwrite(data, 1, bytes, file);
    fuzz_require(fclose(file) == 0 && put == bytes, "a seed is written");
    return 1;
}

/* What depends on how it is asked for. */
static bool is_told(const char *extension)
{
    static const char *const told[] = {"csv", "tsv", "txt", "csv.gz", "npy"};
    bool found = false;
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        found = found || strcmp(extension, told[i]) == 0;
    }
    return found;
}

/* The ways to read it; all but texts and arrays have one. */
static kith_points_params params_of(int way)
{
    static const char *const columns[] = {NULL, "1-", "x,0", NULL};
    kith_points_params params = kith_points_params_default();
    params.header = way == 3 ? KITH_HEADER_NO : way == 1 ? KITH_HEADER_YES : KITH_HEADER_AUTO;
    params.columns = columns[way];
    params.use = way == 3 ? KITH_USE_COLUMN : KITH_USE_POINTS;
    return params;
}

static void open_and_inspect(const char *path, int way)
{
    kith_ctx *ctx = fuzz_ctx();
    kith_points *points = NULL;
    const kith_points_params params = params_of(way);
    const kith_status status = kith_points_open(ctx, path, &params, &points);
    fuzz_require((status == KITH_OK) == (points != NULL), "points exactly when it succeeds");
    if (status == KITH_OK) {
        fuzz_kept = touch(kith_points_matrix(points));
    } else {
        fuzz_blames(status, path);
    }
    kith_file_info info = {.struct_size = (uint32_t)sizeof info};
    const kith_status inspected = kith_file_inspect(ctx, path, &params, &info);
    if (status == KITH_OK) {
        fuzz_require(inspected == KITH_OK && info.rows == kith_points_matrix(points)->rows &&
                         info.cols == kith_points_matrix(points)->cols,
                     "inspection agrees with opening");
    }
    kith_points_free(points);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    enum { WAYS = 4 };
    if (bytes == 0) {
        return 0;
    }
    const char *extension = fuzz_extensions[data[0] % COUNT];
    const char *path = fuzz_file(extension, data + 1, bytes - 1);
    const int ways = is_told(extension) ? WAYS : 1;
    for (int way = 0; way < ways; way++) {
        open_and_inspect(path, way);
    }
    return 0;
}
