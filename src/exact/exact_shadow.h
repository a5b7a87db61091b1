/* SPDX-License-Identifier: Apache-2.0
 * Shadows: rows of few columns that are never farther apart than the rows themselves.
 *
 * Let U be an orthonormal basis of a subspace, and s*(x) = (Ux, the length of what U leaves of x).
 * Then |s*(x) - s*(y)| <= |x - y|: Pythagoras for the span, the triangle inequality for the rest.
 * So a screen of shadows discards with proof, and never accepts: what it lets pass is looked at in
 * full before it enters a list. Limits come from full costs and canonical keys alone, so answers
 * are the same bytes whatever the basis is; a bad one costs time (docs/notes/numerics.md,
 * "Shadows").
 *
 * What is computed differs from s*(x) by at most e(x), which is lost beside what rounding loses. */
#ifndef KIN_EXACT_SHADOW_H
#define KIN_EXACT_SHADOW_H

#include "exact/exact_prepare.h"

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

#endif
