/* SPDX-License-Identifier: Apache-2.0
 * Cross-matching of NN-Descent on a device against plain loops: the same offers, to the last bit,
 * in two runs. Rounded rows hold whole numbers whose products and sums fp32 has exactly; rows as
 * given are compared by the processor's canonical keys. Lists are full, nearly full or empty at
 * their end, many costs are equal, samples are 0 to 64, blocks take one point or many; of two sets
 * pairs of different ones alone.
 *
 * KITH_TIMES: prints how long a round of a million points takes, and asserts nothing of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "graph/graph_kernels.h"
#include "support/support_device.h"
#include "support/support_gpu.h"
#include "support/support_join.h"
#include "support/support_shapes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void run_rounded(test_join s)
{
    s.seed = (uint64_t)(s.cols * 1000 + s.forward * 10 + s.news);
    s.name = s.type == KIN_SCREEN_GPU_S8 ? "s8" : "f16";
    test_join_round(&s);
    test_join_run(&s);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static const int32_t mixes[][2] = {{4, 4}, {8, 8}, {10, 7}, {16, 16}, {20, 30}, {32, 32}};
enum { MIXES = sizeof mixes / sizeof mixes[0] };

static void rounded_rows(void **state)
{
    (void)state;
    static const int32_t cols[] = {3, 16, 64, 100, 128, 130, 960};
    test_wrong = 0;
    int cases = 0;
    for (int type = KIN_SCREEN_GPU_F16; type <= KIN_SCREEN_GPU_S8; type++) {
        for (size_t c = 0; c < sizeof cols / sizeof cols[0]; c++) {
            for (int m = 0; m < 2 * MIXES; m++) {
                run_rounded((test_join){.type = (kin_screen_gpu_type)type,
                                        .cols = cols[c],
                                        .points = 300,
                                        .forward = mixes[m / 2][0],
                                        .reverse = mixes[m / 2][1],
                                        .news = -1,
                                        .olds = -1,
                                        .all = m % 2 == 1,
                                        .products = c % 2 == 1});
                cases++;
            }
        }
    }
    printf("rounded rows: %d cases, all offers of both runs as in plain loops; %d wrong\n", cases,
           test_wrong);
    assert_int_equal(test_wrong, 0);
}

static void numbers_of_samples(void **state)
{
    (void)state;
    static const int32_t counts[] = {0, 1, 7, 16, 17, 64};
    enum { COUNTS = sizeof counts / sizeof counts[0] };
    test_wrong = 0;
    for (int type = KIN_SCREEN_GPU_F16; type <= KIN_SCREEN_GPU_S8; type++) {
        for (int n = 0; n < COUNTS * COUNTS; n++) {
            run_rounded((test_join){.type = (kin_screen_gpu_type)type,
                                    .cols = 100,
                                    .points = 200,
                                    .forward = 32,
                                    .reverse = 32,
                                    .news = counts[n / COUNTS],
                                    .olds = counts[n % COUNTS],
                                    .all = n % 5 == 4});
        }
    }
    printf("every pair of %d numbers of samples: %d wrong\n", COUNTS, test_wrong);
    assert_int_equal(test_wrong, 0);
}

/* So many that every block takes several, of one slice also side by side (on 132 processors). */
static void many_points(void **state)
{
    (void)state;
    static const int64_t points[MIXES] = {170001, 170001, 90001, 90001, 40001, 40001};
    test_wrong = 0;
    for (int type = KIN_SCREEN_GPU_F16; type <= KIN_SCREEN_GPU_S8; type++) {
        for (int m = 0; m < 2 * MIXES; m++) {
            run_rounded((test_join){.type = (kin_screen_gpu_type)type,
                                    .cols = m % 2 == 0 ? 16 : 130,
                                    .points = test_fewer(m % 2 == 0 ? points[m / 2] : 20001),
                                    .forward = mixes[m / 2][0],
                                    .reverse = mixes[m / 2][1],
                                    .news = -1,
                                    .olds = m / 2 < 4 ? -1 : 7,
                                    .all = m % 6 == 3});
        }
    }
    printf("many points: %d wrong\n", test_wrong);
    assert_int_equal(test_wrong, 0);
}

static void two_sets(void **state)
{
    (void)state;
    static const int32_t cols[] = {3, 64, 130, 960};
    static const int64_t splits[] = {1, 130, 299};
    test_wrong = 0;
    for (int type = KIN_SCREEN_GPU_F16; type <= KIN_SCREEN_GPU_S8; type++) {
        for (int n = 0; n < 4 * 2 * MIXES; n++) {
            run_rounded((test_join){.type = (kin_screen_gpu_type)type,
                                    .cols = cols[n % 4],
                                    .points = 300,
                                    .forward = mixes[n / 8][0],
                                    .reverse = mixes[n / 8][1],
                                    .news = -1,
                                    .olds = -1,
                                    .all = n / 4 % 2 == 1,
                                    .products = n % 3 == 1,
                                    .split = splits[n % 3]});
        }
        for (int m = 0; m < MIXES; m++) {
            run_rounded((test_join){.type = (kin_screen_gpu_type)type,
                                    .cols = 130,
                                    .points = test_fewer(40001),
                                    .forward = mixes[m][0],
                                    .reverse = mixes[m][1],
                                    .news = -1,
                                    .olds = -1,
                                    .all = m % 2 == 1,
                                    .split = 1500});
        }
    }
    printf("two sets: offers and numbers of pairs of plain loops; %d wrong\n", test_wrong);
    assert_int_equal(test_wrong, 0);
}

static void run_given(kith_metric metric, kith_dtype dtype, int32_t cols, int variant)
{
    enum { POINTS = 150 };
    test_join s = {.name = kith_metric_name(metric),
                   .type = KIN_SCREEN_GPU_F16,
                   .cols = cols,
                   .points = POINTS,
                   .forward = mixes[variant % MIXES][0],
                   .reverse = mixes[variant % MIXES][1],
                   .news = -1,
                   .olds = -1,
                   .all = variant % 4 == 3,
                   .seed = (uint64_t)variant + 1};
    const kin_metric_traits *traits = kin_metric_get_traits(metric);
    test_device_rows points = {.rows = test_rows_make(dtype, POINTS, cols, cols % 3)};
    test_rows_fill(&points.rows, 20, traits->nonnegative || dtype == KITH_U8, &s.seed);
    for (int32_t c = 0; c < cols; c++) {
        test_rows_set(&points.rows, 7, c, 0);
    }
    test_device_rows_finish(&points, metric);
    uint32_t ids[POINTS];
    for (uint32_t p = 0; p < POINTS; p++) {
        ids[p] = p * 7 % POINTS; /* 7 and 150 have no common divisor */
    }
    const kin_distance distance = {.metric = metric, .cols = cols, .isa = test_device_ctx->isa};
    double *values = aligned_alloc(64, ((size_t)cols * sizeof(double) + 63) / 64 * 64);
    assert_non_null(values);
    s.keys = test_host_room(sizeof(double) * POINTS * POINTS);
    s.symmetric = traits->symmetric;
    for (int64_t p = 0; p < POINTS; p++) {
        const kin_query query = kin_metric_load(&distance, &points.on_host, ids[p], values);
        kin_metric_keys(&distance, &query, &points.on_host, ids, POINTS, s.keys + p * POINTS);
    }
    free(values);
    s.job.points.rows = points.on_device;
    s.job.points.set.points = POINTS;
    s.job.points.set.ids = test_join_hold(&s, test_device_copy(ids, sizeof ids));
    s.rows = ids;
    s.split = variant % 3 == 1 ? 60 : 0;
    test_join_run(&s);
    test_device_rows_free(&points);
}

static void rows_as_given(void **state)
{
    (void)state;
    static const int32_t cols[] = {1, 3, 8, 37, 130};
    test_wrong = 0;
    int cases = 0;
    for (int metric = KITH_EUCLIDEAN; metric < KITH_CUSTOM; metric++) {
        for (int dtype = KITH_F32; dtype <= KITH_I8; dtype++) {
            for (size_t c = 0; c < sizeof cols / sizeof cols[0]; c++) {
                run_given((kith_metric)metric, (kith_dtype)dtype, cols[c], cases++);
            }
        }
    }
    printf("rows as given: %d cases, costs are canonical keys; %d wrong\n", cases, test_wrong);
    assert_int_equal(test_wrong, 0);
}

/* ---- Times ----------------------------------------------------------------------------------- */

/* Samples within 200 positions of their point, distinct and ascending: one of every so many. */
static void near_samples(uint32_t *ids, int64_t points, int32_t count, int64_t first,
                         uint64_t *seed)
{
    const int64_t step = 400 / count;
    for (int64_t p = 0; p < points; p++) {
        const int64_t base = p < 200 ? 0 : p + 200 >= points ? points - 401 : p - 200;
        for (int64_t i = 0; i < count; i++) {
            const int64_t id =
                base + i * step + (int64_t)kin_random_below(seed, (uint64_t)step / 2) * 2 + first;
            ids[p * count + i] = (uint32_t)id;
        }
    }
}

static void time_round(const test_join *s, int32_t count)
{
    const kin_gpu_ops *ops = test_device->module->ops;
    test_join t = *s;
    const uint64_t bytes = (uint64_t)s->points * (uint64_t)count * sizeof(uint32_t);
    uint32_t *ids = test_host_room(bytes);
    int32_t *counts = test_host_room((size_t)s->points * sizeof *counts);
    for (int64_t p = 0; p < s->points; p++) {
        counts[p] = count;
    }
    t.held_count = 0;
    t.job.samples.forward = count / 2;
    t.job.samples.reverse = count - count / 2;
    near_samples(ids, s->points, count, 0, &t.seed);
    t.job.samples.new_ids = test_join_hold(&t, test_device_copy(ids, bytes));
    near_samples(ids, s->points, count, 1, &t.seed);
    t.job.samples.old_ids = test_join_hold(&t, test_device_copy(ids, bytes));
    t.job.samples.new_counts =
        test_join_hold(&t, test_device_copy(counts, (uint64_t)s->points * sizeof *counts));
    t.job.samples.old_counts = t.job.samples.new_counts;
    void *begin = NULL;
    void *end = NULL;
    test_launch(ops->event_make(&begin), "event");
    test_launch(ops->event_make(&end), "event");
    for (int run = 0; run < 3; run++) {
        float milliseconds = 0;
        test_launch(ops->event_record(test_device->stream, begin), "event");
        test_launch(test_device->module->graph->join(test_device->stream, &t.job), "join");
        test_launch(ops->event_record(test_device->stream, end), "event");
        test_launch(ops->event_wait(end), "event");
        test_launch(ops->event_between(begin, end, &milliseconds), "event");
        printf("%" PRId64 " x %d %s, %d NEW + %d OLD, run %d: %.2f ms\n", s->points, s->cols,
               s->name, count, count, run, (double)milliseconds);
        (void)fflush(stdout);
    }
    ops->event_free(begin);
    ops->event_free(end);
    for (int i = 0; i < t.held_count; i++) {
        kin_gpu_free(test_device, t.held[i]);
    }
    free(ids);
    free(counts);
}

static void times(void **state)
{
    (void)state;
    if (getenv("KITH_TIMES") == NULL) {
        return;
    }
    static const int32_t counts[] = {8, 16, 24, 32, 64};
    for (int type = KIN_SCREEN_GPU_F16; type <= KIN_SCREEN_GPU_S8; type++) {
        test_join s = {.name = type == KIN_SCREEN_GPU_S8 ? "s8" : "f16",
                       .type = (kin_screen_gpu_type)type,
                       .cols = 128,
                       .points = 1000000,
                       .seed = 11};
        const uint64_t list_bytes = (uint64_t)s.points * TEST_JOIN_LENGTH * sizeof(uint64_t);
        const uint64_t offer_bytes = (uint64_t)s.points * KIN_GRAPH_GPU_SLOTS * sizeof(uint64_t);
        test_join_round(&s);
        s.job.graph.points = s.points;
        s.job.graph.length = TEST_JOIN_LENGTH;
        s.job.graph.words = test_join_hold(&s, test_device_room(list_bytes));
        s.job.offers = test_join_hold(&s, test_device_room(offer_bytes));
        s.job.evaluations = test_join_hold(&s, test_device_room(sizeof(uint64_t)));
        test_must(kin_gpu_fill(test_device_ctx, test_device, s.job.evaluations, 0, 8));
        for (int full = 0; full < 2; full++) {
            printf("lists %s\n", full == 1 ? "that take nothing" : "that take every offer");
            test_must(kin_gpu_fill(test_device_ctx, test_device, s.job.graph.words,
                                   full == 1 ? 0 : 0xff, list_bytes));
            test_must(kin_gpu_fill(test_device_ctx, test_device, s.job.offers, 0xff, offer_bytes));
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
                time_round(&s, counts[c]);
            }
        }
        test_join_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounded_rows),  cmocka_unit_test(numbers_of_samples),
        cmocka_unit_test(many_points),   cmocka_unit_test(two_sets),
        cmocka_unit_test(rows_as_given), cmocka_unit_test(times),
    };
    return test_gpu_is_absent()
               ? TEST_SKIPPED
               : cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
