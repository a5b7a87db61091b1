/* SPDX-License-Identifier: Apache-2.0
 *
 * Insertion queue (merge-queue paper, III.B; Garcia et al. 2008). Contract: select_body.h.
 *
 * Idea: the k best stand in order. A better word moves those behind its place by one; the last one
 * falls out. Cost: k / 2 moves an insertion, k^2 ln(n / k) / 2 on random rows, n k on descending
 * ones. Limits: for small k alone; buffers and groups (select_queue_body.inc) help it most.
 */
#include "select/select_queue.h"

static int64_t queue_places(int64_t k)
{
    return k;
}

#define QUEUE_BODY "select/select_insertion_body.inc"
#define SELECT_BODY "select/select_queue_body.inc"
#include "select/select_twice.inc"

static uint64_t scratch_bytes(const kin_select_job *job, int64_t longest_run)
{
    return kin_queue_scratch(job, longest_run, queue_places(kin_min_i64(job->k, longest_run)));
}

const kin_select_body kin_select_insertion = {scratch_bytes, select_any};
