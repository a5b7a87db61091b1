/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_engines.h"

#include "host/host_cpu.h"
#include "support/support_gpu.h"
#include "support/support_keys.h"
#include "support/support_shapes.h"

static bool on_gpu;
static const char *device = "cuda";

void test_engines_use_gpu(void)
{
    on_gpu = true;
}

void test_engines_use_gpus(void)
{
    on_gpu = true;
    device = "cuda:all";
}

bool test_engines_are_gpu(void)
{
    return on_gpu;
}

int test_engine_count(void)
{
    return on_gpu ? 1 : KIN_ISA_COUNT;
}

kith_ctx *test_engine_ctx(int engine, int32_t threads)
{
    if (on_gpu) {
        return test_ctx_on(device, threads, 0);
    }
    const kin_isa isa = (kin_isa)engine;
    return kin_cpu_has(isa) ? test_ctx(isa, threads) : NULL;
}

kith_ctx *test_engine_best_ctx(int32_t threads)
{
    return test_engine_ctx(on_gpu ? 0 : (int)kin_cpu_best(), threads);
}

const char *test_engine_name(const kith_ctx *ctx)
{
    return on_gpu ? "cuda" : kith_ctx_get_params(ctx)->isa;
}

/* Turns go by the instruction sets that are here. */
bool test_engine_has_turn(int engine, int number, int of)
{
    int turn = 0;
    int count = 0;
    for (int i = 0; i < (int)KIN_ISA_COUNT; i++) {
        turn += i < engine && kin_cpu_has((kin_isa)i) ? 1 : 0;
        count += kin_cpu_has((kin_isa)i) ? 1 : 0;
    }
    return on_gpu || (turn + number) % (count < of ? count : of) == 0;
}

bool test_engine_takes(int engine, int number)
{
    return test_is_thread_build() || test_is_whole_build() ||
           test_engine_has_turn(engine, number, 2);
}

void test_on_each_engine(void (*fn)(kith_ctx *ctx, void *arg), void *arg)
{
    const int first = test_is_thread_build() && !on_gpu ? (int)kin_cpu_best() : 0;
    for (int engine = first; engine < test_engine_count(); engine++) {
        kith_ctx *ctx = test_engine_ctx(engine, 1 + engine % 3);
        if (ctx != NULL) {
            fn(ctx, arg);
            kith_ctx_free(ctx);
        }
    }
}
