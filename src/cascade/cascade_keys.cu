/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. What the recall of a round is judged by: canonical keys of a few control points' lists, a
 * team of eight threads a key.
 *
 * Cost. Two rows a key; some thousand controls of some ten entries take well below a millisecond.
 */
#include "cascade/cascade_launch.cuh"
#include "cascade/cascade_pair.cuh"
#include "gpu/gpu_stream.cuh"

enum { THREADS = 256, TEAMS = THREADS / KIN_METRIC_LANES };

template <kith_metric STEP>
static __global__ void __launch_bounds__(THREADS)
    control_keys(const __grid_constant__ kin_cascade_keys job, kith_dtype dtype)
{
    const int32_t length = job.graph.length;
    const int64_t all = job.control_count * length;
    const int64_t at = (int64_t)blockIdx.x * TEAMS + threadIdx.x / KIN_METRIC_LANES;
    /* Teams without an entry compute some pair, so that warps stay whole. */
    const int64_t control = (at < all ? at : 0) / length;
    const int64_t point = job.controls[control];
    const uint64_t word =
        at < all ? job.graph.words[point * length + at % length] : KIN_DESCENT_EMPTY;
    const bool exists = word != KIN_DESCENT_EMPTY;
    const uint32_t own = job.ids[point];
    const uint32_t other = exists ? job.ids[kin_descent_position(word)] : own;
    const double key = kin_cascade_key<STEP>(job.rows, dtype, own, other);
    if (at < all && threadIdx.x % KIN_METRIC_LANES == 0) {
        job.keys[at] = exists ? key : (double)INFINITY;
        job.entries[at] = exists ? other : KITH_ID_NONE;
    }
}

extern "C" int kin_cascade_launch_keys(kin_gpu_stream *stream, const kin_cascade_keys *job)
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
#define LAUNCH(STEP) \
    control_keys<STEP><<<(unsigned)blocks, THREADS, 0, stream->stream>>>(*job, dtype)
    KIN_CASCADE_EACH_STEP(job->rows.metric, LAUNCH)
#undef LAUNCH
    return kin_gpu_launched();
}
