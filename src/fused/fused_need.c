/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job takes of a device's memory, before it starts: the same sums that the drivers cut their
 * stripes and chunks by (fused_side.c, fused_chunk.c), for matrices that lie on the host.
 */
#include "fused/fused_direct.h"
#include "fused/fused_side.h"

#include "base/base_size.h"

typedef struct needing {
    const kith_matrix *corpus;
    const kith_matrix *queries; /* the corpus for a graph */
    const kin_request *request;
    uint64_t budget;
    bool graph;
    bool screens;
} needing;

static kin_fused_prepared_need corpus_need(const needing *n, int64_t rows)
{
    return kin_fused_prepared_bytes(n->corpus, rows, &n->request->distance, n->queries->dtype, 0,
                                    true);
}

/* A stripe of queries against `rows` rows of the corpus. A graph whose lists fit has no queries of
 * its own. */
static uint64_t stripe_need(const needing *n, int64_t count, int64_t rows, bool at_once)
{
    const int64_t k = n->request->k + 1;
    const uint64_t queries =
        at_once ? 0
                : kin_fused_prepared_bytes(n->queries, count, &n->request->distance,
                                           n->corpus->dtype, 0, false)
                      .most;
    const uint64_t working = n->screens ? kin_fused_work_bytes(count, rows, k, n->budget)
                                        : kin_fused_direct_least_bytes(rows, n->request->k);
    const uint64_t answers = kin_fused_answers_bytes(count, n->request->k);
    return kin_size_add(kin_size_add(queries, working), answers);
}

static uint64_t sum_need(const needing *n, int64_t rows, int64_t count, bool at_once)
{
    const kin_fused_prepared_need corpus = corpus_need(n, rows);
    const uint64_t running = kin_size_add(corpus.resident, stripe_need(n, count, rows, at_once));
    return running > corpus.most ? running : corpus.most;
}

static int64_t halved(int64_t rows)
{
    return kin_round_up(kin_ceil_div(rows, 2), KIN_FUSED_LEAST_ROWS);
}

kin_fused_need kin_fused_plan_need(const kith_matrix *corpus, const kith_matrix *queries,
                                   const kin_request *request, uint64_t budget)
{
    const needing n = {.corpus = corpus,
                       .queries = queries != NULL ? queries : corpus,
                       .request = request,
                       .budget = budget,
                       .graph = queries == NULL,
                       .screens = kin_fused_screens(
                           request, corpus->rows, queries != NULL ? queries->rows : corpus->rows)};
    const int64_t least_rows = kin_min_i64(KIN_FUSED_LEAST_ROWS, corpus->rows);
    const int64_t least_stripe = kin_min_i64(KIN_FUSED_LEAST_ROWS, n.queries->rows);
    kin_fused_need need = {.whole_bytes = sum_need(&n, corpus->rows, n.queries->rows, n.graph),
                           .least_bytes = sum_need(&n, least_rows, least_stripe, false),
                           .corpus_chunks = 1,
                           .query_stripes = 1};
    if (need.whole_bytes <= budget) {
        return need;
    }
    int64_t rows = corpus->rows;
    while (rows > KIN_FUSED_LEAST_ROWS && sum_need(&n, rows, least_stripe, false) > budget) {
        rows = halved(rows);
    }
    int64_t stripe = n.queries->rows;
    while (stripe > KIN_FUSED_LEAST_ROWS && sum_need(&n, rows, stripe, false) > budget) {
        stripe = halved(stripe);
    }
    need.corpus_chunks = kin_ceil_div(corpus->rows, rows);
    need.query_stripes = kin_ceil_div(n.queries->rows, stripe);
    return need;
}
