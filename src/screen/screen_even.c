/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits of a block. The quick test has one limit a row for all points of a block, so a pair's
 * bound is that of the worst point in it. Of fp32 rows the bound has the square of norms: one row
 * many times as large as its neighbours, as heavy tails have in every block, lets half of the block
 * pass. Here the bound is taken apart, and each end's part stands in its own term
 * (docs/notes/numerics.md, "Limits of a block").
 *
 *      cost  -  slack of the row  -  slack of the point   <=   limit of the row's reach alone
 *
 * Cost. A few operations for each row and point of two blocks, which have thousands of pairs. */
#include "screen/screen.h"

/* Fewer rows are not worth terms of their own for a block of points. */
enum { EVEN_ROWS = 8 };
/* Far above the norms of rows in a frame; a row that has lost all of itself has more. */
static const double LARGEST_NORM = 0x1p40;

/* Whether none is above the square of its row's norm, so that the error of a cost holds as it is.
 */
static bool set_slacks(const kin_even_block *b, double *slack)
{
    bool bounded = true;
    for (int64_t i = 0; i < b->count; i++) {
        const kin_bound_row row = kin_set_row(b->set, b->first + i);
        bounded &= row.lost * KIN_MEET_NORM <= row.norm && row.norm < LARGEST_NORM;
        slack[i] = kin_meet_slack(b->set->frame->kappa, row);
    }
    return bounded;
}

/* Slacks become what the terms really took, so that what is given back leaves a row's own cost,
 * also where a slack is too small for fp32. */
bool kin_even_make(const kin_even_block *rows, const kin_even_block *points,
                   const kin_meet_even *even)
{
    const kin_frame *frame = points->set->frame;
    if (frame->kernel->type != KIN_TILE_F32 || frame->bound != KIN_BOUND_DISTANCE ||
        rows->count < EVEN_ROWS || !set_slacks(rows, even->row_slack) ||
        !set_slacks(points, even->point_slack)) {
        return false;
    }
    for (int64_t i = 0; i < rows->padded; i++) {
        const float term = rows->set->row_term[rows->first + i].f;
        even->row_term[i].f = i < rows->count ? (float)((double)term - even->row_slack[i]) : term;
        even->row_slack[i] = (double)term - (double)even->row_term[i].f;
        even->half_term[i].f = 0.5F * even->row_term[i].f;
    }
    for (int64_t i = 0; i < points->padded; i++) {
        const float start = points->set->start[points->first + i].f;
        even->start[i].f =
            i < points->count ? (float)((double)start + 0.5 * even->point_slack[i]) : start;
        even->point_slack[i] = 2.0 * ((double)even->start[i].f - (double)start);
    }
    return true;
}

void kin_even_name(kin_layout *layout, int64_t block, kin_meet_even *even)
{
    const uint64_t n = (uint64_t)block;
    even->row_slack = kin_layout_array(layout, n, sizeof *even->row_slack);
    even->point_slack = kin_layout_array(layout, n, sizeof *even->point_slack);
    even->half_term = kin_layout_array(layout, n, sizeof *even->half_term);
    even->row_term = kin_layout_array(layout, n, sizeof *even->row_term);
    even->start = kin_layout_array(layout, n, sizeof *even->start);
}
