/* SPDX-License-Identifier: Apache-2.0
 * Merges as published (Wang, Zhao, Zeng 2021, algorithm 3) on the processor, against plain loops:
 * what the first step leaves in lists, what a meeting offers, which pairs a round compares, what
 * comes back at the end; and by the public calls: recall, bytes with any number of threads,
 * mistakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph_start.h"
#include "screen/screen_corpus.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_descents.h"
#include "support/support_mixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 1500, COLS = 9, K = 10, LENGTH = 24, CANDIDATES = 6 };

/* ---- A custom distance that knows its rows --------------------------------------------------- */

typedef struct watching {
    const kith_matrix *points;
    int64_t split;
    bool watches;
    _Atomic int64_t within; /* pairs of one set */
    _Atomic int64_t across;
} watching;

static int64_t row_at(const watching *w, const void *row)
{
    return ((const char *)row - (const char *)w->points->data) / w->points->stride_bytes;
}

static double watched(void *arg, const void *query, const void *point, int32_t cols)
{
    watching *w = arg;
    if (w->watches) {
        const bool same = (row_at(w, query) < w->split) == (row_at(w, point) < w->split);
        *(same ? &w->within : &w->across) += 1;
    }
    return test_descent_manhattan(NULL, query, point, cols);
}

/* ---- Rounds that are looked into ------------------------------------------------------------- */

typedef struct merging {
    kith_ctx *ctx;
    kith_matrix points;
    kith_neighbors graphs[2];
    kin_graph_request request;
    kin_prepared prepared;
    kin_graph_points set;
    kin_graph_rounds rounds;
    uint32_t *owner;
    uint64_t *before; /* lists of both graphs */
    uint64_t *aside;
    watching watching;
} merging;

/* Copies stand in both sets. */
static kith_matrix points_of(int64_t rows, int32_t cols, int64_t clusters)
{
    const test_mixture mixture = {.dtype = KITH_F32,
                                  .rows = rows,
                                  .cols = cols,
                                  .inner = 6,
                                  .clusters = clusters,
                                  .spread = 0.5,
                                  .seed = 17};
    kith_matrix points = test_mixture_make(&mixture);
    for (int64_t row = 0; row < rows; row += 31) {
        test_mixture_copy(&points, row, (row + rows / 2) % rows);
    }
    return points;
}

static size_t words_bytes(const merging *m)
{
    return (size_t)m->rounds.lists.points * LENGTH * sizeof(uint64_t);
}

/* In place: sets and points know where what they were made from stands. */
static void merging_make(merging *m, kith_metric metric, int64_t split, int64_t k)
{
    memset(m, 0, sizeof *m);
    m->ctx = test_descent_ctx(2);
    m->points = points_of(ROWS, COLS, 12);
    m->watching = (watching){.points = &m->points, .split = split};
    const kith_matrix part[] = {test_part_of(&m->points, 0, split),
                                test_part_of(&m->points, split, ROWS - split)};
    const kith_metric known = metric == KITH_CUSTOM ? KITH_MANHATTAN : metric;
    for (int i = 0; i < 2; i++) {
        const int64_t most = part[i].rows - 1;
        m->graphs[i] = test_answer_exact(m->ctx, &part[i], known, k < most ? k : most, 0);
    }
    m->request = (kin_graph_request){.distance = {.metric = metric,
                                                  .cols = COLS,
                                                  .isa = m->ctx->isa,
                                                  .custom = watched,
                                                  .custom_arg = &m->watching},
                                     .k = K,
                                     .init = &m->graphs[0],
                                     .init2 = &m->graphs[1],
                                     .split = split,
                                     .ggm = 1};
    assert_int_equal(kin_prepare_rows(m->ctx, &m->points, &m->request.distance, "points",
                                      metric == KITH_CUSTOM ? KIN_ROWS_DISTINCT : 0, &m->prepared),
                     KITH_OK);
    if (metric == KITH_EUCLIDEAN) {
        assert_int_equal(kin_prepare_set(m->ctx, false, K + 1, &m->prepared), KITH_OK);
    }
    m->owner = malloc(ROWS * sizeof *m->owner);
    kin_graph_owners(&m->prepared, m->owner);
    assert_int_equal(kin_graph_points_make(m->ctx, &m->prepared, &m->set), KITH_OK);
    assert_int_equal(kin_graph_rounds_make(m->ctx, &m->set, LENGTH, CANDIDATES, &m->rounds),
                     KITH_OK);
    m->rounds.seed = 5;
    m->rounds.split = split;
    assert_int_equal(kin_graph_fill_graph(&m->rounds, &m->request, m->owner), KITH_OK);
    m->before = malloc(words_bytes(m));
    m->aside = malloc(words_bytes(m));
    memcpy(m->before, m->rounds.lists.words, words_bytes(m));
    kin_graph_halves_cut(&m->rounds.lists, m->aside);
}

static void merging_free(merging *m)
{
    free(m->aside);
    free(m->before);
    free(m->owner);
    kin_graph_rounds_free(&m->rounds);
    kin_graph_points_free(m->ctx, &m->set);
    kin_prepared_free(m->ctx, &m->prepared);
    test_answer_free(&m->graphs[1]);
    test_answer_free(&m->graphs[0]);
    test_mixture_free(&m->points);
    kith_ctx_free(m->ctx);
}

static int32_t entries_of(const uint64_t *list)
{
    int32_t count = 0;
    while (count < LENGTH && list[count] != KIN_GRAPH_EMPTY) {
        count += 1;
    }
    return count;
}

static bool is_below(const merging *m, uint32_t position)
{
    return (int64_t)m->set.ids[position] < m->request.split;
}

/* ---- The first step -------------------------------------------------------------------------- */

static bool list_has(const uint64_t *list, uint64_t word)
{
    for (int32_t i = 0; i < LENGTH; i++) {
        if (list[i] == word) {
            return true;
        }
    }
    return false;
}

/* The nearer half is there as it was, all else is new, and of the other set. */
static int32_t check_first(const merging *m, int64_t p)
{
    const uint64_t *before = m->before + p * LENGTH;
    const uint64_t *list = kin_graph_list(&m->rounds.lists, p);
    const uint64_t *aside = m->aside + p * kin_graph_halves(LENGTH);
    const int32_t count = entries_of(before);
    const int32_t kept = count - count / 2;
    const int32_t now = entries_of(list);
    assert_true(test_list_is_sound(&m->rounds.lists, p));
    for (int32_t i = 0; i < kept; i++) {
        assert_int_equal(kin_graph_is_new(before[i]), 0);
        assert_true(list_has(list, before[i]));
    }
    for (int32_t i = 0; i < kin_graph_halves(LENGTH); i++) {
        assert_true(aside[i] == (kept + i < count ? before[kept + i] : KIN_GRAPH_EMPTY));
    }
    int32_t drawn = 0;
    for (int32_t i = 0; i < now; i++) {
        const uint32_t other = kin_graph_position(list[i]);
        drawn += (int32_t)kin_graph_is_new(list[i]);
        assert_true(kin_graph_is_new(list[i]) == 0 ||
                    is_below(m, other) != is_below(m, (uint32_t)p));
    }
    assert_int_equal(now, kept + drawn);
    return drawn;
}

static void first_step(void **state)
{
    (void)state;
    static const int64_t splits[] = {600, 7, ROWS - 5};
    for (int s = 0; s < 6; s += test_is_slow_build() ? 3 : 1) {
        merging m;
        merging_make(&m, s % 2 == 0 ? KITH_EUCLIDEAN : KITH_MANHATTAN, splits[s / 2],
                     s < 4 ? K : LENGTH + 5);
        assert_int_equal(kin_graph_fill_across(&m.rounds, &m.request, m.owner), KITH_OK);
        int64_t drawn = 0;
        int64_t few = 0;
        for (int64_t p = 0; p < m.rounds.lists.points; p++) {
            const int32_t here = check_first(&m, p);
            drawn += here;
            few += here == 0;
        }
        /* All of a small set, those that stand in both left out; else as many as places, less
         * draws that met. */
        assert_true(few <= m.rounds.lists.points / 20);
        assert_true(splits[s / 2] != 600 || drawn > 10 * m.rounds.lists.points);
        merging_free(&m);
    }
    printf("the first step: nearer halves as they were, the rest new and of the other set\n");
}

/* ---- A meeting ------------------------------------------------------------------------------- */

/* Offers of all pairs by plain loops. */
typedef struct plain {
    const merging *m;
    kin_graph_lists lists; /* with offers of its own */
    kin_graph_join *matcher;
    const kin_graph_joined *meeting;
    uint64_t least[2][4 * CANDIDATES]; /* among NEW, among OLD */
} plain;

static void find(plain *p, int32_t to, int32_t other)
{
    const kin_graph_joined *j = p->meeting;
    uint32_t order;
    kin_graph_join_one(p->matcher, j->positions[to], &j->positions[other], 1, &order);
    const uint64_t word = kin_graph_word(order, j->positions[other], 1);
    uint64_t *least = &p->least[other < j->new_count ? 0 : 1][to];
    if (p->m->rounds.all) {
        kin_graph_list_offer(&p->lists, j->positions[to], word, p->m->rounds.salt);
    } else {
        *least = word < *least ? word : *least;
    }
}

static void meet_plainly(plain *p)
{
    const kin_graph_joined *j = p->meeting;
    const int32_t count = j->new_count + j->old_count;
    memset(p->least, 0xff, sizeof p->least);
    for (int32_t a = 0; a < j->new_count; a++) {
        for (int32_t b = a + 1; b < count; b++) {
            if (is_below(p->m, j->positions[a]) != is_below(p->m, j->positions[b])) {
                find(p, a, b);
                find(p, b, a);
            }
        }
    }
    for (int32_t i = 0; i < 2 * count; i++) {
        if (p->least[i % 2][i / 2] != KIN_GRAPH_EMPTY) {
            kin_graph_list_offer(&p->lists, j->positions[i / 2], p->least[i % 2][i / 2],
                                 p->m->rounds.salt);
        }
    }
}

static void draw_meeting(const merging *m, kin_graph_joined *j, uint64_t *seed)
{
    const int32_t most = 2 * CANDIDATES;
    const int32_t news = (int32_t)(test_uniform(seed) * (most + 1));
    const int32_t olds = (int32_t)(test_uniform(seed) * (most + 1));
    int32_t made = 0;
    while (made < news + olds) {
        const uint32_t one = (uint32_t)(test_uniform(seed) * (double)m->rounds.lists.points);
        bool again = false;
        for (int32_t i = 0; i < made; i++) {
            again |= j->positions[i] == one;
        }
        j->positions[made] = one;
        made += again ? 0 : 1;
    }
    j->new_count = news;
    j->old_count = olds;
}

static void meetings(kith_metric metric, bool all)
{
    const int some = test_is_slow_build() ? 20 : 200;
    merging m;
    uint64_t seed = 29;
    kin_graph_joined joined = {.positions = malloc(4 * CANDIDATES * sizeof(uint32_t))};
    merging_make(&m, metric, 600, K);
    assert_int_equal(kin_graph_fill_across(&m.rounds, &m.request, m.owner), KITH_OK);
    m.rounds.all = all;
    const size_t slots = (size_t)m.rounds.lists.points * (size_t)m.rounds.lists.slots;
    _Atomic uint64_t *offers = malloc(slots * sizeof *offers);
    plain p = {.m = &m, .lists = m.rounds.lists, .meeting = &joined};
    p.lists.offers = offers;
    p.matcher = &m.rounds.workers[1].matcher;
    memset(offers, 0xff, slots * sizeof *offers);
    for (int i = 0; i < some; i++) {
        draw_meeting(&m, &joined, &seed);
        m.rounds.salt = (uint64_t)i;
        if (joined.new_count > 0) {
            assert_int_equal(kin_graph_meet_across(&m.rounds, &m.rounds.workers[0], &joined),
                             KITH_OK);
            meet_plainly(&p);
        }
        assert_memory_equal(offers, m.rounds.lists.offers, slots * sizeof *offers);
    }
    free(offers);
    free(joined.positions);
    merging_free(&m);
}

static void meetings_are_plain(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_MANHATTAN};
    for (int i = 0; i < 4; i++) {
        meetings(metrics[i / 2], i % 2 == 1);
    }
    printf("meetings: the offers of plain loops over pairs of different sets, all and nearest\n");
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

/* What was put aside is there, or a full list of nearer ones. */
static void check_end(const merging *m, const uint64_t *aside)
{
    for (int64_t p = 0; p < m->rounds.lists.points; p++) {
        const uint64_t *list = kin_graph_list(&m->rounds.lists, p);
        assert_true(test_list_is_sound(&m->rounds.lists, p));
        for (int32_t i = 0; i < kin_graph_halves(LENGTH); i++) {
            const uint64_t word = aside[p * kin_graph_halves(LENGTH) + i];
            assert_true(word == KIN_GRAPH_EMPTY || list_has(list, word) ||
                        list_has(list, word | 1) || list[LENGTH - 1] <= word);
        }
    }
}

static void no_pair_within_a_set(void **state)
{
    (void)state;
    const int32_t most = test_is_slow_build() ? 2 : 4;
    merging m;
    merging_make(&m, KITH_CUSTOM, 600, K);
    for (int all = 0; all < 2; all++) {
        m.rounds.all = all == 1;
        assert_int_equal(kin_graph_fill_across(&m.rounds, &m.request, m.owner), KITH_OK);
        for (int32_t round = 1; round <= most; round++) {
            int64_t updates = 0;
            m.watching.watches = true;
            assert_int_equal(kin_graph_round_run(&m.rounds, round, &updates), KITH_OK);
            m.watching.watches = false;
            assert_true(updates > 0 || round == most || all == 1);
        }
    }
    assert_true(m.watching.within == 0);
    assert_true(m.watching.across > 10 * ROWS);
    uint64_t *aside = malloc(words_bytes(&m));
    memcpy(aside, m.aside, words_bytes(&m));
    assert_int_equal(kin_graph_halves_join(&m.rounds, m.aside), KITH_OK);
    check_end(&m, aside);
    printf("rounds: %lld pairs of different sets, none within a set; halves are back at the end\n",
           (long long)m.watching.across);
    free(aside);
    merging_free(&m);
}

/* ---- Public calls ---------------------------------------------------------------------------- */

static double recall_of(kith_ctx *ctx, const kith_neighbors *found, const kith_neighbors *truth)
{
    kith_recall recall;
    test_works(ctx, kith_recall_measure(ctx, found, truth, KITH_EUCLIDEAN, 0, &recall));
    return recall.recall;
}

static uint64_t held_of(kith_ctx *ctx)
{
    kith_report report = {.struct_size = (uint32_t)sizeof report};
    test_works(ctx, kith_ctx_report(ctx, &report));
    return report.peak_bytes;
}

static uint64_t planned(kith_ctx *ctx, const kith_merge_sets *sets,
                        const kith_descent_params *params)
{
    kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
    const kith_search_params search = test_descends(params, NULL);
    test_works(ctx, kith_plan_merge(ctx, sets, &search, &plan));
    return plan.state_bytes;
}

static void merges(void **state)
{
    (void)state;
    enum { MANY = 9600, FIRST = 3600 };
    kith_ctx *ctx = test_descent_ctx(2);
    kith_matrix points = points_of(MANY, 16, 60);
    const kith_matrix part[] = {test_part_of(&points, 0, FIRST),
                                test_part_of(&points, FIRST, MANY - FIRST)};
    kith_neighbors truth = test_answer_exact(ctx, &points, KITH_EUCLIDEAN, K, 0);
    kith_neighbors one = test_answer_exact(ctx, &part[0], KITH_EUCLIDEAN, 2 * K, 0);
    kith_neighbors two = test_answer_exact(ctx, &part[1], KITH_EUCLIDEAN, K, 0);
    kith_neighbors first = test_answer_make(MANY, K);
    kith_neighbors raw = test_answer_make(MANY, K);
    kith_descent_params params = test_descent_params(K);
    kith_descent_report report = {.struct_size = (uint32_t)sizeof report};
    kith_descent_report of_raw = {.struct_size = (uint32_t)sizeof of_raw};
    const kith_merge_sets sets = {&points, FIRST, &one, &two};
    params.start = KITH_START_RANDOM;
    test_works(ctx, test_descend(ctx, &points, &params, &raw, &of_raw));
    params.start = KITH_START_GGM;
    test_works(ctx, test_merge_descending(ctx, &sets, &params, &first, &report));
    assert_true(held_of(ctx) <= planned(ctx, &sets, &params));
    const double merged = recall_of(ctx, &first, &truth);
    printf("    merged %.4f with %.0f distances a row, a raw build %.4f with %.0f\n", merged,
           report.evaluations / MANY, recall_of(ctx, &raw, &truth), of_raw.evaluations / MANY);
    assert_int_equal(report.start, KITH_START_GGM);
    assert_int_equal(report.exact, 0);
    assert_int_equal(report.round_count, report.rounds + 2);
    assert_true(merged >= 0.98);
    assert_true(report.evaluations < 0.7 * of_raw.evaluations);
    assert_true(fabs(merged - report.recall.recall) < 0.02);
    params.rounds = 2;
    params.sample = -1;
    test_works(ctx, test_merge_descending(ctx, &sets, &params, &first, NULL));
    for (int32_t threads = 1; threads <= 8; threads += test_is_sanitized_build() ? 7 : 1) {
        kith_ctx *other = test_descent_ctx(threads);
        kith_neighbors again = test_answer_make(MANY, K);
        test_works(other, test_merge_descending(other, &sets, &params, &again, NULL));
        assert_true(test_answers_equal(&first, &again));
        test_answer_free(&again);
        kith_ctx_free(other);
    }
    printf("merged as published: recall, and the same bytes with 1 to 8 threads\n");
    test_answer_free(&raw);
    test_answer_free(&first);
    test_answer_free(&two);
    test_answer_free(&one);
    test_answer_free(&truth);
    test_mixture_free(&points);
    kith_ctx_free(ctx);
}

static void mistakes(void **state)
{
    (void)state;
    kith_ctx *ctx = test_descent_ctx(2);
    kith_matrix points = points_of(ROWS, COLS, 12);
    kith_neighbors one = test_answer_exact(ctx, &points, KITH_EUCLIDEAN, K, 0);
    kith_neighbors out = test_answer_make(ROWS, K);
    kith_descent_params params = test_descent_params(K);
    params.start = KITH_START_GGM;
    test_fails(ctx, test_descend(ctx, &points, &params, &out, NULL), KITH_E_ARGUMENT,
               "merges two graphs");
    const kith_merge_sets alone = {&points, ROWS, &one, NULL};
    test_works(ctx, test_merge_descending(ctx, &alone, &params, &out, NULL));
    params.start_share = 0.5;
    test_fails(ctx, test_merge_descending(ctx, &alone, &params, &out, NULL), KITH_E_ARGUMENT,
               "start_share");
    test_answer_free(&out);
    test_answer_free(&one);
    test_mixture_free(&points);
    kith_ctx_free(ctx);
    printf("mistakes are named, and a set alone has its graph\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_step),
                                       cmocka_unit_test(meetings_are_plain),
                                       cmocka_unit_test(no_pair_within_a_set),
                                       cmocka_unit_test(merges), cmocka_unit_test(mistakes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
