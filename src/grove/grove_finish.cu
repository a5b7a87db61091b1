/* SPDX-License-Identifier: Apache-2.0
 * Which kernel finishes lists: a lane a place where they are short, a block a place where they are
 * long. Kernels: grove_finish_short.cu, grove_finish_long.cu. */
#include "grove/grove_finish.cuh"

int kin_grove_launch_finish(kin_gpu_stream *stream, const kin_grove_finish *job)
{
    if (job->count == 0) {
        return 0;
    }
    if (job->corpus.cols > KIN_GROVE_MOST_COLS || job->place0 % KIN_GROVE_PACKET != 0 ||
        (uintptr_t)job->pairs % sizeof(kin_fused_pair) != 0) {
        return (int)cudaErrorInvalidValue;
    }
    return job->lists.capacity <= KIN_GROVE_SHORT ? kin_grove_finish_short(stream, job)
                                                  : kin_grove_finish_long(stream, job);
}
