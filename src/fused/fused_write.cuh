/* SPDX-License-Identifier: Apache-2.0
 * What becomes of a pair in the outputs. */
#ifndef KIN_FUSED_WRITE_CUH
#define KIN_FUSED_WRITE_CUH

#include "fused/fused_kernels.h"
#include "metric/metric_pair.cuh"

/* kin_metric_distance (metric.h), the same operations. */
static __device__ __forceinline__ double kin_fused_distance(kith_metric metric, double key)
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
static __device__ __forceinline__ void kin_fused_put(const kin_fused_write &job, int64_t to,
                                                     uint32_t id, double distance)
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

#endif
