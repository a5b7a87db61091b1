/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_limit.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"

enum { ROWS_A_TASK = 1024 };

/* Slots [from, k) of a row become empty ones. */
static void empty(const kin_limit *limit, int64_t row, int64_t from)
{
    const kith_neighbors *out = &limit->out;
    const double far = limit->metric == KITH_INNER_PRODUCT ? -INFINITY : INFINITY;
    for (int64_t i = row * out->k + from; i < (row + 1) * out->k; i++) {
        if (out->ids != NULL) {
            out->ids[i] = KITH_ID_NONE;
        }
        if (out->distances != NULL) {
            out->distances[i] = (float)far;
        }
        out->distances64[i] = far;
    }
}

static kith_status empty_rows(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const kin_limit *limit = arg;
    const int64_t last = kin_min_i64((task + 1) * ROWS_A_TASK, limit->out.rows);
    for (int64_t row = task * ROWS_A_TASK; row < last; row++) {
        empty(limit, row, 0);
    }
    return KITH_OK;
}

static kith_status cut_rows(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const kin_limit *limit = arg;
    const int64_t last = kin_min_i64((task + 1) * ROWS_A_TASK, limit->out.rows);
    for (int64_t row = task * ROWS_A_TASK; row < last; row++) {
        const double *distances = limit->out.distances64 + row * limit->out.k;
        int64_t count = limit->out.k;
        while (count > 0 &&
               !kin_metric_within(limit->metric, distances[count - 1], limit->radius)) {
            count -= 1;
        }
        empty(limit, row, count);
    }
    return KITH_OK;
}

kith_status kin_limit_begin(kith_ctx *ctx, const kin_request *request, const kith_neighbors *out,
                            kin_limit *limit)
{
    *limit = (kin_limit){
        .ctx = ctx, .metric = request->distance.metric, .radius = request->radius, .out = *out};
    if (limit->radius == 0.0) {
        return KITH_OK;
    }
    if (out->distances64 == NULL) {
        KIN_TRY(kin_alloc(ctx, &limit->own, kin_size_mul((uint64_t)out->rows, (uint64_t)out->k),
                          sizeof *limit->own, "distances that a radius is compared with"));
        limit->out.distances64 = limit->own;
    }
    const kith_status status =
        kin_parallel(ctx, "prepare", kin_ceil_div(out->rows, ROWS_A_TASK), empty_rows, limit);
    return status == KITH_OK ? KITH_OK : kin_limit_end(limit, status);
}

kith_status kin_limit_end(kin_limit *limit, kith_status status)
{
    if (limit->radius != 0.0 && status == KITH_OK) {
        status = kin_parallel(limit->ctx, "rescore", kin_ceil_div(limit->out.rows, ROWS_A_TASK),
                              cut_rows, limit);
    }
    kin_free(limit->ctx, limit->own);
    limit->own = NULL;
    return status;
}

kith_status kin_limit_refuse(kith_ctx *ctx, const kin_request *request, const char *why)
{
    return request->radius == 0.0 ? KITH_OK
                                  : kin_fail_at(ctx, KITH_E_UNSUPPORTED, kin_at("radius"),
                                                "is %g, and %s", request->radius, why);
}

uint64_t kin_limit_bytes(double radius, int64_t rows, int64_t k)
{
    return radius == 0.0 ? 0
                         : kin_size_mul(kin_size_mul((uint64_t)rows, (uint64_t)k), sizeof(double));
}
