/* SPDX-License-Identifier: Apache-2.0
 * Points to points, results to results. What IN is, its header says; .ivecs and .ibin may be
 * either, and are what OUT asks for. */
#include "cli.h"
#include "cli_output.h"
#include "cli_report.h"
#include "cli_session.h"

#include <inttypes.h>
#include <sys/stat.h>

/* known: of neighbours; NULL: points. */
static void tell(const cli_args *args, int64_t rows, int64_t cols, const kith_result_meta *known)
{
    const char *path = args->paths[1];
    cli_report r = cli_report_begin(args);
    cli_tell(&r, known == NULL ? "{kind}: {n} x {d}\n" : "{kind}: {n} x {k}\n",
             TEXT("kind", known != NULL ? "result" : "points"), INT("n", rows),
             INT(known == NULL ? "d" : "k", cols));
    if (known != NULL) {
        cli_tell_claim(&r, known->exact, &known->points);
    }
    cli_tell_output(&r, path, known != NULL ? cli_claim_lost(path, args->format) : "");
    cli_report_end(&r);
}

static int convert_points(const cli_args *args, cli_session *session)
{
    const char *path = args->paths[1];
    CLI_FAIL_IF(args->distances != NULL || cli_given(args, CLI_OPT_FORMAT), args->paths[0],
                "holds points: --format and --distances are for graphs "
                "and results (leave them out)");
    CLI_TRY(cli_output_check(path, cli_output_endings(KITH_FILE_POINTS_OUT)));
    cli_points points = {.path = NULL};
    CLI_TRY(cli_session_read(session, args->paths[0], &points));
    CLI_TRY(cli_points_save(session, path, points.matrix));
    tell(args, points.matrix->rows, points.matrix->cols, NULL);
    return CLI_DONE;
}

static int convert_result(const cli_args *args, cli_session *session)
{
    const char *path = args->paths[1];
    const bool named = cli_given(args, CLI_OPT_FORMAT);
    CLI_TRY(cli_output_check(path, named ? NULL : cli_output_endings(KITH_FILE_LISTS_OUT)));
    CLI_TRY(cli_output_check(args->distances, CLI_ENDINGS_DISTANCES));
    CLI_TRY(cli_output_check_other(args->distances, path));
    const kith_neighbors *lists = NULL;
    CLI_TRY(cli_session_result(session, args->paths[0], &lists));
    CLI_TRY(cli_distances_save(session, args->distances, lists, args->paths[0]));
    CLI_TRY(cli_session_saved(
        session, kith_result_save(session->ctx, path, args->format, lists, lists->meta), path));
    tell(args, lists->rows, lists->k, lists->meta);
    return CLI_DONE;
}

/* Whole numbers in a file like this may be points or ids, and it does not say which. */
static bool is_either(const char *path)
{
    const unsigned both = KITH_FILE_POINTS_IN | KITH_FILE_LISTS_IN;
    return (cli_output_holds(path) & (both | KITH_FILE_CLAIMS)) == both;
}

/* Whether IN is to be read as a graph or result. */
static bool wants_result(const cli_args *args, const kith_file_info *info)
{
    if (info->kind == KITH_KIND_GRAPH || info->kind == KITH_KIND_RESULT ||
        info->kind == KITH_KIND_RANGES) {
        return true;
    }
    return is_either(args->paths[0]) &&
           (cli_given(args, CLI_OPT_FORMAT) ||
            ((cli_output_holds(args->paths[1]) & KITH_FILE_LISTS_IN) != 0 &&
             !is_either(args->paths[1])));
}

/* What comes out of a pipe is there once: it is points, and not looked at before it is read. */
static bool is_pipe(const char *path)
{
    struct stat found;
    return strcmp(path, "-") == 0 || (stat(path, &found) == 0 && S_ISFIFO(found.st_mode));
}

static int convert(const cli_args *args, cli_session *session)
{
    const char *path = args->paths[0];
    kith_file_info info = {.kind = KITH_KIND_NONE};
    CLI_TRY(cli_session_open(session, args));
    if (!is_pipe(path)) {
        CLI_TRY(cli_session_inspect(session, path, &session->read, &info));
    }
    CLI_TRY(cli_output_check_input(args->paths[1], path));
    CLI_TRY(cli_output_check_input(args->distances, path));
    return wants_result(args, &info) ? convert_result(args, session)
                                     : convert_points(args, session);
}

int cli_convert(const cli_args *args)
{
    cli_session session = {.ctx = NULL};
    const int code = convert(args, &session);
    cli_session_close(&session);
    return code;
}
