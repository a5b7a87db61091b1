/* SPDX-License-Identifier: Apache-2.0
 *
 * The screen on Hopper: products of 256 rows with 128 columns at a time on the tensor cores, one
 * test a pair in registers, and nothing but candidates leaves the chip.
 *
 *   producer warp     deals units, fills a ring of column slices (and, where rounded rows are long,
 * of row slices) with the bulk copy engine 2 x 128 threads   128 rows each: two 64 x 128 products,
 * then the test. Where the rows stay in shared memory the two take turns: one multiplies while the
 * other tests 3 drain warps     take what passed the coarse test from rings of the 8 testing warps,
 * make the precise test and push candidates; atomics wait there, not in the test
 *
 *   global --copy engine--> ring --wgmma--> registers --coarse test--> 8 rings --drain--> lists
 *
 * Cost of a tile of 256 x 128 pairs with 128 columns of halves: 2,048 cycles of the tensor cores,
 * beside them 128 additions and 128 maxima a thread. Limits: rows may be 2^31 bytes long; shared
 * memory 227 KiB.
 */
#include "fused/fused_gate.cuh"
#include "fused/fused_hopper.cuh"
#include "fused/fused_launch.cuh"
#include "fused/fused_screen.cuh"
#include "gpu/gpu_stream.cuh"

#include <cuda_runtime.h>

enum {
    GROUPS = 2, /* testing warpgroups, 128 rows each */
    THREADS = 384,
    TESTING_WARPS = 8,
    DRAIN_WARPS = 3,
    SLICE = KIN_FUSED_SLICE,
    ROW_SLICE_BYTES = KIN_FUSED_BLOCK * SLICE,
    COL_SLICE_BYTES = KIN_FUSED_TILE * SLICE,
    MOST_STAGES = 9,
    TILE_SLOTS = 8,      /* facts of tiles that are in flight */
    RING = 128,          /* entries of a testing warp's ring */
    RESIDENT_SLICES = 3, /* rows of at most this many slices stay in shared memory */
    TAIL_SHARE = 2,      /* of a tile's products are left when the turn is given on */
    TURN_NAME = 1,       /* and the next: named barriers */
    GROUP_NAME = 3,      /* and the next */
    TESTING_REGISTERS = 208,
    OTHER_REGISTERS = 88 /* 2 * 208 + 88 = 3 * 168, what the block is born with */
};

/* What passed the coarse test. */
typedef struct entry {
    uint32_t row; /* positions */
    uint32_t col;
    kin_fused_word v;
    uint32_t unused;
} entry;

typedef struct tile_facts {
    kin_fused_word half[KIN_FUSED_TILE];
    kin_fused_worst worst;
    uint32_t tile;
    uint32_t number; /* of the tile in its unit */
    uint32_t unused[2];
} tile_facts;

typedef struct shared_state {
    entry rings[TESTING_WARPS][RING];
    tile_facts tiles[TILE_SLOTS];
    kin_gate_row rows[KIN_FUSED_BLOCK]; /* of the unit */
    uint64_t full[MOST_STAGES];         /* a slice has landed */
    uint64_t empty[MOST_STAGES];        /* it was multiplied */
    uint64_t tile_empty[TILE_SLOTS];    /* a tile was tested */
    uint64_t unit_full;
    uint64_t unit_empty;
    kin_fused_unit unit;          /* count 0: no more work */
    uint32_t head[TESTING_WARPS]; /* entries written */
    uint32_t tail[TESTING_WARPS]; /* entries drained */
    uint32_t finished;            /* testing warps that are done */
} shared_state;

typedef struct params {
    kin_fused_screen job;
    int32_t slices; /* of a rounded row */
    int32_t stages;
    int32_t resident;
    int32_t last_steps; /* products of 32 bytes in the last slice; what lies behind is zero */
    int32_t two_sided;
    float eps; /* fused_gate.cuh */
} params;

__device__ __forceinline__ uint32_t volatile_load(const uint32_t *p)
{
    return *(const volatile uint32_t *)p;
}

__device__ __forceinline__ void volatile_store(uint32_t *p, uint32_t value)
{
    *(volatile uint32_t *)p = value;
}

/* ---- The producer --------------------------------------------------------------------------- */

typedef struct ring_place {
    uint32_t stage;
    uint32_t parity;
} ring_place;

__device__ __forceinline__ void step(ring_place *place, uint32_t stages)
{
    if (++place->stage == stages) {
        place->stage = 0;
        place->parity ^= 1;
    }
}

template <bool LISTS>
__device__ void produce_tile(const params &p, const CUtensorMap *row_map,
                             const CUtensorMap *col_map, shared_state *s, unsigned char *ring,
                             uint32_t number, ring_place *slice, ring_place *tile)
{
    const kin_fused_screen &job = p.job;
    const kin_fused_unit unit = s->unit;
    const uint32_t id = job.tiles[unit.first + number];
    tile_facts *facts = &s->tiles[tile->stage];
    hopper_barrier_wait(&s->tile_empty[tile->stage], tile->parity ^ 1);
    facts->tile = id;
    facts->number = number;
    const uint32_t slice_bytes = COL_SLICE_BYTES + (p.resident ? 0 : ROW_SLICE_BYTES);
    const uint32_t facts_bytes =
        (uint32_t)sizeof facts->half + (LISTS ? (uint32_t)sizeof facts->worst : 0);
    for (int32_t i = 0; i < p.slices; i++) {
        uint64_t *full = &s->full[slice->stage];
        unsigned char *to = ring + (size_t)slice->stage * slice_bytes;
        hopper_barrier_wait(&s->empty[slice->stage], slice->parity ^ 1);
        hopper_barrier_expect(full, slice_bytes + (i == 0 ? facts_bytes : 0));
        hopper_copy_box(to, col_map, full, i * SLICE, (int32_t)(id * KIN_FUSED_TILE));
        if (!p.resident) {
            hopper_copy_box(to + COL_SLICE_BYTES, row_map, full, i * SLICE,
                            (int32_t)(unit.block * KIN_FUSED_BLOCK));
        }
        if (i == 0) {
            hopper_copy(facts->half, job.cols.half + (size_t)id * KIN_FUSED_TILE, full,
                        (uint32_t)sizeof facts->half);
            if (LISTS) {
                hopper_copy(&facts->worst, job.worst + id, full, (uint32_t)sizeof facts->worst);
            }
        }
        step(slice, (uint32_t)p.stages);
    }
    step(tile, TILE_SLOTS);
}

template <bool LISTS>
__device__ void produce(const params &p, const CUtensorMap *row_map, const CUtensorMap *col_map,
                        shared_state *s, unsigned char *rows, unsigned char *ring)
{
    const uint32_t count = *p.job.unit_count;
    ring_place slice = {0, 0};
    ring_place tile = {0, 0};
    for (uint32_t parity = 0;; parity ^= 1) {
        const uint32_t next = atomicAdd(p.job.next, 1u);
        hopper_barrier_wait(&s->unit_empty, parity ^ 1);
        kin_fused_unit unit = {0, 0, 0, 0};
        if (next < count) {
            unit = p.job.units[next];
        }
        s->unit = unit;
        const bool loads = p.resident && unit.count > 0;
        hopper_barrier_expect(&s->unit_full, loads ? (uint32_t)(p.slices * ROW_SLICE_BYTES) : 0);
        if (unit.count == 0) {
            return;
        }
        for (int32_t i = 0; loads && i < p.slices; i++) {
            hopper_copy_box(rows + (size_t)i * ROW_SLICE_BYTES, row_map, &s->unit_full, i * SLICE,
                            (int32_t)(unit.block * KIN_FUSED_BLOCK));
        }
        for (uint32_t t = 0; t < unit.count; t++) {
            produce_tile<LISTS>(p, row_map, col_map, s, ring, t, &slice, &tile);
        }
    }
}

/* ---- Draining ------------------------------------------------------------------------------- */

template <kin_fused_type TYPE>
__device__ void drain(const params &p, shared_state *s, int32_t warp, int32_t lane)
{
    for (;;) {
        const bool ending = volatile_load(&s->finished) == TESTING_WARPS;
        bool idle = true;
        __threadfence_block(); /* what was written before `finished` is seen below */
        for (int32_t ring = warp; ring < TESTING_WARPS; ring += DRAIN_WARPS) {
            const uint32_t tail = s->tail[ring];
            const uint32_t waiting = volatile_load(&s->head[ring]) - tail;
            if (waiting == 0) {
                continue;
            }
            idle = false;
            __threadfence_block(); /* entries below head are complete */
            const uint32_t taken = waiting < 32 ? waiting : 32;
            if ((uint32_t)lane < taken) {
                const entry e = s->rings[ring][(tail + (uint32_t)lane) % RING];
                kin_fused_offer<TYPE>(p.job, e.row, e.col, e.v);
            }
            __syncwarp();
            if (lane == 0) {
                volatile_store(&s->tail[ring], tail + taken);
            }
            __syncwarp();
        }
        if (idle && ending) {
            return;
        }
        if (idle) {
            __nanosleep(200);
        }
    }
}

/* ---- Products ------------------------------------------------------------------------------- */

/* Where a testing warp stands. */
typedef struct place {
    ring_place slice;
    ring_place tile;
    uint32_t head; /* of the warp's ring */
} place;

/* One slice of both accumulators. */
template <int STEPS, typename ACC>
__device__ __forceinline__ void multiply_slice(const unsigned char *own, const unsigned char *cols,
                                               int more, ACC (&low)[64], ACC (&high)[64])
{
    const uint64_t a = hopper_matrix(own);
    const uint64_t a_high = hopper_matrix(own + 64 * SLICE);
    const uint64_t b = hopper_matrix(cols);
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        hopper_multiply(low, a + 2 * k, b + 2 * k, more + k);
        hopper_multiply(high, a_high + 2 * k, b + 2 * k, more + k);
    }
}

template <typename ACC>
__device__ __forceinline__ void multiply_last(int32_t steps, const unsigned char *own,
                                              const unsigned char *cols, int more, ACC (&low)[64],
                                              ACC (&high)[64])
{
    switch (steps) {
    case 1:
        multiply_slice<1>(own, cols, more, low, high);
        break;
    case 2:
        multiply_slice<2>(own, cols, more, low, high);
        break;
    case 3:
        multiply_slice<3>(own, cols, more, low, high);
        break;
    default:
        multiply_slice<4>(own, cols, more, low, high);
        break;
    }
}

/* 128 rows x 128 columns: two accumulators of 64 rows. Row and column slices were both brought for
 * this tile; they are given back as soon as they are multiplied, the last one by the caller. */
template <typename ACC>
__device__ __forceinline__ void
multiply_streamed(const params &p, shared_state *s, const unsigned char *ring, int32_t group,
                  int32_t lane, place *at, ACC (&low)[64], ACC (&high)[64])
{
    ring_place slice = at->slice;
    hopper_products_begin();
    for (int32_t i = 0; i < p.slices; i++) {
        const unsigned char *cols =
            ring + (size_t)slice.stage * (COL_SLICE_BYTES + ROW_SLICE_BYTES);
        const unsigned char *own = cols + COL_SLICE_BYTES + group * (ROW_SLICE_BYTES / GROUPS);
        hopper_barrier_wait(&s->full[slice.stage], slice.parity);
        if (i + 1 < p.slices) {
            multiply_slice<4>(own, cols, i, low, high);
        } else {
            multiply_last(p.last_steps, own, cols, i, low, high);
        }
        hopper_products_commit();
        if (i > 0) {
            hopper_products_wait<1>();
            if (lane == 0) {
                hopper_barrier_arrive(&s->empty[at->slice.stage]);
            }
            step(&at->slice, (uint32_t)p.stages);
        }
        step(&slice, (uint32_t)p.stages);
    }
}

/* The same with rows that stay: all slices are waited for first, so that the STEPS products follow
 * each other without a branch. */
template <int STEPS, typename ACC>
__device__ __forceinline__ void multiply_resident(const params &p, shared_state *s,
                                                  const unsigned char *rows,
                                                  const unsigned char *ring, int32_t group,
                                                  const place *at, ACC (&low)[64], ACC (&high)[64])
{
    const int SLICES = (STEPS + 3) / 4;
    const int TAIL = STEPS / TAIL_SHARE;
    uint64_t b[SLICES];
    ring_place slice = at->slice;
#pragma unroll
    for (int i = 0; i < SLICES; i++) {
        b[i] = hopper_matrix(ring + (size_t)slice.stage * COL_SLICE_BYTES);
        hopper_barrier_wait(&s->full[slice.stage], slice.parity);
        step(&slice, (uint32_t)p.stages);
    }
    const uint64_t a = hopper_matrix(rows + group * (ROW_SLICE_BYTES / GROUPS));
    const uint64_t next_slice = ROW_SLICE_BYTES >> 4;
    const uint64_t next_rows = (64 * SLICE) >> 4;
    hopper_products_begin();
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        const uint64_t own = a + (uint64_t)(k / 4) * next_slice + 2 * (k % 4);
        hopper_multiply(low, own, b[k / 4] + 2 * (k % 4), k);
        hopper_multiply(high, own + next_rows, b[k / 4] + 2 * (k % 4), k);
        if (k + 1 == STEPS - TAIL) {
            hopper_products_commit();
        }
    }
    hopper_products_commit();
    /* Two warpgroups' products that are in flight together would end together, and the tests of
     * both would run beside idle tensor cores: the turn goes on when most of ours are done. */
    hopper_products_wait<1>();
}

/* After the last product of a tile. */
__device__ __forceinline__ void give_back(const params &p, shared_state *s, int32_t slices,
                                          int32_t lane, place *at)
{
    for (int32_t i = 0; i < slices; i++) {
        if (lane == 0) {
            hopper_barrier_arrive(&s->empty[at->slice.stage]);
        }
        step(&at->slice, (uint32_t)p.stages);
    }
}

/* ---- The test ------------------------------------------------------------------------------- */

__device__ __forceinline__ float less_half(float product, float half)
{
    return __fsub_rn(product, half);
}

__device__ __forceinline__ int32_t less_half(int32_t product, int32_t half)
{
    return product - half;
}

__device__ __forceinline__ float word_of(kin_fused_word w, float)
{
    return w.f;
}

__device__ __forceinline__ int32_t word_of(kin_fused_word w, int32_t)
{
    return w.i;
}

__device__ __forceinline__ kin_fused_word to_word(float v)
{
    kin_fused_word w;
    w.f = v;
    return w;
}

__device__ __forceinline__ kin_fused_word to_word(int32_t v)
{
    kin_fused_word w;
    w.i = v;
    return w;
}

/* No accumulator holds a NaN (docs/numerics.md, "Error of a cost"), so a plain maximum keeps all.
 */
__device__ __forceinline__ float largest(float a, float b)
{
    return fmaxf(a, b);
}

__device__ __forceinline__ int32_t largest(int32_t a, int32_t b)
{
    return max(a, b);
}

__device__ __forceinline__ float smallest_of(float)
{
    return -INFINITY;
}

__device__ __forceinline__ int32_t smallest_of(int32_t)
{
    return INT32_MIN;
}

/* Halves of columns 8 j + 2 q, 8 j + 2 q + 1. */
template <typename ACC>
__device__ __forceinline__ void load_halves(const tile_facts *facts, int j, int32_t quarter,
                                            ACC *h0, ACC *h1)
{
    const uint2 both = *(const uint2 *)&facts->half[8 * j + 2 * quarter];
    kin_fused_word w;
    w.u = both.x;
    *h0 = word_of(w, *h0);
    w.u = both.y;
    *h1 = word_of(w, *h1);
}

/* a - b for a threshold: rounded down. */
__device__ __forceinline__ float subtract_down(float a, float b)
{
    return __fsub_rd(a, b);
}

__device__ __forceinline__ int32_t subtract_down(int32_t a, int32_t b)
{
    return a - b;
}

enum { GATES = KIN_FUSED_TILE / KIN_FUSED_GATE, GATE_STEPS = KIN_FUSED_GATE / 8 };

/* The thresholds of one row for a tile. */
template <typename ACC> struct row_test {
    ACC row;
    ACC col;
};

/* One threshold for both ends: v below it discards the pair for the row and for every column of the
 * gate. */
template <typename ACC>
__device__ __forceinline__ ACC threshold_of(row_test<ACC> test, const tile_facts *facts, int gate,
                                            bool two_sided)
{
    const ACC col = subtract_down(test.col, word_of(facts->worst.gate[gate], test.col));
    return two_sided && col < test.row ? col : test.row;
}

/* Entries below head become visible to the drain. */
__device__ __forceinline__ void publish(shared_state *s, int32_t warp, int32_t lane, place *at)
{
    __threadfence_block();
    __syncwarp();
    if (lane == 0) {
        volatile_store(&s->head[warp], at->head);
    }
}

/* One entry of each of `lanes` into the warp's ring, which is waited for while it is full. */
__device__ __forceinline__ void append(shared_state *s, int32_t warp, int32_t lane, uint32_t lanes,
                                       entry e, place *at)
{
    if (at->head - volatile_load(&s->tail[warp]) > RING - 32) {
        publish(s, warp, lane, at);
        while (at->head - volatile_load(&s->tail[warp]) > RING - 32) {
            __nanosleep(50);
        }
    }
    if ((lanes >> lane & 1) != 0) {
        s->rings[warp][(at->head + (uint32_t)__popc(lanes & ((1u << lane) - 1))) % RING] = e;
    }
    at->head += (uint32_t)__popc(lanes);
}

/* What passes, of 8 rows and the 32 columns of a gate: 8 products a lane. Hits are rare and mostly
 * alone, so lanes append one at a time. */
template <int HALF, int GATE, typename ACC>
__device__ __forceinline__ void log_hits(shared_state *s, const tile_facts *facts, int32_t warp,
                                         int32_t lane, uint32_t row, ACC threshold,
                                         const ACC (&acc)[64], place *at)
{
    ACC v[2 * GATE_STEPS];
    uint32_t mine = 0;
#pragma unroll
    for (int i = 0; i < GATE_STEPS; i++) {
        const int j = GATE * GATE_STEPS + i;
        ACC h[2];
        load_halves(facts, j, lane % 4, &h[0], &h[1]);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            v[2 * i + e] = less_half(acc[4 * j + 2 * HALF + e], h[e]);
            mine |= v[2 * i + e] >= threshold ? 1u << (2 * i + e) : 0u;
        }
    }
    const uint32_t col0 =
        facts->tile * KIN_FUSED_TILE + GATE * KIN_FUSED_GATE + 2 * (uint32_t)(lane % 4);
    for (;;) {
        const uint32_t lanes = __ballot_sync(0xffffffffu, mine != 0);
        if (lanes == 0) {
            return;
        }
        const uint32_t number = (uint32_t)__ffs((int)mine) - 1;
        ACC found = v[0];
#pragma unroll
        for (uint32_t i = 1; i < 2 * GATE_STEPS; i++) {
            found = number == i ? v[i] : found;
        }
        const entry e = {row, col0 + number / 2 * 8 + number % 2, to_word(found), 0};
        append(s, warp, lane, lanes, e, at);
        mine &= mine - 1;
    }
}

/* Which of a thread's four rows have a product that passes, by gate: bit 4 gate + row. */
template <typename ACC>
__device__ __forceinline__ uint32_t find_hits(const tile_facts *facts, int32_t lane, bool two_sided,
                                              const row_test<ACC> (&test)[4], const ACC (&low)[64],
                                              const ACC (&high)[64])
{
    uint32_t hits = 0;
#pragma unroll
    for (int g = 0; g < GATES; g++) {
        ACC most[4];
#pragma unroll
        for (int j = g * GATE_STEPS; j < (g + 1) * GATE_STEPS; j++) {
            ACC h[2];
            load_halves(facts, j, lane % 4, &h[0], &h[1]);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const ACC *acc = (i < 2 ? low : high) + 4 * j + i % 2 * 2;
                const ACC both = largest(less_half(acc[0], h[0]), less_half(acc[1], h[1]));
                most[i] = j == g * GATE_STEPS ? both : largest(most[i], both);
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            hits |= most[i] >= threshold_of(test[i], facts, g, two_sided) ? 1u << (4 * g + i) : 0u;
        }
    }
    return hits;
}

/* The four rows of a thread, within the 128 of its group: number 0 and 1 in `low`, 2 and 3 in
 * `high`. */
__device__ __forceinline__ uint32_t row_of(int32_t thread, int32_t number)
{
    return (uint32_t)(thread / 32 * 16 + thread % 32 / 4 + number % 2 * 8 + number / 2 * 64);
}

template <int GATE, typename ACC>
__device__ __forceinline__ void log_gate(shared_state *s, const tile_facts *facts, int32_t warp,
                                         int32_t thread, uint32_t row0, uint32_t hits,
                                         bool two_sided, const row_test<ACC> (&test)[4],
                                         const ACC (&low)[64], const ACC (&high)[64], place *at)
{
    const int32_t lane = thread % 32;
    const uint32_t own = hits >> (4 * GATE);
    if ((own & 1) != 0) {
        log_hits<0, GATE>(s, facts, warp, lane, row0 + row_of(thread, 0),
                          threshold_of(test[0], facts, GATE, two_sided), low, at);
    }
    if ((own & 2) != 0) {
        log_hits<1, GATE>(s, facts, warp, lane, row0 + row_of(thread, 1),
                          threshold_of(test[1], facts, GATE, two_sided), low, at);
    }
    if ((own & 4) != 0) {
        log_hits<0, GATE>(s, facts, warp, lane, row0 + row_of(thread, 2),
                          threshold_of(test[2], facts, GATE, two_sided), high, at);
    }
    if ((own & 8) != 0) {
        log_hits<1, GATE>(s, facts, warp, lane, row0 + row_of(thread, 3),
                          threshold_of(test[3], facts, GATE, two_sided), high, at);
    }
}

template <kin_fused_type TYPE, typename ACC>
__device__ __forceinline__ void test_tile(const params &p, shared_state *s, const tile_facts *facts,
                                          const kin_fused_unit &unit, int32_t group, int32_t thread,
                                          const ACC (&low)[64], const ACC (&high)[64], place *at)
{
    const int32_t lane = thread % 32;
    const int32_t warp = group * 4 + thread / 32;
    const bool two_sided = p.two_sided != 0;
    /* Of the four rows that a quad of threads shares each thread works out the thresholds of one.
     */
    const kin_gate_test mine =
        kin_gate_test_of<TYPE>(p.job.rows.frame.bound, p.eps,
                               s->rows[group * 128 + row_of(thread, lane % 4)], facts->worst);
    row_test<ACC> test[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        kin_fused_word w;
        w.u = __shfl_sync(0xffffffffu, mine.row.u, (lane & 28) + i);
        test[i].row = word_of(w, low[0]);
        w.u = __shfl_sync(0xffffffffu, mine.col.u, (lane & 28) + i);
        test[i].col = word_of(w, low[0]);
    }
    const uint32_t own = find_hits(facts, lane, two_sided, test, low, high);
    const uint32_t hits = __reduce_or_sync(0xffffffffu, own);
    if (hits == 0) {
        return;
    }
    const uint32_t row0 = unit.block * KIN_FUSED_BLOCK + (uint32_t)group * 128;
    log_gate<0>(s, facts, warp, thread, row0, hits, two_sided, test, low, high, at);
    log_gate<1>(s, facts, warp, thread, row0, hits, two_sided, test, low, high, at);
    log_gate<2>(s, facts, warp, thread, row0, hits, two_sided, test, low, high, at);
    log_gate<3>(s, facts, warp, thread, row0, hits, two_sided, test, low, high, at);
    publish(s, warp, lane, at);
}

/* ---- Costs as a matrix ---------------------------------------------------------------------- */

template <kin_fused_type TYPE, int HALF, typename ACC>
__device__ __forceinline__ void write_row(const params &p, const tile_facts *facts,
                                          const kin_fused_unit &unit, uint32_t row, int32_t lane,
                                          const ACC (&acc)[64])
{
    const kin_fused_screen &job = p.job;
    const bool real = row < (uint64_t)job.rows.points;
    const uint64_t tile = unit.first - (uint64_t)unit.block * job.tiles_a_block + facts->number;
    const kin_fused_word term = job.rows.facts[row].term;
    uint32_t least = UINT32_MAX;
    uint32_t *to = job.matrix + (uint64_t)row * (uint64_t)job.pitch + tile * KIN_FUSED_TILE;
#pragma unroll
    for (int j = 0; j < 16; j++) {
        ACC h[2];
        uint32_t order[2];
        load_halves(facts, j, lane % 4, &h[0], &h[1]);
        const uint32_t col = 8 * (uint32_t)j + 2 * (uint32_t)(lane % 4);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            order[e] = kin_fused_order_at<TYPE>(
                job, term, facts->tile * KIN_FUSED_TILE + col + (uint32_t)e,
                to_word(less_half(acc[4 * j + 2 * HALF + e], h[e])));
            least = min(least, order[e]);
        }
        if (real && job.matrix != NULL) {
            *(uint2 *)(to + col) = make_uint2(order[0], order[1]);
        }
    }
    if (job.minima != NULL) {
        least = min(least, __shfl_xor_sync(0xffffffffu, least, 1));
        least = min(least, __shfl_xor_sync(0xffffffffu, least, 2));
        if (real && lane % 4 == 0) {
            job.minima[(uint64_t)row * (uint64_t)(job.pitch / KIN_FUSED_TILE) + tile] = least;
        }
    }
}

template <kin_fused_type TYPE, typename ACC>
__device__ __forceinline__ void
write_tile(const params &p, const tile_facts *facts, const kin_fused_unit &unit, int32_t group,
           int32_t thread, const ACC (&low)[64], const ACC (&high)[64])
{
    const uint32_t row0 = unit.block * KIN_FUSED_BLOCK + (uint32_t)group * 128;
    const int32_t lane = thread % 32;
    write_row<TYPE, 0>(p, facts, unit, row0 + row_of(thread, 0), lane, low);
    write_row<TYPE, 1>(p, facts, unit, row0 + row_of(thread, 1), lane, low);
    write_row<TYPE, 0>(p, facts, unit, row0 + row_of(thread, 2), lane, high);
    write_row<TYPE, 1>(p, facts, unit, row0 + row_of(thread, 3), lane, high);
}

/* ---- The nearest column --------------------------------------------------------------------- */

template <kin_fused_type TYPE, int HALF, typename ACC>
__device__ __forceinline__ void offer_nearest(const params &p, const tile_facts *facts,
                                              uint32_t row, int32_t lane, const ACC (&acc)[64])
{
    const kin_fused_screen &job = p.job;
    ACC best = smallest_of(acc[0]);
    uint32_t col = 0;
#pragma unroll
    for (int j = 0; j < 16; j++) {
        ACC h[2];
        load_halves(facts, j, lane % 4, &h[0], &h[1]);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const ACC v = less_half(acc[4 * j + 2 * HALF + e], h[e]);
            col = v > best ? 8 * (uint32_t)j + (uint32_t)e : col;
            best = largest(best, v);
        }
    }
    const uint32_t position = facts->tile * KIN_FUSED_TILE + col + 2 * (uint32_t)(lane % 4);
    unsigned long long word = UINT64_MAX;
    if (row < (uint64_t)job.rows.points && position < (uint64_t)job.cols.points) {
        const uint32_t order =
            kin_fused_order_at<TYPE>(job, job.rows.facts[row].term, position, to_word(best));
        word = (unsigned long long)order << 32 | position;
    }
    word = min(word, __shfl_xor_sync(0xffffffffu, word, 1));
    word = min(word, __shfl_xor_sync(0xffffffffu, word, 2));
    if (lane % 4 == 0 && word != UINT64_MAX) {
        atomicMin((unsigned long long *)&job.nearest[row], word);
    }
}

template <kin_fused_type TYPE, typename ACC>
__device__ __forceinline__ void
nearest_tile(const params &p, const tile_facts *facts, const kin_fused_unit &unit, int32_t group,
             int32_t thread, const ACC (&low)[64], const ACC (&high)[64])
{
    const uint32_t row0 = unit.block * KIN_FUSED_BLOCK + (uint32_t)group * 128;
    const int32_t lane = thread % 32;
    offer_nearest<TYPE, 0>(p, facts, row0 + row_of(thread, 0), lane, low);
    offer_nearest<TYPE, 1>(p, facts, row0 + row_of(thread, 1), lane, low);
    offer_nearest<TYPE, 0>(p, facts, row0 + row_of(thread, 2), lane, high);
    offer_nearest<TYPE, 1>(p, facts, row0 + row_of(thread, 3), lane, high);
}

/* ---- The kernel ----------------------------------------------------------------------------- */

template <kin_fused_type TYPE, kin_fused_mode MODE, int STEPS, typename ACC>
__device__ void consume(const params &p, shared_state *s, const unsigned char *rows,
                        const unsigned char *ring, int32_t group, int32_t thread)
{
    const int32_t lane = thread % 32;
    place at = {{0, 0}, {0, 0}, 0};
    if (STEPS > 0 && group == 1) {
        hopper_turn_give(TURN_NAME);
    }
    for (uint32_t parity = 0;; parity ^= 1) {
        hopper_barrier_wait(&s->unit_full, parity);
        const kin_fused_unit unit = s->unit;
        if (unit.count == 0) {
            break;
        }
        if (MODE == KIN_FUSED_LISTS) {
            hopper_group_sync(GROUP_NAME + group); /* nobody reads the last unit's facts any more */
            s->rows[group * 128 + thread] =
                kin_gate_row_of(p.job.rows, p.job.row_lists,
                                unit.block * KIN_FUSED_BLOCK + (uint32_t)(group * 128 + thread));
            hopper_group_sync(GROUP_NAME + group);
        }
        for (uint32_t t = 0; t < unit.count; t++) {
            ACC low[64];
            ACC high[64];
            if constexpr (STEPS > 0) {
                hopper_turn_wait(TURN_NAME + group);
                multiply_resident<STEPS>(p, s, rows, ring, group, &at, low, high);
                hopper_turn_give(TURN_NAME + 1 - group);
            } else {
                multiply_streamed(p, s, ring, group, lane, &at, low, high);
            }
            hopper_products_wait<0>();
            give_back(p, s, STEPS > 0 ? p.slices : 1, lane, &at);
            if (lane == 0 && t + 1 == unit.count) {
                hopper_barrier_arrive(&s->unit_empty);
            }
            const tile_facts *facts = &s->tiles[at.tile.stage];
            if (MODE == KIN_FUSED_LISTS) {
                test_tile<TYPE>(p, s, facts, unit, group, thread, low, high, &at);
            } else if (MODE == KIN_FUSED_MATRIX) {
                write_tile<TYPE>(p, facts, unit, group, thread, low, high);
            } else {
                nearest_tile<TYPE>(p, facts, unit, group, thread, low, high);
            }
            __syncwarp();
            if (lane == 0) {
                hopper_barrier_arrive(&s->tile_empty[at.tile.stage]);
            }
            step(&at.tile, TILE_SLOTS);
        }
    }
    if (MODE == KIN_FUSED_LISTS && lane == 0) {
        __threadfence_block();
        atomicAdd(&s->finished, 1u);
    }
}

__device__ void make_barriers(const params &p, shared_state *s)
{
    for (int32_t i = 0; i < p.stages; i++) {
        hopper_barrier_make(&s->full[i], 1);
        hopper_barrier_make(&s->empty[i], TESTING_WARPS);
    }
    for (int32_t i = 0; i < TILE_SLOTS; i++) {
        hopper_barrier_make(&s->tile_empty[i], TESTING_WARPS);
    }
    hopper_barrier_make(&s->unit_full, 1);
    hopper_barrier_make(&s->unit_empty, TESTING_WARPS);
    for (int32_t i = 0; i < TESTING_WARPS; i++) {
        s->head[i] = 0;
        s->tail[i] = 0;
    }
    s->finished = 0;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Shared memory: state, rows (where they are resident), ring; both aligned to 1,024 bytes. */
__host__ __device__ static inline size_t rows_at(void)
{
    return (sizeof(shared_state) + 1023) / 1024 * 1024;
}

template <kin_fused_type TYPE, kin_fused_mode MODE, int STEPS, typename ACC>
static __global__ void __launch_bounds__(THREADS, 1)
    screen(const __grid_constant__ params p, const __grid_constant__ CUtensorMap row_map,
           const __grid_constant__ CUtensorMap col_map)
{
    extern __shared__ unsigned char raw[];
    unsigned char *base = raw + (1024 - hopper_shared(raw) % 1024) % 1024;
    shared_state *s = (shared_state *)base;
    unsigned char *rows = base + rows_at();
    unsigned char *ring = rows + (p.resident ? (size_t)p.slices * ROW_SLICE_BYTES : 0);
    const int32_t group = (int32_t)threadIdx.x / 128;
    if (threadIdx.x == 0) {
        make_barriers(p, s);
    }
    __syncthreads();
    if (group == GROUPS) {
        hopper_give_registers<OTHER_REGISTERS>();
        const int32_t warp = (int32_t)threadIdx.x / 32 - TESTING_WARPS;
        const int32_t lane = (int32_t)threadIdx.x % 32;
        if (warp == 0) {
            if (lane == 0) {
                produce<MODE == KIN_FUSED_LISTS>(p, &row_map, &col_map, s, rows, ring);
            }
        } else if (MODE == KIN_FUSED_LISTS) {
            drain<TYPE>(p, s, warp - 1, lane);
        }
    } else {
        hopper_take_registers<TESTING_REGISTERS>();
        consume<TYPE, MODE, STEPS, ACC>(p, s, rows, ring, group, (int32_t)threadIdx.x % 128);
    }
}

/* ---- Launch --------------------------------------------------------------------------------- */

typedef CUresult (*encode_fn)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                              const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                              const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                              CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* The driver's function, found at run time: the module is not linked with libcuda. */
static int find_encode(encode_fn *out)
{
    void *found = NULL;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    KIN_CUDA_TRY(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                                  cudaEnableDefault, &result));
    if (result != cudaDriverEntryPointSuccess || found == NULL) {
        return (int)cudaErrorSymbolNotFound;
    }
    *out = (encode_fn)found;
    return 0;
}

/* Rounded rows as bytes, in boxes of one slice x `rows` rows. */
static int make_map(encode_fn encode, const kin_fused_set *set, uint32_t rows, CUtensorMap *map)
{
    const cuuint64_t size[2] = {(cuuint64_t)set->frame.row_bytes, (cuuint64_t)set->padded};
    const cuuint64_t stride[1] = {(cuuint64_t)set->frame.row_bytes};
    const cuuint32_t box[2] = {SLICE, rows};
    const cuuint32_t steps[2] = {1, 1};
    const CUresult result =
        encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, (void *)set->rounded, size, stride, box,
               steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? 0 : (int)cudaErrorInvalidValue;
}

static int32_t count_stages(const params &p, int32_t shared_bytes)
{
    const int64_t rows = p.resident ? (int64_t)p.slices * ROW_SLICE_BYTES : 0;
    const int64_t slice = COL_SLICE_BYTES + (p.resident ? 0 : ROW_SLICE_BYTES);
    const int64_t fits = (shared_bytes - 1024 - (int64_t)rows_at() - rows) / slice;
    return fits < MOST_STAGES ? (int32_t)fits : (int32_t)MOST_STAGES;
}

/* STEPS: products of 32 bytes that a resident row takes, 0 where rows are streamed. */
static params make_params(const kin_fused_screen *job, int32_t steps, int32_t shared_bytes)
{
    const kin_fused_frame *frame = &job->rows.frame;
    params p = {*job, frame->row_bytes / SLICE, 0, 0, 0, job->col_lists.words != NULL, 0.0F};
    const int64_t used = (int64_t)frame->cols * (frame->type == KIN_FUSED_S8 ? 1 : 2);
    const int64_t last = used - (int64_t)(p.slices - 1) * SLICE;
    p.last_steps = (int32_t)((last + 31) / 32);
    p.resident = steps > 0;
    p.stages = count_stages(p, shared_bytes);
    if (frame->kappa > 0.0) {
        p.eps = nextafterf((float)(frame->kappa + 0x1p-20), INFINITY);
    }
    return p;
}

template <kin_fused_type TYPE, kin_fused_mode MODE, int STEPS, typename ACC>
static int launch(kin_gpu_stream *stream, const kin_fused_screen *job)
{
    encode_fn encode = NULL;
    CUtensorMap row_map;
    CUtensorMap col_map;
    const params p = make_params(job, STEPS, stream->shared_bytes);
    int error = find_encode(&encode);
    if (error == 0) {
        error = make_map(encode, &job->rows, KIN_FUSED_BLOCK, &row_map);
    }
    if (error == 0) {
        error = make_map(encode, &job->cols, KIN_FUSED_TILE, &col_map);
    }
    if (error != 0) {
        return error;
    }
    const size_t bytes =
        1024 + rows_at() + (p.resident ? (size_t)p.slices * ROW_SLICE_BYTES : 0) +
        (size_t)p.stages * (size_t)(COL_SLICE_BYTES + (p.resident ? 0 : ROW_SLICE_BYTES));
    KIN_CUDA_TRY(cudaFuncSetAttribute(screen<TYPE, MODE, STEPS, ACC>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    screen<TYPE, MODE, STEPS, ACC>
        <<<(unsigned)stream->processors, THREADS, bytes, stream->stream>>>(p, row_map, col_map);
    return kin_gpu_launched();
}

/* Bodies for rows of up to 128, 192, 256 and 384 bytes; all others are streamed. */
template <kin_fused_type TYPE, typename ACC>
static int launch_lists(kin_gpu_stream *stream, const kin_fused_screen *job)
{
    const kin_fused_frame *frame = &job->rows.frame;
    const int64_t used = (int64_t)frame->cols * (TYPE == KIN_FUSED_S8 ? 1 : 2);
    switch (frame->row_bytes / SLICE) {
    case 1:
        return launch<TYPE, KIN_FUSED_LISTS, 4, ACC>(stream, job);
    case 2:
        return used <= 192 ? launch<TYPE, KIN_FUSED_LISTS, 6, ACC>(stream, job)
                           : launch<TYPE, KIN_FUSED_LISTS, 8, ACC>(stream, job);
    case 3:
        return launch<TYPE, KIN_FUSED_LISTS, 12, ACC>(stream, job);
    default:
        return launch<TYPE, KIN_FUSED_LISTS, 0, ACC>(stream, job);
    }
}

template <kin_fused_type TYPE, typename ACC>
static int launch_mode(kin_gpu_stream *stream, const kin_fused_screen *job)
{
    switch (job->mode) {
    case KIN_FUSED_LISTS:
        return launch_lists<TYPE, ACC>(stream, job);
    case KIN_FUSED_MATRIX:
        return launch<TYPE, KIN_FUSED_MATRIX, 0, ACC>(stream, job);
    case KIN_FUSED_NEAREST:
        return launch<TYPE, KIN_FUSED_NEAREST, 0, ACC>(stream, job);
    }
    return (int)cudaErrorInvalidValue;
}

int kin_fused_screen_wgmma(kin_gpu_stream *stream, const kin_fused_screen *job)
{
    return job->rows.frame.type == KIN_FUSED_S8 ? launch_mode<KIN_FUSED_S8, int32_t>(stream, job)
                                                : launch_mode<KIN_FUSED_F16, float>(stream, job);
}
