/* SPDX-License-Identifier: Apache-2.0
 * A shard's lists to disk: the frame of the file is put first, with room for the large sections;
 * then these, piece by piece, while each is still in the cache after its checksum, and the disk is
 * told to begin with what stands; then the frame again, with the checksums. */
#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "file/file_atomic.h"
#include "file/file_checksum.h"
#include "file/file_container.h"
#include "shard/shard_folder.h"

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
    KIN_TRY(kin_alloc(s->writer.ctx, &s->distances, PIECE_BYTES, 1, "a piece of distances"));
    kith_status status = put_shared(s, 1);
    if (status == KITH_OK) {
        status = put_distances(s, 2);
    }
    kin_free(s->writer.ctx, s->distances);
    return status;
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
                 .rows = kin_shard_file_rows(folder, shard)};
    char *path = NULL;
    KIN_TRY(kin_shard_file_path(ctx, folder, name, &path));
    kith_status status = kin_writer_open_own(ctx, path, &s.writer);
    if (status == KITH_OK) {
        status = kin_writer_close(&s.writer, put_all(&s));
    }
    if (status == KITH_OK) {
        folder->versions[shard] = name.version;
        folder->bytes_written += s.places[0].bytes + s.places[1].bytes +
                                 (brief != NULL || folder->shape.own ? s.places[2].bytes : 0);
    }
    kin_free(ctx, path);
    return status;
}
