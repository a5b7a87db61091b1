/* SPDX-License-Identifier: Apache-2.0
 * Every method of selection on a GPU by its name, a pair of functions each: bytes of scratch, and
 * the launch. Each .cu file defines what it owns; the plugin lists them. */
#ifndef KIN_SELECT_LAUNCH_CUH
#define KIN_SELECT_LAUNCH_CUH

#include "gpu/gpu_stream.cuh"
#include "select/select_kernels.h"

/* Of a function's name without _scratch or _launch. */
#define KIN_SELECT_LAUNCH(name)                                                   \
    uint64_t name##_scratch(kin_gpu_stream *stream, const kin_select_task *task); \
    int name##_launch(kin_gpu_stream *stream, const kin_select_task *task);
#define KIN_SELECT_LAUNCH_ROW(NAME, number, name) KIN_SELECT_LAUNCH(kin_select_##name)
KITH_SELECT_MAP(KIN_SELECT_LAUNCH_ROW)

/* select_scan_short.cu: rows whose words fit into a few KiB; without scratch. */
bool kin_select_scan_is_short(const kin_select_task *task);
int kin_select_scan_short(kin_gpu_stream *stream, const kin_select_task *task);

/* select_finish.cu: words is rows x k words of the dtype's kind, in any order, in device memory,
 * and is overwritten: sorts each row where `sorted` (or out_kth) asks, and writes the task's
 * outputs. already_sorted: writes alone. Any k. scratch: what kin_select_finish_scratch wants. */
uint64_t kin_select_finish_scratch(kin_gpu_stream *stream, const kin_select_task *task,
                                   bool already_sorted);
int kin_select_finish(kin_gpu_stream *stream, const kin_select_task *task, void *words,
                      bool already_sorted, void *scratch);

#endif
