/* SPDX-License-Identifier: Apache-2.0
 * Both directions of a search on a GPU from one product: the bytes of the processor's, for sets of
 * all shapes and sizes, also where one set is rounded in units that are not its own, where a little
 * memory makes it two searches, and where pairs are asked for twice. And graphs whose points look
 * for those of other groups, which are such sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "engine/engine_filter.h"
#include "exact/exact_search_gpu.h"
#include "gpu/gpu_module.h"
#include "kith/kith_cuda.h"
#include "kith/kith_papers.h"
#include "support/support_answers.h"
#include "support/support_caller.h"
#include "support/support_calls.h"
#include "support/support_gpu.h"
#include "support/support_rows.h"
#include "support/support_screen.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLS = 40, K_FORTH = 6, K_BACK = 11 };

typedef struct both {
    kith_dtype dtype;
    kith_metric metric;
    test_shape shapes[2];
    int64_t rows[2];
    double away; /* where the second set lies, half as large as the first; 0: as its shape says */
    uint32_t flags;
    uint64_t memory;
} both;

/* ---- A device that watches ------------------------------------------------------------------- */

static const kin_screen_gpu_kernels *watched;
static int64_t two_sided;
static char screen[16]; /* what the last job was screened in */
/* The gates that were made last, of either side, and the loss that they allow for. */
static struct {
    const kin_screen_gpu_word *gates;
    double lost;
} made[2];

static int watch_tighten(kin_gpu_stream *stream, const kin_screen_gpu_tighten *job)
{
    if (job->gates != NULL) {
        const int own = made[0].gates == job->gates || made[0].gates == NULL ? 0 : 1;
        made[own].gates = job->gates;
        made[own].lost = job->set.worst.lost;
    }
    return watched->tighten(stream, job);
}

/* Gates of columns allow for what the rows have lost that meet them (kin_gate_set_far). */
static int watch_screen(kin_gpu_stream *stream, const kin_screen_gpu_screen *job)
{
    if (job->col_lists.words != NULL) {
        const int own = made[0].gates == job->gates ? 0 : 1;
        assert_ptr_equal(made[own].gates, job->gates);
        assert_true(made[own].lost >= job->rows.worst.lost);
        two_sided += 1;
    }
    return watched->screen(stream, job);
}

/* ---- One case -------------------------------------------------------------------------------- */

static test_rows rows_of(const both *b, int side)
{
    const test_rows rows = test_rows_make(b->dtype, b->rows[side], COLS, 0);
    uint64_t seed = (uint64_t)side * 7 + 5;
    test_shape_fill(&rows, b->shapes[side], false, &seed);
    if (side == 1 && b->away > 0.0) {
        for (int64_t i = 0; i < b->rows[1]; i++) {
            for (int64_t c = 0; c < COLS; c++) {
                test_rows_set(&rows, i, c, b->away + 0.5 * test_gauss(&seed));
            }
        }
    }
    return rows;
}

/* A GPU whose launches are watched. */
typedef struct watching {
    kith_ctx *ctx;
    kin_gpu *gpu;
    const kin_gpu_module *module; /* its own */
    kin_gpu_module watch;
    kin_screen_gpu_kernels kernels;
} watching;

static void watching_begin(watching *w, uint64_t memory)
{
    w->ctx = test_gpu_ctx(2, memory);
    assert_int_equal(kin_gpu_open(w->ctx, 0, memory, &w->gpu), KITH_OK);
    w->module = w->gpu->module;
    w->watch = *w->module;
    w->kernels = *w->module->screen;
    watched = w->module->screen;
    two_sided = 0;
    memset(made, 0, sizeof made);
    w->kernels.screen = watch_screen;
    w->kernels.tighten = watch_tighten;
    w->watch.screen = &w->kernels;
    w->gpu->module = &w->watch;
    assert_int_equal(kin_ctx_begin(w->ctx), KITH_OK);
}

static void watching_end(watching *w)
{
    (void)snprintf(screen, sizeof screen, "%s", w->ctx->report.screen);
    w->gpu->module = w->module;
    kin_gpu_close(w->ctx, w->gpu);
    kith_ctx_free(w->ctx);
}

static void solve(const both *b, const test_rows *sets, kith_neighbors *out)
{
    watching w;
    watching_begin(&w, b->memory);
    kith_ctx *ctx = w.ctx;
    const kin_request forth = {.distance = {.metric = b->metric, .cols = COLS, .isa = ctx->isa},
                               .k = K_FORTH,
                               .flags = b->flags};
    kin_request back = forth;
    back.k = K_BACK;
    const kin_exact_gpu_query ab = {&sets[0].matrix, "a", &forth, 0, &out[0]};
    const kin_exact_gpu_query ba = {&sets[1].matrix, "b", &back, 0, &out[1]};
    assert_int_equal(kin_exact_gpu_both(ctx, w.gpu, &ab, &ba), KITH_OK);
    watching_end(&w);
}

/* Screens of both ends. */
static int64_t check(kith_ctx *cpu, const both *b)
{
    test_rows sets[] = {rows_of(b, 0), rows_of(b, 1)};
    kith_neighbors out[] = {test_answer_make(b->rows[0], K_FORTH),
                            test_answer_make(b->rows[1], K_BACK)};
    solve(b, sets, out);
    for (int side = 0; side < 2; side++) {
        kith_search_params params = kith_search_params_default();
        params.metric = b->metric;
        params.k = side == 0 ? K_FORTH : K_BACK;
        kith_neighbors truth = test_answer_make(b->rows[side], params.k);
        test_works(cpu, kith_search(cpu, &sets[1 - side].matrix, &sets[side].matrix, &params,
                                    &truth, NULL));
        assert_true(test_answers_equal(&truth, &out[side]));
        test_answer_free(&truth);
        test_answer_free(&out[side]);
    }
    test_rows_free(&sets[0]);
    test_rows_free(&sets[1]);
    return two_sided;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void same_bytes(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_COSINE, KITH_INNER_PRODUCT,
                                          KITH_SQEUCLIDEAN, KITH_CORRELATION};
    static const kith_dtype dtypes[] = {KITH_F32, KITH_U8, KITH_F16, KITH_F64, KITH_I8};
    static const int64_t sizes[][2] = {{5200, 1500}, {1100, 4700}, {4500, 4600}, {300, 2000}};
    kith_ctx *cpu = test_cpu_ctx();
    int cases = 0;
    int at_once = 0;
    for (int shape = 0; shape < SHAPE_COUNT; shape += test_is_slow_build() ? 5 : 1) {
        for (int i = 0; i < 5; i += test_is_slow_build() ? 3 : 1) {
            const int n = shape * 5 + i;
            const both b = {
                .dtype = dtypes[(shape + i) % 5],
                .metric = metrics[i],
                .shapes = {(test_shape)shape, n % 4 == 3 ? SHAPE_CLUSTERS : (test_shape)shape},
                .rows = {sizes[n % 4][0], sizes[n % 4][1]}};
            at_once += check(cpu, &b) > 0;
            cases++;
        }
    }
    assert_true(at_once > cases / 3);
    printf("%d pairs of sets, %d by one product: the bytes of two searches by the processor\n",
           cases, at_once);
    kith_ctx_free(cpu);
}

/* Sets that lie so far apart that no units serve both are searched one by one. */
static void far_apart(void **state)
{
    (void)state;
    static const double away[] = {0.5, 2.0, 1e3, 1e6};
    kith_ctx *cpu = test_cpu_ctx();
    int at_once = 0;
    int cases = 0;
    for (int i = 0; i < 4; i += test_is_slow_build() ? 3 : 1) {
        const both b = {.dtype = KITH_F32,
                        .metric = KITH_EUCLIDEAN,
                        .shapes = {SHAPE_GAUSS, SHAPE_GAUSS},
                        .rows = {2200, 1100},
                        .away = away[i]};
        at_once += check(cpu, &b) > 0;
        cases++;
    }
    assert_true(at_once > 0 && at_once < cases);
    printf("%d sets, 0.5 to 1e6 from a second one: the same bytes, %d by one product\n", cases,
           at_once);
    kith_ctx_free(cpu);
}

static void asked_twice_or_without_room(void **state)
{
    (void)state;
    kith_ctx *cpu = test_cpu_ctx();
    both b = {.dtype = KITH_F32,
              .metric = KITH_EUCLIDEAN,
              .shapes = {SHAPE_CLUSTERS, SHAPE_CLUSTERS},
              .rows = {4200, 5000}};
    assert_true(check(cpu, &b) > 0);
    b.flags = KITH_NO_SKIP;
    assert_true(check(cpu, &b) > 0);
    b.flags = KITH_NO_SYMMETRY;
    assert_int_equal(check(cpu, &b), 0);
    b.flags = 0;
    for (b.memory = 16 << 20; b.memory >= 2 << 20; b.memory /= test_is_slow_build() ? 4 : 2) {
        (void)check(cpu, &b);
    }
    printf("without tiles left out, with pairs asked for twice, in 16 to 2 MiB: the same bytes\n");
    kith_ctx_free(cpu);
}

/* Bytes on both sides, of which one loses nothing and the other one half a unit of every column:
 * each of some host rows has a shell of guests that are all as far away, so that a gate which left
 * out what guests have lost would leave out guests. */
static void bytes_that_lose(void **state)
{
    enum { ROWS = 52000, CENTRES = 4000, SHELL = ROWS / CENTRES };
    (void)state;
    if (test_is_slow_build()) {
        skip();
    }
    kith_ctx *cpu = test_cpu_ctx();
    const both b = {.dtype = KITH_F32, .metric = KITH_EUCLIDEAN, .rows = {ROWS, ROWS}};
    test_rows sets[] = {test_rows_make(KITH_F32, ROWS, COLS, 0),
                        test_rows_make(KITH_F32, ROWS, COLS, 0)};
    uint64_t seed = 3;
    for (int64_t i = 0; i < ROWS; i++) { /* pairs of opposite rows: their mean is zero */
        for (int64_t c = 0; c < COLS; c++) {
            const int64_t most = i / 2 < CENTRES ? 125 : 127;
            const double x =
                (double)kin_random_below(&seed, (uint64_t)(2 * most + 1)) - (double)most;
            if (i % 2 == 0) {
                test_rows_set(&sets[1], i, c, x);
                test_rows_set(&sets[1], i + 1, c, -x);
            }
        }
    }
    test_rows_set(&sets[1], ROWS - 2, 0, 127.0);
    test_rows_set(&sets[1], ROWS - 1, 0, -127.0);
    for (int64_t i = 0; i < ROWS; i++) {
        test_rows_copy(&sets[0], i, &sets[1], i / SHELL * 2);
        for (int64_t c = 0; c < COLS; c++) {
            const float *centre = (const float *)sets[1].matrix.data + i / SHELL * 2 * COLS;
            const double off = i % SHELL == 0 || kin_random_below(&seed, 2) == 0 ? 0.49 : -0.49;
            test_rows_set(&sets[0], i, c, (double)centre[c] + off);
        }
    }
    kith_neighbors out[] = {test_answer_make(ROWS, K_FORTH), test_answer_make(ROWS, K_BACK)};
    solve(&b, sets, out);
    assert_true(two_sided > 0);
    for (int side = 0; side < 2; side++) {
        kith_search_params params = kith_search_params_default();
        params.k = side == 0 ? K_FORTH : K_BACK;
        kith_neighbors truth = test_answer_make(ROWS, params.k);
        test_works(cpu, kith_search(cpu, &sets[1 - side].matrix, &sets[side].matrix, &params,
                                    &truth, NULL));
        assert_true(test_answers_equal(&truth, &out[side]));
        test_answer_free(&truth);
        test_answer_free(&out[side]);
    }
    printf("%d x %d rows, screened as %s, whose guests lose half a unit a column: the same bytes\n",
           ROWS, ROWS, screen);
    test_rows_free(&sets[0]);
    test_rows_free(&sets[1]);
    kith_ctx_free(cpu);
}

/* ---- Other groups of a graph ----------------------------------------------------------------- */

typedef struct grouped {
    kith_dtype dtype;
    kith_metric metric;
    test_shape shape;
    int64_t rows;
    int64_t groups;
    int64_t k;
    uint32_t flags;
    uint64_t memory;
    int64_t copies; /* of a point */
    bool chosen;    /* by the engine, and not asked for */
} grouped;

/* In runs, in turns, in turns but for a few points that are a group of their own, and at random,
 * the first group with a third of all beside its own. */
static void draw_groups(const grouped *g, uint64_t *seed, int64_t *numbers, uint32_t *index)
{
    const uint64_t kind = kin_random_below(seed, 4);
    for (int64_t i = 0; i < g->rows; i++) {
        const bool first = kin_random_below(seed, 3) == 0;
        const int64_t drawn = (int64_t)kin_random_below(seed, (uint64_t)g->groups);
        index[i] = (uint32_t)(kind == 0   ? i * g->groups / g->rows
                              : kind == 1 ? i % g->groups
                              : kind == 2 ? (i % 997 == 5 ? g->groups - 1 : i % (g->groups - 1))
                                          : drawn * (first ? 0 : 1));
        numbers[i] = index[i] * (g->groups % 2 == 0 ? 3 : INT64_C(1000000007));
    }
}

static kith_status cross(watching *w, const grouped *g, const kin_filter_job *job,
                         const uint32_t *index, const kith_neighbors *out, bool *done)
{
    const kin_filter_place where = {.gpu = w->gpu, .out = out};
    const kin_exact_gpu_query query = {.name = "points", .request = &job->request, .out = out};
    const kin_exact_gpu_groups groups = {.of_rows = index,
                                         .rows = g->rows,
                                         .queries = g->rows,
                                         .groups = g->groups + 3, /* of which some have no points */
                                         .others = true};
    const kin_exact_gpu_grouping grouping = {.source = &groups};
    const kin_exact_gpu_picks picks = {
        .corpus = &job->corpus, .query = &query, .grouping = &grouping};
    return g->chosen ? kin_engine_filter_on_gpu(w->ctx, job, &where, done)
                     : kin_exact_gpu_across(w->ctx, w->gpu, &picks, done);
}

/* Whether it was one job of the engine; then its bytes are the processor's. */
static bool check_groups(kith_ctx *cpu, const grouped *g, uint64_t *seed)
{
    test_rows points = test_rows_make(g->dtype, g->rows, COLS, 0);
    test_shape_fill(&points, g->shape, false, seed);
    for (int64_t i = 0; i < g->copies; i++) {
        test_rows_copy(&points, (int64_t)kin_random_below(seed, (uint64_t)g->rows), &points, 17);
    }
    int64_t *numbers = malloc((size_t)g->rows * sizeof *numbers);
    uint32_t *index = malloc((size_t)g->rows * sizeof *index);
    assert_non_null(numbers);
    assert_non_null(index);
    draw_groups(g, seed, numbers, index);
    kith_filter filter = kith_filter_default();
    filter.rule = KITH_RULE_OTHER;
    filter.groups = numbers;
    kith_neighbors out = test_answer_make(g->rows, g->k);
    kith_neighbors truth = test_answer_make(g->rows, g->k);
    watching w;
    watching_begin(&w, g->memory);
    const kin_filter_job job = {
        .corpus = points.matrix,
        .queries = points.matrix,
        .graph = true,
        .request = {.distance = {.metric = g->metric, .cols = COLS, .isa = w.ctx->isa},
                    .k = g->k,
                    .flags = g->flags,
                    .method = KITH_METHOD_EXACT},
        .filter = filter,
        .lists = 1,
        .threads = 2};
    bool done = false;
    const kith_status status = cross(&w, g, &job, index, &out, &done);
    assert_int_equal(status, g->memory == 0 ? KITH_OK : KITH_E_DEVICE_MEMORY);
    done = done && status == KITH_OK;
    watching_end(&w);
    if (done) {
        kith_search_params params = kith_search_params_default();
        params.metric = g->metric;
        params.k = g->k;
        params.filter = &filter;
        test_works(cpu, kith_graph(cpu, &points.matrix, &params, &truth, NULL));
        assert_true(test_answers_equal(&truth, &out));
        assert_true(two_sided > 0);
    }
    test_answer_free(&truth);
    test_answer_free(&out);
    free(index);
    free(numbers);
    test_rows_free(&points);
    return done;
}

static void other_groups(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_COSINE, KITH_INNER_PRODUCT,
                                          KITH_SQEUCLIDEAN, KITH_CORRELATION};
    static const kith_dtype dtypes[] = {KITH_F32, KITH_U8, KITH_F16, KITH_F64, KITH_I8};
    static const int64_t rows[] = {9800, 6001, 4600}; /* covered on both sides, on one, on none */
    kith_ctx *cpu = test_cpu_ctx();
    uint64_t seed = 31;
    int cases = 0;
    int at_once = 0;
    for (int shape = 0; shape < SHAPE_COUNT; shape += test_is_slow_build() ? 5 : 1) {
        for (int i = 0; i < 3; i += test_is_slow_build() ? 2 : 1) {
            const int n = shape * 3 + i;
            const grouped g = {.dtype = dtypes[(shape + i) % 5],
                               .metric = metrics[n % 5],
                               .shape = (test_shape)shape,
                               .rows = rows[n % 3],
                               .groups = n % 11 == 10 ? 33 : 2 + n / 2 % 3,
                               .k = 1 + n % 5 * n % 20,
                               .copies = n % 4 == 0 ? 500 : 0,
                               .flags = n % 7 == 0   ? KITH_NO_SKIP
                                        : n % 5 == 0 ? KITH_INCLUDE_SELF
                                                     : 0};
            at_once += check_groups(cpu, &g, &seed);
            cases++;
        }
    }
    assert_true(at_once > cases / 3);
    printf("%d graphs across groups, %d of them prepared once: the bytes of the processor\n", cases,
           at_once);
    kith_ctx_free(cpu);
}

/* Points of which some are equal; and what is left to searches: many equal points, many groups,
 * long lists, pairs that are asked for twice, little memory. */
static void other_groups_by_searches(void **state)
{
    (void)state;
    kith_ctx *cpu = test_cpu_ctx();
    uint64_t seed = 37;
    const grouped right = {.dtype = KITH_F32,
                           .metric = KITH_EUCLIDEAN,
                           .shape = SHAPE_GAUSS,
                           .rows = 6000,
                           .groups = 2,
                           .k = 5};
    assert_true(check_groups(cpu, &right, &seed));
    grouped g = right;
    g.chosen = true;
    g.rows = 12000;
    assert_true(check_groups(cpu, &g, &seed));
    g = right;
    g.copies = 1500;
    g.groups = 3;
    assert_true(check_groups(cpu, &g, &seed));
    g = right;
    g.shape = SHAPE_EQUAL;
    assert_false(check_groups(cpu, &g, &seed));
    g = right;
    g.groups = 65;
    assert_false(check_groups(cpu, &g, &seed));
    g = right;
    g.k = 2040;
    g.rows = 3500;
    assert_false(check_groups(cpu, &g, &seed));
    g = right;
    g.flags = KITH_NO_SYMMETRY;
    assert_false(check_groups(cpu, &g, &seed));
    g = right;
    g.memory = 2 << 20;
    assert_false(check_groups(cpu, &g, &seed));
    kith_ctx_free(cpu);
}

/* Of the library as callers know it: from both sides of the bus, also where the host has too little
 * memory for lists of all points, and with groups of one point, of all, and where each point finds
 * exactly k others, or one fewer. */
static void other_groups_of_callers(void **state)
{
    enum { ROWS = 10000, FEW_MIB = 4 };
    (void)state;
    static const struct {
        int64_t groups;
        int64_t first; /* points of group 0; 0: as many as of any */
        int64_t k;
    } cases[] = {{2, 0, 10},   {3, 0, 7},          {2, 1, 1},  {2, 1, 2},
                 {2, ROWS, 3}, {2, ROWS - 40, 40}, {3, 0, 200}};
    uint64_t seed = 41;
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx_params few = kith_ctx_params_default();
    few.device = "cuda:0";
    few.threads = 2;
    few.memory_limit = (uint64_t)FEW_MIB << 20;
    kith_ctx *gpus[] = {test_gpu_ctx(2, 0), NULL};
    assert_int_equal(kith_ctx_create(&few, &gpus[1]), KITH_OK);
    test_caller c = test_caller_open();
    test_rows points = test_rows_make(KITH_F32, ROWS, 8, 0);
    test_shape_fill(&points, SHAPE_CLUSTERS, false, &seed);
    const kith_matrix device = test_caller_copy(&c, &points.matrix);
    int64_t *numbers = malloc(ROWS * sizeof *numbers);
    assert_non_null(numbers);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int64_t row = 0; row < ROWS; row++) {
            numbers[row] = cases[i].first == 0 ? row % cases[i].groups : row >= cases[i].first;
        }
        kith_filter filter = kith_filter_default();
        filter.rule = KITH_RULE_OTHER;
        filter.groups = numbers;
        kith_search_params params = kith_search_params_default();
        params.k = cases[i].k;
        params.filter = &filter;
        kith_neighbors truth = test_answer_make(ROWS, params.k);
        test_works(cpu, kith_graph(cpu, &points.matrix, &params, &truth, NULL));
        for (int g = 0; g < 2; g++) {
            kith_neighbors out = test_answer_make(ROWS, params.k);
            test_works(gpus[g], kith_graph(gpus[g], &points.matrix, &params, &out, NULL));
            assert_true(test_answers_equal(&truth, &out));
            test_answer_free(&out);
        }
        const kith_neighbors room = test_caller_answer(&c, ROWS, params.k);
        test_works(gpus[0], kith_cuda_graph(gpus[0], &device, &params, &room, NULL, c.handle));
        kith_neighbors there = test_caller_fetch(&c, &room);
        assert_true(test_answers_equal(&truth, &there));
        test_answer_free(&there);
        test_answer_free(&truth);
    }
    printf("%zu graphs across groups of %d points, from host and device, and within %d MiB: the "
           "bytes of the processor\n",
           sizeof cases / sizeof cases[0], (int)ROWS, (int)FEW_MIB);
    free(numbers);
    test_caller_release(&c, device.data);
    test_caller_close(&c);
    test_rows_free(&points);
    kith_ctx_free(gpus[1]);
    kith_ctx_free(gpus[0]);
    kith_ctx_free(cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bytes),
                                       cmocka_unit_test(far_apart),
                                       cmocka_unit_test(asked_twice_or_without_room),
                                       cmocka_unit_test(bytes_that_lose),
                                       cmocka_unit_test(other_groups),
                                       cmocka_unit_test(other_groups_by_searches),
                                       cmocka_unit_test(other_groups_of_callers)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
