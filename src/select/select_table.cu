/* SPDX-License-Identifier: Apache-2.0
 * Which launch a method has. */
#include "select/select_launch.cuh"

typedef struct launch_pair {
    uint64_t (*scratch)(kin_gpu_stream *stream, const kin_select_task *task);
    int (*launch)(kin_gpu_stream *stream, const kin_select_task *task);
} launch_pair;

static launch_pair pair_of(kith_select_method method)
{
    switch (method) {
    case KITH_SELECT_SCAN:
        return {kin_select_scan_scratch, kin_select_scan_launch};
    case KITH_SELECT_INSERTION:
    case KITH_SELECT_HEAP:
    case KITH_SELECT_MERGE_QUEUE:
        return {kin_select_queue_scratch, kin_select_queue_launch};
    case KITH_SELECT_QUICK:
        return {kin_select_quick_scratch, kin_select_quick_launch};
    case KITH_SELECT_BITONIC:
        return {kin_select_bitonic_scratch, kin_select_bitonic_launch};
    case KITH_SELECT_RADIX:
        return {kin_select_radix_scratch, kin_select_radix_launch};
    case KITH_SELECT_THRESHOLD_HEAP:
        return {kin_select_threshold_heap_scratch, kin_select_threshold_heap_launch};
    case KITH_SELECT_AUTO:
        break;
    }
    return {NULL, NULL};
}

static uint64_t scratch(kin_gpu_stream *stream, const kin_select_task *task)
{
    const launch_pair pair = pair_of(task->method);
    return pair.scratch == NULL ? 0 : pair.scratch(stream, task);
}

static int select(kin_gpu_stream *stream, const kin_select_task *task)
{
    const launch_pair pair = pair_of(task->method);
    return pair.launch == NULL ? (int)cudaErrorInvalidValue : pair.launch(stream, task);
}

extern "C" const kin_select_kernels kin_select_table;
const kin_select_kernels kin_select_table = {scratch, select};
