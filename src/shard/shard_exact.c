/* SPDX-License-Identifier: Apache-2.0
 * Exact graphs of shards, and what each shard gets from another one; rows, and pairs of shards,
 * that cannot meet are left out (exact_runs.h). */
#include "shard/shard_job.h"
#include "shard/shard_truth.h"

static kin_bounds_sets sets_of(const kin_shard_job *job, int32_t shards)
{
    return (kin_bounds_sets){
        .distance = {.metric = job->exact.metric, .cols = job->points.cols, .isa = job->ctx->isa},
        .rows = kin_ceil_div(job->points.rows, shards),
        .count = job->descends || job->filters ? 0 : shards};
}

uint64_t kin_shard_bounds_bytes(const kin_shard_job *job, int32_t shards)
{
    const kin_bounds_sets sets = sets_of(job, shards);
    return kin_bounds_bytes(job->ctx, &sets);
}

kith_status kin_shard_bounds_make(kin_shard_job *job)
{
    const kin_bounds_sets sets = sets_of(job, job->shards);
    return kin_bounds_make(job->ctx, &sets, &job->bounds.bounds);
}

void kin_shard_bounds_free(kin_shard_job *job)
{
    kin_bounds_free(job->ctx, &job->bounds.bounds);
}

static kin_within known_of(const kin_shard_job *job, const kin_shard_part *part)
{
    return (kin_within){part->lists.keys + job->k - 1, job->k};
}

static kin_bounds_part part_of(const kin_shard_job *job, const kin_shard_part *part)
{
    return (kin_bounds_part){
        .set = part->shard, .rows = kin_shard_rows_of(job, part), .known = known_of(job, part)};
}

static kith_status measure(kin_shard_job *job, const kin_shard_part *part)
{
    const kin_bounds_part given = part_of(job, part);
    return kin_bounds_measure(job->ctx, &job->bounds.bounds, &given);
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
        kin_truth_cut_bits(job->filter.allow, of->first, of->rows, bits);
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

static kith_status meet_filtered(kin_shard_job *job, const kin_shard_part *a,
                                 const kin_shard_part *b)
{
    const kin_shard_part *const parts[] = {a, b};
    const int64_t k[] = {kin_min_i64(job->k, b->rows), kin_min_i64(job->k, a->rows)};
    kin_shard_aim(job, parts, k, KIN_SHARD_SIDES);
    KIN_TRY(ask_filtered(job, a, b, &job->found[0]));
    return ask_filtered(job, b, a, &job->found[1]);
}

/* ---- The engine ----------------------------------------------------------------------------- */

kith_status kin_shard_build_exact(void *arg, const kin_shard_part *a)
{
    kin_shard_job *job = arg;
    kith_search_params params = job->exact;
    const kith_matrix rows = kin_shard_rows_of(job, a);
    params.k = kin_min_i64(job->k, a->rows - (job->self ? 0 : 1));
    kin_shard_clear(job, a);
    kin_shard_aim(job, &a, &params.k, 1);
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
    KIN_TRY(kin_shard_take(job, &job->found[0], a->first, a));
    return job->filters ? KITH_OK : measure(job, a);
}

/* Those rows of both that can meet: found ids count from the first of them. */
static kith_status meet_near(kin_shard_job *job, const kin_shard_part *a, const kin_shard_part *b)
{
    const kin_shard_part *const parts[] = {a, b};
    const int64_t k[] = {kin_min_i64(job->k, b->rows), kin_min_i64(job->k, a->rows)};
    kith_matrix rows = job->points;
    kin_shard_aim(job, parts, k, KIN_SHARD_SIDES);
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

kith_status kin_shard_meet_exact(void *arg, const kin_shard_part *a, const kin_shard_part *b)
{
    kin_shard_job *job = arg;
    kin_shard_part *near = job->near;
    bool any = false;
    near[0] = *a;
    near[1] = *b;
    memset(job->found, 0, sizeof job->found);
    if (job->filters) {
        return meet_filtered(job, a, b);
    }
    KIN_TRY(narrow(job, near, &any));
    return any ? meet_near(job, &near[0], &near[1]) : KITH_OK;
}

kith_status kin_shard_merge_exact(void *arg, const kin_shard_part *a, const kin_shard_part *b)
{
    (void)a;
    (void)b;
    const kin_shard_job *job = arg;
    const kin_shard_part *near = job->near;
    KIN_TRY(kin_shard_take(job, &job->found[0], near[1].first, &near[0]));
    return kin_shard_take(job, &job->found[1], near[0].first, &near[1]);
}
