/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. What the screen left of a row gets canonical keys and is sorted. A *crew* works on a row: a
 * warp where lists are short, a block where they have more than SHORT places.
 *
 *   1. words, or the places of a span (fused_pick.c) -> ids, a thread a word, so that all rows to
 * be read are known at once
 *   2. the row itself as transformed doubles in shared memory, CHUNK components at a time
 *   3. a team of eight threads two candidates at a time (metric_pair.cuh): 16 loads of 32 bytes in
 *      flight a team, 2 KB a warp
 *   4. warp: the place of each pair is how many come before it; block: bitonic sort
 *
 * Lists that are longer than the block's shared memory come in turns: the k best so far stay, new
 * ones fill the rest. For integer bounds the key is the cost (products: half of it, numerics.md),
 * and nothing is read.
 *
 * Cost. Memory: a row of the corpus a candidate. 1,000,000 rows of 128 float32 with 25 candidates
 * each are 12.8 GB, less what the L2 holds of near rows: about 4 ms on an H200; its 6.4e9 double
 * operations and 3.2e9 conversions take about 1.5 ms beside that.
 *
 * What the caller sees is made of sorted pairs by a team of 8, 16 or 32 lanes a row, at once or by
 * a launch of its own: the id that is left out goes, keys become distances, doubles are rounded
 * once to float32. A pair a lane at a time; those behind the id that is left out move up by one, so
 * a ballot tells every lane its place. Rows that are written lie anywhere, so a team waits for
 * memory twice (its row's number, then nothing but pairs, which are asked for at the same time):
 * the smaller the teams, the more rows are under way.
 *
 * Limits. k below the places of a block's shared memory (8,192; 4,096 where a block may have less
 * than 100 KB). */
#include "fused/fused_rescore.cuh"

enum {
    CREWS = 4, /* warps of a block, where a warp works on a row */
    SHORT = 128,
    SHORT_SPAN = 256, /* a warp's, of spans: rows that stand together read the same candidates */
    BLOCKS_A_PROCESSOR = 64
};

template <kith_metric STEP, kith_dtype DTYPE, bool TRANSFORMS>
static __global__ void __launch_bounds__(BLOCK, 2)
    rescore_kernel(const kin_fused_rescore job, const shape s)
{
    extern __shared__ double shared[];
    const int32_t crews = (int32_t)blockDim.x / s.crew;
    const int32_t crew = (int32_t)threadIdx.x / s.crew;
    const int32_t thread = (int32_t)threadIdx.x % s.crew;
    const int32_t k = job.lists.k;
    double *query = shared + (size_t)crew * (crew_bytes(s) / sizeof(double));
    double *keys = query + s.chunk;
    uint32_t *ids = (uint32_t *)(keys + s.places);
    uint64_t computed = 0;

    kin_gpu_await();
    for (int64_t i = (int64_t)blockIdx.x * crews + crew; i < job.rows;
         i += (int64_t)gridDim.x * crews) {
        const int64_t position = job.row0 + i;
        const int64_t row = (int64_t)job.set.ids[position];
        if (row == (int64_t)KITH_ID_NONE) {
            if (thread == 0) {
                job.count[i] = 0;
            }
            continue; /* with its whole crew */
        }
        const bool screened = job.spans == NULL;
        const uint64_t *words = job.lists.words + position * job.lists.capacity;
        const kin_fused_span span = screened ? kin_fused_span{} : job.spans[job.owners[position]];
        const int32_t count =
            screened ? min(job.lists.counts[position], job.lists.capacity) : (int32_t)span.count;
        kin_fused_pair *pairs = job.pairs + i * k;
        crew_sync(s.crew); /* the row before is written */
        if (STEP != COSTS && job.set_rows.cols <= s.chunk) {
            stage_row<TRANSFORMS>(job.set_rows, row, 0, job.set_rows.cols, s.crew, query);
        }
        const int32_t kept = find_best<STEP, DTYPE, TRANSFORMS>(
            job, s, row, screened ? words : NULL, span, count, query);
        if (s.crew == WARP) {
            write_ranked(keys, ids, kept, k, pairs);
        } else {
            for (int32_t j = thread; j < kept; j += BLOCK) {
                pairs[j] = kin_fused_pair{keys[j], ids[j], 0};
            }
        }
        if (thread == 0) {
            job.count[i] = min(kept, k);
            computed += STEP == COSTS ? 0 : (uint64_t)count;
        }
        if (job.answers.rows > 0) {
            crew_sync(s.crew); /* the pairs are written */
            if (thread < WARP) {
                write_row<WARP>(job.answers, i);
            }
        }
    }
    if (thread == 0 && job.keys != NULL && computed != 0) {
        (void)atomicAdd((unsigned long long *)job.keys, (unsigned long long)computed);
    }
}

static int32_t crew_of(const kin_fused_rescore *job)
{
    return job->lists.capacity <= (job->spans != NULL ? SHORT_SPAN : SHORT) ? WARP : BLOCK;
}

template <kith_metric STEP, kith_dtype DTYPE, bool TRANSFORMS>
static int rescore_launch(kin_gpu_stream *stream, const kin_fused_rescore *job)
{
    const shape s = shape_of(stream, job, STEP == COSTS, crew_of(job));
    if (s.places <= job->lists.k && s.places < job->lists.capacity) {
        return (int)cudaErrorInvalidValue;
    }
    const int32_t crews = s.crew == WARP ? CREWS : 1;
    const size_t bytes = crew_bytes(s) * (size_t)crews;
    const int64_t wished = (job->rows + crews - 1) / crews;
    const int64_t most = (int64_t)stream->processors * BLOCKS_A_PROCESSOR;
    KIN_CUDA_TRY(cudaFuncSetAttribute(rescore_kernel<STEP, DTYPE, TRANSFORMS>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    const kin_gpu_grid grid = {(unsigned)(wished < most ? wished : most),
                               (unsigned)(s.crew * crews), bytes};
    return kin_gpu_launch_behind(stream, rescore_kernel<STEP, DTYPE, TRANSFORMS>, grid, *job, s);
}

template <kith_metric STEP, bool TRANSFORMS>
static int rescore_by_dtype(kin_gpu_stream *stream, const kin_fused_rescore *job)
{
    const kin_fused_rows *rows = &job->cols_rows;
#define LAUNCH(DTYPE) return rescore_launch<STEP, DTYPE, TRANSFORMS>(stream, job)
    KIN_PAIR_EACH_DTYPE(kin_pair_dtype(rows->data, rows->stride_bytes, rows->dtype), LAUNCH)
#undef LAUNCH
    return (int)cudaErrorInvalidValue; /* not reached */
}

int kin_fused_launch_rescore(kin_gpu_stream *stream, const kin_fused_rescore *job)
{
    if (job->rows == 0) {
        return 0;
    }
    if (job->set.frame.bound == KIN_BOUND_INTEGER) {
        return rescore_launch<COSTS, KITH_DTYPE_NONE, false>(stream, job);
    }
    if (job->set_rows.metric == KITH_INNER_PRODUCT) {
        return rescore_by_dtype<KITH_INNER_PRODUCT, false>(stream, job);
    }
    return job->cols_rows.transforms != NULL
               ? rescore_by_dtype<KITH_SQEUCLIDEAN, true>(stream, job)
               : rescore_by_dtype<KITH_SQEUCLIDEAN, false>(stream, job);
}

template <int TEAM>
static __global__ void __launch_bounds__(BLOCK) write_kernel(const kin_fused_write job)
{
    const int64_t i = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / TEAM;
    if (i < job.rows) { /* a whole team */
        write_row<TEAM>(job, i);
    }
}

template <int TEAM> static int launch(kin_gpu_stream *stream, const kin_fused_write *job)
{
    const int64_t blocks = (job->rows + BLOCK / TEAM - 1) / (BLOCK / TEAM);
    if (blocks == 0) {
        return 0;
    }
    if (blocks > INT32_MAX) {
        return (int)cudaErrorInvalidConfiguration;
    }
    write_kernel<TEAM><<<(unsigned)blocks, BLOCK, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

int kin_fused_launch_write(kin_gpu_stream *stream, const kin_fused_write *job)
{
    if (job->k <= 8) {
        return launch<8>(stream, job);
    }
    return job->k <= 16 ? launch<16>(stream, job) : launch<32>(stream, job);
}
