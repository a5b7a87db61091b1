/* SPDX-License-Identifier: Apache-2.0
 * Rows of bytes that stay, against columns whose starts are bytes of the product (screen_start.h):
 * accumulators are compared as they are, three at a time in one instruction. Four groups have 64
 * rows each and wait for no turn: while one multiplies, the others test. Thresholds of a row are
 * the same for all tiles, by the worst of all columns (kin_gate_make_even).
 */
#ifndef KIN_SCREEN_WGMMA_START_CUH
#define KIN_SCREEN_WGMMA_START_CUH

#include "screen/screen_wgmma_multiply.cuh"
#include "screen/screen_wgmma_test.cuh"

enum { STARTED_ROWS = shape<true>::ROWS };

/* Under way. */
template <int STEPS>
static __device__ __forceinline__ void
multiply_started(const params &p, shared_state *s, const unsigned char *rows,
                 const unsigned char *ring, int32_t group, const place *at, int32_t (&acc)[64])
{
    uint64_t b[slices_of<STEPS>];
    wait_for_slices<slices_of<STEPS>>(p, s, ring, at, b);
    const uint64_t of_rows = hopper_blocks((const unsigned char *)s + starts_at());
    const uint64_t of_cols =
        hopper_blocks(ring + (size_t)at->slice.stage * (uint32_t)p.stage_bytes + COL_SLICE_BYTES);
    const uint64_t a = hopper_matrix(rows + group * STARTED_ROWS * SLICE);
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

/* Of a thread's two rows, for all tiles of a unit; each thread of a quad works out those of one. */
static __device__ __forceinline__ void started_tests(const params &p, uint32_t row0, int32_t thread,
                                                     row_test<int32_t> (&test)[2])
{
    const int32_t lane = thread % 32;
    const kin_gate_row mine =
        kin_gate_row_of(p.job.rows, p.job.row_lists, row0 + row_of(thread, lane % 2));
    const kin_gate_test even = kin_gate_make_even(p.job.rows.frame.bound, mine, p.job.cols.worst);
    const int32_t row = started(even.row.i, p.job.cols.start_shift);
    const int32_t col =
        p.two_sided != 0 ? started(even.col.i, p.job.cols.start_shift) : beyond_all(even.col.i);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        test[i].row = __shfl_sync(0xffffffffu, row, (lane & 28) + i);
        test[i].col = __shfl_sync(0xffffffffu, col, (lane & 28) + i);
    }
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

/* A tile whose products are under way. */
template <int STEPS>
static __device__ __forceinline__ void test_started(const params &p, const testing &t,
                                                    const row_test<int32_t> (&test)[2],
                                                    int32_t (&acc)[64])
{
    int32_t gate[GATES];
    load_gates(t.facts, t.thread, gate);
    hopper_products_wait<0>();
    hopper_products_settle(acc);
    give_back<slices_of<STEPS>>(p, t.s, t.thread % 32, t.at);
    const row_most<int32_t, 2> most = most_started(acc);
    if (!__any_sync(0xffffffffu, passes_any(gate, test, most))) {
        return;
    }
    const uint32_t own = find_hits(gate, test, most);
    const uint32_t hits = __reduce_or_sync(0xffffffffu, own);
    log_hits<true>(t, hits, own, test, acc, acc);
}

template <int STEPS>
static __device__ void consume_started(const params &p, shared_state *s, const unsigned char *rows,
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
        const uint32_t row0 = unit.block * KIN_SCREEN_GPU_BLOCK + (uint32_t)(group * STARTED_ROWS);
        row_test<int32_t> test[2];
        started_tests(p, row0, thread, test);
        for (uint32_t t = 0; t < unit.count; t++) {
            int32_t acc[64];
            multiply_started<STEPS>(p, s, rows, ring, group, &at, acc);
            const testing here = {s,
                                  facts_of(s, at.tile),
                                  &at,
                                  row0,
                                  group * 4 + thread / 32,
                                  thread,
                                  p.two_sided != 0,
                                  p.job.passed.pairs != NULL};
            test_started<STEPS>(p, here, test, acc);
            __syncwarp();
            if (lane == 0) {
                hopper_barrier_arrive(&s->tile_empty[at.tile.stage]);
            }
            step(&at.tile, tile_slots<STEPS>);
        }
        if (lane == 0) { /* rows are read until the last products are done */
            hopper_barrier_arrive(&s->unit_empty);
        }
    }
    if (lane == 0) {
        __threadfence_block();
        atomicAdd(&s->finished, 1u);
    }
}

#endif
