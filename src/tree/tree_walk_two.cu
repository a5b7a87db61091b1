/* SPDX-License-Identifier: Apache-2.0
 * Walks with short lists, by the euclidean norm: the common case has a kernel for each number of
 * columns that pays for one. Short because instances are compiled side by side. */
#include "tree/tree_walk.cuh"

int kin_tree_gpu_walk_two(kin_gpu_stream *stream, const kin_tree_gpu_walk *job)
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
