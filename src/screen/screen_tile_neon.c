/* SPDX-License-Identifier: Apache-2.0
 * Tile kernels for NEON, which every 64-bit ARM has. Contract: screen_tile.h.
 *
 * f32 multiplies and adds 4 numbers an instruction, in 6 rows x 16 points; s16 as many, without
 * rounding and in half the memory, in 3 rows x 16 points. bf16 has no kernel: bfdot adds up in an
 * order and with roundings of its own, for which screen_bound.h has no bound. Not measured: nobody
 * has run this on a chip. */
#if defined(__aarch64__)
#include "screen/screen_tile_neon.h"
#include "screen/screen_tile_hit.h"

#define TILE_NAME s16
#define VEC_POINT load_points_s16
#include "screen/screen_tile_body.inc"
#define TILE_NAME f32
#include "screen/screen_tile_body.inc"

#endif
