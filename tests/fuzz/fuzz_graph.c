/* SPDX-License-Identifier: Apache-2.0
 * Graphs from files, used: whatever a reader lets through is the start of a descent, is walked on,
 * merged, made smaller and symmetric, predicted from, or refused. */
#include "replay_file.h"
#include "support/support_calls.h"

const char *const fuzz_extensions[] = {"npz", "ivecs", "ibin", "knn", "kith", NULL};
enum { COUNT = sizeof fuzz_extensions / sizeof fuzz_extensions[0] - 1 };
enum { ROWS_MOST = 40, K_MOST = 12, COLS = 3, ENTRIES = 2 * ROWS_MOST * K_MOST };

static float values[2 * ROWS_MOST][COLS];
static uint32_t ids[ENTRIES];
static float distances[ENTRIES];
static double distances64[ENTRIES];

static void fill_values(void)
{
    for (int j = 0; j < 2 * ROWS_MOST * COLS; j++) {
        values[j / COLS][j % COLS] = (float)(j * 37 % 64);
    }
}

/* An exact graph of 12 points, with distances in double. */
int fuzz_seed(int extension, int i, const char *path)
{
    const kith_matrix points = {values, 12, 0, COLS, KITH_F32};
    kith_search_params params = kith_search_params_default();
    kith_result_meta meta = kith_result_meta_default();
    const kith_neighbors out = {ids, distances, distances64, 12, 4, NULL};
    (void)extension;
    fill_values();
    params.k = out.k;
    meta.kind = KITH_KIND_GRAPH;
    meta.corpus_rows = points.rows;
    fuzz_require(kith_graph(fuzz_ctx(), &points, &params, &out, NULL) == KITH_OK,
                 "a graph can be made");
    return i == 0 && kith_result_save(fuzz_ctx(), path, KITH_FORMAT_AUTO, &out, &meta) == KITH_OK;
}

static kith_neighbors room(int64_t rows, int64_t k)
{
    return (kith_neighbors){ids, distances, distances64, rows, k, NULL};
}

static void check(kith_status status, const kith_neighbors *out, int64_t rows)
{
    fuzz_require((status == KITH_OK) == (kith_ctx_detail(fuzz_ctx())[0] == '\0'),
                 "a failure is explained");
    fuzz_require(status != KITH_E_INTERNAL, "nothing impossible happens");
    for (int64_t i = 0; status == KITH_OK && i < out->rows * out->k; i++) {
        fuzz_require((int64_t)out->ids[i] < rows || out->ids[i] == KITH_ID_NONE, "ids are rows");
    }
}

static void descend(const kith_neighbors *graph, const kith_matrix *points)
{
    kith_descent_params params = kith_descent_params_default();
    params.k = 3;
    params.rounds = 2;
    params.sample = -1;
    params.start = KITH_START_GRAPH;
    params.init = graph;
    kith_neighbors out = room(points->rows, params.k);
    kith_search_params search = kith_search_params_default();
    search.k = params.k;
    search.method = KITH_METHOD_DESCENT;
    search.descent = &params;
    check(kith_graph(fuzz_ctx(), points, &search, &out, NULL), &out, points->rows);
    params.init = NULL;
    params.start = KITH_START_AUTO;
    params.k = graph->k;
    kith_matrix both = *points;
    both.rows = 2 * points->rows;
    out = room(both.rows, params.k);
    check(test_merge_descending(fuzz_ctx(), &(kith_merge_sets){&both, points->rows, graph, graph},
                                &params, &out, NULL),
          &out, both.rows);
}

static void search(const kith_neighbors *graph, const kith_matrix *points)
{
    test_walk_params walk = test_walk_params_default();
    kith_search_params params = kith_search_params_default();
    kith_matrix both = *points;
    both.rows = 2 * points->rows;
    walk.k = 2;
    walk.width = 4;
    walk.sample = -1;
    kith_neighbors out = room(points->rows, walk.k);
    check(test_walk(fuzz_ctx(), points, graph, points, &walk, &out, NULL), &out, points->rows);
    params.k = graph->k;
    out = room(both.rows, params.k);
    check(test_merge_exactly(fuzz_ctx(), &(kith_merge_sets){&both, points->rows, graph, graph},
                             &params, &out),
          &out, both.rows);
}

static void take_away(const kith_neighbors *graph, const kith_matrix *points)
{
    static uint8_t removed[ROWS_MOST];
    kith_remove_params params = kith_remove_params_default();
    int64_t left = 0;
    params.k = 2;
    params.removed = removed;
    for (int64_t i = 0; i < points->rows; i++) {
        removed[i] = i % 4 == 1;
        left += removed[i] == 0;
    }
    const kith_neighbors out = room(left, params.k);
    check(kith_graph_remove(fuzz_ctx(), points, graph, &params, &out, NULL), &out, left);
}

static void count(const kith_neighbors *graph, const kith_matrix *points)
{
    static double labels[ROWS_MOST];
    const kith_neighbors none = {0};
    kith_predict_params params = kith_predict_params_default();
    kith_ranges *ranges = NULL;
    kith_recall recall;
    check(kith_graph_symmetric(fuzz_ctx(), graph, KITH_EUCLIDEAN, KITH_SYMMETRY_UNION, &ranges),
          &none, 0);
    kith_ranges_free(ranges);
    check(kith_recall_estimate(fuzz_ctx(), points, graph,
                               TEST_RECALL_PARAMS(KITH_EUCLIDEAN, 0, 5, 1), &recall),
          &none, 0);
    for (int mode = KITH_PREDICT_MEAN; mode <= KITH_PREDICT_WEIGHTED_VOTE; mode++) {
        params.mode = (kith_predict_mode)mode;
        check(kith_predict(fuzz_ctx(), graph, labels, points->rows, &params, distances64), &none,
              0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) {
        return 0;
    }
    fill_values();
    const char *path = fuzz_file(fuzz_extensions[data[0] % COUNT], data + 1, bytes - 1);
    kith_result *result = NULL;
    if (kith_result_open(fuzz_ctx(), path, &result) == KITH_OK) {
        const kith_neighbors *graph = kith_result_neighbors(result);
        const kith_matrix points = {values, graph->rows, 0, COLS, KITH_F32};
        if (graph->rows <= ROWS_MOST && graph->k <= K_MOST) {
            descend(graph, &points);
            search(graph, &points);
            take_away(graph, &points);
            count(graph, &points);
        }
    }
    kith_result_free(result);
    return 0;
}
