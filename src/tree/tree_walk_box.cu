/* SPDX-License-Identifier: Apache-2.0
 * Walks through periodic boxes, by any norm and with lists of either kind. Boxes have two or three
 * columns, as a rule, or six with what moves in them: wider rows share a kernel, and so do the rows
 * of the rarer norms. Short because instances of tree_walk.cuh take long to compile: they are
 * compiled side by side. */
#include "tree/tree_walk.cuh"

template <kin_tree_norm NORM>
static int walk_by_columns(kin_gpu_stream *stream, const kin_tree_gpu_walk *job)
{
    typedef kin_tree_gpu_wrapped<kin_tree_gpu_short> few;
    typedef kin_tree_gpu_wrapped<kin_tree_gpu_long> many;
    if (job->lists.capacity <= KIN_TREE_GPU_SHORT) {
        if constexpr (NORM == KIN_NORM_TWO) {
            TREE_LAUNCH_UP_TO(4, NORM, few, false)
        }
        TREE_LAUNCH_UP_TO(8, NORM, few, false)
        TREE_LAUNCH_UP_TO(64, NORM, few, false)
    }
    TREE_LAUNCH_UP_TO(8, NORM, many, true)
    TREE_LAUNCH_UP_TO(64, NORM, many, true)
    return (int)cudaErrorInvalidValue;
}

int kin_tree_gpu_walk_box(kin_gpu_stream *stream, const kin_tree_gpu_walk *job)
{
    return job->tree.norm == KIN_NORM_TWO   ? walk_by_columns<KIN_NORM_TWO>(stream, job)
           : job->tree.norm == KIN_NORM_ONE ? walk_by_columns<KIN_NORM_ONE>(stream, job)
                                            : walk_by_columns<KIN_NORM_MOST>(stream, job);
}
