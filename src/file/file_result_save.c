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

/* "id,neighbour,distance": the entries of one row. */
static kith_status put_lines(kin_writer *writer, char separator, const kin_saved *s, int64_t row)
{
    const kith_lists *lists = &s->lists;
    for (int64_t i = kin_saved_before(s, row); i < kin_saved_before(s, row + 1); i++) {
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

static kith_status put_long(kin_writer *writer, char separator, const kin_saved *s)
{
    KIN_TRY(kin_writer_print(writer, "id%cneighbour", separator));
    if (s->lists.distances != NULL) {
        KIN_TRY(kin_writer_print(writer, "%cdistance", separator));
    }
    KIN_TRY(kin_writer_put(writer, "\n", 1));
    for (int64_t row = 0; row < s->lists.rows; row++) {
        KIN_TRY(put_lines(writer, separator, s, row));
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

static kith_status put_row(kin_writer *writer, char separator, const kin_saved *s, int64_t row)
{
    const float *distances = s->lists.distances;
    const uint32_t *ids = s->lists.ids + row * s->k;
    KIN_TRY(kin_writer_print(writer, "%" PRId64, row));
    for (int64_t i = 0; i < s->k; i++) {
        KIN_TRY(ids[i] == KITH_ID_NONE ? kin_writer_put(writer, &separator, 1)
                                       : kin_writer_print(writer, "%c%" PRIu32, separator, ids[i]));
    }
    for (int64_t i = 0; distances != NULL && i < s->k; i++) {
        KIN_TRY(ids[i] == KITH_ID_NONE
                    ? kin_writer_put(writer, &separator, 1)
                    : put_distance(writer, separator, distances[row * s->k + i]));
    }
    return kin_writer_put(writer, "\n", 1);
}

static kith_status put_wide(kin_writer *writer, char separator, const kin_saved *s)
{
    KIN_TRY(kin_writer_put(writer, "id", 2));
    KIN_TRY(put_names(writer, separator, "neighbour", s->k));
    if (s->lists.distances != NULL) {
        KIN_TRY(put_names(writer, separator, "distance", s->k));
    }
    KIN_TRY(kin_writer_put(writer, "\n", 1));
    for (int64_t row = 0; row < s->lists.rows; row++) {
        KIN_TRY(put_row(writer, separator, s, row));
    }
    return KITH_OK;
}

static kith_status save_text(const kin_saved *s, kith_format format)
{
    kin_writer writer;
    KIN_TRY(kin_writer_open_text(s->ctx, s->path, &writer));
    const char separator = separator_of(format);
    KIN_C_NUMBERS();
    return kin_writer_close(&writer, is_wide(format) ? put_wide(&writer, separator, s)
                                                     : put_long(&writer, separator, s));
}

/* ---- All formats ----------------------------------------------------------------------------- */

static int64_t entries_of(const kin_saved *s)
{
    return kin_saved_before(s, s->lists.rows);
}

/* One more than the largest id. */
static int64_t rows_named(const kin_saved *s)
{
    const uint32_t *ids = s->lists.ids;
    int64_t most = 0;
    for (int64_t i = 0; i < entries_of(s); i++) {
        if (ids[i] != KITH_ID_NONE && (int64_t)ids[i] >= most) {
            most = (int64_t)ids[i] + 1;
        }
    }
    return most;
}

/* Where the corpus is known: whoever opens the file refuses ids beyond it. */
static kith_status check_corpus(const kin_saved *s, int64_t rows)
{
    const int64_t named = rows > 0 ? rows_named(s) : 0;
    KIN_PASS_IF(named <= rows, s->ctx, KITH_E_ARGUMENT, kin_at_file(s->path),
                "the neighbours hold id %" PRId64 ", but the corpus has %" PRId64
                " rows (give the number of rows of their corpus)",
                named - 1, rows);
}

/* The columns are the corpus that the checked ids point into: as told, a graph's own rows, or as
 * far as the ids go. */
static kith_status save_matrix(kin_saved *s)
{
    s->cols = s->meta->corpus_rows;
    if (s->cols == 0) {
        s->cols = s->meta->kind == KITH_KIND_GRAPH ? s->lists.rows : rows_named(s);
        KIN_TRY(check_corpus(s, s->cols));
    }
    return kin_csr_save(s);
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
        sections[*count] = (kin_section){.tag = tag, .data = data, .bytes = bytes};
        *count += 1;
    }
}

static kith_status save_kith(const kin_saved *s)
{
    const kith_lists *lists = &s->lists;
    const kith_kind kind = lists->offsets != NULL             ? KITH_KIND_RANGES
                           : s->meta->kind == KITH_KIND_GRAPH ? KITH_KIND_GRAPH
                                                              : KITH_KIND_RESULT;
    const kin_container_header header = kin_result_header(kind, lists->rows, s->k, s->meta);
    const uint64_t items = (uint64_t)entries_of(s);
    kin_section sections[4];
    int32_t count = 0;
    add_section(sections, &count, KIN_TAG_OFFSETS, lists->offsets, (uint64_t)(lists->rows + 1) * 8);
    add_section(sections, &count, KIN_TAG_IDS, lists->ids, items * 4);
    add_section(sections, &count, KIN_TAG_DISTANCES, lists->distances, items * 4);
    add_section(sections, &count, KIN_TAG_DISTANCES64, lists->distances64, items * 8);
    return kin_container_write(s->ctx, s->path, &header, sections, count);
}

/* ivecs and ibin hold int32. */
static kith_status check_int32(const kin_saved *s)
{
    const uint32_t *ids = s->lists.ids;
    for (int64_t i = 0; i < entries_of(s); i++) {
        KIN_FAIL_IF(ids[i] > INT32_MAX && ids[i] != KITH_ID_NONE, s->ctx, KITH_E_DATA,
                    kin_at_file(s->path),
                    "the id %" PRIu32 " in row %" PRId64 ", column %" PRId64
                    " is beyond the format's int32 (save .npz, .knn or .kith)",
                    ids[i], i / s->k, i % s->k);
    }
    return KITH_OK;
}

static kith_status put_ivecs(kin_writer *writer, const kin_saved *s)
{
    const int32_t k = (int32_t)s->k;
    for (int64_t row = 0; row < s->lists.rows; row++) {
        KIN_TRY(kin_writer_put(writer, &k, sizeof k));
        KIN_TRY(kin_writer_put(writer, s->lists.ids + row * s->k,
                               (uint64_t)s->k * sizeof *s->lists.ids));
    }
    return KITH_OK;
}

/* ibin is the beginning of knn: rows, k, ids; then come the distances. A .range has the entries of
 * all rows in place of k, and those of each row before the ids. */
static kith_status put_tables(kin_writer *writer, const kin_saved *s, bool distances)
{
    const kith_lists *lists = &s->lists;
    const uint64_t items = (uint64_t)entries_of(s);
    const bool is_range = lists->offsets != NULL;
    const uint32_t header[2] = {(uint32_t)lists->rows,
                                (uint32_t)(is_range ? items : (uint64_t)s->k)};
    KIN_TRY(kin_writer_put(writer, header, sizeof header));
    for (int64_t row = 0; is_range && row < lists->rows; row++) {
        const int32_t count = (int32_t)(lists->offsets[row + 1] - lists->offsets[row]);
        KIN_TRY(kin_writer_put(writer, &count, sizeof count));
    }
    KIN_TRY(kin_writer_put(writer, lists->ids, items * sizeof *lists->ids));
    return distances ? kin_writer_put(writer, lists->distances, items * sizeof *lists->distances)
                     : KITH_OK;
}

static kith_status save_plain(const kin_saved *s, kith_format format)
{
    if (format != KITH_FORMAT_KNN) {
        KIN_TRY(check_int32(s));
    }
    KIN_FAIL_IF(format == KITH_FORMAT_KNN && s->lists.distances == NULL, s->ctx, KITH_E_ARGUMENT,
                kin_at_file(s->path), "the knn format needs distances (give them, or save .ibin)");
    kin_writer writer;
    KIN_TRY(kin_writer_open(s->ctx, s->path, &writer));
    writer.total = kin_size_mul((uint64_t)s->lists.rows, (uint64_t)s->k * 8);
    const kith_status status = format == KITH_FORMAT_IVECS
                                   ? put_ivecs(&writer, s)
                                   : put_tables(&writer, s, format == KITH_FORMAT_KNN);
    return kin_writer_close(&writer, status);
}

static kith_status save_as(kin_saved *s, kith_format format)
{
    switch (format) {
    case KITH_FORMAT_NPZ:
        return kin_npz_save(s);
    case KITH_FORMAT_CSR:
        return save_matrix(s);
    case KITH_FORMAT_KITH:
        return save_kith(s);
    case KITH_FORMAT_IVECS:
    case KITH_FORMAT_IBIN:
    case KITH_FORMAT_KNN:
        return save_plain(s, format);
    case KITH_FORMAT_CSV:
    case KITH_FORMAT_TSV:
    case KITH_FORMAT_CSV_WIDE:
    case KITH_FORMAT_TSV_WIDE:
        return save_text(s, format);
    case KITH_FORMAT_AUTO:
        break;
    }
    return kin_fail_at(s->ctx, KITH_E_ARGUMENT, kin_at_file(s->path),
                       "format %d is none that neighbours are saved in", (int)format);
}

kith_status kin_result_choose(kith_ctx *ctx, const char *path, kith_format *format)
{
    if (kin_input_is_standard(path)) {
        *format = *format == KITH_FORMAT_AUTO ? KITH_FORMAT_CSV : *format;
        KIN_PASS_IF(
            kin_result_is_text(*format), ctx, KITH_E_ARGUMENT, kin_at_file(path),
            "standard output takes text alone (take the format csv or tsv, or give a file)");
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
    kin_saved s = {.ctx = ctx,
                   .path = path,
                   .lists = {.rows = neighbors->rows,
                             .ids = neighbors->ids,
                             .distances = neighbors->distances,
                             .distances64 = neighbors->distances64},
                   .k = neighbors->k,
                   .meta = meta};
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_result_choose(ctx, path, &format));
    KIN_TRY(check_corpus(&s, meta->corpus_rows));
    if (s.lists.distances == NULL && s.lists.distances64 != NULL) {
        KIN_NEW(&hold, s.lists.distances, (uint64_t)entries_of(&s), "distances");
        for (int64_t i = 0; i < entries_of(&s); i++) {
            s.lists.distances[i] = (float)s.lists.distances64[i];
        }
    }
    return save_as(&s, format);
}

/* All numbers of a .range are int32. */
static kith_status save_range(const kin_saved *s)
{
    const int64_t entries = entries_of(s);
    const int64_t named = rows_named(s);
    kin_writer writer;
    KIN_FAIL_IF(s->lists.rows > INT32_MAX || entries > INT32_MAX || named - 1 > INT32_MAX, s->ctx,
                KITH_E_DATA, kin_at_file(s->path),
                "%" PRId64 " rows have %" PRId64 " entries and ids up to %" PRId64
                ", one of which is beyond the format's int32 (save .kith)",
                s->lists.rows, entries, named - 1);
    KIN_TRY(kin_writer_open(s->ctx, s->path, &writer));
    return kin_writer_close(&writer, put_tables(&writer, s, true));
}

kith_status kin_ranges_save(kith_ctx *ctx, const char *path, const kith_lists *lists,
                            const kith_result_meta *meta)
{
    kin_saved s = {.ctx = ctx, .path = path, .lists = *lists, .meta = meta};
    kith_format format = KITH_FORMAT_AUTO;
    const bool is_range = kin_format_of(path, KITH_FILE_RANGES_OUT) == KIN_FORMAT_RANGE;
    KIN_TRY(is_range ? KITH_OK : kin_result_choose(ctx, path, &format));
    KIN_TRY(check_corpus(&s, meta->corpus_rows));
    if (is_range) {
        return save_range(&s);
    }
    KIN_FAIL_IF(format != KITH_FORMAT_NPZ && format != KITH_FORMAT_KITH &&
                    !kin_result_is_text(format),
                ctx, KITH_E_ARGUMENT, kin_at_file(path),
                "lists of different lengths are saved as .npz (a sparse matrix), .kith, .range, "
                ".csv or .tsv (give one of these extensions)");
    return format == KITH_FORMAT_NPZ ? save_matrix(&s) : save_as(&s, format);
}
