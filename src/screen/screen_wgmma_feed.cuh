/* SPDX-License-Identifier: Apache-2.0
 * The producer of the Hopper screen: one thread deals units and keeps the copy engine busy. A slice
 * of columns (and, where rows are streamed, of rows) goes to each place of the ring; what the test
 * of a tile reads beside products travels with its first slice; starts that are bytes stand behind
 * it.
 */
#ifndef KIN_SCREEN_WGMMA_FEED_CUH
#define KIN_SCREEN_WGMMA_FEED_CUH

#include "screen/screen_wgmma_block.cuh"

template <bool LISTS, bool STARTS, int STEPS>
static __device__ void produce_tile(const params &p, const CUtensorMap *row_map,
                                    const CUtensorMap *col_map, shared_state *s,
                                    unsigned char *ring, uint32_t number, ring_place *slice,
                                    ring_place *tile)
{
    const kin_screen_gpu_screen &job = p.job;
    const kin_screen_gpu_unit unit = s->unit;
    const uint32_t id = job.tiles[unit.first + number];
    tile_facts *facts = facts_of(s, *tile);
    hopper_barrier_wait(&s->tile_empty[tile->stage], tile->parity ^ 1);
    facts->tile = id;
    facts->number = number;
    const uint32_t slice_bytes = COL_SLICE_BYTES + (STEPS > 0 ? 0 : ROW_SLICE_BYTES);
    const bool gates = LISTS && p.two_sided != 0;
    const uint32_t facts_bytes = (STARTS ? START_TILE_BYTES : (uint32_t)sizeof facts->half) +
                                 (LISTS ? (uint32_t)sizeof facts->worst : 0) +
                                 (gates ? (uint32_t)sizeof facts->gates : 0);
    for (int32_t i = 0; i < p.slices; i++) {
        uint64_t *full = &s->full[slice->stage];
        unsigned char *to = ring + (size_t)slice->stage * (uint32_t)p.stage_bytes;
        hopper_barrier_wait(&s->empty[slice->stage], slice->parity ^ 1);
        hopper_barrier_expect(full, slice_bytes + (i == 0 ? facts_bytes : 0));
        hopper_copy_box(to, col_map, full, i * SLICE, (int32_t)(id * KIN_SCREEN_GPU_TILE));
        if (STEPS == 0) {
            hopper_copy_box(to + COL_SLICE_BYTES, row_map, full, i * SLICE,
                            (int32_t)(unit.block * KIN_SCREEN_GPU_BLOCK));
        }
        if (i == 0) {
            if (STARTS) {
                hopper_copy(to + COL_SLICE_BYTES, job.cols.starts + (size_t)id * START_TILE_BYTES,
                            full, START_TILE_BYTES);
            } else {
                hopper_copy(facts->half, job.cols.half + (size_t)id * KIN_SCREEN_GPU_TILE, full,
                            (uint32_t)sizeof facts->half);
            }
            if (LISTS) {
                hopper_copy(&facts->worst, job.worst + id, full, (uint32_t)sizeof facts->worst);
            }
            if (gates) {
                hopper_copy(facts->gates, job.gates + (size_t)id * KIN_SCREEN_GPU_TILE, full,
                            (uint32_t)sizeof facts->gates);
            }
        }
        step(slice, (uint32_t)p.stages);
    }
    step(tile, tile_slots<STEPS>);
}

template <bool LISTS, bool STARTS, int STEPS>
static __device__ void produce(const params &p, const CUtensorMap *row_map,
                               const CUtensorMap *col_map, shared_state *s, unsigned char *rows,
                               unsigned char *ring)
{
    const uint32_t count = *p.job.unit_count;
    ring_place slice = {0, 0};
    ring_place tile = {0, 0};
    for (uint32_t parity = 0;; parity ^= 1) {
        const uint32_t next = atomicAdd(p.job.next, 1u);
        hopper_barrier_wait(&s->unit_empty, parity ^ 1);
        kin_screen_gpu_unit unit = {0, 0, 0, 0};
        if (next < count) {
            unit = p.job.units[next];
        }
        s->unit = unit;
        const bool loads = STEPS > 0 && unit.count > 0;
        hopper_barrier_expect(&s->unit_full, loads ? (uint32_t)(p.slices * ROW_SLICE_BYTES) : 0);
        if (unit.count == 0) {
            return;
        }
        for (int32_t i = 0; loads && i < p.slices; i++) {
            hopper_copy_box(rows + (size_t)i * ROW_SLICE_BYTES, row_map, &s->unit_full, i * SLICE,
                            (int32_t)(unit.block * KIN_SCREEN_GPU_BLOCK));
        }
        for (uint32_t t = 0; t < unit.count; t++) {
            produce_tile<LISTS, STARTS, STEPS>(p, row_map, col_map, s, ring, t, &slice, &tile);
        }
    }
}

#endif
