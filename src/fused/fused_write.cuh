/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A team of 8, 16 or 32 lanes turns the sorted pairs of a row into what the caller sees: the
 * id that is left out goes, keys become distances, doubles are rounded once to float32. A pair a
 * lane at a time; those behind the id that is left out move up by one, so a ballot tells every lane
 * its place. */
#ifndef KIN_FUSED_WRITE_CUH
#define KIN_FUSED_WRITE_CUH

#include "fused/fused_kernels.h"
#include "metric/metric_sphere.h"

#include <cuda_runtime.h>

/* kin_metric_distance (metric.h), the same operations. */
static __device__ __forceinline__ double distance_of(kith_metric metric, double key)
{
    if (metric == KITH_EUCLIDEAN) {
        return kin_sqrt(key);
    }
    if (metric == KITH_HAVERSINE) {
        return kin_haversine_angle(key);
    }
    return metric == KITH_INNER_PRODUCT ? kin_add(-key, 0.0) : key;
}

/* A slot of the outputs. */
static __device__ __forceinline__ void put(const kin_fused_write &job, int64_t to, uint32_t id,
                                           double distance)
{
    if (job.out_ids != NULL) {
        job.out_ids[to] = id;
    }
    if (job.out_distances != NULL) {
        job.out_distances[to] = __double2float_rn(distance);
    }
    if (job.out_distances64 != NULL) {
        job.out_distances64[to] = distance;
    }
}

/* Row i of the job, by all lanes of a team. */
template <int TEAM>
static __device__ __forceinline__ void write_row(const kin_fused_write &job, int64_t i)
{
    const int32_t lane = (int32_t)threadIdx.x % TEAM;
    const uint32_t team = (uint32_t)((1ull << TEAM) - 1) << (threadIdx.x % 32 / TEAM * TEAM);
    const kin_fused_pair *pairs = job.pairs + i * job.k;
    const int32_t count = job.count != NULL ? min(job.count[i], job.k) : job.k;
    kin_fused_pair pair = lane < count ? pairs[lane] : kin_fused_pair{0.0, KITH_ID_NONE, 0};
    const int64_t position = job.row0 + i;
    const int64_t row = job.ids != NULL ? (int64_t)job.ids[position] : position;
    if (row == (int64_t)KITH_ID_NONE) {
        return; /* a place of a tree where no point is */
    }
    uint32_t left_out = job.leaves_own_out ? (uint32_t)row : KITH_ID_NONE;
    if (job.left_out != NULL) {
        left_out = job.left_out[row];
    }
    int64_t written = 0;
    for (int32_t first = 0; first < count && written < job.k_out; first += TEAM) {
        const int32_t at = first + lane;
        if (first > 0 && at < count) {
            pair = pairs[at];
        }
        const bool stays = at < count && pair.id != left_out;
        const uint32_t staying = __ballot_sync(team, stays) & team;
        const uint32_t before = (1u << threadIdx.x % 32) - 1u;
        const int64_t place = written + __popc(staying & before);
        written += __popc(staying);
        if (stays && place < job.k_out) {
            put(job, (row - job.out_row0) * job.k_out + place, pair.id,
                distance_of(job.metric, pair.key));
        }
    }
    for (int64_t place = written + lane; job.fills != 0 && place < job.k_out; place += TEAM) {
        put(job, (row - job.out_row0) * job.k_out + place, KITH_ID_NONE,
            job.metric == KITH_INNER_PRODUCT ? -(double)INFINITY : (double)INFINITY);
    }
    if (lane == 0 && written < job.k_out && job.short_rows != NULL) {
        (void)atomicAdd((unsigned long long *)job.short_rows, 1ull);
    }
}

#endif
