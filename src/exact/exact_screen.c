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
 * their own pairs first; then each meets the others, the nearest first (exact_schedule.h), strip by
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

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "exact/exact_limit.h"
#include "host/host_cpu.h"
#include "host/host_threads.h"

enum { LEAST_BLOCK = KIN_BLOCK_STEP, MOST_BLOCK = 5 * KIN_BLOCK_STEP, STRIP = 8, CHUNK_PANELS = 2 };

int64_t kin_screen_block(const kin_frame *frame)
{
    const int64_t row_bytes = (int64_t)frame->groups * 4;
    const int64_t fitting = kin_cpu_l2_bytes() * 3 / 8 / row_bytes / KIN_BLOCK_STEP;
    return kin_max_i64(LEAST_BLOCK, kin_min_i64(fitting * KIN_BLOCK_STEP, MOST_BLOCK));
}

/* One end of the pairs. */
typedef struct side {
    const kin_set *set;
    kin_lists *lists; /* NULL: not collected */
    const kin_cover *cover;
    pthread_mutex_t *locks; /* one a block */
    int64_t blocks;
} side;

/* A thread's block of one side: limits as the kernel reads them. */
typedef struct limits {
    double *reach;
    kin_word *limit;
    kin_word *half;
    kin_word *panel_half;
} limits;

typedef struct worker {
    uint32_t *rows; /* the repacked block */
    kin_word *test;
    limits row;
    limits point;
    kin_tile_log row_log;
    kin_tile_log point_log;
    kin_list_scratch scratch;
    int64_t pairs;
    int64_t skipped;
    double *row_tile_reach; /* the largest reach of each coarse tile of the rows */
    int64_t tests;          /* of tiles, lately, */
    int64_t hits;           /* and how many were skipped */
    int64_t resting;        /* meetings left without tests */
} worker;

typedef struct run {
    kith_ctx *ctx;
    kin_screen *screen;
    const kin_frame *frame;
    side row;
    side point;
    bool graph;
    int64_t block;
    kin_schedule schedule;
    const kin_round_ops *ops;
    int32_t threads;
    worker *workers;
    void *arrays;
} run;

static int64_t block_points(const run *r, const side *s, int64_t block)
{
    return kin_min_i64(r->block, s->set->points - block * r->block);
}

/* Positions of a block with its padding. */
static int64_t block_padded(const run *r, const side *s, int64_t block)
{
    return kin_min_i64(r->block, s->set->padded - block * r->block);
}

/* ---- Limits --------------------------------------------------------------------------------- */

static void set_limits(const run *r, const side *own, int64_t first, int64_t count,
                       kin_bound_row other, limits *l)
{
    const bool is_float = kin_tile_is_float(r->frame->kernel->type);
    const bool by_cost = own->lists != NULL && own->lists->by_cost;
    for (int64_t i = 0; i < count; i++) {
        const kin_bound_row row = kin_set_row(own->set, first + i);
        const double limit =
            by_cost ? l->reach[i] + kin_bound_error(r->frame->kappa, row, other)
                    : kin_bound_limit(r->frame->bound, l->reach[i], r->frame->kappa, row, other);
        kin_limit_set(is_float, limit, &l->limit[i], &l->half[i]);
    }
    for (int64_t i = count; i < kin_round_up(count, KIN_BLOCK_STEP); i++) {
        kin_limit_close(is_float, &l->limit[i], &l->half[i]);
    }
}

static void set_panel_halves(const run *r, int64_t padded, bool collected, limits *l)
{
    const bool is_float = kin_tile_is_float(r->frame->kernel->type);
    for (int64_t panel = 0; panel < padded / KIN_PANEL; panel++) {
        kin_word most = {.i = KIN_LIMIT_NONE / 2};
        if (is_float) {
            most.f = -0.5F * KIN_LIMIT_ALL_F;
        }
        for (int64_t i = panel * KIN_PANEL; collected && i < (panel + 1) * KIN_PANEL; i++) {
            if (is_float) {
                most.f = l->half[i].f > most.f ? l->half[i].f : most.f;
            } else {
                most.i = l->half[i].i > most.i ? l->half[i].i : most.i;
            }
        }
        l->panel_half[panel] = most;
    }
}

static void read_reach(const run *r, const side *s, int64_t block, limits *l)
{
    pthread_mutex_lock(&s->locks[block]);
    memcpy(l->reach, s->lists->reach + block * r->block,
           (size_t)block_points(r, s, block) * sizeof *l->reach);
    pthread_mutex_unlock(&s->locks[block]);
}

static kin_bound_row worst_of_block(const run *r, const side *s, int64_t block)
{
    kin_bound_row worst = {0.0, 0.0};
    const int64_t first = block * r->block;
    for (int64_t i = 0; s->set->lost != NULL && i < block_points(r, s, block); i++) {
        const kin_bound_row row = kin_set_row(s->set, first + i);
        worst.norm = fmax(worst.norm, row.norm);
        worst.lost = fmax(worst.lost, row.lost);
    }
    return worst;
}

/* ---- Delivery ------------------------------------------------------------------------------- */

/* A row whose list holds k ids and was never compacted has no threshold yet, and lets everything
 * pass: do not wait until the list is full. */
static bool close_open_lists(const run *r, worker *w, const side *to, int64_t block)
{
    kin_lists *lists = to->lists;
    bool closed = false;
    const int64_t first = block * r->block;
    for (int64_t row = first; row < first + block_points(r, to, block); row++) {
        if (lists->reach[row] == INFINITY && lists->counts[row] >= lists->k) {
            kin_lists_compact(lists, row, &w->scratch);
            closed = true;
        }
    }
    return closed;
}

/* ---- One pair of blocks --------------------------------------------------------------------- */

typedef struct meeting {
    int64_t row_block;
    int64_t point_block;
    kin_bound_row row_worst;
    kin_bound_row point_worst;
    bool collects_points;
} meeting;

/* The pairs that were found to the lists of the rows' block, or, turned round, of the points'.
 * Padding is too far for any list; but what is far in a corpus from a file is what the file says,
 * and behind the last position are no lists. */
static bool deliver(const run *r, worker *w, const meeting *m, bool turned)
{
    const side *to = turned ? &r->point : &r->row;
    const side *from = turned ? &r->row : &r->point;
    const int64_t to_block = turned ? m->point_block : m->row_block;
    const int64_t from_block = turned ? m->row_block : m->point_block;
    kin_tile_log *log = turned ? &w->point_log : &w->row_log;
    limits *l = turned ? &w->point : &w->row;
    if (log->count == 0) {
        return false;
    }
    const bool by_id = kin_lists_by_id(to->lists);
    const int64_t to_first = to_block * r->block;
    const int64_t from_first = from_block * r->block;
    bool tightened = false;
    pthread_mutex_lock(&to->locks[to_block]);
    for (int64_t i = 0; i < log->count; i++) {
        const uint32_t row = log->pair[i] >> 16;
        const uint32_t point = log->pair[i] & 0xffff;
        const int64_t own = to_first + (turned ? point : row);
        const int64_t other = from_first + (turned ? row : point);
        if (own >= to->set->points || other >= from->set->points) {
            continue;
        }
        const uint32_t name = by_id ? from->set->ids[other] : (uint32_t)other;
        tightened |= kin_lists_add(to->lists, own, log->order[i], name, &w->scratch);
    }
    tightened |= close_open_lists(r, w, to, to_block);
    if (tightened) {
        memcpy(l->reach, to->lists->reach + to_first,
               (size_t)block_points(r, to, to_block) * sizeof *l->reach);
    }
    pthread_mutex_unlock(&to->locks[to_block]);
    log->count = 0;
    return tightened;
}

static double largest(const double *values, int64_t count)
{
    double most = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        most = values[i] > most ? values[i] : most;
    }
    return most;
}

static void set_row_tile_reach(worker *w, int64_t rows)
{
    for (int64_t first = 0; first < rows; first += KIN_COARSE_STEP) {
        w->row_tile_reach[first / KIN_COARSE_STEP] =
            largest(w->row.reach + first, kin_min_i64(KIN_COARSE_STEP, rows - first));
    }
}

static void deliver_both(const run *r, worker *w, const meeting *m)
{
    if (deliver(r, w, m, false)) {
        set_limits(r, &r->row, m->row_block * r->block, block_points(r, &r->row, m->row_block),
                   m->point_worst, &w->row);
        set_row_tile_reach(w, block_points(r, &r->row, m->row_block));
    }
    if (m->collects_points && deliver(r, w, m, true)) {
        set_limits(r, &r->point, m->point_block * r->block,
                   block_points(r, &r->point, m->point_block), m->row_worst, &w->point);
        set_panel_halves(r, block_padded(r, &r->point, m->point_block), true, &w->point);
    }
}

/* Tests of tiles that never succeed cost more than they save: after a run of failures a worker
 * leaves them out for some meetings. */
enum { TESTS_TO_JUDGE = 2048, LEAST_SHARE = 32, REST = 64 };

static bool tests_tiles(const run *r, worker *w)
{
    /* Balls prove something of distances, not of costs. */
    if (r->row.cover == NULL || r->row.cover->wide == 0 || r->point.cover->wide == 0 ||
        r->row.lists->by_cost) {
        return false;
    }
    if (w->resting > 0) {
        w->resting -= 1;
        return false;
    }
    if (w->tests > TESTS_TO_JUDGE) {
        w->resting = w->hits * LEAST_SHARE < w->tests ? REST : 0;
        w->tests = 0;
        w->hits = 0;
    }
    return true;
}

/* Whether a coarse tile of the rows and a fine tile of the points, counted in their blocks, are too
 * far apart to matter to either side. */
static bool apart(const run *r, worker *w, const meeting *m, int64_t row_tile, int64_t point_tile)
{
    double reach = w->row_tile_reach[row_tile];
    if (m->collects_points) {
        reach = fmax(reach,
                     largest(w->point.reach + point_tile * KIN_FINE_STEP,
                             kin_min_i64(KIN_FINE_STEP, block_points(r, &r->point, m->point_block) -
                                                            point_tile * KIN_FINE_STEP)));
    }
    if (!(reach < INFINITY)) {
        return false;
    }
    w->tests += 1;
    const bool far = kin_cover_apart(
        r->row.set, r->ops,
        (kin_cover_tile){r->row.cover, m->row_block * r->block / KIN_COARSE_STEP + row_tile},
        (kin_cover_tile){r->point.cover, m->point_block * r->block / KIN_FINE_STEP + point_tile},
        reach);
    w->hits += far;
    return far;
}

/* The job of a pair of blocks, but for the rows and panels that a call takes. */
static kin_tile_job make_job(const run *r, worker *w, const meeting *m)
{
    const int64_t point_first = m->point_block * r->block;
    const kin_set *points = r->point.set;
    return (kin_tile_job){
        .panels = points->panels + point_first * r->frame->groups,
        .groups = r->frame->groups,
        .panel_count = CHUNK_PANELS,
        .start = points->start + point_first,
        .odd = points->odd + point_first,
        .col_limit = w->point.limit,
        .panel_half = w->point.panel_half,
        .test = w->test,
        .row_log = &w->row_log,
        .col_log = m->collects_points ? &w->point_log : NULL,
    };
}

/* Rows [first, first + count) of the block against the job's panels. */
static void run_rows(const run *r, const worker *w, const meeting *m, int64_t first, int64_t count,
                     kin_tile_job *job)
{
    const int64_t row_first = m->row_block * r->block + first;
    const kin_set *rows = r->row.set;
    job->first_row = (int32_t)first;
    job->row_count = (int32_t)count;
    job->rows = w->rows + first * r->frame->groups;
    job->half_term = rows->half_term + row_first;
    job->row_term = rows->row_term + row_first;
    job->row_limit = w->row.limit + first;
    job->row_half = w->row.half + first;
    r->frame->kernel->run(job);
}

/* One chunk of points against those coarse tiles of rows that are not too far; neighbouring tiles
 * share a call. */
static void run_chunk(const run *r, worker *w, const meeting *m, int64_t points, bool tests,
                      kin_tile_job *job)
{
    const int64_t rows = block_points(r, &r->row, m->row_block);
    const int64_t padded = kin_round_up(rows, KIN_COARSE_STEP);
    const int64_t point_tile = job->first_panel * KIN_PANEL / KIN_FINE_STEP;
    int64_t first = 0;
    int64_t end = 0;
    for (; tests && end < padded; end += KIN_COARSE_STEP) {
        if (!apart(r, w, m, end / KIN_COARSE_STEP, point_tile)) {
            continue;
        }
        if (end > first) {
            run_rows(r, w, m, first, end - first, job);
        }
        first = end + KIN_COARSE_STEP;
        w->skipped += kin_min_i64(KIN_COARSE_STEP, rows - end) * points;
    }
    if (padded > first) {
        run_rows(r, w, m, first, padded - first, job);
    }
}

static void meet(const run *r, worker *w, int64_t row_block, int64_t point_block)
{
    const bool own = r->graph && row_block == point_block;
    const meeting m = {.row_block = row_block,
                       .point_block = point_block,
                       .row_worst = worst_of_block(r, &r->row, row_block),
                       .point_worst = worst_of_block(r, &r->point, point_block),
                       .collects_points = r->point.lists != NULL && !own};
    const int64_t rows = block_points(r, &r->row, row_block);
    const int64_t points = block_points(r, &r->point, point_block);
    read_reach(r, &r->row, row_block, &w->row);
    set_limits(r, &r->row, row_block * r->block, rows, m.point_worst, &w->row);
    if (m.collects_points) {
        read_reach(r, &r->point, point_block, &w->point);
        set_limits(r, &r->point, point_block * r->block, points, m.row_worst, &w->point);
    }
    set_panel_halves(r, block_padded(r, &r->point, point_block), m.collects_points, &w->point);
    set_row_tile_reach(w, rows);

    kin_tile_job job = make_job(r, w, &m);
    const bool tests = !own && tests_tiles(r, w);
    w->pairs += rows * points;
    const int64_t step = (int64_t)CHUNK_PANELS * KIN_PANEL;
    for (int64_t first = 0; first < points; first += step) {
        job.first_panel = (int32_t)(first / KIN_PANEL);
        run_chunk(r, w, &m, kin_min_i64(step, points - first), tests, &job);
        if (w->row_log.count > r->block || w->point_log.count > r->block) {
            deliver_both(r, w, &m);
        }
    }
    deliver_both(r, w, &m);
}

static void pack_rows(const run *r, worker *w, int64_t row_block)
{
    const kin_set *rows = r->row.set;
    r->frame->kernel->pack(rows->panels + row_block * r->block * r->frame->groups, r->frame->groups,
                           (int32_t)block_padded(r, &r->row, row_block), w->rows);
}

/* ---- The schedule --------------------------------------------------------------------------- */

static kith_status own_block(void *arg, int64_t task, int32_t thread)
{
    const run *r = arg;
    pack_rows(r, &r->workers[thread], task);
    meet(r, &r->workers[thread], task, task);
    return KITH_OK;
}

/* Task t: rows of block t mod blocks against strip t / blocks of those that they meet. All rows
 * take their nearest strip first. */
static kith_status strip(void *arg, int64_t task, int32_t thread)
{
    const run *r = arg;
    const int64_t row_block = task % r->row.blocks;
    const int64_t first = task / r->row.blocks * STRIP;
    const int64_t last = kin_min_i64(first + STRIP, kin_schedule_count(&r->schedule, row_block));
    if (first < last) {
        pack_rows(r, &r->workers[thread], row_block);
    }
    for (int64_t i = first; i < last; i++) {
        meet(r, &r->workers[thread], row_block, kin_schedule_block(&r->schedule, row_block, i));
    }
    return KITH_OK;
}

/* ---- Memory --------------------------------------------------------------------------------- */

static void name_limits(kin_layout *layout, int64_t block, limits *l)
{
    const uint64_t n = (uint64_t)block;
    l->reach = kin_layout_array(layout, n, sizeof *l->reach);
    l->limit = kin_layout_zeros(layout, n, sizeof *l->limit);
    l->half = kin_layout_zeros(layout, n, sizeof *l->half);
    l->panel_half = kin_layout_zeros(layout, n / KIN_PANEL, sizeof *l->panel_half);
}

/* One call of the kernel may log all pairs of a block with CHUNK_PANELS panels, on top of what was
 * not yet delivered. */
static void name_log(kin_layout *layout, int64_t block, kin_tile_log *log)
{
    const uint64_t room = (uint64_t)(block * (CHUNK_PANELS * KIN_PANEL + 1) + KIN_PANEL);
    log->order = kin_layout_array(layout, room, sizeof *log->order);
    log->pair = kin_layout_array(layout, room, sizeof *log->pair);
}

static void name_worker(kin_layout *layout, const run *r, worker *w)
{
    const uint64_t block = (uint64_t)r->block;
    const uint64_t words = kin_size_mul(block, (uint64_t)r->frame->groups);
    int64_t capacity = r->row.lists->capacity;
    if (r->point.lists != NULL) {
        capacity = kin_max_i64(capacity, r->point.lists->capacity);
    }
    w->rows = kin_layout_array(layout, words, sizeof *w->rows);
    w->test = kin_layout_array(layout, CHUNK_PANELS * block, sizeof *w->test);
    w->row_tile_reach =
        kin_layout_array(layout, block / KIN_COARSE_STEP, sizeof *w->row_tile_reach);
    name_limits(layout, r->block, &w->row);
    name_limits(layout, r->block, &w->point);
    name_log(layout, r->block, &w->row_log);
    name_log(layout, r->block, &w->point_log);
    kin_list_scratch_name(layout, capacity, r->frame->cols, &w->scratch);
}

static void name_arrays(kin_layout *layout, void *job)
{
    run *r = job;
    r->row.locks = kin_layout_array(layout, (uint64_t)r->row.blocks, sizeof *r->row.locks);
    /* Of a graph both sides have the same lists, so the same locks. */
    r->point.locks =
        r->graph ? r->row.locks
                 : kin_layout_array(layout, (uint64_t)r->point.blocks, sizeof *r->point.locks);
    r->workers = kin_layout_zeros(layout, (uint64_t)r->threads, sizeof *r->workers);
    for (int32_t t = 0; t < r->threads; t++) {
        worker spare;
        name_worker(layout, r, kin_layout_item(r->workers, t, &spare));
    }
}

static side side_of(const kin_set *set, kin_lists *lists, const kin_cover *cover, int64_t block)
{
    return (side){
        .set = set, .lists = lists, .cover = cover, .blocks = kin_ceil_div(set->points, block)};
}

static run run_of(kin_screen *screen, int32_t threads)
{
    return (run){
        .screen = screen,
        .frame = screen->points->frame,
        .graph = screen->rows == screen->points && screen->point_lists != NULL,
        .block = screen->block,
        .row = side_of(screen->rows, screen->row_lists, screen->row_cover, screen->block),
        .point = side_of(screen->points, screen->point_lists, screen->point_cover, screen->block),
        .threads = threads};
}

static kin_blocks blocks_of(const run *r)
{
    return (kin_blocks){.rows = r->row.cover,
                        .points = r->point.cover,
                        .row_points = r->row.set->points,
                        .point_points = r->point.set->points,
                        .block = r->block,
                        .near = r->screen->near,
                        .graph = r->graph};
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
static kith_status make_locks(kith_ctx *ctx, const side *s, int64_t *made)
{
    for (*made = 0; *made < s->blocks; *made += 1) {
        if (pthread_mutex_init(&s->locks[*made], NULL) != 0) {
            return kin_fail(ctx, KITH_E_MEMORY, "no memory for locks (free some memory)");
        }
    }
    return KITH_OK;
}

static void destroy_locks(const side *s, int64_t made)
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
    if (r->graph) {
        status = kin_parallel(r->ctx, "screen", r->row.blocks, own_block, r);
    }
    if (status == KITH_OK) {
        const int64_t strips = kin_ceil_div(r->schedule.most, STRIP);
        status = kin_parallel(r->ctx, "screen", strips * r->row.blocks, strip, r);
    }
    kin_free(r->ctx, r->schedule.block);
    return status;
}

static kith_status run_locked(run *r)
{
    int64_t rows = 0;
    int64_t points = 0;
    kith_status status = make_locks(r->ctx, &r->row, &rows);
    if (status == KITH_OK && !r->graph) {
        status = make_locks(r->ctx, &r->point, &points);
    }
    if (status == KITH_OK) {
        status = run_blocks(r);
    }
    destroy_locks(&r->point, points);
    destroy_locks(&r->row, rows);
    return status;
}

kith_status kin_screen_run(kith_ctx *ctx, kin_screen *screen)
{
    run r = run_of(screen, ctx->threads);
    r.ctx = ctx;
    r.ops = kin_round_get(ctx->isa);
    screen->pairs = 0;
    screen->pairs_skipped = 0;
    screen->keys_computed = 0;
    KIN_TRY(kin_layout_make(ctx, name_arrays, &r, "the screen's blocks", &r.arrays));
    const kith_status status = run_locked(&r);
    for (int32_t t = 0; t < r.threads; t++) {
        screen->pairs += r.workers[t].pairs;
        screen->pairs_skipped += r.workers[t].skipped;
        screen->keys_computed += r.workers[t].scratch.keys_computed;
    }
    kin_free(ctx, r.arrays);
    return status;
}
