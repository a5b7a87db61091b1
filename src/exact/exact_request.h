/* SPDX-License-Identifier: Apache-2.0
 * What an exact engine is asked for, whether it screens, what it will hold, and what it
 * reports. */
#ifndef KIN_EXACT_REQUEST_H
#define KIN_EXACT_REQUEST_H

#include "exact/exact_prepare.h"

struct kin_request;
struct kin_select_method; /* select/select.h */

/* A way from prepared rows to answers that is taken in place of ours. A request brings it; who has
 * some are papers/. */
typedef struct kin_pipeline {
    const char *name; /* of the report's screen */
    /* On the processor, as kin_direct_run and kin_direct_plan; NULL: it is a GPU's alone. */
    kith_status (*run)(kith_ctx *ctx, const kin_prepared *corpus, const kin_prepared *queries,
                       const struct kin_request *request, const kith_neighbors *out);
    void (*plan)(kin_layout *plan, const kin_prepared *corpus, const kin_prepared *queries,
                 const struct kin_request *request, int32_t threads);
    /* fused/fused_answer.h; NULL: it is the processor's alone */
    const struct kin_fused_pipeline *fused;
    const struct kin_tree_gpu_way *way; /* tree/tree_gpu.h: of its tree on a GPU; NULL: none */
    bool tree;                          /* it makes a tree, of the metrics that have one */
} kin_pipeline;

typedef struct kin_request {
    kin_distance distance;
    int64_t k;
    uint32_t flags;
    const uint32_t *exclude;      /* search: by query; may be NULL */
    const kin_pipeline *pipeline; /* NULL: ours */
    bool compares;                /* a search of few queries: no screen, every pair is compared */
    const struct kin_select_method *select; /* of a pipeline; NULL: the fastest */
    kith_method method;                     /* api/ has decided; nothing here reads it */
    int32_t sample; /* of a pipeline: columns for each of the k; 0: as many as suit */
    int32_t batch;  /* of a pipeline: queries at a time, at most; 0: as many as fit */
    bool limited;   /* by radius: engine/ cuts, and engines may leave out what is beyond */
    double radius;
    int32_t tree_height;  /* 0: by the columns; else api/ has checked that the rows allow it */
    int32_t leaf_buffer;  /* of a pipeline: queries that wait for a leaf; 0: by the height */
    int32_t shadow_axes;  /* of a graph on a GPU: in any case so many; -1: bytes; 0: by a trial */
    const double *share;  /* of a pipeline, for comparison: of the rows, those that the processor
                             selects from; NULL: by measured rates */
    kin_within within[2]; /* of queries, or of a and of b in both directions; engines may leave out
                             what is beyond. Not of graphs */
} kin_request;

/* Whether the metric goes through the screen; whether the job does: its way is ours.
 */
bool kin_exact_screens(const kin_distance *distance);
bool kin_exact_job_screens(const kin_request *request);

/* The report's name of what was run, in place of the type of a screen. */
void kin_exact_note_pipeline(kith_ctx *ctx, const kin_pipeline *pipeline);

/* Fills the context's report for a prepared corpus and a finished screen. */
void kin_exact_report(kith_ctx *ctx, const kin_prepared *corpus);

/* ---- What a job will hold at most ------------------------------------------------------------ */

typedef struct kin_plan {
    bool screens;
    uint64_t prepared_bytes; /* what is made of corpus and queries */
    uint64_t state_bytes;    /* candidate lists */
    uint64_t peak_bytes;     /* most that is held at once; outputs are not counted */
    uint64_t least_bytes;    /* the same where the cheapest type does that the job may take */
    uint64_t least_prepared_bytes;
} kin_plan;

/* queries NULL: a graph of the corpus. known: of the rows of the corpus; kin_prepare_unknown where
 * nothing is, for the case that takes most. */
kin_plan kin_plan_exact(const kith_matrix *corpus, const kith_matrix *queries,
                        const kin_request *request, kin_rows_known known, int32_t threads);

#endif
