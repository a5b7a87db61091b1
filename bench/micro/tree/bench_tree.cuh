/* SPDX-License-Identifier: Apache-2.0
 * A query that goes through a tree alone: one thread, its way, its sorted list; and brute force.
 *
 *   way       the leaf that was last, and a bit for each level whose sibling was put off. The stack
 *             of the recursion would hold these siblings and nothing else, so 8 bytes are the
 *             whole state of a query, in registers here, in device memory between rounds.
 *   bounds    planes: the distance to the plane that was crossed, as in the paper. boxes: and then
 *             to the box of what lies behind it. Both are tested when a sibling's turn comes.
 *   list      k values and positions, sorted, in registers; inserting is unrolled and predicated
 *   values    float32: columns rising, one fused multiply-add each, as kith's own kernels; so a
 *             bound is never above the value of a point behind it (tree_bound.h)
 */
#ifndef BENCH_TREE_CUH
#define BENCH_TREE_CUH

#include "tree/tree_kernels.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    INTRINSIC = 4, /* dimensions of the data's Gaussian */
    MOST_COLS = 27,
    THREADS = 128, /* of a block whose threads are queries on their own */
    TILE_BLOCKS = 8,
    TILE_POINTS = TILE_BLOCKS * KIN_TREE_LANES,
    FOUR = 4,            /* points that are read together */
    MET_SLOTS = 1024,    /* counters are spread, so that nobody waits for them */
    BRUTE_QUERIES = 2,   /* of a thread, for each read of a point */
    BRUTE_BLOCKS = 3,    /* of a processor */
    NO_VALUE_BYTE = 0x7f /* four of them are a float that no distance reaches */
};

typedef struct query_way {
    uint32_t node;    /* the last leaf's; 0: not begun */
    uint32_t put_off; /* bit l: the way's sibling at level l */
} query_way;

typedef struct search_job {
    kin_tree_gpu tree;
    const float *rows;     /* by query, wide columns */
    const uint32_t *order; /* place -> query; NULL: the same */
    int64_t count;
    bool boxes;
    query_way *ways;         /* by query: where queries go on; NULL: all begin */
    float *values;           /* [query][k], rising */
    uint32_t *positions;     /* [query][k] */
    unsigned long long *met; /* [slot][pairs, leaves], added to */
} search_job;

/* ---- Errors and memory ----------------------------------------------------------------------- */

static void stop(const char *what, const char *detail)
{
    (void)fprintf(stderr, "bench_tree: %s %s\n", what, detail);
    exit(1);
}

static void must(cudaError_t error, const char *what)
{
    if (error != cudaSuccess) {
        stop(what, cudaGetErrorString(error));
    }
}

template <typename T> static void take(T **out, uint64_t count)
{
    must(cudaMalloc((void **)out, count * sizeof **out), "device memory:");
}

/* ---- Lists ----------------------------------------------------------------------------------- */

template <int K> struct nearest_list {
    float values[K];
    uint32_t positions[K];
};

template <int K> static __device__ __forceinline__ void clear_list(nearest_list<K> &list)
{
#pragma unroll
    for (int i = 0; i < K; i++) {
        list.values[i] = INFINITY;
        list.positions[i] = UINT32_MAX;
    }
}

template <int K>
static __device__ __forceinline__ void offer(nearest_list<K> &list, float value, uint32_t position)
{
    if (!(value < list.values[K - 1])) {
        return;
    }
    list.values[K - 1] = value;
    list.positions[K - 1] = position;
#pragma unroll
    for (int i = K - 1; i > 0; i--) {
        const bool swaps = list.values[i] < list.values[i - 1];
        const float upper = list.values[i - 1];
        const uint32_t other = list.positions[i - 1];
        list.values[i - 1] = swaps ? list.values[i] : upper;
        list.positions[i - 1] = swaps ? list.positions[i] : other;
        list.values[i] = swaps ? upper : list.values[i];
        list.positions[i] = swaps ? other : list.positions[i];
    }
}

template <int K>
static __device__ __forceinline__ void load_list(const search_job &job, int64_t query,
                                                 nearest_list<K> &list)
{
#pragma unroll
    for (int i = 0; i < K; i++) {
        list.values[i] = job.values[query * K + i];
        list.positions[i] = job.positions[query * K + i];
    }
}

template <int K>
static __device__ __forceinline__ void store_list(const search_job &job, int64_t query,
                                                  const nearest_list<K> &list)
{
#pragma unroll
    for (int i = 0; i < K; i++) {
        job.values[query * K + i] = list.values[i];
        job.positions[query * K + i] = list.positions[i];
    }
}

/* All lanes of a warp. */
static __device__ __forceinline__ void count_met(unsigned long long *met, uint64_t pairs,
                                                 uint32_t leaves)
{
    const uint32_t all_leaves = __reduce_add_sync(UINT32_MAX, leaves);
#pragma unroll
    for (int apart = KIN_TREE_GPU_PACKET / 2; apart > 0; apart /= 2) {
        pairs += __shfl_xor_sync(UINT32_MAX, pairs, apart);
    }
    if (threadIdx.x % KIN_TREE_GPU_PACKET == 0) {
        unsigned long long *slot = met + 2 * (size_t)(blockIdx.x % MET_SLOTS);
        atomicAdd(slot, (unsigned long long)pairs);
        atomicAdd(slot + 1, (unsigned long long)all_leaves);
    }
}

/* ---- Points ---------------------------------------------------------------------------------- */

template <int COLS> static __device__ __forceinline__ void load_row(const float *from, float *row)
{
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        row[c] = __ldg(from + c);
    }
}

static __device__ __forceinline__ void add_square(float &sum, float a, float b)
{
    const float apart = a - b;
    sum = fmaf(apart, apart, sum);
}

/* Four lanes of a block of points, from its first column on. */
template <int COLS>
static __device__ __forceinline__ float4 four_values(const float *points, const float *row)
{
    float4 sum = {0.0F, 0.0F, 0.0F, 0.0F};
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        const float4 point = *(const float4 *)(points + c * KIN_TREE_LANES);
        add_square(sum.x, row[c], point.x);
        add_square(sum.y, row[c], point.y);
        add_square(sum.z, row[c], point.z);
        add_square(sum.w, row[c], point.w);
    }
    return sum;
}

/* The first `live` of four. */
template <int K>
static __device__ __forceinline__ void offer_four(nearest_list<K> &list, float4 values,
                                                  uint32_t position, uint32_t live)
{
    const float least = fminf(fminf(values.x, values.y), fminf(values.z, values.w));
    if (!(least < list.values[K - 1])) {
        return;
    }
    offer<K>(list, values.x, position);
    if (live > 1) {
        offer<K>(list, values.y, position + 1);
    }
    if (live > 2) {
        offer<K>(list, values.z, position + 2);
    }
    if (live > 3) {
        offer<K>(list, values.w, position + 3);
    }
}

/* Where four points stand that begin at a point of blocks [block][column][lane]. */
template <int COLS> static __device__ __forceinline__ int64_t four_at(int64_t point)
{
    const int wide = (COLS + KIN_TREE_GPU_WIDE - 1) / KIN_TREE_GPU_WIDE * KIN_TREE_GPU_WIDE;
    return point / KIN_TREE_LANES * (wide * KIN_TREE_LANES) + point % KIN_TREE_LANES;
}

template <int COLS, int K>
static __device__ __forceinline__ uint32_t scan_leaf(const kin_tree_gpu &tree, uint32_t leaf,
                                                     const float *row, nearest_list<K> &list)
{
    const int64_t first = (int64_t)__ldg(tree.starts + leaf) * KIN_TREE_LANES;
    const uint32_t count = __ldg(tree.counts + leaf);
    for (uint32_t at = 0; at < count; at += FOUR) {
        const float4 values = four_values<COLS>(tree.values + four_at<COLS>(first + at), row);
        offer_four<K>(list, values, (uint32_t)(first + at), count - at);
    }
    return count;
}

/* ---- The way --------------------------------------------------------------------------------- */

/* A row whose components are chosen at run time: in device memory, or a thread's in shared memory.
 */
struct any_row {
    const float *values;
    int32_t stride;
    __device__ __forceinline__ float at(int32_t col) const
    {
        return values[col * stride];
    }
};

template <int COLS>
static __device__ __forceinline__ float box_value(const kin_tree_gpu &tree, uint32_t node,
                                                  const any_row &row)
{
    const float *low = tree.boxes + (int64_t)node * 2 * tree.wide;
    float sum = 0.0F;
#pragma unroll
    for (int c = 0; c < COLS; c++) {
        const float value = row.at(c);
        const float gap =
            fmaxf(fmaxf(__ldg(low + c) - value, value - __ldg(low + tree.wide + c)), 0.0F);
        sum = fmaf(gap, gap, sum);
    }
    return sum;
}

/* From a node of a level down to the leaf on the row's side of every plane. */
static __device__ __forceinline__ void descend(const kin_tree_gpu &tree, const any_row &row,
                                               uint32_t node, int32_t level, query_way &way)
{
    while (level < tree.height) {
        const bool right = !(row.at(__ldg(tree.planes + node)) < __ldg(tree.splits + node));
        node = 2 * node + (right ? 1 : 0);
        level += 1;
        way.put_off |= 1u << level;
    }
    way.node = node;
}

/* The next leaf that may hold something nearer than `worst`. false: there is none. */
template <int COLS>
static __device__ bool next_leaf(const search_job &job, const any_row &row, float worst,
                                 query_way &way)
{
    const kin_tree_gpu &tree = job.tree;
    if (way.node == 0) {
        descend(tree, row, 1, 0, way);
        return true;
    }
    while (way.put_off != 0) {
        const int32_t level = 31 - __clz((int)way.put_off);
        const uint32_t sibling = (way.node >> (tree.height - level)) ^ 1;
        const uint32_t parent = sibling >> 1;
        const float apart = row.at(__ldg(tree.planes + parent)) - __ldg(tree.splits + parent);
        way.put_off ^= 1u << level;
        if (!(apart * apart < worst) ||
            (job.boxes && !(box_value<COLS>(tree, sibling, row) < worst))) {
            continue;
        }
        /* The level's bit is cleared, and those below are set anew. */
        descend(tree, row, sibling, level, way);
        if (!job.boxes || level == tree.height || box_value<COLS>(tree, way.node, row) < worst) {
            return true;
        }
    }
    return false;
}

/* One thread a query, to its end, from wherever it stands. */
template <int COLS, int K>
static __global__ void __launch_bounds__(THREADS)
    alone_kernel(const __grid_constant__ search_job job)
{
    __shared__ float shared[COLS][THREADS];
    const int64_t place = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    uint64_t pairs = 0;
    uint32_t leaves = 0;
    if (place < job.count) {
        const int64_t query = job.order == NULL ? place : (int64_t)job.order[place];
        float row[COLS];
        nearest_list<K> list;
        query_way way = {0, 0};
        clear_list<K>(list);
        load_row<COLS>(job.rows + query * job.tree.wide, row);
#pragma unroll
        for (int c = 0; c < COLS; c++) {
            shared[c][threadIdx.x] = row[c];
        }
        if (job.ways != NULL) {
            way = job.ways[query];
            load_list<K>(job, query, list);
        }
        const any_row any = {&shared[0][threadIdx.x], THREADS};
        while (next_leaf<COLS>(job, any, list.values[K - 1], way)) {
            pairs += scan_leaf<COLS, K>(job.tree, way.node - (1u << job.tree.height), row, list);
            leaves += 1;
        }
        store_list<K>(job, query, list);
    }
    __syncwarp(); /* all lanes have come back */
    count_met(job.met, pairs, leaves);
}

/* ---- Brute force ----------------------------------------------------------------------------- */

/* Floats at `from` and behind, by all threads of a block. */
static __device__ __forceinline__ void copy_tile(float *to, const float *from, int32_t floats)
{
    for (int32_t at = FOUR * (int32_t)threadIdx.x; at < floats; at += FOUR * (int32_t)blockDim.x) {
        *(float4 *)(to + at) = __ldg((const float4 *)(from + at));
    }
}

/* Part blockIdx.y of all points, for BRUTE_QUERIES queries a thread; lists of parts stand as
 * [query][part][k]. job.count: a multiple of what a block takes. */
template <int COLS, int K>
static __global__ void __launch_bounds__(THREADS, BRUTE_BLOCKS)
    brute_kernel(const __grid_constant__ search_job job)
{
    const int wide = (COLS + KIN_TREE_GPU_WIDE - 1) / KIN_TREE_GPU_WIDE * KIN_TREE_GPU_WIDE;
    __shared__ __align__(16) float tile[TILE_POINTS * wide];
    const int64_t first_query = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * BRUTE_QUERIES;
    const int64_t begin = job.tree.blocks * blockIdx.y / gridDim.y;
    const int64_t end = job.tree.blocks * (blockIdx.y + 1) / gridDim.y;
    float rows[BRUTE_QUERIES][COLS];
    nearest_list<K> lists[BRUTE_QUERIES];
#pragma unroll
    for (int r = 0; r < BRUTE_QUERIES; r++) {
        load_row<COLS>(job.rows + (first_query + r) * wide, rows[r]);
        clear_list<K>(lists[r]);
    }
    for (int64_t block = begin; block < end; block += TILE_BLOCKS) {
        const int32_t blocks = (int32_t)(end - block < TILE_BLOCKS ? end - block : TILE_BLOCKS);
        const int64_t left = job.tree.points - block * KIN_TREE_LANES;
        const int32_t full = blocks * KIN_TREE_LANES;
        const int32_t points = left < full ? (int32_t)left : full;
        copy_tile(tile, job.tree.values + block * wide * KIN_TREE_LANES, full * wide);
        __syncthreads(); /* the tile is there */
        for (int32_t at = 0; at < points; at += FOUR) {
#pragma unroll
            for (int r = 0; r < BRUTE_QUERIES; r++) {
                offer_four<K>(lists[r], four_values<COLS>(tile + four_at<COLS>(at), rows[r]),
                              (uint32_t)(block * KIN_TREE_LANES + at), (uint32_t)(points - at));
            }
        }
        __syncthreads(); /* nobody reads it any more */
    }
#pragma unroll
    for (int r = 0; r < BRUTE_QUERIES; r++) {
        store_list<K>(job, (first_query + r) * gridDim.y + blockIdx.y, lists[r]);
    }
}

/* The lists of a query's parts become one. */
template <int K>
static __global__ void __launch_bounds__(THREADS)
    merge_parts_kernel(const __grid_constant__ search_job parts, int32_t part_count,
                       const __grid_constant__ search_job whole)
{
    const int64_t query = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    nearest_list<K> list;
    if (query >= whole.count) {
        return;
    }
    clear_list<K>(list);
    for (int64_t at = query * part_count * K; at < (query + 1) * part_count * K; at++) {
        offer<K>(list, parts.values[at], parts.positions[at]);
    }
    store_list<K>(whole, query, list);
}

/* ---- Data ------------------------------------------------------------------------------------ */

typedef struct recipe {
    float axes[INTRINSIC][MOST_COLS];
    float noise;
    int32_t cols;
    int64_t rows;
    uint64_t seed;
} recipe;

static __host__ __device__ uint64_t mixed(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* N(0, 1), the at-th of a seed: Box and Muller. */
static __host__ __device__ float normal(uint64_t seed, uint64_t at)
{
    const uint64_t bits = mixed(mixed(seed) ^ at);
    const float radius = ((float)(bits >> 40) + 1.0F) * 0x1p-24F;
    const float turn = (float)(bits & 0xffffff) * 0x1p-24F;
    return sqrtf(-2.0F * logf(radius)) * cosf(6.2831853F * turn);
}

static __global__ void __launch_bounds__(THREADS)
    colour_kernel(const __grid_constant__ recipe from, float *points)
{
    const int64_t row = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const uint64_t first = (uint64_t)row * (INTRINSIC + MOST_COLS);
    float hidden[INTRINSIC];
    if (row >= from.rows) {
        return;
    }
    for (int i = 0; i < INTRINSIC; i++) {
        hidden[i] = normal(from.seed, first + (uint64_t)i);
    }
    for (int32_t c = 0; c < from.cols; c++) {
        float sum = from.noise * normal(from.seed, first + INTRINSIC + (uint64_t)c);
        for (int i = 0; i < INTRINSIC; i++) {
            sum = fmaf(hidden[i], from.axes[i][c], sum);
        }
        points[row * from.cols + c] = sum;
    }
}

/* ---- What is compared ------------------------------------------------------------------------ */

/* The k-th value of each place's candidates, which stand in no order; -1 where some were lost. */
static __global__ void __launch_bounds__(THREADS)
    reference_kernel(const __grid_constant__ kin_tree_gpu_lists lists, const uint32_t *order,
                     int64_t count, float *reference)
{
    const int64_t place = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (place >= count) {
        return;
    }
    const uint64_t *words = lists.words +
                            place / KIN_TREE_GPU_PACKET * lists.capacity * KIN_TREE_GPU_PACKET +
                            place % KIN_TREE_GPU_PACKET;
    uint64_t least = 0;
    for (int32_t rank = 0; rank < lists.wanted; rank++) {
        uint64_t next = UINT64_MAX;
        for (int32_t slot = 0; slot < lists.counts[place]; slot++) {
            const uint64_t word = words[(int64_t)slot * KIN_TREE_GPU_PACKET];
            next = (rank == 0 || word > least) && word < next ? word : next;
        }
        least = next;
    }
    reference[order[place]] = lists.lost[place] != 0 || least == UINT64_MAX
                                  ? -1.0F
                                  : __uint_as_float((uint32_t)(least >> 32));
}

/* seen: [0] values further apart than two roundings may be, [1] queries without a reference. */
static __global__ void __launch_bounds__(THREADS)
    compare_kernel(const float *reference, const float *values, int32_t k, int64_t count,
                   float allowed, unsigned long long *seen)
{
    const int64_t query = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (query >= count) {
        return;
    }
    const float wanted = reference[query];
    const float value = values[query * k + k - 1];
    if (wanted < 0.0F) {
        atomicAdd(seen + 1, 1ULL);
    } else if (!(value <= wanted * allowed && wanted <= value * allowed)) {
        atomicAdd(seen, 1ULL);
    }
}

#endif
