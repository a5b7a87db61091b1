/* SPDX-License-Identifier: Apache-2.0
 * One side of a search, its answers in a corpus: what graph, search, radius and chunks have in
 * common; and the ways that stand beside stripes: chunks, a few queries. */
#ifndef KIN_FUSED_SIDE_H
#define KIN_FUSED_SIDE_H

#include "fused/fused_answer.h"
#include "fused/fused_corpus.h"
#include "fused/fused_need.h"

/* The screened lists of all positions of `queries` among those of `corpus`, to a. Many queries are
 * put into the order of the corpus first. */
kith_status kin_fused_screen_side(kin_fused_answers *a, const kin_fused_corpus *corpus,
                                  kin_fused_prepared *queries, const kin_request *request);

/* All queries, in stripes that fit: prepared, screened or computed directly, written. */
kith_status kin_fused_search_stripes(kith_ctx *ctx, const kin_fused_corpus *corpus,
                                     const kin_fused_query *query, kin_fused_tally *tally);

/* Rows that are solved in stripes. solve: rows first .. first + count - 1; the `next` ones behind
 * them may be brought to the device meanwhile (kin_fused_prepare_ahead). */
typedef struct kin_fused_stripes {
    kith_ctx *ctx;
    kin_gpu *gpu;
    int64_t rows;
    int64_t stripe; /* rows at a time */
    bool ahead;
    kith_status (*solve)(void *arg, int64_t first, int64_t count, int64_t next);
    void *arg;
} kin_fused_stripes;

/* A stripe that ran out of device memory is taken again without the next one's rows beside it, then
 * in halves: what the budget promised may be held by others. */
kith_status kin_fused_each_stripe(const kin_fused_stripes *all);

/* Corpora that do not fit: in chunks, lists merged. Without queries: a graph. */
kith_status kin_fused_search_chunks(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                                    const kin_fused_query *query);

/* Tries the short way for a few queries (fused_batch.c), where the time of an answer is what
 * counts. *done is false, and nothing was written, where the job is not of its kind (many queries,
 * equal or degenerate rows, very many neighbours) or where a list overflowed: then the long way is
 * to be taken. */
kith_status kin_fused_batch_search(kith_ctx *ctx, const kin_fused_corpus *corpus,
                                   const kin_fused_query *query, bool *done);

/* A pass over the seeds of a graph that has stages (kin_fused_work_reach), each `run` consecutive
 * positions of the prepared points sorted by what it proved, and rounded again: work has the new
 * set, with centres as before if it had any. Positions that were known before are not valid any
 * more. */
kith_status kin_fused_runs_arrange(kin_fused_work *work, kin_fused_prepared *points, int32_t run);

#endif
