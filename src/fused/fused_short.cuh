/* SPDX-License-Identifier: Apache-2.0
 * Rows of fewer bytes than the lanes of a team read at a time. */
#ifndef KIN_FUSED_SHORT_CUH
#define KIN_FUSED_SHORT_CUH

#include "fused/fused_row.cuh"

/* Lanes a row, of which none is idle; kin_fused_team at most. */
static inline int32_t kin_fused_short_team(int64_t row_bytes)
{
    int32_t team = 1;
    while (team < kin_fused_team(row_bytes) && team * KIN_FUSED_CHUNK < row_bytes) {
        team *= 2;
    }
    return team;
}

/* kin_fused_chunk; of rows of up to four whole words by words. */
template <bool ALIGNED>
KIN_DEVICE uint4 kin_fused_short_chunk(const char *row, int64_t at, int64_t bytes)
{
    const bool words = (((uint64_t)row | (uint64_t)bytes) & 3) == 0;
    if (words && bytes <= KIN_FUSED_CHUNK && (!ALIGNED || bytes < KIN_FUSED_CHUNK)) {
        const uint32_t *from = (const uint32_t *)row;
        return make_uint4(__ldg(from), bytes > 4 ? __ldg(from + 1) : 0,
                          bytes > 8 ? __ldg(from + 2) : 0, bytes > 12 ? __ldg(from + 3) : 0);
    }
    return kin_fused_chunk<ALIGNED>(row, at, bytes);
}

#endif
