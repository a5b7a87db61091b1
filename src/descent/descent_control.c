/* SPDX-License-Identifier: Apache-2.0 */
#include "descent/descent_control.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "exact/exact_request.h"
#include "exact/exact_search.h"
#include "host/host_threads.h"

enum { POINTS_A_TASK = 8 };

static bool leaves_out(const kin_descent_request *request)
{
    return (request->flags & KITH_INCLUDE_SELF) == 0;
}

/* ---- What lists have ------------------------------------------------------------------------ */

typedef struct looking {
    kin_descent_finish finish;
    const kin_descent_request *request;
    const uint32_t *owner;
    double *kth;   /* the one that is filled: kth, */
    double *found; /* or found and, of each control point, */
    double *sums;  /* the distances of its first k */
} looking;

/* The ids of a control point in order, into the thread's answer. */
static kith_status list_of(looking *l, uint32_t row, int32_t thread)
{
    if (l->owner[row] == KITH_ID_NONE) {
        kin_answer_degenerate(&l->finish.finishers[thread].answer);
        return KITH_OK;
    }
    return l->finish.lists != NULL ? kin_descent_finish_list(&l->finish, l->owner[row], thread)
                                   : kin_descent_finish_scan(&l->finish, l->owner[row], thread);
}

static void read_list(const looking *l, const kin_answer *answer, int64_t control)
{
    const kin_descent_request *request = l->request;
    const int64_t at = request->control->at;
    const uint32_t row = request->control->ids[control];
    const uint32_t left_out = leaves_out(request) ? row : KITH_ID_NONE;
    int64_t rank = 0;
    for (int64_t i = 0; i < answer->count; i++) {
        const double key = answer->list[i].key;
        if (answer->list[i].id == left_out) {
            continue;
        }
        if (l->found != NULL && rank < at) {
            l->found[control * at + rank] = key;
        }
        if (l->sums != NULL && rank < request->k) {
            l->sums[control] += kin_metric_distance(request->distance.metric, key);
        }
        rank += 1;
        if (l->kth != NULL && rank == at) {
            l->kth[control] = key;
        }
    }
}

static kith_status look(void *arg, int64_t task, int32_t thread)
{
    looking *l = arg;
    const kin_recall_control *control = l->request->control;
    const int64_t last = kin_min_i64((task + 1) * POINTS_A_TASK, control->count);
    for (int64_t i = task * POINTS_A_TASK; i < last; i++) {
        KIN_TRY(list_of(l, control->ids[i], thread));
        read_list(l, &l->finish.finishers[thread].answer, i);
    }
    return KITH_OK;
}

static kith_status look_at_all(kith_ctx *ctx, const kin_prepared *prepared,
                               const kin_descent_points *points, const kin_descent_lists *lists,
                               looking *l)
{
    const int64_t most = kin_max_i64(l->request->k, l->request->control->at);
    const int64_t tasks = kin_ceil_div(l->request->control->count, POINTS_A_TASK);
    kith_status status = kin_descent_finish_make(ctx, prepared, points, lists,
                                                 most + leaves_out(l->request), &l->finish);
    if (status == KITH_OK) {
        status = kin_parallel(ctx, "control", tasks, look, l);
        kin_descent_finish_free(&l->finish);
    }
    return status;
}

kith_status kin_descent_control_look(kith_ctx *ctx, const kin_prepared *prepared,
                                     const kin_descent_points *points,
                                     const kin_descent_lists *lists,
                                     const kin_descent_request *request, const uint32_t *owner,
                                     double *phi)
{
    const kin_recall_control *control = request->control;
    looking l = {.request = request, .owner = owner, .found = control->found};
    *phi = 0.0;
    KIN_TRY(kin_alloc_zero(ctx, &l.sums, (uint64_t)control->count, sizeof *l.sums,
                           "sums of distances"));
    for (int64_t i = 0; i < control->count * control->at; i++) {
        l.found[i] = INFINITY;
    }
    const kith_status status = look_at_all(ctx, prepared, points, lists, &l);
    for (int64_t i = 0; i < control->count; i++) {
        *phi += l.sums[i];
    }
    *phi *= (double)prepared->rows.matrix.rows / (double)kin_max_i64(control->count, 1);
    kin_free(ctx, l.sums);
    return status;
}

/* ---- The truth ------------------------------------------------------------------------------ */

static kith_status scan(kith_ctx *ctx, const kin_prepared *prepared,
                        const kin_descent_request *request, const uint32_t *owner)
{
    looking l = {.request = request, .owner = owner, .kth = request->control->kth};
    return look_at_all(ctx, prepared, NULL, NULL, &l);
}

/* The control points as queries. */
typedef struct asking {
    unsigned char *rows;
    uint32_t *ids; /* count x at */
} asking;

/* The keys of the K-th ids: distances have lost bits that keys have. */
static kith_status keys_of_kth(kith_ctx *ctx, const kin_prepared *prepared,
                               const kin_recall_control *control, const uint32_t *ids)
{
    double *values = NULL;
    KIN_TRY(kin_alloc(ctx, &values,
                      (uint64_t)kin_round_up(prepared->distance.cols, KIN_METRIC_LANES),
                      sizeof *values, "a query"));
    for (int64_t i = 0; i < control->count; i++) {
        const kin_query query =
            kin_metric_load(&prepared->distance, &prepared->rows, control->ids[i], values);
        kin_metric_keys(&prepared->distance, &query, &prepared->rows,
                        &ids[i * control->at + control->at - 1], 0, 1, &control->kth[i]);
    }
    kin_free(ctx, values);
    return KITH_OK;
}

static kith_status ask(kith_ctx *ctx, const kin_prepared *prepared,
                       const kin_descent_request *request, asking *a)
{
    const kin_recall_control *control = request->control;
    const kith_matrix queries =
        kin_recall_gather(&prepared->rows.matrix, control->ids, control->count, a->rows);
    const kin_request search = {.distance = request->distance,
                                .k = control->at,
                                .exclude = leaves_out(request) ? control->ids : NULL};
    const kith_neighbors out = {.ids = a->ids, .rows = control->count, .k = control->at};
    const kith_report before = ctx->report; /* which is the graph's */
    const kith_status status = kin_exact_search(ctx, prepared, &queries, &search, &out);
    ctx->report = before;
    return status == KITH_OK ? keys_of_kth(ctx, prepared, control, a->ids) : status;
}

kith_status kin_descent_control_solve(kith_ctx *ctx, const kin_prepared *prepared,
                                      const kin_descent_request *request, const uint32_t *owner)
{
    const kin_recall_control *control = request->control;
    if (control->count == 0 || prepared->set.panels == NULL) {
        return scan(ctx, prepared, request, owner);
    }
    const kith_matrix *points = &prepared->rows.matrix;
    const uint64_t count = (uint64_t)control->count;
    asking a = {0};
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status,
                 kin_alloc(ctx, &a.rows, count,
                           (uint64_t)points->cols * (uint64_t)kith_dtype_bytes(points->dtype),
                           "control points"),
                 done);
    KIN_TRY_GOTO(status,
                 kin_alloc(ctx, &a.ids, kin_size_mul(count, (uint64_t)control->at), sizeof *a.ids,
                           "neighbours of control points"),
                 done);
    status = ask(ctx, prepared, request, &a);
done:
    kin_free(ctx, a.ids);
    kin_free(ctx, a.rows);
    return status;
}

uint64_t kin_descent_control_bytes(const kith_matrix *points, const kin_descent_request *request,
                                   int32_t threads)
{
    const kin_recall_control *control = request->control;
    if (control == NULL || control->count == 0) {
        return 0;
    }
    const uint64_t count = (uint64_t)control->count;
    const uint64_t a_row = (uint64_t)points->cols * (uint64_t)kith_dtype_bytes(points->dtype) +
                           (uint64_t)control->at * sizeof(uint32_t) + sizeof(double);
    kith_matrix queries = *points;
    queries.rows = control->count;
    const kin_request search = {
        .distance = request->distance, .k = control->at, .exclude = control->ids};
    const kin_plan plan = kin_plan_exact(points, &queries, &search,
                                         kin_prepare_unknown(points, &search.distance), threads);
    return kin_size_add(kin_size_mul(count, a_row), plan.screens ? plan.peak_bytes : 0);
}
