/* SPDX-License-Identifier: Apache-2.0
 * How files were understood that may be understood in several ways: what is a header, what stands
 * between values, what was converted. Reports and JSON say it of each. */
#ifndef CLI_SOURCE_H
#define CLI_SOURCE_H

#include "cli_json.h"
#include "cli_options.h"

/* Forgets what was kept before. */
void cli_source_reset(void);
/* Keeps what the library says of points that were opened from path, if it is worth saying. */
void cli_source_keep(const char *path, const kith_points *points);
/* A line for each file that was kept. */
void cli_source_print(void);
/* The same as the array "read"; nothing where there is none. */
void cli_source_put(cli_json *json);

#endif
