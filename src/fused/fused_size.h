/* SPDX-License-Identifier: Apache-2.0
 * Sizes of a work's parts, within the room that a device has. */
#ifndef KIN_FUSED_SIZE_H
#define KIN_FUSED_SIZE_H

#include "base/base_size.h"
#include "fused/fused_set.h"

#include <stdbool.h>

enum { KIN_FUSED_ORDERED_ROWS = 1024 }; /* fewer rows of a search are not worth an order */

/* Entries of a list that keep rows from losing candidates. */
int32_t kin_fused_capacity(int64_t k);
/* Of a search: more where rows are few and there is room. */
int32_t kin_fused_search_capacity(int64_t rows, int64_t cols, int64_t k, uint64_t room);
/* Whether a search of so many rows gains by an order of its rows and homes of their blocks. */
bool kin_fused_wants_homes(int64_t rows, int64_t cols, int64_t k);
/* Device memory that a work takes at most, where so much room is left. */
uint64_t kin_fused_work_bytes(int64_t rows, int64_t cols, int64_t k, uint64_t room);
/* The same of a graph that is cut short. */
uint64_t kin_fused_cut_short_bytes(int64_t rows, int64_t k, int32_t capacity, uint64_t room);
/* The same of one without seeds, which is a search. */
uint64_t kin_fused_seedless_bytes(int64_t rows, int64_t cols, int64_t k, uint64_t room);

enum { KIN_FUSED_SEED_UNIT_TILES = 8 }; /* most tiles of a unit of a seed */

/* Whether a graph that is cut short has so many tiles that near ones are looked for in near groups
 * alone, and then the most tiles that a block meets in a stage. */
enum { KIN_FUSED_WIDE_TILES = 256 };
bool kin_fused_is_wide(int64_t points);

/* Where the tiles of seeds come from: the rows' own surroundings, a spread sample, or near to a
 * block's home in the corpus. */
typedef enum kin_fused_seeding {
    KIN_FUSED_SEED_GRAPH,
    KIN_FUSED_SEED_CUT_SHORT, /* a graph's, whose stages meet few tiles and so are long */
    KIN_FUSED_SEED_SPREAD,
    KIN_FUSED_SEED_NEAR
} kin_fused_seeding;

typedef struct kin_fused_sizes {
    int64_t seed_blocks;
    int64_t seed_tiles;
    int64_t batch_blocks;
    int64_t stretch;
    int64_t tile_count; /* uint32 of the table of tiles */
    int64_t unit_count;
    uint32_t unit_tiles;
} kin_fused_sizes;

kin_fused_sizes kin_fused_sizes_of(int64_t rows, int64_t cols, int64_t k, kin_fused_seeding how,
                                   uint64_t room);
/* Of a graph that `parts` GPUs share: in the same tables stages find room that are as many times as
 * long. */
void kin_fused_sizes_share(kin_fused_sizes *sizes, int64_t rows, int32_t parts);

static inline int64_t kin_fused_tiles_of(int64_t points)
{
    return kin_ceil_div(points, KIN_FUSED_TILE);
}

static inline int64_t kin_fused_blocks_of(int64_t points)
{
    return kin_ceil_div(points, KIN_FUSED_BLOCK);
}

#endif
