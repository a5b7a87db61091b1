/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Whatever is asked becomes work for the screen (screen_stage_gpu.c) or for canonical keys of
 * all pairs (exact_direct_gpu.c), and is cut until it fits:
 *
 *      everything fits              one stripe of queries against the corpus
 *      queries or lists do not      stripes of queries, the corpus resident
 *      the corpus does not          chunks of the corpus, stripes of queries, lists merged
 *
 * A graph whose lists fit is screened with both ends of each pair collecting. Its rows are arranged
 * first: a pass over the seeds gives every row a reach, runs of rows are sorted by it and rounded
 * again, so that the rows that share a gate have thresholds that differ little (screen_arrange.cu).
 * Where lists do not fit, its points are queries like others.
 *
 * A few queries against a corpus that is resident take a way of their own (exact_batch_gpu.c), and
 * so do both directions at once (exact_both_gpu.c).
 */
#include "exact/exact_search_gpu.h"

#include "host/host_clock.h"
#include "kith/kith_papers.h"

void kin_exact_gpu_make_room(kith_ctx *ctx, kin_gpu *gpu)
{
    kin_forgive(ctx);
    (void)kin_gpu_ahead_end(gpu);
    kin_gpu_trim(gpu);
}

/* ---- A graph, two-sided ---------------------------------------------------------------------- */

/* A gate, which many rows share, is as wide as the widest threshold among them. So rows that stand
 * together are put in the order of their reach (screen_arrange.cu): within runs of several tiles,
 * or within each tile where tiles must keep their points. */
kith_status kin_exact_gpu_runs_arrange(kin_screen_gpu_work *work, kin_screen_gpu_prepared *points,
                                       int32_t run)
{
    const kin_screen_gpu_device *on = &work->on;
    const kin_screen_gpu_arrange job = {
        .points = work->rows.points, .run = run, .ids = points->ids, .reach = work->lists.reach};
    const kin_screen_gpu_set before = work->rows;
    KIN_TRY(kin_screen_gpu_work_reach(work));
    KIN_TRY(KIN_SCREEN_LAUNCH(on, arrange, &job, "arranging rows"));
    KIN_TRY(kin_screen_gpu_prepared_round(on->ctx, on->gpu, points));
    work->rows = points->set;
    work->rows.centres = before.centres; /* or NULL where none are skipped */
    work->cols = work->rows;
    return KITH_OK;
}

/* A graph by pairs that serve both ends: whose stages plan with the balls of arranged rows. */
static bool is_two_sided(const kin_request *request)
{
    return request->pipeline == NULL && (request->flags & KITH_NO_SYMMETRY) == 0;
}

static kith_status screen_graph(kin_exact_gpu_answers *a, kin_screen_gpu_prepared *points,
                                const kin_screen_gpu_worst *worst, const kin_request *request)
{
    kith_ctx *ctx = a->on.ctx;
    const int64_t k = kin_min_i64(a->wanted, points->groups.count);
    const bool screened = request->pipeline == NULL;
    if (kin_exact_gpu_by_host(request)) {
        return request->pipeline->gpu->answer(a, points, points, worst, request);
    }
    int64_t start = kin_clock_ns();
    kin_screen_gpu_work work = {.on = a->on,
                                .rows = points->set,
                                .graph = is_two_sided(request),
                                .shared = kin_gpu_parts(a->on.gpu) > 1,
                                .col_worst = worst};
    if ((request->flags & KITH_NO_SKIP) != 0) {
        work.rows.centres = NULL;
    }
    work.cols = work.rows;
    kin_screen_gpu_shadow shadow = {0};
    kith_status status = KITH_OK;
    KIN_TRY(kin_screen_gpu_work_make(&work, k, kin_screen_gpu_capacity(k)));
    if (kin_screen_gpu_work_has_stages(&work)) {
        KIN_TRY_GOTO(status, kin_exact_gpu_runs_arrange(&work, points, KIN_SCREEN_GPU_RUN), done);
    }
    if (screened && (request->flags & KITH_NO_SKIP) == 0) {
        KIN_TRY_GOTO(
            status, kin_screen_gpu_shadow_make(&work, points, request->shadow_axes, &shadow), done);
    }
    KIN_TRY_GOTO(status,
                 request->pipeline != NULL ? request->pipeline->gpu->fill(&work, request)
                                           : kin_screen_gpu_work_run(&work),
                 done);
    KIN_TRY_GOTO(status, kin_gpu_wait(ctx, a->on.gpu), done);
    if (work.cast.rounded != NULL) { /* else there were none, or they were given up */
        ctx->report.shadow_axes = shadow.bytes ? work.cast.frame.cols : shadow.axes;
    }
    ctx->report.seconds_screen += kin_clock_since(start);
    start = kin_clock_ns();
    status = kin_exact_gpu_answers_take(a, &work, &points->rows, &points->rows);
    ctx->report.seconds_rescore += kin_clock_since(start);
done:
    kin_screen_gpu_shadow_free(&a->on, &shadow);
    kin_screen_gpu_work_free(&work);
    return status;
}

static kith_status graph_at_once(kith_ctx *ctx, kin_exact_gpu_corpus *corpus,
                                 const kin_exact_gpu_query *query)
{
    kin_screen_gpu_prepared *points = &corpus->prepared;
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(ctx, corpus->gpu);
    kin_exact_gpu_answers a =
        kin_exact_gpu_answers_of(&on, query, &points->groups, &points->groups);
    KIN_TRY(kin_exact_gpu_answers_make(&a, (query->place & KIN_GPU_OUT_ON_DEVICE) != 0, false));
    kith_status status = points->groups.count > 0
                             ? screen_graph(&a, points, corpus->worst, query->request)
                             : KITH_OK;
    KIN_THEN(status, kin_exact_gpu_answers_finish(&a, query->out, points->groups.rows));
    if (status == KITH_OK) {
        kin_exact_gpu_report(ctx, points, &a.tally, points->groups.count);
    }
    kin_exact_gpu_answers_free(&a);
    return status;
}

/* ---- A graph in stripes ---------------------------------------------------------------------- */

kith_status kin_exact_gpu_own_ids(kith_ctx *ctx, kin_gpu *gpu, int64_t first, int64_t count,
                                  uint32_t **device)
{
    const uint64_t bytes = (uint64_t)count * sizeof **device;
    uint32_t *host = NULL;
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, host, (uint64_t)count, "own ids");
    for (int64_t i = 0; i < count; i++) {
        host[i] = (uint32_t)(first + i);
    }
    KIN_TRY(kin_gpu_alloc(ctx, gpu, device, bytes, 1, "own ids"));
    return kin_gpu_upload(ctx, gpu, *device, host, bytes);
}

/* The points as queries are rows that lie on the device already. */
static kith_status graph_in_stripes(kith_ctx *ctx, const kin_exact_gpu_corpus *corpus,
                                    const kin_exact_gpu_query *graph)
{
    const kith_matrix points = kin_exact_gpu_resident(&corpus->points, &corpus->prepared.rows);
    uint32_t *device = NULL;
    kin_request own = *graph->request;
    kin_screen_gpu_tally tally = {0};
    kith_status status = (own.flags & KITH_INCLUDE_SELF) != 0
                             ? KITH_OK
                             : kin_exact_gpu_own_ids(ctx, corpus->gpu, 0, points.rows, &device);
    own.exclude = device != NULL ? device : own.exclude;
    const kin_exact_gpu_query query = {.queries = &points,
                                       .name = "points",
                                       .request = &own,
                                       .place = graph->place | KIN_GPU_DATA_ON_DEVICE,
                                       .out = graph->out};
    KIN_THEN(status, kin_exact_gpu_search_stripes(ctx, corpus, &query, &tally));
    if (status == KITH_OK) {
        kin_exact_gpu_report(ctx, &corpus->prepared, &tally, points.rows);
    }
    kin_gpu_free(corpus->gpu, device);
    return status;
}

static kith_status graph_of(kith_ctx *ctx, kin_exact_gpu_corpus *corpus,
                            const kin_exact_gpu_query *query)
{
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(ctx, corpus->gpu);
    kin_screen_gpu_prepared *points = &corpus->prepared;
    if (!kin_exact_gpu_screens(query->request, corpus->points.rows, corpus->points.rows)) {
        return kin_exact_gpu_direct(ctx, corpus->gpu, &points->rows, &points->rows, query);
    }
    const kith_status status = graph_at_once(ctx, corpus, query);
    if (status != KITH_E_DEVICE_MEMORY) {
        return status;
    }
    kin_exact_gpu_make_room(ctx, corpus->gpu);
    /* The rows may have been arranged: their tiles are not what they were, or have no balls yet. */
    KIN_TRY(kin_screen_gpu_prepared_round(ctx, corpus->gpu, points));
    KIN_TRY(kin_screen_gpu_worst_find(&on, &points->set, corpus->worst));
    return graph_in_stripes(ctx, corpus, query);
}

/* ---- A search -------------------------------------------------------------------------------- */

kith_status kin_exact_gpu_corpus_for(kith_ctx *ctx, const kin_exact_gpu_corpus *corpus,
                                     const kith_matrix *queries, int64_t k,
                                     kin_exact_gpu_corpus **again)
{
    *again = NULL;
    const kin_screen_gpu_set *set = &corpus->prepared.set;
    if (set->points == 0 || set->frame.bound != KIN_BOUND_INTEGER ||
        kin_frame_is_integer(&corpus->distance, &corpus->points, queries)) {
        return KITH_OK;
    }
    const kith_matrix points = kin_exact_gpu_resident(&corpus->points, &corpus->prepared.rows);
    const kin_screen_gpu_source source = {.matrix = &points,
                                          .distance = &corpus->distance,
                                          .name = "corpus",
                                          .place = KIN_GPU_DATA_ON_DEVICE};
    return kin_exact_gpu_corpus_make(ctx, corpus->gpu, &source, queries->dtype, k, again);
}

/* Once, with the scope that there is. */
static kith_status ask_corpus(kith_ctx *ctx, const kin_exact_gpu_corpus *corpus,
                              const kin_exact_gpu_query *query)
{
    const kin_request *request = query->request;
    const kith_matrix *queries = query->queries;
    const bool screens = kin_exact_gpu_screens(request, corpus->points.rows, queries->rows);
    /* However few pairs there are, where nobody shall wait. */
    const bool batches =
        screens || ((query->place & KIN_GPU_ENQUEUE) != 0 && kin_is_screened(&request->distance));
    kin_exact_gpu_corpus *again = NULL;
    kin_screen_gpu_tally tally = {0};
    bool done = false;
    KIN_TRY(batches ? kin_exact_gpu_corpus_for(ctx, corpus, queries, request->k, &again) : KITH_OK);
    const kin_exact_gpu_corpus *use = again != NULL ? again : corpus;
    kith_status status = batches && request->pipeline == NULL
                             ? kin_exact_gpu_batch_search(ctx, use, query, &done)
                             : KITH_OK;
    KIN_THEN(status, done ? KITH_OK : kin_exact_gpu_search_stripes(ctx, use, query, &tally));
    if (status == KITH_OK && !done && screens) {
        kin_exact_gpu_report(ctx, &use->prepared, &tally, queries->rows);
    }
    kin_exact_gpu_corpus_free(ctx, again);
    return status;
}

kith_status kin_exact_gpu_corpus_search(kith_ctx *ctx, const kin_exact_gpu_corpus *corpus,
                                        const kith_matrix *queries, const kin_request *request,
                                        uint32_t place, const kith_neighbors *out)
{
    const kin_exact_gpu_query query = {queries, "queries", request, place, out};
    kith_status status = KITH_OK;
    do {
        status = ask_corpus(ctx, corpus, &query);
    } while (kin_exact_gpu_again(ctx, corpus->gpu, status));
    return status;
}

/* ---- Corpora of any size --------------------------------------------------------------------- */

static kith_status try_search(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                              const kin_exact_gpu_query *query)
{
    const bool graph = query->queries == NULL;
    const kin_request *request = query->request;
    const kin_screen_gpu_source source = {.matrix = corpus,
                                          .distance = &request->distance,
                                          .name = graph ? "points" : "corpus",
                                          .place = query->place,
                                          .arranged = graph && is_two_sided(request),
                                          .askers = graph ? 0 : query->queries->rows};
    kin_exact_gpu_corpus *resident = NULL;
    kith_status status =
        kin_exact_gpu_corpus_make(ctx, gpu, &source, graph ? corpus->dtype : query->queries->dtype,
                                  request->k + (graph ? 1 : 0), &resident);
    KIN_THEN(status, graph ? graph_of(ctx, resident, query) : ask_corpus(ctx, resident, query));
    kin_exact_gpu_corpus_free(ctx, resident);
    if (status != KITH_E_DEVICE_MEMORY) {
        return status;
    }
    kin_exact_gpu_make_room(ctx, gpu);
    return kin_exact_gpu_search_chunks(ctx, gpu, corpus, query);
}

/* ---- By several GPUs ------------------------------------------------------------------------- */

/*      search   each member: the whole corpus, its share of the queries, its rows of the outputs
 *      graph    all members in lockstep, each with a share of the pairs; the first one writes
 */
typedef struct team_job {
    const kith_matrix *corpus;
    const kin_exact_gpu_query *query;
} team_job;

/* What a member that does not write does: its lists, which the first one asks for. */
static kith_status serve_graph(kith_ctx *ctx, kin_exact_gpu_corpus *corpus,
                               const kin_exact_gpu_query *query)
{
    kin_screen_gpu_prepared *points = &corpus->prepared;
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(ctx, corpus->gpu);
    kin_exact_gpu_answers a =
        kin_exact_gpu_answers_of(&on, query, &points->groups, &points->groups);
    a.kernels_write = true; /* nothing is brought to the host */
    return screen_graph(&a, points, corpus->worst, query->request);
}

/* Members see the same rows by the same kernels, so they agree; a stage would hang if they did not.
 */
static kith_status compare_sets(kith_ctx *ctx, kin_gpu *gpu, const kin_screen_gpu_prepared *points)
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
    const kin_request *request = job->query->request;
    const kin_screen_gpu_source source = {.matrix = job->corpus,
                                          .distance = &request->distance,
                                          .name = "points",
                                          .place = job->query->place,
                                          .arranged = is_two_sided(request)};
    kin_exact_gpu_corpus *corpus = NULL;
    (void)parts;
    kith_status status =
        kin_exact_gpu_corpus_make(ctx, gpu, &source, job->corpus->dtype, request->k + 1, &corpus);
    KIN_THEN(status, compare_sets(ctx, gpu, &corpus->prepared));
    if (status == KITH_OK && part == 0) {
        status = graph_at_once(ctx, corpus, job->query);
    } else if (status == KITH_OK && corpus->prepared.groups.count > 0) {
        status = serve_graph(ctx, corpus, job->query);
    }
    kin_exact_gpu_corpus_free(ctx, corpus);
    return status;
}

/* The corpus is prepared in lockstep, which brings it to the GPUs once; then each works alone. */
static kith_status search_resident(void *arg, kith_ctx *ctx, kin_gpu *gpu, int32_t part,
                                   int32_t parts)
{
    const team_job *job = arg;
    const kin_exact_gpu_query *query = job->query;
    const kin_exact_gpu_member own =
        kin_exact_gpu_member_of(ctx, gpu, query->queries->rows, part, parts);
    kin_exact_gpu_slice slice;
    kin_exact_gpu_slice_of(query, own.first, own.count, &slice);
    const kin_screen_gpu_source source = {.matrix = job->corpus,
                                          .distance = &slice.request.distance,
                                          .name = "corpus",
                                          .askers = slice.queries.rows};
    kin_exact_gpu_corpus *corpus = NULL;
    kith_status status = kin_exact_gpu_corpus_make(ctx, gpu, &source, query->queries->dtype,
                                                   slice.request.k, &corpus);
    status = kin_gpu_meet(gpu, status);
    kin_gpu_break_step(gpu);
    if (status == KITH_OK && slice.queries.rows > 0) {
        status =
            kin_exact_gpu_corpus_search(ctx, corpus, &slice.queries, &slice.request, 0, &slice.out);
    }
    kin_exact_gpu_corpus_free(ctx, corpus);
    return status;
}

/* A corpus that does not fit comes to each in chunks. */
static kith_status search_alone(void *arg, const kin_exact_gpu_member *own)
{
    const team_job *job = arg;
    kin_exact_gpu_slice slice;
    kin_exact_gpu_slice_of(job->query, own->first, own->count, &slice);
    return kin_exact_gpu_search(own->ctx, own->gpu, job->corpus, &slice.query);
}

static kith_status search_by_team(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                                  const kin_exact_gpu_query *query)
{
    team_job job = {corpus, query};
    const kith_status status = kin_gpu_team_run(ctx, gpu->team, true, search_resident, &job);
    if (status != KITH_E_DEVICE_MEMORY) {
        return status;
    }
    kin_forgive(ctx);
    const kin_exact_gpu_division rows = {query->queries->rows, search_alone, &job};
    return kin_exact_gpu_divide(ctx, gpu, &rows);
}

static kith_status graph_by_team(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *points,
                                 const kin_exact_gpu_query *query)
{
    team_job job = {points, query};
    return kin_gpu_team_run(ctx, gpu->team, true, graph_of_member, &job);
}

kith_status kin_exact_gpu_search(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                                 const kin_exact_gpu_query *query)
{
    const bool graph = query->queries == NULL;
    const bool by_team = graph
                             ? kin_exact_gpu_team_graphs(gpu, corpus, query->request, query->place)
                             : kin_exact_gpu_team_searches(gpu, query->queries->rows, query->place);
    kith_status status = KITH_OK;
    if (by_team) {
        status = graph ? graph_by_team(ctx, gpu, corpus, query)
                       : search_by_team(ctx, gpu, corpus, query);
        if (!kin_exact_gpu_team_yields(ctx, status)) {
            return status;
        }
    }
    do {
        status = try_search(ctx, gpu, corpus, query);
    } while (kin_exact_gpu_again(ctx, gpu, status));
    return status;
}
