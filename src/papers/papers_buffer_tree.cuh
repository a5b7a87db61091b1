/* SPDX-License-Identifier: Apache-2.0
 * The buffer k-d tree on a GPU: what its kernels share. Contract: papers_kernels.h.
 *
 * A query of a packet takes a lane of a warp (tree_walk.cuh), and leaves it with what it has found;
 * in between it is the walk's own code that compares packet and leaf. */
#ifndef KIN_PAPERS_BUFFER_TREE_CUH
#define KIN_PAPERS_BUFFER_TREE_CUH

#include "papers/papers_kernels.h"
#include "tree/tree_walk.cuh"

enum { BUFFER_BLOCKS_A_PROCESSOR = 16 };

/* ---- Algorithm 2: the next leaf -------------------------------------------------------------- */

/* Whether a node may have something for a row; mostly a few columns tell that it has not. The value
 * of its box is never above that of a point in it (tree_walk.cuh), whose limit is keep. */
template <kin_tree_norm NORM>
TREE_DEVICE bool buffer_is_near(const kin_tree_gpu &tree, uint32_t node, const float *row,
                                float keep)
{
    const float *box = tree.boxes + (int64_t)node * 2 * tree.wide;
    float value = 0.0F;
    for (int32_t c = 0; c < tree.wide && value <= keep; c += KIN_TREE_GPU_WIDE) {
        const float4 q = *(const float4 *)(row + c);
        const float4 low = __ldg((const float4 *)(box + c));
        const float4 high = __ldg((const float4 *)(box + tree.wide + c));
#pragma unroll
        for (int i = 0; i < KIN_TREE_GPU_WIDE; i++) {
            value = tree_step<NORM>(
                value, tree_gap(tree_part(q, i), tree_part(low, i), tree_part(high, i)));
        }
    }
    return value <= keep;
}

/* False: the traversal has come back to the root, and the list of the query is complete. */
template <kin_tree_norm NORM>
TREE_DEVICE bool buffer_next_leaf(const kin_tree_gpu &tree, const float *row, float keep,
                                  kin_traversal &at)
{
    while (at.put_off != 0) {
        int32_t level;
        uint32_t node = kin_traversal_up(&at, tree.height, &level);
        if (!buffer_is_near<NORM>(tree, node, row, keep)) {
            continue;
        }
        const bool inner = level < tree.height;
        for (int32_t l = level; l < tree.height; l++) {
            const bool left = row[__ldg(tree.planes + node)] < __ldg(tree.splits + node);
            node = 2 * node + (left ? 0 : 1);
        }
        kin_traversal_down(&at, tree.height, level, node);
        if (!inner || buffer_is_near<NORM>(tree, node, row, keep)) {
            return true;
        }
    }
    return false;
}

/* ---- Lanes ----------------------------------------------------------------------------------- */

/* A sector in two loads: device memory is aligned to more. */
TREE_DEVICE kin_papers_query buffer_read(const kin_papers_query *from)
{
    uint4 halves[2];
    kin_papers_query query;
    halves[0] = ((const uint4 *)from)[0];
    halves[1] = ((const uint4 *)from)[1];
    memcpy(&query, halves, sizeof query);
    return query;
}

TREE_DEVICE void buffer_write(kin_papers_query *to, const kin_papers_query &query)
{
    uint4 halves[2];
    memcpy(halves, &query, sizeof query);
    ((uint4 *)to)[0] = halves[0];
    ((uint4 *)to)[1] = halves[1];
}

/* A lane that is not there has an empty list, and nothing passes. */
TREE_DEVICE kin_tree_gpu_lane buffer_lane_of(const kin_papers_query &query,
                                             const kin_tree_gpu_lists &lists, bool there)
{
    kin_tree_gpu_lane lane;
    lane.keep = there ? query.keep : TREE_NO_QUERY;
    lane.gain = query.gain;
    lane.more = query.more;
    lane.dropped = there ? query.dropped : TREE_NOTHING;
    lane.count = there ? query.count : 0;
    lane.wanted = lists.wanted;
    lane.capacity = lists.capacity;
    return lane;
}

/* Short lists of lanes [0, lanes) between device memory, in one piece each, and shared memory.
 * All lanes call it. */
template <bool ENTER>
TREE_DEVICE void buffer_copy_lists(const kin_tree_gpu_short &s, const kin_tree_gpu_lists &lists,
                                   const kin_tree_gpu_lane &own, int64_t place, int32_t lanes)
{
#pragma unroll 1
    for (int32_t q = 0; q < lanes; q++) {
        const int32_t count = __shfl_sync(TREE_ALL_LANES, own.count, q);
        const int64_t of = __shfl_sync(TREE_ALL_LANES, (long long)place, q);
        uint64_t *far = lists.words + of * lists.capacity;
        uint64_t *near = s.lists + q * lists.capacity;
        for (int32_t i = tree_lane_id(); i < count; i += KIN_TREE_GPU_PACKET) {
            if (ENTER) {
                near[i] = far[i];
            } else {
                far[i] = near[i];
            }
        }
    }
}

/* Its list, and what else a policy keeps of a query between leaves. */
TREE_DEVICE void buffer_enter(kin_tree_gpu_short &s, const kin_tree_gpu_lists &lists,
                              const kin_papers_query &, const kin_tree_gpu_lane &own, int64_t place,
                              int32_t lanes)
{
    buffer_copy_lists<true>(s, lists, own, place, lanes);
}

TREE_DEVICE void buffer_enter(kin_tree_gpu_long_apart &s, const kin_tree_gpu_lists &lists,
                              const kin_papers_query &query, const kin_tree_gpu_lane &,
                              int64_t place, int32_t)
{
    s.words = lists.words + place / KIN_TREE_GPU_PACKET * KIN_TREE_GPU_PACKET * lists.capacity +
              place % KIN_TREE_GPU_PACKET;
    s.squeezed_at = query.squeezed_at;
}

TREE_DEVICE void buffer_leave(const kin_tree_gpu_short &s, const kin_tree_gpu_lists &lists,
                              kin_papers_query &, const kin_tree_gpu_lane &own, int64_t place,
                              int32_t lanes)
{
    buffer_copy_lists<false>(s, lists, own, place, lanes);
}

TREE_DEVICE void buffer_leave(const kin_tree_gpu_long_apart &s, const kin_tree_gpu_lists &,
                              kin_papers_query &query, const kin_tree_gpu_lane &, int64_t, int32_t)
{
    query.squeezed_at = s.squeezed_at;
}

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

/* ---- Algorithms 3 and 4: buffers against leaves ---------------------------------------------- */

/* What warps compare: packets of buffers, whose number a kernel before has counted, or, `alone`,
 * single queries of the ring, each to its end. count: queries. */
typedef struct kin_papers_comparing {
    kin_papers_buffers of;
    bool alone;
    int64_t head;
    int64_t count;
} kin_papers_comparing;

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
    const int64_t most = (int64_t)stream->processors * BUFFER_BLOCKS_A_PROCESSOR;
    int32_t warps = TREE_WARPS;
    while (warps > 1 && warps * bytes > stream->shared_bytes) {
        warps /= 2;
    }
    /* There are at most as many packets as queries. */
    const int64_t blocks = (job->count + warps - 1) / warps;
    KIN_CUDA_TRY(cudaFuncSetAttribute(compare_kernel<NORM, WIDE, LISTS>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      stream->shared_bytes));
    compare_kernel<NORM, WIDE, LISTS>
        <<<(unsigned)(blocks < most ? blocks : most), (unsigned)(warps * KIN_TREE_GPU_PACKET),
           (size_t)(warps * bytes), stream->stream>>>(*job, shape);
    return kin_gpu_launched();
}

/* Ends a function with the launch for WIDE columns, if that is enough. */
#define COMPARE_UP_TO(WIDE, NORM, LISTS, is_long)                       \
    if (job->of.walk.tree.wide <= (WIDE)) {                             \
        return compare_launch<NORM, WIDE, LISTS>(stream, job, is_long); \
    }

/* By kind of list, each in a file of its own, since they take long to compile. */
int kin_papers_compare_short(kin_gpu_stream *stream, const kin_papers_comparing *job);
int kin_papers_compare_long(kin_gpu_stream *stream, const kin_papers_comparing *job);

#endif
