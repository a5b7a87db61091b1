/* SPDX-License-Identifier: Apache-2.0
 * What the three queues share: sizes of the candidate buffer and of the hierarchical partition.
 * The schedule itself is papers_queue.inc. */
#ifndef KIN_PAPERS_QUEUE_H
#define KIN_PAPERS_QUEUE_H

#include "base/base_size.h"
#include "papers/papers.h"

enum {
    KIN_QUEUE_BUFFER = 16, /* candidates that wait for a queue */
    KIN_QUEUE_BLOCK = 256, /* places that are loaded together; a multiple of every group size */
    KIN_QUEUE_LEVELS = 64  /* more than halving an int64_t can give */
};

/* Fills the sizes of the levels of a partition of `count` places, sizes[0] = count. The lowest
 * level that has at most k * group nodes is the last one; it still has more than k. */
static inline int kin_queue_levels(int64_t count, int64_t k, int32_t group,
                                   int64_t sizes[KIN_QUEUE_LEVELS])
{
    int levels = 1;
    sizes[0] = count;
    while (group > 1 && sizes[levels - 1] > k * group) {
        sizes[levels] = kin_ceil_div(sizes[levels - 1], group);
        levels += 1;
    }
    return levels;
}

/* The queue takes `places` words, the levels above the run a word a node, and the nodes that are
 * chosen at two levels 8 bytes each. */
static inline uint64_t kin_queue_scratch(const kin_select_job *job, int64_t longest, int64_t places)
{
    const int64_t k = kin_min_i64(job->k, longest);
    int64_t sizes[KIN_QUEUE_LEVELS];
    const int levels = kin_queue_levels(longest, k, job->group, sizes);
    int64_t words = places;
    for (int level = 1; level < levels; level++) {
        words += sizes[level];
    }
    const uint64_t bytes = kin_size_mul((uint64_t)words, (uint64_t)kin_word_bytes(job->dtype));
    return levels == 1 ? bytes : kin_size_add(bytes, kin_size_mul(16, (uint64_t)k));
}

#endif
