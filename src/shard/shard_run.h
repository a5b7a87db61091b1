/* SPDX-License-Identifier: Apache-2.0
 * All steps of a graph from shards, with the disk at work beside the engine. Knows no engine, no
 * metric and no hardware: who builds and who lets two shards meet is told by a table of functions.
 *
 *     time ->        step (0,1)        step (0,2)              step (0,3)
 *     engine         | meet 0 1  |merge| meet 0 2        |merge| meet 0 3        |merge|
 *     thread         | read 2    |     | write 0 1, read 3 |   | write 0 2, read 4 |   | ...
 *     in memory       0 1 .       0 1 2  0 2 (1)          0 2 3  0 3 (2)          0 3 4
 *
 * Three slots hold lists: two shards that meet, and one that was written and becomes the next one
 * to be read. While two shards meet their lists are only read, so that the thread writes what the
 * step before has left; what the meeting has found is merged into them when the thread is done. A
 * step is on disk, as a whole, before the merge of the next one ends. */
#ifndef KIN_SHARD_RUN_H
#define KIN_SHARD_RUN_H

#include "shard/shard_folder.h"

enum { KIN_SHARD_SLOTS = 3 };

typedef struct kin_shard_part {
    int32_t shard;
    int64_t first; /* row of all points */
    int64_t rows;
    kin_shard_lists lists;
} kin_shard_part;

struct kin_shard_run;

/* Functions fail with a status that they have explained. They run in the thread that called
 * kin_shard_run, and may report progress. */
typedef struct kin_shard_engine {
    void *arg;
    /* Fills in the lists of a shard from its own points. */
    kith_status (*build)(void *arg, const kin_shard_part *a);
    /* Finds, and keeps to itself, what the lists of each get from the other. Does not write them.
     */
    kith_status (*meet)(void *arg, const kin_shard_part *a, const kin_shard_part *b);
    /* Takes what the last meeting has found into the lists of both. */
    kith_status (*merge)(void *arg, const kin_shard_part *a, const kin_shard_part *b);
    /* NULL; or, of shards that meet nobody, does every build that is to be done, on disk. */
    kith_status (*build_all)(void *arg, struct kin_shard_run *run);
    /* NULL; or, of two shards that need not be in memory, whether they have nothing for each other.
     * Of a process alone. */
    kith_status (*apart)(void *arg, int32_t a, int32_t b, bool *yes);
} kin_shard_engine;

typedef struct kin_shard_slot {
    int32_t shard; /* -1: none */
    int32_t last;  /* whom it has met last */
    bool dirty;    /* is not on disk yet */
    kin_shard_lists lists;
} kin_shard_slot;

typedef struct kin_shard_run {
    kith_ctx *ctx;
    kith_ctx *disk; /* of the thread; reports no progress */
    kin_shard_folder *folder;
    const kith_matrix *points; /* the stride is told */
    bool mapped;               /* points.data: see kith_shard_params */
    kin_shard_engine engine;
    int64_t steps_stood;
    int64_t cursor;               /* no step before it is to be done */
    const kin_shard_step *listed; /* the steps that are ours, of a round of a team; NULL: all */
    int64_t listed_count;
    int32_t slot_count;
    kin_shard_slot slots[KIN_SHARD_SLOTS];
    double seconds_compute;
    double seconds_wait; /* for lists */
    double seconds_rows; /* for rows that are gathered */
    void *block;
} kin_shard_run;

/* After kin_shard_folder_begin. engine and points are the caller's to fill in. */
kith_status kin_shard_run_make(kith_ctx *ctx, kith_ctx *disk, kin_shard_folder *folder,
                               kin_shard_run *run);
void kin_shard_run_free(kin_shard_run *run);

/* Every step that is to be done; all of it is on disk when this returns KITH_OK. */
kith_status kin_shard_run_steps(kin_shard_run *run);

/* Calls fn for every shard with its final lists, in the order of rows; the next one is read
 * meanwhile. A damaged file: *lost, and the steps are to be run again. */
typedef kith_status (*kin_shard_each_fn)(void *arg, const kin_shard_part *part);
kith_status kin_shard_each(kin_shard_run *run, kin_shard_each_fn fn, void *arg, bool *lost);

/* Gives back the pages of some rows of a mapped file. */
void kin_shard_return_rows(const kith_matrix *points, int64_t first, int64_t rows);
/* The system may begin to read them. */
void kin_shard_fetch_rows(const kith_matrix *points, int64_t first, int64_t rows);

/* The slot of a shard, or -1. */
int32_t kin_shard_slot_of(const kin_shard_run *run, int32_t shard);

/* ---- Several processes (shard_team.c) -------------------------------------------------------- */

/* Several processes at one folder. Each has its own memory, engine and eyes; what they share is the
 * folder, and one function by which they hear of each other: of the bytes that all of them bring,
 * the greatest at each place. Worker 0 leads: it holds the lock, and reads what an earlier run has
 * left. The others are told.
 *
 *     time ->    builds          | round 1       | round 2       |      no shard is in two steps of
 *     worker 0   (0) (2) (4)     | (0,5) (2,3)   | (0,1) (3,4)   |      a round, and nobody begins
 *     worker 1   (1) (3) (5)     | (1,4)         | (2,5)         |      the next one before all
 *                                ^ all on disk   ^               ^      of this one is on disk */

/* team NULL: a process of its own. */
static inline bool kin_shard_leads(const kith_shard_team *team)
{
    return team == NULL || team->worker == 0;
}

/* How it went with all: KITH_OK, or the first worker's failure with its text, for everyone. */
kith_status kin_shard_agree(kith_ctx *ctx, const kith_shard_team *team, kith_status status);
/* Worker 0's bytes for everyone; team NULL: nothing. */
kith_status kin_shard_tell(kith_ctx *ctx, const kith_shard_team *team, void *data, uint64_t bytes);

/* Of any worker; the others' bytes are written over. */
kith_status kin_shard_tell_from(kith_ctx *ctx, const kith_shard_team *team, int32_t worker,
                                void *data, uint64_t bytes);
/* The least of all workers' numbers. */
kith_status kin_shard_least(kith_ctx *ctx, const kith_shard_team *team, int64_t *number);
/* Makes sure that all have these lines, each ended by '\n', which say what the job is. */
kith_status kin_shard_compare(kith_ctx *ctx, const kith_shard_team *team, const char *lines);

/* After worker 0 has begun in its folder and the others have entered theirs, which `status` tells:
 * makes sure that it is one folder, and tells what stands in it. */
kith_status kin_shard_join(kin_shard_folder *folder, const kith_shard_team *team,
                           kith_status status);

/* kin_shard_run_steps by a team. */
kith_status kin_shard_run_rounds(kin_shard_run *run, const kith_shard_team *team);

#endif
