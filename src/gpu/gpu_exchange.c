/* SPDX-License-Identifier: Apache-2.0
 * What members of a team say and send to each other in lockstep: all of it between two meetings
 * (gpu_team.h). */
#include "base/base_size.h"
#include "base/base_try.h"
#include "gpu/gpu_team.h"

kith_status kin_gpu_copy_from(kith_ctx *ctx, kin_gpu *gpu, int32_t part, void *to, const void *from,
                              uint64_t bytes)
{
    if (bytes == 0) {
        return KITH_OK;
    }
    const int32_t index = kin_gpu_index_of(gpu, part);
    return kin_gpu_check(ctx, gpu, gpu->module->ops->copy_peer(gpu->stream, to, from, index, bytes),
                         "copying from another GPU");
}

kith_status kin_gpu_agree(kin_gpu *gpu, uint64_t own, uint64_t *least)
{
    *least = own;
    if (gpu->seat == NULL) {
        return KITH_OK;
    }
    kin_gpu_show(gpu, &own);
    KIN_TRY(kin_gpu_meet(gpu, KITH_OK));
    for (int32_t p = 0; p < gpu->seat->parts; p++) {
        const uint64_t given = *(const uint64_t *)kin_gpu_shown(gpu, p);
        *least = given < *least ? given : *least;
    }
    return kin_gpu_meet(gpu, KITH_OK);
}

kith_status kin_gpu_add_up(kin_gpu *gpu, double own, double *sum)
{
    *sum = own;
    if (gpu->seat == NULL) {
        return KITH_OK;
    }
    kin_gpu_show(gpu, &own);
    KIN_TRY(kin_gpu_meet(gpu, KITH_OK));
    *sum = 0.0;
    for (int32_t p = 0; p < gpu->seat->parts; p++) {
        *sum += *(const double *)kin_gpu_shown(gpu, p);
    }
    return kin_gpu_meet(gpu, KITH_OK);
}

static kith_status fetch_all(kith_ctx *ctx, kin_gpu *gpu, void *base, uint64_t item_bytes,
                             const int64_t *firsts)
{
    const int32_t parts = gpu->seat->parts;
    for (int32_t turn = 1; turn < parts; turn++) {
        const int32_t p = (gpu->seat->part + turn) % parts;
        const uint64_t at = (uint64_t)firsts[p] * item_bytes;
        const uint64_t bytes = (uint64_t)(firsts[p + 1] - firsts[p]) * item_bytes;
        KIN_TRY(kin_gpu_copy_from(ctx, gpu, p, (char *)base + at,
                                  (const char *)kin_gpu_shown(gpu, p) + at, bytes));
    }
    return kin_gpu_wait(ctx, gpu);
}

kith_status kin_gpu_gather(kith_ctx *ctx, kin_gpu *gpu, void *base, uint64_t item_bytes,
                           const int64_t *firsts)
{
    if (gpu->seat == NULL) {
        return KITH_OK;
    }
    const kith_status made = kin_gpu_wait(ctx, gpu);
    kin_gpu_show(gpu, base);
    KIN_TRY(kin_gpu_meet(gpu, made));
    return kin_gpu_meet(gpu, fetch_all(ctx, gpu, base, item_bytes, firsts));
}

void kin_gpu_divide(int64_t count, int64_t unit, int32_t parts, int64_t *firsts)
{
    const int64_t units = kin_ceil_div(count, unit);
    for (int32_t p = 0; p <= parts; p++) {
        firsts[p] = kin_min_i64(count, units * p / parts * unit);
    }
}
