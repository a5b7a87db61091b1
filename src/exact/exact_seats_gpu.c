/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Groups that are too large to be compared pair by pair, and too many for a call of the
 * engine each, are one set: each group begins with a block of rows of its own, and the screen of a
 * block is offered the tiles of its own group alone.
 *
 *     group       0 0 0 0 0 . . . | 1 1 1 1 1 1 1 1 | 1 1 1 . . . . . |      . nobody
 *     tiles       0   1           | 2   3             4   5
 *     block 0     meets 0 1         blocks 1 and 2 meet 2 3 4 5
 *
 * Rows are checked, measured and rounded once. Of a small group the costs of all its columns are
 * written, thresholds are found in them, and candidates gathered, as of a small graph; of a large
 * one those of its first tiles, and stages of the others follow, each twice as long as all that is
 * known before it. A group's rows stand in a sequence that spreads them (kin_screen_gpu_spread), so
 * that the first tiles of a large one are a sample of all. What is screened when is known
 * beforehand: the host writes all units at once.
 *
 * Groups of so few rows that blocks would be mostly empty are compared pair by pair beside them,
 * and so are rows whose lists overflow, each with all of its group (exact_pick_gpu.c).
 *
 * Memory. Lists of as many blocks as LIST_BYTES hold, costs of as many as MATRIX_BYTES; a unit for
 * some tiles that a block meets. */
#include "exact/exact_search_gpu.h"

#include "host/host_clock.h"
#include "host/host_threads.h"
#include "screen/screen_schedule.h"

enum {
    SEED_TILES = 8,       /* whose costs are written, */
    SEED_A_NEIGHBOUR = 8, /* or columns for each of the k; */
    WHOLE = 2,            /* up to so many times as many, those of all */
    GROWTH = 3,           /* what is known after a stage, in units of what was before */
    UNIT_TILES = 32,      /* of a stage, at most */
    A_PRIME = 1000003,    /* above all groups' rows: a step that takes no time to find */
};
static const uint64_t MATRIX_BYTES = 512u << 20;
static const uint64_t LIST_BYTES = 2ull << 30;

/* ---- Who sits where -------------------------------------------------------------------------- */

/* Rows, or queries, of groups [0, groups). */
typedef struct seating {
    uint32_t *begin;  /* groups + 1: of those that are listed */
    uint32_t *firsts; /* groups: the first block of each */
    int64_t blocks;
    kin_screen_gpu_seat *seats; /* by block */
    kin_screen_gpu_seat *there; /* device: seats */
} seating;

/* Blocks alone where seats are not there yet. rows: what stands where the groups' rows begin. */
static void seat_groups(seating *s, const uint32_t *rows, int64_t groups)
{
    s->blocks = 0;
    for (int64_t g = 0; g < groups; g++) {
        const bool seated = rows[g + 1] - rows[g] >= KIN_EXACT_GPU_SEATS_LEAST;
        const uint32_t count = seated ? s->begin[g + 1] - s->begin[g] : 0;
        const bool sampled = s->seats != NULL && count > WHOLE * SEED_TILES * KIN_SCREEN_GPU_TILE;
        const uint32_t step = sampled ? (uint32_t)kin_sequence_step(count) : A_PRIME;
        s->firsts[g] = (uint32_t)s->blocks;
        for (uint32_t before = 0; before < count; before += KIN_SCREEN_GPU_BLOCK) {
            if (s->seats != NULL) {
                s->seats[s->blocks] =
                    (kin_screen_gpu_seat){s->begin[g], count, before, step, (uint32_t)g};
            }
            s->blocks += 1;
        }
    }
}

/* begin is known; of columns or of queries of these columns. */
static kith_status find_seats(kin_hold *hold, int64_t groups, const seating *cols, seating *s)
{
    KIN_NEW(hold, s->firsts, (uint64_t)groups + 1, "groups of rows");
    seat_groups(s, cols->begin, groups);
    KIN_NEW(hold, s->seats, (uint64_t)s->blocks, "blocks of groups");
    seat_groups(s, cols->begin, groups);
    return KITH_OK;
}

/* begin: device memory. */
static kith_status make_seating(kin_hold *hold, kin_gpu *gpu, const uint32_t *begin, int64_t groups,
                                const seating *cols, seating *s)
{
    const uint64_t ends = (uint64_t)groups + 1;
    KIN_NEW(hold, s->begin, ends, "groups of rows");
    KIN_TRY(kin_gpu_download(hold->ctx, gpu, s->begin, begin, ends * sizeof *begin));
    KIN_TRY(find_seats(hold, groups, cols, s));
    const uint64_t blocks = (uint64_t)s->blocks;
    KIN_GPU_NEW(hold, gpu, s->there, blocks, "blocks of groups");
    return kin_gpu_upload(hold->ctx, gpu, s->there, s->seats, blocks * sizeof *s->seats);
}

/* ---- Who meets whom -------------------------------------------------------------------------- */

typedef struct seats {
    kin_screen_gpu_device on;
    const kin_exact_gpu_picks *picks;
    seating rows;
    seating cols; /* of a graph without a bitmap the same */
    kin_screen_gpu_prepared corpus;
    kin_screen_gpu_prepared queries;
    const kin_screen_gpu_prepared *asked; /* those, or where they are the same the corpus */
    kin_exact_gpu_answers answers;

    int64_t seed;    /* tiles of a large group */
    int64_t pitch;   /* tiles of a block whose costs are written, at most */
    int64_t longest; /* tiles of a group */
    int64_t seated;  /* queries that stand in blocks */
    int64_t batch;   /* blocks whose costs are written at a time, */
    int64_t stripe;  /* and that have lists at a time */
    bool crowded;    /* too many lists overflow: another way answers */

    /* The launches of the screen in their order, each with a count of units. */
    int64_t launches;
    int64_t unit_count;
    double met; /* tiles of all units */
    uint32_t *counts;
    kin_screen_gpu_unit *units;

    /* Device. */
    kin_screen_gpu_lists lists;
    kin_screen_gpu_worst *worst; /* of the tiles of the columns */
    kin_screen_gpu_unit *there;  /* units */
    uint32_t *there_counts;      /* a number a launch */
    uint32_t *next;              /* the same */
    uint32_t *own;               /* columns of a block whose costs are written */
    uint32_t *tiles;             /* of them, pitch a block */
    uint32_t *numbers;           /* 0, 1, ...: a number for each tile of the columns */
    uint32_t *matrix;
    uint64_t *keys;
    int64_t at_unit; /* of the next launch */
    int64_t at_launch;
} seats;

static int64_t columns_of(const seats *s, int64_t block)
{
    const uint32_t group = s->rows.seats[block].group;
    return s->cols.begin[group + 1] - s->cols.begin[group];
}

static int64_t first_tile(const seats *s, int64_t block)
{
    return 2 * (int64_t)s->cols.firsts[s->rows.seats[block].group];
}

/* Tiles whose costs are written. */
static int64_t seed_of(const seats *s, int64_t tiles)
{
    return tiles <= WHOLE * s->seed ? tiles : s->seed;
}

/* Whether one follows in which large groups have known so many. */
static bool has_stage(const seats *s, int64_t known)
{
    return s->longest > WHOLE * s->seed && known < s->longest;
}

static void add_units(seats *s, int64_t block, int64_t first, int64_t tiles, int64_t most)
{
    for (int64_t at = 0; at < tiles; at += most) {
        if (s->units != NULL) {
            s->units[s->unit_count] =
                (kin_screen_gpu_unit){(uint32_t)block, (uint32_t)(first + at),
                                      (uint32_t)kin_min_i64(most, tiles - at), 0};
        }
        s->unit_count += 1;
    }
    s->met += s->units != NULL ? (double)tiles : 0.0;
}

static void end_launch(seats *s, int64_t first)
{
    if (s->counts != NULL) {
        s->counts[s->launches] = (uint32_t)(s->unit_count - first);
    }
    s->launches += 1;
}

/* Costs of blocks [first, end). */
static void plan_seeds(seats *s, int64_t first, int64_t end)
{
    const int64_t begin = s->unit_count;
    for (int64_t b = first; b < end; b++) {
        const int64_t tiles = seed_of(s, kin_screen_gpu_tiles_of(columns_of(s, b)));
        add_units(s, b - first, (b - first) * s->pitch, tiles, KIN_SCREEN_GPU_SEED_UNIT_TILES);
    }
    end_launch(s, begin);
}

/* Tiles [known, next) of the large groups of blocks [first, end). */
static void plan_stage(seats *s, int64_t first, int64_t end, int64_t known, int64_t next)
{
    const int64_t begin = s->unit_count;
    for (int64_t b = first; b < end; b++) {
        const int64_t tiles = kin_screen_gpu_tiles_of(columns_of(s, b));
        const int64_t last = kin_min_i64(next, tiles);
        if (seed_of(s, tiles) < tiles && known < last) {
            add_units(s, b - first, first_tile(s, b) + known, last - known, UNIT_TILES);
        }
    }
    end_launch(s, begin);
}

/* All launches, in their order; where units are not there yet they are counted. */
static void plan_units(seats *s)
{
    s->launches = 0;
    s->unit_count = 0;
    for (int64_t first = 0; first < s->rows.blocks; first += s->stripe) {
        const int64_t end = kin_min_i64(s->rows.blocks, first + s->stripe);
        for (int64_t b = first; b < end; b += s->batch) {
            plan_seeds(s, b, kin_min_i64(end, b + s->batch));
        }
        for (int64_t known = s->seed; has_stage(s, known); known *= GROWTH) {
            plan_stage(s, first, end, known, GROWTH * known);
        }
    }
}

static void find_sizes(seats *s)
{
    const int64_t k = s->answers.wanted;
    const uint64_t quarter = kin_gpu_scope(s->on.gpu) / 4;
    s->seed = kin_max_i64(SEED_TILES, kin_screen_gpu_tiles_of(SEED_A_NEIGHBOUR * k));
    s->pitch = 1;
    for (int64_t b = 0; b < s->rows.blocks; b++) {
        const int64_t tiles = kin_screen_gpu_tiles_of(columns_of(s, b));
        s->longest = kin_max_i64(s->longest, tiles);
        s->pitch = kin_max_i64(s->pitch, seed_of(s, tiles));
        s->seated +=
            kin_min_i64(KIN_SCREEN_GPU_BLOCK, s->rows.seats[b].count - s->rows.seats[b].before);
    }
    const uint64_t costs =
        KIN_SCREEN_GPU_BLOCK * KIN_SCREEN_GPU_TILE * sizeof *s->matrix * (uint64_t)s->pitch;
    const uint64_t lists =
        KIN_SCREEN_GPU_BLOCK * sizeof *s->lists.words * (uint64_t)kin_screen_gpu_capacity(k);
    const uint64_t matrix = MATRIX_BYTES < quarter ? MATRIX_BYTES : quarter;
    const uint64_t words = LIST_BYTES < quarter ? LIST_BYTES : quarter;
    s->stripe = kin_max_i64(1, kin_min_i64(s->rows.blocks, (int64_t)(words / lists)));
    s->batch = kin_max_i64(1, kin_min_i64(s->stripe, (int64_t)(matrix / costs)));
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void name_seats(kin_layout *layout, void *job)
{
    seats *s = job;
    const uint64_t blocks = (uint64_t)s->rows.blocks;
    const uint64_t tiles = (uint64_t)(s->corpus.set.padded / KIN_SCREEN_GPU_TILE);
    const uint64_t costs =
        (uint64_t)s->batch * (uint64_t)s->pitch * KIN_SCREEN_GPU_BLOCK * KIN_SCREEN_GPU_TILE;
    kin_screen_gpu_lists_name(layout, &s->lists);
    s->matrix = kin_layout_array(layout, costs, sizeof *s->matrix);
    s->worst = kin_layout_array(layout, tiles, sizeof *s->worst);
    s->numbers = kin_layout_array(layout, tiles, sizeof *s->numbers);
    s->tiles = kin_layout_array(layout, blocks, (uint64_t)s->pitch * sizeof *s->tiles);
    s->own = kin_layout_array(layout, blocks, sizeof *s->own);
    s->there = kin_layout_array(layout, (uint64_t)s->unit_count, sizeof *s->there);
    s->there_counts = kin_layout_array(layout, (uint64_t)s->launches, sizeof *s->there_counts);
    s->next = kin_layout_array(layout, (uint64_t)s->launches, sizeof *s->next);
    s->keys = kin_layout_array(layout, 1, sizeof *s->keys);
}

/* Numbers, own, and tiles of blocks. */
static kith_status upload_tiles(const seats *s)
{
    kith_ctx *ctx = s->on.ctx;
    const uint64_t blocks = (uint64_t)s->rows.blocks;
    const uint64_t all = (uint64_t)(s->corpus.set.padded / KIN_SCREEN_GPU_TILE);
    uint32_t *numbers = NULL;
    uint32_t *own = NULL;
    uint32_t *tiles = NULL;
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, numbers, all, "tiles of groups");
    KIN_NEW(&hold, own, blocks, "tiles of groups");
    KIN_NEW_ZERO(&hold, tiles, blocks * (uint64_t)s->pitch, "tiles of groups");
    for (uint64_t i = 0; i < all; i++) {
        numbers[i] = (uint32_t)i;
    }
    for (int64_t b = 0; b < s->rows.blocks; b++) {
        const int64_t columns = columns_of(s, b);
        const int64_t seed = seed_of(s, kin_screen_gpu_tiles_of(columns));
        own[b] = (uint32_t)kin_min_i64(columns, seed * KIN_SCREEN_GPU_TILE);
        for (int64_t i = 0; i < seed; i++) {
            tiles[b * s->pitch + i] = (uint32_t)(first_tile(s, b) + i);
        }
    }
    KIN_TRY(kin_gpu_upload(ctx, s->on.gpu, s->numbers, numbers, all * sizeof *numbers));
    KIN_TRY(kin_gpu_upload(ctx, s->on.gpu, s->own, own, blocks * sizeof *own));
    return kin_gpu_upload(ctx, s->on.gpu, s->tiles, tiles,
                          blocks * (uint64_t)s->pitch * sizeof *tiles);
}

static kith_status upload_units(const seats *s)
{
    kith_ctx *ctx = s->on.ctx;
    const uint64_t launches = (uint64_t)s->launches;
    KIN_TRY(kin_gpu_upload(ctx, s->on.gpu, s->there, s->units,
                           (uint64_t)s->unit_count * sizeof *s->units));
    KIN_TRY(
        kin_gpu_upload(ctx, s->on.gpu, s->there_counts, s->counts, launches * sizeof *s->counts));
    KIN_TRY(kin_gpu_fill(ctx, s->on.gpu, s->next, 0, launches * sizeof *s->next));
    return kin_gpu_fill(ctx, s->on.gpu, s->keys, 0, sizeof *s->keys);
}

/* ---- The screen ------------------------------------------------------------------------------ */

/* What the next launch has to do. */
typedef struct turn {
    const kin_screen_gpu_unit *units;
    const uint32_t *count;
    uint32_t *next;
} turn;

static turn next_turn(seats *s)
{
    const turn t = {s->there + s->at_unit, s->there_counts + s->at_launch, s->next + s->at_launch};
    s->at_unit += s->counts[s->at_launch];
    s->at_launch += 1;
    return t;
}

/* Whether lists of seeds are made and tightened by one launch. */
static bool collects(const seats *s)
{
    return s->lists.k <= KIN_SCREEN_GPU_OWN_K && s->pitch <= KIN_SCREEN_GPU_OWN_TILES;
}

/* Costs, thresholds and candidates of `count` blocks from `block` on, which stands at `row0` of the
 * rows. */
static kith_status screen_seeds(seats *s, const kin_screen_gpu_set *rows, int64_t first,
                                int64_t block, int64_t count)
{
    const turn t = next_turn(s);
    const kin_screen_gpu_costs costs = {.rows = *rows,
                                        .cols = s->corpus.set,
                                        .lists = s->lists,
                                        .row0 = (block - first) * KIN_SCREEN_GPU_BLOCK,
                                        .count = count * KIN_SCREEN_GPU_BLOCK,
                                        .units = t.units,
                                        .unit_count = t.count,
                                        .next = t.next,
                                        .tiles = s->tiles + first * s->pitch,
                                        .tiles_a_block = (uint32_t)s->pitch,
                                        .worst = s->worst,
                                        .matrix = s->matrix,
                                        .pitch = s->pitch * KIN_SCREEN_GPU_TILE,
                                        .own = s->own + first};
    if (collects(s)) {
        return kin_screen_gpu_costs_collect(&s->on, &costs);
    }
    KIN_TRY(kin_screen_gpu_costs_reach(&s->on, &costs));
    return kin_screen_gpu_costs_gather(&s->on, &costs);
}

static kith_status screen_stage(seats *s, const kin_screen_gpu_set *rows)
{
    const turn t = next_turn(s);
    const kin_screen_gpu_screen job = {.mode = KIN_SCREEN_GPU_LISTS,
                                       .rows = *rows,
                                       .cols = s->corpus.set,
                                       .units = t.units,
                                       .unit_count = t.count,
                                       .next = t.next,
                                       .tiles = s->numbers,
                                       .row_lists = s->lists,
                                       .worst = s->worst};
    return KIN_SCREEN_LAUNCH(&s->on, screen, &job, "screening");
}

static kith_status tighten(const seats *s, const kin_screen_gpu_set *rows)
{
    const kin_screen_gpu_tighten job = {.set = *rows, .cols_set = s->corpus.set, .lists = s->lists};
    return KIN_SCREEN_LAUNCH(&s->on, tighten, &job, "tightening lists");
}

/* Lists of blocks [first, end). */
static kith_status find_lists(seats *s, const kin_screen_gpu_set *rows, int64_t first, int64_t end)
{
    KIN_TRY(kin_screen_gpu_lists_clear(&s->on, rows, &s->lists));
    for (int64_t b = first; b < end; b += s->batch) {
        KIN_TRY(screen_seeds(s, rows, first, b, kin_min_i64(s->batch, end - b)));
    }
    KIN_TRY(collects(s) ? KITH_OK : tighten(s, rows));
    for (int64_t known = s->seed; has_stage(s, known); known *= GROWTH) {
        KIN_TRY(screen_stage(s, rows));
        KIN_TRY(tighten(s, rows));
    }
    return KITH_OK;
}

/* ---- Answers --------------------------------------------------------------------------------- */

static kith_status deliver_by(seats *s, const kin_screen_gpu_set *rows, kin_exact_gpu_delivery *d)
{
    for (int64_t row0 = 0; row0 < rows->points; row0 += d->most) {
        const int64_t count = kin_min_i64(d->most, rows->points - row0);
        const kin_screen_gpu_rescore job = {.set = *rows,
                                            .cols_set = s->corpus.set,
                                            .set_rows = s->asked->rows,
                                            .cols_rows = s->corpus.rows,
                                            .lists = s->lists,
                                            .row0 = row0,
                                            .rows = count,
                                            .pairs = d->pairs,
                                            .count = d->counts,
                                            .keys = s->keys};
        KIN_TRY(KIN_SCREEN_LAUNCH(&s->on, rescore, &job, "computing canonical distances"));
        KIN_TRY(kin_exact_gpu_delivery_run(&s->answers, d, rows->ids + row0, count, NULL));
    }
    return KITH_OK;
}

/* Rows that lost candidates, and those without seats, have the room next. */
static kith_status deliver(seats *s, const kin_screen_gpu_set *rows)
{
    kin_exact_gpu_delivery d;
    KIN_HOLD(hold, s->on.ctx);
    KIN_TRY(kin_exact_gpu_delivery_make(&hold, &s->answers, rows->points, s->lists.k, &d));
    return deliver_by(s, rows, &d);
}

static kith_status solve_all(seats *s)
{
    const kin_screen_gpu_set *all = &s->asked->set;
    const kin_exact_gpu_grouping *grouping = s->picks->grouping;
    const kin_exact_gpu_asked asked = {.grouping = grouping,
                                       .queries = &s->asked->rows,
                                       .corpus = &s->corpus.rows,
                                       .ids = grouping->asked,
                                       .owners = grouping->owners,
                                       .rows = grouping->source->queries,
                                       .longest = grouping->found.longest};
    for (int64_t first = 0; first < s->rows.blocks; first += s->stripe) {
        const int64_t end = kin_min_i64(s->rows.blocks, first + s->stripe);
        const kin_screen_gpu_set rows = kin_screen_gpu_set_part(
            all, first * KIN_SCREEN_GPU_BLOCK, (end - first) * KIN_SCREEN_GPU_BLOCK);
        KIN_TRY(find_lists(s, &rows, first, end));
        KIN_TRY(deliver(s, &rows));
        const kin_screen_gpu_lost lost = {.lost = s->lists.lost,
                                          .of = rows.ids,
                                          .seats = s->rows.there + first,
                                          .points = rows.points};
        KIN_TRY(kin_exact_gpu_pick_lost(&s->answers, &asked, &lost, &s->crowded));
        if (s->crowded) {
            return KITH_OK;
        }
        KIN_TRY(kin_progress(s->on.ctx, "screen", (double)end, (double)s->rows.blocks));
    }
    return s->seated == asked.rows
               ? KITH_OK
               : kin_exact_gpu_pick_few(&s->answers, &asked, KIN_EXACT_GPU_SEATS_LEAST);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static kith_status prepare(seats *s, const kin_screen_gpu_source *source, const seating *who,
                           const uint32_t *listed, const kin_screen_gpu_frame *frame,
                           kin_screen_gpu_prepared *out)
{
    const kith_matrix *queries = s->picks->query->queries;
    const kith_dtype asked = queries != NULL ? queries->dtype : s->picks->corpus->dtype;
    const kin_screen_gpu_spread spread = {
        .listed = listed, .seats = who->there, .blocks = who->blocks};
    return kin_screen_gpu_prepare_spread(&s->on, source, asked, frame, &spread, out);
}

/* Of a graph under a bitmap the points, which lie on the device already, are queries, too. */
static kith_status prepare_both(seats *s)
{
    const kin_exact_gpu_picks *picks = s->picks;
    const kin_exact_gpu_query *query = picks->query;
    const kin_exact_gpu_grouping *grouping = picks->grouping;
    const kin_distance *distance = &query->request->distance;
    const bool graph = query->queries == NULL;
    kith_matrix points = *picks->corpus;
    const kin_screen_gpu_source corpus = {.matrix = picks->corpus,
                                          .distance = distance,
                                          .name = graph ? "points" : "corpus",
                                          .place = picks->place};
    const kin_screen_gpu_source asked = {.matrix = graph ? &points : query->queries,
                                         .distance = distance,
                                         .name = query->name,
                                         .place = graph ? KIN_GPU_DATA_ON_DEVICE : query->place};
    KIN_TRY(prepare(s, &corpus, &s->cols, grouping->listed, NULL, &s->corpus));
    points.data = s->corpus.rows.data;
    points.stride_bytes = s->corpus.rows.stride_bytes;
    if (grouping->once || !s->corpus.plain) {
        return KITH_OK;
    }
    s->asked = &s->queries;
    return prepare(s, &asked, &s->rows, grouping->asked, &s->corpus.set.frame, &s->queries);
}

/* How much there is, before there is any. */
static void size_up(seats *s)
{
    const int64_t k = s->answers.wanted;
    find_sizes(s);
    plan_units(s);
    s->lists = (kin_screen_gpu_lists){.rows = s->stripe * KIN_SCREEN_GPU_BLOCK,
                                      .k = (int32_t)k,
                                      .capacity = kin_screen_gpu_capacity(k)};
}

static kith_status plan(seats *s, kin_hold *hold)
{
    size_up(s);
    KIN_NEW(hold, s->counts, (uint64_t)s->launches, "units of groups");
    KIN_NEW(hold, s->units, (uint64_t)s->unit_count, "units of groups");
    plan_units(s);
    KIN_TRY(kin_gpu_hold_layout(hold, s->on.gpu, name_seats, s, "candidates of groups"));
    KIN_TRY(upload_tiles(s));
    KIN_TRY(upload_units(s));
    return kin_screen_gpu_worst_find(&s->on, &s->corpus.set, s->worst);
}

static kith_status report(seats *s)
{
    kin_screen_gpu_tally *tally = &s->answers.tally;
    uint64_t keys = 0;
    KIN_TRY(kin_gpu_download(s->on.ctx, s->on.gpu, &keys, s->keys, sizeof keys));
    tally->keys += (double)keys;
    tally->pairs += s->met;
    kin_exact_gpu_report(s->on.ctx, &s->corpus, tally, s->asked->rows.rows);
    return KITH_OK;
}

static kith_status answer(seats *s)
{
    KIN_HOLD(hold, s->on.ctx);
    KIN_TRY(plan(s, &hold));
    KIN_TRY(solve_all(s));
    if (s->crowded) {
        return KITH_OK;
    }
    KIN_TRY(kin_exact_gpu_answers_finish(&s->answers, s->picks->query->out, s->corpus.rows.rows));
    return report(s);
}

static kith_status prepare_and_answer(seats *s, bool *done)
{
    const kin_exact_gpu_query *query = s->picks->query;
    const int64_t rows = s->picks->corpus->rows;
    const int64_t queries = s->picks->grouping->source->queries;
    const kin_groups corpus = {.rows = rows, .count = rows};
    const kin_groups asked = {.rows = queries, .count = queries};
    s->asked = &s->corpus;
    KIN_TRY(prepare_both(s));
    *done = s->asked->plain;
    if (!*done) {
        return KITH_OK;
    }
    const int64_t start = kin_clock_ns();
    s->answers = kin_exact_gpu_answers_of(&s->on, query, &corpus, &asked);
    s->answers.fills = true;
    KIN_TRY(kin_exact_gpu_answers_make(&s->answers, (query->place & KIN_GPU_OUT_ON_DEVICE) != 0,
                                       false));
    const kith_status status = answer(s);
    *done = !s->crowded;
    kin_exact_gpu_answers_free(&s->answers);
    s->on.ctx->report.seconds_screen += kin_clock_since(start);
    return status;
}

kith_status kin_exact_gpu_seats(kith_ctx *ctx, kin_gpu *gpu, const kin_exact_gpu_picks *picks,
                                bool *done)
{
    const kin_exact_gpu_grouping *grouping = picks->grouping;
    const kin_exact_gpu_groups *source = grouping->source;
    seats s = {.on = kin_screen_gpu_device_of(ctx, gpu), .picks = picks};
    *done = false;
    if (source->others || grouping->found.longest > KIN_EXACT_GPU_SEATS_ROWS ||
        grouping->found.longest < KIN_EXACT_GPU_SEATS_LEAST) {
        return KITH_OK;
    }
    KIN_HOLD(hold, ctx);
    KIN_TRY(make_seating(&hold, gpu, grouping->row_begin, source->groups, &s.cols, &s.cols));
    s.rows = s.cols;
    if (!grouping->once) {
        s.rows = (seating){0};
        KIN_TRY(make_seating(&hold, gpu, grouping->query_begin, source->groups, &s.cols, &s.rows));
    }
    const kith_status status = prepare_and_answer(&s, done);
    kin_screen_gpu_prepared_free(ctx, gpu, &s.queries);
    kin_screen_gpu_prepared_free(ctx, gpu, &s.corpus);
    return status;
}

/* ---- Before it begins ------------------------------------------------------------------------ */

/* Rows of the host, and their set of so many positions: two blocks, so up to a page more. */
static uint64_t side_bytes(const kith_matrix *matrix, kith_dtype asked, const kin_request *request,
                           int64_t positions)
{
    const uint64_t page = kin_gpu_block_bytes(2 << 20);
    const uint64_t a_row = (uint64_t)matrix->cols * (uint64_t)kith_dtype_bytes(matrix->dtype);
    const uint64_t set = kin_screen_gpu_prepared_bytes(matrix, positions, &request->distance, asked,
                                                       KIN_GPU_DATA_ON_DEVICE, true)
                             .resident;
    return kin_size_add(kin_gpu_block_bytes(kin_size_mul((uint64_t)matrix->rows, a_row)),
                        kin_size_add(kin_gpu_block_bytes(set), page));
}

kith_status kin_exact_gpu_seats_bytes(kith_ctx *ctx, kin_gpu *gpu, const kin_exact_gpu_seated *job,
                                      uint64_t *bytes)
{
    const kith_matrix *corpus = job->corpus;
    const kith_matrix *asked = job->queries != NULL ? job->queries : corpus;
    const kin_request *request = job->request;
    const bool once = job->query_begin == job->row_begin;
    seats s = {.on = kin_screen_gpu_device_of(ctx, gpu), .cols = {.begin = job->row_begin}};
    KIN_HOLD(hold, ctx);
    KIN_TRY(find_seats(&hold, job->groups, &s.cols, &s.cols));
    s.rows = once ? s.cols : (seating){.begin = job->query_begin};
    KIN_TRY(once ? KITH_OK : find_seats(&hold, job->groups, &s.cols, &s.rows));
    s.corpus.set.padded = s.cols.blocks * KIN_SCREEN_GPU_BLOCK;
    s.answers.wanted = kin_request_ids(request, job->queries == NULL, corpus->rows);
    size_up(&s);
    const int64_t positions = s.rows.blocks * KIN_SCREEN_GPU_BLOCK;
    /* Rows that have no seats, and those that lost candidates. */
    const uint64_t others = 2 * (uint64_t)asked->rows * sizeof(uint32_t);
    const uint64_t once_more = kin_exact_gpu_delivery_bytes(asked->rows, (int32_t)request->k + 1);
    const uint64_t parts[] = {(uint64_t)s.cols.blocks * sizeof *s.cols.seats,
                              once ? 0 : (uint64_t)s.rows.blocks * sizeof *s.rows.seats,
                              side_bytes(corpus, asked->dtype, request, s.corpus.set.padded),
                              once ? 0 : side_bytes(asked, asked->dtype, request, positions),
                              kin_gpu_layout_bytes(name_seats, &s),
                              kin_exact_gpu_answers_bytes(asked->rows, request->k) - once_more,
                              kin_exact_gpu_delivery_bytes(positions, s.lists.k),
                              others};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        *bytes = kin_size_add(*bytes, kin_gpu_block_bytes(parts[i]));
    }
    return KITH_OK;
}
