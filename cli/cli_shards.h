/* SPDX-License-Identifier: Apache-2.0
 * kith graph --shards: points that fit in no memory, by lists in a folder. */
#ifndef CLI_SHARDS_H
#define CLI_SHARDS_H

#include "cli_job.h"

extern const cli_engine cli_engine_shards;

/* The report's part about shards, for people and for programs. planned: of --dry-run. */
void cli_shards_print(const cli_job *job, bool planned);
void cli_shards_put(const cli_job *job, bool planned, cli_json *json);

#endif
