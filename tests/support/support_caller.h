/* SPDX-License-Identifier: Apache-2.0
 * A program that uses CUDA by itself: a stream of its own, matrices and answers in device memory
 * that it owns. */
#ifndef SUPPORT_CALLER_H
#define SUPPORT_CALLER_H

#include "gpu/gpu.h"

typedef struct test_caller {
    const kin_gpu_ops *ops;
    kin_gpu_stream *stream;
    void *handle; /* the cudaStream_t, which stands first in kin_gpu_stream (gpu_stream.cuh) */
} test_caller;

/* All of these end the test where something fails. */
test_caller test_caller_open(void);
void test_caller_close(test_caller *c);

/* Device memory full of 0xee. */
void *test_caller_room(const test_caller *c, uint64_t bytes);
void test_caller_release(const test_caller *c, const void *block);

/* The bytes of a matrix whose rows may stand apart: the last row ends where its memory ends. */
uint64_t test_matrix_bytes(const kith_matrix *m);
/* The same matrix with data on the device. */
kith_matrix test_caller_copy(const test_caller *c, const kith_matrix *host);

kith_neighbors test_caller_answer(const test_caller *c, int64_t rows, int64_t k);
/* To the host; the device's copy is released. */
kith_neighbors test_caller_fetch(const test_caller *c, const kith_neighbors *device);

#endif
