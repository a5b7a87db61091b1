/* SPDX-License-Identifier: Apache-2.0
 * Neighbours as text, to look at: a line a neighbour, or a line a row. Empty slots are left out, or
 * left empty. */
#include "base/base_try.h"
#include "file/file_atomic.h"
#include "file/file_number.h"
#include "file/file_result.h"

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
static kith_status put_lines(kin_writer *writer, char separator, const kin_range_lists *lists,
                             int64_t row, int64_t first, int64_t last)
{
    char text[FIELD_ROOM];
    for (int64_t i = first; i < last; i++) {
        if (lists->ids[i] == KITH_ID_NONE) {
            continue;
        }
        const int length =
            snprintf(text, sizeof text, "%" PRId64 "%c%" PRIu32, row, separator, lists->ids[i]);
        KIN_TRY(kin_writer_put(writer, text, (uint64_t)length));
        if (lists->distances != NULL) {
            KIN_TRY(put_distance(writer, separator, lists->distances[i]));
        }
        KIN_TRY(kin_writer_put(writer, "\n", 1));
    }
    return KITH_OK;
}

static kith_status put_long(kin_writer *writer, char separator, const kin_range_lists *lists,
                            int64_t k)
{
    char head[FIELD_ROOM];
    const int length = snprintf(head, sizeof head, "id%cneighbour", separator);
    KIN_TRY(kin_writer_put(writer, head, (uint64_t)length));
    if (lists->distances != NULL) {
        (void)snprintf(head, sizeof head, "%cdistance", separator);
        KIN_TRY(kin_writer_put(writer, head, strlen(head)));
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
    char text[FIELD_ROOM];
    for (int64_t i = 1; i <= k; i++) {
        const int length = snprintf(text, sizeof text, "%c%s%" PRId64, separator, name, i);
        KIN_TRY(kin_writer_put(writer, text, (uint64_t)length));
    }
    return KITH_OK;
}

static kith_status put_row(kin_writer *writer, char separator, const kin_range_lists *lists,
                           int64_t row, int64_t k)
{
    char text[FIELD_ROOM];
    const uint32_t *ids = lists->ids + row * k;
    int length = snprintf(text, sizeof text, "%" PRId64, row);
    KIN_TRY(kin_writer_put(writer, text, (uint64_t)length));
    for (int64_t i = 0; i < k; i++) {
        length = ids[i] == KITH_ID_NONE
                     ? snprintf(text, sizeof text, "%c", separator)
                     : snprintf(text, sizeof text, "%c%" PRIu32, separator, ids[i]);
        KIN_TRY(kin_writer_put(writer, text, (uint64_t)length));
    }
    for (int64_t i = 0; lists->distances != NULL && i < k; i++) {
        KIN_TRY(ids[i] == KITH_ID_NONE
                    ? kin_writer_put(writer, &separator, 1)
                    : put_distance(writer, separator, lists->distances[row * k + i]));
    }
    return kin_writer_put(writer, "\n", 1);
}

static kith_status put_wide(kin_writer *writer, char separator, const kin_range_lists *lists,
                            int64_t k)
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

kith_status kin_result_save_text(kith_ctx *ctx, const char *path, kith_format format,
                                 const kin_range_lists *lists, int64_t k)
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
