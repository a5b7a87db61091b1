/* SPDX-License-Identifier: Apache-2.0
 *
 * What the pipelines need beside the launches that others have, too: a sample of the columns of a
 * cost matrix.
 *
 * Cost. Bound by memory: it reads a sector of 32 bytes a column unless it is dense.
 */
#include "gpu/gpu_stream.cuh"
#include "papers/papers_kernels.h"

enum { THREADS = 256, BLOCKS_A_PROCESSOR = 32 };

static __global__ void __launch_bounds__(THREADS) sample_kernel(const kin_papers_sample job)
{
    const int64_t all = job.rows * job.columns;
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < all; i += step) {
        const int64_t row = i / job.columns;
        const int64_t column = i % job.columns * job.count / job.columns;
        job.sample[i] = __ldcs(job.matrix + row * job.pitch + column);
    }
}

static unsigned blocks_of(const kin_gpu_stream *stream, int64_t items)
{
    const int64_t most = (int64_t)stream->processors * BLOCKS_A_PROCESSOR;
    const int64_t wished = (items + THREADS - 1) / THREADS;
    return (unsigned)(wished < most ? wished : most);
}

static int sample(kin_gpu_stream *stream, const kin_papers_sample *job)
{
    if (job->rows * job->columns == 0) {
        return 0;
    }
    const unsigned blocks = blocks_of(stream, job->rows * job->columns);
    sample_kernel<<<blocks, THREADS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

extern "C" const kin_papers_buffer_kernels kin_papers_buffer_table; /* papers_buffer_tree.cu */
extern "C" const kin_papers_kernels kin_papers_table;
const kin_papers_kernels kin_papers_table = {sample, &kin_papers_buffer_table};
