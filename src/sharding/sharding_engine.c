/* SPDX-License-Identifier: Apache-2.0
 * What every engine of a graph from shards is told and tells: contexts for threads beside, peaks of
 * memory, messages that count rows. */
#include "base/base_try.h"
#include "sharding/sharding.h"

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

kith_status kin_sharding_note(kin_sharding *job, kith_status status, const kin_shard_part *part)
{
    const kith_report *report = &job->ctx->report;
    if (job->peak_bytes < report->peak_bytes) {
        job->peak_bytes = report->peak_bytes;
    }
    if (job->gpu_peak_bytes < report->gpu_peak_bytes) {
        job->gpu_peak_bytes = report->gpu_peak_bytes;
    }
    kin_failure_shift(job->ctx, "points", part->first);
    return status;
}
