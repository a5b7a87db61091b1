/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairs are written as they are found, in their order, so that a file that is cut anywhere is the
 * beginning of the whole one. How many there are is known at the end: .npy gets a header of a
 * number with all the digits that there can be, which is as long as the one that takes its place;
 * .kith has its pairs where they would be behind header and table, and these come at the end.
 *
 * Both go on where they were left, by the journal of results in pieces (file_stream.h): a record
 * has the row that is next, in the place of a checksum of ids how many pairs stand, and the
 * checksum of their bytes. */
#include "file/file_stream.h"

#include "base/base_size.h"
#include "file/file_numpy.h"
#include "host/host_threads.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

enum { ITEMS_AT_ONCE = 1 << 15, SECTIONS = 2, CHUNK_ITEMS = 1 << 16 };
static const char descr[] = "[('i','<u4'),('j','<u4'),('distance','<f8')]";
static const char TAG_PAIRS[] = "pairs";

typedef struct kin_pair_item {
    uint32_t i;
    uint32_t j;
    double distance;
} item;
_Static_assert(sizeof(item) == 16, "what descr says");

static bool ends(const char *path, const char *with)
{
    const char *ending = strrchr(path, '.');
    return ending != NULL && strcasecmp(ending, with) == 0;
}

static kith_status find_kind(kith_ctx *ctx, const char *path, kin_pairs_file *file)
{
    if (strcmp(path, "-") == 0 || ends(path, ".csv")) {
        file->separator = ',';
    } else if (ends(path, ".tsv")) {
        file->separator = '\t';
    } else {
        file->runs = ends(path, ".kith");
        KIN_FAIL_IF(
            !file->runs && !ends(path, ".npy"), ctx, KITH_E_ARGUMENT, kin_at_file(path),
            "pairs are written as .npy, .kith, .csv or .tsv (give one of these extensions)");
    }
    return KITH_OK;
}

bool kin_pairs_file_resumes(const char *path)
{
    return ends(path, ".npy") || ends(path, ".kith");
}

/* ---- What stands around them ----------------------------------------------------------------- */

static kith_status put_kith(kin_pairs_file *file)
{
    kin_checksum sum = file->sum;
    const uint64_t placed = kin_checksum_end(&sum);
    const int64_t rows = file->about.rows;
    const kin_container_header header =
        kin_result_header(KITH_KIND_PAIRS, rows, 0, &file->about.meta);
    const kin_section sections[SECTIONS] = {
        {.tag = TAG_PAIRS, .bytes = (uint64_t)file->count * sizeof(item), .placed = &placed},
        {.tag = KIN_TAG_OFFSETS,
         .data = file->offsets,
         .bytes = ((uint64_t)rows + 1) * sizeof *file->offsets}};
    for (int64_t row = 0; row < rows; row++) {
        file->offsets[row + 1] += file->offsets[row];
    }
    KIN_TRY(kin_writer_rewind(&file->writer));
    return kin_container_put(&file->writer, &header, sections, SECTIONS);
}

/* Of as many pairs as there are; at the beginning the most that there can be. */
static kith_status put_npy(kin_pairs_file *file, int64_t count)
{
    char head[KIN_NPY_HEADER_MAX];
    const uint64_t bytes = kin_npy_header(head, descr, 1, count, 0);
    kin_assert(bytes == file->head_bytes);
    return kin_writer_patch(&file->writer, 0, head, bytes);
}

static kith_status put_head(kin_pairs_file *file)
{
    char head[KIN_NPY_HEADER_MAX] = {0};
    if (file->separator != 0) {
        return kin_writer_print(&file->writer, "i%cj%cdistance\n", file->separator,
                                file->separator);
    }
    return file->runs ? kin_writer_patch(&file->writer, 0, head, file->head_bytes)
                      : put_npy(file, INT64_MAX);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static kith_status begin(kith_ctx *ctx, kin_pairs_file *file)
{
    char head[KIN_NPY_HEADER_MAX];
    const kin_pairs_about *about = &file->about;
    bool fresh = false;
    kin_checksum_begin(&file->sum);
    file->next_row = about->first_row;
    file->head_bytes = file->runs ? kin_layout_align(kin_layout_table_end(SECTIONS))
                                  : kin_npy_header(head, descr, 1, INT64_MAX, 0);
    KIN_TRY(kin_alloc(ctx, &file->items, ITEMS_AT_ONCE, sizeof *file->items, "a write buffer"));
    if (file->runs) {
        KIN_TRY(kin_alloc_zero(ctx, &file->offsets, (uint64_t)about->rows + 1,
                               sizeof *file->offsets, "runs of pairs"));
    }
    KIN_TRY(kin_journal_init(ctx, file->writer.target, about->job, &file->journal));
    KIN_TRY(kin_journal_begin(ctx, &file->journal, &file->writer, about->restart, &file->before,
                              &fresh));
    file->ours = true;
    if (!fresh) {
        file->at = file->kept = file->journal.head_bytes;
        return KITH_OK;
    }
    const int error = kin_file_resize(file->writer.file, 0);
    KIN_FAIL_IF(error != 0, ctx, KITH_E_IO, kin_at_file(file->writer.temporary),
                "cannot be written: %s", strerror(error));
    return put_head(file);
}

kith_status kin_pairs_file_open(kith_ctx *ctx, const char *path, const kin_pairs_about *about,
                                kin_pairs_file *file)
{
    bool found = false;
    *file = (kin_pairs_file){.about = *about, .journal.file = -1};
    KIN_TRY(find_kind(ctx, path, file));
    if (file->separator != 0) {
        KIN_TRY(kin_writer_open_text(ctx, path, &file->writer));
        const kith_status status = put_head(file);
        return status == KITH_OK ? KITH_OK : kin_writer_close(&file->writer, status);
    }
    KIN_TRY(kin_writer_open_as(ctx, path, true, &file->writer, &found));
    const kith_status status = begin(ctx, file);
    if (status != KITH_OK && !file->ours && !found) {
        kin_writer_drop(&file->writer);
    }
    return status == KITH_OK ? KITH_OK : kin_pairs_file_close(file, status);
}

/* ---- Chunks in arrays ------------------------------------------------------------------------ */

static kith_status make_room(kith_ctx *ctx, uint64_t pairs, kin_pairs_room *chunk)
{
    KIN_TRY(kin_alloc(ctx, &chunk->i, pairs, sizeof *chunk->i, "pairs"));
    KIN_TRY(kin_alloc(ctx, &chunk->j, pairs, sizeof *chunk->j, "pairs"));
    return kin_alloc(ctx, &chunk->distances, pairs, sizeof *chunk->distances, "pairs");
}

static void add_pair(kin_pairs_room *chunk, const item *one)
{
    chunk->i[chunk->count] = one->i;
    chunk->j[chunk->count] = one->j;
    chunk->distances[chunk->count++] = one->distance;
}

void kin_pairs_room_free(kith_ctx *ctx, kin_pairs_room *chunk)
{
    kin_free(ctx, chunk->distances);
    kin_free(ctx, chunk->j);
    kin_free(ctx, chunk->i);
    *chunk = (kin_pairs_room){.count = 0};
}

/* ---- What an earlier run has left ------------------------------------------------------------ */

static kith_status read_items(kin_pairs_file *file, int64_t first, int64_t count, int64_t *got)
{
    uint64_t bytes = 0;
    const uint64_t at = file->head_bytes + (uint64_t)first * sizeof(item);
    const int error = kin_file_read_at(file->writer.file, file->items,
                                       (uint64_t)count * sizeof(item), at, &bytes);
    KIN_FAIL_IF(error != 0, file->writer.ctx, KITH_E_IO, kin_at_file(file->writer.temporary),
                "cannot be read: %s", strerror(error));
    *got = (int64_t)(bytes / sizeof(item));
    return KITH_OK;
}

/* Pairs of a record as they are looked at: the row of the last one, how many of it there were, and
 * of the longest. */
typedef struct looked {
    int64_t row;
    int64_t count;
    int64_t longest;
} looked;

/* Whether these can be pairs of this job: rows in order and among those that the record tells, ids
 * within both sets. Checksums are no signatures. */
static bool is_possible(const kin_pairs_file *file, int64_t next_row, int64_t count, looked *at)
{
    const kin_pairs_about *about = &file->about;
    bool right = true;
    for (int64_t p = 0; p < count && right; p++) {
        const item *one = &file->items[p];
        right = one->i >= at->row && one->i <= next_row && one->i < about->rows &&
                one->j < about->meta.corpus_rows && (!about->one_set || one->j > one->i);
        at->count = one->i == at->row ? at->count + 1 : 1;
        at->row = one->i;
        at->longest = kin_max_i64(at->longest, at->count);
    }
    return right;
}

/* Whether the pairs that a record adds are those that it says. */
static kith_status look_at(kin_pairs_file *file, const kin_journal_record *record, bool *right)
{
    kin_checksum sum = file->sum;
    looked at = {.row = file->next_row};
    const int64_t last = (int64_t)record->sums[0];
    *right = true;
    for (int64_t done = file->count; done < last && *right; done += ITEMS_AT_ONCE) {
        const int64_t piece = kin_min_i64(last - done, ITEMS_AT_ONCE);
        int64_t got = 0;
        KIN_TRY(read_items(file, done, piece, &got));
        kin_checksum_add(&sum, file->items, (uint64_t)got * sizeof(item));
        *right = got == piece && is_possible(file, record->rows, piece, &at);
    }
    *right = *right && kin_checksum_end(&sum) == record->sums[1];
    file->longest = at.longest;
    return KITH_OK;
}

static void count_rows(kin_pairs_file *file, const uint32_t *i, int64_t count)
{
    for (int64_t p = 0; file->offsets != NULL && p < count; p++) {
        file->offsets[(int64_t)i[p] + 1] += 1;
    }
}

/* Whether what a record says can be: pairs of a file that is not larger than it is. */
static bool is_likely(const kin_pairs_file *file, const kin_journal_record *record)
{
    const off_t end = lseek(file->writer.file, 0, SEEK_END);
    const uint64_t room = end > (off_t)file->head_bytes ? (uint64_t)end - file->head_bytes : 0;
    return record->rows >= file->next_row && record->rows <= file->about.rows &&
           record->sums[0] >= (uint64_t)file->count && record->sums[0] <= room / sizeof(item);
}

static kith_status take_record(kin_pairs_file *file, bool *right)
{
    kin_journal_record record;
    const char *text = (const char *)file->before.data;
    *right =
        kin_journal_next(text, file->before.bytes, &file->at, &record) && is_likely(file, &record);
    if (!*right) {
        return KITH_OK;
    }
    KIN_TRY(look_at(file, &record, right));
    if (*right) {
        file->kept = file->at;
        file->stands = (int64_t)record.sums[0];
        file->stands_row = record.rows;
    }
    return kin_progress(file->writer.ctx, "verify", (double)record.rows, (double)file->about.rows);
}

/* The next pairs that stand, of whole rows: so few that a job goes on in less memory, too. */
static kith_status give_piece(kin_pairs_file *file, kin_pairs_room *chunk)
{
    kith_ctx *ctx = file->writer.ctx;
    const uint64_t room =
        (uint64_t)kin_min_i64(file->stands - file->count, CHUNK_ITEMS + file->longest);
    KIN_TRY(make_room(ctx, room, chunk));
    bool whole = false;
    while (file->count < file->stands && !whole) {
        int64_t got = 0;
        int64_t p = 0;
        KIN_TRY(read_items(file, file->count,
                           kin_min_i64(file->stands - file->count, ITEMS_AT_ONCE), &got));
        for (; p < got && !whole; p += whole ? 0 : 1) {
            const int64_t to = chunk->count;
            whole = to >= CHUNK_ITEMS && file->items[p].i != chunk->i[to - 1];
            if (!whole) {
                add_pair(chunk, &file->items[p]);
            }
        }
        kin_checksum_add(&file->sum, file->items, (uint64_t)p * sizeof(item));
        file->count += p;
        KIN_FAIL_IF(got == 0, ctx, KITH_E_IO, kin_at_file(file->writer.temporary),
                    "became shorter while it was read (let nobody else write it)");
    }
    count_rows(file, chunk->i, chunk->count);
    return KITH_OK;
}

/* What was not taken is no part of the file any more. */
static kith_status forget_rest(kin_pairs_file *file)
{
    kith_ctx *ctx = file->writer.ctx;
    const uint64_t bytes = file->head_bytes + (uint64_t)file->count * sizeof(item);
    const int error = kin_file_resize(file->writer.file, bytes);
    kin_map_close(&file->before);
    KIN_FAIL_IF(error != 0, ctx, KITH_E_IO, kin_at_file(file->writer.temporary),
                "cannot be written: %s", strerror(error));
    KIN_TRY(kin_journal_continue(ctx, &file->journal, file->kept));
    return put_head(file);
}

kith_status kin_pairs_file_again(kin_pairs_file *file, kin_pairs_room *chunk, bool *more)
{
    *chunk = (kin_pairs_room){.count = 0};
    *more = false;
    if (file->before.data == NULL) {
        return KITH_OK;
    }
    if (file->count == file->stands) {
        KIN_TRY(take_record(file, more));
        if (!*more) {
            return forget_rest(file);
        }
    }
    *more = true;
    KIN_TRY(file->count < file->stands ? give_piece(file, chunk) : KITH_OK);
    file->next_row =
        file->count == file->stands ? file->stands_row : (int64_t)chunk->i[chunk->count - 1] + 1;
    return KITH_OK;
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

static kith_status put_line(kin_pairs_file *file, item one)
{
    char text[64];
    const int ids = snprintf(text, sizeof text, "%" PRIu32 "%c%" PRIu32 "%c", one.i,
                             file->separator, one.j, file->separator);
    int length =
        ids + kin_number_print(text + ids, sizeof text - (size_t)ids - 1, one.distance, false);
    text[length++] = '\n';
    return kin_writer_put(&file->writer, text, (uint64_t)length);
}

static kith_status put_lines(kin_pairs_file *file, const kith_pairs *pairs, const double *distances)
{
    KIN_C_NUMBERS();
    kith_status status = KITH_OK;
    for (int64_t p = 0; p < pairs->count && status == KITH_OK; p++) {
        const item one = {pairs->query_ids[p], pairs->corpus_ids[p], distances[p]};
        status = put_line(file, one);
    }
    file->count += pairs->count;
    return status;
}

static kith_status put_items(kin_pairs_file *file, const kith_pairs *pairs, const double *distances)
{
    for (int64_t first = 0; first < pairs->count; first += ITEMS_AT_ONCE) {
        const int64_t piece = kin_min_i64(pairs->count - first, ITEMS_AT_ONCE);
        for (int64_t p = 0; p < piece; p++) {
            file->items[p] = (item){pairs->query_ids[first + p], pairs->corpus_ids[first + p],
                                    distances[first + p]};
        }
        const uint64_t bytes = (uint64_t)piece * sizeof(item);
        const uint64_t at = file->head_bytes + (uint64_t)file->count * sizeof(item);
        KIN_TRY(kin_writer_patch(&file->writer, at, file->items, bytes));
        kin_checksum_add(&file->sum, file->items, bytes);
        file->count += piece;
    }
    count_rows(file, pairs->query_ids, pairs->count);
    return KITH_OK;
}

kith_status kin_pairs_file_put(kin_pairs_file *file, const kith_pairs *pairs,
                               const double *distances, int64_t next_row)
{
    if (file->separator != 0) {
        return put_lines(file, pairs, distances);
    }
    KIN_TRY(put_items(file, pairs, distances));
    KIN_TRY(kin_writer_sync(&file->writer));
    kin_checksum sum = file->sum;
    const kin_journal_record record = {.rows = next_row,
                                       .sums = {(uint64_t)file->count, kin_checksum_end(&sum)}};
    file->next_row = next_row;
    return kin_journal_append(file->writer.ctx, &file->journal, &record);
}

/* ---- The end --------------------------------------------------------------------------------- */

kith_status kin_pairs_file_close(kin_pairs_file *file, kith_status status)
{
    kith_ctx *ctx = file->writer.ctx;
    if (status == KITH_OK && file->before.data != NULL) { /* the caller has ended it there */
        status = forget_rest(file);
    }
    if (status == KITH_OK && file->separator == 0) {
        status = file->runs ? put_kith(file) : put_npy(file, file->count);
    }
    const bool nothing =
        file->ours && file->before.data == NULL && file->next_row == file->about.first_row;
    if (status != KITH_OK && nothing) {
        kin_writer_drop(&file->writer);
        kin_journal_remove(&file->journal);
    }
    status = kin_writer_close(&file->writer, status);
    if (status == KITH_OK && file->ours) {
        kin_journal_remove(&file->journal);
    }
    kin_map_close(&file->before);
    kin_journal_free(ctx, &file->journal);
    kin_free(ctx, file->offsets);
    kin_free(ctx, file->items);
    return status;
}

/* ---- Read again ------------------------------------------------------------------------------ */

typedef struct stored {
    kin_container *container;
    const item *items;
    const int64_t *offsets;
    int64_t rows;
    int64_t others;
} stored;

static kith_status fail_damaged(kith_ctx *ctx, const stored *s)
{
    return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(s->container->path),
                       "has pairs that do not fit its rows (it is damaged: make it again)");
}

static kith_status open_stored(kith_ctx *ctx, stored *s)
{
    const kin_container *c = s->container;
    const kin_container_header *header = &c->header;
    const void *data = NULL;
    uint64_t bytes = 0;
    KIN_DAMAGED_IF(header->kind != KITH_KIND_PAIRS, ctx, c->path,
                   "does not hold pairs (give what kith pairs has written)");
    s->rows = header->rows;
    s->others = header->corpus_rows;
    KIN_TRY(kin_container_table(ctx, c, KIN_TAG_OFFSETS, (uint64_t)s->rows + 1, sizeof *s->offsets,
                                &data));
    s->offsets = data;
    KIN_TRY(kin_container_section(ctx, c, TAG_PAIRS, &data, &bytes));
    s->items = data;
    bool right = s->rows < UINT32_MAX && s->offsets[0] == 0 &&
                 (uint64_t)s->offsets[s->rows] == bytes / sizeof(item) && bytes % sizeof(item) == 0;
    for (int64_t row = 0; row < s->rows && right; row++) {
        right = s->offsets[row] <= s->offsets[row + 1];
    }
    return right ? KITH_OK : fail_damaged(ctx, s);
}

/* Rows [first, last) into the chunk. */
static kith_status load_rows(kith_ctx *ctx, const stored *s, int64_t first, int64_t last,
                             kin_pairs_room *chunk)
{
    bool right = true;
    chunk->count = 0;
    for (int64_t row = first; row < last; row++) {
        for (int64_t p = s->offsets[row]; p < s->offsets[row + 1]; p++) {
            right = right && s->items[p].i == row && s->items[p].j < s->others;
            add_pair(chunk, &s->items[p]);
        }
    }
    return right ? KITH_OK : fail_damaged(ctx, s);
}

static kith_status allocate_chunk(kith_ctx *ctx, const stored *s, kin_pairs_room *chunk)
{
    int64_t most = 0;
    for (int64_t row = 0; row < s->rows; row++) {
        most = kin_max_i64(most, s->offsets[row + 1] - s->offsets[row]);
    }
    const uint64_t room = (uint64_t)kin_min_i64(s->offsets[s->rows], most + CHUNK_ITEMS);
    return make_room(ctx, room, chunk);
}

static kith_status tell_stored(kith_ctx *ctx, const stored *s, kith_pairs_fn take, void *take_arg,
                               kith_pairs_report *report)
{
    kin_pairs_room chunk = {.count = 0};
    kith_status status = allocate_chunk(ctx, s, &chunk);
    report->count = 0;
    for (int64_t first = 0, last = 0; first < s->rows && status == KITH_OK && report->complete != 0;
         first = last) {
        while (last < s->rows && s->offsets[last] - s->offsets[first] < CHUNK_ITEMS) {
            last += 1;
        }
        status = load_rows(ctx, s, first, last, &chunk);
        const kith_pairs pairs = {
            .count = chunk.count, .query_ids = chunk.i, .corpus_ids = chunk.j};
        if (status == KITH_OK && chunk.count > 0) {
            report->complete = take(take_arg, &pairs, chunk.distances) == 0;
            report->chunks += 1;
            report->largest_chunk = kin_max_i64(report->largest_chunk, chunk.count);
        }
        report->count += chunk.count;
        report->next_row = last;
    }
    kin_pairs_room_free(ctx, &chunk);
    return status;
}

kith_status kin_pairs_read(kith_ctx *ctx, const char *path, kith_pairs_fn take, void *take_arg,
                           kith_pairs_report *report)
{
    stored s = {.container = NULL};
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_container_hold(&hold, path, true, &s.container));
    KIN_TRY(open_stored(ctx, &s));
    report->count = s.offsets[s.rows];
    report->complete = 1;
    return take != NULL ? tell_stored(ctx, &s, take, take_arg, report) : KITH_OK;
}
