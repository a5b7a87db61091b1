/* SPDX-License-Identifier: Apache-2.0
 * What is made of a matrix before it is searched: checked values, row transforms, groups of equal
 * rows, an order in which near points stand together, and the rounded copy in its frame. */
#ifndef KIN_EXACT_PREPARE_H
#define KIN_EXACT_PREPARE_H

#include "exact/exact_cover.h"
#include "exact/exact_group.h"
#include "exact/exact_list.h"
#include "exact/exact_set.h"

typedef struct kin_prepared {
    kin_rows rows; /* the matrix is borrowed, the transforms are ours */
    kin_distance distance;
    kin_groups groups;
    uint32_t *order; /* groups.count firsts: position -> id */
    kin_frame_stats stats;
    kin_frame frame;
    kin_set set;
    kin_cover cover;
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
/* Queries `first` .. `first + count - 1` of order[] in the frame of their corpus. May be called
 * again for other queries. */
kith_status kin_prepare_queries(kith_ctx *ctx, const kin_frame *frame, int64_t first, int64_t count,
                                kin_prepared *prepared);
void kin_prepared_free(kith_ctx *ctx, kin_prepared *prepared);

#endif
