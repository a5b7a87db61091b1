/* SPDX-License-Identifier: Apache-2.0
 * Which points a result is of: shape, type and a checksum of the values; short because a contract
 * and its text are all there is.
 *
 * Rows are taken without the gaps between them, in pieces of at most KIN_FINGERPRINT_PIECE bytes
 * (at least a row): as many whole rows as fit. checksum is the .kith checksum of these 64-bit
 * numbers: rows, cols, dtype, and that of each piece. So threads may take pieces, and neither they
 * nor a stride change it. */
#ifndef KIN_FILE_FINGERPRINT_H
#define KIN_FILE_FINGERPRINT_H

#include "base/base_ctx.h"

enum { KIN_FINGERPRINT_PIECE = 1 << 20, KIN_FINGERPRINT_TEXT = 80 };

/* Of a checked matrix in host memory. */
kith_status kin_fingerprint_make(kith_ctx *ctx, const kith_matrix *points, kith_fingerprint *out);

static inline bool kin_fingerprint_equal(const kith_fingerprint *a, const kith_fingerprint *b)
{
    return a->rows == b->rows && a->cols == b->cols && a->dtype == b->dtype &&
           a->checksum == b->checksum;
}

/* "60000 x 784 float32, 5f3a0c1d92b4e677" */
const char *kin_fingerprint_print(const kith_fingerprint *points, char text[KIN_FINGERPRINT_TEXT]);

/* What is known of a table against what it is given with: KITH_E_ARGUMENT where its metric is
 * another, or its points are. points NULL: they are not looked at. Accepts a table of which nothing
 * is known. name stands in messages. */
kith_status kin_fingerprint_check(kith_ctx *ctx, const kith_neighbors *table, const char *name,
                                  const kith_matrix *points, kith_metric metric);

/* What may be said of an answer that is made of two tables: certified where both are, approximate
 * where one is. A table of no rows has nothing wrong. */
kith_exactness kin_exactness_of(const kith_neighbors *table);
kith_exactness kin_exactness_join(kith_exactness a, kith_exactness b);

#endif
