/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Lists change hands three times: the screen's become a graph (adopt), what points were
 * offered enters them (merge), and at the end they become lists of the screen again, whose
 * rescoring finishes the answer (hand). Where they shall find more they become longer (stretch). A
 * warp has a list. What GPUs of a team exchange of lists stands at the end.
 *
 *   adopt   up to 128 entries wanted: a bitonic network in registers sorts 32 R entries; longer
 *           lists come in turns, each merged into the best so far, and those with nothing better
 *           than the last of these are not sorted. More entries: a block of threads, the same in
 *           shared memory.
 *   merge   graph_warp.cuh.
 *
 * Cost. One read of what is there, one write of what changes. In a late round most points were
 * offered nothing: 256 bytes of offers and the last word of the list are read, and that is all.
 */
#include "graph/graph_kernels.h"
#include "graph/graph_warp.cuh"
#include "select/select_block.cuh"

#include <cuda_runtime.h>

enum {
    HELD_WORDS = 128,    /* entries that a warp sorts */
    SHARED_WORDS = 4096, /* that a block sorts: above MOST_LIST */
    BLOCK = 256
};

/* ---- adopt ----------------------------------------------------------------------------------- */

/* Entry i of a list as a word of the graph: its own position and what is behind the end are none.
 */
static __device__ __forceinline__ uint64_t adopted(const uint64_t *list, int32_t count, int64_t i,
                                                   int64_t point)
{
    if (i >= count) {
        return KIN_GRAPH_EMPTY;
    }
    const uint64_t word = list[i];
    const uint32_t position = (uint32_t)word;
    return position == (uint32_t)point ? KIN_GRAPH_EMPTY
                                       : kin_graph_word((uint32_t)(word >> 32), position, 1);
}

/* A pair that the screen met twice stands in its list twice. */
template <int R> static __device__ __forceinline__ void drop_same(uint64_t (&words)[R])
{
    bool again = true;
    while (again) {
        bool same[R];
        bool any = false;
        kin_graph_gpu_same<R>(words, same);
#pragma unroll
        for (int r = 0; r < R; r++) {
            same[r] = same[r] && words[r] != KIN_GRAPH_EMPTY;
            words[r] = same[r] ? KIN_GRAPH_EMPTY : words[r];
            any = any || same[r];
        }
        again = __any_sync(KIN_GRAPH_GPU_LANES, any);
        if (again) {
            kin_graph_gpu_sort<R>(words);
        }
    }
}

template <int R>
static __global__ void __launch_bounds__(KIN_GRAPH_GPU_THREADS)
    adopt_short_kernel(const __grid_constant__ kin_graph_gpu_adopt job)
{
    const int lane = kin_graph_gpu_lane();
    const int32_t length = job.graph.length;
    for (int64_t point = job.graph.first + kin_graph_gpu_first();
         point < kin_graph_gpu_behind(&job.graph); point += kin_graph_gpu_step()) {
        const uint64_t *list = job.lists.words + point * job.lists.capacity;
        const int32_t count = min(job.lists.counts[point], job.lists.capacity);
        uint64_t best[R];
#pragma unroll
        for (int r = 0; r < R; r++) {
            best[r] = adopted(list, count, r * 32 + lane, point);
        }
        kin_graph_gpu_sort<R>(best);
        for (int32_t first = 32 * R; first < count; first += 32 * R) {
            const uint64_t last = __shfl_sync(KIN_GRAPH_GPU_LANES, best[R - 1], 31);
            uint64_t next[R];
            bool better = false;
#pragma unroll
            for (int r = 0; r < R; r++) {
                next[r] = adopted(list, count, first + r * 32 + lane, point);
                better = better || next[r] < last;
            }
            if (__any_sync(KIN_GRAPH_GPU_LANES, better)) {
                kin_graph_gpu_sort<R>(next);
                kin_graph_gpu_join_sorted<R>(best, next);
            }
        }
        drop_same<R>(best);
        uint64_t *own = job.graph.words + point * length;
        if constexpr (R == 1) {
            if (lane < length) {
                own[lane] = best[0];
            }
        } else {
#pragma unroll
            for (int r = 0; r < R; r += 2) {
                const int i = lane * R + r; /* even, as length is */
                if (i < length) {
                    *(ulonglong2 *)(own + i) = make_ulonglong2(best[r], best[r + 1]);
                }
            }
        }
    }
}

/* Sorts the first `count` words, which are followed by room up to a power of two. */
static __device__ void block_sort(uint64_t *words, int32_t count)
{
    const int32_t places = (int32_t)kin_sort_places(count);
    for (int32_t i = count + (int32_t)threadIdx.x; i < places; i += BLOCK) {
        words[i] = KIN_GRAPH_EMPTY;
    }
    kin_block_sort(words, places, BLOCK);
}

static __global__ void __launch_bounds__(BLOCK)
    adopt_long_kernel(const __grid_constant__ kin_graph_gpu_adopt job)
{
    __shared__ uint64_t words[SHARED_WORDS];
    const int32_t length = job.graph.length;
    const int32_t thread = (int32_t)threadIdx.x;
    for (int64_t point = job.graph.first + blockIdx.x; point < kin_graph_gpu_behind(&job.graph);
         point += gridDim.x) {
        const uint64_t *list = job.lists.words + point * job.lists.capacity;
        const int32_t count = min(job.lists.counts[point], job.lists.capacity);
        int32_t kept = 0;
        for (int32_t first = 0; first < count;) {
            const int32_t added = min(count - first, SHARED_WORDS - kept);
            for (int32_t i = thread; i < added; i += BLOCK) {
                words[kept + i] = adopted(list, count, first + i, point);
            }
            first += added;
            block_sort(words, kept + added);
            kept = min(kept + added, length);
        }
        bool again = kept > 1;
        while (again) {
            /* All have compared before anybody writes. */
            uint32_t same = 0;
            for (int32_t i = thread, bit = 0; i < kept; i += BLOCK, bit++) {
                const bool equal = i > 0 && words[i] == words[i - 1];
                same |= equal && words[i] != KIN_GRAPH_EMPTY ? 1u << bit : 0;
            }
            again = __syncthreads_or(same != 0) != 0;
            for (int32_t i = thread, bit = 0; i < kept; i += BLOCK, bit++) {
                words[i] = (same >> bit & 1u) != 0 ? KIN_GRAPH_EMPTY : words[i];
            }
            if (again) {
                block_sort(words, kept);
            }
        }
        for (int32_t i = thread; i < length; i += BLOCK) {
            job.graph.words[point * length + i] = i < kept ? words[i] : KIN_GRAPH_EMPTY;
        }
        __syncthreads(); /* the next list overwrites the words */
    }
}

extern "C" int kin_graph_gpu_launch_adopt(kin_gpu_stream *stream, const kin_graph_gpu_adopt *job)
{
    const int64_t points = kin_graph_gpu_cared(&job->graph);
    const int64_t most = (int64_t)stream->processors * KIN_GRAPH_GPU_BLOCKS * 4;
    if (job->graph.length <= HELD_WORDS) {
        return kin_graph_gpu_each_point(stream, points, job,
                                        job->graph.length <= HELD_WORDS / 4 ? adopt_short_kernel<1>
                                        : job->graph.length <= HELD_WORDS / 2
                                            ? adopt_short_kernel<2>
                                            : adopt_short_kernel<4>);
    }
    if (points > 0) {
        adopt_long_kernel<<<(unsigned)min(points, most), BLOCK, 0, stream->stream>>>(*job);
    }
    return kin_gpu_launched();
}

/* ---- merge ----------------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(KIN_GRAPH_GPU_THREADS)
    merge_offers_kernel(const __grid_constant__ kin_graph_gpu_merge job)
{
    __shared__ uint32_t entered;
    if (threadIdx.x == 0) {
        entered = 0;
    }
    __syncthreads();
    static_assert(KIN_GRAPH_GPU_SLOTS == 32, "a slot a lane");
    const int lane = kin_graph_gpu_lane();
    const int32_t length = job.graph.length;
    uint32_t own = 0;
    for (int64_t point = job.graph.first + kin_graph_gpu_first();
         point < kin_graph_gpu_behind(&job.graph); point += kin_graph_gpu_step()) {
        uint64_t *slot = job.offers + point * KIN_GRAPH_GPU_SLOTS + lane;
        uint64_t *list = job.graph.words + point * length;
        const uint64_t offer = *slot;
        const uint64_t last = list[length - 1];
        if (!__any_sync(KIN_GRAPH_GPU_LANES, offer != KIN_GRAPH_EMPTY)) {
            continue;
        }
        *slot = KIN_GRAPH_EMPTY;
        own += (uint32_t)kin_graph_gpu_insert(list, length, job.counted, last, offer);
    }
    if (lane == 0 && own != 0) {
        atomicAdd(&entered, own);
    }
    __syncthreads();
    if (threadIdx.x == 0 && entered != 0) {
        atomicAdd((unsigned long long *)job.updates, (unsigned long long)entered);
    }
}

extern "C" int kin_graph_gpu_launch_merge(kin_gpu_stream *stream, const kin_graph_gpu_merge *job)
{
    return kin_graph_gpu_each_point(stream, kin_graph_gpu_cared(&job->graph), job,
                                    merge_offers_kernel);
}

/* ---- stretch --------------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(KIN_GRAPH_GPU_THREADS)
    stretch_lists_kernel(const __grid_constant__ kin_graph_gpu_stretch job)
{
    const int32_t length = job.to.length;
    for (int64_t point = kin_graph_gpu_first(); point < job.to.points;
         point += kin_graph_gpu_step()) {
        const uint64_t *from = job.from.words + point * job.from.length;
        for (int32_t i = kin_graph_gpu_lane(); i < length; i += 32) {
            job.to.words[point * length + i] =
                i < job.from.length ? from[i] | kin_graph_word(0, 0, 1) : KIN_GRAPH_EMPTY;
        }
    }
}

extern "C" int kin_graph_gpu_launch_stretch(kin_gpu_stream *stream,
                                            const kin_graph_gpu_stretch *job)
{
    return kin_graph_gpu_each_point(stream, job->to.points, job, stretch_lists_kernel);
}

/* ---- hand ------------------------------------------------------------------------------------ */

/* Padding rows get empty lists. */
static __global__ void __launch_bounds__(KIN_GRAPH_GPU_THREADS)
    hand_over_kernel(const __grid_constant__ kin_graph_gpu_hand job)
{
    const int lane = kin_graph_gpu_lane();
    const int32_t length = job.graph.length;
    for (int64_t row = kin_graph_gpu_first(); row < job.lists.rows; row += kin_graph_gpu_step()) {
        const bool exists = row < job.graph.points;
        int32_t count = 0;
        for (int32_t first = 0; exists && first < length; first += 32) {
            const int32_t i = first + lane;
            const uint64_t word = i < length ? job.graph.words[row * length + i] : KIN_GRAPH_EMPTY;
            if (word != KIN_GRAPH_EMPTY) {
                job.lists.words[row * job.lists.capacity + i] =
                    word >> 32 << 32 | kin_graph_position(word);
            }
            count += __popc(__ballot_sync(KIN_GRAPH_GPU_LANES, word != KIN_GRAPH_EMPTY));
        }
        if (lane == 0) {
            job.lists.counts[row] = count;
        }
    }
}

extern "C" int kin_graph_gpu_launch_hand(kin_gpu_stream *stream, const kin_graph_gpu_hand *job)
{
    return kin_graph_gpu_each_point(stream, job->lists.rows, job, hand_over_kernel);
}

/* ---- The table of graph_kernels.h ------------------------------------------------------------ */

#define KIN_ENTRY(name, type) kin_graph_gpu_launch_##name,
extern "C" const kin_graph_gpu_kernels kin_graph_gpu_table;
const kin_graph_gpu_kernels kin_graph_gpu_table = {KIN_GRAPH_GPU_LAUNCHES(KIN_ENTRY)};

/* ---- Between GPUs ---------------------------------------------------------------------------- */

/* What GPUs of a team exchange of a graph: the last words of lists, which tell what need not be
 * offered, and what they left in the slots of each other's points. Positions are in an order in
 * which neighbours stand together, so that nearly all of these are empty: the others are gathered,
 * each with its place. Where they are many, whole slots are compared. */

enum { THREADS = KIN_GRAPH_GPU_THREADS, BLOCKS_A_PROCESSOR = 8 };
#define ALL_LANES 0xffffffffu

static __global__ void __launch_bounds__(THREADS)
    take_ends_kernel(const __grid_constant__ kin_graph_gpu_ends job)
{
    for (int64_t point = job.graph.first + kin_graph_gpu_first_cell();
         point < kin_graph_gpu_behind(&job.graph); point += kin_graph_gpu_cell_step()) {
        job.lasts[point] = job.graph.words[(point + 1) * job.graph.length - 1];
    }
}

extern "C" int kin_graph_gpu_launch_ends(kin_gpu_stream *stream, const kin_graph_gpu_ends *job)
{
    return kin_graph_gpu_each_cell(stream, kin_graph_gpu_cared(&job->graph), job, take_ends_kernel);
}

static __global__ void __launch_bounds__(THREADS)
    take_least_kernel(const __grid_constant__ kin_graph_gpu_least job)
{
    for (int64_t i = kin_graph_gpu_first_cell(); i < job.count; i += kin_graph_gpu_cell_step()) {
        if (job.others[i] < job.words[i]) {
            job.words[i] = job.others[i];
        }
    }
}

extern "C" int kin_graph_gpu_launch_least(kin_gpu_stream *stream, const kin_graph_gpu_least *job)
{
    return kin_graph_gpu_each_cell(stream, job->count, job, take_least_kernel);
}

/* A warp has 32 slots of one part at a time, nearly always empty ones. */
static __global__ void __launch_bounds__(THREADS)
    gather_slots_kernel(const __grid_constant__ kin_graph_gpu_gather job)
{
    const int lane = (int)threadIdx.x % 32;
    const int64_t step = (int64_t)gridDim.x * THREADS;
    int32_t part = 0;
    for (int64_t first = (int64_t)blockIdx.x * THREADS + (int64_t)threadIdx.x - lane;
         first < job.bounds[job.parts]; first += step) {
        while (first >= job.bounds[part + 1]) {
            part++;
        }
        if (part == job.part) {
            continue;
        }
        const int64_t i = first + lane;
        const uint64_t word = i < job.bounds[job.parts] ? job.words[i] : KIN_GRAPH_EMPTY;
        const uint32_t votes = __ballot_sync(ALL_LANES, word != KIN_GRAPH_EMPTY);
        if (votes == 0) {
            continue;
        }
        unsigned long long place = 0;
        if (lane == 0) {
            place = atomicAdd((unsigned long long *)&job.counts[part],
                              (unsigned long long)__popc(votes));
        }
        place = __shfl_sync(ALL_LANES, place, 0) + (unsigned)__popc(votes & ((1u << lane) - 1));
        if (word != KIN_GRAPH_EMPTY && place < (unsigned long long)job.room) {
            job.sent[(int64_t)part * job.room + (int64_t)place] =
                kin_graph_gpu_sent{(uint64_t)i, word};
        }
    }
}

extern "C" int kin_graph_gpu_launch_gather(kin_gpu_stream *stream, const kin_graph_gpu_gather *job)
{
    const int64_t wished = (job->bounds[job->parts] + THREADS - 1) / THREADS;
    const int64_t most = (int64_t)stream->processors * BLOCKS_A_PROCESSOR;
    if (wished == 0) {
        return 0;
    }
    gather_slots_kernel<<<(unsigned)(wished < most ? wished : most), THREADS, 0, stream->stream>>>(
        *job);
    return kin_gpu_launched();
}

static __global__ void __launch_bounds__(THREADS)
    settle_slots_kernel(const __grid_constant__ kin_graph_gpu_settle job)
{
    for (int64_t i = kin_graph_gpu_first_cell(); i < job.count; i += kin_graph_gpu_cell_step()) {
        const kin_graph_gpu_sent sent = job.sent[i];
        if (sent.word < job.words[sent.place]) {
            job.words[sent.place] = sent.word;
        }
    }
}

extern "C" int kin_graph_gpu_launch_settle(kin_gpu_stream *stream, const kin_graph_gpu_settle *job)
{
    return kin_graph_gpu_each_cell(stream, job->count, job, settle_slots_kernel);
}
