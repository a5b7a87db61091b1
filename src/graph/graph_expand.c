/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph_start.h"

#include "host/host_threads.h"

#include <stdatomic.h>

/* A crowd is two panels. It meets at most MOST points by their lists, gathered PART at a time;
 * SLOTS is a power of two, and some times more. */
enum {
    CROWD = KIN_GRAPH_CROWD,
    MOST = 4096,
    SLOT_BITS = 14,
    SLOTS = 1 << SLOT_BITS,
    PART = 96,
    CROWDS_A_TASK = 8,
    AHEAD = 8
};

/* How far lists of neighbours are followed. */
enum { NEAR = 14, REVERSE = 10 };

typedef struct worker {
    KIN_APART uint32_t *met; /* MOST positions, each once */
    uint32_t *slots;         /* SLOTS: 1 + place in met[], 0 for none */
    uint8_t *fresh;          /* whether the way to it was new */
    int32_t met_count;
    uint32_t *rows; /* PART gathered rows */
    kin_word *row_terms;
    kin_word *col_terms;
    uint32_t *orders;
    uint32_t *hits;
    uint32_t no_limits[PART]; /* zeros: rows ask for nobody */
    uint32_t limits[CROWD];
    uint64_t *words; /* CROWD lists */
    double evaluations;
    int64_t updates;
} worker;

typedef struct expanding {
    const kin_graph_points *points; /* with a kernel */
    int32_t length;                 /* words a list */
    int32_t watched;                /* of these, updates are counted */
    int32_t near;         /* of each list of the crowd: these are neighbours, and so many of each of
                             their lists are met as well */
    const uint64_t *from; /* count x length, ascending; marked new is what the expansion before
                             brought */
    uint64_t *to;         /* the same, after this one */
    uint64_t *reverse;    /* REVERSE words a position, KIN_GRAPH_EMPTY among them: who names it. All
                             are neighbours of the crowd */
    kin_graph_hits_fn hits;
    kin_graph_put_fn put;
    int64_t wide;
    worker *workers;
    int32_t threads;
} expanding;

/* ---- Who is met ----------------------------------------------------------------------------- */

/* One that there is no room for is not met. fresh: over an edge that the expansion before has not
 * seen. */
static void meet(worker *w, uint32_t position, uint32_t fresh)
{
    uint32_t slot = position * 0x9e3779b1u >> (32 - SLOT_BITS);
    while (w->slots[slot] != 0) {
        const uint32_t place = w->slots[slot] - 1;
        if (w->met[place] == position) {
            w->fresh[place] |= (uint8_t)fresh;
            return;
        }
        slot = (slot + 1) & (SLOTS - 1);
    }
    if (w->met_count < MOST) {
        w->met[w->met_count] = position;
        w->fresh[w->met_count] = (uint8_t)fresh;
        w->met_count += 1;
        w->slots[slot] = (uint32_t)w->met_count;
    }
}

/* all: entries that are not new, too. */
static void meet_words(worker *w, const uint64_t *words, int32_t count, bool all)
{
    for (int32_t i = 0; i < count; i++) {
        const uint32_t fresh = kin_graph_is_new(words[i]);
        if (words[i] != KIN_GRAPH_EMPTY && (all || fresh != 0)) {
            meet(w, kin_graph_position(words[i]), fresh);
        }
    }
}

static const uint64_t *list_of(const expanding *x, int64_t position)
{
    return x->from + position * x->length;
}

static const uint64_t *reverse_of(const expanding *x, int64_t position)
{
    return x->reverse + position * REVERSE;
}

/* Over two edges of which one is new: the others have met before. Lists of neighbours lie anywhere:
 * memory is asked for them some neighbours ahead. */
static void meet_neighbours(const expanding *x, worker *w, int32_t neighbours)
{
    for (int32_t i = 0; i < neighbours; i++) {
        const uint32_t ahead = w->met[kin_min_i64(i + AHEAD, neighbours - 1)];
        const bool all = w->fresh[i] != 0;
        __builtin_prefetch(list_of(x, ahead));
        meet_words(w, list_of(x, w->met[i]), x->near, all);
        __builtin_prefetch(reverse_of(x, ahead));
        meet_words(w, reverse_of(x, w->met[i]), REVERSE, all);
    }
}

/* The crowd and its neighbours, then all of its lists, so that nothing is lost, then neighbours of
 * neighbours as long as there is room. */
static void gather_met(const expanding *x, worker *w, int64_t first, int32_t count)
{
    memset(w->slots, 0, SLOTS * sizeof *w->slots);
    w->met_count = 0;
    for (int32_t i = 0; i < count; i++) {
        meet(w, (uint32_t)(first + i), 0);
    }
    for (int32_t i = 0; i < count; i++) {
        meet_words(w, list_of(x, first + i), x->near, true);
        meet_words(w, reverse_of(x, first + i), REVERSE, true);
    }
    const int32_t neighbours = w->met_count;
    for (int32_t i = 0; i < count; i++) {
        meet_words(w, list_of(x, first + i), x->length, true);
    }
    meet_neighbours(x, w, neighbours);
}

/* ---- Lists ---------------------------------------------------------------------------------- */

static void take_hits(const expanding *x, worker *w, int64_t first, const uint32_t *met,
                      int64_t count)
{
    const int32_t length = x->length;
    for (int64_t h = 0; h < count; h++) {
        const uint32_t i = w->hits[h] >> 16;
        const uint32_t j = w->hits[h] & 0xffff;
        const uint32_t order = w->orders[i * CROWD + j];
        if (met[i] != first + j && order <= w->limits[j]) {
            uint64_t *words = w->words + (int64_t)j * length;
            x->put(words, length, kin_graph_word(order, met[i], 1));
            w->limits[j] = (uint32_t)kin_min_i64(w->limits[j], (int64_t)(words[length - 1] >> 32));
        }
    }
}

/* Entries of `now` that stood in `before` are no longer new. Returns how many of the first are. */
static int64_t mark_known(const uint64_t *before, uint64_t *now, int32_t length, int32_t first)
{
    int64_t fresh = 0;
    for (int32_t i = 0, j = 0; j < length && now[j] != KIN_GRAPH_EMPTY;) {
        const uint64_t there = i < length ? before[i] | 1 : KIN_GRAPH_EMPTY;
        if (there < now[j]) {
            i += 1;
            continue;
        }
        if (there == now[j]) {
            now[j] &= ~(uint64_t)1;
        }
        fresh += j < first ? (int64_t)(now[j] & 1) : 0;
        j += 1;
    }
    return fresh;
}

static void write_lists(const expanding *x, worker *w, int64_t first, int32_t count)
{
    const int32_t length = x->length;
    for (int32_t j = 0; j < count; j++) {
        uint64_t *to = x->to + (first + j) * length;
        memcpy(to, w->words + j * length, (size_t)length * sizeof *to);
        w->updates += mark_known(list_of(x, first + j), to, length, x->watched);
    }
}

/* ---- Products ------------------------------------------------------------------------------- */

/* `count` rows of positions `met` against the crowd, whose columns are panels of the set. */
static void meet_rows(const expanding *x, worker *w, int64_t first, const uint32_t *met,
                      int32_t count)
{
    const kin_graph_points *points = x->points;
    const kin_set *set = &points->prepared->set;
    kin_graph_multiply(points,
                       (kin_graph_product){.rows = w->rows,
                                           .panels = set->panels + first * set->frame->groups,
                                           .pitch = set->frame->groups,
                                           .before = CROWD,
                                           .row_count = count,
                                           .col_count = CROWD,
                                           .row_terms = w->row_terms,
                                           .col_terms = w->col_terms,
                                           .orders = w->orders,
                                           .stride = CROWD});
    const kin_graph_orders of = {w->orders, CROWD, count, CROWD, w->no_limits, w->limits};
    take_hits(x, w, first, met, x->hits(&of, w->hits));
}

/* The end of the list itself passes, and an empty place lets everything pass. */
static void set_columns(const expanding *x, worker *w, int64_t first, int32_t count)
{
    memset(w->words, 0xff, (size_t)CROWD * (size_t)x->length * sizeof *w->words);
    for (int32_t j = 0; j < CROWD; j++) {
        const bool here = j < count;
        w->col_terms[j] = here ? x->points->terms[first + j].col : (kin_word){.i = 0};
        w->limits[j] = here ? (uint32_t)(list_of(x, first + j)[x->length - 1] >> 32) : 0;
    }
}

static void meet_lists(const expanding *x, worker *w, int64_t first, int32_t count)
{
    const kin_graph_points *points = x->points;
    gather_met(x, w, first, count);
    for (int32_t part = 0; part < w->met_count; part += PART) {
        const int32_t rows = (int32_t)kin_min_i64(PART, w->met_count - part);
        kin_graph_take_rows(points, w->met + part, rows, w->rows, w->row_terms);
        meet_rows(x, w, first, w->met + part, rows);
    }
    w->evaluations += (double)count * w->met_count;
}

static void expand_crowd(const expanding *x, worker *w, int64_t first)
{
    const int32_t count = (int32_t)kin_min_i64(CROWD, x->points->count - first);
    set_columns(x, w, first, count);
    meet_lists(x, w, first, count);
    write_lists(x, w, first, count);
}

static kith_status expand_crowds(void *arg, int64_t task, int32_t thread)
{
    const expanding *x = arg;
    const int64_t step = (int64_t)CROWD * CROWDS_A_TASK;
    const int64_t last = kin_min_i64((task + 1) * step, x->points->count);
    for (int64_t first = task * step; first < last; first += CROWD) {
        expand_crowd(x, &x->workers[thread], first);
    }
    return KITH_OK;
}

/* ---- Memory --------------------------------------------------------------------------------- */

static void name_expanding(kin_layout *layout, void *job)
{
    expanding *x = job;
    x->workers = kin_layout_zeros(layout, (uint64_t)x->threads, sizeof *x->workers);
    for (int32_t t = 0; t < x->threads; t++) {
        worker spare;
        worker *w = kin_layout_item(x->workers, t, &spare);
        w->met = kin_layout_array(layout, MOST, sizeof *w->met);
        w->fresh = kin_layout_array(layout, MOST, sizeof *w->fresh);
        w->slots = kin_layout_array(layout, SLOTS, sizeof *w->slots);
        w->rows = kin_layout_zeros(layout, PART * (uint64_t)x->wide, sizeof *w->rows);
        w->row_terms = kin_layout_zeros(layout, PART, sizeof *w->row_terms);
        w->col_terms = kin_layout_zeros(layout, CROWD, sizeof *w->col_terms);
        w->orders = kin_layout_array(layout, PART * CROWD, sizeof *w->orders);
        w->hits = kin_layout_array(layout, PART * CROWD, sizeof *w->hits);
        w->words = kin_layout_array(layout, CROWD * (uint64_t)x->length, sizeof *w->words);
    }
}

/* ---- Who names whom ------------------------------------------------------------------------- */

static kith_status tell_named(void *arg, int64_t p, int32_t thread)
{
    (void)thread;
    const expanding *x = arg;
    _Atomic uint64_t *reverse = (_Atomic uint64_t *)x->reverse;
    const uint64_t *list = list_of(x, p);
    const uint32_t slot = kin_graph_slot(kin_graph_hash(1, (uint32_t)p), REVERSE);
    for (int32_t i = 0; i < x->length && list[i] != KIN_GRAPH_EMPTY; i++) {
        const int64_t named = kin_graph_position(list[i]);
        kin_graph_leave_least(
            &reverse[named * REVERSE + slot],
            kin_graph_word((uint32_t)(list[i] >> 32), (uint32_t)p, kin_graph_is_new(list[i])));
    }
    return KITH_OK;
}

/* ---- In place ------------------------------------------------------------------------------- */

kith_status kin_graph_expand_lists(kith_ctx *ctx, const kin_graph_points *points,
                                   const kin_graph_lists *lists, int32_t watched,
                                   kin_graph_expanded *expanded)
{
    const uint64_t words = kin_size_mul((uint64_t)points->count, (uint64_t)lists->length);
    const uint64_t reverse = kin_size_mul((uint64_t)points->count, REVERSE);
    const int64_t task = (int64_t)CROWD * CROWDS_A_TASK;
    expanding x = {.points = points,
                   .length = lists->length,
                   .watched = watched,
                   .near = (int32_t)kin_min_i64(NEAR, lists->length),
                   .from = lists->words,
                   .hits = kin_graph_words_get(ctx->isa)->hits,
                   .put = kin_graph_words_get(ctx->isa)->put,
                   .wide = kin_round_up(points->prepared->frame.groups, KIN_GRAPH_WIDE_STEP),
                   .threads = ctx->threads};
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, x.to, words, "lists");
    KIN_NEW(&hold, x.reverse, reverse, "reverse edges");
    memset(x.reverse, 0xff, (size_t)reverse * sizeof *x.reverse);
    KIN_TRY(kin_parallel_rows(ctx, "descend", points->count, task, tell_named, &x));
    KIN_TRY(kin_hold_layout(&hold, name_expanding, &x, "points to meet"));
    KIN_TRY(kin_parallel(ctx, "descend", kin_ceil_div(points->count, task), expand_crowds, &x));
    memcpy(lists->words, x.to, (size_t)words * sizeof *x.to);
    *expanded = (kin_graph_expanded){0};
    for (int32_t t = 0; t < ctx->threads; t++) {
        expanded->evaluations += x.workers[t].evaluations;
        expanded->updates += x.workers[t].updates;
    }
    return KITH_OK;
}

void kin_graph_expand_lists_plan(kin_layout *plan, const kin_frame *frame, int64_t points,
                                 int32_t length, int32_t threads)
{
    expanding x = {.wide = kin_round_up(frame->groups, KIN_GRAPH_WIDE_STEP),
                   .length = length,
                   .threads = threads};
    const uint64_t before = kin_layout_mark(plan);
    kin_layout_alone(plan, kin_size_mul((uint64_t)points, (uint64_t)length), sizeof(uint64_t));
    kin_layout_alone(plan, (uint64_t)points, REVERSE * sizeof(uint64_t));
    kin_layout_block(plan, name_expanding, &x);
    kin_layout_back(plan, before);
}
