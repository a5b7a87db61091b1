/* SPDX-License-Identifier: Apache-2.0
 * An index by graph that is kept on a GPU: the bytes of a search by walks there on the same graph,
 * whatever is asked of it and as often as it is; of rows on the host and on the device; after rows
 * were added and removed; saved and opened; by several threads. Under a filter it is exact. What
 * does not fit is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kith/kith_cuda.h"
#include "support/support_answers.h"
#include "support/support_caller.h"
#include "support/support_calls.h"
#include "support/support_compare.h"
#include "support/support_files.h"
#include "support/support_gpu.h"
#include "support/support_life.h"
#include "support/support_mixture.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 2500, QUERIES = 60, MORE = QUERIES, LINKS = 12, K = 10, WIDE = 40 };
static const double LEAST_RECALL = 0.95;

typedef struct sample {
    kith_dtype dtype;
    kith_metric metric;
    int64_t rows;
    int32_t cols;
    kith_dtype asked;
    int64_t twin; /* a row of so many equals the one before; 0: none */
} sample;

static const sample SAMPLES[] = {{KITH_F32, KITH_EUCLIDEAN, ROWS, 16, KITH_F32, 0},
                                 {KITH_U8, KITH_SQEUCLIDEAN, ROWS, 40, KITH_F32, 0},
                                 {KITH_U8, KITH_EUCLIDEAN, ROWS, 30, KITH_U8, 0},
                                 {KITH_F32, KITH_COSINE, ROWS, 24, KITH_F64, 0},
                                 {KITH_F32, KITH_MANHATTAN, ROWS, 8, KITH_F32, 0},
                                 {KITH_F32, KITH_INNER_PRODUCT, ROWS, 24, KITH_F32, 0},
                                 {KITH_F32, KITH_EUCLIDEAN, ROWS, 16, KITH_F32, 20},
                                 {KITH_F32, KITH_EUCLIDEAN, 3, 5, KITH_F32, 0}};
enum { SAMPLE_COUNT = sizeof SAMPLES / sizeof *SAMPLES };

/* In a slow build a test has every other sample, and the next one the others. */
static int first_of(int test)
{
    return test_is_slow_build() ? test % 2 : 0;
}

static int step_of_samples(void)
{
    return test_is_slow_build() ? 2 : 1;
}

typedef struct scene {
    const sample *of;
    kith_ctx *cpu;
    kith_ctx *gpu;
    kith_matrix all; /* points, and queries and others behind them */
    kith_matrix points;
    kith_matrix more;
    test_rows queries; /* as `asked` has them */
    int64_t k;
    kith_neighbors graph;
    kith_index_params made;
} scene;

static kith_matrix mixture_of(const sample *of)
{
    const test_mixture mixture = {.dtype = of->dtype,
                                  .rows = of->rows + MORE,
                                  .cols = of->cols,
                                  .inner = of->cols < 6 ? of->cols : 6,
                                  .clusters = 5,
                                  .spread = 0.4,
                                  .nonnegative = 1,
                                  .seed = 7};
    const kith_matrix all = test_mixture_make(&mixture);
    for (int64_t row = of->twin; row < of->rows && row > 0; row += of->twin) {
        test_mixture_copy(&all, row, row - 1);
    }
    return all;
}

/* As the index' queries have them. */
static void copy_values(const kith_matrix *from, const test_rows *to)
{
    for (int64_t row = 0; row < from->rows; row++) {
        const char *at = (const char *)from->data + row * from->stride_bytes;
        for (int32_t col = 0; col < from->cols; col++) {
            test_rows_set(to, row, col,
                          from->dtype == KITH_U8 ? (double)((const uint8_t *)at)[col]
                                                 : (double)((const float *)(const void *)at)[col]);
        }
    }
}

static void scene_begin(scene *s, const sample *of)
{
    *s = (scene){.of = of,
                 .cpu = test_cpu_ctx(),
                 .gpu = test_gpu_ctx(2, 0),
                 .all = mixture_of(of),
                 .queries = test_rows_make(of->asked, QUERIES, of->cols, 0),
                 .k = of->rows <= K ? of->rows : K};
    const int64_t links = of->rows <= LINKS ? of->rows - 1 : LINKS;
    kith_search_params params = kith_search_params_default();
    s->points = test_part_of(&s->all, 0, of->rows);
    s->more = test_part_of(&s->all, of->rows, MORE);
    copy_values(&s->more, &s->queries);
    s->graph = test_answer_make(of->rows, links);
    params.metric = of->metric;
    params.k = links;
    test_works(s->cpu, kith_graph(s->cpu, &s->points, &params, &s->graph, NULL));
    s->made = test_graph_index_params(&s->graph, of->metric);
}

static void scene_end(scene *s)
{
    test_answer_free(&s->graph);
    test_rows_free(&s->queries);
    test_mixture_free(&s->all);
    kith_ctx_free(s->gpu);
    kith_ctx_free(s->cpu);
}

static kith_index *index_in(kith_ctx *ctx, const scene *s)
{
    kith_index *index = NULL;
    test_works(ctx, kith_index_create(ctx, &s->points, &s->made, &index));
    return index;
}

static test_walk_params params_of(const scene *s, int turn)
{
    test_walk_params params = test_walk_params_default();
    params.metric = s->of->metric;
    params.k = turn == 1 ? 1 : s->k;
    params.width = turn == 2 ? WIDE : 0;
    params.seed = turn == 3 ? 5 : 0;
    params.sample = turn == 3 ? QUERIES / 2 : -1;
    params.recall = turn == 4 ? LEAST_RECALL : 0.0;
    params.sample = turn == 4 ? QUERIES : params.sample;
    return params;
}
enum { TURNS = 5 };

/* A search of the points by walks on that graph, on the GPU. */
static kith_neighbors walked(const scene *s, const test_walk_params *params,
                             kith_walk_report *report)
{
    kith_neighbors out = test_answer_make(QUERIES, params->k);
    test_works(s->gpu,
               test_walk(s->gpu, &s->points, &s->graph, &s->queries.matrix, params, &out, report));
    return out;
}

static int same_reports(const kith_walk_report *one, const kith_walk_report *two)
{
    return one->exact == two->exact && one->reached == two->reached && one->width == two->width &&
           one->parts == two->parts && one->evaluations == two->evaluations &&
           one->recall.recall == two->recall.recall;
}

static int differ(const scene *s, const kith_index *index)
{
    int wrong = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        const test_walk_params params = params_of(s, turn);
        kith_walk_report told[2] = {{.struct_size = sizeof *told}, {.struct_size = sizeof *told}};
        kith_report report = {.struct_size = (uint32_t)sizeof report};
        kith_neighbors wanted = walked(s, &params, &told[0]);
        kith_neighbors out = test_answer_make(QUERIES, params.k);
        test_works(s->gpu,
                   test_index_walk(s->gpu, index, &s->queries.matrix, &params, &out, &told[1]));
        test_works(s->gpu, kith_ctx_report(s->gpu, &report));
        wrong += test_answers_differ("kept graph", &wanted, &out) ||
                 !same_reports(&told[0], &told[1]) || strncmp(report.backend, "cuda:", 5) != 0;
        test_answer_free(&out);
        test_answer_free(&wanted);
    }
    return wrong;
}

static void same_bytes(void **state)
{
    (void)state;
    int wrong = 0;
    for (int i = first_of(0); i < SAMPLE_COUNT; i += step_of_samples()) {
        scene s;
        scene_begin(&s, &SAMPLES[i]);
        kith_index *index = index_in(s.gpu, &s);
        const kith_index_info info = test_index_info(index);
        assert_int_equal(info.method, KITH_METHOD_GRAPH);
        assert_int_equal(info.device, 0);
        assert_int_equal(info.k, s.graph.k);
        assert_true(info.bytes > (uint64_t)(s.graph.rows * s.graph.k) * 3 * sizeof(uint32_t));
        wrong += differ(&s, index);
        kith_index_free(index);
        scene_end(&s);
    }
    assert_int_equal(wrong, 0);
    (void)printf("a graph kept on a GPU, %d sets, searched %d times each: the bytes and the report "
                 "of a search that makes it ready\n",
                 SAMPLE_COUNT, TURNS);
}

/* ---- On the device --------------------------------------------------------------------------- */

/* Queries and answers on the device. */
static int differ_there(const scene *s, const test_caller *c, const kith_index *index)
{
    const kith_matrix there = test_caller_copy(c, &s->queries.matrix);
    int wrong = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        const test_walk_params like = params_of(s, turn);
        kith_walk_report told[2] = {{.struct_size = sizeof *told}, {.struct_size = sizeof *told}};
        kith_walk_params walk;
        const kith_search_params params = test_walks(&like, &walk, &told[1]);
        kith_neighbors wanted = walked(s, &like, &told[0]);
        const kith_neighbors out = test_caller_answer(c, QUERIES, like.k);
        test_works(s->gpu, kith_cuda_index_search(s->gpu, index, &there, &params, &out, c->handle));
        kith_neighbors fetched = test_caller_fetch(c, &out);
        wrong += test_answers_differ("rows on the device", &wanted, &fetched) ||
                 !same_reports(&told[0], &told[1]);
        test_answer_free(&fetched);
        test_answer_free(&wanted);
    }
    test_caller_release(c, there.data);
    return wrong;
}

static void rows_on_the_device(void **state)
{
    (void)state;
    int wrong = 0;
    for (int i = first_of(1); i < SAMPLE_COUNT; i += step_of_samples()) {
        scene s;
        scene_begin(&s, &SAMPLES[i]);
        test_caller c = test_caller_open();
        const kith_matrix points = test_caller_copy(&c, &s.points);
        kith_index *index = NULL;
        test_works(s.gpu, kith_cuda_index_create(s.gpu, &points, &s.made, &index, c.handle));
        wrong += differ_there(&s, &c, index);
        wrong += differ(&s, index);
        kith_index_free(index);
        index = index_in(s.gpu, &s);
        wrong += differ_there(&s, &c, index);
        kith_index_free(index);
        test_caller_release(&c, points.data);
        test_caller_close(&c);
        scene_end(&s);
    }
    assert_int_equal(wrong, 0);
    (void)printf("points, or queries alone, in the memory of the GPU: the same bytes\n");
}

/* The recall of an index' answers to its queries. */
static double recall_of(const scene *s, const kith_index *index, const kith_matrix *points)
{
    const test_walk_params like = params_of(s, 2);
    kith_search_params params = kith_search_params_default();
    kith_neighbors truth = test_answer_make(QUERIES, like.k);
    kith_neighbors out = test_answer_make(QUERIES, like.k);
    params.metric = s->of->metric;
    params.k = like.k;
    test_works(s->cpu, kith_search(s->cpu, points, &s->queries.matrix, &params, &truth, NULL));
    test_works(s->gpu, test_index_walk(s->gpu, index, &s->queries.matrix, &like, &out, NULL));
    const double recall = test_graph_recall(s->of->metric, &out, &truth, like.k);
    test_answer_free(&out);
    test_answer_free(&truth);
    return recall;
}

/* Of points that lie here or there; no graph is given. */
static void made_there(void **state)
{
    (void)state;
    for (int i = first_of(2); i < SAMPLE_COUNT; i += step_of_samples()) {
        scene s;
        scene_begin(&s, &SAMPLES[i]);
        test_caller c = test_caller_open();
        const kith_matrix points = test_caller_copy(&c, &s.points);
        kith_index *index = NULL;
        s.made.graph = NULL;
        test_works(s.gpu, kith_cuda_index_create(s.gpu, &points, &s.made, &index, c.handle));
        assert_true(recall_of(&s, index, &s.points) >= LEAST_RECALL);
        assert_ptr_equal(test_index_info(index).points.data, points.data);
        kith_index_free(index);
        index = index_in(s.gpu, &s);
        assert_true(recall_of(&s, index, &s.points) >= LEAST_RECALL);
        kith_index_free(index);
        test_caller_release(&c, points.data);
        test_caller_close(&c);
        scene_end(&s);
    }
    (void)printf("graphs made of rows here and there: recall %.2f and more\n", LEAST_RECALL);
}

/* ---- Changed, saved -------------------------------------------------------------------------- */

/* Points behind which those to come stand: what is added is what the mixture has there. */
static void changed(void **state)
{
    static const uint32_t gone[] = {ROWS + 7, 5, 31, 5};
    (void)state;
    for (int i = first_of(3); i < SAMPLE_COUNT && SAMPLES[i].rows == ROWS; i += step_of_samples()) {
        scene s;
        scene_begin(&s, &SAMPLES[i]);
        test_caller c = test_caller_open();
        const kith_matrix points = test_caller_copy(&c, &s.points);
        for (int there = 0; there < 2; there++) {
            kith_index *index = NULL;
            test_works(s.gpu, there != 0 ? kith_cuda_index_create(s.gpu, &points, &s.made, &index,
                                                                  c.handle)
                                         : kith_index_create(s.gpu, &s.points, &s.made, &index));
            test_works(s.gpu, kith_index_add(s.gpu, index, &s.more));
            assert_int_equal(test_index_info(index).points.rows, ROWS + MORE);
            assert_int_equal(test_index_info(index).device, 0);
            assert_true(recall_of(&s, index, &s.all) >= LEAST_RECALL);
            test_works(s.gpu, kith_index_remove(s.gpu, index, gone, sizeof gone / sizeof *gone));
            const kith_matrix left = test_index_info(index).points;
            assert_int_equal(left.rows, ROWS + MORE - 3);
            assert_true(recall_of(&s, index, &left) >= LEAST_RECALL);
            kith_index_free(index);
            index = NULL;
            test_works(s.gpu, there != 0 ? kith_cuda_index_create(s.gpu, &points, &s.made, &index,
                                                                  c.handle)
                                         : kith_index_create(s.gpu, &s.points, &s.made, &index));
            test_works(s.gpu, kith_index_remove(s.gpu, index, gone + 1, 2));
            const kith_matrix few = test_index_info(index).points;
            assert_true(recall_of(&s, index, &few) >= LEAST_RECALL);
            kith_index_free(index);
        }
        test_caller_release(&c, points.data);
        test_caller_close(&c);
        scene_end(&s);
    }
    (void)printf("rows added and removed: recall %.2f and more, and on the GPU\n", LEAST_RECALL);
}

static void saved(void **state)
{
    test_folder *folder = *state;
    int wrong = 0;
    for (int i = first_of(4); i < SAMPLE_COUNT; i += step_of_samples()) {
        scene s;
        scene_begin(&s, &SAMPLES[i]);
        test_caller c = test_caller_open();
        const kith_matrix points = test_caller_copy(&c, &s.points);
        const char *path = test_path(folder, "graph.kith");
        kith_index *index = index_in(s.cpu, &s);
        test_works(s.cpu, kith_index_save(s.cpu, index, path));
        kith_index_free(index);
        test_works(s.gpu, kith_index_open(s.gpu, path, &index));
        wrong += differ(&s, index);
        kith_index_free(index);
        test_works(s.gpu, kith_cuda_index_create(s.gpu, &points, &s.made, &index, c.handle));
        test_works(s.gpu, kith_index_save(s.gpu, index, path));
        kith_index_free(index);
        test_works(s.gpu, kith_index_open(s.gpu, path, &index));
        wrong += differ(&s, index);
        test_works(s.gpu, kith_index_add(s.gpu, index, &s.more));
        assert_true(recall_of(&s, index, &s.all) >= LEAST_RECALL);
        kith_index_free(index);
        test_caller_release(&c, points.data);
        test_caller_close(&c);
        scene_end(&s);
    }
    assert_int_equal(wrong, 0);
    (void)printf("saved here and there, opened on a GPU: the same bytes, and changed\n");
}

/* ---- Under a filter -------------------------------------------------------------------------- */

/* A bitmap, groups, and ids that are left out: what an exact search finds. */
static kith_search_params filter_of(const scene *s, int turn, kith_filter *filter)
{
    static uint8_t allow[(ROWS + 7) / 8];
    static int64_t groups[ROWS];
    static uint32_t excluded[QUERIES];
    kith_search_params params = kith_search_params_default();
    *filter = kith_filter_default();
    params.metric = s->of->metric;
    params.k = 2;
    memset(allow, turn == 0 ? 0x5b : 0xff, sizeof allow);
    for (int64_t i = 0; i < ROWS; i++) {
        groups[i] = i % 2;
    }
    for (uint32_t i = 0; i < QUERIES; i++) {
        excluded[i] = i % (uint32_t)s->of->rows;
    }
    filter->allow = turn == 0 || turn == 1 ? allow : NULL;
    if (turn == 2) {
        filter->rule = KITH_RULE_EACH;
        filter->groups = groups;
        params.k = 1;
    }
    params.filter = turn < 3 ? filter : NULL;
    params.exclude = turn == 3 ? excluded : NULL;
    return params;
}

static int differ_filtered(const scene *s, const test_caller *c, const kith_index *index, int turn)
{
    kith_filter filter;
    kith_search_params params = filter_of(s, turn, &filter);
    const int64_t wide = turn == 2 ? 2 : params.k;
    kith_walk_report told = {.struct_size = sizeof told};
    kith_neighbors wanted = test_answer_make(QUERIES, wide);
    kith_neighbors out = test_answer_make(QUERIES, wide);
    const kith_neighbors there = test_caller_answer(c, QUERIES, wide);
    const kith_matrix asked = test_caller_copy(c, &s->queries.matrix);
    test_works(s->cpu, kith_search(s->cpu, &s->points, &s->queries.matrix, &params, &wanted, NULL));
    params.walk_report = &told;
    test_works(s->gpu, kith_index_search(s->gpu, index, &s->queries.matrix, &params, &out, NULL));
    test_works(s->gpu, kith_cuda_index_search(s->gpu, index, &asked, &params, &there, c->handle));
    kith_neighbors fetched = test_caller_fetch(c, &there);
    const int wrong = test_answers_differ("under a filter", &wanted, &out) ||
                      test_answers_differ("under a filter, there", &wanted, &fetched) ||
                      told.exact != 1 || told.recall.recall != 1.0;
    test_answer_free(&fetched);
    test_caller_release(c, asked.data);
    test_answer_free(&out);
    test_answer_free(&wanted);
    return wrong;
}

static void filtered(void **state)
{
    (void)state;
    int wrong = 0;
    for (int i = first_of(5); i < SAMPLE_COUNT && SAMPLES[i].rows == ROWS; i += step_of_samples()) {
        scene s;
        scene_begin(&s, &SAMPLES[i]);
        test_caller c = test_caller_open();
        const kith_matrix points = test_caller_copy(&c, &s.points);
        kith_index *index[2] = {index_in(s.gpu, &s), NULL};
        test_works(s.gpu, kith_cuda_index_create(s.gpu, &points, &s.made, &index[1], c.handle));
        for (int turn = 0; turn < 4; turn++) {
            wrong += differ_filtered(&s, &c, index[0], turn);
            wrong += differ_filtered(&s, &c, index[1], turn);
        }
        kith_index_free(index[1]);
        kith_index_free(index[0]);
        test_caller_release(&c, points.data);
        test_caller_close(&c);
        scene_end(&s);
    }
    assert_int_equal(wrong, 0);
    (void)printf("a bitmap, groups, ids that are left out: an exact search's bytes\n");
}

/* ---- Several threads ------------------------------------------------------------------------- */

enum { WIDER = 2, SAMPLED = 3 }; /* turns */

static kith_status ask(kith_ctx *ctx, const kith_index *index, const scene *s, int turn,
                       const kith_neighbors *out)
{
    const test_walk_params params = params_of(s, turn);
    return test_index_walk(ctx, index, &s->queries.matrix, &params, out, NULL);
}

static kith_status ask_wider(kith_ctx *ctx, const kith_index *index, const void *arg,
                             const kith_neighbors *out)
{
    return ask(ctx, index, arg, WIDER, out);
}

static kith_status ask_with_sample(kith_ctx *ctx, const kith_index *index, const void *arg,
                                   const kith_neighbors *out)
{
    return ask(ctx, index, arg, SAMPLED, out);
}

static void by_threads(void **state)
{
    (void)state;
    scene s;
    scene_begin(&s, &SAMPLES[1]);
    kith_index *index = index_in(s.gpu, &s);
    const test_walk_params params = params_of(&s, WIDER);
    kith_neighbors wanted = walked(&s, &params, NULL);
    const test_life life = {.ask = ask_wider, .arg = &s, .wanted = &wanted};
    test_life_by_threads(&life, index);
    (void)printf("some threads search one graph on a GPU: the same bytes\n");
    test_answer_free(&wanted);
    kith_index_free(index);
    scene_end(&s);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static double no_distance(void *arg, const void *row1, const void *row2, int32_t cols)
{
    (void)arg;
    (void)row1;
    (void)row2;
    (void)cols;
    return 0.0;
}

static void refused(void **state)
{
    enum { LITTLE = 1 << 17 };
    (void)state;
    scene s;
    scene_begin(&s, &SAMPLES[0]);
    test_caller c = test_caller_open();
    const kith_matrix there = test_caller_copy(&c, &s.points);
    kith_index *other = NULL;
    kith_index_params made = s.made;
    made.metric = KITH_CUSTOM;
    made.custom = no_distance;
    test_fails(s.gpu, kith_index_create(s.gpu, &s.points, &made, &other), KITH_E_UNSUPPORTED,
               "a GPU cannot call");
    test_fails(s.gpu, kith_cuda_index_create(s.gpu, &there, &made, &other, c.handle),
               KITH_E_UNSUPPORTED, "a GPU cannot call");
    made = s.made;
    made.graph = NULL;
    kith_matrix one = there;
    one.rows = 1;
    test_fails(s.gpu, kith_cuda_index_create(s.gpu, &one, &made, &other, c.handle), KITH_E_ARGUMENT,
               "has at least 2");
    kith_ctx *little = test_gpu_ctx(2, LITTLE);
    test_fails(little, kith_index_create(little, &s.points, &s.made, &other), KITH_E_DEVICE_MEMORY,
               "memory");
    assert_null(other);
    kith_ctx_free(little);

    kith_index *index = index_in(s.cpu, &s);
    const test_walk_params params = params_of(&s, 0);
    kith_neighbors out = test_answer_make(QUERIES, params.k);
    test_fails(s.gpu, test_index_walk(s.gpu, index, &s.queries.matrix, &params, &out, NULL),
               KITH_E_UNSUPPORTED, "is the processor's");
    kith_index_free(index);
    index = index_in(s.gpu, &s);
    test_works(s.cpu, test_index_walk(s.cpu, index, &s.queries.matrix, &params, &out, NULL));
    union {
        const void *read;
        float *own;
    } data = {s.queries.matrix.data};
    data.own[7 * 16 + 5] = __builtin_nanf("");
    const kith_matrix bad = test_caller_copy(&c, &s.queries.matrix);
    for (int turn = 2; turn < 4; turn++) { /* without and with a sample */
        const test_walk_params like = params_of(&s, turn);
        kith_walk_params walk;
        const kith_search_params asked = test_walks(&like, &walk, NULL);
        const kith_neighbors answer = test_caller_answer(&c, QUERIES, like.k);
        test_fails(s.gpu, kith_cuda_index_search(s.gpu, index, &bad, &asked, &answer, c.handle),
                   KITH_E_DATA, "queries[7, 5] is NaN");
        kith_neighbors rest = test_caller_fetch(&c, &answer);
        test_answer_free(&rest);
    }
    kith_index_free(index);
    test_caller_release(&c, bad.data);
    test_caller_release(&c, there.data);
    test_caller_close(&c);
    test_answer_free(&out);
    scene_end(&s);
    (void)printf("a function, one row, too little memory, NaN, another device: refused\n");
}

/* With "auto" a graph is the processor's. */
static void automatic(void **state)
{
    (void)state;
    scene s;
    scene_begin(&s, &SAMPLES[0]);
    kith_ctx_params wanted = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    wanted.device = "auto";
    assert_int_equal(kith_ctx_create(&wanted, &ctx), KITH_OK);
    kith_index *index = index_in(ctx, &s);
    assert_int_equal(test_index_info(index).device, -1);
    kith_index_free(index);
    kith_ctx_free(ctx);
    scene_end(&s);
    (void)printf("with auto a graph that is kept is the processor's\n");
}

static void allocations_that_fail(void **state)
{
    test_folder *folder = *state;
    const sample of = {KITH_F32, KITH_EUCLIDEAN, 120, 6, KITH_F32, 0};
    scene s;
    scene_begin(&s, &of);
    kith_neighbors shape = test_answer_make(QUERIES, s.k);
    const test_life life = {.points = &s.points,
                            .made = &s.made,
                            .more = test_part_of(&s.more, 0, 2),
                            .ask = ask_with_sample,
                            .arg = &s,
                            .wanted = &shape,
                            .most = 4000};
    const long failed = test_life_with_faults(&life, test_path(folder, "faulty.kith"));
    (void)printf("%ld host allocations, each failed once: nothing is held, and it is said\n",
                 failed);
    test_answer_free(&shape);
    scene_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bytes),
        cmocka_unit_test(rows_on_the_device),
        cmocka_unit_test(made_there),
        cmocka_unit_test(changed),
        cmocka_unit_test_setup_teardown(saved, test_folder_setup, test_folder_teardown),
        cmocka_unit_test(filtered),
        cmocka_unit_test(by_threads),
        cmocka_unit_test(refused),
        cmocka_unit_test(automatic),
        cmocka_unit_test_setup_teardown(allocations_that_fail, test_folder_setup,
                                        test_folder_teardown)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
