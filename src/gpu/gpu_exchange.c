/* SPDX-License-Identifier: Apache-2.0
 * What members of a team say and send to each other in lockstep: all of it between two meetings
 * (gpu_team.h). */
#include "base/base_size.h"
#include "base/base_try.h"
#include "gpu/gpu_ahead.h"
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

/* Each brings a part of the rows, and gets the others' from them. */
static kith_status upload_share(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_rows *rows, void *to)
{
    const int32_t part = kin_gpu_part(gpu);
    int64_t firsts[KIN_GPU_TEAM_MOST + 1];
    kin_gpu_divide(rows->count, 1, kin_gpu_parts(gpu), firsts);
    const int64_t first = firsts[part];
    const kin_gpu_rows own = kin_gpu_rows_part(rows, first, firsts[part + 1] - first);
    KIN_TRY(kin_gpu_upload_rows(ctx, gpu, (char *)to + first * rows->row_bytes, &own));
    return kin_gpu_gather(ctx, gpu, to, (uint64_t)rows->row_bytes, firsts);
}

kith_status kin_gpu_bring(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_rows *rows, void **block)
{
    KIN_TRY(kin_gpu_ahead_take(ctx, gpu, rows, block));
    if (*block != NULL) {
        return KITH_OK;
    }
    KIN_TRY(kin_gpu_alloc(ctx, gpu, block, (uint64_t)rows->count, (uint64_t)rows->row_bytes,
                          "the points"));
    return kin_gpu_parts(gpu) > 1 ? upload_share(ctx, gpu, rows, *block)
                                  : kin_gpu_upload_rows(ctx, gpu, *block, rows);
}
