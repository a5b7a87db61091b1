/* SPDX-License-Identifier: Apache-2.0
 *
 * What a descent begins with: what the screen finds near (graph_screen_gpu.c); of inner products,
 * and of metrics that have no screen, what is near under a relative (graph_relative_gpu.c); of
 * metrics that have none, and for who asks for it, lists that are drawn by chance; graphs that are
 * given come first into their lists (graph_start_gpu.c). What runs out of memory is begun again in
 * a narrower scope.
 */
#include "graph/graph_run_gpu.h"
#include "host/host_threads.h"

/* Idea. One graph that is given comes into empty lists, all of it NEW. Of two graphs that are made
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
 * What was found of a relative (graph_relative_gpu.c) comes likewise, all of it compared, the
 * nearest kept, NEW.
 *
 * Memory. 4 bytes an id of the graphs twice, 4 a row, and 8 x 32 a position for what the screen
 * found; all is gone before the rounds begin. */

enum { GRAPHS = 2, BATCH = 1 << 16 /* lists that the host looks at at a time */ };

typedef struct giving {
    kin_graph_gpu_run *run;
    kin_hold *hold;
    int32_t length;              /* entries of a list that are taken */
    uint32_t *places;            /* device: row -> position */
    uint32_t *twins;             /* device: position -> first row behind the split, of groups with
                                    rows on both sides; NULL: there are none */
    const uint32_t *ids[GRAPHS]; /* device */
    uint32_t *given;             /* device: count x length */
} giving;

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
typedef struct standing {
    const kin_graph_gpu_run *run;
    uint32_t *ids; /* then twins, then places: UINT32_MAX */
    uint32_t *twins;
    uint32_t *places;
} standing;

static kith_status stand_in_groups(void *arg, int64_t p, int32_t thread)
{
    const standing *s = arg;
    const uint32_t *ids = s->ids;
    uint32_t *twins = s->twins;
    const int64_t split = s->run->request->split;
    (void)thread;
    const bool below = (int64_t)ids[p] < split;
    twins[p] = UINT32_MAX;
    for (uint32_t row = ids[p]; row != KITH_ID_NONE; row = kin_groups_next(s->run->groups, row)) {
        s->places[row] = (uint32_t)p;
        if (below && (int64_t)row >= split && twins[p] == UINT32_MAX) {
            twins[p] = row;
        }
    }
    return KITH_OK;
}

static kith_status place_groups(giving *g)
{
    const kin_graph_gpu_run *run = g->run;
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const uint64_t rows = (uint64_t)run->rows;
    const uint64_t count = (uint64_t)run->count;
    standing s = {.run = run};
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, s.ids, kin_size_add(2 * count, rows), "places of rows");
    s.twins = s.ids + count;
    s.places = s.twins + count;
    memset(s.places, 0xff, rows * sizeof *s.places);
    KIN_TRY(kin_gpu_download(ctx, gpu, s.ids, run->points.set.ids, count * sizeof *s.ids));
    KIN_TRY(kin_parallel_rows(ctx, NULL, run->count, BATCH, stand_in_groups, &s));
    KIN_TRY(kin_gpu_upload(ctx, gpu, g->places, s.places, rows * sizeof *s.places));
    if (run->groups->next == NULL || graphs_of(g) < GRAPHS) {
        return KITH_OK;
    }
    KIN_GPU_NEW(g->hold, gpu, g->twins, count, "places");
    return kin_gpu_upload(ctx, gpu, g->twins, s.twins, count * sizeof *s.twins);
}

static kith_status place(giving *g)
{
    const kin_graph_gpu_run *run = g->run;
    KIN_GPU_NEW(g->hold, run->on.gpu, g->places, (uint64_t)run->rows, "places of rows");
    if (!kin_graph_gpu_is_plain(run->groups)) {
        return place_groups(g);
    }
    const kin_graph_gpu_place job = {
        .points = run->count, .ids = run->points.set.ids, .places = g->places};
    return KIN_ROOM_LAUNCH(run, place, &job, "placing rows");
}

kith_status kin_graph_gpu_place_rows(kin_graph_gpu_run *run, kin_hold *hold, uint32_t **places)
{
    giving g = {.run = run, .hold = hold};
    KIN_TRY(place(&g));
    *places = g.places;
    return KITH_OK;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static kith_status bring_ids(giving *g, int which)
{
    const kin_graph_gpu_run *run = g->run;
    const kith_neighbors *graph = graph_of(g, which);
    g->ids[which] = graph->ids;
    if ((run->request->place & KIN_GPU_DATA_ON_DEVICE) != 0) {
        return KITH_OK;
    }
    const int64_t bytes = graph->k * (int64_t)sizeof *graph->ids;
    const kin_gpu_rows rows = {graph->ids, graph->rows, bytes, bytes};
    void *copy = NULL;
    const kith_status status = kin_gpu_bring(run->on.ctx, run->on.gpu, &rows, &copy);
    kin_gpu_hold_take(g->hold, run->on.gpu, copy);
    g->ids[which] = copy;
    return status;
}

/* Lists of the job's rows as positions. */
static kith_status give(const giving *g, kin_graph_gpu_give job)
{
    const kin_graph_gpu_run *run = g->run;
    job.points = run->count;
    job.length = g->length;
    job.given = g->given;
    return KIN_ROOM_LAUNCH(run, give, &job, "reading a graph");
}

/* The same of the rows `ids` of graph `which`. */
static kith_status give_graph(const giving *g, int which, const uint32_t *ids)
{
    const kith_neighbors *graph = graph_of(g, which);
    return give(g, (kin_graph_gpu_give){.ids = ids,
                                        .places = g->places,
                                        .graph = g->ids[which],
                                        .first = which == 0 ? 0 : g->run->request->split,
                                        .rows = graph->rows,
                                        .k = graph->k});
}

static kith_status fill(const giving *g, bool alone, bool known)
{
    return kin_graph_gpu_fill_up(g->run, (kin_graph_gpu_fill){.wanted = g->run->graph.length,
                                                              .given = g->given,
                                                              .given_length = g->length,
                                                              .given_alone = alone,
                                                              .known = known});
}

static kith_status take(giving *g)
{
    const kin_graph_gpu_run *run = g->run;
    const bool known = run->request->split > 0;
    const uint64_t cells = kin_size_mul((uint64_t)run->count, (uint64_t)g->length);
    KIN_TRY(place(g));
    KIN_GPU_NEW(g->hold, run->on.gpu, g->given, cells, "the graph to begin with");
    for (int which = 0; which < graphs_of(g); which++) {
        KIN_TRY(bring_ids(g, which));
        KIN_TRY(give_graph(g, which, run->points.set.ids));
    }
    KIN_TRY(fill(g, known, known));
    if (g->twins == NULL) {
        return KITH_OK;
    }
    KIN_TRY(kin_gpu_fill(run->on.ctx, run->on.gpu, g->given, 0xff, cells * sizeof *g->given));
    KIN_TRY(give_graph(g, 1, g->twins));
    return fill(g, known, known);
}

static kith_status take_graphs(kin_graph_gpu_run *run)
{
    KIN_HOLD(hold, run->on.ctx);
    giving g = {.run = run, .hold = &hold};
    int64_t longest = 1;
    for (int which = 0; which < graphs_of(&g); which++) {
        longest = kin_max_i64(longest, graph_of(&g, which)->k);
    }
    g.length = (int32_t)kin_min_i64(longest, run->graph.length);
    KIN_TRY(take(&g));
    return kin_gpu_wait(run->on.ctx, run->on.gpu); /* what is freed is read until then */
}

/* ---- Found ----------------------------------------------------------------------------------- */

/* The position of each number that ids count; with rows themselves all places are known. */
static kith_status place_found(giving *g, const kin_graph_gpu_found *found, uint32_t **places)
{
    const kin_graph_gpu_run *run = g->run;
    const uint64_t count = (uint64_t)found->of_count;
    KIN_TRY(place(g));
    *places = g->places;
    if (found->of == NULL) {
        return KITH_OK;
    }
    KIN_GPU_NEW(g->hold, run->on.gpu, *places, count, "places of rows");
    const kin_graph_gpu_pick job = {.from = g->places,
                                    .stride_bytes = sizeof *g->places,
                                    .bytes = sizeof *g->places,
                                    .rows = found->of,
                                    .count = found->of_count,
                                    .to = *places};
    return KIN_ROOM_LAUNCH(run, pick, &job, "placing rows");
}

static kith_status take_one(giving *g, const kin_graph_gpu_found *found)
{
    const kin_graph_gpu_run *run = g->run;
    const uint64_t cells = kin_size_mul((uint64_t)run->count, (uint64_t)g->length);
    uint32_t *places = NULL;
    KIN_TRY(place_found(g, found, &places));
    KIN_GPU_NEW(g->hold, run->on.gpu, g->given, cells, "what was found");
    KIN_TRY(give(g, (kin_graph_gpu_give){.ids = run->points.set.ids,
                                         .places = places,
                                         .graph = found->ids,
                                         .rows = run->rows,
                                         .k = found->k}));
    return fill(g, true, false);
}

static kith_status take_found(kin_graph_gpu_run *run, const kin_graph_gpu_found *found)
{
    KIN_HOLD(hold, run->on.ctx);
    giving g = {.run = run, .hold = &hold, .length = (int32_t)found->k};
    KIN_TRY(take_one(&g, found));
    return kin_gpu_wait(run->on.ctx, run->on.gpu);
}

/* ---- Across ---------------------------------------------------------------------------------- */

/* The nearest that the screen found are offered as rounds offer. */
static kith_status offer_found(const kin_graph_gpu_run *run, const kin_graph_gpu_lists *found)
{
    uint64_t *updates = NULL;
    KIN_HOLD(hold, run->on.ctx);
    KIN_GPU_NEW(&hold, run->on.gpu, updates, 1, "counters");
    const kin_graph_gpu_merge job = {.graph = run->graph,
                                     .offers = found->words,
                                     .counted = run->graph.length,
                                     .updates = updates};
    KIN_TRY(KIN_ROOM_LAUNCH(run, merge, &job, "offering what is near"));
    return kin_gpu_wait(run->on.ctx, run->on.gpu);
}

static kith_status look_across(kin_graph_gpu_run *run)
{
    kin_graph_gpu_lists found = run->graph;
    found.length = KIN_GRAPH_GPU_SLOTS;
    found.words = NULL;
    kith_status status = kin_graph_gpu_screen(run, &found);
    KIN_THEN(status, offer_found(run, &found));
    kin_gpu_free(run->on.gpu, found.words);
    return status;
}

static kith_status take_given(kin_graph_gpu_run *run)
{
    KIN_TRY(take_graphs(run));
    return kin_graph_gpu_looks_across(run) ? look_across(run) : KITH_OK;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static kith_status take_relatives(kin_graph_gpu_run *run, const kin_graph_gpu_relatives *relatives)
{
    const kin_graph_gpu_found *found[] = {&relatives->near, &relatives->among};
    run->evaluations += relatives->evaluations;
    for (int i = 0; i < 2; i++) {
        if (found[i]->ids != NULL) {
            run->evaluations += (double)run->count * (double)found[i]->k;
            KIN_TRY(take_found(run, found[i]));
        }
    }
    return KITH_OK;
}

static kith_status begin(kin_graph_gpu_run *run, kin_graph_start start,
                         const kin_graph_gpu_relatives *relatives)
{
    run->evaluations = 0.0;
    if (relatives->near.ids != NULL) {
        KIN_TRY(kin_graph_gpu_make_empty(run, &run->graph));
        KIN_TRY(take_relatives(run, relatives));
    } else if (start == KIN_GRAPH_START_SCREEN) {
        KIN_TRY(kin_graph_gpu_screen(run, &run->graph));
    } else {
        run->evaluations = (double)run->count * (double)run->graph.length;
        KIN_TRY(kin_graph_gpu_make_empty(run, &run->graph));
        if (start == KIN_GRAPH_START_GRAPH) {
            KIN_TRY(take_given(run));
            KIN_TRY(take_relatives(run, relatives));
        }
    }
    const int64_t few = kin_min_i64(kin_graph_gpu_start_k(run->request), run->graph.length);
    const int32_t wanted = kin_graph_gpu_knows_reach(run) ? (int32_t)few : run->graph.length;
    KIN_TRY(run->request->ggm != 0
                ? KITH_OK
                : kin_graph_gpu_fill_up(run, (kin_graph_gpu_fill){.wanted = wanted}));
    return kin_gpu_wait(run->on.ctx, run->on.gpu);
}

kith_status kin_graph_gpu_begin(kin_graph_gpu_run *run, kin_graph_start start,
                                const kin_graph_gpu_relatives *relatives)
{
    kith_status status = KITH_OK;
    do {
        status = begin(run, start, relatives);
        if (status != KITH_OK) {
            kin_gpu_free(run->on.gpu, run->graph.words);
            run->graph.words = NULL;
        }
    } while (kin_exact_gpu_again(run->on.ctx, run->on.gpu, status));
    return status;
}

/* Idea. Halves have 11 bits for all of a point's distance to the mean. Where clusters are small
 * beside the distances between them (two far blobs), all points of one round to nearly the same
 * row, and costs of rounded rows are noise: the exact engine's bounds say so, but rounds have none.
 * So the lists of the start are looked at: if the wanted neighbours of many points are no farther
 * than a few times what rounding moved them, rounds compare rows as they are given, by canonical
 * keys.
 *
 * Costs of both kinds never stand in one list: the graph is filled anew. Half of each list is what
 * was there, the rest is drawn by chance: where all costs of a start are equal the lists of a block
 * are equal, too, and rounds would learn nothing from them.
 *
 * Whole numbers are exact. Products have no distance that rounding could be compared with.
 *
 * Memory. Half a graph of positions while it is filled, before rounds take theirs. */

enum {
    PLACES = 64,     /* that are looked at, evenly spread, each with */
    NEIGHBOURS = 16, /* lists side by side: few copies */
    SAMPLED = PLACES * NEIGHBOURS
};
static const double MOST_COARSE = 0.25; /* share of the lists */

/* ---- Looking --------------------------------------------------------------------------------- */

static double cost_of_order(kin_screen_gpu_type type, uint32_t order)
{
    if (type == KIN_SCREEN_GPU_S8) {
        return (double)(int32_t)(order ^ 0x80000000u);
    }
    const uint32_t bits = (order >> 31) != 0 ? order & 0x7fffffffu : ~order;
    float cost;
    memcpy(&cost, &bits, sizeof cost);
    return (double)cost;
}

static bool is_blurred(const kin_screen_gpu_frame *frame, uint64_t word,
                       const kin_screen_gpu_facts *facts)
{
    return word != KIN_GRAPH_EMPTY &&
           kin_graph_gpu_blurs(frame, facts, cost_of_order(frame->type, (uint32_t)(word >> 32)));
}

static kith_status count_blurred(const kin_graph_gpu_run *run, uint64_t *words,
                                 kin_screen_gpu_facts *facts, int64_t *blurred)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const kin_screen_gpu_set *set = &run->points.set;
    const int64_t length = run->graph.length;
    const int64_t last = kin_min_i64(run->wanted, length) - 1;
    *blurred = 0;
    for (int64_t place = 0; place < PLACES; place++) {
        const int64_t first = place * (run->count - NEIGHBOURS) / (PLACES - 1);
        KIN_TRY(kin_gpu_download(ctx, gpu, words, run->graph.words + first * length,
                                 (uint64_t)(NEIGHBOURS * length) * sizeof *words));
        KIN_TRY(kin_gpu_download(ctx, gpu, facts, set->facts + first, NEIGHBOURS * sizeof *facts));
        for (int64_t i = 0; i < NEIGHBOURS; i++) {
            *blurred += is_blurred(&set->frame, words[i * length + last], &facts[i]);
        }
    }
    return KITH_OK;
}

static kith_status look(const kin_graph_gpu_run *run, bool *coarse)
{
    kith_ctx *ctx = run->on.ctx;
    uint64_t *words = NULL;
    kin_screen_gpu_facts facts[NEIGHBOURS];
    int64_t blurred = 0;
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, words, (uint64_t)NEIGHBOURS * (uint64_t)run->graph.length,
            "lists that are looked at");
    double all = 0.0;
    kith_status status = count_blurred(run, words, facts, &blurred);
    KIN_THEN(status, kin_gpu_add_up(run->on.gpu, (double)blurred, &all));
    *coarse = all > MOST_COARSE * SAMPLED;
    return status;
}

/* ---- Filling anew ---------------------------------------------------------------------------- */

/* What is copied by way of the host. */
typedef struct copying {
    uint64_t *words;     /* BATCH lists */
    uint32_t *positions; /* the first `kept` of each */
    uint32_t *given;     /* device: all of them */
    int64_t kept;
} copying;

static kith_status copy_positions(const kin_graph_gpu_run *run, const copying *c)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const int64_t length = run->graph.length;
    const int64_t end = kin_graph_gpu_behind(&run->graph);
    for (int64_t first = run->graph.first; first < end; first += BATCH) {
        const int64_t lists = kin_min_i64(BATCH, end - first);
        KIN_TRY(kin_gpu_download(ctx, gpu, c->words, run->graph.words + first * length,
                                 (uint64_t)(lists * length) * sizeof *c->words));
        for (int64_t i = 0; i < lists * c->kept; i++) {
            const uint64_t word = c->words[i / c->kept * length + i % c->kept];
            c->positions[i] = word == KIN_GRAPH_EMPTY ? UINT32_MAX : kin_graph_position(word);
        }
        KIN_TRY(kin_gpu_upload(ctx, gpu, c->given + first * c->kept, c->positions,
                               (uint64_t)(lists * c->kept) * sizeof *c->positions));
    }
    return KITH_OK;
}

static kith_status make_copying(const kin_graph_gpu_run *run, kin_hold *hold, copying *c)
{
    const uint64_t lists = (uint64_t)kin_min_i64(BATCH, run->count);
    const char *what = "positions of the start";
    c->kept = kin_max_i64(1, run->graph.length / 2);
    const uint64_t kept = (uint64_t)c->kept;
    KIN_NEW(hold, c->words, lists * (uint64_t)run->graph.length, what);
    KIN_NEW(hold, c->positions, lists * kept, what);
    KIN_GPU_NEW(hold, run->on.gpu, c->given, kin_size_mul((uint64_t)run->count, kept), what);
    return KITH_OK;
}

/* Two graphs whose lists are still to be cut: both anew. */
static kith_status begin_anew(kin_graph_gpu_run *run)
{
    const kin_graph_gpu_relatives none = {0};
    run->points.set.rounded = NULL;
    kin_gpu_free(run->on.gpu, run->graph.words);
    run->graph.words = NULL;
    return kin_graph_gpu_begin(run, KIN_GRAPH_START_GRAPH, &none);
}

static kith_status fill_anew(kin_graph_gpu_run *run)
{
    copying c = {0};
    KIN_HOLD(hold, run->on.ctx);
    const uint64_t words = (uint64_t)run->count * (uint64_t)run->graph.length;
    KIN_TRY(make_copying(run, &hold, &c));
    KIN_TRY(copy_positions(run, &c));
    run->points.set.rounded = NULL;
    KIN_TRY(kin_gpu_fill(run->on.ctx, run->on.gpu, run->graph.words, 0xff,
                         words * sizeof *run->graph.words));
    KIN_TRY(kin_graph_gpu_fill_up(run, (kin_graph_gpu_fill){.wanted = run->graph.length,
                                                            .given = c.given,
                                                            .given_length = (int32_t)c.kept}));
    run->evaluations += (double)words;
    return kin_gpu_wait(run->on.ctx, run->on.gpu);
}

kith_status kin_graph_gpu_refine(kin_graph_gpu_run *run)
{
    const kin_screen_gpu_set *set = &run->points.set;
    bool coarse = false;
    if (set->rounded == NULL || set->frame.bound != KIN_BOUND_DISTANCE || run->count < NEIGHBOURS) {
        return KITH_OK;
    }
    KIN_TRY(look(run, &coarse));
    if (!coarse) {
        return KITH_OK;
    }
    return run->request->ggm != 0 ? begin_anew(run) : fill_anew(run);
}
