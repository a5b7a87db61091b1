/* SPDX-License-Identifier: Apache-2.0
 * A prepared corpus. It has a context of its own, which is never seen outside: its memory and its
 * GPU are that one's, so that the context that made it may go. What makes or changes a corpus
 * computes in it, with the settings of the caller's; searches compute in the caller's, and only
 * read. Searches wait for changes, and changes for searches; those that come while a change waits,
 * come behind it.
 *
 * It is prepared on one device, for good. On a GPU, `prepared` holds the matrix and the metric
 * alone; a file gets the processor's preparation, which kith_corpus_save then makes for it. With a
 * tree, `prepared` holds the matrix, the metric and the groups of equal rows. */
#ifndef KIN_API_CORPUS_H
#define KIN_API_CORPUS_H

#include "api/api_check.h"
#include "engine/engine_call.h"
#include "file/file_container.h"
#include "fused/fused_search.h"
#include "host/host_threads.h"
#include "tree/tree.h"

struct kith_corpus {
    kith_ctx *own;
    kin_guard *guard;
    kin_prepared prepared;
    bool has_tree;
    kin_tree tree;
    kin_container *container; /* NULL unless it was opened from a file */
    bool views;               /* preparation and tree lie in the container, too */
    void *rows;               /* points of its own, after a change; else NULL */
    kin_gpu *gpu;             /* its own, with `fused` on it; NULL on the processor */
    kin_fused_corpus *fused;
};

/* A call that makes or changes a corpus: works in `own` between the two. */
typedef struct kin_corpus_call {
    kith_ctx *ctx;
    kith_ctx *own;
    kin_call call; /* of own */
} kin_corpus_call;

kith_status kin_corpus_call_begin(kith_ctx *ctx, kith_ctx *own, kin_corpus_call *call);
/* Report, failure and peak become the caller's; hands the status on. */
kith_status kin_corpus_call_end(kin_corpus_call *call, kith_status status);

/* For reading, until kin_corpus_leave, which counts the corpus' memory in the call's peak. Refuses
 * NULL. */
kith_status kin_corpus_enter(kith_ctx *ctx, const kith_corpus *corpus);
void kin_corpus_leave(kith_ctx *ctx, const kith_corpus *corpus);

/* The corpus' GPU for this thread, until kin_device_leave. */
void kin_corpus_enter_gpu(const kith_corpus *corpus);

/* Arguments that searches and plans share. The metric of a call must be 0 or the corpus' own. */
kith_status kin_corpus_check_metric(kith_ctx *ctx, const kith_corpus *corpus, kith_metric metric);
/* The method of a request; of a corpus with a tree, auto becomes tree. */
kith_status kin_corpus_check_method(kith_ctx *ctx, const kith_corpus *corpus, kin_request *request);
kith_status kin_corpus_check_search(kith_ctx *ctx, const kith_corpus *corpus,
                                    const kith_search_params *given, kith_search_params *params);

#endif
