/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A radius is a reach that is known from the start and never tightened, so one screen of all
 * columns decides, and what it keeps has only to be collected. How many that is nobody knows
 * before:
 *
 *      rows, some blocks at a time   lists of about twice what rows had so far
 *        all counts                  counted beyond the lists' room: exact for every row
 *        rows that fit               canonical keys, to the host
 *      rows that did not             a set of their own, sorted by count: lists of about that room
 *      lists beyond the memory       columns in parts: no list is longer than its part
 *
 * So a row is screened twice, at the very most three times, and always ends. Answers may be as
 * large as the product of both sizes: only the host holds them.
 *
 * Cost. A graph whose lists all fit is screened as n x n / 2 pairs, both ends collecting, once a
 * sample has told how long lists are; else one-sided, as searches are. Rows that are screened again
 * are a set without balls: nothing is skipped for them.
 *
 * Where rows are long, both ends' screen meets their shadows (screen_shadow_gpu.c): what passes is
 * looked at in full, and nothing else changes.
 *
 * One screen:
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
#include "exact/exact_search_gpu.h"

#include "host/host_clock.h"
#include "host/host_threads.h"
#include "screen/screen_schedule.h"

#include <math.h>

enum {
    HITS_A_TASK = 4096,
    FIRST_BLOCKS = 8,
    SAMPLE_SHARE = 16, /* one row in so many of a graph is counted first */
    MOST_SAMPLE = 2048,
    LEAST_GRAPH = 4096, /* points: fewer are not worth a sample */
    LEAST_CAPACITY = 64,
    SPARE_SHARE = 64,
    FIRST_CAPACITY = 1024
};
static const uint64_t MOST_MEMORY = UINT64_C(4) << 30;
static const uint64_t LEAST_MEMORY = 1u << 20;
static const uint64_t HIT_BYTES = 64u << 20;

int64_t kin_exact_gpu_radius_room(const kin_exact_gpu_radius_job *f)
{
    const uint64_t quarter = f->memory / 4;
    return (int64_t)((quarter < HIT_BYTES ? quarter : HIT_BYTES) / sizeof(kin_screen_gpu_hit));
}

/* ---- Hits to the host ----------------------------------------------------------------------- */

typedef struct offering {
    kin_exact_gpu_radius_job *f;
    const kin_screen_gpu_hit *hits;
    int64_t count;
} offering;

static kith_status offer_some(void *arg, int64_t task, int32_t thread)
{
    const offering *o = arg;
    const kin_exact_gpu_radius_job *f = o->f;
    const uint32_t *next = f->by_groups ? f->groups->next : NULL;
    const int64_t last = kin_min_i64((task + 1) * HITS_A_TASK, o->count);
    for (int64_t i = task * HITS_A_TASK; i < last; i++) {
        const kin_screen_gpu_hit *hit = &o->hits[i];
        uint32_t query = f->row0 + hit->query;
        do {
            KIN_TRY(kin_hits_offer(f->hits, thread, query, f->id0 + hit->first, hit->key));
            query = next != NULL ? next[query] : KITH_ID_NONE;
        } while (query != KITH_ID_NONE);
    }
    return KITH_OK;
}

kith_status kin_exact_gpu_radius_take(kin_exact_gpu_radius_job *f, const kin_screen_gpu_hit *hits,
                                      int64_t count, kin_screen_gpu_hit *host)
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
static double reach_of(const kin_exact_gpu_radius_job *f, const kin_screen_gpu_frame *frame,
                       uint32_t query, kin_bound_row row, kin_bound_row worst)
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
static double reach_of_group(const kin_exact_gpu_radius_job *f, const kin_screen_gpu_frame *frame,
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

/* Rows whose lists overflowed: number of candidates << 32 | row, so that sorting puts the largest
 * last. */
typedef struct rest {
    uint64_t *words;
    int64_t count;
    int64_t room;
} rest;

/* Rows against columns first .. first + count - 1. */
typedef struct part {
    const kin_screen_gpu_set *rows;
    int64_t first;
    int64_t count;
    int64_t capacity;
    bool both;
    bool counts_alone; /* nothing is delivered, nothing kept */
    rest *again;       /* NULL: no row may lose candidates */
} part;

/* What of the memory is for lists: half; a quarter for hits, an eighth for plans. */
static int64_t list_words(const kin_exact_gpu_radius_job *f)
{
    return (int64_t)(f->memory / 2 / sizeof(uint64_t));
}

typedef struct batch {
    kin_exact_gpu_radius_job *f;
    const kin_exact_gpu_radius_sets *what;
    kin_screen_gpu_work work; /* graph: rows are the columns, each pair serves both ends */
    int64_t room;             /* hits at a time */
    void *device;
    int64_t *device_places;
    kin_screen_gpu_hit *device_hits;
    void *host;
    double *reach;
    kin_screen_gpu_facts *facts;
    uint32_t *ids;
    int32_t *counts;
    int64_t *places;
    kin_screen_gpu_hit *hits;
} batch;

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
    const kin_screen_gpu_device *on = &b->f->on;
    KIN_TRY(kin_screen_gpu_work_make(&b->work, capacity, (int32_t)capacity));
    KIN_TRY(kin_gpu_layout_make(on->ctx, on->gpu, name_device, b, "neighbours within reach",
                                &b->device));
    return kin_layout_make(on->ctx, name_host, b, "neighbours within reach", &b->host);
}

static void free_batch(batch *b)
{
    const kin_screen_gpu_device *on = &b->f->on;
    kin_free(on->ctx, b->host);
    kin_gpu_free(on->gpu, b->device);
    kin_screen_gpu_work_free(&b->work);
}

/* Radii become reaches, and the worst of each tile. */
static kith_status set_reach(batch *b)
{
    kin_exact_gpu_radius_job *f = b->f;
    const kin_screen_gpu_device *on = &f->on;
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
    return kin_screen_gpu_work_worst(&b->work);
}

static kith_status screen_one_sided(const kin_screen_gpu_work *w)
{
    const int64_t end = kin_screen_gpu_tiles_of(w->cols.points);
    for (int64_t first = 0; first < end; first += w->size.stretch) {
        KIN_TRY(
            kin_screen_gpu_work_screen(w, first, kin_min_i64(end, first + w->size.stretch), false));
        KIN_TRY(kin_screen_gpu_work_pace(w, (double)first / (double)end));
    }
    return KITH_OK;
}

/* What shadows let pass says how far the next stretch may go; where it is too much, the rows
 * themselves are screened from now on. */
static kith_status watch_cast(kin_screen_gpu_work *w, int64_t length, uint64_t *before)
{
    uint64_t looked = 0;
    KIN_TRY(kin_gpu_download(w->on.ctx, w->on.gpu, &looked, &w->counters->looked, sizeof looked));
    const double passed = (double)(looked - *before);
    *before = looked;
    kin_screen_gpu_work_stretch(w, passed / (double)length);
    if (passed > w->cast_worth * (double)w->rows.padded * KIN_SCREEN_GPU_BLOCK * (double)length) {
        w->cast = (kin_screen_gpu_set){0};
    }
    return KITH_OK;
}

/* Each block against itself, one-sided since it has every pair twice; then each pair of blocks
 * once, for both ends, or the shadows of its rows. */
static kith_status screen_both(kin_screen_gpu_work *w, const kin_screen_gpu_prepared *points,
                               kin_screen_gpu_shadow *shadow)
{
    const int64_t end = kin_screen_gpu_offsets_end(w->rows.padded / KIN_SCREEN_GPU_BLOCK);
    uint64_t looked = 0;
    w->known = true;
    KIN_TRY(kin_screen_gpu_work_screen(w, 0, 1, false));
    KIN_TRY(kin_screen_gpu_shadow_make(w, points, 0, shadow));
    for (int64_t first = 1, last = 1; first < end; first = last) {
        const bool cast = w->cast.rounded != NULL;
        const int64_t stretch =
            cast ? kin_min_i64(w->size.stretch / 2, w->cast_stretch) : w->size.stretch / 2;
        last = kin_min_i64(end, first + stretch);
        KIN_TRY(kin_screen_gpu_work_screen(w, first, last, true));
        KIN_TRY(kin_screen_gpu_work_pace(w, (double)first / (double)end));
        if (cast) {
            KIN_TRY(watch_cast(w, last - first, &looked));
        }
    }
    if (w->cast.rounded != NULL) {
        w->on.ctx->report.shadow_axes = shadow->bytes ? w->cast.frame.cols : shadow->axes;
    }
    return KITH_OK;
}

static kith_status screen_all(batch *b)
{
    kin_exact_gpu_radius_job *f = b->f;
    const kin_screen_gpu_device *on = &f->on;
    const int64_t start = kin_clock_ns();
    kin_screen_gpu_shadow shadow = {0};
    const kith_status status = b->work.graph ? screen_both(&b->work, b->what->points, &shadow)
                                             : screen_one_sided(&b->work);
    b->work.cast = (kin_screen_gpu_set){0};
    kin_screen_gpu_shadow_free(on,
                               &shadow); /* whoever has the room next works behind what reads it */
    KIN_TRY(status);
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, b->counts, b->work.lists.counts,
                             (uint64_t)b->work.rows.points * sizeof *b->counts));
    KIN_TRY(kin_screen_gpu_work_tally(&b->work, &f->tally));
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
    kin_exact_gpu_radius_job *f = b->f;
    const kin_screen_gpu_device *on = &f->on;
    KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, b->device_places, b->places,
                           (uint64_t)(rows + 1) * sizeof *b->places));
    const kin_screen_gpu_hits job = {.set = b->work.rows,
                                     .cols_set = b->work.cols,
                                     .set_rows = *b->what->row_matrix,
                                     .cols_rows = *b->what->col_matrix,
                                     .lists = b->work.lists,
                                     .row0 = row0,
                                     .rows = rows,
                                     .places = b->device_places,
                                     .total = total,
                                     .hits = b->device_hits};
    KIN_TRY(KIN_SCREEN_LAUNCH(on, hits, &job, "computing canonical distances"));
    f->tally.keys += b->work.rows.frame.bound == KIN_BOUND_INTEGER ? 0.0 : (double)total;
    return kin_exact_gpu_radius_take(f, b->device_hits, total, b->hits);
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
static kith_status keep_rest(const batch *b, rest *again)
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

static kith_status collect(kin_exact_gpu_radius_job *f, const kin_exact_gpu_radius_sets *what,
                           part p)
{
    const kin_screen_gpu_set cols = kin_screen_gpu_set_part(&what->cols, p.first, p.count);
    batch b = {.f = f,
               .what = what,
               .work = {.on = f->on,
                        .rows = *p.rows,
                        .cols = cols,
                        .graph = p.both,
                        .col_worst = what->col_worst + p.first / KIN_SCREEN_GPU_TILE,
                        .size = kin_screen_gpu_sizes_known(f->on.gpu, p.rows->points, cols.points,
                                                           f->memory / 8)}};
    const uint64_t most = kin_size_mul((uint64_t)p.rows->points, (uint64_t)p.capacity);
    b.room = kin_max_i64(kin_exact_gpu_radius_room(f), p.capacity);
    b.room = (uint64_t)b.room < most ? b.room : (int64_t)most;
    kith_status status = make_batch(&b, p.capacity);
    KIN_THEN(status, set_reach(&b));
    KIN_THEN(status, screen_all(&b));
    if (!p.counts_alone) {
        KIN_THEN(status, deliver_all(&b));
        KIN_THEN(status, keep_rest(&b, p.again));
    }
    free_batch(&b);
    return status;
}

uint64_t kin_exact_gpu_radius_memory(const kin_screen_gpu_device *on)
{
    const uint64_t half = kin_gpu_room(on->gpu) / 2;
    const uint64_t some = half < MOST_MEMORY ? half : MOST_MEMORY;
    return some > LEAST_MEMORY ? some : LEAST_MEMORY;
}

/* Rows with lists of `wanted` places, or, where that is beyond the memory, with all columns in
 * parts that lists can hold. */
static kith_status run_rows(kin_exact_gpu_radius_job *f, const kin_exact_gpu_radius_sets *what,
                            const kin_screen_gpu_set *rows, int64_t wanted, rest *again)
{
    const int64_t columns = what->cols.points;
    const int64_t most = list_words(f) / rows->padded;
    part p = {.rows = rows, .count = columns, .again = again};
    if (wanted <= most || columns <= most) {
        p.capacity = kin_min_i64(wanted, kin_round_up(columns, 8));
        return collect(f, what, p);
    }
    const int64_t fit = kin_max_i64(most / KIN_SCREEN_GPU_BLOCK, 1) * KIN_SCREEN_GPU_BLOCK;
    p.again = NULL;
    for (p.first = 0; p.first < columns; p.first += fit) {
        p.count = kin_min_i64(fit, columns - p.first);
        p.capacity = kin_round_up(p.count, 8);
        KIN_TRY(collect(f, what, p));
    }
    return KITH_OK;
}

/* ---- Rows that lost candidates -------------------------------------------------------------- */

/* A set of these rows, rounded again; the hold gives it back. */
static kith_status choose_rows(const kin_exact_gpu_radius_job *f,
                               const kin_exact_gpu_radius_sets *what, const uint32_t *ids,
                               int64_t count, kin_screen_gpu_chosen *c, kin_hold *hold)
{
    const kin_screen_gpu_device *on = &f->on;
    *c = kin_screen_gpu_chosen_of(&what->rows.frame, count);
    c->set.worst = what->rows.worst;
    const kith_status made = kin_screen_gpu_chosen_make(on, c);
    kin_gpu_hold_take(hold, on->gpu, c->block);
    KIN_TRY(made);
    KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, c->ids, ids, (uint64_t)count * sizeof *ids));
    return kin_screen_gpu_chosen_round(on, what->row_matrix, c);
}

/* Rows of words[0 .. count). */
static kith_status run_chosen(kin_exact_gpu_radius_job *f, const kin_exact_gpu_radius_sets *what,
                              const uint64_t *words, int64_t count, int64_t wanted, rest *again)
{
    uint32_t *ids = NULL;
    kin_screen_gpu_chosen c = {0};
    KIN_HOLD(hold, f->on.ctx);
    KIN_NEW(&hold, ids, (uint64_t)count, "rows to screen again");
    for (int64_t i = 0; i < count; i++) {
        ids[i] = (uint32_t)words[i];
    }
    KIN_TRY(choose_rows(f, what, ids, count, &c, &hold));
    return run_rows(f, what, &c.set, wanted, again);
}

/* Rows with the largest numbers first; whole: lists of all columns. */
static kith_status run_again(kin_exact_gpu_radius_job *f, const kin_exact_gpu_radius_sets *what,
                             const rest *lost, bool whole, rest *again)
{
    kin_select_sort_words(lost->words, lost->count);
    f->tally.reruns += (double)lost->count;
    for (int64_t left = lost->count; left > 0;) {
        const int64_t counted = (int64_t)(lost->words[left - 1] >> 32);
        const int64_t wanted =
            whole ? kin_round_up(what->cols.points, 8)
                  : kin_round_up(counted + counted / SPARE_SHARE + LEAST_CAPACITY, 8);
        const int64_t blocks = list_words(f) / wanted / KIN_SCREEN_GPU_BLOCK;
        const int64_t count = kin_min_i64(left, kin_max_i64(blocks, 1) * KIN_SCREEN_GPU_BLOCK);
        KIN_TRY(run_chosen(f, what, lost->words + left - count, count, wanted, again));
        left -= count;
    }
    return KITH_OK;
}

/* Until no row has lost candidates. Costs of floats depend in their last bits on which end is the
 * row, so a number that was counted from the other end may be a little less than the row's own. */
static kith_status run_rest(kin_exact_gpu_radius_job *f, const kin_exact_gpu_radius_sets *what,
                            rest *lost)
{
    for (bool whole = false; lost->count > 0; whole = true) {
        rest next = {.room = lost->count};
        KIN_TRY(kin_alloc(f->on.ctx, &next.words, (uint64_t)next.room, sizeof *next.words,
                          "rows to screen again"));
        const kith_status status = run_again(f, what, lost, whole, &next);
        kin_free(f->on.ctx, lost->words);
        *lost = next;
        KIN_TRY(status);
    }
    return KITH_OK;
}

/* ---- All rows ------------------------------------------------------------------------------- */

/* Twice what rows had so far, and at least a little. */
static int64_t capacity_of(const kin_exact_gpu_radius_job *f)
{
    if (f->expected < 0.0) {
        return FIRST_CAPACITY;
    }
    return kin_round_up((int64_t)(2.0 * f->expected) + LEAST_CAPACITY, 8);
}

static int64_t rows_at_once(const kin_exact_gpu_radius_job *f, int64_t capacity)
{
    const int64_t blocks = list_words(f) / capacity / KIN_SCREEN_GPU_BLOCK;
    const int64_t most = f->expected < 0.0 ? kin_min_i64(blocks, FIRST_BLOCKS) : blocks;
    return kin_max_i64(most, 1) * KIN_SCREEN_GPU_BLOCK;
}

/* All rows of a graph at once, and those that lost candidates; other sets: positions first .. first
 * + count - 1. */
static kith_status run_stripe(kin_exact_gpu_radius_job *f, const kin_exact_gpu_radius_sets *what,
                              int64_t first, int64_t count, int64_t capacity, bool both)
{
    const kin_screen_gpu_set rows = kin_screen_gpu_set_part(&what->rows, first, count);
    const double before = f->candidates;
    rest again = {.room = count};
    const part all = {.rows = &rows,
                      .count = what->cols.points,
                      .capacity = capacity,
                      .both = true,
                      .again = &again};
    kith_status status = KITH_OK;
    KIN_TRY(kin_alloc(f->on.ctx, &again.words, (uint64_t)count, sizeof *again.words,
                      "rows to screen again"));
    KIN_TRY_GOTO(status, both ? collect(f, what, all) : run_rows(f, what, &rows, capacity, &again),
                 done);
    f->expected = (f->candidates - before) / (double)count;
    status = run_rest(f, what, &again);
done:
    kin_free(f->on.ctx, again.words);
    return status;
}

/* The same once more with less, as long as nothing was offered. */
static bool yields(kin_exact_gpu_radius_job *f, kith_status status, int64_t before)
{
    if (status != KITH_E_DEVICE_MEMORY || f->offered != before || f->memory <= LEAST_MEMORY) {
        return false;
    }
    kin_forgive(f->on.ctx);
    kin_gpu_trim(f->on.gpu);
    f->memory = f->memory / 2 > LEAST_MEMORY ? f->memory / 2 : LEAST_MEMORY;
    return true;
}

/* How many candidates rows of a graph have: a spread sample is counted. */
static kith_status count_sample(kin_exact_gpu_radius_job *f, const kin_exact_gpu_radius_sets *what)
{
    const kin_screen_gpu_device *on = &f->on;
    const int64_t points = what->rows.points;
    const int64_t count =
        kin_max_i64(KIN_SCREEN_GPU_BLOCK, kin_min_i64(points / SAMPLE_SHARE, MOST_SAMPLE));
    const double before = f->candidates;
    uint32_t *ids = NULL;
    kin_screen_gpu_chosen c = {0};
    KIN_HOLD(hold, on->ctx);
    KIN_NEW(&hold, ids, (uint64_t)points, "ids of a graph");
    KIN_TRY(
        kin_gpu_download(on->ctx, on->gpu, ids, what->rows.ids, (uint64_t)points * sizeof *ids));
    for (int64_t i = 0; i < count; i++) {
        ids[i] = ids[points * i / count];
    }
    KIN_TRY(choose_rows(f, what, ids, count, &c, &hold));
    const part all = {.rows = &c.set,
                      .count = what->cols.points,
                      .capacity = LEAST_CAPACITY,
                      .counts_alone = true};
    KIN_TRY(collect(f, what, all));
    f->expected = (f->candidates - before) / (double)count;
    return KITH_OK;
}

/* Both ends of each pair at once, where the lists of all rows fit. */
static kith_status find_both(kin_exact_gpu_radius_job *f, const kin_exact_gpu_radius_sets *what,
                             bool *found)
{
    const int64_t rows = what->rows.points;
    *found = false;
    if (rows < LEAST_GRAPH) {
        return KITH_OK;
    }
    KIN_TRY(count_sample(f, what));
    const int64_t capacity = capacity_of(f);
    if (capacity > list_words(f) / what->rows.padded) {
        return KITH_OK;
    }
    KIN_TRY(run_stripe(f, what, 0, rows, capacity, true));
    *found = true;
    return KITH_OK;
}

kith_status kin_exact_gpu_radius_screen(kin_exact_gpu_radius_job *f,
                                        const kin_exact_gpu_radius_sets *what)
{
    const int64_t rows = what->rows.points;
    if (what->cols.points == 0) {
        return KITH_OK;
    }
    if (what->graph) {
        const int64_t before = f->offered;
        bool found = false;
        const kith_status status = find_both(f, what, &found);
        if (found || (status != KITH_OK && !yields(f, status, before))) {
            return status;
        }
    }
    for (int64_t first = 0; first < rows;) {
        const int64_t before = f->offered;
        const int64_t capacity = capacity_of(f);
        const int64_t count = kin_min_i64(rows_at_once(f, capacity), rows - first);
        const kith_status status = run_stripe(f, what, first, count, capacity, false);
        if (yields(f, status, before)) {
            continue;
        }
        KIN_TRY(status);
        first += count;
        KIN_TRY(kin_progress(f->on.ctx, "screen", (double)first, (double)rows));
    }
    return KITH_OK;
}
