/* SPDX-License-Identifier: Apache-2.0
 * Exact jobs: what was asked for, checked; by which engine it is done, all pairs or the tree, by
 * which pipeline, and on which device. */
#ifndef KIN_ENGINE_JOB_H
#define KIN_ENGINE_JOB_H

#include "engine/engine_device.h"

/* Checked arguments. */
typedef struct kin_graph_job {
    kith_matrix points;
    kin_request request;
} kin_graph_job;

typedef struct kin_knn_job {
    kith_matrix corpus;
    kith_matrix queries;
    kin_request request;
} kin_knn_job;

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
/* As kin_device_yields; hybrid never does. */
bool kin_pipeline_yields(kith_ctx *ctx, const kin_request *request, kith_status status);
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
/* On a GPU, by the tree or by all pairs; place as in fused_search.h. */
kith_status kin_method_graph_on_gpu(kith_ctx *ctx, kin_gpu *gpu, const kin_graph_job *job,
                                    uint32_t place, const kith_neighbors *out);
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

#endif
