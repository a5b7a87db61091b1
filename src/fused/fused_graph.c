/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A graph whose lists fit is screened with both ends of each pair collecting. Its rows are
 * arranged first: a pass over the seeds gives every row a reach, runs of rows are sorted by it and
 * rounded again, so that the rows that share a gate have thresholds that differ little
 * (fused_arrange.cu). Where lists do not fit, stripes of rows are searched one-sided; where the
 * points do not fit, chunks of them are.
 */
#include "fused/fused_search.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "fused/fused_direct.h"
#include "fused/fused_pipeline.h"
#include "fused/fused_side.h"
#include "gpu/gpu_team.h"
#include "host/host_clock.h"
#include "kith/kith_papers.h"

static bool leaves_own_out(const kin_request *request)
{
    return (request->flags & KITH_INCLUDE_SELF) == 0;
}

/* ---- Two-sided ------------------------------------------------------------------------------- */

static kith_status screen_graph(kin_fused_answers *a, kin_fused_prepared *points,
                                const kin_fused_worst *worst, const kin_request *request)
{
    kith_ctx *ctx = a->on.ctx;
    const int64_t k = kin_min_i64(a->wanted, points->groups.count);
    const bool fused = request->pipeline == NULL;
    if (kin_fused_by_host(request)) {
        return request->pipeline->fused->answer(a, points, points, worst, request);
    }
    int64_t start = kin_clock_ns();
    kin_fused_work work = {.on = a->on,
                           .rows = points->set,
                           .graph = fused && (request->flags & KITH_NO_SYMMETRY) == 0,
                           .shared = kin_gpu_parts(a->on.gpu) > 1,
                           .col_worst = worst};
    if ((request->flags & KITH_NO_SKIP) != 0) {
        work.rows.centres = NULL;
    }
    work.cols = work.rows;
    kith_status status = KITH_OK;
    KIN_TRY(kin_fused_work_make(&work, k, kin_fused_capacity(k)));
    if (kin_fused_work_has_stages(&work)) {
        KIN_TRY_GOTO(status, kin_fused_runs_arrange(&work, points, KIN_FUSED_RUN), done);
    }
    KIN_TRY_GOTO(status,
                 request->pipeline != NULL ? request->pipeline->fused->fill(&work, request)
                                           : kin_fused_work_run(&work),
                 done);
    KIN_TRY_GOTO(status, kin_gpu_wait(ctx, a->on.gpu), done);
    ctx->report.seconds_screen += kin_clock_since(start);
    start = kin_clock_ns();
    status = work.shared ? kin_fused_answers_take_shared(a, &work, &points->rows, &points->rows)
                         : kin_fused_answers_take(a, &work, &points->rows, &points->rows);
    ctx->report.seconds_rescore += kin_clock_since(start);
done:
    kin_fused_work_free(&work);
    return status;
}

static kith_status graph_at_once(kith_ctx *ctx, kin_fused_corpus *corpus,
                                 const kin_request *request, uint32_t place,
                                 const kith_neighbors *out)
{
    kin_fused_prepared *points = &corpus->prepared;
    const bool leaves = leaves_own_out(request);
    kin_fused_answers a = {
        .on = kin_fused_device_of(ctx, corpus->gpu),
        .metric = request->distance.metric,
        .groups = &points->groups,
        .target = {.groups = &points->groups, .leaves_self_out = leaves, .out = out},
        .by_host = kin_fused_by_host(request),
        .wanted = kin_min_i64(request->k + (leaves ? 1 : 0), points->groups.rows)};
    KIN_TRY(kin_fused_answers_make(&a, (place & KIN_FUSED_OUT_ON_DEVICE) != 0, false));
    kith_status status = KITH_OK;
    if (points->groups.count > 0) {
        KIN_TRY_GOTO(status, screen_graph(&a, points, corpus->worst, request), done);
    }
    KIN_TRY_GOTO(status, kin_fused_answers_finish(&a, out, points->groups.rows), done);
    kin_fused_report(ctx, points, &a.tally, points->groups.count);
done:
    kin_fused_answers_free(&a);
    return status;
}

/* ---- In stripes ------------------------------------------------------------------------------ */

/* Each row's own id is what it leaves out, in device memory. */
static kith_status own_ids(kith_ctx *ctx, kin_gpu *gpu, int64_t rows, uint32_t **device)
{
    const uint64_t bytes = (uint64_t)rows * sizeof **device;
    uint32_t *host = NULL;
    KIN_TRY(kin_alloc(ctx, &host, bytes, 1, "own ids"));
    for (int64_t i = 0; i < rows; i++) {
        host[i] = (uint32_t)i;
    }
    kith_status status = kin_gpu_alloc(ctx, gpu, device, bytes, 1, "own ids");
    if (status == KITH_OK) {
        status = kin_gpu_upload(ctx, gpu, *device, host, bytes);
    }
    kin_free(ctx, host);
    return status;
}

/* The points as queries are rows that lie on the device already. */
static kith_status graph_in_stripes(kith_ctx *ctx, const kin_fused_corpus *corpus,
                                    const kin_request *request, uint32_t place,
                                    const kith_neighbors *out)
{
    kith_matrix points = corpus->points;
    points.data = corpus->prepared.rows.data;
    points.stride_bytes = corpus->prepared.rows.stride_bytes;
    uint32_t *device = NULL;
    kin_request own = *request;
    kin_fused_tally tally = {0};
    kith_status status = KITH_OK;
    if (leaves_own_out(request)) {
        KIN_TRY_GOTO(status, own_ids(ctx, corpus->gpu, points.rows, &device), done);
        own.exclude = device;
    }
    const kin_fused_query query = {.queries = &points,
                                   .name = "points",
                                   .request = &own,
                                   .place = place | KIN_FUSED_DATA_ON_DEVICE,
                                   .out = out};
    KIN_TRY_GOTO(status, kin_fused_search_stripes(ctx, corpus, &query, &tally), done);
    kin_fused_report(ctx, &corpus->prepared, &tally, points.rows);
done:
    kin_gpu_free(corpus->gpu, device);
    return status;
}

static kith_status graph_of(kith_ctx *ctx, kin_fused_corpus *corpus, const kin_request *request,
                            uint32_t place, const kith_neighbors *out)
{
    if (!kin_fused_screens(request, corpus->points.rows, corpus->points.rows)) {
        const kin_fused_query query = {.request = request, .place = place, .out = out};
        return kin_fused_direct(ctx, corpus->gpu, &corpus->prepared.rows, &corpus->prepared.rows,
                                &query);
    }
    const kith_status status = graph_at_once(ctx, corpus, request, place, out);
    if (status != KITH_E_DEVICE_MEMORY) {
        return status;
    }
    kin_forgive(ctx);
    kin_gpu_trim(corpus->gpu);
    /* The rows may have been arranged: their tiles are not what they were. */
    const kin_fused_device on = kin_fused_device_of(ctx, corpus->gpu);
    KIN_TRY(kin_fused_worst_find(&on, &corpus->prepared.set, corpus->worst));
    return graph_in_stripes(ctx, corpus, request, place, out);
}

/* ---- By several GPUs ------------------------------------------------------------------------- */

typedef struct team_job {
    const kith_matrix *points;
    const kin_request *request;
    uint32_t place;
    const kith_neighbors *out;
} team_job;

/* What a member that does not write does: its lists, which the first one asks for. */
static kith_status serve_graph(kith_ctx *ctx, kin_fused_corpus *corpus, const kin_request *request)
{
    kin_fused_prepared *points = &corpus->prepared;
    const int64_t wanted = request->k + (leaves_own_out(request) ? 1 : 0);
    kin_fused_answers a = {.on = kin_fused_device_of(ctx, corpus->gpu),
                           .metric = request->distance.metric,
                           .groups = &points->groups,
                           .kernels_write = true, /* nothing is brought to the host */
                           .wanted = kin_min_i64(wanted, points->groups.rows)};
    return screen_graph(&a, points, corpus->worst, request);
}

/* Members see the same rows by the same kernels, so they agree; a stage would hang if they did not.
 */
static kith_status compare_sets(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_prepared *points)
{
    const uint64_t own = (uint64_t)points->groups.count << 16 | (uint64_t)points->set.frame.type;
    uint64_t least = 0;
    uint64_t most = 0;
    KIN_TRY(kin_gpu_agree(gpu, own, &least));
    KIN_TRY(kin_gpu_agree(gpu, UINT64_MAX - own, &most));
    return UINT64_MAX - most == least
               ? KITH_OK
               : kin_fail(ctx, KITH_E_INTERNAL, "GPUs of one model prepared different sets");
}

static kith_status graph_of_member(void *arg, kith_ctx *ctx, kin_gpu *gpu, int32_t part,
                                   int32_t parts)
{
    const team_job *job = arg;
    const kin_fused_source source = {job->points, &job->request->distance, "points", job->place};
    kin_fused_corpus *corpus = NULL;
    (void)parts;
    kith_status status =
        kin_fused_corpus_make(ctx, gpu, &source, job->points->dtype, job->request->k + 1, &corpus);
    if (status == KITH_OK) {
        status = compare_sets(ctx, gpu, &corpus->prepared);
    }
    if (status == KITH_OK && part == 0) {
        status = graph_at_once(ctx, corpus, job->request, job->place, job->out);
    } else if (status == KITH_OK && corpus->prepared.groups.count > 0) {
        status = serve_graph(ctx, corpus, job->request);
    }
    kin_fused_corpus_free(ctx, corpus);
    return status;
}

static kith_status graph_by_team(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *points,
                                 const kin_request *request, uint32_t place,
                                 const kith_neighbors *out)
{
    team_job job = {points, request, place, out};
    return kin_gpu_team_run(ctx, gpu->team, true, graph_of_member, &job);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static kith_status try_graph(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *points,
                             const kin_request *request, uint32_t place, const kith_neighbors *out)
{
    const kin_fused_source source = {points, &request->distance, "points", place};
    kin_fused_corpus *corpus = NULL;
    kith_status status =
        kin_fused_corpus_make(ctx, gpu, &source, points->dtype, request->k + 1, &corpus);
    if (status == KITH_OK) {
        status = graph_of(ctx, corpus, request, place, out);
    }
    kin_fused_corpus_free(ctx, corpus);
    if (status != KITH_E_DEVICE_MEMORY) {
        return status;
    }
    kin_forgive(ctx);
    kin_gpu_trim(gpu);
    const kin_fused_query query = {
        .name = "points", .request = request, .place = place, .out = out};
    return kin_fused_search_chunks(ctx, gpu, points, &query);
}

kith_status kin_fused_graph(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *points,
                            const kin_request *request, uint32_t place, const kith_neighbors *out)
{
    kith_status status = KITH_OK;
    if (kin_fused_team_graphs(gpu, points, request, place)) {
        status = graph_by_team(ctx, gpu, points, request, place, out);
        if (!kin_fused_team_yields(ctx, status)) {
            return status;
        }
    }
    do {
        status = try_graph(ctx, gpu, points, request, place, out);
    } while (kin_fused_again(ctx, gpu, status));
    return status;
}
