/* SPDX-License-Identifier: Apache-2.0
 * Which method AUTO stands for: the first row of the table of that side whose class holds the job.
 * Rows of a class go by rising width of values, length of rows, k; the last of each is unbounded.
 */
#include "select/select.h"
#include "select/select_word.h"

typedef struct rule {
    kin_select_side side;
    int32_t bits; /* of a value */
    int64_t most_cols;
    int64_t most_k;
    kith_select_method method;
} rule;

#define ANY INT64_MAX
#define RULE(side, bits, most_cols, most_k, method) \
    {KIN_SELECT_ON_##side, bits, most_cols, most_k, KITH_SELECT_##method},

static const rule rules[] = {
#include "select/select_tune.inc"
};

kith_select_method kin_select_choose(kin_select_side side, const kin_select_job *job)
{
    if (job->method != KITH_SELECT_AUTO) {
        return job->method;
    }
    const int32_t bits = job->dtype == KIN_SELECT_U32 ? 32 : 8 * kith_dtype_bytes(job->dtype);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const rule *r = &rules[i];
        if (r->side == side && r->bits == bits && job->cols <= r->most_cols &&
            job->k <= r->most_k) {
            return r->method;
        }
    }
    return KITH_SELECT_SCAN;
}
