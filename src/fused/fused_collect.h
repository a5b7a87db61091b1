/* SPDX-License-Identifier: Apache-2.0
 * One screen of a set by reaches that are known, and what its lists hold: a step of fused_find.c.
 */
#ifndef KIN_FUSED_COLLECT_H
#define KIN_FUSED_COLLECT_H

#include "fused/fused_find.h"

/* Rows whose lists overflowed: number of candidates << 32 | row, so that sorting puts the largest
 * last. */
typedef struct kin_fused_rest {
    uint64_t *words;
    int64_t count;
    int64_t room;
} kin_fused_rest;

/* Rows against columns first .. first + count - 1. */
typedef struct kin_fused_part {
    const kin_fused_set *rows;
    int64_t first;
    int64_t count;
    int64_t capacity;
    bool both;
    bool counts_alone;     /* nothing is delivered, nothing kept */
    kin_fused_rest *again; /* NULL: no row may lose candidates */
} kin_fused_part;

/* What of the memory is for lists: half; a quarter for hits, an eighth for plans. */
static inline int64_t kin_fused_list_words(const kin_fused_finder *f)
{
    return (int64_t)(f->memory / 2 / sizeof(uint64_t));
}

/* Screens, and offers what is in lists that did not overflow. */
kith_status kin_fused_collect(kin_fused_finder *f, const kin_fused_finding *what, kin_fused_part p);

#endif
