/* SPDX-License-Identifier: Apache-2.0
 * A graph made ready to be walked on, and walks. */
#include "reference/reference_graph.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- Edges both ways ------------------------------------------------------------------------- */

/* Salts of the tries. */
#define FIRST_TRY 0x6c696e6b31u
#define SECOND_TRY 0x6c696e6b32u
#define OF_SECOND_TRY ((uint64_t)1 << 63)

static uint64_t *slot_of(const kin_graph_gpu_link *job, uint64_t salt, uint32_t id, uint32_t row)
{
    return job->slots + (int64_t)id * job->k +
           kin_graph_slot(kin_graph_hash(salt, row), (uint32_t)job->k);
}

static void try_slots(const kin_graph_gpu_link *job, bool again)
{
    for (int64_t i = 0; i < job->points * job->k; i++) {
        const uint32_t id = job->graph[i];
        const uint32_t row = (uint32_t)(i / job->k);
        const uint64_t word = (uint64_t)(i % job->k) << 32 | row;
        if (id == KITH_ID_NONE || id == row) {
            continue;
        }
        uint64_t *slot = slot_of(job, FIRST_TRY, id, row);
        if (!again) {
            reference_take_least(slot, word);
        } else if (*slot != word) {
            reference_take_least(slot_of(job, SECOND_TRY, id, row), word | OF_SECOND_TRY);
        }
    }
}

static bool names(const uint32_t *list, int32_t k, uint32_t id)
{
    for (int32_t j = 0; j < k; j++) {
        if (list[j] == id) {
            return true;
        }
    }
    return false;
}

void reference_graph_link(const kin_graph_gpu_link *job)
{
    try_slots(job, false);
    try_slots(job, true);
    for (int64_t row = 0; row < job->points; row++) {
        const uint32_t *list = job->graph + row * job->k;
        const uint64_t *slots = job->slots + row * job->k;
        uint32_t *links = job->links + row * job->k * 2;
        int32_t count = 0;
        for (int32_t j = 0; j < job->k; j++) {
            if (list[j] != KITH_ID_NONE && list[j] != (uint32_t)row) {
                links[count++] = list[j];
            }
        }
        for (int32_t j = 0; j < job->k; j++) {
            if (slots[j] != KIN_GRAPH_EMPTY && !names(list, job->k, (uint32_t)slots[j])) {
                links[count++] = (uint32_t)slots[j];
            }
        }
        while (count < job->k * 2) {
            links[count++] = KITH_ID_NONE;
        }
    }
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static uint32_t root_of(uint32_t *roots, uint32_t row)
{
    while (roots[row] != row) {
        roots[row] = roots[roots[row]];
        row = roots[row];
    }
    return row;
}

/* The larger root is hooked to the smaller one: the root of a part is its lowest row. */
static void unite(uint32_t *roots, uint32_t row, uint32_t other)
{
    const uint32_t a = root_of(roots, row);
    const uint32_t b = root_of(roots, other);
    roots[a > b ? a : b] = a > b ? b : a;
}

void reference_graph_parts(const kin_graph_gpu_parts *job)
{
    for (int64_t row = 0; row < job->points; row++) {
        job->roots[row] = (uint32_t)row;
    }
    for (int64_t i = 0; i < job->points * job->k; i++) {
        if (job->graph[i] != KITH_ID_NONE) {
            unite(job->roots, (uint32_t)(i / job->k), job->graph[i]);
        }
    }
    for (int64_t row = 0; row < job->points; row++) {
        job->sizes[root_of(job->roots, (uint32_t)row)] += 1;
    }
    for (int64_t row = 0; row < job->points; row++) {
        if (job->sizes[row] > 0) {
            job->words[(*job->count)++] =
                (uint64_t)(UINT32_MAX - job->sizes[row]) << 32 | (uint64_t)row;
        }
    }
}

/* ---- Walks ----------------------------------------------------------------------------------- */

/* So many rows are looked at together, whose links are no more than this if they can be. */
enum { MOST_FAN = 8, MOST_LINKS = 128 };

/* The nearest that a walk has met, in the order (key, id); `unused` of a pair: 1 once its links
 * have been looked at. */
typedef struct walker {
    const kin_graph_gpu_walk *job;
    int64_t query;
    int32_t fan;
    uint32_t *met;   /* by row: the number of the last query that met it */
    uint32_t *fresh; /* rows that are weighed, and their keys */
    double *keys;
    kin_fused_pair *list;
    int32_t count;
    int32_t next; /* nobody before it is to be looked at */
} walker;

static bool comes_before(const kin_fused_pair *a, const kin_fused_pair *b)
{
    return a->key < b->key || (a->key == b->key && a->id < b->id);
}

static void enter(walker *w, kin_fused_pair pair)
{
    int32_t at = w->count;
    if (at == w->job->width) {
        at -= 1;
        if (!comes_before(&pair, &w->list[at])) {
            return;
        }
    } else {
        w->count += 1;
    }
    for (; at > 0 && comes_before(&pair, &w->list[at - 1]); at--) {
        w->list[at] = w->list[at - 1];
    }
    w->list[at] = pair;
    w->next = at < w->next ? at : w->next;
}

/* Rows that were not met before are weighed. */
static void meet(walker *w, const uint32_t *rows, int64_t count)
{
    const kin_graph_gpu_walk *job = w->job;
    const uint32_t name = (uint32_t)(w->query - job->query0) + 1;
    int64_t some = 0;
    for (int64_t i = 0; i < count; i++) {
        if (rows[i] != KITH_ID_NONE && w->met[rows[i]] != name) {
            w->met[rows[i]] = name;
            w->fresh[some++] = rows[i];
        }
    }
    reference_keys(&job->queries, w->query, &job->points, w->fresh, 0, some, w->keys);
    *job->evaluations += (uint64_t)some;
    for (int64_t i = 0; i < some; i++) {
        enter(w, (kin_fused_pair){.key = w->keys[i], .id = w->fresh[i]});
    }
}

/* The nearest that were not looked at: how many. */
static int32_t pick(walker *w, uint32_t picked[MOST_FAN])
{
    int32_t count = 0;
    for (; w->next < w->count && count < w->fan; w->next++) {
        kin_fused_pair *pair = &w->list[w->next];
        if (pair->unused == 0) {
            pair->unused = 1;
            picked[count++] = pair->id;
        }
    }
    return count;
}

static void walk_query(walker *w)
{
    const kin_graph_gpu_walk *job = w->job;
    uint32_t picked[MOST_FAN];
    int32_t count = 0;
    w->count = 0;
    w->next = 0;
    meet(w, job->entries, job->entry_count);
    while ((count = pick(w, picked)) > 0) {
        for (int32_t i = 0; i < count; i++) {
            meet(w, job->links + (int64_t)picked[i] * job->most, job->most);
        }
    }
}

/* As graph_walk.cu does, but that all that was met is remembered: the keys that it computes again
 * change nothing. */
void reference_graph_walk(const kin_graph_gpu_walk *job)
{
    const int32_t most = job->most > job->entry_count ? job->most : job->entry_count;
    const int32_t fan = MOST_LINKS / job->most;
    walker w = {.job = job,
                .fan = fan < 1          ? 1
                       : fan < MOST_FAN ? fan
                                        : MOST_FAN,
                .met = reference_room(job->points.rows, sizeof *w.met),
                .fresh = reference_room(most, sizeof *w.fresh),
                .keys = reference_room(most, sizeof *w.keys),
                .list = reference_room(job->width, sizeof *w.list)};
    REFERENCE_MUST(job->width <= KIN_GRAPH_GPU_MOST_WIDTH && job->width >= job->k && job->most > 0);
    memset(w.met, 0, (size_t)job->points.rows * sizeof *w.met);
    for (int64_t i = 0; i < job->count; i++) {
        w.query = job->query0 + i;
        walk_query(&w);
        job->found[i] = w.count < job->k ? w.count : job->k;
        for (int32_t j = 0; j < job->found[i]; j++) {
            job->pairs[i * job->k + j] = w.list[j];
            job->pairs[i * job->k + j].unused = 0;
        }
    }
    free(w.list);
    free(w.keys);
    free(w.fresh);
    free(w.met);
}
