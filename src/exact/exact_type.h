/* SPDX-License-Identifier: Apache-2.0
 * Which cheap type a corpus is screened in. */
#ifndef KIN_EXACT_TYPE_H
#define KIN_EXACT_TYPE_H

#include "exact/exact_prepare.h"

enum { KIN_TYPE_LADDER = 4 };

/* The types of a machine from cheap to fine, for an expanded row of `cols` components; returns how
 * many. Types that are finer and not dearer than another stand alone. */
int kin_type_ladder(kin_isa isa, int32_t cols, const kin_tile_kernel *ladder[KIN_TYPE_LADDER]);

/* The type of integer costs. */
const kin_tile_kernel *kin_type_integer(kin_isa isa);

/* Whether so few points, or so many ids wanted of them, take the first type without a try. */
bool kin_type_settled(int64_t points, int64_t k);

/* What a try says of a type: it leaves few candidates, and (almost) no list overflows; or more; or
 * so many that canonical keys of all pairs are had sooner without it. */
typedef enum kin_type_verdict {
    KIN_TYPE_FINE = 0,
    KIN_TYPE_COARSE,
    KIN_TYPE_VAIN
} kin_type_verdict;

/* Screens a sample of the corpus' rows against its set, for k ids each. */
kith_status kin_type_try(kith_ctx *ctx, const kin_prepared *prepared, int64_t k,
                         kin_type_verdict *verdict);

#endif
