/* SPDX-License-Identifier: Apache-2.0
 * How long approximate graphs take beside exact ones: by which a caller who leaves it to us gets
 * the one or the other. */
#ifndef KIN_ENGINE_COST_H
#define KIN_ENGINE_COST_H

#include "engine/engine_descent.h"

/* Whether a GPU would take it: *gpu, which is not held. */
kith_status kin_cost_finds_gpu(kith_ctx *ctx, const kin_descent_job *job, kin_gpu **gpu);
/* All of *estimate but its struct_size. Of the job shapes and types are read. */
kith_status kin_cost_descent(kith_ctx *ctx, const kin_descent_job *job,
                             kith_descent_estimate *estimate);
/* Of a graph whose first rows are one set and the others another, and both have theirs. */
kith_status kin_cost_merge(kith_ctx *ctx, const kin_descent_job *job, int64_t first_rows,
                           kith_descent_estimate *estimate);

#endif
