/* SPDX-License-Identifier: Apache-2.0
 * Shadows of a graph's rows in device memory, for its stages to screen in place of them: what a
 * pair's shadows are apart is never more than what the rows are (docs/notes/numerics.md,
 * "Shadows"), but for what both have lost. */
#ifndef KIN_FUSED_CAST_H
#define KIN_FUSED_CAST_H

#include "exact/exact_corpus.h"
#include "fused/fused_search.h"

/* Both make work->cast and what goes with it of rows that stay where they are, and cut stages
 * short, so that what passes, which is about `share` of the pairs, finds room to wait. shadow gets
 * the memory, also on failure. */

/* The images in a basis, and the length of what it leaves of each row, as halves. */
kith_status kin_fused_cast_axes(kin_fused_work *work, kin_axes *axes, double share,
                                kin_fused_shadow *shadow);
/* All columns of rows of halves, as bytes: one of them is `unit` of the rows'. */
kith_status kin_fused_cast_bytes(kin_fused_work *work, double unit, double share,
                                 kin_fused_shadow *shadow);

#endif
