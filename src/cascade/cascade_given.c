/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. One graph that is given comes into empty lists, all of it NEW. Of two graphs that are made
 * one, what each has is known: its entries are not NEW, and no neighbour in the union is farther
 * than the k-th of them. That is the reach with which the screen, cut short, begins: it needs no
 * seeds, and little passes that is not wanted. What it finds near is then offered to the lists:
 * positions of both sets stand in one order, so that a block's near tiles hold points of both.
 * Rounds begin with what came, and nothing is drawn by chance.
 *
 *      graphs, by row  ->  places of rows  ->  given, by position  ->  lists, known
 *      lists           ->  reach  ->  screen  ->  NEW entries      ->  offers to lists
 *
 * A group of equal rows has the list of its first row; where it has rows of both sets, also that of
 * its first row in the other.
 *
 * What was found of a relative (cascade_relative.c) comes likewise, all of it compared, the nearest
 * kept, NEW.
 *
 * Memory. 4 bytes an id of the graphs twice, 4 a row, and 8 x 32 a position for what the screen
 * found; all is gone before the rounds begin.
 */
#include "cascade/cascade_run.h"

#include "base/base_mem.h"
#include "base/base_try.h"

enum { GRAPHS = 2 };

typedef struct giving {
    kin_cascade_run *run;
    int32_t length;              /* entries of a list that are taken */
    uint32_t *places;            /* device: row -> position */
    uint32_t *twins;             /* device: position -> first row behind the split, of groups with
                                    rows on both sides; NULL: there are none */
    uint32_t *copies[GRAPHS];    /* device: ids of graphs that lie in host memory */
    const uint32_t *ids[GRAPHS]; /* device */
    uint32_t *given;             /* device: count x length */
} giving;

static void free_giving(const giving *g)
{
    kin_gpu *gpu = g->run->on.gpu;
    kin_gpu_free(gpu, g->given);
    kin_gpu_free(gpu, g->copies[1]);
    kin_gpu_free(gpu, g->copies[0]);
    kin_gpu_free(gpu, g->twins);
    kin_gpu_free(gpu, g->places);
}

static const kith_neighbors *graph_of(const giving *g, int which)
{
    return which == 0 ? g->run->request->init : g->run->request->init2;
}

static int graphs_of(const giving *g)
{
    return g->run->request->split > 0 ? GRAPHS : 1;
}

/* ---- Places ---------------------------------------------------------------------------------- */

/* Groups are the host's: rows of a group stand at its position. */
static void stand_in_groups(const giving *g, const uint32_t *ids, uint32_t *places, uint32_t *twins)
{
    const kin_cascade_run *run = g->run;
    const uint32_t *next = run->groups->next;
    const int64_t split = run->request->split;
    for (int64_t row = 0; row < run->rows; row++) {
        places[row] = UINT32_MAX;
    }
    for (int64_t p = 0; p < run->count; p++) {
        const bool below = (int64_t)ids[p] < split;
        twins[p] = UINT32_MAX;
        for (uint32_t row = ids[p]; row != KITH_ID_NONE;
             row = next != NULL ? next[row] : KITH_ID_NONE) {
            places[row] = (uint32_t)p;
            if (below && (int64_t)row >= split && twins[p] == UINT32_MAX) {
                twins[p] = row;
            }
        }
    }
}

static kith_status place_groups(giving *g)
{
    const kin_cascade_run *run = g->run;
    kith_ctx *ctx = run->on.ctx;
    const uint64_t rows = (uint64_t)run->rows;
    const uint64_t count = (uint64_t)run->count;
    uint32_t *ids = NULL; /* then twins, then places */
    KIN_TRY(kin_alloc(ctx, &ids, kin_size_add(2 * count, rows), sizeof *ids, "places of rows"));
    uint32_t *twins = ids + count;
    uint32_t *places = twins + count;
    kith_status status =
        kin_gpu_download(ctx, run->on.gpu, ids, run->points.set.ids, count * sizeof *ids);
    if (status == KITH_OK) {
        stand_in_groups(g, ids, places, twins);
        status = kin_gpu_upload(ctx, run->on.gpu, g->places, places, rows * sizeof *places);
    }
    if (status == KITH_OK && run->groups->next != NULL && graphs_of(g) == GRAPHS) {
        status = kin_gpu_alloc(ctx, run->on.gpu, &g->twins, count, sizeof *g->twins, "places");
        if (status == KITH_OK) {
            status = kin_gpu_upload(ctx, run->on.gpu, g->twins, twins, count * sizeof *twins);
        }
    }
    kin_free(ctx, ids);
    return status;
}

static kith_status place(giving *g)
{
    const kin_cascade_run *run = g->run;
    KIN_TRY(kin_gpu_alloc(run->on.ctx, run->on.gpu, &g->places, (uint64_t)run->rows,
                          sizeof *g->places, "places of rows"));
    if (!kin_cascade_is_plain(run->groups)) {
        return place_groups(g);
    }
    const kin_cascade_place job = {
        .points = run->count, .ids = run->points.set.ids, .places = g->places};
    return kin_cascade_check(run, run->kernels->place(run->on.stream, &job), "placing rows");
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static kith_status bring_ids(giving *g, int which)
{
    const kin_cascade_run *run = g->run;
    const kith_neighbors *graph = graph_of(g, which);
    const uint64_t cells = kin_size_mul((uint64_t)graph->rows, (uint64_t)graph->k);
    g->ids[which] = graph->ids;
    if ((run->place & KIN_FUSED_DATA_ON_DEVICE) != 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_gpu_alloc(run->on.ctx, run->on.gpu, &g->copies[which], cells, sizeof(uint32_t),
                          "the graph to begin with"));
    g->ids[which] = g->copies[which];
    return kin_gpu_upload(run->on.ctx, run->on.gpu, g->copies[which], graph->ids,
                          cells * sizeof(uint32_t));
}

/* Lists of the rows `ids` of graph `which` as positions. */
static kith_status give(const giving *g, int which, const uint32_t *ids)
{
    const kin_cascade_run *run = g->run;
    const kith_neighbors *graph = graph_of(g, which);
    const kin_cascade_give job = {.points = run->count,
                                  .ids = ids,
                                  .places = g->places,
                                  .graph = g->ids[which],
                                  .first = which == 0 ? 0 : run->request->split,
                                  .rows = graph->rows,
                                  .k = graph->k,
                                  .length = g->length,
                                  .given = g->given};
    return kin_cascade_check(run, run->kernels->give(run->on.stream, &job), "reading a graph");
}

static kith_status fill(const giving *g)
{
    const kin_cascade_run *run = g->run;
    const kin_cascade_fill job = {.points = run->points,
                                  .graph = run->graph,
                                  .wanted = run->graph.length,
                                  .given = g->given,
                                  .given_length = g->length,
                                  .given_alone = run->request->split > 0,
                                  .known = run->request->split > 0,
                                  .seed = run->request->seed};
    return kin_cascade_check(run, run->kernels->fill(run->on.stream, &job), "filling lists");
}

static kith_status take(giving *g)
{
    const kin_cascade_run *run = g->run;
    const uint64_t cells = kin_size_mul((uint64_t)run->count, (uint64_t)g->length);
    KIN_TRY(place(g));
    KIN_TRY(kin_gpu_alloc(run->on.ctx, run->on.gpu, &g->given, cells, sizeof *g->given,
                          "the graph to begin with"));
    for (int which = 0; which < graphs_of(g); which++) {
        KIN_TRY(bring_ids(g, which));
        KIN_TRY(give(g, which, run->points.set.ids));
    }
    KIN_TRY(fill(g));
    if (g->twins == NULL) {
        return KITH_OK;
    }
    KIN_TRY(kin_gpu_fill(run->on.ctx, run->on.gpu, g->given, 0xff, cells * sizeof *g->given));
    KIN_TRY(give(g, 1, g->twins));
    return fill(g);
}

static kith_status take_graphs(kin_cascade_run *run)
{
    giving g = {.run = run};
    int64_t longest = 1;
    for (int which = 0; which < graphs_of(&g); which++) {
        longest = kin_max_i64(longest, graph_of(&g, which)->k);
    }
    g.length = (int32_t)kin_min_i64(longest, run->graph.length);
    kith_status status = take(&g);
    if (status == KITH_OK) {
        status = kin_gpu_wait(run->on.ctx, run->on.gpu); /* what is freed is read until then */
    }
    free_giving(&g);
    return status;
}

/* ---- Found ----------------------------------------------------------------------------------- */

/* The position of each number that ids count; with rows themselves all places are known. */
static kith_status place_found(giving *g, const kin_cascade_found *found)
{
    const kin_cascade_run *run = g->run;
    const uint64_t count = (uint64_t)found->of_count;
    KIN_TRY(place(g));
    if (found->of == NULL) {
        return KITH_OK;
    }
    KIN_TRY(kin_gpu_alloc(run->on.ctx, run->on.gpu, &g->copies[0], count, sizeof *g->copies[0],
                          "places of rows"));
    const kin_cascade_pick job = {.from = g->places,
                                  .stride_bytes = sizeof *g->places,
                                  .bytes = sizeof *g->places,
                                  .rows = found->of,
                                  .count = found->of_count,
                                  .to = g->copies[0]};
    return kin_cascade_check(run, run->kernels->pick(run->on.stream, &job), "placing rows");
}

static kith_status take_one(giving *g, const kin_cascade_found *found)
{
    const kin_cascade_run *run = g->run;
    KIN_TRY(place_found(g, found));
    KIN_TRY(kin_gpu_alloc(run->on.ctx, run->on.gpu, &g->given,
                          kin_size_mul((uint64_t)run->count, (uint64_t)g->length), sizeof *g->given,
                          "what was found"));
    const kin_cascade_give give = {.points = run->count,
                                   .ids = run->points.set.ids,
                                   .places = found->of == NULL ? g->places : g->copies[0],
                                   .graph = found->ids,
                                   .rows = run->rows,
                                   .k = found->k,
                                   .length = g->length,
                                   .given = g->given};
    const kin_cascade_fill fill = {.points = run->points,
                                   .graph = run->graph,
                                   .wanted = run->graph.length,
                                   .given = g->given,
                                   .given_length = g->length,
                                   .given_alone = 1,
                                   .seed = run->request->seed};
    KIN_TRY(kin_cascade_check(run, run->kernels->give(run->on.stream, &give), "reading a graph"));
    return kin_cascade_check(run, run->kernels->fill(run->on.stream, &fill), "filling lists");
}

kith_status kin_cascade_take_found(kin_cascade_run *run, const kin_cascade_found *found)
{
    giving g = {.run = run, .length = (int32_t)found->k};
    kith_status status = take_one(&g, found);
    if (status == KITH_OK) {
        status = kin_gpu_wait(run->on.ctx, run->on.gpu);
    }
    free_giving(&g);
    return status;
}

/* ---- Across ---------------------------------------------------------------------------------- */

/* The nearest that the screen found are offered as rounds offer. */
static kith_status offer_found(const kin_cascade_run *run, const kin_cascade_graph *found)
{
    uint64_t *updates = NULL;
    KIN_TRY(kin_gpu_alloc(run->on.ctx, run->on.gpu, &updates, 1, sizeof *updates, "counters"));
    const kin_cascade_merge job = {.graph = run->graph,
                                   .offers = found->words,
                                   .counted = run->graph.length,
                                   .updates = updates};
    kith_status status =
        kin_cascade_check(run, run->kernels->merge(run->on.stream, &job), "offering what is near");
    if (status == KITH_OK) {
        status = kin_gpu_wait(run->on.ctx, run->on.gpu);
    }
    kin_gpu_free(run->on.gpu, updates);
    return status;
}

static kith_status look_across(kin_cascade_run *run)
{
    kin_cascade_graph found = run->graph;
    found.length = KIN_CASCADE_SLOTS;
    found.words = NULL;
    kith_status status = kin_cascade_screen(run, &found);
    if (status == KITH_OK) {
        status = offer_found(run, &found);
    }
    kin_gpu_free(run->on.gpu, found.words);
    return status;
}

kith_status kin_cascade_take_given(kin_cascade_run *run)
{
    KIN_TRY(take_graphs(run));
    return kin_cascade_looks_across(run) ? look_across(run) : KITH_OK;
}
