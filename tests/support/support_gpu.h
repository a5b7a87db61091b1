/* SPDX-License-Identifier: Apache-2.0
 * Contexts that compute on a GPU, and what to do where there is none. */
#ifndef SUPPORT_GPU_H
#define SUPPORT_GPU_H

#include "kith/kith.h"

#include <stdbool.h>

/* What a program exits with that has nothing to test here. */
enum { TEST_SKIPPED = 77 };

/* Prints why no GPU can be used; false where one can. */
bool test_gpu_is_absent(void);

/* A context on the first GPU; gpu_memory: its budget in bytes, 0 for the default. Ends the test
 * when there is none. */
kith_ctx *test_gpu_ctx(int32_t threads, uint64_t gpu_memory);
/* The same on a device by its name. */
kith_ctx *test_ctx_on(const char *device, int32_t threads, uint64_t gpu_memory);

/* Prints that there are no two GPUs; false where there are. */
bool test_gpus_are_few(void);

/* So many rows, or more where this chip takes a graph of them with k neighbours for a small one,
 * which has no stages (screen_stage_gpu.h). */
int64_t test_rows_with_stages(int64_t rows, int64_t k);
/* The processor at its best, all threads. */
kith_ctx *test_cpu_ctx(void);

#endif
