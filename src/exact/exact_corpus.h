/* SPDX-License-Identifier: Apache-2.0
 * A corpus made ready for the screen, and queries in its frame. */
#ifndef KIN_EXACT_CORPUS_H
#define KIN_EXACT_CORPUS_H

#include "exact/exact_corpus.h"
#include "exact/exact_prepare.h"

/* ---- Shadows (exact_shadow.c) ---------------------------------------------------------------- */

/* Shadows: rows of few columns that are never farther apart than the rows themselves.
 *
 * Let U be an orthonormal basis of a subspace, and s*(x) = (Ux, the length of what U leaves of x).
 * Then |s*(x) - s*(y)| <= |x - y|: Pythagoras for the span, the triangle inequality for the rest.
 * So a screen of shadows discards with proof, and never accepts: what it lets pass is looked at in
 * full before it enters a list. Limits come from full costs and canonical keys alone, so answers
 * are the same bytes whatever the basis is; a bad one costs time (docs/notes/numerics.md,
 * "Shadows").
 *
 * What is computed differs from s*(x) by at most e(x), which is lost beside what rounding loses. */

/* Axes, and the kernel that shadows are screened with. */
typedef struct kin_shadow_choice {
    const kin_tile_kernel *kernel;
    int32_t axes; /* 0: none; at most as many as a row has columns */
} kin_shadow_choice;

/* What a corpus is prepared for. */
typedef struct kin_shadow_job {
    int64_t k;
    double pairs; /* to be screened */
    int ends;     /* rows that a pair serves: 1 or 2 */
    bool few;     /* one query now and then, to the end of time: shadows of bytes, read from memory;
                     pairs is not read */
    kin_shadow_choice
        given; /* axes above 0: these in any case; only a corpus of no rows has none */
} kin_shadow_job;

/* Whether a corpus of this frame may have shadows: the job is long enough to learn before it. */
bool kin_shadow_may(const kin_frame *frame, int64_t points, const kin_shadow_job *job);
/* A basis from a sample of the corpus' rows, of as many axes as take least for a job, by a trial;
 * none where full rows are screened sooner. */
kith_status kin_shadow_learn(kith_ctx *ctx, const kin_prepared *corpus, const kin_shadow_job *job,
                             kin_shadow *shadow);
/* The shadows of `points` rows of `prepared`, which may be the corpus' or queries'. */
kith_status kin_shadow_cast(kith_ctx *ctx, const kin_shadow *shadow, const kin_prepared *prepared,
                            const uint32_t *ids, int64_t points, kin_set *set);
/* The shape of the shadows that take most of those that may be chosen. */
kin_shadow kin_shadow_shape(const kin_frame *frame);
/* What learning holds beside the corpus' set, and leaves; and casting. */
void kin_shadow_learn_plan(kin_layout *plan, const kin_set *set, int64_t k, int32_t threads,
                           kin_shadow *shape);
void kin_shadow_plan(kin_layout *plan, kin_shadow *shape);
void kin_shadow_cast_plan(kin_layout *plan, const kin_shadow *shape, kin_set *cast,
                          int32_t threads);
void kin_shadow_free(kith_ctx *ctx, kin_shadow *shadow);

/* ---- The corpus ------------------------------------------------------------------------------ */

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
