/* SPDX-License-Identifier: Apache-2.0
 * Candidate lists and what tiles are at worst, made in device memory; parts of sets. */
#ifndef KIN_FUSED_LISTS_H
#define KIN_FUSED_LISTS_H

#include "fused/fused_kernels.h"
#include "gpu/gpu.h"

/* What the launches of a device share. */
typedef struct kin_fused_device {
    kith_ctx *ctx;
    kin_gpu *gpu;
    const kin_fused_kernels *kernels;
    kin_gpu_stream *stream;
} kin_fused_device;

static inline kin_fused_device kin_fused_device_of(kith_ctx *ctx, kin_gpu *gpu)
{
    return (kin_fused_device){ctx, gpu, gpu->module->fused, gpu->stream};
}

/* A row without a reach: the bytes 0x7f make a double of 10^306, whose limits keep everything. */
enum { KIN_FUSED_NO_REACH_BYTE = 0x7f };

/* Lists of k candidates for all rows of a set, empty, without reach. */
kith_status kin_fused_lists_make(const kin_fused_device *on, const kin_fused_set *set, int64_t k,
                                 int32_t capacity, kin_fused_lists *lists);
void kin_fused_lists_free(const kin_fused_device *on, kin_fused_lists *lists);
/* Norms and losses of the tiles of a set, for one-sided screens. */
kith_status kin_fused_worst_make(const kin_fused_device *on, const kin_fused_set *set,
                                 kin_fused_worst **worst);

/* Positions [first, first + count) of a set; first a multiple of KIN_FUSED_BLOCK. */
kin_fused_set kin_fused_set_part(const kin_fused_set *set, int64_t first, int64_t count);

#endif
