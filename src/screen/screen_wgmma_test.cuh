/* SPDX-License-Identifier: Apache-2.0
 * The test of the Hopper screen, and what becomes of pairs that pass it. A thread whose products of
 * a row with the columns of a gate have one that passes asks each column's own gate, and writes
 * what is left, a burst, to its warp's ring in shared memory. Drain warps make the precise test and
 * push candidates, or pairs of shadows that wait for a look, so that the tensor cores do not wait
 * for global memory and its atomics.
 *
 * A ring has one writer and one reader. Bursts below head are complete (the writer fences before it
 * moves head); bursts below tail may be written over.
 */
#ifndef KIN_SCREEN_WGMMA_TEST_CUH
#define KIN_SCREEN_WGMMA_TEST_CUH

#include "screen/screen_directed.h"
#include "screen/screen_wgmma_block.cuh"

/* a - b for a threshold: rounded down. */
static __device__ __forceinline__ float subtract_down(float a, float b)
{
    return kin_down_sub(a, b);
}

static __device__ __forceinline__ int32_t subtract_down(int32_t a, int32_t b)
{
    return a - b;
}

/* Of a thread: one of each 32 columns, its products with which are eight apart. */
enum { GATES = KIN_SCREEN_GPU_TILE / KIN_SCREEN_GPU_QUAD, GATE_STEPS = KIN_SCREEN_GPU_QUAD / 8 };

/* The thresholds of one row for a tile. */
template <typename ACC> struct row_test {
    ACC row;
    ACC col;
};

/* The gates of a thread: v below a row's threshold, and with a gate below that for the columns'
 * sake, discards the pair for the row and for every column of the gate. */
template <typename ACC>
static __device__ __forceinline__ void load_gates(const tile_facts *facts, int32_t lane,
                                                  ACC (&gate)[GATES])
{
    static_assert(GATES == 4, "four words");
    const uint4 words = *(const uint4 *)(facts->worst.gate + lane % 4 * GATES);
    const uint32_t word[GATES] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int g = 0; g < GATES; g++) {
        kin_screen_gpu_word w;
        w.u = word[g];
        gate[g] = word_of(w, gate[g]);
    }
}

/* A warp at a tile. */
typedef struct testing {
    shared_state *s;
    const tile_facts *facts;
    place *at;
    uint32_t row0; /* of its group */
    int32_t warp;
    int32_t thread; /* of the group */
    bool two_sided;
    bool defers; /* pairs wait for a look */
} testing;

/* Of this block; lighter than __threadfence_block, which is sequentially consistent. */
static __device__ __forceinline__ void publish_fence(void)
{
    asm volatile("fence.acq_rel.cta;" ::: "memory");
}

/* Bursts below head become visible to the drain. */
static __device__ __forceinline__ void publish(const testing &t)
{
    publish_fence();
    __syncwarp();
    if (t.thread % 32 == 0) {
        volatile_store(&t.s->head[t.warp], t.at->head);
    }
}

/* Until as many bursts fit. */
template <typename BODY>
static __device__ __forceinline__ void wait_for_room(const testing &t, uint32_t bursts)
{
    if (t.at->head + bursts - t.at->tail > BODY::RING) {
        publish(t); /* the drain cannot empty what it does not see */
        do {        /* all lanes go by what the first one sees */
            t.at->tail = __shfl_sync(0xffffffffu, volatile_load(&t.s->tail[t.warp]), 0);
        } while (t.at->head + bursts - t.at->tail > BODY::RING);
    }
}

/* A thread's products of one of its rows with the columns of a gate, and the row's thresholds. */
template <typename ACC> struct gate_products {
    ACC v[BURST];
    row_test<ACC> test;
};

/* Which of them pass, by the gates of their own columns. */
template <typename BODY, typename ACC>
static __device__ __forceinline__ uint32_t find_passing(const testing &t, int32_t gate,
                                                        const gate_products<ACC> &products)
{
    const int32_t quarter = t.thread % 4;
    uint32_t found = 0;
#pragma unroll
    for (int pair = 0; pair < BURST / 2; pair++) {
        const int32_t j = gate * GATE_STEPS + pair;
        ACC half[2] = {0, 0};
        ACC gates[2] = {0, 0};
        if (!BODY::STARTS) {
            load_two(t.facts->half, j, quarter, half);
        }
        if (t.two_sided) {
            load_two(t.facts->gates, j, quarter, gates);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const ACC v = products.v[2 * pair + i];
            const ACC col = subtract_down(products.test.col, gates[i]);
            const ACC least = col < products.test.row ? col : products.test.row;
            found |=
                (BODY::STARTS ? v : less_half(v, half[i])) >= least ? 1u << (2 * pair + i) : 0u;
        }
    }
    return found;
}

/* What passes of a gate's products of a row of each lane that `has` some. All lanes come; number:
 * of the row among the thread's. */
template <typename BODY, typename ACC>
static __device__ __forceinline__ void log_burst(const testing &t, bool has, int32_t gate,
                                                 int32_t number, const gate_products<ACC> &products)
{
    const uint32_t found = has ? find_passing<BODY>(t, gate, products) : 0;
    const uint32_t lanes = __ballot_sync(0xffffffffu, found != 0);
    const uint32_t lane = (uint32_t)t.thread % 32;
    if (lanes == 0) {
        return;
    }
    const uint32_t bursts = (uint32_t)__popc(lanes);
    wait_for_room<BODY>(t, bursts);
    if (found != 0) {
        const uint32_t at = t.at->head + (uint32_t)__popc(lanes & ((1u << lane) - 1));
        const uint32_t col = t.facts->tile * KIN_SCREEN_GPU_TILE +
                             (uint32_t)gate * KIN_SCREEN_GPU_QUAD + 2 * (lane % 4);
        *(uint4 *)burst_at<BODY>(t.s, t.warp, at) =
            make_uint4(t.row0 + row_of(t.thread, number), col, found, 0);
        uint4 *to = (uint4 *)products_of<BODY>(t.s, t.warp, at);
#pragma unroll
        for (int i = 0; i < 2 && !t.defers; i++) {
            const ACC *v = products.v + 4 * i;
            to[i] = make_uint4(to_word(v[0]).u, to_word(v[1]).u, to_word(v[2]).u, to_word(v[3]).u);
        }
    }
    t.at->head += bursts;
}

/* hits: of the warp, own: of the thread. */
template <typename BODY, typename ACC, int ROWS>
static __device__ __forceinline__ void log_hits(const testing &t, uint32_t hits, uint32_t own,
                                                const row_test<ACC> (&test)[ROWS],
                                                const ACC (&low)[64], const ACC (&high)[64])
{
#pragma unroll
    for (int hit = 0; hit < ROWS * GATES; hit++) {
        if ((hits >> hit & 1) == 0) {
            continue;
        }
        const int gate = hit / ROWS;
        const int row = hit % ROWS;
        const ACC(&acc)[64] = row < 2 ? low : high;
        gate_products<ACC> products;
        products.test = test[row];
#pragma unroll
        for (int i = 0; i < BURST; i++) {
            products.v[i] = acc[4 * (gate * GATE_STEPS + i / 2) + 2 * (row % 2) + i % 2];
        }
        log_burst<BODY>(t, (own >> hit & 1) != 0, gate, row, products);
    }
    publish(t);
}

/* The largest product of each of a thread's rows with the columns of each gate, less their halves.
 */
template <typename ACC, int ROWS> struct row_most {
    ACC of[ROWS][GATES];
};

template <int ROWS, typename ACC>
static __device__ __forceinline__ row_most<ACC, ROWS>
most_of(const tile_facts *facts, int32_t lane, const ACC (&low)[64], const ACC (&high)[64])
{
    row_most<ACC, ROWS> most;
#pragma unroll
    for (int j = 0; j < GATES * GATE_STEPS; j++) {
        ACC h[2] = {0, 0};
        load_two(facts->half, j, lane % 4, h);
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const ACC *acc = (i < 2 ? low : high) + 4 * j + i % 2 * 2;
            ACC *of = &most.of[i][j / GATE_STEPS];
            *of = j % GATE_STEPS == 0 ? less_half(acc[0], h[0]) : largest_less(acc[0], h[0], *of);
            *of = largest_less(acc[1], h[1], *of);
        }
    }
    return most;
}

/* Whether a product passes at all: what most tiles are asked alone. */
template <typename ACC, int ROWS>
static __device__ __forceinline__ bool passes_any(const ACC (&gate)[GATES],
                                                  const row_test<ACC> (&test)[ROWS],
                                                  const row_most<ACC, ROWS> &most)
{
    bool any = false;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        const ACC(&of)[GATES] = most.of[i];
        ACC with_gate = smallest_of(of[0]);
#pragma unroll
        for (int g = 0; g < GATES; g++) {
            with_gate = largest_more(of[g], gate[g], with_gate);
        }
        any |= largest(largest(of[0], of[1], of[2]), of[3]) >= test[i].row;
        any |= with_gate >= test[i].col;
    }
    return any;
}

/* Which of a thread's rows have a product that passes, by gate: bit ROWS gate + row. */
template <typename ACC, int ROWS>
static __device__ __forceinline__ uint32_t find_hits(const ACC (&gate)[GATES],
                                                     const row_test<ACC> (&test)[ROWS],
                                                     const row_most<ACC, ROWS> &most)
{
    uint32_t hits = 0;
#pragma unroll
    for (int g = 0; g < GATES; g++) {
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const ACC v = most.of[i][g];
            const bool passes =
                v >= test[i].row || largest_more(v, gate[g], smallest_of(v)) >= test[i].col;
            hits |= passes ? 1u << (ROWS * g + i) : 0u;
        }
    }
    return hits;
}

/* Thresholds of the rows that a quad of threads shares; `mine` are those of row lane % ROWS. */
template <typename ACC, int ROWS>
static __device__ __forceinline__ void share_tests(const kin_gate_test &mine, int32_t lane,
                                                   bool two_sided, row_test<ACC> (&test)[ROWS])
{
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        kin_screen_gpu_word w;
        w.u = __shfl_sync(0xffffffffu, mine.row.u, (lane & 28) + i);
        test[i].row = word_of(w, test[i].row);
        w.u = __shfl_sync(0xffffffffu, mine.col.u, (lane & 28) + i);
        test[i].col = two_sided ? word_of(w, test[i].col) : beyond_all(test[i].col);
    }
}

/* What passes of a tile, whose gates are those. */
template <typename BODY, typename ACC, int ROWS>
static __device__ __forceinline__ void
log_tile(const testing &t, const ACC (&gate)[GATES], const row_test<ACC> (&test)[ROWS],
         const row_most<ACC, ROWS> &most, const ACC (&low)[64], const ACC (&high)[64])
{
    if (__any_sync(0xffffffffu, passes_any(gate, test, most))) {
        const uint32_t own = find_hits(gate, test, most);
        const uint32_t hits = __reduce_or_sync(0xffffffffu, own);
        log_hits<BODY>(t, hits, own, test, low, high);
    }
}

template <typename BODY, typename ACC>
static __device__ __forceinline__ void test_tile(const params &p, const testing &t, int32_t group,
                                                 const ACC (&low)[64], const ACC (&high)[64])
{
    const int32_t lane = t.thread % 32;
    row_test<ACC> test[4];
    share_tests(kin_gate_test_of<BODY::TYPE>(p.job.rows.frame.bound, p.eps,
                                             t.s->rows[group * 128 + row_of(t.thread, lane % 4)],
                                             t.facts->worst),
                lane, t.two_sided, test);
    ACC gate[GATES];
    load_gates(t.facts, lane, gate);
    log_tile<BODY>(t, gate, test, most_of<4>(t.facts, lane, low, high), low, high);
}

/* ---- Draining ------------------------------------------------------------ */

/* What a drain warp takes at once: up to 32 bursts of its rings, a lane each. */
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

/* A lane's; none passing: it has none. */
typedef struct taken_burst {
    burst b;
    const burst_products *products;
} taken_burst;

/* Where a product of a burst came from, and its v. */
typedef struct found_pair {
    uint32_t col;
    kin_screen_gpu_word v;
} found_pair;

template <typename BODY>
static __device__ __forceinline__ found_pair pair_of(const params &p, const taken_burst &own,
                                                     int32_t i)
{
    found_pair pair = {own.b.col + (uint32_t)(i / 2 * 8 + i % 2), own.products->v[i]};
    const kin_screen_gpu_word half = p.job.cols.half[pair.col];
    if (BODY::STARTS) {
        pair.v.u -= (uint32_t)kin_start_of(p.job.cols.start_shift, half.i) + (uint32_t)half.i;
    } else if (BODY::TYPE == KIN_SCREEN_GPU_S8) {
        pair.v.i -= half.i;
    } else {
        pair.v.f = less_half(pair.v.f, half.f);
    }
    return pair;
}

/* Pairs of shadows wait for the look, all that a handful has side by side. */
static __device__ __forceinline__ void defer_bursts(const params &p, const burst &own)
{
    uint64_t at = kin_screen_gpu_reserve(p.job.passed, (uint32_t)__popc(own.passing));
    for (uint32_t left = own.passing; left != 0; left &= left - 1, at++) {
        const int32_t i = __ffs((int)left) - 1;
        kin_screen_gpu_defer(p.job, at, own.row, own.col + (uint32_t)(i / 2 * 8 + i % 2));
    }
}

template <typename BODY>
static __device__ __forceinline__ void grant_bursts(const params &p, const taken_burst &own)
{
    for (uint32_t left = own.b.passing; left != 0; left &= left - 1) {
        const found_pair pair = pair_of<BODY>(p, own, __ffs((int)left) - 1);
        kin_screen_gpu_grant(p.job, own.b.row, pair.col,
                             kin_screen_gpu_test<BODY::TYPE>(p.job, own.b.row, pair.col, pair.v));
    }
}

template <typename BODY>
static __device__ __forceinline__ void offer_handful(const params &p, shared_state *s,
                                                     const handful<BODY::WARPS> &h, int32_t warp,
                                                     int32_t lane)
{
    taken_burst own = {{0, 0, 0, 0}, NULL};
    uint32_t before = 0;
#pragma unroll
    for (int i = 0; i < handful<BODY::WARPS>::RINGS; i++) {
        const uint32_t number = (uint32_t)lane - before;
        const int32_t ring = warp + i * DRAIN_WARPS;
        before += h.taken[i];
        if (number < h.taken[i]) {
            own.b = *burst_at<BODY>(s, ring, h.tail[i] + number);
            own.products = products_of<BODY>(s, ring, h.tail[i] + number);
        }
    }
    if (p.job.passed.pairs != NULL) {
        defer_bursts(p, own.b);
    } else {
        grant_bursts<BODY>(p, own);
    }
}

/* Bursts wait for global memory here, so a handful comes from all rings of the warp. */
template <typename BODY>
static __device__ void drain(const params &p, shared_state *s, int32_t warp, int32_t lane)
{
    const int32_t WARPS = BODY::WARPS;
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
        __threadfence_block(); /* bursts below head are complete */
        offer_handful<BODY>(p, s, h, warp, lane);
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
