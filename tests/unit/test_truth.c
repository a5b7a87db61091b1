/* SPDX-License-Identifier: Apache-2.0
 * Ground truth against the oracle, to the last bit: lists, distances and ties, however the corpus
 * is cut into matrices and parts; what is left behind by jobs that end early; certificates. */
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

static void trials_are_the_oracles(void **state)
{
    (void)state;
    const int trials = test_is_slow_build() ? 400 : 4000;
    uint64_t seed = 23;
    int64_t recounted = 0;
    int64_t tied = 0;
    kith_ctx *ctx[] = {test_ctx(kin_cpu_best(), 1), test_ctx(kin_cpu_best(), 3)};
    for (int trial = 0; trial < trials; trial++) {
        const int turn = trial % (KITH_KL + 1);
        const kith_metric metric =
            turn < KITH_KL ? (kith_metric)(KITH_EUCLIDEAN + turn) : TEST_MINKOWSKI_3;
        test_truths_input *in = test_truths_make(metric, &seed);
        test_truths_answer *wanted = test_truths_brute(in);
        test_truths_check_found(ctx[trial % 2], in, wanted, &recounted);
        tied += wanted->tied;
        free(wanted);
        test_truths_free(in);
    }
    kith_ctx_free(ctx[1]);
    kith_ctx_free(ctx[0]);
    assert_true(recounted > 0 && tied > 0);
    (void)printf(
        "%d trials (metrics, types, shapes, files, parts, filters): lists and ties are the "
        "oracle's; %lld queries with rows as near as the k-th beyond the list, %lld counts "
        "pair by pair\n",
        trials, (long long)tied, (long long)recounted);
}

/* ---- Little memory, mistakes of allocation --------------------------------------------------- */

static test_truths_input *input_plain(kith_metric metric, uint64_t seed)
{
    test_truths_input *in = test_truths_make(metric, &seed);
    in->params.filter = NULL;
    in->params.part_rows = 0;
    in->params.first_id = 0;
    return in;
}

static void memory_limits_make_parts(void **state)
{
    (void)state;
    enum { ROWS = 40000, COLS = 32, QUERIES = 8 };
    uint64_t seed = 5;
    test_rows corpus = test_rows_make(KITH_F32, ROWS, COLS, 0);
    test_rows queries = test_rows_make(KITH_F32, QUERIES, COLS, 0);
    test_shape_fill(&corpus, SHAPE_CLUSTERS, false, &seed);
    test_shape_fill(&queries, SHAPE_CLUSTERS, false, &seed);
    uint64_t ids[2][QUERIES * 10];
    int64_t parts[2];
    for (int limited = 0; limited < 2; limited++) {
        test_faulty f = {.fails_at = 0};
        kith_ctx *ctx = test_faulty_ctx("cpu", &f, limited ? (uint64_t)2 << 20 : 0);
        kith_truth_params params = kith_truth_params_default();
        kith_truth_report report = {.struct_size = sizeof report};
        params.k = 10;
        params.ids = ids[limited];
        test_works(ctx, kith_truth(ctx, &corpus.matrix, 1, &queries.matrix, &params, &report));
        parts[limited] = report.parts;
        kith_ctx_free(ctx);
        assert_int_equal(atomic_load(&f.blocks), 0);
    }
    assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
    assert_true(parts[0] == 1 && parts[1] > 5);
    test_rows_free(&queries);
    test_rows_free(&corpus);
    (void)printf("within 2 MiB 5 MB of rows take %lld parts, and have the same neighbours\n",
                 (long long)parts[1]);
}

static void allocations_that_fail_are_survived(void **state)
{
    (void)state;
    test_truths_input *in = input_plain(KITH_HAMMING, 77);
    test_truths_answer *wanted = test_truths_brute(in);
    int failed = 0;
    int tried = 0;
    for (long n = 1; n < 100000; n += 1 + n / (test_is_sanitized_build() ? 8 : 40)) {
        test_faulty f = {.fails_at = 0};
        kith_ctx *ctx = test_faulty_ctx("cpu", &f, 0);
        kith_truth_report report;
        f.fails_at = atomic_load(&f.asked) + n;
        const kith_status status = test_truths_find(ctx, in, &report);
        const bool over = atomic_load(&f.asked) < f.fails_at;
        assert_true(status == KITH_OK || status == KITH_E_MEMORY);
        if (status == KITH_OK) {
            test_truths_check(in, wanted);
        }
        failed += status != KITH_OK;
        tried += 1;
        kith_ctx_free(ctx);
        assert_int_equal(atomic_load(&f.blocks), 0);
        if (over) {
            break;
        }
    }
    assert_true(failed > 0);
    free(wanted);
    test_truths_free(in);
    (void)printf("%d of %d jobs with an allocation that fails end with an error, the others with "
                 "the answer\n",
                 failed, tried);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void jobs_go_on(void **state)
{
    test_folder *folder = *state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    int kept = 0;
    for (uint64_t seed = 1; seed < 30; seed++) {
        uint64_t own = seed;
        test_truths_input *in = test_truths_make(KITH_SQEUCLIDEAN, &own);
        if (in->corpus.matrix.rows <= MOST_K) {
            test_truths_free(in);
            continue; /* too few for parts */
        }
        kith_truth_report report;
        char path[2][320];
        (void)snprintf(path[0], sizeof path[0], "%s", test_path(folder, "whole.knn"));
        (void)snprintf(path[1], sizeof path[1], "%s", test_path(folder, "pieces.knn"));
        in->params.first_id = 0;
        in->params.part_rows = 1 + in->corpus.matrix.rows / 9;
        in->params.path = path[0];
        test_works(ctx, test_truths_find(ctx, in, &report));
        int left = 2; /* parts */
        in->params.path = path[1];
        in->params.take = test_stop_after_some;
        in->params.take_arg = &left;
        test_fails(ctx, test_truths_find(ctx, in, &report), KITH_E_CANCELLED, "ended the job");
        assert_int_equal(report.parts, 2);
        in->params.k += 1;
        test_fails(ctx, test_truths_find(ctx, in, &report), KITH_E_ARGUMENT, "is of another job");
        in->params.k -= 1;
        in->params.part_rows += 3; /* other parts than before */
        kept += 1;
        in->params.take = NULL;
        test_works(ctx, test_truths_find(ctx, in, &report));
        assert_true(report.resumed > 0);
        test_same_file(path[0], path[1]);
        test_truths_free(in);
    }
    kith_ctx_free(ctx);
    assert_true(kept > 15);
    (void)printf("%d jobs that were ended go on behind their last part, to the same bytes; other "
                 "jobs are refused there\n",
                 kept);
}

/* Writes the file again with one byte changed. */
static void flip(test_folder *folder, const char *name, long at)
{
    size_t bytes = 0;
    unsigned char *data = test_read(test_path(folder, name), &bytes);
    data[at < 0 ? (long)bytes + at : at] ^= 1;
    (void)test_write(folder, name, data, bytes);
    free(data);
}

static void certificates_are_held(void **state)
{
    test_folder *folder = *state;
    static const char *const names[] = {"t.knn", "t.npy", "t.npz", "t.kith", "t.ibin", "t.ivecs"};
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    test_truths_input *in = input_plain(KITH_EUCLIDEAN, 3);
    kith_truth_report report;
    char ties[320];
    (void)snprintf(ties, sizeof ties, "%s", test_path(folder, "ties.npy"));
    in->params.ties_path = ties;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        kith_truth_params verify = kith_truth_params_default();
        char path[320];
        char json[64];
        (void)snprintf(path, sizeof path, "%s", test_path(folder, names[i]));
        in->params.path = path;
        test_works(ctx, test_truths_find(ctx, in, &report));
        verify.task = KITH_TRUTH_VERIFY;
        verify.path = in->params.path;
        verify.sample = 1000;
#define VERIFY() kith_truth(ctx, in->files, in->count, &in->queries.matrix, &verify, &report)
        report = (kith_truth_report){.struct_size = sizeof report};
        test_works(ctx, VERIFY());
        assert_int_equal(report.sample, in->queries.matrix.rows);
        flip(folder, names[i], -1);
        test_fails(ctx, VERIFY(), KITH_E_DATA, "checksum");
        flip(folder, names[i], -1);
        flip(folder, "ties.npy", -1);
        test_fails(ctx, VERIFY(), KITH_E_DATA, "ties.npy");
        flip(folder, "ties.npy", -1);
        (void)snprintf(json, sizeof json, "%s.json", names[i]);
        flip(folder, json, 20);
        test_fails(ctx, VERIFY(), KITH_E_FORMAT, "certificate");
        flip(folder, json, 20);
        test_rows_set(&in->corpus, 0, 0, 3.0);
        test_fails(ctx, VERIFY(), KITH_E_DATA, "the certificate says");
        uint64_t seed = 3;
        test_truths_input *again = test_truths_make(KITH_EUCLIDEAN, &seed);
        test_rows_copy(&in->corpus, 0, &again->corpus, 0);
        test_truths_free(again);
        test_works(ctx, VERIFY());
        test_fails(ctx, kith_truth(ctx, NULL, 0, NULL, &verify, NULL), KITH_E_ARGUMENT,
                   "is of no file");
    }
#undef VERIFY
    test_truths_free(in);
    kith_ctx_free(ctx);
    (void)printf(
        "of six formats the truth, its ties, its certificate and the points are found to be "
        "right, and a flipped bit in each is told\n");
}

/* Bytes of a file changed, or its end cut off. */
static void spoil(test_folder *folder, const char *name, const unsigned char *data, size_t bytes,
                  uint64_t *seed)
{
    unsigned char *own = malloc(bytes);
    assert_non_null(own);
    memcpy(own, data, bytes);
    const int64_t changes = 1 + test_pick(seed, 3);
    const size_t kept = test_pick(seed, 4) == 0 ? (size_t)test_pick(seed, (int64_t)bytes) : bytes;
    for (int64_t i = 0; i < changes; i++) {
        own[test_pick(seed, (int64_t)bytes)] = (unsigned char)test_pick(seed, 256);
    }
    (void)test_write(folder, name, own, kept);
    free(own);
}

static void spoilt_files_are_survived(void **state)
{
    test_folder *folder = *state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 1);
    const int trials = test_is_slow_build() ? 300 : 3000;
    uint64_t seed = 8;
    test_truths_input *in = input_plain(KITH_EUCLIDEAN, 3);
    kith_truth_report report;
    char path[320];
    size_t bytes[2];
    int refused[2] = {0};
    int left = 1;
    (void)snprintf(path, sizeof path, "%s", test_path(folder, "t.knn"));
    in->params.path = path;
    test_works(ctx, test_truths_find(ctx, in, &report));
    unsigned char *certificate = test_read(test_path(folder, "t.knn.json"), &bytes[0]);
    in->params.part_rows = 3;
    in->params.take = test_stop_after_some;
    in->params.take_arg = &left;
    test_fails(ctx, test_truths_find(ctx, in, &report), KITH_E_CANCELLED, "");
    unsigned char *partial = test_read(test_path(folder, "t.knn.partial"), &bytes[1]);
    in->params.take = NULL;
    in->params.part_rows = 0;
    test_truths_answer *wanted = test_truths_brute(in);
    for (int trial = 0; trial < trials; trial++) {
        kith_truth_params verify = kith_truth_params_default();
        verify.task = KITH_TRUTH_VERIFY;
        verify.path = path;
        spoil(folder, "t.knn.json", certificate, bytes[0], &seed);
        refused[0] +=
            kith_truth(ctx, in->files, in->count, &in->queries.matrix, &verify, NULL) != KITH_OK;
        spoil(folder, "t.knn.partial", partial, bytes[1], &seed);
        const kith_status status = test_truths_find(ctx, in, &report);
        refused[1] += status != KITH_OK;
        if (status == KITH_OK) {
            test_truths_check(in, wanted);
        }
    }
    assert_true(refused[0] > trials / 2 && refused[1] > trials / 2);
    free(wanted);
    free(partial);
    free(certificate);
    test_truths_free(in);
    kith_ctx_free(ctx);
    (void)printf("of %d spoilt certificates %d, and of as many states %d are refused; no answer is "
                 "wrong\n",
                 trials, refused[0], refused[1]);
}

static void mistakes_are_told(void **state)
{
    test_folder *folder = *state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 1);
    test_truths_input *in = input_plain(KITH_EUCLIDEAN, 9);
    kith_truth_report report;
    const kith_truth_params good = in->params;
    const int32_t count = in->count;
    const char *const knn = test_path(folder, "m.knn");
#define WRONG(what, status, says)                                          \
    do {                                                                   \
        what;                                                              \
        test_fails(ctx, test_truths_find(ctx, in, &report), status, says); \
        in->params = good;                                                 \
        in->count = count;                                                 \
    } while (0)
    WRONG(in->params.k = 0, KITH_E_ARGUMENT, "k is 0, must be 1 to");
    WRONG(in->params.k = in->corpus.matrix.rows + 1, KITH_E_ARGUMENT,
          "the corpus has no more rows");
    WRONG(in->params.metric = KITH_CUSTOM, KITH_E_ARGUMENT, "metric");
    WRONG(in->params.method = KITH_METHOD_DESCENT, KITH_E_ARGUMENT, "method");
    WRONG(in->params.part_rows = -1, KITH_E_ARGUMENT, "part_rows");
    WRONG(in->params.task = (kith_truth_task)5, KITH_E_ARGUMENT, "task");
    WRONG(in->params.struct_size = 0, KITH_E_ARGUMENT, "kith_truth_params_default");
    WRONG(in->count = 0, KITH_E_ARGUMENT, "corpus");
    WRONG(in->params.ties_path = test_path(folder, "m.npy"), KITH_E_ARGUMENT, "ties_path");
    WRONG(in->params.path = test_path(folder, "m.csv"), KITH_E_ARGUMENT, "is no file of a truth");
    WRONG((in->params.path = knn, in->params.first_id = (uint64_t)1 << 33), KITH_E_ARGUMENT,
          "write .npy");
    WRONG((in->params.path = test_path(folder, "m.ivecs"), in->params.first_id = INT32_MAX),
          KITH_E_ARGUMENT, "write .npy");
    WRONG((in->params.filter = &in->filter, in->filter.rule = KITH_RULE_EACH), KITH_E_ARGUMENT,
          "each");
    WRONG((in->params.task = KITH_TRUTH_VERIFY, in->params.path = NULL), KITH_E_ARGUMENT, "path");
#undef WRONG
    assert_int_equal(test_folder_count(folder), 0);
    const int64_t first = in->files[0].rows;
    test_rows_set(&in->corpus, in->count > 1 ? first + 1 : 1, 0, NAN);
    char says[64];
    (void)snprintf(says, sizeof says, "corpus[%d, 0] is NaN", 1);
    in->params.part_rows = 1;
    test_fails(ctx, test_truths_find(ctx, in, &report), KITH_E_DATA, says);
    assert_int_equal(report.matrix, in->count > 1);
    test_truths_free(in);
    kith_ctx_free(ctx);
    (void)printf("what is wrong is told, with its name; a bad value with its matrix and row\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trials_are_the_oracles),
        cmocka_unit_test(memory_limits_make_parts),
        cmocka_unit_test(allocations_that_fail_are_survived),
        cmocka_unit_test_setup_teardown(jobs_go_on, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(certificates_are_held, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(spoilt_files_are_survived, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(mistakes_are_told, test_folder_setup, test_folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
