/* SPDX-License-Identifier: Apache-2.0
 * Rounding rows: avx512. Contract: exact_tile.h.
 * This file is short because a machine's flags are a file's: exact_round_body.inc has the text. */
#if defined(__x86_64__)
#define ROUND_OPS kin_round_ops_avx512
#include "exact/exact_round_body.inc"
#endif
