/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A warp fills the empty places of a list with up to 32 positions at a time: each lane has
 * one, given or drawn; the four teams of the warp compute their costs, eight rounds of four; then
 * they enter the list (graph_warp.cuh).
 *
 * A draw is a hash of (seed, position, place) and nothing else, so it is the same in every run. Two
 * draws of a list may meet, or meet what is there: then the list gets fewer. Where no more points
 * are wanted than there are, all others are taken instead.
 *
 * Cost. A row of the set a draw, from anywhere: 1,000,000 lists of 32 draws and rows of 256 bytes
 * are 8.2 GB. Rows as given cost their doubles besides.
 */
#include "graph/graph_pair.cuh"
#include "graph/graph_warp.cuh"

#define NO_POSITION UINT32_MAX

/* ---- What a pair costs ----------------------------------------------------------------------- */

struct rounded_cost {
    static __device__ __forceinline__ uint32_t order(const kin_graph_gpu_points &points, kith_dtype,
                                                     uint32_t i, uint32_t j)
    {
        return kin_graph_gpu_cost_order(points.set, i, j);
    }
};

template <kith_metric STEP> struct key_cost {
    static __device__ __forceinline__ uint32_t order(const kin_graph_gpu_points &points,
                                                     kith_dtype dtype, uint32_t i, uint32_t j)
    {
        const double key =
            kin_graph_gpu_key<STEP>(points.rows, dtype, points.set.ids[i], points.set.ids[j]);
        return kin_graph_order_of_float((float)key + 0.0F);
    }
};

/* ---- Filling --------------------------------------------------------------------------------- */

/* The position that is drawn for a place of a list, or none. */
static __device__ __forceinline__ uint32_t drawn(const kin_graph_gpu_fill &job, uint32_t point,
                                                 int32_t place)
{
    const int64_t others = job.graph.points - 1;
    if (others <= job.wanted) {
        return place < others ? (uint32_t)place + ((uint32_t)place >= point ? 1u : 0u)
                              : NO_POSITION;
    }
    const uint64_t salt = kin_graph_mix(job.seed + (uint64_t)place);
    const uint32_t other = kin_graph_slot(kin_graph_hash(salt, point), (uint32_t)others);
    return other + (other >= point ? 1u : 0u);
}

static __device__ __forceinline__ int32_t entries_of(const uint64_t *list, int32_t length)
{
    int32_t count = 0;
    for (int32_t first = 0; first < length; first += 32) {
        const int32_t i = first + kin_graph_gpu_lane();
        const bool entry = i < length && list[i] != KIN_GRAPH_EMPTY;
        count += __popc(__ballot_sync(KIN_GRAPH_GPU_LANES, entry));
    }
    return count;
}

/* Positions of the lanes enter the list; of equal ones the first. Returns how many entered. */
template <typename Cost>
static __device__ __forceinline__ int32_t enter(const kin_graph_gpu_fill &job, kith_dtype dtype,
                                                uint32_t point, uint64_t *list, uint32_t position)
{
    const int lane = kin_graph_gpu_lane();
    const uint32_t equal = __match_any_sync(KIN_GRAPH_GPU_LANES, position);
    if (position == point || __ffs((int)equal) - 1 != lane) {
        position = NO_POSITION;
    }
    const uint32_t voters = __ballot_sync(KIN_GRAPH_GPU_LANES, position != NO_POSITION);
    if (voters == 0) {
        return 0;
    }
    uint64_t word = KIN_GRAPH_EMPTY;
    for (int round = 0; round < 8; round++) {
        if ((voters >> (4 * round) & 15u) == 0) {
            continue;
        }
        const uint32_t other = __shfl_sync(KIN_GRAPH_GPU_LANES, position, 4 * round + lane / 8);
        const uint32_t order =
            Cost::order(job.points, dtype, point, other != NO_POSITION ? other : point);
        const uint32_t own = __shfl_sync(KIN_GRAPH_GPU_LANES, order, lane % 4 * 8);
        if (lane / 4 == round && position != NO_POSITION) {
            word = kin_graph_word(own, position, job.known == 0 ? 1 : 0);
        }
    }
    const int32_t length = job.graph.length;
    return kin_graph_gpu_insert(list, length, length, list[length - 1], word);
}

template <typename Cost>
static __global__ void __launch_bounds__(KIN_GRAPH_GPU_THREADS, 3)
    fill_lists_kernel(const __grid_constant__ kin_graph_gpu_fill job, kith_dtype dtype)
{
    const int lane = kin_graph_gpu_lane();
    const int32_t given_length = job.given != NULL ? job.given_length : 0;
    /* A set that is taken whole needs all places, whatever was there. */
    const bool all = job.graph.points - 1 <= job.wanted;
    for (int64_t at = job.graph.first + kin_graph_gpu_first();
         at < kin_graph_gpu_behind(&job.graph); at += kin_graph_gpu_step()) {
        const uint32_t point = (uint32_t)at;
        uint64_t *list = job.graph.words + at * job.graph.length;
        int32_t count = entries_of(list, job.graph.length);
        int32_t given = 0;
        int32_t place = -1; /* of the next draw; -1: given ones come first */
        while (true) {
            uint32_t position = NO_POSITION;
            if (given < given_length && (count < job.wanted || job.given_alone != 0)) {
                const int32_t room = job.given_alone != 0 ? 32 : min(32, job.wanted - count);
                const int32_t taken = min(room, given_length - given);
                if (lane < taken) {
                    position = job.given[at * given_length + given + lane];
                }
                given += taken;
            } else if (job.given_alone != 0) {
                break;
            } else {
                place = place >= 0 ? place : all ? 0 : count;
                if (place >= job.wanted) {
                    break;
                }
                if (place + lane < job.wanted) {
                    position = drawn(job, point, place + lane);
                }
                place += 32;
            }
            count += enter<Cost>(job, dtype, point, list, position);
        }
    }
}

extern "C" int kin_graph_gpu_launch_fill(kin_gpu_stream *stream, const kin_graph_gpu_fill *job)
{
    if (job->graph.points == 0 || job->wanted <= 0) {
        return 0;
    }
    const unsigned blocks = kin_graph_gpu_blocks(stream, kin_graph_gpu_cared(&job->graph));
    if (job->points.set.rounded != NULL) {
        fill_lists_kernel<rounded_cost>
            <<<blocks, KIN_GRAPH_GPU_THREADS, 0, stream->stream>>>(*job, KITH_DTYPE_NONE);
        return kin_gpu_launched();
    }
    const kin_screen_gpu_rows *rows = &job->points.rows;
    const kith_dtype dtype = kin_pair_dtype(rows->data, rows->stride_bytes, rows->dtype);
#define LAUNCH(NAME, ...)                                                        \
    case KITH_##NAME:                                                            \
        fill_lists_kernel<key_cost<KITH_##NAME>>                                 \
            <<<blocks, KIN_GRAPH_GPU_THREADS, 0, stream->stream>>>(*job, dtype); \
        break;
    KIN_PAIR_EACH_STEP(rows->metric, LAUNCH)
#undef LAUNCH
    return kin_gpu_launched();
}

/* Idea. A graph that is given names rows, lists name positions: a table of rows, written once,
 * translates every id. One thread an entry; a list's ids are read one behind the other.
 *
 * Cost. 4 bytes an id read, 4 from anywhere in the table, which for a million rows stays in the
 * second-level cache, 4 written. */

static __global__ void __launch_bounds__(KIN_GRAPH_GPU_THREADS)
    place_rows_kernel(const __grid_constant__ kin_graph_gpu_place job)
{
    for (int64_t p = kin_graph_gpu_first_cell(); p < job.points; p += kin_graph_gpu_cell_step()) {
        job.places[job.ids[p]] = (uint32_t)p;
    }
}

extern "C" int kin_graph_gpu_launch_place(kin_gpu_stream *stream, const kin_graph_gpu_place *job)
{
    return kin_graph_gpu_each_cell(stream, job->points, job, place_rows_kernel);
}

static __global__ void __launch_bounds__(KIN_GRAPH_GPU_THREADS)
    give_lists_kernel(const __grid_constant__ kin_graph_gpu_give job)
{
    const int64_t cells = job.points * job.length;
    for (int64_t cell = kin_graph_gpu_first_cell(); cell < cells;
         cell += kin_graph_gpu_cell_step()) {
        const int64_t p = cell / job.length;
        const int64_t j = cell - p * job.length;
        const uint32_t id = job.ids[p];
        const int64_t row = (int64_t)id - job.first;
        if (id == UINT32_MAX || row < 0 || row >= job.rows) {
            continue;
        }
        const uint32_t other = j < job.k ? job.graph[row * job.k + j] : UINT32_MAX;
        const uint32_t place = other < job.rows ? job.places[job.first + other] : UINT32_MAX;
        job.given[cell] = place == (uint32_t)p ? UINT32_MAX : place;
    }
}

extern "C" int kin_graph_gpu_launch_give(kin_gpu_stream *stream, const kin_graph_gpu_give *job)
{
    return kin_graph_gpu_each_cell(stream, job->points * job->length, job, give_lists_kernel);
}

/* Idea. Two graphs are made one as Wang, Zhao, Zeng 2021 have it (section 5.1): a warp a list puts
 * the farther half aside, and draws rows of the other set for what is free.
 *
 * Cost. A list is read once each time, and half of it written. */

static __global__ void __launch_bounds__(KIN_GRAPH_GPU_THREADS)
    halve_lists_kernel(const __grid_constant__ kin_graph_gpu_halve job)
{
    static_assert(KIN_GRAPH_GPU_SLOTS == 32, "a word a lane");
    const int lane = kin_graph_gpu_lane();
    for (int64_t at = job.graph.first + kin_graph_gpu_first();
         at < kin_graph_gpu_behind(&job.graph); at += kin_graph_gpu_step()) {
        uint64_t *list = job.graph.words + at * job.graph.length;
        const int32_t count = entries_of(list, job.graph.length);
        const int32_t kept = count - count / 2;
        for (int32_t block = 0; block < job.blocks; block++) {
            const int32_t i = kept + block * KIN_GRAPH_GPU_SLOTS + lane;
            const bool goes = i < count;
            job.aside[(block * job.graph.points + at) * KIN_GRAPH_GPU_SLOTS + lane] =
                goes ? list[i] : KIN_GRAPH_EMPTY;
            if (goes) {
                list[i] = KIN_GRAPH_EMPTY;
            }
        }
    }
}

extern "C" int kin_graph_gpu_launch_halve(kin_gpu_stream *stream, const kin_graph_gpu_halve *job)
{
    return kin_graph_gpu_each_point(stream, kin_graph_gpu_cared(&job->graph), job,
                                    halve_lists_kernel);
}

static __global__ void __launch_bounds__(KIN_GRAPH_GPU_THREADS)
    draw_across_kernel(const __grid_constant__ kin_graph_gpu_cross job)
{
    const int32_t length = job.graph.length;
    for (int64_t at = job.graph.first + kin_graph_gpu_first();
         at < kin_graph_gpu_behind(&job.graph); at += kin_graph_gpu_step()) {
        const int32_t wanted = length - entries_of(job.graph.words + at * length, length);
        const int64_t own = job.ids[at];
        for (int32_t place = kin_graph_gpu_lane(); place < length; place += 32) {
            const uint32_t row =
                place < wanted
                    ? kin_graph_row_across(job.sets, job.seed, (uint32_t)at, own, place, wanted)
                    : UINT32_MAX;
            const uint32_t other = row == UINT32_MAX ? NO_POSITION : job.places[row];
            const bool across =
                other != NO_POSITION && kin_graph_is_across(job.sets.split, own, job.ids[other]);
            job.given[at * length + place] = across ? other : NO_POSITION;
        }
    }
}

extern "C" int kin_graph_gpu_launch_cross(kin_gpu_stream *stream, const kin_graph_gpu_cross *job)
{
    return kin_graph_gpu_each_point(stream, kin_graph_gpu_cared(&job->graph), job,
                                    draw_across_kernel);
}

/* Idea. What the recall of a round is judged by: canonical keys of a few control points' lists, a
 * team of eight threads a key.
 *
 * Cost. Two rows a key; some thousand controls of some ten entries take well below a millisecond.
 */

enum { TEAMS = KIN_GRAPH_GPU_THREADS / KIN_METRIC_LANES };

template <kith_metric STEP>
static __global__ void __launch_bounds__(KIN_GRAPH_GPU_THREADS)
    control_keys_kernel(const __grid_constant__ kin_graph_gpu_keys job, kith_dtype dtype)
{
    const int32_t length = job.graph.length;
    const int64_t all = job.control_count * length;
    const int64_t at = (int64_t)blockIdx.x * TEAMS + threadIdx.x / KIN_METRIC_LANES;
    /* Teams without an entry compute some pair, so that warps stay whole. */
    const int64_t control = (at < all ? at : 0) / length;
    const int64_t point = job.controls[control];
    const uint64_t word =
        at < all ? job.graph.words[point * length + at % length] : KIN_GRAPH_EMPTY;
    const bool exists = word != KIN_GRAPH_EMPTY;
    const uint32_t own = job.ids[point];
    const uint32_t other = exists ? job.ids[kin_graph_position(word)] : own;
    const double key = kin_graph_gpu_key<STEP>(job.rows, dtype, own, other);
    if (at < all && threadIdx.x % KIN_METRIC_LANES == 0) {
        job.keys[at] = exists ? key : (double)INFINITY;
        job.entries[at] = exists ? other : KITH_ID_NONE;
    }
}

extern "C" int kin_graph_gpu_launch_keys(kin_gpu_stream *stream, const kin_graph_gpu_keys *job)
{
    const int64_t all = job->control_count * job->graph.length;
    const int64_t blocks = (all + TEAMS - 1) / TEAMS;
    if (all == 0) {
        return 0;
    }
    if (blocks > INT32_MAX) {
        return (int)cudaErrorInvalidConfiguration;
    }
    const kith_dtype dtype =
        kin_pair_dtype(job->rows.data, job->rows.stride_bytes, job->rows.dtype);
#define LAUNCH(NAME, ...)                                                                  \
    case KITH_##NAME:                                                                      \
        control_keys_kernel<KITH_##NAME>                                                   \
            <<<(unsigned)blocks, KIN_GRAPH_GPU_THREADS, 0, stream->stream>>>(*job, dtype); \
        break;
    KIN_PAIR_EACH_STEP(job->rows.metric, LAUNCH)
#undef LAUNCH
    return kin_gpu_launched();
}
