/* SPDX-License-Identifier: Apache-2.0
 * Contexts, and the list of devices. */
#include "api/api_check.h"

#include "kith/kith.h"
#include "kith_commit.h" /* made by cmake/commit.cmake at build time */
#include <stdio.h>
#include <stdlib.h>

#define NAMED(NAME, name, ...) " " #name

static void choose_isa(kith_ctx *ctx)
{
    const char *from = ctx->params.isa != NULL ? "isa" : "KITH_ISA";
    const char *name = ctx->params.isa != NULL ? ctx->params.isa : getenv("KITH_ISA");
    ctx->params.isa = NULL; /* the caller's string need not live as long as we do */
    if (name == NULL || name[0] == '\0') {
        ctx->isa = kin_cpu_best();
    } else if (!kin_isa_parse(name, &ctx->isa)) {
        ctx->isa = KIN_ISA_PORTABLE;
        (void)kin_fail_at(ctx, KITH_E_UNSUPPORTED, kin_at(from),
                          "is '%s', which is no instruction set (use portable;" KIN_ISA_X86_MAP(
                              NAMED) "; on ARM" KIN_ISA_ARM_MAP(NAMED) ")",
                          name);
    } else if (!kin_cpu_has(ctx->isa)) {
        (void)kin_fail_at(
            ctx, KITH_E_UNSUPPORTED, kin_at(from),
            "is %s, which this processor or kernel lacks (leave it unset for the best)", name);
        ctx->isa = KIN_ISA_PORTABLE;
    }
}

static bool is_among(const int32_t *known, int32_t count, long value)
{
    for (int32_t i = 0; i < count; i++) {
        if (known[i] == value) {
            return true;
        }
    }
    return false;
}

/* "2", "0,2,3": different numbers; "all". */
static bool parse_indices(kith_ctx *ctx, const char *text)
{
    if (strcmp(text, "all") == 0) {
        ctx->device_count = -1;
        return true;
    }
    for (const char *at = text;; at++) {
        char *end = NULL;
        if (at[0] < '0' || at[0] > '9' || ctx->device_count == KIN_MOST_DEVICES) {
            return false;
        }
        const long value = strtol(at, &end, 10);
        if (value >= 1024 || is_among(ctx->devices, ctx->device_count, value)) {
            return false;
        }
        ctx->devices[ctx->device_count++] = (int32_t)value;
        if (*end == '\0') {
            break;
        }
        if (*end != ',') {
            return false;
        }
        at = end;
    }
    ctx->device_index = ctx->devices[0];
    return true;
}

/* Understands ctx->params.device and KITH_DEVICE. False: it is no device; `value` is what it was.
 */
static bool parse_device(kith_ctx *ctx, const char **value)
{
    const char *name = ctx->params.device != NULL ? ctx->params.device : getenv("KITH_DEVICE");
    ctx->params.device = NULL; /* the caller's string need not live as long as we do */
    ctx->device = KIN_DEVICE_AUTO;
    ctx->device_index = -1;
    ctx->device_count = 0;
    *value = name;
    if (name == NULL || name[0] == '\0' || strcmp(name, "auto") == 0) {
        return true;
    }
    if (strcmp(name, "cpu") == 0) {
        ctx->device = KIN_DEVICE_CPU;
        return true;
    }
    ctx->device = KIN_DEVICE_CUDA;
    return strcmp(name, "cuda") == 0 ||
           (strncmp(name, "cuda:", 5) == 0 && parse_indices(ctx, name + 5));
}

static void choose_device(kith_ctx *ctx)
{
    const char *value = NULL;
    const char *from = ctx->params.device != NULL ? "device" : "KITH_DEVICE";
    if (!parse_device(ctx, &value)) {
        (void)kin_fail_at(
            ctx, KITH_E_UNSUPPORTED, kin_at(from),
            "is '%s', which is no device (use auto, cpu, cuda, cuda:N, cuda:N,M or cuda:all)",
            value);
        ctx->device = KIN_DEVICE_CPU;
    }
}

static void choose_threads(kith_ctx *ctx)
{
    enum { MOST_THREADS = 1024 };
    const char *text = getenv("KITH_THREADS");
    long wanted = ctx->params.threads;
    if (wanted == 0 && text != NULL && text[0] != '\0') {
        char *end = NULL;
        wanted = strtol(text, &end, 10);
        if (*end != '\0' || wanted < 1) {
            (void)kin_fail_at(ctx, KITH_E_UNSUPPORTED, kin_at("KITH_THREADS"),
                              "is '%s', which is no number of threads (give 1 or more)", text);
            wanted = 1;
        }
    }
    if (wanted < 0) {
        (void)kin_fail_at(ctx, KITH_E_UNSUPPORTED, kin_at("threads"),
                          "is %ld, must be 1 or more, or 0 for all processors", wanted);
        wanted = 1;
    }
    if (wanted == 0) {
        wanted = kin_cpu_count();
    }
    ctx->threads = (int32_t)(wanted < MOST_THREADS ? wanted : MOST_THREADS);
}

kith_status kith_ctx_create(const kith_ctx_params *params, kith_ctx **out)
{
    if (out == NULL) {
        return KITH_E_ARGUMENT;
    }
    *out = NULL;
    kith_ctx_params given = kith_ctx_params_default();
    if (params != NULL) {
        if (params->struct_size < offsetof(kith_ctx_params, memory_limit)) {
            return KITH_E_ARGUMENT;
        }
        memcpy(&given, params,
               params->struct_size < sizeof given ? params->struct_size : sizeof given);
    }
    if ((given.allocate == NULL) != (given.release == NULL) ||
        (given.device_allocate == NULL) != (given.device_release == NULL)) {
        return KITH_E_ARGUMENT;
    }
    kith_ctx *ctx = kin_ctx_new(&given);
    if (ctx == NULL) {
        return KITH_E_MEMORY;
    }
    choose_isa(ctx);
    choose_threads(ctx);
    choose_device(ctx);
    ctx->params.struct_size = sizeof ctx->params;
    ctx->params.isa = kin_isa_name(ctx->isa);
    ctx->params.threads = ctx->threads;
    ctx->setup = ctx->failure;
    *out = ctx;
    return KITH_OK;
}

void kith_ctx_free(kith_ctx *ctx)
{
    if (ctx == NULL) {
        return;
    }
    kin_gpu_close(ctx, ctx->gpu);
    kin_ctx_delete(ctx);
}

const char *kith_ctx_detail(const kith_ctx *ctx)
{
    return ctx == NULL ? "the context is NULL" : ctx->failure.detail;
}

kith_status kith_ctx_where(const kith_ctx *ctx, kith_where *where)
{
    if (ctx == NULL || where == NULL || where->struct_size < sizeof where->struct_size) {
        return KITH_E_ARGUMENT;
    }
    const kin_failure *f = &ctx->failure;
    const kith_where own = {.status = f->status,
                            .argument = f->argument,
                            .member = f->member,
                            .file = f->file,
                            .reason = f->reason,
                            .row = f->row,
                            .column = f->column};
    kin_fill_room(where, &own, sizeof own);
    return KITH_OK;
}

const kith_ctx_params *kith_ctx_get_params(const kith_ctx *ctx)
{
    return &ctx->params;
}

kith_status kith_ctx_report(const kith_ctx *ctx, kith_report *report)
{
    if (ctx == NULL || report == NULL || report->struct_size == 0) {
        return KITH_E_ARGUMENT;
    }
    kin_fill_room(report, &ctx->report, sizeof *report);
    return KITH_OK;
}

static void describe_cpu(kith_device *device)
{
    char model[64];
    device->available = 1;
    (void)snprintf(device->name, sizeof device->name, "cpu");
    (void)snprintf(device->text, sizeof device->text, "%s, %d processors, %s",
                   kin_cpu_model(model, sizeof model), (int)kin_cpu_count(),
                   kin_isa_name(kin_cpu_best()));
}

static void describe_gpu(int32_t index, kith_device *device)
{
    kin_gpu_info info;
    (void)snprintf(device->name, sizeof device->name, "cuda:%d", (int)index);
    if (!kin_gpu_describe(index, &info)) {
        (void)snprintf(device->text, sizeof device->text, "not used: it does not answer");
        return;
    }
    device->available = kin_gpu_usable(&info) ? 1 : 0;
    const char *said = "";
    if (!kin_gpu_usable(&info)) {
        said = "; not used: too old, kith needs compute 8.0";
    } else if (!kin_select_tuned(kin_gpu_chip(&info))) {
        said = "; no such chip was measured: what is chosen by time is chosen as on an H200";
    }
    (void)snprintf(device->text, sizeof device->text, "%.64s, compute %d.%d, %.0f GiB%s", info.name,
                   (int)info.major, (int)info.minor, (double)info.total_bytes / 0x1p30, said);
}

/* Behind the processor: every GPU that the driver shows, or one entry that says why there is none.
 */
kith_status kith_device_get(int32_t index, kith_device *device)
{
    const int32_t gpus = kin_gpu_count();
    kith_device own = {.available = 0};
    if (device == NULL || device->struct_size < sizeof device->struct_size || index < 0 ||
        index > (gpus > 0 ? gpus : 1)) {
        return KITH_E_ARGUMENT;
    }
    if (index == 0) {
        describe_cpu(&own);
    } else if (gpus > 0) {
        describe_gpu(index - 1, &own);
    } else {
        (void)snprintf(own.name, sizeof own.name, "cuda");
        (void)snprintf(own.text, sizeof own.text, "not used: %.180s", kin_gpu_reason());
    }
    kin_fill_room(device, &own, sizeof own);
    return KITH_OK;
}

/* ---- Which kith this is ---------------------------------------------------------------------- */

#define TEXT(number) #number
#define VERSION(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

const char *kith_version(void)
{
    return VERSION(KITH_VERSION_MAJOR, KITH_VERSION_MINOR, KITH_VERSION_PATCH);
}

const char *kith_commit(void)
{
    return KITH_COMMIT;
}
