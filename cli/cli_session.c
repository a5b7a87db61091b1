/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_session.h"

#include "cli.h"
#include "cli_clock.h"
#include "cli_message.h"
#include "cli_output.h"
#include "cli_signal.h"
#include "cli_source.h"

#include <limits.h>
#include <string.h>

/* Errors come back as a status, and information belongs to the report: warnings alone are left. */
static void log_line(void *arg, int level, const char *line)
{
    enum { WARNING = 1 };
    if (level == WARNING) {
        cli_progress_clear(arg);
        cli_warn("%s", line);
    }
}

/* What no file system takes would not leave room for what is wrong with it. */
static int check_names(const cli_args *args)
{
    const char *const more[] = {args->init, args->points, args->truth, args->shards};
    const int count = args->path_count + (int)(sizeof more / sizeof *more);
    for (int i = 0; i < count; i++) {
        const char *name = i < args->path_count ? args->paths[i] : more[i - args->path_count];
        if (name != NULL && strlen(name) >= PATH_MAX) {
            return cli_fail(name, "the name is too long (give a shorter one)");
        }
    }
    return CLI_DONE;
}

int cli_session_open(cli_session *session, const cli_args *args)
{
    if (check_names(args) != CLI_DONE) {
        return CLI_FAILED;
    }
    session->start = cli_clock_now();
    session->read = kith_points_params_default();
    session->read.header = args->header;
    session->read.delimiter = args->delimiter;
    session->read.columns = args->columns;
    cli_source_reset();
    cli_signal_install();
    cli_progress_start(&session->progress, cli_given(args, CLI_OPT_QUIET));
    kith_ctx_params params = kith_ctx_params_default();
    params.threads = args->threads;
    params.memory_limit = args->memory_bytes;
    params.device = args->device;
    params.gpu_memory_limit = args->gpu_memory_bytes;
    params.progress = cli_progress_tick;
    params.progress_arg = &session->progress;
    params.log = log_line;
    params.log_arg = &session->progress;
    const kith_status status = kith_ctx_create(&params, &session->ctx);
    return status == KITH_OK ? CLI_DONE : cli_fail(NULL, "%s", kith_status_text(status));
}

void cli_session_close(cli_session *session)
{
    cli_progress_clear(&session->progress);
    kith_ctx_free(session->ctx);
    session->ctx = NULL;
}

kith_where cli_session_where(const cli_session *session)
{
    kith_where where = {.struct_size = (uint32_t)sizeof where};
    (void)kith_ctx_where(session->ctx, &where);
    return where;
}

bool cli_session_blames(const cli_session *session, const char *argument)
{
    return strcmp(cli_session_where(session).argument, argument) == 0;
}

bool cli_session_names(const cli_session *session, const char *path, size_t bytes)
{
    const char *file = cli_session_where(session).file;
    return strncmp(file, path, bytes) == 0 && strchr("/.-", file[bytes]) != NULL;
}

int cli_session_check(cli_session *session, kith_status status, const char *where)
{
    cli_progress_clear(&session->progress);
    if (status == KITH_OK) {
        return CLI_DONE;
    }
    if (status == KITH_E_CANCELLED || cli_signal_came()) {
        if (!session->silent) {
            (void)cli_fail(NULL, "interrupted (no unfinished file is left)");
        }
        return CLI_INTERRUPTED;
    }
    const char *detail = kith_ctx_detail(session->ctx);
    if (detail[0] == '\0') {
        detail = kith_status_text(status);
    }
    /* The rooms that read and write files name the file themselves, and so are variables named. */
    const bool named = where == NULL || cli_session_names(session, where, strlen(where)) ||
                       strncmp(cli_session_where(session).argument, "KITH_", strlen("KITH_")) == 0;
    return cli_fail(named ? NULL : where, "%s", detail);
}

int cli_session_saved(cli_session *session, kith_status status, const char *path)
{
    const int code = cli_session_check(session, status, path);
    if (code == CLI_DONE) {
        cli_output_step_aside(path);
    }
    return code;
}

static int read_points(cli_session *session, const char *path, const kith_points_params *params,
                       cli_points *points)
{
    points->path = path;
    const int code = cli_session_check(
        session, kith_points_open(session->ctx, path, params, &points->handle), path);
    points->matrix = code == CLI_DONE ? kith_points_matrix(points->handle) : NULL;
    if (code == CLI_DONE) {
        cli_source_keep(path, points->handle);
    }
    return code;
}

int cli_session_read(cli_session *session, const char *path, cli_points *points)
{
    return read_points(session, path, &session->read, points);
}

int cli_session_read_column(cli_session *session, const char *path, int64_t rows,
                            cli_points *points)
{
    kith_points_params params = session->read;
    params.use = KITH_USE_COLUMN;
    params.columns = NULL;
    params.rows = rows;
    return read_points(session, path, &params, points);
}

void cli_points_close(cli_points *points)
{
    kith_points_free(points->handle);
    points->handle = NULL;
    points->matrix = NULL;
}
