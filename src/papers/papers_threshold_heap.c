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
 * Min-max heap: the children of place i are 2i + 1 and 2i + 2; on even levels no descendant comes
 * before a node, on odd levels none comes behind it. It starts full, so words trickle down and
 * never bubble up; it is built from the bottom like Floyd's heap.
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

static inline void NAME(swap)(WORD *a, WORD *b)
{
    const WORD moving = *a;
    *a = *b;
    *b = moving;
}

/* Whether a comes before b, on a level of minima; behind it, on one of maxima. */
static inline bool NAME(nearer)(WORD a, WORD b, bool minima)
{
    return minima ? a < b : b < a;
}

/* Of the children and grandchildren of `place` the one that should stand highest; -1: none. */
static inline int64_t NAME(highest)(const WORD *heap, int64_t count, int64_t place, bool minima)
{
    int64_t best = -1;
    const int64_t starts[2] = {2 * place + 1, 4 * place + 3};
    for (int age = 0; age < 2; age++) {
        const int64_t end = kin_min_i64(starts[age] + 2 + 2 * age, count);
        for (int64_t i = starts[age]; i < end; i++) {
            if (best < 0 || NAME(nearer)(heap[i], heap[best], minima)) {
                best = i;
            }
        }
    }
    return best;
}

/* Algorithm 4, iterated: the word at `place` sinks to where it belongs. */
static void NAME(trickle)(WORD *heap, int64_t count, int64_t place, bool minima)
{
    for (;;) {
        const int64_t best = NAME(highest)(heap, count, place, minima);
        if (best < 0 || !NAME(nearer)(heap[best], heap[place], minima)) {
            return;
        }
        NAME(swap)(&heap[best], &heap[place]);
        if (best <= 2 * place + 2) { /* a child: its own children can only equal it */
            return;
        }
        const int64_t parent = (best - 1) / 2;
        if (NAME(nearer)(heap[parent], heap[best], minima)) {
            NAME(swap)(&heap[best], &heap[parent]);
        }
        place = best;
    }
}

/* Algorithm 6. */
static void NAME(heapify)(WORD *heap, int64_t count)
{
    for (int64_t place = count / 2 - 1; place >= 0; place--) {
        const int level = 63 - __builtin_clzll((unsigned long long)place + 1);
        NAME(trickle)(heap, count, place, level % 2 == 0);
    }
}

/* Where the last word is. */
static int64_t NAME(last)(const WORD *heap, int64_t count)
{
    if (count < 3) {
        return count - 1;
    }
    return heap[1] < heap[2] ? 2 : 1;
}

/* Algorithm 5: `word` replaces the last, which comes behind it. */
static void NAME(insert)(WORD *heap, int64_t count, WORD word)
{
    const int64_t place = NAME(last)(heap, count);
    heap[place] = word;
    if (place > 0 && word < heap[0]) {
        NAME(swap)(&heap[place], &heap[0]);
    }
    NAME(trickle)(heap, count, place, false);
}

static void NAME(insert_all)(WORD *heap, int64_t k, const WORD *words, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (words[i] < heap[NAME(last)(heap, k)]) {
            NAME(insert)(heap, k, words[i]);
        }
    }
}

/* The k-th of job->sample * k places at even strides; where those are the row, nothing is pruned.
 */
static WORD NAME(threshold)(const kin_select_job *job, const kin_run *run, int64_t k, WORD *heap)
{
    const uint64_t count = (uint64_t)run->count; /* below 2^32, as are all places */
    if (job->sample >= run->count / k) {
        return WORST;
    }
    const int64_t sample = job->sample * k;
    for (int64_t i = 0; i < k; i++) {
        LOAD(run, (int64_t)((uint64_t)i * count / (uint64_t)sample), 1, &heap[i]);
    }
    NAME(heapify)(heap, k);
    for (int64_t i = k; i < sample; i++) {
        WORD word;
        LOAD(run, (int64_t)((uint64_t)i * count / (uint64_t)sample), 1, &word);
        NAME(insert_all)(heap, k, &word, 1);
    }
    return heap[NAME(last)(heap, k)];
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

/* The first k of `count` words behind the heap, ascending where job->sorted. */
static void NAME(finish)(const kin_select_job *job, int64_t k, WORD *heap, int64_t count, WORD *out)
{
    memcpy(heap, heap + k, sizeof *heap * (size_t)k);
    NAME(heapify)(heap, k);
    NAME(insert_all)(heap, k, heap + 2 * k, count - k);
    memcpy(out, heap, sizeof *out * (size_t)k);      /* in any order */
    for (int64_t i = 0; job->sorted && i < k; i++) { /* Algorithm 7, its second half */
        out[i] = heap[0];
        heap[0] = heap[k - 1 - i];
        NAME(trickle)(heap, k - 1 - i, 0, true);
    }
}

static void NAME(select)(const kin_select_job *job, const kin_run *run, int64_t k, void *scratch,
                         WORD *out)
{
    WORD *heap = scratch;
    const WORD threshold = NAME(threshold)(job, run, k, heap);
    NAME(finish)(job, k, heap, NAME(prune)(run, threshold, heap + k), out);
}

#endif
