/* SPDX-License-Identifier: Apache-2.0
 * The reference device's launches of tree_kernels.h that find all within a radius: a recursion from
 * the root, canonical keys of what passes, and a sort of each list. */
#include "reference/reference_tree.h"

#include "base/base_size.h"

#include <math.h>
#include <string.h>

/* A place on its way. */
typedef struct finder {
    const kin_tree_gpu_radius *job;
    reference_walker walker; /* its row and its tree */
    float limit;
    double radius;
    uint32_t query;
    int64_t at;
} finder;

static bool looks_alone(const kin_tree_gpu_radius *job)
{
    return job->counts == NULL && job->offsets == NULL;
}

static void take(finder *f, uint32_t first)
{
    const kin_tree_gpu_radius *job = f->job;
    double key = 0.0;
    reference_keys(&job->queries, f->query, &job->corpus, &first, 0, 1, &key);
    job->walk.met[2] += 1;
    if (!(kin_within_distance(job->within.metric, key) <= f->radius)) {
        return;
    }
    for (uint32_t id = kin_within_next(&job->within, f->query, first); id != KITH_ID_NONE;
         id = kin_within_following(&job->within, f->query, id)) {
        if (job->offsets != NULL) {
            REFERENCE_MUST(f->at < job->offsets[f->query + 1] - job->first);
            job->ids[f->at] = id;
            job->keys[f->at] = key;
        }
        f->at += 1;
    }
}

static void visit_leaf(finder *f, int64_t leaf)
{
    const kin_tree_gpu *tree = f->walker.tree;
    const int64_t first = (int64_t)tree->starts[leaf] * KIN_TREE_LANES;
    for (int64_t i = first; i < first + (int64_t)tree->counts[leaf]; i++) {
        if (!looks_alone(f->job) && reference_point(&f->walker, i) <= f->limit) {
            take(f, tree->ids[i]);
        }
    }
    f->job->walk.met[0] += tree->counts[leaf];
    f->job->walk.met[1] += 1;
}

static void visit(finder *f, int64_t node)
{
    const int64_t leaves = (int64_t)1 << f->walker.tree->height;
    if (!(reference_box(&f->walker, node) <= f->limit)) {
        return;
    }
    if (node >= leaves) {
        visit_leaf(f, node - leaves);
        return;
    }
    visit(f, 2 * node);
    visit(f, 2 * node + 1);
}

static void find_place(const kin_tree_gpu_radius *job, int64_t place)
{
    const kin_tree_gpu_walk *walk = &job->walk;
    const kin_tree_gpu *tree = &walk->tree;
    float own[KIN_TREE_GPU_MOST_COLS];
    float lost = 0.0F;
    const float *row = reference_row_at(walk, place, own, &lost);
    if (row == NULL) {
        return;
    }
    const uint32_t query = walk->rows == NULL    ? tree->ids[place]
                           : walk->order != NULL ? walk->order[place]
                                                 : (uint32_t)place;
    const kin_tree_ring ring = kin_within_ring(&job->within, query);
    const double scale = kin_place_scale(kin_place_has(job->within.metric), tree->scale);
    const float reach =
        kin_tree_reach_of_key(tree->norm, ring.key, scale, (double)lost, tree->floor);
    finder f = {.job = job,
                .walker = {.tree = tree, .row = row},
                .limit = kin_tree_limit(tree->norm, reach, tree->most_lost, tree->widen),
                .radius = ring.radius,
                .query = query,
                .at = job->offsets != NULL ? job->offsets[query] - job->first : 0};
    visit(&f, 1);
    if (job->counts != NULL) {
        job->counts[query] = f.at;
    }
    REFERENCE_MUST(job->offsets == NULL || f.at == job->offsets[query + 1] - job->first);
}

static void radius(const kin_tree_gpu_radius *job)
{
    const kin_tree_gpu_walk *walk = &job->walk;
    REFERENCE_MUST(walk->place0 % KIN_TREE_GPU_PACKET == 0);
    REFERENCE_MUST(walk->tree.wide % KIN_TREE_GPU_WIDE == 0 &&
                   walk->tree.wide <= KIN_TREE_GPU_MOST_COLS);
    for (int64_t place = walk->place0; place < walk->place0 + walk->count; place++) {
        find_place(job, place);
    }
}

static void radius_body(const void *job)
{
    radius(job);
}

int reference_tree_radius(kin_gpu_stream *stream, const kin_tree_gpu_radius *job)
{
    return reference_later(stream, radius_body, job, sizeof *job);
}

static void sums(const kin_tree_gpu_sums *job)
{
    REFERENCE_MUST(job->count > 0);
    memset(job->scratch, 0xff, KIN_TREE_GPU_SUMS * sizeof *job->scratch);
    job->offsets[0] = 0;
    for (int64_t i = 0; i < job->count; i++) {
        job->offsets[i + 1] = job->offsets[i] + job->counts[i];
    }
}

static void sums_body(const void *job)
{
    sums(job);
}

int reference_tree_sums(kin_gpu_stream *stream, const kin_tree_gpu_sums *job)
{
    return reference_later(stream, sums_body, job, sizeof *job);
}

typedef struct entry {
    double key;
    uint32_t id;
} entry;

static int by_key(const void *a, const void *b)
{
    const entry *x = a;
    const entry *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : (x->id > y->id) - (x->id < y->id);
}

static void sort_list(const kin_tree_gpu_ranges *job, int64_t first, int64_t count)
{
    entry *entries = reference_room(count, sizeof *entries);
    for (int64_t i = 0; i < count; i++) {
        entries[i] = (entry){.key = job->distances64[first + i], .id = job->ids[first + i]};
    }
    qsort(entries, (size_t)count, sizeof *entries, by_key);
    for (int64_t i = 0; i < count; i++) {
        const double distance = kin_within_distance(job->metric, entries[i].key);
        job->ids[first + i] = entries[i].id;
        job->distances64[first + i] = distance;
        job->distances[first + i] = (float)distance;
    }
    free(entries);
}

static void ranges(const kin_tree_gpu_ranges *job)
{
    for (int64_t row = 0; row < job->rows; row++) {
        sort_list(job, job->offsets[row] - job->first, job->offsets[row + 1] - job->offsets[row]);
    }
}

static void ranges_body(const void *job)
{
    ranges(job);
}

int reference_tree_ranges(kin_gpu_stream *stream, const kin_tree_gpu_ranges *job)
{
    return reference_later(stream, ranges_body, job, sizeof *job);
}
