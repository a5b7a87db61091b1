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

static inline kith_status test_corpus_create(kith_ctx *ctx, const kith_matrix *points,
                                             kith_metric metric, kith_corpus **out)
{
    kith_corpus_params params = kith_corpus_params_default();
    params.metric = metric;
    return kith_corpus_create(ctx, points, &params, out);
}

#define TEST_RECALL_PARAMS(metric, at, sample, seed) \
    (&(kith_recall_params){sizeof(kith_recall_params), (metric), (at), (sample), (seed)})

static inline kith_status test_walk(kith_ctx *ctx, const kith_matrix *points,
                                    const kith_neighbors *graph, const kith_matrix *queries,
                                    const kith_graph_search_params *params,
                                    const kith_neighbors *out, kith_graph_search_report *report)
{
    kith_graph_search_params own = *params;
    own.graph = graph;
    return kith_graph_search(ctx, points, queries, &own, out, report);
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
