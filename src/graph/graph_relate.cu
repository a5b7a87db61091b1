/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A team of eight threads reads a row twice: for the sum of its squares, and to write what
 * stands for it. The second time it comes from the cache.
 *
 * Cost. A read of the rows and a write of 4 bytes a value: 1,000,000 x 128 floats are 1 GB.
 */
#include "graph/graph_pair.cuh"
#include "graph/graph_warp.cuh"

enum { THREADS = KIN_GRAPH_GPU_THREADS, TEAMS = THREADS / KIN_METRIC_LANES };
#define LARGEST 0x1p100
#define LEAST_LOG (-100.0)

static __device__ __forceinline__ double related_value(kin_graph_gpu_relation relation,
                                                       double value)
{
    switch (relation) {
    case KIN_GRAPH_GPU_ROOTS:
    case KIN_GRAPH_GPU_SHARES:
        return sqrt(value > 0.0 ? value : 0.0);
    case KIN_GRAPH_GPU_PATTERNS:
        return value != 0.0 ? 1.0 : 0.0;
    case KIN_GRAPH_GPU_LOGS:
        return value > 0.0 ? fmax(log(value), LEAST_LOG) : LEAST_LOG;
    default:
        return value;
    }
}

static __device__ __forceinline__ bool has_length(kin_graph_gpu_relation relation)
{
    return relation == KIN_GRAPH_GPU_SHARES || relation == KIN_GRAPH_GPU_PATTERNS ||
           relation == KIN_GRAPH_GPU_DIRECTIONS;
}

/* Of the whole row, in all threads of the team. */
static __device__ double sum_of_squares(const kin_graph_gpu_relate &job, kith_dtype dtype,
                                        uint32_t row)
{
    double sum = 0.0;
    for (int32_t first = 0; first < job.rows.cols; first += KIN_GRAPH_GPU_BATCH) {
        const int32_t own = first + (int32_t)threadIdx.x % KIN_METRIC_LANES;
        double values[KIN_GRAPH_GPU_UNROLL];
        kin_graph_gpu_components(job.rows, dtype, row, own, values);
#pragma unroll
        for (int u = 0; u < KIN_GRAPH_GPU_UNROLL; u++) {
            /* Behind the last one are zeros, and what stands for a zero may be none. */
            const bool exists = own + u * KIN_METRIC_LANES < job.rows.cols;
            const double value = exists ? related_value(job.relation, values[u]) : 0.0;
            sum = fma(value, value, sum);
        }
    }
    for (int away = KIN_METRIC_LANES / 2; away > 0; away /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, away);
    }
    return sum;
}

static __device__ void write_row(const kin_graph_gpu_relate &job, kith_dtype dtype, uint32_t row,
                                 double scale)
{
    float *to = job.related + (int64_t)row * job.rows.cols;
    for (int32_t first = 0; first < job.rows.cols; first += KIN_GRAPH_GPU_BATCH) {
        const int32_t own = first + (int32_t)threadIdx.x % KIN_METRIC_LANES;
        double values[KIN_GRAPH_GPU_UNROLL];
        kin_graph_gpu_components(job.rows, dtype, row, own, values);
        for (int u = 0; u < KIN_GRAPH_GPU_UNROLL; u++) {
            const double value = scale * related_value(job.relation, values[u]);
            if (own + u * KIN_METRIC_LANES < job.rows.cols) {
                to[own + u * KIN_METRIC_LANES] = (float)fmin(fmax(value, -LARGEST), LARGEST);
            }
        }
    }
}

static __global__ void __launch_bounds__(THREADS)
    relate_rows_kernel(const __grid_constant__ kin_graph_gpu_relate job, kith_dtype dtype)
{
    /* Teams behind the last row take it once more, so that warps stay whole. */
    for (int64_t at = (int64_t)blockIdx.x * TEAMS; at < job.rows.rows;
         at += (int64_t)gridDim.x * TEAMS) {
        const int64_t own = at + threadIdx.x / KIN_METRIC_LANES;
        const uint32_t row = (uint32_t)(own < job.rows.rows ? own : job.rows.rows - 1);
        const double sum = sum_of_squares(job, dtype, row);
        if (job.lengths != NULL && threadIdx.x % KIN_METRIC_LANES == 0) {
            job.lengths[row] = ~kin_graph_order_of_float((float)sum);
        }
        if (job.related != NULL) {
            const bool scaled = has_length(job.relation) && sum > 0.0;
            write_row(job, dtype, row, scaled ? 1.0 / sqrt(sum) : 1.0);
        }
    }
}

extern "C" int kin_graph_gpu_launch_relate(kin_gpu_stream *stream, const kin_graph_gpu_relate *job)
{
    const kin_screen_gpu_rows *rows = &job->rows;
    if (rows->rows == 0) {
        return 0;
    }
    const kith_dtype dtype = kin_pair_dtype(rows->data, rows->stride_bytes, rows->dtype);
    relate_rows_kernel<<<kin_graph_gpu_blocks(stream, (rows->rows + 3) / 4), THREADS, 0,
                         stream->stream>>>(*job, dtype);
    return kin_gpu_launched();
}

/* ---- Picking --------------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(THREADS)
    pick_rows_kernel(const __grid_constant__ kin_graph_gpu_pick job)
{
    const int64_t all = job.count * job.bytes;
    for (int64_t at = kin_graph_gpu_first_cell(); at < all; at += kin_graph_gpu_cell_step()) {
        const int64_t i = at / job.bytes;
        const char *row = (const char *)job.from + (int64_t)job.rows[i] * job.stride_bytes;
        ((char *)job.to)[at] = row[at - i * job.bytes];
    }
}

extern "C" int kin_graph_gpu_launch_pick(kin_gpu_stream *stream, const kin_graph_gpu_pick *job)
{
    return kin_graph_gpu_each_cell(stream, job->count * job->bytes, job, pick_rows_kernel);
}
