/* SPDX-License-Identifier: Apache-2.0
 * Walks on a graph, and the exact answers that they are judged by, on either device: what a search
 * on a graph asks of engines.
 *
 * What is made of points and graph is read-only from then on; what a call makes of its queries is
 * the call's. So one kin_walks serves many calls, in several threads at once. */
#ifndef KIN_ENGINE_WALKS_H
#define KIN_ENGINE_WALKS_H

#include "engine/engine_filter.h"
#include "graph/graph_gpu.h"
#include "graph/graph_walk.h"

/* What walks are made of. */
typedef struct kin_walks_source {
    kith_matrix points;          /* checked, with strides */
    const char *name;            /* of these, in messages */
    const kith_neighbors *graph; /* checked */
    kin_distance distance;
    kith_dtype asked;               /* of the queries to come */
    int64_t k;                      /* ids a row that will be asked for; a GPU's alone */
    const kin_fused_corpus *corpus; /* of the points on that GPU, kept by the caller; or NULL */
    bool shared;                    /* by the team that it leads, many queries */
    const kin_fused_corpus *const *others; /* on the others, by number, kept; or NULL */
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
    uint32_t place;            /* of fused_search.h: of queries and out, on walks->gpu */
    const kith_neighbors *out; /* checked */
    kin_filter_job *filter;    /* NULL: none. The same search, exactly, but for corpus and distance,
                                  which are filled in. Of host memory alone */
} kin_walks_search;

/* Walks on a GPU under a filter (engine_walks_pick.c), and what is picked of them. */
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
