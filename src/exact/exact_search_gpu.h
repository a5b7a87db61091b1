/* SPDX-License-Identifier: Apache-2.0
 * The exact engine on a GPU behind the public functions: the same answers as exact/exact_search.h,
 * byte for byte. Arguments are checked in api/; metrics are all but KITH_CUSTOM.
 *
 * What does not fit into the device's budget is batched; only when not even the smallest batch fits
 * does a call fail with KITH_E_DEVICE_MEMORY. The context's report is filled as by the CPU engine.
 */
#ifndef KIN_EXACT_SEARCH_GPU_H
#define KIN_EXACT_SEARCH_GPU_H

#include "base/base_size.h"
#include "exact/exact_answer_gpu.h"
#include "exact/exact_search.h"

/* ---- Corpora --------------------------------------------------------------------------------- */

enum { KIN_EXACT_GPU_BATCH = 64 }; /* queries of a small batch, at most */

/* A corpus in device memory: points, order, rounded copy, equal rows. Keeps gpu; where the matrix
 * lay on the device, that too. Read-only after creation, but for balls that come late. */
typedef struct kin_exact_gpu_corpus kin_exact_gpu_corpus;

struct kin_exact_gpu_corpus {
    kin_gpu *gpu;
    kith_matrix points; /* borrowed where `place` says that it lies on the device */
    kin_distance distance;
    uint32_t place;
    kin_screen_gpu_prepared prepared;
    void *block;                 /* of what follows; NULL: an empty set */
    kin_screen_gpu_worst *worst; /* of its tiles */
    /* For small batches (exact_batch_gpu.c): 0, 1, ..., a number for each tile, and for each of
     * KIN_EXACT_GPU_BATCH queries; all tiles in units, and how many units, on either side. */
    uint32_t *numbers;
    kin_screen_gpu_unit *units;
    uint32_t *unit_count;
    uint32_t batch_units;
    /* The rows of `prepared` as bytes, which are asked first (kin_exact_gpu_corpus_glance): half of
     * what a few queries read, and products of many take half the time. Or NULL. */
    kin_exact_gpu_corpus *glance;
    kin_screen_gpu_balls *balls; /* of bytes in clusters, beside the glance or as one; or NULL */
};
/* k: ids a row that will be asked for. asked: the dtype of the queries to come (integer costs need
 * equal 8-bit types). */
kith_status kin_exact_gpu_corpus_make(kith_ctx *ctx, kin_gpu *gpu,
                                      const kin_screen_gpu_source *points, kith_dtype asked,
                                      int64_t k, kin_exact_gpu_corpus **out);
/* Of a plain corpus (prepared.plain) some rows as one of its own, whose ids stay what they are:
 * kin_screen_gpu_prepare_some; it is asked for no more than it has. `all` outlives it. Asking with
 * rows that are degenerate is KITH_E_UNSUPPORTED. */
kith_status kin_exact_gpu_corpus_some(kith_ctx *ctx, const kin_exact_gpu_corpus *all,
                                      const uint8_t *allow, int64_t kept,
                                      kin_exact_gpu_corpus **out);
/* Rows of halves as bytes, too, if these are fine enough and there is room for them, and balls of
 * their tiles where these tell which ones queries need. A corpus that is made for many askers has
 * them. like: the one that it was made like, or NULL. */
kith_status kin_exact_gpu_corpus_glance(kith_ctx *ctx, const kin_exact_gpu_corpus *like,
                                        kin_exact_gpu_corpus *corpus);
/* What it takes of device memory at most, for so many askers. */
uint64_t kin_exact_gpu_glance_bytes(const kith_matrix *points, int64_t askers);
/* Candidates that bytes leave a query, about; infinity where there are none. Whether so many
 * queries ask bytes first, and the entries of their lists, where `rows` of them come at a time: 0
 * where there is no room. */
double kin_exact_gpu_glance_left(const kin_exact_gpu_corpus *corpus, const kin_request *request);
bool kin_exact_gpu_glance_serves(const kin_exact_gpu_corpus *corpus, const kin_request *request,
                                 int64_t queries);
int32_t kin_exact_gpu_glance_capacity(const kin_exact_gpu_corpus *corpus,
                                      const kin_request *request, int64_t rows);
void kin_exact_gpu_corpus_free(kith_ctx *ctx, kin_exact_gpu_corpus *corpus);
uint64_t kin_exact_gpu_corpus_bytes(const kin_exact_gpu_corpus *corpus); /* of device memory */

/* Sums become the context's report. */
void kin_exact_gpu_report(kith_ctx *ctx, const kin_screen_gpu_prepared *corpus,
                          const kin_screen_gpu_tally *tally, int64_t rows);

/* ---- What is asked --------------------------------------------------------------------------- */

/* *again: NULL, or where a corpus of bytes waits for bytes and is asked with something else, it is
 * prepared again from the rows on the device: the caller's to free. */
kith_status kin_exact_gpu_corpus_for(kith_ctx *ctx, const kin_exact_gpu_corpus *corpus,
                                     const kith_matrix *queries, int64_t k,
                                     kin_exact_gpu_corpus **again);
kith_status kin_exact_gpu_corpus_search(kith_ctx *ctx, const kin_exact_gpu_corpus *corpus,
                                        const kith_matrix *queries, const kin_request *request,
                                        uint32_t place, const kith_neighbors *out);

/* Corpus and queries of any size, in batches where they do not fit. Without queries: a graph. */
kith_status kin_exact_gpu_search(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                                 const kin_exact_gpu_query *query);
/* What rows first .. first + count - 1 of a graph leave out: their own ids, in device memory. */
kith_status kin_exact_gpu_own_ids(kith_ctx *ctx, kin_gpu *gpu, int64_t first, int64_t count,
                                  uint32_t **device);
/* Room for the next try: what this one said is forgotten. */
void kin_exact_gpu_make_room(kith_ctx *ctx, kin_gpu *gpu);
/* Both directions: the queries of each are the corpus of the other (exact_both_gpu.c). */
kith_status kin_exact_gpu_both(kith_ctx *ctx, kin_gpu *gpu, const kin_exact_gpu_query *ab,
                               const kin_exact_gpu_query *ba);

typedef struct kin_exact_gpu_radius_query {
    const kith_matrix *queries; /* NULL: each point of the corpus against all of them */
    const kin_radius_request *request;
    uint32_t place; /* of the queries */
} kin_exact_gpu_radius_query;

/* All neighbours within a radius: the same table as exact/exact_search.h, byte for byte, in host
 * memory. Of the corpus matrix and place are read. *ranges is all zero before; what it got stays
 * its own when this fails. */
kith_status kin_exact_gpu_radius(kith_ctx *ctx, kin_gpu *gpu, const kin_screen_gpu_source *corpus,
                                 const kin_exact_gpu_radius_query *query, kith_ranges *ranges);
/* By whoever finds it: one member, some rows that ask, of host memory where a team is at work. */
typedef struct kin_exact_gpu_radius_division {
    const kith_matrix *points; /* of a graph, in host memory */
    const kin_exact_gpu_radius_query *query;
    kith_status (*find)(void *arg, const kin_exact_gpu_member *member,
                        const kin_exact_gpu_radius_query *query, kith_ranges *ranges);
    void *arg;
} kin_exact_gpu_radius_division;
/* By the team that the GPU leads where `shared`; else, and where the team could not, by that GPU.
 * *ranges: as of find. */
kith_status kin_exact_gpu_radius_solve(kith_ctx *ctx, kin_gpu *gpu, bool shared,
                                       const kin_exact_gpu_radius_division *job,
                                       kith_ranges *ranges);
/* The same of a corpus that is prepared. */
kith_status kin_exact_gpu_corpus_radius(kith_ctx *ctx, const kin_exact_gpu_corpus *corpus,
                                        const kin_exact_gpu_radius_query *query,
                                        kith_ranges *ranges);

/* ---- Stripes, and the ways that stand beside them -------------------------------------------- */

/* All queries, in stripes that fit: prepared, screened or computed directly, written. */
kith_status kin_exact_gpu_search_stripes(kith_ctx *ctx, const kin_exact_gpu_corpus *corpus,
                                         const kin_exact_gpu_query *query,
                                         kin_screen_gpu_tally *tally);

/* Rows that are solved in stripes. solve: rows first .. first + count - 1; the `next` ones behind
 * them may be brought to the device meanwhile (kin_screen_gpu_prepare_ahead). */
typedef struct kin_exact_gpu_stripes {
    kith_ctx *ctx;
    kin_gpu *gpu;
    int64_t rows;
    int64_t stripe;   /* rows at a time */
    bool ahead;       /* the next ones' come meanwhile */
    bool keeps_ahead; /* what comes may be another call's: nothing is given up at the end */
    kith_status (*solve)(void *arg, int64_t first, int64_t count, int64_t next);
    void *arg;
} kin_exact_gpu_stripes;

/* A stripe that ran out of device memory is taken again without the next one's rows beside it, then
 * in halves: what the budget promised may be held by others. `stripe` and `ahead` become what
 * served. */
kith_status kin_exact_gpu_each_stripe(kin_exact_gpu_stripes *all);

/* Corpora that do not fit: in chunks, lists merged. Without queries: a graph. */
kith_status kin_exact_gpu_search_chunks(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                                        const kin_exact_gpu_query *query);

/* Tries the short way for a few queries (exact_batch_gpu.c), where the time of an answer is what
 * counts. *done is false, and nothing was written, where the job is not of its kind (many queries,
 * equal or degenerate rows, very many neighbours) or where a list overflowed: then the long way is
 * to be taken. */
kith_status kin_exact_gpu_batch_search(kith_ctx *ctx, const kin_exact_gpu_corpus *corpus,
                                       const kin_exact_gpu_query *query, bool *done);

/* A pass over the seeds of a graph that has stages (kin_screen_gpu_work_reach), each `run`
 * consecutive positions of the prepared points sorted by what it proved, and rounded again: work
 * has the new set, with centres as before if it had any. Positions that were known before are not
 * valid any more. */
kith_status kin_exact_gpu_runs_arrange(kin_screen_gpu_work *work, kin_screen_gpu_prepared *points,
                                       int32_t run);

/* ---- Radius: what exact_radius_gpu.c and exact_radius_screen_gpu.c share --------------------- */

/* Finds for one call of the library. */
typedef struct kin_exact_gpu_radius_job {
    kin_screen_gpu_device on;
    const kin_radius_request *request;
    kin_hits *hits;
    const kin_groups *groups; /* of the whole corpus */
    uint32_t id0;             /* id of the present chunk's first row */
    uint32_t row0;            /* number of the present stripe's first query */
    bool by_groups; /* queries are groups of the corpus, by their firsts: each id of one is asked */
    uint64_t memory;   /* what a batch takes of the device's, at most */
    int64_t offered;   /* pairs so far: while it stands, what failed can be tried again */
    double candidates; /* that screens found so far */
    double expected;   /* of a row, by the last rows; below 0: none was seen */
    kin_screen_gpu_tally tally;
} kin_exact_gpu_radius_job;

/* Device memory for a batch, now. */
uint64_t kin_exact_gpu_radius_memory(const kin_screen_gpu_device *on);
/* Of it, how many hits are fetched at a time. */
int64_t kin_exact_gpu_radius_room(const kin_exact_gpu_radius_job *f);

/* Takes `count` hits in device memory; host: room for as many. Waits. */
kith_status kin_exact_gpu_radius_take(kin_exact_gpu_radius_job *f, const kin_screen_gpu_hit *hits,
                                      int64_t count, kin_screen_gpu_hit *host);

/* What is screened: each position of rows against each of cols. */
typedef struct kin_exact_gpu_radius_sets {
    kin_screen_gpu_set rows;
    kin_screen_gpu_set cols;
    bool graph;                            /* they are the same set, */
    const kin_screen_gpu_prepared *points; /* which this has prepared; else NULL */
    const kin_screen_gpu_worst *col_worst; /* kin_screen_gpu_worst_find */
    const kin_screen_gpu_rows *row_matrix;
    const kin_screen_gpu_rows *col_matrix;
} kin_exact_gpu_radius_sets;

/* KITH_E_DEVICE_MEMORY leaves pairs that were offered: the caller begins anew where `offered` has
 * risen. */
kith_status kin_exact_gpu_radius_screen(kin_exact_gpu_radius_job *f,
                                        const kin_exact_gpu_radius_sets *what);

/* ---- Rows that are known beforehand: exact_pick_gpu.c ---------------------------------------- */

/* of[i] = numbers[i] in 32 bits, in device memory; numbers: there, too, or on the host (NULL:
 * zeros). Waits. */
kith_status kin_exact_gpu_numbers_find(kith_ctx *ctx, kin_gpu *gpu, const int64_t *numbers,
                                       int64_t rows, uint32_t *of, kin_screen_gpu_numbers *found);

/* Groups of rows and of queries, numbers below `groups`, in host memory or on the device. A query
 * may find the rows of its own group, or those of all others, that a bitmap allows (NULL: all). */
typedef struct kin_exact_gpu_groups {
    bool there; /* both arrays lie on the device */
    const uint32_t *of_rows;
    int64_t rows;
    const uint32_t *of_queries; /* NULL: of a graph, those of its rows */
    int64_t queries;
    int64_t groups;
    const uint8_t *allow;
    bool others;
} kin_exact_gpu_groups;

/* The same in device memory, sorted. */
typedef struct kin_exact_gpu_grouping {
    const kin_exact_gpu_groups *source;
    bool once; /* rows and queries are the same lists */
    kin_screen_gpu_span_totals found;
    void *block;
    uint32_t *words;
    uint32_t *of_rows;
    uint32_t *of_queries;
    uint32_t *row_begin;
    uint32_t *query_begin;
    uint32_t *next;
    uint32_t *listed; /* rows, group by group */
    uint32_t *asked;  /* queries */
    uint32_t *owners; /* their groups */
    kin_screen_gpu_span *spans;
    kin_screen_gpu_span_totals *totals;
} kin_exact_gpu_grouping;
/* With what `there` lies in. */
uint64_t kin_exact_gpu_grouping_bytes(const kin_exact_gpu_groups *source);
/* Waits. Freed on failure. */
kith_status kin_exact_gpu_grouping_make(kith_ctx *ctx, kin_gpu *gpu,
                                        const kin_exact_gpu_groups *source,
                                        kin_exact_gpu_grouping *grouping);
void kin_exact_gpu_grouping_free(kin_gpu *gpu, kin_exact_gpu_grouping *grouping);

typedef struct kin_exact_gpu_picks {
    const kith_matrix *corpus;
    uint32_t place;                   /* of the corpus */
    const kin_exact_gpu_query *query; /* without queries: a graph */
    const kin_exact_gpu_grouping *grouping;
} kin_exact_gpu_picks;
/* Each query is compared with all rows that it may find; slots behind them become empty. One GPU,
 * all at once: KITH_E_DEVICE_MEMORY where that does not fit. */
kith_status kin_exact_gpu_pick(kith_ctx *ctx, kin_gpu *gpu, const kin_exact_gpu_picks *picks);
/* Some queries of them, whose answers may be short (fills): to what the caller has made. */
typedef struct kin_exact_gpu_asked {
    const kin_exact_gpu_grouping *grouping;
    const kin_screen_gpu_rows *queries;
    const kin_screen_gpu_rows *corpus;
    const uint32_t *ids;    /* device: of queries, */
    const uint32_t *owners; /* and their groups */
    int64_t rows;
    int64_t longest; /* rows that one of them may find, at most */
} kin_exact_gpu_asked;
/* Of all queries those whose groups have fewer than `least` rows. */
kith_status kin_exact_gpu_pick_few(kin_exact_gpu_answers *answers, const kin_exact_gpu_asked *all,
                                   int64_t least);
/* Those that lost candidates: lost->lost, of, seats and points are set. *many: they are too many
 * for it, and nothing was solved. Waits. */
kith_status kin_exact_gpu_pick_lost(kin_exact_gpu_answers *answers, const kin_exact_gpu_asked *all,
                                    const kin_screen_gpu_lost *lost, bool *many);
/* The same as kin_exact_gpu_pick, not of all others, by a screen of all groups at once
 * (exact_seats_gpu.c). *done is false, and nothing was written, where no group has
 * KIN_EXACT_GPU_SEATS_LEAST rows, one has more than KIN_EXACT_GPU_SEATS_ROWS, or a row is
 * degenerate. */
enum { KIN_EXACT_GPU_SEATS_ROWS = 1 << 17, KIN_EXACT_GPU_SEATS_LEAST = 96 };
kith_status kin_exact_gpu_seats(kith_ctx *ctx, kin_gpu *gpu, const kin_exact_gpu_picks *picks,
                                bool *done);
/* What that takes of a GPU beside the groups, at most, is added to *bytes; of host memory. */
typedef struct kin_exact_gpu_seated {
    const kith_matrix *corpus;
    const kith_matrix *queries; /* NULL: a graph */
    const kin_request *request;
    int64_t groups;
    uint32_t *row_begin;   /* groups + 1 */
    uint32_t *query_begin; /* where rows and queries are the same lists row_begin */
} kin_exact_gpu_seated;
kith_status kin_exact_gpu_seats_bytes(kith_ctx *ctx, kin_gpu *gpu, const kin_exact_gpu_seated *job,
                                      uint64_t *bytes);
/* Of a graph, without a bitmap, whose groups are few: what each point has nearest in all others, by
 * the screen, of points that are prepared once (exact_both_gpu.c). *done is false, and nothing was
 * written, where there are more than 64 groups, where lists would be short, where many points are
 * equal, and where pairs shall serve one end. One GPU, all at once. */
kith_status kin_exact_gpu_across(kith_ctx *ctx, kin_gpu *gpu, const kin_exact_gpu_picks *picks,
                                 bool *done);

/* ---- Which way, and how much (exact_layout_gpu.c) -------------------------------------------- */

/* Which way a job takes, and what it takes of a device's memory: the same sums for the drivers,
 * which cut their stripes and chunks by them, and for plans. */

/* Whether a job goes through the screen: its metric does, k is within the lists' reach, and there
 * is enough to screen. */
bool kin_exact_gpu_screens(const kin_request *request, int64_t corpus_rows, int64_t query_rows);

/* Whether a search, or both directions of one, is divided: there is a team, and rows for it. */
bool kin_exact_gpu_team_searches(const kin_gpu *gpu, int64_t queries, uint32_t place);
/* Fewer rows a member are nearly all in the seeds of a graph. */
enum { KIN_EXACT_GPU_TEAM_ROWS = 1024 };
/* Whether a graph is divided: pairs of blocks, each of which serves both ends. */
bool kin_exact_gpu_team_graphs(const kin_gpu *gpu, const kith_matrix *points,
                               const kin_request *request, uint32_t place);

/* Blocks of device memory are rounded up: small ones by a quarter, large ones to 2 MiB. */
static inline uint64_t kin_exact_gpu_with_slack(uint64_t bytes)
{
    const uint64_t most = 24u << 20;
    return kin_size_add(bytes, bytes < most ? bytes : most);
}

/* Whether a job that ended with `status` is to be done once more: it ran out of device memory, and
 * its parts can adapt to less of it. Otherwise the next job finds all of it again. */
bool kin_exact_gpu_again(kith_ctx *ctx, kin_gpu *gpu, kith_status status);

/* The least that a stripe of queries, or a chunk of a corpus, is cut down to. */
enum { KIN_EXACT_GPU_LEAST_ROWS = 256 };

static inline int64_t kin_exact_gpu_halved(int64_t rows)
{
    return kin_round_up(kin_ceil_div(rows, 2), KIN_EXACT_GPU_LEAST_ROWS);
}

/* Queries and the corpus, or the chunk of it, that they meet. */
typedef struct kin_exact_gpu_meeting {
    const kith_matrix *queries; /* NULL: the corpus' own points, which lie there */
    const kin_request *request;
    uint32_t place;
    const kin_gpu *gpu; /* whose methods of selection tell what they take */
    kith_dtype corpus_dtype;
    int64_t corpus_rows;
    bool screens; /* kin_exact_gpu_screens of the whole job */
} kin_exact_gpu_meeting;

/* Device memory that a stripe of `count` queries takes beside the corpus at most, where so much
 * room is left: the queries, their answers, the work. */
uint64_t kin_exact_gpu_stripe_bytes(const kin_exact_gpu_meeting *meeting, int64_t count,
                                    uint64_t room);

/* Rows as they are given, which are brought to the device while others are worked on. */
static inline uint64_t kin_exact_gpu_ahead_bytes(const kith_matrix *matrix, int64_t rows)
{
    return kin_size_mul((uint64_t)rows,
                        (uint64_t)matrix->cols * (uint64_t)kith_dtype_bytes(matrix->dtype));
}

/* Queries of a stripe, where so much room is left beside the corpus: all, or as many as fit; ahead:
 * beside the rows of as many more, which come next. */
int64_t kin_exact_gpu_stripe_rows(const kin_exact_gpu_meeting *meeting, uint64_t room,
                                  uint64_t scope, bool ahead);

/* A job whose corpus does not fit. */
typedef struct kin_exact_gpu_chunked {
    const kith_matrix *corpus;
    kin_exact_gpu_meeting meeting; /* corpus_rows is not read */
    uint64_t room;                 /* before the first chunk */
    uint64_t scope;
    int64_t chunk;  /* rows of the corpus at a time */
    int64_t stripe; /* queries at a time */
    bool ahead;     /* in: may the next ones' rows come meanwhile? out: they find room, too */
} kin_exact_gpu_chunked;

/* Sets chunk, stripe and ahead; the second with chunks of so many rows. */
void kin_exact_gpu_cut_chunks(kin_exact_gpu_chunked *chunked);
void kin_exact_gpu_cut_stripes(kin_exact_gpu_chunked *chunked, int64_t rows);

/* Device memory: what a job wants at its best, and the least it runs in, by its pipeline; gpu is
 * the device that it would run on. queries NULL: a graph. */
typedef struct kin_exact_gpu_need {
    uint64_t whole_bytes;  /* everything resident */
    uint64_t least_bytes;  /* smallest batches */
    int64_t corpus_chunks; /* batches within the budget of gpu */
    int64_t query_stripes;
    uint64_t host_bytes; /* of a pipeline's batches within the budget, pinned memory with it */
} kin_exact_gpu_need;
kin_exact_gpu_need kin_exact_gpu_plan_need(const kith_matrix *corpus, const kith_matrix *queries,
                                           const kin_request *request, const kin_gpu *gpu,
                                           int32_t threads);

#endif
