/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_fake_graph.h"

#include "select/select_pairs.h"
#include "support/support_fake_screen.h"
#include "support/support_fake_walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

test_fake_graph_counts test_fake_graph;

/* ---- Descent: start and end ------------------------------------------------------------------ */

static int near_tiles(kin_gpu_stream *stream, const kin_graph_gpu_near *job)
{
    const kin_fused_set *set = &job->set;
    const int64_t tiles = (set->points + KIN_FUSED_TILE - 1) / KIN_FUSED_TILE;
    uint64_t *words = malloc((size_t)tiles * sizeof *words);
    (void)stream;
    for (int64_t i = 0; i < tiles; i++) {
        int64_t count = 0;
        for (int64_t j = 0; j < tiles; j++) {
            if (j != i) {
                words[count++] =
                    kin_graph_order_of_float((float)(test_fake_square(set, i, set, j) * 1.0001));
            }
        }
        kin_select_sort_words(words, count);
        const int64_t wanted = job->count < count ? job->count : count;
        const uint32_t bits = (uint32_t)words[wanted - 1] & 0x7fffffffu;
        float square;
        memcpy(&square, &bits, sizeof square);
        job->worst[i] = (kin_fused_worst){.far = sqrtf(square), .integer = (int32_t)ceilf(square)};
    }
    free(words);
    return 0;
}

static int adopt(kin_gpu_stream *stream, const kin_graph_gpu_adopt *job)
{
    (void)stream;
    for (int64_t p = job->graph.first; p < kin_graph_gpu_behind(&job->graph); p++) {
        const uint64_t *from = job->lists.words + p * job->lists.capacity;
        uint64_t *to = job->graph.words + p * job->graph.length;
        int32_t count = 0;
        for (int32_t j = 0; j < job->lists.counts[p] && count < job->graph.length; j++) {
            if ((uint32_t)from[j] != (uint32_t)p) {
                to[count++] = kin_graph_word((uint32_t)(from[j] >> 32), (uint32_t)from[j], 1);
            }
        }
        for (; count < job->graph.length; count++) {
            to[count] = KIN_GRAPH_EMPTY;
        }
    }
    return 0;
}

static int hand(kin_gpu_stream *stream, const kin_graph_gpu_hand *job)
{
    const int32_t cut = test_fake_graph.short_lists;
    (void)stream;
    for (int64_t p = 0; p < job->graph.points; p++) {
        const uint64_t *from = job->graph.words + p * job->graph.length;
        uint64_t *to = job->lists.words + p * job->lists.capacity;
        int32_t count = 0;
        while (count < job->graph.length && from[count] != KIN_GRAPH_EMPTY) {
            to[count] = from[count] >> 32 << 32 | kin_graph_position(from[count]);
            count += 1;
        }
        job->lists.counts[p] = cut != 0 && p % cut == 0 ? 1 : count;
    }
    return 0;
}

static int list_keys(kin_gpu_stream *stream, const kin_graph_gpu_keys *job)
{
    const int32_t length = job->graph.length;
    (void)stream;
    for (int64_t i = 0; i < job->control_count; i++) {
        const uint32_t own = job->controls[i];
        for (int32_t j = 0; j < length; j++) {
            const uint64_t word = job->graph.words[(int64_t)own * length + j];
            const bool exists = word != KIN_GRAPH_EMPTY;
            const uint32_t id = exists ? job->ids[kin_graph_position(word)] : KITH_ID_NONE;
            job->entries[i * length + j] = id;
            job->keys[i * length + j] =
                exists ? test_fake_key(&job->rows, job->ids[own], &job->rows, id) : INFINITY;
        }
    }
    return 0;
}

/* ---- Descent: rounds ------------------------------------------------------------------------- */

/* A word enters a sorted list, unless its position is there. Returns its place, or length. */
static int32_t enter(uint64_t *list, int32_t length, uint64_t word)
{
    if (word >= list[length - 1]) {
        return length;
    }
    for (int32_t j = 0; j < length && list[j] != KIN_GRAPH_EMPTY; j++) {
        if (kin_graph_position(list[j]) == kin_graph_position(word)) {
            return length;
        }
    }
    int32_t at = length - 1;
    for (; at > 0 && list[at - 1] > word; at--) {
        list[at] = list[at - 1];
    }
    list[at] = word;
    return at;
}

static uint32_t order_of_points(const kin_graph_gpu_points *points, uint32_t i, uint32_t j)
{
    const bool integer = points->set.rounded != NULL && points->set.frame.type == KIN_FUSED_S8;
    const kith_metric metric = points->rows.metric;
    if (points->set.rounded == NULL && metric >= KITH_CHEBYSHEV) {
        return test_fake_order(false, test_fake_key(&points->rows, points->set.ids[i],
                                                    &points->rows, points->set.ids[j]));
    }
    const double cost =
        test_fake_cost(&points->rows, points->set.ids[i], &points->rows, points->set.ids[j]);
    return test_fake_order(integer, points->set.rounded != NULL ? test_fake_blurred(cost) : cost);
}

static int fill(kin_gpu_stream *stream, const kin_graph_gpu_fill *job)
{
    const int32_t length = job->graph.length;
    (void)stream;
    if (job->graph.first == 0) {
        test_fake_graph.given_fills += job->points.set.rounded == NULL && job->given != NULL;
    }
    for (uint32_t p = (uint32_t)job->graph.first; p < kin_graph_gpu_behind(&job->graph); p++) {
        uint64_t *list = job->graph.words + (int64_t)p * length;
        int32_t count = 0;
        while (count < length && list[count] != KIN_GRAPH_EMPTY) {
            count += 1;
        }
        const bool alone = job->given_alone != 0;
        for (int32_t j = 0;
             job->given != NULL && j < job->given_length && (alone || count < job->wanted); j++) {
            const uint32_t other = job->given[(int64_t)p * job->given_length + j];
            if (other != UINT32_MAX && other != p) {
                const uint32_t order = order_of_points(&job->points, p, other);
                count +=
                    enter(list, length, kin_graph_word(order, other, job->known == 0)) < length;
            }
        }
        for (int32_t place = count; !alone && place < job->wanted; place++) {
            const uint32_t hash = kin_graph_hash(kin_graph_mix(job->seed + (uint64_t)place), p);
            const uint32_t other = kin_graph_slot(hash, (uint32_t)job->graph.points);
            if (other != p) {
                (void)enter(list, length,
                            kin_graph_word(order_of_points(&job->points, p, other), other, 1));
            }
        }
    }
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
    for (int64_t p = 0; p < job->points; p++) {
        const int64_t row = (int64_t)job->ids[p] - job->first;
        for (int32_t j = 0; row >= 0 && row < job->rows && j < job->length; j++) {
            const uint32_t other = j < job->k ? job->graph[row * job->k + j] : UINT32_MAX;
            const uint32_t there = other < job->rows ? job->places[job->first + other] : UINT32_MAX;
            job->given[p * job->length + j] = there == (uint32_t)p ? UINT32_MAX : there;
        }
    }
    return 0;
}

double test_related_value(kin_graph_gpu_relation relation, double value)
{
    switch (relation) {
    case KIN_GRAPH_GPU_ROOTS:
    case KIN_GRAPH_GPU_SHARES:
        return sqrt(value);
    case KIN_GRAPH_GPU_PATTERNS:
        return value != 0.0;
    case KIN_GRAPH_GPU_LOGS:
        return value > 0.0 ? fmax(log(value), -100.0) : -100.0;
    default:
        return value;
    }
}

bool test_relation_has_length(kin_graph_gpu_relation relation)
{
    return relation == KIN_GRAPH_GPU_SHARES || relation == KIN_GRAPH_GPU_PATTERNS ||
           relation == KIN_GRAPH_GPU_DIRECTIONS;
}

/* As the header says, by loops. */
static int relate(kin_gpu_stream *stream, const kin_graph_gpu_relate *job)
{
    const kin_fused_rows *rows = &job->rows;
    (void)stream;
    test_fake_graph.related += job->related != NULL;
    for (int64_t row = 0; row < rows->rows; row++) {
        double squares = 0.0;
        for (int32_t c = 0; c < rows->cols; c++) {
            const double value = test_fake_value(rows, row, c);
            const double kept = test_related_value(job->relation, value);
            squares += kept * kept;
            if (job->related != NULL) {
                job->related[row * rows->cols + c] = (float)kept;
            }
        }
        for (int32_t c = 0;
             job->related != NULL && test_relation_has_length(job->relation) && c < rows->cols;
             c++) {
            job->related[row * rows->cols + c] /= (float)(squares > 0.0 ? sqrt(squares) : 1.0);
        }
        if (job->lengths != NULL) {
            job->lengths[row] = ~kin_graph_order_of_float((float)squares);
        }
    }
    return 0;
}

static int pick(kin_gpu_stream *stream, const kin_graph_gpu_pick *job)
{
    (void)stream;
    for (int64_t i = 0; i < job->count; i++) {
        memcpy((char *)job->to + i * job->bytes,
               (const char *)job->from + (int64_t)job->rows[i] * job->stride_bytes,
               (size_t)job->bytes);
    }
    return 0;
}

static int stretch(kin_gpu_stream *stream, const kin_graph_gpu_stretch *job)
{
    const int32_t length = job->to.length;
    (void)stream;
    for (int64_t i = 0; i < job->to.points * length; i++) {
        const int64_t j = i % length;
        job->to.words[i] = j < job->from.length
                               ? job->from.words[i / length * job->from.length + j] | 1u
                               : KIN_GRAPH_EMPTY;
    }
    return 0;
}

static void least(uint64_t *slot, uint64_t word)
{
    *slot = word < *slot ? word : *slot;
}

static int sample(kin_gpu_stream *stream, const kin_graph_gpu_sample *job)
{
    const kin_graph_gpu_samples *s = &job->samples;
    const int32_t width = s->forward + s->reverse;
    (void)stream;
    if (job->graph.first == 0) { /* of a team one counts */
        test_fake_graph.rounds += 1;
    }
    for (int64_t p = job->graph.first; p < kin_graph_gpu_behind(&job->graph); p++) {
        const uint32_t hash = kin_graph_hash(job->salt, (uint32_t)p);
        uint64_t *list = job->graph.words + p * job->graph.length;
        s->new_counts[p] = 0;
        s->old_counts[p] = 0;
        for (int32_t j = 0; j < job->graph.length && list[j] != KIN_GRAPH_EMPTY; j++) {
            const bool is_new = kin_graph_is_new(list[j]) != 0;
            int32_t *count = is_new ? &s->new_counts[p] : &s->old_counts[p];
            const uint32_t other = kin_graph_position(list[j]);
            if (*count == s->forward) {
                continue;
            }
            (is_new ? s->new_ids : s->old_ids)[p * width + (*count)++] = other;
            least(
                &(is_new ? s->new_slots : s->old_slots)[(int64_t)other * s->reverse +
                                                        kin_graph_slot(hash, (uint32_t)s->reverse)],
                (uint64_t)hash << 32 | (uint64_t)p);
            list[j] &= ~(uint64_t)1;
        }
    }
    return 0;
}

static bool holds(const uint32_t *ids, int32_t count, uint32_t id)
{
    for (int32_t i = 0; i < count; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

static int collect(kin_gpu_stream *stream, const kin_graph_gpu_sample *job)
{
    const kin_graph_gpu_samples *s = &job->samples;
    const int32_t width = s->forward + s->reverse;
    (void)stream;
    for (int64_t p = job->graph.first; p < kin_graph_gpu_behind(&job->graph); p++) {
        uint32_t *news = s->new_ids + p * width;
        uint32_t *olds = s->old_ids + p * width;
        for (int32_t i = 0; i < s->reverse; i++) {
            const uint32_t other = (uint32_t)s->new_slots[p * s->reverse + i];
            if (other != UINT32_MAX && !holds(news, s->new_counts[p], other)) {
                news[s->new_counts[p]++] = other;
            }
        }
        const int32_t before = s->old_counts[p];
        s->old_counts[p] = 0;
        for (int32_t i = 0; i < before + s->reverse; i++) {
            const uint32_t other =
                i < before ? olds[i] : (uint32_t)s->old_slots[p * s->reverse + i - before];
            if (other != UINT32_MAX && !holds(news, s->new_counts[p], other) &&
                !holds(olds, s->old_counts[p], other)) {
                olds[s->old_counts[p]++] = other;
            }
        }
    }
    return 0;
}

static void offer(const kin_graph_gpu_join *job, uint32_t to, uint32_t other, uint32_t order)
{
    const uint64_t word = kin_graph_word(order, other, 1);
    const uint64_t last = job->lasts != NULL
                              ? job->lasts[to]
                              : job->graph.words[((int64_t)to + 1) * job->graph.length - 1];
    if (to != other && word < last) {
        least(&job->offers[(int64_t)to * KIN_GRAPH_GPU_SLOTS + other % KIN_GRAPH_GPU_SLOTS], word);
    }
}

/* All that met is offered: slots keep the least. */
static int join(kin_gpu_stream *stream, const kin_graph_gpu_join *job)
{
    const kin_graph_gpu_samples *s = &job->samples;
    const int32_t width = s->forward + s->reverse;
    (void)stream;
    for (int64_t p = job->graph.first; p < kin_graph_gpu_behind(&job->graph); p++) {
        const uint32_t *news = s->new_ids + p * width;
        const uint32_t *olds = s->old_ids + p * width;
        for (int32_t i = 0; i < s->new_counts[p]; i++) {
            for (int32_t j = i + 1; j < s->new_counts[p] + s->old_counts[p]; j++) {
                const uint32_t other = j < s->new_counts[p] ? news[j] : olds[j - s->new_counts[p]];
                const uint32_t order = order_of_points(&job->points, news[i], other);
                offer(job, news[i], other, order);
                offer(job, other, news[i], order);
                *job->evaluations += 1;
            }
        }
    }
    return 0;
}

static int merge(kin_gpu_stream *stream, const kin_graph_gpu_merge *job)
{
    (void)stream;
    for (int64_t i = job->graph.first * KIN_GRAPH_GPU_SLOTS;
         i < kin_graph_gpu_behind(&job->graph) * KIN_GRAPH_GPU_SLOTS; i++) {
        uint64_t *list = job->graph.words + i / KIN_GRAPH_GPU_SLOTS * job->graph.length;
        if (job->offers[i] != KIN_GRAPH_EMPTY) {
            *job->updates += enter(list, job->graph.length, job->offers[i]) < job->counted;
        }
        job->offers[i] = KIN_GRAPH_EMPTY;
    }
    return 0;
}

static int ends(kin_gpu_stream *stream, const kin_graph_gpu_ends *job)
{
    (void)stream;
    for (int64_t p = job->graph.first; p < kin_graph_gpu_behind(&job->graph); p++) {
        job->lasts[p] = job->graph.words[(p + 1) * job->graph.length - 1];
    }
    return 0;
}

static int least_of_both(kin_gpu_stream *stream, const kin_graph_gpu_least *job)
{
    (void)stream;
    for (int64_t i = 0; i < job->count; i++) {
        least(&job->words[i], job->others[i]);
    }
    return 0;
}

static int gather(kin_gpu_stream *stream, const kin_graph_gpu_gather *job)
{
    (void)stream;
    for (int32_t p = 0; p < job->parts; p++) {
        for (int64_t i = job->bounds[p]; p != job->part && i < job->bounds[p + 1]; i++) {
            if (job->words[i] == KIN_GRAPH_EMPTY) {
                continue;
            }
            if (job->counts[p] < (uint64_t)job->room) {
                job->sent[(uint64_t)p * (uint64_t)job->room + job->counts[p]] =
                    (kin_graph_gpu_sent){(uint64_t)i, job->words[i]};
            }
            job->counts[p] += 1;
        }
    }
    return 0;
}

static int settle(kin_gpu_stream *stream, const kin_graph_gpu_settle *job)
{
    (void)stream;
    for (int64_t i = 0; i < job->count; i++) {
        least(&job->words[job->sent[i].place], job->sent[i].word);
    }
    return 0;
}

/* ---- The tables ------------------------------------------------------------------------------ */

static int copy_within(kin_gpu_stream *stream, void *to, const void *from, uint64_t bytes)
{
    (void)stream;
    memcpy(to, from, (size_t)bytes);
    return 0;
}

static const kin_graph_gpu_kernels graph = {.near_tiles = near_tiles,
                                            .adopt = adopt,
                                            .fill = fill,
                                            .place = place,
                                            .give = give,
                                            .relate = relate,
                                            .pick = pick,
                                            .stretch = stretch,
                                            .sample = sample,
                                            .collect = collect,
                                            .join = join,
                                            .merge = merge,
                                            .ends = ends,
                                            .least = least_of_both,
                                            .gather = gather,
                                            .settle = settle,
                                            .keys = list_keys,
                                            .hand = hand};

void test_fake_graph_into(kin_gpu *gpu)
{
    static kin_gpu_ops ops;
    static kin_fused_kernels fused;
    static kin_gpu_module module;
    static kin_graph_gpu_kernels kernels;
    ops = *gpu->module->ops;
    ops.copy_within = copy_within;
    fused = *gpu->module->fused;
    test_fake_screen_into(&fused);
    module = *gpu->module;
    module.ops = &ops;
    module.fused = &fused;
    kernels = graph;
    test_fake_walk_into(&kernels);
    module.graph = &kernels;
    gpu->module = &module;
    memset(&test_fake_graph, 0, sizeof test_fake_graph);
}
