/* SPDX-License-Identifier: Apache-2.0
 * All neighbours within a radius, on a GPU: the same table as exact/exact_radius.h, byte for byte.
 */
#ifndef KIN_FUSED_RADIUS_H
#define KIN_FUSED_RADIUS_H

#include "exact/exact_hits.h"
#include "gpu/gpu.h"

/* queries NULL: each point of the corpus against all of them. Matrices lie on the host; metrics are
 * all but KITH_CUSTOM. *ranges is all zero before; what it got stays its own when this fails. */
kith_status kin_fused_radius(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                             const kith_matrix *queries, const kin_radius_request *request,
                             kith_ranges *ranges);

#endif
