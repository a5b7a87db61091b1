/* SPDX-License-Identifier: Apache-2.0
 * From parameters to an engine's request; where a search of a given pipeline computes. */
#ifndef KIN_API_PIPELINE_H
#define KIN_API_PIPELINE_H

#include "api/api_device.h"

/* Of numbers that were checked; NULL: ours. */
const kin_pipeline *kin_pipeline_of(kith_pipeline number);

/* What the parameters, which were checked, ask of an engine. */
kin_request kin_api_request(const kith_search_params *params, const kin_distance *distance);

/* As kin_device_enter; a pipeline that is a GPU's alone is never the processor's:
 * KITH_E_UNSUPPORTED. */
kith_status kin_pipeline_enter(kith_ctx *ctx, const kin_request *request, double pairs,
                               kin_gpu **gpu);
/* As kin_device_yields; hybrid never does. */
bool kin_pipeline_yields(kith_ctx *ctx, const kin_request *request, kith_status status);
/* Before the processor begins: KITH_E_UNSUPPORTED for what it cannot do alone. */
kith_status kin_pipeline_check_cpu(kith_ctx *ctx, const kin_request *request);

#endif
