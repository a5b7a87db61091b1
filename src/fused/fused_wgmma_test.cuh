/* SPDX-License-Identifier: Apache-2.0
 * The test of the Hopper screen, and what becomes of pairs that pass it: each testing warp writes
 * them to a ring of its own in shared memory; drain warps make the precise test and push
 * candidates, so that the latency of global memory and its atomics is not the tensor cores'.
 *
 * A ring has one writer and one reader. Entries below head are complete (the writer fences before
 * it moves head); entries below tail may be written over.
 */
#ifndef KIN_FUSED_WGMMA_TEST_CUH
#define KIN_FUSED_WGMMA_TEST_CUH

#include "fused/fused_directed.h"
#include "fused/fused_wgmma_block.cuh"

/* a - b for a threshold: rounded down. */
static __device__ __forceinline__ float subtract_down(float a, float b)
{
    return kin_down_sub(a, b);
}

static __device__ __forceinline__ int32_t subtract_down(int32_t a, int32_t b)
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
static __device__ __forceinline__ ACC threshold_of(row_test<ACC> test, const tile_facts *facts,
                                                   int gate, bool two_sided)
{
    const ACC col = subtract_down(test.col, word_of(facts->worst.gate[gate], test.col));
    return two_sided && col < test.row ? col : test.row;
}

/* Entries below head become visible to the drain. */
static __device__ __forceinline__ void publish(shared_state *s, int32_t warp, int32_t lane,
                                               place *at)
{
    __threadfence_block();
    __syncwarp();
    if (lane == 0) {
        volatile_store(&s->head[warp], at->head);
    }
}

/* One entry of each of `lanes` into the warp's ring, which is waited for while it is full. */
template <int RING>
static __device__ __forceinline__ void append(shared_state *s, int32_t warp, int32_t lane,
                                              uint32_t lanes, entry e, place *at)
{
    if (at->head - at->tail > RING - 32) {
        publish(s, warp, lane, at); /* the drain cannot empty what it does not see */
        do {                        /* all lanes go by what the first one sees */
            at->tail = __shfl_sync(0xffffffffu, volatile_load(&s->tail[warp]), 0);
        } while (at->head - at->tail > RING - 32);
    }
    if ((lanes >> lane & 1) != 0) {
        s->rings[warp * RING + (at->head + (uint32_t)__popc(lanes & ((1u << lane) - 1))) % RING] =
            e;
    }
    at->head += (uint32_t)__popc(lanes);
}

/* What passes, of 8 rows and the 32 columns of a gate: 8 products a lane. Hits are rare and mostly
 * alone, so lanes append one at a time. With STARTS entries have v + shift or more (own_v). */
template <int HALF, int GATE, bool STARTS, typename ACC>
static __device__ __forceinline__ void log_hits(shared_state *s, const tile_facts *facts,
                                                int32_t warp, int32_t lane, uint32_t row,
                                                ACC threshold, const ACC (&acc)[64], place *at)
{
    ACC v[2 * GATE_STEPS];
    uint32_t mine = 0;
#pragma unroll
    for (int i = 0; i < GATE_STEPS; i++) {
        const int j = GATE * GATE_STEPS + i;
        ACC h[2] = {0, 0};
        if (!STARTS) {
            load_halves(facts, j, lane % 4, &h[0], &h[1]);
        }
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const ACC product = acc[4 * j + 2 * HALF + e];
            v[2 * i + e] = STARTS ? product : less_half(product, h[e]);
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
        append<shape<STARTS>::RING>(s, warp, lane, lanes, e, at);
        mine &= mine - 1;
    }
}

/* Which of a thread's four rows have a product that passes, by gate: bit 4 gate + row. */
template <typename ACC>
static __device__ __forceinline__ uint32_t find_hits(const tile_facts *facts, int32_t lane,
                                                     bool two_sided, const row_test<ACC> (&test)[4],
                                                     const ACC (&low)[64], const ACC (&high)[64])
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

template <int GATE, typename ACC>
static __device__ __forceinline__ void
log_gate(shared_state *s, const tile_facts *facts, int32_t warp, int32_t thread, uint32_t row0,
         uint32_t hits, bool two_sided, const row_test<ACC> (&test)[4], const ACC (&low)[64],
         const ACC (&high)[64], place *at)
{
    const int32_t lane = thread % 32;
    const uint32_t own = hits >> (4 * GATE);
    if ((own & 1) != 0) {
        log_hits<0, GATE, false>(s, facts, warp, lane, row0 + row_of(thread, 0),
                                 threshold_of(test[0], facts, GATE, two_sided), low, at);
    }
    if ((own & 2) != 0) {
        log_hits<1, GATE, false>(s, facts, warp, lane, row0 + row_of(thread, 1),
                                 threshold_of(test[1], facts, GATE, two_sided), low, at);
    }
    if ((own & 4) != 0) {
        log_hits<0, GATE, false>(s, facts, warp, lane, row0 + row_of(thread, 2),
                                 threshold_of(test[2], facts, GATE, two_sided), high, at);
    }
    if ((own & 8) != 0) {
        log_hits<1, GATE, false>(s, facts, warp, lane, row0 + row_of(thread, 3),
                                 threshold_of(test[3], facts, GATE, two_sided), high, at);
    }
}

template <kin_fused_type TYPE, typename ACC>
static __device__ __forceinline__ void
test_tile(const params &p, shared_state *s, const tile_facts *facts, const kin_fused_unit &unit,
          int32_t group, int32_t thread, const ACC (&low)[64], const ACC (&high)[64], place *at)
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

/* ---- Draining ------------------------------------------------------------ */

/* What a drain warp takes at once: up to 32 entries of its rings, a lane each. */
template <int WARPS> struct handful {
    enum { RINGS = (WARPS + DRAIN_WARPS - 1) / DRAIN_WARPS };
    uint32_t tail[RINGS];
    uint32_t taken[RINGS];
    uint32_t count;
};

template <int WARPS>
static __device__ __forceinline__ handful<WARPS> look_into_rings(shared_state *s, int32_t warp)
{
    handful<WARPS> h = {{0}, {0}, 0};
#pragma unroll
    for (int i = 0; i < handful<WARPS>::RINGS; i++) {
        const int32_t ring = warp + i * DRAIN_WARPS;
        if (ring < WARPS) {
            h.tail[i] = s->tail[ring]; /* moved by this warp alone */
            const uint32_t head = __shfl_sync(0xffffffffu, volatile_load(&s->head[ring]), 0);
            h.taken[i] = min(head - h.tail[i], 32 - h.count);
            h.count += h.taken[i];
        }
    }
    return h;
}

/* v of an entry whose product had a start. */
static __device__ __forceinline__ kin_fused_word own_v(const kin_fused_set &cols, const entry &e)
{
    const int32_t half = cols.half[e.col].i;
    kin_fused_word v;
    v.u = e.v.u - (uint32_t)kin_start_of(cols.start_shift, half) - (uint32_t)half;
    return v;
}

template <kin_fused_type TYPE, bool STARTS>
static __device__ __forceinline__ void offer_handful(const params &p, const shared_state *s,
                                                     const handful<shape<STARTS>::WARPS> &h,
                                                     int32_t warp, int32_t lane)
{
    const int32_t RING = shape<STARTS>::RING;
    const entry *own = NULL;
    uint32_t before = 0;
#pragma unroll
    for (int i = 0; i < handful<shape<STARTS>::WARPS>::RINGS; i++) {
        const uint32_t number = (uint32_t)lane - before;
        before += h.taken[i];
        if (number < h.taken[i]) {
            own = &s->rings[(warp + i * DRAIN_WARPS) * RING + (h.tail[i] + number) % RING];
        }
    }
    const entry e = own != NULL ? *own : entry{};
    const kin_fused_word v = STARTS && own != NULL ? own_v(p.job.cols, e) : e.v;
    kin_fused_offer<TYPE>(p.job, own != NULL, e.row, e.col, v);
}

/* Entries wait for global memory here, so a handful comes from all rings of the warp. */
template <kin_fused_type TYPE, bool STARTS>
static __device__ void drain(const params &p, shared_state *s, int32_t warp, int32_t lane)
{
    const int32_t WARPS = shape<STARTS>::WARPS;
    for (;;) {
        const uint32_t finished = __shfl_sync(0xffffffffu, volatile_load(&s->finished), 0);
        __threadfence_block(); /* what was written before `finished` is seen below */
        const handful<WARPS> h = look_into_rings<WARPS>(s, warp);
        if (h.count == 0 && finished == WARPS) {
            return;
        }
        if (h.count == 0) {
            __nanosleep(200);
            continue;
        }
        __threadfence_block(); /* entries below head are complete */
        offer_handful<TYPE, STARTS>(p, s, h, warp, lane);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < handful<WARPS>::RINGS; i++) {
            if (lane == 0 && h.taken[i] > 0) {
                volatile_store(&s->tail[warp + i * DRAIN_WARPS], h.tail[i] + h.taken[i]);
            }
        }
        __syncwarp();
    }
}

#endif
