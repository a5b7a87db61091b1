/* SPDX-License-Identifier: Apache-2.0
 *
 * The course of kith.h goes on: points that are prepared once, searched many times, and changed.
 * kith.h includes this file, nobody else needs to. */
#ifndef KITH_KITH_INDEX_H
#define KITH_KITH_INDEX_H

#include "kith/kith.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 6. An index ---------------------------------------------------------------------------- */

/* Points that are searched more than once. What a search needs beside its queries is made once, on
 * the device that the context of its creation computes on, and is searched there:
 *
 * - exact  rounded copy, norms, order, groups of equal rows
 * - tree   a buffer k-d tree
 * - graph  a k-NN graph and what walks need: approximate
 *
 * All are on a GPU where the context of its creation names one, exact also with "auto" where a
 * thousand queries would pay for it; a tree there has up to 64 columns and finds up to 65536
 * neighbours, more of them KITH_E_UNSUPPORTED. Under a filter, and where ids are left out, a graph
 * on a GPU is not walked on: all that is allowed is compared, and the answer is exact. Of a context
 * that names several GPUs each gets a copy of what is made, and they divide many queries that lie
 * in host memory.
 *
 * The answers are those of kith_search by that method on that device, to the byte. An index keeps
 * points.data until it is freed or changed, and no context, of which the allocator of its maker's
 * alone must stay. Its memory counts while a call makes or changes it. Contexts in any threads may
 * search, save and change it at once: a change waits for searches (of a GPU one at a time), and
 * what comes later for it, so that a progress function must not call for the same index. A forked
 * process has it, but for GPUs. */
typedef struct kith_index kith_index;

/* Of a graph that is made, unless it is said. */
enum { KITH_INDEX_K = 24 };
#define KITH_INDEX_RECALL 0.95

typedef struct kith_index_params {
    uint32_t struct_size;        /* set by kith_index_params_default() */
    kith_metric metric;          /* 0 = KITH_EUCLIDEAN; KITH_CUSTOM with a graph alone */
    kith_method method;          /* auto: exact */
    int32_t tree_height;         /* of a tree, as in kith_search_params */
    const kith_neighbors *graph; /* graph: to walk on, of the points in this metric, of any origin
                                    (some 16 to 32 neighbours each do well); its ids are copied.
                                    NULL: one is made */
    int64_t k;     /* graph: neighbours a row of one that is made, or all there are while these are
                      fewer; 0 = KITH_INDEX_K */
    double recall; /* graph: of one that is made, and of what changes it; 0 = KITH_INDEX_RECALL, or
                      1 where a given graph is certified. 1 = exact */
    uint64_t seed; /* graph: of one that is made, and of what changes it */
    kith_distance_fn custom; /* for KITH_CUSTOM */
    void *custom_arg;
    const double *period; /* as in kith_search_params, of an exact index or a tree; copied. NULL =
                             none */
} kith_index_params;

static inline kith_index_params kith_index_params_default(void)
{
    kith_index_params params;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    return params;
}

/* Cost: some passes over the points; a tree is sorted besides, a graph is made. Returns
 * KITH_E_ARGUMENT, E_DATA (names row and column), E_MEMORY, E_LIMIT, E_UNSUPPORTED, E_CANCELLED. */
KITH_API kith_status kith_index_create(kith_ctx *ctx, const kith_matrix *points,
                                       const kith_index_params *params, kith_index **out);
/* As kith_search; params.metric is 0 or the index' own, the method auto or its own, tree_height 0,
 * custom NULL or its own. A graph or a tree that is kept on the processor is searched there,
 * and is KITH_E_UNSUPPORTED where the context names a GPU; so is any other method than the index'
 * own (search the points themselves: kith_index_inspect has them). params.walk->graph is NULL. */
KITH_API kith_status kith_index_search(kith_ctx *ctx, const kith_index *index,
                                       const kith_matrix *queries, const kith_search_params *params,
                                       const kith_neighbors *out, kith_report *report);
/* The bytes of kith_radius, where the index is and by what it is; metric and method as above.
 * KITH_E_UNSUPPORTED of a graph. */
KITH_API kith_status kith_index_radius(kith_ctx *ctx, const kith_index *index,
                                       const kith_matrix *queries, const kith_radius_params *params,
                                       kith_ranges **out);
/* What kith_index_search of a tree will hold beside it; KITH_E_UNSUPPORTED of another index. */
KITH_API kith_status kith_index_plan(kith_ctx *ctx, const kith_index *index,
                                     const kith_matrix *queries, const kith_search_params *params,
                                     kith_plan *plan);
/* Rows come and go: what is added gets the ids behind the last one, and where rows are removed
 * later ones move up, as in numpy.delete (ids in any order, also twice). Afterwards an exact index
 * or a tree gives the bytes that a new one of these rows gives; a graph gets the neighbours of new
 * rows, and others of rows that lost theirs, and keeps its recall. From then on the index has its
 * points for itself, the caller's and a mapped file's are not kept; an exact index of rows on a GPU
 * has them there. On failure it is what it was; a removal that is cancelled when all its rows are
 * out is completed. points: of the same cols and dtype; those that come to an exact index of rows
 * on a GPU, and to no other, may lie on any GPU, row behind row, complete, and left alone until
 * then. At least one row must be left, with a graph two. Cost: a copy of the points, and of a tree
 * a hash of each and what changes in it; a tree on a GPU, and an exact index that loses rows there,
 * are made anew beside what they were; rows that come to an exact index of rows on a GPU find its
 * frame and order, and cost a pass over all; of a graph kith_graph_merge with the graph of what is
 * added, and kith_graph_remove, and walks are prepared anew, where the index is. */
KITH_API kith_status kith_index_add(kith_ctx *ctx, kith_index *index, const kith_matrix *points);
KITH_API kith_status kith_index_remove(kith_ctx *ctx, kith_index *index, const uint32_t *ids,
                                       int64_t count);
/* Points and preparation in one .kith file, written whole or not at all. The preparation is the
 * processor's; of an index on a GPU it is made for the file. Of a graph its ids are kept, and
 * walks are prepared when it is opened. Not of KITH_CUSTOM (KITH_E_UNSUPPORTED). */
KITH_API kith_status kith_index_save(kith_ctx *ctx, const kith_index *index, const char *path);
/* Maps such a file; points and preparation stay in it. On a GPU the points of an exact index
 * are prepared anew, and a tree is made of them, or walks are prepared. Arrays are checked as far
 * as a search needs to end and to read nothing outside of them; a file with forged numbers and
 * checksums gives wrong neighbours. Statuses as in chapter 9.
 */
KITH_API kith_status kith_index_open(kith_ctx *ctx, const char *path, kith_index **out);

typedef struct kith_index_info {
    uint32_t struct_size; /* set by the caller to sizeof(kith_index_info) */
    kith_metric metric;
    kith_method method;   /* exact, tree or graph */
    int32_t device;       /* the number of the GPU that has it, of several the first; -1: the
                             processor's */
    kith_matrix points;   /* a view, valid until the index is changed, by any thread, or freed; of
                             kith_cuda_index_create: device memory, of a tree or a graph until it
                             is changed */
    int64_t k;            /* neighbours a row of the graph; 0: there is none */
    uint64_t bytes;       /* memory that it holds, points apart */
    const double *period; /* its copy, one a column; NULL: it has none */
} kith_index_info;
/* Returns KITH_E_ARGUMENT: an argument is NULL, or struct_size is not set. */
KITH_API kith_status kith_index_inspect(const kith_index *index, kith_index_info *info);
KITH_API void kith_index_free(kith_index *index);

#ifdef __cplusplus
}
#endif
#endif
