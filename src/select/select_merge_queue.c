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
#include "select/select_queue.h"

enum { FIRST_LEVEL = 8 };

static int64_t queue_places(int64_t k)
{
    int64_t places = FIRST_LEVEL;
    while (places < k) {
        places *= 2;
    }
    return places;
}

#define QUEUE_BODY "select/select_merge_queue_body.inc"
#define SELECT_BODY "select/select_queue_body.inc"
#include "select/select_twice.inc"

static uint64_t scratch_bytes(const kin_select_job *job, int64_t longest_run)
{
    return kin_queue_scratch(job, longest_run, queue_places(kin_min_i64(job->k, longest_run)));
}

const kin_select_body kin_select_merge_queue = {scratch_bytes, select_any};
