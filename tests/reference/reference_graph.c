/* SPDX-License-Identifier: Apache-2.0
 * The table of NN-Descent; short because every row makes itself. */
#include "reference/reference_graph.h"

#define KIN_ENTRY(name, type) REFERENCE_LAUNCH(reference_graph_##name, kin_graph_gpu_##type)
KIN_GRAPH_GPU_LAUNCHES(KIN_ENTRY)
#undef KIN_ENTRY

#define KIN_ENTRY(name, type) .name = reference_graph_##name##_launch,
const kin_graph_gpu_kernels reference_graph = {KIN_GRAPH_GPU_LAUNCHES(KIN_ENTRY)};
