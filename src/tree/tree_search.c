/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. In few dimensions most points can be proven far without being looked at. The points stand
 * in the leaves of a k-d tree (tree_build.c); queries are sorted by the leaf they fall into
 * (tree_job.c) and travel in packets of sixteen that share leaves (tree_walk.c), each from its
 * own leaf outwards. What a leaf leaves of a query is a few candidates by float32 distance
 * (tree_walk.h); at the end canonical keys order them. A graph's packets are the blocks of the
 * tree.
 *
 * Source. Gieseke, Heinermann, Oancea, Igel 2014, "Buffer k-d trees". There a leaf collects a
 * buffer of queries from everywhere before it is solved, because a GPU needs thousands. Here a
 * packet is that buffer, and the mask of a visit says who waits: a core needs as many queries as
 * pay for bringing a leaf into its first cache, and neighbours in the order want the same leaves
 * anyway. Threads share nothing but the tree.
 *
 * Exactness. tree_bound.h has the argument: a point is discarded only where its float32 distance,
 * or that of its box, proves its key to be larger than the k-th.
 *
 * Limits. In many dimensions every box is near and all pairs are computed with more effort than the
 * screen of exact/ needs; tree_cost.c says where.
 */
#include "tree/tree_cost.h"

#include "base/base_size.h"
#include "tree/tree_walk.h"

/* From where a query begins. */
static float first_reach(const kin_tree_job *j, int64_t query, float lost)
{
    const kin_request *request = j->about;
    const kin_within within = request->within[0];
    if (!request->limited && within.keys == NULL) {
        return INFINITY;
    }
    double key = INFINITY;
    if (request->limited) {
        key = kin_radius_key(request->distance.metric, request->radius);
    }
    if (within.keys != NULL) {
        key = fmin(key, within.keys[query * within.step]);
    }
    return kin_tree_reach(j->tree, key, lost);
}

static bool wins(const kin_tree_job *j, int64_t queries, double share)
{
    const kin_tree_cost cost = kin_tree_cost_of(j->about, j->tree->points, queries, j->by_blocks);
    return kin_tree_wins(&cost, share, true);
}

/* Whose rows they are is known. */
static kith_status open_lists(kin_tree_job *j)
{
    const kin_request *request = j->about;
    const bool graph = j->by_blocks;
    j->wanted_ids = kin_request_ids(request, graph, j->corpus->groups.rows);
    j->target.groups = graph ? &j->corpus->groups : &j->own.asked.groups;
    j->target.exclude = graph ? NULL : request->exclude;
    j->target.leaves_self_out = graph && kin_request_leaves(request, true);
    j->target.may_be_short = request->limited || request->within[0].keys != NULL;
    return KITH_OK;
}

static kin_tree_job job_of(kith_ctx *ctx, const kin_request *request, bool graph,
                           const kith_neighbors *out)
{
    return (kin_tree_job){.ctx = ctx,
                          .distance = &request->distance,
                          .height = request->tree_height,
                          .by_blocks = graph,
                          .about = request,
                          .reach = first_reach,
                          .wins = wins,
                          .open = open_lists,
                          .target.out = out};
}

kith_status kin_tree_search(kith_ctx *ctx, const kin_prepared *corpus, const kin_tree *tree,
                            const kith_matrix *queries, const kin_request *request,
                            const kith_neighbors *out)
{
    bool declined = false;
    kin_tree_job j = job_of(ctx, request, false, out);
    j.corpus = corpus;
    j.tree = tree;
    return kin_tree_job_run(&j, NULL, queries, &declined);
}

/* ---- A small tree before that ------------------------------------------------------------------
 */

/* So many rows, spread over a matrix. */
static kith_matrix spread(const kith_matrix *matrix, int64_t rows)
{
    const int64_t some = kin_min_i64(matrix->rows, rows);
    return kin_tree_some(matrix, some, matrix->rows / some);
}

static kith_status ask_small_tree(kith_ctx *ctx, const kith_matrix *corpus,
                                  const kith_matrix *queries, const kin_request *request,
                                  const kin_tree_cost *cost, kin_tree_verdict *verdict)
{
    kin_tree_tried tried;
    const int64_t sample = kin_tree_sample_of(cost);
    kin_request like = *request; /* of other rows */
    memset(like.within, 0, sizeof like.within);
    const kith_matrix some = spread(corpus, sample);
    const bool graph = queries == NULL;
    const kith_matrix few = graph ? some : spread(queries, sample);
    kin_tree_job j = job_of(ctx, &like, graph, NULL);
    j.wanted_ids = kin_min_i64(request->k, some.rows);
    const kith_status status = kin_tree_job_try(&j, &some, graph ? NULL : &few, &tried);
    *verdict = kin_tree_judge(cost, tried.pairs, tried.points);
    return status;
}

kith_status kin_tree_foresee(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                             const kin_request *request, kin_tree_verdict *verdict)
{
    const int64_t rows = queries != NULL ? queries->rows : corpus->rows;
    const kin_tree_cost cost = kin_tree_cost_of(request, corpus->rows, rows, queries == NULL);
    *verdict = KIN_TREE_TAKE;
    if (request->method != KITH_METHOD_AUTO || kin_tree_cannot_lose(&cost)) {
        return KITH_OK;
    }
    const kin_tree_chance chance = kin_tree_chance_of(&cost);
    if (chance == KIN_TREE_NO_CHANCE) {
        *verdict = KIN_TREE_DECLINE;
        return KITH_OK;
    }
    const kith_status status = ask_small_tree(ctx, corpus, queries, request, &cost, verdict);
    if (status == KITH_E_DATA) { /* the whole matrix names what is wrong, by its own rows */
        kin_forgive(ctx);
        *verdict = KIN_TREE_TRY;
        return KITH_OK;
    }
    KIN_TRY(status);
    if (*verdict == KIN_TREE_DECLINE && chance == KIN_TREE_LIKELY) {
        *verdict = KIN_TREE_TRY;
    }
    return KITH_OK;
}

/* ---- Engine -----------------------------------------------------------------------------------
 */

kith_status kin_tree_knn(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                         const kin_request *request, const kith_neighbors *out, bool *declined)
{
    kin_tree_verdict verdict;
    kin_tree_job j = job_of(ctx, request, queries == NULL, out);
    KIN_TRY(kin_tree_foresee(ctx, corpus, queries, request, &verdict));
    *declined = verdict == KIN_TREE_DECLINE;
    j.tries = verdict == KIN_TREE_TRY;
    return *declined ? KITH_OK : kin_tree_job_run(&j, corpus, queries, declined);
}

/* ---- Plans ------------------------------------------------------------------------------------
 */

/* What kin_tree_search holds. rows: ids; counted: a plan's tree is as large as it says. */
static void plan_search(kin_layout *plan, kin_tree_job *j, const kith_matrix *queries, int64_t rows,
                        bool counted)
{
    const kin_request *request = j->about;
    j->by_blocks = queries == NULL;
    j->wanted_ids = kin_min_i64(request->k + 1, rows);
    if (queries != NULL) {
        kin_prepare_rows_plan(plan, queries->rows, &request->distance, true,
                              kin_prepare_unknown(queries, &request->distance));
    }
    if (!counted) {
        /* A tree of fewer points may have larger leaves. */
        kin_layout_alone(plan, (uint64_t)j->threads * KIN_PACKET * sizeof(uint64_t),
                         (uint64_t)j->tree->leaf_points + KIN_TREE_LANES);
    }
    kin_tree_job_plan(plan, j, queries != NULL ? queries->rows : 0);
}

/* Of a tree of which the shape is known. */
static kin_tree_job planned(const kin_tree *tree, const kin_prepared *corpus,
                            const kin_request *request, int32_t threads)
{
    kin_tree_job j = job_of(NULL, request, false, NULL);
    j.tree = tree;
    j.corpus = corpus;
    j.threads = threads;
    return j;
}

kin_plan kin_tree_plan(const kith_matrix *corpus, const kith_matrix *queries,
                       const kin_request *request, kin_rows_known known, int32_t threads)
{
    const int32_t cols = kin_place_cols(request->distance.metric, corpus->cols);
    kin_layout plan = {.block = NULL};
    kin_tree tree = kin_tree_shape(
        known.distinct, cols, kin_tree_leaf_points_of(cols, known.distinct, request->tree_height));
    tree.wraps = request->distance.period != NULL;
    const kin_prepared prepared = {.groups = {.count = known.distinct}};
    kin_tree_job j = planned(&tree, &prepared, request, threads);
    kin_prepare_rows_plan(&plan, corpus->rows, &request->distance, false, known);
    kin_tree_plan_make(&plan, &tree, threads);
    const uint64_t made = kin_layout_mark(&plan);
    plan_search(&plan, &j, queries, corpus->rows, known.counted);
    return (kin_plan){.screens = true,
                      .prepared_bytes = made,
                      .state_bytes = kin_layout_mark(&plan) - made,
                      .peak_bytes = plan.peak,
                      .least_bytes = plan.peak};
}

kin_plan kin_tree_search_plan(const kin_tree *tree, int64_t rows, const kith_matrix *queries,
                              const kin_request *request, int32_t threads)
{
    kin_layout plan = {.block = NULL};
    const kin_prepared prepared = {.groups = {.count = tree->points}};
    kin_tree_job j = planned(tree, &prepared, request, threads);
    plan_search(&plan, &j, queries, rows, true);
    return (kin_plan){.screens = true, .state_bytes = plan.at, .peak_bytes = plan.peak};
}
