/* SPDX-License-Identifier: Apache-2.0
 * Shards that follow clusters, for approximate graphs: groups of near points that overlap.
 *
 * Some of the points are centers, and each point is near to some of these. Centers are divided
 * among the groups by halving them again and again at the median of their widest column, so that
 * near ones stay together and groups have about as many points each. A point belongs to the group
 * of its nearest center, and to the first other group among those of its next ones: who stands near
 * a border is in both. So every group is built alone, and nobody has to meet.
 *
 * Whether that finds what is to be found is known beforehand: of the true neighbours of a sample,
 * those that share a group with their point. */
#include "api/api_sample.h"
#include "api/api_shard.h"
#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "file/file_item.h"
#include "host/host_threads.h"
#include "select/select_pairs.h"

enum { CENTERS_A_GROUP = 64, NEAREST = 8, SAMPLE = 20000, LEAST_GROUPS = 3, LEAST_ROWS = 4096 };
/* Without a wanted recall; and the share of what a wanted one leaves that borders may take. */
static const double USUAL_COVER = 0.97;
static const double SHARE_OF_LOSS = 0.5;

typedef struct grouping {
    kin_sharding *job;
    kith_matrix centers;
    unsigned char *copy;
    float *values;     /* of the centers */
    int64_t *weights;  /* points of a sample that are nearest to each */
    uint16_t *groups;  /* of each center */
    kin_pair *sorted;  /* centers in the order of a column */
    uint32_t *nearest; /* NEAREST ids a row of a shard */
    int64_t near;      /* at most NEAREST, at most the centers */
} grouping;

bool kin_sharding_may_follow(const kin_sharding *job)
{
    return job->descends && job->shards >= LEAST_GROUPS && job->metric != KITH_INNER_PRODUCT &&
           job->points.rows / job->shards >= LEAST_ROWS;
}

/* ---- Centers -------------------------------------------------------------------------------- */

static kith_status make_centers(grouping *g)
{
    kin_sharding *job = g->job;
    const kith_matrix *points = &job->points;
    const int64_t wanted = (int64_t)CENTERS_A_GROUP * job->shards;
    const int64_t count = kin_min_i64(wanted, points->rows);
    const kin_item item = kin_item_of(points->dtype);
    uint32_t *rows = NULL;
    KIN_TRY(kin_alloc(job->ctx, &g->copy, (uint64_t)count,
                      (uint64_t)points->cols * (uint64_t)item.bytes, "centers"));
    KIN_TRY(kin_alloc(job->ctx, &g->values, (uint64_t)count,
                      (uint64_t)points->cols * sizeof *g->values, "centers"));
    KIN_TRY(kin_alloc_zero(job->ctx, &g->weights, (uint64_t)count, sizeof *g->weights, "centers"));
    KIN_TRY(kin_alloc_zero(job->ctx, &g->groups, (uint64_t)count, sizeof *g->groups, "centers"));
    KIN_TRY(kin_alloc(job->ctx, &g->sorted, (uint64_t)count, sizeof *g->sorted, "centers"));
    KIN_TRY(kin_alloc(job->ctx, &rows, (uint64_t)count, sizeof *rows, "centers"));
    kin_sample_draw(points->rows, count, job->descent.seed + 2, rows);
    g->centers = kin_sample_gather(points, rows, count, g->copy);
    kin_free(job->ctx, rows);
    g->near = kin_min_i64(NEAREST, count);
    for (int64_t i = 0; i < count * points->cols; i++) {
        double value = 0.0;
        (void)kin_item_load(item, g->copy + i * item.bytes, &value);
        g->values[i] = (float)value;
    }
    return KITH_OK;
}

static kith_status find_nearest(grouping *g, const kith_matrix *rows)
{
    kith_search_params params = kith_search_params_default();
    params.metric = g->job->descent.metric;
    params.k = g->near;
    const kith_neighbors out = {.ids = g->nearest, .rows = rows->rows, .k = g->near};
    return kith_knn_exact(g->job->ctx, &g->centers, rows, &params, &out);
}

/* Points of a sample that are nearest to each center. */
static kith_status weigh(grouping *g)
{
    kin_sharding *job = g->job;
    const int64_t count = kin_min_i64(SAMPLE, job->points.rows);
    uint32_t *rows = NULL;
    unsigned char *copy = NULL;
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, kin_alloc(job->ctx, &rows, (uint64_t)count, sizeof *rows, "a sample"),
                 done);
    KIN_TRY_GOTO(
        status,
        kin_alloc(job->ctx, &copy, (uint64_t)count,
                  (uint64_t)job->points.cols * (uint64_t)kith_dtype_bytes(job->points.dtype),
                  "a sample"),
        done);
    kin_sample_draw(job->points.rows, count, job->descent.seed + 3, rows);
    const kith_matrix sample = kin_sample_gather(&job->points, rows, count, copy);
    KIN_TRY_GOTO(status, find_nearest(g, &sample), done);
    for (int64_t i = 0; i < count; i++) {
        g->weights[g->nearest[i * g->near]] += 1;
    }
done:
    kin_free(job->ctx, copy);
    kin_free(job->ctx, rows);
    return status;
}

/* ---- Groups --------------------------------------------------------------------------------- */

/* Of the centers sorted[first .. last), by their ids. */
static int32_t widest_column(const grouping *g, int64_t first, int64_t last)
{
    const int64_t cols = g->centers.cols;
    int32_t widest = 0;
    double most = -1.0;
    for (int64_t col = 0; col < cols; col++) {
        double sum = 0.0;
        double squares = 0.0;
        for (int64_t i = first; i < last; i++) {
            const double value = (double)g->values[g->sorted[i].id * cols + col];
            sum += value;
            squares += value * value;
        }
        const double spread = squares - sum * sum / (double)(last - first);
        if (spread > most) {
            most = spread;
            widest = (int32_t)col;
        }
    }
    return widest;
}

/* Where the first `groups_before` of `groups` groups have their share of the weight. */
static int64_t cut_at(const grouping *g, int64_t first, int64_t last, int32_t groups,
                      int32_t groups_before)
{
    int64_t all = 0;
    int64_t sum = 0;
    for (int64_t i = first; i < last; i++) {
        all += g->weights[g->sorted[i].id] + 1;
    }
    int64_t at = first;
    for (; at < last - 1 && sum * groups < all * groups_before; at++) {
        sum += g->weights[g->sorted[at].id] + 1;
    }
    return at > first ? at : first + 1;
}

/* Depth: log2 of the groups. */
static void divide(grouping *g, int64_t first, int64_t last, int32_t group, int32_t groups)
{
    if (groups == 1 || last - first < 2) {
        for (int64_t i = first; i < last; i++) {
            g->groups[g->sorted[i].id] = (uint16_t)group;
        }
        return;
    }
    const int32_t col = widest_column(g, first, last);
    for (int64_t i = first; i < last; i++) {
        g->sorted[i].key = (double)g->values[g->sorted[i].id * (int64_t)g->centers.cols + col];
    }
    kin_select_sort_pairs(g->sorted + first, last - first);
    const int32_t before = groups / 2;
    const int64_t at = cut_at(g, first, last, groups, before);
    divide(g, first, at, group, before);
    divide(g, at, last, group + before, groups - before);
}

/* ---- Homes ---------------------------------------------------------------------------------- */

/* Both homes of the rows of one shard; a group that is full takes no guests. */
static void give_homes(grouping *g, int64_t first, int64_t rows)
{
    kin_sharding_groups *all = &g->job->groups;
    for (int64_t i = 0; i < rows; i++) {
        const uint32_t *near = g->nearest + i * g->near;
        const uint16_t own = g->groups[near[0]];
        uint16_t other = KIN_SHARDING_NO_GROUP;
        for (int64_t j = 1; j < g->near && other == KIN_SHARDING_NO_GROUP; j++) {
            other = g->groups[near[j]] != own ? g->groups[near[j]] : other;
        }
        all->home[0][first + i] = own;
        all->home[1][first + i] = other;
        all->sizes[own] += 1;
    }
}

static void count_guests(kin_sharding *job)
{
    kin_sharding_groups *all = &job->groups;
    for (int64_t row = 0; row < job->points.rows; row++) {
        const uint16_t other = all->home[1][row];
        if (other != KIN_SHARDING_NO_GROUP && all->sizes[other] >= all->most) {
            all->home[1][row] = KIN_SHARDING_NO_GROUP;
        } else if (other != KIN_SHARDING_NO_GROUP) {
            all->sizes[other] += 1;
        }
    }
}

static kith_status assign(grouping *g)
{
    kin_sharding *job = g->job;
    for (int32_t i = 0; i < job->shards; i++) {
        const kin_shard_part part = {.shard = i,
                                     .first = kin_shard_first(job->points.rows, job->shards, i),
                                     .rows = kin_shard_rows(job->points.rows, job->shards, i)};
        const kith_matrix rows = kin_sharding_rows(job, &part);
        KIN_TRY(kin_sharding_note(job, find_nearest(g, &rows), &part));
        give_homes(g, part.first, part.rows);
        kin_sharding_return(job, part.first, part.rows);
    }
    count_guests(job);
    return KITH_OK;
}

/* ---- Whether it pays ------------------------------------------------------------------------ */

static bool shares_group(const kin_sharding_groups *all, uint32_t a, uint32_t b)
{
    for (int i = 0; i < 2; i++) {
        const uint16_t home = all->home[i][a];
        if (home != KIN_SHARDING_NO_GROUP && (home == all->home[0][b] || home == all->home[1][b])) {
            return true;
        }
    }
    return false;
}

static double coverage(const kin_sharding *job)
{
    const kin_sharding_sample *s = &job->sample;
    int64_t shared = 0;
    for (int64_t i = 0; i < s->count * s->at; i++) {
        shared += shares_group(&job->groups, s->rows[i / s->at], s->truth_ids[i]);
    }
    return (double)shared / (double)(s->count * s->at);
}

static bool pays(kin_sharding *job)
{
    const double wanted = job->descent.recall;
    const double enough =
        wanted > 0.0 ? wanted + (1.0 - wanted) * (1.0 - SHARE_OF_LOSS) : USUAL_COVER;
    for (int32_t i = 0; i < job->shards; i++) {
        if (job->groups.sizes[i] <= job->k || job->groups.sizes[i] > job->groups.most) {
            return false;
        }
    }
    job->groups.cover = coverage(job);
    return job->groups.cover >= enough;
}

static kith_status make_homes(kin_sharding *job)
{
    kin_sharding_groups *all = &job->groups;
    const uint64_t rows = (uint64_t)job->points.rows;
    all->most = 2 * kin_ceil_div(job->points.rows, job->shards);
    for (int i = 0; i < 2; i++) {
        KIN_TRY(kin_alloc(job->ctx, &all->home[i], rows, sizeof *all->home[i], "groups of rows"));
    }
    return kin_alloc_zero(job->ctx, &all->sizes, (uint64_t)job->shards, sizeof *all->sizes,
                          "groups");
}

static kith_status run(grouping *g)
{
    kin_sharding *job = g->job;
    const int64_t most = kin_max_i64(kin_ceil_div(job->points.rows, job->shards), SAMPLE);
    KIN_TRY(make_homes(job));
    KIN_TRY(make_centers(g));
    KIN_TRY(kin_alloc(job->ctx, &g->nearest, kin_size_mul((uint64_t)most, (uint64_t)g->near),
                      sizeof *g->nearest, "nearest centers"));
    KIN_TRY(weigh(g));
    for (int64_t i = 0; i < g->centers.rows; i++) {
        g->sorted[i].id = (uint32_t)i;
    }
    divide(g, 0, g->centers.rows, 0, job->shards);
    return assign(g);
}

kith_status kin_sharding_group(kin_sharding *job)
{
    grouping g = {.job = job};
    const kith_status status = run(&g);
    kin_free(job->ctx, g.nearest);
    kin_free(job->ctx, g.sorted);
    kin_free(job->ctx, g.groups);
    kin_free(job->ctx, g.weights);
    kin_free(job->ctx, g.values);
    kin_free(job->ctx, g.copy);
    job->follows = status == KITH_OK && pays(job);
    if (!job->follows) {
        kin_sharding_group_free(job);
    }
    return status;
}

void kin_sharding_group_free(kin_sharding *job)
{
    kin_free(job->ctx, job->groups.home[0]);
    kin_free(job->ctx, job->groups.home[1]);
    kin_free(job->ctx, job->groups.sizes);
    memset(&job->groups, 0, sizeof job->groups);
}
