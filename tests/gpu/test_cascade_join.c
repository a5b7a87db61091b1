/* SPDX-License-Identifier: Apache-2.0
 * Cross-matching of NN-Descent on a device against plain loops: the same offers, to the last bit,
 * in two runs. Rounded rows hold whole numbers whose products and sums fp32 has exactly; rows as
 * given are compared by the processor's canonical keys. Lists are full, nearly full or empty at
 * their end, many costs are equal, samples are 0 to 64, blocks take one point or many.
 *
 * KITH_TIMES: prints how long a round of a million points takes, and asserts nothing of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "cascade/cascade_kernels.h"
#include "support/support_device.h"
#include "support/support_gpu.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SALT 0x9e3779b97f4a7c15u

enum { LENGTH = 8, SLOTS = KIN_CASCADE_SLOTS, MOST = KIN_CASCADE_MOST_SAMPLES, HELD = 16 };

typedef struct scene {
    const char *name;
    kin_fused_type type;
    int32_t cols;
    int64_t points;
    int32_t forward;
    int32_t reverse;
    int32_t news; /* of every point; -1: drawn */
    int32_t olds;
    bool all;
    bool products; /* terms are no squares */
    uint64_t seed;

    int8_t *values; /* points x cols; NULL: rows as given, and keys */
    int32_t *terms;
    double *keys; /* by position: keys[to * points + other] */
    bool symmetric;
    uint32_t *ids[2]; /* samples: NEW, OLD */
    int32_t *counts[2];
    uint64_t *words;
    uint64_t *want;
    uint64_t evaluations;

    kin_cascade_join job;
    void *held[HELD];
    int held_count;
} scene;

/* ---- Memory ---------------------------------------------------------------------------------- */

static void *hold(scene *s, void *block)
{
    assert_true(s->held_count < HELD);
    s->held[s->held_count++] = block;
    return block;
}

static void free_scene(scene *s)
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

static void make_rounded(scene *s)
{
    const int64_t item = s->type == KIN_FUSED_S8 ? 1 : 2;
    const int64_t row_bytes =
        (s->cols * item + KIN_FUSED_SLICE - 1) / KIN_FUSED_SLICE * KIN_FUSED_SLICE;
    unsigned char *rounded = test_host_room((size_t)(s->points * row_bytes));
    kin_fused_facts *facts = test_host_room((size_t)s->points * sizeof *facts);
    s->values = test_host_room((size_t)(s->points * s->cols));
    s->terms = test_host_room((size_t)s->points * sizeof *s->terms);
    s->symmetric = true;
    for (int64_t p = 0; p < s->points; p++) {
        int32_t square = 0;
        for (int32_t c = 0; c < s->cols; c++) {
            const uint64_t draw = kin_random_next(&s->seed) >> 32;
            const bool bytes = s->type == KIN_FUSED_S8;
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
            s->terms[p] = s->type == KIN_FUSED_S8 ? any : 0;
        }
        facts[p].term.i = s->terms[p];
        if (s->type == KIN_FUSED_F16) {
            facts[p].term.f = (float)s->terms[p];
        }
    }
    kin_fused_set *set = &s->job.points.set;
    set->frame.type = s->type;
    set->frame.cols = s->cols;
    set->frame.row_bytes = (int32_t)row_bytes;
    set->points = s->points;
    set->padded = s->points;
    set->rounded = hold(s, test_device_copy(rounded, (uint64_t)(s->points * row_bytes)));
    set->facts = hold(s, test_device_copy(facts, (uint64_t)s->points * sizeof *facts));
    free(rounded);
    free(facts);
}

/* The order of what the list of `to` would pay for `other`. */
static uint32_t order_between(const scene *s, uint32_t to, uint32_t other)
{
    if (s->values == NULL) {
        return kin_descent_order_of_float((float)s->keys[to * s->points + other] + 0.0F);
    }
    const int8_t *a = s->values + (int64_t)to * s->cols;
    const int8_t *b = s->values + (int64_t)other * s->cols;
    int32_t product = 0;
    for (int32_t c = 0; c < s->cols; c++) {
        product += a[c] * b[c];
    }
    const int32_t cost = s->terms[to] + s->terms[other] - 2 * product;
    return s->type == KIN_FUSED_S8 ? kin_descent_order_of_int(cost)
                                   : kin_descent_order_of_float((float)cost);
}

/* ---- Samples and lists ----------------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static int32_t draw_count(scene *s, int32_t fixed)
{
    static const int32_t counts[] = {0, 1, 2, 7, 15, 16, 17, 24, 32, 33, 64};
    enum { COUNTS = sizeof counts / sizeof counts[0] };
    const int32_t most = s->forward + s->reverse;
    const int32_t drawn = counts[kin_random_below(&s->seed, COUNTS)];
    const int32_t count = fixed >= 0 ? fixed : drawn;
    return count < most ? count : most;
}

static void make_samples(scene *s)
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
    kin_cascade_samples *samples = &s->job.samples;
    const uint64_t bytes = (uint64_t)s->points * most * sizeof(uint32_t);
    const uint64_t count_bytes = (uint64_t)s->points * sizeof(int32_t);
    samples->forward = s->forward;
    samples->reverse = s->reverse;
    samples->new_ids = hold(s, test_device_copy(s->ids[0], bytes));
    samples->old_ids = hold(s, test_device_copy(s->ids[1], bytes));
    samples->new_counts = hold(s, test_device_copy(s->counts[0], count_bytes));
    samples->old_counts = hold(s, test_device_copy(s->counts[1], count_bytes));
}

/* A list's last word: empty, or one that would be offered too, or its older twin. All words around
 * it are 0, below which nothing is. */
static void make_lists(scene *s)
{
    s->words = test_host_room((size_t)s->points * LENGTH * sizeof *s->words);
    for (int64_t p = 0; p < s->points; p++) {
        uint64_t *last = &s->words[p * LENGTH + LENGTH - 1];
        const uint32_t other = (uint32_t)kin_random_below(&s->seed, (uint64_t)s->points);
        *last = KIN_DESCENT_EMPTY;
        if (p % 3 != 0) {
            *last = kin_descent_word(order_between(s, (uint32_t)p, other), other, p % 3 == 1);
        }
    }
    s->job.graph.points = s->points;
    s->job.graph.length = LENGTH;
    s->job.graph.words =
        hold(s, test_device_copy(s->words, (uint64_t)s->points * LENGTH * sizeof *s->words));
}

/* ---- The plain loops ------------------------------------------------------------------------- */

/* Samples of one point, NEW first, and the orders of those pairs that meet. */
typedef struct meeting {
    uint32_t id[2 * MOST];
    uint32_t order[2 * MOST][2 * MOST];
} meeting;

static void expect(scene *s, uint32_t to, uint64_t word)
{
    uint64_t *slot =
        &s->want[(int64_t)to * SLOTS + kin_cascade_slot(SALT, kin_descent_position(word))];
    if (word < s->words[(int64_t)to * LENGTH + LENGTH - 1] && word < *slot) {
        *slot = word;
    }
}

/* The nearest to sample `to` among samples from .. end - 1, or all of them. */
static void expect_among(scene *s, const meeting *m, int32_t to, int32_t from, int32_t end)
{
    uint64_t least = KIN_DESCENT_EMPTY;
    for (int32_t other = from; other < end; other++) {
        if (other != to) {
            const uint64_t word = kin_descent_word(m->order[to][other], m->id[other], 1);
            least = word < least ? word : least;
            if (s->all) {
                expect(s, m->id[to], word);
            }
        }
    }
    if (least != KIN_DESCENT_EMPTY && !s->all) {
        expect(s, m->id[to], least);
    }
}

static void expect_point(scene *s, meeting *m, int64_t p)
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
            s->evaluations += s->symmetric ? 1 : 2;
        }
    }
    for (int32_t i = 0; i < both; i++) {
        expect_among(s, m, i, 0, news);
        if (i < news) {
            expect_among(s, m, i, news, both);
        }
    }
}

static void make_expected(scene *s)
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

static void tell(const scene *s, int64_t at, uint64_t got)
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

/* Samples and lists of a scene whose points are there; both runs are compared. */
static void run_scene(scene *s)
{
    const uint64_t count = (uint64_t)s->points * SLOTS;
    uint64_t *got = test_host_room(count * sizeof *got);
    make_samples(s);
    make_lists(s);
    make_expected(s);
    s->job.all = s->all ? 1 : 0;
    s->job.salt = SALT;
    s->job.offers = hold(s, test_device_room(count * sizeof *got));
    s->job.evaluations = hold(s, test_device_room(sizeof(uint64_t)));
    test_must(kin_gpu_fill(test_device_ctx, test_device, s->job.evaluations, 0, sizeof(uint64_t)));
    for (uint64_t run = 1; run <= 2; run++) {
        uint64_t evaluations = 0;
        test_must(
            kin_gpu_fill(test_device_ctx, test_device, s->job.offers, 0xff, count * sizeof *got));
        test_launch(test_device->module->cascade->join(test_device->stream, &s->job), "join");
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
    free_scene(s);
}

static void run_rounded(scene s)
{
    s.seed = (uint64_t)(s.cols * 1000 + s.forward * 10 + s.news);
    s.name = s.type == KIN_FUSED_S8 ? "s8" : "f16";
    make_rounded(&s);
    run_scene(&s);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static const int32_t mixes[][2] = {{4, 4}, {8, 8}, {10, 7}, {16, 16}, {20, 30}, {32, 32}};
enum { MIXES = sizeof mixes / sizeof mixes[0] };

static void rounded_rows(void **state)
{
    (void)state;
    static const int32_t cols[] = {3, 16, 64, 100, 128, 130, 960};
    test_wrong = 0;
    int cases = 0;
    for (int type = KIN_FUSED_F16; type <= KIN_FUSED_S8; type++) {
        for (size_t c = 0; c < sizeof cols / sizeof cols[0]; c++) {
            for (int m = 0; m < 2 * MIXES; m++) {
                run_rounded((scene){.type = (kin_fused_type)type,
                                    .cols = cols[c],
                                    .points = 300,
                                    .forward = mixes[m / 2][0],
                                    .reverse = mixes[m / 2][1],
                                    .news = -1,
                                    .olds = -1,
                                    .all = m % 2 == 1,
                                    .products = c % 2 == 1});
                cases++;
            }
        }
    }
    printf("rounded rows: %d cases, all offers of both runs as in plain loops; %d wrong\n", cases,
           test_wrong);
    assert_int_equal(test_wrong, 0);
}

static void numbers_of_samples(void **state)
{
    (void)state;
    static const int32_t counts[] = {0, 1, 7, 16, 17, 64};
    enum { COUNTS = sizeof counts / sizeof counts[0] };
    test_wrong = 0;
    for (int type = KIN_FUSED_F16; type <= KIN_FUSED_S8; type++) {
        for (int n = 0; n < COUNTS * COUNTS; n++) {
            run_rounded((scene){.type = (kin_fused_type)type,
                                .cols = 100,
                                .points = 200,
                                .forward = 32,
                                .reverse = 32,
                                .news = counts[n / COUNTS],
                                .olds = counts[n % COUNTS],
                                .all = n % 5 == 4});
        }
    }
    printf("every pair of %d numbers of samples: %d wrong\n", COUNTS, test_wrong);
    assert_int_equal(test_wrong, 0);
}

/* So many that every block takes several, of one slice also side by side (on 132 processors). */
static void many_points(void **state)
{
    (void)state;
    static const int64_t points[MIXES] = {170001, 170001, 90001, 90001, 40001, 40001};
    test_wrong = 0;
    for (int type = KIN_FUSED_F16; type <= KIN_FUSED_S8; type++) {
        for (int m = 0; m < 2 * MIXES; m++) {
            run_rounded((scene){.type = (kin_fused_type)type,
                                .cols = m % 2 == 0 ? 16 : 130,
                                .points = m % 2 == 0 ? points[m / 2] : 20001,
                                .forward = mixes[m / 2][0],
                                .reverse = mixes[m / 2][1],
                                .news = -1,
                                .olds = m / 2 < 4 ? -1 : 7,
                                .all = m % 6 == 3});
        }
    }
    printf("many points: %d wrong\n", test_wrong);
    assert_int_equal(test_wrong, 0);
}

static void run_given(kith_metric metric, kith_dtype dtype, int32_t cols, int variant)
{
    enum { POINTS = 150 };
    scene s = {.name = kith_metric_name(metric),
               .type = KIN_FUSED_F16,
               .cols = cols,
               .points = POINTS,
               .forward = mixes[variant % MIXES][0],
               .reverse = mixes[variant % MIXES][1],
               .news = -1,
               .olds = -1,
               .all = variant % 4 == 3,
               .seed = (uint64_t)variant + 1};
    const kin_metric_traits *traits = kin_metric_get_traits(metric);
    test_device_rows points = {.rows = test_rows_make(dtype, POINTS, cols, cols % 3)};
    test_rows_fill(&points.rows, 20, traits->nonnegative || dtype == KITH_U8, &s.seed);
    for (int32_t c = 0; c < cols; c++) {
        test_rows_set(&points.rows, 7, c, 0);
    }
    test_device_rows_finish(&points, metric);
    uint32_t ids[POINTS];
    for (uint32_t p = 0; p < POINTS; p++) {
        ids[p] = p * 7 % POINTS; /* 7 and 150 have no common divisor */
    }
    const kin_distance distance = {.metric = metric, .cols = cols, .isa = test_device_ctx->isa};
    double *values = aligned_alloc(64, ((size_t)cols * sizeof(double) + 63) / 64 * 64);
    assert_non_null(values);
    s.keys = test_host_room(sizeof(double) * POINTS * POINTS);
    s.symmetric = traits->symmetric;
    for (int64_t p = 0; p < POINTS; p++) {
        const kin_query query = kin_metric_load(&distance, &points.on_host, ids[p], values);
        kin_metric_keys(&distance, &query, &points.on_host, ids, 0, POINTS, s.keys + p * POINTS);
    }
    free(values);
    s.job.points.rows = points.on_device;
    s.job.points.set.points = POINTS;
    s.job.points.set.ids = hold(&s, test_device_copy(ids, sizeof ids));
    run_scene(&s);
    test_device_rows_free(&points);
}

static void rows_as_given(void **state)
{
    (void)state;
    static const int32_t cols[] = {1, 3, 8, 37, 130};
    test_wrong = 0;
    int cases = 0;
    for (int metric = KITH_EUCLIDEAN; metric < KITH_CUSTOM; metric++) {
        for (int dtype = KITH_F32; dtype <= KITH_I8; dtype++) {
            for (size_t c = 0; c < sizeof cols / sizeof cols[0]; c++) {
                run_given((kith_metric)metric, (kith_dtype)dtype, cols[c], cases++);
            }
        }
    }
    printf("rows as given: %d cases, costs are canonical keys; %d wrong\n", cases, test_wrong);
    assert_int_equal(test_wrong, 0);
}

/* ---- Times ----------------------------------------------------------------------------------- */

/* Samples within 200 positions of their point, distinct and ascending: one of every so many. */
static void near_samples(uint32_t *ids, int64_t points, int32_t count, int64_t first,
                         uint64_t *seed)
{
    const int64_t step = 400 / count;
    for (int64_t p = 0; p < points; p++) {
        const int64_t base = p < 200 ? 0 : p + 200 >= points ? points - 401 : p - 200;
        for (int64_t i = 0; i < count; i++) {
            const int64_t id =
                base + i * step + (int64_t)kin_random_below(seed, (uint64_t)step / 2) * 2 + first;
            ids[p * count + i] = (uint32_t)id;
        }
    }
}

static void time_round(const scene *s, int32_t count)
{
    const kin_gpu_ops *ops = test_device->module->ops;
    scene t = *s;
    const uint64_t bytes = (uint64_t)s->points * (uint64_t)count * sizeof(uint32_t);
    uint32_t *ids = test_host_room(bytes);
    int32_t *counts = test_host_room((size_t)s->points * sizeof *counts);
    for (int64_t p = 0; p < s->points; p++) {
        counts[p] = count;
    }
    t.held_count = 0;
    t.job.samples.forward = count / 2;
    t.job.samples.reverse = count - count / 2;
    near_samples(ids, s->points, count, 0, &t.seed);
    t.job.samples.new_ids = hold(&t, test_device_copy(ids, bytes));
    near_samples(ids, s->points, count, 1, &t.seed);
    t.job.samples.old_ids = hold(&t, test_device_copy(ids, bytes));
    t.job.samples.new_counts =
        hold(&t, test_device_copy(counts, (uint64_t)s->points * sizeof *counts));
    t.job.samples.old_counts = t.job.samples.new_counts;
    void *begin = NULL;
    void *end = NULL;
    test_launch(ops->event_make(&begin), "event");
    test_launch(ops->event_make(&end), "event");
    for (int run = 0; run < 3; run++) {
        float milliseconds = 0;
        test_launch(ops->event_record(test_device->stream, begin), "event");
        test_launch(test_device->module->cascade->join(test_device->stream, &t.job), "join");
        test_launch(ops->event_record(test_device->stream, end), "event");
        test_launch(ops->event_wait(end), "event");
        test_launch(ops->event_between(begin, end, &milliseconds), "event");
        printf("%" PRId64 " x %d %s, %d NEW + %d OLD, run %d: %.2f ms\n", s->points, s->cols,
               s->name, count, count, run, (double)milliseconds);
        (void)fflush(stdout);
    }
    ops->event_free(begin);
    ops->event_free(end);
    for (int i = 0; i < t.held_count; i++) {
        kin_gpu_free(test_device, t.held[i]);
    }
    free(ids);
    free(counts);
}

static void times(void **state)
{
    (void)state;
    if (getenv("KITH_TIMES") == NULL) {
        return;
    }
    static const int32_t counts[] = {8, 16, 24, 32, 64};
    for (int type = KIN_FUSED_F16; type <= KIN_FUSED_S8; type++) {
        scene s = {.name = type == KIN_FUSED_S8 ? "s8" : "f16",
                   .type = (kin_fused_type)type,
                   .cols = 128,
                   .points = 1000000,
                   .seed = 11};
        const uint64_t list_bytes = (uint64_t)s.points * LENGTH * sizeof(uint64_t);
        const uint64_t offer_bytes = (uint64_t)s.points * SLOTS * sizeof(uint64_t);
        make_rounded(&s);
        s.job.graph.points = s.points;
        s.job.graph.length = LENGTH;
        s.job.graph.words = hold(&s, test_device_room(list_bytes));
        s.job.offers = hold(&s, test_device_room(offer_bytes));
        s.job.evaluations = hold(&s, test_device_room(sizeof(uint64_t)));
        test_must(kin_gpu_fill(test_device_ctx, test_device, s.job.evaluations, 0, 8));
        for (int full = 0; full < 2; full++) {
            printf("lists %s\n", full == 1 ? "that take nothing" : "that take every offer");
            test_must(kin_gpu_fill(test_device_ctx, test_device, s.job.graph.words,
                                   full == 1 ? 0 : 0xff, list_bytes));
            test_must(kin_gpu_fill(test_device_ctx, test_device, s.job.offers, 0xff, offer_bytes));
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
                time_round(&s, counts[c]);
            }
        }
        free_scene(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounded_rows), cmocka_unit_test(numbers_of_samples),
        cmocka_unit_test(many_points),  cmocka_unit_test(rows_as_given),
        cmocka_unit_test(times),
    };
    return test_gpu_is_absent()
               ? TEST_SKIPPED
               : cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
