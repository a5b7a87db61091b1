/* SPDX-License-Identifier: Apache-2.0
 * Which cheap type a corpus is screened in, and the corpus in it. */
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

/* An order in which near ones stand together, the frame of a corpus and its rounded copy. integer:
 * see kin_frame_is_integer. k: ids a row that will be asked for, by which the cheap type is chosen.
 */
kith_status kin_prepare_set(kith_ctx *ctx, bool integer, int64_t k, kin_prepared *prepared);
/* And the cover, for those who skip what is far. */
kith_status kin_prepare_corpus(kith_ctx *ctx, bool integer, int64_t k, kin_prepared *prepared);
/* *use: the corpus, or where it is of bytes that wait for bytes and is asked with something else,
 * *again, which is made then; it is all zero before and the caller's to free. */
kith_status kin_prepare_corpus_for(kith_ctx *ctx, const kin_prepared *corpus,
                                   const kith_matrix *queries, int64_t k, kin_prepared *again,
                                   const kin_prepared **use);

/* Screens a sample of the corpus' rows against its set, for k ids each: whether the type of the set
 * is fine enough, that is, few candidates are left and (almost) no list overflows. */
kith_status kin_type_try(kith_ctx *ctx, const kin_prepared *prepared, int64_t k, bool *fine);
/* What a try of a type holds, beside the corpus' set, which may be a shape. */
void kin_type_try_plan(kin_layout *plan, const kin_set *set, int64_t k, int32_t threads);

#endif
