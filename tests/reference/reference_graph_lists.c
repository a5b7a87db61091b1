/* SPDX-License-Identifier: Apache-2.0
 * Lists: how they begin, what enters them, how they end, and what GPUs of a team tell each other of
 * them. */
#include "reference/reference_graph.h"
#include "select/select_word.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void check_lists(const kin_graph_gpu_lists *graph)
{
    REFERENCE_MUST(graph->length % 8 == 0 && graph->length <= KIN_GRAPH_GPU_MOST_LIST);
    REFERENCE_MUST(graph->first >= 0 && kin_graph_gpu_behind(graph) <= graph->points);
}

/* ---- What enters ----------------------------------------------------------------------------- */

static bool list_has(const uint64_t *list, int32_t length, uint32_t position)
{
    for (int32_t i = 0; i < length && list[i] != KIN_GRAPH_EMPTY; i++) {
        if (kin_graph_position(list[i]) == position) {
            return true;
        }
    }
    return false;
}

static void insert(uint64_t *list, int32_t length, uint64_t word)
{
    int32_t at = length - 1;
    if (word >= list[at]) {
        return;
    }
    for (; at > 0 && list[at - 1] > word; at--) {
        list[at] = list[at - 1];
    }
    list[at] = word;
}

int32_t reference_enter(uint64_t *list, int32_t length, int32_t counted, uint64_t *words,
                        int32_t count)
{
    int32_t fresh = 0;
    int32_t entered = 0;
    for (int32_t i = 0; i < count; i++) {
        if (words[i] < list[length - 1] && !list_has(list, length, kin_graph_position(words[i]))) {
            words[fresh++] = words[i];
        }
    }
    for (int32_t i = 0; i < fresh; i++) {
        insert(list, length, words[i]);
    }
    for (int32_t i = 0; i < fresh; i++) {
        entered += words[i] <= list[counted - 1] ? 1 : 0;
    }
    return entered;
}

/* ---- The screen's lists become a graph ------------------------------------------------------- */

/* A pair that the screen met twice stands in its list twice, and takes two of the places that are
 * sorted: as many as a network of a kernel has. */
static int32_t window_of(int32_t length)
{
    return length <= 32 ? 32 : length <= 64 ? 64 : length <= 128 ? 128 : length;
}

static void adopt_list(const uint64_t *from, int32_t count, uint32_t point, uint64_t *sorted,
                       uint64_t *to, int32_t length)
{
    int32_t there = 0;
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++) {
        const uint32_t position = (uint32_t)from[i];
        if (position != point) {
            sorted[there++] = kin_graph_word((uint32_t)(from[i] >> 32), position, 1);
        }
    }
    kin_select_sort_words(sorted, there);
    for (int32_t i = 0; i < there && i < window_of(length) && kept < length; i++) {
        if (i == 0 || sorted[i] != sorted[i - 1]) {
            to[kept++] = sorted[i];
        }
    }
    while (kept < length) {
        to[kept++] = KIN_GRAPH_EMPTY;
    }
}

void reference_graph_adopt(const kin_graph_gpu_adopt *job)
{
    const kin_screen_gpu_lists *lists = &job->lists;
    uint64_t *sorted = reference_room(lists->capacity, sizeof *sorted);
    check_lists(&job->graph);
    for (int64_t p = job->graph.first; p < kin_graph_gpu_behind(&job->graph); p++) {
        const int32_t count =
            lists->counts[p] < lists->capacity ? lists->counts[p] : lists->capacity;
        adopt_list(lists->words + p * lists->capacity, count, (uint32_t)p, sorted,
                   reference_list(&job->graph, p), job->graph.length);
    }
    free(sorted);
}

/* ---- Filling --------------------------------------------------------------------------------- */

/* So many positions are weighed at a time; what a list has is looked up before they enter. */
enum { BATCH = 32 };

/* Where no more are wanted than there are, all others are taken. */
static uint32_t drawn(const kin_graph_gpu_fill *job, uint32_t point, int32_t place)
{
    const int64_t others = job->graph.points - 1;
    uint32_t other = (uint32_t)place;
    if (others > job->wanted) {
        const uint64_t salt = kin_graph_mix(job->seed + (uint64_t)place);
        other = kin_graph_slot(kin_graph_hash(salt, point), (uint32_t)others);
    }
    return other >= others ? UINT32_MAX : other + (other >= point ? 1 : 0);
}

/* Of equal positions the first enters. */
static int32_t fill_batch(const kin_graph_gpu_fill *job, uint32_t point, uint64_t *list,
                          const uint32_t *positions, int32_t count)
{
    uint32_t others[BATCH] = {0};
    uint32_t orders[BATCH];
    uint64_t words[BATCH];
    int32_t some = 0;
    for (int32_t i = 0; i < count; i++) {
        bool again = positions[i] == UINT32_MAX || positions[i] == point;
        for (int32_t j = 0; j < some && !again; j++) {
            again = others[j] == positions[i];
        }
        if (!again) {
            others[some++] = positions[i];
        }
    }
    reference_orders(&job->points, point, others, some, orders);
    for (int32_t i = 0; i < some; i++) {
        words[i] = kin_graph_word(orders[i], others[i], job->known == 0 ? 1 : 0);
    }
    return reference_enter(list, job->graph.length, job->graph.length, words, some);
}

static int32_t fill_given(const kin_graph_gpu_fill *job, uint32_t point, uint64_t *list,
                          int32_t count)
{
    const bool alone = job->given_alone != 0;
    const uint32_t *given = job->given + (int64_t)point * job->given_length;
    for (int32_t at = 0; at < job->given_length && (alone || count < job->wanted);) {
        const int32_t left = job->given_length - at;
        const int32_t room = alone || job->wanted - count > BATCH ? BATCH : job->wanted - count;
        const int32_t taken = left < room ? left : room;
        count += fill_batch(job, point, list, given + at, taken);
        at += taken;
    }
    return count;
}

static void fill_drawn(const kin_graph_gpu_fill *job, uint32_t point, uint64_t *list, int32_t count)
{
    /* A set that is taken whole needs all places, whatever was there. */
    const int32_t first = job->graph.points - 1 <= job->wanted ? 0 : count;
    for (int32_t at = first; at < job->wanted; at += BATCH) {
        uint32_t positions[BATCH];
        int32_t some = 0;
        for (int32_t place = at; place < job->wanted && some < BATCH; place++) {
            positions[some++] = drawn(job, point, place);
        }
        (void)fill_batch(job, point, list, positions, some);
    }
}

void reference_graph_fill(const kin_graph_gpu_fill *job)
{
    const int32_t length = job->graph.length;
    check_lists(&job->graph);
    REFERENCE_MUST(job->wanted <= length || job->given_alone != 0);
    for (int64_t p = job->graph.first; p < kin_graph_gpu_behind(&job->graph); p++) {
        uint64_t *list = reference_list(&job->graph, p);
        int32_t count = 0;
        while (count < length && list[count] != KIN_GRAPH_EMPTY) {
            count += 1;
        }
        if (job->given != NULL) {
            count = fill_given(job, (uint32_t)p, list, count);
        }
        if (job->given_alone == 0) {
            fill_drawn(job, (uint32_t)p, list, count);
        }
    }
}

void reference_graph_place(const kin_graph_gpu_place *job)
{
    for (int64_t p = 0; p < job->points; p++) {
        job->places[job->ids[p]] = (uint32_t)p;
    }
}

void reference_graph_give(const kin_graph_gpu_give *job)
{
    for (int64_t p = 0; p < job->points; p++) {
        const int64_t row = (int64_t)job->ids[p] - job->first;
        if (job->ids[p] == UINT32_MAX || row < 0 || row >= job->rows) {
            continue;
        }
        for (int64_t j = 0; j < job->length; j++) {
            const uint32_t other = j < job->k ? job->graph[row * job->k + j] : UINT32_MAX;
            const uint32_t place = other < job->rows ? job->places[job->first + other] : UINT32_MAX;
            job->given[p * job->length + j] = place == (uint32_t)p ? UINT32_MAX : place;
        }
    }
}

/* ---- Two graphs as published ----------------------------------------------------------------- */

void reference_graph_halve(const kin_graph_gpu_halve *job)
{
    const kin_graph_gpu_lists *graph = &job->graph;
    const int64_t room = (int64_t)job->blocks * KIN_GRAPH_GPU_SLOTS;
    check_lists(graph);
    REFERENCE_MUST(room >= graph->length / 2);
    for (int64_t p = graph->first; p < kin_graph_gpu_behind(graph); p++) {
        uint64_t *list = reference_list(graph, p);
        int32_t count = 0;
        while (count < graph->length && list[count] != KIN_GRAPH_EMPTY) {
            count += 1;
        }
        const int32_t kept = count - count / 2;
        for (int64_t i = 0; i < room; i++) {
            const int64_t block = i / KIN_GRAPH_GPU_SLOTS * graph->points + p;
            uint64_t *to = &job->aside[block * KIN_GRAPH_GPU_SLOTS + i % KIN_GRAPH_GPU_SLOTS];
            *to = KIN_GRAPH_EMPTY;
            if (kept + i < count) {
                *to = list[kept + i];
                list[kept + i] = KIN_GRAPH_EMPTY;
            }
        }
    }
}

void reference_graph_cross(const kin_graph_gpu_cross *job)
{
    const int32_t length = job->graph.length;
    check_lists(&job->graph);
    for (int64_t p = job->graph.first; p < kin_graph_gpu_behind(&job->graph); p++) {
        const uint64_t *list = reference_list(&job->graph, p);
        int32_t wanted = length;
        while (wanted > 0 && list[length - wanted] != KIN_GRAPH_EMPTY) {
            wanted -= 1;
        }
        for (int32_t place = 0; place < length; place++) {
            const uint32_t row = place < wanted
                                     ? kin_graph_row_across(job->sets, job->seed, (uint32_t)p,
                                                            job->ids[p], place, wanted)
                                     : UINT32_MAX;
            const uint32_t other = row == UINT32_MAX ? UINT32_MAX : job->places[row];
            const bool across = other != UINT32_MAX &&
                                kin_graph_is_across(job->sets.split, job->ids[p], job->ids[other]);
            job->given[p * length + place] = across ? other : UINT32_MAX;
        }
    }
}

void reference_graph_stretch(const kin_graph_gpu_stretch *job)
{
    for (int64_t p = 0; p < job->to.points; p++) {
        const uint64_t *from = reference_list(&job->from, p);
        uint64_t *to = reference_list(&job->to, p);
        for (int32_t i = 0; i < job->to.length; i++) {
            to[i] = i < job->from.length ? from[i] | kin_graph_word(0, 0, 1) : KIN_GRAPH_EMPTY;
        }
    }
}

/* ---- Offers, and the end --------------------------------------------------------------------- */

void reference_graph_merge(const kin_graph_gpu_merge *job)
{
    check_lists(&job->graph);
    REFERENCE_MUST(job->counted > 0 && job->counted <= job->graph.length);
    for (int64_t p = job->graph.first; p < kin_graph_gpu_behind(&job->graph); p++) {
        uint64_t *offers = job->offers + p * KIN_GRAPH_GPU_SLOTS;
        *job->updates +=
            (uint64_t)reference_enter(reference_list(&job->graph, p), job->graph.length,
                                      job->counted, offers, KIN_GRAPH_GPU_SLOTS);
        memset(offers, 0xff, KIN_GRAPH_GPU_SLOTS * sizeof *offers);
    }
}

/* Padding rows get empty lists. */
void reference_graph_hand(const kin_graph_gpu_hand *job)
{
    REFERENCE_MUST(job->lists.capacity >= job->graph.length);
    for (int64_t row = 0; row < job->lists.rows; row++) {
        const uint64_t *from = job->graph.words + row * job->graph.length;
        uint64_t *to = job->lists.words + row * job->lists.capacity;
        int32_t count = 0;
        while (row < job->graph.points && count < job->graph.length &&
               from[count] != KIN_GRAPH_EMPTY) {
            to[count] = from[count] >> 32 << 32 | kin_graph_position(from[count]);
            count += 1;
        }
        job->lists.counts[row] = count;
    }
}

void reference_graph_keys(const kin_graph_gpu_keys *job)
{
    const int32_t length = job->graph.length;
    for (int64_t i = 0; i < job->control_count; i++) {
        const uint64_t *list = reference_list(&job->graph, job->controls[i]);
        const int64_t own = job->ids[job->controls[i]];
        for (int64_t j = 0; j < length; j++) {
            const bool exists = list[j] != KIN_GRAPH_EMPTY;
            const uint32_t id = exists ? job->ids[kin_graph_position(list[j])] : KITH_ID_NONE;
            job->entries[i * length + j] = id;
            job->keys[i * length + j] = INFINITY;
            if (exists) {
                reference_keys(&job->rows, own, &job->rows, &id, 0, 1, &job->keys[i * length + j]);
            }
        }
    }
}

/* ---- A team ---------------------------------------------------------------------------------- */

void reference_graph_ends(const kin_graph_gpu_ends *job)
{
    for (int64_t p = job->graph.first; p < kin_graph_gpu_behind(&job->graph); p++) {
        job->lasts[p] = reference_list(&job->graph, p)[job->graph.length - 1];
    }
}

void reference_graph_least(const kin_graph_gpu_least *job)
{
    for (int64_t i = 0; i < job->count; i++) {
        reference_take_least(&job->words[i], job->others[i]);
    }
}

void reference_graph_gather(const kin_graph_gpu_gather *job)
{
    for (int32_t part = 0; part < job->parts; part++) {
        for (int64_t i = job->bounds[part]; part != job->part && i < job->bounds[part + 1]; i++) {
            if (job->words[i] == KIN_GRAPH_EMPTY) {
                continue;
            }
            const uint64_t place = job->counts[part]++;
            if (place < (uint64_t)job->room) {
                job->sent[(uint64_t)part * (uint64_t)job->room + place] =
                    (kin_graph_gpu_sent){.place = (uint64_t)i, .word = job->words[i]};
            }
        }
    }
}

void reference_graph_settle(const kin_graph_gpu_settle *job)
{
    for (int64_t i = 0; i < job->count; i++) {
        reference_take_least(&job->words[job->sent[i].place], job->sent[i].word);
    }
}
