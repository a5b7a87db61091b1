/* SPDX-License-Identifier: Apache-2.0
 * Our methods of selection, and which of them is taken where none is named: the first row of the
 * table of that chip whose class holds the job. Rows of a class go by rising width of values,
 * length of rows, k; the last of each is unbounded. */
#include "select/select.h"

#define ROW(NAME, number, name) [number] = {number, #name, 0, kin_select_##name},
static const kin_select_method methods[] = {KITH_SELECT_MAP(ROW)};
#undef ROW
enum { METHODS = sizeof methods / sizeof methods[0] };

const kin_select_method *kin_select_method_of(kith_select_method number)
{
    return number >= 0 && number < METHODS && methods[number].name != NULL ? &methods[number]
                                                                           : NULL;
}

typedef struct rule {
    int32_t chip;
    int32_t bits; /* of a value */
    int64_t most_cols;
    int64_t most_k;
    kith_select_method method;
} rule;

#define ANY INT64_MAX
#define RULE(chip, bits, most_cols, most_k, method) \
    {chip, bits, most_cols, most_k, KITH_SELECT_##method},

static const rule rules[] = {
#include "select/select_tune.inc"
};

/* The first whole table of a GPU was an H200's: compute capability 9.0. */
enum { DEFAULT_CHIP = 90 };

bool kin_select_tuned(int32_t chip)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].chip == chip) {
            return true;
        }
    }
    return false;
}

const kin_select_method *kin_select_choose(int32_t chip, const kin_select_job *job)
{
    if (job->method != NULL) {
        return job->method;
    }
    const int32_t known = kin_select_tuned(chip) ? chip : DEFAULT_CHIP;
    const int32_t bits = 8 * kin_select_type_bytes(job->dtype);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const rule *r = &rules[i];
        if (r->chip == known && r->bits == bits && job->cols <= r->most_cols &&
            job->k <= r->most_k) {
            return kin_select_method_of(r->method);
        }
    }
    return kin_select_method_of(KITH_SELECT_SCAN);
}
