/* SPDX-License-Identifier: Apache-2.0
 * The engines of a graph from shards: how a shard is built, what two get from each other, and how
 * that comes into their lists. */
#include "shard/shard_job.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { ROWS_A_TASK = 4096, LISTS_A_TASK = 256 };

/* The tables of what a meeting finds: `sides` of them, rows x k each. */
static void aim(kin_shard_job *job, const kin_shard_part *const *parts, const int64_t *k,
                int32_t sides)
{
    int64_t at = 0;
    for (int32_t i = 0; i < sides; i++) {
        job->found[i] = (kith_neighbors){.ids = job->found_ids + at,
                                         .distances64 = job->found_keys + at,
                                         .rows = parts[i]->rows,
                                         .k = k[i]};
        at += parts[i]->rows * k[i];
    }
}

/* Lists that are empty. */
static void clear_lists(const kin_shard_job *job, const kin_shard_part *part)
{
    for (int64_t i = 0; i < part->rows * job->k; i++) {
        part->lists.ids[i] = KITH_ID_NONE;
        part->lists.keys[i] = INFINITY;
    }
}

typedef struct taking {
    const kith_neighbors *found;
    const kin_shard_part *part;
    uint32_t *ids; /* twice k a thread */
    double *keys;
    int64_t k;
    uint32_t first;
    bool negates;
} taking;

/* Whether the nearest of what was found comes behind the last of a list that is full. */
static bool is_too_far(const taking *t, int64_t row)
{
    const int64_t last = row * t->k + t->k - 1;
    const double key = t->found->distances64[row * t->found->k];
    return t->part->lists.ids[last] != KITH_ID_NONE &&
           (t->negates ? -key : key) > t->part->lists.keys[last];
}

/* What was found as a list of the shard's length, and merged. */
static kith_status take_row(void *arg, int64_t row, int32_t thread)
{
    const taking *t = arg;
    if (is_too_far(t, row)) {
        return KITH_OK;
    }
    const int64_t k = t->k;
    const int64_t wide = t->found->k;
    const uint32_t *new_ids = t->found->ids + row * wide;
    const double *new_keys = t->found->distances64 + row * wide;
    uint32_t *ids = t->ids + 2 * thread * k;
    double *keys = t->keys + 2 * thread * k;
    for (int64_t i = 0; i < k; i++) {
        const bool there = i < wide && new_ids[i] != KITH_ID_NONE;
        ids[i] = there ? t->first + new_ids[i] : KITH_ID_NONE;
        keys[i] = !there ? INFINITY : t->negates ? -new_keys[i] : new_keys[i];
    }
    const kin_shard_lists own = {.ids = t->part->lists.ids + row * k,
                                 .keys = t->part->lists.keys + row * k};
    const kin_shard_lists room = {.ids = ids + k, .keys = keys + k};
    kin_shard_merge(k, &own, ids, keys, &room);
    return KITH_OK;
}

/* Found neighbours whose ids count from row `first` of all into the lists of a shard: each id once,
 * the first k by (key, id). */
static kith_status take_found(const kin_shard_job *job, const kith_neighbors *found, int64_t first,
                              const kin_shard_part *part)
{
    kith_ctx *ctx = job->ctx;
    taking t = {.found = found,
                .part = part,
                .k = job->k,
                .first = (uint32_t)first,
                .negates = job->metric == KITH_INNER_PRODUCT};
    const uint64_t room = 2 * (uint64_t)ctx->threads * (uint64_t)job->k;
    if (found->k == 0) {
        return KITH_OK;
    }
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, t.ids, room, "lists of threads");
    KIN_NEW(&hold, t.keys, room, "lists of threads");
    return kin_parallel_rows(ctx, NULL, part->rows, LISTS_A_TASK, take_row, &t);
}

/* ---- Exact graphs ----------------------------------------------------------------------------
 *
 * Exact graphs of shards, and what each shard gets from another one; rows, and pairs of shards,
 * that cannot meet are left out (exact_search.h). */

static kin_within known_of(const kin_shard_job *job, const kin_shard_part *part)
{
    return (kin_within){part->lists.keys + job->k - 1, job->k};
}

static kin_bounds_part part_of(const kin_shard_job *job, const kin_shard_part *part)
{
    return (kin_bounds_part){
        .set = part->shard, .rows = kin_shard_rows_of(job, part), .known = known_of(job, part)};
}

static kith_status narrow(kin_shard_job *job, kin_shard_part parts[KIN_SHARD_SIDES], bool *any)
{
    kin_shard_bounds *b = &job->bounds;
    const kin_bounds_part given[] = {part_of(job, &parts[0]), part_of(job, &parts[1])};
    const double all = (double)parts[0].rows * (double)parts[1].rows;
    kin_bounds_range near[KIN_SHARD_SIDES];
    KIN_TRY(kin_bounds_narrow(job->ctx, &b->bounds, given, near));
    for (int i = 0; i < KIN_SHARD_SIDES; i++) {
        parts[i].first += near[i].first;
        parts[i].rows = near[i].rows;
        parts[i].lists.ids += near[i].first * job->k;
        parts[i].lists.keys += near[i].first * job->k;
    }
    *any = near[0].rows > 0;
    b->met += *any;
    b->skipped += !*any;
    b->rows += all;
    b->left_out += all - (double)near[0].rows * (double)near[1].rows;
    return KITH_OK;
}

/* ---- Under a filter -------------------------------------------------------------------------- */

/* The filter's part for rows of `of`, and for others that ask; NULL: they ask themselves. What it
 * points to is the hold's. */
static kith_status cut_filter(const kin_shard_job *job, const kin_shard_part *of,
                              const kin_shard_part *asks, kin_hold *hold, kith_filter *filter)
{
    uint8_t *bits = NULL;
    *filter = job->filter;
    if (filter->groups != NULL) {
        filter->groups = job->filter.groups + of->first;
        filter->query_groups = asks != NULL ? job->filter.groups + asks->first : NULL;
    }
    if (filter->allow != NULL) {
        KIN_NEW(hold, bits, (uint64_t)kin_ceil_div(of->rows, 8), "a shard's bitmap");
        kin_shard_cut_bits(job->filter.allow, of->first, of->rows, bits);
        filter->allow = bits;
    }
    return KITH_OK;
}

/* What rows of `asks` find among those of `of`. */
static kith_status ask_filtered(kin_shard_job *job, const kin_shard_part *asks,
                                const kin_shard_part *of, const kith_neighbors *found)
{
    kith_search_params params = job->exact;
    const kith_matrix corpus = kin_shard_rows_of(job, of);
    const kith_matrix queries = kin_shard_rows_of(job, asks);
    kith_filter filter;
    KIN_HOLD(hold, job->ctx);
    KIN_TRY(cut_filter(job, of, asks, &hold, &filter));
    params.filter = &filter;
    params.k = found->k;
    params.flags &= ~(uint32_t)KITH_INCLUDE_SELF;
    return kin_shard_note(job, kith_search(job->ctx, &corpus, &queries, &params, found, NULL),
                          asks);
}

/* ---- Two shards ----------------------------------------------------------------------------- */

static kith_status build_exact(kin_shard_job *job, const kin_shard_part *a)
{
    kith_search_params params = job->exact;
    const kith_matrix rows = kin_shard_rows_of(job, a);
    params.k = kin_min_i64(job->k, a->rows - (job->self ? 0 : 1));
    clear_lists(job, a);
    aim(job, &a, &params.k, 1);
    if (params.k == 0) {
        return KITH_OK;
    }
    kith_filter filter;
    KIN_HOLD(hold, job->ctx);
    if (job->filters) {
        KIN_TRY(cut_filter(job, a, NULL, &hold, &filter));
        params.filter = &filter;
    }
    KIN_TRY(kin_shard_note(job, kith_graph(job->ctx, &rows, &params, &job->found[0], NULL), a));
    KIN_TRY(take_found(job, &job->found[0], a->first, a));
    const kin_bounds_part given = part_of(job, a);
    return job->filters ? KITH_OK : kin_bounds_measure(job->ctx, &job->bounds.bounds, &given);
}

/* Those rows of both that can meet: found ids count from the first of them. */
static kith_status meet_near(kin_shard_job *job, const kin_shard_part *a, const kin_shard_part *b)
{
    kith_matrix rows = job->points;
    rows.rows /= job->shards;
    kin_across across = {.rows = {kin_shard_rows_of(job, a), kin_shard_rows_of(job, b)},
                         .known = {known_of(job, a), known_of(job, b)},
                         .found = {job->found[0], job->found[1]},
                         .params = job->exact,
                         .suits_tree = kin_across_suits_tree(job->ctx, &rows, &job->exact)};
    across.params.k = job->k;
    across.params.flags &= ~(uint32_t)KITH_INCLUDE_SELF;
    return kin_shard_note(job, kin_across_search(job->ctx, &across), a);
}

static kith_status meet_exact(kin_shard_job *job, const kin_shard_part *a, const kin_shard_part *b)
{
    kin_shard_part *near = job->near;
    bool any = true;
    near[0] = *a;
    near[1] = *b;
    memset(job->found, 0, sizeof job->found);
    KIN_TRY(job->filters ? KITH_OK : narrow(job, near, &any));
    if (!any) {
        return KITH_OK;
    }
    const kin_shard_part *const parts[] = {&near[0], &near[1]};
    const int64_t k[] = {kin_min_i64(job->k, near[1].rows), kin_min_i64(job->k, near[0].rows)};
    aim(job, parts, k, KIN_SHARD_SIDES);
    if (!job->filters) {
        return meet_near(job, &near[0], &near[1]);
    }
    KIN_TRY(ask_filtered(job, &near[0], &near[1], &job->found[0]));
    return ask_filtered(job, &near[1], &near[0], &job->found[1]);
}

static kith_status merge_exact(void *arg, const kin_shard_part *a, const kin_shard_part *b)
{
    (void)a;
    (void)b;
    const kin_shard_job *job = arg;
    const kin_shard_part *near = job->near;
    KIN_TRY(take_found(job, &job->found[0], near[1].first, &near[0]));
    return take_found(job, &job->found[1], near[0].first, &near[1]);
}

/* ---- Approximate graphs ----------------------------------------------------------------------
 *
 * Approximate graphs of shards, and what each shard gets from another one by a merge. A merge wants
 * the rows of both one behind the other, and for each the graph of its own rows alone: lists that
 * have met others hold few ids of their own shard any more, and the graph that the build has left
 * is kept beside them. */

/* Rounds end by a recall that is wanted, else nobody asks for one. */
static kith_descent_params params_for(const kin_shard_job *job, int64_t most)
{
    kith_descent_params params = job->descent;
    params.k = kin_min_i64(job->k, most);
    params.recall_at = kin_min_i64(params.recall_at, params.k);
    params.sample = params.recall > 0.0 ? params.sample : -1;
    return params;
}

static void keep_own(const kin_shard_job *job, const kin_shard_part *a)
{
    const kith_neighbors *found = &job->found[0];
    for (int64_t row = 0; row < a->rows; row++) {
        for (int64_t i = 0; i < job->k; i++) {
            a->lists.own[row * job->k + i] =
                i < found->k ? found->ids[row * found->k + i] : KITH_ID_NONE;
        }
    }
}

static kith_status build_descent(kin_shard_job *job, const kin_shard_part *a)
{
    const kith_matrix rows = kin_shard_rows_of(job, a);
    const kith_descent_params params = params_for(job, a->rows - (job->self ? 0 : 1));
    clear_lists(job, a);
    aim(job, &a, &params.k, 1);
    if (params.k > 0) {
        KIN_TRY(kin_shard_note(job, kin_shard_descend(job, &rows, &params, &job->found[0]), a));
    }
    keep_own(job, a);
    return take_found(job, &job->found[0], a->first, a);
}

/* ---- Two shards one behind the other -------------------------------------------------------- */

/* The first shard stays where it is as long as it meets others. */
static kith_status gather(kin_shard_job *job, const kin_shard_part *a, const kin_shard_part *b,
                          kith_matrix *both)
{
    const kin_shard_part *const parts[] = {a, b};
    const int64_t row_bytes = kin_shard_row_bytes(job);
    const int64_t most = kin_ceil_div(job->points.rows, job->shards);
    if (job->pair_rows == NULL) {
        KIN_TRY(kin_alloc(job->ctx, &job->pair_rows,
                          kin_size_mul((uint64_t)(KIN_SHARD_SIDES * most), (uint64_t)row_bytes), 1,
                          "rows of two shards"));
        job->gathered = -1;
    }
    for (int i = 0; i < KIN_SHARD_SIDES; i++) {
        const kith_matrix rows = kin_shard_rows_of(job, parts[i]);
        unsigned char *to = job->pair_rows + (i == 0 ? 0 : a->rows * row_bytes);
        if (i == 1 || job->gathered != a->shard) {
            KIN_TRY(kin_copy_rows(job->ctx, &rows, NULL, rows.rows, to, both));
        }
    }
    job->gathered = a->shard;
    both->data = job->pair_rows;
    both->rows = a->rows + b->rows;
    return KITH_OK;
}

/* ---- A meeting ------------------------------------------------------------------------------ */

typedef struct counting {
    uint32_t *ids;
    int64_t k;
    uint32_t rows;      /* of the first shard */
    uint32_t offset[2]; /* what is added to ids of the first shard's rows, and of the second's */
} counting;

/* Ids of both shards' rows become those of all points, in the same order. */
static kith_status count_from_all(void *arg, int64_t row, int32_t thread)
{
    (void)thread;
    const counting *c = arg;
    for (int64_t i = row * c->k; i < (row + 1) * c->k; i++) {
        if (c->ids[i] != KITH_ID_NONE) {
            c->ids[i] += c->offset[c->ids[i] >= c->rows];
        }
    }
    return KITH_OK;
}

static kith_status meet_descent(kin_shard_job *job, const kin_shard_part *a,
                                const kin_shard_part *b)
{
    const kin_shard_part *const parts[] = {a, b};
    const int64_t rows = a->rows + b->rows;
    const kith_descent_params params = params_for(job, rows - (job->self ? 0 : 1));
    const int64_t k[] = {params.k, params.k};
    const kith_neighbors graph1 = {.ids = a->lists.own, .rows = a->rows, .k = job->k};
    const kith_neighbors graph2 = {.ids = b->lists.own, .rows = b->rows, .k = job->k};
    kith_matrix both;
    KIN_TRY(gather(job, a, b, &both));
    aim(job, parts, k, KIN_SHARD_SIDES);
    const kith_neighbors out = {
        .ids = job->found_ids, .distances64 = job->found_keys, .rows = rows, .k = params.k};
    const kith_search_params named = kin_shard_search_params(&params, params.k);
    KIN_TRY(kin_shard_note(job,
                           kith_graph_merge(job->ctx,
                                            &(kith_merge_sets){&both, a->rows, &graph1, &graph2},
                                            &named, &out, NULL),
                           a));
    counting c = {.ids = job->found_ids,
                  .k = params.k,
                  .rows = (uint32_t)a->rows,
                  .offset = {(uint32_t)a->first, (uint32_t)(b->first - a->rows)}};
    return kin_parallel_rows(job->ctx, NULL, rows, ROWS_A_TASK, count_from_all, &c);
}

static kith_status merge_descent(void *arg, const kin_shard_part *a, const kin_shard_part *b)
{
    kin_shard_job *job = arg;
    KIN_TRY(take_found(job, &job->found[0], 0, a));
    KIN_TRY(take_found(job, &job->found[1], 0, b));
    if (job->sample.count > 0) {
        kin_shard_sample_note(job, a);
        kin_shard_sample_note(job, b);
    }
    return KITH_OK;
}

/* ---- The engine ------------------------------------------------------------------------------ */

static kith_status build(void *arg, const kin_shard_part *a)
{
    kin_shard_job *job = arg;
    KIN_TRY(kin_progress_close(job->ctx)); /* of the step before */
    (void)snprintf(job->phase, sizeof job->phase, "shard %d of %d", (int)a->shard + 1,
                   (int)job->shards);
    return job->descends ? build_descent(job, a) : build_exact(job, a);
}

static kith_status meet(void *arg, const kin_shard_part *a, const kin_shard_part *b)
{
    kin_shard_job *job = arg;
    const int64_t stand = kin_shard_count_done(job->folder);
    const int64_t skipped = job->bounds.skipped;
    char more[32] = "";
    if (skipped > 0) {
        (void)snprintf(more, sizeof more, ", %" PRId64 " skipped", skipped);
    }
    KIN_TRY(kin_progress_close(job->ctx)); /* of the step before */
    (void)snprintf(job->phase, sizeof job->phase, "pair %d+%d (%" PRId64 " of %" PRId64 "%s)",
                   (int)a->shard + 1, (int)b->shard + 1, stand - job->shards + 1,
                   kin_shard_steps(job->shards) - job->shards, more);
    return job->descends ? meet_descent(job, a, b) : meet_exact(job, a, b);
}

/* Whether it is known that two shards need not meet, wherever their lists are. arg: the job. */
static kith_status is_apart(void *arg, int32_t a, int32_t b, bool *yes)
{
    kin_shard_job *job = arg;
    kin_shard_bounds *bounds = &job->bounds;
    const int32_t shards[] = {a, b};
    const int64_t rows[] = {kin_shard_rows(job->points.rows, job->shards, a),
                            kin_shard_rows(job->points.rows, job->shards, b)};
    KIN_TRY(kin_bounds_apart(job->ctx, &bounds->bounds, shards, rows, yes));
    if (*yes) {
        bounds->skipped += 1;
        bounds->rows += (double)rows[0] * (double)rows[1];
        bounds->left_out += (double)rows[0] * (double)rows[1];
    }
    return KITH_OK;
}

kin_shard_engine kin_shard_engine_of(kin_shard_job *job)
{
    const bool alone = job->params.team == NULL && job->bounds.bounds.usable;
    return (kin_shard_engine){.arg = job,
                              .build = build,
                              .meet = meet,
                              .merge = job->descends ? merge_descent : merge_exact,
                              .build_all = job->follows ? kin_shard_follow : NULL,
                              .apart = alone ? is_apart : NULL};
}
