/* SPDX-License-Identifier: Apache-2.0
 * Meetings on AVX-512 without VNNI. Contract: graph_join.h. */
#if defined(__x86_64__)
#include "graph/graph_join_zmm.h"

#define TILE_MACHINE avx512
#define TILE_ISA KIN_ISA_AVX512
#include "graph/graph_join_x86.inc"
#endif
