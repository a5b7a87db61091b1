/* SPDX-License-Identifier: Apache-2.0
 * Bytes whose pairs go to lists: four groups have 64 rows each and wait for no turn: while one
 * multiplies, the others test. Where rows stay, starts of columns are bytes of the product
 * (screen_start.h): accumulators are compared as they are, three at a time in one instruction, and
 * thresholds of a row are the same for all tiles, by the worst of all columns (kin_gate_make_even).
 */
#ifndef KIN_SCREEN_WGMMA_BYTES_CUH
#define KIN_SCREEN_WGMMA_BYTES_CUH

#include "screen/screen_wgmma_multiply.cuh"
#include "screen/screen_wgmma_test.cuh"

/* Under way. */
template <typename BODY, int STEPS>
static __device__ __forceinline__ void
multiply_started(const params &p, shared_state *s, const unsigned char *rows,
                 const unsigned char *ring, int32_t group, const place *at, int32_t (&acc)[64])
{
    uint64_t b[slices_of<STEPS>];
    wait_for_slices<slices_of<STEPS>>(p, s, ring, at, b);
    const uint64_t of_rows = hopper_blocks((const unsigned char *)s + starts_at());
    const uint64_t of_cols =
        hopper_blocks(ring + (size_t)at->slice.stage * (uint32_t)p.stage_bytes + COL_SLICE_BYTES);
    const uint64_t a = hopper_matrix(rows + group * BODY::ROWS * SLICE);
    const uint64_t next_slice = ROW_SLICE_BYTES >> 4;
    hopper_products_begin();
#pragma unroll
    for (int step = 0; step <= STEPS; step++) { /* the first one is of the starts */
        const int k = step == 0 ? 0 : step - 1;
        const uint64_t own = a + (uint64_t)(k / 4) * next_slice + 2 * (k % 4);
        hopper_multiply(acc, step == 0 ? of_rows : own,
                        step == 0 ? of_cols : b[k / 4] + 2 * (k % 4), step);
    }
    hopper_products_commit();
}

/* A threshold for products with starts. Above 2^30 nothing passes, nor does it so. */
static __device__ __forceinline__ int32_t started(int32_t threshold, int32_t shift)
{
    return min(threshold, 1 << 30) + shift;
}

/* The same thresholds for all tiles of a unit. */
static __device__ __forceinline__ kin_gate_test started_test(const params &p,
                                                             const kin_gate_row &row)
{
    kin_gate_test even = kin_gate_make_even(p.job.rows.frame.bound, row, p.job.cols.worst);
    even.row.i = started(even.row.i, p.job.cols.start_shift);
    even.col.i = started(even.col.i, p.job.cols.start_shift);
    return even;
}

/* The largest product of each of a thread's two rows with the columns of each gate. */
static __device__ __forceinline__ row_most<int32_t, 2> most_started(const int32_t (&acc)[64])
{
    row_most<int32_t, 2> most;
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
        for (int j = 0; j < GATES * GATE_STEPS; j++) {
            const int32_t *pair = acc + 4 * j + 2 * i;
            int32_t *of = &most.of[i][j / GATE_STEPS];
            *of = j % GATE_STEPS == 0 ? largest(pair[0], pair[1]) : largest(pair[0], pair[1], *of);
        }
    }
    return most;
}

/* The rows of a thread in a unit: each thread of a quad works out the thresholds of one, in `mine`
 * where each tile has its own, else once. */
typedef struct row_pair {
    kin_gate_row mine;
    row_test<int32_t> test[2];
} row_pair;

template <typename BODY>
static __device__ __forceinline__ row_pair rows_of_unit(const params &p, uint32_t row0,
                                                        int32_t thread)
{
    const int32_t lane = thread % 32;
    row_pair pair;
    pair.mine = kin_gate_row_of(p.job.rows, p.job.row_lists, row0 + row_of(thread, lane % 2));
    if (BODY::STARTS) {
        share_tests(started_test(p, pair.mine), lane, p.two_sided != 0, pair.test);
    }
    return pair;
}

/* A group's products with a tile, complete, its slices given back; and its test. */
template <typename BODY, int STEPS>
static __device__ __forceinline__ void consume_tile(const params &p, const unsigned char *rows,
                                                    const unsigned char *ring, int32_t group,
                                                    const testing &t, row_pair &pair)
{
    const int32_t lane = t.thread % 32;
    int32_t acc[64];
    int32_t gate[GATES];
    if constexpr (BODY::STARTS) {
        multiply_started<BODY, STEPS>(p, t.s, rows, ring, group, t.at, acc);
        load_gates(t.facts, lane, gate);
        hopper_products_wait<0>();
        hopper_products_settle(acc);
        give_back<slices_of<STEPS>>(p, t.s, lane, t.at);
        log_tile<BODY>(t, gate, pair.test, most_started(acc), acc, acc);
    } else {
        multiply_streamed<BODY>(p, t.s, ring, group, lane, t.at, acc);
        load_gates(t.facts, lane, gate);
        share_tests(
            kin_gate_test_of<BODY::TYPE>(p.job.rows.frame.bound, p.eps, pair.mine, t.facts->worst),
            lane, t.two_sided, pair.test);
        hopper_products_wait<0>();
        hopper_products_settle(acc);
        give_back<1>(p, t.s, lane, t.at);
        log_tile<BODY>(t, gate, pair.test, most_of<2>(t.facts, lane, acc, acc), acc, acc);
    }
}

template <typename BODY, int STEPS>
static __device__ void consume_bytes(const params &p, shared_state *s, const unsigned char *rows,
                                     const unsigned char *ring, int32_t group, int32_t thread)
{
    const int32_t lane = thread % 32;
    place at = {{0, 0}, {0, 0}, 0, 0};
    for (uint32_t parity = 0;; parity ^= 1) {
        hopper_barrier_wait(&s->unit_full, parity);
        const kin_screen_gpu_unit unit = s->unit;
        if (unit.count == 0) {
            break;
        }
        __syncwarp();                     /* all lanes have read it */
        if (!BODY::STARTS && lane == 0) { /* slices of the next unit may come at once */
            hopper_barrier_arrive(&s->unit_empty);
        }
        const uint32_t row0 = unit.block * KIN_SCREEN_GPU_BLOCK + (uint32_t)(group * BODY::ROWS);
        row_pair pair = rows_of_unit<BODY>(p, row0, thread);
        for (uint32_t t = 0; t < unit.count; t++) {
            const testing here = {s,
                                  facts_of(s, at.tile),
                                  &at,
                                  row0,
                                  group * 4 + thread / 32,
                                  thread,
                                  p.two_sided != 0,
                                  p.job.passed.pairs != NULL};
            consume_tile<BODY, STEPS>(p, rows, ring, group, here, pair);
            __syncwarp();
            if (lane == 0) {
                hopper_barrier_arrive(&s->tile_empty[at.tile.stage]);
            }
            step(&at.tile, tile_slots<STEPS>);
        }
        if (BODY::STARTS && lane == 0) { /* rows are read until the last products are done */
            hopper_barrier_arrive(&s->unit_empty);
        }
    }
    if (lane == 0) {
        __threadfence_block();
        atomicAdd(&s->finished, 1u);
    }
}

#endif
