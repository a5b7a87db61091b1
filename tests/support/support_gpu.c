/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_gpu.h"

#include "host/host_cpu.h"
#include "screen/screen_stage_gpu.h"
#include "support/support_keys.h"

#include <stdio.h>
#include <stdlib.h>

bool test_gpu_is_absent(void)
{
    kith_device device = {.struct_size = sizeof device};
    for (int32_t i = 1; kith_device_get(i, &device) == KITH_OK; i++) {
        if (device.available) {
            printf("on %s: %s\n", device.name, device.text);
            (void)fflush(stdout);
            return false;
        }
    }
    printf("skipped, no GPU: %s\n", device.text);
    return true;
}

bool test_gpus_are_few(void)
{
    kith_device device = {.struct_size = sizeof device};
    int32_t count = 0;
    for (int32_t i = 1; kith_device_get(i, &device) == KITH_OK; i++) {
        count += device.available != 0;
    }
    if (count < 2) {
        printf("skipped: there are fewer than two GPUs\n");
    }
    return count < 2;
}

kith_ctx *test_ctx_on(const char *device, int32_t threads, uint64_t gpu_memory)
{
    kith_ctx_params params = kith_ctx_params_default();
    params.device = device;
    params.gpu_memory_limit = gpu_memory;
    params.threads = threads;
    kith_ctx *ctx = NULL;
    if (kith_ctx_create(&params, &ctx) != KITH_OK) {
        abort();
    }
    return ctx;
}

kith_ctx *test_gpu_ctx(int32_t threads, uint64_t gpu_memory)
{
    return test_ctx_on("cuda", threads, gpu_memory);
}

kith_ctx *test_cpu_ctx(void)
{
    return test_ctx(kin_cpu_best(), kin_cpu_count());
}

int64_t test_rows_with_stages(int64_t rows, int64_t k)
{
    kith_ctx *ctx = test_gpu_ctx(1, 0);
    kin_gpu *gpu = NULL;
    if (kin_gpu_open(ctx, 0, 0, &gpu) != KITH_OK) {
        abort();
    }
    const int64_t small = kin_screen_gpu_small_graph(gpu, k + 1, 0);
    kin_gpu_close(ctx, gpu);
    kith_ctx_free(ctx);
    return small < rows ? rows : small + small / 4; /* some may be equal */
}
