/* SPDX-License-Identifier: Apache-2.0
 * One run of kith: a context made from the options, its progress, and how its errors are told. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli_options.h"
#include "cli_progress.h"

typedef struct cli_session {
    kith_ctx *ctx;
    cli_progress progress;
    double start;
    kith_points_params read; /* how points are read */
    bool silent;             /* the caller says himself what an interrupted job leaves */
} cli_session;

/* Points of a file, mapped where its format allows. */
typedef struct cli_points {
    const char *path;
    kith_points *handle;
    const kith_matrix *matrix; /* NULL: not opened */
} cli_points;

/* These return an exit code, and have printed why when it is not CLI_DONE. */
int cli_session_open(cli_session *session, const cli_args *args);
void cli_session_close(cli_session *session);

/* For the status of a library call. where: the file that it was about; NULL: the sentence says. */
int cli_session_check(cli_session *session, kith_status status, const char *where);
/* Where the last call failed. */
kith_where cli_session_where(const cli_session *session);
/* Whether it blames this argument of the library's function. */
bool cli_session_blames(const cli_session *session, const char *argument);
/* Whether it blames a file whose path begins with so many bytes of `path`: that file, one in that
 * folder, or a part of it. */
bool cli_session_names(const cli_session *session, const char *path, size_t bytes);

/* The same for an answer that was to be written to path. */
int cli_session_saved(cli_session *session, kith_status status, const char *path);

int cli_session_read(cli_session *session, const char *path, cli_points *points);
/* Labels or ids: all columns, and a .npy of one axis is one. rows: as many as there are to be, 0
 * where nobody knows. */
int cli_session_read_column(cli_session *session, const char *path, int64_t rows,
                            cli_points *points);
void cli_points_close(cli_points *points);

#endif
