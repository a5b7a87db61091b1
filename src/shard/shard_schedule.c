/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/shard_schedule.h"

int64_t kin_shard_steps(int32_t shards)
{
    return (int64_t)shards * (shards + 1) / 2;
}

kin_shard_step kin_shard_step_at(int32_t shards, int64_t number)
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

int32_t kin_shard_rounds(int32_t shards)
{
    return shards < 2 ? 0 : shards - 1 + shards % 2;
}

int32_t kin_shard_tables(int32_t shards)
{
    return shards / 2 + (shards < 2 ? 0 : shards % 2);
}

/* Who sits at a place of the circle, whose place 0 does not move. */
static int32_t sitting(int32_t places, int32_t round, int32_t place)
{
    return place == 0 ? 0 : 1 + (place - 1 + round) % (places - 1);
}

bool kin_shard_meeting(int32_t shards, int32_t round, int32_t table, kin_shard_step *step)
{
    const int32_t places = shards + shards % 2;
    const int32_t one = sitting(places, round, table);
    const int32_t other = sitting(places, round, places - 1 - table);
    *step = one < other ? (kin_shard_step){one, other} : (kin_shard_step){other, one};
    return step->b < shards;
}
