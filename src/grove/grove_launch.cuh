/* SPDX-License-Identifier: Apache-2.0
 * Every entry of the table of grove_kernels.h by its name; grove_table.cu lists them. */
#ifndef KIN_GROVE_LAUNCH_CUH
#define KIN_GROVE_LAUNCH_CUH

#include "grove/grove_kernels.h"

extern "C" {

int kin_grove_launch_measure(kin_gpu_stream *stream, const kin_grove_measure *job);
int kin_grove_launch_round(kin_gpu_stream *stream, const kin_grove_round *job);
int kin_grove_launch_order(kin_gpu_stream *stream, const kin_grove_order *job);
int kin_grove_launch_build(kin_gpu_stream *stream, const kin_grove_build *job);
int kin_grove_launch_walk(kin_gpu_stream *stream, const kin_grove_walk *job);
int32_t kin_grove_launch_walk_short(kin_gpu_stream *stream);
int kin_grove_launch_finish(kin_gpu_stream *stream, const kin_grove_finish *job);

} /* extern "C" */

#endif
