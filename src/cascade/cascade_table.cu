/* SPDX-License-Identifier: Apache-2.0
 * The table of cascade_kernels.h. */
#include "cascade/cascade_launch.cuh"

/* By name: C++17 has no designators. */
static constexpr kin_cascade_kernels make_table()
{
    kin_cascade_kernels table = {};
    table.near_tiles = kin_cascade_launch_near_tiles;
    table.group_centres = kin_cascade_launch_group_centres;
    table.adopt = kin_cascade_launch_adopt;
    table.fill = kin_cascade_launch_fill;
    table.place = kin_cascade_launch_place;
    table.give = kin_cascade_launch_give;
    table.relate = kin_cascade_launch_relate;
    table.pick = kin_cascade_launch_pick;
    table.stretch = kin_cascade_launch_stretch;
    table.sample = kin_cascade_launch_sample;
    table.collect = kin_cascade_launch_collect;
    table.join = kin_cascade_launch_join;
    table.merge = kin_cascade_launch_merge;
    table.ends = kin_cascade_launch_ends;
    table.least = kin_cascade_launch_least;
    table.gather = kin_cascade_launch_gather;
    table.settle = kin_cascade_launch_settle;
    table.keys = kin_cascade_launch_keys;
    table.hand = kin_cascade_launch_hand;
    table.link = kin_cascade_launch_link;
    table.parts = kin_cascade_launch_parts;
    table.walk = kin_cascade_launch_walk;
    return table;
}

extern "C" const kin_cascade_kernels kin_cascade_table;
const kin_cascade_kernels kin_cascade_table = make_table();
