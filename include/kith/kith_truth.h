/* SPDX-License-Identifier: Apache-2.0
 *
 * The course of kith.h goes on: ground truth. kith.h includes this file, nobody else needs to. */
#include "kith/kith.h" /* before the guard: headers behind this one need its types */

#ifndef KITH_KITH_TRUTH_H
#define KITH_KITH_TRUTH_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 17. Ground truth ----------------------------------------------------------------------- */

/* The exact neighbours of queries in a corpus that fits in no memory: several matrices, mapped from
 * files, whose rows are numbered one behind the other in 64 bits. The corpus is read once, part
 * after part; each part is searched as by kith_search, and its lists are merged into those so far.
 *
 * Ties: how many rows of the corpus are exactly as near to a query as its k-th neighbour (have the
 * same canonical key), within its list and beyond. 1 is none but the k-th itself; 0, the list is
 * not full. */

/* What a call does. */
typedef enum kith_truth_task {
    KITH_TRUTH_FIND = 0,
    KITH_TRUTH_VERIFY = 1 /* path was written by an earlier call: inputs and files are held against
                             its certificate, and some queries are computed anew, by nothing but
                             canonical distances to all rows */
} kith_truth_task;

/* Called when so many rows of the corpus are done. A result other than 0 ends the job, which is
 * KITH_E_CANCELLED then. */
typedef int (*kith_truth_fn)(void *arg, int64_t rows);

/* Every field: 0 = the library's choice. Of the task VERIFY metric, k, format, ties_path and
 * first_id are the certificate's, and not read. */
typedef struct kith_truth_params {
    uint32_t struct_size; /* set by kith_truth_params_default() */
    kith_metric metric;   /* 0 = KITH_EUCLIDEAN; not KITH_CUSTOM */
    int64_t k;            /* neighbours a query; no default, 0 is an error */
    kith_method method;   /* as of kith_search */
    kith_truth_task task;
    const kith_filter *filter; /* NULL = all rows. Rows are those of the whole corpus, numbered from
                                  0. Rules same and other */
    const char *path;      /* the truth is written here: as of kith_result_save, ids below 2^32 - 1
                              (ivecs, ibin, npz: 2^31), no text; or .npy, an array of int64 without
                              distances. NULL: nowhere. Beside it stand PATH.json, the certificate, and
                              while the job is at work PATH.partial, from which one that was stopped
                              goes on behind its last whole part, and one that was killed behind the
                              last that was written there, to the same bytes; writing there takes at
                              most a twentieth of the time */
    kith_format format;    /* 0: by the name of path */
    uint32_t restart;      /* 1: begins anew, whatever PATH.partial holds */
    const char *ties_path; /* the ties, one number a query: .ibin .npy .csv .tsv; NULL: nowhere */
    const char *const *names; /* of the matrices of the corpus, then of the queries: files, which
                                 the certificate names. NULL: they have none */
    const char *job; /* lines of text that say what else the answer depends on, such as sizes and
                        times of files; PATH.partial of other lines, queries, filter, parameters or
                        matrices (by shape, first and last rows) is refused. NULL = nothing */
    uint32_t mapped; /* 1: the corpus lies in mapped files, whose pages are given back when they are
                        done with */
    uint32_t reserved;
    int64_t part_rows;  /* of the corpus that are searched at a time, at most; 0 = what a fourth of
                           the context's memory limit holds, at most 2^30 bytes. Where they do not
                           fit they are halved */
    uint64_t first_id;  /* of the corpus' first row */
    uint64_t *ids;      /* NULL, or queries.rows x k; KITH_ID64_NONE in empty slots */
    double *distances;  /* NULL, or canonical distances as of kith_search */
    int64_t *ties;      /* NULL, or one for each query */
    kith_truth_fn take; /* NULL = nobody is told */
    void *take_arg;
    int64_t sample; /* of VERIFY: queries that are computed anew; 0 = 10, < 0 = none */
    uint64_t seed;  /* which ones */
    uint32_t flags; /* KITH_WITHIN_RADIUS: not the k nearest, but all rows within radius. k is 0
                       then, path .range (big-ann-benchmarks' range file, 31 bits a number) or
                       .kith, there are no ties, and no ids and distances */
    uint32_t reserved2;
    double radius;        /* a distance is at most this (inner_product: at least); finite */
    kith_ranges **ranges; /* NULL, or *ranges gets these lists, as of kith_radius, ids of 32 bits:
                             kith_ranges_free */
} kith_truth_params;
#define KITH_ID64_NONE UINT64_MAX

static inline kith_truth_params kith_truth_params_default(void)
{
    kith_truth_params params;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    return params;
}

/* What was done. It is filled where the call fails, too, as far as that came. */
typedef struct kith_truth_report {
    uint32_t struct_size; /* set by the caller to sizeof(kith_truth_report) */
    int32_t matrix;       /* of the corpus that was at work last */
    int64_t k;
    kith_metric metric;
    int32_t files; /* matrices of the corpus */
    int64_t queries;
    int64_t rows;        /* of the corpus */
    int64_t parts;       /* searched by this call */
    int64_t resumed;     /* rows that an earlier call has left */
    int64_t full;        /* queries with k neighbours */
    int64_t tied;        /* of them, with rows beyond the list that are as near as the k-th */
    int64_t tied_beyond; /* those rows, of all queries */
    int64_t most_ties;   /* the largest number of ties */
    int64_t recounted; /* times that a query's ties were counted pair by pair in a part, since they
                          went beyond what the search had found */
    int64_t sample;    /* VERIFY: queries computed anew; all are as they were where it is KITH_OK */
    double seconds_search;
    double seconds_wait;  /* for checksums and states, beyond the search that they run beside */
    double seconds_merge; /* of lists; pages given back */
    double seconds_write; /* truth, ties, certificate */
    char backend[16];
    char screen[16];    /* of the last part */
    double radius;      /* with KITH_WITHIN_RADIUS; then the counts of lists of k are 0 */
    int64_t found;      /* rows within it, of all queries */
    int64_t most_found; /* the longest list */
    uint32_t within;    /* 1: of a radius */
    uint32_t reserved;
} kith_truth_report;

/* corpus: `count` matrices of one number of columns, at least k rows in all (without a filter).
 * queries and corpus may be of different types. VERIFY: count 0 and NULLs stand for the files that
 * the certificate names. Memory: queries x k x 28 bytes, and what a search of a part holds.
 * Returns what kith_search and kith_result_save return; KITH_E_ARGUMENT also for a PATH.partial of
 * another job; VERIFY: KITH_E_DATA for what is not as the certificate says, KITH_E_FORMAT for none.
 */
KITH_API kith_status kith_truth(kith_ctx *ctx, const kith_matrix *corpus, int32_t count,
                                const kith_matrix *queries, const kith_truth_params *params,
                                kith_truth_report *report);

#ifdef __cplusplus
}
#endif

#endif
