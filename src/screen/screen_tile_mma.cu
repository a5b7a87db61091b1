/* SPDX-License-Identifier: Apache-2.0
 *
 * The screen for every chip from sm_80 on, with the tensor cores' portable instruction (mma.sync).
 *
 *   block of threads   128 rows (half a block of rows) x 128 columns at a time; each of 8 warps
 *                      64 rows x 32 columns, a gate for each eight (screen_gate.h)
 *   ring               slices of 128 bytes of rows and columns, copied ahead (cp.async); rows
 *                      stay in shared memory for a whole unit where they fit beside the ring
 *   queues             what passes the coarse test waits in a queue of its warp until 32 pairs
 *                      fill it: the precise test then has no idle lanes
 *
 * A slice in shared memory is 128 rows of 8 chunks of 16 bytes; chunk c of row r lies in place
 * c ^ (r % 8), so that ldmatrix, which reads one chunk of 8 rows, meets each bank once. Halves and
 * signed bytes have the same layout in bytes: 16 halves or 32 bytes of 16 rows (of 8 columns) are a
 * fragment.
 *
 * Accumulators start at -half_j, hence end as v (screen_pair.cuh). Cost of a tile of 128 x 128
 * pairs beside the products: one comparison a pair. Limits: positions below 2^32.
 */
#include "gpu/gpu_stream.cuh"
#include "screen/screen_mma.cuh"
#include "screen/screen_pair.cuh"

#include <cuda_runtime.h>

enum {
    ROWS = KIN_SCREEN_GPU_TILE,
    THREADS = 256,
    WARPS = THREADS / 32,
    WARP_ROWS = 64,
    WARP_COLS = KIN_SCREEN_GPU_QUAD,
    WARPS_A_ROW = KIN_SCREEN_GPU_TILE / WARP_COLS,
    ROW_PARTS = WARP_ROWS / 16, /* fragments of a warp */
    COL_PARTS = WARP_COLS / 8,
    SLICE = KIN_SCREEN_GPU_SLICE,
    SLICE_BYTES = KIN_SCREEN_GPU_TILE * SLICE,
    CHUNK = 16,
    STEP_BYTES = 32, /* of a row that one mma takes */
    FEWEST_STAGES = 2,
    MOST_STAGES = 4,
    QUEUE = 64 /* 31 that wait and 32 that come */
};

/* What a tile of columns brings beside its rounded rows. */
typedef struct tile_facts {
    kin_screen_gpu_word half[KIN_SCREEN_GPU_TILE];
    kin_screen_gpu_worst worst;
} tile_facts;

typedef struct queue {
    uint32_t row[QUEUE]; /* positions */
    uint32_t col[QUEUE];
    kin_screen_gpu_word v[QUEUE];
} queue;

typedef struct shared_state {
    kin_gate_test tests[ROWS];
    queue queues[WARPS];
    unsigned long long nearest[ROWS];
    uint32_t minima[ROWS];
    uint32_t item;
} shared_state;

typedef struct params {
    kin_screen_gpu_screen job;
    int32_t slices;     /* of a rounded row */
    int32_t last_steps; /* of the last slice; what lies behind is zero */
    int32_t stages;
    int32_t resident; /* all slices of the rows stay */
    int32_t two_sided;
    float eps; /* screen_gate.h */
} params;

static_assert(sizeof(tile_facts) % CHUNK == 0, "copied in chunks");

/* Where a block of threads works. */
typedef struct work {
    kin_screen_gpu_unit unit;
    uint32_t row0;
    unsigned char *rows; /* shared: slices of rows, then of columns, then tile_facts */
    unsigned char *cols;
    tile_facts *facts;
} work;

/* A step is one slice of one tile. */
typedef struct cursor {
    uint32_t tile; /* of the unit */
    int32_t slice;
    int32_t stage;
} cursor;

/* v < least_of(...) proves that v is below both thresholds: v + gate < col in real numbers. Either
 * NaN stays one, and nothing is below it. */
static __device__ __forceinline__ float least_of(float row, float col, float gate)
{
    const float gated = kin_down_sub(col, gate);
    return row != row || row < gated ? row : gated;
}

static __device__ __forceinline__ int32_t least_of(int32_t row, int32_t col, int32_t gate)
{
    return min(row, col - gate);
}

/* ---- The ring ------------------------------------------------------------------------------- */

/* Until at most stages - 2 of the copies that were closed are under way. */
static __device__ __forceinline__ void wait_copies(int32_t stages)
{
    if (stages == 2) {
        mma_wait_copies<0>();
    } else if (stages == 3) {
        mma_wait_copies<1>();
    } else {
        mma_wait_copies<2>();
    }
}

static __device__ __forceinline__ void advance(const params &p, cursor *at)
{
    if (++at->slice == p.slices) {
        at->slice = 0;
        at->tile++;
    }
    if (++at->stage == p.stages) {
        at->stage = 0;
    }
}

static __device__ __forceinline__ unsigned char *row_slice(const params &p, const work &w,
                                                           const cursor &at)
{
    return w.rows + (size_t)(p.resident ? at.slice : at.stage) * SLICE_BYTES;
}

/* One slice of 128 consecutive positions. */
static __device__ __forceinline__ void copy_slice(const kin_screen_gpu_set &set, uint32_t position,
                                                  int32_t slice, unsigned char *to)
{
    const int64_t row_bytes = set.frame.row_bytes;
    const unsigned char *from = set.rounded + position * row_bytes + (int64_t)slice * SLICE;
#pragma unroll
    for (int i = 0; i < SLICE_BYTES / CHUNK / THREADS; i++) {
        const int number = (int)threadIdx.x + i * THREADS;
        const int row = number / (SLICE / CHUNK);
        const int chunk = number % (SLICE / CHUNK);
        mma_copy<CHUNK>(to + row * SLICE + (chunk ^ row % 8) * CHUNK,
                        from + row * row_bytes + chunk * CHUNK);
    }
}

template <kin_screen_gpu_mode MODE>
static __device__ __forceinline__ void copy_facts(const params &p, uint32_t tile, tile_facts *to)
{
    enum { HALF_CHUNKS = sizeof to->half / CHUNK, WORST_CHUNKS = sizeof to->worst / CHUNK };
    const int32_t thread = (int32_t)threadIdx.x;
    if (thread < HALF_CHUNKS) {
        mma_copy<CHUNK>(
            (unsigned char *)to->half + thread * CHUNK,
            (const unsigned char *)(p.job.cols.half + (int64_t)tile * KIN_SCREEN_GPU_TILE) +
                thread * CHUNK);
    } else if (MODE == KIN_SCREEN_GPU_LISTS && thread < HALF_CHUNKS + WORST_CHUNKS) {
        const int32_t chunk = thread - HALF_CHUNKS;
        mma_copy<CHUNK>((unsigned char *)&to->worst + chunk * CHUNK,
                        (const unsigned char *)(p.job.worst + tile) + chunk * CHUNK);
    }
}

template <kin_screen_gpu_mode MODE>
static __device__ __forceinline__ void copy_step(const params &p, const work &w, const cursor &at)
{
    if (at.tile < w.unit.count) {
        const uint32_t tile = p.job.tiles[w.unit.first + at.tile];
        if (!p.resident || at.tile == 0) {
            copy_slice(p.job.rows, w.row0, at.slice, row_slice(p, w, at));
        }
        copy_slice(p.job.cols, tile * KIN_SCREEN_GPU_TILE, at.slice,
                   w.cols + (size_t)at.stage * SLICE_BYTES);
        if (at.slice == 0) {
            copy_facts<MODE>(p, tile, w.facts + at.stage);
        }
    }
    mma_close_copies(); /* one group a step, if empty, so that waiting can count */
}

/* ---- Products ------------------------------------------------------------------------------- */

/* A thread's rows of part m are g and g + 8, its columns of part n are 2 t and 2 t + 1, where lane
 * = 4 g + t: accumulator [m][n][2 i + e] belongs to row 16 m + 8 i + g, column 8 n + 2 t + e. */
template <typename ACC>
static __device__ __forceinline__ void start(const tile_facts *facts, int32_t warp, int32_t lane,
                                             ACC (&acc)[ROW_PARTS][COL_PARTS][4])
{
#pragma unroll
    for (int n = 0; n < COL_PARTS; n++) {
        const int col = warp % WARPS_A_ROW * WARP_COLS + 8 * n + 2 * (lane % 4);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const ACC first = -word_of(facts->half[col + e], ACC());
#pragma unroll
            for (int m = 0; m < ROW_PARTS; m++) {
                acc[m][n][e] = first;
                acc[m][n][2 + e] = first;
            }
        }
    }
}

/* Matrices of ldmatrix for 16 rows: rows 0-7 and 8-15 of the first chunk, then of the second; for
 * 16 columns: both chunks of columns 0-7, then of 8-15. Lane l names row l % 8 of matrix l / 8. */
template <typename ACC>
static __device__ __forceinline__ void
multiply_slice(const unsigned char *rows, const unsigned char *cols, int32_t steps, int32_t warp,
               int32_t lane, ACC (&acc)[ROW_PARTS][COL_PARTS][4])
{
    const int32_t row = warp / WARPS_A_ROW * WARP_ROWS + lane % 16;
    const int32_t col = warp % WARPS_A_ROW * WARP_COLS + lane / 16 * 8 + lane % 8;
    const uint32_t a_at = mma_shared(rows) + (uint32_t)(row * SLICE);
    const uint32_t b_at = mma_shared(cols) + (uint32_t)(col * SLICE);
    const uint32_t a_chunk = (uint32_t)((lane / 16) ^ lane % 8) * CHUNK;
    const uint32_t b_chunk = (uint32_t)((lane / 8 % 2) ^ lane % 8) * CHUNK;
#pragma unroll
    for (int k = 0; k < SLICE / STEP_BYTES; k++) {
        if (k >= steps) {
            break;
        }
        uint32_t a[ROW_PARTS][4];
        uint32_t b[COL_PARTS / 2][4];
#pragma unroll
        for (int m = 0; m < ROW_PARTS; m++) {
            mma_load(a[m], a_at + (uint32_t)(m * 16 * SLICE) + (a_chunk ^ k * STEP_BYTES));
        }
#pragma unroll
        for (int n = 0; n < COL_PARTS / 2; n++) {
            mma_load(b[n], b_at + (uint32_t)(n * 16 * SLICE) + (b_chunk ^ k * STEP_BYTES));
        }
#pragma unroll
        for (int m = 0; m < ROW_PARTS; m++) {
#pragma unroll
            for (int n = 0; n < COL_PARTS; n++) {
                mma_multiply(acc[m][n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
            }
        }
    }
}

/* ---- Lists ---------------------------------------------------------------------------------- */

/* The precise test of `count` <= 32 entries from `first` on. */
template <kin_screen_gpu_type TYPE>
static __device__ __noinline__ void drain(const params &p, const queue *q, uint32_t first,
                                          uint32_t count)
{
    const uint32_t lane = threadIdx.x % 32;
    __syncwarp(); /* entries were written */
    const uint32_t at = first + (lane < count ? lane : 0);
    kin_screen_gpu_offer<TYPE>(p.job, lane < count, q->row[at], q->col[at], q->v[at]);
    __syncwarp(); /* their places may be written again */
}

/* Enters one pair of each lane that has one. */
template <kin_screen_gpu_type TYPE>
static __device__ __forceinline__ void enter(const params &p, queue *q, uint32_t *waiting,
                                             bool passes, uint32_t row, uint32_t col,
                                             kin_screen_gpu_word v)
{
    const uint32_t hits = __ballot_sync(0xffffffffU, passes);
    if (hits == 0) {
        return;
    }
    if (passes) {
        const uint32_t at = *waiting + (uint32_t)__popc(hits & ((1U << threadIdx.x % 32) - 1U));
        q->row[at] = row;
        q->col[at] = col;
        q->v[at] = v;
    }
    *waiting += (uint32_t)__popc(hits);
    if (*waiting >= 32) {
        *waiting -= 32;
        drain<TYPE>(p, q, *waiting, 32);
    }
}

template <kin_screen_gpu_type TYPE, typename ACC>
static __device__ __forceinline__ void
test_tile(const params &p, const work &w, shared_state *s, uint32_t tile, ACC gate, int32_t warp,
          int32_t lane, const ACC (&acc)[ROW_PARTS][COL_PARTS][4], uint32_t *waiting)
{
    const uint32_t col0 =
        tile * KIN_SCREEN_GPU_TILE + (uint32_t)(warp % WARPS_A_ROW * WARP_COLS + 2 * (lane % 4));
#pragma unroll
    for (int i = 0; i < 2 * ROW_PARTS; i++) {
        const int row = warp / WARPS_A_ROW * WARP_ROWS + 8 * i + lane / 4;
        const kin_gate_test test = s->tests[row];
        const ACC for_row = word_of(test.row, ACC());
        const ACC least = p.two_sided ? least_of(for_row, word_of(test.col, ACC()), gate) : for_row;
        bool none = true;
#pragma unroll
        for (int j = 0; j < 2 * COL_PARTS; j++) {
            none = none && acc[i / 2][j / 2][i % 2 * 2 + j % 2] < least;
        }
        if (__all_sync(0xffffffffU, none)) {
            continue;
        }
#pragma unroll
        for (int j = 0; j < 2 * COL_PARTS; j++) {
            const ACC v = acc[i / 2][j / 2][i % 2 * 2 + j % 2];
            enter<TYPE>(p, &s->queues[warp], waiting, !(v < least), w.row0 + (uint32_t)row,
                        col0 + (uint32_t)(8 * (j / 2) + j % 2), to_word(v));
        }
    }
}

/* ---- Costs as a matrix, and the nearest column ---------------------------------------------- */

template <kin_screen_gpu_type TYPE, typename ACC>
static __device__ __forceinline__ void
write_tile(const params &p, const work &w, shared_state *s, uint32_t number, uint32_t tile,
           int32_t warp, int32_t lane, const ACC (&acc)[ROW_PARTS][COL_PARTS][4])
{
    const kin_screen_gpu_screen &job = p.job;
    const uint64_t place = w.unit.first - (uint64_t)w.unit.block * job.tiles_a_block + number;
    const uint32_t col0 = (uint32_t)(warp % WARPS_A_ROW * WARP_COLS + 2 * (lane % 4));
#pragma unroll
    for (int i = 0; i < 2 * ROW_PARTS; i++) {
        const int row = warp / WARPS_A_ROW * WARP_ROWS + 8 * i + lane / 4;
        const uint64_t position = w.row0 + (uint64_t)row;
        const bool real = position < (uint64_t)job.rows.points;
        const kin_screen_gpu_word term = job.rows.facts[position].term;
        uint32_t *to =
            job.matrix + position * (uint64_t)job.pitch + place * KIN_SCREEN_GPU_TILE + col0;
        const uint64_t part =
            (position * (uint64_t)job.pitch + place * KIN_SCREEN_GPU_TILE) / KIN_SCREEN_GPU_PART +
            (uint64_t)(warp % WARPS_A_ROW * 4 + lane % 4) * (COL_PARTS / 2);
        uint32_t least = UINT32_MAX;
        uint32_t before = UINT32_MAX;
#pragma unroll
        for (int n = 0; n < COL_PARTS; n++) {
            uint32_t order[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                order[e] = kin_screen_gpu_order_at<TYPE>(
                    job, term, tile * KIN_SCREEN_GPU_TILE + col0 + (uint32_t)(8 * n + e),
                    to_word(acc[i / 2][n][i % 2 * 2 + e]));
                least = min(least, order[e]);
            }
            if (real && job.matrix != NULL) {
                *(uint2 *)(to + 8 * n) = make_uint2(order[0], order[1]);
            }
            if (real && n % 2 == 1 && job.parts != NULL) { /* of a lane's columns two by two */
                job.parts[part + (uint64_t)(n / 2)] = min(min(order[0], order[1]), before);
            }
            before = min(order[0], order[1]);
        }
        if (job.minima != NULL) {
            least = min(least, __shfl_xor_sync(0xffffffffU, least, 1));
            least = min(least, __shfl_xor_sync(0xffffffffU, least, 2));
            if (lane % 4 == 0) {
                atomicMin(&s->minima[row], least);
            }
        }
    }
    if (job.minima != NULL) {
        __syncthreads(); /* four warps share a row */
        const uint64_t position = w.row0 + (uint64_t)threadIdx.x;
        if (threadIdx.x < ROWS && position < (uint64_t)job.rows.points) {
            job.minima[position * (uint64_t)(job.pitch / KIN_SCREEN_GPU_TILE) + place] =
                s->minima[threadIdx.x];
        }
    }
}

template <kin_screen_gpu_type TYPE, typename ACC>
static __device__ __forceinline__ void nearest_tile(const params &p, const work &w, shared_state *s,
                                                    uint32_t tile, int32_t warp, int32_t lane,
                                                    const ACC (&acc)[ROW_PARTS][COL_PARTS][4])
{
    const uint32_t col0 =
        tile * KIN_SCREEN_GPU_TILE + (uint32_t)(warp % WARPS_A_ROW * WARP_COLS + 2 * (lane % 4));
#pragma unroll
    for (int i = 0; i < 2 * ROW_PARTS; i++) {
        const int row = warp / WARPS_A_ROW * WARP_ROWS + 8 * i + lane / 4;
        const kin_screen_gpu_word term = p.job.rows.facts[w.row0 + (uint32_t)row].term;
        unsigned long long best = UINT64_MAX;
#pragma unroll
        for (int j = 0; j < 2 * COL_PARTS; j++) {
            const uint32_t position = col0 + (uint32_t)(8 * (j / 2) + j % 2);
            const uint32_t order = kin_screen_gpu_order_at<TYPE>(
                p.job, term, position, to_word(acc[i / 2][j / 2][i % 2 * 2 + j % 2]));
            const unsigned long long word = (unsigned long long)order << 32 | position;
            best = order != UINT32_MAX && word < best ? word : best; /* not padding */
        }
        best = min(best, __shfl_xor_sync(0xffffffffU, best, 1));
        best = min(best, __shfl_xor_sync(0xffffffffU, best, 2));
        if (lane % 4 == 0) {
            atomicMin(&s->nearest[row], best);
        }
    }
}

/* ---- The kernel ----------------------------------------------------------------------------- */

/* What all threads need to know of a tile, before its last slice is multiplied. */
template <kin_screen_gpu_type TYPE, kin_screen_gpu_mode MODE>
static __device__ __forceinline__ void
prepare_tile(const params &p, shared_state *s, const kin_gate_row &own, const tile_facts *facts)
{
    if (threadIdx.x >= ROWS) {
        return;
    }
    if (MODE == KIN_SCREEN_GPU_LISTS) {
        s->tests[threadIdx.x] =
            kin_gate_test_of<TYPE>(p.job.rows.frame.bound, p.eps, own, facts->worst);
    } else if (MODE == KIN_SCREEN_GPU_MATRIX) {
        s->minima[threadIdx.x] = UINT32_MAX;
    }
}

/* All tiles of a unit. In each step: the slice has landed and the one before it was multiplied by
 * all (one barrier says both), the place of the latter is filled, then the slice is multiplied. */
template <kin_screen_gpu_type TYPE, kin_screen_gpu_mode MODE, typename ACC>
static __device__ __forceinline__ void screen_unit(const params &p, const work &w, shared_state *s)
{
    const int32_t warp = (int32_t)threadIdx.x / 32;
    const int32_t lane = (int32_t)threadIdx.x % 32;
    kin_gate_row own = {};
    if (MODE == KIN_SCREEN_GPU_LISTS && threadIdx.x < ROWS) {
        own = kin_gate_row_of(p.job.rows, p.job.row_lists, w.row0 + threadIdx.x);
    }
    if (MODE == KIN_SCREEN_GPU_NEAREST && threadIdx.x < ROWS) {
        s->nearest[threadIdx.x] = UINT64_MAX;
    }
    cursor ahead = {0, 0, 0};
    for (int32_t i = 0; i + 1 < p.stages; i++) {
        copy_step<MODE>(p, w, ahead);
        advance(p, &ahead);
    }
    ACC acc[ROW_PARTS][COL_PARTS][4];
    ACC gate = 0;
    uint32_t waiting = 0;
    for (cursor at = {0, 0, 0}; at.tile < w.unit.count; advance(p, &at)) {
        wait_copies(p.stages);
        __syncthreads();
        copy_step<MODE>(p, w, ahead);
        advance(p, &ahead);
        if (at.slice == 0) {
            start(w.facts + at.stage, warp, lane, acc);
            prepare_tile<TYPE, MODE>(p, s, own, w.facts + at.stage);
            if (MODE == KIN_SCREEN_GPU_LISTS) {
                const int32_t own_gate = lane % 4 * WARPS_A_ROW + warp % WARPS_A_ROW;
                gate = word_of(w.facts[at.stage].worst.gate[own_gate], ACC());
            }
        }
        const bool last = at.slice + 1 == p.slices;
        multiply_slice(row_slice(p, w, at), w.cols + (size_t)at.stage * SLICE_BYTES,
                       last ? p.last_steps : SLICE / STEP_BYTES, warp, lane, acc);
        if (!last) {
            continue;
        }
        if (p.slices == 1) {
            __syncthreads(); /* prepare_tile's; else the last step's barrier was behind it */
        }
        const uint32_t tile = p.job.tiles[w.unit.first + at.tile];
        if (MODE == KIN_SCREEN_GPU_LISTS) {
            test_tile<TYPE>(p, w, s, tile, gate, warp, lane, acc, &waiting);
        } else if (MODE == KIN_SCREEN_GPU_MATRIX) {
            write_tile<TYPE>(p, w, s, at.tile, tile, warp, lane, acc);
        } else {
            nearest_tile<TYPE>(p, w, s, tile, warp, lane, acc);
        }
    }
    if (MODE == KIN_SCREEN_GPU_LISTS && waiting > 0) {
        drain<TYPE>(p, &s->queues[warp], 0, waiting);
    }
    if (MODE == KIN_SCREEN_GPU_NEAREST) {
        __syncthreads();
        const uint32_t row = w.row0 + threadIdx.x;
        if (threadIdx.x < ROWS && (int64_t)row < p.job.rows.points) {
            atomicMin((unsigned long long *)&p.job.nearest[row], s->nearest[threadIdx.x]);
        }
    }
}

/* Both halves of a unit's block are dealt one after the other, so that two neighbours read the same
 * columns at about the same time. */
template <kin_screen_gpu_type TYPE, kin_screen_gpu_mode MODE, typename ACC>
static __global__ void __launch_bounds__(THREADS, 2)
    mma_screen_kernel(const __grid_constant__ params p)
{
    enum { HALVES = KIN_SCREEN_GPU_BLOCK / ROWS };
    extern __shared__ __align__(128) unsigned char ring[];
    __shared__ shared_state s;
    work w;
    w.rows = ring;
    w.cols = w.rows + (size_t)(p.resident ? p.slices : p.stages) * SLICE_BYTES;
    w.facts = (tile_facts *)(w.cols + (size_t)p.stages * SLICE_BYTES);
    const uint64_t items = (uint64_t)*p.job.unit_count * HALVES;
    for (;;) {
        if (threadIdx.x == 0) {
            s.item = atomicAdd(p.job.next, 1U);
        }
        __syncthreads();
        const uint32_t item = s.item;
        if (item >= items) {
            return;
        }
        w.unit = p.job.units[item / HALVES];
        w.row0 = w.unit.block * KIN_SCREEN_GPU_BLOCK + item % HALVES * ROWS;
        if ((int64_t)w.row0 < p.job.rows.points) {
            screen_unit<TYPE, MODE, ACC>(p, w, &s);
        }
        __syncthreads(); /* everyone has read the item, and is done with shared memory */
    }
}

/* ---- Launch --------------------------------------------------------------------------------- */

static int64_t bytes_of(const params *p, int32_t stages, int32_t resident)
{
    const int64_t row_slices = resident ? p->slices : stages;
    return (row_slices + stages) * SLICE_BYTES + stages * (int64_t)sizeof(tile_facts);
}

/* The deepest ring within `room` bytes; 0: not even two stages. */
static int32_t stages_within(const params *p, int64_t room, int32_t resident)
{
    int32_t stages = MOST_STAGES;
    while (stages >= FEWEST_STAGES && bytes_of(p, stages, resident) > room) {
        stages--;
    }
    return stages < FEWEST_STAGES ? 0 : stages;
}

/* Two blocks on a processor, of which one tests while the other multiplies, are worth more than
 * rows that stay, and those more than a deep ring. */
static int shape(const kin_gpu_stream *stream, params *p)
{
    int processor_bytes = 0;
    int reserved = 0;
    KIN_CUDA_TRY(cudaDeviceGetAttribute(
        &processor_bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor, stream->device));
    KIN_CUDA_TRY(
        cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, stream->device));
    const int64_t room = stream->shared_bytes - (int64_t)sizeof(shared_state);
    const int64_t half = processor_bytes / 2 - reserved - (int64_t)sizeof(shared_state);
    const int64_t rooms[2] = {half < room ? half : room, room};
    for (int i = 0; i < 2; i++) {
        for (p->resident = 1; p->resident >= 0; p->resident--) {
            p->stages = stages_within(p, rooms[i], p->resident);
            if (p->stages > 0) {
                return 0;
            }
        }
    }
    return (int)cudaErrorInvalidConfiguration;
}

static params make_params(const kin_screen_gpu_screen *job)
{
    const kin_screen_gpu_frame *frame = &job->rows.frame;
    params p = {*job, frame->row_bytes / SLICE, 0, 0, 0, job->col_lists.words != NULL, 0.0F};
    const int64_t used = (int64_t)frame->cols * (frame->type == KIN_SCREEN_GPU_S8 ? 1 : 2);
    const int64_t last = used - (int64_t)(p.slices - 1) * SLICE;
    p.last_steps = (int32_t)((last + STEP_BYTES - 1) / STEP_BYTES);
    if (frame->kappa > 0.0) {
        p.eps = nextafterf((float)(frame->kappa + 0x1p-20), INFINITY);
    }
    return p;
}

template <kin_screen_gpu_type TYPE, kin_screen_gpu_mode MODE, typename ACC>
static int launch(kin_gpu_stream *stream, const kin_screen_gpu_screen *job)
{
    params p = make_params(job);
    const int error = shape(stream, &p);
    if (error != 0) {
        return error;
    }
    const size_t bytes = (size_t)bytes_of(&p, p.stages, p.resident);
    int blocks = 0;
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, mma_screen_kernel<TYPE, MODE, ACC>));
    KIN_CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, mma_screen_kernel<TYPE, MODE, ACC>, THREADS, bytes));
    if (blocks < 1) {
        return (int)cudaErrorInvalidConfiguration;
    }
    mma_screen_kernel<TYPE, MODE, ACC>
        <<<(unsigned)(stream->processors * blocks), THREADS, bytes, stream->stream>>>(p);
    return kin_gpu_launched();
}

template <kin_screen_gpu_type TYPE, typename ACC>
static int launch_mode(kin_gpu_stream *stream, const kin_screen_gpu_screen *job)
{
    switch (job->mode) {
    case KIN_SCREEN_GPU_LISTS:
        return launch<TYPE, KIN_SCREEN_GPU_LISTS, ACC>(stream, job);
    case KIN_SCREEN_GPU_MATRIX:
        return launch<TYPE, KIN_SCREEN_GPU_MATRIX, ACC>(stream, job);
    case KIN_SCREEN_GPU_NEAREST:
        return launch<TYPE, KIN_SCREEN_GPU_NEAREST, ACC>(stream, job);
    }
    return (int)cudaErrorInvalidValue;
}

int kin_screen_gpu_screen_mma(kin_gpu_stream *stream, const kin_screen_gpu_screen *job)
{
    return job->rows.frame.type == KIN_SCREEN_GPU_S8
               ? launch_mode<KIN_SCREEN_GPU_S8, int32_t>(stream, job)
               : launch_mode<KIN_SCREEN_GPU_F16, float>(stream, job);
}
