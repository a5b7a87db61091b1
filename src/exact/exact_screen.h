/* SPDX-License-Identifier: Apache-2.0
 * The certified screen: every pair of two sets, or of one set with itself, through the matrix unit;
 * what survives its limits lands in candidate lists. */
#ifndef KIN_EXACT_SCREEN_H
#define KIN_EXACT_SCREEN_H

#include "exact/exact_cover.h"
#include "exact/exact_list.h"
#include "exact/exact_screen.h"

typedef struct kin_screen {
    const kin_set *rows;
    const kin_set *points;      /* == rows for a graph */
    kin_lists *row_lists;       /* candidates among points for each row */
    kin_lists *point_lists;     /* candidates among rows for each point; NULL: not wanted. For a
                                   graph the same as row_lists: each product serves both ends */
    const kin_cover *row_cover; /* bounds of blocks, to skip them; NULL: nothing is skipped */
    const kin_cover *point_cover;
    const kin_set *row_cast; /* shadows of both (exact_corpus.h), whose rows lie as lines then; or
                                NULL */
    const kin_set *point_cast;
    int64_t block;         /* positions of a block: kin_screen_block() */
    int64_t near;          /* 0: all pairs. Else, of a graph, blocks meet themselves and those
                              that kin_schedule_make leaves them; lists are by cost then */
    int64_t pairs;         /* out: pairs there were to screen */
    int64_t pairs_skipped; /* out: pairs in tiles that were skipped by their bounds */
    int64_t pairs_looked;  /* out: pairs whose shadows passed */
    int64_t keys_computed; /* out: canonical keys that full lists asked for */
} kin_screen;

/* Positions of a block, a multiple of KIN_BLOCK_STEP: two blocks of rounded rows and their lists
 * fit in the second-level cache. */
int64_t kin_screen_block(const kin_frame *frame);
/* What kin_screen_run holds; sets, lists and covers may be shapes. */
void kin_screen_plan(kin_layout *plan, kin_screen *shape, int32_t threads);

kith_status kin_screen_run(kith_ctx *ctx, kin_screen *screen);

/* ---- In which order blocks meet (exact_schedule.c) ------------------------------------------- */

/* In which order blocks meet: near ones first, so that thresholds are nearly final when the many
 * far ones come. Any order is right. */

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
