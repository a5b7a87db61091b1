/* SPDX-License-Identifier: Apache-2.0
 * Equal and degenerate rows of a matrix in device memory, as lists on the host (exact_group.h). */
#ifndef KIN_FUSED_EQUAL_H
#define KIN_FUSED_EQUAL_H

#include "exact/exact_group.h"
#include "fused/fused_stage.h"

typedef struct kin_fused_equal {
    uint64_t *table; /* device, ours */
    uint32_t *firsts;
    /* Set by the caller once the device has found them. */
    uint64_t distinct;            /* rows that are their own first */
    uint64_t degenerate;          /* rows */
    const uint8_t *is_degenerate; /* by row, device; read where there are some */
} kin_fused_equal;

/* Starts the search for equal rows; distinct (device, cleared before) gets their number. Without
 * it, every row is taken as distinct. */
kith_status kin_fused_equal_start(const kin_fused_device *on, const kin_fused_rows *rows,
                                  uint64_t *distinct, kin_fused_equal *found);
void kin_fused_equal_free(const kin_fused_device *on, kin_fused_equal *found);

/* Every row is a group of its own and none is degenerate. */
bool kin_fused_equal_is_plain(const kin_fused_equal *found, int64_t rows);
/* As from kin_groups_make; of plain rows only rows and count are set. What is made belongs to
 * groups, also on failure. */
kith_status kin_fused_equal_lists(const kin_fused_device *on, const kin_fused_equal *found,
                                  int64_t rows, kin_groups *groups);

/* Device memory that the search takes. */
uint64_t kin_fused_equal_bytes(int64_t rows);

#endif
