/* SPDX-License-Identifier: Apache-2.0
 *
 * Threshold heap (TH-heap paper: III, V.A compression, V.B and V.C Algorithms 4 to 7; the heap is
 * that of Atkinson, Sack, Santoro, Strothotte 1986). Contract: select.h.
 *
 * Idea: the k-th of a small sample is a threshold that at least k words of the row do not exceed.
 * One pass keeps what does not exceed it, side by side in memory (about n k / sample words); those
 * go through a min-max heap of k, which knows its first and its last at once: the last refuses what
 * comes too late, and at the end the k are taken from the front in order.
 *
 * The sample is job->sample * k words at even strides instead of random ones, so that a run gives
 * the same work every time. What equals the threshold is kept (the paper's text does so, its
 * equation 4 counts without). Words are compared, so of equal distances only those whose id is not
 * behind the threshold's are kept.
 *
 * The heap (papers_min_max.inc) starts full, so words trickle down and never bubble up; it is built
 * from the bottom like Floyd's heap.
 *
 * Cost: one read, sample * k log k for the threshold, log k for each survivor that is inserted,
 * k log k at the end; n words of memory, since a threshold may keep everything. Limits: a row whose
 * strides hit its largest words keeps too much; where the sample is the row nothing is pruned.
 */
#if !defined(WORD)
#include "papers/papers.h"

#define SELECT_BODY "papers/papers_threshold_heap.c"

enum { PRUNE_BLOCK = 256 };

#include "select/select_twice.inc"

static uint64_t scratch_bytes(const kin_select_job *job, int64_t longest_run)
{
    const int64_t k = kin_min_i64(job->k, longest_run);
    return kin_size_mul(kin_size_add((uint64_t)k, (uint64_t)longest_run),
                        (uint64_t)kin_word_bytes(job->dtype));
}

KIN_SELECT_METHOD(kin_papers_threshold_heap)

#else /* the text, for one width of words */

typedef struct NAME(heap) {
    WORD *words;
    int64_t size;
} NAME(heap);

#define MIN_MAX static inline
#define HEAP NAME(heap)
#define PLACE(heap, i) ((heap)->words[i])
#include "papers/papers_min_max.inc"
#undef MIN_MAX
#undef HEAP
#undef PLACE

/* Of words that come one by one, the heap's size stay. */
static void NAME(insert_all)(const NAME(heap) * heap, const WORD *words, int64_t count)
{
    WORD last = heap->words[NAME(min_max_last)(heap)];
    for (int64_t i = 0; i < count; i++) {
        if (words[i] < last) {
            last = NAME(min_max_replace)(heap, words[i]);
        }
    }
}

/* The k-th of job->sample * k places at even strides; where those are the row, nothing is pruned.
 */
static WORD NAME(threshold)(const kin_select_job *job, const kin_run *run, const NAME(heap) * heap)
{
    const int64_t k = heap->size;
    const uint64_t count = (uint64_t)run->count; /* below 2^32, as are all places */
    if (job->sample >= run->count / k) {
        return WORST;
    }
    const int64_t sample = job->sample * k;
    for (int64_t i = 0; i < k; i++) {
        LOAD(run, (int64_t)((uint64_t)i * count / (uint64_t)sample), 1, &heap->words[i]);
    }
    NAME(min_max_heapify)(heap);
    for (int64_t i = k; i < sample; i++) {
        WORD word;
        LOAD(run, (int64_t)((uint64_t)i * count / (uint64_t)sample), 1, &word);
        NAME(insert_all)(heap, &word, 1);
    }
    return heap->words[NAME(min_max_last)(heap)];
}

/* Words that do not come behind the threshold; each is written, and the place moves on or not. */
static int64_t NAME(prune)(const kin_run *run, WORD threshold, WORD *kept)
{
    int64_t count = 0;
    WORD words[PRUNE_BLOCK];
    for (int64_t at = 0; at < run->count; at += PRUNE_BLOCK) {
        const int64_t loaded = kin_min_i64(PRUNE_BLOCK, run->count - at);
        LOAD(run, at, loaded, words);
        for (int64_t i = 0; i < loaded; i++) {
            kept[count] = words[i];
            count += words[i] <= threshold;
        }
    }
    return count;
}

/* The first of `count` words behind the heap, ascending where job->sorted. */
static void NAME(finish)(const kin_select_job *job, NAME(heap) * heap, int64_t count, WORD *out)
{
    const int64_t k = heap->size;
    const WORD *kept = heap->words + k;
    memcpy(heap->words, kept, sizeof *kept * (size_t)k);
    NAME(min_max_heapify)(heap);
    NAME(insert_all)(heap, kept + k, count - k);
    memcpy(out, heap->words, sizeof *out * (size_t)k); /* in any order */
    for (int64_t i = 0; job->sorted && i < k; i++) {   /* Algorithm 7, its second half */
        out[i] = NAME(min_max_pop)(heap);
    }
}

static void NAME(select)(const kin_select_job *job, const kin_run *run, int64_t k, void *scratch,
                         WORD *out)
{
    NAME(heap) heap = {scratch, k};
    const WORD threshold = NAME(threshold)(job, run, &heap);
    NAME(finish)(job, &heap, NAME(prune)(run, threshold, heap.words + k), out);
}

#endif
