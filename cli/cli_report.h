/* SPDX-License-Identifier: Apache-2.0
 * What graph and search say on stdout when they are done: lines for people, or one JSON object. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "cli_job.h"

void cli_report_print(const cli_job *job, const cli_engine *engine);
/* For --dry-run: what the job would need. */
void cli_report_print_plan(const cli_job *job);

/* "12.5 MiB" into text, which it returns. */
enum { CLI_SIZE_BYTES = 32 };
const char *cli_report_size(uint64_t bytes, char text[CLI_SIZE_BYTES]);

/* The members that every command's object ends with, and the end of it. */
void cli_report_end_json(cli_json *json);

#endif
