/* SPDX-License-Identifier: Apache-2.0
 * Prepared corpora: searched again and again, saved, opened, damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "file/file_container.h"
#include "host/host_cpu.h"
#include "oracle/plain_knn.h"
#include "support/support_calls.h"
#include "support/support_files.h"
#include "support/support_keys.h"
#include "support/support_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { K = 6, QUERIES = 23 };

typedef struct answer {
    uint32_t ids[QUERIES * K];
    double distances[QUERIES * K];
} answer;

static kith_neighbors view(answer *a)
{
    return (kith_neighbors){.ids = a->ids, .distances64 = a->distances, .rows = QUERIES, .k = K};
}

static void fill(test_rows *rows, kith_metric metric, uint64_t *seed)
{
    const kith_dtype dtype = rows->matrix.dtype;
    test_rows_fill(rows, dtype == KITH_U8 ? 255.0 : 2.0,
                   dtype == KITH_U8 || metric == KITH_KL || metric == KITH_CHI2, seed);
    for (int64_t i = 5; i < rows->matrix.rows; i += 4) {
        test_rows_copy(rows, i, rows, i % 4);
    }
    for (int32_t c = 0; rows->matrix.rows > 8 && c < rows->matrix.cols; c++) {
        test_rows_set(rows, 8, c, 0.0);
    }
}

static void search(kith_ctx *ctx, const kith_index *corpus, const kith_matrix *queries, answer *a)
{
    kith_search_params params = kith_search_params_default();
    params.k = K;
    memset(a, 0xff, sizeof *a);
    const kith_neighbors out = view(a);
    const kith_status status = kith_index_search(ctx, corpus, queries, &params, &out, NULL);
    if (status != KITH_OK) {
        (void)printf("%s\n", kith_ctx_detail(ctx));
    }
    assert_int_equal(status, KITH_OK);
}

static void check_oracle(kith_metric metric, const kith_matrix *points, const kith_matrix *queries,
                         const answer *a)
{
    answer expected;
    oracle_knn(metric, queries, points, K, 0, expected.ids, expected.distances);
    for (int i = 0; i < QUERIES * K; i++) {
        expected.distances[i] = oracle_distance(metric, expected.distances[i]);
    }
    assert_memory_equal(a->ids, expected.ids, sizeof expected.ids);
    assert_memory_equal(a->distances, expected.distances, sizeof expected.distances);
}

static void *copy_of(const kith_matrix *m)
{
    const size_t row_bytes = (size_t)m->cols * (size_t)kith_dtype_bytes(m->dtype);
    unsigned char *copy = malloc((size_t)m->rows * row_bytes);
    assert_non_null(copy);
    for (int64_t i = 0; i < m->rows; i++) {
        memcpy(copy + (size_t)i * row_bytes, (const char *)m->data + i * m->stride_bytes,
               row_bytes);
    }
    return copy;
}

/* Fresh, searched by another context, saved, opened on every instruction set. */
static void round_trip(test_folder *folder, kith_metric metric, kith_dtype dtype, int64_t rows,
                       int32_t cols)
{
    uint64_t seed = (uint64_t)rows + 3;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    kith_ctx *other = test_ctx(KIN_ISA_PORTABLE, 1);
    test_rows points = test_rows_make(dtype, rows, cols, 12);
    test_rows asked = test_rows_make(dtype, QUERIES, cols, 0);
    fill(&points, metric, &seed);
    fill(&asked, metric, &seed);
    answer fresh;
    answer again;
    kith_index *corpus = NULL;
    assert_int_equal(test_index_create(ctx, &points.matrix, metric, &corpus), KITH_OK);
    assert_int_equal(test_index_info(corpus).metric, metric);
    assert_ptr_equal(test_index_info(corpus).points.data, points.matrix.data);
    assert_true(test_index_info(corpus).bytes > 0);
    search(ctx, corpus, &asked.matrix, &fresh);
    check_oracle(metric, &points.matrix, &asked.matrix, &fresh);
    search(other, corpus, &asked.matrix, &again);
    assert_memory_equal(&fresh, &again, sizeof fresh);

    const char *path = test_path(folder, "corpus.kith");
    assert_int_equal(kith_index_save(ctx, corpus, path), KITH_OK);
    const uint64_t bytes = test_index_info(corpus).bytes;
    kith_index_free(corpus);

    for (int isa = 0; isa < KIN_ISA_COUNT; isa++) {
        if (!kin_cpu_has((kin_isa)isa)) {
            continue;
        }
        kith_ctx *reader = test_ctx((kin_isa)isa, 2);
        const kith_status status = kith_index_open(reader, path, &corpus);
        if (status != KITH_OK) {
            (void)printf("%s\n", kith_ctx_detail(reader));
        }
        assert_int_equal(status, KITH_OK);
        assert_int_equal(test_index_info(corpus).metric, metric);
        const kith_index_info mapped_info = test_index_info(corpus);
        const kith_matrix *mapped = &mapped_info.points;
        assert_true(mapped->rows == rows && mapped->cols == cols && mapped->dtype == dtype);
        void *copy = copy_of(&points.matrix);
        assert_memory_equal(mapped->data, copy,
                            (size_t)rows * (size_t)cols * (size_t)kith_dtype_bytes(dtype));
        free(copy);
        search(reader, corpus, &asked.matrix, &again);
        assert_memory_equal(&fresh, &again, sizeof fresh);
        if ((kin_isa)isa == kin_cpu_best() && metric <= KITH_CORRELATION && rows > 1000) {
            assert_true(test_index_info(corpus).bytes < bytes / 8); /* it lies in the file */
        }
        /* What was opened can be saved: the same file. */
        const char *second = test_path(folder, "again.kith");
        assert_int_equal(kith_index_save(reader, corpus, second), KITH_OK);
        if ((kin_isa)isa == kin_cpu_best()) {
            size_t sizes[2];
            unsigned char *files[2] = {test_read(path, &sizes[0]), test_read(second, &sizes[1])};
            assert_int_equal(sizes[0], sizes[1]);
            assert_memory_equal(files[0], files[1], sizes[0]);
            free(files[0]);
            free(files[1]);
        }
        kith_index_free(corpus);
        kith_ctx_free(reader);
    }
    test_rows_free(&asked);
    test_rows_free(&points);
    kith_ctx_free(other);
    kith_ctx_free(ctx);
}

static void answers_survive_the_file(void **state)
{
    test_folder *folder = *state;
    int count = 0;
    for (int metric = KITH_EUCLIDEAN; metric != 0; metric = test_next_metric(metric)) {
        round_trip(folder, (kith_metric)metric, KITH_F32, 300, 9);
        round_trip(folder, (kith_metric)metric, KITH_U8, 120, 20);
        count += 2;
    }
    round_trip(folder, KITH_EUCLIDEAN, KITH_F32, 9000, 5);
    round_trip(folder, KITH_CORRELATION, KITH_F64, 5000, 12);
    round_trip(folder, KITH_SQEUCLIDEAN, KITH_U8, 5000, 30);
    (void)printf("%d corpora: created, saved, opened on every instruction set: the oracle's "
                 "bytes\n",
                 count + 3);
}

/* A corpus that waits for bytes is asked with floats. */
static void other_types_are_answered(void **state)
{
    (void)state;
    uint64_t seed = 8;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    test_rows points = test_rows_make(KITH_U8, 200, 11, 0);
    test_rows asked = test_rows_make(KITH_F32, QUERIES, 11, 0);
    fill(&points, KITH_EUCLIDEAN, &seed);
    test_rows_fill(&asked, 255.0, 1, &seed);
    kith_index *corpus = NULL;
    answer a;
    assert_int_equal(test_index_create(ctx, &points.matrix, KITH_EUCLIDEAN, &corpus), KITH_OK);
    search(ctx, corpus, &asked.matrix, &a);
    check_oracle(KITH_EUCLIDEAN, &points.matrix, &asked.matrix, &a);

    kith_search_params params = kith_search_params_default();
    const kith_neighbors out = view(&a);
    params.k = K;
    params.metric = KITH_COSINE;
    assert_int_equal(kith_index_search(ctx, corpus, &asked.matrix, &params, &out, NULL),
                     KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(ctx), "cosine"));
    params.metric = KITH_EUCLIDEAN;
    params.k = 201;
    assert_int_equal(kith_index_search(ctx, corpus, &asked.matrix, &params, &out, NULL),
                     KITH_E_ARGUMENT);
    assert_int_equal(kith_index_search(ctx, NULL, &asked.matrix, &params, &out, NULL),
                     KITH_E_ARGUMENT);
    kith_index_free(corpus);
    assert_int_equal(test_index_create(ctx, &points.matrix, KITH_CUSTOM, &corpus), KITH_E_ARGUMENT);
    assert_null(corpus);
    test_rows_free(&asked);
    test_rows_free(&points);
    kith_ctx_free(ctx);
    (void)printf("a corpus of bytes answers floats; wrong questions are refused\n");
}

/* Every byte of a small file changed, and the file cut: an error, never an answer. */
static void damage_is_noticed(void **state)
{
    test_folder *folder = *state;
    uint64_t seed = 8;
    kith_ctx *ctx = test_ctx(KIN_ISA_PORTABLE, 1);
    test_rows points = test_rows_make(KITH_F32, 9, 2, 0);
    fill(&points, KITH_COSINE, &seed);
    kith_index *corpus = NULL;
    const char *path = test_path(folder, "small.kith");
    assert_int_equal(test_index_create(ctx, &points.matrix, KITH_COSINE, &corpus), KITH_OK);
    assert_int_equal(kith_index_save(ctx, corpus, path), KITH_OK);
    kith_index_free(corpus);
    size_t bytes = 0;
    unsigned char *file = test_read(path, &bytes);
    for (size_t i = 0; i < bytes; i += 3) {
        file[i] ^= 0x41;
        const char *broken = test_write(folder, "broken.kith", file, bytes);
        assert_int_not_equal(kith_index_open(ctx, broken, &corpus), KITH_OK);
        assert_null(corpus);
        file[i] ^= 0x41;
    }
    for (size_t cut = 0; cut < bytes; cut += 97) {
        const char *broken = test_write(folder, "broken.kith", file, cut);
        assert_int_not_equal(kith_index_open(ctx, broken, &corpus), KITH_OK);
    }
    free(file);
    assert_int_equal(kith_index_open(ctx, "", &corpus), KITH_E_ARGUMENT);
    assert_int_equal(kith_index_open(ctx, test_path(folder, "none.kith"), &corpus), KITH_E_IO);
    kith_index_free(NULL);
    test_rows_free(&points);
    kith_ctx_free(ctx);
    (void)printf("damage in each third byte, and each cut, is an error\n");
}

/* The sections of a corpus file, some of which a test changes. */
typedef struct parts {
    kin_container *container;
    kin_section sections[32];
    int32_t count;
} parts;

static void take_apart(kith_ctx *ctx, const char *path, parts *p)
{
    static const char *const tags[] = {
        "points",         "corpus",       "transforms", "firsts", "weights",      "next",
        "degenerates",    "order",        "mean",       "panels", "start",        "odd",
        "half_term",      "row_term",     "norm",       "lost",   "fine_centres", "fine_radii",
        "coarse_centres", "coarse_radii", "index",      "ids"};
    memset(p, 0, sizeof *p);
    assert_int_equal(kin_container_open(ctx, path, true, &p->container), KITH_OK);
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        if (kin_container_has(p->container, tags[i])) {
            kin_section *section = &p->sections[p->count++];
            section->tag = tags[i];
            assert_int_equal(
                kin_container_section(ctx, p->container, tags[i], &section->data, &section->bytes),
                KITH_OK);
        }
    }
}

/* A file with one 32-bit word of one section changed, and checksums that are right. */
static const char *forge(test_folder *folder, kith_ctx *ctx, const char *path, const char *tag,
                         size_t word, uint32_t value)
{
    parts p;
    take_apart(ctx, path, &p);
    unsigned char *copy = NULL;
    for (int32_t i = 0; i < p.count; i++) {
        if (strcmp(p.sections[i].tag, tag) == 0) {
            copy = malloc(p.sections[i].bytes);
            assert_non_null(copy);
            memcpy(copy, p.sections[i].data, p.sections[i].bytes);
            memcpy(copy + 4 * word, &value, sizeof value);
            p.sections[i].data = copy;
        }
    }
    assert_non_null(copy);
    const char *forged = test_path(folder, "forged.kith");
    assert_int_equal(kin_container_write(ctx, forged, &p.container->header, p.sections, p.count),
                     KITH_OK);
    free(copy);
    kin_container_close(p.container);
    return forged;
}

/* What another version or machine made is made again; what leads outside is refused. */
static void forgeries_do_no_harm(void **state)
{
    static const struct {
        const char *tag;
        size_t word;
        uint32_t value;
        int good;
    } forgeries[] = {{"corpus", 0, 99, 1},    /* a version to come */
                     {"corpus", 1, 77, 1},    /* a type of another machine */
                     {"corpus", 3, 12345, 1}, /* rows that are rounded to another width */
                     {"corpus", 5, 1, 0},     /* groups: 2^32 more than there are */
                     {"corpus", 4, 3, 0},     /* fewer groups than are stored */
                     {"order", 2, 400, 0},
                     {"firsts", 1, 0, 0},
                     {"next", 0, 0, 0},
                     {"next", 299, 300, 0},
                     {"weights", 0, 5000, 0},
                     {"degenerates", 0, 300, 0},
                     {"transforms", 5, 0x7ff80000, 0}};
    test_folder *folder = *state;
    uint64_t seed = 21;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 1);
    test_rows points = test_rows_make(KITH_F32, 300, 6, 0);
    test_rows asked = test_rows_make(KITH_F32, QUERIES, 6, 0);
    fill(&points, KITH_COSINE, &seed);
    fill(&asked, KITH_COSINE, &seed);
    kith_index *corpus = NULL;
    char path[300];
    (void)snprintf(path, sizeof path, "%s", test_path(folder, "honest.kith"));
    assert_int_equal(test_index_create(ctx, &points.matrix, KITH_COSINE, &corpus), KITH_OK);
    assert_int_equal(kith_index_save(ctx, corpus, path), KITH_OK);
    kith_index_free(corpus);
    for (size_t i = 0; i < sizeof forgeries / sizeof forgeries[0]; i++) {
        const char *forged =
            forge(folder, ctx, path, forgeries[i].tag, forgeries[i].word, forgeries[i].value);
        const kith_status status = kith_index_open(ctx, forged, &corpus);
        assert_int_equal(status, forgeries[i].good ? KITH_OK : KITH_E_FORMAT);
        if (status == KITH_OK) {
            answer a;
            search(ctx, corpus, &asked.matrix, &a);
            check_oracle(KITH_COSINE, &points.matrix, &asked.matrix, &a);
        }
        kith_index_free(corpus);
    }
    test_rows_free(&asked);
    test_rows_free(&points);
    kith_ctx_free(ctx);
    (void)printf("other versions are prepared again; numbers that lead outside are refused\n");
}

/* Of a graph nothing is made again: what is no graph of the points is refused. */
static void forged_graphs_do_no_harm(void **state)
{
    static const struct {
        const char *tag;
        size_t word;
        uint32_t value;
        int good;
    } forgeries[] = {{"index", 0, 2, 0},          /* a version to come */
                     {"index", 2, 0, 0},          /* a graph of no neighbours */
                     {"index", 5, 0xffffffff, 0}, /* a recall that is no number */
                     {"index", 6, 12345, 1},      /* another seed */
                     {"ids", 7, 300, 0},          {"ids", 8, KITH_ID_NONE, 1}};
    test_folder *folder = *state;
    uint64_t seed = 22;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 1);
    test_rows points = test_rows_make(KITH_F32, 300, 6, 0);
    kith_index_params params = kith_index_params_default();
    kith_index *index = NULL;
    char path[300];
    fill(&points, KITH_EUCLIDEAN, &seed);
    params.method = KITH_METHOD_GRAPH;
    params.k = 5;
    (void)snprintf(path, sizeof path, "%s", test_path(folder, "graph.kith"));
    assert_int_equal(kith_index_create(ctx, &points.matrix, &params, &index), KITH_OK);
    assert_int_equal(kith_index_save(ctx, index, path), KITH_OK);
    kith_index_free(index);
    for (size_t i = 0; i < sizeof forgeries / sizeof forgeries[0]; i++) {
        const char *forged =
            forge(folder, ctx, path, forgeries[i].tag, forgeries[i].word, forgeries[i].value);
        assert_int_equal(kith_index_open(ctx, forged, &index),
                         forgeries[i].good ? KITH_OK : KITH_E_FORMAT);
        kith_index_free(index);
    }
    test_rows_free(&points);
    kith_ctx_free(ctx);
    (void)printf("forged graphs are refused where they lead outside\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_survive_the_file, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test(other_types_are_answered),
        cmocka_unit_test_setup_teardown(damage_is_noticed, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(forgeries_do_no_harm, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(forged_graphs_do_no_harm, test_folder_setup,
                                        test_folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
