/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Quickselect without a branch that depends on the words: which side of a pivot a word is on
 * is a coin toss, and half of the tosses would be guessed wrong. The pivot comes from a sorted
 * sample (Floyd, Rivest 1975), a little beyond the rank, so that the smaller side is mostly the one
 * that is kept: one pass and a half instead of three. Input that fools the sample falls back to
 * kin_select_nth_word, which nothing makes slow.
 */
#include "tree/tree_split.h"

#include "select/select_pairs.h"

enum { FEW = 12, MOST_SAMPLE = 31 };

/* Words below the pivot first; returns how many. */
static int64_t part(uint64_t *words, int64_t count, uint64_t pivot)
{
    int64_t below = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint64_t word = words[i];
        words[i] = words[below];
        words[below] = word;
        below += word < pivot;
    }
    return below;
}

static void insert(uint64_t *sorted, int64_t count, uint64_t word)
{
    for (; count > 0 && sorted[count - 1] > word; count--) {
        sorted[count] = sorted[count - 1];
    }
    sorted[count] = word;
}

/* One of the words, not the smallest: both sides of it get some. */
static uint64_t choose_pivot(const uint64_t *words, int64_t count, int64_t rank)
{
    uint64_t sample[MOST_SAMPLE];
    const int64_t size = count < 100 ? 5 : count < 1000 ? 11 : MOST_SAMPLE;
    for (int64_t i = 0; i < size; i++) {
        insert(sample, i, words[i * (count / size)]);
    }
    const int64_t slack = size / 8;
    const int64_t place = rank * size / count + (2 * rank < count ? slack : -slack);
    return sample[place < 1 ? 1 : place >= size ? size - 1 : place];
}

uint64_t kin_tree_median(uint64_t *words, int64_t count, int64_t rank)
{
    int tries = 2 * (64 - __builtin_clzll((unsigned long long)count));
    while (count > FEW) {
        if (tries-- == 0) {
            kin_select_nth_word(words, count, rank);
            return words[rank];
        }
        const int64_t below = part(words, count, choose_pivot(words, count, rank));
        if (rank < below) {
            count = below;
        } else {
            words += below;
            rank -= below;
            count -= below;
        }
    }
    for (int64_t i = 1; i < count; i++) {
        insert(words, i, words[i]);
    }
    return words[rank];
}
