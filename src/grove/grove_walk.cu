/* SPDX-License-Identifier: Apache-2.0
 * Which kernel a walk takes: by the length of its lists, the norm, and the columns. Kernels:
 * grove_walk_two.cu, grove_walk_norms.cu, grove_walk_long.cu. */
#include "grove/grove_launch.cuh"
#include "grove/grove_walk.cuh"

int kin_grove_launch_walk(kin_gpu_stream *stream, const kin_grove_walk *job)
{
    if (job->count == 0) {
        return 0;
    }
    if (job->tree.wide > KIN_GROVE_MOST_COLS || job->tree.wide % KIN_GROVE_WIDE != 0 ||
        job->lists.capacity <= job->lists.wanted) {
        return (int)cudaErrorInvalidValue;
    }
    if (job->lists.capacity > KIN_GROVE_SHORT) {
        return kin_grove_walk_long(stream, job);
    }
    return job->tree.norm == KIN_NORM_TWO ? kin_grove_walk_two(stream, job)
                                          : kin_grove_walk_norms(stream, job);
}

int32_t kin_grove_launch_walk_short(kin_gpu_stream *stream)
{
    (void)stream;
    return KIN_GROVE_SHORT;
}
