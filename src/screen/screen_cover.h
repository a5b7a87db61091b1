/* SPDX-License-Identifier: Apache-2.0
 * Balls around tiles, as arithmetic that kernels and tests share. Every row a of a tile is within
 * radius of its centre; two tiles that are farther from each other than both radii and a reach hold
 * no pair within that reach (docs/notes/numerics.md, "On a GPU").
 *
 * Radius. |a - centre| <= |x^ - centre| + lost. A difference of fp32 numbers, its square and n
 * additions in order, each rounded once: the computed sum is within a factor 1 +- (n + 3) 2^-24 (1
 * + 2^-10) of the true one, n <= cols / 8 + 18 < 2^18 for eight lanes. Its root is then too small
 * by less than a factor 1 + (cols / 8 + 22) 2^-25; 1 + (cols / 8 + 8) 2^-23 is multiplied.
 *
 * Distance of centres. Differences, then cols fma in order: below (cols + 4) 2^-24 before the root,
 * half of it behind, which leaves the other half for second order (cols <= 2^20).
 *
 * Squares that underflow are off by less than 2^-149 each, 2^20 of them by 2^-129, whose root is
 * below 2^-64: the 2^-59 of radii cover both. Components are below 2^16, so nothing overflows; a
 * lost of +inf makes a radius of +inf, and what is infinite or no number is not apart.
 */
#ifndef KIN_SCREEN_COVER_H
#define KIN_SCREEN_COVER_H

#include "screen/screen_bound.h"
#include "screen/screen_directed.h"

enum { KIN_BALL_LANES = 8 };

/* Of a row whose |x^ - centre|^2 was computed in fp32 by KIN_BALL_LANES lanes. */
KIN_HD float kin_ball_radius(float square, int32_t cols, float lost)
{
    const double widen = 1.0 + ((double)cols / KIN_BALL_LANES + 8.0) * 0x1p-23;
    return kin_up_of((kin_sqrt((double)square) * widen + (double)lost) * KIN_BOUND_WIDEN + 0x1p-59);
}

/* What a computed distance of centres is multiplied by. */
KIN_HD float kin_ball_shrink(int32_t cols)
{
    return nextafterf((float)(1.0 - ((double)cols + 4.0) * 0x1p-24), 0.0F);
}

/* Whether no pair of two tiles is within `reach`; square: of the distance between their centres, in
 * fp32. */
KIN_HD int kin_ball_apart(float square, float shrink, float reach, float radius, float other)
{
    const float radii = kin_up_add(radius, other);
    const float far = kin_up_mul(kin_up_add(reach, radii), 1.0F + 0x1p-22F);
    return square <= FLT_MAX && kin_down_mul(kin_down_sqrt(square), shrink) > far;
}

#endif
