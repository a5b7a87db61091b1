/* SPDX-License-Identifier: Apache-2.0 */
#include "exact/exact_search.h"

#include "base/base_size.h"
#include "host/host_threads.h"

#include <math.h>

/* Comparing runs costs 1 / RUN^2 of comparing rows. All centers are in memory: of many columns runs
 * are longer. */
enum { RUN = 256, RUNS_A_TASK = 16, BALLS = KIN_BOUNDS_BALLS, SIDES = KIN_BOUNDS_SIDES, TRIED = 8 };
static const uint64_t MOST_BYTES = (uint64_t)16 << 20;
/* Squares of what is nearer may underflow. */
static const double TINY = 0x1p-500;

/* ---- Making --------------------------------------------------------------------------------- */

static bool is_squared(const kin_bounds *bounds)
{
    return bounds->distance.metric == KITH_SQEUCLIDEAN;
}

/* The metric between transformed rows that obeys the triangle inequality. */
static bool choose_metric(kith_metric given, kith_metric *metric)
{
    *metric = given;
    if (kin_metric_get_traits(given)->screen == KIN_SCREEN_DISTANCE) {
        *metric = KITH_SQEUCLIDEAN;
        return true;
    }
    return given == KITH_MANHATTAN || given == KITH_CHEBYSHEV;
}

static void choose_runs(const kin_bounds_sets *sets, kin_bounds *bounds)
{
    bounds->wide = kin_round_up(sets->distance.cols, KIN_METRIC_LANES);
    const int64_t a_run = (BALLS * (bounds->wide + 1) + 1) * (int64_t)sizeof(double);
    const int64_t most = kin_max_i64(1, (int64_t)MOST_BYTES / a_run / kin_max_i64(1, sets->count));
    bounds->run = kin_max_i64(RUN, kin_ceil_div(sets->rows, most));
    bounds->runs = kin_ceil_div(sets->rows, bounds->run);
    bounds->given = sets->distance;
    bounds->distance = sets->distance;
    bounds->usable =
        sets->count > 1 && choose_metric(sets->distance.metric, &bounds->distance.metric);
}

typedef struct naming {
    kin_bounds *bounds;
    uint64_t sets;
    uint64_t threads;
} naming;

static void name_bounds(kin_layout *layout, void *job)
{
    const naming *n = job;
    kin_bounds *b = n->bounds;
    const uint64_t runs = (uint64_t)b->runs;
    const uint64_t all = runs * n->sets;
    const uint64_t wide = (uint64_t)b->wide;
    b->centers = kin_layout_zeros(layout, kin_size_mul(all, BALLS * wide), sizeof *b->centers);
    b->radii = kin_layout_array(layout, all, BALLS * sizeof *b->radii);
    b->reaches = kin_layout_array(layout, all, sizeof *b->reaches);
    b->made = kin_layout_zeros(layout, n->sets, sizeof *b->made);
    b->keys = kin_layout_array(layout, n->threads * runs, BALLS * sizeof *b->keys);
    b->balls = kin_layout_array(layout, n->threads * (uint64_t)b->run, sizeof *b->balls);
    b->values = kin_layout_zeros(layout, n->threads * wide, sizeof *b->values);
    b->meets = kin_layout_array(layout, SIDES * runs, sizeof *b->meets);
}

uint64_t kin_bounds_bytes(const kith_ctx *ctx, const kin_bounds_sets *sets)
{
    kin_bounds b;
    memset(&b, 0, sizeof b);
    choose_runs(sets, &b);
    naming n = {.bounds = &b, .sets = (uint64_t)sets->count, .threads = (uint64_t)ctx->threads};
    kin_layout plan = {.block = NULL};
    if (b.usable) {
        kin_layout_block(&plan, name_bounds, &n);
    }
    return plan.peak;
}

kith_status kin_bounds_make(kith_ctx *ctx, const kin_bounds_sets *sets, kin_bounds *b)
{
    memset(b, 0, sizeof *b);
    choose_runs(sets, b);
    if (!b->usable) {
        return KITH_OK;
    }
    b->key_scale = kin_metric_get_traits(b->given.metric)->key_scale;
    naming n = {.bounds = b, .sets = (uint64_t)sets->count, .threads = (uint64_t)ctx->threads};
    return kin_layout_make(ctx, name_bounds, &n, "balls of rows", &b->block);
}

void kin_bounds_free(kith_ctx *ctx, kin_bounds *b)
{
    kin_free(ctx, b->block);
    memset(b, 0, sizeof *b);
}

/* ---- One set -------------------------------------------------------------------------------- */

typedef struct measuring {
    const kin_bounds *bounds;
    const kin_bounds_part *part;
    kin_rows rows;
    int64_t step; /* from run to run */
} measuring;

static int64_t runs_of(const kin_bounds *bounds, int64_t rows)
{
    return kin_ceil_div(rows, bounds->run);
}

static kin_rows centers_of(const kin_bounds *bounds, int32_t set)
{
    const int64_t balls = bounds->runs * BALLS;
    return (kin_rows){
        .matrix = {.data = bounds->centers + set * balls * bounds->wide,
                   .rows = balls,
                   .stride_bytes = bounds->wide * (int64_t)sizeof(double),
                   .cols = bounds->distance.cols,
                   .dtype = KITH_F64},
    };
}

/* A distance of centers and rows from their key. */
static double distance_of(const kin_bounds *bounds, double key)
{
    return is_squared(bounds) ? sqrt(key) : key;
}

/* A run on its way to balls. */
typedef struct cutting {
    const measuring *m;
    int64_t first; /* row of the set */
    int64_t rows;
    int64_t ball;     /* the run's first one in its set */
    kin_rows centers; /* of the set */
    double *values;
    uint8_t *ball_of;
    int64_t farthest[BALLS]; /* of each ball, from its center */
} cutting;

static double *center_of(const cutting *c, int ball)
{
    const kin_bounds *b = c->m->bounds;
    const int64_t at = c->m->part->set * b->runs * BALLS + c->ball + ball;
    return b->centers + at * b->wide;
}

static double *radius_of(const cutting *c, int ball)
{
    const kin_bounds *b = c->m->bounds;
    return b->radii + c->m->part->set * b->runs * BALLS + c->ball + ball;
}

static void load(const cutting *c, int64_t row, double *values)
{
    (void)kin_metric_load(&c->m->bounds->given, &c->m->rows, c->first + row, values);
}

/* Of the row that is loaded. */
static double key_to(const cutting *c, int ball)
{
    const kin_query query = {.values = c->values};
    double key = 0.0;
    kin_metric_keys_run(&c->m->bounds->distance, &query, &c->centers, c->ball + ball, 1, &key);
    return key;
}

/* The mean of a ball's rows becomes its center, as any point might. */
static void move_center(const cutting *c, int ball)
{
    const int64_t wide = c->m->bounds->wide;
    double *center = center_of(c, ball);
    int64_t count = 0;
    memset(center, 0, (size_t)wide * sizeof *center);
    for (int64_t row = 0; row < c->rows; row++) {
        if (c->ball_of[row] == ball) {
            load(c, row, c->values);
            count += 1;
            for (int64_t i = 0; i < wide; i++) {
                center[i] += c->values[i];
            }
        }
    }
    for (int64_t i = 0; i < wide; i++) {
        center[i] /= (double)count;
    }
}

/* The largest key of a ball's rows to its center. */
static double find_farthest(cutting *c, int ball)
{
    double most = 0.0;
    for (int64_t row = 0; row < c->rows; row++) {
        if (c->ball_of[row] == ball) {
            load(c, row, c->values);
            const double key = key_to(c, ball);
            c->farthest[ball] = key <= most ? c->farthest[ball] : row;
            most = key <= most ? most : key; /* a NaN stays, and then nothing is far */
        }
    }
    return most;
}

static void close_ball(cutting *c, int ball)
{
    move_center(c, ball);
    const double far = distance_of(c->m->bounds, find_farthest(c, ball));
    *radius_of(c, ball) = (far + TINY) * KIN_BOUND_WIDEN;
}

/* Between the row that is farthest from the center, and the one that is farthest from that. */
static bool cut_ball(cutting *c, int ball, int other)
{
    int64_t taken = 0;
    load(c, c->farthest[ball], center_of(c, ball));
    if (!(find_farthest(c, ball) > 0.0)) {
        return false;
    }
    load(c, c->farthest[ball], center_of(c, other));
    for (int64_t row = 0; row < c->rows; row++) {
        if (c->ball_of[row] == ball) {
            load(c, row, c->values);
            if (key_to(c, other) < key_to(c, ball)) {
                c->ball_of[row] = (uint8_t)other;
                taken += 1;
            }
        }
    }
    return taken > 0;
}

static kith_status measure_run(void *arg, int64_t task, int32_t thread)
{
    const measuring *m = arg;
    const kin_bounds *b = m->bounds;
    const int64_t run = task * m->step;
    cutting c = {.m = m,
                 .first = run * b->run,
                 .rows = kin_min_i64(b->run, m->part->rows.rows - run * b->run),
                 .ball = run * BALLS,
                 .centers = centers_of(b, m->part->set),
                 .values = b->values + thread * b->wide,
                 .ball_of = b->balls + thread * b->run};
    memset(c.ball_of, 0, (size_t)c.rows);
    for (int ball = 0; ball < BALLS; ball++) {
        *radius_of(&c, ball) = -(double)INFINITY;
    }
    close_ball(&c, 0);
    for (int other = 1; other < BALLS; other++) {
        int widest = 0;
        for (int ball = 1; ball < other; ball++) {
            widest = *radius_of(&c, ball) > *radius_of(&c, widest) ? ball : widest;
        }
        const bool cut = cut_ball(&c, widest, other);
        close_ball(&c, widest);
        if (!cut) {
            break;
        }
        close_ball(&c, other);
    }
    return KITH_OK;
}

/* Every step-th run has balls then, no other one has. */
static kith_status measure(kith_ctx *ctx, const kin_bounds *b, const kin_bounds_part *part,
                           int64_t step)
{
    KIN_HOLD(hold, ctx);
    kin_row_transform *transforms = NULL;
    measuring m = {.bounds = b, .part = part, .rows = {.matrix = part->rows}, .step = step};
    double *radii = b->radii + part->set * b->runs * BALLS;
    for (int64_t i = 0; i < b->runs * BALLS; i++) {
        radii[i] = -(double)INFINITY;
    }
    if (kin_metric_get_traits(b->given.metric)->transforms) {
        KIN_NEW(&hold, transforms, (uint64_t)part->rows.rows, "transforms of rows");
        KIN_TRY(kin_metric_transforms(ctx, &m.rows.matrix, b->given.metric, transforms));
        m.rows.transforms = transforms;
    }
    return kin_parallel(ctx, NULL, kin_ceil_div(runs_of(b, part->rows.rows), step), measure_run,
                        &m);
}

/* How far the k-th neighbours of a set's rows are, as they are known now. */
static void find_reaches(const kin_bounds *b, const kin_bounds_part *part)
{
    double *reaches = b->reaches + part->set * b->runs;
    for (int64_t first = 0; first < part->rows.rows; first += b->run) {
        double most = 0.0;
        for (int64_t row = first; row < kin_min_i64(first + b->run, part->rows.rows); row++) {
            most = fmax(most, part->known.keys[row * part->known.step]);
        }
        const double key = most / b->key_scale;
        const double far = is_squared(b) ? sqrt(key + KIN_BOUND_TINY_KEY) : key + TINY;
        reaches[first / b->run] = far * KIN_BOUND_WIDEN;
    }
}

kith_status kin_bounds_measure(kith_ctx *ctx, kin_bounds *bounds, const kin_bounds_part *part)
{
    if (!bounds->usable) {
        return KITH_OK;
    }
    if (bounds->made[part->set] == 0) {
        KIN_TRY(measure(ctx, bounds, part, 1));
        bounds->made[part->set] = 1;
    }
    find_reaches(bounds, part);
    return KITH_OK;
}

/* ---- Two sets ------------------------------------------------------------------------------- */

typedef struct comparing {
    const kin_bounds *bounds;
    int32_t sets[SIDES];
    int64_t runs[SIDES];
} comparing;

/* keys: of the centers of one ball of the run, and those of the other set. */
static kith_status compare_run(void *arg, int64_t run, int32_t thread)
{
    const comparing *c = arg;
    const kin_bounds *b = c->bounds;
    double *keys = b->keys + thread * b->runs * BALLS;
    const int64_t own_run = c->sets[0] * b->runs + run;
    const int64_t other_run = c->sets[1] * b->runs;
    const kin_rows centers = centers_of(b, c->sets[1]);
    atomic_uchar *own_meets = b->meets + run;
    atomic_uchar *other_meets = b->meets + b->runs;
    for (int64_t own = own_run * BALLS; own < (own_run + 1) * BALLS; own++) {
        const kin_query query = {.values = b->centers + own * b->wide};
        if (b->radii[own] == -(double)INFINITY) {
            continue;
        }
        kin_metric_keys_run(&b->distance, &query, &centers, 0, c->runs[1] * BALLS, keys);
        for (int64_t i = 0; i < c->runs[1] * BALLS; i++) {
            const double radii = b->radii[own] + b->radii[other_run * BALLS + i];
            const double reach = fmax(b->reaches[own_run], b->reaches[other_run + i / BALLS]);
            /* Not: distance <= ...; a NaN proves nothing. */
            if (!(distance_of(b, keys[i]) > (radii + reach + TINY) * KIN_BOUND_WIDEN)) {
                atomic_store_explicit(own_meets, 1, memory_order_relaxed);
                atomic_store_explicit(&other_meets[i / BALLS], 1, memory_order_relaxed);
            }
        }
    }
    return KITH_OK;
}

static kith_status compare(kith_ctx *ctx, comparing *c)
{
    for (int64_t i = 0; i < SIDES * c->bounds->runs; i++) {
        atomic_init(&c->bounds->meets[i], 0);
    }
    return kin_parallel_rows(ctx, NULL, c->runs[0], RUNS_A_TASK, compare_run, c);
}

static bool can_meet(const comparing *c, int side, int64_t run)
{
    return atomic_load_explicit(&c->bounds->meets[side * c->bounds->runs + run],
                                memory_order_relaxed) != 0;
}

/* Rows of a run; the last one of a set may have fewer. */
static int64_t rows_of(const kin_bounds *b, const kin_bounds_part *part, int64_t run)
{
    return kin_min_i64(b->run, part->rows.rows - run * b->run);
}

static comparing comparing_of(const kin_bounds *b, const kin_bounds_part parts[SIDES])
{
    comparing c = {.bounds = b};
    for (int i = 0; i < SIDES; i++) {
        c.sets[i] = parts[i].set;
        c.runs[i] = runs_of(b, parts[i].rows.rows);
    }
    return c;
}

/* Measures and compares two sets. */
static kith_status meet(kith_ctx *ctx, kin_bounds *b, const kin_bounds_part parts[SIDES],
                        comparing *c)
{
    *c = comparing_of(b, parts);
    for (int i = 0; i < SIDES; i++) {
        KIN_TRY(kin_bounds_measure(ctx, b, &parts[i]));
    }
    return compare(ctx, c);
}

kith_status kin_bounds_narrow(kith_ctx *ctx, kin_bounds *b, const kin_bounds_part parts[SIDES],
                              kin_bounds_range near[SIDES])
{
    comparing c;
    for (int i = 0; i < SIDES; i++) {
        near[i] = (kin_bounds_range){0, b->usable ? 0 : parts[i].rows.rows};
    }
    if (!b->usable) {
        return KITH_OK;
    }
    KIN_TRY(meet(ctx, b, parts, &c));
    for (int i = 0; i < SIDES; i++) {
        for (int64_t run = 0; run < c.runs[i]; run++) {
            if (can_meet(&c, i, run)) {
                const int64_t first = run * b->run;
                near[i].first = near[i].rows == 0 ? first : near[i].first;
                near[i].rows = first + rows_of(b, &parts[i], run) - near[i].first;
            }
        }
    }
    return KITH_OK;
}

kith_status kin_bounds_pick(kith_ctx *ctx, kin_bounds *b, const kin_bounds_part parts[SIDES],
                            kin_bounds_rows picked[SIDES])
{
    comparing c;
    KIN_TRY(meet(ctx, b, parts, &c));
    for (int i = 0; i < SIDES; i++) {
        int64_t count = 0;
        for (int64_t run = 0; run < c.runs[i]; run++) {
            count += can_meet(&c, i, run) ? rows_of(b, &parts[i], run) : 0;
        }
        KIN_TRY(kin_alloc(ctx, &picked[i].rows, (uint64_t)count, sizeof *picked[i].rows,
                          "rows that meet"));
        for (int64_t run = 0; run < c.runs[i]; run++) {
            const int64_t rows = can_meet(&c, i, run) ? rows_of(b, &parts[i], run) : 0;
            for (int64_t row = 0; row < rows; row++) {
                picked[i].rows[picked[i].count++] = (uint32_t)(run * b->run + row);
            }
        }
    }
    return KITH_OK;
}

kith_status kin_bounds_try(kith_ctx *ctx, kin_bounds *b, const kin_bounds_part parts[SIDES],
                           bool *yes)
{
    double share = 1.0;
    *yes = false;
    if (!b->usable) {
        return KITH_OK;
    }
    comparing c = comparing_of(b, parts);
    for (int i = 0; i < SIDES; i++) {
        KIN_TRY(measure(ctx, b, &parts[i], kin_ceil_div(c.runs[i], TRIED)));
        find_reaches(b, &parts[i]);
    }
    KIN_TRY(compare(ctx, &c));
    for (int i = 0; i < SIDES; i++) {
        const int64_t step = kin_ceil_div(c.runs[i], TRIED);
        int64_t met = 0;
        for (int64_t run = 0; run < c.runs[i]; run += step) {
            met += can_meet(&c, i, run);
        }
        share *= (double)met / (double)kin_ceil_div(c.runs[i], step);
    }
    *yes = share < 0.5;
    return KITH_OK;
}

kith_status kin_bounds_apart(kith_ctx *ctx, const kin_bounds *b, const int32_t sets[SIDES],
                             const int64_t rows[SIDES], bool *yes)
{
    comparing c = {.bounds = b, .sets = {sets[0], sets[1]}};
    *yes = false;
    if (!b->usable || b->made[sets[0]] == 0 || b->made[sets[1]] == 0) {
        return KITH_OK;
    }
    for (int i = 0; i < SIDES; i++) {
        c.runs[i] = runs_of(b, rows[i]);
    }
    KIN_TRY(compare(ctx, &c));
    *yes = true;
    for (int64_t run = 0; run < c.runs[0] && *yes; run++) {
        *yes = !can_meet(&c, 0, run);
    }
    return KITH_OK;
}
