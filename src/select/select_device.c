/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. What lies on the device is selected from where it lies, in as few batches of rows as the
 * method's scratch memory allows. What lies on the host is copied in parts, the next four ahead
 * (gpu.h), while this one is selected from:
 *
 *      copies       part 0 | part 1   | part 2   | ...
 *      selection           | part 0 . | part 1 . | ...       . answers go back
 *
 * Four, so that some are copied while one's end is waited for and the one after it is begun: each
 * by few threads, which was faster than fewer parts by all threads each.
 * Where a selection takes less time than its copy, as by scan, all of it takes about as long as the
 * copies and the last part's selection. A part is a batch of rows; of rows that are too long for
 * the memory that is left, a piece of one, and the answers of a row's pieces are a short row with
 * ids, from which the processor selects once more, while the next row's first piece is on its way.
 * An allocation that fails gives up what comes ahead, then halves the batch down to one row, then
 * cuts the row, and then halves the piece; the row that it met begins anew.
 */
#include "select/select.h"

#include "gpu/gpu.h"
#include "host/host_threads.h"

/* Copies of this size run at full speed; the first part's copy and the last one's selection have
 * nothing beside them, so that larger parts would take longer. */
static const uint64_t PART_BYTES = (uint64_t)96 << 20;
/* Shares of the room: a part, the next four, and what the method takes besides. */
enum { PARTS_IN_ROOM = 7, PARTS_AHEAD = 4 };
/* Least places of a piece: below, the device has no room for anything. */
enum { LEAST_PIECE = 4096 };

typedef struct device_work {
    kith_ctx *ctx;
    kin_gpu *gpu;
    kin_select_job job; /* with a method */
    int64_t value_bytes;
} device_work;

static kin_select_job with_method(const kin_gpu *gpu, const kin_select_job *job)
{
    kin_select_job known = *job;
    known.method = kin_select_choose(kin_gpu_chip(&gpu->info), job);
    known.number = known.method->number;
    return known;
}

static char *moved(void *base, int64_t bytes)
{
    return base == NULL ? NULL : (char *)base + bytes;
}

/* ---- Where everything lies on the device ----------------------------------------------------- */

static kith_status select_now(const device_work *w, kin_select_job *task)
{
    const kin_select_kernels *kernels = &w->gpu->module->select[task->number];
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

static kin_select_job rows_of(const kin_select_job *all, int64_t row0, int64_t rows,
                              int64_t value_bytes)
{
    kin_select_job task = *all;
    task.rows = rows;
    task.values += row0 * all->stride_bytes;
    task.ids = all->ids == NULL ? NULL : all->ids + row0 * all->ids_stride_bytes;
    task.out_values = moved(all->out_values, row0 * all->k * value_bytes);
    task.out_ids = all->out_ids == NULL ? NULL : all->out_ids + row0 * all->k;
    task.out_kth = moved(all->out_kth, row0 * value_bytes);
    return task;
}

/* `tells`: the batches are all there is to tell of. */
static kith_status select_there(const device_work *w, const kin_select_job *all, bool tells)
{
    int64_t batch_rows = all->rows;
    for (int64_t row0 = 0; row0 < all->rows;) {
        const int64_t rows = kin_min_i64(batch_rows, all->rows - row0);
        kin_select_job task = rows_of(all, row0, rows, w->value_bytes);
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

/* ---- Parts of what lies on the host ---------------------------------------------------------- */

/* Some whole rows, or some places of one row; no rows: there is none. */
typedef struct part {
    int64_t row0;
    int64_t rows;
    int64_t col0;
    int64_t cols;
} part;

/* How a job is cut, and what the pieces of a row gave so far: a short row with ids. */
typedef struct cutting {
    const device_work *w;
    int64_t rows; /* of a part */
    int64_t cols; /* fewer than the job's: pieces of one row */
    bool ahead;
    char *values;
    uint32_t *ids;
    int64_t count;
} cutting;

static bool in_pieces(const cutting *c)
{
    return c->cols < c->w->job.cols;
}

static part part_at(const cutting *c, int64_t row0, int64_t col0)
{
    const kin_select_job *job = &c->w->job;
    return (part){row0, kin_min_i64(c->rows, job->rows - row0), col0,
                  kin_min_i64(c->cols, job->cols - col0)};
}

static bool ends_rows(const cutting *c, const part *p)
{
    return p->col0 + p->cols == c->w->job.cols;
}

static part part_after(const cutting *c, const part *p)
{
    return ends_rows(c, p) ? part_at(c, p->row0 + p->rows, 0)
                           : part_at(c, p->row0, p->col0 + p->cols);
}

static uint64_t part_bytes(const device_work *w)
{
    const uint64_t room = kin_gpu_room(w->gpu) / PARTS_IN_ROOM;
    return room < PART_BYTES ? room : PART_BYTES;
}

/* Bytes of a value and its id. */
static uint64_t place_bytes(const device_work *w)
{
    return (uint64_t)w->value_bytes + (w->job.ids != NULL ? sizeof(uint32_t) : 0);
}

static cutting cut_rows(const device_work *w)
{
    const kin_select_job *job = &w->job;
    const uint64_t row_bytes =
        kin_size_add(kin_size_mul((uint64_t)job->cols, place_bytes(w)),
                     kin_size_mul((uint64_t)job->k, (uint64_t)w->value_bytes + sizeof(uint32_t)));
    return (cutting){
        .w = w,
        .rows = kin_max_i64(1, kin_min_i64(job->rows, (int64_t)(part_bytes(w) / row_bytes))),
        .cols = job->cols,
        .ahead = true};
}

static void forget_pieces(cutting *c)
{
    kin_free(c->w->ctx, c->ids);
    kin_free(c->w->ctx, c->values);
    c->ids = NULL;
    c->values = NULL;
    c->count = 0;
}

/* Parts that take less memory; false: there are none. Where they were not in pieces they come one
 * after the other from then on. */
static bool cut_smaller(cutting *c)
{
    const int64_t cols = c->w->job.cols;
    forget_pieces(c);
    if (kin_gpu_ahead_end(c->w->gpu)) {
        c->ahead = false;
        return true;
    }
    if (c->rows > 1) {
        c->rows = (c->rows + 1) / 2;
        c->ahead = false;
        return true;
    }
    const int64_t before = c->cols;
    if (before == cols) {
        const int64_t fits = (int64_t)(part_bytes(c->w) / place_bytes(c->w));
        c->cols = kin_max_i64(kin_min_i64(fits, cols / 2), LEAST_PIECE);
        c->ahead = true;
    } else {
        c->cols = kin_max_i64(before / 2, LEAST_PIECE);
    }
    return c->cols < before;
}

/* ---- A part on the device -------------------------------------------------------------------- */

/* Answers on one side; NULL: not asked for. */
typedef struct answers {
    char *values;
    uint32_t *ids;
    char *kth;
} answers;

typedef struct batch {
    part what;
    int64_t k;
    void *values;
    void *ids;
    answers out;
    answers to; /* on the host */
} batch;

static void free_batch(const device_work *w, batch *b)
{
    void *const blocks[] = {b->out.kth, b->out.ids, b->out.values, b->ids, b->values};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        kin_gpu_free(w->gpu, blocks[i]);
    }
    *b = (batch){0};
}

static kin_gpu_rows values_of(const device_work *w, const part *p)
{
    const kin_select_job *job = &w->job;
    return (kin_gpu_rows){job->values + p->row0 * job->stride_bytes + p->col0 * w->value_bytes,
                          p->rows, p->cols * w->value_bytes, job->stride_bytes};
}

static kin_gpu_rows ids_of(const device_work *w, const part *p)
{
    const kin_select_job *job = &w->job;
    const int64_t id_bytes = (int64_t)sizeof(uint32_t);
    return (kin_gpu_rows){job->ids + p->row0 * job->ids_stride_bytes + p->col0 * id_bytes, p->rows,
                          p->cols * id_bytes, job->ids_stride_bytes};
}

static kith_status bring_batch(const device_work *w, batch *b)
{
    const kin_gpu_rows values = values_of(w, &b->what);
    KIN_TRY(kin_gpu_bring(w->ctx, w->gpu, &values, &b->values));
    if (w->job.ids == NULL) {
        return KITH_OK;
    }
    const kin_gpu_rows ids = ids_of(w, &b->what);
    return kin_gpu_bring(w->ctx, w->gpu, &ids, &b->ids);
}

/* A part that comes soon; of none nothing comes. */
static void hint(const device_work *w, const part *next)
{
    const kin_gpu_rows values = values_of(w, next);
    const int32_t together = PARTS_AHEAD * (w->job.ids != NULL ? 2 : 1);
    kin_gpu_ahead_begin(w->ctx, w->gpu, &values, together);
    if (w->job.ids != NULL) {
        const kin_gpu_rows ids = ids_of(w, next);
        kin_gpu_ahead_begin(w->ctx, w->gpu, &ids, together);
    }
}

/* Room for the answers, k of each row. */
static kith_status take_answers(const device_work *w, batch *b)
{
    const uint64_t rows = (uint64_t)b->what.rows;
    const uint64_t kept = rows * (uint64_t)b->k;
    const uint64_t bytes = (uint64_t)w->value_bytes;
    if (b->to.kth != NULL) {
        return kin_gpu_alloc(w->ctx, w->gpu, &b->out.kth, rows, bytes, "k-th values");
    }
    if (b->to.values != NULL) {
        KIN_TRY(kin_gpu_alloc(w->ctx, w->gpu, &b->out.values, kept, bytes, "selected values"));
    }
    if (b->to.ids != NULL) {
        KIN_TRY(
            kin_gpu_alloc(w->ctx, w->gpu, &b->out.ids, kept, sizeof *b->out.ids, "selected ids"));
    }
    return KITH_OK;
}

/* Selects from a batch that is there; the answers are still there. */
static kith_status run_batch(const device_work *w, const batch *b)
{
    kin_select_job task = w->job;
    task.values = b->values;
    task.ids = b->ids;
    task.stride_bytes = b->what.cols * w->value_bytes;
    task.ids_stride_bytes = b->what.cols * (int64_t)sizeof(uint32_t);
    task.rows = b->what.rows;
    task.cols = b->what.cols;
    task.k = b->k;
    task.first_id = (uint32_t)b->what.col0;
    task.out_values = b->out.values;
    task.out_ids = b->out.ids;
    task.out_kth = b->out.kth;
    return select_there(w, &task, false);
}

static kith_status fetch(const device_work *w, const batch *b)
{
    const uint64_t rows = (uint64_t)b->what.rows;
    const uint64_t kept = rows * (uint64_t)b->k;
    const uint64_t bytes = (uint64_t)w->value_bytes;
    if (b->to.kth != NULL) {
        return kin_gpu_download(w->ctx, w->gpu, b->to.kth, b->out.kth, rows * bytes);
    }
    if (b->to.values != NULL) {
        KIN_TRY(kin_gpu_download(w->ctx, w->gpu, b->to.values, b->out.values, kept * bytes));
    }
    if (b->to.ids != NULL) {
        KIN_TRY(kin_gpu_download(w->ctx, w->gpu, b->to.ids, b->out.ids, kept * sizeof *b->out.ids));
    }
    return KITH_OK;
}

/* The parts that come next, ahead. */
static void hint_next(const cutting *c, const part *p)
{
    part next = *p;
    for (int i = 0; c->ahead && i < PARTS_AHEAD && next.rows > 0; i++) {
        next = part_after(c, &next);
        hint(c->w, &next);
    }
}

static kith_status solve_batch(const cutting *c, batch *b)
{
    KIN_TRY(bring_batch(c->w, b));
    KIN_TRY(take_answers(c->w, b));
    hint_next(c, &b->what);
    KIN_TRY(run_batch(c->w, b));
    return fetch(c->w, b);
}

/* ---- All parts ------------------------------------------------------------------------------- */

/* What is asked for of rows from row0 on. */
static answers answers_at(const device_work *w, int64_t row0)
{
    const kin_select_job *job = &w->job;
    return (answers){moved(job->out_values, row0 * job->k * w->value_bytes),
                     job->out_ids == NULL ? NULL : job->out_ids + row0 * job->k,
                     moved(job->out_kth, row0 * w->value_bytes)};
}

static kith_status take_pieces(cutting *c)
{
    const kin_select_job *job = &c->w->job;
    const uint64_t most =
        (uint64_t)kin_ceil_div(job->cols, c->cols) * (uint64_t)kin_min_i64(job->k, c->cols);
    c->count = 0;
    if (c->ids != NULL) {
        return KITH_OK;
    }
    KIN_TRY(
        kin_alloc(c->w->ctx, &c->values, most, (uint64_t)c->w->value_bytes, "values of pieces"));
    return kin_alloc(c->w->ctx, &c->ids, most, sizeof *c->ids, "ids of pieces");
}

/* The answer of a row of the job, from what its pieces gave. */
static kith_status merge_pieces(const cutting *c, int64_t row)
{
    const device_work *w = c->w;
    const answers out = answers_at(w, row);
    kin_select_job job = w->job;
    job.method = kin_select_method_of(KITH_SELECT_SCAN);
    job.buffer = 0;
    job.group = 0;
    job.aligned = false;
    job.values = c->values;
    job.ids = (const char *)c->ids;
    job.rows = 1;
    job.cols = c->count;
    job.stride_bytes = c->count * w->value_bytes;
    job.ids_stride_bytes = c->count * (int64_t)sizeof *c->ids;
    job.out_values = out.values;
    job.out_ids = out.ids;
    job.out_kth = out.kth;
    return kin_select_host(w->ctx, &job);
}

static kith_status solve_part(cutting *c, const part *p)
{
    const device_work *w = c->w;
    batch b = {.what = *p, .k = kin_min_i64(w->job.k, p->cols)};
    if (in_pieces(c)) {
        KIN_TRY(p->col0 == 0 ? take_pieces(c) : KITH_OK);
        b.to = (answers){c->values + c->count * w->value_bytes, c->ids + c->count, NULL};
        c->count += b.k;
    } else {
        b.to = answers_at(w, p->row0);
    }
    const kith_status status = solve_batch(c, &b);
    free_batch(w, &b);
    KIN_TRY(status);
    return in_pieces(c) && ends_rows(c, p) ? merge_pieces(c, p->row0) : KITH_OK;
}

static kith_status solve_parts(cutting *c)
{
    const device_work *w = c->w;
    for (part p = part_at(c, 0, 0); p.rows > 0;) {
        const kith_status status = solve_part(c, &p);
        if (status == KITH_E_DEVICE_MEMORY && cut_smaller(c)) {
            kin_forgive(w->ctx);
            p = part_at(c, p.row0, 0);
            continue;
        }
        KIN_TRY(status);
        const double share = (double)(p.col0 + p.cols) / (double)w->job.cols;
        KIN_TRY(kin_progress(w->ctx, "select", (double)p.row0 + (double)p.rows * share,
                             (double)w->job.rows));
        p = part_after(c, &p);
    }
    return KITH_OK;
}

static kith_status select_here(const device_work *w)
{
    cutting c = cut_rows(w);
    const kith_status status = solve_parts(&c);
    (void)kin_gpu_ahead_end(w->gpu);
    forget_pieces(&c);
    return status;
}

uint64_t kin_select_device_scratch(const kin_gpu *gpu, const kin_select_job *job)
{
    const kin_select_job known = with_method(gpu, job);
    return job->rows == 0 ? 0 : gpu->module->select[known.number].scratch(gpu->stream, &known);
}

static device_work work_of(kith_ctx *ctx, kin_gpu *gpu, const kin_select_job *job)
{
    return (device_work){.ctx = ctx,
                         .gpu = gpu,
                         .job = with_method(gpu, job),
                         .value_bytes = kin_select_type_bytes(job->dtype)};
}

kith_status kin_select_part(kith_ctx *ctx, kin_gpu *gpu, const kin_select_job *job)
{
    const device_work w = work_of(ctx, gpu, job);
    return select_there(&w, &w.job, false);
}

kith_status kin_select_device(kith_ctx *ctx, kin_gpu *gpu, const kin_select_job *job,
                              bool on_device)
{
    const device_work w = work_of(ctx, gpu, job);
    if (job->rows == 0) {
        return KITH_OK;
    }
    if (!on_device) {
        return select_here(&w);
    }
    KIN_TRY(select_there(&w, &w.job, true));
    return kin_gpu_wait(ctx, gpu);
}
