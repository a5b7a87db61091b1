/* SPDX-License-Identifier: Apache-2.0
 * What the value of an option means. */
#ifndef CLI_READ_H
#define CLI_READ_H

#include "cli_options.h"

/* From the word behind an option to its field; false with error->text set. An option that has no
 * value means no more than that it was given. */
bool cli_read_value(cli_option_id id, const char *value, cli_args *args, cli_error *error);

/* Sets error->text; false, for a caller to return. */
bool cli_refuse(cli_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "auto" "random" "screen" "graph" */
const char *cli_start_name(kith_start start);

#endif
