/* SPDX-License-Identifier: Apache-2.0
 * What the pipelines of papers launch on a GPU beside what fused_kernels.h has: as there, every
 * launch is asynchronous and returns 0 or an error of the CUDA runtime. */
#ifndef KIN_PAPERS_KERNELS_H
#define KIN_PAPERS_KERNELS_H

#include "fused/fused_kernels.h"

/* Columns of a matrix of costs or keys at even strides: sample[r * columns + j] is what stands in
 * row r at j count / columns. columns <= count, so that no column is taken twice. */
typedef struct kin_papers_sample {
    const void *matrix;
    int32_t words; /* of 32 bits, of a value: 1 or 2 */
    int64_t rows;
    int64_t pitch;
    int64_t count;
    void *sample;
    int64_t columns;
} kin_papers_sample;

/* pairs[i] = (keys[i], ids[i]) */
typedef struct kin_papers_join {
    const double *keys;
    const uint32_t *ids;
    int64_t count;
    kin_fused_pair *pairs;
} kin_papers_join;

typedef struct kin_papers_kernels {
    int (*sample)(kin_gpu_stream *stream, const kin_papers_sample *job);
    int (*join)(kin_gpu_stream *stream, const kin_papers_join *job);
} kin_papers_kernels;

#endif
