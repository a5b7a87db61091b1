/* SPDX-License-Identifier: Apache-2.0
 * Which columns of a text are taken: "1,4-6,9-,NAME". */
#include "file/file_text.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"

#include <inttypes.h>

/* One entry: columns first .. last, or a name where first is negative. last: INT64_MAX for all. */
typedef struct column_entry {
    const char *at;
    size_t bytes;
    int64_t first;
    int64_t last;
} column_entry;

static bool take_number(const char **at, const char *end, int64_t *number)
{
    const char *start = *at;
    uint64_t value = 0;
    while (*at < end && **at >= '0' && **at <= '9') {
        value = kin_size_add(kin_size_mul(value, 10), (uint64_t)(**at - '0'));
        *at += 1;
    }
    *number = value < INT64_MAX ? (int64_t)value : INT64_MAX - 1;
    return *at != start;
}

/* The entry that begins at *columns, which moves behind it; false at the end. */
static bool next_entry(const char **columns, column_entry *entry)
{
    if (**columns == '\0') {
        return false;
    }
    const size_t bytes = strcspn(*columns, ",");
    *entry = (column_entry){.at = *columns, .bytes = bytes, .first = -1, .last = -1};
    const char *end = *columns + bytes;
    const char *at = *columns;
    int64_t first = 0;
    *columns = end + (*end == ',');
    if (!take_number(&at, end, &first)) {
        return true;
    }
    int64_t last = first;
    if (at < end && *at == '-') {
        at++;
        if (!take_number(&at, end, &last)) {
            last = INT64_MAX;
        }
    }
    if (at == end) {
        entry->first = first;
        entry->last = last;
    }
    return true;
}

static bool is_named(const column_entry *entry, kin_text_field field)
{
    return entry->first < 0 && (size_t)(field.end - field.at) == entry->bytes &&
           memcmp(field.at, entry->at, entry->bytes) == 0;
}

bool kin_text_mentions(const char *columns, int64_t col, kin_text_field field)
{
    column_entry entry;
    while (next_entry(&columns, &entry)) {
        if ((col >= entry.first && col <= entry.last) || is_named(&entry, field)) {
            return true;
        }
    }
    return false;
}

/* A name as the number of its column; KITH_E_FORMAT where the header has it not. */
static kith_status find_name(const kin_text *text, column_entry *entry)
{
    const char *at = text->header.at;
    for (int64_t col = 0; at != NULL && entry->first < 0; col++) {
        if (is_named(entry, kin_text_next_field(&at, text->header.end, text->separator))) {
            entry->first = col;
            entry->last = col;
            return KITH_OK;
        }
    }
    return kin_fail_at(text->ctx, KITH_E_FORMAT, kin_at_file(text->path), "%s '%.*s' (%s)",
                       text->header.at != NULL ? "its header names no column"
                                               : "has no header that would name the column",
                       (int)(entry->bytes < 64 ? entry->bytes : 64), entry->at,
                       text->header.at != NULL ? "columns are given by number, too, from 0"
                                               : "say --header yes if it has, or give its number");
}

static kith_status take_entry(kin_text *text, column_entry *entry)
{
    if (entry->first < 0) {
        KIN_TRY(find_name(text, entry));
    }
    const int64_t last = entry->last == INT64_MAX ? text->file_cols - 1 : entry->last;
    if (entry->first >= text->file_cols || last >= text->file_cols || last < entry->first) {
        return kin_fail_at(text->ctx, KITH_E_FORMAT, kin_at_file(text->path),
                           "has %" PRId64 " columns, --columns asks for '%.*s' (they count from 0)",
                           text->file_cols, (int)(entry->bytes < 64 ? entry->bytes : 64),
                           entry->at);
    }
    for (int64_t col = entry->first; col <= last; col++) {
        if (text->places[col] >= 0) {
            return kin_fail_at(text->ctx, KITH_E_FORMAT, kin_at_file(text->path),
                               "--columns has column %" PRId64 " twice (leave one out)", col);
        }
        text->places[col] = text->cols++;
    }
    return KITH_OK;
}

kith_status kin_text_choose(kin_text *text)
{
    const char *columns = text->params->columns;
    column_entry entry;
    KIN_TRY(kin_alloc(text->ctx, &text->places, (uint64_t)text->file_cols, sizeof *text->places,
                      "the columns of a text"));
    for (int64_t col = 0; col < text->file_cols; col++) {
        text->places[col] = -1;
    }
    text->cols = 0;
    while (next_entry(&columns, &entry)) {
        KIN_TRY(take_entry(text, &entry));
    }
    return KITH_OK;
}
