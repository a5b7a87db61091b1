/* SPDX-License-Identifier: Apache-2.0
 * What kith info says of a graph beyond its header: by how many rows a row is named, and in how
 * many parts the graph falls. */
#ifndef CLI_QUALITY_H
#define CLI_QUALITY_H

#include "cli_json.h"
#include "cli_session.h"

typedef struct cli_quality {
    int64_t rows; /* 0: nothing is known */
    int64_t in_least;
    int64_t in_median; /* of an even number of rows the lower one of the middle */
    int64_t in_most;
    int64_t unnamed; /* rows that nobody names */
    int64_t parts;   /* weakly connected components */
} cli_quality;

/* Reads all ids of the graph. An exit code; what is not CLI_DONE has been told. */
int cli_quality_measure(cli_session *session, const char *path, cli_quality *quality);

void cli_quality_print(const cli_quality *quality);
void cli_quality_put(const cli_quality *quality, cli_json *json);

#endif
