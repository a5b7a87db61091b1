/* SPDX-License-Identifier: Apache-2.0
 * Files of pairs: what they hold, and jobs that are killed and go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "file/file_checksum.h"
#include "file/file_stream.h"
#include "host/host_cpu.h"
#include "support/support_files.h"
#include "support/support_keys.h"
#include "support/support_pairs.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Files ----------------------------------------------------------------------------------- */

static void files_hold_what_was_told(void **state)
{
    test_folder *folder = *state;
    input in = input_make(KITH_EUCLIDEAN, SHAPE_GAUSS, ROWS, 4);
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    const kith_matrix *points = &in.points.matrix;
    const told *wanted = &in.wanted[0];
    kith_pairs_params params = in.params;
    params.take = NULL;
    params.chunk_pairs = 100;
    params.path = test_path(folder, "p.npy");
    test_works(ctx, kith_pairs_find(ctx, points, NULL, &params, NULL));
    unsigned char head[128];
    struct {
        uint32_t ids[2];
        double distance;
    } one;
    FILE *file = fopen(test_path(folder, "p.npy"), "rb");
    assert_non_null(file);
    assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
    for (int64_t p = 0; p < wanted->count; p++) {
        assert_int_equal(fread(&one, 1, sizeof one, file), sizeof one);
        assert_int_equal(one.ids[0], wanted->i[p]);
        assert_int_equal(one.ids[1], wanted->j[p]);
        assert_memory_equal(&one.distance, &wanted->distances[p], sizeof one.distance);
    }
    assert_int_equal(fread(head, 1, 1, file), 0);
    (void)fclose(file);
    told got = told_make(wanted->count); /* it is written, and told */
    params.take = take;
    params.take_arg = &got;
    got.stop_after = 2;
    kith_pairs_report report = {.struct_size = sizeof report};
    params.path = test_path(folder, "p.csv");
    test_works(ctx, kith_pairs_find(ctx, points, NULL, &params, &report));
    assert_true(report.complete == 0 && report.chunks == 2);
    file = fopen(test_path(folder, "p.csv"), "r");
    char line[128];
    assert_non_null(file);
    for (int64_t p = -1; p < got.count; p++) {
        assert_non_null(fgets(line, sizeof line, file));
        unsigned i = 0;
        unsigned j = 0;
        double distance = 0.0;
        if (p < 0) {
            assert_string_equal(line, "i,j,distance\n");
        } else {
            assert_int_equal(sscanf(line, "%u,%u,%lf", &i, &j, &distance), 3);
            assert_true(i == wanted->i[p] && j == wanted->j[p] && distance == wanted->distances[p]);
        }
    }
    assert_null(fgets(line, sizeof line, file));
    (void)fclose(file);
    params.take = NULL;
    params.path = test_path(folder, "p.xyz");
    test_fails(ctx, kith_pairs_find(ctx, points, NULL, &params, NULL), KITH_E_ARGUMENT,
               ".npy, .kith, .csv or .tsv");
    params.path = "";
    test_fails(ctx, kith_pairs_find(ctx, points, NULL, &params, NULL), KITH_E_ARGUMENT, "path");
    told_free(&got);
    kith_ctx_free(ctx);
    input_free(&in);
    (void)printf("an .npy and a .csv hold the pairs to the last bit, and as far as a job came\n");
}

/* ---- Killed, and gone on with ---------------------------------------------------------------- */

enum { CHUNK_ROWS = 9 };

/* Told of the chunks; kills its process after so many that were not told before. */
typedef struct killer {
    int64_t count;
    int64_t told; /* chunks */
    int64_t dies_after;
} killer;

static int take_or_die(void *arg, const kith_pairs *pairs, const double *distances)
{
    killer *k = arg;
    (void)distances;
    k->count += pairs->count;
    k->told += 1;
    if (k->told == k->dies_after) {
        (void)raise(SIGKILL);
    }
    return 0;
}

static kith_pairs_params killed_params(const input *in, const char *path)
{
    kith_pairs_params params = in->params;
    params.take = NULL;
    params.path = path;
    params.chunk_rows = CHUNK_ROWS;
    params.chunk_pairs = 70;
    return params;
}

/* In a process of its own, which dies after so many chunks, unless it has fewer. */
static bool dies_after(const input *in, kith_pairs_params params, int64_t chunks)
{
    const pid_t child = fork();
    if (child == 0) {
        killer k = {.dies_after = chunks};
        kith_ctx *ctx = test_ctx(kin_cpu_best(), 1);
        params.take = take_or_die;
        params.take_arg = &k;
        const kith_status status = kith_pairs_find(ctx, &in->points.matrix, NULL, &params, NULL);
        _exit(status == KITH_OK ? 0 : 1);
    }
    int how = 0;
    assert_true(child > 0 && waitpid(child, &how, 0) == child);
    assert_true(WIFSIGNALED(how) ? WTERMSIG(how) == SIGKILL : WEXITSTATUS(how) == 0);
    return WIFSIGNALED(how);
}

static void same_bytes(const char *a, const char *b)
{
    size_t bytes[2];
    unsigned char *one = test_read(a, &bytes[0]);
    unsigned char *other = test_read(b, &bytes[1]);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(one, other, bytes[0]);
    free(other);
    free(one);
}

static void go_on(kith_ctx *ctx, const input *in, const char *path, const char *whole)
{
    uint32_t labels[2][ROWS];
    uint8_t kept[2][ROWS];
    kith_pairs_params params = killed_params(in, path);
    kith_pairs_report report = {.struct_size = sizeof report};
    told got = told_make(in->wanted[0].count);
    params.take = take;
    params.take_arg = &got;
    params.labels = labels[0];
    params.kept = kept[0];
    params.keep = KITH_KEEP_CENTRAL;
    test_works(ctx, kith_pairs_find(ctx, &in->points.matrix, NULL, &params, &report));
    check_told(&in->wanted[0], &got, in->wanted[0].count);
    assert_true(report.complete == 1 && report.resumed > 0 && report.count == got.count);
    params.path = NULL;
    params.take = NULL;
    params.labels = labels[1];
    params.kept = kept[1];
    test_works(ctx, kith_pairs_find(ctx, &in->points.matrix, NULL, &params, NULL));
    assert_memory_equal(labels[0], labels[1], sizeof labels[0]);
    assert_memory_equal(kept[0], kept[1], sizeof kept[0]);
    same_bytes(path, whole);
    told_free(&got);
}

static void killed_jobs_go_on(void **state)
{
    test_folder *folder = *state;
    int killed = 0;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    for (int kind = 0; kind < 4; kind++) {
        const char *ending = kind % 2 == 0 ? "npy" : "kith";
        char name[64];
        input in = input_make(KITH_EUCLIDEAN, kind < 2 ? SHAPE_COPIES : SHAPE_GAUSS, ROWS, 4);
        int64_t groups[ROWS];
        kith_filter filter = kith_filter_default();
        for (int i = 0; i < ROWS; i++) {
            groups[i] = i % 3;
        }
        filter.groups = groups;
        filter.rule = KITH_RULE_OTHER;
        if (kind >= 2) {
            in.params.filter = &filter;
            told_free(&in.wanted[0]);
            in.wanted[0] = brute(&in.points.matrix, NULL, &in.params);
        }
        (void)snprintf(name, sizeof name, "whole.%s", ending);
        kith_pairs_params params = killed_params(&in, test_path(folder, name));
        params.chunk_rows = 0; /* cut in another way */
        test_works(ctx, kith_pairs_find(ctx, &in.points.matrix, NULL, &params, NULL));
        bool dies = true;
        for (int64_t chunks = 1; dies; chunks += test_is_slow_build() ? 9 : kind == 0 ? 1 : 4) {
            (void)snprintf(name, sizeof name, "killed.%s", ending);
            const char *path = test_path(folder, name);
            (void)snprintf(name, sizeof name, "whole.%s", ending);
            dies = dies_after(&in, killed_params(&in, path), chunks);
            if (dies) {
                assert_int_not_equal(access(path, F_OK), 0);
                (void)dies_after(&in, killed_params(&in, path), chunks + 2);
                if (access(path, F_OK) != 0) {
                    go_on(ctx, &in, path, test_path(folder, name));
                }
                killed += 1;
            }
            same_bytes(path, test_path(folder, name));
            assert_int_equal(unlink(path), 0);
        }
        input_free(&in);
    }
    kith_ctx_free(ctx);
    assert_true(killed > (test_is_slow_build() ? 10 : 20));
    (void)printf("%d jobs that were killed after a chunk, and again, end in the bytes "
                 "of one that was not, with its labels and its rows that are kept\n",
                 killed);
}

static void what_others_left_is_refused(void **state)
{
    test_folder *folder = *state;
    input in = input_make(KITH_EUCLIDEAN, SHAPE_GAUSS, ROWS, 4);
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    const kith_matrix *points = &in.points.matrix;
    char path[400];
    char partial[420];
    char whole[400];
    (void)snprintf(path, sizeof path, "%s", test_path(folder, "other.npy"));
    (void)snprintf(partial, sizeof partial, "%s.partial", path);
    (void)snprintf(whole, sizeof whole, "%s", test_path(folder, "uncut.npy"));
    kith_pairs_params params = killed_params(&in, whole);
    test_works(ctx, kith_pairs_find(ctx, points, NULL, &params, NULL));
    assert_true(dies_after(&in, killed_params(&in, path), 4));
    params = killed_params(&in, path);
    params.radius = nextafter(params.radius, INFINITY);
    test_fails(ctx, kith_pairs_find(ctx, points, NULL, &params, NULL), KITH_E_ARGUMENT,
               "--restart");
    params = killed_params(&in, path);
    params.limit = 1000000;
    test_fails(ctx, kith_pairs_find(ctx, points, NULL, &params, NULL), KITH_E_ARGUMENT, "limit");
    params = killed_params(&in, path);
    params.job = "another";
    test_fails(ctx, kith_pairs_find(ctx, points, NULL, &params, NULL), KITH_E_ARGUMENT, "another");
    /* torn and changed bytes are made again */
    assert_int_equal(truncate(partial, 128 + 16 * 20 + 5), 0);
    params = killed_params(&in, path);
    kith_pairs_report report = {.struct_size = sizeof report};
    test_works(ctx, kith_pairs_find(ctx, points, NULL, &params, &report));
    assert_true(report.resumed <= 20 && report.count == in.wanted[0].count);
    same_bytes(path, whole);
    assert_int_equal(unlink(path), 0);
    assert_true(dies_after(&in, killed_params(&in, path), 4));
    FILE *file = fopen(partial, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 128 + 16, SEEK_SET), 0);
    assert_int_equal(fputc(0xa7, file), 0xa7);
    assert_int_equal(fclose(file), 0);
    report = (kith_pairs_report){.struct_size = sizeof report};
    test_works(ctx, kith_pairs_find(ctx, points, NULL, &params, &report));
    assert_int_equal(report.resumed, 0);
    same_bytes(path, whole);
    assert_int_equal(unlink(path), 0);
    assert_true(dies_after(&in, killed_params(&in, path), 4));
    params.restart = 1;
    report = (kith_pairs_report){.struct_size = sizeof report};
    test_works(ctx, kith_pairs_find(ctx, points, NULL, &params, &report));
    assert_int_equal(report.resumed, 0);
    same_bytes(path, whole);
    assert_int_not_equal(access(partial, F_OK), 0);
    kith_ctx_free(ctx);
    input_free(&in);
    (void)printf("another job's leftovers are refused, torn and changed ones made again\n");
}

/* ---- Lies ------------------------------------------------------------------------------------ */

typedef struct pair_item {
    uint32_t ids[2];
    double distance;
} pair_item;

static FILE *open_named(const char *path, const char *ending)
{
    char name[420];
    (void)snprintf(name, sizeof name, "%s.%s", path, ending);
    FILE *file = fopen(name, "r+b");
    assert_non_null(file);
    return file;
}

/* Changes an id of a pair that stands, and makes all checksums right: one record tells of all. */
static void tell_a_lie(const char *path, int64_t pair, int which, uint32_t id)
{
    static char text[1 << 16];
    static pair_item items[1 << 13];
    char line[KIN_JOURNAL_LINE + 1];
    kin_journal_record record;
    FILE *journal = open_named(path, "journal");
    const uint64_t bytes = fread(text, 1, sizeof text, journal);
    uint64_t head = bytes;
    for (uint64_t at = bytes - KIN_JOURNAL_LINE; kin_journal_next(text, bytes, &at, &record);) {
        head -= KIN_JOURNAL_LINE;
        at = head - KIN_JOURNAL_LINE;
    }
    uint64_t last = bytes - KIN_JOURNAL_LINE;
    assert_true(head < bytes && kin_journal_next(text, bytes, &last, &record));
    const size_t count = (size_t)record.sums[0];
    FILE *partial = open_named(path, "partial");
    assert_true(pair < (int64_t)count && count <= sizeof items / sizeof *items);
    assert_int_equal(fseek(partial, 128, SEEK_SET), 0);
    assert_int_equal(fread(items, sizeof *items, count, partial), count);
    items[pair].ids[which] = id;
    assert_int_equal(fseek(partial, 128, SEEK_SET), 0);
    assert_int_equal(fwrite(items, sizeof *items, count, partial), count);
    assert_int_equal(fclose(partial), 0);
    record.sums[1] = kin_checksum_of(items, count * sizeof *items);
    kin_journal_print(line, &record);
    assert_int_equal(fseek(journal, (long)head, SEEK_SET), 0);
    assert_int_equal(fwrite(line, 1, KIN_JOURNAL_LINE, journal), KIN_JOURNAL_LINE);
    assert_int_equal(ftruncate(fileno(journal), (off_t)(head + KIN_JOURNAL_LINE)), 0);
    assert_int_equal(fclose(journal), 0);
}

static void lies_are_made_again(void **state)
{
    test_folder *folder = *state;
    input in = input_make(KITH_EUCLIDEAN, SHAPE_GAUSS, ROWS, 4);
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    const kith_matrix *points = &in.points.matrix;
    char path[400];
    char whole[400];
    (void)snprintf(path, sizeof path, "%s", test_path(folder, "lie.npy"));
    (void)snprintf(whole, sizeof whole, "%s", test_path(folder, "uncut.npy"));
    kith_pairs_params params = killed_params(&in, whole);
    test_works(ctx, kith_pairs_find(ctx, points, NULL, &params, NULL));
    const uint32_t rows = (uint32_t)points->rows;
    const uint32_t ids[][2] = {
        {1, UINT32_MAX - 15}, {0, UINT32_MAX - 15}, {1, rows}, {0, rows}, {1, 0}, {0, rows - 2}};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        uint32_t labels[ROWS];
        kith_pairs_report report = {.struct_size = sizeof report};
        assert_true(dies_after(&in, killed_params(&in, path), 4));
        tell_a_lie(path, 3, (int)ids[i][0], ids[i][1]);
        params = killed_params(&in, path);
        params.labels = labels;
        test_works(ctx, kith_pairs_find(ctx, points, NULL, &params, &report));
        assert_int_equal(report.resumed, 0);
        same_bytes(path, whole);
        assert_int_equal(unlink(path), 0);
    }
    kith_ctx_free(ctx);
    input_free(&in);
    (void)printf("pairs that cannot be, under checksums that are right, are made again\n");
}

static double first_column(void *arg, const void *query, const void *point, int32_t cols)
{
    (void)cols;
    return *(const double *)arg *
           fabs((double)*(const float *)query - (double)*(const float *)point);
}

static void functions_begin_anew(void **state)
{
    test_folder *folder = *state;
    input in = input_make(KITH_EUCLIDEAN, SHAPE_GAUSS, ROWS, 4);
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 1);
    double scale = 1.0;
    kith_pairs_params params = killed_params(&in, test_path(folder, "own.npy"));
    params.metric = KITH_CUSTOM;
    params.custom = first_column;
    params.custom_arg = &scale;
    params.radius = 0.05;
    for (int named = 0; named < 2; named++) {
        kith_pairs_report report = {.struct_size = sizeof report};
        params.job = named != 0 ? "the first column" : NULL;
        assert_true(dies_after(&in, params, 4));
        test_works(ctx, kith_pairs_find(ctx, &in.points.matrix, NULL, &params, &report));
        assert_true(named != 0 ? report.resumed > 0 : report.resumed == 0);
        assert_int_equal(unlink(params.path), 0);
    }
    kith_ctx_free(ctx);
    input_free(&in);
    (void)printf("a job by a function of the caller's begins anew, unless he says which it is\n");
}

static void kith_files_are_read(void **state)
{
    test_folder *folder = *state;
    input in = input_make(KITH_EUCLIDEAN, SHAPE_COPIES, ROWS, 4);
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    for (int two = 0; two < 2; two++) {
        char path[400];
        (void)snprintf(path, sizeof path, "%s", test_path(folder, two ? "two.kith" : "one.kith"));
        kith_pairs_params params = in.params;
        params.take = NULL;
        params.path = path;
        test_works(ctx, kith_pairs_find(ctx, &in.points.matrix, two ? &in.others.matrix : NULL,
                                        &params, NULL));
        told got = told_make(in.wanted[two].count);
        kith_pairs_report report = {.struct_size = sizeof report};
        test_works(ctx, kith_pairs_read(ctx, path, take, &got, &report));
        check_told(&in.wanted[two], &got, in.wanted[two].count);
        assert_true(report.count == got.count && report.complete == 1);
        report = (kith_pairs_report){.struct_size = sizeof report};
        test_works(ctx, kith_pairs_read(ctx, path, NULL, NULL, &report));
        assert_int_equal(report.count, got.count);
        told_free(&got);
        size_t bytes = 0;
        unsigned char *data = test_read(path, &bytes);
        for (size_t at = 0; at < bytes; at += 1 + bytes / 97) {
            FILE *file = fopen(path, "wb");
            assert_non_null(file);
            data[at] ^= 0x10;
            assert_int_equal(fwrite(data, 1, bytes, file), bytes);
            data[at] ^= 0x10;
            assert_int_equal(fclose(file), 0);
            assert_int_equal(kith_pairs_read(ctx, path, NULL, NULL, NULL), KITH_E_FORMAT);
        }
        free(data);
    }
    kith_ctx_free(ctx);
    input_free(&in);
    (void)printf("a .kith gives back its pairs, and every changed byte is found\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_hold_what_was_told, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(killed_jobs_go_on, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(what_others_left_is_refused, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(lies_are_made_again, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(functions_begin_anew, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(kith_files_are_read, test_folder_setup,
                                        test_folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
