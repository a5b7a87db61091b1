/* SPDX-License-Identifier: Apache-2.0
 * Graphs from shards: what the job is, what it needs, and the engines that build shards and let
 * them meet. Lists are merged by canonical keys. Engines give distances, which are keys, or their
 * negatives, but for euclidean, where they are roots and two keys may have one: engines are asked
 * for sqeuclidean, in the same order. */
#ifndef KIN_SHARDING_H
#define KIN_SHARDING_H

#include "api/api_check.h"
#include "shard/shard_team.h"

enum { KIN_SHARDING_SIDES = 2, KIN_SHARDING_PHASE = 96 };

/* Rows that tell the recall of an approximate graph. */
typedef struct kin_sharding_sample {
    bool told; /* the caller wants to know */
    int64_t count;
    int64_t at;     /* K of recall@K */
    uint32_t *rows; /* rising */
    double *found;  /* count x at: the keys of their lists */
    double *truth;
    uint32_t *truth_ids;
    unsigned char *noted; /* by shard: found has what its lists hold now */
} kin_sharding_sample;

/* OVERLAP: groups that a row may have in the mean. PLACES: for lists of groups. */
enum { KIN_SHARDING_NO_GROUP = UINT16_MAX, KIN_SHARDING_HOMES = 4, KIN_SHARDING_OVERLAP = 3 };
enum { KIN_SHARDING_LEAST_PLACES = 2, KIN_SHARDING_PLACES = 4 };

/* Groups of near points that overlap: as many as there are shards then. */
typedef struct kin_sharding_groups {
    uint16_t *homes; /* KIN_SHARDING_HOMES a row: its own group, those where it is a guest, none */
    int64_t *sizes;  /* by group */
    int64_t *shared; /* by group: rows that others have, too */
    int64_t most;    /* rows of the largest group */
    uint64_t checksum; /* of homes */
    double wanted;     /* share of a sample's true neighbours that groups have to cover: */
    double cover;      /* those that share a group with their point; 0: nobody has asked */
    double overlap;    /* groups that a row has, in the mean */
} kin_sharding_groups;

typedef struct kin_sharding {
    kith_ctx *ctx;
    kith_shard_params params; /* as this library knows them */
    kith_matrix points;       /* the stride is told */
    kith_metric metric;       /* the caller's */
    int64_t k;
    bool self; /* KITH_INCLUDE_SELF */
    bool descends;
    bool on_gpu;                 /* descents are a GPU's; known when groups are looked for */
    kith_search_params exact;    /* by keys */
    kith_descent_params descent; /* by keys */
    int32_t shards;

    kith_neighbors found[KIN_SHARDING_SIDES]; /* of the meeting; both in one table of ids and one of
                                                 keys, the second behind the first */
    uint32_t *found_ids;
    double *found_keys;
    kin_shard_part near[KIN_SHARDING_SIDES]; /* whose rows have met */
    struct kin_sharding_bounds *bounds;      /* of exact graphs: sharding_bounds.h */
    kin_shard_folder *folder;

    kith_progress_fn progress; /* the caller's, behind ours */
    void *progress_arg;
    char phase[KIN_SHARDING_PHASE];
    unsigned char *pair_rows; /* of two shards that are merged; NULL: not yet */
    int32_t gathered;         /* the shard whose rows stand first there */
    kin_sharding_sample sample;
    bool follows; /* shards are groups */
    kin_sharding_groups groups;
    struct kin_sharding_last *last;    /* groups that are on their way to the disk, or NULL */
    kith_status (*between)(void *arg); /* is called between groups, and may end all */
    void *between_arg;
    double seconds_check; /* until the lists of all groups could be read */
    uint64_t peak_bytes;  /* of engines */
    uint64_t gpu_peak_bytes;
} kin_sharding;

/* What so many shards need. */
typedef struct kin_sharding_need {
    uint64_t host_bytes;
    uint64_t gpu_bytes;
    uint64_t gpu_budget_bytes;
    char backend[16];
} kin_sharding_need;

/* Checked arguments; nothing is allocated. */
kith_status kin_sharding_check(kith_ctx *ctx, const kith_matrix *points,
                               const kith_shard_params *params, kin_sharding *job);
/* job->shards: what was asked for; else `found`, that of the folder, where it is not 0; else as few
 * as fit. KITH_E_LIMIT where they do not. */
kith_status kin_sharding_choose(kin_sharding *job, int32_t found);
kith_status kin_sharding_needs(const kin_sharding *job, int32_t shards, kin_sharding_need *need);
/* Of a team: whether all workers have what must be the same for all, of which text is a part. */
kith_status kin_sharding_compare(const kin_sharding *job, const char *text);

/* Rows of a shard as a matrix. */
static inline kith_matrix kin_sharding_rows(const kin_sharding *job, const kin_shard_part *part)
{
    kith_matrix rows = job->points;
    rows.data = (const char *)rows.data + part->first * rows.stride_bytes;
    rows.rows = part->rows;
    return rows;
}

/* The tables of what a meeting finds: `sides` of them, rows x k each. */
void kin_sharding_aim(kin_sharding *job, const kin_shard_part *const *parts, const int64_t *k,
                      int32_t sides);
/* Lists that are empty. */
void kin_sharding_clear(const kin_sharding *job, const kin_shard_part *part);
/* Found neighbours whose ids count from row `first` of all into the lists of a shard: each id once,
 * the first k by (key, id). */
kith_status kin_sharding_take(const kin_sharding *job, const kith_neighbors *found, int64_t first,
                              const kin_shard_part *part);
/* One list of another group's: ids count from the first row of all. room: k ids and k keys. */
void kin_sharding_take_list(int64_t k, uint32_t *ids, double *keys, const uint32_t *more_ids,
                            const double *more_keys, const kin_shard_lists *room);
/* After a call of an engine: its peaks; and a message that counts rows from the shard's first one
 * counts them from the first of all. */
kith_status kin_sharding_note(kin_sharding *job, kith_status status, const kin_shard_part *part);

/* Engines: see kin_shard_engine. arg: the job. */
kith_status kin_sharding_build_exact(void *arg, const kin_shard_part *a);
kith_status kin_sharding_meet_exact(void *arg, const kin_shard_part *a, const kin_shard_part *b);
kith_status kin_sharding_build_descent(void *arg, const kin_shard_part *a);
kith_status kin_sharding_meet_descent(void *arg, const kin_shard_part *a, const kin_shard_part *b);
kith_status kin_sharding_merge(void *arg, const kin_shard_part *a, const kin_shard_part *b);

enum { KIN_SHARDING_LEAST_GROUPS = 3 };
/* Whether groups come into question; whether they are taken (job->follows). After the sample. */
bool kin_sharding_may_follow(const kin_sharding *job);
/* asked: so many groups, or none; 0: as few as fit. They are then job->shards. */
kith_status kin_sharding_group(kin_sharding *job, int32_t asked);
/* Rows of the largest group that the limits of the context allow; 0: there is none. */
kith_status kin_sharding_group_room(kin_sharding *job, int64_t *rows);
void kin_sharding_group_free(kin_sharding *job);
/* How many groups' lists are in memory at a time, of the groups that were found. */
kith_status kin_sharding_group_places(const kin_sharding *job, int32_t *places);
/* Builds every group that is to be built; the last ones, where nobody else waits for them, are
 * still on their way to the disk then, and their lists are in memory until the end. */
kith_status kin_sharding_follow(void *arg, kin_shard_run *run);
/* NULL: the group's lists are in its file alone. */
const kin_shard_lists *kin_sharding_follow_lists(const kin_sharding *job, int32_t group);
/* Waits for the disk. May be called at any time, and often. */
kith_status kin_sharding_follow_end(kin_sharding *job);
/* Lists of all groups made one: those of the sample are noted, ready is called, then put with the
 * rows of all points in their order, piece after piece, in a thread that may fail by ctx alone.
 * All groups are on disk when this returns KITH_OK. */
typedef struct kin_sharding_sink {
    void *arg;
    kith_status (*ready)(void *arg);
    kith_status (*put)(void *arg, kith_ctx *ctx, int64_t first, const kith_neighbors *rows);
} kin_sharding_sink;
kith_status kin_sharding_unite(kin_sharding *job, const kin_sharding_sink *sink, bool *lost);
/* Gives back the pages of some rows, where they are those of a mapped file. */
static inline void kin_sharding_return(const kin_sharding *job, int64_t first, int64_t rows)
{
    if (job->params.mapped != 0) {
        kin_shard_return_rows(&job->points, first, rows);
    }
}

/* Of keys, as the result has them; arg: the job. */
void kin_sharding_to_distances(const void *arg, const double *keys, int64_t count,
                               float *distances);

/* Copies rows in rising order, so that a disk is read from one end to the other, and gives back
 * what lies behind. */
void kin_sharding_copy(const kin_sharding *job, const uint32_t *rows, int64_t count,
                       unsigned char *to);

/* The sample of an approximate graph; what the lists of a shard have of it; and the recall, once
 * all steps stand. *lost: see kin_shard_each. */
kith_status kin_sharding_sample_make(kin_sharding *job);
void kin_sharding_sample_free(kin_sharding *job);
void kin_sharding_sample_note(kin_sharding *job, const kin_shard_part *part);
/* Of groups: the list of the sample's row `at`. */
void kin_sharding_sample_note_distances(kin_sharding *job, int64_t at, const float *distances);
kith_status kin_sharding_recall(kin_sharding *job, kin_shard_run *run, kith_recall *recall,
                                bool *lost);
/* The same of lists that are noted. */
void kin_sharding_estimate(const kin_sharding *job, kith_recall *recall);
/* A context for a thread beside: it has errors of its own, and reports no progress. */
kith_status kin_sharding_make_ctx(const kin_sharding *job, int32_t threads, kith_ctx **ctx);

#endif
