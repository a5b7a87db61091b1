/* SPDX-License-Identifier: Apache-2.0
 * Graphs from shards by a team: whether all have the same job, before anything begins. */
#include "base/base_mem.h"
#include "base/base_try.h"
#include "gpu/gpu.h"
#include "sharding/sharding.h"

#include <inttypes.h>
#include <stdio.h>

enum { LINES_BYTES = 1024 };

/* An exact graph has the same bytes wherever its parts are computed. A descent's depend on how a
 * device rounds: GPUs of one model do so alike. */
static kith_status name_device(const kin_sharding *job, const char **name)
{
    kin_sharding_need need;
    *name = "any device";
    if (!job->descends) {
        return KITH_OK;
    }
    KIN_TRY(kin_sharding_needs(job, job->shards, &need));
    *name = need.gpu_bytes > 0 && job->ctx->gpu != NULL ? job->ctx->gpu->info.name : "cpu";
    return KITH_OK;
}

kith_status kin_sharding_compare(const kin_sharding *job, const char *text)
{
    const kith_shard_team *team = job->params.team;
    const size_t room = strlen(text) + LINES_BYTES;
    const char *device = NULL;
    char *lines = NULL;
    kith_status status = kin_alloc(job->ctx, &lines, room, 1, "a job's text");
    KIN_KEEP(status, name_device(job, &device));
    status = kin_shard_agree(job->ctx, team, status);
    if (status == KITH_OK) {
        (void)snprintf(lines, room,
                       "program kith %s (%s)\nshards %d\nk %" PRId64 "\nmetric %s\n%scomputes on "
                       "%s\n",
                       kith_version(), kith_commit(), (int)job->shards, job->k,
                       kith_metric_name(job->metric), text, device);
        status = kin_shard_compare(job->ctx, team, lines);
    }
    kin_free(job->ctx, lines);
    return status;
}
