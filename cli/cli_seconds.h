/* SPDX-License-Identifier: Apache-2.0
 * The seconds of a command, step by step, as every report has them. */
#ifndef CLI_SECONDS_H
#define CLI_SECONDS_H

#include "cli_json.h"

typedef struct cli_step {
    const char *name; /* NULL: the end of a list */
    double seconds;
} cli_step;

/* start: when the command began. "seconds: 0.120", or with steps "seconds: read 0.001, ..." */
void cli_seconds_print(const cli_step *steps, double start, bool verbose);
/* The member "seconds". */
void cli_seconds_put(const cli_step *steps, double start, cli_json *json);

/* The kernel's own figure for the process, and what was held of a GPU's memory. */
void cli_peak_print(uint64_t gpu_bytes);
void cli_peak_put(uint64_t gpu_bytes, cli_json *json);

#endif
