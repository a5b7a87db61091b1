/* SPDX-License-Identifier: Apache-2.0
 * Where a search of a given pipeline computes. */
#ifndef KIN_API_PIPELINE_H
#define KIN_API_PIPELINE_H

#include "api/api_device.h"

/* As kin_device_enter; the pipeline hybrid is never the processor's: KITH_E_UNSUPPORTED. */
kith_status kin_pipeline_enter(kith_ctx *ctx, const kin_request *request, double pairs,
                               kin_gpu **gpu);
/* As kin_device_yields; hybrid never does. */
bool kin_pipeline_yields(kith_ctx *ctx, const kin_request *request, kith_status status);
/* Before the processor begins: KITH_E_UNSUPPORTED for what it cannot do alone. */
kith_status kin_pipeline_check_cpu(kith_ctx *ctx, const kin_request *request);

#endif
