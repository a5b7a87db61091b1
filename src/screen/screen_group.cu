/* SPDX-License-Identifier: Apache-2.0
 * Rows with the same bytes. Contract: screen_kernels.h.
 *
 * Idea. Two kernels. The first hashes each row to 64 bits and enters (hash, row) into an open
 * table, where the lowest row of each hash stays; the slot is left in firsts[]. The second, when no
 * row can fall any more, compares each row with the lowest of its slot and makes firsts[] of slots.
 * A row that differs from it, because two hashes met, stays its own first. Where every row found an
 * empty slot nothing is compared, and the table is not looked at again.
 *
 * Cost: one read of all rows, one more of those that have an equal. The table is at most half full.
 */
#include "screen/screen_row.cuh"

static const uint64_t MOST_SLOTS = (uint64_t)1 << 32; /* slots are kept in 32 bits for a while */
#define EMPTY UINT64_MAX

/* The finaliser of MurmurHash3 (Appleby, public domain) over a word and its place. Words are
 * summed, so that lanes may take them in any order. */
KIN_DEVICE uint64_t mix(uint64_t word, uint64_t place)
{
    uint64_t x = word ^ (place + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

/* Enters a row; *fresh: whether its slot was empty. Both reads before the atomics spare them where
 * many rows are equal; a read may be old, which costs an atomic that changes nothing. */
KIN_DEVICE uint64_t enter(const kin_screen_gpu_group &job, uint64_t hash, uint64_t row, bool *fresh)
{
    unsigned long long *table = (unsigned long long *)job.table;
    const uint64_t name = hash == EMPTY ? EMPTY - 1 : hash;
    uint64_t slot = (name ^ name >> 32) & (job.slots - 1);
    for (;; slot = (slot + 1) & (job.slots - 1)) {
        uint64_t there = *(volatile unsigned long long *)&table[2 * slot];
        if (there == EMPTY) {
            there =
                atomicCAS(&table[2 * slot], (unsigned long long)EMPTY, (unsigned long long)name);
            *fresh = there == EMPTY;
        }
        if (there == EMPTY || there == name) {
            break;
        }
    }
    if (*(volatile unsigned long long *)&table[2 * slot + 1] > row) {
        (void)atomicMin(&table[2 * slot + 1], (unsigned long long)row);
    }
    return slot;
}

template <bool ALIGNED>
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
    enter_rows_kernel(const __grid_constant__ kin_screen_gpu_group job, int64_t bytes, int32_t team)
{
    const kin_screen_gpu_place me = kin_screen_gpu_my_place(team);
    const bool real = me.row < job.rows.rows;
    const bool known = me.row < job.known;
    const char *row = kin_screen_gpu_row(job.rows, real ? me.row : 0);
    uint64_t hash = 0;
#pragma unroll 4
    for (int64_t at = (int64_t)me.lane * KIN_SCREEN_GPU_CHUNK; at < bytes && !known;
         at += (int64_t)team * KIN_SCREEN_GPU_CHUNK) {
        const uint4 chunk = kin_screen_gpu_short_chunk<ALIGNED>(row, at, bytes);
        const uint64_t place = (uint64_t)at / 8;
        hash += mix((uint64_t)chunk.y << 32 | chunk.x, place);
        hash += mix((uint64_t)chunk.w << 32 | chunk.z, place + 1);
    }
    for (int offset = team >> 1; offset > 0; offset >>= 1) {
        hash += __shfl_xor_sync(KIN_SCREEN_GPU_ALL_LANES, hash, offset);
    }
    bool fresh = false;
    if (real && me.lane == 0) {
        hash = known ? job.hashes[me.row] : hash;
        job.firsts[me.row] = (uint32_t)enter(job, hash, (uint64_t)me.row, &fresh);
        if (job.hashes != NULL) {
            job.hashes[me.row] = hash;
        }
    }
    const int slots = __syncthreads_count(fresh);
    if (threadIdx.x == 0 && slots != 0) {
        (void)atomicAdd((unsigned long long *)job.distinct, (unsigned long long)slots);
    }
}

template <bool ALIGNED>
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
    settle_rows_kernel(const __grid_constant__ kin_screen_gpu_group job, int64_t bytes,
                       int32_t team)
{
    const kin_screen_gpu_place me = kin_screen_gpu_my_place(team);
    const bool real = me.row < job.rows.rows;
    const int64_t own = real ? me.row : 0;
    __shared__ bool all_fresh;
    if (threadIdx.x == 0) {
        all_fresh = *(volatile uint64_t *)job.distinct == (uint64_t)job.rows.rows;
    }
    __syncthreads();
    if (all_fresh) {
        if (real && me.lane == 0) {
            job.firsts[own] = (uint32_t)own;
        }
        return;
    }
    const int64_t lowest = (int64_t)job.table[2 * (uint64_t)job.firsts[own] + 1];
    uint32_t different = 0;
    if (real && lowest != own) {
        const char *row = kin_screen_gpu_row(job.rows, own);
        const char *first = kin_screen_gpu_row(job.rows, lowest);
        for (int64_t at = (int64_t)me.lane * KIN_SCREEN_GPU_CHUNK; at < bytes;
             at += (int64_t)team * KIN_SCREEN_GPU_CHUNK) {
            const uint4 a = kin_screen_gpu_short_chunk<ALIGNED>(row, at, bytes);
            const uint4 b = kin_screen_gpu_short_chunk<ALIGNED>(first, at, bytes);
            different |= (a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w);
        }
    }
    different = kin_screen_gpu_team_or(different, team);
    const bool alone = lowest == own || different != 0;
    const bool mine = real && me.lane == 0;
    const int distinct = __syncthreads_count(mine && alone && lowest != own);
    if (mine) {
        job.firsts[own] = (uint32_t)(alone ? own : lowest);
    }
    if (threadIdx.x == 0 && distinct != 0) {
        (void)atomicAdd((unsigned long long *)job.distinct, (unsigned long long)distinct);
    }
}

int kin_screen_gpu_launch_group(kin_gpu_stream *stream, const kin_screen_gpu_group *job)
{
    if (job->rows.rows == 0) {
        return 0;
    }
    if (job->slots > MOST_SLOTS || (job->slots & (job->slots - 1)) != 0) {
        return (int)cudaErrorInvalidValue;
    }
    const int64_t bytes = kin_screen_gpu_row_bytes(&job->rows);
    const int32_t team = kin_screen_gpu_short_team(bytes);
    const unsigned blocks = kin_screen_gpu_team_blocks(job->rows.rows, team);
    if (kin_screen_gpu_rows_aligned(&job->rows, KIN_SCREEN_GPU_CHUNK)) {
        enter_rows_kernel<true>
            <<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job, bytes, team);
        KIN_CUDA_TRY_LAUNCH();
        settle_rows_kernel<true>
            <<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job, bytes, team);
    } else {
        enter_rows_kernel<false>
            <<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job, bytes, team);
        KIN_CUDA_TRY_LAUNCH();
        settle_rows_kernel<false>
            <<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job, bytes, team);
    }
    return kin_gpu_launched();
}
