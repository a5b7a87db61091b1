/* SPDX-License-Identifier: Apache-2.0
 * The tree on a GPU, for its drivers. */
#ifndef KIN_TREE_GPU_H
#define KIN_TREE_GPU_H

#include "exact/exact_search_gpu.h"
#include "tree/tree.h"
#include "tree/tree_kernels.h"

/* ---- tree_build_gpu.c ------------------------------------------------------------------------ */

/* A tree that is made in device memory. */

/* What kin_tree_make makes of the same points, byte for byte but for padded columns. rows: of a
 * metric that has a tree, up to KIN_TREE_GPU_MOST_COLS columns; firsts: device memory, the rows
 * that become points, ascending (NULL: all); points: how many, at least one. The tree is complete
 * when this returns. */
kith_status kin_tree_gpu_make(const kin_screen_gpu_device *on, const kin_screen_gpu_rows *rows,
                              const uint32_t *firsts, int64_t points, int64_t leaf_points,
                              kin_tree_gpu *tree);
/* Accepts a tree of zeros. */
void kin_tree_gpu_free(const kin_screen_gpu_device *on, kin_tree_gpu *tree);

/* Columns that its rows have. */
static inline int32_t kin_tree_gpu_wide(int32_t cols)
{
    return (cols + KIN_TREE_GPU_WIDE - 1) / KIN_TREE_GPU_WIDE * KIN_TREE_GPU_WIDE;
}

/* Device memory of a tree that is made, and the most while it is; rows and firsts not among them.
 */
uint64_t kin_tree_gpu_bytes(int64_t points, int32_t cols, int64_t leaf_points);
uint64_t kin_tree_gpu_peak_bytes(int64_t points, int32_t cols, int64_t leaf_points);

/* ---- Sizes ----------------------------------------------------------------------------------- */

/* Room of a list in a first walk; dtype: of the corpus; most_short: that shared memory holds
 * (tree_kernels.h). */
int32_t kin_tree_gpu_list_room(kith_dtype dtype, int64_t wanted, int32_t most_short);

/* Points a leaf that are fastest for so many columns: a warp looks at 64 at a time, in many columns
 * at 32 (tree_walk.cuh). */
static inline int64_t kin_tree_gpu_usual_leaf(int32_t cols)
{
    enum { MOST_COLS_OF_PAIRS = 32 };
    return cols <= MOST_COLS_OF_PAIRS ? 64 : 96;
}

/* Places that ask, of so many points, from which on it pays to bring rows near each other. */
static inline int64_t kin_tree_gpu_many(int64_t points)
{
    return points / 2;
}

/* Device memory of the corpus' rows by position, of which so many there are; 0: they are read where
 * they lie, which takes longer where they are short and lie anywhere. */
static inline uint64_t kin_tree_gpu_near_bytes(kith_dtype dtype, int32_t cols, kith_metric metric,
                                               int64_t positions)
{
    const bool few = dtype == KITH_F32 && cols < KIN_TREE_GPU_WIDE;
    return few && !kin_place_has(metric)
               ? kin_size_mul((uint64_t)positions, KIN_TREE_GPU_WIDE * sizeof(uint32_t))
               : 0;
}

/* Device memory of a first walk: lists, rows that ask and their order. */
uint64_t kin_tree_gpu_places_bytes(int64_t count, int32_t cols, int32_t capacity);

/* Device memory that a job takes, for matrices on the host; queries NULL: a graph. */
kin_exact_gpu_need kin_tree_gpu_plan_need(const kith_matrix *corpus, const kith_matrix *queries,
                                          const kin_request *request, uint64_t budget);

/* Queries of the host, of the query's or some, come to the device from now on, if all of the job
 * takes half of what is free at most. Whoever calls it ends it (kin_gpu_ahead_leave). */
void kin_tree_gpu_bring(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                        const kin_exact_gpu_query *query, const kith_matrix *queries);

/* ---- tree_solve_gpu.c ------------------------------------------------------------------------ */

/* From places before a tree to answers: packets go through the tree, what is left gets canonical
 * keys, lists that lost something are made again with more room. */

/* Numbers that kernels count in, one block of device memory. */
typedef struct kin_tree_gpu_counters {
    uint64_t met[3]; /* kin_tree_gpu_walk */
    uint64_t keys;
} kin_tree_gpu_counters;

/* A tree and what is done with it in one call. */
typedef struct kin_tree_gpu_solver {
    kin_screen_gpu_device on;
    const kin_tree_kernels *kernels;
    const kin_tree_gpu *tree;
    const kin_screen_gpu_prepared *corpus;
    const kin_request *request;      /* whose way through the tree it is; NULL: ours */
    int32_t wanted;                  /* points a list */
    kin_tree_gpu_counters *counters; /* device */
    int64_t slice;                   /* places of a launch, by the last one's time; 0: unknown */
    kin_screen_gpu_tally tally;      /* pairs: of a query and a point, computed */
} kin_tree_gpu_solver;

/* solver: on, tree, corpus, request and wanted are set, the rest is zero. */
kith_status kin_tree_gpu_solver_make(kin_hold *hold, kin_tree_gpu_solver *s);

/* Queries in an order. Device memory. */
typedef struct kin_tree_gpu_places {
    kin_screen_gpu_rows rows; /* that ask */
    const float *rounded;     /* of them, in the tree's units; NULL: the points of the tree */
    const float *lost;        /* by row of rounded */
    const uint32_t *order;    /* place -> row of rounded; NULL: the same */
    const uint32_t *ids;      /* place -> row of rows and of the outputs; KITH_ID_NONE: nobody */
    int64_t count;
    int32_t capacity; /* of a list; 0: that of a first walk */
    uint32_t *near;   /* as in kin_tree_gpu_finish; set by what solves them */
} kin_tree_gpu_places;

/* Rows that ask, in the units of a tree: device memory. count, ordered and plain are set before,
 * the rest is zero. */
typedef struct kin_tree_gpu_asked {
    int64_t count;
    int32_t wide;
    bool listed;  /* some rows, by ids */
    bool rounds;  /* rounded and lost are there */
    bool ordered; /* order is; and */
    bool plain;   /* it is that of the rows */
    uint32_t *ids;
    float *rounded;  /* count x wide */
    float *lost;     /* by row of rounded */
    uint32_t *order; /* of them, as they stand before the tree */
} kin_tree_gpu_asked;

/* ids: of rows, in host memory; NULL: 0, 1, ...; rows NULL: the ids alone. */
kith_status kin_tree_gpu_ask(const kin_tree_gpu_solver *s, kin_hold *hold,
                             const kin_screen_gpu_rows *rows, const uint32_t *ids,
                             kin_tree_gpu_asked *asked);
/* What walks have counted since the last time is added to the tally; *third: met[2]. Waits. */
kith_status kin_tree_gpu_read_counters(kin_tree_gpu_solver *s, uint64_t *third);

/* Sends places through the tree for the tally alone. Waits. */
kith_status kin_tree_gpu_look(kin_tree_gpu_solver *s, const kin_tree_gpu_places *places);
/* Answers of all places; parts: as many at a time as fit. */
kith_status kin_tree_gpu_solve(kin_tree_gpu_solver *s, kin_exact_gpu_answers *a,
                               const kin_tree_gpu_places *places, bool parts);

/* Room of a list in a first walk. */
int32_t kin_tree_gpu_capacity(const kin_tree_gpu_solver *s);

/* ---- Other ways ------------------------------------------------------------------------------ */

/* A way through a tree that a request brings in place of ours (kin_pipeline). Queries come in the
 * order of their rows, a graph's points in the tree's. */
typedef struct kin_tree_gpu_way {
    /* Why a GPU cannot go it for such a job, one line; NULL: it can. */
    const char *(*missing)(const kin_request *request);
    /* Fills the lists of all places, from 0 on, as the launch `walk` does; waits. What it takes to
     * choose leaves counts as the report's select, and not as its screen, which is timed around it.
     */
    kith_status (*walk)(const kin_tree_gpu_solver *s, const kin_tree_gpu_walk *whole);
    /* Device memory beside lists, of so many places before a tree of this height. */
    uint64_t (*bytes)(int32_t height, int64_t places);
} kin_tree_gpu_way;

/* NULL: ours. */
static inline const kin_tree_gpu_way *kin_tree_gpu_way_of(const kin_request *request)
{
    return request != NULL && request->pipeline != NULL ? request->pipeline->way : NULL;
}

/* Whether a tree was asked for, by method or by pipeline, so that nothing is tried. */
static inline bool kin_tree_gpu_named(const kin_request *request)
{
    return request->method == KITH_METHOD_TREE || kin_tree_gpu_way_of(request) != NULL;
}

/* ---- tree_search_gpu.c ----------------------------------------------------------------------- */

/* The tree on a GPU as an engine: the bytes of kin_tree_knn. Arguments are
 * checked in api/.
 *
 * Where no tree was named, a sample tells first whether the tree is the faster way
 * (tree_cost.c); where it is not, or where the tree does not fit into the device, nothing is
 * written and *declined is true. A tree that was named and does not fit: KITH_E_DEVICE_MEMORY. */

/* Neighbours that lists are made for. */
enum { KIN_TREE_GPU_MOST_K = 1 << 16 };

/* Why a GPU has no tree for such a job, one line; NULL: it has. */
const char *kin_tree_gpu_missing(const kin_request *request);

/* Whether a sample costs little beside all pairs, and the tree may be the faster way; queries NULL:
 * a graph. */
bool kin_tree_gpu_worth_trying(const kith_matrix *corpus, const kith_matrix *queries,
                               const kin_request *request);

/* A corpus and its tree that are kept in device memory: read-only once they are made. */
typedef struct kin_tree_gpu_corpus {
    kin_gpu *gpu;
    kith_matrix points; /* borrowed where `place` says that they lie on the device */
    uint32_t place;
    int64_t leaf_points; /* of the processor's tree of these points */
    kin_screen_gpu_prepared prepared;
    kin_tree_gpu tree;
} kin_tree_gpu_corpus;

/* Whatever it is worth. leaf_points: of a tree of the processor that there was, 0: by height, and 0
 * by columns. c: all zero on failure. */
kith_status kin_tree_gpu_corpus_make(kith_ctx *ctx, kin_gpu *gpu,
                                     const kin_screen_gpu_source *source, int32_t height,
                                     int64_t leaf_points, kin_tree_gpu_corpus *c);
/* Accepts one of zeros. */
void kin_tree_gpu_corpus_free(kith_ctx *ctx, kin_tree_gpu_corpus *c);
uint64_t kin_tree_gpu_corpus_bytes(const kin_tree_gpu_corpus *c); /* of device memory */
/* Any k that a GPU has a tree for, as often as wanted. */
kith_status kin_tree_gpu_corpus_search(kith_ctx *ctx, const kin_tree_gpu_corpus *corpus,
                                       const kin_exact_gpu_query *query);
/* Whether a tree was named, or a sample says that it pays; queries NULL: a graph. */
kith_status kin_tree_gpu_corpus_judge(kith_ctx *ctx, const kin_tree_gpu_corpus *corpus,
                                      const kin_exact_gpu_query *query, bool *takes);
/* What a search takes beside it. */
kin_exact_gpu_need kin_tree_gpu_corpus_need(const kin_tree_gpu_corpus *corpus,
                                            const kith_matrix *queries, const kin_request *request,
                                            uint64_t budget);

/* By one GPU. Without queries: the graph of the corpus' points. */
kith_status kin_tree_gpu_search_alone(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                                      const kin_exact_gpu_query *query, bool *declined);

/* ---- tree_radius_gpu.c ----------------------------------------------------------------------- */

/* All within a radius by the tree on a GPU: the table of kin_tree_radius, byte for byte, in host
 * memory; where the query's place has KIN_GPU_OUT_ON_DEVICE, on the device if there is room
 * for all of it. Of the corpus the distance, name and place are read, too. declined NULL: the tree
 * was named; else where all pairs are the faster way, or where the tree does not fit, nothing is
 * written and *declined is true. */
kith_status kin_tree_gpu_radius_alone(kith_ctx *ctx, kin_gpu *gpu,
                                      const kin_screen_gpu_source *corpus,
                                      const kin_exact_gpu_radius_query *query, kith_ranges *ranges,
                                      bool *declined);
/* Whether it may be the faster way. */
bool kin_tree_gpu_radius_worth_trying(const kith_matrix *corpus,
                                      const kin_exact_gpu_radius_query *query);
/* The same of what is kept, whatever it is worth. *ranges is all zero before, and on failure. */
kith_status kin_tree_gpu_corpus_radius(kith_ctx *ctx, const kin_tree_gpu_corpus *corpus,
                                       const kin_exact_gpu_radius_query *query,
                                       kith_ranges *ranges);

/* ---- tree_team_gpu.c ------------------------------------------------------------------------- */

/* The same by all GPUs of a team, where matrices lie on the host, each has enough rows, and the way
 * through the tree is ours; else, and where one has no room for its part, by `gpu` alone. */
kith_status kin_tree_gpu_search(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                                const kin_exact_gpu_query *query, bool *declined);
/* Whether so many rows that ask are divided; for all within a radius, whose tables are the host's,
 * in more columns alone. */
bool kin_tree_gpu_team_searches(const kin_gpu *gpu, int64_t rows, uint32_t place);
bool kin_tree_gpu_team_radii(const kin_gpu *gpu, const kith_matrix *asked, uint32_t place);

#endif
