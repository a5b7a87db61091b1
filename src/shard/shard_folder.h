/* SPDX-License-Identifier: Apache-2.0
 * The folder of a graph from shards: the lists of every shard on disk, and whom it has met.
 *
 *     shards.journal             what job it is: a head of lines with their checksum, no records
 *     shard-00003.000007.kith    lists of shard 3 as they are after its seventh step but one
 *
 * A shard's file is its own record: a .kith container with ids, keys, and in two small sections the
 * job's checksum and whom the shard has met. It appears whole, under its name, after an fsync
 * (file_atomic.h), so that it never says what is not there. A pair writes the next version of both
 * shards, then removes both old ones: of two versions of a shard the newer one counts if the shard
 * that it met last has met it, too; else the pair was on its way to the disk when somebody died,
 * and the older one counts. So a pair stands as a whole, or not at all.
 *
 *     time ->        write a.8    write b.5    remove a.7   remove b.4
 *     dies here:  |            |            |             |            |
 *     stands:     a.7 b.4      a.7 b.4      a.8 b.5       a.8 b.5
 *
 * A file that is damaged, or of another job, is named in the log and removed: its shard has then
 * met nobody, not even itself, and the steps that it took part in are to be done again. The lists
 * of the others have in them what they got in these steps, and nothing is merged twice into a list.
 * flock keeps a second process out. */
#ifndef KIN_SHARD_FOLDER_H
#define KIN_SHARD_FOLDER_H

#include "file/file_stream.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- The steps ------------------------------------------------------------------------------- */

/* The steps of a graph from shards: plain arithmetic, so that one process and many ranks agree
 * without a word.
 *
 * A step builds one shard, or lets two meet. `shards` builds come first, then every pair once; the
 * order of pairs turns round at the end of each row (boustrophedon), so that a pair and the next
 * one always have a shard in common, and one shard has to be read a step:
 *
 *        b: 1   2   3   4
 *   a = 0   > - > - > - v
 *   a = 1       v - < - <
 *   a = 2       > - > - v        (2,3) follows (1,2): 2 is in memory
 *   a = 3               v
 *
 * Several workers take the rounds of a tournament instead: in a round nobody plays twice, so all
 * pairs of a round can be computed at the same time (circle method: shard 0 stays, the others move
 * on by one place a round; of an odd number one is left over in each round). */

/* a == b: the build of a; else a < b meet. */
typedef struct kin_shard_step {
    int32_t a;
    int32_t b;
} kin_shard_step;

static inline bool kin_shard_is_build(kin_shard_step step)
{
    return step.a == step.b;
}

/* Builds and pairs. */
static inline int64_t kin_shard_steps(int32_t shards)
{
    return (int64_t)shards * (shards + 1) / 2;
}

/* 0 <= number < kin_shard_steps(shards). */
static inline kin_shard_step kin_shard_step_at(int32_t shards, int64_t number)
{
    if (number < shards) {
        return (kin_shard_step){(int32_t)number, (int32_t)number};
    }
    int64_t left = number - shards;
    int32_t a = 0;
    while (left >= shards - 1 - a) {
        left -= shards - 1 - a;
        a += 1;
    }
    return (kin_shard_step){a, a % 2 == 0 ? a + 1 + (int32_t)left : shards - 1 - (int32_t)left};
}

/* Rounds of the tournament, and pairs that a round has at most. */
static inline int32_t kin_shard_rounds(int32_t shards)
{
    return shards < 2 ? 0 : shards - 1 + shards % 2;
}

static inline int32_t kin_shard_tables(int32_t shards)
{
    return shards / 2 + (shards < 2 ? 0 : shards % 2);
}

/* Who sits at a place of the circle, whose place 0 does not move. */
static inline int32_t kin_shard_sitting(int32_t places, int32_t round, int32_t place)
{
    return place == 0 ? 0 : 1 + (place - 1 + round) % (places - 1);
}

/* Who meets at a table. False: it is empty in this round. */
static inline bool kin_shard_meeting(int32_t shards, int32_t round, int32_t table,
                                     kin_shard_step *step)
{
    const int32_t places = shards + shards % 2;
    const int32_t one = kin_shard_sitting(places, round, table);
    const int32_t other = kin_shard_sitting(places, round, places - 1 - table);
    *step = one < other ? (kin_shard_step){one, other} : (kin_shard_step){other, one};
    return step->b < shards;
}

/* Where shard `shard` of so many begins; shards of `rows` rows differ by one row at most. */
static inline int64_t kin_shard_first(int64_t rows, int32_t shards, int32_t shard)
{
    return rows / shards * shard + rows % shards * shard / shards;
}

static inline int64_t kin_shard_rows(int64_t rows, int32_t shards, int32_t shard)
{
    return kin_shard_first(rows, shards, shard + 1) - kin_shard_first(rows, shards, shard);
}

enum { KIN_SHARD_MOST = 4096 };

/* Of the rows of one shard: rows x k, ascending by (key, id), each id once; at the end, where
 * nothing is found yet, KITH_ID_NONE at key infinity. Ids count from the first row of all. */
typedef struct kin_shard_lists {
    uint32_t *ids;
    double *keys;  /* canonical */
    uint32_t *own; /* NULL, or rows x k: the graph of the shard alone, ids from its first row, as
                      its build has left it */
} kin_shard_lists;

/* Of lists that meet nobody the file has distances, as the result will have them, instead of keys,
 * which take twice the bytes; and keys of those rows alone that other shards have, too. */
typedef struct kin_shard_brief {
    const unsigned char *shared; /* by row: 1, others have it */
    void (*convert)(const void *arg, const double *keys, int64_t count, float *distances);
    const void *arg;
} kin_shard_brief;

/* What a job is, as far as the folder knows. */
typedef struct kin_shard_shape {
    const char *job; /* lines, each ended by '\n', that say what the lists depend on */
    kith_metric metric;
    int32_t shards;
    int64_t rows;         /* of all points */
    const int64_t *sizes; /* rows of each shard; NULL: as kin_shard_rows has them */
    int64_t k;
    bool own; /* lists have `own` */
} kin_shard_shape;

typedef struct kin_shard_folder {
    kith_ctx *ctx;
    char *path;
    int file;          /* the folder itself, locked */
    bool made;         /* by us */
    bool entered;      /* another process has begun here, and has the lock */
    int32_t found;     /* shards of the job that is there; 0: none */
    bool found_groups; /* they have no graphs of their own: an exact job's, or groups */
    kin_shard_shape shape;
    kin_journal journal;
    uint64_t job;          /* checksum of the journal's head */
    int64_t *versions;     /* by shard; -1: no file */
    unsigned char *met;    /* shards x shards: [a][b]: the lists of a have what b has to give */
    unsigned char *losses; /* by shard: times that its file was damaged */
    int32_t lost;          /* files that were damaged */
    uint64_t bytes_read;
    _Atomic uint64_t bytes_written; /* several files may be on their way */
} kin_shard_folder;

/* Makes the folder where there is none, and locks it. KITH_E_IO where another process has it.
 * enters: for the others of a team, after its first worker has begun: neither makes nor locks it.
 */
kith_status kin_shard_folder_open(kith_ctx *ctx, const char *path, bool enters,
                                  kin_shard_folder *folder);
/* Takes up the job that is there, or begins (an entered folder: its job must be this one, and who
 * has met whom is for others to tell). shape.job is needed for the call alone.
 * KITH_E_ARGUMENT where it is another job, KITH_E_FORMAT where the journal is none; restart: begins
 * whatever is there. */
kith_status kin_shard_folder_begin(kin_shard_folder *folder, const kin_shard_shape *shape,
                                   bool restart);
/* Removes all files of the job. */
void kin_shard_folder_empty(kin_shard_folder *folder);
/* A job that has no step done leaves nothing. After an open that failed, too. */
void kin_shard_folder_close(kin_shard_folder *folder);

static inline bool kin_shard_has_met(const kin_shard_folder *folder, int32_t a, int32_t b)
{
    return folder->met[(int64_t)a * folder->shape.shards + b] != 0;
}
/* A build: shard a has met itself. A pair: both have met the other. */
bool kin_shard_is_done(const kin_shard_folder *folder, kin_shard_step step);
int64_t kin_shard_count_done(const kin_shard_folder *folder);
void kin_shard_mark_done(kin_shard_folder *folder, kin_shard_step step);

/* ---- Files; ctx may be another than the folder's, of another thread ------------------------- */

/* The newest version. KITH_E_FORMAT, KITH_E_IO: it is damaged, or gone. */
kith_status kin_shard_load(kith_ctx *ctx, kin_shard_folder *folder, int32_t shard,
                           const kin_shard_lists *lists);
/* A version more; last: whom it has met last, itself after its build. brief: NULL, or what becomes
 * of the keys. Different shards may be stored at the same time. */
kith_status kin_shard_store(kith_ctx *ctx, kin_shard_folder *folder, int32_t shard, int32_t last,
                            const kin_shard_lists *lists, const kin_shard_brief *brief);
/* Removes the version before, when all that belongs together is stored. */
void kin_shard_settle(kin_shard_folder *folder, int32_t shard);
/* The shard's file is no good: says so, removes it, and the shard has met nobody. KITH_E_IO when
 * that happens to one shard again: making it once more would go on for ever. */
kith_status kin_shard_lose(kin_shard_folder *folder, int32_t shard, const char *why);

/* ---- One file (shard_file.c): one version of one shard's lists ------------------------------- */

/* shard-00003.000007.kith, a container with the sections shard (facts), met, ids, keys and, of
 * approximate graphs, own. Of groups, which meet nobody, it has distances, and keys of those rows
 * alone that other groups have, too. */
enum { KIN_SHARD_NAME_BYTES = 48, KIN_SHARD_FACTS_FORMAT = 1 };
#define KIN_SHARD_TAG_FACTS "shard"
#define KIN_SHARD_TAG_MET "met"
#define KIN_SHARD_TAG_KEYS "keys"
#define KIN_SHARD_TAG_OWN "own"

typedef struct kin_shard_name {
    int32_t shard;
    int64_t version;
} kin_shard_name;

typedef struct kin_shard_facts {
    uint32_t format;
    int32_t shards;
    int32_t shard;
    int32_t last; /* whom it has met last */
    int64_t version;
    uint64_t job; /* checksum of the journal's head */
} kin_shard_facts;

void kin_shard_name_print(kin_shard_name name, char text[KIN_SHARD_NAME_BYTES]);
/* False where it is no name of a shard's file. */
bool kin_shard_name_parse(const char *text, kin_shard_name *name);

/* What a file says of itself, held against the folder's job: KITH_E_FORMAT where it is damaged or
 * another job's. met: NULL, or one byte a shard. */
kith_status kin_shard_file_facts(kith_ctx *ctx, const kin_shard_folder *folder, kin_shard_name name,
                                 kin_shard_facts *facts, unsigned char *met);

/* ---- Lists in a mapped file, or in memory, read from the first row to the last --------------- */

typedef struct kin_shard_view {
    kin_container *file; /* NULL: lists in memory */
    const uint32_t *ids;
    const float *distances; /* NULL in memory, where keys are those of all rows */
    const double *keys;     /* of rows that are shared (kin_shard_brief) */
    int64_t k;
    int64_t row;      /* the next one, for the caller to move */
    int64_t shared;   /* rows before it that are shared; the caller's, too */
    int64_t returned; /* rows whose pages were given back */
    int64_t shared_returned;
} kin_shard_view;

/* Checks the whole file, which must have keys of `shared` rows. KITH_E_FORMAT where it is damaged.
 */
kith_status kin_shard_view_open(kith_ctx *ctx, const kin_shard_folder *folder, int32_t shard,
                                int64_t shared, kin_shard_view *view);
/* Pages before the next row do not count as memory any more. */
void kin_shard_view_return(kin_shard_view *view);
void kin_shard_view_rewind(kin_shard_view *view);
/* Accepts a view that is all zero. */
void kin_shard_view_close(kin_shard_view *view);

#endif
