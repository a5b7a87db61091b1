/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "cli_descent.h"
#include "cli_output.h"
#include "cli_stream.h"

#include <inttypes.h>
#include <stdio.h>

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

static int plan(cli_job *job)
{
    request r;
    CLI_TRY(check_parts(job->args));
    CLI_TRY(cli_graph_plan(job));
    make_request(job, &r);
    job->shard_plan.struct_size = (uint32_t)sizeof job->shard_plan;
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

/* The library names the folder, the result, and parts of it, which have its name but the ending. */
static int check(cli_job *job, kith_status status)
{
    const cli_args *args = job->args;
    const char *ending = strrchr(args->output, '.');
    const size_t stem = ending != NULL ? (size_t)(ending - args->output) : strlen(args->output);
    if (status != KITH_OK && cli_session_names(&job->session, args->shards, strlen(args->shards))) {
        return cli_session_check(&job->session, status, args->shards);
    }
    if (status != KITH_OK && cli_session_names(&job->session, args->output, stem)) {
        return cli_session_check(&job->session, status, NULL);
    }
    return cli_job_check(job, status);
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

static int solve(cli_job *job)
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
    job->sharded.struct_size = (uint32_t)sizeof job->sharded;
    code = check(job, kith_graph_shards(job->session.ctx, job->corpus.matrix, &r.shards,
                                        args->shards, args->output, &job->sharded));
    job->descent.recall = job->sharded.recall;
    job->points = job->sharded.points;
    return code == CLI_INTERRUPTED ? tell_interrupted(job) : code;
}

/* The library has written the result while it was made. */
static int save(cli_job *job)
{
    (void)job;
    return CLI_DONE;
}

const cli_engine cli_engine_shards = {KITH_FILE_LISTS_OUT, NULL, plan, solve, save, NULL};

/* ---- The report ----------------------------------------------------------------------------- */

static void tell_plan(cli_report *r, const cli_job *job)
{
    char text[2][CLI_SIZE_BYTES];
    const kith_shard_plan *p = &job->shard_plan;
    cli_say(r, "shards: %" PRId32 " of at most %" PRId64 " rows, %" PRId64 " steps\n", p->shards,
            p->rows, p->steps);
    if (p->groups > 0) {
        cli_say(r,
                "or groups, if points allow: %" PRId32 " or more, of at most %" PRId64
                " rows, a step each\n",
                p->groups, p->group_rows);
    }
    cli_say(r, "memory: planned %s\n", cli_message_size(p->peak_bytes, text[0]));
    cli_say(r, "disk: %s in %s, result %s\n", cli_message_size(p->folder_bytes, text[0]),
            cli_message_safe(job->args->shards), cli_message_size(p->result_bytes, text[1]));
    cli_put_int(r, "count", p->shards);
    cli_put_int(r, "steps", p->steps);
    cli_put_int(r, "rows", p->rows);
    cli_put_int(r, "groups", p->groups);
    cli_put_int(r, "group_rows", p->group_rows);
    cli_put_uint(r, "peak_bytes", p->peak_bytes);
    cli_put_uint(r, "gpu_bytes", p->gpu_bytes);
    cli_put_uint(r, "folder_bytes", p->folder_bytes);
    cli_put_uint(r, "result_bytes", p->result_bytes);
}

static void say_done(const cli_report *r, const kith_shard_report *s)
{
    char text[2][CLI_SIZE_BYTES];
    cli_say(r, "shards: %" PRId32 ", %" PRId64 " steps, %" PRId64 " stood already", s->shards,
            s->steps, s->steps_stood);
    if (s->rebuilt > 0) {
        cli_say(r, ", %" PRId32 " shards were made again", s->rebuilt);
    }
    if (s->groups_cover > 0.0) {
        cli_say(r,
                "\ngroups: %s%.4f of a sample's true neighbours share one (%.4f wanted), a "
                "point is in %.3f",
                s->groups > 0 ? "" : "none, ", s->groups_cover, s->groups_wanted,
                s->groups_overlap);
    }
    if (s->pairs_met + s->pairs_skipped > 0) {
        cli_say(r,
                "\npairs of shards: %" PRId64 " met, %" PRId64
                " are too far apart; %.1f %% of the pairs of rows were left out",
                s->pairs_met, s->pairs_skipped, 100.0 * s->rows_skipped);
    }
    cli_say(r, "\ndisk: %s read, %s written\n", cli_message_size(s->bytes_read, text[0]),
            cli_message_size(s->bytes_written, text[1]));
    cli_say(r,
            "seconds of shards: compute %.3f (sample %.3f, groups %.3f), wait for the disk "
            "%.3f, result %.3f, total %.3f\n",
            s->seconds_compute, s->seconds_sample, s->seconds_group, s->seconds_wait,
            s->seconds_result, s->seconds_total);
}

/* Seconds that the job took, one after another: their sum is the total. */
static void put_stages(cli_report *r, const kith_shard_report *s)
{
    const double spent = s->seconds_compute + s->seconds_wait + s->seconds_result;
    cli_put_open(r, "stages");
    cli_put_number(r, "sample", s->seconds_sample);
    cli_put_number(r, "groups", s->seconds_group);
    cli_put_number(r, "graphs", s->seconds_compute - s->seconds_sample - s->seconds_group);
    cli_put_number(r, "wait_for_rows", s->seconds_rows);
    cli_put_number(r, "wait_for_lists", s->seconds_wait - s->seconds_rows);
    cli_put_number(r, "check", s->seconds_check);
    cli_put_number(r, "result", s->seconds_result - s->seconds_check);
    cli_put_number(r, "rest", s->seconds_total - spent);
    cli_put_close(r);
}

static void put_done(cli_report *r, const kith_shard_report *s)
{
    cli_put_int(r, "count", s->shards);
    cli_put_int(r, "steps", s->steps);
    cli_put_int(r, "stood", s->steps_stood);
    cli_put_int(r, "rebuilt", s->rebuilt);
    cli_put_int(r, "parts", s->parts);
    cli_put_int(r, "pairs_met", s->pairs_met);
    cli_put_int(r, "pairs_skipped", s->pairs_skipped);
    cli_put_number(r, "rows_skipped", s->rows_skipped);
    cli_put_uint(r, "bytes_read", s->bytes_read);
    cli_put_uint(r, "bytes_written", s->bytes_written);
    cli_put_number(r, "compute_seconds", s->seconds_compute);
    cli_put_number(r, "wait_seconds", s->seconds_wait);
    cli_put_number(r, "result_seconds", s->seconds_result);
    cli_put_number(r, "total_seconds", s->seconds_total);
    cli_put_number(r, "sample_seconds", s->seconds_sample);
    cli_put_number(r, "group_seconds", s->seconds_group);
    cli_put_int(r, "groups", s->groups);
    cli_put_number(r, "groups_cover", s->groups_cover);
    cli_put_number(r, "groups_wanted", s->groups_wanted);
    cli_put_number(r, "groups_overlap", s->groups_overlap);
    cli_put_number(r, "compute_share",
                   s->seconds_total > 0.0 ? s->seconds_compute / s->seconds_total : 0.0);
    put_stages(r, s);
}

void cli_shards_tell(cli_report *r, const cli_job *job, bool planned)
{
    const kith_shard_report *s = &job->sharded;
    cli_put_open(r, "shards");
    if (planned) {
        tell_plan(r, job);
    } else {
        say_done(r, s);
        put_done(r, s);
    }
    cli_put_close(r);
    if (!planned && s->recall.rows > 0) {
        cli_put_estimate(r, &s->recall);
    }
}
