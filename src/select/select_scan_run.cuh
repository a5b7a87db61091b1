/* SPDX-License-Identifier: Apache-2.0
 * The crews of a block that scans (select_scan.cu): their shared memory, their barriers, and the
 * work of the first two on one run. The sorters' is in select_scan_sort.cuh.
 *
 *   samplers   | threshold i | threshold i + 1 | ...     each by one warp, four under way
 *   streamers                | stream i        | stream i + 1 | ...
 *   sorters                                    | sort i       | sort i + 1 | ...
 *
 * Everything that one crew hands to the next lies in slots, used in turn (four thresholds, two
 * buffers); a pair of named barriers a slot says "there it is" and "it may be overwritten". */
#ifndef KIN_SELECT_SCAN_RUN_CUH
#define KIN_SELECT_SCAN_RUN_CUH

#include "select/select_block.cuh"

#include <cuda_fp16.h>
#include <math.h>

/* ---- How the scan sees values ---------------------------------------------------------------- */

/* How the scan sees values: as numbers that it compares, and as rows that it reads. */

/* order() is what the sample is ranked by; threshold() the greatest number of that order, or a
 * greater one. x <= threshold(order(x)) holds for every number; NaN never passes, whatever the
 * direction. */
struct number_of_float {
    typedef float number;
    static __device__ __forceinline__ uint32_t order(float x)
    {
        return kin_key32(__float_as_uint(x), false);
    }
    static __device__ __forceinline__ float threshold(uint32_t order)
    {
        const float x = __uint_as_float(kin_key32_bits(order, false));
        return x == x ? x : INFINITY;
    }
};

template <typename Value> struct scanned;

template <> struct scanned<kin_value_f32> : number_of_float {
    static __device__ __forceinline__ float number_of(uint32_t bits, bool largest)
    {
        return __uint_as_float(largest ? bits ^ 0x80000000u : bits);
    }
};

template <> struct scanned<kin_value_f16> : number_of_float {
    static __device__ __forceinline__ float number_of(uint16_t bits, bool largest)
    {
        const __half_raw raw = {bits};
        const float x = __half2float(__half(raw));
        return largest ? -x : x;
    }
};

template <> struct scanned<kin_value_bf16> : number_of_float {
    static __device__ __forceinline__ float number_of(uint16_t bits, bool largest)
    {
        const uint32_t wide = (uint32_t)bits << 16;
        return __uint_as_float(largest ? wide ^ 0x80000000u : wide);
    }
};

/* Costs of a screen: their order is themselves. */
template <> struct scanned<kin_value_u32> {
    typedef uint32_t number;
    static __device__ __forceinline__ uint32_t number_of(uint32_t bits, bool)
    {
        return bits;
    }
    static __device__ __forceinline__ uint32_t order(uint32_t x)
    {
        return x;
    }
    static __device__ __forceinline__ uint32_t threshold(uint32_t order)
    {
        return order;
    }
};

template <> struct scanned<kin_value_f64> {
    typedef double number;
    static __device__ __forceinline__ double number_of(uint64_t bits, bool largest)
    {
        const double x = __longlong_as_double((long long)bits);
        return largest ? -x : x;
    }
    /* The upper half of the key; the threshold is the greatest number that has it. */
    static __device__ __forceinline__ uint32_t order(double x)
    {
        return (uint32_t)(kin_key64((uint64_t)__double_as_longlong(x), false) >> 32);
    }
    static __device__ __forceinline__ double threshold(uint32_t order)
    {
        const uint64_t key = (uint64_t)order << 32 | UINT32_MAX;
        const double x = __longlong_as_double((long long)kin_key64_bits(key, false));
        return x == x ? x : (double)INFINITY;
    }
};

/* Words that were selected from runs: the upper 32 bits of the key decide whether one passes. */
struct word_64 {
    typedef uint64_t bits;
    typedef kin_word64 word;
};
struct word_128 {
    typedef kin_word128 bits;
    typedef kin_word128 word;
};

template <> struct scanned<word_64> : scanned<kin_value_u32> {
    static __device__ __forceinline__ uint32_t number_of(kin_word64 word, bool)
    {
        return (uint32_t)(word >> 32);
    }
};

template <> struct scanned<word_128> : scanned<kin_value_u32> {
    static __device__ __forceinline__ uint32_t number_of(kin_word128 word, bool)
    {
        return (uint32_t)(word >> 96);
    }
};

template <typename Value> struct run_reader {
    kin_device_row<Value> row;
    __device__ __forceinline__ run_reader(const kin_select_job &task, int64_t at) : row(task, at)
    {
    }
    __device__ __forceinline__ typename Value::word word(typename Value::bits bits,
                                                         int64_t place) const
    {
        return Value::make(bits, row.id(place), row.largest);
    }
    __device__ __forceinline__ const typename Value::bits *values() const
    {
        return row.values;
    }
    __device__ __forceinline__ bool largest() const
    {
        return row.largest;
    }
};

/* Rows of words have their ids inside. */
template <typename Word> struct word_reader {
    const Word *words;
    __device__ __forceinline__ word_reader(const kin_select_job &task, int64_t at)
        : words((const Word *)(task.values + at * task.stride_bytes))
    {
    }
    __device__ __forceinline__ Word word(Word bits, int64_t) const
    {
        return bits;
    }
    __device__ __forceinline__ const Word *values() const
    {
        return words;
    }
    __device__ __forceinline__ bool largest() const
    {
        return false;
    }
};
template <> struct run_reader<word_64> : word_reader<kin_word64> {
    using word_reader<kin_word64>::word_reader;
};
template <> struct run_reader<word_128> : word_reader<kin_word128> {
    using word_reader<kin_word128>::word_reader;
};

enum {
    SCAN_STREAMERS = 256,
    SCAN_THRESHOLDS = 4, /* warps that sample, and slots of theirs */
    SCAN_SAMPLERS = SCAN_THRESHOLDS * KIN_WARP,
    SCAN_SORTERS = 128,
    SCAN_THREADS = SCAN_STREAMERS + SCAN_SAMPLERS + SCAN_SORTERS,
    SCAN_STAGES = 3,     /* of the ring: one is read, the others are under way */
    SCAN_VECTORS = 1024, /* of a sample, */
    SCAN_LINE = 8,       /*   so many of them side by side: memory gives no less */
    SCAN_LEAST_GROUPS = 256,
    SCAN_RANK_BITS = 16,     /* of the range of group minima that the threshold is found to */
    SCAN_FEW = 128,          /* words whose ranks are counted among all */
    SCAN_BUCKETS = 1024,     /* else among those of a bucket, */
    SCAN_CROWD = 64,         /*   unless one has more */
    SCAN_CAREFUL_STEP = 1024 /* values between two looks at the buffer */
};

/* ---- The sample's arithmetic, which the host needs for the size of the buffer ---------------- */

/* The rank in a sample of S of n values whose value at least k of all values reach, with a chance
 * of some 10^-8 that they do not; lambda = k S / n. Poisson's tail by its normal one, and 6. */
static __host__ __device__ __forceinline__ int32_t scan_rank(int64_t k, float lambda)
{
    const float rank = lambda + 5.5f * sqrtf(lambda) + 6.0f;
    return rank < (float)k ? (int32_t)rank : (int32_t)k;
}

/* How many of the groups have a value at least, in a run of so many vectors. */
static __host__ __device__ __forceinline__ int32_t scan_filled(int32_t groups, int64_t vectors)
{
    return vectors < SCAN_VECTORS ? (int32_t)(groups * vectors / SCAN_VECTORS) : groups;
}

/* Of how many groups the least values are ranked: three times the rank if the sample has them. */
static __host__ __device__ __forceinline__ int32_t scan_groups(int32_t rank, int64_t vectors)
{
    int32_t groups = SCAN_LEAST_GROUPS;
    while (scan_filled(groups, vectors) < 3 * rank && groups < SCAN_VECTORS) {
        groups *= 2;
    }
    return groups;
}

/* Too many of the groups: their least values say too little. */
static __host__ __device__ __forceinline__ bool scan_blind(int32_t rank, int32_t groups,
                                                           int64_t vectors)
{
    return 3 * rank > 2 * scan_filled(groups, vectors);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

typedef struct scan_job {
    kin_select_job task;
    int64_t run;      /* values of a run, the last of a row may have fewer */
    int64_t runs;     /* of a row */
    int32_t capacity; /* words of a buffer */
    void *words; /* runs > 1: rows x runs x k words go here, worst ones where a run has fewer */
} scan_job;

/* Places [first, first + count) of a row: some values, whole vectors of 16 bytes, some values. */
template <typename Value> struct scan_run {
    typedef typename Value::bits Bits;
    static constexpr int EACH = 16 / (int)sizeof(Bits); /* values of a vector */

    run_reader<Value> reader;
    int64_t first;
    int32_t count;
    int32_t head; /* values before the first vector */
    int32_t vectors;

    __device__ __forceinline__ scan_run(const scan_job &job, int64_t part)
        : reader(job.task, part / job.runs), first(part % job.runs * job.run)
    {
        count = (int32_t)min(job.run, job.task.cols - first);
        const int32_t off = (int32_t)((uintptr_t)(reader.values() + first) & 15);
        head = min(count, off == 0 ? 0 : (16 - off) / (int32_t)sizeof(Bits));
        vectors = (count - head) / EACH;
    }
    __device__ __forceinline__ const uint4 *aligned() const
    {
        return (const uint4 *)(reader.values() + first + head);
    }
    static __device__ __forceinline__ void unpack(const uint4 &vector, Bits (&bits)[EACH])
    {
        memcpy(bits, &vector, sizeof vector);
    }
    __device__ __forceinline__ typename scanned<Value>::number number_of(Bits bits) const
    {
        return scanned<Value>::number_of(bits, reader.largest());
    }
};

/* ---- What a block shares --------------------------------------------------------------------- */

template <typename Value> struct scan_memory {
    static constexpr int LOADS = sizeof(typename Value::bits) == 2 ? 2 : 4; /* vectors of a step */
    uint4 ring[SCAN_STAGES][LOADS][SCAN_STREAMERS]; /* each thread reads what it loaded itself */
    uint32_t groups[SCAN_THRESHOLDS][SCAN_VECTORS];
    typename scanned<Value>::number threshold[SCAN_THRESHOLDS];
    int32_t count[2]; /* words that passed, more than the buffer holds perhaps */
    /* Sorters. */
    uint32_t ends[SCAN_BUCKETS];
    uint32_t sums[SCAN_SORTERS / KIN_WARP];
    uint32_t crowded[SCAN_SORTERS / KIN_WARP];
    uint32_t low; /* of the upper halves of keys; UINT32_MAX and 0 between two runs */
    uint32_t high;
    int32_t kept;
    alignas(16) typename Value::word buffers[1]; /* 2 x capacity, then capacity places of 16 bits */

    __device__ __forceinline__ typename Value::word *buffer(const scan_job &job, int slot)
    {
        return buffers + (int64_t)slot * job.capacity;
    }
    __device__ __forceinline__ uint16_t *members(const scan_job &job)
    {
        return (uint16_t *)(buffers + 2 * (int64_t)job.capacity);
    }
};

/* Named barriers; each plus the slot. Barrier 0 is __syncthreads. */
enum {
    THRESHOLD_THERE = 1,
    THRESHOLD_READ = THRESHOLD_THERE + SCAN_THRESHOLDS,
    BUFFER_FILLED = THRESHOLD_READ + SCAN_THRESHOLDS,
    BUFFER_FREE = BUFFER_FILLED + 2,
    SORTERS = BUFFER_FREE + 2
};

static __device__ __forceinline__ void scan_wait(int barrier, int threads)
{
    __syncwarp();
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

static __device__ __forceinline__ void scan_tell(int barrier, int threads)
{
    __syncwarp();
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/* ---- Samplers -------------------------------------------------------------------------------- */

/* Not below the rank-th smallest of `groups` orders in shared memory, and above it by less than
 * 2^-15 of their range: bit by bit the greatest distance from the least of them that has fewer than
 * rank below it. UINT32_MAX is no order, nor of the range: the answer where orders are fewer than
 * rank. One warp. */
static __device__ uint32_t scan_nth(const uint32_t *numbers, int32_t groups, int32_t rank)
{
    const int lane = (int)threadIdx.x % KIN_WARP;
    uint32_t low = UINT32_MAX;
    uint32_t high = 0;
    int32_t orders = 0;
#pragma unroll 8
    for (int32_t i = lane; i < groups; i += KIN_WARP) {
        const bool there = numbers[i] != UINT32_MAX;
        low = min(low, numbers[i]);
        high = there ? max(high, numbers[i]) : high;
        orders += there ? 1 : 0;
    }
    low = __reduce_min_sync(KIN_WARP_ALL, low);
    high = __reduce_max_sync(KIN_WARP_ALL, high);
    if (__reduce_add_sync(KIN_WARP_ALL, orders) < rank) {
        return UINT32_MAX;
    }
    if (low == high) {
        return low;
    }
    const int top = 31 - __clz((int)(high - low));
    const int last = max(0, top + 1 - SCAN_RANK_BITS);
    uint32_t found = 0;
    for (int bit = top; bit >= last; bit--) {
        const uint32_t trial = found | 1u << bit;
        int32_t below = 0;
#pragma unroll 8
        for (int32_t i = lane; i < groups; i += KIN_WARP) {
            below += numbers[i] - low < trial ? 1 : 0;
        }
        found = __reduce_add_sync(KIN_WARP_ALL, below) < rank ? trial : found;
    }
    return low + min(found | ((1u << last) - 1), high - low);
}

/* Least values of the sample's groups, of one or several vectors each. */
template <typename Value>
static __device__ void scan_sample(const scan_run<Value> &run, int32_t groups, uint32_t *least)
{
    constexpr int EACH = scan_run<Value>::EACH;
    constexpr int AT_ONCE = 8;
    const int32_t lane = (int32_t)threadIdx.x % KIN_WARP;
    const bool spread = run.vectors > SCAN_VECTORS;
    const int32_t together = SCAN_VECTORS / groups;
    uint32_t group = UINT32_MAX;
    for (int32_t j0 = 0; j0 < SCAN_VECTORS / KIN_WARP; j0 += AT_ONCE) {
        uint4 found[AT_ONCE];
#pragma unroll
        for (int32_t j = 0; j < AT_ONCE; j++) {
            const int32_t i = (j0 + j) * KIN_WARP + lane;
            const int64_t line =
                (int64_t)(i / SCAN_LINE) * run.vectors / (SCAN_VECTORS / SCAN_LINE);
            const int32_t at = spread ? (int32_t)(line / SCAN_LINE * SCAN_LINE) + i % SCAN_LINE : i;
            found[j] = at < run.vectors ? __ldg(run.aligned() + at) : uint4{0, 0, 0, 0};
        }
#pragma unroll
        for (int32_t j = 0; j < AT_ONCE; j++) {
            const bool there = spread || (j0 + j) * KIN_WARP + lane < run.vectors;
            typename Value::bits bits[EACH];
            run.unpack(found[j], bits);
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                const uint32_t order = scanned<Value>::order(run.number_of(bits[e]));
                group = there ? min(group, order) : group;
            }
            if ((j0 + j + 1) % together == 0) {
                least[(j0 + j) / together * KIN_WARP + lane] = group;
                group = UINT32_MAX;
            }
        }
    }
}

/* By one warp. */
template <typename Value>
static __device__ typename scanned<Value>::number
scan_threshold(const scan_job &job, const scan_run<Value> &run, uint32_t *least)
{
    constexpr int EACH = scan_run<Value>::EACH;
    const int64_t k = min(job.task.k, (int64_t)run.count);
    const int32_t taken = min(run.vectors, (int32_t)SCAN_VECTORS) * EACH;
    const int32_t rank = scan_rank(k, (float)k * (float)taken / (float)run.count);
    const int32_t groups = scan_groups(rank, run.vectors);
    uint32_t order = UINT32_MAX;
    if (!scan_blind(rank, groups, run.vectors)) {
        __syncwarp(); /* the groups of the run before were read */
        scan_sample(run, groups, least);
        __syncwarp();
        order = scan_nth(least, groups, rank);
    }
    return scanned<Value>::threshold(order);
}

/* ---- Streamers ------------------------------------------------------------------------------- */

/* Loads of the ring, some steps ahead of what is compared, across the borders of runs. */
template <typename Value> struct scan_ahead {
    static constexpr int LOADS = scan_memory<Value>::LOADS;
    const scan_job &job;
    scan_memory<Value> *memory;
    int64_t part;
    int64_t parts;
    const uint4 *at;
    uint64_t policy; /* the second-level cache had better keep samples */
    int32_t base;    /* vectors of the run that were asked for */
    int32_t vectors;
    int32_t stage;

    __device__ __forceinline__ scan_ahead(const scan_job &j, scan_memory<Value> *m, int64_t all)
        : job(j), memory(m), part(blockIdx.x), parts(all), stage(0)
    {
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
        open();
    }
    /* The run `part`, or the next that has a vector. */
    __device__ __forceinline__ void open()
    {
        base = 0;
        vectors = 0;
        for (; part < parts; part += gridDim.x) {
            const scan_run<Value> run(job, part);
            at = run.aligned();
            vectors = run.vectors;
            if (vectors > 0) {
                return;
            }
        }
    }
    __device__ __forceinline__ void ask()
    {
        const int thread = (int)threadIdx.x;
#pragma unroll
        for (int j = 0; j < LOADS; j++) {
            const int32_t i = base + j * SCAN_STREAMERS + thread;
            if (i < vectors) {
                const uint32_t to =
                    (uint32_t)__cvta_generic_to_shared(&memory->ring[stage][j][thread]);
                asm volatile(
                    "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to),
                    "l"(at + i), "l"(policy)
                    : "memory");
            }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        stage = stage + 1 == SCAN_STAGES ? 0 : stage + 1;
        base += LOADS * SCAN_STREAMERS;
        if (base >= vectors && part < parts) {
            part += gridDim.x;
            open();
        }
    }
};

template <typename Value> struct scan_stream {
    typedef typename Value::bits Bits;
    typedef typename scanned<Value>::number Number;
    static constexpr int EACH = scan_run<Value>::EACH;
    static constexpr int LOADS = scan_memory<Value>::LOADS;
    static_assert(LOADS * EACH <= 32, "a bit a value");

    const scan_run<Value> &run;
    Number threshold;
    typename Value::word *buffer;
    int32_t capacity;
    int32_t *count;

    __device__ __forceinline__ void keep(int32_t place, Bits bits, int32_t at) const
    {
        if (place < capacity) {
            buffer[place] = run.reader.word(bits, run.first + at);
        }
    }
    /* The hits of a lane in its column of a stage of the ring, vectors `vector`,
     * vector + SCAN_STREAMERS ... : rare, so the values are read again instead of being held. */
    __device__ __forceinline__ void take_hits(uint32_t hits, const uint4 *column,
                                              int32_t vector) const
    {
        int32_t place = atomicAdd(count, __popc(hits));
        for (; hits != 0; hits &= hits - 1) {
            const int32_t hit = __ffs((int)hits) - 1;
            const int32_t j = hit / EACH * SCAN_STREAMERS;
            const int32_t e = hit % EACH;
            keep(place, ((const Bits *)(column + j))[e], run.head + (vector + j) * EACH + e);
            place += 1;
        }
    }
    __device__ __forceinline__ void take(const uint4 *column, int32_t vector) const
    {
        uint4 found[LOADS];
#pragma unroll
        for (int j = 0; j < LOADS; j++) {
            found[j] = column[j * SCAN_STREAMERS];
        }
        uint32_t hits = 0;
#pragma unroll
        for (int j = 0; j < LOADS; j++) {
            Bits bits[EACH];
            run.unpack(found[j], bits);
            const uint32_t there = vector + j * SCAN_STREAMERS < run.vectors ? ~0u : 0u;
            uint32_t mask = 0;
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                mask |= run.number_of(bits[e]) <= threshold ? 1u << (j * EACH + e) : 0u;
            }
            hits |= mask & there;
        }
        if (hits != 0) {
            take_hits(hits, column, vector);
        }
    }
    /* The values before and behind the vectors: fewer than two vectors hold. */
    __device__ __forceinline__ void take_ends() const
    {
        const int32_t thread = (int32_t)threadIdx.x;
        const int32_t tail = run.count - run.head - run.vectors * EACH;
        if (thread < run.head + tail) {
            const int32_t at = thread < run.head ? thread : thread + run.vectors * EACH;
            const Bits bits = run.reader.values()[run.first + at];
            if (run.number_of(bits) <= threshold) {
                keep(atomicAdd(count, 1), bits, at);
            }
        }
    }
};

#endif
