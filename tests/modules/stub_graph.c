/* SPDX-License-Identifier: Apache-2.0
 * Kernels of NN-Descent for the device of stub_module.c, as those of stub_kernels.c are: memory is
 * written where kernels write, answers mean nothing. */
#include "graph/graph_kernels.h"

#include <string.h>

extern const kin_graph_gpu_kernels stub_graph;

static int near_tiles(kin_gpu_stream *stream, const kin_graph_gpu_near *job)
{
    (void)stream;
    memset(job->worst, 0, (size_t)(job->set.padded / KIN_SCREEN_GPU_TILE) * sizeof *job->worst);
    return 0;
}

static int group_centres(kin_gpu_stream *stream, const kin_graph_gpu_groups *job)
{
    (void)stream;
    job->centres[0] = 0.0F;
    return 0;
}

/* Everybody's neighbours are those behind. */
static void follow(const kin_graph_gpu_lists *graph)
{
    for (int64_t p = 0; p < graph->points; p++) {
        for (int32_t j = 0; j < graph->length; j++) {
            const int64_t other = (p + 1 + j) % graph->points;
            graph->words[p * graph->length + j] = kin_graph_word((uint32_t)j, (uint32_t)other, 1);
        }
    }
}

static int adopt(kin_gpu_stream *stream, const kin_graph_gpu_adopt *job)
{
    (void)stream;
    follow(&job->graph);
    return 0;
}

static int fill(kin_gpu_stream *stream, const kin_graph_gpu_fill *job)
{
    (void)stream;
    follow(&job->graph);
    return 0;
}

static int place(kin_gpu_stream *stream, const kin_graph_gpu_place *job)
{
    (void)stream;
    for (int64_t p = 0; p < job->points; p++) {
        job->places[job->ids[p]] = (uint32_t)p;
    }
    return 0;
}

static int give(kin_gpu_stream *stream, const kin_graph_gpu_give *job)
{
    (void)stream;
    memset(job->given, 0xff, (size_t)(job->points * job->length) * sizeof *job->given);
    return 0;
}

static int halve(kin_gpu_stream *stream, const kin_graph_gpu_halve *job)
{
    (void)stream;
    memset(job->aside, 0xff,
           (size_t)job->blocks * (size_t)job->graph.points * KIN_GRAPH_GPU_SLOTS *
               sizeof *job->aside);
    return 0;
}

static int cross(kin_gpu_stream *stream, const kin_graph_gpu_cross *job)
{
    (void)stream;
    memset(job->given, 0xff,
           (size_t)job->graph.points * (size_t)job->graph.length * sizeof *job->given);
    return 0;
}

static int relate(kin_gpu_stream *stream, const kin_graph_gpu_relate *job)
{
    (void)stream;
    for (int64_t i = 0; job->related != NULL && i < job->rows.rows * job->rows.cols; i++) {
        job->related[i] = (float)i;
    }
    for (int64_t row = 0; job->lengths != NULL && row < job->rows.rows; row++) {
        job->lengths[row] = (uint64_t)row;
    }
    return 0;
}

static int pick(kin_gpu_stream *stream, const kin_graph_gpu_pick *job)
{
    (void)stream;
    memset(job->to, 1, (size_t)(job->count * job->bytes));
    return 0;
}

static int sample(kin_gpu_stream *stream, const kin_graph_gpu_sample *job)
{
    const kin_graph_gpu_samples *s = &job->samples;
    const size_t points = (size_t)job->graph.points;
    const size_t ids = points * (size_t)(s->forward + s->reverse);
    (void)stream;
    memset(s->new_slots, 0, points * (size_t)s->reverse * sizeof *s->new_slots);
    memset(s->old_slots, 0, points * (size_t)s->reverse * sizeof *s->old_slots);
    memset(s->new_ids, 0, ids * sizeof *s->new_ids);
    memset(s->old_ids, 0, ids * sizeof *s->old_ids);
    memset(s->new_counts, 0, points * sizeof *s->new_counts);
    memset(s->old_counts, 0, points * sizeof *s->old_counts);
    return 0;
}

static int collect(kin_gpu_stream *stream, const kin_graph_gpu_sample *job)
{
    (void)stream;
    (void)job;
    return 0;
}

static int stretch(kin_gpu_stream *stream, const kin_graph_gpu_stretch *job)
{
    (void)stream;
    for (int64_t p = 0; p < job->to.points; p++) {
        memset(job->to.words + p * job->to.length, 0xff,
               (size_t)job->to.length * sizeof *job->to.words);
        memcpy(job->to.words + p * job->to.length, job->from.words + p * job->from.length,
               (size_t)job->from.length * sizeof *job->from.words);
    }
    return 0;
}

static int join(kin_gpu_stream *stream, const kin_graph_gpu_join *job)
{
    (void)stream;
    memset(job->offers, 0xff,
           (size_t)job->graph.points * KIN_GRAPH_GPU_SLOTS * sizeof *job->offers);
    *job->evaluations += 1;
    return 0;
}

static int merge(kin_gpu_stream *stream, const kin_graph_gpu_merge *job)
{
    (void)stream;
    *job->updates += (uint64_t)job->graph.points * 8;
    return 0;
}

static int keys(kin_gpu_stream *stream, const kin_graph_gpu_keys *job)
{
    const int32_t length = job->graph.length;
    (void)stream;
    for (int64_t i = 0; i < job->control_count * length; i++) {
        const int64_t own = job->controls[i / length];
        const uint64_t word = job->graph.words[own * length + i % length];
        const int exists = word != KIN_GRAPH_EMPTY;
        job->keys[i] = (double)(i % length);
        job->entries[i] = exists ? job->ids[kin_graph_position(word)] : KITH_ID_NONE;
    }
    return 0;
}

static int hand(kin_gpu_stream *stream, const kin_graph_gpu_hand *job)
{
    (void)stream;
    memset(job->lists.words, 0,
           (size_t)(job->lists.rows * job->lists.capacity) * sizeof *job->lists.words);
    for (int64_t p = 0; p < job->lists.rows; p++) {
        job->lists.counts[p] = job->graph.length;
    }
    return 0;
}

static int link(kin_gpu_stream *stream, const kin_graph_gpu_link *job)
{
    const size_t entries = (size_t)job->points * (size_t)job->k;
    (void)stream;
    memset(job->slots, 0, entries * sizeof *job->slots);
    memset(job->links, 0, 2 * entries * sizeof *job->links);
    return 0;
}

static int parts(kin_gpu_stream *stream, const kin_graph_gpu_parts *job)
{
    (void)stream;
    memset(job->roots, 0, (size_t)job->points * sizeof *job->roots);
    memset(job->words, 0, (size_t)job->points * sizeof *job->words);
    *job->count = 1;
    return 0;
}

/* Rows from the first one on, at the distances 0, 1, 2 ... */
static int walk(kin_gpu_stream *stream, const kin_graph_gpu_walk *job)
{
    (void)stream;
    for (int64_t i = 0; i < job->count * job->k; i++) {
        const int64_t place = i % job->k;
        job->pairs[i] = (kin_screen_gpu_pair){(double)place, (uint32_t)place, 0};
        job->found[i / job->k] = job->k;
    }
    *job->evaluations += (uint64_t)job->count;
    return 0;
}

static int lead(kin_gpu_stream *stream, const kin_graph_gpu_lead *job)
{
    (void)stream;
    for (int64_t i = 0; i < job->queries.points * job->chunks; i++) {
        job->words[i] = kin_graph_word(0, (uint32_t)(i % job->chunks), 1);
    }
    return 0;
}

static int follow_leads(kin_gpu_stream *stream, const kin_graph_gpu_follow *job)
{
    (void)stream;
    for (int64_t i = 0; i < job->queries.points * job->lists.capacity; i++) {
        job->lists.words[i] = (uint64_t)(i % job->lists.capacity);
        job->lists.counts[i / job->lists.capacity] = job->lists.capacity;
    }
    *job->evaluations += (uint64_t)job->queries.points;
    return 0;
}

const kin_graph_gpu_kernels stub_graph = {.near_tiles = near_tiles,
                                          .group_centres = group_centres,
                                          .adopt = adopt,
                                          .fill = fill,
                                          .place = place,
                                          .give = give,
                                          .halve = halve,
                                          .cross = cross,
                                          .relate = relate,
                                          .pick = pick,
                                          .stretch = stretch,
                                          .sample = sample,
                                          .collect = collect,
                                          .join = join,
                                          .merge = merge,
                                          .keys = keys,
                                          .hand = hand,
                                          .link = link,
                                          .parts = parts,
                                          .walk = walk,
                                          .lead = lead,
                                          .follow = follow_leads};
