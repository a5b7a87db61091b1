/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Queries in stripes, the corpus in chunks: the keys of a stripe and a chunk are written as a
 * matrix, and each row's best list takes them in. Lists of more than KIN_SCREEN_GPU_PASS_K pairs
 * are made in passes: each takes what comes after the last pair of the pass before it.
 *
 *   keys    stripe x chunk doubles
 *   pairs   stripe x wanted, pass by pass from left to right
 *
 * Cost. One canonical key a pair and pass (a pair alone where the stripe's keys fit as a whole:
 * with more than one pass, stripes are made so that they do). Keys are written and read once: 16
 * bytes, which is less than their arithmetic takes from some 40 columns on.
 *
 * Memory. KEY_BYTES for keys, less where the budget is small, more where passes need it. */
#include "exact/exact_answer_gpu.h"

#include "host/host_clock.h"
#include "host/host_threads.h"

#include <stdio.h>

static const uint64_t KEY_BYTES = 512u << 20;
enum { MOST_STRIPE = 2048, LEAST_CHUNK = 4096, CHUNK_STEP = 32 };

/* What is computed at a time. */
typedef struct shape {
    int64_t stripe; /* queries */
    int64_t chunk;  /* rows of the corpus, the pitch of the keys */
} shape;

typedef struct direct {
    kin_screen_gpu_device on;
    const kin_screen_gpu_rows *corpus;
    const kin_screen_gpu_rows *queries;
    int64_t wanted; /* pairs a query */
    shape shape;
    const kin_request *request;
    double *keys;
    int32_t *counts; /* of a stripe */

    /* Where a stripe's answers are written: the caller's device memory, or ours until it is
     * downloaded. NULL: pairs alone are wanted, and the caller's. */
    const kith_neighbors *out;
    bool out_on_device;
    bool copies_exclude;
    bool leaves_own_out;
    const uint32_t *exclude; /* device: by query, or NULL */
    uint32_t *own_exclude;
    kin_screen_gpu_pair *pairs;
    kith_neighbors written;
    uint64_t *short_rows;
} direct;

static int64_t passes_of(int64_t wanted)
{
    return kin_ceil_div(wanted, KIN_SCREEN_GPU_PASS_K);
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

static void name_direct(kin_layout *layout, void *job)
{
    direct *d = job;
    const uint64_t stripe = (uint64_t)d->shape.stripe;
    const uint64_t places = kin_size_mul(stripe, (uint64_t)d->wanted);
    d->keys =
        kin_layout_array(layout, kin_size_mul(stripe, (uint64_t)d->shape.chunk), sizeof *d->keys);
    d->counts = kin_layout_array(layout, stripe, sizeof *d->counts);
    if (d->out == NULL) {
        return;
    }
    d->pairs = kin_layout_array(layout, places, sizeof *d->pairs);
    d->short_rows = kin_layout_array(layout, 1, sizeof *d->short_rows);
    if (d->copies_exclude) {
        d->own_exclude =
            kin_layout_array(layout, (uint64_t)d->queries->rows, sizeof *d->own_exclude);
    }
    if (!d->out_on_device) {
        kin_exact_gpu_outputs_name(layout, d->out, d->shape.stripe, &d->written);
    }
}

static kith_status make_block(kin_hold *hold, direct *d)
{
    return kin_gpu_hold_layout(hold, d->on.gpu, name_direct, d, "keys of all pairs");
}

/* Queries of a stripe: ids (device) or first, first + 1, ... */
typedef struct stripe {
    const uint32_t *ids;
    int64_t first;
    int64_t count;
} stripe;

static kith_status compute_keys(const direct *d, stripe s, int64_t corpus0, int64_t corpus_count)
{
    const kin_screen_gpu_keys job = {
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
    return KIN_SCREEN_LAUNCH(&d->on, keys, &job, "computing keys");
}

/* Pairs done .. done + k of each query. */
static kith_status run_pass(const direct *d, stripe s, int64_t done, kin_screen_gpu_pair *pairs)
{
    const int64_t rows = d->corpus->rows;
    const bool keys_stay = d->shape.chunk >= rows && done > 0;
    KIN_TRY(
        kin_gpu_fill(d->on.ctx, d->on.gpu, d->counts, 0, (uint64_t)s.count * sizeof *d->counts));
    for (int64_t at = 0; at < rows; at += d->shape.chunk) {
        const int64_t columns = kin_min_i64(d->shape.chunk, rows - at);
        if (!keys_stay) {
            KIN_TRY(compute_keys(d, s, at, columns));
        }
        const kin_screen_gpu_best job = {
            .keys = d->keys,
            .pitch = d->shape.chunk,
            .rows = s.count,
            .columns = columns,
            .corpus0 = at,
            .k = (int32_t)kin_min_i64(KIN_SCREEN_GPU_PASS_K, d->wanted - done),
            .after = done > 0 ? pairs + done - 1 : NULL,
            .after_pitch = d->wanted,
            .pairs = pairs + done,
            .pairs_pitch = d->wanted,
            .count = d->counts,
        };
        KIN_TRY(KIN_SCREEN_LAUNCH(&d->on, best, &job, "keeping the best keys"));
    }
    return KITH_OK;
}

/* pairs: s.count x wanted. Every row of the corpus is a candidate, so all lists are full. */
static kith_status solve_stripe(const direct *d, stripe s, kin_screen_gpu_pair *pairs)
{
    for (int64_t done = 0; done < d->wanted; done += KIN_SCREEN_GPU_PASS_K) {
        KIN_TRY(run_pass(d, s, done, pairs));
    }
    return KITH_OK;
}

kith_status kin_exact_gpu_direct_rows(const kin_screen_gpu_device *on,
                                      const kin_exact_gpu_solving *s)
{
    direct d = {
        .on = *on,
        .corpus = s->cols,
        .queries = s->rows,
        .wanted = s->k,
        .shape = shape_of(s->cols->rows, s->count, passes_of(s->k) > 1, 0, kin_gpu_scope(on->gpu))};
    KIN_HOLD(hold, on->ctx);
    KIN_TRY(make_block(&hold, &d));
    for (int64_t at = 0; at < s->count; at += d.shape.stripe) {
        const stripe some = {.ids = s->ids + at,
                             .count = kin_min_i64(d.shape.stripe, s->count - at)};
        KIN_TRY(solve_stripe(&d, some, s->pairs + at * s->k));
        KIN_TRY(kin_progress(on->ctx, "screen", (double)at, (double)s->count));
    }
    return kin_gpu_wait(on->ctx, on->gpu);
}

/* ---- Answers --------------------------------------------------------------------------------- */

static uint64_t answer_bytes(int64_t wanted, int64_t k)
{
    const uint64_t a_place = sizeof(uint32_t) + sizeof(float) + sizeof(double);
    return kin_size_add(kin_size_mul((uint64_t)wanted, sizeof(kin_screen_gpu_pair)),
                        kin_size_mul((uint64_t)k, a_place));
}

uint64_t kin_exact_gpu_direct_least_bytes(int64_t corpus_rows, int64_t k)
{
    const int64_t wanted = kin_min_i64(k + 1, corpus_rows);
    /* shape_of spends half of the room; blocks are rounded up. */
    return 2 * bytes_of(least_shape(corpus_rows), answer_bytes(wanted, k)) + (1u << 16);
}

uint64_t kin_exact_gpu_direct_bytes(int64_t rows, int64_t corpus_rows, int64_t k)
{
    uint32_t id = 0;
    float distance = 0.0F;
    double distance64 = 0.0;
    const kith_neighbors out = {
        .ids = &id, .distances = &distance, .distances64 = &distance64, .rows = rows, .k = k};
    const kin_screen_gpu_rows queries = {.rows = rows};
    const int64_t wanted = kin_min_i64(k + 1, corpus_rows);
    direct d = {.queries = &queries,
                .wanted = wanted,
                .shape = shape_of(corpus_rows, rows, passes_of(wanted) > 1, answer_bytes(wanted, k),
                                  UINT64_MAX),
                .out = &out,
                .copies_exclude = true};
    return kin_gpu_layout_bytes(name_direct, &d);
}

static kith_status make_answers(kin_hold *hold, direct *d)
{
    const uint32_t *exclude = d->exclude;
    d->written = *d->out;
    KIN_TRY(make_block(hold, d));
    KIN_TRY(kin_gpu_fill(d->on.ctx, d->on.gpu, d->short_rows, 0, sizeof *d->short_rows));
    if (!d->copies_exclude) {
        return KITH_OK;
    }
    d->exclude = d->own_exclude;
    return kin_gpu_upload(d->on.ctx, d->on.gpu, d->own_exclude, exclude,
                          (uint64_t)d->queries->rows * sizeof *exclude);
}

/* The kernel writes row `output row` of arrays that begin at the first query's; the arrays of a
 * stripe begin at its own first one. */
static kith_status write_stripe(const direct *d, stripe s)
{
    const kin_screen_gpu_write job = {
        .metric = d->request->distance.metric,
        .left_out = d->exclude,
        .leaves_own_out = d->leaves_own_out,
        .row0 = s.first,
        .rows = s.count,
        .out_row0 = d->out_on_device ? 0 : s.first,
        .pairs = d->pairs,
        .k = (int32_t)d->wanted,
        .k_out = (int32_t)d->out->k,
        .out_ids = d->written.ids,
        .out_distances = d->written.distances,
        .out_distances64 = d->written.distances64,
        .short_rows = d->short_rows,
    };
    const kith_neighbors part = kin_exact_gpu_rows_of(d->out, s.first, s.count);
    KIN_TRY(KIN_SCREEN_LAUNCH(&d->on, write, &job, "writing answers"));
    return d->out_on_device ? KITH_OK : kin_exact_gpu_outputs_fetch(&d->on, &part, &d->written);
}

static kith_status solve_all(const direct *d)
{
    const int64_t count = d->queries->rows;
    for (int64_t at = 0; at < count; at += d->shape.stripe) {
        const stripe s = {.first = at, .count = kin_min_i64(d->shape.stripe, count - at)};
        KIN_TRY(solve_stripe(d, s, d->pairs));
        KIN_TRY(write_stripe(d, s));
        KIN_TRY(kin_progress(d->on.ctx, "screen", (double)(at + s.count), (double)count));
    }
    uint64_t short_rows = 0;
    KIN_TRY(kin_gpu_download(d->on.ctx, d->on.gpu, &short_rows, d->short_rows, sizeof short_rows));
    if (short_rows != 0) {
        return kin_fail(d->on.ctx, KITH_E_INTERNAL,
                        "%llu rows have fewer than %lld neighbours (please report it)",
                        (unsigned long long)short_rows, (long long)d->out->k);
    }
    return KITH_OK;
}

kith_status kin_exact_gpu_direct(kith_ctx *ctx, kin_gpu *gpu, const kin_screen_gpu_rows *corpus,
                                 const kin_screen_gpu_rows *queries,
                                 const kin_exact_gpu_query *query)
{
    const kin_request *request = query->request;
    const int64_t start = kin_clock_ns();
    const bool graph = corpus == queries;
    const bool leaves_own_out = graph && (request->flags & KITH_INCLUDE_SELF) == 0;
    const uint32_t *exclude = graph ? NULL : request->exclude;
    const bool leaves_out = leaves_own_out || exclude != NULL;
    const int64_t wanted = kin_min_i64(request->k + (leaves_out ? 1 : 0), corpus->rows);
    direct d = {.on = kin_screen_gpu_device_of(ctx, gpu),
                .corpus = corpus,
                .queries = queries,
                .wanted = wanted,
                .shape = shape_of(corpus->rows, queries->rows, passes_of(wanted) > 1,
                                  answer_bytes(wanted, request->k), kin_gpu_scope(gpu)),
                .request = request,
                .out = query->out,
                .out_on_device = (query->place & KIN_GPU_OUT_ON_DEVICE) != 0,
                .copies_exclude = exclude != NULL && (query->place & KIN_GPU_DATA_ON_DEVICE) == 0,
                .leaves_own_out = leaves_own_out,
                .exclude = exclude};
    KIN_HOLD(hold, ctx);
    KIN_TRY(make_answers(&hold, &d));
    KIN_TRY(solve_all(&d));
    ctx->report.exact = KITH_CERTIFIED;
    ctx->report.candidates = (double)corpus->rows;
    (void)snprintf(ctx->report.screen, sizeof ctx->report.screen, "direct");
    ctx->report.seconds_screen += kin_clock_since(start);
    return KITH_OK;
}
