/* SPDX-License-Identifier: Apache-2.0
 * A tree from its rounded rows, without one wait of the host. Contract: tree_kernels.h.
 *
 * Idea. Every column is sorted once, by (component, number). Each *list*, that of a column, is then
 * kept sorted within every node: a level is a stable partition of all lists into left and right
 * parts. So a node's box is what stands at the ends of its lists, its median stands in the middle
 * of one. Ranges of nodes follow from the number of points alone. One list more, in the order of
 * numbers, becomes that of points in leaves: a sort by nodes makes it after the last level that is
 * parted in device memory.
 *
 * Partition. A point goes left when it stands before the middle of its node in the list that is
 * split: its *side*, by number. If lists were parted already, those before the middle would be the
 * left ones; a *surplus* is how many more (modulo 2^32) truly are, summed from the start of the
 * list. It is 0 at each node's start, so that sums over the whole list serve all nodes at once: of
 * the left ones of its node, surplus + min(place, middle) - first stand before a place.
 *
 *   tile    1,024 places of a list: a warp
 *   plot    a node of at most 4,096 points, whose lists, as numbers of 16 bits, a block of threads
 *           has in shared memory for all levels that are left
 *
 * Cost of moving a point of a list: 72 bytes while it is sorted, 13 a level and one look at a side
 * anywhere in memory, which takes as long as they, but in the list that is split, whose nodes are
 * parted. Scratch: 8 (cols + 1) bytes a point, about 10 more for sides, masks and the library's
 * sort. */
#include "select/select_word.h"
#include "tree/tree_launch.cuh"

#include <cub/block/block_scan.cuh>

enum {
    STEPS = 32, /* of a warp in a tile */
    TILE = STEPS * KIN_FUSED_WARP,
    AT_ONCE = 8, /* steps whose loads are under way together */
    SCAN_THREADS = 1024,
    PLOT_THREADS = 512,
    PLOT_EACH = 8, /* places of a list a thread */
    PLOT_LEVELS = 8,
    PLOT_NODES = 1 << (PLOT_LEVELS - 1), /* that are split side by side */
    PLOT_STATIC = 4096                   /* shared memory that is left for the scan */
};

/* The node of a level that owns a block: the last one whose first block is not behind it. */
KIN_DEVICE int64_t node_of(const kin_tree_gpu &tree, int32_t level, int64_t block)
{
    return (int64_t)((((uint64_t)(block + 1) << level) - 1) / (uint64_t)tree.blocks);
}

KIN_DEVICE int64_t middle_of(const kin_tree_gpu &tree, int32_t level, int64_t i)
{
    return kin_tree_gpu_first_point(tree, level + 1, 2 * i + 1);
}

/* ---- Sorted columns -------------------------------------------------------------------------- */

/* What is sorted: numbers, and the keys of each column. No side is known. */
static __global__ void __launch_bounds__(KIN_FUSED_THREADS)
    write_words_kernel(const __grid_constant__ kin_tree_gpu_building b)
{
    const int64_t i = kin_tree_gpu_my_thread();
    if (i >= b.tree.points) {
        return;
    }
    kin_tree_gpu_list_of(b, b.tree.cols)[i] = (uint32_t)i;
    b.sides[i] = 0;
    for (int32_t c = 0; c < b.tree.cols; c += KIN_TREE_GPU_WIDE) {
        const float4 four = *(const float4 *)(b.rows + i * b.tree.wide + c);
        const float values[KIN_TREE_GPU_WIDE] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int j = 0; j < KIN_TREE_GPU_WIDE; j++) {
            if (c + j < b.tree.cols) {
                b.others[(c + j) * b.tree.points + i] =
                    kin_key32(__float_as_uint(values[j]), false);
            }
        }
    }
}

/* ---- Splits ---------------------------------------------------------------------------------- */

/* The i-th node of a level, by a warp: the column that it splits. Of columns that are equally wide
 * the first one is. Where nothing goes right, everything is left of the split. lists: what has
 * sorted components (kin_tree_gpu_component). */
template <typename LISTS>
KIN_DEVICE int32_t choose_split(const kin_tree_gpu &tree, int32_t level, int64_t i,
                                const LISTS &lists)
{
    const int64_t first = kin_tree_gpu_first_point(tree, level, i);
    const int64_t last = kin_tree_gpu_first_point(tree, level, i + 1);
    const int64_t middle = middle_of(tree, level, i);
    double widest = -1.0;
    int32_t column = 0;
    for (int32_t c = kin_tree_gpu_my_lane(); c < tree.cols && first < last; c += KIN_FUSED_WARP) {
        const double width = (double)kin_tree_gpu_component(lists, c, last - 1) -
                             (double)kin_tree_gpu_component(lists, c, first);
        if (width > widest) {
            widest = width;
            column = c;
        }
    }
    for (int offset = KIN_FUSED_WARP / 2; offset > 0; offset >>= 1) {
        const double width = __shfl_xor_sync(KIN_FUSED_ALL_LANES, widest, offset);
        const int32_t c = __shfl_xor_sync(KIN_FUSED_ALL_LANES, column, offset);
        if (width > widest || (width == widest && c < column)) {
            widest = width;
            column = c;
        }
    }
    const bool parts = middle < last;
    column = parts ? column : 0;
    if (kin_tree_gpu_my_lane() == 0) {
        const int64_t node = ((int64_t)1 << level) + i;
        ((int32_t *)tree.planes)[node] = column;
        ((float *)tree.splits)[node] =
            parts ? kin_tree_gpu_component(lists, column, middle) : (float)KIN_TREE_CLAMP * 2.0F;
    }
    return column;
}

/* A warp a node. */
static __global__ void __launch_bounds__(KIN_FUSED_THREADS)
    choose_splits_kernel(const __grid_constant__ kin_tree_gpu_building b, int32_t level)
{
    const int64_t i = kin_tree_gpu_my_warp();
    if (i < (int64_t)1 << level) {
        (void)choose_split(b.tree, level, i, b);
    }
}

static __global__ void __launch_bounds__(KIN_FUSED_THREADS)
    mark_sides_kernel(const __grid_constant__ kin_tree_gpu_building b, int32_t level)
{
    const int64_t place = kin_tree_gpu_my_thread();
    if (place >= b.tree.points) {
        return;
    }
    const int64_t block = place / KIN_TREE_LANES;
    const int64_t i = node_of(b.tree, level, block);
    const int64_t middle = middle_of(b.tree, level, i);
    const int32_t column = b.tree.planes[((int64_t)1 << level) + i];
    if (place < middle) {
        b.sides[kin_tree_gpu_list_of(b, column)[place]] = (uint8_t)(level + 1);
    }
    if (place % KIN_TREE_LANES == 0) {
        b.middles[block] = (uint32_t)middle;
        b.splits[block] = (uint8_t)column;
    }
}

/* ---- Partition ------------------------------------------------------------------------------- */

/* Of 32 places from `place` of the first lane on: those that stand before the middle. */
KIN_DEVICE uint32_t before_middle(int64_t place, int64_t points, int64_t middle)
{
    return __ballot_sync(KIN_FUSED_ALL_LANES, place < points && place < middle);
}

KIN_DEVICE int64_t middle_at(const kin_tree_gpu_building &b, int64_t place)
{
    return place < b.tree.points ? (int64_t)__ldg(b.middles + place / KIN_TREE_LANES) : 0;
}

/* The sides of a tile's points, and its surplus. */
static __global__ void __launch_bounds__(KIN_FUSED_THREADS)
    count_sides_kernel(const __grid_constant__ kin_tree_gpu_building b, int32_t level)
{
    const int64_t tile = kin_tree_gpu_my_warp();
    if (tile >= b.tiles) {
        return;
    }
    const int32_t lane = kin_tree_gpu_my_lane();
    const int32_t list = (int32_t)blockIdx.y;
    const uint32_t *numbers = kin_tree_gpu_list_of(b, list);
    uint32_t surplus = 0;
    uint32_t kept = 0;
    for (int32_t step = 0; step < STEPS; step += AT_ONCE) {
        const int64_t first = tile * TILE + step * KIN_FUSED_WARP + lane;
        uint32_t number[AT_ONCE];
        bool side[AT_ONCE];
        int64_t middle[AT_ONCE];
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            const int64_t place = first + s * KIN_FUSED_WARP;
            const bool real = place < b.tree.points;
            const bool parted = real && __ldg(b.splits + place / KIN_TREE_LANES) == list;
            middle[s] = middle_at(b, place);
            number[s] = real && !parted ? __ldg(numbers + place) : UINT32_MAX;
            side[s] = parted && place < middle[s];
        }
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            side[s] = number[s] != UINT32_MAX ? __ldg(b.sides + number[s]) == level + 1 : side[s];
        }
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            const uint32_t mask = __ballot_sync(KIN_FUSED_ALL_LANES, side[s]);
            const uint32_t before =
                before_middle(first + s * KIN_FUSED_WARP, b.tree.points, middle[s]);
            kept = step + s == lane ? mask : kept;
            surplus += (uint32_t)(__popc(mask) - __popc(before));
        }
    }
    b.masks[(list * b.tiles + tile) * STEPS + lane] = kept;
    if (lane == 0) {
        b.sums[list * b.tiles + tile] = surplus;
    }
}

/* A block of threads a list. */
static __global__ void __launch_bounds__(SCAN_THREADS)
    scan_sums_kernel(const __grid_constant__ kin_tree_gpu_building b)
{
    typedef cub::BlockScan<uint32_t, SCAN_THREADS> scan;
    __shared__ typename scan::TempStorage room;
    uint32_t *sums = b.sums + blockIdx.x * b.tiles;
    uint32_t carried = 0;
    for (int64_t first = 0; first < b.tiles; first += SCAN_THREADS) {
        const int64_t tile = first + threadIdx.x;
        const uint32_t surplus = tile < b.tiles ? sums[tile] : 0;
        uint32_t before;
        uint32_t all;
        scan(room).ExclusiveSum(surplus, before, all);
        if (tile < b.tiles) {
            sums[tile] = carried + before;
        }
        carried += all;
        __syncthreads();
    }
}

/* Every number to its place in the lists of the next level. */
static __global__ void __launch_bounds__(KIN_FUSED_THREADS)
    deal_kernel(const __grid_constant__ kin_tree_gpu_building b)
{
    const int64_t tile = kin_tree_gpu_my_warp();
    if (tile >= b.tiles) {
        return;
    }
    const int32_t lane = kin_tree_gpu_my_lane();
    const int32_t list = (int32_t)blockIdx.y;
    const uint32_t lower = (1u << lane) - 1;
    const uint32_t *numbers = kin_tree_gpu_list_of(b, list);
    uint32_t *out = b.others + list * b.tree.points;
    const uint32_t kept = b.masks[(list * b.tiles + tile) * STEPS + lane];
    uint32_t surplus = b.sums[list * b.tiles + tile];
    for (int32_t step = 0; step < STEPS; step += AT_ONCE) {
        const int64_t first = tile * TILE + step * KIN_FUSED_WARP + lane;
        uint32_t number[AT_ONCE];
        int64_t middle[AT_ONCE];
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            const int64_t place = first + s * KIN_FUSED_WARP;
            number[s] = place < b.tree.points ? __ldg(numbers + place) : 0;
            middle[s] = middle_at(b, place);
        }
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            const int64_t place = first + s * KIN_FUSED_WARP;
            const uint32_t mask = __shfl_sync(KIN_FUSED_ALL_LANES, kept, step + s);
            const uint32_t before = before_middle(place, b.tree.points, middle[s]);
            const uint32_t mine =
                surplus + (uint32_t)(__popc(mask & lower) - __popc(before & lower));
            const uint32_t low = (uint32_t)(place < middle[s] ? place : middle[s]);
            const uint32_t left = mine + low;
            const uint32_t right = (uint32_t)middle[s] + (uint32_t)place - left;
            if (place < b.tree.points) {
                out[(mask >> lane & 1) != 0 ? left : right] = number[s];
            }
            surplus += (uint32_t)(__popc(mask) - __popc(before));
        }
    }
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* The node of each number's point, and the numbers: first and third list of the next level. */
static __global__ void __launch_bounds__(KIN_FUSED_THREADS)
    name_nodes_kernel(const __grid_constant__ kin_tree_gpu_building b, int32_t level)
{
    const int64_t place = kin_tree_gpu_my_thread();
    if (place < b.tree.points) {
        b.others[b.lists[place]] = (uint32_t)node_of(b.tree, level, place / KIN_TREE_LANES);
        b.others[2 * b.tree.points + place] = (uint32_t)place;
    }
}

/* ---- Plots ----------------------------------------------------------------------------------- */

/* Places count from the plot's first one; blocks are those of KIN_TREE_LANES places. */
struct plot {
    const kin_tree_gpu_building &b;
    int64_t first;
    int32_t count;
    uint32_t *numbers; /* rising: a point is here the place of its number */
    uint16_t *lists;   /* cols + 1 of them, of `count` points */
    uint16_t *middles; /* by block */
    uint8_t *owners;   /* by block: its node, of those of a level */
    uint8_t *planes;   /* by node */
    uint8_t *sides;    /* by point */
};

/* place: of the tree. */
KIN_DEVICE float kin_tree_gpu_component(const plot &p, int32_t column, int64_t place)
{
    const int32_t point = p.lists[column * p.count + (int32_t)(place - p.first)];
    return p.b.rows[(int64_t)p.numbers[point] * p.b.tree.wide + column];
}

static int64_t plot_bytes(int32_t cols, int64_t points)
{
    const int64_t blocks = points / KIN_TREE_LANES;
    return points * (int64_t)(sizeof(uint32_t) + ((size_t)cols + 1) * sizeof(uint16_t) + 1) +
           blocks * (int64_t)(sizeof(uint16_t) + 1) + PLOT_NODES;
}

/* points: that there is room for. */
KIN_DEVICE plot plot_of(const kin_tree_gpu_building &b, int32_t top, int32_t points,
                        uint32_t *shared)
{
    const int64_t first = kin_tree_gpu_first_point(b.tree, top, blockIdx.x);
    const int64_t last = kin_tree_gpu_first_point(b.tree, top, (int64_t)blockIdx.x + 1);
    const int32_t blocks = points / KIN_TREE_LANES;
    uint16_t *lists = (uint16_t *)(shared + points);
    uint16_t *middles = lists + (b.tree.cols + 1) * points;
    uint8_t *owners = (uint8_t *)(middles + blocks);
    return plot{b,      first,           (int32_t)(last - first),     shared, lists, middles,
                owners, owners + blocks, owners + blocks + PLOT_NODES};
}

/* The point whose number it is. */
KIN_DEVICE uint16_t plot_point(const plot &p, uint32_t number)
{
    int32_t low = 0;
    for (int32_t high = p.count - 1; low < high;) {
        const int32_t middle = (low + high) / 2;
        const bool behind = p.numbers[middle] < number;
        low = behind ? middle + 1 : low;
        high = behind ? high : middle;
    }
    return (uint16_t)low;
}

/* Begins and ends with all of a list in its place. */
KIN_DEVICE void load_plot(const plot &p)
{
    const int32_t cols = p.b.tree.cols;
    for (int32_t i = (int32_t)threadIdx.x; i < p.count; i += PLOT_THREADS) {
        p.numbers[i] = kin_tree_gpu_list_of(p.b, cols)[p.first + i];
        p.lists[cols * p.count + i] = (uint16_t)i;
    }
    __syncthreads(); /* numbers are known */
    for (int32_t c = 0; c < cols; c++) {
        const uint32_t *from = kin_tree_gpu_list_of(p.b, c) + p.first;
        for (int32_t i = (int32_t)threadIdx.x; i < p.count; i += PLOT_THREADS) {
            p.lists[c * p.count + i] = plot_point(p, from[i]);
        }
    }
    __syncthreads();
}

KIN_DEVICE void store_plot(const plot &p)
{
    for (int32_t c = 0; c <= p.b.tree.cols; c++) {
        uint32_t *to = kin_tree_gpu_list_of(p.b, c) + p.first;
        for (int32_t i = (int32_t)threadIdx.x; i < p.count; i += PLOT_THREADS) {
            to[i] = p.numbers[p.lists[c * p.count + i]];
        }
    }
}

/* Splits of the nodes of a level, the first of which is the i-th there, and sides. */
KIN_DEVICE void mark_plot(const plot &p, int32_t level, int64_t i, int32_t nodes)
{
    const kin_tree_gpu &tree = p.b.tree;
    const int32_t thread = (int32_t)threadIdx.x;
    for (int32_t j = thread / KIN_FUSED_WARP; j < nodes; j += PLOT_THREADS / KIN_FUSED_WARP) {
        p.planes[j] = (uint8_t)choose_split(tree, level, i + j, p);
    }
    for (int32_t block = thread; block * KIN_TREE_LANES < p.count; block += PLOT_THREADS) {
        const int64_t node = node_of(tree, level, p.first / KIN_TREE_LANES + block);
        p.owners[block] = (uint8_t)(node - i);
        p.middles[block] = (uint16_t)(middle_of(tree, level, node) - p.first);
    }
    __syncthreads(); /* planes, owners and middles are known */
    for (int32_t place = thread; place < p.count; place += PLOT_THREADS) {
        const int32_t block = place / KIN_TREE_LANES;
        const int32_t plane = p.planes[p.owners[block]];
        p.sides[p.lists[plane * p.count + place]] = place < p.middles[block] ? 1 : 0;
    }
    __syncthreads(); /* sides are known */
}

typedef cub::BlockScan<int32_t, PLOT_THREADS> plot_scan;

/* A list, stably, by nodes and sides, as deal_kernel does. */
KIN_DEVICE void deal_plot(const plot &p, uint16_t *list, typename plot_scan::TempStorage &room)
{
    const int32_t from = (int32_t)threadIdx.x * PLOT_EACH;
    uint16_t own[PLOT_EACH];
    uint32_t left = 0; /* a bit a place */
    int32_t own_surplus = 0;
    int32_t surplus = 0;
#pragma unroll
    for (int e = 0; e < PLOT_EACH; e++) {
        const int32_t place = from + e;
        if (place < p.count) {
            own[e] = list[place];
            const int32_t side = p.sides[own[e]];
            left |= (uint32_t)side << e;
            own_surplus += side - (place < p.middles[place / KIN_TREE_LANES] ? 1 : 0);
        }
    }
    plot_scan(room).ExclusiveSum(own_surplus, surplus);
    __syncthreads(); /* all of the list is read, the room free */
#pragma unroll
    for (int e = 0; e < PLOT_EACH; e++) {
        const int32_t place = from + e;
        if (place < p.count) {
            const int32_t middle = p.middles[place / KIN_TREE_LANES];
            const int32_t before = surplus + min(place, middle);
            const int32_t side = (int32_t)(left >> e & 1);
            list[side != 0 ? before : middle + place - before] = own[e];
            surplus += side - (place < middle ? 1 : 0);
        }
    }
}

/* All levels from `top` on, a block of threads a node of it. */
static __global__ void __launch_bounds__(PLOT_THREADS)
    split_plots_kernel(const __grid_constant__ kin_tree_gpu_building b, int32_t top, int32_t points)
{
    extern __shared__ uint32_t plot_shared[];
    __shared__ typename plot_scan::TempStorage room;
    const plot p = plot_of(b, top, points, plot_shared);
    load_plot(p);
    for (int32_t level = top; level < b.tree.height; level++) {
        const int32_t nodes = 1 << (level - top);
        mark_plot(p, level, (int64_t)blockIdx.x * nodes, nodes);
        for (int32_t c = 0; c <= b.tree.cols; c++) {
            deal_plot(p, p.lists + c * p.count, room);
        }
        __syncthreads(); /* all lists are dealt */
    }
    store_plot(p);
}

/* ---- Launch ---------------------------------------------------------------------------------- */

typedef struct build_scratch {
    uint64_t bytes; /* so far */
    unsigned char *base;
} build_scratch;

static void *take(build_scratch *scratch, int64_t count, size_t item_bytes)
{
    void *at = scratch->base != NULL ? scratch->base + scratch->bytes : NULL;
    scratch->bytes += ((uint64_t)count * item_bytes + 255) / 256 * 256;
    return at;
}

/* The list of all numbers serves as what each sort permutes; the lists of the next level as room
 * for keys, the last of them for sorted ones. */
static int sort_columns(kin_gpu_stream *stream, const kin_tree_gpu_building *b, void *radix,
                        size_t radix_bytes)
{
    const int64_t points = b->tree.points;
    const unsigned blocks = kin_tree_gpu_blocks_for(points, KIN_FUSED_THREADS);
    write_words_kernel<<<blocks, KIN_FUSED_THREADS, 0, stream->stream>>>(*b);
    KIN_CUDA_TRY_LAUNCH();
    for (int32_t c = 0; c < b->tree.cols; c++) {
        const int sorted = kin_tree_gpu_sort(
            stream, radix, radix_bytes, b->others + c * points, b->others + b->tree.cols * points,
            b->lists + b->tree.cols * points, b->lists + c * points, points, 32);
        if (sorted != 0) {
            return sorted;
        }
    }
    return 0;
}

/* The list of numbers, which nothing has parted so far: by the nodes of a level. */
static int order_numbers(kin_gpu_stream *stream, const kin_tree_gpu_building *b, int32_t level,
                         void *radix, size_t radix_bytes)
{
    const int64_t points = b->tree.points;
    name_nodes_kernel<<<kin_tree_gpu_blocks_for(points, KIN_FUSED_THREADS), KIN_FUSED_THREADS, 0,
                        stream->stream>>>(*b, level);
    KIN_CUDA_TRY_LAUNCH();
    return kin_tree_gpu_sort(stream, radix, radix_bytes, b->others, b->others + points,
                             b->others + 2 * points, b->lists + b->tree.cols * points, points,
                             level);
}

static int split_level(kin_gpu_stream *stream, kin_tree_gpu_building *b, int32_t level)
{
    const unsigned lists = (unsigned)b->tree.cols;
    const dim3 tiles(kin_tree_gpu_blocks_for(b->tiles, KIN_TREE_GPU_WARPS), lists);
    choose_splits_kernel<<<kin_tree_gpu_blocks_for((int64_t)1 << level, KIN_TREE_GPU_WARPS),
                           KIN_FUSED_THREADS, 0, stream->stream>>>(*b, level);
    KIN_CUDA_TRY_LAUNCH();
    mark_sides_kernel<<<kin_tree_gpu_blocks_for(b->tree.points, KIN_FUSED_THREADS),
                        KIN_FUSED_THREADS, 0, stream->stream>>>(*b, level);
    KIN_CUDA_TRY_LAUNCH();
    count_sides_kernel<<<tiles, KIN_FUSED_THREADS, 0, stream->stream>>>(*b, level);
    KIN_CUDA_TRY_LAUNCH();
    scan_sums_kernel<<<lists, SCAN_THREADS, 0, stream->stream>>>(*b);
    KIN_CUDA_TRY_LAUNCH();
    deal_kernel<<<tiles, KIN_FUSED_THREADS, 0, stream->stream>>>(*b);
    uint32_t *parted = b->others;
    b->others = b->lists;
    b->lists = parted;
    return kin_gpu_launched();
}

/* Points of a plot of which several fit into a processor's shared memory, or one. */
static int64_t plot_points(const kin_gpu_stream *stream, int32_t cols)
{
    int64_t points = (int64_t)PLOT_THREADS * PLOT_EACH;
    while (plot_bytes(cols, points) > stream->shared_bytes - PLOT_STATIC) {
        points /= 2;
    }
    return points;
}

/* Whether all nodes of a level are plots. */
static bool are_plots(const kin_tree_gpu &tree, int32_t level, int64_t points)
{
    return tree.height - level <= PLOT_LEVELS &&
           ((tree.blocks >> level) + 1) * KIN_TREE_LANES <= points;
}

static int split_plots(kin_gpu_stream *stream, const kin_tree_gpu_building *b, int32_t top,
                       int64_t points)
{
    /* Once and for all, so that no thread takes from another what it has asked for. */
    KIN_CUDA_TRY(cudaFuncSetAttribute(split_plots_kernel,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      stream->shared_bytes - PLOT_STATIC));
    split_plots_kernel<<<1u << top, PLOT_THREADS, (size_t)plot_bytes(b->tree.cols, points),
                         stream->stream>>>(*b, top, (int32_t)points);
    return kin_gpu_launched();
}

int kin_tree_launch_build(kin_gpu_stream *stream, const kin_tree_gpu_build *job)
{
    const kin_tree_gpu *tree = &job->tree;
    const int64_t points = tree->points;
    const int64_t lists = tree->cols > 1 ? tree->cols + 1 : 3;
    build_scratch scratch = {0, (unsigned char *)job->scratch};
    kin_tree_gpu_building b = {};
    size_t radix_bytes = 0;
    if (points < 1) {
        return (int)cudaErrorInvalidValue;
    }
    const int asked = kin_tree_gpu_sort_bytes(points, &radix_bytes);
    if (asked != 0) {
        return asked;
    }
    b.tree = *tree;
    b.rows = job->rows;
    b.row_lost = job->row_lost;
    b.firsts = job->firsts;
    b.tiles = (points + TILE - 1) / TILE;
    b.lists = (uint32_t *)take(&scratch, lists * points, sizeof(uint32_t));
    b.others = (uint32_t *)take(&scratch, lists * points, sizeof(uint32_t));
    b.sides = (uint8_t *)take(&scratch, points, sizeof(uint8_t));
    b.middles = (uint32_t *)take(&scratch, tree->blocks, sizeof(uint32_t));
    b.splits = (uint8_t *)take(&scratch, tree->blocks, sizeof(uint8_t));
    b.masks = (uint32_t *)take(&scratch, lists * b.tiles * STEPS, sizeof(uint32_t));
    b.sums = (uint32_t *)take(&scratch, lists * b.tiles, sizeof(uint32_t));
    void *radix = take(&scratch, (int64_t)radix_bytes, 1);
    if (job->scratch == NULL) {
        *job->scratch_bytes = scratch.bytes;
        return 0;
    }
    int error = sort_columns(stream, &b, radix, radix_bytes);
    const int64_t plot = plot_points(stream, tree->cols);
    int32_t level = 0;
    for (; level < tree->height && !are_plots(*tree, level, plot) && error == 0; level++) {
        error = split_level(stream, &b, level);
    }
    if (level > 0 && error == 0) {
        error = order_numbers(stream, &b, level, radix, radix_bytes);
    }
    if (level < tree->height && error == 0) {
        error = split_plots(stream, &b, level, plot);
    }
    return error != 0 ? error : kin_tree_gpu_write_tree(stream, &b);
}
