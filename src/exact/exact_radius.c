/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A radius is a reach that is known from the start: the screen of exact_screen.h with limits
 * that never change, so without lists, locks and compaction. A piece of work takes one block of
 * queries against a strip of blocks of points; what survives the kernel gets canonical keys, and
 * what is within the radius by them is a hit.
 *
 *      queries I | points J .. J + STRIP - 1     kernel -> log -> survivors -> keys -> hits
 *
 * Where each row of a graph is asked for later ones alone, the points' own set has both parts, and
 * each unordered pair of blocks meets once: what is within the radius of one end is within that of
 * the other.
 *
 * Why it is right. The limit of a query contains every pair whose canonical distance is within its
 * radius (exact_bound.h, with the key of the radius in the place of the k-th key); the test that
 * decides is on the canonical distance itself, so equality is kept to the last bit.
 *
 * Memory. Survivors of a thread are worked off when there are SURVIVORS of them; hits are kept.
 */
#include "exact/exact_search.h"

#include "base/base_size.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

enum { STRIP = 16, CHUNK_PANELS = KIN_FINE_STEP / KIN_PANEL, SURVIVORS = 1 << 15 };
/* Direct metrics: one query and a range of the corpus. */
enum { RANGE = 16384, KEYS = 256, USUAL_K = 10 };

typedef struct worker {
    int32_t thread;
    uint32_t *rows; /* a repacked block of queries */
    kin_word *limit;
    kin_word *half;
    kin_word *panel_half;
    kin_word *test;
    double *reach;
    double *tile_reach; /* the largest of each coarse tile of queries */
    kin_tile_log log;
    uint64_t *survivors; /* query position above, point position below */
    int64_t survivor_count;
    double *query;
    uint32_t *ids;
    double *keys;
    int64_t keys_computed;
    int64_t pairs;
    int64_t skipped;
} worker;

typedef struct run {
    kith_ctx *ctx;
    kin_hold *hold;
    const kin_radius_request *request;
    const kin_prepared *corpus;
    const kin_prepared *queries; /* the corpus itself: positions meet once, groups are asked */
    kin_hits hits;
    const kin_round_ops *ops;
    kin_bound_row *worst; /* by block of points */
    int64_t block;
    int64_t row_blocks;
    int64_t point_blocks;
    int64_t ranges; /* direct metrics: a query's corpus is cut into this many */
    worker *workers;
} run;

/* ---- Reach ---------------------------------------------------------------------------------- */

static double reach_of(const run *r, int64_t position)
{
    const kin_frame *frame = &r->corpus->frame;
    const kith_metric metric = frame->distance.metric;
    const uint32_t id = r->queries->set.ids[position];
    const double key = kin_radius_key(metric, kin_radius_of(r->request, id));
    if (frame->bound == KIN_BOUND_INTEGER) {
        return metric == KITH_INNER_PRODUCT ? 2.0 * key : key;
    }
    return kin_bound_reach_of_key(frame->bound, key, frame->key_scale, frame->scale,
                                  kin_set_row(&r->queries->set, position), r->corpus->set.worst);
}

/* ---- Survivors ------------------------------------------------------------------------------ */

static bool meets_once(const run *r)
{
    return r->queries == r->corpus;
}

/* The next id of the query's group, which is asked alike; KITH_ID_NONE behind the last. */
static uint32_t next_like(const run *r, uint32_t query)
{
    const uint32_t *next = meets_once(r) ? r->corpus->groups.next : NULL;
    return next != NULL ? next[query] : KITH_ID_NONE;
}

static kith_status offer(run *r, const worker *w, uint32_t query, uint32_t first, double key)
{
    for (; query != KITH_ID_NONE; query = next_like(r, query)) {
        KIN_TRY(kin_hits_offer(&r->hits, w->thread, query, first, key));
    }
    return KITH_OK;
}

static kith_status offer_keys(run *r, worker *w, uint32_t query, int64_t count)
{
    const kin_distance *distance = &r->request->distance;
    const kin_query loaded = kin_metric_load(distance, &r->queries->rows, query, w->query);
    kin_metric_keys(distance, &loaded, &r->corpus->rows, w->ids, count, w->keys);
    w->keys_computed += count;
    for (int64_t i = 0; i < count; i++) {
        KIN_TRY(offer(r, w, query, w->ids[i], w->keys[i]));
    }
    return KITH_OK;
}

/* Canonical keys of all survivors, query by query. */
static kith_status work_off(run *r, worker *w)
{
    kin_select_sort_words(w->survivors, w->survivor_count);
    for (int64_t first = 0, last = 0; first < w->survivor_count; first = last) {
        const uint64_t position = w->survivors[first] >> 32;
        int64_t count = 0;
        for (last = first;
             last < w->survivor_count && w->survivors[last] >> 32 == position && count < KEYS;
             last++) {
            w->ids[count++] = r->corpus->set.ids[w->survivors[last] & UINT32_MAX];
        }
        KIN_TRY(offer_keys(r, w, r->queries->set.ids[position], count));
    }
    w->survivor_count = 0;
    return KITH_OK;
}

/* Costs of integer units are keys. */
static double key_of_cost(const run *r, int32_t cost)
{
    return r->request->distance.metric == KITH_INNER_PRODUCT ? (double)cost / 2 : (double)cost;
}

static kith_status take_pair(run *r, worker *w, int64_t row, int64_t point, int32_t cost)
{
    if (r->corpus->frame.bound == KIN_BOUND_INTEGER) {
        return offer(r, w, r->queries->set.ids[row], r->corpus->set.ids[point],
                     key_of_cost(r, cost));
    }
    w->survivors[w->survivor_count++] = (uint64_t)row << 32 | (uint64_t)point;
    return KITH_OK;
}

/* Of two positions of one set that meet once the one with the smaller id asks; the other one, too,
 * where it has ids like it that may be smaller. */
static kith_status take_once(run *r, worker *w, int64_t row, int64_t point, int32_t cost)
{
    const uint32_t *ids = r->corpus->set.ids;
    const bool turned = ids[point] < ids[row];
    const int64_t asks = turned ? point : row;
    const int64_t other = turned ? row : point;
    if (row > point) {
        return KITH_OK; /* of a block and itself */
    }
    KIN_TRY(take_pair(r, w, asks, other, cost));
    return row != point && next_like(r, ids[asks]) != KITH_ID_NONE
               ? take_pair(r, w, other, asks, cost)
               : KITH_OK;
}

static kith_status take_log(run *r, worker *w, int64_t row_first, int64_t point_first)
{
    const bool once = meets_once(r);
    for (int64_t i = 0; i < w->log.count; i++) {
        const int64_t row = row_first + (w->log.pair[i] >> 16);
        const int64_t point = point_first + (w->log.pair[i] & 0xffff);
        const int32_t cost = w->log.order[i];
        KIN_TRY(once ? take_once(r, w, row, point, cost) : take_pair(r, w, row, point, cost));
    }
    w->log.count = 0;
    return w->survivor_count >= SURVIVORS ? work_off(r, w) : KITH_OK;
}

/* ---- One pair of blocks --------------------------------------------------------------------- */

typedef struct meeting {
    int64_t row_first;
    int64_t rows;
    int64_t point_first;
    int64_t points;
    bool covered;
} meeting;

static void set_limits(const run *r, worker *w, const meeting *m)
{
    const kin_frame *frame = &r->corpus->frame;
    const bool is_float = kin_tile_is_float(frame->kernel->type);
    const kin_bound_row worst = r->worst[m->point_first / r->block];
    for (int64_t i = 0; i < m->rows; i++) {
        const double limit =
            kin_bound_limit(frame->bound, w->reach[i], frame->kappa,
                            kin_set_row(&r->queries->set, m->row_first + i), worst);
        kin_limit_set(is_float, limit, &w->limit[i], &w->half[i]);
    }
    for (int64_t i = m->rows; i < kin_round_up(m->rows, KIN_BLOCK_STEP); i++) {
        kin_limit_close(is_float, &w->limit[i], &w->half[i]);
    }
}

static bool apart(const run *r, const worker *w, const meeting *m, int64_t row, int64_t point)
{
    const kin_cover_tile rows = {&r->queries->cover, (m->row_first + row) / KIN_COARSE_STEP};
    const kin_cover_tile points = {&r->corpus->cover, (m->point_first + point) / KIN_FINE_STEP};
    return m->covered && kin_cover_apart(&r->queries->set, r->ops, rows, points,
                                         w->tile_reach[row / KIN_COARSE_STEP]);
}

/* Rows [first, last) of the block against one fine tile of points. */
static void run_rows(const run *r, worker *w, const meeting *m, int64_t first, int64_t last,
                     kin_tile_job *job)
{
    const kin_set *queries = &r->queries->set;
    job->first_row = (int32_t)first;
    job->row_count = (int32_t)kin_round_up(last - first, r->corpus->frame.kernel->tile_rows);
    job->real_rows = (int32_t)(last - first);
    job->rows = w->rows + first * r->corpus->frame.groups;
    job->half_term = queries->half_term + m->row_first + first;
    job->row_term = queries->row_term + m->row_first + first;
    job->row_limit = w->limit + first;
    job->row_half = w->half + first;
    r->corpus->frame.kernel->run(job);
}

/* Neighbouring tiles of rows that are not too far share a call. */
static void run_tile(const run *r, worker *w, const meeting *m, int64_t point, kin_tile_job *job)
{
    int64_t first = 0;
    job->first_panel = (int32_t)(point / KIN_PANEL);
    for (int64_t row = 0; m->covered && row < m->rows; row += KIN_COARSE_STEP) {
        if (apart(r, w, m, row, point)) {
            if (row > first) {
                run_rows(r, w, m, first, row, job);
            }
            first = row + KIN_COARSE_STEP;
            w->skipped += (int64_t)KIN_COARSE_STEP * KIN_FINE_STEP;
        }
    }
    if (m->rows > first) {
        run_rows(r, w, m, first, m->rows, job);
    }
}

static kith_status meet(run *r, worker *w, const meeting *m)
{
    const kin_set *points = &r->corpus->set;
    set_limits(r, w, m);
    kin_tile_job job = {
        .panels = points->panels + m->point_first * r->corpus->frame.groups,
        .groups = r->corpus->frame.groups,
        .panel_count = CHUNK_PANELS,
        .start = points->start + m->point_first,
        .odd = points->odd + m->point_first,
        .col_limit = w->limit, /* of no use: columns are not collected */
        .panel_half = w->panel_half,
        .test = w->test,
        .row_log = &w->log,
    };
    w->pairs += m->rows * m->points;
    for (int64_t point = 0; point < m->points; point += KIN_FINE_STEP) {
        run_tile(r, w, m, point, &job);
        KIN_TRY(take_log(r, w, m->row_first, m->point_first));
    }
    return KITH_OK;
}

static void begin_block(const run *r, worker *w, meeting *m)
{
    const kin_set *queries = &r->queries->set;
    const int32_t groups = r->corpus->frame.groups;
    r->corpus->frame.kernel->pack(queries->panels + m->row_first * groups, groups,
                                  (int32_t)kin_round_up(m->rows, KIN_BLOCK_STEP), w->rows);
    for (int64_t i = 0; i < m->rows; i++) {
        double *tile = &w->tile_reach[i / KIN_COARSE_STEP];
        w->reach[i] = reach_of(r, m->row_first + i);
        *tile = i % KIN_COARSE_STEP == 0 || w->reach[i] > *tile ? w->reach[i] : *tile;
    }
    m->covered = r->queries->cover.wide > 0 && r->corpus->cover.wide > 0;
}

static kith_status screen_strip(void *arg, int64_t task, int32_t thread)
{
    run *r = arg;
    worker *w = &r->workers[thread];
    const int64_t row_first = task % r->row_blocks * r->block;
    meeting m = {.row_first = row_first,
                 .rows = kin_min_i64(r->block, r->queries->set.points - row_first)};
    begin_block(r, w, &m);
    const int64_t strip = task / r->row_blocks * STRIP;
    const int64_t first = meets_once(r) ? kin_max_i64(strip, task % r->row_blocks) : strip;
    for (int64_t b = first; b < kin_min_i64(strip + STRIP, r->point_blocks); b++) {
        m.point_first = b * r->block;
        m.points = kin_min_i64(r->block, r->corpus->set.points - m.point_first);
        KIN_TRY(meet(r, w, &m));
    }
    return work_off(r, w);
}

/* ---- Direct metrics ------------------------------------------------------------------------- */

static kith_status complain(const run *r, int64_t row, int64_t id)
{
    return kin_fail_at(r->ctx, KITH_E_DATA, kin_at("custom"),
                       "gave NaN for query %lld and point %lld (a distance must be a number)",
                       (long long)row, (long long)id);
}

static kith_status scan_range(void *arg, int64_t task, int32_t thread)
{
    run *r = arg;
    worker *w = &r->workers[thread];
    const kin_distance *distance = &r->request->distance;
    const int64_t row = task / r->ranges;
    const int64_t range = task % r->ranges * RANGE;
    const int64_t first = kin_max_i64(range, kin_radius_least(r->request, row));
    const int64_t last = kin_min_i64(range + RANGE, r->corpus->rows.matrix.rows);
    const kin_query query = kin_metric_load(distance, &r->queries->rows, row, w->query);
    for (int64_t at = first; at < last; at += KEYS) {
        const int64_t count = kin_min_i64(KEYS, last - at);
        kin_metric_keys_run(distance, &query, &r->corpus->rows, at, count, w->keys);
        w->keys_computed += count;
        for (int64_t i = 0; i < count; i++) {
            if (w->keys[i] != w->keys[i]) {
                return complain(r, row, at + i);
            }
            KIN_TRY(
                kin_hits_offer(&r->hits, thread, (uint32_t)row, (uint32_t)(at + i), w->keys[i]));
        }
    }
    return KITH_OK;
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* One call of the kernel may log all pairs of a block with a fine tile, and writes whole vectors.
 */
static void name_screening(kin_layout *layout, const run *r, worker *w)
{
    const uint64_t block = (uint64_t)r->block;
    const uint64_t room = block * KIN_FINE_STEP + KIN_PANEL;
    const uint64_t words = kin_size_mul(block, (uint64_t)r->corpus->frame.groups);
    w->rows = kin_layout_array(layout, words, sizeof *w->rows);
    w->limit = kin_layout_array(layout, block, sizeof *w->limit);
    w->half = kin_layout_array(layout, block, sizeof *w->half);
    w->test = kin_layout_array(layout, CHUNK_PANELS * block, sizeof *w->test);
    w->reach = kin_layout_array(layout, block, sizeof *w->reach);
    w->tile_reach = kin_layout_array(layout, block / KIN_COARSE_STEP, sizeof *w->tile_reach);
    w->panel_half = kin_layout_array(layout, block / KIN_PANEL, sizeof *w->panel_half);
    w->log.order = kin_layout_array(layout, room, sizeof *w->log.order);
    w->log.pair = kin_layout_array(layout, room, sizeof *w->log.pair);
    w->survivors = kin_layout_array(layout, SURVIVORS + (meets_once(r) ? 2 * room : room),
                                    sizeof *w->survivors);
}

static void name_workers(kin_layout *layout, void *job)
{
    run *r = job;
    const int64_t wide = kin_round_up(r->request->distance.cols, KIN_METRIC_LANES);
    worker spare;
    r->workers = kin_layout_zeros(layout, (uint64_t)r->ctx->threads, sizeof *r->workers);
    for (int32_t t = 0; t < r->ctx->threads; t++) {
        worker *w = kin_layout_item(r->workers, t, &spare);
        w->thread = t;
        w->query = kin_layout_array(layout, (uint64_t)wide, sizeof *w->query);
        w->ids = kin_layout_array(layout, KEYS, sizeof *w->ids);
        w->keys = kin_layout_array(layout, KEYS, sizeof *w->keys);
        if (r->block > 0) {
            name_screening(layout, r, w);
        }
    }
}

static void close_panels(const run *r)
{
    const bool is_float = kin_tile_is_float(r->corpus->frame.kernel->type);
    for (int32_t t = 0; t < r->ctx->threads; t++) {
        for (int64_t i = 0; i < r->block / KIN_PANEL; i++) {
            kin_word unused;
            kin_limit_close(is_float, &unused, &r->workers[t].panel_half[i]);
        }
    }
}

/* ---- All of it ------------------------------------------------------------------------------ */

static kith_status make_worst(run *r)
{
    const kin_set *points = &r->corpus->set;
    KIN_NEW_ZERO(r->hold, r->worst, (uint64_t)r->point_blocks, "the worst of blocks");
    for (int64_t p = 0; p < points->points; p++) {
        const kin_bound_row row = kin_set_row(points, p);
        kin_bound_row *worst = &r->worst[p / r->block];
        worst->norm = fmax(worst->norm, row.norm);
        worst->lost = fmax(worst->lost, row.lost);
    }
    return KITH_OK;
}

static kith_status screen_queries(run *r)
{
    const int64_t start = kin_clock_ns();
    r->row_blocks = kin_ceil_div(r->queries->set.points, r->block);
    KIN_TRY(kin_parallel(r->ctx, "screen", r->row_blocks * kin_ceil_div(r->point_blocks, STRIP),
                         screen_strip, r));
    r->ctx->report.seconds_screen += kin_clock_since(start);
    return KITH_OK;
}

/* Queries come in stripes, so that only some of them have rounded copies at a time. */
static kith_status screen_stripes(run *r, kin_prepared *queries)
{
    const int64_t count = queries->groups.count;
    const int64_t stripe = kin_exact_stripe(&r->corpus->frame, 1);
    KIN_TRY(kin_order_make(r->ctx, &queries->rows, &queries->distance, count, queries->order));
    for (int64_t first = 0; first < count; first += stripe) {
        KIN_TRY(kin_prepare_queries(r->ctx, r->corpus, first, kin_min_i64(stripe, count - first),
                                    queries));
        KIN_TRY(screen_queries(r));
    }
    return KITH_OK;
}

static kith_status screen_all(run *r, kin_prepared *queries)
{
    if (r->queries->groups.count == 0 || r->corpus->groups.count == 0) {
        return KITH_OK;
    }
    r->block = kin_screen_block(&r->corpus->frame);
    r->point_blocks = kin_ceil_div(r->corpus->set.points, r->block);
    KIN_TRY(kin_hold_layout(r->hold, name_workers, r, "threads"));
    close_panels(r);
    KIN_TRY(make_worst(r));
    return meets_once(r) ? screen_queries(r) : screen_stripes(r, queries);
}

static kith_status scan_all(run *r)
{
    const int64_t start = kin_clock_ns();
    r->ranges = kin_ceil_div(r->corpus->rows.matrix.rows, RANGE);
    KIN_TRY(kin_hold_layout(r->hold, name_workers, r, "threads"));
    KIN_TRY(
        kin_parallel(r->ctx, "screen", r->queries->rows.matrix.rows * r->ranges, scan_range, r));
    r->ctx->report.seconds_screen += kin_clock_since(start);
    return KITH_OK;
}

static void write_report(const run *r, const kin_prepared *queries)
{
    kith_report *report = &r->ctx->report;
    double pairs = 0.0;
    for (int32_t t = 0; r->workers != NULL && t < r->ctx->threads; t++) {
        pairs += (double)r->workers[t].pairs;
        report->skipped_share += (double)r->workers[t].skipped;
        report->candidates += (double)r->workers[t].keys_computed;
    }
    report->exact = KITH_CERTIFIED;
    report->skipped_share = pairs > 0.0 ? report->skipped_share / pairs : 0.0;
    report->candidates /= (double)r->queries->rows.matrix.rows;
    report->distinct_rows = r->corpus->groups.count;
    report->seconds_check += queries->seconds_check;
    report->seconds_prepare += queries->seconds_prepare;
    kin_exact_report(r->ctx, r->corpus);
}

static void give_hits(void *nobody, void *hits)
{
    (void)nobody;
    kin_hits_free(hits);
}

static kith_status search(run *r, kin_prepared *queries, kith_ranges *ranges)
{
    kith_ctx *ctx = r->ctx;
    const bool screens = kin_exact_screens(&r->request->distance);
    kin_hold_take(r->hold, give_hits, NULL, &r->hits);
    KIN_TRY(kin_hits_make(ctx, r->request, &r->corpus->groups, &r->queries->rows, &r->hits));
    KIN_TRY(screens ? screen_all(r, queries) : scan_all(r));
    const int64_t start = kin_clock_ns();
    KIN_TRY(kin_hits_finish(&r->hits, ranges));
    ctx->report.seconds_rescore = kin_clock_since(start);
    write_report(r, queries);
    return KITH_OK;
}

/* Each row is asked for itself, so equal rows of the queries stay apart, unless the corpus has what
 * its own rows are asked with. */
kith_status kin_radius_search(kith_ctx *ctx, const kin_prepared *corpus, const kith_matrix *queries,
                              const kin_radius_request *request, kith_ranges *ranges)
{
    const kith_matrix *asked = queries != NULL ? queries : &corpus->rows.matrix;
    kin_prepared again = {0};
    kin_prepared pq = {0};
    run r = {.ctx = ctx, .request = request, .corpus = corpus, .queries = &pq};
    KIN_HOLD(hold, ctx);
    r.hold = &hold;
    kin_prepared_hold(&hold, &again);
    kin_prepared_hold(&hold, &pq);
    if (queries == NULL && request->later_alone) {
        r.queries = corpus;
    } else {
        KIN_TRY(kin_prepare_rows(ctx, asked, &request->distance, "queries",
                                 KIN_ROWS_DISTINCT | (queries == NULL ? KIN_ROWS_CHECKED : 0),
                                 &pq));
    }
    if (kin_exact_screens(&request->distance)) {
        KIN_TRY(kin_prepare_corpus_for(ctx, corpus, asked, USUAL_K, &again, &r.corpus));
    }
    r.ops = kin_round_get(ctx->isa);
    return search(&r, &pq, ranges);
}

kith_status kin_radius_run(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                           const kin_radius_request *request, kith_ranges *ranges)
{
    const kin_distance *distance = &request->distance;
    const bool screens = kin_exact_screens(distance);
    kin_prepared pc = {0};
    KIN_HOLD(hold, ctx);
    kin_prepared_hold(&hold, &pc);
    KIN_TRY(kin_prepare_rows(ctx, corpus, distance, queries != NULL ? "corpus" : "points",
                             screens ? 0 : KIN_ROWS_DISTINCT, &pc));
    if (screens) {
        const bool integer =
            kin_frame_is_integer(distance, corpus, queries != NULL ? queries : corpus);
        KIN_TRY(kin_prepare_corpus(ctx, integer, USUAL_K, &pc));
    }
    ctx->report.seconds_check += pc.seconds_check;
    ctx->report.seconds_prepare += pc.seconds_prepare;
    return kin_radius_search(ctx, &pc, queries, request, ranges);
}
