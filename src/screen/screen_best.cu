/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A block a row keeps a buffer of candidates in shared memory, the sorted list of the row at
 * its front. Keys are read once; those that come before the k-th candidate are appended; when the
 * buffer has no room for another step, it is sorted and cut to k, which lowers the k-th.
 *
 *   buffer   [ list, sorted: at most k | appended since, in any order |  free, at least one step ]
 *
 * Why it is right. The order (key, id) is total and ids differ, so the first k of a set do not
 * depend on the order in which it was seen. A key equal to the k-th is compared by id. Infinite
 * keys (kl) are keys like any other; that a list is not full yet is known from its count alone.
 *
 * Cost. One read of 8 bytes a key. In random order about k (1 + ln(n / k)) keys are appended; in
 * falling order all of them, which costs a sort for every 2,048 keys (some microseconds a block).
 * The first sort comes as soon as k candidates are there, so that the rest meets a k-th.
 *
 * Few rows get blocks of 1,024 threads, many rows of 256, eight of which share a processor.
 *
 * Where a selection has found them in its place, keys and ids are joined: 12 bytes read and 16
 * written a pair. */
#include "gpu/gpu_stream.cuh"
#include "screen/screen_kernels.h"
#include "screen/screen_sort.cuh"

enum {
    BYTES_A_PLACE = sizeof(double) + sizeof(uint32_t),
    FEW_THREADS = 1024, /* of a block, where rows are few; and keys of a thread at a time */
    FEW_STEPS = 2,
    MANY_THREADS = 256,
    MANY_STEPS = 4,
    MOST_ROOM = 2 * KIN_SCREEN_GPU_PASS_K, /* places of a buffer, whatever k is */
    JOINERS = 256,
    JOINING_A_PROCESSOR = 32
};
static_assert((MOST_ROOM & (MOST_ROOM - 1)) == 0 &&
                  KIN_SCREEN_GPU_PASS_K + FEW_THREADS * FEW_STEPS <= MOST_ROOM &&
                  KIN_SCREEN_GPU_PASS_K + MANY_THREADS * MANY_STEPS <= MOST_ROOM,
              "kin_sort_width of what a launch needs is at most this");

/* A block's view of its row. */
typedef struct buffer {
    double *keys;
    uint32_t *ids;
    int32_t filled;  /* as all threads know it */
    double last_key; /* only what comes before (last_key, last_id) is taken */
    uint32_t last_id;
} buffer;

/* Sorts, cuts, takes the k-th. All threads call it; *fill is shared. */
static __device__ void compact(buffer *b, int32_t k, int32_t *fill)
{
    kin_sort_block(b->keys, b->ids, b->filled);
    b->filled = min(b->filled, k);
    if (b->filled == k) {
        b->last_key = b->keys[k - 1];
        b->last_id = b->ids[k - 1];
    }
    if (threadIdx.x == 0) {
        *fill = b->filled;
    }
}

/* STEPS keys a thread at a time; the next ones are on their way while these are looked at. */
template <int STEPS> static __global__ void best_kernel(const kin_screen_gpu_best job, int32_t room)
{
    extern __shared__ double places[];
    __shared__ int32_t fill;
    const int64_t row = (int64_t)blockIdx.x;
    const int32_t threads = (int32_t)blockDim.x;
    const int32_t thread = (int32_t)threadIdx.x;
    const int32_t step = threads * STEPS;
    const double *keys = job.keys + row * job.pitch;
    kin_screen_gpu_pair *pairs = job.pairs + row * job.pairs_pitch;

    buffer b = {places, (uint32_t *)(places + room), job.count[row], (double)INFINITY,
                KITH_ID_NONE};
    for (int32_t i = thread; i < b.filled; i += threads) {
        b.keys[i] = pairs[i].key;
        b.ids[i] = pairs[i].id;
    }
    if (thread == 0) {
        fill = b.filled;
    }
    if (b.filled == job.k) {
        b.last_key = pairs[job.k - 1].key;
        b.last_id = pairs[job.k - 1].id;
    }
    const bool after = job.after != NULL;
    const double after_key = after ? job.after[row * job.after_pitch].key : 0.0;
    const uint32_t after_id = after ? job.after[row * job.after_pitch].id : 0;

    double next[STEPS];
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        const int64_t at = (int64_t)s * threads + thread;
        next[s] = at < job.columns ? keys[at] : 0.0;
    }
    bool sorted = true;
    for (int64_t base = 0; base < job.columns; base += step) {
        double key[STEPS];
        bool takes[STEPS];
        bool any = false;
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            const int64_t at = base + (int64_t)s * threads + thread;
            key[s] = next[s];
            next[s] = at + step < job.columns ? keys[at + step] : 0.0;
            const uint32_t id = (uint32_t)(job.corpus0 + at);
            takes[s] = at < job.columns && kin_sort_before(key[s], id, b.last_key, b.last_id) &&
                       (!after || kin_sort_before(after_key, after_id, key[s], id));
            any = any || takes[s];
        }
        /* Behind this barrier all threads know `fill` of the last step. */
        if (!__syncthreads_or(any)) {
            continue;
        }
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            if (takes[s]) {
                const int32_t place = atomicAdd(&fill, 1);
                b.keys[place] = key[s];
                b.ids[place] = (uint32_t)(job.corpus0 + base + (int64_t)s * threads + thread);
            }
        }
        __syncthreads(); /* all have appended */
        const bool open = b.filled < job.k;
        b.filled = fill;
        sorted = b.filled + step > room || (open && b.filled >= job.k);
        if (sorted) {
            __syncthreads(); /* all have read `fill` */
            compact(&b, job.k, &fill);
        }
    }
    if (!sorted) {
        __syncthreads(); /* as above */
        compact(&b, job.k, &fill);
    }
    __syncthreads(); /* a row without columns: its list was only copied in */
    for (int32_t i = thread; i < b.filled; i += threads) {
        pairs[i] = kin_screen_gpu_pair{b.keys[i], b.ids[i], 0};
    }
    if (thread == 0) {
        job.count[row] = b.filled;
    }
}

template <int STEPS>
static int best_launch(kin_gpu_stream *stream, const kin_screen_gpu_best *job, int32_t threads)
{
    const int32_t room = kin_sort_width(job->k + threads * STEPS);
    const size_t bytes = (size_t)room * BYTES_A_PLACE;
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, best_kernel<STEPS>));
    best_kernel<STEPS>
        <<<(unsigned)job->rows, (unsigned)threads, bytes, stream->stream>>>(*job, room);
    return kin_gpu_launched();
}

static __global__ void __launch_bounds__(JOINERS) join_kernel(const kin_screen_gpu_join job)
{
    const int64_t step = (int64_t)gridDim.x * JOINERS;
    for (int64_t i = (int64_t)blockIdx.x * JOINERS + threadIdx.x; i < job.count; i += step) {
        job.pairs[i] = kin_screen_gpu_pair{job.keys[i], job.ids[i], 0};
    }
}

int kin_screen_gpu_launch_join(kin_gpu_stream *stream, const kin_screen_gpu_join *job)
{
    const int64_t most = (int64_t)stream->processors * JOINING_A_PROCESSOR;
    const int64_t wished = (job->count + JOINERS - 1) / JOINERS;
    if (job->count == 0) {
        return 0;
    }
    join_kernel<<<(unsigned)(wished < most ? wished : most), JOINERS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

int kin_screen_gpu_launch_best(kin_gpu_stream *stream, const kin_screen_gpu_best *job)
{
    if (job->rows == 0) {
        return 0;
    }
    if (job->k > KIN_SCREEN_GPU_PASS_K || job->rows > INT32_MAX) {
        return (int)cudaErrorInvalidValue;
    }
    const bool few = job->rows < stream->processors;
    return few ? best_launch<FEW_STEPS>(stream, job, FEW_THREADS)
               : best_launch<MANY_STEPS>(stream, job, MANY_THREADS);
}
