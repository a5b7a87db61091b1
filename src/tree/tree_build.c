/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A node's points are split at a median of the column in which their box is widest
 * (tree_split.c). Where nodes are fewer than threads, all threads split one together; below,
 * subtrees are dealt to threads (tree_split.c). The two parts of a node are a fact of the data, and
 * numbers rise in each: the tree has the same bytes for any number of threads.
 *
 * Cost. n log2(n / leaf) steps, a few nanoseconds each.
 */
#include "host/host_threads.h"
#include "tree/tree.h"

enum {
    ROWS_A_TASK = 2048,
    TOGETHER_LEAST = 4 * KIN_TREE_CHUNK, /* smaller nodes are split by one thread */
    SUBTREES_A_THREAD = 4,
    ROOM = 4 /* a roomy tree has so many points for each hole */
};

/* ---- Rows in float32 ------------------------------------------------------------------------- */

bool kin_tree_allows(kith_metric metric)
{
    return metric == KITH_EUCLIDEAN || metric == KITH_SQEUCLIDEAN || metric == KITH_MANHATTAN ||
           metric == KITH_CHEBYSHEV || kin_place_has(metric);
}

kin_tree_norm kin_tree_norm_of(kith_metric metric)
{
    return metric == KITH_MANHATTAN   ? KIN_NORM_ONE
           : metric == KITH_CHEBYSHEV ? KIN_NORM_MOST
                                      : KIN_NORM_TWO;
}

void kin_tree_take_box(int32_t cols, const double *period, double *low, double *high)
{
    for (int32_t c = 0; period != NULL && c < cols; c++) {
        low[c] = period[c] > 0.0 ? 0.0 : low[c];
        high[c] = period[c] > 0.0 ? period[c] : high[c];
    }
}

bool kin_tree_take_period(kin_tree *tree, const double *period, bool given)
{
    double sum = 0.0;
    bool same = true;
    for (int32_t c = 0; tree->wraps && c < tree->cols; c++) {
        double lost = 0.0;
        const float stored = kin_tree_round_period(period[c], tree->scale, &lost);
        same = same && (!given || tree->period[c] == stored);
        if (!given) {
            tree->period[c] = stored;
        }
        sum = kin_tree_lost_add(tree->norm, sum, lost);
    }
    tree->slack = kin_tree_lost_whole(tree->norm, sum);
    return same;
}

double kin_tree_round(const kin_tree *tree, double *values, float *out)
{
    double sum = 0.0;
    double slack = tree->slack;
    if (tree->places) {
        slack = kin_place_lost(values[0], values[1]) * tree->scale;
        kin_place_turn(values);
    }
    for (int32_t c = 0; c < tree->cols; c++) {
        double lost = 0.0;
        out[c] = kin_tree_round_value(values[c], tree->shift[c], tree->scale, &lost);
        sum = kin_tree_lost_add(tree->norm, sum, lost);
    }
    return kin_tree_lost_whole(tree->norm, sum) + slack;
}

static double *load(const kin_tree_build *b, int64_t number, int32_t thread)
{
    return kin_metric_load(&b->corpus->distance, &b->corpus->rows, b->ids[number],
                           kin_tree_scratch(b, thread))
        .values;
}

/* Rows of float32 that a tree keeps as they are, but for its scale. */
static bool is_plain(const kin_tree_build *b)
{
    return b->corpus->rows.matrix.dtype == KITH_F32 && b->corpus->rows.transforms == NULL &&
           !b->tree->places;
}

static const char *plain_row(const kin_tree_build *b, int64_t number)
{
    const kith_matrix *m = &b->corpus->rows.matrix;
    return (const char *)m->data + b->ids[number] * m->stride_bytes;
}

/* Rows may start at any byte. */
static float plain_value(const char *row, int32_t column)
{
    float value;
    memcpy(&value, row + (size_t)column * sizeof value, sizeof value);
    return value;
}

static void measure_plain(const kin_tree_build *b, int64_t first, int64_t last, double *low,
                          double *high)
{
    for (int64_t i = first; i < last; i++) {
        const char *row = plain_row(b, i);
        for (int32_t c = 0; c < b->tree->cols; c++) {
            const double value = plain_value(row, c);
            low[c] = value < low[c] ? value : low[c];
            high[c] = value > high[c] ? value : high[c];
        }
    }
}

static kith_status measure_rows(void *arg, int64_t task, int32_t thread)
{
    const kin_tree_build *b = arg;
    const int32_t cols = b->tree->cols;
    double *low = b->low + thread * b->apart;
    double *high = b->high + thread * b->apart;
    const int64_t last = kin_min_i64((task + 1) * ROWS_A_TASK, b->points);
    if (is_plain(b)) {
        measure_plain(b, task * ROWS_A_TASK, last, low, high);
        return KITH_OK;
    }
    for (int64_t i = task * ROWS_A_TASK; i < last; i++) {
        double *values = load(b, i, thread);
        if (b->tree->places) {
            kin_place_turn(values);
        }
        for (int32_t c = 0; c < cols; c++) {
            low[c] = values[c] < low[c] ? values[c] : low[c];
            high[c] = values[c] > high[c] ? values[c] : high[c];
        }
    }
    return KITH_OK;
}

/* Types narrower than float64 are stored as they are: a shift would cost them bits. */
void kin_tree_units(kith_dtype dtype, int32_t cols, const double *low, const double *high,
                    double *shift, double *scale)
{
    double largest = 0.0;
    for (int32_t c = 0; c < cols; c++) {
        /* + 0.0: of zeros of both signs, either may have been found. */
        shift[c] = dtype == KITH_F64 ? 0.5 * low[c] + 0.5 * high[c] + 0.0 : 0.0;
        largest = fmax(largest, fmax(high[c] - shift[c], shift[c] - low[c]));
    }
    int exponent = 0;
    (void)frexp(largest, &exponent);
    exponent = (int)fmin(fmax(40.0 - (double)exponent, -1000.0), 1000.0);
    *scale = largest > 0.0 ? ldexp(1.0, exponent) : 1.0;
}

static kith_status choose_units(kin_tree_build *b)
{
    kin_tree *tree = b->tree;
    const int32_t cols = tree->cols;
    const int32_t threads = b->ctx->threads;
    const double *period = b->corpus->distance.period;
    for (int64_t i = 0; i < threads * b->apart; i++) {
        b->low[i] = INFINITY;
        b->high[i] = -INFINITY;
    }
    KIN_TRY(kin_parallel(b->ctx, "tree", kin_ceil_div(tree->points, ROWS_A_TASK), measure_rows, b));
    for (int32_t c = 0; c < cols; c++) {
        for (int32_t t = 1; t < threads; t++) {
            b->low[c] = fmin(b->low[c], b->low[t * b->apart + c]);
            b->high[c] = fmax(b->high[c], b->high[t * b->apart + c]);
        }
    }
    kin_tree_take_box(cols, period, b->low, b->high);
    kin_tree_units(tree->places ? KITH_F64 : b->corpus->rows.matrix.dtype, cols, b->low, b->high,
                   tree->shift, &tree->scale);
    tree->scale = tree->places ? fmin(tree->scale, KIN_PLACE_MOST_SCALE) : tree->scale;
    tree->widen = kin_tree_widen(cols);
    tree->floor = kin_tree_floor(tree->scale);
    (void)kin_tree_take_period(tree, period, false);
    return KITH_OK;
}

/* A float times a power of two that is not below 1, and a float itself, loses nothing: what
 * kin_tree_round gives, sooner. */
static bool scales_alone(const kin_tree_build *b)
{
    return is_plain(b) && b->tree->scale >= 1.0 && b->tree->scale <= 0x1p127;
}

static double scale_row(const kin_tree_build *b, int64_t number, float *out)
{
    const char *row = plain_row(b, number);
    const float scale = (float)b->tree->scale;
    for (int32_t c = 0; c < b->tree->cols; c++) {
        out[c] = plain_value(row, c) * scale + 0.0F;
    }
    return b->tree->slack;
}

static kith_status round_rows(void *arg, int64_t task, int32_t thread)
{
    kin_tree_build *b = arg;
    const int64_t last = kin_min_i64((task + 1) * ROWS_A_TASK, b->points);
    const bool scales = scales_alone(b);
    double most = 0.0;
    for (int64_t i = task * ROWS_A_TASK; i < last; i++) {
        float *row = b->rows + i * b->wide;
        for (int32_t c = b->tree->cols; c < b->wide; c++) {
            row[c] = 0.0F;
        }
        const double lost =
            scales ? scale_row(b, i, row) : kin_tree_round(b->tree, load(b, i, thread), row);
        b->lost[i] = kin_tree_lost_kept(lost);
        b->order[i] = (uint32_t)i;
        most = lost > most ? lost : most;
    }
    if (most > 0.0) {
        atomic_store(&b->loses, true);
    }
    return KITH_OK;
}

static kith_status round_all(kin_tree_build *b)
{
    return kin_parallel(b->ctx, "tree", kin_ceil_div(b->points, ROWS_A_TASK), round_rows, b);
}

/* ---- Levels ---------------------------------------------------------------------------------- */

static float *box_room(const kin_tree_build *b, int32_t thread)
{
    return (float *)(void *)kin_tree_scratch(b, thread);
}

static kith_status split_node(void *arg, int64_t task, int32_t thread)
{
    const kin_tree_build *b = arg;
    kin_tree_split_alone(b, b->subtree_level, task, box_room(b, thread));
    return KITH_OK;
}

static kith_status build_subtree(void *arg, int64_t task, int32_t thread)
{
    const kin_tree_build *b = arg;
    kin_tree_build_under(b, b->subtree_level, task, thread);
    return KITH_OK;
}

/* Threads share a node where there are fewer nodes than threads, if it is worth meeting for. */
static bool splits_together(const kin_tree_build *b)
{
    return (int64_t)1 << b->subtree_level < b->ctx->threads &&
           b->points >> b->subtree_level >= TOGETHER_LEAST;
}

/* Enough for all threads; where nodes are large, so many that a late thread is waited for less. */
static bool has_enough_subtrees(const kin_tree_build *b)
{
    const int64_t nodes = (int64_t)1 << b->subtree_level;
    const int64_t threads = b->ctx->threads;
    const bool small = b->points >> b->subtree_level <= b->plot_points;
    return nodes >= (small ? threads : SUBTREES_A_THREAD * threads);
}

static kith_status build_levels(kin_tree_build *b)
{
    for (b->subtree_level = 0; b->subtree_level < b->tree->height && !has_enough_subtrees(b);
         b->subtree_level++) {
        const int64_t nodes = (int64_t)1 << b->subtree_level;
        if (!splits_together(b)) {
            KIN_TRY(kin_parallel(b->ctx, "tree", nodes, split_node, b));
        }
        for (int64_t i = 0; i < nodes && splits_together(b); i++) {
            KIN_TRY(kin_tree_split_together(b, b->subtree_level, i, box_room(b, 0)));
        }
    }
    return kin_parallel(b->ctx, "tree", (int64_t)1 << b->subtree_level, build_subtree, b);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

int64_t kin_tree_leaf_points(int32_t cols)
{
    return cols <= 4 ? 48 : cols <= 8 ? 64 : 96;
}

int64_t kin_tree_leaf_points_of(int32_t cols, int64_t points, int32_t height)
{
    if (height == 0) {
        return kin_tree_leaf_points(cols);
    }
    const int64_t blocks = kin_ceil_div(points, KIN_TREE_LANES);
    return kin_ceil_div(blocks, (int64_t)1 << height) * KIN_TREE_LANES;
}

int32_t kin_tree_most_height(int64_t points)
{
    int32_t height = 0;
    while (height < KIN_TREE_MOST_HEIGHT && points >> (height + 1) >= KIN_TREE_LANES) {
        height += 1;
    }
    return height;
}

int32_t kin_tree_height(int64_t points, int64_t leaf_points)
{
    const int64_t blocks = kin_ceil_div(points, KIN_TREE_LANES);
    const int64_t a_leaf = kin_max_i64(leaf_points / KIN_TREE_LANES, 1);
    int32_t height = 0;
    while (height < KIN_TREE_MOST_HEIGHT && kin_ceil_div(blocks, (int64_t)1 << height) > a_leaf) {
        height += 1;
    }
    return height;
}

int kin_tree_arrays(kin_tree *t, kin_tree_array arrays[KIN_TREE_ARRAYS])
{
    const int64_t leaves = kin_tree_leaves(t);
    const int64_t places = t->blocks * KIN_TREE_LANES;
    const uint64_t row = (uint64_t)t->cols * sizeof(float);
    const kin_tree_array all[KIN_TREE_ARRAYS] = {
        {"tree_shift", &t->shift, t->cols, sizeof *t->shift, true},
        {"tree_starts", &t->starts, leaves + 1, sizeof *t->starts, false},
        {"tree_counts", &t->counts, leaves, sizeof *t->counts, true},
        {"tree_values", &t->values, places, row, false},
        {"tree_ids", &t->ids, places, sizeof *t->ids, false},
        {"tree_boxes", &t->boxes, 2 * leaves, 2 * row, true},
        {"tree_lost", &t->lost, 2 * leaves, sizeof *t->lost, true},
        {"tree_splits", &t->splits, leaves, sizeof *t->splits, true},
        {"tree_planes", &t->planes, leaves, sizeof *t->planes, true},
        {"tree_period", &t->period, t->cols, sizeof *t->period, false},
    };
    memcpy(arrays, all, sizeof all);
    return t->wraps ? KIN_TREE_ARRAYS : KIN_TREE_ARRAYS - 1;
}

void kin_tree_name(kin_layout *layout, void *tree)
{
    kin_tree_array arrays[KIN_TREE_ARRAYS];
    const int count = kin_tree_arrays(tree, arrays);
    for (int i = 0; i < count; i++) {
        const kin_tree_array *a = &arrays[i];
        void *array = a->zeros ? kin_layout_zeros(layout, (uint64_t)a->rows, a->row_bytes)
                               : kin_layout_array(layout, (uint64_t)a->rows, a->row_bytes);
        memcpy(a->at, &array, sizeof array);
    }
}

static void name_build(kin_layout *layout, void *job)
{
    kin_tree_build *b = job;
    const uint64_t n = (uint64_t)b->points;
    const uint64_t threads = (uint64_t)b->threads;
    const uint64_t chunks = (uint64_t)kin_ceil_div(b->points, KIN_TREE_CHUNK);
    const uint64_t wide = (uint64_t)b->wide;
    const uint64_t plot = 2 * (uint64_t)b->plot_points * wide;
    b->rows = kin_layout_array(layout, kin_size_mul(n, wide), sizeof *b->rows);
    b->lost = kin_layout_array(layout, n, sizeof *b->lost);
    b->order = kin_layout_array(layout, n, sizeof *b->order);
    b->words = kin_layout_array(layout, n, sizeof *b->words);
    b->room = kin_layout_array(layout, n, sizeof *b->room);
    b->low = kin_layout_array(layout, threads * (uint64_t)b->apart, sizeof *b->low);
    b->high = kin_layout_array(layout, threads * (uint64_t)b->apart, sizeof *b->high);
    b->chunks = kin_layout_array(layout, chunks, sizeof *b->chunks);
    b->chunk_boxes = kin_layout_array(layout, chunks * 2 * wide, sizeof *b->chunk_boxes);
    b->scratches =
        kin_layout_array(layout, threads * (uint64_t)b->scratch_doubles, sizeof *b->scratches);
    b->plots = kin_layout_array(layout, kin_size_mul(threads, plot), sizeof *b->plots);
}

/* Of half a plot, at least: 512 KiB, so that both halves stay within the second cache of most
 * cores. One holds a subtree that is dealt to a thread, too (has_enough_subtrees). */
enum { PLOT_FLOATS = 1 << 17 };

static int64_t plot_points_of(int64_t points, int32_t wide, int32_t threads)
{
    const int64_t subtree =
        kin_ceil_div(points, (int64_t)SUBTREES_A_THREAD * threads) + 2 * KIN_TREE_LANES;
    return kin_min_i64(points, kin_max_i64(PLOT_FLOATS / wide, subtree));
}

/* Sizes of a build, by its points and its tree's columns. */
static void size_build(kin_tree_build *b, int32_t threads)
{
    const int32_t cols = b->tree->cols;
    b->threads = threads;
    b->wide = (int32_t)kin_round_up(cols, KIN_TREE_QUARTER);
    b->plot_points = plot_points_of(b->points, b->wide, threads);
    b->apart = kin_round_up(cols, KIN_METRIC_LANES);
    b->scratch_doubles = b->apart + 2 * KIN_TREE_QUARTER;
}

static kith_status make_build(kin_tree_build *b)
{
    size_build(b, b->ctx->threads);
    return kin_layout_make(b->ctx, name_build, b, "the building of a tree", &b->block);
}

kith_status kin_tree_build_load(kin_tree_build *b)
{
    KIN_TRY(make_build(b));
    return round_all(b);
}

void kin_tree_plan_make(kin_layout *plan, kin_tree *shape, int32_t threads)
{
    kin_tree_build build = {.tree = shape, .points = shape->points};
    size_build(&build, threads);
    kin_layout_block(plan, kin_tree_name, shape);
    kin_layout_passing(plan, name_build, &build);
}

/* A tree's arrays, where its leaves begin. */
static kith_status make_arrays(kith_ctx *ctx, kin_tree *tree)
{
    KIN_TRY(kin_layout_make(ctx, kin_tree_name, tree, "a tree", &tree->block));
    for (int64_t leaf = 0; leaf <= kin_tree_leaves(tree); leaf++) {
        tree->starts[leaf] = (uint32_t)kin_tree_block_of(tree->blocks, tree->height, leaf);
    }
    return KITH_OK;
}

kin_tree kin_tree_shape(int64_t points, int32_t cols, int64_t leaf_points)
{
    return (kin_tree){.cols = cols,
                      .height = kin_tree_height(points, leaf_points),
                      .leaf_points = leaf_points,
                      .points = points,
                      .blocks = kin_ceil_div(points, KIN_TREE_LANES)};
}

static kith_status make(kith_ctx *ctx, const kin_prepared *corpus, int64_t leaf_points, bool roomy,
                        kin_tree *tree)
{
    const int64_t points = corpus->groups.count;
    const kith_metric metric = corpus->distance.metric;
    *tree = kin_tree_shape(points, kin_place_cols(metric, corpus->distance.cols), leaf_points);
    tree->norm = kin_tree_norm_of(metric);
    tree->places = kin_place_has(metric);
    tree->wraps = corpus->distance.period != NULL;
    if (roomy) {
        tree->blocks = kin_ceil_div(points + kin_ceil_div(points, ROOM), KIN_TREE_LANES);
    }
    kin_tree_build b = {.ctx = ctx,
                        .corpus = corpus,
                        .tree = tree,
                        .points = points,
                        .blocks = tree->blocks,
                        .roomy = roomy,
                        .ids = corpus->groups.firsts};
    kith_status status = make_arrays(ctx, tree);
    KIN_THEN(status, make_build(&b));
    KIN_THEN(status, choose_units(&b));
    KIN_THEN(status, round_all(&b));
    KIN_THEN(status, build_levels(&b));
    for (int64_t node = kin_tree_leaves(tree) - 1; status == KITH_OK && node >= 1; node--) {
        kin_tree_join(tree, node);
    }
    kin_free(ctx, b.block);
    if (status != KITH_OK) {
        kin_tree_free(ctx, tree);
    }
    return status;
}

kith_status kin_tree_make(kith_ctx *ctx, const kin_prepared *corpus, int64_t leaf_points,
                          kin_tree *tree)
{
    return make(ctx, corpus, leaf_points, false, tree);
}

kith_status kin_tree_make_roomy(kith_ctx *ctx, const kin_prepared *corpus, int64_t leaf_points,
                                kin_tree *tree)
{
    return make(ctx, corpus, leaf_points, true, tree);
}

void kin_tree_free(kith_ctx *ctx, kin_tree *tree)
{
    kin_free(ctx, tree->block);
    memset(tree, 0, sizeof *tree);
}
