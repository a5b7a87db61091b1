/* SPDX-License-Identifier: Apache-2.0
 * What both bodies of the cross-matching share: how an offer reaches a point. */
#ifndef KIN_CASCADE_OFFER_CUH
#define KIN_CASCADE_OFFER_CUH

#include "cascade/cascade_kernels.h"

#include <cuda_runtime.h>

/* Nothing that is not below this can enter the list of a position; lists do not change while
 * samples meet. */
static __device__ __forceinline__ const uint64_t *join_last(const kin_cascade_join &job,
                                                            uint32_t position)
{
    return job.lasts != NULL ? job.lasts + position
                             : job.graph.words + ((int64_t)position + 1) * job.graph.length - 1;
}

/* The position `other` is offered to `to`, whose last word is `last`. */
static __device__ __forceinline__ void join_offer(const kin_cascade_join &job, uint32_t to,
                                                  uint64_t last, uint32_t order, uint32_t other)
{
    const uint64_t word = kin_descent_word(order, other, 1);
    if (word < last) {
        const int64_t at = (int64_t)to * KIN_CASCADE_SLOTS + kin_cascade_slot(job.salt, other);
        (void)atomicMin((unsigned long long *)&job.offers[at], (unsigned long long)word);
    }
}

/* Rows as given, by canonical keys. */
int kin_cascade_join_direct(kin_gpu_stream *stream, const kin_cascade_join *job);

#endif
