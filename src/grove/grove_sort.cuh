/* SPDX-License-Identifier: Apache-2.0
 * Pairs of 32-bit numbers sorted, stably: one instance of a library's sort for everybody here,
 * since each costs a minute of compiling and a part of the module's size. */
#ifndef KIN_GROVE_SORT_CUH
#define KIN_GROVE_SORT_CUH

#include "gpu/gpu_stream.cuh"

#include <stddef.h>
#include <stdint.h>

extern "C" {

/* Scratch for `count` pairs. */
int kin_grove_sort_bytes(int64_t count, size_t *bytes);
/* By the lower `bits` bits of the keys, at least one. Inputs stay as they are. */
int kin_grove_sort(kin_gpu_stream *stream, void *scratch, size_t bytes, const uint32_t *keys,
                   uint32_t *sorted_keys, const uint32_t *values, uint32_t *sorted_values,
                   int64_t count, int32_t bits);

} /* extern "C" */

#endif
