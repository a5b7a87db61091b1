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
#ifndef KIN_FILE_STREAM_H
#define KIN_FILE_STREAM_H

#include "file/file_open.h"

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

/* ---- Texts ----------------------------------------------------------------------------------- */

/* Whose journal these bytes are. OTHER: theirs and ours are the first lines that differ. */
kin_journal_kind kin_journal_judge(const kin_journal *journal, const char *text, uint64_t bytes,
                                   char theirs[KIN_JOURNAL_EXCERPT],
                                   char ours[KIN_JOURNAL_EXCERPT]);
/* The record at *offset, which is moved behind it. False where there is none that is whole and
 * right. */
bool kin_journal_next(const char *text, uint64_t bytes, uint64_t *offset,
                      kin_journal_record *record);
void kin_journal_print(char line[KIN_JOURNAL_LINE + 1], const kin_journal_record *record);

/* ---- Files ----------------------------------------------------------------------------------- */

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
/* Of a partial file that is open: the journal of an earlier run of the job, whose bytes are mapped
 * (kin_map_close; its records are to be looked at, and kin_journal_continue called), or where there
 * is none, *fresh, one without records. Another job's is refused; what an earlier one has left
 * stays where this fails. */
kith_status kin_journal_begin(kith_ctx *ctx, kin_journal *journal, kin_writer *partial,
                              bool restart, kin_map *map, bool *fresh);
void kin_journal_remove(const kin_journal *journal);
void kin_journal_free(kith_ctx *ctx, kin_journal *journal);
/* By the end of the hold (base_mem.h). */
struct kin_hold;
void kin_journal_hold(struct kin_hold *hold, kin_journal *journal);

/* ---- A result in pieces ---------------------------------------------------------------------- */

/* A result that is written in pieces while it is made, and goes on where it was left.
 *
 * Ids and distances have their places in the file from the start; what stands around them (headers,
 * checksums) is put by the same code that saves a whole result, when the last piece is there. So
 * the bytes are those of a result that is saved at once. Each piece is brought to disk before its
 * record in the journal is: a record never promises what is not there. Who goes on
 * reads what the records promise, and takes it up to the first that is not true. */

enum { KIN_STREAM_BUFFER = 1 << 20 };

/* Bytes of each row, one row after the other. */
typedef struct kin_stream_region {
    uint64_t offset;
    uint64_t row_bytes;
    kin_checksum sum; /* of the rows that stand */
    uint32_t crc;
} kin_stream_region;

struct kith_result_stream {
    kith_ctx *home;
    kith_format format;
    kith_result_meta meta;
    kin_part part; /* count 0: the whole */
    int64_t rows;
    int64_t k;
    kith_result_stream_state state; /* rows: that stand, or will when the next record does */
    uint64_t record_bytes; /* what is put between two records (kin_stream_hurry); 0: a piece */
    uint64_t unrecorded;
    kin_writer writer;
    kin_journal journal;
    kin_stream_region regions[KIN_WRITER_HOLES]; /* ids, distances */
    int region_count;
    unsigned char *buffer;
    bool broken; /* a piece has failed: the sums are none any more */
    bool finished;
};

/* Of checked parameters; meta.corpus_rows is known. part: NULL, or of which the file is one
 * (.kith alone). */
kith_status kin_stream_open(kith_ctx *ctx, const char *path,
                            const kith_result_stream_params *params, const kith_result_meta *meta,
                            const kin_part *part, kith_result_stream **out);
/* What opening it did not know. anew, or where that moves ids or distances within the file: nothing
 * of them stands any more. */
kith_status kin_stream_tell_recall(kith_ctx *ctx, kith_result_stream *stream,
                                   const kith_recall *recall, bool anew);
kith_status kin_stream_put(kith_ctx *ctx, kith_result_stream *stream,
                           const kith_neighbors *neighbors);
kith_status kin_stream_finish(kith_ctx *ctx, kith_result_stream *stream);
/* For pieces of kith's own, which need no check, and which are quickly made again: waiting for the
 * disk after each would take longer. */
static inline void kin_stream_hurry(kith_result_stream *stream, uint64_t record_bytes)
{
    stream->record_bytes = record_bytes;
}

/* ---- One file, or parts ---------------------------------------------------------------------- */

/* A result that is written in pieces to one file, or to parts (file_open.h).
 *
 * Every part is a stream of its own, with its own journal, and all are open from the beginning, so
 * that space for all is asked for then. None gets its name before all rows stand; then they get
 * them one after another, and the index comes last. Who dies between two of these leaves parts that
 * are whole, and an index, if there was one before, that says of them that they are not its own;
 * the job that goes on writes those again that had their names. */

typedef struct kin_parts {
    kith_ctx *home;
    kith_result_meta meta; /* of the whole */
    int64_t rows;
    int64_t k;
    int64_t part_rows; /* of each part but the last */
    int32_t count;     /* of streams */
    char *index;       /* the path of the index; NULL: one file, and none */
    kith_result_stream **streams;
} kin_parts;

/* params and meta: see kin_stream_open. parts: at most so many, 1 to KITH_PARTS_MAX, and an index
 * at path; 0: one file there. */
kith_status kin_parts_open(kith_ctx *ctx, const char *path, const kith_result_stream_params *params,
                           const kith_result_meta *meta, int32_t parts, kin_parts **out);
/* See kin_stream_tell_recall. */
kith_status kin_parts_tell_recall(kith_ctx *ctx, kin_parts *parts, const kith_recall *recall,
                                  bool anew);
void kin_parts_hurry(kin_parts *parts, uint64_t record_bytes);
/* Whether these rows stand. */
bool kin_parts_stand(const kin_parts *parts, int64_t first, int64_t rows);
/* Rows from `first` on; all before them were put, or stood. Those that stand are passed over. */
kith_status kin_parts_put(kith_ctx *ctx, kin_parts *parts, int64_t first,
                          const kith_neighbors *rows);
kith_status kin_parts_finish(kith_ctx *ctx, kin_parts *parts);
/* What is not finished stays, for who goes on. Accepts NULL. */
void kin_parts_close(kin_parts *parts);

/* ---- Pairs (file_pairs.c) -------------------------------------------------------------------- */

/* Pairs within a radius, written as they are found, 16 bytes a pair: a structured .npy of (i, j,
 * distance), or a .kith of the same and where each row's begin; both go on where they were left. Or
 * text "i,j,distance", whole or not at all. */

typedef struct kin_pairs_about {
    const char *job;   /* lines that say which job it is */
    int64_t rows;      /* of i */
    int64_t first_row; /* pairs begin with this i */
    kith_result_meta meta;
    bool one_set; /* each j comes after its i */
    bool restart;
} kin_pairs_about;

/* A chunk of its own arrays. */
typedef struct kin_pairs_room {
    int64_t count;
    uint32_t *i;
    uint32_t *j;
    double *distances;
} kin_pairs_room;

typedef struct kin_pairs_file {
    kin_pairs_about about; /* job: borrowed until it is open */
    kin_writer writer;
    kin_journal journal;
    kin_map before; /* the journal of an earlier run, until all of that is read */
    uint64_t at;    /* in it: the next record, */
    uint64_t kept;  /* and the end of those that are true */
    int64_t count;  /* pairs that were put or given again */
    int64_t next_row;
    int64_t stands;     /* pairs up to the end of the record that is being given again, */
    int64_t stands_row; /* the row behind them, */
    int64_t longest;    /* and the pairs of a row at most */
    kin_checksum sum;   /* of those pairs */
    uint64_t head_bytes;
    struct kin_pair_item *items;
    int64_t *offsets; /* of .kith: counts by row until the end */
    char separator;   /* of text; 0: none is */
    bool runs;        /* .kith */
    bool ours;        /* the partial file is this job's */
} kin_pairs_file;

/* .npy, .kith, .csv, .tsv; "-" is .csv. path stays as long as the file is open. */
kith_status kin_pairs_file_open(kith_ctx *ctx, const char *path, const kin_pairs_about *about,
                                kin_pairs_file *file);
/* Whether a job with this output goes on where it was left. */
bool kin_pairs_file_resumes(const char *path);
/* Before anything is put: the next chunk that stands, to be given back in any case; *more: there
 * was one. file->next_row says how far they come. */
kith_status kin_pairs_file_again(kin_pairs_file *file, kin_pairs_room *chunk, bool *more);
void kin_pairs_room_free(kith_ctx *ctx, kin_pairs_room *chunk);
/* Pairs of rows before next_row, behind those that were put; they stand when this returns. */
kith_status kin_pairs_file_put(kin_pairs_file *file, const kith_pairs *pairs,
                               const double *distances, int64_t next_row);
/* As kin_writer_close; what stands stays for who goes on. */
kith_status kin_pairs_file_close(kin_pairs_file *file, kith_status status);
/* A .kith of pairs, checked, in chunks. take NULL: *report has their number. */
kith_status kin_pairs_read(kith_ctx *ctx, const char *path, kith_pairs_fn take, void *take_arg,
                           kith_pairs_report *report);

#endif
