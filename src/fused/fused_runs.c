/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A gate, which many rows share, is as wide as the widest threshold among them. So rows that
 * stand together are put in the order of their reach (fused_arrange.cu): within runs of several
 * tiles, or within each tile where tiles must keep their points.
 */
#include "fused/fused_runs.h"

#include "base/base_try.h"

kith_status kin_fused_runs_arrange(kin_fused_work *work, kin_fused_prepared *points, int32_t run)
{
    const kin_fused_device *on = &work->on;
    const kin_fused_arrange job = {
        .points = work->rows.points, .run = run, .ids = points->ids, .reach = work->lists.reach};
    const kin_fused_set before = work->rows;
    KIN_TRY(kin_fused_work_reach(work));
    KIN_TRY(
        kin_gpu_check(on->ctx, on->gpu, on->kernels->arrange(on->stream, &job), "arranging rows"));
    KIN_TRY(kin_fused_prepared_round(on->ctx, on->gpu, points));
    work->rows = points->set;
    work->rows.centres = before.centres; /* or NULL where none are skipped */
    work->cols = work->rows;
    return KITH_OK;
}
