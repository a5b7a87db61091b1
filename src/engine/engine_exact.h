/* SPDX-License-Identifier: Apache-2.0
 * Exact jobs, solved: on a GPU or by the processor, by the tree or by all pairs, and cut by a
 * radius. Jobs inside jobs are kin_call's (engine_call.h). */
#ifndef KIN_ENGINE_EXACT_H
#define KIN_ENGINE_EXACT_H

#include "engine/engine_job.h"

/* Of request.within (exact_list.h) engines may make use: slots of the answer that they do not write
 * stay as they are. */
kith_status kin_engine_graph(kith_ctx *ctx, const kin_graph_job *job, const kith_neighbors *out);
kith_status kin_engine_knn(kith_ctx *ctx, const kin_knn_job *job, const kith_neighbors *out);
kith_status kin_engine_both(kith_ctx *ctx, const kin_both_job *job, const kith_neighbors *ab,
                            const kith_neighbors *ba);

/* A corpus that is prepared for many jobs, on a GPU or by the processor; neither: each job prepares
 * it for itself. */
typedef struct kin_radius_kept {
    struct kin_fused_corpus *fused;
    kin_prepared *prepared;
} kin_radius_kept;

/* All within a radius. Checked arguments. */
typedef struct kin_radius_job {
    kith_matrix corpus;
    const kith_matrix *queries; /* NULL: a graph */
    kin_radius_request request;
    kith_method method;
    kin_radius_kept kept; /* the corpus */
} kin_radius_job;
/* *ranges is all zero before; what it got stays its own when this fails. */
kith_status kin_engine_radius_on_gpu(kith_ctx *ctx, kin_gpu *gpu, const kin_radius_job *job,
                                     uint32_t place, kith_ranges *ranges);
/* The same wherever it is done. */
kith_status kin_engine_radius(kith_ctx *ctx, const kin_radius_job *job, kith_ranges *ranges);
/* *kept: the corpus of a job without any, prepared for it and for others; neither where a tree may
 * answer, and where a GPU would have little room beside it. */
kith_status kin_engine_radius_keep(kith_ctx *ctx, const kin_radius_job *job, kin_radius_kept *kept);
void kin_engine_radius_drop(kith_ctx *ctx, kin_radius_kept *kept);

/* The job's corpus, which waits for queries of the type of its queries and for its k. Freed on
 * failure. `name` stands in messages. */
kith_status kin_engine_prepare(kith_ctx *ctx, const kin_knn_job *job, const char *name,
                               kin_prepared *prepared);

/* ---- A radius --------------------------------------------------------------------------------
 *
 * The k nearest within a radius: whatever engine found the k nearest, what is beyond is cut off by
 * the canonical distance. An engine may leave out what is beyond (the tree does): its slots are
 * empty from the start. */
typedef struct kin_limit {
    kith_ctx *ctx;
    kith_metric metric;
    bool limited; /* else nothing is done */
    double radius;
    kith_neighbors out; /* what an engine writes: the caller's table, and float64 distances */
    double *own;        /* those, where the caller has none */
    bool found;         /* an engine has written, or may have */
} kin_limit;

/* out: in host memory. */
kith_status kin_limit_begin(kith_ctx *ctx, const kin_request *request, const kith_neighbors *out,
                            kin_limit *limit);
/* Cuts where status is KITH_OK, and hands it on. */
kith_status kin_limit_end(kin_limit *limit, kith_status status);
/* Nothing was answered. Hands the status on. */
kith_status kin_limit_drop(kin_limit *limit, kith_status status);
/* Most that kin_limit_begin takes. */
uint64_t kin_limit_bytes(const kin_request *request, int64_t rows);

/* ---- Pairs (engine_pairs.c) ------------------------------------------------------------------ */

/* Every pair of rows within a radius, once, in chunks (kith_pairs.h). */

/* Checked arguments; values were checked, too. */
typedef struct kin_pairs_job {
    kith_matrix points;
    kith_matrix others; /* of one set those again */
    bool one_set;
    kith_pairs_params params;
    bool filters;
    kith_filter filter;
    kin_distance distance;
    struct kin_pairs_file *file; /* NULL, or open, to be written */
} kin_pairs_job;

kith_status kin_engine_pairs(kith_ctx *ctx, const kin_pairs_job *job, kith_pairs_report *report);
kith_status kin_engine_pairs_plan(kith_ctx *ctx, const kin_pairs_job *job, kith_pairs_plan *plan);

/* ---- Rows that pairs connect, and rows to keep (engine_components.c) ------------------------- */

typedef struct kin_components {
    int64_t rows;
    kith_keep keep;
    uint32_t *parent; /* of each row one of its component with a smaller id, or itself; NULL: nobody
                         asks */
    uint8_t *kept;    /* NULL: nobody asks */
    uint32_t *degree; /* central: neighbours; and the best row by the component's smallest */
    uint32_t *best;
    void *block;
} kin_components;

/* The job's labels and kept rows, either of which may be NULL. */
kith_status kin_components_begin(kith_ctx *ctx, const kin_pairs_job *job,
                                 kin_components *components);
/* Pairs of one set, by rising i < j, behind those that came before. */
kith_status kin_components_add(kith_ctx *ctx, const kin_components *components,
                               const kith_pairs *pairs);
/* Labels and kept rows become those of the pairs so far. */
void kin_components_end(kith_ctx *ctx, kin_components *components);

#endif
