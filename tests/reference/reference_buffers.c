/* SPDX-License-Identifier: Apache-2.0
 * The reference device's launches of the buffer k-d tree (papers_kernels.h): one query after the
 * other. A list stands in one piece until the end; `dropped` says that it lost something. */
#include "reference/reference_tree.h"

#include "base/base_size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A query that has been entered. */
typedef struct asking {
    reference_walker w;
    kin_papers_query *query;
    float row[KIN_TREE_GPU_MOST_COLS];
} asking;

static int64_t leaves_of(const kin_papers_buffers *b)
{
    return (int64_t)1 << b->walk.tree.height;
}

static void enter(const kin_papers_buffers *b, int64_t number, uint64_t *room, asking *a)
{
    const kin_tree_gpu_lists *lists = &b->walk.lists;
    const int64_t place = b->walk.place0 + number;
    float lost = 0.0F;
    a->query = b->queries + number;
    a->w = (reference_walker){.tree = &b->walk.tree,
                              .row = reference_row_at(&b->walk, place, a->row, &lost),
                              .bound = {a->query->gain, a->query->more},
                              .keep = a->query->keep,
                              .words = lists->words + place * lists->capacity,
                              .room = room,
                              .count = a->query->count,
                              .squeezed_at = a->query->squeezed_at,
                              .wanted = lists->wanted,
                              .capacity = lists->capacity,
                              .lost = a->query->dropped > 0.0F,
                              .met = b->walk.met};
}

static void leave(const asking *a)
{
    a->query->keep = a->w.keep;
    a->query->count = a->w.count;
    a->query->squeezed_at = a->w.squeezed_at;
    a->query->dropped = a->w.lost ? 1.0F : 0.0F;
}

static uint64_t *room_of(const kin_papers_buffers *b)
{
    return reference_room(b->walk.lists.capacity, sizeof(uint64_t));
}

/* ---- Begin ----------------------------------------------------------------------------------- */

static void begin(const kin_papers_buffers *b)
{
    const kin_tree_gpu *tree = &b->walk.tree;
    REFERENCE_MUST(tree->wide <= 32 && b->walk.lists.capacity > b->walk.lists.wanted);
    REFERENCE_MUST(b->walk.place0 % KIN_TREE_GPU_PACKET == 0 && b->walk.count <= b->length);
    for (int64_t number = 0; number < b->walk.count; number++) {
        float row[KIN_TREE_GPU_MOST_COLS];
        float lost = 0.0F;
        const bool active = reference_row_at(&b->walk, b->walk.place0 + number, row, &lost) != NULL;
        const kin_tree_keep keep =
            kin_tree_keep_of(tree->norm, lost, tree->most_lost, tree->widen, tree->floor);
        b->queries[number] = (kin_papers_query){.at = {.put_off = active ? KIN_PUT_OFF_ROOT : 0},
                                                .keep = active ? INFINITY : -1.0F,
                                                .gain = keep.gain,
                                                .more = keep.more,
                                                .squeezed_at = b->walk.lists.wanted};
    }
    memset(b->fill, 0, (size_t)leaves_of(b) * sizeof *b->fill);
    memset(b->counts, 0, sizeof *b->counts);
}

REFERENCE_LAUNCH(begin, kin_papers_buffers)

/* ---- Algorithm 2 ----------------------------------------------------------------------------- */

static bool is_near(const reference_walker *w, int64_t node)
{
    return reference_box(w, node) <= w->keep;
}

static bool next_leaf(asking *a)
{
    const kin_tree_gpu *tree = a->w.tree;
    kin_traversal *at = &a->query->at;
    while (at->put_off != 0) {
        int32_t level = 0;
        int64_t node = kin_traversal_up(at, tree->height, &level);
        if (!is_near(&a->w, node)) {
            continue;
        }
        for (int32_t l = level; l < tree->height; l++) {
            node = 2 * node + (a->w.row[tree->planes[node]] < tree->splits[node] ? 0 : 1);
        }
        kin_traversal_down(at, tree->height, level, (uint32_t)node);
        if (is_near(&a->w, node)) {
            return true;
        }
    }
    return false;
}

static void find(const kin_papers_batch *job)
{
    const kin_papers_buffers *b = &job->of;
    REFERENCE_MUST(job->head < b->length && job->taken <= b->length);
    REFERENCE_MUST(job->begun + job->fresh <= b->walk.count);
    for (int64_t i = 0; i < job->taken + job->fresh; i++) {
        const int64_t number = i < job->taken
                                   ? (int64_t)b->ring[kin_papers_ring(job->head + i, b->length)]
                                   : job->begun + i - job->taken;
        asking a;
        enter(b, number, NULL, &a);
        if (next_leaf(&a)) {
            const int64_t leaf = (int64_t)a.query->at.leaf - leaves_of(b);
            b->waits[b->counts->waiting] = (uint32_t)number;
            b->slots[b->counts->waiting++] = b->fill[leaf]++;
            b->counts->full |= (int64_t)b->fill[leaf] >= job->half ? 1 : 0;
        }
    }
}

REFERENCE_LAUNCH(find, kin_papers_batch)

/* ---- Algorithms 3 and 4 ---------------------------------------------------------------------- */

static void line_up(const kin_papers_emptying *job)
{
    const kin_papers_buffers *b = &job->of;
    for (int64_t leaf = 0; leaf < leaves_of(b); leaf++) {
        b->first[leaf] = b->counts->placed;
        b->counts->placed += b->fill[leaf];
        b->fill[leaf] = 0;
    }
    for (int64_t i = 0; i < job->count; i++) {
        const int64_t leaf = (int64_t)b->queries[b->waits[i]].at.leaf - leaves_of(b);
        const int64_t place = job->tail + b->first[leaf] + b->slots[i];
        b->ring[kin_papers_ring(place, b->length)] = b->waits[i];
    }
}

static void empty(const kin_papers_emptying *job)
{
    const kin_papers_buffers *b = &job->of;
    uint64_t *room = room_of(b);
    REFERENCE_MUST(job->count == (int64_t)b->counts->waiting && job->tail < b->length);
    line_up(job);
    for (int64_t i = 0; i < job->count; i++) {
        asking a;
        enter(b, b->ring[kin_papers_ring(job->tail + i, b->length)], room, &a);
        reference_leaf(&a.w, (int64_t)a.query->at.leaf - leaves_of(b));
        leave(&a);
    }
    memset(b->counts, 0, sizeof *b->counts);
    free(room);
}

REFERENCE_LAUNCH(empty, kin_papers_emptying)

static void alone(const kin_papers_rest *job)
{
    const kin_papers_buffers *b = &job->of;
    uint64_t *room = room_of(b);
    for (int64_t i = 0; i < job->count; i++) {
        asking a;
        enter(b, b->ring[kin_papers_ring(job->head + i, b->length)], room, &a);
        while (next_leaf(&a)) {
            reference_leaf(&a.w, (int64_t)a.query->at.leaf - leaves_of(b));
        }
        leave(&a);
    }
    free(room);
}

REFERENCE_LAUNCH(alone, kin_papers_rest)

/* ---- The end --------------------------------------------------------------------------------- */

static void end(const kin_papers_buffers *b)
{
    const kin_tree_gpu_lists *lists = &b->walk.lists;
    const int64_t a_packet = (int64_t)KIN_TREE_GPU_PACKET * lists->capacity;
    uint64_t *room = reference_room(a_packet, sizeof *room);
    for (int64_t number = 0; number < b->walk.count; number++) {
        const int64_t place = b->walk.place0 + number;
        const int64_t lane = place % KIN_TREE_GPU_PACKET;
        const kin_papers_query *query = b->queries + number;
        if (lane == 0) {
            memcpy(room, lists->words + place * lists->capacity, (size_t)a_packet * sizeof *room);
        }
        for (int64_t i = 0; i < query->count; i++) {
            reference_list_of(lists, place)[i * KIN_TREE_GPU_PACKET] =
                room[lane * lists->capacity + i];
        }
        REFERENCE_MUST(query->at.put_off == 0);
        lists->counts[place] = query->count;
        lists->lost[place] = query->dropped > 0.0F ? 1 : 0;
        b->walk.met[2] += lists->lost[place];
    }
    free(room);
}

REFERENCE_LAUNCH(end, kin_papers_buffers)

const kin_papers_buffer_kernels reference_buffers = {.begin = begin_launch,
                                                     .find = find_launch,
                                                     .empty = empty_launch,
                                                     .alone = alone_launch,
                                                     .end = end_launch};
