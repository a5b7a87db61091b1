/* SPDX-License-Identifier: Apache-2.0
 *
 * Why it is right. A part's rows rise as their copies do, so an engine's order (key, id) of copies
 * is that of the rows. Parts of a list have no row in common; of each the k first allowed ones are
 * merged by (key, id), or fewer where a list of k stands already and others are beyond its last.
 *
 * A bitmap for each query. Its rows cannot be copied for all queries together. A query that is
 * allowed few is compared with these; for the others an engine finds more than k, of which the
 * bitmap drops some. Whose k are not among them is asked for more, and in the end compared with
 * what its bitmap has. */
#include "engine/engine_filter.h"

#include "engine/engine_graph.h"
#include "host/host_threads.h"
#include "kith/kith_papers.h"
#include "tree/tree_cost.h"

#include <math.h>

enum { ROWS_A_TASK = 1024, SPARE = 32, WIDER = 4, MOST_FOUND = 1 << 25 };
/* Of a bitmap's rows: below 1 / THIN of all they are compared, above 1 / WIDE none are asked for.
 */
enum { THIN = 64, WIDE = 8 };
/* What an engine's call takes of each thread beside its work; a way through a tree. */
static const double CALL_NS = 150e3;
static const double TREE_ROW_NS = 2500.0;

bool kin_filter_is_few(const kin_filter_run *run, double rows, double queries, bool shared)
{
    const kin_request *request = &run->request;
    const int64_t points = (int64_t)rows;
    double engine = kin_tree_screen_ns(request, points, (int64_t)queries);
    const kin_tree_cost tree = kin_tree_cost_of(request, points, (int64_t)queries, false);
    if (request->distance.metric == KITH_CUSTOM) {
        return true; /* an error of the caller's names rows as they are given */
    }
    if (kin_tree_chance_of(&tree) == KIN_TREE_LIKELY) {
        engine =
            fmin(engine, kin_tree_build_ns(points, &request->distance) + queries * TREE_ROW_NS);
    }
    const double pick = shared ? kin_tree_shared_ns(&request->distance, rows)
                               : rows * kin_tree_key_ns(&request->distance);
    return queries * pick < engine + CALL_NS * (double)run->ctx->threads;
}

/* ---- Copies --------------------------------------------------------------------------------- */

/* Rows of a matrix one behind the other: where they are that already, as they stand. */
static kith_status gather(kin_hold *hold, const kith_matrix *from, const uint32_t *ids,
                          int64_t count, kith_matrix *rows)
{
    *rows = kin_matrix_part(from, (int64_t)ids[0], count);
    if ((int64_t)ids[count - 1] - (int64_t)ids[0] == count - 1) {
        return KITH_OK;
    }
    return kin_hold_rows(hold, from, ids, count, "rows of a group", rows);
}

/* ---- What a part finds ---------------------------------------------------------------------- */

typedef struct finding {
    kin_filter_run *run;
    const kin_filter_part *part;
    const uint32_t *queries; /* of this call, */
    int64_t count;           /* so many */
    kith_neighbors found;    /* of each: ids of copies, and `far` */
    double *limits;          /* by query: no key above it is wanted; NULL: nothing is known */
    kin_pair *own;           /* threads x k */
    uint8_t *lacks;          /* by query: it must be asked for more; NULL: none is */
} finding;

static void name_finding(kin_layout *layout, void *job)
{
    finding *f = job;
    const uint64_t entries = kin_size_mul((uint64_t)f->count, (uint64_t)f->found.k);
    const uint64_t threads = (uint64_t)f->run->threads;
    f->found.ids = kin_layout_array(layout, entries, sizeof *f->found.ids);
    f->found.distances64 = kin_layout_array(layout, entries, sizeof *f->found.distances64);
    f->own = kin_layout_array(layout, kin_size_mul(threads, (uint64_t)f->run->request.k),
                              sizeof *f->own);
    if (f->run->knows && f->run->merges) {
        f->limits = kin_layout_array(layout, (uint64_t)f->count, sizeof *f->limits);
    }
}

/* What lists know already, and slots that an engine may leave as they are. */
static kith_status begin_row(void *arg, int64_t i, int32_t thread)
{
    (void)thread;
    const finding *f = arg;
    const kin_filter_run *run = f->run;
    const int64_t k = run->request.k;
    if (f->limits != NULL) {
        const int64_t list = kin_filter_list(run, f->queries[i], f->part->group);
        f->limits[i] = kin_filter_key(run, run->far[list * k + k - 1]);
    }
    kin_answer_empty(run->request.distance.metric, &f->found, i * f->found.k, (i + 1) * f->found.k);
    return KITH_OK;
}

static kith_status begin_finding(kin_hold *hold, finding *f, int64_t k)
{
    f->found.rows = f->count;
    f->found.k = k;
    KIN_TRY(kin_hold_layout(hold, name_finding, f, "neighbours of a group"));
    return kin_parallel_rows(f->run->ctx, NULL, f->count, ROWS_A_TASK, begin_row, f);
}

/* Allowed entries of row i: the first `most` of them to the front, as rows of the corpus. */
static int64_t keep_allowed(const finding *f, int64_t i, int64_t most)
{
    const kin_filter_run *run = f->run;
    const uint32_t query = f->queries[i];
    const uint32_t own = kin_filter_left_out(run, query);
    const bool asks = kin_filter_has_bitmaps(&run->job->filter);
    uint32_t *ids = f->found.ids + i * f->found.k;
    double *far = f->found.distances64 + i * f->found.k;
    int64_t count = 0;
    for (int64_t j = 0; j < f->found.k && count < most && ids[j] != KITH_ID_NONE; j++) {
        const uint32_t id = f->part->rows[ids[j]];
        if (id != own && (!asks || kin_filter_allows(&run->job->filter, query, id))) {
            ids[count] = id;
            far[count++] = far[j];
        }
    }
    return count;
}

/* The first k of a list and of what was found. */
static void merge_list(const finding *f, int64_t i, int64_t count, kin_pair *own)
{
    const kin_filter_run *run = f->run;
    const int64_t k = run->request.k;
    const int64_t at = kin_filter_list(run, f->queries[i], f->part->group) * k;
    const uint32_t *ids = f->found.ids + i * f->found.k;
    const double *far = f->found.distances64 + i * f->found.k;
    int64_t others = 0;
    for (; others < k && run->ids[at + others] != KITH_ID_NONE; others++) {
        own[others] =
            (kin_pair){kin_filter_key(run, run->far[at + others]), run->ids[at + others], 1};
    }
    int64_t a = 0;
    int64_t b = 0;
    for (int64_t to = at; to < at + k && (a < others || b < count); to++) {
        const kin_pair next =
            b < count ? (kin_pair){kin_filter_key(run, far[b]), ids[b], 1} : (kin_pair){0};
        const bool mine = b == count || (a < others && kin_pair_less(&own[a], &next));
        const kin_pair *first = mine ? &own[a] : &next;
        run->ids[to] = first->id;
        run->far[to] = kin_filter_key(run, first->key);
        a += mine;
        b += !mine;
    }
}

static kith_status end_row(void *arg, int64_t i, int32_t thread)
{
    const finding *f = arg;
    const int64_t k = f->run->request.k;
    const bool full = f->found.ids[(i + 1) * f->found.k - 1] != KITH_ID_NONE;
    const int64_t count = keep_allowed(f, i, k);
    const bool lacks = f->lacks != NULL && count < k && full && f->found.k < f->part->row_count;
    if (f->lacks != NULL) {
        f->lacks[i] = lacks;
    }
    if (!lacks) {
        merge_list(f, i, count, f->own + thread * k);
    }
    return KITH_OK;
}

static kith_status end_finding(finding *f)
{
    return kin_parallel_rows(f->run->ctx, NULL, f->count, ROWS_A_TASK, end_row, f);
}

/* A request of a part: nobody is left out by an engine. */
static kin_request request_of(const finding *f)
{
    kin_request request = f->run->request;
    request.k = f->found.k;
    request.exclude = NULL;
    request.within[0] = (kin_within){f->limits, 1};
    return request;
}

/* ---- Queries against rows ------------------------------------------------------------------- */

/* f's queries, which are a graph's rows where `rows` is NULL; the `fetch` nearest of `rows`, copies
 * of the part's. */
static kith_status search_rows(finding *f, const kith_matrix *rows, int64_t fetch)
{
    kith_ctx *ctx = f->run->ctx;
    const kin_filter_job *all = f->run->job;
    kin_knn_job job = {.graph = rows == NULL};
    kin_call call;
    KIN_HOLD(hold, ctx);
    KIN_TRY(begin_finding(&hold, f, fetch));
    job.request = request_of(f);
    KIN_TRY(gather(&hold, job.graph ? &all->corpus : &all->queries, f->queries, f->count,
                   &job.queries));
    job.corpus = rows != NULL ? *rows : job.queries;
    KIN_TRY(kin_call_begin(ctx, &call));
    KIN_TRY(kin_call_end(&call, kin_engine_knn(ctx, &job, &f->found)));
    return end_finding(f);
}

static kith_status search_plain(kin_filter_run *run, const kin_filter_part *part,
                                const kith_matrix *rows)
{
    const bool drops = !run->job->graph && run->request.exclude != NULL;
    finding f = {.run = run, .part = part, .queries = part->queries, .count = part->query_count};
    return search_rows(&f, rows, kin_min_i64(run->request.k + (drops ? 1 : 0), part->row_count));
}

/* ---- A bitmap for each query ----------------------------------------------------------------- */

typedef struct bitmaps {
    kin_filter_run *run;
    const kin_filter_part *part;
    int64_t *counts; /* by query: allowed rows of the part */
    uint32_t *open;  /* queries that an engine is asked for, rising */
    int64_t open_count;
    uint32_t *thin; /* queries that are compared with their rows */
    int64_t thin_count;
    uint8_t *lacks; /* by open query */
} bitmaps;

static void name_bitmaps(kin_layout *layout, void *job)
{
    bitmaps *b = job;
    const uint64_t count = (uint64_t)b->part->query_count;
    b->counts = kin_layout_array(layout, count, sizeof *b->counts);
    b->open = kin_layout_array(layout, count, sizeof *b->open);
    b->thin = kin_layout_array(layout, count, sizeof *b->thin);
    b->lacks = kin_layout_array(layout, count, sizeof *b->lacks);
}

static kith_status count_allowed(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const bitmaps *b = arg;
    const kin_filter_part *part = b->part;
    int64_t count = 0;
    for (int64_t i = 0; i < part->row_count; i++) {
        count += kin_filter_allows(&b->run->job->filter, part->queries[task], part->rows[i]);
    }
    b->counts[task] = count;
    return KITH_OK;
}

/* What is in the list already stays. */
static kin_picked take_allowed(const void *arg, int64_t i, uint32_t *room)
{
    const bitmaps *b = arg;
    const kin_filter_run *run = b->run;
    const kin_filter_part *part = b->part;
    const int64_t k = run->request.k;
    const uint32_t query = b->thin[i];
    const int64_t list = kin_filter_list(run, query, part->group);
    int64_t count = 0;
    for (; count < k && run->ids[list * k + count] != KITH_ID_NONE; count++) {
        room[count] = run->ids[list * k + count];
    }
    for (int64_t j = 0; j < part->row_count; j++) {
        room[count] = part->rows[j];
        count += kin_filter_allows(&run->job->filter, query, part->rows[j]);
    }
    return (kin_picked){.query = query, .list = list, .ids = room, .count = count};
}

/* Which queries are allowed so few rows that these are compared. Returns how many the others shall
 * ask for. */
static int64_t divide(bitmaps *b)
{
    const kin_filter_part *part = b->part;
    const int64_t k = b->run->request.k;
    const bool few =
        kin_filter_is_few(b->run, (double)part->row_count, (double)part->query_count, false);
    const int64_t thin = kin_max_i64(2 * k, part->row_count / THIN);
    double times = 0.0;
    for (int64_t i = 0; i < part->query_count; i++) {
        if (few || b->counts[i] <= thin) {
            b->thin[b->thin_count] = part->queries[i];
            b->thin_count += b->counts[i] > 0;
        } else {
            b->open[b->open_count++] = part->queries[i];
            times += (double)part->row_count / (double)b->counts[i];
        }
    }
    return SPARE + (int64_t)(1.25 * (double)k * times / (double)kin_max_i64(b->open_count, 1));
}

/* Open queries that lack some stay open. */
static kith_status search_open(bitmaps *b, const kith_matrix *rows, int64_t fetch)
{
    const int64_t step = kin_max_i64(1, MOST_FOUND / fetch);
    int64_t open = 0;
    for (int64_t first = 0; first < b->open_count; first += step) {
        finding f = {.run = b->run,
                     .part = b->part,
                     .queries = b->open + first,
                     .count = kin_min_i64(step, b->open_count - first),
                     .lacks = b->lacks};
        KIN_TRY(search_rows(&f, rows, fetch));
        for (int64_t i = 0; i < f.count; i++) {
            b->open[open] = b->open[first + i];
            open += b->lacks[i];
        }
    }
    b->open_count = open;
    return KITH_OK;
}

static kith_status search_wider(bitmaps *b, const kith_matrix *rows, int64_t fetch)
{
    const int64_t count = b->part->row_count;
    for (; b->open_count > 0 && fetch <= count / WIDE; fetch *= WIDER) {
        if (kin_filter_is_few(b->run, (double)count, (double)b->open_count, false)) {
            break;
        }
        KIN_TRY(search_open(b, rows, fetch));
    }
    for (int64_t i = 0; i < b->open_count; i++) {
        b->thin[b->thin_count++] = b->open[i];
    }
    return KITH_OK;
}

static kith_status search_bitmaps(kin_filter_run *run, const kin_filter_part *part,
                                  const kith_matrix *rows)
{
    bitmaps b = {.run = run, .part = part};
    KIN_HOLD(hold, run->ctx);
    KIN_TRY(kin_hold_layout(&hold, name_bitmaps, &b, "queries with bitmaps"));
    KIN_TRY(kin_parallel(run->ctx, NULL, part->query_count, count_allowed, &b));
    KIN_TRY(search_wider(&b, rows, divide(&b)));
    const kin_pick pick = {.lists = b.thin_count,
                           .room = part->row_count + run->request.k + 1,
                           .take = take_allowed,
                           .arg = &b};
    return b.thin_count > 0 ? kin_filter_pick(run, &pick) : KITH_OK;
}

/* ---- Parts ---------------------------------------------------------------------------------- */

kith_status kin_filter_search(kin_filter_run *run, const kin_filter_part *part)
{
    kith_matrix rows;
    if (part->row_count == 0 || part->query_count == 0) {
        return KITH_OK;
    }
    KIN_HOLD(hold, run->ctx);
    KIN_TRY(gather(&hold, &run->job->corpus, part->rows, part->row_count, &rows));
    return kin_filter_has_bitmaps(&run->job->filter) ? search_bitmaps(run, part, &rows)
                                                     : search_plain(run, part, &rows);
}

kith_status kin_filter_graph(kin_filter_run *run, const kin_filter_part *part)
{
    const bool self = (run->request.flags & KITH_INCLUDE_SELF) != 0;
    const int64_t k = kin_min_i64(run->request.k, part->row_count - (self ? 0 : 1));
    finding f = {.run = run, .part = part, .queries = part->rows, .count = part->row_count};
    return k < 1 ? KITH_OK : search_rows(&f, NULL, k);
}

static kith_search_params params_of(const kin_filter_run *run)
{
    kith_search_params params = kith_search_params_default();
    params.metric = run->request.distance.metric;
    params.period = run->request.distance.period;
    params.k = run->request.k;
    params.flags = run->request.flags & (KITH_NO_SYMMETRY | KITH_NO_SKIP);
    params.method = run->request.method;
    return params;
}

kith_status kin_filter_across(kin_filter_run *run, const kin_filter_part *part)
{
    enum { SIDES = KIN_ACROSS_SIDES };
    const kin_filter_part back = {.rows = part->queries,
                                  .row_count = part->query_count,
                                  .queries = part->rows,
                                  .query_count = part->row_count};
    const kin_filter_part *const sides[SIDES] = {part, &back};
    kin_across across = {.params = params_of(run), .checked = run->knows};
    finding found[SIDES];
    KIN_HOLD(hold, run->ctx);
    for (int i = 0; i < SIDES; i++) {
        finding *f = &found[i];
        *f = (finding){.run = run,
                       .part = sides[i],
                       .queries = sides[i]->queries,
                       .count = sides[i]->query_count};
        KIN_TRY(begin_finding(&hold, f, kin_min_i64(run->request.k, sides[i]->row_count)));
        KIN_TRY(gather(&hold, &run->job->corpus, f->queries, f->count, &across.rows[i]));
        across.known[i] = (kin_within){f->limits, 1};
        across.found[i] = f->found;
    }
    kin_across_aim(run->ctx, &run->job->corpus, &across);
    KIN_TRY(kin_across_search(run->ctx, &across));
    KIN_TRY(end_finding(&found[0]));
    return end_finding(&found[1]);
}

kith_status kin_filter_pick(kin_filter_run *run, const kin_pick *pick)
{
    const kith_neighbors lists = {.ids = run->ids,
                                  .distances64 = run->far,
                                  .rows = run->queries->rows.matrix.rows * run->job->lists,
                                  .k = run->request.k};
    return kin_direct_pick(run->ctx, &run->corpus, run->queries, &run->request, pick, &lists);
}

/* Queries are searched among rows, all of both being copied; or two sides meet, which are all of a
 * graph's rows. */
void kin_filter_part_plan(kin_layout *plan, kin_filter_run *run)
{
    const kith_matrix *rows = &run->job->corpus;
    const kith_matrix *queries = &run->job->queries;
    const uint64_t row_bytes = kin_row_bytes(rows);
    const int64_t k = run->request.k + 1; /* one that is left out */
    const kin_filter_part part = {.row_count = rows->rows, .query_count = queries->rows};
    const kin_prepared corpus = {.rows = {.matrix = *rows}, .distance = run->request.distance};
    const kin_prepared asked = {.rows = {.matrix = *queries}, .distance = run->request.distance};
    const kin_pick pick = {.room = rows->rows + k, .shared = rows->rows};
    finding found = {.run = run, .part = &part, .count = queries->rows, .found = {.k = k}};
    finding back = {.run = run, .part = &part, .found = {.k = k}};
    bitmaps b = {.run = run, .part = &part};
    kin_layout_alone(plan, (uint64_t)rows->rows, row_bytes);
    kin_layout_alone(plan, (uint64_t)queries->rows, row_bytes);
    kin_layout_block(plan, name_bitmaps, &b);
    kin_direct_pick_plan(plan, &corpus, &asked, &run->request, &pick, run->threads);
    kin_layout_block(plan, name_finding, &found);
    kin_layout_block(plan, name_finding, &back);
}
