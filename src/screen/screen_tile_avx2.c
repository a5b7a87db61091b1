/* SPDX-License-Identifier: Apache-2.0
 * Tile kernels for AVX2: 6 rows x 16 points in 12 of the 16 registers. Contract: screen_tile.h.
 *
 * s16 multiplies with vpmaddwd (16 products an instruction) and adds apart: twice the rate of fp32.
 * Not used: vpmaddubsw for s8, which saturates at 2 * 255 * 127.
 *
 * This file is short because a machine's flags are a file's: screen_tile_x86.inc has the kernels.
 */
#if defined(__x86_64__)
#include "screen/screen_tile_x86.inc"
#endif
