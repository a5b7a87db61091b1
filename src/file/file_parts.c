/* SPDX-License-Identifier: Apache-2.0
 * A graph in several files: parts and their index, read (file_open.h) and written (file_stream.h).
 */
#define _GNU_SOURCE
#include "file/file_stream.h"

#include "base/base_mem.h"
#include "base/base_size.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static_assert(sizeof(kin_part) == 16, "a part in a file has no padding");
static_assert(sizeof(kin_part_entry) == 24, "an entry of an index has no padding");

/* Rows of which each part but the last has a multiple. */
static int64_t part_unit(int64_t k)
{
    const int64_t entries = KIN_PART_ALIGNMENT / (int64_t)sizeof(uint32_t);
    const int64_t twos = k & -k; /* a power of 2, as entries is one */
    return twos < entries ? entries / twos : 1;
}

kith_status kin_part_read(kith_ctx *ctx, const kin_container *container, kin_part *part)
{
    const void *data = NULL;
    KIN_TRY(kin_container_table(ctx, container, KIN_TAG_PART, 1, sizeof *part, &data));
    memcpy(part, data, sizeof *part);
    KIN_DAMAGED_IF(part->first < 0 || part->number < 0 || part->count > KITH_PARTS_MAX ||
                       part->number >= part->count,
                   ctx, container->path, "is part %d of %d (it is damaged: make it again)",
                   (int)part->number + 1, (int)part->count);
    return KITH_OK;
}

/* The path of an index where it is in truth: parts are not looked for beside a symbolic link. */
static kith_status part_home(kith_ctx *ctx, const char *path, char **home)
{
    struct stat info;
    char *real = lstat(path, &info) == 0 && S_ISLNK(info.st_mode) ? realpath(path, NULL) : NULL;
    const kith_status status =
        kin_alloc_text(ctx, home, "a file's path", "%s", real != NULL ? real : path);
    free(real);
    return status;
}

/* The path of a part of an index at home; name: so many bytes. */
static kith_status part_path(kith_ctx *ctx, const char *home, const char *name, int name_bytes,
                             const kin_part *part, char **path)
{
    const char *slash = strrchr(home, '/');
    const int folder = slash == NULL ? 0 : (int)(slash - home) + 1;
    return kin_alloc_text(ctx, path, "a file's path", "%.*s%.*s-%05d-of-%05d.kith", folder, home,
                          name_bytes, name, (int)part->number, (int)part->count);
}

/* ---- Parts as one ---------------------------------------------------------------------------- */

/* Parts of a graph as one. */

enum { NAME_MOST = 255, TABLES = 2 };
static const char *const TAGS[TABLES] = {KIN_TAG_IDS, KIN_TAG_DISTANCES};

/* An index. */
typedef struct set {
    kith_ctx *ctx;
    const char *path; /* the caller's */
    char *home;
    const kin_part_entry *entries;
    int32_t count;
    const char *name;
    int name_bytes;
    int64_t row_bytes; /* of ids, and of distances */
    const kin_container_header *header;
} set;

/* A part that is as the index says. */
typedef struct opened {
    const char *path;
    kin_container *container;
    const kin_part_entry *entry;
    const kin_layout_entry *places[TABLES];
} opened;

typedef kith_status (*visit_fn)(void *arg, const set *s, const opened *part);

/* ---- The index ------------------------------------------------------------------------------- */

static kith_status fail_damaged(const set *s, const char *what)
{
    return kin_fail_at(s->ctx, KITH_E_FORMAT, kin_at_file(s->path),
                       "%s (it is damaged: make it again)", what);
}

static kith_status check_entries(const set *s)
{
    int64_t rows = 0;
    for (int32_t i = 0; i < s->count; i++) {
        const kin_part_entry *entry = &s->entries[i];
        const bool last = i + 1 == s->count;
        if (entry->first != rows || entry->rows < 1 || entry->rows > s->header->rows - rows ||
            (!last && entry->rows % part_unit(s->header->k) != 0)) {
            return fail_damaged(s, "its parts do not have its rows one behind the other");
        }
        rows += entry->rows;
    }
    return rows == s->header->rows ? KITH_OK : fail_damaged(s, "its parts do not have all rows");
}

static kith_status read_index(set *s, const kin_container *index)
{
    const void *data = NULL;
    uint64_t bytes = 0;
    s->header = &index->header;
    const uint64_t rows = (uint64_t)s->header->rows;
    const uint64_t k = (uint64_t)s->header->k;
    KIN_TRY(kin_shape_check(s->ctx, s->path, rows, k, KIN_ROWS_MAX));
    if (kin_size_mul(rows, k) > INT64_MAX / sizeof(uint32_t)) {
        return fail_damaged(s, "it has more entries than files can hold");
    }
    s->row_bytes = s->header->k * (int64_t)sizeof(uint32_t);
    KIN_TRY(kin_container_section(s->ctx, index, KIN_TAG_PARTS, &data, &bytes));
    if (bytes % sizeof *s->entries != 0 || bytes == 0 ||
        bytes > KITH_PARTS_MAX * sizeof *s->entries) {
        return fail_damaged(s, "it has no parts");
    }
    s->entries = data;
    s->count = (int32_t)(bytes / sizeof *s->entries);
    KIN_TRY(kin_container_section(s->ctx, index, KIN_TAG_NAME, &data, &bytes));
    if (bytes < 1 || bytes > NAME_MOST || memchr(data, '/', (size_t)bytes) != NULL ||
        memchr(data, '\0', (size_t)bytes) != NULL) {
        return fail_damaged(s, "it has no name for its parts");
    }
    s->name = data;
    s->name_bytes = (int)bytes;
    KIN_TRY(check_entries(s));
    return part_home(s->ctx, s->path, &s->home);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static kith_status check_part(const set *s, opened *part)
{
    const kin_container_header *header = &part->container->header;
    const uint64_t bytes = (uint64_t)(part->entry->rows * s->row_bytes);
    KIN_DAMAGED_IF(part->container->checksum != part->entry->checksum, s->ctx, part->path,
                   "is not the file that %s was written with (bring that one back, or run the job "
                   "again that writes them)",
                   s->path);
    bool right = header->rows == part->entry->rows && header->k == s->header->k;
    for (int i = 0; i < TABLES; i++) {
        KIN_TRY(kin_container_find(s->ctx, part->container, TAGS[i], &part->places[i]));
        right = right && part->places[i]->bytes == bytes &&
                part->places[i]->offset % KIN_PART_ALIGNMENT == 0;
    }
    KIN_SOUND_IF(right, s->ctx, part->path, "is no part of %s (it is damaged: make it again)",
                 s->path);
}

static kith_status visit_part(const set *s, opened *part, visit_fn visit, void *arg)
{
    KIN_FAIL_IF(access(part->path, F_OK) != 0 && errno == ENOENT, s->ctx, KITH_E_IO,
                kin_at_file(part->path),
                "is missing, and has rows %" PRId64 " to %" PRId64
                " of %s (bring it back into the folder, or make the graph again)",
                part->entry->first, part->entry->first + part->entry->rows - 1, s->path);
    KIN_HOLD(hold, s->ctx);
    KIN_TRY(kin_container_hold(&hold, part->path, true, &part->container));
    KIN_TRY(check_part(s, part));
    return visit(arg, s, part);
}

static kith_status visit_all(const set *s, visit_fn visit, void *arg)
{
    for (int32_t i = 0; i < s->count; i++) {
        const kin_part part = {.first = s->entries[i].first, .number = i, .count = s->count};
        char *path = NULL;
        KIN_HOLD(hold, s->ctx);
        KIN_TRY(part_path(s->ctx, s->home, s->name, s->name_bytes, &part, &path));
        kin_hold_block(&hold, path);
        opened o = {.path = path, .entry = &s->entries[i]};
        KIN_TRY(visit_part(s, &o, visit, arg));
    }
    return KITH_OK;
}

/* ---- Mapping --------------------------------------------------------------------------------- */

/* What is mapped is held against its checksum here: the file may be another one by now. */
static kith_status map_part(void *arg, const set *s, const opened *part)
{
    const kin_map *tables = arg;
    const uint64_t at = (uint64_t)(part->entry->first * s->row_bytes);
    for (int i = 0; i < TABLES; i++) {
        const kin_layout_entry *place = part->places[i];
        KIN_TRY(kin_map_place(s->ctx, part->path, place->offset, place->bytes, &tables[i], at));
        KIN_DAMAGED_IF(kin_checksum_of(tables[i].data + at, place->bytes) != place->checksum,
                       s->ctx, part->path,
                       "the checksum of its section '%s' is wrong (it is damaged: bring a copy of "
                       "it back, or make the graph again)",
                       TAGS[i]);
    }
    return KITH_OK;
}

kith_status kin_parts_map(kith_result *result, const char *path)
{
    set s = {.ctx = result->ctx, .path = path};
    kith_neighbors *n = &result->neighbors;
    KIN_HOLD(hold, s.ctx);
    KIN_TRY(read_index(&s, result->container));
    kin_hold_block(&hold, s.home);
    const uint64_t bytes = kin_size_mul((uint64_t)n->rows, (uint64_t)s.row_bytes);
    for (int i = 0; i < TABLES; i++) {
        KIN_TRY(kin_map_reserve(s.ctx, bytes, &result->tables[i]));
    }
    KIN_TRY(visit_all(&s, map_part, result->tables));
    n->ids = (uint32_t *)(uintptr_t)result->tables[0].data;
    n->distances = (float *)(uintptr_t)result->tables[1].data;
    return KITH_OK;
}

static kith_status add_bytes(void *arg, const set *s, const opened *part)
{
    (void)s;
    uint64_t *bytes = arg;
    *bytes += part->container->map.bytes;
    return KITH_OK;
}

kith_status kin_parts_inspect(kith_ctx *ctx, const char *path, const kin_container *index,
                              int32_t *count, uint64_t *bytes)
{
    set s = {.ctx = ctx, .path = path};
    KIN_HOLD(hold, ctx);
    KIN_TRY(read_index(&s, index));
    kin_hold_block(&hold, s.home);
    *count = s.count;
    return visit_all(&s, add_bytes, bytes);
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* The name of an index without folder and ending. */
static const char *name_of(const char *index, int *bytes)
{
    static const char ending[] = ".kith";
    const char *slash = strrchr(index, '/');
    const char *name = slash != NULL ? slash + 1 : index;
    const size_t whole = strlen(name);
    const size_t rest = sizeof ending - 1;
    const bool ends = whole > rest && strcasecmp(name + whole - rest, ending) == 0;
    *bytes = (int)(ends ? whole - rest : whole);
    return name;
}

static kin_part part_at(const kin_parts *p, int32_t number)
{
    return (kin_part){.first = number * p->part_rows, .number = number, .count = p->count};
}

static int64_t rows_of(const kin_parts *p, int32_t number)
{
    return kin_min_i64(p->part_rows, p->rows - number * p->part_rows);
}

static kith_status path_of(kin_hold *hold, const kin_parts *p, int32_t number, char **path)
{
    int bytes = 0;
    const char *name = name_of(p->index, &bytes);
    const kin_part part = part_at(p, number);
    KIN_TRY(part_path(hold->ctx, p->index, name, bytes, &part, path));
    kin_hold_block(hold, *path);
    return KITH_OK;
}

static kith_status open_part(kin_parts *p, const kith_result_stream_params *params, int32_t number)
{
    kith_ctx *ctx = p->home;
    const char *job = params->job != NULL ? params->job : "";
    const kin_part part = part_at(p, number);
    kith_result_stream_params own = *params;
    kith_result_meta meta = p->meta;
    char *path = NULL;
    char *text = NULL;
    KIN_HOLD(hold, ctx);
    KIN_TRY(path_of(&hold, p, number, &path));
    KIN_TRY(kin_alloc_text(ctx, &text, "a journal",
                           "%s%spart %" PRId32 " of %" PRId32 " from %" PRId64 "\n", job,
                           job[0] != '\0' && job[strlen(job) - 1] != '\n' ? "\n" : "", number,
                           part.count, part.first));
    kin_hold_block(&hold, text);
    own.job = text;
    own.rows = rows_of(p, number);
    meta.kind = KITH_KIND_RESULT;
    return kin_stream_open(ctx, path, &own, &meta, &part, &p->streams[number]);
}

static kith_status open_all(kin_parts *p, const char *path, const kith_result_stream_params *params,
                            int32_t parts)
{
    kith_ctx *ctx = p->home;
    kith_format format = params->format;
    KIN_TRY(kin_result_choose(ctx, path, &format));
    KIN_FAIL_IF(format != KITH_FORMAT_KITH, ctx, KITH_E_ARGUMENT, kin_at_file(path),
                "only .kith is written in parts (give a name that ends in .kith)");
    p->part_rows = kin_round_up(kin_ceil_div(p->rows, parts), part_unit(p->k));
    p->count = (int32_t)kin_ceil_div(p->rows, p->part_rows);
    KIN_TRY(part_home(ctx, path, &p->index));
    KIN_TRY(kin_alloc_zero(ctx, &p->streams, (uint64_t)p->count, sizeof(kith_result_stream *),
                           "parts"));
    for (int32_t i = 0; i < p->count; i++) {
        KIN_TRY(open_part(p, params, i));
    }
    return KITH_OK;
}

static kith_status open_one(kin_parts *p, const char *path, const kith_result_stream_params *params)
{
    p->part_rows = p->rows;
    p->count = 1;
    KIN_TRY(kin_alloc_zero(p->home, &p->streams, 1, sizeof(kith_result_stream *), "a result"));
    return kin_stream_open(p->home, path, params, &p->meta, NULL, &p->streams[0]);
}

kith_status kin_parts_open(kith_ctx *ctx, const char *path, const kith_result_stream_params *params,
                           const kith_result_meta *meta, int32_t parts, kin_parts **out)
{
    kin_parts *p = NULL;
    KIN_TRY(kin_alloc_zero(ctx, &p, 1, sizeof *p, "a result"));
    p->home = ctx;
    p->meta = *meta;
    p->rows = params->rows;
    p->k = params->k;
    const kith_status status =
        parts > 0 ? open_all(p, path, params, parts) : open_one(p, path, params);
    if (status != KITH_OK) {
        kin_parts_close(p);
        return status;
    }
    *out = p;
    return KITH_OK;
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

kith_status kin_parts_tell_recall(kith_ctx *ctx, kin_parts *p, const kith_recall *recall, bool anew)
{
    if (recall->rows > 0) {
        p->meta.recall = recall->recall;
        p->meta.recall_at = recall->at;
    }
    for (int32_t i = 0; i < p->count; i++) {
        KIN_TRY(kin_stream_tell_recall(ctx, p->streams[i], recall, anew));
        kin_writer_rest(&p->streams[i]->writer);
    }
    return KITH_OK;
}

void kin_parts_hurry(kin_parts *p, uint64_t record_bytes)
{
    for (int32_t i = 0; i < p->count; i++) {
        kin_stream_hurry(p->streams[i], record_bytes);
    }
}

bool kin_parts_stand(const kin_parts *p, int64_t first, int64_t rows)
{
    for (int64_t i = first / p->part_rows; i < p->count && i * p->part_rows < first + rows; i++) {
        const int64_t begin = i * p->part_rows;
        const int64_t wanted = kin_min_i64(first + rows - begin, p->streams[i]->rows);
        if (p->streams[i]->state.rows < wanted) {
            return false;
        }
    }
    return true;
}

kith_status kin_parts_put(kith_ctx *ctx, kin_parts *p, int64_t first, const kith_neighbors *rows)
{
    const int64_t last = first + rows->rows;
    for (int64_t i = first / p->part_rows; i < p->count && i * p->part_rows < last; i++) {
        kith_result_stream *stream = p->streams[i];
        const int64_t begin = i * p->part_rows;
        const int64_t from = kin_max_i64(first, begin + stream->state.rows);
        const int64_t to = kin_min_i64(last, begin + stream->rows);
        if (from < to) {
            kith_neighbors piece = *rows;
            piece.ids += (from - first) * rows->k;
            piece.distances += (from - first) * rows->k;
            piece.rows = to - from;
            KIN_TRY(kin_stream_put(ctx, stream, &piece));
        }
    }
    return KITH_OK;
}

/* ---- The end --------------------------------------------------------------------------------- */

static kith_status read_checksum(kith_ctx *ctx, const kin_parts *p, int32_t number,
                                 uint64_t *checksum)
{
    char *path = NULL;
    kin_container *part = NULL;
    KIN_HOLD(hold, ctx);
    KIN_TRY(path_of(&hold, p, number, &path));
    KIN_TRY(kin_container_hold(&hold, path, true, &part));
    *checksum = part->checksum;
    return KITH_OK;
}

static kith_status write_index(kith_ctx *ctx, const kin_parts *p)
{
    kin_part_entry entries[KITH_PARTS_MAX];
    for (int32_t i = 0; i < p->count; i++) {
        entries[i] = (kin_part_entry){.first = i * p->part_rows, .rows = rows_of(p, i)};
        KIN_TRY(read_checksum(ctx, p, i, &entries[i].checksum));
    }
    int bytes = 0;
    const char *name = name_of(p->index, &bytes);
    const kin_container_header header = kin_result_header(KITH_KIND_GRAPH, p->rows, p->k, &p->meta);
    const kin_section sections[] = {
        {.tag = KIN_TAG_PARTS, .data = entries, .bytes = (uint64_t)p->count * sizeof entries[0]},
        {.tag = KIN_TAG_NAME, .data = name, .bytes = (uint64_t)bytes}};
    return kin_container_write(ctx, p->index, &header, sections, 2);
}

kith_status kin_parts_finish(kith_ctx *ctx, kin_parts *p)
{
    for (int32_t i = 0; i < p->count; i++) {
        KIN_TRY(kin_stream_finish(ctx, p->streams[i]));
    }
    return p->index != NULL ? write_index(ctx, p) : KITH_OK;
}

void kin_parts_close(kin_parts *p)
{
    if (p == NULL) {
        return;
    }
    for (int32_t i = 0; p->streams != NULL && i < p->count; i++) {
        kith_result_stream_free(p->streams[i]);
    }
    kin_free(p->home, p->streams);
    kin_free(p->home, p->index);
    kin_free(p->home, p);
}
