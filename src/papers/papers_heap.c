/* SPDX-License-Identifier: Apache-2.0
 *
 * Heap queue (merge-queue paper, III.B; Cormen et al.). Contract: select.h.
 *
 * Idea: the k best are a binary heap with the last of them on top. A better word takes the top and
 * sinks; at the end the heap is sorted in place. Cost: 2 log2 k comparisons an insertion,
 * k log k ln(n / k) on random rows, n log k on descending ones, k log k for sorting. Limits: its
 * places are far apart, so it is slow where k leaves the cache.
 */
#if !defined(WORD)
#include "papers/papers_queue.h"

#define queue_places(job, k) (k)
#define QUEUE_BODY "papers/papers_heap.c"
#define SELECT_BODY "papers/papers_queue.inc"
#include "select/select_twice.inc"

KIN_QUEUE_METHOD(kin_papers_heap)

#else /* the text, for one width of words */

static WORD NAME(queue_head)(NAME(queue) queue)
{
    return queue.words[0];
}

/* The word at the top is replaced. */
static void NAME(queue_put)(NAME(queue) queue, WORD word)
{
    int64_t place = 0;
    for (int64_t child = 1; child < queue.k; child = 2 * place + 1) {
        child += child + 1 < queue.k && queue.words[child] < queue.words[child + 1];
        if (queue.words[child] <= word) {
            break;
        }
        queue.words[place] = queue.words[child];
        place = child;
    }
    queue.words[place] = word;
}

static void NAME(queue_take)(NAME(queue) queue, bool sorted, WORD *out)
{
    NAME(queue) rest = queue;
    while (sorted && rest.k > 1) {
        const WORD top = queue.words[0];
        rest.k -= 1;
        NAME(queue_put)(rest, queue.words[rest.k]);
        queue.words[rest.k] = top;
    }
    memcpy(out, queue.words, sizeof *out * (size_t)queue.k);
}

#endif
