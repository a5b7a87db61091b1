/* SPDX-License-Identifier: Apache-2.0
 * Cells of near points, and their division into groups. */
#ifndef KIN_SHARD_GROUP_H
#define KIN_SHARD_GROUP_H

#include "shard/shard_job.h"

enum { KIN_SHARD_NEAREST = 8 };

/* Of rows: some of their nearest cells, ascending by (key, cell). */
typedef struct kin_shard_near {
    int64_t rows;
    uint32_t *cells; /* rows x count */
    double *keys;
} kin_shard_near;

typedef struct kin_shard_cells {
    kin_shard_job *job;
    kith_matrix centers; /* float32, or of bytes rounded ones */
    float *values;
    unsigned char *bytes; /* NULL: points are others */
    int64_t near;         /* cells that are told of a row: there may be fewer in all */
    int64_t *weights;     /* by cell: rows seen to which it is the nearest */
    kin_shard_near seen;  /* rows that tell what cells are like */
    void *block;
} kin_shard_cells;

/* Centers are means of near rows. values, and bytes where points are such, have them. */
kith_status kin_shard_cells_make(kin_shard_job *job, kin_shard_cells *cells);
void kin_shard_cells_free(kin_shard_cells *cells);

kith_status kin_shard_near_make(kith_ctx *ctx, int64_t rows, int64_t count, kin_shard_near *near);
void kin_shard_near_free(kith_ctx *ctx, kin_shard_near *near);
/* The `count` nearest cells of each row. */
kith_status kin_shard_find_cells(const kin_shard_cells *cells, const kith_matrix *rows,
                                 int64_t count, const kin_shard_near *near);

/* group: by cell. Groups have about as many rows each, and near cells one group. */
kith_status kin_shard_divide(const kin_shard_cells *cells, int32_t groups, uint16_t *group);

#endif
