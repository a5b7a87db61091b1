/* SPDX-License-Identifier: Apache-2.0
 * A runbook: rows of a corpus that come and go, and when it is searched. */
#ifndef CLI_RUNBOOK_H
#define CLI_RUNBOOK_H

#include <stdint.h>

typedef enum cli_operation {
    CLI_STEP_NONE = 0,
    CLI_STEP_INSERT,
    CLI_STEP_DELETE,
    CLI_STEP_SEARCH
} cli_operation;

/* Rows start to end - 1 come or go; a search has none. Steps count from 1. */
typedef struct cli_step_of {
    cli_operation operation;
    int64_t start;
    int64_t end;
    int64_t line; /* of the file, from 1 */
} cli_step_of;

typedef struct cli_runbook {
    char *path; /* the file, without what is chosen of it */
    cli_step_of *steps;
    int64_t count;
    int64_t searches;
} cli_runbook;

/* JSON lines, or the YAML of big-ann-benchmarks, of which path may choose a dataset: FILE:NAME. */
int cli_runbook_read(const char *path, cli_runbook *book);
/* Rows are below `rows`, and only those go that are there. */
int cli_runbook_check(const cli_runbook *book, int64_t rows);
/* Applies a step that is no search to a bitmap of rows. */
void cli_runbook_apply(const cli_step_of *step, uint8_t *bits);

#endif
