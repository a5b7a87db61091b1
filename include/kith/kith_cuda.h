/* SPDX-License-Identifier: Apache-2.0
 *
 * kith on matrices that already lie in the memory of a GPU. The functions are part of libkith and
 * always there; without a GPU they return KITH_E_UNSUPPORTED and say why.
 *
 *   where   data of every matrix, and every output that is not NULL, is an address in the memory
 *           of one device (cudaMalloc, managed memory, a PyTorch or CuPy tensor). That device is
 *           used: the context must be "auto" or name it, and keeps it until it is freed.
 *           `exclude` of the parameters and a filter stay host memory; groups and query_groups of
 *           one may lie on the device, too, but with the rule each, in kith_cuda_radius, and for an
 *           index by graph.
 *   when    `stream` is a cudaStream_t of that device, or NULL for the default stream. The work
 *           begins after all that the stream holds, so what fills the matrices may still be under
 *           way. Results are complete when the function returns, whichever stream reads them;
 *           but see KITH_ENQUEUE at kith_cuda_index_search.
 *   how     as the functions of kith.h: the same checks, the same bytes. The k nearest within a
 *           radius are made in host memory and copied to `out`; points stay where they are.
 */
#ifndef KITH_KITH_CUDA_H
#define KITH_KITH_CUDA_H

#include "kith/kith.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As kith_graph; where it may choose it goes by what the device of the points takes.
 * params.descent->init must be NULL; both reports and a filter stay host memory. Under a filter
 * that is neither sooner compared pair by pair (small groups, few rows) nor of few groups that find
 * each other points are copied to the host, and the answer back. Returns what it returns, and
 * KITH_E_DEVICE, E_DEVICE_MEMORY. */
KITH_API kith_status kith_cuda_graph(kith_ctx *ctx, const kith_matrix *points,
                                     const kith_search_params *params, const kith_neighbors *out,
                                     kith_report *report, void *stream);

/* As kith_search, whose report kith_ctx_report has; excluded ids and a filter stay host memory, and
 * under one it is as for kith_cuda_graph. */
KITH_API kith_status kith_cuda_search(kith_ctx *ctx, const kith_matrix *corpus,
                                      const kith_matrix *queries, const kith_search_params *params,
                                      const kith_neighbors *out, void *stream);

/* As kith_radius, whose report kith_ctx_report has. radii and filter of the parameters stay host
 * memory, and *out, whose length is not known before, lies there, too; with KITH_RANGES_ON_DEVICE
 * all arrays that kith_ranges_lists shows are memory of the GPU (one of no entries is not to be
 * read), until kith_ranges_free, which comes after all that reads them, and before the end of the
 * context, or of the index, that found them. The tree makes such lists there, at once, if they fit;
 * others come from the host. */
KITH_API kith_status kith_cuda_radius(kith_ctx *ctx, const kith_matrix *corpus,
                                      const kith_matrix *queries, const kith_radius_params *params,
                                      kith_ranges **out, void *stream);

/* As kith_index_create, of points on a GPU; auto is exact. A graph is made there, of which the ids
 * are kept on the host, too; a given one lies in host memory. Points are borrowed where they lie,
 * until kith_index_add or kith_index_remove gives the index rows of its own, or until it is
 * freed. All that kith_index.h says of an index holds of this one; for a file, a change and a
 * filter that is neither a bitmap for all queries nor of small groups they are copied to the host.
 */
KITH_API kith_status kith_cuda_index_create(kith_ctx *ctx, const kith_matrix *points,
                                            const kith_index_params *params, kith_index **out,
                                            void *stream);

/* In flags of kith_search_params, beside those of kith.h: of kith_cuda_index_search alone. */
enum { KITH_ENQUEUE = 1u << 5 };

/* As kith_index_search, of an index that is on a GPU, whether its points came from there or from
 * the host: queries and out lie there. Its report is kith_ctx_report's.
 *
 * With KITH_ENQUEUE in params.flags the call gives the work to the GPU and returns; `stream` goes
 * on behind it: what that is given from now on finds the results complete, with the same bytes, and
 * so does who waits for that stream. Before, nobody else may read out, and nobody may write or free
 * queries, out, or points that the index has borrowed; excluded ids, params and ctx are not needed
 * any more. Calls from several streams take turns.
 *
 *   which   up to 1,024 queries, k up to 1,024, of an exact index by a metric of matrix products,
 *           whose rows all differ (and none of which is zero under cosine, constant under
 *           correlation) and are 2,000,000 at most for 64 queries or more, of the rows' own type
 *           where that is of 8 bits. Everything else, and a call for which there is little memory
 *           or device_allocate, waits, as without the flag, which is as good for who keeps to the
 *           rules above
 *   cost    64 queries at a time: up to so many take as long as without the flag; more take up to
 *           four times as long, since each 64 read the rows again
 *   errors  of arguments, and of a launch, are the call's. A value of a query that the metric does
 *           not allow (NaN) is found later: its row has ids KITH_ID_NONE and distances NaN, other
 *           rows are right. With queries, params and out NULL the call asks nothing: it waits for
 *           what was enqueued before, from whichever stream, and tells since the last such call
 *           the first row and column of such values (KITH_E_DATA), or KITH_E_DEVICE. Of an index
 *           on the processor that does nothing
 *   index   calls that change it come behind, and kith_index_free waits for what was enqueued
 *
 * The report of a search that was enqueued counts no candidates. */
KITH_API kith_status kith_cuda_index_search(kith_ctx *ctx, const kith_index *index,
                                            const kith_matrix *queries,
                                            const kith_search_params *params,
                                            const kith_neighbors *out, void *stream);

/* As kith_index_radius, of such an index: queries lie on its GPU, *out as of kith_cuda_radius. */
KITH_API kith_status kith_cuda_index_radius(kith_ctx *ctx, const kith_index *index,
                                            const kith_matrix *queries,
                                            const kith_radius_params *params, kith_ranges **out,
                                            void *stream);

/* As kith_graph_merge, by a descent alone, whose choice auto is, too: KITH_E_UNSUPPORTED where
 * params ask for an exact one. Ids of both graphs lie in device memory, too. They are not looked at
 * before: an id that is no row of its set is left out. */
KITH_API kith_status kith_cuda_graph_merge(kith_ctx *ctx, const kith_merge_sets *sets,
                                           const kith_search_params *params,
                                           const kith_neighbors *out, kith_report *report,
                                           void *stream);

/* As kith_select: data and ids of the values, and all outputs, lie in device memory. */
KITH_API kith_status kith_cuda_select(kith_ctx *ctx, const kith_values *values,
                                      const kith_select_params *params, const kith_selection *out,
                                      void *stream);

#ifdef __cplusplus
}
#endif
#endif
