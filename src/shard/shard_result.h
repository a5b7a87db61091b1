/* SPDX-License-Identifier: Apache-2.0
 * The result of a graph from shards: its file has its place on the disk before the first step, so
 * that who has no room for it hears of that before the work is done; lists come when all stand.
 * Where shards are groups the file is opened beside the first ones: asking for the place may take
 * long. */
#ifndef KIN_SHARD_RESULT_H
#define KIN_SHARD_RESULT_H

#include "file/file_stream.h"
#include "shard/shard_job.h"

#include <stdatomic.h>

typedef struct kin_shard_result {
    kin_shard_job *job; /* these four: the caller's to fill in */
    kin_shard_run *run;
    const char *path;
    const char *text;   /* what lists and result depend on */
    kith_recall recall; /* of an approximate graph, when it is written */
    bool told;          /* lists have begun to be put after the recall was told */
    kith_ctx *ctx;      /* of the thread that opens the files, and then of the files */
    kin_parts *parts;
    int32_t wanted; /* parts; 0: one file */
    kith_result_stream_params params;
    kith_result_meta meta;
    kith_status status;
    pthread_t thread;
    bool started;
    bool threaded;
    atomic_bool ended;
} kin_shard_result;

kith_status kin_shard_result_begin(kin_shard_result *result);
/* Files that have the result beside the one that names them; 0: one, or none is open. */
int32_t kin_shard_result_parts(const kin_shard_result *result);
/* What has gone wrong beside, as soon as it is known. arg: the result. */
kith_status kin_shard_result_look(void *arg);
/* All lists, after all steps. *lost: see kin_shard_each. */
kith_status kin_shard_result_write(kin_shard_result *result, bool *lost);
/* What stands of the result stays. Accepts what is all zero. */
void kin_shard_result_end(kin_shard_result *result);

#endif
