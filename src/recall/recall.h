/* SPDX-License-Identifier: Apache-2.0
 * How much of the truth is found, said by rows that stand for all: how they are drawn, what their
 * recalls say of the others', and the two samples by which approximate work is judged.
 *
 *   deciding   is looked at as the work goes on, and ends it when its recall is the wanted one
 *   telling    is looked at once, at the end: its recall is reported
 *
 * One sample for both would flatter: work ends at the moment at which chance has put it above the
 * mark. The telling sample knows nothing of when that was, so that its recall is what that of any
 * rows is on average, and its interval means what it says.
 *
 * A found neighbour counts when it is at most as far as the true K-th, so that a tie is no miss. */
#ifndef KIN_RECALL_RECALL_H
#define KIN_RECALL_RECALL_H

#include "base/base_mem.h"

/* Recalls of rows, each from 0 to 1. */
typedef struct kin_recall_sums {
    int64_t rows;
    double sum;
    double squares;
} kin_recall_sums;

static inline void kin_recall_add(kin_recall_sums *sums, double recall)
{
    sums->rows += 1;
    sums->sum += recall;
    sums->squares += recall * recall;
}

/* Adds a row that found keys found[0 .. at - 1], in any order; last: the true K-th key. */
void kin_recall_add_row(kin_recall_sums *sums, const double *found, int64_t at, double last);

/* recall, low, high and rows of *out. all: no row was left out, so that nothing is uncertain. */
void kin_recall_interval(const kin_recall_sums *sums, bool all, kith_recall *out);

/* Of an answer that is exact. */
static inline kith_recall kin_recall_exact(int64_t rows, int64_t at)
{
    return (kith_recall){.recall = 1.0, .low = 1.0, .high = 1.0, .rows = rows, .at = at};
}

/* ---- Rows ----------------------------------------------------------------------------------- */

/* `count` of `rows` rows, ascending, each row with the same chance: the same ones of a seed
 * everywhere. count <= rows. */
void kin_recall_draw(int64_t rows, int64_t count, uint64_t seed, uint32_t *ids);

/* The seed of the deciding sample: another one than the telling one's. */
uint64_t kin_recall_deciding_seed(uint64_t seed);

/* ---- Control -------------------------------------------------------------------------------- */

/* Rows of a graph whose lists are looked at while it is made. An engine fills kth and found. */
typedef struct kin_recall_control {
    int64_t count;
    const uint32_t *ids; /* rows, ascending, distinct */
    int64_t at;          /* K */
    double *kth; /* count: the true K-th canonical key of each, own id left out as the request says;
                    filled once, before anything is judged. NULL: not wanted */
    double *found; /* count x at: keys of the list's first K by key, ascending; +inf where there are
                      fewer. Equal rows are expanded, as at the end */
} kin_recall_control;

/* Both samples in one control. */
typedef struct kin_recall_samples {
    kin_recall_control control;
    int64_t rows;        /* that there are */
    int64_t each;        /* rows of a sample */
    bool decides;        /* there is a deciding sample; else the telling one stands for it */
    uint32_t *ids;       /* of control */
    unsigned char *part; /* which sample, or both */
    uint32_t *drawn;
    void *block;
} kin_recall_samples;

/* samples: rows, each, decides and control.at are set, the rest is zero. each 0: none are drawn.
 * Their block is the caller's to free. */
kith_status kin_recall_samples_make(kith_ctx *ctx, uint64_t seed, kin_recall_samples *samples);
/* The recall that decides, of what the control has found; -1 where no rows were drawn. */
double kin_recall_decide(const kin_recall_samples *samples);
/* The telling sample's recall and its interval. */
void kin_recall_tell(const kin_recall_samples *samples, kith_recall *out);

#endif
