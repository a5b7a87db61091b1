/* SPDX-License-Identifier: Apache-2.0 */
#include "reference/reference_screen.h"

#include "screen/screen_kappa.h"

/* Products are summed in fp32, one by one: no worse than the unit of the chip that is told. */
static double kappa(kin_gpu_stream *stream, int32_t cols)
{
    (void)stream;
    return kin_screen_gpu_unit_kappa(9, cols);
}

static bool takes_starts(kin_gpu_stream *stream)
{
    (void)stream;
    return true;
}

#define REFERENCE_ENTRY(name) .name = reference_screen_##name,
const kin_screen_gpu_kernels reference_screen = {
    KIN_SCREEN_GPU_LAUNCHES(REFERENCE_ENTRY).kappa = kappa, .takes_starts = takes_starts};
