/* SPDX-License-Identifier: Apache-2.0
 * Search, radius, corpora and trees, selection, prediction, distances, plans, names. */
#include "soak/soak_calls.h"

#include "kith/kith_cuda.h"
#include "support/support_calls.h"

#include <math.h>

/* Of nobody's struct: a size that an older or newer program would have, or none. */
static uint32_t spoil_size(soak *s, uint32_t size)
{
    return (uint32_t)soak_spoil(s, size);
}

static kith_search_params draw_params(soak *s, int64_t most)
{
    kith_search_params p = kith_search_params_default();
    p.struct_size = spoil_size(s, p.struct_size);
    p.metric = soak_metric(s);
    p.k = soak_spoil(s, soak_between(s, 1, most < SOAK_K ? most + 1 : SOAK_K));
    p.flags = soak_below(s, 3) == 0 ? (uint32_t)soak_spoil(s, (int64_t)soak_below(s, 8)) : 0;
    p.method = (kith_method)soak_spoil(s, (int64_t)soak_below(s, 3));
    if (soak_below(s, 6) == 0) {
        p.pipeline = (kith_pipeline)soak_spoil(s, (int64_t)soak_below(s, 3));
        p.select = (kith_select_method)soak_spoil(s, (int64_t)soak_below(s, 9));
    }
    if (soak_below(s, 8) == 0) {
        p.tree_height = (int32_t)soak_spoil(s, (int64_t)soak_below(s, 4));
        p.sample = (int32_t)soak_spoil(s, 0);
        p.flags |= KITH_WITHIN_RADIUS;
        p.radius = soak_below(s, 4) == 0 ? NAN : (double)soak_between(s, -2, 60);
    }
    if (soak_below(s, 8) == 0) {
        p.metric = KITH_CUSTOM;
        p.custom = soak_below(s, 8) == 0 ? NULL : soak_custom;
    }
    return p;
}

/* Answers are written for what params.k says, where that is room for. */
static kith_neighbors room_for(soak *s, int place, int64_t rows, const kith_search_params *p)
{
    return soak_room(s, place, rows, p->k);
}

static void call_graph(soak *s)
{
    const kith_matrix points = soak_matrix(s, 0, SOAK_ROWS, 0);
    const kith_matrix given = soak_spoiled(s, &points);
    const kith_search_params params = draw_params(s, points.rows);
    const kith_neighbors out = room_for(s, 0, points.rows, &params);
    const kith_status status =
        kith_graph(s->ctx, soak_null(s, &given), soak_null(s, &params), soak_null(s, &out), NULL);
    if (soak_check(s, status) == KITH_OK) {
        soak_check_ids(s, &out, points.rows);
    }
}

static void call_search(soak *s)
{
    const kith_matrix corpus = soak_matrix(s, 0, SOAK_ROWS, 0);
    const kith_matrix queries = soak_matrix(s, 1, SOAK_ROWS, corpus.cols);
    const kith_matrix given[] = {soak_spoiled(s, &corpus), soak_spoiled(s, &queries)};
    kith_search_params params = draw_params(s, corpus.rows);
    const kith_neighbors out = room_for(s, 0, queries.rows, &params);
    if (soak_below(s, 4) == 0) {
        for (int64_t i = 0; i < queries.rows; i++) {
            s->ids[3][i] = (uint32_t)soak_spoil(s, i % (corpus.rows + 2));
        }
        params.exclude = s->ids[3];
    }
    const kith_status status =
        kith_search(s->ctx, soak_null(s, &given[0]), &given[1], &params, soak_null(s, &out), NULL);
    if (soak_check(s, status) == KITH_OK) {
        soak_check_ids(s, &out, corpus.rows);
    }
}

static void call_both(soak *s)
{
    const kith_matrix a = soak_matrix(s, 0, SOAK_ROWS, 0);
    const kith_matrix b = soak_matrix(s, 1, SOAK_ROWS, a.cols);
    const kith_matrix given[] = {soak_spoiled(s, &a), soak_spoiled(s, &b)};
    const kith_search_params params = draw_params(s, a.rows);
    const kith_neighbors ab = room_for(s, 0, a.rows, &params);
    const kith_neighbors ba = room_for(s, 1, b.rows, &params);
    if (soak_check(s, kith_knn_both(s->ctx, &given[0], &given[1], &params, &ab, &ba)) == KITH_OK) {
        soak_check_ids(s, &ab, b.rows);
        soak_check_ids(s, &ba, a.rows);
    }
}

static void call_radius(soak *s)
{
    const kith_matrix corpus = soak_matrix(s, 0, SOAK_ROWS, 0);
    const kith_matrix queries = soak_matrix(s, 1, SOAK_ROWS, corpus.cols);
    const kith_matrix given = soak_spoiled(s, &queries);
    kith_radius_params params = kith_radius_params_default();
    kith_ranges *ranges = NULL;
    params.struct_size = spoil_size(s, params.struct_size);
    params.metric = soak_metric(s);
    params.radius = soak_below(s, 8) == 0 ? NAN : (double)soak_between(s, -1, 40);
    params.count_only = soak_below(s, 4) == 0;
    params.flags = (uint32_t)soak_spoil(s, (int64_t)soak_below(s, 2));
    params.method = (kith_method)soak_spoil(s, (int64_t)soak_below(s, 3));
    for (int64_t i = 0; i < queries.rows; i++) {
        s->distances64[3][i] = params.radius + (double)(i % 3);
    }
    params.radii = soak_below(s, 4) == 0 ? s->distances64[3] : NULL;
    const kith_status status =
        kith_radius(s->ctx, &corpus, soak_below(s, 2) == 0 ? NULL : &given, &params, &ranges);
    soak_require(s, (soak_check(s, status) == KITH_OK) == (ranges != NULL), "ranges exactly then");
    if (ranges != NULL) {
        const int64_t rows = kith_ranges_lists(ranges)->rows;
        const kith_neighbors view = {.ids = (uint32_t *)(uintptr_t)kith_ranges_lists(ranges)->ids,
                                     .rows = 1,
                                     .k = kith_ranges_lists(ranges)->offsets[rows]};
        soak_check_ids(s, &view, corpus.rows);
        kith_result_meta meta = kith_result_meta_default();
        meta.kind = KITH_KIND_RANGES;
        meta.corpus_rows = corpus.rows;
        (void)soak_check(s, kith_ranges_save(s->ctx, soak_path(s, "ranges.npz"), ranges, &meta));
    }
    kith_ranges_free(ranges);
}

static void change(soak *s, kith_index *corpus)
{
    const kith_matrix more = soak_matrix(s, 2, 20, test_index_info(corpus).points.cols);
    const kith_matrix given = soak_spoiled(s, &more);
    const int64_t count = soak_spoil(s, soak_between(s, 0, 6));
    (void)soak_check(s, kith_index_add(s->ctx, corpus, &given));
    for (int i = 0; i < 6; i++) {
        s->ids[3][i] = (uint32_t)soak_between(s, 0, 90);
    }
    (void)soak_check(s, kith_index_remove(s->ctx, corpus, s->ids[3], count < 7 ? count : 3));
}

static void ask(soak *s, const kith_index *corpus)
{
    const kith_index_info points_info = test_index_info(corpus);
    const kith_matrix *points = &points_info.points;
    const kith_matrix queries = soak_matrix(s, 1, SOAK_ROWS, points->cols);
    kith_search_params params = draw_params(s, points->rows);
    kith_plan plan = {.struct_size = spoil_size(s, sizeof plan)};
    params.metric = soak_below(s, 4) != 0 ? KITH_METRIC_DEFAULT : params.metric;
    const kith_neighbors out = room_for(s, 0, queries.rows, &params);
    (void)soak_check(s, kith_index_plan(s->ctx, corpus, &queries, &params, &plan));
    if (soak_check(s, kith_index_search(s->ctx, corpus, &queries, &params, &out, NULL)) ==
        KITH_OK) {
        soak_check_ids(s, &out, points->rows);
    }
}

static void call_corpus(soak *s)
{
    const kith_matrix points = soak_matrix(s, 0, SOAK_ROWS, 0);
    const kith_matrix given = soak_spoiled(s, &points);
    kith_index_params params = kith_index_params_default();
    kith_index *corpus = NULL;
    params.struct_size = spoil_size(s, params.struct_size);
    params.metric = soak_metric(s);
    params.method = (kith_method)soak_spoil(s, (int64_t)soak_below(s, 3));
    params.tree_height = (int32_t)soak_spoil(s, 0);
    kith_status status = kith_index_create(s->ctx, &given, &params, &corpus);
    soak_require(s, (soak_check(s, status) == KITH_OK) == (corpus != NULL),
                 "a corpus exactly then");
    if (corpus == NULL) {
        return;
    }
    ask(s, corpus);
    const char *path = soak_path(s, "corpus.kith");
    status = soak_check(s, kith_index_save(s->ctx, corpus, path));
    if (status == KITH_OK && soak_below(s, 2) == 0) {
        kith_index_free(corpus);
        corpus = NULL;
        status = soak_check(s, kith_index_open(s->ctx, path, &corpus));
        soak_require(s, status == KITH_OK, "what was saved can be opened");
    }
    change(s, corpus);
    ask(s, corpus);
    kith_index_free(corpus);
}

static void call_select(soak *s)
{
    kith_select_params params = kith_select_params_default();
    const kith_matrix m = soak_matrix(s, 0, SOAK_ROWS, 0);
    kith_values values = {.data = s->values[0], .rows = m.rows, .cols = m.cols};
    values.dtype = (kith_dtype)soak_spoil(s, (int64_t)m.dtype);
    values.ids = soak_below(s, 4) == 0 ? s->ids[2] : NULL;
    values.cols = soak_below(s, 32) == 0 ? 0 : values.cols;
    values.stride_bytes = soak_below(s, 32) == 0 ? -8 : 0;
    params.struct_size = spoil_size(s, params.struct_size);
    params.method = (kith_select_method)soak_spoil(s, (int64_t)soak_below(s, 9));
    params.k = soak_spoil(s, soak_between(s, 1, m.cols < SOAK_K ? m.cols : SOAK_K));
    params.flags = (uint32_t)soak_spoil(s, (int64_t)soak_below(s, 8));
    if (soak_below(s, 3) == 0) {
        params.buffer = (kith_select_buffer)soak_spoil(s, (int64_t)soak_below(s, 4));
        params.group = (int32_t)soak_spoil(s, (int64_t)soak_below(s, 9));
        params.sample = (int32_t)soak_spoil(s, (int64_t)soak_below(s, 4));
    }
    const kith_selection out = {s->distances64[0], soak_below(s, 8) == 0 ? NULL : s->ids[0], NULL};
    const kith_status status = kith_select(s->ctx, &values, &params, soak_null(s, &out));
    if (soak_check(s, status) == KITH_OK) {
        (void)soak_check(s, kith_selection_save(s->ctx, soak_path(s, "selection.npz"), &out,
                                                soak_below(s, 16) == 0 ? -1 : values.rows,
                                                values.dtype, &params));
    }
    (void)soak_check(
        s, kith_select(s->ctx, &values, &params, &(kith_selection){.kth = s->distances64[1]}));
}

static void call_predict(soak *s)
{
    const int64_t rows = soak_between(s, 1, SOAK_ROWS);
    const kith_neighbors graph = soak_graph(s, 0, rows, soak_between(s, 1, SOAK_K));
    kith_predict_params params = kith_predict_params_default();
    params.struct_size = spoil_size(s, params.struct_size);
    params.mode = (kith_predict_mode)soak_spoil(s, (int64_t)soak_below(s, 5));
    for (int64_t i = 0; i < rows; i++) {
        s->values[0][i] = (double)(i % 5) + (soak_below(s, 64) == 0 ? 0.5 : 0.0);
    }
    const int64_t labels = soak_below(s, 16) == 0 ? soak_between(s, -1, rows) : rows;
    (void)soak_check(s, kith_predict(s->ctx, soak_null(s, &graph), s->values[0], labels,
                                     soak_null(s, &params), s->values[1]));
}

static void call_distances(soak *s)
{
    const kith_matrix a = soak_matrix(s, 0, SOAK_ROWS, 0);
    const kith_matrix b = soak_matrix(s, 1, SOAK_ROWS, a.cols);
    const kith_matrix given = soak_spoiled(s, &a);
    const int64_t count = soak_between(s, -1, SOAK_ENTRIES);
    for (int64_t i = 0; i < count; i++) {
        s->ids[0][i] = (uint32_t)(i % b.rows);
        s->ids[1][i] = (uint32_t)(i % a.rows);
    }
    s->ids[1][5] = (uint32_t)soak_spoil(s, 0);
    (void)soak_check(s,
                     kith_distances(s->ctx, &given, &b, soak_metric(s),
                                    &(kith_pairs){count, s->ids[0], s->ids[1]}, s->distances64[0]));
}

/* Without a device each says so, whatever the arguments are. */
static void call_cuda(soak *s)
{
    const kith_matrix points = soak_matrix(s, 0, SOAK_ROWS, 0);
    const kith_matrix given = soak_spoiled(s, &points);
    const kith_search_params params = draw_params(s, points.rows);
    const kith_neighbors out = room_for(s, 0, points.rows, &params);
    kith_search_params descends = params;
    descends.method = KITH_METHOD_DESCENT;
    const kith_matrix *p = soak_null(s, &given);
    const kith_radius_params within = kith_radius_params_default();
    kith_ranges *ranges = NULL;
    kith_status status[5];
    status[0] = soak_check(s, kith_cuda_graph(s->ctx, p, &params, &out, NULL, NULL));
    status[1] = soak_check(s, kith_cuda_search(s->ctx, p, &given, &params, &out, NULL));
    status[2] = soak_check(s, kith_cuda_graph(s->ctx, p, &descends, &out, NULL, NULL));
    status[3] = soak_check(s, kith_cuda_graph_merge(s->ctx, &(kith_merge_sets){p, 1, &out, &out},
                                                    &descends, &out, NULL, NULL));
    status[4] = soak_check(s, kith_cuda_radius(s->ctx, p, &given, &within, &ranges, NULL));
    soak_require(s, ranges == NULL, "what failed makes nothing");
    for (int i = 0; i < 5; i++) {
        soak_require(s, status[i] == KITH_E_UNSUPPORTED || status[i] == KITH_E_ARGUMENT,
                     "there is no device");
    }
}

static void call_plans(soak *s)
{
    const kith_matrix points = soak_matrix(s, 0, SOAK_ROWS, 0);
    const kith_matrix given = soak_spoiled(s, &points);
    kith_search_params params = draw_params(s, points.rows);
    kith_descent_params descent = kith_descent_params_default();
    kith_shard_params shards = kith_shard_params_default();
    kith_plan plan = {.struct_size = spoil_size(s, sizeof plan)};
    kith_shard_plan shard_plan = {.struct_size = spoil_size(s, sizeof shard_plan)};
    descent.k = params.k;
    descent.candidates = (int32_t)soak_spoil(s, 0);
    descent.list = (int32_t)soak_spoil(s, 0);
    descent.metric = params.metric;
    shards.shards = (int32_t)soak_spoil(s, soak_between(s, 0, 5));
    shards.exact = soak_below(s, 2) == 0 ? &params : NULL;
    shards.descent = shards.exact == NULL ? soak_null(s, &descent) : NULL;
    (void)soak_check(
        s, kith_plan_search(s->ctx, &given, NULL, &params, soak_null(s, &plan) ? &plan : NULL));
    params.descent = &descent;
    params.recall = 0.5;
    params.method = (kith_method)soak_spoil(s, KITH_METHOD_DESCENT);
    (void)soak_check(s, kith_plan_search(s->ctx, &given, NULL, &params, &plan));
    params = draw_params(s, points.rows);
    (void)soak_check(s, kith_plan_shards(s->ctx, &given, &shards, &shard_plan));
}

static void call_names(soak *s)
{
    const int number = (int)soak_spoil(s, (int64_t)soak_below(s, 16));
    kith_device device = {.struct_size = spoil_size(s, sizeof device)};
    kith_report report = {.struct_size = spoil_size(s, sizeof report)};
    soak_require(s, kith_status_name((kith_status)number) != NULL, "a status has a name");
    soak_require(s, kith_status_text((kith_status)number) != NULL, "a status has a text");
    soak_require(s, kith_dtype_name((kith_dtype)number) != NULL, "a dtype has a name");
    soak_require(s, kith_metric_name((kith_metric)number) != NULL, "a metric has a name");
    soak_require(s, kith_select_method_name((kith_select_method)number) != NULL, "and a method");
    soak_require(s, kith_dtype_bytes((kith_dtype)number) >= 0, "no size is negative");
    (void)kith_metric_parse(soak_null(s, "euclidean"));
    (void)kith_device_get(number, &device);
    (void)kith_ctx_report(s->ctx, &report);
    soak_require(s, kith_ctx_get_params(s->ctx)->threads >= 1, "a context has threads");
}

const soak_call soak_searches[] = {call_graph,  call_search, call_both,    call_radius,
                                   call_corpus, call_select, call_predict, call_distances,
                                   call_cuda,   call_plans,  call_names};
const int soak_search_count = sizeof soak_searches / sizeof soak_searches[0];
