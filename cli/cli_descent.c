/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_descent.h"

#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const double LONG_SECONDS = 60.0;

/* ---- NN-Descent ----------------------------------------------------------------------------- */

static int open_init(cli_job *job)
{
    const char *path = job->args->init;
    if (path == NULL) {
        return CLI_DONE;
    }
    CLI_TRY(cli_session_result(&job->session, path, &job->init));
    const int64_t rows = job->init->rows;
    const int64_t points = job->corpus.matrix->rows;
    CLI_PASS_IF(rows == points, path,
                "has %" PRId64 " rows, %s has %" PRId64 " (give a graph of the points)", rows,
                job->corpus.path, points);
}

bool cli_plan_descends(const kith_plan *plan)
{
    return strcmp(plan->method, "descent") == 0;
}

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

/* Says on stderr that an exact graph will take long, and what would be sooner. */
static int hint(cli_job *job)
{
    char exact[32];
    char descent[32];
    const cli_args *args = job->args;
    const kith_descent_params usual = cli_descent_params(job);
    kith_search_params params = cli_graph_params(job, &usual);
    kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
    kith_matrix shape = *job->corpus.matrix;
    if (args->method != KITH_METHOD_AUTO || cli_given(args, CLI_OPT_QUIET) ||
        cli_given(args, CLI_OPT_RECALL) || cli_given(args, CLI_OPT_SHARDS) ||
        cli_is_filtered(args)) {
        return CLI_DONE;
    }
    shape.data = NULL;
    params.recall = 0.99;
    CLI_TRY(cli_job_check(job, kith_plan_search(job->session.ctx, &shape, NULL, &params, &plan)));
    if (plan.estimated_exact > LONG_SECONDS) {
        (void)cli_fail(job->corpus.path,
                       "the exact graph takes about %s; --recall 0.99 finds all but a hundredth of "
                       "it in about %s",
                       duration(plan.estimated_exact, exact),
                       duration(plan.estimated_descent, descent));
    }
    return CLI_DONE;
}

int cli_graph_plan(cli_job *job)
{
    CLI_TRY(open_init(job));
    CLI_TRY(cli_job_plan(job, job->corpus.matrix, NULL));
    job->descends = cli_plan_descends(&job->plan);
    return hint(job);
}

void cli_graph_name_way(bool descends, kith_search_params *params)
{
    if (descends) {
        params->method = KITH_METHOD_DESCENT;
    } else {
        params->recall = 1.0;
    }
}

int cli_graph_solve(cli_job *job)
{
    const kith_descent_params descent = cli_descent_params(job);
    kith_search_params params = cli_graph_params(job, &descent);
    params.descent_report = &job->descent;
    cli_graph_name_way(job->descends, &params);
    return cli_job_check(
        job, kith_graph(job->session.ctx, job->corpus.matrix, &params, &job->forward, NULL));
}

/* ---- Walks on a graph ------------------------------------------------------------------------ */

static int check_graph(cli_job *job)
{
    const char *path = job->args->paths[0];
    const kith_result_meta *meta = job->graph->meta;
    const kith_metric asked = job->args->metric;
    const int64_t rows = job->graph->rows;
    CLI_FAIL_IF(meta->kind == KITH_KIND_RESULT && meta->metric != KITH_METRIC_DEFAULT, path,
                "holds neighbours of queries, and no graph (give one that kith graph "
                "has written)");
    CLI_FAIL_IF(asked != KITH_METRIC_DEFAULT && meta->metric != KITH_METRIC_DEFAULT &&
                    asked != meta->metric,
                path, "is a graph for %s, --metric says %s (leave it out)",
                kith_metric_name(meta->metric), kith_metric_name(asked));
    CLI_FAIL_IF(rows != job->corpus.matrix->rows, path,
                "has %" PRId64 " rows, %s has %" PRId64 " (give a graph of the points)", rows,
                job->corpus.path, job->corpus.matrix->rows);
    job->own_metric = meta->metric;
    CLI_TRY(cli_claim_check(&job->session, path, meta, &job->corpus));
    return cli_job_check_k(job->corpus.path, job->args->k, rows, "points");
}

static int open_graph_index(cli_job *job)
{
    const char *path = job->args->paths[0];
    kith_file_info info;
    CLI_TRY(cli_session_inspect(&job->session, path, NULL, &info));
    CLI_FAIL_IF(info.kind != KITH_KIND_GRAPH_INDEX, path,
                "is no index by graph (kith index build --method graph makes one; or "
                "give GRAPH POINTS QUERIES)");
    CLI_TRY(cli_job_open_index(job, path));
    return cli_job_check_k(path, job->args->k, job->corpus.matrix->rows, "points");
}

int cli_walk_read(cli_job *job)
{
    if (job->args->path_count == 2) {
        return open_graph_index(job);
    }
    CLI_TRY(cli_session_result(&job->session, job->args->paths[0], &job->graph));
    CLI_TRY(cli_session_read(&job->session, job->args->paths[1], &job->corpus));
    return check_graph(job);
}

int cli_walk_solve(cli_job *job)
{
    const cli_args *args = job->args;
    kith_search_params params = cli_job_params(job);
    kith_walk_params way = kith_walk_params_default();
    kith_neighbors graph = {.meta = NULL};
    if (job->graph != NULL) {
        graph = *job->graph;
        graph.meta = NULL; /* check_graph has looked at it */
        way.graph = &graph;
    }
    params.method = KITH_METHOD_GRAPH;
    params.recall = args->recall;
    params.recall_at = args->recall_at;
    params.seed = args->seed;
    params.walk = &way;
    params.walk_report = &job->walk;
    way.width = args->width;
    way.sample = args->sample == 0 ? -1 : args->sample;
    CLI_TRY(cli_job_allocate(job, &job->forward, job->queries.matrix->rows));
    return cli_job_check(job, cli_job_search(job, job->queries.matrix, &params, &job->forward));
}

/* ---- Reports --------------------------------------------------------------------------------- */

void cli_descent_tell_choice(cli_report *r, const cli_job *job)
{
    char exact[32];
    char descent[32];
    const cli_args *args = job->args;
    const kith_plan *plan = &job->plan;
    if (args->method == KITH_METHOD_AUTO && args->recall >= 1.0) {
        cli_say(r, "choice: exact, a recall of 1 was asked for\n");
    } else if (plan->estimated_exact > 0.0) {
        cli_tell_object(r, "choice",
                        "choice: {way}, an exact graph takes about {exact}, a descent about "
                        "{descent}\n",
                        TEXT(".way", job->descends ? "descent" : "exact"),
                        TEXT(".exact", duration(plan->estimated_exact, exact)),
                        TEXT(".descent", duration(plan->estimated_descent, descent)),
                        NUMBER("exact_seconds", plan->estimated_exact),
                        NUMBER("descent_seconds", plan->estimated_descent));
    }
}

static void tell_round(cli_report *r, const kith_descent_round *round, double rows)
{
    cli_put_open(r, NULL, '{');
    cli_tell(r, "round {number}: {updates} updates, {a_row:.1f} distances a row, phi {phi:.6g}",
             INT("number", round->number), INT("updates", round->updates),
             NUMBER("evaluations", round->evaluations), NUMBER(".a_row", round->evaluations / rows),
             NUMBER("phi", round->phi));
    if (round->recall >= 0.0) {
        cli_tell(r, ", recall {recall:.4f}", NUMBER("recall", round->recall));
    }
    cli_tell(r, ", {seconds:.3f} s\n", NUMBER("seconds", round->seconds));
    cli_put_close(r, '}');
}

/* What was asked for, and whether it was reached. */
static void put_wanted(cli_report *r, const cli_job *job, bool reached)
{
    if (job->args->recall > 0.0) {
        cli_put(r, NUMBER("recall_wanted", job->args->recall), BOOL("reached", reached));
    }
}

void cli_descent_tell(cli_report *r, const cli_job *job)
{
    const kith_descent_report *d = &job->descent;
    const double rows = (double)job->corpus.matrix->rows;
    const bool people = r->people;
    r->people = people && r->verbose && d->exact != 1; /* else there were no rounds */
    if (d->exact == 0 && d->recall.rows > 0) {
        cli_put_estimate(r, &d->recall);
    }
    put_wanted(r, job, d->reached == 1);
    cli_tell(
        r, "start: {start}, rounds: {rounds} (lists of {list}, candidates {candidates_a_round})\n",
        TEXT("start", cli_option_word(CLI_OPT_START, (int)d->start)), INT(".rounds", d->rounds),
        INT("list", d->list), INT("candidates_a_round", d->candidates),
        NUMBER("evaluations", d->evaluations));
    cli_put_open(r, "rounds", '[');
    for (int32_t i = 0; i < d->round_count; i++) {
        tell_round(r, &d->round[i], rows);
    }
    cli_say(r, "distances a row: %.1f (%.3f %% of all pairs)\n", d->evaluations / rows,
            100.0 * d->evaluations / (rows * (rows - 1.0) / 2.0));
    cli_put_close(r, ']');
    r->people = people;
}

void cli_descent_say_missed(const cli_report *r, const cli_job *job)
{
    const kith_descent_report *d = &job->descent;
    if (d->exact == 0 && job->args->recall > 0.0 && d->reached == 0) {
        const bool stopped = job->args->rounds > 0 && d->rounds >= job->args->rounds;
        cli_say(r, "a recall of %g was not reached, %s\n", job->args->recall,
                stopped ? "all rounds= were run (give more)"
                        : "and rounds changed little at the end (give a longer list=, or more "
                          "candidates=, of --tune)");
    }
}

void cli_descent_say_recall(cli_report *r, const cli_job *job)
{
    if (job->descent.exact == 1) {
        cli_say(r, "every pair was looked at\n");
        return;
    }
    if (job->sharded.shards == 0) { /* no report of a descent, which was one for each shard */
        cli_descent_say_missed(r, job);
    }
    cli_say_estimate(r, &job->descent.recall, "points");
}

void cli_walk_tell(cli_report *r, const cli_job *job)
{
    const kith_walk_report *walk = &job->walk;
    const double distances = walk->evaluations / (double)job->queries.matrix->rows;
    const int64_t k = job->prepared != NULL ? job->prepared_info.k : job->graph->k;
    cli_tell_more(r, "graph: {graph}, {k} neighbours a row, connected parts: {parts}\n",
                  TEXT(".graph", job->args->paths[0]), INT(".k", k), INT(".parts", walk->parts));
    cli_tell_more(r, walk->exact == 0 ? "width: {width}\n" : "", INT(".width", walk->width));
    cli_tell_more(r, "distances a query: {distances:.1f} ({share:.3%} of all points)\n",
                  NUMBER(".distances", distances),
                  NUMBER(".share", distances / (double)job->corpus.matrix->rows));
    if (walk->exact == 0 && walk->recall.rows > 0) {
        cli_put_estimate(r, &walk->recall);
    }
    put_wanted(r, job, walk->reached == 1);
    cli_put(r, INT("width", walk->width), INT("parts", walk->parts),
            NUMBER("evaluations", walk->evaluations));
}

void cli_walk_say_recall(cli_report *r, const cli_job *job)
{
    if (job->walk.exact == 1) {
        cli_say(r, "walks would have taken longer than to compare all points%s\n",
                cli_is_filtered(job->args) ? " that may be found" : "");
    } else {
        cli_say_estimate(r, &job->walk.recall, "queries");
    }
}
