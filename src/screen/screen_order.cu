/* SPDX-License-Identifier: Apache-2.0
 * Rows sorted by the cell they lie in, and an order of the few that tell cells apart. Contract:
 * screen_kernels.h. A radix sort is stable, so rows of a cell keep their order.
 *
 * The few are put in order as all rows are on the processor (screen_order.c), in one block: a warp
 * has eight of them in registers, of which lane l has the sum of components l, l + 32, ... with
 * random signs. The same order every time, since sums are.
 *
 * Cost: 69 microseconds of an H200 for rows of 784 bytes, 51 for 128. By the host it was 0.5 to 1
 * ms, in which the device had nothing to do. */
#include "screen/screen_row.cuh"

#include <cub/device/device_radix_sort.cuh>

typedef struct sort_scratch {
    uint32_t *cells;  /* points */
    uint32_t *sorted; /* points */
    uint32_t *rows;   /* points */
    void *radix;
    size_t radix_bytes;
    size_t bytes; /* of all */
} sort_scratch;

static size_t round_256(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static int32_t bits_of(uint32_t cell_count)
{
    int32_t bits = 1;
    while (bits < 32 && (cell_count - 1) >> bits != 0) {
        bits += 1;
    }
    return bits;
}

static int lay_out(const kin_screen_gpu_sort *job, sort_scratch *scratch)
{
    const size_t array = round_256((size_t)job->points * sizeof(uint32_t));
    unsigned char *base = (unsigned char *)job->scratch;
    scratch->cells = (uint32_t *)base;
    scratch->sorted = (uint32_t *)(base + array);
    scratch->rows = (uint32_t *)(base + 2 * array);
    scratch->radix = base + 3 * array;
    scratch->radix_bytes = 0;
    KIN_CUDA_TRY(cub::DeviceRadixSort::SortPairs(
        (void *)NULL, scratch->radix_bytes, (const uint32_t *)NULL, (uint32_t *)NULL,
        (const uint32_t *)NULL, (uint32_t *)NULL, job->points, 0, bits_of(job->cell_count)));
    scratch->bytes = 3 * array + round_256(scratch->radix_bytes);
    return 0;
}

static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
    spread_kernel(const __grid_constant__ kin_screen_gpu_sort job, uint32_t *cells, uint32_t *rows)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < job.points) {
        rows[i] = job.ids != NULL ? job.ids[i] : (uint32_t)i;
        if (cells != NULL) {
            const uint32_t cell = (uint32_t)job.nearest[i];
            cells[i] = cell < job.cell_count ? cell : job.cell_count - 1;
        }
    }
}

static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
    mark_tiles_kernel(const uint32_t *sorted, int64_t points, int64_t count, uint32_t *marks)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        const int64_t position = i * KIN_SCREEN_GPU_TILE;
        marks[i] = sorted[position < points ? position : points - 1];
    }
}

int kin_screen_gpu_launch_sort(kin_gpu_stream *stream, const kin_screen_gpu_sort *job)
{
    sort_scratch scratch;
    const unsigned blocks =
        (unsigned)((job->points + KIN_SCREEN_GPU_THREADS - 1) / KIN_SCREEN_GPU_THREADS);
    if (job->points == 0) {
        return 0;
    }
    if (job->nearest == NULL) {
        spread_kernel<<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job, (uint32_t *)NULL,
                                                                             job->order);
        return kin_gpu_launched();
    }
    const int laid_out = lay_out(job, &scratch);
    if (laid_out != 0) {
        return laid_out;
    }
    if (job->scratch == NULL) {
        *job->scratch_bytes = scratch.bytes;
        return 0;
    }
    spread_kernel<<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job, scratch.cells,
                                                                         scratch.rows);
    KIN_CUDA_TRY_LAUNCH();
    KIN_CUDA_TRY(cub::DeviceRadixSort::SortPairs(
        scratch.radix, scratch.radix_bytes, (const uint32_t *)scratch.cells, scratch.sorted,
        (const uint32_t *)scratch.rows, job->order, job->points, 0, bits_of(job->cell_count),
        stream->stream));
    if (job->marks != NULL) {
        const int64_t count = kin_screen_gpu_sort_marks(job->points);
        const unsigned marking =
            (unsigned)((count + KIN_SCREEN_GPU_THREADS - 1) / KIN_SCREEN_GPU_THREADS);
        mark_tiles_kernel<<<marking, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(
            scratch.sorted, job->points, count, job->marks);
    }
    return kin_gpu_launched();
}

/* ---- A few rows ------------------------------------------------------------------------------ */

enum { ROWS = KIN_SCREEN_GPU_HALVED * KIN_SCREEN_GPU_WARP / 1024, RUN = 32, POWER_STEPS = 4 };

typedef struct halving {
    float rows[KIN_SCREEN_GPU_HALVED][KIN_SCREEN_GPU_WARP];
    float sums[KIN_SCREEN_GPU_HALVED / ROWS][KIN_SCREEN_GPU_WARP];
    float along[KIN_SCREEN_GPU_HALVED];
    uint32_t ids[KIN_SCREEN_GPU_HALVED];
} halving;

/* This lane's number of a row's sketch. */
KIN_DEVICE float sketch_of(const kin_screen_gpu_set &set, int row, int lane)
{
    const unsigned char *from = set.rounded + (int64_t)row * set.frame.row_bytes;
    const bool halves = set.frame.type == KIN_SCREEN_GPU_F16;
    const int32_t wide = set.frame.row_bytes / (halves ? 2 : 1);
    float sum = 0.0F;
#pragma unroll 4
    for (int32_t col = lane; col < wide; col += KIN_SCREEN_GPU_WARP) {
        const float x =
            halves ? __half2float(((const __half *)from)[col]) : (float)((const int8_t *)from)[col];
        const uint64_t signs = (uint64_t)(col / KIN_SCREEN_GPU_WARP) * 0x9e3779b97f4a7c15u >> 32;
        sum += (signs >> lane & 1) != 0 ? -x : x;
    }
    return sum;
}

/* How far a row is along a direction: the same number for all lanes, and a number. */
KIN_DEVICE float along_of(float x, float direction)
{
    const float sum = (float)kin_screen_gpu_team_sum((double)(x * direction), KIN_SCREEN_GPU_WARP);
    return isfinite(sum) ? sum : 0.0F;
}

/* Of what all warps of a part have, lane by lane. */
KIN_DEVICE float part_sum(halving *h, float own, int warp, int lane, int warps)
{
    float sum = 0.0F;
    __syncthreads();
    h->sums[warp][lane] = own;
    __syncthreads();
    for (int i = 0; i < warps; i++) {
        sum += h->sums[warp / warps * warps + i][lane];
    }
    return sum;
}

/* Rows, as many as are left of a part in `warps` warps, are centred; then the power method, as in
 * screen_order.c, finds how they spread. */
static __global__ void __launch_bounds__(1024)
    halve_rows_kernel(const __grid_constant__ kin_screen_gpu_halve job)
{
    __shared__ halving h;
    const int warp = (int)threadIdx.x / KIN_SCREEN_GPU_WARP;
    const int lane = (int)threadIdx.x % KIN_SCREEN_GPU_WARP;
    const int first = warp * ROWS;
    float x[ROWS];
    uint32_t ids[ROWS];
    for (int i = 0; i < ROWS; i++) {
        x[i] = sketch_of(job.set, first + i, lane);
        ids[i] = job.ids[first + i];
    }
    for (int size = (int)job.set.points; size > RUN; size /= 2) {
        const int part = first / size * size;
        float direction = 1.0F + (float)lane / KIN_SCREEN_GPU_WARP;
        float own = 0.0F;
        for (int i = 0; i < ROWS; i++) {
            own += x[i];
        }
        const float mean = part_sum(&h, own, warp, lane, size / ROWS) / (float)size;
        for (int i = 0; i < ROWS; i++) {
            x[i] -= mean;
        }
        for (int step = 0; step < POWER_STEPS; step++) {
            own = 0.0F;
            for (int i = 0; i < ROWS; i++) {
                own += along_of(x[i], direction) * x[i];
            }
            const float next = part_sum(&h, own, warp, lane, size / ROWS);
            const float length = sqrtf(along_of(next, next));
            direction = length > 0.0F ? next / length : direction;
        }
        for (int i = 0; i < ROWS; i++) {
            h.along[first + i] = along_of(x[i], direction);
        }
        __syncthreads();
        for (int i = 0; i < ROWS; i++) { /* behind those that are less far along */
            const float own_along = h.along[first + i];
            int place = part;
            for (int r = part + lane; r < part + size; r += KIN_SCREEN_GPU_WARP) {
                const bool less =
                    h.along[r] < own_along || (h.along[r] == own_along && r < first + i);
                place += __popc(__ballot_sync(KIN_SCREEN_GPU_ALL_LANES, less));
            }
            h.rows[place][lane] = x[i];
            h.ids[place] = ids[i];
        }
        __syncthreads();
        for (int i = 0; i < ROWS; i++) {
            x[i] = h.rows[first + i][lane];
            ids[i] = h.ids[first + i];
        }
    }
    for (int i = 0; i < ROWS; i++) {
        job.ids[first + i] = ids[i];
    }
}

int kin_screen_gpu_launch_halve(kin_gpu_stream *stream, const kin_screen_gpu_halve *job)
{
    const unsigned threads = (unsigned)job->set.points / ROWS * KIN_SCREEN_GPU_WARP;
    halve_rows_kernel<<<1, threads, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}
