/* SPDX-License-Identifier: Apache-2.0
 * Exact jobs: what was asked for, checked; by which engine it is done, all pairs or the tree, by
 * which pipeline, and on which device; and cut by a radius. Jobs inside jobs are kin_call's
 * (engine_call.h). */
#ifndef KIN_ENGINE_EXACT_H
#define KIN_ENGINE_EXACT_H

#include "engine/engine_call.h"

/* ---- What was asked for (engine_job.c) ------------------------------------------------------- */

/* Checked arguments. */
typedef struct kin_knn_job {
    kith_matrix corpus;
    kith_matrix queries;
    bool graph; /* no queries: each row of the corpus asks */
    kin_request request;
} kin_knn_job;
static inline const kith_matrix *kin_knn_queries(const kin_knn_job *job)
{
    return job->graph ? NULL : &job->queries;
}

/* Both directions at once: of rows of a in b, and back. */
typedef struct kin_both_job {
    kith_matrix a;
    kith_matrix b;
    kin_request request; /* within: of a, of b */
} kin_both_job;

/* Of numbers that were checked; NULL: ours. */
const kin_pipeline *kin_pipeline_of(kith_pipeline number);

/* What the parameters, which were checked, ask of an engine. */
kin_request kin_engine_request(const kith_search_params *params, const kin_distance *distance);

/* As kin_device_enter; a pipeline that is a GPU's alone is never the processor's:
 * KITH_E_UNSUPPORTED. */
kith_status kin_pipeline_enter(kith_ctx *ctx, const kin_request *request, double pairs,
                               kin_gpu **gpu);
/* Whether a GPU alone has the pipeline: it never yields. */
bool kin_pipeline_needs_gpu(const kin_request *request);
/* Before the processor begins: KITH_E_UNSUPPORTED for what it cannot do alone. */
kith_status kin_pipeline_check_cpu(kith_ctx *ctx, const kin_request *request);

/* ---- All pairs, or the tree ----------------------------------------------------------------- */

/* KITH_E_ARGUMENT for a tree of a metric, or with a pipeline, that has none. */
kith_status kin_method_check(kith_ctx *ctx, const kin_request *request);
/* KITH_E_ARGUMENT for a tree that so many rows do not fill: a leaf has 16 of them at least. 0 is
 * every corpus' own height. */
kith_status kin_method_check_height(kith_ctx *ctx, int32_t height, int64_t rows);
/* KITH_E_UNSUPPORTED where the tree was asked for and cannot do it: "prepared corpora have
 * none". */
kith_status kin_method_refuse_tree(kith_ctx *ctx, const kin_request *request, const char *why);
/* As kin_pipeline_enter, after kin_method_check; where a tree was named, by what trees take:
 * KITH_E_UNSUPPORTED for one that the GPU which was named, too, does not have. queries NULL: a
 * graph. */
kith_status kin_method_enter(kith_ctx *ctx, const kin_request *request, const kith_matrix *corpus,
                             const kith_matrix *queries, kin_gpu **gpu);
/* KITH_E_UNSUPPORTED for a tree that a GPU does not have, where it was asked for. */
kith_status kin_method_check_gpu(kith_ctx *ctx, const kin_request *request);
/* Whether a GPU solves it by the tree: it was named, or may be faster. */
bool kin_method_takes_tree_gpu(const kin_request *request, const kith_matrix *corpus,
                               const kith_matrix *queries);
/* On a GPU, by the tree or by all pairs; place as in exact_search_gpu.h. */
kith_status kin_method_knn_on_gpu(kith_ctx *ctx, kin_gpu *gpu, const kin_knn_job *job,
                                  uint32_t place, const kith_neighbors *out);
/* Whether the processor solves it by the tree: it was named, or may be faster; queries NULL: a
 * graph. */
bool kin_method_takes_tree(const kin_request *request, const kith_matrix *corpus,
                           const kith_matrix *queries);
/* Where no tree answers a search on the processor: whether its queries are too few for a screen, or
 * for an order (request->compares, unordered). */
void kin_method_set_few(kin_request *request, const kith_matrix *corpus,
                        const kith_matrix *queries);
/* Whether neighbours of each set in the other are found in two searches, since both are for the
 * tree, which has no product that would serve both directions. */
bool kin_method_goes_twice(const kin_request *request, const kith_matrix *one,
                           const kith_matrix *other);

/* ---- Solved (engine_exact.c) ----------------------------------------------------------------- */

/* Of request.within (screen_list.h) engines may make use: slots of the answer that they do not
 * write stay as they are. */
kith_status kin_engine_knn(kith_ctx *ctx, const kin_knn_job *job, const kith_neighbors *out);
kith_status kin_engine_both(kith_ctx *ctx, const kin_both_job *job, const kith_neighbors *ab,
                            const kith_neighbors *ba);

/* A corpus that is prepared for many jobs, on a GPU or by the processor; neither: each job prepares
 * it for itself. */
typedef struct kin_radius_kept {
    struct kin_exact_gpu_corpus *resident;
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
