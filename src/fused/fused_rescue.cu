/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A search that nobody waits for (fused_batch.c) has no host that would look at what was lost
 * and go another way. So this launch comes behind each, looks, and as a rule ends: a block reads
 * three numbers. A row whose list overflowed, or that has no direction, is compared with the whole
 * corpus by all processors, a slice a block, as fused_rescore.cu does with a list.
 *
 * Cost. Nothing to do: a launch of at most two blocks a processor. A row of 1,000,000 x 128
 * float32 is a read of 512 MB. */
#include "fused/fused_rescore.cuh"

/* A row's slices come together: the first k of what all blocks have found. All threads of the block
 * that was the last one to come. */
static __device__ void join_slices(const kin_fused_rescue &job, const shape &s, int64_t i,
                                   double *keys)
{
    const int32_t k = job.done.lists.k;
    const int32_t count = job.slices * k;
    const volatile kin_fused_pair *parts = job.parts + i * count;
    uint32_t *ids = (uint32_t *)(keys + s.places);
    int32_t kept = 0;
    for (int32_t used = 0; used < count;) {
        const int32_t added = min(count - used, s.places - kept);
        for (int32_t j = (int32_t)threadIdx.x; j < added; j += BLOCK) {
            keys[kept + j] = parts[used + j].key;
            ids[kept + j] = parts[used + j].id;
        }
        __syncthreads(); /* pairs are known */
        used += added;
        kept += added;
        kin_sort_block(keys, ids, kept);
        kept = min(kept, k);
    }
    for (int32_t j = (int32_t)threadIdx.x; j < kept; j += BLOCK) {
        job.done.pairs[i * k + j] = kin_fused_pair{keys[j], ids[j], 0};
    }
    if (threadIdx.x == 0) {
        job.done.count[i] = kept;
    }
    __syncthreads(); /* the pairs are written */
    if (threadIdx.x < WARP) {
        write_row<WARP>(job.done.answers, i);
    }
}

/* Whether this block is the last one of its row to come; what the others wrote before is seen. */
static __device__ bool comes_last(const kin_fused_rescue &job, int64_t i)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads(); /* the slice is written */
    if (threadIdx.x == 0) {
        last = atomicAdd(&job.arrived[i], 1u) + 1u == (uint32_t)job.slices;
    }
    __syncthreads();
    __threadfence();
    return last;
}

static __device__ void write_nothing(const kin_fused_write &job, int64_t i)
{
    for (int32_t j = (int32_t)threadIdx.x; j < job.k_out; j += BLOCK) {
        put(job, i * job.k_out + j, KITH_ID_NONE, (double)NAN);
    }
}

template <kith_metric STEP, kith_dtype DTYPE, bool TRANSFORMS>
static __global__ void __launch_bounds__(BLOCK, 2)
    rescue_kernel(const kin_fused_rescue job, const shape s)
{
    extern __shared__ double query[];
    const kin_fused_rescore &done = job.done;
    const int32_t k = done.lists.k;
    const int64_t i = (int64_t)blockIdx.x / job.slices;
    const int32_t slice = (int32_t)((int64_t)blockIdx.x % job.slices);
    kin_gpu_await();
    if (job.marks[i] != 0) {
        if (slice == 0) {
            write_nothing(done.answers, i);
        }
        return;
    }
    if (job.told[i] >= 0 && (job.degenerate == NULL || job.degenerate[i] == 0)) {
        if (slice == 0 && threadIdx.x == 0 && done.count[i] < k) {
            *job.few = 0;
        }
        return;
    }
    const int64_t row = (int64_t)done.set.ids[i];
    const int64_t first = job.points * slice / job.slices;
    const int32_t count = (int32_t)(job.points * (slice + 1) / job.slices - first);
    const kin_fused_span span = {(uint32_t)first, (uint32_t)count, (uint32_t)count, 0};
    if (done.set_rows.cols <= s.chunk) {
        stage_row<TRANSFORMS>(done.set_rows, row, 0, done.set_rows.cols, BLOCK, query);
    }
    const int32_t kept =
        find_best<STEP, DTYPE, TRANSFORMS>(done, s, row, NULL, span, count, query);
    double *keys = query + s.chunk;
    const uint32_t *ids = (const uint32_t *)(keys + s.places);
    kin_fused_pair *part = job.parts + (i * job.slices + slice) * k;
    for (int32_t j = (int32_t)threadIdx.x; j < k; j += BLOCK) {
        part[j] = j < kept ? kin_fused_pair{keys[j], ids[j], 0}
                           : kin_fused_pair{(double)INFINITY, KITH_ID_NONE, 0};
    }
    if (comes_last(job, i)) {
        join_slices(job, s, i, keys);
    }
}

template <kith_metric STEP, kith_dtype DTYPE, bool TRANSFORMS>
static int rescue_launch(kin_gpu_stream *stream, const kin_fused_rescue *job)
{
    const shape s = shape_of(stream, &job->done, false, BLOCK);
    const size_t bytes = crew_bytes(s);
    if (s.places <= job->done.lists.k) {
        return (int)cudaErrorInvalidValue;
    }
    KIN_CUDA_TRY(cudaFuncSetAttribute(rescue_kernel<STEP, DTYPE, TRANSFORMS>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    const kin_gpu_grid grid = {(unsigned)(job->done.rows * job->slices), BLOCK, bytes};
    return kin_gpu_launch_behind(stream, rescue_kernel<STEP, DTYPE, TRANSFORMS>, grid, *job, s);
}

template <kith_metric STEP, bool TRANSFORMS>
static int rescue_by_dtype(kin_gpu_stream *stream, const kin_fused_rescue *job)
{
    const kin_fused_rows *rows = &job->done.cols_rows;
#define LAUNCH(DTYPE) return rescue_launch<STEP, DTYPE, TRANSFORMS>(stream, job)
    KIN_PAIR_EACH_DTYPE(kin_pair_dtype(rows->data, rows->stride_bytes, rows->dtype), LAUNCH)
#undef LAUNCH
    return (int)cudaErrorInvalidValue; /* not reached */
}

int kin_fused_launch_rescue(kin_gpu_stream *stream, const kin_fused_rescue *job)
{
    if (job->done.rows == 0) {
        return 0;
    }
    if (job->done.set_rows.metric == KITH_INNER_PRODUCT) {
        return rescue_by_dtype<KITH_INNER_PRODUCT, false>(stream, job);
    }
    return job->done.cols_rows.transforms != NULL
               ? rescue_by_dtype<KITH_SQEUCLIDEAN, true>(stream, job)
               : rescue_by_dtype<KITH_SQEUCLIDEAN, false>(stream, job);
}
