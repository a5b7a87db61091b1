/* SPDX-License-Identifier: Apache-2.0
 * A block of threads and the run of a row that it selects from: sample, stream, careful
 * (select_scan.cu says what these are). */
#ifndef KIN_SELECT_SCAN_RUN_CUH
#define KIN_SELECT_SCAN_RUN_CUH

#include "select/select_block.cuh"
#include "select/select_number.cuh"

enum {
    KIN_SCAN_THREADS = 256,
    KIN_SCAN_HELD = 16,             /* values that a thread has under way, twice */
    KIN_SCAN_SAMPLE_VECTORS = 1024, /* of a run */
    KIN_SCAN_MOST_PARTS = 8,        /* groups of a thread, in the sample */
    KIN_SCAN_CAREFUL_STEP = 1024    /* values between two looks at the buffer */
};

typedef struct scan_job {
    kin_select_task task;
    int64_t run;      /* values of a run, the last of a row may have fewer */
    int32_t runs;     /* of a row */
    int32_t capacity; /* words of the buffer, a power of two */
    void *words; /* runs > 1: rows x runs x k words go here, worst ones where a run has fewer */
} scan_job;

struct block_shared {
    uint32_t groups[KIN_SCAN_MOST_PARTS * KIN_SCAN_THREADS];
    int32_t count;
    uint32_t order;
};

template <typename Value> struct block_run {
    typedef typename Value::word Word;
    typedef typename Value::bits Bits;
    typedef scanned<Value> Scanned;
    typedef typename Scanned::number Number;
    static constexpr int EACH = 16 / (int)sizeof(Bits); /* values of a vector */
    static constexpr int LOADS = EACH * 4 > KIN_SCAN_HELD ? KIN_SCAN_HELD / EACH : 4;

    run_reader<Value> reader;
    int64_t first; /* place in the row */
    int64_t count;
    int64_t head; /* values before the first whole vector */
    int64_t vectors;
    int64_t k;
    Word *kept;
    int32_t capacity;
    block_shared &shared;

    __device__ __forceinline__ block_run(const scan_job &job, int64_t row, int64_t first_place,
                                         Word *buffer, block_shared &s)
        : reader(job.task, row), first(first_place), shared(s)
    {
        count = min(job.run, job.task.cols - first);
        k = min(job.task.k, count);
        const int64_t off = (int64_t)((uintptr_t)(reader.values() + first) & 15);
        head = min(count, off == 0 ? 0 : (16 - off) / (int64_t)sizeof(Bits));
        vectors = (count - head) / EACH;
        kept = buffer;
        capacity = job.capacity;
    }

    __device__ __forceinline__ const uint4 *aligned() const
    {
        return (const uint4 *)(reader.values() + first + head);
    }

    static __device__ __forceinline__ void unpack(const uint4 &vector, Bits (&bits)[EACH])
    {
        memcpy(bits, &vector, sizeof vector);
    }

    __device__ __forceinline__ Number number_of(Bits bits) const
    {
        return Scanned::number_of(bits, reader.largest());
    }

    /* The r-th smallest of the group minima that lie in shared memory; by one warp. */
    __device__ uint32_t nth_group(int32_t groups, int32_t r) const
    {
        const int lane = (int)threadIdx.x % 32;
        uint32_t low = UINT32_MAX;
        uint32_t high = 0;
        for (int32_t i = lane; i < groups; i += 32) {
            low = min(low, shared.groups[i]);
            high = max(high, shared.groups[i]);
        }
        low = __reduce_min_sync(KIN_WARP_ALL, low);
        high = __reduce_max_sync(KIN_WARP_ALL, high);
        if (low == high) {
            return low;
        }
        const int top = 31 - __clz((int)(low ^ high));
        uint32_t found = (low >> top << top) & ~(1u << top);
        for (int bit = top; bit >= 0; bit--) {
            const uint32_t trial = found | 1u << bit;
            int32_t below = 0;
            for (int32_t i = lane; i < groups; i += 32) {
                below += shared.groups[i] < trial ? 1 : 0;
            }
            found = __reduce_add_sync(KIN_WARP_ALL, below) < r ? trial : found;
        }
        return found;
    }

    /* The order of value e of vector j of the thread's sample; the greatest where there is none. */
    __device__ __forceinline__ void sampled(int j, uint32_t (&orders)[EACH]) const
    {
        const int64_t i = (int64_t)j * KIN_SCAN_THREADS + (int64_t)threadIdx.x;
        const bool spread = vectors > KIN_SCAN_SAMPLE_VECTORS;
        const bool there = spread || i < vectors;
        const uint4 found =
            there ? __ldg(aligned() + (spread ? i * vectors / KIN_SCAN_SAMPLE_VECTORS : i))
                  : uint4{0, 0, 0, 0};
        Bits bits[EACH];
        unpack(found, bits);
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            orders[e] = there ? Scanned::order(number_of(bits[e])) : UINT32_MAX;
        }
    }

    __device__ Number sample() const
    {
        constexpr int TURNS = KIN_SCAN_SAMPLE_VECTORS / KIN_SCAN_THREADS;
        const int64_t taken = min(vectors, (int64_t)KIN_SCAN_SAMPLE_VECTORS);
        const float lambda = (float)k * (float)(taken * EACH) / (float)count;
        const int32_t r = min((int32_t)k, (int32_t)(lambda + 4.2f * sqrtf(lambda) + 3.0f));
        int32_t parts = 1; /* groups of a thread, each of `each` values */
        while (parts < KIN_SCAN_MOST_PARTS && parts < TURNS * EACH &&
               parts * KIN_SCAN_THREADS < 3 * r) {
            parts *= 2;
        }
        const int32_t each = TURNS * EACH / parts;
        const int32_t groups = parts * KIN_SCAN_THREADS;
        if (3 * r > 2 * groups) {
            return Scanned::threshold(UINT32_MAX);
        }
        uint32_t orders[TURNS][EACH];
#pragma unroll
        for (int j = 0; j < TURNS; j++) {
            sampled(j, orders[j]);
        }
        uint32_t least = UINT32_MAX;
        int32_t place = (int32_t)threadIdx.x;
        int32_t turn = 0;
#pragma unroll
        for (int j = 0; j < TURNS; j++) {
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                least = min(least, orders[j][e]);
                turn += 1;
                if (turn == each) {
                    shared.groups[place] = least;
                    place += KIN_SCAN_THREADS;
                    least = UINT32_MAX;
                    turn = 0;
                }
            }
        }
        __syncthreads();
        if (threadIdx.x < 32) {
            const uint32_t order = nth_group(groups, r);
            if (threadIdx.x == 0) {
                shared.order = order;
            }
        }
        __syncthreads();
        return Scanned::threshold(shared.order);
    }

    /* Hits of a lane, as bits of what it holds, get places in the buffer. */
    __device__ __forceinline__ int32_t places_for(int32_t hits) const
    {
        const int lane = (int)threadIdx.x % 32;
        int32_t sum = hits;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const int32_t other = __shfl_up_sync(KIN_WARP_ALL, sum, step);
            sum += lane >= step ? other : 0;
        }
        int32_t base = 0;
        if (lane == 31) {
            base = atomicAdd(&shared.count, sum);
        }
        return __shfl_sync(KIN_WARP_ALL, base, 31) + sum - hits;
    }

    __device__ __forceinline__ void take(const uint4 (&found)[LOADS], int64_t vector,
                                         Number threshold)
    {
        uint32_t mask = 0;
#pragma unroll
        for (int j = 0; j < LOADS; j++) {
            Bits bits[EACH];
            unpack(found[j], bits);
            const bool there = vector + (int64_t)j * KIN_SCAN_THREADS < vectors;
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                mask |= there && number_of(bits[e]) <= threshold ? 1u << (j * EACH + e) : 0u;
            }
        }
        if (__any_sync(KIN_WARP_ALL, mask != 0) == 0) {
            return;
        }
        int32_t place = places_for(__popc(mask));
#pragma unroll
        for (int j = 0; j < LOADS; j++) {
            Bits bits[EACH];
            unpack(found[j], bits);
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                if ((mask >> (j * EACH + e) & 1u) != 0) {
                    const int64_t at = head + (vector + (int64_t)j * KIN_SCAN_THREADS) * EACH + e;
                    if (place < capacity) {
                        kept[place] = reader.word(bits[e], first + at);
                    }
                    place += 1;
                }
            }
        }
    }

    static __device__ __forceinline__ void load(const uint4 *at, int64_t vector, int64_t vectors,
                                                uint4 (&found)[LOADS])
    {
#pragma unroll
        for (int j = 0; j < LOADS; j++) {
            const int64_t i = vector + (int64_t)j * KIN_SCAN_THREADS;
            found[j] = i < vectors ? __ldcs(at + i) : uint4{0, 0, 0, 0};
        }
    }

    /* The values before and behind the whole vectors: fewer than two vectors. */
    __device__ __forceinline__ void take_ends(Number threshold)
    {
        const int64_t tail = count - head - vectors * EACH;
        const int32_t thread = (int32_t)threadIdx.x;
        if (thread < head + tail) {
            const int64_t at = thread < head ? thread : thread + vectors * EACH;
            const Bits bits = reader.values()[first + at];
            if (number_of(bits) <= threshold) {
                const int32_t place = atomicAdd(&shared.count, 1);
                if (place < capacity) {
                    kept[place] = reader.word(bits, first + at);
                }
            }
        }
    }

    /* Begins and ends with a barrier; shared.count may say more than the buffer holds. */
    __device__ void stream(Number threshold)
    {
        const uint4 *at = aligned();
        const int64_t step = (int64_t)KIN_SCAN_THREADS * LOADS;
        uint4 now[LOADS];
        uint4 next[LOADS];
        __syncthreads();
        if (threadIdx.x == 0) {
            shared.count = 0;
        }
        __syncthreads();
        load(at, (int64_t)threadIdx.x, vectors, now);
        for (int64_t base = 0; base < vectors; base += step) {
            const int64_t vector = base + (int64_t)threadIdx.x;
            load(at, vector + step, vectors, next);
            take(now, vector, threshold);
#pragma unroll
            for (int j = 0; j < LOADS; j++) {
                now[j] = next[j];
            }
        }
        take_ends(threshold);
        __syncthreads();
    }

    /* Sorts what the buffer holds; `have` <= capacity. Begins and ends with a barrier. */
    __device__ void sort_kept(int32_t have)
    {
        const int32_t width = (int32_t)kin_sort_places(have);
        for (int32_t i = have + (int32_t)threadIdx.x; i < width; i += KIN_SCAN_THREADS) {
            kept[i] = kin_word_worst<Word>();
        }
        kin_block_sort(kept, width, KIN_SCAN_THREADS);
    }

    /* Any run: leaves the best k in kept[0 .. k - 1], ascending. */
    __device__ void careful()
    {
        const int64_t step = min((int64_t)KIN_SCAN_CAREFUL_STEP, (int64_t)capacity - k);
        Word worst = kin_word_worst<Word>();
        bool full = false;
        int32_t have = 0;
        __syncthreads();
        for (int64_t base = 0; base < count; base += step) {
            if (threadIdx.x == 0) {
                shared.count = have;
            }
            __syncthreads();
            const int64_t end = min(base + step, count);
            for (int64_t at = base + (int64_t)threadIdx.x; at < end; at += KIN_SCAN_THREADS) {
                const Word word = reader.word(reader.values()[first + at], first + at);
                if (!full || word < worst) {
                    kept[atomicAdd(&shared.count, 1)] = word;
                }
            }
            __syncthreads();
            have = shared.count;
            if (have + step > capacity || end == count) {
                sort_kept(have);
                have = min(have, (int32_t)k);
                full = have == (int32_t)k;
                worst = full ? kept[k - 1] : worst;
            }
            __syncthreads();
        }
    }
};

#endif
