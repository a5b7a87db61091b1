/* SPDX-License-Identifier: Apache-2.0
 *
 * What the pipelines need beside the launches that others have, too: the buffers of buffer_tree,
 * and of hybrid a sample of the columns of a cost matrix. */
#include "gpu/gpu_stream.cuh"
#include "papers/papers_buffer_tree.cuh"

/* ---- Buffers of a tree ----------------------------------------------------------------------- */

/* The buffer k-d tree on a GPU: queries begin, find their next leaves, wait, are sorted by leaf,
 * and have their lists at the end. What compares them with leaves: papers_buffer_compare.cu.
 *
 * Source. Gieseke, Heinermann, Oancea, Igel 2014, "Buffer k-d trees", algorithms 1 and 2; bench
 * laboratory of earlier versions of kith, whose pool this is.
 *
 * Buffers. A query that finds a leaf draws a number among those who wait there, and one among all
 * who wait. When buffers are emptied, each leaf draws a piece of the ring, and the numbers say
 * where in it: a sort by leaf that reads no key twice. In which order leaves, and queries of a
 * leaf, stand is left to chance; the answer does not depend on it.
 *
 *      waits   q7 q2 q9 q4 ...          a thread a query
 *      slots    0  0  1  0
 *      fill    leaf 3: 2, leaf 5: 2     a thread a leaf: a piece of the ring, packets of 32
 *      ring    ... [q7 q9] [q2 q4] ...  a warp a packet
 *
 * Cost. A node that is asked: a box, read by each lane for itself. Everything else is a few
 * numbers a query. */

enum { FIND_THREADS = 128, THREADS = 256 };

static unsigned blocks_for(int64_t count, int64_t threads)
{
    return (unsigned)((count + threads - 1) / threads);
}

static __device__ __forceinline__ int64_t my_thread(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static bool is_long(const kin_papers_buffers *job)
{
    return job->walk.lists.capacity > KIN_TREE_GPU_SHORT;
}

/* What kernels take for granted. */
static bool is_sound(const kin_papers_buffers *job)
{
    const kin_tree_gpu_walk *walk = &job->walk;
    return walk->tree.wide <= 32 && walk->tree.wide % KIN_TREE_GPU_WIDE == 0 &&
           walk->lists.capacity > walk->lists.wanted && walk->place0 % KIN_TREE_GPU_PACKET == 0 &&
           walk->count <= job->length && (uintptr_t)job->queries % sizeof(uint4) == 0;
}

/* ---- Begin ----------------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(THREADS)
    begin_kernel(const __grid_constant__ kin_papers_buffers job)
{
    const int64_t number = my_thread();
    const kin_tree_gpu_walk &walk = job.walk;
    if (number >= walk.count) {
        return;
    }
    const int64_t place = walk.place0 + number;
    const bool active = tree_active(walk, place);
    const kin_tree_gpu_lane lane =
        tree_lane_of(walk.tree, walk.lists, active, active ? tree_row_lost(walk, place) : 0.0F);
    kin_papers_query query;
    query.at.leaf = 0;
    query.at.put_off = active ? KIN_PUT_OFF_ROOT : 0;
    query.keep = lane.keep;
    query.gain = lane.gain;
    query.more = lane.more;
    query.dropped = lane.dropped;
    query.count = 0;
    query.squeezed_at = walk.lists.wanted;
    buffer_write(job.queries + number, query);
}

static int launch_begin(kin_gpu_stream *stream, const kin_papers_buffers *job)
{
    if (job->walk.count == 0) {
        return 0;
    }
    if (!is_sound(job)) {
        return (int)cudaErrorInvalidValue;
    }
    const size_t leaves = (size_t)1 << job->walk.tree.height;
    KIN_CUDA_TRY(cudaMemsetAsync(job->fill, 0, leaves * sizeof *job->fill, stream->stream));
    KIN_CUDA_TRY(cudaMemsetAsync(job->counts, 0, sizeof *job->counts, stream->stream));
    begin_kernel<<<blocks_for(job->walk.count, THREADS), THREADS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

/* ---- Algorithm 2 ----------------------------------------------------------------------------- */

/* Whoever has found a leaf waits there; all lanes call it. */
static __device__ __forceinline__ void wait_at_leaf(const kin_papers_batch &job, bool found,
                                                    uint32_t number, uint32_t leaf)
{
    const int32_t lane = tree_lane_id();
    const uint32_t finders = __ballot_sync(TREE_ALL_LANES, found);
    uint32_t at = 0;
    if (lane == 0 && finders != 0) {
        at = atomicAdd(&job.of.counts->waiting, (uint32_t)__popc(finders));
    }
    at = __shfl_sync(TREE_ALL_LANES, at, 0) + (uint32_t)__popc(finders & ((1u << lane) - 1));
    if (found) {
        const uint32_t slot = atomicAdd(job.of.fill + leaf, 1u);
        job.of.waits[at] = number;
        job.of.slots[at] = slot;
        if ((int64_t)slot + 1 >= job.half) {
            job.of.counts->full = 1; /* whoever writes it writes the same */
        }
    }
}

template <kin_tree_norm NORM, int WIDE>
static __global__ void __launch_bounds__(FIND_THREADS)
    find_kernel(const __grid_constant__ kin_papers_batch job)
{
    __shared__ float4 rows[FIND_THREADS * kin_tree_gpu_stride<WIDE>::FLOATS / 4];
    const int64_t i = my_thread();
    const bool there = i < job.taken + job.fresh;
    float *row = (float *)rows + (int32_t)threadIdx.x * kin_tree_gpu_stride<WIDE>::FLOATS;
    bool found = false;
    uint32_t number = 0;
    kin_traversal at = {0, 0};
    if (there) {
        number = i < job.taken ? job.of.ring[kin_papers_ring(job.head + i, job.of.length)]
                               : (uint32_t)(job.begun + (i - job.taken));
        const kin_papers_query query = buffer_read(job.of.queries + number);
        at = query.at;
        if (at.put_off != 0) {
            tree_load<WIDE>(job.of.walk, job.of.walk.place0 + number, true, row);
            found = buffer_next_leaf<NORM>(job.of.walk.tree, row, query.keep, at);
            job.of.queries[number].at = at;
        }
    }
    __syncwarp(); /* all lanes have come back */
    wait_at_leaf(job, found, number, at.leaf - (1u << job.of.walk.tree.height));
}

template <kin_tree_norm NORM>
static void find_by_columns(kin_gpu_stream *stream, const kin_papers_batch *job)
{
    const int32_t wide = job->of.walk.tree.wide;
    const unsigned blocks = blocks_for(job->taken + job->fresh, FIND_THREADS);
    if (wide <= 8) {
        find_kernel<NORM, 8><<<blocks, FIND_THREADS, 0, stream->stream>>>(*job);
    } else if (wide <= 16) {
        find_kernel<NORM, 16><<<blocks, FIND_THREADS, 0, stream->stream>>>(*job);
    } else {
        find_kernel<NORM, 32><<<blocks, FIND_THREADS, 0, stream->stream>>>(*job);
    }
}

static int launch_find(kin_gpu_stream *stream, const kin_papers_batch *job)
{
    if (job->taken + job->fresh == 0) {
        return 0;
    }
    switch (job->of.walk.tree.norm) {
    case KIN_NORM_TWO:
        find_by_columns<KIN_NORM_TWO>(stream, job);
        break;
    case KIN_NORM_ONE:
        find_by_columns<KIN_NORM_ONE>(stream, job);
        break;
    case KIN_NORM_MOST:
        find_by_columns<KIN_NORM_MOST>(stream, job);
        break;
    default:
        return (int)cudaErrorInvalidValue;
    }
    return kin_gpu_launched();
}

/* ---- Buffers are emptied --------------------------------------------------------------------- */

/* The sum over the lanes up to this one; all lanes call it. */
static __device__ __forceinline__ uint32_t sum_upto(uint32_t number)
{
    const int32_t lane = tree_lane_id();
    for (int step = 1; step < KIN_TREE_GPU_PACKET; step *= 2) {
        const uint32_t others = __shfl_up_sync(TREE_ALL_LANES, number, step);
        number += lane >= step ? others : 0;
    }
    return number;
}

/* Where this lane's share of what a warp draws begins; all lanes call it. */
static __device__ __forceinline__ uint32_t draw(uint32_t *from, uint32_t share)
{
    const uint32_t upto = sum_upto(share);
    uint32_t base = 0;
    if (tree_lane_id() == KIN_TREE_GPU_PACKET - 1 && upto != 0) {
        base = atomicAdd(from, upto);
    }
    return __shfl_sync(TREE_ALL_LANES, base, KIN_TREE_GPU_PACKET - 1) + upto - share;
}

/* A thread a leaf: who waits there gets a piece of the ring, and packets. */
static __global__ void __launch_bounds__(THREADS)
    divide_kernel(const __grid_constant__ kin_papers_emptying job)
{
    const int64_t leaf = my_thread();
    const int64_t leaves = (int64_t)1 << job.of.walk.tree.height;
    const uint32_t fill = leaf < leaves ? job.of.fill[leaf] : 0;
    const uint32_t packets = (fill + KIN_TREE_GPU_PACKET - 1) / KIN_TREE_GPU_PACKET;
    const uint32_t first = draw(&job.of.counts->placed, fill);
    const uint32_t packet = draw(&job.of.counts->packets, packets);
    if (fill == 0) {
        return;
    }
    job.of.first[leaf] = first;
    job.of.fill[leaf] = 0;
    for (uint32_t i = 0; i < packets; i++) {
        const uint32_t before = i * KIN_TREE_GPU_PACKET;
        job.of.packets[packet + i] =
            kin_papers_packet{(uint32_t)leaf, min(fill - before, (uint32_t)KIN_TREE_GPU_PACKET),
                              job.tail + (int64_t)first + before};
    }
}

/* A thread a query that waits. */
static __global__ void __launch_bounds__(THREADS)
    line_up_kernel(const __grid_constant__ kin_papers_emptying job)
{
    const int64_t i = my_thread();
    if (i >= job.count) {
        return;
    }
    const uint32_t number = job.of.waits[i];
    const uint32_t leaf = job.of.queries[number].at.leaf - (1u << job.of.walk.tree.height);
    const int64_t place = job.tail + (int64_t)job.of.first[leaf] + job.of.slots[i];
    job.of.ring[kin_papers_ring(place, job.of.length)] = number;
}

static int launch_empty(kin_gpu_stream *stream, const kin_papers_emptying *job)
{
    if (job->count == 0) {
        return 0;
    }
    const int64_t leaves = (int64_t)1 << job->of.walk.tree.height;
    const kin_papers_comparing comparing = {job->of, false, 0, job->count};
    divide_kernel<<<blocks_for(leaves, THREADS), THREADS, 0, stream->stream>>>(*job);
    KIN_CUDA_TRY_LAUNCH();
    line_up_kernel<<<blocks_for(job->count, THREADS), THREADS, 0, stream->stream>>>(*job);
    KIN_CUDA_TRY_LAUNCH();
    const int compared = kin_papers_compare(stream, &comparing);
    if (compared != 0) {
        return compared;
    }
    KIN_CUDA_TRY(cudaMemsetAsync(job->of.counts, 0, sizeof *job->of.counts, stream->stream));
    return 0;
}

static int launch_alone(kin_gpu_stream *stream, const kin_papers_rest *job)
{
    const kin_papers_comparing comparing = {job->of, true, job->head, job->count};
    return job->count == 0 ? 0 : kin_papers_compare(stream, &comparing);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* A packet of places side by side, a lane a place: from one piece a list to words that stand apart,
 * through shared memory. */
static __device__ __forceinline__ void end_packet(kin_tree_gpu_short &s,
                                                  const kin_tree_gpu_lists &lists,
                                                  kin_tree_gpu_lane &own, int64_t packet)
{
    const int64_t first = packet * KIN_TREE_GPU_PACKET;
    buffer_copy_lists<true>(s, lists, own, first + tree_lane_id(), KIN_TREE_GPU_PACKET);
    tree_deliver(s, own, lists.words + first * lists.capacity);
}

static __device__ __forceinline__ void end_packet(kin_tree_gpu_long &s,
                                                  const kin_tree_gpu_lists &lists,
                                                  kin_tree_gpu_lane &own, int64_t packet)
{
    s.words = lists.words + packet * KIN_TREE_GPU_PACKET * lists.capacity;
    s.squeezed_at = own.capacity;
    tree_deliver(s, own, s.words);
}

static __device__ __forceinline__ void end_begin(kin_tree_gpu_short &s, uint64_t *shared)
{
    s.lists = shared;
    s.found = NULL;
}

static __device__ __forceinline__ void end_begin(kin_tree_gpu_long &s, uint64_t *shared)
{
    s.bins = (uint32_t *)shared;
}

template <typename LISTS>
static __global__ void __launch_bounds__(TREE_WARPS *KIN_TREE_GPU_PACKET)
    end_kernel(const __grid_constant__ kin_papers_buffers job, int32_t words)
{
    extern __shared__ uint64_t end_shared[];
    const kin_tree_gpu_walk &walk = job.walk;
    const int32_t warps = (int32_t)blockDim.x / KIN_TREE_GPU_PACKET;
    const int32_t warp = (int32_t)threadIdx.x / KIN_TREE_GPU_PACKET;
    const int64_t packet = (int64_t)blockIdx.x * warps + warp;
    const int64_t number = packet * KIN_TREE_GPU_PACKET + tree_lane_id();
    if (packet * KIN_TREE_GPU_PACKET >= walk.count) {
        return;
    }
    const bool there = number < walk.count;
    const kin_papers_query query = buffer_read(job.queries + (there ? number : 0));
    kin_tree_gpu_packet<LISTS> p;
    p.pairs = 0;
    p.leaves = 0;
    p.own = buffer_lane_of(query, walk.lists, there);
    end_begin(p.lists, end_shared + (int64_t)warp * words);
    end_packet(p.lists, walk.lists, p.own, walk.place0 / KIN_TREE_GPU_PACKET + packet);
    tree_report(p, walk, walk.place0 + number);
}

template <typename LISTS>
static int end_by(kin_gpu_stream *stream, const kin_papers_buffers *job, int64_t words)
{
    const int64_t bytes = words * (int64_t)sizeof(uint64_t);
    int32_t warps = TREE_WARPS;
    while (warps > 1 && warps * bytes > stream->shared_bytes) {
        warps /= 2;
    }
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, end_kernel<LISTS>));
    end_kernel<LISTS>
        <<<blocks_for(job->walk.count, (int64_t)warps * KIN_TREE_GPU_PACKET),
           (unsigned)(warps * KIN_TREE_GPU_PACKET), (size_t)(warps * bytes), stream->stream>>>(
            *job, (int32_t)words);
    return kin_gpu_launched();
}

static int launch_end(kin_gpu_stream *stream, const kin_papers_buffers *job)
{
    const int64_t of_packet = (int64_t)job->walk.lists.capacity * KIN_TREE_GPU_PACKET;
    const int64_t of_bins = (int64_t)(TREE_BINS * sizeof(uint32_t) / sizeof(uint64_t));
    if (job->walk.count == 0) {
        return 0;
    }
    return is_long(job) ? end_by<kin_tree_gpu_long>(stream, job, of_bins)
                        : end_by<kin_tree_gpu_short>(stream, job, of_packet);
}

static const kin_papers_buffer_kernels buffer_table = {launch_begin, launch_find, launch_empty,
                                                       launch_alone, launch_end};

/* ---- A sample of columns --------------------------------------------------------------------- */

enum { BLOCKS_A_PROCESSOR = 32 };

/* Bound by memory: it reads a sector of 32 bytes a column unless it is dense. */
static __global__ void __launch_bounds__(THREADS) sample_kernel(const kin_papers_sample job)
{
    const int64_t all = job.rows * job.columns;
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < all; i += step) {
        const int64_t row = i / job.columns;
        const int64_t column = i % job.columns * job.count / job.columns;
        job.sample[i] = __ldcs(job.matrix + row * job.pitch + column);
    }
}

static unsigned blocks_of(const kin_gpu_stream *stream, int64_t items)
{
    const int64_t most = (int64_t)stream->processors * BLOCKS_A_PROCESSOR;
    const int64_t wished = (items + THREADS - 1) / THREADS;
    return (unsigned)(wished < most ? wished : most);
}

static int sample(kin_gpu_stream *stream, const kin_papers_sample *job)
{
    if (job->rows * job->columns == 0) {
        return 0;
    }
    const unsigned blocks = blocks_of(stream, job->rows * job->columns);
    sample_kernel<<<blocks, THREADS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

extern "C" const kin_papers_kernels kin_papers_table;
const kin_papers_kernels kin_papers_table = {sample, &buffer_table};
