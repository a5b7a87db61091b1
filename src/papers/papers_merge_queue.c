/* SPDX-License-Identifier: Apache-2.0
 *
 * Merge queue (merge-queue paper, III.C, Algorithm 2). Contract: select_body.h.
 *
 * Idea: levels of m, m, 2m, 4m ... words, each descending, their heads descending from level to
 * level, so that the first word of all is the last of the k best.
 *
 *     level 0   |  level 1   |        level 2          |     level 3 ...
 *     m words   |  m words   |        2m words         |     4m words
 *     head >=      head >=      head >=                   head
 *
 * A better word is inserted into level 0, whose head falls out. Lazy update: nothing else happens
 * until the head of a level has become smaller than the head of the next. (The paper's listing
 * prints that comparison the other way round; its text and its figure say this.) Then everything up
 * to the next level is merged, which is two sorted halves of equal size, and the level behind is
 * looked at. Reverse bitonic merge: both halves descend, so the first step compares the i-th from
 * the front with the i-th from the back; then half-cleaners.
 *
 * The levels add up to a power of two. Where k is none, the places behind k hold the word 0, which
 * nothing comes before: they stay at the end of the last level, and the head stays the k-th.
 *
 * Cost: log^2 k an insertion, amortised. m = 8 as measured in the paper (IV). Limits: a bitonic
 * merge has log k steps over all its words where a sequential merge needs one; what the paper gains
 * by it are the lanes of a warp.
 */
#if !defined(WORD)
#include "papers/papers_queue.h"

enum { FIRST_LEVEL = 8 };

static int64_t queue_places(int64_t k)
{
    int64_t places = FIRST_LEVEL;
    while (places < k) {
        places *= 2;
    }
    return places;
}

#define QUEUE_BODY "papers/papers_merge_queue.c"
#define SELECT_BODY "papers/papers_queue.inc"
#include "select/select_twice.inc"

static uint64_t scratch_bytes(const kin_select_job *job, int64_t longest_run)
{
    return kin_queue_scratch(job, longest_run, queue_places(kin_min_i64(job->k, longest_run)));
}

KIN_SELECT_METHOD(kin_papers_merge_queue)

#else /* the text, for one width of words */

static void NAME(queue_fill)(WORD *queue, int64_t k, WORD word)
{
    const int64_t places = queue_places(k);
    for (int64_t i = 0; i < places; i++) {
        queue[i] = i < k ? word : 0;
    }
}

static WORD NAME(queue_head)(const WORD *queue, int64_t k)
{
    (void)k;
    return queue[0];
}

static inline void NAME(descend)(WORD *first, WORD *second)
{
    const WORD a = *first;
    const WORD b = *second;
    *first = a < b ? b : a;
    *second = a < b ? a : b;
}

/* Two descending halves become one descending whole of `places` words. */
static void NAME(merge)(WORD *queue, int64_t places)
{
    for (int64_t i = 0; i < places / 2; i++) {
        NAME(descend)(&queue[i], &queue[places - 1 - i]);
    }
    for (int64_t stride = places / 4; stride > 0; stride /= 2) {
        for (int64_t first = 0; first < places; first += 2 * stride) {
            for (int64_t i = first; i < first + stride; i++) {
                NAME(descend)(&queue[i], &queue[i + stride]);
            }
        }
    }
}

static void NAME(queue_put)(WORD *queue, int64_t k, WORD word)
{
    int64_t place = 0;
    for (; place + 1 < FIRST_LEVEL && word < queue[place + 1]; place++) {
        queue[place] = queue[place + 1];
    }
    queue[place] = word;
    int64_t level = 0;
    for (int64_t next = FIRST_LEVEL; next < k && queue[level] < queue[next]; next *= 2) {
        NAME(merge)(queue, 2 * next);
        level = next;
    }
}

static void NAME(queue_take)(WORD *queue, int64_t k, bool sorted, WORD *out)
{
    for (int64_t next = FIRST_LEVEL; sorted && next < k; next *= 2) {
        NAME(merge)(queue, 2 * next);
    }
    /* Unsorted, too, the filling is where it began: behind k. */
    for (int64_t i = 0; i < k; i++) {
        out[i] = queue[k - 1 - i];
    }
}

#endif
