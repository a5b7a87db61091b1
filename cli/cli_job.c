/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_job.h"

#include "cli.h"
#include "cli_output.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Before: input, plan -------------------------------------------------------------------- */

/* Whether the job is one that the index in a file can do: the k nearest, in one direction, or all
 * within a radius; by its method and in its metric. */
static bool wants_index(const cli_args *args, const kith_file_info *info)
{
    const bool tree = info->kind == KITH_KIND_TREE_INDEX;
    const bool nearest = (args->command == CLI_SEARCH || args->command == CLI_PREDICT) &&
                         cli_given(args, CLI_OPT_K) && args->pipeline == KITH_PIPELINE_FUSED &&
                         !cli_given(args, CLI_OPT_BOTH) && !cli_given(args, CLI_OPT_MUTUAL);
    const bool part = args->team != NULL && args->team->divides_corpus;
    if (part || cli_is_filtered(args) || !(nearest || cli_is_radius_search(args))) {
        return false;
    }
    if (tree) {
        return args->method != KITH_METHOD_EXACT;
    }
    return info->kind == KITH_KIND_EXACT_INDEX && args->method != KITH_METHOD_TREE &&
           !cli_given(args, CLI_OPT_TREE_HEIGHT) &&
           (args->metric == KITH_METRIC_DEFAULT || args->metric == info->metric);
}

int cli_job_open_index(cli_job *job, const char *path)
{
    CLI_TRY(cli_session_check(&job->session,
                              kith_index_open(job->session.ctx, path, &job->prepared), path));
    (void)kith_index_inspect(job->prepared, &job->prepared_info);
    job->own_metric = job->prepared_info.metric;
    job->corpus.path = path;
    job->corpus.matrix = &job->prepared_info.points;
    return CLI_DONE;
}

int cli_job_read_corpus(cli_job *job)
{
    const char *path = job->args->paths[0];
    kith_file_info info;
    if (!cli_output_ends(path, ".kith")) {
        return cli_session_read(&job->session, path, &job->corpus);
    }
    CLI_TRY(cli_session_inspect(&job->session, path, NULL, &info));
    CLI_FAIL_IF(job->args->columns != NULL, path,
                "columns are chosen of text alone (leave --columns out)");
    job->own_metric = info.metric;
    if (!wants_index(job->args, &info)) {
        CLI_FAIL_IF(info.periodic != 0 && job->args->period == NULL, path,
                    "its points lie in a periodic box, and this job takes no index (give its "
                    "--period, or --period 0 for none)");
        return cli_session_read(&job->session, path, &job->corpus);
    }
    CLI_FAIL_IF(job->args->metric != KITH_METRIC_DEFAULT && job->args->metric != info.metric, path,
                "its tree is for %s, --metric says %s (leave it out, or add --method "
                "exact)",
                kith_metric_name(info.metric), kith_metric_name(job->args->metric));
    return cli_job_open_index(job, path);
}

int cli_job_check_k(const char *path, int64_t k, int64_t most, const char *what)
{
    CLI_PASS_IF(k <= most, path,
                "k is %" PRId64 ", but there are only %" PRId64 " %s (give a k of "
                "at most %" PRId64 ")",
                k, most, what, most);
}

kith_status cli_job_plan_exact(kith_ctx *ctx, const cli_args *args, const kith_matrix *corpus,
                               const kith_matrix *queries, const kith_search_params *params,
                               kith_plan *plan)
{
    const bool asked = cli_given(args, CLI_OPT_DRY_RUN) || args->memory_bytes != 0;
    const bool reads = asked && !cli_given(args, CLI_OPT_SHARDS);
    kith_matrix shapes[2] = {*corpus, queries != NULL ? *queries : *corpus};
    for (int i = 0; i < 2 && !reads; i++) {
        shapes[i].data = NULL;
    }
    return kith_plan_search(ctx, &shapes[0], queries != NULL ? &shapes[1] : NULL, params, plan);
}

int cli_job_plan(cli_job *job, const kith_matrix *corpus, const kith_matrix *queries)
{
    const bool self = queries != NULL || cli_given(job->args, CLI_OPT_INCLUDE_SELF);
    const cli_points *from = corpus == job->corpus.matrix ? &job->corpus : &job->queries;
    CLI_TRY(cli_job_check_k(from->path, job->args->k, corpus->rows - (self ? 0 : 1),
                            self ? "points" : "other points"));
    const kith_descent_params descent = cli_descent_params(job);
    kith_search_params params =
        queries == NULL ? cli_graph_params(job, &descent) : cli_job_params(job);
    if (job->screened) { /* chunks of a job that makes no tree */
        params.method = KITH_METHOD_EXACT;
        params.tree_height = 0;
    }
    kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
    kith_matrix points = *corpus;
    if (queries != NULL && queries != job->queries.matrix && queries != job->corpus.matrix) {
        points.data = NULL; /* a chunk of the queries: of any, and asked again for others */
    }
    CLI_TRY(cli_job_check(
        job,
        job->prepared != NULL && job->prepared_info.method == KITH_METHOD_TREE
            ? kith_index_plan(job->session.ctx, job->prepared, queries, &params, &plan)
            : cli_job_plan_exact(job->session.ctx, job->args, &points, queries, &params, &plan)));
    if (!job->planned) {
        job->plan = plan;
        job->planned = true;
        return CLI_DONE;
    }
    /* The other direction of one product: its lists and its result stand beside the first's. */
    job->plan.state_bytes += plan.state_bytes;
    job->plan.result_bytes += plan.result_bytes;
    job->plan.peak_bytes += plan.state_bytes + plan.result_bytes;
    return CLI_DONE;
}

int cli_job_check_memory(const char *path, uint64_t need_bytes, uint64_t limit_bytes)
{
    if (limit_bytes == 0 || need_bytes <= limit_bytes) {
        return CLI_DONE;
    }
    char need[CLI_SIZE_BYTES];
    char have[CLI_SIZE_BYTES];
    const uint64_t mebibytes = (need_bytes + (1u << 20) - 1) >> 20;
    return cli_fail(path,
                    "needs %s (%" PRIu64 " bytes) of memory, --memory allows %s (give --memory "
                    "%" PRIu64 "M or more)",
                    cli_message_size(need_bytes, need), need_bytes,
                    cli_message_size(limit_bytes, have), mebibytes);
}

void cli_job_count_need(cli_job *job)
{
    job->need_bytes = job->plan.peak_bytes +
                      (job->prepared != NULL ? job->prepared_info.bytes
                                             : kith_points_get_source(job->corpus.handle)->bytes);
    if (job->queries.handle != NULL) {
        job->need_bytes += kith_points_get_source(job->queries.handle)->bytes;
    }
}

/* ---- For engines ---------------------------------------------------------------------------- */

bool cli_job_is_periodic(const cli_job *job)
{
    return job->period != NULL || job->prepared_info.period != NULL;
}

kith_metric cli_job_metric(const cli_job *job)
{
    const kith_metric usual =
        job->own_metric != KITH_METRIC_DEFAULT ? job->own_metric : KITH_EUCLIDEAN;
    return job->args->metric != KITH_METRIC_DEFAULT ? job->args->metric : usual;
}

kith_search_params cli_job_params(const cli_job *job)
{
    kith_search_params params = kith_search_params_default();
    params.metric = cli_job_metric(job);
    params.k = job->args->k;
    params.radius = cli_cuts_lists(job->args) ? job->args->radius : 0.0;
    params.flags =
        cli_self(job->args) | (cli_cuts_lists(job->args) ? (uint32_t)KITH_WITHIN_RADIUS : 0);
    params.pipeline = job->args->pipeline;
    params.select = job->args->select;
    params.sample = job->args->heap_sample;
    params.leaf_buffer = job->args->leaf_buffer;
    params.batch = job->args->batch;
    const bool both = cli_given(job->args, CLI_OPT_BOTH) || cli_given(job->args, CLI_OPT_MUTUAL);
    params.tree_height = job->args->tree_height;
    params.filter = cli_is_filtered(job->args) ? &job->filter : NULL;
    params.method = both ? KITH_METHOD_EXACT : job->args->method;
    params.period = job->period;
    return params;
}

kith_descent_params cli_descent_params(const cli_job *job)
{
    const cli_args *args = job->args;
    kith_descent_params params = kith_descent_params_default();
    params.metric = cli_job_metric(job);
    params.k = args->k;
    params.flags = cli_self(args);
    params.start = args->start;
    params.recall = args->recall;
    params.recall_at = args->recall_at;
    params.sample = args->sample == 0 ? -1 : args->sample;
    params.seed = args->seed;
    params.rounds = cli_given(args, CLI_OPT_ROUNDS) && args->rounds == 0 ? -1 : args->rounds;
    params.candidates = args->candidates;
    params.list = args->list;
    params.all_updates = args->all_updates;
    params.delta = args->delta;
    params.start_share = args->start_share;
    params.init = job->init;
    return params;
}

kith_search_params cli_graph_params(const cli_job *job, const kith_descent_params *descent)
{
    kith_search_params params = cli_job_params(job);
    params.k = descent->k;
    params.recall = descent->recall;
    params.recall_at = descent->recall_at;
    params.seed = descent->seed;
    params.descent = descent;
    return params;
}

kith_status cli_job_search(cli_job *job, const kith_matrix *queries,
                           const kith_search_params *params, const kith_neighbors *table)
{
    kith_ctx *ctx = job->session.ctx;
    return job->prepared != NULL
               ? kith_index_search(ctx, job->prepared, queries, params, table, NULL)
               : kith_search(ctx, job->corpus.matrix, queries, params, table, NULL);
}

int cli_job_check(cli_job *job, kith_status status)
{
    const char *queries = job->queries.path != NULL ? job->queries.path : job->corpus.path;
    return cli_session_check_files(
        &job->session, status, job->corpus.path,
        {"corpus", job->corpus.path, -job->part.first_of_corpus},
        {"queries", queries, -job->first_query}, {"b", queries, 0},
        {cli_is_graph_search(job->args) ? "graph" : NULL, job->args->paths[0], 0});
}

int cli_job_take_report(cli_job *job)
{
    return cli_job_check(job, kith_ctx_report(job->session.ctx, &job->report));
}

kith_matrix cli_job_rows(const kith_matrix *matrix, int64_t first, int64_t count)
{
    kith_matrix part = *matrix;
    if (part.stride_bytes == 0) {
        part.stride_bytes = (int64_t)part.cols * kith_dtype_bytes(part.dtype);
    }
    part.data = (const char *)part.data + first * part.stride_bytes;
    part.rows = count;
    return part;
}

int cli_job_allocate(cli_job *job, kith_neighbors *table, int64_t rows)
{
    const int64_t k = job->args->k * job->lists;
    const uint64_t count = (uint64_t)rows * (uint64_t)k;
    CLI_FAIL_IF((double)rows * (double)job->args->k * (double)job->lists > 0x1p53, job->corpus.path,
                "the answer is too large (take a smaller k)");
    table->rows = rows;
    table->k = k;
    table->ids = cli_keep(count, sizeof *table->ids);
    table->distances = table->ids != NULL ? cli_keep(count, sizeof *table->distances) : NULL;
    CLI_PASS_IF(table->distances != NULL, job->corpus.path,
                "no memory for the answer, %" PRId64 " rows of %" PRId64 " (take a smaller k)",
                rows, k);
}

int cli_job_claim(cli_job *job)
{
    CLI_TRY(cli_claim_make(&job->session, &job->corpus, &job->points));
    return cli_given(job->args, CLI_OPT_BOTH)
               ? cli_claim_make(&job->session, &job->queries, &job->asked)
               : CLI_DONE;
}

kith_result_meta cli_job_meta(const cli_job *job, const kith_fingerprint *points)
{
    kith_result_meta meta = kith_result_meta_default();
    meta.kind = job->queries.matrix == NULL ? KITH_KIND_GRAPH : KITH_KIND_RESULT;
    meta.metric = cli_job_metric(job);
    const kith_recall *recall =
        cli_is_graph_search(job->args) ? &job->walk.recall : &job->descent.recall;
    /* No file says a radius, a filter or a period, and of what lists that it cut are certified
     * would be lost. */
    const bool some =
        cli_cuts_lists(job->args) || cli_is_filtered(job->args) || cli_job_is_periodic(job);
    meta.exact = some ? KITH_EXACTNESS_UNKNOWN : job->exact;
    if (meta.exact == KITH_APPROXIMATE && recall->rows > 0) {
        meta.recall = recall->recall;
        meta.recall_at = recall->at;
    }
    meta.corpus_rows = points->rows;
    meta.points = *points;
    return meta;
}

int cli_job_save(cli_job *job, const char *path, const kith_neighbors *table,
                 const kith_fingerprint *points)
{
    if (path == NULL) {
        return CLI_DONE;
    }
    const kith_result_meta meta = cli_job_meta(job, points);
    return cli_session_saved(
        &job->session, kith_result_save(job->session.ctx, path, job->args->format, table, &meta),
        path);
}

int cli_job_save_forward(cli_job *job)
{
    CLI_TRY(cli_job_save(job, job->args->output, &job->forward, &job->points));
    return cli_distances_save(&job->session, job->args->distances, &job->forward, NULL);
}

static double average(double all, double one, double share)
{
    return all + (one - all) * share;
}

static double time_of(double all, double one, bool sums)
{
    return sums ? all + one : all > one ? all : one;
}

void cli_job_add_report(const kith_report *all, const kith_report *one, double share, bool sums,
                        kith_report *out)
{
    out->seconds_check = time_of(all->seconds_check, one->seconds_check, sums);
    out->seconds_prepare = time_of(all->seconds_prepare, one->seconds_prepare, sums);
    out->seconds_screen = time_of(all->seconds_screen, one->seconds_screen, sums);
    out->seconds_rescore = time_of(all->seconds_rescore, one->seconds_rescore, sums);
    out->seconds_select = time_of(all->seconds_select, one->seconds_select, sums);
    out->rerun_share = average(all->rerun_share, one->rerun_share, share);
    out->skipped_share = average(all->skipped_share, one->skipped_share, share);
    out->looked_share = average(all->looked_share, one->looked_share, share);
    out->candidates = average(all->candidates, one->candidates, share);
    out->select_cpu_rows = all->select_cpu_rows + one->select_cpu_rows;
    out->select_gpu_rows = all->select_gpu_rows + one->select_gpu_rows;
    out->distinct_rows =
        all->distinct_rows > one->distinct_rows ? all->distinct_rows : one->distinct_rows;
    out->gpu_peak_bytes =
        all->gpu_peak_bytes > one->gpu_peak_bytes ? all->gpu_peak_bytes : one->gpu_peak_bytes;
}
