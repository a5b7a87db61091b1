/* SPDX-License-Identifier: Apache-2.0
 * The devices of stub_module.c, for programs that are run from outside, with kernels that compute:
 * those of tests/support, on the processor. */
#include "fused/fused_kernels.h"
#include "support/support_fake_gpu.h"
#include "support/support_fake_graph.h"

#include <kith/kith.h>

extern void stub_answer(kin_gpu_module *module);

/* The table of the fake device, which goes, but for its copies and memory. */
void stub_answer(kin_gpu_module *module)
{
    static kin_fused_kernels fused;
    static kin_graph_gpu_kernels graph;
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    params.device = "cpu";
    params.threads = 1;
    if (kith_ctx_create(&params, &ctx) != KITH_OK) {
        return;
    }
    kin_gpu *fake = test_fake_gpu(ctx, UINT64_C(1) << 30);
    test_fake_graph_into(fake);
    fused = *fake->module->fused;
    graph = *fake->module->graph;
    module->fused = &fused;
    module->graph = &graph;
    module->tree = fake->module->tree;
    kin_gpu_close(ctx, fake);
    kith_ctx_free(ctx);
}
