/* SPDX-License-Identifier: Apache-2.0
 * Rounding rows: avx512. Contract: screen_tile.h.
 * This file is short because a machine's flags are a file's: screen_round_body.inc has the text. */
#if defined(__x86_64__)
#define ROUND_OPS kin_round_ops_avx512
#include "screen/screen_round_body.inc"
#endif
