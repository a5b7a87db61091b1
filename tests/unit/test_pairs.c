/* SPDX-License-Identifier: Apache-2.0
 * Pairs within a radius against the oracle, to the last bit: however chunks are cut, whatever
 * threads, instruction set and device compute them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/host_cpu.h"
#include "oracle/plain_knn.h"
#include "support/support_calls.h"
#include "support/support_faulty.h"
#include "support/support_files.h"
#include "support/support_keys.h"
#include "support/support_reference.h"
#include "support/support_shapes.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 160 };

typedef struct told {
    int64_t count;
    int64_t room;
    int64_t chunks;
    int64_t stop_after; /* chunks; 0: never */
    uint32_t *i;
    uint32_t *j;
    double *distances;
} told;

static told told_make(int64_t room)
{
    told t = {.room = room};
    t.i = malloc((size_t)(room + 1) * sizeof *t.i);
    t.j = malloc((size_t)(room + 1) * sizeof *t.j);
    t.distances = malloc((size_t)(room + 1) * sizeof *t.distances);
    assert_true(t.i != NULL && t.j != NULL && t.distances != NULL);
    return t;
}

static void told_free(told *t)
{
    free(t->distances);
    free(t->j);
    free(t->i);
}

static int take(void *arg, const kith_pairs *pairs, const double *distances)
{
    told *t = arg;
    assert_true(pairs->count > 0 && t->count + pairs->count <= t->room);
    memcpy(t->i + t->count, pairs->query_ids, (size_t)pairs->count * sizeof *t->i);
    memcpy(t->j + t->count, pairs->corpus_ids, (size_t)pairs->count * sizeof *t->j);
    memcpy(t->distances + t->count, distances, (size_t)pairs->count * sizeof *t->distances);
    t->count += pairs->count;
    t->chunks += 1;
    return t->chunks == t->stop_after;
}

/* ---- The oracle ----------------------------------------------------------------------------- */

typedef struct candidate {
    double key;
    uint32_t id;
} candidate;

static int compare(const void *a, const void *b)
{
    const candidate *x = a;
    const candidate *y = b;
    const int by_key = (x->key > y->key) - (x->key < y->key);
    return by_key != 0 ? by_key : (x->id > y->id) - (x->id < y->id);
}

static bool within(kith_metric metric, double distance, double radius)
{
    return metric == KITH_INNER_PRODUCT ? distance >= radius : distance <= radius;
}

static bool allows(const kith_filter *filter, bool one_set, uint32_t i, uint32_t j)
{
    if (filter == NULL) {
        return true;
    }
    const uint8_t *allow = filter->allow;
    const bool forbidden = allow != NULL && ((allow[j / 8] >> j % 8 & 1) == 0 ||
                                             (one_set && (allow[i / 8] >> i % 8 & 1) == 0));
    if (forbidden || filter->rule == KITH_RULE_NONE) {
        return !forbidden;
    }
    const int64_t own = one_set ? filter->groups[i] : filter->query_groups[i];
    return (own == filter->groups[j]) == (filter->rule == KITH_RULE_SAME);
}

static told brute(const kith_matrix *points, const kith_matrix *others,
                  const kith_pairs_params *params)
{
    const bool one = others == NULL;
    const kith_matrix *corpus = one ? points : others;
    const kith_metric metric = params->metric;
    told t = told_make(points->rows * corpus->rows);
    candidate *row = malloc((size_t)corpus->rows * sizeof *row);
    assert_non_null(row);
    for (int64_t i = 0; i < points->rows; i++) {
        int64_t count = 0;
        for (int64_t j = one ? i + 1 : 0; j < corpus->rows; j++) {
            const double key = oracle_key(metric, points, i, corpus, j);
            if (within(metric, oracle_distance(metric, key), params->radius) &&
                allows(params->filter, one, (uint32_t)i, (uint32_t)j)) {
                row[count++] = (candidate){key, (uint32_t)j};
            }
        }
        qsort(row, (size_t)count, sizeof *row, compare);
        for (int64_t c = 0; c < count; c++) {
            t.i[t.count] = (uint32_t)i;
            t.j[t.count] = row[c].id;
            t.distances[t.count++] = oracle_distance(metric, row[c].key);
        }
    }
    free(row);
    return t;
}

static void check_told(const told *wanted, const told *got, int64_t count)
{
    assert_int_equal(got->count, count);
    assert_true(count <= wanted->count);
    if (count > 0) {
        assert_memory_equal(got->i, wanted->i, (size_t)count * sizeof *got->i);
        assert_memory_equal(got->j, wanted->j, (size_t)count * sizeof *got->j);
        assert_memory_equal(got->distances, wanted->distances,
                            (size_t)count * sizeof *got->distances);
    }
}

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

/* ---- Jobs ----------------------------------------------------------------------------------- */

typedef struct input {
    test_rows points;
    test_rows others;
    kith_pairs_params params;
    told wanted[2]; /* of one set, of two */
} input;

static kith_dtype usual_dtype(kith_metric metric)
{
    return metric == KITH_SQEUCLIDEAN || metric == KITH_HAMMING ? KITH_U8 : KITH_F32;
}

/* The radius is the distance of a pair, to the last bit: a share of pairs is within. */
static double radius_at(kith_metric metric, const kith_matrix *points, double share)
{
    const int64_t rows = points->rows;
    candidate *all = malloc((size_t)(rows * rows) * sizeof *all);
    assert_non_null(all);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < rows; j++) {
            all[i * rows + j] = (candidate){oracle_key(metric, points, i, points, j), 0};
        }
    }
    qsort(all, (size_t)(rows * rows), sizeof *all, compare);
    const double key = all[(int64_t)(share * (double)(rows * rows - 1))].key;
    free(all);
    return oracle_distance(metric, key);
}

static input input_make(kith_metric metric, test_shape shape, int64_t rows, int32_t cols)
{
    uint64_t seed = (uint64_t)rows * 7 + (uint64_t)metric;
    input in = {.params = kith_pairs_params_default()};
    const bool nonnegative = metric == KITH_CHI2 || metric == KITH_KL || metric == KITH_JACCARD;
    in.points = test_rows_make(usual_dtype(metric), rows, cols, 4);
    in.others = test_rows_make(usual_dtype(metric), rows / 2 + 1, cols, 0);
    test_shape_fill(&in.points, shape, nonnegative, &seed);
    test_shape_fill(&in.others, shape, nonnegative, &seed);
    in.params.metric = metric;
    in.params.radius = radius_at(metric, &in.points.matrix, 0.08);
    in.params.take = take;
    in.wanted[0] = brute(&in.points.matrix, NULL, &in.params);
    in.wanted[1] = brute(&in.points.matrix, &in.others.matrix, &in.params);
    return in;
}

static void input_free(input *in)
{
    told_free(&in->wanted[1]);
    told_free(&in->wanted[0]);
    test_rows_free(&in->others);
    test_rows_free(&in->points);
}

static kith_status find(kith_ctx *ctx, const input *in, int two, kith_pairs_params params,
                        told *got, kith_pairs_report *report)
{
    *got = told_make(in->wanted[two].count);
    params.take_arg = got;
    *report = (kith_pairs_report){.struct_size = sizeof *report};
    return kith_pairs_find(ctx, &in->points.matrix, two ? &in->others.matrix : NULL, &params,
                           report);
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
    told got;
    kith_pairs_report report;
    test_works(ctx, find(ctx, &in, 0, in.params, &got, &report));
    check_told(&in.wanted[0], &got, in.wanted[0].count);
    assert_true(report.chunks > 10 && report.divided > 0);
    kith_report peak = {.struct_size = sizeof peak};
    test_works(ctx, kith_ctx_report(ctx, &peak));
    assert_true(peak.peak_bytes <= limit);
    assert_true((uint64_t)got.count * 20 > limit);
    told_free(&got);
    kith_ctx_free(ctx);
    assert_int_equal(atomic_load(&f.blocks), 0);
    input_free(&in);
    (void)printf("a limit of 2 MiB holds while pairs of 8 MB go by\n");
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

/* ---- Files ------------------------------------------------------------------------------------
 */

static void files_hold_what_was_told(void **state)
{
    test_folder *folder = *state;
    input in = input_make(KITH_EUCLIDEAN, SHAPE_GAUSS, ROWS, 4);
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    const kith_matrix *points = &in.points.matrix;
    const told *wanted = &in.wanted[0];
    kith_pairs_params params = in.params;
    params.take = NULL;
    params.chunk_pairs = 100;
    params.path = test_path(folder, "p.npy");
    test_works(ctx, kith_pairs_find(ctx, points, NULL, &params, NULL));
    unsigned char head[128];
    struct {
        uint32_t ids[2];
        double distance;
    } one;
    FILE *file = fopen(test_path(folder, "p.npy"), "rb");
    assert_non_null(file);
    assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
    for (int64_t p = 0; p < wanted->count; p++) {
        assert_int_equal(fread(&one, 1, sizeof one, file), sizeof one);
        assert_int_equal(one.ids[0], wanted->i[p]);
        assert_int_equal(one.ids[1], wanted->j[p]);
        assert_memory_equal(&one.distance, &wanted->distances[p], sizeof one.distance);
    }
    assert_int_equal(fread(head, 1, 1, file), 0);
    (void)fclose(file);
    told got = told_make(wanted->count); /* it is written, and told */
    params.take = take;
    params.take_arg = &got;
    got.stop_after = 2;
    kith_pairs_report report = {.struct_size = sizeof report};
    params.path = test_path(folder, "p.csv");
    test_works(ctx, kith_pairs_find(ctx, points, NULL, &params, &report));
    assert_true(report.complete == 0 && report.chunks == 2);
    file = fopen(test_path(folder, "p.csv"), "r");
    char line[128];
    assert_non_null(file);
    for (int64_t p = -1; p < got.count; p++) {
        assert_non_null(fgets(line, sizeof line, file));
        unsigned i = 0;
        unsigned j = 0;
        double distance = 0.0;
        if (p < 0) {
            assert_string_equal(line, "i,j,distance\n");
        } else {
            assert_int_equal(sscanf(line, "%u,%u,%lf", &i, &j, &distance), 3);
            assert_true(i == wanted->i[p] && j == wanted->j[p] && distance == wanted->distances[p]);
        }
    }
    assert_null(fgets(line, sizeof line, file));
    (void)fclose(file);
    params.take = NULL;
    params.path = test_path(folder, "p.xyz");
    test_fails(ctx, kith_pairs_find(ctx, points, NULL, &params, NULL), KITH_E_ARGUMENT,
               ".npy, .kith, .csv or .tsv");
    params.path = "";
    test_fails(ctx, kith_pairs_find(ctx, points, NULL, &params, NULL), KITH_E_ARGUMENT, "path");
    told_free(&got);
    kith_ctx_free(ctx);
    input_free(&in);
    (void)printf("an .npy and a .csv hold the pairs to the last bit, and as far as a job came\n");
}

/* ---- Killed, and gone on with ---------------------------------------------------------------- */

enum { CHUNK_ROWS = 9 };

/* Told of the chunks; kills its process after so many that were not told before. */
typedef struct killer {
    int64_t count;
    int64_t told; /* chunks */
    int64_t dies_after;
} killer;

static int take_or_die(void *arg, const kith_pairs *pairs, const double *distances)
{
    killer *k = arg;
    (void)distances;
    k->count += pairs->count;
    k->told += 1;
    if (k->told == k->dies_after) {
        (void)raise(SIGKILL);
    }
    return 0;
}

static kith_pairs_params killed_params(const input *in, const char *path)
{
    kith_pairs_params params = in->params;
    params.take = NULL;
    params.path = path;
    params.chunk_rows = CHUNK_ROWS;
    params.chunk_pairs = 70;
    return params;
}

/* In a process of its own, which dies after so many chunks, unless it has fewer. */
static bool dies_after(const input *in, kith_pairs_params params, int64_t chunks)
{
    const pid_t child = fork();
    if (child == 0) {
        killer k = {.dies_after = chunks};
        kith_ctx *ctx = test_ctx(kin_cpu_best(), 1);
        params.take = take_or_die;
        params.take_arg = &k;
        const kith_status status =
            kith_pairs_find(ctx, &in->points.matrix, NULL, &params, NULL);
        _exit(status == KITH_OK ? 0 : 1);
    }
    int how = 0;
    assert_true(child > 0 && waitpid(child, &how, 0) == child);
    assert_true(WIFSIGNALED(how) ? WTERMSIG(how) == SIGKILL : WEXITSTATUS(how) == 0);
    return WIFSIGNALED(how);
}

static void same_bytes(const char *a, const char *b)
{
    size_t bytes[2];
    unsigned char *one = test_read(a, &bytes[0]);
    unsigned char *other = test_read(b, &bytes[1]);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(one, other, bytes[0]);
    free(other);
    free(one);
}

static void go_on(kith_ctx *ctx, const input *in, const char *path, const char *whole)
{
    uint32_t labels[2][ROWS];
    uint8_t kept[2][ROWS];
    kith_pairs_params params = killed_params(in, path);
    kith_pairs_report report = {.struct_size = sizeof report};
    told got = told_make(in->wanted[0].count);
    params.take = take;
    params.take_arg = &got;
    params.labels = labels[0];
    params.kept = kept[0];
    params.keep = KITH_KEEP_CENTRAL;
    test_works(ctx, kith_pairs_find(ctx, &in->points.matrix, NULL, &params, &report));
    check_told(&in->wanted[0], &got, in->wanted[0].count);
    assert_true(report.complete == 1 && report.resumed > 0 && report.count == got.count);
    params.path = NULL;
    params.take = NULL;
    params.labels = labels[1];
    params.kept = kept[1];
    test_works(ctx, kith_pairs_find(ctx, &in->points.matrix, NULL, &params, NULL));
    assert_memory_equal(labels[0], labels[1], sizeof labels[0]);
    assert_memory_equal(kept[0], kept[1], sizeof kept[0]);
    same_bytes(path, whole);
    told_free(&got);
}

static void killed_jobs_go_on(void **state)
{
    test_folder *folder = *state;
    int killed = 0;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    for (int kind = 0; kind < 4; kind++) {
        const char *ending = kind % 2 == 0 ? "npy" : "kith";
        char name[64];
        input in = input_make(KITH_EUCLIDEAN, kind < 2 ? SHAPE_COPIES : SHAPE_GAUSS, ROWS, 4);
        int64_t groups[ROWS];
        kith_filter filter = kith_filter_default();
        for (int i = 0; i < ROWS; i++) {
            groups[i] = i % 3;
        }
        filter.groups = groups;
        filter.rule = KITH_RULE_OTHER;
        if (kind >= 2) {
            in.params.filter = &filter;
            told_free(&in.wanted[0]);
            in.wanted[0] = brute(&in.points.matrix, NULL, &in.params);
        }
        (void)snprintf(name, sizeof name, "whole.%s", ending);
        kith_pairs_params params = killed_params(&in, test_path(folder, name));
        params.chunk_rows = 0; /* cut in another way */
        test_works(ctx, kith_pairs_find(ctx, &in.points.matrix, NULL, &params, NULL));
        bool dies = true;
        for (int64_t chunks = 1; dies; chunks += test_is_slow_build() ? 4 : 1) {
            (void)snprintf(name, sizeof name, "killed.%s", ending);
            const char *path = test_path(folder, name);
            (void)snprintf(name, sizeof name, "whole.%s", ending);
            dies = dies_after(&in, killed_params(&in, path), chunks);
            if (dies) {
                assert_int_not_equal(access(path, F_OK), 0);
                (void)dies_after(&in, killed_params(&in, path), chunks + 2);
                if (access(path, F_OK) != 0) {
                    go_on(ctx, &in, path, test_path(folder, name));
                }
                killed += 1;
            }
            same_bytes(path, test_path(folder, name));
            assert_int_equal(unlink(path), 0);
        }
        input_free(&in);
    }
    kith_ctx_free(ctx);
    assert_true(killed > 20);
    (void)printf("%d jobs that were killed after each of their chunks, and again, end in the bytes "
                 "of one that was not, with its labels and its rows that are kept\n",
                 killed);
}

static void what_others_left_is_refused(void **state)
{
    test_folder *folder = *state;
    input in = input_make(KITH_EUCLIDEAN, SHAPE_GAUSS, ROWS, 4);
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    const kith_matrix *points = &in.points.matrix;
    char path[400];
    char partial[420];
    char whole[400];
    (void)snprintf(path, sizeof path, "%s", test_path(folder, "other.npy"));
    (void)snprintf(partial, sizeof partial, "%s.partial", path);
    (void)snprintf(whole, sizeof whole, "%s", test_path(folder, "uncut.npy"));
    kith_pairs_params params = killed_params(&in, whole);
    test_works(ctx, kith_pairs_find(ctx, points, NULL, &params, NULL));
    assert_true(dies_after(&in, killed_params(&in, path), 4));
    params = killed_params(&in, path);
    params.radius = nextafter(params.radius, INFINITY);
    test_fails(ctx, kith_pairs_find(ctx, points, NULL, &params, NULL), KITH_E_ARGUMENT,
               "--restart");
    params = killed_params(&in, path);
    params.limit = 1000000;
    test_fails(ctx, kith_pairs_find(ctx, points, NULL, &params, NULL), KITH_E_ARGUMENT, "limit");
    params = killed_params(&in, path);
    params.job = "another";
    test_fails(ctx, kith_pairs_find(ctx, points, NULL, &params, NULL), KITH_E_ARGUMENT, "another");
    /* torn and changed bytes are made again */
    assert_int_equal(truncate(partial, 128 + 16 * 20 + 5), 0);
    params = killed_params(&in, path);
    kith_pairs_report report = {.struct_size = sizeof report};
    test_works(ctx, kith_pairs_find(ctx, points, NULL, &params, &report));
    assert_true(report.resumed <= 20 && report.count == in.wanted[0].count);
    same_bytes(path, whole);
    assert_int_equal(unlink(path), 0);
    assert_true(dies_after(&in, killed_params(&in, path), 4));
    FILE *file = fopen(partial, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 128 + 16, SEEK_SET), 0);
    assert_int_equal(fputc(0xa7, file), 0xa7);
    assert_int_equal(fclose(file), 0);
    report = (kith_pairs_report){.struct_size = sizeof report};
    test_works(ctx, kith_pairs_find(ctx, points, NULL, &params, &report));
    assert_int_equal(report.resumed, 0);
    same_bytes(path, whole);
    assert_int_equal(unlink(path), 0);
    assert_true(dies_after(&in, killed_params(&in, path), 4));
    params.restart = 1;
    report = (kith_pairs_report){.struct_size = sizeof report};
    test_works(ctx, kith_pairs_find(ctx, points, NULL, &params, &report));
    assert_int_equal(report.resumed, 0);
    same_bytes(path, whole);
    assert_int_not_equal(access(partial, F_OK), 0);
    kith_ctx_free(ctx);
    input_free(&in);
    (void)printf("another job's leftovers are refused, torn and changed ones made again\n");
}

static void kith_files_are_read(void **state)
{
    test_folder *folder = *state;
    input in = input_make(KITH_EUCLIDEAN, SHAPE_COPIES, ROWS, 4);
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    for (int two = 0; two < 2; two++) {
        char path[400];
        (void)snprintf(path, sizeof path, "%s", test_path(folder, two ? "two.kith" : "one.kith"));
        kith_pairs_params params = in.params;
        params.take = NULL;
        params.path = path;
        test_works(ctx, kith_pairs_find(ctx, &in.points.matrix, two ? &in.others.matrix : NULL,
                                        &params, NULL));
        told got = told_make(in.wanted[two].count);
        kith_pairs_report report = {.struct_size = sizeof report};
        test_works(ctx, kith_pairs_read(ctx, path, take, &got, &report));
        check_told(&in.wanted[two], &got, in.wanted[two].count);
        assert_true(report.count == got.count && report.complete == 1);
        report = (kith_pairs_report){.struct_size = sizeof report};
        test_works(ctx, kith_pairs_read(ctx, path, NULL, NULL, &report));
        assert_int_equal(report.count, got.count);
        told_free(&got);
        size_t bytes = 0;
        unsigned char *data = test_read(path, &bytes);
        for (size_t at = 0; at < bytes; at += 1 + bytes / 97) {
            FILE *file = fopen(path, "wb");
            assert_non_null(file);
            data[at] ^= 0x10;
            assert_int_equal(fwrite(data, 1, bytes, file), bytes);
            data[at] ^= 0x10;
            assert_int_equal(fclose(file), 0);
            assert_int_equal(kith_pairs_read(ctx, path, NULL, NULL, NULL), KITH_E_FORMAT);
        }
        free(data);
    }
    kith_ctx_free(ctx);
    input_free(&in);
    (void)printf("a .kith gives back its pairs, and every changed byte is found\n");
}

/* ---- Plans, mistakes --------------------------------------------------------------------------
 */

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

/* ---- A GPU ------------------------------------------------------------------------------------
 */

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
        cmocka_unit_test(allocations_that_fail_are_survived),
        cmocka_unit_test(filters_leave_pairs_out),
        cmocka_unit_test(rows_are_labelled_and_kept),
        cmocka_unit_test_setup_teardown(files_hold_what_was_told, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(killed_jobs_go_on, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(what_others_left_is_refused, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(kith_files_are_read, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test(plans_tell_how_many),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(a_device_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
