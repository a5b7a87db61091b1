/* SPDX-License-Identifier: Apache-2.0
 * Results in pieces: the bytes of one that is saved at once, whatever the system refuses in
 * between, and whatever becomes of the journal. */
#define _GNU_SOURCE
#include "file/file_stream.h"
#include "support/support_disk.h"
#include "support/support_faulty.h"
#include "support/support_files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 60, K = 7, CORPUS = 1000 };

/* ---- A result, at once and in pieces -------------------------------------------------------- */

static uint32_t ids[ROWS * K];
static float distances[ROWS * K];
static const kith_format formats[] = {KITH_FORMAT_NPZ, KITH_FORMAT_KITH, KITH_FORMAT_KNN,
                                      KITH_FORMAT_IBIN, KITH_FORMAT_IVECS};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static kith_neighbors rows_from(int64_t first, int64_t count)
{
    for (int i = 0; i < ROWS * K; i++) {
        ids[i] = i % 11 == 0 ? KITH_ID_NONE : (uint32_t)(i * 37 % CORPUS);
        distances[i] = (float)i / 3.0F;
    }
    return (kith_neighbors){
        .ids = ids + first * K, .distances = distances + first * K, .rows = count, .k = K};
}

static kith_result_meta make_meta(void)
{
    kith_result_meta meta = kith_result_meta_default();
    meta.kind = KITH_KIND_RESULT;
    meta.metric = KITH_MANHATTAN;
    meta.exact = KITH_CERTIFIED;
    meta.corpus_rows = CORPUS;
    meta.points = (kith_fingerprint){.rows = CORPUS, .cols = 2, .dtype = KITH_F32, .checksum = 77};
    return meta;
}

static kith_result_stream_params make_params(kith_format format, const char *job)
{
    kith_result_stream_params params = kith_result_stream_params_default();
    params.format = format;
    params.rows = ROWS;
    params.k = K;
    params.job = job;
    return params;
}

static kith_status open_stream(kith_ctx *ctx, const char *path, kith_format format,
                               kith_result_stream **out)
{
    const kith_result_meta meta = make_meta();
    const kith_result_stream_params params = make_params(format, "what a test\n");
    return kith_result_stream_open(ctx, path, &params, &meta, out);
}

/* From where the stream is to the end, count rows at a time. */
static kith_status put_rest(kith_ctx *ctx, kith_result_stream *stream, int64_t count)
{
    kith_status status = KITH_OK;
    for (int64_t row = kith_result_stream_get_state(stream)->rows;
         row < ROWS && status == KITH_OK;) {
        const int64_t now = ROWS - row < count ? ROWS - row : count;
        const kith_neighbors part = rows_from(row, now);
        status = kith_result_stream_put(ctx, stream, &part);
        row += now;
    }
    return status == KITH_OK ? kith_result_stream_finish(ctx, stream) : status;
}

static kith_status write_stream(kith_ctx *ctx, const char *path, kith_format format, int64_t count,
                                int64_t *stood)
{
    kith_result_stream *stream = NULL;
    kith_status status = open_stream(ctx, path, format, &stream);
    *stood = 0;
    if (status == KITH_OK) {
        *stood = kith_result_stream_get_state(stream)->rows;
        status = put_rest(ctx, stream, count);
    }
    kith_result_stream_free(stream);
    return status;
}

static void check_bytes(test_folder *folder, const char *path, kith_format format)
{
    size_t bytes[2];
    const kith_neighbors all = rows_from(0, ROWS);
    const kith_result_meta meta = make_meta();
    const char *whole = test_path(folder, "whole");
    test_disk_works();
    assert_int_equal(kith_result_save(folder->ctx, whole, format, &all, &meta), KITH_OK);
    unsigned char *expected = test_read(whole, &bytes[0]);
    unsigned char *found = test_read(path, &bytes[1]);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(expected, found, bytes[0]);
    free(expected);
    free(found);
    (void)unlink(whole);
}

static void same_bytes(void **state)
{
    test_folder *folder = *state;
    int64_t stood = 0;
    print_message("pieces of 1, 7, 60 rows, short and interrupted writes: the bytes of a result "
                  "that is saved at once\n");
    for (int i = 0; i < FORMATS * 3; i++) {
        static const int64_t counts[] = {1, 7, ROWS};
        const kith_format format = formats[i / 3];
        const char *path = test_path(folder, "stream");
        test_disk.interrupt = 1;
        test_disk.most = 13;
        assert_int_equal(write_stream(folder->ctx, path, format, counts[i % 3], &stood), KITH_OK);
        check_bytes(folder, path, format);
        (void)unlink(path);
        assert_int_equal(test_folder_count(folder), 0);
    }
}

static void refused_at_each_call(void **state)
{
    test_folder *folder = *state;
    int tried = 0;
    int resumed = 0;
    print_message("the disk is full from the n-th call on, each n: an error, nothing under the "
                  "final name that is not whole, and the next run ends with the same bytes\n");
    for (int i = 0; i < FORMATS; i++) {
        kith_status status = KITH_E_IO;
        for (int n = 1; status != KITH_OK; n++) {
            int64_t stood = 0;
            const char *path = test_path(folder, "full");
            test_disk_works();
            test_disk.fail_at = n;
            status = write_stream(folder->ctx, path, formats[i], 20, &stood);
            test_disk_works();
            if (status != KITH_OK) {
                assert_int_equal(status, KITH_E_IO);
                assert_string_not_equal(kith_ctx_detail(folder->ctx), "");
                tried += 1;
            }
            if (access(path, F_OK) == 0) {
                check_bytes(folder, path, formats[i]);
            }
            assert_int_equal(write_stream(folder->ctx, path, formats[i], 9, &stood), KITH_OK);
            check_bytes(folder, path, formats[i]);
            assert_int_equal(stood % 20, 0);
            resumed += stood > 0;
            (void)unlink(path);
            assert_int_equal(test_folder_count(folder), 0);
        }
    }
    print_message("%d refusals, %d went on behind rows that stood\n", tried, resumed);
    assert_true(tried > 50 && resumed > 20);
}

static void no_memory(void **state)
{
    test_folder *folder = *state;
    print_message("no memory at the n-th allocation of opening, each n: an error, nothing held, "
                  "nothing left\n");
    kith_status status = KITH_E_MEMORY;
    for (long n = 1; status != KITH_OK; n++) {
        test_faulty faulty = {.fails_at = 0};
        int64_t stood = 0;
        kith_ctx *ctx = test_faulty_ctx("cpu", &faulty, 0);
        faulty.fails_at = atomic_load(&faulty.asked) + n;
        status = write_stream(ctx, test_path(folder, "m.npz"), KITH_FORMAT_NPZ, 20, &stood);
        assert_true(status == KITH_OK || status == KITH_E_MEMORY);
        kith_ctx_free(ctx);
        assert_int_equal(atomic_load(&faulty.blocks), 0);
        assert_int_equal(test_folder_count(folder), status == KITH_OK ? 1 : 0);
        assert_true(n < 100);
    }
}

/* ---- Mistakes ------------------------------------------------------------------------------- */

static void wrong_arguments(void **state)
{
    test_folder *folder = *state;
    kith_ctx *ctx = folder->ctx;
    kith_result_stream *stream = NULL;
    const char *path = test_path(folder, "a.kith");
    print_message("arguments: each mistake is named, and nothing is left\n");
    kith_result_meta meta = make_meta();
    kith_result_stream_params params = make_params(KITH_FORMAT_CSR, NULL);
    test_failed(folder, kith_result_stream_open(ctx, path, &params, &meta, &stream),
                KITH_E_ARGUMENT, path, "npz, kith, knn, ibin or ivecs");
    params.format = KITH_FORMAT_NPZ;
    meta.corpus_rows = meta.points.rows = (int64_t)1 << 32;
    test_failed(folder, kith_result_stream_open(ctx, path, &params, &meta, &stream),
                KITH_E_ARGUMENT, NULL, "meta.corpus_rows is 4294967296");
    meta.corpus_rows = meta.points.rows = ((int64_t)1 << 31) + 1;
    test_failed(folder, kith_result_stream_open(ctx, path, &params, &meta, &stream),
                KITH_E_ARGUMENT, path, "take kith or knn");
    params.rows = 0;
    test_failed(folder, kith_result_stream_open(ctx, path, &params, &meta, &stream),
                KITH_E_ARGUMENT, NULL, "params has 0 rows of 7");
    test_failed(folder, kith_result_stream_open(ctx, path, NULL, &meta, &stream), KITH_E_ARGUMENT,
                NULL, "params is NULL");
    assert_null(stream);
    assert_int_equal(test_folder_count(folder), 0);
}

static void wrong_pieces(void **state)
{
    test_folder *folder = *state;
    kith_ctx *ctx = folder->ctx;
    kith_result_stream *stream = NULL;
    kith_result_stream *second = NULL;
    const char *path = test_path(folder, "p.kith");
    print_message("pieces that do not fit, an end too early, a second opener: refused; freed "
                  "without a row nothing is left\n");
    assert_int_equal(open_stream(ctx, path, KITH_FORMAT_AUTO, &stream), KITH_OK);
    kith_neighbors part = rows_from(0, 5);
    part.k = K - 1;
    test_failed(folder, kith_result_stream_put(ctx, stream, &part), KITH_E_ARGUMENT, NULL,
                "has 5 rows of 6");
    part = rows_from(0, 5);
    ids[3] = CORPUS;
    test_failed(folder, kith_result_stream_put(ctx, stream, &part), KITH_E_ARGUMENT, NULL,
                "neighbors.ids[0, 3] is 1000, must be below the 1000 rows");
    part.distances = NULL;
    test_failed(folder, kith_result_stream_put(ctx, stream, &part), KITH_E_ARGUMENT, NULL,
                "neighbors.distances is NULL");
    test_failed(folder, kith_result_stream_finish(ctx, stream), KITH_E_ARGUMENT, NULL,
                "has 0 of 60 rows");
    test_failed(folder, open_stream(ctx, path, KITH_FORMAT_AUTO, &second), KITH_E_IO, NULL,
                "another process is at work on it");
    kith_result_stream_free(stream);
    assert_int_equal(test_folder_count(folder), 0);
}

/* ---- The journal's text --------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

enum { RECORDS = 12 };

/* A whole journal; to be freed. */
static char *make_text(const kin_journal *journal, uint64_t *bytes,
                       kin_journal_record records[RECORDS])
{
    *bytes = journal->head_bytes + (uint64_t)RECORDS * KIN_JOURNAL_LINE;
    char *text = malloc(*bytes);
    assert_non_null(text);
    memcpy(text, journal->head, journal->head_bytes);
    for (int i = 0; i < RECORDS; i++) {
        char line[KIN_JOURNAL_LINE + 1];
        records[i] = (kin_journal_record){.rows = 5 * (i + 1),
                                          .sums = {0x123456789abcdefu * (uint64_t)i, ~0u}};
        kin_journal_print(line, &records[i]);
        assert_int_equal(strlen(line), KIN_JOURNAL_LINE);
        memcpy(text + journal->head_bytes + i * KIN_JOURNAL_LINE, line, KIN_JOURNAL_LINE);
    }
    return text;
}

/* What is read of a text: the records that were written, up to some place. */
static int64_t read_text(const kin_journal *journal, const char *text, uint64_t bytes,
                         const kin_journal_record records[RECORDS])
{
    char theirs[KIN_JOURNAL_EXCERPT];
    char ours[KIN_JOURNAL_EXCERPT];
    kin_journal_record record;
    int64_t count = 0;
    uint64_t at = journal->head_bytes;
    if (kin_journal_judge(journal, text, bytes, theirs, ours) != KIN_JOURNAL_SAME) {
        return -1;
    }
    assert_memory_equal(text, journal->head, journal->head_bytes);
    while (kin_journal_next(text, bytes, &at, &record)) {
        assert_true(count < RECORDS);
        assert_int_equal(record.rows, records[count].rows);
        assert_memory_equal(record.sums, records[count].sums, sizeof record.sums);
        count += 1;
    }
    return count;
}

/* A copy of its own length, so that reading beyond it is seen. */
static int64_t read_copy(const kin_journal *journal, const char *text, uint64_t bytes,
                         const kin_journal_record records[RECORDS])
{
    char *copy = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(copy);
    memcpy(copy, text, bytes);
    const int64_t count = read_text(journal, copy, bytes, records);
    free(copy);
    return count;
}

static void damaged_text(void **state)
{
    test_folder *folder = *state;
    kin_journal journal;
    kin_journal_record records[RECORDS];
    uint64_t bytes = 0;
    uint32_t random = 5;
    print_message("a journal that is cut at each byte, or damaged at random: whole records before "
                  "the damage, and no others\n");
    assert_int_equal(kin_journal_init(folder->ctx, "x", "a 1\nb 2\n", &journal), KITH_OK);
    char *text = make_text(&journal, &bytes, records);
    for (uint64_t keep = 0; keep <= bytes; keep++) {
        const int64_t whole = (int64_t)(keep - journal.head_bytes) / KIN_JOURNAL_LINE;
        assert_int_equal(read_copy(&journal, text, keep, records),
                         keep < journal.head_bytes ? -1 : whole);
    }
    for (int i = 0; i < 200000; i++) {
        const uint64_t at = next_random(&random) % bytes;
        const char before = text[at];
        const uint32_t kind = next_random(&random) % 4;
        const int damaged = kind == 0   ? '\n'
                            : kind == 1 ? before ^ 1 << next_random(&random) % 8
                                        : (int)(next_random(&random) & 255);
        text[at] = (char)damaged;
        const int64_t count = read_copy(&journal, text, bytes, records);
        const int64_t most =
            at < journal.head_bytes ? -1 : (int64_t)((at - journal.head_bytes) / KIN_JOURNAL_LINE);
        assert_int_equal(count, text[at] == before ? RECORDS : most);
        text[at] = before;
    }
    free(text);
    kin_journal_free(folder->ctx, &journal);
}

static void other_jobs(void **state)
{
    test_folder *folder = *state;
    static const char *const jobs[] = {"a 1\nb 3\n", "a 1\n", "", "a 1\nb 2\nc 3\n"};
    static const char *const lines[][2] = {
        {"b 3", "b 2"}, {"sum ", "b 2"}, {"sum ", "a 1"}, {"c 3", "sum "}};
    kin_journal ours;
    print_message("a journal of another job: the first lines that differ are named\n");
    assert_int_equal(kin_journal_init(folder->ctx, "x", "a 1\nb 2\n", &ours), KITH_OK);
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        kin_journal other;
        char line[2][KIN_JOURNAL_EXCERPT];
        assert_int_equal(kin_journal_init(folder->ctx, "x", jobs[i], &other), KITH_OK);
        assert_int_equal(kin_journal_judge(&ours, other.head, other.head_bytes, line[0], line[1]),
                         KIN_JOURNAL_OTHER);
        for (int j = 0; j < 2; j++) {
            assert_memory_equal(line[j], lines[i][j], strlen(lines[i][j]));
        }
        kin_journal_free(folder->ctx, &other);
    }
    kin_journal_free(folder->ctx, &ours);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(same_bytes, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(refused_at_each_call, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(no_memory, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(wrong_arguments, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(wrong_pieces, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(damaged_text, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(other_jobs, test_folder_setup, test_folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
