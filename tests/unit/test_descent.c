/* SPDX-License-Identifier: Apache-2.0
 * NN-Descent on the processor, inside: lists that are sound after every round, samples that are
 * what they are said to be, the same bytes with any number of threads, judges, memory that runs
 * out, calls that are stopped. Lists by themselves: test_descent_lists.c; what it finds:
 * test_descent_recall.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_size.h"
#include "exact/exact_search.h"
#include "graph/graph_start.h"
#include "screen/screen_corpus.h"
#include "support/support_answers.h"
#include "support/support_descents.h"
#include "support/support_faulty.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Fewer are solved exactly (graph_descend.c), where there is a screen. */
enum { ROWS = 8500, COLS = 8 };

/* ---- Rounds --------------------------------------------------------------------------------- */

typedef struct descent {
    kith_ctx *ctx;
    test_rows rows;
    kin_prepared prepared;
    kin_graph_points points;
    kin_graph_rounds rounds;
} descent;

/* Parts of it point to each other: it stays where it was begun. */
static void descent_begin(descent *d, int32_t threads, kith_metric metric, int32_t candidates,
                          bool all)
{
    *d = (descent){.ctx = test_descent_ctx(threads),
                   .rows = test_descent_rows(KITH_F32, 2000, COLS, SHAPE_CLUSTERS, false)};
    const kin_distance distance = test_descent_request(d->ctx, &d->rows, metric, 1).distance;
    assert_int_equal(
        kin_prepare_rows(d->ctx, &d->rows.matrix, &distance, "points", 0, &d->prepared), KITH_OK);
    if (kin_is_screened(&distance)) {
        assert_int_equal(kin_prepare_corpus(d->ctx, false, 10, &d->prepared), KITH_OK);
    }
    assert_int_equal(kin_graph_points_make(d->ctx, &d->prepared, &d->points), KITH_OK);
    assert_int_equal(kin_graph_rounds_make(d->ctx, &d->points, 24, candidates, &d->rounds),
                     KITH_OK);
    d->rounds.seed = 7;
    d->rounds.all = all;
    assert_int_equal(kin_graph_fill_random(&d->rounds, 24, false), KITH_OK);
}

static void descent_free(descent *d)
{
    kin_graph_rounds_free(&d->rounds);
    kin_graph_points_free(d->ctx, &d->points);
    kin_prepared_free(d->ctx, &d->prepared);
    test_rows_free(&d->rows);
    kith_ctx_free(d->ctx);
}

static bool is_forward(const descent *d, uint32_t position, uint32_t sample, uint32_t is_new)
{
    const uint64_t *list = kin_graph_list(&d->rounds.lists, position);
    int32_t left = d->rounds.samples.most;
    for (int32_t i = 0; i < d->rounds.lists.length && left > 0; i++) {
        if (list[i] == KIN_GRAPH_EMPTY || kin_graph_is_new(list[i]) != is_new) {
            continue;
        }
        if (kin_graph_position(list[i]) == sample) {
            return true;
        }
        left -= 1;
    }
    return false;
}

/* Samples of a point after all have told: of each, whether it is forward or reverse of its kind. */
static int64_t check_meeting(const descent *d, const kin_graph_joined *m, uint32_t position)
{
    int64_t reverse = 0;
    const int32_t count = m->new_count + m->old_count;
    const int32_t most = d->rounds.samples.most;
    assert_true(m->new_count <= 2 * most && m->old_count <= 2 * most);
    for (int32_t i = 0; i < count; i++) {
        const uint32_t sample = m->positions[i];
        const uint32_t is_new = i < m->new_count ? 1u : 0u;
        assert_true(sample != position && sample < d->rounds.lists.points);
        const bool forward = is_forward(d, position, sample, is_new);
        assert_true(forward || is_forward(d, sample, position, is_new));
        reverse += forward ? 0 : 1;
        for (int32_t j = 0; j < i; j++) {
            assert_true(m->positions[j] != sample);
        }
    }
    return reverse;
}

static void samples_are_forward_and_reverse(void **state)
{
    (void)state;
    descent d;
    descent_begin(&d, 1, KITH_EUCLIDEAN, 5, false);
    kin_graph_rounds *r = &d.rounds;
    int64_t reverse = 0;
    int64_t updates = 0;
    for (int32_t round = 1; round <= 3; round++) {
        const uint64_t salt = 99 + (uint64_t)round;
        kin_graph_samples_clear(&r->samples, 0, r->lists.points);
        for (int64_t p = 0; p < r->lists.points; p++) {
            kin_graph_samples_tell(&r->samples, &r->lists, (uint32_t)p, salt);
        }
        for (int64_t p = 0; p < r->lists.points; p++) {
            kin_graph_joined *m = &r->workers[0].meetings[0];
            kin_graph_samples_meet(&r->samples, &r->lists, (uint32_t)p, salt, &r->workers[0].seen,
                                   m);
            reverse += check_meeting(&d, m, (uint32_t)p);
        }
        assert_int_equal(kin_graph_round_run(r, round, &updates), KITH_OK);
    }
    assert_true(reverse > 3 * r->lists.points); /* of at most ten a point and round */
    descent_free(&d);
    printf("samples are distinct, forward or reverse; %lld reverse ones\n", (long long)reverse);
}

static void lists_stay_sound(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_MANHATTAN, KITH_COSINE};
    int64_t checked = 0;
    for (int i = 0; i < 6; i++) {
        descent d;
        descent_begin(&d, 2, metrics[i / 2], 6, i % 2 == 1);
        int64_t updates = 1;
        for (int32_t round = 0; round <= 6; round++) {
            if (round > 0) {
                assert_int_equal(kin_graph_round_run(&d.rounds, round, &updates), KITH_OK);
            }
            for (int64_t p = 0; p < d.rounds.lists.points; p++) {
                assert_true(test_list_is_sound(&d.rounds.lists, p));
                assert_int_equal(kin_graph_list_count(&d.rounds.lists, p), 24);
                checked += 1;
            }
        }
        for (int64_t i_slot = 0; i_slot < d.rounds.lists.points * d.rounds.lists.slots; i_slot++) {
            assert_true(atomic_load(&d.rounds.lists.offers[i_slot]) == KIN_GRAPH_EMPTY);
        }
        descent_free(&d);
    }
    printf("%lld lists after rounds: ascending, distinct, full, never the own position\n",
           (long long)checked);
}

/* ---- The same bytes ------------------------------------------------------------------------- */

static void threads_change_nothing(void **state)
{
    (void)state;
    static const int32_t threads[] = {1, 2, 5};
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_COSINE, KITH_MANHATTAN};
    int cases = 0;
    for (int c = 0; c < 8; c++) {
        test_rows rows =
            test_descent_rows(c % 2 == 0 ? KITH_F32 : KITH_U8, ROWS, 20, SHAPE_GAUSS, false);
        kith_neighbors first = {0};
        double evaluations = 0.0;
        for (int t = 0; t < 3; t += test_is_sanitized_build() ? 2 : 1) { /* 1 and 5, then */
            kith_ctx *ctx = test_descent_ctx(threads[t]);
            kin_graph_request request = test_descent_request(ctx, &rows, metrics[c / 2 % 3], 10);
            request.share = 0.05;
            request.rounds = 3;
            request.all_updates = c >= 6;
            request.seed = (uint64_t)c;
            kin_graph_outcome outcome;
            kith_neighbors answer = test_descent_solve(ctx, &rows, &request, &outcome);
            if (t == 0) {
                first = answer;
                evaluations = outcome.evaluations;
            } else {
                assert_true(test_answers_equal(&first, &answer));
                assert_true(evaluations == outcome.evaluations);
                test_answer_free(&answer);
            }
            kith_ctx_free(ctx);
            cases += 1;
        }
        test_answer_free(&first);
        test_rows_free(&rows);
        if (test_is_slow_build() && c == 2) {
            break;
        }
    }
    printf("%d descents with 1, 2 and 5 threads: same bytes, same costs\n", cases);
}

/* ---- Who judges ----------------------------------------------------------------------------- */

enum { CONTROLS = 250 /* the sample of test_descent_truth_make */, AT = 5 };

typedef struct judging {
    kith_ctx *ctx;
    kin_recall_control control;
    double kth[CONTROLS];
    double found[CONTROLS * AT];
    const test_descent_truth *truth; /* of the control points; NULL: not looked at */
    kith_metric metric;
    int calls;
    int enough_at; /* a call; 0: never */
    double last_recall;
    double last_phi;
} judging;

static kith_status judge(void *arg, const kin_graph_round *round, kin_graph_verdict *verdict)
{
    judging *j = arg;
    int64_t hits = 0;
    assert_int_equal(round->number, j->calls);
    for (int64_t i = 0; i < CONTROLS; i++) {
        const double *truth = j->truth->neighbors.distances64 + i * j->truth->neighbors.k;
        assert_true(kin_metric_distance(j->metric, j->kth[i]) == truth[AT - 1]);
        for (int64_t a = 0; a < AT; a++) {
            const double found = j->found[i * AT + a];
            assert_true(a == 0 || found >= j->found[i * AT + a - 1]);
            assert_true(kin_metric_distance(j->metric, found) >= truth[a]);
            hits += found <= j->kth[i];
        }
    }
    const double recall = (double)hits / (CONTROLS * AT);
    assert_true(recall >= j->last_recall); /* lists only get better */
    assert_true(j->calls == 0 || round->phi <= j->last_phi);
    j->last_recall = recall;
    j->last_phi = round->phi;
    j->calls += 1;
    *verdict = j->calls == j->enough_at ? KIN_GRAPH_ENOUGH : KIN_GRAPH_GO_ON;
    j->ctx->progress_ns = 0; /* the next task asks again */
    return KITH_OK;
}

static void somebody_judges(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_COSINE, KITH_MANHATTAN};
    kith_ctx *ctx = test_descent_ctx(2);
    for (int i = 0; i < 6; i++) {
        const bool few = i >= 3;
        test_rows rows =
            test_descent_rows(KITH_F32, few ? 900 : ROWS + ROWS / 4, 30, SHAPE_SPARSE, false);
        kin_graph_request request = test_descent_request(ctx, &rows, metrics[i % 3], 10);
        /* Degenerate rows and equal ones are among the control points. */
        test_descent_truth truth = test_descent_truth_make(ctx, &rows, &request);
        judging j = {.ctx = ctx, .truth = &truth, .metric = metrics[i % 3], .enough_at = 3};
        kin_graph_outcome outcome;
        assert_int_equal(truth.count, CONTROLS);
        j.control = (kin_recall_control){
            .count = CONTROLS, .ids = truth.ids, .at = AT, .kth = j.kth, .found = j.found};
        request.control = &j.control;
        request.judge = judge;
        request.judge_arg = &j;
        request.share = 0.02;
        kith_neighbors answer = test_descent_solve(ctx, &rows, &request, &outcome);
        assert_int_equal(j.calls, few ? 1 : 3);
        assert_int_equal(outcome.rounds, few ? 0 : 2);
        assert_true(outcome.exact == few);
        assert_true(!few || j.last_recall == 1.0);
        printf("  judged %s: %d times, recall at last %.4f\n", kith_metric_name(metrics[i % 3]),
               j.calls, j.last_recall);
        test_answer_free(&answer);
        test_descent_truth_free(&truth);
        test_rows_free(&rows);
    }
    kith_ctx_free(ctx);
}

/* ---- What goes wrong ------------------------------------------------------------------------ */

static double often_nan(void *arg, const void *query, const void *point, int32_t cols)
{
    atomic_long *calls = arg;
    return atomic_fetch_add(calls, 1) == 30000 ? -NAN
                                               : test_descent_manhattan(NULL, query, point, cols);
}

static void nan_is_an_error(void **state)
{
    (void)state;
    kith_ctx *ctx = test_descent_ctx(2);
    test_rows rows = test_descent_rows(KITH_F32, ROWS, 2, SHAPE_GAUSS, false);
    kin_graph_request request = test_descent_request(ctx, &rows, KITH_CUSTOM, 3);
    kin_graph_outcome outcome;
    kith_neighbors out = test_answer_make(ROWS, 3);
    atomic_long calls = 0;
    request.distance.custom = often_nan;
    request.distance.custom_arg = &calls;
    assert_int_equal(kin_graph_descend(ctx, &rows.matrix, &request, &out, &outcome), KITH_E_DATA);
    assert_non_null(strstr(kith_ctx_detail(ctx), "NaN"));
    test_answer_free(&out);
    test_rows_free(&rows);
    kith_ctx_free(ctx);
    printf("a NaN of the caller's function ends the call\n");
}

static void memory_runs_out(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_MANHATTAN};
    test_rows rows = test_descent_rows(KITH_F32, ROWS, 3, SHAPE_GAUSS, false);
    kith_neighbors out = test_answer_make(rows.matrix.rows, 2);
    long failures = 0;
    for (int m = 0; m < 2; m++) {
        test_faulty faulty = {0};
        kith_ctx *ctx = test_faulty_ctx("cpu", &faulty, 0);
        const long own = atomic_load(&faulty.blocks);
        judging j = {.ctx = ctx};
        kin_graph_request request = test_descent_request(ctx, &rows, metrics[m], 2);
        kin_graph_outcome outcome;
        j.control = (kin_recall_control){.count = 3,
                                         .ids = (const uint32_t[]){1, 7, 9},
                                         .at = 2,
                                         .kth = j.kth,
                                         .found = j.found};
        request.control = &j.control;
        request.rounds = 1;
        request.candidates = 3;
        request.list = 8;
        request.share = 0.01;
        const long step = test_is_slow_build() ? 41 : 5;
        kith_status status = KITH_E_MEMORY;
        for (long n = 1; status != KITH_OK; n += step) {
            assert_int_equal(kin_ctx_begin(ctx), KITH_OK);
            atomic_store(&faulty.asked, 0);
            faulty.fails_at = n;
            status = kin_graph_descend(ctx, &rows.matrix, &request, &out, &outcome);
            faulty.fails_at = 0;
            assert_true(status == KITH_OK || status == KITH_E_MEMORY);
            assert_int_equal(atomic_load(&faulty.blocks), own);
            failures += status != KITH_OK;
        }
        kith_ctx_free(ctx);
    }
    test_answer_free(&out);
    test_rows_free(&rows);
    printf("%ld allocations failed: said so, no leak\n", failures);
}

/* What is held stays within what was planned. */
static void plans_hold(void **state)
{
    (void)state;
    if (test_is_slow_build()) {
        skip(); /* memory alone is looked at */
    }
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_COSINE, KITH_CHEBYSHEV};
    const bool few = test_is_sanitized_build(); /* one of each metric */
    for (int i = few ? 1 : 0; i < 9; i += few ? 3 : 1) {
        kith_ctx *ctx = test_descent_ctx(1 + i % 3);
        test_rows rows = test_descent_rows(i % 2 == 0 ? KITH_F32 : KITH_U8, ROWS, 5 + i * 10,
                                           SHAPE_GAUSS, false);
        kin_graph_request request = test_descent_request(ctx, &rows, metrics[i / 3], 1 + i * 4);
        request.share = 0.02;
        request.rounds = 2;
        assert_int_equal(kin_ctx_begin(ctx), KITH_OK);
        kin_graph_outcome outcome;
        kith_neighbors answer = test_descent_solve(ctx, &rows, &request, &outcome);
        const uint64_t held = atomic_load(&ctx->peak_bytes);
        const uint64_t planned = kin_graph_bytes(
            &rows.matrix, &request, kin_prepare_unknown(&rows.matrix, &request.distance),
            ctx->threads, false);
        if (held > planned || planned > 3 * held) {
            fail_msg("%s, k %d: %llu bytes held, %llu planned", kith_metric_name(metrics[i / 3]),
                     (int)request.k, (unsigned long long)held, (unsigned long long)planned);
        }
        test_answer_free(&answer);
        test_rows_free(&rows);
        kith_ctx_free(ctx);
    }
    printf("%s descents held no more than was planned\n", few ? "three" : "nine");
}

static int stop_in(void *arg, const char *phase, double done, double total)
{
    (void)done;
    (void)total;
    return strcmp(phase, arg) == 0;
}

static kith_status ask_again(void *arg, const kin_graph_round *round, kin_graph_verdict *verdict)
{
    (void)round;
    (void)verdict;
    ((kith_ctx *)arg)->progress_ns = 0; /* else progress is asked every 50 ms at most */
    return KITH_OK;
}

static void calls_are_stopped(void **state)
{
    (void)state;
    static const char *const phases[] = {"check", "descend", "rescore"};
    test_rows rows = test_descent_rows(KITH_F32, ROWS, COLS, SHAPE_GAUSS, false);
    kith_neighbors out = test_answer_make(ROWS, 5);
    for (int i = 0; i < 3; i++) {
        char phase[16];
        kith_ctx_params params = kith_ctx_params_default();
        (void)snprintf(phase, sizeof phase, "%s", phases[i]);
        params.device = "cpu";
        params.threads = 1; /* who asks is the caller's thread */
        params.progress = stop_in;
        params.progress_arg = phase;
        kith_ctx *ctx = NULL;
        assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
        kin_graph_request request = test_descent_request(ctx, &rows, KITH_EUCLIDEAN, 5);
        kin_graph_outcome outcome;
        request.judge = ask_again;
        request.judge_arg = ctx;
        request.delta = 1e-6;             /* else a start that settled is the end */
        request.rounds = i == 2 ? -1 : 0; /* the judge's call is followed by that phase */
        assert_int_equal(kin_graph_descend(ctx, &rows.matrix, &request, &out, &outcome),
                         KITH_E_CANCELLED);
        assert_true(atomic_load(&ctx->held_bytes) == 0);
        kith_ctx_free(ctx);
    }
    test_answer_free(&out);
    test_rows_free(&rows);
    printf("a call is stopped while it checks, descends, writes\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(samples_are_forward_and_reverse),
                                       cmocka_unit_test(lists_stay_sound),
                                       cmocka_unit_test(threads_change_nothing),
                                       cmocka_unit_test(somebody_judges),
                                       cmocka_unit_test(nan_is_an_error),
                                       cmocka_unit_test(memory_runs_out),
                                       cmocka_unit_test(plans_hold),
                                       cmocka_unit_test(calls_are_stopped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
