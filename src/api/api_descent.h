/* SPDX-License-Identifier: Apache-2.0
 * Approximate graphs behind the public functions: checked arguments, and when descent is worth it.
 */
#ifndef KIN_API_DESCENT_H
#define KIN_API_DESCENT_H

#include "engine/engine_descent.h"

/* place: of fused_search.h. Of `out` and points.data addresses are not followed. */
kith_status kin_descent_check(kith_ctx *ctx, const kith_matrix *points,
                              const kith_descent_params *given, uint32_t place,
                              const kith_neighbors *out, kin_descent_job *job);

/* As kin_descent_check, of points whose shape is all that matters. */
kith_status kin_descent_check_shape(kith_ctx *ctx, const kith_matrix *points,
                                    const kith_descent_params *params, kin_descent_job *job);
/* Whether a GPU would take it: *gpu, which is not held. */
kith_status kin_descent_finds_gpu(kith_ctx *ctx, const kin_descent_job *job, kin_gpu **gpu);
/* Adds seconds of a descent from nothing to own->seconds_descent, scaled, and decides whether it
 * pays beside own->seconds_exact; gpu as kin_descent_enter said. Then own goes to out, as far as
 * the caller's struct reaches. */
kith_status kin_descent_estimate(kith_ctx *ctx, const kin_descent_job *job, const kin_gpu *gpu,
                                 double scale, kith_descent_estimate *own,
                                 kith_descent_estimate *out);

#endif
