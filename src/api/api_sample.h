/* SPDX-License-Identifier: Apache-2.0
 * Rows that stand for all: how they are drawn, and what their recalls say of the others'. */
#ifndef KIN_API_SAMPLE_H
#define KIN_API_SAMPLE_H

#include "kith/kith.h"

#include <stdbool.h>

/* Recalls of rows, each from 0 to 1. */
typedef struct kin_sample_sums {
    int64_t rows;
    double sum;
    double squares;
} kin_sample_sums;

static inline void kin_sample_add(kin_sample_sums *sums, double recall)
{
    sums->rows += 1;
    sums->sum += recall;
    sums->squares += recall * recall;
}

/* `count` of `rows` rows, ascending, each row with the same chance: the same ones of a seed
 * everywhere. count <= rows. */
void kin_sample_draw(int64_t rows, int64_t count, uint64_t seed, uint32_t *ids);

/* Copies of these rows of points, one after another: count rows of cols values. */
kith_matrix kin_sample_gather(const kith_matrix *points, const uint32_t *rows, int64_t count,
                              void *copy);

/* recall, low, high and rows of *out. all: no row was left out, so that nothing is uncertain. */
void kin_sample_interval(const kin_sample_sums *sums, bool all, kith_recall *out);

#endif
