/* SPDX-License-Identifier: Apache-2.0
 * Devices, memory, streams and events of the reference device. One lock for all of it: what is
 * tested is the order in which drivers give work, and that holds with any number of devices. */
#include "reference/reference.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OUT_OF_RANGE = 1, MOST_DEVICES = 16, FRESH = 0xa5 };
/* The last handle that names no stream: default streams, which have no work here. */
enum { PER_THREAD = 2 };

/* Where a stream was when an event was recorded; kept by the event and by the work that waits. */
typedef struct mark {
    kin_gpu_stream *stream; /* NULL once it was reached */
    int64_t holders;
    int64_t nanoseconds;
} mark;

/* Work of a stream. */
typedef struct item {
    struct item *next;
    reference_body *body; /* NULL: a mark */
    mark *reached;        /* this item is the place of the mark */
    mark *awaited;        /* or it waits for one */
    max_align_t job[];
} item;

/* Callers of libkith have a handle: the stream that does its work. One that is opened with a handle
 * of another's leaves all work to that one. */
struct kin_gpu_stream {
    kin_gpu_stream *handle; /* stands first: what a cudaStream_t is there */
    kin_gpu_stream *next;   /* of all that are open */
    int32_t index;
    item *first;
    item **last;
};

typedef struct block {
    struct block *next;
    unsigned char *address;
    uint64_t bytes;
    int32_t index; /* of its device; -1: pinned host memory */
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;
static kin_gpu_stream *streams;
static uint64_t held[MOST_DEVICES];
static _Thread_local int32_t current_index;

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

static int32_t device_count(void)
{
    const uint64_t count = setting("KITH_REFERENCE_DEVICES", 1);
    return count < MOST_DEVICES ? (int32_t)count : MOST_DEVICES;
}

static uint64_t device_bytes(void)
{
    return setting("KITH_REFERENCE_BYTES", (uint64_t)2 << 30);
}

static bool exists(int32_t index)
{
    return index >= 0 && index < device_count();
}

static int64_t now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* ---- Devices --------------------------------------------------------------------------------- */

static int count_devices(int32_t *count)
{
    *count = device_count();
    return *count > 0 ? 0 : KIN_GPU_ERROR_NO_DEVICE;
}

static int describe(int32_t index, kin_gpu_info *info)
{
    memset(info, 0, sizeof *info);
    strcpy(info->name, "reference device");
    info->major = 9;
    info->processors = 4;
    info->total_bytes = device_bytes();
    info->l2_bytes = 1 << 20;
    info->shared_bytes = 227 << 10;
    return exists(index) ? 0 : OUT_OF_RANGE;
}

static const char *error_text(int error)
{
    return error == KIN_GPU_ERROR_MEMORY ? "out of memory"
           : error == OUT_OF_RANGE       ? "no such device"
                                         : "unknown error";
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

static int enter(kin_gpu_stream *stream)
{
    return make_current(stream->index);
}

static int see_peer(int32_t index, int32_t peer, int32_t *direct)
{
    *direct = exists(index) && exists(peer) && index != peer ? 1 : 0;
    return 0;
}

/* ---- Work: the lock is held ------------------------------------------------------------------ */

static void drop(mark *one)
{
    if (one != NULL && --one->holders == 0) {
        free(one);
    }
}

static void run_until(kin_gpu_stream *stream, const mark *until);

static void reach(mark *one)
{
    one->stream = NULL;
    one->nanoseconds = now();
}

static void run_first(kin_gpu_stream *stream)
{
    item *one = stream->first;
    stream->first = one->next;
    if (stream->first == NULL) {
        stream->last = &stream->first;
    }
    if (one->body != NULL) {
        one->body(one->job);
    } else if (one->reached != NULL) {
        reach(one->reached);
    } else if (one->awaited->stream != NULL) {
        run_until(one->awaited->stream, one->awaited);
    }
    drop(one->reached);
    drop(one->awaited);
    free(one);
}

/* All work, or what stands before a mark. Streams that wait for each other's earlier work nest. */
/* NOLINTNEXTLINE(misc-no-recursion) */
static void run_until(kin_gpu_stream *given, const mark *until)
{
    kin_gpu_stream *stream = given->handle;
    while (stream->first != NULL && (until == NULL || until->stream != NULL)) {
        run_first(stream);
    }
}

static item *append(kin_gpu_stream *given, size_t bytes)
{
    kin_gpu_stream *stream = given->handle;
    item *one = calloc(1, sizeof *one + bytes);
    if (one != NULL) {
        *stream->last = one;
        stream->last = &one->next;
    }
    return one;
}

static int append_mark(kin_gpu_stream *stream, mark *reached, mark *awaited)
{
    item *one = append(stream, 0);
    if (one == NULL) {
        return KIN_GPU_ERROR_MEMORY;
    }
    one->reached = reached;
    one->awaited = awaited;
    (reached != NULL ? reached : awaited)->holders += 1;
    return 0;
}

/* ---- Streams --------------------------------------------------------------------------------- */

int reference_later(kin_gpu_stream *stream, reference_body *body, const void *job, size_t bytes)
{
    pthread_mutex_lock(&lock);
    item *one = append(stream, bytes);
    if (one != NULL) {
        one->body = body;
        memcpy(one->job, job, bytes);
    }
    pthread_mutex_unlock(&lock);
    return one != NULL ? 0 : KIN_GPU_ERROR_MEMORY;
}

static int wait_all(kin_gpu_stream *stream)
{
    pthread_mutex_lock(&lock);
    run_until(stream, NULL);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int open_stream(int32_t index, void *foreign, kin_gpu_stream **out)
{
    *out = NULL;
    if (!exists(index)) {
        return OUT_OF_RANGE;
    }
    kin_gpu_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        return KIN_GPU_ERROR_MEMORY;
    }
    stream->index = index;
    stream->handle = (uintptr_t)foreign > PER_THREAD ? foreign : stream;
    stream->last = &stream->first;
    pthread_mutex_lock(&lock);
    stream->next = streams;
    streams = stream;
    pthread_mutex_unlock(&lock);
    *out = stream;
    return 0;
}

static void close_stream(kin_gpu_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    pthread_mutex_lock(&lock);
    if (stream->handle == stream) {
        run_until(stream, NULL);
    }
    kin_gpu_stream **at = &streams;
    while (*at != stream) {
        at = &(*at)->next;
    }
    *at = stream->next;
    pthread_mutex_unlock(&lock);
    free(stream);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static int free_bytes(kin_gpu_stream *stream, uint64_t *bytes)
{
    pthread_mutex_lock(&lock);
    *bytes = device_bytes() - held[stream->index];
    pthread_mutex_unlock(&lock);
    return 0;
}

/* The lock is held. Exactly so many bytes, so that a sanitizer sees what is behind them. */
static int take(int32_t index, uint64_t bytes, void **out)
{
    *out = NULL;
    if (index >= 0 && bytes > device_bytes() - held[index]) {
        return KIN_GPU_ERROR_MEMORY;
    }
    block *one = calloc(1, sizeof *one);
    void *address = NULL;
    if (one == NULL || posix_memalign(&address, 256, (size_t)bytes) != 0) {
        free(one);
        return KIN_GPU_ERROR_MEMORY;
    }
    *out = memset(address, FRESH, (size_t)bytes);
    *one = (block){.next = blocks, .address = address, .bytes = bytes, .index = index};
    blocks = one;
    held[index < 0 ? 0 : index] += index < 0 ? 0 : bytes;
    return 0;
}

/* The lock is held. */
static void give_back(void *address)
{
    block **at = &blocks;
    while (*at != NULL && (*at)->address != address) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        abort(); /* nobody gave this block out */
    }
    block *one = *at;
    *at = one->next;
    held[one->index < 0 ? 0 : one->index] -= one->index < 0 ? 0 : one->bytes;
    free(one);
    free(address);
}

static int allocate(kin_gpu_stream *stream, uint64_t bytes, void **out)
{
    pthread_mutex_lock(&lock);
    const int error = take(stream->index, bytes, out);
    pthread_mutex_unlock(&lock);
    return error;
}

/* As cudaFree, this waits for the whole device. */
static void release(kin_gpu_stream *stream, void *address)
{
    if (address == NULL) {
        return;
    }
    pthread_mutex_lock(&lock);
    for (kin_gpu_stream *one = streams; one != NULL; one = one->next) {
        if (one->index == stream->index) {
            run_until(one, NULL);
        }
    }
    give_back(address);
    pthread_mutex_unlock(&lock);
}

static int allocate_pinned(uint64_t bytes, void **out)
{
    pthread_mutex_lock(&lock);
    const int error = take(-1, bytes, out);
    pthread_mutex_unlock(&lock);
    return error;
}

/* What still reads or writes it is a mistake of the driver's. */
static void release_pinned(void *address)
{
    if (address != NULL) {
        pthread_mutex_lock(&lock);
        give_back(address);
        pthread_mutex_unlock(&lock);
    }
}

/* The lock is held: the block in which an address lies, or NULL. */
static const block *block_of(const void *address)
{
    const uintptr_t asked = (uintptr_t)address;
    for (const block *one = blocks; one != NULL; one = one->next) {
        const uintptr_t start = (uintptr_t)one->address;
        if (asked >= start && asked - start < one->bytes) {
            return one;
        }
    }
    return NULL;
}

static int where(const void *address, int32_t *device, int32_t *index)
{
    pthread_mutex_lock(&lock);
    const block *one = block_of(address);
    *device = one != NULL && one->index >= 0 ? 1 : 0;
    *index = *device != 0 ? one->index : 0;
    pthread_mutex_unlock(&lock);
    return 0;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

typedef struct copy_job {
    void *to;
    const void *from;
    uint64_t bytes;
    int byte; /* from NULL: this one */
} copy_job;

static void copy(const copy_job *job)
{
    if (job->from != NULL) {
        memmove(job->to, job->from, (size_t)job->bytes);
    } else {
        memset(job->to, job->byte, (size_t)job->bytes);
    }
}

REFERENCE_LAUNCH(copy, copy_job)

static int copy_within(kin_gpu_stream *stream, void *to, const void *from, uint64_t bytes)
{
    return copy_launch(stream, &(copy_job){.to = to, .from = from, .bytes = bytes});
}

/* Memory that is not pinned has been read or written when the call comes back. */
static int copy_host(kin_gpu_stream *stream, void *to, const void *from, const void *on_host,
                     uint64_t bytes)
{
    const int error = copy_within(stream, to, from, bytes);
    pthread_mutex_lock(&lock);
    if (block_of(on_host) == NULL) {
        run_until(stream, NULL);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

static int copy_in(kin_gpu_stream *stream, void *to, const void *from, uint64_t bytes)
{
    return copy_host(stream, to, from, from, bytes);
}

static int copy_out(kin_gpu_stream *stream, void *to, const void *from, uint64_t bytes)
{
    return copy_host(stream, to, from, to, bytes);
}

static int copy_peer(kin_gpu_stream *stream, void *to, const void *from, int32_t from_index,
                     uint64_t bytes)
{
    return exists(from_index) ? copy_within(stream, to, from, bytes) : OUT_OF_RANGE;
}

static int fill(kin_gpu_stream *stream, void *to, int byte, uint64_t bytes)
{
    return copy_launch(stream, &(copy_job){.to = to, .bytes = bytes, .byte = byte});
}

/* ---- Events ---------------------------------------------------------------------------------- */

typedef struct event {
    mark *last; /* NULL: never recorded */
} event;

static int event_make(void **out)
{
    *out = calloc(1, sizeof(event));
    return *out != NULL ? 0 : KIN_GPU_ERROR_MEMORY;
}

static void event_free(void *given)
{
    event *one = given;
    if (one != NULL) {
        pthread_mutex_lock(&lock);
        drop(one->last);
        pthread_mutex_unlock(&lock);
    }
    free(one);
}

static int event_record(kin_gpu_stream *stream, void *given)
{
    event *one = given;
    mark *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return KIN_GPU_ERROR_MEMORY;
    }
    *made = (mark){.stream = stream->handle, .holders = 1};
    pthread_mutex_lock(&lock);
    drop(one->last);
    one->last = made;
    const int error = append_mark(stream, made, NULL);
    pthread_mutex_unlock(&lock);
    return error;
}

static int event_wait(void *given)
{
    event *one = given;
    pthread_mutex_lock(&lock);
    if (one->last != NULL && one->last->stream != NULL) {
        run_until(one->last->stream, one->last);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

static int event_done(void *given, int32_t *done)
{
    *done = 1;
    return event_wait(given);
}

static int event_follow(kin_gpu_stream *stream, void *given)
{
    event *one = given;
    pthread_mutex_lock(&lock);
    const int error = one->last != NULL ? append_mark(stream, NULL, one->last) : 0;
    pthread_mutex_unlock(&lock);
    return error;
}

static int event_between(void *first, void *last, float *milliseconds)
{
    const event *one = first;
    const event *other = last;
    pthread_mutex_lock(&lock);
    const bool known = one->last != NULL && other->last != NULL;
    const int64_t between = known ? other->last->nanoseconds - one->last->nanoseconds : 0;
    *milliseconds = (float)((double)between / 1e6);
    pthread_mutex_unlock(&lock);
    return known ? 0 : OUT_OF_RANGE;
}

const kin_gpu_ops reference_ops = {.count = count_devices,
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
                                   .copy_in = copy_in,
                                   .copy_out = copy_out,
                                   .copy_within = copy_within,
                                   .fill = fill,
                                   .copy_peer = copy_peer,
                                   .see_peer = see_peer,
                                   .where = where,
                                   .event_make = event_make,
                                   .event_free = event_free,
                                   .event_record = event_record,
                                   .event_wait = event_wait,
                                   .event_done = event_done,
                                   .event_follow = event_follow,
                                   .event_between = event_between,
                                   .wait = wait_all};
