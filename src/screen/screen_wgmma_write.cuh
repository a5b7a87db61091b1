/* SPDX-License-Identifier: Apache-2.0
 * What the Hopper screen writes in place of lists: costs and tile minima, or the nearest column.
 */
#ifndef KIN_SCREEN_WGMMA_WRITE_CUH
#define KIN_SCREEN_WGMMA_WRITE_CUH

#include "screen/screen_wgmma_block.cuh"

template <kin_screen_gpu_type TYPE, int HALF, typename ACC>
static __device__ __forceinline__ void write_row(const params &p, const tile_facts *facts,
                                                 const kin_screen_gpu_unit &unit, uint32_t row,
                                                 int32_t lane, const ACC (&acc)[64])
{
    const kin_screen_gpu_screen &job = p.job;
    const bool real = row < (uint64_t)job.rows.points;
    if (!__any_sync(0xffffffffu, real)) { /* a batch of few queries is mostly padding */
        return;
    }
    const uint64_t tile = unit.first - (uint64_t)unit.block * job.tiles_a_block + facts->number;
    const kin_screen_gpu_word term = job.rows.facts[row].term;
    uint32_t least = UINT32_MAX;
    uint32_t *to = job.matrix + (uint64_t)row * (uint64_t)job.pitch + tile * KIN_SCREEN_GPU_TILE;
#pragma unroll
    for (int j = 0; j < 16; j++) {
        ACC h[2] = {0, 0};
        uint32_t order[2];
        load_two(facts->half, j, lane % 4, h);
        const uint32_t col = 8 * (uint32_t)j + 2 * (uint32_t)(lane % 4);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            order[e] = kin_screen_gpu_order_at<TYPE>(
                job, term, facts->tile * KIN_SCREEN_GPU_TILE + col + (uint32_t)e,
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
            job.minima[(uint64_t)row * (uint64_t)(job.pitch / KIN_SCREEN_GPU_TILE) + tile] = least;
        }
    }
}

/* A lane's columns of a row are eight parts. */
template <kin_screen_gpu_type TYPE, int HALF, typename ACC>
static __device__ __forceinline__ void write_parts(const params &p, const tile_facts *facts,
                                                   const kin_screen_gpu_unit &unit, uint32_t row,
                                                   int32_t lane, const ACC (&acc)[64])
{
    const kin_screen_gpu_screen &job = p.job;
    const uint64_t tile = unit.first - (uint64_t)unit.block * job.tiles_a_block + facts->number;
    const kin_screen_gpu_word term = job.rows.facts[row].term;
    const uint32_t col0 = facts->tile * KIN_SCREEN_GPU_TILE + 2 * (uint32_t)(lane % 4);
    uint32_t least[8];
#pragma unroll
    for (int j = 0; j < 16; j++) {
        ACC h[2] = {0, 0};
        load_two(facts->half, j, lane % 4, h);
        const uint32_t col = col0 + 8 * (uint32_t)j;
        const kin_screen_gpu_word v0 = to_word(less_half(acc[4 * j + 2 * HALF], h[0]));
        const kin_screen_gpu_word v1 = to_word(less_half(acc[4 * j + 2 * HALF + 1], h[1]));
        const uint32_t both = min(kin_screen_gpu_order_at<TYPE>(job, term, col, v0),
                                  kin_screen_gpu_order_at<TYPE>(job, term, col + 1, v1));
        least[j / 2] = j % 2 == 0 ? both : min(least[j / 2], both);
    }
    if (row < (uint64_t)job.rows.points) {
        uint32_t *to =
            job.parts + ((uint64_t)row * (uint64_t)job.pitch + tile * KIN_SCREEN_GPU_TILE) /
                            KIN_SCREEN_GPU_PART;
        to += 8 * (lane % 4);
        *(uint4 *)to = make_uint4(least[0], least[1], least[2], least[3]);
        *(uint4 *)(to + 4) = make_uint4(least[4], least[5], least[6], least[7]);
    }
}

template <kin_screen_gpu_type TYPE, int HALF, typename ACC>
static __device__ __forceinline__ void write_either(const params &p, const tile_facts *facts,
                                                    const kin_screen_gpu_unit &unit, uint32_t row,
                                                    int32_t lane, const ACC (&acc)[64])
{
    if (p.job.parts != NULL) {
        write_parts<TYPE, HALF>(p, facts, unit, row, lane, acc);
    } else {
        write_row<TYPE, HALF>(p, facts, unit, row, lane, acc);
    }
}

template <kin_screen_gpu_type TYPE, typename ACC>
static __device__ __forceinline__ void
write_tile(const params &p, const tile_facts *facts, const kin_screen_gpu_unit &unit, int32_t group,
           int32_t thread, const ACC (&low)[64], const ACC (&high)[64])
{
    const uint32_t row0 = unit.block * KIN_SCREEN_GPU_BLOCK + (uint32_t)group * 128;
    const int32_t lane = thread % 32;
    write_either<TYPE, 0>(p, facts, unit, row0 + row_of(thread, 0), lane, low);
    write_either<TYPE, 1>(p, facts, unit, row0 + row_of(thread, 1), lane, low);
    write_either<TYPE, 0>(p, facts, unit, row0 + row_of(thread, 2), lane, high);
    write_either<TYPE, 1>(p, facts, unit, row0 + row_of(thread, 3), lane, high);
}

/* ---- Very few rows --------------------------------------------------------------------------- */

enum { STAGED_ROWS = 16, STAGED_PITCH = KIN_SCREEN_GPU_TILE + 8 /* rows begin in other banks */ };

/* Products of the first 16 rows, which are all in the first warp's registers: by way of shared
 * memory all four warps of the group write them, four rows each, a whole row of a tile at a time.
 * All threads of the group come. */
template <kin_screen_gpu_type TYPE, typename ACC>
static __device__ __forceinline__ void
write_staged(const params &p, const tile_facts *facts, const kin_screen_gpu_unit &unit,
             int32_t group, int32_t thread, kin_screen_gpu_word *staged, const ACC (&acc)[64])
{
    const kin_screen_gpu_screen &job = p.job;
    const int32_t lane = thread % 32;
    hopper_group_sync(GROUP_NAME + group); /* nobody reads the last tile's products any more */
    if (thread < 32) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            kin_screen_gpu_word *to =
                staged + (lane / 4 + 8 * half) * STAGED_PITCH + 2 * (lane % 4);
#pragma unroll
            for (int j = 0; j < 16; j++) {
                const uint32_t first = to_word(acc[4 * j + 2 * half]).u;
                const uint32_t second = to_word(acc[4 * j + 2 * half + 1]).u;
                *(uint2 *)(to + 8 * j) = make_uint2(first, second);
            }
        }
    }
    hopper_group_sync(GROUP_NAME + group);
    const uint64_t tile = unit.first - (uint64_t)unit.block * job.tiles_a_block + facts->number;
    const uint32_t col = 4 * (uint32_t)lane;
    for (int32_t r = thread / 32; r < STAGED_ROWS; r += 4) {
        const uint32_t row = unit.block * KIN_SCREEN_GPU_BLOCK + (uint32_t)r;
        if (row >= (uint64_t)job.rows.points) {
            break;
        }
        const kin_screen_gpu_word term = job.rows.facts[row].term;
        const uint4 from = *(const uint4 *)(staged + r * STAGED_PITCH + col);
        const uint4 half = *(const uint4 *)(facts->half + col);
        const uint32_t products[4] = {from.x, from.y, from.z, from.w};
        const uint32_t halves[4] = {half.x, half.y, half.z, half.w};
        uint32_t order[4];
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) {
            kin_screen_gpu_word product;
            kin_screen_gpu_word less;
            product.u = products[e];
            less.u = halves[e];
            order[e] = kin_screen_gpu_order_at<TYPE>(
                job, term, facts->tile * KIN_SCREEN_GPU_TILE + col + e,
                to_word(less_half(word_of(product, acc[0]), word_of(less, acc[0]))));
        }
        if (job.matrix != NULL) {
            uint32_t *to =
                job.matrix + (uint64_t)row * (uint64_t)job.pitch + tile * KIN_SCREEN_GPU_TILE;
            *(uint4 *)(to + col) = make_uint4(order[0], order[1], order[2], order[3]);
        }
        if (job.minima != NULL) {
            const uint32_t least = __reduce_min_sync(
                0xffffffffu, min(min(order[0], order[1]), min(order[2], order[3])));
            if (lane == 0) {
                job.minima[(uint64_t)row * (uint64_t)(job.pitch / KIN_SCREEN_GPU_TILE) + tile] =
                    least;
            }
        }
    }
}

/* ---- The nearest column --------------------------------------------------------------------- */

/* Larger for a column of less cost: v, and for integers the odd bit that v does not hold. */
static __device__ __forceinline__ float closeness(const kin_screen_gpu_screen &job,
                                                  uint32_t position, float v)
{
    (void)job;
    (void)position;
    return v;
}

static __device__ __forceinline__ int32_t closeness(const kin_screen_gpu_screen &job,
                                                    uint32_t position, int32_t v)
{
    /* Twice the half of padding is beyond 32 bits. */
    return (int64_t)position < job.cols.points ? 2 * v - (job.cols.facts[position].term.i & 1)
                                               : INT32_MIN;
}

/* The nearest columns of a thread's four rows among its own columns of the unit's tiles so far, and
 * how close those of the four threads are that share a row. */
template <typename ACC> struct nearest_columns {
    ACC closest[4];
    ACC bar[4];
    uint32_t position[4];
};

template <typename ACC>
static __device__ __forceinline__ void clear_nearest(nearest_columns<ACC> *n)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        n->closest[i] = smallest_of(ACC(0));
        n->bar[i] = n->closest[i];
        n->position[i] = UINT32_MAX;
    }
}

/* Whether a column with v may be as close: the odd bit can only take away. */
static __device__ __forceinline__ bool may_be_as_close(float v, float closest)
{
    return v >= closest;
}

static __device__ __forceinline__ bool may_be_as_close(int32_t v, int32_t closest)
{
    return v >= (closest + 1) >> 1;
}

/* Columns of a thread whose product with row HALF less their half is `most`: bit 2 j + e. */
template <int HALF, typename ACC>
static __device__ __forceinline__ uint32_t find_equal(const tile_facts *facts, int32_t lane,
                                                      const ACC (&acc)[64], ACC most)
{
    uint32_t equal = 0;
#pragma unroll
    for (int j = 0; j < 16; j++) {
        ACC h[2] = {0, 0};
        load_two(facts->half, j, lane % 4, h);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            equal |= less_half(acc[4 * j + 2 * HALF + e], h[e]) == most ? 1u << (2 * j + e) : 0u;
        }
    }
    return equal;
}

/* What a row's closest column of a tile, with v = most, changes. All lanes come; after a few tiles
 * hardly one has a closer column, and only the closest ones are asked for their odd bits. Of equal
 * columns the first one counts, in whatever order tiles come. */
template <int HALF, typename ACC>
static __device__ __forceinline__ void
take_nearest(const kin_screen_gpu_screen &job, const tile_facts *facts, int32_t lane,
             const ACC (&acc)[64], ACC most, int row, nearest_columns<ACC> *n)
{
    const bool closer = may_be_as_close(most, n->bar[row]);
    if (!__any_sync(0xffffffffu, closer)) {
        return;
    }
    const uint32_t col0 = facts->tile * KIN_SCREEN_GPU_TILE + 2 * (uint32_t)(lane % 4);
    uint32_t left = find_equal<HALF>(facts, lane, acc, most);
    for (left = closer ? left : 0; left != 0; left &= left - 1) {
        const uint32_t bit = (uint32_t)__ffs((int)left) - 1;
        const uint32_t at = col0 + 8 * (bit / 2) + bit % 2;
        const ACC near = closeness(job, at, most);
        const ACC before = n->closest[row];
        const bool first = near == before && at < n->position[row];
        n->position[row] = near > before || first ? at : n->position[row];
        n->closest[row] = largest(before, near);
    }
    __syncwarp();
    n->bar[row] = largest(n->bar[row], n->closest[row]);
    n->bar[row] = largest(n->bar[row], __shfl_xor_sync(0xffffffffu, n->bar[row], 1));
    n->bar[row] = largest(n->bar[row], __shfl_xor_sync(0xffffffffu, n->bar[row], 2));
}

/* Of two rows, `row` and the next one. */
template <typename ACC>
static __device__ __forceinline__ void
look_nearest(const kin_screen_gpu_screen &job, const tile_facts *facts, int32_t lane,
             const ACC (&acc)[64], int row, nearest_columns<ACC> *n)
{
    ACC most[2] = {smallest_of(acc[0]), smallest_of(acc[0])};
#pragma unroll
    for (int j = 0; j < 16; j++) {
        ACC h[2] = {0, 0};
        load_two(facts->half, j, lane % 4, h);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            most[half] = largest(most[half], less_half(acc[4 * j + 2 * half], h[0]),
                                 less_half(acc[4 * j + 2 * half + 1], h[1]));
        }
    }
    take_nearest<0>(job, facts, lane, acc, most[0], row, n);
    take_nearest<1>(job, facts, lane, acc, most[1], row + 1, n);
}

template <typename ACC>
static __device__ __forceinline__ void nearest_tile(const params &p, const tile_facts *facts,
                                                    int32_t thread, const ACC (&low)[64],
                                                    const ACC (&high)[64], nearest_columns<ACC> *n)
{
    look_nearest(p.job, facts, thread % 32, low, 0, n);
    look_nearest(p.job, facts, thread % 32, high, 2, n);
}

/* What closeness was made of. */
static __device__ __forceinline__ float product_of(const kin_screen_gpu_screen &job,
                                                   uint32_t position, float closest)
{
    (void)job;
    (void)position;
    return closest;
}

static __device__ __forceinline__ int32_t product_of(const kin_screen_gpu_screen &job,
                                                     uint32_t position, int32_t closest)
{
    return (closest + (job.cols.facts[position].term.i & 1)) / 2;
}

/* At the end of a unit: the least of the four threads that share a row. */
template <kin_screen_gpu_type TYPE, typename ACC>
static __device__ __forceinline__ void offer_nearest(const params &p,
                                                     const kin_screen_gpu_unit &unit, int32_t group,
                                                     int32_t thread, const nearest_columns<ACC> &n)
{
    const kin_screen_gpu_screen &job = p.job;
    const uint32_t row0 = unit.block * KIN_SCREEN_GPU_BLOCK + (uint32_t)group * 128;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t row = row0 + row_of(thread, i);
        const uint32_t position = n.position[i];
        unsigned long long word = UINT64_MAX;
        if (row < (uint64_t)job.rows.points && position < (uint64_t)job.cols.points) {
            const ACC v = product_of(job, position, n.closest[i]);
            const uint32_t order =
                kin_screen_gpu_order_at<TYPE>(job, job.rows.facts[row].term, position, to_word(v));
            word = (unsigned long long)order << 32 | position;
        }
        word = min(word, __shfl_xor_sync(0xffffffffu, word, 1));
        word = min(word, __shfl_xor_sync(0xffffffffu, word, 2));
        if (thread % 4 == 0 && word != UINT64_MAX) {
            atomicMin((unsigned long long *)&job.nearest[row], word);
        }
    }
}

#endif
