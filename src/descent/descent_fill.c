/* SPDX-License-Identifier: Apache-2.0 */
#include "descent/descent_fill.h"

#include "base/base_random.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"

enum { POINTS_A_TASK = 64, MOST_TRIES = 8 };

typedef struct filling {
    kin_descent_rounds *rounds;
    const kin_descent_request *request;
    const uint32_t *owner;
    int32_t least;
    bool ordered;
} filling;

void kin_descent_owners(const kin_prepared *prepared, uint32_t *owner)
{
    const kin_groups *groups = &prepared->groups;
    for (int64_t row = 0; row < groups->rows; row++) {
        owner[row] = KITH_ID_NONE;
    }
    for (int64_t p = 0; p < groups->count; p++) {
        uint32_t row = prepared->order[p];
        while (row != KITH_ID_NONE) {
            owner[row] = (uint32_t)p;
            row = groups->next == NULL ? KITH_ID_NONE : groups->next[row];
        }
    }
}

/* The row of a group that begins at `row` which is the first at or behind the split. */
static uint32_t first_behind(const kin_groups *groups, uint32_t row, int64_t split)
{
    while (row != KITH_ID_NONE && (int64_t)row < split) { /* a group's rows ascend */
        row = groups->next == NULL ? KITH_ID_NONE : groups->next[row];
    }
    return row;
}

void kin_descent_sides(const kin_prepared *prepared, int64_t split, uint8_t *sides)
{
    for (int64_t p = 0; p < prepared->groups.count; p++) {
        const uint32_t row = prepared->order[p];
        const bool behind = first_behind(&prepared->groups, row, split) != KITH_ID_NONE;
        sides[p] = (uint8_t)(((int64_t)row < split ? KIN_DESCENT_BELOW : 0) |
                             (behind ? KIN_DESCENT_BEHIND : 0));
    }
}

/* The worker's first `count` numbers are positions, not the own: their costs, and into the list. */
static kith_status take(kin_descent_rounds *rounds, kin_descent_worker *w, int64_t position,
                        int32_t count, uint32_t is_new)
{
    const int32_t length = rounds->lists.length;
    const uint32_t *positions = w->orders;
    uint32_t *orders = w->orders + length;
    kin_descent_match_one(&w->matcher, (uint32_t)position, positions, count, orders);
    if (rounds->points->prepared->distance.metric == KITH_CUSTOM) {
        KIN_TRY(kin_descent_check_orders(rounds, orders, count));
    }
    for (int32_t i = 0; i < count; i++) {
        w->words[i] = kin_descent_word(orders[i], positions[i], is_new);
    }
    (void)kin_descent_list_join(&rounds->lists, position, w->words, count, w->words + length);
    return KITH_OK;
}

/* ---- A graph that is given ------------------------------------------------------------------- */

/* Row `row` of the graph into the list of its group. */
static kith_status take_row(const filling *f, kin_descent_worker *w, int64_t p, uint32_t row)
{
    kin_descent_rounds *rounds = f->rounds;
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

static kith_status fill_from_graph(void *arg, int64_t task, int32_t thread)
{
    const filling *f = arg;
    kin_descent_worker *w = &f->rounds->workers[thread];
    const kin_prepared *prepared = f->rounds->points->prepared;
    const int64_t last = kin_min_i64((task + 1) * POINTS_A_TASK, f->rounds->lists.points);
    for (int64_t p = task * POINTS_A_TASK; p < last; p++) {
        const uint32_t row = prepared->order[p];
        KIN_TRY(take_row(f, w, p, row));
        if ((int64_t)row < f->request->split) {
            const uint32_t twin = first_behind(&prepared->groups, row, f->request->split);
            KIN_TRY(twin == KITH_ID_NONE ? KITH_OK : take_row(f, w, p, twin));
        }
    }
    return KITH_OK;
}

kith_status kin_descent_fill_graph(kin_descent_rounds *rounds, const kin_descent_request *request,
                                   const uint32_t *owner)
{
    filling f = {.rounds = rounds, .request = request, .owner = owner};
    return kin_parallel(rounds->ctx, "start", kin_ceil_div(rounds->lists.points, POINTS_A_TASK),
                        fill_from_graph, &f);
}

typedef struct giving {
    kin_descent_rounds *rounds;
    const uint32_t *ids;
    int32_t each;
} giving;

static kith_status fill_from_ids(void *arg, int64_t task, int32_t thread)
{
    const giving *g = arg;
    const kin_descent_lists *lists = &g->rounds->lists;
    kin_descent_worker *w = &g->rounds->workers[thread];
    const int64_t last = kin_min_i64((task + 1) * POINTS_A_TASK, lists->points);
    for (int64_t p = task * POINTS_A_TASK; p < last; p++) {
        for (int32_t first = 0; first < g->each; first += lists->length) {
            const int32_t count = (int32_t)kin_min_i64(lists->length, g->each - first);
            memcpy(w->orders, g->ids + p * g->each + first, (size_t)count * sizeof *w->orders);
            KIN_TRY(take(g->rounds, w, p, count, 1));
        }
    }
    return KITH_OK;
}

kith_status kin_descent_fill_ids(kin_descent_rounds *rounds, const uint32_t *ids, int32_t each)
{
    giving g = {.rounds = rounds, .ids = ids, .each = each};
    return kin_parallel(rounds->ctx, "start", kin_ceil_div(rounds->lists.points, POINTS_A_TASK),
                        fill_from_ids, &g);
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

static kith_status fill_list(const filling *f, kin_descent_worker *w, int64_t position)
{
    kin_descent_rounds *rounds = f->rounds;
    const kin_descent_lists *lists = &rounds->lists;
    uint64_t state = kin_descent_mix(rounds->seed ^ kin_descent_mix((uint64_t)position + 1));
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        const int32_t count = kin_descent_list_count(lists, position);
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

static kith_status fill_at_random(void *arg, int64_t task, int32_t thread)
{
    const filling *f = arg;
    const int64_t last = kin_min_i64((task + 1) * POINTS_A_TASK, f->rounds->lists.points);
    for (int64_t p = task * POINTS_A_TASK; p < last; p++) {
        KIN_TRY(fill_list(f, &f->rounds->workers[thread], p));
    }
    return KITH_OK;
}

kith_status kin_descent_fill_random(kin_descent_rounds *rounds, int32_t least, bool ordered)
{
    filling f = {.rounds = rounds, .least = least, .ordered = ordered};
    return kin_parallel(rounds->ctx, "start", kin_ceil_div(rounds->lists.points, POINTS_A_TASK),
                        fill_at_random, &f);
}
