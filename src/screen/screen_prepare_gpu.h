/* SPDX-License-Identifier: Apache-2.0
 * What is made of a matrix on a device before it is searched: checked values, transforms, groups of
 * equal rows, an order in which near rows stand together, a frame, the rounded copy and its balls.
 * The counterpart of screen/screen_prepare.h. The steps that have files of their own stand at the
 * end. */
#ifndef KIN_SCREEN_PREPARE_GPU_H
#define KIN_SCREEN_PREPARE_GPU_H

#include "screen/screen_corpus.h"
#include "screen/screen_stage_gpu.h"

typedef struct kin_screen_gpu_prepared {
    kin_distance distance;
    /* of the matrix, or of the stripe of it that begins with row `first` */
    kin_screen_gpu_rows rows;
    int64_t first;
    /* All rows are groups of their own and none is degenerate: of groups only rows and count are
     * set. Otherwise groups are as from kin_groups_make, by rows of `rows`. */
    bool plain;
    kin_groups groups;
    kin_screen_gpu_set set; /* groups.count positions; none where that is 0 */

    /* Of rows of halves: the frame in which they would be bytes, and how many candidates those
     * leave a row of which byte_k are asked for (0: not tried, or too many to tell). */
    kin_screen_gpu_frame byte_frame;
    double byte_candidates;
    int64_t byte_k;
    int64_t framed;     /* points of which the frame was made, and pivots were drawn, */
    double framed_lost; /* and what the worst of them lost */

    /* Of another (kin_screen_gpu_prepare_some, _bytes), which outlives this: rows, mean and pivots
     * are that one's. some: what is not in the set must not be found. */
    bool borrows;
    bool some;
    bool measured; /* columns have means */
    bool covered;  /* the set has balls and an order */

    /* Device memory that is ours; rows and set point into it. */
    void *row_block;  /* transforms, degenerate, mean, rows.period */
    void *set_block;  /* ids, facts, half; where it is covered centres, radii, marks */
    void *ball_block; /* centres and radii of queries that were ordered */
    void *data;
    kin_row_transform *transforms;
    uint8_t *degenerate;
    uint32_t *ids;    /* set.ids, for callers that permute it and round again */
    uint32_t *firsts; /* groups.firsts, of kin_screen_gpu_prepare_groups; NULL: 0, 1, ... */
    /* A corpus that was ordered by cells (screen_order_gpu.c): rows of `rows`, one a cell, in the
     * order of the cells; cells of the tiles, kin_screen_gpu_sort_marks of them. NULL: not ordered.
     */
    uint32_t *pivots;
    int64_t pivot_count;
    uint32_t *marks;
    /* Where rows may come to it: of the list that was ordered, what the screen found nearest
     * (kin_screen_gpu_screen.nearest), and a block more. */
    bool grows;
    uint64_t *nearest;
    uint64_t *hashes; /* by row: of kin_screen_gpu_group */
    uint32_t *places; /* by row: its position, where columns have means */
    double *mean;
    unsigned char *rounded;
    unsigned char *starts; /* behind them; NULL: none */
    kin_screen_gpu_facts *facts;
    kin_screen_gpu_word *half;
    float *centres;
    float *radii;
} kin_screen_gpu_prepared;

/* A matrix that is prepared. */
typedef struct kin_screen_gpu_source {
    const kith_matrix *matrix;
    const kin_distance *distance;
    const char *name; /* in messages about values */
    uint32_t place;   /* KIN_GPU_DATA_ON_DEVICE: the matrix is borrowed */
    int64_t first;    /* rows first .. first + count - 1 */
    int64_t count;    /* 0: all */
    int64_t askers;   /* of a corpus: queries that it is prepared for; 0: not known */
    uint64_t *bad;    /* of queries that nobody asks for their worst row, or starts: device. What is
                         wrong with values is left there (kin_screen_gpu_check) and not waited for, as
                         long as rows have no transforms; or NULL */
    bool arranged;    /* of a corpus: its rows will be arranged and rounded again before balls are
                         asked for, and nobody else searches it; so floats that are whole numbers of
                         a byte's range may stand in it as bytes */
    int64_t apart;    /* of a corpus: so many rows may equal others, and stay rows of their own */
    bool grows;       /* of a corpus: rows may come to it, as to `like` */
    const kin_screen_gpu_prepared *like; /* of a corpus: one of its first rows, the last ones apart,
                                       whose frame and cells it takes if they serve; or NULL.
                                       Messages count rows from the last ones' first on */
} kin_screen_gpu_source;

static inline kith_matrix kin_screen_gpu_source_rows(const kin_screen_gpu_source *source)
{
    return source->count == 0 ? *source->matrix
                              : kin_matrix_part(source->matrix, source->first, source->count);
}

/* A corpus. asked: the dtype of the queries to come; k: ids a row. Only metrics that are screened
 * get groups, an order and a set; the others stop after the check (plain, set empty). */
kith_status kin_screen_gpu_prepare_corpus(kith_ctx *ctx, kin_gpu *gpu,
                                          const kin_screen_gpu_source *source, kith_dtype asked,
                                          int64_t k, kin_screen_gpu_prepared *out);

/* Checked rows and groups of equal ones, neither order nor frame nor set: for the tree. */
kith_status kin_screen_gpu_prepare_groups(kith_ctx *ctx, kin_gpu *gpu,
                                          const kin_screen_gpu_source *source,
                                          kin_screen_gpu_prepared *out);

/* Of a plain corpus the `kept` rows, at least one, that a bitmap in host memory allows (bit r % 8
 * of byte r / 8), in its frame and order. */
kith_status kin_screen_gpu_prepare_some(const kin_screen_gpu_device *on,
                                        const kin_screen_gpu_prepared *all, const uint8_t *allow,
                                        int64_t kept, kin_screen_gpu_prepared *out);

/* The rows of a corpus of halves, as bytes: in byte_frame and their order. past: where the halves
 * are in the frame of some that they grew from, the bytes of those; or NULL. */
kith_status kin_screen_gpu_prepare_bytes(const kin_screen_gpu_device *on,
                                         const kin_screen_gpu_prepared *halves,
                                         const kin_screen_gpu_past *past,
                                         kin_screen_gpu_prepared *out);
uint64_t kin_screen_gpu_set_bytes(const kin_screen_gpu_prepared *bytes); /* of device memory */

/* Whether so many points have balls and an order; fewer have nothing to skip. */
static inline bool kin_screen_gpu_is_covered(const kin_distance *distance, int64_t points)
{
    return points >= 4096 && kin_metric_get_traits(distance->metric)->screen == KIN_SCREEN_DISTANCE;
}

/* Rows that are prepared, as another set: screen_some_gpu.c. */
typedef struct kin_screen_gpu_listing {
    kin_screen_gpu_frame frame;
    int64_t room; /* positions that the rounded copy has room for, at least */
    kin_screen_gpu_past past;
    /* Fills out->ids, and marks where it is covered; on the stream. */
    kith_status (*list)(void *arg, const kin_screen_gpu_device *on, kin_screen_gpu_prepared *out);
    void *arg;
} kin_screen_gpu_listing;
/* out: all but what is of the set, of which groups.count rows become positions. */
kith_status kin_screen_gpu_prepare_listed(const kin_screen_gpu_device *on,
                                          const kin_screen_gpu_listing *listing,
                                          kin_screen_gpu_prepared *out);
/* A set of which rows come and go may become so much larger than it was framed for; its blocks have
 * room for that, so that the next one finds one of the same size that the one before has left. */
static inline int64_t kin_screen_gpu_room_of(int64_t framed)
{
    return kin_round_up(framed + framed / 8, KIN_SCREEN_GPU_BLOCK);
}

/* Queries, in the frame of their corpus (NULL: a metric that is not screened). Not grouped, not
 * ordered; degenerate rows stay out of the set. */
kith_status kin_screen_gpu_prepare_queries(const kin_screen_gpu_device *on,
                                           const kin_screen_gpu_source *source,
                                           const kin_screen_gpu_frame *frame,
                                           kin_screen_gpu_prepared *out);

/* Rows, group by group, as a set in which each group begins with a block of its own
 * (kin_screen_gpu_spread): neither grouped nor ordered. frame NULL: of a corpus, asked is then the
 * dtype of the queries to come. Where a row is degenerate `plain` is false, and there is no set. */
kith_status kin_screen_gpu_prepare_spread(const kin_screen_gpu_device *on,
                                          const kin_screen_gpu_source *source, kith_dtype asked,
                                          const kin_screen_gpu_frame *frame,
                                          const kin_screen_gpu_spread *spread,
                                          kin_screen_gpu_prepared *out);

/* A hint: rows first .. first + count of a matrix on the host are prepared next, and brought to the
 * device until then, if they find room there (gpu/gpu.h; whoever gives hints ends them). */
static inline void kin_screen_gpu_prepare_ahead(kith_ctx *ctx, kin_gpu *gpu,
                                                const kith_matrix *matrix, int64_t first,
                                                int64_t count)
{
    const kin_gpu_rows rows = kin_gpu_rows_of(matrix, first, count);
    kin_gpu_ahead_begin(ctx, gpu, &rows, 1);
}

/* Rounds all positions again after out->ids was permuted, which leaves the worst of them and their
 * starts what they are; covers them again where there are balls. Does not wait. */
kith_status kin_screen_gpu_prepared_round(kith_ctx *ctx, kin_gpu *gpu,
                                          kin_screen_gpu_prepared *prepared);
/* Rounds all positions again in the frame of another set, whose mean must live as long. */
kith_status kin_screen_gpu_prepared_frame(const kin_screen_gpu_device *on,
                                          const kin_screen_gpu_frame *frame,
                                          kin_screen_gpu_prepared *prepared);
/* Puts queries into the order of their corpus' cells, rounds and covers them again; homes as from
 * kin_screen_gpu_order_queries. */
kith_status kin_screen_gpu_prepared_order(const kin_screen_gpu_device *on,
                                          const kin_screen_gpu_prepared *corpus,
                                          kin_screen_gpu_prepared *queries,
                                          kin_screen_gpu_home **homes);
void kin_screen_gpu_prepared_free(kith_ctx *ctx, kin_gpu *gpu, kin_screen_gpu_prepared *prepared);

/* Device memory for `rows` rows: what stays, and the most while it is made. */
typedef struct kin_screen_gpu_prepared_need {
    uint64_t resident;
    uint64_t most;
} kin_screen_gpu_prepared_need;
kin_screen_gpu_prepared_need kin_screen_gpu_prepared_bytes(const kith_matrix *matrix, int64_t rows,
                                                           const kin_distance *distance,
                                                           kith_dtype asked, uint32_t place,
                                                           bool corpus);
/* Of kin_screen_gpu_prepare_groups. */
kin_screen_gpu_prepared_need kin_screen_gpu_groups_bytes(const kith_matrix *matrix, uint32_t place);

/* ---- Equal and degenerate rows, as lists on the host (screen_prepare.h): screen_group_gpu.c -- */

typedef struct kin_screen_gpu_equal {
    int64_t rows;
    void *block; /* device, ours */
    uint64_t *table;
    uint32_t *firsts;
    uint64_t *hashes; /* the caller's, by row: as of kin_screen_gpu_group; or NULL */
    int64_t known;
    /* Set by the caller once the device has found them. */
    uint64_t distinct;            /* rows that are their own first */
    uint64_t degenerate;          /* rows */
    const uint8_t *is_degenerate; /* by row, device; read where there are some */
} kin_screen_gpu_equal;

/* Starts the search for equal rows; distinct (device, cleared before) gets their number. Without
 * it, every row is taken as distinct. */
kith_status kin_screen_gpu_equal_start(const kin_screen_gpu_device *on,
                                       const kin_screen_gpu_rows *rows, uint64_t *distinct,
                                       kin_screen_gpu_equal *found);
void kin_screen_gpu_equal_free(const kin_screen_gpu_device *on, kin_screen_gpu_equal *found);

/* Every row is a group of its own and none is degenerate. */
bool kin_screen_gpu_equal_is_plain(const kin_screen_gpu_equal *found, int64_t rows);
/* As from kin_groups_make; of plain rows only rows and count are set. What is made belongs to
 * groups, also on failure. */
kith_status kin_screen_gpu_equal_lists(const kin_screen_gpu_device *on,
                                       const kin_screen_gpu_equal *found, int64_t rows,
                                       kin_groups *groups);

/* Device memory that the search takes. */
uint64_t kin_screen_gpu_equal_bytes(int64_t rows);

/* ---- An order in which near points stand together: screen_order_gpu.c ------------------------ */

/* Any order is right; a good one makes early reaches tight and lets tiles be skipped. */

/* prepared->ids from listed[0 .. points) (device, ascending; NULL: 0, 1, ...). The buffers of the
 * set are used, and hold no rounded rows of this order afterwards. What the order was made of stays
 * in prepared->pivots and prepared->marks. askers: see kin_screen_gpu_source; an order for a few
 * queries has no more pivots than these, or 128, so that it takes no longer than they do. like:
 * whose pivots these are, rows of `prepared`, too; NULL: of its own. */
kith_status kin_screen_gpu_order_points(const kin_screen_gpu_device *on,
                                        kin_screen_gpu_prepared *prepared, const uint32_t *listed,
                                        int64_t askers, const kin_screen_gpu_prepared *like);
/* Prepared queries go into the order of their corpus' cells; marks that they have are then of
 * those. homes, of each block of queries: host memory that the caller frees; NULL where the corpus
 * has no cells. Ids alone: rounded rows are those of the order before
 * (kin_screen_gpu_prepared_order).
 */
kith_status kin_screen_gpu_order_queries(const kin_screen_gpu_device *on,
                                         const kin_screen_gpu_prepared *corpus,
                                         kin_screen_gpu_prepared *queries,
                                         kin_screen_gpu_home **homes);
/* The same of queries that stand in the order of those cells already; both have marks of them. */
kith_status kin_screen_gpu_order_homes(const kin_screen_gpu_device *on,
                                       const kin_screen_gpu_prepared *corpus,
                                       const kin_screen_gpu_prepared *queries,
                                       kin_screen_gpu_home **homes);
/* Device memory that either takes for a while. */
uint64_t kin_screen_gpu_order_bytes(int64_t points, int32_t row_bytes, bool corpus);

/* ---- The cheap type: screen_type_gpu.c ------------------------------------------------------- */

/* The type that needs no try. Whole numbers of 8 bits are their own rounded copy (in a graph floats
 * are looked at for such first); all else goes to fp16, or to quantised bytes where a pilot finds
 * them fine enough. */
static inline kin_screen_gpu_type
kin_screen_gpu_type_of(const kin_distance *distance, const kith_matrix *matrix, kith_dtype asked)
{
    kith_matrix queries = *matrix;
    queries.dtype = asked;
    return kin_frame_is_integer(distance, matrix, &queries) ? KIN_SCREEN_GPU_S8
                                                            : KIN_SCREEN_GPU_F16;
}
/* Whether the rows of a graph are their own rounded copy: of 8 bits, or floats whose values bytes
 * of one type hold. misfits: of kin_screen_gpu_check; 0 before it: whether they may be. */
static inline bool kin_screen_gpu_are_bytes(const kin_screen_gpu_source *source, uint32_t misfits)
{
    kith_matrix bytes = *source->matrix;
    bytes.dtype = KITH_U8;
    return source->arranged && kin_frame_is_integer(source->distance, &bytes, &bytes) &&
           misfits != (KIN_BYTES_U8 | KIN_BYTES_I8);
}
/* Whether columns get means and a scale: whole numbers need none. */
static inline bool kin_screen_gpu_is_measured(const kin_distance *distance,
                                              const kith_matrix *matrix, kith_dtype asked)
{
    return kin_is_screened(distance) &&
           kin_screen_gpu_type_of(distance, matrix, asked) != KIN_SCREEN_GPU_S8;
}
/* Of a rounded row. */
static inline int32_t kin_screen_gpu_type_bytes_of(kin_screen_gpu_type type, int32_t cols)
{
    return (int32_t)kin_round_up((int64_t)cols * (type == KIN_SCREEN_GPU_F16 ? 2 : 1),
                                 KIN_SCREEN_GPU_SLICE);
}

/* Whether bytes are fine enough to screen a corpus in is asked of the data, on a few thousand
 * rows. */

/* The fewest points and the largest k that are tried. */
enum { KIN_SCREEN_GPU_TYPE_POINTS = 50000, KIN_SCREEN_GPU_TYPE_K = 128 };
/* Candidates of a pilot's row which say how many a row of the corpus has: a run has four times as
 * many rows, all near. */
enum { KIN_SCREEN_GPU_TYPE_TELLS = 512 };

/* frame: of quantised bytes; prepared->ids in an order in which near rows stand together.
 * candidates: what a screen in this frame leaves of a row's k neighbours and more. Waits. */
kith_status kin_screen_gpu_type_try(const kin_screen_gpu_device *on,
                                    const kin_screen_gpu_prepared *prepared,
                                    const kin_screen_gpu_frame *frame, int64_t k,
                                    double *candidates);
uint64_t kin_screen_gpu_type_bytes(int32_t row_bytes, int64_t k);

/* ---- Shadows: screen_shadow_gpu.c, screen_cast_gpu.c ----------------------------------------- */

/* Rows of a few columns (screen/screen_corpus.h), or of bytes, that stages of a graph screen in
 * place of the full ones, since they are never farther apart but for what is known to be lost; what
 * passes is looked at in full. Lists, reaches and so answers are what they would be without. */
typedef struct kin_screen_gpu_shadow {
    int32_t axes; /* 0: none of that kind */
    bool bytes;   /* of all columns */
    void *block;
} kin_screen_gpu_shadow;
enum { KIN_SCREEN_GPU_SHADOW_BYTES = -1 };

/* Before the stages of a graph whose rows have a reach and are where they stay: a basis from a
 * sample, of as many axes as take least by a trial, or bytes by what a pilot has found; then
 * work->cast. None where full rows are screened sooner, and where device memory is short. given: so
 * many axes in any case, from 1 to KIN_SCREEN_GPU_MOST_AXES - 1 and at most the columns, as halves;
 * from 2 on and negative as bytes; KIN_SCREEN_GPU_SHADOW_BYTES; 0: what takes least. */
kith_status kin_screen_gpu_shadow_make(kin_screen_gpu_work *work,
                                       const kin_screen_gpu_prepared *points, int32_t given,
                                       kin_screen_gpu_shadow *shadow);
void kin_screen_gpu_shadow_free(const kin_screen_gpu_device *on, kin_screen_gpu_shadow *shadow);

/* The two kinds make work->cast and what goes with it of rows that stay where they are, and cut
 * stages short, so that what passes, which is about `share` of the pairs, finds room to wait.
 * shadow gets the memory, also on failure. */

/* The images in a basis, and the length of what it leaves of each row, as halves or bytes. */
kith_status kin_screen_gpu_cast_axes(kin_screen_gpu_work *work, kin_axes *axes, bool bytes,
                                     double share, kin_screen_gpu_shadow *shadow);
/* All columns of rows of halves, as bytes: one of them is `unit` of the rows'. */
kith_status kin_screen_gpu_cast_bytes(kin_screen_gpu_work *work, double unit, double share,
                                      kin_screen_gpu_shadow *shadow);

#endif
