/* SPDX-License-Identifier: Apache-2.0
 * Points, neighbours and selections from files and to files. */
#include "api/api_check.h"
#include "file/file_stream.h"
#include "host/host_threads.h"

#include <inttypes.h>

/* A creator's beginning: *out is NULL from here on unless it succeeds. */
static kith_status begin(kith_ctx *ctx, const char *path, const void *out)
{
    if (ctx == NULL) {
        return KITH_E_ARGUMENT;
    }
    KIN_TRY(kin_ctx_begin(ctx));
    KIN_REFUSE_IF(out == NULL, ctx, "out", "is NULL, must point to where the result goes");
    return kin_check_path(ctx, path);
}

/* The caller's params as this library's version of them; NULL is the default. */
static kith_status take_points_params(kith_ctx *ctx, const kith_points_params *given,
                                      kith_points_params *params)
{
    *params = kith_points_params_default();
    KIN_TRY(given == NULL
                ? KITH_OK
                : kin_take_params(ctx, KIN_GROWS(kith_points_params, use), given, params));
    KIN_REFUSE_IF(params->use < KITH_USE_POINTS || params->use > KITH_USE_COLUMN ||
                      params->header < KITH_HEADER_AUTO || params->header > KITH_HEADER_NO,
                  ctx, "use", "is %d and header %d, must be a kith_points_use and a kith_header",
                  (int)params->use, (int)params->header);
    KIN_REFUSE_IF(params->delimiter < 0 || params->delimiter > '~' ||
                      (params->delimiter != 0 && strchr(",;\t ", params->delimiter) == NULL),
                  ctx, "delimiter", "is %" PRId32 ", must be 0 or one of , ; tab and blank",
                  params->delimiter);
    KIN_REFUSE_IF(params->rows < 0, ctx, "rows", "is %" PRId64 ", must be at least 0",
                  params->rows);
    KIN_ALLOW_IF(params->columns == NULL || params->columns[0] != '\0', ctx, "columns",
                 "is empty (NULL takes all)");
}

kith_status kith_points_open(kith_ctx *ctx, const char *path, const kith_points_params *params,
                             kith_points **out)
{
    kith_points_params own;
    kin_clear_out(out);
    KIN_TRY(begin(ctx, path, out));
    KIN_TRY(take_points_params(ctx, params, &own));
    return kin_progress_end(ctx, kin_points_open(ctx, path, &own, out));
}

const kith_points_source *kith_points_get_source(const kith_points *points)
{
    return &points->source;
}

const kith_matrix *kith_points_matrix(const kith_points *points)
{
    return (uint64_t)points->values.cols <= KIN_COLS_MAX ? &points->matrix : NULL;
}

static kith_status check_matrix(kith_ctx *ctx, const kith_matrix *points)
{
    KIN_FAIL_IF(points == NULL || points->data == NULL, ctx, KITH_E_ARGUMENT,
                kin_at_member("points", points == NULL ? NULL : "data"),
                "is NULL, must be the points to save");
    const int32_t item_bytes = kin_item_of(points->dtype).bytes;
    KIN_FAIL_IF(item_bytes == 0, ctx, KITH_E_ARGUMENT, kin_at_member("points", "dtype"),
                "is %d, must be one of kith_dtype", (int)points->dtype);
    KIN_FAIL_IF(points->rows < 1 || (uint64_t)points->rows > KIN_ROWS_MAX, ctx, KITH_E_ARGUMENT,
                kin_at_member("points", "rows"), "is %" PRId64 ", must be 1 to %" PRIu64,
                points->rows, KIN_ROWS_MAX);
    KIN_FAIL_IF(points->cols < 1 || (uint64_t)points->cols > KIN_COLS_MAX, ctx, KITH_E_ARGUMENT,
                kin_at_member("points", "cols"), "is %" PRId32 ", must be 1 to %" PRIu64,
                points->cols, KIN_COLS_MAX);
    const int64_t row_bytes = (int64_t)points->cols * item_bytes;
    KIN_PASS_IF(points->stride_bytes == 0 || points->stride_bytes >= row_bytes, ctx,
                KITH_E_ARGUMENT, kin_at_member("points", "stride_bytes"),
                "is %" PRId64 ", must be 0 or at least %" PRId64, points->stride_bytes, row_bytes);
}

kith_status kith_fingerprint_make(kith_ctx *ctx, const kith_matrix *points, kith_fingerprint *out)
{
    if (out != NULL) {
        memset(out, 0, sizeof *out);
    }
    if (ctx == NULL) {
        return KITH_E_ARGUMENT;
    }
    KIN_TRY(kin_ctx_begin(ctx));
    KIN_REFUSE_IF(out == NULL, ctx, "out", "is NULL, must be room for a fingerprint");
    KIN_TRY(check_matrix(ctx, points));
    return kin_fingerprint_make(ctx, points, out);
}

kith_status kith_points_save(kith_ctx *ctx, const char *path, const kith_matrix *points)
{
    KIN_TRY(begin(ctx, path, path));
    KIN_TRY(check_matrix(ctx, points));
    return kin_progress_end(ctx, kin_points_save(ctx, path, points));
}

/* Whose neighbours they are: wholly known, or not at all. */
static kith_status check_points(kith_ctx *ctx, kith_result_meta *meta)
{
    const kith_fingerprint *points = &meta->points;
    if (points->rows == 0) {
        memset(&meta->points, 0, sizeof meta->points);
        KIN_PASS_IF(meta->exact != KITH_CERTIFIED, ctx, KITH_E_ARGUMENT,
                    kin_at_member("meta", "exact"),
                    "is certified, but of unknown points (fill in meta.points with "
                    "kith_fingerprint_make, or leave exact unknown)");
    }
    KIN_FAIL_IF(points->rows < 0 || points->cols < 1 || kith_dtype_bytes(points->dtype) == 0 ||
                    (meta->corpus_rows != 0 && meta->corpus_rows != points->rows),
                ctx, KITH_E_ARGUMENT, kin_at_member("meta", "points"),
                "are %" PRId64 " x %" PRId32 " of dtype %d, with meta.corpus_rows %" PRId64
                " (make them with kith_fingerprint_make)",
                points->rows, points->cols, (int)points->dtype, meta->corpus_rows);
    meta->corpus_rows = points->rows;
    return KITH_OK;
}

/* The caller's meta as this library's version of it; NULL is a result of which nothing is known. */
static kith_status take_meta(kith_ctx *ctx, const kith_result_meta *meta, kith_result_meta *own)
{
    *own = kith_result_meta_default();
    if (meta == NULL) {
        return KITH_OK;
    }
    KIN_TRY(kin_check_room(ctx, meta, "meta", "kith_result_meta"));
    KIN_TRY(kin_take_params(ctx, KIN_GROWS(kith_result_meta, kind), meta, own));
    KIN_FAIL_IF(own->corpus_rows < 0 ||
                    (own->metric != KITH_METRIC_DEFAULT && !kin_metric_is(own->metric)),
                ctx, KITH_E_ARGUMENT, kin_at_member("meta", "corpus_rows"),
                "is %" PRId64 " and meta.metric %d, must be at least 0 and a kith_metric",
                own->corpus_rows, (int)own->metric);
    KIN_FAIL_IF(!(own->recall <= 1.0), ctx, KITH_E_ARGUMENT, kin_at_member("meta", "recall"),
                "is %g, must be 0 to 1, or negative where unknown", own->recall);
    KIN_FAIL_IF(own->exact < KITH_EXACTNESS_UNKNOWN || own->exact > KITH_APPROXIMATE, ctx,
                KITH_E_ARGUMENT, kin_at_member("meta", "exact"), "is %d, must be a kith_exactness",
                (int)own->exact);
    KIN_TRY(check_points(ctx, own));
    if (own->exact != KITH_APPROXIMATE) {
        own->recall = -1.0;
    }
    if (own->recall < 0.0) { /* one way to say unknown, so that equal answers are equal files */
        own->recall = -1.0;
        own->recall_at = 0;
    }
    return KITH_OK;
}

kith_status kith_result_save(kith_ctx *ctx, const char *path, kith_format format,
                             const kith_neighbors *neighbors, const kith_result_meta *meta)
{
    kith_result_meta own;
    KIN_TRY(begin(ctx, path, path));
    KIN_TRY(take_meta(ctx, meta, &own));
    KIN_FAIL_IF(neighbors == NULL || neighbors->ids == NULL, ctx, KITH_E_ARGUMENT,
                kin_at_member("neighbors", neighbors == NULL ? NULL : "ids"),
                "is NULL, must be what to save");
    KIN_REFUSE_IF(neighbors->rows < 1 || (uint64_t)neighbors->rows > KIN_ROWS_MAX ||
                      neighbors->k < 1 || (uint64_t)neighbors->k > KIN_ROWS_MAX ||
                      neighbors->k > INT64_MAX / 8 / neighbors->rows,
                  ctx, "neighbors", "has %" PRId64 " rows of %" PRId64 ", both must be at least 1",
                  neighbors->rows, neighbors->k);
    return kin_progress_end(ctx, kin_result_save(ctx, path, format, neighbors, &own));
}

kith_status kith_ranges_save(kith_ctx *ctx, const char *path, const kith_ranges *ranges,
                             const kith_result_meta *meta)
{
    kith_result_meta own;
    KIN_TRY(begin(ctx, path, path));
    KIN_TRY(take_meta(ctx, meta, &own));
    KIN_REFUSE_IF(ranges == NULL || kith_ranges_lists(ranges)->ids == NULL, ctx, "ranges",
                  "%s (search without count_only to have ids to save)",
                  ranges == NULL ? "is NULL" : "holds counts alone");
    KIN_REFUSE_IF(ranges->gpu != NULL, ctx, "ranges",
                  "lie on a GPU (leave KITH_RANGES_ON_DEVICE out of a search to be saved)");
    return kin_progress_end(ctx, kin_ranges_save(ctx, path, kith_ranges_lists(ranges), &own));
}

kith_status kith_result_open(kith_ctx *ctx, const char *path, kith_result **out)
{
    kin_clear_out(out);
    KIN_TRY(begin(ctx, path, out));
    return kin_progress_end(ctx, kin_result_open(ctx, path, out));
}

const kith_neighbors *kith_result_neighbors(const kith_result *result)
{
    return &result->neighbors;
}

/* ---- Results in pieces ---------------------------------------------------------------------- */

static kith_status take_stream(kith_ctx *ctx, const kith_result_stream_params *given,
                               const kith_result_meta *meta, kith_result_stream_params *params)
{
    KIN_TRY(KIN_TAKE(ctx, kith_result_stream_params, restart, given, params));
    KIN_REFUSE_IF(params->rows < 1 || (uint64_t)params->rows > KIN_ROWS_MAX || params->k < 1 ||
                      params->k > INT32_MAX || params->k > INT64_MAX / 16 / params->rows,
                  ctx, "params", "has %" PRId64 " rows of %" PRId64 ", both must be at least 1",
                  params->rows, params->k);
    KIN_PASS_IF(meta->corpus_rows >= 1 && (uint64_t)meta->corpus_rows <= KIN_ROWS_MAX, ctx,
                KITH_E_ARGUMENT, kin_at_member("meta", "corpus_rows"),
                "is %" PRId64 ", must be the rows that ids point into", meta->corpus_rows);
}

kith_status kith_result_stream_open(kith_ctx *ctx, const char *path,
                                    const kith_result_stream_params *params,
                                    const kith_result_meta *meta, kith_result_stream **out)
{
    kith_result_meta own;
    kith_result_stream_params known;
    kin_clear_out(out);
    KIN_TRY(begin(ctx, path, out));
    KIN_TRY(take_meta(ctx, meta, &own));
    KIN_TRY(take_stream(ctx, params, &own, &known));
    return kin_progress_end(ctx, kin_stream_open(ctx, path, &known, &own, NULL, out));
}

const kith_result_stream_state *kith_result_stream_get_state(const kith_result_stream *stream)
{
    return &stream->state;
}

/* The beginning of what changes a stream. */
static kith_status begin_stream(kith_ctx *ctx, const void *stream, const void *what)
{
    if (ctx == NULL) {
        return KITH_E_ARGUMENT;
    }
    KIN_TRY(kin_ctx_begin(ctx));
    KIN_ALLOW_IF(stream != NULL && what != NULL, ctx, stream == NULL ? "stream" : "neighbors",
                 "is NULL");
}

kith_status kith_result_stream_put(kith_ctx *ctx, kith_result_stream *stream,
                                   const kith_neighbors *neighbors)
{
    KIN_TRY(begin_stream(ctx, stream, neighbors));
    return kin_progress_end(ctx, kin_stream_put(ctx, stream, neighbors));
}

kith_status kith_result_stream_finish(kith_ctx *ctx, kith_result_stream *stream)
{
    KIN_TRY(begin_stream(ctx, stream, stream));
    return kin_progress_end(ctx, kin_stream_finish(ctx, stream));
}

/* ---- Selections ----------------------------------------------------------------------------- */

/* What of an answer of selection does not depend on what is saved of it. */
static kith_status check_selected(kith_ctx *ctx, int64_t rows, kith_dtype dtype)
{
    const kin_item item = kin_item_of(dtype);
    KIN_REFUSE_IF(item.kind != 'f' && item.kind != 'h', ctx, "dtype",
                  "is %d, must be that of what was selected from", (int)dtype);
    KIN_ALLOW_IF(rows >= 0, ctx, "rows", "is %" PRId64 ", must be at least 0", rows);
}

kith_status kith_selection_save(kith_ctx *ctx, const char *path, const kith_selection *selection,
                                int64_t rows, kith_dtype dtype, const kith_select_params *params)
{
    KIN_TRY(begin(ctx, path, path));
    KIN_TRY(check_selected(ctx, rows, dtype));
    KIN_REFUSE_IF(selection == NULL, ctx, "selection", "is NULL, must be what to save");
    if (selection->kth != NULL) {
        const kith_matrix column = {
            .data = selection->kth, .rows = rows, .cols = 1, .dtype = dtype};
        return kin_progress_end(ctx, kin_points_save_vector(ctx, path, &column));
    }
    KIN_REFUSE_IF(params == NULL || params->struct_size < offsetof(kith_select_params, buffer), ctx,
                  "params", "is NULL or was not made by kith_select_params_default()");
    KIN_REFUSE_IF(params->k < 1 || params->k > INT64_MAX / 8 / (rows > 0 ? rows : 1), ctx, "k",
                  "is %" PRId64 " with %" PRId64 " rows, must be that of the selection", params->k,
                  rows);
    const kin_selected selected = {.values = selection->values,
                                   .ids = selection->ids,
                                   .rows = rows,
                                   .k = params->k,
                                   .dtype = dtype,
                                   .largest = (params->flags & KITH_SELECT_LARGEST) != 0,
                                   .sorted = (params->flags & KITH_SELECT_UNSORTED) == 0};
    return kin_progress_end(ctx, kin_selected_save(ctx, path, &selected));
}

kith_status kith_file_inspect(kith_ctx *ctx, const char *path, const kith_points_params *params,
                              kith_file_info *info)
{
    kith_points_params known;
    KIN_TRY(begin(ctx, path, info));
    KIN_TRY(take_points_params(ctx, params, &known));
    KIN_TRY(kin_check_room(ctx, info, "info", "kith_file_info"));
    kith_file_info own;
    memset(&own, 0, sizeof own);
    KIN_TRY(kin_file_inspect(ctx, path, &known, &own));
    kin_fill_room(info, &own, sizeof own);
    return KITH_OK;
}
