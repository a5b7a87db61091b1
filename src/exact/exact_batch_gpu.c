/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. One query against a million rows is a read of the rounded corpus, 30 microseconds on an
 * H200; everything else has to be short. Nothing of it depends on what the device found: one copy
 * in, no wait but the last, and no copy out, as kernels write what is answered into pinned memory.
 *
 *      host      check, transform, copy in; queries that lie on the device stay there, and are
 *                checked there: whatever is found of them is the long way's to tell
 *      device    round | MATRIX screen with minima of tiles | collect | rescore and write
 *                      of rows in clusters, before the screen: which tiles (screen_balls.cu)
 *
 * The k tiles with the least minima hold k different columns, so the k-th of minima is a reach; all
 * columns within it lie in about k tiles, which is what bounds the lists' room. Then the lists' own
 * k-th cost is what canonical keys are computed for.
 *
 * A corpus of halves that is kept has its rows as bytes, too: those are read, and the full ones
 * only where bytes leave more than lists have room for.
 *
 * Where nobody shall wait (KIN_GPU_ENQUEUE) the answers are the device's to look at: rows
 * that lost candidates are rescued there (screen_rescore.cu), by a scan of the corpus in place of a
 * finer screen, so that it is right whatever bytes have left; of bad values word is left
 * (kin_gpu_notes). More queries than a batch are several, up to MOST_ENQUEUED: each reads the
 * corpus again.
 *
 * Limits. The corpus must be plain (no equal, no degenerate rows), and no query degenerate. The
 * cost matrix takes 4 bytes a query and row: more than MATRIX_BYTES, or of bytes MATRIX_OF_BYTES,
 * goes the long way, and so do queries and answers that the pinned memory does not hold.
 */
#include "exact/exact_search_gpu.h"

#include "host/host_clock.h"
#include "kith/kith_papers.h"

enum {
    MOST_K = 1024,
    ROOM = 1024,
    MOST_LEFT = 256, /* of bytes; more are no shortcut */
    MOST_ENQUEUED = 1024,
    LEAST_SLICE = 256 /* rows of the corpus that a block of a rescue compares */
};
static const uint64_t MATRIX_BYTES = 512u << 20;
static const uint64_t MATRIX_OF_BYTES = UINT64_C(5) << 28; /* of bytes, which are read fast */

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* What is copied in: the same layout on both sides. */
typedef struct batch_in {
    char *rows;                    /* or NULL: they lie there already */
    uint32_t *exclude;             /* or NULL */
    kin_row_transform *transforms; /* or NULL */
    uint32_t *next;                /* for the screen: 0; behind it counters of balls */
} batch_in;
enum { COUNTERS = 4 };

/* What kernels tell of the queries: nothing, as a rule. */
typedef struct complaints {
    uint64_t bad; /* kin_screen_gpu_check */
    uint64_t degenerate;
} complaints;

typedef struct batch {
    kin_screen_gpu_device on;
    const kin_exact_gpu_corpus *corpus;
    const kin_screen_gpu_set *cols; /* its rows */
    const kin_exact_gpu_query *query;
    const kith_matrix *queries; /* the parts of it */
    const kin_request *request;
    const kith_neighbors *out;
    bool there; /* the queries lie on the device, */
    bool out_on_device;
    bool enqueues; /* and nobody waits */
    /* only tiles that these do not rule out are screened; or NULL */
    const kin_screen_gpu_balls *balls;
    int64_t first; /* number of the first query, where they are several batches */
    int64_t pitch; /* columns that have room */
    kin_screen_gpu_aimed aimed;
    int32_t slices; /* of the corpus, for a rescue */
    uint64_t *notes;

    /* In pinned memory; what kernels tell on the device where nobody waits. */
    void *pinned;
    batch_in given;
    uint64_t in_bytes;
    complaints *complaints;
    int32_t *told;          /* of each list; see kin_screen_gpu_gather */
    int32_t *found;         /* pairs of each row */
    uint32_t *seen;         /* columns that were screened */
    kith_neighbors written; /* the caller's, where they lie on the device */

    /* In device memory. */
    void *device;
    batch_in in;
    uint64_t cleared_bytes; /* at its begin, where the queries lie there */
    uint8_t *marks;         /* of rows with bad values, for a rescue, as the next two */
    uint32_t *arrived;
    kin_screen_gpu_pair *parts;
    kin_screen_gpu_lists lists;
    unsigned char *rounded;
    kin_screen_gpu_facts *facts;
    kin_screen_gpu_word *half;
    uint32_t *matrix;
    uint32_t *minima;
    kin_screen_gpu_pair *pairs;
    uint8_t *degenerate; /* where kernels transform */
} batch;

static bool transforms(const batch *b)
{
    return kin_metric_get_traits(b->request->distance.metric)->transforms;
}

static int64_t row_bytes(const batch *b)
{
    return (int64_t)b->queries->cols * kith_dtype_bytes(b->queries->dtype);
}

static void name_in(kin_layout *layout, const batch *b, batch_in *in)
{
    const uint64_t n = (uint64_t)b->queries->rows;
    if (!b->there) {
        in->rows = kin_layout_array(layout, n, (uint64_t)row_bytes(b));
    }
    if (!b->there && b->request->exclude != NULL) {
        in->exclude = kin_layout_array(layout, n, sizeof *in->exclude);
    }
    if (transforms(b)) {
        in->transforms = kin_layout_array(layout, n, sizeof *in->transforms);
    }
    in->next = kin_layout_array(layout, COUNTERS, sizeof *in->next);
}

static void name_told(kin_layout *layout, batch *b)
{
    const uint64_t n = (uint64_t)b->queries->rows;
    b->complaints = kin_layout_array(layout, 1, sizeof *b->complaints);
    b->told = kin_layout_array(layout, n, sizeof *b->told);
    b->found = kin_layout_array(layout, n, sizeof *b->found);
    b->seen = kin_layout_array(layout, 1, sizeof *b->seen);
}

static void name_pinned(kin_layout *layout, void *job)
{
    batch *b = job;
    name_in(layout, b, &b->given);
    b->in_bytes = kin_layout_mark(layout);
    name_told(layout, b);
    if (!b->out_on_device) {
        kin_exact_gpu_outputs_name(layout, b->out, b->queries->rows, &b->written);
    }
}

static void name_device(kin_layout *layout, void *job)
{
    batch *b = job;
    kin_screen_gpu_lists *lists = &b->lists;
    const uint64_t n = (uint64_t)b->queries->rows;
    const uint64_t columns = (uint64_t)b->pitch;
    name_in(layout, b, &b->in);
    if (b->enqueues) {
        name_told(layout, b);
        b->marks = kin_layout_array(layout, n, sizeof *b->marks);
        b->arrived = kin_layout_array(layout, n, sizeof *b->arrived);
    }
    b->cleared_bytes = kin_layout_mark(layout);
    if (b->enqueues) {
        b->parts = kin_layout_array(layout, n * (uint64_t)b->slices,
                                    (uint64_t)lists->k * sizeof *b->parts);
    }
    lists->lost = kin_layout_array(layout, n, sizeof *lists->lost);
    lists->reach = kin_layout_array(layout, n, sizeof *lists->reach);
    lists->counts = kin_layout_array(layout, n, sizeof *lists->counts);
    lists->words = kin_layout_array(layout, n * (uint64_t)lists->capacity, sizeof *lists->words);
    b->rounded = kin_layout_array(layout, KIN_SCREEN_GPU_BLOCK, (uint64_t)b->cols->frame.row_bytes);
    b->facts = kin_layout_array(layout, KIN_SCREEN_GPU_BLOCK, sizeof *b->facts);
    b->half = kin_layout_array(layout, KIN_SCREEN_GPU_BLOCK, sizeof *b->half);
    b->matrix = kin_layout_array(layout, n * columns, sizeof *b->matrix);
    b->minima = kin_layout_array(layout, n * (columns / KIN_SCREEN_GPU_TILE), sizeof *b->minima);
    b->pairs = kin_layout_array(layout, n * (uint64_t)lists->k, sizeof *b->pairs);
    b->degenerate = kin_layout_array(layout, n, sizeof *b->degenerate);
    if (b->balls != NULL) {
        b->aimed.counters = b->in.next + 1;
        kin_screen_gpu_aimed_name(layout, b->balls, &b->aimed);
    }
}

/* ---- In -------------------------------------------------------------------------------------- */

static kith_status check_and_transform(const batch *b, const kith_matrix *rows, bool *degenerate)
{
    const kith_metric metric = b->request->distance.metric;
    kin_row_transform *made = b->given.transforms;
    KIN_TRY(kin_metric_check(b->on.ctx, rows, metric, b->query->name));
    if (!transforms(b)) {
        return KITH_OK;
    }
    KIN_TRY(kin_metric_transforms(b->on.ctx, rows, metric, made));
    for (int64_t i = 0; i < rows->rows; i++) {
        *degenerate |= made[i].degenerate != 0.0;
    }
    return KITH_OK;
}

static kith_status take_queries(const batch *b, bool *degenerate)
{
    const kith_matrix *q = b->queries;
    kith_matrix rows = *q;
    *degenerate = false;
    if (b->enqueues) {
        return KITH_OK;
    }
    *b->complaints = (complaints){.bad = UINT64_MAX};
    if (b->there) {
        return KITH_OK;
    }
    memset(b->given.next, 0, COUNTERS * sizeof *b->given.next);
    rows.data = b->given.rows;
    rows.stride_bytes = row_bytes(b);
    for (int64_t i = 0; i < q->rows; i++) {
        memcpy(b->given.rows + i * rows.stride_bytes, (const char *)q->data + i * q->stride_bytes,
               (size_t)rows.stride_bytes);
    }
    if (b->request->exclude != NULL) {
        memcpy(b->given.exclude, b->request->exclude, (size_t)q->rows * sizeof *b->given.exclude);
    }
    return check_and_transform(b, &rows, degenerate);
}

/* ---- On the device --------------------------------------------------------------------------- */

static kin_screen_gpu_rows rows_of(const batch *b)
{
    const kith_matrix *q = b->queries;
    return (kin_screen_gpu_rows){.data = b->there ? q->data : b->in.rows,
                                 .transforms = b->in.transforms,
                                 .rows = q->rows,
                                 .stride_bytes = b->there ? q->stride_bytes : row_bytes(b),
                                 .cols = q->cols,
                                 .dtype = q->dtype,
                                 .metric = b->request->distance.metric};
}

static kin_screen_gpu_set set_of(const batch *b)
{
    return (kin_screen_gpu_set){.frame = b->cols->frame,
                                .points = b->queries->rows,
                                .padded = KIN_SCREEN_GPU_BLOCK,
                                .rounded = b->rounded,
                                .facts = b->facts,
                                .half = b->half,
                                .ids = b->corpus->numbers};
}

/* What the host has not looked at. */
static kith_status look_there(const batch *b)
{
    const kin_screen_gpu_device *on = &b->on;
    kin_screen_gpu_rows rows = rows_of(b);
    rows.transforms = NULL;
    const kin_screen_gpu_check check = {.rows = rows,
                                        .first = b->first,
                                        .bad = b->enqueues ? &b->notes[KIN_EXACT_GPU_NOTE_BAD]
                                                           : &b->complaints->bad,
                                        .marks = b->marks};
    const kin_screen_gpu_transform transform = {.rows = rows,
                                                .transforms = b->in.transforms,
                                                .degenerate = b->degenerate,
                                                .count = &b->complaints->degenerate};
    KIN_TRY(KIN_SCREEN_LAUNCH(on, check, &check, "checking queries"));
    return b->in.transforms == NULL
               ? KITH_OK
               : KIN_SCREEN_LAUNCH(on, transform, &transform, "normalising queries");
}

static kith_status bring_queries(const batch *b)
{
    kin_gpu *gpu = b->on.gpu;
    if (!b->there) {
        return kin_gpu_send_mapped(b->on.ctx, gpu, b->device, b->pinned, b->in_bytes);
    }
    KIN_TRY(kin_gpu_fill(b->on.ctx, gpu, b->device, 0, b->cleared_bytes));
    return look_there(b);
}

static kith_status start_lists(batch *b, const kin_screen_gpu_set *set)
{
    const kin_screen_gpu_device *on = &b->on;
    const kin_screen_gpu_aimed *aimed = &b->aimed;
    const kin_screen_gpu_round round = {.rows = rows_of(b),
                                        .frame = set->frame,
                                        .points = set->points,
                                        .padded = set->padded,
                                        .rounded = b->rounded,
                                        .facts = b->facts,
                                        .half = b->half};
    kin_screen_gpu_costs costs = {.rows = *set,
                                  .cols = *b->cols,
                                  .lists = b->lists,
                                  .count = set->points,
                                  .units = b->corpus->units,
                                  .unit_count = b->corpus->unit_count,
                                  .next = b->in.next,
                                  .tiles = b->corpus->numbers,
                                  .matrix = b->matrix,
                                  .minima = b->minima,
                                  .pitch = b->pitch,
                                  .told = b->told};
    KIN_TRY(KIN_SCREEN_LAUNCH(&b->on, round, &round, "rounding queries"));
    if (b->balls != NULL) {
        KIN_TRY(kin_screen_gpu_aimed_find(on, b->balls, set, b->cols, &b->lists, &b->aimed));
        costs.units = aimed->units;
        costs.unit_count = aimed->unit_count;
        costs.tiles = aimed->tiles;
        costs.own = aimed->columns;
        costs.seen = b->seen;
    }
    return kin_screen_gpu_costs_collect(on, &costs);
}

static kin_screen_gpu_rescore rescore_of(const batch *b, const kin_screen_gpu_set *set)
{
    const kin_screen_gpu_write answers = {.metric = b->request->distance.metric,
                                          .left_out =
                                              b->there ? b->request->exclude : b->in.exclude,
                                          .rows = set->points,
                                          .pairs = b->pairs,
                                          .k = b->lists.k,
                                          .k_out = (int32_t)b->out->k,
                                          .out_ids = b->written.ids,
                                          .out_distances = b->written.distances,
                                          .out_distances64 = b->written.distances64};
    return (kin_screen_gpu_rescore){.set = *set,
                                    .cols_set = *b->cols,
                                    .set_rows = rows_of(b),
                                    .cols_rows = b->corpus->prepared.rows,
                                    .lists = b->lists,
                                    .listed = b->cols->ids,
                                    .rows = set->points,
                                    .pairs = b->pairs,
                                    .count = b->found,
                                    .answers = answers};
}

static kith_status start_answers(const batch *b, const kin_screen_gpu_set *set)
{
    const kin_screen_gpu_device *on = &b->on;
    const kin_screen_gpu_rescore job = rescore_of(b, set);
    return KIN_SCREEN_LAUNCH(on, rescore, &job, "computing distances");
}

static kith_status start_rescue(const batch *b, const kin_screen_gpu_set *set)
{
    const kin_screen_gpu_device *on = &b->on;
    const kin_screen_gpu_rescue job = {.done = rescore_of(b, set),
                                       .marks = b->marks,
                                       .told = b->told,
                                       .degenerate =
                                           b->in.transforms != NULL ? b->degenerate : NULL,
                                       .points = b->cols->points,
                                       .slices = b->slices,
                                       .parts = b->parts,
                                       .arrived = b->arrived,
                                       .few = &b->notes[KIN_EXACT_GPU_NOTE_FEW]};
    return KIN_SCREEN_LAUNCH(on, rescue, &job, "computing distances");
}

/* ---- Out ------------------------------------------------------------------------------------- */

static void give_out(void *to, const void *written, uint64_t bytes)
{
    if (to != NULL) {
        memcpy(to, written, (size_t)bytes);
    }
}

/* Whether what was written is the answer: no list overflowed, nothing was wrong with the queries.
 */
static bool stands(const batch *b)
{
    bool good = b->complaints->bad == UINT64_MAX && b->complaints->degenerate == 0;
    for (int64_t i = 0; i < b->queries->rows; i++) {
        good = good && b->told[i] >= 0;
    }
    return good;
}

static kith_status leave_answers(const batch *b, const kin_screen_gpu_set *set, bool *done)
{
    const kin_screen_gpu_tally tally = {.pairs = (double)b->pitch / KIN_SCREEN_GPU_TILE};
    KIN_TRY(start_rescue(b, set));
    kin_exact_gpu_report(b->on.ctx, &b->corpus->prepared, &tally, b->queries->rows);
    *done = true;
    return KITH_OK;
}

static kith_status take_answers(const batch *b, bool *done)
{
    kith_ctx *ctx = b->on.ctx;
    const kith_neighbors *out = b->out;
    const int64_t n = b->queries->rows;
    const uint64_t cells = (uint64_t)(n * out->k);
    const bool integer = b->cols->frame.bound == KIN_BOUND_INTEGER; /* costs are the keys */
    const int64_t tiles = kin_screen_gpu_tiles_of(b->cols->points);
    kin_screen_gpu_tally tally = {.pairs = (double)tiles};
    KIN_TRY(kin_gpu_wait(ctx, b->on.gpu));
    const int64_t screened = b->balls != NULL ? (int64_t)*b->seen / KIN_SCREEN_GPU_TILE : tiles;
    tally.skipped = (double)(tiles - screened);
    if (!stands(b)) {
        return KITH_OK;
    }
    for (int64_t i = 0; i < n; i++) {
        tally.keys += integer ? 0.0 : (double)b->told[i];
        if (b->found[i] < b->lists.k) {
            return kin_fail(ctx, KITH_E_INTERNAL,
                            "query %lld has fewer than %lld neighbours (a bound is wrong; please "
                            "report it)",
                            (long long)i, (long long)out->k);
        }
    }
    if (!b->out_on_device) {
        give_out(out->ids, b->written.ids, cells * sizeof *out->ids);
        give_out(out->distances, b->written.distances, cells * sizeof *out->distances);
        give_out(out->distances64, b->written.distances64, cells * sizeof *out->distances64);
    }
    kin_exact_gpu_report(ctx, &b->corpus->prepared, &tally, n);
    *done = true;
    return KITH_OK;
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* A large matrix must not take the room of what is needed. */
static bool has_room(const batch *b)
{
    const uint64_t matrix = kin_size_mul((uint64_t)b->queries->rows,
                                         kin_size_mul((uint64_t)b->pitch, sizeof(uint32_t)));
    return matrix <= MATRIX_BYTES ||
           (b->cols->frame.type == KIN_SCREEN_GPU_S8 && matrix <= MATRIX_OF_BYTES &&
            matrix <= kin_gpu_room(b->on.gpu) / 2);
}

/* Where balls leave few tiles, their costs need less room than those of all. */
static kith_status aim_batch(batch *b)
{
    enum { HALVED = 3 /* times, at most */ };
    if ((b->request->flags & KITH_NO_SKIP) == 0) {
        KIN_TRY(kin_screen_gpu_balls_take(&b->on, b->cols, b->corpus->balls, b->queries->rows,
                                          b->lists.k, &b->balls));
    }
    for (int i = 0; b->balls != NULL && !b->enqueues && i < HALVED && !has_room(b); i++) {
        b->pitch = kin_round_up(b->pitch / 2, KIN_SCREEN_GPU_TILE);
    }
    b->aimed = (kin_screen_gpu_aimed){.rows = b->queries->rows,
                                      .tiles_a_block = (uint32_t)(b->pitch / KIN_SCREEN_GPU_TILE),
                                      .units_a_block = b->corpus->batch_units};
    return KITH_OK;
}

static bool is_of_our_kind(const batch *b)
{
    return b->queries->rows <= KIN_EXACT_GPU_BATCH && b->request->k <= MOST_K &&
           b->corpus->units != NULL && b->corpus->prepared.plain &&
           b->lists.capacity > b->lists.k && has_room(b);
}

/* What the device shares with the host; *fits is false where it has no room. */
static kith_status make_shared(batch *b, bool *fits)
{
    *fits = true;
    if (b->enqueues) {
        return kin_gpu_notes(b->on.ctx, b->on.gpu, &b->notes);
    }
    const kith_status status =
        kin_gpu_layout_mapped(b->on.ctx, b->on.gpu, name_pinned, b, &b->pinned);
    *fits = b->pinned != NULL;
    return status;
}

static kith_status run_batch(batch *b, bool *done)
{
    kith_ctx *ctx = b->on.ctx;
    bool degenerate = false;
    bool fits = false;
    KIN_TRY(make_shared(b, &fits));
    if (!fits) {
        return KITH_OK;
    }
    KIN_TRY(take_queries(b, &degenerate));
    if (degenerate) {
        return KITH_OK;
    }
    KIN_TRY(kin_gpu_layout_make(ctx, b->on.gpu, name_device, b, "a batch of queries", &b->device));
    const kin_screen_gpu_set set = set_of(b);
    kith_status status = bring_queries(b);
    KIN_THEN(status, start_lists(b, &set));
    KIN_THEN(status, start_answers(b, &set));
    KIN_THEN(status, b->enqueues ? leave_answers(b, &set, done) : take_answers(b, done));
    if (status != KITH_OK) { /* what was begun still reads and writes pinned memory */
        (void)kin_gpu_wait(ctx, b->on.gpu);
    }
    kin_gpu_free(b->on.gpu, b->device);
    return status;
}

/* Of all rows, for a block each: two a processor, whatever the number of queries. */
static int32_t slices_of(const kin_exact_gpu_corpus *corpus, int64_t queries)
{
    const int64_t blocks = 2 * (int64_t)kin_max_i64(corpus->gpu->info.processors, 1);
    const int64_t most = kin_ceil_div(corpus->prepared.set.points, LEAST_SLICE);
    return (int32_t)kin_max_i64(1, kin_min_i64(blocks / kin_max_i64(queries, 1), most));
}

static kith_status try_batch(kith_ctx *ctx, const kin_exact_gpu_corpus *corpus,
                             const kin_exact_gpu_query *query, int64_t first, bool *done)
{
    const kin_screen_gpu_set *cols = &corpus->prepared.set;
    const kin_request *request = query->request;
    const int64_t k = kin_min_i64(request->k + (request->exclude != NULL ? 1 : 0), cols->points);
    const int64_t wished = KIN_SCREEN_GPU_TILE * k + ROOM;
    batch b = {.on = kin_screen_gpu_device_of(ctx, corpus->gpu),
               .corpus = corpus,
               .cols = cols,
               .query = query,
               .queries = query->queries,
               .request = request,
               .out = query->out,
               .there = (query->place & KIN_GPU_DATA_ON_DEVICE) != 0,
               .out_on_device = (query->place & KIN_GPU_OUT_ON_DEVICE) != 0,
               .enqueues = (query->place & KIN_GPU_ENQUEUE) != 0,
               .first = first,
               .slices = slices_of(corpus, query->queries->rows),
               .pitch = kin_screen_gpu_tiles_of(cols->points) * KIN_SCREEN_GPU_TILE,
               .written = *query->out,
               .lists = {.rows = query->queries->rows,
                         .k = (int32_t)k,
                         .capacity = (int32_t)kin_min_i64(wished, cols->padded + 8)}};
    KIN_TRY(aim_batch(&b));
    return is_of_our_kind(&b) ? run_batch(&b, done) : KITH_OK;
}

/* Batch for batch behind what the stream holds; *done: all of them. */
static kith_status enqueue_batches(kith_ctx *ctx, const kin_exact_gpu_corpus *corpus,
                                   const kin_exact_gpu_query *query, bool *done)
{
    const bool by_bytes = kin_exact_gpu_glance_left(corpus, query->request) <= MOST_LEFT;
    const int64_t rows = query->queries->rows;
    kith_status status = KITH_OK;
    *done = rows <= MOST_ENQUEUED;
    for (int64_t first = 0; status == KITH_OK && *done && first < rows;
         first += KIN_EXACT_GPU_BATCH) {
        kin_exact_gpu_slice slice;
        kin_exact_gpu_slice_of(query, first, kin_min_i64(KIN_EXACT_GPU_BATCH, rows - first),
                               &slice);
        *done = false;
        status = try_batch(ctx, by_bytes ? corpus->glance : corpus, &slice.query, first, done);
    }
    corpus->gpu->enqueued = status == KITH_OK && *done;
    return status;
}

static kith_status search_batch(kith_ctx *ctx, const kin_exact_gpu_corpus *corpus,
                                const kin_exact_gpu_query *query, bool *done)
{
    kith_status status = KITH_OK;
    if (kin_exact_gpu_glance_left(corpus, query->request) <= MOST_LEFT) {
        status = try_batch(ctx, corpus->glance, query, 0, done);
    }
    if (status == KITH_OK && !*done) {
        status = try_batch(ctx, corpus, query, 0, done);
    }
    return status;
}

kith_status kin_exact_gpu_batch_search(kith_ctx *ctx, const kin_exact_gpu_corpus *corpus,
                                       const kin_exact_gpu_query *query, bool *done)
{
    const int64_t start = kin_clock_ns();
    *done = false;
    const kith_status status = (query->place & KIN_GPU_ENQUEUE) != 0
                                   ? enqueue_batches(ctx, corpus, query, done)
                                   : search_batch(ctx, corpus, query, done);
    ctx->report.seconds_screen += kin_clock_since(start);
    if (status == KITH_E_DEVICE_MEMORY) { /* the long way takes what there is */
        kin_forgive(ctx);
        return KITH_OK;
    }
    return status;
}
