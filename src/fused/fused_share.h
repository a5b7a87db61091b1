/* SPDX-License-Identifier: Apache-2.0
 * One GPU's share of a screen that a team does (gpu/gpu_team.h): what it has for the rows of the
 * others, and what it gets for its own.
 *
 *   rows    each part owns a range of positions, firsts[part] .. firsts[part + 1] - 1
 *   pairs   each part screens those that kin_fused_plan deals to it, whoever owns their rows
 *
 * After a stage every list is where its owner is, complete, as if one GPU had screened everything;
 * so it is tightened there, and its reach is what one GPU would have found. */
#ifndef KIN_FUSED_SHARE_H
#define KIN_FUSED_SHARE_H

#include "fused/fused_lists.h"
#include "gpu/gpu_team.h"

typedef struct kin_fused_share {
    int32_t part;
    int32_t parts; /* 0: there is no team */
    int64_t firsts[KIN_FUSED_MOST_PARTS + 1];
    uint64_t room;   /* words that go to a part at a time */
    uint64_t *words; /* device: parts x room */
    uint32_t *rows;
    uint64_t *got_words; /* device: room */
    uint32_t *got_rows;
    uint64_t *counts; /* device: 2 a part */
} kin_fused_share;

/* Nothing where the GPU is not in lockstep with others. scope: what all have agreed on, since what
 * one packs the others must have room for. */
kith_status kin_fused_share_make(const kin_fused_device *on, const kin_fused_set *set,
                                 int32_t capacity, uint64_t scope, kin_fused_share *share);
void kin_fused_share_free(const kin_fused_device *on, kin_fused_share *share);

/* Device memory that it takes, of so much room. */
uint64_t kin_fused_share_bytes(int64_t points, int32_t parts, int32_t capacity, uint64_t room);

static inline int64_t kin_fused_share_first(const kin_fused_share *share)
{
    return share->firsts[share->part];
}

static inline int64_t kin_fused_share_count(const kin_fused_share *share)
{
    return share->firsts[share->part + 1] - share->firsts[share->part];
}

/* The lists of a range of positions, first a multiple of KIN_FUSED_BLOCK. */
kin_fused_lists kin_fused_lists_part(const kin_fused_lists *lists, int64_t first, int64_t rows);

/* Lists of all rows -> to their owners, empty elsewhere. whole: an overflowed list counts, but
 * nothing of it is wanted. */
kith_status kin_fused_share_lists(const kin_fused_device *on, kin_fused_share *share,
                                  const kin_fused_lists *lists, int64_t points, bool whole);
/* Reach of all rows, from their owners. */
kith_status kin_fused_share_reach(const kin_fused_device *on, const kin_fused_share *share,
                                  const kin_fused_lists *lists);
/* Which rows lost candidates, from their owners. */
kith_status kin_fused_share_lost(const kin_fused_device *on, const kin_fused_share *share,
                                 const kin_fused_lists *lists);

#endif
