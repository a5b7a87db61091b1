/* SPDX-License-Identifier: Apache-2.0
 * All neighbours within a radius. */
#ifndef KIN_EXACT_RADIUS_H
#define KIN_EXACT_RADIUS_H

#include "exact/exact_hits.h"

/* queries NULL: each point of the corpus against all of them. *ranges is all zero before; what it
 * got stays its own when this fails. */
kith_status kin_radius_run(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                           const kin_radius_request *request, kith_ranges *ranges);

#endif
