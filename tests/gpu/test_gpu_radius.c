/* SPDX-License-Identifier: Apache-2.0
 * Radius search on a GPU against the processor, byte for byte: offsets, ids, float32 and float64
 * distances; the same of rows that lie there. Metrics and types, ties exactly at the radius, lists
 * of all lengths up to everything, equal and degenerate rows, little device memory, cancellation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kith/kith_cuda.h"
#include "support/support_caller.h"
#include "support/support_calls.h"
#include "support/support_gpu.h"
#include "support/support_shapes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const kith_metric metrics[] = {
    KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_COSINE,       KITH_CORRELATION, KITH_SQEUCLIDEAN,
    KITH_MANHATTAN, KITH_CHEBYSHEV,     KITH_CHI2,         KITH_HAMMING,     KITH_JACCARD,
    KITH_KL,        TEST_MINKOWSKI_3,   TEST_MINKOWSKI_2_5};
static const kith_dtype dtypes[] = {KITH_F32, KITH_U8, KITH_F64, KITH_F16, KITH_I8, KITH_BF16};
enum { SCREENED = 5, METRICS = 13, DTYPES = 6, MOST_PRINTED = 12 };

typedef struct pair {
    kith_ctx *cpu;
    kith_ctx *gpu;
    test_caller caller;
    int64_t found;
    int cases;
    int lacking; /* of them: too little device memory, which was allowed */
    int wrong;
    kith_report report; /* of the last call by the method of its job */
} pair;

static pair pair_make(uint64_t gpu_memory)
{
    return (pair){
        .cpu = test_cpu_ctx(), .gpu = test_gpu_ctx(0, gpu_memory), .caller = test_caller_open()};
}

static void pair_end(pair *p, const char *what)
{
    test_caller_close(&p->caller);
    kith_ctx_free(p->cpu);
    kith_ctx_free(p->gpu);
    printf("%s: %d cases, %d without memory, %" PRId64 " neighbours, %d wrong\n", what, p->cases,
           p->lacking, p->found, p->wrong);
    (void)fflush(stdout);
    assert_int_equal(p->wrong, 0);
}

typedef struct job {
    const char *name;
    const kith_matrix *points;
    const kith_matrix *queries; /* NULL: a graph */
    kith_radius_params params;
    bool may_lack;
} job;

static job job_of(const char *name, const kith_matrix *points, const kith_matrix *queries,
                  kith_metric metric, double radius)
{
    job j = {name, points, queries, kith_radius_params_default(), false};
    j.params.metric = metric;
    j.params.radius = radius;
    return j;
}

/* ---- Comparison ----------------------------------------------------------------------------- */

static void blame(pair *p, const job *j, const char *what)
{
    p->wrong += 1;
    if (p->wrong > MOST_PRINTED) {
        return;
    }
    printf("  DIFFERS: %s, %s, %s %" PRId64 " x %" PRId32 ", %s %" PRId64 " queries %s, radius "
           "%.17g%s, flags %u, count_only %u: %s\n",
           j->name, kith_metric_name(j->params.metric), kith_dtype_name(j->points->dtype),
           j->points->rows, j->points->cols, j->queries == NULL ? "graph," : "search,",
           j->queries == NULL ? j->points->rows : j->queries->rows,
           j->queries == NULL ? "" : kith_dtype_name(j->queries->dtype), j->params.radius,
           j->params.radii == NULL ? "" : " (radii)", (unsigned)j->params.flags,
           (unsigned)j->params.count_only, what);
    (void)fflush(stdout);
}

static void compare_lists(pair *p, const job *j, const kith_ranges *wanted, const kith_ranges *got)
{
    char what[240];
    const int64_t *offsets = kith_ranges_lists(wanted)->offsets;
    for (int64_t row = 0; row < kith_ranges_lists(wanted)->rows; row++) {
        for (int64_t i = offsets[row]; i < offsets[row + 1]; i++) {
            const uint32_t id = kith_ranges_lists(got)->ids[i];
            const double distance = kith_ranges_lists(got)->distances64[i];
            if (id != kith_ranges_lists(wanted)->ids[i] ||
                memcmp(&distance, &kith_ranges_lists(wanted)->distances64[i], sizeof distance) !=
                    0 ||
                memcmp(&kith_ranges_lists(got)->distances[i],
                       &kith_ranges_lists(wanted)->distances[i], sizeof(float)) != 0) {
                (void)snprintf(what, sizeof what,
                               "row %" PRId64 " place %" PRId64 ": got %" PRIu32
                               " at %.17g (%a), wanted %" PRIu32 " at %.17g (%a)",
                               row, i - offsets[row], id, distance,
                               (double)kith_ranges_lists(got)->distances[i],
                               kith_ranges_lists(wanted)->ids[i],
                               kith_ranges_lists(wanted)->distances64[i],
                               (double)kith_ranges_lists(wanted)->distances[i]);
                blame(p, j, what);
                return;
            }
        }
    }
}

static void compare_ranges(pair *p, const job *j, const kith_ranges *wanted, const kith_ranges *got)
{
    char what[160];
    const int64_t rows = kith_ranges_lists(wanted)->rows;
    const int64_t *a = kith_ranges_lists(wanted)->offsets;
    const int64_t *b = kith_ranges_lists(got)->offsets;
    p->found += a[rows];
    if (rows != kith_ranges_lists(got)->rows) {
        blame(p, j, "another number of rows");
        return;
    }
    for (int64_t row = 0; row < rows; row++) {
        if (a[row + 1] - a[row] != b[row + 1] - b[row]) {
            (void)snprintf(what, sizeof what,
                           "row %" PRId64 " has %" PRId64 ", wanted %" PRId64 " (all: %" PRId64
                           ", wanted %" PRId64 ")",
                           row, b[row + 1] - b[row], a[row + 1] - a[row], b[rows], a[rows]);
            blame(p, j, what);
            return;
        }
    }
    if (j->params.count_only != 0) {
        if (kith_ranges_lists(got)->ids != NULL || kith_ranges_lists(got)->distances != NULL) {
            blame(p, j, "ids were not asked for");
        }
        return;
    }
    compare_lists(p, j, wanted, got);
}

/* Points and queries in device memory; corpus NULL: these points are asked. */
static void compare_there(pair *p, const job *j, const kith_index *corpus,
                          const kith_ranges *wanted)
{
    kith_ranges *got = NULL;
    const kith_matrix points = test_caller_copy(&p->caller, j->points);
    const kith_matrix queries =
        j->queries != NULL ? test_caller_copy(&p->caller, j->queries) : (kith_matrix){0};
    const kith_matrix *asked = j->queries != NULL ? &queries : NULL;
    const kith_status status =
        corpus != NULL
            ? kith_cuda_index_radius(p->gpu, corpus, asked, &j->params, &got, p->caller.handle)
            : kith_cuda_radius(p->gpu, &points, asked, &j->params, &got, p->caller.handle);
    if (status == KITH_E_DEVICE_MEMORY && j->may_lack) {
        p->lacking += 1;
    } else if (status != KITH_OK) {
        blame(p, j, kith_ctx_detail(p->gpu));
    } else {
        compare_ranges(p, j, wanted, got);
    }
    kith_ranges_free(got);
    test_caller_release(&p->caller, queries.data);
    test_caller_release(&p->caller, points.data);
}

/* A corpus that stays on the GPU gives the same, of queries that lie there, too. */
static void compare_prepared(pair *p, const job *j, const kith_ranges *wanted)
{
    kith_index *corpus = NULL;
    kith_ranges *got = NULL;
    kith_report report = {.struct_size = sizeof report};
    if (test_index_create(p->gpu, j->points, j->params.metric, &corpus) != KITH_OK ||
        kith_index_radius(p->gpu, corpus, j->queries, &j->params, &got) != KITH_OK) {
        blame(p, j, kith_ctx_detail(p->gpu));
    } else {
        compare_ranges(p, j, wanted, got);
        assert_int_equal(kith_ctx_report(p->gpu, &report), KITH_OK);
        if (strncmp(report.backend, "cuda", 4) != 0 || report.exact != 1) {
            blame(p, j, report.backend);
        }
        compare_there(p, j, corpus, wanted);
    }
    kith_ranges_free(got);
    kith_index_free(corpus);
}

static bool has_tree(const job *j)
{
    const kith_metric metric = j->params.metric;
    return j->points->cols <= 64 && (metric == KITH_EUCLIDEAN || metric == KITH_SQEUCLIDEAN ||
                                     metric == KITH_MANHATTAN || metric == KITH_CHEBYSHEV);
}

static void check_tree(pair *p, const job *j, const kith_ranges *wanted, const kith_ranges *got)
{
    kith_report report = {.struct_size = sizeof report};
    compare_ranges(p, j, wanted, got);
    assert_int_equal(kith_ctx_report(p->gpu, &report), KITH_OK);
    if (strcmp(report.screen, "tree") != 0 || strncmp(report.backend, "cuda", 4) != 0 ||
        report.exact != 1) {
        blame(p, j, report.screen);
    }
}

/* The same by the tree, of which points there may be one that stays. */
static void compare_by_tree(pair *p, const job *given, const kith_ranges *wanted)
{
    job j = *given;
    kith_ranges *got = NULL;
    kith_index *kept = NULL;
    j.params.method = KITH_METHOD_TREE;
    kith_index_params made = kith_index_params_default();
    made.metric = j.params.metric;
    made.method = KITH_METHOD_TREE;
    p->cases += 1;
    const kith_status status = kith_radius(p->gpu, j.points, j.queries, &j.params, &got);
    if (status == KITH_E_DEVICE_MEMORY && j.may_lack) {
        p->lacking += 1;
        return;
    }
    if (status != KITH_OK) {
        blame(p, &j, kith_ctx_detail(p->gpu));
        return;
    }
    check_tree(p, &j, wanted, got);
    kith_ranges_free(got);
    compare_there(p, &j, NULL, wanted);
    if (j.may_lack) {
        return;
    }
    if (kith_index_create(p->gpu, j.points, &made, &kept) != KITH_OK ||
        kith_index_radius(p->gpu, kept, j.queries, &j.params, &got) != KITH_OK) {
        blame(p, &j, kith_ctx_detail(p->gpu));
    } else {
        check_tree(p, &j, wanted, got);
        kith_ranges_free(got);
        compare_there(p, &j, kept, wanted);
    }
    kith_index_free(kept);
}

static void compare(pair *p, const job *j)
{
    char what[1400];
    kith_ranges *wanted = NULL;
    kith_ranges *got = NULL;
    const kith_status a = kith_radius(p->cpu, j->points, j->queries, &j->params, &wanted);
    const kith_status b = kith_radius(p->gpu, j->points, j->queries, &j->params, &got);
    kith_report report = {.struct_size = sizeof report};
    p->cases += 1;
    if (b == KITH_E_DEVICE_MEMORY && j->may_lack) {
        p->lacking += 1;
    } else if (a != b || strcmp(kith_ctx_detail(p->cpu), kith_ctx_detail(p->gpu)) != 0) {
        (void)snprintf(what, sizeof what, "got %s '%s', wanted %s '%s'", kith_status_name(b),
                       kith_ctx_detail(p->gpu), kith_status_name(a), kith_ctx_detail(p->cpu));
        blame(p, j, what);
    } else if (a == KITH_OK) {
        compare_ranges(p, j, wanted, got);
        assert_int_equal(kith_ctx_report(p->gpu, &report), KITH_OK);
        if (strncmp(report.backend, "cuda", 4) != 0 || report.exact != 1) {
            blame(p, j, report.backend);
        }
        p->report = report;
        if (!j->may_lack) {
            compare_prepared(p, j, wanted);
        }
        compare_there(p, j, NULL, wanted);
        if (has_tree(j)) {
            compare_by_tree(p, j, wanted);
        }
    }
    kith_ranges_free(got);
    kith_ranges_free(wanted);
}

/* ---- Radii ---------------------------------------------------------------------------------- */

static int rising(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A distance that some point has from this query, `share` of the points being nearer. */
static double radius_at(pair *p, const job *j, int64_t query, double share)
{
    const int64_t rows = j->points->rows;
    const kith_matrix *queries = j->queries != NULL ? j->queries : j->points;
    uint32_t *asked = malloc((size_t)rows * sizeof *asked);
    uint32_t *ids = malloc((size_t)rows * sizeof *ids);
    double *distances = malloc((size_t)rows * sizeof *distances);
    assert_true(asked != NULL && ids != NULL && distances != NULL);
    for (int64_t i = 0; i < rows; i++) {
        asked[i] = (uint32_t)query;
        ids[i] = (uint32_t)i;
    }
    assert_int_equal(kith_distances(p->cpu, j->points, queries, j->params.metric,
                                    &(kith_pairs){rows, asked, ids}, distances),
                     KITH_OK);
    qsort(distances, (size_t)rows, sizeof *distances, rising);
    const bool product = j->params.metric == KITH_INNER_PRODUCT;
    const int64_t place = (int64_t)((product ? 1.0 - share : share) * (double)(rows - 1));
    const double radius = distances[place];
    free(distances);
    free(ids);
    free(asked);
    return radius;
}

/* ---- Metrics and types ---------------------------------------------------------------------- */

static void fill(test_rows *rows, test_shape shape, kith_metric metric, uint64_t seed)
{
    test_shape_fill(rows, shape, metric == KITH_CHI2 || metric == KITH_KL, &seed);
}

static void one_type(pair *p, kith_metric metric, kith_dtype dtype, kith_dtype asked, int turn)
{
    enum { ROWS = 1100, DIMS = 33, ASKED = 290 };
    static const test_shape shapes[] = {SHAPE_COPIES, SHAPE_SPARSE, SHAPE_GAUSS};
    static double radii[ROWS];
    test_rows points = test_rows_make(dtype, ROWS, DIMS, turn % 2 == 0 ? 24 : 0);
    test_rows queries = test_rows_make(asked, ASKED, DIMS, turn % 2 == 1 ? 8 : 0);
    fill(&points, shapes[turn % 3], metric, 70 + (uint64_t)turn);
    fill(&queries, shapes[turn % 3], metric, 170 + (uint64_t)turn);
    job j = job_of(test_shape_name(shapes[turn % 3]), &points.matrix, NULL, metric, 0.0);
    j.params.radius = radius_at(p, &j, turn, 0.02);
    compare(p, &j);
    j.params.flags = KITH_INCLUDE_SELF;
    compare(p, &j);
    j.params.count_only = 1;
    compare(p, &j);
    for (int64_t i = 0; i < ROWS; i++) {
        radii[i] = i < 40 ? radius_at(p, &j, i, (double)(i % 9) / 9.0) : radii[i % 40];
    }
    j.params = job_of("", NULL, NULL, metric, 0.0).params;
    j.params.radii = radii;
    compare(p, &j);
    j.queries = &queries.matrix;
    for (int64_t i = 0; i < ASKED; i++) {
        radii[i] = radius_at(p, &j, i, (double)(i % 11) / 20.0);
    }
    compare(p, &j);
    j.params.radii = NULL;
    j.params.radius = radii[3];
    compare(p, &j);
    test_rows_free(&queries);
    test_rows_free(&points);
}

static void metrics_and_types(void **state)
{
    (void)state;
    pair p = pair_make(0);
    for (int m = 0; m < METRICS; m++) {
        for (int d = 0; d < DTYPES; d++) {
            const kith_dtype asked = d % 2 == 0 ? dtypes[d] : dtypes[(d + m) % DTYPES];
            one_type(&p, metrics[m], dtypes[d], asked, m + d);
        }
    }
    pair_end(&p, "all metrics and types, own ids, a radius for each query, counts alone");
}

/* ---- Lists of all lengths ------------------------------------------------------------------- */

static void all_lengths(void **state)
{
    (void)state;
    static const double shares[] = {0.0, 0.001, 0.05, 0.3, 0.7, 1.0};
    static const test_shape shapes[] = {SHAPE_GAUSS, SHAPE_CLUSTERS, SHAPE_HEAVY, SHAPE_TIGHT};
    pair p = pair_make(0);
    for (int s = 0; s < 4; s++) {
        for (int m = 0; m < METRICS; m++) {
            const bool small = m >= SCREENED;
            if (small && s >= 2) {
                continue; /* they have no lists */
            }
            test_rows rows =
                test_rows_make(m % 2 == 0 ? KITH_F32 : KITH_F64, small ? 900 : 1500, 7 + 3 * s, 0);
            fill(&rows, shapes[s], metrics[m], 300 + (uint64_t)s);
            job j = job_of(test_shape_name(shapes[s]), &rows.matrix, NULL, metrics[m], 0.0);
            for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
                j.params.radius = radius_at(&p, &j, 5, shares[i]);
                compare(&p, &j);
            }
            j.params.radius = metrics[m] == KITH_INNER_PRODUCT ? -INFINITY : INFINITY;
            compare(&p, &j);
            j.params.radius = metrics[m] == KITH_INNER_PRODUCT ? -1e300 : 1e300;
            j.queries = &rows.matrix;
            compare(&p, &j);
            test_rows_free(&rows);
        }
    }
    pair_end(&p, "from nobody to everybody within the radius");
}

/* Enough points for an order, balls and many tiles; some rows have far more neighbours than most.
 */
static void large(void **state)
{
    (void)state;
    static const test_shape shapes[] = {SHAPE_CLUSTERS, SHAPE_GAUSS, SHAPE_TIGHT, SHAPE_COPIES};
    static const double shares[] = {0.0005, 0.02};
    pair p = pair_make(0);
    for (int s = 0; s < 4; s++) {
        for (int m = 0; m < SCREENED; m++) {
            const kith_dtype dtype = dtypes[(s + m) % 3];
            test_rows rows = test_rows_make(dtype, 12000 + 37 * m, 20 + 9 * s, 0);
            test_rows asked = test_rows_make(dtype, 700, 20 + 9 * s, 0);
            fill(&rows, shapes[s], metrics[m], 400 + (uint64_t)s);
            fill(&asked, shapes[s], metrics[m], 500 + (uint64_t)s);
            for (int i = 0; i < 2; i++) {
                job j = job_of(test_shape_name(shapes[s]), &rows.matrix, NULL, metrics[m], 0.0);
                j.params.method = KITH_METHOD_EXACT; /* auto takes the tree for some of these */
                j.params.radius = radius_at(&p, &j, 1000, shares[i]);
                j.params.count_only = s == 3 && i == 1;
                compare(&p, &j);
                j.queries = &asked.matrix;
                compare(&p, &j);
            }
            test_rows_free(&asked);
            test_rows_free(&rows);
        }
    }
    printf("the last search: screen %s, skipped %.3f, rerun %.4f, %.1f keys a row\n",
           p.report.screen, p.report.skipped_share, p.report.rerun_share, p.report.candidates);
    pair_end(&p, "12,000 points");
}

/* Graphs so long that stages of all columns screen bytes in place of the rows. */
static void shadows(void **state)
{
    (void)state;
    static const test_shape shapes[] = {SHAPE_CLUSTERS, SHAPE_GAUSS};
    pair p = pair_make(0);
    int by_shadows = 0;
    for (int s = 0; s < 2; s++) {
        test_rows rows = test_rows_make(KITH_F32, 50400, 40, 0);
        fill(&rows, shapes[s], KITH_EUCLIDEAN, 600 + (uint64_t)s);
        job j = job_of(test_shape_name(shapes[s]), &rows.matrix, NULL, KITH_EUCLIDEAN, 0.0);
        j.params.method = KITH_METHOD_EXACT;
        j.params.radius = radius_at(&p, &j, 1000, 0.0002);
        j.may_lack = true; /* which is not compared with a prepared corpus */
        compare(&p, &j);
        by_shadows += p.report.shadow_axes > 0 ? 1 : 0;
        test_rows_free(&rows);
    }
    assert_int_equal(p.lacking, 0);
    assert_true(by_shadows > 0);
    printf("%d of 2 graphs within a radius by shadows\n", by_shadows);
    pair_end(&p, "50,400 points");
}

/* ---- Ties, edges ---------------------------------------------------------------------------- */

static void ties(void **state)
{
    (void)state;
    static const kith_metric whole[] = {KITH_EUCLIDEAN, KITH_SQEUCLIDEAN, KITH_INNER_PRODUCT,
                                        KITH_MANHATTAN, KITH_HAMMING,     KITH_COSINE};
    static const kith_dtype types[] = {KITH_U8, KITH_I8, KITH_F32};
    pair p = pair_make(0);
    for (int t = 0; t < 3; t++) {
        for (int m = 0; m < 6; m++) {
            test_rows rows = test_rows_make(types[t], 2001, 11, 0);
            fill(&rows, SHAPE_GRID, whole[m], 600);
            job j = job_of("grid", &rows.matrix, NULL, whole[m], 0.0);
            for (int i = 0; i <= 6; i++) {
                const double radius = whole[m] == KITH_EUCLIDEAN ? sqrt((double)i)
                                      : whole[m] == KITH_HAMMING ? (double)i / 11.0
                                                                 : (double)i;
                j.params.radius = radius;
                compare(&p, &j);
                j.params.radius = nextafter(radius, 0.0);
                compare(&p, &j);
            }
            test_rows_free(&rows);
        }
    }
    pair_end(&p, "distances that tie with the radius");
}

static void edges(void **state)
{
    (void)state;
    static const double far[] = {1.0, 1e6, 1e25, 1e30, 0.0};
    pair p = pair_make(0);
    uint64_t seed = 11;
    test_rows rows = test_rows_make(KITH_F32, 3000, 19, 0);
    test_rows asked = test_rows_make(KITH_F32, 45, 19, 0);
    test_rows zeros = test_rows_make(KITH_F32, 300, 19, 0);
    test_rows one = test_rows_make(KITH_F32, 1, 19, 0);
    fill(&rows, SHAPE_SPARSE, KITH_EUCLIDEAN, 12);
    for (int64_t i = 0; i < 45; i++) {
        for (int64_t c = 0; c < 19; c++) {
            test_rows_set(&asked, i, c, far[i % 5] * test_gauss(&seed));
        }
    }
    for (int m = 0; m < SCREENED; m++) {
        static const double radii[] = {0.0, 0.5, 0.9999, 1.0, 1e7, INFINITY};
        for (int i = 0; i < 6; i++) {
            const double radius = metrics[m] == KITH_INNER_PRODUCT ? 3.0 - radii[i] : radii[i];
            const job jobs[] = {
                job_of("far queries", &rows.matrix, &asked.matrix, metrics[m], radius),
                job_of("zeros", &zeros.matrix, NULL, metrics[m], radius),
                job_of("zeros asked", &rows.matrix, &zeros.matrix, metrics[m], radius),
                job_of("zeros", &zeros.matrix, &asked.matrix, metrics[m], radius),
                job_of("one", &one.matrix, NULL, metrics[m], radius),
                job_of("one asked", &rows.matrix, &one.matrix, metrics[m], radius)};
            for (int n = 0; n < 6; n++) {
                compare(&p, &jobs[n]);
            }
        }
    }
    job none = job_of("nobody", &rows.matrix, NULL, KITH_INNER_PRODUCT, INFINITY);
    compare(&p, &none);
    test_rows_set(&asked, 31, 4, (double)NAN);
    job bad = job_of("NaN", &rows.matrix, &asked.matrix, KITH_EUCLIDEAN, 1.0);
    compare(&p, &bad);
    bad = job_of("NaN", &asked.matrix, NULL, KITH_MANHATTAN, 1.0);
    compare(&p, &bad);
    test_rows_free(&one);
    test_rows_free(&zeros);
    test_rows_free(&asked);
    test_rows_free(&rows);
    pair_end(&p, "queries far outside, rows of zeros, one row, radii of 0 and infinity, NaN");
}

/* ---- Little memory, cancellation ------------------------------------------------------------ */

static void little_memory(void **state)
{
    (void)state;
    static const kith_metric some[] = {KITH_EUCLIDEAN, KITH_COSINE, KITH_INNER_PRODUCT,
                                       KITH_MANHATTAN};
    int worked = 0;
    int wrong = 0;
    for (uint64_t budget = UINT64_C(64) << 20; budget > 100000; budget = budget * 2 / 3) {
        pair p = pair_make(budget);
        for (int m = 0; m < 4; m++) {
            test_rows rows = test_rows_make(KITH_F32, 5000, 24, 0);
            test_rows asked = test_rows_make(KITH_F32, 1000, 24, 0);
            fill(&rows, m % 2 == 0 ? SHAPE_COPIES : SHAPE_SPARSE, some[m], 700);
            fill(&asked, SHAPE_GAUSS, some[m], 701);
            job j = job_of("little memory", &rows.matrix, NULL, some[m], 0.0);
            j.may_lack = true;
            j.params.radius = radius_at(&p, &j, 1, m < 2 ? 0.01 : 0.5);
            compare(&p, &j);
            j.queries = &asked.matrix;
            compare(&p, &j);
            test_rows_free(&asked);
            test_rows_free(&rows);
        }
        printf("%.2f MiB: %d of %d worked, %d wrong\n", (double)budget / 0x1p20,
               p.cases - p.lacking, p.cases, p.wrong);
        (void)fflush(stdout);
        worked += p.cases - p.lacking;
        wrong += p.wrong + (p.lacking > 0 && budget > (UINT64_C(8) << 20) ? 1 : 0);
        kith_ctx_free(p.cpu);
        kith_ctx_free(p.gpu);
    }
    assert_int_equal(wrong, 0);
    printf("budgets down to 100 KB: the same bytes %d times, or E_DEVICE_MEMORY\n", worked);
}

static int stop(void *arg, const char *phase, double done, double total)
{
    (void)phase;
    (void)done;
    (void)total;
    int *left = arg;
    *left -= 1;
    return *left < 0 ? 1 : 0;
}

static void cancels(void **state)
{
    (void)state;
    test_rows rows = test_rows_make(KITH_F32, 60000, 64, 0);
    fill(&rows, SHAPE_GAUSS, KITH_EUCLIDEAN, 800);
    int left = 0;
    kith_ctx_params params = kith_ctx_params_default();
    params.device = "cuda";
    params.progress = stop;
    params.progress_arg = &left;
    kith_ctx *ctx = NULL;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    kith_radius_params asked = kith_radius_params_default();
    asked.radius = 7.0;
    asked.count_only = 1;
    kith_ranges *ranges = NULL;
    const kith_status status = kith_radius(ctx, &rows.matrix, NULL, &asked, &ranges);
    assert_true(status == KITH_E_CANCELLED || status == KITH_OK);
    kith_ranges_free(ranges);
    left = 1 << 30;
    const kith_status again = kith_radius(ctx, &rows.matrix, NULL, &asked, &ranges);
    assert_int_equal(again, KITH_OK);
    printf("told to stop: %s; after that %" PRId64 " neighbours of 60,000 points\n",
           kith_status_name(status), kith_ranges_lists(ranges)->offsets[60000]);
    kith_ranges_free(ranges);
    kith_ctx_free(ctx);
    test_rows_free(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_and_types), cmocka_unit_test(all_lengths), cmocka_unit_test(large),
        cmocka_unit_test(shadows),           cmocka_unit_test(ties),        cmocka_unit_test(edges),
        cmocka_unit_test(little_memory),     cmocka_unit_test(cancels),
    };
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
