/* SPDX-License-Identifier: Apache-2.0
 * The table of launches, short because every row makes itself, and the two choices that depend on
 * the chip: which body of the screen a device gets, and how far its tensor cores may be off. */
#include "fused/fused_kappa.h"
#include "fused/fused_kernels.h"
#include "gpu/gpu_stream.cuh"

#include <stdlib.h>
#include <string.h>

/* wgmma exists on compute capability 9.0 alone (sm_90a is code for no other). */
static bool takes_starts(kin_gpu_stream *stream)
{
    return stream->major == 9 && stream->minor == 0;
}

/* KITH_GPU_UNIT=wgmma|mma is for comparison and tests. */
int kin_fused_launch_screen(kin_gpu_stream *stream, const kin_fused_screen *job)
{
    const char *wanted = getenv("KITH_GPU_UNIT");
    const bool has_wgmma = takes_starts(stream);
    if (wanted == NULL || wanted[0] == '\0') {
        if (kin_fused_screen_is_few(job)) {
            return kin_fused_screen_few(stream, job);
        }
        return has_wgmma ? kin_fused_screen_wgmma(stream, job) : kin_fused_screen_mma(stream, job);
    }
    if (strcmp(wanted, "mma") == 0) {
        return kin_fused_screen_mma(stream, job);
    }
    if (strcmp(wanted, "wgmma") == 0) {
        return has_wgmma ? kin_fused_screen_wgmma(stream, job) : (int)cudaErrorNotSupported;
    }
    return (int)cudaErrorInvalidValue;
}

/* Both bodies of the screen meet the same unit. */
static double kappa(kin_gpu_stream *stream, int32_t cols)
{
    return kin_fused_unit_kappa(stream->major, cols);
}

#define KIN_ENTRY(name) kin_fused_launch_##name,
extern "C" const kin_fused_kernels kin_fused_table;
const kin_fused_kernels kin_fused_table = {KIN_FUSED_LAUNCHES(KIN_ENTRY) kappa, takes_starts};
