/* SPDX-License-Identifier: Apache-2.0
 * In which order blocks meet: near ones first, so that thresholds are nearly final when the many
 * far ones come. Any order is right. */
#ifndef KIN_EXACT_SCHEDULE_H
#define KIN_EXACT_SCHEDULE_H

#include "exact/exact_cover.h"

typedef struct kin_schedule {
    int64_t row_blocks;
    int64_t point_blocks;
    bool graph;
    int64_t near;     /* 0, or how many others each block chooses to meet */
    int64_t most;     /* blocks that a block of rows meets, at most */
    uint32_t *order;  /* row_blocks x most; NULL: in the order of the blocks */
    uint32_t *counts; /* near: blocks that each meets; NULL where order is */
    void *block;
} kin_schedule;

/* Two sets, cut into blocks, whose balls may be known.
 *
 * graph: every unordered pair of different blocks once. Blocks stand on a circle; block I owns its
 * pairs with the half circle ahead of it. Without covers, or with very many blocks, the order is
 * that of the blocks.
 * near: 0, or, of a graph, only those pairs meet of which one has the other among its `near`
 * nearest, by their centres; without covers those that stand next to each other. */
typedef struct kin_blocks {
    const kin_cover *rows; /* or NULL */
    const kin_cover *points;
    int64_t row_points;
    int64_t point_points;
    int64_t block; /* positions of one */
    int64_t near;
    bool graph;
} kin_blocks;

/* To be freed by kin_free(ctx, schedule->block). */
kith_status kin_schedule_make(kith_ctx *ctx, const kin_blocks *blocks, kin_schedule *schedule);
/* What it holds, and leaves; covers may be shapes. */
void kin_schedule_plan(kin_layout *plan, const kin_blocks *blocks, int32_t threads);

/* How many blocks a block of rows meets, and the i-th of them. */
int64_t kin_schedule_count(const kin_schedule *schedule, int64_t row_block);
int64_t kin_schedule_block(const kin_schedule *schedule, int64_t row_block, int64_t i);

#endif
