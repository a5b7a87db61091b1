/* SPDX-License-Identifier: Apache-2.0
 * Search on a graph: kith search GRAPH POINTS QUERIES. */
#ifndef CLI_WALK_H
#define CLI_WALK_H

#include "cli_job.h"

/* The graph, whose metric becomes the job's, and its points. */
int cli_walk_read(cli_job *job);
/* As engines have it. */
int cli_walk_solve(cli_job *job);

void cli_walk_print(const cli_job *job);
void cli_walk_print_recall(const cli_job *job);
void cli_walk_put(const cli_job *job, cli_json *json);

#endif
