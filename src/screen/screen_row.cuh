/* SPDX-License-Identifier: Apache-2.0
 * How kernels read rows of any dtype, stride and alignment: in chunks of 16 bytes, one lane of a
 * *team* after the other, so that a warp touches whole lines.
 *
 *   team    8 lanes a row, 32 where rows are long; lane l takes the chunks l, l + team, ...
 *   chunk   16 bytes of a row, zeros behind its end; nothing outside of the row is read
 *
 * Conversions to double are exact. All lanes of a warp must come to the reductions. */
#ifndef KIN_SCREEN_ROW_CUH
#define KIN_SCREEN_ROW_CUH

#include "gpu/gpu_stream.cuh"
#include "metric/metric_canonical.h"
#include "screen/screen_kernels.h"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

enum { KIN_SCREEN_GPU_CHUNK = 16, KIN_SCREEN_GPU_THREADS = 256, KIN_SCREEN_GPU_WARP = 32 };
#define KIN_SCREEN_GPU_ALL_LANES 0xffffffffu

#define KIN_DEVICE static __device__ __forceinline__

/* ---- Host side ------------------------------------------------------------------------------ */

static inline int64_t kin_screen_gpu_row_bytes(const kin_screen_gpu_rows *rows)
{
    return (int64_t)rows->cols * kin_value_bytes(rows->dtype);
}

/* Whether every row starts at a multiple of `bytes`. */
static inline bool kin_screen_gpu_rows_aligned(const kin_screen_gpu_rows *rows, int64_t bytes)
{
    return (uint64_t)(uintptr_t)rows->data % (uint64_t)bytes == 0 &&
           (rows->rows <= 1 || rows->stride_bytes % bytes == 0);
}

static inline int32_t kin_screen_gpu_team(int64_t row_bytes)
{
    return row_bytes <= 1024 ? 8 : KIN_SCREEN_GPU_WARP;
}

/* Lanes a row, of which none is idle; kin_screen_gpu_team at most. */
static inline int32_t kin_screen_gpu_short_team(int64_t row_bytes)
{
    int32_t team = 1;
    while (team < kin_screen_gpu_team(row_bytes) && team * KIN_SCREEN_GPU_CHUNK < row_bytes) {
        team *= 2;
    }
    return team;
}

/* Blocks of KIN_SCREEN_GPU_THREADS that give each of `rows` rows a team. */
static inline unsigned kin_screen_gpu_team_blocks(int64_t rows, int32_t team)
{
    const int64_t a_block = KIN_SCREEN_GPU_THREADS / team;
    return (unsigned)((rows + a_block - 1) / a_block);
}

/* Calls LAUNCH(DTYPE, ALIGNED) for the rows' dtype and alignment: whole chunks or single bytes. */
#define KIN_SCREEN_GPU_LAUNCH_ALIGNED(aligned, LAUNCH, DTYPE) \
    if (aligned) {                                            \
        LAUNCH(DTYPE, true);                                  \
    } else {                                                  \
        LAUNCH(DTYPE, false);                                 \
    }                                                         \
    break
#define KIN_SCREEN_GPU_LAUNCH_DTYPE(dtype, aligned, LAUNCH)        \
    switch (dtype) {                                               \
    case KITH_F64:                                                 \
        KIN_SCREEN_GPU_LAUNCH_ALIGNED(aligned, LAUNCH, KITH_F64);  \
    case KITH_F32:                                                 \
        KIN_SCREEN_GPU_LAUNCH_ALIGNED(aligned, LAUNCH, KITH_F32);  \
    case KITH_F16:                                                 \
        KIN_SCREEN_GPU_LAUNCH_ALIGNED(aligned, LAUNCH, KITH_F16);  \
    case KITH_BF16:                                                \
        KIN_SCREEN_GPU_LAUNCH_ALIGNED(aligned, LAUNCH, KITH_BF16); \
    case KITH_U8:                                                  \
        KIN_SCREEN_GPU_LAUNCH_ALIGNED(aligned, LAUNCH, KITH_U8);   \
    case KITH_I8:                                                  \
        KIN_SCREEN_GPU_LAUNCH_ALIGNED(aligned, LAUNCH, KITH_I8);   \
    case KITH_DTYPE_NONE:                                          \
        return (int)cudaErrorInvalidValue;                         \
    }

/* ---- Chunks --------------------------------------------------------------------------------- */

KIN_DEVICE const char *kin_screen_gpu_row(const kin_screen_gpu_rows &rows, int64_t row)
{
    return (const char *)rows.data + row * rows.stride_bytes;
}

KIN_DEVICE uint32_t kin_screen_gpu_bytes4(const unsigned char *p, int64_t count)
{
    uint32_t word = 0;
    for (int i = 0; i < 4; i++) {
        word |= i < count ? (uint32_t)p[i] << (8 * i) : 0;
    }
    return word;
}

/* Bytes that stand anywhere, one by one. */
KIN_DEVICE uint4 kin_screen_gpu_chunk_bytes(const char *row, int64_t at, int64_t bytes)
{
    const unsigned char *p = (const unsigned char *)row + at;
    const int64_t left = bytes - at;
    uint4 chunk;
    chunk.x = kin_screen_gpu_bytes4(p, left);
    chunk.y = kin_screen_gpu_bytes4(p + 4, left - 4);
    chunk.z = kin_screen_gpu_bytes4(p + 8, left - 8);
    chunk.w = kin_screen_gpu_bytes4(p + 12, left - 12);
    return chunk;
}

/* Bytes inside of a row, from the five aligned words around them, which lie in the row too. */
KIN_DEVICE uint4 kin_screen_gpu_chunk_shifted(const char *row, int64_t at)
{
    const uint64_t address = (uint64_t)(row + at);
    const uint32_t *words = (const uint32_t *)(address & ~(uint64_t)3);
    const uint32_t shift = (uint32_t)(address & 3) * 8;
    const uint32_t w[5] = {words[0], words[1], words[2], words[3], words[4]};
    return make_uint4(__funnelshift_r(w[0], w[1], shift), __funnelshift_r(w[1], w[2], shift),
                      __funnelshift_r(w[2], w[3], shift), __funnelshift_r(w[3], w[4], shift));
}

/* The chunk at byte `at` of a row of `bytes`. ALIGNED: rows start at multiples of 16. */
template <bool ALIGNED>
KIN_DEVICE uint4 kin_screen_gpu_chunk(const char *row, int64_t at, int64_t bytes)
{
    if (ALIGNED && at + KIN_SCREEN_GPU_CHUNK <= bytes) {
        return __ldg((const uint4 *)(row + at));
    }
    if (!ALIGNED && at >= 4 && at + KIN_SCREEN_GPU_CHUNK + 4 <= bytes) {
        return kin_screen_gpu_chunk_shifted(row, at);
    }
    return kin_screen_gpu_chunk_bytes(row, at, bytes);
}

/* kin_screen_gpu_chunk; of rows of up to four whole words by words. */
template <bool ALIGNED>
KIN_DEVICE uint4 kin_screen_gpu_short_chunk(const char *row, int64_t at, int64_t bytes)
{
    const bool words = (((uint64_t)row | (uint64_t)bytes) & 3) == 0;
    if (words && bytes <= KIN_SCREEN_GPU_CHUNK && (!ALIGNED || bytes < KIN_SCREEN_GPU_CHUNK)) {
        const uint32_t *from = (const uint32_t *)row;
        return make_uint4(__ldg(from), bytes > 4 ? __ldg(from + 1) : 0,
                          bytes > 8 ? __ldg(from + 2) : 0, bytes > 12 ? __ldg(from + 3) : 0);
    }
    return kin_screen_gpu_chunk<ALIGNED>(row, at, bytes);
}

/* ---- Values --------------------------------------------------------------------------------- */

template <kith_dtype DTYPE> struct kin_screen_gpu_dtype {
    enum {
        BYTES = DTYPE == KITH_F64                         ? 8
                : DTYPE == KITH_F32                       ? 4
                : DTYPE == KITH_F16 || DTYPE == KITH_BF16 ? 2
                                                          : 1,
        VALUES = KIN_SCREEN_GPU_CHUNK / BYTES /* in a chunk */
    };
};

KIN_DEVICE uint32_t kin_screen_gpu_chunk_word(const uint4 &chunk, int i)
{
    return i == 0 ? chunk.x : i == 1 ? chunk.y : i == 2 ? chunk.z : chunk.w;
}

/* Value i of a chunk by its bits; i is a constant after unrolling. */
template <kith_dtype DTYPE> KIN_DEVICE uint64_t kin_screen_gpu_chunk_bits(const uint4 &chunk, int i)
{
    if (DTYPE == KITH_F64) {
        return (uint64_t)kin_screen_gpu_chunk_word(chunk, 2 * i + 1) << 32 |
               kin_screen_gpu_chunk_word(chunk, 2 * i);
    }
    const int a_word = 4 / kin_screen_gpu_dtype<DTYPE>::BYTES;
    const uint32_t word = kin_screen_gpu_chunk_word(chunk, i / (a_word > 0 ? a_word : 1));
    if (DTYPE == KITH_F32) {
        return word;
    }
    const int bits = 8 * kin_screen_gpu_dtype<DTYPE>::BYTES;
    return word >> (i % (a_word > 0 ? a_word : 1) * bits) & ((1u << (bits & 31)) - 1);
}

template <kith_dtype DTYPE> KIN_DEVICE double kin_screen_gpu_of_bits(uint64_t bits)
{
    switch (DTYPE) {
    case KITH_F64:
        return __longlong_as_double((long long)bits);
    case KITH_F32:
        return (double)__uint_as_float((uint32_t)bits);
    case KITH_F16:
        return (double)__half2float(__ushort_as_half((unsigned short)bits));
    case KITH_BF16:
        return (double)__uint_as_float((uint32_t)bits << 16);
    case KITH_U8:
        return (double)(uint32_t)bits;
    default:
        return (double)(int32_t)(int8_t)(uint8_t)bits;
    }
}

template <kith_dtype DTYPE> KIN_DEVICE double kin_screen_gpu_chunk_value(const uint4 &chunk, int i)
{
    return kin_screen_gpu_of_bits<DTYPE>(kin_screen_gpu_chunk_bits<DTYPE>(chunk, i));
}

/* Component i of a row. ALIGNED: rows start at multiples of the dtype's size. */
template <kith_dtype DTYPE, bool ALIGNED>
KIN_DEVICE double kin_screen_gpu_value(const char *row, int32_t i)
{
    if (!ALIGNED) {
        return kin_value(DTYPE, row, i);
    }
    switch (kin_screen_gpu_dtype<DTYPE>::BYTES) {
    case 8:
        return __ldg((const double *)row + i);
    case 4:
        return (double)__ldg((const float *)row + i);
    case 2:
        return kin_screen_gpu_of_bits<DTYPE>(__ldg((const unsigned short *)row + i));
    default:
        return kin_screen_gpu_of_bits<DTYPE>(__ldg((const unsigned char *)row + i));
    }
}

/* Components of a chunk of a rounded row as floats; i is a constant after unrolling. */
template <kin_screen_gpu_type TYPE> struct kin_screen_gpu_rounded {
    enum { VALUES = TYPE == KIN_SCREEN_GPU_F16 ? 8 : 16 };
};

template <kin_screen_gpu_type TYPE>
KIN_DEVICE float kin_screen_gpu_rounded_value(const uint4 &chunk, int i)
{
    if (TYPE == KIN_SCREEN_GPU_F16) {
        const uint32_t word = kin_screen_gpu_chunk_word(chunk, i / 2);
        return __half2float(__ushort_as_half((unsigned short)(word >> (i % 2 * 16) & 0xffff)));
    }
    const uint32_t word = kin_screen_gpu_chunk_word(chunk, i / 4);
    return (float)(int8_t)(uint8_t)(word >> (i % 4 * 8) & 0xff);
}

/* ---- Teams ---------------------------------------------------------------------------------- */

typedef struct kin_screen_gpu_place {
    int64_t row;  /* of this lane's team; may lie behind the last one */
    int32_t lane; /* within the team */
} kin_screen_gpu_place;

KIN_DEVICE kin_screen_gpu_place kin_screen_gpu_my_place(int32_t team)
{
    const int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    return {thread / team, (int32_t)(thread & (team - 1))};
}

/* The same result, to the last bit, in every lane: each step adds the same two numbers. */
KIN_DEVICE double kin_screen_gpu_team_sum(double x, int32_t team)
{
    for (int offset = team >> 1; offset > 0; offset >>= 1) {
        x = kin_add(x, __shfl_xor_sync(KIN_SCREEN_GPU_ALL_LANES, x, offset));
    }
    return x;
}

template <typename T> KIN_DEVICE T kin_screen_gpu_team_or(T x, int32_t team)
{
    for (int offset = team >> 1; offset > 0; offset >>= 1) {
        x |= __shfl_xor_sync(KIN_SCREEN_GPU_ALL_LANES, x, offset);
    }
    return x;
}

/* *most = max(*most, value) for numbers that are not negative: their bits rise like they do. The
 * largest of the warp goes, and only if it is news. */
KIN_DEVICE void kin_screen_gpu_raise(float *most, float value)
{
    const uint32_t bits = __reduce_max_sync(KIN_SCREEN_GPU_ALL_LANES, __float_as_uint(value));
    if ((threadIdx.x & (KIN_SCREEN_GPU_WARP - 1)) == 0 && bits > *(volatile uint32_t *)most) {
        (void)atomicMax((unsigned int *)most, bits);
    }
}

KIN_DEVICE void kin_screen_gpu_raise(double *most, double value)
{
    unsigned long long bits = (unsigned long long)__double_as_longlong(value);
    for (int offset = KIN_SCREEN_GPU_WARP / 2; offset > 0; offset >>= 1) {
        const unsigned long long other = __shfl_xor_sync(KIN_SCREEN_GPU_ALL_LANES, bits, offset);
        bits = other > bits ? other : bits;
    }
    if ((threadIdx.x & (KIN_SCREEN_GPU_WARP - 1)) == 0 &&
        bits > *(volatile unsigned long long *)most) {
        (void)atomicMax((unsigned long long *)most, bits);
    }
}

/* ---- Answers ------------------------------------------------------------------------------- */

/* A slot of the outputs. */
KIN_DEVICE void kin_screen_gpu_put(const kin_screen_gpu_write &job, int64_t to, uint32_t id,
                                   double distance)
{
    if (job.out_ids != NULL) {
        job.out_ids[to] = id;
    }
    if (job.out_distances != NULL) {
        job.out_distances[to] = __double2float_rn(distance);
    }
    if (job.out_distances64 != NULL) {
        job.out_distances64[to] = distance;
    }
}

#endif
