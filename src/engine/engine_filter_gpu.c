/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. On a GPU a part costs the launches of an engine, some hundred microseconds whatever it
 * does; ten thousand groups of a hundred rows are less work than one of them. So where groups are
 * small, or a bitmap keeps little, all pairs are compared in one go (fused_pick.c).
 *
 *     rule        a query of group g may find
 *     none, same  rows [begin g, end g)
 *     other       rows [0, begin g) and [end g, all) */
#include "engine/engine_filter.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "fused/fused_search.h"

/* Seconds of a GPU: a pair, and each column of it, compared as it is; an engine's call; a pair's
 * column that is screened. */
static const double PICK_PAIR = 4e-11;
static const double PICK_COL = 8e-13;
static const double CALL = 8e-4;
static const double SCREEN_COL = 1e-14;

/* Which listed rows a group's queries may find. */
static kin_fused_span span_of(const kin_filter_job *job, const kin_filter_groups *groups,
                              int64_t group)
{
    const uint32_t first = (uint32_t)groups->row_begin[group];
    const uint32_t own = (uint32_t)(groups->row_begin[group + 1] - groups->row_begin[group]);
    const uint32_t all = (uint32_t)groups->row_begin[groups->count];
    return job->filter.rule == KITH_RULE_OTHER
               ? (kin_fused_span){.count = all - own, .before = first, .gap = own}
               : (kin_fused_span){.first = first, .count = own, .before = own};
}

static double pairs_of(const kin_filter_job *job, const kin_filter_groups *groups, int64_t group)
{
    const int64_t queries = groups->query_begin[group + 1] - groups->query_begin[group];
    return (double)span_of(job, groups, group).count * (double)queries;
}

double kin_filter_pairs(const kin_filter_job *job, const kin_filter_groups *groups)
{
    double pairs = 0.0;
    for (int64_t i = 0; i < groups->count; i++) {
        pairs += pairs_of(job, groups, i);
    }
    return pairs;
}

bool kin_filter_picks(const kin_filter_job *job, const kin_filter_groups *groups)
{
    const double cols = (double)job->corpus.cols;
    double pick = 0.0;
    double engine = 0.0;
    if (job->lists > 1 || kin_filter_has_bitmaps(&job->filter) ||
        job->request.method == KITH_METHOD_TREE ||
        !kin_fused_picks_take(&job->request, groups->row_begin[groups->count])) {
        return false;
    }
    for (int64_t i = 0; i < groups->count; i++) {
        const double pairs = pairs_of(job, groups, i);
        pick += pairs * (PICK_PAIR + PICK_COL * cols);
        engine += pairs > 0.0 ? CALL + pairs * cols * SCREEN_COL : 0.0;
    }
    return pick < engine;
}

typedef struct listing {
    const kin_filter_groups *groups;
    kin_fused_span *spans;
    uint32_t *owners; /* by position of the queries */
} listing;

static void name_listing(kin_layout *layout, void *job)
{
    listing *l = job;
    const kin_filter_groups *groups = l->groups;
    l->spans = kin_layout_array(layout, (uint64_t)groups->count, sizeof *l->spans);
    l->owners =
        kin_layout_array(layout, (uint64_t)groups->query_begin[groups->count], sizeof *l->owners);
}

/* Returns the longest span. */
static int64_t list_spans(const kin_filter_job *job, const listing *l)
{
    const kin_filter_groups *groups = l->groups;
    int64_t longest = 0;
    for (int64_t i = 0; i < groups->count; i++) {
        l->spans[i] = span_of(job, groups, i);
        longest = kin_max_i64(longest, l->spans[i].count);
        for (int64_t j = groups->query_begin[i]; j < groups->query_begin[i + 1]; j++) {
            l->owners[j] = (uint32_t)i;
        }
    }
    return longest;
}

kith_status kin_filter_pick_on_gpu(kith_ctx *ctx, kin_gpu *gpu, const kin_filter_job *job,
                                   const kin_filter_groups *groups, uint32_t place,
                                   const kith_neighbors *out)
{
    const kin_fused_query query = {.queries = job->graph ? NULL : &job->queries,
                                   .name = "queries",
                                   .request = &job->request,
                                   .place = place,
                                   .out = out};
    listing l = {.groups = groups};
    void *block = NULL;
    KIN_TRY(kin_layout_make(ctx, name_listing, &l, "groups of rows", &block));
    const kin_fused_picks picks = {.corpus = &job->corpus,
                                   .place = job->resident ? KIN_FUSED_DATA_ON_DEVICE : place,
                                   .query = &query,
                                   .asked = groups->queries,
                                   .owners = l.owners,
                                   .asked_count = groups->query_begin[groups->count],
                                   .listed = groups->rows,
                                   .listed_count = groups->row_begin[groups->count],
                                   .longest = list_spans(job, &l),
                                   .spans = l.spans,
                                   .span_count = groups->count};
    const kith_status status = kin_fused_pick(ctx, gpu, &picks);
    kin_free(ctx, block);
    return status;
}
