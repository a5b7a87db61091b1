/* SPDX-License-Identifier: Apache-2.0
 *
 * Which shadows a graph's stages screen: bytes of all columns, halves or bytes of a few axes, or
 * none.
 *
 * Axes. The rounded rows are what shadows are made of: a few thousand come to the host, where the
 * axes are found as for the processor (screen_corpus.h); a trial, rows that are screened against
 * all, says how many pairs each number of axes would let pass. A screen of m axes and its looks
 * together must take less than the screen of full rows does.
 *
 *      rounded rows --sample--> host: axes, trial --basis--> screen_cast_gpu.c
 *
 * As bytes their products take less than a third of the time, where starts stand in them. The first
 * axes span most of a row, and a byte has one scale for all: so the axes are turned among
 * themselves, after which rows spread over them alike.
 *
 * Two thousand rows to the host and two rounds of orthogonal iteration there take 30 to 100 ms, and
 * one product of all rows with the basis. So long jobs alone learn.
 *
 * Bytes. Products of bytes take half the time of those of halves, and a pilot has said what they
 * let pass (screen_type_gpu.c). They cost one look at the rows.
 */

#include "base/base_random.h"
#include "screen/screen_prepare_gpu.h"

#include <stdlib.h>

enum {
    TRIAL_ROWS = 96,
    TRIAL_CAPACITY = 4096,
    CHOSEN = KIN_AXES_SAMPLE + TRIAL_ROWS,
    STEPS = KIN_SCREEN_GPU_MOST_AXES / KIN_AXES_STEP + 1,
    MOST_TRIED = 96, /* axes: finding them takes their square */
    LEAST_COLS = 48,
    TYPES = 2 /* of shadows of axes: halves, bytes */
};

/* Picoseconds that one H200 takes: a pair, and 32 bytes of its rows, which stay in shared memory or
 * come anew for each tile; a look at a pair, and a byte of its rows. Of another chip the ratios are
 * much the same. */
static const double PAIR = 0.32;
static const double STEP_THAT_STAYS = 0.03;
static const double STEP_THAT_COMES = 0.056;
static const double LOOK = 60.0;
static const double LOOK_BYTE = 0.2;
/* The same of bytes, whose start is a step more; and what the test takes for a pair that passes. */
static const double BYTE_PAIR = 0.02;
static const double BYTE_STEP_THAT_STAYS = 0.033;
static const double BYTE_PASS = 150.0;
static const double BYTES_WORTH = 0.9;
/* Shadows must save so much of a job, which takes at least so long without; those of axes more of
 * what bytes of all columns take, which need no basis. */
static const double WORTH = 0.75;
static const double AXES_WORTH = 0.6;
static const double LEAST_PICOSECONDS = 0.3e12;

typedef struct learning {
    kin_screen_gpu_work *work;
    const kin_screen_gpu_prepared *points;
    kin_screen_gpu_chosen rows; /* device: the sample, then the trial's */
    unsigned char *copy;        /* of their rounded rows */
    uint32_t *ids;              /* CHOSEN: of these rows; then 0, 1, ... */
    int64_t blocks[CHOSEN];     /* where they stand */
    kin_axes axes;
    double reach[TRIAL_ROWS];
    int types; /* of shadows that are tried */
    float far[TRIAL_ROWS * TYPES * STEPS];
    int32_t passed[TRIAL_ROWS * TYPES * STEPS];
} learning;

/* What is taken of those. */
typedef struct choice {
    int32_t axes; /* 0: none */
    bool bytes;
    double least; /* picoseconds that a pair takes, */
    double share; /* and the share of pairs that pass */
} choice;

/* ---- A sample -------------------------------------------------------------------------------- */

/* Positions at random; the seeds have proven a reach of each. */
static kith_status choose_rows(learning *l)
{
    const kin_screen_gpu_device *on = &l->work->on;
    const uint64_t points = (uint64_t)l->work->rows.points;
    uint32_t *all = NULL;
    uint64_t state = 1;
    KIN_HOLD(hold, on->ctx);
    KIN_NEW(&hold, all, points, "the order of the points");
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, all, l->points->ids, points * sizeof *all));
    for (int i = 0; i < CHOSEN; i++) {
        const uint64_t position = kin_random_below(&state, points);
        l->ids[i] = all[position];
        l->blocks[i] = (int64_t)position / KIN_SCREEN_GPU_BLOCK;
        if (i >= KIN_AXES_SAMPLE) {
            KIN_TRY(kin_gpu_download(on->ctx, on->gpu, &l->reach[i - KIN_AXES_SAMPLE],
                                     l->work->lists.reach + position, sizeof *l->reach));
        }
    }
    return KITH_OK;
}

/* Their rounded rows, on the host too. */
static kith_status bring_rows(learning *l)
{
    const kin_screen_gpu_device *on = &l->work->on;
    const kin_screen_gpu_frame *frame = &l->work->rows.frame;
    const uint64_t bytes = (uint64_t)CHOSEN * (uint64_t)frame->row_bytes;
    l->rows = kin_screen_gpu_chosen_of(frame, CHOSEN);
    KIN_TRY(kin_screen_gpu_chosen_make(on, &l->rows));
    KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, l->rows.ids, l->ids, CHOSEN * sizeof *l->ids));
    KIN_TRY(kin_screen_gpu_chosen_round(on, &l->points->rows, &l->rows));
    KIN_TRY(kin_alloc(on->ctx, &l->copy, bytes, 1, "a sample of the rows"));
    KIN_TRY(kin_screen_gpu_chosen_see(on, &l->rows));
    return kin_gpu_download(on->ctx, on->gpu, l->copy, l->rows.rounded, bytes);
}

/* What the seeds have proven of the trial's rows is loose; all columns tell. */
static kith_status prove_trial(learning *l)
{
    const kin_screen_gpu_work *w = l->work;
    const kin_screen_gpu_device *on = &w->on;
    kin_screen_gpu_work trial = {
        .on = *on,
        .rows = kin_screen_gpu_set_part(&l->rows.set, KIN_AXES_SAMPLE, TRIAL_ROWS),
        .cols = w->cols,
        .col_worst = w->worst};
    KIN_TRY(kin_screen_gpu_work_worst(w));
    KIN_TRY(kin_screen_gpu_work_make(&trial, w->lists.k, TRIAL_CAPACITY));
    kith_status status =
        kin_gpu_upload(on->ctx, on->gpu, trial.lists.reach, l->reach, sizeof l->reach);
    KIN_THEN(status, kin_screen_gpu_work_rerun(&trial));
    KIN_THEN(status,
             kin_gpu_download(on->ctx, on->gpu, l->reach, trial.lists.reach, sizeof l->reach));
    kin_screen_gpu_work_free(&trial);
    return status;
}

static kith_status find_axes(learning *l, int32_t count)
{
    kith_ctx *ctx = l->work->on.ctx;
    const kin_screen_gpu_frame *frame = &l->work->rows.frame;
    const kin_distance distance = {
        .metric = KITH_SQEUCLIDEAN, .cols = frame->cols, .isa = ctx->isa};
    const kin_rows rows = {
        .matrix = {.data = l->copy,
                   .rows = CHOSEN,
                   .cols = frame->cols,
                   .dtype = frame->type == KIN_SCREEN_GPU_F16 ? KITH_F16 : KITH_I8,
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

/* What rounding loses of a row of so many axes that share its length, about: the largest component
 * is some times the usual one, and a step is lost by a random half. */
static double usual_loss(double longest, int32_t axes)
{
    const double largest = longest * fmin(1.0, 4.0 / sqrt((double)axes));
    return 0.3 * sqrt((double)axes) * largest / 127.0;
}

/* Seeds have met what stands near. */
static kith_status run_trial(learning *l)
{
    const kin_screen_gpu_work *w = l->work;
    const kin_axes_test test = {.rows = TRIAL_ROWS,
                                .types = l->types,
                                .far = l->far,
                                .passed = l->passed,
                                .places = l->blocks,
                                .circle = w->rows.padded / KIN_SCREEN_GPU_BLOCK,
                                .apart = w->size.seed_blocks / 2 + 1};
    const int32_t steps = kin_axes_steps(l->axes.count);
    const double longest = longest_of(&l->axes);
    for (int32_t i = 0; i < TRIAL_ROWS * l->types * steps; i++) {
        const bool bytes = i / steps % l->types == 1;
        const double own =
            bytes ? usual_loss(longest, i % steps * KIN_AXES_STEP + 1) : longest * 0x1p-12;
        const double far = l->reach[i / steps / l->types] + 2.0 * (w->rows.worst.lost + own);
        l->far[i] = (float)(far * far);
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

/* Of a pair whose shadows passed. */
static double look_price(const kin_screen_gpu_frame *frame)
{
    return LOOK + LOOK_BYTE * frame->row_bytes;
}

static int64_t used_bytes(const kin_screen_gpu_frame *frame)
{
    return (int64_t)frame->cols * (frame->type == KIN_SCREEN_GPU_F16 ? 2 : 1);
}

/* With the length of the rest they fill their bytes. */
static int32_t kept_axes(int32_t step)
{
    return step * KIN_AXES_STEP - 1;
}

static double share_passed(const learning *l, bool bytes, int32_t step)
{
    const int32_t steps = kin_axes_steps(l->axes.count);
    int64_t passed = 1;
    for (int row = 0; row < TRIAL_ROWS; row++) {
        passed += l->passed[(row * l->types + bytes) * steps + step];
    }
    const int ends = 2;
    return fmin(1.0, ends * (double)passed / ((double)TRIAL_ROWS * KIN_AXES_SAMPLE));
}

/* Of a pair of rows of so many bytes. */
static double byte_price(int32_t cols)
{
    const int64_t step = 32;
    const int64_t most_that_stay = 384;
    const double steps = (double)kin_ceil_div(cols, step);
    return cols <= most_that_stay ? BYTE_PAIR + BYTE_STEP_THAT_STAYS * (steps + 1.0)
                                  : PAIR + STEP_THAT_COMES * steps;
}

/* Whether full rows are bytes whose starts stand in the product. */
static bool are_bytes(const kin_screen_gpu_work *w)
{
    return w->rows.frame.type == KIN_SCREEN_GPU_S8 && w->rows.starts != NULL;
}

static double full_price(const kin_screen_gpu_work *w)
{
    const kin_screen_gpu_frame *frame = &w->rows.frame;
    return are_bytes(w) ? byte_price(frame->cols) : screen_price(used_bytes(frame));
}

static double axes_price(int32_t axes, bool bytes)
{
    return bytes ? byte_price(axes + 1) : screen_price(2 * ((int64_t)axes + 1));
}

/* Of a pair that passes. */
static double pass_price(const kin_screen_gpu_frame *frame, bool bytes)
{
    return look_price(frame) + (bytes ? BYTE_PASS : 0.0);
}

/* If any take less than *taken does. */
static void take_least(const learning *l, bool bytes, choice *taken)
{
    for (int32_t step = 1; step < kin_axes_steps(l->axes.count); step++) {
        const int32_t axes = kept_axes(step);
        const double share = share_passed(l, bytes, step);
        const double price =
            axes_price(axes, bytes) + share * pass_price(&l->work->rows.frame, bytes);
        if (price < taken->least) {
            *taken = (choice){axes, bytes, price, share};
        }
        kin_log(l->work->on.ctx, 2, "%d axes as %s let %.4f %% pass, %.2f ps a pair", axes,
                bytes ? "bytes" : "halves", 100.0 * share, price);
    }
}

/* The least that bytes let pass: reaches are found once, and hardly tightened later. How often they
 * are tightened, only stages tell (screen_stage_gpu.c). */
static double byte_share(const kin_screen_gpu_work *w, const kin_screen_gpu_prepared *points)
{
    return fmin(1.0, points->byte_candidates / (double)w->rows.points);
}

static bool is_long(const kin_screen_gpu_work *w)
{
    const double pairs = 0.5 * (double)w->rows.points * (double)w->rows.points;
    return w->rows.frame.cols >= LEAST_COLS && pairs * full_price(w) >= LEAST_PICOSECONDS;
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* given: 0, or as of kin_screen_gpu_shadow_make. */
static kith_status learn(learning *l, int32_t given, choice *taken)
{
    const int32_t cols = l->work->rows.frame.cols;
    const int32_t most = (int32_t)kin_min_i64(MOST_TRIED, cols / 2);
    KIN_TRY(kin_alloc(l->work->on.ctx, &l->ids, CHOSEN, sizeof *l->ids, "a sample of the rows"));
    KIN_TRY(choose_rows(l));
    KIN_TRY(bring_rows(l));
    KIN_TRY(find_axes(l, given != 0 ? abs(given) : most / KIN_AXES_STEP * KIN_AXES_STEP));
    if (given != 0) {
        *taken = (choice){.axes = abs(given), .bytes = given < 0, .share = 0.01 /* not known */};
        return KITH_OK;
    }
    if (!l->work->known) {
        KIN_TRY(prove_trial(l));
    }
    KIN_TRY(run_trial(l));
    for (int type = 0; type < l->types; type++) {
        take_least(l, type == 1, taken);
    }
    return KITH_OK;
}

/* Numbers into as many of the same length that have shares of each: rotations of two, of which each
 * half of the results is turned again. */
static void turn(float *values, int32_t count)
{
    const int32_t half = count / 2;
    for (int32_t i = 0; i < half; i++) {
        const double a = (double)values[i];
        const double b = (double)values[i + half];
        values[i] = (float)(sqrt(0.5) * (a + b));
        values[i + half] = (float)(sqrt(0.5) * (a - b));
    }
    if (half > 1) {
        turn(values, half);
        turn(values + half, half);
    }
}

/* Those before the first that is zero, which stays one: turned it were not orthogonal to others. */
static int32_t count_turned(const kin_axes *axes)
{
    for (int32_t j = 0; j < axes->count; j++) {
        int64_t c = 0;
        while (c < axes->wide && axes->basis[c * axes->padded + j] == 0.0F) {
            c += 1;
        }
        if (c == axes->wide) {
            return j;
        }
    }
    return axes->count;
}

/* And the images of the sample. How far the basis is from orthonormal then, kin_axes_skew says. */
static void turn_axes(const kin_axes *axes)
{
    const int32_t count = count_turned(axes);
    for (int64_t c = 0; c < axes->wide; c++) {
        turn(axes->basis + c * axes->padded, count);
    }
    for (int64_t i = 0; i < KIN_AXES_SAMPLE; i++) {
        turn(axes->images + i * axes->padded, count);
    }
}

/* least: what they must take less than. */
static kith_status make_axes(learning *l, int32_t given, double least,
                             kin_screen_gpu_shadow *shadow)
{
    choice taken = {.least = least};
    kith_status status = learn(l, given, &taken);
    if (status == KITH_OK && taken.axes > 0) {
        const kin_screen_gpu_frame *frame = &l->work->rows.frame;
        const double saved = full_price(l->work) - axes_price(taken.axes, taken.bytes);
        l->axes.count = taken.axes;
        l->work->cast_worth = given != 0 ? 1.0 : saved / pass_price(frame, taken.bytes);
        if (taken.bytes) {
            turn_axes(&l->axes);
        }
        status = kin_screen_gpu_cast_axes(l->work, &l->axes, taken.bytes, taken.share, shadow);
    }
    kin_axes_free(l->work->on.ctx, &l->axes);
    kin_free(l->work->on.ctx, l->copy);
    kin_free(l->work->on.ctx, l->ids);
    kin_gpu_free(l->work->on.gpu, l->rows.block);
    return status;
}

static kith_status make_bytes(kin_screen_gpu_work *work, const kin_screen_gpu_prepared *points,
                              double worth, kin_screen_gpu_shadow *shadow)
{
    work->cast_worth = worth;
    const double unit = points->byte_frame.scale / points->set.frame.scale;
    return kin_screen_gpu_cast_bytes(work, unit, byte_share(work, points), shadow);
}

static kith_status choose(kin_screen_gpu_work *work, const kin_screen_gpu_prepared *points,
                          int32_t given, kin_screen_gpu_shadow *shadow)
{
    const kin_screen_gpu_frame *frame = &work->rows.frame;
    const double full = full_price(work);
    const bool starts = work->on.kernels->takes_starts(work->on.stream);
    learning l = {.work = work, .points = points, .types = starts ? TYPES : 1};
    if (given == KIN_SCREEN_GPU_SHADOW_BYTES) {
        return frame->type == KIN_SCREEN_GPU_F16 ? make_bytes(work, points, 1.0, shadow) : KITH_OK;
    }
    const bool tried = frame->type == KIN_SCREEN_GPU_F16 && points->byte_candidates > 0.0;
    const double looked = pass_price(frame, true);
    const double as_bytes =
        tried ? byte_price(frame->cols) + byte_share(work, points) * looked : (double)INFINITY;
    if (given != 0 || is_long(work)) {
        const double by_bytes = are_bytes(work) ? full : as_bytes;
        KIN_TRY(make_axes(&l, given, fmin(WORTH * full, AXES_WORTH * by_bytes), shadow));
    }
    if (given != 0 || shadow->axes > 0 || !(as_bytes < BYTES_WORTH * full)) {
        return KITH_OK;
    }
    kin_log(work->on.ctx, 2, "bytes take %.2f ps a pair at least, full rows %.2f", as_bytes, full);
    return make_bytes(work, points, (BYTES_WORTH * full - byte_price(frame->cols)) / looked,
                      shadow);
}

kith_status kin_screen_gpu_shadow_make(kin_screen_gpu_work *work,
                                       const kin_screen_gpu_prepared *points, int32_t given,
                                       kin_screen_gpu_shadow *shadow)
{
    const kin_screen_gpu_device *on = &work->on;
    *shadow = (kin_screen_gpu_shadow){0};
    if (!work->graph || work->share.parts > 0 || work->rows.frame.bound != KIN_BOUND_DISTANCE ||
        !kin_screen_gpu_work_has_stages(work)) {
        return KITH_OK;
    }
    const kith_status status = choose(work, points, given, shadow);
    if (status != KITH_OK) {
        kin_screen_gpu_shadow_free(on, shadow);
        work->cast = (kin_screen_gpu_set){0};
    }
    if (status != KITH_E_DEVICE_MEMORY) {
        return status;
    }
    kin_forgive(on->ctx); /* full rows need no more */
    return KITH_OK;
}

void kin_screen_gpu_shadow_free(const kin_screen_gpu_device *on, kin_screen_gpu_shadow *shadow)
{
    kin_gpu_free(on->gpu, shadow->block);
    *shadow = (kin_screen_gpu_shadow){0};
}
