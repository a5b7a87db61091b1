/* SPDX-License-Identifier: Apache-2.0
 * The verbs of metric.h: rows get their transforms, a query is loaded, keys are computed by the
 * body that fits the machine, and a key becomes the distance that the user sees. */
#include "metric/metric.h"

#include "base/base_size.h"
#include "host/host_threads.h"
#include "metric/metric_table.h"

/* ---- Transforms ------------------------------------------------------------------------------ */

/* For cosine and correlation three or four numbers a row, made once, so that a row is normalised
 * while it is read and no normalised copy is kept. The arithmetic of one row is the bodies'
 * (transform_body), in the order that metric_canonical.h defines. */

/* A piece of work reads about this much: long enough to hide its start, far below 0.1 s. */
static const int64_t PIECE_BYTES = 1 << 20;

typedef struct transform_job {
    kith_matrix matrix;
    kin_transform_fn transform;
    bool centred;
    int64_t rows_a_piece;
    kin_row_transform *out;
} transform_job;

static kith_status transform_piece(void *arg, int64_t piece, int32_t thread)
{
    (void)thread;
    const transform_job *job = arg;
    const int64_t begin = piece * job->rows_a_piece;
    const int64_t end = kin_min_i64(begin + job->rows_a_piece, job->matrix.rows);
    for (int64_t row = begin; row < end; row++) {
        const char *data = (const char *)job->matrix.data + row * job->matrix.stride_bytes;
        job->out[row] = job->transform(data, job->matrix.cols, job->centred);
    }
    return KITH_OK;
}

kith_status kin_metric_transforms(kith_ctx *ctx, const kith_matrix *matrix, kith_metric metric,
                                  kin_row_transform *transforms)
{
    const int64_t row_bytes = (int64_t)matrix->cols * kith_dtype_bytes(matrix->dtype);
    transform_job job = {
        .matrix = *matrix,
        .transform = kin_metric_pick(ctx->isa)->transform[matrix->dtype],
        .centred = metric == KITH_CORRELATION,
        .rows_a_piece = kin_ceil_div(PIECE_BYTES, row_bytes),
        .out = transforms,
    };
    const int64_t pieces = kin_ceil_div(matrix->rows, job.rows_a_piece);
    return kin_parallel(ctx, "normalise", pieces, transform_piece, &job);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static const char *row_of(const kith_matrix *matrix, int64_t row)
{
    return (const char *)matrix->data + row * matrix->stride_bytes;
}

kin_query kin_metric_load(const kin_distance *distance, const kin_rows *rows, int64_t row,
                          double *values)
{
    const kin_row_transform *transform = rows->transforms ? &rows->transforms[row] : NULL;
    const kin_query query = {
        .values = values,
        .raw = row_of(&rows->matrix, row),
        .degenerate = transform != NULL && transform->degenerate != 0,
    };
    if (distance->metric != KITH_CUSTOM) {
        const kin_metric_table *table = kin_metric_pick(distance->isa);
        table->expand[rows->matrix.dtype](query.raw, distance->cols, transform, values);
    }
    return query;
}

static void custom_keys(const kin_distance *distance, const kin_query *query,
                        const kin_keys_job *job)
{
    for (int64_t i = 0; i < job->count; i++) {
        const char *point = job->data + kin_keys_row(job, i) * job->stride_bytes;
        const double value =
            distance->custom(distance->custom_arg, query->raw, point, distance->cols);
        job->keys[i] = kin_add(value, 0.0);
    }
}

/* By the body for rows of the dtype; where they are, ids, first, count and keys are set. */
static void run_body(const kin_distance *distance, kith_metric metric, kith_dtype dtype,
                     const kin_query *query, kin_keys_job *job)
{
    const kith_metric base = metric == KITH_EUCLIDEAN ? KITH_SQEUCLIDEAN : kin_metric_base(metric);
    const kin_metric_table *table = kin_metric_pick(distance->isa);
    const bool wraps = distance->period != NULL;
    const kin_keys_fn keys = (wraps ? table->wrapped : table->keys)[base][dtype];
    job->query = query->values;
    job->raw = query->raw;
    job->cols = distance->cols;
    job->power = kin_power_of(metric);
    job->period = distance->period;
    (keys != NULL ? keys : kin_metric_table_portable.wrapped[base][dtype])(job);
}

static void fill_degenerate(double *keys, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        keys[i] = KIN_DEGENERATE_KEY;
    }
}

/* ids, or first, count and keys are set. */
static void run(const kin_distance *distance, const kin_query *query, const kin_rows *corpus,
                kin_keys_job *job)
{
    job->data = corpus->matrix.data;
    job->stride_bytes = corpus->matrix.stride_bytes;
    job->transforms = corpus->transforms;
    if (distance->metric == KITH_CUSTOM) {
        custom_keys(distance, query, job);
    } else if (query->degenerate) {
        fill_degenerate(job->keys, job->count);
    } else {
        run_body(distance, distance->metric, corpus->matrix.dtype, query, job);
    }
}

void kin_metric_keys(const kin_distance *distance, const kin_query *query, const kin_rows *corpus,
                     const uint32_t *ids, int64_t count, double *keys)
{
    kin_keys_job job = {.ids = ids, .count = count, .keys = keys};
    run(distance, query, corpus, &job);
}

void kin_metric_keys_run(const kin_distance *distance, const kin_query *query,
                         const kin_rows *corpus, int64_t first, int64_t count, double *keys)
{
    kin_keys_job job = {.first = first, .count = count, .keys = keys};
    run(distance, query, corpus, &job);
}

bool kin_metric_expands(const kin_distance *distance)
{
    const kin_metric_traits *traits = kin_metric_get_traits(distance->metric);
    return distance->metric != KITH_CUSTOM && traits->dtype == KITH_DTYPE_NONE;
}

void kin_metric_expand(const kin_distance *distance, const kin_rows *corpus,
                       const kin_expanded *rows)
{
    for (int64_t i = 0; i < rows->count; i++) {
        (void)kin_metric_load(distance, corpus, rows->ids[i],
                              rows->values + i * kin_metric_wide(distance));
    }
}

/* What is expanded is transformed already: what is left of such a metric is its square, and its
 * scale, a power of two. */
static void scale_keys(const kin_distance *distance, const kin_rows *corpus,
                       const kin_expanded *rows, double *keys)
{
    const double scale = kin_metric_get_traits(distance->metric)->key_scale;
    for (int64_t i = 0; i < rows->count; i++) {
        const bool degenerate = corpus->transforms[rows->ids[i]].degenerate != 0;
        keys[i] = degenerate ? KIN_DEGENERATE_KEY : kin_mul(scale, keys[i]);
    }
}

void kin_metric_keys_expanded(const kin_distance *distance, const kin_query *query,
                              const kin_rows *corpus, const kin_expanded *rows, double *keys)
{
    const bool scales = corpus->transforms != NULL;
    kin_keys_job job = {.data = (const char *)rows->values,
                        .stride_bytes = kin_metric_wide(distance) * (int64_t)sizeof *rows->values,
                        .count = rows->count,
                        .keys = keys};
    if (query->degenerate) {
        fill_degenerate(keys, rows->count);
        return;
    }
    run_body(distance, scales ? KITH_SQEUCLIDEAN : distance->metric, KITH_F64, query, &job);
    if (scales) {
        scale_keys(distance, corpus, rows, keys);
    }
}

double kin_metric_distance(kith_metric metric, double key)
{
    return kin_pair_distance(metric, key);
}

bool kin_metric_within(kith_metric metric, double distance, double radius)
{
    return metric == KITH_INNER_PRODUCT ? distance >= radius : distance <= radius;
}
