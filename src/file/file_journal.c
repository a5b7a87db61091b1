/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "file/file_stream.h"

#include "base/base_mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { SUM_LINE = 21 }; /* "sum ", 16 digits, the line's end */
static const char first_line[] = "kith journal 1\n";

/* ---- Texts ----------------------------------------------------------------------------------- */

static uint64_t line_bytes(const char *text, uint64_t bytes)
{
    const char *end = bytes > 0 ? memchr(text, '\n', (size_t)bytes) : NULL;
    return end != NULL ? (uint64_t)(end - text) + 1 : bytes;
}

static void print_sum(char line[SUM_LINE + 1], const void *data, uint64_t bytes)
{
    (void)snprintf(line, SUM_LINE + 1, "sum %016" PRIx64 "\n", kin_checksum_of(data, bytes));
}

/* Whether the line at this place is the sum of all before. */
static bool ends_head(const char *text, uint64_t at)
{
    char expected[SUM_LINE + 1];
    print_sum(expected, text, at);
    return memcmp(text + at, expected, SUM_LINE) == 0;
}

/* The bytes before the records, or 0 where they are no head that is whole and right. */
static uint64_t head_of(const char *text, uint64_t bytes)
{
    uint64_t at = 0;
    if (bytes < sizeof first_line - 1 || memcmp(text, first_line, sizeof first_line - 1) != 0) {
        return 0;
    }
    while (at < bytes) {
        const uint64_t line = line_bytes(text + at, bytes - at);
        if (line == SUM_LINE && ends_head(text, at)) {
            return at + line;
        }
        at += line;
    }
    return 0;
}

/* A line without its end, as much as there is room for. */
static void excerpt(char out[KIN_JOURNAL_EXCERPT], const char *text, uint64_t bytes)
{
    const uint64_t line = line_bytes(text, bytes);
    const uint64_t shown = line < KIN_JOURNAL_EXCERPT ? line : KIN_JOURNAL_EXCERPT;
    memcpy(out, text, (size_t)shown);
    out[shown > 0 ? shown - 1 : 0] = '\0';
}

kin_journal_kind kin_journal_judge(const kin_journal *journal, const char *text, uint64_t bytes,
                                   char theirs[KIN_JOURNAL_EXCERPT], char ours[KIN_JOURNAL_EXCERPT])
{
    const uint64_t head = head_of(text, bytes);
    if (head == 0) {
        return KIN_JOURNAL_FOREIGN;
    }
    if (head == journal->head_bytes && memcmp(text, journal->head, (size_t)head) == 0) {
        return KIN_JOURNAL_SAME;
    }
    uint64_t at = 0;
    uint64_t line = line_bytes(text, head);
    while (line > 0 && line <= journal->head_bytes - at &&
           memcmp(text + at, journal->head + at, (size_t)line) == 0) {
        at += line;
        line = line_bytes(text + at, head - at);
    }
    excerpt(theirs, text + at, head - at);
    excerpt(ours, journal->head + at, journal->head_bytes - at);
    return KIN_JOURNAL_OTHER;
}

void kin_journal_print(char line[KIN_JOURNAL_LINE + 1], const kin_journal_record *record)
{
    enum { BEFORE = KIN_JOURNAL_LINE - SUM_LINE };
    (void)snprintf(line, BEFORE + 1, "rows %016" PRIx64 " ids %016" PRIx64 " distances %016" PRIx64,
                   (uint64_t)record->rows, record->sums[0], record->sums[1]);
    line[BEFORE - 1] = ' ';
    print_sum(line + BEFORE, line, BEFORE);
}

/* 16 digits; what is none of them does not survive the comparison below. */
static uint64_t parse_number(const char *text)
{
    uint64_t value = 0;
    for (int i = 0; i < 16; i++) {
        const char c = text[i];
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 0;
        value = value << 4 | (uint64_t)digit;
    }
    return value;
}

bool kin_journal_next(const char *text, uint64_t bytes, uint64_t *offset,
                      kin_journal_record *record)
{
    enum { ROWS = 5, IDS = ROWS + 16 + 5, DISTANCES = IDS + 16 + 11 };
    char again[KIN_JOURNAL_LINE + 1];
    if (*offset > bytes || bytes - *offset < KIN_JOURNAL_LINE) {
        return false;
    }
    const char *line = text + *offset;
    record->rows = (int64_t)parse_number(line + ROWS);
    record->sums[0] = parse_number(line + IDS);
    record->sums[1] = parse_number(line + DISTANCES);
    kin_journal_print(again, record);
    if (memcmp(line, again, KIN_JOURNAL_LINE) != 0) {
        return false;
    }
    *offset += KIN_JOURNAL_LINE;
    return true;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static kith_status fail_io(kith_ctx *ctx, const kin_journal *journal, int error)
{
    return kin_fail_at(ctx, KITH_E_IO, kin_at_file(journal->path),
                       "cannot be written: %s (free some space there, or see who may write it; the "
                       "same job then goes on where it is)",
                       strerror(error));
}

kith_status kin_journal_init(kith_ctx *ctx, const char *target, const char *job,
                             kin_journal *journal)
{
    const size_t before = sizeof first_line - 1 + strlen(job);
    memset(journal, 0, sizeof *journal);
    journal->file = -1;
    KIN_TRY(kin_alloc_text(ctx, &journal->path, "a file's path", "%s.journal", target));
    KIN_TRY(kin_alloc(ctx, &journal->head, before + SUM_LINE + 1, 1, "a journal"));
    (void)snprintf(journal->head, before + 1, "%s%s", first_line, job);
    print_sum(journal->head + before, journal->head, before);
    journal->head_bytes = before + SUM_LINE;
    return KITH_OK;
}

static kith_status open_to_append(kith_ctx *ctx, kin_journal *journal)
{
    journal->file = open(journal->path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    return journal->file >= 0 ? KITH_OK : fail_io(ctx, journal, errno);
}

kith_status kin_journal_create(kith_ctx *ctx, kin_journal *journal)
{
    kin_writer writer;
    KIN_TRY(kin_writer_open_as(ctx, journal->path, false, &writer, NULL));
    KIN_TRY(kin_writer_close(&writer, kin_writer_put(&writer, journal->head, journal->head_bytes)));
    return open_to_append(ctx, journal);
}

kith_status kin_journal_continue(kith_ctx *ctx, kin_journal *journal, uint64_t bytes)
{
    KIN_TRY(open_to_append(ctx, journal));
    const int error = kin_file_resize(journal->file, bytes);
    return error == 0 ? KITH_OK : fail_io(ctx, journal, error);
}

kith_status kin_journal_append(kith_ctx *ctx, kin_journal *journal,
                               const kin_journal_record *record)
{
    char line[KIN_JOURNAL_LINE + 1];
    kin_journal_print(line, record);
    int error = kin_file_write(journal->file, line, KIN_JOURNAL_LINE, -1);
    if (error == 0) {
        error = kin_file_sync(journal->file, true);
    }
    return error == 0 ? KITH_OK : fail_io(ctx, journal, error);
}

/* Whether there is something to go on with, or nothing that would be lost; else why not. */
static kith_status judge(kith_ctx *ctx, const kin_journal *journal, const char *partial,
                         const kin_map *map, bool has_data, bool *resume)
{
    static const char *const remedy = "to begin anew add --restart, or remove";
    char theirs[KIN_JOURNAL_EXCERPT];
    char ours[KIN_JOURNAL_EXCERPT];
    const kin_journal_kind kind =
        kin_journal_judge(journal, (const char *)map->data, map->bytes, theirs, ours);
    KIN_DAMAGED_IF(kind == KIN_JOURNAL_FOREIGN, ctx, journal->path,
                   "is no journal of kith, or damaged (%s it and %s)", remedy, partial);
    KIN_FAIL_IF(kind == KIN_JOURNAL_OTHER && has_data, ctx, KITH_E_ARGUMENT,
                kin_at_file(journal->path),
                "is of another job, it says '%s', this one '%s' (%s it and %s)", theirs, ours,
                remedy, partial);
    *resume = kind == KIN_JOURNAL_SAME && has_data;
    return KITH_OK;
}

kith_status kin_journal_begin(kith_ctx *ctx, kin_journal *journal, kin_writer *partial,
                              bool restart, kin_map *map, bool *fresh)
{
    const bool has_data = lseek(partial->file, 0, SEEK_END) > 0;
    const bool there = !restart && access(journal->path, F_OK) == 0;
    bool resume = false;
    kith_status status = KITH_OK;
    *fresh = false;
    if (there) {
        KIN_THEN(status, kin_map_open(ctx, journal->path, false, map));
        KIN_THEN(status, judge(ctx, journal, partial->temporary, map, has_data, &resume));
    } else if (!restart && has_data) {
        status = kin_fail_at(
            ctx, KITH_E_IO, kin_at_file(partial->temporary),
            "is there, its journal %s is not (to begin anew add --restart, or remove it)",
            journal->path);
    }
    if (status == KITH_OK && !resume) {
        status = kin_journal_create(ctx, journal);
        *fresh = status == KITH_OK;
    }
    if (status != KITH_OK && (restart || !has_data)) {
        kin_writer_drop(partial);
    }
    return status;
}

void kin_journal_remove(const kin_journal *journal)
{
    (void)unlink(journal->path);
}

void kin_journal_free(kith_ctx *ctx, kin_journal *journal)
{
    if (journal->file >= 0) {
        (void)close(journal->file);
    }
    kin_free(ctx, journal->path);
    kin_free(ctx, journal->head);
    memset(journal, 0, sizeof *journal);
    journal->file = -1;
}

static void give_back(void *ctx, void *journal)
{
    kin_journal_free(ctx, journal);
}

void kin_journal_hold(kin_hold *hold, kin_journal *journal)
{
    kin_hold_take(hold, give_back, hold->ctx, journal);
}
