/* SPDX-License-Identifier: Apache-2.0
 * The tile kernels there are, one line each; exact_tile_table.c chooses among them. */
#ifndef KIN_EXACT_TILE_MACHINES_H
#define KIN_EXACT_TILE_MACHINES_H

#include "exact/exact_tile.h"

extern const kin_tile_kernel kin_tile_s8_portable;
extern const kin_tile_kernel kin_tile_s16_portable;
extern const kin_tile_kernel kin_tile_f32_portable;
#if defined(__x86_64__)
extern const kin_tile_kernel kin_tile_s16_avx2;
extern const kin_tile_kernel kin_tile_f32_avx2;
extern const kin_tile_kernel kin_tile_s8_avx2vnni;
extern const kin_tile_kernel kin_tile_s16_avx2vnni;
extern const kin_tile_kernel kin_tile_s16_avx512;
extern const kin_tile_kernel kin_tile_f32_avx512;
extern const kin_tile_kernel kin_tile_s8_avx512vnni;
extern const kin_tile_kernel kin_tile_s16_avx512vnni;
extern const kin_tile_kernel kin_tile_s8_amx;
extern const kin_tile_kernel kin_tile_bf16_amx;
#elif defined(__aarch64__)
extern const kin_tile_kernel kin_tile_s16_neon;
extern const kin_tile_kernel kin_tile_f32_neon;
extern const kin_tile_kernel kin_tile_s8_dotprod;
extern const kin_tile_kernel kin_tile_s8_i8mm;
#endif

#endif
