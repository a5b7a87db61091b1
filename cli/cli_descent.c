/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_descent.h"

#include "cli.h"
#include "cli_message.h"
#include "cli_names.h"

#include <inttypes.h>
#include <stdio.h>

static const double LONG_SECONDS = 60.0;

/* ---- The job -------------------------------------------------------------------------------- */

kith_descent_params cli_descent_params(const cli_job *job)
{
    const cli_args *args = job->args;
    kith_descent_params params = kith_descent_params_default();
    params.metric = cli_job_metric(job);
    params.k = args->k;
    params.flags = cli_given(args, CLI_OPT_INCLUDE_SELF) ? (uint32_t)KITH_INCLUDE_SELF : 0;
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
    params.init = job->init != NULL ? kith_result_neighbors(job->init) : NULL;
    return params;
}

static int open_init(cli_job *job)
{
    const char *path = job->args->init;
    const int code =
        path == NULL
            ? CLI_DONE
            : cli_session_check(&job->session, kith_result_open(job->session.ctx, path, &job->init),
                                path);
    if (code != CLI_DONE || job->init == NULL ||
        kith_result_neighbors(job->init)->rows == job->corpus.matrix->rows) {
        return code;
    }
    return cli_fail(path, "has %" PRId64 " rows, %s has %" PRId64 " (give a graph of the points)",
                    kith_result_neighbors(job->init)->rows, job->corpus.path,
                    job->corpus.matrix->rows);
}

static int estimate(cli_job *job, kith_plan *plan)
{
    const kith_descent_params params = cli_descent_params(job);
    job->estimate.struct_size = (uint32_t)sizeof job->estimate;
    return cli_job_check(job, kith_plan_descent(job->session.ctx, job->corpus.matrix, &params, plan,
                                                &job->estimate));
}

int cli_descent_plan(cli_job *job)
{
    const cli_args *args = job->args;
    const bool self = cli_given(args, CLI_OPT_INCLUDE_SELF);
    kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
    int code = cli_job_check_k(job->corpus.path, args->k, job->corpus.matrix->rows - (self ? 0 : 1),
                               self ? "points" : "other points");
    if (code == CLI_DONE) {
        code = open_init(job);
    }
    if (code == CLI_DONE) {
        code = estimate(job, &plan);
    }
    if (code != CLI_DONE) {
        return code;
    }
    job->chose = args->method == KITH_METHOD_AUTO;
    job->descends = !job->chose || (args->recall < 1.0 && job->estimate.pays == 1);
    if (!job->descends) {
        return cli_job_plan(job, job->corpus.matrix, NULL);
    }
    job->plan = plan;
    job->planned = true;
    return CLI_DONE;
}

int cli_descent_solve(cli_job *job)
{
    const kith_descent_params params = cli_descent_params(job);
    job->descent.struct_size = (uint32_t)sizeof job->descent;
    return cli_job_check(job, kith_graph_descent(job->session.ctx, job->corpus.matrix, &params,
                                                 &job->forward, &job->descent));
}

/* ---- For people ----------------------------------------------------------------------------- */

/* "40 seconds", "12 minutes", "3.5 hours" */
static const char *duration(double seconds, char text[32])
{
    if (seconds < 0.1) {
        (void)snprintf(text, 32, "0.1 seconds or less");
    } else if (seconds < 120.0) {
        (void)snprintf(text, 32, seconds < 9.95 ? "%.1f seconds" : "%.0f seconds", seconds);
    } else if (seconds < 7200.0) {
        (void)snprintf(text, 32, "%.0f minutes", seconds / 60.0);
    } else {
        (void)snprintf(text, 32, "%.1f hours", seconds / 3600.0);
    }
    return text;
}

int cli_descent_hint(cli_job *job)
{
    char exact[32];
    char descent[32];
    const cli_args *args = job->args;
    if (args->method != KITH_METHOD_AUTO || args->pipeline != KITH_PIPELINE_FUSED ||
        cli_given(args, CLI_OPT_QUIET) || cli_given(args, CLI_OPT_RECALL) ||
        cli_given(args, CLI_OPT_RADIUS)) {
        return CLI_DONE;
    }
    const int code = estimate(job, NULL);
    if (code == CLI_DONE && job->estimate.seconds_exact > LONG_SECONDS) {
        (void)cli_fail(job->corpus.path,
                       "the exact graph takes about %s; --recall 0.99 finds all but a hundredth of "
                       "it in about %s",
                       duration(job->estimate.seconds_exact, exact),
                       duration(job->estimate.seconds_descent, descent));
    }
    return code;
}

void cli_descent_print_choice(const cli_job *job)
{
    char exact[32];
    char descent[32];
    if (!job->chose) {
        return;
    }
    if (job->args->recall >= 1.0) {
        (void)printf("choice: exact, a recall of 1 was asked for\n");
        return;
    }
    (void)printf("choice: %s, an exact graph takes about %s, a descent about %s\n",
                 job->descends ? "descent" : "exact", duration(job->estimate.seconds_exact, exact),
                 duration(job->estimate.seconds_descent, descent));
}

void cli_descent_print_rounds(const cli_job *job)
{
    const kith_descent_report *d = &job->descent;
    const double rows = (double)job->corpus.matrix->rows;
    if (d->exact == 1) {
        return;
    }
    (void)printf("start: %s, rounds: %" PRId32 " (lists of %" PRId32 ", candidates %" PRId32 ")\n",
                 cli_name_start((int)d->start), d->rounds, d->list, d->candidates);
    for (int32_t i = 0; i < d->round_count; i++) {
        const kith_descent_round *round = &d->round[i];
        (void)printf("round %" PRId32 ": %" PRId64 " updates, %.1f distances a row, phi %.6g",
                     round->number, round->updates, round->evaluations / rows, round->phi);
        if (round->recall >= 0.0) {
            (void)printf(", recall %.4f", round->recall);
        }
        (void)printf(", %.3f s\n", round->seconds);
    }
    (void)printf("distances a row: %.1f (%.3f %% of all pairs)\n", d->evaluations / rows,
                 100.0 * d->evaluations / (rows * (rows - 1.0) / 2.0));
}

void cli_descent_print_missed(const cli_job *job)
{
    const kith_descent_report *d = &job->descent;
    if (d->exact == 0 && job->args->recall > 0.0 && d->reached == 0) {
        const bool stopped = job->args->rounds > 0 && d->rounds >= job->args->rounds;
        (void)printf("a recall of %g was not reached, %s\n", job->args->recall,
                     stopped ? "all rounds= were run (give more)"
                             : "and rounds changed little at the end (give a longer list=, or more "
                               "candidates=, of --tune)");
    }
}

/* The interval lies lower than the estimate near 1, and reaches as far as its farther end. */
void cli_descent_print_estimate(const kith_recall *recall, const char *what)
{
    char rows[CLI_GROUPED_BYTES];
    const double down = recall->recall - recall->low;
    const double up = recall->high - recall->recall;
    if (recall->rows == 0) {
        (void)printf("recall: not estimated (leave sample=0 out)\n");
    } else {
        (void)printf("recall@%" PRId64 " = %.4f +- %.4f (%s %s solved exactly)\n", recall->at,
                     recall->recall, down > up ? down : up, cli_claim_grouped(recall->rows, rows),
                     what);
    }
}

void cli_descent_print_recall(const cli_job *job)
{
    if (job->descent.exact == 1) {
        (void)printf("the points are so few that every pair was looked at\n");
    } else {
        if (job->sharded.shards == 0) { /* no report of a descent, which was one for each shard */
            cli_descent_print_missed(job);
        }
        cli_descent_print_estimate(&job->descent.recall, "points");
    }
}

/* ---- For programs --------------------------------------------------------------------------- */

void cli_descent_put_choice(const cli_job *job, cli_json *json)
{
    if (job->chose) {
        cli_json_open(json, "choice");
        cli_json_number(json, "exact_seconds", job->estimate.seconds_exact);
        cli_json_number(json, "descent_seconds", job->estimate.seconds_descent);
        cli_json_close(json);
    }
}

static void put_rounds(const kith_descent_report *d, cli_json *json)
{
    cli_json_open_array(json, "rounds");
    for (int32_t i = 0; i < d->round_count; i++) {
        const kith_descent_round *round = &d->round[i];
        cli_json_open(json, NULL);
        cli_json_int(json, "number", round->number);
        cli_json_int(json, "updates", round->updates);
        cli_json_number(json, "evaluations", round->evaluations);
        cli_json_number(json, "phi", round->phi);
        if (round->recall >= 0.0) {
            cli_json_number(json, "recall", round->recall);
        }
        cli_json_number(json, "seconds", round->seconds);
        cli_json_close(json);
    }
    cli_json_close_array(json);
}

void cli_descent_put_estimate(const kith_recall *recall, cli_json *json)
{
    cli_json_open(json, "recall");
    cli_json_int(json, "at", recall->at);
    cli_json_number(json, "estimate", recall->recall);
    cli_json_number(json, "low", recall->low);
    cli_json_number(json, "high", recall->high);
    cli_json_int(json, "sample", recall->rows);
    cli_json_close(json);
}

void cli_descent_put(const cli_job *job, cli_json *json)
{
    const kith_descent_report *d = &job->descent;
    if (d->exact == 0 && d->recall.rows > 0) {
        cli_descent_put_estimate(&d->recall, json);
    }
    if (job->args->recall > 0.0) {
        cli_json_number(json, "recall_wanted", job->args->recall);
        cli_json_bool(json, "reached", d->reached == 1);
    }
    cli_json_text(json, "start", cli_name_start((int)d->start));
    cli_json_int(json, "list", d->list);
    cli_json_int(json, "candidates_a_round", d->candidates);
    cli_json_number(json, "evaluations", d->evaluations);
    put_rounds(d, json);
}
