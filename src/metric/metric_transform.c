/* SPDX-License-Identifier: Apache-2.0
 * The transforms of all rows, for cosine and correlation: three or four numbers a row, made once,
 * so that a row is normalised while it is read and no normalised copy is kept. The arithmetic of
 * one row is the bodies' (transform_body), in the order that metric_canonical.h defines. */
#include "metric/metric.h"

#include "base/base_size.h"
#include "host/host_threads.h"
#include "metric/metric_table.h"

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
