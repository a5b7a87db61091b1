/* SPDX-License-Identifier: Apache-2.0
 * A corpus made ready for the screen, and queries in its frame. */
#ifndef KIN_EXACT_CORPUS_H
#define KIN_EXACT_CORPUS_H

#include "exact/exact_shadow.h"

/* An order in which near ones stand together, the frame of a corpus and its rounded copy. integer:
 * see kin_frame_is_integer. k: ids a row that will be asked for, by which the cheap type is chosen.
 */
kith_status kin_prepare_set(kith_ctx *ctx, bool integer, int64_t k, kin_prepared *prepared);
/* And the cover, for those who skip what is far. */
kith_status kin_prepare_corpus(kith_ctx *ctx, bool integer, int64_t k, kin_prepared *prepared);
/* *use: the corpus, or where it is of bytes that wait for bytes and is asked with something else,
 * *again, which is made then; it is all zero before and the caller's to free. */
kith_status kin_prepare_corpus_for(kith_ctx *ctx, const kin_prepared *corpus,
                                   const kith_matrix *queries, int64_t k, kin_prepared *again,
                                   const kin_prepared **use);

/* Shadows of a corpus that is prepared, where they are worth it: its set then lies as lines, for
 * kin_exact_graph, kin_exact_search and kin_exact_both alone. Where there is no memory for them it
 * stays as it was. */
kith_status kin_prepare_shadows(kith_ctx *ctx, const kin_shadow_job *job, kin_prepared *prepared);
/* Where a job failed for lack of memory and its corpus has shadows: takes them away, and the
 * failure with them; *status: of that. True: it may be tried again. */
bool kin_prepare_drop_shadows(kith_ctx *ctx, kin_prepared *prepared, kith_status *status);

/* Queries `first` .. `first + count - 1` of order[] as their corpus is. May be called again for
 * other queries. */
kith_status kin_prepare_queries(kith_ctx *ctx, const kin_prepared *corpus, int64_t first,
                                int64_t count, kin_prepared *prepared);

#endif
