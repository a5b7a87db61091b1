/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A tile of the corpus is of use to a query only if one of its balls is within the
 * query's reach (screen_balls.cu). Where rows lie in clusters that is one tile in some tens; where
 * they do not it is all of them, and looking would cost a tenth of a query. So a few rows of the
 * corpus are asked when it is made, and the balls are kept only if those need less than half of the
 * tiles. A corpus that grew keeps that verdict, and has its balls made by the first search that
 * wants them.
 *
 * Memory. Four rounded rows a tile of 128: a thirtieth of the set. While they are made, as many
 * centres in floats beside them.
 */
#include "screen/screen_balls_gpu.h"

enum {
    ASKED = 8, /* rows of the corpus, */
    ASKED_K = 10,
    MOST_SHARE = 2, /* which may need one tile in two */
    /* Queries that look at all columns take as long for each as an eighth of what bytes do that are
     * read once; looking at balls takes as long as reading so many of these, for each processor. */
    READ_ONCE = 8,
    LEAST_WORK = 1 << 18
};

/* ---- What stays ------------------------------------------------------------------------------ */

static void name_balls(kin_layout *layout, void *job)
{
    kin_screen_gpu_balls *b = job;
    const uint64_t n = (uint64_t)b->set.padded;
    b->rounded = kin_layout_array(layout, n, (uint64_t)b->set.frame.row_bytes);
    b->facts = kin_layout_array(layout, n, sizeof *b->facts);
    b->half = kin_layout_array(layout, n, sizeof *b->half);
    b->set.rounded = b->rounded;
    b->set.facts = b->facts;
    b->set.half = b->half;
}

static kin_screen_gpu_balls balls_of(const kin_screen_gpu_set *set)
{
    const int64_t points = KIN_SCREEN_GPU_BALLS * kin_ceil_div(set->points, KIN_SCREEN_GPU_TILE);
    kin_screen_gpu_balls balls = {.set = {.frame = set->frame,
                                          .points = points,
                                          .padded = kin_round_up(points, KIN_SCREEN_GPU_BLOCK)}};
    balls.set.frame.mean = NULL; /* centres are in the frame */
    balls.set.frame.scale = 1.0;
    kin_screen_gpu_balls shape = balls;
    balls.bytes = kin_gpu_layout_bytes(name_balls, &shape);
    return balls;
}

/* Centres are rounded like rows that have lost the radius before. */
static kith_status round_balls(const kin_screen_gpu_device *on, const kin_screen_gpu_set *set,
                               const kin_screen_gpu_balls *balls)
{
    const uint64_t n = (uint64_t)balls->set.points;
    const uint64_t cols = (uint64_t)set->frame.cols;
    kin_screen_gpu_split split = {.set = *set};
    KIN_HOLD(hold, on->ctx);
    KIN_GPU_NEW(&hold, on->gpu, split.centres, kin_size_mul(n, cols), "centres of balls");
    KIN_GPU_NEW(&hold, on->gpu, split.radii, n, "radii of balls");
    const kin_screen_gpu_round round = {.rows = {.data = split.centres,
                                                 .rows = balls->set.points,
                                                 .stride_bytes = (int64_t)(cols * sizeof(float)),
                                                 .cols = set->frame.cols,
                                                 .dtype = KITH_F32,
                                                 .metric = KITH_SQEUCLIDEAN},
                                        .frame = balls->set.frame,
                                        .off = split.radii,
                                        .off_stride = 1,
                                        .points = balls->set.points,
                                        .padded = balls->set.padded,
                                        .rounded = balls->rounded,
                                        .facts = balls->facts,
                                        .half = balls->half};
    KIN_TRY(KIN_SCREEN_LAUNCH(on, split, &split, "splitting tiles"));
    return KIN_SCREEN_LAUNCH(on, round, &round, "rounding balls");
}

static bool lacks_room(kith_status status)
{
    return status == KITH_E_DEVICE_MEMORY || status == KITH_E_MEMORY || status == KITH_E_LIMIT;
}

/* Where there is no room none are made: all tiles serve, too, and what balls lack others may have.
 */
static kith_status fill_balls(const kin_screen_gpu_device *on, const kin_screen_gpu_set *set,
                              kin_screen_gpu_balls *balls)
{
    const uint64_t budget = on->gpu->budget;
    kith_status status =
        kin_gpu_layout_make(on->ctx, on->gpu, name_balls, balls, "balls of tiles", &balls->block);
    KIN_THEN(status, round_balls(on, set, balls));
    if (status == KITH_OK) {
        atomic_store(&balls->state, KIN_SCREEN_GPU_BALLS_MADE);
        return KITH_OK;
    }
    kin_gpu_free(on->gpu, balls->block);
    balls->block = NULL;
    if (!lacks_room(status)) {
        return status;
    }
    kin_forgive(on->ctx);
    on->gpu->budget = budget;
    atomic_store(&balls->state, KIN_SCREEN_GPU_BALLS_REFUSED);
    return KITH_OK;
}

uint64_t kin_screen_gpu_balls_bytes(const kin_screen_gpu_balls *balls)
{
    return balls != NULL && atomic_load(&balls->state) == KIN_SCREEN_GPU_BALLS_MADE ? balls->bytes
                                                                                    : 0;
}

void kin_screen_gpu_balls_free(const kin_screen_gpu_device *on, kin_screen_gpu_balls *balls)
{
    if (balls != NULL) {
        kin_gpu_free(on->gpu, balls->block);
        kin_free(on->ctx, balls);
    }
}

/* ---- Which tiles ----------------------------------------------------------------------------- */

static bool do_they_serve(const kin_screen_gpu_balls *balls, const kin_gpu *gpu, int64_t queries,
                          int64_t k)
{
    const int64_t points = balls->set.points / KIN_SCREEN_GPU_BALLS * KIN_SCREEN_GPU_TILE;
    const int64_t processors = kin_max_i64(gpu->info.processors, 1);
    return k <= KIN_SCREEN_GPU_AIMED_K && (double)points * (double)(queries + READ_ONCE) >=
                                              (double)LEAST_WORK * (double)processors;
}

kith_status kin_screen_gpu_balls_take(const kin_screen_gpu_device *on, const kin_screen_gpu_set *of,
                                      kin_screen_gpu_balls *balls, int64_t queries, int64_t k,
                                      const kin_screen_gpu_balls **out)
{
    *out = NULL;
    if (balls == NULL || !do_they_serve(balls, on->gpu, queries, k)) {
        return KITH_OK;
    }
    /* The GPU is this thread's until it is left: nobody else makes them meanwhile. */
    if (atomic_load(&balls->state) == KIN_SCREEN_GPU_BALLS_WANTED) {
        KIN_TRY(fill_balls(on, of, balls));
    }
    *out = atomic_load(&balls->state) == KIN_SCREEN_GPU_BALLS_MADE ? balls : NULL;
    return KITH_OK;
}

void kin_screen_gpu_aimed_name(kin_layout *layout, const kin_screen_gpu_balls *balls,
                               kin_screen_gpu_aimed *aimed)
{
    const uint64_t blocks = (uint64_t)kin_ceil_div(aimed->rows, KIN_SCREEN_GPU_BLOCK);
    const uint64_t n = (uint64_t)aimed->rows;
    const uint64_t groups = (uint64_t)(balls->set.padded / KIN_SCREEN_GPU_TILE);
    aimed->columns = kin_layout_array(layout, blocks, sizeof *aimed->columns);
    aimed->tiles = kin_layout_array(layout, blocks * aimed->tiles_a_block, sizeof *aimed->tiles);
    aimed->units = kin_layout_array(layout, blocks * aimed->units_a_block, sizeof *aimed->units);
    aimed->minima = kin_layout_array(layout, kin_size_mul(n, groups), sizeof *aimed->minima);
}

kith_status
kin_screen_gpu_aimed_find(const kin_screen_gpu_device *on, const kin_screen_gpu_balls *balls,
                          const kin_screen_gpu_set *rows, const kin_screen_gpu_set *cols,
                          const kin_screen_gpu_lists *lists, kin_screen_gpu_aimed *aimed)
{
    const kin_screen_gpu_aim aim = {.rows = *rows,
                                    .cols = *cols,
                                    .balls = balls->set,
                                    .lists = *lists,
                                    .minima = aimed->minima};
    aimed->unit_count = &aimed->counters[1];
    const kin_screen_gpu_meet meet = {.rows = *rows,
                                      .balls = balls->set,
                                      .lists = *lists,
                                      .tiles = aimed->tiles,
                                      .tiles_a_block = aimed->tiles_a_block,
                                      .units_a_block = aimed->units_a_block,
                                      .units = aimed->units,
                                      .unit_count = aimed->unit_count,
                                      .arrived = &aimed->counters[0],
                                      .counts = &aimed->counters[2],
                                      .columns = aimed->columns,
                                      .met = aimed->met};
    KIN_TRY(KIN_SCREEN_LAUNCH(on, aim, &aim, "finding thresholds"));
    return KIN_SCREEN_LAUNCH(on, meet, &meet, "finding near tiles");
}

/* ---- Whether they tell anything -------------------------------------------------------------- */

/* Some rows of the corpus, and what they need of it. */
typedef struct trial {
    const kin_screen_gpu_balls *balls;
    kin_screen_gpu_chosen asked;
    kin_screen_gpu_lists lists;
    kin_screen_gpu_aimed aimed;
} trial;

static void name_trial(kin_layout *layout, void *job)
{
    trial *t = job;
    kin_screen_gpu_chosen_name(layout, &t->asked);
    kin_screen_gpu_lists_name(layout, &t->lists);
    t->aimed.counters = kin_layout_array(layout, (uint64_t)kin_screen_gpu_aimed_counters(ASKED),
                                         sizeof *t->aimed.counters);
    kin_screen_gpu_aimed_name(layout, t->balls, &t->aimed);
}

/* Tiles that any of them needs. */
static kith_status ask(const kin_screen_gpu_device *on, const kin_screen_gpu_ball_source *source,
                       trial *t, int64_t *tiles)
{
    uint32_t ids[ASKED];
    uint32_t columns = 0;
    for (int64_t i = 0; i < ASKED; i++) {
        ids[i] = (uint32_t)(source->rows->rows * (2 * i + 1) / (2 * ASKED));
    }
    KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, t->asked.ids, ids, sizeof ids));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, t->asked.worst, 0, 2 * sizeof *t->asked.worst));
    KIN_TRY(
        kin_gpu_fill(on->ctx, on->gpu, t->aimed.counters, 0,
                     (uint64_t)kin_screen_gpu_aimed_counters(ASKED) * sizeof *t->aimed.counters));
    KIN_TRY(kin_screen_gpu_chosen_round(on, source->rows, &t->asked));
    KIN_TRY(
        kin_screen_gpu_aimed_find(on, t->balls, &t->asked.set, &source->set, &t->lists, &t->aimed));
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, &columns, t->aimed.columns, sizeof columns));
    *tiles = columns / KIN_SCREEN_GPU_TILE;
    return KITH_OK;
}

static kith_status try_balls(const kin_screen_gpu_device *on,
                             const kin_screen_gpu_ball_source *source,
                             const kin_screen_gpu_balls *balls, bool *serve)
{
    const int64_t tiles = balls->set.points / KIN_SCREEN_GPU_BALLS;
    trial t = {.balls = balls,
               .asked = kin_screen_gpu_chosen_of(&source->set.frame, ASKED),
               .lists = {.rows = KIN_SCREEN_GPU_BLOCK, .k = ASKED_K, .capacity = ASKED_K + 1},
               .aimed = {.rows = ASKED, .tiles_a_block = (uint32_t)tiles, .units_a_block = 1}};
    int64_t needed = 0;
    KIN_HOLD(hold, on->ctx);
    KIN_TRY(kin_gpu_hold_layout(&hold, on->gpu, name_trial, &t, "a trial of balls"));
    KIN_TRY(ask(on, source, &t, &needed));
    *serve = needed * MOST_SHARE <= tiles;
    kin_log(on->ctx, 2, "%d rows need %lld of %lld tiles", ASKED, (long long)needed,
            (long long)tiles);
    return KITH_OK;
}

kith_status kin_screen_gpu_balls_make(const kin_screen_gpu_device *on,
                                      const kin_screen_gpu_ball_source *source,
                                      kin_screen_gpu_balls **out)
{
    const kin_screen_gpu_set *set = &source->set;
    kin_screen_gpu_balls *balls = NULL;
    const bool known = source->like != NULL;
    bool serve = known;
    *out = NULL;
    if (set->points < KIN_SCREEN_GPU_BALLS_LEAST || set->frame.type != KIN_SCREEN_GPU_S8 ||
        set->frame.bound != KIN_BOUND_DISTANCE ||
        set->frame.row_bytes > KIN_SCREEN_GPU_AIMED_BYTES || (source->grew && !known)) {
        return KITH_OK;
    }
    KIN_TRY(kin_alloc_zero(on->ctx, &balls, 1, sizeof *balls, "balls of tiles"));
    *balls = balls_of(set);
    kith_status status = known ? KITH_OK : fill_balls(on, set, balls);
    if (status == KITH_OK && kin_screen_gpu_balls_bytes(balls) > 0) {
        status = try_balls(on, source, balls, &serve);
    }
    if (status == KITH_OK && serve) {
        *out = balls;
        return KITH_OK;
    }
    kin_screen_gpu_balls_free(on, balls);
    if (lacks_room(status)) { /* for a trial */
        kin_forgive(on->ctx);
        return KITH_OK;
    }
    return status;
}
