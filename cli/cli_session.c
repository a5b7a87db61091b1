/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_session.h"

#include "cli.h"
#include "cli_clock.h"
#include "cli_message.h"
#include "cli_signal.h"

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

int cli_session_open(cli_session *session, const cli_args *args)
{
    session->start = cli_clock_now();
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
    /* The rooms that read and write files name the file themselves. */
    const bool named = strncmp(detail, where, strlen(where)) == 0;
    return cli_fail(named ? NULL : where, "%s", detail);
}

int cli_session_read(cli_session *session, const char *path, cli_points *points)
{
    points->path = path;
    const int code =
        cli_session_check(session, kith_points_open(session->ctx, path, &points->handle), path);
    points->matrix = code == CLI_DONE ? kith_points_matrix(points->handle) : NULL;
    return code;
}

void cli_points_close(cli_points *points)
{
    kith_points_free(points->handle);
    points->handle = NULL;
    points->matrix = NULL;
}
