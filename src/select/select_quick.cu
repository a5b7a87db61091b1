/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Quick multi-select (Komarov, Dashti and D'Souza 2014, section "GPU-Based Quick
 * Multi-Select"): a row is parted by a pivot, and only the side that holds the k-th word is parted
 * again. Warps take 32 words at a time; votes (ballot, popc) say where each goes, shared memory
 * gathers both sides, and two coalesced writes put them to the left and to the right end of the
 * other one of two buffers.
 *
 *   read    | w w w w w w w w |            32 words, here four times before a write
 *   staged  | < < < < . . > > > |          places by popc of the votes before a lane
 *   buffer  | left -->      <-- right |    places by one addition a side and warp
 *
 *   stack   a left side that belongs to the answer as a whole stays where it was written; a stack
 *           of references (buffer, begin, count) remembers it, and it is copied once, at the end
 *   shape   many short rows: a warp has a row, no barriers. Else a block has a row, all of whose
 *           warps draw places from the same two counters, which replaces the paper's prefix sum
 *           over warps. Few long rows: blocks take parts of them, then their answers once more
 *
 * Pivot. 32 words at even strides, one a lane, sorted by shuffles; the pivot is the one that most
 * probably leaves the k-th on the shorter side: a bit above its expected rank while that is in the
 * lower half, else a bit below. Data made against this cannot do harm: after QUICK_ROUNDS parts,
 * and where a sample has nothing below its pivot, the middle of the range of words that is left is
 * the pivot instead.
 *
 * Ties. Words are compared as a whole. Where the range has come down to one word, all are equal,
 * and any of them will do.
 *
 * Cost. Each word is read once and written once in the first part, which leaves a sixteenth for
 * k << n. On random data all parts together read and write 1.1 times the words of the row for
 * k << n, 1.5 times for k = n / 8, 2.4 times for k = n / 2. At worst there are QUICK_ROUNDS + 64
 * (float64: 96) parts.
 *
 * Limits. None of k and cols. Scratch: twice the words of all rows (parts) that are under way. */
#include "select/select_block.cuh"

#include <math.h>

/* ---- Where to cut ---------------------------------------------------------------------------- */

/* Where quick select cuts: places and rank of a sample of 32, and the middle of a range of words
 * for data that samples do not help with. For host and device. */

enum { KIN_PIVOT_SAMPLE = 32 };

/* All words that are left are in [low, high]. */
template <typename Word> struct pivot_range {
    Word low;
    Word high;
};

/* Where lane takes its word of a part of `size` words: even strides, moved with each round. */
KIN_SELECT_HD uint32_t pivot_place(uint32_t lane, uint32_t size, uint32_t round)
{
    const uint32_t moved = (round * 2654435769u + 2654435769u) >> 8; /* 24 bits */
    const uint64_t stride = ((uint64_t)size << 24) / KIN_PIVOT_SAMPLE;
    return (uint32_t)((lane * stride + moved * (stride >> 24)) >> 24);
}

/* Of the sorted sample: the rank that leaves the need-th word of `size` on the shorter side, by one
 * and a half standard deviations of a sample's rank and one more. 1 .. 31. */
KIN_SELECT_HD int32_t pivot_rank(uint32_t need, uint32_t size)
{
    const float share = (float)need / (float)size;
    const float spread = 1.5f * sqrtf(KIN_PIVOT_SAMPLE * share * (1 - share)) + 1;
    const float rank = KIN_PIVOT_SAMPLE * share + (share < 0.5f ? spread : -spread);
    const int32_t whole = (int32_t)rank;
    return whole < 1 ? 1 : whole > KIN_PIVOT_SAMPLE - 1 ? KIN_PIVOT_SAMPLE - 1 : whole;
}

/* low < middle <= high. Bits between key and id, which are 0 in every word, are not halved. */
KIN_SELECT_HD kin_word64 pivot_middle(pivot_range<kin_word64> *range)
{
    return range->low + (range->high - range->low) / 2 + 1;
}

KIN_SELECT_HD kin_word128 pivot_middle(pivot_range<kin_word128> *range)
{
    const kin_word128 last = (range->low >> 64 << 64) | UINT32_MAX;
    if (range->low < last && last < range->high && range->low >> 64 == range->high >> 64) {
        range->high = last;
    }
    return range->low + (range->high - range->low) / 2 + 1;
}

enum {
    SEGMENTS = 4, /* of 32 words that a warp parts before it writes */
    STAGE = SEGMENTS * KIN_WARP,
    BLOCK_THREADS = 512, /* with a row */
    BLOCKS_A_PROCESSOR = 2,
    WARPS_BLOCK = 128, /* threads of a block whose warps have a row each */
    WARPS_A_PROCESSOR = 32,
    WARP_COLS = 8192,   /* the longest row for a warp */
    BLOCK_LEAF = 1024,  /* words that a block sorts instead */
    LEAST_PART = 65536, /* values that are worth a block */
    LEAST_K_SHARE = 8,  /* a part is at least this many times k */
    QUICK_ROUNDS = 40,
    MOST_REFERENCES = QUICK_ROUNDS + 128 + 2
};

/* Where words are. */
typedef enum place { BUFFER_A = 0, BUFFER_B = 1, SOURCE = 2 } place;

typedef struct reference {
    uint32_t begin;
    uint32_t count;
    place where;
} reference;

/* What the threads of one row share. */
template <typename Word, int32_t WARPS> struct group_memory {
    Word stage[WARPS * STAGE];
    reference stack[MOST_REFERENCES];
    uint32_t sides[2]; /* words less than the pivot, and the others */
};

/* What is selected from: places [first, first + count) of a row, or words. */
template <typename Value> struct row_source {
    typedef typename Value::word word;
    kin_device_row<Value> row;
    int64_t first;
    __device__ __forceinline__ word at(uint32_t i) const
    {
        return row.word(first + i);
    }
};

template <typename Word> struct word_source {
    typedef Word word;
    const Word *words;
    __device__ __forceinline__ word at(uint32_t i) const
    {
        return words[i];
    }
};

template <int32_t WARPS> static __device__ __forceinline__ void group_barrier(void)
{
    if (WARPS == 1) {
        __syncwarp();
    } else {
        __syncthreads();
    }
}

template <int32_t WARPS> static __device__ __forceinline__ uint32_t thread_in_group(void)
{
    return threadIdx.x % (WARPS * KIN_WARP);
}

/* A group's words in every place. */
template <typename Source> struct places {
    typedef typename Source::word word;
    Source source;
    word *buffers;
    uint32_t room; /* words of a buffer */
    __device__ __forceinline__ word at(place where, uint32_t i) const
    {
        return where == SOURCE ? source.at(i) : buffers[(int64_t)where * room + i];
    }
};

/* Where words go from there. */
static __device__ __forceinline__ place buffer_behind(place where)
{
    return where == BUFFER_A ? BUFFER_B : BUFFER_A;
}

/* Words [begin, end) of `from` go to both ends of that range in the buffer behind it, the lesser
 * ones to its left. sides count from 0. All threads of the group call it; no barrier at its ends.
 */
template <typename Source, int32_t WARPS>
static __device__ __forceinline__ void
part_words(const places<Source> words_of, place from, uint32_t begin, uint32_t end,
           typename Source::word pivot, group_memory<typename Source::word, WARPS> &memory)
{
    typedef typename Source::word word;
    const uint32_t lane = threadIdx.x % KIN_WARP;
    const uint32_t warp = thread_in_group<WARPS>() / KIN_WARP;
    word *stage = memory.stage + warp * STAGE;
    word *out = words_of.buffers + (int64_t)buffer_behind(from) * words_of.room;
    /* 64 bits: a turn may end beyond 2^32. */
    for (int64_t first = (int64_t)begin + warp * STAGE; first < end; first += WARPS * STAGE) {
        word words[SEGMENTS];
#pragma unroll
        for (uint32_t s = 0; s < SEGMENTS; s++) {
            const int64_t at = first + s * KIN_WARP + lane;
            words[s] = at < end ? words_of.at(from, (uint32_t)at) : (word)0;
        }
        uint32_t left = 0;
        uint32_t right = 0;
#pragma unroll
        for (uint32_t s = 0; s < SEGMENTS; s++) {
            const bool in = first + s * KIN_WARP + lane < end;
            const bool less = words[s] < pivot;
            const uint32_t lefts = __ballot_sync(KIN_WARP_ALL, in && less);
            const uint32_t rights = __ballot_sync(KIN_WARP_ALL, in && !less);
            if (in) {
                const uint32_t before =
                    (uint32_t)__popc((less ? lefts : rights) & kin_lanes_before());
                stage[less ? left + before : STAGE - 1 - right - before] = words[s];
            }
            left += (uint32_t)__popc(lefts);
            right += (uint32_t)__popc(rights);
        }
        uint32_t drawn = 0;
        if (lane < 2) {
            drawn = atomicAdd(&memory.sides[lane], lane == 0 ? left : right);
        }
        const uint32_t to_left = begin + __shfl_sync(KIN_WARP_ALL, drawn, 0);
        const uint32_t to_right = end - 1 - __shfl_sync(KIN_WARP_ALL, drawn, 1);
        __syncwarp(); /* both sides are staged */
        for (uint32_t i = lane; i < left; i += KIN_WARP) {
            out[to_left + i] = stage[i];
        }
        for (uint32_t i = lane; i < right; i += KIN_WARP) {
            out[to_right - i] = stage[STAGE - 1 - i];
        }
        __syncwarp(); /* before the stage is overwritten */
    }
}

/* The same pivot for all threads, each warp by itself. */
template <typename Source>
static __device__ __forceinline__ typename Source::word
sample_pivot(const places<Source> words_of, place where, uint32_t begin, uint32_t size,
             uint32_t need, uint32_t round)
{
    const uint32_t lane = threadIdx.x % KIN_WARP;
    const uint32_t at = begin + pivot_place(lane, size, round);
    const typename Source::word sorted = kin_warp_sort(words_of.at(where, at));
    return kin_warp_word(sorted, pivot_rank(need, size));
}

/* The first k words of `cols` of a source to answer, in any order. All threads of the group call
 * it; memory may be used again at once. */
template <typename Source, int32_t WARPS>
static __device__ __forceinline__ void
select_group(const places<Source> words_of, uint32_t cols, uint32_t k,
             group_memory<typename Source::word, WARPS> &memory, typename Source::word *answer)
{
    typedef typename Source::word word;
    constexpr uint32_t threads = WARPS * KIN_WARP;
    constexpr uint32_t leaf = WARPS == 1 ? KIN_WARP : BLOCK_LEAF;
    const uint32_t thread = thread_in_group<WARPS>();
    pivot_range<word> range = {0, kin_word_worst<word>()};
    place where = SOURCE;
    uint32_t begin = 0;
    uint32_t end = cols;
    uint32_t need = k;
    uint32_t depth = 0;
    for (uint32_t round = 0; need != end - begin && end - begin > leaf && range.low != range.high;
         round++) {
        word pivot = range.low;
        if (round < QUICK_ROUNDS) {
            pivot = sample_pivot(words_of, where, begin, end - begin, need, round);
        }
        if (pivot <= range.low) {
            pivot = pivot_middle(&range);
        }
        if (thread < 2) {
            memory.sides[thread] = 0;
        }
        const place to = buffer_behind(where);
        group_barrier<WARPS>(); /* counters are clear */
        part_words<Source, WARPS>(words_of, where, begin, end, pivot, memory);
        group_barrier<WARPS>(); /* both sides are written */
        const uint32_t left = memory.sides[0];
        group_barrier<WARPS>(); /* all have read it */
        where = to;
        if (left >= need) {
            range.high = pivot - 1;
            end = begin + left;
            continue;
        }
        range.low = pivot;
        if (left != 0) {
            if (thread == 0) {
                memory.stack[depth] = reference{begin, left, to};
            }
            depth += 1;
            begin += left;
            need -= left;
        }
    }
    const uint32_t size = end - begin;
    const bool sorts = need != size && size <= leaf;
    if (sorts) {
        const uint32_t places = WARPS == 1 ? KIN_WARP : (uint32_t)kin_sort_places(size);
        for (uint32_t i = thread; i < places; i += threads) {
            memory.stage[i] = i < size ? words_of.at(where, begin + i) : kin_word_worst<word>();
        }
        if (WARPS == 1) {
            const word sorted = kin_warp_sort(memory.stage[thread]);
            memory.stage[thread] = sorted;
        } else {
            kin_block_sort(memory.stage, (int32_t)places, (int32_t)threads);
        }
        for (uint32_t i = thread; i < need; i += threads) {
            answer[i] = memory.stage[i];
        }
    } else {
        for (uint32_t i = thread; i < need; i += threads) {
            answer[i] = words_of.at(where, begin + i);
        }
    }
    uint32_t written = need;
    group_barrier<WARPS>(); /* the stack is complete */
    for (uint32_t d = 0; d < depth; d++) {
        const reference kept = memory.stack[d];
        for (uint32_t i = thread; i < kept.count; i += threads) {
            answer[written + i] = words_of.at(kept.where, kept.begin + i);
        }
        written += kept.count;
    }
    group_barrier<WARPS>(); /* stack and buffers may be overwritten */
}

/* Unit u = part u % parts of row u / parts; each group has two buffers of `part` words. */
template <typename Value, int32_t WARPS, int32_t THREADS, int32_t BLOCKS>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    rows_kernel(const __grid_constant__ kin_select_job task, int64_t parts, int64_t part,
                typename Value::word *buffers, typename Value::word *answers)
{
    typedef typename Value::word word;
    constexpr int32_t groups = THREADS / (WARPS * KIN_WARP);
    extern __shared__ uint4 shared[];
    const int32_t group = (int32_t)threadIdx.x / (WARPS * KIN_WARP);
    group_memory<word, WARPS> &memory = ((group_memory<word, WARPS> *)shared)[group];
    const int64_t own = (int64_t)blockIdx.x * groups + group;
    for (int64_t u = own; u < task.rows * parts; u += (int64_t)gridDim.x * groups) {
        const int64_t r = u / parts;
        const int64_t first = (u - r * parts) * part;
        const row_source<Value> source = {kin_device_row<Value>(task, r), first};
        const int64_t cols = min(part, task.cols - first);
        select_group<row_source<Value>, WARPS>({source, buffers + own * 2 * part, (uint32_t)part},
                                               (uint32_t)cols, (uint32_t)task.k, memory,
                                               answers + u * task.k);
    }
}

/* A block a row: from `count` words of each to k. */
template <typename Word>
static __global__ void __launch_bounds__(BLOCK_THREADS, BLOCKS_A_PROCESSOR)
    words_kernel(const __grid_constant__ kin_select_job task, const Word *words, int64_t count,
                 Word *buffers, Word *answers)
{
    constexpr int32_t warps = BLOCK_THREADS / KIN_WARP;
    extern __shared__ uint4 shared[];
    group_memory<Word, warps> &memory = *(group_memory<Word, warps> *)shared;
    const int64_t r = blockIdx.x;
    const word_source<Word> source = {words + r * count};
    select_group<word_source<Word>, warps>({source, buffers + r * 2 * count, (uint32_t)count},
                                           (uint32_t)count, (uint32_t)task.k, memory,
                                           answers + r * task.k);
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* Bytes from the beginning of the scratch. */
typedef struct plan {
    bool warps;     /* have a row each */
    int64_t groups; /* under way */
    int64_t parts;  /* of a row */
    int64_t part;   /* values */
    uint64_t between;
    uint64_t buffers;
    uint64_t finish;
    uint64_t bytes;
} plan;

static plan plan_of(kin_gpu_stream *stream, const kin_select_job *task)
{
    plan p = {};
    const uint64_t word = (uint64_t)kin_word_bytes(task->dtype);
    const uint64_t answer = (uint64_t)task->rows * (uint64_t)task->k * word;
    const int64_t blocks = (int64_t)stream->processors * BLOCKS_A_PROCESSOR;
    const int64_t warps = (int64_t)stream->processors * WARPS_A_PROCESSOR;
    p.warps = task->cols <= WARP_COLS && task->rows >= warps / 2;
    const int64_t least = max((int64_t)LEAST_PART, LEAST_K_SHARE * task->k);
    const int64_t parts = max(min(blocks / task->rows, task->cols / least), (int64_t)1);
    p.part = (task->cols + parts - 1) / parts;
    p.parts = (task->cols + p.part - 1) / p.part;
    p.groups = min(task->rows * p.parts, p.warps ? warps : blocks);
    p.between = kin_scratch_behind(0, answer);
    p.buffers = p.between + (p.parts > 1 ? kin_scratch_behind(0, answer * (uint64_t)p.parts) : 0);
    p.finish = kin_scratch_behind(p.buffers, (uint64_t)p.groups * 2 * (uint64_t)p.part * word);
    p.bytes = p.finish + kin_select_finish_scratch(stream, task, false);
    return p;
}

template <typename Value, int32_t WARPS, int32_t THREADS, int32_t BLOCKS>
static int rows_launch(kin_gpu_stream *stream, const kin_select_job *task, const plan *p,
                       typename Value::word *answers)
{
    typedef typename Value::word word;
    constexpr int32_t groups = THREADS / (WARPS * KIN_WARP);
    constexpr int32_t bytes = groups * (int32_t)sizeof(group_memory<word, WARPS>);
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, rows_kernel<Value, WARPS, THREADS, BLOCKS>));
    rows_kernel<Value, WARPS, THREADS, BLOCKS>
        <<<(unsigned)((p->groups + groups - 1) / groups), THREADS, bytes, stream->stream>>>(
            *task, p->parts, p->part, (word *)((char *)task->scratch + p->buffers), answers);
    return kin_gpu_launched();
}

template <typename Word>
static int words_launch(kin_gpu_stream *stream, const kin_select_job *task, const plan *p)
{
    constexpr int32_t bytes = (int32_t)sizeof(group_memory<Word, BLOCK_THREADS / KIN_WARP>);
    char *scratch = (char *)task->scratch;
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, words_kernel<Word>));
    words_kernel<Word><<<(unsigned)task->rows, BLOCK_THREADS, bytes, stream->stream>>>(
        *task, (const Word *)(scratch + p->between), p->parts * task->k,
        (Word *)(scratch + p->buffers), (Word *)scratch);
    return kin_gpu_launched();
}

template <typename Value>
static int quick_launch(kin_gpu_stream *stream, const kin_select_job *task)
{
    typedef typename Value::word word;
    const plan p = plan_of(stream, task);
    if (p.bytes > task->scratch_bytes) {
        return (int)cudaErrorInvalidValue;
    }
    char *scratch = (char *)task->scratch;
    word *answers = (word *)(p.parts > 1 ? scratch + p.between : scratch);
    int failed;
    if (p.warps) {
        failed = rows_launch<Value, 1, WARPS_BLOCK, WARPS_A_PROCESSOR * KIN_WARP / WARPS_BLOCK>(
            stream, task, &p, answers);
    } else {
        failed = rows_launch<Value, BLOCK_THREADS / KIN_WARP, BLOCK_THREADS, BLOCKS_A_PROCESSOR>(
            stream, task, &p, answers);
    }
    if (failed == 0 && p.parts > 1) {
        failed = words_launch<word>(stream, task, &p);
    }
    return failed != 0 ? failed
                       : kin_select_finish(stream, task, scratch, false, scratch + p.finish);
}

uint64_t kin_select_quick_scratch(kin_gpu_stream *stream, const kin_select_job *task)
{
    return plan_of(stream, task).bytes;
}

int kin_select_quick_launch(kin_gpu_stream *stream, const kin_select_job *task)
{
    KIN_SELECT_BY_TYPE(task->dtype, quick_launch, stream, task)
}
