/* SPDX-License-Identifier: Apache-2.0
 * Meetings on ARM's dot products of signed and unsigned bytes.
 * Rows of s8 signed, columns unsigned. Contract: graph_join.h. */
#if defined(__aarch64__)
#include "graph/graph_join_neon.h"

#define TILE_NAME s8
#include "graph/graph_join_body.inc"
#endif
