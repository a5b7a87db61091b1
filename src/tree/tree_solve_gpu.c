/* SPDX-License-Identifier: Apache-2.0
 *
 *      places -> walk -> lists -> finish: canonical keys, a batch at a time -> answers
 *                  |
 *                  lost: those places again, with more room, and at last canonical keys of all
 * pairs
 *
 * A list loses something where more points lie within the slack of float32 distances than it has
 * room for: ties, clusters finer than float32. It is few rows that do.
 *
 * Memory. Of a first walk: 8 bytes a candidate, of which there are an eighth more than wanted, or
 * twice as many (kin_tree_gpu_list_room). Of the walks after it: a quarter of the scope.
 */
#include "tree/tree_gpu.h"

#include "host/host_clock.h"
#include "host/host_threads.h"

#include <math.h>

enum { ROOM_A_NEIGHBOUR = 4, ROOM = 256, MOST_ROOM = 8192, TRIES = 2 };
enum { LEAST_PLACES = KIN_SCREEN_GPU_BLOCK };
enum { LEAST_SLICE = 1 << 16, MOST_SLICE = 1 << 20, MOST_GROWTH = 16 };
static const double SLICE_NS = 2e8;

/* Rows whose lists lost something, in host memory. */
typedef struct rest {
    uint32_t *ids;
    int64_t count;
    int64_t room;
} rest;

kith_status kin_tree_gpu_solver_make(kin_hold *hold, kin_tree_gpu_solver *s)
{
    s->kernels = s->on.gpu->module->tree;
    KIN_GPU_NEW(hold, s->on.gpu, s->counters, 1, "counters");
    return kin_gpu_fill(s->on.ctx, s->on.gpu, s->counters, 0, sizeof *s->counters);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* A short list is sorted and needs room for ties alone, of which whole numbers have many; shared
 * memory has better uses. A long one is squeezed when it is full, seldom where it has twice the
 * room. */
enum { SPARE = 4, SHARE = 8, SPARE_OF_BYTES = 16, LONG_SPARE = 64 };

int32_t kin_tree_gpu_list_room(kith_dtype dtype, int64_t wanted, int32_t most_short)
{
    const int64_t least = kin_round_up(wanted + kin_max_i64(wanted / SHARE, SPARE), SPARE);
    const int64_t tied = kin_min_i64(2 * wanted + SPARE_OF_BYTES, most_short);
    if (least <= most_short) {
        return (int32_t)(kith_dtype_bytes(dtype) == 1 ? kin_max_i64(least, tied) : least);
    }
    return (int32_t)kin_round_up(2 * wanted + LONG_SPARE, KIN_TREE_LANES);
}

int32_t kin_tree_gpu_capacity(const kin_tree_gpu_solver *s)
{
    return kin_tree_gpu_list_room(s->corpus->rows.dtype, s->wanted,
                                  s->kernels->walk_short(s->on.stream));
}

/* Of so many places. */
typedef struct lists_of {
    kin_tree_gpu_lists *lists;
    int64_t places;
} lists_of;

static void name_lists(kin_layout *layout, void *job)
{
    const lists_of *of = job;
    kin_tree_gpu_lists *lists = of->lists;
    const uint64_t n = (uint64_t)kin_round_up(of->places, KIN_TREE_GPU_PACKET);
    const uint64_t list = (uint64_t)lists->capacity * sizeof *lists->words;
    lists->words = kin_layout_array(layout, n, list);
    lists->counts = kin_layout_array(layout, n, sizeof *lists->counts);
    lists->lost = kin_layout_array(layout, n, sizeof *lists->lost);
}

static uint64_t lists_bytes(int64_t places, int32_t capacity)
{
    kin_tree_gpu_lists lists = {.capacity = capacity};
    lists_of of = {.lists = &lists, .places = places};
    return kin_gpu_layout_bytes(name_lists, &of);
}

/* ---- Rows that ask --------------------------------------------------------------------------- */

static void name_asked(kin_layout *layout, void *job)
{
    kin_tree_gpu_asked *a = job;
    const uint64_t n = (uint64_t)a->count;
    a->ids = a->listed ? kin_layout_array(layout, n, sizeof *a->ids) : NULL;
    if (a->rounds) {
        a->rounded = kin_layout_array(layout, n, (uint64_t)a->wide * sizeof *a->rounded);
        a->lost = kin_layout_array(layout, n, sizeof *a->lost);
    }
    a->order = a->ordered ? kin_layout_array(layout, n, sizeof *a->order) : NULL;
}

/* Of so many in an order; what finding it takes of each is at most two words and a histogram. */
uint64_t kin_tree_gpu_places_bytes(int64_t count, int32_t cols, int32_t capacity)
{
    enum { ORDER_BYTES = 24 };
    kin_tree_gpu_asked a = {
        .count = count, .wide = kin_tree_gpu_wide(cols), .rounds = true, .ordered = true};
    return kin_size_add(lists_bytes(count, capacity),
                        kin_size_add(kin_gpu_layout_bytes(name_asked, &a),
                                     kin_size_mul((uint64_t)count, ORDER_BYTES)));
}

static kith_status round_rows(const kin_tree_gpu_solver *s, const kin_screen_gpu_rows *rows,
                              const kin_tree_gpu_asked *a)
{
    const kin_tree_gpu *tree = s->tree;
    const kin_tree_gpu_round job = {.rows = *rows,
                                    .ids = a->ids,
                                    .count = a->count,
                                    .wide = tree->wide,
                                    .norm = tree->norm,
                                    .scale = tree->scale,
                                    .slack = tree->slack,
                                    .shift = tree->shift,
                                    .out = a->rounded,
                                    .lost = a->lost};
    return KIN_ROOM_LAUNCH(s, round, &job, "rounding queries");
}

/* As they stand. */
static kith_status number_rows(const kin_tree_gpu_solver *s, const kin_tree_gpu_asked *a)
{
    uint32_t *numbers = NULL;
    KIN_HOLD(hold, s->on.ctx);
    KIN_NEW(&hold, numbers, (uint64_t)a->count, "numbers of rows");
    for (int64_t i = 0; i < a->count; i++) {
        numbers[i] = (uint32_t)i;
    }
    return kin_gpu_upload(s->on.ctx, s->on.gpu, a->order, numbers,
                          (uint64_t)a->count * sizeof *numbers);
}

static kith_status order_rows(const kin_tree_gpu_solver *s, const kin_tree_gpu_asked *a)
{
    if (a->plain) {
        return number_rows(s, a);
    }
    uint64_t bytes = 0;
    kin_tree_gpu_order job = {
        .tree = *s->tree, .rows = a->rounded, .count = a->count, .scratch_bytes = &bytes};
    KIN_TRY(KIN_ROOM_LAUNCH(s, order, &job, "sizing the order of queries"));
    KIN_HOLD(hold, s->on.ctx);
    KIN_TRY(kin_gpu_hold_alloc(&hold, s->on.gpu, &job.scratch, bytes, "sorting queries"));
    job.order = a->order;
    return KIN_ROOM_LAUNCH(s, order, &job, "sorting queries");
}

kith_status kin_tree_gpu_ask(const kin_tree_gpu_solver *s, kin_hold *hold,
                             const kin_screen_gpu_rows *rows, const uint32_t *ids,
                             kin_tree_gpu_asked *a)
{
    kin_gpu *gpu = s->on.gpu;
    a->listed = ids != NULL;
    a->rounds = rows != NULL;
    a->wide = s->tree->wide;
    KIN_TRY(kin_gpu_hold_layout(hold, gpu, name_asked, a, "rows that ask"));
    if (a->listed) {
        KIN_TRY(kin_gpu_upload(s->on.ctx, gpu, a->ids, ids, (uint64_t)a->count * sizeof *ids));
    }
    if (rows != NULL) {
        KIN_TRY(round_rows(s, rows, a));
    }
    return a->ordered ? order_rows(s, a) : KITH_OK;
}

/* ---- A walk ---------------------------------------------------------------------------------- */

kith_status kin_tree_gpu_read_counters(kin_tree_gpu_solver *s, uint64_t *third)
{
    kin_tree_gpu_counters seen;
    KIN_TRY(kin_gpu_download(s->on.ctx, s->on.gpu, &seen, s->counters, sizeof seen));
    KIN_TRY(kin_gpu_fill(s->on.ctx, s->on.gpu, s->counters, 0, sizeof *s->counters));
    s->tally.pairs += (double)seen.met[0];
    s->tally.keys += (double)seen.keys;
    *third = seen.met[2];
    return KITH_OK;
}

/* Nothing is known of the first slice's time, which grows with what is wanted and with columns. */
static int64_t first_slice(const kin_tree_gpu_solver *s)
{
    enum { PLACES = 1 << 26 };
    const int64_t places = PLACES / ((int64_t)s->wanted * s->tree->cols);
    return kin_round_up(kin_max_i64(LEAST_SLICE, kin_min_i64(places, MOST_SLICE)),
                        KIN_TREE_GPU_PACKET);
}

/* The next slices, and those of the solver's next walks, take about as long as somebody who wants
 * to stop the job will wait. */
static kith_status walk_slices(kin_tree_gpu_solver *s, const kin_tree_gpu_walk *whole)
{
    kith_ctx *ctx = s->on.ctx;
    kin_tree_gpu_walk job = *whole;
    s->slice = s->slice != 0 ? s->slice : first_slice(s);
    for (job.place0 = 0; job.place0 < whole->count; job.place0 += job.count) {
        const int64_t start = kin_clock_ns();
        job.count = kin_min_i64(s->slice, whole->count - job.place0);
        KIN_TRY(KIN_ROOM_LAUNCH(s, walk, &job, "walking through a tree"));
        if (job.place0 + job.count < whole->count) {
            KIN_TRY(kin_gpu_wait(ctx, s->on.gpu));
            KIN_TRY(kin_progress(ctx, "screen", (double)job.place0, (double)whole->count));
            const double ns = (double)(kin_clock_ns() - start) / (double)job.count;
            const double most = (double)s->slice * MOST_GROWTH;
            s->slice =
                kin_round_up((int64_t)fmax(1.0, fmin(SLICE_NS / ns, most)), KIN_TREE_GPU_PACKET);
        }
    }
    return KITH_OK;
}

/* lost: places whose lists lost something. */
static kith_status walk_places(kin_tree_gpu_solver *s, kin_hold *hold,
                               const kin_tree_gpu_places *places, kin_tree_gpu_lists *lists,
                               uint64_t *lost)
{
    lists_of of = {.lists = lists, .places = places->count};
    *lists = (kin_tree_gpu_lists){.wanted = s->wanted,
                                  .capacity = places->capacity != 0 ? places->capacity
                                                                    : kin_tree_gpu_capacity(s)};
    KIN_TRY(kin_gpu_hold_layout(hold, s->on.gpu, name_lists, &of, "candidate lists"));
    const kin_tree_gpu_walk job = {.tree = *s->tree,
                                   .rows = places->rounded,
                                   .row_lost = places->lost,
                                   .order = places->order,
                                   .count = places->count,
                                   .lists = *lists,
                                   .met = s->counters->met};
    const kin_tree_gpu_way *way = kin_tree_gpu_way_of(s->request);
    KIN_TRY(way != NULL ? way->walk(s, &job) : walk_slices(s, &job));
    return kin_tree_gpu_read_counters(s, lost);
}

kith_status kin_tree_gpu_look(kin_tree_gpu_solver *s, const kin_tree_gpu_places *places)
{
    kin_tree_gpu_lists lists;
    uint64_t lost = 0;
    KIN_HOLD(hold, s->on.ctx);
    return walk_places(s, &hold, places, &lists, &lost);
}

/* ---- What lists have lost -------------------------------------------------------------------- */

static kith_status grow(kith_ctx *ctx, rest *r, int64_t more)
{
    if (r->count + more <= r->room) {
        return KITH_OK;
    }
    rest larger = {.count = r->count, .room = kin_max_i64(r->count + more, 2 * r->room)};
    KIN_TRY(kin_alloc(ctx, &larger.ids, (uint64_t)larger.room, sizeof *larger.ids,
                      "rows to solve again"));
    if (r->count > 0) {
        memcpy(larger.ids, r->ids, (size_t)r->count * sizeof *r->ids);
    }
    kin_free(ctx, r->ids);
    *r = larger;
    return KITH_OK;
}

/* flags: room for one by place, in host memory. */
static kith_status collect(const kin_tree_gpu_solver *s, const kin_tree_gpu_places *places,
                           const kin_tree_gpu_lists *lists, uint64_t lost, uint8_t *flags, rest *r)
{
    kith_ctx *ctx = s->on.ctx;
    const uint64_t n = (uint64_t)places->count;
    uint32_t *ids = NULL;
    KIN_HOLD(hold, ctx);
    KIN_TRY(grow(ctx, r, (int64_t)lost));
    KIN_TRY(kin_gpu_download(ctx, s->on.gpu, flags, lists->lost, n));
    KIN_NEW(&hold, ids, n, "rows to solve again");
    KIN_TRY(kin_gpu_download(ctx, s->on.gpu, ids, places->ids, n * sizeof *ids));
    for (int64_t p = 0; p < places->count && r->count < r->room; p++) {
        if (flags[p] != 0 && ids[p] != KITH_ID_NONE) {
            r->ids[r->count++] = ids[p];
        }
    }
    return KITH_OK;
}

/* ---- A walk and its answers ------------------------------------------------------------------ */

/* Whether the answers of short lists are written where their keys are computed. */
static bool writes_at_once(const kin_exact_gpu_answers *a, const kin_tree_gpu_lists *lists)
{
    return a->kernels_write && lists->capacity <= KIN_TREE_GPU_SHORT;
}

static kith_status finish_lists(kin_tree_gpu_solver *s, kin_exact_gpu_answers *a,
                                const kin_tree_gpu_places *places, const kin_tree_gpu_lists *lists,
                                kin_exact_gpu_delivery *d, const uint8_t *flags)
{
    for (int64_t place0 = 0; place0 < places->count; place0 += d->most) {
        const int64_t count = kin_min_i64(d->most, places->count - place0);
        kin_tree_gpu_finish job = {.tree = *s->tree,
                                   .queries = places->rows,
                                   .corpus = s->corpus->rows,
                                   .order = places->ids,
                                   .lists = *lists,
                                   .place0 = place0,
                                   .count = count,
                                   .pairs = d->pairs,
                                   .counts = d->counts,
                                   .keys = &s->counters->keys,
                                   .near = places->near};
        if (writes_at_once(a, lists)) {
            job.answers = kin_exact_gpu_answers_job(a, places->ids + place0, count);
        }
        KIN_TRY(KIN_ROOM_LAUNCH(s, finish, &job, "computing canonical distances"));
        KIN_TRY(job.answers.rows != 0
                    ? KITH_OK
                    : kin_exact_gpu_delivery_run(a, d, places->ids + place0, count,
                                                 flags == NULL ? NULL : flags + place0));
        KIN_TRY(kin_progress(s->on.ctx, "screen", (double)place0, (double)places->count));
    }
    return KITH_OK;
}

/* Room for rows near each other, where so many places ask that bringing them there pays. */
static kith_status find_near(const kin_tree_gpu_solver *s, kin_hold *hold,
                             const kin_tree_gpu_lists *lists, kin_tree_gpu_places *places)
{
    const kin_screen_gpu_rows *rows = &s->corpus->rows;
    const int64_t positions = s->tree->blocks * KIN_TREE_LANES;
    const uint64_t bytes =
        kin_tree_gpu_near_bytes(rows->dtype, rows->cols, rows->metric, positions);
    if (bytes == 0 || lists->capacity > KIN_TREE_GPU_SHORT ||
        places->count < kin_tree_gpu_many(s->tree->points)) {
        return KITH_OK;
    }
    const kith_status status =
        kin_gpu_hold_alloc(hold, s->on.gpu, &places->near, bytes, "rows near each other");
    if (status == KITH_E_DEVICE_MEMORY) { /* then they are read where they are */
        kin_forgive(s->on.ctx);
        places->near = NULL;
        return KITH_OK;
    }
    return status;
}

/* Rows that lost something go to r. What fails leaves r as it was, and may be done again. */
static kith_status solve_lists(kin_tree_gpu_solver *s, kin_exact_gpu_answers *a,
                               const kin_tree_gpu_places *asked, rest *r)
{
    kin_tree_gpu_places own = *asked;
    const kin_tree_gpu_places *places = &own;
    kith_report *report = &s->on.ctx->report;
    int64_t start = kin_clock_ns();
    kin_tree_gpu_lists lists;
    kin_exact_gpu_delivery d = {.most = places->count};
    uint8_t *flags = NULL;
    uint64_t lost = 0;
    const int64_t before = r->count;
    kith_status status = KITH_OK;
    KIN_HOLD(hold, s->on.ctx);
    KIN_TRY_GOTO(status, walk_places(s, &hold, places, &lists, &lost), done);
    report->seconds_screen += kin_clock_since(start);
    start = kin_clock_ns();
    KIN_TRY_GOTO(status, find_near(s, &hold, &lists, &own), done);
    if (!writes_at_once(a, &lists)) {
        KIN_TRY_GOTO(status, kin_exact_gpu_delivery_make(&hold, a, places->count, s->wanted, &d),
                     done);
    }
    if (lost > 0) {
        KIN_TRY_GOTO(status, kin_hold_alloc(&hold, &flags, (uint64_t)places->count, 1, "row flags"),
                     done);
        KIN_TRY_GOTO(status, collect(s, places, &lists, lost, flags, r), done);
    }
    KIN_TRY_GOTO(status, finish_lists(s, a, places, &lists, &d, flags), done);
    KIN_TRY_GOTO(status, kin_tree_gpu_read_counters(s, &lost), done);
    report->seconds_rescore += kin_clock_since(start);
done:
    r->count = status == KITH_OK ? r->count : before;
    return status;
}

/* Some rows of places, by ids in host memory. */
static kith_status solve_part(kin_tree_gpu_solver *s, kin_exact_gpu_answers *a,
                              const kin_tree_gpu_places *places, const uint32_t *ids, int64_t count,
                              rest *r)
{
    const bool rounded = places->rounded != NULL;
    kin_tree_gpu_asked asked = {.count = count};
    kin_tree_gpu_places part = *places;
    KIN_HOLD(hold, s->on.ctx);
    KIN_TRY(kin_tree_gpu_ask(s, &hold, rounded ? NULL : &places->rows, ids, &asked));
    part.ids = asked.ids;
    part.order = rounded ? asked.ids : NULL;
    part.rounded = rounded ? places->rounded : asked.rounded;
    part.lost = rounded ? places->lost : asked.lost;
    part.count = count;
    return solve_lists(s, a, &part, r);
}

/* Places that a quarter of the scope holds, lists and rounded rows. */
static int64_t part_of(const kin_tree_gpu_solver *s, const kin_tree_gpu_places *places)
{
    const int32_t capacity = places->capacity != 0 ? places->capacity : kin_tree_gpu_capacity(s);
    const uint64_t a_place = lists_bytes(KIN_TREE_GPU_PACKET, capacity) / KIN_TREE_GPU_PACKET +
                             ((uint64_t)s->tree->wide + 2) * sizeof(float) +
                             (uint64_t)s->wanted * sizeof(kin_screen_gpu_pair);
    const uint64_t fit = kin_gpu_scope(s->on.gpu) / 4 / a_place;
    const int64_t most = fit < INT32_MAX ? (int64_t)fit : INT32_MAX;
    return kin_max_i64(most / LEAST_PLACES, 1) * LEAST_PLACES;
}

/* As many at a time as fit; halved where memory ends. */
static kith_status solve_parts(kin_tree_gpu_solver *s, kin_exact_gpu_answers *a,
                               const kin_tree_gpu_places *places, const uint32_t *ids,
                               int64_t count, rest *r)
{
    int64_t most = part_of(s, places);
    for (int64_t first = 0; first < count;) {
        const int64_t part = kin_min_i64(most, count - first);
        const kith_status status = solve_part(s, a, places, ids + first, part, r);
        if (status == KITH_E_DEVICE_MEMORY && part > LEAST_PLACES) {
            kin_forgive(s->on.ctx);
            kin_gpu_trim(s->on.gpu);
            most = kin_round_up(kin_ceil_div(part, 2), LEAST_PLACES);
            continue;
        }
        KIN_TRY(status);
        first += part;
    }
    return KITH_OK;
}

/* ---- Again, with more room ------------------------------------------------------------------- */

/* Room of a try, which is of no use beyond the points that there are. */
static int32_t room_of(const kin_tree_gpu_solver *s, int attempt)
{
    const int64_t wished =
        attempt == 0 ? (int64_t)ROOM_A_NEIGHBOUR * s->wanted + ROOM : (int64_t)MOST_ROOM;
    const int64_t useful = kin_round_up(s->tree->points + 1, KIN_TREE_LANES);
    return (int32_t)kin_min_i64(wished, kin_max_i64(useful, s->wanted + KIN_TREE_LANES));
}

/* In the end by canonical keys of all pairs, so this always ends; also where memory is too short
 * for lists with more room. */
static kith_status solve_rest(kin_tree_gpu_solver *s, kin_exact_gpu_answers *a,
                              const kin_tree_gpu_places *places, rest *r)
{
    kith_ctx *ctx = s->on.ctx;
    kin_tree_gpu_places again = *places;
    kith_status status = KITH_OK;
    again.capacity = kin_tree_gpu_capacity(s);
    s->slice = 0; /* longer lists take longer */
    s->tally.reruns += (double)r->count;
    for (int attempt = 0; attempt < TRIES && r->count > 0 && status == KITH_OK; attempt++) {
        const int32_t room = room_of(s, attempt);
        rest next = {0};
        if (room <= again.capacity) {
            continue;
        }
        again.capacity = room;
        status = solve_parts(s, a, &again, r->ids, r->count, &next);
        rest *old = status == KITH_OK ? r : &next;
        kin_free(ctx, old->ids);
        if (status == KITH_OK) {
            *r = next;
        }
    }
    if (status == KITH_E_DEVICE_MEMORY) {
        kin_forgive(ctx);
        kin_gpu_trim(s->on.gpu);
        status = KITH_OK;
    }
    KIN_TRY(status);
    return r->count == 0
               ? KITH_OK
               : kin_exact_gpu_answers_solve(a, &places->rows, &s->corpus->rows, r->ids, r->count);
}

/* The rows of places, without holes. */
static kith_status read_ids(const kin_tree_gpu_solver *s, const kin_tree_gpu_places *places,
                            uint32_t *ids, int64_t *count)
{
    KIN_TRY(kin_gpu_download(s->on.ctx, s->on.gpu, ids, places->ids,
                             (uint64_t)places->count * sizeof *ids));
    *count = 0;
    for (int64_t p = 0; p < places->count; p++) {
        if (ids[p] != KITH_ID_NONE) {
            ids[(*count)++] = ids[p];
        }
    }
    return KITH_OK;
}

kith_status kin_tree_gpu_solve(kin_tree_gpu_solver *s, kin_exact_gpu_answers *a,
                               const kin_tree_gpu_places *places, bool parts)
{
    rest r = {0};
    uint32_t *ids = NULL;
    int64_t count = 0;
    kith_status status = KITH_OK;
    KIN_HOLD(hold, s->on.ctx);
    if (parts) {
        KIN_NEW(&hold, ids, (uint64_t)places->count, "the order of the points");
        KIN_TRY(read_ids(s, places, ids, &count));
        status = solve_parts(s, a, places, ids, count, &r);
    } else {
        status = solve_lists(s, a, places, &r);
    }
    KIN_THEN(status, solve_rest(s, a, places, &r));
    kin_free(s->on.ctx, r.ids);
    return status;
}
