/* SPDX-License-Identifier: Apache-2.0
 * The certified screen: every pair of two sets, or of one set with itself, through the matrix unit;
 * what survives its limits lands in candidate lists. */
#ifndef KIN_EXACT_SCREEN_H
#define KIN_EXACT_SCREEN_H

#include "exact/exact_cover.h"
#include "exact/exact_list.h"
#include "exact/exact_schedule.h"

typedef struct kin_screen {
    const kin_set *rows;
    const kin_set *points;      /* == rows for a graph */
    kin_lists *row_lists;       /* candidates among points for each row */
    kin_lists *point_lists;     /* candidates among rows for each point; NULL: not wanted. For a
                                   graph the same as row_lists: each product serves both ends */
    const kin_cover *row_cover; /* bounds of blocks, to skip them; NULL: nothing is skipped */
    const kin_cover *point_cover;
    const kin_set *row_cast; /* shadows of both (exact_shadow.h), whose rows lie as lines then; or
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

#endif
