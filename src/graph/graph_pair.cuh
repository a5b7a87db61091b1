/* SPDX-License-Identifier: Apache-2.0
 * Costs of single pairs, by a team of eight threads each, all four teams of a warp together: for
 * where pairs are drawn, and no tile of them can be shared. */
#ifndef KIN_GRAPH_GPU_PAIR_CUH
#define KIN_GRAPH_GPU_PAIR_CUH

#include "graph/graph_kernels.h"
#include "metric/metric_pair.cuh"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

/* ---- Rounded rows ---------------------------------------------------------------------------- */

static __device__ __forceinline__ float kin_graph_gpu_dot_halves(uint32_t a, uint32_t b, float sum)
{
    const float2 x = __half22float2(*(const __half2 *)&a);
    const float2 y = __half22float2(*(const __half2 *)&b);
    return fmaf(x.y, y.y, fmaf(x.x, y.x, sum));
}

/* The order of the cost of positions i and j (screen_set_gpu.h), in all threads of the team. */
static __device__ __forceinline__ uint32_t kin_graph_gpu_cost_order(const kin_screen_gpu_set &set,
                                                                    uint32_t i, uint32_t j)
{
    const int32_t chunks = set.frame.row_bytes / (int32_t)sizeof(uint4); /* a multiple of 8 */
    const uint4 *a = (const uint4 *)set.rounded + (int64_t)i * chunks;
    const uint4 *b = (const uint4 *)set.rounded + (int64_t)j * chunks;
    const kin_screen_gpu_word own = set.facts[i].term;
    const kin_screen_gpu_word other = set.facts[j].term;
    const bool halves = set.frame.type == KIN_SCREEN_GPU_F16;
    float sum = 0.0F;
    int32_t whole = 0;
#pragma unroll 4
    for (int32_t at = (int32_t)threadIdx.x % KIN_METRIC_LANES; at < chunks;
         at += KIN_METRIC_LANES) {
        const uint4 x = __ldg(a + at);
        const uint4 y = __ldg(b + at);
        if (halves) {
            sum = kin_graph_gpu_dot_halves(x.x, y.x, sum);
            sum = kin_graph_gpu_dot_halves(x.y, y.y, sum);
            sum = kin_graph_gpu_dot_halves(x.z, y.z, sum);
            sum = kin_graph_gpu_dot_halves(x.w, y.w, sum);
        } else {
            whole = __dp4a((int)x.x, (int)y.x, whole);
            whole = __dp4a((int)x.y, (int)y.y, whole);
            whole = __dp4a((int)x.z, (int)y.z, whole);
            whole = __dp4a((int)x.w, (int)y.w, whole);
        }
    }
    for (int away = KIN_METRIC_LANES / 2; away > 0; away /= 2) {
        if (halves) {
            sum += __shfl_xor_sync(0xffffffffu, sum, away);
        } else {
            whole += __shfl_xor_sync(0xffffffffu, whole, away);
        }
    }
    if (!halves) {
        return kin_graph_order_of_int(own.i + other.i - 2 * whole);
    }
    /* -0 and +0 have one order. */
    return kin_graph_order_of_float(fmaf(-2.0F, sum, own.f + other.f) + 0.0F);
}

/* ---- Rows as given --------------------------------------------------------------------------- */

enum {
    KIN_GRAPH_GPU_UNROLL = 4, /* components of a thread and row at a time */
    KIN_GRAPH_GPU_BATCH = KIN_GRAPH_GPU_UNROLL * KIN_METRIC_LANES
};

/* This thread's components of a row from `first` on, transformed; 0 behind the last one, which adds
 * nothing in any metric. dtype: NONE where rows are not aligned. */
static __device__ __forceinline__ void
kin_graph_gpu_components(const kin_screen_gpu_rows &rows, kith_dtype dtype, uint32_t row,
                         int32_t first, double (&values)[KIN_GRAPH_GPU_UNROLL])
{
    const char *data = (const char *)rows.data + (int64_t)row * rows.stride_bytes;
#define LOAD(DTYPE)                                                                   \
    for (int u = 0; u < KIN_GRAPH_GPU_UNROLL; u++) {                                  \
        const int32_t i = first + u * KIN_METRIC_LANES;                               \
        values[u] = i < rows.cols ? kin_pair_value<DTYPE>(rows.dtype, data, i) : 0.0; \
    }
    KIN_PAIR_EACH_DTYPE(dtype, LOAD)
#undef LOAD
    if (rows.transforms != NULL) {
        for (int u = 0; u < KIN_GRAPH_GPU_UNROLL; u++) {
            if (first + u * KIN_METRIC_LANES < rows.cols) {
                values[u] = kin_row_apply(&rows.transforms[row], values[u]);
            }
        }
    }
}

/* The canonical key of two rows, in all threads of the team. */
template <kith_metric STEP>
static __device__ __forceinline__ double kin_graph_gpu_key(const kin_screen_gpu_rows &rows,
                                                           kith_dtype dtype, uint32_t a, uint32_t b)
{
    if constexpr (kin_pair_is_whole<STEP>) {
        const char *data = (const char *)rows.data;
        return kin_pair_whole<STEP>({data + a * rows.stride_bytes, rows.dtype},
                                    {data + b * rows.stride_bytes, rows.dtype}, rows.cols);
    } else {
        const int32_t lane = (int32_t)threadIdx.x % KIN_METRIC_LANES;
        const kin_power power = kin_power_of(rows.metric);
        double sum = 0;
        for (int32_t first = 0; first < rows.cols; first += KIN_GRAPH_GPU_BATCH) {
            double x[KIN_GRAPH_GPU_UNROLL];
            double y[KIN_GRAPH_GPU_UNROLL];
            kin_graph_gpu_components(rows, dtype, a, first + lane, x);
            kin_graph_gpu_components(rows, dtype, b, first + lane, y);
#pragma unroll
            for (int u = 0; u < KIN_GRAPH_GPU_UNROLL; u++) {
                sum = kin_pair_step<STEP>(sum, x[u], y[u], power);
            }
        }
        const double key = kin_pair_key<STEP>(rows.metric, kin_pair_sum<STEP>(sum), rows.cols);
        const bool degenerate = rows.transforms != NULL && (rows.transforms[a].degenerate != 0 ||
                                                            rows.transforms[b].degenerate != 0);
        return degenerate ? KIN_DEGENERATE_KEY : key;
    }
}

/* What both bodies of the cross-matching share: how an offer reaches a point. */

/* Nothing that is not below this can enter the list of a position; lists do not change while
 * samples meet. */
static __device__ __forceinline__ const uint64_t *join_last(const kin_graph_gpu_join &job,
                                                            uint32_t position)
{
    return job.lasts != NULL ? job.lasts + position
                             : job.graph.words + ((int64_t)position + 1) * job.graph.length - 1;
}

/* The position `other` is offered to `to`, whose last word is `last`. */
static __device__ __forceinline__ void join_offer(const kin_graph_gpu_join &job, uint32_t to,
                                                  uint64_t last, uint32_t order, uint32_t other)
{
    const uint64_t word = kin_graph_word(order, other, 1);
    if (word < last) {
        const int64_t at = (int64_t)to * KIN_GRAPH_GPU_SLOTS + kin_graph_gpu_slot(job.salt, other);
        (void)atomicMin((unsigned long long *)&job.offers[at], (unsigned long long)word);
    }
}

#endif
