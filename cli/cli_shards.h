/* SPDX-License-Identifier: Apache-2.0
 * kith graph --shards: points that fit in no memory, by lists in a folder. */
#ifndef CLI_SHARDS_H
#define CLI_SHARDS_H

#include "cli_job.h"

extern const cli_engine cli_engine_shards;

/* Processes that work together. */
typedef struct cli_team {
    kith_shard_team shards;
    /* Says that this process has come as far as the library with this exit code. Waits for all, and
     * returns CLI_DONE where all may go on. */
    int (*ready)(void *arg, int code);
} cli_team;

/* The report's part about shards, for people and for programs. planned: of --dry-run. */
void cli_shards_print(const cli_job *job, bool planned);
void cli_shards_put(const cli_job *job, bool planned, cli_json *json);

#endif
