/* SPDX-License-Identifier: Apache-2.0
 * The fields of a filter, and the shape of an answer under it, checked. */
#include "api/api_check.h"

#include "host/host_threads.h"

static kith_status check_rule(kith_ctx *ctx, const kith_filter *filter, bool graph)
{
    const int rule = (int)filter->rule;
    const bool asks = rule == KITH_RULE_SAME || rule == KITH_RULE_OTHER;
    KIN_FAIL_IF(rule < KITH_RULE_NONE || rule > KITH_RULE_EACH, ctx, KITH_E_ARGUMENT,
                kin_at("rule"), "is %d, which is no rule (use one of kith_rule)", rule);
    KIN_FAIL_IF((filter->groups != NULL) != (rule != KITH_RULE_NONE), ctx, KITH_E_ARGUMENT,
                kin_at("groups"),
                filter->groups != NULL
                    ? "is set without a rule for them (same, other or each)"
                    : "is NULL, and the rule is of groups (give a number for each row)");
    KIN_FAIL_IF(!graph && asks && filter->query_groups == NULL, ctx, KITH_E_ARGUMENT,
                kin_at("query_groups"),
                "is NULL, and the rule compares groups of queries and rows (give a "
                "number for each query)");
    KIN_FAIL_IF(filter->query_groups != NULL && (graph || !asks), ctx, KITH_E_ARGUMENT,
                kin_at("query_groups"), "is set, and %s (leave it out)",
                graph ? "a graph's queries are its points"
                      : "only the rules same and other read it");
    return KITH_OK;
}

enum { NUMBERS_A_TASK = 1 << 16 };

typedef struct numbers_to_check {
    kith_ctx *ctx;
    const int64_t *numbers;
    int64_t rows;
    const char *name;
} numbers_to_check;

static kith_status check_some_numbers(void *arg, int64_t task, int32_t thread)
{
    const numbers_to_check *c = arg;
    const int64_t last = kin_min_i64(c->rows, (task + 1) * NUMBERS_A_TASK);
    (void)thread;
    for (int64_t i = task * NUMBERS_A_TASK; i < last; i++) {
        if (c->numbers[i] < 0) {
            return kin_filter_refuse_number(c->ctx, c->name, i, c->numbers[i]);
        }
    }
    return KITH_OK;
}

static kith_status check_numbers(kith_ctx *ctx, const int64_t *numbers, int64_t rows,
                                 const char *name)
{
    numbers_to_check check = {.ctx = ctx, .numbers = numbers, .rows = rows, .name = name};
    const int64_t tasks = numbers == NULL ? 0 : kin_ceil_div(rows, NUMBERS_A_TASK);
    return kin_parallel(ctx, NULL, tasks, check_some_numbers, &check);
}

/* On a GPU whoever reads them looks. */
static kith_status check_side(kith_ctx *ctx, const kin_filter_job *job, const int64_t *numbers,
                              int64_t rows, const char *name)
{
    if (!job->there || kin_gpu_index_of(numbers) < 0) {
        return check_numbers(ctx, numbers, rows, name);
    }
    KIN_FAIL_IF(job->filter.rule == KITH_RULE_EACH, ctx, KITH_E_UNSUPPORTED, kin_at(name),
                "lies on a GPU, and the rule each reads numbers on the host (copy them)");
    return KITH_OK;
}

kith_status kin_api_check_groups(kith_ctx *ctx, const kin_filter_job *job)
{
    KIN_TRY(check_side(ctx, job, job->filter.groups, job->corpus.rows, "groups"));
    return check_side(ctx, job, job->filter.query_groups, job->queries.rows, "query_groups");
}

static kith_status check_bitmap(kith_ctx *ctx, const kith_filter *filter, int64_t rows)
{
    const int64_t stride = filter->allow_stride_bytes;
    const int64_t least = kin_ceil_div(rows, 8);
    KIN_FAIL_IF(filter->allow == NULL && stride != 0, ctx, KITH_E_ARGUMENT,
                kin_at("allow_stride_bytes"), "is %lld, and allow is NULL (set both or none)",
                (long long)stride);
    KIN_FAIL_IF(stride != 0 && stride < least, ctx, KITH_E_ARGUMENT, kin_at("allow_stride_bytes"),
                "is %lld, must be 0 or at least %lld (a bit for each row of the corpus)",
                (long long)stride, (long long)least);
    return KITH_OK;
}

static kith_status refuse_others(kith_ctx *ctx, const kith_search_params *params)
{
    KIN_FAIL_IF((int)params->method == KITH_METHOD_DESCENT, ctx, KITH_E_UNSUPPORTED,
                kin_at("method"),
                "is descent, and neighbours under a filter are exact (leave one out)");
    KIN_FAIL_IF(
        params->pipeline != KITH_PIPELINE_FUSED, ctx, KITH_E_UNSUPPORTED, kin_at("pipeline"),
        "is %d, and ways of published work have no filter (leave one out)", (int)params->pipeline);
    KIN_FAIL_IF(params->tree_height != 0, ctx, KITH_E_UNSUPPORTED, kin_at("tree_height"),
                "is %d, and trees under a filter have their own heights (leave it out)",
                (int)params->tree_height);
    return KITH_OK;
}

kith_status kin_api_take_filter(kith_ctx *ctx, const kith_filter *given, bool graph,
                                kin_filter_job *job)
{
    kith_filter *filter = &job->filter;
    const int64_t rows = job->corpus.rows;
    *filter = kith_filter_default();
    KIN_FAIL_IF(given->struct_size < offsetof(kith_filter, allow), ctx, KITH_E_ARGUMENT,
                kin_at("filter"), "was not made by kith_filter_default()");
    KIN_TRY(kin_take_params(ctx, KIN_GROWS(kith_filter, allow), given, filter));
    KIN_TRY(check_rule(ctx, filter, graph));
    KIN_TRY(check_bitmap(ctx, filter, rows));
    KIN_TRY(kin_api_check_groups(ctx, job));
    job->graph = graph;
    return kin_filter_count_lists(ctx, filter, rows, &job->lists);
}

kith_status kin_api_check_filter(kith_ctx *ctx, const kith_search_params *params, bool graph,
                                 kin_filter_job *job)
{
    KIN_TRY(refuse_others(ctx, params));
    return kin_api_take_filter(ctx, params->filter, graph, job);
}

kith_status kin_api_check_lists(kith_ctx *ctx, const kin_filter_job *job, int64_t k,
                                const kith_neighbors *out, kith_neighbors *lists)
{
    const int64_t wide = job->lists > 1 && k > 0 && k <= job->corpus.rows ? k * job->lists : k;
    if (out == NULL) {
        return KITH_OK;
    }
    *lists = *out;
    KIN_FAIL_IF(wide != k && out->k != wide, ctx, KITH_E_ARGUMENT, kin_at_member("out", "k"),
                "is %lld, must be %lld (k = %lld of each of %lld groups)", (long long)out->k,
                (long long)wide, (long long)k, (long long)job->lists);
    lists->k = wide != k ? k : out->k;
    return KITH_OK;
}
