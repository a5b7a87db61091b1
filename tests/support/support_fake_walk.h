/* SPDX-License-Identifier: Apache-2.0
 * Kernels of walks on a graph for the device of support_fake_gpu.h, in plain C. */
#ifndef SUPPORT_FAKE_WALK_H
#define SUPPORT_FAKE_WALK_H

#include "graph/graph_kernels.h"

typedef struct test_fake_walk_counts {
    int64_t stripes; /* launches of walks */
    int64_t queries;
    int32_t short_walks; /* to be set: of so many queries one meets a single row; 0: none */
} test_fake_walk_counts;
extern test_fake_walk_counts test_fake_walks;

/* Adds the kernels, and forgets the counts. */
void test_fake_walk_into(kin_graph_gpu_kernels *kernels);

#endif
