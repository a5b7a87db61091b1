/* SPDX-License-Identifier: Apache-2.0
 *
 * Which axes. A trial says how far neighbours are; how many pairs of trial and sample are nearer
 * than that in the first m axes, and what rounding adds, is the share that a screen of m axes would
 * let pass; m and the type are those whose screen and looks together take least. The axes that are
 * kept are mixed, so that they share the energy alike: one scale serves all. */
#include "screen/screen_corpus.h"

#include "base/base_size.h"
#include "host/host_threads.h"

enum { MOST_AXES = 192, STEPS = MOST_AXES / KIN_AXES_STEP + 1, LEAST_COLS = 48 };

/* What a pair takes: the tests of a tile; a look at a pair, from the log to the lists, and each
 * word of one. */
typedef struct prices {
    double tests;
    double look;
    double look_word;
} prices;
/* In words of a row that a kernel multiplies which broadcasts them (21 ps on AVX-512 VNNI); and in
 * words that one query reads from memory (0.4 ns), a look being a canonical key. */
static const prices MANY = {4.0, 850.0, 4.0};
static const prices FEW = {1.0, 750.0, 2.0};
/* How much larger than all of the sample a row may be: what is larger still is cut off, and spoils
 * the proofs of its block. */
static const double HEADROOM = 1.2;
/* Limits fall only on the way: more pass than in the end would. */
static const double EARLY = 1.5;
/* Shadows must save at least so much of a job, whose words are at least so many; 63 axes are found
 * sooner. */
static const double WORTH = 0.7;
static const double LEAST_WORDS = 1e11;
static const double LEAST_WORDS_OF_TILES = 3e10;
/* Fewer columns are screened in full as soon. */
enum { LEAST_GROUPS_OF_TILES = 80 };
/* Near rows stand together: of tiles the root of the share of pairs that pass has one, about
 * (Fashion-MNIST: 0.7, 2 and 7 % of the pairs, 12, 21 and 38 % of strips of 16 by 32). */
static const double SHARE_OF_TILES = 1.5;
/* Of rows and panels this power of the share of pairs, about (6.7, 4.2, 2.2, 1.1 and 0.6 % of the
 * pairs, 17, 12, 7.7, 4.9 and 3.5 % of rows with 16 points); a word of a pair takes so many times
 * as long there. */
static const double ROWS_OF_SIEVE = 0.65;
static const double DEARER_ROWS = 1.5;
enum { MOST_SIEVE = 64 };

/* ---- How many axes --------------------------------------------------------------------------- */

typedef struct choosing {
    const kin_prepared *corpus;
    const kin_shadow_job *job;
    const kin_axes *axes;
    const kin_trial *trial;
    const kin_tile_kernel *ladder[KIN_TYPE_LADDER];
    int types;
    bool tiles;
    bool sieves;           /* a sieve is asked for, where a kernel has one */
    double longest[STEPS]; /* of the sample in the span of 16, 32, ... axes */
    float far[KIN_TRIAL_ROWS * KIN_TYPE_LADDER * STEPS];
    int32_t passed[KIN_TRIAL_ROWS * KIN_TYPE_LADDER * STEPS]; /* of the sample, as tested */
    double least;                                             /* what the choice takes a pair */
    kin_shadow_choice choice;
} choosing;

/* How far, in units of the frame, a k-th neighbour of a trial row is at most. */
static double reach_of(const choosing *l, int64_t row)
{
    const double reach = l->trial->lists.reach[row];
    return l->corpus->frame.bound == KIN_BOUND_INTEGER ? sqrt(fmax(reach, 0.0)) : reach;
}

/* What rounding loses of a row of so many mixed axes, about: coordinates are alike, the largest of
 * all some times the usual one, and a step of the type is lost by a random half. */
static double usual_loss(const choosing *l, kin_tile_type type, int32_t axes)
{
    const double longest = l->longest[axes / KIN_AXES_STEP];
    const double step = 0.3 * sqrt((double)axes + 1.0);
    switch (type) {
    case KIN_TILE_S8:
        return step * longest * fmin(1.0, 4.0 / sqrt((double)axes)) / 127.0;
    case KIN_TILE_S16:
        return step * longest / 16383.0;
    case KIN_TILE_BF16:
        return longest * 0x1p-9;
    default:
        return 0.0;
    }
}

/* The longest of the sample in the span of 16, 32, ... axes. */
static void find_longest(choosing *l)
{
    const int32_t steps = kin_axes_steps(l->axes->count);
    for (int64_t i = 0; i < KIN_AXES_SAMPLE; i++) {
        for (int32_t step = 0; step < steps; step++) {
            const double rest = (double)l->axes->rests[i * steps + step];
            const double spanned = sqrt(fmax(l->axes->lengths[i] - rest * rest, 0.0));
            l->longest[step] = fmax(l->longest[step], spanned);
        }
    }
}

/* How far apart two shadows of 0, 16, 32, ... axes may be that a trial row must meet, by type. */
static void set_far(choosing *l)
{
    const int32_t steps = kin_axes_steps(l->axes->count);
    for (int64_t row = 0; row < KIN_TRIAL_ROWS; row++) {
        for (int32_t i = 0; i < l->types * steps; i++) {
            const kin_tile_type type = l->ladder[i / steps]->type;
            const double all =
                reach_of(l, row) + 2.0 * usual_loss(l, type, i % steps * KIN_AXES_STEP);
            l->far[row * l->types * steps + i] = (float)(all * all);
        }
    }
}

static const prices *prices_of(const kin_shadow_job *job)
{
    return job->few ? &FEW : &MANY;
}

/* And the tests. */
static double words_of(const kin_shadow_job *job, const kin_tile_kernel *kernel, int64_t cols)
{
    const double words = kin_type_words(kernel, cols);
    return (job->few ? words / kernel->word_cost : words) + prices_of(job)->tests;
}

/* With the length of the rest they fill their words. */
static int32_t kept_axes(int32_t step)
{
    return step * KIN_AXES_STEP - 1;
}

/* Of the pairs, those that pass so many axes. */
static double share_of(const choosing *l, int type, int32_t step)
{
    int64_t passed = 1;
    const int32_t steps = kin_axes_steps(l->axes->count);
    for (int64_t row = 0; row < KIN_TRIAL_ROWS; row++) {
        passed += l->passed[(row * l->types + type) * steps + step];
    }
    return (double)passed / (KIN_TRIAL_ROWS * KIN_AXES_SAMPLE) * l->job->ends * EARLY;
}

/* What a screen by so many axes takes a pair, all pairs or (sieve > 0) those that pass another.
 * Rows of the corpus are cast first: fp32 products, as dear as words (less where a unit multiplies
 * bytes, which is not counted). */
static double price_of(const choosing *l, int type, int32_t step, int32_t sieve)
{
    const kin_tile_kernel *kernel = l->ladder[type];
    const prices *own = prices_of(l->job);
    const double casts =
        l->job->few ? 0.0 : (double)l->corpus->groups.count * (double)l->axes->wide / l->job->pairs;
    const kin_frame *frame = &l->corpus->frame;
    const double share = share_of(l, type, step);
    const double looks =
        l->tiles
            ? fmin(SHARE_OF_TILES * sqrt(share), 1.0) * words_of(l->job, frame->kernel, frame->cols)
            : fmin(share, 1.0) * (own->look + own->look_word * (double)frame->groups);
    const double words = words_of(l->job, kernel, kept_axes(step) + 1);
    const double price = casts * kept_axes(step) + looks;
    if (sieve == 0) {
        return price + words;
    }
    const double rows = fmin(pow(share_of(l, type, sieve), ROWS_OF_SIEVE), 1.0);
    return price + casts * kept_axes(sieve) + words_of(l->job, kernel, kept_axes(sieve) + 1) +
           rows * DEARER_ROWS * words;
}

static void take_least(choosing *l)
{
    const int32_t steps = kin_axes_steps(l->axes->count);
    for (int type = 0; type < l->types; type++) {
        for (int32_t step = l->tiles ? steps - 1 : 1; step < steps; step++) {
            const bool sieves = l->sieves && l->ladder[type]->sieve != NULL;
            const int32_t most =
                sieves ? (int32_t)kin_min_i64(step - 1, MOST_SIEVE / KIN_AXES_STEP) : 0;
            for (int32_t sieve = 0; sieve <= most; sieve++) {
                const double price = price_of(l, type, step, sieve);
                if (price < l->least) {
                    l->least = price;
                    l->choice = (kin_shadow_choice){l->ladder[type], kept_axes(step), l->tiles,
                                                    sieve > 0 ? kept_axes(sieve) : 0};
                }
            }
        }
    }
}

/* The kernel that says which tiles of this frame are looked at; NULL: pairs are. */
static const kin_tile_kernel *gate_of(const kin_frame *frame)
{
    const kin_tile_kernel *bytes = kin_tile_get(frame->distance.isa, KIN_TILE_S8);
    const bool tiles = bytes != NULL && bytes->gate != NULL && frame->kernel->isa == bytes->isa &&
                       frame->groups >= LEAST_GROUPS_OF_TILES;
    return tiles ? bytes : NULL;
}

static int32_t most_axes(const kin_frame *frame, bool tiles)
{
    const int64_t most = tiles ? KIN_GATE_AXES + 1 : MOST_AXES;
    return (int32_t)kin_min_i64(most, frame->cols / 2) / KIN_AXES_STEP * KIN_AXES_STEP;
}

bool kin_shadow_may(const kin_frame *frame, int64_t points, const kin_shadow_job *job)
{
    return kin_metric_get_traits(frame->distance.metric)->screen == KIN_SCREEN_DISTANCE &&
           frame->cols >= LEAST_COLS && !kin_type_settled(points, job->k) &&
           (job->few || job->pairs * words_of(job, frame->kernel, frame->cols) >=
                            (gate_of(frame) != NULL ? LEAST_WORDS_OF_TILES : LEAST_WORDS));
}

static kith_status choose(kith_ctx *ctx, choosing *l)
{
    const kin_frame *frame = &l->corpus->frame;
    l->least = WORTH * words_of(l->job, frame->kernel, frame->cols);
    if (l->job->few) {
        l->ladder[l->types++] = &kin_tile_s8_portable; /* whose groups are not rounded up */
    } else if (l->tiles) {
        l->ladder[l->types++] = gate_of(frame);
    } else {
        l->types = kin_type_ladder(ctx->isa, l->axes->count + 1, l->ladder);
    }
    find_longest(l);
    set_far(l);
    const kin_axes_test test = {
        .rows = KIN_TRIAL_ROWS, .types = l->types, .far = l->far, .passed = l->passed};
    KIN_TRY(kin_axes_run_test(ctx, l->axes, &test));
    take_least(l);
    return KITH_OK;
}

/* ---- A basis --------------------------------------------------------------------------------- */

static void name_shadow(kin_layout *layout, void *job)
{
    kin_shadow *s = job;
    s->mean = kin_layout_zeros(layout, (uint64_t)s->wide, sizeof *s->mean);
    s->basis = kin_layout_zeros(layout, (uint64_t)(s->wide * s->padded), sizeof *s->basis);
    s->middle = kin_layout_zeros(layout, (uint64_t)kin_round_up(s->axes + 1, KIN_METRIC_LANES),
                                 sizeof *s->middle);
}

static kin_shadow shape_of(int32_t axes, int32_t cols)
{
    return (kin_shadow){.axes = axes,
                        .wide = kin_round_up(cols, KIN_PROJECT_STEP),
                        .padded = kin_round_up(axes, KIN_PROJECT_AXES)};
}

static kin_frame frame_of(const kin_distance *distance, const kin_tile_kernel *kernel, int32_t axes,
                          const kin_frame_stats *stats)
{
    kin_distance own = *distance;
    own.metric = KITH_SQEUCLIDEAN;
    own.cols = axes + 1;
    return kin_frame_make(&own, kernel, false, stats);
}

/* The frame of shadows, by those of the sample. */
static void set_frame(const kin_axes *a, const kin_prepared *corpus, const kin_tile_kernel *kernel,
                      kin_shadow *s)
{
    kin_frame_stats stats = {.mean = s->middle};
    for (int64_t i = 0; i < KIN_AXES_SAMPLE; i++) {
        kin_axes_shadow(a, i, a->sums);
        for (int32_t j = 0; j <= a->count; j++) {
            s->middle[j] += a->sums[j] / KIN_AXES_SAMPLE;
        }
    }
    for (int64_t i = 0; i < KIN_AXES_SAMPLE; i++) {
        double norm_sq = 0.0;
        kin_axes_shadow(a, i, a->sums);
        for (int32_t j = 0; j <= a->count; j++) {
            const double x = fabs(a->sums[j] - s->middle[j]);
            stats.largest = fmax(stats.largest, x);
            norm_sq += x * x;
        }
        stats.largest_norm = fmax(stats.largest_norm, sqrt(norm_sq));
    }
    stats.largest *= HEADROOM;
    stats.largest_norm *= HEADROOM;
    s->frame = frame_of(&corpus->distance, kernel, a->count, &stats);
}

/* What multiplies bytes is whole numbers (screen_cast.c): of two digits that are bytes, and so that
 * sums of their products with 128 are below 2^31. */
static double set_whole(const kin_axes *a)
{
    static const double MOST = 32512.0;
    static const double MOST_SUM = 0x1p23;
    double most = 0x1p-10;
    for (int32_t j = 0; j < a->count; j++) {
        double sum = 0.0;
        for (int64_t c = 0; c < a->wide; c++) {
            const double x = fabs((double)a->basis[c * a->padded + j]);
            sum += x;
            most = fmax(most, x);
        }
        most = fmax(most, sum * (MOST / MOST_SUM));
    }
    const double grid = ldexp(1.0, ilogb(MOST / most));
    for (int64_t i = 0; i < a->wide * a->padded; i++) {
        a->basis[i] = (float)(nearbyint((double)a->basis[i] * grid) / grid);
    }
    return grid;
}

/* Of the first axes. */
static kith_status make_one(kith_ctx *ctx, const kin_prepared *corpus, kin_shadow_choice choice,
                            kin_axes *axes, kin_shadow *shadow)
{
    kin_shadow made = shape_of(choice.axes, corpus->distance.cols);
    made.tiles = choice.tiles;
    KIN_TRY(kin_axes_mix(ctx, choice.axes, axes));
    made.grid = corpus->frame.bound == KIN_BOUND_INTEGER && corpus->frame.kernel->multiply != NULL
                    ? set_whole(axes)
                    : 0.0;
    KIN_TRY(kin_layout_make(ctx, name_shadow, &made, "a basis", &made.block));
    set_frame(axes, corpus, choice.kernel, &made);
    memcpy(made.mean, axes->mean, (size_t)axes->wide * sizeof *axes->mean);
    memcpy(made.basis, axes->basis, (size_t)(axes->wide * axes->padded) * sizeof *axes->basis);
    made.skew = kin_axes_skew(axes);
    *shadow = made;
    return KITH_OK;
}

/* The first axes of a sieve stay in the span of those of the shadows, which are mixed later. */
static kith_status make(kith_ctx *ctx, const kin_prepared *corpus, kin_shadow_choice choice,
                        kin_axes *axes, kin_shadow *shadow, kin_shadow *sieve)
{
    if (choice.sieve > 0) {
        const kin_shadow_choice fewer = {choice.kernel, choice.sieve, false, 0};
        KIN_TRY(make_one(ctx, corpus, fewer, axes, sieve));
    }
    const kith_status status = make_one(ctx, corpus, choice, axes, shadow);
    if (status != KITH_OK && sieve != NULL) {
        kin_shadow_free(ctx, sieve); /* which nothing asks before shadows */
    }
    return status;
}

static kin_axes_points points_of(const kin_prepared *corpus)
{
    return (kin_axes_points){&corpus->distance, &corpus->rows, corpus->order, corpus->groups.count,
                             corpus->frame.scale};
}

static kith_status learn(kith_ctx *ctx, choosing *l, kin_shadow *shadow, kin_shadow *sieve)
{
    const kin_axes_points points = points_of(l->corpus);
    kin_trial trial;
    kin_axes axes;
    KIN_TRY(kin_trial_make(ctx, l->corpus, l->job->k, &trial));
    kith_status status = kin_axes_make(ctx, &points, most_axes(&l->corpus->frame, l->tiles),
                                       trial.ids, KIN_TRIAL_ROWS, &axes);
    l->trial = &trial;
    l->axes = &axes;
    KIN_THEN(status, choose(ctx, l));
    if (status == KITH_OK && l->choice.axes > 0) {
        status = make(ctx, l->corpus, l->choice, &axes, shadow, sieve);
    }
    kin_axes_free(ctx, &axes);
    kin_trial_free(ctx, &trial);
    l->axes = NULL;
    l->trial = NULL;
    return status;
}

static kith_status take_given(kith_ctx *ctx, const kin_prepared *corpus, kin_shadow_choice given,
                              kin_shadow *shadow, kin_shadow *sieve)
{
    const kin_axes_points points = points_of(corpus);
    kin_axes axes;
    KIN_TRY(kin_axes_make(ctx, &points, given.axes, NULL, 0, &axes));
    const kith_status status = make(ctx, corpus, given, &axes, shadow, sieve);
    kin_axes_free(ctx, &axes);
    return status;
}

kith_status kin_shadow_learn(kith_ctx *ctx, const kin_prepared *corpus, const kin_shadow_job *job,
                             kin_shadow *shadow, kin_shadow *sieve)
{
    choosing l = {.corpus = corpus,
                  .job = job,
                  .tiles = !job->few && gate_of(&corpus->frame) != NULL,
                  .sieves = sieve != NULL};
    memset(shadow, 0, sizeof *shadow);
    if (sieve != NULL) {
        memset(sieve, 0, sizeof *sieve);
    }
    if (job->given.axes > 0) {
        return corpus->groups.count > 0 ? take_given(ctx, corpus, job->given, shadow, sieve)
                                        : KITH_OK;
    }
    return kin_shadow_may(&corpus->frame, corpus->groups.count, job) ? learn(ctx, &l, shadow, sieve)
                                                                     : KITH_OK;
}

kin_shadow kin_shadow_shape(const kin_frame *frame)
{
    const kin_frame_stats stats = {.largest = 1.0, .largest_norm = 1.0};
    const kin_tile_kernel *gate = gate_of(frame);
    kin_shadow shape =
        shape_of(gate != NULL ? KIN_GATE_AXES : most_axes(frame, false), frame->cols);
    const kin_tile_kernel *ladder[KIN_TYPE_LADDER] = {gate};
    const int count =
        gate != NULL ? 1 : kin_type_ladder(frame->distance.isa, shape.axes + 1, ladder);
    shape.tiles = gate != NULL;
    for (int i = 0; i < count; i++) {
        const kin_frame one = frame_of(&frame->distance, ladder[i], shape.axes, &stats);
        shape.frame = one.groups > shape.frame.groups ? one : shape.frame;
    }
    return shape;
}

kin_shadow kin_shadow_sieve_shape(const kin_frame *frame)
{
    const kin_frame_stats stats = {.largest = 1.0, .largest_norm = 1.0};
    const kin_tile_kernel *ladder[KIN_TYPE_LADDER];
    const int32_t axes = (int32_t)kin_min_i64(MOST_SIEVE, most_axes(frame, false)) - 1;
    kin_shadow shape = shape_of(axes, frame->cols);
    const int count = gate_of(frame) != NULL
                          ? 0
                          : kin_type_ladder(frame->distance.isa, most_axes(frame, false), ladder);
    for (int i = 0; i < count; i++) {
        const kin_frame one = frame_of(&frame->distance, ladder[i], axes, &stats);
        if (ladder[i]->sieve != NULL && one.groups > shape.frame.groups) {
            shape.frame = one;
        }
    }
    return shape.frame.groups > 0 ? shape : (kin_shadow){0};
}

void kin_shadow_learn_plan(kin_layout *plan, const kin_set *set, int64_t k, int32_t threads,
                           kin_shadow *shape, kin_shadow *sieve)
{
    const int32_t cols = set->frame->cols;
    kin_trial_plan(plan, set, k, threads);
    /* Lists, rows and copies of the trial stay while axes are found. */
    const uint64_t before = kin_layout_mark(plan);
    kin_trial_keep_plan(plan, set, k);
    kin_shadow_plan(plan, shape); /* made while there are axes */
    if (sieve->axes > 0) {
        kin_shadow_plan(plan, sieve);
    }
    kin_axes_plan(plan, cols, most_axes(set->frame, shape->tiles), KIN_TRIAL_ROWS, threads);
    kin_layout_back(plan, before);
}

void kin_shadow_plan(kin_layout *plan, kin_shadow *shape)
{
    kin_layout_block(plan, name_shadow, shape);
}

void kin_shadow_free(kith_ctx *ctx, kin_shadow *shadow)
{
    kin_free(ctx, shadow->block);
    memset(shadow, 0, sizeof *shadow);
}
