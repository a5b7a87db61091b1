/* SPDX-License-Identifier: Apache-2.0
 * Exact engines behind the public functions: what is prepared, screened or computed directly, and
 * written. Arguments are checked in api/. */
#ifndef KIN_EXACT_SEARCH_H
#define KIN_EXACT_SEARCH_H

#include "exact/exact_prepare.h"

struct kin_request;
struct kin_select_method; /* select/select.h */

/* A way from prepared rows to answers that is taken in place of ours. A request brings it; who has
 * some are papers/. */
typedef struct kin_pipeline {
    const char *name; /* of the report's screen */
    /* On the processor, as kin_direct_run and kin_direct_bytes; NULL: it is a GPU's alone. */
    kith_status (*run)(kith_ctx *ctx, const kin_prepared *corpus, const kin_prepared *queries,
                       const struct kin_request *request, const kith_neighbors *out);
    uint64_t (*bytes)(int64_t k, int64_t rows, int64_t queries, int32_t cols, int32_t threads);
    const struct kin_fused_pipeline *fused; /* fused/fused_pipeline.h */
} kin_pipeline;

typedef struct kin_request {
    kin_distance distance;
    int64_t k;
    uint32_t flags;
    const uint32_t *exclude;                /* search: by query; may be NULL */
    const kin_pipeline *pipeline;           /* NULL: ours */
    const struct kin_select_method *select; /* of a pipeline; NULL: the fastest */
    kith_method method;                     /* api/ has decided; nothing here reads it */
    int32_t sample;       /* of a pipeline: columns for each of the k; 0: as many as suit */
    double radius;        /* 0: none; else api/ cuts, and engines may leave out what is beyond */
    int32_t tree_height;  /* 0: by the columns; else api/ has checked that the rows allow it */
    const double *share;  /* of a pipeline, for comparison: of the rows, those that the processor
                             selects from; NULL: by measured rates */
    kin_within within[2]; /* of queries, or of a and of b in both directions; engines may leave out
                             what is beyond. Not of graphs */
} kin_request;

/* Each point against all others. */
kith_status kin_exact_graph(kith_ctx *ctx, const kith_matrix *points, const kin_request *request,
                            const kith_neighbors *out);

/* Queries against a corpus that kin_prepare_rows and kin_prepare_corpus have made ready (for direct
 * metrics, kin_prepare_rows alone). */
kith_status kin_exact_search(kith_ctx *ctx, const kin_prepared *corpus, const kith_matrix *queries,
                             const kin_request *request, const kith_neighbors *out);

/* Both directions from one product. */
kith_status kin_exact_both(kith_ctx *ctx, const kith_matrix *a, const kith_matrix *b,
                           const kin_request *request, const kith_neighbors *ab,
                           const kith_neighbors *ba);

/* Queries that a search takes at a time. */
int64_t kin_exact_stripe(const kin_frame *frame, int64_t wanted);

/* Whether the metric goes through the screen; whether the job does: its way is ours.
 */
bool kin_exact_screens(const kin_distance *distance);
bool kin_exact_job_screens(const kin_request *request);

/* The report's name of what was run, in place of the type of a screen. */
void kin_exact_note_pipeline(kith_ctx *ctx, const kin_pipeline *pipeline);

/* Fills the context's report for a prepared corpus and a finished screen. */
void kin_exact_report(kith_ctx *ctx, const kin_prepared *corpus);

#endif
