/* SPDX-License-Identifier: Apache-2.0
 * Trees that a device makes: the bytes of kin_tree_make's, whatever the data; trees that were
 * brought there; queries in the order of their leaves; memory that runs out at any moment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "base/base_size.h"
#include "host/host_clock.h"
#include "support/support_answers.h"
#include "support/support_gpu.h"
#include "support/support_placed.h"
#include "support/support_shapes.h"
#include "tree/tree_gpu.h"
#include "tree/tree_walk.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Both trees ------------------------------------------------------------------------------ */

typedef struct problem {
    const char *name;
    test_rows rows;
    kith_metric metric;
    int64_t leaf_points;
    bool grouped; /* equal rows become one point */
    int64_t skew; /* of the rows' address */
} problem;

typedef struct pair_of_trees {
    kin_prepared prepared;
    kin_tree host;
    test_placed placed;
    uint32_t *firsts; /* device */
    kin_tree_gpu tree;
    double host_seconds;
} pair_of_trees;

static kin_screen_gpu_device device(void)
{
    return kin_screen_gpu_device_of(test_device_ctx, test_device);
}

static kin_distance distance_of(const problem *p)
{
    return (kin_distance){
        .metric = p->metric, .cols = p->rows.matrix.cols, .isa = test_device_ctx->isa};
}

/* All but the device's tree. */
static void begin_pair(const problem *p, pair_of_trees *t)
{
    const kin_distance distance = distance_of(p);
    *t = (pair_of_trees){.firsts = NULL};
    test_must(kin_prepare_rows(test_device_ctx, &p->rows.matrix, &distance, "points",
                               p->grouped ? 0 : KIN_ROWS_DISTINCT, &t->prepared));
    const int64_t start = kin_clock_ns();
    test_must(kin_tree_make(test_device_ctx, &t->prepared, p->leaf_points, &t->host));
    t->host_seconds = kin_clock_since(start);
    t->placed = test_place(&p->rows.matrix, p->metric, p->skew);
    if (p->grouped) {
        t->firsts = test_device_copy(t->prepared.groups.firsts,
                                     (uint64_t)t->prepared.groups.count * sizeof(uint32_t));
    }
}

static kith_status make_device(const problem *p, pair_of_trees *t)
{
    const kin_screen_gpu_device on = device();
    return kin_tree_gpu_make(&on, &t->placed.rows, t->firsts, t->prepared.groups.count,
                             p->leaf_points, &t->tree);
}

static void end_pair(pair_of_trees *t)
{
    const kin_screen_gpu_device on = device();
    kin_tree_gpu_free(&on, &t->tree);
    kin_gpu_free(test_device, t->firsts);
    kin_gpu_free(test_device, t->placed.block);
    kin_tree_free(test_device_ctx, &t->host);
    kin_prepared_free(test_device_ctx, &t->prepared);
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static void differ(const problem *p, const char *array, int64_t at, uint32_t got, uint32_t wanted)
{
    if (test_tell()) {
        printf("%s, %" PRId64 " x %d %s %s: %s[%" PRId64 "] is %08x, wanted %08x\n", p->name,
               p->rows.matrix.rows, p->rows.matrix.cols, kith_dtype_name(p->rows.matrix.dtype),
               kith_metric_name(p->metric), array, at, got, wanted);
    }
}

/* Words of 32 bits; `items` of `part` on the host, of `whole` on the device, zeros behind. */
static void compare(const problem *p, const char *array, const void *on_device, const void *host,
                    int64_t items, int64_t part, int64_t whole)
{
    const uint32_t *wanted = host;
    uint32_t *got = test_fetched(on_device, (uint64_t)(items * whole) * sizeof *got);
    for (int64_t i = 0; i < items; i++) {
        for (int64_t j = 0; j < whole; j++) {
            const uint32_t right = j < part ? wanted[i * part + j] : 0;
            if (got[i * whole + j] != right) {
                differ(p, array, i * part + j, got[i * whole + j], right);
            }
        }
    }
    free(got);
}

static void compare_trees(const problem *p, const kin_tree *host, const kin_tree_gpu *tree)
{
    const int64_t leaves = kin_tree_leaves(host);
    const int64_t cols = host->cols;
    assert_int_equal(tree->cols, host->cols);
    assert_int_equal(tree->wide, kin_round_up(cols, KIN_TREE_GPU_WIDE));
    assert_int_equal(tree->height, host->height);
    assert_int_equal(tree->norm, host->norm);
    assert_int_equal(tree->points, host->points);
    assert_int_equal(tree->blocks, host->blocks);
    assert_memory_equal(&tree->scale, &host->scale, sizeof host->scale);
    assert_memory_equal(&tree->widen, &host->widen, sizeof host->widen);
    assert_memory_equal(&tree->floor, &host->floor, sizeof host->floor);
    assert_memory_equal(&tree->most_lost, &host->lost[1], sizeof host->lost[1]);
    compare(p, "shift", tree->shift, host->shift, 2 * cols, 1, 1);
    compare(p, "values", tree->values, host->values, host->blocks, cols * KIN_TREE_LANES,
            tree->wide * KIN_TREE_LANES);
    compare(p, "ids", tree->ids, host->ids, host->blocks * KIN_TREE_LANES, 1, 1);
    compare(p, "boxes", tree->boxes, host->boxes, 4 * leaves, cols, tree->wide);
    compare(p, "lost", tree->lost, host->lost, 2 * leaves, 1, 1);
    compare(p, "splits", tree->splits, host->splits, leaves, 1, 1);
    compare(p, "planes", tree->planes, host->planes, leaves, 1, 1);
    compare(p, "starts", tree->starts, host->starts, leaves + 1, 1, 1);
    compare(p, "counts", tree->counts, host->counts, leaves, 1, 1);
}

/* ---- Queries --------------------------------------------------------------------------------- */

/* Of the widest columns of a box, the widest one first, whose middle a row is not below. */
static uint32_t cell_of(const kin_tree *tree, int64_t node, const float *row, int32_t bits)
{
    const float *low = tree->boxes + node * 2 * tree->cols;
    const float *high = low + tree->cols;
    bool halved[64] = {false};
    uint32_t cell = 0;
    for (int32_t bit = 0; bit < bits; bit++) {
        int32_t widest = -1;
        for (int32_t c = 0; c < tree->cols; c++) {
            if (!halved[c] && (widest < 0 || high[c] - low[c] > high[widest] - low[widest])) {
                widest = c;
            }
        }
        halved[widest] = true;
        cell = 2 * cell + (row[widest] < 0.5F * low[widest] + 0.5F * high[widest] ? 0 : 1);
    }
    return cell;
}

static int rising(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* queries: in the order of their leaves. Brings those of a leaf into the order of its cells, of
 * which there are so many that a packet is left to each. */
static void order_cells(const kin_tree *tree, int64_t count, const kin_tree_queries *queries)
{
    enum { MOST_BITS = 6 };
    const int64_t leaves = kin_tree_leaves(tree);
    const int32_t most = (int32_t)kin_min_i64(tree->cols, MOST_BITS);
    int32_t bits = 0;
    while (bits < most && leaves * KIN_TREE_GPU_PACKET << bits < count) {
        bits += 1;
    }
    uint32_t *order = queries->order;
    uint64_t *words = malloc((size_t)count * sizeof *words);
    assert_non_null(words);
    for (int64_t place = 0; place < count; place++) {
        const float *row = queries->rows + (int64_t)order[place] * tree->cols;
        const int64_t leaf = kin_tree_leaf_of(tree, row);
        const uint64_t cell = cell_of(tree, leaves + leaf, row, bits);
        words[place] = ((uint64_t)leaf << bits | cell) << 32 | order[place];
    }
    qsort(words, (size_t)count, sizeof *words, rising);
    for (int64_t place = 0; place < count; place++) {
        order[place] = (uint32_t)words[place];
    }
    free(words);
}

/* Rows and losses of queries, as kin_tree_queries_load has them; its order, but for cells. */
static void compare_queries(const problem *p, const pair_of_trees *t, const test_rows *asked)
{
    const kin_distance distance = distance_of(p);
    const kin_rows rows = {.matrix = asked->matrix};
    const int64_t count = asked->matrix.rows;
    const int32_t cols = asked->matrix.cols;
    const kin_tree_kernels *kernels = test_device->module->tree;
    kin_tree_queries queries;
    test_must(kin_tree_queries_make(test_device_ctx, &t->host, &distance, &rows, count, &queries));
    test_must(kin_tree_queries_load(test_device_ctx, &queries, 0, count));
    test_placed placed = test_place(&asked->matrix, p->metric, 0);
    const uint64_t places = (uint64_t)count;
    float *rounded = test_device_room(places * (uint64_t)t->tree.wide * sizeof(float));
    float *lost = test_device_room(places * sizeof(float));
    uint32_t *order = test_device_room(places * sizeof(uint32_t));
    const kin_tree_gpu_round round = {.rows = placed.rows,
                                      .count = count,
                                      .wide = t->tree.wide,
                                      .norm = t->tree.norm,
                                      .scale = t->tree.scale,
                                      .shift = t->tree.shift,
                                      .out = rounded,
                                      .lost = lost};
    test_launch(kernels->round(test_device->stream, &round), "queries");
    uint64_t bytes = 0;
    kin_tree_gpu_order job = {
        .tree = t->tree, .rows = rounded, .count = count, .order = order, .scratch_bytes = &bytes};
    test_launch(kernels->order(test_device->stream, &job), "scratch of an order");
    job.scratch = test_device_room(bytes);
    test_launch(kernels->order(test_device->stream, &job), "an order");
    compare(p, "query", rounded, queries.rows, count, cols, t->tree.wide);
    compare(p, "query's lost", lost, queries.lost, count, 1, 1);
    order_cells(&t->host, count, &queries);
    compare(p, "order", order, queries.order, count, 1, 1);
    kin_gpu_free(test_device, job.scratch);
    kin_gpu_free(test_device, order);
    kin_gpu_free(test_device, lost);
    kin_gpu_free(test_device, rounded);
    kin_gpu_free(test_device, placed.block);
    kin_tree_queries_free(test_device_ctx, &queries);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

/* Made and asked. */
static void settle(const problem *p, const test_rows *asked)
{
    pair_of_trees t;
    begin_pair(p, &t);
    test_must(make_device(p, &t));
    compare_trees(p, &t.host, &t.tree);
    compare_queries(p, &t, asked);
    end_pair(&t);
}

typedef enum fill { FILL_SHAPE, FILL_ZEROS, FILL_ONE_APART } fill;

static void fill_rows(const test_rows *rows, fill how, test_shape shape, uint64_t *seed)
{
    if (how == FILL_SHAPE) {
        test_shape_fill(rows, shape, rows->matrix.dtype == KITH_U8, seed);
        return;
    }
    for (int64_t i = 0; i < rows->matrix.rows; i++) {
        for (int32_t c = 0; c < rows->matrix.cols; c++) {
            const double zero = test_uniform(seed) < 0.5 ? -0.0 : 0.0;
            const double one = i == rows->matrix.rows / 3 ? 3.0 : 1.0;
            test_rows_set(rows, i, c, how == FILL_ONE_APART ? one : zero);
        }
    }
}

static void run(const char *name, kith_dtype dtype, int64_t points, int32_t cols, fill how,
                test_shape shape, const problem *like)
{
    enum { QUERIES = 3000 };
    uint64_t seed = 90;
    problem p = *like;
    p.name = name;
    p.rows = test_rows_make(dtype, points, cols, p.skew);
    test_rows asked = test_rows_make(dtype, QUERIES, cols, 0);
    fill_rows(&p.rows, how, shape, &seed);
    fill_rows(&asked, how, shape, &seed);
    settle(&p, &asked);
    test_rows_free(&asked);
    test_rows_free(&p.rows);
}

static void shapes(void **state)
{
    (void)state;
    static const test_shape all[] = {SHAPE_GAUSS,   SHAPE_CLUSTERS, SHAPE_GRID,   SHAPE_EQUAL,
                                     SHAPE_OUTLIER, SHAPE_LINE,     SHAPE_SPARSE, SHAPE_COPIES,
                                     SHAPE_BALL,    SHAPE_TINY};
    static const int32_t cols[] = {1, 3, 4, 10, 30};
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_MANHATTAN, KITH_CHEBYSHEV};
    int64_t cases = 0;
    for (size_t s = 0; s < sizeof all / sizeof *all; s++) {
        for (size_t c = 0; c < sizeof cols / sizeof *cols; c++) {
            for (int grouped = 0; grouped < 2; grouped++) {
                const problem like = {.metric = metrics[cases % 3],
                                      .leaf_points = 32 + 16 * (cases % 5),
                                      .grouped = grouped != 0};
                const kith_dtype dtype = cases % 4 == 1 ? KITH_F64 : KITH_F32;
                run(test_shape_name(all[s]), dtype, 20000, cols[c], FILL_SHAPE, all[s], &like);
                cases += 1;
            }
        }
    }
    test_settle("trees of 20,000 points in ten shapes", cases);
}

static void types(void **state)
{
    (void)state;
    int64_t cases = 0;
    for (int type = 0; type < TEST_DTYPES; type++) {
        for (int64_t skew = 0; skew < 4; skew += 3) {
            const problem like = {.metric =
                                      (type + skew) % 2 != 0 ? KITH_SQEUCLIDEAN : KITH_MANHATTAN,
                                  .leaf_points = 64,
                                  .grouped = true,
                                  .skew = skew};
            run("gauss", test_dtypes[type], 9000, 5, FILL_SHAPE, SHAPE_GAUSS, &like);
            run("offset", test_dtypes[type], 9000, 64, FILL_SHAPE, SHAPE_OFFSET, &like);
            cases += 2;
        }
    }
    test_settle("trees of every type, aligned and not", cases);
}

/* Leaves of 16 points leave some leaves empty. */
static void sizes(void **state)
{
    (void)state;
    static const int64_t points[] = {1, 2, 15, 16, 17, 33, 80, 257, 1000, 1023, 1025, 4099, 100000};
    int64_t cases = 0;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        for (int64_t leaf = 16; leaf <= 64; leaf += 16) {
            const problem like = {.metric = KITH_EUCLIDEAN, .leaf_points = leaf};
            run("gauss", KITH_F32, points[i], 4, FILL_SHAPE, SHAPE_GAUSS, &like);
            run("grid", KITH_F64, points[i], 3, FILL_SHAPE, SHAPE_GRID, &like);
            run("zeros of both signs", KITH_F64, points[i], 3, FILL_ZEROS, SHAPE_GAUSS, &like);
            run("one apart", KITH_F32, points[i], 10, FILL_ONE_APART, SHAPE_GAUSS, &like);
            cases += 4;
        }
    }
    test_settle("trees of 1 to 100,000 points", cases);
}

static void large(void **state)
{
    static const struct {
        int64_t points;
        int32_t cols;
        int64_t leaf_points;
    } jobs[] = {{1000000, 3, 48}, {2000000, 4, 48}, {2000000, 10, 96}, {1000000, 30, 96}};
    const int64_t share = test_is_slow_build() ? 10 : 1;
    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        uint64_t seed = 91;
        const int64_t points = jobs[i].points / share;
        problem p = {.name = "gauss",
                     .metric = KITH_EUCLIDEAN,
                     .leaf_points = jobs[i].leaf_points,
                     .rows = test_rows_make(KITH_F32, points, jobs[i].cols, 0)};
        pair_of_trees t;
        double best = 1e9;
        test_shape_fill(&p.rows, SHAPE_GAUSS, false, &seed);
        begin_pair(&p, &t);
        for (int turn = 0; turn < 4; turn++) {
            const kin_screen_gpu_device on = device();
            kin_tree_gpu_free(&on, &t.tree);
            const int64_t start = kin_clock_ns();
            test_must(make_device(&p, &t));
            const double seconds = kin_clock_since(start);
            best = seconds < best ? seconds : best;
        }
        compare_trees(&p, &t.host, &t.tree);
        printf("%" PRId64 " x %d: %.2f ms on the device, %.0f ms on the host\n", points,
               jobs[i].cols, 1e3 * best, 1e3 * t.host_seconds);
        end_pair(&t);
        test_rows_free(&p.rows);
    }
    test_settle("large trees", (int64_t)(sizeof jobs / sizeof *jobs));
}

/* ---- Beside other work ----------------------------------------------------------------------- */

typedef struct neighbour_job {
    test_rows points;
    atomic_bool ended;
    int64_t graphs;
    kith_status status;
} neighbour_job;

/* Graphs of all pairs by a context of its own, until it is told to end. */
static void *keep_busy(void *arg)
{
    enum { K = 5 };
    neighbour_job *job = arg;
    kith_ctx *ctx = test_gpu_ctx(1, 0);
    kith_search_params params = kith_search_params_default();
    kith_neighbors out = test_answer_make(job->points.matrix.rows, K);
    params.k = K;
    while (job->status == KITH_OK && !atomic_load(&job->ended)) {
        job->status = kith_graph(ctx, &job->points.matrix, &params, &out, NULL);
        job->graphs += 1;
    }
    test_answer_free(&out);
    kith_ctx_free(ctx);
    return NULL;
}

/* Where blocks of one launch wait for each other's time, what one warp reads late has changed: a
 * barrier that is missing shows there, once in some dozen trees, and in large ones only. */
static void beside_other_work(void **state)
{
    static const struct {
        test_shape shape;
        int64_t points;
        int32_t cols;
        int64_t leaf_points;
    } jobs[] = {{SHAPE_LINE, 4000000, 3, 48},
                {SHAPE_CLUSTERS, 1000000, 3, 96},
                {SHAPE_GAUSS, 300000, 4, 32}};
    const int turns = test_is_slow_build() ? 2 : 60;
    const int64_t share = test_is_slow_build() ? 100 : 1;
    (void)state;
    uint64_t seed = 93;
    neighbour_job busy = {.points = test_rows_make(KITH_F32, 60000 / share, 40, 0)};
    pthread_t beside;
    test_shape_fill(&busy.points, SHAPE_GAUSS, false, &seed);
    assert_int_equal(pthread_create(&beside, NULL, keep_busy, &busy), 0);
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        problem p = {.name = test_shape_name(jobs[i].shape),
                     .metric = KITH_EUCLIDEAN,
                     .leaf_points = jobs[i].leaf_points,
                     .rows = test_rows_make(KITH_F32, jobs[i].points / share, jobs[i].cols, 0)};
        pair_of_trees t;
        test_shape_fill(&p.rows, jobs[i].shape, false, &seed);
        begin_pair(&p, &t);
        for (int turn = 0; turn < turns; turn++) {
            const kin_screen_gpu_device on = device();
            kin_tree_gpu_free(&on, &t.tree);
            test_must(make_device(&p, &t));
            compare_trees(&p, &t.host, &t.tree);
        }
        end_pair(&t);
        test_rows_free(&p.rows);
    }
    atomic_store(&busy.ended, true);
    assert_int_equal(pthread_join(beside, NULL), 0);
    assert_int_equal(busy.status, KITH_OK);
    printf("%" PRId64 " graphs beside %d trees\n", busy.graphs,
           turns * (int)(sizeof jobs / sizeof *jobs));
    test_rows_free(&busy.points);
    test_settle("trees beside other work, again and again",
                turns * (int64_t)(sizeof jobs / sizeof *jobs));
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* With ever larger budgets, until one serves. */
static void memory_runs_out(void **state)
{
    enum { POINTS = 70000, COLS = 6, LEAF = 64 };
    (void)state;
    uint64_t seed = 92;
    problem p = {.name = "gauss",
                 .metric = KITH_EUCLIDEAN,
                 .leaf_points = LEAF,
                 .rows = test_rows_make(KITH_F32, POINTS, COLS, 0)};
    pair_of_trees t;
    test_shape_fill(&p.rows, SHAPE_GAUSS, false, &seed);
    begin_pair(&p, &t);
    const uint64_t budget = test_device->budget;
    const uint64_t held = test_device->held;
    int failures = 0;
    kith_status status = KITH_E_DEVICE_MEMORY;
    kin_gpu_trim(test_device);
    for (uint64_t room = 1024; status != KITH_OK; room += room / 8) {
        test_device->budget = held + room;
        test_device->peak = held;
        status = make_device(&p, &t);
        if (status != KITH_OK) {
            assert_int_equal(status, KITH_E_DEVICE_MEMORY);
            assert_int_equal(test_device->held, held);
            assert_null(t.tree.values);
            kin_gpu_trim(test_device);
            failures += 1;
        }
    }
    const uint64_t resident = test_device->held - held;
    const uint64_t peak = test_device->peak - held;
    printf("%d failures for want of memory; then %" PRIu64 " bytes, %" PRIu64
           " stay; planned: %" PRIu64 ", %" PRIu64 "\n",
           failures, peak, resident, kin_tree_gpu_peak_bytes(POINTS, COLS, LEAF),
           kin_tree_gpu_bytes(POINTS, COLS, LEAF));
    assert_true(failures > 10);
    assert_true(peak <= kin_tree_gpu_peak_bytes(POINTS, COLS, LEAF));
    assert_true(resident <= kin_tree_gpu_bytes(POINTS, COLS, LEAF));
    test_device->budget = budget;
    compare_trees(&p, &t.host, &t.tree);
    end_pair(&t);
    test_rows_free(&p.rows);
    test_settle("a tree after failures", 1);
}

/* Each test tells its own differences. */
static int begin(void **state)
{
    (void)state;
    test_wrong = 0;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(shapes, begin),
                                       cmocka_unit_test_setup(types, begin),
                                       cmocka_unit_test_setup(sizes, begin),
                                       cmocka_unit_test_setup(large, begin),
                                       cmocka_unit_test_setup(beside_other_work, begin),
                                       cmocka_unit_test_setup(memory_runs_out, begin)};
    return test_gpu_is_absent()
               ? TEST_SKIPPED
               : cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
