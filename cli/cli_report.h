/* SPDX-License-Identifier: Apache-2.0
 * What graph and search say on stdout when they are done: lines for people, or one JSON object. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "cli_job.h"

void cli_report_print(const cli_job *job, const cli_engine *engine);
/* For --dry-run: what the job would need. */
void cli_report_print_plan(const cli_job *job);

#endif
