/* SPDX-License-Identifier: Apache-2.0
 * The oracle of selection: a whole row sorted by (value, id), NaN last, as a student would write
 * it. Shares no code with the library. */
#ifndef PLAIN_SELECT_H
#define PLAIN_SELECT_H

#include "kith/kith.h"

/* All of row `row`, smallest first, or largest first: sorted has room for cols values of the dtype,
 * sorted_ids for cols ids. Zeros are written as +0, every NaN as the quiet one. The first k of them
 * are what kith_select gives for k. `sorted` and `sorted_ids` may be the row itself. */
void oracle_select(const kith_values *values, int64_t row, int largest, void *sorted,
                   uint32_t *sorted_ids);

#endif
