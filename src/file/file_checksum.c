/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file_checksum.h"

#include "base/base_size.h"
#include "host/host_threads.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 4, BLOCK = KIN_CHECKSUM_BLOCK };
static const uint64_t MULTIPLIER = 0x9e3779b97f4a7c15u; /* odd: 2^64 over the golden ratio */

static uint64_t rotate_left(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static uint64_t turn(uint64_t lane, const unsigned char *from)
{
    uint64_t word;
    memcpy(&word, from, sizeof word);
    return rotate_left(lane ^ word, 29) * MULTIPLIER;
}

/* Whole blocks only. Four variables and no loop over lanes: gcc 12 at -O2 keeps an array of lanes
 * in memory, which takes twice as long. */
static void add_blocks(uint64_t lanes[LANES], const unsigned char *data, uint64_t blocks)
{
    uint64_t a = lanes[0];
    uint64_t b = lanes[1];
    uint64_t c = lanes[2];
    uint64_t d = lanes[3];
    for (const unsigned char *end = data + blocks * BLOCK; data < end; data += BLOCK) {
        a = turn(a, data);
        b = turn(b, data + 8);
        c = turn(c, data + 16);
        d = turn(d, data + 24);
    }
    memcpy(lanes, (const uint64_t[LANES]){a, b, c, d}, LANES * sizeof *lanes);
}

void kin_checksum_begin(kin_checksum *sum)
{
    memset(sum, 0, sizeof *sum);
    for (int j = 0; j < LANES; j++) {
        sum->lanes[j] = MULTIPLIER * (uint64_t)(j + 1);
    }
}

void kin_checksum_add(kin_checksum *sum, const void *data, uint64_t bytes)
{
    const unsigned char *from = data;
    const uint64_t waiting = sum->bytes % BLOCK;
    sum->bytes += bytes;
    if (waiting > 0) {
        const uint64_t room = BLOCK - waiting;
        const uint64_t piece = bytes < room ? bytes : room;
        memcpy(sum->tail + waiting, from, (size_t)piece);
        from += piece;
        bytes -= piece;
        if (piece < room) {
            return;
        }
        add_blocks(sum->lanes, sum->tail, 1);
    }
    add_blocks(sum->lanes, from, bytes / BLOCK);
    if (bytes % BLOCK > 0) {
        memcpy(sum->tail, from + bytes / BLOCK * BLOCK, (size_t)(bytes % BLOCK));
    }
}

uint64_t kin_checksum_end(kin_checksum *sum)
{
    const uint64_t waiting = sum->bytes % BLOCK;
    if (waiting > 0) {
        memset(sum->tail + waiting, 0, (size_t)(BLOCK - waiting));
        add_blocks(sum->lanes, sum->tail, 1);
    }
    uint64_t fold = sum->bytes;
    for (int j = 0; j < LANES; j++) {
        fold = rotate_left(fold ^ sum->lanes[j], 29) * MULTIPLIER;
    }
    fold ^= fold >> 32;
    fold *= MULTIPLIER;
    return fold ^ fold >> 29;
}

uint64_t kin_checksum_of(const void *data, uint64_t bytes)
{
    kin_checksum sum;
    kin_checksum_begin(&sum);
    kin_checksum_add(&sum, data, bytes);
    return kin_checksum_end(&sum);
}

/* ---- Of points ------------------------------------------------------------------------------- */

enum { HEAD = 3, PACKED_BYTES = 4096 };

typedef struct reading {
    const unsigned char *data;
    int64_t rows;
    int64_t row_bytes;
    int64_t stride;
    int64_t piece_rows;
    uint64_t *sums; /* one a whole piece */
} reading;

/* Short rows are put side by side first: the checksum takes few long runs faster than many short
 * ones. */
static void add_strided(const reading *r, int64_t first, int64_t last, kin_checksum *sum)
{
    unsigned char packed[PACKED_BYTES];
    size_t used = 0;
    for (int64_t row = first; row < last; row++) {
        const unsigned char *from = r->data + row * r->stride;
        if (r->row_bytes > PACKED_BYTES) {
            kin_checksum_add(sum, from, (uint64_t)r->row_bytes);
            continue;
        }
        if (used + (size_t)r->row_bytes > sizeof packed) {
            kin_checksum_add(sum, packed, used);
            used = 0;
        }
        memcpy(packed + used, from, (size_t)r->row_bytes);
        used += (size_t)r->row_bytes;
    }
    kin_checksum_add(sum, packed, used);
}

static void add_rows(const reading *r, int64_t first, int64_t last, kin_checksum *sum)
{
    if (r->stride == r->row_bytes) {
        kin_checksum_add(sum, r->data + first * r->stride,
                         (uint64_t)(last - first) * (uint64_t)r->row_bytes);
    } else {
        add_strided(r, first, last, sum);
    }
}

static kith_status add_piece(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const reading *r = arg;
    const int64_t first = task * r->piece_rows;
    kin_checksum sum;
    kin_checksum_begin(&sum);
    add_rows(r, first, first + r->piece_rows, &sum);
    r->sums[task] = kin_checksum_end(&sum);
    return KITH_OK;
}

static reading reading_of(const kith_matrix *points)
{
    const int64_t row_bytes = (int64_t)points->cols * kith_dtype_bytes(points->dtype);
    const int64_t fit = KIN_FINGERPRINT_PIECE / row_bytes;
    return (reading){.data = points->data,
                     .rows = points->rows,
                     .row_bytes = row_bytes,
                     .stride = points->stride_bytes != 0 ? points->stride_bytes : row_bytes,
                     .piece_rows = fit > 0 ? fit : 1};
}

void kin_fingerprint_begin(kin_fingerprint_sum *sum, const kith_matrix *points)
{
    const reading r = reading_of(points);
    const uint64_t head[HEAD] = {(uint64_t)points->rows, (uint64_t)points->cols,
                                 (uint64_t)points->dtype};
    *sum = (kin_fingerprint_sum){
        .piece_rows = r.piece_rows, .left = r.piece_rows, .rows_left = points->rows};
    kin_checksum_begin(&sum->sums);
    kin_checksum_begin(&sum->piece);
    kin_checksum_add(&sum->sums, head, sizeof head);
}

/* Rows of one piece, which may end with them. */
static void add_some(kin_fingerprint_sum *sum, const reading *r, int64_t first, int64_t last)
{
    add_rows(r, first, last, &sum->piece);
    sum->left -= last - first;
    sum->rows_left -= last - first;
    if (first < last && (sum->left == 0 || sum->rows_left == 0)) {
        const uint64_t piece = kin_checksum_end(&sum->piece);
        kin_checksum_add(&sum->sums, &piece, sizeof piece);
        kin_checksum_begin(&sum->piece);
        sum->left = sum->piece_rows;
    }
}

/* Where a piece begins: whole ones, each by a thread. */
static kith_status add_whole(kith_ctx *ctx, kin_fingerprint_sum *sum, reading *r, int64_t pieces)
{
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, r->sums, (uint64_t)pieces, "checksums");
    const kith_status status = kin_parallel(ctx, "checksum", pieces, add_piece, r);
    kin_checksum_add(&sum->sums, r->sums, (uint64_t)pieces * sizeof *r->sums);
    sum->rows_left -= pieces * r->piece_rows;
    return status;
}

kith_status kin_fingerprint_add(kith_ctx *ctx, kin_fingerprint_sum *sum, const kith_matrix *rows)
{
    reading r = reading_of(rows);
    const int64_t open = sum->left < sum->piece_rows ? kin_min_i64(sum->left, r.rows) : 0;
    const int64_t pieces = (r.rows - open) / r.piece_rows;
    add_some(sum, &r, 0, open);
    r.data += open * r.stride;
    r.rows -= open;
    KIN_TRY(pieces > 0 ? add_whole(ctx, sum, &r, pieces) : KITH_OK);
    add_some(sum, &r, pieces * r.piece_rows, r.rows);
    return KITH_OK;
}

uint64_t kin_fingerprint_end(const kin_fingerprint_sum *sum)
{
    kin_checksum all = sum->sums;
    return kin_checksum_end(&all);
}

kith_status kin_fingerprint_make(kith_ctx *ctx, const kith_matrix *points, kith_fingerprint *out)
{
    kin_fingerprint_sum sum;
    memset(out, 0, sizeof *out);
    kin_fingerprint_begin(&sum, points);
    KIN_TRY(kin_fingerprint_add(ctx, &sum, points));
    *out = (kith_fingerprint){.rows = points->rows,
                              .cols = points->cols,
                              .dtype = points->dtype,
                              .checksum = kin_fingerprint_end(&sum)};
    return KITH_OK;
}

const char *kin_fingerprint_print(const kith_fingerprint *points, char text[KIN_FINGERPRINT_TEXT])
{
    (void)snprintf(text, KIN_FINGERPRINT_TEXT, "%" PRId64 " x %" PRId32 " %s, %016" PRIx64,
                   points->rows, points->cols, kith_dtype_name(points->dtype), points->checksum);
    return text;
}

kith_status kin_fingerprint_check(kith_ctx *ctx, const kith_neighbors *table, const char *name,
                                  const kith_matrix *points, kith_metric metric)
{
    const kith_result_meta *meta = table != NULL ? table->meta : NULL;
    char texts[2][KIN_FINGERPRINT_TEXT];
    kith_fingerprint given;
    if (meta == NULL) {
        return KITH_OK;
    }
    KIN_FAIL_IF(meta->struct_size != sizeof *meta, ctx, KITH_E_ARGUMENT,
                kin_at_member(name, "meta.struct_size"),
                "is %" PRIu32 ", must be %zu (make it with kith_result_meta_default())",
                meta->struct_size, sizeof *meta);
    KIN_REFUSE_IF(meta->metric != KITH_METRIC_DEFAULT && meta->metric != metric, ctx, name,
                  "is of the metric %s, asked for is %s (give the metric that it was made with)",
                  kith_metric_name(meta->metric), kith_metric_name(metric));
    if (meta->points.rows == 0 || points == NULL) {
        return KITH_OK;
    }
    KIN_TRY(kin_fingerprint_make(ctx, points, &given));
    KIN_ALLOW_IF(
        kin_fingerprint_equal(&meta->points, &given), ctx, name,
        "was made of points %s, given are %s (give the points that it was made of, in their type)",
        kin_fingerprint_print(&meta->points, texts[0]), kin_fingerprint_print(&given, texts[1]));
}

kith_exactness kin_exactness_of(const kith_neighbors *table)
{
    if (table == NULL || table->rows == 0) {
        return KITH_CERTIFIED;
    }
    return table->meta != NULL ? table->meta->exact : KITH_EXACTNESS_UNKNOWN;
}

bool kin_checksum_parse(const char *word, uint64_t *checksum)
{
    char *end = NULL;
    *checksum = strtoull(word, &end, 16);
    return strspn(word, "0123456789abcdef") == 16 && word[16] == '\0';
}

kith_dtype kin_dtype_parse(const char *word)
{
    for (int i = KITH_F32; i <= KITH_DTYPE_LAST; i++) {
        if (strcmp(word, kith_dtype_name((kith_dtype)i)) == 0) {
            return (kith_dtype)i;
        }
    }
    return KITH_DTYPE_NONE;
}
