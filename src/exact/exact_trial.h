/* SPDX-License-Identifier: Apache-2.0
 * A few rows of a corpus, screened against all of it: what is learned of a job before it is done,
 * at a few thousandths of its price. */
#ifndef KIN_EXACT_TRIAL_H
#define KIN_EXACT_TRIAL_H

#include "exact/exact_prepare.h"
#include "exact/exact_screen.h"

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
