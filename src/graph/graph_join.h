/* SPDX-License-Identifier: Apache-2.0
 * Where points of NN-Descent meet: costs of few positions against few others, gathered from
 * anywhere, as orders (graph_word.h).
 *
 *   points     rows of the exact engine's rounded set, out of their panels: a position's row is
 *              contiguous, 64-byte aligned, one gather. Direct metrics have none; their cost is the
 *              canonical key rounded to float. A caller's own function may return a NaN, whose
 *              order is outside those of the infinities
 *   meeting    samples: NEW ones, then OLD ones. NEW x NEW once a pair, and NEW x OLD:
 *
 *                          columns: NEW 0 .. new - 1
 *                rows:     NEW   |  \                  j < i
 *                                |    \
 *                          OLD   |   all
 *
 * The fewer stand in columns, because columns have to be transposed for the unit.
 *
 * An order depends on the two positions, on who asks, and on the machine: not on the meeting, on
 * what else is in it, nor on threads. Where the metric is symmetric neither on who asks.
 */
#ifndef KIN_GRAPH_MATCH_H
#define KIN_GRAPH_MATCH_H

#include "base/base_size.h"
#include "graph/graph_word.h"
#include "screen/screen_prepare.h"

struct kin_graph_kernel;
struct kin_graph_least;

/* What a cost has besides the product: cost(i, j) = row_term_i + col_term_j - 2 product(i, j). */
typedef struct kin_graph_terms {
    kin_word row;
    kin_word col;
} kin_graph_terms;

typedef struct kin_graph_points {
    const kin_prepared *prepared;
    int64_t count;                         /* positions */
    const uint32_t *ids;                   /* position -> row */
    const struct kin_graph_kernel *kernel; /* NULL: a direct metric, and no rows */
    int64_t stride;                        /* words of a row, a multiple of 16 */
    uint32_t *rows;
    kin_graph_terms *terms;
    bool symmetric;
} kin_graph_points;

/* prepared: kin_prepare_rows, and kin_prepare_set where kin_is_screened(); stays. */
kith_status kin_graph_points_make(kith_ctx *ctx, const kin_prepared *prepared,
                                  kin_graph_points *points);
void kin_graph_points_free(kith_ctx *ctx, kin_graph_points *points);
/* frame: NULL for a direct metric. */
uint64_t kin_graph_points_bytes(const kin_frame *frame, int64_t count);

/* What one thread needs to match, and where it finds the orders. */
typedef struct kin_graph_join {
    KIN_APART const kin_graph_points *points;
    void (*least)(const uint32_t *orders, const uint32_t *back, int64_t stride, int32_t new_count,
                  int32_t count, const struct kin_graph_least *least);
    int32_t most_new;
    int32_t most_old;
    int64_t stride;   /* of the matrices, at least most_new */
    uint32_t *orders; /* [i * stride + j]: the cost of sample j as a neighbour of sample i, */
    uint32_t *back;   /* and of sample i as a neighbour of sample j. The same array where the metric
                         is symmetric */
    uint32_t *rows;   /* gathered */
    uint32_t *cols;   /* gathered and transposed */
    kin_word *row_terms;
    kin_word *col_terms;
    double *query; /* direct metrics */
    double *keys;
    uint32_t *ids;
    uint32_t *nearest;  /* what kin_graph_join_least works with */
    double evaluations; /* costs that were asked for since it was made */
} kin_graph_join;

/* Points that are no more than a shape, for plans: of a frame, NULL for a direct metric. Nothing of
 * *prepared is read but what is set here. */
kin_graph_points kin_graph_points_shape(const kin_frame *frame, const kin_distance *distance,
                                        kin_prepared *prepared);
/* A matcher and its arrays, for meetings of at most so many NEW and OLD samples. */
void kin_graph_join_name(kin_layout *layout, const kin_graph_points *points, int32_t most_new,
                         int32_t most_old, kin_graph_join *matcher);

/* samples: new_count NEW positions, then old_count OLD ones, all different. Fills orders and back
 * for i < new_count + old_count, j < min(i, new_count); what else lies there is undefined. */
void kin_graph_join_run(kin_graph_join *matcher, const uint32_t *samples, int32_t new_count,
                        int32_t old_count);

/* Any positions against any others, as many as rows and columns of a meeting: orders[i * stride +
 * j] is the cost of cols[j] as a neighbour of rows[i], back[i * stride + j] that of rows[i] as one
 * of cols[j]. */
void kin_graph_join_between(kin_graph_join *matcher, const uint32_t *rows, int32_t row_count,
                            const uint32_t *cols, int32_t col_count);

/* Of the last meeting, as words that are new: the nearest NEW sample that each sample met, and the
 * nearest OLD one that each NEW sample met (nearest_old: new_count words). KIN_GRAPH_EMPTY where
 * it met none. Of equal orders the sample that stands first. */
void kin_graph_join_least(const kin_graph_join *matcher, const uint32_t *samples, int32_t new_count,
                          int32_t old_count, uint64_t *nearest_new, uint64_t *nearest_old);

/* orders[i]: the cost of others[i] as a neighbour of `position`. Any count. */
void kin_graph_join_one(kin_graph_join *matcher, uint32_t position, const uint32_t *others,
                        int64_t count, uint32_t *orders);

/* Asks memory for rows that meet soon: a meeting's samples while the one before is matched. */
static inline void kin_graph_prefetch(const kin_graph_points *points, const uint32_t *samples,
                                      int32_t count)
{
    /* The first lines; the processor sees by itself how a long row goes on. */
    enum { WORDS_A_LINE = 16, LINES = 4 };
    for (int32_t i = 0; points->rows != NULL && i < count; i++) {
        const uint32_t *row = points->rows + (int64_t)samples[i] * points->stride;
        for (int64_t w = 0; w < points->stride && w < LINES * WORDS_A_LINE; w += WORDS_A_LINE) {
            __builtin_prefetch(row + w, 0, 2);
        }
    }
}

/* The inner contract of a meeting: rows gathered from anywhere, products of all with a few of them,
 * costs as orders. One kernel a type and machine, as of the exact engine's screen (screen_tile.h):
 * types, groups of 4 bytes, terms and panels are those.
 *
 *   rows       samples as they were gathered: `wide` words each, zeros behind the groups. s8 signed
 *   panels     the first of them, 16 a panel, transposed: group 0 of 16 samples, group 1, ... s8
 *              with 128 added
 *   order      of row_term_i + col_term_j - 2 product(i, j)
 *
 * A product is summed group after group from zero, by the same instructions for every pair: the
 * order of a pair is the same in both directions and in every meeting. */

struct kin_graph_points; /* graph_join.h */

/* Counts of rows and columns are rounded up to these before a kernel sees them; a multiple of every
 * kernel's tile. */
enum { KIN_GRAPH_ROWS_STEP = 96, KIN_GRAPH_COLS_STEP = 32, KIN_GRAPH_WIDE_STEP = 16 };

typedef struct kin_graph_product {
    const uint32_t *rows;
    const uint32_t *panels;
    int64_t wide;  /* a multiple of KIN_GRAPH_WIDE_STEP */
    int64_t pitch; /* groups from one panel to the next */
    int32_t groups;
    int32_t before; /* row i asks for columns below before + i */
    int32_t row_count;
    int32_t col_count;
    const kin_word *row_terms;
    const kin_word *col_terms;
    uint32_t *orders; /* orders[i * stride + j]; whole tiles are written */
    int64_t stride;
} kin_graph_product;

/* Who is nearest in the matrices of a meeting (kin_graph_join_run): to each row among the columns
 * that it met, and to each column among the NEW rows and among the OLD rows that it met. The first
 * of equals; order UINT32_MAX, and any sample, where none was met. Room for counts rounded up to
 * KIN_GRAPH_COLS_STEP. */
typedef struct kin_graph_least {
    uint32_t *row_order;
    uint32_t *row_sample;
    uint32_t *new_order;
    uint32_t *new_sample;
    uint32_t *old_order;
    uint32_t *old_sample;
} kin_graph_least;

/* rows are searched in `orders`, columns in `back`. */
typedef void (*kin_graph_least_fn)(const uint32_t *orders, const uint32_t *back, int64_t stride,
                                   int32_t new_count, int32_t count, const kin_graph_least *least);

/* Costs of orders (graph_word.h). */
static inline float kin_graph_float_of_order(uint32_t order)
{
    const uint32_t bits = (order >> 31) != 0 ? order ^ 0x80000000u : ~order;
    float cost;
    memcpy(&cost, &bits, sizeof cost);
    return cost;
}

static inline int32_t kin_graph_int_of_order(uint32_t order)
{
    return (int32_t)(order ^ 0x80000000u);
}

typedef struct kin_graph_kernel {
    const char *name;
    kin_tile_type type;
    kin_isa isa;
    /* rows: count x wide words. */
    void (*gather)(const struct kin_graph_points *points, const uint32_t *samples, int32_t count,
                   int64_t wide, uint32_t *rows);
    /* count: a multiple of KIN_PANEL. */
    void (*transpose)(const uint32_t *rows, int64_t wide, int32_t count, uint32_t *panels);
    /* All pairs but those of the triangle that nobody asks for, where they fill a tile. */
    void (*multiply)(const kin_graph_product *product);
} kin_graph_kernel;

/* A matrix of orders, and how far is too far. */
typedef struct kin_graph_orders {
    const uint32_t *orders;
    int64_t stride;
    int64_t rows;
    int64_t cols; /* a multiple of KIN_PANEL */
    const uint32_t *row_limits;
    const uint32_t *col_limits;
} kin_graph_orders;

/* Pairs whose order is at most the larger limit of their row and their column, as
 * row << 16 | column, row after row; returns how many. hits: room for all pairs. */
typedef int64_t (*kin_graph_hits_fn)(const kin_graph_orders *of, uint32_t *hits);

/* Puts a word into `length` ascending ones, of which KIN_GRAPH_EMPTY are the last; what was last
 * goes. One that is there already, or comes behind all, stays out. So what a list holds in the end
 * does not depend on the order in which words came. */
typedef void (*kin_graph_put_fn)(uint64_t *words, int64_t length, uint64_t word);
void kin_graph_put_portable(uint64_t *words, int64_t length, uint64_t word);

/* What a level does with words. */
typedef struct kin_graph_words {
    kin_graph_least_fn least;
    kin_graph_hits_fn hits;
    kin_graph_put_fn put;
} kin_graph_words;

KIN_BODIES_OF(kin_graph_words)
const kin_graph_words *kin_graph_words_get(kin_isa isa);

#define KIN_GRAPH_KERNEL(TYPE, type, NAME, isa) \
    extern const kin_graph_kernel kin_graph_##type##_##isa;
KIN_PRODUCT_MAP(KIN_GRAPH_KERNEL)

/* A product of rounded rows of points: all but groups and wide is given. */
static inline void kin_graph_multiply(const kin_graph_points *points, kin_graph_product product)
{
    product.groups = points->prepared->frame.groups;
    product.wide = kin_round_up(product.groups, KIN_GRAPH_WIDE_STEP);
    points->kernel->multiply(&product);
}

/* Its rows, and their terms. */
static inline void kin_graph_take_rows(const kin_graph_points *points, const uint32_t *who,
                                       int32_t count, uint32_t *rows, kin_word *terms)
{
    const int64_t wide = kin_round_up(points->prepared->frame.groups, KIN_GRAPH_WIDE_STEP);
    points->kernel->gather(points, who, count, wide, rows);
    for (int32_t i = 0; i < count; i++) {
        terms[i] = points->terms[who[i]].row;
    }
}

/* Rows from anywhere, side by side. Compiled by each descent_match_*.c with its machine's flags, so
 * that a line of 64 bytes is as few moves as the machine has. */

/* Rows of less than a line: 4, 8, 16 or 32 bytes. What is behind them stays zero. */
static inline void gather_short(const kin_graph_points *points, const uint32_t *samples,
                                int32_t count, int64_t wide, uint32_t *rows)
{
    for (int32_t i = 0; i < count; i++) {
        const uint32_t *from = points->rows + (int64_t)samples[i] * points->stride;
        for (int64_t w = 0; w < points->stride; w++) {
            rows[i * wide + w] = from[w];
        }
    }
}

static inline void gather_rows(const kin_graph_points *points, const uint32_t *samples,
                               int32_t count, int64_t wide, uint32_t *rows)
{
    enum { WORDS = KIN_GRAPH_WIDE_STEP };
    if (points->stride < wide) {
        gather_short(points, samples, count, wide, rows);
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        const uint32_t *from = points->rows + (int64_t)samples[i] * wide;
        for (int64_t w = 0; w < wide; w += WORDS) {
            memcpy(rows + i * wide + w, from + w, WORDS * sizeof *rows);
        }
    }
}

#endif
