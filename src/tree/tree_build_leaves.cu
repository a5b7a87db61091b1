/* SPDX-License-Identifier: Apache-2.0
 * Leaves, boxes and what nodes lost, once every list of a tree that is built stands leaf by leaf. A
 * leaf's box is what stands at the ends of its lists. */
#include "tree/tree_launch.cuh"

enum { TOP_LEVEL = 8 /* nodes of it and above are joined by one block of threads */ };

static __global__ void __launch_bounds__(KIN_FUSED_THREADS)
    write_points_kernel(const __grid_constant__ kin_tree_gpu_building b)
{
    const int64_t place = kin_tree_gpu_my_thread();
    if (place >= b.tree.blocks * KIN_TREE_LANES) {
        return;
    }
    const bool real = place < b.tree.points;
    const int64_t number = real ? (int64_t)kin_tree_gpu_list_of(b, b.tree.cols)[place] : 0;
    const float4 *row = (const float4 *)(b.rows + number * b.tree.wide);
    float *out = (float *)b.tree.values + place / KIN_TREE_LANES * KIN_TREE_LANES * b.tree.wide +
                 place % KIN_TREE_LANES;
    for (int32_t c = 0; c < b.tree.wide; c += KIN_TREE_GPU_WIDE) {
        const float4 four =
            real ? __ldg(row + c / KIN_TREE_GPU_WIDE) : make_float4(0.0F, 0.0F, 0.0F, 0.0F);
        out[(c + 0) * KIN_TREE_LANES] = four.x;
        out[(c + 1) * KIN_TREE_LANES] = four.y;
        out[(c + 2) * KIN_TREE_LANES] = four.z;
        out[(c + 3) * KIN_TREE_LANES] = four.w;
    }
    const uint32_t id = b.firsts != NULL ? b.firsts[number] : (uint32_t)number;
    ((uint32_t *)b.tree.ids)[place] = real ? id : UINT32_MAX;
}

/* A warp a leaf. Nothing is in the box of a leaf without points. */
static __global__ void __launch_bounds__(KIN_FUSED_THREADS)
    write_leaves_kernel(const __grid_constant__ kin_tree_gpu_building b)
{
    const int64_t leaf = kin_tree_gpu_my_warp();
    const int64_t leaves = (int64_t)1 << b.tree.height;
    const int32_t lane = kin_tree_gpu_my_lane();
    const int32_t wide = b.tree.wide;
    if (leaf >= leaves) {
        return;
    }
    const int64_t first = kin_tree_gpu_first_point(b.tree, b.tree.height, leaf);
    const int64_t last = kin_tree_gpu_first_point(b.tree, b.tree.height, leaf + 1);
    float *boxes = (float *)b.tree.boxes;
    float *box = boxes + (leaves + leaf) * 2 * wide;
    for (int32_t c = lane; c < wide; c += KIN_FUSED_WARP) {
        const float empty = c < b.tree.cols ? INFINITY : 0.0F;
        const bool real = c < b.tree.cols && first < last;
        box[c] = real ? kin_tree_gpu_component(b, c, first) : empty;
        box[wide + c] = real ? kin_tree_gpu_component(b, c, last - 1) : 0.0F - empty;
    }
    uint32_t lost = 0; /* its bits rise like it does */
    for (int64_t place = first + lane; place < last; place += KIN_FUSED_WARP) {
        const uint32_t other =
            __float_as_uint(b.row_lost[kin_tree_gpu_list_of(b, b.tree.cols)[place]]);
        lost = other > lost ? other : lost;
    }
    lost = __reduce_max_sync(KIN_FUSED_ALL_LANES, lost);
    if (lane == 0) {
        ((float *)b.tree.lost)[leaves + leaf] = __uint_as_float(lost);
        ((uint32_t *)b.tree.starts)[leaf] =
            (uint32_t)kin_tree_block_of(b.tree.blocks, b.tree.height, leaf);
        ((uint32_t *)b.tree.counts)[leaf] = (uint32_t)(last - first);
    }
    if (leaf == 0) { /* what no node has, too, has the bytes of the host's */
        for (int32_t c = lane; c < 2 * wide; c += KIN_FUSED_WARP) {
            boxes[c] = 0.0F;
        }
        ((float *)b.tree.lost)[0] = 0.0F;
        ((float *)b.tree.splits)[0] = 0.0F;
        ((int32_t *)b.tree.planes)[0] = 0;
        ((uint32_t *)b.tree.starts)[leaves] = (uint32_t)b.tree.blocks;
    }
}

/* Inner nodes of levels `from` down to `to`; several levels: by one block of threads. */
static __global__ void __launch_bounds__(KIN_FUSED_THREADS)
    join_boxes_kernel(const __grid_constant__ kin_tree_gpu_building b, int32_t from, int32_t to)
{
    const int32_t wide = b.tree.wide;
    float *boxes = (float *)b.tree.boxes;
    float *lost = (float *)b.tree.lost;
    for (int32_t level = from; level >= to; level--) {
        const int64_t items = (int64_t)(wide + 1) << level;
        for (int64_t item = kin_tree_gpu_my_thread(); item < items;
             item += (int64_t)gridDim.x * blockDim.x) {
            const int64_t node = ((int64_t)1 << level) + item / (wide + 1);
            const int32_t c = (int32_t)(item % (wide + 1));
            const float *left = boxes + 2 * node * 2 * wide + c;
            const float *right = left + 2 * wide;
            float *box = boxes + node * 2 * wide + c;
            if (c < wide) {
                box[0] = fminf(left[0], right[0]);
                box[wide] = fmaxf(left[wide], right[wide]);
            } else {
                lost[node] = fmaxf(lost[2 * node], lost[2 * node + 1]);
            }
        }
        __syncthreads();
    }
}

extern "C" int kin_tree_gpu_write_tree(kin_gpu_stream *stream, const kin_tree_gpu_building *b)
{
    const int32_t height = b->tree.height;
    write_points_kernel<<<kin_tree_gpu_blocks_for(b->tree.blocks * KIN_TREE_LANES,
                                                  KIN_FUSED_THREADS),
                          KIN_FUSED_THREADS, 0, stream->stream>>>(*b);
    KIN_CUDA_TRY_LAUNCH();
    write_leaves_kernel<<<kin_tree_gpu_blocks_for((int64_t)1 << height, KIN_TREE_GPU_WARPS),
                          KIN_FUSED_THREADS, 0, stream->stream>>>(*b);
    KIN_CUDA_TRY_LAUNCH();
    int32_t level = height - 1;
    for (; level > TOP_LEVEL; level--) {
        const int64_t items = (int64_t)(b->tree.wide + 1) << level;
        join_boxes_kernel<<<kin_tree_gpu_blocks_for(items, KIN_FUSED_THREADS), KIN_FUSED_THREADS, 0,
                            stream->stream>>>(*b, level, level);
        KIN_CUDA_TRY_LAUNCH();
    }
    if (level >= 0) {
        join_boxes_kernel<<<1, KIN_FUSED_THREADS, 0, stream->stream>>>(*b, level, 0);
    }
    return kin_gpu_launched();
}
