/* SPDX-License-Identifier: Apache-2.0
 * Pairs whose shadows passed are looked at in full. Contract: screen_kernels.h.
 *
 * Idea. A warp takes 32 pairs, and works on two of them at a time: the lanes read both rows side by
 * side, 512 bytes a step. What passes the precise test goes to the lists, as if full rows had been
 * screened.
 *
 * Cost. Two rounded rows a pair, of which one was often read a moment ago: bytes are what it waits
 * for. Error: sums of fp32 have a 32nd of the roundings that kappa stands for, and five more. */
#include "gpu/gpu_stream.cuh"
#include "screen/screen_pair.cuh"

enum { WARP = 32, THREADS = 256, CHUNK = 16, STEP = WARP * CHUNK, BLOCKS_A_PROCESSOR = 16 };

static __device__ __forceinline__ float add(float a, float b)
{
    return __fadd_rn(a, b);
}

static __device__ __forceinline__ int32_t add(int32_t a, int32_t b)
{
    return a + b;
}

/* Products of two pairs; all lanes have them. */
template <typename ACC>
static __device__ __forceinline__ void multiply_two(const kin_screen_gpu_look &job,
                                                    const uint64_t (&pair)[2], ACC (&product)[2])
{
    const int32_t bytes = job.rows.frame.row_bytes;
    const unsigned char *a[2];
    const unsigned char *b[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        a[i] = job.rows.rounded + (int64_t)(pair[i] >> 32) * bytes;
        b[i] = job.cols.rounded + (int64_t)(uint32_t)pair[i] * bytes;
        product[i] = 0;
    }
#pragma unroll 2
    for (int32_t at = (int32_t)(threadIdx.x % WARP) * CHUNK; at < bytes; at += STEP) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            product[i] = kin_screen_gpu_multiply(__ldg((const uint4 *)(a[i] + at)),
                                                 __ldg((const uint4 *)(b[i] + at)), product[i]);
        }
    }
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset >>= 1) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            product[i] = add(product[i], __shfl_xor_sync(0xffffffffu, product[i], offset));
        }
    }
}

/* The products of the first `count` lanes' pairs; each lane has its own. */
template <typename ACC>
static __device__ __forceinline__ ACC multiply_all(const kin_screen_gpu_look &job, uint64_t pair,
                                                   int32_t count)
{
    const int32_t lane = (int32_t)threadIdx.x % WARP;
    ACC own = 0;
    for (int32_t first = 0; first < count; first += 2) {
        ACC product[2];
        const int32_t second = min(first + 1, count - 1);
        const uint64_t pairs[2] = {__shfl_sync(0xffffffffu, pair, first),
                                   __shfl_sync(0xffffffffu, pair, second)};
        multiply_two(job, pairs, product);
        own = lane == first ? product[0] : lane == second ? product[1] : own;
    }
    return own;
}

template <kin_screen_gpu_type TYPE, typename ACC>
static __global__ void __launch_bounds__(THREADS)
    look_kernel(const __grid_constant__ kin_screen_gpu_look job)
{
    const uint64_t passed = *job.passed.count;
    const uint64_t count = passed < job.passed.room ? passed : job.passed.room;
    const uint64_t warps = (uint64_t)gridDim.x * (THREADS / WARP);
    const uint64_t warp = (uint64_t)blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP;
    const uint32_t lane = threadIdx.x % WARP;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *job.looked += passed;
    }
    for (uint64_t first = warp * WARP; first < count; first += warps * WARP) {
        const uint64_t left = count - first;
        const int32_t here = left < WARP ? (int32_t)left : WARP;
        const uint64_t pair = (int32_t)lane < here ? job.passed.pairs[first + lane] : 0;
        const ACC product = multiply_all<ACC>(job, pair, here);
        if ((int32_t)lane < here) {
            const uint32_t row = (uint32_t)(pair >> 32);
            const uint32_t col = (uint32_t)pair;
            const kin_screen_gpu_word v = kin_screen_gpu_less_half(product, job.cols.half[col]);
            kin_screen_gpu_grant(job, row, col, kin_screen_gpu_test<TYPE>(job, row, col, v));
        }
        __syncwarp();
    }
}

int kin_screen_gpu_launch_look(kin_gpu_stream *stream, const kin_screen_gpu_look *job)
{
    const unsigned blocks = (unsigned)stream->processors * BLOCKS_A_PROCESSOR;
    if (job->rows.frame.type == KIN_SCREEN_GPU_S8) {
        look_kernel<KIN_SCREEN_GPU_S8, int32_t><<<blocks, THREADS, 0, stream->stream>>>(*job);
    } else {
        look_kernel<KIN_SCREEN_GPU_F16, float><<<blocks, THREADS, 0, stream->stream>>>(*job);
    }
    return kin_gpu_launched();
}
