/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/tree_gpu.h"

/* A warp looks at 64 points at a time, in many columns at 32 (tree_walk.cuh). */
enum { MOST_COLS_OF_PAIRS = 32 };
/* A short list is sorted and needs room for ties alone, of which whole numbers have many; shared
 * memory has better uses. A long one is squeezed when it is full, seldom where it has twice the
 * room. */
enum { SPARE = 4, SHARE = 8, SPARE_OF_BYTES = 16, LONG_SPARE = 64 };

/* ---- Leaves and lists ------------------------------------------------------------------------ */

int64_t kin_tree_gpu_usual_leaf(int32_t cols)
{
    return cols <= MOST_COLS_OF_PAIRS ? 64 : 96;
}

int64_t kin_tree_gpu_leaf_points(const kin_request *request, int64_t points)
{
    const int32_t cols = request->distance.cols;
    return request->tree_height != 0 ? kin_tree_leaf_points_of(cols, points, request->tree_height)
                                     : kin_tree_gpu_usual_leaf(cols);
}

int32_t kin_tree_gpu_list_room(kith_dtype dtype, int64_t wanted, int32_t most_short)
{
    const int64_t least = kin_round_up(wanted + kin_max_i64(wanted / SHARE, SPARE), SPARE);
    const int64_t tied = kin_min_i64(2 * wanted + SPARE_OF_BYTES, most_short);
    if (least <= most_short) {
        return (int32_t)(kith_dtype_bytes(dtype) == 1 ? kin_max_i64(least, tied) : least);
    }
    return (int32_t)kin_round_up(2 * wanted + LONG_SPARE, KIN_TREE_LANES);
}

/* Of so many places; the block begins with the words. */
typedef struct lists_of {
    kin_tree_gpu_lists *lists;
    int64_t places;
} lists_of;

static void name_lists(kin_layout *layout, void *job)
{
    const lists_of *of = job;
    kin_tree_gpu_lists *lists = of->lists;
    const uint64_t n = (uint64_t)kin_round_up(of->places, KIN_TREE_GPU_PACKET);
    const uint64_t list = (uint64_t)lists->capacity * sizeof *lists->words;
    lists->words = kin_layout_array(layout, n, list);
    lists->counts = kin_layout_array(layout, n, sizeof *lists->counts);
    lists->lost = kin_layout_array(layout, n, sizeof *lists->lost);
}

kith_status kin_tree_gpu_lists_make(const kin_tree_gpu_solver *s, int64_t places,
                                    kin_tree_gpu_lists *lists)
{
    lists_of of = {.lists = lists, .places = places};
    void *block = NULL;
    return kin_gpu_layout_make(s->on.ctx, s->on.gpu, name_lists, &of, "candidate lists", &block);
}

uint64_t kin_tree_gpu_lists_bytes(int64_t places, int32_t capacity)
{
    kin_tree_gpu_lists lists = {.capacity = capacity};
    lists_of of = {.lists = &lists, .places = places};
    return kin_gpu_layout_bytes(name_lists, &of);
}

void kin_tree_gpu_lists_free(const kin_tree_gpu_solver *s, kin_tree_gpu_lists *lists)
{
    kin_gpu_free(s->on.gpu, lists->words);
    *lists = (kin_tree_gpu_lists){0};
}

/* ---- Rows that ask --------------------------------------------------------------------------- */

static void name_asked(kin_layout *layout, void *job)
{
    kin_tree_gpu_asked *a = job;
    const uint64_t n = (uint64_t)a->count;
    a->ids = a->listed ? kin_layout_array(layout, n, sizeof *a->ids) : NULL;
    if (a->rounds) {
        a->rounded = kin_layout_array(layout, n, (uint64_t)a->wide * sizeof *a->rounded);
        a->lost = kin_layout_array(layout, n, sizeof *a->lost);
    }
    a->order = a->ordered ? kin_layout_array(layout, n, sizeof *a->order) : NULL;
}

/* Of so many in an order; what finding it takes of each is at most two words and a histogram. */
static uint64_t asked_bytes(int64_t count, int32_t wide)
{
    enum { ORDER_BYTES = 24 };
    kin_tree_gpu_asked a = {.count = count, .wide = wide, .rounds = true, .ordered = true};
    return kin_size_add(kin_gpu_layout_bytes(name_asked, &a),
                        kin_size_mul((uint64_t)count, ORDER_BYTES));
}

static kith_status round_rows(const kin_tree_gpu_solver *s, const kin_fused_rows *rows,
                              const kin_tree_gpu_asked *a)
{
    const kin_tree_gpu *tree = s->tree;
    const kin_tree_gpu_round job = {.rows = *rows,
                                    .ids = a->ids,
                                    .count = a->count,
                                    .wide = tree->wide,
                                    .norm = tree->norm,
                                    .scale = tree->scale,
                                    .shift = tree->shift,
                                    .out = a->rounded,
                                    .lost = a->lost};
    return KIN_TREE_LAUNCH(s, round, &job, "rounding queries");
}

/* As they stand. */
static kith_status number_rows(const kin_tree_gpu_solver *s, const kin_tree_gpu_asked *a)
{
    uint32_t *numbers = NULL;
    KIN_HOLD(hold, s->on.ctx);
    KIN_NEW(&hold, numbers, (uint64_t)a->count, "numbers of rows");
    for (int64_t i = 0; i < a->count; i++) {
        numbers[i] = (uint32_t)i;
    }
    return kin_gpu_upload(s->on.ctx, s->on.gpu, a->order, numbers,
                          (uint64_t)a->count * sizeof *numbers);
}

static kith_status order_rows(const kin_tree_gpu_solver *s, const kin_tree_gpu_asked *a)
{
    if (a->plain) {
        return number_rows(s, a);
    }
    uint64_t bytes = 0;
    kin_tree_gpu_order job = {
        .tree = *s->tree, .rows = a->rounded, .count = a->count, .scratch_bytes = &bytes};
    KIN_TRY(KIN_TREE_LAUNCH(s, order, &job, "sizing the order of queries"));
    KIN_TRY(kin_gpu_alloc(s->on.ctx, s->on.gpu, &job.scratch, bytes, 1, "sorting queries"));
    job.order = a->order;
    const kith_status status = KIN_TREE_LAUNCH(s, order, &job, "sorting queries");
    kin_gpu_free(s->on.gpu, job.scratch);
    return status;
}

kith_status kin_tree_gpu_ask(const kin_tree_gpu_solver *s, const kin_fused_rows *rows,
                             const uint32_t *ids, kin_tree_gpu_asked *a)
{
    kith_ctx *ctx = s->on.ctx;
    kin_gpu *gpu = s->on.gpu;
    a->listed = ids != NULL;
    a->rounds = rows != NULL;
    a->wide = s->tree->wide;
    KIN_TRY(kin_gpu_layout_make(ctx, gpu, name_asked, a, "rows that ask", &a->block));
    if (a->listed) {
        KIN_TRY(kin_gpu_upload(ctx, gpu, a->ids, ids, (uint64_t)a->count * sizeof *ids));
    }
    if (rows != NULL) {
        KIN_TRY(round_rows(s, rows, a));
    }
    return a->ordered ? order_rows(s, a) : KITH_OK;
}

void kin_tree_gpu_asked_free(const kin_tree_gpu_solver *s, kin_tree_gpu_asked *a)
{
    kin_gpu_free(s->on.gpu, a->block);
    *a = (kin_tree_gpu_asked){0};
}

/* ---- Stripes --------------------------------------------------------------------------------- */

/* Queries, their copies in the tree's units, their order, lists and answers, and what another way
 * through the tree takes. */
static uint64_t stripe_bytes(const kin_tree_gpu_whole *w, int64_t count)
{
    const kin_tree_gpu_way *way = kin_tree_gpu_way_of(w->request);
    const bool here = (w->place & KIN_FUSED_DATA_ON_DEVICE) != 0;
    const uint64_t rows = here ? 0 : kin_fused_ahead_bytes(w->queries, count);
    const uint64_t own =
        kin_size_add(rows, asked_bytes(count, kin_tree_gpu_wide(w->queries->cols)));
    const uint64_t lists = kin_size_add(kin_tree_gpu_lists_bytes(count, w->capacity),
                                        way != NULL ? way->bytes(w->height, count) : 0);
    return kin_size_add(kin_size_add(own, lists), kin_fused_answers_bytes(count, w->request->k));
}

static int64_t stripe_rows(const kin_tree_gpu_whole *w, uint64_t room, bool ahead)
{
    int64_t stripe = w->queries->rows;
    while (stripe > KIN_FUSED_LEAST_ROWS &&
           kin_size_add(kin_fused_with_slack(stripe_bytes(w, stripe)),
                        ahead ? kin_fused_ahead_bytes(w->queries, stripe) : 0) > room) {
        stripe = kin_fused_halved(stripe);
    }
    return stripe;
}

kin_tree_gpu_cut kin_tree_gpu_cut_queries(const kin_tree_gpu_whole *whole, uint64_t room,
                                          bool ahead)
{
    const int64_t stripe = stripe_rows(whole, room, false);
    if (stripe == whole->queries->rows || !ahead) {
        return (kin_tree_gpu_cut){.stripe = stripe};
    }
    return (kin_tree_gpu_cut){.stripe = stripe_rows(whole, room, true), .ahead = true};
}

/* ---- Plan ------------------------------------------------------------------------------------ */

/* beside: what is there before the first stripe; building: the most while it was made. */
static kin_tree_gpu_need need_of(const kin_tree_gpu_whole *asked, uint64_t beside,
                                 uint64_t building, uint64_t budget)
{
    const int64_t rows = asked->queries->rows;
    const uint64_t whole = kin_size_add(beside, stripe_bytes(asked, rows));
    const uint64_t least =
        kin_size_add(beside, stripe_bytes(asked, kin_min_i64(KIN_FUSED_LEAST_ROWS, rows)));
    const bool ahead = (asked->place & KIN_FUSED_DATA_ON_DEVICE) == 0;
    const kin_tree_gpu_cut cut =
        kin_tree_gpu_cut_queries(asked, budget > beside ? budget - beside : 0, ahead);
    return (kin_tree_gpu_need){
        .whole_bytes = kin_fused_with_slack(whole > building ? whole : building),
        .least_bytes = kin_fused_with_slack(least > building ? least : building),
        .stripes = kin_ceil_div(rows, cut.stripe)};
}

kin_tree_gpu_need kin_tree_gpu_plan_need(const kith_matrix *corpus, const kith_matrix *queries,
                                         const kin_request *request, uint64_t budget)
{
    const int64_t leaf_points = kin_tree_gpu_leaf_points(request, corpus->rows);
    const kin_tree_gpu_whole asked = {
        .queries = queries != NULL ? queries : corpus,
        .request = request,
        .height = kin_tree_height(corpus->rows, leaf_points),
        .capacity = kin_tree_gpu_list_room(corpus->dtype, kin_min_i64(request->k + 1, corpus->rows),
                                           KIN_TREE_GPU_SHORT),
        .place = queries != NULL ? 0 : KIN_FUSED_DATA_ON_DEVICE}; /* the tree's own rows */
    const kin_fused_prepared_need rows = kin_fused_groups_bytes(corpus, 0);
    const uint64_t tree =
        kin_size_add(rows.resident, kin_tree_gpu_bytes(corpus->rows, corpus->cols, leaf_points));
    const uint64_t building = kin_size_add(
        rows.resident, kin_tree_gpu_peak_bytes(corpus->rows, corpus->cols, leaf_points));
    return need_of(&asked, tree, rows.most > building ? rows.most : building, budget);
}

/* ---- Of what is kept ------------------------------------------------------------------------- */

int64_t kin_tree_gpu_kept_leaf(const kin_tree_gpu_corpus *c)
{
    const int32_t cols = c->points.cols;
    return c->leaf_points == kin_tree_leaf_points(cols) ? kin_tree_gpu_usual_leaf(cols)
                                                        : c->leaf_points;
}

uint64_t kin_tree_gpu_corpus_bytes(const kin_tree_gpu_corpus *c)
{
    return kin_size_add(
        kin_fused_groups_bytes(&c->points, c->place).resident,
        kin_tree_gpu_bytes(c->tree.points, c->tree.cols, kin_tree_gpu_kept_leaf(c)));
}

kin_tree_gpu_need kin_tree_gpu_corpus_need(const kin_tree_gpu_corpus *c, const kith_matrix *queries,
                                           const kin_request *request, uint64_t budget)
{
    const kin_tree_gpu_whole asked = {
        .queries = queries,
        .request = request,
        .height = c->tree.height,
        .capacity = kin_tree_gpu_list_room(
            c->points.dtype, kin_min_i64(request->k + 1, c->points.rows), KIN_TREE_GPU_SHORT)};
    return need_of(&asked, 0, 0, budget);
}
