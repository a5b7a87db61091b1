/* SPDX-License-Identifier: Apache-2.0
 * Buffers against leaves: a warp a packet of up to 32 queries, which wait in the same buffer.
 *
 * Idea. The packet's rows and short lists go to shared memory, and the tree's own code compares
 * them with the leaf (tree_walk.cuh): a lane is a point, or two, in registers, and the queries go
 * past them one by one. So a leaf is read once a packet, and not once a query. What is left of a
 * list goes back to device memory until its query is at another leaf.
 *
 * The few queries that remain at the end have a warp each, and all its lanes look for the next leaf
 * of the one query: what they read they read together.
 *
 * Source. Gieseke, Heinermann, Oancea, Igel 2014, "Buffer k-d trees", algorithms 3 and 4.
 * Cost. As of a leaf of the walk; and of each query and leaf a row, a list of 8 bytes a word read
 * and written, and a sector of what else is known of it. */
#include "papers/papers_buffer_tree.cuh"

enum { BLOCKS_A_PROCESSOR = 16 };

TREE_DEVICE void buffer_begin(kin_tree_gpu_short &s, char *shared, const kin_tree_gpu_shape &shape)
{
    s.lists = (uint64_t *)(shared + shape.rows);
    s.found = (uint64_t *)(shared + shape.rows + shape.list);
}

TREE_DEVICE void buffer_begin(kin_tree_gpu_long_apart &s, char *shared,
                              const kin_tree_gpu_shape &shape)
{
    s.bins = (uint32_t *)(shared + shape.rows);
}

/* ---- Packets --------------------------------------------------------------------------------- */

/* The packet's leaf and those that follow it, if its one query is alone. Lanes without a query have
 * the keep of nobody. */
template <kin_tree_norm NORM, int WIDE, typename LISTS>
TREE_DEVICE void buffer_compare(kin_tree_gpu_packet<LISTS> &p, const kin_papers_comparing &job,
                                uint32_t leaf, uint32_t waiting, kin_traversal &at)
{
    const kin_tree_gpu &tree = job.of.walk.tree;
    const uint32_t leaves = 1u << tree.height;
#pragma unroll 1
    for (;;) {
        if (job.alone) {
            const float keep = __shfl_sync(TREE_ALL_LANES, p.own.keep, 0);
            if (!buffer_next_leaf<NORM>(tree, p.rows, keep, at)) {
                return;
            }
            leaf = at.leaf - leaves;
        }
        tree_leaf<NORM, WIDE>(p, tree, __ldg(tree.starts + leaf),
                              (int32_t)__ldg(tree.counts + leaf), waiting);
        if (!job.alone) {
            return;
        }
    }
}

/* The i-th packet. */
TREE_DEVICE kin_papers_packet buffer_packet(const kin_papers_comparing &job, int64_t i)
{
    kin_papers_packet packet = {0, 1, job.head + i};
    return job.alone ? packet : job.of.packets[i];
}

template <kin_tree_norm NORM, int WIDE, typename LISTS>
static __global__ void __launch_bounds__(TREE_WARPS *KIN_TREE_GPU_PACKET,
                                         kin_tree_gpu_blocks<WIDE>::MOST - 1)
    compare_kernel(const __grid_constant__ kin_papers_comparing job,
                   const __grid_constant__ kin_tree_gpu_shape shape)
{
    extern __shared__ uint4 tree_shared[];
    const kin_tree_gpu_walk &walk = job.of.walk;
    const int32_t warps = (int32_t)blockDim.x / KIN_TREE_GPU_PACKET;
    const int32_t warp = (int32_t)threadIdx.x / KIN_TREE_GPU_PACKET;
    const int32_t lane = tree_lane_id();
    const int32_t bytes = shape.rows + shape.list + shape.found;
    const int64_t packets = job.alone ? job.count : (int64_t)job.of.counts->packets;
    char *shared = (char *)tree_shared + (int64_t)warp * bytes;
    float *rows = (float *)shared;
    kin_tree_gpu_packet<LISTS> p;
    p.rows = rows;
    p.stack = NULL;
    p.pairs = 0;
    p.leaves = 0;
    buffer_begin(p.lists, shared, shape);
    for (int64_t i = (int64_t)blockIdx.x * warps + warp; i < packets;
         i += (int64_t)gridDim.x * warps) {
        const kin_papers_packet packet = buffer_packet(job, i);
        const int32_t lanes = (int32_t)packet.count;
        const bool there = lane < lanes;
        /* A lane without a query reads that of the first one, and changes nothing of it. */
        const int64_t number =
            job.of.ring[kin_papers_ring(packet.first + (there ? lane : 0), job.of.length)];
        const int64_t place = walk.place0 + number;
        kin_papers_query query = buffer_read(job.of.queries + number);
        kin_traversal at = query.at; /* of all lanes, where one query is alone */
        p.own = buffer_lane_of(query, walk.lists, there);
        __syncwarp(); /* nobody reads the packet before any more */
        tree_load<WIDE>(walk, place, there, rows + lane * kin_tree_gpu_stride<WIDE>::FLOATS);
        buffer_enter(p.lists, walk.lists, query, p.own, place, lanes);
        __syncwarp(); /* rows and lists are there */
        buffer_compare<NORM, WIDE>(p, job, packet.leaf, __ballot_sync(TREE_ALL_LANES, there), at);
        __syncwarp(); /* lists are complete */
        buffer_leave(p.lists, walk.lists, query, p.own, place, lanes);
        if (there) {
            query.keep = p.own.keep;
            query.dropped = p.own.dropped;
            query.count = p.own.count;
            buffer_write(job.of.queries + number, query);
        }
    }
    if (lane == 0 && p.leaves != 0) {
        (void)atomicAdd((unsigned long long *)walk.met, (unsigned long long)p.pairs);
        (void)atomicAdd((unsigned long long *)walk.met + 1, (unsigned long long)p.leaves);
    }
}

template <kin_tree_norm NORM, int WIDE, typename LISTS>
static int compare_launch(kin_gpu_stream *stream, const kin_papers_comparing *job, bool is_long)
{
    kin_tree_gpu_shape shape = tree_shape<WIDE>(&job->of.walk, is_long);
    shape.stack = 0;
    const int64_t bytes = (int64_t)shape.rows + shape.list + shape.found;
    const int64_t most = (int64_t)stream->processors * BLOCKS_A_PROCESSOR;
    int32_t warps = TREE_WARPS;
    while (warps > 1 && warps * bytes > stream->shared_bytes) {
        warps /= 2;
    }
    /* There are at most as many packets as queries. */
    const int64_t blocks = (job->count + warps - 1) / warps;
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, compare_kernel<NORM, WIDE, LISTS>));
    compare_kernel<NORM, WIDE, LISTS>
        <<<(unsigned)(blocks < most ? blocks : most), (unsigned)(warps * KIN_TREE_GPU_PACKET),
           (size_t)(warps * bytes), stream->stream>>>(*job, shape);
    return kin_gpu_launched();
}

/* ---- By list, norm and columns --------------------------------------------------------------- */

/* Ends a function with the launch for WIDE columns, if that is enough. */
#define COMPARE_UP_TO(WIDE, NORM, LISTS, is_long)                       \
    if (job->of.walk.tree.wide <= (WIDE)) {                             \
        return compare_launch<NORM, WIDE, LISTS>(stream, job, is_long); \
    }

/* By the euclidean norm there is a kernel for each number of columns that pays for one
 * (tree_walk_short.cu), and tree_wide() takes that for granted. */
static int compare_two(kin_gpu_stream *stream, const kin_papers_comparing *job)
{
    COMPARE_UP_TO(4, KIN_NORM_TWO, kin_tree_gpu_short, false)
    COMPARE_UP_TO(8, KIN_NORM_TWO, kin_tree_gpu_short, false)
    COMPARE_UP_TO(12, KIN_NORM_TWO, kin_tree_gpu_short, false)
    COMPARE_UP_TO(16, KIN_NORM_TWO, kin_tree_gpu_short, false)
    COMPARE_UP_TO(32, KIN_NORM_TWO, kin_tree_gpu_short, false)
    return (int)cudaErrorInvalidValue;
}

template <kin_tree_norm NORM>
static int compare_norm(kin_gpu_stream *stream, const kin_papers_comparing *job)
{
    COMPARE_UP_TO(8, NORM, kin_tree_gpu_short, false)
    COMPARE_UP_TO(32, NORM, kin_tree_gpu_short, false)
    return (int)cudaErrorInvalidValue;
}

template <kin_tree_norm NORM>
static int compare_long(kin_gpu_stream *stream, const kin_papers_comparing *job)
{
    COMPARE_UP_TO(8, NORM, kin_tree_gpu_long_apart, true)
    COMPARE_UP_TO(16, NORM, kin_tree_gpu_long_apart, true)
    COMPARE_UP_TO(32, NORM, kin_tree_gpu_long_apart, true)
    return (int)cudaErrorInvalidValue;
}

int kin_papers_compare(kin_gpu_stream *stream, const kin_papers_comparing *job)
{
    const bool is_long = job->of.walk.lists.capacity > KIN_TREE_GPU_SHORT;
    switch (job->of.walk.tree.norm) {
    case KIN_NORM_TWO:
        return is_long ? compare_long<KIN_NORM_TWO>(stream, job) : compare_two(stream, job);
    case KIN_NORM_ONE:
        return is_long ? compare_long<KIN_NORM_ONE>(stream, job)
                       : compare_norm<KIN_NORM_ONE>(stream, job);
    case KIN_NORM_MOST:
        return is_long ? compare_long<KIN_NORM_MOST>(stream, job)
                       : compare_norm<KIN_NORM_MOST>(stream, job);
    }
    return (int)cudaErrorInvalidValue;
}
