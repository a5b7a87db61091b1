/* SPDX-License-Identifier: Apache-2.0
 * Rows that lost candidates, screened again. */
#ifndef KIN_FUSED_RERUN_H
#define KIN_FUSED_RERUN_H

#include "fused/fused_answer.h"

/* lost: by position of work's rows, `count` of them 1. Their answers go to a; in the end by
 * canonical keys of all pairs, so this always ends. */
kith_status kin_fused_rerun_lost(kin_fused_answers *a, const kin_fused_work *work,
                                 const kin_fused_rows *rows, const kin_fused_rows *cols,
                                 const uint8_t *lost, int64_t count);

#endif
