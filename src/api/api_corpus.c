/* SPDX-License-Identifier: Apache-2.0
 * Prepared corpora. A corpus keeps the context that made it, which must outlive it: its memory is
 * that context's. Others may search it. */
#include "api/api_call.h"
#include "api/api_check.h"
#include "api/api_search.h"
#include "base/base_mem.h"
#include "base/base_try.h"
#include "exact/exact_store.h"

enum { USUAL_K = 10 };

struct kith_corpus {
    kith_ctx *home;
    kin_prepared prepared;
    kin_container *container; /* NULL unless it was opened from a file */
    bool views;               /* the preparation lies in the container, too */
    uint64_t bytes;
};

void kith_corpus_free(kith_corpus *corpus)
{
    if (corpus == NULL) {
        return;
    }
    kith_ctx *ctx = corpus->home;
    if (!corpus->views) {
        kin_prepared_free(ctx, &corpus->prepared);
    }
    kin_container_close(corpus->container);
    kin_free(ctx, corpus);
}

/* Equal types on both sides are what a corpus of bytes waits for. */
static kith_status prepare(kith_ctx *ctx, const kith_matrix *points, const char *name,
                           const kin_distance *distance, kith_corpus *corpus)
{
    KIN_TRY(kin_api_prepare(ctx, points, name, distance, points, USUAL_K, &corpus->prepared));
    ctx->report.seconds_check = corpus->prepared.seconds_check;
    ctx->report.seconds_prepare = corpus->prepared.seconds_prepare;
    return KITH_OK;
}

static kith_status create(kith_ctx *ctx, const kith_matrix *points, kith_metric metric,
                          kith_corpus *corpus)
{
    kith_matrix matrix;
    kin_distance distance;
    KIN_TRY(kin_check_matrix(ctx, points, "points", &matrix));
    KIN_TRY(kin_check_metric(ctx, metric, NULL, NULL, matrix.cols, &distance));
    return prepare(ctx, &matrix, "points", &distance, corpus);
}

static kith_status open_file(kith_ctx *ctx, const char *path, kith_corpus *corpus)
{
    kith_matrix points;
    kith_matrix checked;
    kith_metric metric;
    kin_distance distance;
    KIN_TRY(kin_container_open(ctx, path, &corpus->container));
    KIN_TRY(kin_store_points(ctx, path, corpus->container, &points, &metric));
    KIN_TRY(kin_check_matrix(ctx, &points, path, &checked));
    KIN_TRY(kin_check_metric(ctx, metric, NULL, NULL, checked.cols, &distance));
    bool usable = false;
    if (kin_exact_screens(&distance)) {
        corpus->views = true; /* whatever there is of it on failure */
        KIN_TRY(kin_store_view(ctx, path, corpus->container, &checked, &distance, &corpus->prepared,
                               &usable));
    }
    corpus->views = usable;
    return usable ? KITH_OK : prepare(ctx, &checked, path, &distance, corpus);
}

/* From points, or from a file where path is not NULL. */
static kith_status make(kith_ctx *ctx, const kith_matrix *points, kith_metric metric,
                        const char *path, kith_corpus **out)
{
    if (out == NULL) {
        return kin_fail(ctx, KITH_E_ARGUMENT, "out is NULL (give room for a pointer)");
    }
    kith_corpus *corpus = NULL;
    const uint64_t held = atomic_load(&ctx->held_bytes);
    KIN_TRY(kin_alloc_zero(ctx, &corpus, 1, sizeof *corpus, "a corpus"));
    corpus->home = ctx;
    const kith_status status =
        path != NULL ? open_file(ctx, path, corpus) : create(ctx, points, metric, corpus);
    if (status != KITH_OK) {
        kith_corpus_free(corpus);
        return status;
    }
    corpus->bytes = atomic_load(&ctx->held_bytes) - held;
    *out = corpus;
    return KITH_OK;
}

kith_status kith_corpus_create(kith_ctx *ctx, const kith_matrix *points, kith_metric metric,
                               kith_corpus **out)
{
    if (out != NULL) {
        *out = NULL;
    }
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, make(ctx, points, metric, NULL, out));
}

static kith_status check_path(kith_ctx *ctx, const char *path)
{
    if (path == NULL || path[0] == '\0') {
        return kin_fail(ctx, KITH_E_ARGUMENT, "path is %s, must be the name of a file",
                        path == NULL ? "NULL" : "empty");
    }
    return KITH_OK;
}

kith_status kith_corpus_open(kith_ctx *ctx, const char *path, kith_corpus **out)
{
    if (out != NULL) {
        *out = NULL;
    }
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    kith_status status = check_path(ctx, path);
    if (status == KITH_OK) {
        status = make(ctx, NULL, KITH_METRIC_DEFAULT, path, out);
    }
    return kin_call_end(&call, status);
}

static kith_status check_corpus(kith_ctx *ctx, const kith_corpus *corpus)
{
    return corpus != NULL ? KITH_OK
                          : kin_fail(ctx, KITH_E_ARGUMENT, "corpus is NULL (give a corpus)");
}

kith_status kith_corpus_save(kith_ctx *ctx, const kith_corpus *corpus, const char *path)
{
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    kith_status status = check_corpus(ctx, corpus);
    if (status == KITH_OK) {
        status = check_path(ctx, path);
    }
    if (status == KITH_OK) {
        status = kin_store_save(ctx, path, &corpus->prepared);
    }
    return kin_call_end(&call, status);
}

static kith_status search(kith_ctx *ctx, const kith_corpus *corpus, const kith_matrix *queries,
                          const kith_search_params *given, const kith_neighbors *out)
{
    kith_search_params params;
    KIN_TRY(check_corpus(ctx, corpus));
    KIN_TRY(kin_check_search_params(ctx, given, &params));
    const kith_metric own = corpus->prepared.distance.metric;
    if (params.metric != KITH_METRIC_DEFAULT && params.metric != own) {
        return kin_fail(ctx, KITH_E_ARGUMENT,
                        "params.metric is %s and the corpus was prepared for %s (give 0 or the "
                        "same)",
                        kith_metric_name(params.metric), kith_metric_name(own));
    }
    return kin_api_search(ctx, &corpus->prepared, queries, &params, out);
}

kith_status kith_corpus_search(kith_ctx *ctx, const kith_corpus *corpus, const kith_matrix *queries,
                               const kith_search_params *params, const kith_neighbors *out)
{
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, search(ctx, corpus, queries, params, out));
}

const kith_matrix *kith_corpus_points(const kith_corpus *corpus)
{
    return &corpus->prepared.rows.matrix;
}

kith_metric kith_corpus_metric(const kith_corpus *corpus)
{
    return corpus->prepared.distance.metric;
}

uint64_t kith_corpus_bytes(const kith_corpus *corpus)
{
    return corpus->bytes;
}
