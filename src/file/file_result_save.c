/* SPDX-License-Identifier: Apache-2.0
 * Neighbours as text, to look at: a line a neighbour, or a line a row. Empty slots are left out, or
 * left empty. */
#include "base/base_mem.h"
#include "base/base_size.h"
#include "file/file_open.h"

#include <inttypes.h>
#include <stdio.h>

enum { FIELD_ROOM = 48 };

static bool is_wide(kith_format format)
{
    return format == KITH_FORMAT_CSV_WIDE || format == KITH_FORMAT_TSV_WIDE;
}

static char separator_of(kith_format format)
{
    return format == KITH_FORMAT_TSV || format == KITH_FORMAT_TSV_WIDE ? '\t' : ',';
}

bool kin_result_is_text(kith_format format)
{
    return is_wide(format) || format == KITH_FORMAT_CSV || format == KITH_FORMAT_TSV;
}

static kith_status put_distance(kin_writer *writer, char separator, float distance)
{
    char text[FIELD_ROOM];
    text[0] = separator;
    const int length = kin_number_print(text + 1, sizeof text - 1, (double)distance, true);
    return kin_writer_put(writer, text, (uint64_t)length + 1);
}

/* "id,neighbour,distance": entries first .. last - 1 of one row. */
static kith_status put_lines(kin_writer *writer, char separator, const kith_lists *lists,
                             int64_t row, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        if (lists->ids[i] == KITH_ID_NONE) {
            continue;
        }
        KIN_TRY(kin_writer_print(writer, "%" PRId64 "%c%" PRIu32, row, separator, lists->ids[i]));
        if (lists->distances != NULL) {
            KIN_TRY(put_distance(writer, separator, lists->distances[i]));
        }
        KIN_TRY(kin_writer_put(writer, "\n", 1));
    }
    return KITH_OK;
}

static kith_status put_long(kin_writer *writer, char separator, const kith_lists *lists, int64_t k)
{
    KIN_TRY(kin_writer_print(writer, "id%cneighbour", separator));
    if (lists->distances != NULL) {
        KIN_TRY(kin_writer_print(writer, "%cdistance", separator));
    }
    KIN_TRY(kin_writer_put(writer, "\n", 1));
    for (int64_t row = 0; row < lists->rows; row++) {
        const int64_t first = lists->offsets != NULL ? lists->offsets[row] : row * k;
        const int64_t last = lists->offsets != NULL ? lists->offsets[row + 1] : first + k;
        KIN_TRY(put_lines(writer, separator, lists, row, first, last));
    }
    return KITH_OK;
}

/* "id,neighbour1,neighbour2,distance1,distance2" */
static kith_status put_names(kin_writer *writer, char separator, const char *name, int64_t k)
{
    for (int64_t i = 1; i <= k; i++) {
        KIN_TRY(kin_writer_print(writer, "%c%s%" PRId64, separator, name, i));
    }
    return KITH_OK;
}

static kith_status put_row(kin_writer *writer, char separator, const kith_lists *lists, int64_t row,
                           int64_t k)
{
    const uint32_t *ids = lists->ids + row * k;
    KIN_TRY(kin_writer_print(writer, "%" PRId64, row));
    for (int64_t i = 0; i < k; i++) {
        KIN_TRY(ids[i] == KITH_ID_NONE ? kin_writer_put(writer, &separator, 1)
                                       : kin_writer_print(writer, "%c%" PRIu32, separator, ids[i]));
    }
    for (int64_t i = 0; lists->distances != NULL && i < k; i++) {
        KIN_TRY(ids[i] == KITH_ID_NONE
                    ? kin_writer_put(writer, &separator, 1)
                    : put_distance(writer, separator, lists->distances[row * k + i]));
    }
    return kin_writer_put(writer, "\n", 1);
}

static kith_status put_wide(kin_writer *writer, char separator, const kith_lists *lists, int64_t k)
{
    KIN_TRY(kin_writer_put(writer, "id", 2));
    KIN_TRY(put_names(writer, separator, "neighbour", k));
    if (lists->distances != NULL) {
        KIN_TRY(put_names(writer, separator, "distance", k));
    }
    KIN_TRY(kin_writer_put(writer, "\n", 1));
    for (int64_t row = 0; row < lists->rows; row++) {
        KIN_TRY(put_row(writer, separator, lists, row, k));
    }
    return KITH_OK;
}

static kith_status save_lists_text(kith_ctx *ctx, const char *path, kith_format format,
                                   const kith_lists *lists, int64_t k)
{
    kin_writer writer;
    KIN_TRY(kin_writer_open_text(ctx, path, &writer));
    const char separator = separator_of(format);
    const kin_number_locale locale = kin_number_enter();
    const kith_status status = is_wide(format) ? put_wide(&writer, separator, lists, k)
                                               : put_long(&writer, separator, lists, k);
    kin_number_leave(locale);
    return kin_writer_close(&writer, status);
}

/* ---- All formats ----------------------------------------------------------------------------- */

/* One more than the largest id. */
static int64_t rows_named(const uint32_t *ids, int64_t count)
{
    int64_t most = 0;
    for (int64_t i = 0; i < count; i++) {
        if (ids[i] != KITH_ID_NONE && (int64_t)ids[i] >= most) {
            most = (int64_t)ids[i] + 1;
        }
    }
    return most;
}

static kith_status check_corpus(kith_ctx *ctx, const char *path, int64_t named, int64_t rows)
{
    KIN_PASS_IF(named <= rows, ctx, KITH_E_ARGUMENT, kin_at_file(path),
                "the neighbours hold id %" PRId64 ", but the corpus has %" PRId64
                " rows (give the number of rows of their corpus)",
                named - 1, rows);
}

/* Where the corpus is known: whoever opens the file refuses ids beyond it. */
static kith_status check_ids(kith_ctx *ctx, const char *path, const uint32_t *ids, int64_t count,
                             const kith_result_meta *meta)
{
    return meta->corpus_rows == 0
               ? KITH_OK
               : check_corpus(ctx, path, rows_named(ids, count), meta->corpus_rows);
}

/* The columns are the corpus that the `count` checked ids point into: as told, a graph's own rows,
 * or as far as the ids go. */
static kith_status save_matrix(kith_ctx *ctx, const char *path, kin_csr *csr, int64_t count,
                               const kith_result_meta *meta)
{
    csr->meta = *meta;
    csr->cols = meta->corpus_rows;
    if (csr->cols == 0) {
        const int64_t named = rows_named(csr->ids, count);
        csr->cols = meta->kind == KITH_KIND_GRAPH ? csr->rows : named;
        KIN_TRY(check_corpus(ctx, path, named, csr->cols));
    }
    return kin_csr_save(ctx, path, csr);
}

static kith_status save_csr(kith_ctx *ctx, const char *path, const kith_neighbors *neighbors,
                            const kith_result_meta *meta)
{
    kin_csr csr = {.rows = neighbors->rows,
                   .k = neighbors->k,
                   .ids = neighbors->ids,
                   .distances = neighbors->distances};
    return save_matrix(ctx, path, &csr, neighbors->rows * neighbors->k, meta);
}

kin_container_header kin_result_header(kith_kind kind, int64_t rows, int64_t k,
                                       const kith_result_meta *meta)
{
    const kin_container_header header = {.kind = kind,
                                         .metric = meta->metric,
                                         .exact = meta->exact,
                                         .rows = rows,
                                         .k = k,
                                         .corpus_rows = meta->corpus_rows,
                                         .recall = meta->recall,
                                         .recall_at = meta->recall_at,
                                         .points = meta->points};
    return header;
}

static void add_section(kin_section *sections, int32_t *count, const char *tag, const void *data,
                        uint64_t bytes)
{
    if (data != NULL) {
        const kin_section section = {.tag = tag, .data = data, .bytes = bytes};
        sections[*count] = section;
        *count += 1;
    }
}

static kith_status save_kith(kith_ctx *ctx, const char *path, const kith_neighbors *neighbors,
                             const kith_result_meta *meta)
{
    const kith_kind kind = meta->kind == KITH_KIND_GRAPH ? KITH_KIND_GRAPH : KITH_KIND_RESULT;
    const kin_container_header header =
        kin_result_header(kind, neighbors->rows, neighbors->k, meta);
    const uint64_t items = (uint64_t)neighbors->rows * (uint64_t)neighbors->k;
    kin_section sections[3];
    int32_t count = 0;
    add_section(sections, &count, KIN_TAG_IDS, neighbors->ids, items * 4);
    add_section(sections, &count, KIN_TAG_DISTANCES, neighbors->distances, items * 4);
    add_section(sections, &count, KIN_TAG_DISTANCES64, neighbors->distances64, items * 8);
    return kin_container_write(ctx, path, &header, sections, count);
}

/* ivecs and ibin hold int32. */
static kith_status check_int32(kith_ctx *ctx, const char *path, const kith_neighbors *neighbors)
{
    for (int64_t i = 0; i < neighbors->rows * neighbors->k; i++) {
        KIN_FAIL_IF(neighbors->ids[i] > INT32_MAX && neighbors->ids[i] != KITH_ID_NONE, ctx,
                    KITH_E_DATA, kin_at_file(path),
                    "the id %" PRIu32 " in row %" PRId64 ", column %" PRId64
                    " is beyond the format's int32 (save .npz, .knn or .kith)",
                    neighbors->ids[i], i / neighbors->k, i % neighbors->k);
    }
    return KITH_OK;
}

static kith_status put_ivecs(kin_writer *writer, const kith_neighbors *neighbors)
{
    const int32_t k = (int32_t)neighbors->k;
    for (int64_t row = 0; row < neighbors->rows; row++) {
        KIN_TRY(kin_writer_put(writer, &k, sizeof k));
        KIN_TRY(kin_writer_put(writer, neighbors->ids + row * neighbors->k,
                               (uint64_t)neighbors->k * sizeof neighbors->ids[0]));
    }
    return KITH_OK;
}

/* ibin is the beginning of knn: rows, k, ids; then come the distances. */
static kith_status put_ibin(kin_writer *writer, const kith_neighbors *neighbors, bool distances)
{
    const uint32_t header[2] = {(uint32_t)neighbors->rows, (uint32_t)neighbors->k};
    const uint64_t items = (uint64_t)neighbors->rows * (uint64_t)neighbors->k;
    KIN_TRY(kin_writer_put(writer, header, sizeof header));
    KIN_TRY(kin_writer_put(writer, neighbors->ids, items * sizeof neighbors->ids[0]));
    if (!distances) {
        return KITH_OK;
    }
    return kin_writer_put(writer, neighbors->distances, items * sizeof neighbors->distances[0]);
}

static kith_status save_plain(kith_ctx *ctx, const char *path, kith_format format,
                              const kith_neighbors *neighbors)
{
    if (format != KITH_FORMAT_KNN) {
        KIN_TRY(check_int32(ctx, path, neighbors));
    } else if (neighbors->distances == NULL) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at_file(path),
                           "the knn format needs distances (give them, or save .ibin)");
    }
    kin_writer writer;
    KIN_TRY(kin_writer_open(ctx, path, &writer));
    writer.total = kin_size_mul((uint64_t)neighbors->rows, (uint64_t)neighbors->k * 8);
    const kith_status status = format == KITH_FORMAT_IVECS
                                   ? put_ivecs(&writer, neighbors)
                                   : put_ibin(&writer, neighbors, format == KITH_FORMAT_KNN);
    return kin_writer_close(&writer, status);
}

static kith_status save_text(kith_ctx *ctx, const char *path, kith_format format,
                             const kith_neighbors *neighbors)
{
    const kith_lists lists = {
        .rows = neighbors->rows, .ids = neighbors->ids, .distances = neighbors->distances};
    return save_lists_text(ctx, path, format, &lists, neighbors->k);
}

static kith_status save_as(kith_ctx *ctx, const char *path, kith_format format,
                           const kith_neighbors *neighbors, const kith_result_meta *meta)
{
    switch (format) {
    case KITH_FORMAT_NPZ:
        return kin_npz_save(ctx, path, neighbors, meta);
    case KITH_FORMAT_CSR:
        return save_csr(ctx, path, neighbors, meta);
    case KITH_FORMAT_KITH:
        return save_kith(ctx, path, neighbors, meta);
    case KITH_FORMAT_IVECS:
    case KITH_FORMAT_IBIN:
    case KITH_FORMAT_KNN:
        return save_plain(ctx, path, format, neighbors);
    case KITH_FORMAT_CSV:
    case KITH_FORMAT_TSV:
    case KITH_FORMAT_CSV_WIDE:
    case KITH_FORMAT_TSV_WIDE:
        return save_text(ctx, path, format, neighbors);
    case KITH_FORMAT_AUTO:
        break;
    }
    return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at_file(path),
                       "format %d is none that neighbours are saved in", (int)format);
}

kith_status kin_result_choose(kith_ctx *ctx, const char *path, kith_format *format)
{
    if (kin_input_is_standard(path)) {
        *format = *format == KITH_FORMAT_AUTO ? KITH_FORMAT_CSV : *format;
        KIN_PASS_IF(kin_result_is_text(*format), ctx, KITH_E_ARGUMENT, kin_at_file(path),
                    "standard output takes text alone (take "
                    "the format csv or tsv, or give a file)");
    }
    if (*format == KITH_FORMAT_AUTO) {
        kin_format extension = KIN_FORMAT_NONE;
        KIN_TRY(kin_format_find(ctx, path, KITH_FILE_LISTS_OUT, &extension));
        *format = kin_format_result(kin_format_get_traits(extension)->name);
    }
    return KITH_OK;
}

kith_status kin_result_save(kith_ctx *ctx, const char *path, kith_format format,
                            const kith_neighbors *neighbors, const kith_result_meta *meta)
{
    KIN_TRY(kin_result_choose(ctx, path, &format));
    KIN_TRY(check_ids(ctx, path, neighbors->ids, neighbors->rows * neighbors->k, meta));
    kith_neighbors whole = *neighbors;
    float *rounded = NULL;
    KIN_HOLD(hold, ctx);
    if (whole.distances == NULL && whole.distances64 != NULL) {
        const int64_t count = whole.rows * whole.k;
        KIN_NEW(&hold, rounded, (uint64_t)count, "distances");
        for (int64_t i = 0; i < count; i++) {
            rounded[i] = (float)whole.distances64[i];
        }
        whole.distances = rounded;
    }
    return save_as(ctx, path, format, &whole, meta);
}

static kith_status save_ranges_kith(kith_ctx *ctx, const char *path, const kith_lists *lists,
                                    const kith_result_meta *meta)
{
    const kin_container_header header = kin_result_header(KITH_KIND_RANGES, lists->rows, 0, meta);
    const uint64_t items = (uint64_t)lists->offsets[lists->rows];
    kin_section sections[4];
    int32_t count = 0;
    add_section(sections, &count, KIN_TAG_OFFSETS, lists->offsets, (uint64_t)(lists->rows + 1) * 8);
    add_section(sections, &count, KIN_TAG_IDS, lists->ids, items * 4);
    add_section(sections, &count, KIN_TAG_DISTANCES, lists->distances, items * 4);
    add_section(sections, &count, KIN_TAG_DISTANCES64, lists->distances64, items * 8);
    return kin_container_write(ctx, path, &header, sections, count);
}

static kith_status put_range(kin_writer *writer, const kith_lists *lists)
{
    const uint64_t entries = (uint64_t)lists->offsets[lists->rows];
    const int32_t header[2] = {(int32_t)lists->rows, (int32_t)entries};
    KIN_TRY(kin_writer_put(writer, header, sizeof header));
    for (int64_t row = 0; row < lists->rows; row++) {
        const int32_t count = (int32_t)(lists->offsets[row + 1] - lists->offsets[row]);
        KIN_TRY(kin_writer_put(writer, &count, sizeof count));
    }
    KIN_TRY(kin_writer_put(writer, lists->ids, entries * sizeof lists->ids[0]));
    return kin_writer_put(writer, lists->distances, entries * sizeof lists->distances[0]);
}

/* All of its numbers are int32. */
static kith_status save_range(kith_ctx *ctx, const char *path, const kith_lists *lists)
{
    const int64_t entries = lists->offsets[lists->rows];
    const int64_t named = rows_named(lists->ids, entries);
    kin_writer writer;
    KIN_FAIL_IF(lists->rows > INT32_MAX || entries > INT32_MAX || named - 1 > INT32_MAX, ctx,
                KITH_E_DATA, kin_at_file(path),
                "%" PRId64 " rows have %" PRId64 " entries and ids up to %" PRId64
                ", one of which is beyond the format's int32 (save .kith)",
                lists->rows, entries, named - 1);
    KIN_TRY(kin_writer_open(ctx, path, &writer));
    return kin_writer_close(&writer, put_range(&writer, lists));
}

kith_status kin_ranges_save(kith_ctx *ctx, const char *path, const kith_lists *lists,
                            const kith_result_meta *meta)
{
    kith_format format = KITH_FORMAT_AUTO;
    const bool is_range = kin_format_of(path, KITH_FILE_RANGES_OUT) == KIN_FORMAT_RANGE;
    KIN_TRY(is_range ? KITH_OK : kin_result_choose(ctx, path, &format));
    KIN_TRY(check_ids(ctx, path, lists->ids, lists->offsets[lists->rows], meta));
    if (is_range) {
        return save_range(ctx, path, lists);
    }
    if (format == KITH_FORMAT_KITH) {
        return save_ranges_kith(ctx, path, lists, meta);
    }
    if (kin_result_is_text(format)) {
        return save_lists_text(ctx, path, format, lists, 0);
    }
    KIN_FAIL_IF(format != KITH_FORMAT_NPZ, ctx, KITH_E_ARGUMENT, kin_at_file(path),
                "lists of different lengths are saved as .npz (a sparse matrix), .kith, .range, "
                ".csv or .tsv (give one of these extensions)");
    kin_csr csr = {.rows = lists->rows,
                   .offsets = lists->offsets,
                   .ids = lists->ids,
                   .distances = lists->distances};
    return save_matrix(ctx, path, &csr, lists->offsets[lists->rows], meta);
}
