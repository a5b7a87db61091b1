/* SPDX-License-Identifier: Apache-2.0
 * Shards that follow clusters, for approximate graphs: groups of near points that overlap.
 *
 * Points are in cells, cells in groups (shard_cells.c). A point belongs to
 * the group of its nearest cell, and as a guest to those of its next ones whose keys are within its
 * reach: a factor of the nearest key. So every group is built alone, and nobody has to meet.
 *
 * Reach decides what that finds, and what it costs. Both are known beforehand: of the true
 * neighbours of a sample, those that share a group with their point, and of other rows, how many
 * each group gets. The least reach that covers enough is taken. Groups are as few as memory
 * allows; guests may make more of them necessary, which makes more borders: then all begins again
 * with one more. Where no reach does at a cost that is below that of pairs, there are no groups. */
#include "shard/shard_job.h"

#include <math.h>

enum { LEAST_AT_ONCE = 1 << 22, MOST_AT_ONCE = 1 << 26, SHARE_AT_ONCE = 16 };
enum { ROWS_A_TASK = 1 << 14, ROWS_A_GATHER = 256, REACHES = 18 };
/* Without a wanted recall; and the share of what a wanted one leaves that borders may take. */
static const double USUAL_COVER = 0.99;
static const double SHARE_OF_LOSS = 0.5;
/* Reaches that are tried beside none, each so many times as far beyond 1 as the one before. */
static const double FIRST_REACH = 0.005;
static const double NEXT_REACH = 1.5;
/* Pairs of S shards cost S graphs, about; groups that overlap should cost clearly less. */
static const double SHARE_OF_PAIRS = 0.6;
/* What was seen of the largest group may be so many standard deviations too few. */
static const double DOUBT = 3.0;

/* Groups of one row. */
typedef struct homes {
    uint16_t group[KIN_SHARD_HOMES]; /* its own, then guests', then none */
} homes;

typedef struct grouping {
    kin_shard_job *job;
    kin_shard_cells cells;
    uint16_t *group;       /* by cell */
    kin_shard_near sample; /* of the sample's rows, then of their true neighbours */
    kin_shard_near chunk;
    int64_t *sizes; /* by group: rows that were seen */
    int32_t groups;
    int64_t room;   /* rows that a group may have */
    double largest; /* that the largest one will have */
    double reach;   /* below 1: no guests */
} grouping;

/* ---- Homes ---------------------------------------------------------------------------------- */

static bool is_home(const homes *h, uint16_t group)
{
    for (int i = 0; i < KIN_SHARD_HOMES; i++) {
        if (h->group[i] == group) {
            return true;
        }
    }
    return false;
}

static homes homes_of(const grouping *g, const uint32_t *cells, const double *keys, int64_t near)
{
    homes h;
    int count = 1;
    memset(&h, 0xff, sizeof h); /* KIN_SHARD_NO_GROUP */
    h.group[0] = g->group[cells[0]];
    for (int64_t i = 1; i < near && count < KIN_SHARD_HOMES; i++) {
        const uint16_t group = g->group[cells[i]];
        if (keys[i] <= keys[0] * g->reach && !is_home(&h, group)) {
            h.group[count++] = group;
        }
    }
    return h;
}

static homes homes_at(const grouping *g, const kin_shard_near *near, int64_t row)
{
    const int64_t at = row * g->cells.near;
    return homes_of(g, near->cells + at, near->keys + at, g->cells.near);
}

static bool shares_group(const homes *a, const homes *b)
{
    for (int i = 0; i < KIN_SHARD_HOMES && a->group[i] != KIN_SHARD_NO_GROUP; i++) {
        if (is_home(b, a->group[i])) {
            return true;
        }
    }
    return false;
}

/* ---- What a reach does ---------------------------------------------------------------------- */

/* Of the sample's true neighbours, those that share a group with their point. */
static double find_cover(const grouping *g)
{
    const kin_shard_sample *s = &g->job->sample;
    int64_t shared = 0;
    for (int64_t i = 0; i < s->count; i++) {
        const homes own = homes_at(g, &g->sample, i);
        for (int64_t j = 0; j < s->at; j++) {
            const homes other = homes_at(g, &g->sample, s->count + i * s->at + j);
            shared += shares_group(&own, &other);
        }
    }
    return (double)shared / (double)(s->count * s->at);
}

/* Groups that a row has, in the mean. */
static double find_overlap(grouping *g)
{
    const int64_t rows = g->cells.seen.rows;
    int64_t all = 0;
    int64_t most = 0;
    memset(g->sizes, 0, (size_t)g->groups * sizeof *g->sizes);
    for (int64_t i = 0; i < rows; i++) {
        const homes h = homes_at(g, &g->cells.seen, i);
        for (int j = 0; j < KIN_SHARD_HOMES && h.group[j] != KIN_SHARD_NO_GROUP; j++) {
            g->sizes[h.group[j]] += 1;
            all += 1;
        }
    }
    for (int32_t i = 0; i < g->groups; i++) {
        most = kin_max_i64(most, g->sizes[i]);
    }
    g->largest =
        ((double)most + DOUBT * sqrt((double)most)) / (double)rows * (double)g->job->points.rows;
    return (double)all / (double)rows;
}

static double most_overlap(const kin_shard_job *job)
{
    return fmin(KIN_SHARD_OVERLAP, SHARE_OF_PAIRS * (double)job->shards);
}

typedef enum verdict { VERDICT_TAKEN, VERDICT_MORE_GROUPS, VERDICT_NONE } verdict;

/* The least reach that covers enough. */
static verdict choose_reach(grouping *g)
{
    kin_shard_groups *all = &g->job->groups;
    double beyond = FIRST_REACH;
    g->reach = 0.0;
    for (int i = 0; i <= REACHES; i++) {
        const double overlap = find_overlap(g);
        if (overlap > most_overlap(g->job)) {
            return VERDICT_NONE;
        }
        all->overlap = overlap;
        all->cover = find_cover(g);
        if (all->cover >= all->wanted) {
            return g->largest <= (double)g->room ? VERDICT_TAKEN : VERDICT_MORE_GROUPS;
        }
        g->reach = 1.0 + beyond;
        beyond *= NEXT_REACH;
    }
    return VERDICT_NONE;
}

/* g->groups of them, or as many more as have room. */
static kith_status choose_groups(grouping *g, bool may_be_more, verdict *said)
{
    kith_ctx *ctx = g->job->ctx;
    *said = VERDICT_MORE_GROUPS;
    while (*said == VERDICT_MORE_GROUPS && g->groups <= KIN_SHARD_MOST) {
        kin_free(ctx, g->sizes);
        KIN_TRY(kin_alloc(ctx, &g->sizes, (uint64_t)g->groups, sizeof *g->sizes, "groups"));
        KIN_TRY(kin_shard_divide(&g->cells, g->groups, g->group));
        *said = choose_reach(g);
        if (!may_be_more) {
            return KITH_OK;
        }
        if (*said == VERDICT_MORE_GROUPS) {
            const double wanted = ceil(g->groups * g->largest / (double)g->room);
            g->groups = (int32_t)fmax(fmin(wanted, KIN_SHARD_MOST + 1), g->groups + 1);
        }
    }
    return KITH_OK;
}

/* ---- All rows ------------------------------------------------------------------------------- */

typedef struct assigning {
    const grouping *g;
    int64_t first; /* row of all points */
    int64_t rows;
    int64_t near;
} assigning;

static kith_status assign_row(void *arg, int64_t row, int32_t thread)
{
    (void)thread;
    const assigning *a = arg;
    const kin_shard_near *near = &a->g->chunk;
    const int64_t at = row * a->near;
    const homes h = homes_of(a->g, near->cells + at, near->keys + at, a->near);
    memcpy(a->g->job->groups.homes + (a->first + row) * KIN_SHARD_HOMES, &h, sizeof h);
    return KITH_OK;
}

static void count_rows(const assigning *a)
{
    kin_shard_groups *all = &a->g->job->groups;
    for (int64_t i = a->first; i < a->first + a->rows; i++) {
        const uint16_t *group = all->homes + i * KIN_SHARD_HOMES;
        for (int j = 0; j < KIN_SHARD_HOMES && group[j] != KIN_SHARD_NO_GROUP; j++) {
            all->sizes[group[j]] += 1;
            all->shared[group[j]] += group[1] != KIN_SHARD_NO_GROUP;
        }
    }
}

static kith_status assign_chunk(grouping *g, const kin_shard_part *part, int64_t near)
{
    kin_shard_job *job = g->job;
    const kith_matrix rows = kin_shard_rows_of(job, part);
    assigning a = {g, part->first, part->rows, near};
    KIN_TRY(kin_shard_note(job, kin_shard_find_cells(&g->cells, &rows, near, &g->chunk), part));
    KIN_TRY(kin_parallel_rows(job->ctx, NULL, part->rows, ROWS_A_TASK, assign_row, &a));
    count_rows(&a);
    kin_shard_return(job, part->first, part->rows);
    return KITH_OK;
}

static kith_status assign(grouping *g)
{
    kin_shard_job *job = g->job;
    kin_shard_groups *all = &job->groups;
    const int64_t rows = job->points.rows;
    const int64_t near = g->reach < 1.0 ? 1 : g->cells.near;
    const int64_t entries = kin_max_i64(LEAST_AT_ONCE, rows / SHARE_AT_ONCE);
    const int64_t at_once =
        kin_min_i64(kin_min_i64(entries, MOST_AT_ONCE) / near, kin_min_i64(rows, g->room));
    kin_shard_near_free(job->ctx, &g->chunk);
    kin_shard_group_free(job);
    KIN_TRY(kin_alloc(job->ctx, &all->homes, (uint64_t)rows, sizeof(homes), "groups of rows"));
    KIN_TRY(
        kin_alloc_zero(job->ctx, &all->sizes, (uint64_t)g->groups, sizeof *all->sizes, "groups"));
    KIN_TRY(
        kin_alloc_zero(job->ctx, &all->shared, (uint64_t)g->groups, sizeof *all->shared, "groups"));
    KIN_TRY(kin_shard_near_make(job->ctx, at_once, near, &g->chunk));
    for (int64_t first = 0; first < rows; first += at_once) {
        const kin_shard_part part = {.first = first, .rows = kin_min_i64(at_once, rows - first)};
        KIN_TRY(assign_chunk(g, &part, near));
    }
    return KITH_OK;
}

/* Whether a group is larger than was expected, or has too few rows for its lists. */
static verdict judge(const grouping *g)
{
    kin_shard_groups *all = &g->job->groups;
    int64_t least = INT64_MAX;
    int64_t sum = 0;
    all->most = 0;
    for (int32_t i = 0; i < g->groups; i++) {
        least = kin_min_i64(least, all->sizes[i]);
        all->most = kin_max_i64(all->most, all->sizes[i]);
        sum += all->sizes[i];
    }
    all->overlap = (double)sum / (double)g->job->points.rows;
    all->checksum = kin_checksum_of(all->homes, (uint64_t)g->job->points.rows * sizeof(homes));
    return least <= g->job->k    ? VERDICT_NONE
           : all->most > g->room ? VERDICT_MORE_GROUPS
                                 : VERDICT_TAKEN;
}

static kith_status find_groups(grouping *g, int32_t asked)
{
    kin_shard_job *job = g->job;
    const kith_shard_team *team = job->params.team;
    const int64_t least = team != NULL ? kin_max_i64(team->workers, KIN_SHARD_LEAST_GROUPS) : 2;
    const int64_t fewest = kin_max_i64(kin_ceil_div(job->points.rows, g->room), least);
    verdict said = VERDICT_MORE_GROUPS;
    g->groups = asked != 0 ? asked : (int32_t)fewest;
    while (said == VERDICT_MORE_GROUPS && g->groups <= KIN_SHARD_MOST) {
        KIN_TRY(choose_groups(g, asked == 0, &said));
        if (said == VERDICT_TAKEN) {
            KIN_TRY(assign(g));
            said = judge(g);
        }
        if (said == VERDICT_MORE_GROUPS && asked != 0) {
            return KITH_OK;
        }
        g->groups += said == VERDICT_MORE_GROUPS;
    }
    job->follows = said == VERDICT_TAKEN;
    return KITH_OK;
}

/* ---- The sample ----------------------------------------------------------------------------- */

/* Rows here and there: a page, and what comes with it, for each. */
static kith_status gather(const kin_shard_job *job, const uint32_t *ids, int64_t rows,
                          unsigned char *copy, kith_matrix *matrix)
{
    for (int64_t first = 0; first < rows; first += ROWS_A_GATHER) {
        const int64_t count = kin_min_i64(ROWS_A_GATHER, rows - first);
        KIN_TRY(kin_copy_rows(job->ctx, &job->points, ids + first, count,
                              copy + first * kin_shard_row_bytes(job), matrix));
        kin_shard_return(job, 0, job->points.rows);
    }
    matrix->data = copy;
    matrix->rows = rows;
    return KITH_OK;
}

static kith_status find_sample(grouping *g)
{
    kin_shard_job *job = g->job;
    const kin_shard_sample *s = &job->sample;
    const uint64_t row_bytes = (uint64_t)kin_shard_row_bytes(job);
    const int64_t rows = s->count * (1 + s->at);
    uint32_t *ids = NULL;
    unsigned char *copy = NULL;
    kith_matrix matrix;
    KIN_HOLD(hold, job->ctx);
    KIN_TRY(kin_shard_near_make(job->ctx, rows, g->cells.near, &g->sample));
    KIN_NEW(&hold, ids, (uint64_t)rows, "a sample");
    KIN_TRY(kin_hold_alloc(&hold, &copy, (uint64_t)rows, row_bytes, "a sample"));
    memcpy(ids, s->rows, (size_t)s->count * sizeof *ids);
    memcpy(ids + s->count, s->truth_ids, (size_t)(s->count * s->at) * sizeof *ids);
    KIN_TRY(gather(job, ids, rows, copy, &matrix));
    return kin_shard_find_cells(&g->cells, &matrix, g->cells.near, &g->sample);
}

/* Workers of a team make the same groups, so that what they depend on is the same. */
static kith_status find_room(grouping *g)
{
    kin_shard_job *job = g->job;
    const kith_shard_team *team = job->params.team;
    KIN_TRY(kin_shard_agree(job->ctx, team, kin_shard_group_room(job, &g->room)));
    KIN_TRY(team != NULL ? kin_shard_least(job->ctx, team, &g->room) : KITH_OK);
    return kin_shard_tell(job->ctx, team, &job->on_gpu, sizeof job->on_gpu);
}

static kith_status run(grouping *g, int32_t asked)
{
    kin_shard_job *job = g->job;
    const double wanted = job->descent.recall;
    job->groups.wanted =
        wanted > 0.0 ? wanted + (1.0 - wanted) * (1.0 - SHARE_OF_LOSS) : USUAL_COVER;
    KIN_TRY(find_room(g));
    if (g->room == 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_shard_cells_make(job, &g->cells));
    KIN_TRY(
        kin_alloc(job->ctx, &g->group, (uint64_t)g->cells.centers.rows, sizeof *g->group, "cells"));
    KIN_TRY(find_sample(g));
    return find_groups(g, asked);
}

kith_status kin_shard_group(kin_shard_job *job, int32_t asked)
{
    grouping g = {.job = job, .cells = {.job = job}};
    const kith_status status = run(&g, asked);
    kin_shard_near_free(job->ctx, &g.chunk);
    kin_shard_near_free(job->ctx, &g.sample);
    kin_free(job->ctx, g.sizes);
    kin_free(job->ctx, g.group);
    kin_shard_near_free(job->ctx, &g.cells.seen);
    kin_free(job->ctx, g.cells.block);
    if (job->follows) {
        job->shards = g.groups;
    } else {
        kin_shard_group_free(job);
    }
    return status;
}

void kin_shard_group_free(kin_shard_job *job)
{
    kin_free(job->ctx, job->groups.homes);
    kin_free(job->ctx, job->groups.shared);
    kin_free(job->ctx, job->groups.sizes);
    job->groups.homes = NULL;
    job->groups.shared = NULL;
    job->groups.sizes = NULL;
}
