/* SPDX-License-Identifier: Apache-2.0
 * A search whose result is not held: queries are solved in chunks, and each is written while the
 * next is solved. An interrupted one goes on where it was. */
#ifndef CLI_STREAM_H
#define CLI_STREAM_H

#include "cli_job.h"

/* Whether a planned job is done in chunks: by its options, or because it does not fit --memory. */
bool cli_stream_wanted(const cli_job *job);
/* Plan, solve, write. Exit code. The job has the facts for its report afterwards, that of a plan
 * where --dry-run was given. */
int cli_stream_run(cli_job *job);

#endif
