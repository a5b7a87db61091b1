/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_keys.h"

#include "host/host_cpu.h"

#include <assert.h>
#include <stdlib.h>

int test_bodies(kin_isa isas[KIN_ISA_COUNT])
{
    const kin_isa levels[] = {KIN_ISA_PORTABLE, KIN_ISA_AVX2, KIN_ISA_AVX512, KIN_ISA_NEON};
    int count = 0;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (kin_cpu_has(levels[i])) {
            isas[count] = levels[i];
            count += 1;
        }
    }
    return count;
}

kith_ctx *test_ctx(kin_isa isa, int32_t threads)
{
    kith_ctx_params params = kith_ctx_params_default();
    params.device = "cpu";
    params.isa = kin_isa_name(isa);
    params.threads = threads;
    kith_ctx *ctx = NULL;
    if (kith_ctx_create(&params, &ctx) != KITH_OK) {
        abort();
    }
    return ctx;
}

static kin_row_transform *transforms_of(kith_ctx *ctx, kith_metric metric, const kith_matrix *m)
{
    if (!kin_metric_get_traits(metric)->transforms) {
        return NULL;
    }
    kin_row_transform *transforms = malloc((size_t)m->rows * sizeof *transforms);
    if (transforms == NULL || kin_metric_transforms(ctx, m, metric, transforms) != KITH_OK) {
        abort();
    }
    return transforms;
}

void test_keys(kith_ctx *ctx, kith_metric metric, const kith_matrix *queries, int64_t row,
               const kith_matrix *corpus, const uint32_t *ids, int64_t count, double *keys)
{
    kin_row_transform *of_queries = transforms_of(ctx, metric, queries);
    kin_row_transform *of_corpus = transforms_of(ctx, metric, corpus);
    const kin_rows query_rows = {*queries, of_queries};
    const kin_rows corpus_rows = {*corpus, of_corpus};
    const kin_distance distance = {.metric = metric, .cols = corpus->cols, .isa = ctx->isa};
    const size_t bytes = ((size_t)corpus->cols * sizeof(double) + 63) / 64 * 64;
    double *values = aligned_alloc(64, bytes);
    assert(values != NULL);
    const kin_query query = kin_metric_load(&distance, &query_rows, row, values);
    if (ids != NULL) {
        kin_metric_keys(&distance, &query, &corpus_rows, ids, count, keys);
    } else {
        kin_metric_keys_run(&distance, &query, &corpus_rows, 0, corpus->rows, keys);
    }
    free(values);
    free(of_queries);
    free(of_corpus);
}
