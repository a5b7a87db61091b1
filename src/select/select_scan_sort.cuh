/* SPDX-License-Identifier: Apache-2.0
 * The sorters of a block that scans: what passed in a run becomes its answer.
 *
 * A word's place in the answer is its rank: the number of words before it. Few words are compared
 * with all; more are thrown into buckets by the upper half of their keys, at even widths between
 * the least and the greatest, and are compared with those of their bucket alone. Where a bucket is
 * crowded (equal keys, keys that lie badly) the words are sorted instead. */
#ifndef KIN_SELECT_SCAN_SORT_CUH
#define KIN_SELECT_SCAN_SORT_CUH

#include "select/select_scan_run.cuh"

static __device__ __forceinline__ int32_t scan_sorter(void)
{
    return (int32_t)threadIdx.x - SCAN_STREAMERS - SCAN_SAMPLERS;
}

static __device__ __forceinline__ void scan_sorters_wait(void)
{
    scan_wait(SORTERS, SCAN_SORTERS);
}

/* Words of the row's answer: to the outputs, or to where the answers of runs are gathered. */
template <typename Word> struct scan_output {
    const scan_job &job;
    int64_t part;

    __device__ __forceinline__ void put(int64_t rank, Word word) const
    {
        if (job.runs > 1) {
            ((Word *)job.words)[part * job.task.k + rank] = word;
        } else {
            kin_select_put(job.task, part, rank, word);
        }
    }
};

/* ---- Ranks ----------------------------------------------------------------------------------- */

/* Of words that are the same the earlier one is before the later. */
template <typename Word>
static __device__ __forceinline__ bool scan_before(Word a, int32_t at_a, Word b, int32_t at_b)
{
    return a < b || (a == b && at_a < at_b);
}

template <typename Word>
static __device__ void scan_rank_among_all(const scan_output<Word> &out, const Word *words,
                                           int32_t have, int32_t k)
{
    for (int32_t i = scan_sorter(); i < have; i += SCAN_SORTERS) {
        const Word word = words[i];
        int32_t rank = 0;
#pragma unroll 8
        for (int32_t j = 0; j < have; j++) {
            rank += scan_before(words[j], j, word, i) ? 1 : 0;
        }
        if (rank < k) {
            out.put(rank, word);
        }
    }
}

template <typename Word> static __device__ __forceinline__ uint32_t scan_upper(Word word)
{
    return (uint32_t)(word >> (8 * sizeof(Word) - 32));
}

/* Which bucket: even widths of values, as float32, where all are finite; else even widths of the
 * upper halves of keys. Every step is monotone, rounding too, so buckets are in the order of words.
 */
struct scan_buckets {
    float least;
    float scale; /* 0: by keys */
    uint32_t low;
    int32_t shift;
    kin_select_type dtype;

    static __device__ __forceinline__ float value(uint32_t upper, kin_select_type dtype)
    {
        if (dtype == KIN_SELECT_F64) {
            const uint64_t bits = kin_key64_bits((uint64_t)upper << 32, false);
            return (float)__longlong_as_double((long long)bits);
        }
        return __uint_as_float(kin_key32_bits(upper, false));
    }
    __device__ __forceinline__ scan_buckets(uint32_t lowest, uint32_t highest, kin_select_type type)
        : least(value(lowest, type)), scale(0), low(lowest), shift(0), dtype(type)
    {
        const float range = value(highest, type) - least;
        if (type != KIN_SELECT_KEYS && range > 0x1p-60f && range < 0x1p60f) {
            scale = (float)(SCAN_BUCKETS - 1) / range;
        }
        while ((highest - low) >> shift >= SCAN_BUCKETS) {
            shift++;
        }
    }
    __device__ __forceinline__ uint32_t of(uint32_t upper) const
    {
        return scale > 0 ? min((uint32_t)((value(upper, dtype) - least) * scale),
                               (uint32_t)SCAN_BUCKETS - 1)
                         : (upper - low) >> shift;
    }
};

/* ends[b] becomes the number of words in buckets before b. The largest count of the thread's own.
 */
static __device__ uint32_t scan_bucket_starts(uint32_t *ends, uint32_t *sums)
{
    constexpr int EACH = SCAN_BUCKETS / SCAN_SORTERS;
    const int32_t first = scan_sorter() * EACH;
    const int lane = (int)threadIdx.x % KIN_WARP;
    uint32_t counts[EACH];
    uint32_t sum = 0;
    uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        counts[i] = ends[first + i];
        sum += counts[i];
        most = max(most, counts[i]);
    }
    uint32_t upto = sum;
    for (int step = 1; step < KIN_WARP; step *= 2) {
        const uint32_t other = __shfl_up_sync(KIN_WARP_ALL, upto, step);
        upto += lane >= step ? other : 0;
    }
    if (lane == KIN_WARP - 1) {
        sums[scan_sorter() / KIN_WARP] = upto;
    }
    scan_sorters_wait();
    uint32_t before = upto - sum;
    for (int32_t warp = 0; warp < scan_sorter() / KIN_WARP; warp++) {
        before += sums[warp];
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        ends[first + i] = before;
        before += counts[i];
    }
    return most;
}

/* false: a bucket is crowded, and nothing was written. */
template <typename Value>
static __device__ bool
scan_rank_in_buckets(const scan_output<typename Value::word> &out, scan_memory<Value> *memory,
                     const typename Value::word *words, int32_t have, int32_t k)
{
    typedef typename Value::word Word;
    uint16_t *members = memory->members(out.job);
    uint32_t low = UINT32_MAX;
    uint32_t high = 0;
#pragma unroll 4
    for (int32_t i = scan_sorter(); i < have; i += SCAN_SORTERS) {
        low = min(low, scan_upper(words[i]));
        high = max(high, scan_upper(words[i]));
    }
    for (int32_t b = scan_sorter(); b < SCAN_BUCKETS; b += SCAN_SORTERS) {
        memory->ends[b] = 0;
    }
    low = __reduce_min_sync(KIN_WARP_ALL, low);
    high = __reduce_max_sync(KIN_WARP_ALL, high);
    if (scan_sorter() % KIN_WARP == 0) {
        atomicMin(&memory->low, low);
        atomicMax(&memory->high, high);
    }
    scan_sorters_wait();
    const scan_buckets buckets(memory->low, memory->high, out.job.task.dtype);
#pragma unroll 4
    for (int32_t i = scan_sorter(); i < have; i += SCAN_SORTERS) {
        atomicAdd(&memory->ends[buckets.of(scan_upper(words[i]))], 1u);
    }
    scan_sorters_wait();
    if (scan_sorter() == 0) { /* everybody has read them */
        memory->low = UINT32_MAX;
        memory->high = 0;
    }
    const uint32_t most = scan_bucket_starts(memory->ends, memory->sums);
    memory->crowded[scan_sorter() / KIN_WARP] = __reduce_max_sync(KIN_WARP_ALL, most);
    scan_sorters_wait();
    for (int32_t warp = 0; warp < SCAN_SORTERS / KIN_WARP; warp++) {
        if (memory->crowded[warp] > SCAN_CROWD) {
            return false;
        }
    }
#pragma unroll 4
    for (int32_t i = scan_sorter(); i < have; i += SCAN_SORTERS) {
        const uint32_t bucket = buckets.of(scan_upper(words[i]));
        members[atomicAdd(&memory->ends[bucket], 1u)] = (uint16_t)i;
    }
    scan_sorters_wait();
    /* In the order of buckets, so that a warp's words are of few, and go to places side by side. */
    for (int32_t i = scan_sorter(); i < have; i += SCAN_SORTERS) {
        const int32_t own = members[i];
        const Word word = words[own];
        const uint32_t bucket = buckets.of(scan_upper(word));
        const int32_t begin = bucket == 0 ? 0 : (int32_t)memory->ends[bucket - 1];
        const int32_t end = (int32_t)memory->ends[bucket];
        if (begin >= k) {
            break;
        }
        int32_t rank = begin;
#pragma unroll 2
        for (int32_t j = begin; j < end; j++) {
            const int32_t at = members[j];
            rank += scan_before(words[at], at, word, own) ? 1 : 0;
        }
        if (rank < k) {
            out.put(rank, word);
        }
    }
    return true;
}

/* ---- Sorting --------------------------------------------------------------------------------- */

template <typename Word>
static __device__ __forceinline__ void scan_exchange(Word *words, int32_t low, int32_t high,
                                                     int32_t have)
{
    if (high < have) {
        const Word a = words[low];
        const Word b = words[high];
        if (b < a) {
            words[low] = b;
            words[high] = a;
        }
    }
}

/* Bitonic, of any number of words: a merge begins with the mirror image of its upper half, so that
 * every exchange rises, and those with a place behind the last word would change nothing. Begins
 * and ends with a barrier. */
template <typename Word> static __device__ __noinline__ void scan_sort(Word *words, int32_t have)
{
    const int32_t pairs = (int32_t)kin_sort_places(have) / 2;
    for (int32_t size = 2; size <= 2 * pairs; size *= 2) {
        scan_sorters_wait();
        for (int32_t i = scan_sorter(); i < pairs; i += SCAN_SORTERS) {
            const int32_t inside = i & (size / 2 - 1);
            const int32_t begin = 2 * (i - inside);
            scan_exchange(words, begin + inside, begin + size - 1 - inside, have);
        }
        for (int32_t stride = size / 4; stride > 0; stride /= 2) {
            scan_sorters_wait();
            for (int32_t i = scan_sorter(); i < pairs; i += SCAN_SORTERS) {
                const int32_t low = 2 * i - (i & (stride - 1));
                scan_exchange(words, low, low + stride, have);
            }
        }
    }
    scan_sorters_wait();
}

/* Values of a step of the careful way, asked for while the step before is worked on. */
template <typename Value> struct scan_values {
    static constexpr int EACH = SCAN_CAREFUL_STEP / SCAN_SORTERS;
    typename Value::bits bits[EACH];

    __device__ __forceinline__ void load(const scan_run<Value> &run, int32_t base, int32_t end)
    {
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const int32_t at = base + j * SCAN_SORTERS + scan_sorter();
            bits[j] = at < end ? run.reader.values()[run.first + at] : (typename Value::bits)0;
        }
    }
};

/* Any run: its best k, ascending, to the buffer. At first the buffer holds `passed` words of the
 * run, whose k-th, if there are k, none of the best is behind. */
template <typename Value>
static __device__ void scan_careful(const scan_job &job, const scan_run<Value> &run, int32_t passed,
                                    typename Value::word *buffer, int32_t *kept)
{
    typedef typename Value::word Word;
    const int32_t k = (int32_t)min(job.task.k, (int64_t)run.count);
    const int32_t step = min((int32_t)SCAN_CAREFUL_STEP, job.capacity - k);
    Word worst = kin_word_worst<Word>();
    bool full = false; /* the buffer begins with the best k so far, and `worst` is one of them */
    scan_values<Value> next;
    next.load(run, 0, min(step, run.count));
    if (passed >= k) {
        scan_sort(buffer, passed);
        worst = buffer[k - 1];
        scan_sorters_wait();
    }
    if (scan_sorter() == 0) {
        *kept = 0;
    }
    for (int32_t base = 0; base < run.count; base += step) {
        const int32_t end = min(base + step, run.count);
        const scan_values<Value> now = next;
        next.load(run, base + step, min(end + step, run.count));
        scan_sorters_wait(); /* the count is that of the step before */
#pragma unroll
        for (int j = 0; j < scan_values<Value>::EACH; j++) {
            const int32_t at = base + j * SCAN_SORTERS + scan_sorter();
            if (at < end) {
                const Word word = run.reader.word(now.bits[j], run.first + at);
                if (word < worst || (!full && word == worst)) {
                    buffer[atomicAdd(kept, 1)] = word;
                }
            }
        }
        scan_sorters_wait();
        const int32_t have = *kept;
        if (have + step > job.capacity || end == run.count) {
            scan_sort(buffer, have);
            full = have >= k;
            worst = full ? buffer[k - 1] : worst;
            if (scan_sorter() == 0) {
                *kept = min(have, k);
            }
        }
    }
}

/* ---- A run ----------------------------------------------------------------------------------- */

/* What passed in run `part`, which lies in a slot, becomes its answer; the slot is empty then. */
template <typename Value>
static __device__ void scan_finish(const scan_job &job, scan_memory<Value> *memory, int64_t part,
                                   int slot)
{
    typedef typename Value::word Word;
    const scan_run<Value> run(job, part);
    const scan_output<Word> out = {job, part};
    const int32_t k = (int32_t)min(job.task.k, (int64_t)run.count);
    Word *buffer = memory->buffer(job, slot);
    int32_t have = memory->count[slot];
    bool done = false;
    if (have < k || have > job.capacity) {
        scan_careful(job, run, min(have, job.capacity), buffer, &memory->kept);
        have = k;
    } else if (have <= SCAN_FEW) {
        scan_rank_among_all(out, buffer, have, k);
        done = true;
    } else {
        done = scan_rank_in_buckets(out, memory, buffer, have, k);
        if (!done) {
            scan_sort(buffer, have);
        }
    }
    for (int64_t i = scan_sorter(); !done && i < k; i += SCAN_SORTERS) {
        out.put(i, buffer[i]);
    }
    for (int64_t i = k + scan_sorter(); i < job.task.k; i += SCAN_SORTERS) {
        out.put(i, kin_word_worst<Word>());
    }
    scan_sorters_wait();
    if (scan_sorter() == 0) {
        memory->count[slot] = 0;
    }
}

#endif
