/* SPDX-License-Identifier: Apache-2.0
 * Neighbours within groups by one screen of all groups on a GPU: the bytes of the processor's, of
 * graphs and searches, under bitmaps, too, for groups of one row, of some, of several stages, for
 * queries of groups that have no rows, and where lists overflow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "engine/engine_filter.h"
#include "exact/exact_search_gpu.h"
#include "kith/kith_papers.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_gpu.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLS = 24, MOST_GROUPS = 64 };

/* How rows are dealt to groups. */
typedef enum dealing {
    AT_RANDOM,
    IN_RUNS,
    MOST_TO_ONE, /* two thirds to the first; the last has one row */
    UNEVENLY,    /* a few large ones, many of some rows */
    DEALINGS
} dealing;

typedef struct grouped {
    kith_dtype dtype;
    kith_metric metric;
    test_shape shape;
    dealing how;
    int64_t rows;
    int64_t queries; /* 0: a graph */
    int64_t groups;
    int64_t k;
    int64_t copies; /* of a row */
    uint32_t flags;
    bool allows; /* some rows alone */
    bool excludes;
    uint64_t memory;
} grouped;

static double reruns; /* of the last job, a row */

static void deal(const grouped *g, int64_t rows, uint64_t *seed, int64_t *numbers, uint32_t *index)
{
    for (int64_t i = 0; i < rows; i++) {
        const int64_t drawn = (int64_t)kin_random_below(seed, (uint64_t)g->groups);
        const bool first = kin_random_below(seed, 3) != 0;
        const int64_t other = i == 17 || g->groups == 1 ? g->groups - 1 : drawn % (g->groups - 1);
        index[i] = (uint32_t)(g->how == AT_RANDOM  ? drawn
                              : g->how == UNEVENLY ? drawn * drawn * drawn / (g->groups * g->groups)
                              : g->how == IN_RUNS  ? i * g->groups / rows
                              : first && i != 17   ? 0
                                                   : other);
        numbers[i] = (int64_t)index[i] * 1000000007;
    }
}

/* A side of a job. */
typedef struct side {
    test_rows rows;
    int64_t *numbers;
    uint32_t *index;
} side;

static side side_make(const grouped *g, int64_t rows, uint64_t *seed)
{
    side s = {.rows = test_rows_make(g->dtype, rows, COLS, 0),
              .numbers = malloc((size_t)rows * sizeof *s.numbers),
              .index = malloc((size_t)rows * sizeof *s.index)};
    assert_non_null(s.numbers);
    assert_non_null(s.index);
    test_shape_fill(&s.rows, g->shape, false, seed);
    for (int64_t i = 0; i < g->copies; i++) {
        test_rows_copy(&s.rows, (int64_t)kin_random_below(seed, (uint64_t)rows), &s.rows, 17);
    }
    deal(g, rows, seed, s.numbers, s.index);
    return s;
}

static void side_free(side *s)
{
    free(s->index);
    free(s->numbers);
    test_rows_free(&s->rows);
}

static bool seat(const grouped *g, const side *corpus, const side *queries,
                 const kith_filter *filter, const uint32_t *exclude, const kith_neighbors *out)
{
    kith_ctx *ctx = test_gpu_ctx(2, g->memory);
    kin_gpu *gpu = NULL;
    bool done = false;
    assert_int_equal(kin_gpu_open(ctx, 0, g->memory, &gpu), KITH_OK);
    assert_int_equal(kin_ctx_begin(ctx), KITH_OK);
    const bool graph = g->queries == 0;
    const kin_request request = {.distance = {.metric = g->metric, .cols = COLS, .isa = ctx->isa},
                                 .k = g->k,
                                 .flags = g->flags,
                                 .exclude = exclude};
    const kin_exact_gpu_query query = {.queries = graph ? NULL : &queries->rows.matrix,
                                       .name = graph ? "points" : "queries",
                                       .request = &request,
                                       .out = out};
    const kin_exact_gpu_groups groups = {.of_rows = corpus->index,
                                         .rows = g->rows,
                                         .of_queries = graph ? NULL : queries->index,
                                         .queries = graph ? g->rows : g->queries,
                                         .groups = g->groups + 3, /* of which some have no rows */
                                         .allow = filter->allow};
    kin_exact_gpu_grouping grouping;
    assert_int_equal(kin_exact_gpu_grouping_make(ctx, gpu, &groups, &grouping), KITH_OK);
    const kin_exact_gpu_picks picks = {
        .corpus = &corpus->rows.matrix, .query = &query, .grouping = &grouping};
    assert_int_equal(kin_exact_gpu_seats(ctx, gpu, &picks, &done), KITH_OK);
    reruns = ctx->report.rerun_share;
    kin_exact_gpu_grouping_free(gpu, &grouping);
    kin_gpu_close(ctx, gpu);
    kith_ctx_free(ctx);
    return done;
}

/* Whether it is done in one go; then its bytes are the processor's. */
static bool check(kith_ctx *cpu, const grouped *g, uint64_t *seed)
{
    const bool graph = g->queries == 0;
    const int64_t asked = graph ? g->rows : g->queries;
    side corpus = side_make(g, g->rows, seed);
    side queries = side_make(g, asked, seed);
    uint8_t *allow = calloc(1, (size_t)g->rows / 8 + 8);
    uint32_t *exclude = malloc((size_t)asked * sizeof *exclude);
    assert_non_null(allow);
    assert_non_null(exclude);
    for (int64_t i = 0; i < g->rows; i++) {
        allow[i / 8] |= (uint8_t)((kin_random_below(seed, 3) != 0) << i % 8);
    }
    for (int64_t i = 0; i < asked; i++) {
        exclude[i] = (uint32_t)kin_random_below(seed, (uint64_t)g->rows);
    }
    kith_filter filter = kith_filter_default();
    filter.rule = KITH_RULE_SAME;
    filter.groups = corpus.numbers;
    filter.query_groups = graph ? NULL : queries.numbers;
    filter.allow = g->allows ? allow : NULL;
    kith_neighbors out = test_answer_make(asked, g->k);
    kith_neighbors truth = test_answer_make(asked, g->k);
    kith_search_params params = kith_search_params_default();
    params.metric = g->metric;
    params.k = g->k;
    params.flags = g->flags;
    params.filter = &filter;
    params.exclude = g->excludes && !graph ? exclude : NULL;
    const bool done = seat(g, &corpus, &queries, &filter, params.exclude, &out);
    if (done) {
        test_works(cpu, graph ? kith_graph(cpu, &corpus.rows.matrix, &params, &truth, NULL)
                              : kith_search(cpu, &corpus.rows.matrix, &queries.rows.matrix, &params,
                                            &truth, NULL));
        assert_true(test_answers_equal(&truth, &out));
    }
    test_answer_free(&truth);
    test_answer_free(&out);
    free(exclude);
    free(allow);
    side_free(&queries);
    side_free(&corpus);
    return done;
}

/* All shapes, types and dealings, small groups and such of stages. */
static void same_bytes(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_COSINE, KITH_INNER_PRODUCT,
                                          KITH_SQEUCLIDEAN, KITH_CORRELATION};
    static const kith_dtype dtypes[] = {KITH_F32, KITH_U8, KITH_F16, KITH_F64, KITH_I8};
    kith_ctx *cpu = test_cpu_ctx();
    uint64_t seed = 47;
    int cases = 0;
    int seated = 0;
    for (int shape = 0; shape < SHAPE_COUNT; shape += test_is_slow_build() ? 3 : 1) {
        for (int i = 0; i < 4; i++) {
            const int n = shape * 4 + i;
            const dealing how = (dealing)(n / 3 % DEALINGS);
            const grouped g = {.dtype = dtypes[(shape + i) % 5],
                               .metric = metrics[n % 5],
                               .shape = (test_shape)shape,
                               .how = how,
                               .rows = how == MOST_TO_ONE ? 4200 : 1500 + 100 * shape,
                               .queries = i % 2 == 0 ? 0 : 700,
                               .groups = how == MOST_TO_ONE ? 4
                                         : how == UNEVENLY  ? 60
                                                            : 1 + n % 11,
                               .k = 1 + n * n % 31 + (n % 13 == 5 ? 150 : 0),
                               .copies = n % 4 == 3 ? 400 : 0,
                               .flags = n % 7 == 0 ? KITH_INCLUDE_SELF : 0,
                               .allows = n % 3 == 1,
                               .excludes = n % 2 == 1};
            seated += check(cpu, &g, &seed);
            cases++;
        }
    }
    assert_true(seated > cases / 2);
    printf("%d jobs within groups, %d of them by one screen: the bytes of the processor\n", cases,
           seated);
    kith_ctx_free(cpu);
}

/* Of a thousand equal rows lists overflow, in the costs of a small group and in a stage; k beyond
 * what a group has; long lists; stripes and batches of one block, where there is little memory. */
static void overflows_and_ends(void **state)
{
    (void)state;
    kith_ctx *cpu = test_cpu_ctx();
    uint64_t seed = 53;
    const grouped right = {.dtype = KITH_F32,
                           .metric = KITH_EUCLIDEAN,
                           .shape = SHAPE_GAUSS,
                           .rows = 3000,
                           .groups = 4,
                           .k = 5};
    assert_true(check(cpu, &right, &seed));
    assert_true(reruns == 0.0);
    grouped g = right;
    g.copies = 2000;
    assert_true(check(cpu, &g, &seed));
    assert_true(reruns > 0.1);
    g.how = MOST_TO_ONE;
    g.rows = 4500;
    g.copies = 1000;
    assert_true(check(cpu, &g, &seed));
    assert_true(reruns > 0.1);
    g = right;
    g.k = 1200;
    assert_true(check(cpu, &g, &seed));
    g.queries = 40;
    g.rows = 5000;
    assert_true(check(cpu, &g, &seed));
    g = right;
    g.how = MOST_TO_ONE;
    g.rows = 6000;
    g.memory = 6 << 20;
    assert_true(check(cpu, &g, &seed));
    g = right;
    g.groups = 1;
    assert_true(check(cpu, &g, &seed));
    g = right;
    g.groups = 30; /* some of which have no blocks */
    assert_true(check(cpu, &g, &seed));
    g.groups = 1500;
    assert_false(check(cpu, &g, &seed));
    g = right;
    g.shape = SHAPE_SPARSE; /* rows of zeros */
    g.metric = KITH_COSINE;
    assert_false(check(cpu, &g, &seed));
    kith_ctx_free(cpu);
}

/* What a plan says before is what is held: no less, and a tenth more at most. */
static void hold_plan(const grouped *g)
{
    uint64_t seed = 61;
    const bool graph = g->queries == 0;
    const int64_t asked = graph ? g->rows : g->queries;
    kith_ctx *ctx = test_gpu_ctx(2, 0);
    side corpus = side_make(g, g->rows, &seed);
    side queries = side_make(g, asked, &seed);
    kith_neighbors out = test_answer_make(asked, g->k);
    kith_filter filter = kith_filter_default();
    kith_search_params params = kith_search_params_default();
    kith_plan plan = {.struct_size = sizeof plan};
    kith_report report = {.struct_size = sizeof report};
    for (int64_t i = 0; i < g->rows; i++) {
        corpus.numbers[i] = (int64_t)corpus.index[i];
        queries.numbers[i % asked] = (int64_t)queries.index[i % asked];
    }
    filter.rule = KITH_RULE_SAME;
    filter.groups = corpus.numbers;
    filter.query_groups = graph ? NULL : queries.numbers;
    params.metric = g->metric;
    params.k = g->k;
    params.filter = &filter;
    const kith_matrix *points = &corpus.rows.matrix;
    test_works(ctx,
               kith_plan_search(ctx, points, graph ? NULL : &queries.rows.matrix, &params, &plan));
    test_works(ctx, graph ? kith_graph(ctx, points, &params, &out, &report)
                          : kith_search(ctx, points, &queries.rows.matrix, &params, &out, &report));
    printf("  %s, %lld rows in %lld groups: held %.2f MiB, planned %.2f MiB\n",
           graph ? "graph" : "search", (long long)g->rows, (long long)g->groups,
           (double)report.gpu_peak_bytes / 0x1p20, (double)plan.gpu_bytes / 0x1p20);
    assert_string_not_equal(report.screen, "direct"); /* in one go, by the screen */
    assert_true(report.gpu_peak_bytes <= plan.gpu_bytes);
    assert_true((double)report.gpu_peak_bytes >= 0.9 * (double)plan.gpu_bytes);
    test_answer_free(&out);
    side_free(&queries);
    side_free(&corpus);
    kith_ctx_free(ctx);
}

static void plans_are_held(void **state)
{
    (void)state;
    const grouped graph = {.dtype = KITH_F32,
                           .metric = KITH_EUCLIDEAN,
                           .shape = SHAPE_GAUSS,
                           .rows = 40000,
                           .groups = 40,
                           .k = 10};
    grouped g = graph;
    hold_plan(&g);
    g.how = UNEVENLY; /* stages, and groups that have no blocks */
    hold_plan(&g);
    g.dtype = KITH_U8;
    g.queries = 30000;
    hold_plan(&g);
    g.metric = KITH_COSINE;
    g.how = IN_RUNS;
    g.k = 100;
    hold_plan(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bytes),
                                       cmocka_unit_test(overflows_and_ends),
                                       cmocka_unit_test(plans_are_held)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
