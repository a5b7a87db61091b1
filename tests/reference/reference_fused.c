/* SPDX-License-Identifier: Apache-2.0 */
#include "reference/reference_fused.h"

#include "fused/fused_kappa.h"

/* Products are summed in fp32, one by one: no worse than the unit of the chip that is told. */
static double kappa(kin_gpu_stream *stream, int32_t cols)
{
    (void)stream;
    return kin_fused_unit_kappa(9, cols);
}

const kin_fused_kernels reference_fused = {
    .check = reference_fused_check,
    .transform = reference_fused_transform,
    .group = reference_fused_group,
    .measure = reference_fused_measure,
    .round = reference_fused_round,
    .cover = reference_fused_cover,
    .sort = reference_fused_sort,
    .kappa = kappa,
};
