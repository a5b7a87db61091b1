/* SPDX-License-Identifier: Apache-2.0
 *
 * The screen on Hopper: products of 256 rows with 128 columns at a time on the tensor cores, one
 * test a pair in registers, and nothing but candidates leaves the chip.
 *
 *   1 producer thread   fills a ring of slices with the bulk copy engine    screen_wgmma_feed.cuh
 *   4 x 128 threads     where bytes go to lists, 64 rows each: products, then the test, while
 *                       other groups multiply                               screen_wgmma_bytes.cuh
 *   2 x 128 threads     else, 128 rows each: two 64 x 128 products ... screen_wgmma_multiply.cuh
 *                       ... then the test; where rows stay in shared memory
 *                       one group multiplies while the other tests          screen_wgmma_test.cuh
 *   3 drain warps       precise test, candidates                            screen_wgmma_test.cuh
 *
 *   global --copy engine--> ring --wgmma--> registers --coarse test--> rings --drain--> lists
 *
 * Cost of a tile of 256 x 128 pairs with 128 columns of halves: 2,048 cycles of the tensor cores,
 * beside them 128 additions and 128 maxima a thread. Limits: rounded rows below 2^31 bytes; 227 KiB
 * of shared memory. What was tried and measured: docs/notes/performance.md.
 */
#include "gpu/gpu_stream.cuh"
#include "screen/screen_wgmma_bytes.cuh"
#include "screen/screen_wgmma_feed.cuh"
#include "screen/screen_wgmma_write.cuh"

/* ---- The kernel ----------------------------------------------------------------------------- */

template <kin_screen_gpu_type TYPE, kin_screen_gpu_mode MODE, int STEPS, typename ACC>
static __device__ void consume(const params &p, shared_state *s, const unsigned char *rows,
                               const unsigned char *ring, int32_t group, int32_t thread)
{
    const int32_t lane = thread % 32;
    place at = {{0, 0}, {0, 0}, 0, 0};
    nearest_columns<ACC> nearest;
    if (STEPS > 0 && group == 1) {
        hopper_turn_give(TURN_NAME);
    }
    for (uint32_t parity = 0;; parity ^= 1) {
        hopper_barrier_wait(&s->unit_full, parity);
        const kin_screen_gpu_unit unit = s->unit;
        if (unit.count == 0) {
            break;
        }
        if (MODE == KIN_SCREEN_GPU_LISTS) {
            hopper_group_sync(GROUP_NAME + group); /* nobody reads the last unit's facts any more */
            s->rows[group * 128 + thread] = kin_gate_row_of(p.job.rows, p.job.row_lists,
                                                            unit.block * KIN_SCREEN_GPU_BLOCK +
                                                                (uint32_t)(group * 128 + thread));
            hopper_group_sync(GROUP_NAME + group);
        }
        if (MODE == KIN_SCREEN_GPU_NEAREST) {
            clear_nearest(&nearest);
        }
        for (uint32_t t = 0; t < unit.count; t++) {
            ACC low[64];
            ACC high[64];
            multiply_tile<body<TYPE, MODE, STEPS>, STEPS>(p, s, rows, ring, group, lane, &at, low,
                                                          high);
            if (lane == 0 && t + 1 == unit.count) {
                hopper_barrier_arrive(&s->unit_empty);
            }
            const tile_facts *facts = facts_of(s, at.tile);
            if (MODE == KIN_SCREEN_GPU_LISTS) {
                const uint32_t row0 = unit.block * KIN_SCREEN_GPU_BLOCK + (uint32_t)group * 128;
                const testing here = {s,
                                      facts,
                                      &at,
                                      row0,
                                      group * 4 + thread / 32,
                                      thread,
                                      p.two_sided != 0,
                                      p.job.passed.pairs != NULL};
                test_tile<body<TYPE, MODE, STEPS>>(p, here, group, low, high);
            } else if (MODE == KIN_SCREEN_GPU_MATRIX) {
                write_tile<TYPE>(p, facts, unit, group, thread, low, high);
            } else {
                nearest_tile(p, facts, thread, low, high, &nearest);
            }
            __syncwarp();
            if (lane == 0) {
                hopper_barrier_arrive(&s->tile_empty[at.tile.stage]);
            }
            step(&at.tile, tile_slots<STEPS>);
        }
        if (MODE == KIN_SCREEN_GPU_NEAREST) {
            offer_nearest<TYPE>(p, unit, group, thread, nearest);
        }
    }
    if (MODE == KIN_SCREEN_GPU_LISTS && lane == 0) {
        __threadfence_block();
        atomicAdd(&s->finished, 1u);
    }
}

enum { FEW_ROWS = 64 };

/* Of a slice of resident rows, a batch of few uses the first FEW_ROWS. Behind them there is room
 * for what groups write; the copy engine brings padding there with each unit, when all warps have
 * done with the last one. */
static_assert(body<KIN_SCREEN_GPU_F16, KIN_SCREEN_GPU_MATRIX, 1>::GROUPS * STAGED_ROWS *
                      STAGED_PITCH * sizeof(kin_screen_gpu_word) <=
                  (KIN_SCREEN_GPU_BLOCK - FEW_ROWS) * SLICE,
              "products of both groups lie behind the rows");

static __device__ __forceinline__ kin_screen_gpu_word *staged_of(unsigned char *rows, int32_t group)
{
    return (kin_screen_gpu_word *)(rows + FEW_ROWS * SLICE) + group * STAGED_ROWS * STAGED_PITCH;
}

/* A batch of few queries: both groups hold the same 64 rows and take every other tile, so that one
 * multiplies while the other writes, and the copy engine is what all wait for. */
template <kin_screen_gpu_type TYPE, int STEPS, typename ACC>
static __device__ void consume_few(const params &p, shared_state *s, unsigned char *rows,
                                   const unsigned char *ring, int32_t group, int32_t thread)
{
    const int32_t lane = thread % 32;
    place at = {{0, 0}, {0, 0}, 0, 0};
    for (uint32_t parity = 0;; parity ^= 1) {
        hopper_barrier_wait(&s->unit_full, parity);
        const kin_screen_gpu_unit unit = s->unit;
        if (unit.count == 0) {
            return;
        }
        const uint32_t row0 = unit.block * KIN_SCREEN_GPU_BLOCK;
        for (uint32_t t = 0; t < unit.count; t++) {
            const tile_facts *facts = facts_of(s, at.tile);
            if (t % 2 != (uint32_t)group) {
                pass_over(p, s, lane, &at);
            } else {
                ACC acc[64];
                multiply_few<STEPS>(p, s, rows, ring, &at, acc);
                give_back<slices_of<STEPS>>(p, s, lane, &at);
                if (p.job.rows.points <= STAGED_ROWS) {
                    write_staged<TYPE>(p, facts, unit, group, thread, staged_of(rows, group), acc);
                } else {
                    write_row<TYPE, 0>(p, facts, unit, row0 + row_of(thread, 0), lane, acc);
                    write_row<TYPE, 1>(p, facts, unit, row0 + row_of(thread, 1), lane, acc);
                }
            }
            __syncwarp();
            if (lane == 0) {
                hopper_barrier_arrive(&s->tile_empty[at.tile.stage]);
            }
            step(&at.tile, tile_slots<STEPS>);
        }
        if (lane == 0) {
            hopper_barrier_arrive(&s->unit_empty);
        }
    }
}

template <kin_screen_gpu_type TYPE, kin_screen_gpu_mode MODE, int STEPS, typename ACC>
static __global__ void __launch_bounds__(body<TYPE, MODE, STEPS>::THREADS, 1)
    wgmma_screen_kernel(const __grid_constant__ params p,
                        const __grid_constant__ CUtensorMap row_map,
                        const __grid_constant__ CUtensorMap col_map)
{
    typedef body<TYPE, MODE, STEPS> mine;
    extern __shared__ unsigned char raw[];
    unsigned char *base = raw + (1024 - hopper_shared(raw) % 1024) % 1024;
    shared_state *s = (shared_state *)(base + state_at<STEPS>());
    unsigned char *rows = base + p.rows_at;
    unsigned char *ring = rows + (p.resident ? (size_t)p.slices * ROW_SLICE_BYTES : 0);
    /* From one lane, so that the compiler sees that a warp has one. */
    const int32_t group = __shfl_sync(0xffffffffu, (int32_t)threadIdx.x / 128, 0);
    if (threadIdx.x == 0) {
        make_barriers(p, s, mine::WARPS);
    }
    if (mine::STARTS) {
        write_start_rows((unsigned char *)s + starts_at());
    }
    __syncthreads();
    if (group == mine::GROUPS) {
        hopper_give_registers<mine::OTHER_REGISTERS>();
        const int32_t warp = (int32_t)threadIdx.x / 32 - mine::WARPS;
        const int32_t lane = (int32_t)threadIdx.x % 32;
        if (warp == 0) {
            if (lane == 0) {
                produce<mine::LISTS, mine::STARTS, STEPS>(p, &row_map, &col_map, s, rows, ring);
            }
        } else if (mine::LISTS) {
            drain<mine>(p, s, warp - 1, lane);
        }
    } else {
        hopper_take_registers<mine::TESTING_REGISTERS>();
        const int32_t thread = (int32_t)threadIdx.x % 128;
        if constexpr (MODE == KIN_SCREEN_GPU_MATRIX && STEPS > 0) {
            if (p.job.rows.points <= FEW_ROWS && p.job.parts == NULL) {
                consume_few<TYPE, STEPS, ACC>(p, s, rows, ring, group, thread);
                return;
            }
        }
        if constexpr (mine::FOURS) {
            consume_bytes<mine, STEPS>(p, s, rows, ring, group, thread);
        } else {
            consume<TYPE, MODE, STEPS, ACC>(p, s, rows, ring, group, thread);
        }
    }
}

/* ---- Launch --------------------------------------------------------------------------------- */

typedef CUresult (*encode_fn)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                              const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                              const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                              CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* The driver's function, found at run time: the module is not linked with libcuda. */
static int find_encode(encode_fn *out)
{
    void *found = NULL;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    KIN_CUDA_TRY(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                                  cudaEnableDefault, &result));
    if (result != cudaDriverEntryPointSuccess || found == NULL) {
        return (int)cudaErrorSymbolNotFound;
    }
    *out = (encode_fn)found;
    return 0;
}

/* Rounded rows as bytes, in boxes of one slice x `rows` rows. */
static int make_map(encode_fn encode, const kin_screen_gpu_set *set, uint32_t rows,
                    CUtensorMap *map)
{
    const cuuint64_t size[2] = {(cuuint64_t)set->frame.row_bytes, (cuuint64_t)set->padded};
    const cuuint64_t stride[1] = {(cuuint64_t)set->frame.row_bytes};
    const cuuint32_t box[2] = {SLICE, rows};
    const cuuint32_t steps[2] = {1, 1};
    const CUresult result =
        encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, (void *)set->rounded, size, stride, box,
               steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? 0 : (int)cudaErrorInvalidValue;
}

static int64_t bytes_of_rows(const params &p)
{
    return p.resident ? (int64_t)p.slices * ROW_SLICE_BYTES : 0;
}

static int32_t count_stages(const params &p, int32_t shared_bytes)
{
    const int64_t fits =
        (shared_bytes - 1024 - (int64_t)p.rows_at - bytes_of_rows(p)) / p.stage_bytes;
    return fits < MOST_STAGES ? (int32_t)fits : (int32_t)MOST_STAGES;
}

template <typename BODY>
static params make_params(const kin_screen_gpu_screen *job, int32_t steps, int32_t shared_bytes)
{
    const kin_screen_gpu_frame *frame = &job->rows.frame;
    params p = {*job, frame->row_bytes / SLICE, 0, 0, 0, 0, job->col_lists.words != NULL, 0.0F, 0};
    const int64_t used = (int64_t)frame->cols * (frame->type == KIN_SCREEN_GPU_S8 ? 1 : 2);
    const int64_t last = used - (int64_t)(p.slices - 1) * SLICE;
    p.last_steps = (int32_t)((last + 31) / 32);
    p.resident = steps > 0;
    p.stage_bytes = COL_SLICE_BYTES + (p.resident ? 0 : ROW_SLICE_BYTES) +
                    (BODY::STARTS ? START_TILE_BYTES : 0);
    const size_t products = BODY::LISTS && job->passed.pairs == NULL
                                ? BODY::WARPS * BODY::RING * sizeof(burst_products)
                                : 0;
    const size_t state = p.resident ? state_at<1>() : state_at<0>();
    p.rows_at = (int32_t)((state + products_at<BODY>() + products + 1023) / 1024 * 1024);
    p.stages = count_stages(p, shared_bytes);
    if (frame->kappa > 0.0) {
        p.eps = nextafterf((float)(frame->kappa + 0x1p-20), INFINITY);
    }
    return p;
}

template <kin_screen_gpu_type TYPE, kin_screen_gpu_mode MODE, int STEPS, typename ACC>
static int launch(kin_gpu_stream *stream, const kin_screen_gpu_screen *job)
{
    encode_fn encode = NULL;
    CUtensorMap row_map;
    CUtensorMap col_map;
    typedef body<TYPE, MODE, STEPS> mine;
    const params p = make_params<mine>(job, STEPS, stream->shared_bytes);
    int error = find_encode(&encode);
    if (error == 0) {
        error = make_map(encode, &job->rows, KIN_SCREEN_GPU_BLOCK, &row_map);
    }
    if (error == 0) {
        error = make_map(encode, &job->cols, KIN_SCREEN_GPU_TILE, &col_map);
    }
    if (error != 0) {
        return error;
    }
    const size_t bytes = 1024 + (size_t)p.rows_at + (size_t)bytes_of_rows(p) +
                         (size_t)p.stages * (size_t)p.stage_bytes;
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, wgmma_screen_kernel<TYPE, MODE, STEPS, ACC>));
    wgmma_screen_kernel<TYPE, MODE, STEPS, ACC>
        <<<(unsigned)stream->processors, mine::THREADS, bytes, stream->stream>>>(p, row_map,
                                                                                 col_map);
    return kin_gpu_launched();
}

/* Bodies for rows of up to 32, 64, 96 (lists alone), 128, 192 (lists alone), 256 and 384 bytes; all
 * others are streamed, and so are bytes for lists whose starts are no bytes. */
template <kin_screen_gpu_type TYPE, kin_screen_gpu_mode MODE, typename ACC>
static int launch_mode(kin_gpu_stream *stream, const kin_screen_gpu_screen *job)
{
    const kin_screen_gpu_frame *frame = &job->rows.frame;
    const int64_t used = (int64_t)frame->cols * (TYPE == KIN_SCREEN_GPU_S8 ? 1 : 2);
    const bool short_rows = MODE == KIN_SCREEN_GPU_LISTS && used <= 192;
    if (body<TYPE, MODE, 1>::STARTS && job->cols.starts == NULL) {
        return launch<TYPE, MODE, 0, ACC>(stream, job);
    }
    if constexpr (MODE == KIN_SCREEN_GPU_LISTS) {
        if (used <= 32) {
            return launch<TYPE, MODE, 1, ACC>(stream, job);
        }
        if (used <= 64) {
            return launch<TYPE, MODE, 2, ACC>(stream, job);
        }
        if (used <= 96) {
            return launch<TYPE, MODE, 3, ACC>(stream, job);
        }
    }
    switch (frame->row_bytes / SLICE) {
    case 1:
        return launch<TYPE, MODE, 4, ACC>(stream, job);
    case 2:
        return short_rows          ? launch < TYPE, MODE, MODE == KIN_SCREEN_GPU_LISTS ? 6 : 8,
               ACC > (stream, job) : launch<TYPE, MODE, 8, ACC>(stream, job);
    case 3:
        return launch<TYPE, MODE, 12, ACC>(stream, job);
    default:
        return launch<TYPE, MODE, 0, ACC>(stream, job);
    }
}

template <kin_screen_gpu_type TYPE, typename ACC>
static int launch_type(kin_gpu_stream *stream, const kin_screen_gpu_screen *job)
{
    switch (job->mode) {
    case KIN_SCREEN_GPU_LISTS:
        return launch_mode<TYPE, KIN_SCREEN_GPU_LISTS, ACC>(stream, job);
    case KIN_SCREEN_GPU_MATRIX:
        return launch_mode<TYPE, KIN_SCREEN_GPU_MATRIX, ACC>(stream, job);
    case KIN_SCREEN_GPU_NEAREST:
        return launch_mode<TYPE, KIN_SCREEN_GPU_NEAREST, ACC>(stream, job);
    }
    return (int)cudaErrorInvalidValue;
}

int kin_screen_gpu_screen_wgmma(kin_gpu_stream *stream, const kin_screen_gpu_screen *job)
{
    return job->rows.frame.type == KIN_SCREEN_GPU_S8
               ? launch_type<KIN_SCREEN_GPU_S8, int32_t>(stream, job)
               : launch_type<KIN_SCREEN_GPU_F16, float>(stream, job);
}
