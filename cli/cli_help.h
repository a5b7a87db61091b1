/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli_options.h"

#include <stdio.h>

/* What `kith --help` prints. */
void cli_help_print(FILE *out);
/* What `kith COMMAND --help` prints: usage, options of the table, examples. */
void cli_help_print_command(FILE *out, cli_command_id id);
/* What `kith COMMAND --tune help` prints. */
void cli_help_print_tunes(FILE *out, cli_command_id id);

#endif
