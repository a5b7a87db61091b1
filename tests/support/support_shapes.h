/* SPDX-License-Identifier: Apache-2.0
 * Data that engines have stumbled over, one name each. */
#ifndef SUPPORT_SHAPES_H
#define SUPPORT_SHAPES_H

#include "support/support_rows.h"

#include <stdbool.h>

typedef enum test_shape {
    SHAPE_GAUSS = 0, /* independent components */
    SHAPE_CLUSTERS,  /* ten clusters of radius 1e-2, 10 apart */
    SHAPE_GRID,      /* {0, 1}^d: most rows have equals, most distances tie */
    SHAPE_EQUAL,     /* one row, again and again */
    SHAPE_OFFSET,    /* 1e4 with a spread of 1e-3 */
    SHAPE_TINY,      /* everything at 1e-38 */
    SHAPE_HEAVY,     /* rows' scales have heavy tails */
    SHAPE_OUTLIER,   /* one row at 1e30 */
    SHAPE_NORMS,     /* norms from 1e-6 to 1e6 */
    SHAPE_TIGHT,     /* clusters of radius 1e-1, 1e-2 ... 1e-9 */
    SHAPE_SPARSE,    /* nine tenths zeros; every seventh row all zeros */
    SHAPE_COPIES,    /* half of the rows are copies of earlier ones */
    SHAPE_LINE,      /* all rows on one line: dense order, many near ties */
    SHAPE_BALL,      /* one row at 1e6, all others within 1e-5: cheap types see a single point */
    SHAPE_COUNT
} test_shape;

const char *test_shape_name(test_shape shape);

/* Fills all rows; 8-bit and 16-bit types get what they can hold of it. */
void test_shape_fill(const test_rows *rows, test_shape shape, bool nonnegative, uint64_t *seed);

/* Standard normal, near enough. */
double test_gauss(uint64_t *seed);

/* Whether the thread sanitizer watches: what one thread does alone is left to other builds. */
bool test_is_thread_build(void);
/* The same, or KITH_CASES=few in the environment (.ci/run with clang and the address sanitizer): a
 * part of the cases must do. */
bool test_is_slow_build(void);
/* The same, or some times slower: where every other of very many cases will do. */
bool test_is_sanitized_build(void);
/* KITH_CASES=all in the environment (`make check-full`): cases that differ little from others, too.
 */
bool test_is_whole_build(void);
/* Rows for what is quick on a GPU alone: in a slow build an eighth of them, but so many that a
 * descent has rounds and a search walks. */
int64_t test_fewer(int64_t rows);

#endif
