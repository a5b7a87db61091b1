/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/tree_gpu.h"

#include <math.h>

static const char *const WHAT = "a tree";

/* ---- Memory ---------------------------------------------------------------------------------- */

/* The block begins with the shift. */
static void name_tree(kin_layout *layout, void *job)
{
    kin_tree_gpu *tree = job;
    const uint64_t leaves = (uint64_t)1 << tree->height;
    const uint64_t places = kin_size_mul((uint64_t)tree->blocks, KIN_TREE_LANES);
    const uint64_t row = (uint64_t)tree->wide * sizeof(float);
    tree->shift = kin_layout_array(layout, (uint64_t)tree->cols, sizeof *tree->shift);
    tree->period = kin_layout_array(layout, (uint64_t)tree->wide, sizeof *tree->period);
    tree->values = kin_layout_array(layout, places, row);
    tree->ids = kin_layout_array(layout, places, sizeof *tree->ids);
    tree->boxes = kin_layout_array(layout, 2 * leaves, 2 * row);
    tree->lost = kin_layout_array(layout, 2 * leaves, sizeof *tree->lost);
    tree->splits = kin_layout_array(layout, leaves, sizeof *tree->splits);
    tree->planes = kin_layout_array(layout, leaves, sizeof *tree->planes);
    tree->starts = kin_layout_array(layout, leaves + 1, sizeof *tree->starts);
    tree->counts = kin_layout_array(layout, leaves, sizeof *tree->counts);
}

void kin_tree_gpu_free(const kin_screen_gpu_device *on, kin_tree_gpu *tree)
{
    kin_gpu_free(on->gpu, (void *)(uintptr_t)tree->shift);
    memset(tree, 0, sizeof *tree);
}

static kin_tree_gpu shape_of(int64_t points, int32_t cols, int64_t leaf_points)
{
    return (kin_tree_gpu){.cols = cols,
                          .wide = kin_tree_gpu_wide(cols),
                          .height = kin_tree_height(points, leaf_points),
                          .points = points,
                          .blocks = kin_ceil_div(points, KIN_TREE_LANES)};
}

uint64_t kin_tree_gpu_bytes(int64_t points, int32_t cols, int64_t leaf_points)
{
    kin_tree_gpu shape = shape_of(points, cols, leaf_points);
    return kin_gpu_block_bytes(kin_gpu_layout_bytes(name_tree, &shape));
}

/* ---- Making ---------------------------------------------------------------------------------- */

typedef struct making {
    const kin_screen_gpu_device *on;
    const kin_tree_kernels *kernels;
    const kin_screen_gpu_rows *rows;
    const uint32_t *firsts;
    kin_tree_gpu *tree;
    double *extremes; /* device: lows, highs */
    float *rounded;   /* device: points x wide */
    float *row_lost;  /* device */
    kin_hold *hold;
} making;

static void name_making(kin_layout *layout, void *job)
{
    making *m = job;
    const uint64_t points = (uint64_t)m->tree->points;
    const uint64_t row = (uint64_t)m->tree->wide * sizeof *m->rounded;
    m->extremes = kin_layout_array(layout, 2 * (uint64_t)m->tree->cols, sizeof *m->extremes);
    m->rounded = kin_layout_array(layout, points, row);
    m->row_lost = kin_layout_array(layout, points, sizeof *m->row_lost);
}

/* The scratch of a build is what tree_build.cu lays out: two sets of lists of 32 bits, and for each
 * node of more than 4,080 points 2,048 counters, a cut and its halves' extents, generously. */
static uint64_t scratch_bytes(int64_t points, int32_t cols)
{
    enum { COUNTERS = 4, TABLES = 1 << 20 };
    const uint64_t a_point = 8 * ((uint64_t)cols + 1) + COUNTERS;
    return kin_size_add(kin_size_mul((uint64_t)points, a_point), TABLES);
}

uint64_t kin_tree_gpu_peak_bytes(int64_t points, int32_t cols, int64_t leaf_points)
{
    kin_tree_gpu shape = shape_of(points, cols, leaf_points);
    making m = {.tree = &shape};
    return kin_size_add(kin_gpu_block_bytes(kin_gpu_layout_bytes(name_tree, &shape)),
                        kin_size_add(kin_gpu_block_bytes(kin_gpu_layout_bytes(name_making, &m)),
                                     kin_gpu_block_bytes(scratch_bytes(points, cols))));
}

/* The periods in the tree's units, which has its scale; padded columns have none. NULL: no column
 * has one. */
static kith_status take_period(const making *m, const double *period)
{
    const kin_screen_gpu_device *on = m->on;
    kin_tree_gpu *tree = m->tree;
    float stored[KIN_TREE_GPU_MOST_COLS];
    kin_tree like = {.cols = tree->cols,
                     .norm = tree->norm,
                     .scale = tree->scale,
                     .wraps = true,
                     .period = stored};
    if (period == NULL) {
        tree->period = NULL;
        return KITH_OK;
    }
    for (int32_t c = tree->cols; c < tree->wide; c++) {
        stored[c] = INFINITY;
    }
    (void)kin_tree_take_period(&like, period, false);
    tree->slack = like.slack;
    return kin_gpu_upload(on->ctx, on->gpu, (void *)(uintptr_t)tree->period, stored,
                          (uint64_t)tree->wide * sizeof *stored);
}

/* The scale and the shift, from exact extremes. host: 4 x cols doubles. */
static kith_status choose_units(const making *m, double *host)
{
    const kin_screen_gpu_device *on = m->on;
    kin_tree_gpu *tree = m->tree;
    const int32_t cols = tree->cols;
    const bool wraps = m->rows->period != NULL;
    const bool places = kin_place_has(m->rows->metric);
    double *shift = host + 2 * cols;
    double *period = wraps ? host + 3 * cols : NULL;
    const kin_tree_gpu_measure job = {.rows = *m->rows,
                                      .ids = m->firsts,
                                      .count = tree->points,
                                      .low = m->extremes,
                                      .high = m->extremes + cols};
    KIN_TRY(
        kin_screen_gpu_launched(on, m->kernels->measure(on->stream, &job), "extremes of columns"));
    KIN_TRY(
        kin_gpu_download(on->ctx, on->gpu, host, m->extremes, 2 * (uint64_t)cols * sizeof *host));
    if (wraps) {
        KIN_TRY(kin_gpu_download(on->ctx, on->gpu, period, m->rows->period,
                                 (uint64_t)cols * sizeof *period));
    }
    kin_tree_take_box(cols, period, host, host + cols);
    kin_tree_units(places ? KITH_F64 : m->rows->dtype, cols, host, host + cols, shift,
                   &tree->scale);
    tree->scale = places ? fmin(tree->scale, KIN_PLACE_MOST_SCALE) : tree->scale;
    tree->widen = kin_tree_widen(cols);
    tree->floor = kin_tree_floor(tree->scale);
    KIN_TRY(take_period(m, period));
    return kin_gpu_upload(on->ctx, on->gpu, (void *)(uintptr_t)tree->shift, shift,
                          (uint64_t)cols * sizeof *shift);
}

static kith_status round_rows(const making *m)
{
    const kin_tree_gpu *tree = m->tree;
    const kin_tree_gpu_round job = {.rows = *m->rows,
                                    .ids = m->firsts,
                                    .count = tree->points,
                                    .wide = tree->wide,
                                    .norm = tree->norm,
                                    .scale = tree->scale,
                                    .slack = tree->slack,
                                    .shift = tree->shift,
                                    .out = m->rounded,
                                    .lost = m->row_lost};
    return kin_screen_gpu_launched(m->on, m->kernels->round(m->on->stream, &job), "rows of a tree");
}

/* The root's node has lost what the worst of its points did. */
static kith_status build(making *m)
{
    const kin_screen_gpu_device *on = m->on;
    uint64_t bytes = 0;
    kin_tree_gpu_build job = {.tree = *m->tree,
                              .rows = m->rounded,
                              .row_lost = m->row_lost,
                              .firsts = m->firsts,
                              .scratch_bytes = &bytes};
    KIN_TRY(kin_screen_gpu_launched(on, m->kernels->build(on->stream, &job), "scratch of a tree"));
    KIN_TRY(kin_gpu_hold_alloc(m->hold, on->gpu, &job.scratch, bytes, "the building of a tree"));
    KIN_TRY(
        kin_screen_gpu_launched(on, m->kernels->build(on->stream, &job), "the building of a tree"));
    return kin_gpu_download(on->ctx, on->gpu, &m->tree->most_lost, m->tree->lost + 1,
                            sizeof m->tree->most_lost);
}

static kith_status make_all(making *m)
{
    const kin_screen_gpu_device *on = m->on;
    const uint64_t cols = (uint64_t)m->tree->cols;
    double *host = NULL;
    void *block = NULL;
    KIN_TRY(kin_gpu_layout_make(on->ctx, on->gpu, name_tree, m->tree, WHAT, &block));
    KIN_TRY(kin_gpu_hold_layout(m->hold, on->gpu, name_making, m, "rows of a tree"));
    KIN_NEW(m->hold, host, 4 * cols, WHAT);
    KIN_TRY(choose_units(m, host));
    KIN_TRY(round_rows(m));
    return build(m);
}

kith_status kin_tree_gpu_make(const kin_screen_gpu_device *on, const kin_screen_gpu_rows *rows,
                              const uint32_t *firsts, int64_t points, int64_t leaf_points,
                              kin_tree_gpu *tree)
{
    KIN_HOLD(hold, on->ctx);
    making m = {.on = on,
                .kernels = on->gpu->module->tree,
                .rows = rows,
                .firsts = firsts,
                .tree = tree,
                .hold = &hold};
    *tree = shape_of(points, kin_place_cols(rows->metric, rows->cols), leaf_points);
    tree->norm = kin_tree_norm_of(rows->metric);
    const kith_status status = make_all(&m);
    if (status != KITH_OK) {
        kin_tree_gpu_free(on, tree);
    }
    return status;
}
