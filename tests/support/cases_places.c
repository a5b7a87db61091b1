/* SPDX-License-Identifier: Apache-2.0
 * Haversine by the tree: the bound that it rests on (tree.h), pair by pair against long
 * double; graphs, searches, radii, limits, pairs, filters and kept indexes with the bytes of all
 * pairs, which a loop in long double knows the distances of. Places: on poles, at the date line, on
 * the other side, nearly and wholly equal, beyond what maps have; float32 and float64. */
#include "support/cases.h"

#include "kith/kith_papers.h"
#include "support/support_answers.h"
#include "support/support_engines.h"
#include "support/support_files.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"
#include "tree/tree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 600, QUERIES = 80, K = 7 };

/* ---- Places ---------------------------------------------------------------------------------- */

typedef enum scene {
    GLOBE = 0,
    POLES,
    DATE_LINE,
    ANTIPODES,
    CITY,
    DUST, /* 1e-9 radians across */
    MIST, /* 1e-15: vectors of many are equal, and rows are not */
    GRID, /* ties, equal places by other numbers */
    ONE,  /* nearly all the same row */
    TINY, /* zeros of both signs, numbers below 1e-300 */
    SWAPPED,
    FAR,
    SCENES
} scene;

static double spread_of(scene how)
{
    return how == CITY ? 1e-3 : how == DUST ? 1e-9 : 1e-15;
}

static void draw(scene how, uint64_t *seed, double place[2])
{
    const double pi = KIN_PI;
    const double u = 2.0 * test_uniform(seed) - 1.0;
    const double v = 2.0 * test_uniform(seed) - 1.0;
    const double w = test_uniform(seed);
    const double cubed = u * u * u;
    place[0] = asin(u);
    place[1] = pi * v;
    if (how == POLES) {
        const double off = w < 0.3 ? 0.0 : w < 0.6 ? 1e-16 * u * u : 1e-3 * cubed * cubed;
        place[0] = v < 0.0 ? -KIN_PLACE_POLE + off : KIN_PLACE_POLE - off;
        place[1] = pi * (2.0 * test_uniform(seed) - 1.0);
    } else if (how == DATE_LINE) {
        place[1] = (w < 0.5 ? pi : -pi) + (w < 0.8 ? 1e-3 * cubed : 0.0);
        place[0] *= 1e-2;
    } else if (how == ANTIPODES) {
        place[0] = w < 0.5 ? 0.5 + 1e-7 * cubed : -0.5 + 1e-7 * cubed;
        place[1] = w < 0.5 ? 1.0 + 1e-8 * v * v * v : 1.0 - pi + 1e-8 * v * v * v;
    } else if (how == CITY || how == DUST || how == MIST) {
        place[0] = 0.8 + spread_of(how) * u;
        place[1] = -2.1 + spread_of(how) * v;
    } else if (how == GRID) {
        place[0] = floor(5.0 * test_uniform(seed)) * pi / 4.0 - pi / 2.0;
        place[1] = floor(9.0 * w) * pi / 4.0 - pi;
    } else if (how == ONE) {
        place[0] = w < 0.9 ? 0.25 : 0.25 + 1e-12 * u;
        place[1] = 2.0;
    } else if (how == TINY) {
        place[0] = w < 0.2 ? 0.0 : w < 0.4 ? -0.0 : u * 1e-305;
        place[1] = w < 0.6 ? v * 1e-300 : w < 0.8 ? v * 1e-160 : 0.0;
    } else if (how == SWAPPED) {
        place[0] = pi * v;
        place[1] = asin(u);
    } else if (how == FAR) {
        place[0] = w < 0.5 ? 20.0 * u : 0x1p20 * u;
        place[1] = w < 0.8 ? 0x1p20 * v : 9.0 * v;
    }
}

typedef struct world {
    scene how;
    test_rows points;
    test_rows queries;
    double radius; /* of some pair, exactly */
} world;

static void fill(const test_rows *rows, scene how, uint64_t *seed)
{
    for (int64_t row = 0; row < rows->matrix.rows; row++) {
        double place[2];
        draw(how, seed, place);
        test_rows_set(rows, row, 0, place[0]);
        test_rows_set(rows, row, 1, place[1]);
    }
}

static kin_distance distance_of(kith_metric metric)
{
    return (kin_distance){.metric = metric, .cols = 2, .isa = KIN_ISA_PORTABLE};
}

static double key_of(const kith_matrix *a, int64_t i, const kith_matrix *b, int64_t j)
{
    const kin_distance distance = distance_of(KITH_HAVERSINE);
    const kin_rows from = {.matrix = *a};
    const kin_rows to = {.matrix = *b};
    double values[KIN_METRIC_LANES] __attribute__((aligned(64)));
    double key = 0.0;
    const kin_query query = kin_metric_load(&distance, &from, i, values);
    kin_metric_keys_run(&distance, &query, &to, j, 1, &key);
    return key;
}

static void world_make(world *w, scene how, kith_dtype dtype, uint64_t *seed)
{
    *w = (world){.how = how};
    w->points = test_rows_make(dtype, ROWS, 2, 8);
    w->queries = test_rows_make(dtype, QUERIES, 2, 0);
    fill(&w->points, how, seed);
    fill(&w->queries, how, seed);
    for (int64_t i = 0; i < ROWS / 10; i++) {
        test_rows_copy(&w->points, 10 * i + 3, &w->points, 7 * i);
    }
    test_rows_copy(&w->queries, 0, &w->points, 3);
    const int64_t q = (int64_t)(QUERIES * test_uniform(seed));
    const int64_t c = (int64_t)(ROWS * test_uniform(seed));
    w->radius = kin_haversine_angle(key_of(&w->queries.matrix, q, &w->points.matrix, c));
    w->radius *= test_uniform(seed) < 0.3 ? 0.1 : 1.0;
}

static void world_free(world *w)
{
    test_rows_free(&w->queries);
    test_rows_free(&w->points);
}

/* ---- The bound ------------------------------------------------------------------------------- */

static void load(const test_rows *rows, int64_t row, double *values)
{
    const kin_distance distance = distance_of(KITH_HAVERSINE);
    const kin_rows from = {.matrix = rows->matrix};
    (void)kin_metric_load(&distance, &from, row, values);
}

/* By how much of what both rows lose the key's chord is away from that of the vectors. */
static double share_of_bound(const double *q, const double *c, double key)
{
    double vectors[2][3] = {{q[0], q[1], 0.0}, {c[0], c[1], 0.0}};
    long double sum = 0.0L;
    kin_place_turn(vectors[0]);
    kin_place_turn(vectors[1]);
    for (int i = 0; i < 3; i++) {
        const long double d = (long double)vectors[0][i] - (long double)vectors[1][i];
        sum += d * d;
    }
    const long double off = fabsl(2.0L * sqrtl((long double)key) - sqrtl(sum));
    return (double)off / (kin_place_lost(q[0], q[1]) + kin_place_lost(c[0], c[1]));
}

static void test_bound(void **state)
{
    (void)state;
    double worst[SCENES] = {0.0};
    uint64_t seed = 12;
    const int64_t step = test_is_slow_build() ? 11 : 3;
    for (int how = 0; how < SCENES; how++) {
        for (int dtype = 0; dtype < 2; dtype++) {
            world w;
            world_make(&w, (scene)how, dtype == 0 ? KITH_F64 : KITH_F32, &seed);
            for (int64_t i = 0; i < QUERIES; i++) {
                for (int64_t j = i % step; j < ROWS; j += step) {
                    double q[KIN_METRIC_LANES] __attribute__((aligned(64)));
                    double c[KIN_METRIC_LANES] __attribute__((aligned(64)));
                    load(&w.queries, i, q);
                    load(&w.points, j, c);
                    const double key = key_of(&w.queries.matrix, i, &w.points.matrix, j);
                    worst[how] = fmax(worst[how], share_of_bound(q, c, key));
                }
            }
            world_free(&w);
        }
        assert_true(worst[how] < 1.0);
        printf("places, scene %d: a key's chord is off by %.3f of the bound at most\n", how,
               worst[how]);
    }
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void succeed(kith_ctx *ctx, kith_status status)
{
    if (status != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(ctx));
    }
}

static kith_search_params params_of(kith_method method, int64_t k, double radius)
{
    kith_search_params params = kith_search_params_default();
    params.metric = KITH_HAVERSINE;
    params.k = k;
    params.method = method;
    if (radius < INFINITY) {
        params.flags = KITH_WITHIN_RADIUS;
        params.radius = radius;
    }
    return params;
}

/* A graph, or a search, by both ways; that of the tree is reported as such, and within its plan. */
static void check_nearest(kith_ctx *ctx, const world *w, bool graph, int64_t k, double radius)
{
    const int64_t rows = graph ? ROWS : QUERIES;
    const kith_matrix *asked = graph ? NULL : &w->queries.matrix;
    kith_neighbors by[2];
    for (int i = 0; i < 2; i++) {
        const kith_method method = i == 0 ? KITH_METHOD_EXACT : KITH_METHOD_TREE;
        const kith_search_params params = params_of(method, k, radius);
        kith_report report = {.struct_size = sizeof report};
        kith_plan plan = {.struct_size = sizeof plan};
        by[i] = test_answer_make(rows, k);
        succeed(ctx, graph ? kith_graph(ctx, &w->points.matrix, &params, &by[i], &report)
                           : kith_search(ctx, &w->points.matrix, asked, &params, &by[i], &report));
        assert_int_equal(strcmp(report.screen, "tree") == 0, i);
        succeed(ctx, kith_plan_search(ctx, &w->points.matrix, asked, &params, &plan));
        assert_true(report.peak_bytes <= plan.peak_bytes);
    }
    if (!test_answers_equal(&by[0], &by[1])) {
        fail_msg("scene %d, k %lld, radius %g: the tree differs", (int)w->how, (long long)k,
                 radius);
    }
    test_answer_free(&by[0]);
    test_answer_free(&by[1]);
}

static void same_ranges(const kith_ranges *a, const kith_ranges *b, int64_t rows)
{
    const kith_lists *x = kith_ranges_lists(a);
    const kith_lists *y = kith_ranges_lists(b);
    const size_t count = (size_t)x->offsets[rows];
    assert_memory_equal(x->offsets, y->offsets, (size_t)(rows + 1) * sizeof *x->offsets);
    if (count > 0) {
        assert_memory_equal(x->ids, y->ids, count * sizeof *x->ids);
        assert_memory_equal(x->distances64, y->distances64, count * sizeof *x->distances64);
    }
}

static void check_radius(kith_ctx *ctx, const world *w, bool graph)
{
    kith_radius_params params = kith_radius_params_default();
    kith_pairs_params couples = kith_pairs_params_default();
    kith_pairs_report found[2] = {{.struct_size = sizeof *found}, {.struct_size = sizeof *found}};
    kith_ranges *by[2] = {NULL, NULL};
    const kith_matrix *asked = graph ? NULL : &w->queries.matrix;
    params.metric = couples.metric = KITH_HAVERSINE;
    params.radius = couples.radius = w->radius;
    for (int i = 0; i < 2; i++) {
        params.method = couples.method = i == 0 ? KITH_METHOD_EXACT : KITH_METHOD_TREE;
        succeed(ctx, kith_radius(ctx, &w->points.matrix, asked, &params, &by[i]));
        succeed(ctx, kith_pairs_find(ctx, &w->points.matrix, asked, &couples, &found[i]));
    }
    same_ranges(by[0], by[1], graph ? ROWS : QUERIES);
    assert_int_equal(found[0].count, found[1].count);
    kith_ranges_free(by[0]);
    kith_ranges_free(by[1]);
}

static void trials(kith_ctx *ctx, void *arg)
{
    int *count = arg;
    uint64_t seed = 100;
    const int step = test_is_slow_build() ? 5 : 1;
    for (int number = 0; number < 2 * SCENES; number += step) {
        world w;
        if (!test_engine_takes((int)ctx->isa, number / 2 + number % 2)) {
            continue; /* one of the types for each scene */
        }
        world_make(&w, (scene)(number / 2), number % 2 == 0 ? KITH_F64 : KITH_F32, &seed);
        check_nearest(ctx, &w, true, K, INFINITY);
        check_nearest(ctx, &w, false, 1, INFINITY);
        check_nearest(ctx, &w, false, ROWS / 4, INFINITY);
        check_nearest(ctx, &w, false, ROWS, INFINITY);
        check_nearest(ctx, &w, false, K, w.radius);
        check_nearest(ctx, &w, true, K, w.radius);
        check_radius(ctx, &w, false);
        check_radius(ctx, &w, true);
        world_free(&w);
        *count += 1;
    }
}

static void test_trials(void **state)
{
    (void)state;
    int count = 0;
    test_on_each_engine(trials, &count);
    printf("places: %d worlds by the tree, with the bytes of all pairs\n", count);
}

/* ---- Many ------------------------------------------------------------------------------------ */

static long double true_angle(const double *q, const double *c)
{
    const long double lat = sinl(((long double)c[0] - (long double)q[0]) / 2.0L);
    const long double lon = sinl(((long double)c[1] - (long double)q[1]) / 2.0L);
    const long double h = lat * lat + cosl((long double)q[0]) * cosl((long double)c[0]) * lon * lon;
    return 2.0L * asinl(sqrtl(h < 1.0L ? h : 1.0L));
}

static int compare(const void *a, const void *b)
{
    const long double x = *(const long double *)a;
    const long double y = *(const long double *)b;
    return x < y ? -1 : x > y;
}

/* The k smallest angles of a row, by a loop, are those that were found. */
static void check_angles(const test_rows *points, int64_t row, const kith_neighbors *out)
{
    const int64_t rows = points->matrix.rows;
    long double *angles = malloc((size_t)rows * sizeof *angles);
    double q[KIN_METRIC_LANES] __attribute__((aligned(64)));
    double c[KIN_METRIC_LANES] __attribute__((aligned(64)));
    assert_non_null(angles);
    load(points, row, q);
    for (int64_t j = 0; j < rows; j++) {
        load(points, j, c);
        angles[j] = true_angle(q, c);
    }
    qsort(angles, (size_t)rows, sizeof *angles, compare);
    for (int64_t i = 0; i < out->k; i++) {
        const double found = out->distances64[row * out->k + i];
        assert_true(fabsl((long double)found - angles[i]) <= 1e-14L * angles[i] + 1e-15L);
    }
    free(angles);
}

static void test_many(void **state)
{
    (void)state;
    enum { MANY = 20000, CHECKED = 50 };
    kith_ctx *one = test_engine_best_ctx(1);
    kith_ctx *three = test_engine_best_ctx(3);
    uint64_t seed = 9;
    test_rows points = test_rows_make(KITH_F64, MANY, 2, 0);
    kith_neighbors chosen = test_answer_make(MANY, 60);
    kith_neighbors other = test_answer_make(MANY, 60);
    const bool gpu = test_engines_are_gpu(); /* which compares so few with all */
    kith_search_params params = params_of(gpu ? KITH_METHOD_TREE : KITH_METHOD_AUTO, 60, INFINITY);
    kith_report report = {.struct_size = sizeof report};
    kith_plan plan = {.struct_size = sizeof plan};
    fill(&points, GLOBE, &seed);
    params.flags = KITH_INCLUDE_SELF;
    succeed(one, kith_graph(one, &points.matrix, &params, &chosen, &report));
    assert_string_equal(report.screen, "tree");
    succeed(one, kith_plan_search(one, &points.matrix, NULL, &params, &plan));
    assert_string_equal(plan.method, "tree");
    succeed(three, kith_graph(three, &points.matrix, &params, &other, NULL));
    assert_true(test_answers_equal(&chosen, &other));
    for (int64_t row = 0; row < CHECKED; row++) {
        check_angles(&points, row, &chosen);
    }
    kith_matrix few = points.matrix;
    params.method = KITH_METHOD_AUTO;
    few.rows = 3; /* are sooner compared with all */
    kith_neighbors answer = test_answer_make(3, 60);
    succeed(one, kith_search(one, &points.matrix, &few, &params, &answer, &report));
    assert_string_equal(report.screen, "direct");
    assert_memory_equal(answer.ids, chosen.ids, 3 * 60 * sizeof *answer.ids);
    test_answer_free(&answer);
    test_answer_free(&other);
    test_answer_free(&chosen);
    test_rows_free(&points);
    kith_ctx_free(three);
    kith_ctx_free(one);
    printf("places: %s takes the tree for a graph of %d, and all pairs for three queries\n",
           gpu ? "who asks" : "auto", (int)MANY);
}

/* ---- Indexes, filters, both ------------------------------------------------------------------ */

static void check_index(kith_ctx *ctx, const world *w, const kith_index *index)
{
    kith_search_params params = params_of(KITH_METHOD_EXACT, K, INFINITY);
    kith_radius_params within = kith_radius_params_default();
    kith_neighbors wanted = test_answer_make(QUERIES, K);
    kith_neighbors out = test_answer_make(QUERIES, K);
    kith_ranges *ranges[2] = {NULL, NULL};
    succeed(ctx, kith_search(ctx, &w->points.matrix, &w->queries.matrix, &params, &wanted, NULL));
    params.method = KITH_METHOD_AUTO;
    succeed(ctx, kith_index_search(ctx, index, &w->queries.matrix, &params, &out, NULL));
    assert_true(test_answers_equal(&wanted, &out));
    within.radius = w->radius;
    succeed(ctx, kith_index_radius(ctx, index, &w->queries.matrix, &within, &ranges[0]));
    within.metric = KITH_HAVERSINE;
    within.method = KITH_METHOD_EXACT;
    succeed(ctx, kith_radius(ctx, &w->points.matrix, &w->queries.matrix, &within, &ranges[1]));
    same_ranges(ranges[0], ranges[1], QUERIES);
    kith_ranges_free(ranges[0]);
    kith_ranges_free(ranges[1]);
    test_answer_free(&out);
    test_answer_free(&wanted);
}

/* Grown from a third, by places of another scene that go again; written and read. */
static void check_kept(kith_ctx *ctx, const world *w, const world *guests, const char *path)
{
    kith_index_params how = kith_index_params_default();
    kith_index *index = NULL;
    kith_index *opened = NULL;
    kith_matrix part = w->points.matrix;
    uint32_t gone[ROWS];
    how.metric = KITH_HAVERSINE;
    how.method = KITH_METHOD_TREE;
    part.rows = ROWS / 3;
    succeed(ctx, kith_index_create(ctx, &part, &how, &index));
    part.data = (const char *)part.data + part.rows * part.stride_bytes;
    part.rows = ROWS - ROWS / 3;
    succeed(ctx, kith_index_add(ctx, index, &part));
    check_index(ctx, w, index);
    succeed(ctx, kith_index_save(ctx, index, path));
    succeed(ctx, kith_index_open(ctx, path, &opened));
    check_index(ctx, w, opened);
    for (uint32_t i = 0; i < ROWS; i++) {
        gone[i] = ROWS + i;
    }
    for (int i = 0; i < 2; i++) {
        kith_index *changed = i == 0 ? index : opened;
        succeed(ctx, kith_index_add(ctx, changed, &guests->points.matrix));
        succeed(ctx, kith_index_remove(ctx, changed, gone, ROWS));
        check_index(ctx, w, changed);
    }
    kith_index_free(opened);
    kith_index_free(index);
}

static void test_indexes(void **state)
{
    const char *path = test_path(*state, "index.kith");
    kith_ctx *ctx = test_engine_best_ctx(2);
    uint64_t seed = 77;
    for (int how = 0; how < SCENES; how++) {
        const kith_dtype dtype = how % 3 == 1 ? KITH_F32 : KITH_F64;
        world w;
        world guests;
        world_make(&w, (scene)how, dtype, &seed);
        world_make(&guests, (scene)((how + 5) % SCENES), dtype, &seed);
        check_kept(ctx, &w, &guests, path);
        world_free(&guests);
        world_free(&w);
    }
    kith_ctx_free(ctx);
    printf("places: kept trees, grown, in files, and changed, answer as all pairs do\n");
}

static void test_filter_and_both(void **state)
{
    (void)state;
    kith_ctx *ctx = test_engine_best_ctx(2);
    uint64_t seed = 3;
    uint8_t allow[ROWS / 8 + 1] = {0};
    world w;
    world_make(&w, POLES, KITH_F64, &seed);
    for (int i = 0; i < ROWS; i++) {
        allow[i / 8] |= (uint8_t)((i % 3 != 0) << i % 8);
    }
    kith_filter filter = kith_filter_default();
    filter.allow = allow;
    kith_neighbors by[2];
    kith_neighbors back[2];
    for (int i = 0; i < 2; i++) {
        kith_search_params params =
            params_of(i == 0 ? KITH_METHOD_EXACT : KITH_METHOD_TREE, K, INFINITY);
        by[i] = test_answer_make(QUERIES, K);
        back[i] = test_answer_make(ROWS, K);
        params.filter = &filter;
        succeed(ctx, kith_search(ctx, &w.points.matrix, &w.queries.matrix, &params, &by[i], NULL));
    }
    assert_true(test_answers_equal(&by[0], &by[1]));
    const kith_search_params params = params_of(KITH_METHOD_AUTO, K, INFINITY);
    succeed(ctx,
            kith_knn_both(ctx, &w.queries.matrix, &w.points.matrix, &params, &by[0], &back[0]));
    succeed(ctx, kith_search(ctx, &w.points.matrix, &w.queries.matrix, &params, &by[1], NULL));
    succeed(ctx, kith_search(ctx, &w.queries.matrix, &w.points.matrix, &params, &back[1], NULL));
    assert_true(test_answers_equal(&by[0], &by[1]) && test_answers_equal(&back[0], &back[1]));
    for (int i = 0; i < 2; i++) {
        test_answer_free(&by[i]);
        test_answer_free(&back[i]);
    }
    world_free(&w);
    kith_ctx_free(ctx);
    printf("places: a filter's rows alone, and both directions, are the same by the tree\n");
}

/* ---- Refused --------------------------------------------------------------------------------- */

static void refuse(kith_ctx *ctx, const world *w, const kith_search_params *params, kith_status why,
                   const char *words)
{
    kith_neighbors out = test_answer_make(QUERIES, params->k);
    const kith_status status =
        kith_search(ctx, &w->points.matrix, &w->queries.matrix, params, &out, NULL);
    if (status != why || strstr(kith_ctx_detail(ctx), words) == NULL) {
        fail_msg("status %d, '%s', must say '%s'", (int)status, kith_ctx_detail(ctx), words);
    }
    test_answer_free(&out);
}

static void test_refusals(void **state)
{
    (void)state;
    kith_ctx *ctx = test_engine_best_ctx(2);
    uint64_t seed = 4;
    world w;
    world_make(&w, GLOBE, KITH_F64, &seed);
    kith_search_params params = params_of(KITH_METHOD_TREE, K, INFINITY);
    test_rows_set(&w.points, 17, 0, (double)NAN);
    refuse(ctx, &w, &params, KITH_E_DATA, "corpus[17, 0] is NaN");
    test_rows_set(&w.points, 17, 0, 1.1e6);
    refuse(ctx, &w, &params, KITH_E_DATA, "corpus[17, 0]");
    test_rows_set(&w.points, 17, 0, 0.5);
    test_rows_set(&w.queries, 5, 1, (double)INFINITY);
    refuse(ctx, &w, &params, KITH_E_DATA, "queries[5, 1]");
    test_rows_set(&w.queries, 5, 1, 0.5);
    params.k = ROWS + 1;
    refuse(ctx, &w, &params, KITH_E_ARGUMENT, "k");
    params = params_of(KITH_METHOD_AUTO, K, INFINITY);
    params.pipeline = KITH_PIPELINE_BUFFER_TREE;
    refuse(ctx, &w, &params, KITH_E_ARGUMENT, "haversine");
    params = params_of(KITH_METHOD_AUTO, K, INFINITY);
    params.metric = (kith_metric)KIN_HAVERSINE_KEY;
    refuse(ctx, &w, &params, KITH_E_ARGUMENT, "which is no metric");
    world_free(&w);
    kith_ctx_free(ctx);
    printf("places: what is no place, and the metric of keys alone, are refused by name\n");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_bound),
    cmocka_unit_test(test_refusals),
    cmocka_unit_test(test_filter_and_both),
    cmocka_unit_test(test_many),
    cmocka_unit_test_setup_teardown(test_indexes, test_folder_setup, test_folder_teardown),
    cmocka_unit_test(test_trials),
};
const test_suite test_suite_places = {"places", tests, sizeof tests / sizeof *tests};
