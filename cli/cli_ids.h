/* SPDX-License-Identifier: Apache-2.0
 * Numbers of rows: a file of whole numbers, in any shape. */
#ifndef CLI_IDS_H
#define CLI_IDS_H

#include "cli_session.h"

typedef struct cli_ids {
    int64_t count;
    uint32_t *values; /* owned; NULL: not read */
} cli_ids;

/* Any format of points will do, if its values are rows of `of`, which has that many. Exit code. */
int cli_ids_read(cli_session *session, const char *path, const char *of, int64_t rows,
                 cli_ids *ids);
void cli_ids_free(cli_ids *ids);

#endif
