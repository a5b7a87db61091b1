/* SPDX-License-Identifier: Apache-2.0
 * Exact engines behind the public functions: what is prepared, screened or computed directly, and
 * written. Arguments are checked in api/. */
#ifndef KIN_EXACT_SEARCH_H
#define KIN_EXACT_SEARCH_H

#include "exact/exact_answer.h"
#include "metric/metric_functions.h"
#include "screen/screen_corpus.h"

#include <stdatomic.h>

/* ---- What a job will hold at most ------------------------------------------------------------ */

typedef struct kin_plan {
    bool screens;
    uint64_t prepared_bytes; /* what is made of corpus and queries */
    uint64_t state_bytes;    /* candidate lists */
    uint64_t peak_bytes;     /* most that is held at once; outputs are not counted */
    uint64_t least_bytes;    /* the same where the cheapest type does that the job may take */
    uint64_t least_prepared_bytes;
} kin_plan;

/* queries NULL: a graph of the corpus. known: of the rows of the corpus; kin_prepare_unknown where
 * nothing is, for the case that takes most. */
kin_plan kin_plan_exact(const kith_matrix *corpus, const kith_matrix *queries,
                        const kin_request *request, kin_rows_known known, int32_t threads);

/* ---- Neighbours within a radius -------------------------------------------------------------- */

/* Neighbours within a radius, as they are found, and the table that is made of them. */

typedef struct kin_radius_request {
    kin_distance distance;
    double radius;
    const double *radii;  /* by query; NULL: radius for all */
    bool leaves_self_out; /* query i is row own_row + i of the corpus, and not its own neighbour */
    bool later_alone;     /* it is, and has the rows behind it within one radius for all */
    int64_t own_row;
    bool count_only;
    int64_t most; /* more neighbours that are kept end the job with KITH_E_LIMIT; 0: any number */
} kin_radius_request;

static inline double kin_radius_of(const kin_radius_request *request, int64_t query)
{
    return request->radii != NULL ? request->radii[query] : request->radius;
}

static inline bool kin_radius_leaves(const kin_radius_request *request, int64_t query, int64_t id)
{
    return request->leaves_self_out && id == request->own_row + query;
}

/* Ids below this are no neighbours of the query. */
static inline int64_t kin_radius_least(const kin_radius_request *request, int64_t query)
{
    return request->later_alone ? request->own_row + query + 1 : 0;
}

/* A key that no pair within the radius is above. */
static inline double kin_radius_key(kith_metric metric, double radius)
{
    if (metric == KITH_INNER_PRODUCT) {
        return -radius;
    }
    if (metric == KITH_HAVERSINE) {
        return kin_half_sine_squared(radius < KIN_PI ? radius : KIN_PI) * KIN_BOUND_WIDEN;
    }
    return metric == KITH_EUCLIDEAN ? radius * radius * KIN_BOUND_WIDEN : radius;
}

/* Keeps its context: the blocks are its. */
struct kith_ranges {
    kith_ctx *ctx;
    kith_lists lists;
    struct kin_gpu *gpu; /* whose memory the lists are, in these blocks; NULL: the host's */
    void *blocks[2];
};
/* For tables that are made in stripes: room for the lists of the first `rows` rows, whose offsets
 * are known, and for those of the others as many entries a row. *room: entries that there is room
 * for.
 */
kith_status kin_ranges_grow(kith_ctx *ctx, kith_ranges *ranges, int64_t *room, int64_t rows);
/* Gives the lists back. */
void kin_ranges_clear(kith_ctx *ctx, kith_ranges *ranges);
/* Tables of rows that stand behind one another become one. *ranges is all zero before, and on
 * failure. */
kith_status kin_ranges_join(kith_ctx *ctx, const kith_ranges *parts, int32_t count,
                            kith_ranges *ranges);

/* The failure of a job that found more than its most. */
kith_status kin_hits_too_many(kith_ctx *ctx, const kin_radius_request *request);

typedef struct kin_hit_chunk kin_hit_chunk;

typedef struct kin_hits {
    kith_ctx *ctx;
    const kin_radius_request *request;
    const kin_groups *groups; /* of the corpus: a hit is a group, by its first */
    const kin_rows *queries;
    atomic_int_fast64_t *counts; /* by query: ids within reach, degenerate rows apart */
    atomic_int_fast64_t found;   /* those of full chunks, where the request has a most */
    kin_hit_chunk **chunks;      /* by thread */
} kin_hits;

kith_status kin_hits_make(kith_ctx *ctx, const kin_radius_request *request,
                          const kin_groups *groups, const kin_rows *queries, kin_hits *hits);
void kin_hits_free(kin_hits *hits);

/* A group at this key from the query; passed over when that is beyond the query's radius. Each pair
 * is offered once. Thread-safe for different threads. */
kith_status kin_hits_offer(kin_hits *hits, int32_t thread, uint32_t query, uint32_t first,
                           double key);

/* After the last offer: degenerate rows join, groups become ids, rows are sorted by (key, id).
 * *ranges is all zero before; what it got stays its own when this fails. */
kith_status kin_hits_finish(kin_hits *hits, kith_ranges *ranges);

/* Each point against all others. */
kith_status kin_exact_graph(kith_ctx *ctx, const kith_matrix *points, const kin_request *request,
                            const kith_neighbors *out);

/* Shadows of a corpus for such a request, unless it shall skip nothing. */
kith_status kin_exact_shadows(kith_ctx *ctx, const kin_request *request, const kin_shadow_job *job,
                              kin_prepared *prepared);

/* Queries against a corpus that kin_prepare_rows and kin_prepare_corpus have made ready (for direct
 * metrics, kin_prepare_rows alone). */
kith_status kin_exact_search(kith_ctx *ctx, const kin_prepared *corpus, const kith_matrix *queries,
                             const kin_request *request, const kith_neighbors *out);

/* Both directions from one product. */
kith_status kin_exact_both(kith_ctx *ctx, const kith_matrix *a, const kith_matrix *b,
                           const kin_request *request, const kith_neighbors *ab,
                           const kith_neighbors *ba);

/* Queries that a search takes at a time. */
int64_t kin_exact_stripe(const kin_frame *frame, int64_t wanted);

/* A side's lists and what writes them, in the order of the engines: kept lists, and what comes and
 * goes beside them. Sets and covers of the screen may be shapes; its lists are made of them.
 * wanted: ids an answer. */
void kin_exact_plan_screen(kin_layout *plan, kin_screen *shape, int64_t wanted, int32_t threads);

/* ---- All neighbours within a radius (exact_radius.c) ----------------------------------------- */

/* queries NULL: each point of the corpus against all of them. *ranges is all zero before; what it
 * got stays its own when this fails. */
kith_status kin_radius_run(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                           const kin_radius_request *request, kith_ranges *ranges);
/* The same of a corpus that is ready as for kin_exact_search. */
kith_status kin_radius_search(kith_ctx *ctx, const kin_prepared *corpus, const kith_matrix *queries,
                              const kin_radius_request *request, kith_ranges *ranges);

/* ---- All pairs, without a screen (exact_direct.c) -------------------------------------------- */

/* Metrics without a matrix product: canonical keys of all pairs, the k first of each row kept. */

/* queries == corpus: a graph. Both after kin_prepare_rows. */
kith_status kin_direct_run(kith_ctx *ctx, const kin_prepared *corpus, const kin_prepared *queries,
                           const kin_request *request, const kith_neighbors *out);

/* Lists of the answer whose queries have their own rows of the corpus to be compared with. */
typedef struct kin_picked {
    int64_t query;
    int64_t list;        /* row of the answer that is written, whole or as far as there are rows */
    const uint32_t *ids; /* different ones, in any order */
    int64_t count;       /* 0: nothing is written */
} kin_picked;
typedef struct kin_pick {
    int64_t lists;
    int64_t room;   /* ids that take() may write */
    int64_t shared; /* Ids that lists one behind another have in common, at most: rows that are
                       expanded once. They do not stand in `room`. 0: lists have none */
    /* Of list i < lists; ids may stand in `room`. */
    kin_picked (*take)(const void *arg, int64_t i, uint32_t *room);
    const void *arg;
} kin_pick;

/* The k first of each list's own rows; request.exclude and, where queries == corpus, the flags say
 * which id is left out. */
kith_status kin_direct_pick(kith_ctx *ctx, const kin_prepared *corpus, const kin_prepared *queries,
                            const kin_request *request, const kin_pick *pick,
                            const kith_neighbors *out);

/* What kin_direct_pick holds while it runs; of the pick room and shared are read, as below. */
void kin_direct_pick_plan(kin_layout *plan, const kin_prepared *corpus, const kin_prepared *queries,
                          const kin_request *request, const kin_pick *pick, int32_t threads);

/* What kin_direct_run holds; of both only matrix and distance are read. */
void kin_direct_plan(kin_layout *plan, const kin_prepared *corpus, const kin_prepared *queries,
                     const kin_request *request, int32_t threads);

/* ---- Graphs made one, points that leave ------------------------------------------------------ */

/* Lists of two graphs made one: each row's own list, with ids alone, and the list of what it has
 * nearest in the other set, with canonical keys, become the first k of both by (key, id). */

/* Rows of one set, and what is known of their neighbours. */
typedef struct kin_merge_side {
    const char *name;             /* of the graph, for messages */
    int64_t first;                /* row of all points at which the set begins */
    const kith_neighbors *graph;  /* ids count from `first`, in any order, empty slots among them */
    int64_t other_first;          /* the other set's, from which the ids of `across` count */
    const kith_neighbors *across; /* rows of the set: ids, and in distances64 the keys, ascending by
                                     (key, id), empty slots last; k 0: nothing is known of them */
    bool may_be_short;            /* a list of too few ids is no error, what it leaves is empty */
    const uint32_t
        *across_rows;           /* whose rows those of `across` are; NULL: of all rows of the set */
    const uint32_t *other_rows; /* what rows of the other set ids of `across` name; NULL: those */
    bool written;   /* out has the own lists: rows with nothing across stay. Only then may
                       across_rows be set */
    double *limits; /* a key for each row, or NULL: its k-th neighbour's; of a list that
                       is shorter INFINITY */
} kin_merge_side;

/* points: after kin_prepare_rows; of all sets. out: rows of all points, of which those of the side
 * are written, ids counting from the first of all; what a short list leaves is empty. E_DATA where
 * a graph's list has fewer different ids than out->k and than the set has to give. Ids are checked
 * to be below the set's rows by the caller. flags: KITH_INCLUDE_SELF. */
kith_status kin_merge_write(kith_ctx *ctx, const kin_prepared *points, const kin_merge_side *side,
                            uint32_t flags, const kith_neighbors *out);

/* ---- Lists of a graph without the points that leave it -------------------------------------- */

/* New ids of rows and rows of new ids: those whose byte is 0 move up. map: a number for each row,
 * KITH_ID_NONE of those that leave; rows: room for as many. Returns how many are left. */
int64_t kin_remove_map(const uint8_t *removed, int64_t count, uint32_t *map, uint32_t *rows);

typedef struct kin_remove_job {
    const kith_neighbors *graph;
    uint32_t *map;  /* of kin_remove_map */
    uint32_t *rows; /* of kin_remove_map */
    int64_t left;
    int64_t wanted;    /* different ids of a list */
    bool self;         /* a row's own id is one of them */
    uint32_t *ids;     /* left x graph->k, written: lists in new ids, KITH_ID_NONE where one left */
    uint32_t *lacking; /* room for `left`, written: new ids of lists with fewer, ascending */
    int64_t lacking_count;
} kin_remove_job;

kith_status kin_remove_lists(kith_ctx *ctx, kin_remove_job *job);

/* ---- How far sets are apart ------------------------------------------------------------------ */

/* How far rows of two sets are apart at least: exact merges, and exact graphs from shards, leave
 * out what cannot meet.
 *
 * The rows of a set are cut into runs, in the order of the file. A run has a few balls that hold
 * its rows, since it may be where one cluster ends and the next one begins; and a reach: no row of
 * it has its k-th neighbour so far farther off. Two runs can meet where of a ball of each
 *
 *     |center - center'| - radius - radius'  <=  the larger one of both reaches
 *
 * and the runs that can take part in a meeting: one by one where rows may be copied, else all from
 * the first to the last. Where there is none, two sets need not meet. A file that is in the order
 * of its clusters, or of space, as catalogues are, has few pairs that do.
 *
 * Why it is right. Distances are those of rows as their metric transforms them (screen_bound.h), in
 * double; each of these is off by 2^-32 of itself at most, which KIN_BOUND_WIDEN covers, and where
 * squares underflow by 2^-500. Beyond the reach of both ends a pair's key is above the k-th of
 * either, so it is in no list, whatever its ids. A degenerate row stands at the origin, which is
 * nearer to others than the distance that it is given. Metrics without a triangle inequality have
 * no bounds, and all rows meet. */

/* Balls of a run. */
enum { KIN_BOUNDS_BALLS = 4, KIN_BOUNDS_SIDES = 2 };

/* What sets have in common. */
typedef struct kin_bounds_sets {
    kin_distance distance; /* of rows as they are given */
    int64_t rows;          /* of the largest set */
    int32_t count;         /* below 2: nothing meets */
} kin_bounds_sets;

/* Rows of a set, with all that is known of them. */
typedef struct kin_bounds_part {
    int32_t set;
    kith_matrix rows;
    kin_within known;
} kin_bounds_part;

/* Rows of a set that can meet. */
typedef struct kin_bounds_range {
    int64_t first;
    int64_t rows;
} kin_bounds_range;

typedef struct kin_bounds_rows {
    uint32_t *rows;
    int64_t count;
} kin_bounds_rows;

typedef struct kin_bounds {
    bool usable;           /* the metric has a triangle inequality, and there are sets to meet */
    int64_t run;           /* rows of a run; the last one of a set may have fewer */
    int64_t runs;          /* that a set has room for */
    int64_t wide;          /* doubles of a center */
    kin_distance given;    /* of rows as they are given */
    kin_distance distance; /* of centers and transformed rows */
    double key_scale;
    void *block;
    double *centers;     /* sets x runs x balls x wide */
    double *radii;       /* sets x runs x balls; -INFINITY: no such ball */
    double *reaches;     /* sets x runs */
    unsigned char *made; /* by set: it has centers; and reaches, as they were when it was here */
    double *keys;        /* threads x runs x balls */
    double *values;      /* threads x wide */
    uint8_t *balls;      /* threads x run: whose ball a row of the run is in */
    atomic_uchar *meets; /* of two sets, one behind the other, x runs: can meet one of the other */
} kin_bounds;

uint64_t kin_bounds_bytes(const kith_ctx *ctx, const kin_bounds_sets *sets);
/* To be freed also where it fails. */
kith_status kin_bounds_make(kith_ctx *ctx, const kin_bounds_sets *sets, kin_bounds *bounds);
void kin_bounds_free(kith_ctx *ctx, kin_bounds *bounds);

/* Balls of a set whose rows are in memory, once; and its reaches as they are known now. */
kith_status kin_bounds_measure(kith_ctx *ctx, kin_bounds *bounds, const kin_bounds_part *part);
/* Which rows of two sets can meet; none of either, or some of both. */
kith_status kin_bounds_narrow(kith_ctx *ctx, kin_bounds *bounds,
                              const kin_bounds_part parts[KIN_BOUNDS_SIDES],
                              kin_bounds_range near[KIN_BOUNDS_SIDES]);
/* Before a set is measured: whether it is likely to pay. A few runs of both, spread over them, say
 * so where less than half of their pairs of rows can meet. */
kith_status kin_bounds_try(kith_ctx *ctx, kin_bounds *bounds,
                           const kin_bounds_part parts[KIN_BOUNDS_SIDES], bool *yes);
/* As kin_bounds_narrow, each run by itself: rows of each set, rising, to be freed by the caller. */
kith_status kin_bounds_pick(kith_ctx *ctx, kin_bounds *bounds,
                            const kin_bounds_part parts[KIN_BOUNDS_SIDES],
                            kin_bounds_rows picked[KIN_BOUNDS_SIDES]);
/* Whether it is known that two sets of so many rows need not meet, wherever their rows are: a reach
 * that was true once stays true, whatever becomes of lists. */
kith_status kin_bounds_apart(kith_ctx *ctx, const kin_bounds *bounds,
                             const int32_t sets[KIN_BOUNDS_SIDES],
                             const int64_t rows[KIN_BOUNDS_SIDES], bool *yes);

/* ---- A glance (screen_corpus.h) -------------------------------------------------------------- */

/* Whether so many queries are best answered at a glance. */
bool kin_glance_suits(const kin_prepared *corpus, const kin_request *request, int64_t queries);

/* After kin_prepare_rows of the queries. Of any type, whatever that of the corpus. */
kith_status kin_glance_search(kith_ctx *ctx, const kin_prepared *corpus, kin_prepared *queries,
                              const kin_request *request, const kith_neighbors *out);

#endif
