/* SPDX-License-Identifier: Apache-2.0
 * One small case for each way through the engine: seconds, also under compute-sanitizer
 * (tools/sanitize_gpu.sh). Sizes are beside the edges of tiles, so that a read behind one is seen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_compare.h"
#include "support/support_gpu.h"
#include "support/support_shapes.h"

#include <stdio.h>

typedef struct way {
    const char *name;
    test_call call;
    kith_dtype dtype;
    kith_dtype asked_dtype;
    test_shape shape;
    kith_metric metric;
    int64_t rows;
    int64_t asked;
    int32_t cols;
    int64_t k;
    uint32_t flags;
    uint64_t gpu_memory;
    bool stages; /* not to be a small graph */
} way;

#define SAME(dtype) (dtype), (dtype)
enum { SELF = KITH_INCLUDE_SELF, SMALL = 3 << 20, TINY = 1 << 20 };

static const way ways[] = {
    {"fp16 graph", TEST_GRAPH, SAME(KITH_F32), SHAPE_GAUSS, KITH_EUCLIDEAN, 1301, 1, 37, 10, 0, 0,
     true},
    {"s8 graph", TEST_GRAPH, SAME(KITH_U8), SHAPE_GAUSS, KITH_EUCLIDEAN, 1301, 1, 37, 10, 0, 0,
     true},
    {"signed products", TEST_GRAPH, SAME(KITH_I8), SHAPE_GAUSS, KITH_INNER_PRODUCT, 700, 1, 129, 5,
     0, 0, false},
    {"transforms", TEST_GRAPH, SAME(KITH_F64), SHAPE_SPARSE, KITH_CORRELATION, 901, 1, 20, 9, SELF,
     0, false},
    {"halves", TEST_GRAPH, SAME(KITH_F16), SHAPE_GAUSS, KITH_COSINE, 515, 1, 64, 9, 0, 0, false},
    {"bfloats", TEST_GRAPH, SAME(KITH_BF16), SHAPE_GAUSS, KITH_INNER_PRODUCT, 515, 1, 65, 9, 0, 0,
     false},
    {"skipped tiles", TEST_GRAPH, SAME(KITH_F32), SHAPE_CLUSTERS, KITH_EUCLIDEAN, 4099, 1, 3, 10, 0,
     0, true},
    {"groups", TEST_GRAPH, SAME(KITH_F32), SHAPE_COPIES, KITH_EUCLIDEAN, 1103, 1, 8, 10, 0, 0,
     false},
    {"one group", TEST_GRAPH, SAME(KITH_F32), SHAPE_EQUAL, KITH_EUCLIDEAN, 600, 1, 5, 10, 0, 0,
     false},
    {"overflow", TEST_GRAPH, SAME(KITH_F64), SHAPE_BALL, KITH_EUCLIDEAN, 1500, 1, 6, 7, 0, 0, true},
    {"large k", TEST_GRAPH, SAME(KITH_F32), SHAPE_GAUSS, KITH_EUCLIDEAN, 900, 1, 10, 300, 0, 0,
     false},
    {"all k", TEST_GRAPH, SAME(KITH_U8), SHAPE_GRID, KITH_EUCLIDEAN, 300, 1, 4, 299, 0, 0, false},
    {"passes", TEST_SEARCH, SAME(KITH_F32), SHAPE_GAUSS, KITH_MANHATTAN, 2300, 3, 4, 2100, 0, 0,
     false},
    {"direct", TEST_GRAPH, SAME(KITH_F32), SHAPE_GAUSS, KITH_CHI2, 300, 1, 17, 10, 0, 0, false},
    {"logarithms", TEST_SEARCH, SAME(KITH_F64), SHAPE_SPARSE, KITH_KL, 300, 40, 17, 10, 0, 0,
     false},
    {"search", TEST_SEARCH, SAME(KITH_F32), SHAPE_GAUSS, KITH_EUCLIDEAN, 1500, 400, 30, 10, 0, 0,
     false},
    {"mixed types", TEST_SEARCH, KITH_U8, KITH_F32, SHAPE_GAUSS, KITH_EUCLIDEAN, 700, 33, 30, 10, 0,
     0, false},
    {"one query", TEST_PREPARED, SAME(KITH_F32), SHAPE_GAUSS, KITH_EUCLIDEAN, 1500, 1, 30, 10, 0, 0,
     false},
    {"ten queries", TEST_PREPARED, SAME(KITH_F32), SHAPE_GAUSS, KITH_COSINE, 1500, 10, 30, 10, 0, 0,
     false},
    {"both", TEST_BOTH, SAME(KITH_F32), SHAPE_GAUSS, KITH_EUCLIDEAN, 600, 500, 20, 6, 0, 0, false},
    {"batched graph", TEST_GRAPH, SAME(KITH_F32), SHAPE_GAUSS, KITH_EUCLIDEAN, 3000, 1, 64, 10, 0,
     SMALL, false},
    {"batched search", TEST_SEARCH, SAME(KITH_F32), SHAPE_GAUSS, KITH_EUCLIDEAN, 6000, 2000, 64, 10,
     0, SMALL, false},
    {"too little", TEST_SEARCH, SAME(KITH_F32), SHAPE_GAUSS, KITH_EUCLIDEAN, 9000, 2000, 64, 10, 0,
     TINY, false},
    {"one row", TEST_GRAPH, SAME(KITH_F32), SHAPE_GAUSS, KITH_EUCLIDEAN, 1, 1, 3, 1, SELF, 0,
     false},
};

/* What does not fit into a budget is refused by the GPU alone. */
static void run_way(kith_ctx *cpu, const way *w, test_tally *tally)
{
    const bool nonnegative = w->metric == KITH_CHI2 || w->metric == KITH_KL;
    uint64_t seed = 51;
    const int64_t rows = w->stages ? test_rows_with_stages(w->rows, w->k) : w->rows;
    test_rows points = test_rows_make(w->dtype, rows, w->cols, 4);
    test_rows queries = test_rows_make(w->asked_dtype, w->asked, w->cols, 0);
    test_shape_fill(&points, w->shape, nonnegative, &seed);
    test_shape_fill(&queries, w->shape, nonnegative, &seed);
    const test_job job = {.name = w->name,
                          .call = w->call,
                          .points = &points.matrix,
                          .queries = &queries.matrix,
                          .metric = w->metric,
                          .k = w->k,
                          .flags = w->flags};
    kith_ctx *gpu = test_gpu_ctx(2, w->gpu_memory);
    test_compare_fitting(cpu, gpu, &job, w->gpu_memory != 0, tally);
    kith_ctx_free(gpu);
    test_rows_free(&queries);
    test_rows_free(&points);
}

static void all_ways(void **state)
{
    (void)state;
    kith_ctx *cpu = test_cpu_ctx();
    test_tally tally = {0};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        run_way(cpu, &ways[i], &tally);
    }
    kith_ctx_free(cpu);
    test_tally_end(&tally, "each way through the engine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_ways)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
