/* SPDX-License-Identifier: Apache-2.0
 * A graph whose edges all go both ways: of any graph, exact or approximate. */
#ifndef KIN_DESCENT_DESCENT_SYMMETRIC_H
#define KIN_DESCENT_DESCENT_SYMMETRIC_H

#include "exact/exact_hits.h"

/* graph: checked, with distances of one kind at least. mutual: edges that both rows have, else
 * those that one of them has. *ranges is all zero before but its ctx; what it got stays its own
 * when this fails. The same whatever the number of threads. */
kith_status kin_descent_symmetric(kith_ctx *ctx, const kith_neighbors *graph, kith_metric metric,
                                  bool mutual, kith_ranges *ranges);

#endif
