/* SPDX-License-Identifier: Apache-2.0
 * A set of points as the screen sees it: rounded copies in panels, terms, and per row what the
 * rounding lost. Points stand in an order of their own: *position* p holds the row ids[p]. */
#ifndef KIN_EXACT_SET_H
#define KIN_EXACT_SET_H

#include "base/base_layout.h"
#include "exact/exact_frame.h"

typedef struct kin_set {
    const kin_frame *frame;
    const kin_rows *rows;
    int64_t points; /* positions in use */
    int64_t padded; /* positions there are: a multiple of KIN_BLOCK_STEP */
    const uint32_t *ids;
    uint32_t *panels;
    kin_word *start;     /* as column */
    kin_word *odd;       /* integer types only */
    kin_word *half_term; /* as row */
    kin_word *row_term;
    float *norm;         /* kin_bound_row of each position, rounded up */
    float *lost;         /* NULL for integer bounds: all zero */
    kin_bound_row worst; /* over all positions */
    void *block;         /* all arrays but ids; NULL: they are a view of a file */
} kin_set;

/* ids: `points` row numbers, kept. Rounds all of them in parallel. */
kith_status kin_set_make(kith_ctx *ctx, const kin_frame *frame, const kin_rows *rows,
                         const uint32_t *ids, int64_t points, kin_set *set);
void kin_set_free(kith_ctx *ctx, kin_set *set);
/* A set of so many points without arrays, and what kin_set_make holds, and leaves, of it. */
kin_set kin_set_shape(const kin_frame *frame, int64_t points);
void kin_set_plan(kin_layout *plan, kin_set *shape, int32_t threads);

static inline kin_bound_row kin_set_row(const kin_set *set, int64_t position)
{
    const kin_bound_row exact = {0.0, 0.0};
    if (set->lost == NULL) {
        return exact;
    }
    return (kin_bound_row){(double)set->norm[position], (double)set->lost[position]};
}

#endif
