/* SPDX-License-Identifier: Apache-2.0
 * Tables behind a few numbers:
 *
 *     vecs   each row: int32 cols, and cols values
 *     bin    uint32 rows, uint32 cols, rows
 *     knn    uint32 rows, uint32 k, ids of all rows, distances of all rows (big-ann-benchmarks)
 *     range  int32 rows, int32 all, how many each row has, all ids, all distances (the same)
 *
 * and what a .kith container is to those who read points or neighbours from it. */
#include "base/base_mem.h"
#include "base/base_size.h"
#include "file/file_open.h"
#include "host/host_threads.h"

#include <inttypes.h>

enum { VECS_HEADER = 4, BIN_HEADER = 8, KNN_ENTRY = 8, RANGE_HEADER = 8, CHECK_ROWS = 4096 };

static kin_item item_of(const kin_source *source)
{
    return kin_format_get_traits(source->format)->item;
}

/* Whether the input has so many bytes at all. */
static kith_status check_header(const kin_source *source, uint64_t header_bytes)
{
    KIN_SOUND_IF(source->input->bytes >= header_bytes, source->ctx, source->path,
                 "has %" PRIu64 " bytes, less than the %" PRIu64
                 " of its header (it is cut short: copy it again)",
                 source->input->bytes, header_bytes);
}

/* Whether it is header_bytes and rows x row_bytes long, no more and no less. */
static kith_status check_bytes(const kin_source *source, uint64_t header_bytes, uint64_t rows,
                               uint64_t row_bytes)
{
    const uint64_t have = source->input->bytes;
    const uint64_t need = kin_size_add(header_bytes, kin_size_mul(rows, row_bytes));
    if (have == need) {
        return KITH_OK;
    }
    return kin_fail_at(source->ctx, KITH_E_FORMAT, kin_at_file(source->path),
                       "has %" PRIu64 " bytes, but its header (%" PRIu64
                       " bytes) announces %" PRIu64 " rows of %" PRIu64 " bytes, %" PRIu64
                       " in all (%s)",
                       have, header_bytes, rows, row_bytes, need,
                       have < need ? "it is cut short: copy it again"
                                   : "it is too long: is it of another format?");
}

static int32_t load_i32(const unsigned char *at)
{
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* ---- Each row has its own length ------------------------------------------------------------- */

static kith_status vecs_shape(const kin_source *source, kin_shape *shape)
{
    const kin_input *input = source->input;
    const kin_item item = item_of(source);
    KIN_TRY(check_header(source, VECS_HEADER));
    const int32_t cols = load_i32(input->data);
    KIN_DAMAGED_IF(cols <= 0 || (uint64_t)cols > source->cols_max, source->ctx, source->path,
                   "row 0 says it has %" PRId32 " columns; 1 to %" PRIu64
                   " are possible (is it a .%s file?)",
                   cols, source->cols_max, kin_format_get_traits(source->format)->name);
    const uint64_t stride = VECS_HEADER + (uint64_t)cols * (uint64_t)item.bytes;
    KIN_DAMAGED_IF(input->bytes % stride != 0, source->ctx, source->path,
                   "has %" PRIu64 " bytes, not a multiple of the %" PRIu64 " that a row of %" PRId32
                   " %s columns takes (it is cut short, or its rows differ in length)",
                   input->bytes, stride, cols, kin_item_name(item));
    KIN_TRY(kin_shape_make(source, input->data + VECS_HEADER, input->bytes / stride, (uint64_t)cols,
                           item, shape));
    shape->stride = (int64_t)stride;
    return KITH_OK;
}

static kith_status vecs_check(const kin_source *source, const kin_shape *shape)
{
    for (int64_t row = 0; row < shape->rows; row++) {
        const int32_t cols = load_i32(shape->data + row * shape->stride - VECS_HEADER);
        KIN_DAMAGED_IF(cols != shape->cols, source->ctx, source->path,
                       "row %" PRId64 " says it has %" PRId32 " columns, row 0 has %" PRId64
                       " (all rows must be of one length)",
                       row, cols, shape->cols);
        if (row % CHECK_ROWS == 0) {
            KIN_TRY(kin_progress(source->ctx, "read", (double)row, (double)shape->rows));
        }
    }
    return KITH_OK;
}

const kin_reader kin_reader_vecs = {.shape = vecs_shape, .check = vecs_check};

/* ---- One header ------------------------------------------------------------------------------ */

/* The table behind rows and cols, of which each entry takes `entry` bytes in all. */
static kith_status headed_shape(const kin_source *source, kin_item item, int32_t entry,
                                kin_shape *shape)
{
    uint32_t header[2];
    KIN_TRY(check_header(source, sizeof header));
    memcpy(header, source->input->data, sizeof header);
    KIN_TRY(kin_shape_make(source, source->input->data + BIN_HEADER, header[0], header[1], item,
                           shape));
    return check_bytes(source, BIN_HEADER, header[0], kin_size_mul(header[1], (uint64_t)entry));
}

static kith_status bin_shape(const kin_source *source, kin_shape *shape)
{
    return headed_shape(source, item_of(source), item_of(source).bytes, shape);
}

const kin_reader kin_reader_bin = {.shape = bin_shape};

static kith_status knn_lists(const kin_source *source, kith_result *result)
{
    kin_shape ids;
    KIN_TRY(headed_shape(source, kin_item_make('u', 4), KNN_ENTRY, &ids));
    kin_shape distances = ids;
    distances.data = ids.data + ids.rows * ids.stride;
    distances.item = kin_item_make('f', 4);
    KIN_TRY(kin_result_take_ids(result, source->path, &ids));
    return kin_result_take_distances(result, source->path, &distances);
}

static kith_status knn_inspect(const kin_source *source, kith_file_info *info)
{
    kin_shape ids;
    KIN_TRY(headed_shape(source, kin_item_make('u', 4), KNN_ENTRY, &ids));
    kin_info_take_shape(info, KITH_KIND_RESULT, &ids);
    return KITH_OK;
}

const kin_reader kin_reader_knn = {.lists = knn_lists, .inspect = knn_inspect};

/* ---- Lists of different lengths -------------------------------------------------------------- */

kith_status kin_range_parse(kith_ctx *ctx, const char *path, const kin_input *input,
                            kin_range_table *table)
{
    const kin_source source = {.ctx = ctx, .path = path, .input = (kin_input *)(uintptr_t)input};
    KIN_TRY(check_header(&source, RANGE_HEADER));
    table->rows = load_i32(input->data);
    table->entries = load_i32(input->data + 4);
    KIN_DAMAGED_IF(table->rows < 0 || table->entries < 0, ctx, path,
                   "announces %" PRId64 " rows of %" PRId64
                   " entries in all (is it a .range file?)",
                   table->rows, table->entries);
    const uint64_t head = RANGE_HEADER + 4 * (uint64_t)table->rows;
    KIN_TRY(check_bytes(&source, head, (uint64_t)table->entries, KNN_ENTRY));
    table->counts = (const int32_t *)(const void *)(input->data + RANGE_HEADER);
    table->ids = (const uint32_t *)(const void *)(input->data + head);
    table->distances = (const float *)(const void *)(table->ids + table->entries);
    int64_t all = 0;
    for (int64_t i = 0; i < table->rows; i++) {
        KIN_DAMAGED_IF(table->counts[i] < 0, ctx, path,
                       "row %" PRId64 " says it has %" PRId32
                       " entries (it is damaged: copy it again)",
                       i, table->counts[i]);
        all += table->counts[i];
    }
    KIN_SOUND_IF(all == table->entries, ctx, path,
                 "its rows have %" PRId64 " entries, its header says %" PRId64
                 " (it is damaged: copy it again)",
                 all, table->entries);
}

static kith_status range_inspect(const kin_source *source, kith_file_info *info)
{
    kin_range_table table;
    KIN_TRY(kin_range_parse(source->ctx, source->path, source->input, &table));
    info->kind = KITH_KIND_RANGES;
    info->rows = table.rows;
    return KITH_OK;
}

const kin_reader kin_reader_range = {.inspect = range_inspect};

/* ---- Containers: points, neighbours, or what it is ------------------------------------------- */

static bool has_points(const kin_container_header *header)
{
    return header->kind == KITH_KIND_POINTS || header->kind == KITH_KIND_EXACT_INDEX ||
           header->kind == KITH_KIND_TREE_INDEX || header->kind == KITH_KIND_GRAPH_INDEX;
}

static kith_status read_points(const kin_source *source, kith_points *points)
{
    kith_ctx *ctx = source->ctx;
    KIN_TRY(kin_container_open(ctx, source->path, true, &points->container));
    const kin_container_header *header = &points->container->header;
    const kin_item item = kin_item_of(header->dtype);
    KIN_DAMAGED_IF(!has_points(header), ctx, source->path,
                   "holds neighbours, not points (give the points)");
    KIN_DAMAGED_IF(item.bytes == 0, ctx, source->path,
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
    const kin_container_header *header = &result->container->header;
    KIN_DAMAGED_IF(header->kind != KITH_KIND_GRAPH && header->kind != KITH_KIND_RESULT, ctx,
                   source->path, "holds %s, not k neighbours a row (give a graph or a result)",
                   header->kind == KITH_KIND_RANGES  ? "lists of different lengths"
                   : header->kind == KITH_KIND_PAIRS ? "pairs"
                                                     : "points");
    KIN_TRY(kin_shape_check(ctx, source->path, (uint64_t)header->rows, (uint64_t)header->k,
                            source->cols_max));
    const bool parts = kin_container_has(result->container, KIN_TAG_PARTS);
    KIN_DAMAGED_IF(!parts && !kin_container_has(result->container, KIN_TAG_IDS), ctx, source->path,
                   "has no ids (it is damaged: make it again)");
    result->meta = meta_of(header);
    result->neighbors.rows = header->rows;
    result->neighbors.k = header->k;
    KIN_TRY(parts ? kin_parts_map(result, source->path) : take_tables(result));
    return kin_result_check_ids(result, source->path, false);
}

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
    KIN_HOLD(hold, source->ctx);
    KIN_TRY(kin_container_hold(&hold, source->path, true, &container));
    const kin_container_header *header = &container->header;
    const kith_result_meta meta = meta_of(header);
    info->kind = header->kind;
    info->dtype = header->dtype;
    kin_info_take_meta(info, &meta);
    info->rows = header->rows;
    info->cols = has_points(header) ? header->cols : header->k;
    info->file_bytes = container->map.bytes;
    return take_more(source, container, info);
}

const kin_reader kin_reader_kith = {
    .points = read_points, .lists = read_lists, .inspect = inspect, .opens = true};
