/* SPDX-License-Identifier: Apache-2.0
 * What tests of public calls ask again and again: that one works, or is refused with the right
 * words; and tables of mistakes.
 *
 * A table is a macro of rows X(kinds, what, says): the kinds of calls that the mistake is made in,
 * the statement that makes it, and what the call then says. */
#ifndef SUPPORT_CALLS_H
#define SUPPORT_CALLS_H

#include "kith/kith.h"

/* Ends the test with what the context says. */
void test_works(const kith_ctx *ctx, kith_status status);
/* ... where the status is not `wanted`, or the context does not say `says`. */
void test_fails(const kith_ctx *ctx, kith_status status, kith_status wanted, const char *says);
/* An exact graph that is refused. */
void test_graph_refused(kith_ctx *ctx, const kith_matrix *points, const kith_search_params *params,
                        kith_status wanted, const char *says);

/* kith_search_params of a descent whose metric, k, recall ... stand in `like`; report may be NULL.
 */
static inline kith_search_params test_descends(const kith_descent_params *like,
                                               kith_descent_report *report)
{
    kith_search_params params = kith_search_params_default();
    params.metric = like->metric;
    params.k = like->k;
    params.flags = like->flags;
    params.method = KITH_METHOD_DESCENT;
    params.recall = like->recall;
    params.recall_at = like->recall_at;
    params.seed = like->seed;
    params.custom = like->custom;
    params.custom_arg = like->custom_arg;
    params.descent = like;
    params.descent_report = report;
    return params;
}
static inline kith_status test_descend(kith_ctx *ctx, const kith_matrix *points,
                                       const kith_descent_params *like, const kith_neighbors *out,
                                       kith_descent_report *report)
{
    const kith_search_params params = test_descends(like, report);
    return kith_graph(ctx, points, &params, out, NULL);
}

/* Two graphs made one: by such a descent, */
static inline kith_status test_merge_descending(kith_ctx *ctx, const kith_merge_sets *sets,
                                                const kith_descent_params *like,
                                                const kith_neighbors *out,
                                                kith_descent_report *report)
{
    const kith_search_params params = test_descends(like, report);
    return kith_graph_merge(ctx, sets, &params, out, NULL);
}
/* or exactly, whatever is known of them. */
static inline kith_status test_merge_exactly(kith_ctx *ctx, const kith_merge_sets *sets,
                                             const kith_search_params *like,
                                             const kith_neighbors *out)
{
    kith_search_params params = *like;
    params.recall = 1.0;
    return kith_graph_merge(ctx, sets, &params, out, NULL);
}

static inline kith_status test_index_create(kith_ctx *ctx, const kith_matrix *points,
                                            kith_metric metric, kith_index **out)
{
    kith_index_params params = kith_index_params_default();
    params.metric = metric;
    return kith_index_create(ctx, points, &params, out);
}

#define TEST_RECALL_PARAMS(metric, at, sample, seed) \
    (&(kith_recall_params){sizeof(kith_recall_params), (metric), (at), (sample), (seed)})

/* What an index is. */
static inline kith_index_info test_index_info(const kith_index *index)
{
    kith_index_info info = {.struct_size = (uint32_t)sizeof info};
    (void)kith_index_inspect(index, &info);
    return info;
}

/* A search by walks, in one struct. */
typedef struct test_walk_params {
    kith_metric metric;
    int64_t k;
    const kith_neighbors *graph;
    int64_t width;
    double recall;
    int64_t recall_at;
    int64_t sample;
    uint64_t seed;
    kith_distance_fn custom;
    void *custom_arg;
    int64_t meets;
} test_walk_params;

static inline test_walk_params test_walk_params_default(void)
{
    const test_walk_params params = {.k = 0};
    return params;
}

static inline kith_search_params test_walks(const test_walk_params *like, kith_walk_params *walk,
                                            kith_walk_report *report)
{
    kith_search_params params = kith_search_params_default();
    *walk = kith_walk_params_default();
    params.method = KITH_METHOD_GRAPH;
    params.metric = like->metric;
    params.k = like->k;
    params.recall = like->recall;
    params.recall_at = like->recall_at;
    params.seed = like->seed;
    params.custom = like->custom;
    params.custom_arg = like->custom_arg;
    params.walk = walk;
    params.walk_report = report;
    walk->graph = like->graph;
    walk->width = like->width;
    walk->sample = like->sample;
    walk->meets = like->meets;
    return params;
}

/* On a graph that is given; its recall is estimated unless sample is -1. */
static inline kith_status test_walk(kith_ctx *ctx, const kith_matrix *points,
                                    const kith_neighbors *graph, const kith_matrix *queries,
                                    const test_walk_params *params, const kith_neighbors *out,
                                    kith_walk_report *report)
{
    kith_walk_params walk;
    test_walk_params own = *params;
    own.graph = graph;
    own.sample = own.sample == 0 ? 1000 : own.sample;
    const kith_search_params search = test_walks(&own, &walk, report);
    return kith_search(ctx, points, queries, &search, out, NULL);
}

/* On that of an index. */
static inline kith_status test_index_walk(kith_ctx *ctx, const kith_index *index,
                                          const kith_matrix *queries,
                                          const test_walk_params *params, const kith_neighbors *out,
                                          kith_walk_report *report)
{
    kith_walk_params walk;
    const kith_search_params search = test_walks(params, &walk, report);
    return kith_index_search(ctx, index, queries, &search, out, NULL);
}

/* An index by a graph that is given. */
static inline kith_index_params test_graph_index_params(const kith_neighbors *graph,
                                                        kith_metric metric)
{
    kith_index_params params = kith_index_params_default();
    params.method = KITH_METHOD_GRAPH;
    params.metric = metric;
    params.graph = graph;
    return params;
}

/* Some rows of all. */
kith_matrix test_part_of(const kith_matrix *all, int64_t first, int64_t rows);

typedef struct test_mistake {
    const char *kinds;
    const char *says;
} test_mistake;

/* For a table's X: an entry of an array of test_mistake. */
#define TEST_MISTAKE_ROW(kinds, what, says) {kinds, says},
/* For its X where `row` counts from 0: does what row `number` says, and returns. */
#define TEST_MISTAKE_DO(kinds, what, says) \
    if (row++ == number) {                 \
        what;                              \
        return;                            \
    }

#endif
