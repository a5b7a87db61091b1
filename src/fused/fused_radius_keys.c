/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Metrics without a matrix product: canonical keys of a stripe of queries and a chunk of the
 * corpus as a matrix (fused_keys.cu), from which the device picks what is within. Where that is
 * more than there is room for, the same matrix is picked from again, fewer rows at a time.
 *
 * Memory. Half of the finder's for keys, a quarter for hits.
 */
#include "fused/fused_radius.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

enum { MOST_STRIPE = 2048, MOST_CHUNK = 1 << 15, CHUNK_STEP = 32, LEAST_STRIPE = 16 };

typedef struct scan {
    kin_fused_radius_job *f;
    const kin_fused_rows *corpus;
    const kin_fused_rows *queries;
    int64_t stripe; /* queries at a time */
    int64_t chunk;  /* rows of the corpus, the pitch of the keys */
    int64_t room;   /* hits; at least a row of the matrix */
    void *block;
    double *keys;
    double *most; /* by query */
    uint64_t *count;
    kin_fused_hit *device_hits;
    kin_fused_hit *hits;
} scan;

static void shape(scan *s)
{
    const int64_t words = (int64_t)(s->f->memory / 2 / sizeof *s->keys);
    const int64_t whole = kin_round_up(s->corpus->rows, CHUNK_STEP);
    const int64_t fit = words / LEAST_STRIPE / CHUNK_STEP * CHUNK_STEP;
    s->chunk = kin_min_i64(whole, kin_max_i64(CHUNK_STEP, kin_min_i64(fit, MOST_CHUNK)));
    s->stripe =
        kin_min_i64(s->queries->rows, kin_max_i64(1, kin_min_i64(words / s->chunk, MOST_STRIPE)));
    s->room = kin_min_i64(kin_max_i64(kin_fused_radius_room(s->f), s->chunk), s->stripe * s->chunk);
}

static void name_scan(kin_layout *layout, void *job)
{
    scan *s = job;
    const uint64_t keys = kin_size_mul((uint64_t)s->stripe, (uint64_t)s->chunk);
    s->keys = kin_layout_array(layout, keys, sizeof *s->keys);
    s->most = kin_layout_array(layout, (uint64_t)s->queries->rows, sizeof *s->most);
    s->count = kin_layout_array(layout, 1, sizeof *s->count);
    s->device_hits = kin_layout_array(layout, (uint64_t)s->room, sizeof *s->device_hits);
}

/* The distances of these metrics are their keys. */
static kith_status upload_radii(const scan *s)
{
    const kin_fused_radius_job *f = s->f;
    const uint64_t rows = (uint64_t)s->queries->rows;
    double *most = NULL;
    KIN_TRY(kin_alloc(f->on.ctx, &most, rows, sizeof *most, "radii"));
    for (uint64_t i = 0; i < rows; i++) {
        most[i] = kin_radius_of(f->request, (int64_t)(f->row0 + i));
    }
    const kith_status status =
        kin_gpu_upload(f->on.ctx, f->on.gpu, s->most, most, rows * sizeof *most);
    kin_free(f->on.ctx, most);
    return status;
}

/* What one matrix holds: these queries and these rows of the corpus. */
typedef struct part {
    int64_t query0;
    int64_t rows;
    int64_t corpus0;
    int64_t columns;
} part;

static kith_status compute_keys(const scan *s, part p)
{
    const kin_fused_device *on = &s->f->on;
    const kin_fused_keys job = {.queries = *s->queries,
                                .corpus = *s->corpus,
                                .query0 = p.query0,
                                .query_count = p.rows,
                                .corpus0 = p.corpus0,
                                .corpus_count = p.columns,
                                .keys = s->keys,
                                .pitch = s->chunk};
    s->f->tally.keys += (double)p.rows * (double)p.columns;
    return kin_gpu_check(on->ctx, on->gpu, on->kernels->keys(on->stream, &job), "computing keys");
}

/* Rows `at` .. at + rows of the matrix. *count: how many are within. */
static kith_status pick(const scan *s, part p, int64_t at, int64_t rows, int64_t *count)
{
    const kin_fused_device *on = &s->f->on;
    uint64_t found = 0;
    const kin_fused_within job = {.keys = s->keys + at * s->chunk,
                                  .pitch = s->chunk,
                                  .rows = rows,
                                  .columns = p.columns,
                                  .query0 = (uint32_t)(p.query0 + at),
                                  .corpus0 = (uint32_t)p.corpus0,
                                  .most = s->most + p.query0 + at,
                                  .room = s->room,
                                  .hits = s->device_hits,
                                  .count = s->count};
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, s->count, 0, sizeof *s->count));
    KIN_TRY(kin_gpu_check(on->ctx, on->gpu, on->kernels->within(on->stream, &job),
                          "finding what is within reach"));
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, &found, s->count, sizeof found));
    *count = (int64_t)found;
    return KITH_OK;
}

static kith_status take_matrix(const scan *s, part p)
{
    int64_t step = p.rows;
    for (int64_t at = 0; at < p.rows;) {
        const int64_t some = kin_min_i64(step, p.rows - at);
        int64_t count = 0;
        KIN_TRY(pick(s, p, at, some, &count));
        if (count > s->room) { /* so there is more than one row */
            step = kin_ceil_div(some, 2);
            continue;
        }
        KIN_TRY(kin_fused_radius_take(s->f, s->device_hits, count, s->hits));
        at += some;
    }
    return KITH_OK;
}

static kith_status scan_all(const scan *s)
{
    const int64_t queries = s->queries->rows;
    for (int64_t q = 0; q < queries; q += s->stripe) {
        const int64_t rows = kin_min_i64(s->stripe, queries - q);
        for (int64_t c = 0; c < s->corpus->rows; c += s->chunk) {
            const part p = {q, rows, c, kin_min_i64(s->chunk, s->corpus->rows - c)};
            KIN_TRY(compute_keys(s, p));
            KIN_TRY(take_matrix(s, p));
            KIN_TRY(kin_progress(s->f->on.ctx, "screen", (double)q, (double)queries));
        }
    }
    return KITH_OK;
}

kith_status kin_fused_radius_keys(kin_fused_radius_job *f, const kin_fused_rows *queries,
                                  const kin_fused_rows *corpus)
{
    const int64_t start = kin_clock_ns();
    scan s = {.f = f, .corpus = corpus, .queries = queries};
    kith_status status = KITH_OK;
    shape(&s);
    KIN_TRY(
        kin_gpu_layout_make(f->on.ctx, f->on.gpu, name_scan, &s, "keys of all pairs", &s.block));
    KIN_TRY_GOTO(
        status,
        kin_alloc(f->on.ctx, &s.hits, (uint64_t)s.room, sizeof *s.hits, "neighbours within reach"),
        done);
    KIN_TRY_GOTO(status, upload_radii(&s), done);
    status = scan_all(&s);
done:
    kin_free(f->on.ctx, s.hits);
    kin_gpu_free(f->on.gpu, s.block);
    f->on.ctx->report.seconds_screen += kin_clock_since(start);
    return status;
}
