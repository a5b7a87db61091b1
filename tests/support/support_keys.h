/* SPDX-License-Identifier: Apache-2.0
 * Keys computed by a body of one's choice, for tests. */
#ifndef SUPPORT_KEYS_H
#define SUPPORT_KEYS_H

#include "metric/metric.h"

/* The levels that have a body in metric/ and that this processor runs; returns how many. */
int test_bodies(kin_isa isas[KIN_ISA_COUNT]);

/* A context of that level; ends the test when there is none. */
kith_ctx *test_ctx(kin_isa isa, int32_t threads);

/* keys[i] = key of row `row` of queries and row i of corpus, computed by the body of ctx. With ids,
 * row ids[i] and count of them; with NULL all rows. */
void test_keys(kith_ctx *ctx, kith_metric metric, const kith_matrix *queries, int64_t row,
               const kith_matrix *corpus, const uint32_t *ids, int64_t count, double *keys);

#endif
