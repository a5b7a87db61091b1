/* SPDX-License-Identifier: Apache-2.0
 * A set of points as the screen sees it: rounded copies in panels, terms, and per row what the
 * rounding lost. Points stand in an order of their own: *position* p holds the row ids[p]. */
#ifndef KIN_EXACT_SET_H
#define KIN_EXACT_SET_H

#include "base/base_layout.h"
#include "exact/exact_frame.h"

#include <math.h>

typedef struct kin_set {
    const kin_frame *frame;
    const kin_rows *rows;
    int64_t points; /* positions in use */
    int64_t padded; /* positions there are: a multiple of KIN_BLOCK_STEP */
    const uint32_t *ids;
    uint32_t *panels; /* exact_tile.h; NULL where rows lie as lines */
    uint32_t *lines;  /* `line` words a row, zeros behind its groups; NULL where panels are */
    int32_t line;
    kin_word *start;     /* as column */
    kin_word *odd;       /* integer types only */
    kin_word *half_term; /* as row */
    kin_word *row_term;
    float *norm;         /* kin_bound_row of each position, rounded up */
    float *lost;         /* NULL for integer bounds: all zero. Negative: see kin_set_proves */
    kin_bound_row worst; /* over all positions */
    void *block;         /* all arrays but ids; NULL: they are a view of a file */
} kin_set;

/* Rows that are not those of a matrix: by positions. */
typedef struct kin_set_source {
    /* Values of positions [first, first + count), count at most KIN_SET_AT_ONCE, `wide` apart, with
     * zeros behind their columns, and how far each row may be from what it should be. */
    void (*load)(void *arg, int32_t thread, int64_t first, int64_t count, double *values,
                 double *off);
    void *arg;
} kin_set_source;

enum { KIN_SET_AT_ONCE = 4 };

/* Doubles from a row to the next where a source puts them. */
int64_t kin_set_wide(const kin_frame *frame);

/* ids: `points` row numbers, kept. Rounds all of them in parallel. */
kith_status kin_set_make(kith_ctx *ctx, const kin_frame *frame, const kin_rows *rows,
                         const uint32_t *ids, int64_t points, kin_set *set);
/* The same rows as lines, for those that are looked at one by one. */
kith_status kin_set_make_lines(kith_ctx *ctx, const kin_frame *frame, const kin_rows *rows,
                               const uint32_t *ids, int64_t points, kin_set *set);
/* Rows of a source, in panels; the set has no ids. */
kith_status kin_set_make_from(kith_ctx *ctx, const kin_frame *frame, const kin_set_source *source,
                              int64_t points, kin_set *set);
void kin_set_free(kith_ctx *ctx, kin_set *set);
/* The panels of positions [first, first + count), both multiples of KIN_PANEL: the set's own, or of
 * lines, made in `room` for count * groups words. */
const uint32_t *kin_set_panels(const kin_set *set, int64_t first, int64_t count, uint32_t *room);
/* A set of so many points without arrays, and what kin_set_make holds, and leaves, of it. */
kin_set kin_set_shape(const kin_frame *frame, int64_t points);
kin_set kin_set_shape_lines(const kin_frame *frame, int64_t points);
void kin_set_plan(kin_layout *plan, kin_set *shape, int32_t threads);

static inline kin_bound_row kin_set_row(const kin_set *set, int64_t position)
{
    const kin_bound_row exact = {0.0, 0.0};
    if (set->lost == NULL) {
        return exact;
    }
    return (kin_bound_row){(double)set->norm[position], fabs((double)set->lost[position])};
}

/* Whether costs of the position say how far it is at most. A row that was drawn in from afar is
 * farther from others than costs say, so they serve to discard its pairs, and prove no reach. */
static inline bool kin_set_proves(const kin_set *set, int64_t position)
{
    return set->lost == NULL || !signbit(set->lost[position]);
}

#endif
