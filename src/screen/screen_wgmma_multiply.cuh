/* SPDX-License-Identifier: Apache-2.0
 * Products of the Hopper screen: 128 or 64 rows x 128 columns a warpgroup, rows from a slice that
 * stays or from one that was brought for this tile.
 */
#ifndef KIN_SCREEN_WGMMA_MULTIPLY_CUH
#define KIN_SCREEN_WGMMA_MULTIPLY_CUH

#include "screen/screen_wgmma_block.cuh"

/* One slice of both accumulators. */
template <int STEPS, typename ACC>
static __device__ __forceinline__ void multiply_slice(const unsigned char *own,
                                                      const unsigned char *cols, int more,
                                                      ACC (&low)[64], ACC (&high)[64])
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

/* One slice of 64 rows. */
template <int STEPS, typename ACC>
static __device__ __forceinline__ void
multiply_slice(const unsigned char *own, const unsigned char *cols, int more, ACC (&acc)[64])
{
    const uint64_t a = hopper_matrix(own);
    const uint64_t b = hopper_matrix(cols);
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        hopper_multiply(acc, a + 2 * k, b + 2 * k, more + k);
    }
}

template <typename... ACCS>
static __device__ __forceinline__ void multiply_last(int32_t steps, const unsigned char *own,
                                                     const unsigned char *cols, int more,
                                                     ACCS &...accs)
{
    switch (steps) {
    case 1:
        multiply_slice<1>(own, cols, more, accs...);
        break;
    case 2:
        multiply_slice<2>(own, cols, more, accs...);
        break;
    case 3:
        multiply_slice<3>(own, cols, more, accs...);
        break;
    default:
        multiply_slice<4>(own, cols, more, accs...);
        break;
    }
}

/* A group's rows x 128 columns: an accumulator for each 64 rows. Row and column slices were both
 * brought for this tile; they are given back as soon as they are multiplied, the last one by the
 * caller. */
template <typename BODY, typename... ACCS>
static __device__ __forceinline__ void multiply_streamed(const params &p, shared_state *s,
                                                         const unsigned char *ring, int32_t group,
                                                         int32_t lane, place *at, ACCS &...accs)
{
    ring_place slice = at->slice;
    hopper_products_begin();
    for (int32_t i = 0; i < p.slices; i++) {
        const unsigned char *cols =
            ring + (size_t)slice.stage * (COL_SLICE_BYTES + ROW_SLICE_BYTES);
        const unsigned char *own = cols + COL_SLICE_BYTES + group * BODY::ROWS * SLICE;
        hopper_barrier_wait(&s->full[slice.stage], slice.parity);
        if (i + 1 < p.slices) {
            multiply_slice<4>(own, cols, i, accs...);
        } else {
            multiply_last(p.last_steps, own, cols, i, accs...);
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

/* The slices of a tile in the ring, all of them there. */
template <int SLICES>
static __device__ __forceinline__ void wait_for_slices(const params &p, shared_state *s,
                                                       const unsigned char *ring, const place *at,
                                                       uint64_t (&b)[SLICES])
{
    ring_place slice = at->slice;
#pragma unroll
    for (int i = 0; i < SLICES; i++) {
        b[i] = hopper_matrix(ring + (size_t)slice.stage * (uint32_t)p.stage_bytes);
        hopper_barrier_wait(&s->full[slice.stage], slice.parity);
        step(&slice, (uint32_t)p.stages);
    }
}

/* The same with rows that stay: all slices are waited for first, so that the STEPS products follow
 * each other without a branch. */
template <typename BODY, int STEPS, typename ACC>
static __device__ __forceinline__ void
multiply_resident(const params &p, shared_state *s, const unsigned char *rows,
                  const unsigned char *ring, int32_t group, const place *at, ACC (&low)[64],
                  ACC (&high)[64])
{
    const int TAIL = STEPS / TAIL_SHARE;
    uint64_t b[slices_of<STEPS>];
    wait_for_slices<slices_of<STEPS>>(p, s, ring, at, b);
    const uint64_t a = hopper_matrix(rows + group * BODY::ROWS * SLICE);
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
template <int SLICES>
static __device__ __forceinline__ void give_back(const params &p, shared_state *s, int32_t lane,
                                                 place *at)
{
#pragma unroll
    for (int i = 0; i < SLICES; i++) {
        if (lane == 0) {
            hopper_barrier_arrive(&s->empty[at->slice.stage]);
        }
        step(&at->slice, (uint32_t)p.stages);
    }
}

/* 64 rows that stay x 128 columns, complete. */
template <int STEPS, typename ACC>
static __device__ __forceinline__ void
multiply_few(const params &p, shared_state *s, const unsigned char *rows, const unsigned char *ring,
             const place *at, ACC (&acc)[64])
{
    uint64_t b[slices_of<STEPS>];
    wait_for_slices<slices_of<STEPS>>(p, s, ring, at, b);
    const uint64_t a = hopper_matrix(rows);
    hopper_products_begin();
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        const uint64_t own = a + (uint64_t)(k / 4) * (ROW_SLICE_BYTES >> 4) + 2 * (k % 4);
        hopper_multiply(acc, own, b[k / 4] + 2 * (k % 4), k);
    }
    hopper_products_commit();
    hopper_products_wait<0>();
}

/* Slices that nobody multiplies are waited for all the same, so that all warps give back each in
 * turn. */
static __device__ __forceinline__ void pass_over(const params &p, shared_state *s, int32_t lane,
                                                 place *at)
{
    for (int32_t i = 0; i < p.slices; i++) {
        hopper_barrier_wait(&s->full[at->slice.stage], at->slice.parity);
        give_back<1>(p, s, lane, at);
    }
}

/* The products of a group's rows with a tile, complete, its slices given back. */
template <typename BODY, int STEPS, typename ACC>
static __device__ __forceinline__ void
multiply_tile(const params &p, shared_state *s, const unsigned char *rows,
              const unsigned char *ring, int32_t group, int32_t lane, place *at, ACC (&low)[64],
              ACC (&high)[64])
{
    if constexpr (STEPS > 0) {
        hopper_turn_wait(TURN_NAME + group);
        multiply_resident<BODY, STEPS>(p, s, rows, ring, group, at, low, high);
        hopper_turn_give(TURN_NAME + 1 - group);
    } else {
        multiply_streamed<BODY>(p, s, ring, group, lane, at, low, high);
    }
    hopper_products_wait<0>();
    give_back<(STEPS > 0 ? slices_of<STEPS> : 1)>(p, s, lane, at);
}

#endif
