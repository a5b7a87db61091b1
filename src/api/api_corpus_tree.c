/* SPDX-License-Identifier: Apache-2.0
 * Corpora with a tree: what a search will take, and rows that come and go. */
#include "api/api_check.h"
#include "api/api_corpus.h"
#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "engine/engine_call.h"
#include "engine/engine_exact.h"
#include "engine/engine_job.h"
#include "host/host_cpu.h"
#include "tree/tree.h"
#include "tree/tree_search.h"

#include <stdio.h>

static const int64_t MOST_ROWS = (int64_t)UINT32_MAX - 1;

/* ---- Planned -------------------------------------------------------------------------------- */

static kith_status fail_treeless(kith_ctx *ctx)
{
    return kin_fail(ctx, KITH_E_UNSUPPORTED,
                    "the corpus has no tree (prepare its points with one)");
}

static kith_status plan(kith_ctx *ctx, const kith_corpus *corpus, const kith_matrix *queries,
                        const kith_search_params *given, kith_plan *out)
{
    kith_search_params params;
    kin_knn_job job = {.corpus = corpus->prepared.rows.matrix,
                       .request.distance = corpus->prepared.distance};
    KIN_TRY(kin_check_told(ctx, out, "plan", "kith_plan"));
    KIN_TRY(kin_corpus_check_search(ctx, corpus, given, &params));
    if (!corpus->has_tree) {
        return fail_treeless(ctx);
    }
    const kith_neighbors shape = {.rows = queries != NULL ? queries->rows : 0, .k = params.k};
    KIN_TRY(kin_api_check_queries(ctx, queries, &params, &shape, &job));
    KIN_TRY(kin_corpus_check_method(ctx, corpus, &job.request));
    const kin_plan need = kin_tree_search_plan(&corpus->tree, corpus->prepared.rows.matrix.rows,
                                               &job.queries, &job.request, ctx->threads);
    const uint64_t result = kin_size_mul(kin_size_mul((uint64_t)shape.rows, (uint64_t)shape.k),
                                         sizeof(uint32_t) + sizeof(float));
    const uint64_t limit = kin_limit_bytes(&job.request, shape.rows);
    kith_plan own = {.threads = ctx->threads,
                     .prepared_bytes = need.prepared_bytes,
                     .state_bytes = kin_size_add(need.state_bytes, limit),
                     .result_bytes = result,
                     .peak_bytes = kin_size_add(kin_size_add(need.peak_bytes, limit), result)};
    (void)snprintf(own.isa, sizeof own.isa, "%s", kin_isa_name(ctx->isa));
    (void)snprintf(own.method, sizeof own.method, "tree");
    (void)snprintf(own.backend, sizeof own.backend, "cpu");
    kin_fill_room(out, &own, sizeof own);
    return KITH_OK;
}

kith_status kith_corpus_plan(kith_ctx *ctx, const kith_corpus *corpus, const kith_matrix *queries,
                             const kith_search_params *params, kith_plan *out)
{
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    kith_status status = kin_corpus_enter(ctx, corpus);
    if (status == KITH_OK) {
        status = plan(ctx, corpus, queries, params, out);
        kin_corpus_leave(ctx, corpus);
    }
    return kin_call_end(&call, status);
}

/* ---- Changed -------------------------------------------------------------------------------- */

/* What a corpus will be: its rows, and its groups of them. */
typedef struct change {
    kith_ctx *ctx; /* the corpus' own */
    kith_corpus *corpus;
    kith_matrix matrix;
    void *rows; /* the matrix' data */
    kin_prepared prepared;
    kin_tree copy;  /* of a tree that lies in a file */
    kin_tree *tree; /* that, or the corpus' own */
} change;

static kith_status make_room(change *c, int64_t rows)
{
    const kith_matrix *before = &c->corpus->prepared.rows.matrix;
    const int64_t row_bytes = (int64_t)before->cols * kith_dtype_bytes(before->dtype);
    KIN_TRY(kin_alloc(c->ctx, &c->rows, (uint64_t)rows, (uint64_t)row_bytes, "the changed points"));
    c->matrix = *before;
    c->matrix.data = c->rows;
    c->matrix.rows = rows;
    c->matrix.stride_bytes = row_bytes;
    return KITH_OK;
}

static void copy_row(const change *c, int64_t to, const kith_matrix *from, int64_t row)
{
    memcpy((unsigned char *)c->rows + to * c->matrix.stride_bytes,
           (const unsigned char *)from->data + row * from->stride_bytes,
           (size_t)c->matrix.stride_bytes);
}

/* Groups of the rows as they will be, and a tree that can be changed. */
static kith_status prepare_change(change *c)
{
    const kith_corpus *corpus = c->corpus;
    KIN_TRY(kin_prepare_rows(c->ctx, &c->matrix, &corpus->prepared.distance, "points",
                             KIN_ROWS_CHECKED, &c->prepared));
    c->tree = &c->corpus->tree;
    if (corpus->views) {
        c->tree = &c->copy;
        KIN_TRY(kin_tree_store_copy(c->ctx, &corpus->tree, &c->copy));
    }
    return KITH_OK;
}

/* Hands the corpus what it is now, or frees it. */
static kith_status end_change(change *c, kith_status status)
{
    kith_corpus *corpus = c->corpus;
    if (status != KITH_OK) {
        kin_tree_free(c->ctx, &c->copy);
        kin_prepared_free(c->ctx, &c->prepared);
        kin_free(c->ctx, c->rows);
        return status;
    }
    if (corpus->views) {
        corpus->tree = c->copy;
    } else {
        kin_prepared_free(c->ctx, &corpus->prepared);
    }
    kin_free(c->ctx, corpus->rows);
    kin_container_close(corpus->container);
    corpus->container = NULL;
    corpus->views = false;
    corpus->prepared = c->prepared;
    corpus->rows = c->rows;
    c->ctx->report.seconds_prepare = c->prepared.seconds_prepare;
    c->ctx->report.distinct_rows = c->prepared.groups.count;
    return KITH_OK;
}

static kith_status check_added(kith_ctx *ctx, const kith_matrix *before, const kith_matrix *points,
                               kith_matrix *added)
{
    KIN_TRY(kin_check_matrix(ctx, points, "points", added));
    KIN_TRY(kin_check_cols(ctx, before, "the corpus", added, "points"));
    if (added->dtype != before->dtype) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("points"),
                           "are %s and the corpus' are %s (convert them)",
                           kith_dtype_name(added->dtype), kith_dtype_name(before->dtype));
    }
    if (added->rows > MOST_ROWS - before->rows) {
        return kin_fail(ctx, KITH_E_ARGUMENT,
                        "%lld rows and %lld more are above the %lld that a corpus may have (add "
                        "fewer, or keep two corpora)",
                        (long long)before->rows, (long long)added->rows, (long long)MOST_ROWS);
    }
    return KITH_OK;
}

static kith_status add(change *c, const kith_matrix *points)
{
    kith_ctx *ctx = c->ctx;
    const kith_matrix *before = &c->corpus->prepared.rows.matrix;
    kith_matrix added;
    KIN_TRY(check_added(ctx, before, points, &added));
    KIN_TRY(kin_metric_check(ctx, &added, c->corpus->prepared.distance.metric, "points"));
    KIN_TRY(make_room(c, before->rows + added.rows));
    for (int64_t i = 0; i < before->rows; i++) {
        copy_row(c, i, before, i);
    }
    for (int64_t i = 0; i < added.rows; i++) {
        copy_row(c, before->rows + i, &added, i);
    }
    KIN_TRY(prepare_change(c));
    return kin_tree_add(ctx, &c->prepared, before->rows, c->tree);
}

/* A bit for each row that goes; *unique: how many there are. */
static kith_status mark(kith_ctx *ctx, const uint32_t *ids, int64_t count, int64_t rows,
                        uint64_t *gone, int64_t *unique)
{
    for (int64_t i = 0; i < count; i++) {
        if ((int64_t)ids[i] >= rows) {
            return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at_row("ids", i),
                               "is %lu, must be below %lld (rows count from 0)",
                               (unsigned long)ids[i], (long long)rows);
        }
        const uint64_t bit = (uint64_t)1 << (ids[i] % 64);
        *unique += (gone[ids[i] / 64] & bit) == 0;
        gone[ids[i] / 64] |= bit;
    }
    if (*unique == rows) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("ids"),
                           "name all %lld rows, and a corpus has at least one (leave some out)",
                           (long long)rows);
    }
    return KITH_OK;
}

/* What is left moves up; removed: the rows that go, rising. */
static void close_up(const change *c, const uint64_t *gone, uint32_t *removed)
{
    const kith_matrix *before = &c->corpus->prepared.rows.matrix;
    int64_t kept = 0;
    for (int64_t i = 0; i < before->rows; i++) {
        if ((gone[i / 64] >> (i % 64) & 1) != 0) {
            *removed++ = (uint32_t)i;
        } else {
            copy_row(c, kept++, before, i);
        }
    }
}

static kith_status remove_rows(change *c, const uint32_t *ids, int64_t count, uint64_t *gone,
                               uint32_t **removed)
{
    kith_ctx *ctx = c->ctx;
    const int64_t rows = c->corpus->prepared.rows.matrix.rows;
    int64_t unique = 0;
    KIN_TRY(mark(ctx, ids, count, rows, gone, &unique));
    KIN_TRY(kin_alloc(ctx, removed, (uint64_t)unique, sizeof **removed, "ids"));
    KIN_TRY(make_room(c, rows - unique));
    close_up(c, gone, *removed);
    KIN_TRY(prepare_change(c));
    kin_tree_remove(ctx, &c->corpus->prepared.groups, &c->prepared, *removed, unique, c->tree);
    return KITH_OK;
}

static kith_status remove_ids(change *c, const uint32_t *ids, int64_t count)
{
    kith_ctx *ctx = c->ctx;
    uint64_t *gone = NULL;
    uint32_t *removed = NULL;
    if (count < 0 || (count > 0 && ids == NULL)) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("count"),
                           "is %lld with ids %s (give an array of that length)", (long long)count,
                           ids == NULL ? "NULL" : "set");
    }
    const uint64_t words = (uint64_t)c->corpus->prepared.rows.matrix.rows / 64 + 1;
    KIN_TRY(kin_alloc_zero(ctx, &gone, words, sizeof *gone, "ids"));
    const kith_status status = remove_rows(c, ids, count, gone, &removed);
    kin_free(ctx, removed);
    kin_free(ctx, gone);
    return status;
}

/* What is asked for: points that come, or rows that go. */
typedef struct rows_to_change {
    const kith_matrix *points;
    const uint32_t *ids;
    int64_t count;
    bool go;
} rows_to_change;

/* In the corpus' own context. */
static kith_status change_in(kith_ctx *own, kith_corpus *corpus, const rows_to_change *rows)
{
    if (!corpus->has_tree) {
        return fail_treeless(own);
    }
    change c = {.ctx = own, .corpus = corpus};
    return end_change(&c,
                      rows->go ? remove_ids(&c, rows->ids, rows->count) : add(&c, rows->points));
}

static kith_status change_alone(kith_ctx *ctx, kith_corpus *corpus, const rows_to_change *rows)
{
    kin_corpus_call call;
    if (corpus == NULL) {
        return kin_corpus_enter(ctx, corpus);
    }
    kin_guard_enter(corpus->guard, true);
    kith_status status = kin_corpus_call_begin(ctx, corpus->own, &call);
    if (status == KITH_OK) {
        status = kin_corpus_call_end(&call, change_in(corpus->own, corpus, rows));
    }
    kin_guard_leave(corpus->guard);
    return status;
}

static kith_status change_corpus(kith_ctx *ctx, kith_corpus *corpus, const rows_to_change *rows)
{
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, change_alone(ctx, corpus, rows));
}

kith_status kith_corpus_add(kith_ctx *ctx, kith_corpus *corpus, const kith_matrix *points)
{
    const rows_to_change rows = {.points = points};
    return change_corpus(ctx, corpus, &rows);
}

kith_status kith_corpus_remove(kith_ctx *ctx, kith_corpus *corpus, const uint32_t *ids,
                               int64_t count)
{
    const rows_to_change rows = {.ids = ids, .count = count, .go = true};
    return change_corpus(ctx, corpus, &rows);
}
