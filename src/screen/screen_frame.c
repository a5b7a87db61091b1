/* SPDX-License-Identifier: Apache-2.0 */
#include "screen/screen_set.h"

#include "base/base_size.h"
#include "host/host_threads.h"

#include <float.h>
#include <math.h>

/* Integer units: |x^| <= 2^14 keeps every cost and every accumulator in 32 bits (screen_tile.h). */
static const double INTEGER_NORM = 16383.0;
/* 2 * 255 * 255 * cols < 2^30, and 16384 * cols <= 2^28. */
enum { INTEGER_COLS = 8192, ROWS_A_TASK = 1024 };
/* A row is far where its largest component is so many times as large as that of all but one in
 * twenty of a sample. Of other shapes of data than heavy tails no row is. */
static const double FAR_TIMES = 8.0;
enum { SAMPLE = 512, FAR_PART = 20 };

bool kin_frame_is_integer(const kin_distance *distance, const kith_matrix *corpus,
                          const kith_matrix *queries)
{
    const kith_metric metric = distance->metric;
    return corpus->dtype == queries->dtype &&
           (corpus->dtype == KITH_U8 || corpus->dtype == KITH_I8) &&
           (metric == KITH_EUCLIDEAN || metric == KITH_SQEUCLIDEAN ||
            metric == KITH_INNER_PRODUCT) &&
           corpus->cols <= INTEGER_COLS;
}

/* One thread's share of the statistics, in its own cache lines. */
typedef struct share {
    KIN_APART double *values; /* one expanded row */
    double *sum;
    double *low;
    double *high;
    int64_t rows; /* not far */
    double largest_norm_sq;
} share;

typedef struct measuring {
    const kin_distance *distance;
    const kin_rows *corpus;
    const double *mean;
    double usual; /* the largest component of a row that is not far */
    share *shares;
    int64_t wide; /* cols rounded up */
    int32_t threads;
} measuring;

static double size_of(const double *values, int64_t wide)
{
    double size = 0.0;
    for (int64_t i = 0; i < wide; i++) {
        const double x = fabs(values[i]);
        size = x > size ? x : size;
    }
    return size;
}

static bool is_far(const measuring *m, const double *values)
{
    int64_t far = 0;
    for (int64_t i = 0; i < m->wide; i++) {
        far |= fabs(values[i]) > m->usual;
    }
    return far != 0;
}

/* Looks at the first thread's room only. */
static double usual_size(const measuring *m)
{
    const int64_t rows = m->corpus->matrix.rows;
    const int64_t count = kin_min_i64(rows, SAMPLE);
    double sizes[SAMPLE] = {0.0};
    for (int64_t i = 0; i < count; i++) {
        (void)kin_metric_load(m->distance, m->corpus, i * rows / count, m->shares[0].values);
        const double size = size_of(m->shares[0].values, m->wide);
        int64_t at = i;
        for (; at > 0 && sizes[at - 1] > size; at--) {
            sizes[at] = sizes[at - 1];
        }
        sizes[at] = size;
    }
    const double usual = sizes[count - 1 - count / FAR_PART];
    return usual > 0.0 ? FAR_TIMES * usual : (double)INFINITY;
}

static kith_status sum_rows(void *arg, int64_t row, int32_t thread)
{
    const measuring *m = arg;
    share *s = &m->shares[thread];
    (void)kin_metric_load(m->distance, m->corpus, row, s->values);
    if (is_far(m, s->values)) {
        return KITH_OK;
    }
    s->rows += 1;
    for (int64_t i = 0; i < m->wide; i++) {
        const double x = s->values[i];
        s->sum[i] += x;
        s->low[i] = x < s->low[i] ? x : s->low[i];
        s->high[i] = x > s->high[i] ? x : s->high[i];
    }
    return KITH_OK;
}

static kith_status norm_rows(void *arg, int64_t row, int32_t thread)
{
    const measuring *m = arg;
    share *s = &m->shares[thread];
    (void)kin_metric_load(m->distance, m->corpus, row, s->values);
    if (is_far(m, s->values)) {
        return KITH_OK;
    }
    double sum[KIN_METRIC_LANES] = {0.0};
    for (int64_t i = 0; i < m->wide; i += KIN_METRIC_LANES) {
        for (int lane = 0; lane < KIN_METRIC_LANES; lane++) {
            const double a = s->values[i + lane] - m->mean[i + lane];
            sum[lane] += a * a;
        }
    }
    double total = 0.0;
    for (int lane = 0; lane < KIN_METRIC_LANES; lane++) {
        total += sum[lane];
    }
    s->largest_norm_sq = total > s->largest_norm_sq ? total : s->largest_norm_sq;
    return KITH_OK;
}

static void name_shares(kin_layout *layout, void *job)
{
    measuring *m = job;
    const uint64_t wide = (uint64_t)m->wide;
    m->shares = kin_layout_zeros(layout, (uint64_t)m->threads, sizeof *m->shares);
    for (int32_t t = 0; t < m->threads; t++) {
        share spare;
        share *s = kin_layout_item(m->shares, t, &spare);
        s->values = kin_layout_zeros(layout, wide, sizeof *s->values);
        s->sum = kin_layout_zeros(layout, wide, sizeof *s->sum);
        s->low = kin_layout_array(layout, wide, sizeof *s->low);
        s->high = kin_layout_array(layout, wide, sizeof *s->high);
    }
}

static kith_status make_shares(kin_hold *hold, measuring *m)
{
    KIN_TRY(kin_hold_layout(hold, name_shares, m, "column statistics"));
    for (int32_t t = 0; t < m->threads; t++) {
        for (int64_t i = 0; i < m->wide; i++) {
            m->shares[t].low[i] = DBL_MAX;
            m->shares[t].high[i] = -DBL_MAX;
        }
    }
    return KITH_OK;
}

void kin_frame_measure_plan(kin_layout *plan, int32_t cols, int32_t threads)
{
    measuring m = {.wide = kin_round_up(cols, KIN_METRIC_LANES), .threads = threads};
    kin_layout_alone(plan, 2 * (uint64_t)m.wide, sizeof(double));
    kin_layout_passing(plan, name_shares, &m);
}

static bool is_shifted(const kin_distance *distance)
{
    return kin_metric_get_traits(distance->metric)->screen == KIN_SCREEN_DISTANCE;
}

/* Any shift is right for a distance; a good one makes the rounding fine. Products and padding are
 * not shifted. */
static void combine(kith_ctx *ctx, const measuring *m, kin_frame_stats *stats)
{
    const bool shifted = is_shifted(m->distance);
    const int32_t cols = m->corpus->matrix.cols;
    int64_t rows = 0;
    for (int32_t t = 0; t < ctx->threads; t++) {
        rows += m->shares[t].rows;
    }
    for (int32_t i = 0; i < cols; i++) {
        double sum = 0.0;
        double low = DBL_MAX;
        double high = -DBL_MAX;
        for (int32_t t = 0; t < ctx->threads; t++) {
            sum += m->shares[t].sum[i];
            low = m->shares[t].low[i] < low ? m->shares[t].low[i] : low;
            high = m->shares[t].high[i] > high ? m->shares[t].high[i] : high;
        }
        const double mean = shifted ? sum / (double)rows : 0.0;
        const double middle = 0.5 * low + 0.5 * high;
        stats->mean[i] = mean;
        stats->largest = fmax(stats->largest, fmax(high - mean, mean - low));
        stats->middle[i] = middle;
        stats->half_range = fmax(stats->half_range, fmax(high - middle, middle - low));
    }
}

/* Rows that are read, and which of them are far. */
static kith_status begin(kin_hold *hold, const kin_distance *distance, const kin_rows *corpus,
                         measuring *m)
{
    *m = (measuring){.distance = distance,
                     .corpus = corpus,
                     .wide = kin_round_up(corpus->matrix.cols, KIN_METRIC_LANES),
                     .threads = hold->ctx->threads};
    KIN_TRY(make_shares(hold, m));
    m->usual = is_shifted(distance) ? usual_size(m) : (double)INFINITY;
    return KITH_OK;
}

kith_status kin_frame_measure(kith_ctx *ctx, const kin_distance *distance, const kin_rows *corpus,
                              kin_frame_stats *stats)
{
    measuring m;
    memset(stats, 0, sizeof *stats);
    KIN_HOLD(hold, ctx);
    KIN_TRY(begin(&hold, distance, corpus, &m));
    KIN_TRY(
        kin_alloc_zero(ctx, &stats->mean, 2 * (uint64_t)m.wide, sizeof(double), "column means"));
    stats->middle = stats->mean + m.wide;
    const kith_status status =
        kin_parallel_rows(ctx, "prepare", corpus->matrix.rows, ROWS_A_TASK, sum_rows, &m);
    if (status != KITH_OK) {
        kin_frame_stats_free(ctx, stats);
        return status;
    }
    combine(ctx, &m, stats);
    stats->middle = is_shifted(distance) ? stats->middle : NULL;
    return KITH_OK;
}

kith_status kin_frame_measure_norms(kith_ctx *ctx, const kin_distance *distance,
                                    const kin_rows *corpus, kin_frame_stats *stats)
{
    measuring m;
    KIN_HOLD(hold, ctx);
    KIN_TRY(begin(&hold, distance, corpus, &m));
    m.mean = stats->mean;
    const kith_status status =
        kin_parallel_rows(ctx, "prepare", corpus->matrix.rows, ROWS_A_TASK, norm_rows, &m);
    for (int32_t t = 0; t < ctx->threads; t++) {
        stats->largest_norm = fmax(stats->largest_norm, sqrt(m.shares[t].largest_norm_sq));
    }
    return status;
}

void kin_frame_stats_free(kith_ctx *ctx, kin_frame_stats *stats)
{
    kin_free(ctx, stats->mean);
    stats->mean = NULL;
    stats->middle = NULL;
}

double kin_frame_scale(kin_tile_type type, int32_t cols, const kin_frame_stats *stats)
{
    const double smallest = 0x1p-500;
    if (!(stats->largest > smallest)) {
        return smallest;
    }
    if (kin_tile_is_float(type)) {
        int exponent = 0;
        (void)frexp(stats->largest, &exponent); /* largest in [2^(e-1), 2^e) */
        return fmax(ldexp(1.0, exponent - 12), smallest);
    }
    const double most = type == KIN_TILE_S8 ? 127.0 : 32700.0;
    const double by_component = stats->largest / most;
    /* Rounding may add half a step a component. */
    const double by_norm = stats->largest_norm / (INTEGER_NORM - 0.5 * sqrt((double)cols));
    return fmax(fmax(by_component, by_norm), smallest);
}

kin_frame_stats kin_frame_shift(kin_tile_type type, int32_t cols, const kin_frame_stats *stats)
{
    const kin_frame_stats by_mean = {
        .mean = stats->mean, .largest = stats->largest, .largest_norm = stats->largest_norm};
    if (stats->middle == NULL || kin_tile_is_float(type)) {
        return by_mean;
    }
    double apart_sq = 0.0;
    for (int32_t i = 0; i < cols; i++) {
        const double t = stats->middle[i] - stats->mean[i];
        apart_sq += t * t;
    }
    const kin_frame_stats by_middle = {.mean = stats->middle,
                                       .largest = stats->half_range,
                                       .largest_norm = stats->largest_norm + sqrt(apart_sq)};
    return kin_frame_scale(type, cols, &by_middle) < kin_frame_scale(type, cols, &by_mean)
               ? by_middle
               : by_mean;
}

double kin_frame_radius(int32_t cols)
{
    return INTEGER_NORM + 0.5 - 0.5 * sqrt((double)cols);
}

/* docs/notes/numerics.md, the table of kappa. */
static double unit_error(kin_tile_type type, int32_t groups)
{
    switch (type) {
    case KIN_TILE_BF16:
        return (18.0 + ceil(groups / 8.0)) * 0x1p-24;
    case KIN_TILE_F32: /* products and sums may be rounded apart */
        return 2.2 * (groups + 1.0) * 0x1p-24;
    case KIN_TILE_S8:
    case KIN_TILE_S16:
    case KIN_TILE_TYPES:
        break;
    }
    return 0.0;
}

kin_frame kin_frame_make(const kin_distance *distance, const kin_tile_kernel *kernel, bool integer,
                         const kin_frame_stats *stats)
{
    const kin_metric_traits *traits = kin_metric_get_traits(distance->metric);
    const int32_t size = kin_tile_group_size(kernel->type);
    kin_frame frame = {.distance = *distance,
                       .kernel = kernel,
                       .cols = distance->cols,
                       .key_scale = traits->key_scale,
                       .scale = 1.0};
    frame.groups = (int32_t)kin_round_up(kin_ceil_div(distance->cols, size), kernel->group_step);
    if (integer) {
        frame.bound = KIN_BOUND_INTEGER;
        return frame;
    }
    const kin_frame_stats own = kin_frame_shift(kernel->type, distance->cols, stats);
    frame.bound = traits->screen == KIN_SCREEN_DISTANCE ? KIN_BOUND_DISTANCE : KIN_BOUND_PRODUCT;
    frame.scale = kin_frame_scale(kernel->type, distance->cols, &own);
    frame.kappa = unit_error(kernel->type, frame.groups);
    frame.mean = own.mean;
    return frame;
}
