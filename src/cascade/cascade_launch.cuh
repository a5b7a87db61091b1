/* SPDX-License-Identifier: Apache-2.0
 * Every entry of the table of cascade_kernels.h by its name; cascade_table.cu lists them. */
#ifndef KIN_CASCADE_LAUNCH_CUH
#define KIN_CASCADE_LAUNCH_CUH

#include "cascade/cascade_kernels.h"

extern "C" {

int kin_cascade_launch_near_tiles(kin_gpu_stream *stream, const kin_cascade_near *job);
int kin_cascade_launch_group_centres(kin_gpu_stream *stream, const kin_cascade_groups *job);
int kin_cascade_launch_adopt(kin_gpu_stream *stream, const kin_cascade_adopt *job);
int kin_cascade_launch_stretch(kin_gpu_stream *stream, const kin_cascade_stretch *job);
int kin_cascade_launch_fill(kin_gpu_stream *stream, const kin_cascade_fill *job);
int kin_cascade_launch_place(kin_gpu_stream *stream, const kin_cascade_place *job);
int kin_cascade_launch_give(kin_gpu_stream *stream, const kin_cascade_give *job);
int kin_cascade_launch_relate(kin_gpu_stream *stream, const kin_cascade_relate *job);
int kin_cascade_launch_pick(kin_gpu_stream *stream, const kin_cascade_pick *job);
int kin_cascade_launch_sample(kin_gpu_stream *stream, const kin_cascade_sample *job);
int kin_cascade_launch_collect(kin_gpu_stream *stream, const kin_cascade_sample *job);
int kin_cascade_launch_join(kin_gpu_stream *stream, const kin_cascade_join *job);
int kin_cascade_launch_merge(kin_gpu_stream *stream, const kin_cascade_merge *job);
int kin_cascade_launch_ends(kin_gpu_stream *stream, const kin_cascade_ends *job);
int kin_cascade_launch_least(kin_gpu_stream *stream, const kin_cascade_least *job);
int kin_cascade_launch_gather(kin_gpu_stream *stream, const kin_cascade_gather *job);
int kin_cascade_launch_settle(kin_gpu_stream *stream, const kin_cascade_settle *job);
int kin_cascade_launch_keys(kin_gpu_stream *stream, const kin_cascade_keys *job);
int kin_cascade_launch_hand(kin_gpu_stream *stream, const kin_cascade_hand *job);
int kin_cascade_launch_link(kin_gpu_stream *stream, const kin_cascade_link *job);
int kin_cascade_launch_parts(kin_gpu_stream *stream, const kin_cascade_parts *job);
int kin_cascade_launch_walk(kin_gpu_stream *stream, const kin_cascade_walk *job);

} /* extern "C" */

#endif
