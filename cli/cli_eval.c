/* SPDX-License-Identifier: Apache-2.0
 * Recall: of a result against the true one, or of a graph by solving some rows exactly. */
#include "cli.h"
#include "cli_grow.h"
#include "cli_output.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct evaluation {
    cli_job job; /* corpus: the points of the graph; exact, points: what the file says, or --verify
                    found */
    const kith_neighbors *found;
    const kith_neighbors *truth; /* NULL: there is none */
    kith_metric metric;
    kith_recall recall;
    cli_verified verified;
} evaluation;

/* The option's, else what a file says, else the default. */
static kith_metric choose_metric(const evaluation *e)
{
    const kith_metric of_truth = e->truth != NULL ? e->truth->meta->metric : KITH_METRIC_DEFAULT;
    const kith_metric found = e->found->meta->metric;
    return e->job.args->metric != KITH_METRIC_DEFAULT ? e->job.args->metric
           : of_truth != KITH_METRIC_DEFAULT          ? of_truth
           : found != KITH_METRIC_DEFAULT             ? found
                                                      : KITH_EUCLIDEAN;
}

static int check_distances(const char *path, const kith_neighbors *lists)
{
    CLI_PASS_IF(lists->distances != NULL, path,
                "holds ids without distances (give a .npz, .knn or .kith file; a "
                "graph of ids can be checked with --points FILE)");
}

/* Distances of two metrics say nothing about each other, nor do those to the rows of two
 * corpora. */
static int check_alike(const evaluation *e)
{
    char texts[2][CLI_CLAIM_BYTES];
    const char *const *paths = e->job.args->paths;
    const kith_result_meta *found = e->found->meta;
    const kith_result_meta *truth = e->truth->meta;
    CLI_FAIL_IF(found->metric != truth->metric && found->metric != KITH_METRIC_DEFAULT &&
                    truth->metric != KITH_METRIC_DEFAULT,
                paths[0], "was made with %s, %s with %s (compare results of one metric)",
                kith_metric_name(found->metric), paths[1], kith_metric_name(truth->metric));
    CLI_PASS_IF(found->points.rows == 0 || truth->points.rows == 0 ||
                    cli_claim_equal(&found->points, &truth->points),
                paths[0], "was made of points %s, %s of %s (compare results of one corpus)",
                cli_claim_name(&found->points, texts[0]), paths[1],
                cli_claim_name(&truth->points, texts[1]));
}

/* --metric against what a file says. */
static int check_asked(const evaluation *e, const char *path, const kith_neighbors *lists)
{
    const kith_metric own = lists->meta->metric;
    CLI_PASS_IF(own == KITH_METRIC_DEFAULT || own == e->metric, path,
                "was made with %s, --metric is %s (leave --metric out)", kith_metric_name(own),
                kith_metric_name(e->metric));
}

/* Points in the place of TRUTH were meant as those of the graph. */
static int check_truth(const char *path)
{
    CLI_PASS_IF(cli_output_ends(path, cli_output_endings(KITH_FILE_LISTS_IN)), path,
                "is no result of neighbours, one of %s (if these are the points of "
                "the graph, give them as --points FILE)",
                cli_output_endings(KITH_FILE_LISTS_IN));
}

static int measure(evaluation *e)
{
    cli_job *job = &e->job;
    const char *const *paths = job->args->paths;
    CLI_TRY(check_truth(paths[1]));
    CLI_TRY(cli_session_result(&job->session, paths[1], &e->truth));
    CLI_TRY(check_distances(paths[0], e->found));
    CLI_TRY(check_distances(paths[1], e->truth));
    CLI_TRY(check_alike(e));
    e->metric = choose_metric(e);
    CLI_TRY(check_asked(e, paths[0], e->found));
    CLI_TRY(check_asked(e, paths[1], e->truth));
    return cli_session_check(&job->session,
                             kith_recall_measure(job->session.ctx, e->found, e->truth, e->metric,
                                                 job->args->k, &e->recall),
                             paths[0]);
}

static int verify(evaluation *e)
{
    cli_job *job = &e->job;
    CLI_TRY(cli_verify(&job->session, job->args->paths[0], e->found, &job->corpus, e->metric,
                       e->recall.own_rows != 0, &e->verified));
    job->exact = e->verified.wrong == 0 ? KITH_CERTIFIED : KITH_APPROXIMATE;
    return cli_claim_make(&job->session, &job->corpus, &job->points);
}

static int estimate(evaluation *e)
{
    cli_job *job = &e->job;
    cli_session *session = &job->session;
    const cli_args *args = job->args;
    kith_neighbors graph = *e->found;
    CLI_TRY(cli_session_read(session, args->points, &job->corpus));
    e->metric = choose_metric(e);
    CLI_TRY(check_asked(e, args->paths[0], e->found));
    CLI_TRY(cli_claim_check(session, args->paths[0], graph.meta, &job->corpus));
    graph.meta = NULL; /* was looked at */
    const int64_t rows = job->corpus.matrix->rows;
    kith_recall_params params = kith_recall_params_default();
    params.metric = e->metric;
    params.at = args->k;
    params.sample = args->sample < rows ? args->sample : rows;
    params.seed = args->seed;
    CLI_TRY(cli_session_check_files(
        session,
        kith_recall_estimate(session->ctx, job->corpus.matrix, &graph, &params, &e->recall),
        args->paths[0], {"points", args->points, 0}));
    return cli_given(args, CLI_OPT_VERIFY) ? verify(e) : CLI_DONE;
}

/* What recall does not count, or counts as missed. */
static void tell_places(cli_report *r, const evaluation *e)
{
    const int64_t places = e->found->rows * e->found->k;
    int64_t empty = 0;
    for (int64_t i = 0; i < places; i++) {
        empty += e->found->ids[i] == KITH_ID_NONE;
    }
    const bool own = e->recall.own_rows != 0;
    cli_tell(r, own ? "own rows: left out, recall is that of the others\n" : "",
             BOOL("include_self", own));
    cli_tell(r,
             empty > 0 ? "empty places: {empty,} of {places,}, which count as missed (a radius "
                         "leaves them)\n"
                       : "",
             INT("empty", empty), INT(".places", places));
}

static void describe(cli_report *r, const evaluation *e)
{
    const kith_recall *recall = &e->recall;
    cli_tell_text(r, "metric", kith_metric_name(e->metric));
    cli_put(r, INT("n", e->found->rows), INT("k", e->found->k));
    cli_tell_claim(r, e->job.exact, &e->job.points);
    cli_tell_verified(r, "verified", &e->verified);
    tell_places(r, e);
    cli_tell(r,
             "rows compared: {rows} of {all}\n"
             "recall@{at}: {recall:.6f} (95 % interval {low:.6f} to {high:.6f})\n",
             INT(".rows", recall->rows), INT(".all", e->found->rows), INT(".at", recall->at),
             NUMBER(".recall", recall->recall), NUMBER(".low", recall->low),
             NUMBER(".high", recall->high));
    cli_put_estimate(r, recall);
    cli_tell(r, "equal ids: {equal_ids:.6f}\ndistance ratio: {distance_ratio:.6f}\n",
             NUMBER("equal_ids", recall->equal_ids),
             NUMBER("distance_ratio", recall->distance_ratio));
}

/* --html: the same lines, below the names of the files. */
static int write_page(const evaluation *e)
{
    const cli_args *args = e->job.args;
    char *lines = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&lines, &bytes);
    if (to != NULL) {
        cli_report r = cli_report_lines(to);
        cli_say(&r, "result: %s\n", cli_message_safe(args->paths[0]));
        cli_say(&r, "%s: %s\n", args->points != NULL ? "points" : "truth",
                cli_message_safe(args->points != NULL ? args->points : args->paths[1]));
        describe(&r, e);
        cli_say(&r, "kith: %s\n", kith_version());
    }
    const bool whole = to != NULL && ferror(to) == 0;
    const int code = to != NULL && fclose(to) == 0 && whole
                         ? cli_output_page(args->html, "kith eval", lines)
                         : cli_fail(args->html, "no memory for its lines (free some memory)");
    free(lines);
    return code;
}

static int solve(cli_job *job)
{
    evaluation *e = job->own;
    job->exact = e->found->meta->exact;
    job->points = e->found->meta->points;
    CLI_TRY(job->args->points != NULL ? estimate(e) : measure(e));
    return job->args->html != NULL ? write_page(e) : CLI_DONE;
}

static int read_result(cli_job *job)
{
    evaluation *e = job->own;
    return cli_session_result(&job->session, job->args->paths[0], &e->found);
}

static void tell(cli_job *job)
{
    cli_report r = cli_report_begin(job->args);
    describe(&r, job->own);
    cli_tell_output(&r, job->args->html, "");
    cli_report_end(&r);
}

int cli_eval(const cli_args *args)
{
    static const cli_work work = {.read = read_result, .solve = solve, .tell = tell};
    evaluation e = {.job = {.args = args, .own = &e}};
    return cli_work_run(&e.job, &work);
}
