/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Thresholds come before volume. A seed, some thousand columns a row whose costs, or
 * the least of each few where lists are not filled, are written out, gives every row a first reach;
 * then stages of doubling size are screened with what the last one proved, so that of the m-th
 * column only about k/m pass: k ln(n / seed) candidates a row in all.
 *
 *      graph    seed: own block and neighbours | as many offsets | twice as many | ... all,
 *               each stage's from both ends of what is left to half the circle
 *      search   seed: a spread sample of tiles | twice as many | six times | ... all tiles
 *               of many queries in the corpus' order: tiles near to a block's own, for reach alone
 *               where rows lie in clusters: the tiles that each block can reach (screen_near_gpu.c)
 *      both     seeds of both directions, for reach alone; then stages of all tiles as in a search,
 *               each group of blocks at another place of the sequence, so that in a stage a column,
 *               too, meets its share of the rows
 *
 * Tiles hold near points: a spread sample misses the cluster of most queries, whose lists then
 * overflow when its tiles come. So queries are put into the order of the corpus' cells wherever
 * that pays.
 *
 *      a stage  plan (tiles that balls cannot skip -> units) -> screen (-> lists) -> tighten
 *
 * Where near tiles alone are wanted of many, groups of them are known beforehand, and a stage takes
 * some of each block's groups in place of offsets.
 *
 * Launches do not wait for each other on the host; it keeps two stages ahead of the device, and
 * asks the caller's progress function while it waits.
 *
 * Memory. Lists, the matrix of a batch of rows' seeds, tiles and units of a plan: each is bounded
 * by a constant but for the lists (screen_work_gpu.c). Where a stretch needs more tiles than fit, a
 * stage is taken in pieces, which costs a tightening more each.
 */
#include "screen/screen_stage_gpu.h"

#include "screen/screen_schedule.h"

#include <math.h>
#include <stddef.h>

/* Parts of a seed's tiles, at least, whose least costs may tell its reach. */
enum { PARTS_A_NEIGHBOUR = 8 };

/* A stage, in units of all that went before; of near tiles in units of what was met. What ends a
 * stage of those costs more than the candidates that it saves, until lists overflow. */
enum { GRAPH_GROWTH = 1, SEARCH_GROWTH = 2, NEAR_GROWTH = 3 };

/* Where rows may be too coarse, the first stage is one part in so many of what is known, of whose
 * columns one in so many may stay in lists. */
enum { SAMPLE_SHARE = 8, CROWDED = 8 };

/* The same of a graph whose shadows let so few pairs a row pass that more of them, as a stage is
 * longer, cost less than the end of a stage. */
enum { CAST_GROWTH = 3, SURROUNDINGS = 32 /* of which one is near, of all offsets */ };
static const double FEW_PASSED = 4.0;

static kith_status clear_words(const kin_screen_gpu_work *w, uint32_t *first, uint64_t words)
{
    return kin_gpu_fill(w->on.ctx, w->on.gpu, first, 0, words * sizeof *first);
}

/* The same reaches, with what shadows have lost. */
static kith_status worst_of_cast(const kin_screen_gpu_work *w)
{
    const kin_screen_gpu_tighten job = {.set = w->cast,
                                        .cols_set = w->cast,
                                        .lists = {.reach = w->lists.reach},
                                        .worst = w->cast_worst,
                                        .gates = w->cast_gates};
    return w->cast.rounded == NULL
               ? KITH_OK
               : KIN_SCREEN_LAUNCH(&w->on, tighten, &job, "finding the worst of tiles");
}

/* What tightening finds beside lists. */
kith_status kin_screen_gpu_work_worst(const kin_screen_gpu_work *w)
{
    const kin_screen_gpu_tighten job = {.set = w->rows,
                                        .cols_set = w->cols,
                                        .lists = {.reach = w->lists.reach},
                                        .worst = w->worst,
                                        .gates = w->gates};
    KIN_TRY(KIN_SCREEN_LAUNCH(&w->on, tighten, &job, "finding the worst of tiles"));
    return worst_of_cast(w);
}

/* Lists go to their owners, who tighten them and tell all others what they found. */
static kith_status tighten_shared(kin_screen_gpu_work *w)
{
    kin_screen_gpu_share *share = &w->share;
    const int64_t first = kin_screen_gpu_share_first(share);
    const int64_t rows = kin_screen_gpu_share_count(share);
    const bool whole = w->cut_short;
    KIN_TRY(kin_screen_gpu_share_lists(&w->on, share, &w->lists, w->rows.points, whole));
    const kin_screen_gpu_tighten job = {.set = kin_screen_gpu_set_part(&w->rows, first, rows),
                                        .cols_set = w->cols,
                                        .lists = kin_screen_gpu_lists_part(&w->lists, first, rows),
                                        .before = whole ? w->before + first : NULL,
                                        .restores = whole};
    KIN_TRY(KIN_SCREEN_LAUNCH(&w->on, tighten, &job, "tightening lists"));
    KIN_TRY(kin_screen_gpu_share_reach(&w->on, share, &w->lists));
    return kin_screen_gpu_work_worst(w);
}

static kith_status tighten(kin_screen_gpu_work *w)
{
    if (w->share.parts > 0) {
        return tighten_shared(w);
    }
    const kin_screen_gpu_tighten job = {.set = w->rows,
                                        .cols_set = w->cols,
                                        .lists = w->lists,
                                        .worst = w->worst,
                                        .gates = w->gates,
                                        .before = w->before,
                                        .restores = w->cut_short};
    KIN_TRY(KIN_SCREEN_LAUNCH(&w->on, tighten, &job, "tightening lists"));
    return worst_of_cast(w);
}

/* ---- Seed ------------------------------------------------------------------------------------ */

/* Blocks whose rows are this GPU's: first .. end - 1. */
static int64_t own_first(const kin_screen_gpu_work *w)
{
    return w->share.parts > 0 ? kin_screen_gpu_share_first(&w->share) / KIN_SCREEN_GPU_BLOCK : 0;
}

static int64_t own_end(const kin_screen_gpu_work *w)
{
    return w->share.parts > 0 ? own_first(w) + kin_ceil_div(kin_screen_gpu_share_count(&w->share),
                                                            KIN_SCREEN_GPU_BLOCK)
                              : w->rows.padded / KIN_SCREEN_GPU_BLOCK;
}

/* From one block's tiles in the table to the next one's: 0 where all have the same. */
static int64_t seed_stride(const kin_screen_gpu_work *w)
{
    return w->graph || w->homes != NULL ? w->size.seed_tiles : 0;
}

/* The tile at this place of the seed of a block. */
static int64_t seed_tile(const kin_screen_gpu_work *w, int64_t step, int64_t block, int64_t place)
{
    const int64_t tiles = kin_screen_gpu_tiles_of(w->cols.points);
    if (w->graph) {
        const int64_t blocks = w->rows.padded / KIN_SCREEN_GPU_BLOCK;
        return kin_screen_gpu_seed_block(blocks, w->size.seed_blocks / 2, block, place / 2) * 2 +
               place % 2;
    }
    if (w->homes != NULL) {
        const kin_screen_gpu_home *home = &w->homes[block];
        return kin_screen_gpu_near_tile(tiles, home->first, home->end, w->size.seed_tiles, place);
    }
    return kin_screen_gpu_sequence_tile(tiles, step, place);
}

static kith_status upload_seed_tiles(const kin_screen_gpu_work *w)
{
    const int64_t step = kin_sequence_step(kin_screen_gpu_tiles_of(w->cols.points));
    const int64_t lists = seed_stride(w) == 0 ? 1 : w->rows.padded / KIN_SCREEN_GPU_BLOCK;
    uint32_t *table = NULL;
    KIN_HOLD(hold, w->on.ctx);
    KIN_NEW(&hold, table, (uint64_t)(lists * w->size.seed_tiles), "tiles of seeds");
    uint32_t *next = table;
    for (int64_t block = 0; block < lists; block++) {
        for (int64_t place = 0; place < w->size.seed_tiles; place++) {
            *next++ = (uint32_t)seed_tile(w, step, block, place);
        }
    }
    return kin_gpu_upload(w->on.ctx, w->on.gpu, w->tiles, table,
                          (uint64_t)(lists * w->size.seed_tiles) * sizeof *table);
}

/* Units of all blocks, of each the same number: the first of them are those of a batch whose blocks
 * and tiles are counted from its first. */
static kith_status upload_seed_units(const kin_screen_gpu_work *w, int64_t batch)
{
    const int64_t blocks = w->rows.padded / KIN_SCREEN_GPU_BLOCK;
    const int64_t tiles_a_block = seed_stride(w);
    const int64_t a_block = kin_ceil_div(w->size.seed_tiles, KIN_SCREEN_GPU_SEED_UNIT_TILES);
    const int64_t count = blocks * a_block;
    const int64_t own = own_end(w) - own_first(w);
    const uint32_t counts[3] = {(uint32_t)(batch * a_block), (uint32_t)(own % batch * a_block),
                                (uint32_t)(own * a_block)};
    kin_screen_gpu_unit *units = NULL;
    KIN_HOLD(hold, w->on.ctx);
    KIN_NEW(&hold, units, (uint64_t)count, "units of seeds");
    for (int64_t part = 0; part < a_block; part++) {
        const int64_t first = w->size.seed_tiles * part / a_block;
        const int64_t end = w->size.seed_tiles * (part + 1) / a_block;
        for (int64_t block = 0; block < blocks; block++) {
            units[block * a_block + part] =
                (kin_screen_gpu_unit){(uint32_t)block, (uint32_t)(block * tiles_a_block + first),
                                      (uint32_t)(end - first), 0};
        }
    }
    KIN_TRY(kin_gpu_upload(w->on.ctx, w->on.gpu, w->units, units, (uint64_t)count * sizeof *units));
    return kin_gpu_upload(w->on.ctx, w->on.gpu, w->counters->seed_units, counts, sizeof counts);
}

static kith_status screen_costs(const kin_screen_gpu_device *on, const kin_screen_gpu_costs *c)
{
    const kin_screen_gpu_screen screen = {
        .mode = KIN_SCREEN_GPU_MATRIX,
        .rows = kin_screen_gpu_set_part(&c->rows, c->row0, c->count),
        .cols = c->cols,
        .units = c->units,
        .unit_count = c->unit_count,
        .next = c->next,
        .tiles = c->tiles + c->row0 / KIN_SCREEN_GPU_BLOCK * c->tiles_a_block,
        .worst = c->worst,
        .matrix = c->parts ? NULL : c->matrix,
        .minima = c->minima,
        .parts = c->parts ? c->matrix : NULL,
        .pitch = c->pitch,
        .tiles_a_block = c->tiles_a_block};
    return KIN_SCREEN_LAUNCH(on, screen, &screen, "computing costs");
}

/* Any k different columns prove a reach: the least of k parts are such. */
kith_status kin_screen_gpu_costs_reach(const kin_screen_gpu_device *on,
                                       const kin_screen_gpu_costs *c)
{
    const int64_t words = c->parts ? c->pitch / KIN_SCREEN_GPU_PART : c->pitch;
    const kin_screen_gpu_kth kth = {.set = c->rows,
                                    .lists = c->lists,
                                    .row0 = c->row0,
                                    .rows = kin_min_i64(c->count, c->rows.points - c->row0),
                                    .matrix = c->matrix,
                                    .minima = c->minima,
                                    .pitch = words,
                                    .count = words,
                                    .own = c->own,
                                    .col_worst = c->cols.worst};
    KIN_TRY(screen_costs(on, c));
    return KIN_SCREEN_LAUNCH(on, kth, &kth, "finding thresholds");
}

static kin_screen_gpu_gather gather_of(const kin_screen_gpu_costs *c)
{
    return (kin_screen_gpu_gather){.rows_set = c->rows,
                                   .cols_set = c->cols,
                                   .lists = c->lists,
                                   .row0 = c->row0,
                                   .rows = kin_min_i64(c->count, c->rows.points - c->row0),
                                   .matrix = c->matrix,
                                   .minima = c->minima,
                                   .pitch = c->pitch,
                                   .count = c->pitch,
                                   .own = c->own,
                                   .tiles = c->tiles,
                                   .tiles_a_block = c->tiles_a_block,
                                   .told = c->told,
                                   .seen = c->seen};
}

kith_status kin_screen_gpu_costs_gather(const kin_screen_gpu_device *on,
                                        const kin_screen_gpu_costs *c)
{
    const kin_screen_gpu_gather job = gather_of(c);
    return KIN_SCREEN_LAUNCH(on, gather, &job, "gathering candidates");
}

kith_status kin_screen_gpu_costs_collect(const kin_screen_gpu_device *on,
                                         const kin_screen_gpu_costs *c)
{
    const kin_screen_gpu_collect job = gather_of(c);
    KIN_TRY(screen_costs(on, c));
    return KIN_SCREEN_LAUNCH(on, collect, &job, "collecting candidates");
}

/* Where reach alone is wanted the least costs of parts will do, if there are several for each
 * neighbour: fewer words, and so many more blocks in a batch. */
typedef struct seeding {
    int64_t batch; /* blocks */
    bool gathers;
    bool parts;
} seeding;

static seeding seeding_of(const kin_screen_gpu_work *w, bool gathers)
{
    const int64_t parts = w->size.seed_tiles * (KIN_SCREEN_GPU_TILE / KIN_SCREEN_GPU_PART);
    const int64_t blocks = kin_max_i64(own_end(w) - own_first(w), 1);
    seeding how = {.batch = w->size.batch_blocks, .gathers = gathers};
    how.parts = !gathers && PARTS_A_NEIGHBOUR * (int64_t)w->lists.k <= parts;
    how.batch = kin_min_i64(blocks, how.parts ? KIN_SCREEN_GPU_PART * how.batch : how.batch);
    return how;
}

/* Costs of a batch's seeds -> reach -> candidates, if they are wanted. */
static kith_status seed_batch(const kin_screen_gpu_work *w, int64_t first, int64_t blocks,
                              seeding how)
{
    const kin_screen_gpu_costs costs = {.rows = w->rows,
                                        .cols = w->cols,
                                        .lists = w->lists,
                                        .row0 = first * KIN_SCREEN_GPU_BLOCK,
                                        .count = blocks * KIN_SCREEN_GPU_BLOCK,
                                        .units = w->units,
                                        .unit_count =
                                            &w->counters->seed_units[blocks == how.batch ? 0 : 1],
                                        .next = &w->counters->next,
                                        .tiles = w->tiles,
                                        .tiles_a_block = (uint32_t)seed_stride(w),
                                        .worst = w->col_worst,
                                        .matrix = w->matrix,
                                        .parts = how.parts,
                                        .pitch = w->size.seed_tiles * KIN_SCREEN_GPU_TILE};
    KIN_TRY(clear_words(w, &w->counters->next, 1));
    KIN_TRY(kin_screen_gpu_costs_reach(&w->on, &costs));
    return how.gathers ? kin_screen_gpu_costs_gather(&w->on, &costs) : KITH_OK;
}

static kith_status run_seed(kin_screen_gpu_work *w, bool gathers)
{
    const kin_screen_gpu_device *on = &w->on;
    const seeding how = seeding_of(w, gathers);
    const int64_t end = own_end(w);
    KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &w->matrix, kin_screen_gpu_matrix_words(&w->size),
                          sizeof *w->matrix, "costs of a batch"));
    KIN_TRY(upload_seed_tiles(w));
    KIN_TRY(upload_seed_units(w, how.batch));
    for (int64_t first = own_first(w); first < end; first += how.batch) {
        KIN_TRY(seed_batch(w, first, kin_min_i64(how.batch, end - first), how));
    }
    w->seed_pairs = (double)(end - own_first(w)) * (double)w->size.seed_tiles;
    if (gathers) {
        KIN_TRY(tighten(w));
    } else if (w->share.parts > 0) {
        KIN_TRY(kin_screen_gpu_share_reach(on, &w->share, &w->lists));
    }
    kin_gpu_free(on->gpu, w->matrix);
    w->matrix = NULL;
    return kin_screen_gpu_work_end_stage(w, 0.0);
}

/* Candidates of the seeds of rows whose reach is known: no costs are written. Both blocks of a pair
 * have each other in their seeds, so one end collects. */
static kith_status screen_seeds(kin_screen_gpu_work *w)
{
    const int64_t a_block = kin_ceil_div(w->size.seed_tiles, KIN_SCREEN_GPU_SEED_UNIT_TILES);
    const kin_screen_gpu_screen job = {.mode = KIN_SCREEN_GPU_LISTS,
                                       .rows = w->rows,
                                       .cols = w->cols,
                                       .units = w->units + own_first(w) * a_block,
                                       .unit_count = &w->counters->seed_units[2],
                                       .next = &w->counters->next,
                                       .tiles = w->tiles,
                                       .tiles_a_block = (uint32_t)w->size.seed_tiles,
                                       .row_lists = w->lists,
                                       .worst = w->worst};
    KIN_TRY(kin_screen_gpu_work_worst(w));
    KIN_TRY(clear_words(w, &w->counters->next, 1));
    KIN_TRY(KIN_SCREEN_LAUNCH(&w->on, screen, &job, "screening seeds"));
    if (!w->known) { /* else the one stage that follows ends with the tightening of both */
        KIN_TRY(tighten(w));
    }
    return kin_screen_gpu_work_end_stage(w, 0.0);
}

/* ---- Stages ---------------------------------------------------------------------------------- */

/* A set as a plan sees it: where near tiles alone are wanted, balls are points. */
static kin_screen_gpu_set planned(const kin_screen_gpu_work *w, const kin_screen_gpu_set *set)
{
    kin_screen_gpu_set seen = *set;
    seen.radii = w->near != NULL ? w->points_radii : set->radii;
    return seen;
}

/* Offsets, places of the sequence, or parts of lists of near groups [first, last); of a graph more
 * offsets beside. */
typedef struct stretch {
    int64_t first;
    int64_t last;
    int64_t far_first;
    int64_t far_last;
} stretch;

/* Tiles that a block of rows may have in a stage. */
static uint32_t tiles_a_block(const kin_screen_gpu_work *w, stretch s)
{
    const int64_t length = s.last - s.first + s.far_last - s.far_first;
    return w->coarse.groups != NULL ? KIN_SCREEN_GPU_WIDE_TILES
                                    : (uint32_t)(length * (w->graph ? 2 : 1));
}

/* Of a unit: fewer where stages are short. */
static uint32_t unit_tiles(const kin_screen_gpu_work *w, int64_t tiles_of_block)
{
    const int64_t fair =
        w->rows.padded / KIN_SCREEN_GPU_BLOCK * tiles_of_block / KIN_SCREEN_GPU_STAGE_UNITS;
    return (uint32_t)kin_max_i64(KIN_SCREEN_GPU_SEED_UNIT_TILES,
                                 kin_min_i64(fair, w->size.unit_tiles));
}

static kith_status look(const kin_screen_gpu_work *w, const kin_screen_gpu_screen *screen)
{
    const kin_screen_gpu_look job = {.rows = w->rows,
                                     .cols = w->cols,
                                     .row_lists = screen->row_lists,
                                     .col_lists = screen->col_lists,
                                     .passed = screen->passed,
                                     .looked = &w->counters->looked};
    return KIN_SCREEN_LAUNCH(&w->on, look, &job, "looking at pairs");
}

static kith_status screen_stretch(const kin_screen_gpu_work *w, stretch s, bool both)
{
    const kin_screen_gpu_work *ends =
        w->graph ? w : w->back; /* whose rows are the columns, or NULL */
    const kin_screen_gpu_worst *apart = w->near != NULL ? w->near : w->worst;
    const bool two = both && ends != NULL; /* lists at both ends */
    const kin_screen_gpu_plan plan = {.rows = planned(w, &w->rows),
                                      .cols = planned(w, &w->cols),
                                      .graph = w->graph,
                                      .dealt = w->back != NULL,
                                      .coarse = w->coarse,
                                      .reach = w->size.seed_blocks / 2,
                                      .part = w->share.part,
                                      .parts = w->share.parts,
                                      .adjoining =
                                          w->cut_short, /* near pairs stay with their owners */
                                      .first = s.first,
                                      .last = s.last,
                                      .far_first = s.far_first,
                                      .far_last = s.far_last,
                                      .row_worst = apart,
                                      .col_worst = w->graph       ? apart
                                                   : ends != NULL ? ends->worst
                                                                  : NULL,
                                      .tiles = w->tiles,
                                      .tiles_a_block = tiles_a_block(w, s),
                                      .unit_tiles = unit_tiles(w, tiles_a_block(w, s)),
                                      .units = w->units,
                                      .unit_count = &w->counters->unit_count,
                                      .met = &w->counters->met};
    kin_screen_gpu_screen screen = {.mode = KIN_SCREEN_GPU_LISTS,
                                    .rows = w->rows,
                                    .cols = w->cols,
                                    .units = w->units,
                                    .unit_count = &w->counters->unit_count,
                                    .next = &w->counters->next,
                                    .tiles = w->tiles,
                                    .tiles_a_block = plan.tiles_a_block,
                                    .row_lists = w->lists,
                                    .col_lists = two ? ends->lists : (kin_screen_gpu_lists){0},
                                    .worst = ends != NULL ? ends->worst : w->col_worst,
                                    .gates = two ? ends->gates : NULL};
    const bool cast = w->cast.rounded != NULL;
    if (cast) {
        screen.rows = w->cast;
        screen.cols = w->cast;
        screen.worst = w->cast_worst;
        screen.gates = w->cast_gates;
        screen.passed = (kin_screen_gpu_passed){w->passed, &w->counters->passed, w->passed_room};
        screen.full_rows = w->rows;
        screen.full_cols = w->cols;
    }
    KIN_TRY(clear_words(w, &w->counters->unit_count, 4)); /* and what stands behind it */
    KIN_TRY(KIN_SCREEN_LAUNCH(&w->on, plan, &plan, "planning tiles"));
    KIN_TRY(KIN_SCREEN_LAUNCH(&w->on, screen, &screen, "screening"));
    return cast ? look(w, &screen) : KITH_OK;
}

kith_status kin_screen_gpu_work_screen(const kin_screen_gpu_work *w, int64_t first, int64_t last,
                                       bool both)
{
    return screen_stretch(w, (stretch){first, last, 0, 0}, both);
}

static kith_status run_stage(kin_screen_gpu_work *w, int64_t first, int64_t last)
{
    KIN_TRY(kin_screen_gpu_work_screen(w, first, last, w->graph || w->back != NULL));
    KIN_TRY(tighten(w));
    return w->back != NULL ? tighten(w->back) : KITH_OK;
}

void kin_screen_gpu_work_stretch(kin_screen_gpu_work *w, double an_offset)
{
    const double fitting = 0.5 * (double)w->passed_room / fmax(1.0, an_offset);
    w->cast_stretch = kin_max_i64(1, (int64_t)fitting);
}

/* Offsets of a graph: those from first to end - 1 are left of `all`. What shadows have let pass:
 * looked, pairs so far, and a_row, pairs of a row in the last stage. */
typedef struct offsets {
    int64_t first;
    int64_t end;
    int64_t all;
    double looked;
    double a_row;
} offsets;

static int64_t known_of(const offsets *o)
{
    return o->all - (o->end - o->first);
}

/* What shadows let pass in a stage of `length` offsets says how long the next one may be, and,
 * behind the surroundings of the seeds, what they will let pass in all that is left: as much again
 * whenever the known doubles. Where that is too much, or more was looked at than shadows could save
 * in all, stages screen the rows themselves from now on. */
static kith_status watch_cast(kin_screen_gpu_work *w, offsets *o, int64_t length)
{
    const double rows = (double)w->rows.padded;
    const double known = (double)known_of(o);
    uint64_t *looked = NULL;
    KIN_TRY(kin_gpu_fetch_count(w->on.ctx, w->on.gpu, &w->counters->looked, &looked));
    KIN_TRY(kin_screen_gpu_work_pace(w, known / (double)o->all));
    const double passed = (double)*looked - o->looked;
    o->looked = (double)*looked;
    o->a_row = passed / rows;
    kin_screen_gpu_work_stretch(w, passed / (double)length);
    const double an_offset = rows * KIN_SCREEN_GPU_BLOCK;
    const double left = passed * log((double)o->all / known) /
                        log(known / (known - (double)length)) /
                        (an_offset * fmax(1.0, (double)(o->end - o->first)));
    const bool much = SURROUNDINGS * known >= (double)o->all && left > w->cast_worth;
    if (much || o->looked > w->cast_worth * an_offset * (double)o->all) {
        kin_log(w->on.ctx, 2, "shadows would let %.4f %% pass: rows are screened", 100.0 * left);
        w->cast = (kin_screen_gpu_set){0};
    }
    return KITH_OK;
}

static int64_t stage_length(const kin_screen_gpu_work *w, const offsets *o)
{
    const bool cast = w->cast.rounded != NULL;
    const int64_t growth = cast && o->a_row < FEW_PASSED ? CAST_GROWTH : GRAPH_GROWTH;
    const int64_t most = cast ? kin_min_i64(w->size.stretch, w->cast_stretch) : w->size.stretch;
    return kin_min_i64(o->end - o->first, kin_min_i64(growth * known_of(o), most));
}

/* Each stage is as long as all that is known before it, and takes offsets from both ends: the order
 * of the rows halves them again and again, so half a circle away stands what was near but for the
 * first cut. */
static kith_status run_graph_stages(kin_screen_gpu_work *w, int64_t first, int64_t end)
{
    offsets o = {.first = first, .end = end, .all = end, .a_row = FEW_PASSED};
    while (o.first < o.end) {
        const bool cast = w->cast.rounded != NULL;
        const int64_t length = stage_length(w, &o);
        const int64_t near = length - length / 2;
        KIN_TRY(screen_stretch(
            w, (stretch){o.first, o.first + near, o.end - (length - near), o.end}, true));
        KIN_TRY(tighten(w));
        o.first += near;
        o.end -= length - near;
        KIN_TRY(cast ? watch_cast(w, &o, length)
                     : kin_screen_gpu_work_end_stage(w, (double)known_of(&o) / (double)o.all));
    }
    return KITH_OK;
}

/* A short first stage, from *first to last - 1, which says whether rows are too coarse: whether a
 * good part of its columns stays in their lists. */
static kith_status take_sample(kin_screen_gpu_work *w, int64_t *first, int64_t last)
{
    kith_ctx *ctx = w->on.ctx;
    const uint64_t rows = (uint64_t)w->rows.points;
    const double columns = (double)(last - *first) * KIN_SCREEN_GPU_TILE;
    int32_t *counts = NULL;
    double sum = 0.0;
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, counts, rows, "candidates of rows");
    KIN_TRY(run_stage(w, *first, last));
    KIN_TRY(kin_gpu_download(ctx, w->on.gpu, counts, w->lists.counts, rows * sizeof *counts));
    for (uint64_t i = 0; i < rows; i++) {
        sum += counts[i];
    }
    w->crowded = sum > (double)rows * (columns / CROWDED + (double)w->lists.k);
    kin_log(ctx, 2, "%.1f of %.0f columns stay in lists", sum / (double)rows, columns);
    *first = last;
    return KITH_OK;
}

/* Tiles from `first` to `end` of a search, each stage SEARCH_GROWTH times as long as all that is
 * known before it: at first `known`. */
static kith_status run_search_stages(kin_screen_gpu_work *w, int64_t first, int64_t end,
                                     int64_t known)
{
    const int64_t begin = first;
    KIN_TRY(w->wary ? take_sample(w, &first,
                                  kin_min_i64(end, first + kin_min_i64(w->size.stretch,
                                                                       1 + known / SAMPLE_SHARE)))
                    : KITH_OK);
    while (first < end && !w->crowded) {
        const int64_t length =
            kin_min_i64(SEARCH_GROWTH * (known + first - begin), w->size.stretch);
        const int64_t last = kin_min_i64(end, first + length);
        KIN_TRY(run_stage(w, first, last));
        KIN_TRY(kin_screen_gpu_work_end_stage(w, (double)first / (double)end));
        first = last;
    }
    return KITH_OK;
}

/* The same of near tiles, which are a share of all. */
static kith_status run_near_stages(kin_screen_gpu_work *w, int64_t first, int64_t end)
{
    double met = (double)first;
    while (first < end) {
        const double longest = w->known ? (double)end : NEAR_GROWTH * met / w->near_share;
        const int64_t left = kin_min_i64(end - first, w->size.stretch);
        const int64_t length = longest < (double)left ? kin_max_i64(1, (int64_t)longest) : left;
        KIN_TRY(run_stage(w, first, first + length));
        KIN_TRY(kin_screen_gpu_work_end_stage(w, (double)first / (double)end));
        met += w->near_share * (double)length;
        first += length;
    }
    return KITH_OK;
}

/* All near groups of wide sets. A list has room for its k entries and some more, and the first
 * parts are short, since limits are wide. */
static kith_status run_wide_stages(kin_screen_gpu_work *w)
{
    static const int64_t ends[] = {1, 3, 7, KIN_SCREEN_GPU_COARSE_PARTS};
    const int count = (int)(sizeof ends / sizeof ends[0]);
    for (int i = 0; i < count; i++) {
        KIN_TRY(run_stage(w, i == 0 ? 0 : ends[i - 1], ends[i]));
        KIN_TRY(kin_screen_gpu_work_end_stage(w, (double)(i + 1) / (double)count));
    }
    return KITH_OK;
}

/* Seeds near home prove a reach, and are screened again with all other tiles: they are few. */
static kith_status search(kin_screen_gpu_work *w)
{
    bool done = false;
    KIN_TRY(w->balls != NULL ? kin_screen_gpu_work_near(w, &done) : KITH_OK);
    if (done) {
        return tighten(w);
    }
    const int64_t tiles = kin_screen_gpu_tiles_of(w->cols.points);
    const bool gathers = w->homes == NULL;
    KIN_TRY(run_seed(w, gathers));
    if (!gathers) {
        KIN_TRY(kin_screen_gpu_work_worst(w));
    }
    return run_search_stages(w, gathers ? w->size.seed_tiles : 0, tiles, w->size.seed_tiles);
}

/* What is known before the first stage is a share of the columns, on the side where it is less.
 * Gates allow for what the rows have lost that meet them (kin_gate_set_far): those of the other
 * side. */
kith_status kin_screen_gpu_work_run_both(kin_screen_gpu_work *w, kin_screen_gpu_work *back)
{
    const int64_t tiles = kin_screen_gpu_tiles_of(w->cols.points);
    const int64_t others = kin_screen_gpu_tiles_of(back->cols.points);
    const int64_t known =
        kin_min_i64(w->size.seed_tiles, back->size.seed_tiles * tiles / kin_max_i64(others, 1));
    const double lost = fmax(w->rows.worst.lost, back->rows.worst.lost);
    w->back = back;
    w->rows.worst.lost = lost;
    back->rows.worst.lost = lost;
    KIN_TRY(run_seed(w, false));
    KIN_TRY(run_seed(back, false));
    KIN_TRY(kin_screen_gpu_work_worst(w));
    KIN_TRY(kin_screen_gpu_work_worst(back));
    return run_search_stages(w, 0, tiles, kin_max_i64(known, 1));
}

bool kin_screen_gpu_work_has_stages(const kin_screen_gpu_work *w)
{
    return w->graph && w->size.seed_blocks < w->rows.padded / KIN_SCREEN_GPU_BLOCK;
}

kith_status kin_screen_gpu_work_reach(kin_screen_gpu_work *w)
{
    w->reached = true;
    return run_seed(w, false);
}

kith_status kin_screen_gpu_work_reached(kin_screen_gpu_work *w)
{
    w->reached = true;
    w->known = true;
    w->seed_pairs = (double)(own_end(w) - own_first(w)) * (double)w->size.seed_tiles;
    KIN_TRY(upload_seed_tiles(w));
    return upload_seed_units(w, w->size.batch_blocks);
}

kith_status kin_screen_gpu_work_seed(kin_screen_gpu_work *w)
{
    return run_seed(w, true);
}

kith_status kin_screen_gpu_work_run(kin_screen_gpu_work *w)
{
    if (w->rows.points == 0 || w->cols.points == 0) {
        return KITH_OK;
    }
    if (!w->graph) {
        return search(w);
    }
    KIN_TRY(w->reached ? screen_seeds(w) : run_seed(w, true));
    if (!kin_screen_gpu_work_has_stages(w)) {
        return KITH_OK; /* the seeds were everything */
    }
    if (w->coarse.groups != NULL) {
        return run_wide_stages(w);
    }
    const int64_t first = w->size.seed_blocks / 2 + 1;
    const int64_t end = kin_screen_gpu_offsets_end(w->rows.padded / KIN_SCREEN_GPU_BLOCK);
    return w->near != NULL ? run_near_stages(w, first, end) : run_graph_stages(w, first, end);
}

/* Where rows are many, seeds have met none of what is near them: stages begin with half of what
 * their lists hold. */
kith_status kin_screen_gpu_work_rerun(kin_screen_gpu_work *w)
{
    const int64_t end = kin_screen_gpu_tiles_of(w->cols.points);
    const int64_t held = 1 + w->lists.capacity / (2 * SEARCH_GROWTH * KIN_SCREEN_GPU_TILE);
    KIN_TRY(tighten(w)); /* the worst of tiles of rows, by the reach that is known */
    return run_search_stages(w, 0, end, w->rows.points > KIN_SCREEN_GPU_BLOCK ? held : end);
}
