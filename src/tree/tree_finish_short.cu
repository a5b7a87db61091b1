/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A lane finishes a place: it goes through its candidates, computes the eight sums of the
 * canonical key one after the other (metric_canonical.h), and inserts (key, id) into a sorted list.
 * Walks leave short lists sorted by value, so an insertion nearly always ends where it begins. A
 * warp writes the lists of its 32 places as one piece of memory, or what the caller sees of them,
 * each where its row is.
 *
 *   query   [column][lane]       doubles in shared memory
 *   keys    [slot][lane of 33]   written by columns, read by rows
 *   ids     [slot][lane of 33]
 *
 * Cost. Neighbours in the order have candidates in common, so rows of the corpus come from the
 * caches; rows of 16-byte alignment in loads of 16 bytes. All ids are read before the first key is
 * computed, eight loads at a time, and wait where the list grows to. 10^7 places of 12 candidates
 * are 2 GB of words and answers, the same again of rows: some milliseconds.
 *
 * Limits. A list takes 396 bytes of shared memory a slot and warp, a query 256 a column. */
#include "tree/tree_finish.cuh"

enum {
    WARPS = 4,
    PITCH = KIN_TREE_GPU_PACKET + 1,
    LANES = KIN_METRIC_LANES,
    CHUNK = 16,
    AT_ONCE = 8
};

/* Eight components of a row from column c on, zeros behind the last one. chunks: rows may be read
 * in pieces of 16 bytes. */
template <kith_dtype DTYPE>
static __device__ __forceinline__ void load_lanes(kith_dtype given, const char *row, int32_t c,
                                                  int32_t cols, bool chunks, double x[LANES])
{
    if constexpr (DTYPE == KITH_F32) {
        if (chunks && cols % (CHUNK / (int)sizeof(float)) == 0) {
            const float4 zeros = {0.0F, 0.0F, 0.0F, 0.0F};
            const float4 *from = (const float4 *)row + c / 4;
            const float4 low = __ldg(from);
            const float4 high = c + LANES <= cols ? __ldg(from + 1) : zeros;
            const float parts[LANES] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
            for (int j = 0; j < LANES; j++) {
                x[j] = (double)parts[j];
            }
            return;
        }
    }
#pragma unroll
    for (int j = 0; j < LANES; j++) {
        x[j] = c + j < cols ? kin_pair_value<DTYPE>(given, row, c + j) : 0.0;
    }
}

/* query: this lane's column. */
template <kith_metric STEP, kith_dtype DTYPE, bool WRAPS>
static __device__ __forceinline__ double key_of(const kin_fused_rows &corpus, const char *row,
                                                const double *query, bool chunks)
{
    const int32_t cols = corpus.cols;
    double sums[LANES] = {0, 0, 0, 0, 0, 0, 0, 0};
#pragma unroll 1
    for (int32_t c = 0; c < cols; c += LANES) {
        double x[LANES];
        load_lanes<DTYPE>(corpus.dtype, row, c, cols, chunks, x);
#pragma unroll
        for (int j = 0; j < LANES; j++) {
            if (c + j < cols) {
                sums[j] = kin_pair_step_in<STEP, WRAPS>(
                    sums[j], query[(c + j) * KIN_TREE_GPU_PACKET], x[j],
                    kin_pair_period<WRAPS>(corpus.period, c + j, cols));
            }
        }
    }
    const double sum = STEP == KITH_CHEBYSHEV ? kin_lanes_max(sums) : kin_lanes_sum(sums);
    return kin_pair_key<STEP>(corpus.metric, sum, cols);
}

/* One more into a list of n, sorted by (key, id). */
static __device__ __forceinline__ void insert(double *keys, uint32_t *ids, int32_t n, double key,
                                              uint32_t id)
{
    int32_t at = n;
    for (; at > 0; at--) {
        const double before = keys[(at - 1) * PITCH];
        const uint32_t id_before = ids[(at - 1) * PITCH];
        if (!kin_sort_before(key, id, before, id_before)) {
            break;
        }
        keys[at * PITCH] = before;
        ids[at * PITCH] = id_before;
    }
    keys[at * PITCH] = key;
    ids[at * PITCH] = id;
}

/* This lane's place: keys and ids of `count` candidates, sorted. */
template <kith_metric STEP, kith_dtype DTYPE, bool WRAPS>
static __device__ __forceinline__ void finish_place(const kin_tree_gpu_finish &job, int64_t place,
                                                    int32_t count, bool chunks, double *query,
                                                    double *keys, uint32_t *ids)
{
    if (count == 0) {
        return;
    }
    const char *row = finish_query(job, place);
    kin_sphere_place own = {};
    if constexpr (STEP == KITH_HAVERSINE) {
        own = kin_pair_sphere<KITH_DTYPE_NONE>(job.queries.dtype, row);
    } else {
        for (int32_t c = 0; c < job.queries.cols; c++) {
            query[c * KIN_TREE_GPU_PACKET] = kin_value(job.queries.dtype, row, c);
        }
    }
    const uint64_t *words = finish_words(job, place);
    for (int32_t first = 0; first < count; first += AT_ONCE) {
        uint32_t some[AT_ONCE];
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            const int32_t i = min(first + s, count - 1);
            some[s] = (uint32_t)__ldg(words + i * KIN_TREE_GPU_PACKET);
        }
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            some[s] = __ldg(job.tree.ids + some[s]);
        }
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++) {
            ids[min(first + s, count - 1) * PITCH] = some[s];
        }
    }
    for (int32_t i = 0; i < count; i++) {
        const uint32_t id = ids[i * PITCH]; /* insertions have not come so far */
        double key;
        if constexpr (STEP == KITH_HAVERSINE) {
            key = kin_sphere_key(own, finish_sphere<DTYPE>(job, id));
        } else {
            key = key_of<STEP, DTYPE, WRAPS>(job.corpus, finish_row(job, id), query, chunks);
        }
        insert(keys, ids, i, key, id);
    }
}

/* The lists of a warp, `left` of its places, side by side; counts: of this lane's place. */
static __device__ __forceinline__ void write_lists(const double *keys, const uint32_t *ids,
                                                   int32_t count, int32_t wanted, int64_t left,
                                                   kin_fused_pair *pairs)
{
    const int32_t lane = (int32_t)threadIdx.x % KIN_TREE_GPU_PACKET;
    for (int32_t i = 0; i < wanted; i++) {
        const int32_t t = i * KIN_TREE_GPU_PACKET + lane;
        const int32_t place = t / wanted;
        const int32_t slot = t % wanted;
        const int32_t have = __shfl_sync(0xffffffffu, count, place);
        if (place < left && slot < have) {
            const double key = keys[slot * PITCH + place];
            const uint64_t bits = kin_bits_of(key);
            *(uint4 *)(pairs + t) =
                make_uint4((uint32_t)bits, (uint32_t)(bits >> 32), ids[slot * PITCH + place], 0);
        }
    }
}

/* The same as answers: count and row are this lane's place's. Whoever is left out leaves a gap. */
static __device__ __forceinline__ void write_answers(const double *keys, const uint32_t *ids,
                                                     int32_t count, uint32_t row,
                                                     const kin_fused_write &job)
{
    const int32_t lane = (int32_t)threadIdx.x % KIN_TREE_GPU_PACKET;
    const bool real = row != KITH_ID_NONE;
    const uint32_t own = job.leaves_own_out ? row : KITH_ID_NONE;
    const uint32_t left_out = real && job.left_out != NULL ? job.left_out[row] : own;
    int32_t gap = count;
    for (int32_t slot = 0; slot < count; slot++) {
        gap = ids[slot * PITCH + lane] == left_out ? slot : gap;
    }
    const int32_t kept = gap < count ? count - 1 : count;
    if (real && kept < job.k_out) {
        (void)atomicAdd((unsigned long long *)job.short_rows, 1ull);
    }
    for (int32_t i = 0; i < job.k_out; i++) {
        const int32_t t = i * KIN_TREE_GPU_PACKET + lane;
        const int32_t place = t / job.k_out;
        const int32_t to = t % job.k_out;
        const uint32_t its_row = __shfl_sync(0xffffffffu, row, place);
        const int32_t have = __shfl_sync(0xffffffffu, kept, place);
        const int32_t slot = to + (to < __shfl_sync(0xffffffffu, gap, place) ? 0 : 1);
        if (its_row != KITH_ID_NONE && to < have) {
            kin_fused_put(job, (int64_t)its_row * job.k_out + to, ids[slot * PITCH + place],
                          kin_pair_distance(job.metric, keys[slot * PITCH + place]));
        }
    }
}

template <kith_metric STEP, kith_dtype DTYPE, bool WRAPS>
static __global__ void __launch_bounds__(WARPS *KIN_TREE_GPU_PACKET)
    finish_kernel(const kin_tree_gpu_finish job, const int32_t bytes, const bool chunks)
{
    extern __shared__ double finish_shared[];
    const int32_t lane = (int32_t)threadIdx.x % KIN_TREE_GPU_PACKET;
    const int32_t warp = (int32_t)threadIdx.x / KIN_TREE_GPU_PACKET;
    const int32_t warps = (int32_t)blockDim.x / KIN_TREE_GPU_PACKET;
    const int64_t first = ((int64_t)blockIdx.x * warps + warp) * KIN_TREE_GPU_PACKET;
    if (first >= job.count) {
        return;
    }
    const int64_t i = first + lane;
    const int64_t place = job.place0 + i;
    const int32_t capacity = job.lists.capacity;
    double *query = finish_shared + (int64_t)warp * (bytes / (int32_t)sizeof(double));
    double *keys = query + job.corpus.cols * KIN_TREE_GPU_PACKET;
    uint32_t *ids = (uint32_t *)(keys + capacity * PITCH);
    const int32_t have = i < job.count ? min(job.lists.counts[place], capacity) : 0;
    const int32_t count = min(have, job.lists.wanted);
    finish_place<STEP, DTYPE, WRAPS>(job, place, have, chunks, query + lane, keys + lane,
                                     ids + lane);
    __syncwarp(); /* all lists are sorted */
    if (job.answers.rows != 0) {
        const bool real = i < job.count;
        write_answers(keys, ids, count, real ? finish_asked(job, place) : KITH_ID_NONE,
                      job.answers);
    } else {
        write_lists(keys, ids, count, job.lists.wanted, job.count - first,
                    job.pairs + first * job.lists.wanted);
        if (i < job.count) {
            job.counts[i] = count;
        }
    }
    const uint32_t computed = __reduce_add_sync(0xffffffffu, (uint32_t)have);
    if (lane == 0) {
        finish_count(job, computed);
    }
}

static int64_t warp_bytes(const kin_tree_gpu_finish *job)
{
    const int64_t slots = (int64_t)job->lists.capacity * PITCH;
    const int64_t ids = (slots + 1) / 2 * 2 * (int64_t)sizeof(uint32_t);
    return ((int64_t)job->corpus.cols * KIN_TREE_GPU_PACKET + slots) * (int64_t)sizeof(double) +
           ids;
}

template <kith_metric STEP, kith_dtype DTYPE, bool WRAPS>
static int finish_launch(kin_gpu_stream *stream, const kin_tree_gpu_finish *job)
{
    const int64_t bytes = warp_bytes(job);
    const int64_t packets = (job->count + KIN_TREE_GPU_PACKET - 1) / KIN_TREE_GPU_PACKET;
    const bool chunks =
        ((uint64_t)(uintptr_t)job->corpus.data | (uint64_t)job->corpus.stride_bytes) % CHUNK == 0;
    int32_t warps = WARPS;
    while (warps > 1 && warps * bytes > stream->shared_bytes) {
        warps /= 2;
    }
    KIN_CUDA_TRY(cudaFuncSetAttribute(finish_kernel<STEP, DTYPE, WRAPS>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      stream->shared_bytes));
    finish_kernel<STEP, DTYPE, WRAPS>
        <<<(unsigned)((packets + warps - 1) / warps), (unsigned)(warps * KIN_TREE_GPU_PACKET),
           (size_t)(warps * bytes), stream->stream>>>(*job, (int32_t)bytes, chunks);
    return kin_gpu_launched();
}

int kin_tree_gpu_finish_short(kin_gpu_stream *stream, const kin_tree_gpu_finish *job)
{
#define LAUNCH(STEP, DTYPE, WRAPS) finish_launch<STEP, DTYPE, WRAPS>(stream, job)
    FINISH_LAUNCH(LAUNCH)
#undef LAUNCH
}
