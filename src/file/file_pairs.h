/* SPDX-License-Identifier: Apache-2.0
 * Pairs within a radius, written as they are found, 16 bytes a pair: a structured .npy of (i, j,
 * distance), or a .kith of the same and where each row's begin; both go on where they were left. Or
 * text "i,j,distance", whole or not at all. */
#ifndef KIN_FILE_PAIRS_H
#define KIN_FILE_PAIRS_H

#include "file/file_stream.h"

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
