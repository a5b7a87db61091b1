/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph_start.h"

#include "graph/graph_cells.h"
#include "host/host_threads.h"

enum { POSITIONS_A_TASK = 256, ROWS_A_MATCH = 63 };

/* By cells: how many each point meets at first, and how many words of a list are kept; when less
 * than a SETTLED share of the first words is new, there is little left to find. */
enum { LEAST_POINTS = 1024, FIRST_CELLS = 4, LEAST_KEPT = 16, WATCHED = 10, LISTS_TO_WATCH = 4096 };
/* Times that centres move. Two sets that are made one have fewer cells, and those not as good: few
 * visits are left, and half of each. */
enum { MOVES = 2, MOVES_ACROSS = 1, ACROSS = 2 };
static const double SETTLED = 0.02;

/* Of the blocks that a block chooses, about this share chose it as well: those pairs count once. */
static const double MUTUAL = 0.6;

/* Blocks that each block chooses: 0 for all. Its own is looked at anyway. */
static int64_t near_blocks(int64_t blocks, double share)
{
    const double others = share * (double)blocks - 1.0;
    const double near = others / (2.0 - MUTUAL);
    if (share >= 1.0 || near >= (double)(blocks - 1)) {
        return 0;
    }
    return kin_max_i64(1, (int64_t)llround(near));
}

/* Of a set with itself. */
static kin_screen near_screen(const kin_set *set, const kin_cover *cover, kin_lists *lists,
                              double share)
{
    const kin_meet_side side = {.set = set, .lists = lists, .cover = cover};
    const int64_t block = kin_screen_block(set->frame);
    return (kin_screen){.row = side,
                        .point = side,
                        .block = block,
                        .near = near_blocks(kin_ceil_div(set->points, block), share)};
}

typedef struct handing {
    const kin_graph_points *points;
    kin_lists *lists;
    int32_t length;
    uint64_t *words;
    kin_graph_join *matchers; /* by thread */
    uint32_t *others;         /* by thread: capacity positions, and as many orders */
    int32_t threads;
} handing;

static void name_handing(kin_layout *layout, void *job)
{
    handing *h = job;
    const uint64_t threads = (uint64_t)h->threads;
    h->matchers = kin_layout_zeros(layout, threads, sizeof *h->matchers);
    for (int32_t t = 0; t < h->threads; t++) {
        kin_graph_join spare;
        kin_graph_join_name(layout, h->points, 1, ROWS_A_MATCH,
                            kin_layout_item(h->matchers, t, &spare));
    }
    h->others =
        kin_layout_array(layout, threads * 2 * (uint64_t)h->lists->capacity, sizeof *h->others);
}

/* Orders of float costs depend on where the pair stood in the screen: computed again as meetings
 * compute them. Integers are the same. */
static void match_again(const handing *h, int32_t thread, uint32_t position, uint64_t *words,
                        int32_t count)
{
    uint32_t *others = h->others + (int64_t)thread * 2 * h->lists->capacity;
    uint32_t *orders = others + h->lists->capacity;
    for (int32_t i = 0; i < count; i++) {
        others[i] = kin_graph_position(words[i]);
    }
    kin_graph_join_one(&h->matchers[thread], position, others, count, orders);
    for (int32_t i = 0; i < count; i++) {
        words[i] = kin_graph_word(orders[i], others[i], 1);
    }
}

/* A list as words of a descent, its own position left out. Orders of the two are the same numbers
 * for integers. */
static kith_status hand_list(void *arg, int64_t position, int32_t thread)
{
    const handing *h = arg;
    const kin_lists *lists = h->lists;
    uint64_t *entries = lists->words + position * lists->capacity;
    uint64_t *words = h->words + position * h->length;
    int32_t count = 0;
    kin_select_sort_words(entries, lists->counts[position]);
    for (int32_t i = 0; i < lists->counts[position] && count < h->length; i++) {
        const uint32_t other = (uint32_t)entries[i];
        if (other != position) {
            words[count++] = kin_graph_word((uint32_t)(entries[i] >> 32), other, 1);
        }
    }
    if (kin_tile_is_float(h->points->kernel->type)) {
        match_again(h, thread, (uint32_t)position, words, count);
        kin_select_sort_words(words, count);
    }
    for (; count < h->length; count++) {
        words[count] = KIN_GRAPH_EMPTY;
    }
    return KITH_OK;
}

static kith_status hand_all(kith_ctx *ctx, handing *h)
{
    h->threads = ctx->threads;
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_hold_layout(&hold, name_handing, h, "entries of lists"));
    return kin_parallel_rows(ctx, "start", h->points->count, POSITIONS_A_TASK, hand_list, h);
}

/* Without centres, and where all pairs are asked for: the exact engine's screen. */
static kith_status start_by_blocks(kith_ctx *ctx, const kin_graph_starting *start,
                                   kin_graph_started *started)
{
    const kin_graph_points *points = start->points;
    const kin_prepared *prepared = points->prepared;
    kin_lists lists;
    KIN_TRY(kin_lists_make(ctx, &prepared->set, &prepared->set, NULL, (int64_t)start->length + 1,
                           &lists));
    lists.by_cost = true;
    kin_screen screen = near_screen(&prepared->set, &prepared->cover, &lists, start->share);
    handing h = {.points = points, .lists = &lists, .length = start->length, .words = start->words};
    kith_status status = kin_screen_run(ctx, &screen);
    *started = (kin_graph_started){
        .evaluations = (double)screen.pairs, .closed = screen.near != 0, .all = screen.near == 0};
    KIN_THEN(status, hand_all(ctx, &h));
    kin_lists_free(ctx, &lists);
    return status;
}

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

/* Whether points have centres: not of direct metrics, and in the range of centres. */
static bool has_cells(const kin_graph_points *points)
{
    const kin_distance *distance = &points->prepared->distance;
    return kin_metric_get_traits(distance->metric)->screen != KIN_SCREEN_DIRECT &&
           points->symmetric && distance->cols <= KIN_GRAPH_CENTRE_COLS;
}

static bool goes_by_cells(const kin_graph_points *points, double share)
{
    return share < 1.0 && points->count >= LEAST_POINTS && has_cells(points);
}

kith_status kin_graph_start_screen(kith_ctx *ctx, const kin_graph_starting *starting,
                                   kin_graph_started *started)
{
    kin_graph_starting s = *starting;
    s.sides = NULL;
    *started = (kin_graph_started){0};
    if (!goes_by_cells(s.points, s.share)) {
        return start_by_blocks(ctx, &s, started);
    }
    const int64_t kept = kin_max_i64(LEAST_KEPT, s.wanted + s.wanted / 4);
    memset(s.words, 0xff, (size_t)(s.points->count * s.length) * sizeof *s.words);
    return start_by_cells(ctx, &s, (int32_t)kin_min_i64(s.length, kept), started);
}

/* ---- Two graphs made one -------------------------------------------------------------------- */

/* Lists of both graphs, and what was met on the other side. */
typedef struct joining {
    const uint8_t *sides;
    int32_t length;
    int64_t count;
    const uint64_t *met;
    uint64_t *words;
    uint64_t *scratch; /* by thread: length */
} joining;

/* A group of rows from both sets is across from everybody. */
static bool is_across(const uint8_t *sides, int64_t position, uint64_t word)
{
    return (sides[position] | sides[kin_graph_position(word)]) ==
           (KIN_GRAPH_BELOW | KIN_GRAPH_BEHIND);
}

/* What was met on the own side fills the list where the graph's was shorter; it is not new: its
 * neighbours have met each other. */
static kith_status join_list(void *arg, int64_t position, int32_t thread)
{
    const joining *j = arg;
    uint64_t *list = j->scratch + (int64_t)thread * j->length;
    uint64_t *known = j->words + position * j->length;
    const uint64_t *met = j->met + position * j->length;
    int32_t next = 0;
    for (int32_t i = 0, made = 0; made < j->length; made++) {
        while (next < j->length && met[next] != KIN_GRAPH_EMPTY && (known[i] | 1) == met[next]) {
            next += 1;
        }
        const bool comes = next < j->length && met[next] < known[i];
        const uint64_t word = comes ? met[next++] : known[i++];
        const bool is_new = word == KIN_GRAPH_EMPTY || is_across(j->sides, position, word);
        list[made] = is_new ? word : word & ~(uint64_t)1;
    }
    memcpy(known, list, (size_t)j->length * sizeof *list);
    return KITH_OK;
}

static kith_status join_all(kith_ctx *ctx, const kin_graph_starting *start, const uint64_t *met)
{
    joining j = {.sides = start->sides,
                 .length = start->length,
                 .count = start->points->count,
                 .met = met,
                 .words = start->words};
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, j.scratch, (uint64_t)ctx->threads * (uint64_t)j.length, "entries");
    return kin_parallel_rows(ctx, "start", j.count, POSITIONS_A_TASK, join_list, &j);
}

/* Words that are known are new for as long as cells meet, so that a pair is one word. */
static kith_status cells_across(kith_ctx *ctx, const kin_graph_starting *start,
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

kith_status kin_graph_start_across(kith_ctx *ctx, const kin_graph_starting *starting,
                                   kin_graph_started *started)
{
    if (goes_by_cells(starting->points, starting->share)) {
        return cells_across(ctx, starting, started);
    }
    kin_graph_starting met = *starting;
    met.words = NULL;
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, met.words, kin_size_mul((uint64_t)met.points->count, (uint64_t)met.length),
            "lists");
    KIN_TRY(kin_graph_start_screen(ctx, &met, started));
    return join_all(ctx, starting, met.words);
}

static void plan_blocks(kin_layout *plan, const kin_graph_start_size *size)
{
    const kin_frame *frame = size->frame;
    const int64_t points = size->points;
    const int32_t threads = size->threads;
    kin_prepared prepared = {.groups = {.count = points}};
    kin_set set = kin_set_shape(frame, points);
    kin_cover cover;
    kin_layout nothing = {.block = NULL};
    kin_cover_plan(&nothing, &set, threads, &cover);
    const kin_graph_points shape = kin_graph_points_shape(frame, &frame->distance, &prepared);
    kin_lists lists = kin_lists_shape(&set, &set, (int64_t)size->length + 1);
    const uint64_t before = kin_layout_mark(plan);
    kin_lists_plan(plan, &lists);
    kin_screen screen = near_screen(&set, &cover, &lists, size->share);
    kin_screen_plan(plan, &screen, threads);
    handing h = {.points = &shape, .lists = &lists, .threads = threads};
    kin_layout_block(plan, name_handing, &h);
    kin_layout_back(plan, before);
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

static void plan_cells(kin_layout *plan, const kin_graph_start_size *size)
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

void kin_graph_start_plan(kin_layout *plan, const kin_graph_start_size *size)
{
    kin_prepared prepared = {.groups = {.count = size->points}};
    kin_graph_points shape = kin_graph_points_shape(size->frame, &size->frame->distance, &prepared);
    shape.count = size->points;
    if (goes_by_cells(&shape, size->share)) {
        plan_cells(plan, size);
    } else {
        plan_blocks(plan, size);
    }
}
