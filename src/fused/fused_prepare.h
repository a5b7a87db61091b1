/* SPDX-License-Identifier: Apache-2.0
 * What is made of a matrix on a device before it is searched: checked values, transforms, groups of
 * equal rows, an order in which near rows stand together, a frame, the rounded copy and its balls.
 * The counterpart of exact/exact_prepare.h. */
#ifndef KIN_FUSED_PREPARE_H
#define KIN_FUSED_PREPARE_H

#include "exact/exact_group.h"
#include "fused/fused_search.h"
#include "fused/fused_stage.h"

typedef struct kin_fused_prepared {
    kin_distance distance;
    kin_fused_rows rows; /* of the matrix, or of the stripe of it that begins with row `first` */
    int64_t first;
    /* All rows are groups of their own and none is degenerate: of groups only rows and count are
     * set. Otherwise groups are as from kin_groups_make, by rows of `rows`. */
    bool plain;
    kin_groups groups;
    kin_fused_set set;      /* groups.count positions; none where that is 0 */
    double seconds_upload;  /* host rows to the device */
    double seconds_prepare; /* all else */

    /* Device memory that is ours; rows and set point into it. */
    void *data;
    kin_row_transform *transforms;
    uint8_t *degenerate;
    uint32_t *ids;    /* set.ids, for callers that permute it and round again */
    uint32_t *firsts; /* groups.firsts, of kin_fused_prepare_groups; NULL: 0, 1, ... */
    /* A corpus that was ordered by cells (fused_near.h): rows of `rows`, one a cell, in the order
     * of the cells; cells of the tiles, kin_fused_sort_marks of them. NULL: not ordered. */
    uint32_t *pivots;
    int64_t pivot_count;
    uint32_t *marks;
    double *mean;
    unsigned char *rounded;
    kin_fused_facts *facts;
    kin_fused_word *half;
    float *centres;
    float *radii;
} kin_fused_prepared;

/* A corpus. asked: the dtype of the queries to come; k: ids a row; name: in messages about values;
 * place: KIN_FUSED_DATA_ON_DEVICE, then the matrix is borrowed. Only metrics that are screened get
 * groups, an order and a set; the others stop after the check (plain, set empty). */
kith_status kin_fused_prepare_corpus(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *matrix,
                                     const kin_distance *distance, kith_dtype asked, int64_t k,
                                     const char *name, uint32_t place, kin_fused_prepared *out);

/* Checked rows and groups of equal ones, neither order nor frame nor set: for the tree. */
kith_status kin_fused_prepare_groups(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *matrix,
                                     const kin_distance *distance, const char *name, uint32_t place,
                                     kin_fused_prepared *out);

/* Rows first .. first + count of a matrix of queries, in the frame of their corpus (NULL: a metric
 * that is not screened). Not grouped, not ordered; degenerate rows stay out of the set. */
kith_status kin_fused_prepare_queries(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_frame *frame,
                                      const kith_matrix *matrix, const kin_distance *distance,
                                      int64_t first, int64_t count, const char *name,
                                      uint32_t place, kin_fused_prepared *out);

/* A hint: rows first .. first + count of a matrix on the host are prepared next, and brought to the
 * device until then, if they find room there (gpu/gpu_ahead.h; whoever gives hints ends them). */
void kin_fused_prepare_ahead(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *matrix, int64_t first,
                             int64_t count);

/* Room for balls, which the next rounding fills. */
kith_status kin_fused_prepared_cover(kith_ctx *ctx, kin_gpu *gpu, kin_fused_prepared *prepared);
/* Rounds all positions again after out->ids was permuted; covers them again where there are balls.
 */
kith_status kin_fused_prepared_round(kith_ctx *ctx, kin_gpu *gpu, kin_fused_prepared *prepared);
void kin_fused_prepared_free(kith_ctx *ctx, kin_gpu *gpu, kin_fused_prepared *prepared);

/* Device memory for `rows` rows: what stays, and the most while it is made. */
typedef struct kin_fused_prepared_need {
    uint64_t resident;
    uint64_t most;
} kin_fused_prepared_need;
kin_fused_prepared_need kin_fused_prepared_bytes(const kith_matrix *matrix, int64_t rows,
                                                 const kin_distance *distance, kith_dtype asked,
                                                 uint32_t place, bool corpus);
/* Of kin_fused_prepare_groups. */
kin_fused_prepared_need kin_fused_groups_bytes(const kith_matrix *matrix, uint32_t place);

#endif
