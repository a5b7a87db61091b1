/* SPDX-License-Identifier: Apache-2.0
 * Preparation on a device against the processor's: the same lowest bad value and sentence, the same
 * bits of transforms, the same groups, a stable sort, an order that names every group once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "base/base_size.h"
#include "metric/metric_arith.h"
#include "screen/screen_prepare_gpu.h"
#include "support/support_gpu.h"
#include "support/support_placed.h"
#include "support/support_shapes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Check ---------------------------------------------------------------------------------- */

static bool is_bad(kith_dtype dtype, kith_metric metric, double x)
{
    const bool nonnegative = metric == KITH_CHI2 || metric == KITH_KL;
    return isnan(x) || isinf(x) || (nonnegative && x < 0) ||
           (dtype == KITH_F64 && fabs(x) > 0x1p500) ||
           (dtype == KITH_F64 && metric == KITH_KL && x > 0 && x < 0x1p-500);
}

static uint64_t lowest_bad(const kith_matrix *m, kith_metric metric)
{
    for (int64_t row = 0; row < m->rows; row++) {
        for (int32_t col = 0; col < m->cols; col++) {
            if (is_bad(m->dtype, metric, kin_value(m->dtype, test_row(m, row), col))) {
                return (uint64_t)(row * m->cols + col);
            }
        }
    }
    return UINT64_MAX;
}

static void check_case(const kith_matrix *m, kith_metric metric, int64_t skew)
{
    const test_placed p = test_place(m, metric, skew);
    uint64_t *bad = test_filled(0xff, sizeof *bad);
    const kin_screen_gpu_check job = {.rows = p.rows, .bad = bad};
    test_launch(test_device->module->screen->check(test_device->stream, &job), "check");
    uint64_t *got = test_fetched(bad, sizeof *bad);
    const uint64_t wanted = lowest_bad(m, metric);
    if (*got != wanted && test_tell()) {
        printf("check %s %s cols %d stride %" PRId64 " skew %" PRId64 ": got %" PRIx64
               ", wanted %" PRIx64 "\n",
               kith_dtype_name(m->dtype), kith_metric_name(metric), m->cols, m->stride_bytes, skew,
               *got, wanted);
    }
    free(got);
    kin_gpu_free(test_device, bad);
    kin_gpu_free(test_device, p.block);
}

static void finds_the_lowest_bad_value(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_CHI2, KITH_KL};
    static const double spoilers[] = {NAN, INFINITY, -INFINITY, -1.0, 0x1p501, 0x1p-501, -0.0};
    uint64_t seed = 1;
    int64_t cases = 0;
    test_wrong = 0;
    for (int i = 0; i < TEST_DTYPES * TEST_WIDTHS * TEST_GAPS * 3; i++) {
        const kith_dtype dtype = test_dtypes[i % TEST_DTYPES];
        const int32_t cols = test_widths[i / TEST_DTYPES % TEST_WIDTHS];
        const int64_t gap = test_gaps[i / (TEST_DTYPES * TEST_WIDTHS) % TEST_GAPS];
        const kith_metric metric = metrics[i / (TEST_DTYPES * TEST_WIDTHS * TEST_GAPS)];
        test_rows r = test_random_rows(dtype, 37, cols, gap, metric != KITH_EUCLIDEAN, &seed);
        for (int spoiled = 0; spoiled < 4; spoiled++) {
            check_case(&r.matrix, metric, spoiled % 2 * (gap == 3 ? 1 : 16));
            cases += 1;
            const int64_t row = (int64_t)kin_random_below(&seed, 37);
            const int64_t col = (int64_t)kin_random_below(&seed, (uint64_t)cols);
            if (kith_dtype_bytes(dtype) > 1) {
                test_rows_set(&r, row, col, spoilers[kin_random_below(&seed, 7)]);
            } else if (dtype == KITH_I8) {
                test_rows_set(&r, row, col, -1.0);
            }
        }
        test_rows_free(&r);
    }
    test_settle("check", cases);
}

/* The sentence is the processor's, rows of a stripe counted from the matrix's first. */
static void complains_like_the_processor(void **state)
{
    (void)state;
    uint64_t seed = 2;
    test_rows r = test_random_rows(KITH_F32, 50, 33, 5, false, &seed);
    test_rows_set(&r, 41, 7, NAN);
    assert_int_equal(kin_metric_check(test_device_ctx, &r.matrix, KITH_EUCLIDEAN, "points"),
                     KITH_E_DATA);
    char wanted[256];
    (void)snprintf(wanted, sizeof wanted, "%s", kith_ctx_detail(test_device_ctx));
    test_must(kin_ctx_begin(test_device_ctx));
    const kin_distance distance = {
        .metric = KITH_EUCLIDEAN, .cols = 33, .isa = test_device_ctx->isa};
    kin_screen_gpu_prepared prepared;
    const kin_screen_gpu_source source = {
        .matrix = &r.matrix, .distance = &distance, .name = "points"};
    assert_int_equal(kin_screen_gpu_prepare_corpus(test_device_ctx, test_device, &source, KITH_F32,
                                                   5, &prepared),
                     KITH_E_DATA);
    assert_string_equal(kith_ctx_detail(test_device_ctx), wanted);
    test_must(kin_ctx_begin(test_device_ctx));
    const kin_screen_gpu_frame frame = {.type = KIN_SCREEN_GPU_F16, .cols = 33, .row_bytes = 128};
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(test_device_ctx, test_device);
    kin_screen_gpu_source some = source;
    some.first = 40;
    some.count = 10;
    assert_int_equal(kin_screen_gpu_prepare_queries(&on, &some, &frame, &prepared), KITH_E_DATA);
    assert_string_equal(kith_ctx_detail(test_device_ctx), wanted);
    test_must(kin_ctx_begin(test_device_ctx));
    printf("both say: %s\n", wanted);
    test_rows_free(&r);
}

/* ---- Transforms ----------------------------------------------------------------------------- */

static void transform_case(const kith_matrix *m, kith_metric metric, int64_t skew)
{
    const test_placed p = test_place(m, metric, skew);
    const uint64_t n = (uint64_t)m->rows;
    uint8_t *flags = NULL;
    uint64_t count = 0;
    kin_row_transform *made = test_transforms(&p, &flags, &count);
    kin_row_transform *got = test_fetched(made, n * sizeof *got);
    uint8_t *marks = test_fetched(flags, n);
    kin_row_transform *wanted = calloc((size_t)n, sizeof *wanted);
    assert_non_null(wanted);
    test_must(kin_metric_transforms(test_device_ctx, m, metric, wanted));
    uint64_t degenerate = 0;
    for (uint64_t i = 0; i < n; i++) {
        degenerate += wanted[i].degenerate != 0 ? 1 : 0;
        const bool same = memcmp(&got[i], &wanted[i], sizeof *got) == 0 &&
                          (marks[i] != 0) == (wanted[i].degenerate != 0);
        if (!same && test_tell()) {
            printf("transform %s %s cols %d row %" PRIu64
                   ": %a %a %a %g (%d), wanted %a %a %a %g\n",
                   kith_dtype_name(m->dtype), kith_metric_name(metric), m->cols, i, got[i].scale,
                   got[i].shift, got[i].gain, got[i].degenerate, marks[i], wanted[i].scale,
                   wanted[i].shift, wanted[i].gain, wanted[i].degenerate);
        }
    }
    if (count != degenerate && test_tell()) {
        printf("transform: %" PRIu64 " degenerate rows, wanted %" PRIu64 "\n", count, degenerate);
    }
    free(wanted);
    free(marks);
    free(got);
    kin_gpu_free(test_device, flags);
    kin_gpu_free(test_device, made);
    kin_gpu_free(test_device, p.block);
}

static void transforms_have_the_processors_bits(void **state)
{
    (void)state;
    uint64_t seed = 3;
    int64_t cases = 0;
    test_wrong = 0;
    for (int i = 0; i < TEST_DTYPES * TEST_WIDTHS * TEST_GAPS; i++) {
        const kith_dtype dtype = test_dtypes[i % TEST_DTYPES];
        const int32_t cols = test_widths[i / TEST_DTYPES % TEST_WIDTHS];
        test_rows r = test_random_rows(dtype, 45, cols, test_gaps[i / (TEST_DTYPES * TEST_WIDTHS)],
                                       false, &seed);
        for (int32_t c = 0; c < cols; c++) { /* zero, constant, and tiny rows */
            test_rows_set(&r, 5, c, 0.0);
            test_rows_set(&r, 6, c, 7.0);
            test_rows_set(&r, 44, c, 7.0);
            test_rows_set(&r, 7, c, dtype == KITH_F64 ? 0x1p-1060 * (c % 5) : 1.0);
        }
        transform_case(&r.matrix, KITH_COSINE, i % 3);
        transform_case(&r.matrix, KITH_CORRELATION, 0);
        cases += 2;
        test_rows_free(&r);
    }
    test_settle("transforms", cases);
}

/* ---- Groups --------------------------------------------------------------------------------- */

static uint64_t group_on_device(const test_placed *p, uint64_t slots, uint32_t **firsts)
{
    const uint64_t n = (uint64_t)p->rows.rows;
    uint64_t *table = test_filled(0xff, slots * 16);
    uint32_t *made = test_device_room(n * sizeof *made);
    uint64_t *distinct = test_filled(0, sizeof *distinct);
    const kin_screen_gpu_group job = {
        .rows = p->rows, .slots = slots, .table = table, .firsts = made, .distinct = distinct};
    test_launch(test_device->module->screen->group(test_device->stream, &job), "group");
    *firsts = test_fetched(made, n * sizeof *made);
    uint64_t *count = test_fetched(distinct, sizeof *distinct);
    const uint64_t result = *count;
    free(count);
    kin_gpu_free(test_device, distinct);
    kin_gpu_free(test_device, made);
    kin_gpu_free(test_device, table);
    return result;
}

static void group_case(const kith_matrix *m, int64_t skew)
{
    const test_placed p = test_place(m, KITH_EUCLIDEAN, skew);
    const size_t bytes = (size_t)m->cols * (size_t)kith_dtype_bytes(m->dtype);
    uint64_t slots = 1;
    while (slots < 2 * (uint64_t)m->rows) {
        slots *= 2;
    }
    uint32_t *got = NULL;
    const uint64_t distinct = group_on_device(&p, slots, &got);
    const kin_rows rows = {.matrix = *m};
    kin_groups groups;
    test_must(kin_groups_make(test_device_ctx, &rows, false, &groups));
    uint32_t *wanted = malloc((size_t)m->rows * sizeof *wanted);
    assert_non_null(wanted);
    for (int64_t g = 0; g < groups.count; g++) {
        uint32_t id = groups.firsts[g];
        while (id != KITH_ID_NONE) {
            wanted[id] = groups.firsts[g];
            id = groups.next != NULL ? groups.next[id] : KITH_ID_NONE;
        }
    }
    for (int64_t i = 0; i < m->rows; i++) {
        if (got[i] != wanted[i] && test_tell()) {
            printf("group %s cols %d bytes %zu row %" PRId64 ": %" PRIu32 ", wanted %" PRIu32 "\n",
                   kith_dtype_name(m->dtype), m->cols, bytes, i, got[i], wanted[i]);
        }
    }
    if (distinct != (uint64_t)groups.count && test_tell()) {
        printf("group: %" PRIu64 " distinct, wanted %" PRId64 "\n", distinct, groups.count);
    }
    free(wanted);
    free(got);
    kin_groups_free(test_device_ctx, &groups);
    kin_gpu_free(test_device, p.block);
}

static void equal_rows_are_found(void **state)
{
    (void)state;
    static const test_shape shapes[] = {SHAPE_GAUSS, SHAPE_GRID, SHAPE_EQUAL, SHAPE_COPIES,
                                        SHAPE_SPARSE};
    uint64_t seed = 4;
    int64_t cases = 0;
    test_wrong = 0;
    for (int i = 0; i < TEST_DTYPES * 5 * TEST_WIDTHS; i++) {
        const int32_t cols = test_widths[i / (TEST_DTYPES * 5)];
        const int64_t n = cols > 300 ? 300 : i % 7 == 0 ? 4096 : 1001;
        test_rows r =
            test_rows_make(test_dtypes[i % TEST_DTYPES], n, cols, test_gaps[i % TEST_GAPS]);
        test_shape_fill(&r, shapes[i / TEST_DTYPES % 5], false, &seed);
        if (cols > 1) { /* two rows that differ in their last component alone */
            test_rows_copy(&r, n - 1, &r, 0);
            test_rows_set(&r, n - 1, cols - 1, 5.0);
        }
        group_case(&r.matrix, i % 2);
        cases += 1;
        test_rows_free(&r);
    }
    test_settle("groups", cases);
}

/* ---- Order ---------------------------------------------------------------------------------- */

static void cells_are_sorted_stably(void **state)
{
    (void)state;
    uint64_t seed = 6;
    test_wrong = 0;
    enum { POINTS = 5003, CELLS = 300 };
    uint64_t *nearest = malloc(POINTS * sizeof *nearest);
    uint32_t *ids = malloc(POINTS * sizeof *ids);
    assert_true(nearest != NULL && ids != NULL);
    for (int i = 0; i < POINTS; i++) {
        nearest[i] = kin_random_next(&seed) << 32 | kin_random_below(&seed, CELLS);
        ids[i] = (uint32_t)(3 * i + (i & 1));
    }
    uint64_t *nearest_there = test_device_room(POINTS * sizeof *nearest);
    uint32_t *ids_there = test_device_room(POINTS * sizeof *ids);
    uint32_t *order = test_device_room(POINTS * sizeof *order);
    test_must(kin_gpu_upload(test_device_ctx, test_device, nearest_there, nearest,
                             POINTS * sizeof *nearest));
    test_must(kin_gpu_upload(test_device_ctx, test_device, ids_there, ids, POINTS * sizeof *ids));
    uint64_t bytes = 0;
    kin_screen_gpu_sort job = {.nearest = nearest_there,
                               .ids = ids_there,
                               .points = POINTS,
                               .cell_count = CELLS,
                               .order = order,
                               .scratch_bytes = &bytes};
    test_launch(test_device->module->screen->sort(test_device->stream, &job), "sort");
    job.scratch = test_device_room(bytes);
    test_launch(test_device->module->screen->sort(test_device->stream, &job), "sort");
    uint32_t *got = test_fetched(order, POINTS * sizeof *order);
    int at = 0;
    for (uint32_t cell = 0; cell < CELLS; cell++) {
        for (int i = 0; i < POINTS; i++) {
            if ((uint32_t)nearest[i] == cell) {
                if (got[at] != ids[i] && test_tell()) {
                    printf("sort: place %d is %" PRIu32 ", wanted %" PRIu32 "\n", at, got[at],
                           ids[i]);
                }
                at += 1;
            }
        }
    }
    free(got);
    kin_gpu_free(test_device, job.scratch);
    kin_gpu_free(test_device, order);
    kin_gpu_free(test_device, ids_there);
    kin_gpu_free(test_device, nearest_there);
    free(ids);
    free(nearest);
    test_settle("sort", 1);
}

/* Mean radius of the balls: how well an order does. */
static double mean_radius(const kin_screen_gpu_prepared *p)
{
    const int64_t tiles = kin_ceil_div(p->set.points, KIN_SCREEN_GPU_TILE);
    float *radii = test_fetched(p->radii, (uint64_t)tiles * sizeof *radii);
    double sum = 0;
    for (int64_t t = 0; t < tiles; t++) {
        sum += radii[t];
    }
    free(radii);
    return sum / (double)tiles;
}

static void prepare_case(const kith_matrix *m, kith_metric metric, const char *name)
{
    const kin_distance distance = {.metric = metric, .cols = m->cols, .isa = test_device_ctx->isa};
    kin_screen_gpu_prepared p;
    const kin_screen_gpu_source source = {.matrix = m, .distance = &distance, .name = "points"};
    test_must(
        kin_screen_gpu_prepare_corpus(test_device_ctx, test_device, &source, m->dtype, 10, &p));
    kin_rows rows = {.matrix = *m};
    kin_row_transform *transforms = calloc((size_t)m->rows, sizeof *transforms);
    assert_non_null(transforms);
    if (kin_metric_get_traits(metric)->transforms) {
        test_must(kin_metric_transforms(test_device_ctx, m, metric, transforms));
        rows.transforms = transforms;
    }
    kin_groups groups;
    test_must(kin_groups_make(test_device_ctx, &rows, false, &groups));
    assert_int_equal(p.groups.rows, groups.rows);
    assert_int_equal(p.groups.count, groups.count);
    assert_int_equal(p.groups.degenerate, groups.degenerate);
    assert_int_equal(p.plain, groups.weights == NULL && groups.degenerate == 0);
    const size_t n = (size_t)groups.rows;
    if (!p.plain) {
        const size_t firsts = (size_t)groups.count * sizeof *groups.firsts;
        assert_memory_equal(p.groups.firsts, groups.firsts, firsts);
        assert_int_equal(p.groups.weights == NULL, groups.weights == NULL);
        if (groups.weights != NULL) {
            assert_memory_equal(p.groups.weights, groups.weights, n * sizeof(uint32_t));
            assert_memory_equal(p.groups.next, groups.next, n * sizeof(uint32_t));
        }
        if (groups.degenerate > 0) {
            assert_memory_equal(p.groups.degenerates, groups.degenerates,
                                (size_t)groups.degenerate * sizeof(uint32_t));
        }
    }
    /* Every first stands in the order once. */
    uint32_t *ids = test_fetched(p.ids, (uint64_t)groups.count * sizeof *ids);
    uint8_t *seen = calloc(n, 1);
    assert_non_null(seen);
    for (int64_t i = 0; i < groups.count; i++) {
        assert_true(ids[i] < n);
        seen[ids[i]] += 1;
    }
    for (int64_t g = 0; g < groups.count; g++) {
        if (seen[groups.firsts[g]] != 1 && test_tell()) {
            printf("order of %s: row %" PRIu32 " stands there %d times\n", name, groups.firsts[g],
                   seen[groups.firsts[g]]);
        }
    }
    if (p.radii != NULL) {
        const double ordered = mean_radius(&p);
        test_must(kin_gpu_upload(test_device_ctx, test_device, p.ids, groups.firsts,
                                 (uint64_t)groups.count * sizeof *ids));
        test_must(kin_screen_gpu_prepared_round(test_device_ctx, test_device, &p));
        const double listed = mean_radius(&p);
        printf("  %s %s: mean radius %.4g in order, %.4g as listed\n", name,
               kith_metric_name(metric), ordered, listed);
    }
    free(seen);
    free(ids);
    kin_groups_free(test_device_ctx, &groups);
    free(transforms);
    kin_screen_gpu_prepared_free(test_device_ctx, test_device, &p);
}

static void corpora_are_prepared(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_COSINE, KITH_INNER_PRODUCT};
    uint64_t seed = 7;
    int64_t cases = 0;
    test_wrong = 0;
    const uint64_t held = test_device->held;
    for (int shape = 0; shape < SHAPE_COUNT; shape++) {
        for (int i = 0; i < 6; i++) {
            test_rows r = test_rows_make(i % 2 == 0 ? KITH_F32 : KITH_U8,
                                         shape == SHAPE_CLUSTERS ? 40000 : 6000, 24, 0);
            test_shape_fill(&r, (test_shape)shape, false, &seed);
            prepare_case(&r.matrix, metrics[i / 2], test_shape_name((test_shape)shape));
            cases += 1;
            test_rows_free(&r);
        }
    }
    assert_true(test_device->held == held);
    test_settle("corpora", cases);
}

/* ---- All of it ------------------------------------------------------------------------------ */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_lowest_bad_value),
        cmocka_unit_test(complains_like_the_processor),
        cmocka_unit_test(transforms_have_the_processors_bits),
        cmocka_unit_test(equal_rows_are_found),
        cmocka_unit_test(cells_are_sorted_stably),
        cmocka_unit_test(corpora_are_prepared),
    };
    return test_gpu_is_absent()
               ? TEST_SKIPPED
               : cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
