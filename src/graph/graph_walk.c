/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks on the processor: how queries pass the gate, and their way behind it.
 *
 *      stripe      queries that are rounded together, in an order in which near ones follow each
 *                  other
 *      block       a task: its queries go through the gate together, then walk one by one */
#include "graph/graph_walk.h"

#include "base/base_random.h"
#include "host/host_threads.h"
#include "screen/screen_schedule.h"

#include <math.h>

/* Points that a query meets, where there are many times as many, and of how many one in few sets;
 * columns of a product, rows of one. */
enum { MEETS = 16384, ONE_OF = 16, LEAST_RUNS = 4, COLS = 1024, ROWS = 32 };
/* Points of a run are met so many at a time. */
enum { PART = 128 };
/* A limit is looked for until no more than this times the wanted runs are within. */
static const double ENOUGH = 1.25;

/* ---- Runs ----------------------------------------------------------------------------------- */

static int64_t each_of(const kin_graph_gate *gate, int64_t meets)
{
    const int64_t wished =
        kin_min_i64((meets == 0 ? MEETS : meets) / gate->run, gate->runs / ONE_OF);
    return kin_min_i64(kin_max_i64(wished, LEAST_RUNS), gate->runs);
}

/* ---- A guide -------------------------------------------------------------------------------- */

/* One thread's way through a gate. */
typedef struct kin_graph_guide {
    const kin_graph_gate *gate;
    int64_t each; /* runs that a query meets, about */
    int64_t most; /* and at most */
    int64_t (*hits_of)(const kin_graph_orders *of, uint32_t *hits);
    void (*put)(uint64_t *words, int64_t length, uint64_t word);
    int64_t wide;
    uint32_t *runs;   /* by query: most, of which counts are used */
    uint32_t *counts; /* by query */
    int64_t *starts;  /* by run */
    uint16_t *who;    /* queries, by the run that they meet */
    uint32_t *asking; /* their places among those that are asked */
    uint32_t *rows;   /* gathered */
    uint32_t *orders;
    uint32_t *hits;
    uint32_t *no_limits; /* of columns */
    kin_word *col_terms;
    double evaluations;
    int64_t queries;
    void *block;
} kin_graph_guide;

static void name_guide(kin_layout *layout, void *job)
{
    kin_graph_guide *g = job;
    const uint64_t queries = (uint64_t)g->queries;
    const uint64_t pairs = kin_size_mul(queries, (uint64_t)g->most);
    g->runs = kin_layout_array(layout, pairs, sizeof *g->runs);
    g->who = kin_layout_array(layout, pairs, sizeof *g->who);
    g->asking = kin_layout_array(layout, queries, sizeof *g->asking);
    g->counts = kin_layout_array(layout, queries, sizeof *g->counts);
    g->starts = kin_layout_array(layout, (uint64_t)g->gate->runs + 1, sizeof *g->starts);
    g->rows = kin_layout_zeros(layout, KIN_GRAPH_ROWS_STEP * (uint64_t)g->wide, sizeof *g->rows);
    g->orders = kin_layout_array(layout, (uint64_t)KIN_GRAPH_ROWS_STEP * COLS, sizeof *g->orders);
    g->hits = kin_layout_array(layout, (uint64_t)ROWS * COLS, sizeof *g->hits);
    g->no_limits = kin_layout_zeros(layout, COLS, sizeof *g->no_limits);
    g->col_terms = kin_layout_array(layout, PART, sizeof *g->col_terms);
}

/* At most `queries` at a time, KIN_GRAPH_LED at most. meets: points that each shall meet; 0: what
 * serves many queries at once. */
static kith_status make_guide(kith_ctx *ctx, const kin_graph_gate *gate, int64_t queries,
                              int64_t meets, kin_graph_guide *guide)
{
    const int64_t each = each_of(gate, meets);
    *guide = (kin_graph_guide){
        .gate = gate,
        .queries = queries,
        .each = each,
        .most = kin_min_i64(2 * each, gate->runs),
        .hits_of = kin_graph_words_get(ctx->isa)->hits,
        .put = kin_graph_words_get(ctx->isa)->put,
        .wide = kin_round_up(gate->points->prepared->frame.groups, KIN_GRAPH_WIDE_STEP)};
    return kin_layout_make(ctx, name_guide, guide, "queries at a gate", &guide->block);
}

/* ---- Centres -------------------------------------------------------------------------------- */

/* Up to ROWS queries, gathered, and what they cost beside a product. */
typedef struct strip {
    const kin_graph_points *asked;
    int32_t count;
    kin_word terms[KIN_GRAPH_ROWS_STEP];
    uint32_t limits[ROWS];
} strip;

static void take_queries(kin_graph_guide *g, strip *s, const uint32_t *queries, int32_t count)
{
    s->count = count;
    kin_graph_take_rows(s->asked, queries, count, g->rows, s->terms);
}

static void multiply(kin_graph_guide *g, const strip *s, const uint32_t *panels, int64_t pitch,
                     const kin_word *col_terms, int32_t cols)
{
    kin_graph_multiply(g->gate->points, (kin_graph_product){.rows = g->rows,
                                                            .panels = panels,
                                                            .pitch = pitch,
                                                            .before = cols,
                                                            .row_count = s->count,
                                                            .col_count = cols,
                                                            .row_terms = s->terms,
                                                            .col_terms = col_terms,
                                                            .orders = g->orders,
                                                            .stride = COLS});
}

static int64_t hits_of(const kin_graph_guide *g, const uint32_t *orders, int64_t rows, int64_t cols,
                       const uint32_t *limits)
{
    const kin_graph_orders of = {orders, COLS, rows, cols, limits, g->no_limits};
    return g->hits_of(&of, g->hits);
}

/* A limit within which about `wanted` of a sample of the centres are. */
static uint32_t limit_of(kin_graph_guide *g, const uint32_t *orders, int64_t cols, int64_t wanted)
{
    const int64_t enough = (int64_t)((double)wanted * ENOUGH);
    uint32_t low = UINT32_MAX; /* fewer than wanted are below it */
    uint32_t high = 0;
    for (int64_t j = 0; j < cols; j++) {
        low = orders[j] < low ? orders[j] : low;
        high = orders[j] > high ? orders[j] : high;
    }
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int64_t within = hits_of(g, orders, 1, kin_round_up(cols, KIN_PANEL), &middle);
        if (within < wanted) {
            low = middle + 1;
        } else {
            high = middle;
            if (within <= enough) {
                break;
            }
        }
    }
    return high;
}

/* Of the first piece of the centres limits are made, which do for all. */
static void set_limits(kin_graph_guide *g, strip *s, int64_t cols)
{
    const kin_graph_gate *gate = g->gate;
    const double share = (double)cols / (double)gate->runs;
    const double margin = cols < gate->runs ? ENOUGH : 1.0;
    const int64_t wanted = (int64_t)((double)g->each * share * margin);
    for (int32_t i = 0; i < s->count; i++) {
        s->limits[i] = limit_of(g, g->orders + (int64_t)i * COLS, cols,
                                kin_min_i64(kin_max_i64(wanted, LEAST_RUNS), cols));
    }
}

/* Of all centres the near ones: runs and counts of queries first .. first + count - 1. */
static void choose_runs(kin_graph_guide *g, strip *s, int32_t first, int32_t count)
{
    const kin_graph_gate *gate = g->gate;
    const kin_graph_centres *centres = &gate->centres;
    take_queries(g, s, g->asking + first, count);
    memset(g->counts + first, 0, (size_t)count * sizeof *g->counts);
    for (int64_t col = 0; col < gate->runs; col += COLS) {
        const int32_t cols = (int32_t)kin_min_i64(COLS, centres->padded - col);
        multiply(g, s, centres->panels + col * centres->pitch, centres->pitch, centres->terms + col,
                 cols);
        if (col == 0) {
            set_limits(g, s, kin_min_i64(COLS, gate->runs));
        }
        const int64_t hits = hits_of(g, g->orders, count, cols, s->limits);
        for (int64_t h = 0; h < hits; h++) {
            const int32_t i = first + (int32_t)(g->hits[h] >> 16);
            const int64_t centre = col + (g->hits[h] & 0xffff);
            if (centre < gate->runs && (int64_t)g->counts[i] < g->most) {
                g->runs[i * g->most + g->counts[i]++] = gate->names[centre];
            }
        }
    }
    g->evaluations += (double)count * (double)gate->runs;
}

/* ---- Points --------------------------------------------------------------------------------- */

/* who: queries by run, in runs of starts. */
static void sort_by_run(kin_graph_guide *g, int32_t count)
{
    const kin_graph_gate *gate = g->gate;
    memset(g->starts, 0, (size_t)(gate->runs + 1) * sizeof *g->starts);
    for (int32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < g->counts[i]; j++) {
            g->starts[g->runs[i * g->most + j] + 1] += 1;
        }
    }
    for (int64_t r = 0; r < gate->runs; r++) {
        g->starts[r + 1] += g->starts[r];
    }
    for (int32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < g->counts[i]; j++) {
            g->who[g->starts[g->runs[i * g->most + j]]++] = (uint16_t)i;
        }
    }
    memmove(g->starts + 1, g->starts, (size_t)gate->runs * sizeof *g->starts);
    g->starts[0] = 0;
}

typedef struct leading {
    uint64_t *lists;
    int64_t length;
} leading;

static void put_hits(kin_graph_guide *g, const leading *l, const uint16_t *who, int64_t begin,
                     int32_t count, int64_t hits)
{
    for (int64_t h = 0; h < hits; h++) {
        const uint32_t i = g->hits[h] >> 16;
        const uint32_t j = g->hits[h] & 0xffff;
        uint64_t *list = l->lists + (int64_t)who[i] * l->length;
        const uint64_t word =
            kin_graph_word(g->orders[(int64_t)i * COLS + j], (uint32_t)(begin + j), 0);
        if ((int32_t)j < count && word < list[l->length - 1]) {
            g->put(list, l->length, word);
        }
    }
}

static void take_points(kin_graph_guide *g, int64_t begin, int32_t count)
{
    const kin_graph_points *points = g->gate->points;
    for (int32_t j = 0; j < (int32_t)kin_round_up(count, KIN_PANEL); j++) {
        g->col_terms[j] = points->terms[kin_min_i64(begin + j, points->count - 1)].col;
    }
}

/* Points begin .. begin + count - 1 of a run meet those who come to it. */
static void meet(kin_graph_guide *g, strip *s, const leading *l, int64_t run, int64_t begin,
                 int32_t count)
{
    const uint16_t *who = g->who + g->starts[run];
    const int64_t visitors = g->starts[run + 1] - g->starts[run];
    const kin_prepared *prepared = g->gate->points->prepared;
    const int64_t groups = prepared->frame.groups;
    const int32_t cols = (int32_t)kin_round_up(count, KIN_PANEL);
    uint32_t queries[ROWS];
    take_points(g, begin, count);
    for (int64_t first = 0; first < visitors; first += ROWS) {
        const int32_t rows = (int32_t)kin_min_i64(ROWS, visitors - first);
        for (int32_t i = 0; i < rows; i++) {
            const uint16_t query = who[first + i];
            queries[i] = g->asking[query];
            s->limits[i] = (uint32_t)(l->lists[(query + 1) * l->length - 1] >> 32);
        }
        take_queries(g, s, queries, rows);
        multiply(g, s, prepared->set.panels + begin * groups, groups, g->col_terms, cols);
        const int64_t hits = hits_of(g, g->orders, rows, cols, s->limits);
        put_hits(g, l, who + first, begin, count, hits);
    }
    g->evaluations += (double)visitors * count;
}

/* Memory is asked for the points of a run, which lie one behind the other. */
static void await(const kin_graph_gate *gate, int64_t run)
{
    enum { WORDS_A_LINE = 16, TERMS_A_LINE = 8 };
    const kin_prepared *prepared = gate->points->prepared;
    const int64_t groups = prepared->frame.groups;
    const uint32_t *panels = prepared->set.panels;
    for (int64_t w = run * gate->run * groups; w < kin_graph_run_end(gate, run) * groups;
         w += WORDS_A_LINE) {
        __builtin_prefetch(panels + w, 0, 2);
    }
    for (int64_t p = run * gate->run; p < kin_graph_run_end(gate, run); p += TERMS_A_LINE) {
        __builtin_prefetch(&gate->points->terms[p]);
    }
}

/* One query, which choose_runs has taken: nobody else comes to its runs. */
static void meet_alone(kin_graph_guide *g, strip *s, const leading *l)
{
    const kin_graph_gate *gate = g->gate;
    const kin_prepared *prepared = gate->points->prepared;
    const int64_t groups = prepared->frame.groups;
    const uint16_t nobody_else = 0;
    await(gate, g->counts[0] > 0 ? g->runs[0] : 0);
    for (uint32_t r = 0; r < g->counts[0]; r++) {
        const int64_t run = g->runs[r];
        if (r + 1 < g->counts[0]) {
            await(gate, g->runs[r + 1]);
        }
        for (int64_t p = run * gate->run; p < kin_graph_run_end(gate, run); p += PART) {
            const int32_t count = (int32_t)kin_min_i64(PART, kin_graph_run_end(gate, run) - p);
            const int32_t cols = (int32_t)kin_round_up(count, KIN_PANEL);
            s->limits[0] = (uint32_t)(l->lists[l->length - 1] >> 32);
            take_points(g, p, count);
            multiply(g, s, prepared->set.panels + p * groups, groups, g->col_terms, cols);
            put_hits(g, l, &nobody_else, p, count, hits_of(g, g->orders, 1, cols, s->limits));
            g->evaluations += (double)count;
        }
    }
}

/* Queries first .. first + count - 1 of `asked`, rows in the frame of the points: lists, count x
 * length, get the nearest of all points that they meet, ascending, and KIN_GRAPH_EMPTY behind.
 * guide->runs says which runs these were. */
static void lead(kin_graph_guide *guide, const kin_graph_points *asked, int64_t first,
                 int32_t count, uint64_t *lists, int64_t length)
{
    const kin_graph_gate *gate = guide->gate;
    strip s = {.asked = asked};
    const leading l = {.lists = lists, .length = length};
    for (int32_t i = 0; i < count; i++) {
        guide->asking[i] = (uint32_t)(first + i);
    }
    for (int32_t i = 0; i < count; i += ROWS) {
        choose_runs(guide, &s, i, (int32_t)kin_min_i64(ROWS, count - i));
    }
    memset(lists, 0xff, (size_t)(count * length) * sizeof *lists);
    if (count == 1) {
        meet_alone(guide, &s, &l);
        return;
    }
    sort_by_run(guide, count);
    for (int64_t run = 0; run < gate->runs; run++) {
        const int64_t visitors = guide->starts[run + 1] - guide->starts[run];
        for (int64_t p = run * gate->run; visitors > 0 && p < kin_graph_run_end(gate, run);
             p += PART) {
            meet(guide, &s, &l, run, p,
                 (int32_t)kin_min_i64(PART, kin_graph_run_end(gate, run) - p));
        }
    }
}

/* Queries of a stripe; of a block, a multiple of the last; words that lists of a block may take;
 * blocks a thread, that none is idle for long. */
enum { STRIPE = 1 << 16, BLOCK_STEP = 32, BLOCK_WORDS = 1 << 20, BLOCKS_A_THREAD = 4 };
/* Random entries of a walk of this width, in roots of the positions, and for each of these so many
 * may be parts of the graph; wider ones have more in proportion. */
enum { NARROW = 64, ROOTS = 2, PARTS = 2 };

/* ---- Entries -------------------------------------------------------------------------------- */

kin_graph_entries kin_graph_count_entries(int64_t count, int64_t part_count, int64_t width)
{
    const double wide = fmax(1.0, (double)width / NARROW);
    const double some = ceil(ROOTS * sqrt((double)count) * wide);
    return (kin_graph_entries){.parts = (int64_t)fmin(some * PARTS, (double)part_count),
                               .random = (int64_t)fmin(some, (double)count)};
}

void kin_graph_draw_entries(const kin_graph_entries *entries, int64_t count, const uint32_t *parts,
                            uint64_t seed, uint32_t *ids)
{
    for (int64_t i = 0; i < entries->parts + entries->random; i++) {
        ids[i] = i < entries->parts ? parts[i] : (uint32_t)kin_random_below(&seed, (uint64_t)count);
    }
}

/* ---- A block -------------------------------------------------------------------------------- */

typedef struct worker {
    KIN_APART kin_graph_way walker;
    kin_graph_guide guide;
    uint64_t *lists;
} worker;

typedef struct walking {
    kith_ctx *ctx;
    const kin_graph_walk *walk;
    const kith_neighbors *out;
    bool walks; /* else all positions are looked at */
    int64_t block;
    int32_t threads; /* that blocks are for */
    uint32_t *entries;
    int64_t entry_count;
    worker *workers; /* by thread */

    /* The stripe. */
    uint32_t *ids; /* its rows of the queries */
    int64_t first; /* of what is asked */
    int64_t count;
    kin_prepared rounded;
    kin_graph_points asked;
} walking;

static kith_status walk_one(walking *w, worker *own, int64_t i, int64_t begin)
{
    const kin_graph_walk *walk = w->walk;
    kin_graph_way *walker = &own->walker;
    uint64_t *list = own->lists + (i - begin) * walk->width;
    const int64_t at = walk->rows != NULL ? w->first + i : (int64_t)w->ids[i];
    kin_graph_way_ask(walker, walk->queries, w->ids[i], &w->asked, i, list);
    if (!w->walks || walker->query.degenerate) {
        return kin_graph_way_write(w->ctx, walker, true, w->out, at);
    }
    if (walk->ground->has_gate) {
        const uint32_t *runs = own->guide.runs + (i - begin) * own->guide.most;
        for (uint32_t r = 0; r < own->guide.counts[i - begin]; r++) {
            kin_graph_way_has_met(walker, runs[r]);
        }
    } else {
        memset(list, 0xff, (size_t)walk->width * sizeof *list);
        KIN_TRY(kin_graph_way_meet(w->ctx, walker, w->entries, w->entry_count));
    }
    KIN_TRY(kin_graph_way_go(w->ctx, walker));
    return kin_graph_way_write(w->ctx, walker, false, w->out, at);
}

static kith_status walk_block(void *arg, int64_t task, int32_t thread)
{
    walking *w = arg;
    worker *own = &w->workers[thread];
    const int64_t begin = task * w->block;
    const int64_t last = kin_min_i64(begin + w->block, w->count);
    if (w->walks && w->walk->ground->has_gate) {
        lead(&own->guide, &w->asked, begin, (int32_t)(last - begin), own->lists, w->walk->width);
    }
    for (int64_t i = begin; i < last; i++) {
        KIN_TRY(walk_one(w, own, i, begin));
    }
    return KITH_OK;
}

/* ---- A stripe ------------------------------------------------------------------------------- */

/* Queries as rows in the frame of the points. */
static kith_status round_stripe(walking *w)
{
    kith_ctx *ctx = w->ctx;
    const kin_prepared *prepared = w->walk->ground->prepared;
    w->rounded = (kin_prepared){.rows = *w->walk->queries,
                                .distance = prepared->distance,
                                .groups = {.rows = w->count, .count = w->count},
                                .order = w->ids,
                                .frame = prepared->frame};
    if (w->walk->rows == NULL) {
        KIN_TRY(
            kin_order_make(ctx, w->walk->queries, &prepared->distance, w->count, false, w->ids));
    }
    KIN_TRY(kin_set_make(ctx, kin_set_shape(&w->rounded.frame, w->count), w->walk->queries, w->ids,
                         &w->rounded.set));
    return kin_graph_points_make(ctx, &w->rounded, &w->asked);
}

static kith_status run_stripe(walking *w, int64_t first)
{
    kith_ctx *ctx = w->ctx;
    const kin_graph_walk *walk = w->walk;
    kith_status status = KITH_OK;
    w->first = first;
    w->count = kin_min_i64(STRIPE, walk->count - first);
    for (int64_t i = 0; i < w->count; i++) {
        w->ids[i] = walk->rows != NULL ? walk->rows[first + i] : (uint32_t)(first + i);
    }
    if (walk->ground->points.kernel != NULL) {
        status = round_stripe(w);
    }
    KIN_THEN(status, kin_parallel(ctx, "search", kin_ceil_div(w->count, w->block), walk_block, w));
    kin_graph_points_free(ctx, &w->asked);
    kin_set_free(ctx, &w->rounded.set);
    return status;
}

/* ---- All of them ---------------------------------------------------------------------------- */

/* As large as lists allow, and so small that every thread has some. */
static int64_t block_of(const kin_graph_walk *walk, int32_t threads)
{
    const int64_t count = kin_min_i64(walk->count, STRIPE);
    const int64_t shared = kin_ceil_div(count, (int64_t)threads * BLOCKS_A_THREAD);
    const int64_t room = kin_min_i64(KIN_GRAPH_LED, BLOCK_WORDS / walk->width);
    return kin_max_i64(kin_min_i64(kin_round_up(shared, BLOCK_STEP), room), 1);
}

static kith_status choose_entries(walking *w)
{
    const kin_graph_links *links = &w->walk->ground->links;
    const kin_graph_entries entries =
        kin_graph_count_entries(links->count, links->part_count, w->walk->width);
    w->entry_count = entries.parts + entries.random;
    KIN_TRY(kin_alloc(w->ctx, &w->entries, (uint64_t)w->entry_count, sizeof *w->entries,
                      "entries of walks"));
    kin_graph_draw_entries(&entries, links->count, links->parts, w->walk->seed, w->entries);
    return KITH_OK;
}

static kith_status make_workers(walking *w)
{
    kith_ctx *ctx = w->ctx;
    const kin_graph_walk *walk = w->walk;
    const uint64_t words = w->walks ? kin_size_mul((uint64_t)w->block, (uint64_t)walk->width) : 1;
    KIN_TRY(kin_alloc_zero(ctx, &w->workers, (uint64_t)w->threads, sizeof *w->workers, "threads"));
    for (int32_t t = 0; t < w->threads; t++) {
        worker *own = &w->workers[t];
        KIN_TRY(kin_graph_way_make(ctx, walk->ground, w->walks ? walk->width : 0, walk->k,
                                   &own->walker));
        own->walker.allowed = walk->allowed;
        KIN_TRY(kin_alloc(ctx, &own->lists, words, sizeof *own->lists, "candidates"));
        if (w->walks && walk->ground->has_gate) {
            KIN_TRY(make_guide(ctx, &walk->ground->gate, w->block, walk->meets, &own->guide));
        }
    }
    return KITH_OK;
}

static void free_workers(walking *w, kin_graph_effort *effort)
{
    for (int32_t t = 0; w->workers != NULL && t < w->threads; t++) {
        worker *own = &w->workers[t];
        effort->met += own->guide.evaluations;
        effort->walked += own->walker.evaluations;
        kin_free(w->ctx, own->guide.block);
        kin_free(w->ctx, own->lists);
        kin_graph_way_free(w->ctx, &own->walker);
    }
    kin_free(w->ctx, w->workers);
}

kith_status kin_graph_walk_run(kith_ctx *ctx, const kin_graph_walk *walk, const kith_neighbors *out,
                               kin_graph_effort *effort)
{
    walking w = {.ctx = ctx,
                 .walk = walk,
                 .out = out,
                 .walks = walk->width < walk->ground->points.count,
                 .block = block_of(walk, ctx->threads)};
    kith_status status = KITH_OK;
    const int64_t blocks = kin_ceil_div(kin_min_i64(walk->count, STRIPE), w.block);
    w.threads = (int32_t)kin_min_i64(ctx->threads, blocks);
    *effort = (kin_graph_effort){0};
    if (w.walks && !walk->ground->has_gate) {
        KIN_TRY_GOTO(status, choose_entries(&w), done);
    }
    KIN_TRY_GOTO(status, make_workers(&w), done);
    KIN_TRY_GOTO(status,
                 kin_alloc(ctx, &w.ids, (uint64_t)kin_min_i64(STRIPE, walk->count), sizeof *w.ids,
                           "queries"),
                 done);
    for (int64_t first = 0; first < walk->count && status == KITH_OK; first += STRIPE) {
        status = run_stripe(&w, first);
    }
done:
    kin_free(ctx, w.ids);
    free_workers(&w, effort);
    kin_free(ctx, w.entries);
    return status;
}
