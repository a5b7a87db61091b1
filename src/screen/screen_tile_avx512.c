/* SPDX-License-Identifier: Apache-2.0
 * Tile kernels for AVX-512 without VNNI. Contract: screen_tile.h.
 *
 * s16 takes an instruction for products and one for sums, on the two ports that fp32 fma needs one
 * of: the same rate as f32, in half the memory and without rounding.
 *
 * This file is short because a machine's flags are a file's: screen_tile_x86.inc has the kernels.
 */
#if defined(__x86_64__)
#include "screen/screen_tile_x86.inc"
#endif
