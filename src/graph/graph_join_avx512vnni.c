/* SPDX-License-Identifier: Apache-2.0
 * Meetings on AVX-512 VNNI: rows of s8 signed, columns unsigned. Contract: graph_join.h. */
#if defined(__x86_64__)
#include "graph/graph_join_x86.h"
#include "graph/graph_join_x86.inc"
#endif
