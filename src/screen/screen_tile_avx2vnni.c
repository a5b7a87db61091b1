/* SPDX-License-Identifier: Apache-2.0
 * Tile kernels for AVX-VNNI: as screen_tile_avx2.c, with products and sums in one instruction.
 * Contract: screen_tile.h. Not used: vpdpbusds, vpdpwssds, which saturate; the
 * intrinsics, with which gcc 12 copies and spills the accumulators in every step.
 *
 * This file is short because a machine's flags are a file's: screen_tile_x86.inc has the kernels.
 */
#if defined(__x86_64__)
#include "screen/screen_tile_x86.inc"
#endif
