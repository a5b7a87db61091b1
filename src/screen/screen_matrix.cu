/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Two readers of a cost matrix that the screen wrote: `kth` finds how far the k-th neighbour
 * can be at most, `gather` pushes every column that may be as near. Of few rows, where the time of
 * a launch counts, `collect` does both and tightens what came of it; so it does of many rows whose
 * few columns fit into a warp's registers, which reads them once.
 *
 * kth need not find the k-th smallest cost: any k different columns prove a reach. Columns are
 * dealt to groups, column j to group j mod groups; the k-th smallest of the groups' least costs is
 * the cost of k different columns that are no farther. With four groups for each of the k, two or
 * three more columns pass than with the k-th cost itself, the row is read once, and nothing is
 * written back. The least costs of tiles (minima) are groups too, and a hundred times fewer numbers
 * to read.
 *
 *      columns   5 9 2 8 7 1 6 3     4 groups: {5 7} {9 1} {2 6} {8 3} -> 5 1 2 3, k = 2: cost 2
 *
 * Cost. Both are bound by reading the matrix, or what of it minima leave to read. Many short rows
 * take a warp each; few long ones a block each (kth) or a warp for every 1,024 columns (gather).
 *
 * It is long because all readers look at words, groups and limits alike.
 */
#include "gpu/gpu_stream.cuh"
#include "screen/screen_list.cuh"

enum {
    GROUPS_A_NEIGHBOUR = 4,
    WARP_MOST_K = 64, /* 8 groups a lane */
    BLOCK_GROUPS =
        8448, /* of 33 KiB, for k up to 2,112; beyond, groups are fewer than 4 for each, */
    LEAST_A_NEIGHBOUR = 2, /* and below so many a row is read several times instead */
    FEW_ROWS = 1024,
    FEW_WORDS = 1024,
    CHUNK_TILES = 8,
    COLLECTORS = 1024, /* threads of a row, where rows are few */
    PARTS = 4,         /* of a tile: a warp has a column a lane */
    AHEAD = 8,         /* words of a thread that are asked for at once */
    TIGHTENED = 64     /* shorter lists are looked at sooner than tightened */
};

/* The words of one row that kth reads: minima where they hold k, else costs. */
typedef struct kth_row {
    const uint32_t *words;
    int64_t count;
} kth_row;

template <typename Job>
static __device__ kth_row words_of_row(const Job &job, int64_t row, int64_t count)
{
    const int64_t tiles = count / KIN_SCREEN_GPU_TILE;
    if (job.minima != NULL && tiles >= job.lists.k) {
        return kth_row{job.minima + row * (job.pitch / KIN_SCREEN_GPU_TILE), tiles};
    }
    return kth_row{job.matrix + row * job.pitch, count};
}

/* Columns of a row where each block has its own. Rows of nobody have none. */
template <typename Job>
static __device__ __forceinline__ int64_t own_columns(const Job &job, const kin_screen_gpu_set &set,
                                                      int64_t position)
{
    if (job.own == NULL) {
        return job.count;
    }
    return set.ids[position] == KITH_ID_NONE ? 0
                                             : (int64_t)job.own[position / KIN_SCREEN_GPU_BLOCK];
}

/* What a cost of k columns proves for a row; nothing where there are fewer. */
static __device__ double reach_of(const kin_screen_gpu_set &set, int64_t position, uint32_t order,
                                  kin_bound_row col_worst)
{
    const kin_screen_gpu_frame &frame = set.frame;
    return order == KIN_ORDER_PADDING
               ? (double)INFINITY
               : list_proven(kin_bound_reach_of_cost(frame.bound, list_cost(frame.type, order),
                                                     frame.kappa, frame.scale,
                                                     list_row(set, position), col_worst));
}

static __device__ void lower_reach(const kin_screen_gpu_kth &job, int64_t position, uint32_t order)
{
    const bool nobody = job.own != NULL && job.set.ids[position] == KITH_ID_NONE;
    const double reach =
        nobody ? -(double)INFINITY : reach_of(job.set, position, order, job.col_worst);
    if (reach < job.lists.reach[position]) {
        job.lists.reach[position] = reach;
    }
}

/* ---- kth: a warp a row ----------------------------------------------------------------------- */

/* 32 R groups. Rows of a matrix are whole tiles, and read four words at a time; of minima, one. */
template <int R>
static __global__ void __launch_bounds__(KIN_LIST_THREADS)
    kth_by_warp_kernel(const __grid_constant__ kin_screen_gpu_kth job)
{
    const int64_t row = (int64_t)blockIdx.x * KIN_LIST_WARPS + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    if (row >= job.rows || job.row0 + row >= job.set.points) {
        return;
    }
    const int64_t own = own_columns(job, job.set, job.row0 + row);
    const kth_row from = words_of_row(job, row, job.count);
    uint32_t least[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        least[r] = KIN_ORDER_PADDING;
    }
    if (from.count == job.count) {
        const uint4 *words = (const uint4 *)from.words;
        const int64_t fours = (own + 3) / 4;
        constexpr int STEP = R < 8 ? 1 : 2;
#pragma unroll 4
        for (int64_t i = lane; i < fours; i += 32) {
            uint4 word = __ldcs(words + i);
            if (4 * i + 3 >= own) { /* behind the last stands padding */
                word.y = 4 * i + 1 < own ? word.y : KIN_ORDER_PADDING;
                word.z = 4 * i + 2 < own ? word.z : KIN_ORDER_PADDING;
                word.w = KIN_ORDER_PADDING;
            }
            const int turn = STEP == 1 ? 0 : (int)(i / 32 % 2) * 4;
#pragma unroll
            for (int r = 0; r < R; r++) {
                if (STEP == 1 || r / 4 * 4 == turn) {
                    const uint32_t near0 = r % 4 == 0 ? word.x : KIN_ORDER_PADDING;
                    const uint32_t near1 = 1 % R == r % 4 ? word.y : KIN_ORDER_PADDING;
                    const uint32_t near2 = 2 % R == r % 4 ? word.z : KIN_ORDER_PADDING;
                    const uint32_t near3 = 3 % R == r % 4 ? word.w : KIN_ORDER_PADDING;
                    least[r] = min(least[r], min(min(near0, near1), min(near2, near3)));
                }
            }
        }
    } else {
        int turn = 0;
        for (int64_t i = lane; i < from.count; i += 32) {
#pragma unroll
            for (int r = 0; r < R; r++) {
                least[r] = r == turn ? min(least[r], __ldcs(from.words + i)) : least[r];
            }
            turn = (turn + 1) % R;
        }
    }
    int32_t groups = 0;
#pragma unroll
    for (int r = 0; r < R; r++) {
        groups += __popc(__ballot_sync(KIN_ALL_LANES, least[r] != KIN_ORDER_PADDING));
    }
    if (groups >= job.lists.k || own == 0) {
        const uint32_t order = own == 0 ? KIN_ORDER_PADDING : warp_kth<R>(least, job.lists.k);
        if (lane == 0) {
            lower_reach(job, job.row0 + row, order);
        }
    }
}

/* ---- kth: a block a row ---------------------------------------------------------------------- */

/* Words first, first + step, ...; padding from `count` on. All are on their way before one is
 * looked at, which a loop that is unrolled does not do with its last turns. */
static __device__ __forceinline__ void read_words(const uint32_t *words, int64_t first,
                                                  int64_t step, int64_t count,
                                                  uint32_t (&read)[AHEAD])
{
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
        const int64_t i = first + a * step;
        read[a] = KIN_ORDER_PADDING;
        if (i < count) {
            read[a] = __ldcs(words + i);
        }
    }
}

/* The order of k columns, by the groups' least; padding where there are fewer. Few groups have
 * several threads each. least: at least blockDim.x words. */
static __device__ uint32_t kth_of_groups(kth_row from, int32_t k, uint32_t *least,
                                         list_shared *shared)
{
    const int64_t wished = (int64_t)GROUPS_A_NEIGHBOUR * k;
    int64_t groups = (wished + KIN_LIST_THREADS - 1) / KIN_LIST_THREADS * KIN_LIST_THREADS;
    groups = min(groups, (int64_t)BLOCK_GROUPS);
    groups = min(groups, from.count);
    const bool few = groups == KIN_LIST_THREADS;
    const int64_t step = few ? (int64_t)blockDim.x : groups;
    for (int64_t place = threadIdx.x; place < step; place += blockDim.x) {
        uint32_t order = KIN_ORDER_PADDING;
        for (int64_t i = place; i < from.count; i += AHEAD * step) {
            uint32_t words[AHEAD];
            read_words(from.words, i, step, from.count, words);
#pragma unroll
            for (int a = 0; a < AHEAD; a++) {
                order = min(order, words[a]);
            }
        }
        least[place] = order;
    }
    if (few) {
        return block_kth_of_groups(least, (int32_t)step / KIN_LIST_THREADS, k, shared);
    }
    __syncthreads();
    const uint32_t *words = least;
    const auto read = [words](int64_t i) { return words[i]; };
    return block_kth(read, groups, k, shared);
}

static __global__ void __launch_bounds__(KIN_LIST_THREADS)
    kth_by_block_kernel(const __grid_constant__ kin_screen_gpu_kth job)
{
    __shared__ list_shared shared;
    __shared__ uint32_t least[BLOCK_GROUPS];
    const int64_t row = blockIdx.x;
    kth_row from = words_of_row(job, row, job.count);
    from.count = min(from.count, own_columns(job, job.set, job.row0 + row));
    const bool grouped = job.lists.k <= BLOCK_GROUPS / LEAST_A_NEIGHBOUR;
    const uint32_t *words = from.words;
    const auto read = [words](int64_t i) { return __ldg(words + i); };
    const uint32_t order = grouped ? kth_of_groups(from, job.lists.k, least, &shared)
                                   : block_kth(read, from.count, job.lists.k, &shared);
    if (threadIdx.x == 0) {
        lower_reach(job, job.row0 + row, order);
    }
}

/* ---- gather ---------------------------------------------------------------------------------- */

/* A row and what its words are compared with. */
typedef struct gather_row {
    int64_t position;
    const uint32_t *matrix;
    const uint32_t *tiles;
    kin_bound_row own;
    double reach;
    uint32_t most; /* no column of a larger order can matter */
} gather_row;

static __device__ gather_row row_to_gather(const kin_screen_gpu_gather &job, int64_t row,
                                           double reach)
{
    const kin_screen_gpu_frame &frame = job.rows_set.frame;
    gather_row g;
    g.position = job.row0 + row;
    g.matrix = job.matrix + row * job.pitch;
    g.tiles = job.tiles + g.position / KIN_SCREEN_GPU_BLOCK * job.tiles_a_block;
    g.own = list_row(job.rows_set, g.position);
    g.reach = reach;
    g.most = list_limit_order(
        frame.type, kin_bound_limit(frame.bound, g.reach, frame.kappa, g.own, job.cols_set.worst));
    return g;
}

/* A column of each lane that is within the precise limit, or none, joins the row's list, of which
 * `count` says how long it is. */
static __device__ void push_column(const kin_screen_gpu_gather &job, const gather_row &g, bool near,
                                   uint32_t order, int64_t column, int32_t *count)
{
    const uint32_t vote = __ballot_sync(KIN_ALL_LANES, near);
    if (vote == 0) {
        return;
    }
    const int lane = (int)threadIdx.x % 32;
    int32_t place = 0;
    if (lane == 0) {
        place = atomicAdd(count, __popc(vote));
    }
    place = __shfl_sync(KIN_ALL_LANES, place, 0) + __popc(vote & ((1u << lane) - 1));
    if (near && place < job.lists.capacity) {
        job.lists.words[g.position * job.lists.capacity + place] =
            (uint64_t)order << 32 | (uint64_t)column;
    }
}

/* Which of four columns of each lane are within the precise limit, of a tile of the row's block,
 * whose columns end at `end`. The number of the first of them. */
static __device__ __forceinline__ int64_t find_near(const kin_screen_gpu_gather &job,
                                                    const gather_row &g,
                                                    const uint32_t (&orders)[4], int64_t tile,
                                                    int64_t end, bool (&near)[4])
{
    const kin_screen_gpu_frame &frame = job.rows_set.frame;
    const int64_t first = (int64_t)(threadIdx.x % 32 * 4);
    const int64_t column = (int64_t)g.tiles[tile] * KIN_SCREEN_GPU_TILE + first;
    const int64_t left = end - tile * KIN_SCREEN_GPU_TILE - first;
#pragma unroll
    for (int i = 0; i < 4; i++) { /* their facts are asked for at the same time */
        near[i] = orders[i] <= g.most && i < left && column + i < job.cols_set.points;
        if (near[i] && frame.bound != KIN_BOUND_INTEGER) {
            const double limit = kin_bound_limit(frame.bound, g.reach, frame.kappa, g.own,
                                                 list_row(job.cols_set, column + i));
            near[i] = !(list_cost(frame.type, orders[i]) > limit);
        }
    }
    return column;
}

/* Four columns of each lane. */
static __device__ void push_tile(const kin_screen_gpu_gather &job, const gather_row &g, uint4 word,
                                 int64_t tile, int64_t end, int32_t *count)
{
    const uint32_t orders[4] = {word.x, word.y, word.z, word.w};
    bool near[4];
    const int64_t column = find_near(job, g, orders, tile, end, near);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        push_column(job, g, near[i], orders[i], column + i, count);
    }
}

static __device__ uint4 words_of_tile(const gather_row &g, int64_t tile)
{
    return __ldcs((const uint4 *)(g.matrix + tile * KIN_SCREEN_GPU_TILE) + threadIdx.x % 32);
}

/* A warp for CHUNK_TILES tiles of a row. */
static __global__ void __launch_bounds__(KIN_LIST_THREADS)
    gather_chunks_kernel(const __grid_constant__ kin_screen_gpu_gather job, int64_t chunks)
{
    const int64_t piece = (int64_t)blockIdx.x * KIN_LIST_WARPS + threadIdx.x / 32;
    const int64_t row = piece / chunks;
    if (row >= job.rows || job.row0 + row >= job.rows_set.points) {
        return;
    }
    const int64_t own = own_columns(job, job.rows_set, job.row0 + row);
    const int64_t tiles = (own + KIN_SCREEN_GPU_TILE - 1) / KIN_SCREEN_GPU_TILE;
    const int64_t first = piece % chunks * CHUNK_TILES;
    if (first >= tiles) {
        return;
    }
    const gather_row g = row_to_gather(job, row, job.lists.reach[job.row0 + row]);
    uint4 words[CHUNK_TILES];
#pragma unroll
    for (int t = 0; t < CHUNK_TILES; t++) {
        const bool read = first + t < tiles;
        words[t] =
            make_uint4(KIN_ORDER_PADDING, KIN_ORDER_PADDING, KIN_ORDER_PADDING, KIN_ORDER_PADDING);
        if (read) {
            words[t] = words_of_tile(g, first + t);
        }
    }
#pragma unroll
    for (int t = 0; t < CHUNK_TILES; t++) {
        const uint4 word = words[t];
        const uint32_t least = min(min(word.x, word.y), min(word.z, word.w));
        if (__any_sync(KIN_ALL_LANES, least <= g.most)) {
            push_tile(job, g, word, first + t, own, &job.lists.counts[g.position]);
        }
    }
}

/* ---- Few rows: all at once, by a block a row ------------------------------------------------- */

/* The tiles of a row that hold something: their numbers, at most BLOCK_GROUPS of `near`. Without
 * minima all of them may. */
static __device__ void list_near_tiles(const kin_screen_gpu_collect &job, int64_t tiles,
                                       uint32_t most, uint32_t *numbers, int32_t *near)
{
    const int64_t row = blockIdx.x;
    const uint32_t *minima =
        job.minima == NULL ? NULL : job.minima + row * (job.pitch / KIN_SCREEN_GPU_TILE);
    for (int64_t first = threadIdx.x; first < tiles; first += AHEAD * COLLECTORS) {
        uint32_t words[AHEAD] = {};
        if (minima != NULL) {
            read_words(minima, first, COLLECTORS, tiles, words);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            const int64_t tile = first + a * COLLECTORS;
            if (words[a] <= most && tile < tiles) {
                const int32_t place = atomicAdd(near, 1);
                if (place < BLOCK_GROUPS) {
                    numbers[place] = (uint32_t)tile;
                }
            }
        }
    }
    __syncthreads();
}

/* An order of k columns from the costs of the tiles that are listed, four columns being a group. */
static __device__ uint32_t kth_of_tiles(const uint32_t *matrix, const uint32_t *numbers,
                                        int32_t near, int32_t k, uint32_t *least,
                                        list_shared *shared)
{
    const int32_t part = (int32_t)threadIdx.x / 32 % PARTS;
    const int32_t lane = (int32_t)threadIdx.x % 32;
    constexpr int32_t TILES = COLLECTORS / 32 / PARTS;
    uint32_t order = KIN_ORDER_PADDING;
    for (int32_t first = (int32_t)threadIdx.x / 32 / PARTS; first < near; first += 2 * TILES) {
        const uint32_t *words = matrix + part * 32 + lane;
        const uint32_t one = __ldcs(words + (int64_t)numbers[first] * KIN_SCREEN_GPU_TILE);
        uint32_t other = KIN_ORDER_PADDING;
        if (first + TILES < near) { /* both are on their way at once */
            other = __ldcs(words + (int64_t)numbers[first + TILES] * KIN_SCREEN_GPU_TILE);
        }
        order = min(order, min(one, other));
    }
    for (int away = 1; away < PARTS; away *= 2) {
        order = min(order, __shfl_xor_sync(KIN_ALL_LANES, order, away));
    }
    least[threadIdx.x / PARTS] = order;
    return block_kth_of_groups(least, 1, k, shared);
}

/* The k tiles of least minima prove a reach; if all k neighbours lie in two of them, it is the
 * tenth tile's, and far too wide. So those tiles' own costs prove another one. Numbers of tiles
 * beyond the room are candidates that are lost. */
static __global__ void __launch_bounds__(COLLECTORS)
    collect_kernel(const __grid_constant__ kin_screen_gpu_collect job)
{
    __shared__ list_shared shared;
    __shared__ uint32_t words[BLOCK_GROUPS]; /* of groups, then numbers of tiles */
    __shared__ uint32_t least[KIN_LIST_THREADS];
    __shared__ gather_row g;
    __shared__ int32_t near[2];
    __shared__ int32_t pushed;
    const int64_t position = job.row0 + blockIdx.x;
    const int32_t k = job.lists.k;
    if (threadIdx.x == 0) {
        near[0] = near[1] = 0;
        pushed = 0;
    }
    kin_gpu_await();
    const int64_t own = own_columns(job, job.rows_set, position);
    const int64_t count = own > job.count ? 0 : own;
    const int64_t tiles = count / KIN_SCREEN_GPU_TILE;
    uint32_t order = kth_of_groups(words_of_row(job, blockIdx.x, count), k, words, &shared);
    if (job.minima != NULL && k <= KIN_LIST_THREADS / GROUPS_A_NEIGHBOUR) {
        list_near_tiles(job, tiles, order, words, &near[0]);
        order = min(order, kth_of_tiles(job.matrix + blockIdx.x * job.pitch, words,
                                        min(near[0], (int32_t)BLOCK_GROUPS), k, least, &shared));
    }
    if (threadIdx.x == 0) {
        const double reach = reach_of(job.rows_set, position, order, job.cols_set.worst);
        g = row_to_gather(job, blockIdx.x, reach);
    }
    __syncthreads(); /* groups and numbers are used up, too */
    list_near_tiles(job, tiles, g.most, words, &near[1]);
    for (int32_t i = (int32_t)threadIdx.x / 32; i < min(near[1], (int32_t)BLOCK_GROUPS);
         i += COLLECTORS / 32) {
        push_tile(job, g, words_of_tile(g, words[i]), words[i], count, &pushed);
    }
    __syncthreads();
    const bool lost = count < own || near[1] > BLOCK_GROUPS || pushed > job.lists.capacity;
    int32_t kept = min(pushed, job.lists.capacity);
    if (threadIdx.x == 0) {
        job.lists.reach[position] = g.reach;
    }
    if (!lost && kept > TIGHTENED && kept >= k) {
        const kin_screen_gpu_tighten tighten = {job.rows_set, job.cols_set, job.lists};
        __syncthreads(); /* which reads the reach */
        kept = block_tighten(tighten, position, kept, &shared);
    }
    if (threadIdx.x == 0) {
        job.lists.counts[position] = kept;
        job.lists.lost[position] = lost ? 1 : 0;
        if (job.told != NULL) {
            job.told[blockIdx.x] = lost ? -1 : kept;
        }
        if (job.seen != NULL && blockIdx.x == 0) {
            *job.seen = (uint32_t)own;
        }
    }
}

/* ---- Columns of their own: all at once, by a warp a row -------------------------------------- */

/* The words of up to T tiles stay in registers, and nobody else has a word for the row's list. */
template <int R, int T>
static __global__ void __launch_bounds__(KIN_LIST_THREADS)
    collect_own_kernel(const __grid_constant__ kin_screen_gpu_collect job)
{
    const int64_t row = (int64_t)blockIdx.x * KIN_LIST_WARPS + threadIdx.x / 32;
    const int64_t position = job.row0 + row;
    const int lane = (int)threadIdx.x % 32;
    if (row >= job.rows || position >= job.rows_set.points) {
        return;
    }
    if (job.rows_set.ids[position] == KITH_ID_NONE) {
        if (lane == 0) {
            job.lists.reach[position] = -(double)INFINITY;
            job.lists.counts[position] = 0;
            job.lists.lost[position] = 0;
        }
        return;
    }
    const int64_t own = own_columns(job, job.rows_set, position);
    uint32_t words[T][4];
    uint32_t least[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        least[r] = KIN_ORDER_PADDING;
    }
#pragma unroll
    for (int t = 0; t < T; t++) {
        const int64_t left = own - t * KIN_SCREEN_GPU_TILE - lane * 4;
        uint4 word =
            make_uint4(KIN_ORDER_PADDING, KIN_ORDER_PADDING, KIN_ORDER_PADDING, KIN_ORDER_PADDING);
        if (left > 0) {
            word = __ldcs((const uint4 *)(job.matrix + row * job.pitch + t * KIN_SCREEN_GPU_TILE) +
                          lane);
        }
        words[t][0] = word.x;
        words[t][1] = left > 1 ? word.y : KIN_ORDER_PADDING;
        words[t][2] = left > 2 ? word.z : KIN_ORDER_PADDING;
        words[t][3] = left > 3 ? word.w : KIN_ORDER_PADDING;
    }
#pragma unroll
    for (int w = 0; w < T * 4; w++) {
        least[w % R] = min(least[w % R], words[w / 4][w % 4]);
    }
    int32_t groups = 0;
#pragma unroll
    for (int r = 0; r < R; r++) {
        groups += __popc(__ballot_sync(KIN_ALL_LANES, least[r] != KIN_ORDER_PADDING));
    }
    const uint32_t order =
        groups >= job.lists.k ? warp_kth<R>(least, job.lists.k) : KIN_ORDER_PADDING;
    const double reach = reach_of(job.rows_set, position, order, job.cols_set.worst);
    const gather_row g = row_to_gather(job, row, reach);
    int32_t pushed = 0;
#pragma unroll
    for (int t = 0; t < T; t++) {
        const uint32_t first = min(min(words[t][0], words[t][1]), min(words[t][2], words[t][3]));
        if (t * KIN_SCREEN_GPU_TILE < own && __any_sync(KIN_ALL_LANES, first <= g.most)) {
            bool near[4];
            const int64_t column = find_near(job, g, words[t], t, own, near);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t vote = __ballot_sync(KIN_ALL_LANES, near[i]);
                const int32_t place = pushed + __popc(vote & ((1u << lane) - 1));
                if (near[i] && place < job.lists.capacity) {
                    job.lists.words[position * job.lists.capacity + place] =
                        (uint64_t)words[t][i] << 32 | (uint64_t)(column + i);
                }
                pushed += __popc(vote);
            }
        }
    }
    if (lane == 0) {
        job.lists.reach[position] = reach;
    }
    __syncwarp(); /* the list is there for all lanes */
    int32_t kept = min(pushed, job.lists.capacity);
    if (kept >= job.lists.k) {
        const kin_screen_gpu_tighten tighten = {job.rows_set, job.cols_set, job.lists};
        kept = warp_tighten_any<MOST_ENTRIES>(tighten, position, kept);
    }
    if (lane == 0) {
        job.lists.counts[position] = kept;
        job.lists.lost[position] = pushed > job.lists.capacity ? 1 : 0;
    }
}

/* ---- Launch ---------------------------------------------------------------------------------- */

int kin_screen_gpu_launch_kth(kin_gpu_stream *stream, const kin_screen_gpu_kth *job)
{
    if (job->rows == 0) {
        return 0;
    }
    const int32_t k = job->lists.k;
    /* Of few words, near ones may stand side by side, and be those of few lanes. */
    const int32_t groups = GROUPS_A_NEIGHBOUR * k * (job->count <= FEW_WORDS ? 2 : 1);
    const unsigned warps = (unsigned)((job->rows + KIN_LIST_WARPS - 1) / KIN_LIST_WARPS);
    if (k > WARP_MOST_K || job->rows < FEW_ROWS) {
        const int64_t rows = job->set.points - job->row0;
        const unsigned blocks = (unsigned)(job->rows < rows ? job->rows : rows);
        kth_by_block_kernel<<<blocks, KIN_LIST_THREADS, 0, stream->stream>>>(*job);
    } else if (groups <= 32) {
        kth_by_warp_kernel<1><<<warps, KIN_LIST_THREADS, 0, stream->stream>>>(*job);
    } else if (groups <= 64) {
        kth_by_warp_kernel<2><<<warps, KIN_LIST_THREADS, 0, stream->stream>>>(*job);
    } else if (groups <= 128) {
        kth_by_warp_kernel<4><<<warps, KIN_LIST_THREADS, 0, stream->stream>>>(*job);
    } else {
        kth_by_warp_kernel<8><<<warps, KIN_LIST_THREADS, 0, stream->stream>>>(*job);
    }
    return kin_gpu_launched();
}

int kin_screen_gpu_launch_gather(kin_gpu_stream *stream, const kin_screen_gpu_gather *job)
{
    const int64_t chunks = (job->count / KIN_SCREEN_GPU_TILE + CHUNK_TILES - 1) / CHUNK_TILES;
    const int64_t blocks = (job->rows * chunks + KIN_LIST_WARPS - 1) / KIN_LIST_WARPS;
    if (blocks > 0) {
        gather_chunks_kernel<<<(unsigned)blocks, KIN_LIST_THREADS, 0, stream->stream>>>(*job,
                                                                                        chunks);
    }
    return kin_gpu_launched();
}

template <int T> static void launch_own(kin_gpu_stream *stream, const kin_screen_gpu_collect *job)
{
    const unsigned blocks = (unsigned)((job->rows + KIN_LIST_WARPS - 1) / KIN_LIST_WARPS);
    if (job->lists.k <= 16) {
        collect_own_kernel<2, T><<<blocks, KIN_LIST_THREADS, 0, stream->stream>>>(*job);
    } else {
        collect_own_kernel<8, T><<<blocks, KIN_LIST_THREADS, 0, stream->stream>>>(*job);
    }
}

static int collect_of_own(kin_gpu_stream *stream, const kin_screen_gpu_collect *job)
{
    const int64_t tiles = job->count / KIN_SCREEN_GPU_TILE;
    if (job->lists.k > KIN_SCREEN_GPU_OWN_K || tiles > KIN_SCREEN_GPU_OWN_TILES) {
        return (int)cudaErrorInvalidValue;
    }
    if (job->rows == 0) {
        return 0;
    }
    if (tiles == 1) {
        launch_own<1>(stream, job);
    } else if (tiles <= KIN_SCREEN_GPU_OWN_TILES / 2) {
        launch_own<KIN_SCREEN_GPU_OWN_TILES / 2>(stream, job);
    } else {
        launch_own<KIN_SCREEN_GPU_OWN_TILES>(stream, job);
    }
    return kin_gpu_launched();
}

int kin_screen_gpu_launch_collect(kin_gpu_stream *stream, const kin_screen_gpu_collect *job)
{
    if (job->own != NULL && job->minima == NULL) {
        return collect_of_own(stream, job);
    }
    const int64_t rows = job->rows_set.points - job->row0;
    const unsigned blocks = (unsigned)(job->rows < rows ? job->rows : rows);
    return blocks == 0 ? 0
                       : kin_gpu_launch_behind(stream, collect_kernel,
                                               kin_gpu_grid{blocks, COLLECTORS, 0}, *job);
}
