/* SPDX-License-Identifier: Apache-2.0
 * All pairs of two sets in device memory that are within a radius, to the table of hits of the CPU
 * engine (exact/exact_hits.h). */
#ifndef KIN_FUSED_RADIUS_H
#define KIN_FUSED_RADIUS_H

#include "exact/exact_hits.h"
#include "fused/fused_stage.h"

/* Finds for one call of the library. */
typedef struct kin_fused_radius_job {
    kin_fused_device on;
    const kin_radius_request *request;
    kin_hits *hits;
    const kin_groups *groups; /* of the whole corpus */
    uint32_t id0;             /* id of the present chunk's first row */
    uint32_t row0;            /* number of the present stripe's first query */
    bool by_groups; /* queries are groups of the corpus, by their firsts: each id of one is asked */
    uint64_t memory;   /* what a batch takes of the device's, at most */
    int64_t offered;   /* pairs so far: while it stands, what failed can be tried again */
    double candidates; /* that screens found so far */
    double expected;   /* of a row, by the last rows; below 0: none was seen */
    kin_fused_tally tally;
} kin_fused_radius_job;

/* Device memory for a batch, now. */
uint64_t kin_fused_radius_memory(const kin_fused_device *on);
/* Of it, how many hits are fetched at a time. */
int64_t kin_fused_radius_room(const kin_fused_radius_job *f);

/* Takes `count` hits in device memory; host: room for as many. Waits. */
kith_status kin_fused_radius_take(kin_fused_radius_job *f, const kin_fused_hit *hits, int64_t count,
                                  kin_fused_hit *host);

/* What is screened: each position of rows against each of cols. */
typedef struct kin_fused_radius_sets {
    kin_fused_set rows;
    kin_fused_set cols;
    bool graph;                       /* they are the same set */
    const kin_fused_worst *col_worst; /* kin_fused_worst_find */
    const kin_fused_rows *row_matrix;
    const kin_fused_rows *col_matrix;
} kin_fused_radius_sets;

/* KITH_E_DEVICE_MEMORY leaves pairs that were offered: the caller begins anew where `offered` has
 * risen. */
kith_status kin_fused_radius_screen(kin_fused_radius_job *f, const kin_fused_radius_sets *what);

#endif
