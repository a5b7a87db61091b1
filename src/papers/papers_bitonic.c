/* SPDX-License-Identifier: Apache-2.0
 *
 * Truncated bitonic sort (Sismanis, Pitsianis, Sun 2012; described in the quick multi-select
 * paper, "Related Work", and in the TH-heap paper, I). Contract: select.h.
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
#if !defined(WORD)
#include "papers/papers.h"

#define SELECT_BODY "papers/papers_bitonic.c"
#include "select/select_twice.inc"

static uint64_t scratch_bytes(const kin_select_job *job, int64_t longest_run)
{
    int64_t width = 1;
    while (width < kin_min_i64(job->k, longest_run)) {
        width *= 2;
    }
    return kin_size_mul(2 * (uint64_t)width, (uint64_t)kin_word_bytes(job->dtype));
}

KIN_SELECT_METHOD(kin_papers_bitonic)

#else /* the text, for one width of words */

/* One step of a network in [first, first + 2 stride): ascending, or descending. */
static inline void NAME(clean)(WORD *words, int64_t first, int64_t stride, bool rising)
{
    WORD *low = words + first;
    WORD *high = words + first + stride;
    for (int64_t i = 0; i < stride; i++) {
        const WORD a = low[i];
        const WORD b = high[i];
        const WORD least = a < b ? a : b;
        const WORD most = a < b ? b : a;
        low[i] = rising ? least : most;
        high[i] = rising ? most : least;
    }
}

static void NAME(sort_run)(WORD *words, int64_t width, bool rising)
{
    for (int64_t size = 2; size <= width; size *= 2) {
        for (int64_t stride = size / 2; stride > 0; stride /= 2) {
            for (int64_t first = 0; first < width; first += 2 * stride) {
                NAME(clean)(words, first, stride, ((first & size) == 0) == rising);
            }
        }
    }
}

/* The run [at, at + width), with WORST behind its end. */
static void NAME(load_run)(const kin_run *run, int64_t at, int64_t width, WORD *words)
{
    const int64_t count = kin_min_i64(width, run->count - at);
    LOAD(run, at, count, words);
    for (int64_t i = count; i < width; i++) {
        words[i] = WORST;
    }
}

static void NAME(select)(const kin_select_job *job, const kin_run *run, int64_t k, void *scratch,
                         WORD *out)
{
    (void)job;
    int64_t width = 1;
    while (width < k) {
        width *= 2;
    }
    WORD *kept = scratch;
    WORD *fresh = kept + width;
    NAME(load_run)(run, 0, width, kept);
    NAME(sort_run)(kept, width, true);
    for (int64_t at = width; at < run->count; at += width) {
        NAME(load_run)(run, at, width, fresh);
        NAME(sort_run)(fresh, width, false);
        for (int64_t i = 0; i < width; i++) {
            kept[i] = fresh[i] < kept[i] ? fresh[i] : kept[i];
        }
        for (int64_t stride = width / 2; stride > 0; stride /= 2) {
            for (int64_t first = 0; first < width; first += 2 * stride) {
                NAME(clean)(kept, first, stride, true);
            }
        }
    }
    memcpy(out, kept, sizeof *out * (size_t)k);
}

#endif
