/* SPDX-License-Identifier: Apache-2.0
 * Pairs within a radius against the oracle, to the last bit: however chunks are cut, whatever
 * threads, instruction set and device compute them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_ctx.h"
#include "base/base_random.h"
#include "host/host_cpu.h"
#include "support/support_calls.h"
#include "support/support_faulty.h"
#include "support/support_keys.h"
#include "support/support_pairs.h"
#include "support/support_reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Labels by spreading the smallest until nothing changes; kept rows by their definitions. */
static void check_rows(const told *pairs, int64_t rows, kith_keep keep, const uint32_t *labels,
                       const uint8_t *kept)
{
    uint32_t label[ROWS];
    uint32_t degree[ROWS] = {0};
    uint8_t wanted[ROWS] = {0};
    assert_true(rows <= ROWS);
    for (int64_t i = 0; i < rows; i++) {
        label[i] = (uint32_t)i;
        wanted[i] = keep == KITH_KEEP_FIRST;
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (int64_t p = 0; p < pairs->count; p++) {
            uint32_t *a = &label[pairs->i[p]];
            uint32_t *b = &label[pairs->j[p]];
            changed = changed || *a != *b;
            *a = *b = *a < *b ? *a : *b;
        }
    }
    for (int64_t p = 0; p < pairs->count; p++) {
        degree[pairs->i[p]] += 1;
        degree[pairs->j[p]] += 1;
        if (keep == KITH_KEEP_FIRST && wanted[pairs->i[p]] != 0) {
            wanted[pairs->j[p]] = 0;
        }
    }
    for (int64_t i = 0; i < rows && keep == KITH_KEEP_CENTRAL; i++) {
        bool best = true;
        for (int64_t j = 0; j < rows; j++) {
            best = best && (label[i] != label[j] || degree[j] < degree[i] ||
                            (degree[j] == degree[i] && j >= i));
        }
        wanted[i] = best;
    }
    assert_memory_equal(labels, label, (size_t)rows * sizeof label[0]);
    assert_memory_equal(kept, wanted, (size_t)rows);
}

static void check_found(kith_ctx *ctx, const input *in, int two, const kith_pairs_params *params)
{
    told got;
    kith_pairs_report report;
    test_works(ctx, find(ctx, in, two, *params, &got, &report));
    check_told(&in->wanted[two], &got, in->wanted[two].count);
    assert_int_equal(report.count, got.count);
    assert_int_equal(report.complete, 1);
    assert_int_equal(report.next_row, in->points.matrix.rows);
    kith_pairs_params count = *params;
    count.take = NULL;
    report = (kith_pairs_report){.struct_size = sizeof report};
    test_works(ctx, kith_pairs_find(ctx, &in->points.matrix, two ? &in->others.matrix : NULL,
                                    &count, &report));
    assert_true(report.count == in->wanted[two].count && report.complete == 1);
    told_free(&got);
}

/* However chunks are cut. */
static void check_chunks(kith_ctx *ctx, const input *in)
{
    static const int64_t sizes[][2] = {{0, 0}, {1, 0}, {7, 0}, {0, 1}, {0, 90}, {50, 300}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int two = 0; two < 2; two++) {
            kith_pairs_params params = in->params;
            params.chunk_rows = sizes[s][0];
            params.chunk_pairs = sizes[s][1];
            check_found(ctx, in, two, &params);
        }
    }
}

static void pairs_are_the_oracles(void **state)
{
    (void)state;
    static const test_shape shapes[] = {SHAPE_GAUSS, SHAPE_CLUSTERS, SHAPE_COPIES, SHAPE_EQUAL,
                                        SHAPE_SPARSE};
    kin_isa isas[KIN_ISA_COUNT];
    const int bodies = test_bodies(isas);
    int jobs = 0;
    for (int metric = KITH_EUCLIDEAN; metric != 0; metric = test_next_metric(metric)) {
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0];
             s += test_is_slow_build() ? 2 : 1) {
            input in = input_make((kith_metric)metric, shapes[s], 90 + 13 * (int64_t)s,
                                  3 + 8 * (int32_t)(s % 3));
            kith_ctx *ctx = test_ctx(isas[jobs % bodies], jobs % 2 == 0 ? 1 : 3);
            check_chunks(ctx, &in);
            kith_ctx_free(ctx);
            input_free(&in);
            jobs += 1;
        }
    }
    (void)printf("pairs of %d sets (metrics, shapes, radii that are distances to the last bit), "
                 "cut into chunks in six ways, of one set and of two, are the oracle's\n",
                 jobs);
}

static void every_machine_agrees(void **state)
{
    (void)state;
    input in = input_make(KITH_EUCLIDEAN, SHAPE_COPIES, 600, 20);
    kin_isa isas[KIN_ISA_COUNT];
    const int bodies = test_bodies(isas);
    for (int b = 0; b < bodies; b++) {
        for (int32_t threads = 1; threads <= 3; threads += 2) {
            kith_ctx *ctx = test_ctx(isas[b], threads);
            check_found(ctx, &in, 0, &in.params);
            kith_ctx_free(ctx);
        }
    }
    input few = input_make(KITH_MANHATTAN, SHAPE_COPIES, 600, 3);
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    for (int method = KITH_METHOD_AUTO; method <= KITH_METHOD_TREE; method++) {
        few.params.method = (kith_method)method;
        few.params.chunk_pairs = 3000;
        check_found(ctx, &few, 0, &few.params);
    }
    kith_ctx_free(ctx);
    input_free(&few);
    input_free(&in);
    (void)printf("%d instruction sets, one thread and three, all pairs and the tree: one answer\n",
                 bodies);
}

/* ---- Sizes ---------------------------------------------------------------------------------- */

static void small_sets_and_equal_rows(void **state)
{
    (void)state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    for (int64_t rows = 1; rows <= 3; rows++) {
        input in = input_make(KITH_EUCLIDEAN, SHAPE_GAUSS, rows, 4);
        in.params.radius = 1e9;
        told_free(&in.wanted[0]);
        in.wanted[0] = brute(&in.points.matrix, NULL, &in.params);
        assert_int_equal(in.wanted[0].count, rows * (rows - 1) / 2);
        check_found(ctx, &in, 0, &in.params);
        input_free(&in);
    }
    input in = input_make(KITH_EUCLIDEAN, SHAPE_COPIES, 200, 6);
    in.params.radius = 0.0;
    for (int two = 0; two < 2; two++) {
        told_free(&in.wanted[two]);
        in.wanted[two] = brute(&in.points.matrix, two ? &in.others.matrix : NULL, &in.params);
        check_found(ctx, &in, two, &in.params);
    }
    assert_true(in.wanted[0].count > 50);
    in.params.radius = 1e300; /* all pairs: each row has all that are behind it */
    in.params.chunk_pairs = 64;
    told_free(&in.wanted[0]);
    in.wanted[0] = brute(&in.points.matrix, NULL, &in.params);
    assert_int_equal(in.wanted[0].count, 200 * 199 / 2);
    check_found(ctx, &in, 0, &in.params);
    const kith_matrix none = {.data = in.points.matrix.data, .cols = 6, .dtype = KITH_F32};
    test_fails(ctx, kith_pairs_find(ctx, &none, NULL, &in.params, NULL), KITH_E_ARGUMENT, "rows");
    input_free(&in);
    kith_ctx_free(ctx);
    (void)printf("one, two and three rows, equal rows at radius 0, and a radius that has all\n");
}

static void jobs_end_early_and_go_on(void **state)
{
    (void)state;
    input in = input_make(KITH_EUCLIDEAN, SHAPE_GAUSS, 150, 5);
    const int64_t all = in.wanted[0].count;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    kith_pairs_report report;
    told got;
    for (int64_t limit = 1; limit <= all + 1; limit += all / 5) {
        kith_pairs_params params = in.params;
        params.limit = limit;
        params.chunk_pairs = 100;
        test_works(ctx, find(ctx, &in, 0, params, &got, &report));
        check_told(&in.wanted[0], &got, limit < all ? limit : all);
        assert_int_equal(report.complete, limit >= all);
        assert_true(limit >= all || report.next_row <= in.wanted[0].i[limit]);
        told_free(&got);
    }
    kith_pairs_params params = in.params; /* stopped after each chunk, and taken up again */
    told whole = told_make(all);
    params.chunk_pairs = 200;
    for (bool more = true; more; params.first_row = report.next_row) {
        params.take_arg = &whole;
        params.chunk_rows = report.chunk_rows = params.first_row == 0 ? 10 : report.chunk_rows;
        whole.stop_after = whole.chunks + 1;
        report = (kith_pairs_report){.struct_size = sizeof report};
        test_works(ctx, kith_pairs_find(ctx, &in.points.matrix, NULL, &params, &report));
        more = report.complete == 0;
    }
    check_told(&in.wanted[0], &whole, all);
    assert_true(whole.chunks > 5);
    told_free(&whole);
    kith_ctx_free(ctx);
    input_free(&in);
    (void)printf("a limit and the caller end a job cleanly; it goes on where it was left\n");
}

static void memory_limits_divide_chunks(void **state)
{
    (void)state;
    const uint64_t limit = 2 << 20;
    test_faulty f = {0};
    input in = input_make(KITH_MANHATTAN, SHAPE_CLUSTERS, 900, 4);
    in.params.radius = 1e6;
    told_free(&in.wanted[0]);
    in.wanted[0] = brute(&in.points.matrix, NULL, &in.params);
    kith_ctx *ctx = test_faulty_ctx("cpu", &f, limit);
    for (int foreseen = 0; foreseen < 2; foreseen++) {
        told got;
        kith_pairs_report report;
        in.params.chunk_rows = foreseen != 0 ? 0 : 900;
        test_works(ctx, find(ctx, &in, 0, in.params, &got, &report));
        check_told(&in.wanted[0], &got, in.wanted[0].count);
        assert_true(report.chunks > 10 && (foreseen != 0 || report.divided > 0));
        kith_report peak = {.struct_size = sizeof peak};
        test_works(ctx, kith_ctx_report(ctx, &peak));
        assert_true(peak.peak_bytes <= limit);
        assert_true((uint64_t)got.count * 20 > limit);
        told_free(&got);
    }
    kith_ctx_free(ctx);
    assert_int_equal(atomic_load(&f.blocks), 0);
    input_free(&in);
    (void)printf(
        "a limit of 2 MiB holds while pairs of 8 MB go by, whether a sample tells how many "
        "there are or the first chunk\n");
}

/* ---- Many rows ------------------------------------------------------------------------------- */

typedef struct crowd {
    kith_metric metric;
    test_shape shape;
    int64_t rows;
    int32_t cols;
} crowd;

/* What one chunk has is what chunks have that are asked among the rows behind them. */
static void check_crowd(kith_ctx *ctx, const crowd *c)
{
    uint64_t seed = 11;
    input in = {.params = kith_pairs_params_default()};
    in.points = test_rows_make(usual_dtype(c->metric), c->rows, c->cols, 4);
    test_shape_fill(&in.points, c->shape, false, &seed);
    kith_matrix few = in.points.matrix;
    few.rows = 200;
    in.params.metric = c->metric;
    in.params.method = KITH_METHOD_EXACT;
    in.params.radius = radius_at(c->metric, &few, 0.01);
    kith_pairs_report report = {.struct_size = sizeof report};
    test_works(ctx, kith_pairs_find(ctx, &in.points.matrix, NULL, &in.params, &report));
    assert_true(report.count > 200 && report.count < 1 << 22 && report.chunks == 1);
    in.wanted[0] = told_make(report.count);
    kith_pairs_params params = in.params;
    params.take = take;
    params.take_arg = &in.wanted[0];
    params.chunk_rows = c->rows / 7;
    params.chunk_pairs = report.count / 5;
    test_works(ctx, kith_pairs_find(ctx, &in.points.matrix, NULL, &params, &report));
    assert_true(report.count == in.wanted[0].count && report.chunks > 5);
    in.params.take = take;
    told got;
    test_works(ctx, find(ctx, &in, 0, in.params, &got, &report));
    check_told(&in.wanted[0], &got, in.wanted[0].count);
    assert_true(report.count == got.count && report.chunks == 1);
    told_free(&got);
    told_free(&in.wanted[0]);
    test_rows_free(&in.points);
}

static const crowd CROWDS[] = {
    {KITH_EUCLIDEAN, SHAPE_COPIES, 9000, 14},   {KITH_EUCLIDEAN, SHAPE_OUTLIER, 5000, 9},
    {KITH_SQEUCLIDEAN, SHAPE_COPIES, 9000, 12}, {KITH_COSINE, SHAPE_COPIES, 9000, 14},
    {KITH_INNER_PRODUCT, SHAPE_NORMS, 5000, 7}, {KITH_MANHATTAN, SHAPE_COPIES, 3000, 5}};
enum { CROWD_COUNT = sizeof CROWDS / sizeof CROWDS[0] };

static void many_rows_are_one_chunk(void **state)
{
    (void)state;
    kin_isa isas[KIN_ISA_COUNT];
    const int bodies = test_bodies(isas);
    for (int c = 0; c < CROWD_COUNT; c++) {
        kith_ctx *ctx = test_ctx(isas[c % bodies], 1 + c % 3);
        check_crowd(ctx, &CROWDS[c]);
        kith_ctx_free(ctx);
    }
    (void)printf("%d sets of up to 9,000 rows, whose pairs are compared once, have the pairs of "
                 "chunks among what is behind them\n",
                 CROWD_COUNT);
}

static void allocations_that_fail_are_survived(void **state)
{
    (void)state;
    input in = input_make(KITH_EUCLIDEAN, SHAPE_COPIES, 120, 9);
    uint32_t labels[120];
    uint8_t kept[120];
    in.params.labels = labels;
    in.params.kept = kept;
    in.params.keep = KITH_KEEP_CENTRAL;
    int failed = 0;
    int tried = 0;
    for (long n = 1; n < 100000; n += 1 + n / (test_is_sanitized_build() ? 8 : 40)) {
        test_faulty f = {.fails_at = 0};
        kith_ctx *ctx = test_faulty_ctx("cpu", &f, 0);
        f.fails_at = atomic_load(&f.asked) + n;
        told got;
        kith_pairs_report report;
        const kith_status status = find(ctx, &in, 0, in.params, &got, &report);
        const bool over = atomic_load(&f.asked) < f.fails_at;
        assert_true(status == KITH_OK || status == KITH_E_MEMORY);
        if (status == KITH_OK) {
            check_told(&in.wanted[0], &got, in.wanted[0].count);
            check_rows(&got, 120, KITH_KEEP_CENTRAL, labels, kept);
        }
        failed += status != KITH_OK;
        tried += 1;
        told_free(&got);
        kith_ctx_free(ctx);
        assert_int_equal(atomic_load(&f.blocks), 0);
        if (over) {
            break;
        }
    }
    input_free(&in);
    (void)printf("%d of %d jobs with an allocation that fails end with an error, the others, whose "
                 "chunk is divided, with the answer\n",
                 failed, tried);
}

/* ---- Filters, components --------------------------------------------------------------------- */

static void filters_leave_pairs_out(void **state)
{
    (void)state;
    int64_t groups[ROWS];
    int64_t others[ROWS];
    uint8_t allow[ROWS / 8];
    uint64_t seed = 3;
    for (int i = 0; i < ROWS; i++) {
        groups[i] = (int64_t)(test_uniform(&seed) * 4.0);
        others[i] = (int64_t)(test_uniform(&seed) * 3.0);
        allow[i / 8] = (uint8_t)(test_uniform(&seed) * 256.0);
    }
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 3);
    for (int which = 0; which < 5; which++) {
        input in = input_make(KITH_EUCLIDEAN, SHAPE_COPIES, ROWS, 4);
        for (int two = 0; two < 2; two++) {
            kith_filter filter = kith_filter_default();
            filter.allow = which % 2 == 0 ? allow : NULL;
            filter.rule = which < 1 ? KITH_RULE_NONE : which < 3 ? KITH_RULE_SAME : KITH_RULE_OTHER;
            filter.groups = filter.rule != KITH_RULE_NONE ? groups : NULL;
            filter.query_groups = two && filter.groups != NULL ? others : NULL;
            in.params.filter = &filter;
            in.params.chunk_pairs = which == 2 ? 50 : 0;
            told_free(&in.wanted[two]);
            in.wanted[two] = brute(&in.points.matrix, two ? &in.others.matrix : NULL, &in.params);
            assert_true(in.wanted[two].count > 10);
            check_found(ctx, &in, two, &in.params);
            filter.rule = KITH_RULE_EACH;
            filter.groups = groups;
            filter.query_groups = NULL;
            test_fails(ctx,
                       kith_pairs_find(ctx, &in.points.matrix, two ? &in.others.matrix : NULL,
                                       &in.params, NULL),
                       KITH_E_ARGUMENT, "rule");
        }
        input_free(&in);
    }
    kith_ctx_free(ctx);
    (void)printf("pairs of allowed rows, of one group and of different groups\n");
}

static void rows_are_labelled_and_kept(void **state)
{
    (void)state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    for (int shape = SHAPE_GAUSS; shape <= SHAPE_EQUAL; shape++) {
        for (int keep = KITH_KEEP_FIRST; keep <= KITH_KEEP_CENTRAL; keep++) {
            uint32_t labels[ROWS];
            uint32_t again[ROWS];
            uint8_t kept[ROWS];
            input in = input_make(KITH_EUCLIDEAN, (test_shape)shape, ROWS, 3);
            in.params.radius = radius_at(KITH_EUCLIDEAN, &in.points.matrix, 0.02);
            in.params.labels = labels;
            in.params.keep = (kith_keep)keep;
            in.params.kept = kept;
            in.params.chunk_rows = 1 + shape * 20;
            told_free(&in.wanted[0]);
            in.wanted[0] = brute(&in.points.matrix, NULL, &in.params);
            check_found(ctx, &in, 0, &in.params);
            check_rows(&in.wanted[0], ROWS, in.params.keep, labels, kept);
            in.params.take = NULL; /* each alone */
            in.params.labels = NULL;
            test_works(ctx, kith_pairs_find(ctx, &in.points.matrix, NULL, &in.params, NULL));
            check_rows(&in.wanted[0], ROWS, in.params.keep, labels, kept);
            in.params.labels = again;
            in.params.kept = NULL;
            test_works(ctx, kith_pairs_find(ctx, &in.points.matrix, NULL, &in.params, NULL));
            assert_memory_equal(labels, again, sizeof labels);
            input_free(&in);
        }
    }
    kith_ctx_free(ctx);
    (void)printf("components have their smallest id, and the rows that are kept are as defined\n");
}

/* Rows in any order on a line, in runs of LINE that are far from each other. */
static void threads_join_as_one_does(void **state)
{
    enum { MANY = 12000, LINE = 3000, NEAR = 25 };
    (void)state;
    uint64_t seed = 5;
    static uint32_t labels[2][MANY];
    static uint8_t kept[2][MANY];
    uint32_t place[MANY];
    uint32_t least[MANY / LINE];
    test_rows points = test_rows_make(KITH_F32, MANY, 1, 0);
    for (uint32_t i = 0; i < MANY; i++) {
        const uint64_t at = kin_random_below(&seed, i + 1);
        place[i] = place[at];
        place[at] = i;
    }
    for (uint32_t i = MANY; i-- > 0;) {
        const uint32_t line = place[i] / LINE;
        test_rows_set(&points, i, 0, (double)(place[i] + 1000 * line));
        least[line] = i;
    }
    for (int t = 0; t < 2; t++) {
        kith_ctx *ctx = test_ctx(kin_cpu_best(), t == 0 ? 1 : 4);
        kith_pairs_report report = {.struct_size = sizeof report};
        kith_pairs_params params = kith_pairs_params_default();
        params.radius = NEAR;
        params.labels = labels[t];
        params.kept = kept[t];
        params.keep = KITH_KEEP_CENTRAL;
        test_works(ctx, kith_pairs_find(ctx, &points.matrix, NULL, &params, &report));
        assert_true(report.largest_chunk > MANY);
        kith_ctx_free(ctx);
    }
    for (int64_t i = 0; i < MANY; i++) {
        assert_int_equal(labels[1][i], least[place[i] / LINE]);
    }
    assert_memory_equal(labels[0], labels[1], sizeof labels[0]);
    assert_memory_equal(kept[0], kept[1], sizeof kept[0]);
    test_rows_free(&points);
    (void)printf("four threads join rows as one does\n");
}

/* What is told of phases, every time. */
typedef struct heard {
    kith_ctx *ctx;
    int begun;   /* tellings of the sample at its beginning, */
    int ended;   /* and at its end */
    int between; /* others in between */
    int screens; /* behind it */
} heard;

static int hear(void *arg, const char *phase, double done, double total)
{
    heard *h = arg;
    if (strcmp(phase, "sample") == 0) {
        assert_true(done == 0.0 || done == total);
        assert_int_equal(h->ended, 0);
        h->begun += done == 0.0;
        h->ended += done == total;
    } else {
        h->between += h->begun > 0 && h->ended == 0;
        h->screens += h->ended > 0 && strcmp(phase, "screen") == 0;
    }
    h->ctx->progress_ns = 0;
    return 0;
}

static void a_sample_is_told_as_such(void **state)
{
    (void)state;
    heard h = {.ctx = NULL};
    uint64_t seed = 7;
    kith_ctx_params made = kith_ctx_params_default();
    made.device = "cpu";
    made.threads = 2;
    made.progress = hear;
    made.progress_arg = &h;
    assert_int_equal(kith_ctx_create(&made, &h.ctx), KITH_OK);
    test_rows points = test_rows_make(KITH_F32, 4000, 9, 0);
    test_shape_fill(&points, SHAPE_GAUSS, false, &seed);
    kith_pairs_params params = kith_pairs_params_default();
    static uint32_t labels[4000];
    params.labels = labels;
    params.method = KITH_METHOD_EXACT;
    params.radius = 1.0;
    test_works(h.ctx, kith_pairs_find(h.ctx, &points.matrix, NULL, &params, NULL));
    assert_true(h.begun > 1 && h.ended == 1 && h.between == 0 && h.screens > 0);
    test_rows_free(&points);
    kith_ctx_free(h.ctx);
    (void)printf("%d times a sample was told as the beginning of one phase\n", h.begun);
}

/* ---- Plans, mistakes ------------------------------------------------------------------------- */

static void plans_tell_how_many(void **state)
{
    (void)state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    for (int two = 0; two < 2; two++) {
        input in = input_make(KITH_EUCLIDEAN, SHAPE_GAUSS, 700, 4);
        const double truth = (double)in.wanted[two].count;
        const kith_matrix *others = two ? &in.others.matrix : NULL;
        int right = 0;
        kith_pairs_plan plan = {.struct_size = sizeof plan};
        test_works(ctx, kith_plan_pairs(ctx, &in.points.matrix, others, &in.params, &plan));
        assert_true(plan.pairs == truth && plan.low == truth && plan.high == truth);
        assert_int_equal(plan.sample, 700);
        for (uint64_t seed = 0; seed < 40; seed++) {
            in.params.sample = 100;
            in.params.seed = seed;
            plan = (kith_pairs_plan){.struct_size = sizeof plan};
            test_works(ctx, kith_plan_pairs(ctx, &in.points.matrix, others, &in.params, &plan));
            assert_true(plan.low <= plan.pairs && plan.pairs <= plan.high &&
                        plan.most_of_a_row > 0);
            right += plan.low <= truth && truth <= plan.high;
        }
        assert_true(right >= 34);
        input_free(&in);
    }
    kith_ctx_free(ctx);
    (void)printf("a plan of all rows is the number of pairs; its interval has it in at least 34 of "
                 "40 samples\n");
}

static void mistakes_are_told(void **state)
{
    (void)state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    input in = input_make(KITH_EUCLIDEAN, SHAPE_GAUSS, 40, 4);
    uint32_t labels[40];
    const kith_matrix *points = &in.points.matrix;
    const kith_matrix *others = &in.others.matrix;
    told got = told_make(0);
    in.params.take_arg = &got;
#define WRONG(change, with, says)                                                                  \
    do {                                                                                           \
        kith_pairs_params params = in.params;                                                      \
        change;                                                                                    \
        test_fails(ctx, kith_pairs_find(ctx, points, with, &params, NULL), KITH_E_ARGUMENT, says); \
    } while (0)
    WRONG(params.radius = NAN, NULL, "radius");
    WRONG(params.radius = -1.0, NULL, "radius");
    WRONG(params.limit = -1, NULL, "limit");
    WRONG(params.first_row = 41, NULL, "first_row");
    WRONG(params.chunk_rows = -1, NULL, "chunk_rows");
    WRONG(params.chunk_pairs = -1, NULL, "chunk_pairs");
    WRONG(params.keep = (kith_keep)7, NULL, "keep");
    WRONG(params.labels = labels, others, "labels");
    WRONG((params.labels = labels, params.first_row = 1), NULL, "first_row");
    WRONG(params.struct_size = 0, NULL, "kith_pairs_params_default");
    WRONG(params.metric = (kith_metric)99, NULL, "metric");
#undef WRONG
    test_rows_set(&in.points, 17, 2, NAN);
    test_fails(ctx, kith_pairs_find(ctx, points, NULL, &in.params, NULL), KITH_E_DATA,
               "points[17, 2]");
    test_fails(ctx, kith_plan_pairs(ctx, points, NULL, &in.params, NULL), KITH_E_ARGUMENT, "plan");
    told_free(&got);
    input_free(&in);
    kith_ctx_free(ctx);
    (void)printf("what is wrong is told, with its name\n");
}

/* ---- A GPU ----------------------------------------------------------------------------------- */

static void a_device_agrees(void **state)
{
    (void)state;
    test_reference_use(1);
    kith_ctx_params params = kith_ctx_params_default();
    params.device = "cuda";
    params.threads = 2;
    kith_ctx *ctx = NULL;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    for (int metric = KITH_EUCLIDEAN; metric <= KITH_MANHATTAN; metric++) {
        input in = input_make((kith_metric)metric, SHAPE_COPIES, 260, 12);
        check_chunks(ctx, &in);
        kith_report report = {.struct_size = sizeof report};
        test_works(ctx, kith_ctx_report(ctx, &report));
        assert_string_equal(report.backend, "cuda:0");
        input_free(&in);
    }
    check_crowd(ctx, &(crowd){KITH_EUCLIDEAN, SHAPE_COPIES, 4600, 12});
    check_crowd(ctx, &(crowd){KITH_MANHATTAN, SHAPE_COPIES, 1500, 5});
    kith_ctx_free(ctx);
    (void)printf("the reference device has the same pairs, however chunks are cut\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_the_oracles),
        cmocka_unit_test(every_machine_agrees),
        cmocka_unit_test(small_sets_and_equal_rows),
        cmocka_unit_test(jobs_end_early_and_go_on),
        cmocka_unit_test(memory_limits_divide_chunks),
        cmocka_unit_test(many_rows_are_one_chunk),
        cmocka_unit_test(allocations_that_fail_are_survived),
        cmocka_unit_test(filters_leave_pairs_out),
        cmocka_unit_test(rows_are_labelled_and_kept),
        cmocka_unit_test(threads_join_as_one_does),
        cmocka_unit_test(a_sample_is_told_as_such),
        cmocka_unit_test(plans_tell_how_many),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(a_device_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
