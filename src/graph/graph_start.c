/* SPDX-License-Identifier: Apache-2.0
 * A start from cells: points meet near ones, more and more, as long as that finds much. */
#include "graph/graph_start.h"

#include "graph/graph_cells.h"
#include "host/host_threads.h"

#include <stdatomic.h>

/* ---- Points meet cells ----------------------------------------------------------------------- */

/* Points meet cells: all members of a cell meet each other, and all points that have the cell among
 * their near ones. Both ends of a pair remember the other if it is near. Where two sets are made
 * one that know themselves, those of one set meet those of the other alone.
 *
 * A piece of work is up to COLS members of a cell: columns of a product, gathered once. Rows are
 * who has the cell among its near ones, PART at a time. The members' lists are copied to the
 * worker, change there, and are joined with the lists of all in the end; a visitor's list gets its
 * words under a lock, all of a piece at once. Most visitors get none: their limits are read without
 * the lock, and one that is read too early only lets more pass.
 *
 * Where pairs across two sets are wanted a cell is two: the members of each set, and who visits
 * them is of the other one. A position of both sets is in both.
 *
 * A list keeps the least words of all that came, each once, in whatever order they come: so it is
 * the same with any number of threads. */

/* PART rows of orders stay in the first-level cache. */
enum { COLS = 128, PART = 32, POSITIONS_A_LOCK = 16 };

/* What the first WATCHED words of every STEP-th list were. */
typedef struct watching {
    int64_t step;
    int64_t lists;
    int32_t watched;
    uint64_t *before;
} watching;

/* A start, and how far it is. */
typedef struct cell_start {
    const kin_graph_starting *asked;
    int32_t kept; /* words of a list that are used; the rest is left alone */
    kin_graph_cells cells;
    int64_t *sizes;     /* by cell: its members */
    double evaluations; /* of visits */
    watching watch;
} cell_start;

typedef struct worker {
    KIN_APART uint32_t *cols; /* COLS gathered rows, */
    uint32_t *panels;         /* and turned */
    uint32_t *rows;           /* PART gathered rows, and as many as a kernel looks at */
    uint64_t *words;          /* COLS lists */
    uint64_t *joined;         /* one list */
    kin_word col_terms[COLS];
    kin_word row_terms[KIN_GRAPH_ROWS_STEP];
    uint32_t col_limits[COLS];
    uint32_t row_limits[PART];
    uint32_t orders[KIN_GRAPH_ROWS_STEP * COLS];
    uint32_t hits[PART * COLS];
    double evaluations;
} worker;

typedef struct piece {
    int64_t cell; /* of those that have members: 2 c and 2 c + 1 where there are sides */
    const uint32_t *members;
    int32_t count;
} piece;

typedef struct probing {
    const cell_start *s;
    kin_graph_hits_fn hits;
    kin_graph_put_fn put;
    int64_t wide;
    bool own;      /* members meet each other */
    int64_t cells; /* of members */
    piece *pieces;
    int64_t piece_count;
    int64_t *member_starts;
    uint32_t *members;
    int64_t *visitor_starts;
    uint32_t *visitors;
    _Atomic uint32_t *limits; /* order of a list's last word, or larger */
    pthread_mutex_t *locks;
    int64_t lock_count; /* that are made */
    worker *workers;
    int64_t points;
    int64_t member_count;
    int64_t visit_count;
    int32_t threads;
    void *block;
} probing;

static pthread_mutex_t *lock_of(const probing *x, uint32_t position)
{
    return &x->locks[position / POSITIONS_A_LOCK];
}

static uint64_t *list_of(const probing *x, uint32_t position)
{
    return x->s->asked->words + (int64_t)position * x->s->asked->length;
}

static void set_limit(const probing *x, uint32_t position, const uint64_t *words)
{
    atomic_store_explicit(&x->limits[position], (uint32_t)(words[x->s->kept - 1] >> 32),
                          memory_order_relaxed);
}

/* ---- Members --------------------------------------------------------------------------------- */

static void take_members(const probing *x, worker *w, const piece *own)
{
    const kin_graph_points *points = x->s->asked->points;
    const int32_t kept = x->s->kept;
    points->kernel->gather(points, own->members, own->count, x->wide, w->cols);
    points->kernel->transpose(w->cols, x->wide, (int32_t)kin_round_up(own->count, KIN_PANEL),
                              w->panels);
    for (int32_t j = 0; j < own->count; j++) {
        const uint32_t member = own->members[j];
        w->col_terms[j] = points->terms[member].col;
        pthread_mutex_lock(lock_of(x, member));
        memcpy(w->words + (int64_t)j * kept, list_of(x, member), (size_t)kept * sizeof *w->words);
        pthread_mutex_unlock(lock_of(x, member));
        w->col_limits[j] = (uint32_t)(w->words[(int64_t)j * kept + kept - 1] >> 32);
    }
    for (int32_t j = own->count; j < COLS; j++) {
        w->col_limits[j] = 0;
    }
}

/* Of two ascending lists the first words, each once. */
static void join(const uint64_t *a, const uint64_t *b, int32_t length, uint64_t *out)
{
    for (int32_t i = 0, j = 0, at = 0; at < length; at++) {
        const uint64_t x = a[i];
        const uint64_t y = b[j];
        out[at] = x < y ? x : y;
        i += x <= y;
        j += y <= x;
    }
}

static void give_members(const probing *x, worker *w, const piece *own)
{
    const int32_t kept = x->s->kept;
    for (int32_t j = 0; j < own->count; j++) {
        const uint32_t member = own->members[j];
        uint64_t *list = list_of(x, member);
        pthread_mutex_lock(lock_of(x, member));
        join(w->words + (int64_t)j * kept, list, kept, w->joined);
        memcpy(list, w->joined, (size_t)kept * sizeof *list);
        set_limit(x, member, list);
        pthread_mutex_unlock(lock_of(x, member));
    }
}

/* ---- Meetings -------------------------------------------------------------------------------- */

static void to_member(const probing *x, worker *w, const piece *own, uint32_t j, uint32_t order,
                      uint32_t other)
{
    const int32_t kept = x->s->kept;
    uint64_t *words = w->words + (int64_t)j * kept;
    if (order <= w->col_limits[j] && other != own->members[j]) {
        x->put(words, kept, kin_graph_word(order, other, 1));
        w->col_limits[j] = (uint32_t)(words[kept - 1] >> 32);
    }
}

/* What lies anywhere and will be looked at soon: memory is asked for it while others meet. */
static void prefetch_visitors(const probing *x, const uint32_t *who, int64_t count)
{
    const int32_t rows = (int32_t)kin_min_i64(PART, count);
    kin_graph_prefetch(x->s->asked->points, who, rows);
    for (int32_t i = 0; i < rows; i++) {
        __builtin_prefetch(&x->s->asked->points->terms[who[i]]);
        __builtin_prefetch(list_of(x, who[i]), 1);
        __builtin_prefetch(list_of(x, who[i]) + x->s->kept - 1, 1);
    }
}

/* Hits of a row follow each other. */
static void take_hits(const probing *x, worker *w, const piece *own, const uint32_t *who,
                      int64_t count, bool both)
{
    for (int64_t h = 0; h < count;) {
        const uint32_t i = w->hits[h] >> 16;
        const uint32_t limit = both ? w->row_limits[i] : 0;
        bool held = false;
        for (; h < count && w->hits[h] >> 16 == i; h++) {
            const uint32_t j = w->hits[h] & 0xffff;
            const uint32_t order = w->orders[i * COLS + j];
            if (j >= (uint32_t)own->count) {
                continue;
            }
            to_member(x, w, own, j, order, who[i]);
            if (order <= limit && both && own->members[j] != who[i]) {
                if (!held) {
                    pthread_mutex_lock(lock_of(x, who[i]));
                    held = true;
                }
                x->put(list_of(x, who[i]), x->s->kept, kin_graph_word(order, own->members[j], 1));
            }
        }
        if (held) {
            set_limit(x, who[i], list_of(x, who[i]));
            pthread_mutex_unlock(lock_of(x, who[i]));
        }
    }
}

/* both: who is met remembers the members, too. */
static void meet(const probing *x, worker *w, const piece *own, const uint32_t *who, int64_t count,
                 bool both)
{
    const kin_graph_points *points = x->s->asked->points;
    const int32_t cols = (int32_t)kin_round_up(own->count, KIN_PANEL);
    for (int64_t first = 0; first < count; first += PART) {
        const int32_t rows = (int32_t)kin_min_i64(PART, count - first);
        prefetch_visitors(x, who + first + rows, count - first - rows);
        kin_graph_take_rows(points, who + first, rows, w->rows, w->row_terms);
        for (int32_t i = 0; i < rows; i++) {
            w->row_limits[i] =
                both ? atomic_load_explicit(&x->limits[who[first + i]], memory_order_relaxed) : 0;
        }
        kin_graph_multiply(points, (kin_graph_product){.rows = w->rows,
                                                       .panels = w->panels,
                                                       .pitch = x->wide,
                                                       .before = cols,
                                                       .row_count = rows,
                                                       .col_count = cols,
                                                       .row_terms = w->row_terms,
                                                       .col_terms = w->col_terms,
                                                       .orders = w->orders,
                                                       .stride = COLS});
        const kin_graph_orders of = {w->orders, COLS, rows, cols, w->row_limits, w->col_limits};
        take_hits(x, w, own, who + first, x->hits(&of, w->hits), both);
    }
    w->evaluations += (double)count * own->count;
}

static kith_status run_piece(void *arg, int64_t task, int32_t thread)
{
    const probing *x = arg;
    worker *w = &x->workers[thread];
    const piece *own = &x->pieces[task];
    const int64_t *members = x->member_starts + own->cell;
    const int64_t *visitors = x->visitor_starts + own->cell;
    take_members(x, w, own);
    if (x->own && x->s->asked->sides == NULL) {
        meet(x, w, own, x->members + members[0], members[1] - members[0], false);
    } else if (x->own && own->cell % 2 == 0) {
        meet(x, w, own, x->members + members[1], members[2] - members[1], true);
    }
    meet(x, w, own, x->visitors + visitors[0], visitors[1] - visitors[0], true);
    give_members(x, w, own);
    return KITH_OK;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static int64_t locks_of(int64_t points)
{
    return kin_ceil_div(points, POSITIONS_A_LOCK);
}

static void name_probing(kin_layout *layout, void *job)
{
    probing *x = job;
    const uint64_t wide = (uint64_t)x->wide;
    const uint64_t kept = (uint64_t)x->s->kept;
    const uint64_t starts = (uint64_t)x->cells + 1;
    const uint64_t pieces = (uint64_t)(x->cells + x->member_count / COLS);
    x->member_starts = kin_layout_array(layout, starts, sizeof *x->member_starts);
    x->visitor_starts = kin_layout_array(layout, starts, sizeof *x->visitor_starts);
    x->members = kin_layout_array(layout, (uint64_t)x->member_count, sizeof *x->members);
    x->visitors = kin_layout_array(layout, (uint64_t)x->visit_count, sizeof *x->visitors);
    x->pieces = kin_layout_array(layout, pieces, sizeof *x->pieces);
    x->limits = kin_layout_array(layout, (uint64_t)x->points, sizeof *x->limits);
    x->locks = kin_layout_array(layout, (uint64_t)locks_of(x->points), sizeof *x->locks);
    x->workers = kin_layout_zeros(layout, (uint64_t)x->threads, sizeof *x->workers);
    for (int32_t t = 0; t < x->threads; t++) {
        worker spare;
        worker *w = kin_layout_item(x->workers, t, &spare);
        w->cols = kin_layout_zeros(layout, COLS * wide, sizeof *w->cols);
        w->panels = kin_layout_zeros(layout, COLS * wide, sizeof *w->panels);
        w->rows = kin_layout_zeros(layout, KIN_GRAPH_ROWS_STEP * wide, sizeof *w->rows);
        w->words = kin_layout_array(layout, COLS * kept, sizeof *w->words);
        w->joined = kin_layout_array(layout, kept, sizeof *w->joined);
    }
}

static void free_probing(kith_ctx *ctx, probing *x)
{
    for (int64_t i = 0; i < x->lock_count; i++) {
        (void)pthread_mutex_destroy(&x->locks[i]);
    }
    kin_free(ctx, x->block);
}

/* Positions that are of both sets count twice. */
static int64_t members_of(const kin_graph_starting *asked)
{
    int64_t count = asked->points->count;
    for (int64_t i = 0; asked->sides != NULL && i < asked->points->count; i++) {
        count += asked->sides[i] == (KIN_GRAPH_BELOW | KIN_GRAPH_BEHIND);
    }
    return count;
}

static void fill_lists(probing *x, int32_t first, int32_t last)
{
    const int64_t points = x->points;
    if (x->s->asked->sides != NULL) {
        /* Members of a cell by their own set, visitors by the other one. */
        const kin_graph_two_sets own = {.of = x->s->asked->sides, .points = points};
        const kin_graph_two_sets other = {
            .of = x->s->asked->sides, .points = points, .others = true};
        kin_graph_cells_list_sides(&x->s->cells, &own, 0, 1, x->member_starts, x->members);
        kin_graph_cells_list_sides(&x->s->cells, &other, first, last, x->visitor_starts,
                                   x->visitors);
    } else {
        kin_graph_cells_list(&x->s->cells, points, 0, 1, x->member_starts, x->members);
        kin_graph_cells_list(&x->s->cells, points, first, last, x->visitor_starts, x->visitors);
    }
    for (int64_t c = 0; c < x->cells; c++) {
        for (int64_t at = x->member_starts[c]; at < x->member_starts[c + 1]; at += COLS) {
            x->pieces[x->piece_count++] =
                (piece){.cell = c,
                        .members = x->members + at,
                        .count = (int32_t)kin_min_i64(COLS, x->member_starts[c + 1] - at)};
        }
    }
}

static kith_status make_locks(kith_ctx *ctx, probing *x)
{
    const int64_t locks = locks_of(x->points);
    for (; x->lock_count < locks; x->lock_count++) {
        KIN_FAIL_IF(pthread_mutex_init(&x->locks[x->lock_count], NULL) != 0, ctx, KITH_E_MEMORY,
                    kin_at(NULL), "no memory for locks (free some memory)");
    }
    for (int64_t p = 0; p < x->points; p++) {
        set_limit(x, (uint32_t)p, list_of(x, (uint32_t)p));
    }
    return KITH_OK;
}

/* Points meet their near cells first .. last - 1; where first is 0, members meet each other. Lists
 * keep the least words of all that met, the same with any number of threads. What came is new. */
static kith_status probe_cells(kith_ctx *ctx, cell_start *s, int32_t first, int32_t last)
{
    const kin_graph_starting *asked = s->asked;
    const kin_frame *frame = &asked->points->prepared->frame;
    probing x = {.s = s,
                 .own = first == 0,
                 .cells = (asked->sides != NULL ? 2 : 1) * s->cells.count,
                 .hits = kin_graph_words_get(ctx->isa)->hits,
                 .put = kin_graph_words_get(ctx->isa)->put,
                 .wide = kin_round_up(frame->groups, KIN_GRAPH_WIDE_STEP),
                 .points = asked->points->count,
                 .member_count = members_of(asked),
                 .threads = ctx->threads};
    const int32_t begin = first > 0 ? first : 1;
    kith_status status = KITH_OK;
    x.visit_count = x.member_count * (last - begin);
    KIN_TRY(kin_layout_make(ctx, name_probing, &x, "cells", &x.block));
    fill_lists(&x, begin, last);
    KIN_TRY_GOTO(status, make_locks(ctx, &x), done);
    status = kin_parallel(ctx, "start", x.piece_count, run_piece, &x);
done:
    for (int32_t t = 0; t < ctx->threads; t++) {
        s->evaluations += x.workers[t].evaluations;
    }
    free_probing(ctx, &x);
    return status;
}

/* What it takes while it runs, lists and cells not counted; near: last - first. */
static void plan_probe(kin_layout *plan, const kin_frame *frame, int64_t points, int32_t near,
                       int32_t length, int32_t threads)
{
    const cell_start s = {.kept = length};
    probing x = {.s = &s,
                 .cells = kin_graph_cells_wished(points),
                 .wide = kin_round_up(frame->groups, KIN_GRAPH_WIDE_STEP),
                 .points = points,
                 .member_count = points,
                 .visit_count = points * near,
                 .threads = threads};
    kin_layout_passing(plan, name_probing, &x);
}

/* ---- The start ------------------------------------------------------------------------------- */

/* How many cells each point meets at first, and how many words of a list are kept; when less than a
 * SETTLED share of the first words is new, there is little left to find. */
enum { FIRST_CELLS = 4, LEAST_KEPT = 16, WATCHED = 10, LISTS_TO_WATCH = 4096 };
/* Times that centres move. Two sets that are made one have fewer cells, and those not as good: few
 * visits are left, and half of each. */
enum { MOVES = 2, MOVES_ACROSS = 1, ACROSS = 2 };
static const double SETTLED = 0.02;

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

/* Cells first .. last - 1: where somebody judges, to half a doubling first. */
static kith_status visit_some(kith_ctx *ctx, cell_start *s, int32_t first, int32_t last,
                              bool *enough)
{
    if (s->asked->judge == NULL) {
        return probe_cells(ctx, s, first, last);
    }
    const int32_t middle = first > 0 ? (int32_t)kin_min_i64(first + first / 2, last) : last;
    KIN_TRY(probe_cells(ctx, s, first, middle));
    KIN_TRY(s->asked->judge(s->asked->judge_arg, enough));
    if (*enough || middle == last) {
        return KITH_OK;
    }
    KIN_TRY(probe_cells(ctx, s, middle, last));
    return s->asked->judge(s->asked->judge_arg, enough);
}

/* Near cells, more and more, until the lists will do, little is new, or as many pairs were met as
 * may be. */
static kith_status visit_cells(kith_ctx *ctx, cell_start *s, double budget, double *fresh)
{
    const kin_graph_starting *asked = s->asked;
    const int64_t points = asked->points->count;
    const double part = asked->sides != NULL ? 0.5 : 1.0;
    int32_t first = 0;
    bool enough = false;
    *fresh = 1.0;
    for (int32_t last = FIRST_CELLS; !enough && first<s->cells.each && * fresh> SETTLED;
         last *= 2) {
        last = (int32_t)kin_min_i64(last, s->cells.each);
        const double pairs = part * visits(&s->cells, points, s->sizes, first, last);
        if (first > 0 && s->evaluations + pairs > budget) {
            break;
        }
        KIN_TRY(visit_some(ctx, s, first, last, &enough));
        *fresh = look(&s->watch, asked->words, asked->length);
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
    cell_start s = {
        .asked = start, .kept = kept, .watch = {.watched = (int32_t)kin_min_i64(WATCHED, kept)}};
    KIN_HOLD(hold, ctx);
    KIN_TRY(make_cell_start(&hold, points, budget, start->sides != NULL, &s));
    if (start->sides != NULL) {
        (void)look(&s.watch, start->words, start->length);
    }
    KIN_TRY(visit_cells(ctx, &s, budget, &fresh));
    started->evaluations += s.cells.evaluations + s.evaluations;
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

/* ---- Two graphs made one --------------------------------------------------------------------- */

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
    plan_probe(plan, size->frame, points, most_visited(near, size->cheapest), size->length,
               size->threads);
    kin_layout_back(plan, before);
}
