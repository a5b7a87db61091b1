/* SPDX-License-Identifier: Apache-2.0
 * What every engine of a graph from shards is told and tells: contexts for threads beside, peaks of
 * memory, messages that count rows. */
#include "base/base_try.h"
#include "sharding/sharding.h"

#include <inttypes.h>
#include <stdlib.h>

kith_status kin_sharding_make_ctx(const kin_sharding *job, int32_t threads, kith_ctx **ctx)
{
    const kith_ctx_params *ours = &job->ctx->params;
    kith_ctx_params params = kith_ctx_params_default();
    params.threads = threads;
    params.device = "cpu";
    params.allocate = ours->allocate;
    params.release = ours->release;
    params.allocate_arg = ours->allocate_arg;
    const kith_status status = kith_ctx_create(&params, ctx);
    return status == KITH_OK
               ? KITH_OK
               : kin_fail(job->ctx, status, "no memory for a thread's context (free some memory)");
}

/* "points[17, 3] is NaN" of a shard that begins at row 1000 becomes "points[1017, 3] is NaN". */
static kith_status count_from_all(kith_ctx *ctx, kith_status status, int64_t first)
{
    static const char before[] = "points[";
    char detail[KIN_DETAIL_BYTES];
    char *rest = NULL;
    memcpy(detail, ctx->detail, sizeof detail);
    if (status != KITH_E_DATA || strncmp(detail, before, sizeof before - 1) != 0) {
        return status;
    }
    const int64_t row = strtoll(detail + sizeof before - 1, &rest, 10);
    kin_forgive(ctx);
    return kin_fail(ctx, status, "%s%" PRId64 "%s", before, row + first, rest);
}

kith_status kin_sharding_note(kin_sharding *job, kith_status status, const kin_shard_part *part)
{
    const kith_report *report = &job->ctx->report;
    if (job->peak_bytes < report->peak_bytes) {
        job->peak_bytes = report->peak_bytes;
    }
    if (job->gpu_peak_bytes < report->gpu_peak_bytes) {
        job->gpu_peak_bytes = report->gpu_peak_bytes;
    }
    return count_from_all(job->ctx, status, part->first);
}
