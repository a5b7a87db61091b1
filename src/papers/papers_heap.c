/* SPDX-License-Identifier: Apache-2.0
 *
 * Heap queue (merge-queue paper, III.B; Cormen et al.). Contract: select_body.h.
 *
 * Idea: the k best are a binary heap with the last of them on top. A better word takes the top and
 * sinks; at the end the heap is sorted in place. Cost: 2 log2 k comparisons an insertion,
 * k log k ln(n / k) on random rows, n log k on descending ones, k log k for sorting. Limits: its
 * places are far apart, so it is slow where k leaves the cache.
 */
#if !defined(WORD)
#include "papers/papers_queue.h"

static int64_t queue_places(int64_t k)
{
    return k;
}

#define QUEUE_BODY "papers/papers_heap.c"
#define SELECT_BODY "papers/papers_queue.inc"
#include "select/select_twice.inc"

static uint64_t scratch_bytes(const kin_select_job *job, int64_t longest_run)
{
    return kin_queue_scratch(job, longest_run, queue_places(kin_min_i64(job->k, longest_run)));
}

KIN_SELECT_METHOD(kin_papers_heap)

#else /* the text, for one width of words */

static void NAME(queue_fill)(WORD *queue, int64_t k, WORD word)
{
    for (int64_t i = 0; i < k; i++) {
        queue[i] = word;
    }
}

static WORD NAME(queue_head)(const WORD *queue, int64_t k)
{
    (void)k;
    return queue[0];
}

/* The word at the top is replaced. */
static void NAME(queue_put)(WORD *queue, int64_t k, WORD word)
{
    int64_t place = 0;
    for (int64_t child = 1; child < k; child = 2 * place + 1) {
        child += child + 1 < k && queue[child] < queue[child + 1];
        if (queue[child] <= word) {
            break;
        }
        queue[place] = queue[child];
        place = child;
    }
    queue[place] = word;
}

static void NAME(queue_take)(WORD *queue, int64_t k, bool sorted, WORD *out)
{
    for (int64_t last = k - 1; sorted && last > 0; last--) {
        const WORD top = queue[0];
        NAME(queue_put)(queue, last, queue[last]);
        queue[last] = top;
    }
    memcpy(out, queue, sizeof *out * (size_t)k);
}

#endif
