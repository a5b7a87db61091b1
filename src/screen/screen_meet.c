/* SPDX-License-Identifier: Apache-2.0
 *
 *      rows I  x  points J  ->  kernel  ->  logs  ->  lists of I (lock I), lists of J (lock J)
 *
 *      with shadows:            kernel on shadows  ->  logs  ->  full costs  ->  lists
 *      with a sieve before:     kernel on fewer columns  ->  rows by panel  ->  kernel on shadows
 *      with shadows, by tiles:  kernel on shadows  ->  tiles  ->  kernel  ->  logs  ->  lists
 *
 * As long as a row has no limit, shadows discard nothing, so such a block meets in full. */
#include "screen/screen.h"

#include "base/base_size.h"

/* Of a block with itself so many pairs pass their shadows (a tenth, and nine of ten tiles) that
 * full rows of fewer words are sooner. */
enum { LEAST_OWN_WORDS = 256 };

static int64_t block_points(const kin_meet *r, const kin_meet_side *s, int64_t block)
{
    return kin_min_i64(r->block, s->set->points - block * r->block);
}

/* Positions of a block with its padding. */
static int64_t block_padded(const kin_meet *r, const kin_meet_side *s, int64_t block)
{
    return kin_min_i64(r->block, s->set->padded - block * r->block);
}

typedef struct meeting {
    int64_t row_block;
    int64_t point_block;
    bool cast;           /* shadows meet */
    bool even;           /* the bound's parts stand in the terms */
    const kin_set *rows; /* as the unit sees them */
    const kin_set *points;
    const struct meeting *sieve; /* that of shadows of fewer columns, or NULL */
    const uint32_t *panels;      /* of the points' block */
    kin_bound_row row_worst;
    kin_bound_row point_worst;
    bool collects_points;
} meeting;

/* ---- Limits --------------------------------------------------------------------------------- */

/* A row's reach in the frame that the unit sees. */
static double reach_of(const kin_meet *r, const meeting *m, double reach)
{
    if (!m->cast) {
        return reach;
    }
    const double length =
        r->frame->bound == KIN_BOUND_INTEGER ? sqrt(reach > 0.0 ? reach : 0.0) : reach;
    return length / m->rows->frame->scale * KIN_BOUND_WIDEN;
}

/* Of rows [first, first + count) of `seen`, which collect to `lists`. */
static void set_limits(const kin_meet *r, const meeting *m, bool turned, kin_meet_limits *l)
{
    const kin_meet_side *own = turned ? &r->point : &r->row;
    const kin_set *seen = turned ? m->points : m->rows;
    const kin_bound_row other = turned ? m->row_worst : m->point_worst;
    const int64_t block = turned ? m->point_block : m->row_block;
    const int64_t count = block_points(r, own, block);
    const kin_frame *frame = seen->frame;
    const bool is_float = kin_tile_is_float(frame->kernel->type);
    const bool by_reach = frame->bound == KIN_BOUND_INTEGER;
    for (int64_t i = 0; by_reach && i < count; i++) {
        kin_limit_set(false, l->reach[i], &l->limit[i], &l->half[i]);
    }
    for (int64_t i = 0; !by_reach && i < count; i++) {
        const kin_bound_row row = kin_set_row(seen, block * r->block + i);
        const double reach = reach_of(r, m, l->reach[i]);
        const double limit = m->even
                                 ? kin_meet_even_limit(reach, row)
                                 : kin_bound_limit(frame->bound, reach, frame->kappa, row, other);
        kin_limit_set(is_float, limit, &l->limit[i], &l->half[i]);
    }
    for (int64_t i = count; i < kin_round_up(count, KIN_BLOCK_STEP); i++) {
        kin_limit_close(is_float, &l->limit[i], &l->half[i]);
    }
}

static void set_panel_halves(const kin_meet *r, const meeting *m, kin_meet_limits *l)
{
    const bool is_float = kin_tile_is_float(m->points->frame->kernel->type);
    const int64_t padded = block_padded(r, &r->point, m->point_block);
    for (int64_t panel = 0; panel < padded / KIN_PANEL; panel++) {
        kin_word most = {.i = KIN_LIMIT_NONE / 2};
        if (is_float) {
            most.f = -0.5F * KIN_LIMIT_ALL_F;
        }
        for (int64_t i = panel * KIN_PANEL; m->collects_points && i < (panel + 1) * KIN_PANEL;
             i++) {
            if (is_float) {
                most.f = l->half[i].f > most.f ? l->half[i].f : most.f;
            } else {
                most.i = l->half[i].i > most.i ? l->half[i].i : most.i;
            }
        }
        l->panel_half[panel] = most;
    }
}

static void read_reach(const kin_meet *r, const kin_meet_side *s, int64_t block, kin_meet_limits *l)
{
    const size_t bytes = (size_t)block_points(r, s, block) * sizeof *l->reach;
    if (r->take != NULL) {
        memcpy(l->reach, s->lists->reach + block * r->block, bytes);
        return;
    }
    pthread_mutex_lock(&s->locks[block]);
    memcpy(l->reach, s->lists->reach + block * r->block, bytes);
    pthread_mutex_unlock(&s->locks[block]);
}

static kin_bound_row worst_of(const kin_set *seen, int64_t first, int64_t count)
{
    kin_bound_row worst = {0.0, 0.0};
    for (int64_t i = 0; seen->lost != NULL && i < count; i++) {
        const kin_bound_row row = kin_set_row(seen, first + i);
        worst.norm = row.norm > worst.norm ? row.norm : worst.norm;
        worst.lost = row.lost > worst.lost ? row.lost : worst.lost;
    }
    return worst;
}

/* The worst of the blocks of a meeting's sets. */
static void set_worst(const kin_meet *r, meeting *m)
{
    if (m->collects_points) {
        m->row_worst =
            worst_of(m->rows, m->row_block * r->block, block_points(r, &r->row, m->row_block));
    }
    m->point_worst =
        worst_of(m->points, m->point_block * r->block, block_points(r, &r->point, m->point_block));
}

/* ---- Delivery ------------------------------------------------------------------------------- */

/* A row whose list holds k ids and was never compacted has no threshold yet, and lets everything
 * pass: do not wait until the list is full. */
static bool close_open_lists(const kin_meet *r, kin_meet_work *w, const kin_meet_side *to,
                             int64_t block)
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

static void keep_pair(kin_tile_log *log, int32_t order, uint32_t pair, bool kept)
{
    log->order[log->count] = order;
    log->pair[log->count] = pair;
    log->count += kept;
}

/* Full costs of the pairs whose shadows passed for either end, and what passes in full to the logs
 * of both. */
static void look(const kin_meet *r, kin_meet_work *w, const meeting *m)
{
    kin_tile_log *log = &w->row_log;
    const kin_look_blocks at = {.rows = r->row.set,
                                .points = r->point.set,
                                .first_row = m->row_block * r->block,
                                .first_point = m->point_block * r->block,
                                .block = r->block};
    const bool is_float = kin_tile_is_float(r->frame->kernel->type);
    kin_look_costs(&w->look, &at, log);
    w->looked += log->count;
    const int64_t passed = log->count;
    log->count = 0;
    for (int64_t i = 0; i < passed; i++) {
        const int32_t order = log->order[i];
        const uint32_t pair = log->pair[i];
        const double cost = is_float ? (double)kin_float_from_order(order) : (double)order;
        const kin_bound_row row = kin_set_row(at.rows, at.first_row + (pair >> 16));
        const kin_bound_row point = kin_set_row(at.points, at.first_point + (pair & 0xffff));
        if (m->collects_points) {
            const double limit = kin_bound_limit(r->frame->bound, w->point.reach[pair & 0xffff],
                                                 r->frame->kappa, row, point);
            keep_pair(&w->point_log, order, pair, !(cost > limit));
        }
        const double limit =
            kin_bound_limit(r->frame->bound, w->row.reach[pair >> 16], r->frame->kappa, row, point);
        keep_pair(log, order, pair, !(cost > limit));
    }
}

/* A pair in its blocks, and in the sets of its two ends. */
typedef struct meet_pair {
    uint32_t row;
    uint32_t point;
    int64_t own;
    int64_t other;
} meet_pair;

/* The order of a pair's own cost where it is within the pair's own limit, which that of its block
 * contains. */
static bool is_near(const kin_meet *r, const kin_meet_work *w, const meeting *m, bool turned,
                    const meet_pair *at, int32_t *order)
{
    const kin_meet_side *to = turned ? &r->point : &r->row;
    const kin_meet_side *from = turned ? &r->row : &r->point;
    if (r->frame->bound != KIN_BOUND_DISTANCE || !kin_tile_is_float(r->frame->kernel->type)) {
        return true;
    }
    double cost = (double)kin_float_from_order(*order);
    if (m->even && !m->cast) {
        cost += w->even.row_slack[at->row] + w->even.point_slack[at->point];
        *order = kin_order_float((float)cost);
    }
    const double limit =
        kin_bound_limit(r->frame->bound, to->lists->reach[at->own], r->frame->kappa,
                        kin_set_row(to->set, at->own), kin_set_row(from->set, at->other));
    return !(cost > limit);
}

/* The pairs that were found to the lists of the rows' block, or, turned round, of the points'.
 * Padding is too far for any list; but what is far in a corpus from a file is what the file says,
 * and behind the last position are no lists. */
static bool deliver(const kin_meet *r, kin_meet_work *w, const meeting *m, bool turned)
{
    const kin_meet_side *to = turned ? &r->point : &r->row;
    const kin_meet_side *from = turned ? &r->row : &r->point;
    const int64_t to_block = turned ? m->point_block : m->row_block;
    const int64_t from_block = turned ? m->row_block : m->point_block;
    kin_tile_log *log = turned ? &w->point_log : &w->row_log;
    kin_meet_limits *l = turned ? &w->point : &w->row;
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
        const meet_pair at = {row, point, own, other};
        int32_t order = log->order[i];
        if (is_near(r, w, m, turned, &at, &order)) {
            const uint32_t name = by_id ? from->set->ids[other] : (uint32_t)other;
            tightened |= kin_lists_add(to->lists, own, order, name, &w->scratch);
        }
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

/* Whether all rows have one, of both ends that collect. */
static bool has_limits(const kin_meet *r, const kin_meet_work *w, const meeting *m)
{
    return largest(w->row.reach, block_points(r, &r->row, m->row_block)) < INFINITY &&
           (!m->collects_points ||
            largest(w->point.reach, block_points(r, &r->point, m->point_block)) < INFINITY);
}

static void set_row_tile_reach(kin_meet_work *w, int64_t rows)
{
    for (int64_t first = 0; first < rows; first += KIN_COARSE_STEP) {
        w->row_tile_reach[first / KIN_COARSE_STEP] =
            largest(w->row.reach + first, kin_min_i64(KIN_COARSE_STEP, rows - first));
    }
}

static kith_status deliver_both(const kin_meet *r, kin_meet_work *w, const meeting *m)
{
    if (r->take != NULL) {
        const kith_status status =
            r->take(r->take_arg, w, m->row_block * r->block, m->point_block * r->block);
        w->row_log.count = 0;
        return status;
    }
    if (m->cast && w->row_log.count > 0) {
        look(r, w, m);
    }
    if (deliver(r, w, m, false)) {
        set_limits(r, m, false, &w->row);
        set_row_tile_reach(w, block_points(r, &r->row, m->row_block));
    }
    if (m->collects_points && deliver(r, w, m, true)) {
        set_limits(r, m, true, &w->point);
        set_panel_halves(r, m, &w->point);
    }
    return KITH_OK;
}

/* ---- Tiles that are too far apart ------------------------------------------------------------ */

/* Tests of tiles that never succeed cost more than they save: after a run of failures a worker
 * leaves them out for some meetings. */
enum { TESTS_TO_JUDGE = 2048, LEAST_SHARE = 32, REST = 64 };

static bool tests_tiles(const kin_meet *r, kin_meet_work *w)
{
    if (r->row.cover == NULL || r->row.cover->wide == 0 || r->point.cover->wide == 0 ||
        r->point.cover->radii[KIN_COVER_FINE] == NULL) {
        return false;
    }
    if (r->take == NULL && w->resting > 0) {
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
static bool apart(const kin_meet *r, kin_meet_work *w, const meeting *m, int64_t row_tile,
                  int64_t point_tile)
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

/* ---- A gate ----------------------------------------------------------------------------------
 *
 * Where whole tiles are looked at, shadows say which; and shadows of fewer columns which rows meet
 * which panels. */

/* Where they leave out too few, they rest for a meeting, and each time that it is so again for
 * twice as many. */
enum { GATE_STRIPS = 1024, MOST_PASS_OF_16 = 14, MOST_REST = 256 };

static bool gate_rests(kin_gate *g)
{
    if (g->resting > 0) {
        g->resting -= 1;
        return true;
    }
    if (g->tests > GATE_STRIPS) {
        const bool vain = g->passed * 16 > g->tests * MOST_PASS_OF_16;
        g->rest = vain ? kin_min_i64(2 * g->rest + 1, MOST_REST) : 0;
        g->resting = g->rest;
        g->tests = 0;
        g->passed = 0;
    }
    return false;
}

/* The shadows of two blocks whose limits were read. */
static meeting gate_meeting(const kin_meet *r, const meeting *m)
{
    meeting g = *m;
    g.cast = true;
    g.even = false;
    g.rows = kin_meet_has_sieve(r) ? r->row.sieve : r->row.cast;
    g.points = kin_meet_has_sieve(r) ? r->point.sieve : r->point.cast;
    set_worst(r, &g);
    return g;
}

/* No point takes anything. */
static void close_points(const kin_meet *r, const meeting *m, kin_meet_limits *l)
{
    for (int64_t i = 0; i < block_padded(r, &r->point, m->point_block); i++) {
        kin_limit_close(false, &l->limit[i], &l->half[i]);
    }
}

/* The block's rows and limits of both sides as the gate's kernel takes them. */
static void set_gate(const kin_meet *r, kin_gate *gate, const meeting *g)
{
    const kin_frame *frame = g->rows->frame;
    const int64_t padded = block_padded(r, &r->row, g->row_block);
    if (gate->packed != g->row_block + 1) {
        frame->kernel->pack(kin_set_panels(g->rows, g->row_block * r->block, padded, NULL),
                            frame->groups, (int32_t)padded, gate->rows);
        gate->packed = g->row_block + 1;
    }
    set_limits(r, g, false, &gate->row);
    if (g->collects_points) {
        set_limits(r, g, true, &gate->point);
    }
}

/* All rows of the block, and all panels of the other. */
static kin_tile_job gate_job(const kin_meet *r, const kin_gate *gate, const meeting *g)
{
    const int64_t row_first = g->row_block * r->block;
    const int64_t point_first = g->point_block * r->block;
    const int64_t points = block_padded(r, &r->point, g->point_block);
    return (kin_tile_job){.rows = gate->rows,
                          .panels = kin_set_panels(g->points, point_first, points, NULL),
                          .groups = g->rows->frame->groups,
                          .row_count = (int32_t)block_padded(r, &r->row, g->row_block),
                          .real_rows = (int32_t)block_points(r, &r->row, g->row_block),
                          .panel_count = (int32_t)(points / KIN_PANEL),
                          .half_term = g->rows->half_term + row_first,
                          .row_half = gate->row.half,
                          .start = g->points->start + point_first,
                          .col_limit = gate->point.limit,
                          .col_half = gate->point.half,
                          .panel_half = gate->point.panel_half};
}

static void count_strips(const kin_meet *r, kin_meet_work *w, const meeting *m)
{
    const int64_t rows = block_points(r, &r->row, m->row_block);
    const int64_t points = block_points(r, &r->point, m->point_block);
    const int64_t pairs =
        block_padded(r, &r->point, m->point_block) / (KIN_GATE_PANELS * KIN_PANEL);
    int64_t passed = 0;
    for (int64_t i = 0; i < pairs; i++) {
        passed += __builtin_popcountll(w->gate.strips[i]);
    }
    w->gate.tests += pairs * kin_ceil_div(rows, KIN_GATE_STRIP);
    w->gate.passed += passed;
    w->looked += kin_min_i64(passed * KIN_GATE_STRIP * KIN_GATE_PANELS * KIN_PANEL, rows * points);
}

/* Which strips may have a pair that passes; NULL: all. */
static const uint64_t *strips_of(const kin_meet *r, kin_meet_work *w, const meeting *m)
{
    kin_gate *gate = &w->gate;
    if (!kin_meet_has_gate(r) || !has_limits(r, w, m)) {
        return NULL;
    }
    if (gate_rests(gate)) {
        w->looked +=
            block_points(r, &r->row, m->row_block) * block_points(r, &r->point, m->point_block);
        return NULL;
    }
    const meeting g = gate_meeting(r, m);
    set_gate(r, gate, &g);
    set_panel_halves(r, &g, &gate->point);
    kin_tile_job job = gate_job(r, gate, &g);
    job.test = w->test;
    job.col_log = m->collects_points ? &w->point_log : NULL;
    g.rows->frame->kernel->gate(&job, gate->strips);
    count_strips(r, w, m);
    return gate->strips;
}

/* ---- One pair of blocks --------------------------------------------------------------------- */

static int64_t full_log(const kin_meet *r, const meeting *m)
{
    return r->block * (m->cast ? KIN_MEET_LOOKS_A_ROW : KIN_MEET_PAIRS_A_ROW);
}

/* The job of a pair of blocks, but for the rows and panels that a call takes. */
static kin_tile_job make_job(const kin_meet *r, kin_meet_work *w, const meeting *m)
{
    const int64_t point_first = m->point_block * r->block;
    return (kin_tile_job){
        .panels = m->panels,
        .groups = m->points->frame->groups,
        .start = m->even ? w->even.start : m->points->start + point_first,
        .odd = m->points->odd + point_first,
        .col_limit = w->point.limit,
        .col_half = w->point.half,
        .panel_half = w->point.panel_half,
        .test = w->test,
        .row_log = &w->row_log,
        .enough = full_log(r, m),
        .col_log = !m->collects_points ? NULL
                   : m->cast           ? &w->row_log
                                       : &w->point_log,
    };
}

/* Of the job's rows those that have a pair that passes the sieve with some panel meet it. */
static void run_sieved(const kin_meet *r, const kin_meet_work *w, const meeting *m,
                       const kin_tile_job *job)
{
    const kin_gate *gate = &w->gate;
    const meeting *g = m->sieve;
    kin_tile_job first = gate_job(r, gate, g);
    kin_tile_job some = *job;
    first.rows += (int64_t)job->first_row * first.groups;
    first.half_term += job->first_row;
    first.row_half += job->first_row;
    first.first_panel = job->first_panel;
    first.panel_count = job->panel_count;
    first.row_count = (int32_t)kin_round_up(job->real_rows, g->rows->frame->kernel->tile_rows);
    g->rows->frame->kernel->sieve(&first, gate->pairs);
    some.which = gate->which;
    for (int32_t panel = 0; panel < job->panel_count; panel++) {
        const uint16_t *passed = gate->pairs + (int64_t)panel * first.row_count;
        some.first_panel = job->first_panel + panel;
        some.which_count = 0;
        for (int32_t row = 0; row < job->real_rows; row++) {
            gate->which[some.which_count] = (uint16_t)row;
            some.which_count += passed[row] != 0;
        }
        memset(gate->which + some.which_count, 0, KIN_TILE_SOME * sizeof *gate->which);
        m->rows->frame->kernel->some(&some);
    }
}

/* Rows [first, last) of the block against the job's panels. */
static void run_rows(const kin_meet *r, const kin_meet_work *w, const meeting *m, int64_t first,
                     int64_t last, kin_tile_job *job)
{
    if (first >= last) {
        return;
    }
    const int64_t row_first = m->row_block * r->block + first;
    const kin_frame *frame = m->rows->frame;
    job->first_row = (int32_t)first;
    job->row_count = (int32_t)kin_round_up(last - first, frame->kernel->tile_rows);
    job->real_rows = (int32_t)(last - first);
    job->rows = w->rows + first * frame->groups;
    job->half_term = m->even ? w->even.half_term + first : m->rows->half_term + row_first;
    job->row_term = m->even ? w->even.row_term + first : m->rows->row_term + row_first;
    job->row_limit = w->row.limit + first;
    job->row_half = w->row.half + first;
    if (m->sieve != NULL) {
        run_sieved(r, w, m, job);
    } else {
        frame->kernel->run(job);
    }
}

/* One chunk of points against those coarse tiles of rows that are not too far; neighbouring tiles
 * share a call. */
static void run_chunk(const kin_meet *r, kin_meet_work *w, const meeting *m, int64_t points,
                      bool tests, kin_tile_job *job)
{
    const int64_t rows = block_points(r, &r->row, m->row_block);
    const int64_t point_tile = job->first_panel * KIN_PANEL / KIN_FINE_STEP;
    int64_t first = 0;
    int64_t end = 0;
    for (; tests && end < rows; end += KIN_COARSE_STEP) {
        if (!apart(r, w, m, end / KIN_COARSE_STEP, point_tile)) {
            continue;
        }
        if (end > first) {
            run_rows(r, w, m, first, end, job);
        }
        first = end + KIN_COARSE_STEP;
        w->skipped += kin_min_i64(KIN_COARSE_STEP, rows - end) * points;
    }
    if (rows > first) {
        run_rows(r, w, m, first, rows, job);
    }
}

static kith_status deliver_full(const kin_meet *r, kin_meet_work *w, const meeting *m)
{
    const int64_t full = full_log(r, m);
    const bool due = w->row_log.count > full || w->point_log.count > full;
    return due ? deliver_both(r, w, m) : KITH_OK;
}

/* A block with itself. Rows have no limits yet, and what stands next to a row is near: so rows meet
 * those points first that they stand among, and then, with limits, the others. */
static kith_status meet_itself(const kin_meet *r, kin_meet_work *w, const meeting *m, bool near,
                               kin_tile_job *job)
{
    const int64_t rows = block_points(r, &r->row, m->row_block);
    job->panel_count = KIN_MEET_PANELS;
    for (int64_t first = 0; first < rows; first += KIN_MEET_PANELS * KIN_PANEL) {
        const int64_t around = first / KIN_BLOCK_STEP * KIN_BLOCK_STEP;
        const int64_t behind = kin_min_i64(around + KIN_BLOCK_STEP, rows);
        job->first_panel = (int32_t)(first / KIN_PANEL);
        if (near) {
            run_rows(r, w, m, around, behind, job);
        } else {
            run_rows(r, w, m, 0, around, job);
            run_rows(r, w, m, behind, rows, job);
        }
        KIN_TRY(deliver_full(r, w, m));
    }
    return deliver_both(r, w, m);
}

static bool fetches_ahead(const meeting *m)
{
    return m->points->frame->kernel->isa == KIN_ISA_AMX;
}

/* The panels of the next call come from memory while this one computes: few rows have nothing else
 * to wait for. */
static inline __attribute__((always_inline)) void fetch_panels(const kin_tile_job *job,
                                                               int64_t panel)
{
    const int64_t words = (int64_t)job->groups * KIN_PANEL;
    kin_tile_fetch(job->panels + panel * words,
                   KIN_MEET_PANELS * words * (int64_t)sizeof *job->panels);
}

/* Panels of a call. Kernels of AMX fetch what comes next by themselves, begin and end each call
 * with strips that nothing runs beside, and say how many they took. */
static int64_t call_panels(const meeting *m, bool tests, int64_t left)
{
    return kin_min_i64(tests || !fetches_ahead(m) ? KIN_MEET_PANELS : left, left);
}

/* The block's rows for the unit, unless they are there already. */
static void take_rows(const kin_meet *r, kin_meet_work *w, const meeting *m)
{
    if (w->packed == m->row_block + 1 && w->packed_cast == m->cast) {
        return;
    }
    const kin_frame *frame = m->rows->frame;
    const int64_t padded = block_padded(r, &r->row, m->row_block);
    const bool some = m->cast && kin_meet_has_sieve(r);
    (some ? frame->kernel->pack_some : frame->kernel->pack)(
        kin_set_panels(m->rows, m->row_block * r->block, padded, w->panels), frame->groups,
        (int32_t)padded, w->rows);
    w->packed = m->row_block + 1;
    w->packed_cast = m->cast;
}

/* What meets, and how; reaches are read. */
static meeting meeting_of(const kin_meet *r, kin_meet_work *w, int64_t row_block,
                          int64_t point_block)
{
    meeting m = {.row_block = row_block,
                 .point_block = point_block,
                 .collects_points =
                     r->point.lists != NULL && !(r->graph && row_block == point_block)};
    read_reach(r, &r->row, row_block, &w->row);
    if (m.collects_points) {
        read_reach(r, &r->point, point_block, &w->point);
    }
    m.cast = kin_meet_looks(r) && has_limits(r, w, &m);
    m.rows = m.cast ? r->row.cast : r->row.set;
    m.points = m.cast ? r->point.cast : r->point.set;
    set_worst(r, &m);
    return m;
}

static bool even_out(const kin_meet *r, const kin_meet_work *w, const meeting *m)
{
    const kin_even_block rows = {m->rows, m->row_block * r->block,
                                 block_points(r, &r->row, m->row_block),
                                 block_padded(r, &r->row, m->row_block)};
    const kin_even_block points = {m->points, m->point_block * r->block,
                                   block_points(r, &r->point, m->point_block),
                                   block_padded(r, &r->point, m->point_block)};
    return r->take == NULL && kin_even_make(&rows, &points, &w->even);
}

/* Limits of both sides, the block's rows for the unit, and the sieve of a meeting that has one. */
static void begin(const kin_meet *r, kin_meet_work *w, int64_t row_block, int64_t point_block,
                  meeting *m, meeting *sieve)
{
    *m = meeting_of(r, w, row_block, point_block);
    m->even = even_out(r, w, m);
    take_rows(r, w, m);
    m->panels = kin_set_panels(m->points, point_block * r->block,
                               block_padded(r, &r->point, point_block), w->panels);
    set_limits(r, m, false, &w->row);
    if (m->collects_points) {
        set_limits(r, m, true, &w->point);
    }
    set_panel_halves(r, m, &w->point);
    set_row_tile_reach(w, block_points(r, &r->row, row_block));
    if (m->cast && kin_meet_has_sieve(r)) {
        *sieve = gate_meeting(r, m);
        set_gate(r, &w->gate, sieve);
        m->sieve = sieve;
        if (!m->collects_points) {
            close_points(r, m, &w->point);
            close_points(r, m, &w->gate.point);
        }
    }
}

static kith_status meet_others(const kin_meet *r, kin_meet_work *w, const meeting *m,
                               const kin_tile_job *all)
{
    kin_tile_job job = *all;
    const int64_t points = block_points(r, &r->point, m->point_block);
    const bool tests = tests_tiles(r, w);
    const int64_t panels = block_padded(r, &r->point, m->point_block) / KIN_PANEL;
    int32_t taken = 0;
    job.taken = &taken;
    for (int64_t first = 0; first * KIN_PANEL < points; first += taken) {
        job.first_panel = (int32_t)first;
        job.panel_count = (int32_t)call_panels(m, tests, panels - first);
        taken = job.panel_count;
        if (!fetches_ahead(m) && (first + taken) * KIN_PANEL < points) {
            fetch_panels(&job, first + KIN_MEET_PANELS);
        }
        run_chunk(r, w, m, kin_min_i64(taken * KIN_PANEL, points - first * KIN_PANEL), tests, &job);
        KIN_TRY(deliver_full(r, w, m));
    }
    return deliver_both(r, w, m);
}

kith_status kin_meet_blocks(const kin_meet *r, kin_meet_work *w, int64_t row_block,
                            int64_t point_block)
{
    const bool itself = r->graph && row_block == point_block;
    meeting m;
    meeting sieve;
    begin(r, w, row_block, point_block, &m, &sieve);
    w->pairs += block_points(r, &r->row, row_block) * block_points(r, &r->point, point_block);
    kin_tile_job job = make_job(r, w, &m);
    if (!itself) {
        job.strips = strips_of(r, w, &m);
        return meet_others(r, w, &m, &job);
    }
    KIN_TRY(meet_itself(r, w, &m, true, &job));
    if (kin_meet_looks(r) && r->frame->groups >= LEAST_OWN_WORDS) {
        begin(r, w, row_block, point_block, &m, &sieve);
        job = make_job(r, w, &m);
    }
    return meet_itself(r, w, &m, false, &job);
}
