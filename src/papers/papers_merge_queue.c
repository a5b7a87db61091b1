/* SPDX-License-Identifier: Apache-2.0
 *
 * Merge queue (merge-queue paper, III.C, Algorithm 2). Contract: select.h.
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
 * Cost: log^2 k an insertion, amortised. m is 8 unless job->level says otherwise, as measured in
 * the paper (IV). A bitonic merge has log k steps over all its words where a sequential merge needs
 * one; what the paper gains by it are the lanes of a warp. job->merge_path: the sequential one,
 * which the paper names as future work (V), and log k an insertion; k / 2 words of memory more.
 */
#if !defined(WORD)
#include "papers/papers_queue.h"

/* Of all levels together. */
static int64_t level_places(int64_t level, int64_t k)
{
    int64_t places = level;
    while (places < k) {
        places *= 2;
    }
    return places;
}

/* Merge path copies half of them aside. */
static int64_t queue_places(const kin_select_job *job, int64_t k)
{
    const int64_t places = level_places(kin_queue_level(job), k);
    return job->merge_path ? places + places / 2 : places;
}

#define QUEUE_BODY "papers/papers_merge_queue.c"
#define SELECT_BODY "papers/papers_queue.inc"
#include "select/select_twice.inc"

KIN_QUEUE_METHOD(kin_papers_merge_queue)

#else /* the text, for one width of words */

static WORD NAME(queue_head)(NAME(queue) queue)
{
    return queue.words[0];
}

static inline void NAME(descend)(WORD *first, WORD *second)
{
    const WORD a = *first;
    const WORD b = *second;
    *first = a < b ? b : a;
    *second = a < b ? a : b;
}

/* Two descending halves become one descending whole of `places` words. */
static void NAME(merge_network)(WORD *queue, int64_t places)
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

/* The same, word by word: the upper half, copied aside, and the lower one, which nothing that is
 * written overtakes. What is left of the lower half stands where it belongs. */
static void NAME(merge_path)(WORD *queue, int64_t places, WORD *aside)
{
    const int64_t half = places / 2;
    const WORD *lower = queue + half;
    int64_t i = 0;
    int64_t j = 0;
    memcpy(aside, queue, sizeof *queue * (size_t)half);
    while (i < half) {
        const bool takes_upper = j == half || aside[i] >= lower[j];
        queue[i + j] = takes_upper ? aside[i] : lower[j];
        i += takes_upper;
        j += !takes_upper;
    }
}

static void NAME(merge)(NAME(queue) queue, int64_t places)
{
    if (queue.by_path) {
        NAME(merge_path)(queue.words, places, queue.words + level_places(queue.level, queue.k));
    } else {
        NAME(merge_network)(queue.words, places);
    }
}

static void NAME(queue_put)(NAME(queue) queue, WORD word)
{
    WORD *words = queue.words;
    int64_t place = 0;
    for (; place + 1 < queue.level && word < words[place + 1]; place++) {
        words[place] = words[place + 1];
    }
    words[place] = word;
    int64_t level = 0;
    for (int64_t next = queue.level; next < queue.k && words[level] < words[next]; next *= 2) {
        NAME(merge)(queue, 2 * next);
        level = next;
    }
}

static void NAME(queue_take)(NAME(queue) queue, bool sorted, WORD *out)
{
    for (int64_t next = queue.level; sorted && next < queue.k; next *= 2) {
        NAME(merge)(queue, 2 * next);
    }
    /* Unsorted, too, the filling is where it began: behind k. */
    for (int64_t i = 0; i < queue.k; i++) {
        out[i] = queue.words[queue.k - 1 - i];
    }
}

#endif
