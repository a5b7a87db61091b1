/* SPDX-License-Identifier: Apache-2.0
 * Walks with short lists, by any norm. The euclidean one is the common case, and has a kernel for
 * each number of columns that pays for one. Short because instances of tree_walk.cuh take long to
 * compile: they are compiled side by side. */
#include "tree/tree_walk.cuh"

static int walk_by_two(kin_gpu_stream *stream, const kin_tree_gpu_walk *job)
{
    TREE_LAUNCH_UP_TO(4, KIN_NORM_TWO, kin_tree_gpu_short, false)
    TREE_LAUNCH_UP_TO(8, KIN_NORM_TWO, kin_tree_gpu_short, false)
    TREE_LAUNCH_UP_TO(12, KIN_NORM_TWO, kin_tree_gpu_short, false)
    TREE_LAUNCH_UP_TO(16, KIN_NORM_TWO, kin_tree_gpu_short, false)
    TREE_LAUNCH_UP_TO(24, KIN_NORM_TWO, kin_tree_gpu_short, false)
    TREE_LAUNCH_UP_TO(32, KIN_NORM_TWO, kin_tree_gpu_short, false)
    TREE_LAUNCH_UP_TO(64, KIN_NORM_TWO, kin_tree_gpu_short, false)
    return (int)cudaErrorInvalidValue;
}

template <kin_tree_norm NORM>
static int walk_by_columns(kin_gpu_stream *stream, const kin_tree_gpu_walk *job)
{
    TREE_LAUNCH_UP_TO(8, NORM, kin_tree_gpu_short, false)
    TREE_LAUNCH_UP_TO(16, NORM, kin_tree_gpu_short, false)
    TREE_LAUNCH_UP_TO(32, NORM, kin_tree_gpu_short, false)
    TREE_LAUNCH_UP_TO(64, NORM, kin_tree_gpu_short, false)
    return (int)cudaErrorInvalidValue;
}

int kin_tree_gpu_walk_short(kin_gpu_stream *stream, const kin_tree_gpu_walk *job)
{
    return job->tree.norm == KIN_NORM_TWO   ? walk_by_two(stream, job)
           : job->tree.norm == KIN_NORM_ONE ? walk_by_columns<KIN_NORM_ONE>(stream, job)
                                            : walk_by_columns<KIN_NORM_MOST>(stream, job);
}
