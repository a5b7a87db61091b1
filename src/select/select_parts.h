/* SPDX-License-Identifier: Apache-2.0
 * Rows that were selected from run by run: each run's first words, ascending, and the way from
 * there to the row's first words by ranks. Words are 8 or 16 bytes (select_word.h). */
#ifndef KIN_SELECT_PARTS_H
#define KIN_SELECT_PARTS_H

#include "base/base_size.h"
#include "select/select_word.h"

/* Run p of a row has the values [p * run, (p + 1) * run) and gives min(k, length) words. */
typedef struct kin_parts {
    char *words; /* rows x kin_parts_row_words */
    int64_t runs;
    int64_t run;
    int64_t cols;
    int64_t k;
    int64_t word_bytes;
} kin_parts;

/* At most so many; the last run may give fewer. */
static inline int64_t kin_parts_row_words(const kin_parts *p)
{
    return p->runs * kin_min_i64(p->k, p->run);
}

static inline char *kin_parts_of(const kin_parts *p, int64_t row, int64_t part)
{
    const int64_t at = row * kin_parts_row_words(p) + part * kin_min_i64(p->k, p->run);
    return p->words + at * p->word_bytes;
}

static inline kin_word128 kin_parts_word(const char *words, int64_t at, int64_t word_bytes)
{
    kin_word64 narrow = 0;
    kin_word128 wide = 0;
    if (word_bytes == 8) {
        memcpy(&narrow, words + 8 * at, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, words + 16 * at, sizeof wide);
    return wide;
}

/* The words of ranks [first, last) of a row, last <= k, ascending. */
void kin_parts_merge(const kin_parts *p, int64_t row, int64_t first, int64_t last, void *out);

#endif
