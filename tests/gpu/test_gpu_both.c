/* SPDX-License-Identifier: Apache-2.0
 * Both directions of a search on a GPU from one product: the bytes of the processor's, for sets of
 * all shapes and sizes, also where one set is rounded in units that are not its own, where a little
 * memory makes it two searches, and where pairs are asked for twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "fused/fused_search.h"
#include "gpu/gpu_module.h"
#include "kith/kith_papers.h"
#include "support/support_answers.h"
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

static const kin_fused_kernels *watched;
static int64_t two_sided;
static char screen[16]; /* what the last job was screened in */
/* The gates that were made last, of either side, and the loss that they allow for. */
static struct {
    const kin_fused_word *gates;
    double lost;
} made[2];

static int watch_tighten(kin_gpu_stream *stream, const kin_fused_tighten *job)
{
    if (job->gates != NULL) {
        const int own = made[0].gates == job->gates || made[0].gates == NULL ? 0 : 1;
        made[own].gates = job->gates;
        made[own].lost = job->set.worst.lost;
    }
    return watched->tighten(stream, job);
}

/* Gates of columns allow for what the rows have lost that meet them (kin_gate_set_far). */
static int watch_screen(kin_gpu_stream *stream, const kin_fused_screen *job)
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

static void solve(const both *b, const test_rows *sets, kith_neighbors *out)
{
    kith_ctx *ctx = test_gpu_ctx(2, b->memory);
    kin_gpu *gpu = NULL;
    assert_int_equal(kin_gpu_open(ctx, 0, b->memory, &gpu), KITH_OK);
    const kin_gpu_module *module = gpu->module;
    kin_gpu_module watching = *module;
    kin_fused_kernels kernels = *module->fused;
    watched = module->fused;
    memset(made, 0, sizeof made);
    kernels.screen = watch_screen;
    kernels.tighten = watch_tighten;
    watching.fused = &kernels;
    gpu->module = &watching;
    const kin_request forth = {.distance = {.metric = b->metric, .cols = COLS, .isa = ctx->isa},
                               .k = K_FORTH,
                               .flags = b->flags};
    kin_request back = forth;
    back.k = K_BACK;
    const kin_fused_query ab = {&sets[0].matrix, "a", &forth, 0, &out[0]};
    const kin_fused_query ba = {&sets[1].matrix, "b", &back, 0, &out[1]};
    assert_int_equal(kin_ctx_begin(ctx), KITH_OK);
    assert_int_equal(kin_fused_both(ctx, gpu, &ab, &ba), KITH_OK);
    (void)snprintf(screen, sizeof screen, "%s", ctx->report.screen);
    gpu->module = module;
    kin_gpu_close(ctx, gpu);
    kith_ctx_free(ctx);
}

/* Screens of both ends. */
static int64_t check(kith_ctx *cpu, const both *b)
{
    test_rows sets[] = {rows_of(b, 0), rows_of(b, 1)};
    kith_neighbors out[] = {test_answer_make(b->rows[0], K_FORTH),
                            test_answer_make(b->rows[1], K_BACK)};
    two_sided = 0;
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
    for (int i = 0; i < 4; i++) {
        const both b = {.dtype = KITH_F32,
                        .metric = KITH_EUCLIDEAN,
                        .shapes = {SHAPE_GAUSS, SHAPE_GAUSS},
                        .rows = {2200, 1100},
                        .away = away[i]};
        at_once += check(cpu, &b) > 0;
    }
    assert_true(at_once > 0 && at_once < 4);
    printf("4 sets, 0.5 to 1e6 from a second one: the same bytes, %d by one product\n", at_once);
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
    two_sided = 0;
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bytes), cmocka_unit_test(far_apart),
                                       cmocka_unit_test(asked_twice_or_without_room),
                                       cmocka_unit_test(bytes_that_lose)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
