/* SPDX-License-Identifier: Apache-2.0
 * Graphs by a descent, the choice between that and an exact one, and two graphs made one. */
#ifndef KIN_ENGINE_GRAPH_H
#define KIN_ENGINE_GRAPH_H

#include "engine/engine_filter.h"
#include "graph/graph_gpu.h"
#include "graph/graph_walk.h"

/* ---- By a descent (engine_descent.c): the loop that ends with a recall, on either device ----- */

/* Checked arguments. */
typedef struct kin_descent_job {
    kith_matrix points;
    kin_graph_request request;
    double recall;     /* wanted; 0: none */
    int64_t at;        /* K of recall@K */
    int64_t sample;    /* rows of each of the two samples, at most all of them; 0: none */
    bool may_lengthen; /* the caller leaves the lists to us */
} kin_descent_job;

/* What the request leaves open, as the engine on this device chooses. gpu NULL: the processor. */
static inline void kin_descent_complete(const kin_gpu *gpu, int64_t rows,
                                        kin_graph_request *request)
{
    if (gpu != NULL) {
        kin_graph_gpu_defaults(request, rows);
    } else {
        kin_graph_defaults(request, rows);
    }
}

/* gpu NULL: the processor. place: of exact_search_gpu.h. *report: all of it, where it succeeds. */
kith_status kin_descent_run(kith_ctx *ctx, kin_gpu *gpu, const kin_descent_job *job, uint32_t place,
                            const kith_neighbors *out, kith_descent_report *report);

/* On the device that is chosen for it. */
kith_status kin_engine_descent(kith_ctx *ctx, const kin_descent_job *job, const kith_neighbors *out,
                               kith_descent_report *report);

/* ---- Exactly, or by a descent (engine_descent.c) --------------------------------------------- */

typedef struct kin_choice {
    bool open; /* it may be either: by a descent where that is sooner by more than a doubt */
    bool descends;
    double exact_seconds; /* by which it was chosen; 0: there was no choice */
    double descent_seconds;
} kin_choice;

/* Whether a GPU would take it: *gpu, which is not held. */
kith_status kin_cost_finds_gpu(kith_ctx *ctx, const kin_descent_job *job, kin_gpu **gpu);

/* How a graph is made; the report tells the seconds. Of the job, which is not read where nothing is
 * open, shapes and types are read. gpu NULL: the processor. */
void kin_choose_on(kith_ctx *ctx, const kin_gpu *gpu, const kin_descent_job *job,
                   kin_choice *choice);
/* On the device that a descent would take. */
kith_status kin_choose(kith_ctx *ctx, const kin_descent_job *job, kin_choice *choice);
/* How a graph is made whose first rows are one set and the others another, and both have theirs. */
kith_status kin_choose_merge(kith_ctx *ctx, const kin_descent_job *job, int64_t first_rows,
                             kin_choice *choice);

/* ---- Two graphs made one (engine_merge.c): exactly, or by a descent that begins with both ---- */

/* Two sets in one matrix, and their graphs; of an empty set graph.rows is 0. */
typedef struct kin_merge_sets {
    kith_matrix points; /* checked */
    int64_t first_rows;
    kith_neighbors graph[2];
} kin_merge_sets;

/* Checked arguments. */
typedef struct kin_merge_job {
    kin_merge_sets sets;
    kin_choice choice;
    kin_descent_job descent;   /* where it descends or may; its request points into sets */
    kin_distance distance;     /* and the rest where it does not or may not: */
    kith_search_params params; /* of the searches across, by keys */
    uint32_t flags;            /* of the answer */
} kin_merge_job;

/* What both graphs allow to say of an exact answer. */
kith_exactness kin_merge_exactness(const kin_merge_sets *sets);
/* Exactly. */
kith_status kin_engine_merge(kith_ctx *ctx, const kin_merge_job *job, const kith_neighbors *out);
/* Host memory beside what a graph of all points takes, at most, of a way that was chosen. */
uint64_t kin_merge_bytes(const kin_merge_job *job);

/* ---- Across --------------------------------------------------------------------------------- */

/* What rows of two sets have nearest in one another, exactly, where each row knows how far is too
 * far: exact merges, and exact graphs from shards. */
enum { KIN_ACROSS_SIDES = 2 };

typedef struct kin_across {
    kith_matrix rows[KIN_ACROSS_SIDES];
    kin_within known[KIN_ACROSS_SIDES];
    kith_neighbors found[KIN_ACROSS_SIDES]; /* of rows of a side in the other one: ids and keys;
                                               lists that are shorter end with empty slots */
    kith_search_params params; /* by keys: the metric is not euclidean; the caller's k and method */
    bool suits_tree;           /* where the method is the library's choice, it is the tree */
    bool checked;              /* values are trusted, and the processor computes */
} kin_across;

/* Whether so many pairs are the processor's, which makes use of what rows know. */
kith_status kin_across_is_processors(kith_ctx *ctx, const kin_request *request, double pairs,
                                     bool *yes);
/* Whether the processor solves sets of such sizes by trees; of some rows that are left of them no
 * other way is better. */
bool kin_across_suits_tree(const kith_ctx *ctx, const kith_matrix *rows,
                           const kith_search_params *params);
/* suits_tree of two sets that `all` are the points of, where the processor computes (checked). */
void kin_across_aim(const kith_ctx *ctx, const kith_matrix *all, kin_across *across);
/* Seconds on the processor, at most: what limits and bounds leave out is not known before. Of rows
 * shapes and types are read. */
double kin_across_seconds(const kith_ctx *ctx, const kin_across *across);
kith_status kin_across_search(kith_ctx *ctx, kin_across *across);

/* kith_search of rows that were checked, where the processor computes and queries are so few
 * that keys of all pairs take less time than what is prepared else: *done. No radius. */
kith_status kin_across_few(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                           const kith_search_params *params, const kith_neighbors *out, bool *done);

/* ---- Walks on a graph ------------------------------------------------------------------------ */

/* Walks on a graph, and the exact answers that they are judged by, on either device: what a search
 * on a graph asks of engines.
 *
 * What is made of points and graph is read-only from then on; what a call makes of its queries is
 * the call's. So one kin_walks serves many calls, in several threads at once. */

/* What walks are made of. */
typedef struct kin_walks_source {
    kith_matrix points;          /* checked, with strides */
    const char *name;            /* of these, in messages */
    const kith_neighbors *graph; /* checked */
    kin_distance distance;
    kith_dtype asked;                   /* of the queries to come */
    int64_t k;                          /* ids a row that will be asked for; a GPU's alone */
    const kin_exact_gpu_corpus *corpus; /* of the points on that GPU, kept by the caller; or NULL */
    bool shared;                        /* by the team that it leads, many queries */
    const kin_exact_gpu_corpus *const *others; /* on the others, by number, kept; or NULL */
} kin_walks_source;

typedef struct kin_walks {
    kith_ctx *home; /* its memory */
    kin_gpu *gpu;   /* entered by whoever calls; NULL: the processor */
    kith_matrix points;
    kin_distance distance;
    bool integer;  /* queries are of the points' 8-bit type, costs are whole numbers */
    int64_t parts; /* of the graph */
    int64_t most;  /* the widest walk */
    uint64_t bytes;

    /* The processor's. */
    kin_hold hold;
    kin_prepared prepared;
    kin_graph_ground ground;

    /* A GPU's. */
    kin_graph_gpu_paths *paths;
} kin_walks;

/* Checks the values of the points; NULL in *out on failure. */
kith_status kin_walks_make(kith_ctx *ctx, kin_gpu *gpu, const kin_walks_source *source,
                           kin_walks **out);

void kin_walks_free(kin_walks *walks);

/* What is asked of them. */
typedef struct kin_walks_search {
    kith_matrix queries; /* checked, with strides */
    int64_t width;       /* under a filter: of points that are allowed */
    bool open;           /* nobody named a width or a recall */
    double recall;       /* 0: nothing is wanted */
    int64_t recall_at;
    int64_t sample; /* 0: none */
    uint64_t seed;
    int64_t meets;             /* 0: what serves many queries at once */
    uint32_t place;            /* of exact_search_gpu.h: of queries and out, on walks->gpu */
    const kith_neighbors *out; /* checked */
    kin_filter_job *filter;    /* NULL: none. The same search, exactly, but for corpus and distance,
                                  which are filled in. Of host memory alone */
} kin_walks_search;

/* Walks on a GPU under a filter (engine_filter_gpu.c), and what is picked of them. */
typedef struct kin_walks_pick {
    kith_ctx *ctx;
    const kin_walks *walks;
    kith_matrix queries;  /* host memory */
    const uint32_t *rows; /* which of the filter's queries these are; NULL: all of them */
    const kin_filter_job *filter;
    int64_t width;
    uint64_t seed;
} kin_walks_pick;
typedef struct kin_walks_picked {
    kin_graph_effort effort; /* added to */
    int64_t lacking;         /* queries that found fewer than k, */
    uint32_t *places;        /* their rows of `out`, and */
    uint32_t *lacking_rows;  /* who they are; the caller's, a place a query each */
} kin_walks_picked;
/* out: the first k of what walks kept and queries may find; rows of those that lack some are to be
 * written anew. */
kith_status kin_walks_pick_allowed(const kin_walks_pick *job, const kith_neighbors *out,
                                   kin_walks_picked *picked);

/* As kith_search of that method. walks->gpu is entered. Fills all of *report but its size. */
kith_status kin_walks_answer(kith_ctx *ctx, const kin_walks *walks, const kin_walks_search *job,
                             kith_walk_report *report);
/* By walks that are made for it, on the device that is chosen for it. */
kith_status kin_engine_walks(kith_ctx *ctx, const kin_walks_source *source,
                             const kin_walks_search *job, kith_walk_report *report);

#endif
