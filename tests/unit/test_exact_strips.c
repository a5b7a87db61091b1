/* SPDX-License-Identifier: Apache-2.0
 * Tiles that shadows say are to be looked at, on AMX, and rows that a sieve says meet a panel,
 * elsewhere: lists, searches and graphs have the bytes of those by full rows, whatever the rows
 * are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "exact/exact_search.h"
#include "host/host_cpu.h"
#include "kith/kith_papers.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_keys.h"
#include "support/support_shadows.h"

#include <stdio.h>

enum { K = TEST_SHADOW_K };

typedef struct graph_case {
    kin_prepared p;
    kin_lists lists;
    kin_list_scratch scratch;
    kin_screen screen;
    void *arrays;
} graph_case;

static void name_scratch(kin_layout *layout, void *job)
{
    graph_case *g = job;
    kin_list_scratch_name(layout, g->lists.capacity, g->p.distance.cols, &g->scratch);
}

/* A graph's lists, by shadows where the corpus has them. */
static void screen_graph(kith_ctx *ctx, graph_case *g)
{
    const kin_set *set = &g->p.set;
    assert_int_equal(kin_lists_make(ctx, set, set, g->p.groups.weights, K, &g->lists), KITH_OK);
    assert_int_equal(kin_layout_make(ctx, name_scratch, g, "a scratch", &g->arrays), KITH_OK);
    const kin_meet_side side = {.set = set,
                                .cast = g->p.cast.points > 0 ? &g->p.cast : NULL,
                                .sieve = g->p.sieve.points > 0 ? &g->p.sieve : NULL,
                                .lists = &g->lists,
                                .cover = &g->p.cover};
    /* Of twice as many rows, as long graphs have them: a word of strips is nearly full. */
    g->screen = (kin_screen){.row = side, .point = side, .block = 2 * kin_screen_block(set->frame)};
    assert_int_equal(kin_screen_run(ctx, &g->screen), KITH_OK);
}

static void free_graph(kith_ctx *ctx, graph_case *g)
{
    kin_free(ctx, g->arrays);
    kin_lists_free(ctx, &g->lists);
    kin_prepared_free(ctx, &g->p);
}

/* The first entries, as many as have K ids; behind them lists may differ. */
static bool same_lists(graph_case *a, graph_case *b)
{
    for (int64_t i = 0; i < a->p.groups.count; i++) {
        const uint32_t *weights = a->p.groups.weights;
        const int64_t count = kin_lists_finish(&a->lists, i, &a->scratch);
        const int64_t other = kin_lists_finish(&b->lists, i, &b->scratch);
        int64_t ids = 0;
        for (int64_t j = 0; ids < K; j++) {
            const kin_pair *one = &a->scratch.pairs[j];
            const kin_pair *two = &b->scratch.pairs[j];
            if (j >= count || j >= other || one->id != two->id || one->key != two->key) {
                return false;
            }
            ids += weights == NULL ? 1 : weights[one->id];
        }
    }
    return true;
}

/* Whether tiles of rows like these can be looked at: they lie in more steps than stay in tiles. */
static bool has_tiles(const kin_prepared *p)
{
    return p->groups.count > 0 && p->frame.kernel->isa == KIN_ISA_AMX &&
           p->frame.groups > 2 * KIN_GATE_GROUPS;
}

/* A search and a graph of rows, by shadows and by full rows. Returns the share of the graph's pairs
 * that was looked at, or -1 where there are no such shadows. */
static double check_choice(kith_ctx *ctx, const test_rows *points, const test_rows *queries,
                           kith_metric metric, kin_shadow_choice choice)
{
    graph_case plain = {0};
    graph_case cast = {0};
    assert_int_equal(kin_ctx_begin(ctx), KITH_OK);
    test_shadow_prepare(ctx, points, metric, &plain.p);
    if (choice.tiles ? !has_tiles(&plain.p) : plain.p.groups.count == 0) {
        kin_prepared_free(ctx, &plain.p);
        return -1.0;
    }
    test_shadow_prepare(ctx, points, metric, &cast.p);
    assert_int_equal(kin_prepare_shadows(ctx, &(kin_shadow_job){.given = choice}, &cast.p),
                     KITH_OK);
    assert_true(cast.p.shadow.tiles == choice.tiles && cast.p.cast.points == cast.p.set.points);
    assert_int_equal(cast.p.sieve.points, choice.sieve > 0 ? cast.p.set.points : 0);
    screen_graph(ctx, &plain);
    screen_graph(ctx, &cast);
    assert_true(same_lists(&plain, &cast));
    const double share = (double)cast.screen.pairs_looked / (double)cast.screen.pairs;
    free_graph(ctx, &cast);
    free_graph(ctx, &plain);
    kith_neighbors full =
        test_shadow_search(ctx, points, queries, metric, (kin_shadow_choice){.axes = 0});
    kith_neighbors seen = test_shadow_search(ctx, points, queries, metric, choice);
    assert_true(test_answers_equal(&full, &seen));
    test_answer_free(&seen);
    test_answer_free(&full);
    return share;
}

static void tiles(void **state)
{
    (void)state;
    enum { CORPUS = 2100, FEW = 333 };
    static const kith_metric metrics[] = {KITH_SQEUCLIDEAN, KITH_EUCLIDEAN, KITH_COSINE};
    static const kith_dtype dtypes[] = {KITH_U8, KITH_F32, KITH_F64};
    static const int32_t cols[] = {200, 333, 1100};
    static const int32_t axes[] = {1, 20, KIN_GATE_AXES};
    if (!kin_cpu_has(KIN_ISA_AMX)) {
        printf("left to machines with AMX\n");
        return;
    }
    const kin_tile_kernel *gate = kin_tile_get(KIN_ISA_AMX, KIN_TILE_S8);
    kith_ctx *ctx = test_ctx(KIN_ISA_AMX, 2);
    int cases = 0;
    int fewer = 0;
    for (int i = 0; i < SHAPES * (test_is_slow_build() ? 1 : 3); i++) {
        const int shape = i % SHAPES;
        const kith_dtype dtype = dtypes[(i + i / SHAPES) % 3];
        const int32_t wide = cols[(i / 2 + i / SHAPES) % 3];
        test_rows points = test_shadow_rows(dtype, CORPUS - 7 * (i % 5), wide, shape, 3);
        test_rows queries = test_shadow_rows(dtype, FEW, wide, shape, 4);
        for (int64_t row = 0; i % 3 == 0 && row < 300; row += 2) { /* equal ones */
            test_rows_copy(&points, row, &points, 5 * row + 1);
        }
        const double share = check_choice(
            ctx, &points, &queries, metrics[i % 3],
            (kin_shadow_choice){.kernel = gate, .axes = axes[(i + i / SHAPES) % 3], .tiles = true});
        cases += share >= 0.0;
        fewer += share >= 0.0 && share < 0.5;
        test_rows_free(&queries);
        test_rows_free(&points);
    }
    kith_ctx_free(ctx);
    assert_true(fewer > 0);
    printf("%d graphs and searches by tiles of shadows, %d of them by less than half: the bytes of "
           "those by full rows\n",
           cases, fewer);
}

/* Graphs and searches of one processor by a sieve, of shapes from `first` on. Returns how many;
 * *fewer: those of which less than half of the pairs was looked at. */
static int check_sieves(kin_isa isa, kin_tile_type type, int first, int *fewer)
{
    enum { CORPUS = 1300, FEW = 201 };
    static const kith_metric metrics[] = {KITH_SQEUCLIDEAN, KITH_EUCLIDEAN, KITH_COSINE};
    static const kith_dtype dtypes[] = {KITH_U8, KITH_F32, KITH_F64};
    static const int32_t cols[] = {70, 333, 1100};
    static const int32_t axes[] = {2, 31, 63};
    const kin_tile_kernel *kernel = kin_tile_get(isa, type);
    int cases = 0;
    if (kernel == NULL || kernel->sieve == NULL) {
        return 0;
    }
    kith_ctx *ctx = test_ctx(isa, 2);
    for (int i = first; i < SHAPES; i += test_is_slow_build() ? 6 : 2) {
        const kith_dtype dtype = dtypes[(i / 2 + first) % 3];
        const int32_t wide = cols[(i / 3 + first) % 3];
        const int32_t most = axes[(i + i / 3) % 3];
        test_rows points = test_shadow_rows(dtype, CORPUS - 7 * (i % 5), wide, i, 3);
        test_rows queries = test_shadow_rows(dtype, FEW, wide, i, 4);
        for (int64_t row = 0; i % 3 == 0 && row < 200; row += 2) { /* equal ones */
            test_rows_copy(&points, row, &points, 5 * row + 1);
        }
        const double share = check_choice(
            ctx, &points, &queries, metrics[i % 3],
            (kin_shadow_choice){.kernel = kernel, .axes = most, .sieve = (most + 1) / 3});
        cases += share >= 0.0;
        *fewer += share >= 0.0 && share < 0.5;
        test_rows_free(&queries);
        test_rows_free(&points);
    }
    kith_ctx_free(ctx);
    return cases;
}

static void sieves(void **state)
{
    (void)state;
    int cases = 0;
    int fewer = 0;
    for (int isa = 0; isa < KIN_ISA_COUNT; isa++) {
        for (int type = 0; kin_cpu_has((kin_isa)isa) && type < KIN_TILE_TYPES; type++) {
            cases += check_sieves((kin_isa)isa, (kin_tile_type)type, (isa + type) % 2, &fewer);
        }
    }
    assert_true(cases == 0 || fewer > 0);
    printf("%d graphs and searches by a sieve, %d of them by less than half: the bytes of those by "
           "full rows\n",
           cases, fewer);
}

/* Bytes around some of them. */
static test_rows crowds(int64_t count, int32_t cols, int64_t around)
{
    test_rows points = test_rows_make(KITH_U8, count, cols, 0);
    uint64_t seed = 11;
    uint8_t *first = points.map + ((const uint8_t *)points.matrix.data - points.map);
    for (int64_t row = 0; row < count; row++) {
        uint8_t *bytes = first + row * points.matrix.stride_bytes;
        const uint8_t *near = bytes - row / around * around * points.matrix.stride_bytes;
        for (int32_t col = 0; col < cols; col += 8) {
            uint64_t word = kin_random_next(&seed);
            for (int32_t i = col; i < col + 8; i++, word >>= 8) {
                bytes[i] = (uint8_t)(row < around ? (word & 0xff) : near[i] / 2 + (word & 0x3f));
            }
        }
    }
    return points;
}

/* Where tiles of AMX are worth it. */
static void long_jobs_of_tiles(void **state)
{
    (void)state;
    enum { MANY = 50000, COLUMNS = 800, CENTRES = 40 };
    if (test_is_slow_build() || !kin_cpu_has(KIN_ISA_AMX)) {
        printf("left to other builds, and to machines with AMX\n");
        return;
    }
    test_rows points = crowds(MANY, COLUMNS, CENTRES);
    kith_ctx *ctx = test_ctx(KIN_ISA_AMX, 2);
    kith_report report;
    kith_neighbors cast = test_shadow_solve(ctx, &points, NULL, 0, &report);
    assert_int_equal(report.shadow_axes, KIN_GATE_AXES);
    assert_true(report.looked_share > 0.0 && report.looked_share < 0.5);
    printf("tiles: %.2f %% of the pairs were looked at\n", 100.0 * report.looked_share);
    kith_neighbors plain = test_shadow_solve(ctx, &points, NULL, KITH_NO_SKIP, &report);
    assert_int_equal(report.shadow_axes, 0);
    assert_true(test_answers_equal(&plain, &cast));
    test_answer_free(&plain);
    test_answer_free(&cast);
    kith_ctx_free(ctx);
    test_rows_free(&points);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles),
        cmocka_unit_test(sieves),
        cmocka_unit_test(long_jobs_of_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
