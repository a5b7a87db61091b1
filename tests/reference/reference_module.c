/* SPDX-License-Identifier: Apache-2.0
 * The reference device's one symbol: what KITH_CUDA_MODULE opens. */
#include "gpu/gpu_module.h"
#include "reference/reference.h"

__attribute__((visibility("default"))) extern const kin_gpu_module kith_cuda_module;
const kin_gpu_module kith_cuda_module = {.version = KIN_GPU_VERSION,
                                         .bytes = sizeof(kin_gpu_module),
                                         .ops = &reference_ops,
                                         .screen = &reference_screen,
                                         .select = reference_select,
                                         .tree = &reference_tree,
                                         .graph = &reference_graph,
                                         .papers = &reference_papers};
