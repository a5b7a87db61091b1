/* SPDX-License-Identifier: Apache-2.0 */
#include "papers/papers_hybrid.h"

#include "base/base_size.h"
#include "fused/fused_stage.h"
#include "papers/papers.h"
#include "papers/papers_costs.h"

static const uint64_t KEY_BYTES = (uint64_t)512 << 20; /* of a stripe */
enum {
    MOST_STRIPE = 2048,
    PICKED_BYTES = sizeof(double) + sizeof(uint32_t) + sizeof(kin_fused_pair),
    ROW_BYTES = 4 * sizeof(uint64_t) /* counts, places, flags, ids of a row */
};

kin_papers_hybrid_size kin_papers_hybrid_size_of(int64_t columns, int64_t k, int32_t times)
{
    kin_papers_hybrid_size s = {.sample = kin_papers_sample_columns(columns, k, times)};
    s.leaves = kin_papers_sample_leaves(columns, s.sample, k);
    const uint64_t a_row = (uint64_t)s.leaves * (sizeof(uint64_t) + sizeof(kin_fused_hit)) +
                           (uint64_t)s.sample * sizeof(uint32_t) +
                           (uint64_t)k * sizeof(kin_fused_pair) + ROW_BYTES;
    s.a_block = KIN_FUSED_BLOCK * a_row;
    return s;
}

int64_t kin_papers_hybrid_batch(const kin_request *request, int64_t queries)
{
    return request->batch == 0 ? queries : kin_min_i64(request->batch, queries);
}

int64_t kin_papers_hybrid_stripe(int64_t queries, int64_t columns, uint64_t scope)
{
    const uint64_t share = scope / 4;
    const uint64_t bytes = share < KEY_BYTES ? share : KEY_BYTES;
    const int64_t fit = (int64_t)(bytes / kin_size_mul((uint64_t)columns, sizeof(double)));
    return kin_max_i64(1, kin_min_i64(kin_min_i64(fit, MOST_STRIPE), queries));
}

static int64_t wanted_of(const kin_request *request, int64_t columns)
{
    return kin_min_i64(request->k + 1, columns);
}

uint64_t kin_papers_hybrid_bytes(const kin_gpu *gpu, const kin_request *request, int64_t rows,
                                 int64_t columns, uint64_t scope)
{
    (void)gpu;
    const kin_papers_hybrid_size s =
        kin_papers_hybrid_size_of(columns, wanted_of(request, columns), request->sample);
    const int64_t blocks = kin_fused_blocks_of(kin_papers_hybrid_batch(request, rows));
    return kin_papers_costs_size_of(columns, blocks, s.a_block, scope).bytes;
}

uint64_t kin_papers_hybrid_keys_bytes(const kin_gpu *gpu, const kin_request *request, int64_t rows,
                                      int64_t columns, uint64_t scope)
{
    const int64_t k = wanted_of(request, columns);
    const kin_papers_hybrid_size s = kin_papers_hybrid_size_of(columns, k, request->sample);
    const int64_t stripe =
        kin_papers_hybrid_stripe(kin_papers_hybrid_batch(request, rows), columns, scope);
    const uint64_t a_query = (uint64_t)(columns + s.sample + 1) * sizeof(double) +
                             (uint64_t)s.leaves * sizeof(kin_fused_hit) +
                             (uint64_t)k * PICKED_BYTES;
    const kin_select_job job = {.stride_bytes = columns * (int64_t)sizeof(double),
                                .rows = stripe,
                                .cols = columns,
                                .k = k,
                                .dtype = KIN_SELECT_F64,
                                .sample = 1,
                                .sorted = true};
    return kin_size_add(kin_size_mul((uint64_t)stripe, a_query),
                        kin_papers_scratch_bytes(gpu, &job, scope));
}

/* Of a batch: keys and neighbours; by keys, they are there once more, in order. Of all rows: ids,
 * twice. Of a thread: the longest row to select from. */
uint64_t kin_papers_hybrid_host_bytes(const kin_request *request, bool screens, int64_t rows,
                                      int64_t columns, uint64_t scope, int32_t threads)
{
    const int64_t k = wanted_of(request, columns);
    const kin_papers_hybrid_size s = kin_papers_hybrid_size_of(columns, k, request->sample);
    const int64_t most = kin_papers_hybrid_batch(request, rows);
    const int64_t blocks =
        kin_papers_costs_size_of(columns, kin_fused_blocks_of(most), s.a_block, scope).blocks;
    const int64_t batch =
        screens ? blocks * KIN_FUSED_BLOCK : kin_papers_hybrid_stripe(most, columns, scope);
    const int64_t room = kin_min_i64(batch * s.leaves, columns);
    const uint64_t hits =
        kin_size_mul((uint64_t)(batch * s.leaves), (screens ? 1 : 2) * sizeof(kin_fused_hit));
    const uint64_t others =
        kin_size_mul((uint64_t)batch, (uint64_t)k * sizeof(kin_fused_pair) + ROW_BYTES);
    const uint64_t heaps = kin_size_mul(
        (uint64_t)threads, kin_papers_heaps_bytes(k, screens ? (int64_t)s.leaves : room));
    return kin_size_add(kin_size_add(hits, others),
                        kin_size_add(heaps, (uint64_t)rows * 2 * sizeof(uint32_t)));
}
