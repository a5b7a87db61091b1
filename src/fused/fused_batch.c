/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. One query against a million rows is a read of the rounded corpus, 60 microseconds on an
 * H200; everything else has to be short. One block of device memory, one copy in, one copy out, no
 * wait in between, and nothing of it depends on what the device found:
 *
 *      host      check, transform, copy in; queries that lie on the device stay there, and are
 *                checked there: whatever is found of them is the long way's to tell
 *      device    round | MATRIX screen with minima of tiles | collect | rescore | write
 *      host      copy out
 *
 * The k tiles with the least minima hold k different columns, so the k-th of minima is a reach; all
 * columns within it lie in about k tiles, which is what bounds the lists' room. Then the lists' own
 * k-th cost is what canonical keys are computed for.
 *
 * A corpus of halves that is kept has its rows as bytes, too: those are read, and the full ones
 * only where bytes leave more than lists have room for.
 *
 * Limits. The corpus must be plain (no equal, no degenerate rows), and no query degenerate. The
 * cost matrix takes 4 bytes a query and row: more than MATRIX_BYTES goes the long way.
 */
#include "fused/fused_search.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_clock.h"

#include <stdio.h>

enum { MOST_QUERIES = 64, MOST_K = 1024, ROOM = 1024 };
static const uint64_t MATRIX_BYTES = 512u << 20;

/* ---- One block ------------------------------------------------------------------------------- */

/* What kernels count. */
typedef struct tallies {
    uint64_t next; /* 32 bits of it */
    uint64_t keys;
    uint64_t short_rows;
    uint64_t bad; /* kin_fused_check, where kernels check */
    uint64_t degenerate;
} tallies;

typedef struct batch {
    kin_fused_device on;
    const kin_fused_corpus *corpus;
    const kin_fused_set *cols; /* its rows: those that are screened */
    const kin_fused_query *query;
    const kith_matrix *queries; /* the parts of it */
    const kin_request *request;
    const kith_neighbors *out;
    bool there; /* the queries lie on the device, */
    bool out_on_device;
    int64_t pitch;
    char *host; /* of what is copied in, then of what is copied out */

    /* The block, in device memory. What is copied in stands together, and what is copied out. */
    void *device;
    void *rows;                    /* or NULL: they lie there already */
    kin_row_transform *transforms; /* or NULL */
    uint32_t *exclude;             /* or NULL */
    uint32_t *row_ids;             /* 0, 1, ...: positions are rows */
    uint32_t *unit_count;
    float *worst;     /* zeros */
    tallies *tallies; /* copied out from here on */
    uint64_t in_bytes;
    kin_fused_lists lists;
    kith_neighbors written;
    uint64_t out_bytes;
    unsigned char *rounded;
    kin_fused_facts *facts;
    kin_fused_word *half;
    uint32_t *matrix;
    uint32_t *minima;
    kin_fused_pair *pairs;
    int32_t *pair_counts;
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

static void name_batch(kin_layout *layout, void *job)
{
    batch *b = job;
    kin_fused_lists *lists = &b->lists;
    const uint64_t n = (uint64_t)b->queries->rows;
    const uint64_t columns = (uint64_t)b->pitch;
    if (!b->there) {
        b->rows = kin_layout_array(layout, n, (uint64_t)row_bytes(b));
    }
    if (!b->there && b->request->exclude != NULL) {
        b->exclude = kin_layout_array(layout, n, sizeof *b->exclude);
    }
    if (transforms(b)) {
        b->transforms = kin_layout_array(layout, n, sizeof *b->transforms);
    }
    b->row_ids = kin_layout_array(layout, n, sizeof *b->row_ids);
    b->unit_count = kin_layout_array(layout, 1, sizeof *b->unit_count);
    b->worst = kin_layout_array(layout, 2, sizeof *b->worst);
    const uint64_t out = kin_layout_mark(layout);
    b->tallies = kin_layout_array(layout, 1, sizeof *b->tallies);
    b->in_bytes = kin_layout_mark(layout);
    lists->lost = kin_layout_array(layout, n, sizeof *lists->lost);
    if (!b->out_on_device) {
        kin_fused_outputs_name(layout, b->out, b->queries->rows, &b->written);
    }
    b->out_bytes = kin_layout_mark(layout) - out;
    lists->reach = kin_layout_array(layout, n, sizeof *lists->reach);
    lists->counts = kin_layout_array(layout, n, sizeof *lists->counts);
    lists->words = kin_layout_array(layout, n * (uint64_t)lists->capacity, sizeof *lists->words);
    b->rounded = kin_layout_array(layout, KIN_FUSED_BLOCK, (uint64_t)b->cols->frame.row_bytes);
    b->facts = kin_layout_array(layout, KIN_FUSED_BLOCK, sizeof *b->facts);
    b->half = kin_layout_array(layout, KIN_FUSED_BLOCK, sizeof *b->half);
    b->matrix = kin_layout_array(layout, n * columns, sizeof *b->matrix);
    b->minima = kin_layout_array(layout, n * (columns / KIN_FUSED_TILE), sizeof *b->minima);
    b->pairs = kin_layout_array(layout, n * (uint64_t)lists->k, sizeof *b->pairs);
    b->pair_counts = kin_layout_array(layout, n, sizeof *b->pair_counts);
    b->degenerate = kin_layout_array(layout, n, sizeof *b->degenerate);
}

/* ---- In -------------------------------------------------------------------------------------- */

/* Where on the host this part of the block is made. */
static void *copied_in(const batch *b, const void *part)
{
    return b->host + ((const char *)part - (const char *)b->device);
}

static kith_status check_and_transform(const batch *b, const kith_matrix *rows, bool *degenerate)
{
    const kith_metric metric = b->request->distance.metric;
    KIN_TRY(kin_metric_check(b->on.ctx, rows, metric, b->query->name));
    if (!transforms(b)) {
        return KITH_OK;
    }
    kin_row_transform *made = copied_in(b, b->transforms);
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
    rows.data = copied_in(b, b->rows);
    rows.stride_bytes = row_bytes(b);
    for (int64_t i = 0; i < q->rows; i++) {
        memcpy((char *)copied_in(b, b->rows) + i * rows.stride_bytes,
               (const char *)q->data + i * q->stride_bytes, (size_t)rows.stride_bytes);
    }
    if (b->exclude != NULL) {
        memcpy(copied_in(b, b->exclude), b->request->exclude, (size_t)q->rows * sizeof *b->exclude);
    }
    return check_and_transform(b, &rows, degenerate);
}

static kith_status copy_in(const batch *b, bool *degenerate)
{
    const tallies none = {.bad = UINT64_MAX};
    uint32_t *ids = copied_in(b, b->row_ids);
    *degenerate = false;
    if (!b->there) {
        KIN_TRY(take_queries(b, degenerate));
    }
    for (int64_t i = 0; i < b->queries->rows; i++) {
        ids[i] = (uint32_t)i;
    }
    memcpy(copied_in(b, b->unit_count), &b->corpus->batch_units, sizeof(uint32_t));
    memcpy(copied_in(b, b->tallies), &none, sizeof none);
    return *degenerate ? KITH_OK
                       : kin_gpu_upload(b->on.ctx, b->on.gpu, b->device, b->host, b->in_bytes);
}

/* ---- On the device --------------------------------------------------------------------------- */

static kin_fused_rows rows_of(const batch *b)
{
    const kith_matrix *q = b->queries;
    return (kin_fused_rows){.data = b->there ? q->data : b->rows,
                            .transforms = b->transforms,
                            .rows = q->rows,
                            .stride_bytes = b->there ? q->stride_bytes : row_bytes(b),
                            .cols = q->cols,
                            .dtype = q->dtype,
                            .metric = b->request->distance.metric};
}

static kin_fused_set set_of(const batch *b)
{
    return (kin_fused_set){.frame = b->cols->frame,
                           .points = b->queries->rows,
                           .padded = KIN_FUSED_BLOCK,
                           .rounded = b->rounded,
                           .facts = b->facts,
                           .half = b->half,
                           .ids = b->row_ids};
}

/* What the host has not looked at. */
static kith_status look_there(const batch *b)
{
    const kin_fused_device *on = &b->on;
    kin_fused_rows rows = rows_of(b);
    rows.transforms = NULL;
    const kin_fused_check check = {.rows = rows, .bad = &b->tallies->bad};
    const kin_fused_transform transform = {.rows = rows,
                                           .transforms = b->transforms,
                                           .degenerate = b->degenerate,
                                           .count = &b->tallies->degenerate};
    KIN_TRY(kin_fused_launched(on, on->kernels->check(on->stream, &check), "checking queries"));
    return b->transforms == NULL
               ? KITH_OK
               : kin_fused_launched(on, on->kernels->transform(on->stream, &transform),
                                    "normalising queries");
}

static kith_status start_lists(const batch *b, const kin_fused_set *set)
{
    const kin_fused_device *on = &b->on;
    const kin_fused_round round = {.rows = rows_of(b),
                                   .frame = set->frame,
                                   .points = set->points,
                                   .padded = set->padded,
                                   .rounded = b->rounded,
                                   .facts = b->facts,
                                   .half = b->half,
                                   .worst = b->worst};
    const kin_fused_costs costs = {.rows = *set,
                                   .cols = *b->cols,
                                   .lists = b->lists,
                                   .count = set->points,
                                   .units = b->corpus->units,
                                   .unit_count = b->unit_count,
                                   .next = (uint32_t *)(void *)&b->tallies->next,
                                   .tiles = b->corpus->tiles,
                                   .matrix = b->matrix,
                                   .minima = b->minima,
                                   .pitch = b->pitch};
    KIN_TRY(kin_fused_launched(&b->on, on->kernels->round(on->stream, &round), "rounding queries"));
    return kin_fused_costs_collect(on, &costs);
}

static kith_status start_answers(const batch *b, const kin_fused_set *set)
{
    const kin_fused_device *on = &b->on;
    const kin_fused_rescore rescore = {.set = *set,
                                       .cols_set = *b->cols,
                                       .set_rows = rows_of(b),
                                       .cols_rows = b->corpus->prepared.rows,
                                       .lists = b->lists,
                                       .rows = set->points,
                                       .pairs = b->pairs,
                                       .count = b->pair_counts,
                                       .keys = &b->tallies->keys};
    const kin_fused_write write = {.metric = b->request->distance.metric,
                                   .left_out = b->there ? b->request->exclude : b->exclude,
                                   .rows = set->points,
                                   .pairs = rescore.pairs,
                                   .count = rescore.count,
                                   .k = b->lists.k,
                                   .k_out = (int32_t)b->out->k,
                                   .out_ids = b->written.ids,
                                   .out_distances = b->written.distances,
                                   .out_distances64 = b->written.distances64,
                                   .short_rows = &b->tallies->short_rows};
    KIN_TRY(kin_fused_launched(&b->on, on->kernels->rescore(on->stream, &rescore),
                               "computing distances"));
    return kin_fused_launched(&b->on, on->kernels->write(on->stream, &write), "writing neighbours");
}

/* ---- Out ------------------------------------------------------------------------------------- */

/* Where on the host this part of the block is copied to. */
static const void *copied_out(const batch *b, const void *part)
{
    return b->host + ((const char *)part - (const char *)b->tallies);
}

static void copy_part(const batch *b, void *to, const void *part, uint64_t bytes)
{
    if (to != NULL && !b->out_on_device) {
        memcpy(to, copied_out(b, part), (size_t)bytes);
    }
}

/* One copy of all that is wanted; the answer is given out only if no list overflowed. */
static kith_status copy_out(const batch *b, bool *done)
{
    kith_ctx *ctx = b->on.ctx;
    const kith_neighbors *out = b->out;
    const uint64_t cells = (uint64_t)(b->queries->rows * out->k);
    tallies counted;
    KIN_TRY(kin_gpu_download(ctx, b->on.gpu, b->host, b->tallies, b->out_bytes));
    memcpy(&counted, b->host, sizeof counted);
    if (counted.bad != UINT64_MAX || counted.degenerate != 0) {
        return KITH_OK;
    }
    const uint8_t *lost = copied_out(b, b->lists.lost);
    for (int64_t i = 0; i < b->queries->rows; i++) {
        if (lost[i] != 0) {
            return KITH_OK;
        }
    }
    if (counted.short_rows != 0) {
        return kin_fail(ctx, KITH_E_INTERNAL,
                        "%llu queries have fewer than %lld neighbours (a bound is wrong; please "
                        "report it)",
                        (unsigned long long)counted.short_rows, (long long)out->k);
    }
    copy_part(b, out->ids, b->written.ids, cells * sizeof *out->ids);
    copy_part(b, out->distances, b->written.distances, cells * sizeof *out->distances);
    copy_part(b, out->distances64, b->written.distances64, cells * sizeof *out->distances64);
    const int64_t tiles = b->pitch / KIN_FUSED_TILE;
    const kin_fused_tally tally = {.pairs = (double)tiles, .keys = (double)counted.keys};
    if (b->cols->frame.type == KIN_FUSED_S8) { /* whatever the prepared rows are */
        (void)snprintf(ctx->report.screen, sizeof ctx->report.screen, "s8");
    }
    kin_fused_report(ctx, &b->corpus->prepared, &tally, b->queries->rows);
    *done = true;
    return KITH_OK;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static bool is_of_our_kind(const batch *b)
{
    const uint64_t matrix = kin_size_mul((uint64_t)b->queries->rows,
                                         kin_size_mul((uint64_t)b->pitch, sizeof(uint32_t)));
    return b->queries->rows <= MOST_QUERIES && b->request->k <= MOST_K &&
           b->corpus->units != NULL && b->corpus->prepared.plain && matrix <= MATRIX_BYTES &&
           b->lists.capacity > b->lists.k;
}

static kith_status run_batch(batch *b, bool *done)
{
    kith_ctx *ctx = b->on.ctx;
    bool degenerate = false;
    kith_status status = KITH_OK;
    KIN_TRY(kin_gpu_layout_make(ctx, b->on.gpu, name_batch, b, "a batch of queries", &b->device));
    KIN_TRY_GOTO(status,
                 kin_alloc_zero(ctx, &b->host,
                                b->out_bytes > b->in_bytes ? b->out_bytes : b->in_bytes, 1,
                                "a batch of queries"),
                 done);
    KIN_TRY_GOTO(status, copy_in(b, &degenerate), done);
    if (degenerate) {
        goto done;
    }
    const kin_fused_set set = set_of(b);
    if (b->there) {
        KIN_TRY_GOTO(status, look_there(b), done);
    }
    KIN_TRY_GOTO(status, start_lists(b, &set), done);
    KIN_TRY_GOTO(status, start_answers(b, &set), done);
    status = copy_out(b, done);
done:
    kin_gpu_free(b->on.gpu, b->device);
    kin_free(ctx, b->host);
    return status;
}

static kith_status try_batch(kith_ctx *ctx, const kin_fused_corpus *corpus,
                             const kin_fused_set *cols, const kin_fused_query *query, bool *done)
{
    const kin_request *request = query->request;
    const int64_t k = kin_min_i64(request->k + (request->exclude != NULL ? 1 : 0), cols->points);
    const int64_t wished = KIN_FUSED_TILE * k + ROOM;
    batch b = {.on = kin_fused_device_of(ctx, corpus->gpu),
               .corpus = corpus,
               .cols = cols,
               .query = query,
               .queries = query->queries,
               .request = request,
               .out = query->out,
               .there = (query->place & KIN_FUSED_DATA_ON_DEVICE) != 0,
               .out_on_device = (query->place & KIN_FUSED_OUT_ON_DEVICE) != 0,
               .pitch = kin_fused_tiles_of(cols->points) * KIN_FUSED_TILE,
               .written = *query->out,
               .lists = {.rows = query->queries->rows,
                         .k = (int32_t)k,
                         .capacity = (int32_t)kin_min_i64(wished, cols->padded + 8)}};
    return is_of_our_kind(&b) ? run_batch(&b, done) : KITH_OK;
}

kith_status kin_fused_batch_search(kith_ctx *ctx, const kin_fused_corpus *corpus,
                                   const kin_fused_query *query, bool *done)
{
    const int64_t start = kin_clock_ns();
    kith_status status = KITH_OK;
    *done = false;
    if (corpus->glance.block != NULL) {
        status = try_batch(ctx, corpus, &corpus->glance.set, query, done);
    }
    if (status == KITH_OK && !*done) {
        status = try_batch(ctx, corpus, &corpus->prepared.set, query, done);
    }
    ctx->report.seconds_screen += kin_clock_since(start);
    if (status == KITH_E_DEVICE_MEMORY) { /* the long way takes what there is */
        kin_forgive(ctx);
        return KITH_OK;
    }
    return status;
}
