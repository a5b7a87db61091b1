/* SPDX-License-Identifier: Apache-2.0 */
#include "fused/fused_lists.h"

#include "base/base_size.h"
#include "base/base_try.h"

kin_fused_set kin_fused_set_part(const kin_fused_set *set, int64_t first, int64_t count)
{
    kin_fused_set part = *set;
    part.points = kin_min_i64(count, set->points - first);
    part.padded = kin_round_up(part.points, KIN_FUSED_BLOCK);
    part.rounded += first * set->frame.row_bytes;
    part.facts += first;
    part.half += first;
    part.ids = set->ids == NULL ? NULL : set->ids + first;
    if (set->centres != NULL) {
        part.centres += first / KIN_FUSED_TILE * set->frame.cols;
        part.radii += first / KIN_FUSED_TILE;
    }
    return part;
}

kith_status kin_fused_lists_make(const kin_fused_device *on, const kin_fused_set *set, int64_t k,
                                 int32_t capacity, kin_fused_lists *lists)
{
    const uint64_t rows = (uint64_t)set->padded;
    const int64_t padding = set->padded - set->points;
    double closed[KIN_FUSED_BLOCK];
    kith_status status = KITH_OK;
    *lists = (kin_fused_lists){.rows = set->padded, .k = (int32_t)k, .capacity = capacity};
    KIN_TRY_GOTO(status,
                 kin_gpu_alloc(on->ctx, on->gpu, &lists->words,
                               kin_size_mul(rows, (uint64_t)capacity), sizeof *lists->words,
                               "candidate lists"),
                 done);
    KIN_TRY_GOTO(status,
                 kin_gpu_alloc(on->ctx, on->gpu, &lists->counts, rows, sizeof *lists->counts,
                               "candidate counts"),
                 done);
    KIN_TRY_GOTO(status,
                 kin_gpu_alloc(on->ctx, on->gpu, &lists->reach, rows, sizeof *lists->reach,
                               "row thresholds"),
                 done);
    KIN_TRY_GOTO(
        status,
        kin_gpu_alloc(on->ctx, on->gpu, &lists->lost, rows, sizeof *lists->lost, "row flags"),
        done);
    KIN_TRY_GOTO(status,
                 kin_gpu_fill(on->ctx, on->gpu, lists->counts, 0, rows * sizeof *lists->counts),
                 done);
    KIN_TRY_GOTO(status, kin_gpu_fill(on->ctx, on->gpu, lists->lost, 0, rows * sizeof *lists->lost),
                 done);
    KIN_TRY_GOTO(status,
                 kin_gpu_fill(on->ctx, on->gpu, lists->reach, KIN_FUSED_NO_REACH_BYTE,
                              rows * sizeof *lists->reach),
                 done);
    for (int64_t i = 0; i < padding; i++) {
        closed[i] = set->frame.bound == KIN_BOUND_INTEGER ? -1.0 : -INFINITY;
    }
    if (padding > 0) {
        KIN_TRY_GOTO(status,
                     kin_gpu_upload(on->ctx, on->gpu, lists->reach + set->points, closed,
                                    (uint64_t)padding * sizeof *closed),
                     done);
    }
done:
    if (status != KITH_OK) {
        kin_fused_lists_free(on, lists);
    }
    return status;
}

void kin_fused_lists_free(const kin_fused_device *on, kin_fused_lists *lists)
{
    kin_gpu_free(on->gpu, lists->lost);
    kin_gpu_free(on->gpu, lists->reach);
    kin_gpu_free(on->gpu, lists->counts);
    kin_gpu_free(on->gpu, lists->words);
    *lists = (kin_fused_lists){0};
}

kith_status kin_fused_worst_make(const kin_fused_device *on, const kin_fused_set *set,
                                 kin_fused_worst **worst)
{
    KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, worst, (uint64_t)(set->padded / KIN_FUSED_TILE),
                          sizeof **worst, "the worst of tiles"));
    const kin_fused_tighten job = {.set = *set, .cols_set = *set, .worst = *worst};
    return kin_gpu_check(on->ctx, on->gpu, on->kernels->tighten(on->stream, &job),
                         "finding the worst of tiles");
}
