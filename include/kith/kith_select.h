/* SPDX-License-Identifier: Apache-2.0
 *
 * The course of kith.h goes on: selection, the k smallest or largest values of each row of a
 * matrix. kith.h includes this file, nobody else needs to. */
#ifndef KITH_KITH_SELECT_H
#define KITH_KITH_SELECT_H

#include "kith/kith.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 12. Selection -------------------------------------------------------------------------- */

/* The k smallest (or largest) values of each row of a matrix, with their ids. Rows are ordered by
 * (value, id): equal values, 0 and -0 among them, stand by id, and NaN comes last whichever end is
 * asked for. What is returned is the value that was given, a zero as +0 and a NaN as the quiet one.
 * Every method (KITH_SELECT_MAP, chapter 5) gives the same bytes on every device. */

enum {
    KITH_SELECT_LARGEST = 1u << 0, /* the k largest, largest first */
    KITH_SELECT_UNSORTED = 1u << 1 /* the same k, in any order */
};

typedef int32_t kith_select_buffer; /* one of kith_papers.h */

typedef struct kith_select_params {
    uint32_t struct_size; /* set by kith_select_params_default() */
    kith_select_method method;
    int64_t k;                 /* 1 .. cols; no default, 0 is an error */
    uint32_t flags;            /* KITH_SELECT_LARGEST ... */
    kith_select_buffer buffer; /* of methods of kith_papers.h; others have none of these */
    int32_t group;
    int32_t sample;
    int32_t level;
    int32_t buffer_size;
} kith_select_params;

static inline kith_select_params kith_select_params_default(void)
{
    kith_select_params params;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    return params;
}

/* Borrowed: rows of float32, float64, float16 or bfloat16 values. ids NULL: a value's id is its
 * place in the row, 0 .. cols - 1. Strides of 0 mean contiguous rows. cols <= 2^32 - 2. */
typedef struct kith_values {
    const void *data;
    const uint32_t *ids; /* rows x cols, or NULL; an id that stands twice in a row is two values */
    int64_t rows;
    int64_t cols;
    int64_t stride_bytes;     /* from row to row of data */
    int64_t ids_stride_bytes; /* from row to row of ids */
    kith_dtype dtype;
    int32_t reserved;
} kith_values;

/* rows x k, contiguous, caller-owned. One of them may be NULL: that part is then not written. Or,
 * in place of both, kth: the k-th of each row alone, `rows` values; the flag UNSORTED is ignored.
 */
typedef struct kith_selection {
    void *values; /* in the dtype of what was selected from */
    uint32_t *ids;
    void *kth; /* in that dtype, too */
} kith_selection;

/* "auto" "scan" "quick" ..., those of kith_papers.h among them, by rising number from 0 on;
 * "unknown" behind the last one, and for what is no method. */
KITH_API const char *kith_select_method_name(kith_select_method method);

/* Cost of scan: one read of the matrix. Switches that a method does not have are an error, rows = 0
 * is none. Data and strides are multiples of a value's size (of ids: of 4).
 * The values are in host memory, and copying them to a GPU takes longer than selecting from them
 * where they are: "auto" computes on the processor. A context that names "cuda" uses the GPU all
 * the same; for values in its memory there is kith_cuda_select. The report's `screen` is the method
 * that was used. Returns KITH_E_ARGUMENT, E_MEMORY, E_LIMIT, E_DEVICE, E_DEVICE_MEMORY,
 * E_UNSUPPORTED, E_CANCELLED; out then holds nothing of use. */
KITH_API kith_status kith_select(kith_ctx *ctx, const kith_values *values,
                                 const kith_select_params *params, const kith_selection *out);

/* Writes what kith_select gave for params, rows x k, as .npz: `ids`, `values` (what of them is not
 * NULL; bfloat16 as float32) and `meta`; or kth as .npy, an array of one axis, whatever params are.
 * Temporary file, fsync, rename. */
KITH_API kith_status kith_selection_save(kith_ctx *ctx, const char *path,
                                         const kith_selection *selection, int64_t rows,
                                         kith_dtype dtype, const kith_select_params *params);

#ifdef __cplusplus
}
#endif
#endif
