/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A warp fills the empty places of a list with up to 32 positions at a time: each lane has
 * one, given or drawn; the four teams of the warp compute their costs, eight rounds of four; then
 * they enter the list (cascade_insert.cuh).
 *
 * A draw is a hash of (seed, position, place) and nothing else, so it is the same in every run. Two
 * draws of a list may meet, or meet what is there: then the list gets fewer. Where no more points
 * are wanted than there are, all others are taken instead.
 *
 * Cost. A row of the set a draw, from anywhere: 1,000,000 lists of 32 draws and rows of 256 bytes
 * are 8.2 GB. Rows as given cost their doubles besides.
 */
#include "cascade/cascade_insert.cuh"
#include "cascade/cascade_launch.cuh"
#include "cascade/cascade_pair.cuh"

#define NO_POSITION UINT32_MAX

/* ---- What a pair costs ----------------------------------------------------------------------- */

struct rounded_cost {
    static __device__ __forceinline__ uint32_t order(const kin_cascade_points &points, kith_dtype,
                                                     uint32_t i, uint32_t j)
    {
        return kin_cascade_cost_order(points.set, i, j);
    }
};

template <kith_metric STEP> struct key_cost {
    static __device__ __forceinline__ uint32_t order(const kin_cascade_points &points,
                                                     kith_dtype dtype, uint32_t i, uint32_t j)
    {
        const double key =
            kin_cascade_key<STEP>(points.rows, dtype, points.set.ids[i], points.set.ids[j]);
        return kin_descent_order_of_float((float)key + 0.0F);
    }
};

/* ---- Filling --------------------------------------------------------------------------------- */

/* The position that is drawn for a place of a list, or none. */
static __device__ __forceinline__ uint32_t drawn(const kin_cascade_fill &job, uint32_t point,
                                                 int32_t place)
{
    const int64_t others = job.graph.points - 1;
    if (others <= job.wanted) {
        return place < others ? (uint32_t)place + ((uint32_t)place >= point ? 1u : 0u)
                              : NO_POSITION;
    }
    const uint64_t salt = kin_descent_mix(job.seed + (uint64_t)place);
    const uint32_t other = kin_descent_slot(kin_descent_hash(salt, point), (uint32_t)others);
    return other + (other >= point ? 1u : 0u);
}

static __device__ __forceinline__ int32_t entries_of(const uint64_t *list, int32_t length)
{
    int32_t count = 0;
    for (int32_t first = 0; first < length; first += 32) {
        const int32_t i = first + kin_cascade_lane();
        const bool entry = i < length && list[i] != KIN_DESCENT_EMPTY;
        count += __popc(__ballot_sync(KIN_CASCADE_LANES, entry));
    }
    return count;
}

/* Positions of the lanes enter the list; of equal ones the first. Returns how many entered. */
template <typename Cost>
static __device__ __forceinline__ int32_t enter(const kin_cascade_fill &job, kith_dtype dtype,
                                                uint32_t point, uint64_t *list, uint32_t position)
{
    const int lane = kin_cascade_lane();
    const uint32_t equal = __match_any_sync(KIN_CASCADE_LANES, position);
    if (position == point || __ffs((int)equal) - 1 != lane) {
        position = NO_POSITION;
    }
    const uint32_t voters = __ballot_sync(KIN_CASCADE_LANES, position != NO_POSITION);
    if (voters == 0) {
        return 0;
    }
    uint64_t word = KIN_DESCENT_EMPTY;
    for (int round = 0; round < 8; round++) {
        if ((voters >> (4 * round) & 15u) == 0) {
            continue;
        }
        const uint32_t other = __shfl_sync(KIN_CASCADE_LANES, position, 4 * round + lane / 8);
        const uint32_t order =
            Cost::order(job.points, dtype, point, other != NO_POSITION ? other : point);
        const uint32_t own = __shfl_sync(KIN_CASCADE_LANES, order, lane % 4 * 8);
        if (lane / 4 == round && position != NO_POSITION) {
            word = kin_descent_word(own, position, job.known == 0 ? 1 : 0);
        }
    }
    const int32_t length = job.graph.length;
    return kin_cascade_insert(list, length, length, list[length - 1], word);
}

template <typename Cost>
static __global__ void __launch_bounds__(KIN_CASCADE_THREADS, 3)
    fill_lists(const __grid_constant__ kin_cascade_fill job, kith_dtype dtype)
{
    const int lane = kin_cascade_lane();
    const int32_t given_length = job.given != NULL ? job.given_length : 0;
    /* A set that is taken whole needs all places, whatever was there. */
    const bool all = job.graph.points - 1 <= job.wanted;
    for (int64_t at = job.graph.first + kin_cascade_first(); at < kin_cascade_behind(&job.graph);
         at += kin_cascade_step()) {
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

extern "C" int kin_cascade_launch_fill(kin_gpu_stream *stream, const kin_cascade_fill *job)
{
    if (job->graph.points == 0 || job->wanted <= 0) {
        return 0;
    }
    const unsigned blocks =
        kin_cascade_blocks(stream, kin_cascade_behind(&job->graph) - job->graph.first);
    if (job->points.set.rounded != NULL) {
        fill_lists<rounded_cost>
            <<<blocks, KIN_CASCADE_THREADS, 0, stream->stream>>>(*job, KITH_DTYPE_NONE);
        return kin_gpu_launched();
    }
    const kin_fused_rows *rows = &job->points.rows;
    const kith_dtype dtype = kin_pair_dtype(rows->data, rows->stride_bytes, rows->dtype);
#define LAUNCH(STEP) \
    fill_lists<key_cost<STEP>><<<blocks, KIN_CASCADE_THREADS, 0, stream->stream>>>(*job, dtype)
    KIN_CASCADE_EACH_STEP(rows->metric, LAUNCH)
#undef LAUNCH
    return kin_gpu_launched();
}
