/* SPDX-License-Identifier: Apache-2.0
 * A graph made ready for walks on a GPU.
 *
 *      points    prepared as a corpus of the exact engine, or the caller's
 *      rounded   by whose positions walks are, if every row is one and rounding tells them apart
 *      links     of rows or of positions, both ways; parts
 *
 * Memory. Points and links stay, 8 k bytes a row, and rows as bytes where halves were made and
 * bytes are fine enough; while links are made the graph and its slots lie beside them, 12 k bytes a
 * row. What walks are by does not depend on what memory there is, and so neither does what they
 * find. */
#include "base/base_size.h"
#include "graph/graph_gpu.h"
#include "graph/graph_kernels.h"
#include "host/host_clock.h"

#include <math.h>

int64_t kin_graph_gpu_most_width(void)
{
    return KIN_GRAPH_GPU_MOST_WIDTH;
}

int64_t kin_graph_gpu_paths_parts(const kin_graph_gpu_paths *paths)
{
    return paths->part_count;
}

/* ---- Links and parts ------------------------------------------------------------------------- */

/* What is gone when links are made. */
typedef struct making {
    kin_hold *hold;
    kin_screen_gpu_device on;
    const kin_graph_gpu_kernels *kernels;
    kin_graph_gpu_paths *paths;
    int64_t k; /* of the graph */
    uint32_t *graph;
    uint64_t *slots;
    uint32_t *roots;
    uint32_t *sizes;
    uint32_t *count;
} making;

static kith_status upload_graph(making *m, const kith_neighbors *graph)
{
    kith_ctx *ctx = m->on.ctx;
    kin_gpu *gpu = m->on.gpu;
    const uint64_t rows = (uint64_t)graph->rows;
    const uint64_t entries = kin_size_mul(rows, (uint64_t)graph->k);
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &m->paths->links, kin_size_mul(entries, 2), sizeof(uint32_t),
                          "links"));
    KIN_GPU_NEW(m->hold, gpu, m->graph, entries, "the graph");
    KIN_GPU_NEW(m->hold, gpu, m->slots, entries, "links back");
    KIN_GPU_NEW(m->hold, gpu, m->roots, rows, "parts");
    KIN_GPU_NEW(m->hold, gpu, m->sizes, rows, "parts");
    KIN_GPU_NEW(m->hold, gpu, m->count, 1, "parts");
    uint32_t *to = m->paths->rounded != NULL ? m->paths->links : m->graph;
    return kin_gpu_upload(ctx, gpu, to, graph->ids, entries * sizeof *to);
}

/* The graph as one of positions, from where its links will be. */
static kith_status place_graph(making *m)
{
    const kin_graph_gpu_paths *paths = m->paths;
    const uint32_t *ids = paths->rounded->set.ids;
    const kin_graph_gpu_place place = {.points = paths->rows, .ids = ids, .places = m->roots};
    const kin_graph_gpu_give give = {.points = paths->rows,
                                     .ids = ids,
                                     .places = m->roots,
                                     .graph = paths->links,
                                     .rows = paths->rows,
                                     .k = m->k,
                                     .length = (int32_t)m->k,
                                     .given = m->graph};
    KIN_TRY(KIN_ROOM_LAUNCH(m, place, &place, "placing rows"));
    return KIN_ROOM_LAUNCH(m, give, &give, "reading a graph");
}

static kith_status make_links(making *m)
{
    const kin_graph_gpu_paths *paths = m->paths;
    const uint64_t entries = (uint64_t)(paths->rows * m->k);
    const kin_graph_gpu_link job = {.points = paths->rows,
                                    .k = (int32_t)m->k,
                                    .graph = m->graph,
                                    .slots = m->slots,
                                    .links = paths->links};
    KIN_TRY(kin_gpu_fill(m->on.ctx, m->on.gpu, m->slots, 0xff, entries * sizeof *m->slots));
    return KIN_ROOM_LAUNCH(m, link, &job, "linking rows");
}

static kith_status take_parts(making *m, uint32_t count, const uint64_t *words)
{
    kith_ctx *ctx = m->on.ctx;
    kin_graph_gpu_paths *paths = m->paths;
    uint64_t *found = NULL;
    KIN_NEW(m->hold, found, count, "parts");
    KIN_TRY(kin_alloc(ctx, &paths->parts, count, sizeof *paths->parts, "parts"));
    KIN_TRY(kin_gpu_download(ctx, m->on.gpu, found, words, count * sizeof *found));
    kin_select_sort_words(found, count);
    for (uint32_t i = 0; i < count; i++) {
        paths->parts[i] = (uint32_t)found[i];
    }
    paths->part_count = count;
    return KITH_OK;
}

/* After links, whose slots have room for words: a row of them at least. */
static kith_status find_parts(making *m)
{
    kith_ctx *ctx = m->on.ctx;
    kin_gpu *gpu = m->on.gpu;
    const uint64_t bytes = (uint64_t)m->paths->rows * sizeof *m->sizes;
    const kin_graph_gpu_parts job = {.points = m->paths->rows,
                                     .k = (int32_t)m->k,
                                     .graph = m->graph,
                                     .roots = m->roots,
                                     .sizes = m->sizes,
                                     .words = m->slots,
                                     .count = m->count};
    uint32_t count = 0;
    KIN_TRY(kin_gpu_fill(ctx, gpu, m->sizes, 0, bytes));
    KIN_TRY(kin_gpu_fill(ctx, gpu, m->count, 0, sizeof *m->count));
    KIN_TRY(KIN_ROOM_LAUNCH(m, parts, &job, "finding parts"));
    KIN_TRY(kin_gpu_download(ctx, gpu, &count, m->count, sizeof count));
    return take_parts(m, count, m->slots);
}

static kith_status link_graph(kith_ctx *ctx, kin_graph_gpu_paths *paths,
                              const kith_neighbors *graph)
{
    KIN_HOLD(hold, ctx);
    making m = {.hold = &hold,
                .on = kin_screen_gpu_device_of(ctx, paths->gpu),
                .kernels = paths->gpu->module->graph,
                .paths = paths,
                .k = graph->k};
    const int64_t start = kin_clock_ns();
    kith_status status = upload_graph(&m, graph);
    KIN_THEN(status, paths->rounded != NULL ? place_graph(&m) : KITH_OK);
    KIN_THEN(status, make_links(&m));
    KIN_THEN(status, find_parts(&m));
    ctx->report.seconds_prepare += kin_clock_since(start);
    return status;
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static kith_status refuse(kith_ctx *ctx, const kin_graph_gpu_ground *ground)
{
    KIN_FAIL_IF(ground->distance.metric == KITH_CUSTOM, ctx, KITH_E_UNSUPPORTED, kin_at(NULL),
                "a GPU cannot call a function as metric (use the processor)");
    KIN_PASS_IF(ground->points->rows < KIN_GRAPH_MOST_POINTS, ctx, KITH_E_UNSUPPORTED, kin_at(NULL),
                "%lld points are more than a walk on a GPU takes (at most %lld)",
                (long long)ground->points->rows, (long long)KIN_GRAPH_MOST_POINTS - 1);
}

/* In a narrower scope each time that it ran out of memory. For queries of the rows' own type: what
 * walks are by does not depend on who asks. */
static kith_status prepare(kith_ctx *ctx, kin_graph_gpu_paths *paths,
                           const kin_graph_gpu_ground *ground)
{
    const kin_screen_gpu_source source = {.matrix = ground->points,
                                          .distance = &ground->distance,
                                          .name = "points",
                                          .apart = KIN_GRAPH_GPU_MOST_EQUAL};
    const kith_report before = ctx->report;
    const int32_t number = paths->gpu->number;
    kith_status status = KITH_OK;
    paths->corpus = number == 0              ? ground->corpus
                    : ground->others != NULL ? ground->others[number]
                                             : NULL;
    if (paths->corpus != NULL) {
        return KITH_OK;
    }
    do {
        ctx->report = before;
        status = kin_exact_gpu_corpus_make(ctx, paths->gpu, &source, ground->points->dtype,
                                           ground->k, &paths->own);
    } while (kin_exact_gpu_again(ctx, paths->gpu, status));
    paths->corpus = paths->own;
    kin_gpu_break_step(paths->gpu);
    return status;
}

/* ---- What walks are by ----------------------------------------------------------------------- */

/* Fewer rows are compared by keys. */
enum { LEAST_ROUNDED = 2048 };
/* Candidates that bytes may leave a screen for each neighbour: lists of walks have as many. */
static const double MOST_LEFT = 16.0;
/* Positions that are looked at; of so many one may not be told from its farthest neighbour. */
enum { TRIED = 32, COARSE = 10 };

/* A position, and the farthest neighbour of its row: one behind the other. */
typedef struct trial {
    kith_ctx *ctx;
    const kin_graph_gpu_paths *paths;
    const kith_neighbors *graph;
    kin_screen_gpu_facts facts[TRIED];
    char *rows;
    kin_row_transform *transforms;
    double *values;
} trial;

static kith_status take_row(const trial *t, int64_t place, uint32_t row)
{
    const kin_screen_gpu_rows *rows = &t->paths->corpus->prepared.rows;
    const int64_t bytes = (int64_t)rows->cols * kith_dtype_bytes(rows->dtype);
    return kin_gpu_download(t->ctx, t->paths->gpu, t->rows + place * bytes,
                            (const char *)rows->data + (int64_t)row * rows->stride_bytes,
                            (uint64_t)bytes);
}

static kith_status take_pair(trial *t, int64_t i)
{
    const kin_screen_gpu_set *set = &t->paths->corpus->prepared.set;
    const int64_t position = i * set->points / TRIED;
    uint32_t row = 0;
    KIN_TRY(kin_gpu_download(t->ctx, t->paths->gpu, &row, set->ids + position, sizeof row));
    KIN_TRY(kin_gpu_download(t->ctx, t->paths->gpu, &t->facts[i], set->facts + position,
                             sizeof t->facts[i]));
    const uint32_t *list = t->graph->ids + (int64_t)row * t->graph->k;
    int64_t last = t->graph->k - 1;
    while (last > 0 && list[last] == KITH_ID_NONE) {
        last -= 1;
    }
    KIN_TRY(take_row(t, 2 * i, row));
    return take_row(t, 2 * i + 1, list[last] == KITH_ID_NONE ? row : list[last]);
}

/* Whole numbers lose nothing: what queries of another type lose that are rounded to such. */
static kin_screen_gpu_facts facts_of(const trial *t, int64_t i)
{
    const kin_screen_gpu_frame *frame = &t->paths->corpus->prepared.set.frame;
    kin_screen_gpu_facts facts = t->facts[i];
    if (frame->bound == KIN_BOUND_INTEGER) {
        facts.lost = (float)sqrt((double)frame->cols / 12.0);
    }
    return facts;
}

static kith_status count_coarse(const trial *t, int64_t *coarse)
{
    const kin_distance *distance = &t->paths->distance;
    const kin_screen_gpu_rows *own = &t->paths->corpus->prepared.rows;
    const kin_screen_gpu_frame *frame = &t->paths->corpus->prepared.set.frame;
    const kin_rows rows = {
        .matrix = {.data = t->rows,
                   .rows = 2 * TRIED,
                   .cols = own->cols,
                   .dtype = own->dtype,
                   .stride_bytes = (int64_t)own->cols * kith_dtype_bytes(own->dtype)},
        .transforms = own->transforms != NULL ? t->transforms : NULL};
    *coarse = 0;
    KIN_TRY(rows.transforms == NULL
                ? KITH_OK
                : kin_metric_transforms(t->ctx, &rows.matrix, distance->metric, t->transforms));
    for (uint32_t i = 0; i < TRIED; i++) {
        const uint32_t other = 2 * i + 1;
        const kin_query query = kin_metric_load(distance, &rows, 2 * i, t->values);
        double key = 0.0;
        kin_metric_keys(distance, &query, &rows, &other, 1, &key);
        const double cost = key / frame->key_scale / (frame->scale * frame->scale);
        const kin_screen_gpu_facts facts = facts_of(t, i);
        *coarse += cost > 0.0 && kin_graph_gpu_blurs(frame, &facts, cost);
    }
    return KITH_OK;
}

/* Two clusters that are far from each other fill the range of a narrow type, and within each all
 * points round to one. Products have no distance that rounding could be compared with, and bytes of
 * other rows were tried before they were taken. */
static kith_status try_rounding(kith_ctx *ctx, const kin_graph_gpu_paths *paths,
                                const kith_neighbors *graph, bool *fine)
{
    const kin_screen_gpu_rows *rows = &paths->corpus->prepared.rows;
    const uint64_t bytes = (uint64_t)rows->cols * (uint64_t)kith_dtype_bytes(rows->dtype);
    const uint64_t expanded = (uint64_t)kin_round_up(rows->cols, KIN_METRIC_LANES);
    trial t = {.ctx = ctx, .paths = paths, .graph = graph};
    int64_t coarse = 0;
    *fine = true;
    if (paths->corpus->prepared.set.frame.bound == KIN_BOUND_PRODUCT) {
        return KITH_OK;
    }
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, t.rows, 2 * TRIED * bytes, "rows that are tried");
    KIN_NEW(&hold, t.transforms, 2 * TRIED, "rows that are tried");
    KIN_NEW(&hold, t.values, expanded, "rows that are tried");
    kith_status status = KITH_OK;
    for (int64_t i = 0; i < TRIED && status == KITH_OK; i++) {
        status = take_pair(&t, i);
    }
    KIN_THEN(status, count_coarse(&t, &coarse));
    *fine = coarse * COARSE <= TRIED;
    return status;
}

/* The corpus' own, or one more. */
static kith_status take_bytes(kith_ctx *ctx, kin_graph_gpu_paths *paths)
{
    const kin_exact_gpu_corpus *corpus = paths->corpus;
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(ctx, paths->gpu);
    paths->rounded = corpus->glance != NULL ? &corpus->glance->prepared : &paths->bytes;
    return corpus->glance != NULL
               ? KITH_OK
               : kin_screen_gpu_prepare_bytes(&on, &corpus->prepared, NULL, &paths->bytes);
}

/* Queries of another type than whole numbers may have any length, and their products with these
 * would have to be rounded as finely as they are short. */
static bool has_rounded_walks(const kin_screen_gpu_prepared *own)
{
    return own->set.frame.bound != KIN_BOUND_INTEGER || own->rows.metric != KITH_INNER_PRODUCT;
}

/* Whole numbers of 8 bits without a sign stand in signed bytes, 128 below what they are. */
static kith_status make_middle(kith_ctx *ctx, kin_graph_gpu_paths *paths)
{
    const double middle = 128.0;
    const kin_screen_gpu_set *set = &paths->corpus->prepared.set;
    const uint64_t cols = (uint64_t)set->frame.cols;
    double *values = NULL;
    if (set->frame.bound != KIN_BOUND_INTEGER || paths->corpus->prepared.rows.dtype != KITH_U8) {
        return KITH_OK;
    }
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, values, cols, "the middle of bytes");
    for (uint64_t i = 0; i < cols; i++) {
        values[i] = middle;
    }
    KIN_TRY(kin_gpu_alloc(ctx, paths->gpu, &paths->middle, cols, sizeof *values,
                          "the middle of bytes"));
    return kin_gpu_upload(ctx, paths->gpu, paths->middle, values, cols * sizeof *values);
}

static kith_status choose_rounded(kith_ctx *ctx, kin_graph_gpu_paths *paths,
                                  const kith_neighbors *graph)
{
    const kin_screen_gpu_prepared *own = &paths->corpus->prepared;
    const kin_screen_gpu_frame *frame = &own->set.frame;
    bool fine = true;
    if (!own->plain || own->set.points < LEAST_ROUNDED || !has_rounded_walks(own)) {
        return KITH_OK;
    }
    if (frame->type == KIN_SCREEN_GPU_F16 && frame->bound == KIN_BOUND_DISTANCE &&
        own->byte_candidates > 0.0 && own->byte_candidates <= MOST_LEFT * (double)own->byte_k) {
        return take_bytes(ctx, paths);
    }
    if (frame->type == KIN_SCREEN_GPU_F16 || frame->bound == KIN_BOUND_INTEGER) {
        KIN_TRY(try_rounding(ctx, paths, graph, &fine));
    }
    paths->rounded = fine ? own : NULL;
    return fine ? make_middle(ctx, paths) : KITH_OK;
}

static kith_status too_large(kith_ctx *ctx, const kin_graph_gpu_ground *ground)
{
    kin_forgive(ctx);
    return kin_fail(ctx, KITH_E_DEVICE_MEMORY,
                    "%lld points in %ld columns with %lld links each do not fit into the memory "
                    "of the GPU (give it more of it, take the device cpu, or search without a "
                    "graph, which works in batches)",
                    (long long)ground->points->rows, (long)ground->points->cols,
                    2 * (long long)ground->graph->k);
}

static void free_paths(void *thing)
{
    kin_graph_gpu_paths *paths = thing;
    kith_ctx *ctx = paths->home;
    if (paths->entering != NULL) {
        kin_gpu_free(paths->gpu, paths->entering->rows);
        kin_free(ctx, paths->entering);
    }
    kin_free(ctx, paths->parts);
    kin_gpu_free(paths->gpu, paths->middle);
    kin_gpu_free(paths->gpu, paths->links);
    kin_screen_gpu_prepared_free(ctx, paths->gpu, &paths->bytes);
    kin_exact_gpu_corpus_free(ctx, paths->own);
    kin_free(ctx, paths);
}

static kith_status make_paths(void *arg, kith_ctx *ctx, kin_gpu *gpu, void **thing)
{
    const kin_graph_gpu_ground *ground = arg;
    kin_graph_gpu_paths *paths = NULL;
    KIN_TRY(kin_alloc_zero(ctx, &paths, 1, sizeof *paths, "a graph on a device"));
    *paths = (kin_graph_gpu_paths){.gpu = gpu,
                                   .distance = ground->distance,
                                   .rows = ground->points->rows,
                                   .most = (int32_t)(2 * ground->graph->k),
                                   .home = ctx};
    kith_status status =
        kin_alloc_zero(ctx, &paths->entering, 1, sizeof *paths->entering, "entries of walks");
    KIN_THEN(status, prepare(ctx, paths, ground));
    KIN_THEN(status, choose_rounded(ctx, paths, ground->graph));
    KIN_THEN(status, link_graph(ctx, paths, ground->graph));
    if (status != KITH_OK) {
        free_paths(paths);
        return status == KITH_E_DEVICE_MEMORY ? too_large(ctx, ground) : status;
    }
    *thing = paths;
    return KITH_OK;
}

kith_status kin_graph_gpu_paths_make(kith_ctx *ctx, kin_gpu *gpu,
                                     const kin_graph_gpu_ground *ground, kin_graph_gpu_paths **out)
{
    kin_graph_gpu_ground own = *ground;
    const kin_gpu_each each = {make_paths, free_paths, &own};
    const kith_report before = ctx->report;
    void *made[KIN_GPU_TEAM_MOST] = {NULL};
    *out = NULL;
    KIN_TRY(refuse(ctx, ground));
    kith_status status = ground->shared ? kin_gpu_each_make(ctx, gpu, &each, made) : KITH_OK;
    const bool alone = !ground->shared || kin_exact_gpu_team_yields(ctx, status);
    if (alone) {
        ctx->report = before;
        status = make_paths(&own, ctx, gpu, &made[0]);
    }
    if (status == KITH_OK) {
        *out = made[0];
        (*out)->shared = !alone;
        memcpy((*out)->others + 1, made + 1, sizeof made - sizeof made[0]);
    }
    return status;
}

void kin_graph_gpu_paths_free(kin_graph_gpu_paths *paths)
{
    if (paths != NULL) {
        kin_gpu_each_free(paths->gpu, free_paths, paths->others);
        free_paths(paths);
    }
}
