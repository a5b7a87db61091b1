/* SPDX-License-Identifier: Apache-2.0
 * Walks with short lists, by the sum and by the maximum of differences. Short because instances are
 * compiled side by side. */
#include "tree/tree_walk.cuh"

template <kin_tree_norm NORM>
static int walk_by_columns(kin_gpu_stream *stream, const kin_tree_gpu_walk *job)
{
    TREE_LAUNCH_UP_TO(8, NORM, kin_tree_gpu_short, false)
    TREE_LAUNCH_UP_TO(16, NORM, kin_tree_gpu_short, false)
    TREE_LAUNCH_UP_TO(32, NORM, kin_tree_gpu_short, false)
    TREE_LAUNCH_UP_TO(64, NORM, kin_tree_gpu_short, false)
    return (int)cudaErrorInvalidValue;
}

int kin_tree_gpu_walk_norms(kin_gpu_stream *stream, const kin_tree_gpu_walk *job)
{
    return job->tree.norm == KIN_NORM_ONE ? walk_by_columns<KIN_NORM_ONE>(stream, job)
                                          : walk_by_columns<KIN_NORM_MOST>(stream, job);
}
