/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A part of the corpus is searched for all queries by kith_search, whichever engine and
 * device that takes; what it finds is merged into the lists so far (shard_truth_lists.c), and the
 * state is written (shard_truth_save.c). Each row is read once from the disk. Parts 1, 2, 3, time
 * from left to right:
 *
 *      caller    search 1    | merge | search 2    | merge | search 3
 *      thread    checksum 1  |       | state 1, checksum 2 | state 2, checksum 3
 *      GPU's     rows 1, 2   |       | rows 3              | rows 4        (gpu/gpu_ahead.c)
 *
 * Memory. A part has rows of a fourth of what is left of the memory limit: the search makes copies
 * of them, and they count themselves, since pages of mapped files are memory, too, and so do those
 * of the part behind it, where a GPU fetches that. Where it does not do, the part is halved. */
#include "shard/shard_truth.h"

#include "host/host_clock.h"
#include "shard/shard_job.h"

static const uint64_t USUAL_PART_BYTES = (uint64_t)1 << 30;
enum { SHARE_OF_A_PART = 4 };

/* ---- A filter's part ------------------------------------------------------------------------- */

static kith_status cut_filter(const kin_truth *t, kin_truth_part *part, kin_hold *hold)
{
    uint8_t *bits = NULL;
    const int64_t rows = part->rows.rows;
    const int64_t stride = kin_ceil_div(rows, 8);
    const int64_t maps = t->filter.allow_stride_bytes != 0 ? t->queries.rows : 1;
    part->filter = t->filter;
    if (t->filter.groups != NULL) {
        part->filter.groups = t->filter.groups + part->first;
    }
    if (t->filter.allow == NULL) {
        return KITH_OK;
    }
    KIN_TRY(kin_hold_alloc(hold, &bits, (uint64_t)maps, (uint64_t)stride, "a part's bitmaps"));
    for (int64_t i = 0; i < maps; i++) {
        kin_shard_cut_bits(t->filter.allow + i * t->filter.allow_stride_bytes, part->first, rows,
                           bits + i * stride);
    }
    part->filter.allow = bits;
    part->filter.allow_stride_bytes = t->filter.allow_stride_bytes != 0 ? stride : 0;
    return KITH_OK;
}

/* ---- A part ---------------------------------------------------------------------------------- */

static kith_status ask_nearest(const kin_truth *t, kin_truth_part *part, kith_report *report)
{
    kith_search_params params = kith_search_params_default();
    params.metric = t->distance.metric;
    params.k = part->wide;
    params.method = t->params.method;
    params.filter = t->filters ? &part->filter : NULL;
    return kith_search(t->ctx, &part->rows, &t->queries, &params, &part->found, report);
}

static kith_status ask_range(const kin_truth *t, kin_truth_part *part, kith_report *report)
{
    kith_radius_params params = kith_radius_params_default();
    params.metric = t->distance.metric;
    params.radius = t->reach;
    params.method = t->params.method;
    params.filter = t->filters ? &part->filter : NULL;
    KIN_TRY(kith_radius(t->ctx, &part->rows, &t->queries, &params, &part->ranges));
    *report = t->ctx->report;
    return KITH_OK;
}

static uint64_t bytes_of(const kith_matrix *rows)
{
    return (uint64_t)rows->rows * (uint64_t)rows->stride_bytes;
}

/* Rows of mapped files are memory beside what the search is told of; those that a GPU fetches
 * meanwhile are, too. */
static kith_status search_part(kin_truth *t, kin_truth_part *part)
{
    kith_ctx *ctx = t->ctx;
    const uint64_t limit = ctx->params.memory_limit;
    kith_report report = {.struct_size = sizeof report};
    if (!t->filters && (limit == 0 || ctx->gpu != NULL)) {
        ctx->coming = t->next;
    }
    const uint64_t bytes =
        bytes_of(&part->rows) + (ctx->coming.data != NULL ? bytes_of(&t->next) : 0);
    ctx->params.memory_limit = t->params.mapped != 0 && limit > bytes ? limit - bytes : limit;
    const int64_t start = kin_clock_ns();
    const kith_status status =
        t->ranged ? ask_range(t, part, &report) : ask_nearest(t, part, &report);
    ctx->params.memory_limit = limit;
    ctx->coming.data = NULL;
    t->report.seconds_search += kin_clock_since(start);
    if (status == KITH_OK) {
        memcpy(t->report.backend, report.backend, sizeof t->report.backend);
        memcpy(t->report.screen, report.screen, sizeof t->report.screen);
        t->report.parts += 1;
    }
    return status;
}

/* What was found is the hold's. */
static kith_status find_part(kin_truth *t, kin_truth_part *part, kin_hold *hold)
{
    part->wide = kin_min_i64(t->k + KIN_TRUTH_MARGIN, part->rows.rows);
    part->found = (kith_neighbors){.rows = t->queries.rows, .k = part->wide};
    const uint64_t entries = kin_size_mul((uint64_t)t->queries.rows, (uint64_t)part->wide);
    KIN_NEW(hold, part->found.ids, entries, "a part's lists");
    KIN_NEW(hold, part->found.distances64, entries, "a part's lists");
    KIN_HOLD(bits, t->ctx);
    KIN_TRY(t->filters ? cut_filter(t, part, &bits) : KITH_OK);
    return search_part(t, part);
}

static bool lacks_memory(kith_status status)
{
    return status == KITH_E_LIMIT || status == KITH_E_MEMORY || status == KITH_E_DEVICE_MEMORY;
}

/* ---- All parts ------------------------------------------------------------------------------- */

static int64_t part_rows(const kin_truth *t, const kith_matrix *matrix, int64_t row)
{
    const uint64_t limit = t->ctx->params.memory_limit;
    const uint64_t held = atomic_load(&t->ctx->held_bytes);
    const uint64_t left = limit > held ? limit - held : 0;
    uint64_t bytes = USUAL_PART_BYTES;
    if (limit > 0 && left / SHARE_OF_A_PART < bytes) {
        bytes = left / SHARE_OF_A_PART;
    }
    int64_t rows = kin_max_i64(1, (int64_t)(bytes / (uint64_t)matrix->stride_bytes));
    if (t->params.part_rows > 0) {
        rows = kin_min_i64(rows, t->params.part_rows);
    }
    if (t->fits > 0) {
        rows = kin_min_i64(rows, t->fits);
    }
    return kin_min_i64(rows, matrix->rows - row);
}

/* The part that begins there; of no rows behind the last matrix. */
static kith_matrix part_at(const kin_truth *t, int32_t matrix, int64_t row)
{
    if (matrix == t->count) {
        return (kith_matrix){.data = NULL};
    }
    const kith_matrix *all = &t->corpus[matrix];
    return kin_matrix_part(all, row, part_rows(t, all, row));
}

/* What a GPU has of the next part, which comes in another size, or not at all. */
static void drop_coming(kith_ctx *ctx)
{
    if (ctx->gpu != NULL) {
        kin_gpu_enter(ctx->gpu);
        (void)kin_gpu_ahead_end(ctx->gpu);
        kin_gpu_leave(ctx->gpu);
    }
}

/* This part, and t->next, the one behind it, which the system may begin to read. */
static kith_matrix next_part(kin_truth *t)
{
    const kin_truth_progress *p = &t->progress;
    const kith_matrix rows = t->next.data != NULL ? t->next : part_at(t, p->matrix, p->row);
    const int64_t behind = p->row + rows.rows;
    const bool ends = behind == t->corpus[p->matrix].rows;
    t->next = part_at(t, p->matrix + ends, ends ? 0 : behind);
    if (t->params.mapped != 0 && t->next.data != NULL) {
        kin_shard_fetch_rows(&t->next, 0, t->next.rows);
    }
    return rows;
}

enum { RETURNED_BYTES = 32 << 20 }; /* by a thread at a time */

static int64_t returned_rows(const kith_matrix *rows)
{
    return kin_max_i64(1, RETURNED_BYTES / rows->stride_bytes);
}

static kith_status return_rows(void *arg, int64_t task, int32_t thread)
{
    const kith_matrix *rows = arg;
    const int64_t first = task * returned_rows(rows);
    (void)thread;
    kin_shard_return_rows(rows, first, kin_min_i64(returned_rows(rows), rows->rows - first));
    return KITH_OK;
}

static kith_status advance(kin_truth *t, kith_matrix *rows)
{
    kin_truth_progress *p = &t->progress;
    p->first += rows->rows;
    p->row += rows->rows;
    if (p->row == t->corpus[p->matrix].rows) {
        t->sums[p->matrix] = kin_fingerprint_end(&p->sum);
        p->matrix += 1;
        p->row = 0;
    }
    return t->params.mapped == 0
               ? KITH_OK
               : kin_parallel(t->ctx, NULL, kin_ceil_div(rows->rows, returned_rows(rows)),
                              return_rows, rows);
}

/* ---- Beside a search ------------------------------------------------------------------------- */

/* Writing states takes at most so large a part of the time: of small parts not each has one. */
enum { SHARE_OF_STATES = 20 };

typedef struct finding {
    kin_truth *truth;
    char *text;              /* which job it is */
    kith_ctx *ctx;           /* of the thread */
    const kith_matrix *rows; /* of the part that is searched; NULL: none is */
    kin_truth seen;          /* what is done, as the thread sees it */
    bool stored;             /* that is on disk, or is no state */
    int64_t stored_ns;       /* when something was */
    int64_t storing_ns;      /* how long that took */
    kin_beside beside;
} finding;

static kith_status store(finding *f)
{
    const int64_t start = kin_clock_ns();
    if (f->stored || start - f->stored_ns < SHARE_OF_STATES * f->storing_ns) {
        return KITH_OK;
    }
    KIN_TRY(kin_truth_store(&f->seen, f->text));
    f->stored = true;
    f->stored_ns = kin_clock_ns();
    f->storing_ns = f->stored_ns - start;
    return KITH_OK;
}

static kith_status add_sums(kith_ctx *ctx, kin_truth *t, const kith_matrix *rows)
{
    kin_truth_progress *p = &t->progress;
    if (p->row == 0) {
        kin_fingerprint_begin(&p->sum, &t->corpus[p->matrix]);
    }
    KIN_TRY(kin_fingerprint_add(ctx, &p->sum, rows));
    return t->count > 1 && t->alike ? kin_fingerprint_add(ctx, &p->whole, rows) : KITH_OK;
}

static kith_status work_beside(void *arg)
{
    finding *f = arg;
    KIN_TRY(store(f));
    return f->rows != NULL ? add_sums(f->ctx, f->truth, f->rows) : KITH_OK;
}

static void start_beside(finding *f, const kith_matrix *rows)
{
    f->rows = rows;
    f->seen = *f->truth;
    f->seen.ctx = f->ctx;
    kin_beside_start(&f->beside, f->ctx, work_beside, f);
}

/* The first failure stays. */
static kith_status wait_beside(finding *f, kith_status status)
{
    const int64_t start = kin_clock_ns();
    KIN_KEEP(status, kin_beside_wait(&f->beside, f->truth->ctx));
    f->truth->report.seconds_wait += kin_clock_since(start);
    return status;
}

/* What was found goes to the lists; of those that are half merged there is no state. */
static kith_status take_part(finding *f, kin_truth_part *part)
{
    kin_truth *t = f->truth;
    const int64_t start = kin_clock_ns();
    f->stored = true;
    KIN_TRY(t->ranged ? kin_truth_take_ranges(t, part) : kin_truth_take(t, part));
    KIN_TRY(advance(t, &part->rows));
    f->stored = false;
    t->report.seconds_merge += kin_clock_since(start);
    return t->params.take == NULL || t->params.take(t->params.take_arg, t->progress.first) == 0
               ? KITH_OK
               : kin_fail(t->ctx, KITH_E_CANCELLED, "the caller's function ended the job");
}

/* Half of the rows come next where there is no room for what a search makes of all. */
static kith_status run_part(finding *f)
{
    kin_truth *t = f->truth;
    const kin_truth_progress before = t->progress;
    kin_truth_part part = {.rows = next_part(t), .first = before.first};
    KIN_HOLD(hold, t->ctx);
    t->report.matrix = before.matrix;
    start_beside(f, &part.rows);
    kith_status status = find_part(t, &part, &hold);
    const bool halves = lacks_memory(status) && part.rows.rows > 1;
    if (halves) {
        kin_forgive(t->ctx);
        t->fits = part.rows.rows / 2;
        t->next.data = NULL;
        drop_coming(t->ctx);
    }
    status = wait_beside(f, halves ? KITH_OK : status);
    if (halves || status != KITH_OK) {
        t->progress = before;
    } else {
        status = take_part(f, &part);
    }
    kith_ranges_free(part.ranges);
    kin_failure_shift(t->ctx, "corpus", "corpus", before.row);
    return status;
}

/* The state goes last: who dies before that goes on there. */
static kith_status write_all(finding *f)
{
    kin_truth *t = f->truth;
    const int64_t start = kin_clock_ns();
    start_beside(f, NULL);
    if (t->ranged) {
        kin_truth_count_ranges(t);
    } else {
        kin_truth_count(t);
    }
    kin_truth_hand_over(t);
    kith_status status = kin_truth_save(t);
    if (kin_beside_wait(&f->beside, t->ctx) != KITH_OK && status == KITH_OK) {
        kin_forgive(t->ctx); /* what is written whole needs no state */
    }
    KIN_THEN(status, kin_truth_clean(t));
    KIN_THEN(status,
             t->params.ranges != NULL ? kin_truth_make_ranges(t, t->params.ranges) : KITH_OK);
    t->report.seconds_write = kin_clock_since(start);
    return status;
}

static void name_lists(kin_layout *layout, void *arg)
{
    kin_truth *t = arg;
    const uint64_t queries = (uint64_t)t->queries.rows;
    const uint64_t entries = kin_size_mul(queries, (uint64_t)t->k);
    t->ids = kin_layout_array(layout, entries, sizeof *t->ids);
    t->keys = kin_layout_array(layout, entries, sizeof *t->keys);
    t->ties = kin_layout_array(layout, queries, sizeof *t->ties);
    t->offsets = kin_layout_zeros(layout, t->ranged ? queries + 1 : 0, sizeof *t->offsets);
    t->sums = kin_layout_zeros(layout, (uint64_t)t->count, sizeof *t->sums);
}

static kith_status find(kin_truth *t)
{
    finding f = {.truth = t, .stored = true};
    kith_matrix whole = t->corpus[0];
    whole.rows = t->rows;
    KIN_TRY(kin_truth_check_path(t));
    KIN_TRY(kin_layout_make(t->ctx, name_lists, t, "the lists of a truth", &t->block));
    kin_truth_clear(t);
    kin_fingerprint_begin(&t->progress.whole, &whole);
    kith_status status = kin_truth_describe(t, &f.text);
    KIN_THEN(status, kin_truth_resume(t, f.text));
    KIN_THEN(status, kin_shard_make_ctx(t->ctx, t->ctx->threads, &f.ctx));
    while (status == KITH_OK && t->progress.matrix < t->count) {
        status = run_part(&f);
    }
    drop_coming(t->ctx);
    KIN_THEN(status, write_all(&f));
    if (status != KITH_OK) {
        f.storing_ns = 0; /* this one at any rate */
        start_beside(&f, NULL);
        status = wait_beside(&f, status);
    }
    kith_ctx_free(f.ctx);
    kin_free(t->ctx, f.text);
    return status;
}

/* ---- The call -------------------------------------------------------------------------------- */

static kith_status take_params(kith_ctx *ctx, const kith_truth_params *given, kin_truth *t)
{
    t->ctx = ctx;
    KIN_TRY(KIN_TAKE(ctx, kith_truth_params, filter, given, &t->params));
    if (t->params.ranges != NULL) {
        *t->params.ranges = NULL;
    }
    KIN_TRY(kin_check_method(ctx, (int)t->params.method));
    KIN_REFUSE_IF(t->params.part_rows < 0, ctx, "part_rows", "is %lld, must be at least 0",
                  (long long)t->params.part_rows);
    KIN_ALLOW_IF(t->params.task == KITH_TRUTH_FIND || t->params.task == KITH_TRUTH_VERIFY, ctx,
                 "task", "is %d, which is none (use one of kith_truth_task)", (int)t->params.task);
}

static kith_status run(kin_truth *t, const kith_matrix *corpus, int32_t count,
                       const kith_matrix *queries)
{
    if (t->params.task == KITH_TRUTH_VERIFY) {
        return kin_truth_verify(t, corpus, count, queries);
    }
    KIN_TRY(kin_truth_begin(t, corpus, count, queries));
    return find(t);
}

static kith_status truth(kith_ctx *ctx, const kith_matrix *corpus, int32_t count,
                         const kith_matrix *queries, const kith_truth_params *params,
                         kith_truth_report *report)
{
    kin_truth t = {.report = {.struct_size = sizeof t.report}};
    KIN_TRY(kin_check_room(ctx, report, "report", "kith_truth_report"));
    KIN_TRY(take_params(ctx, params, &t));
    const kith_status status = run(&t, corpus, count, queries);
    kin_free(ctx, t.lists);
    kin_free(ctx, t.block);
    kin_free(ctx, t.corpus);
    kin_fill_room(report, &t.report, sizeof t.report);
    ctx->report.exact = status == KITH_OK ? KITH_CERTIFIED : KITH_EXACTNESS_UNKNOWN;
    return status;
}

kith_status kith_truth(kith_ctx *ctx, const kith_matrix *corpus, int32_t count,
                       const kith_matrix *queries, const kith_truth_params *params,
                       kith_truth_report *report)
{
    KIN_CALL(ctx, truth(ctx, corpus, count, queries, params, report));
}
