/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Each row's pairs are written by a team of 8, 16 or 32 lanes (fused_write.cuh).
 *
 * Cost. 16 bytes read and up to 16 written a pair. Rows that are written lie anywhere, so a team
 * waits for memory twice (its row's number, then nothing but pairs, which are asked for at the same
 * time): the smaller the teams, the more rows are under way. */
#include "fused/fused_write.cuh"
#include "gpu/gpu_stream.cuh"

enum { THREADS = 256 };

template <int TEAM>
static __global__ void __launch_bounds__(THREADS) write_kernel(const kin_fused_write job)
{
    const int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / TEAM;
    if (i < job.rows) { /* a whole team */
        write_row<TEAM>(job, i);
    }
}

template <int TEAM> static int launch(kin_gpu_stream *stream, const kin_fused_write *job)
{
    const int64_t blocks = (job->rows + THREADS / TEAM - 1) / (THREADS / TEAM);
    if (blocks == 0) {
        return 0;
    }
    if (blocks > INT32_MAX) {
        return (int)cudaErrorInvalidConfiguration;
    }
    write_kernel<TEAM><<<(unsigned)blocks, THREADS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

int kin_fused_launch_write(kin_gpu_stream *stream, const kin_fused_write *job)
{
    if (job->k <= 8) {
        return launch<8>(stream, job);
    }
    return job->k <= 16 ? launch<16>(stream, job) : launch<32>(stream, job);
}
