/* SPDX-License-Identifier: Apache-2.0
 * Shadows on a GPU: they are never farther apart than the rows that they were cast from, less what
 * both have lost; a graph that is screened by them has the bytes of the processor's, whatever their
 * number, and where what passes finds no room to wait, too. A basis that is not what it says must
 * be seen to fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exact/exact_search_gpu.h"
#include "metric/metric_arith.h"
#include "support/support_answers.h"
#include "support/support_gpu.h"
#include "support/support_rows.h"
#include "support/support_screen.h"
#include "support/support_shapes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { K = 7, COLS = 130, SPAN = SHAPE_COUNT, SHAPES = SHAPE_COUNT + 1 };

static const double PI = 3.14159265358979323846;

/* SPAN: near a subspace of three columns, as rows of nature are. */
static test_rows rows_of(kith_dtype dtype, int64_t count, int shape, uint64_t seed)
{
    test_rows rows = test_rows_make(dtype, count, COLS, 0);
    if (shape < SPAN) {
        test_shape_fill(&rows, (test_shape)shape, false, &seed);
        return rows;
    }
    for (int64_t row = 0; row < count; row++) {
        const double factor[3] = {test_gauss(&seed), test_gauss(&seed), test_gauss(&seed)};
        for (int col = 0; col < COLS; col++) {
            double x = 0.02 * test_gauss(&seed);
            for (int i = 0; i < 3; i++) {
                x += factor[i] * sin((double)(col * (i + 1) + i));
            }
            test_rows_set(&rows, row, col, 20.0 * x);
        }
    }
    return rows;
}

/* ---- The theorem ----------------------------------------------------------------------------- */

/* Shadows as the kernel of casts gives them. */
typedef struct shadows {
    float *values; /* points x (axes + 1) */
    float *off;
} shadows;

/* Of a basis of `axes` columns of the rows, each longer than it says by `spoil`. */
static shadows cast(test_bench *b, const kin_screen_gpu_set *set, int32_t axes, double spoil)
{
    const int64_t cols = set->frame.cols;
    const uint64_t points = (uint64_t)set->points;
    const uint64_t wide = (uint64_t)axes + 1;
    float *basis = test_host_block((uint64_t)cols * KIN_SCREEN_GPU_MOST_AXES, sizeof *basis);
    float *mean = test_host_block((uint64_t)cols, sizeof *mean);
    const int before = b->block_count;
    for (int64_t c = 0; c < cols; c++) {
        mean[c] = (float)(0.25 * (double)(c % 5));
        for (int32_t j = 0; j < axes; j++) { /* a basis of cosines */
            const double angle = PI * ((double)c + 0.5) * (double)j / (double)cols;
            const double scale = sqrt((j == 0 ? 1.0 : 2.0) / (double)cols);
            basis[c * KIN_SCREEN_GPU_MOST_AXES + j] = (float)(spoil * scale * cos(angle));
        }
    }
    const kin_screen_gpu_cast job = {
        .set = *set,
        .mean = test_bench_copy(b, mean, (uint64_t)cols * sizeof *mean),
        .basis =
            test_bench_copy(b, basis, (uint64_t)cols * KIN_SCREEN_GPU_MOST_AXES * sizeof *basis),
        .axes = axes,
        .skew = 1e-6,
        .values = test_bench_block(b, points * wide * sizeof(float), 0xa5),
        .off = test_bench_block(b, points * sizeof(float), 0xa5)};
    test_bench_launched(b, b->gpu->module->screen->cast(b->gpu->stream, &job), "casting");
    const shadows s = {test_host_copy(b, job.values, points * wide * sizeof(float)),
                       test_host_copy(b, job.off, points * sizeof(float))};
    test_give_back(b, before);
    free(basis);
    free(mean);
    return s;
}

static double stored(const kin_screen_gpu_set *set, const unsigned char *rounded, int64_t p,
                     int64_t c)
{
    const char *row = (const char *)rounded + p * set->frame.row_bytes;
    return kin_value(set->frame.type == KIN_SCREEN_GPU_F16 ? KITH_F16 : KITH_I8, row, c);
}

/* Pairs whose shadows are farther apart than they may be: what the rounded rows have lost does not
 * count, since these are what the shadows were cast from. */
static int64_t broken_pairs(test_bench *b, const kin_screen_gpu_set *set, int32_t axes,
                            double spoil)
{
    const shadows s = cast(b, set, axes, spoil);
    const uint64_t bytes = (uint64_t)set->padded * (uint64_t)set->frame.row_bytes;
    unsigned char *rounded = test_host_copy(b, set->rounded, bytes);
    kin_screen_gpu_facts *facts =
        test_host_copy(b, set->facts, (uint64_t)set->padded * sizeof *facts);
    int64_t broken = 0;
    for (int64_t p = 0; p < set->points; p++) {
        for (int64_t q = 0; q < p; q++) {
            double of_rows = 0.0;
            double of_shadows = 0.0;
            for (int32_t c = 0; c < set->frame.cols; c++) {
                const double t = stored(set, rounded, p, c) - stored(set, rounded, q, c);
                of_rows += t * t;
            }
            for (int32_t j = 0; j <= axes; j++) {
                const double t =
                    (double)s.values[p * (axes + 1) + j] - (double)s.values[q * (axes + 1) + j];
                of_shadows += t * t;
            }
            const double off =
                (double)s.off[p] - (double)facts[p].lost + (double)s.off[q] - (double)facts[q].lost;
            const double near = 0x1p-22 * ((double)s.off[p] + (double)s.off[q]); /* fp32 */
            broken += sqrt(of_shadows) > (sqrt(of_rows) + off) * (1.0 + 0x1p-40) + near;
        }
    }
    free(facts);
    free(rounded);
    free(s.values);
    free(s.off);
    return broken;
}

static int64_t check_shape(test_bench *b, kith_dtype dtype, int shape, double spoil)
{
    static const int32_t axes[] = {1, 15, 32, 64, 127};
    test_rows rows = rows_of(dtype, 200, shape, (uint64_t)shape + 3);
    const kin_distance distance = {
        .metric = KITH_EUCLIDEAN, .cols = rows.matrix.cols, .isa = b->ctx->isa};
    const kin_screen_gpu_source source = {
        .matrix = &rows.matrix, .distance = &distance, .name = "points"};
    kin_screen_gpu_prepared p;
    int64_t broken = 0;
    assert_int_equal(kin_screen_gpu_prepare_corpus(b->ctx, b->gpu, &source, dtype, K, &p), KITH_OK);
    for (size_t i = 0; i < sizeof axes / sizeof *axes && p.set.points > 0; i++) {
        broken += broken_pairs(b, &p.set, axes[i], spoil);
    }
    kin_screen_gpu_prepared_free(b->ctx, b->gpu, &p);
    test_rows_free(&rows);
    return broken;
}

static void theorem(void **state)
{
    test_bench *b = *state;
    int cases = 0;
    for (int shape = 0; shape < SHAPES; shape += test_is_slow_build() ? 3 : 1) {
        for (int d = 0; d < 2; d++) {
            assert_int_equal(check_shape(b, d == 0 ? KITH_F32 : KITH_I8, shape, 1.0), 0);
            cases += 5;
        }
    }
    const int64_t spoiled = check_shape(b, KITH_F32, SPAN, 1.05);
    assert_true(spoiled > 0);
    printf("%d casts of rows of every shape: no shadow is farther than its row; of a basis that is "
           "longer than it says %" PRId64 " pairs are\n",
           cases, spoiled);
}

/* ---- The same bytes -------------------------------------------------------------------------- */

typedef struct graph {
    kith_dtype dtype;
    kith_metric metric;
    int shape;
    int32_t axes;
    uint64_t memory;
} graph;

static int64_t rows_with_stages(void)
{
    return test_rows_with_stages(test_is_slow_build() ? 2100 : 4100, K);
}

/* By shadows of so many axes, as bytes if negative, and how many pairs were looked at. kept: one
 * more, unless so many rows are equal that the rest is a small graph, which has no stages. */
static double check_graph(kith_ctx *cpu, const graph *g, int64_t count, int *kept)
{
    test_rows points = rows_of(g->dtype, count, g->shape, 5);
    kith_neighbors truth = test_answer_exact(cpu, &points.matrix, g->metric, K, 0);
    kith_neighbors out = test_answer_make(count, K);
    kith_ctx *ctx = test_gpu_ctx(2, g->memory);
    kin_gpu *gpu = NULL;
    assert_int_equal(kin_gpu_open(ctx, 0, g->memory, &gpu), KITH_OK);
    const kin_request request = {.distance = {.metric = g->metric, .cols = COLS, .isa = ctx->isa},
                                 .k = K,
                                 .shadow_axes = g->axes};
    const kin_exact_gpu_query query = {.name = "points", .request = &request, .out = &out};
    assert_int_equal(kin_ctx_begin(ctx), KITH_OK);
    assert_int_equal(kin_exact_gpu_search(ctx, gpu, &points.matrix, &query), KITH_OK);
    assert_true(test_answers_equal(&truth, &out));
    const int32_t wanted = g->axes == KIN_SCREEN_GPU_SHADOW_BYTES ? COLS : abs(g->axes);
    const bool small = ctx->report.distinct_rows <= kin_screen_gpu_small_graph(gpu, K + 1, 0);
    assert_int_equal(ctx->report.shadow_axes, small ? 0 : wanted);
    *kept += !small;
    const double looked = ctx->report.looked_share;
    kin_gpu_close(ctx, gpu);
    kith_ctx_free(ctx);
    test_answer_free(&out);
    test_answer_free(&truth);
    test_rows_free(&points);
    return looked;
}

/* sign: of the axes. */
static void check_graphs(int32_t sign, const char *type)
{
    static const kith_metric metrics[] = {KITH_SQEUCLIDEAN, KITH_EUCLIDEAN, KITH_COSINE,
                                          KITH_CORRELATION};
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_F16, KITH_BF16};
    static const int32_t axes[] = {3, 15, 31, 63, 127};
    kith_ctx *cpu = test_cpu_ctx();
    const int64_t count = rows_with_stages();
    int cases = 0;
    int kept = 0;
    for (int shape = 0; shape < SHAPES; shape += test_is_slow_build() ? 5 : 1) {
        if (shape == SHAPE_EQUAL || shape == SHAPE_GRID || shape == SHAPE_TINY) {
            continue; /* too few distinct rows to have stages, in some types */
        }
        const graph g = {.dtype = dtypes[shape % 4],
                         .metric = metrics[(shape + 1) % 4],
                         .shape = shape,
                         .axes = sign * axes[shape % 5]};
        (void)check_graph(cpu, &g, count, &kept);
        cases++;
    }
    kith_ctx_free(cpu);
    printf("%d graphs by shadows of axes as %s, %d of them with stages: the bytes of the "
           "processor's\n",
           cases, type, kept);
    assert_true(2 * kept > cases);
}

static void same_graphs(void **state)
{
    (void)state;
    check_graphs(1, "halves");
}

static void same_graphs_of_few_bytes(void **state)
{
    (void)state;
    check_graphs(-1, "bytes");
}

static void same_graphs_of_bytes(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_SQEUCLIDEAN, KITH_COSINE, KITH_EUCLIDEAN};
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_F16, KITH_BF16};
    kith_ctx *cpu = test_cpu_ctx();
    const int64_t count = rows_with_stages();
    double most = 0.0;
    int cases = 0;
    int kept = 0;
    for (int shape = 0; shape < SHAPES; shape += test_is_slow_build() ? 5 : 1) {
        if (shape == SHAPE_EQUAL || shape == SHAPE_GRID || shape == SHAPE_TINY) {
            continue;
        }
        const graph g = {.dtype = dtypes[shape % 4],
                         .metric = metrics[shape % 3],
                         .shape = shape,
                         .axes = KIN_SCREEN_GPU_SHADOW_BYTES};
        most = fmax(most, check_graph(cpu, &g, count, &kept));
        cases++;
    }
    assert_true(most > 0.0 && 2 * kept > cases);
    kith_ctx_free(cpu);
    printf("%d graphs by shadows of bytes: the bytes of the processor's; at most %.2f %% of pairs "
           "were looked at\n",
           cases, 100.0 * most);
}

/* A budget that leaves room for few pairs to wait. */
static void no_room(void **state)
{
    (void)state;
    kith_ctx *cpu = test_cpu_ctx();
    const int64_t count = rows_with_stages();
    const graph g = {.dtype = KITH_F32,
                     .metric = KITH_EUCLIDEAN,
                     .shape = SHAPE_GAUSS,
                     .axes = 3,
                     .memory = 6144 * (uint64_t)count};
    int kept = 0;
    const double looked = check_graph(cpu, &g, count, &kept);
    const double pairs = looked * 0.5 * (double)count * (double)count;
    assert_true(pairs > (double)(g.memory / 16 / sizeof(uint64_t)));
    printf("%.0f pairs waited for a look where there was room for %" PRIu64 "\n", pairs,
           g.memory / 16 / sizeof(uint64_t));
    kith_ctx_free(cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(theorem, test_bench_setup, test_bench_teardown),
        cmocka_unit_test(same_graphs), cmocka_unit_test(same_graphs_of_few_bytes),
        cmocka_unit_test(same_graphs_of_bytes), cmocka_unit_test(no_room)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
