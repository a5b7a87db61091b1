/* SPDX-License-Identifier: Apache-2.0
 * Nothing but canonical keys, one pair after another: what ground truth is counted and verified by.
 */
#include "base/base_layout.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "exact/exact_prepare.h"
#include "host/host_threads.h"
#include "shard/shard_truth.h"

enum { CHUNK = 512 };

typedef struct comparing {
    const kin_distance *distance;
    kin_prepared rows;
    kin_prepared queries;
    kin_truth_hear *hear;
    void *arg;
    uint64_t threads;
    uint64_t width; /* doubles of a query */
    double *values; /* a query for each thread, and a chunk of keys */
    double *keys;
} comparing;

static void name_rooms(kin_layout *layout, void *arg)
{
    comparing *c = arg;
    c->values = kin_layout_array(layout, c->threads * c->width, sizeof *c->values);
    c->keys = kin_layout_array(layout, c->threads * CHUNK, sizeof *c->keys);
}

static kith_status compare_query(void *arg, int64_t query, int32_t thread)
{
    const comparing *c = arg;
    double *keys = c->keys + (int64_t)thread * CHUNK;
    const int64_t rows = c->rows.rows.matrix.rows;
    const kin_query loaded = kin_metric_load(c->distance, &c->queries.rows, query,
                                             c->values + (uint64_t)thread * c->width);
    for (int64_t first = 0; first < rows; first += CHUNK) {
        const int64_t count = kin_min_i64(CHUNK, rows - first);
        kin_metric_keys_run(c->distance, &loaded, &c->rows.rows, first, count, keys);
        c->hear(c->arg, query, first, keys, count);
    }
    return KITH_OK;
}

kith_status kin_truth_compare(kith_ctx *ctx, const kin_distance *distance, const kith_matrix *rows,
                              const kith_matrix *queries, kin_truth_hear *hear, void *arg)
{
    comparing c = {.distance = distance,
                   .hear = hear,
                   .arg = arg,
                   .threads = (uint64_t)ctx->threads,
                   .width = (uint64_t)kin_round_up(distance->cols, KIN_METRIC_LANES)};
    void *block = NULL;
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status,
                 kin_prepare_rows(ctx, rows, distance, "corpus", KIN_ROWS_DISTINCT, &c.rows), done);
    KIN_TRY_GOTO(status,
                 kin_prepare_rows(ctx, queries, distance, "queries", KIN_ROWS_DISTINCT, &c.queries),
                 done);
    KIN_TRY_GOTO(status, kin_layout_make(ctx, name_rooms, &c, "keys of queries", &block), done);
    status = kin_parallel(ctx, "compare", queries->rows, compare_query, &c);
done:
    kin_free(ctx, block);
    kin_prepared_free(ctx, &c.queries);
    kin_prepared_free(ctx, &c.rows);
    return status;
}

bool kin_truth_allows(const kith_filter *filter, int64_t query, int64_t row)
{
    const uint8_t *allow = filter->allow;
    const bool allowed =
        allow == NULL || (allow[query * filter->allow_stride_bytes + row / 8] >> row % 8 & 1) != 0;
    return allowed && (filter->rule == KITH_RULE_NONE ||
                       (filter->query_groups[query] == filter->groups[row]) ==
                           (filter->rule == KITH_RULE_SAME));
}
