/* SPDX-License-Identifier: Apache-2.0
 * Meetings on AVX-512 VNNI: rows of s8 signed, columns unsigned. Contract: graph_join.h. */
#if defined(__x86_64__)
#include "graph/graph_join_x86.h"

#define TILE_BYTES
#define TILE_MACHINE avx512vnni
#define TILE_ISA KIN_ISA_AVX512VNNI
#include "graph/graph_join_x86.inc"
#endif
