/* SPDX-License-Identifier: Apache-2.0
 * The theorem of screen_corpus.h on the rows that the screen sees: the distance of two shadows,
 * less what both have lost, is never above the distance of the rows; searches and graphs with
 * shadows give the bytes of those without. A basis that is not what it says must be seen to fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_size.h"
#include "exact/exact_search.h"
#include "host/host_cpu.h"
#include "kith/kith_papers.h"
#include "screen/screen_corpus.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_keys.h"
#include "support/support_rows.h"
#include "support/support_sets.h"
#include "support/support_shadows.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 120, COLS = 48, K = TEST_SHADOW_K };

/* ---- The theorem ----------------------------------------------------------------------------- */

static double distance_of_rows(const kin_prepared *p, const double *values, int64_t a, int64_t b)
{
    const int64_t wide = kin_round_up(p->distance.cols, KIN_METRIC_LANES);
    long double sum = 0.0L;
    for (int64_t i = 0; i < p->distance.cols; i++) {
        const long double t =
            ((long double)values[a * wide + i] - (long double)values[b * wide + i]) /
            (long double)p->frame.scale;
        sum += t * t;
    }
    return (double)sqrtl(sum);
}

static double distance_of_shadows(const kin_set *cast, const double *a, const double *b)
{
    double sum = 0.0;
    for (int32_t i = 0; i < cast->frame->cols; i++) {
        const double t = a[i] - b[i];
        sum += t * t;
    }
    return sqrt(sum) * cast->frame->scale;
}

/* Pairs whose shadows are farther apart than they may be. */
static int64_t broken_pairs(const kin_prepared *p, const kin_set *cast)
{
    const int64_t wide = kin_round_up(p->distance.cols, KIN_METRIC_LANES);
    const int32_t axes = cast->frame->cols;
    const int64_t rows = p->groups.count;
    double *values = aligned_alloc(64, (size_t)(rows * wide) * sizeof *values);
    double *shadows = malloc((size_t)(rows * axes) * sizeof *shadows);
    int64_t broken = 0;
    assert_non_null(values);
    assert_non_null(shadows);
    for (int64_t i = 0; i < rows; i++) {
        (void)kin_metric_load(&p->distance, &p->rows, p->order[i], values + i * wide);
        for (int32_t axis = 0; axis < axes; axis++) {
            shadows[i * axes + axis] = test_stored(cast, i, axis);
        }
    }
    for (int64_t a = 0; a < rows; a++) {
        for (int64_t b = 0; b < a; b++) {
            const double lost =
                (kin_set_row(cast, a).lost + kin_set_row(cast, b).lost) * cast->frame->scale;
            const double most = distance_of_rows(p, values, a, b) + lost;
            const double found = distance_of_shadows(cast, shadows + a * axes, shadows + b * axes);
            broken += found > most * (1.0 + 0x1p-40);
        }
    }
    free(shadows);
    free(values);
    return broken;
}

static int64_t check_shadows(kith_ctx *ctx, const kin_prepared *p, int32_t axes, double spoil)
{
    int64_t broken = 0;
    for (int type = 0; type < KIN_TILE_TYPES; type++) {
        const kin_tile_kernel *kernel = kin_tile_get(ctx->isa, (kin_tile_type)type);
        kin_shadow shadow;
        kin_set cast;
        if (kernel == NULL) {
            continue;
        }
        assert_int_equal(
            kin_shadow_learn(ctx, p, &(kin_shadow_job){.given = {.kernel = kernel, .axes = axes}},
                             &shadow, NULL),
            KITH_OK);
        for (int64_t i = 0; i < shadow.wide * shadow.padded; i++) {
            shadow.basis[i] *= (float)spoil;
        }
        shadow.grid *= spoil > 1.0 ? 0.5 : 1.0; /* for digits that hold what is too long */
        assert_int_equal(kin_shadow_cast(ctx, &shadow, p, p->order, p->groups.count, &cast),
                         KITH_OK);
        broken += broken_pairs(p, &cast);
        kin_set_free(ctx, &cast);
        kin_shadow_free(ctx, &shadow);
    }
    return broken;
}

static void theorem(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_SQEUCLIDEAN, KITH_COSINE, KITH_CORRELATION};
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_U8};
    static const int32_t axes[] = {1, COLS / 2, COLS - 1, COLS};
    int cases = 0;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    for (int shape = 0; shape < SHAPES; shape += test_is_slow_build() ? 3 : 1) {
        for (int d = 0; d < 3; d++) {
            for (int m = 0; m < (d == 2 ? 1 : 3); m++) {
                test_rows rows =
                    test_shadow_rows(dtypes[d], POINTS, COLS, shape, (uint64_t)shape + 1);
                kin_prepared p;
                test_shadow_prepare(ctx, &rows, metrics[m], &p);
                for (int i = 0; i < 4 && p.groups.count > 0; i++) {
                    assert_int_equal(check_shadows(ctx, &p, axes[i], 1.0), 0);
                    cases++;
                }
                kin_prepared_free(ctx, &p);
                test_rows_free(&rows);
            }
        }
    }
    kith_ctx_free(ctx);
    printf("%d bases of 1 to all axes, rows of every shape: no shadow is farther than its row\n",
           cases);
}

/* Where words of bytes are multiplied by the unit, and where they are not. */
static void theorem_of_bytes(void **state)
{
    (void)state;
    static const int32_t axes[] = {1, COLS / 2, COLS};
    int cases = 0;
    int64_t broken = 0;
    bool multiplied = false;
    for (int isa = 0; isa < KIN_ISA_COUNT; isa++) {
        if (!kin_cpu_has((kin_isa)isa)) {
            continue;
        }
        kith_ctx *ctx = test_ctx((kin_isa)isa, 2);
        for (int shape = isa % 4; shape < SHAPES; shape += 4) {
            test_rows rows = test_shadow_rows((shape / 4 + isa) % 2 == 0 ? KITH_U8 : KITH_I8,
                                              POINTS, COLS, shape, (uint64_t)shape + 1);
            kin_prepared p;
            test_shadow_prepare(ctx, &rows, KITH_SQEUCLIDEAN, &p);
            for (int i = 0; i < 3 && p.groups.count > 0; i++) {
                assert_int_equal(check_shadows(ctx, &p, axes[i], 1.0), 0);
                cases++;
            }
            if (p.groups.count > 0 && p.frame.kernel->multiply != NULL) {
                broken += check_shadows(ctx, &p, 8, 1.05);
                multiplied = true;
            }
            kin_prepared_free(ctx, &p);
            test_rows_free(&rows);
        }
        kith_ctx_free(ctx);
    }
    assert_true(broken > 0 || !multiplied);
    printf("%d bases of bytes, every processor: no shadow is farther than its row\n", cases);
}

static void spoiled_basis(void **state)
{
    (void)state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 1);
    test_rows rows = test_shadow_rows(KITH_F64, POINTS, COLS, SHAPE_SPAN, 5);
    kin_prepared p;
    test_shadow_prepare(ctx, &rows, KITH_SQEUCLIDEAN, &p);
    assert_int_equal(check_shadows(ctx, &p, 8, 1.0), 0);
    const int64_t broken = check_shadows(ctx, &p, 8, 1.05);
    assert_true(broken > 0);
    kin_prepared_free(ctx, &p);
    test_rows_free(&rows);
    kith_ctx_free(ctx);
    printf("a basis that is not orthonormal, and does not say so: %" PRId64 " pairs are lost\n",
           broken);
}

/* ---- The same bytes -------------------------------------------------------------------------- */

static void same_searches(void **state)
{
    (void)state;
    enum { CORPUS = 1500, FEW = 300, COLUMNS = 70 };
    static const kith_metric metrics[] = {KITH_SQEUCLIDEAN, KITH_EUCLIDEAN, KITH_COSINE};
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_U8};
    int cases = 0;
    for (int isa = 0; isa < KIN_ISA_COUNT; isa++) {
        if (!kin_cpu_has((kin_isa)isa)) {
            continue;
        }
        kith_ctx *ctx = test_ctx((kin_isa)isa, 2);
        for (int shape = isa % 2; shape < SHAPES; shape += test_is_slow_build() ? 6 : 2) {
            const int d = (shape + isa) % 3;
            const kith_metric metric = metrics[(shape / 2 + isa) % 3];
            test_rows points = test_shadow_rows(dtypes[d], CORPUS, COLUMNS, shape, 3);
            test_rows queries = test_shadow_rows(dtypes[d], FEW, COLUMNS, shape, 4);
            kith_neighbors plain =
                test_shadow_search(ctx, &points, &queries, metric, (kin_shadow_choice){.axes = 0});
            for (int type = 0; type < KIN_TILE_TYPES; type++) {
                const kin_tile_kernel *kernel = kin_tile_get(ctx->isa, (kin_tile_type)type);
                if (kernel != NULL) {
                    kith_neighbors cast =
                        test_shadow_search(ctx, &points, &queries, metric,
                                           (kin_shadow_choice){.kernel = kernel, .axes = 20});
                    assert_true(test_answers_equal(&plain, &cast));
                    test_answer_free(&cast);
                    cases++;
                }
            }
            test_answer_free(&plain);
            test_rows_free(&queries);
            test_rows_free(&points);
        }
        kith_ctx_free(ctx);
    }
    printf("%d searches by shadows, every processor and type: the bytes of those by full rows\n",
           cases);
}

/* ---- Few queries ----------------------------------------------------------------------------- */

/* What is asked of a corpus of one shape. */
typedef struct few_case {
    kith_metric metric;
    kith_dtype dtype;
    int shape;
    int64_t queries;
    int64_t k;
    int32_t axes;
    const uint32_t *exclude;
} few_case;

/* Searches at a glance, whatever suits. */
static int64_t glance_differs(kith_ctx *ctx, const few_case *c)
{
    enum { CORPUS = 1100, COLUMNS = 70 };
    const kith_dtype asked = /* bytes are asked floats, too */
        c->dtype == KITH_U8 && c->shape % 3 == 1 ? KITH_F32 : c->dtype;
    test_rows points = test_shadow_rows(c->dtype, CORPUS, COLUMNS, c->shape, 3);
    test_rows queries = test_shadow_rows(asked, c->queries, COLUMNS, c->shape, 4);
    for (int64_t i = 0; i < c->queries / 2; i++) { /* some are rows of the corpus */
        if (asked == c->dtype) {
            test_rows_copy(&queries, i, &points, 7 * i);
        }
        for (int32_t col = 0; asked != c->dtype && col < COLUMNS; col++) { /* or nearly so */
            const uint8_t *bytes = points.matrix.data;
            const double near = i % 2 == 0 ? 0.0 : 0.25;
            test_rows_set(&queries, i, col, near + bytes[7 * i * points.matrix.stride_bytes + col]);
        }
    }
    const kin_request request = {
        .distance = {.metric = c->metric, .cols = COLUMNS, .isa = ctx->isa},
        .k = c->k,
        .exclude = c->exclude};
    const kin_shadow_job job = {.given = {.kernel = &kin_tile_s8_portable, .axes = c->axes},
                                .few = true};
    kin_prepared p;
    kin_prepared q;
    kith_neighbors plain = test_answer_make(c->queries, c->k);
    kith_neighbors found = test_answer_make(c->queries, c->k);
    assert_int_equal(kin_ctx_begin(ctx), KITH_OK);
    test_shadow_prepare(ctx, &points, c->metric, &p);
    test_works(ctx, kin_exact_search(ctx, &p, &queries.matrix, &request, &plain));
    p.vain = false;
    assert_int_equal(kin_glance_make(ctx, &job, &p), KITH_OK);
    assert_true(p.groups.count == 0 || p.glance.shadow.axes == c->axes);
    assert_int_equal(
        kin_prepare_rows(ctx, &queries.matrix, &request.distance, "queries", KIN_ROWS_DISTINCT, &q),
        KITH_OK);
    const bool asks = p.groups.count > 0;
    if (asks) {
        test_works(ctx, kin_glance_search(ctx, &p, &q, &request, &found));
    }
    const bool equal = !asks || test_answers_equal(&plain, &found);
    kin_prepared_free(ctx, &q);
    kin_prepared_free(ctx, &p);
    test_answer_free(&found);
    test_answer_free(&plain);
    test_rows_free(&queries);
    test_rows_free(&points);
    return !equal;
}

static void few_queries(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_SQEUCLIDEAN, KITH_EUCLIDEAN, KITH_COSINE,
                                          KITH_CORRELATION};
    static const kith_dtype dtypes[] = {KITH_F32, KITH_U8, KITH_F64};
    static const int64_t counts[] = {1, 2, 3, 10, 64};
    static const int64_t ids[] = {1, 10, 100};
    static const int32_t axes[] = {1, 15, 31, 70};
    uint32_t exclude[64];
    int cases = 0;
    for (int i = 0; i < 64; i++) {
        exclude[i] = (uint32_t)(7 * i);
    }
    for (int isa = 0; isa < KIN_ISA_COUNT; isa++) {
        if (!kin_cpu_has((kin_isa)isa)) {
            continue;
        }
        kith_ctx *ctx = test_ctx((kin_isa)isa, 1 + isa % 2);
        for (int i = 0; i < SHAPES * (test_is_slow_build()    ? 1
                                      : test_is_whole_build() ? 8
                                                              : 4);
             i++) {
            const int turn = i / SHAPES;
            const few_case c = {.metric = metrics[(i % SHAPES + turn / 2) % 4],
                                .dtype = dtypes[(i % SHAPES / 2 + turn) % 3],
                                .shape = i % SHAPES,
                                .queries = counts[(i + isa) % 5],
                                .k = ids[(i / 3 + isa) % 3],
                                .axes = axes[(i % SHAPES + turn) % 4],
                                .exclude = i % 4 == 2 ? exclude : NULL};
            if (glance_differs(ctx, &c) != 0) {
                fail_msg("%s: metric %d, type %d, shape %d, %d queries, k = %d, %d axes",
                         kin_isa_name(ctx->isa), (int)c.metric, (int)c.dtype, c.shape,
                         (int)c.queries, (int)c.k, (int)c.axes);
            }
            cases++;
        }
        kith_ctx_free(ctx);
    }
    printf("%d searches of 1 to 64 queries at a glance, every processor and shape: the bytes of "
           "those by full rows\n",
           cases);
}

/* ---- Long jobs ------------------------------------------------------------------------------- */

enum { ROWS = 40000, ASKED = 20000, WIDE = 256, SPAN = 12 };

/* Where words are dear, so that shadows pay. */
static kith_ctx *plain_ctx(void)
{
    return test_ctx(kin_cpu_has(KIN_ISA_AVX2) ? KIN_ISA_AVX2 : KIN_ISA_PORTABLE, 2);
}

/* Rows near a span of few columns, as those of images are. */
static test_rows natural_rows(int64_t count, uint64_t seed)
{
    test_rows points = test_rows_make(KITH_F32, count, WIDE, 0);
    static double along[WIDE][SPAN]; /* asked for once, not by each row */
    for (int64_t col = 0; col < WIDE; col++) {
        for (int i = 0; i < SPAN; i++) {
            along[col][i] = sin((double)(col * (2 * i + 1)) + i);
        }
    }
    for (int64_t row = 0; row < count; row++) {
        double factor[SPAN];
        for (int i = 0; i < SPAN; i++) {
            factor[i] = test_gauss(&seed);
        }
        for (int64_t col = 0; col < WIDE; col++) {
            double x = 0.02 * (test_uniform(&seed) - 0.5);
            for (int i = 0; i < SPAN; i++) {
                x += factor[i] * along[col][i] / (1.0 + i);
            }
            test_rows_set(&points, row, col, x);
        }
    }
    return points;
}

/* Stops a job whose pairs are being screened. */
static int stop_screen(void *arg, const char *phase, double done, double total)
{
    (void)arg;
    (void)total;
    return strcmp(phase, "screen") == 0 && done > 0.0;
}

/* With every limit on memory under what shadows need a graph is made without them, as long as it
 * fits at all. The first of them is made; the others are seen to begin without them, and are
 * stopped, and under a sanitizer all are: to compare all words of all rows is the work of other
 * tests there. */
static void make_graphs_with_less(kith_ctx *ctx, const kith_matrix *points,
                                  const kith_neighbors *cast, uint64_t most)
{
    kith_search_params params = kith_search_params_default();
    params.k = K;
    params.method = KITH_METHOD_EXACT;
    int made = 0;
    int begun = 0;
    int refused = 0;
    for (uint64_t percent = 80; percent < 100; percent += 4) {
        const bool begins = test_is_sanitized_build() || (made > 0 && !test_is_whole_build());
        ctx->params.memory_limit = most * percent / 100;
        ctx->params.progress = begins ? stop_screen : NULL;
        kith_neighbors out = test_answer_make(ROWS, K);
        kith_report report = {.struct_size = sizeof report};
        const kith_status status = kith_graph(ctx, points, &params, &out, &report);
        if (status == KITH_OK) {
            assert_true(report.peak_bytes <= ctx->params.memory_limit);
            assert_true(test_answers_equal(&out, cast));
            made += report.shadow_axes == 0;
        } else if (status == KITH_E_CANCELLED) {
            assert_non_null(ctx->params.progress);
            begun++;
        } else {
            assert_int_equal(status, KITH_E_LIMIT);
            refused++;
        }
        test_answer_free(&out);
    }
    assert_true(made + begun > 0 && (made > 0 || test_is_sanitized_build()));
    ctx->params.memory_limit = 0;
    ctx->params.progress = NULL;
    printf("with less memory %d jobs did without shadows, and gave the same bytes, %d more began "
           "without; %d did not fit at all\n",
           made, begun, refused);
}

/* Where a job is long enough, shadows are found worth it, and taken. */
static void long_jobs(void **state)
{
    (void)state;
    if (test_is_slow_build()) {
        printf("left to other builds\n");
        return;
    }
    test_rows points = natural_rows(ROWS, 9);
    test_rows asked = natural_rows(ASKED, 10);
    kith_ctx *ctx = plain_ctx();
    for (int i = 0; i < 2; i++) {
        const test_rows *queries = i == 0 ? NULL : &asked;
        kith_report report;
        kith_neighbors cast = test_shadow_solve(ctx, &points, queries, 0, &report);
        assert_true(report.shadow_axes > 0);
        assert_true(report.looked_share > 0.0 && report.looked_share < 0.1);
        printf("%s: %" PRId32 " axes, %.2f %% of the pairs were looked at\n",
               i == 0 ? "a graph" : "a search", report.shadow_axes, 100.0 * report.looked_share);
        if (i == 0) {
            make_graphs_with_less(ctx, &points.matrix, &cast, report.peak_bytes);
        }
        if (!test_is_sanitized_build()) { /* full rows: other builds have the time */
            kith_neighbors plain = test_shadow_solve(ctx, &points, queries, KITH_NO_SKIP, &report);
            assert_int_equal(report.shadow_axes, 0);
            assert_true(test_answers_equal(&plain, &cast));
            test_answer_free(&plain);
        }
        test_answer_free(&cast);
    }
    kith_ctx_free(ctx);
    test_rows_free(&asked);
    test_rows_free(&points);
    printf("by shadows%s; plans are kept\n",
           test_is_sanitized_build() ? "" : ", and by what skips nothing: the same bytes");
}

/* ---- Indexes --------------------------------------------------------------------------------- */

/* The first queries of an index and of its points: the same bytes. Returns the axes that were read.
 */
static int32_t ask_both(kith_ctx *ctx, const kith_index *index, const kith_matrix *points,
                        const kith_matrix *queries, int64_t k)
{
    kith_search_params params = kith_search_params_default();
    kith_report report = {.struct_size = sizeof report};
    params.k = k;
    params.metric = KITH_SQEUCLIDEAN;
    params.method = KITH_METHOD_EXACT;
    kith_neighbors kept = test_answer_make(queries->rows, k);
    kith_neighbors once = test_answer_make(queries->rows, k);
    test_works(ctx, kith_index_search(ctx, index, queries, &params, &kept, &report));
    test_works(ctx, kith_search(ctx, points, queries, &params, &once, NULL));
    assert_true(test_answers_equal(&kept, &once));
    test_answer_free(&once);
    test_answer_free(&kept);
    return report.shadow_axes;
}

/* With every limit on memory an index is made without shadows, or with them, or not at all. */
static int make_with_less(kith_ctx *ctx, const kith_matrix *points, const kith_matrix *asked)
{
    kith_matrix query = *asked;
    kith_index *index = NULL;
    kith_report report = {.struct_size = sizeof report};
    int without = 0;
    query.rows = 1;
    test_works(ctx, test_index_create(ctx, points, KITH_SQEUCLIDEAN, &index));
    assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
    kith_index_free(index);
    for (uint64_t percent = 60; percent <= 100; percent += 2) {
        ctx->params.memory_limit = report.peak_bytes * percent / 100;
        const kith_status status = test_index_create(ctx, points, KITH_SQEUCLIDEAN, &index);
        ctx->params.memory_limit = 0;
        if (status == KITH_OK) {
            without += ask_both(ctx, index, points, &query, K) == 0;
        } else {
            assert_int_equal(status, KITH_E_LIMIT);
        }
        kith_index_free(index);
    }
    assert_true(without > 0);
    return without;
}

/* Rows of a span of few columns, asked before and after some come and go; and independent ones,
 * which no span is near: there nothing is kept. */
static void kept_corpora(void **state)
{
    (void)state;
    enum { KEPT = 12000, MORE = 700, GONE = 50, ASKS = 40 };
    if (test_is_slow_build()) {
        printf("left to other builds\n");
        return;
    }
    test_rows all = natural_rows(KEPT + MORE, 9);
    test_rows asked = natural_rows(ASKS, 10);
    test_rows flat = test_shadow_rows(KITH_F32, KEPT, 64, SHAPE_GAUSS, 3);
    kith_ctx *ctx = plain_ctx();
    kith_matrix points = all.matrix;
    kith_matrix more = all.matrix;
    kith_matrix queries = asked.matrix;
    uint32_t gone[GONE];
    kith_index *index = NULL;
    points.rows = KEPT;
    more.rows = MORE;
    more.data = (const char *)all.matrix.data + KEPT * all.matrix.stride_bytes;
    for (int64_t i = 0; i < MORE; i += 3) { /* some were there already */
        test_rows_copy(&all, KEPT + i, &all, 5 * i);
    }
    int32_t axes = 0;
    for (int step = 0; step < 3; step++) {
        if (step == 0) {
            test_works(ctx, test_index_create(ctx, &points, KITH_SQEUCLIDEAN, &index));
        } else if (step == 1) {
            test_works(ctx, kith_index_add(ctx, index, &more));
            points.rows += MORE;
        } else {
            for (uint32_t i = 0; i < GONE; i++) { /* the last ones */
                gone[i] = (uint32_t)points.rows - GONE + i;
            }
            test_works(ctx, kith_index_remove(ctx, index, gone, GONE));
            points.rows -= GONE;
        }
        for (int64_t count = 1; count <= 16; count *= 4) {
            queries.rows = count;
            axes = ask_both(ctx, index, &points, &queries, 1 + 33 * (count - 1) / 5);
            assert_true(axes > 0);
        }
        queries.rows = ASKS;
        assert_int_equal(ask_both(ctx, index, &points, &queries, K), 0);
    }
    kith_index_free(index);
    const int without = make_with_less(ctx, &points, &asked.matrix);
    test_works(ctx, test_index_create(ctx, &flat.matrix, KITH_SQEUCLIDEAN, &index));
    queries = flat.matrix;
    queries.rows = 1;
    assert_int_equal(ask_both(ctx, index, &flat.matrix, &queries, K), 0);
    kith_index_free(index);
    kith_ctx_free(ctx);
    test_rows_free(&flat);
    test_rows_free(&asked);
    test_rows_free(&all);
    printf("few queries of an index read %" PRId32 " axes, after rows came and went, too, and many "
           "none; of independent columns nothing is kept, nor %d times for lack of memory\n",
           axes, without);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(theorem),       cmocka_unit_test(theorem_of_bytes),
        cmocka_unit_test(spoiled_basis), cmocka_unit_test(same_searches),
        cmocka_unit_test(few_queries),   cmocka_unit_test(kept_corpora),
        cmocka_unit_test(long_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
