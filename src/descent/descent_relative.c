/* SPDX-License-Identifier: Apache-2.0 */
#include "descent/descent_relative.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "descent/descent_fill.h"
#include "host/host_threads.h"

#include <math.h>

/* A few more neighbours of the relative are much cheaper than a round: of histograms of 784 columns
 * the first 32 hold 0.85 of the ten nearest under kl, the first 128 hold 0.99. */
enum { POSITIONS_A_TASK = 256, NEIGHBOURS = 128, LIST_STEP = 8 };

typedef struct relating {
    const kin_descent_points *points;
    int32_t cols;
    int64_t wide;   /* cols rounded up, as rows are loaded */
    double *values; /* by thread: wide */
    double *most;   /* by thread: the largest |value| */
    double unit;    /* of all */
    float *rows;    /* positions x cols */
} relating;

bool kin_descent_has_relative(kith_metric metric)
{
    return metric == KITH_CHI2 || metric == KITH_KL || metric == KITH_JACCARD ||
           metric == KITH_MANHATTAN || metric == KITH_CHEBYSHEV;
}

static const double *load(const relating *r, int64_t position, int32_t thread)
{
    const kin_prepared *prepared = r->points->prepared;
    double *values = r->values + thread * r->wide;
    (void)kin_metric_load(&prepared->distance, &prepared->rows, r->points->ids[position], values);
    return values;
}

static kith_status find_most(void *arg, int64_t task, int32_t thread)
{
    const relating *r = arg;
    const int64_t last = kin_min_i64((task + 1) * POSITIONS_A_TASK, r->points->count);
    for (int64_t p = task * POSITIONS_A_TASK; p < last; p++) {
        const double *values = load(r, p, thread);
        for (int32_t i = 0; i < r->cols; i++) {
            r->most[thread] = fmax(r->most[thread], fabs(values[i]));
        }
    }
    return KITH_OK;
}

/* In units of the largest value, so that float64 rows stay in range. */
static kith_status relate(void *arg, int64_t task, int32_t thread)
{
    const relating *r = arg;
    const kith_metric metric = r->points->prepared->distance.metric;
    const int64_t last = kin_min_i64((task + 1) * POSITIONS_A_TASK, r->points->count);
    for (int64_t p = task * POSITIONS_A_TASK; p < last; p++) {
        const double *values = load(r, p, thread);
        float *row = r->rows + p * r->cols;
        for (int32_t i = 0; i < r->cols; i++) {
            const double x = values[i] / r->unit;
            if (metric == KITH_JACCARD) {
                row[i] = values[i] != 0.0 ? 1.0F : 0.0F;
            } else {
                row[i] = (float)(metric == KITH_CHI2 || metric == KITH_KL ? sqrt(x) : x);
            }
        }
    }
    return KITH_OK;
}

static kith_status relate_all(kith_ctx *ctx, relating *r)
{
    const uint64_t threads = (uint64_t)ctx->threads;
    const int64_t tasks = kin_ceil_div(r->points->count, POSITIONS_A_TASK);
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status,
                 kin_alloc(ctx, &r->values, kin_size_mul(threads, (uint64_t)r->wide),
                           sizeof *r->values, "threads"),
                 done);
    KIN_TRY_GOTO(status, kin_alloc_zero(ctx, &r->most, threads, sizeof *r->most, "threads"), done);
    KIN_TRY_GOTO(status, kin_parallel(ctx, "start", tasks, find_most, r), done);
    for (int32_t t = 0; t < ctx->threads; t++) {
        r->unit = fmax(r->unit, r->most[t]);
    }
    r->unit = r->unit > 0.0 ? r->unit : 1.0;
    status = kin_parallel(ctx, "start", tasks, relate, r);
done:
    kin_free(ctx, r->most);
    kin_free(ctx, r->values);
    return status;
}

static kin_descent_request request_of(const kin_descent_request *request, int64_t rows)
{
    const int64_t wished = kin_max_i64(request->list, NEIGHBOURS);
    const int64_t k = kin_min_i64(wished, kin_max_i64(rows - 1, 1));
    const bool patterns = request->distance.metric == KITH_JACCARD;
    return (kin_descent_request){.distance = {.metric = patterns ? KITH_COSINE : KITH_SQEUCLIDEAN,
                                              .cols = request->distance.cols,
                                              .isa = request->distance.isa},
                                 .k = k,
                                 .list = (int32_t)kin_round_up(k + 1, LIST_STEP),
                                 .seed = request->seed};
}

static kith_status descend(kith_ctx *ctx, const relating *r, const kin_descent_request *request,
                           uint32_t *ids, double *evaluations)
{
    const kith_matrix matrix = {.data = r->rows,
                                .rows = r->points->count,
                                .cols = r->cols,
                                .dtype = KITH_F32,
                                .stride_bytes = r->cols * (int64_t)sizeof *r->rows};
    const kith_neighbors out = {.rows = matrix.rows, .k = request->k, .ids = ids};
    const kith_report before = ctx->report;
    kin_descent_outcome outcome;
    const kith_status status = kin_descent_graph(ctx, &matrix, request, &out, &outcome);
    ctx->report = before;
    *evaluations += outcome.evaluations;
    return status;
}

kith_status kin_descent_start_relative(kin_descent_rounds *rounds,
                                       const kin_descent_request *request, double *evaluations)
{
    kith_ctx *ctx = rounds->ctx;
    const kin_descent_points *points = rounds->points;
    const kin_descent_request near = request_of(request, points->count);
    relating r = {.points = points,
                  .cols = near.distance.cols,
                  .wide = kin_round_up(near.distance.cols, KIN_METRIC_LANES)};
    const uint64_t count = (uint64_t)points->count;
    uint32_t *ids = NULL;
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status,
                 kin_alloc(ctx, &r.rows, kin_size_mul(count, (uint64_t)r.cols), sizeof *r.rows,
                           "rows of a relative"),
                 done);
    KIN_TRY_GOTO(
        status,
        kin_alloc(ctx, &ids, kin_size_mul(count, (uint64_t)near.k), sizeof *ids, "neighbours"),
        done);
    KIN_TRY_GOTO(status, relate_all(ctx, &r), done);
    KIN_TRY_GOTO(status, descend(ctx, &r, &near, ids, evaluations), done);
    status = kin_descent_fill_ids(rounds, ids, (int32_t)near.k);
done:
    kin_free(ctx, ids);
    kin_free(ctx, r.rows);
    return status;
}

uint64_t kin_descent_relative_bytes(const kith_matrix *points, const kin_descent_request *request,
                                    int32_t threads)
{
    const kin_descent_request near = request_of(request, points->rows);
    const uint64_t cols = (uint64_t)points->cols;
    const kith_matrix matrix = {.rows = points->rows,
                                .cols = points->cols,
                                .dtype = KITH_F32,
                                .stride_bytes = (int64_t)(cols * sizeof(float))};
    const uint64_t a_row = cols * sizeof(float) + (uint64_t)near.k * sizeof(uint32_t);
    const uint64_t a_thread = (cols + KIN_METRIC_LANES + 1) * sizeof(double);
    return kin_size_add(kin_size_add(kin_size_mul((uint64_t)points->rows, a_row),
                                     kin_size_mul((uint64_t)threads, a_thread)),
                        kin_descent_bytes(&matrix, &near, threads));
}
