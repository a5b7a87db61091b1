/* SPDX-License-Identifier: Apache-2.0
 * Meetings on ARM's dot products of bytes of one sign: 128 is taken away from columns, and what
 * then lacks, 128 times a row's sum, is what its sums begin with. Rows of s8 signed, columns
 * unsigned. Contract: graph_join.h. */
#if defined(__aarch64__)
#include "graph/graph_join_neon.h"

#define TILE_NAME s8
#define VEC_BEGIN begin_s8
#include "graph/graph_join_body.inc"
#endif
