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
#include <time.h>

enum { LEAST_UNIT_TILES = 8, MOST_UNIT_TILES = 64, UNITS_A_PROCESSOR = 16, HITS_A_TASK = 4096 };
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
    kin_fused_set rows;
    kin_fused_set cols;
    const kin_fused_worst *col_worst;
    bool both;       /* rows are the columns, each pair serves both ends */
    int64_t stretch; /* tiles of columns that a plan takes at once */
    uint32_t unit_tiles;
    int64_t room; /* hits at a time */
    /* Device */
    kin_fused_lists lists;
    kin_fused_worst *worst;
    kin_fused_counters *counters;
    uint32_t *tiles;
    kin_fused_unit *units;
    int64_t *device_places;
    kin_fused_hit *device_hits;
    void *event;
    /* Host */
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

static void free_batch(batch *b)
{
    const kin_fused_device *on = &b->f->on;
    kin_free(on->ctx, b->hits);
    kin_free(on->ctx, b->places);
    kin_free(on->ctx, b->counts);
    kin_free(on->ctx, b->ids);
    kin_free(on->ctx, b->facts);
    kin_free(on->ctx, b->reach);
    if (b->event != NULL) {
        on->gpu->module->ops->event_free(b->event);
    }
    kin_gpu_free(on->gpu, b->device_hits);
    kin_gpu_free(on->gpu, b->device_places);
    kin_gpu_free(on->gpu, b->units);
    kin_gpu_free(on->gpu, b->tiles);
    kin_gpu_free(on->gpu, b->counters);
    kin_gpu_free(on->gpu, b->worst);
    kin_fused_lists_free(on, &b->lists);
}

static int64_t blocks_of(const kin_fused_set *rows)
{
    return rows->padded / KIN_FUSED_BLOCK;
}

static int64_t tiles_of(const kin_fused_set *cols)
{
    return kin_ceil_div(cols->points, KIN_FUSED_TILE);
}

/* Few rows against few columns make small units, so that every processor has some. */
static uint32_t unit_tiles_of(const batch *b)
{
    const int64_t processors = kin_max_i64(b->f->on.gpu->info.processors, 1);
    const int64_t fair =
        blocks_of(&b->rows) * tiles_of(&b->cols) / (processors * UNITS_A_PROCESSOR);
    return (uint32_t)kin_max_i64(LEAST_UNIT_TILES, kin_min_i64(fair, MOST_UNIT_TILES));
}

static kith_status make_on_device(batch *b, int32_t capacity)
{
    const kin_fused_device *on = &b->f->on;
    kith_ctx *ctx = on->ctx;
    kin_gpu *gpu = on->gpu;
    const uint64_t rows = (uint64_t)b->rows.points;
    const int64_t blocks = blocks_of(&b->rows);
    const uint64_t units = (uint64_t)kin_fused_plan_units(blocks, b->stretch, b->unit_tiles);
    KIN_TRY(kin_fused_lists_make(on, &b->rows, capacity, capacity, &b->lists));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &b->worst, (uint64_t)(b->rows.padded / KIN_FUSED_TILE),
                          sizeof *b->worst, "the worst of tiles"));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &b->counters, 1, sizeof *b->counters, "counters"));
    KIN_TRY(kin_gpu_fill(ctx, gpu, b->counters, 0, sizeof *b->counters));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &b->tiles, (uint64_t)(blocks * b->stretch), sizeof *b->tiles,
                          "a plan of tiles"));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &b->units, units, sizeof *b->units, "units of work"));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &b->device_places, rows + 1, sizeof *b->device_places,
                          "places of hits"));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &b->device_hits, (uint64_t)b->room, sizeof *b->device_hits,
                          "neighbours within reach"));
    return checked(b, gpu->module->ops->event_make(&b->event), "making an event");
}

static kith_status make_on_host(batch *b)
{
    kith_ctx *ctx = b->f->on.ctx;
    const uint64_t rows = (uint64_t)b->rows.points;
    KIN_TRY(kin_alloc(ctx, &b->reach, rows, sizeof *b->reach, "thresholds of a batch"));
    KIN_TRY(kin_alloc(ctx, &b->facts, rows, sizeof *b->facts, "facts of a batch"));
    KIN_TRY(kin_alloc(ctx, &b->ids, rows, sizeof *b->ids, "ids of a batch"));
    KIN_TRY(kin_alloc(ctx, &b->counts, rows, sizeof *b->counts, "counts of a batch"));
    KIN_TRY(kin_alloc(ctx, &b->places, rows + 1, sizeof *b->places, "places of hits"));
    return kin_alloc(ctx, &b->hits, (uint64_t)b->room, sizeof *b->hits, "neighbours within reach");
}

/* Radii become reaches, and the worst of each tile. */
static kith_status set_reach(batch *b)
{
    kin_fused_finder *f = b->f;
    const kin_fused_device *on = &f->on;
    const uint64_t rows = (uint64_t)b->rows.points;
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, b->ids, b->rows.ids, rows * sizeof *b->ids));
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, b->facts, b->rows.facts, rows * sizeof *b->facts));
    for (uint64_t i = 0; i < rows; i++) {
        const kin_bound_row row = {(double)b->facts[i].norm, (double)b->facts[i].lost};
        b->reach[i] =
            reach_of_group(f, &b->rows.frame, f->row0 + b->ids[i], row, b->what->cols.worst);
    }
    KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, b->lists.reach, b->reach, rows * sizeof *b->reach));
    const kin_fused_tighten job = {.set = b->rows,
                                   .cols_set = b->cols,
                                   .lists = {.rows = b->lists.rows, .reach = b->lists.reach},
                                   .worst = b->worst};
    return checked(b, on->kernels->tighten(on->stream, &job), "finding the worst of tiles");
}

/* Until the device is done; the caller may cancel meanwhile. */
static kith_status pace(const batch *b, double share)
{
    const kin_fused_device *on = &b->f->on;
    const kin_gpu_ops *ops = on->gpu->module->ops;
    const struct timespec nap = {0, 100000};
    int32_t done = 0;
    KIN_TRY(checked(b, ops->event_record(on->stream, b->event), "screening"));
    if (on->ctx->params.progress == NULL) {
        return checked(b, ops->event_wait(b->event), "screening");
    }
    while (done == 0) {
        KIN_TRY(kin_progress(on->ctx, "screen", share, 1.0));
        (void)nanosleep(&nap, NULL);
        KIN_TRY(checked(b, ops->event_done(b->event, &done), "screening"));
    }
    return KITH_OK;
}

/* Where a screen goes: tiles of the sequence, or, of a graph, blocks ahead. */
typedef struct way {
    bool graph;
    bool both;
    int64_t first;
    int64_t last;
} way;

static kith_status screen_stretch(const batch *b, way w)
{
    const kin_fused_device *on = &b->f->on;
    const kin_fused_plan plan = {.rows = b->rows,
                                 .cols = b->cols,
                                 .graph = w.graph,
                                 .first = w.first,
                                 .last = w.last,
                                 .row_worst = b->worst,
                                 .col_worst = w.graph ? b->worst : NULL,
                                 .tiles = b->tiles,
                                 .tiles_a_block =
                                     (uint32_t)((w.last - w.first) * (w.graph ? 2 : 1)),
                                 .unit_tiles = b->unit_tiles,
                                 .units = b->units,
                                 .unit_count = &b->counters->unit_count,
                                 .met = &b->counters->met};
    const kin_fused_screen screen = {.mode = KIN_FUSED_LISTS,
                                     .rows = b->rows,
                                     .cols = b->cols,
                                     .units = b->units,
                                     .unit_count = &b->counters->unit_count,
                                     .next = &b->counters->next,
                                     .tiles = b->tiles,
                                     .tiles_a_block = plan.tiles_a_block,
                                     .row_lists = b->lists,
                                     .col_lists = w.both ? b->lists : (kin_fused_lists){0},
                                     .worst = w.both ? b->worst : b->col_worst};
    /* And next, which stands behind it. */
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, &b->counters->unit_count, 0,
                         2 * sizeof b->counters->unit_count));
    KIN_TRY(checked(b, on->kernels->plan(on->stream, &plan), "planning tiles"));
    return checked(b, on->kernels->screen(on->stream, &screen), "screening");
}

static kith_status screen_one_sided(const batch *b)
{
    const int64_t end = tiles_of(&b->cols);
    for (int64_t first = 0; first < end; first += b->stretch) {
        const way w = {.first = first, .last = kin_min_i64(end, first + b->stretch)};
        KIN_TRY(screen_stretch(b, w));
        KIN_TRY(pace(b, (double)first / (double)end));
    }
    return KITH_OK;
}

/* Each block against itself, one-sided since it has every pair twice; then each pair of blocks
 * once, for both ends. */
static kith_status screen_both(const batch *b)
{
    const int64_t end = kin_fused_offsets_end(blocks_of(&b->rows));
    const way own = {.graph = true, .first = 0, .last = 1};
    KIN_TRY(screen_stretch(b, own));
    for (int64_t first = 1; first < end; first += b->stretch / 2) {
        const int64_t last = kin_min_i64(end, first + b->stretch / 2);
        const way w = {.graph = true, .both = true, .first = first, .last = last};
        KIN_TRY(screen_stretch(b, w));
        KIN_TRY(pace(b, (double)first / (double)end));
    }
    return KITH_OK;
}

static kith_status screen_all(batch *b)
{
    kin_fused_finder *f = b->f;
    const kin_fused_device *on = &f->on;
    const int64_t start = kin_clock_ns();
    kin_fused_counters seen;
    KIN_TRY(b->both ? screen_both(b) : screen_one_sided(b));
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, b->counts, b->lists.counts,
                             (uint64_t)b->rows.points * sizeof *b->counts));
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, &seen, b->counters, sizeof seen));
    for (int64_t i = 0; i < b->rows.points; i++) {
        f->candidates += (double)b->counts[i];
    }
    f->tally.pairs += (double)(seen.met + seen.skipped);
    f->tally.skipped += (double)seen.skipped;
    on->ctx->report.seconds_screen += kin_clock_since(start);
    return KITH_OK;
}

/* ---- Its hits ------------------------------------------------------------------------------- */

/* Rows that lost candidates give none. */
static int64_t entries_of(const batch *b, int64_t row)
{
    return b->counts[row] > b->lists.capacity ? 0 : b->counts[row];
}

static kith_status deliver(batch *b, int64_t row0, int64_t rows, int64_t total)
{
    kin_fused_finder *f = b->f;
    const kin_fused_device *on = &f->on;
    KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, b->device_places, b->places,
                           (uint64_t)(rows + 1) * sizeof *b->places));
    const kin_fused_hits job = {.set = b->rows,
                                .cols_set = b->cols,
                                .set_rows = *b->what->row_matrix,
                                .cols_rows = *b->what->col_matrix,
                                .lists = b->lists,
                                .row0 = row0,
                                .rows = rows,
                                .places = b->device_places,
                                .total = total,
                                .hits = b->device_hits};
    KIN_TRY(checked(b, on->kernels->hits(on->stream, &job), "computing canonical distances"));
    f->tally.keys += b->rows.frame.bound == KIN_BOUND_INTEGER ? 0.0 : (double)total;
    return kin_fused_finder_take(f, b->device_hits, total, b->hits);
}

/* As many rows at a time as there is room for their hits. */
static kith_status deliver_all(batch *b)
{
    const int64_t start = kin_clock_ns();
    const int64_t rows = b->rows.points;
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
    for (int64_t i = 0; i < b->rows.points; i++) {
        if (b->counts[i] <= b->lists.capacity) {
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

static int64_t stretch_of(const batch *b)
{
    const int64_t fit = (int64_t)(b->f->memory / 8 / sizeof(uint32_t)) / 2 / blocks_of(&b->rows);
    return kin_max_i64(2, kin_min_i64(fit, tiles_of(&b->cols)));
}

kith_status kin_fused_collect(kin_fused_finder *f, const kin_fused_finding *what, kin_fused_part p)
{
    batch b = {.f = f,
               .what = what,
               .rows = *p.rows,
               .cols = kin_fused_set_part(&what->cols, p.first, p.count),
               .col_worst = what->col_worst + p.first / KIN_FUSED_TILE,
               .both = p.both};
    const uint64_t most = kin_size_mul((uint64_t)p.rows->points, (uint64_t)p.capacity);
    kith_status status = KITH_OK;
    b.stretch = stretch_of(&b);
    b.unit_tiles = unit_tiles_of(&b);
    b.room = kin_max_i64(kin_fused_finder_room(f), p.capacity);
    b.room = (uint64_t)b.room < most ? b.room : (int64_t)most;
    KIN_TRY_GOTO(status, make_on_device(&b, (int32_t)p.capacity), done);
    KIN_TRY_GOTO(status, make_on_host(&b), done);
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
