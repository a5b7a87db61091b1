/* SPDX-License-Identifier: Apache-2.0
 * Where points of NN-Descent meet: costs of few positions against few others, gathered from
 * anywhere, as orders (descent_word.h).
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
#ifndef KIN_DESCENT_DESCENT_MATCH_H
#define KIN_DESCENT_DESCENT_MATCH_H

#include "descent/descent_word.h"
#include "exact/exact_prepare.h"

struct kin_descent_kernel;
struct kin_descent_least;

/* What a cost has besides the product: cost(i, j) = row_term_i + col_term_j - 2 product(i, j). */
typedef struct kin_descent_terms {
    kin_word row;
    kin_word col;
} kin_descent_terms;

typedef struct kin_descent_points {
    const kin_prepared *prepared;
    int64_t count;                           /* positions */
    const uint32_t *ids;                     /* position -> row */
    const struct kin_descent_kernel *kernel; /* NULL: a direct metric, and no rows */
    int64_t stride;                          /* words of a row, a multiple of 16 */
    uint32_t *rows;
    kin_descent_terms *terms;
    bool symmetric;
} kin_descent_points;

/* prepared: kin_prepare_rows, and kin_prepare_set where kin_exact_screens(); stays. */
kith_status kin_descent_points_make(kith_ctx *ctx, const kin_prepared *prepared,
                                    kin_descent_points *points);
void kin_descent_points_free(kith_ctx *ctx, kin_descent_points *points);
/* frame: NULL for a direct metric. */
uint64_t kin_descent_points_bytes(const kin_frame *frame, int64_t count);

/* What one thread needs to match, and where it finds the orders. */
typedef struct kin_descent_matcher {
    const kin_descent_points *points;
    void (*least)(const uint32_t *orders, const uint32_t *back, int64_t stride, int32_t new_count,
                  int32_t count, const struct kin_descent_least *least);
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
    uint32_t *nearest;  /* what kin_descent_match_least works with */
    double evaluations; /* costs that were asked for since it was made */
} kin_descent_matcher;

/* Points that are no more than a shape, for plans: of a frame, NULL for a direct metric. Nothing of
 * *prepared is read but what is set here. */
kin_descent_points kin_descent_points_shape(const kin_frame *frame, const kin_distance *distance,
                                            kin_prepared *prepared);
/* A matcher and its arrays, for meetings of at most so many NEW and OLD samples. */
void kin_descent_matcher_name(kin_layout *layout, const kin_descent_points *points,
                              int32_t most_new, int32_t most_old, kin_descent_matcher *matcher);

/* samples: new_count NEW positions, then old_count OLD ones, all different. Fills orders and back
 * for i < new_count + old_count, j < min(i, new_count); what else lies there is undefined. */
void kin_descent_match(kin_descent_matcher *matcher, const uint32_t *samples, int32_t new_count,
                       int32_t old_count);

/* Of the last meeting, as words that are new: the nearest NEW sample that each sample met, and the
 * nearest OLD one that each NEW sample met (nearest_old: new_count words). KIN_DESCENT_EMPTY where
 * it met none. Of equal orders the sample that stands first. */
void kin_descent_match_least(const kin_descent_matcher *matcher, const uint32_t *samples,
                             int32_t new_count, int32_t old_count, uint64_t *nearest_new,
                             uint64_t *nearest_old);

/* orders[i]: the cost of others[i] as a neighbour of `position`. Any count. */
void kin_descent_match_one(kin_descent_matcher *matcher, uint32_t position, const uint32_t *others,
                           int64_t count, uint32_t *orders);

/* Asks memory for rows that meet soon: a meeting's samples while the one before is matched. */
static inline void kin_descent_prefetch(const kin_descent_points *points, const uint32_t *samples,
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

#endif
