/* SPDX-License-Identifier: Apache-2.0
 * NN-Descent on a GPU (descent/descent.h has the request): nothing of a round happens on the host.
 */
#ifndef KIN_CASCADE_CASCADE_H
#define KIN_CASCADE_CASCADE_H

#include "descent/descent.h"
#include "fused/fused_search.h"

/* What kin_descent_defaults is to the processor: a request without zeros, its list as kernels have
 * it. */
void kin_cascade_defaults(kin_descent_request *request, int64_t rows);
/* As kin_descent_graph, on a device; answers are canonical, but not the processor's graph. place:
 * of fused_search.h. E_DEVICE_MEMORY where graph and points do not fit: there are no batches.
 * E_UNSUPPORTED for KITH_CUSTOM. */
kith_status kin_cascade_graph_make(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *points,
                                   const kin_descent_request *request, uint32_t place,
                                   const kith_neighbors *out, kin_descent_outcome *outcome);
/* Device memory that it takes. */
uint64_t kin_cascade_bytes(const kith_matrix *points, const kin_descent_request *request,
                           uint32_t place);

#endif
