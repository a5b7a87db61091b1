/* SPDX-License-Identifier: Apache-2.0
 * Every method of selection on a GPU by its name: each .cu file defines what it owns,
 * select_table.cu lists them. A pair of functions each: bytes of scratch, and the launch. */
#ifndef KIN_SELECT_LAUNCH_CUH
#define KIN_SELECT_LAUNCH_CUH

#include "gpu/gpu_stream.cuh"
#include "select/select_kernels.h"

#define KIN_SELECT_LAUNCH(name)                                                                \
    uint64_t kin_select_##name##_scratch(kin_gpu_stream *stream, const kin_select_task *task); \
    int kin_select_##name##_launch(kin_gpu_stream *stream, const kin_select_task *task);

/* select_scan.cu */
KIN_SELECT_LAUNCH(scan)
/* select_scan_short.cu: rows whose words fit into a few KiB; without scratch. */
bool kin_select_scan_is_short(const kin_select_task *task);
int kin_select_scan_short(kin_gpu_stream *stream, const kin_select_task *task);
/* select_queue.cu: insertion, heap, merge_queue, told apart by task->method */
KIN_SELECT_LAUNCH(queue)
/* select_quick.cu, select_bitonic.cu, select_radix.cu, select_threshold_heap.cu */
KIN_SELECT_LAUNCH(quick)
KIN_SELECT_LAUNCH(bitonic)
KIN_SELECT_LAUNCH(radix)
KIN_SELECT_LAUNCH(threshold_heap)

/* select_finish.cu: words is rows x k words of the dtype's kind, in any order, in device memory,
 * and is overwritten: sorts each row where `sorted` (or out_kth) asks, and writes the task's
 * outputs. already_sorted: writes alone. Any k. scratch: what kin_select_finish_scratch wants. */
uint64_t kin_select_finish_scratch(kin_gpu_stream *stream, const kin_select_task *task,
                                   bool already_sorted);
int kin_select_finish(kin_gpu_stream *stream, const kin_select_task *task, void *words,
                      bool already_sorted, void *scratch);

#endif
