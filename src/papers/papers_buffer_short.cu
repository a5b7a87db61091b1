/* SPDX-License-Identifier: Apache-2.0
 * Buffers against leaves with short lists; by the euclidean norm there is a kernel for each number
 * of columns that pays for one (tree_walk_two.cu). */
#include "papers/papers_buffer_tree.cuh"

static int compare_by_two(kin_gpu_stream *stream, const kin_papers_comparing *job)
{
    COMPARE_UP_TO(4, KIN_NORM_TWO, kin_tree_gpu_short, false)
    COMPARE_UP_TO(8, KIN_NORM_TWO, kin_tree_gpu_short, false)
    COMPARE_UP_TO(12, KIN_NORM_TWO, kin_tree_gpu_short, false)
    COMPARE_UP_TO(16, KIN_NORM_TWO, kin_tree_gpu_short, false)
    COMPARE_UP_TO(32, KIN_NORM_TWO, kin_tree_gpu_short, false)
    return (int)cudaErrorInvalidValue;
}

template <kin_tree_norm NORM>
static int compare_by_columns(kin_gpu_stream *stream, const kin_papers_comparing *job)
{
    COMPARE_UP_TO(8, NORM, kin_tree_gpu_short, false)
    COMPARE_UP_TO(32, NORM, kin_tree_gpu_short, false)
    return (int)cudaErrorInvalidValue;
}

int kin_papers_compare_short(kin_gpu_stream *stream, const kin_papers_comparing *job)
{
    switch (job->of.walk.tree.norm) {
    case KIN_NORM_TWO:
        return compare_by_two(stream, job);
    case KIN_NORM_ONE:
        return compare_by_columns<KIN_NORM_ONE>(stream, job);
    case KIN_NORM_MOST:
        return compare_by_columns<KIN_NORM_MOST>(stream, job);
    }
    return (int)cudaErrorInvalidValue;
}
