/* SPDX-License-Identifier: Apache-2.0
 * Indexes in files: a file of any bytes, its checksums right or wrong, gives an index that can be
 * searched and changed, or an error that names it. What its numbers are worth is another matter. */
#include "replay_file.h"
#include "support/support_calls.h"

const char *const fuzz_extensions[] = {"kith", NULL};

enum { MOST_ASKED = 20 };

/* Corpora for the exact engine: with rounded rows and balls, of bytes, and of rows' transforms. */
static int seed_corpus(int i, const kith_matrix *points, const char *path)
{
    static const kith_metric metrics[] = {KITH_SQEUCLIDEAN, KITH_INNER_PRODUCT, KITH_CORRELATION};
    kith_index *corpus = NULL;
    kith_matrix rows = *points;
    if (i == 1) { /* bytes */
        rows.dtype = KITH_U8;
        rows.stride_bytes = 0;
    }
    fuzz_require(test_index_create(fuzz_ctx(), &rows, metrics[i], &corpus) == KITH_OK,
                 "a corpus can be made");
    fuzz_require(kith_index_save(fuzz_ctx(), corpus, path) == KITH_OK, "a corpus can be saved");
    kith_index_free(corpus);
    return 1;
}

static int seed_graph(const kith_matrix *points, const char *path)
{
    kith_index_params params = test_graph_index_params(NULL, KITH_EUCLIDEAN);
    kith_index *index = NULL;
    params.k = 4;
    fuzz_require(kith_index_create(fuzz_ctx(), points, &params, &index) == KITH_OK,
                 "a graph can be made");
    fuzz_require(kith_index_save(fuzz_ctx(), index, path) == KITH_OK, "a graph can be saved");
    kith_index_free(index);
    return 1;
}

int fuzz_seed(int extension, int i, const char *path)
{
    (void)extension;
    static float values[90][3];
    kith_index *corpus = NULL;
    kith_index_params params = kith_index_params_default();
    kith_matrix points = {values, 90, 0, 3, KITH_F32};
    for (int j = 0; j < 90 * 3; j++) {
        values[j / 3][j % 3] = (float)(j * 37 % 64);
    }
    if (i == 6) {
        return seed_graph(&points, path);
    }
    if (i >= 3) {
        return i < 6 ? seed_corpus(i - 3, &points, path) : 0;
    }
    params.metric = i == 0 ? KITH_EUCLIDEAN : i == 1 ? KITH_MANHATTAN : KITH_CHEBYSHEV;
    params.method = KITH_METHOD_TREE;
    params.tree_height = i;
    fuzz_require(kith_index_create(fuzz_ctx(), &points, &params, &corpus) == KITH_OK,
                 "a tree can be made");
    if (i == 2) { /* with holes */
        points.rows = 20;
        fuzz_require(kith_index_add(fuzz_ctx(), corpus, &points) == KITH_OK, "a tree can grow");
    }
    fuzz_require(kith_index_save(fuzz_ctx(), corpus, path) == KITH_OK, "a tree can be saved");
    kith_index_free(corpus);
    return 1;
}

/* KITH_E_INTERNAL is what numbers that were forged may lead to: too few neighbours. */
static int ends_well(kith_status status)
{
    return status == KITH_OK || status == KITH_E_INTERNAL || status == KITH_E_MEMORY ||
           status == KITH_E_LIMIT || status == KITH_E_UNSUPPORTED || status == KITH_E_ARGUMENT;
}

static void search(kith_ctx *ctx, const kith_index *corpus)
{
    static uint32_t ids[MOST_ASKED * 3];
    kith_matrix queries = test_index_info(corpus).points;
    const int64_t rows = queries.rows;
    queries.rows = rows < MOST_ASKED ? rows : MOST_ASKED;
    kith_search_params params = kith_search_params_default();
    params.k = rows < 3 ? rows : 3;
    const kith_neighbors out = {.ids = ids, .rows = queries.rows, .k = params.k};
    const kith_status status = kith_index_search(ctx, corpus, &queries, &params, &out, NULL);
    fuzz_require(ends_well(status), "a search ends");
    for (int64_t i = 0; status == KITH_OK && i < out.rows * out.k; i++) {
        fuzz_require((int64_t)ids[i] < rows, "ids are rows");
        fuzz_kept += ids[i];
    }
}

/* The first rows once more, and then some that go. */
static void change(kith_ctx *ctx, kith_index *corpus)
{
    static const uint32_t gone[] = {0, 7, 33, 1};
    kith_matrix more = test_index_info(corpus).points;
    const int64_t rows = more.rows;
    static unsigned char copy[1 << 16];
    const int64_t bytes = more.rows * more.stride_bytes;
    if (bytes > (int64_t)sizeof copy) {
        return;
    }
    memcpy(copy, more.data, (size_t)bytes);
    for (int64_t i = 0; i < bytes; i += 7) {
        copy[i] &= 0x3f; /* other rows, no NaN */
    }
    more.data = copy;
    fuzz_kept += (uint32_t)kith_index_add(ctx, corpus, &more);
    search(ctx, corpus);
    fuzz_require(ends_well(kith_index_remove(ctx, corpus, gone, rows < 40 ? 0 : 4)),
                 "rows can be removed");
    search(ctx, corpus);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) {
        return 0;
    }
    kith_ctx *ctx = fuzz_ctx();
    const char *path = fuzz_file(fuzz_extensions[0], data + 1, bytes - 1);
    kith_index *corpus = NULL;
    const kith_status status = kith_index_open(ctx, path, &corpus);
    fuzz_require((status == KITH_OK) == (corpus != NULL), "a corpus exactly when it succeeds");
    if (status == KITH_OK) {
        search(ctx, corpus);
        change(ctx, corpus);
    } else if (status != KITH_E_ARGUMENT) {
        fuzz_blames(status, path);
    }
    kith_index_free(corpus);
    kith_file_info info = {.struct_size = (uint32_t)sizeof info};
    (void)kith_file_inspect(ctx, path, NULL, &info);
    return 0;
}
