/* SPDX-License-Identifier: Apache-2.0
 * Labels: a file of one column, as doubles. */
#ifndef CLI_LABELS_H
#define CLI_LABELS_H

#include "cli_session.h"

typedef struct cli_labels {
    const char *path;
    int64_t count;
    double *values; /* owned; NULL: not read */
} cli_labels;

/* Any format of points will do, if it has one column, one label for each row of `of`. Exit code. */
int cli_labels_read(cli_session *session, const char *path, const cli_points *of,
                    cli_labels *labels);
void cli_labels_free(cli_labels *labels);

#endif
