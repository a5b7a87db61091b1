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
 * their own pairs first; then each meets the others, the nearest first, strip by strip, so that
 * thresholds of all rows tighten early and at the same pace.
 *
 * Why it is right. A pair is lost only in the kernel, where its cost is above the limits of both
 * ends, in a skipped tile, or in a list's compaction: each proves that it is not among the first k
 * (screen_bound.h). Limits that are read before another thread tightens them are larger than need
 * be, never smaller. Every pair is screened exactly once, so no id is twice in a list. The answer
 * therefore does not depend on the order of the work.
 *
 * Locks. One for each block's lists; never two at a time.
 */
#include "screen/screen.h"

#include "base/base_size.h"
#include "host/host_cpu.h"
#include "host/host_threads.h"

/* ---- In which order blocks meet -------------------------------------------------------------- */

/* Near ones first, so that thresholds are nearly final when the many far ones come. Any order is
 * right.
 *
 * graph: every unordered pair of different blocks once. Blocks stand on a circle; block I owns its
 * pairs with the half circle ahead of it. Without covers, or with very many blocks, the order is
 * that of the blocks. */
typedef struct block_order {
    const kin_meet *meet;
    int64_t most;    /* blocks that a block of rows meets, at most */
    uint32_t *order; /* by block of rows: most; NULL: in the order of the blocks */
} block_order;

/* Above this many pairs of blocks, sorting them would take as long as it saves. */
static const int64_t MOST_PAIRS = 8 << 20;

/* How many blocks a block of rows meets, and the i-th of them (block_of). */
static int64_t count_blocks(const block_order *schedule, int64_t row_block)
{
    if (!schedule->meet->graph) {
        return schedule->meet->point.blocks;
    }
    /* With an even number of blocks the farthest step would meet every pair twice: only the first
     * half of the circle takes it. */
    const int64_t blocks = schedule->meet->row.blocks;
    return (blocks - 1) / 2 + (blocks % 2 == 0 && row_block < blocks / 2 ? 1 : 0);
}

static int64_t natural(const block_order *schedule, int64_t row_block, int64_t i)
{
    return (row_block + i + (schedule->meet->graph ? 1 : 0)) % schedule->meet->point.blocks;
}

static int64_t block_of(const block_order *schedule, int64_t row_block, int64_t i)
{
    return schedule->order == NULL ? natural(schedule, row_block, i)
                                   : schedule->order[row_block * schedule->most + i];
}

typedef struct sorting {
    block_order *schedule;
    int64_t wide;
    int32_t threads;
    float *row_centres;
    float *point_centres;
    uint64_t *words; /* by thread */
} sorting;

/* Bits of a non-negative float rise with it; a NaN comes last. */
static uint64_t order_of(float distance)
{
    uint32_t bits;
    memcpy(&bits, &distance, sizeof bits);
    return (uint64_t)bits << 32;
}

static void measure_blocks(const sorting *s, int64_t row_block, int64_t count, uint64_t *words)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t block = natural(s->schedule, row_block, i);
        const float distance = s->schedule->meet->ops->distance_sq(
            s->row_centres + row_block * s->wide, s->point_centres + block * s->wide, s->wide);
        words[i] = order_of(distance) | (uint64_t)block;
    }
}

static kith_status sort_row(void *arg, int64_t row_block, int32_t thread)
{
    const sorting *s = arg;
    uint64_t *words = s->words + thread * s->schedule->most;
    const int64_t count = count_blocks(s->schedule, row_block);
    measure_blocks(s, row_block, count, words);
    kin_select_sort_words(words, count);
    for (int64_t i = 0; i < count; i++) {
        s->schedule->order[row_block * s->schedule->most + i] = (uint32_t)words[i];
    }
    return KITH_OK;
}

/* The mean of a block's coarse centres. */
static void centre_blocks(const kin_meet_side *side, int64_t block, float *centres)
{
    const kin_cover *cover = side->cover;
    const int64_t tiles = kin_ceil_div(side->set->points, KIN_COARSE_STEP);
    const int64_t tiles_a_block = block / KIN_COARSE_STEP;
    for (int64_t tile = 0; tile < tiles; tile++) {
        float *centre = centres + tile / tiles_a_block * cover->wide;
        const float *part = cover->centres[KIN_COVER_COARSE] + tile * cover->wide;
        const int64_t share =
            kin_min_i64(tiles_a_block, tiles - tile / tiles_a_block * tiles_a_block);
        for (int64_t i = 0; i < cover->wide; i++) {
            centre[i] += part[i] / (float)share;
        }
    }
}

static void name_order(kin_layout *layout, void *job)
{
    block_order *schedule = job;
    const uint64_t rows = (uint64_t)schedule->meet->row.blocks;
    schedule->order = kin_layout_array(layout, kin_size_mul(rows, (uint64_t)schedule->most),
                                       sizeof *schedule->order);
}

static void name_sorting(kin_layout *layout, void *job)
{
    sorting *s = job;
    const block_order *schedule = s->schedule;
    const uint64_t rows = (uint64_t)schedule->meet->row.blocks;
    const uint64_t wide = (uint64_t)s->wide;
    const uint64_t points = (uint64_t)schedule->meet->point.blocks;
    s->row_centres = kin_layout_zeros(layout, kin_size_mul(rows, wide), sizeof *s->row_centres);
    s->point_centres =
        kin_layout_zeros(layout, kin_size_mul(points, wide), sizeof *s->point_centres);
    s->words =
        kin_layout_array(layout, (uint64_t)s->threads * (uint64_t)schedule->most, sizeof *s->words);
}

static kith_status sort_blocks(kin_hold *hold, block_order *schedule)
{
    const kin_meet *meet = schedule->meet;
    sorting s = {
        .schedule = schedule, .wide = meet->row.cover->wide, .threads = hold->ctx->threads};
    static const char *const WHAT = "an order of blocks";
    KIN_HOLD(own, hold->ctx);
    KIN_TRY(kin_hold_layout(hold, name_order, schedule, WHAT));
    KIN_TRY(kin_hold_layout(&own, name_sorting, &s, WHAT));
    centre_blocks(&meet->row, meet->block, s.row_centres);
    centre_blocks(&meet->point, meet->block, s.point_centres);
    return kin_parallel(hold->ctx, "prepare", meet->row.blocks, sort_row, &s);
}

/* Whether blocks have an order but their own. */
static bool size_schedule(const kin_meet *meet, block_order *schedule)
{
    *schedule = (block_order){.meet = meet};
    schedule->most = count_blocks(schedule, 0);
    const int64_t pairs = meet->row.blocks * schedule->most;
    return meet->row.cover != NULL && meet->row.cover->wide != 0 && meet->point.cover->wide != 0 &&
           pairs > 0 && pairs <= MOST_PAIRS;
}

enum { LEAST_BLOCK = KIN_BLOCK_STEP, MOST_BLOCK = 5 * KIN_BLOCK_STEP, MANY_BLOCKS = 60, STRIP = 8 };

static int64_t block_within(const kin_frame *frame, int64_t most)
{
    const int64_t row_bytes = (int64_t)frame->groups * 4;
    const int64_t fitting = kin_cpu_l2_bytes() * 3 / 8 / row_bytes / KIN_BLOCK_STEP;
    return kin_max_i64(LEAST_BLOCK, kin_min_i64(fitting * KIN_BLOCK_STEP, most));
}

_Static_assert(2 * MOST_BLOCK <= KIN_GATE_ROWS, "a bit for each strip of a block");
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
    block_order schedule;
    int32_t threads;
    kin_meet_work *workers;
} run;

/* ---- Pieces of work -------------------------------------------------------------------------- */

static kith_status own_block(void *arg, int64_t task, int32_t thread)
{
    const run *r = arg;
    return kin_meet_blocks(&r->meet, &r->workers[thread], task, task);
}

/* Task t: rows of block t mod blocks against strip t / blocks of those that they meet. All rows
 * take their nearest strip first. */
static kith_status strip(void *arg, int64_t task, int32_t thread)
{
    const run *r = arg;
    const int64_t row_block = task % r->meet.row.blocks;
    const int64_t first = task / r->meet.row.blocks * STRIP;
    const int64_t last = kin_min_i64(first + STRIP, count_blocks(&r->schedule, row_block));
    for (int64_t i = first; i < last; i++) {
        KIN_TRY(kin_meet_blocks(&r->meet, &r->workers[thread], row_block,
                                block_of(&r->schedule, row_block, i)));
    }
    return KITH_OK;
}

/* ---- Memory --------------------------------------------------------------------------------- */

static void name_limits(kin_layout *layout, int64_t block, double *reach, kin_meet_limits *l)
{
    const uint64_t n = (uint64_t)block;
    l->reach = reach;
    l->limit = kin_layout_zeros(layout, n, sizeof *l->limit);
    l->half = kin_layout_zeros(layout, n, sizeof *l->half);
    l->panel_half = kin_layout_zeros(layout, n / KIN_PANEL, sizeof *l->panel_half);
}

/* A kernel may log all pairs of a block with KIN_MEET_PANELS panels, and those of tiles that it
 * kept, on top of what was not yet delivered. */
int64_t kin_meet_log_room(const kin_meet *r)
{
    return r->block * (KIN_MEET_PANELS * KIN_PANEL +
                       (kin_meet_looks(r) ? KIN_MEET_LOOKS_A_ROW : KIN_MEET_PAIRS_A_ROW)) +
           KIN_TILE_KEPT + KIN_PANEL;
}

static void name_gate(kin_layout *layout, const kin_meet *r, kin_meet_work *w)
{
    kin_gate *g = &w->gate;
    const uint64_t block = (uint64_t)r->block;
    const kin_set *set = kin_meet_has_sieve(r) ? r->row.sieve : r->row.cast;
    g->rows = kin_layout_array(layout, block * (uint64_t)set->frame->groups, sizeof *g->rows);
    name_limits(layout, r->block, w->row.reach, &g->row);
    name_limits(layout, r->block, w->point.reach, &g->point);
    if (kin_meet_has_sieve(r)) {
        g->pairs = kin_layout_array(layout, KIN_MEET_PANELS * block, sizeof *g->pairs);
        g->which = kin_layout_array(layout, block + KIN_TILE_SOME, sizeof *g->which);
    } else {
        g->strips =
            kin_layout_array(layout, block / (KIN_GATE_PANELS * KIN_PANEL), sizeof *g->strips);
    }
}

static void name_log(kin_layout *layout, int64_t room, kin_tile_log *log)
{
    log->order = kin_layout_array(layout, (uint64_t)room, sizeof *log->order);
    log->pair = kin_layout_array(layout, (uint64_t)room, sizeof *log->pair);
}

void kin_meet_name(kin_layout *layout, const kin_meet *r, kin_meet_work *w)
{
    const uint64_t block = (uint64_t)r->block;
    const int32_t cast_groups = kin_meet_looks(r) ? r->row.cast->frame->groups : 0;
    const int64_t groups = kin_max_i64(r->frame->groups, cast_groups);
    int64_t capacity = r->row.lists->capacity;
    if (r->point.lists != NULL) {
        capacity = kin_max_i64(capacity, r->point.lists->capacity);
    }
    w->rows = kin_layout_array(layout, kin_size_mul(block, (uint64_t)groups), sizeof *w->rows);
    w->test = kin_layout_array(layout, KIN_MEET_PANELS * block, sizeof *w->test);
    w->row_tile_reach =
        kin_layout_array(layout, block / KIN_COARSE_STEP, sizeof *w->row_tile_reach);
    name_limits(layout, r->block, kin_layout_array(layout, block, sizeof(double)), &w->row);
    name_limits(layout, r->block, kin_layout_array(layout, block, sizeof(double)), &w->point);
    kin_even_name(layout, r->block, &w->even);
    name_log(layout, kin_meet_log_room(r), &w->row_log);
    name_log(layout, kin_meet_log_room(r), &w->point_log);
    if (kin_meet_has_gate(r) || kin_meet_has_sieve(r)) {
        name_gate(layout, r, w);
    }
    if (kin_meet_looks(r)) {
        w->panels =
            kin_layout_array(layout, kin_size_mul(block, (uint64_t)groups), sizeof *w->panels);
        kin_look_name(layout, r->block, kin_meet_log_room(r), &w->look);
    }
    kin_list_scratch_name(layout, capacity, r->frame->cols, &w->scratch);
}

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
    run r = {.screen = screen,
             .meet = {.frame = screen->point.set->frame,
                      .row = screen->row,
                      .point = screen->point,
                      .graph = screen->row.set == screen->point.set && screen->point.lists != NULL,
                      .block = screen->block},
             .threads = threads};
    r.meet.row.blocks = kin_ceil_div(screen->row.set->points, screen->block);
    r.meet.point.blocks = kin_ceil_div(screen->point.set->points, screen->block);
    return r;
}

/* Covers may be shapes. */
void kin_screen_plan(kin_layout *plan, kin_screen *shape, int32_t threads)
{
    run r = run_of(shape, threads);
    const uint64_t before = kin_layout_mark(plan);
    kin_layout_block(plan, name_arrays, &r);
    if (size_schedule(&r.meet, &r.schedule)) {
        sorting s = {.schedule = &r.schedule, .wide = r.meet.row.cover->wide, .threads = threads};
        kin_layout_block(plan, name_order, &r.schedule);
        kin_layout_passing(plan, name_sorting, &s);
    }
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
    KIN_HOLD(hold, r->ctx);
    if (size_schedule(&r->meet, &r->schedule)) {
        KIN_TRY(sort_blocks(&hold, &r->schedule));
    }
    if (r->meet.graph) {
        KIN_TRY(kin_parallel(r->ctx, "screen", r->meet.row.blocks, own_block, r));
    }
    const int64_t strips = kin_ceil_div(r->schedule.most, STRIP);
    return kin_parallel(r->ctx, "screen", strips * r->meet.row.blocks, strip, r);
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
