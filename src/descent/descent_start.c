/* SPDX-License-Identifier: Apache-2.0 */
#include "descent/descent_start.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "descent/descent_kernel.h"
#include "exact/exact_screen.h"
#include "host/host_threads.h"

enum { POSITIONS_A_TASK = 256, ROWS_A_MATCH = 63 };

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

kith_status kin_descent_start_screen(kith_ctx *ctx, const kin_descent_points *points, double share,
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

uint64_t kin_descent_start_bytes(const kin_frame *frame, int64_t points, int32_t length,
                                 int32_t threads)
{
    const int64_t block = kin_screen_block(frame);
    const int64_t blocks = kin_ceil_div(points, block);
    /* Choices of blocks, of which most are never many, and centres. */
    const uint64_t schedule =
        kin_size_add(kin_schedule_bytes(points, points, block, frame->cols),
                     kin_size_mul((uint64_t)blocks, 8 * (uint64_t)threads + 64));
    return kin_size_add(kin_size_add(kin_lists_bytes((int64_t)length + 1, points),
                                     kin_screen_bytes(frame, (int64_t)length + 1, threads)),
                        schedule);
}
