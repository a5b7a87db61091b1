/* SPDX-License-Identifier: Apache-2.0
 * Exact jobs whose queries may find some rows of the corpus alone: a bitmap of rows, groups, or
 * both (kith_filter). They are made of jobs without a filter, whichever engine and device these
 * take: a pair that is not allowed is not compared, or dropped before it is counted. */
#ifndef KIN_ENGINE_FILTER_H
#define KIN_ENGINE_FILTER_H

#include "engine/engine_exact.h"

#include <math.h>

/* Checked arguments. */
typedef struct kin_filter_job {
    kith_matrix corpus;
    kith_matrix queries; /* of a graph the corpus */
    bool graph;
    bool resident;       /* the corpus lies on a GPU, wherever the queries do */
    bool declined;       /* pair by pair on a GPU was looked at: it is not sooner */
    kin_request request; /* as without a filter, for lists of k */
    kith_filter filter;
    bool there;      /* groups and query_groups may lie on the GPU; nobody has looked at such */
    int64_t lists;   /* of a query: kin_filter_count_lists */
    int32_t threads; /* for kin_filter_bytes */
} kin_filter_job;
static inline kin_knn_job kin_filter_without(const kin_filter_job *job)
{
    return (kin_knn_job){job->corpus, job->queries, job->graph, job->request};
}

/* Says that a number is below 0. */
kith_status kin_filter_refuse_number(kith_ctx *ctx, const char *name, int64_t row, int64_t number);
/* Groups on the GPU are read on the host from now on, as long as the hold lives. */
kith_status kin_filter_fetch(kin_hold *hold, kin_gpu *gpu, kin_filter_job *job);

/* Lists of k that a query has: with rule each one for each different number of `rows` groups, which
 * are at least 0; else 1. */
kith_status kin_filter_count_lists(kith_ctx *ctx, const kith_filter *filter, int64_t rows,
                                   int64_t *lists);

/* Nothing is forbidden. */
bool kin_filter_allows_all(const kith_filter *filter, int64_t rows);
/* Rows that a bitmap for all queries allows; all of them where there is none. */
int64_t kin_filter_count_allowed(const kith_filter *filter, int64_t rows);

/* Checksum of bitmaps and groups, of so many rows of the corpus and queries. */
uint64_t kin_filter_sum(const kith_filter *filter, int64_t rows, int64_t queries);

/* out: queries.rows x (lists * k). */
kith_status kin_engine_filter(kith_ctx *ctx, const kin_filter_job *job, const kith_neighbors *out);

/* A GPU that was entered, where matrices and outputs lie (exact_answer_gpu.h), and the outputs. */
typedef struct kin_filter_place {
    kin_gpu *gpu;
    uint32_t place;
    const kith_neighbors *out;
} kin_filter_place;

/* The same there, if all is sooner compared pair by pair, or a graph across a few groups is one job
 * of the engine (kin_exact_gpu_across); else *done is false, and nothing was done.
 * job->request.exclude lies beside the matrices. */
kith_status kin_engine_filter_on_gpu(kith_ctx *ctx, const kin_filter_job *job,
                                     const kin_filter_place *where, bool *done);
/* The same of host memory, on the GPU that the context would take, if any. */
kith_status kin_filter_try_gpu(kith_ctx *ctx, const kin_filter_job *job, const kith_neighbors *out,
                               bool *done);

/* What it holds of the GPU that the context would take, at most, where that is known before; else
 * *bytes is 0: no more than a job without the filter. Of matrices, data may be NULL. */
kith_status kin_filter_gpu_bytes(kith_ctx *ctx, const kin_filter_job *job, uint64_t *bytes);

/* What it holds beside what a job without the filter holds, at most. Longer lists, which bitmaps a
 * query ask engines for, are not in it. */
uint64_t kin_filter_bytes(const kin_filter_job *job);

/* ---- Groups ---------------------------------------------------------------------------------- */

/* Different numbers of groups have an index each, rising. */
typedef struct kin_filter_numbers {
    int64_t most;     /* numbers that may differ */
    uint64_t *number; /* count of them, by index; or, of small ones, the index, by number */
    bool table;
    int64_t count;
} kin_filter_numbers;

void kin_filter_numbers_name(kin_layout *layout, void *job);
void kin_filter_number(const kin_filter_job *job, kin_filter_numbers *numbers);
/* NULL: all rows are of one group. */
void kin_filter_index_numbers(const kin_filter_numbers *numbers, const int64_t *groups,
                              int64_t rows, uint32_t *index);

/* ---- Parts -----------------------------------------------------------------------------------
 *
 * Some queries against some rows, by the engines that know of no filter. What a part finds goes
 * into the lists so far.
 *
 *     corpus   . x . x x . x .          rows of the part, rising
 *                 \ | \ | /
 *     copy        0 1 2 3               the engine's ids rise with them: ties are decided alike
 *
 * Lists so far have the distances of a metric by which they can be merged (`far`): what euclidean
 * has is its square, since two squares may have one root; all others have their own. */
typedef struct kin_filter_run {
    kith_ctx *ctx;
    const kin_filter_job *job;
    kin_prepared corpus;
    kin_prepared own_queries;
    const kin_prepared *queries; /* those, or of a graph the corpus */
    kin_request request;         /* of parts: by `far`, no radius, and nobody is left out but of a
                                    graph a point itself */
    int32_t threads;
    bool knows;    /* the processor computes, and makes use of what lists know */
    bool merges;   /* more than one part has rows for a list */
    uint32_t *ids; /* queries * lists, k of each: the lists so far, empty slots last */
    double *far;   /* the same; of empty slots infinity (inner_product: negative) */
} kin_filter_run;

/* Some rows of the corpus, and some queries; ids rise. */
typedef struct kin_filter_part {
    const uint32_t *rows;
    int64_t row_count;
    const uint32_t *queries;
    int64_t query_count;
    int64_t group; /* which of a query's lists */
} kin_filter_part;

/* Leaves out what a filter forbids of lists that were found whole; numbers: the queries' groups.
 * counts: their lengths alone are wanted. Not by rule each. */
void kin_filter_ranges(const kith_filter *filter, const int64_t *numbers, bool counts,
                       kith_ranges *ranges);

/* What an empty slot has in place of a distance; what lists are ordered by; the row that a query
 * may not find; row of the lists. */
static inline double kin_filter_nothing(const kin_filter_run *run)
{
    return run->request.distance.metric == KITH_INNER_PRODUCT ? -INFINITY : INFINITY;
}

static inline double kin_filter_key(const kin_filter_run *run, double far)
{
    return run->request.distance.metric == KITH_INNER_PRODUCT ? -far : far;
}

static inline uint32_t kin_filter_left_out(const kin_filter_run *run, uint32_t query)
{
    if (run->job->graph) {
        return (run->request.flags & KITH_INCLUDE_SELF) != 0 ? KITH_ID_NONE : query;
    }
    return run->request.exclude != NULL ? run->request.exclude[query] : KITH_ID_NONE;
}

static inline int64_t kin_filter_list(const kin_filter_run *run, int64_t query, int64_t group)
{
    return query * run->job->lists + group;
}

/* Whether so many rows and queries are sooner compared pair by pair (kin_direct_pick) than by an
 * engine. shared: the rows are those of all the queries. */
bool kin_filter_is_few(const kin_filter_run *run, double rows, double queries, bool shared);

/* Queries against rows. Bitmaps a query, and the id that is left out, are minded. */
kith_status kin_filter_search(kin_filter_run *run, const kin_filter_part *part);
/* Of a graph, no bitmap a query: the rows are queries, too, and each pair is compared once. */
kith_status kin_filter_graph(kin_filter_run *run, const kin_filter_part *part);
/* The same for two sets of a graph: rows of each against those of the other. */
kith_status kin_filter_across(kin_filter_run *run, const kin_filter_part *part);
/* Pair by pair, into lists that may hold ids that the pick takes again, and no others. */
kith_status kin_filter_pick(kin_filter_run *run, const kin_pick *pick);

/* What one of these holds beside an engine, for all rows and queries. Of the run job, request and
 * threads are read. */
void kin_filter_part_plan(kin_layout *plan, kin_filter_run *run);

#endif
