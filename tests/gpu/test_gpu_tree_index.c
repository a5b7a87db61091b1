/* SPDX-License-Identifier: Apache-2.0
 * An index by tree that is kept on a GPU: the bytes of the processor's, whatever is asked of it and
 * as often as it is; of rows on the host and on the device; after rows were added and removed;
 * saved and opened; by several threads. What does not fit, and what no GPU's tree does, is said. */
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
#include "support/support_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 2300, QUERIES = 130, MORE = 50, MOST_K = 2100, K = 7, HEIGHT = 3 };

typedef struct sample {
    kith_dtype dtype;
    kith_metric metric;
    int64_t rows;
    int32_t cols;
    int64_t gap;
    kith_dtype asked;
    int32_t height;
} sample;

static const sample SAMPLES[] = {{KITH_F32, KITH_EUCLIDEAN, ROWS, 3, 0, KITH_F32, 0},
                                 {KITH_U8, KITH_SQEUCLIDEAN, ROWS, 6, 3, KITH_F32, 0},
                                 {KITH_F64, KITH_MANHATTAN, ROWS, 2, 8, KITH_F64, HEIGHT},
                                 {KITH_F16, KITH_CHEBYSHEV, ROWS, 40, 0, KITH_F64, 0},
                                 {KITH_I8, KITH_EUCLIDEAN, 17, 4, 0, KITH_I8, 0},
                                 {KITH_F32, KITH_EUCLIDEAN, 2, 5, 4, KITH_F32, 0},
                                 {KITH_F32, KITH_EUCLIDEAN, 1, 64, 0, KITH_F32, 0}};
enum { SAMPLE_COUNT = sizeof SAMPLES / sizeof *SAMPLES };

typedef struct scene {
    const sample *of;
    kith_ctx *cpu;
    kith_ctx *gpu;
    test_rows points;
    test_rows queries;
    kith_index_params made;
} scene;

static double scale_of(kith_dtype dtype)
{
    return dtype == KITH_U8 || dtype == KITH_I8 ? 90.0 : 1.0;
}

/* A third of the points are copies of others. */
static scene scene_of(const sample *of)
{
    scene s = {.of = of,
               .cpu = test_cpu_ctx(),
               .gpu = test_gpu_ctx(2, 0),
               .points = test_rows_make(of->dtype, of->rows, of->cols, of->gap),
               .queries = test_rows_make(of->asked, QUERIES, of->cols, of->gap),
               .made = kith_index_params_default()};
    uint64_t seed = 11;
    test_rows_fill(&s.points, scale_of(of->dtype), of->dtype == KITH_U8, &seed);
    test_rows_fill(&s.queries, scale_of(of->dtype), of->dtype == KITH_U8, &seed);
    for (int64_t i = 2; i < of->rows; i += 3) {
        test_rows_copy(&s.points, i, &s.points, i / 2);
    }
    s.made.metric = of->metric;
    s.made.method = KITH_METHOD_TREE;
    s.made.tree_height = of->height;
    return s;
}

static void scene_end(scene *s)
{
    test_rows_free(&s->queries);
    test_rows_free(&s->points);
    kith_ctx_free(s->gpu);
    kith_ctx_free(s->cpu);
}

static kith_index *index_in(kith_ctx *ctx, const scene *s, const kith_matrix *points)
{
    kith_index *index = NULL;
    test_works(ctx, kith_index_create(ctx, points, &s->made, &index));
    return index;
}

/* One search of both; the report of the GPU's must say where it was. */
static int differ(const scene *s, const kith_index *wanted, const kith_index *got,
                  const kith_search_params *params)
{
    const kith_matrix *asked = &s->queries.matrix;
    kith_neighbors a = test_answer_make(QUERIES, params->k);
    kith_neighbors b = test_answer_make(QUERIES, params->k);
    kith_report told = {.struct_size = (uint32_t)sizeof told};
    test_works(s->cpu, kith_index_search(s->cpu, wanted, asked, params, &a, NULL));
    test_works(s->gpu, kith_index_search(s->gpu, got, asked, params, &b, &told));
    const int wrong = test_answers_differ("kept tree", &a, &b) ||
                      strncmp(told.backend, "cuda:", 5) != 0 || strcmp(told.screen, "tree") != 0 ||
                      told.exact != KITH_CERTIFIED;
    test_answer_free(&b);
    test_answer_free(&a);
    return wrong;
}

/* Any k that there is, with and without excluded ids, within a radius. */
static int compare(const scene *s, const kith_index *wanted, const kith_index *got)
{
    static const int64_t wishes[] = {K, 1, 100, MOST_K, K};
    const int64_t rows = test_index_info(got).points.rows;
    uint32_t excluded[QUERIES];
    int wrong = 0;
    for (uint32_t i = 0; i < QUERIES; i++) {
        excluded[i] = i % 4 == 0 ? KITH_ID_NONE : i * 11 % (uint32_t)rows;
    }
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        kith_search_params params = kith_search_params_default();
        params.k = wishes[i] < rows ? wishes[i] : rows;
        wrong += differ(s, wanted, got, &params);
        params.k = wishes[i] < rows - 1 ? wishes[i] : rows - 1;
        params.exclude = excluded;
        wrong += params.k > 0 ? differ(s, wanted, got, &params) : 0;
        params.flags = KITH_WITHIN_RADIUS;
        params.radius = scale_of(s->of->dtype) * 0.2;
        wrong += params.k > 0 ? differ(s, wanted, got, &params) : 0;
    }
    return wrong;
}

static void same_bytes(void **state)
{
    (void)state;
    int wrong = 0;
    for (int i = 0; i < SAMPLE_COUNT; i++) {
        scene s = scene_of(&SAMPLES[i]);
        kith_index *wanted = index_in(s.cpu, &s, &s.points.matrix);
        kith_index *got = index_in(s.gpu, &s, &s.points.matrix);
        const kith_index_info info = test_index_info(got);
        assert_int_equal(info.method, KITH_METHOD_TREE);
        assert_true(info.bytes > 0);
        wrong += compare(&s, wanted, got);
        kith_index_free(got);
        kith_index_free(wanted);
        scene_end(&s);
    }
    assert_int_equal(wrong, 0);
    (void)printf("a tree kept on a GPU, %d sets, searched 15 times each: the processor's bytes\n",
                 SAMPLE_COUNT);
}

/* Points, queries and answers on the device. */
static int compare_there(const scene *s, const test_caller *c, const kith_index *wanted,
                         const kith_index *got)
{
    const kith_matrix there = test_caller_copy(c, &s->queries.matrix);
    uint32_t excluded[QUERIES] = {0};
    kith_search_params params = kith_search_params_default();
    params.k = s->of->rows < K ? s->of->rows - 1 : K;
    params.exclude = excluded;
    kith_neighbors a = test_answer_make(QUERIES, params.k);
    test_works(s->cpu, kith_index_search(s->cpu, wanted, &s->queries.matrix, &params, &a, NULL));
    const kith_neighbors out = test_caller_answer(c, QUERIES, params.k);
    test_works(s->gpu, kith_cuda_index_search(s->gpu, got, &there, &params, &out, c->handle));
    kith_neighbors b = test_caller_fetch(c, &out);
    int wrong = test_answers_differ("rows on the device", &a, &b);
    test_answer_free(&b);
    params.flags = KITH_WITHIN_RADIUS;
    params.radius = scale_of(s->of->dtype) * 0.2;
    test_works(s->cpu, kith_index_search(s->cpu, wanted, &s->queries.matrix, &params, &a, NULL));
    const kith_neighbors near = test_caller_answer(c, QUERIES, params.k);
    test_works(s->gpu, kith_cuda_index_search(s->gpu, got, &there, &params, &near, c->handle));
    b = test_caller_fetch(c, &near);
    wrong += test_answers_differ("rows on the device, within a radius", &a, &b);
    test_answer_free(&b);
    test_answer_free(&a);
    test_caller_release(c, there.data);
    return wrong;
}

static void rows_on_the_device(void **state)
{
    (void)state;
    int wrong = 0;
    for (int i = 0; i < SAMPLE_COUNT; i++) {
        if (SAMPLES[i].rows == 1) {
            continue;
        }
        scene s = scene_of(&SAMPLES[i]);
        test_caller c = test_caller_open();
        const kith_matrix points = test_caller_copy(&c, &s.points.matrix);
        kith_index *wanted = index_in(s.cpu, &s, &s.points.matrix);
        kith_index *got = NULL;
        test_works(s.gpu, kith_cuda_index_create(s.gpu, &points, &s.made, &got, c.handle));
        wrong += compare_there(&s, &c, wanted, got);
        wrong += compare(&s, wanted, got);
        kith_index_free(got);
        got = index_in(s.gpu, &s, &s.points.matrix);
        wrong += compare_there(&s, &c, wanted, got);
        kith_index_free(got);
        kith_index_free(wanted);
        test_caller_release(&c, points.data);
        test_caller_close(&c);
        scene_end(&s);
    }
    assert_int_equal(wrong, 0);
    (void)printf("points, or queries alone, in the memory of the GPU: the processor's bytes\n");
}

/* Added to and removed from both, twice. */
static void changed(void **state)
{
    static const uint32_t gone[] = {5, 31, 2000, ROWS + 7, 5};
    enum { GONE = sizeof gone / sizeof *gone };
    (void)state;
    int wrong = 0;
    for (int i = 0; SAMPLES[i].rows == ROWS; i++) {
        scene s = scene_of(&SAMPLES[i]);
        test_rows more = test_rows_make(s.of->dtype, MORE, s.of->cols, 0);
        uint64_t seed = 5;
        test_rows_fill(&more, scale_of(s.of->dtype), s.of->dtype == KITH_U8, &seed);
        test_rows_copy(&more, 3, &s.points, 40);
        kith_index *wanted = index_in(s.cpu, &s, &s.points.matrix);
        kith_index *got = index_in(s.gpu, &s, &s.points.matrix);
        for (int turn = 0; turn < 2; turn++) {
            test_works(s.cpu, kith_index_add(s.cpu, wanted, &more.matrix));
            test_works(s.gpu, kith_index_add(s.gpu, got, &more.matrix));
            wrong += compare(&s, wanted, got);
            test_works(s.cpu, kith_index_remove(s.cpu, wanted, gone, GONE));
            test_works(s.gpu, kith_index_remove(s.gpu, got, gone, GONE));
            wrong += compare(&s, wanted, got);
        }
        kith_index_free(got);
        kith_index_free(wanted);
        test_rows_free(&more);
        scene_end(&s);
    }
    assert_int_equal(wrong, 0);
    (void)printf("rows added and removed: the bytes of the processor's changed tree\n");
}

static bool same_files(const char *one, const char *other)
{
    FILE *a = fopen(one, "rb");
    FILE *b = fopen(other, "rb");
    assert_non_null(a);
    assert_non_null(b);
    int x = 0;
    int y = 0;
    while (x == y && x != EOF) {
        x = fgetc(a);
        y = fgetc(b);
    }
    (void)fclose(b);
    (void)fclose(a);
    return x == y;
}

static void saved(void **state)
{
    test_folder *folder = *state;
    int wrong = 0;
    for (int i = 0; i < SAMPLE_COUNT; i++) {
        scene s = scene_of(&SAMPLES[i]);
        kith_index *wanted = index_in(s.cpu, &s, &s.points.matrix);
        kith_index *got = index_in(s.gpu, &s, &s.points.matrix);
        kith_index *opened = NULL;
        const char *there = test_path(folder, "tree_of_gpu.kith");
        const char *here = test_path(folder, "tree_of_cpu.kith");
        test_works(s.gpu, kith_index_save(s.gpu, got, there));
        test_works(s.cpu, kith_index_save(s.cpu, wanted, here));
        wrong += !same_files(there, here);
        kith_index_free(got);
        test_works(s.gpu, kith_index_open(s.gpu, here, &opened));
        wrong += compare(&s, wanted, opened);
        test_works(s.gpu, kith_index_save(s.gpu, opened, there));
        wrong += !same_files(there, here);
        test_works(s.cpu, kith_index_add(s.cpu, wanted, &s.points.matrix));
        test_works(s.gpu, kith_index_add(s.gpu, opened, &s.points.matrix));
        wrong += compare(&s, wanted, opened);
        kith_index_free(opened);
        kith_index_free(wanted);
        scene_end(&s);
    }
    assert_int_equal(wrong, 0);
    (void)printf("saved: the processor's file; opened on the GPU, and changed: its bytes\n");
}

/* By the tree that is kept, of queries here and there, and of the points themselves. */
static void radius(void **state)
{
    (void)state;
    int wrong = 0;
    for (int i = 0; i < SAMPLE_COUNT; i++) {
        scene s = scene_of(&SAMPLES[i]);
        test_caller c = test_caller_open();
        const kith_matrix points = test_caller_copy(&c, &s.points.matrix);
        kith_index *wanted = index_in(s.cpu, &s, &s.points.matrix);
        kith_index *got[2] = {index_in(s.gpu, &s, &s.points.matrix), NULL};
        test_works(s.gpu, kith_cuda_index_create(s.gpu, &points, &s.made, &got[1], c.handle));
        kith_radius_params params = kith_radius_params_default();
        params.radius = scale_of(s.of->dtype) * 0.3;
        const kith_matrix there = test_caller_copy(&c, &s.queries.matrix);
        for (int turn = 0; turn < 6; turn++) {
            const kith_matrix *asked = turn < 4 ? &s.queries.matrix : NULL;
            kith_ranges *one = NULL;
            kith_ranges *two = NULL;
            test_works(s.cpu, kith_index_radius(s.cpu, wanted, asked, &params, &one));
            test_works(s.gpu, turn < 2
                                  ? kith_cuda_index_radius(s.gpu, got[turn % 2], &there, &params,
                                                           &two, c.handle)
                                  : kith_index_radius(s.gpu, got[turn % 2], asked, &params, &two));
            const kith_lists *a = kith_ranges_lists(one);
            const kith_lists *b = kith_ranges_lists(two);
            wrong +=
                memcmp(a->offsets, b->offsets, ((size_t)a->rows + 1) * sizeof *a->offsets) != 0 ||
                memcmp(a->ids, b->ids, (size_t)a->offsets[a->rows] * sizeof *a->ids) != 0;
            kith_ranges_free(two);
            kith_ranges_free(one);
        }
        kith_index_free(got[1]);
        kith_index_free(got[0]);
        kith_index_free(wanted);
        test_caller_release(&c, there.data);
        test_caller_release(&c, points.data);
        test_caller_close(&c);
        scene_end(&s);
    }
    assert_int_equal(wrong, 0);
    (void)printf("all within a radius of a tree kept on a GPU: the processor's bytes\n");
}

/* ---- Several threads ------------------------------------------------------------------------- */

/* For K neighbours. */
static kith_status ask(kith_ctx *ctx, const kith_index *index, const void *arg,
                       const kith_neighbors *out)
{
    const scene *s = arg;
    kith_search_params params = kith_search_params_default();
    params.k = K;
    return kith_index_search(ctx, index, &s->queries.matrix, &params, out, NULL);
}

/* What the processor finds of the points themselves. */
static kith_neighbors truth_of(const scene *s)
{
    kith_search_params params = kith_search_params_default();
    kith_neighbors truth = test_answer_make(QUERIES, K);
    params.k = K;
    test_works(s->cpu,
               kith_search(s->cpu, &s->points.matrix, &s->queries.matrix, &params, &truth, NULL));
    return truth;
}

static void by_threads(void **state)
{
    (void)state;
    scene s = scene_of(&SAMPLES[0]);
    kith_index *index = index_in(s.gpu, &s, &s.points.matrix);
    kith_neighbors wanted = truth_of(&s);
    const test_life life = {.ask = ask, .arg = &s, .wanted = &wanted};
    test_life_by_threads(&life, index);
    (void)printf("some threads search one tree on a GPU: the processor's bytes\n");
    test_answer_free(&wanted);
    kith_index_free(index);
    scene_end(&s);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void plan_holds(void **state)
{
    (void)state;
    scene s = scene_of(&SAMPLES[0]);
    kith_index *index = index_in(s.gpu, &s, &s.points.matrix);
    for (int64_t k = 1; k <= MOST_K; k = k * 8 > MOST_K && k < MOST_K ? MOST_K : k * 8) {
        kith_search_params params = kith_search_params_default();
        kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
        kith_report told = {.struct_size = (uint32_t)sizeof told};
        params.k = k;
        kith_neighbors out = test_answer_make(QUERIES, k);
        test_works(s.gpu, kith_index_plan(s.gpu, index, &s.queries.matrix, &params, &plan));
        test_works(s.gpu, kith_index_search(s.gpu, index, &s.queries.matrix, &params, &out, &told));
        const uint64_t kept = test_index_info(index).bytes;
        assert_string_equal(plan.backend, told.backend);
        assert_string_equal(plan.method, "tree");
        assert_int_equal(plan.gpu_query_stripes, 1);
        assert_true(plan.gpu_least_bytes <= plan.gpu_bytes);
        assert_true(plan.gpu_bytes <= plan.gpu_budget_bytes);
        (void)printf("k %lld: %llu bytes of the device, planned %llu beside %llu\n", (long long)k,
                     (unsigned long long)told.gpu_peak_bytes, (unsigned long long)plan.gpu_bytes,
                     (unsigned long long)kept);
        assert_true(told.gpu_peak_bytes <= plan.gpu_bytes + kept);
        test_answer_free(&out);
    }
    kith_index_free(index);
    scene_end(&s);
}

static void refused(void **state)
{
    enum { WIDE = 65, SMALL = 300000, LITTLE = 1 << 18 };
    (void)state;
    scene s = scene_of(&SAMPLES[0]);
    kith_index *other = NULL;
    kith_index_params made = s.made;
    made.metric = KITH_COSINE;
    test_fails(s.gpu, kith_index_create(s.gpu, &s.points.matrix, &made, &other), KITH_E_ARGUMENT,
               "has no tree");
    made = s.made;
    made.tree_height = 20;
    test_fails(s.gpu, kith_index_create(s.gpu, &s.points.matrix, &made, &other), KITH_E_ARGUMENT,
               "must be 0 to");
    test_rows wide = test_rows_make(KITH_F32, QUERIES, WIDE, 0);
    test_fails(s.gpu, kith_index_create(s.gpu, &wide.matrix, &s.made, &other), KITH_E_UNSUPPORTED,
               "none of more than 64 columns");
    test_rows_free(&wide);

    test_rows many = test_rows_make(KITH_F32, SMALL, 2, 0);
    kith_ctx *little = test_gpu_ctx(2, LITTLE);
    test_fails(little, kith_index_create(little, &many.matrix, &s.made, &other),
               KITH_E_DEVICE_MEMORY, "does not fit into the memory of the GPU");
    assert_null(other);
    kith_ctx_free(little);
    test_rows_free(&many);
    scene_end(&s);
    (void)printf("65 columns, a metric, a height, too little memory: refused\n");
}

/* The smallest budget that an index of these points is made in, to a quarter of a megabyte. */
static kith_ctx *narrow_ctx(const kith_matrix *points, const kith_index_params *made,
                            kith_index **index)
{
    enum { STEP = 1 << 18, MOST = 256 };
    for (uint64_t i = 1; i <= MOST; i++) {
        kith_ctx *ctx = test_gpu_ctx(2, i * STEP);
        if (kith_index_create(ctx, points, made, index) == KITH_OK) {
            (void)printf("a tree of %lld points is made in %llu bytes\n", (long long)points->rows,
                         (unsigned long long)(i * STEP));
            return ctx;
        }
        kith_ctx_free(ctx);
    }
    fail_msg("no budget is enough");
    return NULL;
}

/* Queries go in stripes; a second tree beside the first one has no room, and then the first one
 * stays what it was. */
static void little_memory(void **state)
{
    enum { POINTS = 30000, COLS = 3, MANY_K = 20 };
    (void)state;
    const sample of = {KITH_F32, KITH_EUCLIDEAN, POINTS, COLS, 0, KITH_F32, 0};
    scene s = scene_of(&of);
    kith_index *index = NULL;
    kith_ctx *little = narrow_ctx(&s.points.matrix, &s.made, &index);
    kith_matrix few = s.points.matrix;
    few.rows = 1;
    for (int turn = 0; turn < 2; turn++) {
        kith_search_params params = kith_search_params_default();
        kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
        kith_report told = {.struct_size = (uint32_t)sizeof told};
        params.k = MANY_K;
        kith_neighbors wanted = test_answer_make(POINTS, MANY_K);
        kith_neighbors out = test_answer_make(POINTS, MANY_K);
        const kith_matrix *asked = &s.points.matrix;
        test_works(s.cpu, kith_search(s.cpu, asked, asked, &params, &wanted, NULL));
        test_works(little, kith_index_plan(little, index, asked, &params, &plan));
        test_works(little, kith_index_search(little, index, asked, &params, &out, &told));
        assert_true(plan.gpu_query_stripes > 1);
        assert_true(plan.gpu_least_bytes < plan.gpu_budget_bytes);
        assert_true(told.gpu_peak_bytes <= plan.gpu_budget_bytes + test_index_info(index).bytes);
        assert_true(test_answers_equal(&wanted, &out));
        test_answer_free(&out);
        test_answer_free(&wanted);
        if (turn == 0) {
            test_fails(little, kith_index_add(little, index, &few), KITH_E_DEVICE_MEMORY,
                       "does not fit into the memory of the GPU");
        }
    }
    assert_int_equal(test_index_info(index).points.rows, POINTS);
    (void)printf("little memory: stripes, and a change that does not fit leaves the index\n");
    kith_index_free(index);
    kith_ctx_free(little);
    scene_end(&s);
}

static void allocations_that_fail(void **state)
{
    test_folder *folder = *state;
    const sample of = {KITH_F32, KITH_EUCLIDEAN, 200, 3, 0, KITH_F32, 0};
    scene s = scene_of(&of);
    kith_neighbors wanted = truth_of(&s);
    test_life life = {.points = &s.points.matrix,
                      .made = &s.made,
                      .more = s.points.matrix,
                      .ask = ask,
                      .arg = &s,
                      .wanted = &wanted,
                      .changes_nothing = true,
                      .most = 2000};
    life.more.rows = 1;
    const long failed = test_life_with_faults(&life, test_path(folder, "faulty.kith"));
    (void)printf("%ld host allocations, each failed once: nothing is held, and it is said\n",
                 failed);
    test_answer_free(&wanted);
    scene_end(&s);
}

/* With "auto" a tree is the processor's, which answers whatever k and radius. */
static void automatic(void **state)
{
    enum { MANY = 400000, ASKED = 64 };
    (void)state;
    kith_search_params params = kith_search_params_default();
    kith_index_params made = kith_index_params_default();
    test_rows points = test_rows_make(KITH_F32, MANY, 2, 0);
    uint64_t seed = 3;
    test_rows_fill(&points, 1.0, 0, &seed);
    kith_matrix asked = points.matrix;
    asked.rows = ASKED;
    made.method = KITH_METHOD_TREE;
    params.k = K;
    kith_neighbors out[2] = {test_answer_make(ASKED, K), test_answer_make(ASKED, K)};
    for (int i = 0; i < 2; i++) {
        kith_ctx_params wanted = kith_ctx_params_default();
        kith_report told = {.struct_size = (uint32_t)sizeof told};
        kith_index *index = NULL;
        kith_ctx *ctx = NULL;
        wanted.device = i == 0 ? "cuda" : "auto";
        wanted.threads = 1;
        assert_int_equal(kith_ctx_create(&wanted, &ctx), KITH_OK);
        test_works(ctx, kith_index_create(ctx, &points.matrix, &made, &index));
        test_works(ctx, kith_index_search(ctx, index, &asked, &params, &out[i], &told));
        assert_string_equal(told.backend, i == 0 ? "cuda:0" : "cpu");
        kith_index_free(index);
        kith_ctx_free(ctx);
    }
    assert_true(test_answers_equal(&out[0], &out[1]));
    (void)printf(
        "a tree that is kept is a GPU's where one is named, and the processor's with auto\n");
    test_answer_free(&out[1]);
    test_answer_free(&out[0]);
    test_rows_free(&points);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bytes),
        cmocka_unit_test(rows_on_the_device),
        cmocka_unit_test(changed),
        cmocka_unit_test_setup_teardown(saved, test_folder_setup, test_folder_teardown),
        cmocka_unit_test(radius),
        cmocka_unit_test(by_threads),
        cmocka_unit_test(plan_holds),
        cmocka_unit_test(refused),
        cmocka_unit_test(little_memory),
        cmocka_unit_test_setup_teardown(allocations_that_fail, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test(automatic)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
