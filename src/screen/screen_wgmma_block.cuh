/* SPDX-License-Identifier: Apache-2.0
 * A block of the Hopper screen: its shared memory, its barriers, its place in rings, and the words
 * of the two kinds of products (fp32 sums of halves, int32 sums of bytes).
 */
#ifndef KIN_SCREEN_WGMMA_BLOCK_CUH
#define KIN_SCREEN_WGMMA_BLOCK_CUH

#include "screen/screen_hopper.cuh"
#include "screen/screen_pair.cuh"
#include "screen/screen_start.h"

#include <cuda_runtime.h>

enum {
    DRAIN_WARPS = 3,
    SLICE = KIN_SCREEN_GPU_SLICE,
    ROW_SLICE_BYTES = KIN_SCREEN_GPU_BLOCK * SLICE,
    COL_SLICE_BYTES = KIN_SCREEN_GPU_TILE * SLICE,
    START_TILE_BYTES = KIN_SCREEN_GPU_TILE * KIN_START_BYTES,
    START_ROWS_BYTES = 64 * KIN_START_BYTES,
    MOST_STAGES = 9,
    TILE_SLOTS = 8, /* facts of tiles that are in flight, at most */
    MOST_TESTING_WARPS = 16,
    RESIDENT_SLICES = 3, /* rows of at most this many slices stay in shared memory */
    TAIL_SHARE = 2,      /* of a tile's products are left when the turn is given on */
    TURN_NAME = 1,       /* and the next: named barriers */
    GROUP_NAME = 3       /* and the next ones */
};

/* What a kernel is made for, and of how many testing warpgroups with how many registers; in all no
 * more than the block is born with, 3 * 168 or 5 * 96 warpgroups' worth. STEPS: products of 32
 * bytes that a row that stays takes, 0 where rows are streamed. Bytes whose pairs go to lists have
 * four groups of 64 rows, which hide each other's tests; others two of 128. */
template <kin_screen_gpu_type OF, kin_screen_gpu_mode MODE, int STEPS> struct body {
    static constexpr kin_screen_gpu_type TYPE = OF;
    static constexpr bool LISTS = MODE == KIN_SCREEN_GPU_LISTS;
    static constexpr bool FOURS = TYPE == KIN_SCREEN_GPU_S8 && LISTS;
    static constexpr bool STARTS = FOURS && STEPS > 0; /* in the products (screen_start.h) */
    enum {
        GROUPS = FOURS ? 4 : 2,
        ROWS = KIN_SCREEN_GPU_BLOCK / GROUPS, /* of a group */
        WARPS = 4 * GROUPS,
        THREADS = 128 * (GROUPS + 1),
        TESTING_REGISTERS = FOURS ? 104 : 208,
        OTHER_REGISTERS = FOURS ? 64 : 88,
        /* bursts of a testing warp: streamed rows need the room for their slices */
        RING = FOURS && !STARTS ? 32 : 64
    };
};

/* Slices of a row that stays and takes STEPS products of 32 bytes. */
template <int STEPS> static constexpr int slices_of = (STEPS + 3) / 4;

/* Facts of tiles: streamed rows' tiles take long, and a place more in the ring is worth more.
 * STEPS: 0 where rows are streamed. */
template <int STEPS> static constexpr uint32_t tile_slots = STEPS > 0 ? TILE_SLOTS : TILE_SLOTS / 2;

/* Of a thread's products of a row with the columns of a gate, col + 8 i and col + 8 i + 1, those
 * that pass the coarse test; and all of them. */
enum { BURST = KIN_SCREEN_GPU_GATE };
typedef struct burst {
    uint32_t row; /* positions */
    uint32_t col;
    uint32_t passing; /* bits of the products */
    uint32_t unused;
} burst;

typedef struct burst_products {
    kin_screen_gpu_word v[BURST];
} burst_products;

typedef struct tile_facts {
    kin_screen_gpu_word half[KIN_SCREEN_GPU_TILE];
    kin_screen_gpu_word gates[KIN_SCREEN_GPU_TILE]; /* two-sided */
    kin_screen_gpu_worst worst;
    uint32_t tile;
    uint32_t number; /* of the tile in its unit */
    uint32_t unused[2];
} tile_facts;

typedef struct shared_state {
    kin_gate_row rows[KIN_SCREEN_GPU_BLOCK]; /* of the unit, where groups are two */
    uint64_t full[MOST_STAGES];              /* a slice has landed */
    uint64_t empty[MOST_STAGES];             /* it was multiplied */
    uint64_t tile_empty[TILE_SLOTS];         /* a tile was tested */
    uint64_t unit_full;
    uint64_t unit_empty;
    kin_screen_gpu_unit unit;          /* count 0: no more work */
    uint32_t head[MOST_TESTING_WARPS]; /* bursts written */
    uint32_t tail[MOST_TESTING_WARPS]; /* bursts drained */
    uint32_t finished;                 /* testing warps that are done */
} shared_state;

typedef struct params {
    kin_screen_gpu_screen job;
    int32_t slices; /* of a rounded row */
    int32_t stages;
    int32_t stage_bytes;
    int32_t resident;
    int32_t last_steps; /* products of 32 bytes in the last slice; what lies behind is zero */
    int32_t two_sided;
    float eps;       /* screen_gate.h */
    int32_t rows_at; /* in shared memory */
} params;

static __device__ __forceinline__ uint32_t volatile_load(const uint32_t *p)
{
    return *(const volatile uint32_t *)p;
}

static __device__ __forceinline__ void volatile_store(uint32_t *p, uint32_t value)
{
    *(volatile uint32_t *)p = value;
}

/* ---- Places in rings ------------------------------------------------------------ */

typedef struct ring_place {
    uint32_t stage;
    uint32_t parity;
} ring_place;

static __device__ __forceinline__ void step(ring_place *place, uint32_t stages)
{
    if (++place->stage == stages) {
        place->stage = 0;
        place->parity ^= 1;
    }
}

/* Where a testing warp stands. */
typedef struct place {
    ring_place slice;
    ring_place tile;
    uint32_t head; /* of the warp's ring */
    uint32_t tail; /* as it was last seen */
} place;

/* ---- Barriers and layout ------------------------------------------------------------ */

static __device__ void make_barriers(const params &p, shared_state *s, uint32_t testing_warps)
{
    for (int32_t i = 0; i < p.stages; i++) {
        hopper_barrier_make(&s->full[i], 1);
        hopper_barrier_make(&s->empty[i], testing_warps);
    }
    for (int32_t i = 0; i < TILE_SLOTS; i++) {
        hopper_barrier_make(&s->tile_empty[i], testing_warps);
    }
    hopper_barrier_make(&s->unit_full, 1);
    hopper_barrier_make(&s->unit_empty, testing_warps);
    for (int32_t i = 0; i < MOST_TESTING_WARPS; i++) {
        s->head[i] = 0;
        s->tail[i] = 0;
    }
    s->finished = 0;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Shared memory: facts of tiles, from the state downwards; state, what rows have where columns have
 * starts (64 rows that are all the same), for lists rings of bursts and, where they are asked for,
 * of their products; rows (where they are resident) and ring, aligned to 1,024 bytes. */
template <int STEPS> static __host__ __device__ __forceinline__ size_t state_at(void)
{
    return tile_slots<STEPS> * sizeof(tile_facts);
}

static __device__ __forceinline__ tile_facts *facts_of(shared_state *s, const ring_place &tile)
{
    return (tile_facts *)s - 1 - tile.stage;
}

static __host__ __device__ __forceinline__ size_t starts_at(void)
{
    return (sizeof(shared_state) + 15) / 16 * 16;
}

template <typename BODY> static __host__ __device__ __forceinline__ size_t bursts_at(void)
{
    return starts_at() + (BODY::STARTS ? START_ROWS_BYTES : 0);
}

template <typename BODY> static __host__ __device__ __forceinline__ size_t products_at(void)
{
    return bursts_at<BODY>() + (BODY::LISTS ? BODY::WARPS * BODY::RING * sizeof(burst) : 0);
}

/* Place `at` of the ring of a testing warp. */
template <typename BODY>
static __device__ __forceinline__ burst *burst_at(shared_state *s, int32_t warp, uint32_t at)
{
    return (burst *)((unsigned char *)s + bursts_at<BODY>()) + warp * BODY::RING + at % BODY::RING;
}

template <typename BODY>
static __device__ __forceinline__ burst_products *products_of(shared_state *s, int32_t warp,
                                                              uint32_t at)
{
    unsigned char *first = (unsigned char *)s + products_at<BODY>();
    return (burst_products *)first + warp * BODY::RING + at % BODY::RING;
}

/* By the first threads of the block; a barrier follows. */
static __device__ __forceinline__ void write_start_rows(unsigned char *to)
{
    const int32_t place = (int32_t)threadIdx.x * 16;
    if (place < START_ROWS_BYTES) {
        for (int i = 0; i < 16; i++) {
            to[place + i] = (unsigned char)kin_start_of_rows(place / KIN_START_MATRIX % 2 * 16 + i);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
}

/* ---- Products as numbers ------------------------------------------------------------ */

static __device__ __forceinline__ float less_half(float product, float half)
{
    return __fsub_rn(product, half);
}

static __device__ __forceinline__ int32_t less_half(int32_t product, int32_t half)
{
    return product - half;
}

/* No accumulator holds a NaN (docs/notes/numerics.md, "Error of a cost"): a maximum keeps all.
 */
static __device__ __forceinline__ float largest(float a, float b)
{
    return fmaxf(a, b);
}

static __device__ __forceinline__ int32_t largest(int32_t a, int32_t b)
{
    return max(a, b);
}

/* One instruction for integers. */
static __device__ __forceinline__ int32_t largest(int32_t a, int32_t b, int32_t c)
{
    return __vimax3_s32(a, b, c);
}

static __device__ __forceinline__ float largest(float a, float b, float c)
{
    return fmaxf(fmaxf(a, b), c);
}

/* The largest of `most` and of v less a half, or of v and a gate (upwards). */
static __device__ __forceinline__ float largest_less(float v, float half, float most)
{
    return fmaxf(less_half(v, half), most);
}

static __device__ __forceinline__ int32_t largest_less(int32_t v, int32_t half, int32_t most)
{
    return __viaddmax_s32(v, -half, most);
}

static __device__ __forceinline__ float largest_more(float v, float gate, float most)
{
    return fmaxf(__fadd_ru(v, gate), most);
}

static __device__ __forceinline__ int32_t largest_more(int32_t v, int32_t gate, int32_t most)
{
    return __viaddmax_s32(v, gate, most);
}

/* A threshold that nothing reaches, infinity neither. */
static __device__ __forceinline__ float beyond_all(float)
{
    return __int_as_float(0x7fffffff);
}

static __device__ __forceinline__ int32_t beyond_all(int32_t)
{
    return INT32_MAX;
}

static __device__ __forceinline__ float smallest_of(float)
{
    return -INFINITY;
}

static __device__ __forceinline__ int32_t smallest_of(int32_t)
{
    return INT32_MIN;
}

/* What columns 8 j + 2 q, 8 j + 2 q + 1 have in halves or gates. */
template <typename ACC>
static __device__ __forceinline__ void load_two(const kin_screen_gpu_word *words, int j,
                                                int32_t quarter, ACC (&two)[2])
{
    const uint2 both = *(const uint2 *)&words[8 * j + 2 * quarter];
    kin_screen_gpu_word w;
    w.u = both.x;
    two[0] = word_of(w, two[0]);
    w.u = both.y;
    two[1] = word_of(w, two[1]);
}

/* The four rows of a thread, within the 128 of its group: number 0 and 1 in `low`, 2 and 3 in
 * `high`. */
static __device__ __forceinline__ uint32_t row_of(int32_t thread, int32_t number)
{
    return (uint32_t)(thread / 32 * 16 + thread % 32 / 4 + number % 2 * 8 + number / 2 * 64);
}

#endif
