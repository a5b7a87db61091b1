/* SPDX-License-Identifier: Apache-2.0
 * Walks with lists in device memory, by any norm. Short because instances of tree_walk.cuh take
 * long to compile: they are compiled side by side. */
#include "tree/tree_walk.cuh"

template <kin_tree_norm NORM>
static int walk_by_columns(kin_gpu_stream *stream, const kin_tree_gpu_walk *job)
{
    TREE_LAUNCH_UP_TO(8, NORM, kin_tree_gpu_long, true)
    TREE_LAUNCH_UP_TO(16, NORM, kin_tree_gpu_long, true)
    TREE_LAUNCH_UP_TO(32, NORM, kin_tree_gpu_long, true)
    TREE_LAUNCH_UP_TO(64, NORM, kin_tree_gpu_long, true)
    return (int)cudaErrorInvalidValue;
}

int kin_tree_gpu_walk_long(kin_gpu_stream *stream, const kin_tree_gpu_walk *job)
{
    switch (job->tree.norm) {
    case KIN_NORM_TWO:
        return walk_by_columns<KIN_NORM_TWO>(stream, job);
    case KIN_NORM_ONE:
        return walk_by_columns<KIN_NORM_ONE>(stream, job);
    case KIN_NORM_MOST:
        return walk_by_columns<KIN_NORM_MOST>(stream, job);
    }
    return (int)cudaErrorInvalidValue;
}
