/* SPDX-License-Identifier: Apache-2.0
 * A packet of queries on its way through a tree. */
#ifndef KIN_TREE_WALK_H
#define KIN_TREE_WALK_H

#include "base/base_ctx.h"
#include "tree/tree.h"

/* ---- The arithmetic of a leaf ---------------------------------------------------------------- */

/* The arithmetic of the search in float32: a packet of queries against boxes and against the points
 * of a leaf. Bodies: tree_leaf_portable.c, _avx2.c, _avx512.c, one source for three machines. What
 * they compute may differ in the last bits; what is kept is decided by a bound that covers each of
 * them (tree_bound.h), so the answers do not. Boxes and leaves of one body use the same operations
 * in the same order, which is what makes boxes right.
 */

enum {
    KIN_PACKET = 16,          /* queries that travel together */
    KIN_TREE_CONST_COLS = 16, /* up to here there is a body for the very number of columns */
    KIN_TREE_WRAP_COLS = 3,   /* of periodic boxes up to here */
    KIN_TREE_NORMS = 3
};

/* A leaf and the queries of a packet that wait for it. */
typedef struct kin_leaf_job {
    const float *values; /* its first block */
    int32_t blocks;
    uint32_t tail;  /* which lanes of the last block hold points */
    uint32_t first; /* position of the first point */
    int32_t cols;
    uint32_t waiting;   /* which queries */
    const float *rows;  /* the packet, [query][column] */
    const float *reach; /* by query */
    float lost;         /* of the leaf's points */
    float widen;
    const float *period; /* by column, of a body that wraps */
    /* What is kept: for each query that waits, value << 32 | position. */
    int32_t room; /* words a query */
    int32_t *counts;
    uint64_t *words;
} kin_leaf_job;

/* The two children of a node and a packet. Masks have a bit for each of its queries. */
typedef struct kin_boxes_job {
    const float *boxes; /* of both, one behind the other */
    int32_t cols;
    const float *columns; /* the packet, [column][query] */
    const float *reach;   /* by query */
    const float *lost;    /* of both */
    float widen;
    const float *period; /* by column, of a body that wraps */
    uint32_t waiting;    /* which queries */
    float *values;       /* [child][query]: at most the float32 distance to any point of the box */
    uint32_t who[2];     /* by child: which of those that wait are within their limit */
    int32_t votes;       /* of those who are within both: how many more are nearer to the first */
} kin_boxes_job;

typedef struct kin_tree_body {
    void (*boxes)(kin_boxes_job *job);
    /* Which of 16 values are within the limit of their query. */
    uint32_t (*within)(const float *values, const float *reach, float lost, float widen);
    void (*leaf)(const kin_leaf_job *job);
} kin_tree_body;

typedef struct kin_tree_bodies {
    kin_tree_body of[KIN_TREE_NORMS][KIN_TREE_CONST_COLS + 1]; /* 0: any number of columns */
    kin_tree_body wrapped[KIN_TREE_NORMS][KIN_TREE_WRAP_COLS + 1];
} kin_tree_bodies;

KIN_BODIES_OF_WIDE(kin_tree_bodies)

/* ---- Candidates ------------------------------------------------------------------------------ */

/* The candidates of one query: words value << 32 | position, value being a float32 distance that is
 * not negative, so words are in the order of values.
 *
 * Invariant: every point that was screened against the query and is not in its list comes after
 * `wanted` others in the order (canonical key, id). Short lists are kept sorted; long ones are
 * squeezed when they are full. Where values cannot tell enough points apart, canonical keys do
 * (squeeze in tree_walk.c), and `wanted` entries are left: nothing is dropped for want of room. */

/* Up to so many are kept sorted. */
enum { KIN_LIST_SORTED = 48, KIN_LIST_SLACK = 16, KIN_LIST_SHORT = 16 };

typedef struct kin_tree_list {
    uint64_t *words;
    int32_t count;
    int32_t capacity;
    int32_t wanted;
    bool tightened; /* kth has changed since the reach was computed */
    float kth;      /* the smallest value of a k-th so far */
    float keep;     /* values above it are not needed; holds for all leaves */
    float gain;     /* keep = value of the k-th * gain + more */
    float more;
    float lost;    /* of the query */
    int64_t query; /* its row */
} kin_tree_list;

/* What a thread needs to compute canonical keys. */
typedef struct kin_tree_keys {
    const kin_tree *tree;
    const kin_distance *distance;
    const kin_rows *corpus;
    const kin_rows *queries;
    double *query;
    kin_pair *pairs; /* capacity of each */
    double *keys;
    uint32_t *ids;
    uint64_t *words;
    int64_t computed;
} kin_tree_keys;

int32_t kin_tree_list_capacity(int64_t wanted);

/* An empty list for a query. */
void kin_tree_list_begin(const kin_tree *tree, int64_t wanted, int64_t query, float lost,
                         kin_tree_list *list);
/* The end: canonical keys of what is left, sorted by (key, id), in keys->pairs, weights 1. Returns
 * how many: `wanted`, or all there are. */
int64_t kin_tree_list_finish(const kin_tree_list *list, kin_tree_keys *keys);

static inline float kin_tree_value(uint64_t word)
{
    const uint32_t bits = (uint32_t)(word >> 32);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline void kin_tree_list_note(kin_tree_list *list, float kth)
{
    const float keep = kth * list->gain + list->more;
    if (keep < list->keep) {
        list->keep = keep;
        list->kth = kth;
        list->tightened = true;
    }
}

/* Enters a word into `count` sorted ones; returns its place. Short lists are passed through as a
 * whole: where the word stops cannot be guessed, and a wrong guess costs as much as ten places. */
static inline int32_t kin_tree_list_insert(uint64_t *words, int32_t count, uint64_t word)
{
    int32_t at = count;
    if (count > KIN_LIST_SHORT) {
        for (; at > 0 && words[at - 1] > word; at--) {
            words[at] = words[at - 1];
        }
        words[at] = word;
        return at;
    }
    for (int32_t i = 0; i < count; i++) {
        const uint64_t other = words[i];
        const bool later = other > word;
        words[i] = later ? word : other;
        word = later ? other : word;
        at -= later;
    }
    words[count] = word;
    return at;
}

/* One more candidate; true: the list is full and must be squeezed before the next one. */
static inline bool kin_tree_list_add(kin_tree_list *list, uint64_t word)
{
    if (kin_tree_value(word) > list->keep) {
        return false;
    }
    uint64_t *words = list->words;
    int32_t at = list->count++;
    if (list->wanted > KIN_LIST_SORTED) {
        words[at] = word;
        return list->count == list->capacity;
    }
    at = kin_tree_list_insert(words, at, word);
    if (list->count >= list->wanted) {
        if (at < list->wanted) {
            kin_tree_list_note(list, kin_tree_value(words[list->wanted - 1]));
        }
        while (kin_tree_value(words[list->count - 1]) > list->keep) {
            list->count -= 1;
        }
    }
    return list->count == list->capacity;
}

/* ---- A packet on its way --------------------------------------------------------------------- */

/* A node that some queries of the packet have still to see. */
typedef struct kin_tree_visit {
    int64_t node;
    uint32_t waiting;
    float values[KIN_PACKET]; /* its box, seen from each query */
} kin_tree_visit;

/* A thread's room for one packet. What a leaf left goes to `screened`: to the lists, unless a
 * walk was opened for something else. */
typedef struct kin_tree_walk kin_tree_walk;
struct kin_tree_walk {
    const kin_tree *tree;
    const kin_tree_body *body;
    void (*screened)(kin_tree_walk *walk, uint32_t waiting);
    void *owner;             /* whose `screened` it is */
    uint32_t waiting;        /* queries of the packet: the lowest bits */
    float *columns;          /* [column][query] */
    float *rows;             /* [query][column] */
    float reach[KIN_PACKET]; /* may shrink on the way */
    kin_tree_list lists[KIN_PACKET];
    kin_tree_visit visits[KIN_TREE_MOST_HEIGHT + 2];
    const float *ahead; /* what of the next leaf has not been asked for */
    const float *ahead_end;
    int32_t found[KIN_PACKET];
    uint64_t *words; /* [query][room]: what the leaf at hand left of each that waited */
    int32_t room;
    kin_tree_keys keys;
    double pairs;  /* computed in leaves */
    double leaves; /* leaf visits of queries */
};

/* A walk through a tree: its body and arrays. wanted: of the lists; 0: there are none, and
 * `screened` and `owner` are the caller's to set. With lists, what walk->keys needs to know is. */
void kin_tree_walk_name(kin_layout *layout, const kin_tree *tree, kin_isa isa, int64_t wanted,
                        kin_tree_walk *walk);

/* The packet that columns, waiting, reach and lists describe: afterwards every point that is
 * missing in a list has been proven to be farther than the query's first reach says, or than
 * `wanted` others. */
void kin_tree_walk_run(kin_tree_walk *walk);

/* One leaf, a node, against those of the packet that wait, whose `rows`, reach and lists are set:
 * a step of the walk, for who goes another way. Each leaf once a query. */
void kin_tree_walk_leaf(kin_tree_walk *walk, int64_t node, uint32_t waiting);

/* ---- Queries on their way into a tree ----------------------------------------- */

/* Rounded to float32 and sorted by the leaf that they fall into, so that neighbours in the order
 * share leaves. */

/* A stripe of a search's queries. */
typedef struct kin_tree_queries {
    const kin_tree *tree;
    const kin_distance *distance;
    const kin_rows *asked;
    int64_t first; /* row of the first query of the stripe */
    int64_t count;
    float *rows;     /* [query][column], in the order in which they came */
    float *lost;     /* by query, in the metric's norm */
    uint32_t *order; /* place -> query */
    uint32_t *leaves;
    uint32_t *starts;  /* places of leaves, while they are counted */
    double *scratches; /* by thread: a row */
    int64_t wide;
    /* sizes of the arrays */
    int64_t most;
    int64_t tree_leaves;
    int32_t cols;
    int32_t threads;
    void *block;
} kin_tree_queries;

/* Room for `most` of the rows that ask at a time. Keeps tree, distance and asked. */
kith_status kin_tree_queries_make(kith_ctx *ctx, const kin_tree *tree, const kin_distance *distance,
                                  const kin_rows *asked, int64_t most, kin_tree_queries *queries);
void kin_tree_queries_free(kith_ctx *ctx, kin_tree_queries *queries);

/* Rounds rows [first, first + count) and sorts them. */
kith_status kin_tree_queries_load(kith_ctx *ctx, kin_tree_queries *queries, int64_t first,
                                  int64_t count);

/* ---- A job (tree_job.c) ---------------------------------------------------------------------- */

/* Whatever is asked of a tree: rows are prepared, sorted and sent in packets, a few of them first
 * where these decide, and what was counted becomes the report. Jobs differ in where a query's reach
 * begins, and in what becomes of what leaves leave: lists, from which answers are written, or what
 * the hooks below make of it. */

typedef struct kin_tree_job kin_tree_job;

/* A thread's room. */
typedef struct kin_tree_worker {
    KIN_APART kin_tree_walk walk; /* whose owner this is */
    const kin_tree_job *job;
    int32_t thread;
    uint32_t rows[KIN_PACKET]; /* the packet's queries */
    kin_answer answer;         /* of lists */
    void *own;                 /* of a job without them */
} kin_tree_worker;

struct kin_tree_job {
    kith_ctx *ctx;
    const kin_distance *distance;
    const kin_prepared *corpus;
    const kin_tree *tree;
    const kin_rows *asked;
    int32_t height;               /* of the tree, 0: what is fastest */
    bool by_blocks;               /* a graph: packets are the blocks of the tree */
    bool tries;                   /* a few packets decide */
    bool trying;                  /* and are under way: what they find is of no use */
    const kin_pipeline *pipeline; /* whose way it is; NULL: ours */
    const void *about;            /* what the hooks know */
    /* From where a query that lost so much begins. */
    float (*reach)(const kin_tree_job *job, int64_t row, float lost);
    /* Whether it wins where so many queries look at this share of all pairs. */
    bool (*wins)(const kin_tree_job *job, int64_t queries, double share);
    /* Corpus, tree and rows that ask are there: sets what follows. All packets went through; NULL:
     * nothing is left to do. */
    kith_status (*open)(kin_tree_job *job);
    kith_status (*close)(kin_tree_job *job);
    /* Another way than packets for a stripe of queries, and its arrays, where most is set; or NULL.
     */
    kith_status (*send)(kin_tree_job *job);
    void (*room)(kin_layout *layout, kin_tree_job *job);
    int64_t most;       /* queries at a time; 0: as many as suit */
    int64_t wanted_ids; /* an answer; 0: there are no lists, but */
    kin_answer_target target;
    /* a thread's own arrays, and the walk's `screened`; what is done behind a packet. */
    void (*name)(kin_layout *layout, kin_tree_worker *worker);
    kith_status (*end)(kin_tree_worker *worker);
    /* Made by the functions below. */
    int64_t wanted; /* points a list */
    kin_tree_queries sorted;
    int64_t packets;
    int32_t threads;
    kin_tree_worker *workers;
    void *block; /* workers, and all that they have */
    struct {
        kin_prepared corpus;
        kin_prepared asked;
        kin_tree tree;
    } own; /* or zeros */
};

/* All of it: corpus, tree and asked are another's where they stand. points, queries: what they are
 * made of else; queries NULL: each row of the corpus. *declined: a few packets are against it.
 * Frees the job. */
kith_status kin_tree_job_run(kin_tree_job *job, const kith_matrix *points,
                             const kith_matrix *queries, bool *declined);
/* A few rows, or by_blocks its own, against a tree of a few. Frees the job. */
typedef struct kin_tree_tried {
    double points;
    double pairs; /* that a query looked at */
} kin_tree_tried;
kith_status kin_tree_job_try(kin_tree_job *job, const kith_matrix *points,
                             const kith_matrix *queries, kin_tree_tried *tried);

/* What it holds beside corpus, tree and rows, of which so many ask; threads is set. */
void kin_tree_job_plan(kin_layout *plan, kin_tree_job *job, int64_t rows);
/* The answer of a list that is complete. */
kith_status kin_tree_job_write(const kin_tree_job *job, kin_tree_worker *worker,
                               const kin_tree_list *list);

/* `rows` of a matrix, spread over it, each `step` behind the one before. */
static inline kith_matrix kin_tree_some(const kith_matrix *matrix, int64_t rows, int64_t step)
{
    kith_matrix some = *matrix;
    some.rows = rows;
    some.stride_bytes *= step;
    return some;
}

#endif
