/* SPDX-License-Identifier: Apache-2.0
 *
 * Insertion queue (merge-queue paper, III.B; Garcia et al. 2008). Contract: select.h.
 *
 * Idea: the k best stand in order. A better word moves those behind its place by one; the last one
 * falls out. Cost: k / 2 moves an insertion, k^2 ln(n / k) / 2 on random rows, n k on descending
 * ones. Limits: for small k alone; buffers and groups (papers_queue.inc) help it most.
 */
#if !defined(WORD)
#include "papers/papers_queue.h"

#define queue_places(job, k) (k)
#define QUEUE_BODY "papers/papers_insertion.c"
#define SELECT_BODY "papers/papers_queue.inc"
#include "select/select_twice.inc"

KIN_QUEUE_METHOD(kin_papers_insertion)

#else /* the text, for one width of words */

static WORD NAME(queue_head)(NAME(queue) queue)
{
    return queue.words[queue.k - 1];
}

static void NAME(queue_put)(NAME(queue) queue, WORD word)
{
    int64_t place = queue.k - 1;
    for (; place > 0 && word < queue.words[place - 1]; place--) {
        queue.words[place] = queue.words[place - 1];
    }
    queue.words[place] = word;
}

static void NAME(queue_take)(NAME(queue) queue, bool sorted, WORD *out)
{
    (void)sorted;
    memcpy(out, queue.words, sizeof *out * (size_t)queue.k);
}

#endif
