/* SPDX-License-Identifier: Apache-2.0
 * A GPU as drivers see it: memory within a budget, copies, errors as status and sentence. Knows no
 * algorithm.
 *
 *   device pointer   an address that only copies and kernels may follow
 *   budget           --gpu-memory, or what is free less a margin; allocations beyond it fail with
 *                    KITH_E_DEVICE_MEMORY, which drivers answer with smaller batches
 *   threads          one thread works with a kin_gpu at a time
 */
#ifndef KIN_GPU_GPU_H
#define KIN_GPU_GPU_H

#include "base/base_ctx.h"
#include "gpu/gpu_module.h"

typedef struct kin_gpu {
    const kin_gpu_module *module;
    kin_gpu_stream *stream;
    int32_t index;
    kin_gpu_info info;
    uint64_t budget; /* bytes */
    uint64_t held;   /* bytes that drivers hold of it */
    uint64_t peak;
    struct kin_gpu_cache *cache; /* released blocks that wait to be used again: cudaMalloc is slow */
    struct kin_gpu_staging *staging; /* pinned memory for copies */
} kin_gpu;

/* Why no GPU can be used: NULL where one can. Opens the module once a process. Thread-safe. */
const char *kin_gpu_reason(void);
/* The module; NULL where there is a reason. */
const kin_gpu_module *kin_gpu_get_module(void);

/* Opens a device. foreign_stream: the caller's cudaStream_t, or NULL.
 * KITH_E_UNSUPPORTED (no module, driver, device, too old), KITH_E_DEVICE, KITH_E_ARGUMENT (no such
 * index). The context pays for host memory. */
kith_status kin_gpu_open(kith_ctx *ctx, int32_t index, uint64_t budget, void *foreign_stream,
                         kin_gpu **out);
/* Gives everything back, cached blocks too. */
void kin_gpu_close(kith_ctx *ctx, kin_gpu *gpu);

/* *out: count * item_bytes of device memory, 256-byte aligned, contents undefined. `what` names the
 * block in the message. */
kith_status kin_gpu_alloc(kith_ctx *ctx, kin_gpu *gpu, void *out, uint64_t count,
                          uint64_t item_bytes, const char *what);
/* Accepts NULL. The block may be used again by later work of the stream at once. */
void kin_gpu_free(kin_gpu *gpu, void *block);
/* Bytes that an allocation may still take. */
uint64_t kin_gpu_room(const kin_gpu *gpu);

/* `from` may be changed when this returns. Large copies from pageable memory go through pinned
 * memory, in pieces, the host's copying overlapped with the device's. */
kith_status kin_gpu_upload(kith_ctx *ctx, kin_gpu *gpu, void *to, const void *from, uint64_t bytes);
/* rows of row_bytes that stand stride_bytes apart become contiguous. */
kith_status kin_gpu_upload_rows(kith_ctx *ctx, kin_gpu *gpu, void *to, const void *from,
                                int64_t rows, int64_t row_bytes, int64_t stride_bytes);
/* Waits for all work before it; `to` is complete when this returns. */
kith_status kin_gpu_download(kith_ctx *ctx, kin_gpu *gpu, void *to, const void *from,
                             uint64_t bytes);
kith_status kin_gpu_fill(kith_ctx *ctx, kin_gpu *gpu, void *to, int byte, uint64_t bytes);
/* Waits for all work and tells its error. */
kith_status kin_gpu_wait(kith_ctx *ctx, kin_gpu *gpu);

/* The status of what a function of the module returned; `what` was being done. */
kith_status kin_gpu_check(kith_ctx *ctx, const kin_gpu *gpu, int error, const char *what);

#endif
