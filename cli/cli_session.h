/* SPDX-License-Identifier: Apache-2.0
 * One run of kith: a context made from the options, its progress, the files that it reads, and how
 * its errors are told. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli_options.h"
#include "cli_progress.h"

typedef struct cli_session {
    kith_ctx *ctx;
    struct cli_owned *owned; /* files that were opened, which the session closes */
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

/* Whether --device NAME can be had, or what KITH_DEVICE names where it is not given (NULL). */
int cli_device_check(const char *given);

/* ---- Calls of the library ------------------------------------------------------------------- */

/* A file, by the name that a function of the library has for it. */
typedef struct cli_called {
    const char *argument; /* NULL: there is none */
    const char *path;
    int64_t origin; /* the argument's row that is the file's first; below 0: it has those from
                       -origin on */
} cli_called;

/* For the status of a library call. where: the file that it was about; NULL: the sentence says. */
int cli_session_check(cli_session *session, kith_status status, const char *where);
/* The same where it was about several: what it says of an argument is said of the last file of
 * this name that has the row, all else of `where`; a file that the sentence names stands alone. */
#define cli_session_check_files(session, status, where, ...)                          \
    cli_session_blame((session), (status), (where),                                   \
                      sizeof((const cli_called[]){__VA_ARGS__}) / sizeof(cli_called), \
                      (const cli_called[]){__VA_ARGS__})
int cli_session_blame(cli_session *session, kith_status status, const char *where, size_t count,
                      const cli_called *files);
/* The same for an answer that was to be written to path. */
int cli_session_saved(cli_session *session, kith_status status, const char *path);

/* ---- Files ---------------------------------------------------------------------------------- */

int cli_session_read(cli_session *session, const char *path, cli_points *points);
/* Before the session does it. */
void cli_points_close(cli_session *session, cli_points *points);
/* That both have the same columns; type: and the same type. */
int cli_points_check_like(const char *path, const kith_matrix *points, const char *other_path,
                          const kith_matrix *other, bool type);
/* Lists of a graph or result. */
int cli_session_result(cli_session *session, const char *path, const kith_neighbors **lists);
/* What its header says. */
int cli_session_inspect(cli_session *session, const char *path, const kith_points_params *params,
                        kith_file_info *info);

/* Numbers from a file in any format of points. */
typedef struct cli_numbers {
    cli_points points; /* the file */
    int64_t count;
    const double *values; /* NULL: not read */
} cli_numbers;
/* A column, a number for each row of `of`. */
int cli_column_read(cli_session *session, const char *path, const cli_points *of,
                    cli_numbers *column);
/* The first that is no whole number from 0 to `most`; count: there is none. */
int64_t cli_numbers_check(const cli_numbers *numbers, double most);

/* Numbers of rows: a file of whole numbers, in any shape and any format of points, all rows of
 * `of`, which has that many. */
typedef struct cli_ids {
    int64_t count;
    uint32_t *values; /* NULL: not read */
} cli_ids;
int cli_ids_read(cli_session *session, const char *path, const char *of, int64_t rows,
                 cli_ids *ids);

/* ---- Points that are written ---------------------------------------------------------------- */

/* Nothing for a NULL path. */
int cli_points_save(cli_session *session, const char *path, const kith_matrix *points);
/* The distances of lists, for --distances; from: the file they were read from, if they were. */
int cli_distances_save(cli_session *session, const char *path, const kith_neighbors *lists,
                       const char *from);

/* ---- Which points --------------------------------------------------------------------------- */

/* The fingerprint of points. */
int cli_claim_make(cli_session *session, const cli_points *points, kith_fingerprint *out);
/* Whether a graph, or a result, is of these points, as far as its file says: they are read only
 * where it does. */
int cli_claim_check(cli_session *session, const char *path, const kith_result_meta *meta,
                    const cli_points *points);

#endif
