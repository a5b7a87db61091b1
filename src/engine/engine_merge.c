/* SPDX-License-Identifier: Apache-2.0
 * Two graphs made one, exactly:
 *
 *   own      the graphs' lists with canonical keys go to the answer; their k-th keys are limits
 *   bounds   rows proven to be beyond the limits of all pairs across are left out (exact_search.h)
 *   across   what each row has nearest in the other set, within its limit (kin_across)
 *   merge    rows that found something: both lists (exact_search.h)
 *
 * A GPU, which makes no use of limits, looks across first.
 *
 * Why it is right. What is left out has a key above the k-th of the row's own list, so k others
 * come before it whatever its id; what has the same key stays, and the merge decides by ids.
 *
 * Searches give distances, lists are merged by keys. A distance is its key, or the key's negative,
 * but under euclidean, where it is the key's root and two keys may have one: across is searched by
 * sqeuclidean, in the same order. */
#include "engine/engine_graph.h"

#include "host/host_threads.h"
#include "kith/kith_papers.h"
#include "tree/tree_cost.h"

/* ---- Across --------------------------------------------------------------------------------- */

enum { ROWS_A_TASK = 4096 };
/* A row that goes through a tree and knows how far is too far. */
static const double TREE_ROW_NS = 500.0;

static kin_request request_of(const kith_ctx *ctx, const kith_matrix *rows,
                              const kith_search_params *params)
{
    const kin_distance distance = {.metric = params->metric,
                                   .cols = rows->cols,
                                   .isa = ctx->isa,
                                   .custom = params->custom,
                                   .custom_arg = params->custom_arg,
                                   .period = params->period};
    return kin_engine_request(params, &distance);
}

bool kin_across_suits_tree(const kith_ctx *ctx, const kith_matrix *rows,
                           const kith_search_params *params)
{
    const kin_request request = request_of(ctx, rows, params);
    const kin_tree_cost cost = kin_tree_cost_of(&request, rows->rows, rows->rows, false);
    return params->method == KITH_METHOD_AUTO && params->pipeline == KITH_PIPELINE_FUSED &&
           params->tree_height == 0 && ctx->device != KIN_DEVICE_CUDA &&
           kin_tree_chance_of(&cost) == KIN_TREE_LIKELY;
}

void kin_across_aim(const kith_ctx *ctx, const kith_matrix *all, kin_across *across)
{
    kith_matrix half = *all;
    half.rows /= KIN_ACROSS_SIDES;
    across->suits_tree = across->checked && kin_across_suits_tree(ctx, &half, &across->params);
}

/* Whether so many keys take less time than a tree, or what a screen must know of the rows before.
 */
static bool keys_win(const kin_request *request, double keys, const kith_matrix *large,
                     int64_t small, bool tree)
{
    const double other = tree ? kin_tree_build_ns(large->rows, &request->distance)
                              : kin_tree_screen_ns(request, large->rows, small);
    return request->pipeline == NULL && request->method != KITH_METHOD_TREE &&
           kin_is_screened(&request->distance) &&
           keys * kin_tree_key_ns(&request->distance) < other;
}

static bool suits_keys(const kith_ctx *ctx, const kin_across *across)
{
    const kith_matrix *rows = across->rows;
    const kin_request request = request_of(ctx, &rows[0], &across->params);
    const double pairs = (double)rows[0].rows * (double)rows[1].rows;
    const int large = rows[1].rows > rows[0].rows;
    return across->checked &&
           keys_win(&request, 2.0 * pairs, &rows[large], rows[1 - large].rows, across->suits_tree);
}

/* What is not found is not there. */
static kith_status empty(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const kin_across *across = arg;
    for (int side = 0; side < KIN_ACROSS_SIDES; side++) {
        const kith_neighbors *found = &across->found[side];
        const int64_t last = kin_min_i64((task + 1) * ROWS_A_TASK, found->rows) * found->k;
        kin_answer_empty(across->params.metric, found, task * ROWS_A_TASK * found->k, last);
    }
    return KITH_OK;
}

kith_status kin_across_is_processors(kith_ctx *ctx, const kin_request *request, double pairs,
                                     bool *yes)
{
    kin_gpu *gpu = NULL;
    KIN_TRY(kin_pipeline_enter(ctx, request, pairs, &gpu));
    *yes = gpu == NULL;
    kin_device_leave(ctx, gpu);
    return KITH_OK;
}

/* ---- Ways ----------------------------------------------------------------------------------- */

/* sides: zeros. */
static kith_status prepare_sides(kin_hold *hold, const kith_matrix *const rows[KIN_ACROSS_SIDES],
                                 const kin_distance *distance, kin_prepared sides[KIN_ACROSS_SIDES])
{
    for (int i = 0; i < KIN_ACROSS_SIDES; i++) {
        kin_prepared_hold(hold, &sides[i]);
        KIN_TRY(kin_prepare_rows(hold->ctx, rows[i], distance, "points",
                                 KIN_ROWS_DISTINCT | KIN_ROWS_CHECKED, &sides[i]));
    }
    return KITH_OK;
}

/* Canonical keys of all pairs, one direction after the other: nothing but the keys is computed. */
static kith_status search_directly(kith_ctx *ctx, const kin_across *across)
{
    const kith_matrix *const rows[] = {&across->rows[0], &across->rows[1]};
    kin_request request = request_of(ctx, rows[0], &across->params);
    kin_prepared sides[KIN_ACROSS_SIDES] = {0};
    KIN_HOLD(hold, ctx);
    KIN_TRY(prepare_sides(&hold, rows, &request.distance, sides));
    for (int i = 0; i < KIN_ACROSS_SIDES; i++) {
        request.k = across->found[i].k;
        request.within[0] = across->known[i];
        KIN_TRY(kin_direct_run(ctx, &sides[1 - i], &sides[i], &request, &across->found[i]));
    }
    return KITH_OK;
}

kith_status kin_across_few(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                           const kith_search_params *params, const kith_neighbors *out, bool *done)
{
    const kith_matrix *const rows[] = {corpus, queries};
    const double pairs = (double)corpus->rows * (double)queries->rows;
    const bool tree = kin_across_suits_tree(ctx, corpus, params);
    kin_request request = request_of(ctx, corpus, params);
    kin_prepared sides[KIN_ACROSS_SIDES] = {0};
    KIN_HOLD(hold, ctx);
    *done = false;
    if (!keys_win(&request, pairs, corpus, queries->rows, tree)) {
        return KITH_OK;
    }
    KIN_TRY(kin_across_is_processors(ctx, &request, pairs, done));
    if (!*done) {
        return KITH_OK;
    }
    KIN_TRY(prepare_sides(&hold, rows, &request.distance, sides));
    return kin_direct_run(ctx, &sides[0], &sides[1], &request, out);
}

/* Rows of one side in the other one. */
static kith_status search_side(kith_ctx *ctx, const kin_across *across, kith_method method,
                               int side)
{
    kin_call call;
    kin_knn_job job = {.corpus = across->rows[1 - side], .queries = across->rows[side]};
    job.request = request_of(ctx, &job.corpus, &across->params);
    job.request.k = across->found[side].k;
    job.request.method = method;
    job.request.within[0] = across->known[side];
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, kin_engine_knn(ctx, &job, &across->found[side]));
}

static kith_status search_twice(kith_ctx *ctx, const kin_across *across, kith_method method)
{
    KIN_TRY(search_side(ctx, across, method, 0));
    return search_side(ctx, across, method, 1);
}

static kith_status search_both(kith_ctx *ctx, const kin_across *across)
{
    kin_call call;
    kin_both_job job = {.a = across->rows[0], .b = across->rows[1]};
    job.request = request_of(ctx, &job.a, &across->params);
    job.request.k = across->found[0].k;
    memcpy(job.request.within, across->known, sizeof job.request.within);
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, kin_engine_both(ctx, &job, &across->found[0], &across->found[1]));
}

static bool goes_twice(const kith_ctx *ctx, const kin_across *across)
{
    const kin_request request = request_of(ctx, &across->rows[0], &across->params);
    return kin_method_goes_twice(&request, &across->rows[0], &across->rows[1]);
}

/* Whether all pairs are looked at, so that rows which are left out spare time: no tree leaves out
 * most, and rows are not so few that their keys are all that is computed. */
static bool meets_all(const kith_ctx *ctx, const kin_across *across)
{
    return !across->suits_tree && !suits_keys(ctx, across) && !goes_twice(ctx, across);
}

double kin_across_seconds(const kith_ctx *ctx, const kin_across *across)
{
    const kith_matrix *rows = across->rows;
    const int large = rows[1].rows > rows[0].rows;
    const int64_t many = rows[large].rows;
    const int64_t few = rows[1 - large].rows;
    const kin_request request = request_of(ctx, &rows[0], &across->params);
    double ns = 0.0;
    if (few == 0) {
        return 0.0;
    }
    if (suits_keys(ctx, across)) {
        ns = 2.0 * (double)many * (double)few * kin_tree_key_ns(&request.distance);
    } else if (across->suits_tree) {
        ns = kin_tree_build_ns(many, &request.distance) +
             kin_tree_build_ns(few, &request.distance) + (double)(many + few) * TREE_ROW_NS;
    } else if (kin_is_screened(&request.distance)) {
        ns = kin_tree_screen_ns(&request, many, few) + kin_tree_screen_ns(&request, few, 1);
    } else {
        ns = 2.0 * kin_tree_screen_ns(&request, many, few);
    }
    return ns * 1e-9 / (double)ctx->threads;
}

kith_status kin_across_search(kith_ctx *ctx, kin_across *across)
{
    const kith_neighbors *found = across->found;
    const int64_t most = kin_max_i64(found[0].rows, found[1].rows);
    if (across->known[0].keys != NULL) {
        KIN_TRY(kin_parallel(ctx, NULL, kin_ceil_div(most, ROWS_A_TASK), empty, across));
    }
    if (suits_keys(ctx, across)) {
        return search_directly(ctx, across);
    }
    if (across->suits_tree) {
        return search_twice(ctx, across, KITH_METHOD_TREE);
    }
    if (found[0].k != found[1].k || goes_twice(ctx, across)) {
        return search_twice(ctx, across, across->params.method);
    }
    return search_both(ctx, across);
}

/* ---- Two graphs made one -------------------------------------------------------------------- */

enum { SIDES = 2 };

typedef struct merging {
    kith_ctx *ctx;
    kin_hold *hold;
    const kin_merge_job *job;
    int64_t first[SIDES];        /* row of all points at which a set begins */
    kith_matrix part[SIDES];     /* rows of a set */
    bool knows;                  /* rows know how far is too far: */
    double *limits;              /* no key above it is wanted */
    kin_across across;           /* of rows of a set in the other one */
    kin_bounds_rows near[SIDES]; /* rows NULL: all of the set; else those that can meet */
} merging;

static bool is_one_sided(const merging *m)
{
    return m->part[0].rows == 0 || m->part[1].rows == 0;
}

/* ---- Across --------------------------------------------------------------------------------- */

static kith_status choose_device(merging *m)
{
    const kin_request request = {.distance = m->job->distance,
                                 .pipeline = kin_pipeline_of(m->job->params.pipeline)};
    const double pairs = (double)m->part[0].rows * (double)m->part[1].rows;
    m->knows = true;
    return is_one_sided(m) ? KITH_OK : kin_across_is_processors(m->ctx, &request, pairs, &m->knows);
}

static void aim(merging *m)
{
    kin_across *across = &m->across;
    across->checked = m->knows;
    across->params = m->job->params;
    kin_across_aim(m->ctx, &m->job->sets.points, across);
    for (int i = 0; i < SIDES; i++) {
        across->rows[i] = m->part[i];
        across->known[i] = (kin_within){m->knows ? m->limits + m->first[i] : NULL, 1};
    }
}

static void forget_near(merging *m)
{
    for (int i = 0; i < SIDES; i++) {
        kin_free(m->ctx, m->near[i].rows);
        m->near[i] = (kin_bounds_rows){0};
    }
}

/* Rows that can meet stand one behind the other, and so do their limits. */
static kith_status copy_near(merging *m, int side)
{
    const kin_bounds_rows *near = &m->near[side];
    double *limits = m->limits + m->first[side];
    KIN_TRY(kin_hold_rows(m->hold, &m->part[side], near->rows, near->count, "rows that can meet",
                          &m->across.rows[side]));
    for (int64_t i = 0; i < near->count; i++) {
        limits[i] = limits[near->rows[i]]; /* rows rise: none is read too late */
    }
    return KITH_OK;
}

/* Where they are less than half of all, rows that can meet do so alone. */
static kith_status leave_out(merging *m, kin_bounds *bounds)
{
    kin_bounds_part parts[SIDES];
    bool yes = false;
    for (int i = 0; i < SIDES; i++) {
        parts[i] = (kin_bounds_part){i, m->part[i], m->across.known[i]};
    }
    KIN_TRY(kin_bounds_try(m->ctx, bounds, parts, &yes));
    if (!yes) {
        return KITH_OK;
    }
    KIN_TRY(kin_bounds_pick(m->ctx, bounds, parts, m->near));
    if (m->near[0].count + m->near[1].count > m->job->sets.points.rows / 2) {
        forget_near(m);
        return KITH_OK;
    }
    for (int i = 0; i < SIDES; i++) {
        KIN_TRY(copy_near(m, i));
    }
    return KITH_OK;
}

static kith_status try_bounds(merging *m)
{
    kin_bounds_sets sets = {.distance = m->job->distance,
                            .rows = kin_max_i64(m->part[0].rows, m->part[1].rows),
                            .count = SIDES};
    kin_bounds bounds;
    sets.distance.metric = m->job->params.metric;
    kith_status status = kin_bounds_make(m->ctx, &sets, &bounds);
    KIN_THEN(status, leave_out(m, &bounds));
    kin_bounds_free(m->ctx, &bounds);
    return status;
}

static kith_status make_found(merging *m)
{
    kin_across *across = &m->across;
    for (int i = 0; i < SIDES; i++) {
        kith_neighbors *found = &across->found[i];
        found->rows = across->rows[i].rows;
        found->k = kin_min_i64(m->job->params.k, across->rows[1 - i].rows);
        const uint64_t entries = kin_size_mul((uint64_t)found->rows, (uint64_t)found->k);
        KIN_NEW(m->hold, found->ids, entries, "neighbours across the sets");
        KIN_NEW(m->hold, found->distances64, entries, "neighbours across the sets");
    }
    return KITH_OK;
}

static kith_status negate(void *arg, int64_t row, int32_t thread)
{
    (void)thread;
    const kith_neighbors *found = arg;
    for (int64_t i = row * found->k; i < (row + 1) * found->k; i++) {
        found->distances64[i] = -found->distances64[i];
    }
    return KITH_OK;
}

static kith_status search_across(merging *m)
{
    aim(m);
    if (m->knows && (m->job->params.flags & KITH_NO_SKIP) == 0 && meets_all(m->ctx, &m->across)) {
        KIN_TRY(try_bounds(m));
    }
    KIN_TRY(make_found(m));
    if (m->across.rows[0].rows == 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_across_search(m->ctx, &m->across));
    for (int i = 0; m->job->distance.metric == KITH_INNER_PRODUCT && i < SIDES; i++) {
        kith_neighbors *found = &m->across.found[i];
        KIN_TRY(kin_parallel_rows(m->ctx, NULL, found->rows, ROWS_A_TASK, negate, found));
    }
    return KITH_OK;
}

/* ---- Merge ---------------------------------------------------------------------------------- */

/* The graphs' own lists, which tell the limits, where nothing across is known yet; else those of
 * both. */
static kith_status write_sides(const merging *m, const kin_prepared *points, bool own, bool written,
                               const kith_neighbors *out)
{
    static const char *const names[SIDES] = {"graph1", "graph2"};
    static const kith_neighbors nothing;
    for (int i = 0; i < SIDES; i++) {
        const kin_merge_side side = {.name = names[i],
                                     .first = m->first[i],
                                     .graph = &m->job->sets.graph[i],
                                     .other_first = m->first[1 - i],
                                     .across = own ? &nothing : &m->across.found[i],
                                     .across_rows = own ? NULL : m->near[i].rows,
                                     .other_rows = m->near[1 - i].rows,
                                     .written = written,
                                     .limits = own ? m->limits + m->first[i] : NULL};
        KIN_TRY(kin_merge_write(m->ctx, points, &side, m->job->flags, out));
    }
    return KITH_OK;
}

static kith_status merge_known(merging *m, const kin_prepared *points, const kith_neighbors *out)
{
    KIN_NEW(m->hold, m->limits, (uint64_t)m->job->sets.points.rows, "limits of rows");
    KIN_TRY(write_sides(m, points, true, false, out));
    if (is_one_sided(m)) {
        return KITH_OK;
    }
    KIN_TRY(search_across(m));
    return write_sides(m, points, false, true, out);
}

static kith_status merge(merging *m, const kith_neighbors *out)
{
    kin_prepared points = {0};
    kith_status status = choose_device(m);
    KIN_THEN(status, m->knows ? KITH_OK : search_across(m));
    KIN_THEN(status,
             kin_prepare_rows(m->ctx, &m->job->sets.points, &m->job->distance, "points",
                              KIN_ROWS_DISTINCT | (m->knows ? 0 : KIN_ROWS_CHECKED), &points));
    kin_prepared_tell(m->ctx, &points);
    KIN_THEN(status,
             m->knows ? merge_known(m, &points, out) : write_sides(m, &points, false, false, out));
    m->ctx->report.exact = kin_merge_exactness(&m->job->sets);
    kin_prepared_free(m->ctx, &points);
    forget_near(m);
    return status;
}

/* Of an answer that is made of two: certified where both are, approximate where one is. */
static kith_exactness join_exactness(kith_exactness a, kith_exactness b)
{
    if (a == KITH_APPROXIMATE || b == KITH_APPROXIMATE) {
        return KITH_APPROXIMATE;
    }
    return a == KITH_CERTIFIED && b == KITH_CERTIFIED ? KITH_CERTIFIED : KITH_EXACTNESS_UNKNOWN;
}

kith_exactness kin_merge_exactness(const kin_merge_sets *sets)
{
    return join_exactness(kin_exactness_of(&sets->graph[0]), kin_exactness_of(&sets->graph[1]));
}

/* Lists from across with their keys, or the entries that join a list: at most as many as stand in
 * one. */
uint64_t kin_merge_bytes(const kin_merge_job *job)
{
    enum { KEYED = 12, WORD = 8, LEAST_LIST = 40 };
    const kin_graph_request *request = &job->descent.request;
    const uint64_t k = (uint64_t)job->params.k;
    const uint64_t list = request->list > 0 ? (uint64_t)request->list : LEAST_LIST + k + k / 4;
    return kin_size_mul((uint64_t)job->sets.points.rows,
                        job->choice.descends ? WORD * list : KEYED * k);
}

kith_status kin_engine_merge(kith_ctx *ctx, const kin_merge_job *job, const kith_neighbors *out)
{
    KIN_HOLD(hold, ctx);
    const kith_matrix *points = &job->sets.points;
    const int64_t first = job->sets.first_rows;
    merging m = {.ctx = ctx,
                 .hold = &hold,
                 .job = job,
                 .first = {0, first},
                 .part = {kin_matrix_part(points, 0, first),
                          kin_matrix_part(points, first, points->rows - first)}};
    return merge(&m, out);
}
