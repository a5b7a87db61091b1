/* SPDX-License-Identifier: Apache-2.0
 * What a .kith container is to those who read points or neighbours from it, or ask what it is. */
#include "base/base_try.h"
#include "file/file_open.h"

static bool has_points(const kin_container_header *header)
{
    return header->kind == KITH_KIND_POINTS || header->kind == KITH_KIND_EXACT_INDEX ||
           header->kind == KITH_KIND_TREE_INDEX || header->kind == KITH_KIND_GRAPH_INDEX;
}

static kith_status read_points(const kin_source *source, kith_points *points)
{
    kith_ctx *ctx = source->ctx;
    KIN_TRY(kin_container_open(ctx, source->path, true, &points->container));
    const kin_container_header *header = kin_container_get_header(points->container);
    const kin_item item = kin_item_of(header->dtype);
    KIN_FAIL_IF(!has_points(header), ctx, KITH_E_FORMAT, kin_at_file(source->path),
                "holds neighbours, not points (give the points)");
    KIN_FAIL_IF(item.bytes == 0, ctx, KITH_E_FORMAT, kin_at_file(source->path),
                "does not say what type its points have (it is damaged: make it again)");
    kin_shape shape;
    KIN_TRY(
        kin_shape_make(source, NULL, (uint64_t)header->rows, (uint64_t)header->cols, item, &shape));
    const void *data = NULL;
    KIN_TRY(kin_container_table(ctx, points->container, KIN_TAG_POINTS, (uint64_t)shape.rows,
                                (uint64_t)shape.stride, &data));
    shape.data = data;
    return kin_points_take(points, source->path, &shape);
}

/* ---- Neighbours ------------------------------------------------------------------------------ */

static kith_result_meta meta_of(const kin_container_header *header)
{
    kith_result_meta meta = kith_result_meta_default();
    meta.kind = header->kind;
    meta.metric = header->metric;
    meta.exact = header->exact;
    meta.corpus_rows = header->corpus_rows;
    meta.recall = header->recall;
    meta.recall_at = header->recall_at;
    meta.points = header->points;
    return meta;
}

/* A section as the neighbours' own table; NULL where the file has none. The view is read-only, as
 * the public header says, though its pointer is not const. */
static kith_status take_section(kith_result *result, const char *tag, uint64_t item_bytes,
                                void *out)
{
    const kith_neighbors *n = &result->neighbors;
    const void *data = NULL;
    if (kin_container_has(result->container, tag)) {
        KIN_TRY(kin_container_table(result->ctx, result->container, tag, (uint64_t)n->rows,
                                    (uint64_t)n->k * item_bytes, &data));
    }
    memcpy(out, &data, sizeof data);
    return KITH_OK;
}

static kith_status take_tables(kith_result *result)
{
    kith_neighbors *n = &result->neighbors;
    if (kin_container_has(result->container, KIN_TAG_PART)) {
        kin_part part;
        KIN_TRY(kin_part_read(result->ctx, result->container, &part));
        result->meta.first_row = part.first;
    }
    KIN_TRY(take_section(result, KIN_TAG_IDS, sizeof *n->ids, &n->ids));
    KIN_TRY(take_section(result, KIN_TAG_DISTANCES, sizeof *n->distances, &n->distances));
    return take_section(result, KIN_TAG_DISTANCES64, sizeof *n->distances64, &n->distances64);
}

static kith_status read_lists(const kin_source *source, kith_result *result)
{
    kith_ctx *ctx = source->ctx;
    KIN_TRY(kin_container_open(ctx, source->path, true, &result->container));
    const kin_container_header *header = kin_container_get_header(result->container);
    KIN_FAIL_IF(header->kind != KITH_KIND_GRAPH && header->kind != KITH_KIND_RESULT, ctx,
                KITH_E_FORMAT, kin_at_file(source->path),
                "holds %s, not k neighbours a row (give a graph or a result)",
                header->kind == KITH_KIND_RANGES  ? "lists of different lengths"
                : header->kind == KITH_KIND_PAIRS ? "pairs"
                                                  : "points");
    KIN_TRY(kin_shape_check(ctx, source->path, (uint64_t)header->rows, (uint64_t)header->k,
                            source->cols_max));
    const bool parts = kin_container_has(result->container, KIN_TAG_PARTS);
    KIN_FAIL_IF(!parts && !kin_container_has(result->container, KIN_TAG_IDS), ctx, KITH_E_FORMAT,
                kin_at_file(source->path), "has no ids (it is damaged: make it again)");
    result->meta = meta_of(header);
    result->neighbors.rows = header->rows;
    result->neighbors.k = header->k;
    KIN_TRY(parts ? kin_parts_map(result, source->path) : take_tables(result));
    return kin_result_check_ids(result, source->path, false);
}

/* ---- What it is ------------------------------------------------------------------------------ */

static kith_status take_tree(kith_ctx *ctx, const kin_container *container, kith_file_info *info)
{
    kin_stored_tree tree;
    KIN_TRY(kin_container_tree(ctx, container, &tree));
    info->tree_height = tree.height;
    info->tree_rows = tree.points;
    info->tree_slack = tree.places - tree.points;
    return KITH_OK;
}

/* What a container of a certain kind has beside its header. */
static kith_status take_more(const kin_source *source, const kin_container *container,
                             kith_file_info *info)
{
    kith_ctx *ctx = source->ctx;
    info->periodic = kin_container_has(container, KIN_TAG_PERIOD);
    if (info->kind == KITH_KIND_TREE_INDEX) {
        return take_tree(ctx, container, info);
    }
    if (kin_container_has(container, KIN_TAG_PART)) {
        kin_part part;
        KIN_TRY(kin_part_read(ctx, container, &part));
        info->part = part.number + 1;
        info->parts = part.count;
        info->first_row = part.first;
        return KITH_OK;
    }
    return kin_container_has(container, KIN_TAG_PARTS)
               ? kin_parts_inspect(ctx, source->path, container, &info->parts, &info->file_bytes)
               : KITH_OK;
}

static kith_status inspect(const kin_source *source, kith_file_info *info)
{
    kin_container *container = NULL;
    KIN_TRY(kin_container_open(source->ctx, source->path, true, &container));
    const kin_container_header *header = kin_container_get_header(container);
    const kith_result_meta meta = meta_of(header);
    info->kind = header->kind;
    info->dtype = header->dtype;
    kin_info_take_meta(info, &meta);
    info->rows = header->rows;
    info->cols = has_points(header) ? header->cols : header->k;
    info->file_bytes = kin_container_file_bytes(container);
    const kith_status status = take_more(source, container, info);
    kin_container_close(container);
    return status;
}

const kin_reader kin_reader_kith = {
    .points = read_points, .lists = read_lists, .inspect = inspect, .opens = true};
