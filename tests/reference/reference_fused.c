/* SPDX-License-Identifier: Apache-2.0 */
#include "reference/reference_fused.h"

#include "fused/fused_kappa.h"

/* Products are summed in fp32, one by one: no worse than the unit of the chip that is told. */
static double kappa(kin_gpu_stream *stream, int32_t cols)
{
    (void)stream;
    return kin_fused_unit_kappa(9, cols);
}

static bool takes_starts(kin_gpu_stream *stream)
{
    (void)stream;
    return true;
}

#define REFERENCE_ENTRY(name) .name = reference_fused_##name,
const kin_fused_kernels reference_fused = {KIN_FUSED_LAUNCHES(REFERENCE_ENTRY).kappa = kappa,
                                           .takes_starts = takes_starts};
