/* SPDX-License-Identifier: Apache-2.0
 * Pieces of a result: checked, summed up, put in their places and recorded; and space of a disk
 * that is reserved for them. */
#define _GNU_SOURCE
#include "file/file_stream.h"

#include "base/base_size.h"
#include "host/host_threads.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <zlib.h>

enum { IDS_AT_ONCE = 4096, BESIDE_BYTES = 1 << 22 };

/* ---- A file whose bytes have their places before they are written ---------------------------- */

/* The system takes what is written to one file from one thread at a time, which copies some 3 GB/s
 * where memory takes ten times that. Several threads can copy through a mapping. There a page that
 * cannot be had is a signal that ends the process, so that not they copy but the system does for
 * them: where a disk is full after all, or somebody has cut the file, its call fails, and all is
 * written once more, which tells why. This is done where space was reserved, on file systems that
 * are known to keep it. */

enum { BYTES_A_TASK = 1 << 20, LEAST_WIDE = 2 << 20 };
enum { ON_TMPFS = 0x01021994, ON_EXT = 0xEF53, ON_XFS = 0x58465342 };

static bool keeps_places(int file)
{
    struct statfs info;
    if (fstatfs(file, &info) != 0) {
        return false;
    }
    return info.f_type == ON_TMPFS || info.f_type == ON_EXT || info.f_type == ON_XFS;
}

kith_status kin_writer_reserve(kin_writer *w, uint64_t bytes)
{
    int error = 0;
    do {
        error = fallocate(w->file, 0, 0, (off_t)bytes) == 0 ? 0 : errno;
    } while (error == EINTR);
    if (error != ENOSPC && error != EDQUOT && error != EFBIG) {
        const bool reserved = error == 0 && keeps_places(w->file);
        error = kin_file_resize(w->file, bytes);
        w->reserved = reserved && error == 0;
    }
    KIN_PASS_IF(error == 0, w->ctx, KITH_E_IO, kin_at_file(w->temporary),
                "%" PRIu64 " bytes cannot be had: %s (free some space there or write elsewhere)",
                bytes, strerror(error));
}

typedef struct copying {
    unsigned char *to;
    const unsigned char *from;
    uint64_t bytes;
    atomic_bool failed;
} copying;

static kith_status copy_piece(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    copying *c = arg;
    const uint64_t first = (uint64_t)task * BYTES_A_TASK;
    const uint64_t bytes = c->bytes - first < BYTES_A_TASK ? c->bytes - first : BYTES_A_TASK;
    const struct iovec to = {c->to + first, (size_t)bytes};
    const struct iovec from = {(void *)(uintptr_t)(c->from + first), (size_t)bytes};
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)bytes) {
        atomic_store(&c->failed, true);
    }
    return KITH_OK;
}

kith_status kin_writer_patch_wide(kin_writer *w, uint64_t offset, const void *data, uint64_t bytes)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t start = offset / page * page;
    const size_t mapped = (size_t)(offset - start + bytes);
    if (!w->reserved || w->ctx->threads < 2 || bytes < LEAST_WIDE) {
        return kin_writer_patch(w, offset, data, bytes);
    }
    unsigned char *map =
        mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, w->file, (off_t)start);
    if (map == MAP_FAILED) {
        return kin_writer_patch(w, offset, data, bytes);
    }
    copying c = {map + (offset - start), data, bytes, false};
    const int64_t tasks = kin_ceil_div((int64_t)bytes, BYTES_A_TASK);
    const kith_status status = kin_parallel(w->ctx, NULL, tasks, copy_piece, &c);
    (void)munmap(map, mapped);
    return status == KITH_OK && atomic_load(&c.failed) ? kin_writer_patch(w, offset, data, bytes)
                                                       : status;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static uint64_t sum_of(const kin_stream_region *region)
{
    kin_checksum copy = region->sum;
    return kin_checksum_end(&copy);
}

/* Sums of a region: rows are added to them, in their order. */
static void add_rows(const kith_result_stream *s, kin_stream_region *region, const void *data,
                     uint64_t bytes)
{
    kin_checksum_add(&region->sum, data, bytes);
    if (s->format == KITH_FORMAT_NPZ) {
        region->crc = (uint32_t)crc32_z(region->crc, data, (size_t)bytes);
    }
}

/* ---- Places ---------------------------------------------------------------------------------- */

static kith_status place_bytes(kith_result_stream *s, kin_stream_region *region, uint64_t offset,
                               const void *data, uint64_t bytes)
{
    add_rows(s, region, data, bytes);
    return kin_writer_patch(&s->writer, region->offset + offset, data, bytes);
}

/* Sums of a piece, by a thread for each table while others bring its bytes to the file. */
typedef struct summing {
    kith_result_stream *stream;
    kin_stream_region *region;
    const void *table;
    uint64_t bytes;
    kin_beside beside;
} summing;

static kith_status sum_up(void *arg)
{
    const summing *sum = arg;
    add_rows(sum->stream, sum->region, sum->table, sum->bytes);
    return KITH_OK;
}

static void start_sum(kith_result_stream *s, int region, const void *table, int64_t rows,
                      summing *sum)
{
    *sum = (summing){.stream = s,
                     .region = &s->regions[region],
                     .table = table,
                     .bytes = (uint64_t)rows * s->regions[region].row_bytes};
    if (sum->bytes >= BESIDE_BYTES) {
        kin_beside_start(&sum->beside, NULL, sum_up, sum);
    } else {
        (void)sum_up(sum);
    }
}

static kith_status patch_table(kith_result_stream *s, const summing *sum)
{
    const uint64_t offset = sum->region->offset + (uint64_t)s->state.rows * sum->region->row_bytes;
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
    uint64_t at = (uint64_t)s->state.rows * region->row_bytes;
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
        (void)kin_beside_wait(&sums[i].beside, NULL);
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
    KIN_REFUSE_IF(s->broken || s->finished, ctx, "stream",
                  "%s (free it, and open it again to go on)",
                  s->finished ? "is finished" : "has failed");
    KIN_REFUSE_IF(neighbors->k != s->k || neighbors->rows < 1 ||
                      neighbors->rows > s->rows - s->state.rows,
                  ctx, "neighbors",
                  "has %" PRId64 " rows of %" PRId64 ", must have 1 to %" PRId64 " of %" PRId64,
                  neighbors->rows, neighbors->k, s->rows - s->state.rows, s->k);
    KIN_FAIL_IF(neighbors->ids == NULL || (s->region_count == 2 && neighbors->distances == NULL),
                ctx, KITH_E_ARGUMENT,
                kin_at_member("neighbors", neighbors->ids == NULL ? "ids" : "distances"),
                "is NULL, and the format has it");
    const int64_t count = s->record_bytes == 0 ? neighbors->rows * s->k : 0;
    for (int64_t i = first_wrong(s, neighbors, count); i < count; i++) {
        KIN_FAIL_IF(
            (int64_t)neighbors->ids[i] >= s->meta.corpus_rows && neighbors->ids[i] != KITH_ID_NONE,
            ctx, KITH_E_ARGUMENT,
            (kin_place){
                .argument = "neighbors", .member = "ids", .row = i / s->k, .column = i % s->k},
            "is %" PRIu32 ", must be below the %" PRId64 " rows of the corpus", neighbors->ids[i],
            s->meta.corpus_rows);
    }
    return KITH_OK;
}

/* Brings all to disk, and says so in the journal. */
static kith_status record(kith_ctx *ctx, kith_result_stream *s)
{
    KIN_TRY(kin_writer_sync(&s->writer));
    const kin_journal_record record = {
        .rows = s->state.rows,
        .sums = {sum_of(&s->regions[0]), s->region_count == 2 ? sum_of(&s->regions[1]) : 0}};
    s->unrecorded = 0;
    return kin_journal_append(ctx, &s->journal, &record);
}

static kith_status write_piece(kith_ctx *ctx, kith_result_stream *s,
                               const kith_neighbors *neighbors)
{
    KIN_TRY(place_rows(s, neighbors));
    s->state.rows += neighbors->rows;
    for (int i = 0; i < s->region_count; i++) {
        s->unrecorded += (uint64_t)neighbors->rows * s->regions[i].row_bytes;
    }
    const bool full = s->part.count > 0 && s->state.rows == s->rows;
    if (s->unrecorded < s->record_bytes && !full) {
        return KITH_OK;
    }
    const kith_status status = record(ctx, s);
    s->state.rows -= status == KITH_OK ? 0 : neighbors->rows;
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

/* ---- The file -------------------------------------------------------------------------------- */

/* ---- What stands around ids and distances ---------------------------------------------------- */

/* Zeros behind byte `end`, so that what follows them is aligned. */
static uint64_t space_behind(uint64_t end)
{
    const uint64_t start = kin_layout_align(end);
    return (KIN_PART_ALIGNMENT - start % KIN_PART_ALIGNMENT) % KIN_PART_ALIGNMENT;
}

/* sections[0] and [1] are ids and distances, with all that stands around them they are
 * KIN_PART_SECTIONS, which is returned. part is borrowed. */
static int32_t arrange_part(const kin_part *part, kin_section sections[KIN_PART_SECTIONS])
{
    const kin_section ids = sections[0];
    const kin_section distances = sections[1];
    const uint64_t begin = kin_layout_align(kin_layout_table_end(KIN_PART_SECTIONS));
    sections[0] = (kin_section){.tag = KIN_TAG_PART, .data = part, .bytes = sizeof *part};
    sections[1] = (kin_section){.tag = "before ids", .bytes = space_behind(begin + sizeof *part)};
    sections[2] = ids;
    sections[3] = (kin_section){.tag = "before distance", .bytes = space_behind(ids.bytes)};
    sections[4] = distances;
    return KIN_PART_SECTIONS;
}

static kith_status put_kith(kith_result_stream *s)
{
    const uint64_t bytes = (uint64_t)s->rows * (uint64_t)s->k * 4;
    const uint64_t sums[2] = {sum_of(&s->regions[0]), sum_of(&s->regions[1])};
    const kith_kind kind = s->meta.kind == KITH_KIND_GRAPH ? KITH_KIND_GRAPH : KITH_KIND_RESULT;
    const kin_container_header header = kin_result_header(kind, s->rows, s->k, &s->meta);
    kin_section sections[KIN_PART_SECTIONS] = {
        {.tag = KIN_TAG_IDS, .bytes = bytes, .placed = &sums[0]},
        {.tag = KIN_TAG_DISTANCES, .bytes = bytes, .placed = &sums[1]}};
    const int32_t count = s->part.count > 0 ? arrange_part(&s->part, sections) : 2;
    return kin_container_put(&s->writer, &header, sections, count);
}

static kith_status put_bin(kith_result_stream *s)
{
    const uint32_t header[2] = {(uint32_t)s->rows, (uint32_t)s->k};
    KIN_TRY(kin_writer_put(&s->writer, header, sizeof header));
    for (int i = 0; i < s->region_count; i++) {
        KIN_TRY(kin_writer_skip(&s->writer, (uint64_t)s->rows * s->regions[i].row_bytes));
    }
    return KITH_OK;
}

static kith_status put_frame(kith_result_stream *s)
{
    const uint32_t crcs[2] = {s->regions[0].crc, s->regions[1].crc};
    KIN_TRY(kin_writer_rewind(&s->writer));
    switch (s->format) {
    case KITH_FORMAT_KITH:
        return put_kith(s);
    case KITH_FORMAT_NPZ:
        return kin_npz_frame(&s->writer, s->rows, s->k, crcs, &s->meta);
    case KITH_FORMAT_IVECS:
        return kin_writer_skip(&s->writer, (uint64_t)s->rows * s->regions[0].row_bytes);
    default:
        return put_bin(s);
    }
}

static kith_status choose(kith_ctx *ctx, const char *path, kith_result_stream *s)
{
    const int64_t int32_rows = (int64_t)INT32_MAX + 1;
    KIN_TRY(kin_result_choose(ctx, path, &s->format));
    const bool wide = s->format == KITH_FORMAT_KITH || s->format == KITH_FORMAT_KNN;
    KIN_FAIL_IF(
        s->format == KITH_FORMAT_CSR || kin_result_is_text(s->format), ctx, KITH_E_ARGUMENT,
        kin_at_file(path),
        "%s is written at once, not in pieces (take the format npz, kith, knn, ibin or ivecs)",
        s->format == KITH_FORMAT_CSR ? "a sparse matrix" : "text");
    KIN_FAIL_IF(!wide && s->meta.corpus_rows > int32_rows, ctx, KITH_E_ARGUMENT, kin_at_file(path),
                "the corpus has %" PRId64 " rows, and the ids of this format are int32 when it is "
                "written in pieces (take kith or knn)",
                s->meta.corpus_rows);
    const uint64_t row = (uint64_t)s->k * 4;
    s->region_count = s->format == KITH_FORMAT_IVECS || s->format == KITH_FORMAT_IBIN ? 1 : 2;
    s->regions[0].row_bytes = row + (s->format == KITH_FORMAT_IVECS ? sizeof(int32_t) : 0);
    s->regions[1].row_bytes = row;
    for (int i = 0; i < 2; i++) {
        kin_checksum_begin(&s->regions[i].sum);
    }
    return KITH_OK;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static kith_status init_journal(kith_ctx *ctx, const char *job, kith_result_stream *s)
{
    char *text = NULL;
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_alloc_text(ctx, &text, "a journal",
                           "%s%sformat %d\nrows %" PRId64 "\nk %" PRId64 "\nkind %d\nmetric %s\n"
                           "exact %d\ncorpus rows %" PRId64 "\npoints %016" PRIx64 "\n",
                           job, job[0] != '\0' && job[strlen(job) - 1] != '\n' ? "\n" : "",
                           (int)s->format, s->rows, s->k, (int)s->meta.kind,
                           kith_metric_name(s->meta.metric), (int)s->meta.exact,
                           s->meta.corpus_rows, s->meta.points.checksum));
    kin_hold_block(&hold, text);
    return kin_journal_init(ctx, s->writer.target, text, &s->journal);
}

/* Rows [s->state.rows, last) of a region as they are in the file; fewer where it ends. */
static kith_status read_region(kith_ctx *ctx, kith_result_stream *s, kin_stream_region *region,
                               int64_t last)
{
    uint64_t at = region->offset + (uint64_t)s->state.rows * region->row_bytes;
    const uint64_t end = region->offset + (uint64_t)last * region->row_bytes;
    while (at < end) {
        const uint64_t piece = end - at < KIN_STREAM_BUFFER ? end - at : KIN_STREAM_BUFFER;
        uint64_t got = 0;
        const int error = kin_file_read_at(s->writer.file, s->buffer, piece, at, &got);
        KIN_FAIL_IF(error != 0, ctx, KITH_E_IO, kin_at_file(s->writer.temporary),
                    "cannot be read: %s", strerror(error));
        add_rows(s, region, s->buffer, got);
        if (got < piece) {
            return KITH_OK;
        }
        at += got;
    }
    return kin_progress(ctx, "verify", (double)last, (double)s->rows);
}

/* Takes what a record promises, if it is true. */
static kith_status take_record(kith_ctx *ctx, kith_result_stream *s,
                               const kin_journal_record *record, bool *right)
{
    kin_stream_region read[KIN_WRITER_HOLES];
    memcpy(read, s->regions, sizeof read);
    *right = record->rows > s->state.rows && record->rows <= s->rows;
    for (int i = 0; i < s->region_count && *right; i++) {
        KIN_TRY(read_region(ctx, s, &read[i], record->rows));
        *right = sum_of(&read[i]) == record->sums[i];
    }
    if (*right) {
        memcpy(s->regions, read, sizeof read);
        s->state.rows = record->rows;
    }
    return KITH_OK;
}

static kith_status take_records(kith_ctx *ctx, kith_result_stream *s, const kin_map *map)
{
    kin_journal_record record;
    uint64_t next = s->journal.head_bytes;
    uint64_t kept = next;
    bool right = true;
    while (right && kin_journal_next((const char *)map->data, map->bytes, &next, &record)) {
        KIN_TRY(take_record(ctx, s, &record, &right));
        kept = right ? next : kept;
    }
    return kin_journal_continue(ctx, &s->journal, kept);
}

static kith_status place(kith_result_stream *s)
{
    KIN_TRY(put_frame(s));
    for (int i = 0; i < s->region_count; i++) {
        s->regions[i].offset = s->writer.holes[i];
    }
    return kin_writer_reserve(&s->writer, kin_writer_offset(&s->writer));
}

static kith_status begin(kith_ctx *ctx, kith_result_stream *s, bool restart)
{
    kin_map map = {.data = NULL};
    bool fresh = false;
    kith_status status = kin_journal_begin(ctx, &s->journal, &s->writer, restart, &map, &fresh);
    KIN_THEN(status, place(s));
    if (status == KITH_OK && !fresh) {
        status = take_records(ctx, s, &map);
    }
    kin_map_close(&map);
    if (status != KITH_OK && fresh) {
        kin_journal_remove(&s->journal);
        kin_writer_drop(&s->writer);
    }
    return status;
}

kith_status kin_stream_open(kith_ctx *ctx, const char *path,
                            const kith_result_stream_params *params, const kith_result_meta *meta,
                            const kin_part *part, kith_result_stream **out)
{
    kith_result_stream *s = NULL;
    bool found = false;
    KIN_TRY(kin_alloc_zero(ctx, &s, 1, sizeof *s, "a stream"));
    s->home = ctx;
    s->format = params->format;
    s->meta = *meta;
    s->rows = params->rows;
    s->k = params->k;
    s->part = part != NULL ? *part : (kin_part){.count = 0};
    s->journal.file = -1;
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, choose(ctx, path, s), fail);
    KIN_TRY_GOTO(status, kin_writer_open_as(ctx, path, part == NULL, &s->writer, &found), fail);
    KIN_TRY_GOTO(status, init_journal(ctx, params->job != NULL ? params->job : "", s), close);
    KIN_TRY_GOTO(status, kin_alloc(ctx, &s->buffer, KIN_STREAM_BUFFER, 1, "a read buffer"), close);
    KIN_TRY_GOTO(status, begin(ctx, s, params->restart != 0), close);
    s->writer.path = s->writer.target; /* the caller's may be gone when it is needed */
    s->state.path = s->writer.temporary;
    if (part != NULL) { /* there are many */
        kin_free(ctx, s->buffer);
        s->buffer = NULL;
        kin_writer_rest(&s->writer);
    }
    *out = s;
    return KITH_OK;
close:
    if (!found) {
        kin_writer_drop(&s->writer);
    }
    (void)kin_writer_close(&s->writer, status);
fail:
    kin_journal_free(ctx, &s->journal);
    kin_free(ctx, s->buffer);
    kin_free(ctx, s);
    return status;
}

kith_status kin_stream_tell_recall(kith_ctx *ctx, kith_result_stream *s, const kith_recall *recall,
                                   bool anew)
{
    bool moved = anew && s->state.rows > 0;
    if (recall->rows > 0) {
        s->meta.recall = recall->recall;
        s->meta.recall_at = recall->at;
        KIN_TRY(put_frame(s));
        for (int i = 0; i < s->region_count; i++) {
            moved = moved || s->regions[i].offset != s->writer.holes[i];
        }
    }
    if (!moved) {
        return KITH_OK;
    }
    s->state.rows = 0;
    s->unrecorded = 0;
    for (int i = 0; i < s->region_count; i++) {
        kin_checksum_begin(&s->regions[i].sum);
        s->regions[i].crc = 0;
    }
    const int error = kin_file_resize(s->journal.file, s->journal.head_bytes);
    KIN_FAIL_IF(error != 0, ctx, KITH_E_IO, kin_at_file(s->journal.path), "cannot be written: %s",
                strerror(error));
    return place(s);
}

/* ---- The end --------------------------------------------------------------------------------- */

kith_status kin_stream_finish(kith_ctx *ctx, kith_result_stream *s)
{
    if (s->broken || s->finished || s->state.rows != s->rows) {
        return kin_fail(ctx, KITH_E_ARGUMENT,
                        "the stream has %" PRId64 " of %" PRId64 " rows%s (put the others)",
                        s->state.rows, s->rows,
                        s->finished ? ", and is finished"
                        : s->broken ? ", and has failed"
                                    : "");
    }
    s->finished = true; /* one way or the other: the writer is gone */
    s->state.path = NULL;
    KIN_TRY(kin_writer_close(&s->writer, put_frame(s)));
    kin_journal_remove(&s->journal);
    return KITH_OK;
}

void kith_result_stream_free(kith_result_stream *s)
{
    if (s == NULL) {
        return;
    }
    kith_ctx *home = s->home;
    if (!s->finished) {
        if (s->unrecorded > 0 && !s->broken) {
            (void)record(home, s); /* who goes on has it, or else less of it */
        }
        if (s->state.rows == 0) {
            kin_writer_drop(&s->writer);
            kin_journal_remove(&s->journal);
        }
        (void)kin_writer_close(&s->writer, KITH_E_CANCELLED);
    }
    kin_journal_free(home, &s->journal);
    kin_free(home, s->buffer);
    kin_free(home, s);
}
