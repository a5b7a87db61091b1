/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/tree_gpu.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "tree/tree_bound.h"

static const char *const WHAT = "a tree";

/* ---- Memory ---------------------------------------------------------------------------------- */

/* A block of device memory is rounded up to a power of two, or to pages of 2 MiB. */
static uint64_t block_bytes(uint64_t count, uint64_t item_bytes)
{
    enum { LEAST = 512, PAGE = 2 << 20 };
    const uint64_t bytes = kin_size_mul(count, item_bytes);
    return kin_size_add(bytes, bytes < PAGE ? bytes + LEAST : PAGE);
}

uint64_t kin_tree_gpu_bytes(int64_t points, int32_t cols, int64_t leaf_points)
{
    const uint64_t leaves = (uint64_t)1 << kin_tree_height(points, leaf_points);
    const uint64_t places = (uint64_t)kin_round_up(points, KIN_TREE_LANES);
    const uint64_t row = (uint64_t)kin_tree_gpu_wide(cols) * sizeof(float);
    uint64_t bytes = block_bytes((uint64_t)cols, sizeof(double));
    bytes = kin_size_add(bytes, block_bytes(places, row));
    bytes = kin_size_add(bytes, block_bytes(places, sizeof(uint32_t)));
    bytes = kin_size_add(bytes, block_bytes(2 * leaves, 2 * row));
    /* lost; then splits, planes, starts and counts */
    bytes = kin_size_add(bytes, block_bytes(2 * leaves, sizeof(float)));
    return kin_size_add(bytes, 4 * block_bytes(leaves + 1, sizeof(float)));
}

/* The scratch of a build is what tree_build.cu lays out: two sets of lists of 32 bits and a bit a
 * point for each, a byte of sides, a number a block, and what the library's sort asks for: two
 * numbers a point and an eighth of one for its tables, generously. */
static uint64_t scratch_bytes(int64_t points, int32_t cols)
{
    enum { SORT_BYTES = 9, TABLES = 1 << 20 };
    const uint64_t lists = (uint64_t)cols + 1;
    const uint64_t a_point = 8 * lists + lists / 4 + 1 + SORT_BYTES + 1;
    return kin_size_add(block_bytes((uint64_t)points, a_point), TABLES);
}

uint64_t kin_tree_gpu_peak_bytes(int64_t points, int32_t cols, int64_t leaf_points)
{
    const uint64_t row = (uint64_t)kin_tree_gpu_wide(cols) * sizeof(float);
    uint64_t bytes = kin_tree_gpu_bytes(points, cols, leaf_points);
    bytes = kin_size_add(bytes, block_bytes(2 * (uint64_t)cols, sizeof(double)));
    bytes = kin_size_add(bytes, block_bytes((uint64_t)points, row));
    bytes = kin_size_add(bytes, block_bytes((uint64_t)points, sizeof(float)));
    return kin_size_add(bytes, scratch_bytes(points, cols));
}

static kith_status make_arrays(const kin_fused_device *on, kin_tree_gpu *tree)
{
    const uint64_t leaves = (uint64_t)1 << tree->height;
    const uint64_t blocks = (uint64_t)tree->blocks;
    const uint64_t row = (uint64_t)tree->wide * sizeof(float);
    const struct {
        void *pointer;
        uint64_t count;
        uint64_t item_bytes;
    } arrays[] = {{&tree->shift, (uint64_t)tree->cols, sizeof *tree->shift},
                  {&tree->values, kin_size_mul(blocks, KIN_TREE_LANES), row},
                  {&tree->ids, kin_size_mul(blocks, KIN_TREE_LANES), sizeof *tree->ids},
                  {&tree->boxes, 2 * leaves, 2 * row},
                  {&tree->lost, 2 * leaves, sizeof *tree->lost},
                  {&tree->splits, leaves, sizeof *tree->splits},
                  {&tree->planes, leaves, sizeof *tree->planes},
                  {&tree->starts, leaves + 1, sizeof *tree->starts},
                  {&tree->counts, leaves, sizeof *tree->counts}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, arrays[i].pointer, arrays[i].count,
                              arrays[i].item_bytes, WHAT));
    }
    return KITH_OK;
}

static void free_array(const kin_fused_device *on, const void *array)
{
    kin_gpu_free(on->gpu, (void *)(uintptr_t)array);
}

void kin_tree_gpu_free(const kin_fused_device *on, kin_tree_gpu *tree)
{
    const void *const arrays[] = {tree->shift,  tree->values, tree->ids,    tree->boxes, tree->lost,
                                  tree->splits, tree->planes, tree->starts, tree->counts};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        free_array(on, arrays[i]);
    }
    memset(tree, 0, sizeof *tree);
}

/* ---- Making ---------------------------------------------------------------------------------- */

typedef struct making {
    const kin_fused_device *on;
    const kin_tree_kernels *kernels;
    const kin_fused_rows *rows;
    const uint32_t *firsts;
    kin_tree_gpu *tree;
    double *extremes; /* device: lows, highs */
    float *rounded;   /* device: points x wide */
    float *row_lost;  /* device */
    void *scratch;    /* device */
} making;

static kith_status launched(const making *m, int error, const char *what)
{
    return kin_gpu_check(m->on->ctx, m->on->gpu, error, what);
}

/* The scale and the shift, from exact extremes. host: 3 x cols doubles. */
static kith_status choose_units(const making *m, double *host)
{
    const kin_fused_device *on = m->on;
    kin_tree_gpu *tree = m->tree;
    const int32_t cols = tree->cols;
    double *shift = host + 2 * cols;
    const kin_tree_gpu_measure job = {.rows = *m->rows,
                                      .ids = m->firsts,
                                      .count = tree->points,
                                      .low = m->extremes,
                                      .high = m->extremes + cols};
    KIN_TRY(launched(m, m->kernels->measure(on->stream, &job), "extremes of columns"));
    KIN_TRY(
        kin_gpu_download(on->ctx, on->gpu, host, m->extremes, 2 * (uint64_t)cols * sizeof *host));
    kin_tree_units(m->rows->dtype, cols, host, host + cols, shift, &tree->scale);
    tree->widen = kin_tree_widen(cols);
    tree->floor = kin_tree_floor(tree->scale);
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
                                    .shift = tree->shift,
                                    .out = m->rounded,
                                    .lost = m->row_lost};
    return launched(m, m->kernels->round(m->on->stream, &job), "rows of a tree");
}

/* The root's node has lost what the worst of its points did. */
static kith_status build(making *m)
{
    const kin_fused_device *on = m->on;
    uint64_t bytes = 0;
    kin_tree_gpu_build job = {.tree = *m->tree,
                              .rows = m->rounded,
                              .row_lost = m->row_lost,
                              .firsts = m->firsts,
                              .scratch_bytes = &bytes};
    KIN_TRY(launched(m, m->kernels->build(on->stream, &job), "scratch of a tree"));
    KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &m->scratch, bytes, 1, "the building of a tree"));
    job.scratch = m->scratch;
    KIN_TRY(launched(m, m->kernels->build(on->stream, &job), "the building of a tree"));
    return kin_gpu_download(on->ctx, on->gpu, &m->tree->most_lost, m->tree->lost + 1,
                            sizeof m->tree->most_lost);
}

static kith_status make_all(making *m)
{
    const kin_fused_device *on = m->on;
    const uint64_t points = (uint64_t)m->tree->points;
    const uint64_t cols = (uint64_t)m->tree->cols;
    double *host = NULL;
    KIN_TRY(make_arrays(on, m->tree));
    KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &m->extremes, 2 * cols, sizeof *m->extremes, WHAT));
    KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &m->rounded, points,
                          (uint64_t)m->tree->wide * sizeof *m->rounded, "rows of a tree"));
    KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &m->row_lost, points, sizeof *m->row_lost,
                          "rows of a tree"));
    KIN_TRY(kin_alloc(on->ctx, &host, 3 * cols, sizeof *host, WHAT));
    kith_status status = choose_units(m, host);
    kin_free(on->ctx, host);
    if (status == KITH_OK) {
        status = round_rows(m);
    }
    return status == KITH_OK ? build(m) : status;
}

kith_status kin_tree_gpu_make(const kin_fused_device *on, const kin_fused_rows *rows,
                              const uint32_t *firsts, int64_t points, kith_metric metric,
                              int64_t leaf_points, kin_tree_gpu *tree)
{
    making m = {
        .on = on, .kernels = on->gpu->module->tree, .rows = rows, .firsts = firsts, .tree = tree};
    *tree = (kin_tree_gpu){.cols = rows->cols,
                           .wide = kin_tree_gpu_wide(rows->cols),
                           .height = kin_tree_height(points, leaf_points),
                           .norm = kin_tree_norm_of(metric),
                           .points = points,
                           .blocks = kin_ceil_div(points, KIN_TREE_LANES)};
    const kith_status status = make_all(&m);
    free_array(on, m.scratch);
    free_array(on, m.row_lost);
    free_array(on, m.rounded);
    free_array(on, m.extremes);
    if (status != KITH_OK) {
        kin_tree_gpu_free(on, tree);
    }
    return status;
}
