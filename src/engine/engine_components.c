/* SPDX-License-Identifier: Apache-2.0
 *
 * Components by union-find: a parent never has the larger id, so that roots are the smallest ids of
 * their components, whatever the order of pairs.
 *
 * First come, first kept: pairs come by rising i, so that when the first pair of i comes, all
 * pairs (h, i) with h < i have been seen, and whether i is kept is settled. */
#include "engine/engine_pairs.h"

#include "base/base_layout.h"
#include "base/base_try.h"

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

/* Paths are halved on the way. */
static uint32_t root_of(uint32_t *parent, uint32_t row)
{
    while (parent[row] != row) {
        parent[row] = parent[parent[row]];
        row = parent[row];
    }
    return row;
}

void kin_components_add(kin_components *c, uint32_t i, uint32_t j)
{
    if (c->parent != NULL) {
        const uint32_t a = root_of(c->parent, i);
        const uint32_t b = root_of(c->parent, j);
        c->parent[a < b ? b : a] = a < b ? a : b;
    }
    if (c->degree != NULL) {
        c->degree[i] += 1;
        c->degree[j] += 1;
    } else if (c->kept != NULL && c->kept[i] != 0) {
        c->kept[j] = 0;
    }
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
        c->parent[i] = root_of(c->parent, (uint32_t)i);
    }
    if (c->parent != NULL && c->degree != NULL) {
        keep_central(c);
    }
    kin_free(ctx, c->block);
}
