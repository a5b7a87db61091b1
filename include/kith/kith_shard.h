/* SPDX-License-Identifier: Apache-2.0
 *
 * The course of kith.h goes on: graphs of points that fit in no memory. kith.h includes this file,
 * nobody else needs to. */
#ifndef KITH_KITH_SHARD_H
#define KITH_KITH_SHARD_H

#include "kith/kith.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 15. Graphs from shards ----------------------------------------------------------------- */

/* Several processes, on one machine or on many, at one job: each calls kith_graph_shards with the
 * same points, parameters, folder and path, on a file system that all of them see. Steps that have
 * no shard in common are done at the same time. The answer is that of one process, byte for byte
 * (an approximate one: of one process with as many shards, all on the same kind of device). Worker
 * 0 looks after the folder and writes the result. A failure of one worker ends all, with its text;
 * a job that dies leaves a folder where a team of any size, or one process, goes on. */
typedef struct kith_shard_team {
    uint32_t struct_size; /* set by the caller to sizeof(kith_shard_team) */
    int32_t workers;
    int32_t worker; /* 0 to workers - 1: who this process is */
    /* Called by all workers equally often, with equally many bytes: each byte becomes the greatest
     * that any worker has in its place (MPI: MPI_Allreduce with MPI_MAX). Returns 0; anything else
     * ends the job (KITH_E_IO). */
    int (*combine)(void *arg, unsigned char *bytes, uint64_t count);
    void *arg;
} kith_shard_team;

/* Files of a result (kith_shard_params). */
enum { KITH_PARTS_AUTO = -1, KITH_PARTS_MAX = 256 };

/* Points in a mapped file are cut into shards, runs of rows. Each shard gets the graph of its own
 * points, then every two shards meet once and each point keeps the best of what it had and of what
 * it found. Two shards are in memory, the lists of the others lie in a folder on disk: the next
 * ones are read, and the last ones written, while two are computed. An exact graph has the bytes of
 * kith_graph and kith_result_save, whatever the shards are. An approximate one is made of
 * descents and merges; or, where that would take three shards and more and a sample's true
 * neighbours say that it will do, shards are groups of near points that overlap, each a descent,
 * and none has to meet. Groups are as many as the limits of the context allow, or as was asked for.
 *
 * A process that dies leaves the folder, and the same call goes on there: what is lost is the pair
 * of shards in work, and the one before it where its lists were on their way to the disk. Another
 * job in the folder (other parameters, other points) is refused; files that are damaged are named
 * in the log, and made again with the pairs they took part in. */
typedef struct kith_shard_params {
    uint32_t struct_size;               /* set by kith_shard_params_default() */
    int32_t shards;                     /* 0 = as few as the limits of the context allow, or as the
                                           folder has; at most 4096, and no more than there are rows */
    const kith_search_params *exact;    /* one of these two: an exact graph by k, metric, flags,
                                           method and filter (a rule same or other, one bitmap; no
                                           other field, not KITH_CUSTOM), */
    const kith_descent_params *descent; /* or an approximate one (not init, not KITH_CUSTOM) */
    kith_format format;                 /* of the result, which is written in pieces: all but CSR */
    uint32_t keep;                      /* 1: the folder keeps its lists when the result stands */
    uint32_t mapped;  /* 1: points.data are the pages of a file, mapped read-only and shared, as
                         those of a file may be (kith_points_source.mapped): pages that are done with
                         are given back */
    uint32_t restart; /* 1: begins anew, whatever is in the folder */
    const char *job;  /* lines of text that say what else the answer depends on (the file of the
                         points); a job with other lines is refused. NULL = nothing */
    const kith_shard_team *team; /* NULL = one process */
    int32_t parts; /* 0: the result is one file. Else the .kith file at path names so many others
                      beside it (KITH_PARTS_MAX at most, fewer where rows are few; KITH_PARTS_AUTO:
                      one for each shard), NAME-00000-of-00008.kith, each with the lists of a run of
                      rows; they get their names when all are whole, and it comes last.
                      kith_result_open of it is the whole graph, of a part its rows */
    int32_t reserved;
} kith_shard_params;

static inline kith_shard_params kith_shard_params_default(void)
{
    kith_shard_params params;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    return params;
}

/* What a job will need, before it runs. */
typedef struct kith_shard_plan {
    uint32_t struct_size; /* set by the caller to sizeof(kith_shard_plan) */
    int32_t shards;
    int64_t rows;          /* of the largest shard */
    int64_t steps;         /* shards, and pairs of shards; of groups that overlap fewer are done */
    uint64_t peak_bytes;   /* host memory: rows and lists of the shards at work, and of the next
                              one, and what the engine holds of two of them */
    uint64_t gpu_bytes;    /* device memory that a pair wants; 0 on the processor */
    uint64_t folder_bytes; /* disk space that the folder takes at most */
    uint64_t result_bytes; /* and ids and distances of the result */
    char backend[16];      /* "cpu", "cuda:0" */
    int32_t groups;        /* instead of shards, if points allow: groups of near points, at least;
                              0: do not come into question. Bytes above are the most of both */
    int64_t group_rows;    /* of a group, at most */
} kith_shard_plan;

/* Only shapes and types of the points are read. KITH_E_LIMIT where the limits of the context are
 * too small for any number of shards, or for the one that was asked for. */
KITH_API kith_status kith_plan_shards(kith_ctx *ctx, const kith_matrix *points,
                                      const kith_shard_params *params, kith_shard_plan *plan);

/* What a job did. Filled in as far as it came where it fails. */
typedef struct kith_shard_report {
    uint32_t struct_size; /* set by the caller to sizeof(kith_shard_report) */
    int32_t shards;
    int32_t exact;   /* 1: certified exact */
    int32_t rebuilt; /* shards whose file was damaged */
    int64_t steps;
    int64_t steps_stood; /* that an earlier run has left */
    int64_t steps_done;  /* that stand now */
    double seconds_total;
    double seconds_compute; /* in engines; divided by the total: the share that overlaps with, or is
                               not spent on, reading and writing */
    double seconds_wait;    /* for the disk: reading, writing, bringing to disk */
    double seconds_result;  /* the recall, and writing the result */
    uint64_t bytes_read;    /* of lists */
    uint64_t bytes_written;
    uint64_t peak_bytes;     /* most memory that kith held at once, points apart */
    uint64_t gpu_peak_bytes; /* most device memory */
    kith_recall recall;      /* of an approximate graph; rows 0: not estimated. equal_ids and
                                distance_ratio are 0 */
    int32_t groups;          /* shards are so many groups of near points that overlap; 0: runs of
                                rows */
    double groups_cover;     /* of a sample's true neighbours, those that share a group with their
                                point, in the groups that were found last; 0: none were looked for */
    double groups_wanted;    /* what it must be for groups to be taken */
    double groups_overlap;   /* groups that a point is in, in the mean */
    double seconds_sample;   /* solving the sample; a part of seconds_compute */
    double seconds_group;    /* finding groups; a part of seconds_compute, too */
    double seconds_rows;     /* for rows of groups to be gathered; a part of seconds_wait */
    double seconds_check;    /* until lists of groups could be read; a part of seconds_result */
    int64_t pairs_met;       /* of an exact graph: pairs of shards that met in this run, */
    int64_t pairs_skipped;   /* and that had nothing for each other, as bounds have shown */
    double rows_skipped;     /* of the pairs of rows in these, the share that bounds left out */
    int32_t parts; /* files that have the result, beside the one that names them; 0: one */
    int32_t reserved;
    kith_fingerprint points; /* of all points, as the result says it */
} kith_shard_report;

/* The graph of points in the file at path, by lists in the folder, which is made where there is
 * none; a process that is at work in it keeps others out. report may be NULL. When the result
 * stands, the folder's lists are removed (keep). Between steps the phase of the progress function
 * begins with the step: "shard 2 of 5", "pair 1+4 (7 of 10)".
 * Returns KITH_E_ARGUMENT (also for another job's folder), E_DATA (rows are counted from the first
 * of all), E_MEMORY, E_LIMIT, E_IO, E_FORMAT, E_DEVICE_MEMORY, E_UNSUPPORTED, E_CANCELLED; the
 * folder then has what was done. */
KITH_API kith_status kith_graph_shards(kith_ctx *ctx, const kith_matrix *points,
                                       const kith_shard_params *params, const char *folder,
                                       const char *path, kith_shard_report *report);

#ifdef __cplusplus
}
#endif
#endif
