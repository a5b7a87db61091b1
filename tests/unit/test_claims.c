/* SPDX-License-Identifier: Apache-2.0
 * What is said of neighbours: of which points they are, by which metric, whether exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_size.h"
#include "file/file_checksum.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_files.h"

#include <inttypes.h>
#include <stdlib.h>

enum { ROWS = 600, FIRST = 400, COLS = 7, K = 6 };

static const struct {
    int32_t threads;
    int32_t gap; /* bytes between rows */
} ways[] = {{1, 0}, {3, 0}, {1, 4}, {3, 20}};

static kith_ctx *new_ctx(int32_t threads)
{
    kith_ctx_params params = kith_ctx_params_default();
    params.threads = threads;
    params.device = "cpu";
    kith_ctx *ctx = NULL;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}

static float value_at(int64_t i)
{
    return (float)((i * 2654435761u >> 7) % 1009) / 16.0F;
}

static float *make_values(int64_t count)
{
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++) {
        values[i] = value_at(i);
    }
    return values;
}

static kith_fingerprint fingerprint(kith_ctx *ctx, const kith_matrix *points)
{
    kith_fingerprint out;
    if (kith_fingerprint_make(ctx, points, &out) != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(ctx));
    }
    return out;
}

/* The same rows with a gap behind each, which is filled with what must not be read. */
static kith_matrix spread(const float *values, int64_t rows, int32_t cols, int32_t gap,
                          char **block)
{
    const size_t row_bytes = (size_t)cols * sizeof *values;
    const size_t stride = row_bytes + (size_t)gap;
    *block = malloc((size_t)rows * stride);
    assert_non_null(*block);
    memset(*block, gap, (size_t)rows * stride);
    for (int64_t row = 0; row < rows; row++) {
        memcpy(*block + (size_t)row * stride, values + row * cols, row_bytes);
    }
    return (kith_matrix){*block, rows, (int64_t)stride, cols, KITH_F32};
}

/* The same of rows that come in so many portions, which end inside of pieces and between them. */
static uint64_t in_portions(kith_ctx *ctx, const kith_matrix *points, int64_t portions)
{
    const int64_t most = points->rows / portions + 1;
    kin_fingerprint_sum sum;
    kin_fingerprint_begin(&sum, points);
    for (int64_t first = 0; first < points->rows; first += most) {
        kith_matrix rows = *points;
        rows.data = (const char *)points->data + first * points->stride_bytes;
        rows.rows = kin_min_i64(most, points->rows - first);
        assert_int_equal(kin_fingerprint_add(ctx, &sum, &rows), KITH_OK);
    }
    return kin_fingerprint_end(&sum);
}

static void same_for_any_layout(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {3, 5}, {70000, 7}, {500, 1300}, {3, 400000}};
    static const uint64_t sums[] = {0x03cd6b4626272304, 0xa68932a7bdbf951b, 0x9669cc7ce91a5e5b,
                                    0x04ed57cd70d6f594, 0xd6ecc21526490c8f};
    print_message("a fingerprint depends on rows alone: not on strides, threads or portions\n");
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        float *values = make_values(shapes[s][0] * shapes[s][1]);
        kith_fingerprint first = {0};
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
            kith_ctx *ctx = new_ctx(ways[w].threads);
            char *block = NULL;
            const kith_matrix points =
                spread(values, shapes[s][0], (int32_t)shapes[s][1], ways[w].gap, &block);
            const kith_fingerprint own = fingerprint(ctx, &points);
            first = w == 0 ? own : first;
            assert_memory_equal(&own, &first, sizeof own);
            for (int64_t portions = 1; portions < 40; portions += 9) {
                assert_true(in_portions(ctx, &points, portions) == own.checksum);
            }
            free(block);
            kith_ctx_free(ctx);
        }
        print_message("  %" PRId64 " x %" PRId64 ": %016" PRIx64 "\n", shapes[s][0], shapes[s][1],
                      first.checksum);
        assert_true(first.checksum == sums[s]); /* files have it */
        free(values);
    }
}

static void each_bit_counts(void **state)
{
    (void)state;
    kith_ctx *ctx = new_ctx(2);
    float *values = make_values(COLS * K);
    kith_matrix points = {values, K, 0, COLS, KITH_F32};
    const kith_fingerprint own = fingerprint(ctx, &points);
    print_message("each bit counts, the shape and the type; the value stays what it was\n");
    unsigned char *bytes = (unsigned char *)values;
    for (size_t bit = 0; bit < 8 * COLS * K * sizeof *values; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_true(fingerprint(ctx, &points).checksum != own.checksum);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    const kith_matrix turned = {values, COLS, 0, K, KITH_F32};
    const kith_matrix halves = {values, K, 0, 2 * COLS, KITH_F16};
    const kith_matrix brains = {values, K, 0, 2 * COLS, KITH_BF16};
    assert_true(fingerprint(ctx, &turned).checksum != own.checksum);
    assert_true(fingerprint(ctx, &halves).checksum != fingerprint(ctx, &brains).checksum);
    kith_fingerprint out = own;
    points.data = NULL;
    test_fails(ctx, kith_fingerprint_make(ctx, &points, &out), KITH_E_ARGUMENT, "points.data");
    assert_int_equal(out.rows, 0);
    test_fails(ctx, kith_fingerprint_make(ctx, &points, NULL), KITH_E_ARGUMENT, "out is NULL");
    free(values);
    kith_ctx_free(ctx);
}

/* ---- Graphs as arguments --------------------------------------------------------------------- */

typedef struct known {
    kith_ctx *ctx;
    float *values;
    kith_matrix points;
    kith_matrix part[2];
    kith_neighbors graph[2];
    kith_result_meta meta[2];
    kith_neighbors out;
} known;

static kith_search_params exact_params(kith_metric metric)
{
    kith_search_params params = kith_search_params_default();
    params.metric = metric;
    params.k = K;
    return params;
}

static void make_known(known *t)
{
    *t = (known){.ctx = new_ctx(2), .values = make_values(ROWS * COLS)};
    t->points = (kith_matrix){t->values, ROWS, 0, COLS, KITH_F32};
    t->part[0] = (kith_matrix){t->values, FIRST, 0, COLS, KITH_F32};
    t->part[1] = (kith_matrix){t->values + FIRST * COLS, ROWS - FIRST, 0, COLS, KITH_F32};
    t->out = test_answer_make(ROWS, K);
    const kith_search_params params = exact_params(KITH_EUCLIDEAN);
    for (int i = 0; i < 2; i++) {
        t->graph[i] = test_answer_make(t->part[i].rows, K);
        test_works(t->ctx, kith_graph(t->ctx, &t->part[i], &params, &t->graph[i], NULL));
        t->meta[i] = kith_result_meta_default();
        t->meta[i].metric = KITH_EUCLIDEAN;
        t->meta[i].exact = KITH_CERTIFIED;
        t->meta[i].points = fingerprint(t->ctx, &t->part[i]);
        t->graph[i].meta = &t->meta[i];
    }
}

static void free_known(known *t)
{
    test_answer_free(&t->out);
    for (int i = 0; i < 2; i++) {
        test_answer_free(&t->graph[i]);
    }
    free(t->values);
    kith_ctx_free(t->ctx);
}

static kith_exactness told(kith_ctx *ctx)
{
    kith_report report = {.struct_size = (uint32_t)sizeof report};
    test_works(ctx, kith_ctx_report(ctx, &report));
    return report.exact;
}

static void merges_say_what_they_know(void **state)
{
    (void)state;
    static const kith_exactness levels[] = {KITH_CERTIFIED, KITH_EXACTNESS_UNKNOWN,
                                            KITH_APPROXIMATE};
    static const kith_exactness joined[3][3] = {
        {KITH_CERTIFIED, KITH_EXACTNESS_UNKNOWN, KITH_APPROXIMATE},
        {KITH_EXACTNESS_UNKNOWN, KITH_EXACTNESS_UNKNOWN, KITH_APPROXIMATE},
        {KITH_APPROXIMATE, KITH_APPROXIMATE, KITH_APPROXIMATE}};
    known t;
    make_known(&t);
    const kith_search_params params = exact_params(KITH_EUCLIDEAN);
    print_message("a merge is certified where both graphs are, unknown where one is\n");
    for (int a = 0; a < 3; a++) {
        for (int b = 0; b < 3; b++) {
            t.meta[0].exact = levels[a];
            t.meta[1].exact = levels[b];
            test_works(t.ctx,
                       test_merge_exactly(
                           t.ctx, &(kith_merge_sets){&t.points, FIRST, &t.graph[0], &t.graph[1]},
                           &params, &t.out));
            assert_int_equal(told(t.ctx), joined[a][b]);
        }
    }
    t.graph[1].meta = NULL;
    t.meta[0].exact = KITH_CERTIFIED;
    test_works(t.ctx, test_merge_exactly(
                          t.ctx, &(kith_merge_sets){&t.points, FIRST, &t.graph[0], &t.graph[1]},
                          &params, &t.out));
    assert_int_equal(told(t.ctx), KITH_EXACTNESS_UNKNOWN);
    free_known(&t);
}

static void other_points_are_refused(void **state)
{
    (void)state;
    static const uint8_t removed[FIRST] = {1};
    known t;
    make_known(&t);
    const kith_search_params params = exact_params(KITH_EUCLIDEAN);
    kith_remove_params remove = kith_remove_params_default();
    test_walk_params walk = test_walk_params_default();
    const kith_index_params index = test_graph_index_params(&t.graph[0], KITH_EUCLIDEAN);
    kith_index *kept = NULL;
    kith_neighbors found = t.out;
    found.rows = ROWS - FIRST;
    kith_recall recall;
    int64_t wrong = 0;
    int64_t first_wrong = 0;
    remove.k = walk.k = K;
    remove.removed = removed;
    walk.metric = KITH_EUCLIDEAN;
    t.values[5] += 1.0F; /* after the graph was made */
    print_message("a graph of other points, or of another metric, is refused, with both named\n");
    for (int round = 0; round < 2; round++) {
        const char *says = round == 0 ? "400 x 7 float32" : "is of the metric cosine, asked for is";
        test_fails(t.ctx,
                   test_merge_exactly(
                       t.ctx, &(kith_merge_sets){&t.points, FIRST, &t.graph[0], &t.graph[1]},
                       &params, &t.out),
                   KITH_E_ARGUMENT, says);
        kith_descent_params descent = kith_descent_params_default();
        descent.k = K;
        test_fails(t.ctx,
                   test_merge_descending(
                       t.ctx, &(kith_merge_sets){&t.points, FIRST, &t.graph[0], &t.graph[1]},
                       &descent, &t.out, NULL),
                   KITH_E_ARGUMENT, says);
        test_fails(t.ctx, kith_graph_remove(t.ctx, &t.part[0], &t.graph[0], &remove, &t.out, NULL),
                   KITH_E_ARGUMENT, says);
        test_fails(t.ctx,
                   kith_recall_estimate(t.ctx, &t.part[0], &t.graph[0],
                                        TEST_RECALL_PARAMS(KITH_EUCLIDEAN, 0, 10, 0), &recall),
                   KITH_E_ARGUMENT, says);
        test_fails(t.ctx,
                   test_walk(t.ctx, &t.part[0], &t.graph[0], &t.part[1], &walk, &found, NULL),
                   KITH_E_ARGUMENT, says);
        test_fails(t.ctx, kith_index_create(t.ctx, &t.part[0], &index, &kept), KITH_E_ARGUMENT,
                   says);
        test_fails(t.ctx,
                   kith_graph_verify(t.ctx, &t.part[0], &t.graph[0], &params, &wrong, &first_wrong),
                   KITH_E_ARGUMENT, says);
        t.values[5] = value_at(5);
        t.meta[0].metric = KITH_COSINE;
    }
    t.meta[0].metric = KITH_EUCLIDEAN;
    test_works(t.ctx, kith_recall_estimate(t.ctx, &t.part[0], &t.graph[0],
                                           TEST_RECALL_PARAMS(KITH_EUCLIDEAN, 0, 10, 0), &recall));
    kith_neighbors other = t.graph[0];
    other.meta = &t.meta[1];
    test_fails(t.ctx, kith_recall_measure(t.ctx, &t.graph[0], &other, KITH_EUCLIDEAN, 0, &recall),
               KITH_E_ARGUMENT, "truth of 200 x 7 float32");
    free_known(&t);
}

static void removals_say_what_they_know(void **state)
{
    (void)state;
    static const uint8_t few[FIRST] = {[3] = 1, [77] = 1};
    uint8_t many[FIRST];
    known t;
    make_known(&t);
    kith_remove_params params = kith_remove_params_default();
    params.k = K;
    memset(many, 1, sizeof many);
    memset(many, 0, 40);
    print_message("what is left of a graph is as sure as the graph, or is made anew\n");
    for (int level = 0; level < 3; level++) {
        t.meta[0].exact = (kith_exactness)level;
        params.approximate = level != KITH_CERTIFIED;
        kith_neighbors out = test_answer_make(FIRST - 2, K);
        params.removed = few;
        test_works(t.ctx, kith_graph_remove(t.ctx, &t.part[0], &t.graph[0], &params, &out, NULL));
        assert_int_equal(told(t.ctx), level);
        test_answer_free(&out);
        out = test_answer_make(40, K);
        params.removed = many;
        test_works(t.ctx, kith_graph_remove(t.ctx, &t.part[0], &t.graph[0], &params, &out, NULL));
        assert_int_equal(told(t.ctx), params.approximate ? KITH_APPROXIMATE : KITH_CERTIFIED);
        test_answer_free(&out);
    }
    free_known(&t);
}

static void verified(void **state)
{
    (void)state;
    known t;
    int64_t wrong = -1;
    int64_t first_wrong = -2;
    make_known(&t);
    kith_search_params params = exact_params(KITH_EUCLIDEAN);
    t.graph[0].meta = NULL;
    print_message("kith_graph_verify: all lists, or which are not the exact ones\n");
    test_works(t.ctx,
               kith_graph_verify(t.ctx, &t.part[0], &t.graph[0], &params, &wrong, &first_wrong));
    assert_true(wrong == 0 && first_wrong == -1 && told(t.ctx) == KITH_CERTIFIED);
    t.graph[0].ids[50 * K + 2] = t.graph[0].ids[50 * K + 3];
    t.graph[0].ids[90 * K + K - 1] = KITH_ID_NONE;
    test_works(t.ctx,
               kith_graph_verify(t.ctx, &t.part[0], &t.graph[0], &params, &wrong, &first_wrong));
    assert_true(wrong == 2 && first_wrong == 50 && told(t.ctx) == KITH_APPROXIMATE);
    params.k = 2;
    test_works(t.ctx,
               kith_graph_verify(t.ctx, &t.part[0], &t.graph[0], &params, &wrong, &first_wrong));
    assert_true(wrong == 0);
    params.k = K + 1;
    test_fails(t.ctx,
               kith_graph_verify(t.ctx, &t.part[0], &t.graph[0], &params, &wrong, &first_wrong),
               KITH_E_ARGUMENT, "k is 7 and the graph has lists of 6");
    free_known(&t);
}

static void nothing_is_certified_of_unknown_points(void **state)
{
    test_folder *folder = *state;
    uint32_t id = 0;
    const kith_neighbors one = {&id, NULL, NULL, 1, 1, NULL};
    kith_result_meta meta = kith_result_meta_default();
    meta.kind = KITH_KIND_GRAPH;
    meta.exact = KITH_CERTIFIED;
    print_message("a file is certified of stated points, or it is not certified\n");
    static const char *const names[] = {"a.kith", "a.npz", "a.ivecs"};
    for (int i = 0; i < 3; i++) {
        test_fails(folder->ctx,
                   kith_result_save(folder->ctx, test_path(folder, names[i]), KITH_FORMAT_AUTO,
                                    &one, &meta),
                   KITH_E_ARGUMENT, "certified, but of unknown points");
    }
    meta.points = (kith_fingerprint){.rows = 2, .cols = 1, .dtype = KITH_U8, .checksum = 1};
    meta.corpus_rows = 1;
    test_fails(
        folder->ctx,
        kith_result_save(folder->ctx, test_path(folder, "a.kith"), KITH_FORMAT_AUTO, &one, &meta),
        KITH_E_ARGUMENT, "meta.corpus_rows 1");
    meta.corpus_rows = 0;
    meta.exact = (kith_exactness)3;
    test_fails(
        folder->ctx,
        kith_result_save(folder->ctx, test_path(folder, "a.kith"), KITH_FORMAT_AUTO, &one, &meta),
        KITH_E_ARGUMENT, "meta.exact is 3");
    assert_int_equal(test_folder_count(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_for_any_layout),
        cmocka_unit_test(each_bit_counts),
        cmocka_unit_test(merges_say_what_they_know),
        cmocka_unit_test(other_points_are_refused),
        cmocka_unit_test(removals_say_what_they_know),
        cmocka_unit_test(verified),
        cmocka_unit_test_setup_teardown(nothing_is_certified_of_unknown_points, test_folder_setup,
                                        test_folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
