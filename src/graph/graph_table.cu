/* SPDX-License-Identifier: Apache-2.0
 * The table of graph_kernels.h; short because every row makes itself. */
#include "graph/graph_kernels.h"

#define KIN_ENTRY(name, type) kin_graph_gpu_launch_##name,
extern "C" const kin_graph_gpu_kernels kin_graph_gpu_table;
const kin_graph_gpu_kernels kin_graph_gpu_table = {KIN_GRAPH_GPU_LAUNCHES(KIN_ENTRY)};
