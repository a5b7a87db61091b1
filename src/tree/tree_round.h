/* SPDX-License-Identifier: Apache-2.0
 * Rows into the units of a tree: each operation once, for processors and GPUs, which must agree to
 * the last bit. What the numbers promise stands in tree_bound.h. */
#ifndef KIN_TREE_ROUND_H
#define KIN_TREE_ROUND_H

#include "kith/kith.h"
#include "tree/tree_bound.h"

/* A component as it is stored; *lost: at least what that lost. */
KIN_HD float kin_tree_round_value(double value, double shift, double scale, double *lost)
{
    const double exact = kin_mul(kin_sub(value, shift), scale);
    const double above = exact > -KIN_TREE_CLAMP ? exact : -KIN_TREE_CLAMP;
    const double held = above < KIN_TREE_CLAMP ? above : KIN_TREE_CLAMP;
    /* A zero is positive, so that words sort like the numbers they stand for. */
    const float stored = (float)held + 0.0F;
    /* The subtraction rounds where there is a shift; what it lost cannot be seen in `exact`. */
    const double shifted = shift != 0.0 ? kin_mul(fabs(exact), 0x1p-52) : 0.0;
    *lost = kin_add(fabs(kin_sub(exact, (double)stored)), shifted);
    return stored;
}

/* Of a row: 0, one component after the other, then the whole. */
KIN_HD double kin_tree_lost_add(kin_tree_norm norm, double sum, double lost)
{
    return norm == KIN_NORM_TWO   ? kin_add(sum, kin_mul(lost, lost))
           : norm == KIN_NORM_ONE ? kin_add(sum, lost)
                                  : fmax(sum, lost);
}

KIN_HD double kin_tree_lost_whole(kin_tree_norm norm, double sum)
{
    return kin_mul(norm == KIN_NORM_TWO ? kin_sqrt(sum) : sum, KIN_TREE_WIDE);
}

/* As a row keeps it. */
KIN_HD float kin_tree_lost_kept(double lost)
{
    return lost > 0.0 ? kin_tree_up(lost) : 0.0F;
}

/* The units of a corpus of this dtype, from the extremes of its columns: shift (cols), and *scale.
 */
void kin_tree_units(kith_dtype dtype, int32_t cols, const double *low, const double *high,
                    double *shift, double *scale);

/* The least height of which no leaf has more than leaf_points, at least a block. */
int32_t kin_tree_height(int64_t points, int64_t leaf_points);

#endif
