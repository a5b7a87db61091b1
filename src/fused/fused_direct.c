/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Queries in stripes, the corpus in chunks: the keys of a stripe and a chunk are written as a
 * matrix, and each row's best list takes them in. Lists of more than KIN_FUSED_PASS_K pairs are
 * made in passes: each takes what comes after the last pair of the pass before it. The pipeline
 * matrix has a method of selection take all k at once from keys that fit as a whole; where not even
 * one query's do, it is made in passes, too.
 *
 *   keys    stripe x chunk doubles
 *   pairs   stripe x wanted, pass by pass from left to right
 *
 * Cost. One canonical key a pair and pass (a pair alone where the stripe's keys fit as a whole:
 * with more than one pass, stripes are made so that they do). Keys are written and read once: 16
 * bytes, which is less than their arithmetic takes from some 40 columns on.
 *
 * Memory. KEY_BYTES for keys, less where the budget is small, more where passes need it. */
#include "fused/fused_direct.h"

#include "base/base_size.h"
#include "base/base_try.h"
#include "fused/fused_pipeline.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

#include <stdio.h>

static const uint64_t KEY_BYTES = 512u << 20;
enum {
    MOST_STRIPE = 2048,
    LEAST_CHUNK = 4096,
    CHUNK_STEP = 32,
    PICKED_BYTES = sizeof(double) + sizeof(uint32_t) /* of a selected key */
};

/* What is computed at a time. */
typedef struct shape {
    int64_t stripe; /* queries */
    int64_t chunk;  /* rows of the corpus, the pitch of the keys */
} shape;

typedef struct direct {
    kith_ctx *ctx;
    kin_gpu *gpu;
    const kin_fused_rows *corpus;
    const kin_fused_rows *queries;
    int64_t wanted; /* pairs a query */
    shape shape;
    double *keys;
    int32_t *counts; /* of a stripe */
    bool selects;    /* by the request's pipeline, from the keys of all rows */
    const kin_request *request;
    double *picked; /* stripe x wanted */
    uint32_t *picked_ids;
} direct;

static int64_t passes_of(int64_t wanted)
{
    return kin_ceil_div(wanted, KIN_FUSED_PASS_K);
}

/* Bytes of the keys and of `a_query` bytes more for each of a stripe. */
static uint64_t bytes_of(shape s, uint64_t a_query)
{
    return kin_size_mul((uint64_t)s.stripe,
                        kin_size_add(kin_size_mul((uint64_t)s.chunk, sizeof(double)), a_query));
}

static int64_t whole_chunk(int64_t rows)
{
    return kin_round_up(rows, CHUNK_STEP);
}

static shape least_shape(int64_t corpus_rows)
{
    return (shape){.stripe = 1, .chunk = kin_min_i64(whole_chunk(corpus_rows), LEAST_CHUNK)};
}

/* The largest stripe, then the largest chunk, that fit into `room`; whole: no chunks, if they can
 * be avoided. */
static shape shape_of(int64_t corpus_rows, int64_t count, bool whole, uint64_t a_query,
                      uint64_t room)
{
    shape s = {.stripe = kin_min_i64(count, MOST_STRIPE), .chunk = whole_chunk(corpus_rows)};
    const int64_t least_chunk = least_shape(corpus_rows).chunk;
    const uint64_t budget = whole || room / 2 < KEY_BYTES ? room / 2 : KEY_BYTES;
    while (whole && s.stripe > 1 && bytes_of(s, a_query) > budget) {
        s.stripe = kin_ceil_div(s.stripe, 2);
    }
    while (s.chunk > least_chunk && bytes_of(s, a_query) > budget) {
        s.chunk = kin_max_i64(least_chunk, kin_round_up(s.chunk / 2, CHUNK_STEP));
    }
    while (s.stripe > 1 && bytes_of(s, a_query) > budget) {
        s.stripe = kin_ceil_div(s.stripe, 2);
    }
    return s;
}

static kith_status make_scratch(direct *d)
{
    KIN_TRY(kin_gpu_alloc(d->ctx, d->gpu, &d->keys,
                          kin_size_mul((uint64_t)d->shape.stripe, (uint64_t)d->shape.chunk),
                          sizeof *d->keys, "keys of all pairs"));
    if (d->selects) {
        const uint64_t places = kin_size_mul((uint64_t)d->shape.stripe, (uint64_t)d->wanted);
        KIN_TRY(
            kin_gpu_alloc(d->ctx, d->gpu, &d->picked, places, sizeof *d->picked, "selected keys"));
        KIN_TRY(kin_gpu_alloc(d->ctx, d->gpu, &d->picked_ids, places, sizeof *d->picked_ids,
                              "selected ids"));
    }
    return kin_gpu_alloc(d->ctx, d->gpu, &d->counts, (uint64_t)d->shape.stripe, sizeof *d->counts,
                         "counts of best lists");
}

static void free_scratch(direct *d)
{
    kin_gpu_free(d->gpu, d->counts);
    kin_gpu_free(d->gpu, d->picked_ids);
    kin_gpu_free(d->gpu, d->picked);
    kin_gpu_free(d->gpu, d->keys);
}

/* Queries of a stripe: ids (device) or first, first + 1, ... */
typedef struct stripe {
    const uint32_t *ids;
    int64_t first;
    int64_t count;
} stripe;

static kith_status compute_keys(const direct *d, stripe s, int64_t corpus0, int64_t corpus_count)
{
    const kin_fused_keys job = {
        .queries = *d->queries,
        .corpus = *d->corpus,
        .query_ids = s.ids,
        .query0 = s.first,
        .query_count = s.count,
        .corpus0 = corpus0,
        .corpus_count = corpus_count,
        .keys = d->keys,
        .pitch = d->shape.chunk,
    };
    return kin_gpu_check(d->ctx, d->gpu, d->gpu->module->fused->keys(d->gpu->stream, &job),
                         "computing keys");
}

/* Pairs done .. done + k of each query. */
static kith_status run_pass(const direct *d, stripe s, int64_t done, kin_fused_pair *pairs)
{
    const int64_t rows = d->corpus->rows;
    const bool keys_stay = d->shape.chunk >= rows && done > 0;
    KIN_TRY(kin_gpu_fill(d->ctx, d->gpu, d->counts, 0, (uint64_t)s.count * sizeof *d->counts));
    for (int64_t at = 0; at < rows; at += d->shape.chunk) {
        const int64_t columns = kin_min_i64(d->shape.chunk, rows - at);
        if (!keys_stay) {
            KIN_TRY(compute_keys(d, s, at, columns));
        }
        const kin_fused_best job = {
            .keys = d->keys,
            .pitch = d->shape.chunk,
            .rows = s.count,
            .columns = columns,
            .corpus0 = at,
            .k = (int32_t)kin_min_i64(KIN_FUSED_PASS_K, d->wanted - done),
            .after = done > 0 ? pairs + done - 1 : NULL,
            .after_pitch = d->wanted,
            .pairs = pairs + done,
            .pairs_pitch = d->wanted,
            .count = d->counts,
        };
        KIN_TRY(kin_gpu_check(d->ctx, d->gpu, d->gpu->module->fused->best(d->gpu->stream, &job),
                              "keeping the best keys"));
    }
    return KITH_OK;
}

/* All k of each query at once. */
static kith_status select_stripe(const direct *d, stripe s, kin_fused_pair *pairs)
{
    const kin_fused_picking picking = {.keys = d->keys,
                                       .pitch = d->shape.chunk,
                                       .rows = s.count,
                                       .columns = d->corpus->rows,
                                       .k = d->wanted,
                                       .method = d->request->select,
                                       .values = d->picked,
                                       .ids = d->picked_ids,
                                       .pairs = pairs};
    KIN_TRY(compute_keys(d, s, 0, d->corpus->rows));
    return d->request->pipeline->fused->pick(d->ctx, d->gpu, &picking);
}

/* pairs: s.count x wanted. Every row of the corpus is a candidate, so all lists are full. */
static kith_status solve_stripe(const direct *d, stripe s, kin_fused_pair *pairs)
{
    if (d->selects) {
        return select_stripe(d, s, pairs);
    }
    for (int64_t done = 0; done < d->wanted; done += KIN_FUSED_PASS_K) {
        KIN_TRY(run_pass(d, s, done, pairs));
    }
    return KITH_OK;
}

kith_status kin_fused_direct_rows(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_rows *corpus,
                                  const kin_fused_rows *queries, const uint32_t *query_ids,
                                  int64_t query0, int64_t count, int64_t k, kin_fused_pair *pairs)
{
    direct d = {.ctx = ctx,
                .gpu = gpu,
                .corpus = corpus,
                .queries = queries,
                .wanted = k,
                .shape = shape_of(corpus->rows, count, passes_of(k) > 1, 0, kin_gpu_scope(gpu))};
    kith_status status = make_scratch(&d);
    for (int64_t at = 0; status == KITH_OK && at < count; at += d.shape.stripe) {
        const stripe s = {.ids = query_ids != NULL ? query_ids + at : NULL,
                          .first = query0 + at,
                          .count = kin_min_i64(d.shape.stripe, count - at)};
        status = solve_stripe(&d, s, pairs + at * k);
        if (status == KITH_OK) {
            status = kin_progress(ctx, "screen", (double)at, (double)count);
        }
    }
    if (status == KITH_OK) {
        status = kin_gpu_wait(ctx, gpu);
    }
    free_scratch(&d);
    return status;
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Where a stripe's answers are written: the caller's device memory, or ours until it is downloaded.
 */
typedef struct answers {
    const kith_neighbors *out;
    bool on_device;
    uint32_t *exclude; /* device: by query, or NULL; ours unless exclude_borrowed */
    bool exclude_borrowed;
    bool leaves_own_out;
    kin_fused_pair *pairs;
    uint32_t *ids;
    float *distances;
    double *distances64;
    uint64_t *short_rows;
} answers;

static uint64_t answer_bytes(int64_t wanted, int64_t k)
{
    const uint64_t a_place = sizeof(uint32_t) + sizeof(float) + sizeof(double);
    return kin_size_add(kin_size_mul((uint64_t)wanted, sizeof(kin_fused_pair)),
                        kin_size_mul((uint64_t)k, a_place));
}

uint64_t kin_fused_direct_least_bytes(int64_t corpus_rows, int64_t k)
{
    const int64_t wanted = kin_min_i64(k + 1, corpus_rows);
    /* shape_of spends half of the room; blocks are rounded up. */
    return 2 * bytes_of(least_shape(corpus_rows), answer_bytes(wanted, k)) + (1u << 16);
}

static uint64_t matrix_bytes(int64_t wanted, int64_t k)
{
    return kin_size_add(answer_bytes(wanted, k), kin_size_mul((uint64_t)wanted, PICKED_BYTES));
}

kin_fused_direct_size kin_fused_direct_picks(int64_t k, int64_t rows, int64_t corpus_rows,
                                             uint64_t scope)
{
    const int64_t wanted = kin_min_i64(k + 1, corpus_rows);
    const uint64_t a_query = matrix_bytes(wanted, k);
    const shape s = shape_of(corpus_rows, rows, true, a_query, scope);
    return (kin_fused_direct_size){
        .rows = s.stripe,
        .pitch = s.chunk,
        .bytes = kin_size_add(bytes_of(s, a_query), (uint64_t)rows * sizeof(uint32_t))};
}

static kith_status make_answers(const direct *d, const kin_request *request, uint32_t place,
                                answers *a)
{
    const uint64_t count = (uint64_t)d->queries->rows;
    const uint64_t places = kin_size_mul((uint64_t)d->shape.stripe, (uint64_t)a->out->k);
    KIN_TRY(kin_gpu_alloc(d->ctx, d->gpu, &a->pairs,
                          kin_size_mul((uint64_t)d->shape.stripe, (uint64_t)d->wanted),
                          sizeof *a->pairs, "best lists"));
    KIN_TRY(kin_gpu_alloc(d->ctx, d->gpu, &a->short_rows, 1, sizeof *a->short_rows, "a count"));
    KIN_TRY(kin_gpu_fill(d->ctx, d->gpu, a->short_rows, 0, sizeof *a->short_rows));
    if (request->exclude != NULL && d->queries != d->corpus) {
        a->exclude_borrowed = (place & KIN_FUSED_DATA_ON_DEVICE) != 0;
        if (a->exclude_borrowed) {
            /* Only read: kin_fused_write.left_out is const. */
            memcpy(&a->exclude, &request->exclude, sizeof a->exclude);
        } else {
            KIN_TRY(kin_gpu_alloc(d->ctx, d->gpu, &a->exclude, count, sizeof *a->exclude,
                                  "ids that are left out"));
            KIN_TRY(kin_gpu_upload(d->ctx, d->gpu, a->exclude, request->exclude,
                                   count * sizeof *a->exclude));
        }
    }
    if (a->on_device) {
        return KITH_OK;
    }
    if (a->out->ids != NULL) {
        KIN_TRY(kin_gpu_alloc(d->ctx, d->gpu, &a->ids, places, sizeof *a->ids, "answers"));
    }
    if (a->out->distances != NULL) {
        KIN_TRY(
            kin_gpu_alloc(d->ctx, d->gpu, &a->distances, places, sizeof *a->distances, "answers"));
    }
    if (a->out->distances64 != NULL) {
        KIN_TRY(kin_gpu_alloc(d->ctx, d->gpu, &a->distances64, places, sizeof *a->distances64,
                              "answers"));
    }
    return KITH_OK;
}

static void free_answers(const direct *d, answers *a)
{
    kin_gpu_free(d->gpu, a->distances64);
    kin_gpu_free(d->gpu, a->distances);
    kin_gpu_free(d->gpu, a->ids);
    kin_gpu_free(d->gpu, a->exclude_borrowed ? NULL : a->exclude);
    kin_gpu_free(d->gpu, a->short_rows);
    kin_gpu_free(d->gpu, a->pairs);
}

/* The kernel writes row `output row` of arrays that begin at the first query's; the arrays of a
 * stripe begin at its own first one. */
static kith_status write_stripe(const direct *d, const answers *a, stripe s)
{
    const kith_neighbors *out = a->out;
    const int64_t shift = a->on_device ? 0 : s.first * out->k;
    const uint64_t places = (uint64_t)(s.count * out->k);
    kin_fused_write job = {
        .metric = d->corpus->metric,
        .left_out = a->exclude,
        .leaves_own_out = a->leaves_own_out,
        .row0 = s.first,
        .rows = s.count,
        .out_row0 = a->on_device ? 0 : s.first,
        .pairs = a->pairs,
        .k = (int32_t)d->wanted,
        .k_out = (int32_t)out->k,
        .out_ids = a->on_device ? out->ids : a->ids,
        .out_distances = a->on_device ? out->distances : a->distances,
        .out_distances64 = a->on_device ? out->distances64 : a->distances64,
        .short_rows = a->short_rows,
    };
    KIN_TRY(kin_gpu_check(d->ctx, d->gpu, d->gpu->module->fused->write(d->gpu->stream, &job),
                          "writing answers"));
    if (a->on_device) {
        return KITH_OK;
    }
    if (out->ids != NULL) {
        KIN_TRY(
            kin_gpu_download(d->ctx, d->gpu, out->ids + shift, a->ids, places * sizeof *a->ids));
    }
    if (out->distances != NULL) {
        KIN_TRY(kin_gpu_download(d->ctx, d->gpu, out->distances + shift, a->distances,
                                 places * sizeof *a->distances));
    }
    if (out->distances64 != NULL) {
        KIN_TRY(kin_gpu_download(d->ctx, d->gpu, out->distances64 + shift, a->distances64,
                                 places * sizeof *a->distances64));
    }
    return KITH_OK;
}

static kith_status solve_all(const direct *d, const answers *a)
{
    const int64_t count = d->queries->rows;
    for (int64_t at = 0; at < count; at += d->shape.stripe) {
        const stripe s = {.first = at, .count = kin_min_i64(d->shape.stripe, count - at)};
        KIN_TRY(solve_stripe(d, s, a->pairs));
        KIN_TRY(write_stripe(d, a, s));
        KIN_TRY(kin_progress(d->ctx, "screen", (double)(at + s.count), (double)count));
    }
    uint64_t short_rows = 0;
    KIN_TRY(kin_gpu_download(d->ctx, d->gpu, &short_rows, a->short_rows, sizeof short_rows));
    if (short_rows != 0) {
        return kin_fail(d->ctx, KITH_E_INTERNAL,
                        "%llu rows have fewer than %lld neighbours (please report it)",
                        (unsigned long long)short_rows, (long long)a->out->k);
    }
    return KITH_OK;
}

kith_status kin_fused_direct(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_rows *corpus,
                             const kin_fused_rows *queries, const kin_request *request,
                             uint32_t place, const kith_neighbors *out)
{
    if (kin_fused_by_host(request)) {
        return request->pipeline->fused->keys(ctx, gpu, corpus, queries, request, place, out);
    }
    const int64_t start = kin_clock_ns();
    const bool graph = corpus == queries;
    const bool leaves_own_out = graph && (request->flags & KITH_INCLUDE_SELF) == 0;
    const bool leaves_out = leaves_own_out || (!graph && request->exclude != NULL);
    const int64_t wanted = kin_min_i64(request->k + (leaves_out ? 1 : 0), corpus->rows);
    const bool matrix = request->pipeline != NULL;
    const uint64_t a_query =
        matrix ? matrix_bytes(wanted, request->k) : answer_bytes(wanted, request->k);
    direct d = {.ctx = ctx,
                .gpu = gpu,
                .corpus = corpus,
                .queries = queries,
                .wanted = wanted,
                .shape = shape_of(corpus->rows, queries->rows, matrix || passes_of(wanted) > 1,
                                  a_query, kin_gpu_scope(gpu)),
                .request = request};
    d.selects = matrix && d.shape.chunk >= corpus->rows;
    answers a = {.out = out,
                 .on_device = (place & KIN_FUSED_OUT_ON_DEVICE) != 0,
                 .leaves_own_out = leaves_own_out};
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, make_scratch(&d), done);
    KIN_TRY_GOTO(status, make_answers(&d, request, place, &a), done);
    KIN_TRY_GOTO(status, solve_all(&d, &a), done);
    ctx->report.exact = KITH_CERTIFIED;
    ctx->report.candidates = (double)corpus->rows;
    (void)snprintf(ctx->report.screen, sizeof ctx->report.screen, "direct");
    if (d.selects) {
        kin_exact_note_pipeline(ctx, request->pipeline);
    }
done:
    free_answers(&d, &a);
    free_scratch(&d);
    ctx->report.seconds_screen += kin_clock_since(start);
    return status;
}
