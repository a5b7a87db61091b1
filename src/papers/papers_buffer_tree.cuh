/* SPDX-License-Identifier: Apache-2.0
 * The buffer k-d tree on a GPU: what its kernels share. Contract: papers_kernels.h.
 *
 * A query of a packet takes a lane of a warp (tree_walk.cuh), and leaves it with what it has found;
 * in between it is the walk's own code that compares packet and leaf. */
#ifndef KIN_PAPERS_BUFFER_TREE_CUH
#define KIN_PAPERS_BUFFER_TREE_CUH

#include "papers/papers_kernels.h"
#include "tree/tree_walk.cuh"

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

/* ---- Algorithms 3 and 4 (papers_buffer_compare.cu) ------------------------------------------- */

/* What warps compare: packets of buffers, whose number a kernel before has counted, or, `alone`,
 * single queries of the ring, each to its end. count: queries. */
typedef struct kin_papers_comparing {
    kin_papers_buffers of;
    bool alone;
    int64_t head;
    int64_t count;
} kin_papers_comparing;

int kin_papers_compare(kin_gpu_stream *stream, const kin_papers_comparing *job);

#endif
