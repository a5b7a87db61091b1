/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout. Section "points", which every reader of points knows; "corpus", the facts below; then the
 * arrays of groups, order, frame, set and cover under their own names, those that there are.
 */
#include "exact/exact_store.h"

#include "base/base_size.h"
#include "exact/exact_search.h"

#include <assert.h>
#include <math.h>

/* What is stored means what this version of the preparation makes of it. Rises with every change of
 * panels, terms, bounds or covers. */
enum { STORE_VERSION = 4 };
/* What is said of a set. */
enum { SET_INTEGER = 1, SET_VAIN = 2 };

#define TAG_FACTS "corpus"

typedef struct facts {
    uint32_t version;
    uint32_t type;  /* kin_tile_type */
    uint32_t set;   /* SET_... */
    uint32_t words; /* of a rounded row */
    int64_t count;  /* groups of equal rows */
    int64_t degenerate;
    int64_t equal; /* 1: some rows are equal, and there are links between them */
    int64_t cover_wide;
    double largest;
    double largest_norm;
    double worst_norm;
    double worst_lost;
} facts;

static_assert(sizeof(facts) == 80, "facts have no padding");

/* ---- Writing -------------------------------------------------------------------------------- */

static void add_rows(kin_storing *w, const kin_prepared *p)
{
    kin_store_add(w, "transforms", p->rows.transforms, p->rows.matrix.rows,
                  sizeof(kin_row_transform));
    kin_store_add_groups(w, &p->groups);
    kin_store_add(w, "order", p->order, p->groups.count, sizeof(uint32_t));
}

/* An array of a set or of its cover, and where it stands in what is prepared. */
typedef struct array {
    const char *tag;
    void *at; /* to its pointer */
    int64_t rows;
    uint64_t row_bytes;
} array;

enum { BOUNDS = 5, COVER = 7, ARRAYS = 11 };

/* As they stand in a file: the set's, from BOUNDS on those that integers lack, then the cover's. */
static void list_arrays(kin_prepared *p, array arrays[ARRAYS])
{
    kin_set *s = &p->set;
    float **centres = p->cover.centres;
    float **radii = p->cover.radii;
    const uint64_t word = sizeof(kin_word);
    const uint64_t centre = (uint64_t)p->cover.wide * sizeof(float);
    const int64_t fine = kin_ceil_div(s->points, KIN_FINE_STEP);
    const int64_t coarse = kin_ceil_div(s->points, KIN_COARSE_STEP);
    const array all[ARRAYS] = {{"panels", &s->panels, s->padded, (uint64_t)p->frame.groups * word},
                               {"start", &s->start, s->padded, word},
                               {"odd", &s->odd, s->padded, word},
                               {"half_term", &s->half_term, s->padded, word},
                               {"row_term", &s->row_term, s->padded, word},
                               {"norm", &s->norm, s->padded, sizeof(float)},
                               {"lost", &s->lost, s->padded, sizeof(float)},
                               {"fine_centres", &centres[KIN_COVER_FINE], fine, centre},
                               {"fine_radii", &radii[KIN_COVER_FINE], fine, sizeof(float)},
                               {"coarse_centres", &centres[KIN_COVER_COARSE], coarse, centre},
                               {"coarse_radii", &radii[KIN_COVER_COARSE], coarse, sizeof(float)}};
    memcpy(arrays, all, sizeof all);
}

static void add_arrays(kin_storing *w, const kin_prepared *prepared)
{
    kin_prepared p = *prepared;
    array arrays[ARRAYS];
    kin_store_add(w, "mean", p.frame.mean, kin_round_up(p.frame.cols, KIN_METRIC_LANES),
                  sizeof(double));
    list_arrays(&p, arrays);
    for (int i = 0; i < ARRAYS; i++) {
        const void *data = NULL;
        memcpy(&data, arrays[i].at, sizeof data);
        kin_store_add(w, arrays[i].tag, data, arrays[i].rows, arrays[i].row_bytes);
    }
}

static facts facts_of(const kin_prepared *p)
{
    const bool rounded = p->frame.kernel != NULL;
    const kin_frame_stats shift =
        rounded ? kin_frame_shift(p->frame.kernel->type, p->frame.cols, &p->stats) : p->stats;
    return (facts){.version = STORE_VERSION,
                   .type = rounded ? (uint32_t)p->frame.kernel->type : 0,
                   .set = (rounded && p->frame.bound == KIN_BOUND_INTEGER ? SET_INTEGER : 0U) |
                          (p->vain ? SET_VAIN : 0U),
                   .words = (uint32_t)p->frame.groups,
                   .count = p->groups.count,
                   .degenerate = p->groups.degenerate,
                   .equal = p->groups.next != NULL,
                   .cover_wide = p->cover.wide,
                   .largest = shift.largest,
                   .largest_norm = shift.largest_norm,
                   .worst_norm = p->set.worst.norm,
                   .worst_lost = p->set.worst.lost};
}

kith_status kin_store_save(kith_ctx *ctx, const char *path, const kin_prepared *prepared)
{
    const facts f = facts_of(prepared);
    kin_storing w =
        kin_store_begin(KITH_KIND_EXACT_INDEX, prepared->distance.metric, &prepared->rows.matrix);
    kin_store_add_period(&w, &prepared->distance);
    if (kin_is_screened(&prepared->distance)) {
        kin_store_add(&w, TAG_FACTS, &f, 1, sizeof f);
        add_rows(&w, prepared);
        add_arrays(&w, prepared);
    }
    return kin_container_write(ctx, path, &w.header, w.sections, w.count);
}

/* ---- Reading -------------------------------------------------------------------------------- */

static bool all_below(const uint32_t *numbers, int64_t count, int64_t limit)
{
    for (int64_t i = 0; i < count; i++) {
        if ((int64_t)numbers[i] >= limit) {
            return false;
        }
    }
    return true;
}

kith_status kin_store_points(kith_ctx *ctx, const char *path, const kin_container *container,
                             kith_matrix *points, kith_metric *metric)
{
    const kin_container_header *header = &container->header;
    const int32_t item = kith_dtype_bytes(header->dtype);
    KIN_FAIL_IF(header->kind != KITH_KIND_EXACT_INDEX && header->kind != KITH_KIND_TREE_INDEX &&
                    header->kind != KITH_KIND_GRAPH_INDEX,
                ctx, KITH_E_FORMAT, kin_at_file(path),
                "is no index (make one of points, and save it)");
    KIN_FAIL_IF(item == 0 || header->rows < 1 || header->cols < 1 ||
                    header->metric == KITH_METRIC_DEFAULT,
                ctx, KITH_E_FORMAT, kin_at_file(path),
                "its header does not say what its points are (it is damaged: make it again)");
    const uint64_t row_bytes = (uint64_t)header->cols * (uint64_t)item;
    *points = (kith_matrix){.rows = header->rows,
                            .stride_bytes = (int64_t)row_bytes,
                            .cols = (int32_t)header->cols,
                            .dtype = header->dtype};
    *metric = header->metric;
    return kin_container_table(ctx, container, KIN_TAG_POINTS, (uint64_t)header->rows, row_bytes,
                               &points->data);
}

static kith_status view_groups(const kin_viewing *r, const facts *f, kin_prepared *p)
{
    p->groups =
        (kin_groups){.rows = p->rows.matrix.rows, .count = f->count, .degenerate = f->degenerate};
    KIN_TRY(kin_store_view_groups(r, f->equal != 0, &p->groups));
    KIN_TRY(kin_store_view_array(r, "order", f->count, sizeof(uint32_t), &p->order));
    return all_below(p->order, f->count, p->groups.rows)
               ? KITH_OK
               : kin_store_fail_damaged(r, "its order names rows that it does not have");
}

/* The degenerate rows are those that the groups name, and the others have numbers. */
static kith_status view_transforms(const kin_viewing *r, const facts *f, kin_prepared *p)
{
    if (!kin_metric_get_traits(p->distance.metric)->transforms) {
        return f->degenerate == 0 ? KITH_OK : kin_store_fail_damaged(r, "it has degenerate rows");
    }
    const int64_t rows = p->rows.matrix.rows;
    const kin_row_transform *transforms = NULL;
    KIN_TRY(kin_store_view_array(r, "transforms", rows, sizeof *transforms, &transforms));
    int64_t degenerate = 0;
    for (int64_t i = 0; i < rows; i++) {
        const kin_row_transform *t = &transforms[i];
        degenerate += t->degenerate != 0.0;
        if (!isfinite(t->scale) || !isfinite(t->shift) || !isfinite(t->gain)) {
            return kin_store_fail_damaged(r, "the norms of its rows are no numbers");
        }
    }
    p->rows.transforms = transforms;
    return degenerate == f->degenerate
               ? KITH_OK
               : kin_store_fail_damaged(r, "it miscounts its degenerate rows");
}

static kith_status view_arrays(const kin_viewing *r, const facts *f, kin_prepared *p)
{
    array arrays[ARRAYS];
    const int count = f->cover_wide > 0 ? ARRAYS : COVER;
    p->set = (kin_set){.frame = &p->frame,
                       .rows = &p->rows,
                       .points = p->groups.count,
                       .padded = kin_round_up(p->groups.count, KIN_BLOCK_STEP),
                       .ids = p->order,
                       .worst = {f->worst_norm, f->worst_lost}};
    p->cover.wide = f->cover_wide;
    list_arrays(p, arrays);
    for (int i = 0; i < count; i++) {
        if (i < BOUNDS || i >= COVER || p->frame.bound != KIN_BOUND_INTEGER) {
            KIN_TRY(kin_store_view_array(r, arrays[i].tag, arrays[i].rows, arrays[i].row_bytes,
                                         arrays[i].at));
        }
    }
    return KITH_OK;
}

/* The frame again from its statistics. False where this machine's would have another shape. */
static kith_status view_frame(const kin_viewing *r, const facts *f, kin_prepared *p, bool *usable)
{
    const kin_tile_kernel *kernel = NULL;
    if (f->type < KIN_TILE_TYPES) {
        kernel = kin_tile_get(p->distance.isa, (kin_tile_type)f->type);
    }
    *usable = kernel != NULL;
    if (!*usable) {
        return KITH_OK;
    }
    const bool integer = (f->set & SET_INTEGER) != 0;
    p->vain = (f->set & SET_VAIN) != 0;
    if (integer && !kin_frame_is_integer(&p->distance, &p->rows.matrix, &p->rows.matrix)) {
        return kin_store_fail_damaged(r, "its points are no integers, as it says");
    }
    if (!integer) {
        const int64_t wide = kin_round_up(p->distance.cols, KIN_METRIC_LANES);
        KIN_TRY(kin_store_view_array(r, "mean", wide, sizeof(double), &p->stats.mean));
        p->stats.largest = f->largest;
        p->stats.largest_norm = f->largest_norm;
    }
    p->frame = kin_frame_make(&p->distance, kernel, integer, &p->stats);
    *usable = (uint32_t)p->frame.groups == f->words && p->frame.scale > 0.0 &&
              isfinite(p->frame.scale) &&
              (f->cover_wide == 0 || f->cover_wide == kin_cover_wide(p->distance.cols));
    return KITH_OK;
}

static kith_status view_all(const kin_viewing *r, const facts *f, kin_prepared *p, bool *usable)
{
    KIN_TRY(view_groups(r, f, p));
    KIN_TRY(view_transforms(r, f, p));
    if (p->groups.count == 0) {
        return KITH_OK;
    }
    KIN_TRY(view_frame(r, f, p, usable));
    if (!*usable) {
        return KITH_OK;
    }
    return view_arrays(r, f, p);
}

kith_status kin_store_view(kith_ctx *ctx, const kin_container *container, kin_prepared *prepared,
                           bool *usable)
{
    const kin_viewing r = {.ctx = ctx, .container = container};
    const kith_matrix *points = &prepared->rows.matrix;
    facts f;
    const void *data = NULL;
    uint64_t bytes = 0;
    *usable = false;
    KIN_TRY(kin_container_section(ctx, container, TAG_FACTS, &data, &bytes));
    if (bytes != sizeof f) {
        return KITH_OK; /* of another version */
    }
    memcpy(&f, data, sizeof f);
    if (f.version != STORE_VERSION) {
        return KITH_OK;
    }
    if (f.count < 0 || f.count > points->rows || f.degenerate < 0 || f.degenerate > points->rows) {
        return kin_store_fail_damaged(&r, "it has more groups of rows than rows");
    }
    KIN_TRY(kin_metric_check(ctx, points, prepared->distance.metric, container->path));
    *usable = true;
    return view_all(&r, &f, prepared, usable);
}

/* ---- Writing -------------------------------------------------------------------------------- */

kin_storing kin_store_begin(kith_kind kind, kith_metric metric, const kith_matrix *points)
{
    return (kin_storing){.header = {.kind = kind,
                                    .dtype = points->dtype,
                                    .metric = metric,
                                    .rows = points->rows,
                                    .cols = points->cols},
                         .sections = {{.tag = KIN_TAG_POINTS, .matrix = points}},
                         .count = 1};
}

void kin_store_add(kin_storing *storing, const char *tag, const void *data, int64_t rows,
                   uint64_t row_bytes)
{
    if (data != NULL) {
        storing->sections[storing->count++] = (kin_section){
            .tag = tag, .data = data, .bytes = kin_size_mul((uint64_t)rows, row_bytes)};
    }
}

void kin_store_add_period(kin_storing *storing, const kin_distance *distance)
{
    kin_store_add(storing, KIN_TAG_PERIOD, distance->period, distance->cols, sizeof(double));
}

void kin_store_add_groups(kin_storing *storing, const kin_groups *groups)
{
    kin_store_add(storing, "firsts", groups->firsts, groups->count, sizeof(uint32_t));
    kin_store_add(storing, "weights", groups->weights, groups->rows, sizeof(uint32_t));
    kin_store_add(storing, "next", groups->next, groups->rows, sizeof(uint32_t));
    kin_store_add(storing, "degenerates", groups->degenerates, groups->degenerate,
                  sizeof(uint32_t));
}

/* ---- Reading -------------------------------------------------------------------------------- */

kith_status kin_store_fail_damaged(const kin_viewing *viewing, const char *what)
{
    return kin_fail_at(viewing->ctx, KITH_E_FORMAT, kin_at_file(viewing->container->path),
                       "%s (it is damaged: make it again)", what);
}

kith_status kin_store_view_array(const kin_viewing *viewing, const char *tag, int64_t rows,
                                 uint64_t row_bytes, void *out)
{
    union {
        const void *read;
        void *own;
    } block = {NULL};
    KIN_TRY(kin_container_table(viewing->ctx, viewing->container, tag, (uint64_t)rows, row_bytes,
                                &block.read));
    memcpy(out, &block.own, sizeof block.own);
    return KITH_OK;
}

kith_status kin_store_period(kith_ctx *ctx, const kin_container *container, const double **period)
{
    const kin_viewing v = {.ctx = ctx, .container = container};
    *period = NULL;
    return kin_container_has(container, KIN_TAG_PERIOD)
               ? kin_store_view_array(&v, KIN_TAG_PERIOD, container->header.cols, sizeof **period,
                                      (void *)period)
               : KITH_OK;
}

/* Numbers of rows, rising. */
static bool rises(const uint32_t *ids, int64_t count, int64_t rows)
{
    for (int64_t i = 0; i < count; i++) {
        if ((int64_t)ids[i] >= rows || (i > 0 && ids[i - 1] >= ids[i])) {
            return false;
        }
    }
    return true;
}

/* Links lead forward, so every chain ends; weights of firsts are what their chains hold. */
static bool chains_end(const kin_groups *groups)
{
    for (int64_t i = 0; i < groups->rows; i++) {
        const uint32_t next = groups->next[i];
        if (next != KITH_ID_NONE && ((int64_t)next >= groups->rows || (int64_t)next <= i)) {
            return false;
        }
    }
    int64_t total = groups->degenerate;
    for (int64_t i = 0; i < groups->count; i++) {
        int64_t length = 0;
        for (uint32_t id = groups->firsts[i]; id != KITH_ID_NONE && total < groups->rows;
             id = groups->next[id]) {
            length += 1;
            total += 1;
        }
        if (groups->weights[groups->firsts[i]] != length) {
            return false;
        }
    }
    return total == groups->rows;
}

kith_status kin_store_view_groups(const kin_viewing *viewing, bool equal, kin_groups *groups)
{
    const int64_t rows = groups->rows;
    KIN_TRY(
        kin_store_view_array(viewing, "firsts", groups->count, sizeof(uint32_t), &groups->firsts));
    bool good = rises(groups->firsts, groups->count, rows);
    if (groups->degenerate > 0) {
        KIN_TRY(kin_store_view_array(viewing, "degenerates", groups->degenerate, sizeof(uint32_t),
                                     &groups->degenerates));
        good = good && rises(groups->degenerates, groups->degenerate, rows);
    }
    if (equal) {
        KIN_TRY(kin_store_view_array(viewing, "weights", rows, sizeof(uint32_t), &groups->weights));
        KIN_TRY(kin_store_view_array(viewing, "next", rows, sizeof(uint32_t), &groups->next));
        good = good && chains_end(groups);
    } else {
        good = good && groups->count + groups->degenerate == rows;
    }
    return good ? KITH_OK
                : kin_store_fail_damaged(viewing, "its groups of equal rows are not consistent");
}
