/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_join.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "support/support_device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SALT 0x9e3779b97f4a7c15u

enum { SLOTS = KIN_GRAPH_GPU_SLOTS, MOST = KIN_GRAPH_GPU_MOST_SAMPLES };

/* ---- Memory ---------------------------------------------------------------------------------- */

void *test_join_hold(test_join *s, void *block)
{
    assert_true(s->held_count < TEST_JOIN_HELD);
    s->held[s->held_count++] = block;
    return block;
}

void test_join_free(test_join *s)
{
    for (int i = 0; i < s->held_count; i++) {
        kin_gpu_free(test_device, s->held[i]);
    }
    for (int kind = 0; kind < 2; kind++) {
        free(s->ids[kind]);
        free(s->counts[kind]);
    }
    free(s->values);
    free(s->terms);
    free(s->keys);
    free(s->words);
    free(s->want);
}

/* ---- Points ---------------------------------------------------------------------------------- */

/* A whole number below 2^10 as binary16. */
static uint16_t half_of(int value)
{
    const unsigned size = (unsigned)abs(value);
    unsigned exponent = 0;
    while (size >> exponent > 1) {
        exponent++;
    }
    const unsigned bits = (exponent + 15) << 10 | ((size << (10 - exponent)) & 1023);
    return (uint16_t)(size == 0 ? 0 : bits | (value < 0 ? 0x8000U : 0));
}

void test_join_round(test_join *s)
{
    const int64_t item = s->type == KIN_SCREEN_GPU_S8 ? 1 : 2;
    const int64_t row_bytes =
        (s->cols * item + KIN_SCREEN_GPU_SLICE - 1) / KIN_SCREEN_GPU_SLICE * KIN_SCREEN_GPU_SLICE;
    unsigned char *rounded = test_host_room((size_t)(s->points * row_bytes));
    kin_screen_gpu_facts *facts = test_host_room((size_t)s->points * sizeof *facts);
    s->values = test_host_room((size_t)(s->points * s->cols));
    s->terms = test_host_room((size_t)s->points * sizeof *s->terms);
    s->symmetric = true;
    for (int64_t p = 0; p < s->points; p++) {
        int32_t square = 0;
        for (int32_t c = 0; c < s->cols; c++) {
            const uint64_t draw = kin_random_next(&s->seed) >> 32;
            const bool bytes = s->type == KIN_SCREEN_GPU_S8;
            const int value = bytes ? (int)(draw & 255) - 128 : (int)(draw % 17) - 8;
            const uint16_t half = half_of(value);
            s->values[p * s->cols + c] = (int8_t)value;
            memcpy(rounded + p * row_bytes + c * item,
                   bytes ? (const void *)&s->values[p * s->cols + c] : &half, (size_t)item);
            square += value * value;
        }
        s->terms[p] = square;
        if (s->products) {
            const int32_t any = (int32_t)kin_random_below(&s->seed, 2000001) - 1000000;
            s->terms[p] = s->type == KIN_SCREEN_GPU_S8 ? any : 0;
        }
        facts[p].term.i = s->terms[p];
        if (s->type == KIN_SCREEN_GPU_F16) {
            facts[p].term.f = (float)s->terms[p];
        }
    }
    kin_screen_gpu_set *set = &s->job.points.set;
    set->frame.type = s->type;
    set->frame.cols = s->cols;
    set->frame.row_bytes = (int32_t)row_bytes;
    set->points = s->points;
    set->padded = s->points;
    set->rounded = test_join_hold(s, test_device_copy(rounded, (uint64_t)(s->points * row_bytes)));
    set->facts = test_join_hold(s, test_device_copy(facts, (uint64_t)s->points * sizeof *facts));
    free(rounded);
    free(facts);
}

/* The order of what the list of `to` would pay for `other`. */
static uint32_t order_between(const test_join *s, uint32_t to, uint32_t other)
{
    if (s->values == NULL) {
        return kin_graph_order_of_float((float)s->keys[to * s->points + other] + 0.0F);
    }
    const int8_t *a = s->values + (int64_t)to * s->cols;
    const int8_t *b = s->values + (int64_t)other * s->cols;
    int32_t product = 0;
    for (int32_t c = 0; c < s->cols; c++) {
        product += a[c] * b[c];
    }
    const int32_t cost = s->terms[to] + s->terms[other] - 2 * product;
    return s->type == KIN_SCREEN_GPU_S8 ? kin_graph_order_of_int(cost)
                                        : kin_graph_order_of_float((float)cost);
}

/* ---- Samples and lists ----------------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static int32_t draw_count(test_join *s, int32_t fixed)
{
    static const int32_t counts[] = {0, 1, 2, 7, 15, 16, 17, 24, 32, 33, 64};
    enum { COUNTS = sizeof counts / sizeof counts[0] };
    const int32_t most = s->forward + s->reverse;
    const int32_t drawn = counts[kin_random_below(&s->seed, COUNTS)];
    const int32_t count = fixed >= 0 ? fixed : drawn;
    return count < most ? count : most;
}

static void make_samples(test_join *s)
{
    const size_t most = (size_t)(s->forward + s->reverse);
    uint32_t *seen = test_host_room((size_t)s->points * sizeof *seen);
    for (int kind = 0; kind < 2; kind++) {
        s->ids[kind] = test_host_room((size_t)s->points * most * sizeof(uint32_t));
        s->counts[kind] = test_host_room((size_t)s->points * sizeof(int32_t));
        memset(s->ids[kind], 0xff, (size_t)s->points * most * sizeof(uint32_t));
    }
    for (int64_t p = 0; p < s->points; p++) {
        seen[p] = (uint32_t)p + 1;
        for (int kind = 0; kind < 2; kind++) {
            uint32_t *ids = s->ids[kind] + (size_t)p * most;
            const int32_t count = draw_count(s, kind == 0 ? s->news : s->olds);
            s->counts[kind][p] = count;
            for (int32_t i = 0; i < count;) {
                const uint32_t id = (uint32_t)kin_random_below(&s->seed, (uint64_t)s->points);
                if (seen[id] != (uint32_t)p + 1) {
                    seen[id] = (uint32_t)p + 1;
                    ids[i++] = id;
                }
            }
            qsort(ids, (size_t)count, sizeof *ids, compare_ids);
        }
    }
    free(seen);
    kin_graph_gpu_samples *samples = &s->job.samples;
    const uint64_t bytes = (uint64_t)s->points * most * sizeof(uint32_t);
    const uint64_t count_bytes = (uint64_t)s->points * sizeof(int32_t);
    samples->forward = s->forward;
    samples->reverse = s->reverse;
    samples->new_ids = test_join_hold(s, test_device_copy(s->ids[0], bytes));
    samples->old_ids = test_join_hold(s, test_device_copy(s->ids[1], bytes));
    samples->new_counts = test_join_hold(s, test_device_copy(s->counts[0], count_bytes));
    samples->old_counts = test_join_hold(s, test_device_copy(s->counts[1], count_bytes));
}

/* A list's last word: empty, or one that would be offered too, or its older twin. All words around
 * it are 0, below which nothing is. */
static void make_lists(test_join *s)
{
    s->words = test_host_room((size_t)s->points * TEST_JOIN_LENGTH * sizeof *s->words);
    for (int64_t p = 0; p < s->points; p++) {
        uint64_t *last = &s->words[p * TEST_JOIN_LENGTH + TEST_JOIN_LENGTH - 1];
        const uint32_t other = (uint32_t)kin_random_below(&s->seed, (uint64_t)s->points);
        *last = KIN_GRAPH_EMPTY;
        if (p % 3 != 0) {
            *last = kin_graph_word(order_between(s, (uint32_t)p, other), other, p % 3 == 1);
        }
    }
    s->job.graph.points = s->points;
    s->job.graph.length = TEST_JOIN_LENGTH;
    s->job.graph.words = test_join_hold(
        s, test_device_copy(s->words, (uint64_t)s->points * TEST_JOIN_LENGTH * sizeof *s->words));
}

/* ---- The plain loops ------------------------------------------------------------------------- */

/* Samples of one point, NEW first, and the orders of those pairs that meet. */
typedef struct meeting {
    uint32_t id[2 * MOST];
    uint32_t order[2 * MOST][2 * MOST];
} meeting;

/* Whether two positions meet: those of one set do not. */
static bool they_meet(const test_join *s, uint32_t one, uint32_t other)
{
    const int64_t last = s->points - 1;
    const int64_t row = s->rows != NULL ? s->rows[one] : last - one;
    const int64_t of_other = s->rows != NULL ? s->rows[other] : last - other;
    return s->split == 0 || (row < s->split) != (of_other < s->split);
}

static void expect(test_join *s, uint32_t to, uint64_t word)
{
    uint64_t *slot =
        &s->want[(int64_t)to * SLOTS + kin_graph_gpu_slot(SALT, kin_graph_position(word))];
    if (word < s->words[(int64_t)to * TEST_JOIN_LENGTH + TEST_JOIN_LENGTH - 1] && word < *slot) {
        *slot = word;
    }
}

/* The nearest to sample `to` among samples from .. end - 1, or all of them. */
static void expect_among(test_join *s, const meeting *m, int32_t to, int32_t from, int32_t end)
{
    uint64_t least = KIN_GRAPH_EMPTY;
    for (int32_t other = from; other < end; other++) {
        if (other != to && they_meet(s, m->id[to], m->id[other])) {
            const uint64_t word = kin_graph_word(m->order[to][other], m->id[other], 1);
            least = word < least ? word : least;
            if (s->all) {
                expect(s, m->id[to], word);
            }
        }
    }
    if (least != KIN_GRAPH_EMPTY && !s->all) {
        expect(s, m->id[to], least);
    }
}

static void expect_point(test_join *s, meeting *m, int64_t p)
{
    const int64_t most = s->forward + s->reverse;
    const int32_t news = s->counts[0][p];
    const int32_t both = news + s->counts[1][p];
    for (int32_t i = 0; i < both; i++) {
        m->id[i] = i < news ? s->ids[0][p * most + i] : s->ids[1][p * most + i - news];
    }
    for (int32_t i = 0; i < news; i++) {
        for (int32_t j = i + 1; j < both; j++) {
            const uint32_t order = order_between(s, m->id[i], m->id[j]);
            m->order[i][j] = order;
            m->order[j][i] = s->symmetric ? order : order_between(s, m->id[j], m->id[i]);
            s->evaluations += !they_meet(s, m->id[i], m->id[j]) ? 0 : s->symmetric ? 1 : 2;
        }
    }
    for (int32_t i = 0; i < both; i++) {
        expect_among(s, m, i, 0, news);
        if (i < news) {
            expect_among(s, m, i, news, both);
        }
    }
}

static void make_expected(test_join *s)
{
    meeting *m = test_host_room(sizeof *m);
    const size_t bytes = (size_t)s->points * SLOTS * sizeof *s->want;
    s->want = test_host_room(bytes);
    memset(s->want, 0xff, bytes);
    for (int64_t p = 0; p < s->points; p++) {
        expect_point(s, m, p);
    }
    free(m);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static void tell(const test_join *s, int64_t at, uint64_t got)
{
    if (test_wrong++ < TEST_MOST_TOLD) {
        printf("WRONG %s, %d columns, %" PRId64
               " points, %d + %d samples (%d, %d)%s: offer %" PRId64 " to %" PRId64 ": %016" PRIx64
               ", want %016" PRIx64 "\n",
               s->name, s->cols, s->points, s->forward, s->reverse, s->news, s->olds,
               s->all ? ", all" : "", at % SLOTS, at / SLOTS, got, s->want[at]);
        (void)fflush(stdout);
    }
}

/* Where rows of positions stand, for joins that ask for their sets. */
static void make_rows(test_join *s)
{
    if (s->split == 0 || s->rows != NULL) {
        return;
    }
    uint32_t *ids = test_host_room((size_t)s->points * sizeof *ids);
    for (int64_t p = 0; p < s->points; p++) {
        ids[p] = (uint32_t)(s->points - 1 - p);
    }
    s->job.points.set.ids =
        test_join_hold(s, test_device_copy(ids, (uint64_t)s->points * sizeof *ids));
    free(ids);
}

void test_join_run(test_join *s)
{
    const uint64_t count = (uint64_t)s->points * SLOTS;
    uint64_t *got = test_host_room(count * sizeof *got);
    make_samples(s);
    make_lists(s);
    make_rows(s);
    make_expected(s);
    s->job.split = s->split;
    s->job.all = s->all ? 1 : 0;
    s->job.salt = SALT;
    s->job.offers = test_join_hold(s, test_device_room(count * sizeof *got));
    s->job.evaluations = test_join_hold(s, test_device_room(sizeof(uint64_t)));
    test_must(kin_gpu_fill(test_device_ctx, test_device, s->job.evaluations, 0, sizeof(uint64_t)));
    for (uint64_t run = 1; run <= 2; run++) {
        uint64_t evaluations = 0;
        test_must(
            kin_gpu_fill(test_device_ctx, test_device, s->job.offers, 0xff, count * sizeof *got));
        test_launch(test_device->module->graph->join(test_device->stream, &s->job), "join");
        test_download(got, s->job.offers, count * sizeof *got);
        test_download(&evaluations, s->job.evaluations, sizeof evaluations);
        for (uint64_t at = 0; at < count; at++) {
            if (got[at] != s->want[at]) {
                tell(s, (int64_t)at, got[at]);
            }
        }
        if (evaluations != run * s->evaluations) {
            printf("WRONG %s: %" PRIu64 " evaluations, want %" PRIu64 "\n", s->name, evaluations,
                   run * s->evaluations);
            test_wrong++;
        }
    }
    free(got);
    test_join_free(s);
}
