/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph_walk.h"

#include "screen/screen_schedule.h"

/* Runs become longer rather than more; points that a query meets, where there are many times as
 * many, and of how many one in few sets; columns of a product, rows of one. */
enum { MOST_RUNS = 1 << 14, MEETS = 16384, ONE_OF = 16, LEAST_RUNS = 4, COLS = 1024, ROWS = 32 };
/* Points of a run are met so many at a time. */
enum { PART = 128 };
/* A limit is looked for until no more than this times the wanted runs are within. */
static const double ENOUGH = 1.25;

/* ---- Runs ----------------------------------------------------------------------------------- */

static int64_t run_of(int64_t points)
{
    int64_t run = KIN_GRAPH_RUN;
    while (points / run > MOST_RUNS) {
        run *= 2;
    }
    return run;
}

static int64_t each_of(const kin_graph_gate *gate, int64_t meets)
{
    const int64_t wished =
        kin_min_i64((meets == 0 ? MEETS : meets) / gate->run, gate->runs / ONE_OF);
    return kin_min_i64(kin_max_i64(wished, LEAST_RUNS), gate->runs);
}

/* Any piece of the centres is a sample of all. */
static void name_centres(kin_graph_gate *gate)
{
    const int64_t step = kin_sequence_step(gate->runs);
    for (int64_t c = 0; c < gate->runs; c++) {
        gate->names[c] = (uint32_t)(c * step % gate->runs);
    }
}

static int64_t end_of(const kin_graph_gate *gate, int64_t run)
{
    return kin_min_i64((run + 1) * gate->run, gate->points->count);
}

static kith_status place_centres(kith_ctx *ctx, kin_graph_gate *gate)
{
    const uint64_t count = (uint64_t)gate->points->count;
    int64_t *starts = NULL;
    uint32_t *members = NULL;
    int64_t at = 0;
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, starts, (uint64_t)gate->runs + 1, "runs");
    KIN_NEW(&hold, members, count, "runs");
    for (int64_t c = 0; c < gate->runs; c++) {
        starts[c] = at;
        for (int64_t p = gate->names[c] * gate->run; p < end_of(gate, gate->names[c]); p++) {
            members[at++] = (uint32_t)p;
        }
    }
    starts[gate->runs] = at;
    return kin_graph_centres_move(ctx, gate->points, starts, members, &gate->centres);
}

kith_status kin_graph_gate_make(kin_hold *hold, const kin_graph_points *points,
                                kin_graph_gate *gate)
{
    const int64_t run = run_of(points->count);
    *gate =
        (kin_graph_gate){.points = points, .run = run, .runs = kin_ceil_div(points->count, run)};
    KIN_HOLD(moving, hold->ctx);
    KIN_NEW(hold, gate->names, (uint64_t)gate->runs, "runs");
    name_centres(gate);
    KIN_TRY(kin_graph_centres_make(hold, &moving, points, gate->runs, &gate->centres));
    KIN_TRY(place_centres(hold->ctx, gate));
    gate->centres.values = NULL; /* they will not move again */
    return KITH_OK;
}

/* ---- A guide -------------------------------------------------------------------------------- */

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

kith_status kin_graph_guide_make(kith_ctx *ctx, const kin_graph_gate *gate, int64_t queries,
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
    for (int64_t w = run * gate->run * groups; w < end_of(gate, run) * groups; w += WORDS_A_LINE) {
        __builtin_prefetch(panels + w, 0, 2);
    }
    for (int64_t p = run * gate->run; p < end_of(gate, run); p += TERMS_A_LINE) {
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
        for (int64_t p = run * gate->run; p < end_of(gate, run); p += PART) {
            const int32_t count = (int32_t)kin_min_i64(PART, end_of(gate, run) - p);
            const int32_t cols = (int32_t)kin_round_up(count, KIN_PANEL);
            s->limits[0] = (uint32_t)(l->lists[l->length - 1] >> 32);
            take_points(g, p, count);
            multiply(g, s, prepared->set.panels + p * groups, groups, g->col_terms, cols);
            put_hits(g, l, &nobody_else, p, count, hits_of(g, g->orders, 1, cols, s->limits));
            g->evaluations += (double)count;
        }
    }
}

void kin_graph_guide_lead(kin_graph_guide *guide, const kin_graph_points *asked, int64_t first,
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
        for (int64_t p = run * gate->run; visitors > 0 && p < end_of(gate, run); p += PART) {
            meet(guide, &s, &l, run, p, (int32_t)kin_min_i64(PART, end_of(gate, run) - p));
        }
    }
}
