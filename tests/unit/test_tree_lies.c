/* SPDX-License-Identifier: Apache-2.0
 * Files of trees that are damaged or forged: one clear error, or a corpus whose searches and
 * changes end. A file of another version is made again from its points. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "file/file_container.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_files.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 400, COLS = 3, QUERIES = 20, K = 5 };

/* ---- A file in memory ----------------------------------------------------------------------- */

typedef struct image {
    unsigned char *bytes;
    size_t count;
} image;

static kin_layout_entry *find(const image *file, const char *tag)
{
    kin_layout_header *header = (void *)file->bytes;
    kin_layout_entry *table = (void *)(header + 1);
    for (uint32_t i = 0; i < header->section_count; i++) {
        if (strcmp(table[i].tag, tag) == 0) {
            return &table[i];
        }
    }
    fail_msg("no section %s", tag);
    return NULL;
}

/* Makes every checksum right. */
static void seal(const image *file)
{
    kin_layout_header *header = (void *)file->bytes;
    kin_layout_entry *table = (void *)(header + 1);
    for (uint32_t i = 0; i < header->section_count; i++) {
        table[i].checksum = kin_checksum_of(file->bytes + table[i].offset, table[i].bytes);
    }
    header->checksum = kin_layout_checksum(header, table);
}

/* A tree of some rows of which every tenth is a copy. */
static image tree_file(test_folder *folder, const kith_matrix *points, kith_metric metric)
{
    kith_index *corpus = NULL;
    kith_index_params params = kith_index_params_default();
    params.metric = metric;
    params.method = KITH_METHOD_TREE;
    const char *path = test_path(folder, "honest.kith");
    assert_int_equal(kith_index_create(folder->ctx, points, &params, &corpus), KITH_OK);
    assert_int_equal(kith_index_save(folder->ctx, corpus, path), KITH_OK);
    kith_index_free(corpus);
    image file;
    file.bytes = test_read(path, &file.count);
    return file;
}

static test_rows some_rows(uint64_t seed)
{
    test_rows points = test_rows_make(KITH_F32, ROWS, COLS, 0);
    test_shape_fill(&points, SHAPE_GAUSS, false, &seed);
    for (int64_t i = 10; i < ROWS; i += 10) {
        test_rows_copy(&points, i, &points, i / 2);
    }
    return points;
}

/* ---- What is done with it ------------------------------------------------------------------- */

static kith_status search(kith_ctx *ctx, const kith_index *corpus, const kith_neighbors *out)
{
    kith_matrix queries = test_index_info(corpus).points;
    queries.rows = QUERIES;
    kith_search_params params = kith_search_params_default();
    params.k = K;
    return kith_index_search(ctx, corpus, &queries, &params, out, NULL);
}

/* Searches, grows, shrinks, and searches again: whatever the numbers are, it ends. */
static void use(kith_ctx *ctx, kith_index *corpus, const kith_matrix *more)
{
    static const uint32_t gone[] = {3, 0, 77, 200};
    kith_neighbors out = test_answer_make(QUERIES, K);
    for (int round = 0; round < 3; round++) {
        const kith_status status = search(ctx, corpus, &out);
        assert_true(status == KITH_OK || status == KITH_E_INTERNAL);
        if (round == 0) {
            assert_int_equal(kith_index_add(ctx, corpus, more), KITH_OK);
        } else if (round == 1) {
            assert_int_equal(kith_index_remove(ctx, corpus, gone, 4), KITH_OK);
        }
    }
    test_answer_free(&out);
}

/* As test_failed, but without a line for each of thousands. */
static void refused(const test_folder *folder, kith_status status, const char *path)
{
    assert_int_equal(status, KITH_E_FORMAT);
    assert_int_equal(strncmp(kith_ctx_detail(folder->ctx), path, strlen(path)), 0);
}

/* ---- Tests ---------------------------------------------------------------------------------- */

static void damage_is_noticed(void **state)
{
    test_folder *folder = *state;
    test_rows points = some_rows(1);
    image file = tree_file(folder, &points.matrix, KITH_EUCLIDEAN);
    kith_index *corpus = NULL;
    int count = 0;
    for (size_t at = 0; at < file.count; at += 31, count++) {
        file.bytes[at] ^= 0x41;
        const char *path = test_write(folder, "broken.kith", file.bytes, file.count);
        const kith_status status = kith_index_open(folder->ctx, path, &corpus);
        file.bytes[at] ^= 0x41;
        refused(folder, status, path);
        assert_null(corpus);
    }
    for (size_t cut = 0; cut < file.count; cut += 97, count++) {
        const char *path = test_write(folder, "broken.kith", file.bytes, cut);
        refused(folder, kith_index_open(folder->ctx, path, &corpus), path);
    }
    free(file.bytes);
    test_rows_free(&points);
    printf("%d damaged and cut files: an error each\n", count);
}

typedef struct forgery {
    const char *tag;
    size_t word; /* of 32 bits; those of the facts are listed in kin_stored_tree */
    uint32_t value;
    const char *text; /* NULL: it is made again from its points */
} forgery;

static void forgeries_are_refused(void **state)
{
    static const forgery forgeries[] = {
        {"tree", 0, 99, NULL}, /* a version to come */
        {"tree", 1, 29, "shape"},
        {"tree", 1, 0xffffffffu, "shape"},
        {"tree", 1, 1, "section 'tree_starts'"},
        {"tree", 2, 0, "shape"},
        {"tree", 2, ROWS + 1, "shape"},
        {"tree", 2, 5, "section 'firsts'"},
        {"tree", 4, 3, "shape"},
        {"tree", 5, 1, "shape"}, /* 2^32 places more */
        {"tree", 4, 1 << 20, "section 'tree_values'"},
        {"tree", 4, 403, "whole blocks"},
        {"tree", 6, 0, "groups of equal rows"},
        {"tree", 8, 3, "whole blocks"},
        {"tree", 9, 77, "whole blocks"},
        {"tree", 11, 0x7ff80000, "no numbers"}, /* the scale */
        {"tree", 11, 0xbff00000, "no numbers"},
        {"firsts", 3, 2, "groups of equal rows"},
        {"next", 5, 3, "groups of equal rows"},
        {"weights", 5, 9, "groups of equal rows"},
        {"tree_shift", 1, 0x7ff00000, "no numbers"},
        {"tree_starts", 0, 1, "one behind the other"},
        {"tree_starts", 1, 100, "one behind the other"},
        {"tree_starts", 8, 0xffffffffu, "one behind the other"},
        {"tree_counts", 0, 17 * 16, "one behind the other"},
        {"tree_counts", 1, 0, "one behind the other"},
        {"tree_values", 0, 0x7fc00000, "no numbers"},
        {"tree_values", 5, 0xff800000u, "no numbers"},
        {"tree_ids", 0, ROWS, "each distinct row"},
        {"tree_ids", 2, 0xffffffffu, "each distinct row"},
        {"tree_ids", 1, 10, "each distinct row"}, /* a copy, or another's id */
        {"tree_boxes", 8, 0x7fc00001, "no numbers"},
        {"tree_lost", 3, 0xbf800000u, "no numbers"},
        {"tree_lost", 1, 0x7f800000, "no numbers"},
        {"tree_planes", 1, COLS, "does not have"},
        {"tree_planes", 3, 0xffffffffu, "does not have"}};
    test_folder *folder = *state;
    test_rows points = some_rows(2);
    const image file = tree_file(folder, &points.matrix, KITH_CHEBYSHEV);
    const int count = (int)(sizeof forgeries / sizeof forgeries[0]);
    for (int i = 0; i < count; i++) {
        const forgery *f = &forgeries[i];
        unsigned char *at = file.bytes + find(&file, f->tag)->offset + 4 * f->word;
        unsigned char before[4];
        kith_index *corpus = NULL;
        memcpy(before, at, 4);
        memcpy(at, &f->value, 4);
        seal(&file);
        const char *path = test_write(folder, "forged.kith", file.bytes, file.count);
        const kith_status status = kith_index_open(folder->ctx, path, &corpus);
        if (f->text != NULL) {
            test_failed(folder, status, KITH_E_FORMAT, path, f->text);
        } else {
            assert_int_equal(status, KITH_OK);
            use(folder->ctx, corpus, &points.matrix);
        }
        kith_index_free(corpus);
        memcpy(at, before, 4);
    }
    free(file.bytes);
    test_rows_free(&points);
    printf("%d forged numbers: refused each; another version is made again\n", count);
}

/* A header that calls the tree something else, and a corpus that calls itself a tree. */
static void kinds_are_checked(void **state)
{
    test_folder *folder = *state;
    test_rows points = some_rows(3);
    const image file = tree_file(folder, &points.matrix, KITH_EUCLIDEAN);
    kin_layout_header *header = (void *)file.bytes;
    kith_index *corpus = NULL;
    header->metric = KITH_COSINE;
    seal(&file);
    const char *path = test_write(folder, "cosine.kith", file.bytes, file.count);
    test_failed(folder, kith_index_open(folder->ctx, path, &corpus), KITH_E_FORMAT, path,
                "its metric has no tree");
    header->metric = KITH_EUCLIDEAN;
    header->kind = KITH_KIND_EXACT_INDEX;
    seal(&file);
    path = test_write(folder, "corpus.kith", file.bytes, file.count);
    test_failed(folder, kith_index_open(folder->ctx, path, &corpus), KITH_E_FORMAT, path,
                "no section 'corpus'");
    free(file.bytes);
    path = test_path(folder, "screened.kith");
    assert_int_equal(test_index_create(folder->ctx, &points.matrix, KITH_EUCLIDEAN, &corpus),
                     KITH_OK);
    assert_int_equal(kith_index_save(folder->ctx, corpus, path), KITH_OK);
    kith_index_free(corpus);
    image screened;
    screened.bytes = test_read(path, &screened.count);
    header = (void *)screened.bytes;
    header->kind = KITH_KIND_TREE_INDEX;
    seal(&screened);
    path = test_write(folder, "called.kith", screened.bytes, screened.count);
    test_failed(folder, kith_index_open(folder->ctx, path, &corpus), KITH_E_FORMAT, path,
                "no section 'tree'");
    kith_file_info info = {.struct_size = sizeof info};
    test_failed(folder, kith_file_inspect(folder->ctx, path, NULL, &info), KITH_E_FORMAT, path,
                "no section 'tree'");
    free(screened.bytes);
    test_rows_free(&points);
    printf("a tree that is called a corpus, and the other way round: refused\n");
}

/* Floats and small integers anywhere, checksums right: what is opened can be used. */
static void whatever_opens_can_be_used(void **state)
{
    static const char *const tags[] = {"tree_shift",  "tree_values", "tree_boxes", "tree_lost",
                                       "tree_splits", "tree_planes", "tree",       "tree_counts",
                                       "tree_ids",    "firsts",      "next",       "weights"};
    static const uint32_t nasty[] = {0,          1,           2,          0x80000000u, 0x7f7fffff,
                                     0xff7fffff, 0x00000001u, 0x3f800000, 0x7f800000,  0x7fc00000,
                                     0x5d000000, 0xdd000000u, 0x41200000, 10};
    enum { TAGS = sizeof tags / sizeof tags[0], NASTY = sizeof nasty / sizeof nasty[0] };
    test_folder *folder = *state;
    uint64_t generator = 20221122;
    test_rows points = some_rows(4);
    const image file = tree_file(folder, &points.matrix, KITH_EUCLIDEAN);
    unsigned char *copy = malloc(file.count);
    assert_non_null(copy);
    int opened = 0;
    const int count = test_is_slow_build() ? 300 : 1000;
    for (int i = 0; i < count; i++) {
        memcpy(copy, file.bytes, file.count);
        const image forged = {copy, file.count};
        const int edits = 1 + (int)kin_random_below(&generator, 20);
        const char *tag = tags[kin_random_below(&generator, i % 4 == 0 ? TAGS : 6)];
        const kin_layout_entry *entry = find(&forged, tag);
        for (int e = 0; e < edits; e++) {
            const uint32_t value = nasty[kin_random_below(&generator, NASTY)];
            memcpy(copy + entry->offset + 4 * kin_random_below(&generator, entry->bytes / 4),
                   &value, 4);
        }
        seal(&forged);
        const char *path = test_write(folder, "any.kith", copy, file.count);
        kith_index *corpus = NULL;
        const kith_status status = kith_index_open(folder->ctx, path, &corpus);
        if (status == KITH_OK) {
            use(folder->ctx, corpus, &points.matrix);
            opened += 1;
        } else {
            refused(folder, status, path);
        }
        kith_index_free(corpus);
    }
    free(copy);
    free(file.bytes);
    test_rows_free(&points);
    assert_true(opened > count / 10 && opened < count);
    printf(
        "%d files with forged numbers: %d opened, were searched and changed, the others refused\n",
        count, opened);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_folder_setup, test_folder_teardown)
    const struct CMUnitTest tests[] = {TEST(damage_is_noticed), TEST(forgeries_are_refused),
                                       TEST(kinds_are_checked), TEST(whatever_opens_can_be_used)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
