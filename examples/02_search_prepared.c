/* SPDX-License-Identifier: Apache-2.0
 * Lesson 2: a corpus that is prepared once and searched many times.
 *
 * The preparation (mean, rounded copy, norms, order) is the same for every search, so a program
 * that answers queries one by one makes it once. Here each digit asks for its nearest digits, in
 * batches.
 *
 *     02_search_prepared examples/data/digits.u8bin
 */
#include <kith/kith.h>

#include <stdio.h>

enum { K = 3, BATCH = 4, BATCHES = 3 };

/* The rows first .. first + count - 1 of a matrix, as a matrix: views cost nothing. */
static kith_matrix view_rows(const kith_matrix *matrix, int64_t first, int64_t count)
{
    const int64_t stride = matrix->stride_bytes != 0
                               ? matrix->stride_bytes
                               : matrix->cols * (int64_t)kith_dtype_bytes(matrix->dtype);
    kith_matrix view = *matrix;
    view.data = (const char *)matrix->data + first * stride;
    view.rows = count;
    return view;
}

static kith_status search_batches(kith_ctx *ctx, const kith_index *index, const kith_matrix *points)
{
    uint32_t ids[BATCH * K];
    float distances[BATCH * K];
    const kith_neighbors found = {.ids = ids, .distances = distances, .rows = BATCH, .k = K};
    kith_search_params params = kith_search_params_default();
    params.k = K;
    for (int64_t batch = 0; batch < BATCHES; batch++) {
        const int64_t first = batch * BATCH;
        const kith_matrix queries = view_rows(points, first, BATCH);
        const kith_status status = kith_index_search(ctx, index, &queries, &params, &found, NULL);
        if (status != KITH_OK) {
            return status;
        }
        for (int row = 0; row < BATCH; row++) {
            /* The queries are points of the corpus: each finds itself, at distance 0. */
            printf("query %lld:", (long long)(first + row));
            for (int j = row * K; j < (row + 1) * K; j++) {
                printf("  %u at %.4f", (unsigned)ids[j], (double)distances[j]);
            }
            printf("\n");
        }
    }
    return KITH_OK;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "examples/data/digits.u8bin";
    kith_ctx *ctx = NULL;
    kith_points *file = NULL;
    kith_index *index = NULL;
    kith_index_info info = {.struct_size = (uint32_t)sizeof info};
    kith_index_params params = kith_index_params_default();
    params.metric = KITH_COSINE;

    kith_status status = kith_ctx_create(NULL, &ctx);
    if (status == KITH_OK) {
        status = kith_points_open(ctx, path, NULL, &file);
    }
    if (status == KITH_OK) {
        /* The index keeps a pointer to the points: the file stays open as long as it lives. */
        status = kith_index_create(ctx, kith_points_matrix(file), &params, &index);
    }
    if (status == KITH_OK) {
        status = kith_index_inspect(index, &info);
    }
    if (status == KITH_OK) {
        printf("prepared for %s: %llu bytes beside the points\n", kith_metric_name(info.metric),
               (unsigned long long)info.bytes);
        status = search_batches(ctx, index, &info.points);
    }
    if (status != KITH_OK) {
        fprintf(stderr, "02_search_prepared: %s: %s\n", kith_status_text(status),
                ctx != NULL ? kith_ctx_detail(ctx) : "");
    }
    kith_index_free(index);
    kith_points_free(file);
    kith_ctx_free(ctx);
    return status == KITH_OK ? 0 : 1;
}
