/* SPDX-License-Identifier: Apache-2.0
 * What walks go on, made once: edges both ways, spare blocks of bits, the gate. */
#include "base/base_size.h"
#include "graph/graph_walk.h"
#include "host/host_threads.h"
#include "screen/screen_schedule.h"

#include <math.h>

/* forward     each position takes the edges of its rows
 *      back        a task is a range of positions, which takes the edges that lead into it from
 *                  all of the graph, near places of lists first
 *      parts       union of positions along edges, until all is one */

/* Each range reads all edges. */
enum { POSITIONS_A_TASK = 4096, MOST_RANGES = 16, FIRST_PLACES = 3 };

typedef struct linking {
    const kith_neighbors *graph;
    const kin_graph_points *points;
    kin_graph_links *links;
    uint32_t *places; /* row -> position, or KITH_ID_NONE */
    uint32_t *heads;  /* by position: forward edges */
    uint32_t *sizes;  /* of parts, by root */
    uint64_t *words;  /* parts, to be sorted */
    int64_t range;    /* positions of a range */
} linking;

/* ---- Forward -------------------------------------------------------------------------------- */

static kith_status find_places(void *arg, int64_t p, int32_t thread)
{
    (void)thread;
    const linking *l = arg;
    const kin_groups *groups = &l->points->prepared->groups;
    for (uint32_t row = l->points->ids[p]; row != KITH_ID_NONE;
         row = kin_groups_next(groups, row)) {
        l->places[row] = (uint32_t)p;
    }
    return KITH_OK;
}

/* The edges of one row, k in all at most: a half of the room is for edges back. */
static void take_row(const linking *l, uint32_t position, uint32_t row)
{
    const int64_t k = l->graph->k;
    const uint32_t *from = l->graph->ids + (int64_t)row * k;
    uint32_t *ids = l->links->ids + (int64_t)position * l->links->most;
    uint32_t count = l->links->counts[position];
    for (int64_t i = 0; i < k && (int64_t)count < k; i++) {
        const uint32_t place = from[i] == KITH_ID_NONE ? KITH_ID_NONE : l->places[from[i]];
        if (place != KITH_ID_NONE && place != position) {
            ids[count++] = place;
        }
    }
    l->links->counts[position] = count;
}

static kith_status take_forward(void *arg, int64_t p, int32_t thread)
{
    (void)thread;
    const linking *l = arg;
    const kin_groups *groups = &l->points->prepared->groups;
    l->links->counts[p] = 0;
    for (uint32_t row = l->points->ids[p]; row != KITH_ID_NONE;
         row = kin_groups_next(groups, row)) {
        take_row(l, (uint32_t)p, row);
    }
    l->heads[p] = l->links->counts[p];
    return KITH_OK;
}

/* ---- Back ----------------------------------------------------------------------------------- */

/* An edge that goes both ways stands in each list twice, which a walk sees sooner than a search of
 * the list would. Rows that everybody names have room for a part of them alone. Whose list they
 * stand near the front of is worth most: so places are taken in three turns, an eighth, a quarter,
 * the rest. */
static kith_status take_back(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const linking *l = arg;
    kin_graph_links *links = l->links;
    const int64_t k = l->graph->k;
    const int64_t turns[] = {0, kin_ceil_div(k, 8), kin_ceil_div(k, 4), k};
    const uint32_t first = (uint32_t)(task * l->range);
    for (int turn = 0; turn < 3; turn++) {
        for (int64_t p = 0; p < links->count; p++) {
            const uint32_t *own = links->ids + p * links->most;
            const int64_t last = kin_min_i64(turns[turn + 1], l->heads[p]);
            for (int64_t i = turns[turn]; i < last; i++) {
                if (own[i] - first < (uint32_t)l->range &&
                    (int64_t)links->counts[own[i]] < links->most) {
                    links->ids[(int64_t)own[i] * links->most + links->counts[own[i]]++] =
                        (uint32_t)p;
                }
            }
        }
    }
    return KITH_OK;
}

/* ---- Parts ---------------------------------------------------------------------------------- */

static uint32_t root_of(uint32_t *parents, uint32_t position)
{
    while (parents[position] != position) {
        parents[position] = parents[parents[position]];
        position = parents[position];
    }
    return position;
}

/* The lowest position of a part is its root. */
static int64_t unite_two(uint32_t *parents, uint32_t one, uint32_t two)
{
    const uint32_t a = root_of(parents, one);
    const uint32_t b = root_of(parents, two);
    parents[a > b ? a : b] = a > b ? b : a;
    return a != b;
}

/* The first places of all lists mostly make one part of all; if not, the others. */
static void unite(uint32_t *parents, const linking *l)
{
    const kin_graph_links *links = l->links;
    int64_t parts = links->count;
    for (int64_t i = 0; i < FIRST_PLACES && parts > 1; i++) {
        for (int64_t p = 0; p < links->count; p++) {
            if (i < (int64_t)l->heads[p]) {
                parts -= unite_two(parents, (uint32_t)p, links->ids[p * links->most + i]);
            }
        }
    }
    for (int64_t p = 0; p < links->count && parts > 1; p++) {
        for (int64_t i = FIRST_PLACES; i < (int64_t)l->heads[p]; i++) {
            parts -= unite_two(parents, (uint32_t)p, links->ids[p * links->most + i]);
        }
    }
}

/* words: (positions that are not in it, its root), so that the largest comes first. */
static int64_t rank_parts(uint32_t *parents, int64_t count, uint32_t *sizes, uint64_t *words)
{
    int64_t parts = 0;
    for (int64_t p = 0; p < count; p++) {
        sizes[root_of(parents, (uint32_t)p)] += 1;
    }
    for (int64_t p = 0; p < count; p++) {
        if (sizes[p] > 0) {
            words[parts++] = (uint64_t)(UINT32_MAX - sizes[p]) << 32 | (uint64_t)p;
        }
    }
    kin_select_sort_words(words, parts);
    return parts;
}

static void find_parts(const linking *l)
{
    kin_graph_links *links = l->links;
    for (int64_t p = 0; p < links->count; p++) {
        links->parts[p] = (uint32_t)p;
    }
    unite(links->parts, l);
    links->part_count = rank_parts(links->parts, links->count, l->sizes, l->words);
    for (int64_t i = 0; i < links->part_count; i++) {
        links->parts[i] = (uint32_t)(l->words[i] & UINT32_MAX);
    }
}

/* ---- All of it ------------------------------------------------------------------------------ */

static void name_links(kin_layout *layout, void *job)
{
    kin_graph_links *links = job;
    const uint64_t count = (uint64_t)links->count;
    links->ids =
        kin_layout_array(layout, kin_size_mul(count, (uint64_t)links->most), sizeof *links->ids);
    links->counts = kin_layout_array(layout, count, sizeof *links->counts);
    links->parts = kin_layout_array(layout, count, sizeof *links->parts);
}

/* What is gone when links are made. */
static void name_linking(kin_layout *layout, void *job)
{
    linking *l = job;
    const uint64_t count = (uint64_t)l->links->count;
    l->places = kin_layout_array(layout, (uint64_t)l->graph->rows, sizeof *l->places);
    l->heads = kin_layout_array(layout, count, sizeof *l->heads);
    l->sizes = kin_layout_zeros(layout, count, sizeof *l->sizes);
    l->words = kin_layout_array(layout, count, sizeof *l->words);
}

static kith_status link_all(kith_ctx *ctx, linking *l)
{
    const int64_t ranges = kin_min_i64(ctx->threads, (int64_t)MOST_RANGES);
    memset(l->places, 0xff, (size_t)l->graph->rows * sizeof *l->places);
    l->range = kin_max_i64(kin_ceil_div(l->links->count, ranges), 1);
    KIN_TRY(kin_parallel_rows(ctx, "links", l->links->count, POSITIONS_A_TASK, find_places, l));
    KIN_TRY(kin_parallel_rows(ctx, "links", l->links->count, POSITIONS_A_TASK, take_forward, l));
    KIN_TRY(kin_parallel(ctx, "links", kin_ceil_div(l->links->count, l->range), take_back, l));
    find_parts(l);
    return KITH_OK;
}

static kith_status make_links(kin_hold *hold, const kith_neighbors *graph,
                              const kin_graph_points *points, kin_graph_links *links)
{
    *links = (kin_graph_links){.count = points->count, .most = 2 * graph->k};
    linking l = {.graph = graph, .points = points, .links = links};
    KIN_HOLD(passing, hold->ctx);
    KIN_TRY(kin_hold_layout(hold, name_links, links, "links"));
    KIN_TRY(kin_hold_layout(&passing, name_linking, &l, "places of rows"));
    return link_all(hold->ctx, &l);
}

/* Points whose rounding is tried; one of so many may be coarse. */
enum { TRIED = 256, COARSE = 10 };
/* A point is, where its farthest neighbour is nearer than so many times what it lost. */
static const double FINE = 2.0;

/* ---- Spare blocks --------------------------------------------------------------------------- */

uint64_t kin_graph_spare_words(int64_t positions)
{
    return (uint64_t)kin_ceil_div(positions, 32) + KIN_GRAPH_REMEMBERED;
}

static void give_spares(void *ctx, void *given)
{
    kin_graph_spares *spares = given;
    for (int32_t i = 0; i < spares->count; i++) {
        kin_free(ctx, atomic_load(&spares->blocks[i]));
    }
    kin_free(ctx, spares->blocks);
}

static kith_status make_spares(kin_hold *hold, uint64_t words, kin_graph_spares *spares)
{
    kith_ctx *ctx = hold->ctx;
    *spares = (kin_graph_spares){.words = words};
    kin_hold_take(hold, give_spares, ctx, spares);
    KIN_TRY(
        kin_alloc(ctx, &spares->blocks, (uint64_t)ctx->threads, sizeof *spares->blocks, "walks"));
    for (; spares->count < ctx->threads; spares->count++) {
        uint32_t *block = NULL;
        KIN_TRY(kin_alloc_zero(ctx, &block, words, sizeof *block, "a walk"));
        atomic_init(&spares->blocks[spares->count], block);
    }
    return KITH_OK;
}

/* ---- The gate -------------------------------------------------------------------------------- */

/* Runs become longer rather than more. */
enum { MOST_RUNS = 1 << 14 };

static int64_t run_of(int64_t points)
{
    int64_t run = KIN_GRAPH_RUN;
    while (points / run > MOST_RUNS) {
        run *= 2;
    }
    return run;
}

/* Any piece of the centres is a sample of all. */
static void name_centres(kin_graph_gate *gate)
{
    const int64_t step = kin_sequence_step(gate->runs);
    for (int64_t c = 0; c < gate->runs; c++) {
        gate->names[c] = (uint32_t)(c * step % gate->runs);
    }
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
        for (int64_t p = gate->names[c] * gate->run; p < kin_graph_run_end(gate, gate->names[c]);
             p++) {
            members[at++] = (uint32_t)p;
        }
    }
    starts[gate->runs] = at;
    return kin_graph_centres_move(ctx, gate->points, starts, members, &gate->centres);
}

static kith_status make_gate(kin_hold *hold, const kin_graph_points *points, kin_graph_gate *gate)
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

/* ---- The ground ----------------------------------------------------------------------------- */

/* Whether rounded rows tell neighbours apart: whether what they lost is well below the distance of
 * the farthest neighbour of a point, for nearly all of a sample. Two clusters that are far from
 * each other fill the range of a narrow type, and within each all points round to one. */
static kith_status try_rounded(kith_ctx *ctx, const kith_neighbors *graph,
                               const kin_prepared *prepared, bool *fine)
{
    const kin_frame *frame = &prepared->frame;
    const int64_t count = kin_min_i64(prepared->groups.count, TRIED);
    const int64_t expanded = kin_round_up(prepared->distance.cols, KIN_METRIC_LANES);
    double *values = NULL;
    int64_t coarse = 0;
    *fine = true;
    if (frame->kernel == NULL || frame->bound != KIN_BOUND_DISTANCE) {
        return KITH_OK;
    }
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, values, (uint64_t)expanded, "a row");
    for (int64_t i = 0; i < count; i++) {
        const int64_t position = i * prepared->groups.count / count;
        const uint32_t row = prepared->order[position];
        const uint32_t *ids = graph->ids + (int64_t)row * graph->k;
        double farthest = 0.0;
        for (int64_t j = 0; j < graph->k; j++) {
            if (ids[j] != KITH_ID_NONE) {
                double key = 0.0;
                const kin_query query =
                    kin_metric_load(&prepared->distance, &prepared->rows, row, values);
                kin_metric_keys(&prepared->distance, &query, &prepared->rows, &ids[j], 1, &key);
                farthest = fmax(farthest, key);
            }
        }
        const double far = sqrt(farthest / frame->key_scale) / frame->scale;
        coarse += far > 0.0 && far < FINE * kin_set_row(&prepared->set, position).lost;
    }
    *fine = coarse * COARSE <= count;
    return KITH_OK;
}

kith_status kin_graph_ground_make(kin_hold *hold, const kin_prepared *prepared,
                                  const kith_neighbors *graph, kin_graph_ground *ground)
{
    kith_ctx *ctx = hold->ctx;
    bool fine = true;
    *ground = (kin_graph_ground){.prepared = prepared};
    KIN_FAIL_IF(prepared->groups.count >= KIN_GRAPH_MOST_POINTS, ctx, KITH_E_UNSUPPORTED,
                kin_at(NULL), "%lld points are more than a walk takes (at most %lld)",
                (long long)prepared->groups.count, (long long)KIN_GRAPH_MOST_POINTS - 1);
    KIN_TRY(try_rounded(ctx, graph, prepared, &fine));
    KIN_TRY(kin_graph_points_make(ctx, prepared, &ground->points));
    kin_hold_block(hold, ground->points.rows);
    kin_hold_block(hold, ground->points.terms);
    if (!fine) {
        ground->points.kernel = NULL; /* keys */
    }
    KIN_TRY(make_links(hold, graph, &ground->points, &ground->links));
    KIN_TRY(make_spares(hold, kin_graph_spare_words(ground->points.count), &ground->spares));
    ground->has_gate = kin_graph_has_cells(&ground->points);
    return ground->has_gate ? make_gate(hold, &ground->points, &ground->gate) : KITH_OK;
}
