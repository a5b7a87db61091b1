/* SPDX-License-Identifier: Apache-2.0
 * Rounding rows, and shadows at a glance: avx2. Contracts: screen_tile.h, screen_corpus.h.
 * This file is short because a machine's flags are a file's: the two bodies have the text. */
#if defined(__x86_64__)
#define ROUND_OPS kin_round_ops_avx2
#include "screen/screen_round_body.inc"

#define GLANCE_OPS kin_glance_ops_avx2
#include "screen/screen_glance_body.inc"
#endif
