/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_gpu.h"

#include "host/host_cpu.h"
#include "support/support_keys.h"

#include <stdio.h>
#include <stdlib.h>

bool test_gpu_is_absent(void)
{
    kith_device device = {.struct_size = sizeof device};
    for (int32_t i = 1; i < kith_device_count(); i++) {
        if (kith_device_get(i, &device) == KITH_OK && device.available) {
            printf("on %s: %s\n", device.name, device.text);
            (void)fflush(stdout);
            return false;
        }
    }
    printf("skipped, no GPU: %s\n", device.text);
    return true;
}

kith_ctx *test_gpu_ctx(int32_t threads, uint64_t gpu_memory)
{
    kith_ctx_params params = kith_ctx_params_default();
    params.device = "cuda";
    params.gpu_memory_limit = gpu_memory;
    params.threads = threads;
    kith_ctx *ctx = NULL;
    if (kith_ctx_create(&params, &ctx) != KITH_OK) {
        abort();
    }
    return ctx;
}

kith_ctx *test_cpu_ctx(void)
{
    return test_ctx(kin_cpu_best(), kin_cpu_count());
}
