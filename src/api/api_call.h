/* SPDX-License-Identifier: Apache-2.0
 * What every computing public call begins and ends with: floating-point mode, self-test, report. */
#ifndef KIN_API_CALL_H
#define KIN_API_CALL_H

#include "base/base_ctx.h"
#include "host/host_fpenv.h"

typedef struct kin_call {
    kith_ctx *ctx;
    kin_fpenv found;
    int64_t start_ns;
} kin_call;

/* Fails for a NULL context and for one that cannot compute; nothing needs to be ended then. */
kith_status kin_call_begin(kith_ctx *ctx, kin_call *call);
/* Completes the report, puts the caller's floating-point mode back, hands the status on. */
kith_status kin_call_end(const kin_call *call, kith_status status);

#endif
