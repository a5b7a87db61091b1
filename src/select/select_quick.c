/* SPDX-License-Identifier: Apache-2.0
 *
 * Quick multi-select (quick multi-select paper, "GPU-Based Quick Multi-Select", Algorithm 1) on one
 * thread. Contract: select_body.h.
 *
 * Idea: partition out of place, from one array into the other: words before the pivot from the
 * left, the rest from the right, then swap the arrays. If the left side has more than the k wanted,
 * go on with it alone. Otherwise it belongs to the answer and stays where it is: a reference to it
 * (array, first, count) goes onto a stack, and the right side gives what is still missing. Nothing
 * is copied twice; the references are gathered at the end.
 *
 *     row -> A   [ < p | >= p ]         left too many: go on with A's left
 *     A   -> B   [ < q | >= q ]         left too few: keep (B, left), go on with B's right
 *     B   -> A          [ < r | >= r ]
 *
 * Each word is written to both ends and one of two places moves on, so the loop has no branch. The
 * pivot is the median of three. Where it is the smallest of all, the next partition takes what
 * equals it: words differ unless an element was given twice, so that is rare, and always progress.
 *
 * Cost: n + n / 2 + n / 4 ... = about 2n words moved, two arrays of n words, k log k for sorting.
 * Like introselect it is bounded: after 2 log2 n partitions what is left is sorted. Limits: it
 * moves the whole row at least once, which methods with a threshold do not.
 */
#define SELECT_BODY "select/select_quick_body.inc"

enum {
    QUICK_BLOCK = 256,
    QUICK_SHORT = 32,   /* sorted at once */
    QUICK_PIECES = 132, /* one a partition, of which there are at most 2 * 64, and the last */
};

#include "select/select_twice.inc"

static uint64_t scratch_bytes(const kin_select_job *job, int64_t longest_run)
{
    return kin_size_mul(2 * (uint64_t)longest_run, (uint64_t)kin_word_bytes(job->dtype));
}

const kin_select_body kin_select_quick = {scratch_bytes, select_any};
