/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The rounded rows are what shadows are made of: a few thousand come to the host, where the
 * axes are found as for the processor (exact_axes.h); a trial, rows that are screened against all,
 * says how many pairs each number of axes would let pass. A screen of m axes and its looks together
 * must take less than the screen of full rows does.
 *
 *      rounded rows --sample--> host: axes, trial --basis--> cast --> round --> work->cast
 *
 * Cost. Two thousand rows to the host and two rounds of orthogonal iteration there, 30 to 100 ms;
 * one product of all rows with the basis. So long jobs alone learn.
 */
#include "fused/fused_search.h"

#include "base/base_mem.h"
#include "base/base_random.h"
#include "base/base_try.h"
#include "exact/exact_axes.h"

enum {
    TRIAL_ROWS = 96,
    TRIAL_CAPACITY = 4096,
    CHOSEN = KIN_AXES_SAMPLE + TRIAL_ROWS,
    STEPS = KIN_FUSED_MOST_AXES / KIN_AXES_STEP + 1,
    MOST_TRIED = 96, /* axes: finding them takes their square */
    LEAST_COLS = 48,
    PIECE = 1 << 16 /* rows that are cast at a time */
};

/* Pairs that wait for a look, if there is room for so many; a stage is so long that about half of
 * them are needed. */
static const uint64_t MOST_PASSED = 1u << 26;
/* Picoseconds that one H200 takes: a pair, and 32 bytes of its rows, which stay in shared memory or
 * come anew for each tile; a look at a pair, and a byte of its rows. Of another chip the ratios are
 * much the same. */
static const double PAIR = 0.32;
static const double STEP_THAT_STAYS = 0.03;
static const double STEP_THAT_COMES = 0.056;
static const double LOOK = 60.0;
static const double LOOK_BYTE = 0.2;
/* Shadows must save so much of a job, which takes at least so long without. */
static const double WORTH = 0.75;
static const double LEAST_PICOSECONDS = 0.3e12;

typedef struct learning {
    kin_fused_work *work;
    const kin_fused_prepared *points;
    kin_fused_chosen rows;  /* device: the sample, then the trial's */
    unsigned char *copy;    /* of their rounded rows */
    uint32_t *ids;          /* CHOSEN: of these rows; then 0, 1, ... */
    int64_t blocks[CHOSEN]; /* where they stand */
    kin_axes axes;
    double reach[TRIAL_ROWS];
    float far[TRIAL_ROWS * STEPS];
    int32_t passed[TRIAL_ROWS * STEPS];
} learning;

/* ---- A sample -------------------------------------------------------------------------------- */

/* Positions at random; the seeds have proven a reach of each. */
static kith_status choose_rows(learning *l)
{
    const kin_fused_device *on = &l->work->on;
    const uint64_t points = (uint64_t)l->work->rows.points;
    uint32_t *all = NULL;
    uint64_t state = 1;
    KIN_TRY(kin_alloc(on->ctx, &all, points, sizeof *all, "the order of the points"));
    kith_status status =
        kin_gpu_download(on->ctx, on->gpu, all, l->points->ids, points * sizeof *all);
    for (int i = 0; i < CHOSEN && status == KITH_OK; i++) {
        const uint64_t position = kin_random_below(&state, points);
        l->ids[i] = all[position];
        l->blocks[i] = (int64_t)position / KIN_FUSED_BLOCK;
        if (i >= KIN_AXES_SAMPLE) {
            status = kin_gpu_download(on->ctx, on->gpu, &l->reach[i - KIN_AXES_SAMPLE],
                                      l->work->lists.reach + position, sizeof *l->reach);
        }
    }
    kin_free(on->ctx, all);
    return status;
}

/* Their rounded rows, on the host too. */
static kith_status bring_rows(learning *l)
{
    const kin_fused_device *on = &l->work->on;
    const kin_fused_frame *frame = &l->work->rows.frame;
    const uint64_t bytes = (uint64_t)CHOSEN * (uint64_t)frame->row_bytes;
    l->rows = kin_fused_chosen_of(frame, CHOSEN);
    KIN_TRY(kin_fused_chosen_make(on, &l->rows));
    KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, l->rows.ids, l->ids, CHOSEN * sizeof *l->ids));
    KIN_TRY(kin_fused_chosen_round(on, &l->points->rows, &l->rows));
    KIN_TRY(kin_alloc(on->ctx, &l->copy, bytes, 1, "a sample of the rows"));
    KIN_TRY(kin_fused_chosen_see(on, &l->rows));
    return kin_gpu_download(on->ctx, on->gpu, l->copy, l->rows.rounded, bytes);
}

/* What the seeds have proven of the trial's rows is loose; all columns tell. */
static kith_status prove_trial(learning *l)
{
    const kin_fused_work *w = l->work;
    const kin_fused_device *on = &w->on;
    kin_fused_work trial = {.on = *on,
                            .rows = kin_fused_set_part(&l->rows.set, KIN_AXES_SAMPLE, TRIAL_ROWS),
                            .cols = w->cols,
                            .col_worst = w->worst};
    kith_status status = KITH_OK;
    KIN_TRY(kin_fused_work_worst(w));
    KIN_TRY(kin_fused_work_make(&trial, w->lists.k, TRIAL_CAPACITY));
    KIN_TRY_GOTO(status,
                 kin_gpu_upload(on->ctx, on->gpu, trial.lists.reach, l->reach, sizeof l->reach),
                 done);
    KIN_TRY_GOTO(status, kin_fused_work_rerun(&trial), done);
    status = kin_gpu_download(on->ctx, on->gpu, l->reach, trial.lists.reach, sizeof l->reach);
done:
    kin_fused_work_free(&trial);
    return status;
}

static kith_status find_axes(learning *l, int32_t count)
{
    kith_ctx *ctx = l->work->on.ctx;
    const kin_fused_frame *frame = &l->work->rows.frame;
    const kin_distance distance = {
        .metric = KITH_SQEUCLIDEAN, .cols = frame->cols, .isa = ctx->isa};
    const kin_rows rows = {.matrix = {.data = l->copy,
                                      .rows = CHOSEN,
                                      .cols = frame->cols,
                                      .dtype = frame->type == KIN_FUSED_F16 ? KITH_F16 : KITH_I8,
                                      .stride_bytes = frame->row_bytes}};
    for (uint32_t i = 0; i < CHOSEN; i++) {
        l->ids[i] = i;
    }
    const kin_axes_points points = {&distance, &rows, l->ids, KIN_AXES_SAMPLE, 1.0};
    return kin_axes_make(ctx, &points, count, l->ids + KIN_AXES_SAMPLE, TRIAL_ROWS, &l->axes);
}

/* ---- How many axes --------------------------------------------------------------------------- */

static double longest_of(const kin_axes *axes)
{
    double longest_sq = 0.0;
    for (int i = 0; i < KIN_AXES_SAMPLE; i++) {
        longest_sq = fmax(longest_sq, axes->lengths[i]);
    }
    return sqrt(longest_sq);
}

/* Seeds have met what stands near. */
static kith_status run_trial(learning *l)
{
    const kin_fused_work *w = l->work;
    const kin_axes_test test = {.rows = TRIAL_ROWS,
                                .types = 1,
                                .far = l->far,
                                .passed = l->passed,
                                .places = l->blocks,
                                .circle = w->rows.padded / KIN_FUSED_BLOCK,
                                .apart = w->size.seed_blocks / 2 + 1};
    const int32_t steps = kin_axes_steps(l->axes.count);
    const double lost = w->rows.worst.lost + longest_of(&l->axes) * 0x1p-12;
    for (int row = 0; row < TRIAL_ROWS; row++) {
        for (int32_t step = 0; step < steps; step++) {
            const double far = l->reach[row] + 2.0 * lost;
            l->far[row * steps + step] = (float)(far * far);
        }
    }
    return kin_axes_run_test(w->on.ctx, &l->axes, &test);
}

static double screen_price(int64_t bytes)
{
    const int64_t step = 32;
    const int64_t most_that_stay = 384;
    return PAIR + (bytes <= most_that_stay ? STEP_THAT_STAYS : STEP_THAT_COMES) *
                      (double)kin_ceil_div(bytes, step);
}

static int64_t used_bytes(const kin_fused_frame *frame)
{
    return (int64_t)frame->cols * (frame->type == KIN_FUSED_F16 ? 2 : 1);
}

/* With the length of the rest they fill their bytes. */
static int32_t kept_axes(int32_t step)
{
    return step * KIN_AXES_STEP - 1;
}

static double share_passed(const learning *l, int32_t step)
{
    const int32_t steps = kin_axes_steps(l->axes.count);
    int64_t passed = 1;
    for (int row = 0; row < TRIAL_ROWS; row++) {
        passed += l->passed[row * steps + step];
    }
    const int ends = 2;
    return fmin(1.0, ends * (double)passed / ((double)TRIAL_ROWS * KIN_AXES_SAMPLE));
}

/* And what share of the pairs they let pass. */
static int32_t take_least(const learning *l, double *share)
{
    const kin_fused_frame *frame = &l->work->rows.frame;
    double least = WORTH * screen_price(used_bytes(frame));
    int32_t taken = 0;
    for (int32_t step = 1; step < kin_axes_steps(l->axes.count); step++) {
        const double looks = share_passed(l, step) * (LOOK + LOOK_BYTE * frame->row_bytes);
        const double price = screen_price(2 * ((int64_t)kept_axes(step) + 1)) + looks;
        if (price < least) {
            least = price;
            taken = step;
            *share = share_passed(l, step);
        }
        kin_log(l->work->on.ctx, 2, "%d axes let %.4f %% pass, %.2f ps a pair", kept_axes(step),
                100.0 * share_passed(l, step), price);
    }
    return taken == 0 ? 0 : kept_axes(taken);
}

static bool is_long(const kin_fused_work *w)
{
    const double pairs = 0.5 * (double)w->rows.points * (double)w->rows.points;
    return w->rows.frame.cols >= LEAST_COLS &&
           pairs * screen_price(used_bytes(&w->rows.frame)) >= LEAST_PICOSECONDS;
}

/* ---- Casting --------------------------------------------------------------------------------- */

/* A basis on the device, and a piece of the rows in it. */
typedef struct casting {
    int64_t cols;
    int32_t axes;
    float *mean;
    float *basis;
    float *values;
    float *off;
    void *block;
} casting;

static void name_casting(kin_layout *layout, void *job)
{
    casting *c = job;
    const uint64_t wide = (uint64_t)c->axes + 1;
    c->mean = kin_layout_array(layout, (uint64_t)c->cols, sizeof *c->mean);
    c->basis = kin_layout_array(layout, (uint64_t)c->cols * KIN_FUSED_MOST_AXES, sizeof *c->basis);
    c->values = kin_layout_array(layout, PIECE * wide, sizeof *c->values);
    c->off = kin_layout_array(layout, PIECE, sizeof *c->off);
}

/* What stays. */
typedef struct cast_rows {
    kin_fused_set set;
    unsigned char *rounded;
    kin_fused_facts *facts;
    kin_fused_word *half;
    kin_fused_worst *tiles;
    uint64_t *passed;
    uint64_t room; /* of passed */
    double *middle;
    float *worst;
} cast_rows;

static void name_cast(kin_layout *layout, void *job)
{
    cast_rows *c = job;
    const uint64_t n = (uint64_t)c->set.padded;
    c->rounded = kin_layout_array(layout, n, (uint64_t)c->set.frame.row_bytes);
    c->facts = kin_layout_array(layout, n, sizeof *c->facts);
    c->half = kin_layout_array(layout, n, sizeof *c->half);
    c->tiles = kin_layout_array(layout, n / KIN_FUSED_TILE, sizeof *c->tiles);
    c->passed = kin_layout_array(layout, c->room, sizeof *c->passed);
    c->middle = kin_layout_array(layout, (uint64_t)c->set.frame.cols, sizeof *c->middle);
    c->worst = kin_layout_array(layout, 2, sizeof *c->worst);
    c->set.rounded = c->rounded;
    c->set.facts = c->facts;
    c->set.half = c->half;
    c->set.frame.mean = c->middle;
}

static uint64_t room_of(const kin_fused_work *w)
{
    const uint64_t fits = kin_gpu_scope(w->on.gpu) / 16 / sizeof *w->passed;
    return fits < MOST_PASSED ? fits : MOST_PASSED;
}

static cast_rows cast_of(const kin_fused_work *w, int32_t axes)
{
    const kin_fused_device *on = &w->on;
    const int32_t cols = axes + 1;
    return (cast_rows){
        .room = room_of(w),
        .set = {.frame = {.type = KIN_FUSED_F16,
                          .bound = KIN_BOUND_DISTANCE,
                          .cols = cols,
                          .row_bytes = (int32_t)kin_round_up(2 * (int64_t)cols, KIN_FUSED_SLICE),
                          .scale = 1.0,
                          .kappa = on->kernels->kappa(on->stream, cols),
                          .key_scale = 1.0},
                .points = w->rows.points,
                .padded = w->rows.padded,
                .ids = w->rows.ids}};
}

/* The basis as kernels read it, and the mean shadow of the sample. */
static kith_status upload_basis(const learning *l, const casting *c, const cast_rows *cast)
{
    const kin_axes *axes = &l->axes;
    const kin_fused_device *on = &l->work->on;
    const int64_t wide = KIN_FUSED_MOST_AXES;
    double middle[KIN_FUSED_MOST_AXES] = {0.0};
    double shadow[KIN_FUSED_MOST_AXES];
    float *host = NULL;
    KIN_TRY(kin_alloc(on->ctx, &host, (uint64_t)(c->cols * (wide + 1)), sizeof *host, "a basis"));
    float *mean = host + c->cols * wide;
    memset(host, 0, (size_t)(c->cols * wide) * sizeof *host);
    for (int64_t col = 0; col < c->cols; col++) {
        mean[col] = (float)axes->mean[col];
        memcpy(host + col * wide, axes->basis + col * axes->padded, (size_t)c->axes * sizeof *host);
    }
    for (int64_t i = 0; i < KIN_AXES_SAMPLE; i++) {
        kin_axes_shadow(axes, i, shadow);
        for (int32_t j = 0; j <= c->axes; j++) {
            middle[j] += shadow[j] / KIN_AXES_SAMPLE;
        }
    }
    kith_status status =
        kin_gpu_upload(on->ctx, on->gpu, c->basis, host, (uint64_t)(c->cols * wide) * sizeof *host);
    if (status == KITH_OK) {
        status = kin_gpu_upload(on->ctx, on->gpu, c->mean, mean, (uint64_t)c->cols * sizeof *mean);
    }
    if (status == KITH_OK) {
        status = kin_gpu_upload(on->ctx, on->gpu, cast->middle, middle,
                                ((uint64_t)c->axes + 1) * sizeof *middle);
    }
    kin_free(on->ctx, host);
    return status;
}

/* Positions first .. of a piece. */
static kith_status cast_piece(const kin_fused_work *w, const casting *c, const cast_rows *cast,
                              double skew, int64_t first)
{
    const kin_fused_device *on = &w->on;
    const kin_fused_set part = kin_fused_set_part(&w->rows, first, PIECE);
    const int32_t wide = c->axes + 1;
    const kin_fused_cast job = {.set = part,
                                .mean = c->mean,
                                .basis = c->basis,
                                .axes = c->axes,
                                .skew = skew,
                                .values = c->values,
                                .off = c->off};
    const kin_fused_round round = {.rows = {.data = c->values,
                                            .rows = part.points,
                                            .stride_bytes = wide * (int64_t)sizeof *c->values,
                                            .cols = wide,
                                            .dtype = KITH_F32,
                                            .metric = KITH_SQEUCLIDEAN},
                                   .frame = cast->set.frame,
                                   .off = c->off,
                                   .points = part.points,
                                   .padded = part.padded,
                                   .rounded = cast->rounded + first * cast->set.frame.row_bytes,
                                   .facts = cast->facts + first,
                                   .half = cast->half + first,
                                   .worst = cast->worst};
    KIN_TRY(kin_fused_launched(on, on->kernels->cast(on->stream, &job), "casting shadows"));
    return kin_fused_launched(on, on->kernels->round(on->stream, &round), "rounding shadows");
}

static kith_status cast_all(learning *l, casting *c, cast_rows *cast)
{
    const kin_fused_work *w = l->work;
    float worst[2] = {0.0F, 0.0F};
    KIN_TRY(upload_basis(l, c, cast));
    KIN_TRY(kin_gpu_upload(w->on.ctx, w->on.gpu, cast->worst, worst, sizeof worst));
    const double skew = kin_axes_skew(&l->axes);
    for (int64_t first = 0; first < w->rows.points; first += PIECE) {
        KIN_TRY(cast_piece(w, c, cast, skew, first));
    }
    KIN_TRY(kin_gpu_download(w->on.ctx, w->on.gpu, worst, cast->worst, sizeof worst));
    cast->set.worst = (kin_bound_row){(double)worst[0], (double)worst[1]};
    return KITH_OK;
}

/* Offsets of blocks, each of which is a pair of blocks for every block. */
static void shorten_stages(kin_fused_work *w, double share)
{
    const double an_offset = (double)w->rows.padded * KIN_FUSED_BLOCK * share;
    const double fit = 0.5 * (double)w->passed_room / an_offset;
    if (fit < (double)w->size.stretch) {
        w->size.stretch = kin_max_i64(1, (int64_t)fit);
    }
}

static kith_status cast_axes(learning *l, int32_t axes, double share, kin_fused_shadow *shadow)
{
    kin_fused_work *w = l->work;
    const kin_fused_device *on = &w->on;
    casting c = {.cols = w->rows.frame.cols, .axes = axes};
    cast_rows cast = cast_of(w, axes);
    kith_status status = KITH_OK;
    l->axes.count = axes;
    KIN_TRY(kin_gpu_layout_make(on->ctx, on->gpu, name_cast, &cast, "shadows", &shadow->block));
    KIN_TRY_GOTO(
        status, kin_gpu_layout_make(on->ctx, on->gpu, name_casting, &c, "a basis", &c.block), done);
    KIN_TRY_GOTO(status, cast_all(l, &c, &cast), done);
    shadow->axes = axes;
    w->cast = cast.set;
    w->cast_worst = cast.tiles;
    w->passed = cast.passed;
    w->passed_room = cast.room;
    shorten_stages(w, share);
    status = kin_fused_work_worst(w);
done:
    kin_gpu_free(on->gpu, c.block);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static kith_status learn(learning *l, int32_t given, kin_fused_shadow *shadow)
{
    const int32_t cols = l->work->rows.frame.cols;
    const int32_t most = (int32_t)kin_min_i64(MOST_TRIED, cols / 2);
    int32_t axes = given;
    double share = 0.01; /* not known */
    KIN_TRY(kin_alloc(l->work->on.ctx, &l->ids, CHOSEN, sizeof *l->ids, "a sample of the rows"));
    KIN_TRY(choose_rows(l));
    KIN_TRY(bring_rows(l));
    KIN_TRY(find_axes(l, given > 0 ? given : most / KIN_AXES_STEP * KIN_AXES_STEP));
    if (given == 0) {
        KIN_TRY(prove_trial(l));
        KIN_TRY(run_trial(l));
        axes = take_least(l, &share);
    }
    return axes > 0 ? cast_axes(l, axes, share, shadow) : KITH_OK;
}

kith_status kin_fused_shadow_make(kin_fused_work *work, const kin_fused_prepared *points,
                                  int32_t given, kin_fused_shadow *shadow)
{
    learning l = {.work = work, .points = points};
    const kin_fused_device *on = &work->on;
    *shadow = (kin_fused_shadow){0};
    if (!work->graph || work->share.parts > 0 || work->rows.frame.bound != KIN_BOUND_DISTANCE ||
        !kin_fused_work_has_stages(work) || (given == 0 && !is_long(work))) {
        return KITH_OK;
    }
    const kith_status status = learn(&l, given, shadow);
    kin_axes_free(on->ctx, &l.axes);
    kin_free(on->ctx, l.copy);
    kin_free(on->ctx, l.ids);
    kin_gpu_free(on->gpu, l.rows.block);
    if (status != KITH_OK) {
        kin_fused_shadow_free(on, shadow);
        work->cast = (kin_fused_set){0};
    }
    if (status != KITH_E_DEVICE_MEMORY) {
        return status;
    }
    kin_forgive(on->ctx); /* full rows need no more */
    return KITH_OK;
}

void kin_fused_shadow_free(const kin_fused_device *on, kin_fused_shadow *shadow)
{
    kin_gpu_free(on->gpu, shadow->block);
    *shadow = (kin_fused_shadow){0};
}
