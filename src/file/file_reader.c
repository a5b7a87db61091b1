/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file_reader.h"

#include "base/base_try.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

kith_status kin_shape_check(kith_ctx *ctx, const char *path, uint64_t rows, uint64_t cols,
                            uint64_t cols_max)
{
    KIN_DAMAGED_IF(rows == 0, ctx, path, "holds 0 rows (at least 1 is needed)");
    KIN_DAMAGED_IF(cols == 0, ctx, path, "its rows have 0 columns (at least 1 is needed)");
    KIN_DAMAGED_IF(rows > KIN_ROWS_MAX, ctx, path,
                   "says it holds %" PRIu64 " rows; kith takes at most %" PRIu64
                   " (split the file)",
                   rows, KIN_ROWS_MAX);
    KIN_DAMAGED_IF(cols > cols_max, ctx, path,
                   "says its rows have %" PRIu64 " columns; kith takes at most %" PRIu64
                   " (is it of another format?)",
                   cols, cols_max);
    return KITH_OK;
}

kith_status kin_shape_make(const kin_source *source, const void *data, uint64_t rows, uint64_t cols,
                           kin_item item, kin_shape *shape)
{
    KIN_TRY(kin_shape_check(source->ctx, source->path, rows, cols, source->cols_max));
    *shape = (kin_shape){.data = data,
                         .rows = (int64_t)rows,
                         .cols = (int64_t)cols,
                         .stride = (int64_t)cols * item.bytes,
                         .item = item};
    return KITH_OK;
}

void kin_info_take_shape(kith_file_info *info, kith_kind kind, const kin_shape *shape)
{
    const kith_dtype own = kin_item_dtype(shape->item);
    const bool ids = kind == KITH_KIND_GRAPH || kind == KITH_KIND_RESULT;
    info->kind = kind;
    info->rows = shape->rows;
    info->cols = shape->cols;
    info->dtype = ids ? KITH_DTYPE_NONE : own != KITH_DTYPE_NONE ? own : KITH_F64;
}

void kin_info_take_meta(kith_file_info *info, const kith_result_meta *meta)
{
    info->metric = meta->metric;
    info->exact = meta->exact;
    info->points = meta->points;
    if (meta->exact == KITH_APPROXIMATE && meta->recall >= 0.0 && meta->recall_at > 0) {
        info->recall = meta->recall;
        info->recall_at = meta->recall_at;
    }
}

/* ---- Formats --------------------------------------------------------------------------------- */

static const kin_format_traits format_table[KIN_FORMAT_COUNT] = {
    [KIN_FORMAT_NONE] = {"", "", 0, {'\0', 0}},
#define ROW(NAME, name, endings, holds, kind, bytes, layout) \
    [KIN_FORMAT_##NAME] = {(name), (endings), (holds), {(kind), (bytes)}},
    KITH_FILE_MAP(ROW)
#undef ROW
};

kith_format kin_format_result(const char *name)
{
#define ROW(NAME, number, name) {(name), KITH_FORMAT_##NAME},
    static const struct {
        const char *name;
        kith_format format;
    } rows[] = {KITH_FORMAT_MAP(ROW)};
#undef ROW
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(name, rows[i].name) == 0) {
            return rows[i].format;
        }
    }
    return KITH_FORMAT_AUTO;
}

const kin_format_traits *kin_format_get_traits(kin_format format)
{
    return &format_table[format];
}

/* Whether what stands before `end` ends in '.' and the ending. */
static bool ends_in(const char *path, const char *end, const char *ending, size_t bytes)
{
    return (size_t)(end - path) > bytes + 1 && end[-(ptrdiff_t)bytes - 1] == '.' &&
           strncasecmp(end - bytes, ending, bytes) == 0;
}

/* By its name, or, where it is read, by one of its other endings. */
static bool is_named(const char *path, const char *end, const kin_format_traits *traits, bool read)
{
    if (ends_in(path, end, traits->name, strlen(traits->name))) {
        return true;
    }
    size_t bytes = 0;
    for (const char *at = traits->endings; read && *at != '\0'; at += bytes + (at[bytes] == ' ')) {
        bytes = strcspn(at, " ");
        if (ends_in(path, end, at, bytes)) {
            return true;
        }
    }
    return false;
}

const char *kin_format_dataset(const char *path)
{
    for (const char *at = strchr(path, ':'); at != NULL; at = strchr(at + 1, ':')) {
        if (is_named(path, at, &format_table[KIN_FORMAT_HDF5], true)) {
            return at;
        }
    }
    return NULL;
}

kin_format kin_format_of(const char *path, unsigned holds)
{
    if ((holds & KITH_FILE_POINTS_IN) != 0 && kin_format_dataset(path) != NULL) {
        return KIN_FORMAT_HDF5;
    }
    const char *end = path + strlen(path);
    const bool read = (holds & KITH_FILE_POINTS_IN) != 0;
    for (int i = 1; i < KIN_FORMAT_COUNT; i++) {
        if ((format_table[i].holds & holds) != 0 && is_named(path, end, &format_table[i], read)) {
            return (kin_format)i;
        }
    }
    return KIN_FORMAT_NONE;
}

static const char *use_name(unsigned holds)
{
    if (holds == KITH_FILE_POINTS_IN) {
        return "points that kith reads";
    }
    if (holds == KITH_FILE_POINTS_OUT) {
        return "points that kith writes";
    }
    if (holds == KITH_FILE_LISTS_OUT) {
        return "neighbours that kith writes";
    }
    return holds == KITH_FILE_LISTS_IN ? "neighbours" : "a file that kith knows";
}

kith_status kin_format_find(kith_ctx *ctx, const char *path, unsigned holds, kin_format *format)
{
    *format = kin_format_of(path, holds);
    if (*format != KIN_FORMAT_NONE) {
        return KITH_OK;
    }
    KIN_FAIL_IF((holds & KITH_FILE_POINTS_IN) != 0 && access(path, F_OK) != 0, ctx, KITH_E_IO,
                kin_at_file(path), "cannot be opened: %s (check the path)", strerror(errno));
    char known[256] = "";
    size_t used = 0;
    for (int i = 1; i < KIN_FORMAT_COUNT; i++) {
        if ((format_table[i].holds & holds) != 0) {
            used +=
                (size_t)snprintf(known + used, sizeof known - used, " .%s", format_table[i].name);
        }
    }
    return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at_file(path),
                       "the extension is not one of %s (there are:%s)", use_name(holds), known);
}
