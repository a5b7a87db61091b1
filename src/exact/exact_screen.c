/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Both sets are cut into blocks whose rounded rows fit in the second-level cache. A piece of
 * work takes one block of rows, repacks it for the unit, and runs it against a strip of blocks of
 * points. The kernel writes survivors to a log of the thread; the log is delivered to the lists of
 * the block under the block's lock, and the limits are read again: the screen tightens as it goes.
 *
 *      rows I  |  points J     J+1     J+2 ...        one piece of work
 *              |  screen  -> log -> lists of I (lock I), lists of J (lock J)
 *
 * Graph. Every unordered pair of blocks is screened once and serves both ends. All blocks take
 * their own pairs first; then each meets the others, the nearest first (exact_screen.h), strip by
 * strip, so that thresholds of all rows tighten early and at the same pace.
 *
 * Why it is right. A pair is lost only in the kernel, where its cost is above the limits of both
 * ends, in a skipped tile, or in a list's compaction: each proves that it is not among the first k
 * (exact_bound.h). Limits that are read before another thread tightens them are larger than need
 * be, never smaller. Every pair is screened exactly once, so no id is twice in a list. The answer
 * therefore does not depend on the order of the work.
 *
 * Locks. One for each block's lists; never two at a time.
 */
#include "exact/exact_screen.h"

#include "base/base_size.h"
#include "host/host_cpu.h"
#include "host/host_threads.h"

enum { LEAST_BLOCK = KIN_BLOCK_STEP, MOST_BLOCK = 5 * KIN_BLOCK_STEP, MANY_BLOCKS = 60, STRIP = 8 };

static int64_t block_within(const kin_frame *frame, int64_t most)
{
    const int64_t row_bytes = (int64_t)frame->groups * 4;
    const int64_t fitting = kin_cpu_l2_bytes() * 3 / 8 / row_bytes / KIN_BLOCK_STEP;
    return kin_max_i64(LEAST_BLOCK, kin_min_i64(fitting * KIN_BLOCK_STEP, most));
}

int64_t kin_screen_block(const kin_frame *frame)
{
    return block_within(frame, MOST_BLOCK);
}

int64_t kin_screen_graph_block(const kin_frame *frame, int64_t points)
{
    const int64_t longer = 2 * (int64_t)MOST_BLOCK;
    return block_within(frame, points < MANY_BLOCKS * longer ? MOST_BLOCK : longer);
}

typedef struct run {
    kith_ctx *ctx;
    kin_screen *screen;
    kin_meet meet;
    kin_schedule schedule;
    int32_t threads;
    kin_meet_work *workers;
} run;

/* ---- The schedule --------------------------------------------------------------------------- */

static kith_status own_block(void *arg, int64_t task, int32_t thread)
{
    const run *r = arg;
    kin_meet_blocks(&r->meet, &r->workers[thread], task, task);
    return KITH_OK;
}

/* Task t: rows of block t mod blocks against strip t / blocks of those that they meet. All rows
 * take their nearest strip first. */
static kith_status strip(void *arg, int64_t task, int32_t thread)
{
    const run *r = arg;
    const int64_t row_block = task % r->meet.row.blocks;
    const int64_t first = task / r->meet.row.blocks * STRIP;
    const int64_t last = kin_min_i64(first + STRIP, kin_schedule_count(&r->schedule, row_block));
    for (int64_t i = first; i < last; i++) {
        kin_meet_blocks(&r->meet, &r->workers[thread], row_block,
                        kin_schedule_block(&r->schedule, row_block, i));
    }
    return KITH_OK;
}

/* ---- Memory --------------------------------------------------------------------------------- */

static void name_arrays(kin_layout *layout, void *job)
{
    run *r = job;
    r->meet.row.locks =
        kin_layout_array(layout, (uint64_t)r->meet.row.blocks, sizeof *r->meet.row.locks);
    /* Of a graph both sides have the same lists, so the same locks. */
    r->meet.point.locks = r->meet.graph ? r->meet.row.locks
                                        : kin_layout_array(layout, (uint64_t)r->meet.point.blocks,
                                                           sizeof *r->meet.point.locks);
    r->workers = kin_layout_zeros(layout, (uint64_t)r->threads, sizeof *r->workers);
    for (int32_t t = 0; t < r->threads; t++) {
        kin_meet_work spare;
        kin_meet_name(layout, &r->meet, kin_layout_item(r->workers, t, &spare));
    }
}

static run run_of(kin_screen *screen, int32_t threads)
{
    const int64_t block = screen->block;
    return (run){.screen = screen,
                 .meet = {.frame = screen->points->frame,
                          .row = {.set = screen->rows,
                                  .cast = screen->row_cast,
                                  .lists = screen->row_lists,
                                  .cover = screen->row_cover,
                                  .blocks = kin_ceil_div(screen->rows->points, block)},
                          .point = {.set = screen->points,
                                    .cast = screen->point_cast,
                                    .lists = screen->point_lists,
                                    .cover = screen->point_cover,
                                    .blocks = kin_ceil_div(screen->points->points, block)},
                          .graph = screen->rows == screen->points && screen->point_lists != NULL,
                          .block = block},
                 .threads = threads};
}

static kin_blocks blocks_of(const run *r)
{
    return (kin_blocks){.rows = r->meet.row.cover,
                        .points = r->meet.point.cover,
                        .row_points = r->meet.row.set->points,
                        .point_points = r->meet.point.set->points,
                        .block = r->meet.block,
                        .near = r->screen->near,
                        .graph = r->meet.graph};
}

void kin_screen_plan(kin_layout *plan, kin_screen *shape, int32_t threads)
{
    run r = run_of(shape, threads);
    const kin_blocks blocks = blocks_of(&r);
    const uint64_t before = kin_layout_mark(plan);
    kin_layout_block(plan, name_arrays, &r);
    kin_schedule_plan(plan, &blocks, threads);
    kin_layout_back(plan, before);
}

/* ---- All of it ------------------------------------------------------------------------------ */

/* Default mutexes need no resources: initialisation cannot fail on the systems we run on, and costs
 * nothing to check. *made: how many there are to destroy. */
static kith_status make_locks(kith_ctx *ctx, const kin_meet_side *s, int64_t *made)
{
    for (*made = 0; *made < s->blocks; *made += 1) {
        KIN_FAIL_IF(pthread_mutex_init(&s->locks[*made], NULL) != 0, ctx, KITH_E_MEMORY,
                    kin_at(NULL), "no memory for locks (free some memory)");
    }
    return KITH_OK;
}

static void destroy_locks(const kin_meet_side *s, int64_t made)
{
    for (int64_t i = 0; i < made; i++) {
        (void)pthread_mutex_destroy(&s->locks[i]);
    }
}

static kith_status run_blocks(run *r)
{
    const kin_blocks blocks = blocks_of(r);
    KIN_TRY(kin_schedule_make(r->ctx, &blocks, &r->schedule));
    kith_status status = KITH_OK;
    if (r->meet.graph) {
        status = kin_parallel(r->ctx, "screen", r->meet.row.blocks, own_block, r);
    }
    if (status == KITH_OK) {
        const int64_t strips = kin_ceil_div(r->schedule.most, STRIP);
        status = kin_parallel(r->ctx, "screen", strips * r->meet.row.blocks, strip, r);
    }
    kin_free(r->ctx, r->schedule.block);
    return status;
}

static kith_status run_locked(run *r)
{
    int64_t rows = 0;
    int64_t points = 0;
    kith_status status = make_locks(r->ctx, &r->meet.row, &rows);
    if (status == KITH_OK && !r->meet.graph) {
        status = make_locks(r->ctx, &r->meet.point, &points);
    }
    KIN_THEN(status, run_blocks(r));
    destroy_locks(&r->meet.point, points);
    destroy_locks(&r->meet.row, rows);
    return status;
}

kith_status kin_screen_run(kith_ctx *ctx, kin_screen *screen)
{
    run r = run_of(screen, ctx->threads);
    r.ctx = ctx;
    r.meet.ops = kin_round_get(ctx->isa);
    screen->pairs = 0;
    screen->pairs_skipped = 0;
    screen->pairs_looked = 0;
    screen->keys_computed = 0;
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_hold_layout(&hold, name_arrays, &r, "the screen's blocks"));
    const kith_status status = run_locked(&r);
    for (int32_t t = 0; t < r.threads; t++) {
        screen->pairs += r.workers[t].pairs;
        screen->pairs_skipped += r.workers[t].skipped;
        screen->pairs_looked += r.workers[t].looked;
        screen->keys_computed += r.workers[t].scratch.keys_computed;
    }
    return status;
}
