/* SPDX-License-Identifier: Apache-2.0
 * A prepared corpus. It keeps the context that made it, which must outlive it: its memory is that
 * context's. Others may search it.
 *
 * It is prepared on one device, for good. On a GPU, `prepared` holds the matrix and the metric
 * alone; a file gets the processor's preparation, which kith_corpus_save then makes for it. With a
 * tree, `prepared` holds the matrix, the metric and the groups of equal rows. */
#ifndef KIN_API_CORPUS_H
#define KIN_API_CORPUS_H

#include "api/api_search.h"
#include "file/file_container.h"
#include "fused/fused_search.h"
#include "tree/tree.h"

struct kith_corpus {
    kith_ctx *home;
    kin_prepared prepared;
    bool has_tree;
    kin_tree tree;
    kin_container *container; /* NULL unless it was opened from a file */
    bool views;               /* preparation and tree lie in the container, too */
    void *rows;               /* points of its own, after a change; else NULL */
    kin_gpu *gpu;             /* its home's, with `fused` on it; NULL on the processor */
    kin_fused_corpus *fused;
    uint64_t bytes;
};

/* Of checked points, `name` in messages. height: what kith_corpus_params says. */
kith_status kin_corpus_make_tree(kith_ctx *ctx, const kith_matrix *points, const char *name,
                                 const kin_distance *distance, int32_t height, kith_corpus *corpus);
/* From corpus->container, of the points that lie in it. */
kith_status kin_corpus_open_tree(kith_ctx *ctx, const char *path, const kith_matrix *points,
                                 const kin_distance *distance, kith_corpus *corpus);
kith_status kin_corpus_search_tree(kith_ctx *ctx, const kith_corpus *corpus, kin_knn_job *job,
                                   const kith_neighbors *out);

/* Arguments that searches and plans share. */
kith_status kin_corpus_check(kith_ctx *ctx, const kith_corpus *corpus);
kith_status kin_corpus_check_search(kith_ctx *ctx, const kith_corpus *corpus,
                                    const kith_search_params *given, kith_search_params *params);

#endif
