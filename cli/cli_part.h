/* SPDX-License-Identifier: Apache-2.0
 * A search by many processes: each has the corpus and solves some rows of the queries, or all
 * queries in some rows of the corpus; the first one brings the answers together, writes and
 * reports. A job of one process passes through all of this as it is. */
#ifndef CLI_PART_H
#define CLI_PART_H

#include "cli_job.h"

/* After all files were read: job.queries and the groups of queries, or job.corpus, are this
 * process' rows now. */
void cli_part_take(cli_job *job);
/* Rows that its answer has room for: those of all, where it leads. */
int64_t cli_part_room(const cli_job *job);
/* The whole answer comes into the plan of who leads. */
void cli_part_plan(cli_job *job);
/* More processes than queries. */
static inline bool cli_part_is_empty(const cli_job *job)
{
    return job->part.all != NULL && job->part.rows.rows == 0;
}
/* The others neither write nor report. */
static inline bool cli_part_leads(const cli_job *job)
{
    return job->part.all == NULL || job->args->team->shards.worker == 0;
}

/* These are called by all processes alike, and return an exit code: who fails elsewhere stays away,
 * and fails the others. */

/* Before the work: all have come this far, with the same job. labels: of the corpus; or NULL. */
int cli_part_meet(cli_job *job, const cli_numbers *labels);
/* A table of so many bytes a row of the queries, where these are divided. Who leads has its own
 * rows at the beginning of the table, and has all of them afterwards. */
int cli_part_collect(cli_job *job, void *table, uint64_t row_bytes);
/* job.report becomes that of all, and each time the longest. Last: the job has all queries, and the
 * whole corpus, again. */
int cli_part_report(cli_job *job);
void cli_part_return(cli_job *job);

/* A search whose corpus is divided. */
extern const cli_engine cli_engine_parts;

/* How many they are. */
void cli_part_tell(cli_report *r, const cli_job *job);

#endif
