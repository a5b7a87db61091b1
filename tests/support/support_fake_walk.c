/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_fake_walk.h"

#include "select/select_pairs.h"
#include "support/support_fake_screen.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

test_fake_walk_counts test_fake_walks;

/* ---- A graph --------------------------------------------------------------------------------- */

static bool links_to(const uint32_t *links, int32_t most, uint32_t row)
{
    for (int32_t i = 0; i < most; i++) {
        if (links[i] == row) {
            return true;
        }
    }
    return false;
}

static void add_link(uint32_t *links, int32_t most, uint32_t row)
{
    for (int32_t i = 0; i < most && !links_to(links, most, row); i++) {
        if (links[i] == KITH_ID_NONE) {
            links[i] = row;
        }
    }
}

static int link(kin_gpu_stream *stream, const kin_graph_gpu_link *job)
{
    const int32_t most = 2 * job->k;
    (void)stream;
    memset(job->links, 0xff, (size_t)(job->points * most) * sizeof *job->links);
    for (int32_t turned = 0; turned < 2; turned++) {
        for (int64_t i = 0; i < job->points * job->k; i++) {
            const uint32_t row = (uint32_t)(i / job->k);
            const uint32_t id = job->graph[i];
            if (id != KITH_ID_NONE && id != row) {
                add_link(job->links + (int64_t)(turned != 0 ? id : row) * most, most,
                         turned != 0 ? row : id);
            }
        }
    }
    return 0;
}

static int parts(kin_gpu_stream *stream, const kin_graph_gpu_parts *job)
{
    bool changes = true;
    (void)stream;
    for (int64_t row = 0; row < job->points; row++) {
        job->roots[row] = (uint32_t)row;
    }
    while (changes) {
        changes = false;
        for (int64_t i = 0; i < job->points * job->k; i++) {
            if (job->graph[i] != KITH_ID_NONE) {
                uint32_t *a = &job->roots[i / job->k];
                uint32_t *b = &job->roots[job->graph[i]];
                changes = changes || *a != *b;
                *a = *a < *b ? *a : *b;
                *b = *a;
            }
        }
    }
    for (int64_t row = 0; row < job->points; row++) {
        job->sizes[job->roots[row]] += 1;
    }
    for (int64_t row = job->points - 1; row >= 0; row--) {
        if (job->sizes[row] > 0) {
            job->words[(*job->count)++] =
                (uint64_t)(UINT32_MAX - job->sizes[row]) << 32 | (uint64_t)row;
        }
    }
    return 0;
}

/* ---- Walks ----------------------------------------------------------------------------------- */

/* A list of pairs; `taken` of one says that its links were looked at. */
typedef struct walker {
    const kin_graph_gpu_walk *job;
    int64_t query;
    kin_pair *list; /* one more place than the width */
    bool *looked;
    bool *met;
    int32_t count;
    int32_t limit;
} walker;

static void meet(walker *w, uint32_t row)
{
    const kin_graph_gpu_walk *job = w->job;
    if (row == KITH_ID_NONE || w->met[row]) {
        return;
    }
    w->met[row] = true;
    const kin_pair pair = {test_fake_key(&job->queries, w->query, &job->points, row), row, 1};
    *job->evaluations += 1;
    int32_t at = w->count;
    for (; at > 0 && kin_pair_less(&pair, &w->list[at - 1]); at--) {
        w->list[at] = w->list[at - 1];
        w->looked[at] = w->looked[at - 1];
    }
    w->list[at] = pair;
    w->looked[at] = false;
    w->count = w->count < w->limit ? w->count + 1 : w->limit;
}

static void go(walker *w)
{
    const kin_graph_gpu_walk *job = w->job;
    for (int32_t i = 0; i < job->entry_count; i++) {
        meet(w, job->entries[i]);
    }
    for (int32_t i = 0; i < w->count;) {
        if (w->looked[i]) {
            i += 1;
            continue;
        }
        const int64_t row = w->list[i].id;
        w->looked[i] = true;
        for (int32_t j = 0; j < job->most; j++) {
            meet(w, job->links[row * job->most + j]);
        }
        i = 0;
    }
}

static int walk(kin_gpu_stream *stream, const kin_graph_gpu_walk *job)
{
    const size_t places = (size_t)job->width + 1;
    walker w = {.job = job,
                .list = malloc(places * sizeof *w.list),
                .looked = malloc(places * sizeof *w.looked),
                .met = malloc((size_t)job->points.rows * sizeof *w.met)};
    (void)stream;
    test_fake_walks.stripes += 1;
    for (int64_t i = 0; i < job->count; i++) {
        const int32_t cut = test_fake_walks.short_walks;
        memset(w.met, 0, (size_t)job->points.rows * sizeof *w.met);
        w.query = job->query0 + i;
        w.count = 0;
        w.limit = cut != 0 && test_fake_walks.queries % cut == 0 ? 1 : job->width;
        go(&w);
        job->found[i] = w.count < job->k ? w.count : job->k;
        for (int32_t j = 0; j < job->found[i]; j++) {
            job->pairs[i * job->k + j] = (kin_fused_pair){w.list[j].key, w.list[j].id, 0};
        }
        test_fake_walks.queries += 1;
    }
    free(w.met);
    free(w.looked);
    free(w.list);
    return 0;
}

void test_fake_walk_into(kin_graph_gpu_kernels *kernels)
{
    kernels->link = link;
    kernels->parts = parts;
    kernels->walk = walk;
    memset(&test_fake_walks, 0, sizeof test_fake_walks);
}
