/* SPDX-License-Identifier: Apache-2.0
 * What selections have in common, whether their values lie in host or in device memory. */
#ifndef KIN_API_SELECT_H
#define KIN_API_SELECT_H

#include "select/select.h"

/* Checked arguments. Parameters are taken as this library knows them, whatever their struct_size.
 */
kith_status kin_api_check_select(kith_ctx *ctx, const kith_values *values,
                                 const kith_select_params *given, const kith_selection *out,
                                 kin_select_job *job);
kith_status kin_api_check_select_kth(kith_ctx *ctx, const kith_values *values,
                                     const kith_select_params *given, void *out,
                                     kin_select_job *job);

/* The report's part about what was done there. */
void kin_api_select_report(kith_ctx *ctx, kin_select_side side, const kin_select_job *job);

#endif
