/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. What lies on the device is selected from where it lies, in as few batches of rows as the
 * method's scratch memory allows. What lies on the host is copied in batches of rows, the next one
 * ahead (gpu.h), while this one is selected from:
 *
 *      copies       rows 0 | rows 1   | rows 2   | ...
 *      selection           | rows 0 . | rows 1 . | ...       . answers go back
 *
 * Where a selection takes less time than its copy, as by scan, all of it takes about as long as the
 * copies and the last batch's selection. Of a row that is too long for the memory that is left,
 * pieces are copied, one after the other, and the answers of the pieces are a short row with ids,
 * from which the processor selects once more. An allocation that fails gives up what comes ahead,
 * and then halves the batch.
 */
#include "select/select.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "gpu/gpu.h"
#include "host/host_threads.h"
#include "select/select_kernels.h"
#include "select/select_word.h"

/* Copies of this size run at full speed; the first batch's copy and the last one's selection have
 * nothing beside them, so that larger batches would take longer. */
static const uint64_t BATCH_BYTES = (uint64_t)128 << 20;
/* Shares of the room: a batch, the next one, and what the method takes besides. */
enum { BATCHES_IN_ROOM = 4 };

typedef struct device_work {
    kith_ctx *ctx;
    kin_gpu *gpu;
    kin_select_job job; /* with a method */
    int64_t value_bytes;
} device_work;

/* A batch on the device. */
typedef struct batch {
    int64_t rows;
    int64_t cols;
    int64_t k;
    char *values;
    char *ids;
    char *out_values;
    char *out_kth;
    uint32_t *out_ids;
    void *scratch;
} batch;

static kin_select_task task_of(const kin_select_job *job)
{
    return (kin_select_task){.values = job->values,
                             .ids = job->ids,
                             .stride_bytes = job->stride_bytes,
                             .ids_stride_bytes = job->ids_stride_bytes,
                             .rows = job->rows,
                             .cols = job->cols,
                             .k = job->k,
                             .dtype = job->dtype,
                             .method = job->method->number,
                             .buffer = job->buffer,
                             .group = job->group,
                             .sample = job->sample,
                             .level = job->level,
                             .buffer_size = job->buffer_size,
                             .aligned = job->aligned,
                             .merge_path = job->merge_path,
                             .largest = job->largest,
                             .sorted = job->sorted,
                             .out_values = job->out_values,
                             .out_ids = job->out_ids,
                             .out_kth = job->out_kth};
}

static char *moved(void *base, int64_t bytes)
{
    return base == NULL ? NULL : (char *)base + bytes;
}

/* ---- Where everything lies on the device ----------------------------------------------------- */

static kith_status select_now(const device_work *w, kin_select_task *task)
{
    const kin_select_kernels *kernels = &w->gpu->module->select[task->method];
    task->scratch_bytes = kernels->scratch(w->gpu->stream, task);
    if (task->scratch_bytes > 0) {
        KIN_TRY(kin_gpu_alloc(w->ctx, w->gpu, &task->scratch, task->scratch_bytes, 1,
                              "the scratch memory of a selection"));
    }
    const kith_status status =
        kin_gpu_check(w->ctx, w->gpu, kernels->select(w->gpu->stream, task), "a selection");
    kin_gpu_free(w->gpu, task->scratch);
    return status;
}

static kin_select_task rows_of(const kin_select_task *all, int64_t row0, int64_t rows,
                               int64_t value_bytes)
{
    kin_select_task task = *all;
    task.rows = rows;
    task.values += row0 * all->stride_bytes;
    task.ids = all->ids == NULL ? NULL : all->ids + row0 * all->ids_stride_bytes;
    task.out_values = moved(all->out_values, row0 * all->k * value_bytes);
    task.out_ids = all->out_ids == NULL ? NULL : all->out_ids + row0 * all->k;
    task.out_kth = moved(all->out_kth, row0 * value_bytes);
    return task;
}

/* `tells`: the batches are all there is to tell of. */
static kith_status select_there(const device_work *w, const kin_select_task *all, bool tells)
{
    int64_t batch_rows = all->rows;
    for (int64_t row0 = 0; row0 < all->rows;) {
        const int64_t rows = kin_min_i64(batch_rows, all->rows - row0);
        kin_select_task task = rows_of(all, row0, rows, w->value_bytes);
        const kith_status status = select_now(w, &task);
        if (status == KITH_E_DEVICE_MEMORY && rows > 1) {
            kin_forgive(w->ctx);
            batch_rows = (rows + 1) / 2;
            continue;
        }
        KIN_TRY(status);
        row0 += rows;
        if (tells) {
            KIN_TRY(kin_progress(w->ctx, "select", (double)row0, (double)all->rows));
        }
    }
    return KITH_OK;
}

/* ---- Where everything lies on the host ------------------------------------------------------- */

static void free_batch(const device_work *w, batch *b)
{
    void *const blocks[] = {b->scratch, b->out_kth, b->out_ids, b->out_values, b->ids, b->values};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        kin_gpu_free(w->gpu, blocks[i]);
    }
    *b = (batch){0};
}

/* Rows from row0 and places from col0 on. */
static kin_gpu_rows values_at(const device_work *w, const batch *b, int64_t row0, int64_t col0)
{
    const kin_select_job *job = &w->job;
    return (kin_gpu_rows){job->values + row0 * job->stride_bytes + col0 * w->value_bytes, b->rows,
                          b->cols * w->value_bytes, job->stride_bytes};
}

static kin_gpu_rows ids_at(const device_work *w, const batch *b, int64_t row0, int64_t col0)
{
    const kin_select_job *job = &w->job;
    const int64_t id_bytes = (int64_t)sizeof(uint32_t);
    return (kin_gpu_rows){job->ids + row0 * job->ids_stride_bytes + col0 * id_bytes, b->rows,
                          b->cols * id_bytes, job->ids_stride_bytes};
}

/* Rows that came ahead, or are copied now. */
static kith_status bring(const device_work *w, const kin_gpu_rows *rows, char **block,
                         const char *what)
{
    KIN_TRY(kin_gpu_ahead_take(w->ctx, w->gpu, rows, block));
    if (*block != NULL) {
        return KITH_OK;
    }
    KIN_TRY(kin_gpu_alloc(w->ctx, w->gpu, block, (uint64_t)rows->count, (uint64_t)rows->row_bytes,
                          what));
    return kin_gpu_upload_rows(w->ctx, w->gpu, *block, rows);
}

static kith_status bring_batch(const device_work *w, int64_t row0, int64_t col0, batch *b)
{
    const kin_gpu_rows values = values_at(w, b, row0, col0);
    KIN_TRY(bring(w, &values, &b->values, "a batch of values"));
    if (w->job.ids == NULL) {
        return KITH_OK;
    }
    const kin_gpu_rows ids = ids_at(w, b, row0, col0);
    return bring(w, &ids, &b->ids, "a batch of ids");
}

/* The batch that comes next: nothing where it has no rows. */
static void hint(const device_work *w, int64_t row0, int64_t rows)
{
    const batch next = {.rows = rows, .cols = w->job.cols};
    if (rows == 0) {
        return;
    }
    const kin_gpu_rows values = values_at(w, &next, row0, 0);
    kin_gpu_ahead_begin(w->ctx, w->gpu, &values);
    if (w->job.ids != NULL) {
        const kin_gpu_rows ids = ids_at(w, &next, row0, 0);
        kin_gpu_ahead_begin(w->ctx, w->gpu, &ids);
    }
}

/* Room for the answers, k of each row. */
static kith_status take_answers(const device_work *w, batch *b)
{
    const kin_select_job *job = &w->job;
    const int64_t rows = b->rows;
    const uint64_t kept = (uint64_t)rows * (uint64_t)b->k;
    const uint64_t bytes = (uint64_t)w->value_bytes;
    if (job->out_kth != NULL) {
        return kin_gpu_alloc(w->ctx, w->gpu, &b->out_kth, (uint64_t)rows, bytes, "k-th values");
    }
    if (job->out_values != NULL) {
        KIN_TRY(kin_gpu_alloc(w->ctx, w->gpu, &b->out_values, kept, bytes, "selected values"));
    }
    if (job->out_ids != NULL) {
        KIN_TRY(
            kin_gpu_alloc(w->ctx, w->gpu, &b->out_ids, kept, sizeof *b->out_ids, "selected ids"));
    }
    return KITH_OK;
}

/* Selects from a batch that is there, whose first place is col0; the answers are still there. */
static kith_status run_batch(const device_work *w, const batch *b, int64_t col0)
{
    kin_select_task task = task_of(&w->job);
    task.values = b->values;
    task.ids = b->ids;
    task.stride_bytes = b->cols * w->value_bytes;
    task.ids_stride_bytes = b->cols * (int64_t)sizeof(uint32_t);
    task.rows = b->rows;
    task.cols = b->cols;
    task.k = b->k;
    task.first_id = (uint32_t)col0;
    task.out_values = b->out_values;
    task.out_ids = b->out_ids;
    task.out_kth = b->out_kth;
    return select_there(w, &task, false);
}

static kith_status fetch(const device_work *w, const batch *b, int64_t row0, int64_t rows)
{
    const kin_select_job *job = &w->job;
    const int64_t kept = rows * job->k;
    if (job->out_kth != NULL) {
        return kin_gpu_download(w->ctx, w->gpu, (char *)job->out_kth + row0 * w->value_bytes,
                                b->out_kth, (uint64_t)(rows * w->value_bytes));
    }
    if (job->out_values != NULL) {
        KIN_TRY(kin_gpu_download(w->ctx, w->gpu,
                                 (char *)job->out_values + row0 * job->k * w->value_bytes,
                                 b->out_values, (uint64_t)(kept * w->value_bytes)));
    }
    if (job->out_ids != NULL) {
        KIN_TRY(kin_gpu_download(w->ctx, w->gpu, job->out_ids + row0 * job->k, b->out_ids,
                                 (uint64_t)kept * sizeof *job->out_ids));
    }
    return KITH_OK;
}

/* The `next` rows behind them come ahead. */
static kith_status solve_rows(const device_work *w, int64_t row0, int64_t rows, int64_t next)
{
    batch b = {.rows = rows, .cols = w->job.cols, .k = w->job.k};
    kith_status status = bring_batch(w, row0, 0, &b);
    if (status == KITH_OK) {
        status = take_answers(w, &b);
    }
    if (status == KITH_OK) {
        hint(w, row0 + rows, next);
        status = run_batch(w, &b, 0);
    }
    if (status == KITH_OK) {
        status = fetch(w, &b, row0, rows);
    }
    free_batch(w, &b);
    return status;
}

/* ---- A row in pieces ------------------------------------------------------------------------- */

/* The answers of a row's pieces, a short row with ids. */
typedef struct pieces {
    device_work w; /* asks for values and ids, ascending or not */
    char *values;
    uint32_t *ids;
    int64_t count;
} pieces;

static kith_status solve_piece(pieces *p, int64_t row, int64_t col0, int64_t cols)
{
    const device_work *w = &p->w;
    const int64_t k = kin_min_i64(w->job.k, cols);
    batch b = {.rows = 1, .cols = cols, .k = k};
    kith_status status = bring_batch(w, row, col0, &b);
    if (status == KITH_OK) {
        status = take_answers(w, &b);
    }
    if (status == KITH_OK) {
        status = run_batch(w, &b, col0);
    }
    if (status == KITH_OK) {
        status = kin_gpu_download(w->ctx, w->gpu, p->values + p->count * w->value_bytes,
                                  b.out_values, (uint64_t)(k * w->value_bytes));
    }
    if (status == KITH_OK) {
        status = kin_gpu_download(w->ctx, w->gpu, p->ids + p->count, b.out_ids,
                                  (uint64_t)k * sizeof *p->ids);
    }
    free_batch(w, &b);
    p->count += status == KITH_OK ? k : 0;
    return status;
}

static kith_status solve_pieces(pieces *p, int64_t row, int64_t piece)
{
    const kin_select_job *job = &p->w.job;
    p->count = 0;
    for (int64_t col0 = 0; col0 < job->cols; col0 += piece) {
        KIN_TRY(solve_piece(p, row, col0, kin_min_i64(piece, job->cols - col0)));
        const double done = (double)row + (double)(col0 + piece) / (double)job->cols;
        KIN_TRY(kin_progress(p->w.ctx, "select", done, (double)job->rows));
    }
    return KITH_OK;
}

/* The answer of row `row` of the job, from what its pieces gave. */
static kith_status merge_pieces(const device_work *w, const pieces *p, int64_t row)
{
    const kin_select_job *all = &w->job;
    kin_select_job job = *all;
    job.method = kin_select_method_of(KITH_SELECT_SCAN);
    job.buffer = 0;
    job.group = 0;
    job.aligned = false;
    job.values = p->values;
    job.ids = (const char *)p->ids;
    job.rows = 1;
    job.cols = p->count;
    job.stride_bytes = p->count * w->value_bytes;
    job.ids_stride_bytes = p->count * (int64_t)sizeof *p->ids;
    job.out_values = moved(all->out_values, row * all->k * w->value_bytes);
    job.out_ids = all->out_ids == NULL ? NULL : all->out_ids + row * all->k;
    job.out_kth = moved(all->out_kth, row * w->value_bytes);
    return kin_select_host(w->ctx, &job);
}

/* One row in pieces of `piece` places. */
static kith_status solve_long_row(const device_work *w, int64_t row, int64_t piece)
{
    pieces p = {.w = *w};
    const uint64_t most =
        (uint64_t)kin_ceil_div(w->job.cols, piece) * (uint64_t)kin_min_i64(w->job.k, piece);
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status,
                 kin_alloc(w->ctx, &p.values, most, (uint64_t)w->value_bytes, "values of pieces"),
                 done);
    KIN_TRY_GOTO(status, kin_alloc(w->ctx, &p.ids, most, sizeof *p.ids, "ids of pieces"), done);
    p.w.job.out_values = p.values;
    p.w.job.out_ids = p.ids;
    p.w.job.out_kth = NULL;
    KIN_TRY_GOTO(status, solve_pieces(&p, row, piece), done);
    status = merge_pieces(w, &p, row);
done:
    kin_free(w->ctx, p.ids);
    kin_free(w->ctx, p.values);
    return status;
}

/* Least places of a piece: below, the device has no room for anything. */
enum { LEAST_PIECE = 4096 };

static kith_status solve_row(const device_work *w, int64_t row)
{
    kith_status status = solve_rows(w, row, 1, 0);
    for (int64_t piece = w->job.cols / 2; status == KITH_E_DEVICE_MEMORY && piece >= LEAST_PIECE;
         piece /= 2) {
        kin_forgive(w->ctx);
        status = solve_long_row(w, row, piece);
    }
    return status;
}

/* Rows of a batch. */
static int64_t batch_rows_of(const device_work *w)
{
    const kin_select_job *job = &w->job;
    const uint64_t row_bytes = kin_size_add(
        kin_size_mul((uint64_t)job->cols, (uint64_t)w->value_bytes + (job->ids != NULL ? 4 : 0)),
        kin_size_mul((uint64_t)job->k, (uint64_t)w->value_bytes + 4));
    const uint64_t room = kin_gpu_room(w->gpu) / BATCHES_IN_ROOM;
    const uint64_t bytes = room < BATCH_BYTES ? room : BATCH_BYTES;
    return kin_max_i64(1, (int64_t)(bytes / row_bytes));
}

/* Where memory ends, batches come one after the other from then on. */
static kith_status select_batches(const device_work *w)
{
    const kin_select_job *job = &w->job;
    int64_t batch_rows = batch_rows_of(w);
    bool ahead = true;
    for (int64_t row0 = 0; row0 < job->rows;) {
        const int64_t rows = kin_min_i64(batch_rows, job->rows - row0);
        const int64_t next = ahead ? kin_min_i64(batch_rows, job->rows - row0 - rows) : 0;
        const bool whole = ahead || rows > 1;
        const kith_status status = whole ? solve_rows(w, row0, rows, next) : solve_row(w, row0);
        if (status == KITH_E_DEVICE_MEMORY && whole) {
            kin_forgive(w->ctx);
            batch_rows = kin_gpu_ahead_end(w->gpu) || rows == 1 ? rows : (rows + 1) / 2;
            ahead = false;
            continue;
        }
        KIN_TRY(status);
        row0 += rows;
        KIN_TRY(kin_progress(w->ctx, "select", (double)row0, (double)job->rows));
    }
    return KITH_OK;
}

static kith_status select_here(const device_work *w)
{
    const kith_status status = select_batches(w);
    (void)kin_gpu_ahead_end(w->gpu);
    return status;
}

uint64_t kin_select_device_scratch(const kin_gpu *gpu, const kin_select_job *job)
{
    kin_select_job known = *job;
    known.method = kin_select_choose(kin_gpu_chip(&gpu->info), job);
    const kin_select_task task = task_of(&known);
    return gpu->module->select[task.method].scratch(gpu->stream, &task);
}

kith_status kin_select_device(kith_ctx *ctx, kin_gpu *gpu, const kin_select_job *job,
                              bool on_device)
{
    device_work w = {.ctx = ctx, .gpu = gpu, .job = *job};
    w.job.method = kin_select_choose(kin_gpu_chip(&gpu->info), job);
    w.value_bytes = kin_select_type_bytes(job->dtype);
    if (job->rows == 0) {
        return KITH_OK;
    }
    if (!on_device) {
        return select_here(&w);
    }
    const kin_select_task task = task_of(&w.job);
    KIN_TRY(select_there(&w, &task, true));
    return kin_gpu_wait(ctx, gpu);
}
