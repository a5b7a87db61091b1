/* SPDX-License-Identifier: Apache-2.0
 * Files: points, results, streams; opened, saved, damaged, inspected. */
#include "soak/soak_calls.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Some bytes of a file become others, or it ends before them. */
static void damage(soak *s, const char *path)
{
    struct stat info;
    const int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0 || fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) {
        (void)(file < 0 || close(file));
        return;
    }
    const off_t at = (off_t)soak_below(s, (uint64_t)info.st_size);
    const unsigned char byte = (unsigned char)soak_below(s, 256);
    if (soak_below(s, 3) == 0) {
        soak_require(s, ftruncate(file, at) == 0, "a file can be cut");
    } else {
        soak_require(s, pwrite(file, &byte, 1, at) == 1, "a file can be changed");
    }
    (void)close(file);
}

static void inspect(soak *s, const char *path)
{
    kith_file_info info = {.struct_size = (uint32_t)soak_spoil(s, sizeof info)};
    (void)soak_check(
        s, kith_file_inspect(s->ctx, soak_null(s, path), NULL, soak_null(s, &info) ? &info : NULL));
}

static void call_points(soak *s)
{
    static const char *const names[] = {"p.fvecs", "p.bvecs", "p.ivecs", "p.fbin",
                                        "p.u8bin", "p.i8bin", "p.ibin",  "p.npy",
                                        "p.csv",   "p.tsv",   "p.kith",  "p.other"};
    const kith_matrix points = soak_matrix(s, 0, SOAK_ROWS, 0);
    const kith_matrix given = soak_spoiled(s, &points);
    const char *path = soak_path(s, names[soak_below(s, sizeof names / sizeof names[0])]);
    const kith_status saved = soak_check(s, kith_points_save(s->ctx, path, &given));
    kith_points *opened = NULL;
    const int damaged = soak_below(s, 3) == 0;
    if (damaged) {
        damage(s, path);
    }
    kith_points_params params = kith_points_params_default();
    params.use = (kith_points_use)soak_below(s, KITH_USE_COLUMN + 1);
    params.header = (kith_header)soak_below(s, KITH_HEADER_NO + 1);
    params.columns = soak_below(s, 4) == 0 ? "0-" : NULL;
    params.struct_size = (uint32_t)soak_spoil(s, params.struct_size);
    const int usual = params.header != KITH_HEADER_YES;
    const kith_status status =
        kith_points_open(s->ctx, path, soak_null(s, &params) ? &params : NULL, &opened);
    soak_require(s, (soak_check(s, status) == KITH_OK) == (opened != NULL), "points exactly then");
    if (opened != NULL && saved == KITH_OK && !damaged && usual) {
        const kith_values *values = kith_points_get_source(opened)->values;
        soak_require(s, values->rows == points.rows && values->cols == points.cols,
                     "what was saved is there");
    }
    kith_points_free(opened);
    inspect(s, path);
}

static kith_result_meta draw_meta(soak *s, int64_t corpus)
{
    kith_result_meta meta = kith_result_meta_default();
    meta.struct_size = (uint32_t)soak_spoil(s, meta.struct_size);
    meta.kind = (kith_kind)soak_spoil(s, soak_between(s, KITH_KIND_GRAPH, KITH_KIND_RESULT));
    meta.metric = soak_metric(s);
    meta.exact = (kith_exactness)soak_spoil(s, (int64_t)soak_below(s, 3));
    meta.corpus_rows = soak_spoil(s, corpus);
    meta.recall = (double)soak_between(s, -1, 5) / 4.0;
    meta.recall_at = soak_spoil(s, soak_between(s, 0, 4));
    if (soak_below(s, 2) == 0) {
        meta.points = (kith_fingerprint){.rows = soak_spoil(s, corpus),
                                         .cols = (int32_t)soak_between(s, 0, 9),
                                         .dtype = (kith_dtype)soak_between(s, 0, 6),
                                         .checksum = 77};
    }
    return meta;
}

static void call_result(soak *s)
{
    static const char *const names[] = {"r.npz", "r.ivecs", "r.ibin", "r.knn", "r.kith", "r.x"};
    const int64_t rows = soak_between(s, 1, SOAK_ROWS);
    const kith_neighbors graph = soak_graph(s, 0, rows, soak_between(s, 1, SOAK_K));
    const kith_result_meta meta = draw_meta(s, rows);
    const char *path = soak_path(s, names[soak_below(s, sizeof names / sizeof names[0])]);
    const kith_format format = (kith_format)soak_spoil(
        s, soak_between(s, 0, 2) == 0 ? soak_between(s, 0, 6) : KITH_FORMAT_AUTO);
    kith_result *opened = NULL;
    (void)soak_check(s, kith_result_save(s->ctx, path, format, soak_null(s, &graph), &meta));
    if (soak_below(s, 3) == 0) {
        damage(s, path);
    }
    const kith_status status = kith_result_open(s->ctx, path, &opened);
    soak_require(s, (soak_check(s, status) == KITH_OK) == (opened != NULL),
                 "a result exactly then");
    if (opened != NULL) {
        const int64_t corpus = kith_result_neighbors(opened)->meta->corpus_rows;
        soak_check_ids(s, kith_result_neighbors(opened), corpus != 0 ? corpus : INT64_MAX);
    }
    kith_result_free(opened);
    inspect(s, path);
}

/* In pieces; sometimes left in the middle, for the next one to go on or to be refused. */
static void call_stream(soak *s)
{
    static const char *const names[] = {"s.npz", "s.ivecs", "s.ibin", "s.knn", "s.kith"};
    const int64_t rows = soak_between(s, 1, 6);
    const int64_t k = soak_between(s, 1, 2);
    const kith_neighbors all = soak_graph(s, 0, rows, k);
    const kith_result_meta meta = draw_meta(s, rows);
    kith_result_stream_params params = kith_result_stream_params_default();
    kith_result_stream *stream = NULL;
    params.struct_size = (uint32_t)soak_spoil(s, params.struct_size);
    params.rows = soak_below(s, 16) == 0 ? soak_between(s, -1, 20) : rows;
    params.k = soak_below(s, 16) == 0 ? soak_between(s, -1, 20) : k;
    params.job = soak_below(s, 4) == 0 ? "another" : NULL;
    params.restart = soak_below(s, 4) == 0;
    const char *path = soak_path(s, names[soak_below(s, sizeof names / sizeof names[0])]);
    const kith_status status =
        soak_check(s, kith_result_stream_open(s->ctx, path, &params, &meta, &stream));
    soak_require(s, (status == KITH_OK) == (stream != NULL), "a stream exactly then");
    const int64_t stop = soak_below(s, 3) == 0 ? soak_between(s, 0, rows) : rows;
    while (stream != NULL && kith_result_stream_get_state(stream)->rows < stop) {
        const int64_t at = kith_result_stream_get_state(stream)->rows;
        const kith_neighbors part = {all.ids + at * k, all.distances + at * k, NULL, 1, k, NULL};
        if (soak_check(s, kith_result_stream_put(s->ctx, stream, &part)) != KITH_OK) {
            break;
        }
    }
    if (stream != NULL && soak_below(s, 4) != 0) {
        (void)soak_check(s, kith_result_stream_finish(s->ctx, stream));
    }
    kith_result_stream_free(stream);
}

const soak_call soak_files[] = {call_points, call_result, call_stream};
const int soak_file_count = sizeof soak_files / sizeof soak_files[0];
