/* SPDX-License-Identifier: Apache-2.0
 *
 * Truncated bitonic sort (Sismanis, Pitsianis, Sun 2012; described in the quick multi-select
 * paper, "Related Work", and in the TH-heap paper, I). Contract: select_body.h.
 *
 * Idea: K is the power of two that is at least k. Runs of K words are sorted by a bitonic network;
 * two sorted runs are merged and the upper half is thrown away, until one run is left. The runs are
 * taken here from left to right into one that is kept: the same merges as in a tree, in 2K words
 * of memory. Lower half of an ascending and a descending run: the smaller of each place, which is a
 * bitonic sequence, so half-cleaners sort it.
 *
 * Cost: n (log^2 K + 3 log K + 4) / 4 exchanges, whatever the values: nothing branches on them.
 * Limits: grows with log^2 k, and by a step where k passes a power of two. The answer is always
 * sorted.
 */
#define SELECT_BODY "select/select_bitonic_body.inc"
#include "select/select_twice.inc"

static uint64_t scratch_bytes(const kin_select_job *job, int64_t longest_run)
{
    int64_t width = 1;
    while (width < kin_min_i64(job->k, longest_run)) {
        width *= 2;
    }
    return kin_size_mul(2 * (uint64_t)width, (uint64_t)kin_word_bytes(job->dtype));
}

const kin_select_body kin_select_bitonic = {scratch_bytes, select_any};
