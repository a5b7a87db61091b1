/* SPDX-License-Identifier: Apache-2.0
 * Arguments of approximate graphs: each mistake is named, with what would be right, and calls that
 * are exact refuse the method. Nothing is computed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kith/kith_cuda.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_descents.h"
#include "support/support_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 8400, COLS = 2, K = 10 };

static int make(void **state)
{
    static test_descent_fixture f;
    assert_int_equal(kith_ctx_create(NULL, &f.ctx), KITH_OK);
    f.points = test_rows_make(KITH_F32, ROWS, COLS, 0);
    f.truth = test_answer_make(ROWS, K);
    f.out = test_answer_make(ROWS, K);
    for (int64_t i = 0; i < ROWS * K; i++) {
        f.truth.ids[i] = (uint32_t)((i / K + 1 + i % K) % ROWS);
    }
    *state = &f;
    return 0;
}

static void refused(const test_descent_fixture *f, const kith_descent_params *params,
                    kith_status status, const char *text)
{
    test_fails(f->ctx, test_descend(f->ctx, &f->points.matrix, params, &f->out, NULL), status,
               text);
}

static double lazy(void *arg, const void *query, const void *point, int32_t cols)
{
    (void)arg;
    (void)query;
    (void)point;
    (void)cols;
    return 0.0;
}

typedef struct mistake {
    size_t offset;
    double value;
    char type; /* 'd' double, 'i' int32, 'l' int64 */
    const char *text;
} mistake;

#define FIELD(name) offsetof(kith_descent_params, name)

static void mistakes_are_named(void **state)
{
    static const mistake mistakes[] = {
        {FIELD(k), 0, 'l', "k is 0, must be at least 1"},
        {FIELD(k), ROWS, 'l', "k is 8400, must be at most 8399 (a point's own id does not count)"},
        {FIELD(flags), 2, 'i', "flags, pipeline or tree_height have what is of exact graphs alone"},
        {FIELD(metric), 99, 'i', "metric is 99, which is no metric"},
        {FIELD(metric), KITH_CUSTOM, 'i', "metric is custom and the function for it is NULL"},
        {FIELD(recall), 1.5, 'd', "recall is 1.5, must be 0 to 1"},
        {FIELD(recall), NAN, 'd', "recall is "},
        {FIELD(delta), -1, 'd', "delta is -1, must be 0 to 1"},
        {FIELD(start_share), 2, 'd', "start_share is 2, must be 0 to 1"},
        {FIELD(recall_at), 11, 'l', "recall_at is 11, must be 0 to k, 10"},
        {FIELD(sample), -2, 'l', "sample is -2, must be at least 1"},
        {FIELD(rounds), -2, 'i', "rounds is -2, must be at least 1"},
        {FIELD(candidates), -1, 'i', "candidates is -1, must be 1 to 1048576"},
        {FIELD(candidates), 2147483647, 'i', "candidates is 2147483647, must be 1 to 1048576"},
        {FIELD(all_updates), 2, 'i', "all_updates is 2, must be 1, -1 or 0"},
        {FIELD(list), 10, 'i', "list is 10, must be at least 11"},
        {FIELD(start), 5, 'i', "start is 5, which is no start"},
        {FIELD(start), KITH_START_GGM, 'i', "start is ggm, which merges two graphs"},
        {FIELD(start), KITH_START_GRAPH, 'i', "init is NULL (set both or none)"},
    };
    const test_descent_fixture *f = *state;
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        const mistake *m = &mistakes[i];
        kith_descent_params params = test_descent_params(K);
        unsigned char *field = (unsigned char *)&params + m->offset;
        const int32_t narrow = m->type == 'i' ? (int32_t)m->value : 0;
        const int64_t wide = m->type == 'l' ? (int64_t)m->value : 0;
        memcpy(field,
               m->type == 'd'   ? (const void *)&m->value
               : m->type == 'i' ? (const void *)&narrow
                                : (const void *)&wide,
               m->type == 'i' ? sizeof narrow : sizeof wide);
        refused(f, &params, KITH_E_ARGUMENT, m->text);
    }
    (void)printf("%zu mistakes are named\n", sizeof mistakes / sizeof mistakes[0]);
}

static void what_does_not_go_together(void **state)
{
    const test_descent_fixture *f = *state;
    kith_descent_params params = test_descent_params(K);
    params.recall = 0.9;
    params.sample = -1;
    refused(f, &params, KITH_E_ARGUMENT, "without which nobody knows the recall");
    params = test_descent_params(K);
    params.custom = lazy;
    refused(f, &params, KITH_E_ARGUMENT, "custom is set and the metric is not KITH_CUSTOM");
    params = test_descent_params(K);
    params.metric = KITH_MANHATTAN;
    params.start = KITH_START_SCREEN;
    refused(f, &params, KITH_E_ARGUMENT, "start is screen and the metric is manhattan");
    params = test_descent_params(K);
    params.start = KITH_START_RANDOM;
    params.start_share = 0.5;
    refused(f, &params, KITH_E_ARGUMENT, "the start is no screen");
    params.start_share = 0.0;
    params.init = &f->truth;
    refused(f, &params, KITH_E_ARGUMENT, "init is set and start is neither");
    params.start = KITH_START_AUTO;
    kith_neighbors init = f->truth;
    init.rows = ROWS - 1;
    params.init = &init;
    refused(f, &params, KITH_E_ARGUMENT, "init is 8399 x 10, must be a graph of 8400 rows");
    init = f->truth;
    init.ids = NULL;
    refused(f, &params, KITH_E_ARGUMENT, "init is 8400 x 10 without ids");
    uint32_t *ids = malloc(ROWS * K * sizeof *ids);
    assert_non_null(ids);
    memcpy(ids, f->truth.ids, ROWS * K * sizeof *ids);
    ids[7 * K + 3] = ROWS;
    init.ids = ids;
    refused(f, &params, KITH_E_DATA, "init has id 8400 in row 7, must be below 8400");
    free(ids);
    params = test_descent_params(K);
    params.struct_size = 0;
    refused(f, &params, KITH_E_ARGUMENT, "kith_descent_params_default()");
    params = test_descent_params(K);
    kith_descent_report report = {.struct_size = 0};
    assert_int_equal(test_descend(f->ctx, &f->points.matrix, &params, &f->out, &report),
                     KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(f->ctx), "report.struct_size is 0"));
    params.init = &f->truth;
    const kith_search_params there = test_descends(&params, NULL);
    test_fails(f->ctx, kith_cuda_graph(f->ctx, &f->points.matrix, &there, &f->out, NULL, NULL),
               KITH_E_UNSUPPORTED, "calls on device memory have none");
    params.init = NULL;
    assert_int_not_equal(kith_cuda_graph(f->ctx, &f->points.matrix, &there, &f->out, NULL, NULL),
                         KITH_OK);
    test_fails(f->ctx, test_descend(f->ctx, &f->points.matrix, &params, NULL, NULL),
               KITH_E_ARGUMENT, "out is NULL");
    (void)printf("what does not go together is refused with the reason\n");
}

static void exact_calls_refuse(void **state)
{
    const test_descent_fixture *f = *state;
    kith_search_params params = kith_search_params_default();
    kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
    kith_index *corpus = NULL;
    kith_ranges *ranges = NULL;
    params.k = K;
    params.method = KITH_METHOD_DESCENT;
    kith_index_params made = kith_index_params_default();
    made.method = KITH_METHOD_DESCENT;
    kith_radius_params within = kith_radius_params_default();
    within.method = KITH_METHOD_DESCENT;
    within.radius = 0.1;
    const kith_matrix *points = &f->points.matrix;
    for (int call = 1; call < 6; call++) {
        const kith_status status =
            call == 1   ? kith_search(f->ctx, points, points, &params, &f->out, NULL)
            : call == 2 ? kith_knn_both(f->ctx, points, points, &params, &f->out, &f->out)
            : call == 3 ? kith_plan_search(f->ctx, points, points, &params, &plan)
            : call == 4 ? kith_index_create(f->ctx, points, &made, &corpus)
                        : kith_radius(f->ctx, points, NULL, &within, &ranges);
        const char *detail = kith_ctx_detail(f->ctx);
        if (status != KITH_E_ARGUMENT ||
            strstr(detail, "use kith_graph, or another method") == NULL) {
            fail_msg("call %d: %s", call, detail);
        }
    }
    (void)printf("exact calls refuse the method descent\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(what_does_not_go_together),
        cmocka_unit_test(exact_calls_refuse),
    };
    return cmocka_run_group_tests(tests, make, test_descent_drop);
}
