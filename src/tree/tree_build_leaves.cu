/* SPDX-License-Identifier: Apache-2.0
 * The last levels of a tree that is built, then leaves, boxes and what nodes lost.
 *
 * Idea. A block of threads has a node whose points are few enough, a *plot*: it deals their places,
 * 16 bits each, in shared memory, level by level as tree_build.cu does, and then the lists, once.
 * Keys are fetched by place; those of a plot stay in the first cache, or in the second. A thread
 * has places that follow each other and are of one node, whose first place is a multiple of
 * KIN_TREE_LANES.
 *
 * Cost. A level of a plot is two looks at a key a column and point, and a pass over as many
 * counters as a plot has places for each digit: of a node l levels below the root as many as its
 * keys' range has digits of 12 - l bits, two or three as a rule. Limits. 256 leaves. */
#include "tree/tree_launch.cuh"

#include <cub/block/block_scan.cuh>

enum {
    PLOT_EACH = 8, /* places a thread, and counters */
    PLOT_THREADS = KIN_TREE_GPU_PLOT / PLOT_EACH,
    PLOT_DIGIT = 12,                                  /* bits: as many counters as places */
    PLOT_NODES = 1 << (KIN_TREE_GPU_PLOT_LEVELS - 1), /* that are cut side by side */
    TOP_LEVEL = 8 /* nodes of it and above are joined by one block of threads */
};

/* ---- Plots ----------------------------------------------------------------------------------- */

typedef cub::BlockScan<uint32_t, PLOT_THREADS> plot_scan;

/* Shared memory of a plot. A point is here the place at which it stood when the plot began. */
struct plot_room {
    uint16_t order[KIN_TREE_GPU_PLOT]; /* points, in the order of the nodes */
    uint32_t bins[KIN_TREE_GPU_PLOT];  /* counters, as many for each node */
    uint32_t low[PLOT_NODES];          /* extents of a column */
    uint32_t high[PLOT_NODES];         /* what is left above them */
    uint32_t base[PLOT_NODES];         /* sums before a node */
    kin_tree_gpu_cut cuts[PLOT_NODES];
    typename plot_scan::TempStorage scan;
};

/* Nodes of a level of a plot: places count from the plot's first one. */
struct plot {
    const kin_tree_gpu_building &b;
    plot_room &room;
    int64_t first;
    int32_t count;
    int32_t level;
    int64_t node0; /* the first one, of the level's */
    int32_t nodes;
};

KIN_DEVICE int32_t plot_place(const plot &p, int32_t level, int64_t i)
{
    return (int32_t)(kin_tree_gpu_first_point(p.b.tree, level, i) - p.first);
}

/* What a thread has of a plot: places that follow each other and are of one node. */
struct plot_share {
    int32_t from;
    int32_t count;
    int32_t node; /* of the plot's */
    __align__(16) uint16_t points[PLOT_EACH];
};

/* Behind the last place: nothing, of the last node. */
KIN_DEVICE plot_share share_of(const plot &p)
{
    plot_share s;
    s.from = (int32_t)threadIdx.x * PLOT_EACH;
    s.count = min(max(p.count - s.from, 0), (int32_t)PLOT_EACH);
    const int64_t block = (p.first + s.from) / KIN_TREE_LANES;
    const int64_t i =
        (int64_t)((((uint64_t)(block + 1) << p.level) - 1) / (uint64_t)p.b.tree.blocks);
    s.node = s.count > 0 ? (int32_t)(i - p.node0) : p.nodes - 1;
    *(uint4 *)s.points = *(const uint4 *)(p.room.order + s.from);
    return s;
}

KIN_DEVICE uint32_t key_at(const plot &p, const plot_share &s, int32_t column, int e)
{
    return e < s.count ? __ldg(kin_tree_gpu_list_of(p.b, column) + p.first + s.points[e])
                       : KIN_TREE_GPU_NO_KEY;
}

/* Extents of all nodes in one column. */
KIN_DEVICE void measure_plot(const plot &p, const plot_share &s, int32_t column)
{
    uint32_t low = KIN_TREE_GPU_NO_KEY;
    uint32_t high = KIN_TREE_GPU_NO_KEY;
    if (threadIdx.x < p.nodes) {
        p.room.low[threadIdx.x] = KIN_TREE_GPU_NO_KEY;
        p.room.high[threadIdx.x] = KIN_TREE_GPU_NO_KEY;
    }
    __syncthreads(); /* extents are clear */
#pragma unroll
    for (int e = 0; e < PLOT_EACH; e++) {
        const uint32_t key = key_at(p, s, column, e);
        low = min(low, key);
        high =
            min(high, key == KIN_TREE_GPU_NO_KEY ? KIN_TREE_GPU_NO_KEY : KIN_TREE_GPU_NO_KEY - key);
    }
    const int32_t node = __shfl_sync(KIN_SCREEN_GPU_ALL_LANES, s.node, 0);
    if (__all_sync(KIN_SCREEN_GPU_ALL_LANES, s.node == node)) {
        kin_tree_gpu_lower(&p.room.low[node], low);
        kin_tree_gpu_lower(&p.room.high[node], high);
    } else if (s.count > 0) {
        (void)atomicMin(&p.room.low[s.node], low);
        (void)atomicMin(&p.room.high[s.node], high);
    }
    __syncthreads(); /* extents are known */
}

/* A thread a node: what choose_columns_kernel does. Where nothing goes right, everything is left
 * of the split. */
KIN_DEVICE void begin_plot_cuts(const plot &p, const plot_share &s, int32_t digit)
{
    const int32_t j = (int32_t)threadIdx.x;
    const int64_t i = p.node0 + j;
    double widest = -1.0;
    kin_tree_gpu_cut cut = {0, KIN_TREE_GPU_NO_KEY, 0, 0};
    const int32_t first = plot_place(p, p.level, i);
    const int32_t middle = plot_place(p, p.level + 1, 2 * i + 1);
    const bool parts = j < p.nodes && middle < plot_place(p, p.level, i + 1);
    for (int32_t c = 0; c < p.b.tree.cols; c++) {
        measure_plot(p, s, c);
        if (parts) {
            const uint32_t low = p.room.low[j];
            const uint32_t high = KIN_TREE_GPU_NO_KEY - p.room.high[j];
            if (kin_tree_gpu_width_of(low, high) > widest) {
                widest = kin_tree_gpu_width_of(low, high);
                cut = kin_tree_gpu_begin_cut(c, low, high, (uint32_t)(middle - first), digit);
            }
        }
    }
    if (j < p.nodes) {
        p.room.cuts[j] = cut;
        if (!parts) {
            kin_tree_gpu_write_split(p.b.tree, ((int64_t)1 << p.level) + i, 0,
                                     (float)KIN_TREE_CLAMP * 2.0F);
        }
    }
    __syncthreads(); /* cuts have begun */
}

/* One digit of all cuts; whether there is another one. */
KIN_DEVICE bool find_plot_digits(const plot &p, const plot_share &s,
                                 const uint32_t (&keys)[PLOT_EACH], int32_t digit)
{
    uint32_t *bins = p.room.bins + threadIdx.x * PLOT_EACH;
    const int32_t first = (int32_t)threadIdx.x * PLOT_EACH % (1 << digit);
    const int32_t j = (int32_t)threadIdx.x * PLOT_EACH >> digit; /* node of these counters */
    uint32_t counts[PLOT_EACH] = {0};
    uint32_t own = 0;
    uint32_t before;
    bool more = false;
    *(uint4 *)bins = make_uint4(0, 0, 0, 0);
    *((uint4 *)bins + 1) = make_uint4(0, 0, 0, 0);
    __syncthreads(); /* counters are clear */
#pragma unroll
    for (int e = 0; e < PLOT_EACH; e++) {
        const uint32_t of = kin_tree_gpu_digit_of(p.room.cuts[s.node], keys[e]);
        if (e < s.count && of < 1u << digit) {
            (void)atomicAdd(&p.room.bins[(s.node << digit) + of], 1U);
        }
    }
    __syncthreads(); /* counted */
#pragma unroll
    for (int e = 0; e < PLOT_EACH; e++) {
        counts[e] = bins[e];
        own += counts[e];
    }
    plot_scan(p.room.scan).ExclusiveSum(own, before);
    if (first == 0) {
        p.room.base[j] = before;
    }
    /* Before the barrier: behind it who finds the digit writes it, while others may be late. */
    kin_tree_gpu_cut cut = p.room.cuts[j];
    __syncthreads(); /* sums before nodes are known, cuts are read, the scan's room is free */
    const bool shifted = cut.shift > 0;
    if (kin_tree_gpu_find_digit(counts, before - p.room.base[j], first, digit, cut)) {
        p.room.cuts[j] = cut;
        more = shifted;
    }
    return __syncthreads_or(more ? 1 : 0) != 0;
}

/* The order of the next level, as deal_tile does. */
KIN_DEVICE void deal_plot(const plot &p, const plot_share &s, const uint32_t (&keys)[PLOT_EACH])
{
    enum { EQUAL = 16 }; /* counts of keys on cuts are above this bit, of those below under it */
    const kin_tree_gpu_cut cut = p.room.cuts[s.node];
    const int32_t first = plot_place(p, p.level, p.node0 + s.node);
    const int32_t middle = plot_place(p, p.level + 1, 2 * (p.node0 + s.node) + 1);
    uint32_t own = 0;
    uint32_t before;
#pragma unroll
    for (int e = 0; e < PLOT_EACH; e++) {
        own += keys[e] < cut.low && e < s.count ? 1U : 0U;
        own += keys[e] == cut.low && e < s.count ? 1U << EQUAL : 0U;
    }
    plot_scan(p.room.scan).ExclusiveSum(own, before);
    if (s.from == first && s.count > 0) {
        p.room.base[s.node] = before;
    }
    __syncthreads(); /* sums before nodes are known, all of the order is read */
    before -= p.room.base[s.node];
#pragma unroll
    for (int e = 0; e < PLOT_EACH; e++) {
        if (e < s.count) {
            const int32_t equal = (int32_t)min(before >> EQUAL, cut.rank);
            const int32_t lefts = (int32_t)(before & ((1u << EQUAL) - 1)) + equal;
            const bool on = keys[e] == cut.low;
            const bool left = keys[e] < cut.low || (on && before >> EQUAL < cut.rank);
            const int32_t right = middle + (s.from + e - first) - lefts;
            p.room.order[left ? first + lefts : right] = s.points[e];
            before += keys[e] < cut.low ? 1U : 0U;
            before += on ? 1U << EQUAL : 0U;
        }
    }
    __syncthreads(); /* dealt */
}

KIN_DEVICE void split_plot(const plot &p, int32_t digit)
{
    const plot_share s = share_of(p);
    begin_plot_cuts(p, s, digit);
    const int32_t column = p.room.cuts[s.node].column;
    uint32_t keys[PLOT_EACH];
#pragma unroll
    for (int e = 0; e < PLOT_EACH; e++) {
        keys[e] = key_at(p, s, column, e);
    }
    while (find_plot_digits(p, s, keys, digit)) {
    }
    const kin_tree_gpu_cut cut = threadIdx.x < p.nodes
                                     ? p.room.cuts[threadIdx.x]
                                     : kin_tree_gpu_cut{0, KIN_TREE_GPU_NO_KEY, 0, 0};
    if (cut.low != KIN_TREE_GPU_NO_KEY) {
        kin_tree_gpu_write_split(p.b.tree, ((int64_t)1 << p.level) + p.node0 + threadIdx.x,
                                 cut.column, kin_tree_gpu_component_of(cut.low));
    }
    deal_plot(p, s, keys);
}

/* All levels from `top` on, a block of threads a node of it; lists to others. */
static __global__ void __launch_bounds__(PLOT_THREADS, 3)
    split_plots_kernel(const __grid_constant__ kin_tree_gpu_building b, int32_t top)
{
    __shared__ __align__(16) plot_room room;
    const int64_t first = kin_tree_gpu_first_point(b.tree, top, blockIdx.x);
    const int64_t last = kin_tree_gpu_first_point(b.tree, top, (int64_t)blockIdx.x + 1);
    const int32_t count = (int32_t)(last - first);
    for (int32_t i = (int32_t)threadIdx.x; i < KIN_TREE_GPU_PLOT; i += PLOT_THREADS) {
        room.order[i] = (uint16_t)i;
    }
    __syncthreads(); /* points are in order */
    for (int32_t level = top; level < b.tree.height; level++) {
        const int32_t below = level - top;
        split_plot(plot{b, room, first, count, level, (int64_t)blockIdx.x << below, 1 << below},
                   PLOT_DIGIT - below);
    }
    for (int32_t list = 0; list <= b.tree.cols; list++) {
        const uint32_t *from = kin_tree_gpu_list_of(b, list) + first;
        uint32_t *to = b.others + list * b.tree.points + first;
        for (int32_t i = (int32_t)threadIdx.x; i < count; i += PLOT_THREADS) {
            to[i] = __ldg(from + room.order[i]);
        }
    }
}

/* ---- Leaves ---------------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
    write_points_kernel(const __grid_constant__ kin_tree_gpu_building b)
{
    const int64_t place = kin_tree_gpu_my_thread();
    if (place >= b.tree.blocks * KIN_TREE_LANES) {
        return;
    }
    const bool real = place < b.tree.points;
    const uint32_t number = real ? kin_tree_gpu_list_of(b, b.tree.cols)[place] : 0;
    float *out = (float *)b.tree.values + place / KIN_TREE_LANES * KIN_TREE_LANES * b.tree.wide +
                 place % KIN_TREE_LANES;
    for (int32_t c = 0; c < b.tree.wide; c++) {
        out[c * KIN_TREE_LANES] = real && c < b.tree.cols
                                      ? kin_tree_gpu_component_of(kin_tree_gpu_list_of(b, c)[place])
                                      : 0.0F;
    }
    const uint32_t id = b.firsts != NULL ? b.firsts[number] : number;
    ((uint32_t *)b.tree.ids)[place] = real ? id : UINT32_MAX;
}

/* A warp a leaf. Nothing is in the box of a leaf without points. */
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
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
    for (int32_t c = 0; c < wide; c++) {
        const bool real = c < b.tree.cols && first < last;
        const float empty = c < b.tree.cols ? INFINITY : 0.0F;
        uint32_t low = KIN_TREE_GPU_NO_KEY;
        uint32_t high = 0;
        for (int64_t place = first + lane; real && place < last; place += KIN_SCREEN_GPU_WARP) {
            const uint32_t key = kin_tree_gpu_list_of(b, c)[place];
            low = min(low, key);
            high = max(high, key);
        }
        low = __reduce_min_sync(KIN_SCREEN_GPU_ALL_LANES, low);
        high = __reduce_max_sync(KIN_SCREEN_GPU_ALL_LANES, high);
        if (lane == 0) {
            box[c] = real ? kin_tree_gpu_component_of(low) : empty;
            box[wide + c] = real ? kin_tree_gpu_component_of(high) : 0.0F - empty;
        }
    }
    uint32_t lost = 0; /* its bits rise like it does */
    for (int64_t place = first + lane; place < last; place += KIN_SCREEN_GPU_WARP) {
        const uint32_t other =
            __float_as_uint(b.row_lost[kin_tree_gpu_list_of(b, b.tree.cols)[place]]);
        lost = other > lost ? other : lost;
    }
    lost = __reduce_max_sync(KIN_SCREEN_GPU_ALL_LANES, lost);
    if (lane == 0) {
        ((float *)b.tree.lost)[leaves + leaf] = __uint_as_float(lost);
        ((uint32_t *)b.tree.starts)[leaf] =
            (uint32_t)kin_tree_block_of(b.tree.blocks, b.tree.height, leaf);
        ((uint32_t *)b.tree.counts)[leaf] = (uint32_t)(last - first);
    }
    if (leaf == 0) { /* what no node has, too, has the bytes of the host's */
        for (int32_t c = lane; c < 2 * wide; c += KIN_SCREEN_GPU_WARP) {
            boxes[c] = 0.0F;
        }
        ((float *)b.tree.lost)[0] = 0.0F;
        ((float *)b.tree.splits)[0] = 0.0F;
        ((int32_t *)b.tree.planes)[0] = 0;
        ((uint32_t *)b.tree.starts)[leaves] = (uint32_t)b.tree.blocks;
    }
}

/* Inner nodes of levels `from` down to `to`; several levels: by one block of threads. */
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
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

/* ---- Launch ---------------------------------------------------------------------------------- */

extern "C" int kin_tree_gpu_split_plots(kin_gpu_stream *stream, const kin_tree_gpu_building *b,
                                        int32_t top)
{
    split_plots_kernel<<<1u << top, PLOT_THREADS, 0, stream->stream>>>(*b, top);
    return kin_gpu_launched();
}

extern "C" int kin_tree_gpu_write_tree(kin_gpu_stream *stream, const kin_tree_gpu_building *b)
{
    const int32_t height = b->tree.height;
    write_points_kernel<<<kin_tree_gpu_blocks_for(b->tree.blocks * KIN_TREE_LANES,
                                                  KIN_SCREEN_GPU_THREADS),
                          KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*b);
    KIN_CUDA_TRY_LAUNCH();
    write_leaves_kernel<<<kin_tree_gpu_blocks_for((int64_t)1 << height, KIN_TREE_GPU_WARPS),
                          KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*b);
    KIN_CUDA_TRY_LAUNCH();
    int32_t level = height - 1;
    for (; level > TOP_LEVEL; level--) {
        const int64_t items = (int64_t)(b->tree.wide + 1) << level;
        join_boxes_kernel<<<kin_tree_gpu_blocks_for(items, KIN_SCREEN_GPU_THREADS),
                            KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*b, level, level);
        KIN_CUDA_TRY_LAUNCH();
    }
    if (level >= 0) {
        join_boxes_kernel<<<1, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*b, level, 0);
    }
    return kin_gpu_launched();
}
