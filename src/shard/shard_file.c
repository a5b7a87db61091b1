/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shard/shard_folder.h"

#include "base/base_mem.h"
#include "base/base_size.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Names ---------------------------------------------------------------------------------- */

void kin_shard_name_print(kin_shard_name name, char text[KIN_SHARD_NAME_BYTES])
{
    (void)snprintf(text, KIN_SHARD_NAME_BYTES, "shard-%05d.%06" PRId64 ".kith", (int)name.shard,
                   name.version);
}

bool kin_shard_name_parse(const char *text, kin_shard_name *name)
{
    static const char before[] = "shard-";
    char again[KIN_SHARD_NAME_BYTES];
    char *end = NULL;
    if (strncmp(text, before, sizeof before - 1) != 0) {
        return false;
    }
    const long shard = strtol(text + sizeof before - 1, &end, 10);
    if (*end != '.' || shard < 0 || shard >= KIN_SHARD_MOST) {
        return false;
    }
    name->shard = (int32_t)shard;
    name->version = strtoll(end + 1, NULL, 10);
    kin_shard_name_print(*name, again);
    return name->version >= 0 && strcmp(text, again) == 0;
}

static kith_status path_of(kin_hold *hold, const kin_shard_folder *folder, kin_shard_name name,
                           char **path)
{
    char text[KIN_SHARD_NAME_BYTES];
    kin_shard_name_print(name, text);
    KIN_TRY(kin_alloc_text(hold->ctx, path, "a file's path", "%s/%s", folder->path, text));
    kin_hold_block(hold, *path);
    return KITH_OK;
}

/* ---- Reading -------------------------------------------------------------------------------- */

static int64_t rows_of(const kin_shard_folder *folder, int32_t shard)
{
    return folder->shape.sizes != NULL
               ? folder->shape.sizes[shard]
               : kin_shard_rows(folder->shape.rows, folder->shape.shards, shard);
}

static kith_status hold_file(kin_hold *hold, const kin_shard_folder *folder, kin_shard_name name,
                             kin_container **out)
{
    char *path = NULL;
    KIN_TRY(path_of(hold, folder, name, &path));
    return kin_container_hold(hold, path, false, out);
}

static kith_status fail_file(kith_ctx *ctx, const kin_shard_folder *folder, kin_shard_name name,
                             const char *what)
{
    char text[KIN_SHARD_NAME_BYTES];
    kin_shard_name_print(name, text);
    return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file_in(folder->path, text),
                       "%s (to begin anew add --restart, or give another folder)", what);
}

static bool is_ours(const kin_shard_folder *folder, kin_shard_name name,
                    const kin_shard_facts *facts, const kin_container_header *header)
{
    return facts->format == KIN_SHARD_FACTS_FORMAT && facts->job == folder->job &&
           facts->shards == folder->shape.shards && facts->shard == name.shard &&
           facts->shard < facts->shards && facts->version == name.version && facts->last >= 0 &&
           facts->last < facts->shards && header->k == folder->shape.k &&
           header->rows == rows_of(folder, name.shard);
}

static kith_status facts_of(kith_ctx *ctx, const kin_shard_folder *folder, kin_shard_name name,
                            const kin_container *file, kin_shard_facts *facts)
{
    const void *data = NULL;
    KIN_TRY(kin_container_table(ctx, file, KIN_SHARD_TAG_FACTS, 1, sizeof *facts, &data));
    memcpy(facts, data, sizeof *facts);
    return is_ours(folder, name, facts, &file->header)
               ? KITH_OK
               : fail_file(ctx, folder, name, "is of another job or another shard");
}

kith_status kin_shard_file_facts(kith_ctx *ctx, const kin_shard_folder *folder, kin_shard_name name,
                                 kin_shard_facts *facts, unsigned char *met)
{
    kin_container *file = NULL;
    const void *data = NULL;
    const uint64_t shards = (uint64_t)folder->shape.shards;
    KIN_HOLD(hold, ctx);
    KIN_TRY(hold_file(&hold, folder, name, &file));
    KIN_TRY(facts_of(ctx, folder, name, file, facts));
    KIN_TRY(kin_container_table(ctx, file, KIN_SHARD_TAG_MET, shards, 1, &data));
    if (met != NULL) {
        memcpy(met, data, (size_t)shards);
    }
    return KITH_OK;
}

/* A table of ids that are rows or none: of the shard where they are its own lists, else of all.
 * Checksums find damage; who forges them, too, is not to send anybody outside of the points. */
static kith_status view_ids(kith_ctx *ctx, const kin_shard_folder *folder, kin_shard_name name,
                            const kin_container *file, bool own, const void **data)
{
    const char *tag = own ? KIN_SHARD_TAG_OWN : KIN_TAG_IDS;
    const int64_t rows = own ? rows_of(folder, name.shard) : folder->shape.rows;
    const int64_t count = rows_of(folder, name.shard) * folder->shape.k;
    uint32_t most = 0;
    KIN_TRY(kin_container_table(ctx, file, tag, (uint64_t)count, sizeof most, data));
    const uint32_t *ids = *data;
    for (int64_t i = 0; i < count; i++) {
        const uint32_t id = ids[i] != KITH_ID_NONE ? ids[i] : 0;
        most = id > most ? id : most;
    }
    return (int64_t)most < rows
               ? KITH_OK
               : fail_file(ctx, folder, name,
                           own ? "its section '" KIN_SHARD_TAG_OWN "' names rows that there are not"
                               : "its section '" KIN_TAG_IDS "' names rows that there are not");
}

static kith_status copy_lists(kith_ctx *ctx, kin_shard_folder *folder, kin_shard_name name,
                              const kin_container *file, const kin_shard_lists *lists)
{
    kin_shard_facts facts;
    const void *data = NULL;
    const int64_t rows = rows_of(folder, name.shard);
    const uint64_t count = (uint64_t)rows * (uint64_t)folder->shape.k;
    KIN_TRY(facts_of(ctx, folder, name, file, &facts));
    KIN_TRY(view_ids(ctx, folder, name, file, false, &data));
    memcpy(lists->ids, data, (size_t)count * sizeof *lists->ids);
    KIN_TRY(kin_container_table(ctx, file, KIN_SHARD_TAG_KEYS, count, sizeof *lists->keys, &data));
    memcpy(lists->keys, data, (size_t)count * sizeof *lists->keys);
    if (folder->shape.own) {
        KIN_TRY(view_ids(ctx, folder, name, file, true, &data));
        memcpy(lists->own, data, (size_t)count * sizeof *lists->own);
    }
    folder->bytes_read += file->map.bytes;
    return KITH_OK;
}

kith_status kin_shard_load(kith_ctx *ctx, kin_shard_folder *folder, int32_t shard,
                           const kin_shard_lists *lists)
{
    const kin_shard_name name = {shard, folder->versions[shard]};
    kin_container *file = NULL;
    KIN_HOLD(hold, ctx);
    KIN_TRY(hold_file(&hold, folder, name, &file));
    return copy_lists(ctx, folder, name, file, lists);
}

/* ---- Mapped --------------------------------------------------------------------------------- */

static void return_pages(const void *from, const void *to)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = ((uintptr_t)from + page - 1) / page * page;
    const uintptr_t last = (uintptr_t)to / page * page;
    if (last > first) {
        (void)madvise((unsigned char *)first, last - first, MADV_DONTNEED);
    }
}

void kin_shard_view_return(kin_shard_view *view)
{
    const int64_t first = view->returned * view->k;
    const int64_t last = view->row * view->k;
    if (view->file != NULL) {
        return_pages(view->ids + first, view->ids + last);
        return_pages(view->distances + first, view->distances + last);
        return_pages(view->keys + view->shared_returned * view->k,
                     view->keys + view->shared * view->k);
    }
    view->returned = view->row;
    view->shared_returned = view->shared;
}

void kin_shard_view_rewind(kin_shard_view *view)
{
    view->returned = 0;
    view->shared_returned = 0;
    kin_shard_view_return(view);
    view->row = 0;
    view->shared = 0;
    view->returned = 0;
    view->shared_returned = 0;
}

/* Keys of as many rows as the file says. */
static kith_status view_keys(kith_ctx *ctx, kin_shard_view *view)
{
    const uint64_t row_bytes = (uint64_t)view->k * sizeof *view->keys;
    const void *data = NULL;
    uint64_t bytes = 0;
    KIN_TRY(kin_container_section(ctx, view->file, KIN_SHARD_TAG_KEYS, &data, &bytes));
    view->keys = data;
    view->shared = (int64_t)(bytes / row_bytes);
    return KITH_OK;
}

static kith_status view_lists(kith_ctx *ctx, const kin_shard_folder *folder, kin_shard_name name,
                              kin_shard_view *view)
{
    const uint64_t rows = (uint64_t)rows_of(folder, name.shard);
    const uint64_t row_bytes = (uint64_t)view->k * sizeof *view->distances;
    kin_shard_facts facts;
    const void *data = NULL;
    KIN_TRY(facts_of(ctx, folder, name, view->file, &facts));
    KIN_TRY(view_ids(ctx, folder, name, view->file, false, &data));
    view->ids = data;
    KIN_TRY(kin_container_table(ctx, view->file, KIN_TAG_DISTANCES, rows, row_bytes, &data));
    view->distances = data;
    return view_keys(ctx, view);
}

kith_status kin_shard_view_open(kith_ctx *ctx, const kin_shard_folder *folder, int32_t shard,
                                int64_t shared, kin_shard_view *view)
{
    const kin_shard_name name = {shard, folder->versions[shard]};
    char *path = NULL;
    KIN_HOLD(hold, ctx);
    memset(view, 0, sizeof *view);
    view->k = folder->shape.k;
    KIN_TRY(path_of(&hold, folder, name, &path));
    KIN_TRY(kin_container_open(ctx, path, false, &view->file));
    KIN_TRY(view_lists(ctx, folder, name, view));
    if (view->shared != shared) {
        return fail_file(ctx, folder, name, "has keys of other rows than it should");
    }
    view->row = rows_of(folder, shard);
    kin_shard_view_rewind(view);
    return KITH_OK;
}

void kin_shard_view_close(kin_shard_view *view)
{
    kin_container_close(view->file);
    memset(view, 0, sizeof *view);
}

/* ---- Writing --------------------------------------------------------------------------------
 *
 * A shard's lists to disk: the frame of the file is put first, with room for the large sections;
 * then these, piece by piece, while each is still in the cache after its checksum, and the disk is
 * told to begin with what stands; then the frame again, with the checksums. */

enum { SECTIONS = 5, LARGE = 3, PIECE_BYTES = 1 << 20, URGED_BYTES = 32 << 20 };

/* One of the large sections. */
typedef struct place {
    uint64_t bytes;
    uint64_t offset;
    uint64_t sum;
} place;

typedef struct storing {
    kin_shard_folder *folder;
    const kin_shard_lists *lists;
    const kin_shard_brief *brief;
    kin_shard_facts facts;
    int64_t rows;
    kin_writer writer;
    place places[LARGE]; /* ids; keys; distances, or own */
    float *distances;    /* a piece of them */
} storing;

/* Bytes that are put behind each other from an offset on. */
typedef struct putting {
    kin_writer *writer;
    uint64_t offset;
    uint64_t urged; /* bytes before it are on their way to the disk */
    kin_checksum sum;
} putting;

static kith_status put(putting *p, const void *data, uint64_t bytes)
{
    const unsigned char *from = data;
    while (bytes > 0) {
        const uint64_t piece = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
        kin_checksum_add(&p->sum, from, piece);
        KIN_TRY(kin_writer_patch(p->writer, p->offset, from, piece));
        p->offset += piece;
        from += piece;
        bytes -= piece;
        if (p->offset - p->urged >= URGED_BYTES) {
            kin_writer_urge(p->writer, p->urged, p->offset - p->urged);
            p->urged = p->offset;
        }
    }
    return KITH_OK;
}

static putting begin(storing *s, int section)
{
    const uint64_t offset = s->places[section].offset;
    putting p = {.writer = &s->writer, .offset = offset, .urged = offset};
    kin_checksum_begin(&p.sum);
    return p;
}

static void end(storing *s, int section, putting *p)
{
    s->places[section].sum = kin_checksum_end(&p->sum);
    kin_writer_urge(&s->writer, p->urged, p->offset - p->urged);
}

static kith_status put_table(storing *s, int section, const void *data)
{
    putting p = begin(s, section);
    KIN_TRY(put(&p, data, s->places[section].bytes));
    end(s, section, &p);
    return KITH_OK;
}

static kith_status put_distances(storing *s, int section)
{
    const int64_t count = s->rows * s->folder->shape.k;
    const int64_t at_once = PIECE_BYTES / (int64_t)sizeof *s->distances;
    putting p = begin(s, section);
    for (int64_t i = 0; i < count; i += at_once) {
        const int64_t here = kin_min_i64(at_once, count - i);
        s->brief->convert(s->brief->arg, s->lists->keys + i, here, s->distances);
        KIN_TRY(put(&p, s->distances, (uint64_t)here * sizeof *s->distances));
    }
    end(s, section, &p);
    return KITH_OK;
}

/* Rows here and there, as many at a time as the piece takes. */
static kith_status put_shared(storing *s, int section)
{
    const int64_t k = s->folder->shape.k;
    const uint64_t row_bytes = (uint64_t)k * sizeof *s->lists->keys;
    unsigned char *piece = (unsigned char *)s->distances;
    uint64_t used = 0;
    putting p = begin(s, section);
    for (int64_t i = 0; i < s->rows; i++) {
        if (s->brief->shared[i] == 0) {
            continue;
        }
        if (used + row_bytes > PIECE_BYTES) {
            KIN_TRY(put(&p, piece, used));
            used = 0;
        }
        if (row_bytes > PIECE_BYTES) {
            KIN_TRY(put(&p, s->lists->keys + i * k, row_bytes));
            continue;
        }
        memcpy(piece + used, s->lists->keys + i * k, (size_t)row_bytes);
        used += row_bytes;
    }
    KIN_TRY(put(&p, piece, used));
    end(s, section, &p);
    return KITH_OK;
}

static kith_status put_frame(storing *s)
{
    const kin_shard_shape *shape = &s->folder->shape;
    const int32_t shard = s->facts.shard;
    const bool brief = s->brief != NULL;
    const kin_container_header header = {.kind = KITH_KIND_RESULT,
                                         .metric = shape->metric,
                                         .rows = s->rows,
                                         .k = shape->k,
                                         .corpus_rows = shape->rows,
                                         .recall = -1.0};
    const kin_section sections[SECTIONS] = {
        {.tag = KIN_SHARD_TAG_FACTS, .data = &s->facts, .bytes = sizeof s->facts},
        {.tag = KIN_SHARD_TAG_MET,
         .data = s->folder->met + (int64_t)shard * shape->shards,
         .bytes = (uint64_t)shape->shards},
        {.tag = KIN_TAG_IDS, .bytes = s->places[0].bytes, .placed = &s->places[0].sum},
        {.tag = KIN_SHARD_TAG_KEYS, .bytes = s->places[1].bytes, .placed = &s->places[1].sum},
        {.tag = brief ? KIN_TAG_DISTANCES : KIN_SHARD_TAG_OWN,
         .bytes = s->places[2].bytes,
         .placed = &s->places[2].sum}};
    return kin_container_put(&s->writer, &header, sections,
                             SECTIONS - (brief || shape->own ? 0 : 1));
}

static void measure(storing *s)
{
    const uint64_t entries = (uint64_t)s->rows * (uint64_t)s->folder->shape.k;
    int64_t shared = 0;
    for (int64_t i = 0; s->brief != NULL && i < s->rows; i++) {
        shared += s->brief->shared[i] != 0;
    }
    const uint64_t keys =
        s->brief != NULL ? (uint64_t)shared * (uint64_t)s->folder->shape.k : entries;
    s->places[0].bytes = entries * sizeof *s->lists->ids;
    s->places[1].bytes = keys * sizeof *s->lists->keys;
    s->places[2].bytes = entries * sizeof(uint32_t); /* a distance, or an id of own */
}

static kith_status put_lists(storing *s)
{
    KIN_TRY(put_table(s, 0, s->lists->ids));
    if (s->brief == NULL) {
        KIN_TRY(put_table(s, 1, s->lists->keys));
        return s->folder->shape.own ? put_table(s, 2, s->lists->own) : KITH_OK;
    }
    KIN_HOLD(hold, s->writer.ctx);
    KIN_TRY(kin_hold_alloc(&hold, &s->distances, PIECE_BYTES, 1, "a piece of distances"));
    KIN_TRY(put_shared(s, 1));
    return put_distances(s, 2);
}

static kith_status put_all(storing *s)
{
    measure(s);
    KIN_TRY(put_frame(s));
    for (int i = 0; i < LARGE && i < s->writer.hole_count; i++) {
        s->places[i].offset = s->writer.holes[i];
    }
    KIN_TRY(put_lists(s));
    KIN_TRY(kin_writer_rewind(&s->writer));
    return put_frame(s);
}

kith_status kin_shard_store(kith_ctx *ctx, kin_shard_folder *folder, int32_t shard, int32_t last,
                            const kin_shard_lists *lists, const kin_shard_brief *brief)
{
    const kin_shard_name name = {shard, folder->versions[shard] + 1};
    storing s = {.folder = folder,
                 .lists = lists,
                 .brief = brief,
                 .facts = {.format = KIN_SHARD_FACTS_FORMAT,
                           .shards = folder->shape.shards,
                           .shard = shard,
                           .last = last,
                           .version = name.version,
                           .job = folder->job},
                 .rows = rows_of(folder, shard)};
    char *path = NULL;
    KIN_HOLD(hold, ctx);
    KIN_TRY(path_of(&hold, folder, name, &path));
    KIN_TRY(kin_writer_open_as(ctx, path, false, &s.writer, NULL));
    KIN_TRY(kin_writer_close(&s.writer, put_all(&s)));
    folder->versions[shard] = name.version;
    folder->bytes_written += s.places[0].bytes + s.places[1].bytes +
                             (brief != NULL || folder->shape.own ? s.places[2].bytes : 0);
    return KITH_OK;
}
