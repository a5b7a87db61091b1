/* SPDX-License-Identifier: Apache-2.0
 * Approximate answers: graphs by NN-Descent, whether one is made and how; searches by walks on a
 * graph, kith search GRAPH POINTS QUERIES; and what is said of them. */
#ifndef CLI_DESCENT_H
#define CLI_DESCENT_H

#include "cli_job.h"

/* As engines of graphs have them. The library decides, by its plan, whether it is a descent:
 * job.descends. */
int cli_graph_plan(cli_job *job);
int cli_graph_solve(cli_job *job);
bool cli_plan_descends(const kith_plan *plan);
/* Names the way that the plan chose: no second estimate decides. */
void cli_graph_name_way(bool descends, kith_search_params *params);

/* The graph, whose metric becomes the job's, and its points. */
int cli_walk_read(cli_job *job);
/* As engines have it. */
int cli_walk_solve(cli_job *job);

/* ---- Reports -------------------------------------------------------------------------------- */

void cli_descent_tell_choice(cli_report *r, const cli_job *job);
/* Rounds, for people with --verbose. */
void cli_descent_tell(cli_report *r, const cli_job *job);
/* That a recall that was asked for was not reached, where it was not. */
void cli_descent_say_missed(const cli_report *r, const cli_job *job);
void cli_descent_say_recall(cli_report *r, const cli_job *job);
void cli_walk_tell(cli_report *r, const cli_job *job);
void cli_walk_say_recall(cli_report *r, const cli_job *job);

#endif
