/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A radius is a reach that is known from the start: the screen of screen.h with limits
 * that never change: blocks meet as there (screen_meet.c), and what passes is taken here, without
 * lists, locks and compaction. A piece of work takes one block of queries against a strip of blocks
 * of points; what survives the kernel gets canonical keys, and what is within the radius by them is
 * a hit.
 *
 *      queries I | points J .. J + STRIP - 1     kernel -> log -> survivors -> keys -> hits
 *
 * Where each row of a graph is asked for later ones alone, the points' own set has both parts, and
 * each unordered pair of blocks meets once: what is within the radius of one end is within that of
 * the other.
 *
 * Why it is right. The limit of a query contains every pair whose canonical distance is within its
 * radius (screen_bound.h, with the key of the radius in the place of the k-th key); the test that
 * decides is on the canonical distance itself, so equality is kept to the last bit.
 *
 * Memory. Survivors of a thread are worked off when there are SURVIVORS of them; hits are kept.
 */
#include "exact/exact_search.h"

#include "base/base_size.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

enum { STRIP = 16, SURVIVORS = 1 << 15 };
/* Direct metrics: one query and a range of the corpus. */
enum { RANGE = 16384, KEYS = 256, USUAL_K = 10 };

typedef struct worker {
    KIN_APART kin_meet_work meet; /* first: what is taken of a meeting names its worker by it */
    int32_t thread;
    uint64_t *survivors; /* query position above, point position below */
    int64_t survivor_count;
} worker;

typedef struct run {
    kith_ctx *ctx;
    kin_hold *hold;
    const kin_radius_request *request;
    const kin_prepared *corpus;
    const kin_prepared *queries; /* the corpus itself: positions meet once, groups are asked */
    kin_hits hits;
    kin_meet meet;
    kin_lists lists; /* no lists: the reach of each query */
    int64_t ranges;  /* direct metrics: a query's corpus is cut into this many */
    worker *workers;
} run;

/* ---- Survivors ------------------------------------------------------------------------------ */

static bool meets_once(const run *r)
{
    return r->queries == r->corpus;
}

/* The next id of the query's group, which is asked alike; KITH_ID_NONE behind the last. */
static uint32_t next_like(const run *r, uint32_t query)
{
    return meets_once(r) ? kin_groups_next(&r->corpus->groups, query) : KITH_ID_NONE;
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
    kin_list_scratch *room = &w->meet.scratch;
    const kin_query loaded = kin_metric_load(distance, &r->queries->rows, query, room->query);
    kin_metric_keys(distance, &loaded, &r->corpus->rows, room->ids, count, room->keys);
    room->keys_computed += count;
    for (int64_t i = 0; i < count; i++) {
        KIN_TRY(offer(r, w, query, room->ids[i], room->keys[i]));
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
            w->meet.scratch.ids[count++] = r->corpus->set.ids[w->survivors[last] & UINT32_MAX];
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

static kith_status take_log(void *arg, kin_meet_work *work, int64_t row_first, int64_t point_first)
{
    run *r = arg;
    worker *w = (worker *)work;
    const kin_tile_log *log = &work->row_log;
    const bool once = meets_once(r);
    for (int64_t i = 0; i < log->count; i++) {
        const int64_t row = row_first + (log->pair[i] >> 16);
        const int64_t point = point_first + (log->pair[i] & 0xffff);
        const int32_t cost = log->order[i];
        KIN_TRY(once ? take_once(r, w, row, point, cost) : take_pair(r, w, row, point, cost));
    }
    return w->survivor_count >= SURVIVORS ? work_off(r, w) : KITH_OK;
}

static kith_status screen_strip(void *arg, int64_t task, int32_t thread)
{
    run *r = arg;
    worker *w = &r->workers[thread];
    const int64_t row_block = task % r->meet.row.blocks;
    const int64_t strip = task / r->meet.row.blocks * STRIP;
    const int64_t first = meets_once(r) ? kin_max_i64(strip, row_block) : strip;
    for (int64_t b = first; b < kin_min_i64(strip + STRIP, r->meet.point.blocks); b++) {
        KIN_TRY(kin_meet_blocks(&r->meet, &w->meet, row_block, b));
    }
    return work_off(r, w);
}

/* ---- Direct metrics ------------------------------------------------------------------------- */

static kith_status scan_range(void *arg, int64_t task, int32_t thread)
{
    run *r = arg;
    kin_list_scratch *room = &r->workers[thread].meet.scratch;
    const kin_distance *distance = &r->request->distance;
    const int64_t row = task / r->ranges;
    const int64_t range = task % r->ranges * RANGE;
    const int64_t first = kin_max_i64(range, kin_radius_least(r->request, row));
    const int64_t last = kin_min_i64(range + RANGE, r->corpus->rows.matrix.rows);
    const kin_query query = kin_metric_load(distance, &r->queries->rows, row, room->query);
    for (int64_t at = first; at < last; at += KEYS) {
        const int64_t count = kin_min_i64(KEYS, last - at);
        kin_metric_keys_run(distance, &query, &r->corpus->rows, at, count, room->keys);
        room->keys_computed += count;
        for (int64_t i = 0; i < count; i++) {
            if (room->keys[i] != room->keys[i]) {
                return kin_metric_fail_nan(r->ctx, row, at + i);
            }
            KIN_TRY(
                kin_hits_offer(&r->hits, thread, (uint32_t)row, (uint32_t)(at + i), room->keys[i]));
        }
    }
    return KITH_OK;
}

/* ---- Memory --------------------------------------------------------------------------------- */

static void name_workers(kin_layout *layout, void *job)
{
    run *r = job;
    worker spare;
    r->workers = kin_layout_zeros(layout, (uint64_t)r->ctx->threads, sizeof *r->workers);
    for (int32_t t = 0; t < r->ctx->threads; t++) {
        worker *w = kin_layout_item(r->workers, t, &spare);
        w->thread = t;
        if (r->meet.block > 0) {
            const int64_t room = kin_meet_log_room(&r->meet) * (meets_once(r) ? 2 : 1);
            kin_meet_name(layout, &r->meet, &w->meet);
            w->survivors =
                kin_layout_array(layout, (uint64_t)(SURVIVORS + room), sizeof *w->survivors);
        } else {
            kin_list_scratch_name(layout, KEYS, r->request->distance.cols, &w->meet.scratch);
        }
    }
}

/* ---- All of it ------------------------------------------------------------------------------ */

static kith_status screen_queries(run *r)
{
    const int64_t start = kin_clock_ns();
    const kin_set *set = &r->queries->set;
    KIN_HOLD(hold, r->ctx);
    KIN_NEW(&hold, r->lists.reach, (uint64_t)set->points, "reaches of queries");
    for (int64_t i = 0; i < set->points; i++) {
        const double radius = kin_radius_of(r->request, set->ids[i]);
        r->lists.reach[i] =
            kin_lists_reach(&r->lists, i, kin_radius_key(r->request->distance.metric, radius));
    }
    for (int32_t t = 0; t < r->ctx->threads; t++) {
        r->workers[t].meet.packed = 0;
    }
    r->meet.row.blocks = kin_ceil_div(set->points, r->meet.block);
    KIN_TRY(kin_parallel(r->ctx, "screen",
                         r->meet.row.blocks * kin_ceil_div(r->meet.point.blocks, STRIP),
                         screen_strip, r));
    r->ctx->report.seconds_screen += kin_clock_since(start);
    return KITH_OK;
}

/* Queries come in stripes, so that only some of them have rounded copies at a time. */
static kith_status screen_stripes(run *r, kin_prepared *queries)
{
    const int64_t count = queries->groups.count;
    const int64_t stripe = kin_exact_stripe(&r->corpus->frame, 1);
    KIN_TRY(
        kin_order_make(r->ctx, &queries->rows, &queries->distance, count, false, queries->order));
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
    const kin_frame *frame = &r->corpus->frame;
    const int64_t block = kin_screen_block(frame);
    r->lists = (kin_lists){.rows = &r->queries->set, .points = &r->corpus->set, .capacity = KEYS};
    r->meet = (kin_meet){
        .frame = frame,
        .row = {.set = &r->queries->set, .lists = &r->lists, .cover = &r->queries->cover},
        .point = {.set = &r->corpus->set,
                  .cover = &r->corpus->cover,
                  .blocks = kin_ceil_div(r->corpus->set.points, block)},
        .block = block,
        .ops = kin_round_get(r->ctx->isa),
        .take = take_log,
        .take_arg = r};
    KIN_TRY(kin_hold_layout(r->hold, name_workers, r, "threads"));
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
        pairs += (double)r->workers[t].meet.pairs;
        report->skipped_share += (double)r->workers[t].meet.skipped;
        report->candidates += (double)r->workers[t].meet.scratch.keys_computed;
    }
    report->exact = KITH_CERTIFIED;
    report->skipped_share = pairs > 0.0 ? report->skipped_share / pairs : 0.0;
    report->candidates /= (double)r->queries->rows.matrix.rows;
    report->distinct_rows = r->corpus->groups.count;
    kin_prepared_tell(r->ctx, queries);
    kin_prepared_report(r->ctx, r->corpus);
}

static void give_hits(void *nobody, void *hits)
{
    (void)nobody;
    kin_hits_free(hits);
}

static kith_status search(run *r, kin_prepared *queries, kith_ranges *ranges)
{
    kith_ctx *ctx = r->ctx;
    const bool screens = kin_is_screened(&r->request->distance);
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
    if (kin_is_screened(&request->distance)) {
        KIN_TRY(kin_prepare_corpus_for(ctx, corpus, asked, USUAL_K, &again, &r.corpus));
    }
    return search(&r, &pq, ranges);
}

kith_status kin_radius_run(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                           const kin_radius_request *request, kith_ranges *ranges)
{
    const kin_distance *distance = &request->distance;
    const bool screens = kin_is_screened(distance);
    kith_matrix rows = *corpus;
    kith_matrix other = queries != NULL ? *queries : *corpus;
    kith_matrix *asked = queries != NULL ? &other : NULL;
    kin_prepared pc = {0};
    KIN_HOLD(hold, ctx);
    kin_prepared_hold(&hold, &pc);
    KIN_TRY(screens ? kin_bytes_take(&hold, distance, &rows, asked) : KITH_OK);
    KIN_TRY(kin_prepare_rows(ctx, &rows, distance, queries != NULL ? "corpus" : "points",
                             screens ? 0 : KIN_ROWS_DISTINCT, &pc));
    if (screens) {
        const bool integer = kin_frame_is_integer(distance, &rows, asked != NULL ? asked : &rows);
        KIN_TRY(kin_prepare_corpus(ctx, integer, USUAL_K, &pc));
    }
    ctx->report.seconds_check += pc.seconds_check;
    ctx->report.seconds_prepare += pc.seconds_prepare;
    return kin_radius_search(ctx, &pc, asked, request, ranges);
}
