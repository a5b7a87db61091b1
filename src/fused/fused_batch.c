/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. One query against a million rows is a read of the rounded corpus, 60 microseconds on an
 * H200; everything else has to be short. One block of device memory, one copy in, one copy out, no
 * wait in between, and nothing of it depends on what the device found:
 *
 *      host      check, transform, copy in
 *      device    round | MATRIX screen with minima of tiles | kth of the minima | gather
 *                | tighten | rescore | write
 *      host      copy out
 *
 * The k tiles with the least minima hold k different columns, so the k-th of minima is a reach; all
 * columns within it lie in about k tiles, which is what bounds the lists' room. Then the lists' own
 * k-th cost is what canonical keys are computed for.
 *
 * Limits. The corpus must be plain (no equal, no degenerate rows), and no query degenerate. The
 * cost matrix takes 4 bytes a query and row: more than MATRIX_BYTES goes the long way.
 */
#include "fused/fused_side.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_clock.h"

enum { MOST_QUERIES = 64, MOST_K = 1024, ROOM = 1024, ALIGNMENT = 256 };
static const uint64_t MATRIX_BYTES = 512u << 20;

static int64_t tiles_of(const kin_fused_set *set)
{
    return kin_ceil_div(set->points, KIN_FUSED_TILE);
}

/* ---- One block ------------------------------------------------------------------------------- */

/* What kernels count. */
typedef struct tallies {
    uint64_t next; /* 32 bits of it */
    uint64_t keys;
    uint64_t short_rows;
} tallies;

/* Offsets of the parts in the block. What is copied in stands together, and what is copied out. */
typedef struct layout {
    uint64_t rows;
    uint64_t transforms;
    uint64_t exclude;
    uint64_t row_ids; /* 0, 1, ...: positions are rows */
    uint64_t unit_count;
    uint64_t in_end;
    uint64_t rounded;
    uint64_t facts;
    uint64_t half;
    uint64_t worst;
    uint64_t reach;
    uint64_t words;
    uint64_t matrix;
    uint64_t minima;
    uint64_t pairs;
    uint64_t pair_counts;
    uint64_t counts;  /* cleared from here on, */
    uint64_t tallies; /* copied out from here on */
    uint64_t lost;
    uint64_t clear_end;
    uint64_t ids;
    uint64_t distances;
    uint64_t distances64;
    uint64_t end;
} layout;

typedef struct batch {
    kin_fused_device on;
    const kin_fused_corpus *corpus;
    const kin_fused_query *query;
    const kith_matrix *queries; /* the parts of it */
    const kin_request *request;
    const kith_neighbors *out;
    bool out_on_device;
    int64_t k; /* candidates */
    int32_t capacity;
    int64_t pitch;
    layout at;
    char *device;
    char *host; /* of what is copied in, then of what is copied out */
} batch;

static uint64_t carve(uint64_t *end, uint64_t count, uint64_t item_bytes)
{
    const uint64_t at = *end;
    *end = (uint64_t)kin_round_up((int64_t)(at + kin_size_mul(count, item_bytes)), ALIGNMENT);
    return at;
}

static void lay_out(batch *b)
{
    const uint64_t n = (uint64_t)b->queries->rows;
    const uint64_t k = (uint64_t)b->k;
    const uint64_t cells = b->out_on_device ? 0 : n * (uint64_t)b->out->k;
    const bool transforms = kin_metric_get_traits(b->request->distance.metric)->transforms;
    const uint64_t row_bytes =
        (uint64_t)b->queries->cols * (uint64_t)kith_dtype_bytes(b->queries->dtype);
    uint64_t end = 0;
    layout *at = &b->at;
    at->rows = carve(&end, n, row_bytes);
    at->transforms = carve(&end, transforms ? n : 0, sizeof(kin_row_transform));
    at->exclude = carve(&end, b->request->exclude != NULL ? n : 0, sizeof(uint32_t));
    at->row_ids = carve(&end, n, sizeof(uint32_t));
    at->unit_count = carve(&end, 1, sizeof(uint32_t));
    at->in_end = end;
    at->rounded = carve(&end, KIN_FUSED_BLOCK, (uint64_t)b->corpus->prepared.set.frame.row_bytes);
    at->facts = carve(&end, KIN_FUSED_BLOCK, sizeof(kin_fused_facts));
    at->half = carve(&end, KIN_FUSED_BLOCK, sizeof(kin_fused_word));
    at->worst = carve(&end, 2, sizeof(float));
    at->reach = carve(&end, n, sizeof(double));
    at->words = carve(&end, n * (uint64_t)b->capacity, sizeof(uint64_t));
    at->matrix = carve(&end, n * (uint64_t)b->pitch, sizeof(uint32_t));
    at->minima = carve(&end, n * (uint64_t)(b->pitch / KIN_FUSED_TILE), sizeof(uint32_t));
    at->pairs = carve(&end, n * k, sizeof(kin_fused_pair));
    at->pair_counts = carve(&end, n, sizeof(int32_t));
    at->counts = carve(&end, n, sizeof(int32_t));
    at->tallies = carve(&end, 1, sizeof(tallies));
    at->lost = carve(&end, n, 1);
    at->clear_end = end;
    at->ids = carve(&end, b->out->ids != NULL ? cells : 0, sizeof(uint32_t));
    at->distances = carve(&end, b->out->distances != NULL ? cells : 0, sizeof(float));
    at->distances64 = carve(&end, b->out->distances64 != NULL ? cells : 0, sizeof(double));
    at->end = end;
}

/* ---- In -------------------------------------------------------------------------------------- */

static kith_status check_and_transform(const batch *b, const kith_matrix *rows, bool *degenerate)
{
    const kith_metric metric = b->request->distance.metric;
    *degenerate = false;
    KIN_TRY(kin_metric_check(b->on.ctx, rows, metric, b->query->name));
    if (!kin_metric_get_traits(metric)->transforms) {
        return KITH_OK;
    }
    kin_row_transform *transforms = (kin_row_transform *)(void *)(b->host + b->at.transforms);
    KIN_TRY(kin_metric_transforms(b->on.ctx, rows, metric, transforms));
    for (int64_t i = 0; i < rows->rows; i++) {
        *degenerate |= transforms[i].degenerate != 0.0;
    }
    return KITH_OK;
}

static kith_status copy_in(const batch *b, bool *degenerate)
{
    const kith_matrix *q = b->queries;
    const int64_t row_bytes = (int64_t)q->cols * kith_dtype_bytes(q->dtype);
    kith_matrix rows = *q;
    rows.data = b->host + b->at.rows;
    rows.stride_bytes = row_bytes;
    for (int64_t i = 0; i < q->rows; i++) {
        memcpy(b->host + b->at.rows + i * row_bytes, (const char *)q->data + i * q->stride_bytes,
               (size_t)row_bytes);
    }
    KIN_TRY(check_and_transform(b, &rows, degenerate));
    if (*degenerate) {
        return KITH_OK;
    }
    if (b->request->exclude != NULL) {
        memcpy(b->host + b->at.exclude, b->request->exclude, (size_t)q->rows * sizeof(uint32_t));
    }
    uint32_t *ids = (uint32_t *)(void *)(b->host + b->at.row_ids);
    for (int64_t i = 0; i < q->rows; i++) {
        ids[i] = (uint32_t)i;
    }
    memcpy(b->host + b->at.unit_count, &b->corpus->batch_units, sizeof(uint32_t));
    return kin_gpu_upload(b->on.ctx, b->on.gpu, b->device, b->host, b->at.in_end);
}

/* ---- On the device --------------------------------------------------------------------------- */

static void *part(const batch *b, uint64_t at)
{
    return b->device + at;
}

static kin_fused_rows rows_of(const batch *b)
{
    const kith_matrix *q = b->queries;
    const bool transforms = kin_metric_get_traits(b->request->distance.metric)->transforms;
    return (kin_fused_rows){.data = part(b, b->at.rows),
                            .transforms = transforms ? part(b, b->at.transforms) : NULL,
                            .rows = q->rows,
                            .stride_bytes = (int64_t)q->cols * kith_dtype_bytes(q->dtype),
                            .cols = q->cols,
                            .dtype = q->dtype,
                            .metric = b->request->distance.metric};
}

static kin_fused_set set_of(const batch *b)
{
    return (kin_fused_set){.frame = b->corpus->prepared.set.frame,
                           .points = b->queries->rows,
                           .padded = KIN_FUSED_BLOCK,
                           .rounded = part(b, b->at.rounded),
                           .facts = part(b, b->at.facts),
                           .half = part(b, b->at.half),
                           .ids = part(b, b->at.row_ids)};
}

static kin_fused_lists lists_of(const batch *b)
{
    return (kin_fused_lists){.rows = b->queries->rows,
                             .k = (int32_t)b->k,
                             .capacity = b->capacity,
                             .words = part(b, b->at.words),
                             .counts = part(b, b->at.counts),
                             .reach = part(b, b->at.reach),
                             .lost = part(b, b->at.lost)};
}

static kith_status checked(const batch *b, int error, const char *what)
{
    return kin_gpu_check(b->on.ctx, b->on.gpu, error, what);
}

static kith_status start_screen(const batch *b, const kin_fused_set *set)
{
    const kin_fused_device *on = &b->on;
    tallies *counted = part(b, b->at.tallies);
    const kin_fused_round round = {.rows = rows_of(b),
                                   .frame = set->frame,
                                   .points = set->points,
                                   .padded = set->padded,
                                   .rounded = part(b, b->at.rounded),
                                   .facts = part(b, b->at.facts),
                                   .half = part(b, b->at.half),
                                   .worst = part(b, b->at.worst)};
    const kin_fused_screen screen = {.mode = KIN_FUSED_MATRIX,
                                     .rows = *set,
                                     .cols = b->corpus->prepared.set,
                                     .units = b->corpus->units,
                                     .unit_count = part(b, b->at.unit_count),
                                     .next = (uint32_t *)(void *)&counted->next,
                                     .tiles = b->corpus->tiles,
                                     .worst = b->corpus->worst,
                                     .matrix = part(b, b->at.matrix),
                                     .minima = part(b, b->at.minima),
                                     .pitch = b->pitch};
    KIN_TRY(
        kin_gpu_fill(on->ctx, on->gpu, part(b, b->at.counts), 0, b->at.clear_end - b->at.counts));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, part(b, b->at.reach), KIN_FUSED_NO_REACH_BYTE,
                         b->at.words - b->at.reach));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, part(b, b->at.worst), 0, b->at.reach - b->at.worst));
    KIN_TRY(checked(b, on->kernels->round(on->stream, &round), "rounding queries"));
    return checked(b, on->kernels->screen(on->stream, &screen), "screening");
}

static kith_status start_selection(const batch *b, const kin_fused_set *set)
{
    const kin_fused_device *on = &b->on;
    const kin_fused_set *cols = &b->corpus->prepared.set;
    const kin_fused_kth kth = {.set = *set,
                               .lists = lists_of(b),
                               .rows = set->points,
                               .matrix = part(b, b->at.matrix),
                               .minima = part(b, b->at.minima),
                               .pitch = b->pitch,
                               .count = b->pitch,
                               .col_worst = cols->worst};
    const kin_fused_gather gather = {.rows_set = *set,
                                     .cols_set = *cols,
                                     .lists = kth.lists,
                                     .rows = set->points,
                                     .matrix = kth.matrix,
                                     .minima = kth.minima,
                                     .pitch = b->pitch,
                                     .count = b->pitch,
                                     .tiles = b->corpus->tiles};
    const kin_fused_tighten tighten = {.set = *set, .cols_set = *cols, .lists = kth.lists};
    KIN_TRY(checked(b, on->kernels->kth(on->stream, &kth), "finding thresholds"));
    KIN_TRY(checked(b, on->kernels->gather(on->stream, &gather), "gathering candidates"));
    return checked(b, on->kernels->tighten(on->stream, &tighten), "tightening lists");
}

static kith_status start_answers(const batch *b, const kin_fused_set *set)
{
    const kin_fused_device *on = &b->on;
    tallies *counted = part(b, b->at.tallies);
    const kith_neighbors *out = b->out;
    const bool theirs = b->out_on_device;
    const kin_fused_rescore rescore = {.set = *set,
                                       .cols_set = b->corpus->prepared.set,
                                       .set_rows = rows_of(b),
                                       .cols_rows = b->corpus->prepared.rows,
                                       .lists = lists_of(b),
                                       .rows = set->points,
                                       .pairs = part(b, b->at.pairs),
                                       .count = part(b, b->at.pair_counts),
                                       .keys = &counted->keys};
    kin_fused_write write = {.metric = b->request->distance.metric,
                             .left_out =
                                 b->request->exclude != NULL ? part(b, b->at.exclude) : NULL,
                             .rows = set->points,
                             .pairs = rescore.pairs,
                             .count = rescore.count,
                             .k = (int32_t)b->k,
                             .k_out = (int32_t)out->k,
                             .short_rows = &counted->short_rows};
    if (out->ids != NULL) {
        write.out_ids = theirs ? out->ids : part(b, b->at.ids);
    }
    if (out->distances != NULL) {
        write.out_distances = theirs ? out->distances : part(b, b->at.distances);
    }
    if (out->distances64 != NULL) {
        write.out_distances64 = theirs ? out->distances64 : part(b, b->at.distances64);
    }
    KIN_TRY(checked(b, on->kernels->rescore(on->stream, &rescore), "computing distances"));
    return checked(b, on->kernels->write(on->stream, &write), "writing neighbours");
}

/* ---- Out ------------------------------------------------------------------------------------- */

static void copy_part(const batch *b, void *to, uint64_t at, uint64_t bytes)
{
    if (to != NULL && !b->out_on_device) {
        memcpy(to, b->host + (at - b->at.tallies), (size_t)bytes);
    }
}

/* One copy of all that is wanted; the answer is given out only if no list overflowed. */
static kith_status copy_out(const batch *b, bool *done)
{
    kith_ctx *ctx = b->on.ctx;
    const kith_neighbors *out = b->out;
    const uint64_t cells = (uint64_t)(b->queries->rows * out->k);
    tallies counted;
    KIN_TRY(kin_gpu_download(ctx, b->on.gpu, b->host, part(b, b->at.tallies),
                             b->at.end - b->at.tallies));
    memcpy(&counted, b->host, sizeof counted);
    const char *lost = b->host + (b->at.lost - b->at.tallies);
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
    copy_part(b, out->ids, b->at.ids, cells * sizeof *out->ids);
    copy_part(b, out->distances, b->at.distances, cells * sizeof *out->distances);
    copy_part(b, out->distances64, b->at.distances64, cells * sizeof *out->distances64);
    const int64_t tiles = b->pitch / KIN_FUSED_TILE;
    const kin_fused_tally tally = {.pairs = (double)tiles, .keys = (double)counted.keys};
    kin_fused_report(ctx, &b->corpus->prepared, &tally, b->queries->rows);
    *done = true;
    return KITH_OK;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static bool is_of_our_kind(const batch *b)
{
    const uint64_t matrix = kin_size_mul((uint64_t)b->queries->rows,
                                         kin_size_mul((uint64_t)b->pitch, sizeof(uint32_t)));
    return (b->query->place & KIN_FUSED_DATA_ON_DEVICE) == 0 && b->queries->rows <= MOST_QUERIES &&
           b->request->k <= MOST_K && b->corpus->units != NULL && b->corpus->prepared.plain &&
           matrix <= MATRIX_BYTES && b->capacity > b->k;
}

kith_status kin_fused_batch_search(kith_ctx *ctx, const kin_fused_corpus *corpus,
                                   const kin_fused_query *query, bool *done)
{
    const kin_fused_set *cols = &corpus->prepared.set;
    const kin_request *request = query->request;
    const int64_t start = kin_clock_ns();
    batch b = {.on = kin_fused_device_of(ctx, corpus->gpu),
               .corpus = corpus,
               .query = query,
               .queries = query->queries,
               .request = request,
               .out = query->out,
               .out_on_device = (query->place & KIN_FUSED_OUT_ON_DEVICE) != 0,
               .k = kin_min_i64(request->k + (request->exclude != NULL ? 1 : 0), cols->points),
               .pitch = tiles_of(cols) * KIN_FUSED_TILE};
    const int64_t wished = KIN_FUSED_TILE * b.k + ROOM;
    bool degenerate = false;
    *done = false;
    b.capacity = (int32_t)kin_min_i64(wished, cols->padded + 8);
    if (!is_of_our_kind(&b)) {
        return KITH_OK;
    }
    lay_out(&b);
    const uint64_t out_bytes = b.at.end - b.at.tallies;
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status,
                 kin_alloc(ctx, &b.host, out_bytes > b.at.in_end ? out_bytes : b.at.in_end, 1,
                           "a batch of queries"),
                 done);
    KIN_TRY_GOTO(status,
                 kin_gpu_alloc(ctx, corpus->gpu, &b.device, b.at.end, 1, "a batch of queries"),
                 done);
    KIN_TRY_GOTO(status, copy_in(&b, &degenerate), done);
    if (degenerate) {
        goto done;
    }
    const kin_fused_set set = set_of(&b);
    KIN_TRY_GOTO(status, start_screen(&b, &set), done);
    KIN_TRY_GOTO(status, start_selection(&b, &set), done);
    KIN_TRY_GOTO(status, start_answers(&b, &set), done);
    status = copy_out(&b, done);
    ctx->report.seconds_screen += kin_clock_since(start);
done:
    kin_gpu_free(corpus->gpu, b.device);
    kin_free(ctx, b.host);
    if (status == KITH_E_DEVICE_MEMORY) { /* the long way takes what there is */
        kin_forgive(ctx);
        return KITH_OK;
    }
    return status;
}
