/* SPDX-License-Identifier: Apache-2.0
 * Costs of a batch of rows to a chunk of columns, written by the screen as a matrix in device
 * memory: what the pipelines matrix and hybrid select from. */
#ifndef KIN_PAPERS_COSTS_H
#define KIN_PAPERS_COSTS_H

#include "fused/fused_lists.h"

typedef struct kin_papers_costs {
    kin_fused_device on;
    kin_fused_set cols;
    const kin_fused_worst *col_worst;
    int64_t blocks;   /* of rows in a batch */
    int64_t chunk;    /* tiles of columns in a chunk */
    int64_t pitch;    /* words of a row of the matrix */
    uint32_t *matrix; /* order(cost): blocks x 256 x pitch */
    kin_hold hold;
    uint32_t *tiles; /* all tiles of the columns, in an order that spreads over them, so that a
                        chunk of them is a fair sample */
    kin_fused_unit *units;
    uint32_t *numbers;   /* of units; the next one */
    int64_t unit_blocks; /* what units stand there for */
    int64_t unit_tiles;
} kin_papers_costs;

/* on, cols and col_worst are set, the rest zero. row_blocks: of all rows. a_block: device memory
 * that the caller will want for each block of a batch beside the matrix. Smaller where memory is.
 */
kith_status kin_papers_costs_make(kin_papers_costs *c, int64_t row_blocks, uint64_t a_block);
void kin_papers_costs_free(kin_papers_costs *c);

/* The same as sizes, with that much scope (gpu.h): blocks of a batch, and device memory in all,
 * a_block of each of them included. */
typedef struct kin_papers_costs_size {
    int64_t blocks;
    int64_t columns; /* of a chunk */
    uint64_t bytes;
} kin_papers_costs_size;
kin_papers_costs_size kin_papers_costs_size_of(int64_t columns, int64_t row_blocks,
                                               uint64_t a_block, uint64_t scope);

/* Costs of rows (at most a batch of them) to the columns of c->tiles [first, first + tiles): place
 * p of a row belongs to tile number first + p / 128 of them. Does not wait. */
kith_status kin_papers_costs_run(kin_papers_costs *c, const kin_fused_set *rows, int64_t first,
                                 int64_t tiles);

/* Pushes the columns of the matrix that may be within the reach of the rows' lists; both begin with
 * the first row of the batch. Does not wait. */
kith_status kin_papers_costs_gather(const kin_papers_costs *c, const kin_fused_set *rows,
                                    const kin_fused_lists *lists, int64_t first, int64_t tiles);

#endif
