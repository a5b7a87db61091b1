/* SPDX-License-Identifier: Apache-2.0
 * Exact graphs from shards leave out rows, and pairs of shards, that cannot meet (api_bounds.h). */
#ifndef KIN_SHARDING_BOUNDS_H
#define KIN_SHARDING_BOUNDS_H

#include "api/api_bounds.h"
#include "sharding/sharding.h"

typedef struct kin_sharding_bounds {
    kin_bounds bounds;
    int64_t met;     /* pairs of shards that have met */
    int64_t skipped; /* or need not */
    double rows;     /* pairs of rows in all of these */
    double left_out; /* of them, those that were not looked at */
} kin_sharding_bounds;

uint64_t kin_sharding_bounds_bytes(const kin_sharding *job, int32_t shards);
/* job->bounds. After the number of shards is known. */
kith_status kin_sharding_bounds_make(kin_sharding *job);
void kin_sharding_bounds_free(kin_sharding *job);

/* The keys of k-th neighbours in a shard's lists; those of lists that are not full are infinite. */
kin_within kin_sharding_known(const kin_sharding *job, const kin_shard_part *part);
/* A shard whose lists and rows are in memory. */
kith_status kin_sharding_measure(kin_sharding *job, const kin_shard_part *part);
/* Rows of two shards whose lists are in memory that can meet, as parts of both. False: none. */
kith_status kin_sharding_narrow(kin_sharding *job, kin_shard_part parts[KIN_SHARDING_SIDES],
                                bool *any);
/* Whether it is known that two shards need not meet, wherever their lists are. arg: the job. */
kith_status kin_sharding_apart(void *arg, int32_t a, int32_t b, bool *yes);

#endif
