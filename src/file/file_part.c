/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "file/file_open.h"

#include "base/base_mem.h"
#include "base/base_size.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static_assert(sizeof(kin_part) == 16, "a part in a file has no padding");
static_assert(sizeof(kin_part_entry) == 24, "an entry of an index has no padding");

int64_t kin_part_unit(int64_t k)
{
    const int64_t entries = KIN_PART_ALIGNMENT / (int64_t)sizeof(uint32_t);
    const int64_t twos = k & -k; /* a power of 2, as entries is one */
    return twos < entries ? entries / twos : 1;
}

/* Zeros behind byte `end`, so that what follows them is aligned. */
static uint64_t space_behind(uint64_t end)
{
    const uint64_t start = kin_layout_align(end);
    return (KIN_PART_ALIGNMENT - start % KIN_PART_ALIGNMENT) % KIN_PART_ALIGNMENT;
}

int32_t kin_part_arrange(const kin_part *part, kin_section sections[KIN_PART_SECTIONS])
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

kith_status kin_part_home(kith_ctx *ctx, const char *path, char **home)
{
    struct stat info;
    char *real = lstat(path, &info) == 0 && S_ISLNK(info.st_mode) ? realpath(path, NULL) : NULL;
    const kith_status status =
        kin_alloc_text(ctx, home, "a file's path", "%s", real != NULL ? real : path);
    free(real);
    return status;
}

kith_status kin_part_path(kith_ctx *ctx, const char *home, const char *name, int name_bytes,
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
            (!last && entry->rows % kin_part_unit(s->header->k) != 0)) {
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
    return kin_part_home(s->ctx, s->path, &s->home);
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
        KIN_TRY(kin_part_path(s->ctx, s->home, s->name, s->name_bytes, &part, &path));
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
