/* SPDX-License-Identifier: Apache-2.0
 * Canonical keys of candidates: what both ways to finish lists share. */
#ifndef KIN_TREE_FINISH_CUH
#define KIN_TREE_FINISH_CUH

#include "metric/metric_pair.cuh"
#include "screen/screen_sort.cuh"
#include "tree/tree_launch.cuh"

#include <cuda_runtime.h>

/* Ends a function with LAUNCH(STEP, DTYPE, WRAPS) for the job's metric and its corpus. Boxes have
 * floats and doubles, as a rule: other types are read byte by byte. */
#define FINISH_DTYPE(LAUNCH, STEP)                                                     \
    const kith_dtype dtype =                                                           \
        kin_pair_dtype(job->corpus.data, job->corpus.stride_bytes, job->corpus.dtype); \
    if (job->corpus.period != NULL) {                                                  \
        return dtype == KITH_F32   ? LAUNCH(STEP, KITH_F32, true)                      \
               : dtype == KITH_F64 ? LAUNCH(STEP, KITH_F64, true)                      \
                                   : LAUNCH(STEP, KITH_DTYPE_NONE, true);              \
    }                                                                                  \
    switch (dtype) {                                                                   \
    case KITH_F32:                                                                     \
        return LAUNCH(STEP, KITH_F32, false);                                          \
    case KITH_F64:                                                                     \
        return LAUNCH(STEP, KITH_F64, false);                                          \
    case KITH_F16:                                                                     \
        return LAUNCH(STEP, KITH_F16, false);                                          \
    case KITH_BF16:                                                                    \
        return LAUNCH(STEP, KITH_BF16, false);                                         \
    case KITH_U8:                                                                      \
        return LAUNCH(STEP, KITH_U8, false);                                           \
    case KITH_I8:                                                                      \
        return LAUNCH(STEP, KITH_I8, false);                                           \
    default:                                                                           \
        return LAUNCH(STEP, KITH_DTYPE_NONE, false);                                   \
    }
/* Places of a sphere, of which whole rows make a key: so are they read. */
#define FINISH_PLACES(LAUNCH)                                                          \
    const kith_dtype dtype =                                                           \
        kin_pair_dtype(job->corpus.data, job->corpus.stride_bytes, job->corpus.dtype); \
    return dtype == KITH_F32   ? LAUNCH(KITH_HAVERSINE, KITH_F32, false)               \
           : dtype == KITH_F64 ? LAUNCH(KITH_HAVERSINE, KITH_F64, false)               \
                               : LAUNCH(KITH_HAVERSINE, KITH_DTYPE_NONE, false);
#define FINISH_LAUNCH(LAUNCH)                       \
    switch (kin_pair_step_of(job->corpus.metric)) { \
    case KITH_SQEUCLIDEAN: {                        \
        FINISH_DTYPE(LAUNCH, KITH_SQEUCLIDEAN)      \
    }                                               \
    case KITH_MANHATTAN: {                          \
        FINISH_DTYPE(LAUNCH, KITH_MANHATTAN)        \
    }                                               \
    case KITH_CHEBYSHEV: {                          \
        FINISH_DTYPE(LAUNCH, KITH_CHEBYSHEV)        \
    }                                               \
    case KITH_HAVERSINE: {                          \
        FINISH_PLACES(LAUNCH)                       \
    }                                               \
    default:                                        \
        return (int)cudaErrorInvalidValue;          \
    }

/* The row of queries that a place asks with, and the row itself; not called for holes. */
static __device__ __forceinline__ uint32_t finish_asked(const kin_tree_gpu_finish &job,
                                                        int64_t place)
{
    return job.order != NULL ? job.order[place] : (uint32_t)place;
}

static __device__ __forceinline__ const char *finish_query(const kin_tree_gpu_finish &job,
                                                           int64_t place)
{
    return (const char *)job.queries.data +
           (int64_t)finish_asked(job, place) * job.queries.stride_bytes;
}

static __device__ __forceinline__ const char *finish_row(const kin_tree_gpu_finish &job,
                                                         uint32_t id)
{
    return (const char *)job.corpus.data + (int64_t)id * job.corpus.stride_bytes;
}

/* A row of the corpus as a place of a sphere. */
template <kith_dtype DTYPE>
static __device__ __forceinline__ kin_sphere_place finish_sphere(const kin_tree_gpu_finish &job,
                                                                 uint32_t id)
{
    return kin_pair_sphere<DTYPE>(job.corpus.dtype, finish_row(job, id));
}

/* Words of a place, KIN_TREE_GPU_PACKET apart. */
static __device__ __forceinline__ const uint64_t *finish_words(const kin_tree_gpu_finish &job,
                                                               int64_t place)
{
    return job.lists.words +
           place / KIN_TREE_GPU_PACKET * KIN_TREE_GPU_PACKET * job.lists.capacity +
           place % KIN_TREE_GPU_PACKET;
}

static __device__ __forceinline__ void finish_count(const kin_tree_gpu_finish &job,
                                                    uint64_t computed)
{
    if (computed != 0) {
        (void)atomicAdd((unsigned long long *)job.keys, (unsigned long long)computed);
    }
}

/* Lists of places that nobody has more than a few candidates for, and those that are longer. */
int kin_tree_gpu_finish_short(kin_gpu_stream *stream, const kin_tree_gpu_finish *job);
int kin_tree_gpu_finish_long(kin_gpu_stream *stream, const kin_tree_gpu_finish *job);

#endif
