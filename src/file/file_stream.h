/* SPDX-License-Identifier: Apache-2.0
 * A result that is written in pieces while it is made, and goes on where it was left.
 *
 * Ids and distances have their places in the file from the start; what stands around them (headers,
 * checksums) is put by the same code that saves a whole result, when the last piece is there. So
 * the bytes are those of a result that is saved at once. Each piece is brought to disk before its
 * record in the journal (file_journal.h) is: a record never promises what is not there. Who goes on
 * reads what the records promise, and takes it up to the first that is not true. */
#ifndef KIN_FILE_STREAM_H
#define KIN_FILE_STREAM_H

#include "file/file_atomic.h"
#include "file/file_checksum.h"
#include "file/file_journal.h"
#include "file/file_part.h"

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
    int64_t done;          /* rows that stand, or will when the next record does */
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
void kin_stream_close(kith_result_stream *stream);
/* Brings all to disk, and says so in the journal. */
kith_status kin_stream_record(kith_ctx *ctx, kith_result_stream *stream);
/* Sums of a region: rows are added to them, in their order. */
void kin_stream_add(const kith_result_stream *stream, kin_stream_region *region, const void *data,
                    uint64_t bytes);
uint64_t kin_stream_sum(const kin_stream_region *region);
/* For pieces of kith's own, which need no check, and which are quickly made again: waiting for the
 * disk after each would take longer. */
static inline void kin_stream_hurry(kith_result_stream *stream, uint64_t record_bytes)
{
    stream->record_bytes = record_bytes;
}

#endif
