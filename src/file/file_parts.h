/* SPDX-License-Identifier: Apache-2.0
 * A result that is written in pieces (file_stream.h) to one file, or to parts (file_part.h).
 *
 * Every part is a stream of its own, with its own journal, and all are open from the beginning, so
 * that space for all is asked for then. None gets its name before all rows stand; then they get
 * them one after another, and the index comes last. Who dies between two of these leaves parts that
 * are whole, and an index, if there was one before, that says of them that they are not its own;
 * the job that goes on writes those again that had their names. */
#ifndef KIN_FILE_PARTS_H
#define KIN_FILE_PARTS_H

#include "file/file_stream.h"

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

#endif
