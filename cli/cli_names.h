/* SPDX-License-Identifier: Apache-2.0
 * The words that options have for numbers of the library. */
#ifndef CLI_NAMES_H
#define CLI_NAMES_H

const char *cli_name_metric(int metric);
const char *cli_name_method(int method);
const char *cli_name_pipeline(int pipeline);
const char *cli_name_select(int method);
const char *cli_name_buffer(int buffer);
const char *cli_name_mode(int mode);
const char *cli_name_symmetry(int symmetry);
const char *cli_name_start(int start);
const char *cli_name_header(int header);
/* 0, 1 and 2 are -1 (nearest), 0 (auto) and 1 (all) of the library. */
const char *cli_name_updates(int updates);

#endif
