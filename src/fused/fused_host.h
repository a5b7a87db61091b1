/* SPDX-License-Identifier: Apache-2.0
 * The host's part of answers: equal rows are expanded, degenerate rows join, one id is left out,
 * lists of chunks are merged by (key, id). With what the CPU engine writes with (exact_answer.h),
 * on all threads. */
#ifndef KIN_FUSED_HOST_H
#define KIN_FUSED_HOST_H

#include "fused/fused_answer.h"

/* Finished lists of some rows, in host memory. */
typedef struct kin_fused_finished {
    const kin_pair *pairs; /* rows x k, sorted; NULL: none, degenerate rows alone */
    const int32_t *counts; /* in use; NULL: k each */
    const uint32_t *ids;   /* of the rows; KITH_ID_NONE: no row, left out */
    const uint8_t *lost;   /* 1: this row is left out; or NULL */
    int64_t rows;
    int32_t k;
} kin_fused_finished;

/* To the outputs, or to the merged lists. */
kith_status kin_fused_host_write(const kin_fused_answers *a, const kin_fused_finished *lists);
/* Merged lists and degenerate rows to the outputs; groups of a: every row of the corpus by itself.
 */
kith_status kin_fused_host_finish(kin_fused_answers *a);

#endif
