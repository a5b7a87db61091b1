/* SPDX-License-Identifier: Apache-2.0
 * The one symbol that libkith_cuda.so exports. */
#include "cascade/cascade_kernels.h"
#include "fused/fused_kernels.h"
#include "gpu/gpu_ops.cuh"
#include "grove/grove_kernels.h"
#include "select/select_kernels.h"

extern "C" const kin_fused_kernels kin_fused_table;     /* fused/fused_table.cu */
extern "C" const kin_select_kernels kin_select_table;   /* select/select_table.cu */
extern "C" const kin_grove_kernels kin_grove_table;     /* grove/grove_table.cu */
extern "C" const kin_cascade_kernels kin_cascade_table; /* cascade/cascade_table.cu */

extern "C" __attribute__((visibility("default"))) const kin_gpu_module kith_cuda_module;
const kin_gpu_module kith_cuda_module = {
    KIN_GPU_VERSION,   sizeof(kin_gpu_module), &kin_gpu_cuda_ops, &kin_fused_table,
    &kin_select_table, &kin_grove_table,       &kin_cascade_table};
