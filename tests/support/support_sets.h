/* SPDX-License-Identifier: Apache-2.0
 * What a set of rounded points holds, read back for tests. */
#ifndef SUPPORT_SETS_H
#define SUPPORT_SETS_H

#include "screen/screen_set.h"

/* Component i of what the panels hold at a position. */
double test_stored(const kin_set *set, int64_t position, int32_t i);

/* The cost of a pair as a unit without any error would give it. */
double test_plain_cost(const kin_set *rows, int64_t row, const kin_set *points, int64_t point);

#endif
