/* SPDX-License-Identifier: Apache-2.0
 * Which cheap type a corpus is screened in. */
#ifndef KIN_EXACT_TYPE_H
#define KIN_EXACT_TYPE_H

#include "exact/exact_prepare.h"
#include "exact/exact_screen.h"

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

/* ---- A trial --------------------------------------------------------------------------------- */

/* A few rows of a corpus, screened against all of it: what is learned of a job before it is done,
 * at a few thousandths of its price. */

enum { KIN_TRIAL_ROWS = KIN_BLOCK_STEP };

typedef struct kin_trial {
    uint32_t *ids; /* of the rows */
    kin_set rows;
    kin_lists lists; /* compacted: their reaches are final */
    int64_t keys_computed;
    kin_list_scratch scratch;
    int64_t capacity;
    int32_t cols;
    void *block;
} kin_trial;

/* Rows taken with a fixed seed against the corpus' set, for k ids each. With one thread: what is
 * left depends on the order in which blocks meet, and what is learned must not (approximate graphs
 * are the same bytes with any number of threads). */
kith_status kin_trial_make(kith_ctx *ctx, const kin_prepared *prepared, int64_t k,
                           kin_trial *trial);
void kin_trial_free(kith_ctx *ctx, kin_trial *trial);
/* What a trial holds, beside the corpus' set, which may be a shape. */
void kin_trial_plan(kin_layout *plan, const kin_set *set, int64_t k, int32_t threads);
/* And what one that was made keeps. */
void kin_trial_keep_plan(kin_layout *plan, const kin_set *set, int64_t k);

#endif
