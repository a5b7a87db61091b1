/* SPDX-License-Identifier: Apache-2.0
 * Selection on a GPU: the launches that libkith_cuda.so gives to libkith.so. Contract: select.h.
 * Read by host and device compilers. Every launch is asynchronous, returns 0 or an error of the
 * CUDA runtime, allocates nothing and waits for nothing.
 *
 * A module has an array of them, each method's at its number; those without one are NULL.
 *
 *   select      one batch of rows, all memory the device's. Rows are virtual where a method cuts
 *               them; nobody outside sees it
 *   scratch     bytes of task->scratch that select wants for this task; 0 is a possible answer. It
 *               grows at most linearly with task->rows, so that half the rows want about half
 */
#ifndef KIN_SELECT_KERNELS_H
#define KIN_SELECT_KERNELS_H

#include "select/select_word.h"

#include <stdbool.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

struct kin_gpu_stream;
struct kin_select_method; /* select.h */

/* What is selected from, how, and where answers go: of a driver (select.h), and of a launch, which
 * has a method and memory of the device alone. */
typedef struct kin_select_job {
    const char *values;
    const char *ids; /* uint32_t, or NULL: the id is first_id + the place in the row */
    int64_t stride_bytes;
    int64_t ids_stride_bytes;
    int64_t rows;
    int64_t cols;
    int64_t k; /* 1 .. cols */
    uint32_t first_id;
    kin_select_type dtype;
    const struct kin_select_method *method; /* NULL: kin_select_choose decides */
    kith_select_method number;              /* of a launch: the method's */
    kith_select_buffer buffer;
    int32_t group;       /* 0, 2, 4, 8 */
    int32_t sample;      /* threshold_heap: times k, at least 1 */
    int32_t level;       /* merge queue: m; 0 = KITH_QUEUE_LEVEL */
    int32_t buffer_size; /* 0 = KITH_QUEUE_BUFFER */
    bool aligned;
    bool merge_path;
    bool largest;
    bool sorted;
    void *out_values;  /* rows x k, or NULL */
    uint32_t *out_ids; /* rows x k, or NULL */
    void *out_kth;     /* rows; where it is not NULL, the other two are NULL */
    void *scratch;     /* of a launch; 256-byte aligned */
    uint64_t scratch_bytes;
} kin_select_job;

typedef struct kin_select_kernels {
    uint64_t (*scratch)(struct kin_gpu_stream *stream, const kin_select_job *task);
    int (*select)(struct kin_gpu_stream *stream, const kin_select_job *task);
} kin_select_kernels;

#if defined(__cplusplus)
}
#endif
#endif
