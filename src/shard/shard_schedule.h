/* SPDX-License-Identifier: Apache-2.0
 * The steps of a graph from shards: plain arithmetic, so that one process and many ranks agree
 * without a word.
 *
 * A step builds one shard, or lets two meet. `shards` builds come first, then every pair once; the
 * order of pairs turns round at the end of each row (boustrophedon), so that a pair and the next
 * one always have a shard in common, and one shard has to be read a step:
 *
 *        b: 1   2   3   4
 *   a = 0   > - > - > - v
 *   a = 1       v - < - <
 *   a = 2       > - > - v        (2,3) follows (1,2): 2 is in memory
 *   a = 3               v
 *
 * Several workers take the rounds of a tournament instead: in a round nobody plays twice, so all
 * pairs of a round can be computed at the same time (circle method: shard 0 stays, the others move
 * on by one place a round; of an odd number one is left over in each round). */
#ifndef KIN_SHARD_SCHEDULE_H
#define KIN_SHARD_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/* a == b: the build of a; else a < b meet. */
typedef struct kin_shard_step {
    int32_t a;
    int32_t b;
} kin_shard_step;

static inline bool kin_shard_is_build(kin_shard_step step)
{
    return step.a == step.b;
}

/* Builds and pairs. */
static inline int64_t kin_shard_steps(int32_t shards)
{
    return (int64_t)shards * (shards + 1) / 2;
}

/* 0 <= number < kin_shard_steps(shards). */
static inline kin_shard_step kin_shard_step_at(int32_t shards, int64_t number)
{
    if (number < shards) {
        return (kin_shard_step){(int32_t)number, (int32_t)number};
    }
    int64_t left = number - shards;
    int32_t a = 0;
    while (left >= shards - 1 - a) {
        left -= shards - 1 - a;
        a += 1;
    }
    return (kin_shard_step){a, a % 2 == 0 ? a + 1 + (int32_t)left : shards - 1 - (int32_t)left};
}

/* Rounds of the tournament, and pairs that a round has at most. */
static inline int32_t kin_shard_rounds(int32_t shards)
{
    return shards < 2 ? 0 : shards - 1 + shards % 2;
}

static inline int32_t kin_shard_tables(int32_t shards)
{
    return shards / 2 + (shards < 2 ? 0 : shards % 2);
}

/* Who sits at a place of the circle, whose place 0 does not move. */
static inline int32_t kin_shard_sitting(int32_t places, int32_t round, int32_t place)
{
    return place == 0 ? 0 : 1 + (place - 1 + round) % (places - 1);
}

/* Who meets at a table. False: it is empty in this round. */
static inline bool kin_shard_meeting(int32_t shards, int32_t round, int32_t table,
                                     kin_shard_step *step)
{
    const int32_t places = shards + shards % 2;
    const int32_t one = kin_shard_sitting(places, round, table);
    const int32_t other = kin_shard_sitting(places, round, places - 1 - table);
    *step = one < other ? (kin_shard_step){one, other} : (kin_shard_step){other, one};
    return step->b < shards;
}

/* Where shard `shard` of so many begins; shards of `rows` rows differ by one row at most. */
static inline int64_t kin_shard_first(int64_t rows, int32_t shards, int32_t shard)
{
    return rows / shards * shard + rows % shards * shard / shards;
}

static inline int64_t kin_shard_rows(int64_t rows, int32_t shards, int32_t shard)
{
    return kin_shard_first(rows, shards, shard + 1) - kin_shard_first(rows, shards, shard);
}

#endif
