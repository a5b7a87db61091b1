/* SPDX-License-Identifier: Apache-2.0
 * What the three queues share: sizes of the candidate buffer and of the hierarchical partition, and
 * a body for each machine. The schedule itself is papers_queue.inc. */
#ifndef KIN_PAPERS_QUEUE_H
#define KIN_PAPERS_QUEUE_H

#include "host/host_cpu.h"
#include "papers/papers.h"
#include "select/select_scan.h"

enum {
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

/* The sizes that a job asks for. */
static inline int64_t kin_queue_level(const kin_select_job *job)
{
    return job->level != 0 ? job->level : KITH_QUEUE_LEVEL;
}

static inline int64_t kin_queue_buffer(const kin_select_job *job)
{
    return job->buffer_size != 0 ? job->buffer_size : KITH_QUEUE_BUFFER;
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

/* A method whose text was read by select_twice.inc, on each machine that has vectors to screen with
 * (select_scan.h): which it is stands where the scratch memory begins until the method starts.
 * NULL: every word is looked at, which is the reference. */
#define KIN_QUEUE_ON(name, NAME, isa, of)                                                  \
    static void select_##isa(const kin_select_job *job, const kin_run *run, void *scratch, \
                             void *out)                                                    \
    {                                                                                      \
        const kin_scan_machine *machine = of;                                              \
        memcpy(scratch, &machine, sizeof(void *));                                         \
        select_any(job, run, scratch, out);                                                \
    }                                                                                      \
    static const kin_select_body queue_##isa = {scratch_bytes, select_##isa};
#define KIN_QUEUE_ON_VECTORS(name, NAME, isa) KIN_QUEUE_ON(name, NAME, isa, &kin_scan_machine_##isa)

#define KIN_QUEUE_METHOD(name)                                                                   \
    static uint64_t scratch_bytes(const kin_select_job *job, int64_t longest)                    \
    {                                                                                            \
        return kin_queue_scratch(job, longest, queue_places(job, kin_min_i64(job->k, longest))); \
    }                                                                                            \
    KIN_QUEUE_ON(name, PORTABLE, portable, NULL)                                                 \
    KIN_VECTOR_MAP(KIN_QUEUE_ON_VECTORS, name)                                                   \
    const kin_select_body *name(kin_isa isa)                                                     \
    {                                                                                            \
        static const void *const bodies[KIN_ISA_COUNT] = KIN_BODIES(queue);                      \
        return kin_isa_pick(isa, bodies);                                                        \
    }

#endif
