/* SPDX-License-Identifier: Apache-2.0
 * Neighbours to files and back, in every format. */
#include "file/file_atomic.h"
#include "file/file_container.h"
#include "file/file_numpy.h"
#include "file/file_open.h"
#include "support/support_files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

enum { ROWS = 23, K = 7 };

typedef struct table {
    uint32_t ids[ROWS * K];
    float distances[ROWS * K];
    double distances64[ROWS * K];
    kith_neighbors view;
} table;

static void fill(table *t)
{
    for (int i = 0; i < ROWS * K; i++) {
        t->ids[i] = (uint32_t)(i * 31 % 1000);
        t->distances64[i] = (double)i * 0.1;
        t->distances[i] = (float)t->distances64[i];
    }
    t->view = (kith_neighbors){t->ids, t->distances, NULL, ROWS, K, NULL};
}

static kith_result_meta make_meta(void)
{
    kith_result_meta meta = kith_result_meta_default();
    meta.kind = KITH_KIND_RESULT;
    meta.metric = KITH_COSINE;
    meta.exact = KITH_CERTIFIED;
    meta.corpus_rows = 1000;
    meta.points = (kith_fingerprint){.rows = 1000, .cols = 2, .dtype = KITH_F32, .checksum = 77};
    return meta;
}

static kith_result *open_result(test_folder *folder, const char *path)
{
    kith_result *result = NULL;
    if (kith_result_open(folder->ctx, path, &result) != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(folder->ctx));
    }
    return result;
}

static void save(test_folder *folder, const char *path, kith_format format,
                 const kith_neighbors *neighbors, const kith_result_meta *meta)
{
    if (kith_result_save(folder->ctx, path, format, neighbors, meta) != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(folder->ctx));
    }
}

static const struct {
    const char *name;
    kith_format format;
    int distances;
    int meta;
} formats[] = {{"r.npz", KITH_FORMAT_AUTO, 1, 1},   {"c.npz", KITH_FORMAT_CSR, 1, 1},
               {"r.ivecs", KITH_FORMAT_AUTO, 0, 0}, {"r.ibin", KITH_FORMAT_AUTO, 0, 0},
               {"r.knn", KITH_FORMAT_AUTO, 1, 0},   {"r.kith", KITH_FORMAT_AUTO, 1, 1}};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static void round_trips(void **state)
{
    test_folder *folder = *state;
    table t;
    fill(&t);
    const kith_result_meta meta = make_meta();
    print_message("neighbours of every format come back; equal answers are equal files:\n");
    for (int f = 0; f < FORMATS; f++) {
        const char *path = test_path(folder, formats[f].name);
        save(folder, path, formats[f].format, &t.view, &meta);
        kith_result *result = open_result(folder, path);
        const kith_neighbors *n = kith_result_neighbors(result);
        assert_int_equal(n->rows, ROWS);
        assert_int_equal(n->k, K);
        assert_memory_equal(n->ids, t.ids, sizeof t.ids);
        assert_int_equal(n->distances != NULL, formats[f].distances);
        if (n->distances != NULL) {
            assert_memory_equal(n->distances, t.distances, sizeof t.distances);
        }
        const kith_result_meta *back = kith_result_neighbors(result)->meta;
        assert_int_equal(back->metric, formats[f].meta ? KITH_COSINE : KITH_METRIC_DEFAULT);
        assert_int_equal(back->exact, formats[f].meta ? KITH_CERTIFIED : KITH_EXACTNESS_UNKNOWN);
        assert_int_equal(back->points.checksum, formats[f].meta ? 77 : 0);
        assert_true(back->recall < 0.0);
        kith_file_info info = {.struct_size = (uint32_t)sizeof info};
        assert_int_equal(kith_file_inspect(folder->ctx, path, NULL, &info), KITH_OK);
        assert_int_equal(info.rows, ROWS);
        assert_int_equal(info.cols, K);
        assert_int_equal(info.metric, back->metric);
        assert_int_equal(info.exact, back->exact);
        assert_int_equal(info.points.checksum, back->points.checksum);
        size_t first_bytes = 0;
        size_t second_bytes = 0;
        unsigned char *first = test_read(path, &first_bytes);
        save(folder, path, formats[f].format, n, &meta); /* over the file it is mapped from */
        unsigned char *second = test_read(path, &second_bytes);
        if (formats[f].distances && formats[f].meta) {
            assert_int_equal(first_bytes, second_bytes);
            assert_memory_equal(first, second, first_bytes);
        }
        assert_int_equal(info.file_bytes, first_bytes);
        free(first);
        free(second);
        kith_result_free(result);
        print_message("  %s %s: %zu bytes\n", formats[f].name, info.format, first_bytes);
    }
    assert_int_equal(test_folder_count(folder), FORMATS);
}

static void one_row_and_one_neighbour(void **state)
{
    test_folder *folder = *state;
    uint32_t id = 0;
    float distance = INFINITY;
    const kith_neighbors one = {&id, &distance, NULL, 1, 1, NULL};
    print_message("1 row of 1 neighbour, without meta:\n");
    for (int f = 0; f < FORMATS; f++) {
        const char *path = test_path(folder, formats[f].name);
        save(folder, path, formats[f].format, &one, NULL);
        kith_result *result = open_result(folder, path);
        assert_int_equal(kith_result_neighbors(result)->ids[0], 0);
        kith_result_free(result);
    }
}

static void meta_is_kept(void **state)
{
    test_folder *folder = *state;
    table t;
    fill(&t);
    kith_result_meta meta = make_meta();
    meta.kind = KITH_KIND_GRAPH;
    meta.exact = KITH_APPROXIMATE;
    meta.recall = 0.993;
    meta.recall_at = 10;
    struct { /* of a program that was compiled with a newer header */
        kith_result_meta known;
        unsigned char more[24];
    } newer = {.known = meta};
    memset(newer.more, 0xff, sizeof newer.more);
    newer.known.struct_size = (uint32_t)sizeof newer;
    print_message("kind, metric, recall and corpus rows are kept by npz and kith:\n");
    static const char *const names[] = {"m.npz", "m.kith"};
    for (int i = 0; i < 2; i++) {
        const char *path = test_path(folder, names[i]);
        save(folder, path, KITH_FORMAT_AUTO, &t.view, i == 0 ? &meta : &newer.known);
        kith_result *result = open_result(folder, path);
        const kith_result_meta *back = kith_result_neighbors(result)->meta;
        assert_int_equal(back->kind, KITH_KIND_GRAPH);
        assert_int_equal(back->metric, KITH_COSINE);
        assert_int_equal(back->exact, KITH_APPROXIMATE);
        assert_true(back->recall == meta.recall);
        assert_int_equal(back->recall_at, 10);
        assert_int_equal(back->corpus_rows, 1000);
        kith_result_free(result);
    }
    char text[KIN_META_TEXT];
    (void)kin_meta_print(text, &meta, K);
    assert_string_equal(text,
                        "{\"kind\": \"graph\", \"metric\": \"cosine\", \"k\": 7, \"exact\": false, "
                        "\"recall\": {\"at\": 10, \"estimate\": 0.993}, "
                        "\"corpus_rows\": 1000, \"points\": {\"rows\": 1000, \"cols\": 2, "
                        "\"dtype\": \"float32\", \"checksum\": \"000000000000004d\"}}");
    kith_result_meta parsed = kith_result_meta_default();
    static const char *const broken[] = {"",
                                         "{",
                                         "{\"exact\": true",
                                         "[1, {\"exact\": true}",
                                         "{\"exact\": tru}",
                                         "[[[[[[[[[[[[1]]]]]]]]]]]]",
                                         "\"\\"};
    for (int i = 0; i < 7; i++) {
        kin_meta_parse(broken[i], strlen(broken[i]), &parsed);
        assert_int_equal(parsed.exact, 0);
    }
    const char *other = "{\"a\": [1, {\"exact\": null}], \"b\": \"\\\"x\", \"exact\" :true }";
    kin_meta_parse(other, strlen(other), &parsed);
    assert_int_equal(parsed.exact, KITH_EXACTNESS_UNKNOWN); /* certified, but of what? */
    const char *whole = "{\"exact\": true, \"points\": {\"rows\": 5, \"cols\": 2, \"dtype\": "
                        "\"uint8\", \"checksum\": \"00ff00ff00ff00ff\"}}";
    kin_meta_parse(whole, strlen(whole), &parsed);
    assert_int_equal(parsed.exact, KITH_CERTIFIED);
    assert_true(parsed.points.checksum == 0x00ff00ff00ff00ff && parsed.points.dtype == KITH_U8);
}

static void doubles(void **state)
{
    test_folder *folder = *state;
    table t;
    fill(&t);
    t.view.distances = NULL;
    t.view.distances64 = t.distances64;
    print_message("distances given as double alone are rounded once; kith keeps the doubles:\n");
    save(folder, test_path(folder, "d.knn"), KITH_FORMAT_AUTO, &t.view, NULL);
    kith_result *result = open_result(folder, test_path(folder, "d.knn"));
    assert_memory_equal(kith_result_neighbors(result)->distances, t.distances, sizeof t.distances);
    kith_result_free(result);
    save(folder, test_path(folder, "d.kith"), KITH_FORMAT_AUTO, &t.view, NULL);
    result = open_result(folder, test_path(folder, "d.kith"));
    assert_memory_equal(kith_result_neighbors(result)->distances, t.distances, sizeof t.distances);
    assert_memory_equal(kith_result_neighbors(result)->distances64, t.distances64,
                        sizeof t.distances64);
    kith_result_free(result);
    t.view.distances64 = NULL;
    test_failed(folder, kith_result_save(folder->ctx, "x.knn", KITH_FORMAT_AUTO, &t.view, NULL),
                KITH_E_ARGUMENT, "x.knn", "needs distances");
}

static void empty_slots_and_large_ids(void **state)
{
    test_folder *folder = *state;
    uint32_t ids[4] = {3, KITH_ID_NONE, 2147483647u, KITH_ID_NONE};
    float distances[4] = {1, 2, 3, 4};
    const kith_neighbors n = {ids, distances, NULL, 2, 2, NULL};
    print_message("empty slots are -1; ids from 2^31 on make int64, and are refused by int32:\n");
    static const char *const names[] = {"e.npz", "e.ivecs", "e.ibin", "e.knn", "e.kith"};
    for (int large = 0; large < 2; large++) {
        for (int i = 0; i < 5; i++) {
            const char *path = test_path(folder, names[i]);
            if (large && (i == 1 || i == 2)) {
                test_failed(folder, kith_result_save(folder->ctx, path, KITH_FORMAT_AUTO, &n, NULL),
                            KITH_E_DATA, path, "the id 4294967294 in row 1, column 0");
                continue;
            }
            save(folder, path, KITH_FORMAT_AUTO, &n, NULL);
            kith_result *result = open_result(folder, path);
            assert_memory_equal(kith_result_neighbors(result)->ids, ids, sizeof ids);
            kith_result_free(result);
        }
        ids[2] = 4294967294u;
    }
    ids[1] = 5;
    ids[3] = 6;
    save(folder, test_path(folder, "big.npz"), KITH_FORMAT_CSR, &n, NULL);
    kith_result *result = open_result(folder, test_path(folder, "big.npz"));
    assert_memory_equal(kith_result_neighbors(result)->ids, ids, sizeof ids);
    assert_int_equal(kith_result_neighbors(result)->meta->corpus_rows, 4294967295);
    kith_result_free(result);
}

static void ids_beyond_the_corpus(void **state)
{
    test_folder *folder = *state;
    table t;
    fill(&t);
    kith_result_meta meta = make_meta();
    meta.corpus_rows = meta.points.rows = 100;
    print_message("ids beyond the corpus are noticed when written, in every format, and when "
                  "read:\n");
    for (int format = KITH_FORMAT_NPZ; format <= KITH_FORMAT_KITH; format++) {
        const char *path = test_path(folder, "b.kith");
        test_failed(folder,
                    kith_result_save(folder->ctx, path, (kith_format)format, &t.view, &meta),
                    KITH_E_ARGUMENT, path, "but the corpus has 100 rows");
    }
    const kin_container_header header = {
        .kind = KITH_KIND_RESULT, .rows = ROWS, .k = K, .corpus_rows = 100};
    const kin_section ids = {.tag = KIN_TAG_IDS, .data = t.ids, .bytes = sizeof t.ids};
    const char *path = test_path(folder, "wrong.kith");
    assert_int_equal(kin_container_write(folder->ctx, path, &header, &ids, 1), KITH_OK);
    kith_result *result = NULL;
    test_failed(folder, kith_result_open(folder->ctx, path, &result), KITH_E_FORMAT, NULL,
                "row 0, column 4 holds the id 124, but the corpus has 100 rows");
    assert_null(result);
}

static void ranges(void **state)
{
    test_folder *folder = *state;
    static int64_t offsets[4] = {0, 2, 2, 5};
    static uint32_t ids[5] = {1, 2, 0, 1, 9};
    static float distances[5] = {0.5F, 1, 0, 2, 3};
    const kith_lists lists = {3, offsets, ids, distances, NULL};
    const kith_result_meta meta = kith_result_meta_default();
    print_message("lists of different lengths as npz and kith, and not as anything else:\n");
    const char *path = test_path(folder, "l.npz");
    assert_int_equal(kin_ctx_begin(folder->ctx), KITH_OK);
    assert_int_equal(kin_ranges_save(folder->ctx, path, &lists, &meta), KITH_OK);
    test_refused(folder, 'r', path, KITH_E_FORMAT, "not of one length, at least 1 (row 1 differs");
    kith_file_info info = {.struct_size = (uint32_t)sizeof info};
    assert_int_equal(kith_file_inspect(folder->ctx, path, NULL, &info), KITH_OK);
    assert_string_equal(info.format, "csr");
    assert_int_equal(info.kind, KITH_KIND_RANGES);
    assert_int_equal(info.rows, 3);
    path = test_path(folder, "l.kith");
    assert_int_equal(kin_ranges_save(folder->ctx, path, &lists, &meta), KITH_OK);
    test_refused(folder, 'r', path, KITH_E_FORMAT, "holds lists of different lengths");
    test_refused(folder, 'p', path, KITH_E_FORMAT, "holds neighbours, not points");
    path = test_path(folder, "l.ivecs");
    assert_int_equal(kin_ctx_begin(folder->ctx), KITH_OK);
    test_failed(folder, kin_ranges_save(folder->ctx, path, &lists, &meta), KITH_E_ARGUMENT, path,
                "are saved as .npz");
}

/* An archive with deflated members, made by hand: what numpy.savez_compressed writes. */
static void put_deflated(kin_writer *writer, const char *name, const unsigned char *data,
                         size_t bytes, unsigned char *central, size_t *central_bytes)
{
    unsigned char packed[4096];
    z_stream stream;
    memset(&stream, 0, sizeof stream);
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (z_const Bytef *)(uintptr_t)data;
    stream.avail_in = (uInt)bytes;
    stream.next_out = packed;
    stream.avail_out = sizeof packed;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    const uint32_t sizes[3] = {(uint32_t)crc32(0, data, (uInt)bytes), (uint32_t)stream.total_out,
                               (uint32_t)bytes};
    (void)deflateEnd(&stream);
    unsigned char local[30] = {'P', 'K', 3, 4, 20, 0, 0, 0, 8};
    unsigned char entry[46] = {'P', 'K', 1, 2, 20, 0, 20, 0, 0, 0, 8};
    memcpy(local + 14, sizes, 12);
    memcpy(entry + 16, sizes, 12);
    local[26] = entry[28] = (unsigned char)strlen(name);
    const uint32_t offset = (uint32_t)kin_writer_offset(writer);
    memcpy(entry + 42, &offset, 4);
    assert_int_equal(kin_writer_put(writer, local, 30), KITH_OK);
    assert_int_equal(kin_writer_put(writer, name, strlen(name)), KITH_OK);
    assert_int_equal(kin_writer_put(writer, packed, sizes[1]), KITH_OK);
    memcpy(central + *central_bytes, entry, 46);
    memcpy(central + *central_bytes + 46, name, strlen(name));
    *central_bytes += 46 + strlen(name);
}

static size_t make_npy(unsigned char *file, const char *descr, const void *data, size_t bytes)
{
    const int length =
        snprintf((char *)file + 10, 118,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (2, 2), }", descr);
    memcpy(file, "\x93NUMPY\1", 8);
    file[8] = (unsigned char)length;
    file[9] = 0;
    memcpy(file + 10 + length, data, bytes);
    return 10 + (size_t)length + bytes;
}

static void compressed_archives(void **state)
{
    test_folder *folder = *state;
    static const int64_t ids[4] = {1, -1, 3, 0};
    static const double distances[4] = {0.1, 0.2, 0.3, 0.4};
    unsigned char npy[512];
    unsigned char central[512];
    size_t central_bytes = 0;
    kin_writer writer;
    const char *path = test_path(folder, "z.npz");
    print_message("deflated members, int64 ids and float64 distances are read:\n");
    assert_int_equal(kin_writer_open(folder->ctx, path, &writer), KITH_OK);
    put_deflated(&writer, "ids.npy", npy, make_npy(npy, "<i8", ids, sizeof ids), central,
                 &central_bytes);
    put_deflated(&writer, "distances.npy", npy, make_npy(npy, "<f8", distances, sizeof distances),
                 central, &central_bytes);
    unsigned char end[22] = {'P', 'K', 5, 6, 0, 0, 0, 0, 2, 0, 2};
    const uint32_t place[2] = {(uint32_t)central_bytes, (uint32_t)kin_writer_offset(&writer)};
    memcpy(end + 12, place, sizeof place);
    assert_int_equal(kin_writer_put(&writer, central, central_bytes), KITH_OK);
    assert_int_equal(kin_writer_put(&writer, end, sizeof end), KITH_OK);
    assert_int_equal(kin_writer_close(&writer, KITH_OK), KITH_OK);
    kith_result *result = open_result(folder, path);
    const kith_neighbors *n = kith_result_neighbors(result);
    assert_int_equal(n->ids[1], KITH_ID_NONE);
    assert_int_equal(n->ids[2], 3);
    assert_true(n->distances[0] == 0.1F && n->distances64[3] == 0.4);
    kith_result_free(result);
}

/* zip64 fields from an artificial limit on, so that no file of 4 GiB is needed. */
static void wide_archives(void **state)
{
    test_folder *folder = *state;
    static const int32_t ids[4] = {1, 2, 3, 0};
    unsigned char npy[512];
    const size_t bytes = make_npy(npy, "<i4", ids, sizeof ids);
    kin_writer writer;
    kin_zip zip;
    const char *path = test_path(folder, "w.npz");
    print_message("zip64 archives are written and read:\n");
    assert_int_equal(kin_writer_open(folder->ctx, path, &writer), KITH_OK);
    kin_zip_begin(&zip, &writer);
    zip.limit = 10;
    assert_int_equal(kin_zip_member(&zip, "other.npy", bytes), KITH_OK);
    assert_int_equal(kin_zip_put(&zip, npy, bytes), KITH_OK);
    assert_int_equal(kin_zip_member_end(&zip), KITH_OK);
    assert_int_equal(kin_zip_member(&zip, "ids.npy", bytes), KITH_OK);
    assert_int_equal(kin_zip_put(&zip, npy, bytes), KITH_OK);
    assert_int_equal(kin_zip_member_end(&zip), KITH_OK);
    assert_int_equal(kin_zip_end(&zip), KITH_OK);
    assert_int_equal(kin_writer_close(&writer, KITH_OK), KITH_OK);
    kith_result *result = open_result(folder, path);
    assert_memory_equal(kith_result_neighbors(result)->ids, ids, sizeof ids);
    kith_result_free(result);
}

/* Each byte of a small file changed in turn: an error, or an answer, never anything else; for
 * .kith always an error, since every byte is covered. */
static void every_byte_damaged(void **state)
{
    test_folder *folder = *state;
    table t;
    fill(&t);
    const kith_result_meta meta = make_meta();
    print_message("each byte changed, each length cut:\n");
    for (int f = 0; f < FORMATS; f++) {
        const char *path = test_path(folder, formats[f].name);
        const int kith = strstr(path, ".kith") != NULL;
        save(folder, path, formats[f].format, &t.view, &meta);
        size_t bytes = 0;
        int refused = 0;
        unsigned char *data = test_read(path, &bytes);
        for (size_t i = 0; i < 2 * bytes; i++) {
            const int cut = i >= bytes;
            data[i % bytes] ^= (unsigned char)(cut ? 0 : 1 << i % 8);
            (void)test_write(folder, formats[f].name, data, cut ? i - bytes : bytes);
            data[i % bytes] ^= (unsigned char)(cut ? 0 : 1 << i % 8);
            kith_result *result = NULL;
            const kith_status status =
                kith_result_open(folder->ctx, test_path(folder, formats[f].name), &result);
            refused += status != KITH_OK;
            assert_true(status == KITH_OK || status == KITH_E_FORMAT);
            assert_int_equal(status == KITH_OK, result != NULL);
            assert_true((!kith && !cut) || status == KITH_E_FORMAT ||
                        strstr(path, ".ivecs") != NULL);
            kith_result_free(result);
        }
        print_message("  %s: %d of %zu refused\n", formats[f].name, refused, 2 * bytes);
        free(data);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_folder_setup, test_folder_teardown)
    const struct CMUnitTest tests[] = {TEST(round_trips),
                                       TEST(one_row_and_one_neighbour),
                                       TEST(meta_is_kept),
                                       TEST(doubles),
                                       TEST(empty_slots_and_large_ids),
                                       TEST(ids_beyond_the_corpus),
                                       TEST(ranges),
                                       TEST(compressed_archives),
                                       TEST(wide_archives),
                                       TEST(every_byte_damaged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
