/* SPDX-License-Identifier: Apache-2.0
 * Within a radius, by canonical keys of all pairs: metrics that no matrix product screens. */
#ifndef KIN_FUSED_SCAN_H
#define KIN_FUSED_SCAN_H

#include "fused/fused_find.h"

/* Fails as kin_fused_find does. */
kith_status kin_fused_scan(kin_fused_finder *f, const kin_fused_rows *queries,
                           const kin_fused_rows *corpus);

#endif
