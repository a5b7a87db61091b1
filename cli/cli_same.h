/* SPDX-License-Identifier: Apache-2.0
 * What a job's answer depends on beside its k, metric and format: the files that it reads, and the
 * radius. */
#ifndef CLI_SAME_H
#define CLI_SAME_H

#include "cli_options.h"

enum { CLI_SAME_BYTES = 1024 };

/* Lines of text, equal for equal jobs: of each file its size, when it was changed, and a checksum
 * of its beginning and end; kith's version. Exit code. */
int cli_same_describe(const cli_args *args, char text[CLI_SAME_BYTES]);

#endif
