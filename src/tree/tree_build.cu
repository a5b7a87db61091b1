/* SPDX-License-Identifier: Apache-2.0
 * A tree from its rounded rows, without one wait of the host. Contract: tree_kernels.h.
 *
 * Idea. A *list* a column, of its components as integers that rise with them, and one of numbers:
 * all of them have the points in the order of the nodes of a level, and of their numbers within a
 * node. A level cuts each node at the median of its widest column, in the order (key, number), and
 * deals all lists, stably. Nothing is sorted: a median is found digit by digit in one column, whose
 * keys stand side by side, and moving the points once a level is most of what a level costs.
 * Extents of nodes are found where points are dealt. Ranges of nodes follow from the number of
 * points alone.
 *
 *   cut     keys below its `low` go left, and the first `rank` of those from it on; each digit that
 *           is found raises low and lowers rank, until low is a key and rank says how many equal
 *           ones go left
 *   piece   of a node, which a block of threads counts or deals
 *   plot    a node of at most 4,096 points (tree_build_leaves.cu)
 *
 * Source. Radix selection, as in docs/notes/selection.md.
 *
 * Cost. A level reads a column three times and once more where nodes have several pieces, 4 bytes a
 * point, and moves 8 bytes of each list. Scratch: 8 (cols + 1) bytes a point, at most 3 for
 * counters and some for extents. */
#include "tree/tree_launch.cuh"

#include <cub/block/block_scan.cuh>

enum {
    THREADS = KIN_SCREEN_GPU_THREADS,
    WARPS = KIN_TREE_GPU_WARPS,
    STEPS = 8, /* places of a tile a lane has */
    TILE = THREADS * STEPS,
    DIGIT = 11,
    BINS = 1 << DIGIT,
    DIGITS = 3, /* of a key */
    BINS_EACH = BINS / THREADS,
    BLOCKS_A_PROCESSOR = 8
};

/* ---- Nodes and pieces ------------------------------------------------------------------------ */

/* By columns: the least key, and the least of what is left of KIN_TREE_GPU_NO_KEY above a key. */
KIN_DEVICE uint32_t *extents_of(const kin_tree_gpu_building &b, int64_t node)
{
    return b.extents + node * 2 * b.tree.cols;
}

/* In places of the level. */
typedef struct piece {
    int64_t i; /* the node, of the level's */
    int64_t first;
    int64_t middle;
    int64_t begin; /* of the piece */
    int64_t end;
} piece;

KIN_DEVICE piece piece_of(const kin_tree_gpu_building &b, int32_t level)
{
    piece p;
    p.i = blockIdx.x / b.pieces;
    p.first = kin_tree_gpu_first_point(b.tree, level, p.i);
    p.middle = kin_tree_gpu_first_point(b.tree, level + 1, 2 * p.i + 1);
    p.begin = p.first + (int64_t)(blockIdx.x % b.pieces) * b.piece_points;
    p.end = min(p.begin + b.piece_points, kin_tree_gpu_first_point(b.tree, level, p.i + 1));
    return p;
}

/* ---- The first level ------------------------------------------------------------------------- */

/* Lists and the extents of the root. */
static __global__ void __launch_bounds__(THREADS)
    load_rows_kernel(const __grid_constant__ kin_tree_gpu_building b)
{
    const int32_t cols = b.tree.cols;
    const piece p = piece_of(b, 0);
    uint32_t *extents = extents_of(b, 1);
    for (int32_t c = 0; c < cols; c += KIN_TREE_GPU_WIDE) {
        uint32_t low[KIN_TREE_GPU_WIDE] = {KIN_TREE_GPU_NO_KEY, KIN_TREE_GPU_NO_KEY,
                                           KIN_TREE_GPU_NO_KEY, KIN_TREE_GPU_NO_KEY};
        uint32_t high[KIN_TREE_GPU_WIDE] = {KIN_TREE_GPU_NO_KEY, KIN_TREE_GPU_NO_KEY,
                                            KIN_TREE_GPU_NO_KEY, KIN_TREE_GPU_NO_KEY};
        for (int64_t place = p.begin + threadIdx.x; place < p.end; place += THREADS) {
            const float4 four = __ldg((const float4 *)(b.rows + place * b.tree.wide + c));
            const float values[KIN_TREE_GPU_WIDE] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int j = 0; j < KIN_TREE_GPU_WIDE; j++) {
                if (c + j < cols) {
                    const uint32_t key = kin_key32(__float_as_uint(values[j]), false);
                    kin_tree_gpu_list_of(b, c + j)[place] = key;
                    low[j] = min(low[j], key);
                    high[j] = min(high[j], KIN_TREE_GPU_NO_KEY - key);
                }
            }
        }
#pragma unroll
        for (int j = 0; j < KIN_TREE_GPU_WIDE; j++) {
            if (c + j < cols) {
                kin_tree_gpu_lower(extents + c + j, low[j]);
                kin_tree_gpu_lower(extents + cols + c + j, high[j]);
            }
        }
    }
    for (int64_t place = p.begin + threadIdx.x; place < p.end; place += THREADS) {
        kin_tree_gpu_list_of(b, cols)[place] = (uint32_t)place;
    }
}

/* ---- Cuts ------------------------------------------------------------------------------------ */

/* A thread a node. Of columns that are equally wide the first one is cut. Nodes are larger than
 * plots, so there are points on both sides. */
static __global__ void __launch_bounds__(THREADS)
    choose_columns_kernel(const __grid_constant__ kin_tree_gpu_building b, int32_t level)
{
    const int64_t i = kin_tree_gpu_my_thread();
    if (i >= (int64_t)1 << level) {
        return;
    }
    const int32_t cols = b.tree.cols;
    const uint32_t *extents = extents_of(b, ((int64_t)1 << level) + i);
    const int64_t first = kin_tree_gpu_first_point(b.tree, level, i);
    const int64_t middle = kin_tree_gpu_first_point(b.tree, level + 1, 2 * i + 1);
    double widest = -1.0;
    int32_t column = 0;
    for (int32_t c = 0; c < cols; c++) {
        const double width =
            kin_tree_gpu_width_of(extents[c], KIN_TREE_GPU_NO_KEY - extents[cols + c]);
        column = width > widest ? c : column;
        widest = width > widest ? width : widest;
    }
    b.cuts[i] = kin_tree_gpu_begin_cut(column, extents[column],
                                       KIN_TREE_GPU_NO_KEY - extents[cols + column],
                                       (uint32_t)(middle - first), DIGIT);
}

/* How many keys have each digit. Behind the last place stands what comes after all of them. */
static __global__ void __launch_bounds__(THREADS)
    count_digits_kernel(const __grid_constant__ kin_tree_gpu_building b, int32_t level)
{
    __shared__ uint32_t bins[BINS];
    const piece p = piece_of(b, level);
    const kin_tree_gpu_cut cut = b.cuts[p.i];
    const uint32_t *keys = kin_tree_gpu_list_of(b, cut.column);
    for (int32_t bin = (int32_t)threadIdx.x; bin < BINS; bin += THREADS) {
        bins[bin] = 0;
    }
    __syncthreads(); /* counters are clear */
    for (int64_t tile = p.begin + threadIdx.x; tile < p.end; tile += TILE) {
        uint32_t key[STEPS];
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            const int64_t place = tile + s * THREADS;
            key[s] = place < p.end ? __ldg(keys + place) : KIN_TREE_GPU_NO_KEY;
        }
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            const uint32_t digit = kin_tree_gpu_digit_of(cut, key[s]);
            if (digit < BINS) {
                (void)atomicAdd(&bins[digit], 1U);
            }
        }
    }
    __syncthreads(); /* counted */
    for (int32_t bin = (int32_t)threadIdx.x; bin < BINS; bin += THREADS) {
        if (bins[bin] != 0) {
            (void)atomicAdd(b.bins + p.i * BINS + bin, bins[bin]);
        }
    }
}

/* A block of threads a node. Counters are cleared. */
static __global__ void __launch_bounds__(THREADS)
    find_digits_kernel(const __grid_constant__ kin_tree_gpu_building b, int32_t level)
{
    typedef cub::BlockScan<uint32_t, THREADS> scan;
    __shared__ typename scan::TempStorage room;
    const int64_t i = blockIdx.x;
    const int32_t first = (int32_t)threadIdx.x * BINS_EACH;
    uint32_t *bins = b.bins + i * BINS + first;
    kin_tree_gpu_cut cut = b.cuts[i];
    uint32_t counts[BINS_EACH];
    uint32_t own = 0;
    uint32_t before;
#pragma unroll
    for (int j = 0; j < BINS_EACH; j++) {
        counts[j] = bins[j];
        bins[j] = 0;
        own += counts[j];
    }
    scan(room).ExclusiveSum(own, before);
    if (kin_tree_gpu_find_digit(counts, before, first, DIGIT, cut)) {
        b.cuts[i] = cut;
        kin_tree_gpu_write_split(b.tree, ((int64_t)1 << level) + i, cut.column,
                                 kin_tree_gpu_component_of(cut.low));
    }
}

/* ---- Points are dealt ------------------------------------------------------------------------ */

/* How many keys of a piece are below the cut, and on it. */
static __global__ void __launch_bounds__(THREADS)
    count_shares_kernel(const __grid_constant__ kin_tree_gpu_building b, int32_t level)
{
    __shared__ uint32_t shares[2];
    const piece p = piece_of(b, level);
    const kin_tree_gpu_cut cut = b.cuts[p.i];
    const uint32_t *keys = kin_tree_gpu_list_of(b, cut.column);
    uint32_t below = 0;
    uint32_t equal = 0;
    if (threadIdx.x < 2) {
        shares[threadIdx.x] = 0;
    }
    __syncthreads(); /* shares are clear */
    for (int64_t tile = p.begin + threadIdx.x; tile < p.end; tile += TILE) {
        uint32_t key[STEPS];
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            const int64_t place = tile + s * THREADS;
            key[s] = place < p.end ? __ldg(keys + place) : KIN_TREE_GPU_NO_KEY;
        }
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            below += key[s] < cut.low ? 1 : 0;
            equal += key[s] == cut.low ? 1 : 0;
        }
    }
    (void)atomicAdd(&shares[0], below);
    (void)atomicAdd(&shares[1], equal);
    __syncthreads(); /* added */
    if (threadIdx.x == 0) {
        b.shares[blockIdx.x] = make_uint2(shares[0], shares[1]);
    }
}

/* What stands before a piece in its node, in all threads. The block has passed a barrier since
 * `room` was cleared. */
KIN_DEVICE uint2 shares_before(const kin_tree_gpu_building &b, uint32_t room[2])
{
    const uint32_t at = blockIdx.x % (uint32_t)b.pieces;
    uint2 sum = make_uint2(0, 0);
    for (uint32_t other = threadIdx.x; other < at; other += THREADS) {
        const uint2 share = b.shares[blockIdx.x - at + other];
        sum.x += share.x;
        sum.y += share.y;
    }
    if (sum.x + sum.y != 0) {
        (void)atomicAdd(&room[0], sum.x);
        (void)atomicAdd(&room[1], sum.y);
    }
    __syncthreads(); /* added */
    return make_uint2(room[0], room[1]);
}

/* Where the points of a tile go, and what a lane knows of its own. */
typedef struct dealing {
    uint32_t to[STEPS];
    uint32_t left; /* a bit a step */
} dealing;

/* before: of the node, below the cut and on it; it becomes that of the next tile. sums: of the
 * warps, in shared memory, not those of the last tile. */
KIN_DEVICE dealing deal_tile(const piece &p, const kin_tree_gpu_cut &cut, const uint32_t *keys,
                             int64_t tile, uint2 &before, uint2 *sums)
{
    const int32_t warp = (int32_t)threadIdx.x / KIN_SCREEN_GPU_WARP;
    const uint32_t lower_lanes = (1u << kin_tree_gpu_my_lane()) - 1;
    uint32_t below[STEPS];
    uint32_t equal[STEPS];
    uint2 own = make_uint2(0, 0);
    dealing d;
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        const int64_t place = tile + s * KIN_SCREEN_GPU_WARP;
        d.to[s] = place < p.end ? __ldg(keys + place) : KIN_TREE_GPU_NO_KEY;
    }
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        below[s] = __ballot_sync(KIN_SCREEN_GPU_ALL_LANES, d.to[s] < cut.low);
        equal[s] = __ballot_sync(KIN_SCREEN_GPU_ALL_LANES, d.to[s] == cut.low);
        own.x += (uint32_t)__popc(below[s]);
        own.y += (uint32_t)__popc(equal[s]);
    }
    if (kin_tree_gpu_my_lane() == 0) {
        sums[warp] = own;
    }
    __syncthreads(); /* sums are known */
    uint2 at = before;
    for (int32_t w = 0; w < WARPS; w++) {
        at.x += w < warp ? sums[w].x : 0;
        at.y += w < warp ? sums[w].y : 0;
        before.x += sums[w].x;
        before.y += sums[w].y;
    }
    d.left = 0;
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        const uint32_t place = (uint32_t)(tile - p.first) + s * KIN_SCREEN_GPU_WARP;
        const uint32_t equal_before = at.y + (uint32_t)__popc(equal[s] & lower_lanes);
        const uint32_t left_before =
            at.x + (uint32_t)__popc(below[s] & lower_lanes) + min(equal_before, cut.rank);
        const bool left = d.to[s] < cut.low || (d.to[s] == cut.low && equal_before < cut.rank);
        d.to[s] =
            left ? (uint32_t)p.first + left_before : (uint32_t)p.middle + (place - left_before);
        d.left |= (left ? 1u : 0u) << s;
        at.x += (uint32_t)__popc(below[s]);
        at.y += (uint32_t)__popc(equal[s]);
    }
    return d;
}

/* One list of a tile; extents: of this column, on the left and on the right, or NULL. */
KIN_DEVICE void move_list(const kin_tree_gpu_building &b, const piece &p, const dealing &d,
                          int32_t list, int64_t tile, uint32_t (*extents)[2])
{
    const uint32_t *from = kin_tree_gpu_list_of(b, list);
    uint32_t *to = b.others + list * b.tree.points;
    uint32_t least[2][2] = {{KIN_TREE_GPU_NO_KEY, KIN_TREE_GPU_NO_KEY},
                            {KIN_TREE_GPU_NO_KEY, KIN_TREE_GPU_NO_KEY}};
    uint32_t values[STEPS];
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        const int64_t place = tile + s * KIN_SCREEN_GPU_WARP;
        values[s] = place < p.end ? __ldg(from + place) : KIN_TREE_GPU_NO_KEY;
    }
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        const bool left = (d.left >> s & 1) != 0;
        if (tile + s * KIN_SCREEN_GPU_WARP < p.end) {
            const uint32_t above = KIN_TREE_GPU_NO_KEY - values[s];
            to[d.to[s]] = values[s];
            least[0][0] = left ? min(least[0][0], values[s]) : least[0][0];
            least[0][1] = left ? min(least[0][1], above) : least[0][1];
            least[1][0] = left ? least[1][0] : min(least[1][0], values[s]);
            least[1][1] = left ? least[1][1] : min(least[1][1], above);
        }
    }
    if (extents != NULL) {
        kin_tree_gpu_lower(&extents[0][0], least[0][0]);
        kin_tree_gpu_lower(&extents[0][1], least[0][1]);
        kin_tree_gpu_lower(&extents[1][0], least[1][0]);
        kin_tree_gpu_lower(&extents[1][1], least[1][1]);
    }
}

/* All lists of a piece to their places of the next level, whose nodes get extents. */
static __global__ void __launch_bounds__(THREADS)
    deal_kernel(const __grid_constant__ kin_tree_gpu_building b, int32_t level)
{
    __shared__ uint32_t extents[KIN_TREE_GPU_MOST_COLS][2][2];
    __shared__ uint32_t room[2];
    __shared__ uint2 sums[2][WARPS];
    const int32_t cols = b.tree.cols;
    const piece p = piece_of(b, level);
    const kin_tree_gpu_cut cut = b.cuts[p.i];
    const int64_t own = threadIdx.x / KIN_SCREEN_GPU_WARP * (TILE / WARPS) + kin_tree_gpu_my_lane();
    uint32_t *least = &extents[0][0][0];
    for (int32_t t = (int32_t)threadIdx.x; t < 4 * cols; t += THREADS) {
        least[t] = KIN_TREE_GPU_NO_KEY;
    }
    if (threadIdx.x < 2) {
        room[threadIdx.x] = 0;
    }
    __syncthreads(); /* shared memory is clear */
    uint2 before = shares_before(b, room);
    int32_t turn = 0;
    for (int64_t tile = p.begin; tile < p.end; tile += TILE, turn ^= 1) {
        const dealing d =
            deal_tile(p, cut, kin_tree_gpu_list_of(b, cut.column), tile + own, before, sums[turn]);
        for (int32_t c = 0; c < cols; c++) {
            move_list(b, p, d, c, tile + own, extents[c]);
        }
        move_list(b, p, d, cols, tile + own, NULL);
    }
    __syncthreads(); /* all of the piece is dealt */
    uint32_t *children = extents_of(b, 2 * (((int64_t)1 << level) + p.i));
    for (int32_t t = (int32_t)threadIdx.x; t < 4 * cols; t += THREADS) {
        const int32_t c = t / 4;
        const int32_t side = t / 2 % 2;
        (void)atomicMin(children + side * 2 * cols + t % 2 * cols + c, least[t]);
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

/* Whether all nodes of a level are plots. */
static bool are_plots(const kin_tree_gpu &tree, int32_t level)
{
    return tree.height - level <= KIN_TREE_GPU_PLOT_LEVELS &&
           ((tree.blocks >> level) + 1) * KIN_TREE_LANES <= KIN_TREE_GPU_PLOT;
}

/* Levels whose nodes are cut in device memory. */
static int32_t levels_above_plots(const kin_tree_gpu &tree)
{
    int32_t level = 0;
    while (level < tree.height && !are_plots(tree, level)) {
        level += 1;
    }
    return level;
}

/* Pieces of whole tiles, of all nodes together about as many as there is room for at a time. */
static void cut_pieces(kin_tree_gpu_building *b, int32_t level, int32_t processors)
{
    const int64_t most = ((b->tree.blocks >> level) + 1) * KIN_TREE_LANES;
    const int64_t wanted = ((int64_t)processors * BLOCKS_A_PROCESSOR - 1) >> level;
    b->piece_points = (most / (wanted + 1) + TILE) / TILE * TILE;
    b->pieces = (int32_t)((most + b->piece_points - 1) / b->piece_points);
}

static void swap_lists(kin_tree_gpu_building *b)
{
    uint32_t *dealt = b->others;
    b->others = b->lists;
    b->lists = dealt;
}

static int split_level(kin_gpu_stream *stream, kin_tree_gpu_building *b, int32_t level)
{
    const unsigned nodes = 1u << level;
    cut_pieces(b, level, stream->processors);
    const unsigned blocks = nodes * (unsigned)b->pieces;
    choose_columns_kernel<<<kin_tree_gpu_blocks_for(nodes, THREADS), THREADS, 0, stream->stream>>>(
        *b, level);
    KIN_CUDA_TRY_LAUNCH();
    for (int digit = 0; digit < DIGITS; digit++) {
        count_digits_kernel<<<blocks, THREADS, 0, stream->stream>>>(*b, level);
        KIN_CUDA_TRY_LAUNCH();
        find_digits_kernel<<<nodes, THREADS, 0, stream->stream>>>(*b, level);
        KIN_CUDA_TRY_LAUNCH();
    }
    if (b->pieces > 1) {
        count_shares_kernel<<<blocks, THREADS, 0, stream->stream>>>(*b, level);
        KIN_CUDA_TRY_LAUNCH();
    }
    deal_kernel<<<blocks, THREADS, 0, stream->stream>>>(*b, level);
    swap_lists(b);
    return kin_gpu_launched();
}

static int load_rows(kin_gpu_stream *stream, kin_tree_gpu_building *b, int32_t levels)
{
    const size_t extents = ((size_t)2 << levels) * 2 * (size_t)b->tree.cols * sizeof *b->extents;
    KIN_CUDA_TRY(cudaMemsetAsync(b->extents, 0xff, extents, stream->stream));
    KIN_CUDA_TRY(cudaMemsetAsync(b->bins, 0, ((size_t)BINS << levels) / 2 * sizeof *b->bins,
                                 stream->stream));
    cut_pieces(b, 0, stream->processors);
    load_rows_kernel<<<(unsigned)b->pieces, THREADS, 0, stream->stream>>>(*b);
    return kin_gpu_launched();
}

int kin_tree_launch_build(kin_gpu_stream *stream, const kin_tree_gpu_build *job)
{
    const kin_tree_gpu *tree = &job->tree;
    const int64_t points = tree->points;
    build_scratch scratch = {0, (unsigned char *)job->scratch};
    kin_tree_gpu_building b = {};
    if (points < 1) {
        return (int)cudaErrorInvalidValue;
    }
    const int32_t levels = levels_above_plots(*tree);
    const int64_t nodes = (int64_t)1 << levels; /* twice as many as are cut at a time */
    const int64_t blocks = (int64_t)stream->processors * BLOCKS_A_PROCESSOR + 2 * nodes;
    b.tree = *tree;
    b.rows = job->rows;
    b.row_lost = job->row_lost;
    b.firsts = job->firsts;
    b.lists = (uint32_t *)take(&scratch, (tree->cols + 1) * points, sizeof *b.lists);
    b.others = (uint32_t *)take(&scratch, (tree->cols + 1) * points, sizeof *b.others);
    b.extents = (uint32_t *)take(&scratch, 2 * nodes * 2 * tree->cols, sizeof *b.extents);
    b.bins = (uint32_t *)take(&scratch, nodes * BINS / 2, sizeof *b.bins);
    b.cuts = (kin_tree_gpu_cut *)take(&scratch, nodes, sizeof *b.cuts);
    b.shares = (uint2 *)take(&scratch, blocks, sizeof *b.shares);
    if (job->scratch == NULL) {
        *job->scratch_bytes = scratch.bytes;
        return 0;
    }
    int error = load_rows(stream, &b, levels);
    for (int32_t level = 0; level < levels && error == 0; level++) {
        error = split_level(stream, &b, level);
    }
    if (levels < tree->height && error == 0) {
        error = kin_tree_gpu_split_plots(stream, &b, levels);
        swap_lists(&b);
    }
    return error != 0 ? error : kin_tree_gpu_write_tree(stream, &b);
}
