/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A tile's near ones are a share of all tiles, by the distance of centres. Of some thousand
 * tiles all pairs are looked at. Their number grows with the square of the points, so that larger
 * sets are looked at from a distance first: consecutive tiles are a group, a group is a tile of a
 * coarser set, and what is near among groups says where near tiles are looked for. Groups are as
 * small as their pairs allow: what holds several clusters is near to nothing.
 *
 *      groups   . . o o O o . . . o .     the NEAR_GROUPS nearest of all groups
 *      tiles          oooOooo             the nearest tiles of those
 *
 * Cost, 10^8 points, 781,250 tiles: 2.4 * 10^9 pairs of groups and as many of tiles in place of
 * 3 * 10^11. On an H200 a graph of 40,000,000 points of 96 columns takes 7.0 s with recall 0.9990,
 * and 14.4 s with 1.0000 where all pairs of tiles are looked at; of 20,000,000 3.2 and 4.0 s; of
 * 10,000,000 the same time with fewer neighbours, so that all are looked at there. What the start
 * finds of 10,000,000 points of 10,000 clusters: 88 % with groups of 32 tiles, 93 % with 4.
 */
#include "cascade/cascade_run.h"

#include "base/base_try.h"
#include "fused/fused_stage.h"

enum {
    NEAR_GROUPS = 128,
    ROOM = 4 * NEAR_GROUPS, /* near to one of two, or the other way round */
    MOST_GROUPS = 65536,
    LEAST_TILES = 4,
    MOST_TILES = 16
};

static kith_status find_near(const kin_cascade_run *run, const kin_cascade_near *job)
{
    return kin_cascade_check(run, run->kernels->near_tiles(run->on.stream, job),
                             "finding near tiles");
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* Groups as the tiles of a set. */
typedef struct coarse_set {
    kin_fused_set set;
    int32_t tiles; /* of a group */
    float *centres;
    float *radii;
    kin_fused_worst *worst;
} coarse_set;

static void free_coarse(const kin_cascade_run *run, coarse_set *coarse)
{
    kin_gpu_free(run->on.gpu, coarse->worst);
    kin_gpu_free(run->on.gpu, coarse->radii);
    kin_gpu_free(run->on.gpu, coarse->centres);
}

/* Tiles of a group. */
static int32_t group_tiles(int64_t tiles)
{
    int32_t size = LEAST_TILES;
    while (size < MOST_TILES && size * (int64_t)MOST_GROUPS < tiles) {
        size *= 2;
    }
    return size;
}

static kith_status make_coarse(const kin_cascade_run *run, coarse_set *coarse)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const char *what = "groups of tiles";
    const kin_fused_set *set = &run->points.set;
    const int64_t all = kin_fused_tiles_of(set->points);
    coarse->tiles = group_tiles(all);
    const int64_t count = kin_ceil_div(all, coarse->tiles);
    coarse->set = (kin_fused_set){.frame = set->frame, .points = count * KIN_FUSED_TILE};
    coarse->set.padded = kin_round_up(coarse->set.points, KIN_FUSED_BLOCK);
    const uint64_t tiles = (uint64_t)(coarse->set.padded / KIN_FUSED_TILE);
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &coarse->centres, tiles,
                          (uint64_t)set->frame.cols * sizeof *coarse->centres, what));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &coarse->radii, tiles, sizeof *coarse->radii, what));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &coarse->worst, tiles, sizeof *coarse->worst, what));
    KIN_TRY(kin_gpu_fill(ctx, gpu, coarse->radii, 0, tiles * sizeof *coarse->radii));
    coarse->set.centres = coarse->centres;
    coarse->set.radii = coarse->radii;
    const kin_cascade_groups job = {
        .set = *set, .tiles = coarse->tiles, .centres = coarse->centres};
    KIN_TRY(kin_cascade_check(run, run->kernels->group_centres(run->on.stream, &job),
                              "centres of groups"));
    const kin_cascade_near near = {
        .set = coarse->set, .count = NEAR_GROUPS, .worst = coarse->worst};
    return find_near(run, &near);
}

static kith_status plan_groups(const kin_cascade_run *run, const coarse_set *coarse,
                               kin_cascade_nearness *nearness)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const uint64_t blocks = (uint64_t)(coarse->set.padded / KIN_FUSED_BLOCK);
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &nearness->groups, blocks, ROOM * sizeof *nearness->groups,
                          "near groups"));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &nearness->counts, blocks, sizeof *nearness->counts,
                          "near groups"));
    const kin_fused_plan plan = {.rows = coarse->set,
                                 .cols = coarse->set,
                                 .first = 0,
                                 .last = kin_fused_tiles_of(coarse->set.points),
                                 .row_worst = coarse->worst,
                                 .col_worst = coarse->worst,
                                 .tiles = nearness->groups,
                                 .tiles_a_block = ROOM,
                                 .counts = nearness->counts};
    KIN_TRY(kin_cascade_check(run, run->on.kernels->plan(run->on.stream, &plan),
                              "finding near groups"));
    nearness->coarse = (kin_fused_coarse){nearness->groups, nearness->counts, ROOM, coarse->tiles};
    return KITH_OK;
}

static kith_status find_groups(const kin_cascade_run *run, kin_cascade_nearness *nearness)
{
    coarse_set coarse = {0};
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, make_coarse(run, &coarse), done);
    KIN_TRY_GOTO(status, plan_groups(run, &coarse, nearness), done);
done:
    free_coarse(run, &coarse); /* in the order of the stream */
    return status;
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

void kin_cascade_nearness_free(const kin_cascade_run *run, kin_cascade_nearness *nearness)
{
    kin_gpu_free(run->on.gpu, nearness->counts);
    kin_gpu_free(run->on.gpu, nearness->groups);
    kin_gpu_free(run->on.gpu, nearness->radii);
    kin_gpu_free(run->on.gpu, nearness->worst);
    *nearness = (kin_cascade_nearness){0};
}

kith_status kin_cascade_nearness_make(const kin_cascade_run *run, kin_cascade_nearness *nearness)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const kin_fused_set *set = &run->points.set;
    const uint64_t tiles = (uint64_t)(set->padded / KIN_FUSED_TILE);
    const char *what = "how far near tiles are";
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &nearness->worst, tiles, sizeof *nearness->worst, what));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &nearness->radii, tiles, sizeof *nearness->radii, what));
    KIN_TRY(kin_gpu_fill(ctx, gpu, nearness->worst, 0, tiles * sizeof *nearness->worst));
    KIN_TRY(kin_gpu_fill(ctx, gpu, nearness->radii, 0, tiles * sizeof *nearness->radii));
    if (kin_fused_is_wide(set->points)) {
        KIN_TRY(find_groups(run, nearness));
    }
    const int64_t count =
        kin_max_i64(1, (int64_t)(run->near_share * (double)kin_fused_tiles_of(set->points)));
    const kin_cascade_near job = {
        .set = *set, .coarse = nearness->coarse, .count = count, .worst = nearness->worst};
    return find_near(run, &job);
}
