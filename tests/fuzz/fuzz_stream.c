/* SPDX-License-Identifier: Apache-2.0
 * A result in pieces, and pairs, go on where they were left: whatever their journal or their
 * unfinished file hold, they end with the right bytes or are refused with an error that names a
 * file. */
#include "file/file_stream.h"
#include "replay_file.h"

#include <stdio.h>
#include <stdlib.h>

/* What an input is put in place of: of a .kith stream, of an .npz stream, of pairs as .kith, and as
 * .npy. */
const char *const fuzz_extensions[] = {"journal", "partial", "journal", "partial", "journal",
                                       "partial", "journal", "partial", NULL};
enum { COUNT = sizeof fuzz_extensions / sizeof fuzz_extensions[0] - 1, FORMATS = COUNT / 2 };
enum { FIRST_PAIRS = 2, ROWS = 9, K = 2, PUT = 5, FILE_MOST = 1 << 14 };

static const char *const names[FORMATS] = {"s.kith", "s.npz", "p.kith", "p.npy"};

/* The bytes of one file. */
typedef struct content {
    uint8_t data[FILE_MOST];
    size_t bytes;
} content;

static content whole[FORMATS];
static content journals[FORMATS];
static content partials[FORMATS];

static void take(const char *path, content *to)
{
    FILE *file = fopen(path, "rb");
    fuzz_require(file != NULL, "a file can be read");
    to->bytes = fread(to->data, 1, sizeof to->data, file);
    fuzz_require(to->bytes < sizeof to->data, "a file is small");
    (void)fclose(file);
}

static kith_neighbors rows_from(int64_t first)
{
    static uint32_t ids[ROWS * K];
    static float distances[ROWS * K];
    for (int i = 0; i < ROWS * K; i++) {
        ids[i] = (uint32_t)(i * 5 % ROWS);
        distances[i] = (float)i / 3.0F;
    }
    return (kith_neighbors){ids + first * K, distances + first * K, NULL, 1, K, NULL};
}

static kith_status open_stream(int format, kith_result_stream **out)
{
    kith_result_meta meta = kith_result_meta_default();
    kith_result_stream_params params = kith_result_stream_params_default();
    meta.kind = KITH_KIND_GRAPH;
    meta.corpus_rows = ROWS;
    params.rows = ROWS;
    params.k = K;
    params.job = "a job\n";
    return kith_result_stream_open(fuzz_ctx(), fuzz_path(names[format]), &params, &meta, out);
}

/* Rows up to `last`, one by one. */
static kith_status put_rows(kith_result_stream *stream, int64_t last)
{
    kith_status status = KITH_OK;
    while (status == KITH_OK && kith_result_stream_get_state(stream)->rows < last) {
        const kith_neighbors row = rows_from(kith_result_stream_get_state(stream)->rows);
        status = kith_result_stream_put(fuzz_ctx(), stream, &row);
    }
    return status;
}

/* Rows up to `last`; with all of them it ends. *from: where it went on. */
static kith_status solve_stream(int format, int64_t last, int64_t *from)
{
    kith_result_stream *stream = NULL;
    kith_status status = open_stream(format, &stream);
    fuzz_require((status == KITH_OK) == (stream != NULL), "a stream exactly when it succeeds");
    if (status == KITH_OK) {
        *from = kith_result_stream_get_state(stream)->rows;
        fuzz_require(put_rows(stream, last) == KITH_OK, "rows can be put");
        fuzz_require(last < ROWS || kith_result_stream_finish(fuzz_ctx(), stream) == KITH_OK,
                     "it ends");
    }
    kith_result_stream_free(stream);
    return status;
}

/* Of row i with those behind it, two of three. */
static kith_status put_pairs(kin_pairs_file *file, uint32_t i)
{
    uint32_t is[ROWS];
    uint32_t js[ROWS];
    double distances[ROWS];
    int64_t count = 0;
    for (uint32_t j = i + 1; j < ROWS; j++) {
        is[count] = i;
        js[count] = j;
        distances[count] = (double)(i + 1) / (double)j;
        count += (i + j) % 3 != 0;
    }
    const kith_pairs pairs = {.count = count, .query_ids = is, .corpus_ids = js};
    return kin_pairs_file_put(file, &pairs, distances, (int64_t)i + 1);
}

/* What stands is told again: pairs that are in order and within their set. */
static kith_status tell_again(kin_pairs_file *file)
{
    kin_pairs_room chunk;
    bool more = true;
    kith_status status = KITH_OK;
    while (status == KITH_OK && more) {
        status = kin_pairs_file_again(file, &chunk, &more);
        for (int64_t p = 0; status == KITH_OK && p < chunk.count; p++) {
            fuzz_require(chunk.i[p] < chunk.j[p] && chunk.j[p] < ROWS &&
                             (p == 0 || chunk.i[p - 1] <= chunk.i[p]),
                         "pairs that can be");
        }
        kin_pairs_room_free(fuzz_ctx(), &chunk);
    }
    return status;
}

static kith_status solve_pairs(int format, int64_t last, int64_t *from)
{
    kin_pairs_about about = {
        .job = "a job\n", .rows = ROWS, .meta = kith_result_meta_default(), .one_set = true};
    kin_pairs_file file;
    about.meta.kind = KITH_KIND_PAIRS;
    about.meta.corpus_rows = ROWS;
    kin_forgive(fuzz_ctx()); /* the first error of a call is told, and this is none */
    kith_status status = kin_pairs_file_open(fuzz_ctx(), fuzz_path(names[format]), &about, &file);
    if (status != KITH_OK) {
        return status;
    }
    fuzz_require(tell_again(&file) == KITH_OK, "what stands can be told");
    *from = file.next_row;
    while (file.next_row < last) {
        fuzz_require(put_pairs(&file, (uint32_t)file.next_row) == KITH_OK, "pairs can be put");
    }
    status = last < ROWS ? KITH_E_CANCELLED : KITH_OK;
    fuzz_require(kin_pairs_file_close(&file, status) == status, "it ends");
    return KITH_OK;
}

static kith_status solve(int format, int64_t last, int64_t *from)
{
    return (format < FIRST_PAIRS ? solve_stream : solve_pairs)(format, last, from);
}

/* A whole file, and one that is left in the middle. */
static void prepare(void)
{
    char name[64];
    int64_t from = 0;
    for (int i = 0; i < FORMATS && whole[i].bytes == 0; i++) {
        fuzz_require(solve(i, PUT, &from) == KITH_OK && from == 0, "it begins");
        (void)snprintf(name, sizeof name, "%s.journal", names[i]);
        take(fuzz_path(name), &journals[i]);
        (void)snprintf(name, sizeof name, "%s.partial", names[i]);
        take(fuzz_path(name), &partials[i]);
        fuzz_require(solve(i, ROWS, &from) == KITH_OK && from == PUT, "it goes on and ends");
        take(fuzz_path(names[i]), &whole[i]);
    }
}

int fuzz_seed(int extension, int i, const char *path)
{
    prepare();
    const content *seed = extension % 2 == 0 ? &journals[extension / 2] : &partials[extension / 2];
    const char *name = strrchr(path, '/') + 1;
    (void)fuzz_put(name, seed->data, seed->bytes);
    return i == 0;
}

static void check_end(int format)
{
    static content got;
    take(fuzz_path(names[format]), &got);
    fuzz_require(got.bytes == whole[format].bytes &&
                     memcmp(got.data, whole[format].data, got.bytes) == 0,
                 "what is finished has the right bytes");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char name[2][64];
    int64_t from = 0;
    if (bytes == 0) {
        return 0;
    }
    prepare();
    const int which = data[0] % COUNT;
    const int format = which / 2;
    (void)remove(fuzz_path(names[format]));
    (void)snprintf(name[0], sizeof name[0], "%s.journal", names[format]);
    (void)snprintf(name[1], sizeof name[1], "%s.partial", names[format]);
    (void)fuzz_put(name[0], journals[format].data, journals[format].bytes);
    (void)fuzz_put(name[1], partials[format].data, partials[format].bytes);
    (void)fuzz_put(name[which % 2], data + 1, bytes - 1);
    if (solve(format, ROWS, &from) == KITH_OK) {
        check_end(format);
    } else {
        fuzz_require(strstr(kith_ctx_detail(fuzz_ctx()), names[format]) != NULL,
                     "an error names the file");
    }
    return 0;
}
