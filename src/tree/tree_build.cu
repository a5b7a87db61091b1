/* SPDX-License-Identifier: Apache-2.0
 * A tree from its rounded rows, without one wait of the host. Contract: tree_kernels.h.
 *
 * Idea. Every column is sorted once, by (component, number). Each *list*, that of a column, is then
 * kept sorted within every node: a level is a stable partition of all lists into left and right
 * parts. So a node's box is what stands at the ends of its lists, its median stands in the middle
 * of one, and one list more, in the order of numbers, becomes the order of points in leaves. Ranges
 * of nodes follow from the number of points alone.
 *
 * Partition. A point goes left when it stands before the middle of its node in the list that is
 * split: its *side*, by number. If lists were parted already, those before the middle would be the
 * left ones; a *surplus* is how many more (modulo 2^32) truly are, summed from the start of the
 * list. It is 0 at each node's start, so that sums over the whole list serve all nodes at once: of
 * the left ones of its node, surplus + min(place, middle) - first stand before a place.
 *
 *   tile    1,024 places of a list: a warp
 *
 * Cost of moving a point of a list: 72 bytes while it is sorted, 13 a level and one look at a side
 * anywhere in memory, which takes as long as they. Scratch: 8 (cols + 1) bytes a point, about 10
 * more for sides, masks and the library's sort. */
#include "select/select_word.h"
#include "tree/tree_launch.cuh"

#include <cub/block/block_scan.cuh>

enum {
    STEPS = 32, /* of a warp in a tile */
    TILE = STEPS * KIN_FUSED_WARP,
    AT_ONCE = 8, /* steps whose loads are under way together */
    SCAN_THREADS = 1024
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

static __global__ void __launch_bounds__(KIN_FUSED_THREADS)
    number_points_kernel(const __grid_constant__ kin_tree_gpu_building b)
{
    const int64_t i = kin_tree_gpu_my_thread();
    if (i < b.tree.points) {
        kin_tree_gpu_list_of(b, b.tree.cols)[i] = (uint32_t)i;
    }
}

static __global__ void __launch_bounds__(KIN_FUSED_THREADS)
    write_words_kernel(const __grid_constant__ kin_tree_gpu_building b, int32_t column)
{
    const int64_t i = kin_tree_gpu_my_thread();
    if (i < b.tree.points) {
        b.others[i] = kin_key32(__float_as_uint(b.rows[i * b.tree.wide + column]), false);
    }
}

/* ---- Splits ---------------------------------------------------------------------------------- */

/* A warp a node. Of columns that are equally wide the first one is split. Where nothing goes right,
 * everything is left of the split. */
static __global__ void __launch_bounds__(KIN_FUSED_THREADS)
    choose_splits_kernel(const __grid_constant__ kin_tree_gpu_building b, int32_t level)
{
    const int64_t i = kin_tree_gpu_my_warp();
    if (i >= (int64_t)1 << level) {
        return;
    }
    const int64_t first = kin_tree_gpu_first_point(b.tree, level, i);
    const int64_t last = kin_tree_gpu_first_point(b.tree, level, i + 1);
    const int64_t middle = middle_of(b.tree, level, i);
    double widest = -1.0;
    int32_t column = 0;
    for (int32_t c = kin_tree_gpu_my_lane(); c < b.tree.cols && first < last; c += KIN_FUSED_WARP) {
        const double width = (double)kin_tree_gpu_component(b, c, last - 1) -
                             (double)kin_tree_gpu_component(b, c, first);
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
    if (kin_tree_gpu_my_lane() == 0) {
        const int64_t node = ((int64_t)1 << level) + i;
        const bool parts = middle < last;
        ((int32_t *)b.tree.planes)[node] = parts ? column : 0;
        ((float *)b.tree.splits)[node] =
            parts ? kin_tree_gpu_component(b, column, middle) : (float)KIN_TREE_CLAMP * 2.0F;
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
    b.sides[kin_tree_gpu_list_of(b, column)[place]] = place < middle ? 1 : 0;
    if (place % KIN_TREE_LANES == 0) {
        b.middles[block] = (uint32_t)middle;
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
    count_sides_kernel(const __grid_constant__ kin_tree_gpu_building b)
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
        uint32_t side[AT_ONCE];
        int64_t middle[AT_ONCE];
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            const int64_t place = first + s * KIN_FUSED_WARP;
            number[s] = place < b.tree.points ? __ldg(numbers + place) : UINT32_MAX;
            middle[s] = middle_at(b, place);
        }
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            side[s] = number[s] != UINT32_MAX ? __ldg(b.sides + number[s]) : 0;
        }
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            const uint32_t mask = __ballot_sync(KIN_FUSED_ALL_LANES, side[s] != 0);
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

/* The list of all numbers serves as what each sort permutes; the lists of the next level, of which
 * there are two at least, as room for its keys. */
static int sort_columns(kin_gpu_stream *stream, const kin_tree_gpu_building *b, void *radix,
                        size_t radix_bytes)
{
    const int64_t points = b->tree.points;
    const unsigned blocks = kin_tree_gpu_blocks_for(points, KIN_FUSED_THREADS);
    number_points_kernel<<<blocks, KIN_FUSED_THREADS, 0, stream->stream>>>(*b);
    KIN_CUDA_TRY_LAUNCH();
    for (int32_t c = 0; c < b->tree.cols; c++) {
        write_words_kernel<<<blocks, KIN_FUSED_THREADS, 0, stream->stream>>>(*b, c);
        KIN_CUDA_TRY_LAUNCH();
        const int sorted =
            kin_tree_gpu_sort(stream, radix, radix_bytes, b->others, b->others + points,
                              b->lists + b->tree.cols * points, b->lists + c * points, points, 32);
        if (sorted != 0) {
            return sorted;
        }
    }
    return 0;
}

static int split_level(kin_gpu_stream *stream, kin_tree_gpu_building *b, int32_t level)
{
    const unsigned lists = (unsigned)b->tree.cols + 1;
    const dim3 tiles(kin_tree_gpu_blocks_for(b->tiles, KIN_TREE_GPU_WARPS), lists);
    choose_splits_kernel<<<kin_tree_gpu_blocks_for((int64_t)1 << level, KIN_TREE_GPU_WARPS),
                           KIN_FUSED_THREADS, 0, stream->stream>>>(*b, level);
    KIN_CUDA_TRY_LAUNCH();
    mark_sides_kernel<<<kin_tree_gpu_blocks_for(b->tree.points, KIN_FUSED_THREADS),
                        KIN_FUSED_THREADS, 0, stream->stream>>>(*b, level);
    KIN_CUDA_TRY_LAUNCH();
    count_sides_kernel<<<tiles, KIN_FUSED_THREADS, 0, stream->stream>>>(*b);
    KIN_CUDA_TRY_LAUNCH();
    scan_sums_kernel<<<lists, SCAN_THREADS, 0, stream->stream>>>(*b);
    KIN_CUDA_TRY_LAUNCH();
    deal_kernel<<<tiles, KIN_FUSED_THREADS, 0, stream->stream>>>(*b);
    uint32_t *parted = b->others;
    b->others = b->lists;
    b->lists = parted;
    return kin_gpu_launched();
}

int kin_tree_launch_build(kin_gpu_stream *stream, const kin_tree_gpu_build *job)
{
    const kin_tree_gpu *tree = &job->tree;
    const int64_t points = tree->points;
    const int64_t lists = (int64_t)tree->cols + 1;
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
    b.masks = (uint32_t *)take(&scratch, lists * b.tiles * STEPS, sizeof(uint32_t));
    b.sums = (uint32_t *)take(&scratch, lists * b.tiles, sizeof(uint32_t));
    void *radix = take(&scratch, (int64_t)radix_bytes, 1);
    if (job->scratch == NULL) {
        *job->scratch_bytes = scratch.bytes;
        return 0;
    }
    int error = sort_columns(stream, &b, radix, radix_bytes);
    for (int32_t level = 0; level < tree->height && error == 0; level++) {
        error = split_level(stream, &b, level);
    }
    return error != 0 ? error : kin_tree_gpu_write_tree(stream, &b);
}
