/* SPDX-License-Identifier: Apache-2.0
 * Lists of a graph without the points that leave it. */
#ifndef KIN_EXACT_REMOVE_H
#define KIN_EXACT_REMOVE_H

#include "base/base_ctx.h"

/* New ids of rows and rows of new ids: those whose byte is 0 move up. map: a number for each row,
 * KITH_ID_NONE of those that leave; rows: room for as many. Returns how many are left. */
int64_t kin_remove_map(const uint8_t *removed, int64_t count, uint32_t *map, uint32_t *rows);

typedef struct kin_remove_job {
    const kith_neighbors *graph;
    uint32_t *map;  /* of kin_remove_map */
    uint32_t *rows; /* of kin_remove_map */
    int64_t left;
    int64_t wanted;    /* different ids of a list */
    bool self;         /* a row's own id is one of them */
    uint32_t *ids;     /* left x graph->k, written: lists in new ids, KITH_ID_NONE where one left */
    uint32_t *lacking; /* room for `left`, written: new ids of lists with fewer, ascending */
    int64_t lacking_count;
} kin_remove_job;

kith_status kin_remove_lists(kith_ctx *ctx, kin_remove_job *job);

#endif
