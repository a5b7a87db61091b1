/* SPDX-License-Identifier: Apache-2.0
 * What the files of this room make and end of each other: a device of gpu_open.c, its cache of
 * gpu_memory.c, its slots of gpu_copy.c. */
#ifndef KIN_GPU_CACHE_H
#define KIN_GPU_CACHE_H

#include "gpu/gpu.h"

/* kin_gpu_close without its team. */
void kin_gpu_close_one(kith_ctx *ctx, kin_gpu *gpu);
/* Releases every block, used or not, and the table of them. */
void kin_gpu_cache_end(kin_gpu *gpu);
/* Pinned slots and events for copies; again: nothing. A thread other than the one that works with
 * the kin_gpu may copy only after it. */
kith_status kin_gpu_staging_make(kith_ctx *ctx, kin_gpu *gpu);
/* Waits for nothing: the stream is idle. */
void kin_gpu_staging_end(kin_gpu *gpu);

#endif
