/* SPDX-License-Identifier: Apache-2.0
 * Selection divided between processor and GPU: how many rows of a batch each one takes, by rates
 * that the batches before it showed. Plain arithmetic, no clock.
 *
 * INVARIANT. A row's answer is the first k of its candidates in the order (canonical key, id),
 * which is total. Both sides have the same candidates and the same keys, so a division cannot show
 * in an answer: rates decide how long a job takes, never what comes out. */
#ifndef KIN_PAPERS_DIVISION_H
#define KIN_PAPERS_DIVISION_H

#include <stdbool.h>
#include <stdint.h>

/* A batch of rows, of which the processor selected `cpu_rows` and the GPU the rest. Seconds. */
typedef struct kin_papers_timed {
    int64_t rows;
    int64_t cpu_rows;
    double handing;    /* the processor's rows come to it; both sides wait for that */
    double cpu_select; /* of its rows */
    double cpu_rest;   /* what it does for all rows, whoever selects */
    double picking;    /* the GPU selects from its rows while both sides wait, */
    double gpu_select; /* or while the processor is at its own */
    double gpu_rest;
} kin_papers_timed;

/* Seconds a row; 0: not known yet. */
typedef struct kin_papers_rates {
    double handing;
    double cpu_select;
    double cpu_rest;
    double picking;
    double gpu_select;
    double gpu_rest;
} kin_papers_rates;

typedef struct kin_papers_division {
    kin_papers_rates rates;
    const double *fixed; /* the share that is always taken, for comparison; NULL: by rates */
    double share;        /* of the processor, in the batch that was divided last */
    int64_t batches;     /* divided so far */
    bool knows_cpu;
    bool knows_gpu;
} kin_papers_division;

/* The share of rows for the processor with which a batch takes the least time, from 0 to 1. */
double kin_papers_division_best(const kin_papers_rates *rates);

/* How many of the next batch's rows are the processor's. The first batch has nearly all there, and
 * some rows on the GPU to be timed; a share moves by a bounded step from batch to batch, and every
 * so many batches each side has some rows, so that no rate is forgotten. */
int64_t kin_papers_division_rows(kin_papers_division *division, int64_t rows);

/* What a batch showed. Half of the new rate is what was measured, half what it was. */
void kin_papers_division_learn(kin_papers_division *division, const kin_papers_timed *timed);

#endif
