/* SPDX-License-Identifier: Apache-2.0
 * How far the tensor cores may be off, fp16 products summed in fp32: |sum - exact| <= kappa (sum of
 * magnitudes), accumulators that start with something included.
 *
 * A step of the unit aligns L exact products and the accumulator to the largest exponent, keeps F
 * fraction bits and truncates: off by at most e = (L + 1) 2^-F + 2^-23 of the sum of magnitudes.
 * There are K / L steps, each of which also carries what the ones before were off by, in all
 * (K / L) e (1 + e)^(K / L).
 *
 *     chip          L    F    (K / L) e              kappa
 *     sm_80 - 89    8   24    11 / 16 K 2^-23        K 2^-23
 *     sm_90        16   25    21 / 32 K 2^-24        K 2^-24
 *     later                   not published          K 2^-22
 *
 * The rest of each kappa covers (1 + e)^(K / L) < 1.1 for all K <= 2^20. NVIDIA publishes neither L
 * nor F; sources are in docs/notes/numerics.md. tests/unit repeats the model, tests/gpu the probe
 * on the device at hand.
 */
#ifndef KIN_SCREEN_KAPPA_H
#define KIN_SCREEN_KAPPA_H

#include "screen/screen_set_gpu.h"

/* major: of the compute capability. */
KIN_HD double kin_screen_gpu_unit_kappa(int32_t major, int32_t cols)
{
    const int32_t halves = KIN_SCREEN_GPU_SLICE / 2;
    const double padded = (double)((cols + halves - 1) / halves) * halves;
    return padded * (major == 8 ? 0x1p-23 : major == 9 ? 0x1p-24 : 0x1p-22);
}

#endif
