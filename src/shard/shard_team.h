/* SPDX-License-Identifier: Apache-2.0
 * Several processes at one folder. Each has its own memory, engine and eyes; what they share is the
 * folder, and one function by which they hear of each other: of the bytes that all of them bring,
 * the greatest at each place. Worker 0 leads: it holds the lock, and reads what an earlier run has
 * left. The others are told.
 *
 *     time ->    builds          | round 1       | round 2       |      no shard is in two steps of
 *     worker 0   (0) (2) (4)     | (0,5) (2,3)   | (0,1) (3,4)   |      a round, and nobody begins
 *     worker 1   (1) (3) (5)     | (1,4)         | (2,5)         |      the next one before all
 *                                ^ all on disk   ^               ^      of this one is on disk
 */
#ifndef KIN_SHARD_TEAM_H
#define KIN_SHARD_TEAM_H

#include "shard/shard_run.h"

/* team NULL: a process of its own. */
static inline bool kin_shard_leads(const kith_shard_team *team)
{
    return team == NULL || team->worker == 0;
}

/* How it went with all: KITH_OK, or the first worker's failure with its text, for everyone. */
kith_status kin_shard_agree(kith_ctx *ctx, const kith_shard_team *team, kith_status status);
/* Worker 0's bytes for everyone. */
kith_status kin_shard_tell(kith_ctx *ctx, const kith_shard_team *team, void *data, uint64_t bytes);

/* Of any worker; the others' bytes are written over. */
kith_status kin_shard_tell_from(kith_ctx *ctx, const kith_shard_team *team, int32_t worker,
                                void *data, uint64_t bytes);
/* The least of all workers' numbers. */
kith_status kin_shard_least(kith_ctx *ctx, const kith_shard_team *team, int64_t *number);
/* Makes sure that all have these lines, each ended by '\n', which say what the job is. */
kith_status kin_shard_compare(kith_ctx *ctx, const kith_shard_team *team, const char *lines);

/* After worker 0 has begun in its folder and the others have entered theirs, which `status` tells:
 * makes sure that it is one folder, and tells what stands in it. */
kith_status kin_shard_join(kin_shard_folder *folder, const kith_shard_team *team,
                           kith_status status);

/* kin_shard_run_steps by a team. */
kith_status kin_shard_run_rounds(kin_shard_run *run, const kith_shard_team *team);

#endif
