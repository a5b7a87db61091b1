/* SPDX-License-Identifier: Apache-2.0
 * Pieces of a result: checked, summed up, put in their places and recorded. */
#include "base/base_size.h"
#include "base/base_try.h"
#include "file/file_stream.h"
#include "host/host_threads.h"

#include <inttypes.h>
#include <zlib.h>

enum { IDS_AT_ONCE = 4096, BESIDE_BYTES = 1 << 22 };

/* ---- Sums ----------------------------------------------------------------------------------- */

uint64_t kin_stream_sum(const kin_stream_region *region)
{
    kin_checksum copy = region->sum;
    return kin_checksum_end(&copy);
}

void kin_stream_add(const kith_result_stream *s, kin_stream_region *region, const void *data,
                    uint64_t bytes)
{
    kin_checksum_add(&region->sum, data, bytes);
    if (s->format == KITH_FORMAT_NPZ) {
        region->crc = (uint32_t)crc32_z(region->crc, data, (size_t)bytes);
    }
}

/* ---- Places --------------------------------------------------------------------------------- */

static kith_status place_bytes(kith_result_stream *s, kin_stream_region *region, uint64_t offset,
                               const void *data, uint64_t bytes)
{
    kin_stream_add(s, region, data, bytes);
    return kin_writer_patch(&s->writer, region->offset + offset, data, bytes);
}

/* Sums of a piece, by a thread for each table while others bring its bytes to the file. */
typedef struct summing {
    kith_result_stream *stream;
    kin_stream_region *region;
    const void *table;
    uint64_t bytes;
    pthread_t thread;
    bool beside;
} summing;

static void *sum_beside(void *arg)
{
    const summing *sum = arg;
    kin_stream_add(sum->stream, sum->region, sum->table, sum->bytes);
    return NULL;
}

static void start_sum(kith_result_stream *s, int region, const void *table, int64_t rows,
                      summing *sum)
{
    *sum = (summing){.stream = s,
                     .region = &s->regions[region],
                     .table = table,
                     .bytes = (uint64_t)rows * s->regions[region].row_bytes};
    sum->beside =
        sum->bytes >= BESIDE_BYTES && kin_thread_start(&sum->thread, sum_beside, sum) == 0;
}

static void end_sum(summing *sum)
{
    if (sum->beside) {
        (void)pthread_join(sum->thread, NULL);
    } else {
        (void)sum_beside(sum);
    }
}

static kith_status patch_table(kith_result_stream *s, const summing *sum)
{
    const uint64_t offset = sum->region->offset + (uint64_t)s->done * sum->region->row_bytes;
    if (s->record_bytes == 0) {
        return kin_writer_patch(&s->writer, offset, sum->table, sum->bytes);
    }
    KIN_TRY(kin_writer_patch_wide(&s->writer, offset, sum->table, sum->bytes));
    kin_writer_urge(&s->writer, offset, sum->bytes);
    return KITH_OK;
}

/* As many rows at a time as the buffer takes; one that is longer goes alone, in two pieces. */
static kith_status place_ivecs(kith_result_stream *s, const kith_neighbors *neighbors)
{
    kin_stream_region *region = &s->regions[0];
    const int32_t k = (int32_t)s->k;
    const uint64_t id_bytes = (uint64_t)s->k * sizeof neighbors->ids[0];
    uint64_t at = (uint64_t)s->done * region->row_bytes;
    uint64_t used = 0;
    for (int64_t row = 0; row < neighbors->rows; row++) {
        const uint32_t *ids = neighbors->ids + row * s->k;
        if (region->row_bytes > KIN_STREAM_BUFFER) {
            KIN_TRY(place_bytes(s, region, at, &k, sizeof k));
            KIN_TRY(place_bytes(s, region, at + sizeof k, ids, id_bytes));
            at += region->row_bytes;
            continue;
        }
        memcpy(s->buffer + used, &k, sizeof k);
        memcpy(s->buffer + used + sizeof k, ids, (size_t)id_bytes);
        used += region->row_bytes;
        if (used + region->row_bytes > KIN_STREAM_BUFFER || row + 1 == neighbors->rows) {
            KIN_TRY(place_bytes(s, region, at, s->buffer, used));
            at += used;
            used = 0;
        }
    }
    return KITH_OK;
}

static kith_status place_rows(kith_result_stream *s, const kith_neighbors *neighbors)
{
    const void *const tables[KIN_WRITER_HOLES] = {neighbors->ids, neighbors->distances};
    summing sums[KIN_WRITER_HOLES] = {{.stream = s}};
    kith_status status = KITH_OK;
    if (s->format == KITH_FORMAT_IVECS) {
        return place_ivecs(s, neighbors);
    }
    const int count = s->region_count < KIN_WRITER_HOLES ? s->region_count : KIN_WRITER_HOLES;
    for (int i = 0; i < count; i++) {
        start_sum(s, i, tables[i], neighbors->rows, &sums[i]);
    }
    for (int i = 0; i < count && status == KITH_OK; i++) {
        status = patch_table(s, &sums[i]);
    }
    for (int i = 0; i < count; i++) {
        end_sum(&sums[i]);
    }
    return status;
}

/* A run of ids where one is wrong, or the end: a loop without a way out takes several at a time. */
static int64_t first_wrong(const kith_result_stream *s, const kith_neighbors *neighbors,
                           int64_t count)
{
    const uint32_t rows = (uint32_t)kin_min_i64(s->meta.corpus_rows, KITH_ID_NONE);
    for (int64_t first = 0; first < count; first += IDS_AT_ONCE) {
        const int64_t last = kin_min_i64(first + IDS_AT_ONCE, count);
        uint32_t wrong = 0;
        for (int64_t i = first; i < last; i++) {
            wrong |= (uint32_t)(neighbors->ids[i] >= rows) &
                     (uint32_t)(neighbors->ids[i] != KITH_ID_NONE);
        }
        if (wrong != 0) {
            return first;
        }
    }
    return count;
}

static kith_status check_piece(kith_ctx *ctx, const kith_result_stream *s,
                               const kith_neighbors *neighbors)
{
    if (s->broken || s->finished) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("stream"),
                           "%s (free it, and open it again to go on)",
                           s->finished ? "is finished" : "has failed");
    }
    if (neighbors->k != s->k || neighbors->rows < 1 || neighbors->rows > s->rows - s->done) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("neighbors"),
                           "has %" PRId64 " rows of %" PRId64 ", must have 1 to %" PRId64
                           " of %" PRId64,
                           neighbors->rows, neighbors->k, s->rows - s->done, s->k);
    }
    if (neighbors->ids == NULL || (s->region_count == 2 && neighbors->distances == NULL)) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT,
                           kin_at_member("neighbors", neighbors->ids == NULL ? "ids" : "distances"),
                           "is NULL, and the format has it");
    }
    const int64_t count = s->record_bytes == 0 ? neighbors->rows * s->k : 0;
    for (int64_t i = first_wrong(s, neighbors, count); i < count; i++) {
        if ((int64_t)neighbors->ids[i] >= s->meta.corpus_rows &&
            neighbors->ids[i] != KITH_ID_NONE) {
            return kin_fail_at(
                ctx, KITH_E_ARGUMENT,
                (kin_place){
                    .argument = "neighbors", .member = "ids", .row = i / s->k, .column = i % s->k},
                "is %" PRIu32 ", must be below the %" PRId64 " rows of the corpus",
                neighbors->ids[i], s->meta.corpus_rows);
        }
    }
    return KITH_OK;
}

kith_status kin_stream_record(kith_ctx *ctx, kith_result_stream *s)
{
    KIN_TRY(kin_writer_sync(&s->writer));
    const kin_journal_record record = {
        .rows = s->done,
        .sums = {kin_stream_sum(&s->regions[0]),
                 s->region_count == 2 ? kin_stream_sum(&s->regions[1]) : 0}};
    s->unrecorded = 0;
    return kin_journal_append(ctx, &s->journal, &record);
}

static kith_status write_piece(kith_ctx *ctx, kith_result_stream *s,
                               const kith_neighbors *neighbors)
{
    KIN_TRY(place_rows(s, neighbors));
    s->done += neighbors->rows;
    for (int i = 0; i < s->region_count; i++) {
        s->unrecorded += (uint64_t)neighbors->rows * s->regions[i].row_bytes;
    }
    const bool full = s->part.count > 0 && s->done == s->rows;
    if (s->unrecorded < s->record_bytes && !full) {
        return KITH_OK;
    }
    const kith_status status = kin_stream_record(ctx, s);
    s->done -= status == KITH_OK ? 0 : neighbors->rows;
    return status;
}

kith_status kin_stream_put(kith_ctx *ctx, kith_result_stream *s, const kith_neighbors *neighbors)
{
    KIN_TRY(check_piece(ctx, s, neighbors));
    s->writer.ctx = ctx; /* who is told what went wrong */
    const kith_status status = write_piece(ctx, s, neighbors);
    s->writer.ctx = s->home;
    s->broken = status != KITH_OK;
    return status;
}
