/* SPDX-License-Identifier: Apache-2.0 */
#include "descent/descent_start.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "descent/descent_expand.h"
#include "descent/descent_fill.h"
#include "descent/descent_kernel.h"
#include "exact/exact_screen.h"
#include "exact/exact_search.h"
#include "host/host_threads.h"

enum { POSITIONS_A_TASK = 256, ROWS_A_MATCH = 63 };

/* By tiles: how many at least, and how far lists of neighbours are followed. What brings less than
 * ENOUGH new entries a hundred positions is the last expansion. */
enum {
    LEAST_TILES = 8,
    MOST_EXPANSIONS = 4,
    EXPANSIONS_ACROSS = 2,
    ENOUGH = 40,
    NEAR = 14,
    FAR = 14,
    REVERSE = 10,
    REVERSE_FAR = 10
};
_Static_assert(KIN_DESCENT_CROWD == (int)KIN_FINE_STEP, "a crowd is a tile of the cover");

/* Of the blocks that a block chooses, about this share chose it as well: those pairs count once. */
static const double MUTUAL = 0.6;

/* Blocks that each block chooses: 0 for all. Its own is looked at anyway. */
static int64_t near_blocks(int64_t blocks, double share)
{
    const double others = share * (double)blocks - 1.0;
    const double near = others / (2.0 - MUTUAL);
    if (share >= 1.0 || near >= (double)(blocks - 1)) {
        return 0;
    }
    return kin_max_i64(1, (int64_t)llround(near));
}

typedef struct handing {
    const kin_descent_points *points;
    kin_lists *lists;
    int32_t length;
    uint64_t *words;
    kin_descent_matcher *matchers; /* by thread */
    uint32_t *others;              /* by thread: capacity positions, and as many orders */
} handing;

/* Orders of float costs depend on where the pair stood in the screen: computed again as meetings
 * compute them. Integers are the same. */
static void match_again(const handing *h, int32_t thread, uint32_t position, uint64_t *words,
                        int32_t count)
{
    uint32_t *others = h->others + (int64_t)thread * 2 * h->lists->capacity;
    uint32_t *orders = others + h->lists->capacity;
    for (int32_t i = 0; i < count; i++) {
        others[i] = kin_descent_position(words[i]);
    }
    kin_descent_match_one(&h->matchers[thread], position, others, count, orders);
    for (int32_t i = 0; i < count; i++) {
        words[i] = kin_descent_word(orders[i], others[i], 1);
    }
}

/* A list as words of a descent, its own position left out. Orders of the two are the same numbers
 * for integers. */
static void hand_list(const handing *h, int32_t thread, int64_t position)
{
    const kin_lists *lists = h->lists;
    uint64_t *entries = lists->words + position * lists->capacity;
    uint64_t *words = h->words + position * h->length;
    int32_t count = 0;
    kin_select_sort_words(entries, lists->counts[position]);
    for (int32_t i = 0; i < lists->counts[position] && count < h->length; i++) {
        const uint32_t other = (uint32_t)entries[i];
        if (other != position) {
            words[count++] = kin_descent_word((uint32_t)(entries[i] >> 32), other, 1);
        }
    }
    if (kin_tile_is_float(h->points->kernel->type)) {
        match_again(h, thread, (uint32_t)position, words, count);
        kin_select_sort_words(words, count);
    }
    for (; count < h->length; count++) {
        words[count] = KIN_DESCENT_EMPTY;
    }
}

static kith_status hand_lists(void *arg, int64_t task, int32_t thread)
{
    const handing *h = arg;
    const int64_t last = kin_min_i64((task + 1) * POSITIONS_A_TASK, h->points->count);
    for (int64_t position = task * POSITIONS_A_TASK; position < last; position++) {
        hand_list(h, thread, position);
    }
    return KITH_OK;
}

static kith_status hand_all(kith_ctx *ctx, handing *h)
{
    const uint64_t threads = (uint64_t)ctx->threads;
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, kin_alloc_zero(ctx, &h->matchers, threads, sizeof *h->matchers, "threads"),
                 done);
    for (int32_t t = 0; t < ctx->threads; t++) {
        KIN_TRY_GOTO(status,
                     kin_descent_matcher_make(ctx, h->points, 1, ROWS_A_MATCH, &h->matchers[t]),
                     done);
    }
    KIN_TRY_GOTO(status,
                 kin_alloc(ctx, &h->others, threads * 2 * (uint64_t)h->lists->capacity,
                           sizeof *h->others, "entries"),
                 done);
    status =
        kin_parallel(ctx, "start", kin_ceil_div(h->points->count, POSITIONS_A_TASK), hand_lists, h);
done:
    for (int32_t t = 0; h->matchers != NULL && t < ctx->threads; t++) {
        kin_descent_matcher_free(ctx, &h->matchers[t]);
    }
    kin_free(ctx, h->matchers);
    kin_free(ctx, h->others);
    return status;
}

/* Without centres, and where all pairs are asked for: the exact engine's screen. */
static kith_status start_by_blocks(kith_ctx *ctx, const kin_descent_points *points, double share,
                                   int32_t length, uint64_t *words, kin_descent_started *started)
{
    const kin_prepared *prepared = points->prepared;
    kin_lists lists;
    KIN_TRY(kin_lists_make(ctx, &prepared->set, &prepared->set, NULL, (int64_t)length + 1, &lists));
    lists.by_cost = true;
    const int64_t block = kin_screen_block(&prepared->frame);
    kin_screen screen = {.rows = &prepared->set,
                         .points = &prepared->set,
                         .row_lists = &lists,
                         .point_lists = &lists,
                         .row_cover = &prepared->cover,
                         .point_cover = &prepared->cover,
                         .block = block,
                         .near = near_blocks(kin_ceil_div(points->count, block), share)};
    handing h = {.points = points, .lists = &lists, .length = length, .words = words};
    kith_status status = kin_screen_run(ctx, &screen);
    *started = (kin_descent_started){.evaluations = (double)screen.pairs, .all = screen.near == 0};
    if (status == KITH_OK) {
        status = hand_all(ctx, &h);
    }
    kin_lists_free(ctx, &lists);
    return status;
}

/* ---- By tiles ------------------------------------------------------------------------------- */

/* The tiles whose centres are nearest to each one's own: the exact graph of the centres, which are
 * few. What the context reports is of the points, not of these. */
static kith_status near_tiles(kith_ctx *ctx, const kin_prepared *prepared, int64_t tiles,
                              int64_t each, uint32_t *ids)
{
    const kin_cover *cover = &prepared->cover;
    const kith_matrix centres = {.data = cover->centres[KIN_COVER_FINE],
                                 .rows = tiles,
                                 .cols = (int32_t)cover->wide,
                                 .dtype = KITH_F32,
                                 .stride_bytes = cover->wide * (int64_t)sizeof(float)};
    const kin_request request = {.distance = {.metric = KITH_SQEUCLIDEAN,
                                              .cols = (int32_t)cover->wide,
                                              .isa = prepared->distance.isa},
                                 .k = each,
                                 .pipeline = KITH_PIPELINE_FUSED};
    const kith_neighbors out = {.ids = ids, .rows = tiles, .k = each};
    const kith_report report = ctx->report;
    const kith_status status = kin_exact_graph(ctx, &centres, &request, &out);
    ctx->report = report;
    return status;
}

/* Lists of both graphs, and what was met on the other side. */
typedef struct joining {
    const uint8_t *sides;
    int32_t length;
    int64_t count;
    const uint64_t *met;
    uint64_t *words;
    uint64_t *scratch; /* by thread: length */
} joining;

/* A group of rows from both sets is across from everybody. */
static bool is_across(const uint8_t *sides, int64_t position, uint64_t word)
{
    return (sides[position] | sides[kin_descent_position(word)]) ==
           (KIN_DESCENT_BELOW | KIN_DESCENT_BEHIND);
}

static void join_list(const joining *j, int64_t position, uint64_t *list)
{
    const uint64_t *known = j->words + position * j->length;
    const uint64_t *met = j->met + position * j->length;
    int32_t next = 0;
    for (int32_t i = 0, made = 0; made < j->length; made++) {
        while (next < j->length && met[next] != KIN_DESCENT_EMPTY &&
               (!is_across(j->sides, position, met[next]) || (known[i] | 1) == met[next])) {
            next += 1;
        }
        const bool comes = next < j->length && met[next] < known[i];
        list[made] = comes ? met[next++] : known[i++];
    }
}

static kith_status join_lists(void *arg, int64_t task, int32_t thread)
{
    const joining *j = arg;
    uint64_t *list = j->scratch + (int64_t)thread * j->length;
    const int64_t last = kin_min_i64((task + 1) * POSITIONS_A_TASK, j->count);
    for (int64_t p = task * POSITIONS_A_TASK; p < last; p++) {
        join_list(j, p, list);
        memcpy(j->words + p * j->length, list, (size_t)j->length * sizeof *list);
    }
    return KITH_OK;
}

static kith_status join_all(kith_ctx *ctx, const kin_descent_points *points, const uint8_t *sides,
                            int32_t length, const uint64_t *met, uint64_t *words)
{
    joining j = {
        .sides = sides, .length = length, .count = points->count, .met = met, .words = words};
    KIN_TRY(kin_alloc(ctx, &j.scratch, (uint64_t)ctx->threads * (uint64_t)length, sizeof *j.scratch,
                      "entries"));
    const kith_status status =
        kin_parallel(ctx, "start", kin_ceil_div(j.count, POSITIONS_A_TASK), join_lists, &j);
    kin_free(ctx, j.scratch);
    return status;
}

/* Lists from near tiles. */
static kith_status meet_tiles(kith_ctx *ctx, const kin_descent_points *points, int32_t length,
                              const uint32_t *tiles, int64_t each, uint64_t *words,
                              double *evaluations)
{
    kin_descent_expansion e = {
        .points = points, .length = length, .tiles = tiles, .tiles_each = each, .to = words};
    KIN_TRY(kin_descent_expand(ctx, &e));
    *evaluations += e.evaluations;
    return KITH_OK;
}

/* Then from neighbours of neighbours, until little is new. The best lists end in `words`, all
 * entries new to whoever goes on; where two graphs are made one, those from across and what the
 * last expansion brought. */
static kith_status meet_neighbours(kith_ctx *ctx, const kin_descent_points *points,
                                   const uint8_t *sides, int32_t length, uint64_t *words,
                                   uint64_t *other, uint64_t *reverse, double *evaluations)
{
    kin_descent_expansion e = {.points = points,
                               .length = length,
                               .near = (int32_t)kin_min_i64(NEAR, length),
                               .far = (int32_t)kin_min_i64(FAR, length),
                               .reverse = reverse,
                               .reverse_each = REVERSE,
                               .reverse_far = REVERSE_FAR,
                               .from = words,
                               .to = other};
    for (int i = 0; i < (sides != NULL ? EXPANSIONS_ACROSS : MOST_EXPANSIONS); i++) {
        KIN_TRY(kin_descent_reverse(ctx, points, length, length, e.from, REVERSE, reverse));
        KIN_TRY(kin_descent_expand(ctx, &e));
        *evaluations += e.evaluations;
        uint64_t *from = e.to;
        e.to = e.to == words ? other : words;
        e.from = from;
        if (e.updates * 100 < points->count * ENOUGH) {
            break;
        }
    }
    for (int64_t p = 0; p < points->count; p++) {
        const uint64_t *from = e.from + p * length;
        for (int32_t i = 0; i < length; i++) {
            const bool known =
                sides != NULL && from[i] != KIN_DESCENT_EMPTY && !is_across(sides, p, from[i]);
            words[p * length + i] = known ? from[i] : from[i] | 1;
        }
    }
    return KITH_OK;
}

/* sides NULL: nothing is known before. */
static kith_status start_by_tiles(kith_ctx *ctx, const kin_descent_points *points, int64_t each,
                                  const uint8_t *sides, int32_t length, uint64_t *words,
                                  kin_descent_started *started)
{
    const int64_t tiles = kin_ceil_div(points->count, KIN_FINE_STEP);
    const uint64_t count = (uint64_t)points->count;
    uint32_t *ids = NULL;
    uint64_t *other = NULL;
    uint64_t *reverse = NULL;
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status,
                 kin_alloc(ctx, &ids, kin_size_mul((uint64_t)tiles, (uint64_t)each), sizeof *ids,
                           "near tiles"),
                 done);
    KIN_TRY_GOTO(status, near_tiles(ctx, points->prepared, tiles, each, ids), done);
    KIN_TRY_GOTO(
        status,
        kin_alloc(ctx, &other, kin_size_mul(count, (uint64_t)length), sizeof *other, "lists"),
        done);
    KIN_TRY_GOTO(
        status,
        kin_alloc(ctx, &reverse, kin_size_mul(count, REVERSE), sizeof *reverse, "reverse edges"),
        done);
    KIN_TRY_GOTO(status,
                 meet_tiles(ctx, points, length, ids, each, sides != NULL ? other : words,
                            &started->evaluations),
                 done);
    if (sides != NULL) {
        KIN_TRY_GOTO(status, join_all(ctx, points, sides, length, other, words), done);
    }
    KIN_TRY_GOTO(
        status,
        meet_neighbours(ctx, points, sides, length, words, other, reverse, &started->evaluations),
        done);
done:
    kin_free(ctx, reverse);
    kin_free(ctx, other);
    kin_free(ctx, ids);
    return status;
}

/* Tiles that each crowd meets beside its own; 0: not by tiles. A pair that two crowds meet is
 * looked at twice. */
static int64_t tiles_each(const kin_descent_points *points, double share)
{
    const kin_cover *cover = &points->prepared->cover;
    const int64_t tiles = kin_ceil_div(points->count, KIN_FINE_STEP);
    if (cover->wide == 0 || share >= 1.0 || tiles < 4 * LEAST_TILES) {
        return 0;
    }
    const int64_t asked = llround(share * (double)tiles / 2.0) - 1;
    return kin_min_i64(kin_max_i64(asked, LEAST_TILES), tiles / 2);
}

kith_status kin_descent_start_screen(kith_ctx *ctx, const kin_descent_points *points, double share,
                                     int32_t length, uint64_t *words, kin_descent_started *started)
{
    const int64_t each = tiles_each(points, share);
    *started = (kin_descent_started){0};
    return each > 0 ? start_by_tiles(ctx, points, each, NULL, length, words, started)
                    : start_by_blocks(ctx, points, share, length, words, started);
}

kith_status kin_descent_start_across(kith_ctx *ctx, const kin_descent_points *points, double share,
                                     const uint8_t *sides, int32_t length, uint64_t *words,
                                     kin_descent_started *started)
{
    const int64_t each = tiles_each(points, share);
    uint64_t *met = NULL;
    *started = (kin_descent_started){0};
    if (each > 0) {
        return start_by_tiles(ctx, points, each, sides, length, words, started);
    }
    KIN_TRY(kin_alloc(ctx, &met, kin_size_mul((uint64_t)points->count, (uint64_t)length),
                      sizeof *met, "lists"));
    kith_status status = start_by_blocks(ctx, points, share, length, met, started);
    if (status == KITH_OK) {
        status = join_all(ctx, points, sides, length, met, words);
    }
    kin_free(ctx, met);
    return status;
}

uint64_t kin_descent_start_bytes(const kin_frame *frame, int64_t points, int32_t length,
                                 int32_t threads)
{
    const int64_t block = kin_screen_block(frame);
    const int64_t blocks = kin_ceil_div(points, block);
    /* Choices of blocks, of which most are never many, and centres. */
    const uint64_t schedule =
        kin_size_add(kin_schedule_bytes(points, points, block, frame->cols),
                     kin_size_mul((uint64_t)blocks, 8 * (uint64_t)threads + 64));
    const uint64_t by_blocks =
        kin_size_add(kin_size_add(kin_lists_bytes((int64_t)length + 1, points),
                                  kin_screen_bytes(frame, (int64_t)length + 1, threads)),
                     schedule);
    const uint64_t a_row = ((uint64_t)length + REVERSE) * sizeof(uint64_t) + 16;
    const uint64_t by_tiles = kin_size_add(kin_size_mul((uint64_t)points, a_row),
                                           kin_descent_expand_bytes(frame, length, threads));
    return by_blocks > by_tiles ? by_blocks : by_tiles;
}
