/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph_cells.h"

#include "host/host_threads.h"

#include <math.h>

/* ROWS points at a time meet all centres: their orders stay in the second-level cache. Each move
 * looks at one of SAMPLE points, another one each time. */
enum { ROWS = 32, STRIPS_A_TASK = 8, SAMPLE = 3, MOST_STEPS = 8, SORTED = 8, MOST_CELLS = 32768 };
static const double CELLS = 2.5;

typedef struct worker {
    KIN_APART uint32_t *rows; /* gathered rows, as many as a kernel looks at */
    uint32_t *orders;
    uint32_t *hits;
    uint32_t *no_limits; /* zeros: cells ask for nobody */
    uint64_t *words;     /* near cells, and who may be one */
    double share;        /* of the way between two limits, where the last point had its own */
    kin_word row_terms[KIN_GRAPH_ROWS_STEP]; /* zeros */
    uint32_t positions[ROWS];
} worker;

typedef struct finding {
    const kin_graph_points *points;
    const kin_graph_centres *centres;
    kin_graph_hits_fn hits;
    int64_t first; /* positions first, first + step, ... */
    int64_t step;
    int64_t count;
    int32_t each;
    uint16_t *near;  /* count x each */
    int64_t *starts; /* of cells */
    uint32_t *who;
    worker *workers;
    int32_t threads;
} finding;

static void name_finding(kin_layout *layout, void *job)
{
    finding *f = job;
    const kin_graph_centres *centres = f->centres;
    const uint64_t padded = (uint64_t)centres->padded;
    f->starts = kin_layout_array(layout, (uint64_t)centres->count + 1, sizeof *f->starts);
    f->who = kin_layout_array(layout, (uint64_t)centres->points, sizeof *f->who);
    f->workers = kin_layout_zeros(layout, (uint64_t)f->threads, sizeof *f->workers);
    for (int32_t t = 0; t < f->threads; t++) {
        worker spare;
        worker *w = kin_layout_item(f->workers, t, &spare);
        w->rows = kin_layout_zeros(layout, KIN_GRAPH_ROWS_STEP * (uint64_t)centres->pitch,
                                   sizeof *w->rows);
        w->orders = kin_layout_array(layout, KIN_GRAPH_ROWS_STEP * padded, sizeof *w->orders);
        w->hits = kin_layout_array(layout, padded, sizeof *w->hits);
        w->no_limits = kin_layout_zeros(layout, padded, sizeof *w->no_limits);
        w->words = kin_layout_array(layout, padded, sizeof *w->words);
    }
}

/* ---- The nearest centres -------------------------------------------------------------------- */

static void meet_centres(const finding *f, worker *w, const uint32_t *rows, int32_t count)
{
    const kin_graph_centres *centres = f->centres;
    kin_graph_multiply(f->points, (kin_graph_product){.rows = rows,
                                                      .panels = centres->panels,
                                                      .pitch = centres->pitch,
                                                      .before = (int32_t)centres->padded,
                                                      .row_count = count,
                                                      .col_count = (int32_t)centres->padded,
                                                      .row_terms = w->row_terms,
                                                      .col_terms = centres->terms,
                                                      .orders = w->orders,
                                                      .stride = centres->padded});
}

/* Hits of one point: how many cells are within a limit. */
static int64_t cells_within(const finding *f, worker *w, const uint32_t *orders, uint32_t limit)
{
    const int64_t padded = f->centres->padded;
    const kin_graph_orders of = {orders, padded, 1, padded, &limit, w->no_limits};
    return f->hits(&of, w->hits);
}

/* Hits of a limit within which are at least `each` cells, and not many more; returns how many.
 * Points that follow each other have nearly the same near cells: of those that the last point had
 * the farthest is a limit, and the nearest too tight a one. Between them what did for the last
 * point is tried, then halves. */
static int64_t hit_cells(const finding *f, worker *w, const uint32_t *orders, bool follows)
{
    uint32_t tight = UINT32_MAX;
    uint32_t limit = follows ? 0 : UINT32_MAX;
    for (int32_t e = 0; follows && e < f->each; e++) {
        const uint32_t order = orders[(uint32_t)w->words[e]];
        limit = order > limit ? order : limit;
        tight = order < tight ? order : tight;
    }
    int64_t hits = cells_within(f, w, orders, limit);
    const uint32_t first_tight = tight;
    const double first_wide = follows ? (double)limit - (double)tight : 0.0;
    for (int step = 0; step < MOST_STEPS && hits > 2 * f->each && limit > tight; step++) {
        const double share = step == 0 ? w->share : 0.5;
        const uint32_t middle = tight + (uint32_t)((double)(limit - tight) * share);
        const int64_t within = cells_within(f, w, orders, middle);
        if (within < f->each) {
            tight = middle;
        } else {
            limit = middle;
            hits = within;
        }
    }
    if (first_wide > 0.0) {
        w->share = ((double)limit - (double)first_tight) / first_wide;
    }
    return cells_within(f, w, orders, limit);
}

/* Of 64, 48, 32, 24, 16, ... the one before. */
static int64_t before(int64_t stop)
{
    return (stop & (stop - 1)) == 0 ? stop / 4 * 3 : stop / 3 * 2;
}

/* The nearest cells of row i of a strip to words[0 .. each - 1], in the order of the contract. */
static void choose(const finding *f, worker *w, int32_t i, bool follows)
{
    const uint32_t *orders = w->orders + i * f->centres->padded;
    const int64_t hits = hit_cells(f, w, orders, follows);
    int64_t count = 0;
    for (int64_t h = 0; h < hits; h++) {
        if (w->hits[h] < (uint32_t)f->centres->count) {
            w->words[count++] = (uint64_t)orders[w->hits[h]] << 32 | w->hits[h];
        }
    }
    int64_t first = f->each;
    for (int64_t stop = KIN_GRAPH_MOST_NEAR / 4 * 3; count > SORTED; stop = before(stop)) {
        if (first < count) {
            kin_select_nth_word(w->words, count, first - 1);
        }
        count = first;
        first = stop < first ? stop : first;
    }
    kin_select_sort_words(w->words, count);
}

/* The cell of an inner product that a point is a member of: the nearest of those with heights.
 * Overwrites row i of the orders. */
static uint16_t own_cell(const finding *f, const worker *w, int32_t i, int64_t position)
{
    const kin_graph_centres *centres = f->centres;
    const bool is_float = kin_tile_is_float(f->points->kernel->type);
    const float height = centres->heights[position];
    uint32_t *orders = w->orders + i * centres->padded;
    uint32_t least = UINT32_MAX;
    uint16_t cell = 0;
    for (int64_t c = 0; c < centres->count; c++) {
        const float cost = is_float ? kin_graph_float_of_order(orders[c])
                                    : (float)kin_graph_int_of_order(orders[c]);
        const float whole = cost + (centres->lifts[c] + centres->slopes[c] * height);
        orders[c] = kin_graph_order_of_float(whole);
    }
    for (int64_t c = 0; c < centres->count; c++) {
        least = orders[c] < least ? orders[c] : least;
    }
    while (orders[cell] != least) {
        cell += 1;
    }
    return cell;
}

/* The near cells of row i of a strip, a point's own first. */
static void take_near(const finding *f, worker *w, int32_t i, int64_t position, bool follows,
                      uint16_t *near)
{
    const bool raised = f->centres->heights != NULL;
    int32_t count = 0;
    if (!raised || f->each > 1) {
        choose(f, w, i, follows);
    }
    if (raised) {
        near[count++] = own_cell(f, w, i, position);
    }
    for (int32_t e = 0; count < f->each; e++) {
        const uint16_t cell = (uint16_t)w->words[e];
        if (!raised || cell != near[0]) {
            near[count++] = cell;
        }
    }
}

/* Rows that follow each other are read where they stand, but for the last ones: a kernel looks at
 * as many as its tiles have. */
static const uint32_t *rows_of(const finding *f, worker *w, int64_t first, int32_t count)
{
    const kin_graph_points *points = f->points;
    const int64_t wide = f->centres->pitch;
    const bool stand = f->step == 1 && points->stride == wide;
    if (stand && f->first + first + KIN_GRAPH_ROWS_STEP <= points->count) {
        return points->rows + (f->first + first) * wide;
    }
    for (int32_t i = 0; i < count; i++) {
        w->positions[i] = (uint32_t)(f->first + (first + i) * f->step);
    }
    points->kernel->gather(points, w->positions, count, wide, w->rows);
    return w->rows;
}

static kith_status find_near(void *arg, int64_t task, int32_t thread)
{
    const finding *f = arg;
    worker *w = &f->workers[thread];
    const int64_t begin = task * STRIPS_A_TASK * ROWS;
    const int64_t last = kin_min_i64(begin + (int64_t)STRIPS_A_TASK * ROWS, f->count);
    for (int64_t first = begin; first < last; first += ROWS) {
        const int32_t count = (int32_t)kin_min_i64(ROWS, last - first);
        meet_centres(f, w, rows_of(f, w, first, count), count);
        for (int32_t i = 0; i < count; i++) {
            take_near(f, w, i, f->first + (first + i) * f->step, first + i > begin,
                      f->near + (first + i) * f->each);
        }
    }
    return KITH_OK;
}

static kith_status find_all(kith_ctx *ctx, finding *f)
{
    return kin_parallel(ctx, "start", kin_ceil_div(f->count, (int64_t)STRIPS_A_TASK * ROWS),
                        find_near, f);
}

/* ---- Lists of cells ------------------------------------------------------------------------- */

void kin_graph_cells_list(const kin_graph_cells *cells, int64_t points, int32_t first, int32_t last,
                          int64_t *starts, uint32_t *who)
{
    memset(starts, 0, (size_t)(cells->count + 1) * sizeof *starts);
    for (int64_t p = 0; p < points; p++) {
        for (int32_t i = first; i < last; i++) {
            starts[cells->near[p * cells->each + i] + 1] += 1;
        }
    }
    for (int64_t c = 0; c < cells->count; c++) {
        starts[c + 1] += starts[c];
    }
    for (int64_t p = 0; p < points; p++) {
        for (int32_t i = first; i < last; i++) {
            who[starts[cells->near[p * cells->each + i]]++] = (uint32_t)p;
        }
    }
    for (int64_t c = cells->count; c > 0; c--) {
        starts[c] = starts[c - 1];
    }
    starts[0] = 0;
}

void kin_graph_cells_list_sides(const kin_graph_cells *cells, const kin_graph_two_sets *sides,
                                int32_t first, int32_t last, int64_t *starts, uint32_t *who)
{
    const int64_t lists = 2 * cells->count;
    memset(starts, 0, (size_t)(lists + 1) * sizeof *starts);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t p = 0; p < sides->points; p++) {
            for (int32_t i = first; i < last; i++) {
                const int64_t cell = 2 * (int64_t)cells->near[p * cells->each + i];
                for (int side = 0; side < 2; side++) {
                    int64_t *at = &starts[cell + (sides->others ? 1 - side : side)];
                    if ((sides->of[p] >> side & 1) == 0) {
                        continue;
                    }
                    if (pass == 0) {
                        at[1] += 1;
                    } else {
                        who[at[0]++] = (uint32_t)p;
                    }
                }
            }
        }
        for (int64_t c = 0; pass == 0 && c < lists; c++) {
            starts[c + 1] += starts[c];
        }
    }
    memmove(starts + 1, starts, (size_t)lists * sizeof *starts);
    starts[0] = 0;
}

/* ---- Moves ---------------------------------------------------------------------------------- */

/* The means of runs of positions, of a sample of them. */
static kith_status begin(kith_ctx *ctx, const finding *f, kin_graph_centres *centres)
{
    int64_t *starts = f->starts;
    uint32_t *who = f->who;
    const int64_t sample = kin_ceil_div(f->points->count, SAMPLE);
    for (int64_t i = 0; i < sample; i++) {
        who[i] = (uint32_t)(i * SAMPLE);
    }
    for (int64_t c = 0; c <= centres->count; c++) {
        starts[c] = c * sample / centres->count;
    }
    return kin_graph_centres_move(ctx, f->points, starts, who, centres);
}

/* The means of those of a sample that are nearest. near: room for the sample. */
static kith_status move(kith_ctx *ctx, finding *f, kin_graph_centres *centres, int32_t number,
                        uint16_t *near)
{
    uint32_t *who = f->who;
    f->first = number % SAMPLE;
    f->step = SAMPLE;
    f->count = kin_ceil_div(f->points->count - f->first, SAMPLE);
    f->each = 1;
    f->near = near;
    KIN_TRY(find_all(ctx, f));
    const kin_graph_cells cells = {.count = centres->count, .each = 1, .near = near};
    kin_graph_cells_list(&cells, f->count, 0, 1, f->starts, who);
    for (int64_t i = 0; i < f->count; i++) {
        who[i] = (uint32_t)(f->first + who[i] * f->step);
    }
    return kin_graph_centres_move(ctx, f->points, f->starts, who, centres);
}

static kith_status place(kith_ctx *ctx, finding *f, kin_graph_centres *centres,
                         kin_graph_cells *cells, int32_t moves)
{
    KIN_TRY(begin(ctx, f, centres));
    for (int32_t number = 0; number < moves; number++) {
        KIN_TRY(move(ctx, f, centres, number, cells->near));
        cells->evaluations += (double)f->count * (double)centres->count;
    }
    f->first = 0;
    f->step = 1;
    f->count = f->points->count;
    f->each = cells->each;
    cells->evaluations += (double)f->count * (double)centres->count;
    return find_all(ctx, f);
}

/* ---- All of it ------------------------------------------------------------------------------ */

/* Meetings with centres cost as cells are many, meetings with points as cells are large. A cell's
 * number has 16 bits among the hits. */
int64_t kin_graph_cells_wished(int64_t points)
{
    return kin_max_i64(1, kin_min_i64(llround(CELLS * sqrt((double)points)), MOST_CELLS));
}

kith_status kin_graph_cells_make(kin_hold *hold, const kin_graph_points *points, int64_t count,
                                 int32_t each, int32_t moves, kin_graph_cells *cells)
{
    kith_ctx *ctx = hold->ctx;
    kin_graph_centres centres;
    KIN_HOLD(own, ctx);
    KIN_TRY(kin_graph_centres_make(&own, &own, points, count, &centres));
    finding f = {.points = points,
                 .centres = &centres,
                 .hits = kin_graph_words_get(ctx->isa)->hits,
                 .threads = ctx->threads};
    *cells = (kin_graph_cells){.count = count, .each = each};
    KIN_TRY(kin_hold_layout(&own, name_finding, &f, "near cells"));
    KIN_NEW(hold, cells->near, kin_size_mul((uint64_t)points->count, (uint64_t)each), "near cells");
    f.near = cells->near;
    return place(ctx, &f, &centres, cells, moves);
}

void kin_graph_cells_plan(kin_layout *plan, const kin_frame *frame, int64_t points, int32_t near,
                          int32_t threads)
{
    const int64_t count = kin_graph_cells_wished(points);
    kin_graph_centres centres = kin_graph_centres_shape(frame, points, count);
    finding f = {.centres = &centres, .threads = threads};
    kin_layout_alone(plan, (uint64_t)points, (uint64_t)near * sizeof(uint16_t));
    const uint64_t kept = kin_layout_mark(plan);
    kin_graph_centres_plan(plan, &centres, threads);
    kin_layout_block(plan, name_finding, &f);
    kin_layout_back(plan, kept);
}
