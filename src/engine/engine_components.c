/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Components by union-find, of all threads: a parent never has the larger id, so that roots
 * are the smallest ids of their components, whatever the order of pairs and whoever joins them.
 *
 * First come, first kept: pairs come by rising i, so that when the first pair of i comes, all pairs
 * (h, i) with h < i have been seen, and whether i is kept is settled. */
#include "engine/engine_exact.h"

#include "host/host_threads.h"

enum { PAIRS_A_TASK = 1 << 14 };

static uint32_t load(const _Atomic uint32_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void name_rows(kin_layout *layout, void *job)
{
    kin_components *c = job;
    const uint64_t rows = (uint64_t)c->rows;
    const bool central = c->kept != NULL && c->keep == KITH_KEEP_CENTRAL;
    if (central && c->parent == NULL) {
        c->parent = kin_layout_array(layout, rows, sizeof *c->parent);
    }
    if (central) {
        c->degree = kin_layout_zeros(layout, rows, sizeof *c->degree);
        c->best = kin_layout_array(layout, rows, sizeof *c->best);
    }
}

kith_status kin_components_begin(kith_ctx *ctx, const kin_pairs_job *job, kin_components *c)
{
    *c = (kin_components){.rows = job->points.rows,
                          .keep = job->params.keep,
                          .parent = job->params.labels,
                          .kept = job->params.kept};
    if (c->kept != NULL && c->keep == KITH_KEEP_CENTRAL) {
        KIN_TRY(kin_layout_make(ctx, name_rows, c, "components", &c->block));
    }
    for (int64_t i = 0; c->parent != NULL && i < c->rows; i++) {
        c->parent[i] = (uint32_t)i;
    }
    if (c->kept != NULL) {
        memset(c->kept, 1, (size_t)c->rows);
    }
    return KITH_OK;
}

/* Paths are halved on the way: whoever else does so, a parent becomes what stands above it. */
static uint32_t root_of(_Atomic uint32_t *parent, uint32_t row)
{
    uint32_t above = load(&parent[row]);
    while (above != row) {
        const uint32_t next = load(&parent[above]);
        if (next != above) {
            atomic_store_explicit(&parent[row], next, memory_order_relaxed);
        }
        row = above;
        above = next;
    }
    return row;
}

/* The larger root gets the smaller one for a parent, if nobody gave it one before. */
static void join(_Atomic uint32_t *parent, uint32_t i, uint32_t j)
{
    bool joined = false;
    while (!joined) {
        i = root_of(parent, i);
        j = root_of(parent, j);
        uint32_t large = i < j ? j : i;
        joined = i == j || atomic_compare_exchange_strong(&parent[large], &large, i < j ? i : j);
    }
}

typedef struct adding {
    const kin_components *components;
    const kith_pairs *pairs;
} adding;

static kith_status add_some(void *arg, int64_t task, int32_t thread)
{
    const adding *a = arg;
    const kith_pairs *pairs = a->pairs;
    _Atomic uint32_t *parent = (_Atomic uint32_t *)a->components->parent;
    _Atomic uint32_t *degree = (_Atomic uint32_t *)a->components->degree;
    const int64_t last = kin_min_i64((task + 1) * PAIRS_A_TASK, pairs->count);
    (void)thread;
    for (int64_t p = task * PAIRS_A_TASK; p < last; p++) {
        join(parent, pairs->query_ids[p], pairs->corpus_ids[p]);
        if (degree != NULL) {
            atomic_fetch_add_explicit(&degree[pairs->query_ids[p]], 1, memory_order_relaxed);
            atomic_fetch_add_explicit(&degree[pairs->corpus_ids[p]], 1, memory_order_relaxed);
        }
    }
    return KITH_OK;
}

kith_status kin_components_add(kith_ctx *ctx, const kin_components *c, const kith_pairs *pairs)
{
    adding a = {c, pairs};
    for (int64_t p = 0; c->kept != NULL && c->degree == NULL && p < pairs->count; p++) {
        if (c->kept[pairs->query_ids[p]] != 0) {
            c->kept[pairs->corpus_ids[p]] = 0;
        }
    }
    return c->parent != NULL
               ? kin_parallel(ctx, NULL, kin_ceil_div(pairs->count, PAIRS_A_TASK), add_some, &a)
               : KITH_OK;
}

/* A row's root stands before it, so that one pass settles all. */
static void keep_central(const kin_components *c)
{
    memset(c->kept, 0, (size_t)c->rows);
    for (int64_t i = 0; i < c->rows; i++) {
        uint32_t *best = &c->best[c->parent[i]];
        if (c->parent[i] == i || c->degree[i] > c->degree[*best]) {
            *best = (uint32_t)i;
        }
    }
    for (int64_t i = 0; i < c->rows; i++) {
        c->kept[c->best[c->parent[i]]] = 1;
    }
}

void kin_components_end(kith_ctx *ctx, kin_components *c)
{
    for (int64_t i = 0; c->parent != NULL && i < c->rows; i++) {
        c->parent[i] = root_of((_Atomic uint32_t *)c->parent, (uint32_t)i);
    }
    if (c->parent != NULL && c->degree != NULL) {
        keep_central(c);
    }
    kin_free(ctx, c->block);
}
