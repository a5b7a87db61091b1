/* SPDX-License-Identifier: Apache-2.0
 * What a job will hold at most, from shapes and types, and what is known of rows. */
#ifndef KIN_EXACT_PLAN_H
#define KIN_EXACT_PLAN_H

#include "exact/exact_request.h"

typedef struct kin_plan {
    bool screens;
    uint64_t prepared_bytes; /* what is made of corpus and queries */
    uint64_t state_bytes;    /* candidate lists */
    uint64_t peak_bytes;     /* most that is held at once; outputs are not counted */
} kin_plan;

/* queries NULL: a graph of the corpus. known: of the rows of the corpus; kin_prepare_unknown where
 * nothing is, for the case that takes most. */
kin_plan kin_plan_exact(const kith_matrix *corpus, const kith_matrix *queries,
                        const kin_request *request, kin_rows_known known, int32_t threads);

#endif
