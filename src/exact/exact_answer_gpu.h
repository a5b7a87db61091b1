/* SPDX-License-Identifier: Apache-2.0
 * From candidate lists in device memory to answers, wherever they shall lie. */
#ifndef KIN_EXACT_ANSWER_GPU_H
#define KIN_EXACT_ANSWER_GPU_H

#include "exact/exact_answer.h"
#include "screen/screen_prepare_gpu.h"
#include "select/select.h"

/* What is left word of there (kin_gpu_notes): the lowest place of a value that is not allowed, as
 * of kin_screen_gpu_check; that a query has too few neighbours. */
enum { KIN_EXACT_GPU_NOTE_BAD, KIN_EXACT_GPU_NOTE_FEW };

/* Queries, what is asked about them, and where the answers go. */
typedef struct kin_exact_gpu_query {
    const kith_matrix *queries; /* NULL: the points of the corpus */
    const char *name;           /* of the queries in messages */
    const kin_request *request;
    uint32_t place;
    const kith_neighbors *out;
} kin_exact_gpu_query;

/* Rows first .. first + count - 1 of outputs. */
kith_neighbors kin_exact_gpu_rows_of(const kith_neighbors *out, int64_t first, int64_t count);

/* Points as they lie on the device. */
static inline kith_matrix kin_exact_gpu_resident(const kith_matrix *points,
                                                 const kin_screen_gpu_rows *rows)
{
    kith_matrix there = *points;
    there.data = rows->data;
    there.stride_bytes = rows->stride_bytes;
    return there;
}

/* Those rows of a search as one of its own. */
typedef struct kin_exact_gpu_slice {
    kith_matrix queries;
    kin_request request;
    kith_neighbors out;
    kin_exact_gpu_query query; /* of these three */
} kin_exact_gpu_slice;
void kin_exact_gpu_slice_of(const kin_exact_gpu_query *query, int64_t first, int64_t count,
                            kin_exact_gpu_slice *slice);

/* What kernels count: rows that found too few, and two numbers of the caller's. */
enum { KIN_EXACT_GPU_COUNTS = 3 };

/* Where the answers of one side go, for one call of the library. Kernels write them where every row
 * is its own answer; where rows are equal or degenerate, and where lists of several chunks of a
 * corpus meet, the host does, with what the CPU engine writes with. */
typedef struct kin_exact_gpu_answers {
    kin_screen_gpu_device on;
    kith_metric metric;
    const kin_groups *groups; /* of the corpus, or of its present chunk */
    kin_answer_target target;
    bool exclude_on_device; /* target.exclude is device memory */
    int64_t wanted;         /* ids a row: k, and one more where one may be left out */
    bool by_host;           /* the host writes, whatever the rows are */
    bool out_on_device;     /* target.out points to device memory */
    bool chunks;            /* the corpus comes in pieces, whose lists are merged */
    bool behind;            /* what kernels wrote is fetched beside later work: until the caller has
                               called kin_gpu_behind_end */
    bool kernels_write;
    const kin_screen_gpu_set *among; /* the rows that may be found; NULL: all */
    bool fills; /* lists may be short, and slots behind them become empty: kernels alone can */

    /* Kernels write. */
    void *device_block;
    kith_neighbors device;   /* outputs in device memory */
    const uint32_t *exclude; /* in device memory, or NULL */
    uint32_t *own_exclude;   /* the copy of it, in either memory, that is ours */
    uint64_t *short_rows;    /* KIN_EXACT_GPU_COUNTS numbers, 0 at first */
    bool settled;            /* the caller has seen that no row is short */

    /* The host writes. */
    void *host_block;
    kith_neighbors host; /* where the caller's outputs are of device memory */
    kin_answer *threads; /* a list each */
    kin_pair *merged;    /* chunks: rows x wanted; NULL: one chunk */
    int32_t *merged_count;
    uint32_t id0;  /* id of the present chunk's first row */
    uint32_t row0; /* output row of the present stripe's first query */

    kin_screen_gpu_tally tally;
} kin_exact_gpu_answers;

/* The parts of an answer that are wanted, of so many rows. */
void kin_exact_gpu_outputs_name(kin_layout *layout, const kith_neighbors *wanted, int64_t rows,
                                kith_neighbors *own);
/* All parts of `to`, on the host, from the device. Waits. */
kith_status kin_exact_gpu_outputs_fetch(const kin_screen_gpu_device *on, const kith_neighbors *to,
                                        const kith_neighbors *from);
/* All parts of `to`, on the device, from the host. */
kith_status kin_exact_gpu_outputs_send(kith_ctx *ctx, kin_gpu *gpu, const kith_neighbors *to,
                                       const kith_neighbors *from);

/* What is asked, of a corpus; asked: the groups of whose rows answers are written. Nothing is
 * allocated. Without queries: a graph. */
kin_exact_gpu_answers kin_exact_gpu_answers_of(const kin_screen_gpu_device *on,
                                               const kin_exact_gpu_query *query,
                                               const kin_groups *corpus, const kin_groups *asked);
/* on, metric, groups, target, by_host and wanted are set, the rest zero. out_on_device: the
 * pointers of target.out are device memory. chunks: the corpus comes in pieces, whose lists are
 * merged. */
kith_status kin_exact_gpu_answers_make(kin_exact_gpu_answers *a, bool out_on_device, bool chunks);
void kin_exact_gpu_answers_free(kin_exact_gpu_answers *a);
/* The corpus' next chunk, whose first row has the id id0. */
void kin_exact_gpu_answers_chunk(kin_exact_gpu_answers *a, const kin_groups *groups, uint32_t id0);

/* The lists of a finished work, with those that lost candidates (exact_finish_gpu.c, which stands
 * above exact_answer_gpu.c). rows, cols: the matrices of its sets. Of a team in lockstep each
 * member rescores the rows that it owns, and the first one takes what they find and runs again what
 * lost candidates. Waits. */
kith_status kin_exact_gpu_answers_take(kin_exact_gpu_answers *a, const kin_screen_gpu_work *work,
                                       const kin_screen_gpu_rows *rows,
                                       const kin_screen_gpu_rows *cols);
/* What it takes of device memory beside the pairs where k is above KIN_SCREEN_GPU_SORTED_K, of so
 * many rows and columns in so much room, at most; else nothing. */
uint64_t kin_exact_gpu_long_bytes(const kin_gpu *gpu, int64_t rows, int64_t cols, int64_t k,
                                  uint64_t room);
/* Where kernels write `rows` rows of ids (device): without pairs, counts and their k. */
kin_screen_gpu_write kin_exact_gpu_answers_job(const kin_exact_gpu_answers *a, const uint32_t *ids,
                                               int64_t rows);
/* Finished lists of `rows` rows (k pairs each, counts of them in use; device memory, as are ids,
 * KITH_ID_NONE among them being no row): kernels write. */
kith_status kin_exact_gpu_answers_write(kin_exact_gpu_answers *a, const kin_screen_gpu_pair *pairs,
                                        const int32_t *counts, int32_t k, const uint32_t *ids,
                                        int64_t rows);
/* The same in host memory, lists of ids in which equal and degenerate rows stand already: the host
 * writes. */
kith_status kin_exact_gpu_answers_take_whole(kin_exact_gpu_answers *a, const kin_pair *pairs,
                                             const uint32_t *ids, int64_t rows, int32_t k);
/* Rows of the host's ids[]: canonical keys of all their pairs with cols. */
kith_status kin_exact_gpu_answers_solve(kin_exact_gpu_answers *a, const kin_screen_gpu_rows *rows,
                                        const kin_screen_gpu_rows *cols, const uint32_t *ids,
                                        int64_t count);

/* Finished lists on their way to the outputs, a batch of rows at a time: whoever has a kernel that
 * writes them. */
typedef struct kin_exact_gpu_delivery {
    kin_screen_gpu_pair *pairs; /* device: most x k */
    int32_t *counts;            /* device: by row, pairs in use */
    int64_t most; /* rows of a batch: a multiple of KIN_SCREEN_GPU_BLOCK, or all there are */
    int32_t k;
    kin_pair *host_pairs; /* where the host writes */
    int32_t *host_counts;
    uint32_t *host_ids;
} kin_exact_gpu_delivery;

/* Room for batches of lists of k pairs, `rows` rows in all. The hold gives it back. */
kith_status kin_exact_gpu_delivery_make(kin_hold *hold, const kin_exact_gpu_answers *a,
                                        int64_t rows, int32_t k, kin_exact_gpu_delivery *d);
/* What stands in pairs and counts for the first `rows` rows. ids (device): the row of the output;
 * KITH_ID_NONE: none. lost (host, by row, or NULL): 1 where candidates were lost: the host leaves
 * those out, kernels write them like any other. */
kith_status kin_exact_gpu_delivery_run(kin_exact_gpu_answers *a, kin_exact_gpu_delivery *d,
                                       const uint32_t *ids, int64_t rows, const uint8_t *lost);

/* Device memory that answers take beside outputs that are the caller's. */
uint64_t kin_exact_gpu_answers_bytes(int64_t rows, int64_t k);
/* A delivery alone. */
uint64_t kin_exact_gpu_delivery_bytes(int64_t rows, int32_t k);

/* Degenerate rows, merged lists, and the copy to where the caller wants it. Waits. */
kith_status kin_exact_gpu_answers_finish(kin_exact_gpu_answers *a, const kith_neighbors *out,
                                         int64_t corpus_rows);

/* ---- The host's part ------------------------------------------------------------------------- */

/* Equal rows are expanded, degenerate rows join, one id is left out, lists of chunks are merged by
 * (key, id). With what the CPU engine writes with (exact_answer.h), on all threads. */

/* Finished lists of some rows, in host memory. */
typedef struct kin_exact_gpu_finished {
    const kin_pair *pairs; /* rows x k, sorted; NULL: none, degenerate rows alone */
    const int32_t *counts; /* in use; NULL: k each */
    const uint32_t *ids;   /* of the rows; KITH_ID_NONE: no row, left out */
    const uint8_t *lost;   /* 1: this row is left out; or NULL */
    int64_t rows;
    int32_t k;
} kin_exact_gpu_finished;

/* To the outputs, or to the merged lists. */
kith_status kin_exact_gpu_host_write(const kin_exact_gpu_answers *a,
                                     const kin_exact_gpu_finished *lists);

/* ---- The answers of several GPUs: exact_finish_gpu.c ----------------------------------------- */

/* Finished lists of a team in lockstep, a batch of rows at a time: each member computes those of
 * the positions that it owns into pairs and counts of its delivery, the first one fetches them into
 * its own and delivers them. */
typedef struct kin_exact_gpu_relay {
    kin_exact_gpu_answers *answers; /* of a member that does not deliver: `on`, and kernels_write */
    const int64_t *firsts;          /* whose positions: firsts[part] .. firsts[part + 1] - 1 */
    int64_t rows;                   /* in all */
    int32_t k;
    kith_status (*compute)(void *arg, kin_exact_gpu_delivery *d, int64_t row0, int64_t rows);
    kith_status (*deliver)(void *arg, kin_exact_gpu_delivery *d, int64_t row0, int64_t rows);
    /* Before the first batch; NULL: nothing. */
    kith_status (*begin)(void *arg, kin_exact_gpu_delivery *d);
    void *arg;
} kin_exact_gpu_relay;
kith_status kin_exact_gpu_team_relay(const kin_exact_gpu_relay *relay);

/* ---- Rows that need nothing of each other, by a team: exact_answer_gpu.c --------------------- */

/* Rows first .. first + count - 1 of a job, which a member answers. */
typedef struct kin_exact_gpu_member {
    kith_ctx *ctx;
    kin_gpu *gpu;
    int32_t part; /* of so many */
    int32_t parts;
    int64_t first;
    int64_t count;
} kin_exact_gpu_member;
kin_exact_gpu_member kin_exact_gpu_member_of(kith_ctx *ctx, kin_gpu *gpu, int64_t rows,
                                             int32_t part, int32_t parts);

/* What members report of their rows, by part. Seconds are those of the first; what is a row's is
 * averaged over all. */
typedef struct kin_exact_gpu_told {
    kith_report reports[KIN_GPU_TEAM_MOST];
    int64_t rows[KIN_GPU_TEAM_MOST];
} kin_exact_gpu_told;
void kin_exact_gpu_told_take(const kin_exact_gpu_member *member, kin_exact_gpu_told *told);
void kin_exact_gpu_told_add_up(const kin_exact_gpu_told *told, int32_t parts, kith_report *report);

/* A job of so many rows, that a team may divide. */
typedef struct kin_exact_gpu_division {
    int64_t rows;
    kith_status (*solve)(void *arg, const kin_exact_gpu_member *member);
    void *arg;
} kin_exact_gpu_division;
/* All rows by the team that the GPU leads, each member working alone. */
kith_status kin_exact_gpu_divide(kith_ctx *ctx, kin_gpu *gpu, const kin_exact_gpu_division *job);
/* The same where `shared`; else, and where the team could not, by that GPU. */
kith_status kin_exact_gpu_solve(kith_ctx *ctx, kin_gpu *gpu, bool shared,
                                const kin_exact_gpu_division *job);
/* Whether the leader alone shall do what the team could not: it works in batches where a team wants
 * all on each GPU, and who is told of a bad value is told the number of its row. The failure is
 * then logged and forgotten. */
bool kin_exact_gpu_team_yields(kith_ctx *ctx, kith_status status);

/* ---- From keys of all pairs: exact_direct_gpu.c ---------------------------------------------- */

/* Metrics without a matrix product, jobs that are too small to be screened, and the last resort for
 * rows that no screen could finish. Equal rows need no care here: every row is itself. */

/* All pairs of queries and corpus; both are resident, with their transforms. queries == corpus (the
 * same pointer): a graph. query: request, place and out are read. Any k up to what exists. Adds to
 * the context's report. */
kith_status kin_exact_gpu_direct(kith_ctx *ctx, kin_gpu *gpu, const kin_screen_gpu_rows *corpus,
                                 const kin_screen_gpu_rows *queries,
                                 const kin_exact_gpu_query *query);

/* Some rows, and the k <= cols->rows first of all columns for each of them, sorted by (key, id). */
typedef struct kin_exact_gpu_solving {
    const kin_screen_gpu_rows *rows;
    const kin_screen_gpu_rows *cols;
    const kin_screen_gpu_set *among; /* the columns that count, at least k; NULL: all */
    const uint32_t *ids;             /* device: of rows */
    int64_t count;
    int32_t k;
    kin_screen_gpu_pair *pairs; /* device, count x k */
} kin_exact_gpu_solving;
/* The same among some columns: exact_pick_gpu.c. */
kith_status kin_exact_gpu_pick_among(const kin_screen_gpu_device *on,
                                     const kin_exact_gpu_solving *solving);
/* Waits. */
kith_status kin_exact_gpu_direct_rows(const kin_screen_gpu_device *on,
                                      const kin_exact_gpu_solving *solving);

/* Device memory that kin_exact_gpu_direct takes beside the rows, where there is room for all of it.
 */
uint64_t kin_exact_gpu_direct_bytes(int64_t rows, int64_t corpus_rows, int64_t k);
/* At least. */
uint64_t kin_exact_gpu_direct_least_bytes(int64_t corpus_rows, int64_t k);
/* ---- Other ways ------------------------------------------------------------------------------ */

/* A way that a request brings in place of ours (kin_pipeline, exact_search.h), on a GPU, where
 * costs are screened. It is either one of lists (fill) or one whose answers the host writes
 * (answer). Sizes are of device memory within that much scope, beside corpus, queries and answers.
 */

typedef struct kin_exact_gpu_pipeline {
    bool by_host;
    /* fill: what kin_screen_gpu_work_run does; lists are one-sided, work->graph is not set. answer:
     * the lists of all positions of `queries` among those of `corpus`, to a; both sets hold rows;
     * worst: of the tiles of the corpus. */
    kith_status (*fill)(kin_screen_gpu_work *work, const kin_request *request);
    kith_status (*answer)(kin_exact_gpu_answers *a, const kin_screen_gpu_prepared *queries,
                          const kin_screen_gpu_prepared *corpus, const kin_screen_gpu_worst *worst,
                          const kin_request *request);
    uint64_t (*bytes)(const kin_gpu *gpu, const kin_request *request, int64_t rows, int64_t columns,
                      uint64_t scope);
    /* Host memory, pinned memory with it; NULL: none to speak of. */
    uint64_t (*host_bytes)(const kin_request *request, int64_t rows, int64_t columns,
                           uint64_t scope, int32_t threads);
} kin_exact_gpu_pipeline;

static inline bool kin_exact_gpu_by_host(const kin_request *request)
{
    const kin_pipeline *pipeline = request->pipeline;
    return pipeline != NULL && pipeline->gpu != NULL && pipeline->gpu->by_host;
}

#endif
