/* SPDX-License-Identifier: Apache-2.0
 * A GPU module for machines without a GPU: its device is host memory, its kernels do not exist.
 * What it pretends comes from the environment:
 *
 *   STUB_ERROR    the CUDA error that counting devices gives
 *   STUB_MAJOR    compute capability of the device (default 9)
 *   STUB_BYTES    memory of the device (default 64 MiB)
 *   STUB_PROCESSORS  of the device (default 132)
 *
 * STUB_VERSION, at compile time, makes it a module of another version; STUB_KERNELS adds the
 * kernels of stub_kernels.c, stub_tree.c and stub_graph.c. */
#include "gpu/gpu_module.h"
#ifdef STUB_KERNELS
#include "select/select_kernels.h"
#endif

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifndef STUB_VERSION
#define STUB_VERSION KIN_GPU_VERSION
#endif

#ifdef STUB_KERNELS
extern const struct kin_screen_gpu_kernels stub_kernels;
extern const struct kin_select_kernels stub_select[];
extern const struct kin_tree_kernels stub_tree;
extern const struct kin_graph_gpu_kernels stub_graph;
extern const struct kin_papers_kernels stub_papers;
#define KERNELS (&stub_kernels)
#define SELECTS stub_select
#define TREE (&stub_tree)
#define GRAPH (&stub_graph)
#define PAPERS (&stub_papers)
#else
#define KERNELS NULL
#define SELECTS NULL
#define TREE NULL
#define GRAPH NULL
#define PAPERS NULL
#endif

enum { MOST_BLOCKS = 4096, OUT_OF_RANGE = 1 };

/* What the tests look at. */
extern int64_t stub_allocations;
extern int64_t stub_held_bytes;
extern int64_t stub_pinned;
int64_t stub_allocations;
int64_t stub_held_bytes;
int64_t stub_pinned;

static struct {
    void *address;
    int64_t bytes;
} blocks[MOST_BLOCKS];

struct kin_gpu_stream {
    int32_t index;
};

/* Rows that come ahead are copied by threads of their own. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int32_t current_index;

static int64_t setting(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? strtoll(text, NULL, 10) : otherwise;
}

static bool exists(int32_t index)
{
    return index == 0;
}

static int count_devices(int32_t *count)
{
    const int error = (int)setting("STUB_ERROR", 0);
    *count = error == 0 ? 1 : 0;
    return error;
}

static int describe(int32_t index, kin_gpu_info *info)
{
    memset(info, 0, sizeof *info);
    strcpy(info->name, "Stub");
    info->major = (int32_t)setting("STUB_MAJOR", 9);
    info->processors = (int32_t)setting("STUB_PROCESSORS", 132);
    info->total_bytes = (uint64_t)setting("STUB_BYTES", 64 << 20);
    return exists(index) ? 0 : OUT_OF_RANGE;
}

static const char *error_text(int error)
{
    return error == KIN_GPU_ERROR_MEMORY ? "out of memory" : "stub error";
}

static int open_stream(int32_t index, void *foreign, kin_gpu_stream **out)
{
    (void)foreign;
    *out = calloc(1, sizeof **out);
    (*out)->index = index;
    return 0;
}

static void close_stream(kin_gpu_stream *stream)
{
    free(stream);
}

static int enter(kin_gpu_stream *stream)
{
    return exists(stream->index) ? 0 : OUT_OF_RANGE;
}

static int current(int32_t *index)
{
    *index = current_index;
    return 0;
}

static int make_current(int32_t index)
{
    current_index = exists(index) ? index : current_index;
    return exists(index) ? 0 : OUT_OF_RANGE;
}

/* The lock is held. */
static uint64_t available(void)
{
    return (uint64_t)(setting("STUB_BYTES", 64 << 20) - stub_held_bytes);
}

static int free_bytes(kin_gpu_stream *stream, uint64_t *bytes)
{
    (void)stream;
    pthread_mutex_lock(&lock);
    *bytes = available();
    pthread_mutex_unlock(&lock);
    return 0;
}

/* The lock is held. */
static int allocate_alone(uint64_t bytes, void **out)
{
    if (bytes > available()) {
        return KIN_GPU_ERROR_MEMORY;
    }
    for (int i = 0; i < MOST_BLOCKS; i++) {
        if (blocks[i].address == NULL) {
            if (posix_memalign(&blocks[i].address, 256, (size_t)bytes) != 0) {
                blocks[i].address = NULL;
                return KIN_GPU_ERROR_MEMORY;
            }
            *out = blocks[i].address;
            blocks[i].bytes = (int64_t)bytes;
            stub_held_bytes += (int64_t)bytes;
            stub_allocations += 1;
            return 0;
        }
    }
    return KIN_GPU_ERROR_MEMORY;
}

static int allocate(kin_gpu_stream *stream, uint64_t bytes, void **out)
{
    (void)stream;
    pthread_mutex_lock(&lock);
    const int error = allocate_alone(bytes, out);
    pthread_mutex_unlock(&lock);
    return error;
}

static void release(kin_gpu_stream *stream, void *block)
{
    (void)stream;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < MOST_BLOCKS && blocks[i].address != block) {
        i++;
    }
    if (i == MOST_BLOCKS) {
        abort(); /* nobody gave this block out */
    }
    free(block);
    blocks[i].address = NULL;
    stub_held_bytes -= blocks[i].bytes;
    pthread_mutex_unlock(&lock);
}

static int allocate_pinned(uint64_t bytes, void **out)
{
    *out = malloc((size_t)bytes);
    pthread_mutex_lock(&lock);
    stub_pinned += 1;
    pthread_mutex_unlock(&lock);
    return 0;
}

static void release_pinned(void *block)
{
    free(block);
    pthread_mutex_lock(&lock);
    stub_pinned -= 1;
    pthread_mutex_unlock(&lock);
}

static int copy(kin_gpu_stream *stream, void *to, const void *from, uint64_t bytes)
{
    (void)stream;
    memcpy(to, from, (size_t)bytes);
    return 0;
}

static int fill(kin_gpu_stream *stream, void *to, int byte, uint64_t bytes)
{
    (void)stream;
    memset(to, byte, (size_t)bytes);
    return 0;
}

static int where(const void *address, int32_t *device, int32_t *index)
{
    *device = 0;
    *index = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST_BLOCKS; i++) {
        const unsigned char *start = blocks[i].address;
        const unsigned char *asked = address;
        if (start != NULL && asked >= start && asked < start + blocks[i].bytes) {
            *device = 1;
        }
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

static int event_make(void **event)
{
    *event = malloc(1);
    return 0;
}

static void event_free(void *event)
{
    free(event);
}

static int event_record(kin_gpu_stream *stream, void *event)
{
    (void)stream;
    return event != NULL ? 0 : OUT_OF_RANGE;
}

static int event_wait(void *event)
{
    return event != NULL ? 0 : OUT_OF_RANGE;
}

static int event_done(void *event, int32_t *done)
{
    *done = 1;
    return event_wait(event);
}

static int event_between(void *first, void *last, float *milliseconds)
{
    *milliseconds = 0.0F;
    return event_wait(first) + event_wait(last);
}

static int wait_all(kin_gpu_stream *stream)
{
    return enter(stream);
}

static const kin_gpu_ops ops = {.count = count_devices,
                                .describe = describe,
                                .error_text = error_text,
                                .open = open_stream,
                                .close = close_stream,
                                .enter = enter,
                                .current = current,
                                .make_current = make_current,
                                .free_bytes = free_bytes,
                                .allocate = allocate,
                                .release = release,
                                .allocate_pinned = allocate_pinned,
                                .release_pinned = release_pinned,
                                .copy_in = copy,
                                .copy_out = copy,
                                .copy_within = copy,
                                .fill = fill,
                                .where = where,
                                .event_make = event_make,
                                .event_free = event_free,
                                .event_record = event_record,
                                .event_wait = event_wait,
                                .event_done = event_done,
                                .event_follow = event_record,
                                .event_between = event_between,
                                .wait = wait_all};

extern const kin_gpu_module kith_cuda_module;
const kin_gpu_module kith_cuda_module = {.version = STUB_VERSION,
                                         .bytes = sizeof(kin_gpu_module),
                                         .ops = &ops,
                                         .screen = KERNELS,
                                         .select = SELECTS,
                                         .tree = TREE,
                                         .graph = GRAPH,
                                         .papers = PAPERS};
