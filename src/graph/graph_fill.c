/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base_random.h"
#include "graph/graph_start.h"
#include "host/host_threads.h"
#include "metric/metric_canonical.h"

#include <math.h>

enum { POINTS_A_TASK = 64, MOST_TRIES = 8 };

typedef struct filling {
    kin_graph_rounds *rounds;
    const kin_graph_request *request;
    const uint32_t *owner;
    const uint32_t *ids; /* points x each */
    int32_t each;
    int32_t least;
    bool ordered;
} filling;

static kith_status fill_lists(filling *f, kin_task_fn body)
{
    return kin_parallel_rows(f->rounds->ctx, "start", f->rounds->lists.points, POINTS_A_TASK, body,
                             f);
}

void kin_graph_owners(const kin_prepared *prepared, uint32_t *owner)
{
    const kin_groups *groups = &prepared->groups;
    for (int64_t row = 0; row < groups->rows; row++) {
        owner[row] = KITH_ID_NONE;
    }
    for (int64_t p = 0; p < groups->count; p++) {
        for (uint32_t row = prepared->order[p]; row != KITH_ID_NONE;
             row = kin_groups_next(groups, row)) {
            owner[row] = (uint32_t)p;
        }
    }
}

/* The row of a group that begins at `row` which is the first at or behind the split. */
static uint32_t first_behind(const kin_groups *groups, uint32_t row, int64_t split)
{
    while (row != KITH_ID_NONE && (int64_t)row < split) { /* a group's rows ascend */
        row = kin_groups_next(groups, row);
    }
    return row;
}

void kin_graph_sides(const kin_prepared *prepared, int64_t split, uint8_t *sides)
{
    for (int64_t p = 0; p < prepared->groups.count; p++) {
        const uint32_t row = prepared->order[p];
        const bool behind = first_behind(&prepared->groups, row, split) != KITH_ID_NONE;
        sides[p] = (uint8_t)(((int64_t)row < split ? KIN_GRAPH_BELOW : 0) |
                             (behind ? KIN_GRAPH_BEHIND : 0));
    }
}

/* The worker's first `count` numbers are positions, not the own: their costs, and into the list. */
static kith_status take(kin_graph_rounds *rounds, kin_graph_thread *w, int64_t position,
                        int32_t count, uint32_t is_new)
{
    const int32_t length = rounds->lists.length;
    const uint32_t *positions = w->orders;
    uint32_t *orders = w->orders + length;
    kin_graph_join_one(&w->matcher, (uint32_t)position, positions, count, orders);
    if (rounds->points->prepared->distance.metric == KITH_CUSTOM) {
        KIN_TRY(kin_graph_check_orders(rounds, orders, count));
    }
    for (int32_t i = 0; i < count; i++) {
        w->words[i] = kin_graph_word(orders[i], positions[i], is_new);
    }
    (void)kin_graph_list_join(&rounds->lists, position, w->words, count, w->words + length);
    return KITH_OK;
}

/* ---- A graph that is given ------------------------------------------------------------------- */

/* Row `row` of the graph into the list of its group. */
static kith_status take_row(const filling *f, kin_graph_thread *w, int64_t p, uint32_t row)
{
    kin_graph_rounds *rounds = f->rounds;
    const int64_t split = f->request->split;
    const bool behind = split > 0 && (int64_t)row >= split;
    const kith_neighbors *graph = behind ? f->request->init2 : f->request->init;
    const int64_t first = behind ? split : 0;
    const uint32_t *ids = graph->ids + ((int64_t)row - first) * graph->k;
    int32_t count = 0;
    for (int64_t i = 0; i < graph->k; i++) {
        const uint32_t other =
            (int64_t)ids[i] < graph->rows ? f->owner[first + ids[i]] : KITH_ID_NONE;
        if (other != KITH_ID_NONE && other != (uint32_t)p) {
            w->orders[count++] = other;
        }
        if (count > 0 && (count == rounds->lists.length || i + 1 == graph->k)) {
            KIN_TRY(take(rounds, w, p, count, split == 0));
            count = 0;
        }
    }
    return KITH_OK;
}

static kith_status fill_from_graph(void *arg, int64_t p, int32_t thread)
{
    const filling *f = arg;
    kin_graph_thread *w = &f->rounds->workers[thread];
    const kin_prepared *prepared = f->rounds->points->prepared;
    const uint32_t row = prepared->order[p];
    KIN_TRY(take_row(f, w, p, row));
    if ((int64_t)row < f->request->split) {
        const uint32_t twin = first_behind(&prepared->groups, row, f->request->split);
        KIN_TRY(twin == KITH_ID_NONE ? KITH_OK : take_row(f, w, p, twin));
    }
    return KITH_OK;
}

kith_status kin_graph_fill_graph(kin_graph_rounds *rounds, const kin_graph_request *request,
                                 const uint32_t *owner)
{
    filling f = {.rounds = rounds, .request = request, .owner = owner};
    return fill_lists(&f, fill_from_graph);
}

static kith_status fill_from_ids(void *arg, int64_t p, int32_t thread)
{
    const filling *f = arg;
    const int32_t length = f->rounds->lists.length;
    kin_graph_thread *w = &f->rounds->workers[thread];
    for (int32_t first = 0; first < f->each; first += length) {
        const int32_t count = (int32_t)kin_min_i64(length, f->each - first);
        memcpy(w->orders, f->ids + p * f->each + first, (size_t)count * sizeof *w->orders);
        KIN_TRY(take(f->rounds, w, p, count, 1));
    }
    return KITH_OK;
}

kith_status kin_graph_fill_ids(kin_graph_rounds *rounds, const uint32_t *ids, int32_t each)
{
    filling f = {.rounds = rounds, .ids = ids, .each = each};
    return fill_lists(&f, fill_from_ids);
}

/* ---- At random ------------------------------------------------------------------------------- */

/* `count` positions around the own, which is not among them. */
static int32_t draw_around(int64_t points, int64_t position, int32_t count, uint32_t *positions)
{
    const int64_t wide = kin_min_i64(count + 1, points);
    const int64_t first = kin_max_i64(0, kin_min_i64(position - wide / 2, points - wide));
    int32_t drawn = 0;
    for (int64_t p = first; p < first + wide; p++) {
        if (p != position) {
            positions[drawn++] = (uint32_t)p;
        }
    }
    return drawn;
}

static kith_status fill_at_random(void *arg, int64_t position, int32_t thread)
{
    const filling *f = arg;
    kin_graph_rounds *rounds = f->rounds;
    kin_graph_thread *w = &rounds->workers[thread];
    const kin_graph_lists *lists = &rounds->lists;
    uint64_t state = kin_graph_mix(rounds->seed ^ kin_graph_mix((uint64_t)position + 1));
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        const int32_t count = kin_graph_list_count(lists, position);
        const int32_t missing = lists->length - count;
        int32_t drawn = 0;
        if (count >= f->least) {
            break;
        }
        if (f->ordered && tries == 0) {
            drawn = draw_around(lists->points, position, missing / 2, w->orders);
        }
        while (drawn < missing) {
            const uint32_t other = (uint32_t)kin_random_below(&state, (uint64_t)lists->points - 1);
            w->orders[drawn++] = other + (other >= (uint32_t)position ? 1u : 0u);
        }
        KIN_TRY(take(rounds, w, position, drawn, 1));
    }
    return KITH_OK;
}

kith_status kin_graph_fill_random(kin_graph_rounds *rounds, int32_t least, bool ordered)
{
    filling f = {.rounds = rounds, .least = least, .ordered = ordered};
    return fill_lists(&f, fill_at_random);
}

/* ---- Across --------------------------------------------------------------------------------- */

static kith_status fill_across(void *arg, int64_t position, int32_t thread)
{
    const filling *f = arg;
    kin_graph_rounds *rounds = f->rounds;
    kin_graph_thread *w = &rounds->workers[thread];
    const kin_prepared *prepared = rounds->points->prepared;
    const kin_graph_split sets = {f->request->split, prepared->groups.rows};
    const int32_t wanted = rounds->lists.length - kin_graph_list_count(&rounds->lists, position);
    const uint32_t own = prepared->order[position];
    int32_t drawn = 0;
    for (int32_t place = 0; place < wanted; place++) {
        const uint32_t row =
            kin_graph_row_across(sets, rounds->seed, (uint32_t)position, own, place, wanted);
        const uint32_t other = row == UINT32_MAX ? KITH_ID_NONE : f->owner[row];
        if (other != KITH_ID_NONE && kin_graph_is_across(sets.split, own, prepared->order[other])) {
            w->orders[drawn++] = other;
        }
    }
    return drawn == 0 ? KITH_OK : take(rounds, w, position, drawn, 1);
}

kith_status kin_graph_fill_across(kin_graph_rounds *rounds, const kin_graph_request *request,
                                  const uint32_t *owner)
{
    filling f = {.rounds = rounds, .request = request, .owner = owner};
    return fill_lists(&f, fill_across);
}

/* A few more neighbours of the relative are much cheaper than a round: of histograms of 784 columns
 * the first 32 hold 0.85 of the ten nearest under kl, the first 128 hold 0.99. */
enum { POSITIONS_A_TASK = 256, NEIGHBOURS = 128, LIST_STEP = 8 };

typedef struct relating {
    const kin_graph_points *points;
    int32_t cols;
    int64_t wide;   /* cols rounded up, as rows are loaded */
    double *values; /* by thread: wide */
    double *most;   /* by thread: the largest |value| */
    double unit;    /* of all */
    float *rows;    /* positions x cols */
} relating;

bool kin_graph_has_relative(kith_metric metric)
{
    return metric == KITH_CHI2 || metric == KITH_KL || metric == KITH_JACCARD ||
           metric == KITH_MANHATTAN || metric == KITH_CHEBYSHEV ||
           kin_metric_base(metric) == KITH_MINKOWSKI;
}

static const double *load(const relating *r, int64_t position, int32_t thread)
{
    const kin_prepared *prepared = r->points->prepared;
    double *values = r->values + thread * r->wide;
    (void)kin_metric_load(&prepared->distance, &prepared->rows, r->points->ids[position], values);
    return values;
}

static kith_status find_most(void *arg, int64_t p, int32_t thread)
{
    const relating *r = arg;
    const double *values = load(r, p, thread);
    double most = 0.0;
    for (int32_t i = 0; i < r->cols; i++) {
        most = fmax(most, fabs(values[i]));
    }
    if (most > r->most[thread]) { /* seldom: others' stand beside it */
        r->most[thread] = most;
    }
    return KITH_OK;
}

/* In units of the largest value, so that float64 rows stay in range. */
static kith_status relate(void *arg, int64_t p, int32_t thread)
{
    const relating *r = arg;
    const kith_metric metric = r->points->prepared->distance.metric;
    const double *values = load(r, p, thread);
    float *row = r->rows + p * r->cols;
    for (int32_t i = 0; i < r->cols; i++) {
        const double x = values[i] / r->unit;
        if (metric == KITH_JACCARD) {
            row[i] = values[i] != 0.0 ? 1.0F : 0.0F;
        } else {
            row[i] = (float)(metric == KITH_CHI2 || metric == KITH_KL ? sqrt(x) : x);
        }
    }
    return KITH_OK;
}

static kith_status relate_all(kith_ctx *ctx, relating *r)
{
    const uint64_t threads = (uint64_t)ctx->threads;
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, r->values, kin_size_mul(threads, (uint64_t)r->wide), "threads");
    KIN_NEW_ZERO(&hold, r->most, threads, "threads");
    KIN_TRY(kin_parallel_rows(ctx, "start", r->points->count, POSITIONS_A_TASK, find_most, r));
    for (int32_t t = 0; t < ctx->threads; t++) {
        r->unit = fmax(r->unit, r->most[t]);
    }
    r->unit = r->unit > 0.0 ? r->unit : 1.0;
    return kin_parallel_rows(ctx, "start", r->points->count, POSITIONS_A_TASK, relate, r);
}

kin_graph_relative kin_graph_relative_of(const kin_graph_request *request, int64_t rows)
{
    const int64_t wished = kin_max_i64(request->list, NEIGHBOURS);
    const int64_t k = kin_min_i64(wished, kin_max_i64(rows - 1, 1));
    const bool patterns = request->distance.metric == KITH_JACCARD;
    const int32_t cols = request->distance.cols;
    return (kin_graph_relative){
        .request = {.distance = {.metric = patterns ? KITH_COSINE : KITH_SQEUCLIDEAN,
                                 .cols = cols,
                                 .isa = request->distance.isa},
                    .k = k,
                    .list = (int32_t)kin_round_up(k + 1, LIST_STEP),
                    .seed = request->seed},
        .rows = {.rows = rows,
                 .cols = cols,
                 .dtype = KITH_F32,
                 .stride_bytes = cols * (int64_t)sizeof(float)}};
}

kith_status kin_graph_relative_make(kin_hold *hold, const kin_graph_points *points,
                                    kin_graph_relative *near)
{
    float *values = NULL;
    const int32_t cols = near->rows.cols;
    const uint64_t count = (uint64_t)near->rows.rows;
    KIN_NEW(hold, values, kin_size_mul(count, (uint64_t)cols), "rows of a relative");
    KIN_NEW(hold, near->ids, kin_size_mul(count, (uint64_t)near->request.k), "neighbours");
    near->rows.data = values;
    relating r = {.points = points,
                  .cols = cols,
                  .wide = kin_round_up(cols, KIN_METRIC_LANES),
                  .rows = values};
    return relate_all(hold->ctx, &r);
}
