/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph_start.h"

#include "graph/graph_cells.h"
#include "host/host_threads.h"

/* How many cells each point meets at first, and how many words of a list are kept; when less than a
 * SETTLED share of the first words is new, there is little left to find. */
enum { FIRST_CELLS = 4, LEAST_KEPT = 16, WATCHED = 10, LISTS_TO_WATCH = 4096 };
/* Times that centres move. Two sets that are made one have fewer cells, and those not as good: few
 * visits are left, and half of each. */
enum { MOVES = 2, MOVES_ACROSS = 1, ACROSS = 2 };
static const double SETTLED = 0.02;

/* ---- By cells ------------------------------------------------------------------------------- */

/* What the first WATCHED words of every STEP-th list were. */
typedef struct watching {
    int64_t step;
    int64_t lists;
    int32_t watched;
    uint64_t *before;
} watching;

static int64_t count_new(const uint64_t *before, const uint64_t *now, int32_t watched)
{
    int64_t fresh = 0;
    for (int32_t i = 0, j = 0; j < watched && now[j] != KIN_GRAPH_EMPTY;) {
        if (i < watched && before[i] < now[j]) {
            i += 1;
            continue;
        }
        fresh += i == watched || before[i] != now[j];
        j += 1;
    }
    return fresh;
}

/* The share of the watched words that is new since the last look. */
static double look(watching *w, const uint64_t *words, int32_t length)
{
    int64_t fresh = 0;
    for (int64_t i = 0; i < w->lists; i++) {
        const uint64_t *now = words + i * w->step * length;
        uint64_t *before = w->before + i * w->watched;
        fresh += count_new(before, now, w->watched);
        memcpy(before, now, (size_t)w->watched * sizeof *before);
    }
    return (double)fresh / (double)(w->lists * w->watched);
}

/* Pairs of points and members of their near cells first .. last - 1. */
static double visits(const kin_graph_cells *cells, int64_t points, const int64_t *sizes,
                     int32_t first, int32_t last)
{
    double sum = 0.0;
    for (int64_t p = 0; p < points; p++) {
        for (int32_t i = first; i < last; i++) {
            sum += (double)sizes[cells->near[p * cells->each + i]];
        }
    }
    return sum;
}

typedef struct cell_start {
    kin_graph_cells cells;
    kin_graph_probe probe;
    watching watch;
    int64_t *sizes;
} cell_start;

/* Cells first .. last - 1: where somebody judges, to half a doubling first. */
static kith_status visit_some(kith_ctx *ctx, const kin_graph_starting *start,
                              kin_graph_probe *probe, int32_t first, int32_t last, bool *enough)
{
    if (start->judge == NULL) {
        return kin_graph_probe_run(ctx, probe, first, last);
    }
    const int32_t middle = first > 0 ? (int32_t)kin_min_i64(first + first / 2, last) : last;
    KIN_TRY(kin_graph_probe_run(ctx, probe, first, middle));
    KIN_TRY(start->judge(start->judge_arg, enough));
    if (*enough || middle == last) {
        return KITH_OK;
    }
    KIN_TRY(kin_graph_probe_run(ctx, probe, middle, last));
    return start->judge(start->judge_arg, enough);
}

/* Near cells, more and more, until the lists will do, little is new, or as many pairs were met as
 * may be. */
static kith_status visit_cells(kith_ctx *ctx, const kin_graph_starting *start, cell_start *s,
                               double budget, double *fresh)
{
    const int64_t points = start->points->count;
    const double part = start->sides != NULL ? 0.5 : 1.0;
    int32_t first = 0;
    bool enough = false;
    *fresh = 1.0;
    for (int32_t last = FIRST_CELLS; !enough && first<s->cells.each && * fresh> SETTLED;
         last *= 2) {
        last = (int32_t)kin_min_i64(last, s->cells.each);
        const double pairs = part * visits(&s->cells, points, s->sizes, first, last);
        if (first > 0 && s->probe.evaluations + pairs > budget) {
            break;
        }
        KIN_TRY(visit_some(ctx, start, &s->probe, first, last, &enough));
        *fresh = look(&s->watch, s->probe.words, s->probe.length);
        first = last;
    }
    return KITH_OK;
}

/* Cells of a point that so many pairs allow. */
static int32_t near_of(int64_t points, int64_t cells, double budget)
{
    const double size = (double)points / (double)cells;
    return (int32_t)kin_min_i64(
        kin_min_i64(KIN_GRAPH_MOST_NEAR, cells),
        kin_max_i64(FIRST_CELLS, (int64_t)(budget / (double)points / size)));
}

static kith_status make_cell_start(kin_hold *hold, const kin_graph_points *points, double budget,
                                   bool across, cell_start *s)
{
    const int64_t wished = kin_graph_cells_wished(points->count);
    const int64_t count = across ? kin_ceil_div(wished, ACROSS) : wished;
    const int64_t each = near_of(points->count, count, budget);
    KIN_TRY(kin_graph_cells_make(hold, points, count, (int32_t)each, across ? MOVES_ACROSS : MOVES,
                                 &s->cells));
    KIN_NEW_ZERO(hold, s->sizes, (uint64_t)count, "cells");
    for (int64_t p = 0; p < points->count; p++) {
        s->sizes[s->cells.near[p * each]] += 1;
    }
    s->watch.lists = kin_min_i64(points->count, LISTS_TO_WATCH);
    s->watch.step = points->count / s->watch.lists;
    KIN_NEW(hold, s->watch.before, (uint64_t)s->watch.lists * (uint64_t)s->watch.watched, "lists");
    memset(s->watch.before, 0xff,
           (size_t)(s->watch.lists * s->watch.watched) * sizeof *s->watch.before);
    return KITH_OK;
}

/* Lists keep `kept` entries. With sides what words have is known, and pairs across meet alone. */
static kith_status start_by_cells(kith_ctx *ctx, const kin_graph_starting *start, int32_t kept,
                                  kin_graph_started *started)
{
    const kin_graph_points *points = start->points;
    const double count = (double)points->count;
    const double budget = 0.5 * start->share * count * count;
    double fresh;
    cell_start s = {.watch = {.watched = (int32_t)kin_min_i64(WATCHED, kept)}};
    KIN_HOLD(hold, ctx);
    KIN_TRY(make_cell_start(&hold, points, budget, start->sides != NULL, &s));
    s.probe = (kin_graph_probe){.points = points,
                                .cells = &s.cells,
                                .words = start->words,
                                .length = start->length,
                                .kept = kept,
                                .sides = start->sides};
    if (start->sides != NULL) {
        (void)look(&s.watch, start->words, start->length);
    }
    KIN_TRY(visit_cells(ctx, start, &s, budget, &fresh));
    started->evaluations += s.cells.evaluations + s.probe.evaluations;
    started->settled = fresh <= SETTLED;
    return KITH_OK;
}

kith_status kin_graph_start_screen(kith_ctx *ctx, const kin_graph_starting *s,
                                   kin_graph_started *started)
{
    const int64_t kept = kin_max_i64(LEAST_KEPT, s->wanted + s->wanted / 4);
    memset(s->words, 0xff, (size_t)(s->points->count * s->length) * sizeof *s->words);
    return start_by_cells(ctx, s, (int32_t)kin_min_i64(s->length, kept), started);
}

/* ---- Two graphs made one -------------------------------------------------------------------- */

/* A group of rows from both sets is across from everybody. */
static bool is_across(const uint8_t *sides, int64_t position, uint64_t word)
{
    return (sides[position] | sides[kin_graph_position(word)]) ==
           (KIN_GRAPH_BELOW | KIN_GRAPH_BEHIND);
}

/* Words that are known are new for as long as cells meet, so that a pair is one word. */
kith_status kin_graph_start_across(kith_ctx *ctx, const kin_graph_starting *start,
                                   kin_graph_started *started)
{
    const int64_t entries = start->points->count * start->length;
    uint64_t *words = start->words;
    for (int64_t i = 0; i < entries; i++) {
        words[i] |= 1;
    }
    KIN_TRY(start_by_cells(ctx, start, start->wanted, started));
    for (int64_t i = 0; i < entries; i++) {
        const bool is_new =
            words[i] == KIN_GRAPH_EMPTY || is_across(start->sides, i / start->length, words[i]);
        words[i] = is_new ? words[i] : words[i] & ~(uint64_t)1;
    }
    return KITH_OK;
}

/* Cells of a point that are visited at a time: the first 4, 4 more, 8 more, ... */
static int32_t most_visited(int32_t near, bool cheapest)
{
    int32_t most = near < FIRST_CELLS ? near : FIRST_CELLS;
    for (int32_t first = FIRST_CELLS; first < near && !cheapest; first *= 2) {
        const int32_t last = 2 * first < near ? 2 * first : near;
        most = last - first > most ? last - first : most;
    }
    return most;
}

void kin_graph_start_plan(kin_layout *plan, const kin_graph_start_size *size)
{
    const int64_t points = size->points;
    const int64_t cells = kin_graph_cells_wished(points);
    const double budget = 0.5 * size->share * (double)points * (double)points;
    const int32_t near = near_of(points, cells, budget);
    const uint64_t watched = (uint64_t)kin_min_i64(points, LISTS_TO_WATCH) * WATCHED;
    const uint64_t before = kin_layout_mark(plan);
    kin_graph_cells_plan(plan, size->frame, points, near, size->threads);
    kin_layout_alone(plan, (uint64_t)cells, sizeof(int64_t));
    kin_layout_alone(plan, watched, sizeof(uint64_t));
    kin_graph_probe_plan(plan, size->frame, points, most_visited(near, size->cheapest),
                         size->length, size->threads);
    kin_layout_back(plan, before);
}
