/* SPDX-License-Identifier: Apache-2.0
 * Every reader of points: a file of any bytes gives points that can be read whole, or an error that
 * names it. */
#include "replay_file.h"

const char *const fuzz_extensions[] = {"fvecs", "bvecs", "ivecs", "fbin", "u8bin", "i8bin",
                                       "ibin",  "npy",   "csv",   "tsv",  "kith",  NULL};
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) {
        return 0;
    }
    kith_ctx *ctx = fuzz_ctx();
    const char *path = fuzz_file(fuzz_extensions[data[0] % COUNT], data + 1, bytes - 1);
    kith_points *points = NULL;
    const kith_status status = kith_points_open(ctx, path, &points);
    fuzz_require((status == KITH_OK) == (points != NULL), "points exactly when it succeeds");
    if (status == KITH_OK) {
        fuzz_kept = touch(kith_points_matrix(points));
    } else {
        fuzz_blames(status, path);
    }
    kith_file_info info = {.struct_size = (uint32_t)sizeof info};
    const kith_status inspected = kith_file_inspect(ctx, path, &info);
    if (status == KITH_OK) {
        fuzz_require(inspected == KITH_OK && info.rows == kith_points_matrix(points)->rows &&
                         info.cols == kith_points_matrix(points)->cols,
                     "inspection agrees with opening");
    }
    kith_points_free(points);
    return 0;
}
