/* SPDX-License-Identifier: Apache-2.0
 *
 * Shadows on the device, by the positions of a graph's rows: those of a few axes, cast piece by
 * piece and rounded to halves or bytes, and those of all columns, which are the rounded rows as
 * bytes. What is said of them: screen_prepare_gpu.h.
 */

#include "screen/screen_prepare_gpu.h"
#include "screen/screen_start.h"

enum { PIECE = 1 << 16 /* rows that are cast at a time */ };

/* Pairs that wait for a look, if there is room for so many; a stage is so long that about half of
 * them are needed. */
static const uint64_t MOST_PASSED = 1u << 26;

/* ---- What stays ------------------------------------------------------------------------------ */

/* What kernels find of all rows. */
typedef struct found {
    float worst[2];
    kin_screen_gpu_starts starts;
} found;

typedef struct cast_rows {
    kin_screen_gpu_set set;
    bool of_axes;
    bool starts_wanted;
    unsigned char *rounded;
    unsigned char *starts;
    kin_screen_gpu_facts *facts;
    kin_screen_gpu_word *half;
    kin_screen_gpu_worst *tiles;
    kin_screen_gpu_word *gates;
    uint64_t *passed;
    uint64_t room;  /* of passed */
    double *middle; /* of those of axes */
    found *found;
} cast_rows;

static void name_cast(kin_layout *layout, void *job)
{
    cast_rows *c = job;
    const uint64_t n = (uint64_t)c->set.padded;
    c->rounded = kin_layout_array(layout, n, (uint64_t)c->set.frame.row_bytes);
    c->facts = kin_layout_array(layout, n, sizeof *c->facts);
    c->half = kin_layout_array(layout, n, sizeof *c->half);
    c->tiles = kin_layout_array(layout, n / KIN_SCREEN_GPU_TILE, sizeof *c->tiles);
    c->gates = kin_layout_array(layout, n, sizeof *c->gates);
    c->passed = kin_layout_array(layout, c->room, sizeof *c->passed);
    c->found = kin_layout_array(layout, 1, sizeof *c->found);
    c->set.rounded = c->rounded;
    c->set.facts = c->facts;
    c->set.half = c->half;
    if (c->of_axes) {
        c->middle = kin_layout_array(layout, (uint64_t)c->set.frame.cols, sizeof *c->middle);
        c->set.frame.mean = c->middle;
    }
    if (c->starts_wanted) {
        c->starts = kin_layout_array(layout, n, KIN_START_BYTES);
    }
}

static uint64_t room_of(const kin_screen_gpu_work *w)
{
    const uint64_t fits = kin_gpu_scope(w->on.gpu) / 16 / sizeof *w->passed;
    return fits < MOST_PASSED ? fits : MOST_PASSED;
}

static cast_rows cast_of(const kin_screen_gpu_work *w, kin_screen_gpu_type type, int32_t cols,
                         double unit)
{
    const kin_screen_gpu_device *on = &w->on;
    const bool is_float = type == KIN_SCREEN_GPU_F16;
    const int64_t bytes = (int64_t)cols * (is_float ? 2 : 1);
    return (cast_rows){
        .room = room_of(w),
        .starts_wanted = !is_float && on->kernels->takes_starts(on->stream),
        .set = {.frame = {.type = type,
                          .bound = KIN_BOUND_DISTANCE,
                          .cols = cols,
                          .row_bytes = (int32_t)kin_round_up(bytes, KIN_SCREEN_GPU_SLICE),
                          .scale = unit,
                          .kappa = is_float ? on->kernels->kappa(on->stream, cols) : 0.0,
                          .key_scale = 1.0,
                          .reach_scale = 1.0 / unit},
                .points = w->rows.points,
                .padded = w->rows.padded,
                .ids = w->rows.ids}};
}

static kith_status make_room(const kin_screen_gpu_work *w, cast_rows *cast,
                             kin_screen_gpu_shadow *shadow)
{
    const kin_screen_gpu_device *on = &w->on;
    const found none = {{0.0F, 0.0F}, {INT32_MAX, 0}};
    KIN_TRY(kin_gpu_layout_make(on->ctx, on->gpu, name_cast, cast, "shadows", &shadow->block));
    return kin_gpu_upload(on->ctx, on->gpu, cast->found, &none, sizeof none);
}

/* Rows first .. of what is given, in its units, into the set. */
static kith_status round_rows(const kin_screen_gpu_work *w, const cast_rows *cast,
                              kin_screen_gpu_round given, int64_t first)
{
    const kin_screen_gpu_device *on = &w->on;
    given.frame = cast->set.frame;
    given.points = given.rows.rows;
    given.padded = kin_round_up(given.points, KIN_SCREEN_GPU_BLOCK);
    given.rounded = cast->rounded + first * cast->set.frame.row_bytes;
    given.facts = cast->facts + first;
    given.half = cast->half + first;
    given.worst = cast->found->worst;
    return KIN_SCREEN_LAUNCH(on, round, &given, "rounding shadows");
}

static kith_status start_columns(const kin_screen_gpu_work *w, const cast_rows *cast)
{
    const kin_screen_gpu_start job = {.half = cast->half,
                                      .points = cast->set.points,
                                      .padded = cast->set.padded,
                                      .starts = cast->starts,
                                      .found = &cast->found->starts};
    return KIN_SCREEN_LAUNCH(&w->on, start, &job, "starting columns");
}

/* All rows are there: stages screen them from now on. An offset is a pair of blocks for every
 * block. */
static kith_status take(kin_screen_gpu_work *w, cast_rows *cast, double share)
{
    found seen;
    if (cast->starts_wanted) {
        KIN_TRY(start_columns(w, cast));
    }
    KIN_TRY(kin_gpu_download(w->on.ctx, w->on.gpu, &seen, cast->found, sizeof seen));
    cast->set.worst = (kin_bound_row){(double)seen.worst[0], (double)seen.worst[1]};
    if (cast->starts != NULL) {
        kin_screen_gpu_set_start(&cast->set, cast->starts, &seen.starts);
    }
    w->cast = cast->set;
    w->cast_worst = cast->tiles;
    w->cast_gates = cast->gates;
    w->passed = cast->passed;
    w->passed_room = cast->room;
    kin_screen_gpu_work_stretch(w, (double)w->rows.padded * KIN_SCREEN_GPU_BLOCK * share);
    return kin_screen_gpu_work_worst(w);
}

/* ---- Of a few axes --------------------------------------------------------------------------- */

/* Beyond the largest component of the sample's shadows: what is cut off of one row widens the
 * limits of all. */
static const double HEADROOM = 1.3;

/* The mean shadow of the sample, and the step of bytes about it. */
typedef struct spread {
    double middle[KIN_SCREEN_GPU_MOST_AXES];
    double unit;
} spread;

static spread spread_of(const kin_axes *axes)
{
    spread s = {{0.0}, 0.0};
    double shadow[KIN_SCREEN_GPU_MOST_AXES];
    for (int64_t i = 0; i < KIN_AXES_SAMPLE; i++) {
        kin_axes_shadow(axes, i, shadow);
        for (int32_t j = 0; j <= axes->count; j++) {
            s.middle[j] += shadow[j] / KIN_AXES_SAMPLE;
        }
    }
    for (int64_t i = 0; i < KIN_AXES_SAMPLE; i++) {
        kin_axes_shadow(axes, i, shadow);
        for (int32_t j = 0; j <= axes->count; j++) {
            s.unit = fmax(s.unit, fabs(shadow[j] - s.middle[j]) * HEADROOM / 127.0);
        }
    }
    return s;
}

/* A basis on the device, and a piece of the rows in it. */
typedef struct casting {
    int64_t cols;
    int32_t axes;
    float *mean;
    float *basis;
    float *values;
    float *off;
} casting;

static void name_casting(kin_layout *layout, void *job)
{
    casting *c = job;
    const uint64_t wide = (uint64_t)c->axes + 1;
    c->mean = kin_layout_array(layout, (uint64_t)c->cols, sizeof *c->mean);
    c->basis =
        kin_layout_array(layout, (uint64_t)c->cols * KIN_SCREEN_GPU_MOST_AXES, sizeof *c->basis);
    c->values = kin_layout_array(layout, PIECE * wide, sizeof *c->values);
    c->off = kin_layout_array(layout, PIECE, sizeof *c->off);
}

/* The basis as kernels read it. */
static kith_status upload_basis(const kin_screen_gpu_device *on, const kin_axes *axes,
                                const casting *c)
{
    const int64_t wide = KIN_SCREEN_GPU_MOST_AXES;
    float *host = NULL;
    KIN_HOLD(hold, on->ctx);
    KIN_NEW(&hold, host, (uint64_t)(c->cols * (wide + 1)), "a basis");
    float *mean = host + c->cols * wide;
    memset(host, 0, (size_t)(c->cols * wide) * sizeof *host);
    for (int64_t col = 0; col < c->cols; col++) {
        mean[col] = (float)axes->mean[col];
        memcpy(host + col * wide, axes->basis + col * axes->padded, (size_t)c->axes * sizeof *host);
    }
    KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, c->basis, host,
                           (uint64_t)(c->cols * wide) * sizeof *host));
    return kin_gpu_upload(on->ctx, on->gpu, c->mean, mean, (uint64_t)c->cols * sizeof *mean);
}

/* Positions first .. of a piece. */
static kith_status cast_piece(const kin_screen_gpu_work *w, const casting *c, const cast_rows *cast,
                              double skew, int64_t first)
{
    const kin_screen_gpu_device *on = &w->on;
    const kin_screen_gpu_set part = kin_screen_gpu_set_part(&w->rows, first, PIECE);
    const int32_t wide = c->axes + 1;
    const kin_screen_gpu_cast job = {.set = part,
                                     .mean = c->mean,
                                     .basis = c->basis,
                                     .axes = c->axes,
                                     .skew = skew,
                                     .values = c->values,
                                     .off = c->off};
    const kin_screen_gpu_round given = {.rows = {.data = c->values,
                                                 .rows = part.points,
                                                 .stride_bytes = wide * (int64_t)sizeof *c->values,
                                                 .cols = wide,
                                                 .dtype = KITH_F32,
                                                 .metric = KITH_SQEUCLIDEAN},
                                        .off = c->off,
                                        .off_stride = 1};
    KIN_TRY(KIN_SCREEN_LAUNCH(on, cast, &job, "casting shadows"));
    return round_rows(w, cast, given, first);
}

static kith_status cast_all(const kin_screen_gpu_work *w, kin_axes *axes, const casting *c,
                            const cast_rows *cast)
{
    const double skew = kin_axes_skew(axes);
    KIN_TRY(upload_basis(&w->on, axes, c));
    for (int64_t first = 0; first < w->rows.points; first += PIECE) {
        KIN_TRY(cast_piece(w, c, cast, skew, first));
    }
    return KITH_OK;
}

kith_status kin_screen_gpu_cast_axes(kin_screen_gpu_work *w, kin_axes *axes, bool bytes,
                                     double share, kin_screen_gpu_shadow *shadow)
{
    const kin_screen_gpu_device *on = &w->on;
    const kin_screen_gpu_type type = bytes ? KIN_SCREEN_GPU_S8 : KIN_SCREEN_GPU_F16;
    const spread s = spread_of(axes);
    casting c = {.cols = w->rows.frame.cols, .axes = axes->count};
    cast_rows cast = cast_of(w, type, axes->count + 1, bytes && s.unit > 0.0 ? s.unit : 1.0);
    KIN_HOLD(hold, on->ctx);
    cast.of_axes = true;
    KIN_TRY(make_room(w, &cast, shadow));
    KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, cast.middle, s.middle,
                           ((uint64_t)axes->count + 1) * sizeof *s.middle));
    KIN_TRY(kin_gpu_hold_layout(&hold, on->gpu, name_casting, &c, "a basis"));
    KIN_TRY(cast_all(w, axes, &c, &cast));
    shadow->axes = axes->count;
    return take(w, &cast, share);
}

/* ---- Of all columns, as bytes ---------------------------------------------------------------- */

kith_status kin_screen_gpu_cast_bytes(kin_screen_gpu_work *w, double unit, double share,
                                      kin_screen_gpu_shadow *shadow)
{
    const kin_screen_gpu_set *set = &w->rows;
    cast_rows cast = cast_of(w, KIN_SCREEN_GPU_S8, set->frame.cols, unit);
    const kin_screen_gpu_round given = {.rows = {.data = set->rounded,
                                                 .rows = set->points,
                                                 .stride_bytes = set->frame.row_bytes,
                                                 .cols = set->frame.cols,
                                                 .dtype = KITH_F16,
                                                 .metric = KITH_SQEUCLIDEAN},
                                        .off = &set->facts->lost,
                                        .off_stride = sizeof *set->facts / sizeof(float)};
    KIN_TRY(make_room(w, &cast, shadow));
    KIN_TRY(round_rows(w, &cast, given, 0));
    shadow->bytes = true;
    return take(w, &cast, share);
}
