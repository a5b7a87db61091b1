/* SPDX-License-Identifier: Apache-2.0
 * What kith_papers.h names: rows for those who may be asked for one (api/). Methods of selection
 * that papers have and `auto` never takes; pipelines, and their parts. */
#ifndef KIN_PAPERS_H
#define KIN_PAPERS_H

#include "kith/kith_papers.h"
#include "papers/papers_kernels.h"
#include "tree/tree_gpu.h"

/* *pipeline: NULL for KITH_PIPELINE_FUSED, which is ours. False where the number is no pipeline's.
 */
bool kin_papers_pipeline(kith_pipeline number, const kin_pipeline **pipeline);

/* ---- MATRIX ---------------------------------------------------------------------------------- */

/* papers_matrix.c, on the processor: the k first of each query by request->select, for every k;
 * metrics without a product take kin_direct_run. queries == corpus: a graph. Both after
 * kin_prepare_rows; they may be the ones of a graph that was prepared as queries. */
kith_status kin_papers_matrix_run(kith_ctx *ctx, const kin_prepared *corpus,
                                  const kin_prepared *queries, const kin_request *request,
                                  const kith_neighbors *out);
/* What it holds beside the rows; of both only matrix and distance are read. */
void kin_papers_matrix_plan(kin_layout *plan, const kin_prepared *corpus,
                            const kin_prepared *queries, const kin_request *request,
                            int32_t threads);

/* papers_matrix_gpu.c: costs written as a matrix, a named method of selection on it. */
extern const kin_exact_gpu_pipeline kin_papers_matrix;

/* ---- HYBRID ---------------------------------------------------------------------------------- */

/* papers_hybrid.c: a GPU prunes and computes keys, processor and GPU select. */
extern const kin_exact_gpu_pipeline kin_papers_hybrid;

/* ---- BUFFER_TREE ----------------------------------------------------------------------------- */

/* papers_buffer_tree.c, on the processor: as the two of MATRIX, for the metrics that have a tree.
 */
kith_status kin_papers_buffer_tree_run(kith_ctx *ctx, const kin_prepared *corpus,
                                       const kin_prepared *queries, const kin_request *request,
                                       const kith_neighbors *out);
void kin_papers_buffer_tree_plan(kin_layout *plan, const kin_prepared *corpus,
                                 const kin_prepared *queries, const kin_request *request,
                                 int32_t threads);

/* papers_buffer_tree_gpu.c: up to 32 columns and k = 1,024. */
extern const kin_tree_gpu_way kin_papers_buffer_tree;

/* ---- Methods of selection -------------------------------------------------------------------- */

/* papers_insertion.c, papers_heap.c, papers_merge_queue.c (switches buffer and group, and sizes;
 * aligned means nothing where a row has one thread), papers_bitonic.c, papers_threshold_heap.c */
#define KIN_PAPERS_DECLARE(NAME, number, name, switches) \
    const kin_select_body *kin_papers_##name(kin_isa isa);
KITH_PAPERS_SELECT_MAP(KIN_PAPERS_DECLARE)
#undef KIN_PAPERS_DECLARE

/* The papers', or else ours; NULL where the number is neither's. */
const kin_select_method *kin_papers_select_method(kith_select_method number);

#endif
