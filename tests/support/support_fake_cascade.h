/* SPDX-License-Identifier: Apache-2.0
 * Kernels of NN-Descent, and those of the screen that it starts with, on the device of
 * support_fake_gpu.h, in plain C: euclidean, inner product and manhattan, F32 and U8. Costs are
 * plain sums; keys are the metrics' own. */
#ifndef SUPPORT_FAKE_CASCADE_H
#define SUPPORT_FAKE_CASCADE_H

#include "cascade/cascade_kernels.h"
#include "gpu/gpu.h"

typedef struct test_fake_cascade_counts {
    int64_t near_pairs; /* of tiles, that plans let through; and that they skipped */
    int64_t far_pairs;
    int64_t rounds;
    int32_t
        short_lists; /* to be set: of so many lists one is handed over with one entry; 0: none */
} test_fake_cascade_counts;
extern test_fake_cascade_counts test_fake_cascade;

/* A device of test_fake_gpu gets these kernels, for as long as it lives. */
void test_fake_cascade_into(kin_gpu *gpu);

#endif
