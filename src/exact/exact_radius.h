/* SPDX-License-Identifier: Apache-2.0
 * All neighbours within a radius. */
#ifndef KIN_EXACT_RADIUS_H
#define KIN_EXACT_RADIUS_H

#include "exact/exact_hits.h"
#include "exact/exact_prepare.h"

/* queries NULL: each point of the corpus against all of them. *ranges is all zero before; what it
 * got stays its own when this fails. */
kith_status kin_radius_run(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                           const kin_radius_request *request, kith_ranges *ranges);
/* The same of a corpus that is ready as for kin_exact_search. */
kith_status kin_radius_search(kith_ctx *ctx, const kin_prepared *corpus, const kith_matrix *queries,
                              const kin_radius_request *request, kith_ranges *ranges);

#endif
