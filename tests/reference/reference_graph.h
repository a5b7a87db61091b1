/* SPDX-License-Identifier: Apache-2.0
 * NN-Descent on the reference device: the bodies of its launches, reference_graph_NAME, and what
 * they share. Contracts stand in graph/graph_kernels.h; comments here say what they leave open. */
#ifndef REFERENCE_GRAPH_H
#define REFERENCE_GRAPH_H

#include "reference/reference.h"

#define KIN_ENTRY(name, type) void reference_graph_##name(const kin_graph_gpu_##type *job);
KIN_GRAPH_GPU_LAUNCHES(KIN_ENTRY)
#undef KIN_ENTRY

static inline uint64_t *reference_list(const kin_graph_gpu_lists *graph, int64_t point)
{
    return graph->words + point * graph->length;
}

static inline void reference_take_least(uint64_t *slot, uint64_t word)
{
    *slot = word < *slot ? word : *slot;
}

/* orders[i]: of what the list of `own` pays for others[i]. */
void reference_orders(const kin_graph_gpu_points *points, uint32_t own, const uint32_t *others,
                      int32_t count, uint32_t *orders);

/* Words of different positions, EMPTY for none, enter a sorted list all at once: those whose
 * position it has, at whatever cost, do not. What they push out is gone. Returns how many came to
 * stand among the first `counted`. words: written over. */
int32_t reference_enter(uint64_t *list, int32_t length, int32_t counted, uint64_t *words,
                        int32_t count);

#endif
