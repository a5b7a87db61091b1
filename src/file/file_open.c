/* SPDX-License-Identifier: Apache-2.0
 * A file is opened: its format by its name, its bytes, and the reader of its layout. */
#include "file/file_open.h"
#include "base/base_mem.h"

#include <stdio.h>
#include <string.h>

#define READER(NAME, name, endings, holds, kind, bytes, layout) \
    extern const kin_reader kin_reader_##layout;
KITH_FILE_MAP(READER)
#undef READER

static const kin_reader *const readers[KIN_FORMAT_COUNT] = {
#define READER(NAME, name, endings, holds, kind, bytes, layout) \
    [KIN_FORMAT_##NAME] = &kin_reader_##layout,
    KITH_FILE_MAP(READER)
#undef READER
};

static unsigned holds_of(const kin_source *source)
{
    return kin_format_get_traits(source->format)->holds;
}

/* What came out of a pipe, by its first bytes: .npy, or text; others are to be files. */
static kith_status sniff(kin_source *source)
{
    static const char npy[] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};
    const kin_input *input = source->input;
    if (input->bytes >= sizeof npy && memcmp(input->data, npy, sizeof npy) == 0) {
        source->format = KIN_FORMAT_NPY;
        return KITH_OK;
    }
    source->format = KIN_FORMAT_CSV;
    /* Text has no byte of 0; all the others have one soon. */
    const size_t looked = input->bytes < 256 ? (size_t)input->bytes : 256;
    KIN_SOUND_IF(memchr(input->data, 0, looked) == NULL, source->ctx, source->path,
                 "brings neither text nor .npy, and other formats are mapped (give a file)");
}

/* Finds the format, and brings the bytes. What comes out of a pipe needs no extension: its first
 * bytes say what it is. */
static kith_status open_source(kin_source *source, unsigned holds)
{
    kith_ctx *ctx = source->ctx;
    const char *path = source->path;
    source->format = kin_format_of(path, holds);
    const bool unnamed = source->format == KIN_FORMAT_NONE && (holds & KITH_FILE_POINTS_IN) != 0 &&
                         kin_input_is_pipe(path);
    if (unnamed) {
        KIN_TRY(kin_input_open(ctx, path, source->input));
        return sniff(source);
    }
    KIN_TRY(kin_format_find(ctx, path, holds, &source->format));
    if (readers[source->format]->opens) {
        return KITH_OK;
    }
    return (holds_of(source) & KITH_FILE_PIPE) != 0 ? kin_input_open(ctx, path, source->input)
                                                    : kin_input_map(ctx, path, source->input);
}

/* A reader's one table, whole. */
static kith_status find_table(const kin_source *source, kin_shape *shape)
{
    const kin_reader *reader = readers[source->format];
    KIN_TRY(reader->shape(source, shape));
    return reader->check != NULL ? reader->check(source, shape) : KITH_OK;
}

/* ---- Points ---------------------------------------------------------------------------------- */

static kith_status read_points(kith_points *points, kin_source *source)
{
    kin_shape shape;
    KIN_TRY(open_source(source, KITH_FILE_POINTS_IN));
    KIN_FAIL_IF(source->params->columns != NULL && (holds_of(source) & KITH_FILE_TEXT) == 0,
                source->ctx, KITH_E_ARGUMENT, kin_at_file(source->path),
                "columns are chosen of text alone (leave --columns out, or give .csv)");
    if (readers[source->format]->points != NULL) {
        return readers[source->format]->points(source, points);
    }
    KIN_TRY(find_table(source, &shape));
    return kin_points_take(points, source->path, &shape);
}

static kith_status check_values(const kith_points *points, const char *path)
{
    const kin_item item = points->item;
    KIN_PASS_IF(item.kind == 'f' || item.kind == 'h', points->ctx, KITH_E_DATA, kin_at_file(path),
                "holds %s values, selection takes floats (convert it to .fbin, or save "
                "x.astype('float32'))",
                kin_item_name(item));
}

kith_status kin_points_open(kith_ctx *ctx, const char *path, const kith_points_params *params,
                            kith_points **out)
{
    *out = NULL;
    kith_points *points = NULL;
    const bool values = params->use == KITH_USE_VALUES;
    KIN_TRY(kin_alloc_zero(ctx, &points, 1, sizeof *points, "points"));
    points->ctx = ctx;
    points->source.names = points->names;
    points->source.values = &points->values;
    points->column = params->use == KITH_USE_COLUMN;
    kin_source source = {.ctx = ctx,
                         .path = path,
                         .params = params,
                         .cols_max = values ? KIN_VALUES_COLS_MAX : KIN_COLS_MAX,
                         .column = points->column,
                         .input = &points->input};
    kith_status status = read_points(points, &source);
    KIN_THEN(status, values ? check_values(points, path) : KITH_OK);
    if (status != KITH_OK) {
        kith_points_free(points);
        return status;
    }
    if (points->source.file_cols == 0) {
        points->source.file_cols = points->values.cols;
    }
    points->source.mapped = points->source.bytes == 0;
    *out = points;
    return KITH_OK;
}

/* ---- Neighbours ------------------------------------------------------------------------------ */

static kith_status read_lists(kith_result *result, kin_source *source)
{
    kin_shape shape;
    KIN_TRY(open_source(source, KITH_FILE_LISTS_IN));
    if (readers[source->format]->lists != NULL) {
        return readers[source->format]->lists(source, result);
    }
    KIN_TRY(find_table(source, &shape));
    return kin_result_take_ids(result, source->path, &shape);
}

kith_status kin_result_open(kith_ctx *ctx, const char *path, kith_result **out)
{
    *out = NULL;
    kith_result *result = NULL;
    KIN_TRY(kin_alloc_zero(ctx, &result, 1, sizeof *result, "a result"));
    result->ctx = ctx;
    result->meta = kith_result_meta_default();
    result->meta.kind = KITH_KIND_RESULT;
    result->neighbors.meta = &result->meta;
    kin_source source = {
        .ctx = ctx, .path = path, .cols_max = KIN_ROWS_MAX, .input = &result->input};
    const kith_status status = read_lists(result, &source);
    if (status != KITH_OK) {
        kith_result_free(result);
        return status;
    }
    *out = result;
    return KITH_OK;
}

/* ---- What a file is -------------------------------------------------------------------------- */

static kith_status inspect(kin_source *source, kith_file_info *info)
{
    kin_shape shape;
    KIN_TRY(open_source(source, KITH_FILE_POINTS_IN | KITH_FILE_LISTS_IN | KITH_FILE_RANGES_OUT));
    info->kind = KITH_KIND_POINTS;
    info->file_bytes = source->input->file_bytes;
    (void)snprintf(info->format, sizeof info->format, "%s",
                   kin_format_get_traits(source->format)->name);
    if (readers[source->format]->inspect != NULL) {
        return readers[source->format]->inspect(source, info);
    }
    /* A table of whole numbers does not say whether these are points or ids: its kind is none. */
    KIN_TRY(readers[source->format]->shape(source, &shape));
    const bool either = (holds_of(source) & KITH_FILE_LISTS_IN) != 0;
    kin_info_take_shape(info, either ? KITH_KIND_NONE : KITH_KIND_POINTS, &shape);
    return KITH_OK;
}

kith_status kin_file_inspect(kith_ctx *ctx, const char *path, const kith_points_params *params,
                             kith_file_info *info)
{
    kin_input input = {.data = NULL};
    kin_source source = {.ctx = ctx,
                         .path = path,
                         .params = params,
                         .cols_max = KIN_VALUES_COLS_MAX, /* ids are as many at most */
                         .column = true,
                         .input = &input};
    info->recall = -1.0;
    const kith_status status = inspect(&source, info);
    kin_input_close(ctx, &input);
    return status;
}
