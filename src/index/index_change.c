/* SPDX-License-Identifier: Apache-2.0
 * Rows that come and go. What the index will be is made beside what it is, and takes its place when
 * all has succeeded; but a tree of its own, on the processor, is changed where it stands. An exact
 * index of rows on a GPU has its rows there, and takes new ones in the frame and the cells that it
 * has. */
#include "index/index.h"

enum { ROWS_A_PIECE = 4096, MOST_RUNS = 4096 };
static const int64_t MOST_ROWS = (int64_t)UINT32_MAX - 1;

typedef struct change {
    kith_ctx *ctx; /* the index' own */
    kith_index *index;
    kith_matrix before; /* its rows, on the host or the index' GPU */
    void *copy;         /* of them on the host, or NULL */
    void *rows;         /* of what it will be, in host memory, */
    void *there;        /* or in that of the index' GPU, */
    int64_t there_rows; /* which has room for so many */
    kin_index_source source;
    kin_index_kept *kept;
    uint8_t *gone;     /* a byte for each row that there was; NULL: rows are added */
    uint32_t *removed; /* those rows, rising */
    int64_t removed_count;
    kith_matrix added;
    bool added_there; /* they lie on a GPU */
} change;

/* ---- Rows ------------------------------------------------------------------------------------ */

/* An exact index of rows on a GPU stays there. */
static bool stays_there(const kith_index *index)
{
    return index->method == KITH_METHOD_EXACT && kin_index_rows_on_device(index->kept);
}

/* Room that the index has behind its rows is taken; else, for rows that are added, more than they
 * need: others will follow. */
static kith_status make_room_there(change *c, int64_t rows, int64_t row_bytes)
{
    const kin_index_kept *kept = c->index->kept;
    if (c->gone == NULL && rows <= kept->there_rows) {
        c->there = kept->there;
        c->there_rows = kept->there_rows;
        return KITH_OK;
    }
    c->there_rows = c->gone == NULL ? kin_screen_gpu_room_of(rows) : rows;
    return kin_gpu_alloc(c->ctx, c->index->gpu, &c->there, (uint64_t)c->there_rows,
                         (uint64_t)row_bytes, "the changed points");
}

static kith_status make_room(change *c, int64_t rows)
{
    const kith_matrix *points = &c->before;
    const int64_t row_bytes = (int64_t)points->cols * kith_dtype_bytes(points->dtype);
    const bool there = stays_there(c->index);
    if (there) {
        KIN_TRY(make_room_there(c, rows, row_bytes));
    } else {
        KIN_TRY(
            kin_alloc(c->ctx, &c->rows, (uint64_t)rows, (uint64_t)row_bytes, "the changed points"));
    }
    c->source = (kin_index_source){
        .points = *points, .distance = c->index->kept->prepared.distance, .name = "points"};
    c->source.distance.isa = c->ctx->isa;
    c->source.leaf_points = c->index->kept->planted.leaf_points;
    c->source.points.data = there ? c->there : c->rows;
    c->source.place = there ? KIN_GPU_DATA_ON_DEVICE : 0;
    c->source.points.rows = rows;
    c->source.points.stride_bytes = row_bytes;
    return KITH_OK;
}

static void copy_row(const change *c, int64_t to, const kith_matrix *from, int64_t row)
{
    const int64_t row_bytes = c->source.points.stride_bytes;
    memcpy((unsigned char *)c->rows + to * row_bytes,
           (const unsigned char *)from->data + row * from->stride_bytes, (size_t)row_bytes);
}

/* Rows of before, or of what is added, to place `to` of the new ones on the GPU. */
static kith_status put_there(const change *c, int64_t to, const kith_matrix *from, int64_t first,
                             int64_t count)
{
    const kin_gpu_rows rows = kin_gpu_rows_of(from, first, count);
    char *at = (char *)c->there + to * rows.row_bytes;
    return (from == &c->before ? c->copy == NULL : c->added_there)
               ? kin_gpu_copy(c->ctx, c->index->gpu, at, rows.from,
                              (uint64_t)(count * rows.row_bytes))
               : kin_gpu_upload_rows(c->ctx, c->index->gpu, at, &rows);
}

/* Memory that nobody has touched yet comes a page at a time: all threads ask for it. */
static kith_status append_row(void *arg, int64_t row, int32_t thread)
{
    const change *c = arg;
    const int64_t first = c->before.rows;
    (void)thread;
    copy_row(c, row, row < first ? &c->before : &c->added, row < first ? row : row - first);
    return KITH_OK;
}

static kith_status check_added(kith_ctx *ctx, const kith_matrix *points, const kith_matrix *given,
                               kith_matrix *added)
{
    KIN_TRY(kin_check_matrix(ctx, given, "points", added));
    KIN_TRY(kin_check_cols(ctx, points, "the index", added, "points"));
    KIN_REFUSE_IF(added->dtype != points->dtype, ctx, "points",
                  "are %s and the index' are %s (convert them)", kith_dtype_name(added->dtype),
                  kith_dtype_name(points->dtype));
    KIN_ALLOW_IF(added->rows <= MOST_ROWS - points->rows, ctx, NULL,
                 "%lld rows and %lld more are above the %lld that an index may have (add fewer, or "
                 "keep two)",
                 (long long)points->rows, (long long)added->rows, (long long)MOST_ROWS);
}

/* Rows on a GPU, any, come to those that are there, and stand row behind row. */
static kith_status find_added(change *c)
{
    const kith_matrix *added = &c->added;
    const int64_t row_bytes = (int64_t)added->cols * kith_dtype_bytes(added->dtype);
    c->added_there = c->index->gpu != NULL && kin_gpu_index_of(added->data) >= 0;
    KIN_REFUSE_IF(c->added_there && !stays_there(c->index), c->ctx, "points",
                  "lie on a GPU, and the index has its points in host memory (copy them there)");
    KIN_ALLOW_IF(!c->added_there || added->stride_bytes == row_bytes, c->ctx, "points",
                 "lie on a GPU %lld bytes apart, must be %lld (copy them)",
                 (long long)added->stride_bytes, (long long)row_bytes);
}

/* Values are looked at where they are prepared, before anything is made of them. */
static kith_status append_rows(change *c, const kith_matrix *given)
{
    KIN_TRY(check_added(c->ctx, &c->before, given, &c->added));
    KIN_TRY(find_added(c));
    if (stays_there(c->index)) {
        KIN_TRY(make_room(c, c->before.rows + c->added.rows));
        c->source.like = c->index->kept->resident;
        KIN_TRY(c->there == c->before.data ? KITH_OK
                                           : put_there(c, 0, &c->before, 0, c->before.rows));
        return put_there(c, c->before.rows, &c->added, 0, c->added.rows);
    }
    const kin_distance *distance = &c->index->kept->prepared.distance;
    KIN_TRY(kin_metric_check_box(c->ctx, &c->added, distance, "points"));
    KIN_TRY(make_room(c, c->before.rows + c->added.rows));
    return kin_parallel_rows(c->ctx, NULL, c->source.points.rows, ROWS_A_PIECE, append_row, c);
}

static kith_status mark_rows(change *c, const uint32_t *ids, int64_t count)
{
    const int64_t rows = c->before.rows;
    for (int64_t i = 0; i < count; i++) {
        KIN_FAIL_IF((int64_t)ids[i] >= rows, c->ctx, KITH_E_ARGUMENT, kin_at_row("ids", i),
                    "is %lu, must be below %lld (rows count from 0)", (unsigned long)ids[i],
                    (long long)rows);
        c->removed_count += c->gone[ids[i]] == 0;
        c->gone[ids[i]] = 1;
    }
    KIN_ALLOW_IF(c->removed_count < rows, c->ctx, "ids",
                 "name all %lld rows, and an index has at least one (leave some out)",
                 (long long)rows);
}

/* What is left: in the copy on the host, where there is one, else a run after the other. */
static kith_status take_out_there(change *c)
{
    const int64_t rows = c->before.rows;
    const int64_t row_bytes = c->source.points.stride_bytes;
    char *copy = c->copy;
    int64_t kept = 0;
    for (int64_t first = 0, out = 0; first < rows; out++) {
        const int64_t end = out < c->removed_count ? (int64_t)c->removed[out] : rows;
        if (copy != NULL) {
            memmove(copy + kept * row_bytes, copy + first * row_bytes,
                    (size_t)((end - first) * row_bytes));
        } else if (end > first) {
            KIN_TRY(put_there(c, kept, &c->before, first, end - first));
        }
        kept += end - first;
        first = end + 1;
    }
    return copy != NULL ? put_there(c, 0, &c->before, 0, kept) : KITH_OK;
}

/* What is left moves up. */
static kith_status take_rows_out(change *c, const uint32_t *ids, int64_t count)
{
    const kith_matrix *points = &c->before;
    KIN_REFUSE_IF(count < 0 || (count > 0 && ids == NULL), c->ctx, "count",
                  "is %lld with ids %s (give an array of that length)", (long long)count,
                  ids == NULL ? "NULL" : "set");
    KIN_TRY(kin_alloc_zero(c->ctx, &c->gone, (uint64_t)points->rows, sizeof *c->gone, "ids"));
    KIN_TRY(mark_rows(c, ids, count));
    KIN_TRY(kin_alloc(c->ctx, &c->removed, (uint64_t)c->removed_count, sizeof *c->removed, "ids"));
    KIN_TRY(make_room(c, points->rows - c->removed_count));
    int64_t kept = 0;
    for (int64_t i = 0; i < points->rows; i++) {
        if (c->gone[i] != 0) {
            c->removed[i - kept] = (uint32_t)i;
        } else if (c->there == NULL) {
            copy_row(c, kept++, points, i);
        } else {
            kept += 1;
        }
    }
    return c->there != NULL ? take_out_there(c) : KITH_OK;
}

/* ---- What is kept of them -------------------------------------------------------------------- */

/* One that can be changed: the index' own, or a copy of one that lies in a file. */
static kith_status change_tree(change *c)
{
    kith_index *index = c->index;
    kin_index_kept *kept = c->kept;
    kin_tree *tree = &index->kept->tree;
    KIN_TRY(kin_prepare_rows(c->ctx, &c->source.points, &c->source.distance, "points",
                             KIN_ROWS_CHECKED, &kept->prepared));
    if (index->views) {
        tree = &kept->tree;
        KIN_TRY(kin_tree_store_copy(c->ctx, &index->kept->tree, tree));
    }
    if (c->gone == NULL) {
        KIN_TRY(kin_tree_add(c->ctx, &kept->prepared, c->before.rows, tree));
    } else {
        kin_tree_remove(c->ctx, &index->kept->prepared.groups, &kept->prepared, c->removed,
                        c->removed_count, tree);
    }
    if (!index->views) { /* moves */
        kept->tree = *tree;
        *tree = (kin_tree){0};
    }
    c->ctx->report.seconds_prepare = kept->prepared.seconds_prepare;
    c->ctx->report.distinct_rows = kept->prepared.groups.count;
    return KITH_OK;
}

static kith_status change_graph(change *c)
{
    kin_index_graph *graph = &c->kept->graph;
    return c->gone == NULL
               ? kin_index_grow_graph(c->ctx, &c->source, c->index, graph)
               : kin_index_shrink_graph(c->ctx, &c->before, &c->source, c->gone, c->index, graph);
}

static kith_status change_kept(change *c)
{
    const kith_method method = c->index->method;
    if (c->index->gpu != NULL) {
        c->ctx->device_index = c->index->gpu->index; /* wherever the caller's context computes */
    }
    KIN_TRY(method == KITH_METHOD_GRAPH ? change_graph(c) : KITH_OK);
    if (c->index->gpu != NULL) {
        return kin_index_stay_on_gpu(c->ctx, &c->source, c->index, c->kept);
    }
    return method == KITH_METHOD_TREE ? change_tree(c)
                                      : kin_index_keep_cpu(c->ctx, &c->source, method, c->kept);
}

/* Hands the index what it is now, or frees it. */
static kith_status end_change(change *c, kith_status status)
{
    kith_index *index = c->index;
    kin_free(c->ctx, c->copy);
    kin_free(c->ctx, c->removed);
    kin_free(c->ctx, c->gone);
    if (status != KITH_OK) {
        kin_index_kept_free(c->ctx, index->gpu, false, c->kept);
        kin_free(c->ctx, c->rows);
        if (c->there != index->kept->there) {
            kin_gpu_enter(index->gpu);
            kin_gpu_free(index->gpu, c->there);
            kin_gpu_leave(index->gpu);
        }
        return status;
    }
    c->kept->there = c->there;
    c->kept->there_rows = c->there_rows;
    if (c->there == index->kept->there) { /* which stays, with more rows in it */
        index->kept->there = NULL;
    }
    kin_index_kept_free(c->ctx, index->gpu, index->views, index->kept);
    kin_free(c->ctx, index->rows);
    kin_container_close(index->container);
    index->container = NULL;
    index->views = false;
    index->kept = c->kept;
    index->rows = c->rows;
    return KITH_OK;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* What is asked for: points that come, or rows that go. */
typedef struct rows_to_change {
    const kith_matrix *points;
    const uint32_t *ids;
    int64_t count;
    bool go;
} rows_to_change;

/* The rows as they were: where they are, or on the host, whence what stays on a GPU comes where
 * they stand apart there, or where what is left are many short runs. */
static kith_status find_before(change *c, const rows_to_change *rows)
{
    const kith_matrix *points = &c->index->kept->prepared.rows.matrix;
    const int64_t row_bytes = (int64_t)points->cols * kith_dtype_bytes(points->dtype);
    if (stays_there(c->index) && points->stride_bytes == row_bytes && rows->count <= MOST_RUNS) {
        c->before = *points;
        return KITH_OK;
    }
    return kin_index_host_rows(c->ctx, c->index, &c->before, &c->copy);
}

static kith_status make_rows(change *c, const rows_to_change *rows)
{
    kin_gpu *gpu = stays_there(c->index) ? c->index->gpu : NULL;
    if (gpu != NULL) {
        kin_gpu_enter(gpu);
    }
    const kith_status status =
        rows->go ? take_rows_out(c, rows->ids, rows->count) : append_rows(c, rows->points);
    kin_device_leave(c->ctx, gpu);
    return status;
}

/* In the index' own context. */
static kith_status change_in(kith_ctx *own, kith_index *index, const rows_to_change *rows)
{
    change c = {.ctx = own, .index = index};
    kith_status status = find_before(&c, rows);
    KIN_THEN(status, make_rows(&c, rows));
    KIN_THEN(status, kin_alloc_zero(own, &c.kept, 1, sizeof *c.kept, "an index"));
    KIN_THEN(status, change_kept(&c));
    return end_change(&c, status);
}

static kith_status change_alone(kith_ctx *ctx, kith_index *index, const rows_to_change *rows)
{
    kin_index_call call;
    if (index == NULL) {
        return kin_index_enter(ctx, index);
    }
    kin_guard_enter(index->guard, true);
    kith_status status = kin_index_call_begin(ctx, index->own, &call);
    KIN_THEN(status, kin_index_call_end(&call, change_in(index->own, index, rows)));
    kin_guard_leave(index->guard);
    return status;
}

kith_status kith_index_add(kith_ctx *ctx, kith_index *index, const kith_matrix *points)
{
    const rows_to_change rows = {.points = points};
    KIN_CALL(ctx, change_alone(ctx, index, &rows));
}

kith_status kith_index_remove(kith_ctx *ctx, kith_index *index, const uint32_t *ids, int64_t count)
{
    const rows_to_change rows = {.ids = ids, .count = count, .go = true};
    KIN_CALL(ctx, change_alone(ctx, index, &rows));
}
