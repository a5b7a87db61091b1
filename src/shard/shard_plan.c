/* SPDX-License-Identifier: Apache-2.0
 * Graphs from shards: arguments, and how many shards there are.
 *
 * In host memory at the same time, of shards of s rows:
 *
 *     rows     3 s, mapped: two that meet, and the next one
 *     lists    3 s k entries of 12 bytes (16 of an approximate graph), and once more that of a file
 *     found    2 s k entries of 12 bytes
 *     engine   what a graph of 2 s points holds, of which a pair is a part
 */
#include "shard/shard_job.h"

#include <inttypes.h>
#include <stdio.h>

enum { ENTRY_BYTES = 12, OWN_BYTES = 4, RESULT_ENTRY_BYTES = 8 };
/* How finely the size of groups is looked for. */
enum { LEAST_SHARE = 1000, ADVICE_BYTES = 64, LEAST_ROWS_OF_A_GROUP = 1024 };
static const uint64_t MEBIBYTE = (uint64_t)1 << 20;
/* The program itself, its threads' stacks, buffers of files. */
static const uint64_t RESERVE_BYTES = (uint64_t)32 << 20;

/* ---- Arguments ------------------------------------------------------------------------------ */

/* As this library knows them. */
static kith_status take_params(kith_ctx *ctx, const kith_shard_params *given,
                               kith_shard_params *known)
{
    KIN_TRY(KIN_TAKE(ctx, kith_shard_params, format, given, known));
    KIN_REFUSE_IF((known->exact == NULL) == (known->descent == NULL), ctx, "params",
                  "has exact and descent both %s (set one of them)",
                  known->exact == NULL ? "NULL" : "set");
    KIN_REFUSE_IF(known->format == KITH_FORMAT_CSR, ctx, "format",
                  "is csr, which is written at once, and this result comes in pieces (take npz, "
                  "kith, knn, ibin or ivecs)");
    KIN_REFUSE_IF(known->parts < KITH_PARTS_AUTO || known->parts > KITH_PARTS_MAX, ctx, "parts",
                  "is %" PRId32 ", must be 0 to %d, or KITH_PARTS_AUTO", known->parts,
                  KITH_PARTS_MAX);
    KIN_REFUSE_IF(known->parts != 0 && known->format != KITH_FORMAT_AUTO &&
                      known->format != KITH_FORMAT_KITH,
                  ctx, "parts", "is set, and only .kith is written in parts (take that format)");
    return KITH_OK;
}

static kith_status check_team(kith_ctx *ctx, kith_shard_params *known)
{
    const kith_shard_team *team = known->team;
    if (team == NULL) {
        return KITH_OK;
    }
    if (team->struct_size < sizeof *team || team->combine == NULL || team->workers < 1 ||
        team->worker < 0 || team->worker >= team->workers) {
        known->team = NULL; /* there is nobody to be told */
        return kin_fail_at(
            ctx, KITH_E_ARGUMENT, kin_at("team"),
            "has a wrong struct_size, combine, worker or workers (worker is 0 to workers - 1)");
    }
    return KITH_OK;
}

/* Of the points, which were checked. */
static kith_status check_filter(kin_shard_job *job, const kith_filter *given)
{
    kin_filter_job like = {.corpus = job->points, .queries = job->points};
    if (given == NULL) {
        return KITH_OK;
    }
    KIN_TRY(kin_api_take_filter(job->ctx, given, true, &like));
    KIN_FAIL_IF(like.filter.rule == KITH_RULE_EACH, job->ctx, KITH_E_UNSUPPORTED, kin_at("rule"),
                "is each, and lists of shards have k entries (take same or other)");
    KIN_FAIL_IF(like.filter.allow_stride_bytes != 0, job->ctx, KITH_E_UNSUPPORTED,
                kin_at("allow_stride_bytes"),
                "is set, and graphs from shards have one bitmap for all points (set it to 0)");
    job->filter = like.filter;
    job->filters = true;
    return KITH_OK;
}

static kith_status check_exact(kin_shard_job *job, const kith_matrix *points)
{
    kin_knn_job graph;
    kith_search_params given = kith_search_params_default();
    KIN_TRY(
        kin_take_params(job->ctx, KIN_GROWS(kith_search_params, flags), job->params.exact, &given));
    const kith_filter *filter = given.filter;
    given.filter = NULL;
    KIN_TRY(kin_check_search_params(job->ctx, &given, &job->exact));
    KIN_TRY(kin_refuse_period(job->ctx, job->exact.period, "graphs from shards have none"));
    const kith_neighbors out = {.rows = points != NULL ? points->rows : 0, .k = job->exact.k};
    KIN_TRY(kin_api_check_graph(job->ctx, points, &job->exact, &out, &graph));
    KIN_REFUSE_IF((job->exact.flags & KITH_WITHIN_RADIUS) != 0 || job->exact.exclude != NULL ||
                      job->exact.pipeline != KITH_PIPELINE_FUSED || job->exact.tree_height != 0,
                  job->ctx, "exact",
                  "has a radius, exclude, pipeline or tree_height, and graphs from shards have "
                  "none (leave it out)");
    job->points = graph.corpus;
    job->metric = graph.request.distance.metric;
    job->self = (job->exact.flags & KITH_INCLUDE_SELF) != 0;
    job->k = job->exact.k;
    job->exact.metric = kin_metric_of_keys(job->metric);
    job->exact.recall = 1.0;
    return check_filter(job, filter);
}

static kith_status check_descent(kin_shard_job *job, const kith_matrix *points)
{
    kin_descent_job graph;
    KIN_TRY(KIN_TAKE(job->ctx, kith_descent_params, flags, job->params.descent, &job->descent));
    const kith_search_params params = kin_shard_search_params(&job->descent, job->descent.k);
    const kith_neighbors out = {.rows = points != NULL ? points->rows : 0, .k = params.k};
    KIN_TRY(kin_descent_check(job->ctx, points, &params, 0, &out, &graph));
    KIN_REFUSE_IF(job->descent.init != NULL || job->descent.start == KITH_START_GRAPH, job->ctx,
                  "init", "is set, and shards begin without a graph (leave it out)");
    KIN_REFUSE_IF(
        job->descent.start == KITH_START_GGM, job->ctx, "start",
        "is ggm, which is for comparison, and shards are merged by the faster way (leave it out)");
    job->descends = true;
    job->points = graph.points;
    job->metric = graph.request.distance.metric;
    job->self = (job->descent.flags & KITH_INCLUDE_SELF) != 0;
    job->k = job->descent.k;
    job->descent.metric = kin_metric_of_keys(job->metric);
    return KITH_OK;
}

kith_status kin_shard_check(kith_ctx *ctx, const kith_matrix *points,
                            const kith_shard_params *params, kin_shard_job *job)
{
    memset(job, 0, sizeof *job);
    job->ctx = ctx;
    KIN_TRY(take_params(ctx, params, &job->params));
    KIN_TRY(check_team(ctx, &job->params));
    KIN_TRY(job->params.descent == NULL ? check_exact(job, points) : check_descent(job, points));
    const int64_t most = kin_min_i64(KIN_SHARD_MOST, job->points.rows);
    KIN_REFUSE_IF(job->params.shards < 0 || job->params.shards > most, ctx, "shards",
                  "is %d, must be 1 to %" PRId64 " (or 0)", (int)job->params.shards, most);
    KIN_FAIL_IF(job->metric == KITH_CUSTOM, ctx, KITH_E_UNSUPPORTED, kin_at("metric"),
                "is the caller's own, and a folder cannot tell one from another (use a metric that "
                "has a name)");
    return KITH_OK;
}

/* ---- What so many shards need --------------------------------------------------------------- */

/* A merge of two graphs takes a little more than a descent on all their points. */
static kith_status plan_merge(const kin_shard_job *job, const kith_matrix *shape,
                              const kith_search_params *params, kith_plan *plan)
{
    kin_descent_job merge;
    kin_gpu *gpu = NULL;
    KIN_TRY(kin_descent_check(job->ctx, shape, params, KIN_API_SHAPE, NULL, &merge));
    merge.request.split = shape->rows / 2;
    KIN_TRY(kin_cost_finds_gpu(job->ctx, &merge, &gpu));
    if (gpu != NULL) {
        kin_graph_gpu_defaults(&merge.request, shape->rows);
        const uint64_t bytes = kin_graph_gpu_bytes_on(gpu, shape, &merge.request);
        plan->gpu_bytes = bytes > plan->gpu_bytes ? bytes : plan->gpu_bytes;
        return KITH_OK;
    }
    kin_graph_defaults(&merge.request, shape->rows);
    const uint64_t bytes = kin_size_add(
        kin_graph_bytes(shape, &merge.request, kin_prepare_unknown(shape, &merge.request.distance),
                        job->ctx->threads, false),
        plan->result_bytes);
    plan->peak_bytes = bytes > plan->peak_bytes ? bytes : plan->peak_bytes;
    return KITH_OK;
}

/* The engine on `rows` points: its memory and that of the answer. merges: they are two shards. */
static kith_status plan_engine(const kin_shard_job *job, int64_t rows, bool merges, kith_plan *plan)
{
    kith_matrix shape = job->points;
    const int64_t most = rows - (job->self ? 0 : 1);
    shape.rows = rows;
    shape.data = NULL; /* any shard of that shape */
    plan->struct_size = (uint32_t)sizeof *plan;
    if (job->descends) {
        kin_descent_job alone;
        kith_search_params params =
            kin_shard_search_params(&job->descent, kin_min_i64(job->k, most));
        params.recall_at = kin_min_i64(params.recall_at, params.k);
        params.metric = job->metric; /* needs what its keys need, and is checked by name */
        KIN_TRY(kin_descent_check(job->ctx, &shape, &params, KIN_API_SHAPE, NULL, &alone));
        KIN_TRY(kin_descent_plan(job->ctx, &alone, false, plan));
        return merges ? plan_merge(job, &shape, &params, plan) : KITH_OK;
    }
    kith_search_params params = job->exact;
    params.filter = job->filters ? &job->filter : NULL;
    params.k = kin_min_i64(params.k, most);
    return kith_plan_search(job->ctx, &shape, NULL, &params, plan);
}

kith_status kin_shard_needs(const kin_shard_job *job, int32_t shards, kin_shard_need *need)
{
    const int64_t rows = kin_ceil_div(job->points.rows, shards);
    const int64_t two = kin_min_i64(2 * rows, job->points.rows);
    const uint64_t slots = (uint64_t)kin_min_i64(KIN_SHARD_SLOTS, shards);
    const uint64_t sides = (uint64_t)kin_min_i64(KIN_SHARD_SIDES, shards);
    const uint64_t entries = kin_size_mul((uint64_t)rows, (uint64_t)job->k);
    const uint64_t row_bytes = (uint64_t)job->points.stride_bytes;
    const uint64_t entry = ENTRY_BYTES + (job->descends ? OWN_BYTES : 0);
    const kin_bounds_sets sets = kin_shard_bounds_sets(job, shards);
    kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
    KIN_TRY(plan_engine(job, two, true, &plan));
    uint64_t bytes = plan.peak_bytes - plan.result_bytes;
    bytes = kin_size_add(bytes, kin_size_mul(entries, (slots + 1) * entry + sides * ENTRY_BYTES));
    bytes = kin_size_add(bytes, kin_bounds_bytes(job->ctx, &sets));
    bytes = kin_size_add(bytes, job->filter.allow != NULL ? (uint64_t)kin_ceil_div(rows, 8) : 0);
    if (job->params.mapped != 0) {
        bytes = kin_size_add(bytes, kin_size_mul((uint64_t)rows, slots * row_bytes));
    }
    if (job->descends) {
        bytes = kin_size_add(bytes, kin_size_mul((uint64_t)two, row_bytes));
    }
    *need = (kin_shard_need){.host_bytes = kin_size_add(bytes, RESERVE_BYTES),
                             .gpu_bytes = plan.gpu_bytes,
                             .gpu_budget_bytes = plan.gpu_budget_bytes};
    memcpy(need->backend, plan.backend, sizeof need->backend);
    return KITH_OK;
}

/* What groups of `rows` rows at most need: of two of them rows and lists, one of which is computed,
 * and of all points their groups. Their beginning, cells of some rows, is a part of that. */
static kith_status group_needs(const kin_shard_job *job, int64_t rows, kin_shard_need *need)
{
    const uint64_t row_bytes = (uint64_t)kin_shard_row_bytes(job);
    const uint64_t list_bytes = kin_size_mul((uint64_t)job->k, ENTRY_BYTES);
    const uint64_t homes = (uint64_t)job->points.rows * KIN_SHARD_HOMES * sizeof(uint16_t);
    kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
    KIN_TRY(plan_engine(job, rows, false, &plan));
    const uint64_t facts =
        sizeof(uint32_t) + 2; /* of a row: which it is, and twice who shares it */
    const uint64_t sides =
        kin_size_mul(2 * (uint64_t)rows, kin_size_add(row_bytes + facts, list_bytes));
    const uint64_t bytes = kin_size_add(plan.peak_bytes - plan.result_bytes, homes);
    *need = (kin_shard_need){.host_bytes = kin_size_add(kin_size_add(bytes, sides), RESERVE_BYTES),
                             .gpu_bytes = plan.gpu_bytes,
                             .gpu_budget_bytes = plan.gpu_budget_bytes};
    memcpy(need->backend, plan.backend, sizeof need->backend);
    return KITH_OK;
}

/* ---- How many ------------------------------------------------------------------------------- */

static bool is_within(const kin_shard_job *job, const kin_shard_need *need)
{
    const uint64_t limit = job->ctx->params.memory_limit;
    return (limit == 0 || need->host_bytes <= limit) &&
           (!job->descends || need->gpu_bytes <= need->gpu_budget_bytes);
}

bool kin_shard_may_follow(const kin_shard_job *job)
{
    return job->descends && job->shards >= KIN_SHARD_LEAST_GROUPS &&
           job->metric != KITH_INNER_PRODUCT &&
           kin_metric_get_traits(job->metric)->dtype == KITH_DTYPE_NONE && /* of means of rows */
           job->points.rows / job->shards >= LEAST_ROWS_OF_A_GROUP;
}

kith_status kin_shard_group_room(kin_shard_job *job, int64_t *rows)
{
    kin_shard_need need;
    int64_t low = 0;
    int64_t high = job->points.rows; /* does not fit, or is not tried: groups are two at least */
    while (high - low > kin_max_i64(job->points.rows / LEAST_SHARE, 1)) {
        const int64_t middle = low + (high - low) / 2;
        if (middle <= job->k) {
            break;
        }
        KIN_TRY(group_needs(job, middle, &need));
        job->on_gpu = need.gpu_bytes > 0;
        if (is_within(job, &need)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    *rows = low;
    return KITH_OK;
}

/* Lists of so many rows, and who shares them. */
static uint64_t place_bytes(const kin_shard_job *job, int64_t rows)
{
    return kin_size_mul((uint64_t)kin_max_i64(rows, 1),
                        kin_size_add(kin_size_mul((uint64_t)job->k, ENTRY_BYTES), 1));
}

/* What the plan of the largest group leaves, as far as there are groups. */
static int32_t places_of(const kin_shard_job *job, int64_t rows, int32_t groups,
                         const kin_shard_need *need)
{
    const uint64_t limit = job->ctx->params.memory_limit;
    int64_t more = KIN_SHARD_PLACES;
    if (limit != 0) {
        const uint64_t spare = limit > need->host_bytes ? limit - need->host_bytes : 0;
        more = (int64_t)(spare / place_bytes(job, rows));
    }
    const int64_t wanted = kin_min_i64(groups, KIN_SHARD_PLACES);
    return (int32_t)kin_max_i64(kin_min_i64(KIN_SHARD_LEAST_PLACES + more, wanted),
                                KIN_SHARD_LEAST_PLACES);
}

kith_status kin_shard_group_places(const kin_shard_job *job, int32_t *places)
{
    kin_shard_need need;
    KIN_TRY(group_needs(job, job->groups.most, &need));
    *places = places_of(job, job->groups.most, job->shards, &need);
    return KITH_OK;
}

/* Exact engines on a GPU have batches; a descent has none. */
static kith_status fits(const kin_shard_job *job, int32_t shards, bool *yes, kin_shard_need *need)
{
    KIN_TRY(kin_shard_needs(job, shards, need));
    *yes = is_within(job, need);
    return KITH_OK;
}

static bool lacks_gpu(const kin_shard_job *job, const kin_shard_need *need)
{
    return job->descends && need->gpu_bytes > need->gpu_budget_bytes;
}

/* least: no number of shards needs less. */
static kith_status refuse(const kin_shard_job *job, int32_t shards, const kin_shard_need *need,
                          bool least)
{
    const bool gpu = lacks_gpu(job, need);
    const uint64_t bytes = gpu ? need->gpu_bytes : need->host_bytes;
    const uint64_t mebibytes = kin_size_add(bytes, MEBIBYTE - 1) / MEBIBYTE;
    char advice[ADVICE_BYTES] = ", or more shards";
    if (least) {
        (void)snprintf(advice, sizeof advice, ": %" PRIu64 "M", mebibytes);
    }
    return kin_fail(job->ctx, KITH_E_LIMIT,
                    "%d shards need %" PRIu64 " bytes of %s%s, above the limit of %" PRIu64
                    " (allow more memory%s)",
                    (int)shards, bytes, gpu ? "device memory" : "memory",
                    least ? ", and no other number less" : "",
                    gpu ? need->gpu_budget_bytes : job->ctx->params.memory_limit, advice);
}

/* Of two numbers of shards that do not fit. */
static bool needs_less(const kin_shard_job *job, const kin_shard_need *a, const kin_shard_need *b)
{
    if (lacks_gpu(job, a) || lacks_gpu(job, b)) {
        return a->gpu_bytes < b->gpu_bytes;
    }
    return a->host_bytes < b->host_bytes;
}

/* The fewest that fit: doubled until they do, then halved in between. */
static kith_status find_fewest(const kin_shard_job *job, int32_t *shards)
{
    const int32_t most = (int32_t)kin_min_i64(KIN_SHARD_MOST, job->points.rows);
    kin_shard_need need;
    kin_shard_need least = {0};
    int32_t thriftiest = 0;
    bool yes = false;
    int32_t low = 0; /* does not fit */
    int32_t high = 0;
    while (!yes && high < most) {
        low = high;
        high = (int32_t)kin_min_i64(high > 0 ? 2 * (int64_t)high : 1, most);
        KIN_TRY(fits(job, high, &yes, &need));
        if (thriftiest == 0 || needs_less(job, &need, &least)) {
            least = need;
            thriftiest = high;
        }
    }
    if (!yes) {
        return refuse(job, thriftiest, &least, true);
    }
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        KIN_TRY(fits(job, middle, &yes, &need));
        low = yes ? low : middle;
        high = yes ? middle : high;
    }
    *shards = high;
    return KITH_OK;
}

/* A pair for each worker of a team in a round. */
static void give_work(kin_shard_job *job)
{
    const kith_shard_team *team = job->params.team;
    const int64_t most = kin_min_i64(KIN_SHARD_MOST, job->points.rows);
    const int64_t wanted = kin_min_i64(team != NULL ? 2 * (int64_t)team->workers : 1, most);
    job->shards = job->shards < wanted ? (int32_t)wanted : job->shards;
}

kith_status kin_shard_choose(kin_shard_job *job, int32_t found)
{
    kin_shard_need need;
    bool yes = false;
    job->shards = job->params.shards != 0 ? job->params.shards : found;
    if (job->shards == 0) {
        KIN_TRY(find_fewest(job, &job->shards));
        give_work(job);
        return KITH_OK;
    }
    if (job->shards > job->points.rows) {
        return find_fewest(job, &job->shards); /* of another job, and the folder will say so */
    }
    KIN_TRY(fits(job, job->shards, &yes, &need));
    return yes ? KITH_OK : refuse(job, job->shards, &need, false);
}

/* ---- For the caller ------------------------------------------------------------------------- */

/* Where groups come into question, what they need instead: it depends on the points whether they
 * are taken, and how large they are. */
static kith_status plan_groups(kin_shard_job *job, kith_shard_plan *plan)
{
    kin_shard_need need;
    int64_t room = 0;
    KIN_TRY(kin_shard_group_room(job, &room));
    if (room == 0) {
        return KITH_OK;
    }
    const int64_t fewest = kin_max_i64(kin_ceil_div(job->points.rows, room), 2);
    plan->groups = job->params.shards != 0 ? job->params.shards : (int32_t)fewest;
    const double mean = (double)job->points.rows / plan->groups;
    plan->group_rows = kin_min_i64(room, (int64_t)(KIN_SHARD_OVERLAP * mean));
    KIN_TRY(group_needs(job, plan->group_rows, &need));
    const int32_t places = places_of(job, plan->group_rows, plan->groups, &need);
    need.host_bytes =
        kin_size_add(need.host_bytes, kin_size_mul((uint64_t)(places - KIN_SHARD_LEAST_PLACES),
                                                   place_bytes(job, plan->group_rows)));
    const uint64_t lists = kin_size_mul((uint64_t)job->points.rows, (uint64_t)job->k);
    const uint64_t folder = kin_size_mul(lists, KIN_SHARD_OVERLAP * ENTRY_BYTES);
    plan->peak_bytes = plan->peak_bytes > need.host_bytes ? plan->peak_bytes : need.host_bytes;
    plan->gpu_bytes = plan->gpu_bytes > need.gpu_bytes ? plan->gpu_bytes : need.gpu_bytes;
    plan->folder_bytes = plan->folder_bytes > folder ? plan->folder_bytes : folder;
    return KITH_OK;
}

static kith_status plan_shards(kith_ctx *ctx, const kith_matrix *points,
                               const kith_shard_params *params, kith_shard_plan *plan)
{
    kin_shard_job job;
    kin_shard_need need;
    kith_matrix shape;
    KIN_TRY(kin_check_told(ctx, plan, "plan", "kith_shard_plan"));
    KIN_TRY(kin_shard_check(ctx, kin_check_shape(points, &shape), params, &job));
    KIN_TRY(kin_shard_choose(&job, 0));
    KIN_TRY(kin_shard_needs(&job, job.shards, &need));
    const uint64_t entries = kin_size_mul((uint64_t)job.points.rows, (uint64_t)job.k);
    const uint64_t entry = ENTRY_BYTES + (job.descends ? OWN_BYTES : 0);
    const int64_t rows = kin_ceil_div(job.points.rows, job.shards);
    const uint64_t pair = kin_size_mul(kin_size_mul((uint64_t)rows, (uint64_t)job.k), 2 * entry);
    kith_shard_plan own = {.shards = job.shards,
                           .rows = rows,
                           .steps = kin_shard_steps(job.shards),
                           .peak_bytes = need.host_bytes,
                           .gpu_bytes = need.gpu_bytes,
                           .folder_bytes = kin_size_add(kin_size_mul(entries, entry), pair),
                           .result_bytes = kin_size_mul(entries, RESULT_ENTRY_BYTES)};
    memcpy(own.backend, need.backend, sizeof own.backend);
    KIN_TRY(kin_shard_may_follow(&job) ? plan_groups(&job, &own) : KITH_OK);
    kin_fill_room(plan, &own, sizeof own);
    return KITH_OK;
}

kith_status kith_plan_shards(kith_ctx *ctx, const kith_matrix *points,
                             const kith_shard_params *params, kith_shard_plan *plan)
{
    KIN_CALL(ctx, plan_shards(ctx, points, params, plan));
}
