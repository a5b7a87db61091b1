/* SPDX-License-Identifier: Apache-2.0
 * Where walks begin. Positions stand in an order in which near ones are together; runs of them have
 * centres. A query meets all centres, and then the points of the runs whose centres are nearest:
 * dense products of many queries at once, of which a hundred cost what an edge costs that leads to
 * a row anywhere in memory. What is left for the walk is to find what these runs lack.
 *
 * Whom a query meets depends on the query alone, not on what else is asked. */
#ifndef KIN_GRAPH_GATE_H
#define KIN_GRAPH_GATE_H

#include "exact/exact_answer.h"
#include "graph/graph.h"
#include "graph/graph_cells.h"

/* Positions of a run are a multiple of the first; queries at a time, at most. */
enum { KIN_GRAPH_RUN = 64, KIN_GRAPH_LED = 2048 };

typedef struct kin_graph_gate {
    const kin_graph_points *points;
    int64_t run; /* positions of a run; the last one may have fewer */
    int64_t runs;
    uint32_t *names; /* centre -> run: neighbouring centres are of runs that are not */
    kin_graph_centres centres;
} kin_graph_gate;

/* Behind the last position of a run. */
static inline int64_t kin_graph_run_end(const kin_graph_gate *gate, int64_t run)
{
    return kin_min_i64((run + 1) * gate->run, gate->points->count);
}

/* A graph made ready to be walked on: whom a position leads to, and how it hangs together.
 *
 * A k-NN graph leads from each point to its near ones, and to many points nobody leads: edges are
 * taken both ways. Equal rows are one position, which has the edges of all of them. */

typedef struct kin_graph_links {
    int64_t count; /* positions */
    int64_t most;  /* room of a position: twice the k of the graph */
    uint32_t *ids; /* positions */
    uint32_t *counts;
    uint32_t *parts; /* the lowest position of each weakly connected part, the largest part first */
    int64_t part_count;
} kin_graph_links;

/* What walks go on: points, links, a gate.
 *
 * What a walk remembers takes a bit for each position, which is more than one walk touches: blocks
 * that are all zero are kept with the ground, so that a call of few queries need not clear one.
 * Threads take and give back without locks. */

/* Words of such a block are a bit a position, and so many that are remembered: where there are
 * more, all are cleared. */
enum { KIN_GRAPH_REMEMBERED = 1 << 15 };

typedef struct kin_graph_spares {
    int32_t count;
    uint64_t words;              /* of a block */
    _Atomic(uint32_t *) *blocks; /* NULL: somebody has it */
} kin_graph_spares;

/* Points made ready: for direct metrics kin_prepare_rows is enough, else kin_prepare_corpus. */
typedef struct kin_graph_ground {
    const kin_prepared *prepared;
    kin_graph_points points;
    kin_graph_links links;
    kin_graph_gate gate;
    bool has_gate;
    kin_graph_spares spares;
} kin_graph_ground;

/* The ground stays where it is as long as the hold lives. */
kith_status kin_graph_ground_make(kin_hold *hold, const kin_prepared *prepared,
                                  const kith_neighbors *graph, kin_graph_ground *ground);

/* Words that a walk remembers itself by, on a ground of so many positions. */
uint64_t kin_graph_spare_words(int64_t positions);

/* Best-first search on a graph: the points that are near a query, from position to position.
 *
 * A walk keeps the `width` nearest positions that it has met. Of those whose links it has not
 * looked at the nearest are next; it ends when there are none. Costs are those of the exact
 * engine's rounded rows, or canonical keys where the metric has no products; what is written has
 * canonical distances in the exact engine's order, so that what may be missing is a row that no way
 * led to.
 *
 * Walks begin with what a gate shows them (graph_walk.h). Where there is none they enter at the
 * lowest position of each part of the graph and at random ones, but at no more than some times the
 * root of all: where there are more parts, the largest. The wider a walk is, the more of these. */

typedef struct kin_graph_walk {
    const kin_graph_ground *ground;
    const kin_rows *queries;
    const uint32_t *rows; /* queries to answer; NULL: all of them */
    int64_t count;
    int64_t k;     /* that a query has, >= out.k, which are told: what a list lacks is looked for */
    int64_t width; /* >= k; as many as there are points: no walk, all points are looked at */
    uint64_t seed;
    int64_t meets;       /* points that each shall meet; 0: what serves many at once */
    kin_allowed allowed; /* walks lead over all points, and tell of those that are allowed */
} kin_graph_walk;

/* Entries of walks of this width. */
kin_graph_entries kin_graph_count_entries(int64_t count, int64_t part_count, int64_t width);
/* ids: entries.parts + entries.random of them, some of which may be equal. */
void kin_graph_draw_entries(const kin_graph_entries *entries, int64_t count, const uint32_t *parts,
                            uint64_t seed, uint32_t *ids);

/* out: count rows. Where a walk has met fewer than walk.k rows that are allowed, at most the
 * points, all of these are looked at: slots are empty where there are no more. The same bytes
 * whatever the number of threads and of queries. Fails with E_DATA where a caller's function gives
 * NaN. */
kith_status kin_graph_walk_run(kith_ctx *ctx, const kin_graph_walk *walk, const kith_neighbors *out,
                               kin_graph_effort *effort);

/* One walk, and what is written of it. A walker belongs to a thread. */

/* Positions whose costs are computed together. */
enum { KIN_GRAPH_TOGETHER = 96 };

typedef struct kin_graph_way {
    const kin_graph_ground *ground;
    void (*put)(uint64_t *words, int64_t length, uint64_t word);
    int64_t wide;

    /* The query. */
    double *values;
    kin_query query;
    int64_t row; /* for messages */
    kin_bound_row bound;
    uint32_t *panels;   /* its rounded row as a panel's first column, */
    uint32_t *column;   /* and before it was turned */
    kin_word terms[16]; /* of it as column, zeros behind */

    /* The walk. */
    uint64_t *list; /* ascending words of positions (graph_word.h); KIN_GRAPH_EMPTY behind. The
                       lowest bit: its links have been looked at */
    int64_t length;
    int64_t next;         /* nobody before it has links to be looked at */
    uint64_t least;       /* word that came since `next` was known */
    uint32_t *met;        /* a bit for each position; zeros between walks */
    uint32_t *remembered; /* words of met, to forget them one by one; behind it, one block */
    bool borrowed;        /* which is the ground's */
    int64_t remembered_count;
    int32_t waiting;
    uint32_t who[KIN_GRAPH_TOGETHER + 1]; /* positions that wait for their costs */
    uint32_t orders[KIN_GRAPH_TOGETHER * 16];
    uint32_t ids[KIN_GRAPH_TOGETHER];
    double keys[KIN_GRAPH_TOGETHER];
    kin_word row_terms[KIN_GRAPH_TOGETHER];
    uint32_t *rows; /* gathered */

    /* The answer. */
    kin_allowed allowed; /* by `row`; all, as it is made */
    kin_pair *pairs;
    kin_answer answer;
    double evaluations;
    void *block; /* of all but met */
} kin_graph_way;

/* Lists of `length` words, 0 where nobody will walk; answers of k. */
kith_status kin_graph_way_make(kith_ctx *ctx, const kin_graph_ground *ground, int64_t length,
                               int64_t k, kin_graph_way *walker);
void kin_graph_way_free(kith_ctx *ctx, kin_graph_way *walker);

/* Row `row` of the queries walks next; of `asked` it is the row `place` (ignored without rounded
 * rows). list, as many words as the way has: what is known already, positions that have been met.
 */
void kin_graph_way_ask(kin_graph_way *walker, const kin_rows *queries, int64_t row,
                       const kin_graph_points *asked, int64_t place, uint64_t *list);
/* The run has been met, every position of it. */
void kin_graph_way_has_met(kin_graph_way *walker, int64_t run);
kith_status kin_graph_way_meet(kith_ctx *ctx, kin_graph_way *walker, const uint32_t *ids,
                               int64_t count);
/* Until no link is left. */
kith_status kin_graph_way_go(kith_ctx *ctx, kin_graph_way *walker);
/* The first k of the list that are allowed; of all positions, where `all` is set or the list lacks
 * some. */
kith_status kin_graph_way_write(kith_ctx *ctx, kin_graph_way *walker, bool all,
                                const kith_neighbors *out, int64_t at);

#endif
