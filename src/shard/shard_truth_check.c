/* SPDX-License-Identifier: Apache-2.0
 * What a ground truth is asked for, checked once. */
#include "api/api_check.h"
#include "shard/shard_truth.h"

static const int64_t MOST_ROWS = (int64_t)UINT32_MAX - 1;

static kith_status fail_matrix(kith_ctx *ctx, int32_t matrix, const char *what, int64_t has,
                               int64_t wanted)
{
    return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("corpus"),
                       "has %lld %s in matrix %d, %lld before (give points of one dimension)",
                       (long long)has, what, (int)matrix, (long long)wanted);
}

static kith_status check_corpus(kin_truth *t, const kith_matrix *corpus)
{
    t->alike = true;
    for (int32_t i = 0; i < t->count; i++) {
        kith_matrix *own = &t->corpus[i];
        t->report.matrix = i;
        KIN_TRY(kin_check_matrix(t->ctx, &corpus[i], "corpus", own));
        if (own->cols != t->corpus[0].cols) {
            return fail_matrix(t->ctx, i, "columns", own->cols, t->corpus[0].cols);
        }
        t->alike &= own->dtype == t->corpus[0].dtype;
        t->rows += own->rows;
    }
    t->alike &= t->rows <= MOST_ROWS;
    t->report.matrix = 0;
    return KITH_OK;
}

static kith_status check_k(const kin_truth *t)
{
    const long long most = (long long)kin_min_i64(t->rows, INT32_MAX);
    KIN_PASS_IF(t->ranged || (t->k >= 1 && t->k <= most), t->ctx, KITH_E_ARGUMENT, kin_at("k"),
                "is %lld, must be 1 to %lld (the corpus has no more rows)", (long long)t->k, most);
}

static kith_status check_filter(kin_truth *t)
{
    kin_filter_job like = {.queries = t->queries};
    like.corpus.rows = t->rows;
    if (t->params.filter == NULL) {
        return KITH_OK;
    }
    KIN_TRY(kin_api_take_filter(t->ctx, t->params.filter, false, &like));
    KIN_FAIL_IF(like.filter.rule == KITH_RULE_EACH, t->ctx, KITH_E_ARGUMENT, kin_at("rule"),
                "is each, and a truth has one list a query (use same or other)");
    t->filters = true;
    t->filter = like.filter;
    t->filter_sum = kin_filter_sum(&t->filter, t->rows, t->queries.rows);
    return KITH_OK;
}

kith_status kin_truth_begin(kin_truth *t, const kith_matrix *corpus, int32_t count,
                            const kith_matrix *queries)
{
    kith_ctx *ctx = t->ctx;
    t->count = count;
    t->k = t->params.k;
    KIN_FAIL_IF(corpus == NULL || count < 1, ctx, KITH_E_ARGUMENT, kin_at("corpus"),
                "has %d matrices (give at least one)", (int)count);
    KIN_TRY(kin_alloc(ctx, &t->corpus, (uint64_t)count, sizeof *t->corpus, "the corpus' files"));
    KIN_TRY(check_corpus(t, corpus));
    KIN_TRY(kin_check_matrix(ctx, queries, "queries", &t->queries));
    KIN_TRY(kin_check_cols(ctx, &t->corpus[0], "the corpus", &t->queries, "queries"));
    KIN_TRY(kin_check_metric(ctx, t->params.metric, NULL, NULL, t->queries.cols, &t->distance));
    t->metric = t->distance.metric;
    t->distance.metric = kin_metric_of_keys(t->metric);
    KIN_TRY(kin_truth_check_radius(t));
    KIN_TRY(check_k(t));
    KIN_TRY(check_filter(t));
    t->report.queries = t->queries.rows;
    t->report.rows = t->rows;
    t->report.files = count;
    t->report.k = t->k;
    t->report.metric = t->metric;
    t->report.radius = t->params.radius;
    t->report.within = t->ranged;
    return kin_fingerprint_make(ctx, &t->queries, &t->asked);
}
