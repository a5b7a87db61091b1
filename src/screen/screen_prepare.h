/* SPDX-License-Identifier: Apache-2.0
 * What is made of a matrix before it is searched: checked values, row transforms, groups of equal
 * rows, an order in which near points stand together, and the rounded copy in its frame. */
#ifndef KIN_SCREEN_PREPARE_H
#define KIN_SCREEN_PREPARE_H

#include "base/base_mem.h"
#include "screen/screen_list.h"

/* ---- Equal rows ------------------------------------------------------------------------------ */

/* Equal rows. Real data is full of them (39 % of one of our sets stand in groups of more than 64);
 * they are found by hash and comparison, screened once, and expanded in order at the end. */

/* A group is represented by its lowest id, its *first*. */
typedef struct kin_groups {
    int64_t rows;
    int64_t count;         /* groups of rows that are not degenerate */
    uint32_t *firsts;      /* their firsts, ascending */
    uint32_t *weights;     /* by first: rows in the group. NULL where all rows are distinct */
    uint32_t *next;        /* by id: the next larger id of the group, or KITH_ID_NONE. NULL ditto */
    int64_t degenerate;    /* rows at distance 1 from everything (cosine, correlation) */
    uint32_t *degenerates; /* their ids, ascending; NULL where there are none */
} kin_groups;

static inline uint32_t kin_groups_next(const kin_groups *groups, uint32_t id)
{
    return groups->next == NULL ? KITH_ID_NONE : groups->next[id];
}

/* Rows are equal when their bytes are. Where `distinguish` is set, every row is a group. */
kith_status kin_groups_make(kith_ctx *ctx, const kin_rows *rows, bool distinguish,
                            kin_groups *groups);
/* The same of what is known: by row the lowest row like it (NULL: each is its own first), and 1
 * where it is degenerate (NULL: none is). */
kith_status kin_groups_of_firsts(kith_ctx *ctx, int64_t rows, const uint32_t *firsts,
                                 const uint8_t *degenerate, kin_groups *groups);
void kin_groups_free(kith_ctx *ctx, kin_groups *groups);

/* What is known of rows before they are grouped: of their shape alone, the worst. */
typedef struct kin_rows_known {
    int64_t distinct; /* groups, at most */
    bool equal;       /* rows may be equal */
    bool degenerate;  /* or degenerate */
    bool counted;     /* all this is so, not at most */
    bool bytes;       /* floats may give way to copies of bytes (kin_bytes_take) */
} kin_rows_known;

/* What kin_groups_make holds, and leaves. */
void kin_groups_plan(kin_layout *plan, int64_t rows, bool distinguish, kin_rows_known known);

/* A basis, and the frame of shadows in it (screen_corpus.h). */
typedef struct kin_shadow {
    int32_t axes;   /* of the basis; 0: full rows are screened sooner */
    bool tiles;     /* whole tiles are looked at: rows stay in panels */
    int64_t wide;   /* columns of a row, rounded up */
    int64_t padded; /* axes, rounded up */
    double *mean;   /* wide: what is subtracted from rows, which are then in units of their frame */
    float *basis;   /* wide x padded */
    double skew;    /* |(BtB)^1/2 - 1|, at most */
    double grid;    /* of bytes that a unit multiplies: the mean is whole numbers, and so is the
                       basis times this, of 16 bits, whose products with a row are of 32; or 0 */
    double *middle; /* axes + 1, rounded up: the mean shadow */
    kin_frame frame;
    void *block;
} kin_shadow;

/* Shadows of bytes beside the set, which few queries read in its place (screen_corpus.h). */
typedef struct kin_glance {
    kin_shadow shadow; /* axes 0: there are none */
    kin_set cast;      /* by the positions of the set */
    float *lost;       /* of each panel, the most that a row of it has */
} kin_glance;

typedef struct kin_prepared {
    kin_rows rows; /* the matrix is borrowed, the transforms are ours */
    kin_distance distance;
    kin_groups groups;
    uint32_t *order; /* groups.count firsts: position -> id */
    kin_frame_stats stats;
    kin_frame frame;
    kin_set set;
    kin_shadow shadow; /* of the corpus; and */
    kin_set cast;      /* the shadows of the set, whose rows lie as lines then, but for tiles */
    kin_shadow sieve_shadow; /* fewer axes, or none; and */
    kin_set sieve;           /* shadows that are screened before the others */
    kin_cover cover;
    kin_glance glance; /* of an index */
    bool unordered;    /* set before a frame is there: the order is that of the groups, */
    bool graph;        /* or a graph of all rows is to be made */
    bool vain;         /* the set discards too little: pairs are better compared without it */
    kin_within within; /* what is known of the rows, before their type is chosen, */
    bool by_cost;      /* and that costs decide: no type will do that keys have to make good */
    double seconds_check;
    double seconds_prepare;
} kin_prepared;

/* Equal rows are different ones (queries); values were checked, and are trusted. */
enum { KIN_ROWS_DISTINCT = 1, KIN_ROWS_CHECKED = 2 };

/* The first part, which needs no frame. `name` stands in messages; flags: KIN_ROWS_... */
kith_status kin_prepare_rows(kith_ctx *ctx, const kith_matrix *matrix, const kin_distance *distance,
                             const char *name, int flags, kin_prepared *prepared);
/* What is known of rows of which only the shape is. */
kin_rows_known kin_prepare_unknown(const kith_matrix *matrix, const kin_distance *distance);
/* What its data say: rows are grouped as kin_prepare_rows does it, and forgotten. Where that needs
 * more memory than there is, nothing is known. */
kith_status kin_prepare_know(kith_ctx *ctx, const kith_matrix *matrix, const kin_distance *distance,
                             kin_rows_known *known);
/* What kin_prepare_rows holds, and leaves. */
void kin_prepare_rows_plan(kin_layout *plan, int64_t rows, const kin_distance *distance,
                           bool distinguish, kin_rows_known known);
void kin_glance_free(kith_ctx *ctx, kin_glance *glance);
void kin_prepared_free(kith_ctx *ctx, kin_prepared *prepared);
/* The report of a job is told how long it took. */
void kin_prepared_tell(kith_ctx *ctx, const kin_prepared *prepared);
/* By the end of the hold, whose scope it lives in. */
void kin_prepared_hold(kin_hold *hold, kin_prepared *prepared);

/* ---- Rows that are bytes --------------------------------------------------------------------- */

/* Where costs of bytes would be keys (kin_frame_is_integer), and all rows of both matrices hold
 * nothing but whole numbers of one byte's range, floats among them give way to copies of theirs,
 * which the hold has; such values need no check any more. Else, under a limit of memory, where
 * floats alone may fit, and where there is no memory for copies, nothing is done. queries NULL: a
 * graph. */
kith_status kin_bytes_take(kin_hold *hold, const kin_distance *distance, kith_matrix *corpus,
                           kith_matrix *queries);
/* What that holds and leaves where it does it, with the shapes that there are then; false: it never
 * does. */
bool kin_bytes_plan(kin_layout *plan, const kin_distance *distance, int32_t threads,
                    kith_matrix *corpus, kith_matrix *queries);

/* ---- An order -------------------------------------------------------------------------------- */

/* An order of rows in which near ones stand together. Any order is right; a good one makes early
 * thresholds tight and lets whole tiles be skipped (screen_set.h). */

/* Rows that stand together at least: the order is made of runs of this many near rows. */
enum { KIN_ORDER_RUN = 32 };

/* Permutes order[0 .. count - 1], row numbers of `rows`. Small sets are left as they are. The same
 * order on every machine and with any number of threads is not promised, nor needed. graph: so many
 * rows meet each other, which is worth more where they are many. */
kith_status kin_order_make(kith_ctx *ctx, const kin_rows *rows, const kin_distance *distance,
                           int64_t count, bool graph, uint32_t *order);
/* What kin_order_make holds. */
void kin_order_plan(kin_layout *plan, int64_t count, int32_t cols, bool graph, int32_t threads);

/* Whether the metric goes through the screen. */
bool kin_is_screened(const kin_distance *distance);
/* Fills the context's report for a prepared corpus and a finished screen. */
void kin_prepared_report(kith_ctx *ctx, const kin_prepared *corpus);

#endif
