/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between host and device. The device reads pinned memory at the speed of its bus and
 * pageable memory at a fraction of it, so what is copied passes through small pinned slots, two a
 * lane: while the device empties one, a thread fills the other. A single core fills slots slower
 * than the bus empties them, hence up to 16 lanes. Whole slots from the device go past the caches,
 * where stores can: memory that is overwritten whole need not be read before.
 *
 *     lane 0   piece 0 | piece L     | piece 2L ...     each lane: its own two slots and events,
 *     lane 1   piece 1 | piece L + 1 | ...              so that lanes share nothing
 *
 * Memory: 2 MiB of pinned memory for one lane, and 2 more that kernels follow themselves, from the
 * first copy on until the device is closed; 2 for each other lane from the first copy on that is
 * large: pinning all takes some 10 ms, ten times as long as a small index. Cost: a large copy
 * starts threads once for each 64 MiB a lane, some 0.1 ms. */
#include "base/base_mem.h"
#include "gpu/gpu.h"
#include "host/host_threads.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { SLOT_BYTES = 1 << 20, MOST_LANES = 16, FEW_PIECES = 2, ROUND_PIECES = 64 };
/* So few pieces are not worth pinning more lanes than there are. */
enum { SOME_PIECES = 16 };

typedef struct slot {
    unsigned char *bytes;
    void *event;  /* behind the slot's last copy */
    bool pending; /* that copy may be under way */
} slot;

typedef struct lane {
    slot slots[2];
    int next;
} lane;

typedef struct kin_gpu_staging {
    void *block;   /* a lane's slots, and at its end what is mapped, notes, and a count */
    void *others;  /* other lanes' */
    bool has_most; /* lanes that there can be: asked for once */
    void *mapped;
    uint64_t *notes;
    uint64_t *count;
    int32_t lane_count;
    lane lanes[MOST_LANES];
} kin_gpu_staging;

/* rows of row_bytes: contiguous on the device, stride_bytes apart on the host. A piece is as many
 * rows as a slot holds. */
typedef struct transfer {
    kith_ctx *ctx;
    kin_gpu *gpu;
    unsigned char *device;
    unsigned char *host;
    int64_t rows;
    int64_t row_bytes;
    int64_t stride_bytes;
    int64_t piece_rows;
    int64_t lanes;
    int64_t first; /* pieces of this round */
    int64_t last;
} transfer;

void kin_gpu_staging_end(kin_gpu *gpu)
{
    kin_gpu_staging *staging = gpu->staging;
    if (staging == NULL) {
        return;
    }
    for (int32_t i = 0; i < MOST_LANES; i++) {
        gpu->module->ops->event_free(staging->lanes[i].slots[0].event);
        gpu->module->ops->event_free(staging->lanes[i].slots[1].event);
    }
    void *const blocks[] = {staging->block, staging->others};
    for (int i = 0; i < 2; i++) {
        if (blocks[i] != NULL) {
            gpu->module->ops->release_pinned(blocks[i]);
        }
    }
    kin_free(gpu->home, staging);
    gpu->staging = NULL;
}

/* Lanes up to so many, in a block whose `more` last bytes are for something else. */
static kith_status make_lanes(kith_ctx *ctx, kin_gpu *gpu, int32_t lanes, uint64_t more,
                              void **block)
{
    const kin_gpu_ops *ops = gpu->module->ops;
    kin_gpu_staging *staging = gpu->staging;
    const int32_t slots = 2 * (lanes - staging->lane_count);
    KIN_TRY(kin_gpu_check(ctx, gpu,
                          ops->allocate_pinned((uint64_t)slots * SLOT_BYTES + more, block),
                          "allocating pinned memory for copies"));
    for (int32_t i = 0; i < slots; i++) {
        slot *s = &staging->lanes[staging->lane_count + i / 2].slots[i % 2];
        s->bytes = (unsigned char *)*block + (int64_t)i * SLOT_BYTES;
        KIN_TRY(kin_gpu_check(ctx, gpu, ops->event_make(&s->event), "making an event"));
    }
    staging->lane_count = lanes;
    return KITH_OK;
}

static kith_status make_slots(kith_ctx *ctx, kin_gpu *gpu, kin_gpu_staging *staging)
{
    const uint64_t note_bytes = KIN_GPU_NOTES * sizeof *staging->notes;
    KIN_TRY(make_lanes(ctx, gpu, 1, KIN_GPU_MAPPED_BYTES + note_bytes + sizeof *staging->count,
                       &staging->block));
    staging->mapped = (unsigned char *)staging->block + 2 * SLOT_BYTES;
    staging->notes = (void *)((unsigned char *)staging->mapped + KIN_GPU_MAPPED_BYTES);
    memset(staging->notes, 0xff, note_bytes);
    staging->count = staging->notes + KIN_GPU_NOTES;
    return KITH_OK;
}

kith_status kin_gpu_staging_make(kith_ctx *ctx, kin_gpu *gpu)
{
    if (gpu->staging != NULL) {
        return KITH_OK;
    }
    kith_status status =
        kin_alloc_zero(gpu->home, &gpu->staging, 1, sizeof *gpu->staging, "pinned slots");
    if (status != KITH_OK) {
        return kin_fail(ctx, status, "no memory for pinned slots (free some memory)");
    }
    status = make_slots(ctx, gpu, gpu->staging);
    if (status != KITH_OK) {
        kin_gpu_staging_end(gpu);
    }
    return status;
}

kith_status kin_gpu_layout_mapped(kith_ctx *ctx, kin_gpu *gpu, kin_layout_names *names, void *job,
                                  void **block)
{
    *block = NULL;
    if (kin_gpu_layout_bytes(names, job) > KIN_GPU_MAPPED_BYTES) {
        return KITH_OK;
    }
    KIN_TRY(kin_gpu_staging_make(ctx, gpu));
    *block = gpu->staging->mapped;
    kin_layout wet = {.block = *block, .on_device = true};
    names(&wet, job);
    return KITH_OK;
}

kith_status kin_gpu_notes(kith_ctx *ctx, kin_gpu *gpu, uint64_t **notes)
{
    KIN_TRY(kin_gpu_staging_make(ctx, gpu));
    *notes = gpu->staging->notes;
    return KITH_OK;
}

kith_status kin_gpu_send_mapped(kith_ctx *ctx, kin_gpu *gpu, void *to, const void *from,
                                uint64_t bytes)
{
    return kin_gpu_check(ctx, gpu, gpu->module->ops->copy_in(gpu->stream, to, from, bytes),
                         "copying");
}

kith_status kin_gpu_fetch_count(kith_ctx *ctx, kin_gpu *gpu, const uint64_t *count,
                                uint64_t **there)
{
    KIN_TRY(kin_gpu_staging_make(ctx, gpu));
    *there = gpu->staging->count;
    return kin_gpu_check(
        ctx, gpu, gpu->module->ops->copy_out(gpu->stream, *there, count, sizeof *count), "copying");
}

/* ---- Slots ----------------------------------------------------------------------------------- */

static kith_status wait_slot(const transfer *t, slot *s)
{
    if (!s->pending) {
        return KITH_OK;
    }
    s->pending = false;
    return kin_gpu_check(t->ctx, t->gpu, t->gpu->module->ops->event_wait(s->event), "copying");
}

static kith_status mark_slot(const transfer *t, slot *s, int error)
{
    KIN_TRY(kin_gpu_check(t->ctx, t->gpu, error, "copying"));
    KIN_TRY(kin_gpu_check(t->ctx, t->gpu,
                          t->gpu->module->ops->event_record(t->gpu->stream, s->event), "copying"));
    s->pending = true;
    return KITH_OK;
}

static slot *next_slot(const transfer *t, int64_t lane_index)
{
    lane *l = &t->gpu->staging->lanes[lane_index];
    l->next ^= 1;
    return &l->slots[l->next];
}

static int64_t rows_of(const transfer *t, int64_t piece)
{
    return kin_min_i64(t->piece_rows, t->rows - piece * t->piece_rows);
}

/* ---- In -------------------------------------------------------------------------------------- */

static kith_status send_piece(const transfer *t, int64_t piece, slot *s)
{
    const int64_t row = piece * t->piece_rows;
    const int64_t rows = rows_of(t, piece);
    const unsigned char *from = t->host + row * t->stride_bytes;
    KIN_TRY(wait_slot(t, s));
    if (t->stride_bytes == t->row_bytes) {
        memcpy(s->bytes, from, (size_t)(rows * t->row_bytes));
    } else {
        for (int64_t i = 0; i < rows; i++) {
            memcpy(s->bytes + i * t->row_bytes, from + i * t->stride_bytes, (size_t)t->row_bytes);
        }
    }
    return mark_slot(t, s,
                     t->gpu->module->ops->copy_in(t->gpu->stream, t->device + row * t->row_bytes,
                                                  s->bytes, (uint64_t)(rows * t->row_bytes)));
}

static kith_status send_lane(void *arg, int64_t lane_index, int32_t thread)
{
    const transfer *t = arg;
    (void)thread;
    KIN_TRY(kin_gpu_check(t->ctx, t->gpu, t->gpu->module->ops->enter(t->gpu->stream),
                          "entering the device"));
    for (int64_t piece = t->first + lane_index; piece < t->last; piece += t->lanes) {
        KIN_TRY(send_piece(t, piece, next_slot(t, lane_index)));
    }
    return KITH_OK;
}

/* ---- Out ------------------------------------------------------------------------------------- */

static kith_status fetch_piece(const transfer *t, int64_t piece, slot *s)
{
    KIN_TRY(wait_slot(t, s));
    return mark_slot(t, s,
                     t->gpu->module->ops->copy_out(t->gpu->stream, s->bytes,
                                                   t->device + piece * t->piece_rows * t->row_bytes,
                                                   (uint64_t)(rows_of(t, piece) * t->row_bytes)));
}

/* Nobody reads a whole slot soon; a few numbers are waited for. */
static void put(unsigned char *to, const unsigned char *from, size_t bytes)
{
#if defined(__SSE2__)
    if (bytes >= SLOT_BYTES && (uintptr_t)to % sizeof(__m128i) == 0) {
        const size_t whole = bytes / sizeof(__m128i);
        for (size_t i = 0; i < whole; i++) {
            _mm_stream_si128((__m128i *)(void *)to + i,
                             _mm_loadu_si128((const __m128i *)(const void *)from + i));
        }
        _mm_sfence();
        to += whole * sizeof(__m128i);
        from += whole * sizeof(__m128i);
        bytes -= whole * sizeof(__m128i);
    }
#endif
    memcpy(to, from, bytes);
}

static kith_status deliver_piece(const transfer *t, int64_t piece, slot *s)
{
    KIN_TRY(wait_slot(t, s));
    put(t->host + piece * t->piece_rows * t->row_bytes, s->bytes,
        (size_t)(rows_of(t, piece) * t->row_bytes));
    return KITH_OK;
}

/* One piece is under way while the one before is delivered. */
static kith_status fetch_lane(void *arg, int64_t lane_index, int32_t thread)
{
    const transfer *t = arg;
    (void)thread;
    KIN_TRY(kin_gpu_check(t->ctx, t->gpu, t->gpu->module->ops->enter(t->gpu->stream),
                          "entering the device"));
    slot *before = NULL;
    int64_t piece = t->first + lane_index;
    for (; piece < t->last; piece += t->lanes) {
        slot *s = next_slot(t, lane_index);
        KIN_TRY(fetch_piece(t, piece, s));
        if (before != NULL) {
            KIN_TRY(deliver_piece(t, piece - t->lanes, before));
        }
        before = s;
    }
    return before != NULL ? deliver_piece(t, piece - t->lanes, before) : KITH_OK;
}

/* ---- Both ------------------------------------------------------------------------------------ */

static kith_status run(transfer *t, kin_task_fn lane_fn)
{
    const int64_t pieces = kin_ceil_div(t->rows, t->piece_rows);
    kin_gpu_staging *staging = t->gpu->staging;
    const int32_t most = (int32_t)kin_min_i64(t->gpu->home->threads, MOST_LANES);
    if (pieces > SOME_PIECES && staging->lane_count < most && !staging->has_most) {
        staging->has_most = true;
        if (make_lanes(t->ctx, t->gpu, most, 0, &staging->others) != KITH_OK) {
            kin_forgive(t->ctx); /* one lane does */
        }
    }
    const int64_t lanes = kin_min_i64(staging->lane_count, t->ctx->threads);
    t->lanes = pieces <= FEW_PIECES ? 1 : kin_min_i64(lanes, pieces);
    for (t->first = 0; t->first < pieces; t->first = t->last) {
        t->last = kin_min_i64(pieces, t->first + t->lanes * ROUND_PIECES);
        if (t->lanes == 1) {
            KIN_TRY(lane_fn(t, 0, 0));
        } else {
            KIN_TRY(kin_parallel(t->ctx, NULL, t->lanes, lane_fn, t));
        }
        KIN_TRY(kin_progress(t->ctx, "copy", (double)t->last, (double)pieces));
    }
    return KITH_OK;
}

/* Bytes as rows of one slot each, the last one apart: a piece is then a row. */
static kith_status run_bytes(transfer *t, uint64_t bytes, kin_task_fn lane_fn)
{
    t->rows = (int64_t)(bytes / SLOT_BYTES);
    t->row_bytes = SLOT_BYTES;
    t->stride_bytes = SLOT_BYTES;
    t->piece_rows = 1;
    KIN_TRY(run(t, lane_fn));
    const uint64_t done = bytes / SLOT_BYTES * SLOT_BYTES;
    t->device += done;
    t->host += done;
    t->rows = bytes > done ? 1 : 0;
    t->row_bytes = (int64_t)(bytes - done);
    t->stride_bytes = t->row_bytes;
    return run(t, lane_fn);
}

kith_status kin_gpu_upload(kith_ctx *ctx, kin_gpu *gpu, void *to, const void *from, uint64_t bytes)
{
    KIN_TRY(kin_gpu_staging_make(ctx, gpu));
    /* Read alone: the same struct serves the way back. */
    transfer t = {.ctx = ctx, .gpu = gpu, .device = to, .host = (unsigned char *)(uintptr_t)from};
    return run_bytes(&t, bytes, send_lane);
}

kith_status kin_gpu_upload_rows(kith_ctx *ctx, kin_gpu *gpu, void *to, const kin_gpu_rows *rows)
{
    const int64_t row_bytes = rows->row_bytes;
    if (rows->stride_bytes == row_bytes) {
        return kin_gpu_upload(ctx, gpu, to, rows->from,
                              kin_size_mul((uint64_t)rows->count, (uint64_t)row_bytes));
    }
    if (row_bytes > SLOT_BYTES) {
        for (int64_t i = 0; i < rows->count; i++) {
            const kin_gpu_rows row = kin_gpu_rows_part(rows, i, 1);
            KIN_TRY(kin_gpu_upload(ctx, gpu, (unsigned char *)to + i * row_bytes, row.from,
                                   (uint64_t)row_bytes));
        }
        return KITH_OK;
    }
    KIN_TRY(kin_gpu_staging_make(ctx, gpu));
    transfer t = {.ctx = ctx,
                  .gpu = gpu,
                  .device = to,
                  .host = (unsigned char *)(uintptr_t)rows->from,
                  .rows = rows->count,
                  .row_bytes = row_bytes,
                  .stride_bytes = rows->stride_bytes,
                  .piece_rows = SLOT_BYTES / row_bytes};
    return run(&t, send_lane);
}

/* The waiting is done here, by one thread: lanes that wait would keep all processors busy. */
kith_status kin_gpu_download(kith_ctx *ctx, kin_gpu *gpu, void *to, const void *from,
                             uint64_t bytes)
{
    KIN_TRY(kin_gpu_staging_make(ctx, gpu));
    if (bytes > (uint64_t)FEW_PIECES * SLOT_BYTES) {
        KIN_TRY(kin_gpu_wait(ctx, gpu));
    }
    transfer t = {.ctx = ctx, .gpu = gpu, .device = (unsigned char *)(uintptr_t)from, .host = to};
    return run_bytes(&t, bytes, fetch_lane);
}

/* Rows that stand apart, by way of a block of some of them. */
static kith_status pack_rows(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *from, char *to)
{
    enum { BLOCK_BYTES = 64 << 20 };
    const int64_t stride = from->stride_bytes;
    const int64_t row_bytes = (int64_t)from->cols * kith_dtype_bytes(from->dtype);
    const int64_t most = kin_max_i64(1, BLOCK_BYTES / stride);
    char *block = NULL;
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_hold_alloc(&hold, &block, (uint64_t)kin_min_i64(most, from->rows), (uint64_t)stride,
                           "some of the points"));
    kith_status status = KITH_OK;
    for (int64_t first = 0; first < from->rows && status == KITH_OK; first += most) {
        const int64_t count = kin_min_i64(most, from->rows - first);
        status = kin_gpu_download(ctx, gpu, block, (const char *)from->data + first * stride,
                                  (uint64_t)((count - 1) * stride + row_bytes));
        for (int64_t i = 0; i < count && status == KITH_OK; i++) {
            memcpy(to + (first + i) * row_bytes, block + i * stride, (size_t)row_bytes);
        }
    }
    return status;
}

kith_status kin_gpu_fetch_rows(kith_ctx *ctx, kin_gpu *gpu, kith_matrix *rows, void **copy)
{
    const uint64_t row_bytes = (uint64_t)rows->cols * (uint64_t)kith_dtype_bytes(rows->dtype);
    const bool apart = rows->stride_bytes != (int64_t)row_bytes;
    *copy = NULL;
    KIN_TRY(kin_alloc(ctx, copy, (uint64_t)rows->rows, row_bytes, "a copy of the points"));
    KIN_TRY(apart
                ? pack_rows(ctx, gpu, rows, *copy)
                : kin_gpu_download(ctx, gpu, *copy, rows->data, (uint64_t)rows->rows * row_bytes));
    rows->data = *copy;
    rows->stride_bytes = (int64_t)row_bytes;
    return KITH_OK;
}

kith_status kin_gpu_fill(kith_ctx *ctx, kin_gpu *gpu, void *to, int byte, uint64_t bytes)
{
    return kin_gpu_check(ctx, gpu, gpu->module->ops->fill(gpu->stream, to, byte, bytes),
                         "filling device memory");
}

kith_status kin_gpu_copy(kith_ctx *ctx, kin_gpu *gpu, void *to, const void *from, uint64_t bytes)
{
    return kin_gpu_check(ctx, gpu, gpu->module->ops->copy_within(gpu->stream, to, from, bytes),
                         "copying device memory");
}

kith_status kin_gpu_wait(kith_ctx *ctx, kin_gpu *gpu)
{
    return kin_gpu_check(ctx, gpu, gpu->module->ops->wait(gpu->stream), "computing");
}
