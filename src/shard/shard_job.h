/* SPDX-License-Identifier: Apache-2.0
 * Graphs from shards: what the job is, what it needs, and the engines that build shards and let
 * them meet. Lists are merged by canonical keys. Engines give distances, which are keys, or their
 * negatives, but for euclidean, where they are roots and two keys may have one: engines are asked
 * for sqeuclidean, in the same order. */
#ifndef KIN_SHARD_JOB_H
#define KIN_SHARD_JOB_H

#include "api/api_check.h"
#include "host/host_threads.h"
#include "shard/shard_run.h"

#include <stdatomic.h>

enum { KIN_SHARD_SIDES = 2, KIN_SHARD_PHASE = 128 };

/* Rows that tell the recall of an approximate graph. */
typedef struct kin_shard_sample {
    bool told; /* the caller wants to know */
    int64_t count;
    int64_t at;     /* K of recall@K */
    uint32_t *rows; /* rising */
    double *found;  /* count x at: the keys of their lists */
    double *truth;
    uint32_t *truth_ids;
    unsigned char *noted; /* by shard: found has what its lists hold now */
    void *block;
} kin_shard_sample;

/* OVERLAP: groups that a row may have in the mean. PLACES: for lists of groups. */
enum { KIN_SHARD_NO_GROUP = UINT16_MAX, KIN_SHARD_HOMES = 4, KIN_SHARD_OVERLAP = 3 };
enum { KIN_SHARD_LEAST_PLACES = 2, KIN_SHARD_PLACES = 4 };

/* Groups of near points that overlap: as many as there are shards then. */
typedef struct kin_shard_groups {
    uint16_t *homes;   /* KIN_SHARD_HOMES a row: its own group, those where it is a guest, none */
    int64_t *sizes;    /* by group */
    int64_t *shared;   /* by group: rows that others have, too */
    int64_t most;      /* rows of the largest group */
    uint64_t checksum; /* of homes */
    double wanted;     /* share of a sample's true neighbours that groups have to cover: */
    double cover;      /* those that share a group with their point; 0: nobody has asked */
    double overlap;    /* groups that a row has, in the mean */
} kin_shard_groups;

/* Of exact graphs: rows, and pairs of shards, that cannot meet are left out (exact_search.h). */
typedef struct kin_shard_bounds {
    kin_bounds bounds;
    int64_t met;     /* pairs of shards that have met */
    int64_t skipped; /* or need not */
    double rows;     /* pairs of rows in all of these */
    double left_out; /* of them, those that were not looked at */
} kin_shard_bounds;

typedef struct kin_shard_job {
    kith_ctx *ctx;
    kith_shard_params params; /* as this library knows them */
    kith_matrix points;       /* the stride is told */
    kith_metric metric;       /* the caller's */
    int64_t k;
    bool self; /* KITH_INCLUDE_SELF */
    bool descends;
    bool on_gpu;              /* descents are a GPU's; known when groups are looked for */
    kith_search_params exact; /* by keys; without the filter, */
    kith_filter filter;       /* which is here: of all points, one bitmap at most, not by each */
    bool filters;
    kith_descent_params descent; /* by keys */
    int32_t shards;

    kith_neighbors found[KIN_SHARD_SIDES]; /* of the meeting; both in one table of ids and one of
                                                 keys, the second behind the first */
    uint32_t *found_ids;
    double *found_keys;
    void *found_block;
    kin_shard_part near[KIN_SHARD_SIDES]; /* whose rows have met */
    kin_shard_bounds bounds;              /* of exact graphs */
    kin_shard_folder *folder;

    kith_progress_fn progress; /* the caller's, behind ours */
    void *progress_arg;
    char phase[KIN_SHARD_PHASE];
    unsigned char *pair_rows; /* of two shards that are merged; NULL: not yet */
    int32_t gathered;         /* the shard whose rows stand first there */
    kin_shard_sample sample;
    bool follows; /* shards are groups */
    kin_shard_groups groups;
    struct kin_shard_last *last;       /* groups that are on their way to the disk, or NULL */
    kith_status (*between)(void *arg); /* is called between groups, and may end all */
    void *between_arg;
    double seconds_check; /* until the lists of all groups could be read */
} kin_shard_job;

/* What so many shards need. */
typedef struct kin_shard_need {
    uint64_t host_bytes;
    uint64_t gpu_bytes;
    uint64_t gpu_budget_bytes;
    char backend[16];
} kin_shard_need;

/* Checked arguments; nothing is allocated. */
kith_status kin_shard_check(kith_ctx *ctx, const kith_matrix *points,
                            const kith_shard_params *params, kin_shard_job *job);
/* job->shards: what was asked for; else `found`, that of the folder, where it is not 0; else as few
 * as fit. KITH_E_LIMIT where they do not. */
kith_status kin_shard_choose(kin_shard_job *job, int32_t found);
kith_status kin_shard_needs(const kin_shard_job *job, int32_t shards, kin_shard_need *need);

/* Rows of a shard as a matrix. */
static inline kith_matrix kin_shard_rows_of(const kin_shard_job *job, const kin_shard_part *part)
{
    return kin_matrix_part(&job->points, part->first, part->rows);
}

/* Of rows that are copied, one behind the other. */
static inline int64_t kin_shard_row_bytes(const kin_shard_job *job)
{
    return (int64_t)job->points.cols * kith_dtype_bytes(job->points.dtype);
}

/* After a call of an engine: a message that counts rows from the shard's first one counts them from
 * the first of all. */
kith_status kin_shard_note(const kin_shard_job *job, kith_status status,
                           const kin_shard_part *part);

/* What job->bounds are made of, once the number of shards is known. */
kin_bounds_sets kin_shard_bounds_sets(const kin_shard_job *job, int32_t shards);

/* A descent as calls on a graph have it. */
static inline kith_search_params kin_shard_search_params(const kith_descent_params *like, int64_t k)
{
    kith_search_params params = kith_search_params_default();
    params.metric = like->metric;
    params.k = k;
    params.flags = like->flags;
    params.method = KITH_METHOD_DESCENT;
    params.recall = like->recall;
    params.recall_at = like->recall_at;
    params.seed = like->seed;
    params.custom = like->custom;
    params.descent = like;
    return params;
}

/* A descent of rows of the points, without a report; out has k. */
kith_status kin_shard_descend(const kin_shard_job *job, const kith_matrix *rows,
                              const kith_descent_params *like, const kith_neighbors *out);

/* How shards are built, and what they get from each other; after the tables are made. */
kin_shard_engine kin_shard_engine_of(kin_shard_job *job);

enum { KIN_SHARD_LEAST_GROUPS = 3 };
/* Whether groups come into question; whether they are taken (job->follows). After the sample. */
bool kin_shard_may_follow(const kin_shard_job *job);
/* asked: so many groups, or none; 0: as few as fit. They are then job->shards. */
kith_status kin_shard_group(kin_shard_job *job, int32_t asked);
/* Rows of the largest group that the limits of the context allow; 0: there is none. */
kith_status kin_shard_group_room(kin_shard_job *job, int64_t *rows);
void kin_shard_group_free(kin_shard_job *job);
/* How many groups' lists are in memory at a time, of the groups that were found. */
kith_status kin_shard_group_places(const kin_shard_job *job, int32_t *places);
/* Builds every group that is to be built; the last ones, where nobody else waits for them, are
 * still on their way to the disk then, and their lists are in memory until the end. */
kith_status kin_shard_follow(void *arg, kin_shard_run *run);
/* NULL: the group's lists are in its file alone. */
const kin_shard_lists *kin_shard_follow_lists(const kin_shard_job *job, int32_t group);
/* Waits for the disk. May be called at any time, and often. */
kith_status kin_shard_follow_end(kin_shard_job *job);
/* Gives back the pages of some rows, where they are those of a mapped file. */
static inline void kin_shard_return(const kin_shard_job *job, int64_t first, int64_t rows)
{
    if (job->params.mapped != 0) {
        kin_shard_return_rows(&job->points, first, rows);
    }
}

/* Of keys, as the result has them; arg: the job. */
void kin_shard_to_distances(const void *arg, const double *keys, int64_t count, float *distances);

/* Copies rows in rising order, so that a disk is read from one end to the other, and gives back
 * what lies behind. */
void kin_shard_copy(const kin_shard_job *job, const uint32_t *rows, int64_t count,
                    unsigned char *to);

/* One list of another place into an own one: both k entries, ascending by (key, id), with empty
 * ones behind; ids count from the first row of all, and an id has one key wherever it is, so that
 * twice the same are met side by side. room: as much once more. */
void kin_shard_merge(int64_t k, const kin_shard_lists *own, const uint32_t *more_ids,
                     const double *more_keys, const kin_shard_lists *room);

/* Bits from `first` on, as bits from 0 on. */
void kin_shard_cut_bits(const uint8_t *from, int64_t first, int64_t count, uint8_t *to);
/* The sample of an approximate graph; what the lists of a shard have of it; and the recall, once
 * all steps stand. *lost: see kin_shard_each. */
kith_status kin_shard_sample_make(kin_shard_job *job);
void kin_shard_sample_free(kin_shard_job *job);
void kin_shard_sample_note(kin_shard_job *job, const kin_shard_part *part);
/* Of groups: the list of the sample's row `at`. */
void kin_shard_sample_note_distances(kin_shard_job *job, int64_t at, const float *distances);
kith_status kin_shard_recall(kin_shard_job *job, kin_shard_run *run, kith_recall *recall,
                             bool *lost);
/* The same of lists that are noted. */
void kin_shard_estimate(const kin_shard_job *job, kith_recall *recall);
/* A context for a thread beside: it has errors of its own, and reports no progress. */
kith_status kin_shard_make_ctx(kith_ctx *like, int32_t threads, kith_ctx **ctx);

/* ---- Cells and groups (shard_cells.c) -------------------------------------------------------- */

/* Cells of near points, and their division into groups. */

enum { KIN_SHARD_NEAREST = 8 };

/* Of rows: some of their nearest cells, ascending by (key, cell). */
typedef struct kin_shard_near {
    int64_t rows;
    uint32_t *cells; /* rows x count */
    double *keys;
} kin_shard_near;

typedef struct kin_shard_cells {
    kin_shard_job *job;
    kith_matrix centers; /* float32, or of bytes rounded ones */
    float *values;
    unsigned char *bytes; /* NULL: points are others */
    int64_t near;         /* cells that are told of a row: there may be fewer in all */
    int64_t *weights;     /* by cell: rows seen to which it is the nearest */
    kin_shard_near seen;  /* rows that tell what cells are like */
    void *block;
} kin_shard_cells;

/* Centers are means of near rows. values, and bytes where points are such, have them. */
kith_status kin_shard_cells_make(kin_shard_job *job, kin_shard_cells *cells);

kith_status kin_shard_near_make(kith_ctx *ctx, int64_t rows, int64_t count, kin_shard_near *near);
void kin_shard_near_free(kith_ctx *ctx, kin_shard_near *near);
/* The `count` nearest cells of each row. */
kith_status kin_shard_find_cells(const kin_shard_cells *cells, const kith_matrix *rows,
                                 int64_t count, const kin_shard_near *near);

/* group: by cell. Groups have about as many rows each, and near cells one group. */
kith_status kin_shard_divide(const kin_shard_cells *cells, int32_t groups, uint16_t *group);

/* ---- The result (shard_union.c) -------------------------------------------------------------- */

/* The result of a graph from shards: its file has its place on the disk before the first step, so
 * that who has no room for it hears of that before the work is done; lists come when all stand.
 * Where shards are groups the file is opened beside the first ones: asking for the place may take
 * long. */

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
    kin_beside opening;
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
