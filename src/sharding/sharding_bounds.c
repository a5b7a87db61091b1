/* SPDX-License-Identifier: Apache-2.0 */
#include "sharding/sharding_bounds.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"

#include <math.h>

/* Comparing runs costs 1 / RUN^2 of comparing rows. All centers are in memory: of many columns runs
 * are longer. */
enum { RUN = 256, RUNS_A_TASK = 16, BALLS = KIN_BOUNDS_BALLS };
static const uint64_t MOST_BYTES = (uint64_t)16 << 20;
/* Squares of what is nearer may underflow. */
static const double TINY = 0x1p-500;

/* ---- Making --------------------------------------------------------------------------------- */

static bool is_squared(const kin_bounds *bounds)
{
    return bounds->distance.metric == KITH_SQEUCLIDEAN;
}

/* The metric between transformed rows that obeys the triangle inequality. */
static bool choose_metric(const kin_sharding *job, kith_metric *metric)
{
    const kith_metric given = job->exact.metric;
    *metric = given;
    if (kin_metric_get_traits(given)->screen == KIN_SCREEN_DISTANCE) {
        *metric = KITH_SQEUCLIDEAN;
        return true;
    }
    return given == KITH_MANHATTAN || given == KITH_CHEBYSHEV;
}

static void choose_runs(const kin_sharding *job, int32_t shards, kin_bounds *bounds)
{
    const int64_t rows = kin_ceil_div(job->points.rows, shards);
    bounds->wide = kin_round_up(job->points.cols, KIN_METRIC_LANES);
    const int64_t a_run = (BALLS * (bounds->wide + 1) + 1) * (int64_t)sizeof(double);
    const int64_t most = kin_max_i64(1, (int64_t)MOST_BYTES / a_run / shards);
    bounds->run = kin_max_i64(RUN, kin_ceil_div(rows, most));
    bounds->runs = kin_ceil_div(rows, bounds->run);
    bounds->usable = !job->descends && shards > 1 && choose_metric(job, &bounds->distance.metric);
}

uint64_t kin_bounds_bytes(const kin_sharding *job, int32_t shards)
{
    kin_bounds b;
    memset(&b, 0, sizeof b);
    choose_runs(job, shards, &b);
    const uint64_t runs = (uint64_t)b.runs;
    const uint64_t all = kin_size_mul(runs * (uint64_t)shards, BALLS * ((uint64_t)b.wide + 1) + 1);
    const uint64_t a_thread = runs * BALLS + (uint64_t)b.wide + (uint64_t)b.run;
    const uint64_t each = kin_size_mul((uint64_t)job->ctx->threads, a_thread) + 2 * runs;
    return b.usable ? kin_size_mul(kin_size_add(all, each), sizeof(double)) : 0;
}

kith_status kin_bounds_make(kin_sharding *job)
{
    kith_ctx *ctx = job->ctx;
    kin_bounds *b = NULL;
    KIN_TRY(kin_alloc_zero(ctx, &b, 1, sizeof *b, "bounds of shards"));
    job->bounds = b;
    choose_runs(job, job->shards, b);
    if (!b->usable) {
        return KITH_OK;
    }
    const uint64_t all = (uint64_t)b->runs * (uint64_t)job->shards;
    const uint64_t threads = (uint64_t)ctx->threads;
    b->distance.cols = job->points.cols;
    b->distance.isa = ctx->isa;
    b->key_scale = kin_metric_get_traits(job->exact.metric)->key_scale;
    KIN_TRY(kin_alloc_zero(ctx, &b->centers, kin_size_mul(all, BALLS * (uint64_t)b->wide),
                           sizeof *b->centers, "centers of rows"));
    KIN_TRY(kin_alloc(ctx, &b->radii, all, BALLS * sizeof *b->radii, "radii of rows"));
    KIN_TRY(kin_alloc(ctx, &b->reaches, all, sizeof *b->reaches, "reaches of rows"));
    KIN_TRY(kin_alloc_zero(ctx, &b->made, (uint64_t)job->shards, 1, "shards"));
    KIN_TRY(kin_alloc(ctx, &b->keys, threads * (uint64_t)b->runs, BALLS * sizeof *b->keys, "keys"));
    KIN_TRY(kin_alloc(ctx, &b->balls, threads * (uint64_t)b->run, 1, "balls of rows"));
    KIN_TRY(
        kin_alloc_zero(ctx, &b->values, threads * (uint64_t)b->wide, sizeof *b->values, "rows"));
    return kin_alloc(ctx, &b->near, 2 * (uint64_t)b->runs, sizeof *b->near, "runs that meet");
}

void kin_bounds_free(kin_sharding *job)
{
    kith_ctx *ctx = job->ctx;
    kin_bounds *b = job->bounds;
    if (b != NULL) {
        kin_free(ctx, b->near);
        kin_free(ctx, b->balls);
        kin_free(ctx, b->values);
        kin_free(ctx, b->keys);
        kin_free(ctx, b->made);
        kin_free(ctx, b->reaches);
        kin_free(ctx, b->radii);
        kin_free(ctx, b->centers);
    }
    kin_free(ctx, b);
    job->bounds = NULL;
}

/* ---- One shard ------------------------------------------------------------------------------ */

typedef struct measuring {
    kin_bounds *bounds;
    const kin_shard_part *part;
    kin_distance distance; /* of rows as they are given */
    kin_rows rows;
    int64_t k;
} measuring;

static int64_t runs_of(const kin_bounds *bounds, int64_t rows)
{
    return kin_ceil_div(rows, bounds->run);
}

static kin_rows centers_of(const kin_bounds *bounds, int32_t shard)
{
    const int64_t balls = bounds->runs * BALLS;
    return (kin_rows){
        .matrix = {.data = bounds->centers + shard * balls * bounds->wide,
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
    int64_t first; /* row of the shard */
    int64_t rows;
    int64_t ball;     /* the run's first one in its shard */
    kin_rows centers; /* of the shard */
    double *values;
    uint8_t *ball_of;
    int64_t farthest[BALLS]; /* of each ball, from its center */
} cutting;

static double *center_of(const cutting *c, int ball)
{
    const kin_bounds *b = c->m->bounds;
    const int64_t at = c->m->part->shard * b->runs * BALLS + c->ball + ball;
    return b->centers + at * b->wide;
}

static double *radius_of(const cutting *c, int ball)
{
    const kin_bounds *b = c->m->bounds;
    return b->radii + c->m->part->shard * b->runs * BALLS + c->ball + ball;
}

static void load(const cutting *c, int64_t row, double *values)
{
    (void)kin_metric_load(&c->m->distance, &c->m->rows, c->first + row, values);
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
                 .rows = kin_min_i64(b->run, m->part->rows - task * b->run),
                 .ball = task * BALLS,
                 .centers = centers_of(b, m->part->shard),
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

/* Once for each shard. */
static kith_status measure(kin_sharding *job, const kin_shard_part *part)
{
    kith_ctx *ctx = job->ctx;
    kin_bounds *b = job->bounds;
    kin_row_transform *transforms = NULL;
    measuring m = {.bounds = b, .part = part, .rows = {.matrix = kin_sharding_rows(job, part)}};
    kith_status status = KITH_OK;
    if (b->made[part->shard] != 0) {
        return KITH_OK;
    }
    m.distance = b->distance;
    m.distance.metric = job->exact.metric;
    if (kin_metric_get_traits(job->exact.metric)->transforms) {
        KIN_TRY_GOTO(status,
                     kin_alloc(ctx, &transforms, (uint64_t)part->rows, sizeof *transforms,
                               "transforms of rows"),
                     done);
        KIN_TRY_GOTO(status,
                     kin_metric_transforms(ctx, &m.rows.matrix, job->exact.metric, transforms),
                     done);
        m.rows.transforms = transforms;
    }
    status = kin_parallel(ctx, NULL, runs_of(b, part->rows), measure_run, &m);
    b->made[part->shard] = status == KITH_OK;
done:
    kin_free(ctx, transforms);
    return status;
}

/* How far the k-th neighbours of a shard's rows are, in its lists as they are now. */
static void find_reaches(const kin_sharding *job, const kin_shard_part *part)
{
    const kin_bounds *b = job->bounds;
    double *reaches = b->reaches + part->shard * b->runs;
    for (int64_t first = 0; first < part->rows; first += b->run) {
        double most = 0.0;
        for (int64_t row = first; row < kin_min_i64(first + b->run, part->rows); row++) {
            most = fmax(most, part->lists.keys[(row + 1) * job->k - 1]);
        }
        const double key = most / b->key_scale;
        const double far = is_squared(b) ? sqrt(key + KIN_BOUND_TINY_KEY) : key + TINY;
        reaches[first / b->run] = far * KIN_BOUND_WIDEN;
    }
}

kith_status kin_bounds_measure(kin_sharding *job, const kin_shard_part *part)
{
    if (!job->bounds->usable) {
        return KITH_OK;
    }
    KIN_TRY(measure(job, part));
    find_reaches(job, part);
    return KITH_OK;
}

/* ---- Two shards ----------------------------------------------------------------------------- */

typedef struct comparing {
    const kin_bounds *bounds;
    int32_t shards[KIN_SHARDING_SIDES];
    int64_t runs[KIN_SHARDING_SIDES];
} comparing;

/* keys: of the centers of one ball of the run, and those of the other shard. */
static void compare_run(const comparing *c, int64_t run, double *keys)
{
    const kin_bounds *b = c->bounds;
    const int64_t own_run = c->shards[0] * b->runs + run;
    const int64_t other_run = c->shards[1] * b->runs;
    const kin_rows centers = centers_of(b, c->shards[1]);
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

/* From the first to the last run of each shard that can meet one of the other. */
static kith_status compare(kin_sharding *job, comparing *c, range near[KIN_SHARDING_SIDES])
{
    const kin_bounds *b = job->bounds;
    c->bounds = b;
    KIN_TRY(kin_parallel(job->ctx, NULL, kin_ceil_div(c->runs[0], RUNS_A_TASK), compare_runs, c));
    near[0] = (range){c->runs[0], -1};
    near[1] = (range){c->runs[1], -1};
    for (int64_t run = 0; run < c->runs[0]; run++) {
        const int64_t *other = b->near + 2 * run;
        if (other[1] >= 0) {
            near[0] = (range){kin_min_i64(near[0].first, run), run};
            near[1] =
                (range){kin_min_i64(near[1].first, other[0]), kin_max_i64(near[1].last, other[1])};
        }
    }
    return KITH_OK;
}

static kin_shard_part rows_of(const kin_sharding *job, const kin_shard_part *part, range near)
{
    const int64_t first = near.first * job->bounds->run;
    const int64_t last = kin_min_i64((near.last + 1) * job->bounds->run, part->rows);
    kin_shard_part some = *part;
    some.first += first;
    some.rows = last - first;
    some.lists.ids += first * job->k;
    some.lists.keys += first * job->k;
    return some;
}

kith_status kin_bounds_narrow(kin_sharding *job, kin_shard_part parts[KIN_SHARDING_SIDES],
                              bool *any)
{
    kin_bounds *b = job->bounds;
    kin_bounds_skipped *s = &b->skipped;
    const double all = (double)parts[0].rows * (double)parts[1].rows;
    comparing c = {.bounds = b};
    range near[KIN_SHARDING_SIDES];
    *any = true;
    s->rows += all;
    for (int i = 0; i < KIN_SHARDING_SIDES && b->usable; i++) {
        KIN_TRY(kin_bounds_measure(job, &parts[i]));
        c.shards[i] = parts[i].shard;
        c.runs[i] = runs_of(b, parts[i].rows);
    }
    if (b->usable) {
        KIN_TRY(compare(job, &c, near));
        *any = near[0].last >= 0;
        for (int i = 0; i < KIN_SHARDING_SIDES && *any; i++) {
            parts[i] = rows_of(job, &parts[i], near[i]);
        }
    }
    s->met += *any;
    s->skipped += !*any;
    s->left_out += *any ? all - (double)parts[0].rows * (double)parts[1].rows : all;
    return KITH_OK;
}

kith_status kin_bounds_apart(void *arg, int32_t a, int32_t b, bool *yes)
{
    kin_sharding *job = arg;
    kin_bounds *bounds = job->bounds;
    comparing c = {.shards = {a, b}};
    double rows = 1.0;
    range near[KIN_SHARDING_SIDES];
    *yes = false;
    if (!bounds->usable || bounds->made[a] == 0 || bounds->made[b] == 0) {
        return KITH_OK;
    }
    for (int i = 0; i < KIN_SHARDING_SIDES; i++) {
        const int64_t count = kin_shard_rows(job->points.rows, job->shards, c.shards[i]);
        c.runs[i] = runs_of(bounds, count);
        rows *= (double)count;
    }
    KIN_TRY(compare(job, &c, near));
    *yes = near[0].last < 0;
    if (*yes) {
        bounds->skipped.skipped += 1;
        bounds->skipped.rows += rows;
        bounds->skipped.left_out += rows;
    }
    return KITH_OK;
}
