/* SPDX-License-Identifier: Apache-2.0
 * An order of rows in which near ones stand together. Any order is right; a good one makes early
 * thresholds tight and lets whole tiles be skipped (exact_cover.h). */
#ifndef KIN_EXACT_ORDER_H
#define KIN_EXACT_ORDER_H

#include "base/base_layout.h"
#include "metric/metric.h"

/* Rows that stand together at least: the order is made of runs of this many near rows. */
enum { KIN_ORDER_RUN = 32 };

/* Permutes order[0 .. count - 1], row numbers of `rows`. Small sets are left as they are. The same
 * order on every machine and with any number of threads is not promised, nor needed. */
kith_status kin_order_make(kith_ctx *ctx, const kin_rows *rows, const kin_distance *distance,
                           int64_t count, uint32_t *order);
/* Small sets too. */
kith_status kin_order_always(kith_ctx *ctx, const kin_rows *rows, const kin_distance *distance,
                             int64_t count, uint32_t *order);
/* What kin_order_make holds. */
void kin_order_plan(kin_layout *plan, int64_t count, int32_t cols, int32_t threads);

#endif
