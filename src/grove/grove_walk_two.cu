/* SPDX-License-Identifier: Apache-2.0
 * Walks with short lists, by the euclidean norm: the common case has a kernel for each number of
 * columns that pays for one. Short because instances are compiled side by side. */
#include "grove/grove_walk.cuh"

int kin_grove_walk_two(kin_gpu_stream *stream, const kin_grove_walk *job)
{
    GROVE_LAUNCH_UP_TO(4, KIN_NORM_TWO, kin_grove_short, false)
    GROVE_LAUNCH_UP_TO(8, KIN_NORM_TWO, kin_grove_short, false)
    GROVE_LAUNCH_UP_TO(12, KIN_NORM_TWO, kin_grove_short, false)
    GROVE_LAUNCH_UP_TO(16, KIN_NORM_TWO, kin_grove_short, false)
    GROVE_LAUNCH_UP_TO(24, KIN_NORM_TWO, kin_grove_short, false)
    GROVE_LAUNCH_UP_TO(32, KIN_NORM_TWO, kin_grove_short, false)
    GROVE_LAUNCH_UP_TO(64, KIN_NORM_TWO, kin_grove_short, false)
    return (int)cudaErrorInvalidValue;
}
