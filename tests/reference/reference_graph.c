/* SPDX-License-Identifier: Apache-2.0 */
#include "reference/reference.h"

const kin_graph_gpu_kernels reference_graph = {0};
