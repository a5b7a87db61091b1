/* SPDX-License-Identifier: Apache-2.0
 * A result in pieces goes on where it was left: whatever its journal or its unfinished file hold,
 * it ends with the right bytes or is refused with an error that names a file. */
#include "replay_file.h"

#include <stdio.h>
#include <stdlib.h>

/* What an input is put in place of: of a .kith stream, then of an .npz stream. */
const char *const fuzz_extensions[] = {"journal", "partial", "journal", "partial", NULL};
enum { COUNT = sizeof fuzz_extensions / sizeof fuzz_extensions[0] - 1, FORMATS = 2 };
enum { ROWS = 9, K = 2, PUT = 5, FILE_MOST = 1 << 14 };

static const char *const names[FORMATS] = {"s.kith", "s.npz"};

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
    while (status == KITH_OK && kith_result_stream_rows(stream) < last) {
        const kith_neighbors row = rows_from(kith_result_stream_rows(stream));
        status = kith_result_stream_put(fuzz_ctx(), stream, &row);
    }
    return status;
}

/* A whole file, and one that is left in the middle. */
static void prepare(void)
{
    char name[64];
    for (int i = 0; i < FORMATS && whole[i].bytes == 0; i++) {
        kith_result_stream *stream = NULL;
        fuzz_require(open_stream(i, &stream) == KITH_OK && put_rows(stream, PUT) == KITH_OK,
                     "a stream begins");
        kith_result_stream_free(stream);
        (void)snprintf(name, sizeof name, "%s.journal", names[i]);
        take(fuzz_path(name), &journals[i]);
        (void)snprintf(name, sizeof name, "%s.partial", names[i]);
        take(fuzz_path(name), &partials[i]);
        fuzz_require(open_stream(i, &stream) == KITH_OK && kith_result_stream_rows(stream) == PUT &&
                         put_rows(stream, ROWS) == KITH_OK &&
                         kith_result_stream_finish(fuzz_ctx(), stream) == KITH_OK,
                     "a stream goes on and ends");
        kith_result_stream_free(stream);
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
    kith_result_stream *stream = NULL;
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
    kith_status status = open_stream(format, &stream);
    fuzz_require((status == KITH_OK) == (stream != NULL), "a stream exactly when it succeeds");
    if (status != KITH_OK) {
        fuzz_require(strstr(kith_ctx_detail(fuzz_ctx()), names[format]) != NULL,
                     "an error names the file");
        return 0;
    }
    fuzz_require(put_rows(stream, ROWS) == KITH_OK, "rows can be put");
    status = kith_result_stream_finish(fuzz_ctx(), stream);
    fuzz_require(status == KITH_OK, "it ends");
    kith_result_stream_free(stream);
    check_end(format);
    return 0;
}
