/* SPDX-License-Identifier: Apache-2.0
 * The table of launches, short because every row makes itself, and the two choices that depend on
 * the chip: which body of the screen a device gets, and how far its tensor cores may be off. */
#include "gpu/gpu_stream.cuh"
#include "screen/screen_kappa.h"
#include "screen/screen_kernels.h"

#include <stdlib.h>
#include <string.h>

/* wgmma exists on compute capability 9.0 alone (sm_90a is code for no other). */
static bool takes_starts(kin_gpu_stream *stream)
{
    return stream->major == 9 && stream->minor == 0;
}

/* KITH_GPU_UNIT=wgmma|mma is for comparison and tests. */
int kin_screen_gpu_launch_screen(kin_gpu_stream *stream, const kin_screen_gpu_screen *job)
{
    const char *wanted = getenv("KITH_GPU_UNIT");
    const bool has_wgmma = takes_starts(stream);
    if (wanted == NULL || wanted[0] == '\0') {
        if (kin_screen_gpu_screen_is_few(job)) {
            return kin_screen_gpu_screen_few(stream, job);
        }
        return has_wgmma ? kin_screen_gpu_screen_wgmma(stream, job)
                         : kin_screen_gpu_screen_mma(stream, job);
    }
    if (strcmp(wanted, "mma") == 0) {
        return kin_screen_gpu_screen_mma(stream, job);
    }
    if (strcmp(wanted, "wgmma") == 0) {
        return has_wgmma ? kin_screen_gpu_screen_wgmma(stream, job) : (int)cudaErrorNotSupported;
    }
    return (int)cudaErrorInvalidValue;
}

/* Both bodies of the screen meet the same unit. */
static double kappa(kin_gpu_stream *stream, int32_t cols)
{
    return kin_screen_gpu_unit_kappa(stream->major, cols);
}

#define KIN_ENTRY(name) kin_screen_gpu_launch_##name,
extern "C" const kin_screen_gpu_kernels kin_screen_gpu_table;
const kin_screen_gpu_kernels kin_screen_gpu_table = {KIN_SCREEN_GPU_LAUNCHES(KIN_ENTRY) kappa,
                                                     takes_starts};
