/* SPDX-License-Identifier: Apache-2.0
 * What is asked, and from candidates to answers: equal rows are expanded, degenerate rows join, one
 * id is left out, and the first k are written. */
#ifndef KIN_EXACT_ANSWER_H
#define KIN_EXACT_ANSWER_H

#include "base/base_mem.h"
#include "screen/screen_prepare.h"

/* ---- What is asked --------------------------------------------------------------------------- */

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
    int32_t shadow_axes;  /* of a graph on a GPU: kin_screen_gpu_shadow_make's `given` */
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

/* Whether the job goes through the screen: its metric does, and its way is ours. */
bool kin_exact_job_screens(const kin_request *request);

/* The report's name of what was run, in place of the type of a screen. */
void kin_exact_note_pipeline(kith_ctx *ctx, const kin_pipeline *pipeline);

/* ---- From candidates to answers -------------------------------------------------------------- */

/* A thread's room for the list of one row. */
typedef struct kin_answer {
    KIN_APART const kin_groups *groups; /* of the corpus */
    kith_metric metric;
    int64_t wanted; /* k, and one more where an id may be left out */
    kin_pair *list; /* wanted of them */
    int64_t count;
    uint32_t *heap; /* cursors of tied groups, wanted of them */
    void *block;    /* of kin_answer_make */
} kin_answer;

/* Its arrays, by `wanted`; all else is the caller's to set. */
void kin_answer_name(kin_layout *layout, kin_answer *answer);

kith_status kin_answer_make(kith_ctx *ctx, const kin_groups *groups, kith_metric metric,
                            int64_t wanted, kin_answer *answer);
void kin_answer_free(kith_ctx *ctx, kin_answer *answer);

/* The list of a row: groups (sorted by (key, first), as many as hold the wanted ids, or all there
 * are) expanded into ids in the order (key, id), degenerate rows among them at key 1, cut at
 * `wanted`. */
void kin_answer_expand(kin_answer *answer, const kin_pair *groups, int64_t count);
/* The list of a degenerate row: every row is at distance 1, so the lowest ids. */
void kin_answer_degenerate(kin_answer *answer);

/* One entry, to the arrays that there are. */
void kin_answer_put(const kith_neighbors *out, int64_t at, uint32_t id, double distance);

/* Writes the first out->k of the list, `left_out` not among them, as row `row`. Whether there were
 * that many: where there were not, a candidate was lost, and the answer must not be given out. */
bool kin_answer_write(const kin_answer *answer, uint32_t left_out, const kith_neighbors *out,
                      int64_t row);

/* Slots [first, last) of the arrays that there are hold nothing: KITH_ID_NONE, as far as can be. */
void kin_answer_empty(kith_metric metric, const kith_neighbors *out, int64_t first, int64_t last);

/* Where the lists of a side go. */
typedef struct kin_answer_target {
    const kin_groups *groups; /* of the side whose rows are written */
    const uint32_t *exclude;  /* by row, or NULL */
    bool leaves_self_out;
    bool may_be_short; /* a limit's: what is not written is empty already */
    const kith_neighbors *out;
} kin_answer_target;

/* The same list for every row of the group of `first`; each leaves out its own id. */
kith_status kin_answer_write_group(kith_ctx *ctx, const kin_answer_target *target,
                                   const kin_answer *answer, uint32_t first);
/* All degenerate rows of the side. Overwrites the list. */
void kin_answer_write_degenerates(const kin_answer_target *target, kin_answer *answer);

/* ---- Whose rows a query may find: by bitmaps, groups, and the id that it leaves out ---------- */

static inline bool kin_filter_has_bitmaps(const kith_filter *filter)
{
    return filter->allow != NULL && filter->allow_stride_bytes != 0;
}

/* Whether a query may find a row, as far as bitmaps say. */
static inline bool kin_filter_allows(const kith_filter *filter, int64_t query, uint32_t row)
{
    return filter->allow == NULL ||
           (filter->allow[query * filter->allow_stride_bytes + row / 8] >> row % 8 & 1) != 0;
}

/* Whether a query may find a row, by bitmaps and groups; numbers: the queries' groups. Not by rule
 * each. */
static inline bool kin_filter_admits(const kith_filter *filter, const int64_t *numbers,
                                     int64_t query, uint32_t row)
{
    return kin_filter_allows(filter, query, row) &&
           (filter->rule == KITH_RULE_NONE ||
            (numbers[query] == filter->groups[row]) == (filter->rule == KITH_RULE_SAME));
}

/* Of a search; not by rule each. Borrowed. */
typedef struct kin_allowed {
    const kith_filter *filter; /* NULL: every query may find every row */
    const uint32_t *exclude; /* by query; NULL: nobody is left out. Read where there is a filter */
} kin_allowed;

static inline bool kin_allowed_has(const kin_allowed *allowed, int64_t query, uint32_t row)
{
    return (allowed->exclude == NULL || allowed->exclude[query] != row) &&
           kin_filter_admits(allowed->filter, allowed->filter->query_groups, query, row);
}

#endif
