/* SPDX-License-Identifier: Apache-2.0
 * What is made of a matrix before it is searched: checked values, row transforms, groups of equal
 * rows, an order in which near points stand together, and the rounded copy in its frame. */
#ifndef KIN_EXACT_PREPARE_H
#define KIN_EXACT_PREPARE_H

#include "base/base_layout.h"
#include "exact/exact_group.h"
#include "exact/exact_list.h"
#include "exact/exact_set.h"
#include "metric/metric.h"

/* A basis, and the frame of shadows in it (exact_corpus.h). */
typedef struct kin_shadow {
    int32_t axes;   /* of the basis; 0: full rows are screened sooner */
    int64_t wide;   /* columns of a row, rounded up */
    int64_t padded; /* axes, rounded up */
    double *mean;   /* wide: what is subtracted from rows, which are then in units of their frame */
    float *basis;   /* wide x padded */
    double skew;    /* |BtB - 1|, at most */
    double *middle; /* axes + 1, rounded up: the mean shadow */
    kin_frame frame;
    void *block;
} kin_shadow;

/* Shadows of bytes beside the set, which few queries read in its place (exact_glance.h). */
typedef struct kin_glance {
    kin_shadow shadow; /* axes 0: there are none */
    kin_set cast;      /* by the positions of the set */
    float *lost;       /* of each panel, the most that a row of it has */
} kin_glance;

typedef struct kin_prepared {
    kin_rows rows; /* the matrix is borrowed, the transforms are ours */
    kin_distance distance;
    kin_groups groups;
    uint32_t *order; /* groups.count firsts: position -> id */
    kin_frame_stats stats;
    kin_frame frame;
    kin_set set;
    kin_shadow shadow; /* of the corpus; and */
    kin_set cast;      /* the shadows of the set, whose rows lie as lines then */
    kin_cover cover;
    kin_glance glance; /* of an index */
    bool vain;         /* the set discards too little: pairs are better compared without it */
    kin_within within; /* what is known of the rows, before their type is chosen */
    double seconds_check;
    double seconds_prepare;
} kin_prepared;

/* Equal rows are different ones (queries); values were checked, and are trusted. */
enum { KIN_ROWS_DISTINCT = 1, KIN_ROWS_CHECKED = 2 };

/* The first part, which needs no frame. `name` stands in messages; flags: KIN_ROWS_... */
kith_status kin_prepare_rows(kith_ctx *ctx, const kith_matrix *matrix, const kin_distance *distance,
                             const char *name, int flags, kin_prepared *prepared);
/* What is known of rows of which only the shape is. */
kin_rows_known kin_prepare_unknown(const kith_matrix *matrix, const kin_distance *distance);
/* What its data say: rows are grouped as kin_prepare_rows does it, and forgotten. Where that needs
 * more memory than there is, nothing is known. */
kith_status kin_prepare_know(kith_ctx *ctx, const kith_matrix *matrix, const kin_distance *distance,
                             kin_rows_known *known);
/* What kin_prepare_rows holds, and leaves. */
void kin_prepare_rows_plan(kin_layout *plan, int64_t rows, const kin_distance *distance,
                           bool distinguish, kin_rows_known known);
void kin_glance_free(kith_ctx *ctx, kin_glance *glance);
void kin_prepared_free(kith_ctx *ctx, kin_prepared *prepared);

/* ---- An order -------------------------------------------------------------------------------- */

/* An order of rows in which near ones stand together. Any order is right; a good one makes early
 * thresholds tight and lets whole tiles be skipped (exact_set.h). */

/* Rows that stand together at least: the order is made of runs of this many near rows. */
enum { KIN_ORDER_RUN = 32 };

/* Permutes order[0 .. count - 1], row numbers of `rows`. Small sets are left as they are. The same
 * order on every machine and with any number of threads is not promised, nor needed. */
kith_status kin_order_make(kith_ctx *ctx, const kin_rows *rows, const kin_distance *distance,
                           int64_t count, uint32_t *order);
/* Small sets too. */
kith_status kin_order_always(kith_ctx *ctx, const kin_rows *rows, const kin_distance *distance,
                             int64_t count, uint32_t *order);
/* What kin_order_make holds. */
void kin_order_plan(kin_layout *plan, int64_t count, int32_t cols, int32_t threads);

#endif
