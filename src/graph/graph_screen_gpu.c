/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The exact engine's screen, cut short: seeds (a block's own surroundings), then stages that
 * meet near tiles alone (screen_stage_gpu.h: near). Rows of a tile stand by their reach then, as
 * those of the exact engine's runs do; rows of graphs that are made one have the reach that they
 * know already. Its lists become the graph, and empty places are filled by chance. Sets without
 * balls have their seeds alone.
 *
 * Memory. Lists with the room that the exact engine gives them, less where that does not fit; they
 * are gone before the rounds begin.
 */
#include "graph/graph_run_gpu.h"
/* Idea. A tile's near ones are a share of all tiles, by the distance of centres. Of some thousand
 * tiles all pairs are looked at. Their number grows with the square of the points, so that larger
 * sets are looked at from a distance first: consecutive tiles are a group, a group is a tile of a
 * coarser set, and what is near among groups says where near tiles are looked for. Groups are as
 * small as their pairs allow: what holds several clusters is near to nothing.
 *
 *      groups   . . o o O o . . . o .     the NEAR_GROUPS nearest of all groups
 *      tiles          oooOooo             the nearest tiles of those
 *
 * Cost, 10^8 points, 781,250 tiles: 4.8 * 10^9 pairs of groups and half as many of tiles in place
 * of 3 * 10^11. On an H200 a graph of 40,000,000 points of 96 columns takes 7.0 s with recall
 * 0.9990, and 14.4 s with 1.0000 where all pairs of tiles are looked at; of 20,000,000 3.2 and 4.0
 * s; of 10,000,000 the same time with fewer neighbours, so that all are looked at there. What the
 * start finds of 10,000,000 points of 10,000 clusters: 88 % with groups of 32 tiles, 93 % with 4.
 */

enum {
    NEAR_GROUPS = 128,
    ROOM = 4 * NEAR_GROUPS, /* near to one of two, or the other way round */
    MOST_GROUPS = 131072,
    LEAST_TILES = 4,
    MOST_TILES = 16
};

/* Of a team each member sees to some of the tiles. */
static kith_status find_near(const kin_graph_gpu_run *run, const kin_graph_gpu_near *all)
{
    kin_gpu *gpu = run->on.gpu;
    kin_graph_gpu_near job = *all;
    int64_t firsts[KIN_GPU_TEAM_MOST + 1];
    kin_gpu_divide(job.set.padded / KIN_SCREEN_GPU_TILE, KIN_GRAPH_GPU_NEAR_TILES,
                   kin_gpu_parts(gpu), firsts);
    job.first = firsts[kin_gpu_part(gpu)];
    job.end = firsts[kin_gpu_part(gpu) + 1];
    KIN_TRY(KIN_ROOM_LAUNCH(run, near_tiles, &job, "finding near tiles"));
    return kin_gpu_gather(run->on.ctx, gpu, job.worst, sizeof *job.worst, firsts);
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* Groups as the tiles of a set. */
typedef struct coarse_set {
    kin_screen_gpu_set set;
    int32_t tiles; /* of a group */
    float *centres;
    float *radii;
    kin_screen_gpu_worst *worst;
} coarse_set;

/* Tiles of a group. */
static int32_t group_tiles(int64_t tiles)
{
    int32_t size = LEAST_TILES;
    while (size < MOST_TILES && size * (int64_t)MOST_GROUPS < tiles) {
        size *= 2;
    }
    return size;
}

static kith_status make_coarse(const kin_graph_gpu_run *run, kin_hold *hold, coarse_set *coarse)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const char *what = "groups of tiles";
    const kin_screen_gpu_set *set = &run->points.set;
    const int64_t all = kin_screen_gpu_tiles_of(set->points);
    coarse->tiles = group_tiles(all);
    const int64_t count = kin_ceil_div(all, coarse->tiles);
    coarse->set = (kin_screen_gpu_set){.frame = set->frame, .points = count * KIN_SCREEN_GPU_TILE};
    coarse->set.padded = kin_round_up(coarse->set.points, KIN_SCREEN_GPU_BLOCK);
    const uint64_t tiles = (uint64_t)(coarse->set.padded / KIN_SCREEN_GPU_TILE);
    KIN_GPU_NEW(hold, gpu, coarse->centres, kin_size_mul(tiles, (uint64_t)set->frame.cols), what);
    KIN_GPU_NEW(hold, gpu, coarse->radii, tiles, what);
    KIN_GPU_NEW(hold, gpu, coarse->worst, tiles, what);
    KIN_TRY(kin_gpu_fill(ctx, gpu, coarse->radii, 0, tiles * sizeof *coarse->radii));
    coarse->set.centres = coarse->centres;
    coarse->set.radii = coarse->radii;
    const kin_graph_gpu_groups job = {
        .set = *set, .tiles = coarse->tiles, .centres = coarse->centres};
    KIN_TRY(KIN_ROOM_LAUNCH(run, group_centres, &job, "centres of groups"));
    const kin_graph_gpu_near near = {
        .set = coarse->set, .count = NEAR_GROUPS, .worst = coarse->worst};
    return find_near(run, &near);
}

static kith_status plan_groups(const kin_graph_gpu_run *run, const coarse_set *coarse,
                               kin_graph_gpu_nearness *nearness)
{
    kin_gpu *gpu = run->on.gpu;
    const uint64_t blocks = (uint64_t)(coarse->set.padded / KIN_SCREEN_GPU_BLOCK);
    KIN_GPU_NEW(&nearness->hold, gpu, nearness->groups, blocks * ROOM, "near groups");
    KIN_GPU_NEW(&nearness->hold, gpu, nearness->counts, blocks, "near groups");
    const kin_screen_gpu_plan plan = {.rows = coarse->set,
                                      .cols = coarse->set,
                                      .first = 0,
                                      .last = kin_screen_gpu_tiles_of(coarse->set.points),
                                      .row_worst = coarse->worst,
                                      .col_worst = coarse->worst,
                                      .tiles = nearness->groups,
                                      .tiles_a_block = ROOM,
                                      .counts = nearness->counts};
    KIN_TRY(KIN_SCREEN_LAUNCH(&run->on, plan, &plan, "finding near groups"));
    nearness->coarse =
        (kin_screen_gpu_coarse){nearness->groups, nearness->counts, ROOM, coarse->tiles};
    return KITH_OK;
}

static kith_status find_groups(const kin_graph_gpu_run *run, kin_graph_gpu_nearness *nearness)
{
    coarse_set coarse = {0};
    KIN_HOLD(hold, run->on.ctx); /* given back in the order of the stream */
    KIN_TRY(make_coarse(run, &hold, &coarse));
    return plan_groups(run, &coarse, nearness);
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

static kith_status make_nearness(const kin_graph_gpu_run *run, kin_graph_gpu_nearness *nearness)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const kin_screen_gpu_set *set = &run->points.set;
    const uint64_t tiles = (uint64_t)(set->padded / KIN_SCREEN_GPU_TILE);
    const char *what = "how far near tiles are";
    KIN_GPU_NEW(&nearness->hold, gpu, nearness->worst, tiles, what);
    KIN_GPU_NEW(&nearness->hold, gpu, nearness->radii, tiles, what);
    KIN_TRY(kin_gpu_fill(ctx, gpu, nearness->worst, 0, tiles * sizeof *nearness->worst));
    KIN_TRY(kin_gpu_fill(ctx, gpu, nearness->radii, 0, tiles * sizeof *nearness->radii));
    if (kin_screen_gpu_is_wide(set->points)) {
        KIN_TRY(find_groups(run, nearness));
    }
    const int64_t count =
        kin_max_i64(1, (int64_t)(run->near_share * (double)kin_screen_gpu_tiles_of(set->points)));
    const kin_graph_gpu_near job = {
        .set = *set, .coarse = nearness->coarse, .count = count, .worst = nearness->worst};
    return find_near(run, &job);
}

static kith_status make_graph(const kin_graph_gpu_run *run, kin_graph_gpu_lists *graph)
{
    const uint64_t cells = kin_size_mul((uint64_t)run->count, (uint64_t)graph->length);
    return kin_gpu_alloc(run->on.ctx, run->on.gpu, &graph->words, cells, sizeof *graph->words,
                         "the graph");
}

kith_status kin_graph_gpu_make_empty(const kin_graph_gpu_run *run, kin_graph_gpu_lists *graph)
{
    KIN_TRY(make_graph(run, graph));
    const uint64_t words = (uint64_t)run->count * (uint64_t)graph->length;
    return kin_gpu_fill(run->on.ctx, run->on.gpu, graph->words, 0xff, words * sizeof *graph->words);
}

kith_status kin_graph_gpu_fill_up(const kin_graph_gpu_run *run, kin_graph_gpu_fill job)
{
    job.points = run->points;
    job.graph = run->graph;
    job.seed = run->request->seed;
    return KIN_ROOM_LAUNCH(run, fill, &job, "filling lists");
}

/* ---- What graphs know that are made one ------------------------------------------------------ */

bool kin_graph_gpu_looks_across(const kin_graph_gpu_run *run)
{
    return run->request->split > 0 && run->screened && run->request->by_chance == 0;
}

bool kin_graph_gpu_knows_reach(const kin_graph_gpu_run *run)
{
    return kin_graph_gpu_looks_across(run) && run->points.set.centres != NULL;
}

/* What is farther than the k-th entry of a list is not among the k of the union. Entries serve as
 * reach and go: the screen meets those that are near once more, and of what it finds no two may be
 * one. */
static kith_status take_reach(const kin_graph_gpu_run *run, kin_screen_gpu_work *work)
{
    if (!kin_graph_gpu_knows_reach(run) || run->graph.length > work->lists.capacity) {
        return KITH_OK;
    }
    const kin_screen_gpu_device *on = &run->on;
    kin_screen_gpu_lists known = work->lists;
    known.k = (int32_t)run->wanted;
    const kin_graph_gpu_hand hand = {.graph = run->graph, .lists = known};
    const int64_t first = run->graph.first;
    const int64_t own = kin_graph_gpu_behind(&run->graph) - first;
    const kin_screen_gpu_tighten reach = {.set = kin_screen_gpu_set_part(&work->rows, first, own),
                                          .cols_set = work->cols,
                                          .lists = kin_screen_gpu_lists_part(&known, first, own)};
    KIN_TRY(KIN_ROOM_LAUNCH(run, hand, &hand, "handing lists over"));
    KIN_TRY(KIN_SCREEN_LAUNCH(&run->on, tighten, &reach, "finding thresholds"));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, known.counts, 0,
                         (uint64_t)known.rows * sizeof *known.counts));
    KIN_TRY(kin_screen_gpu_share_reach(on, &work->share, &known));
    return kin_screen_gpu_work_reached(work);
}

/* ---- The screen ------------------------------------------------------------------------------ */

static kith_status run_screen(kin_graph_gpu_run *run, kin_screen_gpu_work *work,
                              kin_graph_gpu_nearness *near)
{
    if (!kin_screen_gpu_work_has_stages(work) || work->rows.centres == NULL) {
        return kin_screen_gpu_work_seed(work);
    }
    if (!kin_graph_gpu_knows_reach(run)) {
        KIN_TRY(kin_exact_gpu_runs_arrange(work, &run->corpus->prepared, KIN_SCREEN_GPU_TILE));
        run->points.set = work->rows;
    }
    KIN_TRY(make_nearness(run, near));
    work->near = near->worst;
    work->points_radii = near->radii;
    work->near_share = run->near_share;
    work->coarse = near->coarse;
    KIN_TRY(take_reach(run, work));
    return kin_screen_gpu_work_run(work);
}

static kith_status adopt(const kin_graph_gpu_run *run, const kin_screen_gpu_work *work,
                         const kin_graph_gpu_lists *graph)
{
    const kin_graph_gpu_adopt job = {
        .lists = work->lists, .type = work->rows.frame.type, .graph = *graph};
    return KIN_ROOM_LAUNCH(run, adopt, &job, "lists of the start");
}

kith_status kin_graph_gpu_screen(kin_graph_gpu_run *run, kin_graph_gpu_lists *graph)
{
    const int64_t k = kin_min_i64(kin_graph_gpu_start_k(run->request), run->count);
    kin_screen_gpu_work work = {.on = run->on,
                                .rows = run->points.set,
                                .cols = run->points.set,
                                .graph = true,
                                .cut_short = true,
                                .shared = run->share.parts > 0,
                                .col_worst = run->corpus->worst};
    kin_graph_gpu_nearness near = {.hold = {.ctx = run->on.ctx}};
    kin_screen_gpu_tally tally = {0};
    double met = 0.0;
    uint64_t scope = 0;
    KIN_TRY(kin_gpu_agree(run->on.gpu, kin_gpu_scope(run->on.gpu), &scope));
    KIN_TRY(kin_screen_gpu_work_make(&work, k, kin_graph_gpu_capacity(run->count, k, scope)));
    kith_status status = run_screen(run, &work, &near);
    KIN_THEN(status,
             run->share.parts > 0 ? kin_graph_gpu_make_empty(run, graph) : make_graph(run, graph));
    KIN_THEN(status, adopt(run, &work, graph));
    KIN_THEN(status, kin_screen_gpu_work_tally(&work, &tally));
    KIN_THEN(status, kin_gpu_add_up(run->on.gpu, tally.pairs - tally.skipped, &met));
    run->evaluations += met * (double)(KIN_SCREEN_GPU_BLOCK * KIN_SCREEN_GPU_TILE);
    kin_hold_end(&near.hold);
    kin_screen_gpu_work_free(&work);
    return status;
}
