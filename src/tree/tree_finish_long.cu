/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A block finishes a place: ids of its candidates, their keys by teams of eight threads
 * (metric_pair.cuh), a bitonic sort in shared memory (screen_sort.cuh). A list that is longer than
 * the room comes in turns: the first `wanted` so far stay, others fill the rest. Where those are
 * more than it has places, they are found in passes: each takes half a room of what comes after the
 * last of the pass before it. It is screen_rescore.cu for rows that are short and lists whose words
 * stand 256 bytes apart.
 *
 * Cost. A sort of 256 is 36 steps of a barrier each: some 5 us a place and block, of which a
 * processor has eight. A pass computes all keys of a list. */
#include "tree/tree_finish.cuh"

enum { BLOCK = 128, LANES = KIN_METRIC_LANES, TEAMS = BLOCK / LANES, SPARE = 256, PLACES = 8192 };

/* keys[first .. last) of the candidates ids[]. All threads call it. */
template <kith_metric STEP, kith_dtype DTYPE, bool WRAPS>
static __device__ __forceinline__ void keys_of(const kin_tree_gpu_finish &job, const double *query,
                                               double *keys, const uint32_t *ids, int32_t first,
                                               int32_t last)
{
    const kin_screen_gpu_rows &corpus = job.corpus;
    const int32_t thread = (int32_t)threadIdx.x % LANES;
    for (int32_t base = first; base < last; base += TEAMS) {
        const int32_t at = base + (int32_t)threadIdx.x / LANES;
        /* A team without work repeats the last candidate, so that warps stay whole. */
        const char *row = finish_row(job, ids[min(at, last - 1)]);
        double sum = 0;
        for (int32_t c = thread; c < corpus.cols; c += LANES) {
            sum = kin_pair_step_in<STEP, WRAPS>(
                sum, query[c], kin_pair_value<DTYPE>(corpus.dtype, row, c),
                kin_pair_period<WRAPS>(corpus.period, c, corpus.cols));
        }
        const double key = kin_pair_key<STEP>(corpus.metric, kin_pair_sum<STEP>(sum), corpus.cols);
        if (at < last && thread == 0) {
            keys[at] = key;
        }
    }
}

/* The same of places, a thread a candidate. */
template <kith_dtype DTYPE>
static __device__ __forceinline__ void
keys_of_places(const kin_tree_gpu_finish &job, const double *query, double *keys,
               const uint32_t *ids, int32_t first, int32_t last)
{
    const kin_sphere_place own = kin_sphere_place_of(query[0], query[1]);
    for (int32_t at = first + (int32_t)threadIdx.x; at < last; at += BLOCK) {
        keys[at] = kin_sphere_key(own, finish_sphere<DTYPE>(job, ids[at]));
    }
}

template <kith_metric STEP, kith_dtype DTYPE, bool WRAPS>
static __global__ void __launch_bounds__(BLOCK, 8)
    finish_long_kernel(const kin_tree_gpu_finish job, const int32_t places)
{
    extern __shared__ double finish_shared[];
    const int32_t thread = (int32_t)threadIdx.x;
    const int32_t wanted = job.lists.wanted;
    double *query = finish_shared;
    double *keys = query + KIN_TREE_GPU_MOST_COLS;
    uint32_t *ids = (uint32_t *)(keys + places);
    uint64_t computed = 0;
    for (int64_t i = blockIdx.x; i < job.count; i += gridDim.x) {
        const int64_t place = job.place0 + i;
        const int32_t count = min(job.lists.counts[place], job.lists.capacity);
        const uint64_t *words = finish_words(job, place);
        const int32_t pass = places > wanted ? wanted : places / 2;
        double last_key = -(double)INFINITY; /* of the pass before, and its id */
        uint32_t last_id = 0;
        __syncthreads(); /* the place before is written */
        for (int32_t c = thread; count > 0 && c < job.queries.cols; c += BLOCK) {
            query[c] = kin_value(job.queries.dtype, finish_query(job, place), c);
        }
        const int32_t whole = min(count, wanted);
        for (int32_t done = 0, kept = 0; done < whole; done += kept) {
            kept = 0;
            for (int32_t used = 0; used < count;) {
                const int32_t added = min(count - used, places - kept);
                for (int32_t j = thread; j < added; j += BLOCK) {
                    ids[kept + j] = __ldg(
                        job.tree.ids + (uint32_t)words[(int64_t)(used + j) * KIN_TREE_GPU_PACKET]);
                }
                __syncthreads(); /* row and ids are known */
                if constexpr (STEP == KITH_HAVERSINE) {
                    keys_of_places<DTYPE>(job, query, keys, ids, kept, kept + added);
                } else {
                    keys_of<STEP, DTYPE, WRAPS>(job, query, keys, ids, kept, kept + added);
                }
                __syncthreads(); /* keys are complete */
                for (int32_t j = kept + thread; done > 0 && j < kept + added; j += BLOCK) {
                    if (!kin_sort_before(last_key, last_id, keys[j], ids[j])) {
                        keys[j] = (double)INFINITY;
                        ids[j] = KITH_ID_NONE;
                    }
                }
                kin_sort_block(keys, ids, kept + added);
                used += added;
                kept = min(kept + added, min(pass, whole - done));
            }
            for (int32_t j = thread; j < kept; j += BLOCK) {
                job.pairs[i * wanted + done + j] = kin_screen_gpu_pair{keys[j], ids[j], 0};
            }
            last_key = keys[kept - 1];
            last_id = ids[kept - 1];
            __syncthreads(); /* the pass is written, its last pair known */
        }
        if (thread == 0) {
            job.counts[i] = whole;
            computed += (uint64_t)count;
        }
    }
    if (thread == 0) {
        finish_count(job, computed);
    }
}

static size_t block_bytes(int32_t places)
{
    return KIN_TREE_GPU_MOST_COLS * sizeof(double) +
           (size_t)places * (sizeof(double) + sizeof(uint32_t));
}

/* Of the buffer: a power of two. */
static int32_t places_of(const kin_gpu_stream *stream, const kin_tree_gpu_finish *job)
{
    const int32_t fair = 2 * job->lists.wanted + SPARE;
    const int32_t most = fair < job->lists.capacity ? fair : job->lists.capacity;
    int32_t places = most < PLACES ? kin_sort_width(most) : PLACES;
    while (places > 1 && block_bytes(places) > (size_t)stream->shared_bytes) {
        places /= 2;
    }
    return places;
}

template <kith_metric STEP, kith_dtype DTYPE, bool WRAPS>
static int finish_launch(kin_gpu_stream *stream, const kin_tree_gpu_finish *job)
{
    const int32_t places = places_of(stream, job);
    const int64_t most = (int64_t)stream->processors * 64;
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, finish_long_kernel<STEP, DTYPE, WRAPS>));
    finish_long_kernel<STEP, DTYPE, WRAPS>
        <<<(unsigned)(job->count < most ? job->count : most), BLOCK, block_bytes(places),
           stream->stream>>>(*job, places);
    return kin_gpu_launched();
}

int kin_tree_gpu_finish_long(kin_gpu_stream *stream, const kin_tree_gpu_finish *job)
{
#define LAUNCH(STEP, DTYPE, WRAPS) finish_launch<STEP, DTYPE, WRAPS>(stream, job)
    FINISH_LAUNCH(LAUNCH)
#undef LAUNCH
}
