/* SPDX-License-Identifier: Apache-2.0
 *
 *      rows as given -> related rows -> their graph, by this engine -> ids            all of them
 *      rows as given -> lengths, sorted -> the longest -> search by the exact engine  products, kl
 *
 * What was found is compared by the metric itself, and lists keep the nearest of it. Of 20,000 rows
 * in clusters whose lengths vary by a third, 64 neighbours in direction hold 0.80 of the first ten
 * under the inner product, and 0.87 together with the best 16 of the 400 longest rows; of rows
 * like word vectors 0.17 and 1.00. kl is a product, too: sum q ln q - sum q ln c, where the first
 * sum is the row's own; and of rows that are shares of 1 it is a divergence.
 *
 * Memory. Related rows, 4 bytes a value, where they are not the rows as given; the graph of those
 * as if it were asked for; 4 bytes an id that was found, until lists have it.
 */
#include "graph/graph_run_gpu.h"

#include "graph/graph_start.h"

enum {
    NEIGHBOURS = 64, /* of the relative: a few more cost much less than a round of another metric */
    LONGEST = 32768, /* rows that all look at, but */
    LEAST_SHORT = 4  /* no more than one in so many */
};
/* Rows that are no longer than so many times the middle one, by squares, are alike. */
static const double ALIKE = 1.05;

/* Whether some rows are near to everybody. */
static bool has_hubs(const kin_graph_request *request)
{
    return request->distance.metric == KITH_INNER_PRODUCT || request->distance.metric == KITH_KL;
}

bool kin_graph_gpu_is_related(const kin_graph_request *request)
{
    return request->related > 0 && request->start == KIN_GRAPH_START_SCREEN &&
           (request->distance.metric == KITH_INNER_PRODUCT ||
            kin_graph_has_relative(request->distance.metric));
}

static bool asks_longest(const kin_graph_request *request)
{
    const bool merges = request->split > 0 && request->by_chance == 0;
    return has_hubs(request) &&
           (kin_graph_gpu_is_related(request) || (request->related > 0 && merges));
}

static kin_graph_gpu_relation relation_of(kith_metric metric)
{
    switch (metric) {
    case KITH_CHI2:
        return KIN_GRAPH_GPU_ROOTS;
    case KITH_KL:
        return KIN_GRAPH_GPU_SHARES;
    case KITH_JACCARD:
        return KIN_GRAPH_GPU_PATTERNS;
    case KITH_INNER_PRODUCT:
        return KIN_GRAPH_GPU_DIRECTIONS;
    default:
        return KIN_GRAPH_GPU_AS_GIVEN;
    }
}

static int64_t longest_of(int64_t rows)
{
    return kin_max_i64(1, kin_min_i64(LONGEST, rows / LEAST_SHORT));
}

static bool is_product(const kin_graph_request *request)
{
    return request->distance.metric == KITH_INNER_PRODUCT;
}

/* Rounds of products cost what rounds of their relative do, and are the better ones. On an H200 a
 * million points of 128 columns take 163 ms to recall 0.9993 so, 218 to 0.9980 with 64 neighbours
 * from rounds, and an exact graph 350. */
static kin_graph_request near_request(const kin_graph_request *request, int64_t rows)
{
    const int64_t wished =
        is_product(request) ? request->list : kin_max_i64(request->list, NEIGHBOURS);
    return (kin_graph_request){
        .distance = {.metric = KITH_SQEUCLIDEAN,
                     .cols = request->distance.cols,
                     .isa = request->distance.isa},
        .k = kin_min_i64(kin_min_i64(wished, KIN_GRAPH_GPU_MOST_K), kin_max_i64(rows - 1, 1)),
        .share = request->share,
        .rounds = is_product(request) ? -1 : 0,
        .place = KIN_GPU_DATA_ON_DEVICE | KIN_GPU_OUT_ON_DEVICE,
        .seed = request->seed};
}

/* A round of kl is dear: as many as lists hold. */
static kin_request longest_request(const kin_graph_request *request, int64_t rows)
{
    const int64_t wished = is_product(request) ? request->list / 2 : request->list;
    return (kin_request){
        .distance = {.metric = KITH_INNER_PRODUCT,
                     .cols = request->distance.cols,
                     .isa = request->distance.isa},
        .k = kin_min_i64(kin_min_i64(wished, KIN_GRAPH_GPU_MOST_K), longest_of(rows)),
        .method = KITH_METHOD_EXACT};
}

static kith_matrix floats_of(const kith_matrix *points)
{
    kith_matrix shape = *points;
    shape.dtype = KITH_F32;
    shape.stride_bytes = points->cols * (int64_t)sizeof(float);
    return shape;
}

static kith_matrix related_shape(const kith_matrix *points, kin_graph_gpu_relation relation)
{
    return relation == KIN_GRAPH_GPU_AS_GIVEN ? *points : floats_of(points);
}

/* Logarithms are floats, and so are those who ask for them. */
static bool wants_floats(const kin_graph_request *request, kith_dtype dtype)
{
    return request->distance.metric == KITH_KL && dtype != KITH_F32;
}

static kith_matrix matrix_of(const kin_screen_gpu_rows *rows)
{
    return (kith_matrix){.data = rows->data,
                         .rows = rows->rows,
                         .cols = rows->cols,
                         .dtype = rows->dtype,
                         .stride_bytes = rows->stride_bytes};
}

static kith_status make_ids(const kin_graph_gpu_run *run, int64_t k, kin_graph_gpu_found *found)
{
    found->k = k;
    return kin_gpu_alloc(run->on.ctx, run->on.gpu, &found->ids,
                         kin_size_mul((uint64_t)run->rows, (uint64_t)k), sizeof *found->ids,
                         "neighbours under a relative");
}

/* ---- The relative ---------------------------------------------------------------------------- */

/* data: related rows, or NULL. words: of each row its length, or NULL. */
static kith_status relate(const kin_graph_gpu_run *run, const kin_screen_gpu_rows *rows,
                          kin_graph_gpu_relation relation, float *data, uint64_t *words)
{
    const kin_graph_gpu_relate job = {
        .rows = *rows, .relation = relation, .related = data, .lengths = words};
    return KIN_ROOM_LAUNCH(run, relate, &job, "relating rows");
}

kin_graph_gpu_relative kin_graph_gpu_relative_of(const kith_matrix *points,
                                                 const kin_graph_request *request)
{
    const kin_graph_gpu_relation relation = relation_of(request->distance.metric);
    const uint64_t floats = (uint64_t)points->cols * sizeof(float);
    return (kin_graph_gpu_relative){
        .request = near_request(request, points->rows),
        .points = related_shape(points, relation),
        .own_bytes =
            relation == KIN_GRAPH_GPU_AS_GIVEN ? 0 : kin_size_mul((uint64_t)points->rows, floats)};
}

kith_status kin_graph_gpu_relate_points(kin_graph_gpu_run *run, kin_graph_gpu_relative *near,
                                        kin_graph_gpu_relatives *relatives, kin_hold *hold)
{
    const kith_matrix given = matrix_of(&run->points.rows);
    const kin_graph_gpu_relation relation = relation_of(run->request->distance.metric);
    *near = kin_graph_gpu_relative_of(&given, run->request);
    KIN_TRY(make_ids(run, near->request.k, &relatives->near));
    if (near->own_bytes == 0) {
        return KITH_OK;
    }
    float *own = NULL;
    KIN_GPU_NEW(hold, run->on.gpu, own,
                kin_size_mul((uint64_t)near->points.rows, (uint64_t)near->points.cols),
                "rows of a relative");
    near->points.data = own;
    return relate(run, &run->points.rows, relation, own, NULL);
}

/* ---- The longest rows ------------------------------------------------------------------------ */

static kith_status square_of(const kin_graph_gpu_run *run, const uint64_t *words,
                             const uint32_t *row, float *square)
{
    uint32_t id = 0;
    uint64_t word = 0;
    KIN_TRY(kin_gpu_download(run->on.ctx, run->on.gpu, &id, row, sizeof id));
    KIN_TRY(kin_gpu_download(run->on.ctx, run->on.gpu, &word, words + id, sizeof word));
    const uint32_t bits = ~(uint32_t)word & 0x7fffffffu; /* of an order of what is not negative */
    memcpy(square, &bits, sizeof bits);
    return KITH_OK;
}

/* Where rows are about equally long none is near to everybody. */
static kith_status compare_lengths(const kin_graph_gpu_run *run, const uint64_t *words,
                                   const uint32_t *order, bool *differ)
{
    float longest = 0.0F;
    float middle = 0.0F;
    KIN_TRY(square_of(run, words, order, &longest));
    KIN_TRY(square_of(run, words, order + run->rows / 2, &middle));
    *differ = (double)longest > ALIKE * (double)middle;
    return KITH_OK;
}

/* Rows by falling length; of those that are equally long the first. */
static kith_status sort_rows(const kin_graph_gpu_run *run, uint32_t *order, bool *differ)
{
    const kin_screen_gpu_device *on = &run->on;
    const kin_graph_gpu_relation relation = relation_of(run->request->distance.metric);
    uint64_t *words = NULL;
    void *scratch = NULL;
    uint64_t bytes = 0;
    KIN_HOLD(hold, on->ctx);
    KIN_GPU_NEW(&hold, on->gpu, words, (uint64_t)run->rows, "lengths");
    kin_screen_gpu_sort job = {.nearest = words,
                               .points = run->rows,
                               .cell_count = UINT32_MAX,
                               .order = order,
                               .scratch_bytes = &bytes};
    KIN_TRY(relate(run, &run->points.rows, relation, NULL, words));
    KIN_TRY(KIN_SCREEN_LAUNCH(&run->on, sort, &job, "planning a sort"));
    KIN_TRY(kin_gpu_hold_alloc(&hold, on->gpu, &scratch, bytes, "room for sorting"));
    job.scratch = scratch;
    KIN_TRY(KIN_SCREEN_LAUNCH(&run->on, sort, &job, "sorting rows by length"));
    return compare_lengths(run, words, order, differ);
}

static kith_status find_longest(kin_graph_gpu_run *run, kin_graph_gpu_found *found, bool *differ)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    uint32_t *order = NULL;
    found->of_count = longest_of(run->rows);
    const uint64_t count = (uint64_t)found->of_count;
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &found->of, count, sizeof *found->of, "the longest rows"));
    KIN_HOLD(hold, ctx);
    KIN_GPU_NEW(&hold, gpu, order, (uint64_t)run->rows, "rows by length");
    KIN_TRY(sort_rows(run, order, differ));
    return kin_gpu_copy(ctx, gpu, found->of, order, count * sizeof *order);
}

/* What the exact engine is asked; all device memory. */
typedef struct asking {
    kin_hold *hold;
    kith_matrix corpus;
    kith_matrix queries;
    unsigned char *rows; /* the longest, as given */
    float *logs;         /* of them */
    float *floats;       /* of all */
} asking;

static kith_status make_corpus(const kin_graph_gpu_run *run, const kin_graph_gpu_found *found,
                               asking *a)
{
    kin_screen_gpu_rows longest = run->points.rows;
    longest.rows = found->of_count;
    longest.stride_bytes = (int64_t)longest.cols * kith_dtype_bytes(longest.dtype);
    KIN_TRY(kin_gpu_hold_alloc(a->hold, run->on.gpu, &a->rows,
                               kin_size_mul((uint64_t)longest.rows, (uint64_t)longest.stride_bytes),
                               "the longest rows"));
    longest.data = a->rows;
    const kin_graph_gpu_pick pick = {.from = run->points.rows.data,
                                     .stride_bytes = run->points.rows.stride_bytes,
                                     .bytes = longest.stride_bytes,
                                     .rows = found->of,
                                     .count = found->of_count,
                                     .to = a->rows};
    KIN_TRY(KIN_ROOM_LAUNCH(run, pick, &pick, "copying rows"));
    a->corpus = matrix_of(&longest);
    if (run->request->distance.metric != KITH_KL) {
        return KITH_OK;
    }
    const uint64_t cells = kin_size_mul((uint64_t)longest.rows, (uint64_t)longest.cols);
    KIN_GPU_NEW(a->hold, run->on.gpu, a->logs, cells, "the longest rows");
    a->corpus = floats_of(&a->corpus);
    a->corpus.data = a->logs;
    return relate(run, &longest, KIN_GRAPH_GPU_LOGS, a->logs, NULL);
}

static kith_status make_queries(const kin_graph_gpu_run *run, asking *a)
{
    const kin_screen_gpu_rows *rows = &run->points.rows;
    a->queries = matrix_of(rows);
    if (!wants_floats(run->request, rows->dtype)) {
        return KITH_OK;
    }
    const uint64_t cells = kin_size_mul((uint64_t)rows->rows, (uint64_t)rows->cols);
    KIN_GPU_NEW(a->hold, run->on.gpu, a->floats, cells, "rows of a relative");
    a->queries = floats_of(&a->queries);
    a->queries.data = a->floats;
    return relate(run, rows, KIN_GRAPH_GPU_AS_GIVEN, a->floats, NULL);
}

/* Of a team each member has a part of the rows, and looks for itself; then all have all. */
static kith_status search_share(const kin_graph_gpu_run *run, const asking *a,
                                const kin_request *request, const kith_neighbors *out)
{
    kin_gpu *gpu = run->on.gpu;
    kin_gpu_seat *seat = gpu->seat;
    int64_t firsts[KIN_GPU_TEAM_MOST + 1];
    kin_gpu_divide(run->rows, 1, kin_gpu_parts(gpu), firsts);
    const int64_t first = firsts[kin_gpu_part(gpu)];
    const int64_t rows = firsts[kin_gpu_part(gpu) + 1] - first;
    const kith_matrix queries = kin_matrix_part(&a->queries, first, rows);
    const kith_neighbors found = kin_exact_gpu_rows_of(out, first, rows);
    const kin_exact_gpu_query query = {&queries, "queries", request,
                                       KIN_GPU_DATA_ON_DEVICE | KIN_GPU_OUT_ON_DEVICE, &found};
    gpu->seat = NULL;
    const kith_status status = kin_exact_gpu_search(run->on.ctx, gpu, &a->corpus, &query);
    gpu->seat = seat;
    KIN_TRY(status);
    return kin_gpu_gather(run->on.ctx, gpu, out->ids, (uint64_t)out->k * sizeof *out->ids, firsts);
}

kith_status kin_graph_gpu_search_longest(kin_graph_gpu_run *run, kin_graph_gpu_relatives *relatives)
{
    kin_graph_gpu_found *found = &relatives->among;
    const kin_request request = longest_request(run->request, run->rows);
    KIN_HOLD(hold, run->on.ctx);
    asking a = {.hold = &hold};
    bool differ = false;
    if (!asks_longest(run->request)) {
        return KITH_OK;
    }
    KIN_TRY(find_longest(run, found, &differ));
    if (!differ) {
        return KITH_OK;
    }
    KIN_TRY(make_ids(run, request.k, found));
    const kith_neighbors out = {.rows = run->rows, .k = request.k, .ids = found->ids};
    KIN_TRY(make_corpus(run, found, &a));
    KIN_TRY(make_queries(run, &a));
    KIN_TRY(search_share(run, &a, &request, &out));
    relatives->evaluations += (double)run->rows * (double)found->of_count;
    return KITH_OK;
}

/* ---- Both ------------------------------------------------------------------------------------ */

/* ---- Memory ---------------------------------------------------------------------------------- */

static uint64_t longest_bytes(const kith_matrix *points, const kin_graph_request *request)
{
    const int64_t rows = points->rows;
    const uint64_t n = (uint64_t)rows;
    const uint64_t floats = (uint64_t)points->cols * sizeof(float);
    const kin_request search = longest_request(request, rows);
    const bool logs = request->distance.metric == KITH_KL;
    const kith_matrix queries = logs ? floats_of(points) : *points;
    kith_matrix corpus = queries;
    corpus.rows = longest_of(rows);
    const uint64_t a_word = sizeof(uint64_t) + 6 * sizeof(uint32_t); /* with the room of a sort */
    const uint64_t sorting = kin_size_add(kin_size_mul(n, a_word), 1u << 20);
    const kin_exact_gpu_meeting meeting = {.queries = &queries,
                                           .request = &search,
                                           .place = KIN_GPU_DATA_ON_DEVICE,
                                           .corpus_dtype = queries.dtype,
                                           .corpus_rows = corpus.rows,
                                           .screens =
                                               kin_exact_gpu_screens(&search, corpus.rows, rows)};
    const uint64_t own = kin_screen_gpu_prepared_bytes(&corpus, corpus.rows, &search.distance,
                                                       queries.dtype, KIN_GPU_DATA_ON_DEVICE, true)
                             .most;
    const uint64_t given = (uint64_t)points->cols * (uint64_t)kith_dtype_bytes(points->dtype);
    const uint64_t others =
        kin_size_add(kin_size_mul((uint64_t)corpus.rows, given + (logs ? floats : 0)),
                     wants_floats(request, points->dtype) ? kin_size_mul(n, floats) : 0);
    const uint64_t searching = kin_size_add(kin_size_add(own, others),
                                            kin_exact_gpu_stripe_bytes(&meeting, rows, UINT64_MAX));
    const uint64_t ids = kin_size_mul(n, (uint64_t)search.k * sizeof(uint32_t));
    return kin_size_add(ids, searching > sorting ? searching : sorting);
}

uint64_t kin_graph_gpu_relatives_bytes(const kith_matrix *points, const kin_graph_request *request,
                                       uint64_t nearing, uint64_t others)
{
    const bool related = kin_graph_gpu_is_related(request);
    if (!related && !asks_longest(request)) {
        return others;
    }
    const uint64_t longest = has_hubs(request) ? longest_bytes(points, request) : 0;
    uint64_t most = nearing > longest ? nearing : longest;
    most = most > others ? most : others;
    /* Ids of both, as rows and as positions. */
    const uint64_t near = related ? (uint64_t)near_request(request, points->rows).k : 0;
    const uint64_t among = (uint64_t)longest_request(request, points->rows).k;
    const uint64_t a_row = (2 * near + 2 * among + 1) * sizeof(uint32_t);
    return kin_size_add(most, kin_size_mul((uint64_t)points->rows, a_row));
}
