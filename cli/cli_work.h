/* SPDX-License-Identifier: Apache-2.0
 * One driver for commands: open, read, plan, solve, write, report. A command is a row of steps. */
#ifndef CLI_WORK_H
#define CLI_WORK_H

#include "cli_job.h"

/* A command's steps, in the order in which they are done; NULL: there is no such step. */
typedef struct cli_work {
    const char *endings;             /* of -o; NULL: those that hold what follows, */
    unsigned holds;                  /*   KITH_FILE_...; 0: any */
    int (*check)(cli_job *job);      /* of outputs, in the place of the driver's */
    int (*read)(cli_job *job);       /* what was named */
    int (*plan)(cli_job *job);       /* and refuse what does not fit --memory */
    void (*tell_plan)(cli_job *job); /* of --dry-run, which ends there */
    int (*solve)(cli_job *job);
    int (*save)(cli_job *job);
    void (*tell)(cli_job *job);
} cli_work;

/* A command from beginning to end; the job is closed behind it. */
int cli_work_run(cli_job *job, const cli_work *work);

#endif
