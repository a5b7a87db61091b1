/* SPDX-License-Identifier: Apache-2.0
 * From "is there a GPU?" to an open device. libkith is linked with nothing of CUDA: the module is
 * opened when somebody asks, and every way in which that may fail is one line for a person. */
#define _GNU_SOURCE
#include "gpu/gpu.h"

#include "host/host_file.h"

#include <dlfcn.h>
#include <elf.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Found out once a process: a driver that appears later is not looked for. */
static pthread_once_t asked = PTHREAD_ONCE_INIT;
static const kin_gpu_module *module_found;
static int32_t device_count;
static int32_t first_usable = -1;
static char reason[512];
static pid_t asker; /* CUDA serves the process that asked, and none that it forks from then on */

/* ---- The module ------------------------------------------------------------------------------ */

/* A copy that ended too soon: the table of sections, which stands last, is not whole. The loader
 * would map what the headers announce, and the process die by a signal when it is read. */
static bool is_cut(const char *path)
{
    Elf64_Ehdr head;
    struct stat file;
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        return false; /* the loader says why */
    }
    const bool known = fread(&head, sizeof head, 1, stream) == 1 &&
                       memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
                       fstat(fileno(stream), &file) == 0 && S_ISREG(file.st_mode);
    (void)fclose(stream);
    const uint64_t table = known ? (uint64_t)head.e_shnum * head.e_shentsize : 0;
    return known &&
           (head.e_shoff > (uint64_t)file.st_size || (uint64_t)file.st_size - head.e_shoff < table);
}

static void *open_path(const char *path, const char *what_to_do)
{
    if (strchr(path, '/') != NULL && is_cut(path)) {
        (void)snprintf(reason, sizeof reason, "the GPU module is cut short: %s (%s)", path,
                       what_to_do);
        return NULL;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) {
        const char *why = dlerror();
        (void)snprintf(reason, sizeof reason, "the GPU module cannot be opened: %s (%s)",
                       why != NULL ? why : path, what_to_do);
    }
    return library;
}

/* KITH_CUDA_MODULE names it (but not for a program that runs with more rights than its caller);
 * else it is beside libkith, else wherever the loader looks. What is found and wrong is what there
 * is to tell. The module stays: a driver does not survive being unloaded. */
static void *open_library(const char **what_to_do)
{
    char path[PATH_MAX];
    const char *given = secure_getenv("KITH_CUDA_MODULE");
    if (given != NULL && given[0] != '\0') {
        *what_to_do = "unset KITH_CUDA_MODULE, or let it name libkith_cuda.so";
        return open_path(given, *what_to_do);
    }
    *what_to_do = "install kith again";
    if (kin_host_beside(KIN_GPU_LIBRARY, path, sizeof path)) {
        return open_path(path, *what_to_do);
    }
    return open_path(KIN_GPU_LIBRARY, "where nvcc is installed make CUDA=ON builds it");
}

static const kin_gpu_module *load_module(void)
{
    const char *what_to_do = NULL;
    void *library = open_library(&what_to_do);
    if (library == NULL) {
        return NULL;
    }
    const kin_gpu_module *module = dlsym(library, KIN_GPU_SYMBOL);
    if (module == NULL) {
        (void)snprintf(reason, sizeof reason,
                       "the GPU module is none: it has no " KIN_GPU_SYMBOL " (%s)", what_to_do);
        return NULL;
    }
    if (module->version != KIN_GPU_VERSION || module->bytes != sizeof *module) {
        (void)snprintf(reason, sizeof reason,
                       "the GPU module has version %" PRIu32 ", this libkith needs %d (install "
                       "both from one build)",
                       module->version, KIN_GPU_VERSION);
        return NULL;
    }
    return module;
}

/* ---- The devices ----------------------------------------------------------------------------- */

bool kin_gpu_usable(const kin_gpu_info *info)
{
    return info->major >= KIN_GPU_LEAST_MAJOR;
}

int32_t kin_gpu_chip(const kin_gpu_info *info)
{
    return 10 * info->major + info->minor;
}

static void explain_count(const kin_gpu_module *module, int error)
{
    if (error == KIN_GPU_ERROR_OLD_DRIVER) {
        (void)snprintf(reason, sizeof reason,
                       "no NVIDIA driver, or one that is too old (kith needs one for CUDA 13)");
    } else if (error == KIN_GPU_ERROR_NO_DEVICE || error == 0) {
        (void)snprintf(reason, sizeof reason, "the NVIDIA driver shows no GPU");
    } else {
        (void)snprintf(reason, sizeof reason, "the NVIDIA driver does not work: %s (CUDA error %d)",
                       module->ops->error_text(error), error);
    }
}

static void ask(void)
{
    const kin_gpu_module *module = load_module();
    asker = getpid();
    if (module == NULL) {
        return;
    }
    const int error = module->ops->count(&device_count);
    if (error != 0 || device_count < 1) {
        device_count = 0;
        explain_count(module, error);
        return;
    }
    module_found = module; /* kin_gpu_describe works from here on */
    kin_gpu_info info;
    for (int32_t i = 0; i < device_count && first_usable < 0; i++) {
        if (module->ops->describe(i, &info) == 0 && kin_gpu_usable(&info)) {
            first_usable = i;
        }
    }
    if (first_usable < 0) {
        const bool said = module->ops->describe(0, &info) == 0;
        (void)snprintf(reason, sizeof reason,
                       "no GPU is new enough: %.64s has compute capability %d.%d, kith needs %d.0 "
                       "(use another device)",
                       said ? info.name : "the first", said ? (int)info.major : 0,
                       said ? (int)info.minor : 0, KIN_GPU_LEAST_MAJOR);
    }
}

const char *kin_gpu_reason(void)
{
    (void)pthread_once(&asked, ask);
    if (first_usable >= 0 && getpid() != asker) {
        return "this process was forked after its parent had asked for GPUs, and CUDA does not "
               "serve both (start it by spawn or forkserver, or before the first call of kith)";
    }
    return first_usable >= 0 ? NULL : reason;
}

const kin_gpu_module *kin_gpu_get_module(void)
{
    return kin_gpu_reason() == NULL ? module_found : NULL;
}

int32_t kin_gpu_count(void)
{
    (void)pthread_once(&asked, ask);
    return device_count;
}

int32_t kin_gpu_index_of(const void *address)
{
    const kin_gpu_module *module = address == NULL ? NULL : kin_gpu_get_module();
    int32_t there = 0;
    int32_t index = 0;
    const bool known = module != NULL && module->ops->where(address, &there, &index) == 0;
    return known && there == 1 ? index : -1;
}

bool kin_gpu_describe(int32_t index, kin_gpu_info *info)
{
    return index >= 0 && index < kin_gpu_count() && module_found->ops->describe(index, info) == 0;
}

int32_t kin_gpu_first(void)
{
    (void)pthread_once(&asked, ask);
    return first_usable;
}

/* ---- One device ------------------------------------------------------------------------------ */

/* Left to the driver, to lazily loaded kernels, and to others on the device: a sixteenth of what is
 * free, at least 256 MiB where there is that much. */
static uint64_t budget_of(uint64_t available)
{
    const uint64_t least = UINT64_C(256) << 20;
    const uint64_t margin = available / 16 > least ? available / 16 : least;
    return available > 2 * margin ? available - margin : available / 2;
}

static kith_status check_device(kith_ctx *ctx, int32_t index, kin_gpu_info *info)
{
    if (kin_gpu_reason() != NULL) {
        return kin_fail(ctx, KITH_E_UNSUPPORTED, "no GPU can be used: %s", kin_gpu_reason());
    }
    if (index < 0 || index >= device_count) {
        return kin_fail(ctx, KITH_E_ARGUMENT,
                        "there is no cuda:%d, the driver shows %d (give cuda:0 to cuda:%d)",
                        (int)index, (int)device_count, (int)device_count - 1);
    }
    if (!kin_gpu_describe(index, info)) {
        return kin_fail(ctx, KITH_E_DEVICE,
                        "cuda:%d does not answer (ask nvidia-smi, or use --device cpu)",
                        (int)index);
    }
    if (!kin_gpu_usable(info)) {
        return kin_fail(ctx, KITH_E_UNSUPPORTED,
                        "cuda:%d is too old: %s has compute capability %d.%d, kith needs %d.0 (use "
                        "another device)",
                        (int)index, info->name, (int)info->major, (int)info->minor,
                        KIN_GPU_LEAST_MAJOR);
    }
    return KITH_OK;
}

static kith_status open_stream(kith_ctx *ctx, kin_gpu *gpu, uint64_t budget)
{
    const kin_gpu_ops *ops = gpu->module->ops;
    uint64_t available = 0;
    KIN_TRY(
        kin_gpu_check(ctx, gpu, ops->open(gpu->index, NULL, &gpu->stream), "opening the device"));
    KIN_TRY(kin_gpu_check(ctx, gpu, ops->free_bytes(gpu->stream, &available),
                          "asking for free device memory"));
    gpu->given = budget != 0 ? budget : budget_of(available);
    gpu->budget = gpu->given;
    return KITH_OK;
}

kith_status kin_gpu_open(kith_ctx *ctx, int32_t index, uint64_t budget, kin_gpu **out)
{
    kin_gpu_info info;
    kin_gpu *gpu = NULL;
    *out = NULL;
    KIN_TRY(check_device(ctx, index, &info));
    KIN_TRY(kin_alloc_zero(ctx, &gpu, 1, sizeof *gpu, "a GPU"));
    gpu->module = module_found;
    gpu->index = index;
    gpu->info = info;
    gpu->home = ctx;
    if (pthread_mutex_init(&gpu->lock, NULL) != 0) {
        kin_free(ctx, gpu);
        return kin_fail(ctx, KITH_E_MEMORY, "no memory for the lock of a GPU (free some memory)");
    }
    kin_gpu_enter(gpu);
    const kith_status status = open_stream(ctx, gpu, budget);
    kin_gpu_leave(gpu);
    if (status != KITH_OK) {
        kin_gpu_close_one(ctx, gpu);
        return status;
    }
    *out = gpu;
    return KITH_OK;
}

void kin_gpu_close_one(kith_ctx *ctx, kin_gpu *gpu)
{
    if (gpu == NULL) {
        return;
    }
    kin_gpu_enter(gpu);
    if (gpu->stream != NULL) {
        (void)gpu->module->ops->wait(gpu->stream); /* its error was somebody's who did not ask */
        kin_gpu_ahead_close(gpu);
        kin_gpu_cache_end(gpu);
        kin_gpu_staging_end(gpu);
        gpu->module->ops->event_free(gpu->followed);
        gpu->module->ops->close(gpu->stream);
    }
    kin_gpu_leave(gpu);
    (void)pthread_mutex_destroy(&gpu->lock);
    kin_free(ctx, gpu);
}

/* Errors of the switch need no answer: the first real call after it would tell them. */
void kin_gpu_enter(kin_gpu *gpu)
{
    const kin_gpu_ops *ops = gpu->module->ops;
    int32_t found = gpu->index;
    pthread_mutex_lock(&gpu->lock);
    (void)ops->current(&found);
    gpu->found = found;
    (void)ops->make_current(gpu->index);
}

void kin_gpu_leave(kin_gpu *gpu)
{
    kin_gpu_cache_rest(gpu);
    if (gpu->found != gpu->index) {
        (void)gpu->module->ops->make_current(gpu->found);
    }
    pthread_mutex_unlock(&gpu->lock);
}

/* Later work of one stream waits for what the other one holds now. */
static kith_status stand_behind(kith_ctx *ctx, kin_gpu *gpu, kin_gpu_stream *first,
                                kin_gpu_stream *last)
{
    const kin_gpu_ops *ops = gpu->module->ops;
    KIN_TRY(kin_gpu_check(ctx, gpu, ops->event_record(first, gpu->followed),
                          "using the stream that was given"));
    return kin_gpu_check(ctx, gpu, ops->event_follow(last, gpu->followed), "waiting for a stream");
}

/* leads: the caller's stream stands behind ours, else ours behind it. */
static kith_status join(kith_ctx *ctx, kin_gpu *gpu, void *foreign_stream, bool leads)
{
    const kin_gpu_ops *ops = gpu->module->ops;
    kin_gpu_stream *other = NULL;
    if (gpu->followed == NULL) {
        KIN_TRY(kin_gpu_check(ctx, gpu, ops->event_make(&gpu->followed), "making an event"));
    }
    KIN_TRY(kin_gpu_check(ctx, gpu, ops->open(gpu->index, foreign_stream, &other),
                          "using the stream that was given"));
    const kith_status status = leads ? stand_behind(ctx, gpu, gpu->stream, other)
                                     : stand_behind(ctx, gpu, other, gpu->stream);
    ops->close(other);
    return status;
}

kith_status kin_gpu_follow(kith_ctx *ctx, kin_gpu *gpu, void *foreign_stream)
{
    return join(ctx, gpu, foreign_stream, false);
}

kith_status kin_gpu_lead(kith_ctx *ctx, kin_gpu *gpu, void *foreign_stream)
{
    return join(ctx, gpu, foreign_stream, true);
}
