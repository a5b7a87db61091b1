/* SPDX-License-Identifier: Apache-2.0
 * Calls of an index: those that make or change it, in its own context, and those that read it. */
#include "index/index.h"

kith_status kin_index_call_begin(kith_ctx *ctx, kith_ctx *own, kin_index_call *call)
{
    const kith_ctx_params kept = own->params;
    const uint64_t held = atomic_load(&ctx->held_bytes);
    own->params = ctx->params;
    own->params.allocate = kept.allocate;
    own->params.release = kept.release;
    own->params.allocate_arg = kept.allocate_arg;
    own->params.device_allocate = kept.device_allocate;
    own->params.device_release = kept.device_release;
    own->params.device_allocate_arg = kept.device_allocate_arg;
    if (ctx->params.memory_limit != 0) {
        own->params.memory_limit =
            ctx->params.memory_limit > held ? ctx->params.memory_limit - held : 1;
    }
    own->threads = ctx->threads;
    own->isa = ctx->isa;
    own->device = ctx->device;
    own->device_index = ctx->device_index;
    own->device_count = ctx->device_count;
    memcpy(own->devices, ctx->devices, sizeof own->devices);
    *call = (kin_index_call){.ctx = ctx, .own = own};
    return kin_call_begin(own, &call->call);
}

kith_status kin_index_call_end(kin_index_call *call, kith_status status)
{
    kith_ctx *ctx = call->ctx;
    kith_ctx *own = call->own;
    status = kin_call_end(&call->call, status);
    ctx->report = own->report;
    atomic_fetch_add(&ctx->peak_bytes, own->report.peak_bytes);
    own->params.progress = NULL;
    own->params.log = NULL;
    own->params.memory_limit = 0;
    return status == KITH_OK ? KITH_OK : kin_fail_like(ctx, status, own);
}

kith_status kin_index_enter(kith_ctx *ctx, const kith_index *index)
{
    KIN_REFUSE_IF(index == NULL, ctx, "index", "is NULL (give an index)");
    kin_guard_enter(index->guard, false);
    return KITH_OK;
}

void kin_index_leave(kith_ctx *ctx, const kith_index *index)
{
    atomic_fetch_add(&ctx->peak_bytes, atomic_load(&index->own->held_bytes));
    kin_guard_leave(index->guard);
}

kith_status kin_index_refuse_gpu(kith_ctx *ctx, kith_method method)
{
    return ctx->device == KIN_DEVICE_CUDA && method != KITH_METHOD_EXACT
               ? kin_fail(ctx, KITH_E_UNSUPPORTED,
                          "an index by %s is the processor's, and the device is cuda (use auto or "
                          "cpu; or search the points themselves)",
                          method == KITH_METHOD_TREE ? "tree" : "graph")
               : KITH_OK;
}

const char *kin_index_method_name(kith_method method)
{
    return method == KITH_METHOD_TREE ? "tree" : method == KITH_METHOD_GRAPH ? "graph" : "exact";
}
