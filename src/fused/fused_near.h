/* SPDX-License-Identifier: Apache-2.0
 * An order of the points of a set in which near ones stand together, made on the device. Any order
 * is right; a good one makes early reaches tight and lets tiles be skipped. */
#ifndef KIN_FUSED_NEAR_H
#define KIN_FUSED_NEAR_H

#include "fused/fused_prepare.h"

/* prepared->ids from listed[0 .. points) (device, ascending; NULL: 0, 1, ...). The buffers of the
 * set are used, and hold no rounded rows of this order afterwards. What the order was made of stays
 * in prepared->pivots and prepared->marks. */
kith_status kin_fused_order_points(const kin_fused_device *on, kin_fused_prepared *prepared,
                                   const uint32_t *listed);
/* Prepared queries go into the order of their corpus' cells, are rounded again and covered. homes,
 * of each block of queries: host memory that the caller frees; NULL where the corpus has no cells.
 */
kith_status kin_fused_order_queries(const kin_fused_device *on, const kin_fused_prepared *corpus,
                                    kin_fused_prepared *queries, kin_fused_home **homes);
/* Device memory that either takes for a while. */
uint64_t kin_fused_order_bytes(int64_t points, int32_t row_bytes, bool corpus);

#endif
