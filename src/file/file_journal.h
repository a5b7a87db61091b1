/* SPDX-License-Identifier: Apache-2.0
 * How far a result that is written in pieces has come: a small text file beside it.
 *
 *     kith journal 1
 *     k 10                        lines that say what job it is
 *     ...
 *     sum 0123456789abcdef        of all bytes before
 *     rows 0000000000001000 ids 0123456789abcdef distances 0123456789abcdef sum ...
 *     ...
 *
 * A record follows each piece that is on disk: rows that stand, the checksums of their ids and of
 * their distances, and that of the line itself; all in hexadecimal. What a crash has torn, or
 * somebody has changed, ends the records before it. */
#ifndef KIN_FILE_JOURNAL_H
#define KIN_FILE_JOURNAL_H

#include "file/file_atomic.h"

enum { KIN_JOURNAL_LINE = 91 /* bytes of a record */, KIN_JOURNAL_EXCERPT = 192 };

typedef struct kin_journal {
    char *path;
    char *head; /* all before the records, of this job */
    uint64_t head_bytes;
    int file; /* to append to, or -1 */
} kin_journal;

typedef struct kin_journal_record {
    int64_t rows;
    uint64_t sums[2]; /* of ids and distances */
} kin_journal_record;

typedef enum kin_journal_kind {
    KIN_JOURNAL_FOREIGN = 0, /* no journal, or its head is damaged */
    KIN_JOURNAL_OTHER,       /* of another job */
    KIN_JOURNAL_SAME
} kin_journal_kind;

/* ---- Texts ---------------------------------------------------------------------------------- */

/* Whose journal these bytes are. OTHER: theirs and ours are the first lines that differ. */
kin_journal_kind kin_journal_judge(const kin_journal *journal, const char *text, uint64_t bytes,
                                   char theirs[KIN_JOURNAL_EXCERPT],
                                   char ours[KIN_JOURNAL_EXCERPT]);
/* The record at *offset, which is moved behind it. False where there is none that is whole and
 * right. */
bool kin_journal_next(const char *text, uint64_t bytes, uint64_t *offset,
                      kin_journal_record *record);
void kin_journal_print(char line[KIN_JOURNAL_LINE + 1], const kin_journal_record *record);

/* ---- Files ---------------------------------------------------------------------------------- */

/* For TARGET.journal of the job that these lines describe, each ended by '\n'. Nothing is written.
 */
kith_status kin_journal_init(kith_ctx *ctx, const char *target, const char *job,
                             kin_journal *journal);
/* Writes a journal without records in place of whatever there is, and opens it. */
kith_status kin_journal_create(kith_ctx *ctx, kin_journal *journal);
/* Opens the one that is there, which keeps this many bytes. */
kith_status kin_journal_continue(kith_ctx *ctx, kin_journal *journal, uint64_t bytes);
/* The record is on disk when this returns. */
kith_status kin_journal_append(kith_ctx *ctx, kin_journal *journal,
                               const kin_journal_record *record);
void kin_journal_remove(const kin_journal *journal);
void kin_journal_free(kith_ctx *ctx, kin_journal *journal);

#endif
