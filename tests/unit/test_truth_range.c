/* SPDX-License-Identifier: Apache-2.0
 * Ground truth within a radius against the oracle, to the last bit, however the corpus is cut into
 * matrices and parts; what is left behind by jobs that end early; certificates. */
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
#include "support/support_truth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Within a radius ------------------------------------------------------------------------- */

typedef struct range_answer {
    int64_t offsets[MOST_QUERIES + 1];
    uint32_t ids[MOST_QUERIES * MOST_ROWS];
    double distances[MOST_QUERIES * MOST_ROWS];
} range_answer;

static bool is_within(const kith_truth_params *params, double distance)
{
    return params->metric == KITH_INNER_PRODUCT ? distance >= params->radius
                                                : distance <= params->radius;
}

static range_answer *brute_range(const test_truths_input *in)
{
    const kith_truth_params *params = &in->params;
    range_answer *out = calloc(1, sizeof *out);
    assert_non_null(out);
    for (int64_t query = 0; query < in->queries.matrix.rows; query++) {
        test_candidate all[MOST_ROWS];
        int64_t count = 0;
        for (int64_t row = 0; row < in->corpus.matrix.rows; row++) {
            const double key =
                oracle_key(params->metric, &in->queries.matrix, query, &in->corpus.matrix, row);
            if (test_truths_allows(params->filter, query, row) &&
                is_within(params, oracle_distance(params->metric, key))) {
                all[count++] = (test_candidate){key, row};
            }
        }
        qsort(all, (size_t)count, sizeof *all, test_candidate_compare);
        out->offsets[query + 1] = out->offsets[query] + count;
        for (int64_t i = 0; i < count; i++) {
            out->ids[out->offsets[query] + i] = (uint32_t)(all[i].id + (int64_t)params->first_id);
            out->distances[out->offsets[query] + i] = oracle_distance(params->metric, all[i].key);
        }
    }
    return out;
}

/* Of a radius that is exactly the distance of some pair, or near one. */
static test_truths_input *input_range(kith_metric metric, uint64_t *seed)
{
    test_truths_input *in = test_truths_make(metric, seed);
    const int64_t query = test_pick(seed, in->queries.matrix.rows);
    const int64_t row = test_pick(seed, in->corpus.matrix.rows);
    const double key = oracle_key(metric, &in->queries.matrix, query, &in->corpus.matrix, row);
    const double distance = oracle_distance(metric, key);
    in->params.k = 0;
    in->params.ids = NULL;
    in->params.distances = NULL;
    in->params.ties = NULL;
    in->params.first_id = test_pick(seed, 2) == 0 ? 0 : 1000;
    in->params.flags = KITH_WITHIN_RADIUS;
    in->params.radius = isfinite(distance) ? distance : 1.0;
    if (test_pick(seed, 4) == 0) {
        in->params.radius = nextafter(in->params.radius, test_pick(seed, 2) == 0 ? 0.0 : 1e300);
    }
    return in;
}

static void check_lists(const test_truths_input *in, const kith_lists *lists,
                        const range_answer *wanted)
{
    const int64_t queries = in->queries.matrix.rows;
    const size_t entries = (size_t)wanted->offsets[queries];
    assert_int_equal(lists->rows, queries);
    assert_memory_equal(lists->offsets, wanted->offsets,
                        ((size_t)queries + 1) * sizeof wanted->offsets[0]);
    assert_memory_equal(lists->ids, wanted->ids, entries * sizeof wanted->ids[0]);
    assert_memory_equal(lists->distances64, wanted->distances,
                        entries * sizeof wanted->distances[0]);
    for (size_t i = 0; i < entries; i++) {
        assert_true(lists->distances[i] == (float)wanted->distances[i]);
    }
}

static void radii_are_the_oracles(void **state)
{
    (void)state;
    const int trials = test_is_slow_build() ? 300 : 3000;
    uint64_t seed = 24;
    int64_t found = 0;
    kith_ctx *ctx[] = {test_ctx(kin_cpu_best(), 1), test_ctx(kin_cpu_best(), 3)};
    for (int trial = 0; trial < trials; trial++) {
        const int turn = trial % (KITH_KL + 1);
        const kith_metric metric =
            turn < KITH_KL ? (kith_metric)(KITH_EUCLIDEAN + turn) : TEST_MINKOWSKI_3;
        test_truths_input *in = input_range(metric, &seed);
        range_answer *wanted = brute_range(in);
        kith_ranges *ranges = NULL;
        kith_truth_report report;
        in->params.ranges = &ranges;
        test_works(ctx[trial % 2], test_truths_find(ctx[trial % 2], in, &report));
        check_lists(in, kith_ranges_lists(ranges), wanted);
        assert_int_equal(report.found, wanted->offsets[in->queries.matrix.rows]);
        found += report.found;
        kith_ranges_free(ranges);
        free(wanted);
        test_truths_free(in);
    }
    kith_ctx_free(ctx[1]);
    kith_ctx_free(ctx[0]);
    assert_true(found > trials);
    (void)printf("%d trials (metrics, types, shapes, files, parts, filters; radii that are a "
                 "pair's distance): all rows within are the oracle's, %lld of them\n",
                 trials, (long long)found);
}

static void radii_go_on_and_are_held(void **state)
{
    test_folder *folder = *state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    int resumed = 0;
    int held = 0;
    for (uint64_t first = 1; first < 60; first++) {
        uint64_t seed = first;
        test_truths_input *in =
            input_range(first % 2 == 0 ? KITH_EUCLIDEAN : KITH_INNER_PRODUCT, &seed);
        const bool is_range = first % 3 != 0;
        kith_truth_report report;
        char path[2][320];
        int left = 1 + (int)test_pick(&seed, 3);
        (void)snprintf(path[0], sizeof path[0], "%s",
                       test_path(folder, is_range ? "whole.range" : "whole.kith"));
        (void)snprintf(path[1], sizeof path[1], "%s",
                       test_path(folder, is_range ? "pieces.range" : "pieces.kith"));
        in->params.path = path[0];
        in->params.part_rows = 0;
        test_works(ctx, test_truths_find(ctx, in, &report));
        in->params.path = path[1];
        in->params.part_rows = 1 + in->corpus.matrix.rows / 9;
        in->params.take = test_stop_after_some;
        in->params.take_arg = &left;
        if (test_truths_find(ctx, in, &report) == KITH_E_CANCELLED) {
            const double radius = in->params.radius;
            in->params.radius = radius == 0.0 ? 1.0 : radius / 2.0;
            test_fails(ctx, test_truths_find(ctx, in, &report), KITH_E_ARGUMENT,
                       "is of another job");
            in->params.radius = radius;
            in->params.take = NULL;
            test_works(ctx, test_truths_find(ctx, in, &report));
            resumed += report.resumed > 0;
        }
        test_same_file(path[0], path[1]);
        kith_truth_params verify = kith_truth_params_default();
        verify.task = KITH_TRUTH_VERIFY;
        verify.path = path[1];
        verify.sample = 1000;
        verify.filter = in->params.filter;
        report = (kith_truth_report){.struct_size = sizeof report};
        test_works(ctx,
                   kith_truth(ctx, in->files, in->count, &in->queries.matrix, &verify, &report));
        assert_int_equal(report.sample, in->queries.matrix.rows);
        held += report.found > 0;
        test_truths_free(in);
    }
    kith_ctx_free(ctx);
    assert_true(resumed > 30 && held > 30);
    (void)printf("%d jobs of a radius go on behind their last part, to the same bytes; %d hold "
                 "against their certificate\n",
                 resumed, held);
}

/* A list that is wrong while all checksums are right: its certificate is written anew. */
static void wrong_lists_are_told(void **state)
{
    test_folder *folder = *state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    kith_truth_report report;
    int wrong = 0;
    char path[320];
    (void)snprintf(path, sizeof path, "%s", test_path(folder, "t.range"));
    for (uint64_t first = 1; first < 40; first++) {
        uint64_t seed = first;
        test_truths_input *in = input_range(KITH_SQEUCLIDEAN, &seed);
        const double radius = in->params.radius;
        kith_truth_params verify = kith_truth_params_default();
        in->params.filter = NULL;
        in->params.path = path;
        test_works(ctx, test_truths_find(ctx, in, &report));
        const int64_t found = report.found;
        size_t bytes = 0;
        in->params.radius = nextafter(radius, -1.0);
        if (in->params.radius >= 0.0) {
            test_works(ctx, test_truths_find(ctx, in, &report));
            unsigned char *other = test_read(test_path(folder, "t.range.json"), &bytes);
            char *at = strstr((char *)other, "\"radius\": ");
            assert_non_null(at);
            char again[4096];
            const char *rest = strchr(at, ',');
            const int used = snprintf(again, sizeof again, "%.*s\"radius\": %.17g%.*s",
                                      (int)(at - (char *)other), (char *)other, radius,
                                      (int)(bytes - (size_t)(rest - (char *)other)), rest);
            (void)test_write(folder, "t.range.json", again, (size_t)used);
            verify.task = KITH_TRUTH_VERIFY;
            verify.path = path;
            verify.sample = 1000;
            const kith_status status =
                kith_truth(ctx, in->files, in->count, &in->queries.matrix, &verify, NULL);
            assert_int_equal(status, report.found < found ? KITH_E_DATA : KITH_OK);
            wrong += status == KITH_E_DATA;
            free(other);
        }
        test_truths_free(in);
    }
    kith_ctx_free(ctx);
    assert_true(wrong > 10);
    (void)printf("%d lists that lack rows at the radius are told, though all checksums are right\n",
                 wrong);
}

static void mistakes_of_a_radius_are_told(void **state)
{
    test_folder *folder = *state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 1);
    uint64_t seed = 4;
    test_truths_input *in = input_range(KITH_EUCLIDEAN, &seed);
    kith_truth_report report;
    const kith_truth_params good = in->params;
    int64_t ties[MOST_QUERIES];
#define WRONG(what, says)                                                           \
    do {                                                                            \
        what;                                                                       \
        test_fails(ctx, test_truths_find(ctx, in, &report), KITH_E_ARGUMENT, says); \
        in->params = good;                                                          \
    } while (0)
    WRONG(in->params.radius = NAN, "radius");
    WRONG(in->params.radius = -1.0, "radius is -1");
    WRONG(in->params.radius = INFINITY, "must be finite");
    WRONG(in->params.k = 3, "it must be 0");
    WRONG(in->params.flags = 0, "without KITH_WITHIN_RADIUS");
    WRONG(in->params.flags |= KITH_INCLUDE_SELF, "flags");
    WRONG(in->params.ties = ties, "leave ids, distances, ties");
    WRONG(in->params.path = test_path(folder, "m.knn"), "give .range or .kith");
    WRONG((in->params.path = test_path(folder, "m.range"), in->params.first_id = INT32_MAX),
          "has ids below 2147483648");
#undef WRONG
    assert_int_equal(test_folder_count(folder), 0);
    test_truths_free(in);
    kith_ctx_free(ctx);
    (void)printf("what is wrong with a radius is told, before anything is written\n");
}

static void allocations_of_radii_that_fail_are_survived(void **state)
{
    (void)state;
    uint64_t seed = 78;
    test_truths_input *in = input_range(KITH_MANHATTAN, &seed);
    range_answer *wanted = brute_range(in);
    int failed = 0;
    for (long n = 1; n < 100000; n += 1 + n / (test_is_sanitized_build() ? 8 : 40)) {
        test_faulty f = {.fails_at = 0};
        kith_ctx *ctx = test_faulty_ctx("cpu", &f, 0);
        kith_ranges *ranges = NULL;
        kith_truth_report report;
        in->params.ranges = &ranges;
        f.fails_at = atomic_load(&f.asked) + n;
        const kith_status status = test_truths_find(ctx, in, &report);
        const bool over = atomic_load(&f.asked) < f.fails_at;
        assert_true(status == KITH_OK || status == KITH_E_MEMORY);
        assert_int_equal(status == KITH_OK, ranges != NULL);
        if (status == KITH_OK) {
            check_lists(in, kith_ranges_lists(ranges), wanted);
        }
        failed += status != KITH_OK;
        kith_ranges_free(ranges);
        kith_ctx_free(ctx);
        assert_int_equal(atomic_load(&f.blocks), 0);
        if (over) {
            break;
        }
    }
    assert_true(failed > 0);
    free(wanted);
    test_truths_free(in);
    (void)printf("%d jobs of a radius with an allocation that fails end with an error, the others "
                 "with the answer\n",
                 failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(radii_are_the_oracles),
        cmocka_unit_test_setup_teardown(radii_go_on_and_are_held, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(wrong_lists_are_told, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(mistakes_of_a_radius_are_told, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test(allocations_of_radii_that_fail_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
