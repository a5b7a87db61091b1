/* SPDX-License-Identifier: Apache-2.0
 * Rows of a group, copied from all points in rising order. */
#ifndef KIN_SHARDING_GATHER_H
#define KIN_SHARDING_GATHER_H

#include "sharding/sharding.h"

typedef struct kin_sharding_bag {
    int32_t group; /* whose rows are there; -1: none */
    unsigned char *rows;
    uint32_t *members;     /* rising */
    unsigned char *shared; /* by member: 1, other groups have it, too */
    int64_t *starts;       /* of each run of all rows: its first member */
} kin_sharding_bag;

/* For a group of `most` rows. */
kith_status kin_sharding_bag_make(const kin_sharding *job, int64_t most, kin_sharding_bag *bag);
void kin_sharding_bag_free(const kin_sharding *job, kin_sharding_bag *bag);
/* By the threads of ctx, which may be another than the job's. */
kith_status kin_sharding_gather(const kin_sharding *job, kith_ctx *ctx, int32_t group,
                                kin_sharding_bag *bag);

#endif
