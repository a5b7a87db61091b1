/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Sampling of a round (paper, section 4.1) without arrays that grow and without locks. Each
 * point samples the first NEW and the first OLD entries of its list, which are the nearest, and
 * leaves its name with each of them, in the slot that its hash names: of several that meet in a
 * slot the one of least hash stays. Then every point joins what it sampled and what was left.
 *
 *   sample    a warp a list, 32 entries at a time, until both kinds are full
 *   collect   a warp a point: ids of both kinds are sorted as one by
 *                 id << 1 | kind    NEW 0, OLD 1
 *             so that whatever equals the id before it goes: second copies, and OLD ones that are
 *             NEW as well
 *
 * Cost. sample: p minima of 64 bits a point and kind, in lines that few others touch at the time.
 * collect: one read of slots, one write of ids; a network over 64 or 128 words of 32 bits.
 */
#include "graph/graph_kernels.h"
#include "graph/graph_warp.cuh"

#define NO_ID UINT32_MAX

/* ---- sample ---------------------------------------------------------------------------------- */

/* NEW or OLD, of which a list has given `have`, and gives what lanes of `voters` hold. */
typedef struct kind {
    uint64_t *slots;
    uint32_t *ids;
    uint32_t voters;
    int32_t have;
} kind;

/* What a lane that takes holds is sampled into one kind. */
static __device__ __forceinline__ void take_kind(const kin_graph_gpu_samples &samples,
                                                 const kind &of, bool takes, int64_t point,
                                                 uint32_t hash, uint32_t position)
{
    const int32_t place = of.have + __popc(of.voters & ((1u << kin_graph_gpu_lane()) - 1));
    if (!takes || place >= samples.forward) {
        return;
    }
    of.ids[point * (samples.forward + samples.reverse) + place] = position;
    if (samples.reverse > 0) {
        const uint32_t slot = kin_graph_slot(hash, (uint32_t)samples.reverse);
        atomicMin((unsigned long long *)of.slots + (int64_t)position * samples.reverse + slot,
                  (unsigned long long)hash << 32 | (unsigned long long)point);
    }
}

static __global__ void __launch_bounds__(KIN_GRAPH_GPU_THREADS)
    sample_lists_kernel(const __grid_constant__ kin_graph_gpu_sample job)
{
    const kin_graph_gpu_samples &samples = job.samples;
    const int lane = kin_graph_gpu_lane();
    const int32_t length = job.graph.length;
    for (int64_t point = job.graph.first + kin_graph_gpu_first();
         point < kin_graph_gpu_behind(&job.graph); point += kin_graph_gpu_step()) {
        uint64_t *list = job.graph.words + point * length;
        const uint32_t hash = kin_graph_hash(job.salt, (uint32_t)point);
        int32_t news = 0;
        int32_t olds = 0;
        for (int32_t first = 0; first < length; first += 32) {
            const int32_t i = first + lane;
            const uint64_t word = i < length ? list[i] : KIN_GRAPH_EMPTY;
            const uint32_t position = kin_graph_position(word);
            const bool entry = word != KIN_GRAPH_EMPTY;
            const bool is_new = entry && kin_graph_is_new(word) != 0;
            const bool is_old = entry && !is_new;
            const uint32_t new_votes = __ballot_sync(KIN_GRAPH_GPU_LANES, is_new);
            const uint32_t old_votes = __ballot_sync(KIN_GRAPH_GPU_LANES, is_old);
            take_kind(samples, {samples.new_slots, samples.new_ids, new_votes, news}, is_new, point,
                      hash, position);
            take_kind(samples, {samples.old_slots, samples.old_ids, old_votes, olds}, is_old, point,
                      hash, position);
            if (is_new && news + __popc(new_votes & ((1u << lane) - 1)) < samples.forward) {
                list[i] = word & ~(uint64_t)1;
            }
            news += __popc(new_votes);
            olds += __popc(old_votes);
            const bool full = news >= samples.forward && olds >= samples.forward;
            if (full || (new_votes | old_votes) != KIN_GRAPH_GPU_LANES) {
                break;
            }
        }
        if (lane == 0) {
            samples.new_counts[point] = min(news, samples.forward);
            samples.old_counts[point] = min(olds, samples.forward);
        }
    }
}

extern "C" int kin_graph_gpu_launch_sample(kin_gpu_stream *stream, const kin_graph_gpu_sample *job)
{
    return kin_graph_gpu_each_point(stream, kin_graph_gpu_cared(&job->graph), job,
                                    sample_lists_kernel);
}

/* ---- collect --------------------------------------------------------------------------------- */

/* Place i of one kind: a sampled id, or who left its name in a slot. */
static __device__ __forceinline__ uint32_t gathered(const kin_graph_gpu_samples &samples,
                                                    const uint64_t *slots, const uint32_t *ids,
                                                    int32_t count, int64_t point, int32_t i)
{
    uint32_t id = NO_ID;
    if (i < samples.forward) {
        id = i < count ? ids[point * (samples.forward + samples.reverse) + i] : NO_ID;
    } else if (i < samples.forward + samples.reverse) {
        /* The lower half of an empty slot is NO_ID. */
        id = (uint32_t)slots[point * samples.reverse + i - samples.forward];
    }
    return id == (uint32_t)point ? NO_ID : id;
}

/* Words that `keep` become the ids of one kind, ascending. */
template <int R>
static __device__ __forceinline__ int32_t write_kind(const uint32_t (&words)[R],
                                                     const bool (&keep)[R], uint32_t *ids,
                                                     int32_t width)
{
    const int lane = kin_graph_gpu_lane();
    const uint32_t below = (1u << lane) - 1;
    int32_t place = 0;
    int32_t count = 0;
#pragma unroll
    for (int r = 0; r < R; r++) {
        const uint32_t votes = __ballot_sync(KIN_GRAPH_GPU_LANES, keep[r]);
        place += __popc(votes & below);
        count += __popc(votes);
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        if (keep[r]) {
            ids[place++] = words[r] >> 1;
        }
    }
    for (int32_t i = count + lane; i < width; i += 32) {
        ids[i] = NO_ID;
    }
    return count;
}

/* A half of the 32 R words is for each kind. */
template <int R>
static __global__ void __launch_bounds__(KIN_GRAPH_GPU_THREADS)
    collect_samples_kernel(const __grid_constant__ kin_graph_gpu_sample job)
{
    const kin_graph_gpu_samples &samples = job.samples;
    const int lane = kin_graph_gpu_lane();
    const int32_t width = samples.forward + samples.reverse;
    for (int64_t point = job.graph.first + kin_graph_gpu_first();
         point < kin_graph_gpu_behind(&job.graph); point += kin_graph_gpu_step()) {
        const int32_t news = samples.new_counts[point];
        const int32_t olds = samples.old_counts[point];
        uint32_t words[R];
#pragma unroll
        for (int r = 0; r < R / 2; r++) {
            const int32_t i = r * 32 + lane;
            const uint32_t new_id =
                gathered(samples, samples.new_slots, samples.new_ids, news, point, i);
            const uint32_t old_id =
                gathered(samples, samples.old_slots, samples.old_ids, olds, point, i);
            words[r] = new_id == NO_ID ? NO_ID : new_id << 1;
            words[R / 2 + r] = old_id == NO_ID ? NO_ID : old_id << 1 | 1u;
        }
        kin_graph_gpu_sort<R>(words);
        const uint32_t before = __shfl_up_sync(KIN_GRAPH_GPU_LANES, words[R - 1], 1);
        bool new_kept[R];
        bool old_kept[R];
#pragma unroll
        for (int r = 0; r < R; r++) {
            const bool first = r == 0 && lane == 0;
            const bool same =
                !first && (r > 0 ? words[r > 0 ? r - 1 : 0] : before) >> 1 == words[r] >> 1;
            new_kept[r] = words[r] != NO_ID && !same && (words[r] & 1u) == 0;
            old_kept[r] = words[r] != NO_ID && !same && (words[r] & 1u) != 0;
        }
        const int32_t new_count =
            write_kind<R>(words, new_kept, samples.new_ids + point * width, width);
        const int32_t old_count =
            write_kind<R>(words, old_kept, samples.old_ids + point * width, width);
        if (lane == 0) {
            samples.new_counts[point] = new_count;
            samples.old_counts[point] = old_count;
        }
    }
}

extern "C" int kin_graph_gpu_launch_collect(kin_gpu_stream *stream, const kin_graph_gpu_sample *job)
{
    return kin_graph_gpu_each_point(stream, kin_graph_gpu_cared(&job->graph), job,
                                    job->samples.forward + job->samples.reverse <= 32
                                        ? collect_samples_kernel<2>
                                        : collect_samples_kernel<4>);
}
