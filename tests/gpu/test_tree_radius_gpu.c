/* SPDX-License-Identifier: Apache-2.0
 * All within a radius by the tree on a GPU against the processor, byte for byte: offsets, ids and
 * both distances. Few columns and many, clusters, equal rows, ties exactly at the radius, radii of
 * 0, of infinity and one for each query, lists of one and of all rows, pieces and stripes of little
 * memory, rows that lie on the device, an index that is kept, pairs, and what auto takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exact/exact_search.h"
#include "kith/kith_cuda.h"
#include "kith/kith_index.h"
#include "support/support_caller.h"
#include "support/support_faulty.h"
#include "support/support_gpu.h"
#include "support/support_trees.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct both {
    kith_ctx *cpu;
    kith_ctx *gpu;
    test_caller caller;
    int cases;
    int wrong;
    int64_t found;
} both;

static both both_make(uint64_t gpu_memory)
{
    return (both){
        .cpu = test_cpu_ctx(), .gpu = test_gpu_ctx(2, gpu_memory), .caller = test_caller_open()};
}

static void both_free(both *b)
{
    test_caller_close(&b->caller);
    kith_ctx_free(b->cpu);
    kith_ctx_free(b->gpu);
}

static void both_end(both *b, const char *what)
{
    printf("%s: %d cases, %" PRId64 " neighbours, %d wrong\n", what, b->cases, b->found, b->wrong);
    (void)fflush(stdout);
    both_free(b);
    assert_int_equal(b->wrong, 0);
}

static bool same_bytes(const void *a, const void *b, int64_t count, size_t bytes)
{
    return count == 0 ||
           ((a == NULL) == (b == NULL) && (a == NULL || memcmp(a, b, (size_t)count * bytes) == 0));
}

static void check(both *b, const char *name, const kith_ranges *wanted, const kith_ranges *got)
{
    const kith_lists *w = kith_ranges_lists(wanted);
    const kith_lists *g = kith_ranges_lists(got);
    const int64_t total = w->offsets[w->rows];
    b->cases += 1;
    b->found += total;
    if (w->rows != g->rows || !same_bytes(w->offsets, g->offsets, w->rows + 1, sizeof(int64_t)) ||
        !same_bytes(w->ids, g->ids, total, sizeof(uint32_t)) ||
        !same_bytes(w->distances, g->distances, total, sizeof(float)) ||
        !same_bytes(w->distances64, g->distances64, total, sizeof(double))) {
        printf("  DIFFERS: %s, %" PRId64 " neighbours, wanted %" PRId64 "\n", name,
               g->offsets[g->rows], total);
        b->wrong += 1;
    }
}

static void blame(both *b, const char *name)
{
    printf("  FAILS: %s: %s\n", name, kith_ctx_detail(b->gpu));
    b->wrong += 1;
}

static void *fetched(const both *b, const void *there, int64_t count, size_t bytes)
{
    const uint64_t size = (uint64_t)count * bytes;
    void *here = there != NULL ? malloc((size_t)size + 1) : NULL;
    if (there != NULL && size > 0) {
        assert_non_null(here);
        assert_int_equal(b->caller.ops->copy_out(b->caller.stream, here, there, size), 0);
        assert_int_equal(b->caller.ops->wait(b->caller.stream), 0);
    }
    return here;
}

/* Lists that stay on the device. */
static void check_there(both *b, const char *name, const kith_ranges *wanted,
                        const kith_ranges *got)
{
    const kith_lists *there = kith_ranges_lists(got);
    const int64_t total = kith_ranges_lists(wanted)->offsets[kith_ranges_lists(wanted)->rows];
    kith_ranges here = {.lists = *there};
    here.lists.offsets = fetched(b, there->offsets, there->rows + 1, sizeof(int64_t));
    here.lists.ids = fetched(b, there->ids, total, sizeof(uint32_t));
    here.lists.distances = fetched(b, there->distances, total, sizeof(float));
    here.lists.distances64 = fetched(b, there->distances64, total, sizeof(double));
    check(b, name, wanted, &here);
    free(here.lists.distances64);
    free(here.lists.distances);
    free(here.lists.ids);
    free(here.lists.offsets);
}

/* On the device, of a tree for the call or of one that is kept. */
static void compare_there(both *b, const char *name, const kith_matrix *points,
                          const kith_matrix *queries, const kith_radius_params *params,
                          const kith_ranges *wanted)
{
    const kith_matrix own = test_caller_copy(&b->caller, points);
    const kith_matrix asked =
        queries != NULL ? test_caller_copy(&b->caller, queries) : (kith_matrix){0};
    const kith_matrix *asks = queries != NULL ? &asked : NULL;
    kith_radius_params stay = *params;
    kith_index_params made = kith_index_params_default();
    kith_index *index = NULL;
    kith_ranges *got = NULL;
    made.metric = params->metric;
    made.method = KITH_METHOD_TREE;
    if (kith_cuda_radius(b->gpu, &own, asks, params, &got, b->caller.handle) != KITH_OK) {
        blame(b, name);
    } else {
        check(b, name, wanted, got);
    }
    kith_ranges_free(got);
    got = NULL;
    stay.flags |= KITH_RANGES_ON_DEVICE;
    for (int i = 0; i < 2; i++) {
        stay.method = i == 0 ? KITH_METHOD_TREE : KITH_METHOD_EXACT;
        if (kith_cuda_radius(b->gpu, &own, asks, &stay, &got, b->caller.handle) != KITH_OK) {
            blame(b, name);
        } else {
            check_there(b, name, wanted, got);
            assert_int_equal(kith_ranges_save(b->gpu, "unwritten.npz", got, NULL), KITH_E_ARGUMENT);
        }
        kith_ranges_free(got);
        got = NULL;
    }
    stay.method = KITH_METHOD_AUTO;
    if (kith_cuda_index_create(b->gpu, &own, &made, &index, b->caller.handle) != KITH_OK ||
        kith_cuda_index_radius(b->gpu, index, asks, params, &got, b->caller.handle) != KITH_OK) {
        blame(b, name);
    } else {
        check(b, name, wanted, got);
        kith_ranges_free(got);
        got = NULL;
        assert_int_equal(kith_cuda_index_radius(b->gpu, index, asks, &stay, &got, b->caller.handle),
                         KITH_OK);
        check_there(b, name, wanted, got);
    }
    kith_ranges_free(got);
    kith_index_free(index);
    test_caller_release(&b->caller, asked.data);
    test_caller_release(&b->caller, own.data);
}

static void compare(both *b, const char *name, const kith_matrix *points,
                    const kith_matrix *queries, kith_radius_params params)
{
    kith_ranges *wanted = NULL;
    kith_ranges *got = NULL;
    kith_report report = {.struct_size = sizeof report};
    params.method = KITH_METHOD_EXACT;
    assert_int_equal(kith_radius(b->cpu, points, queries, &params, &wanted), KITH_OK);
    params.method = KITH_METHOD_TREE;
    if (kith_radius(b->gpu, points, queries, &params, &got) != KITH_OK) {
        blame(b, name);
    } else {
        check(b, name, wanted, got);
        assert_int_equal(kith_ctx_report(b->gpu, &report), KITH_OK);
        assert_string_equal(report.screen, "tree");
        assert_int_equal(report.exact, 1);
        assert_int_equal(strncmp(report.backend, "cuda", 4), 0);
        compare_there(b, name, points, queries, &params, wanted);
    }
    kith_ranges_free(got);
    kith_ranges_free(wanted);
}

static kith_radius_params asking(kith_metric metric, double radius)
{
    kith_radius_params params = kith_radius_params_default();
    params.metric = metric;
    params.radius = radius;
    return params;
}

/* ---- Data ------------------------------------------------------------------------------------ */

/* About so many of the points are nearer than it to one of them. */
static double radius_of(both *b, const kith_matrix *points, kith_metric metric, int64_t wanted)
{
    kith_search_params params = kith_search_params_default();
    kith_matrix one = *points;
    double *distances = malloc((size_t)wanted * sizeof *distances);
    uint32_t *ids = malloc((size_t)wanted * sizeof *ids);
    assert_true(distances != NULL && ids != NULL);
    one.rows = 1;
    params.metric = metric;
    params.k = wanted;
    const kith_neighbors out = {.ids = ids, .distances64 = distances, .rows = 1, .k = wanted};
    assert_int_equal(kith_search(b->cpu, points, &one, &params, &out, NULL), KITH_OK);
    const double radius = distances[wanted - 1];
    free(distances);
    free(ids);
    return radius;
}

static void shapes(void **state)
{
    (void)state;
    static const int32_t widths[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 64};
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_U8, KITH_F16, KITH_I8, KITH_BF16};
    static const test_shape data[] = {SHAPE_GAUSS,  SHAPE_CLUSTERS, SHAPE_COPIES, SHAPE_TIGHT,
                                      SHAPE_OFFSET, SHAPE_OUTLIER,  SHAPE_LINE};
    const bool few = test_is_slow_build();
    const int64_t rows = few ? 400 : 6000;
    both b = both_make(0);
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        for (size_t d = few ? w % 3 : 0; d < 6; d += few ? 3 : 1) {
            const test_shape shape = data[(w + d) % 7];
            const kith_metric metric = test_tree_metrics[(w + d / 2) % TEST_TREE_METRICS];
            test_rows points = test_trees_rows(dtypes[d], rows, widths[w], shape, 21 + w);
            test_rows queries =
                test_trees_rows(dtypes[(d + w % 2) % 6], 300, widths[w], shape, 121 + w);
            kith_radius_params params =
                asking(metric, radius_of(&b, &points.matrix, metric, d % 2 == 0 ? 12 : 90));
            compare(&b, test_shape_name(shape), &points.matrix, NULL, params);
            params.flags = KITH_INCLUDE_SELF;
            params.count_only = d == 3;
            compare(&b, test_shape_name(shape), &points.matrix, NULL, params);
            params.flags = 0;
            compare(&b, test_shape_name(shape), &points.matrix, &queries.matrix, params);
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
    both_end(&b, "1 to 64 columns, six types");
}

/* Whole numbers in few places: equal rows, and distances that are the radius. */
static void ties(void **state)
{
    (void)state;
    both b = both_make(0);
    test_rows points = test_rows_make(KITH_F32, test_is_slow_build() ? 700 : 20000, 3, 8);
    uint64_t seed = 31;
    for (int64_t i = 0; i < points.matrix.rows; i++) {
        for (int32_t c = 0; c < 3; c++) {
            test_rows_set(&points, i, c, (double)(int)(12.0 * test_uniform(&seed)));
        }
    }
    for (int m = 0; m < TEST_TREE_METRICS; m++) {
        for (int r = 0; r <= 3; r++) {
            const kith_metric metric = test_tree_metrics[m];
            const double radius = metric == KITH_EUCLIDEAN ? sqrt((double)r) : (double)r;
            compare(&b, "12^3 places", &points.matrix, NULL, asking(metric, radius));
            compare(&b, "just below", &points.matrix, NULL,
                    asking(metric, fmax(0.0, nextafter(radius, 0.0))));
        }
    }
    test_rows_free(&points);
    both_end(&b, "equal rows, and distances that tie with the radius");
}

static void radii(void **state)
{
    (void)state;
    static const double odd[] = {0.0, 0x1p-1074, 1e-30, 0.3, 1e18, 1e200, INFINITY, 2.0};
    static const test_shape data[] = {SHAPE_GAUSS, SHAPE_COPIES, SHAPE_EQUAL, SHAPE_BALL,
                                      SHAPE_TINY};
    const int64_t rows = test_is_slow_build() ? 130 : 3500;
    both b = both_make(0);
    double *each = malloc((size_t)rows * sizeof *each);
    assert_non_null(each);
    for (int64_t i = 0; i < rows; i++) {
        each[i] =
            odd[i % 8] < 1e17 || i % 40 == 4 || i % 40 == 13 || i % 40 == 30 ? odd[i % 8] : 0.1;
    }
    for (size_t s = 0; s < sizeof data / sizeof *data; s++) {
        for (int m = 0; m < TEST_TREE_METRICS; m++) {
            test_rows points =
                test_trees_rows(m % 2 == 0 ? KITH_F64 : KITH_F32, rows, 3, data[s], 5 + s);
            kith_radius_params params = asking(test_tree_metrics[m], 0.0);
            compare(&b, "radius 0", &points.matrix, NULL, params);
            params.radius = 1e200;
            params.count_only = m % 2 == 1;
            compare(&b, "everybody", &points.matrix, NULL, params);
            params.radius = INFINITY;
            compare(&b, "everybody", &points.matrix, &points.matrix, params);
            params.count_only = 0;
            params.radii = each;
            compare(&b, "a radius each", &points.matrix, NULL, params);
            compare(&b, "a radius each", &points.matrix, &points.matrix, params);
            test_rows_free(&points);
        }
    }
    free(each);
    both_end(&b, "radii of 0 and of infinity, and one for each query");
}

/* Lists beyond what a block sorts in its shared memory, one beside those of one neighbour. */
static void long_lists(void **state)
{
    (void)state;
    both b = both_make(0);
    test_rows points = test_trees_rows(KITH_F32, 9000, 3, SHAPE_GAUSS, 77);
    test_rows queries = test_trees_rows(KITH_F32, 41, 3, SHAPE_GAUSS, 78);
    double each[41];
    for (int i = 0; i < 41; i++) {
        each[i] = 0.05 * (double)(i % 41) * (i % 3 == 0 ? 2.0 : 1.0);
    }
    kith_radius_params params = asking(KITH_SQEUCLIDEAN, 0.0);
    params.radii = each;
    compare(&b, "all lengths", &points.matrix, &queries.matrix, params);
    params.radii = NULL;
    params.radius = 1e9;
    compare(&b, "all of them", &points.matrix, &queries.matrix, params);
    test_rows_free(&queries);
    test_rows_free(&points);
    both_end(&b, "lists of 0 to 9,000");
}

/* ---- Little memory --------------------------------------------------------------------------- */

static void little_memory(void **state)
{
    (void)state;
    static const uint64_t budgets[] = {24 << 20, 12 << 20, 8 << 20, 6 << 20, 5 << 20,
                                       4 << 20,  3 << 20,  2 << 20, 1 << 20, 1 << 18};
    int worked = 0;
    int wrong = 0;
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        both b = both_make(budgets[i]);
        test_rows points =
            test_trees_rows(KITH_F32, 20000, 3, i % 2 == 0 ? SHAPE_GAUSS : SHAPE_COPIES, 3);
        test_rows queries = test_trees_rows(KITH_F32, 12000, 3, SHAPE_GAUSS, 4);
        kith_radius_params params =
            asking(KITH_EUCLIDEAN, radius_of(&b, &points.matrix, KITH_EUCLIDEAN, 40));
        for (int graph = 0; graph < 2; graph++) {
            const kith_matrix *asked = graph == 0 ? &queries.matrix : NULL;
            kith_ranges *wanted = NULL;
            kith_ranges *got = NULL;
            params.method = KITH_METHOD_EXACT;
            assert_int_equal(kith_radius(b.cpu, &points.matrix, asked, &params, &wanted), KITH_OK);
            params.method = KITH_METHOD_TREE;
            const kith_status status = kith_radius(b.gpu, &points.matrix, asked, &params, &got);
            if (status == KITH_OK) {
                kith_report report = {.struct_size = sizeof report};
                check(&b, "little memory", wanted, got);
                assert_int_equal(kith_ctx_report(b.gpu, &report), KITH_OK);
                assert_true(report.gpu_peak_bytes <= budgets[i]);
                worked += 1;
            } else {
                assert_int_equal(status, KITH_E_DEVICE_MEMORY);
                assert_true(budgets[i] < (6 << 20));
                assert_null(got);
            }
            kith_ranges_free(got);
            kith_ranges_free(wanted);
        }
        wrong += b.wrong;
        both_free(&b);
        test_rows_free(&queries);
        test_rows_free(&points);
    }
    assert_int_equal(wrong, 0);
    assert_true(worked >= 8);
    printf("budgets of 24 MB to 256 KB: the same bytes %d of 20 times, or E_DEVICE_MEMORY\n",
           worked);
}

/* ---- Failures -------------------------------------------------------------------------------- */

/* For n = 2, 3, ... the n-th host allocation fails until the call succeeds; nothing is held. */
static void allocations_that_fail(void **state)
{
    (void)state;
    kith_ctx *cpu = test_cpu_ctx();
    test_rows points = test_trees_rows(KITH_F32, 700, 3, SHAPE_COPIES, 3);
    kith_radius_params params = asking(KITH_EUCLIDEAN, 0.3);
    kith_ranges *wanted = NULL;
    assert_int_equal(kith_radius(cpu, &points.matrix, NULL, &params, &wanted), KITH_OK);
    params.method = KITH_METHOD_TREE;
    kith_status status = KITH_E_MEMORY;
    long n = 1;
    while (status != KITH_OK) {
        n += 1;
        test_faulty f = {.fails_at = n};
        both b = {.gpu = test_faulty_ctx("cuda", &f, 0)};
        kith_ranges *got = NULL;
        status = kith_radius(b.gpu, &points.matrix, NULL, &params, &got);
        if (status == KITH_OK) {
            check(&b, "with all memory", wanted, got);
        } else {
            assert_int_equal(status, KITH_E_MEMORY);
            assert_null(got);
        }
        kith_ranges_free(got);
        kith_ctx_free(b.gpu);
        assert_int_equal(b.wrong, 0);
        assert_int_equal(atomic_load(&f.blocks), 0);
        assert_true(n < 1000);
    }
    kith_ranges_free(wanted);
    test_rows_free(&points);
    kith_ctx_free(cpu);
    printf("%ld host allocations, each failed once\n", n - 2);
}

static int stop(void *arg, const char *phase, double done, double total)
{
    int *left = arg;
    (void)phase;
    assert_true(done <= total);
    *left -= 1;
    return *left < 0 ? 1 : 0;
}

/* Stopped at the first, the second, ... question, also where lists would stay; then well again. */
static void cancelled(void **state)
{
    (void)state;
    test_caller caller = test_caller_open();
    test_rows points =
        test_trees_rows(KITH_F32, test_is_slow_build() ? 70000 : 400000, 3, SHAPE_GAUSS, 6);
    const kith_matrix there = test_caller_copy(&caller, &points.matrix);
    kith_radius_params params = asking(KITH_EUCLIDEAN, 0.01);
    int stopped = 0;
    for (int i = 0; i < 12; i++) {
        int left = i / 2;
        kith_ctx_params made = kith_ctx_params_default();
        kith_ctx *ctx = NULL;
        kith_ranges *got = NULL;
        made.device = "cuda";
        made.progress = stop;
        made.progress_arg = &left;
        params.method = KITH_METHOD_TREE;
        params.flags = i % 2 == 0 ? KITH_RANGES_ON_DEVICE : 0;
        assert_int_equal(kith_ctx_create(&made, &ctx), KITH_OK);
        kith_status status = kith_cuda_radius(ctx, &there, NULL, &params, &got, caller.handle);
        assert_true(status == KITH_OK || (status == KITH_E_CANCELLED && got == NULL));
        stopped += status == KITH_E_CANCELLED ? 1 : 0;
        kith_ranges_free(got);
        left = 1 << 30;
        assert_int_equal(kith_cuda_radius(ctx, &there, NULL, &params, &got, caller.handle),
                         KITH_OK);
        kith_ranges_free(got);
        kith_ctx_free(ctx);
    }
    test_caller_release(&caller, there.data);
    test_rows_free(&points);
    test_caller_close(&caller);
    assert_true(stopped >= 2);
    printf("told to stop 12 times, stopped %d times; the context computes on\n", stopped);
}

/* ---- What asks for it ------------------------------------------------------------------------ */

/* Of many rows in few columns auto takes the tree, of few rows or in many columns all pairs. */
static void what_auto_takes(void **state)
{
    (void)state;
    static const struct {
        int64_t rows;
        int32_t cols;
        double radius;
        const char *screen;
    } jobs[] = {{300000, 3, 1e-4, "tree"}, {3000, 3, 0.1, NULL}, {3000, 40, 0.1, NULL}};
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    for (size_t i = test_is_slow_build() ? 1 : 0; i < 3; i++) {
        test_rows points = test_trees_rows(KITH_F32, jobs[i].rows, jobs[i].cols, SHAPE_GAUSS, 9);
        kith_radius_params params = asking(KITH_EUCLIDEAN, jobs[i].radius);
        kith_report report = {.struct_size = sizeof report};
        kith_ranges *got = NULL;
        assert_int_equal(kith_radius(gpu, &points.matrix, NULL, &params, &got), KITH_OK);
        assert_int_equal(kith_ctx_report(gpu, &report), KITH_OK);
        assert_int_equal(strcmp(report.screen, "tree") == 0, jobs[i].screen != NULL);
        printf("%" PRId64 " rows in %d columns: %s\n", jobs[i].rows, (int)jobs[i].cols,
               report.screen);
        kith_ranges_free(got);
        test_rows_free(&points);
    }
    kith_ctx_free(gpu);
}

/* What cannot be done by a tree is told, and what was bad is named as on the processor. */
static void refusals(void **state)
{
    (void)state;
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    test_rows wide = test_trees_rows(KITH_F32, 300, 70, SHAPE_GAUSS, 1);
    test_rows bad = test_trees_rows(KITH_F32, 300, 3, SHAPE_GAUSS, 1);
    test_rows_set(&bad, 17, 2, (double)NAN);
    kith_radius_params params = asking(KITH_EUCLIDEAN, 1.0);
    kith_ranges *got = NULL;
    params.method = KITH_METHOD_TREE;
    assert_int_equal(kith_radius(gpu, &wide.matrix, NULL, &params, &got), KITH_E_UNSUPPORTED);
    assert_non_null(strstr(kith_ctx_detail(gpu), "64 columns"));
    assert_null(got);
    assert_int_equal(kith_radius(cpu, &bad.matrix, NULL, &params, &got), KITH_E_DATA);
    assert_int_equal(kith_radius(gpu, &bad.matrix, NULL, &params, &got), KITH_E_DATA);
    assert_string_equal(kith_ctx_detail(gpu), kith_ctx_detail(cpu));
    params.flags = KITH_RANGES_ON_DEVICE;
    assert_int_equal(kith_radius(gpu, &wide.matrix, NULL, &params, &got), KITH_E_ARGUMENT);
    params.flags = 0;
    params.metric = KITH_COSINE;
    assert_int_equal(kith_radius(gpu, &wide.matrix, NULL, &params, &got), KITH_E_ARGUMENT);
    test_rows_free(&bad);
    test_rows_free(&wide);
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
    printf("70 columns, NaN, cosine and a flag of device memory are told\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(ties),
        cmocka_unit_test(radii),
        cmocka_unit_test(long_lists),
        cmocka_unit_test(little_memory),
        cmocka_unit_test(what_auto_takes),
        cmocka_unit_test(allocations_that_fail),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(refusals),
    };
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
