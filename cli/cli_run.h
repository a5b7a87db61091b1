/* SPDX-License-Identifier: Apache-2.0
 * kith graph and kith search from beginning to end. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "cli_job.h"

/* Does the whole command; its exit code. */
int cli_run(const cli_args *args, const cli_engine *engine);

#endif
