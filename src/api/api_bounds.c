/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_bounds.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"

#include <math.h>

/* Comparing runs costs 1 / RUN^2 of comparing rows. All centers are in memory: of many columns runs
 * are longer. */
enum { RUN = 256, RUNS_A_TASK = 16, BALLS = KIN_BOUNDS_BALLS, SIDES = KIN_BOUNDS_SIDES };
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

uint64_t kin_bounds_bytes(const kith_ctx *ctx, const kin_bounds_sets *sets)
{
    kin_bounds b;
    memset(&b, 0, sizeof b);
    choose_runs(sets, &b);
    const uint64_t runs = (uint64_t)b.runs;
    const uint64_t all =
        kin_size_mul(runs * (uint64_t)sets->count, BALLS * ((uint64_t)b.wide + 1) + 1);
    const uint64_t a_thread = runs * BALLS + (uint64_t)b.wide + (uint64_t)b.run;
    const uint64_t each = kin_size_mul((uint64_t)ctx->threads, a_thread) + 2 * runs;
    return b.usable ? kin_size_mul(kin_size_add(all, each), sizeof(double)) : 0;
}

kith_status kin_bounds_make(kith_ctx *ctx, const kin_bounds_sets *sets, kin_bounds *b)
{
    memset(b, 0, sizeof *b);
    choose_runs(sets, b);
    if (!b->usable) {
        return KITH_OK;
    }
    const uint64_t all = (uint64_t)b->runs * (uint64_t)sets->count;
    const uint64_t threads = (uint64_t)ctx->threads;
    b->key_scale = kin_metric_get_traits(b->given.metric)->key_scale;
    KIN_TRY(kin_alloc_zero(ctx, &b->centers, kin_size_mul(all, BALLS * (uint64_t)b->wide),
                           sizeof *b->centers, "centers of rows"));
    KIN_TRY(kin_alloc(ctx, &b->radii, all, BALLS * sizeof *b->radii, "radii of rows"));
    KIN_TRY(kin_alloc(ctx, &b->reaches, all, sizeof *b->reaches, "reaches of rows"));
    KIN_TRY(kin_alloc_zero(ctx, &b->made, (uint64_t)sets->count, 1, "sets of rows"));
    KIN_TRY(kin_alloc(ctx, &b->keys, threads * (uint64_t)b->runs, BALLS * sizeof *b->keys, "keys"));
    KIN_TRY(kin_alloc(ctx, &b->balls, threads * (uint64_t)b->run, 1, "balls of rows"));
    KIN_TRY(
        kin_alloc_zero(ctx, &b->values, threads * (uint64_t)b->wide, sizeof *b->values, "rows"));
    return kin_alloc(ctx, &b->near, 2 * (uint64_t)b->runs, sizeof *b->near, "runs that meet");
}

void kin_bounds_free(kith_ctx *ctx, kin_bounds *b)
{
    kin_free(ctx, b->near);
    kin_free(ctx, b->balls);
    kin_free(ctx, b->values);
    kin_free(ctx, b->keys);
    kin_free(ctx, b->made);
    kin_free(ctx, b->reaches);
    kin_free(ctx, b->radii);
    kin_free(ctx, b->centers);
    memset(b, 0, sizeof *b);
}

/* ---- One set -------------------------------------------------------------------------------- */

typedef struct measuring {
    const kin_bounds *bounds;
    const kin_bounds_part *part;
    kin_rows rows;
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
    kin_metric_keys(&c->m->bounds->distance, &query, &c->centers, NULL, c->ball + ball, 1, &key);
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
    cutting c = {.m = m,
                 .first = task * b->run,
                 .rows = kin_min_i64(b->run, m->part->rows.rows - task * b->run),
                 .ball = task * BALLS,
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

/* Once for each set. */
static kith_status measure(kith_ctx *ctx, kin_bounds *b, const kin_bounds_part *part)
{
    kin_row_transform *transforms = NULL;
    measuring m = {.bounds = b, .part = part, .rows = {.matrix = part->rows}};
    kith_status status = KITH_OK;
    if (b->made[part->set] != 0) {
        return KITH_OK;
    }
    if (kin_metric_get_traits(b->given.metric)->transforms) {
        KIN_TRY_GOTO(status,
                     kin_alloc(ctx, &transforms, (uint64_t)part->rows.rows, sizeof *transforms,
                               "transforms of rows"),
                     done);
        KIN_TRY_GOTO(status,
                     kin_metric_transforms(ctx, &m.rows.matrix, b->given.metric, transforms), done);
        m.rows.transforms = transforms;
    }
    status = kin_parallel(ctx, NULL, runs_of(b, part->rows.rows), measure_run, &m);
    b->made[part->set] = status == KITH_OK;
done:
    kin_free(ctx, transforms);
    return status;
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
    KIN_TRY(measure(ctx, bounds, part));
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
static void compare_run(const comparing *c, int64_t run, double *keys)
{
    const kin_bounds *b = c->bounds;
    const int64_t own_run = c->sets[0] * b->runs + run;
    const int64_t other_run = c->sets[1] * b->runs;
    const kin_rows centers = centers_of(b, c->sets[1]);
    int64_t *near = b->near + 2 * run;
    near[0] = c->runs[1];
    near[1] = -1;
    for (int64_t own = own_run * BALLS; own < (own_run + 1) * BALLS; own++) {
        const kin_query query = {.values = b->centers + own * b->wide};
        if (b->radii[own] == -(double)INFINITY) {
            continue;
        }
        kin_metric_keys(&b->distance, &query, &centers, NULL, 0, c->runs[1] * BALLS, keys);
        for (int64_t i = 0; i < c->runs[1] * BALLS; i++) {
            const double radii = b->radii[own] + b->radii[other_run * BALLS + i];
            const double reach = fmax(b->reaches[own_run], b->reaches[other_run + i / BALLS]);
            /* Not: distance <= ...; a NaN proves nothing. */
            if (!(distance_of(b, keys[i]) > (radii + reach + TINY) * KIN_BOUND_WIDEN)) {
                near[0] = kin_min_i64(near[0], i / BALLS);
                near[1] = kin_max_i64(near[1], i / BALLS);
            }
        }
    }
}

static kith_status compare_runs(void *arg, int64_t task, int32_t thread)
{
    const comparing *c = arg;
    const int64_t last = kin_min_i64((task + 1) * RUNS_A_TASK, c->runs[0]);
    for (int64_t run = task * RUNS_A_TASK; run < last; run++) {
        compare_run(c, run, c->bounds->keys + thread * c->bounds->runs * BALLS);
    }
    return KITH_OK;
}

typedef struct range {
    int64_t first;
    int64_t last; /* below first: empty */
} range;

/* From the first to the last run of each set that can meet one of the other. */
static kith_status compare(kith_ctx *ctx, const comparing *c, range near[SIDES])
{
    comparing copy = *c;
    KIN_TRY(kin_parallel(ctx, NULL, kin_ceil_div(c->runs[0], RUNS_A_TASK), compare_runs, &copy));
    near[0] = (range){c->runs[0], -1};
    near[1] = (range){c->runs[1], -1};
    for (int64_t run = 0; run < c->runs[0]; run++) {
        const int64_t *other = c->bounds->near + 2 * run;
        if (other[1] >= 0) {
            near[0] = (range){kin_min_i64(near[0].first, run), run};
            near[1] =
                (range){kin_min_i64(near[1].first, other[0]), kin_max_i64(near[1].last, other[1])};
        }
    }
    return KITH_OK;
}

kith_status kin_bounds_narrow(kith_ctx *ctx, kin_bounds *b, const kin_bounds_part parts[SIDES],
                              kin_bounds_range near[SIDES])
{
    comparing c = {.bounds = b};
    range runs[SIDES];
    for (int i = 0; i < SIDES; i++) {
        near[i] = (kin_bounds_range){0, parts[i].rows.rows};
        c.sets[i] = parts[i].set;
        c.runs[i] = b->usable ? runs_of(b, parts[i].rows.rows) : 0;
        KIN_TRY(kin_bounds_measure(ctx, b, &parts[i]));
    }
    if (!b->usable) {
        return KITH_OK;
    }
    KIN_TRY(compare(ctx, &c, runs));
    for (int i = 0; i < SIDES; i++) {
        const int64_t last = kin_min_i64((runs[i].last + 1) * b->run, parts[i].rows.rows);
        near[i].first = runs[0].last < 0 ? 0 : runs[i].first * b->run;
        near[i].rows = runs[0].last < 0 ? 0 : last - near[i].first;
    }
    return KITH_OK;
}

kith_status kin_bounds_apart(kith_ctx *ctx, const kin_bounds *b, const int32_t sets[SIDES],
                             const int64_t rows[SIDES], bool *yes)
{
    comparing c = {.bounds = b, .sets = {sets[0], sets[1]}};
    range near[SIDES];
    *yes = false;
    if (!b->usable || b->made[sets[0]] == 0 || b->made[sets[1]] == 0) {
        return KITH_OK;
    }
    for (int i = 0; i < SIDES; i++) {
        c.runs[i] = runs_of(b, rows[i]);
    }
    KIN_TRY(compare(ctx, &c, near));
    *yes = near[0].last < 0;
    return KITH_OK;
}
