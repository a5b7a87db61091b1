/* SPDX-License-Identifier: Apache-2.0
 * Rounds: what pairs cost, who is sampled, who is offered to whom. */
#include "reference/reference_graph.h"
#include "screen/screen_kernels.h"
#include "select/select_word.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = KIN_GRAPH_GPU_MOST_SAMPLES };

/* ---- Costs ----------------------------------------------------------------------------------- */

/* Halves of a slice, whose exponents are not the highest. */
enum { HALVES = KIN_SCREEN_GPU_SLICE / 2 };
/* What was read already no sanitizer need watch, one by one. */
#define UNWATCHED __attribute__((no_sanitize("address", "undefined", "thread")))

static inline UNWATCHED float float_of_half(uint16_t half)
{
    const uint32_t bits = (half & 0x8000u) << 16 | (half & 0x7fffu) << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value * 0x1p112F;
}

/* Products of halves are exact. They are summed as graph_pair.cuh does: a slice of a row is eight
 * halves in turn for each of eight lanes. */
__attribute__((noinline)) UNWATCHED static void add_slice(const uint16_t a[HALVES],
                                                          const uint16_t b[HALVES], float lane[8])
{
    for (int32_t j = 0; j < 8; j++) {
        for (int32_t i = 0; i < 8; i++) {
            lane[i] += float_of_half(a[8 * j + i]) * float_of_half(b[8 * j + i]);
        }
    }
}

static float product_of_halves(const unsigned char *a, const unsigned char *b, int32_t row_bytes)
{
    uint16_t x[HALVES];
    uint16_t y[HALVES];
    float lane[8] = {0};
    for (int32_t at = 0; at < row_bytes; at += KIN_SCREEN_GPU_SLICE) {
        memcpy(x, a + at, sizeof x);
        memcpy(y, b + at, sizeof y);
        add_slice(x, y, lane);
    }
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

__attribute__((noinline)) UNWATCHED static int32_t add_bytes(const int8_t a[KIN_SCREEN_GPU_SLICE],
                                                             const int8_t b[KIN_SCREEN_GPU_SLICE])
{
    int32_t product = 0;
    for (int32_t i = 0; i < KIN_SCREEN_GPU_SLICE; i++) {
        product += (int32_t)a[i] * (int32_t)b[i];
    }
    return product;
}

static int32_t product_of_bytes(const unsigned char *a, const unsigned char *b, int32_t row_bytes)
{
    int8_t x[KIN_SCREEN_GPU_SLICE];
    int8_t y[KIN_SCREEN_GPU_SLICE];
    int32_t product = 0;
    for (int32_t at = 0; at < row_bytes; at += KIN_SCREEN_GPU_SLICE) {
        memcpy(x, a + at, sizeof x);
        memcpy(y, b + at, sizeof y);
        product += add_bytes(x, y);
    }
    return product;
}

/* The cost of integers fits, the sum of the terms need not. */
static uint32_t order_of_rounded(const kin_screen_gpu_set *set, uint32_t i, uint32_t j)
{
    const int32_t bytes = set->frame.row_bytes;
    const unsigned char *a = set->rounded + (int64_t)i * bytes;
    const unsigned char *b = set->rounded + (int64_t)j * bytes;
    const kin_screen_gpu_word own = set->facts[i].term;
    const kin_screen_gpu_word other = set->facts[j].term;
    if (set->frame.type == KIN_SCREEN_GPU_S8) {
        const uint32_t product = (uint32_t)product_of_bytes(a, b, bytes);
        return kin_graph_order_of_int((int32_t)(own.u + other.u - 2 * product));
    }
    const float product = product_of_halves(a, b, bytes);
    return kin_graph_order_of_float(fmaf(-2.0F, product, own.f + other.f) + 0.0F);
}

void reference_orders(const kin_graph_gpu_points *points, uint32_t own, const uint32_t *others,
                      int32_t count, uint32_t *orders)
{
    const uint32_t *ids = points->set.ids;
    uint32_t rows[MOST] = {0};
    double keys[MOST];
    REFERENCE_MUST(count <= MOST);
    if (points->set.rounded != NULL) {
        for (int32_t i = 0; i < count; i++) {
            orders[i] = order_of_rounded(&points->set, own, others[i]);
        }
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        rows[i] = ids[others[i]];
    }
    reference_keys(&points->rows, ids[own], &points->rows, rows, 0, count, keys);
    for (int32_t i = 0; i < count; i++) {
        orders[i] = kin_graph_order_of_float((float)keys[i] + 0.0F);
    }
}

/* ---- Samples --------------------------------------------------------------------------------- */

static void sample_list(const kin_graph_gpu_sample *job, int64_t point)
{
    const kin_graph_gpu_samples *s = &job->samples;
    const uint32_t hash = kin_graph_hash(job->salt, (uint32_t)point);
    uint64_t *list = reference_list(&job->graph, point);
    s->new_counts[point] = 0;
    s->old_counts[point] = 0;
    for (int32_t i = 0; i < job->graph.length && list[i] != KIN_GRAPH_EMPTY; i++) {
        const bool is_new = kin_graph_is_new(list[i]) != 0;
        int32_t *count = is_new ? &s->new_counts[point] : &s->old_counts[point];
        if (*count == s->forward) {
            continue;
        }
        const uint32_t position = kin_graph_position(list[i]);
        const int64_t at = point * (s->forward + s->reverse) + (*count)++;
        (is_new ? s->new_ids : s->old_ids)[at] = position;
        list[i] &= ~(uint64_t)1;
        if (s->reverse > 0) {
            uint64_t *slots = is_new ? s->new_slots : s->old_slots;
            const uint32_t slot = kin_graph_slot(hash, (uint32_t)s->reverse);
            reference_take_least(&slots[(int64_t)position * s->reverse + slot],
                                 (uint64_t)hash << 32 | (uint64_t)point);
        }
    }
}

void reference_graph_sample(const kin_graph_gpu_sample *job)
{
    for (int64_t p = job->graph.first; p < kin_graph_gpu_behind(&job->graph); p++) {
        sample_list(job, p);
    }
}

static bool has(const uint32_t *ids, int32_t count, uint32_t id)
{
    for (int32_t i = 0; i < count; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* `count` ids of one kind and those of the slots, none of `others` among them: how many. */
static int32_t collect_kind(const kin_graph_gpu_samples *s, int64_t point, uint32_t *ids,
                            int32_t count, const uint64_t *slots, const uint32_t *others,
                            int32_t other_count)
{
    const int32_t width = s->forward + s->reverse;
    uint64_t sorted[MOST];
    int32_t there = 0;
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++) {
        sorted[there++] = ids[i];
    }
    for (int32_t i = 0; i < s->reverse; i++) {
        const uint64_t word = slots[point * s->reverse + i];
        if (word != KIN_GRAPH_EMPTY) {
            sorted[there++] = (uint32_t)word;
        }
    }
    kin_select_sort_words(sorted, there);
    for (int32_t i = 0; i < there; i++) {
        const uint32_t id = (uint32_t)sorted[i];
        if (id != (uint32_t)point && !has(ids, kept, id) && !has(others, other_count, id)) {
            ids[kept++] = id;
        }
    }
    for (int32_t i = kept; i < width; i++) {
        ids[i] = UINT32_MAX;
    }
    return kept;
}

void reference_graph_collect(const kin_graph_gpu_sample *job)
{
    const kin_graph_gpu_samples *s = &job->samples;
    const int32_t width = s->forward + s->reverse;
    REFERENCE_MUST(width <= MOST);
    for (int64_t p = job->graph.first; p < kin_graph_gpu_behind(&job->graph); p++) {
        uint32_t *news = s->new_ids + p * width;
        uint32_t *olds = s->old_ids + p * width;
        s->new_counts[p] = collect_kind(s, p, news, s->new_counts[p], s->new_slots, NULL, 0);
        s->old_counts[p] =
            collect_kind(s, p, olds, s->old_counts[p], s->old_slots, news, s->new_counts[p]);
    }
}

/* ---- Cross-matching -------------------------------------------------------------------------- */

/* The samples of a point, NEW ones first, and what has been found for each of them. */
typedef struct meeting {
    int32_t news;
    int32_t both;
    uint32_t id[2 * MOST];
    uint64_t least[2][2 * MOST]; /* among NEW ones, among OLD ones */
} meeting;

static void offer(const kin_graph_gpu_join *job, uint32_t to, uint64_t word)
{
    const uint64_t last = job->lasts != NULL
                              ? job->lasts[to]
                              : reference_list(&job->graph, to)[job->graph.length - 1];
    const uint32_t slot = kin_graph_gpu_slot(job->salt, kin_graph_position(word));
    if (word < last) {
        reference_take_least(&job->offers[(int64_t)to * KIN_GRAPH_GPU_SLOTS + slot], word);
    }
}

/* Sample `other` is found for sample `to`. */
static void find(const kin_graph_gpu_join *job, meeting *m, int32_t to, int32_t other,
                 uint32_t order)
{
    const uint64_t word = kin_graph_word(order, m->id[other], 1);
    if (job->all != 0) {
        offer(job, m->id[to], word);
    } else {
        reference_take_least(&m->least[other < m->news ? 0 : 1][to], word);
    }
}

/* Where there are two sets, samples of one do not meet. */
static bool are_across(const kin_graph_gpu_join *job, uint32_t one, uint32_t other)
{
    const uint32_t *ids = job->points.set.ids;
    return job->split == 0 || (ids[one] < job->split) != (ids[other] < job->split);
}

/* Sample i meets those behind it. Costs are symmetric but for Kullback-Leibler. */
static void meet(const kin_graph_gpu_join *job, meeting *m, int32_t i)
{
    const bool symmetric = job->points.set.rounded != NULL || job->points.rows.metric != KITH_KL;
    for (int32_t first = i + 1; first < m->both; first += MOST) {
        const int32_t count = m->both - first < MOST ? m->both - first : MOST;
        uint32_t orders[MOST];
        reference_orders(&job->points, m->id[i], m->id + first, count, orders);
        for (int32_t j = 0; j < count; j++) {
            uint32_t back = orders[j];
            if (!are_across(job, m->id[i], m->id[first + j])) {
                continue;
            }
            *job->evaluations += symmetric ? 1 : 2;
            if (!symmetric) {
                reference_orders(&job->points, m->id[first + j], &m->id[i], 1, &back);
            }
            find(job, m, i, first + j, orders[j]);
            find(job, m, first + j, i, back);
        }
    }
}

static void join_point(const kin_graph_gpu_join *job, int64_t point, meeting *m)
{
    const kin_graph_gpu_samples *s = &job->samples;
    const int64_t at = point * (s->forward + s->reverse);
    const int32_t olds = s->old_counts[point];
    m->news = s->new_counts[point];
    m->both = m->news + olds;
    memcpy(m->id, s->new_ids + at, (size_t)m->news * sizeof *m->id);
    memcpy(m->id + m->news, s->old_ids + at, (size_t)olds * sizeof *m->id);
    memset(m->least, 0xff, sizeof m->least);
    for (int32_t i = 0; i < m->news; i++) {
        meet(job, m, i);
    }
    for (int32_t i = 0; i < 2 * m->both; i++) {
        const uint64_t word = m->least[i % 2][i / 2];
        if (word != KIN_GRAPH_EMPTY) {
            offer(job, m->id[i / 2], word);
        }
    }
}

void reference_graph_join(const kin_graph_gpu_join *job)
{
    const int32_t width = job->samples.forward + job->samples.reverse;
    meeting m;
    REFERENCE_MUST(width >= 1 && width <= MOST && job->graph.length >= 1);
    for (int64_t p = job->graph.first; p < kin_graph_gpu_behind(&job->graph); p++) {
        join_point(job, p, &m);
    }
}
