/* SPDX-License-Identifier: Apache-2.0
 *
 * Heap queue (merge-queue paper, III.B; Cormen et al.). Contract: select_body.h.
 *
 * Idea: the k best are a binary heap with the last of them on top. A better word takes the top and
 * sinks; at the end the heap is sorted in place. Cost: 2 log2 k comparisons an insertion,
 * k log k ln(n / k) on random rows, n log k on descending ones, k log k for sorting. Limits: its
 * places are far apart, so it is slow where k leaves the cache.
 */
#include "select/select_queue.h"

static int64_t queue_places(int64_t k)
{
    return k;
}

#define QUEUE_BODY "select/select_heap_body.inc"
#define SELECT_BODY "select/select_queue_body.inc"
#include "select/select_twice.inc"

static uint64_t scratch_bytes(const kin_select_job *job, int64_t longest_run)
{
    return kin_queue_scratch(job, longest_run, queue_places(kin_min_i64(job->k, longest_run)));
}

const kin_select_body kin_select_heap = {scratch_bytes, select_any};
