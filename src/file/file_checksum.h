/* SPDX-License-Identifier: Apache-2.0
 * The checksum of .kith sections: 64 bits, four lanes, as fast as memory.
 *
 * Bytes are taken in blocks of 32 (the last filled up with zeros), a block as four little-endian
 * words w[0..3]; lane j becomes rotate_left(lane[j] ^ w[j], 29) * MULTIPLIER. Each step is a
 * bijection of lane and of word, and so is the final fold of each lane: damage that lies within one
 * lane's words in a single place is always found, other damage with probability 1 - 2^-64. It is no
 * defence against someone who wants to deceive. */
#ifndef KIN_FILE_CHECKSUM_H
#define KIN_FILE_CHECKSUM_H

#include "base/base_ctx.h"

#include <stdint.h>

enum { KIN_CHECKSUM_BLOCK = 32 };

typedef struct kin_checksum {
    uint64_t lanes[4];
    uint64_t bytes;
    unsigned char tail[KIN_CHECKSUM_BLOCK]; /* bytes % 32 of them wait for their block */
} kin_checksum;

void kin_checksum_begin(kin_checksum *sum);
void kin_checksum_add(kin_checksum *sum, const void *data, uint64_t bytes);
uint64_t kin_checksum_end(kin_checksum *sum);
/* All three at once. */
uint64_t kin_checksum_of(const void *data, uint64_t bytes);

/* ---- Of points ------------------------------------------------------------------------------- */

/* Which points a result is of: shape, type and a checksum of the values; short because a contract
 * and its text are all there is.
 *
 * Rows are taken without the gaps between them, in pieces of at most KIN_FINGERPRINT_PIECE bytes
 * (at least a row): as many whole rows as fit. checksum is the .kith checksum of these 64-bit
 * numbers: rows, cols, dtype, and that of each piece. So threads may take pieces, and neither they
 * nor a stride change it. */

enum { KIN_FINGERPRINT_PIECE = 1 << 20, KIN_FINGERPRINT_TEXT = 80 };

/* Of a checked matrix in host memory. */
kith_status kin_fingerprint_make(kith_ctx *ctx, const kith_matrix *points, kith_fingerprint *out);

/* The same of rows that come one after another, in any portions, and as far as it came on disk. */
typedef struct kin_fingerprint_sum {
    kin_checksum sums; /* of the numbers above, as far as they are known */
    kin_checksum piece;
    int64_t piece_rows;
    int64_t left; /* rows until the piece, and all rows, end */
    int64_t rows_left;
} kin_fingerprint_sum;

/* points: the shape of all rows. */
void kin_fingerprint_begin(kin_fingerprint_sum *sum, const kith_matrix *points);
/* The next rows, by all threads; nothing may follow a failure. */
kith_status kin_fingerprint_add(kith_ctx *ctx, kin_fingerprint_sum *sum, const kith_matrix *rows);
/* After the last row: the checksum. */
uint64_t kin_fingerprint_end(const kin_fingerprint_sum *sum);

static inline bool kin_fingerprint_equal(const kith_fingerprint *a, const kith_fingerprint *b)
{
    return a->rows == b->rows && a->cols == b->cols && a->dtype == b->dtype &&
           a->checksum == b->checksum;
}

/* "60000 x 784 float32, 5f3a0c1d92b4e677" */
const char *kin_fingerprint_print(const kith_fingerprint *points, char text[KIN_FINGERPRINT_TEXT]);
/* As JSON has its parts: 16 digits, false where there are others; and a type by its name, or none.
 */
bool kin_checksum_parse(const char *word, uint64_t *checksum);
kith_dtype kin_dtype_parse(const char *word);

/* What is known of a table against what it is given with: KITH_E_ARGUMENT where its metric is
 * another, or its points are. points NULL: they are not looked at. Accepts a table of which nothing
 * is known. name stands in messages. */
kith_status kin_fingerprint_check(kith_ctx *ctx, const kith_neighbors *table, const char *name,
                                  const kith_matrix *points, kith_metric metric);

/* What may be said of a table: one of no rows has nothing wrong. */
kith_exactness kin_exactness_of(const kith_neighbors *table);

#endif
