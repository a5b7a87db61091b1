/* SPDX-License-Identifier: Apache-2.0
 * The min-max heap of Atkinson, Sack, Santoro and Strothotte as TH-heap uses it (2015, algorithms 4
 * to 7): of fixed size, full from the beginning, for one thread. For host and device.
 *
 *   levels   0, 2, 4 ... min: a word has nothing less below it; 1, 3, 5 ... max: nothing greater.
 *            So the least is the root, and the greatest one of its children
 *   memory   word i stands at first[i * stride], so that the heaps of a warp can be interleaved
 *
 * Algorithm 5 prints that what was inserted trickles as on a min level; it stands on a max level
 * (algorithm 7 has it right). */
#ifndef KIN_PAPERS_MIN_MAX_CUH
#define KIN_PAPERS_MIN_MAX_CUH

#include "select/select_word.h"

template <typename Word> struct kin_min_max {
    Word *first;
    int64_t stride;
    int64_t size;
};

/* MIN: a is less than b; else: greater. */
template <bool MIN, typename Word> KIN_SELECT_HD bool kin_min_max_before(Word a, Word b)
{
    return MIN ? a < b : b < a;
}

/* Algorithm 4: word i, on a level of its kind, changes places with what is more extreme below it.
 * Where it has to be looked at again, or -1. */
template <bool MIN, typename Word>
KIN_SELECT_HD int64_t kin_min_max_trickle_once(const kin_min_max<Word> &heap, int64_t i)
{
    const int64_t child = 2 * i + 1;
    if (child >= heap.size) {
        return -1;
    }
    int64_t best = child; /* of children and grandchildren; at equality a child */
    Word best_word = heap.first[child * heap.stride];
    if (child + 1 < heap.size) {
        const Word word = heap.first[(child + 1) * heap.stride];
        if (kin_min_max_before<MIN>(word, best_word)) {
            best = child + 1;
            best_word = word;
        }
    }
    const int64_t grandchild = 2 * child + 1;
    for (int64_t g = grandchild; g < grandchild + 4 && g < heap.size; g++) {
        const Word word = heap.first[g * heap.stride];
        if (kin_min_max_before<MIN>(word, best_word)) {
            best = g;
            best_word = word;
        }
    }
    const Word own = heap.first[i * heap.stride];
    if (!kin_min_max_before<MIN>(best_word, own)) {
        return -1;
    }
    heap.first[i * heap.stride] = best_word;
    if (best < grandchild) {
        heap.first[best * heap.stride] = own;
        return -1;
    }
    Word *parent = heap.first + (best - 1) / 2 * heap.stride;
    if (kin_min_max_before<MIN>(*parent, own)) {
        heap.first[best * heap.stride] = *parent;
        *parent = own;
    } else {
        heap.first[best * heap.stride] = own;
    }
    return best;
}

template <bool MIN, typename Word>
KIN_SELECT_HD void kin_min_max_trickle(const kin_min_max<Word> &heap, int64_t i)
{
    while (i >= 0) {
        i = kin_min_max_trickle_once<MIN>(heap, i);
    }
}

/* Algorithm 6: any words become a heap. Level by level from below. */
template <typename Word> KIN_SELECT_HD void kin_min_max_heapify(const kin_min_max<Word> &heap)
{
    int64_t level = 1; /* the first place of a level and 1 */
    bool min = true;
    while (2 * level <= heap.size) {
        level *= 2;
        min = !min;
    }
    for (; level >= 1; level /= 2, min = !min) {
        const int64_t end = 2 * level - 1 < heap.size ? 2 * level - 1 : heap.size;
        for (int64_t i = end - 1; i >= level - 1; i--) {
            if (min) {
                kin_min_max_trickle<true>(heap, i);
            } else {
                kin_min_max_trickle<false>(heap, i);
            }
        }
    }
}

/* Where the greatest word is. */
template <typename Word> KIN_SELECT_HD int64_t kin_min_max_last(const kin_min_max<Word> &heap)
{
    if (heap.size < 3) {
        return heap.size - 1;
    }
    return heap.first[2 * heap.stride] > heap.first[heap.stride] ? 2 : 1;
}

/* Algorithm 5: the greatest makes room for a word that is less. The greatest there is then. */
template <typename Word>
KIN_SELECT_HD Word kin_min_max_replace(const kin_min_max<Word> &heap, Word word)
{
    const int64_t last = kin_min_max_last(heap);
    const Word root = heap.first[0];
    if (last != 0 && word < root) {
        heap.first[0] = word;
        word = root;
    }
    heap.first[last * heap.stride] = word;
    if (last != 0) {
        kin_min_max_trickle<false>(heap, last);
    }
    return heap.first[kin_min_max_last(heap) * heap.stride];
}

/* The least leaves the heap. */
template <typename Word> KIN_SELECT_HD Word kin_min_max_pop(kin_min_max<Word> *heap)
{
    const Word least = heap->first[0];
    heap->size -= 1;
    heap->first[0] = heap->first[heap->size * heap->stride];
    kin_min_max_trickle<true>(*heap, 0);
    return least;
}

#endif
