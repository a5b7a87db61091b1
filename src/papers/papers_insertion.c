/* SPDX-License-Identifier: Apache-2.0
 *
 * Insertion queue (merge-queue paper, III.B; Garcia et al. 2008). Contract: select_body.h.
 *
 * Idea: the k best stand in order. A better word moves those behind its place by one; the last one
 * falls out. Cost: k / 2 moves an insertion, k^2 ln(n / k) / 2 on random rows, n k on descending
 * ones. Limits: for small k alone; buffers and groups (papers_queue.inc) help it most.
 */
#if !defined(WORD)
#include "papers/papers_queue.h"

static int64_t queue_places(int64_t k)
{
    return k;
}

#define QUEUE_BODY "papers/papers_insertion.c"
#define SELECT_BODY "papers/papers_queue.inc"
#include "select/select_twice.inc"

static uint64_t scratch_bytes(const kin_select_job *job, int64_t longest_run)
{
    return kin_queue_scratch(job, longest_run, queue_places(kin_min_i64(job->k, longest_run)));
}

KIN_SELECT_METHOD(kin_papers_insertion)

#else /* the text, for one width of words */

static void NAME(queue_fill)(WORD *queue, int64_t k, WORD word)
{
    for (int64_t i = 0; i < k; i++) {
        queue[i] = word;
    }
}

static WORD NAME(queue_head)(const WORD *queue, int64_t k)
{
    return queue[k - 1];
}

static void NAME(queue_put)(WORD *queue, int64_t k, WORD word)
{
    int64_t place = k - 1;
    for (; place > 0 && word < queue[place - 1]; place--) {
        queue[place] = queue[place - 1];
    }
    queue[place] = word;
}

static void NAME(queue_take)(WORD *queue, int64_t k, bool sorted, WORD *out)
{
    (void)sorted;
    memcpy(out, queue, sizeof *out * (size_t)k);
}

#endif
