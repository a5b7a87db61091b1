/* SPDX-License-Identifier: Apache-2.0
 * An index by graph: the bytes of one search whatever is asked at once and by whom, a
 * width that is chosen once, several threads at once, mistakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_descents.h"
#include "support/support_mixture.h"
#include "support/support_shapes.h"

#include <pthread.h>
#include <stdio.h>

enum { POINTS = 3000, QUERIES = 60, COLS = 16, LINKS = 12, K = 10, USERS = 4 };

/* Points, queries of the same kind, a graph of the points, and walks on it. */
typedef struct set {
    kith_ctx *ctx;
    kith_matrix all; /* points, then queries */
    kith_matrix points;
    kith_matrix queries;
    kith_index_params params;
    kith_index *walks;
    kith_neighbors graph;
    kith_neighbors whole; /* of one search */
    kith_neighbors out;
} set;

static kith_ctx *new_ctx(int32_t threads, const char *isa, const char *device)
{
    kith_ctx_params params = kith_ctx_params_default();
    params.threads = threads;
    params.isa = isa;
    params.device = device;
    kith_ctx *ctx = NULL;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}

static kith_status make(kith_ctx *ctx, const set *s, const kith_index_params *given,
                        kith_index **out)
{
    kith_index_params params = *given;
    params.graph = &s->graph;
    return kith_index_create(ctx, &s->points, &params, out);
}

static set set_of(kith_metric metric, kith_dtype dtype, const char *isa)
{
    const int64_t points = test_is_slow_build() ? POINTS / 2 : POINTS;
    const test_mixture mixture = {.dtype = dtype,
                                  .rows = points + QUERIES,
                                  .cols = COLS,
                                  .inner = 6,
                                  .clusters = 20,
                                  .spread = 0.4,
                                  .nonnegative = 1,
                                  .seed = 7};
    set s = {.ctx = new_ctx(2, isa, "cpu"), .all = test_mixture_make(&mixture)};
    for (int64_t row = 1; row < s.all.rows; row += 9) { /* some rows are equal */
        test_mixture_copy(&s.all, row, 1);
    }
    s.points = test_part_of(&s.all, 0, points);
    s.queries = test_part_of(&s.all, points, QUERIES);
    s.graph = test_answer_make(points, LINKS);
    s.whole = test_answer_make(QUERIES, K);
    s.out = test_answer_make(QUERIES, K);
    s.params = test_graph_index_params(NULL, metric);
    s.params.custom = metric == KITH_CUSTOM ? test_descent_manhattan : NULL;
    kith_search_params params = kith_search_params_default();
    params.metric = metric;
    params.custom = s.params.custom;
    params.k = LINKS;
    test_works(s.ctx, kith_graph(s.ctx, &s.points, &params, &s.graph, NULL));
    test_works(s.ctx, make(s.ctx, &s, &s.params, &s.walks));
    return s;
}

static void set_free(set *s)
{
    kith_index_free(s->walks);
    test_answer_free(&s->out);
    test_answer_free(&s->whole);
    test_answer_free(&s->graph);
    test_mixture_free(&s->all);
    kith_ctx_free(s->ctx);
}

static test_walk_params params_of(int64_t k, int64_t width)
{
    test_walk_params params = test_walk_params_default();
    params.k = k;
    params.width = width;
    params.seed = 5;
    return params;
}

static void search_whole(const set *s, const test_walk_params *given, kith_walk_report *report)
{
    test_walk_params params = *given;
    params.metric = s->params.metric;
    params.custom = s->params.custom;
    test_works(s->ctx,
               test_walk(s->ctx, &s->points, &s->graph, &s->queries, &params, &s->whole, report));
}

/* Queries first, first + step ..., one after another. Nothing of cmocka: threads call this. */
static bool search_singly(kith_ctx *ctx, const set *s, const test_walk_params *params,
                          int64_t first, int64_t step, const kith_neighbors *out)
{
    for (int64_t i = first; i < QUERIES; i += step) {
        const kith_matrix one = test_part_of(&s->queries, i, 1);
        const kith_neighbors row = {.ids = out->ids + i * out->k,
                                    .distances = out->distances + i * out->k,
                                    .distances64 = out->distances64 + i * out->k,
                                    .rows = 1,
                                    .k = out->k};
        if (test_index_walk(ctx, s->walks, &one, params, &row, NULL) != KITH_OK) {
            return false;
        }
    }
    return true;
}

/* ---- The same bytes ------------------------------------------------------------------------- */

static void check_same_bytes(const char *name, set *s, int64_t width, int64_t meets)
{
    kith_ctx *other = new_ctx(1, "portable", "cpu");
    test_walk_params params = params_of(K, width);
    params.meets = meets;
    kith_walk_report whole = {.struct_size = (uint32_t)sizeof whole};
    kith_walk_report kept = whole;
    search_whole(s, &params, &whole);
    test_works(s->ctx, test_index_walk(s->ctx, s->walks, &s->queries, &params, &s->out, &kept));
    assert_true(test_answers_equal(&s->out, &s->whole));
    assert_true(kept.evaluations == whole.evaluations && kept.parts == whole.parts);
    assert_int_equal(kept.width, width);
    assert_int_equal(kept.recall.rows, 0); /* not asked for */
    memset(s->out.ids, 0xff, (size_t)(QUERIES * K) * sizeof *s->out.ids);
    assert_true(search_singly(s->ctx, s, &params, 0, 1, &s->out));
    assert_true(test_answers_equal(&s->out, &s->whole));
    memset(s->out.ids, 0xff, (size_t)(QUERIES * K) * sizeof *s->out.ids);
    assert_true(search_singly(other, s, &params, 0, 1, &s->out));
    assert_true(test_answers_equal(&s->out, &s->whole));
    (void)printf("%s, width %lld: alone, together and of another context the same bytes\n", name,
                 (long long)width);
    kith_ctx_free(other);
}

static void the_bytes_of_a_search_on_a_graph(void **state)
{
    (void)state;
    static const struct {
        kith_metric metric;
        kith_dtype dtype;
        const char *isa;
    } kinds[] = {{KITH_EUCLIDEAN, KITH_F32, NULL},       {KITH_EUCLIDEAN, KITH_U8, NULL},
                 {KITH_INNER_PRODUCT, KITH_F32, NULL},   {KITH_COSINE, KITH_F32, "avx2"},
                 {KITH_EUCLIDEAN, KITH_F32, "portable"}, {KITH_SQEUCLIDEAN, KITH_U8, "portable"},
                 {KITH_MANHATTAN, KITH_F32, NULL},       {KITH_CUSTOM, KITH_F32, NULL}};
    const size_t count = sizeof kinds / sizeof kinds[0];
    for (size_t i = 0; i < count; i += test_is_slow_build() ? 2 : 1) {
        set s = set_of(kinds[i].metric, kinds[i].dtype, kinds[i].isa);
        assert_int_equal(test_index_info(s.walks).metric, kinds[i].metric);
        assert_ptr_equal(test_index_info(s.walks).points.data, s.points.data);
        assert_true(test_index_info(s.walks).bytes > 8 * (uint64_t)(s.points.rows * LINKS));
        check_same_bytes(kith_metric_name(kinds[i].metric), &s, 16, 0);
        check_same_bytes(kith_metric_name(kinds[i].metric), &s, 300, 64);
        set_free(&s);
    }
}

/* Links and rounded rows are of their own: the graph may go. */
static void the_graph_may_go(void **state)
{
    (void)state;
    set s = set_of(KITH_EUCLIDEAN, KITH_F32, NULL);
    const test_walk_params params = params_of(K, 16);
    search_whole(&s, &params, NULL);
    memset(s.graph.ids, 0xff, (size_t)(s.graph.rows * LINKS) * sizeof *s.graph.ids);
    test_works(s.ctx, test_index_walk(s.ctx, s.walks, &s.queries, &params, &s.out, NULL));
    assert_true(test_answers_equal(&s.out, &s.whole));
    set_free(&s);
}

/* The queries of a set of bytes as floats, which walk on others. */
static kith_matrix floats_of(const kith_matrix *bytes, float floats[QUERIES * COLS])
{
    for (int64_t i = 0; i < (int64_t)QUERIES * COLS; i++) {
        floats[i] = (float)((const unsigned char *)bytes->data)[i] + 0.25F;
    }
    return (kith_matrix){.data = floats,
                         .rows = QUERIES,
                         .stride_bytes = COLS * sizeof(float),
                         .cols = COLS,
                         .dtype = KITH_F32};
}

/* Bytes that are asked with floats are other walks, which are made when the first of them come. */
static void queries_have_any_type(void **state)
{
    (void)state;
    set s = set_of(KITH_EUCLIDEAN, KITH_U8, NULL);
    const test_walk_params params = params_of(K, 16);
    const kith_matrix bytes = s.queries;
    const uint64_t held = test_index_info(s.walks).bytes;
    float floats[QUERIES * COLS];
    const kith_matrix wide = floats_of(&bytes, floats);
    for (int round = 0; round < 4; round++) {
        s.queries = round % 2 == 0 ? wide : bytes;
        test_works(s.ctx, test_index_walk(s.ctx, s.walks, &s.queries, &params, &s.out, NULL));
        search_whole(&s, &params, NULL);
        assert_true(test_answers_equal(&s.out, &s.whole));
    }
    assert_true(test_index_info(s.walks).bytes > held);
    set_free(&s);
}

/* ---- Recall --------------------------------------------------------------------------------- */

/* A call that wants a recall says which width has it; later ones give that width, and measure
 * nothing. */
static void a_width_is_chosen_once(void **state)
{
    (void)state;
    set s = set_of(KITH_MANHATTAN, KITH_F32, NULL);
    test_walk_params params = params_of(K, 0);
    kith_walk_report whole = {.struct_size = (uint32_t)sizeof whole};
    kith_walk_report kept = whole;
    params.recall = 0.9;
    params.sample = QUERIES / 2;
    search_whole(&s, &params, &whole);
    test_works(s.ctx, test_index_walk(s.ctx, s.walks, &s.queries, &params, &s.out, &kept));
    assert_memory_equal(&kept, &whole, sizeof kept);
    assert_int_equal(kept.reached, 1);
    assert_int_equal(kept.exact, 0);
    assert_int_equal(kept.recall.rows, QUERIES / 2);
    assert_true(test_answers_equal(&s.out, &s.whole));
    (void)printf("0.9: width %lld, recall %.4f\n", (long long)kept.width, kept.recall.recall);
    params = params_of(K, kept.width);
    assert_true(search_singly(s.ctx, &s, &params, 0, 1, &s.out));
    assert_true(test_answers_equal(&s.out, &s.whole));
    set_free(&s);
}

/* ---- Under filters -------------------------------------------------------------------------- */

enum { SHARED = 8000, ASKED = 200 };

/* A search under a filter, by walks and exactly. */
typedef struct filtering {
    kith_ctx *ctx;
    kith_matrix all; /* points, then queries */
    kith_matrix points;
    kith_matrix queries;
    kith_index *index;
    kith_neighbors graph;
    kith_neighbors truth;
    kith_neighbors out;
} filtering;

static filtering filtering_of(void)
{
    const int64_t points = test_is_slow_build() ? SHARED / 4 : SHARED;
    const test_mixture mixture = {.dtype = KITH_F32,
                                  .rows = points + ASKED,
                                  .cols = COLS,
                                  .inner = 6,
                                  .clusters = 20,
                                  .spread = 0.4,
                                  .seed = 11};
    filtering f = {.ctx = new_ctx(2, NULL, "cpu"), .all = test_mixture_make(&mixture)};
    f.points = test_part_of(&f.all, 0, points);
    f.queries = test_part_of(&f.all, points, ASKED);
    f.graph = test_answer_make(points, LINKS);
    f.truth = test_answer_make(ASKED, K);
    f.out = test_answer_make(ASKED, K);
    kith_search_params params = kith_search_params_default();
    params.k = LINKS;
    test_works(f.ctx, kith_graph(f.ctx, &f.points, &params, &f.graph, NULL));
    kith_index_params made = test_graph_index_params(NULL, KITH_EUCLIDEAN);
    made.graph = &f.graph;
    test_works(f.ctx, kith_index_create(f.ctx, &f.points, &made, &f.index));
    return f;
}

static void filtering_free(filtering *f)
{
    kith_index_free(f->index);
    test_answer_free(&f->out);
    test_answer_free(&f->truth);
    test_answer_free(&f->graph);
    test_mixture_free(&f->all);
    kith_ctx_free(f->ctx);
}

/* width 0: a recall of 0.9 is wanted. What is reported is the recall of the filtered truth, and a
 * search on the graph, which makes its walks, has the bytes of the index. */
static kith_walk_report check_filter(filtering *f, const char *name, const kith_filter *filter,
                                     const uint32_t *exclude, int64_t width)
{
    kith_walk_params walk = kith_walk_params_default();
    kith_walk_report told = {.struct_size = (uint32_t)sizeof told};
    kith_search_params params = kith_search_params_default();
    kith_recall recall;
    params.k = K;
    params.filter = filter;
    params.exclude = exclude;
    test_works(f->ctx, kith_search(f->ctx, &f->points, &f->queries, &params, &f->truth, NULL));
    walk.width = width;
    walk.sample = ASKED;
    params.recall = width == 0 ? 0.9 : 0.0;
    params.walk = &walk;
    params.walk_report = &told;
    params.method = KITH_METHOD_GRAPH;
    test_works(f->ctx, kith_index_search(f->ctx, f->index, &f->queries, &params, &f->out, NULL));
    test_works(f->ctx, kith_recall_measure(f->ctx, &f->out, &f->truth, KITH_EUCLIDEAN, K, &recall));
    (void)printf("%s, width %lld: %s recall %.4f, %.0f distances a query\n", name,
                 (long long)told.width, told.exact == 1 ? "exact," : "walks,", recall.recall,
                 told.evaluations / ASKED);
    assert_true(told.recall.recall > recall.recall - 1e-9);
    assert_true(told.recall.recall < recall.recall + 1e-9);
    assert_true(told.exact == 0 || test_answers_equal(&f->out, &f->truth));
    assert_true(width != 0 || recall.recall >= 0.9);
    assert_true(filter == NULL || filter->allow_stride_bytes != 0 || recall.recall > 0.8);
    walk.graph = &f->graph;
    test_works(f->ctx, kith_search(f->ctx, &f->points, &f->queries, &params, &f->truth, NULL));
    assert_true(test_answers_equal(&f->out, &f->truth));
    return told;
}

/* Bitmaps that allow a share of the points: few enough are compared exactly. */
static void walks_under_bitmaps(void **state)
{
    (void)state;
    filtering f = filtering_of();
    static const int percent[] = {100, 50, 10, 1, 0};
    uint8_t allow[SHARED / 8];
    kith_filter filter = kith_filter_default();
    filter.allow = allow;
    for (int i = 0; i < 4; i++) {
        char name[32];
        memset(allow, 0, sizeof allow);
        for (int64_t row = 0; row < f.points.rows; row++) {
            allow[row / 8] |= (uint8_t)((row * 7919 % 100 < percent[i] ? 1 : 0) << row % 8);
        }
        (void)snprintf(name, sizeof name, "%d %% allowed", percent[i]);
        const kith_walk_report told = check_filter(&f, name, &filter, NULL, 64);
        assert_int_equal(told.exact, percent[i] == 1 || (percent[i] == 10 && test_is_slow_build()));
        (void)check_filter(&f, name, &filter, NULL, 0);
    }
    filtering_free(&f);
}

/* Groups of the point's own region, which walks see few of, and of no region. */
static void walks_within_groups(void **state)
{
    (void)state;
    filtering f = filtering_of();
    static int64_t groups[SHARED];
    static int64_t regions[SHARED];
    int64_t query_groups[ASKED];
    uint32_t exclude[ASKED];
    kith_filter filter = kith_filter_default();
    filter.query_groups = query_groups;
    for (int64_t row = 0; row < f.points.rows; row++) {
        groups[row] = row * 7919 % 5;
        regions[row] = ((const float *)f.points.data)[row * COLS] > 0.0F ? 1 : 0;
    }
    for (int64_t i = 0; i < ASKED; i++) {
        query_groups[i] = i % 5;
        exclude[i] = (uint32_t)(i * 3);
    }
    filter.groups = groups;
    filter.rule = KITH_RULE_SAME;
    assert_int_equal(check_filter(&f, "same", &filter, exclude, 64).exact, 0);
    filter.rule = KITH_RULE_OTHER;
    assert_int_equal(check_filter(&f, "other", &filter, exclude, 64).exact, 0);
    (void)check_filter(&f, "other", &filter, NULL, 0);
    for (int64_t i = 0; i < ASKED; i++) {
        query_groups[i] = i % 2; /* half of the queries are asked of the other side */
    }
    filter.groups = regions;
    filter.rule = KITH_RULE_SAME;
    (void)check_filter(&f, "same region", &filter, NULL, 64);
    f.queries = test_part_of(&f.points, 0, ASKED);
    for (int64_t i = 0; i < ASKED; i++) {
        exclude[i] = (uint32_t)i;
    }
    (void)check_filter(&f, "all but itself", NULL, exclude, 64);
    for (int64_t i = 0; i < ASKED * K; i++) {
        assert_true(f.out.ids[i] != (uint32_t)(i / K));
    }
    filtering_free(&f);
}

/* ---- Several threads ------------------------------------------------------------------------ */

/* Who asks, with a context of its own. */
typedef struct user {
    const set *of;
    kith_neighbors out; /* shared; rows are one user's each */
    int64_t number;
    bool right;
} user;

static void *use(void *arg)
{
    user *u = arg;
    const test_walk_params params = params_of(K, 24);
    kith_ctx_params given = kith_ctx_params_default();
    given.threads = 1 + (int32_t)u->number % 2;
    given.device = "cpu";
    kith_ctx *ctx = NULL;
    u->right = kith_ctx_create(&given, &ctx) == KITH_OK;
    for (int round = 0; round < 3 && u->right; round++) {
        u->right = search_singly(ctx, u->of, &params, u->number, USERS, &u->out);
    }
    kith_ctx_free(ctx);
    return NULL;
}

/* One of the users is the context that made the walks. */
static void several_threads_share_walks(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_MANHATTAN, KITH_SQEUCLIDEAN};
    float floats[QUERIES * COLS];
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        const bool bytes = metrics[i] == KITH_SQEUCLIDEAN; /* asked with floats by all at once */
        set s = set_of(metrics[i], bytes ? KITH_U8 : KITH_F32, NULL);
        s.queries = bytes ? floats_of(&s.queries, floats) : s.queries;
        const test_walk_params params = params_of(K, 24);
        user users[USERS];
        pthread_t threads[USERS];
        search_whole(&s, &params, NULL);
        for (int64_t u = 1; u < USERS; u++) {
            users[u] = (user){.of = &s, .out = s.out, .number = u};
            assert_int_equal(pthread_create(&threads[u], NULL, use, &users[u]), 0);
        }
        const bool own = search_singly(s.ctx, &s, &params, 0, USERS, &s.out);
        for (int64_t u = 1; u < USERS; u++) {
            assert_int_equal(pthread_join(threads[u], NULL), 0);
            assert_true(users[u].right);
        }
        assert_true(own && test_answers_equal(&s.out, &s.whole));
        (void)printf("%s: %d threads at once, the bytes of one\n", kith_metric_name(metrics[i]),
                     (int)USERS);
        set_free(&s);
    }
}

/* ---- Mistakes ------------------------------------------------------------------------------- */

static void not_made(const set *s, kith_ctx *ctx, const kith_index_params *params,
                     kith_status status, const char *says)
{
    kith_index *walks = s->walks;
    test_fails(ctx,
               params != NULL ? make(ctx, s, params, &walks)
                              : kith_index_create(ctx, &s->points, NULL, &walks),
               status, says);
    assert_null(walks);
}

static void not_found(const set *s, const kith_index *walks, const test_walk_params *params,
                      const char *says)
{
    test_fails(s->ctx, test_index_walk(s->ctx, walks, &s->queries, params, &s->out, NULL),
               KITH_E_ARGUMENT, says);
}

static void mistakes_of_making_are_named(void **state)
{
    (void)state;
    set s = set_of(KITH_EUCLIDEAN, KITH_F32, NULL);
    kith_index_params params = s.params;
    test_fails(s.ctx, make(s.ctx, &s, &params, NULL), KITH_E_ARGUMENT, "out is NULL");
    not_made(&s, s.ctx, NULL, KITH_E_ARGUMENT, "kith_index_params_default()");
    params.metric = (kith_metric)99;
    not_made(&s, s.ctx, &params, KITH_E_ARGUMENT, "metric is 99");
    params.metric = KITH_CUSTOM;
    not_made(&s, s.ctx, &params, KITH_E_ARGUMENT, "the function for it is NULL");
    params = s.params;
    params.recall = 1.5;
    not_made(&s, s.ctx, &params, KITH_E_ARGUMENT, "recall is 1.5, must be 0 to 1");
    params.recall = 0.0;
    params.k = -1;
    not_made(&s, s.ctx, &params, KITH_E_ARGUMENT, "k is -1, must be at least 1");
    params.k = 0;
    params.method = KITH_METHOD_EXACT;
    not_made(&s, s.ctx, &params, KITH_E_ARGUMENT, "the method is not KITH_METHOD_GRAPH");
    s.graph.rows -= 1;
    not_made(&s, s.ctx, &s.params, KITH_E_ARGUMENT, "rows and there are");
    s.graph.rows += 1;
    s.graph.ids[5 * LINKS + 2] = (uint32_t)s.points.rows;
    not_made(&s, s.ctx, &s.params, KITH_E_DATA, "graph[5, 2] is id");
    s.graph.ids[5 * LINKS + 2] = KITH_ID_NONE;
    kith_ctx *gpu = new_ctx(1, NULL, "cuda");
    not_made(&s, gpu, &s.params, KITH_E_UNSUPPORTED, "no GPU can be used");
    const test_walk_params asked = params_of(K, 16);
    test_fails(gpu, test_index_walk(gpu, s.walks, &s.queries, &asked, &s.out, NULL),
               KITH_E_UNSUPPORTED, "an index by graph is the processor's");
    kith_ctx_free(gpu);
    kith_index_free(NULL);
    set_free(&s);
}

static void mistakes_of_searching_are_named(void **state)
{
    (void)state;
    set s = set_of(KITH_EUCLIDEAN, KITH_F32, NULL);
    test_walk_params params = params_of(K, 16);
    not_found(&s, NULL, &params, "index is NULL");
    test_fails(s.ctx, kith_index_search(s.ctx, s.walks, &s.queries, NULL, &s.out, NULL),
               KITH_E_ARGUMENT, "kith_search_params_default()");
    params.graph = &s.graph;
    not_found(&s, s.walks, &params, "graph is set, and an index has its own");
    params.graph = NULL;
    params.metric = KITH_COSINE;
    not_found(&s, s.walks, &params, "metric is cosine and the index was prepared for");
    params.metric = KITH_EUCLIDEAN;
    params.custom = test_descent_manhattan;
    not_found(&s, s.walks, &params, "custom is not the function");
    params.custom = NULL;
    params.width = K - 1;
    not_found(&s, s.walks, &params, "width is 9, must be at least k, 10");
    params.recall = 0.5;
    not_found(&s, s.walks, &params, "recall is 0.5 and width is 9");
    params = params_of(K, 16);
    params.meets = -1;
    not_found(&s, s.walks, &params, "meets is -1, must be at least 1");
    params = params_of(s.points.rows + 1, 0);
    not_found(&s, s.walks, &params, "the corpus has no more rows");
    params = params_of(K, 16);
    s.queries.cols -= 1;
    not_found(&s, s.walks, &params, "the corpus has 16 columns and queries has 15");
    set_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_of_a_search_on_a_graph),
        cmocka_unit_test(the_graph_may_go),
        cmocka_unit_test(queries_have_any_type),
        cmocka_unit_test(a_width_is_chosen_once),
        cmocka_unit_test(walks_under_bitmaps),
        cmocka_unit_test(walks_within_groups),
        cmocka_unit_test(several_threads_share_walks),
        cmocka_unit_test(mistakes_of_making_are_named),
        cmocka_unit_test(mistakes_of_searching_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
