/* SPDX-License-Identifier: Apache-2.0
 * A limit in double as the word that a tile kernel compares with, rounded so that nothing is lost.
 */
#ifndef KIN_EXACT_LIMIT_H
#define KIN_EXACT_LIMIT_H

#include "exact/exact_tile.h"

#include <math.h>

static inline kin_word kin_limit_integer(double limit)
{
    if (!(limit < (double)KIN_LIMIT_ALL)) { /* a NaN keeps everything */
        return (kin_word){.i = KIN_LIMIT_ALL};
    }
    const double kept = limit > (double)KIN_LIMIT_NONE ? limit : (double)KIN_LIMIT_NONE;
    const int32_t whole = (int32_t)kept; /* towards zero */
    return (kin_word){.i = whole - (kept < (double)whole)};
}

static inline kin_word kin_limit_float(double limit)
{
    if (!(limit < (double)KIN_LIMIT_ALL_F)) {
        return (kin_word){.f = KIN_LIMIT_ALL_F};
    }
    return (kin_word){.f = nextafterf((float)limit, INFINITY)};
}

/* The limit and its half (exact_tile.h). */
static inline void kin_limit_set(bool is_float, double value, kin_word *limit, kin_word *half)
{
    if (is_float) {
        *limit = kin_limit_float(value);
        half->f = 0.5F * limit->f;
    } else {
        *limit = kin_limit_integer(value);
        half->i = (limit->i >> 1) + (limit->i & 1);
    }
}

/* Nobody passes. */
static inline void kin_limit_close(bool is_float, kin_word *limit, kin_word *half)
{
    if (is_float) {
        limit->f = -KIN_LIMIT_ALL_F;
        half->f = -0.5F * KIN_LIMIT_ALL_F;
    } else {
        limit->i = KIN_LIMIT_NONE;
        half->i = KIN_LIMIT_NONE / 2;
    }
}

#endif
