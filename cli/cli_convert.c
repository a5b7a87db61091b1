/* SPDX-License-Identifier: Apache-2.0
 * Points to points, results to results. What IN is, its header says; .ivecs and .ibin may be
 * either, and are what OUT asks for. */
#include "cli.h"
#include "cli_claim.h"
#include "cli_json.h"
#include "cli_message.h"
#include "cli_output.h"
#include "cli_session.h"
#include "cli_source.h"

#include <inttypes.h>
#include <sys/stat.h>

/* known: of neighbours; NULL: points. */
static void report(const cli_args *args, int64_t rows, int64_t cols, const kith_result_meta *known)
{
    const char *what = known != NULL ? "result" : "points";
    if (cli_given(args, CLI_OPT_JSON)) {
        cli_json json;
        cli_json_begin(&json, "convert");
        cli_json_text(&json, "kind", what);
        cli_json_int(&json, "n", rows);
        cli_json_int(&json, known == NULL ? "d" : "k", cols);
        if (known != NULL) {
            cli_claim_put(known->exact, &known->points, &json);
        }
        cli_json_text(&json, "output", args->paths[1]);
        cli_source_put(&json);
        cli_json_end(&json);
    } else if (!cli_given(args, CLI_OPT_QUIET)) {
        cli_source_print();
        (void)printf("%s: %" PRId64 " x %" PRId64 "\n", what, rows, cols);
        if (known != NULL) {
            cli_claim_print(known->exact, &known->points);
        }
        (void)printf("output: %s%s\n", cli_message_safe(args->paths[1]),
                     known != NULL ? cli_claim_lost(args->paths[1], args->format) : "");
    }
}

static int convert_points(const cli_args *args, cli_session *session)
{
    const char *path = args->paths[1];
    if (args->distances != NULL || cli_given(args, CLI_OPT_FORMAT)) {
        return cli_fail(args->paths[0], "holds points: --format and --distances are for graphs "
                                        "and results (leave them out)");
    }
    int code = cli_output_check(path, CLI_ENDINGS_POINTS);
    if (code != CLI_DONE) {
        return code;
    }
    cli_points points = {.path = NULL};
    code = cli_session_read(session, args->paths[0], &points);
    if (code == CLI_DONE) {
        code =
            cli_session_saved(session, kith_points_save(session->ctx, path, points.matrix), path);
    }
    if (code == CLI_DONE) {
        report(args, points.matrix->rows, points.matrix->cols, NULL);
    }
    cli_points_close(&points);
    return code;
}

static int save_distances(const cli_args *args, cli_session *session,
                          const kith_neighbors *neighbors)
{
    const char *path = args->distances;
    if (path == NULL) {
        return CLI_DONE;
    }
    if (neighbors->distances == NULL) {
        return cli_fail(args->paths[0], "holds ids without distances (leave --distances out)");
    }
    const kith_matrix distances = {.data = neighbors->distances,
                                   .rows = neighbors->rows,
                                   .cols = (int32_t)neighbors->k,
                                   .dtype = KITH_F32};
    return cli_session_check(session, kith_points_save(session->ctx, path, &distances), path);
}

static int save_result(const cli_args *args, cli_session *session, const kith_result *result)
{
    const char *path = args->paths[1];
    const kith_neighbors *neighbors = kith_result_neighbors(result);
    int code = save_distances(args, session, neighbors);
    if (code == CLI_DONE) {
        code = cli_session_saved(session,
                                 kith_result_save(session->ctx, path, args->format, neighbors,
                                                  kith_result_get_meta(result)),
                                 path);
    }
    if (code == CLI_DONE) {
        report(args, neighbors->rows, neighbors->k, kith_result_get_meta(result));
    }
    return code;
}

static int convert_result(const cli_args *args, cli_session *session)
{
    int code = cli_output_check(args->paths[1],
                                cli_given(args, CLI_OPT_FORMAT) ? NULL : CLI_ENDINGS_RESULT);
    if (code == CLI_DONE) {
        code = cli_output_check(args->distances, CLI_ENDINGS_DISTANCES);
    }
    if (code == CLI_DONE) {
        code = cli_output_check_other(args->distances, args->paths[1]);
    }
    if (code != CLI_DONE) {
        return code;
    }
    kith_result *result = NULL;
    code = cli_session_check(session, kith_result_open(session->ctx, args->paths[0], &result),
                             args->paths[0]);
    if (code == CLI_DONE) {
        code = save_result(args, session, result);
    }
    kith_result_free(result);
    return code;
}

/* Whether IN is to be read as a graph or result. */
static bool wants_result(const cli_args *args, const kith_file_info *info)
{
    if (info->kind == KITH_KIND_GRAPH || info->kind == KITH_KIND_RESULT ||
        info->kind == KITH_KIND_RANGES) {
        return true;
    }
    const bool either = cli_output_ends(args->paths[0], ".ivecs .ibin");
    return either &&
           (cli_given(args, CLI_OPT_FORMAT) || cli_output_ends(args->paths[1], ".npz .knn .kith"));
}

static int check_outputs(const cli_args *args)
{
    const int code = cli_output_check_input(args->paths[1], args->paths[0]);
    return code == CLI_DONE ? cli_output_check_input(args->distances, args->paths[0]) : code;
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
    kith_file_info info = {.struct_size = (uint32_t)sizeof info};
    int code = CLI_DONE;
    if (!is_pipe(path)) {
        code = cli_session_check(
            session, kith_file_inspect(session->ctx, path, &session->read, &info), path);
    }
    if (code == CLI_DONE) {
        code = check_outputs(args);
    }
    if (code != CLI_DONE) {
        return code;
    }
    return wants_result(args, &info) ? convert_result(args, session)
                                     : convert_points(args, session);
}

int cli_convert(const cli_args *args)
{
    cli_session session = {.ctx = NULL};
    int code = cli_session_open(&session, args);
    if (code == CLI_DONE) {
        code = convert(args, &session);
    }
    cli_session_close(&session);
    return code;
}
