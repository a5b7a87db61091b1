/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_answers.h"

#include "oracle/plain_knn.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void *take(int64_t count, size_t bytes)
{
    void *block = malloc((size_t)count * bytes + 1);
    assert(block != NULL);
    memset(block, 0xee, (size_t)count * bytes + 1);
    return block;
}

kith_neighbors test_answer_make(int64_t rows, int64_t k)
{
    return (kith_neighbors){.ids = take(rows * k, sizeof(uint32_t)),
                            .distances = take(rows * k, sizeof(float)),
                            .distances64 = take(rows * k, sizeof(double)),
                            .rows = rows,
                            .k = k};
}

void test_answer_free(kith_neighbors *answer)
{
    free(answer->ids);
    free(answer->distances);
    free(answer->distances64);
    *answer = (kith_neighbors){0};
}

kith_neighbors test_answer_exact(kith_ctx *ctx, const kith_matrix *points, kith_metric metric,
                                 int64_t k, uint32_t flags)
{
    kith_search_params params = kith_search_params_default();
    kith_neighbors answer = test_answer_make(points->rows, k);
    params.metric = metric;
    params.k = k;
    params.flags = flags;
    const kith_status status = kith_graph(ctx, points, &params, &answer, NULL);
    assert(status == KITH_OK);
    (void)status;
    return answer;
}

bool test_answers_equal(const kith_neighbors *a, const kith_neighbors *b)
{
    const size_t count = (size_t)(a->rows * a->k);
    return a->rows == b->rows && a->k == b->k && memcmp(a->ids, b->ids, count * 4) == 0 &&
           memcmp(a->distances, b->distances, count * 4) == 0 &&
           memcmp(a->distances64, b->distances64, count * 8) == 0;
}

test_truth test_truth_make(kith_metric metric, const kith_matrix *queries,
                           const kith_matrix *corpus, int64_t wide)
{
    test_truth truth = {.metric = metric, .rows = queries->rows, .wide = wide};
    truth.ids = take(truth.rows * wide, sizeof *truth.ids);
    truth.keys = take(truth.rows * wide, sizeof *truth.keys);
    oracle_knn(metric, queries, corpus, wide, 0, truth.ids, truth.keys);
    return truth;
}

void test_truth_free(test_truth *truth)
{
    free(truth->ids);
    free(truth->keys);
    *truth = (test_truth){0};
}

bool test_row_is_true(const kith_neighbors *answer, int64_t row, const test_truth *truth,
                      int64_t asked, uint32_t left_out)
{
    int64_t from = asked * truth->wide;
    for (int64_t i = row * answer->k; i < (row + 1) * answer->k; i++, from++) {
        from += truth->ids[from] == left_out;
        assert(from < (asked + 1) * truth->wide);
        const double distance = oracle_distance(truth->metric, truth->keys[from]);
        const float single = (float)distance;
        if (answer->ids[i] != truth->ids[from] ||
            memcmp(&answer->distances64[i], &distance, sizeof distance) != 0 ||
            memcmp(&answer->distances[i], &single, sizeof single) != 0) {
            printf("row %" PRId64 ", place %" PRId64 ": id %" PRIu32 " at %.17g (%.9g), should be "
                   "%" PRIu32 " at %.17g (%.9g)\n",
                   row, i - row * answer->k, answer->ids[i], answer->distances64[i],
                   (double)answer->distances[i], truth->ids[from], distance, (double)single);
            return false;
        }
    }
    return true;
}
