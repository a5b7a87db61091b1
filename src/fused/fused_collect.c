/* SPDX-License-Identifier: Apache-2.0
 *
 *   radii -> reaches, never tightened -> plan, screen (one-sided, or a graph's both ends at once)
 *         -> counts -> rows whose lists hold all they have: canonical keys -> the host's table
 *                   -> the others: numbered, for lists with more room
 *
 * Why it is right. As on the processor (exact_radius.c): the limit of a row contains every pair
 * whose canonical distance is within its radius; kin_hits_offer compares the canonical distance
 * itself.
 *
 * Memory. Of the finder's, half for lists, up to a quarter for hits, an eighth for plans.
 */
#include "fused/fused_find.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "fused/fused_schedule.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

#include <math.h>

enum { HITS_A_TASK = 4096 };
static const uint64_t HIT_BYTES = 64u << 20;

int64_t kin_fused_finder_room(const kin_fused_finder *f)
{
    const uint64_t quarter = f->memory / 4;
    return (int64_t)((quarter < HIT_BYTES ? quarter : HIT_BYTES) / sizeof(kin_fused_hit));
}

/* ---- Hits to the host ----------------------------------------------------------------------- */

typedef struct offering {
    kin_fused_finder *f;
    const kin_fused_hit *hits;
    int64_t count;
} offering;

static kith_status offer_some(void *arg, int64_t task, int32_t thread)
{
    const offering *o = arg;
    const kin_fused_finder *f = o->f;
    const uint32_t *next = f->by_groups ? f->groups->next : NULL;
    const int64_t last = kin_min_i64((task + 1) * HITS_A_TASK, o->count);
    for (int64_t i = task * HITS_A_TASK; i < last; i++) {
        const kin_fused_hit *hit = &o->hits[i];
        uint32_t query = f->row0 + hit->query;
        do {
            KIN_TRY(kin_hits_offer(f->hits, thread, query, f->id0 + hit->first, hit->key));
            query = next != NULL ? next[query] : KITH_ID_NONE;
        } while (query != KITH_ID_NONE);
    }
    return KITH_OK;
}

kith_status kin_fused_finder_take(kin_fused_finder *f, const kin_fused_hit *hits, int64_t count,
                                  kin_fused_hit *host)
{
    kith_ctx *ctx = f->on.ctx;
    if (count == 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_gpu_download(ctx, f->on.gpu, host, hits, (uint64_t)count * sizeof *host));
    offering o = {f, host, count};
    f->offered += count;
    return kin_parallel(ctx, "rescore", kin_ceil_div(count, HITS_A_TASK), offer_some, &o);
}

/* ---- Reach ---------------------------------------------------------------------------------- */

/* A reach that is no number keeps everything. */
static double reach_of(const kin_fused_finder *f, const kin_fused_frame *frame, uint32_t query,
                       kin_bound_row row, kin_bound_row worst)
{
    const kith_metric metric = f->request->distance.metric;
    const double key = kin_radius_key(metric, kin_radius_of(f->request, query));
    if (frame->bound == KIN_BOUND_INTEGER) {
        return metric == KITH_INNER_PRODUCT ? 2.0 * key : key;
    }
    const double reach =
        kin_bound_reach_of_key(frame->bound, key, frame->key_scale, frame->scale, row, worst);
    return reach == reach ? reach : INFINITY;
}

/* The largest of a group of queries. */
static double reach_of_group(const kin_fused_finder *f, const kin_fused_frame *frame,
                             uint32_t query, kin_bound_row row, kin_bound_row worst)
{
    double reach = reach_of(f, frame, query, row, worst);
    const uint32_t *next = f->by_groups && f->request->radii != NULL ? f->groups->next : NULL;
    while (next != NULL && next[query] != KITH_ID_NONE) {
        query = next[query];
        reach = fmax(reach, reach_of(f, frame, query, row, worst));
    }
    return reach;
}

/* ---- A batch of rows ------------------------------------------------------------------------ */

typedef struct batch {
    kin_fused_finder *f;
    const kin_fused_finding *what;
    kin_fused_work work; /* graph: rows are the columns, each pair serves both ends */
    int64_t room;        /* hits at a time */
    void *device;
    int64_t *device_places;
    kin_fused_hit *device_hits;
    void *host;
    double *reach;
    kin_fused_facts *facts;
    uint32_t *ids;
    int32_t *counts;
    int64_t *places;
    kin_fused_hit *hits;
} batch;

static kith_status checked(const batch *b, int error, const char *what)
{
    return kin_gpu_check(b->f->on.ctx, b->f->on.gpu, error, what);
}

static void name_device(kin_layout *layout, void *job)
{
    batch *b = job;
    const uint64_t rows = (uint64_t)b->work.rows.points;
    b->device_places = kin_layout_array(layout, rows + 1, sizeof *b->device_places);
    b->device_hits = kin_layout_array(layout, (uint64_t)b->room, sizeof *b->device_hits);
}

static void name_host(kin_layout *layout, void *job)
{
    batch *b = job;
    const uint64_t rows = (uint64_t)b->work.rows.points;
    b->reach = kin_layout_array(layout, rows, sizeof *b->reach);
    b->facts = kin_layout_array(layout, rows, sizeof *b->facts);
    b->ids = kin_layout_array(layout, rows, sizeof *b->ids);
    b->counts = kin_layout_array(layout, rows, sizeof *b->counts);
    b->places = kin_layout_array(layout, rows + 1, sizeof *b->places);
    b->hits = kin_layout_array(layout, (uint64_t)b->room, sizeof *b->hits);
}

static kith_status make_batch(batch *b, int64_t capacity)
{
    const kin_fused_device *on = &b->f->on;
    KIN_TRY(kin_fused_work_make(&b->work, capacity, (int32_t)capacity));
    KIN_TRY(kin_gpu_layout_make(on->ctx, on->gpu, name_device, b, "neighbours within reach",
                                &b->device));
    return kin_layout_make(on->ctx, name_host, b, "neighbours within reach", &b->host);
}

static void free_batch(batch *b)
{
    const kin_fused_device *on = &b->f->on;
    kin_free(on->ctx, b->host);
    kin_gpu_free(on->gpu, b->device);
    kin_fused_work_free(&b->work);
}

/* Radii become reaches, and the worst of each tile. */
static kith_status set_reach(batch *b)
{
    kin_fused_finder *f = b->f;
    const kin_fused_device *on = &f->on;
    const uint64_t rows = (uint64_t)b->work.rows.points;
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, b->ids, b->work.rows.ids, rows * sizeof *b->ids));
    KIN_TRY(
        kin_gpu_download(on->ctx, on->gpu, b->facts, b->work.rows.facts, rows * sizeof *b->facts));
    for (uint64_t i = 0; i < rows; i++) {
        const kin_bound_row row = {(double)b->facts[i].norm, (double)b->facts[i].lost};
        b->reach[i] =
            reach_of_group(f, &b->work.rows.frame, f->row0 + b->ids[i], row, b->what->cols.worst);
    }
    KIN_TRY(
        kin_gpu_upload(on->ctx, on->gpu, b->work.lists.reach, b->reach, rows * sizeof *b->reach));
    return kin_fused_work_worst(&b->work);
}

static kith_status screen_one_sided(const kin_fused_work *w)
{
    const int64_t end = kin_fused_tiles_of(w->cols.points);
    for (int64_t first = 0; first < end; first += w->size.stretch) {
        KIN_TRY(kin_fused_work_screen(w, first, kin_min_i64(end, first + w->size.stretch), false));
        KIN_TRY(kin_fused_work_pace(w, (double)first / (double)end));
    }
    return KITH_OK;
}

/* Each block against itself, one-sided since it has every pair twice; then each pair of blocks
 * once, for both ends. */
static kith_status screen_both(const kin_fused_work *w)
{
    const int64_t end = kin_fused_offsets_end(w->rows.padded / KIN_FUSED_BLOCK);
    const int64_t stretch = w->size.stretch / 2;
    KIN_TRY(kin_fused_work_screen(w, 0, 1, false));
    for (int64_t first = 1; first < end; first += stretch) {
        KIN_TRY(kin_fused_work_screen(w, first, kin_min_i64(end, first + stretch), true));
        KIN_TRY(kin_fused_work_pace(w, (double)first / (double)end));
    }
    return KITH_OK;
}

static kith_status screen_all(batch *b)
{
    kin_fused_finder *f = b->f;
    const kin_fused_device *on = &f->on;
    const int64_t start = kin_clock_ns();
    KIN_TRY(b->work.graph ? screen_both(&b->work) : screen_one_sided(&b->work));
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, b->counts, b->work.lists.counts,
                             (uint64_t)b->work.rows.points * sizeof *b->counts));
    KIN_TRY(kin_fused_work_tally(&b->work, &f->tally));
    for (int64_t i = 0; i < b->work.rows.points; i++) {
        f->candidates += (double)b->counts[i];
    }
    on->ctx->report.seconds_screen += kin_clock_since(start);
    return KITH_OK;
}

/* ---- Its hits ------------------------------------------------------------------------------- */

/* Rows that lost candidates give none. */
static int64_t entries_of(const batch *b, int64_t row)
{
    return b->counts[row] > b->work.lists.capacity ? 0 : b->counts[row];
}

static kith_status deliver(batch *b, int64_t row0, int64_t rows, int64_t total)
{
    kin_fused_finder *f = b->f;
    const kin_fused_device *on = &f->on;
    KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, b->device_places, b->places,
                           (uint64_t)(rows + 1) * sizeof *b->places));
    const kin_fused_hits job = {.set = b->work.rows,
                                .cols_set = b->work.cols,
                                .set_rows = *b->what->row_matrix,
                                .cols_rows = *b->what->col_matrix,
                                .lists = b->work.lists,
                                .row0 = row0,
                                .rows = rows,
                                .places = b->device_places,
                                .total = total,
                                .hits = b->device_hits};
    KIN_TRY(checked(b, on->kernels->hits(on->stream, &job), "computing canonical distances"));
    f->tally.keys += b->work.rows.frame.bound == KIN_BOUND_INTEGER ? 0.0 : (double)total;
    return kin_fused_finder_take(f, b->device_hits, total, b->hits);
}

/* As many rows at a time as there is room for their hits. */
static kith_status deliver_all(batch *b)
{
    const int64_t start = kin_clock_ns();
    const int64_t rows = b->work.rows.points;
    for (int64_t first = 0, last = 0; first < rows; first = last) {
        int64_t total = 0;
        b->places[0] = 0;
        while (last < rows && total + entries_of(b, last) <= b->room) {
            total += entries_of(b, last);
            last += 1;
            b->places[last - first] = total;
        }
        if (total > 0) {
            KIN_TRY(deliver(b, first, last - first, total));
        }
    }
    b->f->on.ctx->report.seconds_rescore += kin_clock_since(start);
    return KITH_OK;
}

/* Those that lost candidates, to be screened again. */
static kith_status keep_rest(const batch *b, kin_fused_rest *again)
{
    for (int64_t i = 0; i < b->work.rows.points; i++) {
        if (b->counts[i] <= b->work.lists.capacity) {
            continue;
        }
        if (again == NULL || again->count == again->room) {
            return kin_fail(b->f->on.ctx, KITH_E_INTERNAL,
                            "a list lost candidates that had room for all columns (please "
                            "report it)");
        }
        again->words[again->count++] = (uint64_t)(uint32_t)b->counts[i] << 32 | b->ids[i];
    }
    return KITH_OK;
}

kith_status kin_fused_collect(kin_fused_finder *f, const kin_fused_finding *what, kin_fused_part p)
{
    const kin_fused_set cols = kin_fused_set_part(&what->cols, p.first, p.count);
    batch b = {.f = f,
               .what = what,
               .work = {.on = f->on,
                        .rows = *p.rows,
                        .cols = cols,
                        .graph = p.both,
                        .col_worst = what->col_worst + p.first / KIN_FUSED_TILE,
                        .size = kin_fused_sizes_known(f->on.gpu, p.rows->points, cols.points,
                                                      f->memory / 8)}};
    const uint64_t most = kin_size_mul((uint64_t)p.rows->points, (uint64_t)p.capacity);
    kith_status status = KITH_OK;
    b.room = kin_max_i64(kin_fused_finder_room(f), p.capacity);
    b.room = (uint64_t)b.room < most ? b.room : (int64_t)most;
    KIN_TRY_GOTO(status, make_batch(&b, p.capacity), done);
    KIN_TRY_GOTO(status, set_reach(&b), done);
    KIN_TRY_GOTO(status, screen_all(&b), done);
    if (p.counts_alone) {
        goto done;
    }
    KIN_TRY_GOTO(status, deliver_all(&b), done);
    status = keep_rest(&b, p.again);
done:
    free_batch(&b);
    return status;
}
