/* SPDX-License-Identifier: Apache-2.0
 * Meetings on AVX2. Contract: graph_join.h. */
#if defined(__x86_64__)
#include "graph/graph_join_ymm.h"

#define TILE_MACHINE avx2
#define TILE_ISA KIN_ISA_AVX2
#include "graph/graph_join_x86.inc"
#endif
