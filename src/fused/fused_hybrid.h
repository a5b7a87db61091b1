/* SPDX-License-Identifier: Apache-2.0
 * The pipeline hybrid: the GPU prunes and computes keys, the processor selects. */
#ifndef KIN_FUSED_HYBRID_H
#define KIN_FUSED_HYBRID_H

#include "fused/fused_answer.h"
#include "fused/fused_prepare.h"

/* The lists of all positions of `queries` among those of `corpus`, to a, whose answers the host
 * writes. Both sets hold rows; worst: of the tiles of the corpus. */
kith_status kin_fused_hybrid_run(kin_fused_answers *a, const kin_fused_prepared *queries,
                                 const kin_fused_prepared *corpus, const kin_fused_worst *worst);

#endif
