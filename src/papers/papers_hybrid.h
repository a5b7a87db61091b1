/* SPDX-License-Identifier: Apache-2.0
 * The pipeline hybrid: its sizes, and what they take, the same sums for its drivers and for plans;
 * and the processor's part of it. */
#ifndef KIN_PAPERS_HYBRID_H
#define KIN_PAPERS_HYBRID_H

#include "exact/exact_search.h"
#include "screen/screen_lists_gpu.h"
#include "select/select.h"

#include <stdbool.h>
#include <stdint.h>

enum { KIN_PAPERS_ROW_BYTES = 4 * sizeof(uint64_t) /* counts, places, flags, ids of a row */ };

typedef struct kin_papers_hybrid_size {
    int64_t sample;   /* columns of a row's sample; 0: all */
    int32_t leaves;   /* columns that its k-th leaves, with room for chance: places of a list */
    uint64_t a_block; /* device memory for a block of a batch beside its costs, if screened */
} kin_papers_hybrid_size;

/* times: kin_request.sample. */
kin_papers_hybrid_size kin_papers_hybrid_size_of(int64_t columns, int64_t k, int32_t times);

/* ---- The processor's part (papers_division.c) ----------------------------------------------- */

/* The k first of what a GPU left of each row, by min-max heaps (papers_threshold_heap.c), on all
 * threads. */

typedef struct kin_papers_heaps {
    kith_ctx *ctx;
    const kin_select_body *body;
    kin_select_job job; /* of one row */
    int64_t room;
    void *block;
    struct kin_papers_heap *threads;
} kin_papers_heaps;

/* Rows have at most `room` hits. The caller frees the block. */
kith_status kin_papers_heaps_make(kith_ctx *ctx, int64_t k, int64_t room, kin_papers_heaps *heaps);
/* Of a thread. */
uint64_t kin_papers_heaps_bytes(int64_t k, int64_t room);

/* Row i has the hits places[i] .. places[i + 1] - 1, in any order; its first k (or all, if they are
 * fewer: counts) go to pairs + i * k, sorted. Adds its seconds to the report's selection. */
kith_status kin_papers_heaps_run(const kin_papers_heaps *heaps, const kin_screen_gpu_hit *hits,
                                 const int64_t *places, int64_t rows, kin_pair *pairs,
                                 int32_t *counts);

/* ---- A division of the work (papers_division.c) ---------------------------------------------- */

/* Selection divided between processor and GPU: how many rows of a batch each one takes, by rates
 * that the batches before it showed. Plain arithmetic, no clock.
 *
 * INVARIANT. A row's answer is the first k of its candidates in the order (canonical key, id),
 * which is total. Both sides have the same candidates and the same keys, so a division cannot show
 * in an answer: rates decide how long a job takes, never what comes out. */

/* A batch of rows, of which the processor selected `cpu_rows` and the GPU the rest. Seconds. */
typedef struct kin_papers_timed {
    int64_t rows;
    int64_t cpu_rows;
    double handing;    /* the processor's rows come to it; both sides wait for that */
    double cpu_select; /* of its rows */
    double cpu_rest;   /* what it does for all rows, whoever selects */
    double gpu_select; /* while the processor is at its own */
    double gpu_rest;
} kin_papers_timed;

/* Seconds a row; 0: not known yet. */
typedef struct kin_papers_rates {
    double handing;
    double cpu_select;
    double cpu_rest;
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

/* ---- Costs of a batch ------------------------------------------------------------------------ */

/* Costs of a batch of rows to a chunk of columns, written by the screen as a matrix in device
 * memory: what the pipelines matrix and hybrid select from. */

typedef struct kin_papers_costs {
    kin_screen_gpu_device on;
    kin_screen_gpu_set cols;
    const kin_screen_gpu_worst *col_worst;
    int64_t blocks;   /* of rows in a batch */
    int64_t chunk;    /* tiles of columns in a chunk */
    int64_t pitch;    /* words of a row of the matrix */
    uint32_t *matrix; /* order(cost): blocks x 256 x pitch */
    kin_hold hold;
    uint32_t *tiles; /* all tiles of the columns, in an order that spreads over them, so that a
                        chunk of them is a fair sample */
    kin_screen_gpu_unit *units;
    uint32_t *numbers;   /* of units; the next one */
    int64_t unit_blocks; /* what units stand there for */
    int64_t unit_tiles;
} kin_papers_costs;

/* on, cols and col_worst are set, the rest zero. row_blocks: of all rows; whole: the matrix may
 * grow beyond its usual size until they are one batch. a_block: device memory that the caller will
 * want for each block of a batch beside it. Smaller where memory is. */
kith_status kin_papers_costs_make(kin_papers_costs *c, int64_t row_blocks, bool whole,
                                  uint64_t a_block);
void kin_papers_costs_free(kin_papers_costs *c);

/* The same as sizes, with that much scope (gpu.h): blocks of a batch, and device memory in all,
 * a_block of each of them included. */
typedef struct kin_papers_costs_size {
    int64_t blocks;
    int64_t columns; /* of a chunk */
    uint64_t bytes;
} kin_papers_costs_size;
kin_papers_costs_size kin_papers_costs_size_of(int64_t columns, int64_t row_blocks, bool whole,
                                               uint64_t a_block, uint64_t scope);

/* Costs of rows (at most a batch of them) to the columns of c->tiles [first, first + tiles): place
 * p of a row belongs to tile number first + p / 128 of them. Does not wait. */
kith_status kin_papers_costs_run(kin_papers_costs *c, const kin_screen_gpu_set *rows, int64_t first,
                                 int64_t tiles);

/* Pushes the columns of the matrix that may be within the reach of the rows' lists; both begin with
 * the first row of the batch. Does not wait. */
kith_status kin_papers_costs_gather(const kin_papers_costs *c, const kin_screen_gpu_set *rows,
                                    const kin_screen_gpu_lists *lists, int64_t first,
                                    int64_t tiles);

#endif
