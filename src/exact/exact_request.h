/* SPDX-License-Identifier: Apache-2.0
 * What an exact engine is asked for, whether it screens, and what it reports. */
#ifndef KIN_EXACT_REQUEST_H
#define KIN_EXACT_REQUEST_H

#include "exact/exact_prepare.h"

typedef struct kin_request {
    kin_distance distance;
    int64_t k;
    uint32_t flags;
    const uint32_t *exclude; /* search: by query; may be NULL */
    kith_pipeline pipeline;  /* on the processor never HYBRID */
    kith_select_method select;
    kith_method method;   /* api/ has decided; nothing here reads it */
    int32_t sample;       /* HYBRID: columns for each of the k; 0: as many as suit */
    double radius;        /* 0: none; else api/ cuts, and engines may leave out what is beyond */
    int32_t tree_height;  /* 0: by the columns; else api/ has checked that the rows allow it */
    const double *share;  /* HYBRID, for comparison: of the rows, those that the processor selects
                             from; NULL: by measured rates */
    kin_within within[2]; /* of queries, or of a and of b in both directions; engines may leave out
                             what is beyond. Not of graphs */
} kin_request;

/* Whether the metric goes through the screen; whether the job does: its pipeline is the fused one.
 */
bool kin_exact_screens(const kin_distance *distance);
bool kin_exact_job_screens(const kin_request *request);

/* Fills the context's report for a prepared corpus and a finished screen. */
void kin_exact_report(kith_ctx *ctx, const kin_prepared *corpus);

#endif
