/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KIN_GPU_OPS_CUH
#define KIN_GPU_OPS_CUH

#include "gpu/gpu_module.h"

extern "C" const kin_gpu_ops kin_gpu_cuda_ops; /* gpu_stream.cu */

#endif
