/* SPDX-License-Identifier: Apache-2.0
 * What gpu_open.c makes and ends of gpu_memory.c and gpu_copy.c. */
#ifndef KIN_GPU_CACHE_H
#define KIN_GPU_CACHE_H

#include "gpu/gpu.h"

/* Releases every block, used or not, and the table of them. */
void kin_gpu_cache_end(kin_gpu *gpu);
/* Waits for nothing: the stream is idle. */
void kin_gpu_staging_end(kin_gpu *gpu);

#endif
