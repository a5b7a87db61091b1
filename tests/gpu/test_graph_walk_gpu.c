/* SPDX-License-Identifier: Apache-2.0
 * Search on a graph on a GPU: what walks find of every metric, type and k against the exact engine
 * and beside the processor's walks, at canonical distances; sets in which a walk gets lost; equal
 * points; empty lists; few points; the same bytes in two runs, alone and with little memory; the
 * recall that is wanted. KITH_TIMES=1: queries a second of a million points. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_device.h"
#include "support/support_gpu.h"
#include "support/support_mixture.h"
#include "support/support_shapes.h"
#include "support/support_words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Searches -------------------------------------------------------------------------------- */

typedef struct set {
    kith_ctx *gpu;
    kith_ctx *cpu;
    kith_matrix all; /* points, then queries */
    kith_matrix points;
    kith_matrix queries;
    kith_metric metric;
    kith_neighbors graph;
    kith_neighbors truth;
    kith_neighbors out;
} set;

static set set_of(kith_matrix all, int64_t queries, kith_metric metric, int64_t links, int64_t k)
{
    set s = {.gpu = test_gpu_ctx(4, 0),
             .cpu = test_cpu_ctx(),
             .all = all,
             .points = all,
             .queries = all,
             .metric = metric};
    kith_search_params params = kith_search_params_default();
    s.points.rows -= queries;
    s.queries.rows = queries;
    s.queries.data = (const char *)all.data + s.points.rows * all.stride_bytes;
    s.graph = test_answer_make(s.points.rows, links);
    s.truth = test_answer_make(queries, k);
    s.out = test_answer_make(queries, k);
    params.metric = metric;
    params.method = KITH_METHOD_EXACT;
    params.k = links;
    test_works(s.gpu, kith_graph(s.gpu, &s.points, &params, &s.graph, NULL));
    params.k = k;
    test_works(s.gpu, kith_search(s.gpu, &s.points, &s.queries, &params, &s.truth, NULL));
    return s;
}

static void set_free(set *s)
{
    test_answer_free(&s->out);
    test_answer_free(&s->truth);
    test_answer_free(&s->graph);
    test_mixture_free(&s->all);
    kith_ctx_free(s->cpu);
    kith_ctx_free(s->gpu);
}

static test_walk_params params_of(const set *s)
{
    test_walk_params params = test_walk_params_default();
    params.metric = s->metric;
    params.k = s->out.k;
    return params;
}

static kith_walk_report search(const set *s, kith_ctx *ctx, const test_walk_params *params)
{
    kith_walk_report report = {.struct_size = (uint32_t)sizeof report};
    test_works(ctx, test_walk(ctx, &s->points, &s->graph, &s->queries, params, &s->out, &report));
    return report;
}

/* Ids that differ, in the order (distance, id), at canonical distances. */
static void check_rows(const char *name, const set *s)
{
    const int64_t count = s->out.rows * s->out.k;
    const double sign = s->metric == KITH_INNER_PRODUCT ? -1.0 : 1.0;
    uint32_t *rows = test_host_room((size_t)count * sizeof *rows);
    double *distances = test_host_room((size_t)count * sizeof *distances);
    for (int64_t i = 0; i < count; i++) {
        const double *d = s->out.distances64 + i;
        rows[i] = (uint32_t)(i / s->out.k);
        if ((int64_t)s->out.ids[i] >= s->points.rows || s->out.distances[i] != (float)*d) {
            fail_msg("%s: slot %lld", name, (long long)i);
        }
        if (i % s->out.k > 0 &&
            !(sign * d[-1] < sign * d[0] || (d[-1] == d[0] && s->out.ids[i - 1] < s->out.ids[i]))) {
            fail_msg("%s: row %lld is not in order at %lld", name, (long long)(i / s->out.k),
                     (long long)(i % s->out.k));
        }
    }
    test_works(s->cpu, kith_distances(s->cpu, &s->points, &s->queries, s->metric,
                                      &(kith_pairs){count, rows, s->out.ids}, distances));
    for (int64_t i = 0; i < count; i++) {
        if (test_bits(distances[i]) != test_bits(s->out.distances64[i])) {
            fail_msg("%s: %s: slot %lld is %a, canonical is %a", name, kith_metric_name(s->metric),
                     (long long)i, s->out.distances64[i], distances[i]);
        }
    }
    free(distances);
    free(rows);
}

static double recall_of(const set *s)
{
    return test_graph_recall(s->metric, &s->out, &s->truth, s->out.k);
}

/* The recall on the GPU, after the processor's. */
static double compare(const char *name, const set *s, const test_walk_params *params)
{
    const kith_walk_report cpu = search(s, s->cpu, params);
    const double on_cpu = recall_of(s);
    const kith_walk_report gpu = search(s, s->gpu, params);
    const double on_gpu = recall_of(s);
    check_rows(name, s);
    printf("    %-18s %-13s k %3lld, width %4lld  recall %.4f with %.0f keys, the processor %.4f "
           "with %.0f%s\n",
           name, kith_metric_name(s->metric), (long long)params->k, (long long)gpu.width, on_gpu,
           gpu.evaluations / (double)s->out.rows, on_cpu, cpu.evaluations / (double)s->out.rows,
           gpu.exact == 1 ? ", exact" : "");
    (void)fflush(stdout);
    assert_int_equal(gpu.parts, cpu.parts);
    if (gpu.recall.rows == s->out.rows && gpu.recall.at == s->out.k) {
        assert_true(fabs(gpu.recall.recall - on_gpu) < 1e-12); /* all were solved */
    }
    return on_gpu - on_cpu;
}

static kith_matrix data_of(kith_dtype dtype, int64_t rows, int32_t cols, int64_t clusters,
                           double spread)
{
    const test_mixture mixture = {.dtype = dtype,
                                  .rows = test_fewer(rows),
                                  .cols = cols,
                                  .inner = cols < 12 ? cols : 12,
                                  .clusters = clusters,
                                  .spread = spread,
                                  .nonnegative = 1,
                                  .seed = 7};
    return test_mixture_make(&mixture);
}

/* Shares of few values, so that many distances are equal. */
static void coarsen(const kith_matrix *all)
{
    union {
        const void *read;
        unsigned char *own;
    } data = {all->data};
    for (int64_t i = 0; i < all->rows * all->cols; i++) {
        data.own[i] = (unsigned char)(data.own[i] < 160 ? 0 : data.own[i] / 16);
    }
}

static void metrics(void **state)
{
    (void)state;
    for (kith_metric metric = KITH_EUCLIDEAN; metric < KITH_CUSTOM; metric++) {
        const bool shares = metric == KITH_HAMMING || metric == KITH_JACCARD;
        kith_matrix all = data_of(shares ? KITH_U8 : KITH_F32, 12000, 24, 30, 0.4);
        if (shares) {
            coarsen(&all);
        }
        set s = set_of(all, 1000, metric, 16, 10);
        test_walk_params params = params_of(&s);
        assert_true(compare("mixture", &s, &params) > -0.02);
        assert_true(recall_of(&s) > (metric == KITH_INNER_PRODUCT ? 0.5 : 0.9));
        set_free(&s);
    }
}

/* Walks that keep as few as they tell, of rows whose clusters take turns: where the longest rows
 * are everybody's neighbours, what they find depends on where they begin. */
static void products(void **state)
{
    (void)state;
    for (int64_t clusters = 1; clusters <= 30; clusters += 29) {
        set s =
            set_of(data_of(KITH_F32, 12000, 24, clusters, 0.4), 500, KITH_INNER_PRODUCT, 16, 10);
        test_walk_params params = params_of(&s);
        params.width = params.k;
        assert_true(compare("narrow walks", &s, &params) > 0.0);
        assert_true(recall_of(&s) > 0.98);
        set_free(&s);
    }
}

/* Rows of bytes, of which floats ask that lie between them. */
static void other_queries(void **state)
{
    (void)state;
    set s = set_of(data_of(KITH_U8, 12000, 40, 30, 0.4), 500, KITH_EUCLIDEAN, 16, 10);
    const int64_t count = s.queries.rows * s.queries.cols;
    const uint8_t *given = s.queries.data;
    test_walk_params params = params_of(&s);
    params.width = 20;
    const double by_bytes = compare("bytes ask", &s, &params);
    float *values = test_host_room((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++) {
        values[i] = (float)given[i] + (float)(i % 3 - 1) * 0.3F;
    }
    s.queries.data = values;
    s.queries.dtype = KITH_F32;
    s.queries.stride_bytes = s.queries.cols * (int64_t)sizeof *values;
    kith_search_params exact = kith_search_params_default();
    exact.k = params.k;
    exact.method = KITH_METHOD_EXACT;
    test_works(s.gpu, kith_search(s.gpu, &s.points, &s.queries, &exact, &s.truth, NULL));
    const double by_floats = compare("floats ask bytes", &s, &params);
    assert_true(by_bytes > -0.02 && by_floats > -0.02);
    free(values);
    set_free(&s);
}

/* Types, rows that are wider than what shared memory holds, k and widths. */
static void shapes(void **state)
{
    (void)state;
    static const struct {
        kith_dtype dtype;
        int32_t cols;
        int64_t links;
        int64_t k;
        int64_t width;
        kith_metric metric;
    } cases[] = {
        {KITH_U8, 128, 32, 1, 1, KITH_EUCLIDEAN},     {KITH_U8, 100, 10, 64, 64, KITH_SQEUCLIDEAN},
        {KITH_F32, 1, 20, 5, 16, KITH_EUCLIDEAN},     {KITH_F32, 1030, 16, 10, 33, KITH_COSINE},
        {KITH_F32, 1024, 8, 10, 100, KITH_MANHATTAN}, {KITH_F32, 3, 1, 7, 200, KITH_CHEBYSHEV},
        {KITH_F32, 65, 100, 33, 1000, KITH_KL},       {KITH_F32, 960, 64, 10, 64, KITH_CORRELATION},
        {KITH_U8, 2500, 12, 10, 64, KITH_CHI2},       {KITH_F32, 16, 200, 64, 4000, KITH_EUCLIDEAN},
        {KITH_F32, 40, 24, 10, 64, TEST_MINKOWSKI_3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        set s = set_of(data_of(cases[i].dtype, 6300, cases[i].cols, 20, 0.4), 300, cases[i].metric,
                       cases[i].links, cases[i].k);
        test_walk_params params = params_of(&s);
        params.width = cases[i].width;
        /* With one link a row it is chance which of those that name it becomes its way back. A walk
         * of one place ends in the first hollow: the processor's begins beside its query, behind a
         * gate that a GPU has not. */
        const double most_below = cases[i].links == 1 ? 0.15 : cases[i].width == 1 ? 0.1 : 0.05;
        assert_true(compare("shape", &s, &params) > -most_below);
        set_free(&s);
    }
}

/* What a walk may get lost in. */
static void hard_sets(void **state)
{
    (void)state;
    set s = set_of(data_of(KITH_F32, 12000, 16, 2, 0.001), 500, KITH_EUCLIDEAN, 12, 10);
    test_walk_params params = params_of(&s);
    (void)compare("two far blobs", &s, &params);
    assert_true(recall_of(&s) > 0.95);
    set_free(&s);
    s = set_of(data_of(KITH_F32, 12000, 16, 150, 0.001), 500, KITH_EUCLIDEAN, 12, 10);
    params = params_of(&s);
    (void)compare("many far blobs", &s, &params);
    assert_true(recall_of(&s) > 0.95);
    set_free(&s);
    s = set_of(data_of(KITH_F32, 12000, 12, 1, 1.0), 500, KITH_EUCLIDEAN, 24, 10);
    params = params_of(&s);
    assert_true(compare("one blob", &s, &params) > -0.03);
    set_free(&s);
    kith_matrix all = data_of(KITH_F32, 12000, 16, 20, 0.4);
    for (int64_t row = 10; row < all.rows; row += 400) {
        test_mixture_copy(&all, row, row - 1);
    }
    s = set_of(all, 500, KITH_EUCLIDEAN, 12, 10);
    params = params_of(&s);
    assert_true(compare("some are equal", &s, &params) > -0.02);
    set_free(&s);
    all = data_of(KITH_F32, 12000, 16, 20, 0.4);
    for (int64_t row = 1; row < all.rows; row += 3) {
        test_mixture_copy(&all, row, 1);
    }
    s = set_of(all, 500, KITH_EUCLIDEAN, 12, 10);
    params = params_of(&s);
    (void)compare("a third is one", &s, &params);
    assert_true(recall_of(&s) > 0.9);
    set_free(&s);
    all = data_of(KITH_F32, 6000, 8, 20, 0.4);
    for (int64_t row = 1; row < all.rows; row++) {
        test_mixture_copy(&all, row, 0);
    }
    s = set_of(all, 100, KITH_COSINE, 12, 40);
    params = params_of(&s);
    (void)compare("all are one", &s, &params);
    set_free(&s);
}

/* Lists without anybody; as wide as all points; fewer points than a warp has lanes. */
static void ends(void **state)
{
    (void)state;
    set s = set_of(data_of(KITH_F32, 5200, 16, 20, 0.4), 200, KITH_EUCLIDEAN, 12, 10);
    test_walk_params params = params_of(&s);
    params.width = s.points.rows + 1;
    kith_walk_report report = search(&s, s.gpu, &params);
    assert_int_equal(report.exact, 1);
    assert_int_equal(report.width, s.points.rows);
    assert_true(test_answers_equal(&s.out, &s.truth));
    params.width = 4500; /* wider than walks are */
    assert_int_equal(search(&s, s.gpu, &params).exact, 1);
    assert_true(test_answers_equal(&s.out, &s.truth));
    params.width = 0;
    for (int64_t i = 0; i < s.graph.rows * s.graph.k; i += 2) {
        s.graph.ids[i] = KITH_ID_NONE;
    }
    (void)compare("holes", &s, &params);
    for (int64_t i = 0; i < s.graph.rows * s.graph.k; i++) {
        s.graph.ids[i] = KITH_ID_NONE;
    }
    report = search(&s, s.gpu, &params);
    check_rows("no links", &s);
    assert_int_equal(report.parts, s.points.rows);
    params.recall = 0.99;
    assert_int_equal(search(&s, s.gpu, &params).exact, 1);
    assert_true(test_answers_equal(&s.out, &s.truth));
    set_free(&s);
    static const int64_t few[][2] = {{2, 1}, {2, 2}, {3, 2}, {60, 60}, {500, 499}};
    for (size_t i = 0; i < sizeof few / sizeof few[0]; i++) {
        for (kith_metric metric = KITH_EUCLIDEAN; metric <= KITH_MANHATTAN; metric += 5) {
            s = set_of(data_of(KITH_F32, few[i][0] + 5, 4, 2, 0.1), 5, metric, 1, few[i][1]);
            params = params_of(&s);
            (void)search(&s, s.gpu, &params);
            check_rows("few points", &s);
            params.width = few[i][1];
            (void)search(&s, s.gpu, &params);
            check_rows("few points", &s);
            set_free(&s);
        }
    }
}

/* ---- The same bytes, and the recall ---------------------------------------------------------- */

static void same_bytes(void **state)
{
    (void)state;
    set s = set_of(data_of(KITH_F32, 40000, 32, 20, 0.4), test_is_slow_build() ? 1500 : 20000,
                   KITH_COSINE, 16, 10);
    test_walk_params params = params_of(&s);
    params.seed = 3;
    params.width = 24;
    const kith_walk_report one = search(&s, s.gpu, &params);
    kith_neighbors kept = s.out;
    s.out = test_answer_make(kept.rows, kept.k);
    const kith_walk_report two = search(&s, s.gpu, &params);
    assert_true(test_answers_equal(&s.out, &kept));
    assert_true(one.evaluations == two.evaluations);
    /* Every query as it would walk alone. */
    const kith_matrix queries = s.queries;
    const kith_neighbors whole = s.out;
    for (int64_t row = 0; row < queries.rows; row += queries.rows / 4 - 1) {
        s.queries.data = (const char *)queries.data + row * queries.stride_bytes;
        s.queries.rows = 3 < queries.rows - row ? 3 : queries.rows - row;
        s.out = test_answer_make(s.queries.rows, kept.k);
        (void)search(&s, s.gpu, &params);
        assert_memory_equal(s.out.ids, kept.ids + row * kept.k,
                            (size_t)(s.out.rows * kept.k) * sizeof *kept.ids);
        test_answer_free(&s.out);
    }
    s.queries = queries;
    s.out = whole;
    int worked = 0;
    for (uint64_t budget = (uint64_t)64 << 20; budget > 1 << 20; budget -= budget / 6) {
        kith_ctx *ctx = test_gpu_ctx(2, budget);
        const kith_status status =
            test_walk(ctx, &s.points, &s.graph, &s.queries, &params, &s.out, NULL);
        if (status == KITH_OK) {
            worked += 1;
            assert_true(test_answers_equal(&s.out, &kept));
        } else if (status != KITH_E_DEVICE_MEMORY) {
            fail_msg("%llu bytes: %s", (unsigned long long)budget, kith_ctx_detail(ctx));
        }
        kith_ctx_free(ctx);
    }
    printf("    the same bytes: alone, and in %d budgets\n", worked);
    assert_true(worked > 2);
    test_answer_free(&kept);
    set_free(&s);
}

/* Of metrics with products the exact engine is the faster way for so few points, which is said; of
 * others walks are. */
static void wanted_recall(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_MANHATTAN};
    static const double wanted[] = {0.9, 0.99, 0.999};
    for (int m = 0; m < 2; m++) {
        set s = set_of(data_of(KITH_F32, 60000, 32, 1, 1.0), test_is_slow_build() ? 1000 : 3000,
                       metrics[m], 16, 10);
        test_walk_params params = params_of(&s);
        for (int i = 0; i < 3; i++) {
            params.recall = wanted[i];
            const kith_walk_report report = search(&s, s.gpu, &params);
            printf("    %s, wanted %.3f: width %lld, recall %.4f, told %.4f to %.4f%s\n",
                   kith_metric_name(metrics[m]), wanted[i], (long long)report.width, recall_of(&s),
                   report.recall.low, report.recall.high, report.exact == 1 ? ", exact" : "");
            assert_int_equal(report.reached, 1);
            assert_true(recall_of(&s) > wanted[i] - 0.02);
            assert_true(m == 1 || report.exact == 1);
        }
        set_free(&s);
    }
}

static void mistakes(void **state)
{
    (void)state;
    set s = set_of(data_of(KITH_F32, 5300, 16, 20, 0.4), 300, KITH_EUCLIDEAN, 12, 10);
    test_walk_params params = params_of(&s);
    union {
        const void *read;
        float *own;
    } data = {s.queries.data};
    data.own[297 * 16 + 5] = NAN;
    for (int64_t sample = -1; sample <= 0; sample++) {
        params.sample = sample;
        assert_int_equal(test_walk(s.gpu, &s.points, &s.graph, &s.queries, &params, &s.out, NULL),
                         KITH_E_DATA);
        if (strstr(kith_ctx_detail(s.gpu), "queries[297, 5] is NaN") == NULL) {
            fail_msg("%s", kith_ctx_detail(s.gpu));
        }
    }
    set_free(&s);
}

/* ---- Under a filter -------------------------------------------------------------------------- */

/* What walks find of what is allowed, against the exact engine. Returns their report. */
static kith_walk_report check_filter(const set *s, const char *name, const kith_filter *filter,
                                     const uint32_t *exclude)
{
    const test_walk_params like = {
        .metric = s->metric, .k = s->out.k, .graph = &s->graph, .width = 64, .sample = 1000};
    kith_walk_report report = {.struct_size = (uint32_t)sizeof report};
    kith_walk_params walk;
    kith_search_params params = test_walks(&like, &walk, &report);
    params.filter = filter;
    params.exclude = exclude;
    test_works(s->gpu, kith_search(s->gpu, &s->points, &s->queries, &params, &s->out, NULL));
    params.method = KITH_METHOD_EXACT;
    params.walk = NULL;
    params.walk_report = NULL;
    test_works(s->gpu, kith_search(s->gpu, &s->points, &s->queries, &params, &s->truth, NULL));
    check_rows(name, s);
    for (int64_t i = 0; i < s->out.rows * s->out.k; i++) {
        const int64_t query = i / s->out.k;
        const uint32_t id = s->out.ids[i];
        assert_true(exclude == NULL || exclude[query] != id);
        assert_true(filter->allow == NULL || (filter->allow[id / 8] >> id % 8 & 1) != 0);
        assert_true(filter->rule == KITH_RULE_NONE ||
                    (filter->rule == KITH_RULE_SAME) ==
                        (filter->groups[id] == filter->query_groups[query]));
    }
    printf("    %-18s recall %.4f, told %.4f, with %.0f keys%s\n", name, recall_of(s),
           report.recall.recall, report.evaluations / (double)s->out.rows,
           report.exact == 1 ? ", exact" : "");
    (void)fflush(stdout);
    assert_true(recall_of(s) > 0.9);
    assert_true(fabs(report.recall.recall - recall_of(s)) < 1e-12); /* all were solved */
    return report;
}

/* A bitmap of many rows and of few, groups, an id that is left out. */
static void filtered(void **state)
{
    (void)state;
    set s = set_of(data_of(KITH_F32, 12000, 24, 30, 0.4), 400, KITH_EUCLIDEAN, 16, 10);
    const size_t rows = (size_t)s.points.rows;
    uint8_t *allow = test_host_room(rows / 8 + 1);
    int64_t *groups = test_host_room(rows * sizeof *groups);
    int64_t *query_groups = test_host_room((size_t)s.queries.rows * sizeof *query_groups);
    uint32_t *exclude = test_host_room((size_t)s.queries.rows * sizeof *exclude);
    kith_filter filter = kith_filter_default();
    memset(allow, 0xb6, rows / 8 + 1);
    for (size_t i = 0; i < rows; i++) {
        groups[i] = (int64_t)(i * 7 % 3);
    }
    for (int64_t i = 0; i < s.queries.rows; i++) {
        query_groups[i] = i % 3;
    }
    filter.allow = allow;
    assert_int_equal(check_filter(&s, "a bitmap", &filter, NULL).exact, 0);
    for (int64_t i = 0; i < s.queries.rows; i++) {
        exclude[i] = s.truth.ids[i * s.truth.k];
    }
    assert_int_equal(check_filter(&s, "and one left out", &filter, exclude).exact, 0);
    memset(allow, 0, rows / 8 + 1);
    memset(allow, 0xff, 3);
    assert_int_equal(check_filter(&s, "a few rows", &filter, NULL).exact, 1);
    filter = kith_filter_default();
    filter.groups = groups;
    filter.query_groups = query_groups;
    filter.rule = KITH_RULE_SAME;
    (void)check_filter(&s, "the same group", &filter, NULL);
    filter.rule = KITH_RULE_OTHER;
    assert_int_equal(check_filter(&s, "other groups", &filter, NULL).exact, 0);
    free(exclude);
    free(query_groups);
    free(groups);
    free(allow);
    set_free(&s);
}

/* ---- Times ----------------------------------------------------------------------------------- */

static void times(void **state)
{
    (void)state;
    if (!test_times_wanted()) {
        skip();
    }
    for (int type = 0; type < 2; type++) {
        set s = set_of(data_of(type == 0 ? KITH_F32 : KITH_U8, 1100000, 128, 1000, 0.5), 100000,
                       KITH_EUCLIDEAN, 32, 10);
        test_walk_params params = params_of(&s);
        params.sample = -1;
        for (params.width = 16; params.width <= 512; params.width *= 2) {
            const kith_walk_report report = search(&s, s.gpu, &params);
            kith_report told = {.struct_size = sizeof told};
            assert_int_equal(kith_ctx_report(s.gpu, &told), KITH_OK);
            printf("    %s width %3lld: recall %.4f, %.0f keys a query, %.4f s (%.0f queries a "
                   "second), before that %.4f s\n",
                   type == 0 ? "f32" : "u8", (long long)params.width, recall_of(&s),
                   report.evaluations / 1e5, told.seconds_screen, 1e5 / told.seconds_screen,
                   told.seconds_prepare);
            (void)fflush(stdout);
        }
        set_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics),       cmocka_unit_test(products),
        cmocka_unit_test(other_queries), cmocka_unit_test(shapes),
        cmocka_unit_test(hard_sets),     cmocka_unit_test(ends),
        cmocka_unit_test(same_bytes),    cmocka_unit_test(wanted_recall),
        cmocka_unit_test(mistakes),      cmocka_unit_test(filtered),
        cmocka_unit_test(times),
    };
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
