/* SPDX-License-Identifier: Apache-2.0
 * Buffers against leaves with lists in device memory, by any norm. */
#include "papers/papers_buffer_tree.cuh"

template <kin_tree_norm NORM>
static int compare_by_columns(kin_gpu_stream *stream, const kin_papers_comparing *job)
{
    COMPARE_UP_TO(8, NORM, kin_tree_gpu_long_apart, true)
    COMPARE_UP_TO(16, NORM, kin_tree_gpu_long_apart, true)
    COMPARE_UP_TO(32, NORM, kin_tree_gpu_long_apart, true)
    return (int)cudaErrorInvalidValue;
}

int kin_papers_compare_long(kin_gpu_stream *stream, const kin_papers_comparing *job)
{
    switch (job->of.walk.tree.norm) {
    case KIN_NORM_TWO:
        return compare_by_columns<KIN_NORM_TWO>(stream, job);
    case KIN_NORM_ONE:
        return compare_by_columns<KIN_NORM_ONE>(stream, job);
    case KIN_NORM_MOST:
        return compare_by_columns<KIN_NORM_MOST>(stream, job);
    }
    return (int)cudaErrorInvalidValue;
}
