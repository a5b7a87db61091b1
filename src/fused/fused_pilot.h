/* SPDX-License-Identifier: Apache-2.0
 * Whether bytes are fine enough to screen a corpus in: asked of the data, on a few thousand rows.
 */
#ifndef KIN_FUSED_PILOT_H
#define KIN_FUSED_PILOT_H

#include "fused/fused_stage.h"

/* The fewest points and the largest k that are tried. */
enum { KIN_FUSED_PILOT_POINTS = 50000, KIN_FUSED_PILOT_K = 128 };
/* Whether so few points, or so many neighbours wanted, take halves without a try. */
bool kin_fused_pilot_settled(int64_t points, int64_t k);

/* frame: of quantised bytes. ids: device, `points` rows in an order in which near ones stand
 * together. fine: what a screen in this frame leaves is few candidates more than there are
 * neighbours. Waits. */
kith_status kin_fused_pilot(const kin_fused_device *on, const kin_fused_rows *rows,
                            const kin_fused_frame *frame, const uint32_t *ids, int64_t points,
                            int64_t k, bool *fine);
uint64_t kin_fused_pilot_bytes(int32_t row_bytes, int64_t k);

#endif
