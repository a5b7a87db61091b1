/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging by ranks. A cut at rank r is the least word that r words do not exceed, found by halving
 * the range of words, and how many of those equal to it stand before the cut. Two cuts bound what a
 * piece takes of each run; that is sorted. Cuts know nothing of each other, so pieces need no
 * order.
 */
#include "select/select_parts.h"

#include "select/select_pairs.h"

typedef struct cut {
    kin_word128 word;
    int64_t equal; /* of the words that equal it, the first so many, in the order of runs */
} cut;

static int64_t part_words(const kin_parts *p, int64_t part)
{
    return kin_min_i64(p->k, kin_min_i64(p->run, p->cols - part * p->run));
}

/* How many of the run's words are below `word`; or not above it. */
static int64_t count_to(const kin_parts *p, int64_t row, int64_t part, kin_word128 word,
                        bool with_equal)
{
    const char *words = kin_parts_of(p, row, part);
    int64_t low = 0;
    int64_t high = part_words(p, part);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const kin_word128 found = kin_parts_word(words, middle, p->word_bytes);
        if (found < word || (with_equal && found == word)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int64_t count_all(const kin_parts *p, int64_t row, kin_word128 word, bool with_equal)
{
    int64_t count = 0;
    for (int64_t part = 0; part < p->runs; part++) {
        count += count_to(p, row, part, word, with_equal);
    }
    return count;
}

static cut cut_at(const kin_parts *p, int64_t row, int64_t rank)
{
    kin_word128 low = 0;
    kin_word128 high = p->word_bytes == 8 ? KIN_WORD64_WORST : KIN_WORD128_WORST;
    while (low < high) {
        const kin_word128 middle = low + (high - low) / 2;
        if (count_all(p, row, middle, true) >= rank) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return (cut){low, rank - count_all(p, row, low, false)};
}

/* What stands before the cut in this run; runs are asked in their order. */
static int64_t take_to(const kin_parts *p, int64_t row, int64_t part, cut *c)
{
    const int64_t below = count_to(p, row, part, c->word, false);
    const int64_t same = count_to(p, row, part, c->word, true) - below;
    const int64_t taken = kin_min_i64(same, c->equal);
    c->equal -= taken;
    return below + taken;
}

void kin_parts_merge(const kin_parts *p, int64_t row, int64_t first, int64_t last, void *out)
{
    cut from = cut_at(p, row, first);
    cut to = cut_at(p, row, last);
    int64_t filled = 0;
    for (int64_t part = 0; part < p->runs; part++) {
        const int64_t begin = take_to(p, row, part, &from);
        const int64_t count = take_to(p, row, part, &to) - begin;
        memcpy((char *)out + filled * p->word_bytes,
               kin_parts_of(p, row, part) + begin * p->word_bytes, (size_t)(count * p->word_bytes));
        filled += count;
    }
    if (p->word_bytes == 8) {
        kin_select_sort_words(out, filled);
    } else {
        kin_select_sort_words128(out, filled);
    }
}
