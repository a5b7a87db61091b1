/* SPDX-License-Identifier: Apache-2.0
 * Rows sorted by the cell they lie in. Contract: screen_kernels.h. A radix sort is stable, so rows
 * of a cell keep their order. */
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
