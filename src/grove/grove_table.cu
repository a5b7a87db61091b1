/* SPDX-License-Identifier: Apache-2.0
 * The table of grove_kernels.h. */
#include "grove/grove_launch.cuh"

/* By name: C++17 has no designators. */
static constexpr kin_grove_kernels make_table()
{
    kin_grove_kernels table = {};
    table.measure = kin_grove_launch_measure;
    table.round = kin_grove_launch_round;
    table.order = kin_grove_launch_order;
    table.build = kin_grove_launch_build;
    table.walk = kin_grove_launch_walk;
    table.walk_short = kin_grove_launch_walk_short;
    table.finish = kin_grove_launch_finish;
    return table;
}

extern "C" const kin_grove_kernels kin_grove_table;
const kin_grove_kernels kin_grove_table = make_table();
