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
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_ROWS = 320, MOST_QUERIES = 24, MOST_K = 40, MOST_FILES = 5 };

/* ---- The oracle ----------------------------------------------------------------------------- */

typedef struct candidate {
    double key;
    int64_t id;
} candidate;

static int compare(const void *a, const void *b)
{
    const candidate *x = a;
    const candidate *y = b;
    const int by_key = (x->key > y->key) - (x->key < y->key);
    return by_key != 0 ? by_key : (x->id > y->id) - (x->id < y->id);
}

static bool allows(const kith_filter *filter, int64_t query, int64_t row)
{
    if (filter == NULL) {
        return true;
    }
    const uint8_t *allow = filter->allow;
    if (allow != NULL &&
        (allow[query * filter->allow_stride_bytes + row / 8] >> row % 8 & 1) == 0) {
        return false;
    }
    return filter->rule == KITH_RULE_NONE ||
           (filter->query_groups[query] == filter->groups[row]) == (filter->rule == KITH_RULE_SAME);
}

typedef struct answer {
    uint64_t ids[MOST_QUERIES * MOST_K];
    double distances[MOST_QUERIES * MOST_K];
    int64_t ties[MOST_QUERIES];
    int64_t tied;
    int64_t beyond;
} answer;

static void brute_query(const kith_matrix *corpus, const kith_matrix *queries,
                        const kith_truth_params *params, int64_t query, answer *out)
{
    candidate all[MOST_ROWS];
    const int64_t k = params->k;
    int64_t count = 0;
    int64_t listed = 0;
    for (int64_t row = 0; row < corpus->rows; row++) {
        if (allows(params->filter, query, row)) {
            all[count++] =
                (candidate){oracle_key(params->metric, queries, query, corpus, row), row};
        }
    }
    qsort(all, (size_t)count, sizeof *all, compare);
    for (int64_t i = 0; i < k; i++) {
        out->ids[query * k + i] =
            i < count ? (uint64_t)all[i].id + params->first_id : KITH_ID64_NONE;
        out->distances[query * k + i] =
            i < count ? oracle_distance(params->metric, all[i].key)
                      : (params->metric == KITH_INNER_PRODUCT ? -INFINITY : INFINITY);
    }
    out->ties[query] = 0;
    for (int64_t i = 0; i < count && count >= k; i++) {
        out->ties[query] += all[i].key == all[k - 1].key;
        listed += i < k && all[i].key == all[k - 1].key;
    }
    out->tied += out->ties[query] > listed;
    out->beyond += out->ties[query] - listed;
}

static answer *brute(const kith_matrix *corpus, const kith_matrix *queries,
                     const kith_truth_params *params)
{
    answer *out = calloc(1, sizeof *out);
    assert_non_null(out);
    for (int64_t query = 0; query < queries->rows; query++) {
        brute_query(corpus, queries, params, query, out);
    }
    return out;
}

/* ---- Jobs ----------------------------------------------------------------------------------- */

static int64_t pick(uint64_t *seed, int64_t most)
{
    return (int64_t)(test_uniform(seed) * (double)most);
}

typedef struct input {
    test_rows corpus;
    test_rows queries;
    kith_matrix files[MOST_FILES];
    int32_t count;
    kith_filter filter;
    uint8_t allow[MOST_QUERIES * (MOST_ROWS / 8 + 1)];
    int64_t groups[MOST_ROWS];
    int64_t query_groups[MOST_QUERIES];
    kith_truth_params params;
    answer got;
} input;

static void cut_files(input *in, uint64_t *seed)
{
    int64_t first = 0;
    in->count = 1 + (int32_t)pick(seed, MOST_FILES - 1);
    for (int32_t i = 0; i < in->count; i++) {
        const int64_t left = in->corpus.matrix.rows - first - (in->count - 1 - i);
        const int64_t rows = i + 1 == in->count ? left : 1 + pick(seed, left);
        in->files[i] = test_part_of(&in->corpus.matrix, first, rows);
        first += rows;
    }
}

static void make_filter(input *in, uint64_t *seed)
{
    const int64_t kind = pick(seed, 8);
    in->filter = kith_filter_default();
    if (kind == 0 || kind == 1 || kind == 3) {
        in->filter.allow = in->allow;
        in->filter.allow_stride_bytes = kind == 1 ? MOST_ROWS / 8 + 1 : 0;
        for (size_t i = 0; i < sizeof in->allow; i++) {
            in->allow[i] = (uint8_t)(pick(seed, 256) & pick(seed, 256));
        }
    }
    if (kind == 2 || kind == 3) {
        in->filter.rule = pick(seed, 2) == 0 ? KITH_RULE_SAME : KITH_RULE_OTHER;
        in->filter.groups = in->groups;
        in->filter.query_groups = in->query_groups;
    }
    for (int i = 0; i < MOST_ROWS; i++) {
        in->groups[i] = pick(seed, 4);
    }
    for (int i = 0; i < MOST_QUERIES; i++) {
        in->query_groups[i] = pick(seed, 5);
    }
    in->params.filter = kind <= 3 ? &in->filter : NULL;
}

static input *input_make(kith_metric metric, uint64_t *seed)
{
    static const kith_dtype dtypes[] = {KITH_F32, KITH_U8, KITH_F64, KITH_I8, KITH_F16, KITH_BF16};
    input *in = calloc(1, sizeof *in);
    assert_non_null(in);
    const bool nonnegative = metric == KITH_CHI2 || metric == KITH_KL || metric == KITH_JACCARD;
    const test_shape shape = (test_shape)pick(seed, SHAPE_COUNT);
    const kith_dtype dtype = dtypes[pick(seed, nonnegative ? 3 : 6)];
    const int64_t rows = MOST_FILES + pick(seed, MOST_ROWS - MOST_FILES);
    const int32_t cols = 1 + (int32_t)pick(seed, 34);
    in->corpus = test_rows_make(dtype, rows, cols, pick(seed, 3) == 0 ? 8 : 0);
    in->queries = test_rows_make(dtype, 1 + pick(seed, MOST_QUERIES), cols, 0);
    test_shape_fill(&in->corpus, shape, nonnegative, seed);
    test_shape_fill(&in->queries, shape, nonnegative, seed);
    test_rows_copy(&in->queries, 0, &in->corpus, pick(seed, rows));
    cut_files(in, seed);
    in->params = kith_truth_params_default();
    in->params.metric = metric;
    in->params.k = 1 + pick(seed, rows < MOST_K ? rows : MOST_K);
    in->params.part_rows = pick(seed, 3) == 0 ? 0 : 1 + pick(seed, rows);
    in->params.first_id = pick(seed, 2) == 0 ? 0 : (uint64_t)1 << 40;
    in->params.ids = in->got.ids;
    in->params.distances = in->got.distances;
    in->params.ties = in->got.ties;
    make_filter(in, seed);
    return in;
}

static void input_free(input *in)
{
    test_rows_free(&in->queries);
    test_rows_free(&in->corpus);
    free(in);
}

static kith_status find(kith_ctx *ctx, input *in, kith_truth_report *report)
{
    memset(&in->got, 0xee, sizeof in->got);
    *report = (kith_truth_report){.struct_size = sizeof *report};
    return kith_truth(ctx, in->files, in->count, &in->queries.matrix, &in->params, report);
}

static void check_got(const input *in, const answer *wanted)
{
    const size_t entries = (size_t)(in->queries.matrix.rows * in->params.k);
    assert_memory_equal(in->got.ids, wanted->ids, entries * sizeof wanted->ids[0]);
    assert_memory_equal(in->got.distances, wanted->distances,
                        entries * sizeof wanted->distances[0]);
    assert_memory_equal(in->got.ties, wanted->ties,
                        (size_t)in->queries.matrix.rows * sizeof wanted->ties[0]);
}

static void check_found(kith_ctx *ctx, input *in, const answer *wanted, int64_t *recounted)
{
    kith_truth_report report;
    test_works(ctx, find(ctx, in, &report));
    check_got(in, wanted);
    assert_int_equal(report.tied, wanted->tied);
    assert_int_equal(report.tied_beyond, wanted->beyond);
    assert_int_equal(report.rows, in->corpus.matrix.rows);
    *recounted += report.recounted;
}

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
        input *in = input_make(metric, &seed);
        answer *wanted = brute(&in->corpus.matrix, &in->queries.matrix, &in->params);
        check_found(ctx[trial % 2], in, wanted, &recounted);
        tied += wanted->tied;
        free(wanted);
        input_free(in);
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

/* ---- Little memory, mistakes of allocation ----------------------------------------------------
 */

static input *input_plain(kith_metric metric, uint64_t seed)
{
    input *in = input_make(metric, &seed);
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
    input *in = input_plain(KITH_HAMMING, 77);
    answer *wanted = brute(&in->corpus.matrix, &in->queries.matrix, &in->params);
    int failed = 0;
    int tried = 0;
    for (long n = 1; n < 100000; n += 1 + n / (test_is_sanitized_build() ? 8 : 40)) {
        test_faulty f = {.fails_at = 0};
        kith_ctx *ctx = test_faulty_ctx("cpu", &f, 0);
        kith_truth_report report;
        f.fails_at = atomic_load(&f.asked) + n;
        const kith_status status = find(ctx, in, &report);
        const bool over = atomic_load(&f.asked) < f.fails_at;
        assert_true(status == KITH_OK || status == KITH_E_MEMORY);
        if (status == KITH_OK) {
            check_got(in, wanted);
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
    input_free(in);
    (void)printf("%d of %d jobs with an allocation that fails end with an error, the others with "
                 "the answer\n",
                 failed, tried);
}

/* ---- Files ------------------------------------------------------------------------------------
 */

static int stop_after_some(void *arg, int64_t rows)
{
    int *left = arg;
    (void)rows;
    return --*left == 0;
}

static void same_file(const char *a, const char *b)
{
    size_t bytes[2];
    unsigned char *text[] = {test_read(a, &bytes[0]), test_read(b, &bytes[1])};
    assert_true(bytes[0] == bytes[1] && bytes[0] > 0);
    assert_memory_equal(text[0], text[1], bytes[0]);
    free(text[1]);
    free(text[0]);
}

static void jobs_go_on(void **state)
{
    test_folder *folder = *state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    int kept = 0;
    for (uint64_t seed = 1; seed < 30; seed++) {
        uint64_t own = seed;
        input *in = input_make(KITH_SQEUCLIDEAN, &own);
        if (in->corpus.matrix.rows <= MOST_K) {
            input_free(in);
            continue; /* too few for parts */
        }
        kith_truth_report report;
        char path[2][320];
        (void)snprintf(path[0], sizeof path[0], "%s", test_path(folder, "whole.knn"));
        (void)snprintf(path[1], sizeof path[1], "%s", test_path(folder, "pieces.knn"));
        in->params.first_id = 0;
        in->params.part_rows = 1 + in->corpus.matrix.rows / 9;
        in->params.path = path[0];
        test_works(ctx, find(ctx, in, &report));
        int left = 2; /* parts */
        in->params.path = path[1];
        in->params.take = stop_after_some;
        in->params.take_arg = &left;
        test_fails(ctx, find(ctx, in, &report), KITH_E_CANCELLED, "ended the job");
        assert_int_equal(report.parts, 2);
        in->params.k += 1;
        test_fails(ctx, find(ctx, in, &report), KITH_E_ARGUMENT, "is of another job");
        in->params.k -= 1;
        in->params.part_rows += 3; /* other parts than before */
        kept += 1;
        in->params.take = NULL;
        test_works(ctx, find(ctx, in, &report));
        assert_true(report.resumed > 0);
        same_file(path[0], path[1]);
        input_free(in);
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
    input *in = input_plain(KITH_EUCLIDEAN, 3);
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
        test_works(ctx, find(ctx, in, &report));
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
        input *again = input_make(KITH_EUCLIDEAN, &seed);
        test_rows_copy(&in->corpus, 0, &again->corpus, 0);
        input_free(again);
        test_works(ctx, VERIFY());
        test_fails(ctx, kith_truth(ctx, NULL, 0, NULL, &verify, NULL), KITH_E_ARGUMENT,
                   "is of no file");
    }
#undef VERIFY
    input_free(in);
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
    const int64_t changes = 1 + pick(seed, 3);
    const size_t kept = pick(seed, 4) == 0 ? (size_t)pick(seed, (int64_t)bytes) : bytes;
    for (int64_t i = 0; i < changes; i++) {
        own[pick(seed, (int64_t)bytes)] = (unsigned char)pick(seed, 256);
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
    input *in = input_plain(KITH_EUCLIDEAN, 3);
    kith_truth_report report;
    char path[320];
    size_t bytes[2];
    int refused[2] = {0};
    int left = 1;
    (void)snprintf(path, sizeof path, "%s", test_path(folder, "t.knn"));
    in->params.path = path;
    test_works(ctx, find(ctx, in, &report));
    unsigned char *certificate = test_read(test_path(folder, "t.knn.json"), &bytes[0]);
    in->params.part_rows = 3;
    in->params.take = stop_after_some;
    in->params.take_arg = &left;
    test_fails(ctx, find(ctx, in, &report), KITH_E_CANCELLED, "");
    unsigned char *partial = test_read(test_path(folder, "t.knn.partial"), &bytes[1]);
    in->params.take = NULL;
    in->params.part_rows = 0;
    answer *wanted = brute(&in->corpus.matrix, &in->queries.matrix, &in->params);
    for (int trial = 0; trial < trials; trial++) {
        kith_truth_params verify = kith_truth_params_default();
        verify.task = KITH_TRUTH_VERIFY;
        verify.path = path;
        spoil(folder, "t.knn.json", certificate, bytes[0], &seed);
        refused[0] +=
            kith_truth(ctx, in->files, in->count, &in->queries.matrix, &verify, NULL) != KITH_OK;
        spoil(folder, "t.knn.partial", partial, bytes[1], &seed);
        const kith_status status = find(ctx, in, &report);
        refused[1] += status != KITH_OK;
        if (status == KITH_OK) {
            check_got(in, wanted);
        }
    }
    assert_true(refused[0] > trials / 2 && refused[1] > trials / 2);
    free(wanted);
    free(partial);
    free(certificate);
    input_free(in);
    kith_ctx_free(ctx);
    (void)printf("of %d spoilt certificates %d, and of as many states %d are refused; no answer is "
                 "wrong\n",
                 trials, refused[0], refused[1]);
}

static void mistakes_are_told(void **state)
{
    test_folder *folder = *state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 1);
    input *in = input_plain(KITH_EUCLIDEAN, 9);
    kith_truth_report report;
    const kith_truth_params good = in->params;
    const int32_t count = in->count;
    const char *const knn = test_path(folder, "m.knn");
#define WRONG(what, status, says)                              \
    do {                                                       \
        what;                                                  \
        test_fails(ctx, find(ctx, in, &report), status, says); \
        in->params = good;                                     \
        in->count = count;                                     \
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
    test_fails(ctx, find(ctx, in, &report), KITH_E_DATA, says);
    assert_int_equal(report.matrix, in->count > 1);
    input_free(in);
    kith_ctx_free(ctx);
    (void)printf("what is wrong is told, with its name; a bad value with its matrix and row\n");
}

/* ---- Within a radius --------------------------------------------------------------------------
 */

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

static range_answer *brute_range(const input *in)
{
    const kith_truth_params *params = &in->params;
    range_answer *out = calloc(1, sizeof *out);
    assert_non_null(out);
    for (int64_t query = 0; query < in->queries.matrix.rows; query++) {
        candidate all[MOST_ROWS];
        int64_t count = 0;
        for (int64_t row = 0; row < in->corpus.matrix.rows; row++) {
            const double key =
                oracle_key(params->metric, &in->queries.matrix, query, &in->corpus.matrix, row);
            if (allows(params->filter, query, row) &&
                is_within(params, oracle_distance(params->metric, key))) {
                all[count++] = (candidate){key, row};
            }
        }
        qsort(all, (size_t)count, sizeof *all, compare);
        out->offsets[query + 1] = out->offsets[query] + count;
        for (int64_t i = 0; i < count; i++) {
            out->ids[out->offsets[query] + i] = (uint32_t)(all[i].id + (int64_t)params->first_id);
            out->distances[out->offsets[query] + i] = oracle_distance(params->metric, all[i].key);
        }
    }
    return out;
}

/* Of a radius that is exactly the distance of some pair, or near one. */
static input *input_range(kith_metric metric, uint64_t *seed)
{
    input *in = input_make(metric, seed);
    const double key = oracle_key(metric, &in->queries.matrix, pick(seed, in->queries.matrix.rows),
                                  &in->corpus.matrix, pick(seed, in->corpus.matrix.rows));
    const double distance = oracle_distance(metric, key);
    in->params.k = 0;
    in->params.ids = NULL;
    in->params.distances = NULL;
    in->params.ties = NULL;
    in->params.first_id = pick(seed, 2) == 0 ? 0 : 1000;
    in->params.flags = KITH_WITHIN_RADIUS;
    in->params.radius = isfinite(distance) ? distance : 1.0;
    if (pick(seed, 4) == 0) {
        in->params.radius = nextafter(in->params.radius, pick(seed, 2) == 0 ? 0.0 : 1e300);
    }
    return in;
}

static void check_lists(const input *in, const kith_lists *lists, const range_answer *wanted)
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
        input *in = input_range(metric, &seed);
        range_answer *wanted = brute_range(in);
        kith_ranges *ranges = NULL;
        kith_truth_report report;
        in->params.ranges = &ranges;
        test_works(ctx[trial % 2], find(ctx[trial % 2], in, &report));
        check_lists(in, kith_ranges_lists(ranges), wanted);
        assert_int_equal(report.found, wanted->offsets[in->queries.matrix.rows]);
        found += report.found;
        kith_ranges_free(ranges);
        free(wanted);
        input_free(in);
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
        input *in = input_range(first % 2 == 0 ? KITH_EUCLIDEAN : KITH_INNER_PRODUCT, &seed);
        const bool is_range = first % 3 != 0;
        kith_truth_report report;
        char path[2][320];
        int left = 1 + (int)pick(&seed, 3);
        (void)snprintf(path[0], sizeof path[0], "%s",
                       test_path(folder, is_range ? "whole.range" : "whole.kith"));
        (void)snprintf(path[1], sizeof path[1], "%s",
                       test_path(folder, is_range ? "pieces.range" : "pieces.kith"));
        in->params.path = path[0];
        in->params.part_rows = 0;
        test_works(ctx, find(ctx, in, &report));
        in->params.path = path[1];
        in->params.part_rows = 1 + in->corpus.matrix.rows / 9;
        in->params.take = stop_after_some;
        in->params.take_arg = &left;
        if (find(ctx, in, &report) == KITH_E_CANCELLED) {
            const double radius = in->params.radius;
            in->params.radius += 1.0;
            test_fails(ctx, find(ctx, in, &report), KITH_E_ARGUMENT, "is of another job");
            in->params.radius = radius;
            in->params.take = NULL;
            test_works(ctx, find(ctx, in, &report));
            resumed += report.resumed > 0;
        }
        same_file(path[0], path[1]);
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
        input_free(in);
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
        input *in = input_range(KITH_SQEUCLIDEAN, &seed);
        const double radius = in->params.radius;
        kith_truth_params verify = kith_truth_params_default();
        in->params.filter = NULL;
        in->params.path = path;
        test_works(ctx, find(ctx, in, &report));
        const int64_t found = report.found;
        size_t bytes = 0;
        in->params.radius = nextafter(radius, -1.0);
        if (in->params.radius >= 0.0) {
            test_works(ctx, find(ctx, in, &report));
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
        input_free(in);
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
    input *in = input_range(KITH_EUCLIDEAN, &seed);
    kith_truth_report report;
    const kith_truth_params good = in->params;
    int64_t ties[MOST_QUERIES];
#define WRONG(what, says)                                               \
    do {                                                                \
        what;                                                           \
        test_fails(ctx, find(ctx, in, &report), KITH_E_ARGUMENT, says); \
        in->params = good;                                              \
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
    input_free(in);
    kith_ctx_free(ctx);
    (void)printf("what is wrong with a radius is told, before anything is written\n");
}

static void allocations_of_radii_that_fail_are_survived(void **state)
{
    (void)state;
    uint64_t seed = 78;
    input *in = input_range(KITH_MANHATTAN, &seed);
    range_answer *wanted = brute_range(in);
    int failed = 0;
    for (long n = 1; n < 100000; n += 1 + n / (test_is_sanitized_build() ? 8 : 40)) {
        test_faulty f = {.fails_at = 0};
        kith_ctx *ctx = test_faulty_ctx("cpu", &f, 0);
        kith_ranges *ranges = NULL;
        kith_truth_report report;
        in->params.ranges = &ranges;
        f.fails_at = atomic_load(&f.asked) + n;
        const kith_status status = find(ctx, in, &report);
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
    input_free(in);
    (void)printf("%d jobs of a radius with an allocation that fails end with an error, the others "
                 "with the answer\n",
                 failed);
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
