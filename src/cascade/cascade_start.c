/* SPDX-License-Identifier: Apache-2.0
 *
 * What a descent begins with: what the screen finds near (cascade_screen.c); of inner products, and
 * of metrics that have no screen, what is near under a relative (cascade_relative.c); of metrics
 * that have none, and for who asks for it, lists that are drawn by chance; graphs that are given
 * come first into their lists (cascade_given.c). What runs out of memory is begun again in a
 * narrower scope.
 */
#include "cascade/cascade_run.h"

#include "base/base_try.h"

#include <math.h>

/* What a wider start meets. On an H200 a million points of one Gaussian of intrinsic dimension 24
 * have 0.23 of their neighbours after 35 ms and 6,000 points each, 0.93 after 212 ms and 300,000,
 * where rounds take 500; 400,000 of SIFT 0.55 after 15 and 0.96 after 35 ms. */
static const double POINTS_TO_MEET = 300000.0;
static const double MOST_SHARE = 0.3;

kin_descent_start kin_cascade_start_of(const kin_cascade_run *run)
{
    const kin_descent_start asked = run->request->start;
    if (asked == KIN_DESCENT_START_GRAPH || asked == KIN_DESCENT_START_RANDOM) {
        return asked;
    }
    return run->screened || kin_cascade_is_related(run->request) ? KIN_DESCENT_START_SCREEN
                                                                 : KIN_DESCENT_START_RANDOM;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static kith_status take_relatives(kin_cascade_run *run, const kin_cascade_relatives *relatives)
{
    const kin_cascade_found *found[] = {&relatives->near, &relatives->among};
    run->evaluations += relatives->evaluations;
    for (int i = 0; i < 2; i++) {
        if (found[i]->ids != NULL) {
            run->evaluations += (double)run->count * (double)found[i]->k;
            KIN_TRY(kin_cascade_take_found(run, found[i]));
        }
    }
    return KITH_OK;
}

static kith_status begin(kin_cascade_run *run, kin_descent_start start,
                         const kin_cascade_relatives *relatives)
{
    run->evaluations = 0.0;
    if (relatives->near.ids != NULL) {
        KIN_TRY(kin_cascade_make_empty(run, &run->graph));
        KIN_TRY(take_relatives(run, relatives));
    } else if (start == KIN_DESCENT_START_SCREEN) {
        KIN_TRY(kin_cascade_screen(run, &run->graph));
    } else {
        run->evaluations = (double)run->count * (double)run->graph.length;
        KIN_TRY(kin_cascade_make_empty(run, &run->graph));
        if (start == KIN_DESCENT_START_GRAPH) {
            KIN_TRY(kin_cascade_take_given(run));
            KIN_TRY(take_relatives(run, relatives));
        }
    }
    const int64_t few = kin_min_i64(kin_cascade_start_k(run->request), run->graph.length);
    const int32_t wanted = kin_cascade_knows_reach(run) ? (int32_t)few : run->graph.length;
    KIN_TRY(kin_cascade_fill_up(run, wanted, NULL, 0));
    return kin_gpu_wait(run->on.ctx, run->on.gpu);
}

kith_status kin_cascade_begin(kin_cascade_run *run, kin_descent_start start,
                              const kin_cascade_relatives *relatives)
{
    kith_status status = KITH_OK;
    do {
        status = begin(run, start, relatives);
        if (status != KITH_OK) {
            kin_gpu_free(run->on.gpu, run->graph.words);
            run->graph.words = NULL;
        }
    } while (kin_fused_again(run->on.ctx, run->on.gpu, status));
    return status;
}

kith_status kin_cascade_widen(kin_cascade_run *run, kin_descent_start start, bool *wider)
{
    const double share = fmin(MOST_SHARE, POINTS_TO_MEET / (double)run->count);
    const double evaluations = run->evaluations;
    const kin_cascade_relatives none = {0}; /* metrics whose sets have balls have no relatives */
    *wider = start == KIN_DESCENT_START_SCREEN && run->points.set.centres != NULL &&
             run->points.set.rounded != NULL && !kin_fused_is_wide(run->count) &&
             share > 2.0 * run->near_share;
    if (!*wider) {
        return KITH_OK;
    }
    run->near_share = share;
    kin_gpu_free(run->on.gpu, run->graph.words);
    run->graph.words = NULL;
    KIN_TRY(kin_cascade_begin(run, start, &none));
    run->evaluations += evaluations;
    KIN_TRY(kin_cascade_refine(run));
    run->watch.count = 0;
    return kin_cascade_watch_place(run);
}
