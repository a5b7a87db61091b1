/* SPDX-License-Identifier: Apache-2.0
 * What every .cu file knows of a stream: the device that work goes to, and how a launch answers. */
#ifndef KIN_GPU_STREAM_CUH
#define KIN_GPU_STREAM_CUH

#include "gpu/gpu_module.h"

#include <cuda_runtime_api.h>

struct kin_gpu_stream {
    cudaStream_t stream;
    int32_t device;
    int32_t owned; /* 1: made by us; 0: the caller's */
    int32_t major; /* compute capability */
    int32_t minor;
    int32_t processors;
    int32_t shared_bytes; /* that a block may ask for (opt in) */
};

/* Ends a function that returns int with the first error of a CUDA call. */
#define KIN_CUDA_TRY(call)                 \
    do {                                   \
        const cudaError_t error_ = (call); \
        if (error_ != cudaSuccess) {       \
            (void)cudaGetLastError();      \
            return (int)error_;            \
        }                                  \
    } while (0)

/* After <<<>>>: why the launch was refused, or 0. Asynchronous errors appear at the next wait. */
static inline int kin_gpu_launched(void)
{
    return (int)cudaGetLastError();
}
#define KIN_CUDA_TRY_LAUNCH()                     \
    do {                                          \
        const int launched_ = kin_gpu_launched(); \
        if (launched_ != 0) {                     \
            return launched_;                     \
        }                                         \
    } while (0)

/* ---- Shared memory --------------------------------------------------------------------------- */

#ifdef __CUDACC__
#include <cuda_runtime.h>

/* A kernel may have all the shared memory of a block, whatever the launch behind this needs: the
 * limit is the kernel's on its device, so that a smaller one, which another thread sets for its own
 * launch, would refuse this one. What a launch does not take, others may have. */
template <typename Kernel>
static inline cudaError_t kin_gpu_allow_shared(const kin_gpu_stream *stream, Kernel *kernel)
{
    cudaFuncAttributes its;
    const cudaError_t asked = cudaFuncGetAttributes(&its, kernel);
    const int most = stream->shared_bytes - (int)its.sharedSizeBytes;
    return asked != cudaSuccess || its.maxDynamicSharedSizeBytes == most
               ? asked
               : cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
}
#endif

/* ---- Kernels that come at once behind another ------------------------------------------------ */

#ifdef __CUDACC__
#include <cuda_runtime.h>

/* Whether kin_gpu_await is more than nothing in what a chip from sm_90 on runs of this file: the
 * driver may have assembled it from older code. */
static constexpr bool kin_gpu_awaits(void)
{
#ifdef __CUDA_ARCH_LIST__
    constexpr int archs[] = {__CUDA_ARCH_LIST__};
    for (const int arch : archs) {
        if (arch >= 900) {
            return true;
        }
    }
#endif
    return false;
}

typedef struct kin_gpu_grid {
    unsigned blocks;
    unsigned threads; /* of a block, */
    size_t shared_bytes;
} kin_gpu_grid;

/* A launch that may begin while the stream's kernel before it ends (from sm_90 on): it has to call
 * kin_gpu_await before it reads or writes what any work before it has to do with. Saves a
 * microsecond or two, where that counts. */
template <typename Job, typename... More>
static inline int kin_gpu_launch_behind(kin_gpu_stream *stream, void (*kernel)(Job, More...),
                                        kin_gpu_grid grid, Job job, More... more)
{
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(grid.blocks);
    config.blockDim = dim3(grid.threads);
    config.dynamicSmemBytes = grid.shared_bytes;
    config.stream = stream->stream;
    config.attrs = &early;
    config.numAttrs = kin_gpu_awaits() && stream->major >= 9 ? 1 : 0;
    KIN_CUDA_TRY(cudaLaunchKernelEx(&config, kernel, job, more...));
    return 0;
}

static __device__ __forceinline__ void kin_gpu_await(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}
#endif

/* ---- The table of operations ----------------------------------------------------------------- */

extern "C" const kin_gpu_ops kin_gpu_cuda_ops; /* gpu_stream.cu */

#endif
