/* SPDX-License-Identifier: Apache-2.0
 * A place on its way through a tree of the reference device, for whoever chooses its leaves. */
#ifndef REFERENCE_TREE_H
#define REFERENCE_TREE_H

#include "reference/reference.h"

/* Its list stands in no order; what is above keep is not needed. Where all of a full list is
 * needed, it has lost something, and the place stops. */
typedef struct reference_walker {
    const kin_tree_gpu *tree;
    const float *row;
    kin_tree_keep bound;
    float keep;
    uint64_t *words;
    uint64_t *room; /* where a median is searched */
    int32_t count;
    int32_t squeezed_at; /* so many words */
    int32_t wanted;
    int32_t capacity;
    bool lost;
    uint64_t *met;
} reference_walker;

/* The row of a place and what it lost; NULL: a hole. room: for a row of the tree's. */
const float *reference_row_at(const kin_tree_gpu_walk *job, int64_t place, float *room,
                              float *lost);
/* The value of a node's box, which is not above that of a point in it. */
float reference_box(const reference_walker *w, int64_t node);
/* All points of a leaf, counted from 0. */
void reference_leaf(reference_walker *w, int64_t leaf);
/* The value of a point. */
float reference_point(const reference_walker *w, int64_t position);
/* The first word of a place's list; the others stand KIN_TREE_GPU_PACKET apart. */
uint64_t *reference_list_of(const kin_tree_gpu_lists *lists, int64_t place);

/* All within a radius (reference_ranges.c). */
int reference_tree_radius(kin_gpu_stream *stream, const kin_tree_gpu_radius *job);
int reference_tree_sums(kin_gpu_stream *stream, const kin_tree_gpu_sums *job);
int reference_tree_ranges(kin_gpu_stream *stream, const kin_tree_gpu_ranges *job);

#endif
