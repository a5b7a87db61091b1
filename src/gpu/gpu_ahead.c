/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A ferry is a thread that fills pinned slots, and a stream of its own that empties them: the
 * device's copy engine works beside its processors. Several bring rows, one fetches answers, whose
 * slots the stream fills and the thread empties.
 *
 *      main thread    begin(B)   launches work on A ........ waits ...   take(B)   work on B ...
 *                        |                                                  ^
 *      its thread        +-> memcpy to slots | copy | copy | ... | wait ----+  (joined)
 *
 * Why it is right. A block may still be read by earlier work of the main stream, whose memory it
 * was (gpu_memory.c), and answers are written by it: the second stream follows an event behind that
 * work. The thread waits for its own stream before it ends, so that what is launched after `take`
 * finds the rows there, and what is freed after `end` is written and read by nobody. The thread has
 * a context of its own: the caller's progress function is not its to call, and its error becomes
 * the caller's at `take`, or where answers are waited for.
 *
 * Memory. Beside the rows, on the host: pinned memory of a ferry's own, as gpu_copy.c has it, from
 * the first hint until the device is closed.
 *
 * Cost. Copies go in portions, uploads of 64 MiB and answers of 256, between which they can be
 * given up: some 0.1 ms of threads a portion, 3 and 10 ms of copying. */
#include "gpu/gpu.h"

#include "host/host_clock.h"
#include "host/host_threads.h"

static const int64_t PORTION_BYTES = 64 << 20;
static const uint64_t FETCHED_BYTES = 256 << 20;
enum { PROMISED_SHARE = 4 /* of what is free: the search of other rows needs most of it */ };

typedef struct ferry {
    kin_gpu side; /* a stream and pinned slots, no memory */
    kith_ctx own; /* the thread's: no progress function, a sentence of its own */
    void *event;  /* behind what the main stream held when it began */
    bool ready;   /* all of the above is made */
    bool kept;    /* a later call takes it */

    void *block; /* NULL: nothing is under way */
    kin_gpu_rows rows;
    kin_gpu_fetches fetches; /* of the one that fetches */
    int64_t total;           /* rows, or bytes that are fetched */
    pthread_t thread;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t moved;
    int64_t sent;
    bool unwanted;
    bool done;
    kith_status status;
    int64_t copying_ns;
} ferry;

typedef struct kin_gpu_ahead {
    ferry uploads[KIN_GPU_AHEAD_MOST];
    ferry behind;
} kin_gpu_ahead;

/* ---- The thread ------------------------------------------------------------------------------ */

/* Tells how far it is; false: nobody wants the rest. */
static bool goes_on(ferry *u, int64_t sent)
{
    pthread_mutex_lock(&u->lock);
    u->sent = sent;
    const bool wanted = !u->unwanted;
    pthread_cond_signal(&u->moved);
    pthread_mutex_unlock(&u->lock);
    return wanted && sent < u->total;
}

static kith_status send(ferry *u, int64_t first, int64_t count)
{
    const kin_gpu_rows *rows = &u->rows;
    const kin_gpu_rows part = kin_gpu_rows_part(rows, first, count);
    return kin_gpu_upload_rows(&u->own, &u->side, (char *)u->block + first * rows->row_bytes,
                               &part);
}

static kith_status send_all(ferry *u)
{
    const int64_t portion = kin_max_i64(1, PORTION_BYTES / u->rows.row_bytes);
    int64_t at = 0;
    while (goes_on(u, at)) {
        const int64_t count = kin_min_i64(portion, u->rows.count - at);
        KIN_TRY(send(u, at, count));
        at += count;
    }
    return KITH_OK;
}

/* A part, `at` bytes of all being behind it. */
static kith_status fetch(ferry *u, const kin_gpu_fetch *part, int64_t *at)
{
    for (uint64_t done = 0; done < part->bytes && goes_on(u, *at);) {
        const uint64_t left = part->bytes - done;
        const uint64_t bytes = left < FETCHED_BYTES ? left : FETCHED_BYTES;
        KIN_TRY(kin_gpu_download(&u->own, &u->side, (char *)part->to + done,
                                 (const char *)part->from + done, bytes));
        done += bytes;
        *at += (int64_t)bytes;
    }
    return KITH_OK;
}

static kith_status fetch_parts(ferry *u)
{
    int64_t at = 0;
    for (int32_t i = 0; i < u->fetches.count; i++) {
        KIN_TRY(fetch(u, &u->fetches.parts[i], &at));
    }
    (void)goes_on(u, at);
    return KITH_OK;
}

kith_status kin_gpu_fetch_all(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_fetches *f)
{
    for (int32_t i = 0; i < f->count; i++) {
        KIN_TRY(kin_gpu_download(ctx, gpu, f->parts[i].to, f->parts[i].from, f->parts[i].bytes));
    }
    return KITH_OK;
}

static kith_status carry(ferry *u)
{
    const kin_gpu_ops *ops = u->side.module->ops;
    KIN_TRY(kin_gpu_check(&u->own, &u->side, ops->enter(u->side.stream), "entering the device"));
    return u->fetches.count > 0 ? fetch_parts(u) : send_all(u);
}

static void *thread_main(void *arg)
{
    ferry *u = arg;
    const int64_t start = kin_clock_ns();
    kith_status status = carry(u);
    KIN_KEEP(status, kin_gpu_wait(&u->own, &u->side));
    pthread_mutex_lock(&u->lock);
    u->done = true;
    u->status = status;
    u->copying_ns = kin_clock_ns() - start;
    pthread_cond_signal(&u->moved);
    pthread_mutex_unlock(&u->lock);
    return NULL;
}

/* ---- Stream, slots, event -------------------------------------------------------------------- */

static void close_ferry(ferry *u)
{
    const kin_gpu_ops *ops = u->side.module->ops;
    kin_gpu_staging_end(&u->side);
    ops->event_free(u->event);
    if (u->side.stream != NULL) {
        ops->close(u->side.stream);
    }
    (void)pthread_cond_destroy(&u->moved);
    (void)pthread_mutex_destroy(&u->lock);
    (void)pthread_mutex_destroy(&u->own.lock);
    memset(u, 0, sizeof *u);
}

static kith_status open_parts(kith_ctx *ctx, const kin_gpu *gpu, ferry *u)
{
    const kin_gpu_ops *ops = gpu->module->ops;
    u->side.stream = NULL;
    KIN_TRY(kin_gpu_check(ctx, gpu, ops->open(gpu->index, NULL, &u->side.stream),
                          "opening a stream for copies"));
    KIN_TRY(kin_gpu_check(ctx, gpu, ops->event_make(&u->event), "making an event"));
    return kin_gpu_staging_make(ctx, &u->side);
}

static kith_status open_ferry(kith_ctx *ctx, const kin_gpu *gpu, ferry *u)
{
    if (u->ready) {
        return KITH_OK;
    }
    u->side = (kin_gpu){.module = gpu->module, .index = gpu->index, .home = gpu->home};
    /* The defaults of these three take nothing that could be missing. */
    (void)pthread_mutex_init(&u->own.lock, NULL);
    (void)pthread_mutex_init(&u->lock, NULL);
    (void)pthread_cond_init(&u->moved, NULL);
    const kith_status status = open_parts(ctx, gpu, u);
    if (status != KITH_OK) {
        close_ferry(u);
        return status;
    }
    u->ready = true;
    return KITH_OK;
}

/* ---- Begin ----------------------------------------------------------------------------------- */

static ferry *find_free(kin_gpu *gpu)
{
    for (int i = 0; gpu->ahead != NULL && i < KIN_GPU_AHEAD_MOST; i++) {
        if (gpu->ahead->uploads[i].block == NULL) {
            return &gpu->ahead->uploads[i];
        }
    }
    return NULL;
}

static ferry *find_rows(const kin_gpu *gpu, const kin_gpu_rows *rows)
{
    for (int i = 0; gpu->ahead != NULL && i < KIN_GPU_AHEAD_MOST; i++) {
        ferry *u = &gpu->ahead->uploads[i];
        const kin_gpu_rows *r = &u->rows;
        if (u->block != NULL && r->from == rows->from && r->count == rows->count &&
            r->row_bytes == rows->row_bytes && r->stride_bytes == rows->stride_bytes) {
            return u;
        }
    }
    return NULL;
}

static kith_status start(kith_ctx *ctx, kin_gpu *gpu, ferry *u)
{
    const kin_gpu_ops *ops = gpu->module->ops;
    KIN_TRY(kin_gpu_check(ctx, gpu, ops->event_record(gpu->stream, u->event), "marking a place"));
    KIN_TRY(kin_gpu_check(ctx, gpu, ops->event_follow(u->side.stream, u->event),
                          "waiting for a stream"));
    u->sent = 0;
    u->unwanted = false;
    u->done = false;
    kin_forgive(&u->own);
    if (kin_thread_start(&u->thread, thread_main, u) != 0) {
        return kin_fail(ctx, KITH_E_MEMORY,
                        "no thread for a copy (raise the limit of threads, ulimit -u)");
    }
    return KITH_OK;
}

/* One alone may have all: who works on waits most of the time. Several that fight for processors
 * are slower than fewer threads of each. */
static int32_t threads_of_one(const kith_ctx *ctx, int32_t together)
{
    const int32_t share = ctx->threads / (together + 1);
    return together < 2 ? ctx->threads : share > 1 ? share : 1;
}

static kith_status make_ferries(kin_gpu *gpu)
{
    return gpu->ahead != NULL ? KITH_OK
                              : kin_alloc_zero(gpu->home, &gpu->ahead, 1, sizeof *gpu->ahead,
                                               "copies beside work");
}

static kith_status begin(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_rows *rows, int32_t together)
{
    KIN_TRY(make_ferries(gpu));
    ferry *u = find_free(gpu);
    if (u == NULL) {
        return KITH_OK;
    }
    KIN_TRY(open_ferry(ctx, gpu, u));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &u->block, (uint64_t)rows->count, (uint64_t)rows->row_bytes,
                          "rows that come next"));
    u->rows = *rows;
    u->total = rows->count;
    u->kept = false;
    u->own.threads = threads_of_one(ctx, together);
    const kith_status status = start(ctx, gpu, u);
    if (status != KITH_OK) {
        kin_gpu_free(gpu, u->block);
        u->block = NULL;
        return status;
    }
    gpu->ahead_tally.uploads += 1;
    return KITH_OK;
}

bool kin_gpu_ahead_wanted(const kin_gpu *gpu)
{
    return !gpu->ahead_off && gpu->narrowed == 0;
}

void kin_gpu_ahead_begin(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_rows *rows, int32_t together)
{
    const uint64_t bytes = kin_size_mul((uint64_t)rows->count, (uint64_t)rows->row_bytes);
    if (!kin_gpu_ahead_wanted(gpu) || bytes == 0 || bytes > kin_gpu_room(gpu) ||
        find_rows(gpu, rows) != NULL) {
        return;
    }
    if (begin(ctx, gpu, rows, together) != KITH_OK) {
        kin_forgive(ctx);
    }
}

/* ---- Take and end ---------------------------------------------------------------------------- */

/* Until the thread is done, or the caller's progress function says stop. */
static kith_status await(kith_ctx *ctx, ferry *u)
{
    kith_status status = KITH_OK;
    pthread_mutex_lock(&u->lock);
    while (!u->done && status == KITH_OK) {
        pthread_cond_wait(&u->moved, &u->lock);
        const int64_t sent = u->sent;
        pthread_mutex_unlock(&u->lock);
        status = kin_progress(ctx, "copy", (double)sent, (double)u->total);
        pthread_mutex_lock(&u->lock);
    }
    pthread_mutex_unlock(&u->lock);
    return status;
}

/* The block, whose rows are there if u->status says so. */
static void *join(kin_gpu *gpu, ferry *u)
{
    void *block = u->block;
    (void)pthread_join(u->thread, NULL);
    gpu->ahead_tally.copying_ns += u->copying_ns;
    u->block = NULL;
    return block;
}

/* What is fetched is awaited and its block free, its error kept for who asks; whether there was
 * any. */
static bool land(kin_gpu *gpu)
{
    ferry *u = gpu->ahead != NULL ? &gpu->ahead->behind : NULL;
    if (u == NULL || u->block == NULL) {
        return false;
    }
    (void)pthread_join(u->thread, NULL);
    kin_gpu_free(gpu, u->block);
    u->block = NULL;
    return true;
}

kith_status kin_gpu_ahead_take(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_rows *rows, void *block)
{
    void **out = block;
    ferry *u = find_rows(gpu, rows);
    *out = NULL;
    if (u == NULL) {
        return KITH_OK;
    }
    const int64_t start = kin_clock_ns();
    KIN_TRY(await(ctx, u));
    void *taken = join(gpu, u);
    gpu->ahead_tally.waiting_ns += kin_clock_ns() - start;
    if (u->status != KITH_OK) {
        kin_gpu_free(gpu, taken);
        return kin_fail_like(ctx, u->status, &u->own);
    }
    *out = taken;
    return KITH_OK;
}

static void refuse_rest(ferry *u)
{
    pthread_mutex_lock(&u->lock);
    u->unwanted = true;
    pthread_mutex_unlock(&u->lock);
}

static bool give_up(kin_gpu *gpu, bool kept)
{
    bool any = false;
    for (int i = 0; gpu->ahead != NULL && i < KIN_GPU_AHEAD_MOST; i++) {
        ferry *u = &gpu->ahead->uploads[i];
        if (u->block != NULL && (kept || !u->kept)) {
            refuse_rest(u);
            kin_gpu_free(gpu, join(gpu, u));
            any = true;
        }
    }
    return any;
}

bool kin_gpu_ahead_end(kin_gpu *gpu)
{
    const bool landed = land(gpu);
    return give_up(gpu, true) || landed;
}

void kin_gpu_ahead_leave(kin_gpu *gpu)
{
    (void)give_up(gpu, false);
}

void kin_gpu_ahead_promise(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_rows *rows)
{
    const uint64_t bytes = kin_size_mul((uint64_t)rows->count, (uint64_t)rows->row_bytes);
    if (gpu->team != NULL || gpu->seat != NULL || bytes > kin_gpu_room(gpu) / PROMISED_SHARE) {
        return;
    }
    kin_gpu_ahead_begin(ctx, gpu, rows, 1);
    ferry *u = find_rows(gpu, rows);
    if (u != NULL) {
        u->kept = true;
    }
}

void kin_gpu_ahead_close(kin_gpu *gpu)
{
    if (gpu->ahead == NULL) {
        return;
    }
    (void)kin_gpu_ahead_end(gpu);
    for (int i = 0; i < KIN_GPU_AHEAD_MOST; i++) {
        if (gpu->ahead->uploads[i].ready) {
            close_ferry(&gpu->ahead->uploads[i]);
        }
    }
    if (gpu->ahead->behind.ready) {
        close_ferry(&gpu->ahead->behind);
    }
    kin_free(gpu->home, gpu->ahead);
    gpu->ahead = NULL;
}

/* ---- Behind ---------------------------------------------------------------------------------- */

static kith_status begin_behind(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_fetches *fetches,
                                void *block)
{
    KIN_TRY(make_ferries(gpu));
    ferry *u = &gpu->ahead->behind;
    KIN_TRY(open_ferry(ctx, gpu, u));
    u->fetches = *fetches;
    u->total = 0;
    for (int32_t i = 0; i < fetches->count; i++) {
        u->total += (int64_t)fetches->parts[i].bytes;
    }
    u->own.threads = ctx->threads;
    KIN_TRY(start(ctx, gpu, u));
    u->block = block;
    return KITH_OK;
}

kith_status kin_gpu_behind_begin(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_fetches *fetches,
                                 void *block)
{
    kith_status status = kin_gpu_behind_end(ctx, gpu, true);
    if (status == KITH_OK && fetches->count > 0 &&
        begin_behind(ctx, gpu, fetches, block) == KITH_OK) {
        return KITH_OK;
    }
    if (status == KITH_OK) {
        kin_forgive(ctx);
        status = kin_gpu_fetch_all(ctx, gpu, fetches);
    }
    kin_gpu_free(gpu, block);
    return status;
}

kith_status kin_gpu_behind_end(kith_ctx *ctx, kin_gpu *gpu, bool wanted)
{
    ferry *u = gpu->ahead != NULL ? &gpu->ahead->behind : NULL;
    if (u == NULL) {
        return KITH_OK;
    }
    const kith_status told = wanted && u->block != NULL ? await(ctx, u) : KITH_OK;
    if (u->block != NULL && (told != KITH_OK || !wanted)) {
        refuse_rest(u);
    }
    (void)land(gpu);
    const kith_status status = u->status;
    if (told != KITH_OK || !wanted) {
        u->status = KITH_OK;
        return told;
    }
    if (status != KITH_OK) {
        u->status = KITH_OK;
        /* Of memory it would be forgiven: by a stripe that is not its own. */
        return kin_fail_like(ctx, status == KITH_E_DEVICE_MEMORY ? KITH_E_DEVICE : status, &u->own);
    }
    return KITH_OK;
}
