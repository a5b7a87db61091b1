/* SPDX-License-Identifier: Apache-2.0
 * What the matrix units of a GPU reach: loops of nothing but their instructions, on random data.
 *
 *     bench_units [--json]
 *
 * Idea. A library's product also loads and stores; of a screen, which keeps its rows in shared
 * memory and writes almost nothing, it is no limit. Here every operand lies in shared memory
 * (wgmma, sm_90) or in registers (mma), blocks fill the processors, and the accumulators are read
 * once at the end. `tested`: after each 64 x 128 products of 128 bytes a row the largest of each
 * row and 32 columns is compared with a threshold, as screens do; two groups of warps take turns.
 *
 * Operations are two for each multiplication with its addition. Of ten runs the fastest counts,
 * since a limit is what was reached once; a job of seconds has less power to spend. Exits with 77
 * where there is no GPU. */
#include "screen/screen_hopper.cuh"
#include "screen/screen_mma.cuh"

#include <cuda_fp16.h>

#include <stdio.h>
#include <string.h>

enum {
    RUNS = 10,
    GROUPS = 4, /* of 128 threads */
    THREADS = 128 * GROUPS,
    TURNS = 20000,
    ROWS = 64, /* of one product */
    COLS = 128,
    WIDE = 128, /* bytes of a row */
    STEPS = WIDE / 32,
    GATE = 32, /* columns */
    FRAGMENTS = 4,
    NO_GPU = 77
};

/* Random bytes, or halves between 1 and 2 and their negatives. */
template <typename ACC> static __device__ uint32_t random_word(uint32_t i)
{
    uint32_t word = (i + 1) * 2654435761u;
    word ^= word >> 15;
    word *= 2246822519u;
    word ^= word >> 13;
    return sizeof(ACC) == sizeof(float) && (ACC)0.5 > 0 ? (word & 0x83ff83ffu) | 0x3c003c00u : word;
}

/* ---- wgmma ---------------------------------------------------------------------------------- */

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
static __device__ __forceinline__ void settle(int32_t (&d)[COLS / 2])
{
    hopper_products_settle(d);
}

static __device__ __forceinline__ void settle(float (&d)[COLS / 2])
{
#pragma unroll
    for (int i = 0; i < COLS / 2; i++) {
        asm volatile("" : "+f"(d[i])::"memory");
    }
}

/* How many gates of a thread's two rows have a product that passes. */
template <typename ACC>
static __device__ __forceinline__ int passing(const ACC (&acc)[COLS / 2], ACC threshold)
{
    int found = 0;
#pragma unroll
    for (int g = 0; g < COLS / GATE; g++) {
#pragma unroll
        for (int row = 0; row < 2; row++) {
            ACC most = acc[4 * g * (GATE / 8) + 2 * row];
#pragma unroll
            for (int j = g * (GATE / 8); j < (g + 1) * (GATE / 8); j++) {
                most = max(max(acc[4 * j + 2 * row], acc[4 * j + 2 * row + 1]), most);
            }
            found += most >= threshold ? 1 : 0;
        }
    }
    return found;
}
#endif

template <typename ACC, bool TESTED>
static __global__ void __launch_bounds__(THREADS, 1) wgmma_kernel(ACC threshold, ACC *out)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) unsigned char memory[];
    uint32_t *words = (uint32_t *)memory;
    for (uint32_t i = threadIdx.x; i < (GROUPS * ROWS + COLS) * WIDE / 4; i += THREADS) {
        words[i] = random_word<ACC>(i);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const uint64_t b = hopper_matrix(memory);
    const uint64_t a = hopper_matrix(memory + (COLS + threadIdx.x / 128 * ROWS) * (uint32_t)WIDE);
    ACC acc[COLS / 2];
    int found = 0;
#pragma unroll
    for (int i = 0; i < COLS / 2; i++) {
        acc[i] = 0;
    }
    for (int turn = 0; turn < TURNS; turn++) {
        hopper_products_begin();
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            hopper_multiply(acc, a + 2 * step, b + 2 * step, TESTED ? step : 1);
        }
        hopper_products_commit();
        hopper_products_wait<0>();
        settle(acc);
        if (TESTED) {
            found += passing(acc, threshold);
        }
    }
    ACC sum = (ACC)found;
#pragma unroll
    for (int i = 0; i < COLS / 2; i++) {
        sum += acc[i];
    }
    out[blockIdx.x * THREADS + threadIdx.x] = sum;
#else
    (void)threshold;
    (void)out;
#endif
}

/* ---- mma ------------------------------------------------------------------------------------ */

template <typename ACC>
static __global__ void __launch_bounds__(THREADS, 1) mma_kernel(ACC threshold, ACC *out)
{
    ACC acc[FRAGMENTS][FRAGMENTS][4] = {};
    uint32_t a[FRAGMENTS][4];
    uint32_t b[FRAGMENTS][2];
    (void)threshold;
#pragma unroll
    for (uint32_t i = 0; i < FRAGMENTS; i++) {
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            a[i][j] = random_word<ACC>(threadIdx.x * 32 + i * 4 + j);
            b[i][j / 2] = random_word<ACC>(threadIdx.x * 32 + i * 4 + j + 16);
        }
    }
    for (int turn = 0; turn < TURNS / 2; turn++) {
#pragma unroll
        for (int i = 0; i < FRAGMENTS; i++) {
#pragma unroll
            for (int j = 0; j < FRAGMENTS; j++) {
                mma_multiply(acc[i][j], a[i], b[j][0], b[j][1]);
            }
        }
    }
    ACC sum = 0;
#pragma unroll
    for (int i = 0; i < FRAGMENTS * FRAGMENTS * 4; i++) {
        sum += acc[i / 16][i / 4 % 4][i % 4];
    }
    out[blockIdx.x * THREADS + threadIdx.x] = sum;
}

/* ---- All of it ------------------------------------------------------------------------------ */

typedef struct unit {
    const char *name;
    const char *what;
    double operations; /* of a block */
    float seconds;     /* the least; 0: this chip has none */
} unit;

/* Whether the call worked; what did not is told. */
static bool works(cudaError_t code)
{
    if (code != cudaSuccess) {
        fprintf(stderr, "bench_units: %s\n", cudaGetErrorString(code));
    }
    return code == cudaSuccess;
}

template <typename ACC>
static bool run(unit *u, void (*kernel)(ACC, ACC *), int processors, size_t shared)
{
    ACC *out = NULL;
    cudaEvent_t begin = NULL;
    cudaEvent_t end = NULL;
    bool good =
        works(cudaMalloc((void **)&out, (size_t)processors * THREADS * sizeof *out)) &&
        works(cudaEventCreate(&begin)) && works(cudaEventCreate(&end)) &&
        works(cudaFuncSetAttribute((const void *)kernel,
                                   cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
    for (int i = 0; i < RUNS && good; i++) {
        float ms = 0.0F;
        good = works(cudaEventRecord(begin, 0));
        kernel<<<(unsigned)processors, THREADS, shared>>>((ACC)1e9, out);
        good = good && works(cudaGetLastError()) && works(cudaEventRecord(end, 0)) &&
               works(cudaEventSynchronize(end)) && works(cudaEventElapsedTime(&ms, begin, end));
        u->seconds = i == 0 || ms / 1e3F < u->seconds ? ms / 1e3F : u->seconds;
    }
    (void)cudaFree(out);
    (void)cudaEventDestroy(begin);
    (void)cudaEventDestroy(end);
    return good;
}

static void print(const unit *units, int count, int processors, bool json)
{
    const char *between = "{";
    for (int i = 0; i < count; i++) {
        const unit *u = &units[i];
        if (u->seconds <= 0.0F) {
            continue;
        }
        const double rate = u->operations * processors / (double)u->seconds;
        if (json) {
            printf("%s\"%s\": %.6e", between, u->name, rate);
            between = ", ";
        } else {
            printf("%-12s %-44s %8.0f Tera operations a second\n", u->name, u->what, rate / 1e12);
        }
    }
    printf("%s", json ? "}\n" : "");
}

int main(int argc, char **argv)
{
    const bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    const double wide = 2.0 * TURNS * GROUPS * ROWS * COLS * WIDE;
    const double by_mma = 2.0 * (TURNS / 2) * THREADS / 32 * FRAGMENTS * FRAGMENTS * 16 * 8 * 32;
    unit units[] = {{"s8_wgmma", "wgmma, signed bytes", wide, 0.0F},
                    {"s8_tested", "the same, and the largest of 32 compared", wide, 0.0F},
                    {"f16_wgmma", "wgmma, halves added up in fp32", wide / 2, 0.0F},
                    {"f16_tested", "the same, and the largest of 32 compared", wide / 2, 0.0F},
                    {"s8_mma", "mma, signed bytes", by_mma, 0.0F},
                    {"f16_mma", "mma, halves added up in fp32", by_mma / 2, 0.0F}};
    const size_t shared = (GROUPS * ROWS + COLS) * (size_t)WIDE;
    cudaDeviceProp chip;
    int count = 0;
    if (argc > 1 && !json) {
        fprintf(stderr, "usage: bench_units [--json]\n");
        return 2;
    }
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
        fprintf(stderr, "bench_units: no GPU\n");
        return NO_GPU;
    }
    if (!works(cudaGetDeviceProperties(&chip, 0))) {
        return 1;
    }
    const int all = chip.multiProcessorCount;
    cudaFuncAttributes body;
    const bool has_wgmma =
        works(cudaFuncGetAttributes(&body, (const void *)wgmma_kernel<int32_t, false>)) &&
        body.binaryVersion == 90 && body.numRegs > COLS / 2;
    const bool good = (!has_wgmma || (run(&units[0], wgmma_kernel<int32_t, false>, all, shared) &&
                                      run(&units[1], wgmma_kernel<int32_t, true>, all, shared) &&
                                      run(&units[2], wgmma_kernel<float, false>, all, shared) &&
                                      run(&units[3], wgmma_kernel<float, true>, all, shared))) &&
                      run(&units[4], mma_kernel<int32_t>, all, 0) &&
                      run(&units[5], mma_kernel<float>, all, 0);
    if (!good) {
        return 1;
    }
    print(units, (int)(sizeof units / sizeof *units), all, json);
    return 0;
}
