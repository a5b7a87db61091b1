/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Answers by a tree need nothing of each other:
 *
 *      corpus    brought once, a part by each, and copied from GPU to GPU (gpu.h)
 *      tree      each plants its own, which takes milliseconds
 *      search    each: its share of the queries, its rows of the outputs
 *      graph     each: its share of the points, as queries that leave themselves out
 *
 * The order of answers is canonical, so their bytes are those of one GPU. Whether a tree pays the
 * first member says for all, as it would alone.
 *
 * Memory. Each holds at most what one GPU holds, which has more queries, and four bytes a point of
 * its share. */
#include "tree/tree_gpu.h"

/* Rows a member of which fewer are answered sooner than a tree is made. */
enum { LEAST_ROWS = 65536 };
/* Columns below which a GPU finds what is within a radius sooner than the host has its table, which
 * is made twice where it is divided. */
enum { LEAST_COLS = 10 };

typedef struct team_job {
    const kith_matrix *corpus;
    const kin_exact_gpu_query *query; /* queries NULL: a graph */
    bool takes;                       /* a tree pays */
    kin_exact_gpu_told told;
} team_job;

static int64_t rows_of(const kith_matrix *corpus, const kin_exact_gpu_query *query)
{
    return query->queries != NULL ? query->queries->rows : corpus->rows;
}

bool kin_tree_gpu_team_searches(const kin_gpu *gpu, int64_t rows, uint32_t place)
{
    return place == 0 && kin_gpu_team_takes(gpu, rows, LEAST_ROWS);
}

bool kin_tree_gpu_team_radii(const kin_gpu *gpu, const kith_matrix *asked, uint32_t place)
{
    return asked->cols >= LEAST_COLS && kin_tree_gpu_team_searches(gpu, asked->rows, place);
}

/* Those of a graph lie on the device. */
static kith_status search_share(const kin_tree_gpu_corpus *c, const kin_exact_gpu_query *query,
                                const kin_exact_gpu_member *own)
{
    kith_ctx *ctx = own->ctx;
    kin_exact_gpu_query asked = *query;
    const kith_matrix points = kin_exact_gpu_resident(&c->points, &c->prepared.rows);
    kin_exact_gpu_slice slice;
    uint32_t *self = NULL;
    if (query->queries == NULL) {
        asked.queries = &points;
        asked.place = KIN_GPU_DATA_ON_DEVICE;
    }
    kin_exact_gpu_slice_of(&asked, own->first, own->count, &slice);
    if (query->queries == NULL && kin_request_leaves(query->request, true)) {
        KIN_TRY(kin_exact_gpu_own_ids(ctx, c->gpu, own->first, own->count, &self));
        slice.request.exclude = self;
    }
    const kith_status status = kin_tree_gpu_corpus_search(ctx, c, &slice.query);
    kin_gpu_free(c->gpu, self);
    return status;
}

/* By the first member, which is out of step as long as the others wait. */
static kith_status judge(kith_ctx *ctx, const kin_tree_gpu_corpus *c, team_job *job)
{
    kin_gpu_seat *seat = c->gpu->seat;
    c->gpu->seat = NULL;
    const kith_status status = kin_tree_gpu_corpus_judge(ctx, c, job->query, &job->takes);
    c->gpu->seat = seat;
    return status;
}

static kith_status member(void *arg, kith_ctx *ctx, kin_gpu *gpu, int32_t part, int32_t parts)
{
    team_job *job = arg;
    const kin_request *request = job->query->request;
    const kin_exact_gpu_member own =
        kin_exact_gpu_member_of(ctx, gpu, rows_of(job->corpus, job->query), part, parts);
    const kin_screen_gpu_source source = {.matrix = job->corpus,
                                          .distance = &request->distance,
                                          .name =
                                              job->query->queries == NULL ? "points" : "corpus"};
    kin_tree_gpu_corpus c = {0};
    if (job->query->queries != NULL && kin_tree_gpu_named(request)) {
        const kith_matrix share = kin_matrix_part(job->query->queries, own.first, own.count);
        kin_tree_gpu_bring(ctx, gpu, job->corpus, job->query, &share);
    }
    kith_status status = kin_tree_gpu_corpus_make(ctx, gpu, &source, request->tree_height, 0, &c);
    if (status == KITH_OK && part == 0) {
        status = judge(ctx, &c, job);
    }
    status = kin_gpu_meet(gpu, status);
    kin_gpu_break_step(gpu);
    if (status == KITH_OK && job->takes) {
        status = search_share(&c, job->query, &own);
    }
    kin_gpu_ahead_leave(gpu);
    kin_exact_gpu_told_take(&own, &job->told);
    kin_tree_gpu_corpus_free(ctx, &c);
    return status;
}

static kith_status search_by_team(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                                  const kin_exact_gpu_query *query, bool *declined)
{
    const kith_report before = ctx->report;
    team_job job = {.corpus = corpus, .query = query};
    const kith_status status = kin_gpu_team_run(ctx, gpu->team, true, member, &job);
    *declined = !job.takes;
    if (status == KITH_OK && job.takes) {
        kin_exact_gpu_told_add_up(&job.told, (int32_t)kin_max_i64(1, kin_gpu_team_count(gpu->team)),
                                  &ctx->report);
    } else {
        ctx->report = before;
    }
    return status;
}

kith_status kin_tree_gpu_search(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                                const kin_exact_gpu_query *query, bool *declined)
{
    if (query->request->pipeline == NULL &&
        kin_tree_gpu_team_searches(gpu, rows_of(corpus, query), query->place)) {
        const kith_status status = search_by_team(ctx, gpu, corpus, query, declined);
        if (!kin_exact_gpu_team_yields(ctx, status)) {
            return status;
        }
    }
    return kin_tree_gpu_search_alone(ctx, gpu, corpus, query, declined);
}
