/* SPDX-License-Identifier: Apache-2.0
 *
 *      rows as given -> related rows -> their graph, by this engine -> ids            all of them
 *      rows as given -> lengths, sorted -> the longest -> search by the exact engine  products
 *
 * What was found is compared by the metric itself, and lists keep the nearest of it. Of 20,000 rows
 * in clusters whose lengths vary by a third, 64 neighbours in direction hold 0.80 of the first ten
 * under the inner product, and 0.87 together with the best 16 of the 400 longest rows; of rows
 * like word vectors 0.17 and 1.00.
 *
 * Memory. Related rows, 4 bytes a value, where they are not the rows as given; the graph of those
 * as if it were asked for; 4 bytes an id that was found, until lists have it.
 */
#include "cascade/cascade_relative.h"

#include "base/base_try.h"
#include "cascade/cascade_need.h"
#include "descent/descent_relative.h"

enum {
    NEIGHBOURS = 64, /* of the relative: a few more cost much less than a round */
    LONGEST = 32768, /* rows that all look at, but */
    LEAST_SHORT = 4, /* no more than one in so many */
    OF_LONGEST = 32  /* each keeps of them */
};
static const double ENOUGH = 0.01; /* rounds of a relative that change less are not worth it */

static bool is_product(const kin_descent_request *request)
{
    return request->distance.metric == KITH_INNER_PRODUCT;
}

bool kin_cascade_is_related(const kin_descent_request *request)
{
    return request->related > 0 && request->start == KIN_DESCENT_START_SCREEN &&
           (is_product(request) || kin_descent_has_relative(request->distance.metric));
}

static kin_cascade_relation relation_of(kith_metric metric)
{
    switch (metric) {
    case KITH_CHI2:
    case KITH_KL:
        return KIN_CASCADE_ROOTS;
    case KITH_JACCARD:
        return KIN_CASCADE_PATTERNS;
    case KITH_INNER_PRODUCT:
        return KIN_CASCADE_DIRECTIONS;
    default:
        return KIN_CASCADE_AS_GIVEN;
    }
}

static int64_t longest_of(int64_t rows)
{
    return kin_max_i64(1, kin_min_i64(LONGEST, rows / LEAST_SHORT));
}

static kin_descent_request near_request(const kin_descent_request *request, int64_t rows)
{
    const int64_t wished = kin_max_i64(request->list, NEIGHBOURS);
    return (kin_descent_request){
        .distance = {.metric = KITH_SQEUCLIDEAN,
                     .cols = request->distance.cols,
                     .isa = request->distance.isa},
        .k = kin_min_i64(kin_min_i64(wished, KIN_CASCADE_MOST_K), kin_max_i64(rows - 1, 1)),
        .share = request->share,
        .delta = ENOUGH,
        .seed = request->seed};
}

static kin_request longest_request(const kin_descent_request *request, int64_t rows)
{
    return (kin_request){.distance = request->distance,
                         .k = kin_min_i64(OF_LONGEST, longest_of(rows)),
                         .method = KITH_METHOD_EXACT};
}

static kith_matrix related_shape(const kith_matrix *points, kin_cascade_relation relation)
{
    kith_matrix shape = *points;
    if (relation != KIN_CASCADE_AS_GIVEN) {
        shape.dtype = KITH_F32;
        shape.stride_bytes = points->cols * (int64_t)sizeof(float);
    }
    return shape;
}

static kith_matrix matrix_of(const kin_fused_rows *rows)
{
    return (kith_matrix){.data = rows->data,
                         .rows = rows->rows,
                         .cols = rows->cols,
                         .dtype = rows->dtype,
                         .stride_bytes = rows->stride_bytes};
}

static kith_status make_ids(const kin_cascade_run *run, int64_t k, kin_cascade_found *found)
{
    found->k = k;
    return kin_gpu_alloc(run->on.ctx, run->on.gpu, &found->ids,
                         kin_size_mul((uint64_t)run->rows, (uint64_t)k), sizeof *found->ids,
                         "neighbours under a relative");
}

/* ---- The relative ---------------------------------------------------------------------------- */

/* data: related rows, or NULL. words: of each row its length, or NULL. */
static kith_status relate(const kin_cascade_run *run, kin_cascade_relation relation, float *data,
                          uint64_t *words)
{
    const kin_cascade_relate job = {
        .rows = run->points.rows, .relation = relation, .related = data, .lengths = words};
    return kin_cascade_check(run, run->kernels->relate(run->on.stream, &job), "relating rows");
}

static kith_status find_near(kin_cascade_run *run, kin_cascade_relatives *relatives)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const kin_cascade_relation relation = relation_of(run->request->distance.metric);
    const kith_matrix given = matrix_of(&run->points.rows);
    const kin_descent_request request = near_request(run->request, run->rows);
    kith_matrix points = related_shape(&given, relation);
    kin_descent_outcome outcome;
    float *data = NULL;
    kith_status status = KITH_OK;
    KIN_TRY(make_ids(run, request.k, &relatives->near));
    if (relation != KIN_CASCADE_AS_GIVEN) {
        KIN_TRY(kin_gpu_alloc(ctx, gpu, &data, (uint64_t)points.rows,
                              (uint64_t)points.cols * sizeof *data, "rows of a relative"));
        points.data = data;
        KIN_TRY_GOTO(status, relate(run, relation, data, NULL), done);
    }
    const kith_neighbors out = {.rows = run->rows, .k = request.k, .ids = relatives->near.ids};
    KIN_TRY_GOTO(status,
                 kin_cascade_graph_make(ctx, gpu, &points, &request,
                                        KIN_FUSED_DATA_ON_DEVICE | KIN_FUSED_OUT_ON_DEVICE, &out,
                                        &outcome),
                 done);
    relatives->evaluations += outcome.evaluations;
done:
    kin_gpu_free(gpu, data);
    return status;
}

/* ---- The longest rows ------------------------------------------------------------------------ */

/* Rows by falling length; of those that are equally long the first. */
static kith_status sort_rows(const kin_cascade_run *run, uint32_t *order)
{
    const kin_fused_device *on = &run->on;
    uint64_t *words = NULL;
    void *scratch = NULL;
    uint64_t bytes = 0;
    kith_status status = KITH_OK;
    KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &words, (uint64_t)run->rows, sizeof *words, "lengths"));
    kin_fused_sort job = {.nearest = words,
                          .points = run->rows,
                          .cell_count = UINT32_MAX,
                          .order = order,
                          .scratch_bytes = &bytes};
    KIN_TRY_GOTO(status, relate(run, KIN_CASCADE_DIRECTIONS, NULL, words), done);
    KIN_TRY_GOTO(status,
                 kin_cascade_check(run, on->kernels->sort(on->stream, &job), "planning a sort"),
                 done);
    KIN_TRY_GOTO(status, kin_gpu_alloc(on->ctx, on->gpu, &scratch, bytes, 1, "room for sorting"),
                 done);
    job.scratch = scratch;
    status = kin_cascade_check(run, on->kernels->sort(on->stream, &job), "sorting rows by length");
done:
    kin_gpu_free(on->gpu, scratch);
    kin_gpu_free(on->gpu, words);
    return status;
}

static kith_status find_longest(kin_cascade_run *run, kin_cascade_found *found)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    uint32_t *order = NULL;
    found->of_count = longest_of(run->rows);
    const uint64_t count = (uint64_t)found->of_count;
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &found->of, count, sizeof *found->of, "the longest rows"));
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &order, (uint64_t)run->rows, sizeof *order, "rows by length"));
    kith_status status = sort_rows(run, order);
    if (status == KITH_OK) {
        status = kin_cascade_check(
            run,
            gpu->module->ops->copy_within(run->on.stream, found->of, order, count * sizeof *order),
            "copying the longest rows");
    }
    kin_gpu_free(gpu, order);
    return status;
}

static kith_status search_longest(kin_cascade_run *run, kin_cascade_relatives *relatives)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    kin_cascade_found *found = &relatives->among;
    const kith_matrix queries = matrix_of(&run->points.rows);
    const kin_request request = longest_request(run->request, run->rows);
    const uint64_t row_bytes = (uint64_t)queries.cols * (uint64_t)kith_dtype_bytes(queries.dtype);
    unsigned char *data = NULL;
    kith_status status = KITH_OK;
    KIN_TRY(find_longest(run, found));
    KIN_TRY(make_ids(run, request.k, found));
    KIN_TRY(
        kin_gpu_alloc(ctx, gpu, &data, (uint64_t)found->of_count, row_bytes, "the longest rows"));
    const kin_cascade_pick pick = {.from = queries.data,
                                   .stride_bytes = queries.stride_bytes,
                                   .bytes = (int64_t)row_bytes,
                                   .rows = found->of,
                                   .count = found->of_count,
                                   .to = data};
    kith_matrix corpus = queries;
    corpus.data = data;
    corpus.rows = found->of_count;
    corpus.stride_bytes = (int64_t)row_bytes;
    const kith_neighbors out = {.rows = run->rows, .k = request.k, .ids = found->ids};
    KIN_TRY_GOTO(status,
                 kin_cascade_check(run, run->kernels->pick(run->on.stream, &pick), "copying rows"),
                 done);
    KIN_TRY_GOTO(status,
                 kin_fused_search(ctx, gpu, &corpus, &queries, &request,
                                  KIN_FUSED_DATA_ON_DEVICE | KIN_FUSED_OUT_ON_DEVICE, &out),
                 done);
    relatives->evaluations += (double)run->rows * (double)found->of_count;
done:
    kin_gpu_free(gpu, data);
    return status;
}

/* ---- Both ------------------------------------------------------------------------------------ */

void kin_cascade_relatives_free(const kin_cascade_run *run, kin_cascade_relatives *relatives)
{
    kin_gpu_free(run->on.gpu, relatives->among.of);
    kin_gpu_free(run->on.gpu, relatives->among.ids);
    kin_gpu_free(run->on.gpu, relatives->near.ids);
    *relatives = (kin_cascade_relatives){0};
}

kith_status kin_cascade_relatives_make(kin_cascade_run *run, kin_cascade_relatives *relatives)
{
    const kith_report before = run->on.ctx->report;
    kith_status status = find_near(run, relatives);
    if (status == KITH_OK && is_product(run->request)) {
        status = search_longest(run, relatives);
    }
    run->on.ctx->report = before;
    return status;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static uint64_t longest_bytes(const kith_matrix *points, const kin_descent_request *request)
{
    const int64_t rows = points->rows;
    const kin_request search = longest_request(request, rows);
    kith_matrix corpus = *points;
    corpus.rows = longest_of(rows);
    const uint64_t a_word = sizeof(uint64_t) + 6 * sizeof(uint32_t); /* with the room of a sort */
    const uint64_t sorting = kin_size_add(kin_size_mul((uint64_t)rows, a_word), 1u << 20);
    const kin_fused_meeting meeting = {.queries = points,
                                       .request = &search,
                                       .place = KIN_FUSED_DATA_ON_DEVICE,
                                       .corpus_dtype = points->dtype,
                                       .corpus_rows = corpus.rows,
                                       .screens = kin_fused_screens(&search, corpus.rows, rows)};
    const uint64_t own =
        kin_fused_prepared_bytes(&corpus, corpus.rows, &search.distance, points->dtype, 0, true)
            .most;
    const uint64_t searching =
        kin_size_add(own, kin_fused_stripe_bytes(&meeting, rows, UINT64_MAX));
    const uint64_t ids = kin_size_mul((uint64_t)rows, (uint64_t)search.k * sizeof(uint32_t));
    return kin_size_add(ids, searching > sorting ? searching : sorting);
}

uint64_t kin_cascade_relatives_bytes(const kith_matrix *points, const kin_descent_request *request)
{
    if (!kin_cascade_is_related(request)) {
        return 0;
    }
    const uint64_t rows = (uint64_t)points->rows;
    const kin_descent_request near = near_request(request, points->rows);
    const kin_cascade_relation relation = relation_of(request->distance.metric);
    const kith_matrix shape = related_shape(points, relation);
    const uint64_t related = relation == KIN_CASCADE_AS_GIVEN
                                 ? 0
                                 : kin_size_mul(rows, (uint64_t)points->cols * sizeof(float));
    uint64_t most = kin_size_add(
        related,
        kin_cascade_bytes(&shape, &near, KIN_FUSED_DATA_ON_DEVICE | KIN_FUSED_OUT_ON_DEVICE));
    const uint64_t longest = is_product(request) ? longest_bytes(points, request) : 0;
    most = most > longest ? most : longest;
    /* Ids of both, as rows and as positions. */
    const uint64_t a_row = (2 * (uint64_t)near.k + (uint64_t)OF_LONGEST + 1) * sizeof(uint32_t);
    return kin_size_add(most, kin_size_mul(rows, a_row));
}
