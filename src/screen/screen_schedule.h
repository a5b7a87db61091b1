/* SPDX-License-Identifier: Apache-2.0
 * In which order blocks and tiles meet, as plain arithmetic that drivers, kernels and tests share.
 *
 * Graph. Blocks of rows stand on a circle. The seed of a block is itself and `reach` neighbours on
 * both sides; after it, block I meets the block `offset` ahead for rising offsets, both ends
 * collecting, so that every unordered pair of blocks is screened once. Offsets end at half the
 * circle; with an even number of blocks the farthest one would meet every pair twice, and only the
 * first half of the blocks takes it.
 *
 *      blocks   0 1 2 3 4 5 6 7      seed reach 1, block 2:   1 2 3
 *                                    offsets 2, 3:            4 5
 *                                    offset 4 (half):         6, and block 6 leaves it out
 *
 * Search. Tiles of the corpus are visited in the sequence i -> i * step mod tiles, step being
 * coprime to their number: each tile once, and every stretch of the sequence is spread over the
 * whole corpus, whose neighbouring tiles hold near rows. Where pairs serve both ends, each group of
 * blocks is at another place i, or all rows would meet the same few columns. Many queries stand in
 * the order of the corpus' cells; a seed of a block is then made of tiles near to the cells of its
 * rows.
 */
#ifndef KIN_SCREEN_SCHEDULE_H
#define KIN_SCREEN_SCHEDULE_H

#include "metric/metric_arith.h"

#include <stdint.h>

/* ---- A sequence ----------------------------------------------------------------------------- */

/* Of 0 .. count - 1, i -> i * step mod count, in which each comes once and any piece is spread over
 * all: near things have near numbers, and a piece is then a sample. */

KIN_HD int64_t kin_common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* For count >= 1. Near the golden section, whose multiples spread best. */
KIN_HD int64_t kin_sequence_step(int64_t count)
{
    const int64_t golden = (int64_t)((double)count * 0.6180339887498949);
    for (int64_t away = 0;; away++) {
        if (kin_common_divisor(golden + away, count) == 1) {
            return golden + away;
        }
        if (away < golden && kin_common_divisor(golden - away, count) == 1) {
            return golden - away;
        }
    }
}

/* ---- Graph ---------------------------------------------------------------------------------- */

/* Blocks in a seed. */
KIN_HD int64_t kin_screen_gpu_seed_blocks(int64_t blocks, int64_t reach)
{
    return 2 * reach + 1 < blocks ? 2 * reach + 1 : blocks;
}

/* The i-th block of the seed of `block`, i < blocks: no division, of which a table needs one an
 * entry. */
KIN_HD int64_t kin_screen_gpu_seed_block(int64_t blocks, int64_t reach, int64_t block, int64_t i)
{
    const int64_t first = 2 * reach + 1 < blocks ? block - reach : block;
    const int64_t at = first + i;
    return at < 0 ? at + blocks : at < blocks ? at : at - blocks;
}

/* The offset behind the last that any block takes. */
KIN_HD int64_t kin_screen_gpu_offsets_end(int64_t blocks)
{
    return blocks / 2 + 1;
}

/* Whether `block` meets the block `offset` >= 1 ahead. */
KIN_HD int kin_screen_gpu_takes(int64_t blocks, int64_t block, int64_t offset)
{
    return 2 * offset < blocks || (2 * offset == blocks && block < offset);
}

/* ---- Search --------------------------------------------------------------------------------- */

/* The i-th tile of the sequence, 0 <= i < tiles < 2^31. */
KIN_HD int64_t kin_screen_gpu_sequence_tile(int64_t tiles, int64_t step, int64_t i)
{
    return i * step % tiles;
}

/* How far ahead in the sequence of tiles a group of blocks is where each has its own place, so that
 * a tile meets about as many groups in any two stretches of the same length. */
KIN_HD int64_t kin_screen_gpu_sequence_ahead(int64_t tiles, int64_t groups, int64_t group)
{
    return tiles * group / groups;
}

/* The i-th of `count` <= tiles different tiles that are near the stretch [first, end) of the
 * corpus: those around its middle, or, where it is longer, some of all its parts. */
KIN_HD int64_t kin_screen_gpu_near_tile(int64_t tiles, int64_t first, int64_t end, int64_t count,
                                        int64_t i)
{
    const int64_t length = end - first;
    if (length > count) {
        return first + length * i / count;
    }
    const int64_t wished = first + (length - count) / 2;
    const int64_t most = tiles - count;
    const int64_t begin = wished < 0 ? 0 : wished;
    return (begin < most ? begin : most) + i;
}

/* ---- Units ---------------------------------------------------------------------------------- */

/* Blocks of rows that are planned together; those of several GPUs' shares are dealt by so many. */
enum { KIN_SCREEN_GPU_PLAN_GROUP = 16 };

/* Of the range of a plan a thread block takes a piece, a multiple of so many tiles, and makes units
 * of it; pieces are at most so many. */
enum { KIN_SCREEN_GPU_PLAN_TILES = 64, KIN_SCREEN_GPU_PLAN_PIECES = 64 };

/* Pieces: enough thread blocks for a device (four for each processor of an H200), few enough for
 * whole units. length: tiles of a group's range. */
KIN_HD int64_t kin_screen_gpu_plan_pieces(int64_t groups, int64_t length)
{
    const int64_t enough = 528;
    const int64_t wished = (enough + groups - 1) / groups;
    const int64_t most = (length + KIN_SCREEN_GPU_PLAN_TILES - 1) / KIN_SCREEN_GPU_PLAN_TILES;
    const int64_t pieces = wished < most ? wished : most;
    return pieces < 1                            ? 1
           : pieces < KIN_SCREEN_GPU_PLAN_PIECES ? pieces
                                                 : KIN_SCREEN_GPU_PLAN_PIECES;
}

/* Blocks of which one of `parts` plans has the tiles, at most. */
KIN_HD int64_t kin_screen_gpu_plan_share(int64_t blocks, int32_t parts)
{
    const int64_t groups = (blocks + KIN_SCREEN_GPU_PLAN_GROUP - 1) / KIN_SCREEN_GPU_PLAN_GROUP;
    return parts <= 1 ? blocks : (groups + parts - 1) / parts * KIN_SCREEN_GPU_PLAN_GROUP;
}

/* Units that a plan makes at most. A share of one group fewer may have a piece more for each; a
 * graph's range is wider than a block's tiles, and may be two. */
KIN_HD int64_t kin_screen_gpu_plan_units(int64_t blocks, int64_t tiles_a_block, int64_t unit_tiles)
{
    const int64_t groups = (blocks + KIN_SCREEN_GPU_PLAN_GROUP - 1) / KIN_SCREEN_GPU_PLAN_GROUP;
    const int64_t length = tiles_a_block + 2 * KIN_SCREEN_GPU_PLAN_GROUP;
    const int64_t pieces = groups > 0 ? 2 * (kin_screen_gpu_plan_pieces(groups, length) + 1) : 0;
    return blocks * ((tiles_a_block + unit_tiles - 1) / unit_tiles + pieces);
}

#endif
