/* SPDX-License-Identifier: Apache-2.0
 * Recall: of a result against the true one, or of a graph by solving some rows exactly. */
#include "cli.h"
#include "cli_grow.h"
#include "cli_output.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct evaluation {
    const cli_args *args;
    cli_session session;
    kith_result *found;
    kith_result *truth;
    cli_points points;
    uint32_t *others; /* of lists that name their own rows, the others; else NULL */
    kith_metric metric;
    kith_recall recall;
    kith_exactness exact; /* what the file says, or --verify found */
    kith_fingerprint of;
    cli_verified verified;
} evaluation;

/* The option's, else what a file says, else the default. */
static kith_metric choose_metric(const evaluation *e)
{
    if (e->args->metric != KITH_METRIC_DEFAULT) {
        return e->args->metric;
    }
    if (e->truth != NULL && kith_result_neighbors(e->truth)->meta->metric != KITH_METRIC_DEFAULT) {
        return kith_result_neighbors(e->truth)->meta->metric;
    }
    const kith_metric metric = kith_result_neighbors(e->found)->meta->metric;
    return metric != KITH_METRIC_DEFAULT ? metric : KITH_EUCLIDEAN;
}

static int check_distances(const char *path, const kith_result *result)
{
    CLI_PASS_IF(kith_result_neighbors(result)->distances != NULL, path,
                "holds ids without distances (give a .npz, .knn or .kith file; a "
                "graph of ids can be checked with --points FILE)");
}

/* Distances of two metrics say nothing about each other. */
static int check_metrics(const evaluation *e)
{
    const kith_metric found = kith_result_neighbors(e->found)->meta->metric;
    const kith_metric truth = kith_result_neighbors(e->truth)->meta->metric;
    CLI_PASS_IF(found == truth || found == KITH_METRIC_DEFAULT || truth == KITH_METRIC_DEFAULT,
                e->args->paths[0], "was made with %s, %s with %s (compare results of one metric)",
                kith_metric_name(found), e->args->paths[1], kith_metric_name(truth));
}

/* Nor do distances to the rows of two corpora. */
static int check_corpora(const evaluation *e)
{
    char texts[2][CLI_CLAIM_BYTES];
    const kith_fingerprint *found = &kith_result_neighbors(e->found)->meta->points;
    const kith_fingerprint *truth = &kith_result_neighbors(e->truth)->meta->points;
    CLI_PASS_IF(
        found->rows == 0 || truth->rows == 0 || cli_claim_equal(found, truth), e->args->paths[0],
        "was made of points %s, %s of %s (compare results of one corpus)",
        cli_claim_name(found, texts[0]), e->args->paths[1], cli_claim_name(truth, texts[1]));
}

/* --metric against what a file says. */
static int check_asked(const evaluation *e, const char *path, const kith_result *result)
{
    const kith_metric own =
        result != NULL ? kith_result_neighbors(result)->meta->metric : KITH_METRIC_DEFAULT;
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
    const char *const *paths = e->args->paths;
    CLI_TRY(check_truth(paths[1]));
    CLI_TRY(cli_session_result(&e->session, paths[1], &e->truth));
    CLI_TRY(check_distances(paths[0], e->found));
    CLI_TRY(check_distances(paths[1], e->truth));
    CLI_TRY(check_metrics(e));
    CLI_TRY(check_corpora(e));
    e->metric = choose_metric(e);
    CLI_TRY(check_asked(e, paths[0], e->found));
    CLI_TRY(check_asked(e, paths[1], e->truth));
    return cli_session_check(&e->session,
                             kith_recall_measure(e->session.ctx, kith_result_neighbors(e->found),
                                                 kith_result_neighbors(e->truth), e->metric,
                                                 e->args->k, &e->recall),
                             e->args->paths[0]);
}

static int verify(evaluation *e)
{
    CLI_TRY(cli_verify(&e->session, e->args->paths[0], kith_result_neighbors(e->found), &e->points,
                       e->metric, e->others != NULL, &e->verified));
    e->exact = e->verified.wrong == 0 ? KITH_CERTIFIED : KITH_APPROXIMATE;
    return cli_claim_make(&e->session, &e->points, &e->of);
}

static bool names_itself(const kith_neighbors *lists)
{
    for (int64_t i = 0; i < lists->rows * lists->k; i++) {
        if (lists->ids[i] == (uint32_t)(i / lists->k)) {
            return true;
        }
    }
    return false;
}

/* Where points compete for their own lists, recall is that of the others: a list has one less. */
static int leave_self_out(evaluation *e, kith_neighbors *lists)
{
    const int64_t k = lists->k;
    if (!names_itself(lists)) {
        return CLI_DONE;
    }
    CLI_FAIL_IF(k == 1, e->args->paths[0],
                "names rows as their own nearest, and no others (give longer lists)");
    e->others = cli_keep((uint64_t)(lists->rows * (k - 1)), sizeof *e->others);
    CLI_FAIL_IF(e->others == NULL, e->args->paths[0], "no memory for its lists (free some memory)");
    for (int64_t row = 0; row < lists->rows; row++) {
        const uint32_t *from = lists->ids + row * k;
        uint32_t *to = e->others + row * (k - 1);
        for (int64_t i = 0, kept = 0; i < k && kept < k - 1; i++) {
            to[kept] = from[i];
            kept += from[i] != (uint32_t)row;
        }
    }
    *lists = (kith_neighbors){.ids = e->others, .rows = lists->rows, .k = k - 1};
    return CLI_DONE;
}

static int estimate(evaluation *e)
{
    const kith_result_meta *meta = kith_result_neighbors(e->found)->meta;
    kith_neighbors graph = *kith_result_neighbors(e->found);
    CLI_TRY(cli_session_read(&e->session, e->args->points, &e->points));
    e->metric = choose_metric(e);
    CLI_TRY(check_asked(e, e->args->paths[0], e->found));
    CLI_TRY(cli_claim_check(&e->session, e->args->paths[0], meta, &e->points));
    graph.meta = NULL; /* was looked at */
    CLI_TRY(leave_self_out(e, &graph));
    const int64_t rows = e->points.matrix->rows;
    const int64_t sample = e->args->sample < rows ? e->args->sample : rows;
    kith_recall_params params = kith_recall_params_default();
    params.metric = e->metric;
    params.at = e->args->k;
    params.sample = sample;
    params.seed = e->args->seed;
    const kith_status status =
        kith_recall_estimate(e->session.ctx, e->points.matrix, &graph, &params, &e->recall);
    const bool points = cli_session_blames(&e->session, "points");
    CLI_TRY(cli_session_check(&e->session, status, points ? e->args->points : e->args->paths[0]));
    return cli_given(e->args, CLI_OPT_VERIFY) ? verify(e) : CLI_DONE;
}

/* What recall does not count, or counts as missed. */
static void tell_places(cli_report *r, const evaluation *e)
{
    const kith_neighbors *found = kith_result_neighbors(e->found);
    const int64_t places = found->rows * found->k;
    char texts[2][CLI_GROUPED_BYTES];
    int64_t empty = 0;
    for (int64_t i = 0; i < places; i++) {
        empty += found->ids[i] == KITH_ID_NONE;
    }
    if (e->others != NULL) {
        cli_say(r, "own rows: left out, recall is that of the others\n");
    }
    if (empty > 0) {
        cli_say(r, "empty places: %s of %s, which count as missed (a radius leaves them)\n",
                cli_grouped(empty, texts[0]), cli_grouped(places, texts[1]));
    }
    cli_put(r, BOOL("include_self", e->others != NULL), INT("empty", empty));
}

static void describe(cli_report *r, const evaluation *e)
{
    const kith_recall *recall = &e->recall;
    const kith_neighbors *found = kith_result_neighbors(e->found);
    cli_tell_text(r, "metric", kith_metric_name(e->metric));
    cli_put(r, INT("n", found->rows), INT("k", found->k));
    cli_tell_claim(r, e->exact, &e->of);
    cli_tell_verified(r, "verified", &e->verified);
    tell_places(r, e);
    cli_say(r, "rows compared: %" PRId64 " of %" PRId64 "\n", recall->rows, found->rows);
    cli_say(r, "recall@%" PRId64 ": %.6f (95 %% interval %.6f to %.6f)\n", recall->at,
            recall->recall, recall->low, recall->high);
    cli_put_estimate(r, recall);
    cli_say(r, "equal ids: %.6f\ndistance ratio: %.6f\n", recall->equal_ids,
            recall->distance_ratio);
    cli_put(r, NUMBER("equal_ids", recall->equal_ids),
            NUMBER("distance_ratio", recall->distance_ratio));
}

/* --html: the same lines, below the names of the files. */
static int write_page(const evaluation *e)
{
    const char *const *paths = e->args->paths;
    char *lines = NULL;
    size_t bytes = 0;
    FILE *to = e->args->html != NULL ? open_memstream(&lines, &bytes) : NULL;
    if (to != NULL) {
        cli_report r = cli_report_lines(to);
        cli_say(&r, "result: %s\n", cli_message_safe(paths[0]));
        cli_say(&r, "%s: %s\n", e->args->points != NULL ? "points" : "truth",
                cli_message_safe(e->args->points != NULL ? e->args->points : paths[1]));
        describe(&r, e);
        cli_say(&r, "kith: %s\n", kith_version());
    }
    const bool whole = to != NULL && ferror(to) == 0;
    int code = CLI_DONE;
    if (to != NULL && fclose(to) == 0 && whole) {
        code = cli_output_page(e->args->html, "kith eval", lines);
    } else if (e->args->html != NULL) {
        code = cli_fail(e->args->html, "no memory for its lines (free some memory)");
    }
    free(lines);
    return code;
}

static int tell(const evaluation *e)
{
    CLI_TRY(write_page(e));
    cli_report r = cli_report_begin(e->args);
    describe(&r, e);
    cli_tell_output(&r, e->args->html, "");
    cli_report_end(&r);
    return CLI_DONE;
}

static int run(evaluation *e)
{
    const cli_args *args = e->args;
    CLI_TRY(cli_output_check_args(args, NULL));
    CLI_TRY(cli_session_open(&e->session, args));
    CLI_TRY(cli_session_result(&e->session, args->paths[0], &e->found));
    e->exact = kith_result_neighbors(e->found)->meta->exact;
    e->of = kith_result_neighbors(e->found)->meta->points;
    CLI_TRY(args->points != NULL ? estimate(e) : measure(e));
    return tell(e);
}

int cli_eval(const cli_args *args)
{
    evaluation e = {.args = args};
    const int code = run(&e);
    cli_points_close(&e.points);
    kith_result_free(e.truth);
    kith_result_free(e.found);
    cli_session_close(&e.session);
    return code;
}
