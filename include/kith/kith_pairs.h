/* SPDX-License-Identifier: Apache-2.0
 *
 * The course of kith.h goes on: pairs. kith.h includes this file, nobody else needs to. */
#include "kith/kith.h" /* before the guard: headers behind this one need its types */

#ifndef KITH_KITH_PAIRS_H
#define KITH_KITH_PAIRS_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 16. Pairs ------------------------------------------------------------------------------ */

/* Every pair of rows within a radius, once: of one set pairs i < j, of two sets i of points and j
 * of others. Pairs come in chunks, ordered by (i, key, j); a row's pairs are never divided among
 * chunks. Memory does not grow with the number of pairs.
 *
 * chunk: pairs->query_ids are i, pairs->corpus_ids are j, distances those of i as the query and j,
 * canonical; all valid until the function returns. Called from the thread that called kith. A
 * result other than 0 ends the job, which is a success then. */
typedef int (*kith_pairs_fn)(void *arg, const kith_pairs *pairs, const double *distances);

/* Which rows are kept, so that what is left has fewer near duplicates. FIRST: row by row by rising
 * id, whatever has no kept row of a smaller id within the radius. CENTRAL: of each component the
 * row that has most neighbours, of several the one with the smallest id. */
typedef enum kith_keep { KITH_KEEP_FIRST = 0, KITH_KEEP_CENTRAL = 1 } kith_keep;

typedef struct kith_pairs_params {
    uint32_t struct_size; /* set by kith_pairs_params_default() */
    kith_metric metric;   /* 0 = KITH_EUCLIDEAN */
    double radius; /* a distance is at most this (inner_product: at least), as of kith_radius */
    kith_method method; /* as of kith_radius */
    kith_keep keep;
    kith_pairs_fn take; /* NULL, and no path = pairs are counted alone, without chunks where there
                           is neither a filter nor a limit, and no labels and kept */
    void *take_arg;
    const char *path; /* NULL, or pairs are written to this file, too, whole or not at all, as
                         chapter 9 says: .npy, an array of (i, j, distance) as uint32, uint32 and
                         float64; .kith, the same with checksums (kith_pairs_read); .csv and .tsv,
                         lines "i,j,distance", "-" standard output. A job that ends early by its
                         limit or by take writes what was told. One of .npy or .kith that was
                         killed, cancelled or failed goes on where it was: take, labels and kept
                         first get what stands, and the file will be the same to the last byte */
    const kith_filter *filter; /* NULL = all pairs. Rows of the corpus are others, queries points;
                        of one set both rows of a pair must be allowed. Rules same and other. What
                        is not allowed is dropped when it has been found: no time is saved */
    kith_distance_fn custom;
    void *custom_arg;
    int64_t limit;      /* pairs, the job ends before there is one more; 0 = no limit */
    int64_t first_row;  /* pairs of this i and later ones: where another job ended */
    int64_t chunk_rows; /* rows i of the first chunk, at most; 0 = all, or, where a sample says that
                           their pairs have no room, fewer; an eighth where a tree may answer, and
                           no more than take some minutes where a path is given. Later ones have by
                           what was found */
    int64_t chunk_pairs; /* pairs of a chunk before the filter, at most, unless it has but one row;
                            0 = by the memory limit, at most 2^22. Each takes 36 bytes while its
                            chunk is put together */
    uint32_t *labels;    /* NULL, or one for each of points: the smallest id of its component, rows
                            being connected by pairs. Of one set, from first_row 0 on; so is */
    uint8_t *kept;  /* NULL, or one for each of points: 1 for those that are kept. Of a job that
                       ended early both are of the pairs that were told */
    int64_t sample; /* of the plan: rows i that are looked at; 0 = 1,000 */
    uint64_t seed;  /* which rows */
    const double *period; /* as in kith_search_params */
    const char *job; /* NULL, or lines of text that say what the job is beyond what kith sees of
                        it: one with other lines does not go on, nor does one by a function
                        of the caller's without any. Of .npy and .kith; so is */
    int32_t restart; /* 1: what an earlier job has left there is forgotten; of .npy and .kith */
    int32_t reserved;
} kith_pairs_params;

static inline kith_pairs_params kith_pairs_params_default(void)
{
    kith_pairs_params params;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    return params;
}

/* What was done. kith_ctx_report has the rest. */
typedef struct kith_pairs_report {
    uint32_t struct_size; /* set by the caller to sizeof(kith_pairs_report) */
    int32_t complete;   /* 1: these are all pairs; 0: the limit or the caller's function ended it */
    int64_t count;      /* pairs told */
    int64_t next_row;   /* all pairs of smaller i are told; a limit may have cut those of it */
    int64_t chunk_rows; /* with first_row = next_row the same chunks go on */
    int64_t chunks;
    int64_t divided;       /* chunks that held too many pairs and were divided */
    int64_t largest_chunk; /* pairs */
    int64_t resumed;       /* of count: pairs that stood in the file already */
} kith_pairs_report;

/* others NULL: pairs of points. Cost: each unordered pair of rows is compared once where all are
 * one chunk, else about 4/3 times, by the engines of kith_radius, on the device of the
 * context; a chunk that is divided is begun anew. report may be NULL. Returns KITH_E_ARGUMENT,
 * E_DATA, E_MEMORY, E_LIMIT, E_UNSUPPORTED, E_CANCELLED, and with a path those of chapter 9; labels
 * and kept then hold nothing of use, chunks that were told are right. */
KITH_API kith_status kith_pairs_find(kith_ctx *ctx, const kith_matrix *points,
                                     const kith_matrix *others, const kith_pairs_params *params,
                                     kith_pairs_report *report);

/* A .kith of pairs as kith_pairs_find has written it, after its checksums are found right, in
 * chunks that end with a row. take NULL: none is told, *report has their number. Returns
 * KITH_E_ARGUMENT, E_MEMORY, E_IO, E_FORMAT. */
KITH_API kith_status kith_pairs_read(kith_ctx *ctx, const char *path, kith_pairs_fn take,
                                     void *take_arg, kith_pairs_report *report);

/* How many pairs there will be, of params.sample rows, each compared with all others. */
typedef struct kith_pairs_plan {
    uint32_t struct_size; /* set by the caller to sizeof(kith_pairs_plan) */
    int32_t reserved;
    double pairs; /* expected, before the filter */
    double low;   /* 95 % interval over rows; equal to pairs where all rows were looked at. A few */
    double high;  /*   rows with very many pairs may stand in no sample */
    int64_t sample;
    int64_t most_of_a_row; /* neighbours of a row of the sample, at most */
    uint64_t chunk_bytes;  /* that pairs of a chunk take at most, unless one row has more */
} kith_pairs_plan;
KITH_API kith_status kith_plan_pairs(kith_ctx *ctx, const kith_matrix *points,
                                     const kith_matrix *others, const kith_pairs_params *params,
                                     kith_pairs_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
