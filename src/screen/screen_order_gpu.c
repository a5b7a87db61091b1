/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A sample of the points, the *pivots*, is put in order: a few of them by halves, like the
 * CPU engine orders all points (screen_prepare.h); then four times as many at a time, each into the
 * cell of the nearest of those before. Each point goes to the cell of its nearest pivot, by the
 * cheap costs of the screen, and cells stand in the order of their pivots: near cells are
 * neighbours, and so are the points of one. Queries go the same way later, and their blocks know in
 * which tiles of the corpus they are at home.
 *
 *      few pivots, by halves      o      o        o
 *      more                      o o   oo o     o oo o      cell of the nearest of the few
 *      points, queries          ::.:.:..:.:::. .::.:.:      cell of the nearest pivot
 *
 * Cost. A screen of n x n / 64 pairs, of n x 4,096 from 262,144 points on and of n x n / 256 to
 * n x n / 128 from one million on, as far as 262,144 pivots, and one more rounding of all points.
 * The few pivots are put in order by one block of threads, in 0.05 to 0.07 ms.
 *
 * With 262,144 points of 1,000 clusters, a pivot for every 256 points leaves a third of the
 * clusters without one: 6 % of the rows' seeds then prove so little that lists overflow. One for
 * every 64 leaves 0.3 %. With 10,000,000 points of 10,000 clusters 4,096 pivots make cells of
 * several clusters, and of the neighbours that near tiles hold 79 % are there; with 32,768 they are
 * 99 %, for 0.27 s more (an H200).
 *
 * Limits. Few points are left as they are, and so are products, whose near points are not near in
 * space (kin_screen_gpu_prepared.covered). */
#include "screen/screen_prepare_gpu.h"

#include "base/base_random.h"

/* Pivots are powers of two: what SHARE divides, as long as it is more than KIN_SCREEN_GPU_HALVED,
 * is whole tiles, and a half of that at least. */
enum {
    SMALL = 4096, /* points: fewer of a corpus are not ordered */
    POINTS_A_CELL = 64,
    FEWEST = 128,
    MANY = 4096,          /* pivots, beyond which */
    MOST_IN_A_CELL = 256, /* cells may be larger, up to this */
    MOST = 262144,
    SHARE = 4,
    ENOUGH_UNITS = 1024 /* for all processors */
};

typedef struct pivots {
    kin_screen_gpu_chosen rows; /* ids: these, or the corpus' */
    uint32_t *ids;
} pivots;

static int64_t pivots_of(int64_t points, int64_t askers)
{
    const int64_t most = askers == 0 ? MOST : kin_min_i64(askers, MOST);
    int64_t count = FEWEST;
    while (2 * count <= most && count * (count < MANY ? POINTS_A_CELL : MOST_IN_A_CELL) < points) {
        count *= 2;
    }
    return count;
}

/* One row of each stretch of the list. */
static kith_status sample(const kin_screen_gpu_device *on, const kin_screen_gpu_prepared *prepared,
                          const pivots *p)
{
    const int64_t points = prepared->groups.count;
    const int64_t count = p->rows.set.points;
    uint64_t state = 11;
    uint32_t *rows = NULL;
    KIN_HOLD(hold, on->ctx);
    KIN_NEW(&hold, rows, (uint64_t)count, "pivots");
    for (int64_t i = 0; i < count; i++) {
        const int64_t first = points * i / count;
        const int64_t last = points * (i + 1) / count;
        const int64_t at = first + (int64_t)kin_random_below(&state, (uint64_t)(last - first));
        rows[i] = prepared->groups.firsts != NULL ? prepared->groups.firsts[at] : (uint32_t)at;
    }
    return kin_gpu_upload(on->ctx, on->gpu, p->ids, rows, (uint64_t)count * sizeof *rows);
}

static void free_pivots(const kin_screen_gpu_device *on, pivots *p)
{
    kin_gpu_free(on->gpu, p->rows.block);
    kin_gpu_free(on->gpu, p->ids);
    *p = (pivots){0};
}

/* So many, rounded: those of another, which stay its own, too, or a sample in the order of the
 * points. */
static kith_status make_pivots(const kin_screen_gpu_device *on,
                               const kin_screen_gpu_prepared *prepared, const uint32_t *like,
                               int64_t count, pivots *p)
{
    p->rows = kin_screen_gpu_chosen_of(&prepared->set.frame, count);
    KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &p->ids, (uint64_t)count, sizeof *p->ids, "pivots"));
    p->rows.set.ids = p->ids;
    KIN_TRY(kin_screen_gpu_chosen_make(on, &p->rows));
    KIN_TRY(like != NULL
                ? kin_gpu_copy(on->ctx, on->gpu, p->ids, like, (uint64_t)count * sizeof *p->ids)
                : sample(on, prepared, p));
    return kin_screen_gpu_chosen_round(on, &prepared->rows, &p->rows);
}

/* ---- The cells ------------------------------------------------------------------------------- */

typedef struct dealing {
    int64_t points; /* padded */
    int64_t known;  /* of the points the first ones, whose nearest is */
    int64_t blocks; /* that are dealt here */
    int64_t tile_count;
    kin_hold *hold; /* of what follows */
    kin_screen_gpu_unit *units;
    uint32_t *tiles;
    uint32_t *counters; /* units; the next one */
    uint64_t *nearest;  /* where it is set before, another's, with room for a block more */
} dealing;

/* Units of a block, of which few blocks have several. */
static int64_t parts_of(const dealing *d)
{
    return kin_max_i64(1, kin_min_i64(ENOUGH_UNITS / kin_max_i64(d->blocks, 1), d->tile_count));
}

static void name_dealing(kin_layout *layout, void *job)
{
    dealing *d = job;
    if (d->nearest == NULL) {
        d->nearest = kin_layout_array(layout, (uint64_t)d->points, sizeof *d->nearest);
    }
    d->units = kin_layout_array(layout, (uint64_t)(d->blocks * parts_of(d)), sizeof *d->units);
    d->tiles = kin_layout_array(layout, (uint64_t)d->tile_count, sizeof *d->tiles);
    d->counters = kin_layout_array(layout, 2, sizeof *d->counters);
}

/* Every block of points meets all tiles of pivots, which one list names for all. Blocks from
 * `first` on. */
static kith_status upload_units(const kin_screen_gpu_device *on, int64_t first, const dealing *d)
{
    kith_ctx *ctx = on->ctx;
    const int64_t parts = parts_of(d);
    const uint64_t count = (uint64_t)(d->blocks * parts);
    const uint64_t tiles = (uint64_t)d->tile_count;
    kin_screen_gpu_unit *units = NULL;
    uint32_t numbers[MOST / KIN_SCREEN_GPU_TILE] = {0};
    const uint32_t counters[2] = {(uint32_t)count, 0};
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, units, count, "units");
    for (int64_t i = 0; i < (int64_t)count; i++) {
        const int64_t begin = d->tile_count * (i % parts) / parts;
        units[i] =
            (kin_screen_gpu_unit){(uint32_t)(first + i / parts), (uint32_t)begin,
                                  (uint32_t)(d->tile_count * (i % parts + 1) / parts - begin), 0};
    }
    for (uint32_t i = 0; i < (uint32_t)tiles; i++) {
        numbers[i] = i;
    }
    KIN_TRY(kin_gpu_upload(ctx, on->gpu, d->units, units, count * sizeof *units));
    KIN_TRY(kin_gpu_upload(ctx, on->gpu, d->tiles, numbers, tiles * sizeof *numbers));
    return kin_gpu_upload(ctx, on->gpu, d->counters, counters, sizeof counters);
}

/* Of points behind those that are known. shared: members of a team in lockstep have the same
 * points, and each looks for a part of them. */
static kith_status find_nearest(const kin_screen_gpu_device *on, const kin_screen_gpu_set *points,
                                const kin_screen_gpu_set *cells, bool shared, dealing *d)
{
    kith_ctx *ctx = on->ctx;
    kin_gpu *gpu = on->gpu;
    const int32_t part = shared ? kin_gpu_part(gpu) : 0;
    int64_t firsts[KIN_GPU_TEAM_MOST + 1];
    kin_gpu_divide(points->padded, KIN_SCREEN_GPU_BLOCK, shared ? kin_gpu_parts(gpu) : 1, firsts);
    const int64_t first = firsts[part] / KIN_SCREEN_GPU_BLOCK;
    d->points = d->known + points->padded;
    d->blocks = firsts[part + 1] / KIN_SCREEN_GPU_BLOCK - first;
    d->tile_count = cells->points / KIN_SCREEN_GPU_TILE;
    KIN_TRY(kin_gpu_hold_layout(d->hold, gpu, name_dealing, d, "nearest pivots"));
    KIN_TRY(upload_units(on, first, d));
    uint64_t *nearest = d->nearest + d->known;
    KIN_TRY(kin_gpu_fill(ctx, gpu, nearest, 0xff, (uint64_t)points->padded * sizeof *nearest));
    const kin_screen_gpu_screen job = {.mode = KIN_SCREEN_GPU_NEAREST,
                                       .rows = *points,
                                       .cols = *cells,
                                       .units = d->units,
                                       .unit_count = &d->counters[0],
                                       .next = &d->counters[1],
                                       .tiles = d->tiles,
                                       .nearest = nearest};
    KIN_TRY(KIN_SCREEN_LAUNCH(on, screen, &job, "finding nearest pivots"));
    return shared ? kin_gpu_gather(ctx, gpu, nearest, sizeof *nearest, firsts) : KITH_OK;
}

/* Rows job.ids by the cells of their nearest pivots. */
static kith_status sort_by_cell(const kin_screen_gpu_device *on, kin_screen_gpu_sort job,
                                const dealing *d)
{
    uint64_t bytes = 0;
    job.nearest = d->nearest;
    job.scratch_bytes = &bytes;
    KIN_TRY(KIN_SCREEN_LAUNCH(on, sort, &job, "planning a sort"));
    KIN_TRY(kin_gpu_hold_alloc(d->hold, on->gpu, &job.scratch, bytes, "room for sorting"));
    return KIN_SCREEN_LAUNCH(on, sort, &job, "sorting points by cell");
}

/* As they are listed. */
static kith_status list_points(const kin_screen_gpu_device *on,
                               const kin_screen_gpu_prepared *prepared, const uint32_t *listed)
{
    const kin_screen_gpu_sort job = {
        .ids = listed, .points = prepared->groups.count, .cell_count = 1, .order = prepared->ids};
    return KIN_SCREEN_LAUNCH(on, sort, &job, "listing points");
}

/* The points from `first` on, where the first ones of the set stand; *points becomes these. */
static kith_status round_listed(const kin_screen_gpu_device *on,
                                const kin_screen_gpu_prepared *prepared, const uint32_t *listed,
                                int64_t first, kin_screen_gpu_set *points)
{
    *points = prepared->set;
    points->points -= first;
    points->padded = kin_round_up(points->points, KIN_SCREEN_GPU_BLOCK);
    const kin_screen_gpu_round job = {.rows = prepared->rows,
                                      .frame = prepared->set.frame,
                                      .ids = listed != NULL ? listed + first : NULL,
                                      .first = first,
                                      .points = points->points,
                                      .padded = points->padded,
                                      .rounded = prepared->rounded,
                                      .facts = prepared->facts,
                                      .half = prepared->half};
    return KIN_SCREEN_LAUNCH(on, round, &job, "rounding points");
}

/* More pivots, by the cells of those that are in order. */
static kith_status make_finer(const kin_screen_gpu_device *on,
                              const kin_screen_gpu_prepared *prepared,
                              const kin_screen_gpu_set *coarse, int64_t count, pivots *p)
{
    KIN_HOLD(hold, on->ctx);
    dealing d = {.hold = &hold};
    KIN_TRY(make_pivots(on, prepared, NULL, count, p));
    KIN_TRY(find_nearest(on, &p->rows.set, coarse, false, &d));
    const kin_screen_gpu_sort sort = {
        .ids = p->ids, .points = count, .cell_count = (uint32_t)coarse->points, .order = p->ids};
    KIN_TRY(sort_by_cell(on, sort, &d));
    return kin_screen_gpu_chosen_round(on, &prepared->rows, &p->rows);
}

/* So many pivots in order. What is in p after a failure is the caller's to free. */
static kith_status make_order(const kin_screen_gpu_device *on,
                              const kin_screen_gpu_prepared *prepared, int64_t wished, pivots *p)
{
    int64_t count = wished;
    while (count > KIN_SCREEN_GPU_HALVED) {
        count /= SHARE;
    }
    KIN_TRY(make_pivots(on, prepared, NULL, count, p));
    const kin_screen_gpu_halve halve = {.set = p->rows.set, .ids = p->ids};
    KIN_TRY(KIN_SCREEN_LAUNCH(on, halve, &halve, "ordering pivots"));
    KIN_TRY(kin_screen_gpu_chosen_round(on, &prepared->rows, &p->rows));
    while (count < wished) {
        pivots coarse = *p;
        *p = (pivots){0};
        count *= SHARE;
        const kith_status status = make_finer(on, prepared, &coarse.rows.set, count, p);
        free_pivots(on, &coarse);
        KIN_TRY(status);
    }
    return KITH_OK;
}

/* Points to the nearest of the pivots. What is known of another's, which are the first of them, is
 * taken from there: rows that come never stand before others in the list. */
static kith_status deal_points(const kin_screen_gpu_device *on,
                               const kin_screen_gpu_prepared *prepared, const uint32_t *listed,
                               const kin_screen_gpu_prepared *like, const kin_screen_gpu_set *cells,
                               dealing *d)
{
    const uint64_t *before = like != NULL ? like->nearest : NULL;
    kin_screen_gpu_set points;
    d->nearest = prepared->nearest;
    d->known = before != NULL ? like->groups.count : 0;
    KIN_TRY(round_listed(on, prepared, listed, d->known, &points));
    KIN_TRY(points.points > 0 ? find_nearest(on, &points, cells, before == NULL, d) : KITH_OK);
    const uint64_t bytes = (uint64_t)d->known * sizeof *before;
    return before != NULL ? kin_gpu_copy(on->ctx, on->gpu, d->nearest, before, bytes) : KITH_OK;
}

kith_status kin_screen_gpu_order_points(const kin_screen_gpu_device *on,
                                        kin_screen_gpu_prepared *prepared, const uint32_t *listed,
                                        int64_t askers, const kin_screen_gpu_prepared *like)
{
    const int64_t points = prepared->groups.count;
    const int64_t count = like != NULL ? like->pivot_count : pivots_of(points, askers);
    pivots p = {0};
    KIN_HOLD(hold, on->ctx);
    dealing d = {.hold = &hold};
    if (!prepared->covered) {
        return list_points(on, prepared, listed);
    }
    kith_status status = like != NULL ? make_pivots(on, prepared, like->pivots, count, &p)
                                      : make_order(on, prepared, count, &p);
    KIN_THEN(status, deal_points(on, prepared, listed, like, &p.rows.set, &d));
    const kin_screen_gpu_sort sort = {.ids = listed,
                                      .points = points,
                                      .cell_count = (uint32_t)count,
                                      .order = prepared->ids,
                                      .marks = prepared->marks};
    KIN_THEN(status, sort_by_cell(on, sort, &d));
    if (status == KITH_OK) {
        prepared->pivots = p.ids;
        prepared->pivot_count = count;
        p.ids = NULL;
    }
    free_pivots(on, &p);
    return status;
}

/* ---- Queries --------------------------------------------------------------------------------- */

/* The tiles that hold points of the cells from `low` to `high`: a cell may begin within the tile
 * before the first one that begins with it. */
static kin_screen_gpu_home home_of(const uint32_t *marks, int64_t tiles, uint32_t low,
                                   uint32_t high)
{
    const int64_t first = kin_lower_u32(marks, tiles, low);
    const int64_t end = kin_lower_u32(marks, tiles, high + 1);
    return (kin_screen_gpu_home){kin_max_i64(first - 1, 0), kin_max_i64(end, 1)};
}

static kith_status find_homes(const kin_screen_gpu_device *on,
                              const kin_screen_gpu_prepared *corpus,
                              const kin_screen_gpu_set *queries, const uint32_t *query_marks,
                              kin_screen_gpu_home **homes)
{
    const int64_t tiles = kin_screen_gpu_sort_marks(corpus->set.points) - 1;
    const int64_t count = kin_screen_gpu_sort_marks(queries->points);
    const int64_t blocks = queries->padded / KIN_SCREEN_GPU_BLOCK;
    uint32_t *marks = NULL; /* of the corpus, behind them the queries' */
    KIN_HOLD(hold, on->ctx);
    KIN_NEW(&hold, marks, (uint64_t)(tiles + count), "cells");
    KIN_TRY(
        kin_gpu_download(on->ctx, on->gpu, marks, corpus->marks, (uint64_t)tiles * sizeof *marks));
    const uint32_t *asked = marks + tiles;
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, marks + tiles, query_marks,
                             (uint64_t)count * sizeof *marks));
    KIN_TRY(kin_alloc(on->ctx, homes, (uint64_t)blocks, sizeof **homes, "tiles near to queries"));
    for (int64_t block = 0; block < blocks; block++) {
        const int64_t behind = kin_min_i64(2 * block + 2, count - 1);
        (*homes)[block] = home_of(marks, tiles, asked[2 * block], asked[behind]);
    }
    return KITH_OK;
}

kith_status kin_screen_gpu_order_queries(const kin_screen_gpu_device *on,
                                         const kin_screen_gpu_prepared *corpus,
                                         kin_screen_gpu_prepared *queries,
                                         kin_screen_gpu_home **homes)
{
    const int64_t points = queries->set.points;
    uint32_t *marks = queries->marks;
    pivots p = {0};
    KIN_HOLD(hold, on->ctx);
    dealing d = {.hold = &hold};
    *homes = NULL;
    if (corpus->pivots == NULL) {
        return KITH_OK;
    }
    p.rows = kin_screen_gpu_chosen_of(&corpus->set.frame, corpus->pivot_count);
    p.rows.set.ids = corpus->pivots;
    kith_status status = kin_screen_gpu_chosen_make(on, &p.rows);
    KIN_THEN(status, kin_screen_gpu_chosen_round(on, &corpus->rows, &p.rows));
    KIN_THEN(status, find_nearest(on, &queries->set, &p.rows.set, false, &d));
    if (marks == NULL) {
        KIN_THEN(status,
                 kin_gpu_hold_alloc(&hold, on->gpu, &marks,
                                    (uint64_t)kin_screen_gpu_sort_marks(points) * sizeof *marks,
                                    "cells of tiles"));
    }
    const kin_screen_gpu_sort sort = {.ids = queries->ids,
                                      .points = points,
                                      .cell_count = (uint32_t)corpus->pivot_count,
                                      .order = queries->ids,
                                      .marks = marks};
    KIN_THEN(status, sort_by_cell(on, sort, &d));
    KIN_THEN(status, find_homes(on, corpus, &queries->set, marks, homes));
    free_pivots(on, &p);
    return status;
}

kith_status kin_screen_gpu_order_homes(const kin_screen_gpu_device *on,
                                       const kin_screen_gpu_prepared *corpus,
                                       const kin_screen_gpu_prepared *queries,
                                       kin_screen_gpu_home **homes)
{
    *homes = NULL;
    return corpus->marks == NULL || queries->marks == NULL
               ? KITH_OK
               : find_homes(on, corpus, &queries->set, queries->marks, homes);
}

/* Of points that are dealt to so many cells: what sorting takes is four arrays of ids. */
static uint64_t dealing_bytes(int64_t points, int64_t cells)
{
    dealing d = {.points = kin_round_up(points, KIN_SCREEN_GPU_BLOCK),
                 .blocks = kin_screen_gpu_blocks_of(points),
                 .tile_count = kin_screen_gpu_tiles_of(cells)};
    return kin_size_add(kin_gpu_layout_bytes(name_dealing, &d),
                        kin_size_mul((uint64_t)d.points, 4 * sizeof(uint32_t)));
}

uint64_t kin_screen_gpu_order_bytes(int64_t points, int32_t row_bytes, bool corpus)
{
    const kin_screen_gpu_frame frame = {.row_bytes = row_bytes};
    kin_screen_gpu_chosen fine = kin_screen_gpu_chosen_of(&frame, MOST);
    kin_screen_gpu_chosen coarse = kin_screen_gpu_chosen_of(&frame, MOST / SHARE);
    if (points < (corpus ? (int64_t)SMALL : (int64_t)KIN_SCREEN_GPU_ORDERED_ROWS)) {
        return 0;
    }
    const uint64_t pivots_bytes =
        kin_size_add(kin_gpu_layout_bytes(kin_screen_gpu_chosen_name, &fine),
                     kin_gpu_layout_bytes(kin_screen_gpu_chosen_name, &coarse));
    return kin_size_add(kin_size_add(dealing_bytes(points, MOST), dealing_bytes(MOST, MOST)),
                        kin_size_add(pivots_bytes, 1u << 20));
}
