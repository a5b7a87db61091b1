/* SPDX-License-Identifier: Apache-2.0
 * Graphs by NN-Descent: whether one is made, how, and what is said of it. */
#ifndef CLI_DESCENT_H
#define CLI_DESCENT_H

#include "cli_job.h"

/* As engines of graphs have them. The plan decides: --method descent, or auto with --recall below 1
 * where it will be faster; job.descends says what became of it. */
int cli_descent_plan(cli_job *job);
/* The library's parameters from the options. */
kith_descent_params cli_descent_params(const cli_job *job);
int cli_descent_solve(cli_job *job);
/* Of a job that is exact: says so on stderr where it will take long, and what would be sooner. */
int cli_descent_hint(cli_job *job);

/* Lines before and after those of every job, and members of the object. */
void cli_descent_print_choice(const cli_job *job);
void cli_descent_print_rounds(const cli_job *job);
/* That a recall that was asked for was not reached, where it was not. */
void cli_descent_print_missed(const cli_job *job);
void cli_descent_print_recall(const cli_job *job);
/* An estimate of rows that are "points" or "queries". */
void cli_descent_print_estimate(const kith_recall *recall, const char *what);
void cli_descent_put_estimate(const kith_recall *recall, cli_json *json);
void cli_descent_put_choice(const cli_job *job, cli_json *json);
void cli_descent_put(const cli_job *job, cli_json *json);

#endif
