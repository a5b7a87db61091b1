/* SPDX-License-Identifier: Apache-2.0 */
#include "grove/grove_sort.cuh"

#include <cub/device/device_radix_sort.cuh>

extern "C" int kin_grove_sort_bytes(int64_t count, size_t *bytes)
{
    *bytes = 0;
    KIN_CUDA_TRY(cub::DeviceRadixSort::SortPairs((void *)NULL, *bytes, (const uint32_t *)NULL,
                                                 (uint32_t *)NULL, (const uint32_t *)NULL,
                                                 (uint32_t *)NULL, count, 0, 32));
    return 0;
}

extern "C" int kin_grove_sort(kin_gpu_stream *stream, void *scratch, size_t bytes,
                              const uint32_t *keys, uint32_t *sorted_keys, const uint32_t *values,
                              uint32_t *sorted_values, int64_t count, int32_t bits)
{
    KIN_CUDA_TRY(cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, sorted_keys, values,
                                                 sorted_values, count, 0, bits, stream->stream));
    return kin_gpu_launched();
}
