/* SPDX-License-Identifier: Apache-2.0
 * Every entry of the table of fused_kernels.h by its name, so that each .cu file defines what it
 * owns and fused_table.cu lists them. */
#ifndef KIN_FUSED_LAUNCH_CUH
#define KIN_FUSED_LAUNCH_CUH

#include "fused/fused_kernels.h"

extern "C" {

/* fused_prepare.cu, fused_order.cu */
int kin_fused_launch_check(kin_gpu_stream *stream, const kin_fused_check *job);
int kin_fused_launch_transform(kin_gpu_stream *stream, const kin_fused_transform *job);
int kin_fused_launch_group(kin_gpu_stream *stream, const kin_fused_group *job);
int kin_fused_launch_measure(kin_gpu_stream *stream, const kin_fused_measure *job);
int kin_fused_launch_round(kin_gpu_stream *stream, const kin_fused_round *job);
int kin_fused_launch_cast(kin_gpu_stream *stream, const kin_fused_cast *job);
int kin_fused_launch_start(kin_gpu_stream *stream, const kin_fused_start *job); /* fused_start.cu */
int kin_fused_launch_cover(kin_gpu_stream *stream, const kin_fused_cover *job);
int kin_fused_launch_sort(kin_gpu_stream *stream, const kin_fused_sort *job);
int kin_fused_launch_keep(kin_gpu_stream *stream, const kin_fused_keep *job);

/* fused_screen_wgmma.cu: sm_90 alone. fused_screen_mma.cu: from sm_80 on. Which of them a device
 * gets is decided by kin_fused_launch_screen, in fused_table.cu, where kappa of each chip stands,
 * too. */
int kin_fused_screen_wgmma(kin_gpu_stream *stream, const kin_fused_screen *job);
int kin_fused_screen_mma(kin_gpu_stream *stream, const kin_fused_screen *job);
/* fused_screen_few.cu: costs of a few rows of bytes, where they are that. */
bool kin_fused_screen_is_few(const kin_fused_screen *job);
int kin_fused_screen_few(kin_gpu_stream *stream, const kin_fused_screen *job);
int kin_fused_launch_screen(kin_gpu_stream *stream, const kin_fused_screen *job);
int kin_fused_launch_look(kin_gpu_stream *stream, const kin_fused_look *job); /* fused_look.cu */
double kin_fused_launch_kappa(kin_gpu_stream *stream, int32_t cols);
bool kin_fused_launch_takes_starts(kin_gpu_stream *stream);

/* fused_lists.cu, fused_arrange.cu, fused_plan.cu */
int kin_fused_launch_kth(kin_gpu_stream *stream, const kin_fused_kth *job);
int kin_fused_launch_gather(kin_gpu_stream *stream, const kin_fused_gather *job);
int kin_fused_launch_collect(kin_gpu_stream *stream, const kin_fused_collect *job);
int kin_fused_launch_tighten(kin_gpu_stream *stream, const kin_fused_tighten *job);
int kin_fused_launch_arrange(kin_gpu_stream *stream, const kin_fused_arrange *job);
int kin_fused_launch_plan(kin_gpu_stream *stream, const kin_fused_plan *job);

/* fused_share.cu */
int kin_fused_launch_pack(kin_gpu_stream *stream, const kin_fused_pack *job);
int kin_fused_launch_accept(kin_gpu_stream *stream, const kin_fused_accept *job);

/* fused_rescore.cu, fused_keys.cu */
int kin_fused_launch_regroup(kin_gpu_stream *stream, const kin_fused_regroup *job);
int kin_fused_launch_spans(kin_gpu_stream *stream, const kin_fused_spans *job);
int kin_fused_launch_rescore(kin_gpu_stream *stream, const kin_fused_rescore *job);
int kin_fused_launch_write(kin_gpu_stream *stream, const kin_fused_write *job);
int kin_fused_launch_keys(kin_gpu_stream *stream, const kin_fused_keys *job);
int kin_fused_launch_best(kin_gpu_stream *stream, const kin_fused_best *job);

/* fused_hits.cu */
int kin_fused_launch_hits(kin_gpu_stream *stream, const kin_fused_hits *job);
int kin_fused_launch_within(kin_gpu_stream *stream, const kin_fused_within *job);

} /* extern "C" */

#endif
