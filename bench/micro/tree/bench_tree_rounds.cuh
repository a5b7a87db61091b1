/* SPDX-License-Identifier: Apache-2.0
 * Rounds over all queries: the paper's algorithm 1 on a device.
 *
 *      input ---+   find-leaf, M queries a time    pool        leaf kernel
 *               +-> next leaf of each, or its end --> (leaf, query) --> lists of k
 *      again ---+                                                          |
 *        ^                                                                 |
 *        +-----------------------------------------------------------------+
 *
 *   buffered     the pool waits until a leaf's buffer is half full (or nobody else can be asked).
 *                Then it is sorted by leaf, and a block takes up to LEAF_THREADS queries of one
 *                leaf: its points are read once into shared memory, a thread is a query.
 *   unbuffered   the pool is solved after each find-leaf, in the order in which queries entered it,
 *                a thread a query, each reading the points of its own leaf
 *
 * The buffers of the paper are arrays of B indices for each leaf. Here they are one array and a
 * counter a leaf, so none overflows and empty ones cost nothing; B says when they are emptied. */
#ifndef BENCH_TREE_ROUNDS_CUH
#define BENCH_TREE_ROUNDS_CUH

#include "bench_tree.cuh"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

enum { LEAF_THREADS = 64 };

typedef struct pool_state {
    uint32_t count;
    uint32_t full; /* 1: a buffer is half full */
} pool_state;

/* Device memory, for up to `most` queries; counters of leaves have one more. */
typedef struct round_room {
    int64_t most;
    query_way *ways;          /* by query */
    uint32_t *again;          /* a ring: queries that go on */
    uint32_t *leaves;         /* pool */
    uint32_t *queries;        /* pool */
    uint32_t *sorted_leaves;  /* pool, by leaf */
    uint32_t *sorted_queries; /* pool, by leaf */
    uint32_t *fill;           /* by leaf: queries that wait */
    uint32_t *chunks;         /* by leaf: blocks that solve them */
    uint32_t *first_query;    /* by leaf */
    uint32_t *first_chunk;    /* by leaf */
    pool_state *state;
    pool_state *seen; /* host, pinned */
    void *scratch;
    size_t scratch_bytes;
} round_room;

typedef struct round_rules {
    bool buffered;
    int64_t batch; /* M */
    uint32_t half; /* of B */
    int64_t few;   /* so many queries that are left go on alone */
} round_rules;

typedef struct find_job {
    int64_t head;  /* in the ring */
    int64_t taken; /* from the ring; then come queries of the input */
    int64_t input;
    int64_t count;
    uint32_t half;
} find_job;

/* ---- Memory ---------------------------------------------------------------------------------- */

/* What both uses of the library want at most. */
static inline cudaError_t round_scratch(const round_room *room, int32_t height, size_t *bytes)
{
    size_t scan_bytes = 0;
    cudaError_t error = cub::DeviceRadixSort::SortPairs(
        NULL, *bytes, room->leaves, room->sorted_leaves, room->queries, room->sorted_queries,
        room->most, 0, height > 0 ? height : 1);
    if (error == cudaSuccess) {
        error = cub::DeviceScan::ExclusiveSum(NULL, scan_bytes, room->fill, room->first_query,
                                              (1 << height) + 1);
    }
    *bytes = scan_bytes > *bytes ? scan_bytes : *bytes;
    return error;
}

static void make_room(round_room *room, int64_t most, int32_t height)
{
    uint32_t **const by_query[] = {&room->again, &room->leaves, &room->queries,
                                   &room->sorted_leaves, &room->sorted_queries};
    uint32_t **const by_leaf[] = {&room->fill, &room->chunks, &room->first_query,
                                  &room->first_chunk};
    room->most = most;
    for (uint32_t **array : by_query) {
        take(array, (uint64_t)most);
    }
    for (uint32_t **array : by_leaf) {
        take(array, ((uint64_t)1 << height) + 1);
    }
    take(&room->ways, (uint64_t)most);
    take(&room->state, 1);
    must(cudaMallocHost((void **)&room->seen, sizeof *room->seen), "pinned memory:");
    must(round_scratch(room, height, &room->scratch_bytes), "scratch:");
    take((unsigned char **)&room->scratch, room->scratch_bytes);
}

static void free_room(const round_room *room)
{
    void *const arrays[] = {room->ways,          room->again,          room->leaves, room->queries,
                            room->sorted_leaves, room->sorted_queries, room->fill,   room->chunks,
                            room->first_query,   room->first_chunk,    room->state,  room->scratch};
    for (void *array : arrays) {
        must(cudaFree(array), "freeing:");
    }
    must(cudaFreeHost(room->seen), "freeing:");
}

/* ---- Finding leaves -------------------------------------------------------------------------- */

template <int COLS, int K>
static __global__ void __launch_bounds__(THREADS)
    find_kernel(const __grid_constant__ search_job job, const __grid_constant__ round_room room,
                const __grid_constant__ find_job find)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const uint32_t lane = threadIdx.x % KIN_TREE_GPU_PACKET;
    bool found = false;
    int64_t query = 0;
    query_way way = {0, 0};
    if (i < find.count) {
        query = i < find.taken ? (int64_t)room.again[(find.head + i) % room.most]
                               : find.input + (i - find.taken);
        way = room.ways[query];
        const any_row row = {job.rows + query * job.tree.wide, 1};
        found = next_leaf<COLS>(job, row, job.values[query * K + K - 1], way);
    }
    const uint32_t finders = __ballot_sync(UINT32_MAX, found);
    uint32_t first = 0;
    if (lane == 0 && finders != 0) {
        first = atomicAdd(&room.state->count, (uint32_t)__popc(finders));
    }
    first = __shfl_sync(UINT32_MAX, first, 0);
    if (found) {
        const uint32_t at = first + (uint32_t)__popc(finders & ((1u << lane) - 1));
        const uint32_t leaf = way.node - (1u << job.tree.height);
        room.ways[query] = way;
        room.leaves[at] = leaf;
        room.queries[at] = (uint32_t)query;
        if (find.half > 0 && atomicAdd(room.fill + leaf, 1u) + 1 >= find.half) {
            room.state->full = 1; /* whoever writes it writes the same */
        }
    }
}

/* ---- Solving leaves -------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(THREADS)
    chunks_kernel(const __grid_constant__ search_job job, const __grid_constant__ round_room room)
{
    const uint32_t leaf = blockIdx.x * THREADS + threadIdx.x;
    const uint32_t leaves = 1u << job.tree.height;
    const uint32_t fill = leaf < leaves ? room.fill[leaf] : 0;
    if (leaf <= leaves) {
        room.chunks[leaf] = (fill + LEAF_THREADS - 1) / LEAF_THREADS;
    }
    count_met(job.met, leaf < leaves ? (uint64_t)fill * job.tree.counts[leaf] : 0, fill);
}

/* The last leaf that begins at or before a chunk. */
static __device__ __forceinline__ uint32_t leaf_of_chunk(const round_room &room, uint32_t leaves,
                                                         uint32_t chunk)
{
    uint32_t low = 0;
    uint32_t high = leaves;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (__ldg(room.first_chunk + middle) <= chunk) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

template <int COLS, int K>
static __global__ void __launch_bounds__(LEAF_THREADS)
    leaf_kernel(const __grid_constant__ search_job job, const __grid_constant__ round_room room)
{
    const int wide = (COLS + KIN_TREE_GPU_WIDE - 1) / KIN_TREE_GPU_WIDE * KIN_TREE_GPU_WIDE;
    __shared__ __align__(16) float tile[TILE_POINTS * wide];
    const uint32_t leaves = 1u << job.tree.height;
    if (blockIdx.x >= room.first_chunk[leaves]) {
        return;
    }
    const uint32_t leaf = leaf_of_chunk(room, leaves, blockIdx.x);
    const uint32_t chunk = blockIdx.x - room.first_chunk[leaf];
    const uint32_t at_query = room.first_query[leaf] + chunk * LEAF_THREADS + threadIdx.x;
    const bool live = at_query < room.first_query[leaf + 1];
    const int64_t query = live ? (int64_t)room.sorted_queries[at_query] : 0;
    const int64_t first = (int64_t)job.tree.starts[leaf] * KIN_TREE_LANES;
    const int32_t count = (int32_t)job.tree.counts[leaf];
    float row[COLS];
    nearest_list<K> list;
    load_row<COLS>(job.rows + query * wide, row);
    load_list<K>(job, query, list);
    for (int32_t begin = 0; begin < count; begin += TILE_POINTS) {
        const int32_t points = count - begin < TILE_POINTS ? count - begin : TILE_POINTS;
        const int32_t blocks = (points + KIN_TREE_LANES - 1) / KIN_TREE_LANES;
        copy_tile(tile, job.tree.values + (first + begin) * wide, blocks * KIN_TREE_LANES * wide);
        __syncthreads(); /* the tile is there */
        for (int32_t at = 0; at < points && live; at += FOUR) {
            offer_four<K>(list, four_values<COLS>(tile + four_at<COLS>(at), row),
                          (uint32_t)(first + begin + at), (uint32_t)(points - at));
        }
        __syncthreads(); /* nobody reads it any more */
    }
    if (live) {
        store_list<K>(job, query, list);
    }
}

/* A thread a query of the pool, as it stands. */
template <int COLS, int K>
static __global__ void __launch_bounds__(THREADS)
    own_leaf_kernel(const __grid_constant__ search_job job, const __grid_constant__ round_room room)
{
    const int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    uint64_t pairs = 0;
    if (at < job.count) {
        const int64_t query = room.queries[at];
        float row[COLS];
        nearest_list<K> list;
        load_row<COLS>(job.rows + query * job.tree.wide, row);
        load_list<K>(job, query, list);
        pairs = scan_leaf<COLS, K>(job.tree, room.leaves[at], row, list);
        store_list<K>(job, query, list);
    }
    __syncwarp(); /* all lanes have come back */
    count_met(job.met, pairs, at < job.count ? 1 : 0);
}

static __global__ void __launch_bounds__(THREADS)
    again_kernel(const __grid_constant__ round_room room, const uint32_t *queries, int64_t tail,
                 int64_t count)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) {
        room.again[(tail + i) % room.most] = queries[i];
    }
}

/* ---- All rounds ------------------------------------------------------------------------------ */

static inline unsigned blocks_for(int64_t threads)
{
    return (unsigned)((threads + THREADS - 1) / THREADS);
}

static inline cudaError_t group_pool(const search_job *job, const round_room *room, int64_t pool,
                                     cudaStream_t stream)
{
    const int32_t height = job->tree.height;
    const int32_t counters = (1 << height) + 1;
    size_t bytes = room->scratch_bytes;
    cudaError_t error = cub::DeviceRadixSort::SortPairs(
        room->scratch, bytes, room->leaves, room->sorted_leaves, room->queries,
        room->sorted_queries, pool, 0, height > 0 ? height : 1, stream);
    chunks_kernel<<<blocks_for(counters), THREADS, 0, stream>>>(*job, *room);
    if (error == cudaSuccess) {
        error = cub::DeviceScan::ExclusiveSum(room->scratch, bytes, room->fill, room->first_query,
                                              counters, stream);
    }
    if (error == cudaSuccess) {
        error = cub::DeviceScan::ExclusiveSum(room->scratch, bytes, room->chunks, room->first_chunk,
                                              counters, stream);
    }
    return error;
}

template <int COLS, int K>
static cudaError_t solve_pool(const search_job *job, const round_room *room, bool buffered,
                              int64_t pool, int64_t tail, cudaStream_t stream)
{
    search_job part = *job;
    part.count = pool;
    if (buffered) {
        const cudaError_t error = group_pool(&part, room, pool, stream);
        if (error != cudaSuccess) {
            return error;
        }
        const int64_t leaves = (int64_t)1 << job->tree.height;
        const int64_t chunks = pool / LEAF_THREADS + (pool < leaves ? pool : leaves);
        leaf_kernel<COLS, K><<<(unsigned)chunks, LEAF_THREADS, 0, stream>>>(part, *room);
        (void)cudaMemsetAsync(room->fill, 0, (size_t)(leaves + 1) * sizeof *room->fill, stream);
    } else {
        own_leaf_kernel<COLS, K><<<blocks_for(pool), THREADS, 0, stream>>>(part, *room);
    }
    again_kernel<<<blocks_for(pool), THREADS, 0, stream>>>(
        *room, buffered ? room->sorted_queries : room->queries, tail, pool);
    (void)cudaMemsetAsync(room->state, 0, sizeof *room->state, stream);
    return cudaGetLastError();
}

/* Those that are left, each to its end. */
template <int COLS, int K>
static cudaError_t solve_few(const search_job *job, const round_room *room, int64_t head,
                             int64_t count, cudaStream_t stream)
{
    search_job part = *job;
    part.ways = room->ways;
    part.order = room->queries;
    part.count = count;
    /* The ring may go round: the queries are brought into the pool, which is empty. */
    const int64_t straight = count < room->most - head ? count : room->most - head;
    (void)cudaMemcpyAsync(room->queries, room->again + head, (size_t)straight * sizeof(uint32_t),
                          cudaMemcpyDeviceToDevice, stream);
    (void)cudaMemcpyAsync(room->queries + straight, room->again,
                          (size_t)(count - straight) * sizeof(uint32_t), cudaMemcpyDeviceToDevice,
                          stream);
    alone_kernel<COLS, K><<<blocks_for(count), THREADS, 0, stream>>>(part);
    return cudaGetLastError();
}

/* job.count queries, lists included, from nothing to the end. room.most: at least so many. */
template <int COLS, int K>
static cudaError_t solve_rounds(const search_job *job, const round_room *room,
                                const round_rules *rules, cudaStream_t stream)
{
    const size_t leaves = ((size_t)1 << job->tree.height) + 1;
    int64_t head = 0;
    int64_t again = 0;
    int64_t input = 0;
    int64_t pool = 0;
    (void)cudaMemsetAsync(room->ways, 0, (size_t)job->count * sizeof *room->ways, stream);
    (void)cudaMemsetAsync(room->fill, 0, leaves * sizeof *room->fill, stream);
    (void)cudaMemsetAsync(room->state, 0, sizeof *room->state, stream);
    (void)cudaMemsetAsync(job->values, NO_VALUE_BYTE, (size_t)job->count * K * sizeof(float),
                          stream);
    for (;;) {
        find_job find = {head, again < rules->batch ? again : rules->batch, input, 0,
                         rules->buffered ? rules->half : 0};
        const int64_t fresh = job->count - input < rules->batch - find.taken
                                  ? job->count - input
                                  : rules->batch - find.taken;
        find.count = find.taken + fresh;
        if (find.count == 0 && pool == 0) {
            return cudaSuccess;
        }
        if (find.count > 0) {
            find_kernel<COLS, K><<<blocks_for(find.count), THREADS, 0, stream>>>(*job, *room, find);
            (void)cudaMemcpyAsync(room->seen, room->state, sizeof *room->seen,
                                  cudaMemcpyDeviceToHost, stream);
            const cudaError_t error = cudaStreamSynchronize(stream);
            if (error != cudaSuccess) {
                return error;
            }
            head = (head + find.taken) % room->most;
            again -= find.taken;
            input += fresh;
            pool = room->seen->count;
        }
        const bool nobody_else = again == 0 && input == job->count;
        if (pool > 0 && (!rules->buffered || room->seen->full != 0 || nobody_else)) {
            const cudaError_t error = solve_pool<COLS, K>(job, room, rules->buffered, pool,
                                                          (head + again) % room->most, stream);
            if (error != cudaSuccess) {
                return error;
            }
            again += pool;
            pool = 0;
        }
        if (pool == 0 && input == job->count && again > 0 && again <= rules->few) {
            return solve_few<COLS, K>(job, room, head, again, stream);
        }
    }
}

#endif
