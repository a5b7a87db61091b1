/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file_stream.h"

#include "base/base_mem.h"
#include "base/base_size.h"

#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

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
    KIN_TRY(kin_part_path(hold->ctx, p->index, name, bytes, &part, path));
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
    p->part_rows = kin_round_up(kin_ceil_div(p->rows, parts), kin_part_unit(p->k));
    p->count = (int32_t)kin_ceil_div(p->rows, p->part_rows);
    KIN_TRY(kin_part_home(ctx, path, &p->index));
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
