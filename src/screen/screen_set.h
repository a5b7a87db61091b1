/* SPDX-License-Identifier: Apache-2.0
 * A set of points as the screen sees it: rounded copies in panels, terms, and per row what the
 * rounding lost. Points stand in an order of their own: *position* p holds the row ids[p]. */
#ifndef KIN_SCREEN_SET_H
#define KIN_SCREEN_SET_H

#include "base/base_mem.h"
#include "metric/metric.h"
#include "screen/screen_bound.h"
#include "screen/screen_tile.h"

#include <math.h>

/* ---- The frame ------------------------------------------------------------------------------- */

/* The frame in which a corpus is screened: the cheap type, the shift and the scale that bring its
 * rows into it. Queries are brought into the frame of their corpus. */

typedef struct kin_frame {
    kin_distance distance;
    const kin_tile_kernel *kernel;
    kin_bound_kind bound;
    int32_t cols;
    int32_t groups;   /* 4-byte groups of a rounded row, a multiple of kernel->group_step */
    double key_scale; /* the metric's */
    double scale;     /* 1 for integer bounds */
    double kappa;     /* the unit's error; 0 for integer units */
    double *mean;     /* cols rounded up to KIN_METRIC_LANES, zeros where nothing is shifted;
                         NULL for integer bounds */
} kin_frame;

/* Sums, extremes and norms of the corpus that the frames of all types are made from. Of distances
 * rows that are far, few and many times as large as usual ones, have no part in them. */
typedef struct kin_frame_stats {
    double *mean;
    double largest;      /* max |x - mean| over the components */
    double largest_norm; /* max |x - mean| over the rows; 0: not known, which s16 alone needs, a
                            norm of bytes being below what their components allow */
    double *middle;      /* of the ends of each column, behind the means; NULL: no choice */
    double half_range;   /* max |x - middle| over the components */
} kin_frame_stats;

/* Whether integer costs of this pair of matrices are the keys: both 8-bit, of the same type, an
 * integer metric, few enough columns. */
bool kin_frame_is_integer(const kin_distance *distance, const kith_matrix *corpus,
                          const kith_matrix *queries);

/* Reads the corpus once (not at all for integer frames), and once more for the norms. Frees with
 * kin_frame_stats_free. */
kith_status kin_frame_measure(kith_ctx *ctx, const kin_distance *distance, const kin_rows *corpus,
                              kin_frame_stats *stats);
kith_status kin_frame_measure_norms(kith_ctx *ctx, const kin_distance *distance,
                                    const kin_rows *corpus, kin_frame_stats *stats);
void kin_frame_stats_free(kith_ctx *ctx, kin_frame_stats *stats);
/* What either holds, and the first leaves. */
void kin_frame_measure_plan(kin_layout *plan, int32_t cols, int32_t threads);

/* The scale for one type. Integer types use their whole range, whatever comes first: the largest
 * component or the largest norm. Float types take the power of two that brings the largest
 * component into [2^11, 2^12), whatever their precision. Below 2^-500 nothing is resolved, and
 * nothing can be: keys underflow there. */
double kin_frame_scale(kin_tile_type type, int32_t cols, const kin_frame_stats *stats);

/* Integer units: the ball, in units of the frame, that usual rows are in and others are drawn into.
 */
double kin_frame_radius(int32_t cols);

/* What the frame of a type is made of, without a choice: steps of integers may be finer where rows
 * are shifted by the middle of each column's range, of which they use all, and not by its mean. */
kin_frame_stats kin_frame_shift(kin_tile_type type, int32_t cols, const kin_frame_stats *stats);

/* The frame for one type. Keeps a shift of stats. stats is not read for an integer frame. */
kin_frame kin_frame_make(const kin_distance *distance, const kin_tile_kernel *kernel, bool integer,
                         const kin_frame_stats *stats);

/* ---- The set --------------------------------------------------------------------------------- */

typedef struct kin_set {
    const kin_frame *frame;
    const kin_rows *rows;
    int64_t points; /* positions in use */
    int64_t padded; /* positions there are: a multiple of KIN_BLOCK_STEP */
    const uint32_t *ids;
    uint32_t *panels; /* screen_tile.h; NULL where rows lie as lines */
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

enum { KIN_SET_AT_ONCE = 8 };

/* A row that is read soon, or as much of it as stays in a cache: where rows stand in an order of
 * their own, nothing else foresees it. */
static inline __attribute__((always_inline)) void kin_rows_fetch(const kin_rows *rows, int64_t row)
{
    enum { MOST_FETCHED = 16384 };
    const kith_matrix *m = &rows->matrix;
    const int64_t bytes = m->cols * kith_dtype_bytes(m->dtype);
    kin_tile_fetch((const char *)m->data + row * m->stride_bytes,
                   bytes < MOST_FETCHED ? bytes : MOST_FETCHED);
}

/* Rows that are not those of a matrix: by positions. */
typedef struct kin_set_source {
    /* Values of positions [first, first + count), count at most KIN_SET_AT_ONCE, `wide` apart, with
     * zeros behind their columns, and how far each row may be from what it should be. */
    void (*load)(void *arg, int32_t thread, int64_t first, int64_t count, double *values,
                 double *off);
    void *arg;
} kin_set_source;

/* Doubles from a row to the next where a source puts them. */
int64_t kin_set_wide(const kin_frame *frame);

/* A set of so many points without arrays, and what kin_set_make holds, and leaves, of it; the same
 * rows as lines, for those that are looked at one by one. */
kin_set kin_set_shape(const kin_frame *frame, int64_t points);
kin_set kin_set_shape_lines(const kin_frame *frame, int64_t points);
void kin_set_plan(kin_layout *plan, kin_set *shape, int32_t threads);
/* ids: row numbers, as many as the shape has points, kept. Rounds all of them in parallel. */
kith_status kin_set_make(kith_ctx *ctx, kin_set shape, const kin_rows *rows, const uint32_t *ids,
                         kin_set *set);
/* Rows of a source, in panels; the set has no ids. */
kith_status kin_set_make_from(kith_ctx *ctx, const kin_frame *frame, const kin_set_source *source,
                              int64_t points, kin_set *set);
void kin_set_free(kith_ctx *ctx, kin_set *set);
/* The panels of positions [first, first + count), both multiples of KIN_PANEL: the set's own, or of
 * lines, made in `room` for count * groups words. */
const uint32_t *kin_set_panels(const kin_set *set, int64_t first, int64_t count, uint32_t *room);

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

/* ---- The cover ------------------------------------------------------------------------------- */

/* Balls around tiles of points that stand together, so that a pair of tiles that cannot hold a
 * neighbour is skipped: if |centre_I - centre_J| - radius_I - radius_J is above every reach in the
 * two, no pair of theirs is among the k nearest of either side. Same theorem as the screen, with
 * the tile in place of the row. */

typedef struct kin_cover {
    int64_t wide;      /* floats of a centre; 0: there is no cover, nothing can be skipped */
    float *centres[2]; /* of fine and of coarse tiles, in units of the frame */
    float *radii[2];   /* largest |a - centre| of the tile's rows, rounded up; of
                          fine tiles NULL: there are no balls */
    void *block;       /* all of them; NULL: they are a view of a file */
} kin_cover;

/* A fine tile of points is skipped for a coarse tile of rows. */
enum { KIN_COVER_FINE = 0, KIN_COVER_COARSE = 1, KIN_FINE_STEP = 32, KIN_COARSE_STEP = 96 };

/* Products have no triangle inequality, and small sets nothing to skip: their cover is empty.
 * graph: where a sample of the set's tiles says that hardly any are apart, it has centres of coarse
 * tiles alone, of a few of their rows. */
kith_status kin_cover_make(kith_ctx *ctx, const kin_set *set, bool graph, kin_cover *cover);
void kin_cover_free(kith_ctx *ctx, kin_cover *cover);
/* Floats of a centre of rows of `cols` components. */
int64_t kin_cover_wide(int32_t cols);
/* What kin_cover_make holds, and leaves, of a set of this shape; *shape is a cover without arrays.
 */
void kin_cover_plan(kin_layout *plan, const kin_set *set, int32_t threads, kin_cover *shape);

typedef struct kin_cover_tile {
    const kin_cover *of;
    int64_t tile;
} kin_cover_tile;

/* Whether no row of a coarse tile and no point of a fine tile can be nearer than `reach`
 * (screen_bound.h; for integer bounds the k-th cost). */
bool kin_cover_apart(const kin_set *set, const kin_round_ops *ops, kin_cover_tile rows,
                     kin_cover_tile points, double reach);

#endif
