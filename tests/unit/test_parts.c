/* SPDX-License-Identifier: Apache-2.0
 * A graph in parts is the graph, whatever the system refuses while they are written; and what is
 * missing, damaged, forged or of another graph is named. */
#define _GNU_SOURCE
#include "base/base_try.h"
#include "file/file_open.h"
#include "file/file_stream.h"
#include "support/support_disk.h"
#include "support/support_faulty.h"
#include "support/support_files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Parts have multiples of 256 rows: three such, and one of fewer. */
enum { ROWS = 1000, K = 64, PARTS = 4, UNIT = 256 };

/* ---- A graph, at once and in parts ---------------------------------------------------------- */

static uint32_t ids[ROWS * K];
static float distances[ROWS * K];

static kith_neighbors rows_from(int64_t first, int64_t count, uint32_t seed)
{
    for (int64_t i = 0; i < (int64_t)ROWS * K; i++) {
        ids[i] = i % 1117 == 0 ? KITH_ID_NONE : (uint32_t)((i * 37 + seed) % ROWS);
        distances[i] = (float)i / 3.0F;
    }
    return (kith_neighbors){
        .ids = ids + first * K, .distances = distances + first * K, .rows = count, .k = K};
}

static kith_result_meta make_meta(void)
{
    kith_result_meta meta = kith_result_meta_default();
    meta.kind = KITH_KIND_GRAPH;
    meta.metric = KITH_MANHATTAN;
    meta.corpus_rows = ROWS;
    return meta;
}

static kith_status open_parts(kith_ctx *ctx, const char *path, int32_t count, const char *job,
                              kin_parts **out)
{
    const kith_result_meta meta = make_meta();
    kith_result_stream_params params = kith_result_stream_params_default();
    params.rows = ROWS;
    params.k = K;
    params.job = job;
    test_disk.lazy = 1;
    KIN_TRY(kin_ctx_begin(ctx));
    return kin_parts_open(ctx, path, &params, &meta, count, out);
}

static kith_status put_all(kith_ctx *ctx, kin_parts *parts, int64_t piece, uint32_t seed)
{
    const kith_recall recall = {.rows = 100, .recall = 0.875, .at = 10};
    KIN_TRY(kin_parts_tell_recall(ctx, parts, &recall, false));
    for (int64_t row = 0; row < ROWS; row += piece) {
        const kith_neighbors rows = rows_from(row, row + piece < ROWS ? piece : ROWS - row, seed);
        KIN_TRY(kin_parts_put(ctx, parts, row, &rows));
    }
    return kin_parts_finish(ctx, parts);
}

/* *stood: parts that were whole when it began. */
static kith_status write_parts(kith_ctx *ctx, const char *path, int32_t count, int64_t piece,
                               uint32_t seed, int *stood)
{
    kin_parts *parts = NULL;
    char job[32];
    (void)snprintf(job, sizeof job, "seed %u", seed);
    kith_status status = open_parts(ctx, path, count, job, &parts);
    *stood = 0;
    if (status == KITH_OK) {
        for (int32_t i = 0; i < parts->count; i++) {
            *stood += kin_parts_stand(parts, i * UNIT, 1) ? 1 : 0;
        }
        status = put_all(ctx, parts, piece, seed);
    }
    kin_parts_close(parts);
    return status;
}

static void write_set(test_folder *folder, const char *path, uint32_t seed)
{
    int stood = 0;
    assert_int_equal(write_parts(folder->ctx, path, PARTS, 300, seed, &stood), KITH_OK);
    assert_int_equal(stood, 0);
}

static void same_files(const char *one, const char *other)
{
    size_t bytes[2];
    unsigned char *expected = test_read(one, &bytes[0]);
    unsigned char *found = test_read(other, &bytes[1]);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(expected, found, bytes[0]);
    free(expected);
    free(found);
}

/* An index, opened and saved, has the bytes of the graph at once. */
static void check_graph(test_folder *folder, const char *path, uint32_t seed)
{
    kith_result *result = NULL;
    kith_result_meta meta = make_meta();
    const char *whole = test_path(folder, "whole.kith");
    const char *joined = test_path(folder, "joined.kith");
    const kith_neighbors all = rows_from(0, ROWS, seed);
    meta.recall = 0.875;
    meta.recall_at = 10;
    assert_int_equal(kith_result_save(folder->ctx, whole, KITH_FORMAT_AUTO, &all, &meta), KITH_OK);
    assert_int_equal(kith_result_open(folder->ctx, path, &result), KITH_OK);
    assert_memory_equal(kith_result_neighbors(result)->ids, all.ids, sizeof ids);
    assert_memory_equal(kith_result_neighbors(result)->distances, all.distances, sizeof distances);
    assert_int_equal(kith_result_save(folder->ctx, joined, KITH_FORMAT_AUTO,
                                      kith_result_neighbors(result),
                                      kith_result_neighbors(result)->meta),
                     KITH_OK);
    kith_result_free(result);
    same_files(whole, joined);
    (void)unlink(whole);
    (void)unlink(joined);
}

/* test_path gives names out that are valid for a while alone. */
static void index_path(test_folder *folder, char path[320])
{
    (void)snprintf(path, 320, "%s/g.kith", folder->path);
}

static void part_path(test_folder *folder, int number, char path[320])
{
    (void)snprintf(path, 320, "%s/g-%05d-of-%05d.kith", folder->path, number, PARTS);
}

static void remove_set(test_folder *folder)
{
    char path[320];
    for (int i = 0; i < PARTS; i++) {
        part_path(folder, i, path);
        (void)unlink(path);
    }
    (void)unlink(test_path(folder, "g.kith"));
    assert_int_equal(test_folder_count(folder), 0);
}

/* Opening an index fails, and names the file that is the cause. */
static void refuses(test_folder *folder, const char *path, const char *named, kith_status status,
                    const char *text)
{
    kith_result *result = NULL;
    test_failed(folder, kith_result_open(folder->ctx, path, &result), status, named, text);
    assert_null(result);
}

/* ---- Reading -------------------------------------------------------------------------------- */

static void one_graph(void **state)
{
    test_folder *folder = *state;
    print_message("1 to 256 parts, in pieces of 37, 300 and all rows: the index is the graph, and "
                  "saved again has its bytes\n");
    for (int i = 0; i < 12; i++) {
        static const int32_t counts[] = {1, 2, 3, 256};
        static const int32_t files[] = {1, 2, 2, 4};
        static const int64_t pieces[] = {37, 300, ROWS};
        kith_file_info info = {.struct_size = (uint32_t)sizeof info};
        char name[32];
        int stood = 0;
        (void)snprintf(name, sizeof name, "%d.kith", i);
        const char *path = test_path(folder, name);
        assert_int_equal(write_parts(folder->ctx, path, counts[i / 3], pieces[i % 3], 1, &stood),
                         KITH_OK);
        check_graph(folder, path, 1);
        assert_int_equal(kith_file_inspect(folder->ctx, path, NULL, &info), KITH_OK);
        assert_int_equal(info.parts, files[i / 3]);
        assert_int_equal(info.part, 0);
        assert_int_equal(info.rows, ROWS);
        assert_true(info.file_bytes > sizeof ids + sizeof distances);
    }
    assert_int_equal(test_folder_count(folder), 3 * (1 + 2 + 2 + 4) + 12);
}

static void parts_alone(void **state)
{
    test_folder *folder = *state;
    print_message("a part alone is a result of its rows, and says which; through a symbolic link "
                  "the index finds its parts\n");
    write_set(folder, test_path(folder, "g.kith"), 2);
    const kith_neighbors all = rows_from(0, ROWS, 2);
    for (int i = 0; i < PARTS; i++) {
        char path[320];
        kith_result *result = NULL;
        kith_file_info info = {.struct_size = (uint32_t)sizeof info};
        const int64_t rows = i < PARTS - 1 ? UNIT : ROWS - (PARTS - 1) * UNIT;
        part_path(folder, i, path);
        assert_int_equal(kith_file_inspect(folder->ctx, path, NULL, &info), KITH_OK);
        assert_int_equal(info.kind, KITH_KIND_RESULT);
        assert_int_equal(info.part, i + 1);
        assert_int_equal(info.parts, PARTS);
        assert_int_equal(info.first_row, i * UNIT);
        assert_int_equal(kith_result_open(folder->ctx, path, &result), KITH_OK);
        assert_int_equal(kith_result_neighbors(result)->meta->first_row, i * UNIT);
        assert_int_equal(kith_result_neighbors(result)->rows, rows);
        assert_memory_equal(kith_result_neighbors(result)->ids, all.ids + i * UNIT * K,
                            (size_t)(rows * K) * sizeof ids[0]);
        kith_result_free(result);
    }
    char link[320];
    char aside[320];
    (void)snprintf(aside, sizeof aside, "%s/aside", folder->path);
    assert_int_equal(mkdir(aside, 0700), 0);
    (void)snprintf(link, sizeof link, "%.300s/link.kith", aside);
    assert_int_equal(symlink("../g.kith", link), 0);
    check_graph(folder, link, 2);
    (void)unlink(link);
    (void)rmdir(aside);
}

/* ---- Writing -------------------------------------------------------------------------------- */

static void refused_at_each_call(void **state)
{
    test_folder *folder = *state;
    char path[320];
    kith_status status = KITH_E_IO;
    int tried = 0;
    int resumed = 0;
    index_path(folder, path);
    print_message("the disk is full from the n-th call on, each n: an error; an index that is "
                  "there is the graph; the next run ends with the same files\n");
    for (int n = 1; status != KITH_OK; n++) {
        int stood = 0;
        test_disk_works();
        test_disk.fail_at = n;
        status = write_parts(folder->ctx, path, PARTS, 300, 3, &stood);
        test_disk_works();
        tried += status != KITH_OK;
        assert_true(status == KITH_OK || status == KITH_E_IO);
        if (access(path, F_OK) == 0) {
            check_graph(folder, path, 3);
        }
        assert_int_equal(write_parts(folder->ctx, path, PARTS, 111, 3, &stood), KITH_OK);
        check_graph(folder, path, 3);
        assert_int_equal(test_folder_count(folder), PARTS + 1);
        resumed += stood > 0;
        remove_set(folder);
    }
    test_disk_works();
    print_message("%d refusals, %d went on behind rows that stood\n", tried, resumed);
    assert_true(tried > 50 && resumed > 20);
}

/* Two of four parts have their names, then the process dies. */
static void died_between_names(void **state)
{
    test_folder *folder = *state;
    char path[320];
    kin_parts *parts = NULL;
    int stood = 0;
    index_path(folder, path);
    print_message("parts of a new graph over those of an old one: its index says so; the job goes "
                  "on, and both are new\n");
    write_set(folder, path, 4);
    assert_int_equal(open_parts(folder->ctx, path, PARTS, "seed 5", &parts), KITH_OK);
    const kith_recall recall = {.rows = 100, .recall = 0.875, .at = 10};
    assert_int_equal(kin_parts_tell_recall(folder->ctx, parts, &recall, false), KITH_OK);
    const kith_neighbors all = rows_from(0, ROWS, 5);
    assert_int_equal(kin_parts_put(folder->ctx, parts, 0, &all), KITH_OK);
    check_graph(folder, path, 4);
    assert_int_equal(kin_stream_finish(folder->ctx, parts->streams[0]), KITH_OK);
    assert_int_equal(kin_stream_finish(folder->ctx, parts->streams[1]), KITH_OK);
    kin_parts_close(parts);
    char part[320];
    part_path(folder, 0, part);
    refuses(folder, path, part, KITH_E_FORMAT, "is not the file that");
    assert_int_equal(write_parts(folder->ctx, path, PARTS, 300, 5, &stood), KITH_OK);
    assert_int_equal(stood, PARTS - 2);
    check_graph(folder, path, 5);
    assert_int_equal(test_folder_count(folder), PARTS + 1);
}

static void no_memory(void **state)
{
    test_folder *folder = *state;
    char path[320];
    index_path(folder, path);
    print_message("no memory at the n-th allocation of writing and reading, each n: an error, "
                  "nothing held\n");
    kith_status status = KITH_E_MEMORY;
    for (long n = 1; status != KITH_OK; n++) {
        test_faulty faulty = {.fails_at = 0};
        kith_result *result = NULL;
        int stood = 0;
        kith_ctx *ctx = test_faulty_ctx("cpu", &faulty, 0);
        faulty.fails_at = atomic_load(&faulty.asked) + n;
        status = write_parts(ctx, path, PARTS, 300, 6, &stood);
        if (status == KITH_OK) {
            status = kith_result_open(ctx, path, &result);
        }
        assert_true(status == KITH_OK || status == KITH_E_MEMORY);
        kith_result_free(result);
        kith_ctx_free(ctx);
        assert_int_equal(atomic_load(&faulty.blocks), 0);
        assert_true(n < 400);
    }
    remove_set(folder);
}

static void wrong_jobs(void **state)
{
    test_folder *folder = *state;
    kith_ctx *ctx = folder->ctx;
    kin_parts *parts = NULL;
    kin_parts *second = NULL;
    char path[320];
    index_path(folder, path);
    print_message("another format, another process, another job: refused; without a row nothing is "
                  "left\n");
    test_failed(folder, open_parts(ctx, test_path(folder, "g.npz"), 2, NULL, &parts),
                KITH_E_ARGUMENT, NULL, "only .kith is written in parts");
    assert_int_equal(open_parts(ctx, path, PARTS, "one", &parts), KITH_OK);
    test_failed(folder, open_parts(ctx, path, PARTS, "one", &second), KITH_E_IO, NULL,
                "another process is at work on it");
    kin_parts_close(parts);
    assert_int_equal(test_folder_count(folder), 0);
    const kith_neighbors some = rows_from(0, 300, 1);
    assert_int_equal(open_parts(ctx, path, PARTS, "one", &parts), KITH_OK);
    assert_int_equal(kin_parts_put(ctx, parts, 0, &some), KITH_OK);
    assert_true(kin_parts_stand(parts, 0, 300));
    assert_false(kin_parts_stand(parts, 0, 301));
    kin_parts_close(parts);
    test_failed(folder, open_parts(ctx, path, PARTS, "two", &parts), KITH_E_ARGUMENT, NULL,
                "it says 'one', this one 'two'");
}

/* ---- Damage --------------------------------------------------------------------------------- */

/* Replaces a file by one with another byte; what stands there is mapped by nobody. */
static void change(const char *path, size_t at)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 4, file), byte ^ 4);
    assert_int_equal(fclose(file), 0);
}

static void damaged(void **state)
{
    test_folder *folder = *state;
    char path[320];
    char part[320];
    char other[320];
    size_t bytes = 0;
    index_path(folder, path);
    print_message("each byte of the index, and bytes of parts: damage is named, with the part; so "
                  "is one that is missing, cut, or another one's\n");
    write_set(folder, path, 7);
    free(test_read(path, &bytes));
    for (size_t at = 0; at < bytes; at++) {
        kith_result *result = NULL;
        change(path, at);
        assert_int_equal(kith_result_open(folder->ctx, path, &result), KITH_E_FORMAT);
        change(path, at);
    }
    part_path(folder, 1, part);
    static const struct {
        size_t at;
        const char *says;
    } places[] = {{40, "checksum of its header"},
                  {KIN_PART_ALIGNMENT, "the checksum of its section 'ids'"},
                  {2 * KIN_PART_ALIGNMENT - 1, "'ids' is wrong"},
                  {2 * KIN_PART_ALIGNMENT, "'distances' is wrong"}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        change(part, places[i].at);
        refuses(folder, path, part, KITH_E_FORMAT, places[i].says);
        change(part, places[i].at);
    }
    check_graph(folder, path, 7);
    (void)snprintf(other, sizeof other, "%s/aside", folder->path);
    assert_int_equal(rename(part, other), 0);
    kith_file_info info = {.struct_size = (uint32_t)sizeof info};
    refuses(folder, path, part, KITH_E_IO, "is missing, and has rows 256 to 511 of");
    test_failed(folder, kith_file_inspect(folder->ctx, path, NULL, &info), KITH_E_IO, part,
                "is missing");
    part_path(folder, 2, other);
    assert_int_equal(link(other, part), 0);
    refuses(folder, path, part, KITH_E_FORMAT, "is not the file that");
    assert_int_equal(unlink(part), 0);
    (void)snprintf(other, sizeof other, "%s/aside", folder->path);
    assert_int_equal(rename(other, part), 0);
    assert_int_equal(truncate(part, 2 * KIN_PART_ALIGNMENT), 0);
    refuses(folder, path, part, KITH_E_FORMAT, "cut short");
}

/* ---- Lies ----------------------------------------------------------------------------------- */

typedef struct lie {
    kin_part_entry entries[2];
    int count;
    int64_t rows;
    const char *name;
    const char *says;
    int64_t k;
} lie;

/* Whoever forges checksums, too, reads nothing that is not in the files. */
static void forged(void **state)
{
    test_folder *folder = *state;
    char path[320];
    char part[320];
    kin_container *opened = NULL;
    index_path(folder, path);
    write_set(folder, path, 8);
    part_path(folder, 0, part);
    assert_int_equal(kin_container_open(folder->ctx, part, true, &opened), KITH_OK);
    const uint64_t sum = opened->checksum;
    kin_container_close(opened);
    const kith_neighbors some = rows_from(0, 7, 8);
    const kith_result_meta meta = make_meta();
    char plain[320];
    (void)snprintf(plain, sizeof plain, "%s/p-00000-of-00001.kith", folder->path);
    assert_int_equal(kith_result_save(folder->ctx, plain, KITH_FORMAT_AUTO, &some, &meta), KITH_OK);
    assert_int_equal(kin_container_open(folder->ctx, plain, true, &opened), KITH_OK);
    const uint64_t plain_sum = opened->checksum;
    kin_container_close(opened);
    const lie lies[] = {
        {{{0, 256, sum}}, 0, 256, "g", "it has no parts", K},
        {{{0, 256, sum}}, 1, 257, "g", "do not have all rows", K},
        {{{0, 256, sum}, {0, 256, sum}}, 2, 512, "g", "one behind the other", K},
        {{{0, 255, sum}, {255, 1, sum}}, 2, 256, "g", "one behind the other", K},
        {{{0, -1, sum}}, 1, 256, "g", "one behind the other", K},
        {{{0, INT64_MAX, sum}}, 1, 256, "g", "one behind the other", K},
        {{{0, 256, sum}}, 1, 256, "../g", "has no name for its parts", K},
        {{{0, 256, sum}}, 1, 256, "", "has no name for its parts", K},
        {{{0, 256, sum}}, 1, UINT32_MAX - 1, "g", "more entries than files", UINT32_MAX - 1},
        {{{0, 256, sum}}, 1, 256, "g", "says its rows have", INT64_MAX},
        {{{0, 7, plain_sum}}, 1, 7, "p", "is no part of", K / 2},
        {{{0, 7, plain_sum}}, 1, 7, "p", "is no part of", K},
        {{{0, 256, plain_sum}}, 1, 256, "p", "is no part of", K},
    };
    print_message(
        "an index with right checksums that is wrong: no rows, other rows, names in other "
        "folders, files that are no parts: each is refused\n");
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        const kin_container_header header =
            kin_result_header(KITH_KIND_GRAPH, lies[i].rows, lies[i].k, &meta);
        const kin_section sections[] = {
            {.tag = KIN_TAG_PARTS,
             .data = lies[i].entries,
             .bytes = (uint64_t)lies[i].count * sizeof(kin_part_entry)},
            {.tag = KIN_TAG_NAME, .data = lies[i].name, .bytes = strlen(lies[i].name)}};
        assert_int_equal(kin_container_write(folder->ctx, path, &header, sections, 2), KITH_OK);
        kith_file_info info = {.struct_size = (uint32_t)sizeof info};
        refuses(folder, path, lies[i].name[0] == 'p' ? plain : path, KITH_E_FORMAT, lies[i].says);
        assert_int_equal(kith_file_inspect(folder->ctx, path, NULL, &info), KITH_E_FORMAT);
    }
    const kin_part numbered = {.first = 0, .number = 5, .count = 3};
    const kin_container_header header = kin_result_header(KITH_KIND_RESULT, 7, K, &meta);
    const kin_section sections[] = {
        {.tag = KIN_TAG_IDS, .data = ids, .bytes = (uint64_t)7 * K * sizeof ids[0]},
        {.tag = KIN_TAG_PART, .data = &numbered, .bytes = sizeof numbered}};
    assert_int_equal(kin_container_write(folder->ctx, plain, &header, sections, 2), KITH_OK);
    refuses(folder, plain, plain, KITH_E_FORMAT, "is part 6 of 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_graph, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(parts_alone, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(refused_at_each_call, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(died_between_names, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(no_memory, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(wrong_jobs, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(damaged, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(forged, test_folder_setup, test_folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
