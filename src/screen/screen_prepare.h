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
} kin_rows_known;

/* What kin_groups_make holds, and leaves. */
void kin_groups_plan(kin_layout *plan, int64_t rows, bool distinguish, kin_rows_known known);

/* A basis, and the frame of shadows in it (screen_corpus.h). */
typedef struct kin_shadow {
    int32_t axes;   /* of the basis; 0: full rows are screened sooner */
    int64_t wide;   /* columns of a row, rounded up */
    int64_t padded; /* axes, rounded up */
    double *mean;   /* wide: what is subtracted from rows, which are then in units of their frame */
    float *basis;   /* wide x padded */
    double skew;    /* |BtB - 1|, at most */
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
    kin_set cast;      /* the shadows of the set, whose rows lie as lines then */
    kin_cover cover;
    kin_glance glance; /* of an index */
    bool unordered;    /* set before a frame is there: the order is that of the groups */
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

/* ---- An order -------------------------------------------------------------------------------- */

/* An order of rows in which near ones stand together. Any order is right; a good one makes early
 * thresholds tight and lets whole tiles be skipped (screen_set.h). */

/* Rows that stand together at least: the order is made of runs of this many near rows. */
enum { KIN_ORDER_RUN = 32 };

/* Permutes order[0 .. count - 1], row numbers of `rows`. Small sets are left as they are. The same
 * order on every machine and with any number of threads is not promised, nor needed. */
kith_status kin_order_make(kith_ctx *ctx, const kin_rows *rows, const kin_distance *distance,
                           int64_t count, uint32_t *order);
/* What kin_order_make holds. */
void kin_order_plan(kin_layout *plan, int64_t count, int32_t cols, int32_t threads);

/* ---- What is asked --------------------------------------------------------------------------- */

/* What an exact engine is asked for, whether it screens, what it will hold, and what it
 * reports. */

struct kin_request;
struct kin_select_method; /* select/select.h */

/* A way from prepared rows to answers that is taken in place of ours. A request brings it; who has
 * some are papers/. */
typedef struct kin_pipeline {
    const char *name; /* of the report's screen */
    /* On the processor, as kin_direct_run and kin_direct_plan; NULL: it is a GPU's alone. */
    kith_status (*run)(kith_ctx *ctx, const kin_prepared *corpus, const kin_prepared *queries,
                       const struct kin_request *request, const kith_neighbors *out);
    void (*plan)(kin_layout *plan, const kin_prepared *corpus, const kin_prepared *queries,
                 const struct kin_request *request, int32_t threads);
    /* exact/exact_answer_gpu.h; NULL: it is the processor's alone */
    const struct kin_exact_gpu_pipeline *gpu;
    const struct kin_tree_gpu_way *way; /* tree/tree_gpu.h: of its tree on a GPU; NULL: none */
    bool tree;                          /* it makes a tree, of the metrics that have one */
} kin_pipeline;

typedef struct kin_request {
    kin_distance distance;
    int64_t k;
    uint32_t flags;
    const uint32_t *exclude;      /* search: by query; may be NULL */
    const kin_pipeline *pipeline; /* NULL: ours */
    bool compares;                /* a search of few queries: no screen, every pair is compared; */
    bool unordered; /* of some more: screened, but an order takes longer than it saves */
    const struct kin_select_method *select; /* of a pipeline; NULL: the fastest */
    kith_method method;                     /* api/ has decided; nothing here reads it */
    int32_t sample; /* of a pipeline: columns for each of the k; 0: as many as suit */
    int32_t batch;  /* of a pipeline: queries at a time, at most; 0: as many as fit */
    bool limited;   /* by radius: engine/ cuts, and engines may leave out what is beyond */
    double radius;
    int32_t tree_height;  /* 0: by the columns; else api/ has checked that the rows allow it */
    int32_t leaf_buffer;  /* of a pipeline: queries that wait for a leaf; 0: by the height */
    int32_t shadow_axes;  /* of a graph on a GPU: in any case so many; -1: bytes; 0: by a trial */
    const double *share;  /* of a pipeline, for comparison: of the rows, those that the processor
                             selects from; NULL: by measured rates */
    kin_within within[2]; /* of queries, or of a and of b in both directions; engines may leave out
                             what is beyond. Not of graphs */
} kin_request;

/* Whether each row may leave out an id, and the ids of its list then. */
static inline bool kin_request_leaves(const kin_request *request, bool graph)
{
    return graph ? (request->flags & KITH_INCLUDE_SELF) == 0 : request->exclude != NULL;
}
static inline int64_t kin_request_ids(const kin_request *request, bool graph, int64_t rows)
{
    const int64_t ids = request->k + (kin_request_leaves(request, graph) ? 1 : 0);
    return ids < rows ? ids : rows;
}

/* That of a row, or KITH_ID_NONE. */
static inline uint32_t kin_request_left_out(const kin_request *request, bool graph, int64_t row)
{
    return !kin_request_leaves(request, graph) ? KITH_ID_NONE
           : graph                             ? (uint32_t)row
                                               : request->exclude[row];
}

/* Whether the metric goes through the screen; whether the job does: its way is ours.
 */
bool kin_exact_screens(const kin_distance *distance);
bool kin_exact_job_screens(const kin_request *request);

/* The report's name of what was run, in place of the type of a screen. */
void kin_exact_note_pipeline(kith_ctx *ctx, const kin_pipeline *pipeline);

/* Fills the context's report for a prepared corpus and a finished screen. */
void kin_exact_report(kith_ctx *ctx, const kin_prepared *corpus);

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

#endif
