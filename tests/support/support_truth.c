/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_truth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "oracle/plain_knn.h"
#include "support/support_calls.h"
#include "support/support_faulty.h"
#include "support/support_files.h"
#include "support/support_keys.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int test_candidate_compare(const void *a, const void *b)
{
    const test_candidate *x = a;
    const test_candidate *y = b;
    const int by_key = (x->key > y->key) - (x->key < y->key);
    return by_key != 0 ? by_key : (x->id > y->id) - (x->id < y->id);
}

bool test_truths_allows(const kith_filter *filter, int64_t query, int64_t row)
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

int64_t test_pick(uint64_t *seed, int64_t most)
{
    return (int64_t)(test_uniform(seed) * (double)most);
}

static void cut_files(test_truths_input *in, uint64_t *seed)
{
    int64_t first = 0;
    in->count = 1 + (int32_t)test_pick(seed, MOST_FILES - 1);
    for (int32_t i = 0; i < in->count; i++) {
        const int64_t left = in->corpus.matrix.rows - first - (in->count - 1 - i);
        const int64_t rows = i + 1 == in->count ? left : 1 + test_pick(seed, left);
        in->files[i] = test_part_of(&in->corpus.matrix, first, rows);
        first += rows;
    }
}

static void make_filter(test_truths_input *in, uint64_t *seed)
{
    const int64_t kind = test_pick(seed, 8);
    in->filter = kith_filter_default();
    if (kind == 0 || kind == 1 || kind == 3) {
        in->filter.allow = in->allow;
        in->filter.allow_stride_bytes = kind == 1 ? MOST_ROWS / 8 + 1 : 0;
        for (size_t i = 0; i < sizeof in->allow; i++) {
            in->allow[i] = (uint8_t)(test_pick(seed, 256) & test_pick(seed, 256));
        }
    }
    if (kind == 2 || kind == 3) {
        in->filter.rule = test_pick(seed, 2) == 0 ? KITH_RULE_SAME : KITH_RULE_OTHER;
        in->filter.groups = in->groups;
        in->filter.query_groups = in->query_groups;
    }
    for (int i = 0; i < MOST_ROWS; i++) {
        in->groups[i] = test_pick(seed, 4);
    }
    for (int i = 0; i < MOST_QUERIES; i++) {
        in->query_groups[i] = test_pick(seed, 5);
    }
    in->params.filter = kind <= 3 ? &in->filter : NULL;
}

test_truths_input *test_truths_make(kith_metric metric, uint64_t *seed)
{
    static const kith_dtype dtypes[] = {KITH_F32, KITH_U8, KITH_F64, KITH_I8, KITH_F16, KITH_BF16};
    test_truths_input *in = calloc(1, sizeof *in);
    assert_non_null(in);
    const bool nonnegative = metric == KITH_CHI2 || metric == KITH_KL || metric == KITH_JACCARD;
    const test_shape shape = (test_shape)test_pick(seed, SHAPE_COUNT);
    const kith_dtype dtype = dtypes[test_pick(seed, nonnegative ? 3 : 6)];
    const int64_t rows = MOST_FILES + test_pick(seed, MOST_ROWS - MOST_FILES);
    const int32_t cols = 1 + (int32_t)test_pick(seed, 34);
    in->corpus = test_rows_make(dtype, rows, cols, test_pick(seed, 3) == 0 ? 8 : 0);
    in->queries = test_rows_make(dtype, 1 + test_pick(seed, MOST_QUERIES), cols, 0);
    test_shape_fill(&in->corpus, shape, nonnegative, seed);
    test_shape_fill(&in->queries, shape, nonnegative, seed);
    test_rows_copy(&in->queries, 0, &in->corpus, test_pick(seed, rows));
    cut_files(in, seed);
    in->params = kith_truth_params_default();
    in->params.metric = metric;
    in->params.k = 1 + test_pick(seed, rows < MOST_K ? rows : MOST_K);
    in->params.part_rows = test_pick(seed, 3) == 0 ? 0 : 1 + test_pick(seed, rows);
    in->params.first_id = test_pick(seed, 2) == 0 ? 0 : (uint64_t)1 << 40;
    in->params.ids = in->got.ids;
    in->params.distances = in->got.distances;
    in->params.ties = in->got.ties;
    make_filter(in, seed);
    return in;
}

void test_truths_free(test_truths_input *in)
{
    test_rows_free(&in->queries);
    test_rows_free(&in->corpus);
    free(in);
}

kith_status test_truths_find(kith_ctx *ctx, test_truths_input *in, kith_truth_report *report)
{
    memset(&in->got, 0xee, sizeof in->got);
    *report = (kith_truth_report){.struct_size = sizeof *report};
    return kith_truth(ctx, in->files, in->count, &in->queries.matrix, &in->params, report);
}

/* ---- The oracle ----------------------------------------------------------------------------- */

static void brute_query(const kith_matrix *corpus, const kith_matrix *queries,
                        const kith_truth_params *params, int64_t query, test_truths_answer *out)
{
    test_candidate all[MOST_ROWS];
    const int64_t k = params->k;
    int64_t count = 0;
    int64_t listed = 0;
    for (int64_t row = 0; row < corpus->rows; row++) {
        if (test_truths_allows(params->filter, query, row)) {
            all[count++] =
                (test_candidate){oracle_key(params->metric, queries, query, corpus, row), row};
        }
    }
    qsort(all, (size_t)count, sizeof *all, test_candidate_compare);
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

test_truths_answer *test_truths_brute(const test_truths_input *in)
{
    test_truths_answer *out = calloc(1, sizeof *out);
    assert_non_null(out);
    for (int64_t query = 0; query < in->queries.matrix.rows; query++) {
        brute_query(&in->corpus.matrix, &in->queries.matrix, &in->params, query, out);
    }
    return out;
}

void test_truths_check(const test_truths_input *in, const test_truths_answer *wanted)
{
    const size_t entries = (size_t)(in->queries.matrix.rows * in->params.k);
    assert_memory_equal(in->got.ids, wanted->ids, entries * sizeof wanted->ids[0]);
    assert_memory_equal(in->got.distances, wanted->distances,
                        entries * sizeof wanted->distances[0]);
    assert_memory_equal(in->got.ties, wanted->ties,
                        (size_t)in->queries.matrix.rows * sizeof wanted->ties[0]);
}

void test_truths_check_found(kith_ctx *ctx, test_truths_input *in, const test_truths_answer *wanted,
                             int64_t *recounted)
{
    kith_truth_report report;
    test_works(ctx, test_truths_find(ctx, in, &report));
    test_truths_check(in, wanted);
    assert_int_equal(report.tied, wanted->tied);
    assert_int_equal(report.tied_beyond, wanted->beyond);
    assert_int_equal(report.rows, in->corpus.matrix.rows);
    *recounted += report.recounted;
}

int test_stop_after_some(void *arg, int64_t rows)
{
    int *left = arg;
    (void)rows;
    return --*left == 0;
}

void test_same_file(const char *a, const char *b)
{
    size_t bytes[2];
    unsigned char *text[] = {test_read(a, &bytes[0]), test_read(b, &bytes[1])};
    assert_true(bytes[0] == bytes[1] && bytes[0] > 0);
    assert_memory_equal(text[0], text[1], bytes[0]);
    free(text[1]);
    free(text[0]);
}
