/* SPDX-License-Identifier: Apache-2.0
 * kith graph and kith search: which call of the library solves a job, and what is written of it. */

#include "cli.h"
#include "cli_descent.h"
#include "cli_output.h"
#include "cli_part.h"
#include "cli_stream.h"
#include "cli_work.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Steps ----------------------------------------------------------------------------------- */

static int read_files(cli_job *job)
{
    const cli_args *args = job->args;
    CLI_TRY(cli_is_graph_search(args) ? cli_walk_read(job) : cli_job_read_corpus(job));
    if (args->path_count > 1) {
        CLI_TRY(cli_session_read(&job->session, args->paths[args->path_count - 1], &job->queries));
        CLI_TRY(cli_points_check_like(job->queries.path, job->queries.matrix, job->corpus.path,
                                      job->corpus.matrix, false));
    }
    CLI_TRY(cli_period_make(args, job->corpus.matrix->cols, &job->period));
    return cli_filter_read(job);
}

static int plan_job(cli_job *job)
{
    cli_part_take(job);
    if (job->engine->plan != NULL && !cli_part_is_empty(job)) {
        CLI_TRY(job->engine->plan(job));
    }
    cli_part_plan(job);
    cli_job_count_need(job);
    job->saved = job->engine->save == NULL || cli_stream_wanted(job);
    return cli_stream_wanted(job)
               ? cli_stream_plan(job)
               : cli_job_check_memory(job->corpus.path, job->need_bytes, job->args->memory_bytes);
}

/* Of this process' part. */
static int solve_part(cli_job *job)
{
    CLI_TRY(cli_part_meet(job, NULL));
    if (cli_part_is_empty(job)) {
        return CLI_DONE;
    }
    CLI_TRY(job->engine->solve(job));
    CLI_TRY(cli_job_take_report(job));
    job->exact = job->report.exact;
    CLI_PASS_IF(job->exact == KITH_CERTIFIED || job->descends || cli_is_graph_search(job->args),
                job->corpus.path,
                "the answer was not certified, nothing was written "
                "(this should be impossible, please report it)");
}

static int solve_job(cli_job *job)
{
    kith_neighbors *lists = &job->forward;
    const uint64_t k = (uint64_t)job->args->k * (uint64_t)job->lists;
    if (job->chunk_rows > 0) {
        return cli_stream_solve(job);
    }
    CLI_TRY(solve_part(job));
    CLI_TRY(cli_part_collect(job, lists->ids, k * sizeof *lists->ids));
    CLI_TRY(cli_part_collect(job, lists->distances, k * sizeof *lists->distances));
    CLI_TRY(cli_part_report(job));
    lists->rows = job->part.all != NULL ? job->part.all->rows : lists->rows;
    return CLI_DONE;
}

static int save_job(cli_job *job)
{
    CLI_TRY(job->points.rows == 0 ? cli_job_claim(job) : CLI_DONE);
    return job->engine->save(job);
}

static int run(const cli_args *args, const cli_engine *engine)
{
    const cli_work work = {.endings = engine->output_endings,
                           .holds = engine->holds,
                           .read = read_files,
                           .plan = plan_job,
                           .tell_plan = cli_job_tell_plan,
                           .solve = solve_job,
                           .save = save_job,
                           .tell = cli_job_tell};
    cli_job job = {.args = args, .engine = engine};
    return cli_work_run(&job, &work);
}

/* ---- Within a radius ------------------------------------------------------------------------- */

static int solve_radius(cli_job *job)
{
    const cli_args *args = job->args;
    kith_radius_params params = kith_radius_params_default();
    params.metric = cli_job_metric(job);
    params.radius = args->radius;
    params.method = args->method;
    params.flags = cli_self(args);
    params.count_only = args->output == NULL;
    params.period = job->period;
    params.filter = cli_is_filtered(args) ? &job->filter : NULL;
    kith_ctx *ctx = job->session.ctx;
    CLI_TRY(cli_job_check(
        job,
        job->prepared != NULL
            ? kith_index_radius(ctx, job->prepared, job->queries.matrix, &params, &job->ranges)
            : kith_radius(ctx, job->corpus.matrix, job->queries.matrix, &params, &job->ranges)));
    const kith_lists *lists = kith_ranges_lists(job->ranges);
    job->pairs = lists->offsets[lists->rows];
    return CLI_DONE;
}

static int save_ranges(cli_job *job)
{
    const char *path = job->args->output;
    if (path == NULL) {
        return CLI_DONE;
    }
    kith_result_meta meta = cli_job_meta(job, &job->points);
    meta.kind = KITH_KIND_RANGES;
    return cli_session_saved(&job->session,
                             kith_ranges_save(job->session.ctx, path, job->ranges, &meta), path);
}

static const cli_engine within = {
    KITH_FILE_RANGES_OUT, NULL, NULL, solve_radius, save_ranges, "neighbours within the radius"};

/* ---- The job -------------------------------------------------------------------------------- */

/* Parameters of a call; what they point to. */
typedef struct request {
    kith_search_params exact;
    kith_descent_params descent;
    kith_shard_params shards;
} request;

static void make_request(const cli_job *job, request *r)
{
    const cli_args *args = job->args;
    r->exact = cli_job_params(job);
    r->descent = cli_descent_params(job);
    r->shards = kith_shard_params_default();
    r->shards.shards = args->shard_count;
    r->shards.exact = job->descends ? NULL : &r->exact;
    r->shards.descent = job->descends ? &r->descent : NULL;
    r->shards.format = args->format;
    r->shards.keep = cli_given(args, CLI_OPT_KEEP_SHARDS);
    r->shards.restart = cli_given(args, CLI_OPT_RESTART);
    r->shards.mapped = kith_points_get_source(job->corpus.handle)->mapped != 0;
    r->shards.parts = args->parts;
    r->shards.team = args->team != NULL ? &args->team->shards : NULL;
}

/* Before hours of work: the library would say it then. */
static int check_parts(const cli_args *args)
{
    const bool wrong = cli_given(args, CLI_OPT_PARTS) && !cli_given(args, CLI_OPT_FORMAT) &&
                       !cli_output_ends(args->output, ".kith");
    return wrong ? cli_wrong(args->output,
                             "--tune parts writes .kith files (give -o a name that ends "
                             "in .kith)")
                 : CLI_DONE;
}

static int plan_shards(cli_job *job)
{
    request r;
    CLI_TRY(check_parts(job->args));
    CLI_TRY(cli_graph_plan(job));
    make_request(job, &r);
    const int code = cli_job_check(
        job, kith_plan_shards(job->session.ctx, job->corpus.matrix, &r.shards, &job->shard_plan));
    job->planned = false; /* the plan of the whole at once is none of this job's */
    job->plan = (kith_plan){.peak_bytes = job->shard_plan.peak_bytes,
                            .estimated_exact = job->plan.estimated_exact,
                            .estimated_descent = job->plan.estimated_descent};
    memcpy(job->plan.backend, job->shard_plan.backend, sizeof job->plan.backend);
    (void)snprintf(job->plan.method, sizeof job->plan.method, "shards");
    (void)snprintf(job->plan.isa, sizeof job->plan.isa, "%s",
                   kith_ctx_get_params(job->session.ctx)->isa);
    job->plan.threads = kith_ctx_get_params(job->session.ctx)->threads;
    return code;
}

static int tell_interrupted(const cli_job *job)
{
    const kith_shard_report *s = &job->sharded;
    (void)cli_fail(NULL,
                   "interrupted (%s has %" PRId64 " of %" PRId64 " steps; the same command goes on "
                   "there)",
                   job->args->shards, s->steps_done, s->steps);
    return CLI_INTERRUPTED;
}

static int solve_shards(cli_job *job)
{
    request r;
    char same[CLI_SAME_BYTES];
    const cli_args *args = job->args;
    int code = cli_same_describe(args, same);
    if (args->team != NULL) {
        code = args->team->ready(args->team->shards.arg, code);
    }
    if (code != CLI_DONE) {
        return code;
    }
    make_request(job, &r);
    r.shards.job = same;
    job->session.silent = true;
    code = cli_job_check(job, kith_graph_shards(job->session.ctx, job->corpus.matrix, &r.shards,
                                                args->shards, args->output, &job->sharded));
    job->descent.recall = job->sharded.recall;
    job->points = job->sharded.points;
    return code == CLI_INTERRUPTED ? tell_interrupted(job) : code;
}

static const cli_engine shards = {KITH_FILE_LISTS_OUT, NULL, plan_shards, solve_shards, NULL, NULL};

/* ---- The report ----------------------------------------------------------------------------- */

static void tell_shard_plan(cli_report *r, const cli_job *job)
{
    const kith_shard_plan *p = &job->shard_plan;
    cli_tell(r, "shards: {count} of at most {rows} rows, {steps} steps\n", INT("count", p->shards),
             INT("steps", p->steps), INT("rows", p->rows));
    cli_tell(r,
             p->groups > 0 ? "or groups, if points allow: {groups} or more, of at most "
                             "{group_rows} rows, a step each\n"
                           : "",
             INT("groups", p->groups), INT("group_rows", p->group_rows));
    cli_tell(r,
             "memory: planned {peak_bytes~}\n"
             "disk: {folder_bytes~} in {folder}, result {result_bytes~}\n",
             TEXT(".folder", job->args->shards), UINT("peak_bytes", p->peak_bytes),
             UINT("gpu_bytes", p->gpu_bytes), UINT("folder_bytes", p->folder_bytes),
             UINT("result_bytes", p->result_bytes));
}

/* Seconds that the job took, one after another: their sum is the total. */
static void put_stages(cli_report *r, const kith_shard_report *s)
{
    const double spent = s->seconds_compute + s->seconds_wait + s->seconds_result;
    cli_put_object(
        r, "stages", NUMBER("sample", s->seconds_sample), NUMBER("groups", s->seconds_group),
        NUMBER("graphs", s->seconds_compute - s->seconds_sample - s->seconds_group),
        NUMBER("wait_for_rows", s->seconds_rows),
        NUMBER("wait_for_lists", s->seconds_wait - s->seconds_rows),
        NUMBER("check", s->seconds_check), NUMBER("result", s->seconds_result - s->seconds_check),
        NUMBER("rest", s->seconds_total - spent));
}

static void tell_done(cli_report *r, const kith_shard_report *s)
{
    const double total = s->seconds_total;
    cli_tell(r, "shards: {count}, {steps} steps, {stood} stood already", INT("count", s->shards),
             INT("steps", s->steps), INT("stood", s->steps_stood));
    cli_tell(r, s->rebuilt > 0 ? ", {rebuilt} shards were made again" : "",
             INT("rebuilt", s->rebuilt), INT("parts", s->parts));
    if (s->groups_cover > 0.0) {
        cli_tell(r,
                 "\ngroups: {none}{cover:.4f} of a sample's true neighbours share one "
                 "({wanted:.4f} wanted), a point is in {overlap:.3f}",
                 TEXT(".none", s->groups > 0 ? "" : "none, "), NUMBER(".cover", s->groups_cover),
                 NUMBER(".wanted", s->groups_wanted), NUMBER(".overlap", s->groups_overlap));
    }
    cli_tell(r,
             s->pairs_met + s->pairs_skipped > 0
                 ? "\npairs of shards: {pairs_met} met, {pairs_skipped} are too far apart; "
                   "{rows_skipped:.1%} of the pairs of rows were left out"
                 : "",
             INT("pairs_met", s->pairs_met), INT("pairs_skipped", s->pairs_skipped),
             NUMBER("rows_skipped", s->rows_skipped));
    cli_tell(r, "\ndisk: {bytes_read~} read, {bytes_written~} written\n",
             UINT("bytes_read", s->bytes_read), UINT("bytes_written", s->bytes_written));
    cli_tell(r,
             "seconds of shards: compute {compute_seconds:.3f} (sample {sample_seconds:.3f}, "
             "groups {group_seconds:.3f}), wait for the disk {wait_seconds:.3f}, result "
             "{result_seconds:.3f}, total {total_seconds:.3f}\n",
             NUMBER("compute_seconds", s->seconds_compute), NUMBER("wait_seconds", s->seconds_wait),
             NUMBER("result_seconds", s->seconds_result), NUMBER("total_seconds", total),
             NUMBER("sample_seconds", s->seconds_sample), NUMBER("group_seconds", s->seconds_group),
             INT("groups", s->groups), NUMBER("groups_cover", s->groups_cover),
             NUMBER("groups_wanted", s->groups_wanted), NUMBER("groups_overlap", s->groups_overlap),
             NUMBER("compute_share", total > 0.0 ? s->seconds_compute / total : 0.0));
    put_stages(r, s);
}

void cli_shards_tell(cli_report *r, const cli_job *job, bool planned)
{
    const kith_shard_report *s = &job->sharded;
    cli_put_open(r, "shards", '{');
    if (planned) {
        tell_shard_plan(r, job);
    } else {
        tell_done(r, s);
    }
    cli_put_close(r, '}');
    if (!planned && s->recall.rows > 0) {
        cli_put_estimate(r, &s->recall);
    }
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

static int solve_graph(cli_job *job)
{
    CLI_TRY(cli_job_allocate(job, &job->forward, job->corpus.matrix->rows));
    return cli_graph_solve(job);
}

static uint64_t entries_of(const cli_job *job)
{
    return (uint64_t)job->corpus.matrix->rows * (uint64_t)job->args->k; /* both below 2^32 */
}

/* Doubles of the lists, edges that are turned, and at most twice as many in the answer. */
static int plan_symmetric(cli_job *job)
{
    CLI_TRY(cli_graph_plan(job));
    job->plan.peak_bytes += entries_of(job) * (8 + 8 + 2 * 16);
    return CLI_DONE;
}

/* Edges are ordered by doubles, as lists are. */
static int solve_symmetric(cli_job *job)
{
    CLI_TRY(cli_job_allocate(job, &job->forward, job->corpus.matrix->rows));
    CLI_KEEP(job->forward.distances64, entries_of(job), job->corpus.path,
             "no memory for the distances (take a smaller k)");
    return cli_graph_solve(job);
}

/* After the report of the graph was taken. */
static int save_symmetric(cli_job *job)
{
    CLI_TRY(cli_job_check(job,
                          kith_graph_symmetric(job->session.ctx, &job->forward, cli_job_metric(job),
                                               job->args->symmetry, &job->ranges)));
    job->pairs = kith_ranges_lists(job->ranges)->offsets[job->forward.rows];
    return save_ranges(job);
}

int cli_graph(const cli_args *args)
{
    static const cli_engine lists = {KITH_FILE_LISTS_OUT,  NULL, cli_graph_plan, solve_graph,
                                     cli_job_save_forward, NULL};
    static const cli_engine symmetric = {KITH_FILE_RANGES_OUT, NULL,           plan_symmetric,
                                         solve_symmetric,      save_symmetric, "edges"};
    return run(args, cli_is_radius_search(args)           ? &within
                     : cli_given(args, CLI_OPT_SHARDS)    ? &shards
                     : cli_given(args, CLI_OPT_SYMMETRIC) ? &symmetric
                                                          : &lists);
}

/* ---- Searches: one direction, both (--both), pairs that choose each other (--mutual) --------- */

static int plan_search(cli_job *job)
{
    return cli_job_plan(job, job->corpus.matrix, job->queries.matrix);
}

static int solve_search(cli_job *job)
{
    CLI_TRY(cli_job_allocate(job, &job->forward, cli_part_room(job)));
    job->forward.rows = job->queries.matrix->rows;
    const kith_search_params params = cli_job_params(job);
    return cli_job_check(job, cli_job_search(job, job->queries.matrix, &params, &job->forward));
}

static int plan_both(cli_job *job)
{
    CLI_TRY(plan_search(job));
    return cli_job_plan(job, job->queries.matrix, job->corpus.matrix);
}

static int solve_both(cli_job *job)
{
    CLI_TRY(cli_job_allocate(job, &job->forward, job->queries.matrix->rows));
    CLI_TRY(cli_job_allocate(job, &job->back, job->corpus.matrix->rows));
    const kith_search_params params = cli_job_params(job);
    return cli_job_check(job,
                         kith_knn_both(job->session.ctx, job->corpus.matrix, job->queries.matrix,
                                       &params, &job->back, &job->forward));
}

static int save_both(cli_job *job)
{
    const cli_args *args = job->args;
    CLI_TRY(cli_job_save(job, args->output, &job->forward, &job->points));
    return cli_job_save(job, args->output_back, &job->back, &job->asked);
}

static bool chooses(const kith_neighbors *table, int64_t row, uint32_t id)
{
    const uint32_t *ids = table->ids + row * table->k;
    for (int64_t i = 0; i < table->k; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* Visits the mutual pairs by row of the corpus, then nearest first; writes them where pairs is not
 * NULL, two numbers each. Returns how many there are. */
static int64_t collect_mutual(const cli_job *job, double *pairs)
{
    const kith_neighbors *back = &job->back;
    int64_t count = 0;
    for (int64_t row = 0; row < back->rows; row++) {
        for (int64_t i = 0; i < back->k; i++) {
            const uint32_t query = back->ids[row * back->k + i];
            if (!chooses(&job->forward, query, (uint32_t)row)) {
                continue;
            }
            if (pairs != NULL) {
                pairs[2 * count] = (double)row;
                pairs[2 * count + 1] = query;
            }
            count++;
        }
    }
    return count;
}

static int save_mutual(cli_job *job)
{
    const char *path = job->args->output;
    job->pairs = collect_mutual(job, NULL);
    if (path == NULL) {
        return CLI_DONE;
    }
    CLI_FAIL_IF(job->pairs == 0, path, "no pair is mutual, nothing was written (give a larger k)");
    double *pairs = NULL;
    CLI_KEEP(pairs, 2 * job->pairs, path, "no memory for the pairs (give a smaller k)");
    (void)collect_mutual(job, pairs);
    const kith_matrix matrix = {.data = pairs, .rows = job->pairs, .cols = 2, .dtype = KITH_F64};
    return cli_points_save(&job->session, path, &matrix);
}

int cli_search(const cli_args *args)
{
    static const cli_engine one = {KITH_FILE_LISTS_OUT,  NULL, plan_search, solve_search,
                                   cli_job_save_forward, NULL};
    static const cli_engine both = {KITH_FILE_LISTS_OUT, NULL,      plan_both,
                                    solve_both,          save_both, NULL};
    static const cli_engine mutual = {0,          CLI_ENDINGS_PAIRS, plan_both,
                                      solve_both, save_mutual,       "mutual pairs"};
    static const cli_engine walk = {KITH_FILE_LISTS_OUT,  NULL, NULL, cli_walk_solve,
                                    cli_job_save_forward, NULL};
    const bool parts = args->team != NULL && args->team->divides_corpus;
    return run(args, parts                             ? &cli_engine_parts
                     : cli_is_graph_search(args)       ? &walk
                     : cli_is_radius_search(args)      ? &within
                     : cli_given(args, CLI_OPT_MUTUAL) ? &mutual
                     : cli_given(args, CLI_OPT_BOTH)   ? &both
                                                       : &one);
}
